"""What document memory costs: to ask, to index, to look whether anything changed, to hold.

The library that is searched is made of words as texts are: the n-th most common word is said about 1/n as often as the first
(Zipf), the notes have one to eight passages, and one note in ten names a thing that no other names. Every question is asked once
only, so that nothing is quick because it was asked before.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import apsw

from memtape.documents import lexical
from memtape.documents.chunks import cut_document
from memtape.documents.index import DocumentIndex
from memtape.documents.index_writer import Document
from memtape.documents.question import any_word_query, parse_question
from memtape.documents.search import Slot, search_index
from memtape.documents.sources import DocumentFolder
from memtape.lab.benches.desk import LIVE, Bench
from memtape.lab.benches.timing import Result, Sides, Work, cpu, in_turn, judged, milliseconds, took, wall
from memtape.plugs.embedder import StaticEmbedder

OWNER, AGENT = "local", "bench"
SYLLABLES = ("ba", "be", "bi", "bo", "da", "de", "do", "ga", "go", "ka", "ki", "ko", "la", "li", "lo",
             "ma", "me", "mi", "na", "ne", "pa", "ra", "ri", "so", "ta")  # fmt: skip
WORDS = 20_000
NAMED = 10  # one note in so many names a thing
TEN = 10  # hits
# What the bytes of a library depend on: one that was made by other code is made anew.
MAKERS = (
    *(f"documents/{name}.py" for name in ("cache", "chunks", "citations", "index", "vectors", "question")), "plugs/embedder.py",
    "lab/benches/documents.py",
)  # fmt: skip
# The rank of words that a question is made of; the first fifty stand for those that every text has.
MIDDLE = (500, 4000)
KINDS = {
    "common": ((50, 300), 3), "middle": (MIDDLE, 4), "rare": ((15_000, WORDS), 2), "named": (MIDDLE, 2),
    "name alone": (MIDDLE, 0),
}  # fmt: skip
JUDGED = ("common", "middle", "named")


class Library:
    """Notes and questions made by chance, the same every time; all of the same words."""

    def __init__(self, seed: int = 7) -> None:
        chance, found = random.Random(7), dict[str, None]()
        while len(found) < WORDS:
            found["".join(chance.choices(SYLLABLES, k=chance.randint(2, 4)))] = None
        self.words, self.chance = list(found), random.Random(seed)
        self.weights = list(itertools.accumulate(1 / (rank + 2.7) for rank in range(WORDS)))

    def notes(self, passages: int) -> Iterator[Document]:
        """Notes with so many passages together, or a few more."""
        count = number = 0
        while count < passages:
            parts = self.chance.choice((1, 1, 1, 2, 4, 8))
            named = f"The broker said ERR-{number:06}." if number % NAMED == 0 else ""
            text = "\n".join((f"# Note {number}", named, *(self._section() for _ in range(parts)))) + "\n"
            yield Document(f"journal/{number // 200:04}/{number:06}.md", "journal", 3, text, name=f"journal {number}")
            count, number = count + len(cut_document(text)), number + 1

    def _section(self) -> str:
        said = self.chance.choices(self.words, cum_weights=self.weights, k=self.chance.randint(80, 140))
        return f"## {said[0].capitalize()}\n{' '.join(said)}."

    def question(self, kind: str, notes: int) -> str:
        """A question of a kind."""
        name = f"ERR-{self.chance.randrange(notes) // NAMED * NAMED:06}"
        (low, high), count = KINDS[kind]
        words = self.chance.sample(self.words[low:high], count)
        return " ".join((*words, name) if kind.startswith("name") else words)


def library(bench: Bench, passages: int) -> Path:
    """A file with an index of so many passages and their static vectors; not to be written to."""
    made_by = _digest_of_makers()
    path = bench.kept / f"library-{passages}-{made_by}.db"
    if not path.exists():
        bench.say(f"Making an index of {passages} passages: {path}")
        for other in bench.kept.glob("library-*"):
            if made_by not in other.name:
                other.unlink()
        growing = path.with_suffix(".growing")
        growing.unlink(missing_ok=True)
        with opened(growing) as index:
            index.put(OWNER, AGENT, Library().notes(passages), now=LIVE, embedder=StaticEmbedder())
        growing.replace(path)
    return path


@contextmanager
def opened(path: Path) -> Iterator[DocumentIndex]:
    """An index in a file."""
    index = DocumentIndex(path)
    try:
        yield index
    finally:
        index.close()


def _digest_of_makers() -> str:
    package = Path(__file__).parents[2]
    found = hashlib.sha256()
    for file in MAKERS:
        found.update((package / file).read_bytes())
    return found.hexdigest()[:16]


# --- asking -----------------------------------------------------------------------------------------------------------------


def measure_search_10k(bench: Bench) -> dict[str, Result]:
    """`docs_search_10k`."""
    return {"docs_search_10k": _searched(bench, bench.scale.imported)}


def measure_search_100k(bench: Bench) -> dict[str, Result]:
    """`docs_search_100k`."""
    return {"docs_search_100k": _searched(bench, bench.scale.large)}


def _searched(bench: Bench, passages: int) -> Result:
    """The worst of common words, middle words and words with a name.

    Rare words and a name without any other are told beside it and not judged: FTS5 finds them in a third of a millisecond, and
    what ten hits with their documents, lines, hash and snippet cost is more than that, however many passages there are.
    """
    asking, kinds = Library(seed=11), dict[str, Sides]()
    with opened(library(bench, passages)) as index:
        notes = index.health(OWNER, AGENT).documents
        for kind in KINDS:
            asked = [asking.question(kind, notes) for _ in range(bench.scale.pages)]
            (kinds[kind],) = in_turn([(_bare(index, each), partial(_asked, index, each)) for each in asked], cpu)
    told = {kind: round(sides.ratio, 3) for kind, sides in kinds.items()}
    worst = max(JUDGED, key=lambda kind: told[kind])
    what = (
        f"Ten hits of {passages} passages by words, against FTS5's own ten best of the same terms: the worst of common words, "
        "middle words and words with a name that one passage has."
    )
    return judged(what, passages, kinds[worst], 3.0, worst=worst, ratios=told, rare_ms=milliseconds(kinds["rare"].subject))


def _bare(index: DocumentIndex, question: str) -> Work:
    """FTS5's ten best rows for the very terms that are looked for."""
    with index.cache.reading() as connection:
        (scope,) = (index.cache.scope(OWNER, AGENT),)
        match = any_word_query(lexical.search_terms(index.cache, [scope or 0], parse_question(question)))
    sql = f"SELECT rowid, rank FROM words_{scope} WHERE words_{scope} MATCH ? ORDER BY rank LIMIT {TEN}"
    return lambda: connection.execute(sql, (match,)).fetchall()


