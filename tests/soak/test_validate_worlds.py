"""The verdict of `memtape validate` in two hundred worlds of each kind."""

from __future__ import annotations

from collections import Counter

import pytest

from evidence.validation_worlds import (
    NOISE,
    PLANTED,
    answer,
    answer_of_command,
    in_trends_only,
    judged,
    labels_of_the_walk,
    regime_of_the_exit,
)
from memtape.core.validation.look_ahead import look_ahead_signs

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


def test_in_two_hundred_worlds_with_a_planted_edge_the_defaults_of_the_command_find_it_in_four_of_five():
    answers = [answer_of_command(PLANTED.history(f"command {n}")) for n in range(WORLDS)]
    print(PLANTED.name, "as the command", Counter(answers))
    assert answers.count("helps") >= MIN_FOUND * WORLDS


@pytest.mark.parametrize("trending", [1.0, 0.25])
def test_a_regime_that_was_read_at_the_exit_is_called_look_ahead_in_every_world(trending):
    for n in range(WORLDS):
        leak = regime_of_the_exit(NOISE[n % len(NOISE)].history(f"leak {n}"), trending)
        [sign] = look_ahead_signs(leak, [e.pnl_r or 0.0 for e in leak])
        assert sign.startswith("regime") and "foretell" in sign


def test_an_honest_history_shows_no_sign_of_look_ahead():
    worlds = [world.history(f"honest {n}") for world in (*NOISE, PLANTED) for n in range(WORLDS // 4)]
    assert not [sign for world in worlds for sign in look_ahead_signs(world, [e.pnl_r or 0.0 for e in world])]


def test_a_sizing_that_never_looks_at_outcomes_gets_no_verdict_in_any_world():
    worlds = (PLANTED.history(f"small {n}") for n in range(WORLDS))
    assert {judged(one, "in_trends_only", {"in_trends_only": in_trends_only}).verdict.answer for one in worlds} == {"cannot be told"}
