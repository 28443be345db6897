"""Reviews of an agent's own decisions: lines, tally, hit rate."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memtape.core.decisions.reviews import ConvictionScore, ReviewedCard, review_lines
from tests.effort import examples

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)


def card(id: str = "d1", minutes_ago: float = 60, type: str = "trade-decision", **rest: Any) -> ReviewedCard:
    return ReviewedCard(id=id, decided_at=NOW - timedelta(minutes=minutes_ago), type=type, **rest)


def line(**rest: Any) -> str:
    return review_lines([card(**rest)], NOW).lines[0]


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ({"action": "no__trade- now"}, "1h ago · NO TRADE NOW"),
        ({"action": "  ", "type": "daily-plan"}, "1h ago · DAILY PLAN"),
        ({"action": "buy", "thesis": " ", "reason": "retest held;:"}, "1h ago · BUY · retest held"),
        ({"action": "buy", "title": "one two three four five six seven eight"}, "1h ago · BUY · one two three four five six seven eight"),
        ({"action": "buy", "thesis": "a b c d e f g h, i"}, "1h ago · BUY · a b c d e f g h…"),
        ({"action": "buy", "thesis": "..."}, "1h ago · BUY"),
        ({"action": "Skip", "status": "expired", "cause": "unfilled"}, "1h ago · SKIP · shadow expired unfilled"),
        ({"action": "PASS", "status": "expired", "cause": "expiry", "r": Decimal("-0.35")}, "1h ago · PASS · shadow expired -0.4R"),
        ({"action": "sell", "status": "resolved", "cause": "stop", "r": Decimal("-1.05")}, "1h ago · SELL · stop -1.0R"),
        ({"action": "sell", "status": "resolved", "cause": "target", "r": Decimal("12.25")}, "1h ago · SELL · target +12.2R"),
    ],
)  # fmt: skip
def test_a_decision_reads_as_one_short_line(said, shown):
    assert line(**said) == shown


def test_the_latest_conviction_known_is_shown_and_none_from_the_future():
    before, later = NOW - timedelta(minutes=5), NOW + timedelta(seconds=1)
    assert line(action="buy", examinations=(ConvictionScore(NOW, 40), ConvictionScore(before, 90), ConvictionScore(later, 10))).endswith(" · conviction 40")
    assert line(action="buy", examinations=(ConvictionScore(before, 90), ConvictionScore(before, 20))).endswith(" · conviction 20")
    assert line(action="buy", examinations=(ConvictionScore(later, 10),)) == "1h ago · BUY"


def test_decisions_of_one_moment_stand_by_id_and_the_limit_leaves_the_tally_alone():
    review = review_lines([card("b", action="b"), card("a", action="a"), card("c", 61, action="c")], NOW, limit=2)
    assert review.lines == ("1h ago · A", "1h ago · B")
    assert review.tally == "3 decisions: 3 without outcome"


@pytest.mark.parametrize(("won", "lost", "rate"), [(1, 7, "12 %"), (3, 5, "38 %"), (2, 1, "67 %"), (0, 3, "0 %"), (4, 0, "100 %")])
def test_the_hit_rate_rounds_half_to_even(won, lost, rate):
    outcomes = [Decimal(2)] * won + [Decimal(-1)] * lost
    cards = [card(f"d{n}", action="buy", status="resolved", cause="target", r=r) for n, r in enumerate(outcomes)]
    assert review_lines(cards, NOW).hit_rate == f"hit rate {rate} (n={won + lost})"


def test_an_outcome_that_counts_in_no_figure_keeps_its_line():
    review = review_lines([card(action="buy", status="resolved", cause="target", r=Decimal(40), counts=False)], NOW)
    assert review.lines == ("1h ago · BUY · target +40.0R",)
    assert (review.tally, review.hit_rate) == ("1 decision: 1 without outcome", "hit rate unknown (n=0)")


def test_the_tally_names_its_groups_in_one_order():
    outcomes: list[dict[str, Any]] = [
        {"action": "wait", "status": "resolved", "cause": "stop", "r": Decimal(-1)},
        {"action": "hold", "status": "resolved", "cause": "target", "r": Decimal(1)},
        {"action": "none", "status": "expired", "cause": "expiry", "r": Decimal(0)},
        {"action": "skip", "status": "open"},
        {"action": "buy", "status": "expired", "cause": "unfilled"},
        {"action": "buy", "status": "pending"},
        {"action": "buy", "status": "open"},
        {"action": "buy", "status": "expired", "cause": "expiry", "r": Decimal("0.0")},
        {"action": "buy", "status": "resolved", "cause": "stop", "r": Decimal("-0.01")},
        {"action": "buy", "status": "expired", "cause": "expiry", "r": Decimal("0.01")},
    ]
    review = review_lines([card(f"d{n}", **said) for n, said in enumerate(outcomes)], NOW)
    assert review.tally == (
        "10 decisions: 1 won, 1 lost, 1 flat, 1 open, 1 pending, 1 unfilled, 1 would have won, 1 would have lost, 2 without outcome"
    )
    assert review.hit_rate == "hit rate 33 % (n=3)"


CARDS = st.builds(
    ReviewedCard,
    id=st.text("abc", min_size=1, max_size=3), decided_at=st.integers(-50, 50).map(lambda n: NOW + timedelta(minutes=n)),
    type=st.sampled_from(["trade-decision", "research-note"]), action=st.sampled_from([None, "buy", "sell", "WAIT", "no_trade"]),
    thesis=st.none() | st.text(max_size=80), status=st.sampled_from([None, "pending", "open", "resolved", "expired"]),
    cause=st.sampled_from([None, "stop", "target", "expiry", "unfilled"]),
    r=st.none() | st.decimals(-99, 99, allow_nan=False, places=4), counts=st.booleans(),
)  # fmt: skip


@settings(max_examples=examples(100, 3_000))
@given(st.lists(CARDS, max_size=12), st.integers(0, 6))
def test_every_known_decision_stands_in_one_group_and_takes_one_line(cards, limit):
    review = review_lines(cards, NOW, limit)
    known = [each for each in cards if each.decided_at <= NOW]
    assert sum(review.counts.values()) == len(known)
    assert len(review.lines) == min(limit, len(known))
    assert all(len(each.splitlines()) == 1 for each in review.lines)
    assert review_lines(reversed(cards), NOW, limit).counts == review.counts
