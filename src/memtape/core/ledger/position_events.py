"""What happens to one position, in the one order in which the ledger takes it.

A position is (agent, symbol, leg). Its events are ordered by time; at one moment terms come first, then splits, dividends,
funding, fills, and the tick that looks at the result. A fill or payment stands at its own time, whichever tick delivered it.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from memtape.core.codec import EPOCH
from memtape.core.fills import Dividend, Fill, Funding, Instrument, Split
from memtape.core.observed import Decision, HeldPosition
from memtape.core.value_class import dataclass

Order = tuple[datetime, int, int, str]  # time, rank, sequence number, id: the one order of what happens to a position
TERMS_RANK, SPLIT_RANK, DIVIDEND_RANK, FUNDING_RANK, FILL_RANK, TICK_RANK = -3, -2, -1, 0, 1, 2


@dataclass(frozen=True, slots=True)
class SnapshotView:
    """A tick as one position sees it."""

    id: str
    t: datetime
    known_at: datetime
    skill_version: int = 1
    first: bool = False  # the agent's very first tick: what is held then was there before us
    snapshot: bool = True
    held: HeldPosition | None = None
    mark: Decimal | None = None
    decision: Decision | None = None  # only if it names the symbol
    voided_at: datetime | None = None
    rate: Decimal | None = None  # that the tick states for the symbol

    @property
    def order(self) -> Order:
        """Its place: after everything else of its moment."""
        return (self.t, TICK_RANK, 0, self.id)

    @property
    def stated_rate(self) -> Decimal | None:
        """The rate of the moment: that of the position, else that of the mark."""
        return self.held.rate if self.held is not None and self.held.rate is not None else self.rate

    @property
    def stated_mark(self) -> Decimal | None:
        """The price of the moment: the position's mark, else the tick's."""
        return self.held.mark if self.held is not None and self.held.mark is not None else self.mark


@dataclass(frozen=True, slots=True)
class FillEvent:
    """A fill, with the decision it names (or whose order it names)."""

    fill: Fill
    known_at: datetime
    skill_version: int = 1
    decision: Decision | None = None
    decided_at: datetime | None = None  # when that decision was known
    imported: bool = False  # came from a file: no run saw it, so no tick's decision explains it
    voided_at: datetime | None = None  # when it was taken back, with its import or by a correction

    @property
    def order(self) -> Order:
        """Its place among what happened to the position."""
        return (self.fill.t, FILL_RANK, self.fill.seq, self.fill.id)


@dataclass(frozen=True, slots=True)
class FundingEvent:
    """Funding or a dividend, received or paid. A dividend stands at its ex-date: who held before it is entitled."""

    funding: Funding | Dividend
    known_at: datetime
    voided_at: datetime | None = None

    @property
    def order(self) -> Order:
        """Its place: before the fills of its moment."""
        if isinstance(self.funding, Dividend):
            return (self.funding.ex_date, DIVIDEND_RANK, 0, self.funding.id)
        return (self.funding.t, FUNDING_RANK, 0, self.funding.id)


@dataclass(frozen=True, slots=True)
class SplitEvent:
    """A split of what is held."""

    split: Split
    known_at: datetime
    voided_at: datetime | None = None

    @property
    def order(self) -> Order:
        """Its place: fills of its moment are in new units."""
        return (self.split.t, SPLIT_RANK, 0, self.split.id)


@dataclass(frozen=True, slots=True)
class TermsEvent:
    """The terms of the symbol, for what is entered from a moment on; `number` is its place among the statements recorded."""

    instrument: Instrument
    known_at: datetime
    number: int = 0
    voided_at: datetime | None = None

    @property
    def order(self) -> Order:
        """Its place: of two statements for one moment, the one recorded later comes later and counts."""
        return (self.instrument.valid_from or EPOCH, TERMS_RANK, self.number, "")


@dataclass(frozen=True, slots=True)
class CorrectionEvent:
    """A fill was voided or moved: snapshots from `since` until `until` showed the uncorrected account and prove nothing."""

    id: str
    since: datetime
    until: datetime
    known_at: datetime
    voided_at: datetime | None = None

    @property
    def order(self) -> Order:
        """Its place: before all that it concerns."""
        return (self.since, TERMS_RANK - 1, 0, self.id)


PositionEvent = SnapshotView | FillEvent | FundingEvent | SplitEvent | TermsEvent | CorrectionEvent
