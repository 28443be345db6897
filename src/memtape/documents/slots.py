"""The ways to search documents: by words, or by words and meaning."""

from __future__ import annotations

from typing import Literal

Slot = Literal["sqlite_fts", "hybrid_embeddings"]
SLOTS: tuple[Slot, ...] = ("sqlite_fts", "hybrid_embeddings")
