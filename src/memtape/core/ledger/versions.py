"""What was believed when: the trades of one position in all the versions they had as items became known.

The fold of everything is what we believe now. An item that became known after something later in order (a late fill, a
bar that ended after the exit, a tick that explains a fill seen before it) changed the tale when it arrived; the fold of
what was known before it gives the version it replaced. Versions are a function of the set of items with the times they
became known, so any order of delivery gives the same ones.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from memtape.core.events import Discrepancy
from memtape.core.ledger.fold import FillEvent, PositionEvent, SnapshotView, fold_events, mark_settled
from memtape.core.ledger.rounds import AccountTerms, KnownBar, Order, Round, trade_from_round
from memtape.core.ledger.trades import Trade
from memtape.core.observed import Fill

FOREVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TradeVersion:
    """A closed trade as it was believed from `known_from` until `known_to` (None: until now)."""

    trade: Trade
    known_from: datetime
    known_to: datetime | None
    settled_at: datetime | None


@dataclass(frozen=True, slots=True)
class DerivedPosition:
    """A position, derived from all that is known of it since it was flat."""

    versions: tuple[TradeVersion, ...]
    open: Round | None
    discrepancies: tuple[Discrepancy, ...]
    last: Order | None


def derive_versions(
    terms: AccountTerms,
    symbol: str,
    leg: str,
    happenings: Iterable[PositionEvent],
    bars: Sequence[KnownBar] = (),
    before: Fill | None = None,
) -> DerivedPosition:
    """Fold a position from flat, with the earlier versions of its closed trades.

    `before` is the last fill before these; without one, these are its whole history, which starts where it is first named.
    """
    ordered = sorted(happenings, key=lambda h: h.order)
    if before is None:
        named = (n for n, h in enumerate(ordered) if not isinstance(h, SnapshotView) or h.held is not None)
        ordered = ordered[next(named, len(ordered)) :]
    now = fold_events(terms, symbol, leg, None, [h for h in ordered if h.gone_at is None], bars, before=before)
    mark_settled(now.closed, ordered)
    bars = sorted(bars, key=lambda seen: (seen.bar.t1, -seen.bar.frame))
    longest = max((seen.bar.t1 - seen.bar.t0 for seen in bars), default=timedelta(0))
    versions: list[TradeVersion] = []
    start = 0
    for segment, end in _segments(now.closed, ordered):
        span = _explained(ordered, start, end)
        versions += _versions(terms, symbol, leg, segment, span, bars, longest, _last_fill(ordered[:start], before))
        start = end
    if start < len(ordered):  # what follows the last settled trade: still open, or flat again in some earlier belief
        versions += _versions(terms, symbol, leg, [], ordered[start:], bars, longest, _last_fill(ordered[:start], before))
    return DerivedPosition(tuple(versions), now.open, tuple(now.discrepancies), now.last)


def _explained(ordered: Sequence[PositionEvent], start: int, end: int) -> list[PositionEvent]:
    """A segment with the tick that explains its last fill, which comes after it; what that tick shows belongs to the next."""
    following = next((h for h in ordered[end:] if isinstance(h, SnapshotView)), None)
    return [*ordered[start:end], *([replace(following, snapshot=False)] if following else [])]


def _segments(closed: Sequence[Round], ordered: Sequence[PositionEvent]) -> Iterable[tuple[list[Round], int]]:
    """The closed rounds in runs that end at a settled boundary, each with the index of the first happening after it."""
    run: list[Round] = []
    end = 0
    for n, round_ in enumerate(closed):
        run.append(round_)
        assert round_.exit_at is not None
        while end < len(ordered) and ordered[end].order[0] <= round_.exit_at:
            end += 1
        following = closed[n + 1] if n + 1 < len(closed) else None
        clear = following is None or following.entry_at > round_.exit_at
        if round_.settled_at is not None and clear and not _turned(round_):
            yield run, end
            run = []
    if run:
        yield run, len(ordered)


def _turned(round_: Round) -> bool:
    return round_.close_cause == "flip" or round_.exit_at == round_.entry_at


def _versions(
    terms: AccountTerms, symbol: str, leg: str, final: Sequence[Round], span: Sequence[PositionEvent], bars: Sequence[KnownBar],
    longest: timedelta, before: Fill | None,
) -> list[TradeVersion]:  # fmt: skip
    if not span:
        return []
    near = _bars_near(span, bars, longest)
    cuts = _surprises(span, near)
    past: list[TradeVersion] = []
    believed: dict[Trade, datetime] = {}
    for n in range(len(cuts) + 1):
        since, until = cuts[n - 1] if n else None, cuts[n] if n < len(cuts) else None
        rounds = final if until is None else _world(terms, symbol, leg, span, near, until, before)
        going: dict[Trade, datetime] = {}
        settled: dict[Trade, datetime | None] = {}
        for round_ in rounds:
            trade = trade_from_round(terms, symbol, leg, round_)
            begin = believed.get(trade) or (max(round_.known_at, since) if since else round_.known_at)
            if until is None or begin < until:
                going[trade], settled[trade] = begin, round_.settled_at
        past += [TradeVersion(trade, begin, since, None) for trade, begin in believed.items() if trade not in going]
        believed = going
    return past + [TradeVersion(trade, begin, None, settled[trade]) for trade, begin in believed.items()]


def _world(
    terms: AccountTerms, symbol: str, leg: str, span: Sequence[PositionEvent], bars: Sequence[KnownBar], cut: datetime,
    before: Fill | None,
) -> list[Round]:  # fmt: skip
    """What was closed according to what was known before a moment."""
    known = [_without_late_decision(h, cut) for h in span if h.known_at < cut and (h.gone_at is None or h.gone_at >= cut)]
    seen = [watched for watched in bars if watched.known_at < cut]
    return fold_events(terms, symbol, leg, None, known, seen, before=before).closed


def _last_fill(happenings: Sequence[PositionEvent], before: Fill | None) -> Fill | None:
    for happening in reversed(happenings):
        if isinstance(happening, FillEvent):
            return happening.fill
    return before


def _without_late_decision(happening: PositionEvent, cut: datetime) -> PositionEvent:
    if isinstance(happening, FillEvent) and happening.decided_at is not None and happening.decided_at >= cut:
        return replace(happening, decision=None, decided_at=None)
    return happening


def _bars_near(span: Sequence[PositionEvent], bars: Sequence[KnownBar], longest: timedelta) -> list[KnownBar]:
    """The bars that can matter to a span: those that overlap it, and the last close before it in every belief."""
    first, last = span[0].order[0], span[-1].order[0]
    after = bisect_right(bars, first, key=lambda seen: seen.bar.t1)
    near = []
    for n in range(after, len(bars)):
        if bars[n].bar.t0 <= last:
            near.append(bars[n])
        elif bars[n].bar.t1 > last + longest:
            break
    least = min(happening.known_at for happening in span)
    earliest: datetime | None = None
    for n in range(after - 1, -1, -1):
        seen = bars[n]
        if earliest is None or seen.known_at < earliest:  # in an earlier belief this was the last close
            earliest = seen.known_at
            near.append(seen)
            if earliest <= least:
                break  # it was known before anything of the span: no belief about it looked further back
    return near


def _surprises(span: Sequence[PositionEvent], bars: Sequence[KnownBar]) -> list[datetime]:
    """The moments at which something became known that may have changed what was already believed."""
    cuts: set[datetime] = set()
    places = [h.order[0] for h in span]
    first_known_from: list[datetime] = []  # per index, the least known_at from there on
    least: datetime | None = None
    for happening in reversed(span):
        least = happening.known_at if least is None else min(least, happening.known_at)
        first_known_from.append(least)
    first_known_from.reverse()
    for n, happening in enumerate(span):
        if n + 1 < len(span) and first_known_from[n + 1] < happening.known_at:
            cuts.add(happening.known_at)
        if happening.gone_at is not None:
            cuts.add(happening.gone_at)
        if isinstance(happening, FillEvent) and happening.decided_at is not None and happening.decided_at > happening.known_at:
            cuts.add(happening.decided_at)
        if isinstance(happening, SnapshotView) and _explains(span, n, happening):
            cuts.add(happening.known_at)
    for seen in bars:
        after = bisect_right(places, seen.bar.t0)
        if after < len(span) and first_known_from[after] < seen.known_at:
            cuts.add(seen.known_at)
    return sorted(cuts)


def _explains(span: Sequence[PositionEvent], place: int, tick: SnapshotView) -> bool:
    """Whether a tick, when it was known, was the first after a fill that had been known before it."""
    for n in range(place - 1, -1, -1):
        happening = span[n]
        if isinstance(happening, FillEvent):
            if not happening.imported and happening.known_at < tick.known_at:
                return True
        elif isinstance(happening, SnapshotView) and happening.known_at <= tick.known_at < (happening.gone_at or FOREVER):
            return False  # that one had explained what lies before it
    return False
