"""The embedder `minilm`: all-MiniLM-L6-v2, a transformer that reads sentences, on this machine and without a server.

Unlike the static table it knows the order of words and what they mean in company. It is not part of the package: `memtape
embedder build minilm` builds it once from the published weights (`tools/build_minilm.py`), and it needs the extra `minilm`. Where
either is missing, embedding fails with the command to run, and the caller falls back to words.

Texts are embedded one at a time, by one thread: a text has the same vector whatever it is embedded with, and the short ones
are not filled up to the length of the longest. The model reads 254 tokens at once; a longer text is read in equal parts, and
its vector is their mean.

An id stands for one model: it has the hash of its files, which are checked when they are read. Another processor or another
version of ONNX Runtime may differ in the last digits.

>>> parts(list(range(300))) == [list(range(150)), list(range(150, 300))]
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

if TYPE_CHECKING:  # loaded with the first text
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

NAME = "minilm-l6-v2-int8-384.1"  # and the folder it is in; another way of making it needs another number
EXTRA = "minilm"
MODEL, TOKENIZER, MANIFEST = "model.onnx", "tokenizer.json", "manifest.json"
WINDOW = 254  # tokens that are read at once, besides the two marks around them
CLS, SEP = 101, 102


class MiniLM:
    """The model in the first of some folders that has it. Reads its files with the first text."""

    dim = 384

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = tuple(folders)
        self._found: tuple[Path, str] | None = None

    @property
    def folder(self) -> Path | None:
        """Where it is, if it was built."""
        return found[0] if (found := self._look()) else None

    @property
    def id(self) -> str:
        """The model with its version and the hash of its files; without the hash while it is not built."""
        return found[1] if (found := self._look()) else NAME

    def _look(self) -> tuple[Path, str] | None:
        """Its place and its id: looked for until it is there, since it may be built meanwhile."""
        if self._found is None and (place := next((each / NAME for each in self._folders if manifest(each / NAME)), None)):
            self._found = place, f"{NAME}.{identity(place)}"
        return self._found

    def tokens(self, text: str) -> list[int]:
        """A text as the model reads it, without the marks around it."""
        sendable = text.encode("utf-8", "replace").decode("utf-8")  # half a surrogate pair has no bytes
        return list(self._loaded().tokenizer.encode(sendable, add_special_tokens=False).ids)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """A row of length 1 for each text, in order; zeros for a text that says nothing."""
        import numpy as np

        loaded = self._loaded()
        found = np.zeros((len(texts), self.dim), np.float32)
        for row, text in zip(found, texts, strict=True):
            if tokens := self.tokens(text):
                row[:] = loaded.vector(tokens)
        return found

    def _loaded(self) -> Loaded:
        found = self._look()
        if found is None:
            raise Invalid("embedder", "minilm is not built on this machine", "Run: memtape embedder build minilm")
        if find_spec("onnxruntime") is None:
            raise MissingExtra(what="The embedder minilm", extra=EXTRA)
        return _load(*found)


@dataclass(frozen=True, slots=True)
class Loaded:
    """The model in memory."""

    session: Any
    tokenizer: Tokenizer

    def vector(self, tokens: list[int]) -> NDArray[np.float64]:
        """One text: the mean of its parts, each counting by its length."""
        import numpy as np

        total = np.zeros(MiniLM.dim)
        for part in parts(tokens):
            total += len(part) * _unit(self._run(part))
        return _unit(total)

    def _run(self, part: list[int]) -> NDArray[np.float64]:
        import numpy as np

        ids = np.array([CLS, *part, SEP], np.int64)
        (vector,) = self.session.run(None, {"ids": ids, "places": np.arange(len(ids), dtype=np.int64)})
        return np.asarray(vector, np.float64)


def parts(tokens: list[int], window: int = WINDOW) -> list[list[int]]:
    """A long text in as few parts as may be, about equally long.

    >>> parts([7, 8, 9], window=2)
    [[7, 8], [9]]
    """
    count = -(-len(tokens) // window)
    ends = [-(-at * len(tokens) // count) for at in range(count + 1)]
    return [tokens[start:end] for start, end in pairwise(ends)]


def _unit(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    return np.asarray(vector / (float(np.sqrt(vector @ vector)) or 1.0), np.float64)


@cache
def _load(folder: Path, id: str) -> Loaded:
    """The files, if they are those that the id stands for."""
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as ort
    from tokenizers import Tokenizer

    if not intact(folder) or not id.endswith(identity(folder)):
        raise Invalid("embedder", f"the model in {folder} is not as it was built", "Run: memtape embedder build minilm")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_mem_pattern = False  # it would keep a plan for every length of text
    options.log_severity_level = 3
    try:  # without the fusion that is several times slower than what it fuses
        session = onnxruntime.InferenceSession(
            (folder / MODEL).read_bytes(), options, ["CPUExecutionProvider"], disabled_optimizers=["SkipLayerNormFusion"]
        )
    except (ort.Fail, ort.InvalidGraph, ort.NotImplemented) as error:  # one that is too old to know the model's steps
        problem = f"onnxruntime {onnxruntime.__version__} cannot run it ({one_line(str(error), 120)})"
        raise Invalid("embedder", problem, f"Run: pip install 'memtape[{EXTRA}]'") from None
    return Loaded(session, Tokenizer.from_file(str(folder / TOKENIZER)))


# --- files --------------------------------------------------------------------------------------------------------------


def manifest(folder: Path) -> dict[str, str]:
    """The hash of each file of a built model, as noted when it was built; nothing where there is none."""
    try:
        files = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]
        return {name: str(files[name]) for name in (MODEL, TOKENIZER)}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def identity(folder: Path) -> str:
    """The model in a folder, in 12 hex digits."""
    return hashed("\n".join(f"{name} {hash}" for name, hash in sorted(manifest(folder).items())).encode())[:12]


def intact(folder: Path) -> bool:
    """Whether a model was built here and its files are still what they were."""
    noted = manifest(folder)
    try:
        return bool(noted) and all(hashed((folder / name).read_bytes()) == hash for name, hash in noted.items())
    except OSError:
        return False


def hashed(content: bytes) -> str:
    """SHA-256, in hex."""
    return hashlib.sha256(content).hexdigest()
