"""Vectors of passages: made once for each text and model, and compared all at once.

A scope answers with a model only when every passage has a vector of it; the row in `models` says so. Until then a question to
that model is answered by words alone. The vectors of different models are never in one matrix.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memtape.documents.cache import Cache
from memtape.errors import MemtapeError
from memtape.plugs.embedder import Embedder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BATCH = 64
HELD = 4  # matrices in memory
SHRINK = 100  # so many passages are needed to know half of what all share
# What an embedder may fail with on an ordinary day: a server that is down, a file that is missing, an answer of another form.
BROKEN = (MemtapeError, OSError, ValueError, RuntimeError, ImportError)


@dataclass(frozen=True, slots=True)
class Filled:
    """What was embedded, and what stopped it."""

    made: int = 0
    missing: int = 0
    problem: str = ""
    complete: bool = False


@dataclass(frozen=True, slots=True)
class Matrix:
    """The vectors of some scopes, a row for each chunk that has one, and what of a comparison is known before the question."""

    chunks: NDArray[np.int64]
    rows: NDArray[np.float32]
    documents: NDArray[np.int64]  # of each row, counted from 0
    lengths: NDArray[np.float64]  # of the sums of each document's rows
    middle: NDArray[np.float64]  # what all rows share
    shared: NDArray[np.float64]  # of each row with the middle
    apart: NDArray[np.float64]  # of each row from the middle

    def likeness(self, vector: NDArray[np.float32]) -> NDArray[np.float64]:
        """How near each passage is to a question, from -1 to 1: half by what it says beyond what all say, half by its document.

        All come from one product of rows and question. What every passage has in common tells nothing about any (Mu & Viswanath
        2018); it is taken away as far as there are passages enough to know it.
        """
        import numpy as np

        products = (self.rows @ vector).astype(np.float64)
        asked = float(np.linalg.norm(vector - self.middle)) or 1.0
        alone = products - self.shared - float(self.middle @ vector) + float(self.middle @ self.middle)
        whole = np.bincount(self.documents, products, len(self.lengths)) / self.lengths
        return np.asarray((alone / (self.apart * asked) + whole[self.documents]) / 2, np.float64)


def fill(cache: Cache, owner: str, agent: str, embedder: Embedder) -> Filled:
    """Make the vectors that are missing, a batch a transaction; what is made stays, whatever happens to the next."""
    import numpy as np

    made = 0
    missing = _missing(cache, owner, agent, embedder.id)
    for start in range(0, len(missing), BATCH):
        batch = missing[start : start + BATCH]
        try:
            found = np.asarray(embedder.embed([text for _, text in batch]), np.float32)
        except BROKEN as error:
            return Filled(made, len(missing) - made, f"{embedder.id}: {error}")
        if found.shape != (len(batch), embedder.dim) or not np.isfinite(found).all():
            return Filled(made, len(missing) - made, f"{embedder.id} answered with vectors of another form")
        rows = [(embedder.id, hash, vector.astype("<f4").tobytes()) for (hash, _), vector in zip(batch, found, strict=True)]
        with cache.writing() as connection:
            connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)
        made += len(batch)
    with cache.writing() as connection:
        scope = cache.scope(owner, agent)
        left = len(_missing_in(cache, scope, embedder.id))
        if scope is not None and not left:
            connection.execute("INSERT OR IGNORE INTO models VALUES (?, ?, ?)", (scope, embedder.id, embedder.dim))
        if made:
            connection.execute("UPDATE scopes SET revision = revision + 1 WHERE id = ?", (scope,))
    return Filled(made, left, complete=not left)


def _missing(cache: Cache, owner: str, agent: str, model: str) -> list[tuple[str, str]]:
    with cache.reading():
        return _missing_in(cache, cache.scope(owner, agent), model)


def _missing_in(cache: Cache, scope: int | None, model: str) -> list[tuple[str, str]]:
    sql = (
        "SELECT hash, headings, text FROM chunks WHERE scope = ? AND NOT EXISTS "
        "(SELECT 1 FROM vectors WHERE model = ? AND vectors.hash = chunks.hash) GROUP BY hash ORDER BY min(id)"
    )
    rows: list[Any] = cache.connection.execute(sql, (scope, model)).fetchall()
    return [(hash, embedded(headings.split("\n"), text)) for hash, headings, text in rows]


def embedded(headings: Sequence[str], text: str) -> str:
    """What of a passage is embedded: its words under the headings that it does not repeat.

    >>> embedded(["Gold", "Exits"], "## Exits\\nTrail by 2 ATR.")
    'Gold\\n## Exits\\nTrail by 2 ATR.'
    """
    return "\n".join((*(heading for heading in headings if heading and heading not in text), text))


def forget_models(cache: Cache, owner: str, agent: str, kept: str) -> None:
    """The new model answers now: forget what others made, unless another agent still uses it."""
    with cache.writing() as connection:
        scope = cache.scope(owner, agent)
        others = connection.execute("SELECT model FROM models WHERE scope = ? AND model <> ?", (scope, kept)).fetchall()
        connection.execute("DELETE FROM models WHERE scope = ? AND model <> ?", (scope, kept))
        for (model,) in others:
            if not connection.execute("SELECT 1 FROM models WHERE model = ?", (model,)).fetchall():
                connection.execute("DELETE FROM vectors WHERE model = ?", (model,))


def is_ready(cache: Cache, scope: int, model: str) -> bool:
    """Whether every passage of a scope has had a vector of this model; inside a transaction."""
    sql = "SELECT 1 FROM models WHERE scope = ? AND model = ?"
    if cache.connection.execute(sql, (scope, model)).fetchall():
        return True
    return not cache.connection.execute("SELECT 1 FROM chunks WHERE scope = ? LIMIT 1", (scope,)).fetchall()


class Vectors:
    """The matrices in use, each read again when one of its scopes has changed."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._held: dict[tuple[Sequence[int], str], tuple[object, Matrix]] = {}

    def near(
        self, scopes: Sequence[int], embedder: Embedder, vector: NDArray[np.float32], pool: int, also: Collection[int]
    ) -> dict[int, float]:
        """The likeness of the nearest passages and of some others, rounded so that no machine orders them differently."""
        import numpy as np

        held = self._matrix(tuple(scopes), embedder)
        if not len(held.chunks):
            return {}
        found = np.round(held.likeness(np.asarray(vector, np.float32)), 5)
        best = np.flatnonzero(found >= np.partition(found, -pool)[-pool]) if len(found) > pool else np.arange(len(found))
        others = np.flatnonzero(np.isin(held.chunks, np.fromiter(also, np.int64, len(also))))
        return {int(held.chunks[at]): float(found[at]) for at in np.union1d(best, others)}

    def _matrix(self, scopes: tuple[int, ...], embedder: Embedder) -> Matrix:
        sql = "SELECT id, revision FROM scopes WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id"
        revisions = self._cache.connection.execute(sql, (str(list(scopes)),)).fetchall()
        before, held = self._held.pop((scopes, embedder.id), (None, None))
        if held is None or before != revisions:
            held = _read(self._cache, scopes, embedder.id, embedder.dim)
        while len(self._held) >= HELD:
            del self._held[next(iter(self._held))]  # the one that was not asked for longest
        self._held[scopes, embedder.id] = revisions, held
        return held


