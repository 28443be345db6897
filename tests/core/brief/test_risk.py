"""Where the account stands: refusals, orders, the day's result, streak and drawdown, each by what is known at the moment."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memtape.core.brief.risk import NO_RULE, RiskState, risk_state
from memtape.core.brief.sections.risk_state import risk_lines
from memtape.core.ledger.trades import TRADE_FIELDS, Trade
from memtape.core.memory.affect import Affect
from memtape.core.observed import Decision, GuardVerdict

NOON = datetime(2026, 6, 5, 12, tzinfo=UTC)
MIDNIGHT = NOON.replace(hour=0)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def decided(id: str, minutes_ago: float, action: str | None = "buy", refused_by: str | None = None, **said: Any) -> Decision:
    verdict = said.pop("verdict", None) or (
        GuardVerdict(accepted=False, code=refused_by, note="too large") if refused_by else None
    )
    return Decision(id=id, t=NOON - minutes_ago * MINUTE, action=action, symbol="BTC", verdict=verdict, **said)


def closed(id: str, net: object, exit_at: datetime = NOON - HOUR, quality: str = "fills") -> Trade:
    told: dict[str, Any] = dict.fromkeys(TRADE_FIELDS)
    return Trade(
        **(told | {"id": id, "exit_at": exit_at, "net_pnl_usd": None if net is None else Decimal(str(net)), "quality": quality})
    )


def state(
    decisions: Sequence[Decision] = (),
    trades: Sequence[Trade] = (),
    affect: Affect | None = None,
    equity: object = None,
    **said: Any,
) -> RiskState:
    return risk_state(
        decisions, trades, affect, None if equity is None else Decimal(str(equity)), said.pop("as_of", NOON), **said
    )


def refusals(found: RiskState) -> dict[str, int]:
    return {rule.code: len(rule.decisions) for rule in found.refused}


# --- refusals -----------------------------------------------------------------------------------------------------------


def test_refusals_of_the_last_hour_are_counted_by_rule_the_most_frequent_first():
    found = state([decided("a", 50, refused_by="R5_DAILY_LOSS"), decided("b", 40, refused_by="R3_CAP"), decided("c", 5, refused_by="R3_CAP"),
                   decided("d", 3, verdict=GuardVerdict(accepted=True)), decided("e", 2)])  # fmt: skip
    assert list(refusals(found).items()) == [("R3_CAP", 2), ("R5_DAILY_LOSS", 1)]
    assert found.judged == 4
    assert found.refused[0].decisions == ("b", "c")


def test_a_refusal_of_an_hour_ago_is_the_last_one_but_no_longer_counted():
    found = state([decided("a", 60, refused_by="R3_CAP")])
    assert refusals(found) == {} and found.judged == 0
    assert (found.last_refused.code, found.last_refused.note, found.last_refused.minutes_ago) == ("R3_CAP", "too large", 60.0)


def test_the_last_refusal_is_the_latest_whatever_the_order_of_delivery():
    found = state([decided("late", 1, refused_by="R2"), decided("early", 30, refused_by="R1")])
    assert (found.last_refused.decision, found.last_refused.code) == ("late", "R2")


def test_a_refusal_without_a_rule_is_told_as_such():
    assert refusals(state([decided("a", 1, verdict=GuardVerdict(accepted=False))])) == {NO_RULE: 1}


# --- orders -------------------------------------------------------------------------------------------------------------


def test_orders_are_decisions_of_today_to_trade_that_were_not_refused():
    found = state([decided("buy", 60), decided("close", 50, "close"), decided("refused", 40, refused_by="R3"), decided("none", 30, "no_trade"),
                   decided("wait", 20, "WAIT"), decided("yesterday", 13 * 60), decided("silent", 10, None)])  # fmt: skip
    assert (found.orders, found.decisions) == (2, 6)


def test_a_day_begins_at_midnight_utc_whatever_zone_the_question_is_asked_in():
    from datetime import timezone

    at_midnight = [decided("first", 720)]
    assert state(at_midnight).orders == 1
    assert state(at_midnight, as_of=NOON.astimezone(timezone(timedelta(hours=-9)))).orders == 1
    assert state([decided("before", 720.01)]).orders == 0


# --- the day's result ---------------------------------------------------------------------------------------------------


def test_the_days_result_is_a_share_of_the_equity_the_day_began_with():
    found = state(trades=[closed("a", -150), closed("b", 50)], equity=9_900)
    assert (found.realized_usd, found.realized_pct, found.closed) == (Decimal(-100), Decimal(-1), ("a", "b"))


def test_without_equity_or_with_nothing_left_of_it_there_is_no_share():
    assert state(trades=[closed("a", -150)]).realized_pct is None
    assert state(trades=[closed("a", 150)], equity=100).realized_pct is None


def test_only_trades_closed_today_and_by_now_count():
    found = state(
        trades=[closed("midnight", 1, MIDNIGHT), closed("yesterday", 10, MIDNIGHT - MINUTE), closed("later", 100, NOON + MINUTE)]
    )
    assert found.closed == ("midnight",) and found.realized_usd == 1


def test_an_outcome_nobody_knows_is_counted_and_not_taken_for_zero():
    found = state(trades=[closed("a", None), closed("b", -5)])
    assert (found.closed, found.unknown) == (("b",), 1)


def test_a_claim_is_money_only_while_there_is_no_broker_to_ask():
    claims = [closed("a", 1_000, quality="claimed")]
    assert state(trades=claims).realized_usd == 1_000
    found = state(trades=claims, claims_count=False)
    assert (found.realized_usd, found.closed, found.unknown) == (0, (), 1)


@given(st.lists(st.decimals(-(10**6), 10**6, places=8), max_size=20), st.decimals(1, 10**7, places=2))
def test_the_share_times_the_start_is_what_was_made_to_the_last_decimal(nets, equity):
    found = state(trades=[closed(str(at), net) for at, net in enumerate(nets)], equity=equity)
    assert found.realized_usd == sum(nets)
    if found.realized_pct is not None:
        assert abs(found.realized_pct * (equity - found.realized_usd) / 100 - found.realized_usd) < Decimal("1e-9")


# --- no look-ahead, mood, words -----------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(-90, 800), st.sampled_from(["R1", "R2", None])), max_size=12), st.integers(-90, 800))
def test_what_comes_later_changes_nothing(made, cut):
    decisions = [decided(str(at), minutes, refused_by=code) for at, (minutes, code) in enumerate(made)]
    trades = [closed(str(at), minutes, NOON - minutes * MINUTE) for at, (minutes, _) in enumerate(made)]
    as_of = NOON - cut * MINUTE
    known = [d for d in decisions if d.t <= as_of], [t for t in trades if t.exit_at <= as_of]
    assert state(decisions, trades, as_of=as_of) == state(*known, as_of=as_of)


def test_streak_and_drawdown_come_from_the_mood_and_are_unknown_without_one():
    found = state(affect=Affect(peak_equity=100.0, equity=90.0, consecutive_losses=3))
    assert (found.losing_streak, found.drawdown, found.drawdown_limit) == (3, 0.1, 0.2)
    assert (state().losing_streak, state().drawdown) == (None, None)


def test_after_a_deposit_the_share_stands_alone_where_the_lost_money_is_earned_back():
    # Half of 1,000 was lost, 100,000 paid in, 500 earned: the account has its money back, and is far below its scaled peak.
    mood = Affect(peak_equity=1_000.0, flow_free=1_000.0, equity=101_000.0, scaled_peak=201_000.0, assumed_equity=1_000.0)
    told = [line.text for line in risk_lines(state(affect=mood), "USD")]
    assert told == ["- Drawdown: 49.8 % from the peak, assuming 1,000"]


def test_a_quiet_day_at_the_peak_has_nothing_to_tell():
    assert list(risk_lines(state(affect=Affect(peak_equity=100.0, equity=100.0)), "USD")) == []
    assert not state(affect=Affect(peak_equity=100.0, equity=99.0)).is_blank
    assert not state([decided("a", 1, "no_trade")]).is_blank
    assert not state([decided("a", 18 * 60, refused_by="R1")]).is_blank
    assert not state(trades=[closed("a", None)]).is_blank


def test_the_days_state_is_told_with_its_numbers():
    mood = Affect(peak_equity=10_500.0, equity=10_059.0, consecutive_losses=2)
    told = risk_lines(
        state([decided("a", 65), decided("b", 12, refused_by="R3_CAP")], [closed("t", "-120.5")], mood, 10_059), "EUR"
    )
    assert [line.text for line in told] == [
        "- Rejected in the last hour: 1 of 1 proposal (R3_CAP 1)",
        '- Last rejection, 12 minutes ago: R3_CAP "too large"',
        "- Orders today: 1 (2 decisions)",
        "- Realised today: -EUR 120.50 (-1.2 % of the equity the day began with) in 1 trade",
        "- Trades in a row without a win: 2",
        "- Drawdown: 4.2 % from the peak",
    ]
