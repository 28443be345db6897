"""The cost of document memory: searching, indexing, looking for changes, and the memory it takes.

The words of the searched library are distributed as in real texts: the n-th most common word occurs about 1/n as often as the
first (Zipf). The notes have one to eight passages, and one note in ten has a name that no other note has. Every question is
asked only once, so that no answer comes from a cache.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import apsw

from bench.desk import LIVE_START, PACKAGE, BenchRun
from bench.timing import Result, Sides, Work, cpu, judge, milliseconds, peak_bytes, time_in_turn, time_work, wall
from memtape.documents import lexical
from memtape.documents.cache import SHARED_SCOPE
from memtape.documents.chunks import cut_document
from memtape.documents.index import DocumentIndex
from memtape.documents.index_writer import Document
from memtape.documents.question import any_word_query, parse_question
from memtape.documents.search import search_index
from memtape.documents.slots import Slot
from memtape.documents.sources import DocumentFolder
from memtape.plugs.embedder import StaticEmbedder

OWNER, AGENT = "local", "bench"
SYLLABLES = ("ba", "be", "bi", "bo", "da", "de", "do", "ga", "go", "ka", "ki", "ko", "la", "li", "lo",
             "ma", "me", "mi", "na", "ne", "pa", "ra", "ri", "so", "ta")  # fmt: skip
VOCABULARY = 20_000
NOTES_PER_NAME = 10  # one note in so many has a name of its own
HITS = 10
# The code that decides the bytes of a library. A cached library made by other code is deleted.
LIBRARY_SOURCES = (
    *(
        PACKAGE / "documents" / f"{name}.py"
        for name in ("cache", "chunks", "citations", "filters", "index", "index_writer", "vectors", "question")
    ),
    PACKAGE / "plugs" / "embedder.py",
    Path(__file__),
)
# For each kind of question: the ranks of its words, and how many words it has.
# The fifty most common words are left out: they stand for those that every text has.
MIDDLE_RANKS = (500, 4000)
QUESTION_KINDS = {
    "common": ((50, 300), 3), "middle": (MIDDLE_RANKS, 4), "rare": ((15_000, VOCABULARY), 2), "named": (MIDDLE_RANKS, 2),
    "name alone": (MIDDLE_RANKS, 0),
}  # fmt: skip
JUDGED_KINDS = ("common", "middle", "named")


class Library:
    """Random notes and questions over one vocabulary, the same on every run."""

    def __init__(self, seed: int = 7) -> None:
        generator, words = random.Random(7), dict[str, None]()
        while len(words) < VOCABULARY:
            words["".join(generator.choices(SYLLABLES, k=generator.randint(2, 4)))] = None
        self.words, self.random = list(words), random.Random(seed)
        self.weights = list(itertools.accumulate(1 / (rank + 2.7) for rank in range(VOCABULARY)))

    def notes(self, passages: int) -> Iterator[Document]:
        """Yields notes with so many passages together, or a few more."""
        count = number = 0
        while count < passages:
            parts = self.random.choice((1, 1, 1, 2, 4, 8))
            named = f"The broker said ERR-{number:06}." if number % NOTES_PER_NAME == 0 else ""
            text = "\n".join((f"# Note {number}", named, *(self._section() for _ in range(parts)))) + "\n"
            yield Document(f"journal/{number // 200:04}/{number:06}.md", "journal", 3, text, name=f"journal {number}")
            count, number = count + len(cut_document(text)), number + 1

    def _section(self) -> str:
        words = self.random.choices(self.words, cum_weights=self.weights, k=self.random.randint(80, 140))
        return f"## {words[0].capitalize()}\n{' '.join(words)}."

    def question(self, kind: str, notes: int) -> str:
        """Returns a question of one kind."""
        name = f"ERR-{self.random.randrange(notes) // NOTES_PER_NAME * NOTES_PER_NAME:06}"
        (low, high), count = QUESTION_KINDS[kind]
        words = self.random.sample(self.words[low:high], count)
        return " ".join((*words, name) if kind.startswith("name") else words)


def library(bench: BenchRun, passages: int) -> Path:
    """Returns a file with an index of so many passages and their static vectors. It must not be written to."""

    def make(path: Path) -> None:
        with open_index(path) as index:
            index.put(OWNER, AGENT, Library().notes(passages), now=LIVE_START, embedder=StaticEmbedder())

    return bench.cached(f"library-{passages}", LIBRARY_SOURCES, make)


@contextmanager
def open_index(path: Path) -> Iterator[DocumentIndex]:
    """Open an index in a file."""
    index = DocumentIndex(path)
    try:
        yield index
    finally:
        index.close()


# --- search -----------------------------------------------------------------------------------------------------------------


def measure_search_10k(bench: BenchRun) -> dict[str, Result]:
    """Measure `docs_search_10k`."""
    return {"docs_search_10k": _measure_search(bench, library(bench, bench.scale.imported), bench.scale.imported)}


def measure_search_shared(bench: BenchRun) -> dict[str, Result]:
    """Measure `docs_search_shared`: as many shared passages as own ones, compared with both bare queries."""
    passages, source, kinds = bench.scale.imported, Library(seed=13), dict[str, Sides]()
    path = bench.folder / "shared.db"
    with open_index(path) as index:
        index.put(OWNER, AGENT, Library().notes(passages), now=LIVE_START)
        index.put(OWNER, SHARED_SCOPE, Library(seed=8).notes(passages), now=LIVE_START)
        notes = index.health(OWNER, AGENT).documents
        for kind in JUDGED_KINDS:
            questions = [source.question(kind, notes) for _ in range(bench.scale.pages)]
            pairs = [(_bare_queries(index, each), partial(_search, index, each)) for each in questions]
            (kinds[kind],) = time_in_turn(pairs, cpu)
    ratios = {kind: round(sides.ratio, 3) for kind, sides in kinds.items()}
    worst = max(JUDGED_KINDS, key=lambda kind: ratios[kind])
    what = (
        f"Ten hits of {passages} own and {passages} shared passages by words, compared with FTS5's own ten best of the same "
        "terms in each of the two tables: the worst of common words, middle words, and words with a name."
    )
    return {"docs_search_shared": judge(what, 2 * passages, kinds[worst], 3.0, worst=worst, ratios=ratios)}


def _bare_queries(index: DocumentIndex, question: str) -> Work:
    works = [_bare_query(index, question, agent) for agent in (AGENT, SHARED_SCOPE)]
    return lambda: [work() for work in works]


def measure_search_100k(bench: BenchRun) -> dict[str, Result]:
    """Measure `docs_search_100k`."""
    return {"docs_search_100k": _measure_search(bench, library(bench, bench.scale.large), bench.scale.large)}


def measure_search_1m(bench: BenchRun) -> dict[str, Result]:
    """Measure `docs_search_1m`: a million passages indexed, and searched by words. Needs some minutes and 3 GB of disk."""
    passages, path = bench.scale.huge, bench.folder / "huge.db"
    with open_index(path) as index:
        (seconds,) = time_work(lambda: index.put(OWNER, AGENT, Library().notes(passages), now=LIVE_START), wall)
    size = round(path.stat().st_size / 1e6)
    found = _measure_search(bench, path, passages, questions=max(bench.scale.pages // 5, 10))
    return {"docs_search_1m": found | {"index_s": round(seconds, 1), "file_mb": size, "peak_mb": round(peak_bytes() / 1e6)}}


def _measure_search(bench: BenchRun, path: Path, passages: int, questions: int | None = None) -> Result:
    """Measure questions of common words, of middle words, and of words with a name; the worst ratio is judged.

    Rare words and a lone name are reported but not judged: FTS5 finds them in a third of a millisecond, and ten hits with their
    documents, lines, hash and snippet cost more than that, however few passages there are.
    """
    source, kinds = Library(seed=11), dict[str, Sides]()
    with open_index(path) as index:
        notes = index.health(OWNER, AGENT).documents
        for kind in QUESTION_KINDS:
            asked = [source.question(kind, notes) for _ in range(questions or bench.scale.pages)]
            (kinds[kind],) = time_in_turn([(_bare_query(index, each), partial(_search, index, each)) for each in asked], cpu)
    ratios = {kind: round(sides.ratio, 3) for kind, sides in kinds.items()}
    worst = max(JUDGED_KINDS, key=lambda kind: ratios[kind])
    what = (
        f"Ten hits of {passages} passages by words, compared with FTS5's own ten best of the same terms: the worst of common "
        "words, middle words, and words with a name that only one passage has."
    )
    by_kind = {kind: milliseconds(sides.subject) for kind, sides in kinds.items()}
    return judge(what, passages, kinds[worst], 3.0, worst=worst, ratios=ratios, ms=by_kind)


def _bare_query(index: DocumentIndex, question: str, agent: str = AGENT) -> Work:
    """Returns a query of FTS5's ten best rows for the same terms."""
    with index.cache.reading() as connection:
        scope = index.cache.scope(OWNER, agent)
        match = any_word_query(word for word, _ in lexical.search_terms(index.cache, [scope or 0], parse_question(question)))
    sql = f"SELECT rowid, rank FROM words_{scope} WHERE words_{scope} MATCH ? ORDER BY rank LIMIT {HITS}"
    return lambda: connection.execute(sql, (match,)).fetchall()


