"""The verdict of `memtape validate` in two hundred worlds of each kind."""

from __future__ import annotations

import pytest

from evidence.validation_worlds import NOISE, PLANTED, judged

WORLDS, MAX_FALSE, MIN_FOUND = 200, 0.05, 0.80


@pytest.mark.parametrize("world", NOISE, ids=lambda world: world.name)
def test_in_two_hundred_worlds_of_noise_memory_helps_in_at_most_one_of_twenty(world):
    answers = [judged(world.history(str(n))).verdict.answer for n in range(WORLDS)]
    print(world.name, {answer: answers.count(answer) for answer in set(answers)})
    assert answers.count("helps") <= MAX_FALSE * WORLDS


def test_in_two_hundred_worlds_with_a_planted_edge_it_is_found_in_four_of_five():
    answers = [judged(PLANTED.history(str(n))).verdict.answer for n in range(WORLDS)]
    print({answer: answers.count(answer) for answer in set(answers)})
    assert answers.count("helps") >= MIN_FOUND * WORLDS
