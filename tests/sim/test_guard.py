"""The guard: a skill's limits as an owner writes them, held against each order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtape.core.observed import Bar, Decision, GuardVerdict
from memtape.core.values import REASON_LENGTH, read
from memtape.sim.account import AccountView
from memtape.sim.guard import Guard, judge_order
from memtape.sim.margin import Margin
from memtape.sim.orders import Order, Position
from memtape.sim.report_markdown import render_report
from memtape.sim.run import run_simulation
from memtape.sim.strategies import OrderProposal
from memtape.sim.venue import Venue

D = Decimal
NOON = datetime(2024, 1, 8, 12, tzinfo=UTC)
FLAT = AccountView(t=NOON, equity=D(10_000), day_equity=D(10_000), marks={"BTC": D(100), "ETH": D(10)})
ENTRY = Order(symbol="BTC", side="buy", qty=D(20), stop=D(95), target=D(110))  # risks 100, worth 2000


def code(limits: dict[str, str], order: Order = ENTRY, account: AccountView = FLAT) -> str | None:
    guard = Guard(limits)
    assert not guard.advice, guard.advice
    verdict = guard.judge(order, account)
    assert verdict.accepted == (verdict.code is None)
    return verdict.code


def holding(symbol: str = "BTC", qty: object = 50, **about: Any) -> AccountView:
    positions = {symbol: Position(qty=D(str(qty)), entry_px=FLAT.marks[symbol])}
    return replace(FLAT, positions=positions, **about)


@pytest.mark.parametrize(
    "text", ["1 % of equity", "1%", "1 percent of the equity", "at most 1 % of equity", "100", "100 USD", "$100", "Max. 100"]
)
def test_the_risk_of_a_trade_may_be_just_its_limit_and_no_more(text: str) -> None:
    assert code({"risk per trade": text}) is None
    assert code({"risk per trade": text}, replace(ENTRY, qty=D("20.01"))) == "R2_RISK_PER_TRADE"


def test_the_risk_is_measured_from_the_price_of_the_order_not_from_the_last_one() -> None:
    limit = replace(ENTRY, kind="limit", px=D(97))
    assert code({"risk per trade": "50"}, limit) is None
    assert code({"risk per trade": "50"}) == "R2_RISK_PER_TRADE"


def test_without_a_stop_the_risk_cannot_be_told_so_it_is_refused() -> None:
    bare = replace(ENTRY, stop=None)
    assert code({"risk per trade": "1 %"}, bare) == code({"stop": "required"}, bare) == "R1_NO_STOP"
    assert code({}, bare) is None


@pytest.mark.parametrize("text", ["20 % of equity", "2000 USD", "at most 2,000"])
def test_a_position_may_grow_to_its_cap_with_what_is_held_and_what_waits(text: str) -> None:
    limits = {"position": text}
    assert code(limits) is None
    assert code(limits, account=holding(qty=1)) == "R3_POSITION_CAP"
    assert code(limits, account=replace(FLAT, waiting={"BTC": (D(1), D(0))})) == "R3_POSITION_CAP"
    assert code(limits, account=replace(FLAT, waiting={"BTC": (D(0), D(5))})) is None, "waits on the other side"
    assert code(limits, account=holding(qty=-1)) is None, "one closes the short, nineteen are new"


def test_a_cap_in_words_means_the_whole_equity_and_nothing_borrowed() -> None:
    limits = {"position": "at most the equity, no leverage"}
    assert code(limits, replace(ENTRY, qty=D(100))) is None
    assert code(limits, replace(ENTRY, qty=D(101))) == "R3_POSITION_CAP"
    assert code(limits, replace(ENTRY, qty=D(60)), holding("ETH", 500)) == "R4_LEVERAGE"


@pytest.mark.parametrize("text", ["3", "3x", "3 x", "at most 3"])
def test_leverage_counts_all_positions_together(text: str) -> None:
    limits = {"max leverage": text}
    assert code(limits, account=holding(qty=280)) is None
    assert code(limits, account=holding(qty=281)) == "R4_LEVERAGE"
    assert code(limits, account=holding("ETH", -2801)) == "R4_LEVERAGE"
    assert code(limits, account=holding("ETH", -2800)) is None
    assert code(limits, account=replace(FLAT, waiting={"ETH": (D(0), D(2801))})) == "R4_LEVERAGE"


def test_after_the_day_s_loss_nothing_is_opened_until_midnight() -> None:
    limits = {"daily loss": "3 %"}
    assert code(limits, account=replace(FLAT, equity=D("9700.01"))) is None
    assert code(limits, account=replace(FLAT, equity=D(9700))) == "R5_DAILY_LOSS"
    assert code({"daily loss": "200 USD"}, account=replace(FLAT, equity=D(9799))) == "R5_DAILY_LOSS"
    assert code(limits, account=replace(FLAT, equity=D(9_000), day_equity=D(9_100))) is None


def test_so_many_orders_a_day() -> None:
    assert code({"orders per day": "10"}, account=replace(FLAT, orders_today=9)) is None
    assert code({"orders_per_day": "10"}, account=replace(FLAT, orders_today=10)) == "R6_ORDERS_PER_DAY"


def test_only_the_symbols_named_in_whatever_case() -> None:
    assert code({"symbols": "btc, ETH"}) is None
    assert code({"symbols": "ETH, SOL"}) == "R7_SYMBOL"


@pytest.mark.parametrize(("stop", "target"), [(D(100), None), (D(101), None), (None, D(100)), (D(95), D(99))])
def test_a_stop_or_target_on_the_wrong_side_is_refused_without_any_limit(stop: Decimal | None, target: Decimal | None) -> None:
    assert code({}, replace(ENTRY, stop=stop, target=target)) == "R8_STOP_SIDE"


def test_what_the_margin_does_not_carry_is_refused_without_any_limit() -> None:
    assert code({}, account=replace(FLAT, power={"BTC": (D(2000), D(0))})) is None
    assert code({}, account=replace(FLAT, power={"BTC": (D(1999), D(9999))})) == "R9_BUYING_POWER"


@pytest.mark.parametrize(
    ("text", "open_"), [("08:00-12:01", True), ("08:00-12:00", False), ("12:00-20:00 UTC", True), ("22:00-06:00", False), ("20:00-12:30", True),
                        ("00:00-01:00, 11:00 - 13:00", True)],
)  # fmt: skip
def test_outside_its_hours_nothing_is_opened(text: str, open_: bool) -> None:
    assert code({"trading hours": text}) == (None if open_ else "R10_SESSION")


def test_a_stop_too_near_is_refused() -> None:
    assert code({"min stop distance": "5 % of price"}) is None
    assert code({"min stop distance": "5.1 %"}) == code({"stop distance": "at least 5.01"}) == "R11_STOP_DISTANCE"


def test_so_many_positions_at_once_adding_to_one_is_no_new_one() -> None:
    limits = {"max open positions": "1"}
    assert code(limits, account=holding("ETH")) == "R12_OPEN_POSITIONS"
    assert code(limits, account=holding("BTC")) is None


STRICT = {"risk per trade": "0.0001 %", "position": "1", "leverage": "0", "daily loss": "0", "orders per day": "0", "symbols": "NONE",
          "hours": "03:00-03:01", "stop": "required", "open positions": "0"}  # fmt: skip


def test_nothing_may_keep_a_position_from_being_closed() -> None:
    closing = Order(symbol="BTC", side="sell", qty=D(50), reduce_only=True)
    assert code(STRICT, closing, holding()) is None
    assert code(STRICT, Order(symbol="BTC", side="sell", qty=D(50)), holding()) is None
    assert code(STRICT, Order(symbol="BTC", side="sell", qty=D("50.1")), holding()) is not None


@pytest.mark.parametrize(
    ("key", "text"),
    [("risk per trade", "little"), ("risk per trade", "1 % of equity, 2 % on Fridays"), ("risk per trade", "1 % of price"), ("position", "0.5 BTC"),
     ("position", "20 % of equity, sometimes more"), ("orders per day", "ten"), ("orders per day", "-1"), ("daily loss", "3 R"),
     ("symbols", "only large coins"), ("symbols", ""), ("hours", "in the morning"), ("hours", "25:00-26:00"), ("leverage", "as needed"),
     ("stop", "where it hurts"), ("stop distance", "1 ATR"), ("news", "none before FOMC")],
)  # fmt: skip
def test_a_limit_that_cannot_be_read_with_certainty_stays_advice_and_the_guard_says_so(key: str, text: str) -> None:
    guard = Guard({key: text})
    assert guard.advice == {key: text}
    assert guard.judge(ENTRY, FLAT) == GuardVerdict(accepted=True, note=f"Not checked, advice only: {key}.")


@given(
    limits=st.dictionaries(st.sampled_from([*STRICT, "mood", "stop distance"]), st.text(max_size=30), max_size=5),
    qty=st.integers(1, 10**9),
)
def test_whatever_an_owner_writes_there_is_a_verdict_that_can_be_kept(limits: dict[str, str], qty: int) -> None:
    verdict = Guard(limits).judge(replace(ENTRY, qty=D(qty)), FLAT)
    assert read(GuardVerdict, verdict) == verdict
    assert verdict.note is None or len(verdict.note) <= REASON_LENGTH


def test_of_several_orders_the_second_is_judged_with_the_first_and_all_or_none_are_placed() -> None:
    proposal = OrderProposal(Decision(symbol="BTC", action="buy"), (ENTRY, ENTRY))
    assert len(judge_order(proposal, FLAT, Guard({"position": "4000"})).orders) == 2
    refused = judge_order(proposal, FLAT, Guard({"position": "3999"}))
    assert (refused.orders, refused.decision.verdict and refused.decision.verdict.code) == ((), "R3_POSITION_CAP")


# ---- in a run -----------------------------------------------------------------------------------------------------


def eager(history: Sequence[Bar], position: Position, equity: Decimal) -> list[OrderProposal]:
    """Buys five after every bar, four below the close as its stop."""
    last = history[-1]
    stop = last.c - 4
    decision = Decision(symbol=last.symbol, action="buy", side="long", reason="again", stop=stop, qty=D(5))
    return [OrderProposal(decision, (Order(symbol=last.symbol, side="buy", qty=D(5), stop=stop),))]


def hours(words: Any, n: int) -> list[Bar]:
    return [words.day(hour, "100 101 99 100", hours=1) for hour in range(n)]


def test_what_the_guard_refuses_is_decided_and_recorded_and_not_ordered(words: Any) -> None:
    notebook = words.Notebook()
    result = run_simulation(
        notebook, hours(words, 6), eager, fee_bps=0, slippage_bps=0, guard=Guard({"orders per day": "2", "calm": "yes"})
    )
    verdicts = [decision.verdict for decision in notebook.decisions]
    assert [v.code for v in verdicts if v] == [None, None] + ["R6_ORDERS_PER_DAY"] * 4
    assert [bool(decision.order_ids) for decision in notebook.decisions] == [True, True, False, False, False, False]
    assert [decision.action for decision in notebook.decisions] == ["buy"] * 6
    assert len(notebook.fills) == 2
    told = result.as_dict()
    assert (told["rejections"], told["not_checked"], told["liquidations"]) == ({"R6_ORDERS_PER_DAY": 4}, ["calm"], 0)
    assert "| Refused, by rule | R6_ORDERS_PER_DAY 4 |" in render_report(result)


def test_a_new_utc_day_counts_orders_and_losses_anew(words: Any) -> None:
    notebook = words.Notebook()
    run_simulation(notebook, hours(words, 27), eager, guard=Guard({"orders per day": "1"}))
    assert [fill.t.strftime("%d %H:%M:%S") for fill in notebook.fills] == ["08 01:00:01", "09 00:00:01"]


def test_the_day_s_loss_is_measured_from_midnight_or_from_the_last_tick_before_it(words: Any) -> None:
    crash = [
        *hours(words, 2),
        words.day(2, "100 100 98 98", hours=1),
        *(words.day(n, "98 99 97 98", hours=1) for n in range(3, 26)),
    ]
    notebook = words.Notebook()
    run_simulation(notebook, crash, eager, fee_bps=0, slippage_bps=0, guard=Guard({"daily loss": "5 USD"}))
    refused = [decision.t for decision in notebook.decisions if decision.verdict and not decision.verdict.accepted]
    midnight = datetime(2024, 1, 9, tzinfo=UTC)
    assert refused and min(refused) == datetime(2024, 1, 8, 3, tzinfo=UTC) and max(refused) < midnight
    overnight = [bar for bar in crash if bar.t1 <= datetime(2024, 1, 8, 2, tzinfo=UTC)] + [words.day(1, "98 98 98 98")]
    later = words.Notebook()
    gap = [overnight[0], overnight[1], replace(overnight[2], t0=midnight + timedelta(hours=8), t1=midnight + timedelta(hours=9))]
    run_simulation(later, gap, eager, fee_bps=0, slippage_bps=0, guard=Guard({"daily loss": "5 USD"}))
    last = later.decisions[-1].verdict
    assert last is not None and last.code == "R5_DAILY_LOSS", "the gap in the morning is that day's loss"


def test_the_last_hour_before_midnight_belongs_to_the_day_that_ends(words: Any) -> None:
    bars = [*hours(words, 23), words.day(23, "100 100 98 98", hours=1)]
    notebook = words.Notebook()
    run_simulation(notebook, bars, eager, fee_bps=0, slippage_bps=0, guard=Guard({"daily loss": "5 USD"}))
    last = notebook.decisions[-1]
    assert last.t == datetime(2024, 1, 9, tzinfo=UTC) and last.verdict is not None and last.verdict.accepted


def test_of_a_proposal_the_broker_takes_all_orders_or_none(words: Any) -> None:
    def both(history: Sequence[Bar], position: Position, equity: Decimal) -> list[OrderProposal]:
        orders = tuple(Order(symbol="AAPL", side="buy", qty=D(qty)) for qty in (1, 50))
        return [OrderProposal(Decision(symbol="AAPL", action="buy"), orders)] if len(history) == 1 else []

    notebook = words.Notebook()
    run_simulation(notebook, hours(words, 3), both, starting_equity=1000, venue=Venue(margin=Margin.at_leverage(D(2))))
    (decision,) = notebook.decisions
    assert decision.verdict is not None and decision.verdict.code == "R9_BUYING_POWER"
    assert (decision.order_ids, notebook.fills) == ((), [])


def test_an_order_beyond_the_buying_power_is_a_decision_with_that_verdict(words: Any) -> None:
    notebook = words.Notebook()
    venue = Venue(margin=Margin.at_leverage(D(2)))
    result = run_simulation(notebook, hours(words, 6), eager, fee_bps=0, slippage_bps=0, starting_equity=600, venue=venue)
    verdicts = [decision.verdict.code if decision.verdict else None for decision in notebook.decisions]
    assert verdicts == [None, None, "R9_BUYING_POWER", "R9_BUYING_POWER", "R9_BUYING_POWER", "R9_BUYING_POWER"]
    assert result.refused == 4 and result.as_dict()["rejections"] == {"R9_BUYING_POWER": 4}
    guarded = words.Notebook()
    again = run_simulation(
        guarded, hours(words, 6), eager, fee_bps=0, slippage_bps=0, starting_equity=600, venue=venue, guard=Guard({})
    )
    assert again.refused == 0 and again.as_dict()["rejections"] == {"R9_BUYING_POWER": 4}, "the guard says it first"


def test_without_terms_the_result_has_only_the_keys_it_always_had(words: Any) -> None:
    told = run_simulation(words.Notebook(), hours(words, 3), eager).as_dict()
    assert not {"rejections", "funding", "liquidations", "shortfall", "not_checked"} & set(told)
