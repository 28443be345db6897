"""The vectors of passages: made once for each text and model, and stored in the cache.

A model may answer for a scope once every passage of it has had a vector; a row in `models` says so. Until then the earlier model
answers, whose vectors stay as long as any scope that is searched together with this one needs them. Passages written since then
have no vector until the next fill: they are found by their words, and the answer says how many there are. `vector_matrix`
compares the vectors with a question.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from memtape.core.value_class import dataclass
from memtape.documents.cache import SHARED_SCOPE, DocumentCache
from memtape.errors import MemtapeError
from memtape.plugs.embedder import Embedder

BATCH_SIZE = 64
# Lists each model once, with one index lookup per model instead of one step per vector.
_STORED_MODELS = (
    "WITH RECURSIVE made (model) AS (SELECT min(model) FROM vectors UNION ALL "
    "SELECT (SELECT min(model) FROM vectors WHERE vectors.model > made.model) FROM made WHERE made.model IS NOT NULL) "
    "SELECT model FROM made WHERE model IS NOT NULL"
)
# The ordinary failures of an embedder: a server that is down, a file that is missing, an answer of the wrong form.
EMBEDDER_ERRORS = (MemtapeError, OSError, ValueError, RuntimeError, ImportError)


@dataclass(frozen=True, slots=True)
class FillResult:
    """How many vectors a fill made, how many are still missing, and what stopped it."""

    made: int = 0
    missing: int = 0
    problem: str = ""
    complete: bool = False


class _TextToEmbed(NamedTuple):
    hash: str
    text: str


def fill_vectors(cache: DocumentCache, owner: str, agent: str, embedder: Embedder) -> FillResult:
    """Makes the missing vectors of a scope, one transaction per batch. If a batch fails, the earlier ones stay."""
    import numpy as np

    made, problem = 0, ""
    missing = _missing_chunks(cache, owner, agent, embedder.id)
    for start in range(0, len(missing), BATCH_SIZE):
        batch = _texts_to_embed(cache, missing[start : start + BATCH_SIZE])
        # The model may be slow, so no transaction is open while it works.
        try:
            vectors = np.asarray(embedder.embed([each.text for each in batch]), np.float32)
        except EMBEDDER_ERRORS as error:
            problem = f"{embedder.id}: {error}"
            break
        if vectors.shape != (len(batch), embedder.dim) or not np.isfinite(vectors).all():
            problem = f"{embedder.id} answered with vectors of another form"
            break
        rows = [
            (embedder.id, each.hash, vector.astype("<f4").tobytes(), each.hash)
            for each, vector in zip(batch, vectors, strict=True)
        ]
        with cache.writing() as connection:
            # A passage that was deleted meanwhile needs no vector.
            still_there = "EXISTS (SELECT 1 FROM chunks WHERE hash = ?)"
            sql = f"INSERT OR REPLACE INTO vectors (model, hash, vector) SELECT ?, ?, ? WHERE {still_there}"
            connection.executemany(sql, rows)
            connection.execute("UPDATE models SET revision = revision + 1 WHERE model = ?", (embedder.id,))
        made += len(batch)
    return _finish_fill(cache, owner, agent, embedder, made, problem)


def _finish_fill(cache: DocumentCache, owner: str, agent: str, embedder: Embedder, made: int, problem: str) -> FillResult:
    """Records a complete model, which may answer from now on, and returns the result of the fill."""
    with cache.writing() as connection:
        scope = cache.scope(owner, agent)
        missing = 0 if scope is None else count_missing(cache, [scope], embedder.id)
        if scope is not None and not missing and not problem:
            connection.execute("INSERT OR IGNORE INTO models VALUES (?, ?, ?, 0)", (scope, embedder.id, embedder.dim))
    return FillResult(made, missing, problem, complete=not missing and not problem)


def _missing_chunks(cache: DocumentCache, owner: str, agent: str, model: str) -> list[int]:
    """Returns one chunk for each text that has no vector."""
    sql = (
        "SELECT min(id) AS first FROM chunks INDEXED BY chunks_by_hash WHERE scope = ? AND NOT EXISTS "
        "(SELECT 1 FROM vectors WHERE model = ? AND vectors.hash = chunks.hash) GROUP BY hash ORDER BY first"
    )
    with cache.reading() as connection:
        rows: list[Any] = connection.execute(sql, (cache.scope(owner, agent), model)).fetchall()
    return [chunk for (chunk,) in rows]


def _texts_to_embed(cache: DocumentCache, chunks: Sequence[int]) -> list[_TextToEmbed]:
    """Returns the texts of these chunks; chunks that were deleted meanwhile are left out."""
    sql = "SELECT hash, headings, text FROM chunks WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id"
    with cache.reading() as connection:
        rows: list[Any] = connection.execute(sql, (str(list(chunks)),)).fetchall()
    return [_TextToEmbed(hash, embedding_text(headings.split("\n"), text)) for hash, headings, text in rows]


def embedding_text(headings: Sequence[str], text: str) -> str:
    """Returns what is embedded of a passage: its text below those headings that it does not contain itself.

    >>> embedding_text(["Gold", "Exits"], "## Exits\\nTrail by 2 ATR.")
    'Gold\\n## Exits\\nTrail by 2 ATR.'
    """
    return "\n".join((*(heading for heading in headings if heading and heading not in text), text))


def drop_other_models(cache: DocumentCache, owner: str, model: str) -> None:
    """Drops the vectors of all models but this one, which has just become complete, wherever nothing needs them any more.

    An agent is searched together with the shared documents. So the agent's old vectors go once the shared documents have the
    new ones too, and those of the shared documents once every agent has them.
    """
    with cache.writing() as connection:
        rows: list[Any] = connection.execute("SELECT id, agent FROM scopes WHERE owner = ?", (owner,)).fetchall()
        ready = {agent: is_ready(cache, scope, model) for scope, agent in rows}
        dropped = set[str]()
        for scope, agent in rows:
            searched_together = ready.values() if agent == SHARED_SCOPE else (ready[agent], ready.get(SHARED_SCOPE, True))
            if all(searched_together):
                sql = "DELETE FROM models WHERE scope = ? AND model <> ? RETURNING model"
                dropped.update(str(other) for (other,) in connection.execute(sql, (scope, model)).fetchall())
        # Vectors are stored once for all scopes and owners: they go when no scope lists their model any more.
        for other in sorted(dropped):
            if not connection.execute("SELECT 1 FROM models WHERE model = ?", (other,)).fetchall():
                connection.execute("DELETE FROM vectors WHERE model = ?", (other,))


# The functions below run inside a transaction of the caller.


def count_missing(cache: DocumentCache, scopes: Sequence[int], model: str) -> int:
    """Returns how many passages of some scopes have no vector of a model."""
    sql = (
        "SELECT count(*) FROM chunks INDEXED BY chunks_by_hash WHERE scope IN (SELECT value FROM json_each(?)) "
        "AND NOT EXISTS (SELECT 1 FROM vectors WHERE model = ? AND vectors.hash = chunks.hash)"
    )
    rows: list[Any] = cache.connection.execute(sql, (str(list(scopes)), model)).fetchall()
    return int(rows[0][0])


def stored_models(cache: DocumentCache) -> list[str]:
    """Returns the models that have at least one vector."""
    return [str(model) for (model,) in cache.connection.execute(_STORED_MODELS).fetchall()]


def is_ready(cache: DocumentCache, scope: int, model: str) -> bool:
    """Returns True if every passage of a scope has had a vector of this model. A scope without passages is ready."""
    sql = "SELECT 1 FROM models WHERE scope = ? AND model = ?"
    if cache.connection.execute(sql, (scope, model)).fetchall():
        return True
    return not cache.connection.execute("SELECT 1 FROM documents WHERE scope = ? AND chunks > 0 LIMIT 1", (scope,)).fetchall()


def ready_models(cache: DocumentCache, scopes: Sequence[int]) -> list[str]:
    """Returns the models that may answer for all of these scopes."""
    sql = "SELECT DISTINCT model FROM models WHERE scope IN (SELECT value FROM json_each(?)) ORDER BY model"
    rows: list[Any] = cache.connection.execute(sql, (str(list(scopes)),)).fetchall()
    return [model for (model,) in rows if all(is_ready(cache, scope, model) for scope in scopes)]
