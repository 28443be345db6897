"""The equity that the state reports is the account's; deposits and withdrawals move it, and are neither profit nor loss."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import memtape
from memtape.engine.brief_inputs import gather
from memtape.engine.brief_question import BriefQuestion
from memtape.plugs.clock import FixedClock
from memtape.surfaces.registry import execute

MONDAY = datetime(2026, 6, 1, 8, tzinfo=UTC)


@pytest.fixture
def memory(tmp_path):
    with memtape.open(str(tmp_path / "desk.db"), clock=FixedClock(MONDAY + timedelta(days=20))) as opened:
        opened.create_skill("trend")
        opened.create_agent("desk", skill="trend", mode="paper", settings={"starting_equity": 10_000})
        yield opened


def day(n: float) -> datetime:
    return MONDAY + timedelta(days=n)


def trade(memory, n, pnl):
    memory.agent("desk").observe(
        {"trade_id": f"r{n}", "symbol": "BTC", "side": "long", "entry_at": day(n), "exit_at": day(n + 0.1), "entry_price": 100,
         "exit_price": 100, "qty": 1, "pnl": pnl}, kind="trade", backfill=True
    )  # fmt: skip


def flow(memory, n, usd):
    memory.agent("desk").observe({"id": f"f{n}", "t": day(n), "usd": usd}, kind="flow", backfill=True)


def mark(memory, n, equity):
    memory.agent("desk").observe({"t": day(n), "equity": equity}, kind="equity", backfill=True)


def equities(memory):
    state = execute(memory, "get_agent_state", {"agent": "desk", "history": 100})
    last = state["history"][-1]
    assert (last["equity"], last["equity_without_flows"]) == (state["equity"], state["equity_without_flows"])
    return state["equity"], state["equity_without_flows"], state["peak_equity"], state["drawdown_pct"]


def test_without_marks_equity_is_what_was_started_with_earned_and_paid_in(memory):
    trade(memory, 0, 200)
    flow(memory, 1, 5_000)
    assert equities(memory) == (15_200, 10_200, 10_200, 0)
    trade(memory, 2, -1_020)
    assert equities(memory) == (14_180, 9_180, 10_200, 0.0671053)  # 1,020 of the 15,200 that were there
    flow(memory, 3, -4_180)
    assert equities(memory) == (10_000, 9_180, 10_200, 0.0671053)


def test_with_marks_equity_is_the_last_mark_and_what_happened_since(memory):
    mark(memory, 0, 10_000)
    flow(memory, 1, 2_500.25)
    assert equities(memory)[:2] == (12_500.25, 10_000)
    mark(memory, 2, 12_000.25)
    assert equities(memory) == (12_000.25, 9_500, 10_000, 0.0399992)  # 500 of 12,500.25
    flow(memory, 3, -2_000)
    assert equities(memory) == (10_000.25, 9_500, 10_000, 0.0399992)
    trade(memory, 4, 100)
    assert equities(memory) == (10_100.25, 9_600, 10_000, 0.0303994)


def test_no_cent_of_a_large_account_is_rounded_away(memory):
    mark(memory, 0, "12345678.91")
    assert equities(memory)[0] == 12_345_678.91


def test_past_steps_show_both_figures(memory):
    flow(memory, 0, 5_000)
    trade(memory, 1, -500)
    history = execute(memory, "get_agent_state", {"agent": "desk", "history": 10})["history"]
    assert [(step["what"], step["equity"], step["equity_without_flows"]) for step in history] == [
        ("flow", 15_000, 10_000), ("close", 14_500, 9_500),
    ]  # fmt: skip


def test_the_days_result_is_a_share_of_what_the_account_held_when_the_day_began(memory):
    flow(memory, 0, 10_000)
    trade(memory, 5, -400)
    flow(memory, 5.2, 50_000)
    agent = memory.agent("desk")
    skill, version = memory.skill("trend")
    with agent.view(day(5.3)) as view:
        risk = gather(view, BriefQuestion(as_of=None, head=None, owner_head=None), agent.agent, skill, version, None).risk
    assert (risk.realized_usd, risk.realized_pct) == (-400, -2)


@pytest.mark.parametrize(("settings", "assumed"), [({"starting_equity": "10000"}, None), ({}, 10000.0)])
def test_an_equity_of_ten_thousand_that_the_owner_states_is_not_called_assumed(memory, settings, assumed):
    execute(memory, "create_skill", {"id": "own"})
    execute(memory, "create_agent", {"id": "funded", "skill": "own", "settings": settings})
    execute(memory, "create_agent", {"id": "funded", "skill": "own", "settings": settings})
    assert execute(memory, "get_agent_state", {"agent": "funded"})["assumed_equity"] == assumed
