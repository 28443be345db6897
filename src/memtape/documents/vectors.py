"""Vectors of passages: made once for each text and model, and compared all at once.

A scope answers with a model once every passage has had a vector of it; the row in `models` says so. Until then the model before
it answers, whose vectors are kept as long as a scope that is searched together with this one needs them. Passages written since
have no vector until the next fill: they are found by their words, and the answer says how many they are. The vectors of
different models are never in one matrix.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memtape.documents.cache import GLOBAL, Cache
from memtape.errors import MemtapeError
from memtape.plugs.embedder import Embedder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BATCH = 64
HELD = 4  # matrices in memory
SHRINK = 100  # so many passages are needed to know half of what all share
# Each model once, by a look for each and not for each of its vectors.
MODELS = (
    "WITH RECURSIVE made (model) AS (SELECT min(model) FROM vectors UNION ALL "
    "SELECT (SELECT min(model) FROM vectors WHERE vectors.model > made.model) FROM made WHERE made.model IS NOT NULL) "
    "SELECT model FROM made WHERE model IS NOT NULL"
)
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

    missing: int  # chunks without one
    chunks: NDArray[np.int64]
    by_number: NDArray[np.int64]  # the rows in the order of their chunks' numbers
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

        products = np.vecdot(self.rows, vector).astype(np.float64)  # a plain product would wait for threads on a busy machine
        asked = float(np.linalg.norm(vector - self.middle)) or 1.0
        alone = products - self.shared - float(self.middle @ vector) + float(self.middle @ self.middle)
        whole = np.bincount(self.documents, products, len(self.lengths)) / self.lengths
        return np.asarray((alone / (self.apart * asked) + whole[self.documents]) / 2, np.float64)

    def rows_of(self, chunks: Collection[int]) -> NDArray[np.int64]:
        """Where the vectors of some chunks stand, of those that have one."""
        import numpy as np

        wanted = np.sort(np.fromiter(chunks, np.int64, len(chunks)))
        places = np.searchsorted(self.chunks, wanted, sorter=self.by_number)
        rows = self.by_number[places[places < len(self.chunks)]]
        return np.asarray(rows[np.isin(self.chunks[rows], wanted)], np.int64)

    @property
    def nbytes(self) -> int:
        """What it takes in memory."""
        held = (self.chunks, self.by_number, self.rows, self.documents, self.lengths, self.middle, self.shared, self.apart)
        return sum(each.nbytes for each in held)


def fill_vectors(cache: Cache, owner: str, agent: str, embedder: Embedder) -> Filled:
    """Make the vectors that are missing, a batch a transaction; what is made stays, whatever happens to the next."""
    import numpy as np

    made, problem = 0, ""
    missing = _missing(cache, owner, agent, embedder.id)
    for start in range(0, len(missing), BATCH):
        batch = _texts(cache, missing[start : start + BATCH])
        try:
            found = np.asarray(embedder.embed([text for _, text in batch]), np.float32)
        except BROKEN as error:
            problem = f"{embedder.id}: {error}"
            break
        if found.shape != (len(batch), embedder.dim) or not np.isfinite(found).all():
            problem = f"{embedder.id} answered with vectors of another form"
            break
        rows = [(embedder.id, hash, vector.astype("<f4").tobytes(), hash) for (hash, _), vector in zip(batch, found, strict=True)]
        with cache.writing() as connection:  # a passage that went meanwhile needs none
            known = "EXISTS (SELECT 1 FROM chunks WHERE hash = ?)"
            connection.executemany(f"INSERT OR REPLACE INTO vectors (model, hash, vector) SELECT ?, ?, ? WHERE {known}", rows)
            connection.execute("UPDATE models SET revision = revision + 1 WHERE model = ?", (embedder.id,))
        made += len(batch)
    return _finished(cache, owner, agent, embedder, made, problem)


def _finished(cache: Cache, owner: str, agent: str, embedder: Embedder, made: int, problem: str) -> Filled:
    """Note what a fill has come to: a complete model may answer."""
    with cache.writing() as connection:
        scope = cache.scope(owner, agent)
        left = 0 if scope is None else missing_in(cache, [scope], embedder.id)
        if scope is not None and not left and not problem:
            connection.execute("INSERT OR IGNORE INTO models VALUES (?, ?, ?, 0)", (scope, embedder.id, embedder.dim))
    return Filled(made, left, problem, complete=not left and not problem)


def _missing(cache: Cache, owner: str, agent: str, model: str) -> list[int]:
    """A passage for each text that has no vector."""
    sql = (
        "SELECT min(id) AS first FROM chunks INDEXED BY chunks_by_hash WHERE scope = ? AND NOT EXISTS "
        "(SELECT 1 FROM vectors WHERE model = ? AND vectors.hash = chunks.hash) GROUP BY hash ORDER BY first"
    )
    with cache.reading() as connection:
        rows: list[Any] = connection.execute(sql, (cache.scope(owner, agent), model)).fetchall()
    return [chunk for (chunk,) in rows]


def _texts(cache: Cache, chunks: Sequence[int]) -> list[tuple[str, str]]:
    """What is to be embedded, with its hash; of a passage that went meanwhile, nothing."""
    sql = "SELECT hash, headings, text FROM chunks WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id"
    with cache.reading() as connection:
        rows: list[Any] = connection.execute(sql, (str(list(chunks)),)).fetchall()
    return [(hash, embedded(headings.split("\n"), text)) for hash, headings, text in rows]


def missing_in(cache: Cache, scopes: Sequence[int], model: str) -> int:
    """How many passages of some scopes have no vector of a model; inside a transaction."""
    sql = (
        "SELECT count(*) FROM chunks INDEXED BY chunks_by_hash WHERE scope IN (SELECT value FROM json_each(?)) "
        "AND NOT EXISTS (SELECT 1 FROM vectors WHERE model = ? AND vectors.hash = chunks.hash)"
    )
    rows: list[Any] = cache.connection.execute(sql, (str(list(scopes)), model)).fetchall()
    return int(rows[0][0])


def embedded(headings: Sequence[str], text: str) -> str:
    """What of a passage is embedded: its words under the headings that it does not repeat.

    >>> embedded(["Gold", "Exits"], "## Exits\\nTrail by 2 ATR.")
    'Gold\\n## Exits\\nTrail by 2 ATR.'
    """
    return "\n".join((*(heading for heading in headings if heading and heading not in text), text))


def forget_models(cache: Cache, owner: str, kept: str) -> None:
    """A new model is complete: forget what others made wherever nothing needs them any more.

    An agent is searched together with what is shared. So the agent's old vectors go when the shared documents have the new ones
    too, and those of the shared documents when every agent has.
    """
    with cache.writing() as connection:
        rows: list[Any] = connection.execute("SELECT id, agent FROM scopes WHERE owner = ?", (owner,)).fetchall()
        ready, gone = {agent: is_ready(cache, scope, kept) for scope, agent in rows}, set[str]()
        for scope, agent in rows:
            beside = ready.values() if agent == GLOBAL else (ready[agent], ready.get(GLOBAL, True))
            if all(beside):
                old = "DELETE FROM models WHERE scope = ? AND model <> ? RETURNING model"
                gone.update(str(model) for (model,) in connection.execute(old, (scope, kept)).fetchall())
        for model in sorted(gone):
            if not connection.execute("SELECT 1 FROM models WHERE model = ?", (model,)).fetchall():
                connection.execute("DELETE FROM vectors WHERE model = ?", (model,))


def models_made(cache: Cache) -> list[str]:
    """The models of which there is a vector; inside a transaction."""
    return [str(model) for (model,) in cache.connection.execute(MODELS).fetchall()]


def is_ready(cache: Cache, scope: int, model: str) -> bool:
    """Whether every passage of a scope has had a vector of this model; inside a transaction."""
    sql = "SELECT 1 FROM models WHERE scope = ? AND model = ?"
    if cache.connection.execute(sql, (scope, model)).fetchall():
        return True
    return not cache.connection.execute("SELECT 1 FROM documents WHERE scope = ? AND chunks > 0 LIMIT 1", (scope,)).fetchall()


def ready_models(cache: Cache, scopes: Sequence[int]) -> list[str]:
    """The models that can answer for all of these scopes; inside a transaction."""
    sql = "SELECT DISTINCT model FROM models WHERE scope IN (SELECT value FROM json_each(?)) ORDER BY model"
    rows: list[Any] = cache.connection.execute(sql, (str(list(scopes)),)).fetchall()
    return [model for (model,) in rows if all(is_ready(cache, scope, model) for scope in scopes)]


class Vectors:
    """The matrices in use, each read again when one of its scopes has changed."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._held: dict[tuple[Sequence[int], str], tuple[object, Matrix]] = {}

    def near(
        self, scopes: Sequence[int], embedder: Embedder, vector: NDArray[np.float32], pool: int, also: Collection[int],
        types: Sequence[str] = (),
    ) -> tuple[dict[int, float], int]:  # fmt: skip
        """The likeness of the nearest passages and of some others, rounded so that no machine orders them differently; and how
        many passages have no vector to compare with."""
        import numpy as np

        held = self._matrix(tuple(scopes), embedder)
        if not len(held.chunks):
            return {}, held.missing
        found = np.round(held.likeness(np.asarray(vector, np.float32)), 5)
        among = held.rows_of(_of_types(self._cache, scopes, types)) if types else np.arange(len(found))
        best = among[found[among] >= np.partition(found[among], -pool)[-pool]] if len(among) > pool else among
        rows = np.union1d(best, held.rows_of(also))
        return dict(zip(held.chunks[rows].tolist(), found[rows].tolist(), strict=True)), held.missing

    def nbytes(self) -> int:
        """What all that is held takes in memory."""
        return sum(held.nbytes for _, held in self._held.values())

    def _matrix(self, scopes: tuple[int, ...], embedder: Embedder) -> Matrix:
        sql = (
            "SELECT id, scopes.revision, models.revision FROM scopes LEFT JOIN models ON models.scope = scopes.id AND model = ? "
            "WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id"
        )
        revisions = self._cache.connection.execute(sql, (embedder.id, str(list(scopes)))).fetchall()
        before, held = self._held.pop((scopes, embedder.id), (None, None))
        if held is None or before != revisions:
            held = _read(self._cache, scopes, embedder.id, embedder.dim)
        while len(self._held) >= HELD:
            del self._held[next(iter(self._held))]  # the one that was not asked for longest
        self._held[scopes, embedder.id] = revisions, held
        return held


