"""The verdict of a trial is calibrated. `make soak` lives through 200 worlds of each kind."""

from __future__ import annotations

import pytest

from evidence.trial_worlds import TRIAL_NOISE, TRIAL_PLANTED, known_beforehand, never_ask, tried


@pytest.mark.parametrize("world", [TRIAL_NOISE[0], TRIAL_NOISE[4]], ids=lambda world: world.name)
def test_noise_gets_no_verdict_that_memory_helps(world):
    assert tried(world.history("small")).answer != "helps"


def test_a_regime_in_which_the_rule_loses_is_found():
    assert tried(TRIAL_PLANTED[0].history("0")).answer == "helps"


def test_a_decision_maker_that_never_looks_at_memory_gets_no_verdict_even_where_an_edge_is_planted():
    found = tried(TRIAL_PLANTED[0].history("0"), never_ask)
    assert found.answer == "cannot be told" and "this decision maker does not use memory" in found.reason


def test_a_decision_maker_that_knows_the_future_is_named():
    found = tried(known_beforehand(TRIAL_NOISE[0].history("0")))
    assert found.answer == "cannot be told" and "may know the future" in found.reason
