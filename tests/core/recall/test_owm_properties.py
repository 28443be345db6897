"""Laws of outcome-weighted memory that hold for every trade, situation and trigger."""

from __future__ import annotations

import random
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from memtape.core import statistics
from memtape.core.memory import habits, plans, predicate, situation
from memtape.core.memory.situation import ANY, Candle, Situation
from memtape.core.original import kelly_formulas, score_formulas
from memtape.core.recall import scoring, sizing
from memtape.core.recall.scoring import AffectInputs, ScoringInput
from memtape.errors import Invalid

NOON = datetime(2026, 6, 5, 12, tzinfo=UTC)
COMPARED = [name for name, *_ in (*situation.LABELS, *situation.NUMBERS)]

outcomes = st.floats(-20, 20)
positive = st.floats(1e-3, 1e5)
labels = st.sampled_from(["trending_up", "ranging", "volatile", "london", "asia", "high"])
whole = st.builds(
    Situation, regime=labels, volatility_regime=labels, session=labels, price=positive, atr_d1=positive,
    atr_h1=positive, spread_as_atr_pct=positive, drawdown_pct=st.floats(0, 1),
)  # fmt: skip


@st.composite
def situations(draw):
    """A situation of which some is unknown, and some left open."""
    found = draw(whole)
    gaps = {name: draw(st.sampled_from([None, ANY, "keep", "keep"])) for name in COMPARED}
    return replace(found, **{name: gap for name, gap in gaps.items() if gap != "keep"})


episodes = st.builds(
    ScoringInput, id=st.uuids().map(str), formed=st.floats(0, 900).map(lambda d: NOON - timedelta(days=d)), situation=whole,
    pnl_r=st.none() | outcomes, confidence=st.none() | st.floats(0, 1),
)  # fmt: skip
histories = st.lists(episodes, min_size=1, max_size=20, unique_by=lambda episode: episode.id)


# --- likeness and score -------------------------------------------------------------------------------------------------


@given(situations(), situations())
def test_likeness_is_the_same_from_both_sides(a, b):
    assert situation.similarity(a, b) == pytest.approx(situation.similarity(b, a), abs=1e-15)
    assert 0.0 <= situation.similarity(a, b) <= 1.0 + 1e-15


@given(whole)
def test_a_known_situation_is_wholly_like_itself(known):
    assert situation.similarity(known, known) == pytest.approx(1.0, abs=1e-12)


def test_what_knows_nothing_is_half_like_anything_and_what_leaves_all_open_wholly():
    anything = Situation(**dict.fromkeys(COMPARED, ANY))
    assert situation.similarity(Situation(), Situation(regime="ranging")) == pytest.approx(0.5)
    assert situation.similarity(anything, Situation()) == pytest.approx(1.0)


def test_across_symbols_atr_is_compared_per_price():
    gold, bitcoin = Situation(price=5000.0, atr_d1=100.0), Situation(price=65000.0, atr_d1=1300.0)
    assert situation.relative(gold) == situation.relative(bitcoin) == Situation(atr_d1=0.02)


@given(outcomes, st.floats(0.1, 10))
def test_quality_of_a_win_and_of_the_same_loss_sum_to_one(r, sigma):
    q, mirrored = scoring.outcome_quality(r, sigma), scoring.outcome_quality(-r, sigma)
    assert q + mirrored == pytest.approx(1.0, abs=1e-12)
    assert scoring.salience(r, sigma) == pytest.approx(max(q, 1.0 - q), abs=1e-12)


@given(histories, whole, st.randoms(use_true_random=False))
def test_shuffled_outcomes_leave_the_weights_of_evidence_as_they_were(history, query, chance):
    def weights(episodes):
        return [
            scoring.evidence_weight(e.situation, query, scoring.fade(e, NOON), scoring.confidence_factor(e.confidence))
            for e in episodes
        ]

    results = [episode.pnl_r for episode in history]
    chance.shuffle(results)
    assert weights(history) == weights([replace(e, pnl_r=r) for e, r in zip(history, results, strict=True)])


@given(histories, whole, st.randoms(use_true_random=False), st.integers(1, 12))
def test_the_order_in_which_memories_come_does_not_change_their_rank(history, query, chance, limit):
    shuffled = list(history)
    chance.shuffle(shuffled)
    mood = AffectInputs(0.6, 4)
    ids = lambda ranked: [scored.candidate.id for scored in ranked]  # noqa: E731
    for rank in (
        lambda memories: score_formulas.rank_7_4(memories, query, mood, NOON),
        lambda memories: score_formulas.rank_3_3(memories, query, mood, NOON),
        lambda memories: scoring.rank_balanced(memories, query, NOON, 1.5, limit)[0],
    ):
        assert ids(rank(history)) == ids(rank(shuffled))


