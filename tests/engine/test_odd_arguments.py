"""What Python code passes by mistake is refused with the name of the argument, in words that every terminal can show."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

import memtape
from memtape.engine import AgentMemory
from memtape.errors import MemtapeError
from memtape.surfaces.registry import execute

CALLS: dict[str, Callable[[AgentMemory, Any], object]] = {
    "plan": lambda agent, bad: agent.plans.create(bad),
    "changes": lambda agent, bad: agent.memories.correct("x", bad, "mistake"),
    "values": lambda agent, bad: agent.imports.commit(bad, {"file": "a.csv"}),
    "source": lambda agent, bad: agent.imports.commit([], bad),
    "source.file": lambda agent, bad: agent.imports.commit([], {"file": bad}),
    "text": lambda agent, bad: agent.journal.append("note", bad, run="r"),
    "path": lambda agent, bad: agent.documents.read(bad),
}


@pytest.mark.parametrize("argument", CALLS)
@pytest.mark.parametrize("bad", [float("nan"), Decimal("sNaN"), object(), "\ud800"], ids=["nan", "snan", "object", "surrogate"])
def test_an_odd_argument_is_refused_by_its_name(argument: str, bad: Any) -> None:
    with memtape.open(":memory:") as memory:
        memory.create_skill("breakout")
        memory.create_agent("gold", skill="breakout")
        with pytest.raises(MemtapeError, match=f"^{argument}") as refused:
            CALLS[argument](memory.agent("gold"), bad)
        assert str(refused.value).encode() and len(str(refused.value)) < 400


def test_a_name_without_end_or_with_half_a_character_is_repeated_in_part() -> None:
    with memtape.open(":memory:") as memory:
        memory.create_skill("breakout")
        agent = memory.create_agent("gold", skill="breakout")
        assert agent.id == "gold"
        with pytest.raises(MemtapeError) as long:
            memory.agent("gold").plans.confirm("9" * 5000)
        with pytest.raises(MemtapeError) as half:
            memory.agent("gold").plans.confirm("\ud800")
        assert len(str(long.value)) < 400 and str(half.value).encode()


def test_half_a_character_in_a_name_of_a_correction_is_refused() -> None:
    with memtape.open(":memory:") as memory:
        memory.create_skill("breakout")
        memory.create_agent("gold", skill="breakout")
        with pytest.raises(MemtapeError, match="half of a character"):
            execute(memory, "amend_fill", {"fill_id": "x", "content": {"\ud800": 1}}, agent="gold")
        with pytest.raises(MemtapeError, match=r"^query: is not text"):
            memory.agent("gold").documents.search(7)  # type: ignore[arg-type]
