"""Habits: what an agent does again and again, each figure with its sample, and what changes."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import zip_longest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtape.core.memory.behaviour import Behaviour, ClosedCounts, DriftReport, Figure, Pattern, behaviour, realised_counts
from memtape.core.memory.episodes import EPISODE_FIELDS, Episode
from memtape.core.memory.level_shifts import level_shifts

START = datetime(2026, 1, 5, 8, tzinfo=UTC)


def trade(n: int, r: float | None, **said) -> Episode:
    """A teaching trade of VB on XAUUSD: 1 % risked, held for an hour."""
    at = START + timedelta(hours=n)
    told = dict.fromkeys(EPISODE_FIELDS) | {
        "id": f"t{n:05}", "known_from": at, "kind": "trade", "symbol": "XAUUSD", "strategy": "VB", "side": "long", "tier": 0,
        "claimed": False, "source": "broker", "entry_at": at - timedelta(hours=1), "exit_at": at, "pnl_r": r, "r_source": "stop",
        "hold_minutes": 60.0, "risk_share": 0.01, "teach": "learn", "tags": (),
    }  # fmt: skip
    return Episode(**(told | said))


def trades(*rs: float | None, start: int = 0, **said) -> list[Episode]:
    return [trade(start + n, r, **said) for n, r in enumerate(rs)]


def drift(found: Behaviour, of: str) -> DriftReport:
    [one] = [d for d in found.drifts if d.of == of]
    return one


def pattern(found: Behaviour, kind: str) -> Pattern:
    [one] = [p for p in found.patterns if p.kind == kind]
    return one


# --- figures and their samples ------------------------------------------------------------------------------------------


def test_without_trades_every_figure_is_missing_and_says_what_it_needs():
    found = behaviour([])
    figures = {name: getattr(found, name) for name in Behaviour.__slots__ if isinstance(getattr(found, name), Figure)}
    assert len(figures) == 17
    assert all(figure.value is None and "needs" in figure.why for figure in figures.values()), figures
    assert (found.n, found.window, found.strategy, found.drift_detected) == (0, 60, None, False)


def test_a_scratch_is_closed_and_no_win():
    found = behaviour(trades(2.0, -1.0, 0.0, None, 1.0))
    assert found.win_rate == Figure(0.5, 4)
    assert found.mean_r == Figure(0.5, 4)
    assert (found.n, found.strategy, found.symbol) == (5, "VB", "XAUUSD")


def test_two_winners_are_too_few_to_speak_of_a_disposition():
    few = trades(1.0, 1.0, -1.0, -1.0, -1.0, -1.0, -1.0)
    assert behaviour(few).disposition == Figure(None, 7, "needs 3 winners and 3 losers, has 2 and 5")


def test_losers_held_half_as_long_again_show_as_one_half():
    found = behaviour([*trades(1.0, 1.0, 1.0, hold_minutes=60.0), *trades(-1.0, -1.0, -1.0, start=3, hold_minutes=90.0)])
    assert found.disposition == Figure(0.5, 6)


def test_the_disposition_effect_comes_from_counts_at_the_moments_of_decision():
    assert behaviour([]).disposition_effect.why == "needs ticks with what was held at each close"
    assert behaviour([], ClosedCounts(30, 90, 20, 140)).disposition_effect == Figure(0.125, 280)
    assert behaviour([], ClosedCounts(1, 1, 20, 140)).disposition_effect.why == "needs 3 gains and 3 losses, has 2 and 160"


def test_with_several_positions_only_moments_with_a_close_are_decisions():
    told = [(START, [50.0], [10.0, -5.0]), (START, [], [20.0, -7.0]), (START, [-3.0, 0.0], [0.0, 4.0])]
    assert realised_counts(told) == ClosedCounts(gains=1, paper_gains=2, losses=1, paper_losses=1)
    assert realised_counts(told, "single") == ClosedCounts(gains=1, paper_gains=3, losses=1, paper_losses=2)


def test_half_the_risk_after_each_loss_is_a_loss_aversion_of_one_half():
    alternating = [trade(n, 1.0 if n % 2 else -1.0, risk_share=0.01 if n % 2 == 0 else 0.005) for n in range(12)]
    assert behaviour(alternating).loss_aversion == Figure(0.5, 11)
    unknown = [e._replace(risk_share=None) for e in alternating]
    assert behaviour(unknown).loss_aversion.why == "needs 3 trades with a known risk after a win and 3 after a loss, has 0 and 0"


def test_size_that_follows_the_latest_outcomes_shows_and_size_that_never_varies_cannot():
    risks = (0.01, 0.02, 0.01, 0.02, 0.01)
    following = [trade(n, r, risk_share=risk) for n, (r, risk) in enumerate(zip((1.0, -1.0) * 3, risks, strict=False))]
    assert behaviour(following).recency_bias.value == pytest.approx(0.894427, abs=1e-6)
    assert behaviour(trades(1.0, -1.0, 1.0, -1.0)).recency_bias == Figure(None, 3, "the risk never varies")


def test_entries_beyond_the_decided_price_are_late_but_by_one_atr_at_most():
    late = [trade(n, 1.0, late_atr=atr) for n, atr in enumerate((0.5, -0.2, 9.0))]
    assert behaviour(late).entry_timing.value == pytest.approx((0.5 - 0.2 + 1.0) / 3)


def test_exits_are_early_or_late_by_the_target_and_stop_outs_do_not_count():
    early = [trade(n, 1.2, target_r=2.0, mfe_r=1.5) for n in range(2)]  # -0.4 each
    late = [trade(2, 0.9, target_r=2.0, mfe_r=2.5)]  # given back 1.6 of 2
    stopped = [trade(3, -1.0, target_r=2.0, mfe_r=0.1, trigger="stop"), trade(4, -1.0, target_r=2.0, mfe_r=0.1)]
    by_hand = trade(5, -1.0, target_r=2.0, mfe_r=0.0, trigger="manual")  # the whole way was missing
    assert behaviour([*early, *late, *stopped]).exit_timing == Figure(pytest.approx((-0.4 - 0.4 + 0.8) / 3), 3)
    assert behaviour([*early, *late, *stopped, by_hand]).exit_timing.value == pytest.approx((-0.4 - 0.4 + 0.8 - 1.0) / 4)


def test_a_short_into_a_rise_is_contrarian():
    told = [trade(0, 1.0, side="short", move_atr=0.5), trade(1, 1.0, move_atr=3.0), trade(2, 1.0, side="short", move_atr=-0.1)]
    assert behaviour(told).momentum_bias.value == pytest.approx((-0.5 + 1.0 + 0.1) / 3)


def test_size_is_measured_by_the_kelly_fraction_of_what_was_before_the_window():
    found = behaviour(trades(*([5 / 3] * 9 + [-1.0] * 11) * 9))  # win rate .45, mean .2: Kelly .12
    assert (found.window, found.expected_win_rate.n) == (100, 80)
    assert found.kelly.value == pytest.approx(0.12)
    assert found.size_v_kelly.value == pytest.approx(0.01 / 0.12)
    assert found.size_variation == Figure(0.0, 100)
    assert (found.expected_win_rate.value, found.expected_mean_r.value) == (pytest.approx(0.45), pytest.approx(0.2))


def test_without_an_edge_there_is_no_kelly_to_measure_size_by():
    losing = behaviour(trades(*[1.0, -1.0, -1.0, -1.0] * 50))
    assert losing.size_v_kelly.value is None
    assert losing.size_v_kelly.why == "Kelly's fraction is -0.500: it advises no bet to compare with"
    assert behaviour(trades(1.0, -1.0)).size_v_kelly.why == "Kelly's fraction needs 10 trades with a stop before the window, has 0"
    assert behaviour(trades(1.0, -1.0, 1.0), kelly=0.1).size_v_kelly.value == pytest.approx(0.1)


def test_what_the_owner_set_aside_shadows_and_unverified_claims_are_no_habits():
    kept = trades(1.0, -1.0, 1.0)
    aside = [trade(10, -9.0, teach="exclude"), trade(11, -9.0, kind="shadow"), trade(12, -9.0, claimed=True, tier=3)]
    assert behaviour([*kept, *aside], claims_count=False) == behaviour(kept)
    assert behaviour([*kept, *aside]).claimed == 1


# --- the window ---------------------------------------------------------------------------------------------------------


def test_a_steady_agent_is_looked_at_over_100_trades_and_an_erratic_one_over_20():
    assert behaviour(trades(*[1.0, -1.0] * 60)).window == 100
    changed = [trade(n, 1.0, risk_share=0.01 if n < 70 else 0.03, hold_minutes=60.0 if n < 70 else 5.0) for n in range(121)]
    assert behaviour(changed).window == 20
    assert behaviour(changed).stability.value == 1.0  # within those 20


def test_the_newest_trade_never_chooses_the_window_it_is_judged_in():
    before = trades(*[1.0, -1.0] * 60)
    for last in (trade(999, 9.0), trade(999, 9.0, risk_share=0.9, hold_minutes=1e5)):
        assert behaviour([*before, last]).window == behaviour([*before, trade(999, -1.0)]).window


def test_stability_needs_twenty_trades():
    assert behaviour(trades(*[1.0] * 19)).stability == Figure(None, 19, "needs 20 trades with a known risk and hold, has 19")
    halves = [trade(n, 1.0, risk_share=0.01 if n < 10 else 0.02) for n in range(20)]
    assert behaviour(halves).stability == Figure(0.5, 20)


# --- drift --------------------------------------------------------------------------------------------------------------


def test_a_collapse_of_outcomes_is_noticed_with_its_direction_and_size():
    chance = random.Random(4)
    good = [2.0 if chance.random() < 0.5 else -1.0 for _ in range(150)]
    fallen = behaviour(trades(*good, *[-1.0] * 30))
    seen = drift(fallen, "outcome")
    assert fallen.drift_detected
    assert (seen.detected, seen.direction) == (True, "degrading")
    assert seen.magnitude == pytest.approx(-1.0, abs=0.25)  # from .5R to -1R, by a deviation of 1.5R
    assert seen.rang_at < START + timedelta(hours=180)


def test_a_change_that_has_become_the_habit_is_no_longer_a_drift():
    def doubled_at_60(n):
        return behaviour([trade(i, 1.0 if i % 2 else -1.0, risk_share=0.01 if i < 60 else 0.02) for i in range(n)])

    assert drift(doubled_at_60(90), "risk").direction == "larger"
    assert not drift(doubled_at_60(260), "risk").detected


def test_a_larger_risk_and_a_shorter_hold_are_drifts_whatever_the_outcomes():
    told = [trade(n, 1.0 if n % 2 else -1.0, risk_share=0.01 * (1 + n % 3 / 10) * (1 if n < 80 else 2),
                  hold_minutes=60.0 * (1 + n % 4 / 4) / (1 if n < 80 else 4)) for n in range(110)]  # fmt: skip
    found = behaviour(told)
    assert (drift(found, "risk").direction, drift(found, "hold").direction) == ("larger", "shorter")
    assert not drift(found, "outcome").detected
    assert drift(found, "risk").since == "t00080"


def test_one_forgotten_position_is_no_change_of_habit():
    told = [trade(n, 1.0, hold_minutes=60.0 + n % 7 if n != 50 else 60.0 * 24 * 30) for n in range(60)]
    assert not drift(behaviour(told), "hold").detected


def test_drift_needs_a_baseline_of_thirty_trades_and_ten_to_compare():
    assert drift(behaviour(trades(*[1.0] * 30)), "outcome").why == "needs 40 trades, has 30"
    fallen = behaviour(trades(*[2.0, -1.0] * 120, *[-1.0] * 40))
    assert (drift(fallen, "outcome").detected, drift(fallen, "outcome").direction) == (True, "degrading")


def test_an_alarm_ends_when_the_values_are_back():
    chance = random.Random(8)

    def risks(n, level):
        return [0.01 * level * chance.lognormvariate(0.0, 0.3) for _ in range(n)]

    told = [trade(n, 1.0, risk_share=risk) for n, risk in enumerate([*risks(100, 1.0), *risks(40, 2.0), *risks(60, 1.0)])]
    assert drift(behaviour(told[:100]), "risk").detected is False
    assert drift(behaviour(told[:140]), "risk").direction == "larger"
    assert drift(behaviour(told), "risk").detected is False


def test_luck_that_is_polled_for_300_trades_seldom_raises_an_alarm():
    chance = random.Random(12)
    rung = 0
    for _ in range(30):
        told = [
            trade(n, 2.0 if chance.random() < 1 / 3 else -1.0, risk_share=0.01 * chance.lognormvariate(0.0, 0.3),
                  hold_minutes=chance.lognormvariate(4.0, 1.0)) for n in range(300)
        ]  # fmt: skip
        rung += any(behaviour(told[:n]).drift_detected for n in range(10, 301, 20))
    assert rung <= 7  # 15 % are allowed, that is 4.5; chance adds up to two and a half


@pytest.mark.parametrize(("target", "wins"), [(2.0, 1 / 3), (3.0, 1 / 4), (5.0, 1 / 6), (9.0, 1 / 10), (1 / 3, 3 / 4)])
def test_brackets_with_a_far_or_a_near_target_alarm_as_seldom_as_others(target, wins):
    chance, rung = random.Random(21), 0
    for _ in range(100):
        rung += bool(level_shifts([target if chance.random() < wins else -1.0 for _ in range(300)], 0.5))
    assert rung <= 9  # about 3 are expected; a sum of deviations gave up to 20


@pytest.mark.parametrize("by", [-1.0, 1.0])
def test_a_change_of_one_deviation_is_noticed_within_thirty_trades_in_either_direction(by):
    chance, noticed = random.Random(22), 0
    for _ in range(100):
        xs = [chance.gauss(0.0 if n < 150 else by, 1.0) for n in range(180)]
        noticed += any(shift.at >= 150 and (shift.magnitude > 0) is (by > 0) for shift in level_shifts(xs, 0.1))
    assert noticed >= 86  # about 93 are expected


def test_where_a_change_began_is_found_within_a_few_trades():
    chance = random.Random(23)
    [found] = level_shifts([chance.gauss(0.0 if n < 100 else 2.0, 1.0) for n in range(120)], 0.1)
    assert abs(found.began - 100) <= 5 and found.at <= 119 and found.direction == "improving"


@given(st.lists(st.floats(-4, 4), max_size=200), st.floats(0.1, 5.0))
def test_a_shift_lies_inside_the_values_ends_after_it_was_noticed_and_only_the_last_may_last(xs, least):
    found = level_shifts(xs, least)
    for one, following in zip_longest(found, found[1:]):
        assert one.began <= one.at < len(xs)
        assert one.ended is None or one.at < one.ended < len(xs)
        assert following is None or (one.ended is not None and one.ended < following.began)


@given(st.lists(st.floats(-4, 4), max_size=120), st.integers(0, 120))
def test_what_was_noticed_stays_noticed_whatever_comes_later(xs, n):
    earlier, whole = level_shifts(xs[:n], 0.5), level_shifts(xs, 0.5)
    assert [(s.at, s.began, s.direction) for s in earlier] == [(s.at, s.began, s.direction) for s in whole[: len(earlier)]]


# --- units --------------------------------------------------------------------------------------------------------------


def in_money(n: int, result: float, **said) -> Episode:
    """A trade without a stop, of which only the money is known."""
    return trade(n, None, pnl_usd=result, r_source=None, risk_share=None, **said)


def test_a_journal_without_stops_has_habits_in_typical_losses():
    found = behaviour([in_money(n, 12.0 if n % 3 else -8.0, mfe_r=1.0, target_r=2.0) for n in range(60)])
    assert found.unit.phrase("USD") == "typical losses of $8.00"
    assert found.win_rate == Figure(pytest.approx(2 / 3), 60)
    assert found.mean_r.value == pytest.approx((2 * 1.5 - 1.0) / 3)
    assert found.exit_timing.why == "needs 3 trades with a target that were not stopped out, has 0"
    assert pattern(found, "side").sentence == "Long in 60 of 60 trades (+0.67 typical losses on average); short in 0."
    assert drift(behaviour([in_money(n, 12.0 if n % 3 and n < 60 else -8.0) for n in range(100)]), "outcome").detected


def test_one_answer_has_one_unit_and_exits_are_judged_by_stops_alone():
    with_stops = [trade(n, 1.0, pnl_usd=50.0, target_r=2.0, mfe_r=1.5, trigger="manual") for n in range(12)]
    by_atr = [trade(n + 20, -9.0, r_source="atr_proxy", pnl_usd=-90.0, target_r=9.0, mfe_r=9.0, trigger="manual") for n in range(12)]
    found = behaviour([*with_stops, *by_atr])
    assert (found.unit.source, found.mean_r) == ("stop", Figure(1.0, 12))
    assert found.exit_timing.n == 12
    assert behaviour(by_atr).exit_timing.n == 0


# --- patterns -----------------------------------------------------------------------------------------------------------


def test_the_usual_stop_is_told_with_how_often_it_is_used_where_and_what_came_of_it():
    usual = [trade(n, 1.0, stop_atr=1.5 + n % 3 / 10, regime="ranging" if n < 6 else "volatile") for n in range(9)]
    wide = [trade(n, -1.0, stop_atr=4.0) for n in range(9, 12)]
    found = pattern(behaviour([*usual, *wide]), "stop distance")
    assert found.typical == pytest.approx(1.65)
    assert found.frequency == Figure(0.75, 12)
    assert (found.outcome.n, found.outcome.mean_r, found.otherwise.mean_r) == (9, 1.0, -1.0)
    assert found.contexts == (("ranging", 6), ("volatile", 3))
    assert found.sentence == "Stop 1.6 ATR away in 9 of 12 trades (+1.00R on average)."


def test_the_first_partial_is_counted_among_all_trades():
    told = [*[trade(n, 1.0, partial_r=1.0) for n in range(10)], *trades(*[-1.0] * 10, start=10)]
    found = pattern(behaviour(told), "first partial")
    assert (found.typical, found.frequency) == (1.0, Figure(0.5, 20))
    assert pattern(behaviour(told[5:]), "first partial").frequency.why == "needs 10 trades with a first partial, has 5"


def test_hesitating_before_shorts_shows_with_what_each_side_made():
    found = pattern(behaviour([*trades(*[1.0] * 9), *trades(*[-1.0] * 3, start=9, side="short")]), "side")
    assert (found.typical, found.outcome.mean_r, found.otherwise.mean_r) == (0.75, 1.0, -1.0)
    assert found.sentence == "Long in 9 of 12 trades (+1.00R on average); short in 3 (-1.00R on average)."


# --- laws ---------------------------------------------------------------------------------------------------------------

numbers = st.none() | st.floats(0.001, 50)
drawn = st.builds(
    trade, st.integers(0, 500), st.none() | st.floats(-20, 20), id=st.integers(0, 10**6).map(str), risk_share=numbers,
    hold_minutes=st.none() | st.floats(0, 1e5), target_r=numbers, mfe_r=numbers, stop_atr=numbers, partial_r=numbers,
    late_atr=st.none() | st.floats(-5, 5), move_atr=st.none() | st.floats(-5, 5), side=st.sampled_from(["long", "short"]),
)  # fmt: skip


@given(st.lists(drawn, max_size=60, unique_by=lambda e: e.id), st.randoms(use_true_random=False))
def test_habits_do_not_depend_on_the_order_of_arrival_and_no_figure_lacks_both_value_and_reason(episodes, chance):
    shuffled = list(episodes)
    chance.shuffle(shuffled)
    found = behaviour(episodes)
    assert behaviour(shuffled) == found
    for name in Behaviour.__slots__:
        if isinstance(figure := getattr(found, name), Figure):
            assert (figure.value is None) == bool(figure.why), (name, figure)