@given(histories, whole, st.integers(2, 12))
def test_balanced_recall_always_shows_a_loss_when_there_is_one(history, query, limit):
    best, _ = scoring.rank_balanced(history, query, NOON, 1.5, limit)
    assert len(best) == min(limit, len(history))
    lost = [e for e in history if e.pnl_r is not None and e.pnl_r < 0]
    assert not lost or any(scored.candidate in lost for scored in best)


def test_equal_scores_are_ordered_by_time_then_by_id():
    at = [NOON + timedelta(days=n) for n in (1, 1, 2)]  # all ahead of the moment asked for, so equally fresh
    same = [ScoringInput(id=i, formed=t, situation=Situation(regime="ranging")) for i, t in zip("bac", at, strict=True)]
    ranked = score_formulas.rank_7_4(same, Situation(regime="ranging"), AffectInputs(), NOON)
    assert [scored.candidate.id for scored in ranked] == ["c", "a", "b"]


def test_a_time_without_a_zone_is_refused():
    with pytest.raises(Invalid, match="time zone"):
        scoring.recency(datetime(2026, 6, 1), NOON)
    with pytest.raises(Invalid, match="time zone"):
        situation.session_at(datetime(2026, 6, 1))


@given(st.lists(st.tuples(st.floats(-300, 300), outcomes), max_size=150), st.floats(0, 100))
def test_trades_closed_later_never_change_the_yardstick(trades, shift):
    closed = [(NOON + timedelta(days=days), r) for days, r in trades]
    as_of = NOON + timedelta(days=shift)
    assert scoring.sigma_known(closed, as_of) == scoring.sigma_known([c for c in closed if c[0] < as_of], as_of)


# --- sizing -------------------------------------------------------------------------------------------------------------

ZERO_EDGE = {
    "plus or minus one": lambda chance: chance.choice([1.0, -1.0]),
    "two against one": lambda chance: 2.0 if chance.random() < 1 / 3 else -1.0,
    "normal": lambda chance: chance.gauss(0.0, 1.0),
}


@pytest.mark.parametrize("name", ZERO_EDGE)
def test_without_an_edge_little_is_advised_and_rarely(name):
    chance = random.Random(20260605)
    advised = []
    for _ in range(400):
        weights = [chance.uniform(0.3, 1.0) ** 4 * scoring.faded(chance.uniform(0, 365), 30, 0.5) for _ in range(250)]
        advised.append(sizing.lower_bound_size([(w, ZERO_EDGE[name](chance)) for w in weights]).f)
    assert sum(advised) / 400 <= 0.006
    assert sum(f > 0 for f in advised) / 400 <= 0.35


pairs = st.lists(st.tuples(st.floats(0.01, 1), outcomes), max_size=60)


@given(pairs, st.floats(0, 1))
@example([(0.5, 5e-324)], 0.0)
@example([(0.5, -5e-324), (1.0, 1.0)], 0.0)
def test_advice_stays_between_nothing_and_the_cap(trades, appetite):
    hint = sizing.lower_bound_size(trades, appetite)
    assert 0.0 <= hint.f <= 0.02
    assert hint.n_eff >= 10 or hint.f == 0.0
    assert 0.0 <= hint.n_eff <= len(trades) + 1e-9


@given(st.floats(0.05, 0.95), st.floats(0.1, 5), st.floats(0.1, 5))
def test_two_outcomes_have_one_kelly_fraction_in_every_form(p, loss, win):
    f = sizing.kelly_r(p, loss, win)
    assert kelly_formulas.kelly_bet_of_r(p, loss, win) == pytest.approx(loss * f, abs=1e-9)
    assert sizing.kelly_from_average(p, p * win - (1 - p) * loss, loss) == pytest.approx(f, rel=1e-6, abs=1e-9)
    assert kelly_formulas.kelly_exact([(p, win), (1 - p, -loss)]) == pytest.approx(f, rel=1e-6, abs=1e-9)


# --- distributions ------------------------------------------------------------------------------------------------------


@given(st.floats(0.001, 0.999), st.floats(0.5, 5000), st.floats(0.5, 5000))
def test_the_beta_quantile_inverts_the_beta_distribution(p, a, b):
    x = statistics.beta_quantile(p, a, b)
    assume(1e-12 < x < 1 - 1e-9)  # nearer to an end, a double cannot name the quantile
    assert statistics.beta_cdf(x, a, b) == pytest.approx(p, abs=1e-9)
    assert statistics.beta_cdf(1 - x, b, a) == pytest.approx(1 - p, abs=1e-6)


