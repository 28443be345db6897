"""A batch: what one write transaction brings that the store did not hold before.

The writer fills it while it takes values; the ledger (`positions`) adds the trades that change because of it; learning
(`learn`) reads it. An undo or a correction brings no values: it makes a batch that only names the trades it changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from datetime import datetime
from typing import Any

from memtape.core.events import Discrepancy
from memtape.core.items import Item, Position
from memtape.core.ledger.position_events import PositionEvent
from memtape.core.ledger.rounds import KnownBar
from memtape.core.ledger.versions import TradeVersion
from memtape.core.memory.affect import AccountChange
from memtape.core.observed import Tick
from memtape.core.value_class import dataclass


@dataclass(slots=True)
class Batch:
    """The new values of one transaction, each where its reader looks for it."""

    # ---- filled by the writer ------------------------------------------------------------------------------------------

    # New fills and funding, by position.
    position_events: dict[Position, list[PositionEvent]] = field(default_factory=dict)
    # New ticks that are later than the last one, each with the time at which it became known.
    ticks: list[tuple[Tick, datetime]] = field(default_factory=list)
    # The very first snapshot of the agent, if it is among these ticks: what it shows was held before us.
    first_snapshot: Tick | None = None
    # New bars, by symbol.
    bars: dict[str, list[KnownBar]] = field(default_factory=dict)
    # Of the symbols with new fills: where the bars ended before this transaction. A fill before that end is late.
    bars_end: dict[str, datetime | None] = field(default_factory=dict)
    # Trades that a source reports whole, or the agent reports closed, each with the time at which it became known.
    reported_trades: list[tuple[Item, datetime]] = field(default_factory=list)
    # New decisions. A fill stored earlier may name one of them.
    decisions: list[Item] = field(default_factory=list)
    # New orders. A fill stored earlier may name one of them, also if its decision was known before.
    orders: list[Item] = field(default_factory=list)
    # The rows of the table `items`.
    item_rows: list[dict[str, Any]] = field(default_factory=list)
    # Equity marks and cash flows.
    account_changes: list[AccountChange] = field(default_factory=list)
    # What changes positions that are already there, from a moment on: splits, terms, corrected fills. Without a leg: all legs.
    stated: list[tuple[str, str | None, datetime]] = field(default_factory=list)
    # The symbols whose terms were stated.
    terms_of: set[str] = field(default_factory=set)
    # Fills that came again with other content.
    differing: list[Discrepancy] = field(default_factory=list)
    # The ids of decisions whose outcome is followed.
    followed: list[str] = field(default_factory=list)
    # The earliest moment at which anything in this batch was known.
    known_at: datetime | None = None

    # ---- filled by the ledger ------------------------------------------------------------------------------------------

    # The closed trades that are new or not what they were, by id, each with its earliest exit, old or new. Affect is
    # computed again from the earliest of them. The id "" stands for a change of the account that is no trade.
    changed: dict[str, datetime | None] = field(default_factory=dict)
    # The versions of those trades that did not exist before.
    new_versions: list[TradeVersion] = field(default_factory=list)

    def add_closed(self, versions: Iterable[TradeVersion]) -> None:
        """Add trades that closed in this transaction."""
        for version in versions:
            self.new_versions.append(version)
            self.changed[version.trade.id] = version.trade.exit_at


def note_changed_trades(changed: dict[str, datetime | None], *several: Iterable[TradeVersion]) -> None:
    """Add trades that are no longer what they were, each with its earliest exit in the old and the new versions."""
    for versions in several:
        for version in versions:
            exit_at, earlier = version.trade.exit_at, changed.get(version.trade.id)
            changed[version.trade.id] = exit_at if earlier is None or exit_at is None else min(exit_at, earlier)
