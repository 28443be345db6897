"""memtape: the memory of AI trading agents.

import memtape
memory = memtape.open("desk.db")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memtape.compose import open_memory as open
    from memtape.core.fills import Fill, Funding
    from memtape.core.observed import Bar, Bars, CashFlow, ClosedTrade, Decision, EquityMark, HeldPosition, Tick
    from memtape.engine import AgentMemory, Memory, Receipt

__version__ = "0.1.0"
__all__ = [
    "AgentMemory",
    "Bar",
    "Bars",
    "CashFlow",
    "ClosedTrade",
    "Decision",
    "EquityMark",
    "Fill",
    "Funding",
    "HeldPosition",
    "Memory",
    "Receipt",
    "Tick",
    "open",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for, so that `import memtape` costs nothing."""
    if name == "open":
        from memtape.compose import open_memory

        return open_memory
    if name in ("AgentMemory", "Memory", "Receipt"):
        from memtape import engine

        return getattr(engine, name)
    if name in __all__:
        from memtape.core import observed

        return getattr(observed, name)
    raise AttributeError(f"module 'memtape' has no attribute '{name}'")
