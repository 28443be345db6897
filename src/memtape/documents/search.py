"""Finding what was written: by its words, by what it means, and by the names of things; each hit with the lines it stands on.

Two slots. `sqlite_fts` ranks passages by BM25 of the passage plus BM25 of the whole document. `hybrid_embeddings` adds what a
vector of the question is near to: ½ · BM25 (as a share of the best) + ½ · cosine, or reciprocal ranks. Tickers, ids, codes and
phrases in quotation marks have an arm of their own with reserved places.

A model answers once it has had a vector for every passage; until then the model before it does, if it can be had. Passages that
were written since have no vector yet and rank by their words. Where no model can answer, or the embedder fails, the words do.
Whatever was not as it was asked for, the answer says so.

The pool of candidates has one size, scores are rounded and ties go by path and line: the same index gives the same answer, and
the first three of ten are the first three of fifty.

>>> from datetime import UTC, datetime
>>> from memtape.documents.index import Document, DocumentIndex
>>> index = DocumentIndex(":memory:")
>>> rule, note = "# Risk\\nNever move a stop away.", "# May 12\\nGold: moved the stop, lost 2R."
>>> made = index.put("ann", "gold", [Document("SOUL.md", "rules", 1, rule), Document("journal/12.md", "journal", 3, note)],
...     now=datetime(2026, 5, 13, tzinfo=UTC))
>>> hit = search_index(index, "why was gold lost?", owner="ann", agent="gold").hits[0]
>>> hit.path, hit.start_line, hit.end_line, hit.source, hit.tier, hit.reason
('journal/12.md', 1, 2, 'fts', 3, 'words: 1st')
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from memtape.core.brief.sanitize import one_line
from memtape.documents import lexical, vectors
from memtape.documents.cache import GLOBAL, Cache
from memtape.documents.index import DocumentIndex
from memtape.documents.places import MANY, Caps, placed
from memtape.documents.question import ParsedQuestion, parse_question
from memtape.documents.snippets import snippet
from memtape.errors import Invalid
from memtape.plugs.embedder import Embedder

Slot = Literal["sqlite_fts", "hybrid_embeddings"]
Fusion = Literal["weighted", "reciprocal"]
Arm = Literal["fts", "vector", "both", "exact"]
SLOTS = ("sqlite_fts", "hybrid_embeddings")
FUSIONS = ("weighted", "reciprocal")
POOL = 200  # candidates of each arm
MOST = 100  # hits
SPARE = 5  # so many candidates more than hits are looked at first; all of them, where that does not settle who comes first
WEIGHTS = (0.5, 0.5)  # of words and of vectors
TABLE_WEIGHTS = (0.6, 0.4)  # where the vectors come from a table of words, which knows little that BM25 does not
RANK_CONSTANT = 60  # Cormack, Clarke & Büttcher 2009
NEAR = 0.1  # a passage that shares no word with the question and is less alike than this has nothing to do with it


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
class SearchResult:
    """The hits, which slot answered, and what was wrong if it was not the one asked for."""

    hits: tuple[Hit, ...]
    slot: Slot
    note: str = ""
    model: str = ""  # whose vectors were compared
    missing: int = 0  # passages without a vector of the model asked for


@dataclass(frozen=True, slots=True)
class Scores:
    """What each arm says of the candidates, by chunk."""

    words: Mapping[int, float]
    meaning: Mapping[int, float]
    exact: tuple[tuple[int, ...], ...] = ()  # for each exact part the chunks that have it
    weights: tuple[float, float] | None = None  # of words and of meaning, if there was a vector to compare with
    unknown: frozenset[int] = frozenset()  # have no vector yet


class CandidateRow(NamedTuple):
    """A candidate: what decides about its place."""

    chunk: int
    path: str
    type: str
    tier: int
    start: int
    scope: int


@dataclass(frozen=True, slots=True)
class AnsweringModel:
    """The model that answers, the question as it sees it, and what is to be said of it; none where words answer alone."""

    embedder: Embedder | None = None
    vector: Any = None
    note: str = ""
    missing: int = 0


Previous = Callable[[str], Embedder | None]


def search_index(
    index: DocumentIndex, question: str, *, owner: str, agent: str, slot: Slot = "sqlite_fts", embedder: Embedder | None = None,
    previous: Previous | None = None, limit: int = 10, minimum: float = 0.0, fusion: Fusion = "weighted",
    caps: Caps | None = None, types: Sequence[str] = (),
) -> SearchResult:  # fmt: skip
    """What an agent's documents, and those shared with it, have on a question.

    `previous` gives the embedder of a model's id, if it can be had: it answers while the vectors of `embedder` are being made.
    """
    _checked(slot, fusion, limit)
    asked = parse_question(question)
    if asked.is_empty:
        return SearchResult((), slot)
    speaker = _speaker(index, owner, agent, question, embedder, previous) if slot == "hybrid_embeddings" else AnsweringModel()
    with index.cache.reading():
        scopes = _scopes(index.cache, owner, agent)
        if speaker.embedder and not _is_ready(index.cache, scopes, speaker.embedder):
            speaker = AnsweringModel(note=f"the vectors of {speaker.embedder.id} went meanwhile: found by words alone")
        scores, missing = _scored(index, list(scopes), asked, speaker, types)
        hits = _hits(index.cache, scopes, scores, asked, fusion, limit, minimum, caps or Caps(), types)
    return _said(hits, speaker, embedder, missing)


def _scopes(cache: Cache, owner: str, agent: str) -> dict[int, str]:
    """What is searched together: the agent's own, and what is shared; each number with whose it is."""
    return {number: of for of in dict.fromkeys((agent, GLOBAL)) if (number := cache.scope(owner, of)) is not None}


