"""An import taken back: gone from then on, and still told to whoever asks what was believed before."""

from __future__ import annotations

from decimal import Decimal

import pytest

from memtape.core.observed import ClosedTrade, Decision, Fill, Observed
from memtape.engine import AgentMemory, Memory
from memtape.engine.audit import verify
from memtape.plugs.clock import FixedClock
from tests.conformance.desk import a_fill, minute

IMPORTED, UNDONE = minute(100), minute(200)
REPORTED = ClosedTrade(
    trade_id="x1", symbol="ETH", side="short", entry_at=minute(1), exit_at=minute(2), entry_price=Decimal(3000),
    exit_price=Decimal(2990), qty=Decimal(1),
)  # fmt: skip
ROUND_TRIP: list[Observed] = [a_fill("y1", 1), a_fill("y2", 2, "sell")]


def given_desk(memory: Memory) -> AgentMemory:
    memory.clock = FixedClock(IMPORTED)
    memory.create_skill("plain")
    memory.create_agent("desk", skill="plain", mode="sim")
    return memory.agent("desk")


def undo(memory: Memory, batch: str) -> None:
    memory.clock = FixedClock(UNDONE)
    memory.agent("desk").undo_import(batch)


@pytest.mark.parametrize("file", [[REPORTED], ROUND_TRIP], ids=["a reported trade", "fills"])
def test_what_was_believed_before_an_undo_can_still_be_told(memory: Memory, file: list[Observed]) -> None:
    agent = given_desk(memory)
    batch = agent.import_items(file, {"file": "x.csv"}).batch
    head, believed = agent.head().seq, agent.trades()
    assert len(believed) == 1
    undo(memory, batch)
    assert agent.trades() == agent.trades(as_of=UNDONE) == []
    assert agent.trades(head=head) == believed
    assert agent.trades(as_of=minute(150), head=head) == believed
    assert agent.trades(as_of=minute(150)) == believed  # the undo was not known then
    assert verify(memory).ok


def test_a_decision_taken_back_no_longer_explains_a_fill_that_stays(memory: Memory) -> None:
    agent = given_desk(memory)
    decision = Decision(id="d1", t=minute(0), symbol="AAPL", stop=Decimal(90), reason="from the file")
    batch = agent.import_items([decision], {"file": "x.csv"}).batch
    agent.observe(Fill(id="f1", t=minute(1), symbol="AAPL", side="buy", qty=Decimal(1), px=Decimal(100), decision="d1"))
    agent.observe(a_fill("f2", 2, "sell"))
    assert [trade.entry_reason for trade in agent.trades()] == ["from the file"]
    undo(memory, batch)
    assert [trade.entry_reason for trade in agent.trades()] == [None]
    assert verify(memory).ok
