"""The bars on which the outcome of a decision is followed: those of its frame, or shorter ones put together.

A store has bars of any length. A decision's bars are those that are as long as its frame. Where there is none, a complete group
of shorter bars stands in for it: bars of one length that divides the frame, from one multiple of the frame since 1970 to the
next. Such a group is known when the last of its bars is known. Of two bars for one time the one that was known first counts, as
it does for every stored bar, and of two known at the same moment the one of the frame itself. So bars only ever join the bars of
a decision: another length that is delivered later changes nothing that was followed before.

A bar is known when it has ended, at the earliest: a source whose clock is ahead does not let a decision see the future.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import accumulate, pairwise

from memtape.core.codec import EPOCH
from memtape.core.ledger.rounds import KnownBar
from memtape.core.observed import Bar, Frame
from memtape.core.value_class import dataclass

FRAME_SECONDS: Mapping[Frame, int] = {
    "1m": 60, "5m": 300, "15m": 900, "30m": 1_800, "1h": 3_600, "4h": 14_400, "1d": 86_400,
}  # fmt: skip
# How far before a decision bars are read, in frames: whether a bar counts depends on those that overlap it, and on theirs.
FRAMES_BEFORE = 2
# How far behind the last bar of a window they are read, for the same reason.
FRAMES_BEHIND = 2


def frame_length(frame: Frame) -> timedelta:
    """Returns the length of the bars of a frame.

    >>> frame_length("4h")
    datetime.timedelta(seconds=14400)
    """
    return timedelta(seconds=FRAME_SECONDS[frame])


def frame_of_length(length: timedelta) -> Frame | None:
    """Returns the frame of bars of a length; None if it is none of the seven.

    >>> frame_of_length(timedelta(days=1)), frame_of_length(timedelta(minutes=7))
    ('1d', None)
    """
    return next((frame for frame, seconds in FRAME_SECONDS.items() if length == timedelta(seconds=seconds)), None)


def frames_of(bar: Bar) -> list[Frame]:
    """Returns the frames to whose bars a bar belongs, by itself or as a part.

    >>> half_hour = Bar(symbol="BTC", t0=EPOCH, t1=EPOCH + timedelta(minutes=30), o=1, h=1, l=1, c=1)
    >>> frames_of(half_hour)
    ['30m', '1h', '4h', '1d']
    """
    length = bar.t1 - bar.t0
    return [frame for frame, seconds in FRAME_SECONDS.items() if not timedelta(seconds=seconds) % length]


def known_when_ended(known: KnownBar) -> KnownBar:
    """Returns a bar, known no earlier than at its end."""
    return known if known.known_at >= known.bar.t1 else KnownBar(known.bar, known.bar.t1)


@dataclass(frozen=True, slots=True)
class FrameBars:
    """The bars of one symbol and one frame in order of time, prepared so that many decisions can be followed on them.

    `until`: all bars that ended by then are here, later ones may be missing. None: every bar is here.
    """

    length: timedelta
    bars: Sequence[KnownBar]
    starts: Sequence[datetime]
    # By place: the first moment at which a bar from there on was known. One more than there are bars.
    known_from_place: Sequence[datetime]
    # By place: how many bars up to there were known before the bar in front of them.
    disorder: Sequence[int]
    until: datetime | None = None

    @classmethod
    def of(cls, bars: Iterable[KnownBar], frame: Frame, until: datetime | None = None) -> FrameBars:
        """The bars of a frame, from bars of any length in any order."""
        length = frame_length(frame)
        counted = _counted_bars([known_when_ended(known) for known in bars], length)
        later = until or datetime.max.replace(tzinfo=EPOCH.tzinfo)
        moments = [later, *(known.known_at for known in reversed(counted))]
        disorder = accumulate((b.known_at < a.known_at for a, b in pairwise(counted)), initial=0)
        return cls(
            length, counted, [known.bar.t0 for known in counted], list(accumulate(moments, min))[::-1], list(disorder), until
        )

    def place_of(self, t: datetime) -> int:
        """The place of the first bar that began at or after a moment."""
        return bisect_left(self.starts, t)

    def in_order(self, first: int, end: int) -> bool:
        """True if the bars of some places became known in their own order."""
        return end - first < 2 or self.disorder[end - 1] == self.disorder[first]

    def window_end(self, t: datetime, size: int) -> int:
        """The place behind which no bar was ever among the first `size` bars since a moment, whatever was known."""
        first, end = self.place_of(t), self.place_of(t) + size
        while end < len(self.bars):
            # Enough bars lie before this place that were known before any bar behind it.
            behind = self.known_from_place[end]
            if sum(known.known_at <= behind for known in self.bars[first:end]) >= size:
                return end
            end += size
        return len(self.bars)

    def covers(self, t: datetime, size: int) -> bool:
        """True if bars that may be missing behind the end have no part in the first `size` bars since a moment."""
        if self.until is None:
            return True
        known = [each for each in self.bars[self.place_of(t) :] if each.known_at <= self.until]
        return len(known) >= size and known[size - 1].bar.t1 + FRAMES_BEHIND * self.length <= self.until


def _counted_bars(bars: Sequence[KnownBar], length: timedelta) -> list[KnownBar]:
    """Returns the bars that count, in order of time: those of the length itself, and groups where these are missing."""
    own = sorted((known for known in bars if known.bar.t1 - known.bar.t0 == length), key=_start)
    shorter = [known for known in bars if known.bar.t1 - known.bar.t0 < length]
    if not shorter:
        return own
    groups = _complete_groups(shorter, length)
    if not own or not groups:
        return own or groups
    starts = [known.bar.t0 for known in own]
    counted = [
        group for group in groups
        if all(known.known_at > group.known_at for known in _overlapping(group, own, starts, length))
    ]  # fmt: skip
    starts = [group.bar.t0 for group in counted]
    first = [
        known for known in own
        if all(group.known_at >= known.known_at for group in _overlapping(known, counted, starts, length))
    ]  # fmt: skip
    return sorted(first + counted, key=_start)


def _start(known: KnownBar) -> datetime:
    return known.bar.t0


def _overlapping(one: KnownBar, others: Sequence[KnownBar], starts: Sequence[datetime], length: timedelta) -> Sequence[KnownBar]:
    """Returns the bars of one length that overlap a bar of the same length."""
    return others[bisect_left(starts, one.bar.t0 - length + timedelta(microseconds=1)) : bisect_left(starts, one.bar.t1)]


def _complete_groups(shorter: Iterable[KnownBar], length: timedelta) -> list[KnownBar]:
    """Returns complete groups of shorter bars, each as one bar of a length, in order of time."""
    parts: dict[tuple[datetime, timedelta], list[KnownBar]] = {}
    for known in shorter:
        part, since = known.bar.t1 - known.bar.t0, known.bar.t0 - EPOCH
        # A part lies on a multiple of its own length, so that the parts of a group meet end to end.
        if not length % part and not since % part:
            parts.setdefault((EPOCH + since // length * length, part), []).append(known)
    whole: dict[datetime, tuple[datetime, timedelta, KnownBar]] = {}
    for (start, part), several in parts.items():
        if len(several) != length // part:
            continue
        several.sort(key=_start)
        known_at = max(known.known_at for known in several)
        # The group that was known first counts; of two known at the same moment the one of longer bars.
        if start not in whole or (known_at, -part) < (whole[start][0], -whole[start][1]):
            whole[start] = known_at, part, KnownBar(_joined([known.bar for known in several]), known_at)
    return [whole[start][2] for start in sorted(whole)]


def _joined(bars: Sequence[Bar]) -> Bar:
    """Returns bars that follow each other as one."""
    return replace(bars[0], t1=bars[-1].t1, h=max(bar.h for bar in bars), l=min(bar.l for bar in bars), c=bars[-1].c, v=None)
