"""The columnar index that recall scores: an agent's episodes as arrays, and the same answers as `core.recall`, quickly."""

from memtape.columns.index import Columns
from memtape.columns.recall import evidence_columns, rank_columns, recall_columns

__all__ = ["Columns", "evidence_columns", "rank_columns", "recall_columns"]
