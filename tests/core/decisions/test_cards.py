"""Cards: typed slots, own fields in their place, and every wrong slot named."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtape.core.codec import plain
from memtape.core.decisions.cards import (
    BUILT_IN_CARDS,
    RESEARCH_NOTE,
    TRADE_DECISION,
    card_schema,
    card_slots,
    decision_from_answer,
    fit_card,
    read_card_type,
)
from memtape.core.observed import Decision
from memtape.core.values import read
from memtape.errors import Invalid

EXIT_REVIEW = read_card_type({
    "name": "exit-review", "reExaminable": True,
    "slots": [{"name": "verdict", "kind": "choice", "choices": ["early", "late"], "required": True}, {"name": "cost_r", "kind": "number"},
              {"name": "watch_for", "kind": "list"}, {"name": "why"}],
})  # fmt: skip


def wrong_fields(refused: pytest.ExceptionInfo[Invalid]) -> list[str]:
    return [problem.field for problem in refused.value.errors]


def test_a_stop_is_the_same_decision_whether_it_comes_as_a_field_or_as_a_slot():
    as_slot = Decision(symbol="BTC", card="trade-decision", slots={"thesis": "x", "stop": "98", "size": "2", "confidence": "0.6"})
    as_field = Decision(symbol="BTC", card="trade-decision", slots={"thesis": "x"}, stop=Decimal(98), qty=Decimal(2), confidence=Decimal("0.6"))
    assert fit_card(TRADE_DECISION, as_slot) == fit_card(TRADE_DECISION, as_field)


def test_a_card_shows_all_its_slots_in_the_order_of_its_type():
    fitted = fit_card(TRADE_DECISION, Decision(card="trade-decision", target=Decimal(104), slots={"horizon": "a day", "thesis": "x", "stop": "98"}))
    assert card_slots(fitted, TRADE_DECISION) == {"stop": "98", "target": "104", "thesis": "x", "horizon": "a day"}


def test_every_wrong_slot_is_named_at_once():
    given_slots = {"verdict": "awful", "cost_r": "much", "watch_for": "volume", "mood": "sad"}
    with pytest.raises(Invalid) as refused:
        fit_card(EXIT_REVIEW, Decision(card="exit-review", slots=given_slots))
    assert wrong_fields(refused) == ["slots.verdict", "slots.cost_r", "slots.watch_for", "slots.mood"]


def test_a_required_slot_that_is_missing_is_named():
    with pytest.raises(Invalid) as refused:
        fit_card(RESEARCH_NOTE, Decision(card="research-note"))
    assert wrong_fields(refused) == ["slots.title", "slots.thesis"]


def test_a_slot_that_contradicts_a_field_is_refused_and_another_spelling_of_the_number_is_not():
    fitted = fit_card(TRADE_DECISION, Decision(stop=Decimal(98), slots={"thesis": "x", "stop": "98.0"}))
    assert fitted.stop == 98
    with pytest.raises(Invalid) as refused:
        fit_card(TRADE_DECISION, Decision(stop=Decimal(98), slots={"thesis": "x", "stop": "97"}))
    assert wrong_fields(refused) == ["slots.stop"]


def test_a_slot_outside_the_limits_of_its_field_is_refused():
    with pytest.raises(Invalid) as refused:
        fit_card(TRADE_DECISION, Decision(slots={"thesis": "x", "confidence": "1.5", "size": "-1"}))
    assert wrong_fields(refused) == ["slots.confidence", "slots.size"]


@pytest.mark.parametrize(
    ("declared", "field"),
    [
        ({"name": "x", "slots": []}, "card.slots"), ({"name": "No Spaces", "slots": [{"name": "a"}]}, "card.name"),
        ({"name": "trade-decision", "slots": [{"name": "a"}]}, "name"), ({"name": "x", "slots": [{"name": "a"}, {"name": "a"}]}, "slots.1.name"),
        ({"name": "x", "slots": [{"name": "a", "kind": "choice"}]}, "slots.0.choices"),
        ({"name": "x", "slots": [{"name": "a", "choices": ["b"]}]}, "slots.0.choices"),
        ({"name": "x", "slots": [{"name": "stop", "kind": "text"}]}, "slots.0.kind"),
        ({"name": "x", "slots": [{"name": "a"}], "reExaminable": "sometimes"}, "card.reExaminable"),
        ({"name": "x", "slots": [{"name": "a"}], "reExamineActions": ["hold"]}, "card.reExamineActions.0"),
    ],
)  # fmt: skip
def test_a_card_type_that_cannot_work_is_refused(declared, field):
    with pytest.raises(Invalid) as refused:
        read_card_type(declared)
    assert field in wrong_fields(refused) or wrong_fields(refused)[0].startswith(field)


def test_the_shipped_types_say_when_they_may_be_examined_again():
    assert (TRADE_DECISION.reExaminable, TRADE_DECISION.reExamineActions) == ("until_resolved", ("HOLD", "CLOSE", "SCALE"))
    assert RESEARCH_NOTE.reExaminable is True


def test_the_schema_of_an_answer_requires_every_name_and_allows_null_where_nothing_is_required():
    for card in (*BUILT_IN_CARDS, EXIT_REVIEW):
        schema = card_schema(card)
        assert schema["required"] == list(schema["properties"]) and schema["additionalProperties"] is False
        for slot in card.slots:
            assert ("anyOf" in schema["properties"][slot.name]) is not slot.required, slot.name


def test_an_answer_with_nulls_is_a_decision_without_them():
    answer = dict.fromkeys(card_schema(TRADE_DECISION)["properties"]) | {"action": "wait", "thesis": "no edge"}
    assert decision_from_answer(TRADE_DECISION, answer) == Decision(
        action="wait", card="trade-decision", slots={"thesis": "no edge"}, reason="no edge"
    )  # fmt: skip


numbers = st.decimals(min_value=Decimal("0.01"), max_value=Decimal(10) ** 6, places=2)


@given(stop=numbers, target=numbers, items=st.lists(st.text("abc", min_size=1, max_size=20), max_size=5, unique=True))
def test_a_fitted_card_stays_as_it_is_when_it_is_fitted_or_read_again(stop, target, items):
    slots = {"thesis": "x", "stop": str(stop), "target": str(target), "watch_for": tuple(items)}
    fitted = fit_card(TRADE_DECISION, Decision(card="trade-decision", slots=slots))
    assert fit_card(TRADE_DECISION, fitted) == fitted == read(Decision, plain(fitted))


# ---- hostile slots -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (True, "is neither a text nor a number"), (None, "is neither a text nor a number"), ({"a": 1}, "is neither a text nor a number"),
        ("a\x00b", "contains a control character (U+0000)"), ("x" * 2001, "has 2001 characters"),
        ([["nested"]], "entry 1 is neither a text nor a number"), (["fine", "a\nb"], "entry 2 contains a control character (U+000A)"),
        (["x"] * 33, "has 33 entries"),
    ],
)  # fmt: skip
def test_a_slot_that_is_no_text_is_refused_in_one_plain_sentence(value, problem):
    with pytest.raises(Invalid) as refused:
        read(Decision, {"card": "trade-decision", "slots": {"thesis": value}})
    assert wrong_fields(refused) == ["slots.thesis"] and problem in str(refused.value)


def test_numbers_in_a_list_are_stored_as_they_are_written():
    assert read(Decision, {"slots": {"levels": [64000, 64500.5]}}).slots == {"levels": ("64000", "64500.5")}


@pytest.mark.parametrize("number", ["1e999999999", "-1e999999999", "1e-999999999", "Infinity", "sNaN", "1e400", "9" * 39])
def test_a_number_of_any_length_is_refused_at_once(number):
    for card, slot in ((EXIT_REVIEW, "cost_r"), (TRADE_DECISION, "stop")):
        with pytest.raises(Invalid) as refused:
            fit_card(card, Decision(slots={"verdict": "early", "thesis": "x", slot: number} if card is TRADE_DECISION else
                                          {"verdict": "early", slot: number}))  # fmt: skip
        assert f"slots.{slot}" in wrong_fields(refused)


def test_a_reason_that_looks_like_a_huge_number_is_a_text():
    noted = read_card_type({"name": "noted", "slots": [{"name": "reason", "required": True}]})
    decision = Decision(reason="1e999999999", slots={"reason": "1e999999999"})
    assert fit_card(noted, decision).reason == "1e999999999"


def test_wrong_own_fields_are_named_as_the_slots_that_they_came_in_together_with_the_others():
    slots = {"size": "-1", "entry": "0.0000000000000000001", "confidence": "2", "mood": "sad"}
    with pytest.raises(Invalid) as refused:
        fit_card(TRADE_DECISION, Decision(slots=slots))
    assert wrong_fields(refused) == ["slots.size", "slots.entry", "slots.confidence", "slots.mood", "slots.thesis"]


@pytest.mark.parametrize("value", ["always", "true", 1, 0, [], "UNTIL_RESOLVED"])
def test_a_card_type_is_examined_again_always_until_resolved_or_never(value):
    with pytest.raises(Invalid) as refused:
        read_card_type({"name": "q", "slots": [{"name": "a"}], "reExaminable": value})
    assert wrong_fields(refused) == ["card.reExaminable"]


def test_a_choice_that_is_listed_twice_is_refused():
    with pytest.raises(Invalid) as refused:
        read_card_type({"name": "q", "slots": [{"name": "a", "kind": "choice", "choices": ["x", "y", "x"]}]})
    assert wrong_fields(refused) == ["slots.0.choices"]


@pytest.mark.parametrize(
    ("items", "problem"), [(["a", "a"], "entry 2 repeats entry 1"), (["a", "  "], "entry 2 is empty"), (["x ", " x"], "entry 2 repeats")]
)
def test_a_list_names_each_thing_once_so_that_each_can_be_graded(items, problem):
    with pytest.raises(Invalid, match=problem) as refused:
        fit_card(TRADE_DECISION, read(Decision, {"slots": {"thesis": "x", "watch_for": items}}))
    assert wrong_fields(refused) == ["slots.watch_for"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("t", "2026-03-01T10:00:00Z"), ("id", "mine"), ("order_ids", ["o1"]), ("verdict", {"accepted": True}), ("run", {"id": "r0"}),
        ("tags", ["x"]), ("card", "research-note"), ("slots", {"thesis": "y"}), ("entry_price", 100), ("mood", "sad"),
    ],
)  # fmt: skip
def test_an_answer_states_what_it_was_asked_and_nothing_else_of_its_decision(name, value):
    with pytest.raises(Invalid) as refused:
        decision_from_answer(TRADE_DECISION, {"action": "buy", "thesis": "x", name: value})
    assert wrong_fields(refused) == [f"answer.{name}"]
