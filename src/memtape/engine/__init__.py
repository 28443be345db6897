"""The one way in and out: everything that is recorded comes in here, everything that is read goes out here."""

from memtape.engine.agent import AgentMemory
from memtape.engine.memory import Memory
from memtape.engine.write.log_writer import Receipt

__all__ = ["AgentMemory", "Memory", "Receipt"]
