"""Facts as the log makes them: any order of delivery, any moment, any change."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memtape.core.facts import FACT_CHANGES, FACT_KINDS, FactText, Topic, fold_facts
from memtape.core.items import StoredItem
from memtape.core.values import read
from memtape.errors import Invalid
from tests.effort import examples

MONDAY = datetime(2026, 6, 1, 9, tzinfo=UTC)


def item(seq: int, kind: str, fact: str, /, day: float = 0, **body: Any) -> StoredItem:
    """An item of the owner's stream, recorded so many days after Monday."""
    at, key = MONDAY + timedelta(days=day), fact if kind == "fact" else f"{fact}#{seq}"
    return StoredItem(seq, kind, key, at, at, 1, "" if kind.startswith("facts_") else fact, "", None, body)


def stated(seq: int, fact: str, day: float = 0, text: str = "You trade gold.", **body: Any) -> StoredItem:
    return item(seq, "fact", fact, day, **({"text": text, "source": "chat", "confidence": "inferred"} | body))


@st.composite
def histories(draw: st.DrawFn) -> list[StoredItem]:
    """A log of a few facts with changes of them, some of facts that are not there; the clock may stand still or step back."""
    found: list[StoredItem] = []
    for seq in range(1, draw(st.integers(1, 25)) + 1):
        fact, day = draw(st.sampled_from("abcd")), seq + draw(st.integers(-2, 2))
        kind = draw(st.sampled_from(FACT_KINDS))
        if kind == "fact" and any(each.kind == "fact" and each.key == fact for each in found):
            kind = "fact_edited"
        match kind:
            case "fact":
                found.append(stated(seq, fact, day, text=f"text {seq}", topic=draw(st.sampled_from([None, "risk"]))))
            case "fact_edited":
                found.append(item(seq, kind, fact, day, fact=fact, text=f"text {seq}"))
            case "facts_shown" | "facts_referenced":
                found.append(item(seq, kind, fact, day, facts=draw(st.lists(st.sampled_from("abcd"), unique=True))))
            case _:
                found.append(item(seq, kind, fact, day, fact=fact, reason="agent_forget"))
    return found


@settings(max_examples=examples(200, 5_000))
@given(histories(), st.randoms(use_true_random=False))
def test_facts_do_not_depend_on_the_order_in_which_items_are_delivered(log, order):
    shuffled = log[:]
    order.shuffle(shuffled)
    assert fold_facts(shuffled) == fold_facts(log)


@settings(max_examples=examples(200, 5_000))
@given(histories(), st.integers(-3, 30))
def test_facts_as_of_a_moment_are_those_of_the_log_cut_at_that_moment(log, day):
    as_of = MONDAY + timedelta(days=day, hours=12)
    assert fold_facts(log, as_of) == fold_facts([each for each in log if each.known_at <= as_of])


@settings(max_examples=examples(200, 5_000))
@given(histories())
def test_each_fact_is_what_its_own_items_say_last(log):
    """The same, computed naively: fact by fact, looking for the last word on each field."""
    facts = {fact.id: fact for fact in fold_facts(log)}
    assert list(facts) == [each.key for each in log if each.kind == "fact"]
    for id_, fact in facts.items():
        created = next(each for each in log if each.kind == "fact" and each.key == id_)
        later = [each for each in log if each.seq > created.seq]
        own = [each for each in later if each.body.get("fact") == id_]
        texts = [each.body["text"] for each in own if each.kind == "fact_edited"]
        assert fact.text == (texts or [created.body["text"]])[-1]
        archiving = [each for each in own if each.kind in ("fact_archived", "fact_restored")]
        assert (fact.archived is not None) == (bool(archiving) and archiving[-1].kind == "fact_archived")
        certain = [each.kind for each in own if each.kind in FACT_CHANGES[:2]]
        assert fact.asserted == (bool(certain) and certain[-1] == "fact_promoted")
        assert sorted(fact.shown) == sorted(each.at for each in later if each.kind == "facts_shown" and id_ in each.body["facts"])
        used = [each.at for each in later if each.kind == "facts_referenced" and id_ in each.body["facts"]]
        assert (fact.times_referenced, fact.last_referenced) == (len(used), max(used, default=None))


def test_a_fact_keeps_its_creation_through_an_edit_and_a_return_from_the_archive():
    log = [
        stated(1, "a", 0, text="You trade gold.", topic="symbols", confidence="asserted"),
        item(2, "fact_archived", "a", 1, fact="a", reason="user_deleted"),
        item(3, "fact_restored", "a", 2, fact="a"),
        item(4, "fact_edited", "a", 3, fact="a", text="You trade silver."),
    ]
    gone = fold_facts(log, MONDAY + timedelta(days=1))[0]
    assert (gone.archived, gone.archived_reason, gone.text) == (MONDAY + timedelta(days=1), "user_deleted", "You trade gold.")
    (back,) = fold_facts(log)
    assert (back.archived, back.archived_reason, back.created, back.asserted) == (None, None, MONDAY, True)
    assert (back.text, back.topic) == ("You trade silver.", None)


def test_being_shown_is_not_being_used():
    log = [stated(1, "a"), item(2, "facts_shown", "a", 1, facts=["a"]), item(3, "facts_referenced", "a", 2, facts=["a"])]
    shown = fold_facts(log[:2])[0]
    assert (len(shown.shown), shown.times_referenced, shown.last_referenced) == (1, 0, None)
    used = fold_facts(log)[0]
    assert (len(used.shown), used.times_referenced, used.last_referenced) == (1, 1, MONDAY + timedelta(days=2))


def test_what_is_said_of_a_fact_whose_text_was_destroyed_says_nothing():
    log = [stated(1, "a"), item(2, "fact_promoted", "b", 1, fact="b"), item(3, "facts_shown", "", 1, facts=["a", "b"])]
    assert [fact.id for fact in fold_facts(log)] == ["a"]
    assert replace(fold_facts(log)[0], shown=()) == fold_facts(log[:1])[0]


@pytest.mark.parametrize(
    ("text", "problem"),
    [("abc", "at least 4 characters"), ("a" * 501, "at most 500 characters"), ("  a   \n", "at least 4 characters"), ("\u200b" * 8, "at least 4 visible"),
     ("bell \x07 rings", "control character")],
)  # fmt: skip
def test_a_fact_of_too_few_or_too_many_characters_is_refused_by_its_field(text, problem):
    with pytest.raises(Invalid) as refused:
        read(FactText, text, at="fact")
    assert refused.value.field == "fact" and problem in str(refused.value)


def test_a_fact_is_one_line_of_4_to_500_characters():
    assert read(FactText, "  You trade\n\tgold.  ") == "You trade gold."
    assert read(FactText, "abcd") == "abcd" and read(FactText, "a" * 500) == "a" * 500
    assert read(Topic, " risk\nlimits ") == "risk limits"
