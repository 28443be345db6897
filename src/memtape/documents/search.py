"""Finding what was written: by its words, by what it means, and by the names of things; each hit with the lines it stands on.

Two slots. `sqlite_fts` ranks passages by BM25 of the passage plus BM25 of the whole document. `hybrid_embeddings` adds what a
vector of the question is near to: ½ · BM25 (as a share of the best) + ½ · cosine, or reciprocal ranks. Tickers, ids, codes and
phrases in quotation marks have an arm of their own with reserved places. An embedder that fails, or whose vectors are
not all made yet, costs nothing but itself: the words answer, and the answer says so.

The pool of candidates has one size, scores are rounded and ties go by path and line: the same index gives the same answer, and
the first three of ten are the first three of fifty.

>>> from datetime import UTC, datetime
>>> from memtape.documents.index import Document, DocumentIndex
>>> index = DocumentIndex(":memory:")
>>> rule, note = "# Risk\\nNever move a stop away.", "# May 12\\nGold: moved the stop, lost 2R."
>>> made = index.put("ann", "gold", [Document("SOUL.md", "rules", 1, rule), Document("journal/12.md", "journal", 3, note)],
...     now=datetime(2026, 5, 13, tzinfo=UTC))
>>> hit = search(index, "why was gold lost?", owner="ann", agent="gold").hits[0]
>>> hit.path, hit.start_line, hit.end_line, hit.source, hit.tier, hit.reason
('journal/12.md', 1, 2, 'fts', 3, 'words: 1st')
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from memtape.core.text import one_line
from memtape.documents import lexical, vectors
from memtape.documents.cache import GLOBAL, Cache
from memtape.documents.index import DocumentIndex
from memtape.documents.places import Caps, Seat, placed
from memtape.documents.words import Asked, parse
from memtape.errors import Invalid
from memtape.plugs.embedder import Embedder

Slot = Literal["sqlite_fts", "hybrid_embeddings"]
Fusion = Literal["weighted", "reciprocal"]
Arm = Literal["fts", "vector", "both", "exact"]
SLOTS = ("sqlite_fts", "hybrid_embeddings")
FUSIONS = ("weighted", "reciprocal")
POOL = 200  # candidates of each arm
MOST = 100  # hits
WEIGHTS = (0.5, 0.5)  # of words and of vectors
TABLE_WEIGHTS = (0.6, 0.4)  # where the vectors come from a table of words, which knows little that BM25 does not
RANK_CONSTANT = 60  # Cormack, Clarke & Büttcher 2009
NEAR = 0.1  # a passage that shares no word with the question and is less alike than this has nothing to do with it
SNIPPET = 300


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that was found."""

    path: str
    start_line: int
    end_line: int
    score: float
    snippet: str
    source: Arm
    source_type: str
    tier: int
    content_hash: str
    reason: str
    headings: tuple[str, ...] = ()
    shared: bool = False
    start: int = 0  # place of its first character in the document, and of the one behind its last
    end: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """The hits, which slot answered, and what was wrong if it was not the one asked for."""

    hits: tuple[Hit, ...]
    slot: Slot
    note: str = ""


@dataclass(frozen=True, slots=True)
class Scores:
    """What each arm says of the candidates, by chunk."""

    words: Mapping[int, float]
    meaning: Mapping[int, float]
    exact: tuple[tuple[int, ...], ...] = ()  # for each exact part the chunks that have it
    weights: tuple[float, float] | None = None  # of words and of meaning, if there was a vector to compare with


@dataclass(frozen=True, slots=True)
class Row:
    """A candidate."""

    chunk: int
    document: int
    path: str
    start_line: int
    end_line: int
    start: int
    end: int
    content_hash: str
    type: str
    tier: int
    agent: str
    chunks: int  # of its document


