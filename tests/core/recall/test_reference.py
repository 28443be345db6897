"""Recall: what is ranked, what warns, and what all trades together say."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtape.core.memory.predicate import read_predicate
from memtape.core.observed import Situation
from memtape.core.original import score_formulas
from memtape.core.recall import evidence, scoring, sizing
from memtape.core.recall.evidence import rounded
from memtape.core.recall.query import AffectContext, Query, RecallParameters
from memtape.core.recall.reference import recall_reference
from memtape.errors import Invalid
from tests.columns.memories import DAY, LONDON, NOON, Plan, asked, belief, by_chance, episode, queries

GOLDEN = json.loads((Path(__file__).parents[2] / "golden/recall_owm.json").read_text())
ASIA = Situation(symbol="XAU", regime="ranging", volatility_regime="low", session="asia", price=3000.0, atr_d1=30.0, atr_h1=6.0)
pasts = st.builds(by_chance, st.integers(0, 40), st.integers(0, 10**6))


def ids(ranked):
    return [each.id for each in ranked]


# --- the pinned answer --------------------------------------------------------------------------------------------------


def pinned_query():
    said = GOLDEN["query"]
    return Query(
        situation=Situation(**said["situation"]), as_of=datetime.fromisoformat(said["as_of"]), affect=AffectContext(*said["mood"])
    )


def pinned_episode(told):
    at = datetime.fromisoformat(told["exit_at"])
    return episode(told["id"], told["pnl_r"], exit_at=at, confidence=told["confidence"], **told["situation"])


def test_the_default_profile_answers_as_it_is_pinned():
    found = recall_reference([pinned_episode(each) for each in GOLDEN["episodes"]], [], [], pinned_query())
    assert len(found.ranked) == len(GOLDEN["ranked"]) and len(found.warnings) == len(GOLDEN["warnings"])
    for got, want in zip(found.ranked, GOLDEN["ranked"], strict=True):
        factors = got.components
        assert (got.id, got.why) == (want["id"], want["why"])
        assert [factors.quality, factors.similarity, factors.recency, factors.confidence, factors.affect] == pytest.approx(
            want["components"], rel=1e-9
        )
        assert got.score == pytest.approx(want["score"], rel=1e-9)
    assert ids(found.warnings) == [each["id"] for each in GOLDEN["warnings"]]
    assert [each.severity for each in found.warnings] == pytest.approx([w["severity"] for w in GOLDEN["warnings"]], rel=1e-9)
    figures = rounded(found.evidence)
    assert {name: getattr(figures, name) for name in ("n", "n_eff", "win_rate", "mean_r", "median_r")} == {
        name: GOLDEN["evidence"][name] for name in ("n", "n_eff", "win_rate", "mean_r", "median_r")
    }
    assert list(figures.mean_r_interval) == GOLDEN["evidence"]["mean_r_interval"]


# --- ranked -------------------------------------------------------------------------------------------------------------


@given(pasts, queries())
def test_the_components_of_a_score_multiply_to_it(past, query):
    for each in recall_reference(past, [belief()], [], query).ranked:
        factors = each.components
        product = factors.quality * factors.similarity * factors.recency * factors.confidence * factors.affect * factors.sharpe
        assert each.score == product


@given(pasts, queries(), st.integers(0, 12), st.integers(0, 12))
def test_the_first_places_do_not_depend_on_how_many_are_asked_for(past, query, few, more):
    query = replace(query, profile="owm" if query.profile == "balanced" else query.profile)
    beliefs = [belief(f"b{at}", 20 + at, 1) for at in range(5)]
    short, long = (recall_reference(past, beliefs, [], replace(query, limit=n)).ranked for n in (few, few + more))
    assert ids(long)[: len(short)] == ids(short)


@given(pasts, queries())
def test_no_model_and_no_text_fills_the_list_and_beliefs_take_under_a_third(past, query):
    beliefs = [belief(f"b{at}", 20, 1, tier=2, symbol=None, strategy=None) for at in range(5)]
    found = recall_reference(past, beliefs, [], replace(query, profile="owm")).ranked
    for k in range(1, len(found) + 1):
        by_source = Counter(
            each.source for each in found[:k] if each.tier >= 3 and not (query.claims_count and each.memory.claimed)
        )
        assert max(by_source.values(), default=0) <= max(1, 0.4 * k + 1e-9)
        if any(each.kind != "semantic" for each in found[k:]):  # beliefs fill only what nothing else may have
            assert sum(each.kind == "semantic" for each in found[:k]) <= max(1, 0.3 * k + 1e-9)


def test_an_agent_without_a_broker_recalls_all_that_it_reported_itself():
    past = [episode(f"{at}", 1.0 - at % 3, days_ago=1 + at, tier=3, claimed=True, source="agent") for at in range(20)]
    found = recall_reference(past, [], [], asked(claims_count=True))
    assert (len(found.ranked), len(found.warnings)) == (10, 5)
    assert len(recall_reference(past, [], [], asked(claims_count=False)).ranked) == 1


def test_trades_of_the_broker_may_fill_the_list():
    past = [episode(f"{at}", 1.0, days_ago=1 + at) for at in range(20)]
    assert len(recall_reference(past, [], [], asked()).ranked) == 10


def test_equal_memories_come_newest_first_then_by_id():
    past = [episode("b", 1.0), episode("a", 1.0), episode("c", 1.0)]
    assert ids(recall_reference(past, [], [], asked()).ranked) == ["a", "b", "c"]


def test_filters_are_exact():
    past = [episode("gold"), episode("fade", strategy="fade"), episode("coin", symbol="BTC")]
    assert ids(recall_reference(past, [], [], asked(symbol="XAU", strategy="breakout")).ranked) == ["gold"]
    assert recall_reference(past, [], [], asked(symbol="XA")).ranked == ()


def test_a_trade_is_not_known_before_its_exit():
    past = [episode("later", exit_at=NOON + DAY), episode("now", exit_at=NOON)]
    assert ids(recall_reference(past, [], [], asked()).ranked) == ["now"]


def test_a_claimed_fifty_r_counts_as_nothing_once_there_is_a_broker():
    past = [episode(f"{at}", (-1.0, 2.0)[at % 2], days_ago=1 + at) for at in range(30)]
    planted = episode("claim", 50.0, claimed=True, tier=3, source="model", r_source="stated")
    without, with_it = (recall_reference(all, [], [], asked(claims_count=False, limit=40)) for all in (past, [*past, planted]))
    claim = next(each for each in with_it.ranked if each.id == "claim")
    assert claim.components.quality == 0.5 and "unverified" in claim.why
    assert with_it.evidence == replace(without.evidence, n_claimed=1)
    believed = recall_reference([*past, planted], [], [], asked(limit=40))
    assert believed.ranked[0].id == "claim" and believed.evidence.base.mean_r > 2


def test_a_trade_of_another_symbol_is_compared_in_shares_of_its_price():
    twin = episode("twin", symbol="BTC", price=51750.0, atr_d1=1120.0, atr_h1=215.0)
    stranger = episode("stranger", symbol="BTC", price=51750.0, atr_d1=112.0, atr_h1=21.5)
    found = {each.id: each.components.similarity for each in recall_reference([twin, stranger], [], [], asked()).ranked}
    assert found["twin"] == pytest.approx(0.95)  # the price itself says nothing across symbols
    assert found["stranger"] < 0.75


def test_a_shadow_may_be_shown_and_says_what_it_is_but_is_no_evidence():
    found = recall_reference([episode("shadow", 2.0, kind="shadow"), episode("trade", 1.0)], [], [], asked())
    assert ids(found.ranked) == ["shadow", "trade"] and "was not traded and would have won 2R" in found.ranked[0].why
    assert (found.evidence.n, found.evidence.shadows.n, found.evidence.shadows.mean_r) == (1, 1, 2.0)


def test_in_a_drawdown_big_losses_come_nearer_and_a_streak_hides_nothing():
    past = [episode("big", -3.0), episode("small", -1.0)]
    down = recall_reference(past, [], [], asked(affect=AffectContext(drawdown_state=0.6))).ranked
    streak = recall_reference(past, [], [], asked(affect=AffectContext(consecutive_losses=5))).ranked
    assert {each.id: each.components.affect for each in down} == {"big": 1.15, "small": 1.0}
    assert {each.components.affect for each in streak} == {1.0}


def test_citations_strengthen_a_memory_by_a_quarter_at_most():
    query = asked(parameters=RecallParameters(strength="on"), times_shown={"cited": 10**6})
    found = recall_reference([episode("cited"), episode("plain")], [], [], query).ranked
    assert found[0].components.recency == pytest.approx(1.25 * found[1].components.recency)


def test_the_sharpe_weight_looks_at_the_weeks_before_and_not_at_the_trade_itself():
    good = [episode(f"g{at}", 1.0 + at % 2, days_ago=60 + at) for at in range(20)]
    past = [*good, episode("after a good month", -1.0, days_ago=59)]
    found = recall_reference(past, [], [], asked(parameters=RecallParameters(sharpe="on"), limit=40)).ranked
    weights = {each.id: each.components.sharpe for each in found}
    assert weights["after a good month"] == 2.0 and weights["g19"] == 1.0


def test_the_original_form_ranks_beliefs_in_one_list_with_q_one_half():
    past = [episode(f"{at}", (2.0, -1.0)[at % 2], days_ago=1 + at) for at in range(8)]
    found = recall_reference(past, [belief()], [], asked(profile="owm-literal")).ranked
    candidates = [
        scoring.ScoringInput(id=e.id, formed=e.exit_at, situation=e.situation, pnl_r=e.pnl_r, confidence=e.confidence)
        for e in past
    ]
    seed = score_formulas.rank_7_4(candidates, LONDON, scoring.AffectInputs(), NOON)
    assert [each.id for each in found if each.kind == "episodic"] == [each.candidate.id for each in seed]
    assert next(each for each in found if each.kind == "semantic").components.quality == 0.5


def test_balanced_recall_gives_losses_seats_and_beliefs_a_list_of_their_own():
    past = [episode(f"w{at}", 3.0, days_ago=1) for at in range(20)] + [episode("l", -0.1, days_ago=200)]
    found = recall_reference(past, [belief()], [], asked(profile="balanced"))
    assert "l" in ids(found.ranked) and ids(found.beliefs) == ["b"]


def test_a_belief_is_scored_by_its_posterior_its_conditions_and_when_it_was_last_tested():
    found = recall_reference(
        [], [belief(), belief("retired", status="retired"), belief("other", symbol="BTC")], [], asked(symbol="XAU")
    )
    (only,) = found.ranked
    assert (only.id, only.kind, only.n) == ("b", "semantic", 20)
    assert only.components.quality == pytest.approx(15 / 22)
    assert only.components.similarity == pytest.approx(1.0)
    assert only.components.recency == pytest.approx((1 + 3 / 180) ** -0.3)
    elsewhere = belief("elsewhere", situation=replace(belief().situation, regime="ranging"))
    (faded,) = recall_reference([], [elsewhere], [], asked()).ranked
    assert faded.components.recency == pytest.approx(0.3 * (1 + 3 / 180) ** -0.3)


def test_plans_are_recalled_when_they_are_asked_for():
    query = asked(memory_types=("prospective",))
    (found,) = recall_reference([episode("a", 3.0)], [], [Plan("p", source_ids=("a",))], query).ranked
    assert (found.id, found.kind) == ("p", "prospective")
    assert found.components.quality == pytest.approx(0.8 * scoring.outcome_quality(3.0))
    assert recall_reference([], [], [Plan("p")], asked()).ranked == ()


def test_a_near_miss_says_what_cost_it_its_place():
    past = [
        episode("kept", 2.0),
        episode("worse", -2.0),
        episode("older", 2.0, days_ago=90),
        episode("elsewhere", 2.0, regime="ranging"),
    ]
    missed = {each.id: each.why for each in recall_reference(past, [], [], asked(limit=1, explain=True)).near_misses}
    assert missed.keys() == {"worse", "older", "elsewhere"}
    assert "outcome" in missed["worse"] and "older" in missed["older"] and "situation" in missed["elsewhere"]
    crowd = [episode(f"m{at}", 3.0, tier=3, source="model") for at in range(3)]
    assert "share" in recall_reference([*crowd, *past], [], [], asked(limit=3, explain=True)).near_misses[0].why


def test_each_memory_says_in_a_sentence_why_it_is_there():
    past = [episode("a", 2.4, days_ago=3, volatility_regime="low", atr_d1=116.5)]
    (found,) = recall_reference(past, [], [], asked()).ranked
    assert found.why == (
        "XAU long won 2.4R 3 days ago in the same regime and session (trending up, London; low volatility then, "
        "high volatility now); ATR 4 % higher than now"
    )


# --- warnings -----------------------------------------------------------------------------------------------------------


def test_the_worst_loss_in_a_like_situation_is_told_first():
    past = [episode("small", -1.0), episode("big", -4.0, days_ago=200), episode("won", 3.0), episode("far", -9.0, **_elsewhere())]
    assert ids(recall_reference(past, [], [], asked()).warnings) == ["big", "small"]


def test_without_a_like_loss_the_nearest_is_told_as_far():
    past = [episode("far", -9.0, **_elsewhere()), episode("nearer", -0.5, **(_elsewhere() | {"session": "london"}))]
    (found,) = recall_reference(past, [], [], asked()).warnings
    assert (found.id, found.far) == ("nearer", True)


@given(pasts, queries())
def test_whoever_has_lost_is_warned(past, query):
    query = replace(query, warnings_limit=max(1, query.warnings_limit))
    found = recall_reference(past, [], [], query)
    known_losses = [
        e for e in past
        if e.teaches and any(x is not None and x < 0 for x in (e.pnl_r, e.pnl_usd)) and (query.claims_count or not e.claimed)
        and query.asks_for(e.symbol, e.strategy) and e.exit_at <= query.as_of and e.known_from <= query.as_of
        and (e.known_to is None or e.known_to > query.as_of)
    ]  # fmt: skip
    assert bool(found.warnings) == bool(known_losses)
    assert all(each.far or each.similarity >= 0.6 for each in found.warnings)


def test_what_the_owner_set_aside_and_what_was_never_traded_do_not_warn():
    past = [episode("aside", -5.0, teach="exclude"), episode("shadow", -5.0, kind="shadow"), episode("claim", -5.0, claimed=True)]
    assert recall_reference(past, [], [], asked(claims_count=False)).warnings == ()


def test_one_model_does_not_fill_the_warnings():
    past = [episode(f"m{at}", -3.0 - at, tier=3, source="model") for at in range(9)] + [episode("t", -1.0), episode("u", -1.1)]
    assert [each.source for each in recall_reference(past, [], [], asked()).warnings] == ["model", "broker", "broker"]


def _elsewhere():
    return {name: getattr(ASIA, name) for name in ("regime", "volatility_regime", "session", "price", "atr_d1", "atr_h1")}


# --- evidence -----------------------------------------------------------------------------------------------------------


@given(pasts, queries(), st.randoms(use_true_random=False))
def test_shuffled_outcomes_leave_the_weights_of_evidence_as_they_were(past, query, chance):
    outcomes = [each.pnl_r for each in past]
    chance.shuffle(outcomes)
    shuffled = [each._replace(pnl_r=r) for each, r in zip(past, outcomes, strict=True)]
    assert [evidence.trade_weight(each, query) for each in past] == [evidence.trade_weight(each, query) for each in shuffled]


@given(st.lists(st.sampled_from([-1.0, -2.0, 0.0, 1.5, 3.0]), min_size=1, max_size=60), st.integers(0, 10**6))
def test_the_hint_is_the_lower_bound_of_the_evidence(outcomes, seed):
    chance = random.Random(seed)
    past = [episode(f"{at}", r, days_ago=chance.random() * 300, confidence=chance.random()) for at, r in enumerate(outcomes)]
    query = asked(affect=AffectContext(risk_appetite=0.6))
    wanted = sizing.lower_bound_size([(evidence.trade_weight(e, query), e.pnl_r) for e in past], 0.6)
    found = recall_reference(past, [], [], query).evidence.hint
    assert rounded(found.sizing) == rounded(wanted)
    assert found.reasons


@given(pasts, queries())
def test_the_order_in_which_trades_come_changes_no_figure(past, query):
    assert rounded(recall_reference(past[::-1], [], [], query).evidence) == rounded(
        recall_reference(past, [], [], query).evidence
    )


def test_fewer_than_ten_effective_trades_get_no_size_and_ten_may():
    winners = [episode(f"{at}", 2.0) for at in range(10)]
    assert recall_reference(winners[:9], [], [], asked()).evidence.hint.f == 0.0
    assert recall_reference(winners, [], [], asked()).evidence.hint.f > 0.0


def test_r_from_atr_speaks_where_stops_are_few_and_is_never_mixed_in():
    stops = [episode(f"s{at}", 1.0) for at in range(12)]
    by_atr = [episode(f"a{at}", -1.0, r_source="atr_proxy") for at in range(30)]
    many = recall_reference([*stops, *by_atr], [], [], asked()).evidence
    few = recall_reference([*stops[:3], *by_atr], [], [], asked()).evidence
    assert (many.r_source, many.n, many.mean_r) == ("stop", 12, 1.0)
    assert (few.r_source, few.n, few.mean_r) == ("atr_proxy", 30, -1.0)
    assert few.hint.f == 0.0 and few.hint.sizing.n_eff == 3.0


def test_the_figures_of_four_equal_trades():
    found = recall_reference([episode(f"{at}", r) for at, r in enumerate((-2.5, -1.0, 0.5, 4.0))], [], [], asked()).evidence
    assert found.n == 4 and found.n_eff == pytest.approx(4.0)
    assert (found.win_rate, found.mean_r, found.median_r) == pytest.approx((0.5, 0.25, -0.25))
    assert found.mean_r_interval == pytest.approx((-3.02574, 3.52574), abs=1e-5)  # t(3) = 2.35336, s = 2.78388
    assert rounded(found.distribution) == {
        "<=-2R": 1.0,
        "-2R..-1R": 1.0,
        "-1R..0": 0.0,
        "0": 0.0,
        "0..1R": 1.0,
        "1R..2R": 0.0,
        ">2R": 1.0,
    }
    assert (found.worst_r, found.worst_id) == (-2.5, "0")
    assert found.base == evidence.BaseRate(4, 0.5, 0.25)


def test_kelly_of_the_original_bets_on_a_coin_and_is_shown_with_a_warning():
    coin = [episode(f"{at}", (1.0, -1.0)[at % 2], days_ago=10.0) for at in range(50)]
    found = recall_reference(coin, [], [], asked(kelly_beside=True)).evidence
    assert found.hint.f == 0.0
    assert found.beside[0].f == pytest.approx(0.190399, abs=1e-6) and "fair coin" in found.beside[0].warning
    assert found.beside[1].f == 0.0


def test_a_claim_is_counted_and_said_to_be_one():
    found = recall_reference([episode("c", 1.0, claimed=True, r_source="stated")], [], [], asked())
    assert (found.evidence.n, found.evidence.n_claimed, found.evidence.r_source) == (1, 1, "stated")
    assert "as claimed" in found.ranked[0].why


# --- what could be tested, and what cannot be asked ---------------------------------------------------------------------


def test_undecided_beliefs_that_the_situation_could_test_are_named_with_a_plan():
    beliefs = [
        belief("even", 5, 5, probability=0.5), belief("leaning", 8, 4, probability=0.75), belief("new", 0, 0, probability=None),
        belief("asia", proposition=replace(belief().proposition, when={"session": "asia"})), belief("known", 60, 5, status="believed"),
        belief("coin", symbol="BTC"), belief("later", 9, 1, probability=0.9),
    ]  # fmt: skip
    found = recall_reference([], beliefs, [], asked()).worth_testing
    assert [each.belief.id for each in found] == ["new", "even", "leaning"]
    assert read_predicate(found[1].plan["trigger_condition"]) and found[1].plan["planned_action"]["trades"] == 10
    assert "next 10 trades" in found[1].plan["planned_action"]["message"]
    assert found[1].why.endswith(
        ". Undecided after 10 trades, 50 % likely that their true rate is above that of the others; this situation could settle it"
    )


def test_where_no_trade_won_inside_a_group_or_outside_it_there_is_nothing_to_settle():
    poor = [belief("nobody", 0, 16, probability=0.73, base_rate=0.0), belief("everybody", 16, 0, probability=0.3, base_rate=1.0)]
    assert recall_reference([], poor, [], asked()).worth_testing == ()


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"as_of": datetime(2026, 6, 5)}, "as_of"), ({"limit": 101}, "limit"), ({"profile": "best"}, "profile"),
        ({"memory_types": ("dream",)}, "memory_types"),
    ],
)  # fmt: skip
def test_a_question_that_cannot_be_answered_is_refused_with_its_field(said, field):
    with pytest.raises(Invalid, match=field):
        asked(**said)


@pytest.mark.parametrize(
    "said",
    [{"tau_days": 0.0}, {"exponent": -1.0}, {"labels": (("mood", 1.0),)}, {"labels": (), "numbers": ()}, {"boost_at_most": 0.5}],
)
def test_weights_that_mean_nothing_are_refused(said):
    with pytest.raises(Invalid):
        RecallParameters(**said)
