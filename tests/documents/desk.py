"""A workspace on disk, an index beside it, and a few ways to ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from memtape.documents.index import DocumentIndex
from memtape.documents.index_writer import Document
from memtape.documents.sources import DocumentFolder

NOON = datetime(2026, 5, 12, 12, tzinfo=UTC)
SHARED = Path(__file__).parent.parent.parent.parent / "shared" / "data"


def write(root: Path, files: Mapping[str, str]) -> Path:
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return root


def sync(index: DocumentIndex, root: Path, **more):
    return index.sync("ann", "gold", [DocumentFolder(root)], now=NOON, **more)


def put(index: DocumentIndex, notes: Mapping[str, str], agent: str = "gold", type: str = "note", tier: int = 3, **more):
    return index.put("ann", agent, [Document(path, type, tier, text) for path, text in notes.items()], now=NOON, **more)


class Letters:
    """An embedder that counts letters: enough to be near and far. It can be broken."""

    def __init__(self, id: str = "letters.1", dim: int = 26, broken: bool = False) -> None:
        self.id, self.dim, self.broken = id, dim, broken
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        if self.broken:
            raise OSError("connection refused")
        self.asked += texts
        rows = np.array(
            [[text.lower().count(chr(97 + at % 26)) for at in range(self.dim)] for text in texts], np.float32
        ).reshape(-1, self.dim)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return rows / np.where(lengths, lengths, 1)