def _read(cache: Cache, scopes: Sequence[int], model: str, dim: int) -> Matrix:
    """All vectors of one model in some scopes."""
    import numpy as np

    sql = (
        "SELECT chunks.id, document, vector FROM chunks JOIN vectors ON vectors.model = ? AND vectors.hash = chunks.hash "
        "WHERE scope IN (SELECT value FROM json_each(?)) ORDER BY chunks.id"
    )
    found: list[Any] = cache.connection.execute(sql, (model, str(list(scopes)))).fetchall()
    found = [row for row in found if len(row[2]) == 4 * dim]
    rows = np.frombuffer(b"".join(vector for *_, vector in found), "<f4").reshape(len(found), dim)
    _, documents = np.unique(np.array([document for _, document, _ in found], np.int64), return_inverse=True)
    sums = np.zeros((int(documents.max()) + 1 if len(found) else 0, dim))
    np.add.at(sums, documents, rows)
    middle = rows.sum(0, dtype=np.float64) / (len(found) + SHRINK)
    shared = rows @ middle
    apart = np.sqrt(np.maximum((rows.astype(np.float64) ** 2).sum(1) - 2 * shared + middle @ middle, 1e-12))
    chunks = np.array([chunk for chunk, *_ in found], np.int64)
    return Matrix(chunks, rows, documents, np.maximum(np.linalg.norm(sums, axis=1), 1e-9), middle, shared, apart)
