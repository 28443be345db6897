"""The studies of `memtape validate`, small: their shortcut changes no answer, and sections of the page are replaced by name."""

from __future__ import annotations

import pytest

from evidence.__main__ import replaced
from evidence.validation_worlds import NOISE, answer, judged, labels_of_the_walk


@pytest.mark.parametrize("history", [NOISE[1].history("fresh 0")[:200], labels_of_the_walk("0", 150)], ids=["noise", "walk"])
def test_the_sooner_answer_is_that_of_the_whole_judgement(history):
    assert answer(history) == judged(history).verdict.answer


def test_trades_on_a_walk_are_remembered_when_they_end():
    trades = labels_of_the_walk("0", 120)
    assert trades == labels_of_the_walk("0", 120) and len({e.regime for e in trades}) == 3
    assert all(e.exit_at > e.entry_at and e.known_from == e.exit_at and -1.0 <= e.pnl_r <= 2.0 for e in trades)


def test_a_study_that_is_run_alone_replaces_its_section_and_no_other():
    page = "# Evidence\n\n## One\n1\n\n## Two\n2\n"
    assert replaced(page, ["## One\n3\n", "## Three\n4\n"]) == "# Evidence\n\n## One\n3\n\n## Two\n2\n\n## Three\n4\n"
