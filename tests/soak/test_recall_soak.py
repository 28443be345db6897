"""Recall of a long past, against a full scan."""

from __future__ import annotations

from tests.conformance.test_recall_exact import same_as_a_scan, the_past
from tests.desk import given_agent, given_memory


def test_ten_thousand_trades_with_ties_and_gaps_are_recalled_as_by_a_full_scan() -> None:
    agent = given_agent(given_memory())
    the_past(agent, 10_000)
    same_as_a_scan(agent, 200)
