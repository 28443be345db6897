"""The verdict is calibrated: it finds a planted edge, and seldom one where there is none. `make soak` walks 200 worlds of each kind."""

from __future__ import annotations

import pytest

from evidence.validation_worlds import NOISE, PLANTED, in_trends_only, judged, regime_of_the_exit


@pytest.mark.parametrize("world", NOISE[:3], ids=lambda world: world.name)
def test_noise_gets_no_verdict_that_memory_helps(world):
    assert judged(world.history("small")).verdict.answer != "helps"


def test_a_planted_edge_of_the_situation_is_found():
    assert judged(PLANTED.history("small 0")).verdict.answer == "helps"


def test_a_regime_that_was_read_at_the_exit_is_called_look_ahead():
    found = judged(regime_of_the_exit(NOISE[0].history("leak")))
    assert found.verdict.answer == "cannot be told" and "regime and side at the entry foretell" in found.verdict.reason


def test_a_sizing_that_never_looks_at_outcomes_gets_no_verdict_even_where_it_is_right():
    found = judged(PLANTED.history("small 0"), "in_trends_only", {"in_trends_only": in_trends_only})
    assert found.pair.mean > 0.2 and found.pair.by_week.p_value < 0.05
    assert found.verdict.answer == "cannot be told" and "nothing was learned" in found.verdict.reason
