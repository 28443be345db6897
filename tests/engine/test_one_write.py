"""A tick and the brief it was decided on are one write transaction: neither is recorded without the other."""

from __future__ import annotations

import pytest

from memtape.engine import recording as recording_module
from memtape.surfaces.caller import Caller
from memtape.surfaces.registry import all_operations, perform
from tests.engine.desk_with_history import CLOCK, desk_with_history

TICK = {"id": "next", "t": CLOCK.isoformat(), "marks": {"BTC": 101}, "decision": {"symbol": "BTC", "action": "hold", "reason": "chop"}}


class PowerFailure(RuntimeError):
    """What a crash between two writes would be."""


def test_a_crash_while_the_shown_brief_is_recorded_leaves_no_tick(memory, monkeypatch):
    agent = desk_with_history(memory)
    shown, before = agent.briefs.make(symbol="BTC"), agent.head()

    def fail(*_: object, **__: object) -> None:
        raise PowerFailure

    with monkeypatch.context() as broken:
        broken.setattr(recording_module, "write_shown", fail)
        with pytest.raises(PowerFailure):
            agent.observe(TICK, shown=shown)
    assert agent.head() == before and agent.briefs.shown() == []
    receipt = agent.observe(TICK, shown=shown)
    assert (receipt.seq, receipt.duplicate) == (before.seq + 1, False)
    (row,) = agent.briefs.shown()
    assert row["digest"] == shown.brief.digest and row["run"] is None and row["decision"] is not None


def test_an_operation_records_tick_and_brief_in_one_write_transaction(memory, monkeypatch):
    agent = desk_with_history(memory)
    receipt, database = agent.briefs.make(symbol="BTC").receipt, memory.database
    opened, writing = [], database.writing
    monkeypatch.setattr(database, "writing", lambda owner: opened.append(owner) or writing(owner))
    asked = {"agent": "desk", **TICK, "brief": receipt}
    perform(memory, all_operations()["observe_tick"], asked, Caller("owner"))
    assert len(opened) == 1 and len(agent.briefs.shown()) == 1
