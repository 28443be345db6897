"""Whether the tables of a store follow from its log: a quick look, and what the last verification found."""

from __future__ import annotations

from memtape.engine.memory import Memory
from memtape.engine.proof.audit import verify_store
from memtape.store.schema import PROJECTIONS
from memtape.store.tables import Tables, streams

MAX_NAMED = 3


def projection_problems(memory: Memory) -> list[str]:
    """The streams whose log has rows of which no projection shows anything, each with what to do."""
    found: list[str] = []
    with memory.database.reading(memory.owner) as session:
        for stream in streams(session, memory.owner):
            tables = Tables(session, memory.owner, stream)
            if tables.is_unprojected():
                found.append(f"'{stream}': its log has {tables.head().seq} rows, its tables are empty. Run: memtape rebuild")
    return found


def verification_problems(memory: Memory) -> list[str]:
    """The first problems that a verification finds, each with what to do. It reads the whole store."""
    found = verify_store(memory).problems
    more = [f"and {len(found) - MAX_NAMED} more: memtape verify lists them"] if len(found) > MAX_NAMED else []
    return [
        f"'{each.stream}' {each.table} {each.key}: {each.problem}. {_fix(each.table)}".removeprefix("'' ")
        for each in found[:MAX_NAMED]
    ] + more


def _fix(table: str) -> str:
    """What to do about a table that does not agree with the log. The log itself, and bars, follow from nothing else."""
    if table == "migrations":
        return "Run: memtape migrate"
    if table in PROJECTIONS:
        return "Run: memtape rebuild"
    return "The record itself was altered: restore a backup"


class StoreHealth:
    """What is known to be wrong with a store: what a quick look finds now, else what the last verification found."""

    def __init__(self, memory: Memory) -> None:
        self._memory, self._found = memory, list[str]()

    def verify(self) -> bool:
        """Verify the store, and remember what was found. Returns True if nothing was."""
        self._found = verification_problems(self._memory)
        return not self._found

    def problems(self) -> list[str]:
        """The problems, each with what to do."""
        return projection_problems(self._memory) or self._found
