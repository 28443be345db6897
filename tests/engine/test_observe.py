"""Observing: what comes in, what is concluded, and what a second delivery does."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from memtape.core.codec import time_text
from memtape.core.fills import Fill, Funding
from memtape.core.observed import Bar, Bars, CashFlow, ClosedTrade, Decision, EquityMark, HeldPosition, Tick
from memtape.core.values import read
from memtape.engine import Memory
from memtape.engine.proof.audit import verify_store
from memtape.errors import Conflict, Invalid, Unknown
from memtape.surfaces.registry import execute
from tests import desk
from tests.desk_language import replay

T = "2026-06-04T{:02d}:{:02d}:00Z"


def fill(id: str, at: str, side: str, qty: str, px: str, **more: object) -> dict[str, object]:
    return {"id": id, "t": at, "symbol": "BTC", "side": side, "qty": qty, "px": px, **more}


@pytest.fixture
def agent():
    return desk.given_agent(desk.given_memory())


def test_a_round_trip_gives_its_risk_its_r_and_its_reasons():
    desk = replay("""
        08:00 tick BTC 0.5 @ 65000; buy 0.5 BTC @ 65000 fee 1 stop 64000 target 67000 tags swing regime trending_up "breakout"
        09:00 tick flat; sell 0.5 BTC @ 66000 fee 1 trigger target "target hit"
    """)
    trade = desk.trade
    assert desk.trades == ["BTC long +498.00 +1.0R closed 09:00"]
    assert desk.receipts[-1].concluded[0].name == "closed"
    assert (trade.initial_risk_usd, trade.pnl_r) == (Decimal(500), Decimal("0.996"))
    assert (trade.entry_reason, trade.exit_reason, trade.exit_trigger) == ("breakout", "target", "target")
    assert (trade.stop_price, trade.target_price, trade.tags, trade.entry_regime) == (64000, 67000, ("swing",), "trending_up")


def test_the_stop_in_force_at_each_entry_makes_the_risk_and_later_moves_do_not():
    desk = replay("""
        08:00 buy  1 BTC @ 100 stop 90
        09:00 buy  1 BTC @ 110 stop 105
        10:00 tick decide BTC stop 109
        11:00 sell 2 BTC @ 120
    """)
    assert desk.trade.initial_risk_usd == Decimal(15)  # 10 on the first, 5 on the second
    assert desk.trades == ["BTC long +30.00 +2.0R closed 11:00"]


def test_a_fill_takes_reason_and_stop_from_the_decision_whose_order_it_names_whichever_comes_first():
    desk = replay("08:05 buy 1 BTC @ 100 order o-1")
    assert desk.trade.entry_reason is None
    (receipt,) = desk.observe('08:00 decide BTC id d1 orders o-1 stop 95 "funding flip" known 09:00')
    assert (desk.trade.entry_reason, desk.trade.entry_decision, desk.trade.stop_price) == ("funding flip", "d1", Decimal(95))
    assert receipt.concluded == ()  # nothing opened or closed; the open trade merely learned its reason


def read_time(hour: int, minute: int):
    from memtape.core.codec import read_time as read_

    return read_(T.format(hour, minute))


def test_the_second_delivery_of_a_tick_returns_the_first_receipt_and_writes_nothing():
    desk = replay("""
        08:00 tick id s1; buy 1 BTC @ 100 id f1
        08:00 tick id s1; buy 1 BTC @ 100 id f1
    """)
    first, second = desk.receipts
    assert second.duplicate and (second.seq, second.hash, second.concluded) == (first.seq, first.hash, first.concluded)
    assert desk.agent.head().seq == 1


def test_a_fill_that_stands_twice_in_one_tick_counts_once():
    assert replay("08:00 tick buy 1 BTC @ 100 id f1; buy 1 BTC @ 100 id f1").trades == ["BTC long 1 @ 100 open"]


def test_bars_that_are_all_known_write_nothing():
    desk = replay("""
        10:00 tick bar 08:00-09:00 BTC 1 2 1 2; bar 09:00-10:00 BTC 1 2 1 2
        09:00-10:00 bar BTC 1 2 1 2
    """)
    first, part = desk.receipts
    assert part.duplicate and part.seq == first.seq and desk.agent.head().seq == 1


def test_a_fill_that_came_in_a_tick_is_known_when_it_comes_alone():
    desk = replay("""
        08:00 tick buy 1 BTC @ 100 id f1
        08:00 buy 1 BTC @ 100 id f1
    """)
    first, second = desk.receipts
    assert second.duplicate and second.seq == first.seq and desk.agent.head().seq == 1


def test_a_replayed_tick_adds_the_fills_it_did_not_have_and_nothing_else():
    desk = replay("""
        08:00 tick id s1; flat; decide BTC "first word"
        08:00 tick id s1; BTC 9; buy 1 BTC @ 100 at 07:59; sell 1 BTC @ 101; decide BTC "second word"
    """)
    assert not desk.receipts[-1].duplicate
    assert desk.trades == ["BTC long +1.00 closed 08:00"] and desk.discrepancies == []
    assert desk.trade.entry_reason == "first word"
    assert [row.decision.reason for row in desk.agent.ledger.decisions()] == ["first word"]


def test_a_tick_that_is_not_later_than_the_last_says_so_and_takes_no_snapshot_and_no_decision():
    desk = replay("""
        09:00 tick id s2; flat
        08:00 tick id s1; BTC 1 @ 5; decide BTC "too late"
        08:00 tick id s1; flat
    """)
    _, stale, second = desk.receipts
    assert [event.name for event in stale.concluded] == ["stale"] and second.duplicate
    assert desk.trades == [] and desk.agent.ledger.decisions() == []


def test_a_bar_that_differs_from_the_one_we_have_is_reported_and_not_recorded():
    desk = replay("""
        08:00-09:00 bar BTC 1 2 1 2
        08:00-09:00 bar BTC 1 3 1 2
    """)
    assert [event.name for event in desk.receipts[-1].concluded] == ["bar_differs"]
    assert verify_store(desk.memory).ok


LATE = """
    08:00 buy  1 BTC @ 100 known 08:00
    09:00 sell 1 BTC @ 101 known 12:00
