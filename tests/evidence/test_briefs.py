"""What a brief costs on real histories, measured on a few of them. Skipped without the data."""

from __future__ import annotations

import pytest

from evidence.briefs import says_nothing, study
from evidence.histories import HISTORIES, histories_available

pytestmark = pytest.mark.skipif(not histories_available(), reason="the real trade logs are not beside this checkout")


def test_a_default_brief_of_a_real_history_is_short_and_every_line_says_something() -> None:
    figures = study("small")
    assert len(figures) >= 7
    assert [figure.row() for figure in figures if not figure.ok] == []


def test_there_are_twenty_histories_from_five_sources() -> None:
    assert len(HISTORIES) == len({history.name for history in HISTORIES}) == 20
    assert len({history.file for history in HISTORIES}) == 5


@pytest.mark.parametrize(("line", "empty"), [
    ("- Orders today: 0 (of 0 decisions)", True), ("- Evidence: no trade in memory with a known outcome in R", True),
    ("- XAU long lost 1R yesterday [e0]", False), ("- Drawdown: 4.2 % from the peak", False),
])  # fmt: skip
def test_a_line_without_a_figure_says_nothing(line: str, empty: bool) -> None:
    assert says_nothing(line) is empty
