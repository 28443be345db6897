"""The vectors of a model in memory, compared with a question all at once. Vectors of different models are never in one matrix."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from memtape.core.value_class import dataclass
from memtape.documents.cache import DocumentCache
from memtape.documents.filters import EVERYTHING, DocumentFilter
from memtape.plugs.embedder import Embedder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_MATRICES = 4  # in memory
# The mean of all vectors is computed as if there were so many zero vectors more: with few passages little is known of what
# all passages share, and little of it is subtracted.
MEAN_PRIOR_COUNT = 100


@dataclass(frozen=True, slots=True)
class VectorMatrix:
    """The vectors of some scopes, one row per chunk that has one, and what of a comparison does not depend on the question."""

    missing: int  # chunks without a vector
    chunks: NDArray[np.int64]  # chunk of each row
    by_chunk: NDArray[np.int64]  # rows in the order of their chunks
    rows: NDArray[np.float32]
    documents: NDArray[np.int64]  # document of each row, counted from 0
    document_norms: NDArray[np.float64]  # length of the sum of the rows of each document
    mean: NDArray[np.float64]  # what all rows share
    mean_products: NDArray[np.float64]  # product of each row with the mean
    distances: NDArray[np.float64]  # of each row from the mean

    def similarity(self, vector: NDArray[np.float32]) -> NDArray[np.float64]:
        """Returns how similar each passage is to a question, from -1 to 1.

        Half of it is the cosine of passage and question after the mean of all passages is subtracted from both: what every
        passage shares says nothing about any of them (Mu & Viswanath 2018). The other half is the cosine of the question and
        the sum of all vectors of the passage's document.
        """
        import numpy as np

        # (row - mean) · (question - mean) is expanded, so that everything follows from this one product of rows and question.
        # `vecdot`, because a plain matrix product would wait for its threads on a busy machine.
        products = np.vecdot(self.rows, vector).astype(np.float64)
        question_norm = float(np.linalg.norm(vector - self.mean)) or 1.0
        centred = products - self.mean_products - float(self.mean @ vector) + float(self.mean @ self.mean)
        whole = np.bincount(self.documents, products, len(self.document_norms)) / self.document_norms
        return np.asarray((centred / (self.distances * question_norm) + whole[self.documents]) / 2, np.float64)

    def rows_of(self, chunks: Collection[int]) -> NDArray[np.int64]:
        """Returns the rows of those of the chunks that have a vector."""
        import numpy as np

        wanted = np.sort(np.fromiter(chunks, np.int64, len(chunks)))
        positions = np.searchsorted(self.chunks, wanted, sorter=self.by_chunk)
        rows = self.by_chunk[positions[positions < len(self.chunks)]]
        return np.asarray(rows[np.isin(self.chunks[rows], wanted)], np.int64)

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        arrays = (
            self.chunks, self.by_chunk, self.rows, self.documents, self.document_norms, self.mean, self.mean_products,
            self.distances,
        )  # fmt: skip
        return sum(array.nbytes for array in arrays)


class MatrixCache:
    """The matrices in use. A matrix is read again when one of its scopes has changed."""

    def __init__(self, cache: DocumentCache) -> None:
        self._cache = cache
        # The least recently used matrix is first.
        self._matrices: dict[tuple[Sequence[int], str], tuple[object, VectorMatrix]] = {}

    def nearest(
        self, scopes: Sequence[int], embedder: Embedder, vector: NDArray[np.float32], pool: int, also: Collection[int],
        only: DocumentFilter = EVERYTHING,
    ) -> tuple[dict[int, float], int]:  # fmt: skip
        """Returns the similarity of the nearest passages and of the chunks `also`, and how many passages have no vector.

        Ties with the last of the pool are included. Call it inside a transaction.
        """
        import numpy as np

        matrix = self._matrix(tuple(scopes), embedder)
        if not len(matrix.chunks):
            return {}, matrix.missing
        # Rounded, so that machines whose last digits differ still give the same order.
        similarity = np.round(matrix.similarity(np.asarray(vector, np.float32)), 5)
        among = matrix.rows_of(_chunks_of(self._cache, scopes, only)) if only.condition else np.arange(len(similarity))
        best = among[similarity[among] >= np.partition(similarity[among], -pool)[-pool]] if len(among) > pool else among
        rows = np.union1d(best, matrix.rows_of(also))
        return dict(zip(matrix.chunks[rows].tolist(), similarity[rows].tolist(), strict=True)), matrix.missing

    def nbytes(self) -> int:
        """Returns how much memory all matrices take."""
        return sum(matrix.nbytes for _, matrix in self._matrices.values())

    def _matrix(self, scopes: tuple[int, ...], embedder: Embedder) -> VectorMatrix:
        sql = (
            "SELECT id, scopes.revision, models.revision FROM scopes LEFT JOIN models ON models.scope = scopes.id AND model = ? "
            "WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id"
        )
        revisions = self._cache.connection.execute(sql, (embedder.id, str(list(scopes)))).fetchall()
        earlier_revisions, matrix = self._matrices.pop((scopes, embedder.id), (None, None))
        if matrix is None or earlier_revisions != revisions:
            matrix = _read_matrix(self._cache, scopes, embedder.id, embedder.dim)
        while len(self._matrices) >= MAX_MATRICES:
            del self._matrices[next(iter(self._matrices))]
        self._matrices[scopes, embedder.id] = revisions, matrix
        return matrix


def _chunks_of(cache: DocumentCache, scopes: Sequence[int], only: DocumentFilter) -> list[int]:
    condition, values = only.of_documents()
    sql = (
        "SELECT c.id FROM documents d JOIN chunks c ON c.document = d.id "
        f"WHERE d.scope IN (SELECT value FROM json_each(?)) {condition}"
    )
    rows: list[Any] = cache.connection.execute(sql, (str(list(scopes)), *values)).fetchall()
    return [chunk for (chunk,) in rows]


def _read_matrix(cache: DocumentCache, scopes: Sequence[int], model: str, dim: int) -> VectorMatrix:
    """Reads all vectors of one model in some scopes.

    Rows are in the order of the hashes of their texts: the same texts give the same figures to the last digit, in whatever order
    they were indexed. The vectors themselves are read in the order in which they are stored, which is faster.
    """
    import numpy as np

    scope_list = str(list(scopes))
    of_scopes = "FROM chunks c INDEXED BY chunks_by_hash {0} WHERE scope IN (SELECT value FROM json_each(?))"
    chunks: list[Any] = cache.connection.execute(
        f"SELECT c.id, c.document, c.hash {of_scopes.format('')} ORDER BY c.hash", (scope_list,)
    ).fetchall()  # fmt: skip
    # Several chunks may have the same text. The vector of a text is read into the row of the first one and copied from there.
    first_rows = {hash: row for row, (_, _, hash) in reversed(list(enumerate(chunks)))}
    with_vector = of_scopes.format("CROSS JOIN vectors v ON v.model = ? AND v.hash = c.hash")
    sql = f"SELECT hash, vector FROM vectors WHERE id IN (SELECT v.id {with_vector})"
    rows, has_vector = np.zeros((len(chunks), dim), np.float32), np.zeros(len(chunks), bool)
    for hash, vector in cache.connection.execute(sql, (model, scope_list)):
        if len(vector) == 4 * dim:
            row = first_rows[hash]
            rows[row], has_vector[row] = np.frombuffer(vector, "<f4"), True
    repeated = [row for row in range(1, len(chunks)) if chunks[row][2] == chunks[row - 1][2]]
    originals = [first_rows[chunks[row][2]] for row in repeated]
    rows[repeated], has_vector[repeated] = rows[originals], has_vector[originals]
    numbers = np.array([(chunk, document) for chunk, document, _ in chunks], np.int64).reshape(-1, 2)
    if has_vector.all():
        return _build_matrix(rows, numbers, 0)
    return _build_matrix(rows[has_vector], numbers[has_vector], int(len(chunks) - has_vector.sum()))


def _build_matrix(rows: NDArray[np.float32], numbers: NDArray[np.int64], missing: int) -> VectorMatrix:
    """Computes what does not depend on the question; `numbers` has the chunk and the document of each row."""
    import numpy as np

    chunks = np.ascontiguousarray(numbers[:, 0])
    _, documents = np.unique(numbers[:, 1], return_inverse=True)
    squares = np.zeros(int(documents.max()) + 1 if len(rows) else 0)
    # Column by column, and by einsum below: a copy of all rows in float64 would take several times the memory of the matrix.
    for column in rows.T:
        squares += np.bincount(documents, column, len(squares)) ** 2
    mean = rows.sum(0, dtype=np.float64) / (len(rows) + MEAN_PRIOR_COUNT)
    mean_products = np.einsum("ij,j->i", rows, mean)
    squared_norms = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    distances = np.sqrt(np.maximum(squared_norms - 2 * mean_products + mean @ mean, 1e-12))
    document_norms = np.maximum(np.sqrt(squares), 1e-9)
    return VectorMatrix(missing, chunks, np.argsort(chunks), rows, documents, document_norms, mean, mean_products, distances)
