"""A quick look whether projections follow from the log, for `doctor` and the first page. `verify` proves it, and takes longer."""

from __future__ import annotations

from memtape.engine.memory import Memory
from memtape.store.tables import Tables, streams


def projection_problems(memory: Memory) -> list[str]:
    """The streams whose log has rows of which no projection shows anything, each with what to do."""
    found: list[str] = []
    with memory.database.reading(memory.owner) as session:
        for stream in streams(session, memory.owner):
            tables = Tables(session, memory.owner, stream)
            if tables.is_unprojected():
                found.append(f"'{stream}': its log has {tables.head().seq} rows, its tables are empty. Run: memtape rebuild")
    return found
