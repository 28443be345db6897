"""A trigger that can never hold or always holds is named, and no other one is: checked against random situations too."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memtape.core.ids import PlanId
from memtape.core.memory.plans import Plan
from memtape.core.memory.predicate import FIELDS, holds, read_predicate
from memtape.core.memory.trigger_check import share_warnings, trigger_warning
from memtape.errors import Invalid

HOURS = {"field": "hour_utc"}
NEVER = {
    "an hour of 25": {"hour_utc": 25},
    "an hour between two hours": {"hour_utc": 9.5},
    "late and early at once": {"all": [{**HOURS, "op": "gt", "value": 20}, {**HOURS, "op": "lt", "value": 10}]},
    "two regimes at once": {"all": [{"regime": "ranging"}, {"regime": "volatile"}]},
    "two names of two sessions at once": {"all": [{"session": "LDN"}, {"session": "Tokyo"}]},
    "an unknown session": {"session": "moonlight"},
    "a list of unknown regimes": {"field": "regime", "op": "in", "value": ["sunny", "rainy"]},
    "a side that is none": {"side": "sideways"},
    "an eighth weekday": {"field": "day_of_week", "op": "ge", "value": 7},
    "half a loss more than none": {"all": [{"field": "consecutive_losses", "op": "gt", "value": 0},
                                           {"field": "consecutive_losses", "op": "lt", "value": 1}]},
    "an hour that crosses midnight upwards": {**HOURS, "op": "crosses_above", "value": 23},
    "every session ruled out": {"not": {"field": "session", "op": "in", "value": ["asia", "london", "overlap", "newyork"]}},
    "neither a weekend nor a weekday": {"all": [{"not": {"weekend": True}}, {"weekend": True}]},
    "an event further away than a day": {"field": "minutes_to_event", "op": "gt", "value": 2000},
    "a price above and below": {"all": [{"field": "price", "op": "gt", "value": 100}, {"not": {"field": "price", "op": "gt", "value": 50}}]},
    "a winning and a losing streak": {"all": [{"field": "consecutive_losses", "op": "gt", "value": 2},
                                              {"field": "consecutive_wins", "op": "ge", "value": 1}]},
    "absent and equal": {"all": [{"field": "regime", "op": "exists", "value": False}, {"regime": "ranging"}]},
}  # fmt: skip
ALWAYS = {
    "any hour": {**HOURS, "op": "ge", "value": 0},
    "an hour or not": {"any": [{"regime": "ranging"}, {"field": "regime", "op": "ne", "value": "ranging"}]},
    "all four sessions": {"field": "session", "op": "in", "value": ["Asia", "LDN", "overlap", "new york"]},
    "not an impossible hour": {"not": {"hour_utc": 24}},
    "any number of losses": {"field": "consecutive_losses", "op": "ge", "value": 0},
    "above one price or below another": {"any": [{"field": "price", "op": "gt", "value": 50}, {"field": "price", "op": "lt", "value": 60}]},
}  # fmt: skip
SOMETIMES = {
    "a label": {"regime": "ranging"},
    "a label in other words": {"regime": "Up-Trend"},
    "an owner's label": {"regime": "witching hour"},
    "a symbol never traded": {"symbol": "DOGEUSD"},
    "a streak of either kind": {"any": [{"field": "consecutive_losses", "op": "gt", "value": 2},
                                        {"field": "consecutive_wins", "op": "gt", "value": 2}]},
    "no streak at all": {"all": [{"consecutive_losses": 0}, {"consecutive_wins": 0}]},
    "one hour": {"hour_utc": 0},
    "two symbols in turn": {"any": [{"symbol": "BTC"}, {"symbol": "ETH"}]},
    "a change": {"field": "regime", "op": "changed"},
    "a change within a narrow range": {"all": [{"field": "price", "op": "changed"}, {"field": "price", "op": "between", "value": [5, 6]}]},
    "whether a field is known": {"field": "regime", "op": "exists"},
    "an event in half an hour": {"field": "minutes_to_event", "op": "le", "value": 30},
    "any price but one": {"field": "price", "op": "ne", "value": 100},
    "an owner's action": {"action": "buy the dip"},
}  # fmt: skip
OWN = {"regime": ["Witching Hour", "witching hour"]}


@pytest.mark.parametrize("trigger", NEVER.values(), ids=NEVER)
def test_an_impossible_trigger_is_said_to_hold_never(trigger):
    assert trigger_warning(read_predicate(trigger)).startswith("can never hold: ")


@pytest.mark.parametrize("trigger", ALWAYS.values(), ids=ALWAYS)
def test_a_trigger_that_says_nothing_is_said_to_hold_always(trigger):
    assert trigger_warning(read_predicate(trigger)).startswith("always holds: ")


@pytest.mark.parametrize("trigger", SOMETIMES.values(), ids=SOMETIMES)
def test_a_trigger_that_may_hold_or_not_raises_no_warning(trigger):
    assert trigger_warning(read_predicate(trigger), OWN) is None


def test_the_warning_names_the_condition_that_is_impossible_and_what_there_is():
    late = read_predicate({"all": [{"regime": "ranging"}, {**HOURS, "op": "between", "value": [24, 30]}]})
    assert trigger_warning(late) == "can never hold: hour_utc is never between 24 and 30, it runs from 0 to 23"
    assert trigger_warning(read_predicate({"consecutive_losses": 2.5})) == (
        "can never hold: consecutive_losses is never 2.5, it runs from 0 upwards in whole numbers"
    )
    assert trigger_warning(read_predicate({"session": "moonlight"})) == (
        "can never hold: no session is called 'moonlight'; known are asia, london, overlap, newyork"
    )
    assert trigger_warning(read_predicate(ALWAYS["an hour or not"])) == (
        "always holds: it is true at every tick, if its fields are known"
    )


def test_a_field_that_does_not_exist_is_refused_with_the_one_that_was_meant():
    for name, near in (("hour", "hour_utc"), ("volatility", "volatility_regime")):
        with pytest.raises(Invalid, match=rf"there is no field '{name}'. Did you mean {near}\? Use one of: symbol, price, "):
            read_predicate({name: 25})


def test_a_search_that_would_take_too_long_ends_without_a_warning():
    parts = [{"any": [{"field": "price", "op": "lt", "value": n}, {"field": "equity", "op": "lt", "value": n}]} for n in range(20)]
    above = [{"field": "price", "op": "gt", "value": 100}, {"field": "equity", "op": "gt", "value": 100}]
    assert trigger_warning(read_predicate({"all": [*parts, *above]})) is not None
    wide = [{"field": "price", "op": "crosses_above", "value": n} for n in range(60)]
    assert trigger_warning(read_predicate({"all": wide})) is None


# ---- never a wrong warning: no situation contradicts it --------------------------------------------------------------------

TEXTS = {"regime": ["ranging", "volatile", "Trending Up"], "session": ["asia", "london"], "symbol": ["BTC", "ETH"]}
NUMBERS = {"hour_utc": st.integers(-2, 26), "consecutive_losses": st.integers(-1, 4), "price": st.integers(-2, 4)}


def _conditions():
    texts = st.sampled_from(sorted(TEXTS)).flatmap(
        lambda name: st.builds(
            lambda op, value: {"field": name, "op": op, "value": value}, st.sampled_from(["eq", "ne"]), st.sampled_from(TEXTS[name])
        )
    )
    numbers = st.sampled_from(sorted(NUMBERS)).flatmap(
        lambda name: st.builds(
            lambda op, value: {"field": name, "op": op, "value": value},
            st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge", "crosses_above", "crosses_below"]), NUMBERS[name],
        )
    )  # fmt: skip
    asked = st.builds(lambda f, op: {"field": f, "op": op}, st.sampled_from([*TEXTS, *NUMBERS]), st.sampled_from(["exists", "changed"]))
    return st.one_of(texts, numbers, asked)


TRIGGERS = st.recursive(
    _conditions(),
    lambda inner: st.one_of(
        st.builds(lambda parts: {"all": parts}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda parts: {"any": parts}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda part: {"not": part}, inner),
    ),
    max_leaves=6,
)
FACTS = st.fixed_dictionaries(
    {},
    optional={
        "regime": st.sampled_from(["ranging", "volatile", "trending_up", "trending_down"]),
        "session": st.sampled_from(["asia", "london", "overlap", "newyork"]), "symbol": st.sampled_from(["BTC", "ETH", "SOL"]),
        "hour_utc": st.integers(0, 23), "consecutive_losses": st.integers(0, 6),
        "price": st.one_of(st.integers(-3, 5), st.floats(-3, 5)),
    },
)  # fmt: skip


def _depth(source):
    parts = source.get("all") or source.get("any") or ([source["not"]] if "not" in source else [])
    return 1 + max(map(_depth, parts), default=0)


@settings(max_examples=150, deadline=None)
@given(TRIGGERS.filter(lambda source: _depth(source) <= 6), st.lists(st.tuples(FACTS, FACTS), min_size=12, max_size=12))
def test_no_situation_contradicts_a_warning(source, moments):
    predicate = read_predicate(source, FIELDS)
    warning = trigger_warning(predicate)
    truths = {holds(predicate, now, before) for now, before in moments}
    if warning is not None:
        assert warning.startswith("can never hold") not in truths


@pytest.mark.parametrize("field", ["drawdown_pct", "drawdown_state", "confidence", "risk_appetite"])
def test_a_percentage_in_place_of_a_share_is_accepted_with_a_warning(field):
    plan = Plan(id=PlanId("deep"), trigger={"field": field, "op": "gt", "value": 15}, action="skip_trade", reasoning="too deep").checked()
    assert share_warnings(read_predicate(plan.trigger)) == [
        f"compares {field} with 15, and it is a share: write 0.15 for 15 %"
    ]
    assert share_warnings(read_predicate({"field": field, "op": "between", "value": [0.1, 1]})) == []
