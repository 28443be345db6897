"""A small version of the study of trials: one world of each of the main kinds."""

from __future__ import annotations

from evidence.trials import study


def test_every_bar_of_the_study_of_trials_is_kept_in_one_world_each():
    figures = study("small")
    assert [figure.name for figure in figures if not figure.ok] == []
    assert all(figure.baseline for figure in figures if figure.name.endswith("memory helps"))