def _scored(
    index: DocumentIndex, scopes: Sequence[int], asked: ParsedQuestion, speaker: AnsweringModel, types: Sequence[str]
) -> tuple[Scores, int]:
    """What each arm says of its candidates, and how many passages the vectors know nothing of."""
    terms = lexical.terms(index.cache, scopes, asked)
    words = lexical.rank_by_words(index.cache, scopes, terms, POOL, types)
    others = () if types or (len(words) < POOL and speaker.embedder is None) else _crowded_out(index.cache, scopes)
    if others and len(words) >= POOL:
        words |= lexical.rank_by_words(index.cache, scopes, terms, POOL, others)
    exact = lexical.exact(index.cache, scopes, asked, terms, () if types else words)
    if speaker.embedder is None:
        return Scores(words, {}, exact), 0
    found = set(words).union(*exact)
    near, missing = index.near(scopes, speaker.embedder, speaker.vector, POOL, found, types)
    if others and len(near) >= POOL:
        near |= index.near(scopes, speaker.embedder, speaker.vector, POOL, found, others)[0]
    unknown = frozenset(found - near.keys()) if missing else frozenset[int]()
    return Scores(words, near, exact, weights_of(speaker.embedder), unknown), missing


def _crowded_out(cache: Cache, scopes: Sequence[int]) -> tuple[str, ...]:
    """The types that have candidates of their own, lest decisions and transcripts, of which there are many, fill the pool."""
    some = "SELECT 1 FROM documents WHERE scope = ? AND type IN (SELECT value FROM json_each(?)) LIMIT 1"
    if not any(cache.connection.execute(some, (scope, json.dumps(MANY))).fetchall() for scope in scopes):
        return ()
    sql = (  # from type to type, not from document to document
        "WITH RECURSIVE one(type) AS (SELECT min(type) FROM documents WHERE scope = :scope UNION ALL "
        "SELECT (SELECT min(type) FROM documents WHERE scope = :scope AND type > one.type) FROM one WHERE one.type IS NOT NULL) "
        "SELECT type FROM one WHERE type IS NOT NULL"
    )
    there = {str(kind) for scope in scopes for (kind,) in cache.connection.execute(sql, {"scope": scope})}
    return tuple(sorted(there.difference(MANY)))


def _said(hits: tuple[Hit, ...], speaker: AnsweringModel, asked_for: Embedder | None, missing: int) -> SearchResult:
    """The answer, with what was not as it was asked for."""
    if speaker.embedder is None:
        return SearchResult(hits, "sqlite_fts", speaker.note, missing=speaker.missing)
    note, lacking = speaker.note, speaker.missing
    if asked_for is not None and speaker.embedder.id == asked_for.id and missing:
        note, lacking = f"{_have(missing)} no vector of {asked_for.id} yet: found by words alone", missing
    return SearchResult(hits, "hybrid_embeddings", note, speaker.embedder.id, lacking)


def _checked(slot: str, fusion: str, limit: int) -> None:
    if slot not in SLOTS:
        raise Invalid("slot", f"there is none called {slot}", f"Choose one of {', '.join(SLOTS)}")
    if fusion not in FUSIONS:
        raise Invalid("fusion", f"there is none called {fusion}", f"Choose one of {', '.join(FUSIONS)}")
    if not 1 <= limit <= MOST:
        raise Invalid("limit", f"{limit} is not from 1 to {MOST}", "Ask for fewer and more precisely")


