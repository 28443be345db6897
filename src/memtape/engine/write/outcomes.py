"""Follows decisions to their outcome, in the transaction in which decisions or bars arrive.

In order, that is on bars later than all others, an outcome is continued from what is stored of it. Otherwise the decision is
followed again from the beginning, on the bars that can have a part in its outcome, and its rows are replaced: late bars, bars of
several lengths, undone imports. Both use the same fold, and any order of delivery ends in the same rows as a rebuild.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

from memtape.core.codec import EPOCH
from memtape.core.decisions.followed import FollowedDecision, FollowedOutcome, continued_outcome, followed_decisions
from memtape.core.decisions.outcome_bars import (
    FRAMES_BEFORE,
    FRAMES_BEHIND,
    FrameBars,
    frame_length,
    frames_of,
    known_when_ended,
)
from memtape.core.decisions.outcomes import OutcomeCard
from memtape.core.ledger.rounds import KnownBar
from memtape.core.observed import Frame
from memtape.store.cutoff import EVERYTHING
from memtape.store.database import in_batches
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
    whole: Sequence[KnownBar]  # those that are as long as the frame, in order of time


def follow_new_bars(tables: Tables, bars: dict[str, list[KnownBar]]) -> set[str]:
    """Continue the outcomes that new bars may change, where they come in order. Returns the decisions to follow again."""
    memories, again = MemoryTables(tables), set[str]()
    for symbol, several in bars.items():
        if not memories.may_have_outcomes(symbol):
            continue
        for new in _new_bars(tables, symbol, several):
            # Whether a bar counts depends on those that overlap it, so a bar also concerns the time shortly before it.
            first = new.first - FRAMES_BEFORE * frame_length(new.frame)
            rows = memories.outcomes_open_to(symbol, new.frame, first, new.end, new.known_at)
            if rows:
                again |= _continue_in_order(tables, symbol, new, rows)
    return again


def _continue_in_order(tables: Tables, symbol: str, new: NewBars, rows: Sequence[FollowedOutcome]) -> set[str]:
    """Continue outcomes on bars that are later than all others, and were known later. Returns the decisions of the rest."""
    length, first = frame_length(new.frame), min(row.at for row in rows)
    # Shorter bars may have stood in for some that were counted.
    if not new.whole or tables.has_shorter_bars(symbol, first - FRAMES_BEFORE * length, new.end, length):
        return {row.id for row in rows}
    times = tables.bar_times(symbol, length, first)
    later = [t0 for t0, _ in times if t0 >= new.first]
    in_order = all(a.known_at <= b.known_at for a, b in pairwise(new.whole))
    if later != [known.bar.t0 for known in new.whole if known.bar.t0 >= first] or not in_order:
        return {row.id for row in rows}
    starts = [t0 for t0, _ in times if t0 < new.first]
    known_by = max([known_at for t0, known_at in times if t0 < new.first], default=EPOCH)
    again, done = set[str](), list[list[FollowedOutcome]]()
    for row in rows:
        if row.until is not None and row.until <= new.first:
            # It ended before these bars, and without shorter ones they concern no earlier time.
            continue
        if row.known_to is not None or row.until is not None or max(known_by, row.known_from) > new.known_at:
            again.add(row.id)
            continue
        continued = continued_outcome(row, len(starts) - bisect_left(starts, row.at), new.whole)
        if continued and continued[-1].shadow and continued[-1].outcome.is_final:
            # It becomes an episode, for which the decision itself is needed.
            again.add(row.id)
        elif continued:
            done.append(continued)
    kept = [each for each in done if each[0].id not in again]
    MemoryTables(tables).replace_outcomes([each[0].id for each in kept], [row for each in kept for row in each])
    return again


def follow_again(tables: Tables, ids: Iterable[str]) -> list[FollowedDecision]:
    """Follow some decisions and replace their rows. Returns those that have an outcome, or had one until they were undone."""
    named, memories = sorted(set(ids)), MemoryTables(tables)
    if not named:
        return []
    items = [item for some in in_batches(named) for item in tables.items("decision", EVERYTHING, keys=some, voided=True)]
    decisions = list(followed_decisions(items))
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
    for known in map(known_when_ended, bars):
        by_length.setdefault(known.bar.t1 - known.bar.t0, []).append(known)
    earliest = min(known.bar.t0 for known in bars)
    frames = {frame for several in by_length.values() for frame in frames_of(several[0].bar)}
    # A group of shorter bars may begin before its new ones.
    concerned = {frame: earliest - (FRAMES_BEFORE + 1) * frame_length(frame) for frame in sorted(frames)}
    followed = MemoryTables(tables).frames_open_to(symbol, concerned) if frames else set()
    spans: dict[Frame, list[tuple[datetime, datetime, datetime]]] = {}
    for length, several in by_length.items():
        for frame in (frame for frame in frames_of(several[0].bar) if frame in followed):
            if length == frame_length(frame):
                spans.setdefault(frame, []).extend((known.bar.t0, known.bar.t1, known.known_at) for known in several)
            else:
                spans.setdefault(frame, []).extend(_groups(tables, symbol, frame, length, several))
    for frame, found in spans.items():
        if found:
            firsts, ends, moments = zip(*found, strict=True)
            whole = sorted(by_length.get(frame_length(frame), ()), key=lambda known: known.bar.t0)
            yield NewBars(frame, min(firsts), max(ends), min(moments), whole)


def _groups(
    tables: Tables, symbol: str, frame: Frame, part: timedelta, bars: Iterable[KnownBar]
) -> list[tuple[datetime, datetime, datetime]]:
    """The spans of a frame that new shorter bars may complete, each with the earliest moment at which one was known."""
    length = frame_length(frame)
    groups: dict[datetime, datetime] = {}
    for known in bars:
        start = EPOCH + (known.bar.t0 - EPOCH) // length * length
        groups[start] = min(known.known_at, groups.get(start, known.known_at))
    if len(groups) <= MAX_GROUPS_COUNTED:
        whole = length // part
        groups = {start: at for start, at in groups.items() if tables.count_bars(symbol, part, start, start + length) >= whole}
    return [(start, start + length, known_at) for start, known_at in groups.items()]


def _series(tables: Tables, symbol: str, cards: Sequence[OutcomeCard]) -> dict[Frame, FrameBars]:
    """The bars of a symbol by frame, as far as the outcomes of some cards can depend on them."""
    frames = {card.frame for card in cards}
    longest = max(frame_length(frame) for frame in frames)
    first = min(card.t - FRAMES_BEFORE * frame_length(card.frame) for card in cards)
    until = max(card.t + (card.expiry_bars + FRAMES_BEHIND + 1) * frame_length(card.frame) for card in cards)
    last = tables.bars_end(symbol)
    while True:
        complete = last is None or until >= last
        bars = tables.bars_within(symbol, first, None if complete else until, longest, EVERYTHING)
        series = {frame: FrameBars.of(bars, frame, None if complete else until) for frame in frames}
        if complete or all(series[card.frame].covers(card.t, card.expiry_bars) for card in cards):
            return series
        # Weekends, holes, or bars that became known late: look further.
        until += until - first