def search(
    index: DocumentIndex, question: str, *, owner: str, agent: str, slot: Slot = "sqlite_fts", embedder: Embedder | None = None,
    limit: int = 10, minimum: float = 0.0, fusion: Fusion = "weighted", caps: Caps | None = None, types: Sequence[str] = (),
) -> Found:  # fmt: skip
    """What an agent's documents, and those shared with it, have on a question."""
    _checked(slot, fusion, limit)
    asked = parse(question)
    if asked.is_empty:
        return Found((), slot)
    vector, note = _question_vector(embedder, question) if slot == "hybrid_embeddings" else (None, "")
    with index.cache.reading():
        scopes = [number for of in dict.fromkeys((agent, GLOBAL)) if (number := index.cache.scope(owner, of)) is not None]
        if vector is not None and embedder is not None and not all(vectors.is_ready(index.cache, s, embedder.id) for s in scopes):
            vector, note = None, f"the vectors of {embedder.id} are not complete yet: found by words alone"
        words = lexical.ranked(index.cache, scopes, asked, POOL)
        exact = lexical.exact(index.cache, scopes, asked)
        named = {chunk for part in exact for chunk in part}
        near = index.near(scopes, embedder, vector, POOL, {*words.chunks, *named}) if vector is not None and embedder else {}
        rows = _rows(index.cache, {*words.chunks, *near, *named}, types)
        scores = Scores(_by_words(words, rows), near, exact, weights_of(embedder) if vector is not None and embedder else None)
        hits = _hits(index.cache, rows, scores, asked, fusion, limit, minimum, caps)
    return Found(hits, "sqlite_fts" if vector is None else "hybrid_embeddings", note)


def _checked(slot: str, fusion: str, limit: int) -> None:
    if slot not in SLOTS:
        raise Invalid("slot", f"there is none called {slot}", f"Choose one of {', '.join(SLOTS)}")
    if fusion not in FUSIONS:
        raise Invalid("fusion", f"there is none called {fusion}", f"Choose one of {', '.join(FUSIONS)}")
    if not 1 <= limit <= MOST:
        raise Invalid("limit", f"{limit} is not from 1 to {MOST}", "Ask for fewer and more precisely")


# --- by meaning -------------------------------------------------------------------------------------------------------------


def _question_vector(embedder: Embedder | None, question: str) -> tuple[Any, str]:
    """The question as a vector, or why there is none."""
    if embedder is None:
        return None, "no embedder is set: found by words alone"
    try:
        found = embedder.embed([question])
    except vectors.BROKEN as error:
        return None, f"the embedder failed ({one_line(str(error), 200)}): found by words alone"
    if found.shape != (1, embedder.dim) or not bool(abs(found).sum() < float("inf")):
        return None, f"{embedder.id} answered with a vector of another form: found by words alone"
    return found[0], ""


def weights_of(embedder: Embedder) -> tuple[float, float]:
    """How much the words count, and how much the vectors of a model: half each, but for a static table."""
    return TABLE_WEIGHTS if "static" in embedder.id else WEIGHTS


# --- together ---------------------------------------------------------------------------------------------------------------


def _rows(cache: Cache, chunks: set[int], types: Sequence[str]) -> dict[int, Row]:
    """The candidates with their documents."""
    sql = (
        "SELECT c.id, d.id, d.path, c.start_line, c.end_line, c.start, c.end, c.content_hash, d.type, d.tier, s.agent, d.chunks "
        "FROM chunks c JOIN documents d ON d.id = c.document JOIN scopes s ON s.id = c.scope "
        "WHERE c.id IN (SELECT value FROM json_each(?))"
    )
    rows: list[Any] = cache.connection.execute(sql, (str(sorted(chunks)),)).fetchall()
    return {row[0]: Row(*row) for row in rows if not types or row[8] in types}


def _by_words(words: lexical.Words, rows: Mapping[int, Row]) -> dict[int, float]:
    """The passage's own words and those of the document around it; a document of one passage is that passage."""
    found: dict[int, float] = {}
    for chunk, score in words.chunks.items():
        if row := rows.get(chunk):
            found[chunk] = score + (score if row.chunks == 1 else words.documents.get(row.document, 0.0))
    return found


def fused(scores: Scores, fusion: Fusion) -> dict[int, float]:
    """One score from 0 to 1 for each candidate.

    >>> fused(Scores({1: 4.0, 2: 2.0}, {1: 0.0, 2: 0.9, 3: 0.4}, weights=(0.5, 0.5)), "weighted")
    {1: 0.5, 2: 0.7, 3: 0.2}
    """
    best = max(scores.words.values(), default=0.0) or 1.0
    if scores.weights is None:
        return {chunk: round(score / best, 9) for chunk, score in scores.words.items()}
    near = {chunk: score for chunk, score in scores.meaning.items() if score >= NEAR}
    either = dict.fromkeys((*scores.words, *near))
    if fusion == "weighted":
        a, b = scores.weights
        return {chunk: round(a * scores.words.get(chunk, 0.0) / best + b * near.get(chunk, 0.0), 9) for chunk in either}
    places = (_places(scores.words), _places(near))
    top = len(places) / (RANK_CONSTANT + 1)
    return {chunk: round(sum(1 / (RANK_CONSTANT + each[chunk]) for each in places if chunk in each) / top, 9) for chunk in either}


