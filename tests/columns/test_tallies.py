"""Counting by column is counting trade by trade, to the last bit."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from memtape.columns.index import Columns
from memtape.columns.tallies import answerable, countable, stated_tallies, tallies, where
from memtape.core.codec import micros
from memtape.core.memory.belief_cells import count_cells, count_stated
from memtape.core.memory.belief_formation import beliefs_from_counts
from memtape.core.memory.beliefs import TESTABLE, StatedBelief, entry_facts
from memtape.core.memory.episodes import EPISODE_FIELDS, Episode, known_episodes
from memtape.core.memory.predicate import holds, read_predicate

START = datetime(2026, 1, 5, 8, tzinfo=UTC)
LATER = START + timedelta(days=30)


def trade(n: int, r: float | None, **said) -> Episode:
    """A teaching trade of VB on XAUUSD that ended n hours after the start."""
    at = START + timedelta(hours=n)
    told = dict.fromkeys(EPISODE_FIELDS) | {
        "id": f"t{n:05}", "known_from": at, "kind": "trade", "symbol": "XAUUSD", "strategy": "VB", "side": "long", "tier": 0,
        "claimed": False, "source": "broker", "entry_at": at - timedelta(minutes=90), "exit_at": at, "pnl_r": r,
        "r_source": "stop", "teach": "learn", "tags": (),
    }  # fmt: skip
    return Episode(**(told | said))


def columns_of(episodes) -> Columns:
    """Episodes as a store's rows give them."""
    columns = Columns()
    spelled = dict.fromkeys(("known_from", "known_to", "entry_at", "exit_at"), micros) | {"tags": json.dumps}
    columns.put([
        tuple(value if value is None or name not in spelled else spelled[name](value) for name, value in zip(EPISODE_FIELDS, e, strict=True))
        for e in episodes
    ])  # fmt: skip
    return columns


labels = st.none() | st.sampled_from(["ranging", "volatile", "london", "*"])
levels = st.none() | st.sampled_from([0.0, 0.1, 0.3, 100.0, 0.1 + 0.2]) | st.floats(0, 1e5)
drawn = st.builds(
    trade, st.integers(0, 12), st.none() | st.sampled_from([-1.0, 0.0, 0.1, 2.0]) | st.floats(-20, 20),
    id=st.integers(0, 10**6).map(str), symbol=st.sampled_from(["BTC", "XAUUSD"]), strategy=st.sampled_from(["VB", "MR", "long"]),
    side=st.sampled_from(["long", "short"]), regime=labels, session=labels, volatility_regime=labels, claimed=st.booleans(),
    tier=st.integers(0, 4), kind=st.sampled_from(["trade", "trade", "shadow"]),
    r_source=st.sampled_from(["stop", "stop", "atr_proxy", "stated", None]), pnl_usd=st.none() | st.sampled_from([-4.0, 0.0, 2.5, 7.0]),
    teach=st.sampled_from(["learn", "exclude", "structural", "anomaly"]), price=levels, atr_d1=levels, drawdown_pct=levels,
)  # fmt: skip
histories = st.lists(drawn, max_size=60, unique_by=lambda e: e.id)

text = st.builds(
    lambda field, op, value: {"field": field, "op": op, "value": [value, "asia"] if op in ("in", "nin") else value},
    st.sampled_from(["symbol", "strategy", "side", "regime", "volatility_regime", "session"]), st.sampled_from(["eq", "ne", "in", "nin"]),
    st.sampled_from(["VB", "BTC", "long", "ranging", "london", "*", "nowhere"]),
)  # fmt: skip
number = st.builds(
    lambda field, op, low, wide: {"field": field, "op": op, "value": [low, low + wide] if op in ("between", "in", "nin") else low},
    st.sampled_from(["price", "atr_d1", "atr_h1", "drawdown_pct", "hour_utc", "day_of_week", "spread_as_atr_pct"]),
    st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge", "in", "nin", "between"]),
    st.sampled_from([0, 0.1, 0.3, 3, 7, 100.0, 0.1 + 0.2]), st.floats(0, 100),
)  # fmt: skip
presence = st.builds(
    lambda field, is_there: {"field": field, "op": "exists", "value": is_there},
    st.sampled_from(["regime", "price", "hour_utc"]),
    st.booleans(),
)
predicates = st.recursive(
    text | number | presence,
    lambda inner: (
        st.builds(lambda word, parts: {word: parts}, st.sampled_from(["all", "any"]), st.lists(inner, min_size=1, max_size=3))
        | st.builds(lambda part: {"not": part}, inner)
    ),
    max_leaves=5,
)


