"""An answer cites what a brief showed it by short ids; a look-up of them finds the trade."""

from __future__ import annotations

import pytest

from memtape.errors import Invalid
from memtape.surfaces.registry import execute
from tests.engine.desk_with_history import desk_with_history

pytestmark = pytest.mark.any_store


def test_a_short_id_of_a_brief_finds_its_trade_in_every_operation_that_takes_one(memory):
    agent = desk_with_history(memory, trades=30)
    made = agent.briefs.make(symbol="BTC")
    agent.briefs.record_shown(made, decision="d1")
    (row, *_) = [line for line in made.brief.text.split("\n") if "→" in line]
    short = row.rsplit(" ", 1)[1].strip("[]")
    cited = next(one.source.id for one in made.brief.citations if one.segment == "recent_trades")
    assert len(short) == 4 and cited.startswith(short)
    found = execute(memory, "get_trade", {"agent": "desk", "trade_id": short})
    assert found["trade"]["id"] == cited
    assert execute(memory, "get_trade_reflection", {"agent": "desk", "trade_id": f"[{short}]"})["trade"]["id"] == cited
    assert execute(memory, "explain_memory", {"agent": "desk", "memory_id": short})["memory_id"] == cited


def test_a_prefix_that_two_trades_share_is_refused_with_both_named(memory, monkeypatch):
    agent = desk_with_history(memory, trades=30)
    one, other, *_ = [trade.id for trade in agent.ledger.trades(status="closed")]
    with agent._scope.view() as view:
        alike = [trade._replace(id="abcd" + id[4:]) for trade, id in zip(view.trades()[:2], (one, other), strict=True)]
    monkeypatch.setattr("memtape.engine.view.stored.StoredView.trades", lambda *_, **__: alike)
    with pytest.raises(Invalid, match="trade_id: 'abcd' stands for 2 trades"):
        agent.ledger.full_id("abcd")


def test_a_decision_that_names_short_ids_is_recorded_with_the_whole_ones(memory):
    agent = desk_with_history(memory, trades=30)
    made = agent.briefs.make(symbol="BTC")
    ids = [one.source.id for one in made.brief.citations if one.segment == "recent_trades"][:2]
    decided = {"agent": "desk", "id": "by-short-ids", "symbol": "BTC", "action": "no_trade", "reason": "as before", "brief": made.receipt,
               "slots": {"memories": f"[{ids[0][:4]}], {ids[1][:4]}, my own idea"}}  # fmt: skip
    execute(memory, "record_decision", decided)
    execute(memory, "record_decision", decided | {"id": "in-a-sentence", "slots": {"memories": f"[{ids[0][:4]}] and [{ids[1][:4]}]; my own idea"}})
    recorded = {one.decision.id: one.decision.slots for one in agent.ledger.decisions()}
    assert recorded["by-short-ids"]["memories"] == f"{ids[0]}, {ids[1]}, my own idea"
    assert recorded["in-a-sentence"]["memories"] == f"{ids[0]} and {ids[1]}; my own idea"
