"""Observing: what comes in, what is concluded, and what a second delivery does."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from memtape.core.codec import time_text
from memtape.core.observed import Bar, Bars, CashFlow, ClosedTrade, Decision, EquityMark, Fill, Funding, HeldPosition, Tick
from memtape.core.values import read
from memtape.engine import Memory
from memtape.engine.proof.audit import verify_store
from memtape.errors import Conflict, Invalid, Unknown
from memtape.surfaces.registry import execute
from tests import desk

T = "2026-06-04T{:02d}:{:02d}:00Z"


def fill(id: str, at: str, side: str, qty: str, px: str, **more: object) -> dict[str, object]:
    return {"id": id, "t": at, "symbol": "BTC", "side": side, "qty": qty, "px": px, **more}


@pytest.fixture
def agent():
    return desk.given_agent(desk.given_memory())


def test_a_round_trip_gives_its_risk_its_r_and_its_reasons(agent):
    agent.observe({"id": "s1", "t": T.format(8, 0), "positions": {"BTC": {"qty": "0.5", "entry_px": "65000"}},
                   "fills": [fill("f1", T.format(8, 0), "buy", "0.5", "65000", fee="1")],
                   "decision": {"symbol": "BTC", "reason": "breakout", "stop": "64000", "target": "67000", "tags": ["swing"],
                                "situation": {"regime": "trending_up"}}})  # fmt: skip
    receipt = agent.observe({"id": "s2", "t": T.format(9, 0), "positions": {},
                             "fills": [fill("f2", T.format(9, 0), "sell", "0.5", "66000", fee="1", trigger="target")],
                             "decision": {"symbol": "BTC", "reason": "target hit"}})  # fmt: skip
    (trade,) = agent.ledger.trades()
    assert receipt.concluded[0].name == "closed"
    assert (trade.net_pnl_usd, trade.initial_risk_usd) == (Decimal(498), Decimal(500))
    assert trade.pnl_r == Decimal("0.996")
    assert (trade.entry_reason, trade.exit_reason, trade.exit_trigger) == ("breakout", "target hit", "target")
    assert (trade.stop_price, trade.target_price, trade.tags, trade.entry_regime) == (64000, 67000, ("swing",), "trending_up")


def test_the_stop_in_force_at_each_entry_makes_the_risk_and_later_moves_do_not(agent):
    agent.observe({"id": "s1", "t": T.format(8, 0), "fills": [fill("f1", T.format(8, 0), "buy", "1", "100")],
                   "decision": {"symbol": "BTC", "stop": "90"}})  # fmt: skip
    agent.observe({"id": "s2", "t": T.format(9, 0), "fills": [fill("f2", T.format(9, 0), "buy", "1", "110")],
                   "decision": {"symbol": "BTC", "stop": "105"}})  # fmt: skip
    agent.observe({"id": "s3", "t": T.format(10, 0), "decision": {"symbol": "BTC", "stop": "109"}})
    agent.observe({"id": "s4", "t": T.format(11, 0), "fills": [fill("f3", T.format(11, 0), "sell", "2", "120")]})
    (trade,) = agent.ledger.trades()
    assert trade.initial_risk_usd == Decimal(15)  # 10 on the first, 5 on the second


def test_a_fill_takes_reason_and_stop_from_the_decision_whose_order_it_names_whichever_comes_first(agent):
    agent.observe(fill("f1", T.format(8, 5), "buy", "1", "100", order_id="o-1"), kind="fill")
    assert agent.ledger.trades()[0].entry_reason is None
    receipt = agent.observe(Decision(id="d1", t=read_time(8, 0), symbol="BTC", reason="funding flip", order_ids=("o-1",),
                                     stop=Decimal(95)))  # fmt: skip
    (trade,) = agent.ledger.trades()
    assert (trade.entry_reason, trade.entry_decision, trade.stop_price) == ("funding flip", "d1", Decimal(95))
    assert receipt.concluded == ()  # nothing opened or closed; the open trade merely learned its reason


def read_time(hour: int, minute: int):
    from memtape.core.codec import read_time as read_

    return read_(T.format(hour, minute))


def test_the_second_delivery_of_a_tick_returns_the_first_receipt_and_writes_nothing(agent):
    tick = {"id": "s1", "t": T.format(8, 0), "fills": [fill("f1", T.format(8, 0), "buy", "1", "100")]}
    first = agent.observe(tick)
    again = agent.observe(tick)
    assert again.duplicate and (again.seq, again.hash, again.concluded) == (first.seq, first.hash, first.concluded)
    assert agent.head().seq == 1


def test_a_fill_that_stands_twice_in_one_tick_counts_once(agent):
    twice = [fill("f1", T.format(8, 0), "buy", "1", "100"), fill("f1", T.format(8, 0), "buy", "1", "100")]
    agent.observe({"id": "s1", "t": T.format(8, 0), "fills": twice})
    assert agent.ledger.trades()[0].qty_open == 1


def test_bars_that_are_all_known_write_nothing(agent):
    bars = [{"symbol": "BTC", "t0": T.format(h, 0), "t1": T.format(h + 1, 0), "o": 1, "h": 2, "l": 1, "c": 2} for h in (8, 9)]
    first = agent.observe({"bars": bars}, kind="bars")
    part = agent.observe({"bars": bars[1:]}, kind="bars")
    assert part.duplicate and part.seq == first.seq and agent.head().seq == 1


def test_a_fill_that_came_in_a_tick_is_known_when_it_comes_alone(agent):
    first = agent.observe({"id": "s1", "t": T.format(8, 0), "fills": [fill("f1", T.format(8, 0), "buy", "1", "100")]})
    again = agent.observe(fill("f1", T.format(8, 0), "buy", "1", "100"), kind="fill")
    assert again.duplicate and again.seq == first.seq
    assert agent.head().seq == 1


def test_a_replayed_tick_adds_the_fills_it_did_not_have_and_nothing_else(agent):
    agent.observe({"id": "s1", "t": T.format(8, 0), "positions": {}, "decision": {"symbol": "BTC", "reason": "first word"}})
    receipt = agent.observe({"id": "s1", "t": T.format(8, 0), "positions": {"BTC": {"qty": "9"}},
                             "fills": [fill("f1", T.format(7, 59), "buy", "1", "100"), fill("f2", T.format(8, 0), "sell", "1", "101")],
                             "decision": {"symbol": "BTC", "reason": "second word"}})  # fmt: skip
    (trade,) = agent.ledger.trades()
    assert not receipt.duplicate
    assert (trade.entry_reason, trade.net_pnl_usd, trade.quality) == ("first word", Decimal(1), "fills")
    assert [row.decision.reason for row in agent.ledger.decisions()] == ["first word"]


def test_a_tick_that_is_not_later_than_the_last_says_so_and_takes_no_snapshot_and_no_decision(agent):
    agent.observe({"id": "s2", "t": T.format(9, 0), "positions": {}})
    receipt = agent.observe({"id": "s1", "t": T.format(8, 0), "positions": {"BTC": {"qty": "1", "entry_px": "5"}},
                             "decision": {"symbol": "BTC", "reason": "too late"}})  # fmt: skip
    assert [event.name for event in receipt.concluded] == ["stale"]
    assert agent.ledger.trades() == [] and agent.ledger.decisions() == []
    assert agent.observe({"id": "s1", "t": T.format(8, 0), "positions": {}}).duplicate


def test_a_bar_that_differs_from_the_one_we_have_is_told_and_not_taken(agent):
    bar = {"symbol": "BTC", "t0": T.format(8, 0), "t1": T.format(9, 0), "o": 1, "h": 2, "l": 1, "c": 2}
    agent.observe({"bars": [bar]}, kind="bars")
    receipt = agent.observe({"bars": [{**bar, "h": 3}]}, kind="bars")
    assert [event.name for event in receipt.concluded] == ["bar_differs"]
    assert verify_store(Memory.of(agent.resources)).ok


def test_what_a_live_agent_is_told_late_counts_from_when_it_was_told(agent):
    memory = desk.given_memory()
    live = desk.given_agent(memory, mode="live")
    live.observe(fill("f1", T.format(8, 0), "buy", "1", "100"), kind="fill")
    memory.clock.at += timedelta(hours=1)
    live.observe(fill("f2", T.format(9, 0), "sell", "1", "101"), kind="fill", backfill=True)
    assert live.ledger.trades(as_of=desk.NOON)[0].status == "closed"  # backfilled: known from its own time
    assert live.ledger.trades(as_of=desk.NOON - timedelta(seconds=1)) != live.ledger.trades()


def test_deposits_are_not_profit(agent):
    for value in (EquityMark(t=read_time(8, 0), equity=Decimal(1000)), CashFlow(id="c", t=read_time(9, 0), usd=Decimal(500)),
                  EquityMark(t=read_time(10, 0), equity=Decimal(1490))):  # fmt: skip
        agent.observe(value)
    assert [nav for _, nav in agent.ledger.equity().points] == [Decimal(1000), Decimal(990)]


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
        ("fill", fill("f", T.format(8, 0), "buy", "1", "-1"), "px"),
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


def test_an_option_may_expire_at_zero(agent):
    agent.observe(fill("f1", T.format(8, 0), "buy", "1", "2.5"), kind="fill")
    agent.observe(fill("f2", T.format(9, 0), "sell", "1", "0"), kind="fill")
    assert agent.ledger.trades()[0].net_pnl_usd == Decimal("-2.5")


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
    agent.observe({"id": "s1", "t": T.format(8, 0), "positions": {}})
    agent.observe({"id": "s2", "t": T.format(9, 0), "positions": {"BTC": {"qty": "1", "entry_px": "100"}}})
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
    assert execute(memory, "get_ledger", {"agent": "a", "head": 2})["discrepancies"] == [found]
    assert execute(memory, "get_ledger", {"agent": "a", "as_of": T.format(8, 30)})["discrepancies"] == []


def test_a_bar_that_comes_late_and_tells_nothing_leaves_the_books_in_order():
    """The tick that explains an exit comes after it: what was believed before the bar must not lose that reason."""
    memory = desk.given_memory()
    agent = desk.given_agent(memory, mode="paper")
    for n, side in enumerate(("buy", "sell", "buy", "sell")):
        memory.clock.at = read_time(9, n)
        agent.observe({"id": f"s{n}", "t": T.format(9, n), "positions": {"BTC": {"qty": 1}} if side == "buy" else {},
                       "fills": [fill(f"f{n}", f"2026-06-04T09:{n - 1 if n else 0:02d}:{55 if n else 0:02d}Z", side, "1", "100")],
                       "decision": {"symbol": "BTC", "reason": f"r{n}"}})  # fmt: skip
    agent.observe(
        {"bars": [{"symbol": "BTC", "t0": T.format(7, 0), "t1": T.format(8, 0), "o": 1, "h": 1, "l": 1, "c": 1}]}, kind="bars"
    )
    assert verify_store(memory).problems == []
    with memory.resources.reading("desk") as tables:
        assert [row["known_to"] for row in tables.rows("trades")] == [None, None]
