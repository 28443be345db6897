"""Document search: by words, by meaning, and by exact names; each hit with its lines.

Two slots. `sqlite_fts` ranks passages by BM25 and by how near the words of the question are to each other. `hybrid_embeddings`
adds the similarity of vectors: ½ · BM25 (as a share of the best) + ½ · cosine, or reciprocal ranks. Passages that have what the
question names (a rule, an id, a ticker, a file, a quoted phrase) come before those that have not. Of nearly identical passages
one takes a place; the others follow behind all that are different.

A model answers once every passage has had a vector of it; until then the earlier model answers, if it is available. Passages
written since then have no vector yet and rank by their words. If no model can answer, or the embedder fails, words answer alone.
The note of the answer says if it is not what was asked for.

The pool of candidates has a fixed size, scores are rounded, and ties are broken by path and line: the same index gives the same
answer, and the first three of ten hits are the first three of fifty.

>>> from datetime import UTC, datetime
>>> from memtape.documents.index import DocumentIndex
>>> from memtape.documents.index_writer import Document
>>> index = DocumentIndex(":memory:")
>>> rule, note = "# Risk\\nNever move a stop away.", "# May 12\\nGold: moved the stop, lost 2R."
>>> _ = index.put("ann", "gold", [Document("SOUL.md", "rules", 1, rule), Document("journal/12.md", "journal", 3, note)],
...     now=datetime(2026, 5, 13, tzinfo=UTC))
>>> hit = search_index(index, "why was gold lost?", owner="ann", agent="gold").hits[0]
>>> hit.path, hit.start_line, hit.end_line, hit.source, hit.tier, hit.reason
('journal/12.md', 1, 2, 'fts', 3, 'words: 1st')
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from memtape.core.value_class import dataclass
from memtape.documents import lexical
from memtape.documents.age_decay import AgeDecay
from memtape.documents.answering_model import AnsweringModel, EmbedderById, choose_model, is_ready_in_all, passages_have
from memtape.documents.cache import SHARED_SCOPE, DocumentCache
from memtape.documents.filters import EVERYTHING, DocumentFilter, choose_documents
from memtape.documents.fusion import FUSIONS, Arm, ArmScores, Fusion, arm_weights, explain_scores, fuse_scores
from memtape.documents.index import DocumentIndex
from memtape.documents.question import ParsedQuestion, parse_question
from memtape.documents.repeats import MIN_SHARED, split_repeats
from memtape.documents.result_caps import BULK_TYPES, PassageCandidate, ResultCaps, pick_results
from memtape.documents.slots import SLOTS, Slot
from memtape.documents.snippets import snippet
from memtape.errors import Invalid
from memtape.plugs.embedder import Embedder

POOL_SIZE = 200  # candidates of each arm
MAX_HITS = 100
EXTRA_CANDIDATES = 5  # looked up beyond the limit before falling back to all candidates


@dataclass(frozen=True, slots=True)
class SearchHit:
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
    start: int = 0  # offset of its first character in the document
    end: int = 0  # offset behind its last character


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The hits, which slot answered, and a note if that is not what was asked for."""

    hits: tuple[SearchHit, ...]
    slot: Slot
    note: str = ""
    model: str = ""  # whose vectors were compared
    missing: int = 0  # passages without a vector of the wanted model


class _PassageText(NamedTuple):
    """What is shown of a passage."""

    start_line: int
    end_line: int
    end: int
    content_hash: str
    headings: str
    text: str


