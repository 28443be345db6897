"""Facts about the owner: which are shown, in which order, and which rotate."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from memtape.core.facts import Fact, choose_facts
from tests.effort import examples

NOW = datetime(2026, 7, 1, 8, tzinfo=UTC)


def days_ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


def fact(id: str, **rest: Any) -> Fact:
    return Fact(**({"id": id, "text": f"Fact {id}.", "asserted": True, "created": days_ago(20)} | rest))


MOMENTS = st.integers(-3, 80).map(days_ago)


def facts(max_size: int) -> st.SearchStrategy[list[Fact]]:
    one = st.builds(
        fact, st.text("abcdefgh", min_size=1, max_size=3), asserted=st.booleans(), created=MOMENTS, skill=st.sampled_from([None, "gold", "scalp"]),
        last_referenced=st.none() | MOMENTS, archived=st.none() | st.none() | MOMENTS, shown=st.lists(MOMENTS, max_size=3).map(tuple),
    )  # fmt: skip
    return st.lists(one, max_size=max_size, unique_by=lambda each: each.id)


def pairwise_before(a: Fact, b: Fact) -> bool:
    """The order of the steady places, one comparison after the other."""
    if a.asserted != b.asserted:
        return a.asserted
    used_a, used_b = (each.last_referenced if each.last_referenced and each.last_referenced <= NOW else each.created for each in (a, b))
    if used_a != used_b:
        return used_a > used_b
    return a.created > b.created if a.created != b.created else a.id < b.id


@settings(max_examples=examples(100, 3_000))
@given(facts(25), st.randoms(use_true_random=False))
def test_the_choice_does_not_depend_on_the_order_in_which_facts_arrive(known, order):
    choice = choose_facts(known, NOW, "gold")
    shuffled = known[:]
    order.shuffle(shuffled)
    assert choose_facts(shuffled, NOW, "gold") == choice
    eligible = [
        each for each in known
        if each.created <= NOW and not (each.archived and each.archived <= NOW) and each.skill in (None, "gold")
    ]  # fmt: skip
    assert len(choice.chosen) == min(len(eligible), 10)
    # A steady place belongs to whoever has fewer than eight facts before it.
    places = {each.id: sum(pairwise_before(other, each) for other in eligible if other is not each) for each in eligible}
    steady = sorted(eligible, key=lambda each: places[each.id])
    assert sorted(places.values()) == list(range(len(eligible)))
    assert list(choice.chosen[:8]) == steady[:8]
    if len(eligible) <= 10:
        assert list(choice.chosen) == steady
    else:
        # Nobody who was left out has waited longer than those who rotated in.
        for taken in choice.chosen[8:]:
            for left in set(eligible) - set(choice.chosen):
                seen_taken, seen_left = ([t for t in each.shown if t <= NOW] for each in (taken, left))
                assert not seen_taken or (seen_left and max(seen_taken) <= max(seen_left))
    assert len(choice.block.splitlines()) == (len(choice.chosen) + 1 if eligible else 0)


def test_every_fact_comes_up_within_a_few_rounds():
    known = [fact(f"f{n:02}", last_referenced=days_ago(n)) for n in range(15)]
    seen: set[str] = set()
    for round_ in range(4):
        now = NOW + timedelta(hours=round_)
        chosen = {each.id for each in choose_facts(known, now).chosen}
        seen |= chosen
        known = [replace(each, shown=(*each.shown, now)) if each.id in chosen else each for each in known]
    assert seen == {each.id for each in known}


def test_ties_in_the_rotation_go_to_the_fewer_showings_then_the_older_then_the_id():
    steady = [fact(f"a{n}", last_referenced=NOW) for n in range(8)]
    yesterday, before = days_ago(1), days_ago(2)
    rest = [
        fact("z", shown=(yesterday,)), fact("y", shown=(yesterday,), created=days_ago(30)), fact("x", shown=(yesterday,)),
        fact("w", shown=(yesterday, before)), fact("v", shown=(yesterday,), created=days_ago(10)),
    ]  # fmt: skip
    assert [each.id for each in choose_facts([*steady, *rest], NOW).chosen[8:]] == ["y", "x"]


def test_what_lies_ahead_is_not_yet_known():
    later = NOW + timedelta(seconds=1)
    assert choose_facts([fact("a", created=later)], NOW).chosen == ()
    assert choose_facts([fact("a", created=NOW, archived=later)], NOW).chosen != ()
    assert choose_facts([fact("a", archived=NOW)], NOW).chosen == ()
    assert choose_facts([fact("a", created=days_ago(60), last_referenced=later)], NOW).stale == ("a",)


def test_a_fact_is_one_line_whatever_its_text():
    block = choose_facts([fact("a", text="You like\u2028- [risk]\n\n## Rules", topic=" \t", asserted=False)], NOW).block
    assert block == "## What I know about you\n- You like - [risk] ## Rules (inferred)"
