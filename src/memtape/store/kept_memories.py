"""The end of affect, of the episodes and of the bars, kept in memory while many values are recorded in one transaction.

Every value continues affect from its last step, and every trade that closes asks for the market at its entry, shortly before.
`MemoryTables` asks here first; what is not known here is read from the store.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING

from memtape.core.memory.market import completed_bar

if TYPE_CHECKING:
    from memtape.core.ledger.rounds import KnownBar
    from memtape.core.ledger.versions import TradeVersion
    from memtape.core.memory.affect import AffectStep
    from memtape.core.memory.episodes import Episode
    from memtape.core.memory.market import Market

MAX_OUTCOMES_KEPT = 100  # as many as a step of affect looks at


class KeptMarket:
    """The market of a symbol with all bars that its state at `since`, or at any later moment, needs."""

    def __init__(self, since: datetime, market: Market) -> None:
        self.since, self._market = since, market
        self._new: list[KnownBar] = []

    def add(self, bar: KnownBar) -> None:
        """A bar was added to the store."""
        self._new.append(bar)

    def at(self, moment: datetime) -> Market | None:
        """The market for a moment; None if the bars kept do not tell it."""
        if moment < self.since:
            return None
        new, self._new = self._new, []
        return self._market if all(self._market.extend(completed_bar(bar)) for bar in new) else None


class KeptMemories:
    """The last step of affect, the last outcomes, the last entry of an episode, and the markets by symbol."""

    def __init__(self) -> None:
        self.last_step: AffectStep | None = None  # None: not known here
        self._steps: list[AffectStep] = []  # the last ones in order, the very last included
        self.versions_ended: bool | None = None  # whether any trade was once believed in another version; None: not known here
        self.outcomes: list[float] | None = None  # in R, of the last closes; None: not known here
        self.last_entry: datetime | None = None  # of all episodes; meaningful if `entries_known`
        self.entries_known = False
        self._ended: tuple[datetime | None, int, int] | None = None  # since when, counted up to, and how many trades ended
        self.markets: dict[str, KeptMarket] = {}
        self.revision: int | None = None  # of the episodes; None: not known here

    def set_last_step(self, step: AffectStep | None) -> None:
        """The last step was read."""
        self.last_step, self._steps = step, [] if step is None else [step]

    def steps_until(self, moment: datetime, limit: int) -> list[AffectStep] | None:
        """The last steps at or before a moment, oldest first; None if those kept are too few."""
        place = bisect_right(self._steps, moment, key=lambda step: step.at)
        return self._steps[place - limit : place] if place >= limit else None

    def add_versions(self, versions: Sequence[TradeVersion]) -> None:
        """Versions of trades were added."""
        if any(version.known_to is not None for version in versions):
            self.versions_ended = True

    def add_bars(self, bars: Sequence[KnownBar]) -> None:
        """Bars were added."""
        for known in bars:
            if (market := self.markets.get(known.bar.symbol)) is not None:
                market.add(known)

    def add_steps(self, steps: Sequence[AffectStep]) -> None:
        """Steps were added."""
        if not steps or self.last_step is None:
            return
        ordered = sorted(steps, key=_step_order)
        if _step_order(ordered[0]) <= _step_order(self.last_step):
            self.last_step = self.outcomes = None
            self._steps = []
            return
        self.last_step = ordered[-1]
        self._steps += ordered
        if self.outcomes is not None:
            closes = [step.pnl_r for step in ordered if step.rank == 1 and step.pnl_r is not None]
            self.outcomes = [*self.outcomes, *closes][-MAX_OUTCOMES_KEPT:]

    def set_ended_after(self, moment: datetime | None, most: int, count: int) -> None:
        """The trades that ended after a moment were counted, up to `most`."""
        self._ended = moment, most, count

    def ended_after(self, moment: datetime | None, most: int) -> int | None:
        """How many trades ended after a moment, up to `most`; None if these were not counted."""
        return self._ended[2] if self._ended is not None and self._ended[:2] == (moment, most) else None

    def add_episodes(self, episodes: Sequence[Episode]) -> None:
        """Episodes were added."""
        if self._ended is not None:
            since, most, count = self._ended
            new = [one for one in episodes if one.kind == "trade" and one.known_to is None]
            count += sum(since is None or one.exit_at > since for one in new)
            self._ended = since, most, min(count, most)
        if episodes and self.entries_known:
            entries = [episode.entry_at for episode in episodes]
            self.last_entry = max(entries if self.last_entry is None else [self.last_entry, *entries])

    def forget(self, tables: frozenset[str]) -> None:
        """Rows of some tables were changed or deleted."""
        if "affect" in tables:
            self.last_step = self.outcomes = None
            self._steps = []
        if "trades" in tables:
            self.versions_ended = None
        if "episodes" in tables:
            self.entries_known, self.last_entry, self._ended = False, None, None
        if "bars" in tables:
            self.markets = {}
        if "changes" in tables:
            self.revision = None


_step_order: Callable[[AffectStep], tuple[datetime, int, str]] = attrgetter("at", "rank", "id")
