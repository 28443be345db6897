"""The verdict is calibrated: it finds a planted edge, and seldom one where there is none. `make soak` walks 200 worlds of each kind."""

from __future__ import annotations

from random import Random

import pytest

from evidence.validation_worlds import GOOD_REGIMES, NOISE, PLANTED, in_trends_only, judged, regime_of_the_exit
from memtape.core.validation.look_ahead import look_ahead_signs


@pytest.mark.parametrize("world", NOISE[:3], ids=lambda world: world.name)
def test_noise_gets_no_verdict_that_memory_helps(world):
    assert judged(world.history("small")).verdict.answer != "helps"


def test_a_planted_edge_of_the_situation_is_found():
    assert judged(PLANTED.history("small 0")).verdict.answer == "helps"


def test_a_regime_that_was_read_at_the_exit_is_called_look_ahead():
    found = judged(regime_of_the_exit(NOISE[0].history("leak")))
    assert found.verdict.answer == "cannot be told" and "regime and side at the entry foretell" in found.verdict.reason


@pytest.mark.parametrize("world", NOISE[:2], ids=lambda world: world.name)
def test_a_regime_of_the_trades_own_window_is_called_look_ahead_also_where_it_is_mostly_ranging(world):
    leak = regime_of_the_exit(world.history("window"), trending=0.25)
    [sign] = look_ahead_signs(leak, [e.pnl_r or 0.0 for e in leak])
    assert sign.startswith("regime trending_") and "at the entry and the side foretell" in sign


def test_an_honest_edge_however_strong_is_no_look_ahead():
    chance = Random("strong")
    strong = [e._replace(pnl_r=1.0 if chance.random() < (0.75 if e.regime in GOOD_REGIMES else 0.25) else -1.0) for e in PLANTED.history("s")]
    assert look_ahead_signs(strong, [e.pnl_r or 0.0 for e in strong]) == []


def test_a_sizing_that_never_looks_at_outcomes_gets_no_verdict_even_where_it_is_right():
    found = judged(PLANTED.history("small 0"), "in_trends_only", {"in_trends_only": in_trends_only})
    assert found.pair.mean > 0.2 and found.pair.by_week.p_value < 0.05
    assert found.verdict.answer == "cannot be told" and "nothing was learned" in found.verdict.reason
