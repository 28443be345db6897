"""Document memory kept in step with the files: what changed is read, what went is forgotten, the rest is not touched.

A sync looks at every file (size, times, inode) and reads only those that look different; of those only the ones whose hash
differs are cut and indexed anew, and of them only texts that have no vector yet are embedded. What is read is put aside first;
then one transaction makes it the index. A process that dies before leaves the index as it was, and readers never see a part. If
another sync came between the look and the transaction, the files are looked at again: an older look never undoes a newer one.

Vectors follow in transactions of their own, so that the work of a slow model is not lost. Those of a new model are built beside
the old ones: the old model answers until the new one has them all, then the old ones go.

>>> from datetime import UTC, datetime
>>> index = DocumentIndex(":memory:")
>>> note = Document("journal/1.md", "journal", 3, "# Gold\\nStopped out by noise.", name="journal 1")
>>> index.put("ann", "gold", [note], now=datetime(2026, 5, 12, tzinfo=UTC)).chunks
1
>>> index.health("ann", "gold", now=datetime(2026, 5, 12, 0, 1, tzinfo=UTC)).stale_seconds
60.0
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import apsw

from memtape.core.codec import digest, micros, moment
from memtape.documents import sources
from memtape.documents.cache import GLOBAL, Cache
from memtape.documents.chunks import Chunk, cut_document
from memtape.documents.citations import content_hash, lines_of
from memtape.documents.question import paired
from memtape.documents.reports import report_of
from memtape.documents.sources import DocumentFolder, FileEntry, SkippedFile
from memtape.documents.vectors import Filled, Vectors, fill_vectors, forget_models, is_ready, missing_in, models_made
from memtape.errors import Conflict, Invalid
from memtape.plugs.embedder import Embedder

COMPUTED = 2
NOT_TEXT = "not text"  # as `sources.read` says it: such a file is not read again until it looks different
TRIES = 8  # looks at the files, if others write to the same index all the time
TOLD = "@watch"  # a problem under this name is not of the files: no sync ends it
Known = tuple[tuple[object, ...], str]  # what a file looked like, and the hash of its text
Revision = tuple[int, int] | None  # a scope and which state of it; none: nothing was ever indexed


@dataclass(frozen=True, slots=True)
class Document:
    """A text to be indexed."""

    path: str
    type: str
    tier: int
    text: str
    name: str = ""  # words that name it, searched with every part of it
    seen: FileEntry | None = None


@dataclass(frozen=True, slots=True)
class Synced:
    """What a sync found and did."""

    documents: int = 0
    chunks: int = 0
    read: int = 0  # files whose body was read
    added: int = 0
    changed: int = 0
    removed: int = 0
    vectors: Filled = field(default_factory=Filled)
    problems: tuple[SkippedFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Pending:
    """Files that look different from what is indexed: what a sync would read or forget."""

    added: int = 0
    changed: int = 0
    removed: int = 0

    @property
    def total(self) -> int:
        return self.added + self.changed + self.removed


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many passages have a vector of a model, and whether it may answer yet."""

    model: str
    have: int
    of: int
    answers: bool


@dataclass(frozen=True, slots=True)
class Health:
    """How the index of an agent stands, its shared documents not counted."""

    last_sync: datetime | None
    documents: int
    chunks: int
    problems: tuple[SkippedFile, ...]
    stale_seconds: float | None
    models: tuple[str, ...]  # that may answer: whose vectors were complete once
    roots: tuple[str, ...]
    coverage: tuple[Coverage, ...] = ()