def _of_types(cache: Cache, scopes: Sequence[int], types: Sequence[str]) -> list[int]:
    sql = (
        "SELECT c.id FROM documents d JOIN chunks c ON c.document = d.id WHERE d.scope IN (SELECT value FROM json_each(?)) "
        "AND d.type IN (SELECT value FROM json_each(?))"
    )
    rows: list[Any] = cache.connection.execute(sql, (str(list(scopes)), json.dumps(list(types)))).fetchall()
    return [chunk for (chunk,) in rows]


def _read(cache: Cache, scopes: Sequence[int], model: str, dim: int) -> Matrix:
    """All vectors of one model in some scopes, in the order of what they are of: the same texts give the same figures to the
    last digit, in whatever order they came. They are read in the order in which they lie in the file."""
    import numpy as np

    asked = str(list(scopes))
    of_scopes = "FROM chunks c INDEXED BY chunks_by_hash {0} WHERE scope IN (SELECT value FROM json_each(?))"
    listed: list[Any] = cache.connection.execute(
        f"SELECT c.id, c.document, c.hash {of_scopes.format('')} ORDER BY c.hash", (asked,)
    ).fetchall()  # fmt: skip
    places = {hash: at for at, (_, _, hash) in reversed(list(enumerate(listed)))}  # of each text the first
    known = of_scopes.format("CROSS JOIN vectors v ON v.model = ? AND v.hash = c.hash")
    sql = f"SELECT hash, vector FROM vectors WHERE id IN (SELECT v.id {known})"
    rows, has = np.zeros((len(listed), dim), np.float32), np.zeros(len(listed), bool)
    for hash, vector in cache.connection.execute(sql, (model, asked)):
        if len(vector) == 4 * dim:
            at = places[hash]
            rows[at], has[at] = np.frombuffer(vector, "<f4"), True
    again = [at for at in range(1, len(listed)) if listed[at][2] == listed[at - 1][2]]
    first = [places[listed[at][2]] for at in again]
    rows[again], has[again] = rows[first], has[first]
    numbers = np.array([(chunk, document) for chunk, document, _ in listed], np.int64).reshape(-1, 2)
    if has.all():
        return _matrix(rows, numbers, 0)
    return _matrix(rows[has], numbers[has], int(len(listed) - has.sum()))


def _matrix(rows: NDArray[np.float32], numbers: NDArray[np.int64], missing: int) -> Matrix:
    import numpy as np

    chunks = np.ascontiguousarray(numbers[:, 0])
    _, documents = np.unique(numbers[:, 1], return_inverse=True)
    squares = np.zeros(int(documents.max()) + 1 if len(rows) else 0)
    for column in rows.T:  # one by one: all of them in float64 would be several times what is held
        squares += np.bincount(documents, column, len(squares)) ** 2
    middle = rows.sum(0, dtype=np.float64) / (len(rows) + SHRINK)
    shared = np.einsum("ij,j->i", rows, middle)  # without a copy of all rows in float64
    apart = np.sqrt(np.maximum(np.einsum("ij,ij->i", rows, rows, dtype=np.float64) - 2 * shared + middle @ middle, 1e-12))
    lengths = np.maximum(np.sqrt(squares), 1e-9)
    return Matrix(missing, chunks, np.argsort(chunks), rows, documents, lengths, middle, shared, apart)
