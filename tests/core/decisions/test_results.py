"""What trade decisions came to, in R."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memtape.core.decisions.results import DecisionResult, in_window, result_figures, running_total

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)


def decision(key: str, status: Any = "resolved", r: str | None = None, hours_ago: float = 1, **more: Any) -> DecisionResult:
    at = NOON - timedelta(hours=hours_ago)
    return DecisionResult(key=key, decided_at=at, status=status, r=None if r is None else Decimal(r), **more)


def test_two_winners_and_a_loser_make_a_hit_rate_and_a_profit_factor() -> None:
    figures = result_figures([decision("a", r="2"), decision("b", r="-1"), decision("c", r="0.5"), decision("d", r="0")])
    assert (figures.n, figures.won, figures.lost, figures.flat) == (4, 2, 1, 1)
    assert (figures.total_r, figures.hit_rate, figures.profit_factor) == (Decimal("1.5"), Decimal("0.5"), Decimal("2.5"))


def test_without_a_loss_there_is_no_profit_factor_and_without_a_result_no_hit_rate() -> None:
    assert result_figures([decision("a", r="2")]).profit_factor is None
    nothing = result_figures([decision("a", "open"), decision("b", "pending"), decision("c", None)])
    assert (nothing.active, nothing.closed, nothing.n, nothing.hit_rate, nothing.profit_factor) == (2, 0, 0, None, None)


def test_a_trade_decided_against_enters_no_figure_whatever_it_would_have_done() -> None:
    shadow = decision("s", r="9", taken=False)
    assert shadow.group == "not taken" and shadow.counted_r is None
    assert result_figures([shadow, decision("p", "open", taken=False)]) == result_figures([])


def test_an_outcome_whose_risk_was_too_small_is_listed_and_not_counted() -> None:
    marked = decision("m", r="30", counts=False)
    figures = result_figures([marked, decision("a", r="1")])
    assert marked.group == "closed" and (figures.closed, figures.n, figures.not_counted, figures.total_r) == (2, 1, 1, 1)


def test_an_entry_that_was_never_filled_is_closed_without_a_result() -> None:
    figures = result_figures([decision("u", "expired"), decision("a", "expired", "-0.2")])
    assert (figures.closed, figures.unfilled, figures.n, figures.lost) == (2, 1, 1, 1)


def test_a_decision_counts_from_the_moment_it_closed() -> None:
    slow = decision("slow", r="-1", hours_ago=90, closed_at=NOON - timedelta(hours=1))
    quick = decision("quick", r="2", hours_ago=50, closed_at=NOON - timedelta(hours=49))
    assert [(point.key, point.at) for point in running_total([slow, quick])] == [("quick", quick.closed_at), ("slow", slow.closed_at)]
    assert [in_window(each, "24h", NOON) for each in (slow, quick)] == [True, False]


def test_the_running_total_of_decisions_without_an_exit_time_follows_the_order_in_which_they_were_taken() -> None:
    late, early = decision("late", r="-1", hours_ago=1), decision("early", r="2", hours_ago=9)
    points = running_total([late, decision("open", "open"), early, decision("no", r="5", taken=False)])
    assert [(point.key, point.total_r) for point in points] == [("early", 2), ("late", 1)]


def test_decisions_of_one_moment_are_added_in_the_order_of_their_keys() -> None:
    assert [point.key for point in running_total([decision("b", r="1"), decision("a", r="1")])] == ["a", "b"]


def test_a_window_holds_what_was_decided_in_it_and_everything_that_is_still_active() -> None:
    old = decision("old", r="1", hours_ago=24)
    fresh = decision("fresh", r="1", hours_ago=23.9)
    held = decision("held", "open", hours_ago=400)
    assert [in_window(each, "24h", NOON) for each in (old, fresh, held)] == [False, True, True]
    assert [in_window(each, "7d", NOON) for each in (old, decision("week", r="1", hours_ago=24 * 7))] == [True, False]
    assert in_window(decision("year", r="1", hours_ago=9_000), "all", NOON)


@given(st.lists(st.decimals(-50, 50, places=2)))
def test_the_figures_agree_with_each_other(rs: list[Decimal]) -> None:
    results = [decision(f"d{n}", r=str(r), hours_ago=n) for n, r in enumerate(rs)]
    figures, points = result_figures(results), running_total(results)
    assert figures.won + figures.lost + figures.flat == figures.n == len(points) == len(rs)
    assert figures.total_r == figures.won_r - figures.lost_r == sum(rs)
    assert figures.total_r == (points[-1].total_r if points else 0)
    assert (figures.profit_factor is None) == (figures.lost == 0)
