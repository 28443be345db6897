"""The drawdown of an account is a share of the money that was there when it lost, whatever was paid in or out before and after."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from memtape.core.memory.affect import AccountChange, AccountClose, AccountFlow, AccountMark, AffectStep, affect_steps
from tests.effort import examples

MONDAY = datetime(2026, 6, 1, 8, tzinfo=UTC)
STARTING = 10_000.0


def day(n: float) -> datetime:
    return MONDAY + timedelta(days=n)


def mark(n: float, equity: float) -> AccountMark:
    return AccountMark(day(n), f"m{n}", day(n), equity)


def flow(n: float, usd: float) -> AccountFlow:
    return AccountFlow(day(n), f"f{n}", day(n), usd)


def close(n: float, pnl: float) -> AccountClose:
    return AccountClose(day(n), f"t{n}", day(n), pnl / 100, pnl, entered_at=day(n))


def last(*events: AccountChange) -> AffectStep:
    return affect_steps(events, STARTING)[-1]


def drawdown(*events: AccountChange) -> float:
    found = last(*events)
    assert found.state().drawdown == found.drawdown
    return found.drawdown


def test_a_deposit_before_a_loss_makes_the_drawdown_a_share_of_the_larger_account():
    assert drawdown(mark(0, 1_000), flow(1, 50_000), mark(2, 48_960)) == pytest.approx(0.04)
    assert drawdown(mark(0, 1_000), flow(1, 50_000), mark(1, 51_000), close(2, -2_040)) == pytest.approx(0.04)


def test_a_loss_after_a_withdrawal_is_a_share_of_what_was_left():
    assert drawdown(mark(0, 1_000), mark(1, 3_000), flow(2, -2_500), mark(3, 400)) == pytest.approx(0.2)
    assert drawdown(mark(0, 1_000), close(1, 2_000), flow(2, -2_500), close(3, -100)) == pytest.approx(0.2)


def test_a_withdrawal_leaves_the_drawdown_as_it_was():
    before = mark(0, 10_000), mark(1, 8_500)
    assert drawdown(*before) == 0.15
    assert drawdown(*before, flow(2, -8_000)) == pytest.approx(0.15)
    assert drawdown(*before, flow(2, -8_000), mark(3, 500)) == pytest.approx(0.15)
    assert drawdown(*before, flow(2, 90_000), mark(3, 98_500)) == pytest.approx(0.15)


def test_a_deposit_into_an_account_at_its_peak_makes_no_drawdown():
    assert drawdown(mark(0, 1_000.10), flow(1, 0.20), mark(2, 1_000.30)) == pytest.approx(0, abs=1e-12)


def test_money_that_was_lost_is_the_same_with_and_without_flows():
    state = last(mark(0, 1_000), flow(1, 50_000), mark(2, 48_960)).state()
    assert (state.below_peak, state.equity_without_flows, state.peak_equity, state.equity) == (2_040, -1_040, 1_000, 48_960)
    assert state.risk_appetite == pytest.approx(0.96) and state.drawdown_state == pytest.approx(0.2)


def test_an_account_that_loses_more_than_all_of_it_is_ruined_and_a_deposit_begins_anew():
    ruined = mark(0, 1_000), mark(1, -50)
    assert drawdown(*ruined) == 1.05
    assert drawdown(*ruined, flow(2, 20)) >= 1
    assert drawdown(*ruined, flow(2, 500)) == 0
    assert drawdown(*ruined, flow(2, 500), mark(3, 405)) == pytest.approx(0.1)


def test_an_account_that_was_paid_out_whole_has_no_drawdown_and_begins_anew():
    emptied = mark(0, 10_000), mark(1, 8_500), flow(2, -8_500)
    assert drawdown(*emptied) == 0
    assert drawdown(*emptied, flow(3, -5)) == 0
    assert drawdown(*emptied, flow(3, 2_000), mark(4, 1_900)) == pytest.approx(0.05)


def test_what_was_earned_unseen_before_it_was_paid_out_is_no_loss():
    assert drawdown(mark(0, 1_000), flow(1, -2_500), mark(2, 400)) == 0


def test_a_loss_when_nothing_is_left_is_more_than_all_of_it():
    assert drawdown(flow(0, -15_000), close(1, -500)) == 1.0
    assert last(flow(0, -15_000), close(1, -500)).state().below_peak == 500


def test_the_first_mark_keeps_the_drawdown_that_closed_trades_reached():
    assert drawdown(close(0, -1_000), flow(1, 5_000), mark(2, 28_000)) == pytest.approx(0.1)
    assert drawdown(flow(0, 10_000), mark(30, 10_500), mark(31, 10_395)) == pytest.approx(0.01)
    assert drawdown(mark(0, 0), flow(1, 1_000), mark(2, 900)) == pytest.approx(0.1)


def test_a_mark_at_the_moment_of_a_deposit_contains_it_whichever_came_first():
    deposit, seen = flow(1, 50_000), mark(1, 51_000)
    for pair in ((deposit, seen), (seen, deposit)):
        assert drawdown(mark(0, 1_000), *pair) == 0
        assert drawdown(mark(0, 1_000), *pair, mark(2, 48_960)) == pytest.approx(0.04)


# --- any account -----------------------------------------------------------------------------------------------------------

CENTS = st.integers(-300_000, 300_000).map(lambda cents: cents / 100)


@st.composite
def histories(draw: st.DrawFn, flows: bool = True) -> list[AccountChange]:
    kinds = st.sampled_from((mark, close, flow) if flows else (mark, close))
    found: list[AccountChange] = []
    for n in range(draw(st.integers(1, 25))):
        kind, amount = draw(kinds), draw(CENTS)
        found.append(mark(n, 5_000 + amount) if kind is mark else kind(n, amount))
    return found


@given(histories(flows=False))
@settings(max_examples=examples(150, 5000), deadline=None)
def test_without_flows_the_drawdown_is_the_fall_of_equity_from_its_peak(history: list[AccountChange]) -> None:
    for step in affect_steps(history, STARTING):
        assert (step.scaled_peak, step.equity) == (step.peak, step.nav)
        assert step.drawdown == step.state().drawdown == (step.peak - step.equity) / step.peak


@given(histories())
@settings(max_examples=examples(150, 5000), deadline=None)
def test_a_flow_that_leaves_money_in_the_account_never_changes_the_drawdown(history: list[AccountChange]) -> None:
    steps = affect_steps(history, STARTING)
    for before, after in pairwise(steps):
        if after.rank == AccountFlow.rank and min(before.equity, after.equity) > 1:
            assert after.drawdown == pytest.approx(before.drawdown, abs=1e-9)
            assert after.drawdown >= 0


@given(histories(), CENTS)
@settings(max_examples=examples(100, 5000), deadline=None)
def test_a_deposit_before_the_record_makes_the_same_falls_as_a_larger_start(history: list[AccountChange], paid: float) -> None:
    assume(paid > 0)
    with_deposit = affect_steps([flow(-1, paid), *history], STARTING)[1:]
    started_larger = affect_steps(history, STARTING + paid)
    for one, other in zip(with_deposit, started_larger, strict=True):
        assert one.equity == pytest.approx(other.equity, abs=1e-6)
        if min(other.equity, *(step.equity for step in started_larger)) > 1:
            assert one.drawdown == pytest.approx(other.drawdown, abs=1e-6)


@given(histories(), st.data())
@settings(max_examples=examples(100, 5000), deadline=None)
def test_a_fold_that_goes_on_from_any_step_is_the_whole_fold(history: list[AccountChange], data: st.DataObject) -> None:
    whole = affect_steps(history, STARTING)
    cut = data.draw(st.integers(1, len(whole)))
    outcomes = [step.pnl_r for step in whole[:cut] if step.pnl_r is not None]
    assert affect_steps(history[cut:], STARTING, whole[cut - 1], outcomes) == whole[cut:]
    assert affect_steps(data.draw(st.permutations(history)), STARTING) == whole
