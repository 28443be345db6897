"""Follows decisions to their outcome, in the transaction in which decisions or bars arrive.

A decision that a transaction touches is followed again from the beginning, on the bars that can have a part in its outcome, and
its rows are replaced. So late bars, undone imports and any order of delivery end in the same rows as a rebuild.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from memtape.core.codec import EPOCH
from memtape.core.decisions.followed import FollowedDecision, followed_decisions
from memtape.core.decisions.outcome_bars import FRAMES_BEFORE, FRAMES_BEHIND, BarSeries, frame_length, frames_of
from memtape.core.decisions.outcomes import OutcomeCard
from memtape.core.ledger.rounds import KnownBar
from memtape.core.observed import Bar, Frame
from memtape.store.cutoff import EVERYTHING
from memtape.store.memories import MemoryTables
from memtape.store.tables import Tables

# Up to so many groups of shorter bars are looked up to see whether they are complete; with more, some are taken to be.
MAX_GROUPS_COUNTED = 8


class NewBars(NamedTuple):
    """The new bars of a symbol that may belong to a frame: their span, and when the first of them was known."""

    frame: Frame
    first: datetime
    end: datetime
    known_at: datetime


def decisions_open_to(tables: Tables, bars: dict[str, list[KnownBar]]) -> set[str]:
    """The ids of the decisions whose outcome, in any version, new bars may change."""
    memories, found = MemoryTables(tables), set[str]()
    for symbol, several in bars.items():
        for new in _new_bars(tables, symbol, several):
            # Whether a bar counts depends on those that overlap it, so a bar also concerns the time shortly before it.
            first = new.first - FRAMES_BEFORE * frame_length(new.frame)
            found |= {row.id for row in memories.outcomes_open_to(symbol, new.frame, first, new.end, new.known_at)}
    return found


def follow_again(tables: Tables, ids: Iterable[str]) -> list[FollowedDecision]:
    """Follow some decisions and replace their rows. Returns those that have an outcome, or had one until they were undone."""
    named, memories = sorted(set(ids)), MemoryTables(tables)
    if not named:
        return []
    decisions = followed_decisions(tables.items("decision", EVERYTHING, keys=named, voided=True))
    by_symbol: dict[str, list[OutcomeCard]] = {}
    for item, _, card in decisions:
        by_symbol.setdefault(item.symbol, []).append(card)
    series = {
        (symbol, frame): each
        for symbol, cards in by_symbol.items() for frame, each in _series(tables, symbol, cards).items()
    }  # fmt: skip
    found = [FollowedDecision.on(item, decision, card, series[item.symbol, card.frame]) for item, decision, card in decisions]
    memories.drop_outcomes(named)
    memories.put_outcomes([row for followed in found for row in followed.rows()])
    return found


def _new_bars(tables: Tables, symbol: str, bars: Sequence[KnownBar]) -> Iterator[NewBars]:
    """The frames to which new bars may belong, by themselves or by completing a group of shorter ones."""
    by_length: dict[timedelta, list[KnownBar]] = {}
    for known in bars:
        by_length.setdefault(known.bar.t1 - known.bar.t0, []).append(known)
    spans: dict[Frame, list[tuple[datetime, datetime, datetime]]] = {}
    for length, several in by_length.items():
        for frame in frames_of(several[0].bar):
            ended = [(known.bar, max(known.known_at, known.bar.t1)) for known in several]
            if length == frame_length(frame):
                spans.setdefault(frame, []).extend((bar.t0, bar.t1, known_at) for bar, known_at in ended)
            else:
                spans.setdefault(frame, []).extend(_groups(tables, symbol, frame, length, ended))
    for frame, found in spans.items():
        if found:
            firsts, ends, moments = zip(*found, strict=True)
            yield NewBars(frame, min(firsts), max(ends), min(moments))


def _groups(
    tables: Tables, symbol: str, frame: Frame, part: timedelta, bars: Iterable[tuple[Bar, datetime]]
) -> list[tuple[datetime, datetime, datetime]]:
    """The spans of a frame that new shorter bars may complete, each with the earliest moment at which one was known."""
    length = frame_length(frame)
    known: dict[datetime, datetime] = {}
    for bar, known_at in bars:
        start = EPOCH + (bar.t0 - EPOCH) // length * length
        known[start] = min(known_at, known.get(start, known_at))
    if len(known) <= MAX_GROUPS_COUNTED:
        whole = length // part
        known = {start: at for start, at in known.items() if tables.count_bars(symbol, part, start, start + length) >= whole}
    return [(start, start + length, known_at) for start, known_at in known.items()]


def _series(tables: Tables, symbol: str, cards: Sequence[OutcomeCard]) -> dict[Frame, BarSeries]:
    """The bars of a symbol by frame, as far as the outcomes of some cards can depend on them."""
    frames = {card.frame for card in cards}
    longest = max(frame_length(frame) for frame in frames)
    first = min(card.t - FRAMES_BEFORE * frame_length(card.frame) for card in cards)
    until = max(card.t + (card.expiry_bars + FRAMES_BEHIND + 1) * frame_length(card.frame) for card in cards)
    last = tables.bars_end(symbol)
    while True:
        complete = last is None or until >= last
        bars = tables.bars_within(symbol, first, None if complete else until, longest, EVERYTHING)
        series = {frame: BarSeries.of(bars, frame, None if complete else until) for frame in frames}
        if complete or all(series[card.frame].covers(card.t, card.expiry_bars) for card in cards):
            return series
        # Weekends, holes, or bars that became known late: look further.
        until += until - first