def _asked(index: DocumentIndex, question: str, slot: Slot = "sqlite_fts", embedder: StaticEmbedder | None = None) -> None:
    assert search_index(index, question, owner=OWNER, agent=AGENT, slot=slot, embedder=embedder, limit=TEN).slot == slot


def measure_hybrid(bench: Bench) -> dict[str, Result]:
    """`docs_hybrid` and `docs_memory_100k`."""
    n, embedder = bench.scale.large, StaticEmbedder()
    embedder.embed(["its table is read with the first text"])
    path, asking = library(bench, n), Library(seed=12)
    with opened(path) as index:
        health = index.health(OWNER, AGENT)
        asked = [asking.question("middle", health.documents) for _ in range(bench.scale.pages)]
        both = partial(_asked, index, slot="hybrid_embeddings", embedder=embedder)
        (loading,) = in_turn([(partial(_raw_vectors, index), partial(both, "gold"))], wall)
        (sides,) = in_turn([(partial(_asked, index, each), partial(both, each)) for each in asked], cpu)
        held, raw = index.vector_bytes, health.chunks * embedder.dim * 4
    memory = judged(
        f"Bytes held to compare a question with {n} passages, against those of the vectors themselves; the times are of reading "
        "them from the file, with the first question and plainly.", n, Sides([raw], [held]), 1.2,
        held_mb=round(held / 1e6, 1), file_mb=round(path.stat().st_size / 1e6, 1),
    )  # fmt: skip
    memory |= {"baseline_ms": milliseconds(loading.baseline), "subject_ms": milliseconds(loading.subject)}
    what = f"Ten hits of {n} passages by words and meaning, against by words alone; static vectors."
    return {"docs_hybrid": judged(what, n, sides, 3.6), "docs_memory_100k": memory}