"""


def test_what_a_live_agent_learns_late_counts_from_when_it_learned_it():
    desk = replay(LATE, mode="live")
    assert desk.trades_known_at("11:59") == ["BTC long 1 @ 100 open"]
    assert desk.trades_known_at("12:00") == ["BTC long +1.00 closed 09:00"]


def test_what_is_backfilled_counts_from_its_own_time():
    desk = replay(LATE, mode="live", backfill=True)
    assert desk.trades_known_at("08:59") == ["BTC long 1 @ 100 open"]
    assert desk.trades_known_at("09:00") == ["BTC long +1.00 closed 09:00"]


def test_deposits_are_not_profit():
    desk = replay("""
        08:00 equity 1000
        09:00 deposit 500
        10:00 equity 1490
    """)
    assert [nav for _, nav in desk.agent.ledger.equity().points] == [Decimal(1000), Decimal(990)]


def test_every_kind_of_value_can_be_observed_and_the_log_follows(agent):
    t = read_time(8, 0)
    values = [
        Tick(id="s", t=t, positions={"BTC": (HeldPosition(qty=Decimal(1), entry_px=Decimal(5)),)}),
        Fill(id="f", t=t, symbol="ETH", side="buy", qty=Decimal(1), px=Decimal(2)),
        Funding(id="u", t=t, symbol="ETH", usd=Decimal("-0.1")),
        ClosedTrade(trade_id="x", symbol="SOL", side="short", entry_at=t, exit_at=t, entry_price=Decimal(3),
                    exit_price=Decimal(0), qty=Decimal(2), stop=Decimal(4)),
        EquityMark(t=t, equity=Decimal(9)), CashFlow(id="c", t=t, usd=Decimal(1)),
        Decision(action="no_trade", t=t, symbol="BTC", side="long", stop=Decimal(4), target=Decimal(9)),
        Bars(bars=(Bar(symbol="BTC", t0=t, t1=t + timedelta(hours=1), o=Decimal(5), h=Decimal(6), l=Decimal(4), c=Decimal(5)),)),
    ]  # fmt: skip
    for value in values:
        agent.observe(value)
    reported = next(trade for trade in agent.ledger.trades() if trade.symbol == "SOL")
    assert (reported.net_pnl_usd, reported.pnl_r, reported.quality) == (Decimal(6), Decimal(3), "reported")
    assert verify_store(Memory.of(agent.resources)).ok and agent.head().seq == len(values)


@pytest.mark.parametrize(
    ("kind", "value", "field"),
    [
        ("fill", fill("f", "2026-06-04T08:00:00", "buy", "1", "1"), "t"),
        ("fill", fill("f", "yesterday", "buy", "1", "1"), "t"),
        ("fill", fill("f", T.format(8, 0), "buy", "-1", "1"), "qty"),
        ("fill", fill("f", T.format(8, 0), "buy", "0", "1"), "qty"),
        ("fill", fill("f", T.format(8, 0), "buy", "1", "cheap"), "px"),
        ("fill", fill("f", T.format(8, 0), "buy", "NaN", "1"), "qty"),
        ("fill", fill("f", T.format(8, 0), "buy", "1", "Infinity"), "px"),
        ("fill", fill("f", T.format(8, 0), "hold", "1", "1"), "side"),
        ("fill", fill("", T.format(8, 0), "buy", "1", "1"), "id"),
        ("fill", fill("f", "2026-11-15T12:05:01Z", "buy", "1", "1"), "t"),
        ("fill", {**fill("f", T.format(8, 0), "buy", "1", "1"), "colour": "red"}, "colour"),
        ("tick", {"id": "s", "t": T.format(8, 0), "fills": [fill("f", "2027-01-01T00:00:00Z", "buy", "1", "1")]}, "fills.0.t"),
        ("tick", {"id": "s", "t": T.format(8, 0), "decision": {"reason": "x" * 281}}, "decision.0.reason"),
        ("tick", {"id": "s", "t": T.format(8, 0), "decision": {"reason": "a\x00b"}}, "decision.0.reason"),
        ("tick", {"id": "s", "t": T.format(8, 0), "decision": {"confidence": 1.2}}, "decision.0.confidence"),
        ("tick", {"id": "s", "t": T.format(8, 0), "marks": {"BTC\n": 1}}, "marks.BTC\n.[key]"),
        ("tick", {"id": "s", "t": T.format(8, 0), "equity": "NaN"}, "equity"),
        ("trade", {"trade_id": "x", "symbol": "A", "side": "long", "entry_at": T.format(9, 0), "exit_at": T.format(8, 0),
                   "entry_price": 1, "exit_price": 1, "qty": 1}, "input"),
        ("bars", {"bars": [{"symbol": "A", "t0": T.format(8, 0), "t1": T.format(9, 0), "o": 1, "h": 1, "l": 2, "c": 1}]}, "bars.0"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_with_the_field_and_nothing_is_written(agent, kind, value, field):
    with pytest.raises(Invalid) as refused:
        agent.observe(value, kind=kind)
    assert refused.value.field == field
    assert refused.value.problem and refused.value.fix
    assert agent.head().seq == 0


def test_an_option_may_expire_at_zero():
    desk = replay("""
        08:00 buy  1 BTC-70000-C @ 2.5
        09:00 sell 1 BTC-70000-C @ 0
    """)
    assert desk.trades == ["BTC-70000-C long -2.50 closed 09:00"]


def test_a_skill_with_new_content_is_a_new_version_and_a_trade_keeps_the_one_of_its_entry():
    memory = desk.given_memory()
    assert memory.create_skill("s", strategy="one")[1] == 1
    assert memory.create_skill("s", strategy="one")[1] == 1
    memory.create_agent("a", skill="s", mode="sim")
    memory.agent("a").observe(fill("f1", T.format(8, 0), "buy", "1", "1"), kind="fill")
    assert memory.create_skill("s", strategy="two")[1] == 2
    memory.use_skill_version("a", 2)
    agent = memory.agent("a")
    agent.observe(fill("f2", T.format(9, 0), "sell", "1", "1"), kind="fill")
    agent.observe(fill("f3", T.format(10, 0), "sell", "1", "1"), kind="fill")
    assert [trade.skill_version for trade in agent.ledger.trades(newest=False)] == [1, 2]
    assert verify_store(memory).ok


def test_the_memory_config_of_a_skill_is_checked_and_old_payloads_get_the_defaults():
    memory = desk.given_memory()
    skill, _ = memory.create_skill("s")
    assert (skill.context.memory.recentTradesK, skill.context.memory.reflection.everyNTrades) == (10, 10)
    with pytest.raises(Invalid, match="colour"):
        memory.create_skill("s", memory={"colour": "red"})
    with pytest.raises(Invalid, match="recentTradesK"):
        memory.create_skill("s", memory={"recentTradesK": 31})


def test_an_agent_never_changes_its_mode():
    memory = desk.given_memory()
    desk.given_agent(memory, id="a")
    with pytest.raises(Conflict):
        memory.create_agent("a", skill="plain", mode="live")
    with pytest.raises(Unknown):
        memory.create_agent("b", skill="nowhere")
    with pytest.raises(Unknown):
        memory.agent("nobody")


def test_what_came_from_a_file_takes_no_reason_from_the_next_tick(agent):
    """A history imported today is not explained by the decision of tomorrow's first tick."""
    bought = read(Fill, fill("f1", T.format(7, 0), "buy", "1", "100"))
    agent.imports.commit([bought, read(Fill, fill("f2", T.format(7, 30), "sell", "1", "101"))], {"file": "a.csv"})
    agent.observe({"id": "s1", "t": T.format(8, 0), "positions": {}, "decision": {"symbol": "BTC", "reason": "of today"}})
    (trade,) = agent.ledger.trades()
    assert (trade.entry_reason, trade.exit_reason, trade.entry_tick_at, trade.close_cause) == (None, None, None, "external")
    assert verify_store(Memory.of(agent.resources)).ok