class DocumentIndex:
    """The index of all owners and agents, in one file."""

    def __init__(self, path: str | Path) -> None:
        self.cache = Cache(path)
        self._vectors = Vectors(self.cache)

    @property
    def path(self) -> str:
        """Where it is kept."""
        return self.cache.path

    def close(self) -> None:
        """Let go of the file."""
        self.cache.close()

    def check(self) -> None:
        """Look at every page of the file; refused if one is damaged."""
        self.cache.check()

    def stem(self, word: str) -> str:
        """A word in the form in which it is looked for."""
        return self.cache.stem(word)

    # --- following files ----------------------------------------------------------------------------------------------------

    def sync(
        self, owner: str, agent: str, places: Sequence[DocumentFolder], *, now: datetime, embedder: Embedder | None = None,
        anew: bool = False,
    ) -> Synced:  # fmt: skip
        """Bring the index of an agent (of all agents: `GLOBAL`) in step with its folders; `anew` reads every file again."""
        if len({place.prefix for place in places}) < len(places):
            raise Invalid("sources", "two of them name their documents alike", "Give each a prefix of its own")
        counted = self._tried(owner, agent, places, now=now, anew=anew)
        return self._told(owner, agent, counted, embedder)

    def refresh(self, owner: str, agent: str, place: DocumentFolder) -> None:
        """Bring what one source lists in step, and leave all else as it is, the time of the last sync too; no index is made."""
        if self.holds(owner, agent):
            self._tried(owner, agent, [place], only=place.prefix)

    def holds(self, owner: str, agent: str) -> bool:
        """Whether anything was ever indexed for an agent."""
        with self.cache.reading():
            return self.cache.scope(owner, agent) is not None

    def _tried(
        self,
        owner: str,
        agent: str,
        places: Sequence[DocumentFolder],
        *,
        now: datetime | None = None,
        anew: bool = False,
        only: str = "",
    ) -> Synced:
        """Sync, looking again as often as another was quicker; what was read is not read twice."""
        with closing(_Aside()) as aside:
            for _ in range(TRIES):
                counted = self._attempt(owner, agent, places, aside, now, anew, only)
                if counted is not None:
                    return replace(counted, read=aside.read)
        raise Conflict("documents", "others write to this index all the time", "Try again when they rest")

    def _attempt(
        self, owner: str, agent: str, places: Sequence[DocumentFolder], aside: _Aside, now: datetime | None, anew: bool, only: str
    ) -> Synced | None:
        """Look at the files, read and write; nothing if another wrote meanwhile, who may have looked later."""
        state, known, refused = self._state(owner, agent, only)
        if anew:
            known, refused = {}, {}
        seen, problems = _looked_at(places)
        fresh = _differing(seen, known)
        unread = {each.path: NOT_TEXT for each in fresh if refused.get(each.path) == (_look(each), NOT_TEXT)}
        fresh = [each for each in fresh if each.path not in unread]
        problems += [SkippedFile(*each) for each in unread.items()] + aside.take(fresh)
        with self.cache.writing():
            if self._revision(owner, agent) != state:
                return None
            scope = self._scope(owner, agent)
            gone = self._paths(scope, only) - seen.keys()
            counted = self._apply(scope, aside.documents(fresh, known), _unhidden(gone, problems))
            if not only:
                self._note(scope, places, problems, seen)
            self._finish(scope, now, counted)
        return counted

    def put(
        self, owner: str, agent: str, documents: Iterable[Document], *, now: datetime, embedder: Embedder | None = None
    ) -> Synced:
        """Index texts that are not files; the others of the agent stay. A later sync of the same agent forgets them again."""
        staged = ((each, False) for each in documents)
        with self.cache.writing():
            scope = self._scope(owner, agent)
            counted = self._apply(scope, staged, set())
            self._finish(scope, now, counted)
        return self._told(owner, agent, counted, embedder)

    def _told(self, owner: str, agent: str, counted: Synced, embedder: Embedder | None) -> Synced:
        filled = self.fill(owner, agent, embedder) if embedder else Filled()
        health = self.health(owner, agent)
        return replace(counted, documents=health.documents, chunks=health.chunks, problems=health.problems, vectors=filled)

    def _scope(self, owner: str, agent: str) -> int:
        scope = self.cache.scope(owner, agent, make=True)
        assert scope is not None
        return scope

    def _state(self, owner: str, agent: str, only: str = "") -> tuple[Revision, dict[str, Known], dict[str, tuple[str, str]]]:
        """What is indexed: its revision; every document's file as it was when it was read, and the hash of its text; files that
        could not be read, as they looked then, and why not."""
        with self.cache.reading() as connection:
            revision = self._revision(owner, agent)
            scope = revision[0] if revision else None
            sql = "SELECT path, size, mtime_ns, ctime_ns, inode, given, hash FROM documents WHERE scope = ?"
            rows: list[Any] = connection.execute(sql, (scope,)).fetchall()
            refused: list[Any] = connection.execute("SELECT path, look, problem FROM unread WHERE scope = ?", (scope,)).fetchall()
        known = {row[0]: (row[1:6], row[6]) for row in rows if row[0].startswith(only)}
        return revision, known, {path: (look, problem) for path, look, problem in refused}

    def _revision(self, owner: str, agent: str) -> Revision:
        """Which state of which scope this is, inside a transaction: it is another after every sync that changed anything."""
        sql = "SELECT id, revision FROM scopes WHERE owner = ? AND agent = ?"
        rows: list[Any] = self.cache.connection.execute(sql, (owner, agent)).fetchall()
        return (rows[0][0], rows[0][1]) if rows else None

    def _paths(self, scope: int, only: str) -> set[str]:
        rows: list[Any] = self.cache.connection.execute("SELECT path FROM documents WHERE scope = ?", (scope,)).fetchall()
        return {path for (path,) in rows if path.startswith(only)}

    # --- one transaction ----------------------------------------------------------------------------------------------------

    def _apply(self, scope: int, staged: Iterable[tuple[Document, bool]], gone: set[str]) -> Synced:
        """Put documents in their place; of one whose text is the same, only what its file looks like."""
        connection, counted, dropped = self.cache.connection, Synced(), set[str]()
        for path in sorted(gone):
            dropped |= self._remove(scope, path)
        for document, same in staged:
            if same:
                self._resign(scope, document)
                continue
            before = self._remove(scope, document.path)
            dropped |= before
            self._insert(scope, document)
            counted = replace(counted, changed=counted.changed + 1) if before else replace(counted, added=counted.added + 1)
        unused = "NOT EXISTS (SELECT 1 FROM chunks WHERE chunks.hash = vectors.hash)"
        sql = f"DELETE FROM vectors WHERE model = ? AND hash = ? AND {unused}"
        for model in models_made(self.cache) if dropped else ():
            connection.executemany(sql, [(model, each) for each in sorted(dropped)])
        return replace(counted, removed=len(gone))

    def _remove(self, scope: int, path: str) -> set[str]:
        """Forget a document; the hashes of what it said."""
        connection = self.cache.connection
        found = connection.execute("SELECT id FROM documents WHERE scope = ? AND path = ?", (scope, path)).fetchall()
        if not found:
            return set()
        number = found[0][0]
        chunks = connection.execute("DELETE FROM chunks WHERE document = ? RETURNING id, hash", (number,)).fetchall()
        connection.executemany(f"DELETE FROM words_{scope} WHERE rowid = ?", [(chunk,) for chunk, _ in chunks])
        connection.execute(f"DELETE FROM whole_{scope} WHERE rowid = ?", (number,))
        connection.execute("DELETE FROM documents WHERE id = ?", (number,))
        return {str(hash) for _, hash in chunks} or {""}

    def _resign(self, scope: int, document: Document) -> None:
        assert document.seen is not None
        sql = "UPDATE documents SET file = ?, size = ?, mtime_ns = ?, ctime_ns = ?, inode = ? WHERE scope = ? AND path = ?"
        values = (str(document.seen.file), *document.seen.signature, scope, document.path)
        self.cache.connection.execute(sql, values)

    def _insert(self, scope: int, document: Document) -> None:
        connection, text = self.cache.connection, document.text
        report = report_of(text) if document.type == "report" else None
        file, signature = (str(document.seen.file), document.seen.signature) if document.seen else ("", (len(text), 0, 0, 0))
        figures = None if report is None else json.dumps(asdict(report), sort_keys=True)
        sql = (
            "INSERT INTO documents (scope, path, file, type, tier, size, mtime_ns, ctime_ns, inode, given, hash, figures) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id"
        )
        tier = COMPUTED if report is not None and document.tier > COMPUTED else document.tier
        values = (scope, document.path, file, document.type, tier, *signature, _given(document), digest(text), figures)
        number = int(connection.execute(sql, values).fetchall()[0][0])  # type: ignore[arg-type]
        chunks, lines = cut_document(text), lines_of(text)
        hashed: dict[tuple[int, int], str] = {}  # a long line is cut into many passages, all of which cite it whole
        for chunk in chunks:
            of = chunk.start_line, chunk.end_line
            if of not in hashed:
                hashed = {of: content_hash("\n".join(lines[of[0] - 1 : of[1]]))}
            self._insert_chunk(scope, number, document.name, chunk, hashed[of], alone=len(chunks) == 1)
        if len(chunks) > 1:  # of one that is a single passage, the passage says it all
            whole = f"INSERT INTO whole_{scope} (rowid, head, body, pairs) VALUES (?, ?, ?, ?)"
            connection.execute(whole, (number, document.name, text, paired(text)))
        if len(chunks) != 1:
            connection.execute("UPDATE documents SET chunks = ? WHERE id = ?", (len(chunks), number))

    def _insert_chunk(self, scope: int, number: int, name: str, chunk: Chunk, cited: str, *, alone: bool) -> None:
        connection = self.cache.connection
        sql = (
            "INSERT INTO chunks (scope, document, start_line, end_line, start, end, headings, hash, content_hash, alone, text) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id"
        )
        above = "\n".join(chunk.headings)
        places = (chunk.start_line, chunk.end_line, chunk.start, chunk.end)
        values = (scope, number, *places, above, chunk.hash, cited, alone, chunk.text)
        row = int(connection.execute(sql, values).fetchall()[0][0])  # type: ignore[arg-type]
        head = " ".join((name, *(heading for heading in chunk.headings if heading not in chunk.text)))
        words = f"INSERT INTO words_{scope} (rowid, head, body, pairs) VALUES (?, ?, ?, ?)"
        connection.execute(words, (row, head, chunk.text, paired(f"{head} {chunk.text}")))

    def _note(
        self, scope: int, places: Sequence[DocumentFolder], problems: Sequence[SkippedFile], seen: Mapping[str, FileEntry]
    ) -> None:
        """Where the documents are from, and which could not be read, as they look."""
        connection = self.cache.connection
        for table in ("sources", "unread"):
            connection.execute(f"DELETE FROM {table} WHERE scope = ?", (scope,))
        connection.execute("DELETE FROM problems WHERE scope = ? AND path <> ?", (scope, TOLD))
        rows = [(scope, str(place.root), place.prefix, place.type, place.tier) for place in places]
        connection.executemany("INSERT INTO sources VALUES (?, ?, ?, ?, ?)", rows)
        wrong = [(scope, each.path, each.problem) for each in problems]
        connection.executemany("INSERT OR REPLACE INTO problems VALUES (?, ?, ?)", wrong)
        unread = [(scope, each.path, _look(seen[each.path]), each.problem) for each in problems if each.path in seen]
        connection.executemany("INSERT OR REPLACE INTO unread VALUES (?, ?, ?, ?)", unread)

    def _finish(self, scope: int, now: datetime | None, counted: Synced) -> None:
        """Note the time; and that there is something new, for whoever holds what was read of this scope."""
        sql = "UPDATE scopes SET revision = revision + ?, synced_at = coalesce(?, synced_at) WHERE id = ?"
        changed = bool(counted.added or counted.changed or counted.removed)
        self.cache.connection.execute(sql, (int(changed), None if now is None else micros(now), scope))

    # --- vectors, health ----------------------------------------------------------------------------------------------------

    def fill(self, owner: str, agent: str, embedder: Embedder) -> Filled:
        """Embed what has no vector of this model yet; when all have, those of other models go as soon as nothing needs them."""
        filled = fill_vectors(self.cache, owner, agent, embedder)
        if filled.complete:
            forget_models(self.cache, owner, embedder.id)
        return filled

    def near(
        self, scopes: Sequence[int], embedder: Embedder, vector: Any, pool: int, also: Collection[int], types: Sequence[str] = ()
    ) -> tuple[dict[int, float], int]:
        """The passages nearest to a vector, how near those are that something else found, and how many have no vector; inside a
        transaction."""
        return self._vectors.near(scopes, embedder, vector, pool, also, types)

    @property
    def held_bytes(self) -> int:
        """What the vectors in memory take."""
        return self._vectors.nbytes()

    def health(self, owner: str, agent: str, *, now: datetime | None = None) -> Health:
        """How the index of an agent stands; how old it is, if the time is given."""
        with self.cache.reading() as connection:
            scope = self.cache.scope(owner, agent)
            if scope is None:
                return Health(None, 0, 0, (), None, (), ())

            def rows(sql: str) -> list[Any]:
                return connection.execute(sql, (scope,)).fetchall()

            synced = rows("SELECT synced_at FROM scopes WHERE id = ?")[0][0]
            last = None if synced is None else moment(synced)
            documents, chunks = rows("SELECT count(*), coalesce(sum(chunks), 0) FROM documents WHERE scope = ?")[0]
            return Health(
                last,
                documents,
                chunks,
                tuple(SkippedFile(*row) for row in rows("SELECT path, problem FROM problems WHERE scope = ? ORDER BY path")),
                None if now is None or last is None else max((now - last).total_seconds(), 0.0),
                tuple(row[0] for row in rows("SELECT model FROM models WHERE scope = ? ORDER BY model")),
                tuple(row[0] for row in rows("SELECT root FROM sources WHERE scope = ? ORDER BY prefix")),
                self._coverage(scope, chunks),
            )

    def _coverage(self, scope: int, chunks: int) -> tuple[Coverage, ...]:
        """How far each model has come in a scope; one that has nothing there is not named."""
        found = []
        for model in models_made(self.cache):
            have = chunks - missing_in(self.cache, [scope], model)
            if have:
                found.append(Coverage(model, have, chunks, is_ready(self.cache, scope, model)))
        return tuple(found)

    def pending(self, owner: str, agent: str, places: Sequence[DocumentFolder]) -> Pending:
        """How many files differ from the index now, by the same look as a sync's and without reading any."""
        _, known, refused = self._state(owner, agent)
        seen, problems = _looked_at(places)
        differing = [each for each in _differing(seen, known) if refused.get(each.path, ("", ""))[0] != _look(each)]
        added = sum(each.path not in known for each in differing)
        return Pending(added, len(differing) - added, len(_unhidden(known.keys() - seen.keys(), problems)))

    def file(self, owner: str, agent: str, path: str) -> Path | None:
        """Where a document lies, the agent's own or a shared one; none where there is no such document."""
        with self.cache.reading() as connection:
            for of in dict.fromkeys((agent, GLOBAL)):
                scope = self.cache.scope(owner, of)
                found = connection.execute("SELECT file FROM documents WHERE scope = ? AND path = ?", (scope, path)).fetchall()
                if found:
                    return Path(str(found[0][0]))
        return None

    def forget(self, owner: str, agent: str) -> None:
        """Drop the index of an agent, and leave none of its words in the cache. The files stay."""
        with self.cache.writing() as connection:
            scope = self.cache.scope(owner, agent)
            if scope is None:
                return
            for table in ("vocabulary", "words", "whole"):
                connection.execute(f"DROP TABLE {table}_{scope}")
            for table in ("documents", "chunks", "problems", "unread", "models", "sources"):
                connection.execute(f"DELETE FROM {table} WHERE scope = ?", (scope,))
            connection.execute("DELETE FROM scopes WHERE id = ?", (scope,))
            connection.execute("DELETE FROM vectors WHERE hash NOT IN (SELECT hash FROM chunks)")
        self.cache.scrub()


