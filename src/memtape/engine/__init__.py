"""The one door: everything that is remembered goes in here, everything that is told comes out here."""

from memtape.engine.memory import AgentMemory, Memory
from memtape.engine.write.writer import Receipt

__all__ = ["AgentMemory", "Memory", "Receipt"]