@given(st.integers(1, 60), st.data())
def test_the_binomial_tail_is_the_sum_of_its_terms(n, data):
    from math import comb, fsum

    wins, rate = data.draw(st.integers(0, n)), data.draw(st.floats(0.01, 0.99))
    terms = (comb(n, k) * rate**k * (1 - rate) ** (n - k) for k in range(wins, n + 1))
    assert statistics.binomial_tail(wins, n, rate) == pytest.approx(fsum(terms), abs=1e-12)


@given(st.floats(-30, 30), st.floats(0.5, 1000))
def test_students_t_is_symmetric_and_becomes_normal(t, df):
    assert statistics.student_cdf(t, df) + statistics.student_cdf(-t, df) == pytest.approx(1.0, abs=1e-12)
    assert statistics.student_cdf(t, 1e9) == pytest.approx(statistics.normal_cdf(t), abs=1e-8)


# --- triggers -----------------------------------------------------------------------------------------------------------

truths = st.sampled_from([True, False, None])
NAMES = ["a", "b", "c"]
conditions = st.builds(
    lambda field, op, value: {"field": field, "op": op, "value": [0, value] if op == "between" else value},
    st.sampled_from(NAMES), st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge", "between", "crosses_above"]),
    st.integers(0, 3),
)  # fmt: skip
triggers = st.recursive(
    conditions,
    lambda inner: st.one_of(
        st.builds(lambda parts: {"all": parts}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda parts: {"any": parts}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda part: {"not": part}, inner),
    ),
    max_leaves=6,
)


@given(st.lists(truths, min_size=1, max_size=5))
def test_all_and_any_are_each_others_mirror(found):
    mirrored = [predicate.negated(truth) for truth in found]
    assert predicate.negated(predicate.all_of(found)) == predicate.any_of(mirrored)
    assert predicate.all_of(found) == predicate.all_of(found[::-1])
    assert predicate.all_of([*found, True]) == predicate.all_of(found)
    assert predicate.all_of([*found, False]) is False
    assert predicate.any_of([*found, True]) is True


@given(truths)
def test_a_double_no_is_what_it_was(truth):
    assert predicate.negated(predicate.negated(truth)) is truth


@given(
    triggers,
    st.dictionaries(st.sampled_from(NAMES), st.integers(0, 3)),
    st.dictionaries(st.sampled_from(NAMES), st.integers(0, 3)),
)
def test_learning_more_never_overturns_what_was_known(source, known, learned):
    try:
        trigger = predicate.read_predicate(source, fields=None)
    except Invalid:
        assume(False)
    before = predicate.holds(trigger, known, known)
    more = learned | known
    assert before is None or predicate.holds(trigger, more, more) is before


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ({"field": "regime", "op": "gt", "value": 3}, "trigger.op"),
        ({"field": "regime", "op": "eq", "value": 3}, "trigger.value"),
        ({"field": "drawdown_pct", "op": "eq", "value": "deep"}, "trigger.value"),
        ({"field": "drawdown_pct", "op": "lt", "value": float("nan")}, "trigger.value"),
        ({"field": "drawdown_pct", "op": "lt", "value": 10**400}, "trigger.value"),
        ({"field": "drawdown_pct", "op": "lt", "value": True}, "trigger.value"),
        ({"field": "drawdown_pct", "op": "between", "value": [2, 1]}, "trigger.value"),
        ({"field": "price", "op": "in", "value": []}, "trigger.value"),
        ({"field": "weekend", "op": "in", "value": [True]}, "trigger.op"),
        ({"field": "os.system", "op": "eq", "value": "x"}, "trigger.field"),
        ({"field": "regime", "op": "like", "value": "x"}, "trigger.op"),
        ({"all": []}, "trigger.all"),
        ({"all": [{"regime": "ranging"}], "any": []}, "trigger.any"),
        ({"not": {"regime": 7}}, "trigger.not.regime.value"),
        ({"type": "market_condition"}, "trigger"),
        ("regime == ranging", "trigger"),
        ({"any": [{"field": "price", "op": "gt", "value": n} for n in range(64)]}, "trigger"),
    ],
)
def test_a_trigger_that_makes_no_sense_is_refused_when_it_is_made(source, place):
    with pytest.raises(Invalid) as refused:
        predicate.read_predicate(source)
    assert refused.value.field == place


def test_a_trigger_may_be_six_deep_and_no_deeper():
    source = {"field": "regime", "op": "exists"}
    for _ in range(5):
        source = {"not": source}
    assert predicate.holds(predicate.read_predicate(source), {}) is True
    with pytest.raises(Invalid, match="deeper"):
        predicate.read_predicate({"not": source})