def _given(each: FileEntry | Document) -> str:
    """Type and tier as its place says them; what stands in a report may raise it above that."""
    return f"{each.type} {each.tier}"


def _look(each: FileEntry) -> str:
    return f"{each.signature} {_given(each)}"


def _differing(seen: Mapping[str, FileEntry], known: Mapping[str, Known]) -> list[FileEntry]:
    """The files that do not look as they did when they were read."""
    return [each for each in seen.values() if known.get(each.path, ((), ""))[0] != (*each.signature, _given(each))]


class _Aside:
    """What was read, put aside until a transaction takes it: gone when closed, and no lock is held while files are read."""

    def __init__(self) -> None:
        self.read = 0  # files whose body was read
        self._texts = apsw.Connection("")
        self._texts.execute("CREATE TABLE texts (path TEXT PRIMARY KEY, text TEXT); BEGIN")
        self._came: dict[
            str, tuple[str, str | SkippedFile]
        ] = {}  # how each looked, and the hash of its text or why there is none

    def close(self) -> None:
        self._texts.close()

    def take(self, fresh: Iterable[FileEntry]) -> list[SkippedFile]:
        """Read files, but for those that were read before and look as they did then; those that could not be."""
        for seen in fresh:
            if self._came.get(seen.path, ("", ""))[0] == _look(seen):
                continue
            text = sources.read_text_file(seen)
            self.read += 1
            if isinstance(text, str):
                self._texts.execute("INSERT OR REPLACE INTO texts VALUES (?, ?)", (seen.path, text))
            self._came[seen.path] = _look(seen), digest(text) if isinstance(text, str) else text
        return [came for seen in fresh if isinstance(came := self._came[seen.path][1], SkippedFile)]

    def documents(self, fresh: Iterable[FileEntry], known: Mapping[str, Known]) -> Iterator[tuple[Document, bool]]:
        """Each that could be read as a document, and whether its text is the one that is indexed."""
        for seen in fresh:
            came = self._came[seen.path][1]
            if isinstance(came, SkippedFile):
                continue
            before, hash = known.get(seen.path, ((), ""))
            rows: list[Any] = self._texts.execute("SELECT text FROM texts WHERE path = ?", (seen.path,)).fetchall()
            yield _document(seen, rows[0][0]), hash == came and before[-1] == _given(seen)


def _unhidden(gone: Iterable[str], problems: Sequence[SkippedFile]) -> set[str]:
    """Documents that are gone for sure: not those of which a walk could not tell."""
    closed = [each for each in problems if each.unseen]
    return {path for path in gone if not any(each.hides(path) for each in closed)}


def _looked_at(places: Sequence[DocumentFolder]) -> tuple[dict[str, FileEntry], list[SkippedFile]]:
    seen: dict[str, FileEntry] = {}
    problems: list[SkippedFile] = []
    for place in places:
        for each in sources.walk(place):
            if isinstance(each, SkippedFile):
                problems.append(each)
            else:
                seen[each.path] = each
    return seen, problems


def _document(seen: FileEntry, text: str) -> Document:
    stem = seen.path.rpartition(".")[0] or seen.path
    return Document(seen.path, seen.type, seen.tier, text, " ".join(stem.replace("_", " ").replace("-", " ").split("/")), seen)