def search_index(
    index: DocumentIndex, question: str, *, owner: str, agent: str, slot: Slot = "sqlite_fts", embedder: Embedder | None = None,
    previous: EmbedderById | None = None, limit: int = 10, minimum: float = 0.0, fusion: Fusion = "weighted",
    caps: ResultCaps | None = None, types: Sequence[str] = (), only: DocumentFilter | None = None, decay: AgeDecay | None = None,
) -> SearchResult:  # fmt: skip
    """Searches an agent's documents and those shared with it.

    `previous` returns the embedder of another model's id, which answers while the vectors of `embedder` are being made.
    `minimum` is the least score of a hit; `types` or `only` restricts the search to some documents.
    """
    _check_arguments(slot, fusion, limit)
    parsed, only = parse_question(question), only or choose_documents(types=types)
    if parsed.is_empty:
        return SearchResult((), slot)
    model = choose_model(index, owner, agent, question, embedder, previous) if slot == "hybrid_embeddings" else AnsweringModel()
    with index.cache.reading():
        scopes = index.cache.searched_scopes(owner, agent)
        # The model was chosen in an earlier transaction: another process may have dropped its vectors since.
        if model.embedder and not is_ready_in_all(index.cache, scopes, model.embedder):
            model = AnsweringModel(note=f"the vectors of {model.embedder.id} were dropped meanwhile: found by words alone")
        caps = caps or ResultCaps()
        scores, missing = _score_candidates(index, list(scopes), parsed, model, only, caps)
        hits = _choose_hits(index.cache, scopes, scores, parsed, fusion, limit, minimum, caps, decay)
    return _result(hits, model, embedder, missing)


def _check_arguments(slot: str, fusion: str, limit: int) -> None:
    if slot not in SLOTS:
        raise Invalid("slot", f"there is none called {slot}", f"Choose one of {', '.join(SLOTS)}")
    if fusion not in FUSIONS:
        raise Invalid("fusion", f"there is none called {fusion}", f"Choose one of {', '.join(FUSIONS)}")
    if not 1 <= limit <= MAX_HITS:
        raise Invalid("limit", f"{limit} is not from 1 to {MAX_HITS}", "Ask for fewer hits with a more precise question")


def _result(hits: tuple[SearchHit, ...], model: AnsweringModel, wanted: Embedder | None, missing: int) -> SearchResult:
    """Returns the answer, with a note of what differs from what was asked for."""
    if model.embedder is None:
        return SearchResult(hits, "sqlite_fts", model.note, missing=model.missing)
    note, missing_of_wanted = model.note, model.missing
    if wanted is not None and model.embedder.id == wanted.id and missing:
        note, missing_of_wanted = f"{passages_have(missing)} no vector of {wanted.id} yet: found by words alone", missing
    return SearchResult(hits, "hybrid_embeddings", note, model.embedder.id, missing_of_wanted)


# --- the arms ---------------------------------------------------------------------------------------------------------------


def _score_candidates(
    index: DocumentIndex, scopes: Sequence[int], question: ParsedQuestion, model: AnsweringModel, only: DocumentFilter,
    caps: ResultCaps,
) -> tuple[ArmScores, int]:
    """Returns the scores of each arm, and how many passages have no vector of the answering model."""
    cache = index.cache
    words = lexical.search_terms(cache, scopes, question)
    word_scores = lexical.rank_by_words(cache, scopes, question, words, POOL_SIZE, only)
    # A full pool may consist of decisions, transcripts and the agent's notes alone, and the caps could then choose nothing else.
    # So each arm whose pool is full is asked a second time for the others; not if the documents are restricted.
    may_be_crowded = only == EVERYTHING and (len(word_scores) >= POOL_SIZE or model.embedder is not None)
    others = choose_documents(types=_types_beside_bulk(cache, scopes)) if may_be_crowded else EVERYTHING
    beside_bulk = others.without(caps.written_by_agent) if may_be_crowded else EVERYTHING
    if beside_bulk != EVERYTHING and len(word_scores) >= POOL_SIZE:
        word_scores |= lexical.rank_by_words(cache, scopes, question, words, POOL_SIZE, beside_bulk)
    named = lexical.find_named(cache, scopes, question, word_scores, only)
    if model.embedder is None:
        return ArmScores(word_scores, {}, named.having, named.defining), 0
    # What the other arms found needs its similarity too, near or not: a fused score takes both into account.
    found = set(word_scores).union(*named.having)
    similarity, missing = index.nearest(scopes, model.embedder, model.vector, POOL_SIZE, found, only)
    if beside_bulk != EVERYTHING and len(similarity) >= POOL_SIZE:
        similarity |= index.nearest(scopes, model.embedder, model.vector, POOL_SIZE, found, beside_bulk)[0]
    without_vector = frozenset(found - similarity.keys()) if missing else frozenset[int]()
    return ArmScores(word_scores, similarity, named.having, named.defining, arm_weights(model.embedder), without_vector), missing


