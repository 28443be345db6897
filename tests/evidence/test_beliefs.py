"""Small versions of the studies of beliefs and of drift: twenty histories of each kind."""

from __future__ import annotations

import math

import numpy as np
import pytest

import evidence.drift
from evidence.beliefs import EDGE, believed_before, believed_now, labels, mirrors, study, trades
from evidence.figures import Figure
from memtape.core.memory.belief_cells import count_cells


@pytest.fixture(scope="module")
def figures() -> list[Figure]:
    return [*study("small"), *evidence.drift.study("small")]


def test_every_bar_of_the_study_is_kept_as_far_as_twenty_histories_can_tell(figures):
    for figure in figures:
        bar = figure.at_most if figure.at_most is not None else figure.at_least
        if bar is None:
            continue
        chance = 2.0 * math.sqrt(bar * (1.0 - bar) / figure.n)
        assert figure.at_most is None or figure.value <= bar + chance, figure.row()
        assert figure.at_least is None or figure.value >= bar - chance, figure.row()


def test_every_claim_against_luck_stands_beside_the_earlier_rule(figures):
    assert all(figure.baseline for figure in figures if figure.name.startswith(("no edge", "no change")))


def test_where_the_earlier_rule_finds_a_dozen_beliefs_there_is_one():
    chance = np.random.default_rng(5)
    codes = labels(chance, 1000, 1.0)
    counts = count_cells(trades(codes, chance.random(1000) < np.where(codes["regime"] == 0, 0.75, 0.45)), True)
    before = believed_before(counts)
    assert len(before) > 10
    assert mirrors(before)
    assert [belief.proposition.when for belief in believed_now(counts)] == [EDGE]