@given(histories, st.booleans(), st.integers(-1, 13))
def test_the_tallies_by_column_are_those_of_the_trades_one_by_one(episodes, claims_count, hours):
    as_of = START + timedelta(hours=hours)
    columns = columns_of(episodes)
    assert tallies(columns, columns.mask(micros(as_of), None, None), claims_count) == count_cells(
        known_episodes(episodes, as_of), claims_count
    )


@given(histories, st.randoms(use_true_random=False))
def test_the_order_of_the_rows_changes_no_digit(episodes, chance):
    shuffled = list(episodes)
    chance.shuffle(shuffled)
    found = [tallies(c, c.mask(micros(LATER), None, None), True) for c in (columns_of(episodes), columns_of(shuffled))]
    assert found[0] == found[1]
    assert beliefs_from_counts(found[0], (), LATER) == beliefs_from_counts(found[1], (), LATER)


def test_a_trade_that_was_corrected_counts_as_it_was_believed_at_the_moment():
    fixed_at = START + timedelta(hours=5)
    first = trade(1, 2.0, known_to=fixed_at)
    both = [first, trade(1, -1.0, known_from=fixed_at)]
    columns = columns_of(both)
    for as_of, wins in ((START + timedelta(hours=2), 1), (fixed_at, 0)):
        found = tallies(columns, columns.mask(micros(as_of), None, None), True)
        assert found == count_cells(known_episodes(both, as_of), True)
        assert {tally.wins for tally in found.cells.values()} == {wins}


def test_many_labels_are_counted_as_well_as_few():
    episodes = [
        trade(n, float(n % 3) - 1.0, regime=f"r{n % 90}", session=f"s{n % 83}", strategy=f"k{n % 17}", tier=n % 5)
        for n in range(900)
    ]
    columns = columns_of(episodes)
    assert tallies(columns, columns.mask(micros(LATER) * 2, None, None), True) == count_cells(episodes, True)


def facts_of(columns, episodes):
    """The facts of rows, which stand in an order of their own."""
    found = {(e.id, micros(e.known_from)): entry_facts(e) for e in episodes}
    return lambda rows: [found[columns.ids[row], int(columns.known_from[row])] for row in rows]


@given(histories, predicates)
def test_a_predicate_asked_of_all_rows_is_what_it_says_of_each(episodes, source):
    predicate, columns = read_predicate(source, TESTABLE), columns_of(episodes)
    assert answerable(predicate, columns)
    true, unknown = where(predicate, columns, facts_of(columns, episodes))
    expected = [holds(predicate, facts) for facts in facts_of(columns, episodes)(range(columns.n))]
    assert true.tolist() == [truth is True for truth in expected]
    assert unknown.tolist() == [truth is None for truth in expected]


@given(histories, predicates, st.booleans(), st.sampled_from([None, "BTC"]), st.sampled_from(["gt", "ge", "lt", "le"]))
def test_what_the_rows_say_of_a_stated_belief_is_what_the_trades_say(episodes, source, claims_count, symbol, op):
    when = {"all": [source, {"field": "hour_utc", "op": "ge", "value": 0}]}
    if "not" in json.dumps(source) and json.dumps(source).count("{") > 5:
        when = {"side": "long"}  # the language allows six levels
    stated = StatedBelief(id="s1", sentence="It works.", when=when, stated_at=START, symbol=symbol, op=op, value=0.1)
    columns = columns_of(episodes)
    assert countable(stated, columns)
    mask = columns.mask(micros(LATER), None, None)
    found = stated_tallies([stated], columns, mask, claims_count, facts_of(columns, episodes))
    assert found == count_stated([stated], episodes, claims_count)


def test_what_the_columns_do_not_hold_is_said_to_be_beyond_them():
    columns = columns_of([trade(1, 1.0)])
    fine = StatedBelief(id="s1", sentence="x", when={"session": "london"}, stated_at=START)
    assert countable(fine, columns)
    assert not answerable(read_predicate({"field": "atr_m5", "op": "gt", "value": 3}), columns)
    assert not countable(
        StatedBelief(id="s2", sentence="x", when={"session": "london"}, stated_at=START, metric="hold_minutes"), columns
    )
