"""The columnar index that recall scores: an agent's episodes as arrays, and the same answers as `core.recall`, quickly."""

from memtape.columns.index import Columns
from memtape.columns.recall import evidence, ranked, recall

__all__ = ["Columns", "evidence", "ranked", "recall"]
