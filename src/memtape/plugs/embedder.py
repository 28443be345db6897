"""The embedding slot: texts as vectors, so that notes are found by meaning and not only by words.

Three embedders: `static`, a table that is part of the package; `minilm`, a transformer on this machine; `remote`, a server.

`StaticEmbedder` needs no network, no model server and no large library: a table with one row for each of 30,522 tokens,
distilled from all-MiniLM-L6-v2 by `tools/make_static_embeddings.py`. A text is the weighted sum of the rows of its tokens,
scaled to length 1. It knows words, not sentences: "no stop" and "stop" are close, and word order does not count.

The same text gives the same bytes on any machine. Rows and weights are integers and their sum stays below 2^53, so it is exact
in any order of addition. The length is the square root of an exactly rounded sum (`math.fsum`). The quotient is computed in
float64 and rounded once, to float32. A text without a known word is the zero vector, which is similar to nothing.

Vectors of two models cannot be compared. So `id` is stored with every vector: it names the model, its version and its size.
The files are checked against their digests when they are read, so an id never stands for two tables.

>>> embedder = StaticEmbedder()
>>> noise, funding = embedder.embed(["stopped out by noise", "funding flipped negative"]) @ embedder.embed(["stop too tight"])[0]
>>> embedder.id, embedder.dim, bool(noise > funding)
('minilm-l6-v2-static-256.1', 256, True)
"""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Sequence
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from memtape.core.value_class import dataclass
from memtape.errors import Invalid

# numpy and tokenizers are loaded with the first text: a command that embeds nothing does not wait for them.
if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

FOLDER = Path(__file__).parent / "static"
DIGESTS = {
    "rows.npy": "ae1d666e7094ad17b3c207d7757558c922fc1a89ae2a33275d3956d753447ba2",
    "weights.npy": "151d116d8619566e18ef1d16a9038bd70434221dde015bce1df182346e8f5eaf",
    "tokenizer.json": "fa627e7aff5dcbfbd718c6ffbf97946b6a731391c01b7d39a1dca67c7e91ad40",
}
NAMES = ("off", "static", "minilm", "remote")


class Embedder(Protocol):
    """Turns texts into vectors."""

    @property
    def id(self) -> str:
        """The model with its version. Vectors with different ids are never compared."""
        ...

    @property
    def dim(self) -> int:
        """The length of a vector."""
        ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Returns a row of norm 1 for each text, in order; zeros for a text without a word."""
        ...


class StaticEmbedder:
    """The table that comes with memtape. Reads its files with the first text."""

    id = "minilm-l6-v2-static-256.1"
    dim = 256

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Returns a row of norm 1 for each text, in order; zeros for a text without a word."""
        import numpy as np

        table = _table()
        vectors = np.zeros((len(texts), self.dim), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            row[:] = table.vector(text)
        return vectors


@dataclass(frozen=True, slots=True)
class EmbedderSources:
    """The places of embedders that are not part of the package."""

    models: tuple[Path, ...] = ()  # folders with built models
    url: str = ""
    model: str = ""
    key: str = field(default="", repr=False)
    dim: int | None = None


NO_SOURCES = EmbedderSources()


def embedder_of(name: str | None, sources: EmbedderSources = NO_SOURCES) -> Embedder | None:
    """Returns the embedder of a name; None for `off`. An embedder that cannot work raises when it is given a text.

    >>> embedder_of("off"), embedder_of("static").dim
    (None, 256)
    """
    if name is None or name == "off":
        return None
    if name == "static":
        return StaticEmbedder()
    if name == "minilm":
        from memtape.plugs.minilm import MiniLM

        return MiniLM(sources.models)
    if name == "remote":
        from memtape.plugs.remote_embedder import RemoteEmbedder

        return RemoteEmbedder(sources.url, sources.model, key=sources.key, dim=sources.dim)
    raise Invalid("embedder", f"there is no embedder '{name}'", f"Choose one of {', '.join(NAMES)}")


def embedder_with_id(id: str, sources: EmbedderSources = NO_SOURCES) -> Embedder | None:
    """Returns the embedder with this id, or None if it is not available here. An index uses it until the new one is ready.

    >>> embedder_with_id("minilm-l6-v2-static-256.1").dim, embedder_with_id("minilm-l6-v2-static-256.0")
    (256, None)
    """
    if id == StaticEmbedder.id:
        return StaticEmbedder()
    if id.startswith("remote:"):
        return _remote_by_id(id, sources)
    from memtape.plugs.minilm import NAME, MiniLM

    if not id.startswith(NAME):
        return None
    return next((found for folder in sources.models if (found := MiniLM([folder])).folder and found.id == id), None)


def _remote_by_id(id: str, sources: EmbedderSources) -> Embedder | None:
    """Returns the remote embedder if the settings still name it, with vectors of the length in the id."""
    from memtape.plugs.remote_embedder import RemoteEmbedder

    name, _, length = id.rpartition(":")
    if not (sources.url and sources.model and length.isdecimal()):
        return None
    dim = sources.dim if sources.dim == int(length) else None
    remote = RemoteEmbedder(sources.url, sources.model, key=sources.key, dim=dim, known_dim=int(length))
    return remote if remote.name == name else None


@dataclass(frozen=True, slots=True)
class EmbeddingTable:
    """Rows (int8) and weights (uint16) by token."""

    tokenizer: Tokenizer
    rows: NDArray[np.int8]
    weights: NDArray[np.uint16]

    def vector(self, text: str) -> NDArray[np.float64]:
        """Returns the vector of one text, in float64. Repeated tokens are counted first, so a long text needs little memory."""
        import numpy as np

        # Half a surrogate pair cannot be encoded.
        encodable = text.encode("utf-8", "replace").decode("utf-8")
        tokens, times = np.unique(self.tokenizer.encode(encodable, add_special_tokens=False).ids, return_counts=True)
        if not len(tokens):
            return np.zeros(self.rows.shape[1])
        total = (times * self.weights[tokens].astype(np.float64)) @ self.rows[tokens].astype(np.float64)
        length = math.sqrt(math.fsum((total * total).tolist()))
        return np.asarray(total / length if length else total, np.float64)


@cache
def _table() -> EmbeddingTable:
    import numpy as np
    from tokenizers import Tokenizer

    rows, weights = (np.load(io.BytesIO(_file(name)), allow_pickle=False) for name in ("rows.npy", "weights.npy"))
    return EmbeddingTable(Tokenizer.from_str(_file("tokenizer.json").decode()), rows, weights)


def _file(name: str, folder: Path = FOLDER) -> bytes:
    """Reads a file of the table. Refuses an altered file, because stored vectors would no longer match."""
    content = (folder / name).read_bytes()
    if hashlib.sha256(content).hexdigest() != DIGESTS[name]:
        raise Invalid("embedder", f"{folder / name} is not the file that was shipped", "Install memtape again")
    return content