# --- by meaning -------------------------------------------------------------------------------------------------------------


def _speaker(
    index: DocumentIndex, owner: str, agent: str, question: str, embedder: Embedder | None, previous: Previous | None
) -> AnsweringModel:
    """Who answers: the model asked for where it is complete, else one before it. A model is asked outside any transaction."""
    if embedder is None:
        return AnsweringModel(note="no embedder is set: found by words alone")
    with index.cache.reading():
        scopes = _scopes(index.cache, owner, agent)
        ready, numbers = _is_ready(index.cache, scopes, embedder), list(scopes)
        missing = 0 if ready else vectors.missing_in(index.cache, numbers, embedder.id)
        older = [] if ready else vectors.ready_models(index.cache, numbers)
    if ready:
        return _asked(embedder, question)
    lacking = f"the vectors of {embedder.id} are not complete yet, {_have(missing)} none"
    earlier = next((found for id in older if previous and (found := previous(id)) and found.id == id), None)
    if earlier is None:
        return AnsweringModel(note=f"{lacking}: found by words alone until a sync has made them", missing=missing)
    spoken = _asked(earlier, question)
    return replace(spoken, note=f"{lacking}: {spoken.note or f'{earlier.id} answered'}", missing=missing)


def _is_ready(cache: Cache, scopes: Mapping[int, str], embedder: Embedder) -> bool:
    return all(vectors.is_ready(cache, scope, embedder.id) for scope in scopes)


def _asked(embedder: Embedder, question: str) -> AnsweringModel:
    """The question as a vector, or why there is none."""
    try:
        found = embedder.embed([question])
    except vectors.BROKEN as error:
        return AnsweringModel(note=f"the embedder failed ({one_line(str(error), 200)}): found by words alone")
    if found.shape != (1, embedder.dim) or not bool(abs(found).sum() < float("inf")):
        return AnsweringModel(note=f"{embedder.id} answered with a vector of another form: found by words alone")
    return AnsweringModel(embedder, found[0])


def _have(passages: int) -> str:
    return "1 passage has" if passages == 1 else f"{passages} passages have"


def weights_of(embedder: Embedder) -> tuple[float, float]:
    """How much the words count, and how much the vectors of a model: half each, but for a static table."""
    return TABLE_WEIGHTS if "static" in embedder.id else WEIGHTS


# --- together ---------------------------------------------------------------------------------------------------------------


def fused(scores: Scores, fusion: Fusion) -> dict[int, float]:
    """One score from 0 to 1 for each candidate.

    >>> fused(Scores({1: 4.0, 2: 2.0}, {1: 0.0, 2: 0.9, 3: 0.4}, weights=(0.5, 0.5)), "weighted")
    {1: 0.5, 2: 0.7, 3: 0.2}
    """
    best = max(scores.words.values(), default=0.0) or 1.0
    if scores.weights is None:
        return {chunk: score / best for chunk, score in scores.words.items()}
    near = {chunk: score for chunk, score in scores.meaning.items() if score >= NEAR}
    either = dict.fromkeys((*scores.words, *near))
    if fusion == "weighted":
        a, b = scores.weights
        nearest = max(near.values(), default=0.0)  # what has no vector is taken to be as near as its words are good
        near |= {chunk: nearest * scores.words[chunk] / best for chunk in scores.unknown if chunk in scores.words}
        return {chunk: round(a * scores.words.get(chunk, 0.0) / best + b * near.get(chunk, 0.0), 9) for chunk in either}
    by_words, by_meaning = _places(scores.words), _places(near)
    by_meaning |= {chunk: by_words[chunk] for chunk in scores.unknown if chunk in by_words}
    places = (by_words, by_meaning)
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
    cache: Cache, scopes: Mapping[int, str], scores: Scores, asked: ParsedQuestion, fusion: Fusion, limit: int, minimum: float,
    caps: Caps, types: Sequence[str],
) -> tuple[Hit, ...]:  # fmt: skip
    total = fused(scores, fusion)
    wanted = {chunk: score for chunk, score in total.items() if score >= minimum} if minimum > 0 else total

    def order(row: CandidateRow) -> tuple[float, str, str, int]:
        return -round(total.get(row.chunk, 0.0), 9), row.path, scopes[row.scope], row.start

    def chosen_of(some: Collection[int]) -> tuple[list[CandidateRow], bool]:
        rows = _rows(cache, set(some).union(*scores.exact), types)
        named = [sorted((rows[chunk] for chunk in part if chunk in rows), key=order) for part in scores.exact]
        ranked = sorted(rows.values(), key=order)
        free = all(caps.leave_free(row) for row in ranked)
        return placed(ranked, limit, reserved=_in_turn(named), caps=caps, named=asked.only_names), free

    leading = _leading(wanted, limit + SPARE)
    chosen, settled = chosen_of(leading)
    if not settled and len(leading) < len(wanted):  # some may have to give way to others further down
        chosen, _ = chosen_of(wanted)
    reasons, texts = _reasons(scores), _texts(cache, chosen)
    return tuple(
        _hit(row, scopes[row.scope] == GLOBAL, total.get(row.chunk, 0.0), texts[row.chunk], asked, *reasons(row.chunk))
        for row in chosen
    )  # fmt: skip


