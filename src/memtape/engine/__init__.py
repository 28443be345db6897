"""The one way in and out: everything that is recorded comes in here, everything that is read goes out here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memtape.engine.agent import AgentMemory
from memtape.engine.memory import Memory

if TYPE_CHECKING:
    from memtape.engine.write.log_writer import Receipt

__all__ = ["AgentMemory", "Memory", "Receipt"]


def __getattr__(name: str) -> Any:
    # The writer is imported when it is needed: a command that only reads starts without it.
    if name == "Receipt":
        from memtape.engine.write.log_writer import Receipt

        return Receipt
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