def _types_beside_bulk(cache: DocumentCache, scopes: Sequence[int]) -> tuple[str, ...]:
    """Returns the document types other than decisions and transcripts; none if there are no decisions or transcripts."""
    some = "SELECT 1 FROM documents WHERE scope = ? AND type IN (SELECT value FROM json_each(?)) LIMIT 1"
    if not any(cache.connection.execute(some, (scope, json.dumps(BULK_TYPES))).fetchall() for scope in scopes):
        return ()
    # Steps from type to type through the index instead of reading every document.
    sql = (
        "WITH RECURSIVE one(type) AS (SELECT min(type) FROM documents WHERE scope = :scope UNION ALL "
        "SELECT (SELECT min(type) FROM documents WHERE scope = :scope AND type > one.type) FROM one WHERE one.type IS NOT NULL) "
        "SELECT type FROM one WHERE type IS NOT NULL"
    )
    types = {str(kind) for scope in scopes for (kind,) in cache.connection.execute(sql, {"scope": scope})}
    return tuple(sorted(types.difference(BULK_TYPES)))


# --- the hits ---------------------------------------------------------------------------------------------------------------


def _choose_hits(
    cache: DocumentCache, scopes: Mapping[int, str], scores: ArmScores, question: ParsedQuestion, fusion: Fusion, limit: int,
    minimum: float, caps: ResultCaps, decay: AgeDecay | None,
) -> tuple[SearchHit, ...]:  # fmt: skip
    """Fuses the scores and returns the hits in order."""
    total = fuse_scores(scores, fusion)
    if decay is not None:
        total = {each.chunk: total[each.chunk] * decay.share(each.type, each.dated) for each in _candidates(cache, set(total))}
    wanted = {chunk: score for chunk, score in total.items() if score >= minimum} if minimum > 0 else total
    names_in = Counter(chunk for chunks in scores.exact for chunk in chunks)
    # How many of the named things a passage has, then its score.
    # A passage that says what the thing is gets more, the less else is asked.
    bonus = 1 / (1 + len(question.words_beside_names))
    ranks = {chunk: (0, round(score, 9)) for chunk, score in wanted.items()}
    for chunk, count in names_in.items():
        ranks[chunk] = count, round(total.get(chunk, 0.0) + bonus * (chunk in scores.defining), 9)

    def order(each: PassageCandidate) -> tuple[int, float, str, str, int]:
        names, score = ranks[each.chunk]
        return -names, -score, each.path, scopes[each.scope], each.start

    def choose(chunks: Collection[int]) -> tuple[list[PassageCandidate], bool]:
        """Returns the chosen candidates, and True if no other candidate could have taken a place."""
        ranked, repeated = _fold_repeats(cache, sorted(_candidates(cache, set(chunks)), key=order), names_in)
        return pick_results(ranked, limit, caps=caps), not repeated and all(map(caps.is_uncapped, ranked))

    # Looking up a candidate costs a row. A few more than the limit are enough unless one of them moves down: then all are looked
    # up, because those further down may move up.
    leading = _leading(ranks, limit + EXTRA_CANDIDATES)
    chosen, settled = choose(leading)
    if not settled and len(leading) < len(ranks):
        chosen, _ = choose(ranks)
    explain, texts = explain_scores(scores), _passage_texts(cache, chosen)
    hits = []
    for each in chosen:
        arm, reason = explain(each.chunk)
        is_shared = scopes[each.scope] == SHARED_SCOPE
        hits.append(_hit(each, texts[each.chunk], question, total.get(each.chunk, 0.0), arm, reason, shared=is_shared))
    return tuple(hits)


