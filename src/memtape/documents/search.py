"""Document search: by words, by meaning, and by exact names; each hit with its lines.

Two slots. `sqlite_fts` ranks passages by BM25 of the passage plus BM25 of the whole document. `hybrid_embeddings` adds the
similarity of vectors: ½ · BM25 (as a share of the best) + ½ · cosine, or reciprocal ranks. Tickers, ids, codes and phrases in
quotation marks are an arm of their own with reserved places.

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
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from memtape.core.value_class import dataclass
from memtape.documents import lexical
from memtape.documents.answering_model import AnsweringModel, EmbedderById, choose_model, is_ready_in_all, passages_have
from memtape.documents.cache import SHARED_SCOPE, DocumentCache
from memtape.documents.fusion import FUSIONS, Arm, ArmScores, Fusion, arm_weights, explain_scores, fuse_scores
from memtape.documents.index import DocumentIndex
from memtape.documents.question import ParsedQuestion, parse_question
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
    caps: ResultCaps | None = None, types: Sequence[str] = (),
) -> SearchResult:  # fmt: skip
    """Searches an agent's documents and those shared with it.

    `previous` returns the embedder of another model's id, which answers while the vectors of `embedder` are being made.
    `minimum` is the least score of a hit; `types` restricts the search to some types of documents.
    """
    _check_arguments(slot, fusion, limit)
    parsed = parse_question(question)
    if parsed.is_empty:
        return SearchResult((), slot)
    model = choose_model(index, owner, agent, question, embedder, previous) if slot == "hybrid_embeddings" else AnsweringModel()
    with index.cache.reading():
        scopes = index.cache.searched_scopes(owner, agent)
        # The model was chosen in an earlier transaction: another process may have dropped its vectors since.
        if model.embedder and not is_ready_in_all(index.cache, scopes, model.embedder):
            model = AnsweringModel(note=f"the vectors of {model.embedder.id} were dropped meanwhile: found by words alone")
        scores, missing = _score_candidates(index, list(scopes), parsed, model, types)
        hits = _choose_hits(index.cache, scopes, scores, parsed, fusion, limit, minimum, caps or ResultCaps(), types)
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
    index: DocumentIndex, scopes: Sequence[int], question: ParsedQuestion, model: AnsweringModel, types: Sequence[str]
) -> tuple[ArmScores, int]:
    """Returns the scores of each arm, and how many passages have no vector of the answering model."""
    cache = index.cache
    words = lexical.search_terms(cache, scopes, question)
    word_scores = lexical.rank_by_words(cache, scopes, words, POOL_SIZE, types)
    # A full pool may consist of decisions and transcripts alone, and the caps could then choose nothing else. So each arm whose
    # pool is full is asked a second time for the other types. Not if the question restricts the types, nor if no pool is full.
    may_be_crowded = not types and (len(word_scores) >= POOL_SIZE or model.embedder is not None)
    other_types = _types_beside_bulk(cache, scopes) if may_be_crowded else ()
    if other_types and len(word_scores) >= POOL_SIZE:
        word_scores |= lexical.rank_by_words(cache, scopes, words, POOL_SIZE, other_types)
    exact = lexical.find_exact(cache, scopes, question, words, () if types else word_scores)
    if model.embedder is None:
        return ArmScores(word_scores, {}, exact), 0
    # What the other arms found needs its similarity too, near or not: a fused score takes both into account.
    found = set(word_scores).union(*exact)
    similarity, missing = index.nearest(scopes, model.embedder, model.vector, POOL_SIZE, found, types)
    if other_types and len(similarity) >= POOL_SIZE:
        similarity |= index.nearest(scopes, model.embedder, model.vector, POOL_SIZE, found, other_types)[0]
    without_vector = frozenset(found - similarity.keys()) if missing else frozenset[int]()
    return ArmScores(word_scores, similarity, exact, arm_weights(model.embedder), without_vector), missing


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
    minimum: float, caps: ResultCaps, types: Sequence[str],
) -> tuple[SearchHit, ...]:  # fmt: skip
    """Fuses the scores and returns the hits in order."""
    total = fuse_scores(scores, fusion)
    wanted = {chunk: score for chunk, score in total.items() if score >= minimum} if minimum > 0 else total

    def order(each: PassageCandidate) -> tuple[float, str, str, int]:
        return -round(total.get(each.chunk, 0.0), 9), each.path, scopes[each.scope], each.start

    def choose(chunks: Collection[int]) -> tuple[list[PassageCandidate], bool]:
        """Returns the chosen candidates, and True if no candidate is subject to a cap."""
        candidates = _candidates(cache, set(chunks).union(*scores.exact), types)
        exact = [sorted((candidates[chunk] for chunk in part if chunk in candidates), key=order) for part in scores.exact]
        ranked = sorted(candidates.values(), key=order)
        uncapped = all(caps.is_uncapped(each) for each in ranked)
        chosen = pick_results(ranked, limit, reserved=_interleave(exact), caps=caps, names_only=question.only_names)
        return chosen, uncapped

    # Looking up a candidate costs a row. A few more than the limit are enough unless a cap moves one of them down: then all are
    # looked up, because those further down may move up.
    leading = _leading(wanted, limit + EXTRA_CANDIDATES)
    chosen, settled = choose(leading)
    if not settled and len(leading) < len(wanted):
        chosen, _ = choose(wanted)
    explain, texts = explain_scores(scores), _passage_texts(cache, chosen)
    hits = []
    for each in chosen:
        arm, reason = explain(each.chunk)
        is_shared = scopes[each.scope] == SHARED_SCOPE
        hits.append(_hit(each, texts[each.chunk], question, total.get(each.chunk, 0.0), arm, reason, shared=is_shared))
    return tuple(hits)


def _leading(scores: Mapping[int, float], count: int) -> Collection[int]:
    """Returns so many of the best chunks, and those that score the same as the last of them.

    >>> _leading({1: 0.5, 2: 0.9, 3: 0.5, 4: 0.1}, 2)
    [1, 2, 3]
    """
    if len(scores) <= count:
        return scores
    least = sorted(scores.values(), reverse=True)[count - 1]
    return [chunk for chunk, score in scores.items() if score >= least]


def _candidates(cache: DocumentCache, chunks: set[int], types: Sequence[str]) -> dict[int, PassageCandidate]:
    """Returns chunks with what is known of their documents."""
    sql = (
        "SELECT c.id, d.path, d.type, d.tier, c.start, c.scope FROM chunks c INDEXED BY chunks_in_short "
        "CROSS JOIN documents d INDEXED BY documents_in_short ON d.id = c.document "
        "WHERE c.id IN (SELECT value FROM json_each(?))"
    )
    rows: list[Any] = cache.connection.execute(sql, (str(list(chunks)),)).fetchall()
    return {row[0]: PassageCandidate._make(row) for row in rows if not types or row[2] in types}


def _interleave(parts: Sequence[Sequence[PassageCandidate]]) -> list[PassageCandidate]:
    """Returns the best candidate of each exact part, then the second of each, and so on."""
    longest = max(map(len, parts), default=0)
    return list(dict.fromkeys(part[at] for at in range(longest) for part in parts if at < len(part)))


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
