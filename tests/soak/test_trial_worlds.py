"""The verdict of `memtape trial` in two hundred worlds of each kind."""

from __future__ import annotations

from collections import Counter

import pytest

from evidence.trial_worlds import TRIAL_NOISE, TRIAL_PLANTED, TRIAL_SESSION, known_beforehand, never_ask, tried

WORLDS, MAX_FALSE, MIN_FOUND = 200, 0.05, 0.80


@pytest.mark.parametrize("world", TRIAL_NOISE, ids=lambda world: world.name)
def test_in_two_hundred_worlds_of_noise_memory_helps_in_at_most_one_of_twenty(world):
    answers = Counter(tried(world.history(str(n))).answer for n in range(WORLDS))
    print(world.name, dict(answers))
    assert answers["helps"] <= MAX_FALSE * WORLDS


@pytest.mark.parametrize("world", TRIAL_PLANTED, ids=lambda world: world.name)
def test_in_two_hundred_worlds_with_a_planted_edge_it_is_found_in_four_of_five(world):
    answers = Counter(tried(world.history(str(n))).answer for n in range(WORLDS))
    print(world.name, dict(answers))
    assert answers["helps"] >= MIN_FOUND * WORLDS


def test_in_a_session_that_loses_memory_does_not_hurt():
    answers = Counter(tried(TRIAL_SESSION.history(str(n))).answer for n in range(WORLDS))
    print(TRIAL_SESSION.name, dict(answers))
    assert answers["hurts"] <= MAX_FALSE * WORLDS


def test_planted_look_ahead_is_always_named_and_who_never_asks_never_gets_a_verdict():
    for n in range(WORLDS):
        world = TRIAL_NOISE[0].history(str(n))
        assert "may know the future" in tried(known_beforehand(world)).reason
        assert "does not use memory" in tried(world, never_ask).reason
