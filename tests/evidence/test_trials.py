"""The verdict of a trial is calibrated, in one world of each main kind. `make soak` lives through 200 worlds of each."""

from __future__ import annotations

import pytest

from evidence.figures import Figure
from evidence.trial_worlds import TRIAL_NOISE, tried
from evidence.trials import study


@pytest.fixture(scope="module")
def figures() -> dict[str, Figure]:
    return {figure.name: figure for figure in study("small")}


def test_in_noise_memory_does_not_help_and_a_regime_in_which_the_rule_loses_is_found(figures):
    assert [figure.row() for figure in figures.values() if not figure.ok] == []
    assert figures["an edge in two of four regimes: memory helps"].value == 1.0
    assert figures["brackets without an edge: memory helps"].value == 0.0


def test_who_knows_the_future_is_named_and_who_never_asks_memory_gets_no_verdict(figures):
    assert figures["known beforehand: it is named"].value == 1.0
    assert figures["never asks memory: gets a verdict"].value == 0.0


def test_every_verdict_stands_beside_a_plain_test(figures):
    assert all(figure.baseline for name, figure in figures.items() if name.endswith("memory helps"))


def test_where_luck_lasts_for_days_memory_does_not_help():
    assert tried(TRIAL_NOISE[4].history("small")).answer != "helps"