def _raw_vectors(index: DocumentIndex) -> list[Any]:
    with index.cache.reading() as connection:
        return connection.execute("SELECT hash, vector FROM vectors").fetchall()


# --- indexing ---------------------------------------------------------------------------------------------------------------


def measure_index(bench: Bench) -> dict[str, Result]:
    """`docs_index`."""
    n = bench.scale.imported
    notes = list(Library().notes(n))
    texts = [chunk.text for note in notes for chunk in cut_document(note.text)]

    def rounds() -> Iterator[tuple[Work, Work]]:
        for at in range(bench.scale.rounds):
            raw = apsw.Connection(str(bench.folder / f"raw-{at}.db"))
            raw.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-64000")
            raw.execute("CREATE VIRTUAL TABLE words USING fts5(body, tokenize='porter unicode61')")
            with opened(bench.folder / f"index-{at}.db") as index:
                yield partial(_insert, raw, texts), partial(index.put, OWNER, AGENT, notes, now=LIVE)
            raw.close()

    (sides,) = in_turn(rounds(), cpu)
    what = f"Notes of {n} passages cut, hashed and indexed in part and whole, against an insert of the passages into FTS5."
    rate = round(len(texts) * 1000 / milliseconds(sides.subject))
    return {"docs_index": judged(what, n, sides, 12.0, passages_per_s=rate)}


def _insert(connection: apsw.Connection, texts: list[str]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany("INSERT INTO words (body) VALUES (?)", [(text,) for text in texts])
    connection.execute("COMMIT")


def measure_reindex(bench: Bench) -> dict[str, Result]:
    """`docs_reindex_10k`."""
    n, root = bench.scale.imported, bench.folder / "workspace"
    for at in range(n):
        file = root / f"journal/{at // 200:04}/{at:06}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"# Note {at}\nNothing of note on day {at}.\n", encoding="utf-8")
    places = [DocumentFolder(root)]
    with opened(bench.folder / "workspace.db") as index:
        first = index.sync(OWNER, AGENT, places, now=LIVE)
        assert (first.read, first.documents) == (n, n), "not all was indexed"

        def again() -> None:
            told = index.sync(OWNER, AGENT, places, now=LIVE)
            assert (told.read, told.added, told.changed, told.removed) == (0, 0, 0, 0), "an unchanged file was read"

        def look() -> None:
            assert index.pending(OWNER, AGENT, places).total == 0

        (sides,) = in_turn([(partial(_looked_at, root), again)] * max(bench.scale.rounds, 2), cpu)
        looking = [took(look, cpu)[0] for _ in range(bench.scale.rounds)]
    what = f"A sync of {n} unchanged files, which reads none, against a bare look at each of them (scandir and stat)."
    return {"docs_reindex_10k": judged(what, n, sides, 12.0, read=0, pending_ms=milliseconds(looking))}


def _looked_at(root: Path) -> int:
    """Every file below a folder, by its size and times."""
    found, waiting = 0, [str(root)]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                else:
                    found += entry.stat(follow_symlinks=False).st_size > 0
    return found
