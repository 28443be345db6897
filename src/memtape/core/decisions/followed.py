"""The outcomes of an agent's decisions, from its items and bars: what the store keeps of each, in every version.

The write path follows a few decisions at a time. `verify` follows all of them from nothing and compares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from memtape.core.decisions.outcome_bars import FrameBars
from memtape.core.decisions.outcomes import (
    Outcome,
    OutcomeCard,
    OutcomeStatus,
    OutcomeVersion,
    continued_versions,
    outcome_card,
    versions_on,
)
from memtape.core.items import StoredItem, each_in_log_order
from memtape.core.ledger.rounds import KnownBar
from memtape.core.observed import Decision, Frame, Side
from memtape.core.values import read

SHADOW_ACTION = "no_trade"


class FollowedOutcome(NamedTuple):
    """The outcome of one decision as it was believed from one moment to another, with the plan that is followed."""

    id: str  # the decision's
    known_from: datetime
    known_to: datetime | None  # until when this version was believed; None: still
    symbol: str
    at: datetime  # when it was decided
    frame: Frame
    expiry_bars: int
    side: Side
    limit_price: Decimal | None  # None: at the market
    stop: Decimal
    target: Decimal | None
    status: OutcomeStatus
    entry_price: Decimal | None
    entry_at: datetime | None
    exit_price: Decimal | None
    exit_at: datetime | None
    cause: str | None
    r: float | None
    shadow: bool
    risk_too_small: bool
    # Bars that began at or after it do not change this version: the end of the bar that settled it, or the end of the version,
    # whichever came first. None: it is believed now, and has not ended.
    until: datetime | None

    @property
    def outcome(self) -> Outcome:
        """What became of the decision."""
        return Outcome(
            self.status, self.entry_price, self.entry_at, self.exit_price, self.exit_at, self.cause, self.r, self.shadow,
            self.risk_too_small,
        )  # fmt: skip

    @property
    def card(self) -> OutcomeCard:
        """What is followed."""
        return OutcomeCard(
            t=self.at, symbol=self.symbol, action=SHADOW_ACTION if self.shadow else None, side=self.side,
            entry_price=self.limit_price, stop=self.stop, target=self.target, frame=self.frame, expiry_bars=self.expiry_bars,
        )  # fmt: skip


class FollowedDecision(NamedTuple):
    """A decision that has an outcome, in every version that was believed until the decision was taken back."""

    item: StoredItem
    decision: Decision
    card: OutcomeCard
    versions: list[OutcomeVersion]

    @classmethod
    def on(cls, item: StoredItem, decision: Decision, card: OutcomeCard, series: FrameBars) -> FollowedDecision:
        """A decision, followed on the bars of its frame."""
        return cls(item, decision, card, _until_voided(versions_on(card, item.known_at, series), item.voided_at))

    def rows(self) -> list[FollowedOutcome]:
        """Its versions as they are stored."""
        return [stored_outcome(self.item.key, self.card, version) for version in self.versions]


def stored_outcome(id: str, card: OutcomeCard, version: OutcomeVersion) -> FollowedOutcome:
    """Returns one version of an outcome as it is stored."""
    assert card.symbol is not None and card.side is not None and card.stop is not None
    ends = [end for end in (version.settled_by, version.known_to) if end is not None]
    return FollowedOutcome(
        id, version.known_from, version.known_to, card.symbol, card.t, card.frame, card.expiry_bars, card.side,
        card.entry_price, card.stop, card.target, *version.outcome, min(ends, default=None),
    )  # fmt: skip


def continued_outcome(row: FollowedOutcome, counted: int, bars: Sequence[KnownBar]) -> list[FollowedOutcome]:
    """Returns what takes the place of a stored version after bars that come in order; nothing, if it stays as it is.

    `counted`: how many bars since the decision were known before.
    """
    versions = continued_versions(row.card, row.known_from, row.outcome, counted, [k for k in bars if k.bar.t0 >= row.at])
    return [] if versions[-1].outcome == row.outcome else [stored_outcome(row.id, row.card, version) for version in versions]


def followed_decisions(items: Iterable[StoredItem]) -> Iterator[tuple[StoredItem, Decision, OutcomeCard]]:
    """The decisions among items that have an outcome. One that was taken back counts until then."""
    for item in each_in_log_order(items):
        if item.kind != "decision":
            continue
        decision = read(Decision, item.body)
        if (card := outcome_card(decision)) is not None:
            yield item, decision, card


def follow_decisions(items: Iterable[StoredItem], bars: Callable[[str], Sequence[KnownBar]]) -> Iterator[FollowedDecision]:
    """The decisions among items that have an outcome, each followed on the bars of its symbol."""
    series: dict[tuple[str, Frame], FrameBars] = {}
    for item, decision, card in followed_decisions(items):
        of = item.symbol, card.frame
        if of not in series:
            series[of] = FrameBars.of(bars(item.symbol), card.frame)
        yield FollowedDecision.on(item, decision, card, series[of])


def outcomes_at(rows: Iterable[FollowedOutcome], moment: datetime) -> list[FollowedOutcome]:
    """Returns the outcomes that were believed at a moment, in the order of their decisions."""
    believed = [row for row in rows if row.known_from <= moment and (row.known_to is None or row.known_to > moment)]
    return sorted(believed, key=lambda row: (row.at, row.id))


def _until_voided(versions: Sequence[OutcomeVersion], voided_at: datetime | None) -> list[OutcomeVersion]:
    """Returns versions, ended when the decision was taken back."""
    if voided_at is None:
        return list(versions)
    earlier = [version for version in versions if version.known_from < voided_at]
    return [v._replace(known_to=voided_at if v.known_to is None else min(v.known_to, voided_at)) for v in earlier]