def test_an_import_taken_back_leaves_the_ledger_as_it_was_and_can_come_again():
    memory = desk.given_memory()
    agent = desk.given_agent(memory, mode="paper")
    agent.observe(fill("f1", T.format(8, 0), "buy", "1", "100"), kind="fill")
    before = desk.rows_of(agent)
    sell = read(Fill, fill("f2", T.format(9, 0), "sell", "1", "101"))
    trade = read(ClosedTrade, {"trade_id": "x", "symbol": "A", "side": "long", "entry_at": T.format(7, 0),
                               "exit_at": T.format(8, 0), "entry_price": 1, "exit_price": 2, "qty": 1})  # fmt: skip
    first = agent.imports.commit([sell, trade], {"file": "a.csv"})
    after = desk.rows_of(agent)
    memory.clock.at += timedelta(minutes=1)
    agent.imports.undo(first.batch)
    assert desk.rows_of(agent) == before and verify_store(memory).ok
    assert desk.rows_of(agent, as_of=desk.NOON) == after  # then it was still there
    memory.clock.at += timedelta(minutes=1)
    second = agent.imports.commit([sell, trade], {"file": "a.csv"})
    assert second.batch != first.batch and second.new == 2
    assert desk.rows_of(agent) == after and verify_store(memory).ok
    assert agent.imports.commit([sell, trade], {"file": "a.csv"}).new == 0


