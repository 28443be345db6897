"""The embedder `minilm`: all-MiniLM-L6-v2, a transformer that reads sentences, on this machine and without a server.

Unlike the static table it knows the order of words and their meaning in context. It is not part of the package: `memtape
embedder build minilm` builds it once from the published weights (`tools/build_minilm.py`), and it needs the extra `minilm`. Where
either is missing, embedding fails with the command to run, and the caller falls back to words.

Texts are embedded one at a time, by one thread. So a text has the same vector in any batch, and short texts are not padded to
the length of the longest. The model reads 254 tokens at once; a longer text is read in equal parts and its vector is their mean.

An id stands for one model: it contains the hash of its files, which are checked when they are read. Another processor or another
version of ONNX Runtime may differ in the last digits.

>>> split_tokens(list(range(300))) == [list(range(150)), list(range(150, 300))]
True
>>> MiniLM([]).embed(["stop too tight"])
Traceback (most recent call last):
memtape.errors.Invalid: embedder: minilm is not built on this machine. Run: memtape embedder build minilm
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memtape.core.brief.sanitize import one_line
from memtape.errors import Invalid, MissingExtra

# These are loaded with the first text.
if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

NAME = "minilm-l6-v2-int8-384.1"  # also its folder; the last number changes with the way it is built
EXTRA = "minilm"
MODEL, TOKENIZER, MANIFEST = "model.onnx", "tokenizer.json", "manifest.json"
WINDOW_TOKENS = 254  # read at once, without the two special tokens around them
CLS, SEP = 101, 102


class MiniLM:
    """The model in the first folder that has it. Its files are read with the first text."""

    dim = 384

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = tuple(folders)
        self._found: tuple[Path, str] | None = None

    @property
    def folder(self) -> Path | None:
        """The model's folder; None if it was not built."""
        return found[0] if (found := self._find()) else None

    @property
    def id(self) -> str:
        """The model with its version and the hash of its files; without the hash if it was not built."""
        return found[1] if (found := self._find()) else NAME

    def _find(self) -> tuple[Path, str] | None:
        """Returns the folder and the id. Searches until the model is there, because it may be built at any time."""
        if self._found is None and (place := next((each / NAME for each in self._folders if read_manifest(each / NAME)), None)):
            self._found = place, f"{NAME}.{model_hash(place)}"
        return self._found

    def tokens(self, text: str) -> list[int]:
        """Returns the tokens of a text, without special tokens."""
        # Half a surrogate pair cannot be encoded.
        encodable = text.encode("utf-8", "replace").decode("utf-8")
        return list(self._loaded().tokenizer.encode(encodable, add_special_tokens=False).ids)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Returns a row of norm 1 for each text, in order; zeros for a text without a word."""
        import numpy as np

        loaded = self._loaded()
        vectors = np.zeros((len(texts), self.dim), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            if tokens := self.tokens(text):
                row[:] = loaded.vector(tokens)
        return vectors

    def _loaded(self) -> LoadedModel:
        found = self._find()
        if found is None:
            raise Invalid("embedder", "minilm is not built on this machine", "Run: memtape embedder build minilm")
        if find_spec("onnxruntime") is None:
            raise MissingExtra(what="The embedder minilm", extra=EXTRA)
        return _load(*found)


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """The model in memory."""

    session: Any
    tokenizer: Tokenizer

    def vector(self, tokens: list[int]) -> NDArray[np.float64]:
        """Returns the vector of one text: the mean of its parts, weighted by length."""
        import numpy as np

        total = np.zeros(MiniLM.dim)
        for part in split_tokens(tokens):
            total += len(part) * _unit(self._run(part))
        return _unit(total)

    def _run(self, part: list[int]) -> NDArray[np.float64]:
        import numpy as np

        ids = np.array([CLS, *part, SEP], np.int64)
        (vector,) = self.session.run(None, {"ids": ids, "places": np.arange(len(ids), dtype=np.int64)})
        return np.asarray(vector, np.float64)


def split_tokens(tokens: list[int], window: int = WINDOW_TOKENS) -> list[list[int]]:
    """Splits a text into as few parts as possible, of about equal length.

    >>> split_tokens([7, 8, 9], window=2)
    [[7, 8], [9]]
    """
    count = -(-len(tokens) // window)
    ends = [-(-at * len(tokens) // count) for at in range(count + 1)]
    return [tokens[start:end] for start, end in pairwise(ends)]


def _unit(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    return np.asarray(vector / (float(np.sqrt(vector @ vector)) or 1.0), np.float64)


@cache
def _load(folder: Path, id: str) -> LoadedModel:
    """Loads the files. Raises Invalid if they are not those of the id."""
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as ort
    from tokenizers import Tokenizer

    if not is_intact(folder) or not id.endswith(model_hash(folder)):
        raise Invalid("embedder", f"the model in {folder} was altered after it was built", "Run: memtape embedder build minilm")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    # The memory pattern would keep a plan for every length of text.
    options.enable_mem_pattern = False
    options.log_severity_level = 3
    try:
        # This fusion is several times slower than the nodes it fuses.
        session = onnxruntime.InferenceSession(
            (folder / MODEL).read_bytes(), options, ["CPUExecutionProvider"], disabled_optimizers=["SkipLayerNormFusion"]
        )
    except (ort.Fail, ort.InvalidGraph, ort.NotImplemented) as error:
        # An old version does not know all nodes of the model.
        problem = f"onnxruntime {onnxruntime.__version__} cannot run it ({one_line(str(error), 120)})"
        raise Invalid("embedder", problem, f"Run: pip install 'memtape[{EXTRA}]'") from None
    return LoadedModel(session, Tokenizer.from_file(str(folder / TOKENIZER)))


# --- files --------------------------------------------------------------------------------------------------------------


def read_manifest(folder: Path) -> dict[str, str]:
    """Returns the hash of each file, as recorded by the build; nothing if there is no model."""
    try:
        files = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]
        return {name: str(files[name]) for name in (MODEL, TOKENIZER)}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def model_hash(folder: Path) -> str:
    """Returns 12 hex digits that identify the model in a folder."""
    return sha256_hex("\n".join(f"{name} {hash}" for name, hash in sorted(read_manifest(folder).items())).encode())[:12]


def is_intact(folder: Path) -> bool:
    """Returns True if a model was built in this folder and its files are unchanged."""
    hashes = read_manifest(folder)
    try:
        return bool(hashes) and all(sha256_hex((folder / name).read_bytes()) == hash for name, hash in hashes.items())
    except OSError:
        return False


def sha256_hex(content: bytes) -> str:
    """Returns the SHA-256 in hex."""
    return hashlib.sha256(content).hexdigest()
