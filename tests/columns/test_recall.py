"""Recall over columns gives what the reference gives, whatever is remembered and asked; and what the arrays hold."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memtape import columns as fast
from memtape.columns import Columns
from memtape.columns.index import OPEN_END
from memtape.columns.tallies import tallies
from memtape.core.codec import micros
from memtape.core.memory.episodes import known_episodes
from memtape.core.memory.situation import LABELS, NUMBERS
from memtape.core.observed import Situation
from memtape.core.recall import reference as plain
from memtape.core.recall.evidence import rounded
from memtape.core.recall.query import RecallParameters
from tests.columns.memories import DAY, LONDON, NOON, Plan, asked, belief, by_chance, episode, fetching, filled, queries, row
from tests.effort import examples


def both(episodes, query, beliefs=(), plans=()):
    """The reference's answer and the columns'."""
    slow = plain.recall_reference(episodes, beliefs, plans, query)
    return slow, fast.recall_columns(filled(episodes), beliefs, plans, query, fetching(episodes))


def assert_same(slow, quick):
    for lists in ("ranked", "near_misses", "beliefs", "worth_testing"):
        assert [told(each) for each in getattr(quick, lists)] == [told(each) for each in getattr(slow, lists)]
    for mine, theirs in zip((*quick.ranked, *quick.near_misses), (*slow.ranked, *slow.near_misses), strict=True):
        assert mine.score == theirs.score
    assert quick.warnings == slow.warnings
    assert rounded(quick.evidence) == rounded(slow.evidence)


def told(each):
    return each if isinstance(each, plain.UndecidedBelief) else (each.id, each.kind, each.tier, each.n, each.why)


# --- the same answer ----------------------------------------------------------------------------------------------------


@given(st.integers(0, 60), st.integers(0, 10**6), queries(), st.integers(0, 4))
def test_columns_answer_as_the_reference_does(n, seed, query, believed):
    past = by_chance(n, seed)
    chance = random.Random(seed)
    beliefs = [
        belief(f"b{at}", chance.randrange(40), chance.randrange(20), symbol=chance.choice([None, "XAU", "BTC"]),
               status=chance.choice(["candidate", "believed", "retired"]), tier=chance.choice([1, 2, 3]))
        for at in range(believed)
    ]  # fmt: skip
    plans = [Plan("p", source_ids=tuple(each.id for each in past[:3]))]
    cited = {each.id: chance.randrange(9) for each in past[::5]}
    assert_same(*both(past, replace(query, times_shown=cited), beliefs, plans))


@pytest.mark.parametrize("profile", ["owm", "owm-literal", "balanced"])
@pytest.mark.soak
def test_thousands_of_trades_with_ties_and_gaps_are_recalled_alike(profile):
    past = by_chance(examples(3_000, 10_000), seed=7)
    columns, fetch = filled(past), fetching(past)
    for query in (
        asked(profile=profile, explain=True, kelly_beside=True),
        asked(profile=profile, situation=Situation(regime="ranging"), claims_count=False),
        asked(profile=profile, symbol="BTC", as_of=NOON - 300 * DAY, limit=40, warnings_limit=20),
    ):
        assert_same(plain.recall_reference(past, [], [], query), fast.recall_columns(columns, [], [], query, fetch))


@pytest.mark.parametrize("tier", [0, 3])
@pytest.mark.parametrize("profile", ["owm", "owm-literal", "balanced"])
def test_scores_that_are_equal_by_the_thousand_are_ordered_by_time_and_id(profile, tier):
    shuffled = list(range(3000))
    random.Random(1).shuffle(shuffled)
    past = [episode(f"{at:04d}", -1.0, days_ago=2.0, tier=tier) for at in shuffled]
    slow, quick = both(past, asked(profile=profile))
    assert_same(slow, quick)
    assert quick.ranked[0].id == "0000" and quick.warnings[0].id == "0000"


def test_trades_without_labels_score_nothing_in_the_original_form_and_come_newest_first():
    unlabelled = dict.fromkeys(("regime", "volatility_regime", "session", "price", "atr_d1", "atr_h1", "drawdown_pct"))
    past = [episode(f"{at}", (-1.0, 2.0)[at % 2], days_ago=1 + at, **unlabelled) for at in range(2000)]
    slow, quick = both(past, asked(profile="owm-literal"))
    assert_same(slow, quick)
    assert [each.id for each in quick.ranked] == [str(at) for at in range(10)] and quick.ranked[0].score == 0.0


def test_where_nothing_fades_equal_trades_by_the_thousand_are_told_apart_by_time():
    same_day = [episode(f"{at:04d}", 2.0, days_ago=9) for at in range(2000)]
    newer = [episode(f"z{at}", 2.0, days_ago=8 - at) for at in range(5)]
    slow, quick = both([*same_day, *newer], asked(parameters=RecallParameters(exponent=0.0), limit=20))
    assert_same(slow, quick)
    assert [each.id for each in quick.ranked[:6]] == ["z4", "z3", "z2", "z1", "z0", "0000"]


@pytest.mark.parametrize("scale", [0.1, 0.3, 0.7, 1.0, 1.1, 1.3, 1.7, 2.9, 3.3, 7.1])
def test_losses_whose_likeness_comes_to_the_very_limit_warn_as_in_the_reference(scale):
    unknown = dict.fromkeys(("price", "atr_d1", "atr_h1", "spread_as_atr_pct", "drawdown_pct"))
    past = [episode(f"{at}", -1.0 - at % 5, days_ago=at, volatility_regime="low", **unknown) for at in range(1, 400)]
    labels = tuple((name, scale * weight) for name, weight in LABELS)
    numbers = tuple((name, scale * weight, width) for name, weight, width in NUMBERS)
    slow, quick = both(past, asked(parameters=RecallParameters(labels=labels, numbers=numbers)))
    assert_same(slow, quick)
    assert quick.warnings[0].similarity == pytest.approx(0.6)


def test_a_good_month_before_lifts_a_trade_over_others_that_scored_more():
    calm = [episode(f"c{at}", (1.0, -1.0)[at % 2], days_ago=1 + at / 10) for at in range(900)]
    good = [episode(f"g{at}", 1.0 + at % 3, days_ago=100 + at / 10) for at in range(200)]
    slow, quick = both([*calm, *good], asked(parameters=RecallParameters(sharpe="on"), limit=30))
    assert_same(slow, quick)
    assert {each.components.sharpe for each in quick.ranked} == {2.0}


def test_of_hundreds_of_nearly_equal_trades_the_best_by_a_millionth_of_an_r_comes_first():
    past = [episode(f"{at:03d}", 1.0 + at * 1e-6, days_ago=2) for at in range(600)]
    slow, quick = both(past, asked())
    assert_same(slow, quick)
    assert quick.ranked[0].id == "599"


def test_of_hundreds_of_equal_trades_those_of_the_broker_fill_what_a_model_may_not():
    past = [episode(f"a{at:03d}", 1.0, tier=3, source="model") for at in range(400)] + [
        episode(f"b{at:03d}", 1.0) for at in range(400)
    ]
    slow, quick = both(past, asked())
    assert_same(slow, quick)
    assert [each.source for each in quick.ranked].count("model") == 4 and len(quick.ranked) == 10


def test_outcomes_too_small_for_single_precision_are_still_in_order():
    past = [episode(f"{at:03d}", -200.0 - at / 7, days_ago=1 + at % 3) for at in range(400)]
    assert_same(*both(past, asked(parameters=RecallParameters(k=8.0))))


def test_a_source_that_may_not_fill_the_list_makes_room_for_others_far_below():
    crowd = [episode(f"m{at}", 3.0, days_ago=0.5 + at / 1000, tier=3, source="model") for at in range(2000)]
    others = [episode(f"t{at}", -1.0, days_ago=300 + at) for at in range(20)]
    slow, quick = both([*crowd, *others], asked(explain=True))
    assert_same(slow, quick)
    assert sum(each.source == "model" for each in quick.ranked) == 4


# --- what must not be buried --------------------------------------------------------------------------------------------


def test_a_copy_of_columns_changes_without_the_original():
    first, later = by_chance(40, seed=1), by_chance(20, seed=2, symbol="JPY", regime="quiet")
    columns = filled(first)
    copied = columns.copy()
    copied.drop(first[3].id)
    copied.put([row(each) for each in later])
    for has, past in ((columns, first), (copied, [*first[:3], *first[4:], *later])):
        quick = fast.recall_columns(has, (), (), asked(limit=40), fetching(past))
        assert_same(plain.recall_reference(past, (), (), asked(limit=40)), quick)


def test_trades_of_the_right_regime_behind_ten_thousand_newer_ones_are_found():
    elsewhere = {
        "regime": "ranging",
        "volatility_regime": "low",
        "session": "asia",
        "price": 3000.0,
        "atr_d1": 30.0,
        "atr_h1": 6.0,
    }
    newer = [episode(f"new {at}", 1.0, days_ago=1 + at / 200, **elsewhere) for at in range(10_000)]
    right = [episode(f"right {at}", 2.0, days_ago=180 + at) for at in range(5)]
    past = [*right, *newer]
    found = fast.recall_columns(filled(past), [], [], asked(), fetching(past))
    assert [each.id for each in found.ranked[:5]] == [each.id for each in right]


def test_a_minus_8r_loss_behind_10000_small_ones_is_still_warned_of():
    small = [episode(f"small {at}", -0.2 - 0.8 * (at % 10) / 10, days_ago=1 + at / 200) for at in range(10_000)]
    past = [episode("the one", -8.0, days_ago=400), *small]
    found = fast.recall_columns(filled(past), [], [], asked(), fetching(past))
    assert found.warnings[0].id == "the one"
    assert "the one" not in {each.id for each in found.ranked}


def test_a_claimed_fifty_r_among_ten_thousand_trades_moves_no_figure_once_there_is_a_broker():
    past = by_chance(10_000, seed=11, claimed=False)
    planted = episode("claim", 50.0, days_ago=0.1, claimed=True, tier=3, source="model", r_source="stated")
    query = asked(claims_count=False)
    without = fast.recall_columns(filled(past), [], [], query, fetching(past))
    with_it = fast.recall_columns(filled([*past, planted]), [], [], query, fetching([*past, planted]))
    assert rounded(with_it.evidence) == replace(rounded(without.evidence), n_claimed=1)
    assert [each.components.quality for each in with_it.ranked if each.id == "claim"] in ([], [0.5])


# --- sizes where there is no edge -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("payoff", ["coin", "two to one", "normal"])
def test_worlds_without_an_edge_get_hardly_any_size(payoff):
    chance = np.random.default_rng(20260605)
    sizes = []
    past = [episode(f"{at}", 1.0, days_ago=365 * (at + 1) / 250, **_labels(chance)) for at in range(250)]
    columns = filled(past)
    for _ in range(400):
        draw = chance.random(250)
        r = {"coin": np.where(draw < 0.5, 1.0, -1.0), "two to one": np.where(draw < 1 / 3, 2.0, -1.0),
             "normal": chance.standard_normal(250)}[payoff]  # fmt: skip
        columns.r[:250] = r
        now = replace(LONDON, **_labels(chance))
        sizes.append(fast.evidence_columns(columns, asked(now)).hint.f)
    assert np.mean(sizes) <= 0.006
    assert np.mean(np.array(sizes) > 0) <= 0.35


def _labels(chance):
    return {
        "regime": str(chance.choice(["trending_up", "trending_down", "ranging", "volatile"])),
        "volatility_regime": str(chance.choice(["low", "normal", "high"])),
        "session": str(chance.choice(["asia", "london", "overlap", "newyork"])),
    }


# --- what the arrays hold -----------------------------------------------------------------------------------------------


def test_a_row_that_comes_again_replaces_the_one_that_is_here():
    columns = filled([episode("a", 1.0), episode("b", -1.0)])
    columns.put([row(episode("a", 3.0))])
    found = fast.recall_columns(columns, [], [], asked(), fetching([episode("a", 3.0), episode("b", -1.0)]))
    assert [each.id for each in found.ranked] == ["a", "b"] and found.evidence.n == 2
    assert found.evidence.base.mean_r == 1.0


def test_two_versions_of_a_trade_are_each_known_in_their_time():
    first = episode("a", 1.0, days_ago=10, known_to=NOON - 5 * DAY)
    second = episode("a", -2.0, days_ago=10, known_from=NOON - 5 * DAY)
    for moment, r in ((NOON - 7 * DAY, 1.0), (NOON, -2.0)):
        slow, quick = both([first, second], asked(as_of=moment))
        assert_same(slow, quick)
        assert quick.evidence.base.mean_r == r


def test_what_is_forgotten_is_nowhere():
    past = by_chance(50, seed=3)
    columns = filled(past)
    for gone in past[:25]:
        columns.drop(gone.id)
    left = past[25:]
    assert_same(plain.recall_reference(left, [], [], asked()), fast.recall_columns(columns, [], [], asked(), fetching(left)))


def test_arrays_close_up_once_most_rows_are_gone():
    past = by_chance(6000, seed=4)
    columns = filled(past)
    for gone in past[:5000]:
        columns.drop(gone.id)
    left = past[5000:]
    assert columns.n < 2000
    assert_same(plain.recall_reference(left, [], [], asked()), fast.recall_columns(columns, [], [], asked(), fetching(left)))


@given(st.integers(1, 80), st.integers(0, 10**6), st.integers(1, 7))
def test_it_does_not_matter_in_what_portions_and_order_rows_come(n, seed, portion):
    past = by_chance(n, seed)
    shuffled = list(past)
    random.Random(seed).shuffle(shuffled)
    columns = Columns()
    for start in range(0, n, portion):
        columns.put([row(each) for each in shuffled[start : start + portion]])
    assert_same(plain.recall_reference(past, [], [], asked()), fast.recall_columns(columns, [], [], asked(), fetching(past)))


@given(st.integers(0, 60), st.integers(0, 10**6), st.sampled_from([0, 1, 300]), st.sampled_from([None, "XAU", "JPY"]))
def test_the_mask_is_what_was_known(n, seed, days, symbol):
    past = by_chance(n, seed)
    moment = NOON - days * DAY
    columns = filled(past)
    mask = columns.mask(micros(moment), symbol, None)
    wanted = {(e.id, micros(e.known_from)) for e in known_episodes(past, moment) if symbol in (None, e.symbol)}
    assert {(columns.ids[at], int(columns.known_from[at])) for at in np.flatnonzero(mask)} == wanted


def test_what_is_missing_is_marked_and_never_nan():
    columns = filled([episode("a", None, regime=None, session=None, price=None, atr_d1=None, confidence=None)])
    assert not columns.has_r[0] and columns.regime_code[0] == columns.session_code[0] == -1
    assert columns.known_to[0] == OPEN_END and columns.source_r[0] == 0 and columns.side_code[0] == 0
    numbers = [array for array in vars(columns).values() if isinstance(array, np.ndarray) and array.dtype.kind == "f"]
    assert numbers and not any(np.isnan(array[:1]).any() for array in numbers)


def test_later_trades_change_no_answer_about_before():
    past = by_chance(200, seed=5)
    before = NOON - 30 * DAY
    columns = filled(past)
    first = fast.recall_columns(columns, [], [], asked(as_of=before), fetching(past))
    later = [episode(f"later {at}", 5.0, exit_at=before + timedelta(minutes=1 + at)) for at in range(50)]
    columns.put([row(each) for each in later])
    assert fast.recall_columns(columns, [], [], asked(as_of=before), fetching([*past, *later])) == first


@pytest.mark.parametrize("profile", ["owm", "owm-literal", "balanced"])
@given(st.integers(2, 300), st.integers(0, 10**6), st.integers(1, 50), st.sampled_from([None, "XAU", "BTC"]))
@settings(max_examples=25)
def test_answers_are_equal_to_the_last_bit_whatever_the_order_and_portions_of_rows(profile, n, seed, portion, symbol):
    past = by_chance(n, seed)
    chance = random.Random(seed)
    shuffled = chance.sample(past, n)
    columns = Columns()
    for start in range(0, n, portion):
        columns.put([row(each) for each in shuffled[start : start + portion]])
    for each in chance.sample(past, n // 3):  # revised: dropped, and put again with all its versions
        columns.drop(each.id)
        columns.put([row(version) for version in past if version.id == each.id])
    query = asked(profile=profile, symbol=symbol, kelly_beside=True, explain=True)
    in_order = filled(past)
    answer = fast.recall_columns(in_order, [], [], query, fetching(past))
    assert fast.recall_columns(columns, [], [], query, fetching(past)) == answer
    assert tallies(columns, columns.mask(micros(NOON), None, None), True) == tallies(
        in_order, in_order.mask(micros(NOON), None, None), True
    )


def test_rows_stand_in_the_order_of_their_exits_then_ids_then_versions():
    past = by_chance(500, seed=12)
    columns = Columns()
    for each in random.Random(2).sample(past, len(past)):
        columns.put([row(each)])
    live = [at for at in range(columns.n) if columns.known_from[at] != OPEN_END]
    keys = [(int(columns.exit_us[at]), columns.ids[at], int(columns.known_from[at])) for at in live]
    assert keys == sorted(keys) and len(keys) == len({(each.id, each.known_from) for each in past})
