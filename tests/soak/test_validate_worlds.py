"""The verdict of `memtape validate` in two hundred worlds of each kind."""

from __future__ import annotations

from collections import Counter

import pytest

from evidence.validation_worlds import NOISE, PLANTED, answer, labels_of_the_walk

WORLDS, MAX_FALSE, MIN_FOUND = 200, 0.05, 0.80


@pytest.mark.parametrize("world", NOISE, ids=lambda world: world.name)
def test_in_two_hundred_worlds_of_noise_memory_helps_in_at_most_one_of_twenty(world):
    _expect_seldom(world.name, [answer(world.history(str(n))) for n in range(WORLDS)])


def test_labels_that_a_random_walk_shows_at_the_entry_help_in_at_most_one_of_twenty():
    _expect_seldom("labels of the walk", [answer(labels_of_the_walk(str(n))) for n in range(WORLDS)])


def _expect_seldom(name: str, answers: list[str]) -> None:
    print(name, Counter(answers))
    assert answers.count("helps") <= MAX_FALSE * WORLDS


def test_in_two_hundred_worlds_with_a_planted_edge_it_is_found_in_four_of_five():
    answers = [answer(PLANTED.history(str(n))) for n in range(WORLDS)]
    print(PLANTED.name, Counter(answers))
    assert answers.count("helps") >= MIN_FOUND * WORLDS
