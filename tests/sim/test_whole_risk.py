"""Risk per trade is that of the whole position: what is held, what waits to be filled, and the new order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from memtape.core.observed import Bar, Decision
from memtape.sim.account import AccountView
from memtape.sim.guard import Guard
from memtape.sim.orders import Order, Position
from memtape.sim.run import run_simulation
from memtape.sim.strategies import OrderProposal

D = Decimal
NOON = datetime(2024, 1, 8, 12, tzinfo=UTC)
ENTRY = Order(symbol="BTC", side="buy", qty=D(20), stop=D(95))  # risks 100: 1 % of the equity
GUARD = Guard({"risk per trade": "1 % of equity"})
HELD = AccountView(
    t=NOON, equity=D(10_000), day_equity=D(10_000), marks={"BTC": D(100)},
    positions={"BTC": Position(qty=D(10), entry_px=D(100))}, stops={"BTC": ((D(10), D(96)),)},
)  # fmt: skip


def judged(order: Order, account: AccountView) -> tuple[str | None, str | None]:
    verdict = GUARD.judge(order, account)
    return verdict.code, verdict.note


def test_an_order_that_adds_counts_with_what_is_held() -> None:
    assert judged(replace(ENTRY, qty=D(12)), HELD) == (None, None), "40 held and 60 more"
    code, note = judged(replace(ENTRY, qty=D(13)), HELD)
    assert (code, note) == ("R2_RISK_PER_TRADE", "With what is held or waits to be filled, the stops would cost 105, the limit is 100.")


def test_the_held_part_counts_from_its_entry_price_not_from_the_last_one() -> None:
    risen = replace(HELD, marks={"BTC": D(120)})
    assert judged(replace(ENTRY, stop=D(114), qty=D(10)), risen) == (None, None), "40 held, whatever it has gained, and 60 more"
    assert judged(replace(ENTRY, stop=D(114), qty=D(11)), risen)[0] == "R2_RISK_PER_TRADE"


def test_entries_that_wait_count_too() -> None:
    flat = replace(HELD, positions={}, stops={})
    waiting = flat.after(replace(ENTRY, kind="limit", px=D(98), qty=D(20)))  # risks 60
    assert judged(replace(ENTRY, qty=D(8)), waiting) == (None, None)
    assert judged(replace(ENTRY, qty=D(9)), waiting)[0] == "R2_RISK_PER_TRADE"
    other_way = flat.after(Order(symbol="BTC", side="sell", qty=D(20), kind="limit", px=D(105), stop=D(108)))
    assert judged(ENTRY, other_way) == (None, None), "an entry of the other side adds no risk to this one"


def test_a_part_without_a_stop_cannot_be_told() -> None:
    code, note = judged(replace(ENTRY, qty=D(1)), replace(HELD, stops={"BTC": ((D(9), D(96)),)}))
    assert (code, note) == ("R1_NO_STOP", "A part of the position in BTC has no stop, so its risk is unknown.")


def test_turning_a_position_counts_only_what_is_opened() -> None:
    turn = Order(symbol="BTC", side="sell", qty=D(30), stop=D(105))
    assert judged(turn, HELD) == (None, None), "10 close the long, 20 are the short"
    assert judged(replace(turn, qty=D(31)), HELD)[0] == "R2_RISK_PER_TRADE"


def test_of_a_reduced_position_the_furthest_stops_count() -> None:
    reduced = replace(HELD, stops={"BTC": ((D(10), D(99)), (D(10), D(92)))})
    assert judged(replace(ENTRY, qty=D(4)), reduced) == (None, None), "80 at the stop of 92, 20 more"
    assert judged(replace(ENTRY, qty=D(5)), reduced)[0] == "R2_RISK_PER_TRADE"


class Adds:
    """Wants to buy one percent of risk at every bar."""

    name = "adds"

    def propose(self, symbol: str, history: Any, account: AccountView, /) -> Sequence[OrderProposal]:
        bar: Bar = history[symbol][-1]
        stop = bar.c - 5
        decision = Decision(symbol=symbol, action="buy", side="long", stop=stop, reason="more")
        return [OrderProposal(decision, (Order(symbol=symbol, side="buy", qty=account.equity / 500, stop=stop),))]


def test_two_adds_of_one_percent_on_a_limit_of_one_percent_are_refused_until_the_first_is_gone(words: Any) -> None:
    bars = [words.day(n, prices) for n, prices in enumerate(
        ["100 101 99 100", "100 102 99 101", "101 103 100 102", "102 102 90 91", "91 92 90 91", "91 92 90 91"])]  # fmt: skip
    notebook = words.Notebook()
    run_simulation(notebook, bars, Adds(), fee_bps=0, slippage_bps=0, guard=GUARD)
    codes = [decision.verdict.code for decision in notebook.decisions]
    assert codes == [None, "R2_RISK_PER_TRADE", "R2_RISK_PER_TRADE", None, "R2_RISK_PER_TRADE", "R2_RISK_PER_TRADE"]
    assert [words.said(fill) for fill in notebook.fills] == ["buy 20 @ 100 (market)", "sell 20 @ 95 (stop)", "buy 19.8 @ 91 (market)"]