def _search(index: DocumentIndex, question: str, slot: Slot = "sqlite_fts", embedder: StaticEmbedder | None = None) -> None:
    assert search_index(index, question, owner=OWNER, agent=AGENT, slot=slot, embedder=embedder, limit=HITS).slot == slot


def measure_hybrid(bench: BenchRun) -> dict[str, Result]:
    """Measure `docs_hybrid` and `docs_memory_100k`."""
    n, embedder = bench.scale.large, StaticEmbedder()
    embedder.embed(["the first text loads the table of vectors"])
    path, source = library(bench, n), Library(seed=12)
    with open_index(path) as index:
        health = index.health(OWNER, AGENT)
        questions = [source.question("middle", health.documents) for _ in range(bench.scale.pages)]
        both = partial(_search, index, slot="hybrid_embeddings", embedder=embedder)
        (loading,) = time_in_turn([(partial(_raw_vectors, index), partial(both, "gold"))], wall)
        (sides,) = time_in_turn([(partial(_search, index, each), partial(both, each)) for each in questions], cpu)
        held, raw = index.vector_bytes, health.chunks * embedder.dim * 4
    memory = judge(
        f"Bytes in memory to compare a question with {n} passages, compared with the bytes of the vectors themselves. The times "
        "are of reading them from the file: plainly, and with the first question.", n, Sides([raw], [held]), 1.2,
        held_mb=round(held / 1e6, 1), file_mb=round(path.stat().st_size / 1e6, 1),
    )  # fmt: skip
    memory |= {"baseline_ms": milliseconds(loading.baseline), "subject_ms": milliseconds(loading.subject)}
    what = f"Ten hits of {n} passages by words and meaning, compared with words alone; static vectors."
    return {"docs_hybrid": judge(what, n, sides, 3.6), "docs_memory_100k": memory}


