"""Beliefs: what cells of trades say, what may be believed of it, and what an owner states."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtape.core.memory import belief_cells, beliefs
from memtape.core.memory.belief_cells import NO_COUNTS, CellKey, count_cells, count_stated, trades_for_and_against
from memtape.core.memory.belief_formation import beliefs_from_counts
from memtape.core.memory.belief_gate import SHARE_OF_RATE
from memtape.core.memory.beliefs import (
    Beta,
    StatedBelief,
    difference_p_value,
    probability_greater,
    suggested_plans,
)
from memtape.core.memory.episodes import EPISODE_FIELDS, Episode
from memtape.core.memory.predicate import read_predicate
from memtape.core.observed import ANY
from memtape.core.statistics import binomial_tail
from memtape.errors import Invalid
from tests.effort import examples

START = datetime(2026, 1, 5, 8, tzinfo=UTC)
LATER = START + timedelta(days=400)
REGIMES, VOLATILITIES, SESSIONS = ("trending_up", "ranging", "volatile"), ("low", "normal", "high"), ("asia", "london", "overlap")


def trade(n: int, r: float | None, **said) -> Episode:
    """A teaching trade of VB on XAUUSD, an hour after the one before it."""
    at = START + timedelta(hours=n)
    told = dict.fromkeys(EPISODE_FIELDS) | {
        "id": f"t{n:05}", "known_from": at, "kind": "trade", "symbol": "XAUUSD", "strategy": "VB", "side": "long", "tier": 0,
        "claimed": False, "source": "broker", "entry_at": at - timedelta(minutes=30), "exit_at": at, "pnl_r": r,
        "r_source": "stop", "hold_minutes": 30.0, "teach": "learn", "tags": (),
    }  # fmt: skip
    return Episode(**(told | said))


def history(chance: random.Random, n: int, wins: float = 0.45) -> list[Episode]:
    """Trades whose outcome has nothing to do with their situation."""
    return [
        trade(i, 2.0 if chance.random() < wins else -1.0, regime=chance.choice(REGIMES),
              volatility_regime=chance.choice(VOLATILITIES), session=chance.choice(SESSIONS), side=chance.choice(("long", "short")))
        for i in range(n)
    ]  # fmt: skip


def believed(episodes, stated=(), as_of=LATER, claims_count=True):
    return beliefs_from_counts(count_cells(episodes, claims_count), count_stated(stated, episodes, claims_count), as_of)


def told(found, **conditions):
    [belief] = [b for b in found if b.source == "induced" and b.proposition.when == conditions]
    return belief


labels = st.none() | st.sampled_from(["ranging", "volatile", ANY])
outcomes = st.none() | st.sampled_from([-1.0, 0.0, 0.1, 2.0]) | st.floats(-20, 20)
trades = st.builds(
    trade, st.integers(0, 40), outcomes, id=st.sampled_from([f"t{n}" for n in range(60)]), symbol=st.sampled_from(["BTC", "XAUUSD"]),
    strategy=st.sampled_from(["VB", "MR"]), side=st.sampled_from(["long", "short"]), regime=labels, session=labels,
    volatility_regime=labels, claimed=st.booleans(), tier=st.integers(0, 3), kind=st.sampled_from(["trade", "trade", "shadow"]),
    teach=st.sampled_from(["learn", "exclude", "structural"]),
)  # fmt: skip
histories = st.lists(trades, max_size=60, unique_by=lambda e: e.id)


# --- counting -----------------------------------------------------------------------------------------------------------


def test_a_trade_falls_into_its_ten_cells_and_among_those_whose_fields_are_known():
    one = trade(0, 1.0, regime="ranging", volatility_regime="high", session="london")
    cells = [key.conditions for key in belief_cells.cells_of(one) if key != key.known]
    assert len(cells) == 10
    assert (("regime", "ranging"), ("side", "long")) in cells
    assert [key.conditions for key in belief_cells.cells_of(trade(0, 1.0))] == [(), (("side", "long"),), (("side", ANY),)]


def test_a_scratch_tests_a_belief_and_does_not_confirm_it():
    tally = count_cells([trade(0, 0.0), trade(1, 1.0)], True).cells[CellKey("VB", "XAUUSD")]
    assert (tally.n, tally.wins, tally.sum_r, tally.sum_r2) == (2, 1, 1.0, 1.0)
    assert (tally.last_confirmed.id, tally.last_contradicted.id) == ("t00001", "t00000")


@pytest.mark.parametrize(
    "said", [{"kind": "shadow"}, {"teach": "exclude"}, {"teach": "anomaly"}, {"claimed": True}, {"pnl_r": None}], ids=str
)
def test_what_does_not_teach_or_cannot_be_believed_is_not_counted(said):
    assert count_cells([trade(0, 1.0, **said) if "pnl_r" not in said else trade(0, None)], claims_count=False).cells == {}


def test_claims_count_while_there_is_no_broker_and_make_the_belief_as_weak_as_they_are():
    told_by_model = [trade(n, 1.0, claimed=True, tier=3, session="london" if n % 2 else "asia") for n in range(40)]
    assert {b.tier for b in believed(told_by_model)} == {3}
    assert believed(told_by_model, claims_count=False) == []
    assert {b.tier for b in believed([e._replace(tier=0, claimed=False) for e in told_by_model])} == {2}


@given(histories, st.randoms(use_true_random=False))
def test_the_order_in_which_trades_arrive_never_matters(episodes, chance):
    shuffled = list(episodes)
    chance.shuffle(shuffled)
    assert count_cells(shuffled, True) == count_cells(episodes, True)


@given(histories)
def test_each_trade_counts_once_in_each_cell_and_a_second_delivery_changes_nothing(episodes):
    assert count_cells([*episodes, *episodes], True) == count_cells(episodes, True)


def test_a_forgotten_trade_is_gone_from_every_belief_at_once():
    chance = random.Random(5)
    episodes = history(chance, 200)
    without = [e for e in episodes if e.id != "t00100"]
    assert believed([e for e in [*without, episodes[100]] if e.id != "t00100"]) == believed(without)
    assert believed(without) != believed(episodes)


def test_a_belief_can_first_be_said_at_its_tenth_trade():
    episodes = [trade(n, 1.0) for n in range(12)]
    assert believed(episodes[:9]) == []
    assert told(believed(episodes), side="long").since == episodes[9].exit_at


# --- against the base rate ----------------------------------------------------------------------------------------------


def test_the_sentence_gives_counts_interval_and_what_happens_otherwise():
    wins = [1.0] * 21 + [-1.0] * 9
    others = [1.0] * 58 + [-1.0] * 62
    random.Random(1).shuffle(wins)
    episodes = [trade(n, r, session="london") for n, r in enumerate(wins)]
    episodes += [trade(n + 100, r, session="asia") for n, r in enumerate(others)]
    belief = told(believed(episodes), session="london")
    assert belief.sentence == (
        "VB on XAUUSD wins more often in London: 21 of 30 (70 %, 90 % interval 55-82 %) against 48 % of the other 120 trades."
    )
    assert (belief.n, belief.base_n, belief.leaning, belief.posterior) == (30, 120, "more", Beta(22.0, 10.0))
    assert belief.p_value >= difference_p_value(21, 30, 58, 120)
    assert belief.situation.session == "london"
    assert belief.situation.regime == belief.situation.atr_d1 == ANY
    assert (belief.last_confirmed, belief.last_contradicted) == (
        f"t{max(n for n, r in enumerate(wins) if r > 0):05}", f"t{max(n for n, r in enumerate(wins) if r < 0):05}",
    )  # fmt: skip


def test_trades_of_unknown_session_are_neither_inside_nor_outside():
    episodes = [trade(n, 1.0, session="london") for n in range(20)] + [trade(n + 20, -1.0) for n in range(50)]
    belief = told(believed(episodes), session="london")
    assert (belief.base_n, belief.base_rate, belief.p_value, belief.status) == (0, None, None, "candidate")
    assert belief.why == "There are no other trades to compare with."


def test_a_base_rate_from_few_trades_is_not_taken_for_known():
    # 20 of 30 against 3 of 10: were 30 % known, chance would show it once in 30,000 histories.
    assert 2 * binomial_tail(20, 30, 0.3) < 1e-4
    assert difference_p_value(20, 30, 3, 10) == pytest.approx(0.092, abs=0.02)


@given(st.integers(0, 30), st.integers(1, 30), st.integers(0, 30), st.integers(1, 30))
def test_two_counts_differ_as_much_seen_from_either_side(wins, n, other_wins, other_n):
    wins, other_wins = min(wins, n), min(other_wins, other_n)
    there, back = difference_p_value(wins, n, other_wins, other_n), difference_p_value(other_wins, other_n, wins, n)
    mirrored = difference_p_value(n - wins, n, other_n - other_wins, other_n)
    assert there == pytest.approx(back, rel=1e-9) == pytest.approx(mirrored, rel=1e-9)
    assert 0.0 < there <= 1.0
    one, other = Beta(1.0 + wins, 1.0 + n - wins), Beta(1.0 + other_wins, 1.0 + other_n - other_wins)
    assert probability_greater(one, other) + probability_greater(other, one) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize(("n", "other_n", "rate"), [(10, 10, 0.5), (30, 12, 0.33), (40, 200, 0.45), (12, 60, 0.6)])
def test_chance_parts_two_equal_rates_no_more_often_than_the_p_value_says(n, other_n, rate):
    def mass(k, of):
        return binomial_tail(k, of, rate) - binomial_tail(k + 1, of, rate)

    for level in (0.01, 0.05, 0.1):
        rejected = sum(
            mass(a, n) * mass(b, other_n)
            for a in range(n + 1) for b in range(other_n + 1) if difference_p_value(a, n, b, other_n) <= level
        )  # fmt: skip
        assert rejected <= level


def test_against_a_base_of_many_trades_the_probability_is_that_of_a_known_rate():
    assert probability_greater(Beta(8, 4), Beta(500_001, 500_001)) == pytest.approx(Beta(8, 4).probability_above(0.5), abs=1e-4)
    assert probability_greater(Beta(8.5, 4), Beta(6, 6)) == Beta(8.5, 4).probability_above(0.5)


# --- every outcome counts ---------------------------------------------------------------------------------------------


def in_money(n: int, result: float, **said) -> Episode:
    """A trade without a stop, of which only the money is known."""
    return trade(n, None, pnl_usd=result, r_source=None, **said)


def test_a_journal_without_stops_has_beliefs_in_typical_losses():
    chance = random.Random(3)
    episodes = [
        in_money(n, 12.0 if chance.random() < (0.8 if n % 2 else 0.4) else -8.0, session="london" if n % 2 else "asia")
        for n in range(200)
    ]
    belief = next(b for b in believed(episodes) if b.status == "believed")
    assert belief.sentence.startswith("VB on XAUUSD wins more often in London: ")
    assert belief.unit.phrase("USD") == "typical losses of $8.00"
    assert belief.mean_r == pytest.approx((belief.confirmed * 12.0 - belief.contradicted * 8.0) / belief.n / 8.0)


def test_a_trade_with_money_only_counts_among_trades_with_stops_but_not_in_their_mean():
    episodes = [trade(n, 2.0, session="london") for n in range(15)] + [in_money(n + 20, -5.0, session="london") for n in range(15)]
    belief = told(believed(episodes), session="london")
    assert (belief.confirmed, belief.contradicted, belief.mean_r, belief.unit.source) == (15, 15, 2.0, "stop")


def test_one_signal_counts_once_however_many_trades_it_was_split_into():
    pieces = [trade(n, r, id=f"t{n:05}-{k}", session="london") for n in range(12) for k, r in enumerate((3.0, -1.0, -1.0))]
    belief = told(believed(pieces), session="london")
    assert (belief.n, belief.confirmed, belief.mean_r) == (12, 12, pytest.approx(1 / 3))
    confirming, against = trades_for_and_against(belief, pieces, True)
    assert (confirming, against) == ([f"t{n:05}-2" for n in range(12)], [])


def test_a_stated_belief_about_an_amount_of_r_needs_trades_that_have_r():
    episodes = [trade(n, 2.0 if n % 2 else -1.0, session="london") for n in range(20)] + [in_money(30, 900.0, session="london")]
    above, positive = (says({"session": "london"}, id=f"s{value}", value=value) for value in (1.5, 0.0))
    found = {b.id: b for b in believed(episodes, [above, positive]) if b.source == "seeded"}
    assert (found["s1.5"].n, found["s0.0"].n, found["s0.0"].confirmed) == (20, 21, 11)


# --- one edge, one belief ------------------------------------------------------------------------------------------------


def planted(chance: random.Random, n: int, edge: dict[str, str], wins: float = 0.45, more: float = 0.3) -> list[Episode]:
    """A history in which trades in some conditions win more often."""
    return [
        e._replace(pnl_r=2.0 if chance.random() < wins + more else -1.0)
        if all(getattr(e, name) == label for name, label in edge.items()) else e
        for e in history(chance, n, wins)
    ]  # fmt: skip


@pytest.mark.parametrize("edge", [{"regime": "trending_up"}, {"session": "london"}, {"side": "short"}], ids=str)
def test_one_edge_gives_one_belief_and_not_its_mirror_images(edge):
    chance = random.Random(20)
    for _ in range(4):
        found = [b for b in believed(planted(chance, 1000, edge)) if b.status == "believed"]
        assert edge in [b.proposition.when for b in found] or edge == {"side": "short"}
        assert len(found) <= 2
        mirrors = [b for b in found if b.leaning == "less" and set(b.proposition.when) == set(edge)]
        assert not mirrors or (edge == {"side": "short"} and len(found) == 1)  # of two sides one says what the other does


def test_an_edge_of_two_conditions_together_is_believed_of_the_pair():
    chance = random.Random(21)
    found = [b for b in believed(planted(chance, 1000, {"session": "london", "side": "long"}, more=0.4)) if b.status == "believed"]
    assert [b.proposition.when for b in found] == [{"session": "london", "side": "long"}]


def test_two_edges_of_different_fields_are_two_beliefs():
    chance = random.Random(22)
    episodes = planted(chance, 2000, {"regime": "trending_up"}, wins=0.4)
    both = [e._replace(pnl_r=-1.0) if e.session == "asia" and chance.random() < 0.6 else e for e in episodes]
    found = {str(b.proposition.when): b.leaning for b in believed(both) if b.status == "believed"}
    assert found["{'regime': 'trending_up'}"] == "more"
    assert found["{'session': 'asia'}"] == "less"
    assert len(found) <= 3


def test_the_trades_of_a_belief_are_left_out_of_the_base_of_others():
    chance = random.Random(23)
    found = believed(planted(chance, 1000, {"regime": "trending_up"}))
    ranging = told(found, regime="ranging")
    assert ranging.base_n == told(found, regime="volatile").n
    assert ranging.status != "believed"
    assert ranging.sentence.endswith(" trades that no other belief covers.")


def test_a_run_of_luck_that_lasts_as_long_as_a_regime_is_not_taken_for_an_edge_of_it():
    # Regime and luck change every ten trades. A ranging market had five good runs of nine, a volatile one three of nine.
    lucky = {"ranging": "+-+-+--++", "volatile": "--+-+-+--"}
    chance = random.Random(24)
    runs = [(regime, luck) for pair in zip(*lucky.values(), strict=True) for regime, luck in zip(lucky, pair, strict=True)]
    episodes = [
        trade(10 * run + n, 1.0 if chance.random() < (0.9 if luck == "+" else 0.1) else -1.0, regime=regime)
        for run, (regime, luck) in enumerate(runs) for n in range(10)
    ]  # fmt: skip
    inside = [e for e in episodes if e.regime == "ranging"]
    wins = [sum(e.pnl_r > 0 for e in part) for part in (inside, [e for e in episodes if e.regime != "ranging"])]
    assert difference_p_value(wins[0], 90, wins[1], 90) < 0.05
    assert [b.sentence for b in believed(episodes) if b.status == "believed"] == []


def test_where_a_label_lasts_luck_is_looked_for_in_blocks_as_long_as_its_runs():
    episodes = [
        trade(n, 1.0 if n % 2 else -1.0, regime=("ranging", "volatile")[n // 75 % 2], session=("asia", "london")[n // 3 % 2])
        for n in range(300)
    ]
    cells = count_cells(episodes, True).cells
    known = {names: CellKey("VB", "XAUUSD", tuple((name, ANY) for name in names)) for names in belief_cells.GROUPINGS}
    blocks = {names: cells[key].inside_blocks.blocks for names, key in known.items() if key in cells}
    assert blocks["session",] == 20 and blocks["regime",] == 6 and blocks["regime", "session"] == 6
    # A belief that the owner states is judged in the same way.
    [stated] = count_stated([says({"regime": "ranging"})], episodes, True)
    assert stated.inside.inside_blocks.blocks + stated.inside.outside_blocks.blocks <= 2 * 6


# --- the gate -----------------------------------------------------------------------------------------------------------


@pytest.mark.soak
def test_outcomes_dealt_out_by_chance_are_believed_in_at_most_one_history_in_ten():
    chance = random.Random(20260605)
    episodes, fooled, runs = history(chance, 400), 0, examples(40, 200)
    results = [e.pnl_r for e in episodes]
    for _ in range(runs):
        chance.shuffle(results)
        dealt = [e._replace(pnl_r=r) for e, r in zip(episodes, results, strict=True)]
        fooled += any(b.status == "believed" for b in believed(dealt))
    assert fooled <= runs / 8  # one in ten is expected at most; one in eight leaves room for the sample's own chance


def test_an_edge_planted_in_one_cell_is_found_there_and_nowhere_unrelated():
    chance = random.Random(7)
    planted = [
        e._replace(pnl_r=2.0 if chance.random() < 0.8 else -1.0) if (e.session, e.side) == ("london", "long") else e
        for e in history(chance, 600)
    ]
    found = believed(planted)
    assert told(found, session="london", side="long").status == "believed"
    assert told(found, session="london", side="long").leaning == "more"
    unrelated = [b for b in found if b.status == "believed" and not {"london", "long"} & set(b.proposition.when.values())]
    assert [b.sentence for b in unrelated if b.leaning == "more"] == []


def test_thirty_trades_are_needed_however_clear_they_are():
    clear = [trade(n, 1.0, session="london") for n in range(29)] + [trade(n + 50, -1.0, session="asia") for n in range(28)]
    belief = told(believed(clear), session="london")
    assert (belief.status, belief.why) == ("candidate", "29 trades so far; 30 are needed.")
    assert told(believed([*clear, trade(29, 1.0, session="london")]), session="london").status == "believed"


# --- merged, split, retired ---------------------------------------------------------------------------------------------


def test_a_strategy_that_is_only_ever_long_in_london_has_one_belief_of_it():
    episodes = [
        trade(n, 1.0 if n % 3 else -1.0, session="london" if n % 2 else "asia", side="long" if n % 2 else "short")
        for n in range(80)
    ]
    found = believed(episodes)
    session, side, pair = told(found, session="london"), told(found, side="long"), told(found, session="london", side="long")
    assert (side.status, side.related) == ("merged", (session.id,))
    assert (pair.status, pair.related) == ("merged", (session.id,))
    assert session.status != "merged"


def test_a_condition_that_nine_in_ten_trades_share_adds_nothing_to_the_other():
    episodes = [
        trade(n, 1.0 if n % 2 else -1.0, session="london" if n < 40 else "asia", regime="ranging" if n % 20 else "volatile")
        for n in range(120)
    ]
    found = believed(episodes)
    assert told(found, session="london", regime="ranging").related == (told(found, session="london").id,)
    assert told(found, session="london").status != "merged"


def test_merging_always_ends_at_a_belief_that_stands():
    chance = random.Random(3)
    for _ in range(20):
        named = {"long": ("london", "trending_up"), "short": ("asia", "ranging")}  # three names of one thing
        episodes = [e._replace(session=named[e.side][0], regime=named[e.side][1]) for e in history(chance, 120)]
        found = {b.id: b for b in believed(episodes)}
        ends = [found[into].status for b in found.values() if b.status == "merged" for into in b.related]
        assert ends
        assert "merged" not in ends


def test_london_that_wins_long_and_loses_short_is_split_by_side():
    episodes = [trade(n, 1.0 if n % 5 else -1.0, session="london") for n in range(50)]
    episodes += [trade(n + 50, -1.0 if n % 5 else 1.0, session="london", side="short") for n in range(50)]
    episodes += [trade(n + 100, 1.0 if n % 2 else -1.0, session="asia", side=("long", "short")[n // 2 % 2]) for n in range(100)]
    found = believed(episodes)
    london = told(found, session="london")
    assert london.status == "split"
    assert london.why == "It splits by side: long wins 80 % of 50, short 20 % of 50; the other 100 trades win 50 %."
    assert set(london.related) == {told(found, session="london", side=side).id for side in ("long", "short")}
    assert told(found, session="asia").status != "split"


def test_a_cell_like_all_others_after_a_hundred_trades_is_retired():
    episodes = [trade(n, 1.0 if n // 2 % 2 else -1.0, session="london" if n % 2 else "asia") for n in range(240)]
    belief = told(believed(episodes), session="london")
    assert (belief.status, belief.why) == ("retired", "No difference seen in 120 trades.")


def test_what_nobody_has_tested_for_years_is_retired_and_one_trade_brings_it_back():
    episodes = [trade(n, 1.0, session="london") for n in range(40)] + [trade(n + 50, -1.0, session="asia") for n in range(40)]
    years_on = START + timedelta(days=5 * 365)
    old = told(believed(episodes, as_of=years_on), session="london")
    assert (old.status, old.why) == ("retired", "No trade has tested it since 2026-01-06.")
    fresh = trade(99, 1.0, session="london", exit_at=years_on, known_from=years_on)
    assert told(believed([*episodes, fresh], as_of=years_on), session="london").status == "believed"


# --- stated -------------------------------------------------------------------------------------------------------------


def says(when, **said) -> StatedBelief:
    return StatedBelief(**({"id": "s1", "sentence": "Breakouts work in a trend.", "when": when, "stated_at": START} | said))


@pytest.mark.parametrize(
    ("when", "problem"),
    [
        ({}, "validity_conditions: says nothing. Say when it holds"),
        ({"type": "market"}, "validity_conditions: says nothing"),
        ({"strategy": "VB"}, "validity_conditions: names a strategy or a symbol only"),
        ({"field": "regime", "op": "changed"}, "validity_conditions: changed needs the tick before"),
        ({"colour": "red"}, "validity_conditions.colour.field: there is no field 'colour'"),
        ({"equity": 3}, "there is no field 'equity'"),
    ],
    ids=str,
)
def test_a_belief_without_conditions_that_trades_can_test_is_refused(when, problem):
    with pytest.raises(Invalid) as refused:
        says(when)
    assert problem in str(refused.value)


def test_a_stated_belief_is_counted_apart_from_what_its_owner_put_in():
    episodes = [trade(n, 1.0 if n % 4 else -1.0, regime="trending_up" if n < 40 else "ranging") for n in range(80)]
    episodes.append(trade(90, 1.0))  # regime unknown: neither inside nor outside
    [belief] = [b for b in believed(episodes, [says({"regime": "trending_up"})]) if b.source == "seeded"]
    assert (belief.prior, belief.confirmed, belief.contradicted, belief.base_n) == (Beta(2.0, 1.0), 30, 10, 40)
    assert belief.posterior == Beta(32.0, 11.0)
    assert (belief.status, belief.situation.regime, belief.situation.session, belief.tier) == ("candidate", "trending_up", ANY, 1)
    assert (
        belief.sentence
        == "Breakouts work in a trend: confirmed by 30 of 40 trades (75 %, 90 % interval 62-84 %) against 75 % of the 40 other trades."
    )


def test_a_stated_belief_that_trades_bear_out_is_believed_and_one_they_contradict_is_retired():
    episodes = [trade(n, 1.0 if n % 5 else -1.0, regime="trending_up") for n in range(50)]
    episodes += [trade(n + 50, -1.0 if n % 5 else 1.0, regime="ranging") for n in range(50)]
    stated = [says({"regime": "trending_up"}), says({"regime": "ranging"}, id="s2", sentence="Ranges pay")]
    right, wrong = (b for b in believed(episodes, stated) if b.source == "seeded")
    assert (right.status, wrong.status) == ("believed", "retired")
    assert wrong.why == "10 of 50 trades confirm it: the probability that it is right is less than 1 %."


def test_a_stated_belief_may_speak_of_hold_times_and_numbers_at_entry():
    episodes = [trade(n, 1.0, atr_d1=100.0 + n, hold_minutes=float(n)) for n in range(30)]
    when = {"field": "atr_d1", "op": "gt", "value": 109.0}
    stated = says(when, metric="hold_minutes", op="le", value=20.0)
    [belief] = [b for b in believed(episodes, [stated]) if b.source == "seeded"]
    assert (belief.confirmed, belief.contradicted, belief.base_n, belief.mean_r) == (11, 9, 10, None)


def test_what_is_stated_later_is_not_yet_believed():
    stated = says({"regime": "ranging"}, stated_at=START + timedelta(days=30))
    assert believed([], [stated], as_of=START) == []
    [belief] = believed([], [stated])
    assert belief.sentence == "Breakouts work in a trend: not tested yet."


# --- evidence and plans -------------------------------------------------------------------------------------------------


@given(histories, st.booleans())
def test_the_evidence_of_a_belief_is_what_was_counted_each_trade_once(episodes, claims_count):
    many = [e._replace(id=f"{e.id}-{n}") for n in range(4) for e in episodes]
    stated = [
        says({"any": [{"regime": "ranging"}, {"not": {"session": "ranging"}}]}),
        says({"side": "long"}, id="s2", symbol="BTC"),
    ]
    for belief in believed(many, stated, claims_count=claims_count):
        confirming, against = trades_for_and_against(belief, [*many, *many], claims_count)
        assert (len(confirming), len(against)) == (belief.confirmed, belief.contradicted)
        assert len({*confirming, *against}) == belief.n
        if confirming:
            assert confirming[-1] == belief.last_confirmed


def test_what_wins_less_often_suggests_half_the_size_and_what_loses_money_none():
    def session(start, n, wins, win, name):
        return [trade(start + i, win if i * wins // n != (i + 1) * wins // n else -1.0, session=name) for i in range(n)]

    costly = session(0, 60, 6, 1.0, "asia") + session(100, 100, 60, 1.0, "london")
    modest = session(0, 60, 18, 4.0, "asia") + session(100, 100, 60, 1.0, "london")
    [skip], [half] = suggested_plans(believed(costly), None), suggested_plans(believed(modest), None)
    assert skip["planned_action"] == {"type": "skip_trade"}
    assert half["planned_action"] == {"type": "reduce", "size_factor": 0.5}
    assert half["trigger_condition"] == {"all": [{"strategy": "VB", "symbol": "XAUUSD"}, {"session": "asia"}]}
    assert read_predicate(half["trigger_condition"])
    assert half["reasoning"].startswith("VB on XAUUSD wins less often in Asia: 18 of 60")
    assert half["sources"] == [told(believed(modest), session="asia").id]


def test_a_drawdown_beyond_fifteen_percent_suggests_half_the_size():
    assert suggested_plans([], 0.15) == suggested_plans([], None) == []
    [plan] = suggested_plans([], 0.18)
    assert read_predicate(plan["trigger_condition"])
    assert plan["reasoning"] == "The drawdown is 18 %: half the size until it is 15 % again."


def test_ids_and_order_of_beliefs_do_not_depend_on_anything_but_their_cells():
    chance = random.Random(11)
    first, second = believed(history(chance, 300)), believed(history(chance, 300))
    assert [b.id for b in first] == [b.id for b in second]
    assert len({b.id for b in first}) == len(first)
    assert beliefs_from_counts(NO_COUNTS, (), LATER) == []
    assert beliefs.mean_edge_of_sums(2, 1.0, 5.0).mean == pytest.approx(1 / 12)


def test_the_reason_of_a_status_agrees_with_it_and_one_condition_is_believed_more_easily_than_two():
    """One condition has 8 of the 10 percent that may be false, pairs have 2."""
    found = [one for seed in range(12) for one in believed(planted(random.Random(seed), 300, {"regime": "trending_up"}, more=0.2))]
    judged = [one for one in found if "rare enough" in one.why]
    assert {one.status for one in judged} >= {"believed", "candidate"}
    for one in judged:
        assert ("not rare enough" in one.why) == (one.status != "believed"), one.why
    assert SHARE_OF_RATE == {1: 0.8, 2: 0.2}
