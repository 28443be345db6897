"""What becomes of a decision on later bars: the golden vectors, the rules one by one, and versions as of any moment."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memtape.core.decisions.outcome_bars import FRAME_SECONDS, FrameBars, frame_length
from memtape.core.decisions.outcomes import (
    Outcome,
    OutcomeCard,
    check_decision,
    follow_outcome,
    outcome_card,
    outcome_versions,
    settle_outcomes,
    version_at,
    versions_on,
)
from memtape.core.ledger.rounds import KnownBar
from memtape.core.observed import Bar, Decision
from memtape.errors import Invalid
from memtape.lab.outcome_formulas import outcome_vector
from tests.effort import examples

GOLDEN = Path(__file__).parents[2] / "golden" / "cards_golden.json"
VECTORS = [vector for vector in json.loads(GOLDEN.read_text())["vectors"] if vector["op"] == "outcome"]
TEN = datetime(2026, 3, 2, 10, tzinfo=UTC)
HOUR = timedelta(hours=1)


def at(hours: float) -> datetime:
    return TEN + hours * HOUR


def hourly(n: float, o: Any, h: Any, low: Any, c: Any, known: float | None = None, length: timedelta = HOUR) -> KnownBar:
    """A bar that begins n hours after ten, known when it closes, or so many hours after ten."""
    prices = dict(zip("ohlc", (Decimal(str(price)) for price in (o, h, low, c)), strict=True))
    bar = Bar(symbol="XAUUSD", t0=at(n), t1=at(n) + length, **prices)
    return KnownBar(bar, bar.t1 if known is None else at(known))


def card(**changes: Any) -> OutcomeCard:
    """A long from 100 with its stop at 98 and its target at 104, decided at ten."""
    prices = {"entry_price": "100", "stop": "98", "target": "104"} | changes
    prices = {
        name: Decimal(value) if name in ("entry_price", "stop", "target") and value else value for name, value in prices.items()
    }
    return OutcomeCard(**({"t": TEN, "symbol": "XAUUSD", "action": "buy", "side": "long"} | prices))


# ---- the golden vectors ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_a_golden_outcome_comes_out_exactly(vector: dict[str, Any]) -> None:
    got = outcome_vector(vector["inputs"])
    for name, expected in vector["expected"].items():
        wanted = pytest.approx(expected, abs=vector["tol"]) if isinstance(expected, float) else expected
        assert got[name] == wanted, name


def test_all_golden_outcomes_are_here() -> None:
    assert len(VECTORS) == 23


GIVEN: dict[str, Any] = {"side": "long", "decided_at": "2026-03-02T10:00:00Z", "entry": "100", "stop": "98", "target": "104"}


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({"side": "up"}, ["side"]),
        ({"entry": "soon"}, ["entry"]),
        ({"entry": "soon", "frame": "2h", "expiry_bars": 0}, ["entry", "frame", "expiry_bars"]),
        ({"stop": "100"}, ["stop"]),
        ({"stop": "low"}, ["stop"]),
        ({"target": "100"}, ["target"]),
        ({"stop": "105", "target": "95"}, ["stop", "target"]),
        ({"side": "short"}, ["stop", "target"]),
        ({"entry": "market", "stop": "104"}, ["stop"]),
        ({"entry": None, "stop": "105"}, ["stop"]),
        ({"frame": ["1h"]}, ["frame"]),
        ({"expiry_bars": 2.5}, ["expiry_bars"]),
        ({"expiry_bars": True}, ["expiry_bars"]),
        ({"expiry_bars": "24"}, ["expiry_bars"]),
        ({"side": "up", "stop": "105", "frame": "1w"}, ["side", "frame"]),
    ],
)
def test_a_card_that_contradicts_itself_is_refused_with_every_wrong_field(changes: dict[str, Any], refused: list[str]) -> None:
    assert outcome_vector({"card": GIVEN | changes, "bars": [], "as_of": "2026-03-10T00:00:00Z"}) == {"refused": refused}


@pytest.mark.parametrize(
    "changes",
    [
        {"side": None},
        {"stop": None},
        {"action": "Stand_Aside", "target": None},
        {"type": "watch-list"},
        {"type": "research-note"},
    ],
    ids=str,
)
def test_a_card_that_states_too_little_or_is_no_trade_decision_has_no_outcome(changes: dict[str, Any]) -> None:
    found = outcome_vector({"card": GIVEN | changes, "bars": [], "as_of": "2026-03-10T00:00:00Z"})
    assert found.pop("shadow") is ("action" in changes)
    assert set(found.values()) == {None}


# ---- the rules -------------------------------------------------------------------------------------------------------------


def test_without_a_target_a_trade_ends_at_its_stop_or_after_its_bars() -> None:
    free = card(target=None, entry_price=None, expiry_bars=2)
    assert follow_outcome(free, [hourly(0, 100, 120, 99, 119), hourly(1, 119, 119, 97, 118)]).cause == "stop"
    marked = follow_outcome(free, [hourly(0, 100, 120, 99, 119), hourly(1, 119, 130, 118, 125)])
    assert (marked.status, marked.cause, marked.exit_price, marked.r) == ("expired", "expiry", 125, 12.5)


def test_a_short_is_the_mirror_image_of_a_long() -> None:
    short = card(side="short", stop="102", target="96")
    gap = follow_outcome(short, [hourly(0, "100.5", "100.9", "99.9", 100), hourly(1, 100, 103, 95, 96)])
    assert (gap.entry_price, gap.entry_at, gap.exit_price, gap.cause, gap.r) == (Decimal("100.5"), at(0), 102, "stop", -1.0)
    through = follow_outcome(short, [hourly(0, 99, "99.9", 98, 99), hourly(1, 95, 95, 94, 95)])
    assert (through.entry_price, through.exit_price, through.exit_at, through.cause) == (Decimal("99.9"), 95, at(1), "target")


def test_a_market_that_opens_beyond_the_target_leaves_no_trade() -> None:
    for entry in (None, "100"):
        missed = follow_outcome(
            card(entry_price=entry, target="100.05"), [hourly(0, 104, 105, "100.07", 104), hourly(1, 100, 101, 97, 98)]
        )
        assert missed == Outcome("expired", cause="unfilled")


def test_a_limit_filled_inside_the_last_bar_of_its_window_is_marked_to_that_close() -> None:
    last = follow_outcome(card(expiry_bars=1), [hourly(0, 102, 104, 99, 101)])
    assert (last.status, last.entry_at, last.exit_at, last.r) == ("expired", at(1), at(1), 0.5)


def test_a_gap_that_leaves_under_a_fifth_of_the_planned_risk_is_marked_and_counts_in_no_figure() -> None:
    gap = follow_outcome(card(), [hourly(0, "98.39", "99", "98.2", "98.5"), hourly(1, 99, 104, 99, 103)])
    assert (gap.status, gap.risk_too_small, gap.counts) == ("resolved", True, False)
    enough = follow_outcome(card(), [hourly(0, "98.4", "99", "98.2", "98.5"), hourly(1, 99, 104, 99, 103)])
    assert (enough.risk_too_small, enough.counts, enough.r) == (False, True, 14.0)
    # A market entry has no planned price, so its risk is the planned one.
    assert not follow_outcome(card(entry_price=None), [hourly(0, "98.39", "99", "98.2", "98.5")]).risk_too_small


def test_r_is_the_double_next_to_the_exact_ratio() -> None:
    found = follow_outcome(card(entry_price=None, stop="98.000000000000000001"), [hourly(0, "98.1", "104", "98.05", "103")])
    assert found.r == (10**18 * 59) / (10**17 * 10 - 10)


# ---- decisions -------------------------------------------------------------------------------------------------------------


def test_a_decision_is_followed_under_the_defaults_of_its_card() -> None:
    decided = Decision(id="d1", t=TEN, symbol="XAUUSD", action="buy", side="long", stop=Decimal(98))
    followed = outcome_card(decided)
    assert followed is not None
    assert (followed.card, followed.entry_price, followed.frame, followed.expiry_bars) == ("trade-decision", None, "1h", 24)
    stated = Decision(
        id="d1", t=TEN, symbol="XAUUSD", side="long", stop=Decimal(98), frame="1d", expiry_bars=5, entry_price=Decimal(99)
    )
    followed = outcome_card(stated)
    assert followed is not None
    assert (followed.entry_price, followed.frame, followed.expiry_bars) == (99, "1d", 5)


@pytest.mark.parametrize(
    "changes",
    [{"side": None}, {"stop": None}, {"symbol": None}, {"card": "research-note"}, {"action": "WAIT"}, {"stop": Decimal(101)}],
    ids=str,
)
def test_a_decision_that_states_too_little_or_contradicts_itself_has_no_outcome(changes: dict[str, Any]) -> None:
    prices = {"entry_price": Decimal(100), "stop": Decimal(98)}
    assert outcome_card(Decision(**({"id": "d1", "t": TEN, "symbol": "XAUUSD", "side": "long"} | prices | changes))) is None


def test_every_price_on_the_wrong_side_of_a_decisions_entry_is_named() -> None:
    with pytest.raises(Invalid) as refused:
        check_decision(Decision(action="buy", entry_price=Decimal(100), stop=Decimal(105), target=Decimal(95)))
    assert [error.field for error in refused.value.errors] == ["stop", "target"]
    with pytest.raises(Invalid, match="stop: 104 equals the target 104 of a long"):
        check_decision(Decision(side="long", stop=Decimal(104), target=Decimal(104)))


def test_selling_at_the_market_may_close_a_long_and_contradicts_nothing() -> None:
    check_decision(Decision(action="sell", stop=Decimal(98), target=Decimal(104)))


# ---- bars of other lengths -------------------------------------------------------------------------------------------------

QUARTER = timedelta(minutes=15)


def quarters(n: float, *closes: Any, known: float | None = None) -> list[KnownBar]:
    """Bars of a quarter of an hour from n hours after ten, each from one close to the next."""
    return [
        hourly(n + place / 4, a, max(a, b), min(a, b), b, known, length=QUARTER)
        for place, (a, b) in enumerate(itertools.pairwise(closes))
    ]


def test_where_bars_of_the_frame_are_missing_a_complete_hour_of_shorter_bars_stands_in() -> None:
    bars = quarters(0, 100, 103, 101, 99, 102)
    (pending, opened) = outcome_versions(card(entry_price=None), TEN, bars)
    assert (pending.outcome.status, opened.known_from) == ("pending", at(1))
    assert (opened.outcome.status, opened.outcome.entry_price) == ("open", 100)
    assert [v.outcome.status for v in outcome_versions(card(entry_price=None), TEN, bars[1:])] == ["pending"]


def test_shorter_bars_are_put_together_from_full_hour_to_full_hour() -> None:
    bars = quarters(0.5, 100, 100, 100, 100, 100, 100, 100)
    assert [known.bar.t0 for known in FrameBars.of(bars, "1h").bars] == [at(1)]


def test_of_two_bars_for_one_hour_the_one_known_first_counts_and_at_once_the_one_of_the_frame() -> None:
    parts, whole = quarters(0, 100, 100, 100, 100, 100), hourly(0, 90, 95, 85, 90)
    assert FrameBars.of([*parts, whole], "1h").bars == [whole]
    late = hourly(0, 90, 95, 85, 90, known=2)
    assert [known.bar.o for known in FrameBars.of([*parts, late], "1h").bars] == [100]


def test_days_that_begin_at_another_hour_are_not_mixed_with_days_of_shorter_bars() -> None:
    day = timedelta(days=1)
    days = [hourly(12 + 24 * n, 100, 101, 99, 100, length=day) for n in range(3)]  # from 22:00 to 22:00
    hours = [hourly(n, 100, 101, 99, 100) for n in range(96)]
    # The first full day of hours overlaps the first day of 22:00, which was known before.
    assert FrameBars.of([*days, *hours], "1d").bars[:3] == days


def test_a_bar_is_known_when_it_has_ended_whatever_its_source_says() -> None:
    early = hourly(0, 100, 101, 99, 100, known=0.95)
    assert [version.known_from for version in outcome_versions(card(), TEN, [early])] == [TEN, at(1)]


# ---- versions --------------------------------------------------------------------------------------------------------------

prices = st.integers(195, 209).map(lambda n: Decimal(n) / 2)


@st.composite
def known_bars(draw: Any) -> list[KnownBar]:
    """Bars of an hour and of a quarter, with gaps, some of them known late or in another order."""
    found = []
    for length, count in ((HOUR, 12), (QUARTER, 24)):
        for n in draw(st.lists(st.integers(-3, count), unique=True, max_size=14)):
            a, b, c, d = sorted(draw(prices) for _ in range(4))
            t0 = TEN + n * length + draw(st.sampled_from([timedelta(0)] * 9 + [timedelta(minutes=30)]))
            delay = draw(st.sampled_from([timedelta(0)] * 3 + [timedelta(minutes=-3), 2 * HOUR, 30 * HOUR]))
            flip = draw(st.booleans())
            bar = Bar(symbol="XAUUSD", t0=t0, t1=t0 + length, o=b if flip else c, h=d, l=a, c=c if flip else b)
            found.append(KnownBar(bar, bar.t1 + delay))
    return list({(known.bar.t0, known.bar.frame): known for known in found}.values())


@st.composite
def cards(draw: Any) -> OutcomeCard:
    side = draw(st.sampled_from(["long", "short"]))
    near = Decimal(1) if side == "long" else Decimal(-1)
    target = draw(st.sampled_from([None, 2, 3]))
    return card(
        t=TEN + draw(st.integers(-2, 8)) * timedelta(minutes=20), side=side, entry_price=draw(st.sampled_from([None, "101"])),
        stop=str(101 - 2 * near), target=None if target is None else str(101 + target * near),
        expiry_bars=draw(st.integers(1, 6)), action=draw(st.sampled_from(["buy", "wait"])),
    )  # fmt: skip


def counted_at(bars: list[KnownBar], moment: datetime) -> list[KnownBar]:
    """The hours that count at a moment, found by looking at every pair of bars."""
    ended = [KnownBar(known.bar, max(known.known_at, known.bar.t1)) for known in bars]
    own = [known for known in ended if known.bar.frame == 3600]
    groups = []
    for start in {known.bar.t0.replace(minute=0) for known in ended if known.bar.frame == 900}:
        parts = [k for n in range(4) for k in ended if k.bar.frame == 900 and k.bar.t0 == start + n * QUARTER]
        if len(parts) == 4:
            bar = Bar(symbol="XAUUSD", t0=start, t1=start + HOUR, o=parts[0].bar.o, c=parts[3].bar.c,
                      h=max(k.bar.h for k in parts), l=min(k.bar.l for k in parts))  # fmt: skip
            groups.append(KnownBar(bar, max(k.known_at for k in parts)))

    def overlap(a: KnownBar, b: KnownBar) -> bool:
        return a.bar.t0 < b.bar.t1 and b.bar.t0 < a.bar.t1

    groups = [g for g in groups if not any(overlap(g, k) and k.known_at <= g.known_at for k in own)]
    own = [k for k in own if not any(overlap(g, k) and g.known_at < k.known_at for g in groups)]
    return [known for known in own + groups if known.known_at <= moment]


@given(cards(), known_bars(), st.integers(0, 3), st.randoms(use_true_random=False))
@settings(max_examples=examples(150, 5_000))
def test_as_of_any_moment_the_version_in_force_is_the_fold_over_what_was_known(
    followed: OutcomeCard, bars: list[KnownBar], late: int, chance: Any
) -> None:
    known_at = followed.t + late * HOUR
    if followed.is_shadow and followed.target is None:
        return
    versions = outcome_versions(followed, known_at, bars)
    moments = sorted({known_at, *(max(k.known_at, k.bar.t1) for k in bars), *(v.known_from for v in versions)})
    for moment in moments:
        if moment >= known_at:
            assert version_at(versions, moment) == follow_outcome(followed, counted_at(bars, moment))
    assert version_at(versions, known_at - timedelta(seconds=1)) is None
    assert all(a.known_to == b.known_from and a.outcome != b.outcome for a, b in itertools.pairwise(versions))
    shuffled = list(bars)
    chance.shuffle(shuffled)
    assert outcome_versions(followed, known_at, shuffled) == versions
    assert settle_outcomes([(followed, known_at)] * 2, shuffled) == [versions] * 2


@given(cards(), known_bars(), st.integers(0, 60))
@settings(max_examples=examples(150, 5_000))
def test_a_series_that_says_it_covers_a_card_needs_no_later_bar(followed: OutcomeCard, bars: list[KnownBar], hours: int) -> None:
    if followed.is_shadow and followed.target is None:
        return
    until, whole = at(hours), FrameBars.of(bars, followed.frame)
    first = followed.t - 2 * frame_length(followed.frame)
    some = FrameBars.of([known for known in bars if known.bar.t0 >= first and known.bar.t1 <= until], followed.frame, until)
    if some.covers(followed.t, followed.expiry_bars):
        assert versions_on(followed, followed.t, some) == versions_on(followed, followed.t, whole)


@given(cards(), known_bars())
@settings(max_examples=examples(100, 3_000))
def test_bars_that_begin_after_what_settled_an_outcome_do_not_change_it(followed: OutcomeCard, bars: list[KnownBar]) -> None:
    if followed.is_shadow and followed.target is None:
        return
    for version in outcome_versions(followed, followed.t, bars):
        if version.settled_by is not None:
            end = version.settled_by
            kept = [known for known in counted_at(bars, version.known_from) if known.bar.t0 < end]
            assert follow_outcome(followed, kept) == version.outcome


def test_a_late_bar_changes_an_outcome_from_the_moment_at_which_it_is_known() -> None:
    bars = [hourly(0, 100, 101, 99, 100), hourly(2, 100, 104, 99, 103), hourly(1, 100, 101, 97, 98, known=9)]
    found = [(v.known_from, v.outcome.cause, v.settled_by) for v in outcome_versions(card(), TEN, bars)]
    assert found == [(TEN, None, None), (at(1), None, None), (at(3), "target", at(3)), (at(9), "stop", at(2))]


def test_each_frame_is_as_long_as_it_says() -> None:
    assert [frame_length(frame) / timedelta(minutes=1) for frame in FRAME_SECONDS] == [1, 5, 15, 30, 60, 240, 1440]
