"""A model that uses an id before the account or the owner does takes nothing from them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import memtape
from memtape.core.decisions.runs import RunEnd
from memtape.core.observed import Decision, Tick
from memtape.core.values import read
from memtape.engine import Memory
from memtape.engine.proof.audit import verify_store
from memtape.engine.runs import BegunRun
from memtape.errors import MemtapeError
from memtape.plugs.clock import FixedClock
from memtape.surfaces.caller import Caller
from memtape.surfaces.file_imports import file_of_content, import_content
from memtape.surfaces.registry import find, perform

NOW = datetime(2026, 6, 1, 9, tzinfo=UTC)
MODEL, OWNER = Caller("model", "gold", bound=True), Caller("owner", "gold")
ENTRY, EXIT = (NOW - timedelta(hours=2)).isoformat(), (NOW - timedelta(hours=1)).isoformat()


@pytest.fixture
def memory(tmp_path: Path):
    with memtape.open(str(tmp_path / "desk.db"), clock=FixedClock(NOW)) as made:
        made.create_skill("breakout")
        made.create_agent("gold", skill="breakout")
        yield made


def ask(memory: Memory, caller: Caller, name: str, **data: Any) -> dict[str, Any]:
    return perform(memory, find(name), data, caller)


def test_a_loss_of_the_account_counts_although_a_model_claimed_its_id_as_a_win(memory: Memory) -> None:
    ask(memory, MODEL, "remember_trade", trade_id="t1", symbol="BTC", direction="long", entry_price=100, exit_price=150, qty=1,
        stop=98, entry_at=ENTRY, exit_at=EXIT)  # fmt: skip
    ask(memory, OWNER, "observe_trade", trade_id="t1", symbol="BTC", side="long", entry_price="100", exit_price="98", qty="1",
        stop="98", entry_at=ENTRY, exit_at=EXIT)  # fmt: skip
    assert [trade["net_pnl_usd"] for trade in ask(memory, OWNER, "get_trades")["trades"]] == ["-2"]
    assert ask(memory, OWNER, "recall_memories", symbol="BTC", context={})["evidence"]["mean_r"] == -1.0


def test_an_event_of_the_owner_replaces_one_that_a_model_added_under_its_id(memory: Memory) -> None:
    event = {"id": "nfp", "title": "NFP", "currencies": ["USD"]}
    ask(memory, MODEL, "record_events", events=[{**event, "t": "2026-09-01T12:00:00Z", "impact": "low"}])
    ask(memory, OWNER, "record_events", events=[{**event, "t": "2026-06-01T09:20:00Z", "impact": "high"}])
    (shown,) = ask(memory, OWNER, "get_upcoming_events")["events"]
    assert (shown["t"], shown["impact"], shown["tier"]) == ("2026-06-01T09:20:00Z", "high", 1)


@pytest.mark.parametrize(
    ("name", "of_model", "of_owner"),
    [
        ("create_trading_plan", {"planned_action": {"type": "alert"}}, {"planned_action": {"type": "skip_trade"}}),
        ("state_belief", {"op": "gt"}, {"op": "lt"}),
    ],
)
def test_a_plan_or_belief_of_the_owner_with_an_id_that_a_model_used_is_refused_with_the_reason(
    memory: Memory, name: str, of_model: dict[str, Any], of_owner: dict[str, Any]
) -> None:
    same = {
        "create_trading_plan": {"id": "x", "trigger_condition": {"symbol": "BTC"}, "reasoning": "r"},
        "state_belief": {"id": "x", "sentence": "s", "validity_conditions": {"regime": "ranging"}},
    }[name]
    ask(memory, MODEL, name, **same, **of_model)
    with pytest.raises(MemtapeError, match=r"id: the (plan|belief) 'x' .* another content. Choose another id"):
        ask(memory, OWNER, name, **same, **of_owner)


def test_a_decision_that_the_owner_recorded_is_not_replaced(memory: Memory) -> None:
    ask(memory, OWNER, "record_decision", id="d1", action="no_trade", symbol="BTC", reason="waiting")
    ask(memory, MODEL, "record_decision", id="d1", action="buy", symbol="BTC", side="long", reason="go", stop=99)
    assert ask(memory, OWNER, "get_decision", decision="d1")["action"] == "no_trade"


OWNERS_DECISION = {"action": "buy", "symbol": "BTC", "side": "long", "reason": "the desk's", "stop": 98, "order_ids": ["o1"]}


def fill(memory: Memory, id_: str, side: str, px: str, **names: str) -> None:
    ask(memory, OWNER, "observe_fill", id=id_, t=NOW.isoformat(), symbol="BTC", side=side, qty="1", px=px, **names)


@pytest.mark.parametrize("order", [["model", "owner", "fills"], ["model", "fills", "owner"], ["owner", "model", "fills"]], ids="-".join)
@pytest.mark.parametrize("named", [{"decision": "d1"}, {"order_id": "o1"}], ids=["by its decision", "by its order"])
@pytest.mark.parametrize("id_of_model", ["d1", "d2"])
@pytest.mark.parametrize("in_tick", [False, True])
def test_a_loss_keeps_the_stop_of_the_desk_although_a_model_used_its_names(
    memory: Memory, order: list[str], named: dict[str, str], id_of_model: str, in_tick: bool
) -> None:
    for who in order:
        if who == "model":
            ask(memory, MODEL, "record_decision", id=id_of_model, **{**OWNERS_DECISION, "stop": 1, "reason": "the model's"})
        elif who == "fills":
            fill(memory, "f1", "buy", "100", **named)
            fill(memory, "f2", "sell", "98")
        elif in_tick:
            decided = {**OWNERS_DECISION, "id": "d1"}
            ask(memory, OWNER, "observe_tick", id="t1", t=NOW.isoformat(), decision=[decided])
        else:
            ask(memory, OWNER, "record_decision", id="d1", **OWNERS_DECISION)
    assert [trade["pnl_r"] for trade in ask(memory, OWNER, "get_trades")["trades"]] == ["-1"]
    assert verify_store(memory).ok
    head = memory.agent("gold").head().seq
    ask(memory, OWNER, "observe_equity", t=NOW.isoformat(), equity="9000")
    assert [trade["pnl_r"] for trade in ask(memory, OWNER, "get_trades", head=head)["trades"]] == ["-1"]


def test_a_model_cannot_use_a_name_that_only_the_owner_has(memory: Memory) -> None:
    for names in ({"id": "d1@owner"}, {"order_ids": ["o1@owner"]}, {"id": "d" * 123}):
        with pytest.raises(MemtapeError, match=r"which only names of the owner do|at most 122"):
            ask(memory, MODEL, "record_decision", **{**OWNERS_DECISION, **names})


def test_a_desk_that_records_again_what_its_model_decided_adds_nothing(memory: Memory) -> None:
    ask(memory, MODEL, "record_decision", id="d1", **OWNERS_DECISION)
    assert ask(memory, OWNER, "record_decision", id="d1", **OWNERS_DECISION)["duplicate"]
    assert len(ask(memory, OWNER, "get_decisions")["decisions"]) == 1


def test_an_order_of_the_desk_keeps_its_stop_although_a_model_repeats_its_decision_and_uses_the_order_elsewhere(memory: Memory) -> None:
    ask(memory, MODEL, "record_decision", id="d1", **{**OWNERS_DECISION, "order_ids": []})
    ask(memory, MODEL, "record_decision", id="d9", **{**OWNERS_DECISION, "stop": 1, "reason": "the model's"})
    ask(memory, OWNER, "record_decision", id="d1", **OWNERS_DECISION)
    fill(memory, "f1", "buy", "100", order_id="o1")
    fill(memory, "f2", "sell", "98")
    assert [trade["pnl_r"] for trade in ask(memory, OWNER, "get_trades")["trades"]] == ["-1"]


def test_the_answer_to_a_renamed_decision_says_its_id(memory: Memory) -> None:
    ask(memory, MODEL, "record_decision", id="d1", **{**OWNERS_DECISION, "stop": 1})
    for _ in range(2):
        answer = ask(memory, OWNER, "record_decision", id="d1", **OWNERS_DECISION)
        assert {"event": "decision_renamed", "decision": "d1", "recorded_as": "d1@owner"} in answer["concluded"]


DECISIONS = """decision_id,time,symbol,action,side,reason,stop,entry_price,outcome,r
d1,2026-05-31T08:00:00Z,BTC,buy,long,the desk's,98,100,won,2
d2,2026-05-31T09:00:00Z,BTC,buy,long,another,97,100,lost,-1
"""


def test_a_file_of_decisions_counts_with_its_outcomes_although_a_model_used_an_id_of_it(memory: Memory) -> None:
    ask(memory, MODEL, "record_decision", id="d1", **{**OWNERS_DECISION, "stop": 1, "order_ids": []})
    file = file_of_content("decisions.csv", DECISIONS)
    preview = import_content(memory, file, agent="gold", kind="decisions")
    assert (preview["new"], preview["duplicates"], [each for each in preview["problems"] if each["blocks"]]) == (2, 0, [])
    assert "recorded as d1@owner: a model had used the id, or an order, for another decision" in preview["mapping"]["notes"]
    import_content(memory, file, agent="gold", kind="decisions", commit=True)
    outcomes = {one.decision: one.r for one in memory.agent("gold").outcomes.list()}
    assert outcomes == {"d1": None, "d1@owner": 2, "d2": -1}
    again = import_content(memory, file, agent="gold", kind="decisions", commit=True)
    assert (again["new"], again["duplicates"]) == (0, 2)
    assert verify_store(memory).ok


def test_an_undone_import_of_a_renamed_decision_leaves_its_trade_as_it_was_before(memory: Memory) -> None:
    ask(memory, MODEL, "record_decision", id="d1", **{**OWNERS_DECISION, "stop": 90, "reason": "the model's"})
    fill(memory, "f1", "buy", "100", decision="d1")
    fill(memory, "f2", "sell", "98")
    import_content(memory, file_of_content("decisions.csv", DECISIONS), agent="gold", kind="decisions", commit=True)
    assert [trade["pnl_r"] for trade in ask(memory, OWNER, "get_trades")["trades"]] == ["-1"]
    memory.agent("gold").imports.undo()
    assert [trade["pnl_r"] for trade in ask(memory, OWNER, "get_trades")["trades"]] == ["-0.2"]
    assert verify_store(memory).ok


def test_a_run_names_the_decision_that_it_recorded_under_another_id(memory: Memory) -> None:
    ask(memory, MODEL, "record_decision", id="d9", **{**OWNERS_DECISION, "stop": 1})
    agent = memory.agent("gold")
    begun = agent.runs.begin("scheduled", "Analyse.", runner="callable")
    assert isinstance(begun, BegunRun)
    decided = read(Decision, {"id": "d1", **OWNERS_DECISION})
    run = agent.end_run(begun, RunEnd(run=begun.start.id, at=NOW, result="ok"), decision=decided)
    assert run.end is not None
    assert run.end.decision == "d1@owner"


@pytest.mark.parametrize("who", ["model", "owner"])
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("in_tick", [False, True])
def test_an_order_that_is_added_to_a_known_decision_gives_its_fills_the_stop(
    memory: Memory, who: str, late: bool, in_tick: bool
) -> None:
    ask(memory, MODEL if who == "model" else OWNER, "record_decision", id="d1", **{**OWNERS_DECISION, "order_ids": []})
    if late:
        fill(memory, "f1", "buy", "100", order_id="o1")
        fill(memory, "f2", "sell", "98")
    for _ in range(2):
        if in_tick:
            ask(memory, OWNER, "observe_tick", id="t1", t=NOW.isoformat(), decision=[{**OWNERS_DECISION, "id": "d1"}])
        else:
            ask(memory, OWNER, "record_decision", id="d1", **OWNERS_DECISION)
    if not late:
        fill(memory, "f1", "buy", "100", order_id="o1")
        fill(memory, "f2", "sell", "98")
    assert [trade["pnl_r"] for trade in ask(memory, OWNER, "get_trades")["trades"]] == ["-1"]
    assert len(ask(memory, OWNER, "get_decisions")["decisions"]) == 1
    assert verify_store(memory).ok


def test_a_model_adds_no_order_to_a_decision_of_the_owner(memory: Memory) -> None:
    ask(memory, OWNER, "record_decision", id="d1", **{**OWNERS_DECISION, "stop": 50, "order_ids": []})
    assert ask(memory, MODEL, "record_decision", id="d1", **OWNERS_DECISION)["duplicate"]
    fill(memory, "f1", "buy", "100", order_id="o1")
    fill(memory, "f2", "sell", "98")
    assert [trade.get("pnl_r") for trade in ask(memory, OWNER, "get_trades")["trades"]] == [None]


@pytest.mark.parametrize("order", ["o1", "50%_\"!'\\ é"])
def test_fills_that_name_an_unknown_decision_and_an_order_take_the_stop_of_the_order_when_it_comes(memory: Memory, order: str) -> None:
    fill(memory, "f1", "buy", "100", decision="unknown", order_id=order)
    fill(memory, "f2", "sell", "98")
    with pytest.raises(MemtapeError, match=r"a fill of .* names it already"):
        ask(memory, MODEL, "record_decision", id="d9", **{**OWNERS_DECISION, "stop": 1, "order_ids": [order]})
    ask(memory, OWNER, "record_decision", id="d1", **{**OWNERS_DECISION, "order_ids": [order]})
    assert [trade["pnl_r"] for trade in ask(memory, OWNER, "get_trades")["trades"]] == ["-1"]
    assert verify_store(memory).ok


def test_in_a_batch_of_ticks_too_an_order_explains_fills_that_name_an_unknown_decision(memory: Memory) -> None:
    agent = memory.agent("gold")
    named = {"decision": "unknown", "order_id": "o1"}
    fills = [{"id": "f1", "side": "buy", "px": "100", **named}, {"id": "f2", "side": "sell", "px": "98"}]
    parts = [
        {"fills": [{"t": NOW.isoformat(), "symbol": "BTC", "qty": "1", **each} for each in fills]},
        {"decision": [{**OWNERS_DECISION, "id": "d1"}]},
    ]
    at = [(NOW + timedelta(seconds=n)).isoformat() for n in range(2)]
    agent.observe_ticks([read(Tick, {"id": f"t{n}", "t": at[n], **part}) for n, part in enumerate(parts)])
    assert [trade["pnl_r"] for trade in ask(memory, OWNER, "get_trades")["trades"]] == ["-1"]
    assert verify_store(memory).ok


def test_a_trade_that_came_whole_is_that_of_the_owners_decision_and_not_of_the_model_that_named_it_first(memory: Memory) -> None:
    ask(memory, MODEL, "record_decision", id="d9", **{**OWNERS_DECISION, "order_ids": ["t1"], "reason": "the model's"})
    ask(memory, OWNER, "record_decision", id="d1", **{**OWNERS_DECISION, "order_ids": ["t1"]})
    ask(memory, OWNER, "observe_trade", trade_id="t1", symbol="BTC", side="long", entry_price="100", exit_price="98", qty="1",
        stop="98", entry_at=ENTRY, exit_at=EXIT)  # fmt: skip
    results = {one.decision: one.r for one in memory.agent("gold").outcomes.list()}
    assert (results["d1@owner"], results.get("d9")) == (-1, None)
    assert [one.r for one in memory.agent("gold").outcomes.list(["d9"])] == [None]