def _places(scores: Mapping[int, float]) -> dict[int, int]:
    """1 for the best; those with one score share a place."""
    order = sorted(scores, key=lambda chunk: -scores[chunk])
    places: dict[int, int] = {}
    for at, chunk in enumerate(order):
        tied = at > 0 and scores[order[at - 1]] == scores[chunk]
        places[chunk] = places[order[at - 1]] if tied else at + 1
    return places


def _hits(
    cache: Cache, rows: Mapping[int, Row], scores: Scores, asked: Asked, fusion: Fusion, limit: int, minimum: float,
    caps: Caps | None,
) -> tuple[Hit, ...]:  # fmt: skip
    total = fused(scores, fusion)

    def order(chunk: int) -> tuple[float, str, str, int]:
        row = rows[chunk]
        return -total.get(chunk, 0.0), row.path, row.agent, row.start

    named = [sorted((chunk for chunk in part if chunk in rows), key=order) for part in scores.exact]
    wanted = {chunk for chunk, score in total.items() if chunk in rows and score >= minimum}
    ranked = sorted(wanted.union(*named), key=order)
    seats = {chunk: Seat(rows[chunk].path, rows[chunk].type, rows[chunk].tier, chunk) for chunk in ranked}
    reserved = [seats[chunk] for chunk in _in_turn(named)]
    in_order = [seats[chunk] for chunk in ranked]
    chosen = placed(in_order, limit, reserved=reserved, caps=caps, named=asked.only_names)
    reasons = _reasons(scores)
    return tuple(_hit(cache, rows[seat.chunk], total.get(seat.chunk, 0.0), asked, *reasons(seat.chunk)) for seat in chosen)


def _in_turn(parts: Sequence[Sequence[int]]) -> list[int]:
    """The best of each exact part, then the second of each."""
    longest = max(map(len, parts), default=0)
    return list(dict.fromkeys(part[at] for at in range(longest) for part in parts if at < len(part)))


def _reasons(scores: Scores) -> Callable[[int], tuple[Arm, str]]:
    """Which arms found a passage, and at which place each."""
    by_words, by_meaning = _places(scores.words), _places({c: s for c, s in scores.meaning.items() if s >= NEAR})
    named = {chunk for part in scores.exact for chunk in part}

    def reason(chunk: int) -> tuple[Arm, str]:
        arms = (("words", by_words), ("meaning", by_meaning))
        told = [f"{arm}: {ordinal(places[chunk])}" for arm, places in arms if chunk in places]
        both: Arm = "both" if chunk in by_words and chunk in by_meaning else "fts" if chunk in by_words else "vector"
        return ("exact", "; ".join(("named exactly", *told))) if chunk in named else (both, "; ".join(told))

    return reason


def ordinal(number: int) -> str:
    """
    >>> [ordinal(number) for number in (1, 2, 3, 11, 22, 113)]
    ['1st', '2nd', '3rd', '11th', '22nd', '113th']
    """
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _hit(cache: Cache, row: Row, score: float, asked: Asked, source: Arm, reason: str) -> Hit:
    found: list[Any] = cache.connection.execute("SELECT headings, text FROM chunks WHERE id = ?", (row.chunk,)).fetchall()
    headings, text = found[0]
    return Hit(
        path=row.path, start_line=row.start_line, end_line=row.end_line, score=round(score, 6), snippet=snippet(text, asked),
        source=source, source_type=row.type, tier=row.tier, content_hash=row.content_hash, reason=reason,
        headings=tuple(headings.split("\n")) if headings else (), shared=row.agent == GLOBAL, start=row.start, end=row.end,
    )  # fmt: skip


def snippet(text: str, asked: Asked, cap: int = SNIPPET) -> str:
    """The part of a passage that has most of what was asked for, on one line.

    >>> snippet("# Log\\n" + "nothing here\\n" * 40 + "moved the stop and lost", parse("stop lost"), 100)
    'moved the stop and lost'
    """
    if len(text) <= cap:
        return one_line(text, cap)
    stems = "|".join(re.escape(word[:5]) for word, _ in asked.words)
    places = [match.start() for match in re.finditer(stems, text.lower())]
    start, most, last = 0, 0, 0
    for first, place in enumerate(places):
        while last < len(places) and places[last] < place + cap * 3 // 4:
            last += 1
        if last - first > most:
            start, most = place, last - first
    before = max(start - cap // 4, 0)
    line = text.rfind("\n", before, start) + 1 or (text.find(" ", before, start) + 1 if before else 0)
    return one_line(text[line : line + 2 * cap], cap)
