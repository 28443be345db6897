"""Counts tokens as cl100k_base does, for measurements only: memtape itself never needs its vocabulary.

The vocabulary is not part of the repository. It is the file `dist/ranks/cl100k_base.js` of the npm package js-tiktoken 1.0.21
(`npm pack js-tiktoken@1.0.21`); MEMTAPE_CL100K names it. The splitting pattern stands in the same file; Python's `re` has no
classes of letters and numbers, so they are made from `unicodedata` here.
"""

from __future__ import annotations

import base64
import json
import os
import re
import sys
import unicodedata
from functools import cache, lru_cache
from pathlib import Path

VARIABLE = "MEMTAPE_CL100K"


@cache
def vocabulary() -> dict[bytes, int] | None:
    """Returns the rank of each token; None if no file is named."""
    path = os.environ.get(VARIABLE)
    if not path or not Path(path).is_file():
        return None
    text = Path(path).read_text(encoding="utf-8")
    data = json.loads(text[text.index("{") : text.rindex("}") + 1])
    ranks: dict[bytes, int] = {}
    # Each line is a marker, the rank of its first token, and the tokens in base64.
    for line in data["bpe_ranks"].split("\n"):
        _, first, *tokens = line.split(" ")
        ranks |= {base64.b64decode(token): int(first) + at for at, token in enumerate(tokens)}
    return ranks


@cache
def _pattern() -> re.Pattern[str]:
    letters, numbers = _ranges("L"), _ranges("N")
    return re.compile(
        rf"'(?:[sS]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD])|[^\r\n{letters}{numbers}]?[{letters}]+|[{numbers}]{{1,3}}"
        rf"| ?[^\s{letters}{numbers}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )


def _ranges(kind: str) -> str:
    """Returns the characters of a kind as ranges for a character class."""
    found: list[tuple[int, int]] = []
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code))[0] != kind:
            continue
        if found and found[-1][1] == code - 1:
            found[-1] = found[-1][0], code
        else:
            found.append((code, code))
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in found)


def count_tokens(text: str) -> int:
    """Returns how many tokens cl100k_base makes of a text. Raises RuntimeError without the vocabulary."""
    if vocabulary() is None:
        raise RuntimeError(f"{VARIABLE} names no vocabulary; see the docstring of evidence/cl100k.py")
    return sum(_piece_tokens(piece.encode()) for piece in _pattern().findall(text))


@lru_cache(maxsize=65_536)
def _piece_tokens(piece: bytes) -> int:
    """Returns the tokens of one piece: neighbours are merged, the lowest rank first, until no pair is in the vocabulary."""
    ranks = vocabulary() or {}
    if piece in ranks:
        return 1
    parts = [piece[at : at + 1] for at in range(len(piece))]
    while len(parts) > 1:
        pairs = [(ranks[joined], at) for at in range(len(parts) - 1) if (joined := parts[at] + parts[at + 1]) in ranks]
        if not pairs:
            break
        _, at = min(pairs)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return len(parts)
