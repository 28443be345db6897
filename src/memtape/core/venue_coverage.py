"""What was read of an account at its venue, and what was not: coins that are left out, gaps, how far back the history goes.

A record that is silent about what it lacks looks complete. So each of these is a statement in the log, and is shown wherever
the account is described.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from memtape.core.codec import plain, read_time

READ_OF_VENUE = "its perpetuals are read, spot and the exchanges of other builders are not"
MAX_NAMES = 8  # that a sentence lists; the rest is counted


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ReadingGap:
    """A time of which the venue did not give everything; one moment if both ends are equal."""

    what: str  # fills, funding or account updates
    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class VenueCoverage:
    """How much of an account a reader has seen."""

    oldest_fill: datetime | None = None  # that the venue still had when it was first asked
    left_out: tuple[str, ...] = ()  # coins that were traded and are not read: spot, other exchanges of the venue
    unread_updates: tuple[str, ...] = ()  # kinds of account updates whose effect on the account is unknown
    gaps: tuple[ReadingGap, ...] = ()

    def joined(self, other: VenueCoverage) -> VenueCoverage:
        """What two reads together have seen. The oldest fill stays the first one recorded: a venue only ever forgets.

        >>> VenueCoverage(left_out=("@1",)).joined(VenueCoverage(left_out=("@2", "@1"))).left_out
        ('@1', '@2')
        """
        oldest = [each for each in (self.oldest_fill, other.oldest_fill) if each is not None]
        return VenueCoverage(
            oldest_fill=min(oldest, default=None), left_out=_union(self.left_out, other.left_out),
            unread_updates=_union(self.unread_updates, other.unread_updates),
            gaps=tuple(sorted({*self.gaps, *other.gaps})),
        )  # fmt: skip


def _union(one: Iterable[str], other: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({*one, *other}))


def coverage_body(coverage: VenueCoverage) -> dict[str, Any]:
    """A coverage as the log stores it."""
    body: dict[str, Any] = plain(coverage)
    return body


def read_coverage(body: Mapping[str, Any]) -> VenueCoverage:
    """The inverse of `coverage_body`.

    >>> noon = datetime(2026, 6, 4, 12, tzinfo=UTC)
    >>> whole = VenueCoverage(oldest_fill=noon, left_out=("@107",), gaps=(ReadingGap(what="fills", since=noon, until=noon),))
    >>> read_coverage(coverage_body(whole)) == whole
    True
    """
    oldest = body.get("oldest_fill")
    return VenueCoverage(
        oldest_fill=None if oldest is None else read_time(oldest), left_out=tuple(body.get("left_out", ())),
        unread_updates=tuple(body.get("unread_updates", ())),
        gaps=tuple(
            ReadingGap(what=gap["what"], since=read_time(gap["since"]), until=read_time(gap["until"]))
            for gap in body.get("gaps", ())
        ),
    )  # fmt: skip


# ---- in words ----------------------------------------------------------------------------------------------------------------


def missing_notes(coverage: VenueCoverage, name: Callable[[str], str] = str) -> list[str]:
    """What the record lacks, each in a sentence without its end. `name` writes the names that come from the venue.

    >>> missing_notes(VenueCoverage(left_out=("@107", "xyz:GOLD"), unread_updates=("borrowLend",)))
    ['fills of @107 (spot) and xyz:GOLD (another exchange of the venue)', 'account updates of the kind borrowLend']
    """
    notes = []
    if coverage.left_out:
        notes.append(f"fills of {_listed([f'{name(coin)} ({_place_of(coin)})' for coin in coverage.left_out])}")
    if coverage.unread_updates:
        notes.append(f"account updates of the kind {_listed([name(kind) for kind in coverage.unread_updates])}")
    for gap in coverage.gaps:
        if gap.since == gap.until:
            notes.append(f"some {gap.what} of {_minute(gap.since)}: the venue did not give all of them")
        else:
            notes.append(f"{gap.what} between {_minute(gap.since)} and {_minute(gap.until)}: the venue no longer had them")
    return notes


def history_note(coverage: VenueCoverage) -> str:
    """How far back the venue's history went, in two sentences; empty if it had no fill.

    >>> history_note(VenueCoverage(oldest_fill=datetime(2026, 6, 4, 12, tzinfo=UTC)))
    "The venue's oldest fill is of 2026-06-04 12:00. Earlier history is not available from the venue."
    """
    if coverage.oldest_fill is None:
        return ""
    return f"The venue's oldest fill is of {_minute(coverage.oldest_fill)}. Earlier history is not available from the venue."


def _place_of(coin: str) -> str:
    return "spot" if coin.startswith("@") or "/" in coin else "another exchange of the venue"


def _minute(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M}"


def _listed(names: Sequence[str]) -> str:
    shown = list(names[:MAX_NAMES])
    if len(names) > MAX_NAMES:
        shown.append(f"{len(names) - MAX_NAMES} more")
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
