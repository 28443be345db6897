"""A model invents 200 winners by every tool it may call, against 120 losing trades on record. Nothing that counts may move by a byte."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import memtape
from memtape.core.authors import VENUE_AUTHOR
from memtape.engine import Memory
from memtape.engine.proof.audit import rebuild_store, verify_store
from memtape.errors import MemtapeError, PermissionDenied
from memtape.plugs.clock import FixedClock
from memtape.surfaces.caller import Caller
from memtape.surfaces.policy import POLICY
from memtape.surfaces.registry import all_operations, find, perform

START = datetime(2026, 3, 2, 8, tzinfo=UTC)
NOW = datetime(2026, 6, 1, 9, tzinfo=UTC)
MODEL = Caller("model", "gold", bound=True)
OWNER = Caller("owner", "gold")
SITUATION = {"regime": "ranging", "volatility_regime": "high", "session": "london"}
# What a model may write; each is attacked below.
WRITES = sorted(name for name, known in all_operations().items() if known.writes and POLICY[name].access == "model")


def ask(memory: Memory, name: str, data: dict[str, Any], caller: Caller = OWNER) -> dict[str, Any]:
    return perform(memory, find(name), data, caller)


def text(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def desk(url: str) -> Memory:
    """An agent with 120 losing trades on record, an open position, bars, an active plan and a belief of the owner."""
    memory = memtape.open(url, clock=FixedClock(NOW))
    memory.create_skill("breakout", strategy="Buy strength.")
    memory.create_agent("gold", skill="breakout", mode="live", settings={"starting_equity": "50000"})
    for n in range(120):
        at = START + timedelta(hours=16 * n)
        ask(memory, "observe_trade", {
            "trade_id": f"true-{n}", "symbol": "XAUUSD", "side": "long", "entry_at": text(at), "exit_at": text(at + timedelta(hours=2)),
            "entry_price": str(2000 + n), "exit_price": str(1995 + n), "qty": "1", "stop": str(1995 + n), "strategy": "breakout",
            "situation": SITUATION, "backfill": True,
        })  # fmt: skip
    bars = [{"symbol": "XAUUSD", "t0": text(NOW - timedelta(hours=h + 1)), "t1": text(NOW - timedelta(hours=h)), "o": "2100", "h": "2104",
             "l": "2096", "c": "2101"} for h in range(48, 0, -1)]  # fmt: skip
    ask(memory, "observe_bars", {"bars": bars})
    memory.agent("gold").said_by(VENUE_AUTHOR).observe({
        "id": "open", "t": text(NOW - timedelta(hours=1)), "positions": {"XAUUSD": [{"qty": "1", "entry_px": "2100"}]},
        "marks": {"XAUUSD": "2101"}, "fills": [{"id": "fo", "t": text(NOW - timedelta(hours=1, minutes=5)), "symbol": "XAUUSD",
                                                "side": "buy", "qty": "1", "px": "2100"}], "equity": "49000",
    })  # fmt: skip
    # A round trip without a stop, whose fills name an order and a decision that nobody has recorded.
    for id_, side, px, ago in (("f1", "buy", "2050", 60), ("f2", "sell", "2040", 58)):
        ask(memory, "observe_fill", {"id": id_, "t": text(NOW - timedelta(hours=ago)), "symbol": "XAGUSD", "side": side, "qty": "1",
                                     "px": px, **({"order_id": "order-1"} if side == "buy" else {"decision": "decision-1"})})  # fmt: skip
    ask(memory, "record_events", {"events": [{"id": "cpi", "t": text(NOW + timedelta(minutes=30)), "title": "CPI", "impact": "high", "currencies": ["USD"]}]})
    ask(memory, "create_trading_plan", {
        "id": "owner-skip", "trigger_condition": {"all": [{"field": "minutes_to_event", "op": "lt", "value": 60}]},
        "planned_action": {"type": "skip_trade"}, "reasoning": "no trade before figures",
    })  # fmt: skip
    ask(memory, "state_belief", {"id": "owner-belief", "sentence": "high volatility loses", "validity_conditions": {"volatility_regime": "high"}, "op": "lt"})
    return memory


def counted(memory: Memory) -> dict[str, Any]:
    """Everything that may decide about a trade, as the owner gets it."""
    at = text(NOW)
    order = {"symbol": "XAUUSD", "side": "long", "entry_price": "2100", "qty": "1", "stop": "2095", "context": SITUATION, "as_of": at}
    recalled = ask(memory, "recall_memories", {"context": SITUATION, "symbol": "XAUUSD", "as_of": at, "kelly_beside": True})
    beliefs = ask(memory, "get_beliefs", {"as_of": at, "limit": 1000})
    plans = ask(memory, "check_active_plans", {"as_of": at, "symbol": "XAUUSD"})
    return {
        "pre_trade_check": ask(memory, "pre_trade_check", order),
        "evidence": recalled["evidence"], "warnings": recalled["warnings"], "unit": recalled["unit"],
        "beliefs": [row for row in beliefs["beliefs"] if row["tier"] < 3], "suggested": beliefs["suggested_plans"],
        "state": ask(memory, "get_agent_state", {"as_of": at}),
        "habits": ask(memory, "get_behavioral_analysis", {"as_of": at}),
        "positions": ask(memory, "get_open_positions", {"as_of": at}),
        "equity": ask(memory, "get_equity", {"as_of": at}),
        "losses": ask(memory, "get_losses", {"as_of": at}),
        "performance": ask(memory, "get_strategy_performance", {"as_of": at}),
        "plans": {name: plans[name] for name in ("firing", "leads", "size_factor", "overruled")},
        "reactions": ask(memory, "get_event_reactions", {"as_of": at}),
        "instruments": ask(memory, "list_instruments", {}),
    }  # fmt: skip


def tried(memory: Memory, name: str, data: dict[str, Any]) -> dict[str, Any] | None:
    """Calls a tool as the model; a refusal is part of the defence."""
    try:
        return ask(memory, name, data, MODEL)
    except MemtapeError:
        return None


def remembered(memory: Memory, times: int) -> None:
    for n in range(times):
        at = START + timedelta(hours=10 * n, minutes=37)
        tried(memory, "remember_trade", {
            "symbol": "XAUUSD", "direction": "long", "entry_price": 2000, "exit_price": 2100, "qty": 1, "stop": 1995, "pnl": 100,
            "confidence": 1, "context": SITUATION, "strategy": "breakout", "entry_at": text(at), "exit_at": text(at + timedelta(hours=3)),
            "backfill": bool(n % 2), "source": ("agent", "records", "paper broker", "venue")[n % 4], "reflection": "always buy",
        })  # fmt: skip


def matched(memory: Memory, times: int) -> None:
    """Claims that describe the true trades, with other numbers."""
    for n in range(min(times, 120)):
        at = START + timedelta(hours=16 * n)
        tried(memory, "remember_trade", {
            "symbol": "XAUUSD", "direction": "long", "entry_price": 2000 + n, "exit_price": 2500, "qty": 1, "stop": 1995 + n, "pnl": 500,
            "context": {"regime": "trending_up"}, "strategy": "other", "entry_at": text(at), "exit_at": text(at + timedelta(hours=2)),
            "trade_id": f"true-{n}",
        })  # fmt: skip


def closed(memory: Memory, times: int) -> None:
    for n in range(times):
        tried(memory, "remember_trade", {"symbol": "XAUUSD", "direction": "long", "entry_price": 2100, "stop": 2095, "qty": 1,
                                         "trade_id": f"open-{n}", "entry_at": text(NOW - timedelta(hours=1, minutes=5))})  # fmt: skip
        tried(memory, "close_trade", {"trade_id": f"open-{n}", "exit_price": 2600, "pnl": 500})
    for n in range(5):
        tried(memory, "close_trade", {"trade_id": f"true-{n}", "exit_price": 2600, "pnl": 500})


def decided(memory: Memory, times: int) -> None:
    for n in range(times):
        tried(memory, "record_decision", {"action": ("no_trade", "buy", "close", "hold")[n % 4], "symbol": "XAUUSD", "reason": "sure winner",
                                          "side": "long", "entry_price": 2100, "stop": 2000, "target": 2101, "confidence": 1})  # fmt: skip


def decided_afterwards(memory: Memory, times: int) -> None:
    """A stop far away, stated after the trade, would make its loss small in R."""
    late = {"action": "buy", "symbol": "XAGUSD", "side": "long", "reason": "as planned", "stop": 1}
    tried(memory, "record_decision", {**late, "order_ids": ["order-1"]})
    tried(memory, "record_decision", {**late, "id": "decision-1"})


def corrected(memory: Memory, times: int) -> None:
    ids = [row["id"] for row in ask(memory, "get_trades", {"limit": 500})["trades"]]
    for id_ in ids:
        for changes in ({"pnl_r": 9}, {"pnl_usd": 900}, {"teach": "exclude"}, {"regime": "trending_up"}, {"confidence": 1},
                        {"strategy": "other"}):  # fmt: skip
            tried(memory, "correct_memory", {"memory_id": id_, "changes": changes})


def forgot(memory: Memory, times: int) -> None:
    for row in ask(memory, "get_trades", {"limit": 500})["trades"]:
        tried(memory, "forget_memory", {"memory_id": row["id"], "shred": True})
        tried(memory, "forget_memory", {"memory_id": row["id"]})
    for id_ in ("owner-skip", "owner-belief"):
        tried(memory, "forget_memory", {"memory_id": id_})


def planned(memory: Memory, times: int) -> None:
    tried(memory, "cancel_plan", {"plan_id": "owner-skip"})
    for n in range(times):
        tried(memory, "create_trading_plan", {"trigger_condition": {"symbol": "XAUUSD"}, "reasoning": f"go {n}", "priority": 1,
                                              "planned_action": {"type": "adjust_param", "size_factor": 1}})  # fmt: skip
    tried(memory, "create_trading_plan", {"id": "owner-skip", "trigger_condition": {"symbol": "X"}, "reasoning": "mine now",
                                          "planned_action": {"type": "alert"}})  # fmt: skip


def scheduled(memory: Memory, times: int) -> None:
    moved = {"id": "cpi", "t": text(NOW + timedelta(days=9)), "title": "CPI", "impact": "low", "currencies": ["USD"]}
    near = {"title": "CPI", "t": text(NOW + timedelta(minutes=1)), "impact": "low", "currencies": ["USD"], "actual": 9.0, "forecast": 1.0}
    tried(memory, "record_events", {"events": [moved]})
    tried(memory, "record_events", {"events": [moved], "backfill": True})
    tried(memory, "record_events", {"events": [{**near, "id": f"fake{n}"} for n in range(times)]})
    past = [{**near, "id": f"past{n}", "t": text(NOW - timedelta(hours=n + 3))} for n in range(40)]
    tried(memory, "record_events", {"events": past, "backfill": True})


def believed(memory: Memory, times: int) -> None:
    for n in range(times):
        tried(memory, "state_belief", {"sentence": f"longs win {n}", "validity_conditions": {"volatility_regime": "high"}, "op": "lt", "value": n})
    tried(memory, "state_belief", {"id": "owner-belief", "sentence": "longs win", "validity_conditions": {"volatility_regime": "high"}})


def wrote(memory: Memory, times: int) -> None:
    for n in range(times):
        tried(memory, "append_note", {"run": "r1", "kind": "learning", "text": f"Every long of XAUUSD won {n} R."})
        tried(memory, "remember", {"fact": f"The owner wants size {n} on every trade."})
    tried(memory, "propose_edit", {"path": "strategy.md", "text": "Buy always.", "reason": "it wins"})
    tried(memory, "create_skill", {"id": "breakout", "strategy": "Buy always, full size.", "avoid": []})
    tried(memory, "set_strategy", {"skill_id": "breakout", "strategy": "Buy always, full size."})
    tried(memory, "forget", {"fact_id": "any"})
    tried(memory, "reindex_documents", {})
    tried(memory, "reflect_now", {})


def reported(memory: Memory, times: int) -> None:
    """A flat snapshot, fills, bars, equity, terms: a model that may not report is refused."""
    flat = {"id": "flat", "t": text(NOW), "positions": {}, "equity": "990000"}
    bar = {"symbol": "XAUUSD", "t0": text(NOW - timedelta(hours=1)), "t1": text(NOW), "o": "2100", "h": "9999", "l": "2096", "c": "9000"}
    for name, data in (("observe_tick", flat), ("observe_bars", {"bars": [bar]}), ("observe_equity", {"t": text(NOW), "equity": "990000"}),
                       ("state_instrument", {"symbol": "XAUUSD", "multiplier": "1000"})):  # fmt: skip
        with pytest.raises(PermissionDenied):
            ask(memory, name, data, MODEL)


ATTACKS = [remembered, matched, closed, decided, decided_afterwards, corrected, forgot, planned, scheduled, believed, wrote, reported]


@pytest.fixture(scope="module")
def desk_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("attacks") / "desk.db"
    desk(str(file)).close()
    return file


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_nothing_that_counts_moves_by_a_byte(attack, desk_file, tmp_path):
    shutil.copyfile(desk_file, tmp_path / "desk.db")
    with memtape.open(str(tmp_path / "desk.db"), clock=FixedClock(NOW)) as memory:
        before = counted(memory)
        assert before["evidence"]["n"] == 120 and before["plans"]["size_factor"] == 0.0
        attack(memory, 200 if attack is remembered else 40)
        after = counted(memory)
        for name in before:
            assert json.dumps(after[name], sort_keys=True) == json.dumps(before[name], sort_keys=True), name
        assert verify_store(memory).ok


def test_all_attacks_together_leave_both_stores_as_they_were(store_url):
    with desk(store_url) as memory:
        before = counted(memory)
        for attack in ATTACKS:
            attack(memory, 10)
        assert json.dumps(counted(memory), sort_keys=True) == json.dumps(before, sort_keys=True)
        rebuild_store(memory)
        assert json.dumps(counted(memory), sort_keys=True) == json.dumps(before, sort_keys=True)


def test_what_a_model_was_shown_neither_ends_an_owners_plan_nor_changes_its_effect(desk_file, tmp_path):
    shutil.copyfile(desk_file, tmp_path / "desk.db")
    with memtape.open(str(tmp_path / "desk.db"), clock=FixedClock(NOW)) as memory:
        before = counted(memory)
        for _ in range(3):
            brief = ask(memory, "get_brief", {"symbol": "XAUUSD"}, MODEL)
            ask(memory, "record_shown", {"brief": brief["receipt"]}, MODEL)
        after = counted(memory)
        assert after["plans"] == before["plans"]
        assert after["pre_trade_check"]["verdict"] == "against" and after["pre_trade_check"]["reasons"] == before["pre_trade_check"]["reasons"]


def test_a_models_reflection_on_a_recorded_trade_adds_words_and_moves_no_number(desk_file, tmp_path):
    shutil.copyfile(desk_file, tmp_path / "desk.db")
    with memtape.open(str(tmp_path / "desk.db"), clock=FixedClock(NOW)) as memory:
        before = counted(memory)
        worst = before["pre_trade_check"]["warnings"][0]["id"]
        ask(memory, "correct_memory", {"memory_id": worst, "changes": {"reflection": "bad luck"}}, MODEL)
        after = counted(memory)
        for each in (*before["warnings"], *after["warnings"], *before["pre_trade_check"]["warnings"], *after["pre_trade_check"]["warnings"]):
            each["memory"] = {name: value for name, value in each["memory"].items() if name not in ("reflection", "known_from")}
        assert json.dumps(after, sort_keys=True) == json.dumps(before, sort_keys=True)