@pytest.mark.parametrize(
    ("op", "value", "now", "before", "truth"),
    [
        ("crosses_above", 5, 6, 5, True), ("crosses_above", 5, 6, 5.5, False), ("crosses_above", 5, 5, 4, False),
        ("crosses_above", 5, 6, None, None), ("crosses_below", 5, 4, 5, True), ("changed", None, 4, 4, False),
        ("changed", None, 4, None, None), ("exists", None, None, 4, False), ("exists", False, None, 4, True),
        ("nin", [1, 2], 3, None, True), ("nin", [1, 2], None, None, None), ("between", [1, 2], 2, None, True),
        ("lt", 5, "four", None, None), ("eq", 1, True, None, None),
    ],
)  # fmt: skip
def test_what_an_operation_says(op, value, now, before, truth):
    trigger = predicate.read_predicate({"field": "price", "op": op, "value": value})
    assert predicate.holds(trigger, {"price": now}, {"price": before}) is truth


# --- plans, habits, market ----------------------------------------------------------------------------------------------


def fired(id: str, action: plans.Action, factor: float | None = None, priority: float = 0.5) -> plans.FiredPlan:
    return plans.FiredPlan(id=id, action=action, priority=priority, created_at=NOON, size_factor=factor)


def test_the_most_careful_plan_leads_whatever_its_priority():
    told = plans.resolve_plans(
        [fired("a", "alert", priority=1.0), fired("b", "force_exit", priority=0.0), fired("c", "skip_trade")]
    )
    assert [plan.id for plan in told.in_order] == ["b", "c", "a"]
    assert told.leads and told.leads.id == "b" and told.size_factor == 0.0


def test_reductions_take_the_smallest_and_no_increase_beats_them():
    assert (
        plans.resolve_plans([fired("a", "reduce", 0.5), fired("b", "reduce", 0.8), fired("c", "adjust_param", 2.0)]).size_factor
        == 0.5
    )
    assert plans.resolve_plans([]).size_factor == 1.0


candles = st.lists(
    st.tuples(st.floats(90, 110), st.floats(0, 5), st.floats(0, 5), st.floats(-5, 5)).map(
        lambda b: Candle(b[0], max(b[0], b[0] + b[3]) + b[1], min(b[0], b[0] + b[3]) - b[2], b[0] + b[3])
    ),
    min_size=1,
    max_size=6,
)


@given(candles)
def test_a_short_in_a_mirrored_market_ends_like_the_long(bars):
    mirrored = [Candle(200 - c.open, 200 - c.low, 200 - c.high, 200 - c.close) for c in bars]
    long, short = plans.plan_shadow(1, 100, 98, 104, bars), plans.plan_shadow(-1, 100, 102, 96, mirrored)
    assert long == pytest.approx(short, abs=1e-9)


@given(st.lists(st.floats(-3, 3), max_size=40))
def test_drift_watched_trade_by_trade_is_drift_over_the_whole(xs):
    state = habits.PageHinkley()
    rang = None
    for at, x in enumerate(xs):
        state = state.updated(x)
        if rang is None and habits.alarm(state, 3.0):
            rang = at
    assert habits.page_hinkley(xs, threshold=3.0).alarm == rang


def market_of(closes: list[float]) -> situation.MarketLabels:
    return situation.market_labels([Candle(c, c + 1, c - 1, c) for c in closes])


def test_a_trend_is_kept_while_it_weakens_but_not_begun_by_a_weak_one():
    rising = [100.0 + n for n in range(40)]
    pausing = rising + [139.0 + (0.0 if n % 2 else -1.0) for n in range(11)]
    weak = market_of(pausing)
    assert weak.efficiency is not None and 0.30 <= weak.efficiency < 0.45
    assert weak.regime == "trending_up"
    assert market_of(pausing[-21:]).regime == "ranging"


@given(st.lists(st.floats(50, 150), min_size=1, max_size=80))
def test_every_market_can_be_labelled(closes):
    market = market_of(closes)
    assert (market.regime is None) == (len(closes) <= 20 and market.volatility_regime != "extreme")
    assert market.efficiency is None or 0.0 <= market.efficiency <= 1.0 + 1e-12


def test_bars_that_were_not_complete_are_not_seen():
    from decimal import Decimal

    from memtape.core.observed import Bar

    hour = timedelta(hours=1)
    bars = [
        Bar(symbol="XAU", t0=NOON + n * hour, t1=NOON + (n + 1) * hour, o=p, h=p + 1, l=p - 1, c=p)
        for n, p in enumerate(Decimal(100 + n * n % 7) for n in range(60))
    ]
    known = bars[:50]
    assert situation.classify_market(bars, bars[49].t1) == situation.classify_market(known, bars[49].t1)
    assert situation.classify_market(bars, bars[49].t1 - timedelta(seconds=1)) == situation.classify_market(
        bars[:49], bars[49].t1
    )


def test_the_context_vector_holds_every_field_that_is_compared():
    assert set(COMPARED) <= {field.name for field in fields(Situation)}
