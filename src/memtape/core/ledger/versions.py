"""The trades of one position in all the versions in which they were believed.

The fold of everything gives the trades as they are now. An item that became known after something that follows it (a late
fill, a bar that ended after the exit, a tick that explains an earlier fill) changed the result when it arrived; the fold of
what was known before that gives the version that it replaced. Versions are a function of the set of items with the times at
which they became known, so every order of delivery gives the same versions.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from memtape.core.events import Discrepancy
from memtape.core.ledger.fold import NOTHING_EARLIER, Earlier, fold_events, mark_settled
from memtape.core.ledger.position_events import (
    CorrectionEvent,
    FillEvent,
    FundingEvent,
    Order,
    PositionEvent,
    SnapshotView,
    TermsEvent,
)
from memtape.core.ledger.rounds import KnownBar, Round, trade_from_round
from memtape.core.ledger.terms import AccountTerms
from memtape.core.ledger.trades import Trade
from memtape.core.value_class import dataclass

FOREVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TradeVersion:
    """A closed trade as it was believed from `known_from` until `known_to` (None: until now)."""

    trade: Trade
    known_from: datetime
    known_to: datetime | None
    settled_at: datetime | None  # since when no news so far has changed it; None: it may still change


@dataclass(frozen=True, slots=True)
class DerivedPosition:
    """A position, derived from all that is known of it since it was flat."""

    versions: tuple[TradeVersion, ...]
    open: Round | None
    discrepancies: tuple[Discrepancy, ...]
    last: Order | None  # the place of the last event folded


def derive_versions(
    terms: AccountTerms,
    symbol: str,
    leg: str,
    events: Iterable[PositionEvent],
    bars: Sequence[KnownBar] = (),
    earlier: Earlier = NOTHING_EARLIER,
) -> DerivedPosition:
    """Fold a position from flat and derive the earlier versions of its closed trades.

    `earlier` is what is to be known from before these events. If there were no fills, they are its whole history, which starts
    where the position is first named.
    """
    ordered = sorted(events, key=lambda event: event.order)
    # Terms and corrections hold for all that follows: every fold gets them, wherever it starts.
    stated = [event for event in ordered if isinstance(event, TermsEvent | CorrectionEvent)]
    if not earlier.filled:
        # Ticks before the first mention show a flat position, which is nothing to fold; their rates may be needed for it.
        first = min((event.order[0] for event in ordered if _names_position(event)), default=None)
        ordered = [event for event in ordered if not _is_before_first_mention(event, first)]
    # What is believed now: everything that was not taken back.
    now = fold_events(terms, symbol, leg, [event for event in ordered if event.voided_at is None], bars, earlier)
    mark_settled(now.closed, now.pieces, ordered)
    bars = sorted(bars, key=lambda known: (known.bar.t1, -known.bar.frame))
    longest = max((known.bar.t1 - known.bar.t0 for known in bars), default=timedelta(0))
    # The history is cut where the position was flat in every belief. No fold of one segment needs events of another, so the
    # cost of a surprise is a fold of its own segment and not of the whole history.
    versions: list[TradeVersion] = []
    start = 0
    rest = list(now.closed_trades(terms))
    settling = timedelta(seconds=terms.settle_seconds)
    for rounds, end in _segments(now.closed, now.open, ordered, settling):
        count = len(rest) if end == len(ordered) else bisect_right(rest, _exit_order(rounds[-1]), key=_exit_order)
        final, rest = rest[:count], rest[count:]
        span = _with_explaining_tick(ordered, start, end)
        versions += _versions(terms, symbol, leg, final, _with_stated(stated, span), bars, longest, earlier)
        earlier = Earlier(earlier.filled or any(isinstance(event, FillEvent) for event in ordered[start:end]), rounds[-1].rate)
        start = end
    if start < len(ordered):
        # After the last settled trade the position is open now, but an earlier belief may have seen it closed.
        span = _with_stated(stated, ordered[start:])
        versions += _versions(terms, symbol, leg, rest, span, bars, longest, earlier)
    return DerivedPosition(tuple(versions), now.open, tuple(now.discrepancies), now.last)


def _exit_order(round_: Round) -> Order:
    assert round_.exit_order is not None
    return round_.exit_order


def _names_position(event: PositionEvent) -> bool:
    """Returns True if an event says that the position is there, or was."""
    return event.held is not None if isinstance(event, SnapshotView) else isinstance(event, FillEvent | FundingEvent)


def _is_before_first_mention(event: PositionEvent, first: datetime | None) -> bool:
    """Returns True for a tick before the position is first named that does not even state a rate of it."""
    return isinstance(event, SnapshotView) and event.rate is None and (first is None or event.t < first)


def _with_stated(
    stated: Sequence[TermsEvent | CorrectionEvent], span: Sequence[PositionEvent]
) -> list[PositionEvent]:
    """A segment with all statements of terms, also those that lie before it, and the corrections that reach into it."""
    if not stated:
        return list(span)
    own = [event for event in span if not isinstance(event, TermsEvent | CorrectionEvent)]
    first = min((event.order[0] for event in own), default=None)
    reaching = [e for e in stated if isinstance(e, TermsEvent) or (first is not None and e.until > first)]
    return sorted([*reaching, *own], key=lambda event: event.order)


def _with_explaining_tick(ordered: Sequence[PositionEvent], start: int, end: int) -> list[PositionEvent]:
    """A segment and the tick after it, whose decision explains its last fill.

    The tick comes without its snapshot, because what it shows belongs to the next segment.
    """
    following = next((event for event in ordered[end:] if isinstance(event, SnapshotView)), None)
    return [*ordered[start:end], *([replace(following, snapshot=False)] if following else [])]


def _segments(
    closed: Sequence[Round], open_: Round | None, ordered: Sequence[PositionEvent], settling: timedelta
) -> Iterable[tuple[list[Round], int]]:
    """The closed rounds in runs that end at a flat point of every belief, each with the index of the first event after it.

    A round ends a run if it is settled (no belief since has seen it otherwise), if the next one starts strictly later, and
    if it did not turn into the opposite side: at a flip the same fill ends one round and starts the next. A snapshot within the
    settling time after the end may still show what was held before it.
    """
    run: list[Round] = []
    end = 0
    for n, round_ in enumerate(closed):
        run.append(round_)
        assert round_.exit_at is not None
        while end < len(ordered) and ordered[end].order[0] <= round_.exit_at:
            end += 1
        following = closed[n + 1] if n + 1 < len(closed) else open_
        clear = following is None or following.entry_at > round_.exit_at
        clear = clear and not _has_tick(ordered, end, round_.exit_at + settling)
        if round_.settled_at is not None and clear and not _turned(round_):
            yield run, end
            run = []
    if run:
        yield run, len(ordered)


def _has_tick(ordered: Sequence[PositionEvent], start: int, until: datetime) -> bool:
    """Returns True if a tick follows by a moment."""
    for n in range(start, len(ordered)):
        if ordered[n].order[0] > until:
            return False
        if isinstance(ordered[n], SnapshotView):
            return True
    return False


def _turned(round_: Round) -> bool:
    return round_.close_cause == "flip" or round_.exit_at == round_.entry_at


def _versions(
    terms: AccountTerms, symbol: str, leg: str, final: Sequence[Round], span: Sequence[PositionEvent], bars: Sequence[KnownBar],
    longest: timedelta, earlier: Earlier,
) -> list[TradeVersion]:  # fmt: skip
    """The versions of the trades of one segment; `final` are its closed trades as they are believed now.

    Between two surprises beliefs only grow: a trade appears when its last event becomes known and stays. So one fold for
    each interval between surprises gives every version. A trade that comes out of two neighbouring folds alike is one
    version; one that a later fold no longer gives ended at the surprise between them.
    """
    if not span:
        return []
    near = _bars_near(span, bars, longest)
    surprises = _surprises(span, near, timedelta(seconds=terms.settle_seconds))
    ended: list[TradeVersion] = []
    believed: dict[Trade, datetime] = {}  # the trades of the interval before, each with the start of its version
    for n in range(len(surprises) + 1):
        since, until = surprises[n - 1] if n else None, surprises[n] if n < len(surprises) else None
        rounds = final if until is None else _rounds_known_before(terms, symbol, leg, span, near, until, earlier)
        current: dict[Trade, datetime] = {}
        settled: dict[Trade, datetime | None] = {}
        for round_ in rounds:
            trade = trade_from_round(terms, symbol, leg, round_)
            # A trade that is new in this interval was known from its own last event on, but not before the surprise.
            begin = believed.get(trade) or (max(round_.known_at, since) if since else round_.known_at)
            if until is None or begin < until:
                current[trade], settled[trade] = begin, round_.settled_at
        ended += [TradeVersion(trade, begin, since, None) for trade, begin in believed.items() if trade not in current]
        believed = current
    return ended + [TradeVersion(trade, begin, None, settled[trade]) for trade, begin in believed.items()]


def _rounds_known_before(
    terms: AccountTerms, symbol: str, leg: str, span: Sequence[PositionEvent], bars: Sequence[KnownBar], moment: datetime,
    earlier: Earlier,
) -> list[Round]:  # fmt: skip
    """The closed trades according to what was known before a moment, with what was taken back only later."""
    known = [
        _without_late_decision(event, moment) for event in span
        if event.known_at < moment and (event.voided_at is None or event.voided_at >= moment)
    ]  # fmt: skip
    known_bars = [known_bar for known_bar in bars if known_bar.known_at < moment]
    return fold_events(terms, symbol, leg, known, known_bars, earlier).closed_trades(terms)


def _without_late_decision(event: PositionEvent, moment: datetime) -> PositionEvent:
    """A fill without its decision, if that became known only at this moment or later."""
    if isinstance(event, FillEvent) and event.decided_at is not None and event.decided_at >= moment:
        return replace(event, decision=None, decided_at=None)
    return event


def _bars_near(span: Sequence[PositionEvent], bars: Sequence[KnownBar], longest: timedelta) -> list[KnownBar]:
    """The bars that can matter to a segment: those that overlap it, and the last close before it in every belief."""
    first, last = span[0].order[0], span[-1].order[0]
    after = bisect_right(bars, first, key=lambda known: known.bar.t1)
    near = []
    for n in range(after, len(bars)):
        if bars[n].bar.t0 <= last:
            near.append(bars[n])
        elif bars[n].bar.t1 > last + longest:
            # Bars are sorted by their end, and none is longer than `longest`: no later one starts in time.
            break
    first_known = min(event.known_at for event in span)
    earliest: datetime | None = None
    for n in range(after - 1, -1, -1):
        known = bars[n]
        if earliest is None or known.known_at < earliest:
            # Before the later closes became known, this one was the last close.
            earliest = known.known_at
            near.append(known)
            if earliest <= first_known:
                # It was known before every event of the segment, so no belief about it looked further back.
                break
    return near


def _surprises(span: Sequence[PositionEvent], bars: Sequence[KnownBar], settling: timedelta) -> list[datetime]:
    """The moments at which something became known that may have changed what was already believed."""
    surprises: set[datetime] = set()
    times = [event.order[0] for event in span]
    # For each index, the earliest known_at of that event and all that follow it in order.
    first_known_from: list[datetime] = []
    earliest: datetime | None = None
    for event in reversed(span):
        earliest = event.known_at if earliest is None else min(earliest, event.known_at)
        first_known_from.append(earliest)
    first_known_from.reverse()
    for n, event in enumerate(span):
        if n + 1 < len(span) and first_known_from[n + 1] < event.known_at:
            # Something later in order was already known: this event was inserted before it.
            surprises.add(event.known_at)
        if event.voided_at is not None:
            surprises.add(event.voided_at)
        if isinstance(event, FillEvent) and settling and _explains_snapshot(span, n, event, settling):
            surprises.add(event.known_at)
        if isinstance(event, FillEvent) and event.decided_at is not None and event.decided_at > event.known_at:
            # The decision that the fill names became known after the fill.
            surprises.add(event.decided_at)
        if isinstance(event, SnapshotView) and _explains(span, n, event):
            surprises.add(event.known_at)
    for known in bars:
        after = bisect_right(times, known.bar.t0)
        if after < len(span) and first_known_from[after] < known.known_at:
            # Something that follows the start of the bar was known before the bar.
            surprises.add(known.known_at)
    return sorted(surprises)


def _explains_snapshot(span: Sequence[PositionEvent], place: int, fill: FillEvent, settling: timedelta) -> bool:
    """Returns True if a snapshot within the settling time before a fill was known earlier: the fill may explain it after all."""
    for n in range(place - 1, -1, -1):
        if span[n].order[0] < fill.fill.t - settling:
            return False
        if isinstance(span[n], SnapshotView) and span[n].known_at < fill.known_at:
            return True
    return False


def _explains(span: Sequence[PositionEvent], place: int, tick: SnapshotView) -> bool:
    """Returns True if a tick, when it became known, was the first after a fill that had been known before it.

    Such a fill was believed without a reason until then; the decision of the tick explains it.
    """
    for n in range(place - 1, -1, -1):
        event = span[n]
        if isinstance(event, FillEvent):
            if not event.imported and event.known_at < tick.known_at:
                return True
        elif isinstance(event, SnapshotView) and event.known_at <= tick.known_at < (event.voided_at or FOREVER):
            # This earlier tick had already explained everything before it.
            return False
    return False