def _leading(ranks: Mapping[int, tuple[int, float]], count: int) -> Collection[int]:
    """Returns so many of the best chunks, and those that rank the same as the last of them.

    >>> _leading({1: (0, 0.5), 2: (0, 0.9), 3: (0, 0.5), 4: (1, 0.1)}, 3)
    [1, 2, 3, 4]
    """
    if len(ranks) <= count:
        return ranks
    least = sorted(ranks.values(), reverse=True)[count - 1]
    return [chunk for chunk, rank in ranks.items() if rank >= least]


def _candidates(cache: DocumentCache, chunks: set[int]) -> list[PassageCandidate]:
    """Returns chunks with what is known of their documents."""
    sql = (
        "SELECT c.id, d.path, d.type, d.tier, c.start, c.scope, d.dated FROM chunks c INDEXED BY chunks_in_short "
        "CROSS JOIN documents d INDEXED BY documents_in_short ON d.id = c.document "
        "WHERE c.id IN (SELECT value FROM json_each(?))"
    )
    rows: list[Any] = cache.connection.execute(sql, (str(list(chunks)),)).fetchall()
    return [PassageCandidate._make(row) for row in rows]


def _fold_repeats(
    cache: DocumentCache, ranked: Sequence[PassageCandidate], names_in: Mapping[int, int]
) -> tuple[list[PassageCandidate], bool]:
    """Moves passages that repeat a better one behind the others that have as many of the named things; True if there were any."""
    texts = _texts(cache, [each.chunk for each in ranked])
    result: list[PassageCandidate] = []
    repeated = False
    for _, group in groupby(ranked, key=lambda each: names_in[each.chunk]):
        first, behind = split_repeats([(each, texts[each.chunk], _min_shared(each)) for each in group])
        result += [*first, *behind]
        repeated = repeated or bool(behind)
    return result, repeated


def _min_shared(candidate: PassageCandidate) -> float:
    """Returns the share of its words that a passage has in common with one that it repeats."""
    # The reports of two backtests differ in their figures only, and these are what they say.
    return 1.0 if candidate.type == "report" else MIN_SHARED


def _texts(cache: DocumentCache, chunks: Sequence[int]) -> dict[int, str]:
    sql = "SELECT id, text FROM chunks WHERE id IN (SELECT value FROM json_each(?))"
    rows: list[Any] = cache.connection.execute(sql, (str(list(chunks)),)).fetchall()
    return dict(rows)


def _passage_texts(cache: DocumentCache, chosen: Sequence[PassageCandidate]) -> dict[int, _PassageText]:
    sql = (
        "SELECT id, start_line, end_line, end, content_hash, headings, text FROM chunks "
        "WHERE id IN (SELECT value FROM json_each(?))"
    )
    rows: list[Any] = cache.connection.execute(sql, (str([each.chunk for each in chosen]),)).fetchall()
    return {chunk: _PassageText(*rest) for chunk, *rest in rows}


def _hit(
    candidate: PassageCandidate, passage: _PassageText, question: ParsedQuestion, score: float, arm: Arm, reason: str, *,
    shared: bool,
) -> SearchHit:  # fmt: skip
    return SearchHit(
        path=candidate.path, start_line=passage.start_line, end_line=passage.end_line, score=round(score, 6),
        snippet=snippet(passage.text, question), source=arm, source_type=candidate.type, tier=candidate.tier,
        content_hash=passage.content_hash, reason=reason,
        headings=tuple(passage.headings.split("\n")) if passage.headings else (), shared=shared,
        start=candidate.start, end=passage.end,
    )  # fmt: skip