def _raw_vectors(index: DocumentIndex) -> list[Any]:
    with index.cache.reading() as connection:
        return connection.execute("SELECT hash, vector FROM vectors").fetchall()


# --- indexing ---------------------------------------------------------------------------------------------------------------


def measure_index(bench: BenchRun) -> dict[str, Result]:
    """Measure `docs_index`."""
    n = bench.scale.imported
    notes = list(Library().notes(n))
    texts = [chunk.text for note in notes for chunk in cut_document(note.text)]

    def rounds() -> Iterator[tuple[Work, Work]]:
        for at in range(bench.scale.rounds):
            raw = apsw.Connection(str(bench.folder / f"raw-{at}.db"))
            raw.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-64000")
            raw.execute("CREATE VIRTUAL TABLE words USING fts5(body, tokenize='porter unicode61')")
            with open_index(bench.folder / f"index-{at}.db") as index:
                yield partial(_insert, raw, texts), partial(index.put, OWNER, AGENT, notes, now=LIVE_START)
            raw.close()

    (sides,) = time_in_turn(rounds(), cpu)
    what = f"Notes of {n} passages cut, hashed and indexed, compared with an insert of the passages into FTS5."
    rate = round(len(texts) * 1000 / milliseconds(sides.subject))
    return {"docs_index": judge(what, n, sides, 12.0, passages_per_s=rate)}


def _insert(connection: apsw.Connection, texts: list[str]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany("INSERT INTO words (body) VALUES (?)", [(text,) for text in texts])
    connection.execute("COMMIT")


def measure_reindex(bench: BenchRun) -> dict[str, Result]:
    """Measure `docs_reindex_10k`."""
    n, root = bench.scale.imported, bench.folder / "workspace"
    for at in range(n):
        file = root / f"journal/{at // 200:04}/{at:06}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"# Note {at}\nNothing of note on day {at}.\n", encoding="utf-8")
    places = [DocumentFolder(root)]
    with open_index(bench.folder / "workspace.db") as index:
        first = index.sync(OWNER, AGENT, places, now=LIVE_START)
        assert (first.read, first.documents) == (n, n), "some files were not indexed"

        def sync() -> None:
            result = index.sync(OWNER, AGENT, places, now=LIVE_START)
            assert (result.read, result.added, result.changed, result.removed) == (0, 0, 0, 0), "an unchanged file was read"

        def count_pending() -> None:
            assert index.pending(OWNER, AGENT, places).total == 0

        (sides,) = time_in_turn([(partial(_count_files, root), sync)] * max(bench.scale.rounds, 2), cpu)
        pending = [time_work(count_pending, cpu)[0] for _ in range(bench.scale.rounds)]
    what = f"A sync of {n} unchanged files, which reads none of them, compared with scandir and stat of each."
    return {"docs_reindex_10k": judge(what, n, sides, 12.0, read=0, pending_ms=milliseconds(pending))}


def _count_files(root: Path) -> int:
    """Returns the number of non-empty files below a folder."""
    count, waiting = 0, [str(root)]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                else:
                    count += entry.stat(follow_symlinks=False).st_size > 0
    return count
