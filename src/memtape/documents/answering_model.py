"""Which embedding model answers a question: the wanted one if its vectors are complete, else an earlier one, else words alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from memtape.core.brief.sanitize import one_line
from memtape.core.value_class import dataclass
from memtape.documents import vectors
from memtape.documents.cache import DocumentCache
from memtape.documents.index import DocumentIndex
from memtape.plugs.embedder import Embedder

EmbedderById = Callable[[str], Embedder | None]  # the embedder of a model's id, if it is available


@dataclass(frozen=True, slots=True)
class AnsweringModel:
    """The model that answers and the question as its vector; no embedder if words answer alone. The note says why."""

    embedder: Embedder | None = None
    vector: Any = None
    note: str = ""
    missing: int = 0  # passages without a vector of the wanted model


def choose_model(
    index: DocumentIndex, owner: str, agent: str, question: str, embedder: Embedder | None, previous: EmbedderById | None
) -> AnsweringModel:
    """Returns the model that answers. Embeds the question outside any transaction, because a model may be slow."""
    if embedder is None:
        return AnsweringModel(note="no embedder is set: found by words alone")
    with index.cache.reading():
        scopes = list(index.cache.searched_scopes(owner, agent))
        ready = is_ready_in_all(index.cache, scopes, embedder)
        missing = 0 if ready else vectors.count_missing(index.cache, scopes, embedder.id)
        other_models = [] if ready else vectors.ready_models(index.cache, scopes)
    if ready:
        return _embed_question(embedder, question)
    incomplete = f"the vectors of {embedder.id} are not complete yet, {passages_have(missing)} none"
    # An embedder may be available under another id than the one whose vectors are stored; those must not be compared.
    available = (found for id in other_models if previous and (found := previous(id)) and found.id == id)
    earlier = next(available, None)
    if earlier is None:
        return AnsweringModel(note=f"{incomplete}: found by words alone until a sync has made them", missing=missing)
    answering = _embed_question(earlier, question)
    return replace(answering, note=f"{incomplete}: {answering.note or f'{earlier.id} answered'}", missing=missing)


def is_ready_in_all(cache: DocumentCache, scopes: Iterable[int], embedder: Embedder) -> bool:
    """Returns True if a model may answer for all of these scopes. Call it inside a transaction."""
    return all(vectors.is_ready(cache, scope, embedder.id) for scope in scopes)


def _embed_question(embedder: Embedder, question: str) -> AnsweringModel:
    """Returns the model with the question as a vector, or words alone and why."""
    try:
        vector = embedder.embed([question])
    except vectors.EMBEDDER_ERRORS as error:
        return AnsweringModel(note=f"the embedder failed ({one_line(str(error), 200)}): found by words alone")
    if vector.shape != (1, embedder.dim) or not bool(abs(vector).sum() < float("inf")):
        return AnsweringModel(note=f"{embedder.id} answered with a vector of another form: found by words alone")
    return AnsweringModel(embedder, vector[0])


def passages_have(count: int) -> str:
    """
    >>> passages_have(1), passages_have(2)
    ('1 passage has', '2 passages have')
    """
    return "1 passage has" if count == 1 else f"{count} passages have"
