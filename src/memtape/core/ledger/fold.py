"""The ledger: snapshots and fills of one position -> its trades. One pure fold, the same live, imported and replayed.

Events come in one order (`position_events`). Fills say what was done (`position_book`); a snapshot says what is held
(`snapshots`). Where the two disagree, the ledger follows the broker, marks what it adds as inferred, prices it from what the
broker and the bars show, never from an invented price, and reports a `Discrepancy`.

Long and short are +1 and -1 (`side`); quantities are positive. Where an account counts by lots (`fifo_lots`), the round trip of
the whole position is folded all the same, because snapshots are compared with it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal, localcontext
from itertools import accumulate

from memtape.core.events import Discrepancy
from memtape.core.ledger.position_book import PositionBook
from memtape.core.ledger.position_events import (
    CorrectionEvent,
    FillEvent,
    FundingEvent,
    Order,
    PositionEvent,
    SnapshotView,
    SplitEvent,
    TermsEvent,
)
from memtape.core.ledger.rates import Rates
from memtape.core.ledger.rounds import KnownBar, Round
from memtape.core.ledger.snapshots import LastBar, Snapshots
from memtape.core.ledger.terms import AccountTerms, ContractTerms
from memtape.core.value_class import dataclass
from memtape.core.values import MONEY


@dataclass(frozen=True, slots=True)
class Earlier:
    """What the fold of a position needs to know from before its first event: a moment at which it was flat."""

    filled: bool = False  # there were fills before: what a snapshot shows first was not adopted
    rate: Decimal | None = None  # the last one known


NOTHING_EARLIER = Earlier()


@dataclass(slots=True)
class FoldResult:
    """The result of a fold."""

    closed: list[Round]  # round trips of the position, flat to flat
    open: Round | None
    pieces: list[Round]  # of an account that counts by lots: what its reductions closed
    discrepancies: list[Discrepancy]
    last: Order | None  # the last fill, payment, split or inferred fill

    def closed_trades(self, terms: AccountTerms) -> list[Round]:
        """The rounds that are closed trades, in the unit in which the account counts."""
        return self.pieces if terms.trade_unit == "fifo_lots" else self.closed


def fold_events(
    terms: AccountTerms,
    symbol: str,
    leg: str,
    events: Iterable[PositionEvent],
    bars: Sequence[KnownBar] = (),
    earlier: Earlier = NOTHING_EARLIER,
) -> FoldResult:
    """Carry a position from flat through its events, in order, and then over the bars, which show how far each trade ran."""
    ordered = sorted(events, key=lambda event: event.order)
    book = PositionBook(terms, symbol, leg, None, Rates(before=earlier.rate))
    _take_events(Snapshots(book, LastBar(bars), earlier.filled, has_history=True), ordered)
    return _result(book, ordered, bars)


def fold_onto(
    terms: AccountTerms, symbol: str, leg: str, open_: Round | None, events: Iterable[PositionEvent], bars: Sequence[KnownBar],
    splits: Sequence[datetime] = (),
) -> FoldResult | None:  # fmt: skip
    """Carry an open or flat position on (`open_` is changed in place), or return None if that needs its history.

    A snapshot that contradicts the ledger is judged by what happened before it, which a stored round no longer tells. `splits`
    are the times of the splits so far.
    """
    ordered = sorted(events, key=lambda event: event.order)
    book = PositionBook(terms, symbol, leg, open_, Rates(open_.rates if open_ else ()), splits)
    snapshots = Snapshots(book, LastBar(bars), filled=True, has_history=False)
    _take_events(snapshots, ordered)
    return None if snapshots.needs_history else _result(book, ordered, bars)


def _take_events(snapshots: Snapshots, ordered: Sequence[PositionEvent]) -> None:
    """Take the events in order. A tick may take fills with it that follow within the settling time."""
    explaining = _ticks_after(ordered)
    book = snapshots.book
    book.statements = [(e.order[0], ContractTerms.of(e.instrument)) for e in ordered if isinstance(e, TermsEvent)]
    taken: set[int] = set()
    with localcontext(MONEY):
        for n, event in enumerate(ordered):
            if n in taken or snapshots.needs_history:
                continue
            if isinstance(event, SnapshotView):
                ahead = snapshots.fills_ahead(event, ordered, n, taken) if event.snapshot else []
                for place in ahead:
                    _take_event(snapshots, ordered[place], event)
                taken.update(ahead)
                snapshots.look(event, explained=bool(ahead))
            else:
                _take_event(snapshots, event, explaining[n])


def _take_event(snapshots: Snapshots, event: PositionEvent, tick: SnapshotView | None) -> None:
    """Take anything but a tick; `tick` is the one whose decision explains it."""
    match event:
        case FillEvent():
            snapshots.note_fill(event.fill)
            # No run observed what came from a file. Its reasons come only from decisions that it names.
            snapshots.book.fill(event, None if event.imported else tick)
        case FundingEvent():
            snapshots.book.pay(event)
        case SplitEvent():
            snapshots.book.split(event)
        case CorrectionEvent():
            snapshots.note_correction(event)


def _ticks_after(ordered: Sequence[PositionEvent]) -> list[SnapshotView | None]:
    """For each event the first tick at or after it, whenever it was delivered: the decision of that run explains the event."""
    ticks: list[SnapshotView | None] = [None] * len(ordered)
    following: SnapshotView | None = None
    for n in range(len(ordered) - 1, -1, -1):
        event = ordered[n]
        if isinstance(event, SnapshotView):
            following = event
        ticks[n] = following
    return ticks


def _result(book: PositionBook, ordered: Sequence[PositionEvent], bars: Sequence[KnownBar]) -> FoldResult:
    """What came out, after the bars have shown how far each trade ran."""
    mark_settled(book.closed, book.pieces, ordered)
    open_ = [book.round, *book.round.lots] if book.round else []
    _watch_rounds([*book.closed, *book.pieces, *open_], bars, book.terms, book.rates, book.splits)
    for round_ in [*book.closed, *book.pieces, *open_]:
        round_.rate = book.rates.at(round_.exit_at) if round_.exit_at else book.rates.latest
    if book.round is not None:
        book.round.rates = book.rates.since(book.round.entry_at)
    return FoldResult(book.closed, book.round, book.pieces, book.discrepancies, book.last)


def watch_open_round(terms: AccountTerms, open_: Round, bars: Sequence[KnownBar], splits: Sequence[datetime]) -> None:
    """Carry an open round over new bars in which nothing happened to it; it is changed in place."""
    _watch_rounds([open_, *open_.lots], bars, terms, Rates(open_.rates), splits)


def _watch_rounds(
    rounds: Sequence[Round], bars: Sequence[KnownBar], terms: AccountTerms, rates: Rates, splits: Sequence[datetime]
) -> None:
    """Let bars show how far trades ran. A bar with a split inside shows prices in two units and proves nothing."""
    whole = [known for known in bars if not any(known.bar.t0 < at < known.bar.t1 for at in splits)]
    by_end = sorted(whole, key=lambda known: known.bar.t1)
    ends = [known.bar.t1 for known in by_end]
    longest = max((known.bar.t1 - known.bar.t0 for known in by_end), default=timedelta(0))
    for round_ in rounds:
        first = bisect_right(ends, round_.entry_at)
        last = len(ends) if round_.exit_at is None else bisect_right(ends, round_.exit_at + longest)
        round_.watch(by_end[first:last], terms.mfe_mode, rates)


def mark_settled(closed: Sequence[Round], pieces: Sequence[Round], ordered: Sequence[PositionEvent]) -> None:
    """Set `settled_at` of the rounds, and of their last pieces, that no event has changed after something later was known.

    Such an exit is a place from which a position can be derived again, without what lies before it.
    """
    if not closed:
        return
    # An event that was taken back counts as news until then.
    learned = [max(h.known_at, h.voided_at or h.known_at) for h in ordered]
    known_by = list(accumulate(learned, max))
    known_from = list(accumulate(reversed(learned), min))[::-1]
    places = [h.order for h in ordered]
    for round_ in closed:
        assert round_.exit_order is not None
        after = bisect_right(places, round_.exit_order)
        known = max(known_by[after - 1], round_.known_at)
        round_.settled_at = known if after == len(ordered) or known <= known_from[after] else None
    ended = {round_.exit_order: round_.settled_at for round_ in closed}
    for piece in pieces:
        # Only the pieces that end the position leave it flat.
        piece.settled_at = ended.get(piece.exit_order)