def _leading(scores: Mapping[int, float], count: int) -> Collection[int]:
    """So many of the best, and those that are as good as the last of them.

    >>> _leading({1: 0.5, 2: 0.9, 3: 0.5, 4: 0.1}, 2)
    [1, 2, 3]
    """
    if len(scores) <= count:
        return scores
    least = sorted(scores.values(), reverse=True)[count - 1]
    return [chunk for chunk, score in scores.items() if score >= least]


def _rows(cache: Cache, chunks: set[int], types: Sequence[str]) -> dict[int, CandidateRow]:
    """Candidates with what is known of their documents."""
    sql = (
        "SELECT c.id, d.path, d.type, d.tier, c.start, c.scope FROM chunks c INDEXED BY chunks_in_short "
        "CROSS JOIN documents d INDEXED BY documents_in_short ON d.id = c.document "
        "WHERE c.id IN (SELECT value FROM json_each(?))"
    )
    rows: list[Any] = cache.connection.execute(sql, (str(list(chunks)),)).fetchall()
    return {row[0]: CandidateRow._make(row) for row in rows if not types or row[2] in types}


def _in_turn(parts: Sequence[Sequence[CandidateRow]]) -> list[CandidateRow]:
    """The best of each exact part, then the second of each."""
    longest = max(map(len, parts), default=0)
    return list(dict.fromkeys(part[at] for at in range(longest) for part in parts if at < len(part)))


def _reasons(scores: Scores) -> Callable[[int], tuple[Arm, str]]:
    """Which arms found a passage, and at which place each."""
    near = {chunk: score for chunk, score in scores.meaning.items() if score >= NEAR}
    arms = [("words", scores.words, sorted(scores.words.values())), ("meaning", near, sorted(near.values()))]
    named = {chunk for part in scores.exact for chunk in part}

    def reason(chunk: int) -> tuple[Arm, str]:
        told = [f"{arm}: {ordinal(1 + len(each) - bisect_right(each, said[chunk]))}" for arm, said, each in arms if chunk in said]
        told += ["no vector yet"] if chunk in scores.unknown else []
        both: Arm = "both" if chunk in scores.words and chunk in near else "fts" if chunk in scores.words else "vector"
        return ("exact", "; ".join(("named exactly", *told))) if chunk in named else (both, "; ".join(told))

    return reason


def ordinal(number: int) -> str:
    """
    >>> [ordinal(number) for number in (1, 2, 3, 11, 22, 113)]
    ['1st', '2nd', '3rd', '11th', '22nd', '113th']
    """
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _texts(cache: Cache, rows: Sequence[CandidateRow]) -> dict[int, tuple[Any, ...]]:
    """What is shown of the passages that were chosen."""
    sql = (
        "SELECT id, start_line, end_line, end, content_hash, headings, text FROM chunks "
        "WHERE id IN (SELECT value FROM json_each(?))"
    )
    found: list[Any] = cache.connection.execute(sql, (str([row.chunk for row in rows]),)).fetchall()
    return {chunk: tuple(rest) for chunk, *rest in found}


def _hit(
    row: CandidateRow, shared: bool, score: float, told: tuple[Any, ...], asked: ParsedQuestion, source: Arm, reason: str
) -> Hit:
    start_line, end_line, end, content_hash, headings, text = told
    return Hit(
        path=row.path, start_line=start_line, end_line=end_line, score=round(score, 6), snippet=snippet(text, asked),
        source=source, source_type=row.type, tier=row.tier, content_hash=content_hash, reason=reason,
        headings=tuple(headings.split("\n")) if headings else (), shared=shared, start=row.start, end=end,
    )  # fmt: skip
