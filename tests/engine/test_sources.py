"""Every answer says who reported the trades behind it: the venue, the owner's records, or the agent itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from memtape.core.fills import Fill
from memtape.core.observed import Bar, ClosedTrade, Decision
from memtape.core.values import read
from memtape.engine import AgentMemory, Memory
from memtape.engine.proof.audit import rebuild_store, verify_store
from memtape.sim.paper import Order, Position
from memtape.sim.run import run_simulation
from memtape.sim.strategies import OrderProposal
from memtape.surfaces.caller import Caller
from memtape.surfaces.registry import execute, find, perform
from tests.desk import given_agent

pytestmark = pytest.mark.any_store
START = datetime(2026, 1, 5, 8, tzinfo=UTC)


def hour(n: float) -> datetime:
    return START + timedelta(hours=n)


def closed(n: int) -> ClosedTrade:
    """The n-th trade of a file of closed trades."""
    return read(ClosedTrade, {"trade_id": f"x{n}", "symbol": "BTC", "side": "long", "entry_at": hour(n), "exit_at": hour(n + 0.5),
                              "entry_price": 100, "exit_price": 99, "qty": 1, "stop": 98})  # fmt: skip


def fills(n: int, **more: Any) -> Iterable[Fill]:
    """The two fills of the n-th round trip."""
    for part, side, px in (("a", "buy", 100), ("b", "sell", 102)):
        at = hour(n if part == "a" else n + 0.5)
        yield read(Fill, {"id": f"f{n}{part}", "t": at, "symbol": "BTC", "side": side, "qty": 1, "px": px, **more})


def trade_fills(agent: AgentMemory, n: int, **more: Any) -> None:
    for fill in fills(n, **more):
        agent.observe(fill)


def outcomes(memory: Memory) -> str:
    return str(execute(memory, "recall_memories", {"agent": "desk"})["outcomes"])


def test_an_imported_file_is_from_your_records_and_never_verified_by_a_broker(memory: Memory) -> None:
    agent = given_agent(memory, mode="live")
    agent.imports.commit([closed(1), *fills(3)], {"file": "trades.csv"})
    assert outcomes(memory) == "from your records"
    assert {(e.tier, e.source) for e in agent.memories.episodes()} == {(1, "records")}
    assert [row["source"] for row in execute(memory, "get_trades", {"agent": "desk"})["trades"]] == [None, None]


@pytest.mark.parametrize("name", ["observe_fill", "observe_tick"])
def test_what_the_owner_reports_is_from_your_records_even_if_it_says_that_it_is_the_venue(memory: Memory, name: str) -> None:
    given_agent(memory, mode="live")
    for n, (side, px) in enumerate((("buy", 100), ("sell", 101)), start=1):
        fill = {"id": f"f{n}", "t": f"2026-01-05T0{n}:00:00Z", "symbol": "BTC", "side": side, "qty": 1, "px": px}
        asked = fill if name == "observe_fill" else {"id": f"t{n}", "t": fill["t"], "fills": [{**fill, "venue": "hyperliquid"}]}
        execute(memory, name, {"agent": "desk", **asked})
    assert outcomes(memory) == "from your records"


def test_fills_that_a_live_reader_delivers_are_from_the_venue(memory: Memory) -> None:
    agent = given_agent(memory, mode="live")
    trade_fills(agent, 1, venue="hyperliquid")
    assert outcomes(memory) == "from the venue"
    assert [(e.tier, e.source) for e in agent.memories.episodes()] == [(0, "hyperliquid")]
    agent.imports.commit([closed(4)], {"file": "older.csv"})
    assert outcomes(memory) == "from the venue and your records"
    head = agent.head().seq
    assert execute(memory, "recall_memories", {"agent": "desk", "head": head})["outcomes"] == "from the venue and your records"
    assert execute(memory, "recall_memories", {"agent": "desk", "as_of": "2026-01-05T10:00:00Z"})["outcomes"] == "no trades yet"


def test_a_trade_that_the_owner_completes_is_from_your_records(memory: Memory) -> None:
    agent = given_agent(memory, mode="live")
    first, second = fills(1)
    agent.observe(read(Fill, {**{name: getattr(first, name) for name in Fill.__slots__}, "venue": "hyperliquid"}))
    agent.observe(second)
    assert agent.ledger.trades()[0].source is None
    assert outcomes(memory) == "from your records"


def test_a_fill_that_the_venue_delivers_after_the_owner_is_the_same_fill(memory: Memory) -> None:
    agent = given_agent(memory, mode="live")
    trade_fills(agent, 1)
    trade_fills(agent, 1, venue="hyperliquid")
    assert agent.ledger.discrepancies() == []


def rising() -> list[Bar]:
    """Hourly bars of a steady rise."""
    prices = [(hour(24 + n), Decimal(100 + n)) for n in range(6)]
    return [Bar(symbol="ETH", t0=t, t1=t + timedelta(hours=1), o=px, h=px + 2, l=px - 1, c=px + 1) for t, px in prices]


def buy_and_sell(history: Sequence[Bar], position: Position, equity: Decimal) -> list[OrderProposal]:
    """Buys after the first bar and sells after the third."""
    side: Any = {1: "buy", 3: "sell"}.get(len(history))
    decision = Decision(symbol="ETH", action=side, reason="a test of the market")
    return [OrderProposal(decision, (Order(symbol="ETH", side=side, qty=Decimal(1)),))] if side else []


def test_the_paper_broker_is_the_venue_of_a_simulation_and_its_owner_is_not(memory: Memory) -> None:
    agent = given_agent(memory, mode="sim")
    trade_fills(agent, 1)
    assert outcomes(memory) == "from your records"
    run_simulation(agent, rising(), buy_and_sell)
    assert {trade.source for trade in agent.ledger.trades(symbol="ETH")} == {"paper broker"}


def test_what_the_agent_reports_is_claimed_until_there_are_records(memory: Memory) -> None:
    agent = given_agent(memory, mode="live")
    agent.remember_trade({"symbol": "ETH", "side": "long", "entry_price": 100, "exit_price": 101, "pnl_r": 1, "trade_id": "c1",
                          "entry_at": hour(1), "exit_at": hour(2)})  # fmt: skip
    assert outcomes(memory) == "claimed by the agent"
    agent.imports.commit([closed(3)], {"file": "trades.csv"})
    assert outcomes(memory) == "from your records"


def test_sources_verify_and_rebuild_to_the_same_rows(memory: Memory) -> None:
    agent = given_agent(memory, mode="live")
    trade_fills(agent, 1, venue="hyperliquid")
    agent.observe(next(iter(fills(3, venue="hyperliquid"))))
    agent.imports.commit([closed(4)], {"file": "older.csv"})
    before = verify_store(memory)
    assert before.problems == []
    assert rebuild_store(memory).digests.items() <= before.digests.items()


# ---- whose limits ----------------------------------------------------------------------------------------------------------


def in_drawdown(memory: Memory, limits: dict[str, str], author: Any = None) -> AgentMemory:
    """An agent whose account has lost 16 % of its peak."""
    memory.create_skill("plain", limits=limits, avoid=["Never average down."], author=author)
    memory.create_agent("desk", skill="plain", mode="sim", settings={"starting_equity": 10_000})
    agent = memory.agent("desk")
    for n, equity in enumerate((10_000, 8_400)):
        agent.observe({"t": hour(n), "equity": equity}, kind="equity")
    return agent


@pytest.mark.parametrize(
    ("limits", "author", "expected"),
    [
        ({}, None, "caution: Drawdown of 16.0 % is past half of memtape's default limit of 20 %; risk appetite 0.36"),
        ({"max_drawdown": "15 %"}, None, "against: Drawdown of 16.0 % has reached your limit of 15 %"),
        (
            {"Max drawdown": "0.15"},
            "model",
            "caution: Drawdown of 16.0 % is past half of memtape's default limit of 20 %; risk appetite 0.36",
        ),
    ],
)
def test_a_drawdown_limit_is_yours_only_if_you_set_it(memory: Memory, limits: dict[str, str], author: Any, expected: str) -> None:
    found = in_drawdown(memory, limits, author).memories.check_order(symbol="BTC", side="long")
    assert [f"{reason.weighs}: {reason.text}" for reason in found.reasons if reason.source == "state"] == [expected]


def test_a_drawdown_of_an_equity_that_nobody_stated_is_in_money_first_and_says_what_is_assumed(memory: Memory) -> None:
    agent = given_agent(memory, mode="live")
    agent.imports.commit([replace(closed(n), qty=Decimal(400)) for n in (1, 3, 5, 7)], {"file": "trades.csv"})
    agent.observe({"id": "paid-in", "t": hour(11), "usd": 500}, kind="flow")
    # A deposit is no profit: it makes no drawdown smaller.
    assert "- Drawdown: $1,600 from the peak (16.0 %, assuming 10,000)" in agent.briefs.make().brief.text.splitlines()
    state = [reason.text for reason in agent.memories.check_order(symbol="BTC", side="long").reasons if reason.source == "state"]
    assert state[0].startswith("Drawdown of $1,600 (16.0 %, assuming 10,000) is past half of memtape's default limit of 20 %")
    shown = [each.why for each in agent.memories.recall(symbol="BTC")[0].ranked if "drawdown" in each.why]
    assert shown and all(" % now, assuming 10,000" in why for why in shown)


def test_money_that_was_earned_back_after_a_deposit_is_no_loss_and_the_account_still_below_its_peak(memory: Memory) -> None:
    agent = given_agent(memory, mode="live")
    agent.imports.commit([replace(closed(n), qty=Decimal(400)) for n in (1, 3, 5, 7)], {"file": "trades.csv"})
    agent.observe({"id": "paid-in", "t": hour(11), "usd": 100_000}, kind="flow")
    won = {"trade_id": "won", "symbol": "BTC", "side": "long", "entry_price": 100, "exit_price": 101, "qty": 1600, "pnl": 1600}
    agent.observe({**won, "entry_at": hour(12), "exit_at": hour(13)}, kind="trade")
    # 16 % were lost. Then 1,600 was earned, of 108,400.
    assert "- Drawdown: 14.8 % from the peak, assuming 10,000" in agent.briefs.make().brief.text.splitlines()
    state = [reason.text for reason in agent.memories.check_order(symbol="BTC", side="long").reasons if reason.source == "state"]
    assert state[0].startswith("Drawdown of 14.8 % (assuming 10,000) is past half of memtape's default limit of 20 %")


def test_more_lost_than_anybody_stated_is_no_share_and_no_reason_against_an_order(memory: Memory) -> None:
    agent = given_agent(memory, mode="live")
    agent.imports.commit([replace(closed(n), qty=Decimal(4000)) for n in (1, 3, 5, 7)], {"file": "trades.csv"})
    assert "- Drawdown: $16,000 from the peak" in agent.briefs.make().brief.text.splitlines()
    found = [reason for reason in agent.memories.check_order(symbol="ETH", side="long").reasons if reason.source == "state"]
    # The account may be ten times as large: neither its size nor the limit was stated by anybody.
    assert (found[0].weighs, found[0].text) == (
        "caution", "Drawdown of $16,000 (more than all of it, assuming 10,000) has reached memtape's default limit of 20 %",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("author", "limits", "rule"),
    [
        (None, "Limits set by the owner (nothing you read changes them):", "Your own rule: Never average down."),
        ("model", "Limits written by a model, not by the owner:",
         "A rule of this skill, written by a model: Never average down."),
    ],
)  # fmt: skip
def test_the_limits_of_a_skill_are_the_owner_s_only_if_the_owner_wrote_it(
    memory: Memory, author: Any, limits: str, rule: str
) -> None:
    agent = in_drawdown(memory, {"risk": "1 %"}, author)
    assert limits in agent.briefs.make().brief.text.splitlines()
    assert rule in [reason.text for reason in agent.memories.check_order(symbol="BTC", side="long").reasons]


def test_a_skill_that_a_model_makes_says_so_until_the_owner_makes_it(memory: Memory) -> None:
    asked = {"id": "scalp", "limits": {"risk": "1 %"}}
    made = perform(memory, find("create_skill"), asked, Caller("model"))
    assert (made["author"], made["version"]) == ("model", 1)
    confirmed = execute(memory, "create_skill", asked)
    assert (confirmed["author"], confirmed["version"]) == ("owner", 2)