def test_skills_agents_imports_and_discrepancies_are_told_as_they_stood():
    memory = desk.given_memory()
    memory.create_skill("s", strategy="one")
    memory.create_agent("a", skill="s", mode="sim")
    agent = memory.agent("a")
    # A fill: for an agent that only ever sends snapshots, a change of position is no discrepancy.
    agent.observe(fill("f", T.format(7, 0), "buy", "1", "10", symbol="ETH"), kind="fill")
    agent.observe({"id": "s1", "t": T.format(8, 0), "positions": {"ETH": {"qty": "1"}}})
    agent.observe({"id": "s2", "t": T.format(9, 0), "positions": {"ETH": {"qty": "1"}, "BTC": {"qty": "1", "entry_px": "100"}}})
    memory.clock.at += timedelta(hours=1)
    memory.create_skill("s", strategy="two")
    memory.create_skill("t")

    then = execute(memory, "list_skills", {"as_of": time_text(desk.NOON)})
    assert [(skill["id"], skill["strategy"]) for skill in then["skills"]] == [("s", "one")]
    assert execute(memory, "list_skills", {"head": 1})["n"] == 1
    assert execute(memory, "list_agents", {"head": 1})["n"] == 0
    assert execute(memory, "list_imports", {"agent": "a", "head": 1})["n"] == 0
    (found,) = execute(memory, "get_ledger", {"agent": "a"})["discrepancies"]
    assert (found["symbol"], found["ledger_qty"], found["broker_qty"]) == ("BTC", "0", "1")
    assert execute(memory, "get_ledger", {"agent": "a", "head": 3})["discrepancies"] == [found]
    assert execute(memory, "get_ledger", {"agent": "a", "as_of": T.format(8, 30)})["discrepancies"] == []


def test_a_bar_that_comes_late_and_tells_nothing_leaves_the_books_in_order():
    """The tick that explains an exit comes after it: what was believed before the bar must not lose that reason."""
    desk = replay("""
        09:00 tick BTC 1; buy  1 BTC @ 100; decide BTC "r0"
        09:01 tick flat;  sell 1 BTC @ 100 at 09:00:55; decide BTC "r1"
        09:02 tick BTC 1; buy  1 BTC @ 100 at 09:01:55; decide BTC "r2"
        09:03 tick flat;  sell 1 BTC @ 100 at 09:02:55; decide BTC "r3"
        07:00-08:00 bar BTC 1 1 1 1 known 09:03
    """)
    assert [(trade.entry_reason, trade.exit_reason) for trade in desk.rows] == [("r0", "r1"), ("r2", "r3")]
    assert verify_store(desk.memory).problems == []
    with desk.memory.resources.reading("desk") as tables:
        assert [row["known_to"] for row in tables.rows("trades")] == [None, None]
