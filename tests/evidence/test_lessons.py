"""The study of lessons, small: luck rarely becomes a lesson, and an effect that is there does."""

from __future__ import annotations

import random

import pytest

from evidence import lessons
from evidence.figures import Figure


@pytest.fixture(scope="module")
def figures() -> list[Figure]:
    return lessons.study("small")


def test_luck_becomes_a_lesson_in_few_notes_even_when_it_lasts(figures):
    false = [one for one in figures if one.name.startswith("false lessons")]
    # Two in ten at most over all histories together: with eight notes each, the bar of one in ten cannot be told from two.
    assert sum(one.value * one.n for one in false) <= 0.2 * sum(one.n for one in false)
    assert all("t-test" in one.baseline and one.at_most == 0.10 for one in false) and len(false) >= 2


def test_an_effect_of_one_unit_or_more_is_found(figures):
    found = [one for one in figures if one.name.startswith("found")]
    assert {one.at_least for one in found} == {0.6, 0.7, 0.9}
    assert all(one.ok for one in found), [one.row() for one in found if not one.ok]


def test_a_rotation_keeps_every_run_and_a_plant_changes_forty_trades():
    base = lessons.invented(random.Random(1), lessons.independent)
    outcomes = [e.pnl_r for e in base]
    moved = [e.pnl_r for e in lessons.rotated(base, random.Random(2))]
    by = moved.index(outcomes[0])
    assert moved[by:] + moved[:by] == outcomes and moved != outcomes
    for level in ("within a day", "of a day"):
        planted = lessons.planted(None, level, 1.0, random.Random(3))
        inside = [e for e in planted if e.tags == ("planted",) or (level == "of a day" and e.volatility_regime == "high")]
        assert 36 <= len(inside) <= 40
