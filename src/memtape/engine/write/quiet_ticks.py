"""Ticks on which nothing happens: they show what the ledger holds, and bring bars, an equity mark and mere words at most.

Nothing is concluded from such a tick but that time went on: the bars show how far the open trades ran, the mark moves affect, and
outcomes are followed. A decision without stop and target only waits for the fills that name it. All of that comes out the same
for many ticks together as for each by itself, so a stretch of them is written like an import: one log row each, everything else
once.

Anything else ends the stretch: a fill, a payment, a decision that has a stop or is followed, a statement, a snapshot that
differs, a tick or a bar out of order, a tick that is known already. Such a tick goes the ordinary way (`Writer.one`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from memtape.core.codec import time_text
from memtape.core.decisions.outcomes import outcome_card
from memtape.core.items import Position, fill_references, unpack_items
from memtape.core.ledger.fold import watch_open_round
from memtape.core.ledger.rounds import KnownBar
from memtape.core.observed import Bar, Decision, Tick
from memtape.core.skills import Agent
from memtape.engine.write.tick_views import repeats_snapshot, says_nothing_new, view_of_tick
from memtape.store.cutoff import EVERYTHING
from memtape.store.memories import MemoryTables
from memtape.store.rows import Head, PositionRow
from memtape.store.tables import Tables


class QuietTicks:
    """What the store says before a stretch of ticks, as far as it decides whether anything happens on them."""

    def __init__(self, tables: Tables, agent: Agent, start: Head) -> None:
        self._tables, self._agent, self._start = tables, agent, start
        self._last_tick, self._known_at = start.last_tick, start.known_at
        self._ids: set[str] = set()
        self._decided: set[tuple[str, str]] = set()  # the names of decisions and orders in this stretch
        self._in_order: dict[str, bool] = {}  # by symbol: its bars went no further than the ticks
        self.open: Mapping[Position, PositionRow] = {}
        # The first tick ever, and the first with a snapshot, say more than others. Plans are judged at every tick.
        self._possible = (
            start.last_tick is not None and start.first_snapshot is not None and start.verified_from is not None
            and not tables.items("undo", EVERYTHING, limit=1)
            and not MemoryTables(tables).plans(("active", "proposed"))
        )  # fmt: skip
        if self._possible:
            stored = tables.positions((), start.last_tick)
            self.open = {position: row for position, row in stored.items() if row.round is not None}
            # What was folded since the last tick takes its reasons from the next one.
            self._possible = all(row.last[0] <= self._last_tick_time for row in stored.values())

    @property
    def _last_tick_time(self) -> datetime:
        assert self._last_tick is not None
        return self._last_tick

    def take(self, tick: Tick, known_at: datetime) -> bool:
        """Returns True if nothing happens on a tick; it is then part of the stretch."""
        if not self._possible or not self._comes_next(tick, known_at) or not self._shows_what_is_held(tick, known_at):
            return False
        if tick.decision is not None and not all(self._is_mere_words(decision) for decision in tick.decisions):
            return False
        for bar in tick.bars:
            if not self._is_next_bar(bar, tick.t):
                return False
        self._last_tick, self._known_at = tick.t, known_at
        self._ids.add(tick.id)
        return True

    def _comes_next(self, tick: Tick, known_at: datetime) -> bool:
        """Returns True if a tick is new and later than everything before it."""
        if tick.t <= self._last_tick_time or tick.id in self._ids or (self._known_at is not None and known_at < self._known_at):
            return False
        if self._start.verified_from is None or known_at < self._start.verified_from:
            return False
        if self._tables.logged("tick", tick.id) is not None:
            return False
        names = names_of_quiet(tick) if tick.decision is None else [(item.kind, item.key) for item in unpack_items(tick)]
        if tick.decision is not None and (len(set(names)) < len(names) or not self._decided.isdisjoint(names)):
            return False
        if not self._tables.all_new(names):
            return False
        self._decided.update(names[1:] if tick.decision is not None else ())
        return True

    def _is_mere_words(self, decision: Decision) -> bool:
        """Returns True if a decision changes nothing yet: no stop, no target, no outcome to follow, and no fill names it."""
        if decision.stop is not None or decision.target is not None or outcome_card(decision) is not None:
            return False
        return not self._tables.fills_naming(fill_references(decision), upto=self._start.seq)

    def _shows_what_is_held(self, tick: Tick, known_at: datetime) -> bool:
        """Returns True if a tick says nothing new about any position."""
        repeated: set[Position] = set()
        for symbol, several in (tick.positions or {}).items():
            for held in several:
                row = self.open.get((symbol, held.leg))
                if row is None or row.round is None:
                    return False
                if tick.rates is None and repeats_snapshot(row.round, held):
                    repeated.add((symbol, held.leg))
        if repeated == self.open.keys():
            return True
        return all(self._agrees(tick, known_at, position) for position in self.open if position not in repeated)

    def _agrees(self, tick: Tick, known_at: datetime, position: Position) -> bool:
        round_ = self.open[position].round
        view = view_of_tick(self._agent, tick, known_at, position, None, first=False)
        if view.held is not None and round_ is not None and view.held.qty * round_.side <= 0:
            return False
        return says_nothing_new(self._agent, round_, view)

    def _is_next_bar(self, bar: Bar, tick: datetime) -> bool:
        """Returns True if a bar ended after the last tick, as no stored one did, and concerns no trade that is closed."""
        assert self._last_tick is not None
        if not self._last_tick < bar.t1 <= tick or not self._has_no_later_bars(bar.symbol):
            return False
        exit_at = self._tables.last_exit(bar.symbol)
        if exit_at is not None and exit_at > bar.t0:
            return False
        for (symbol, _), row in self.open.items():
            if symbol == bar.symbol and row.round is not None and not row.round.covers(bar.t0):
                return False
        return True

    def _has_no_later_bars(self, symbol: str) -> bool:
        """Returns True if no bar of a symbol that ended after the last tick was stored before this stretch."""
        if symbol not in self._in_order:
            end = self._tables.bars_end(symbol)
            self._in_order[symbol] = end is None or end <= self._last_tick_time
        return self._in_order[symbol]


def has_parts(tick: Tick) -> bool:
    """Returns True if a tick brings more than a snapshot, marks, bars and equity."""
    return tick.decision is not None or changes_account(tick)


def changes_account(tick: Tick) -> bool:
    """Returns True if a tick brings fills, payments or statements."""
    return bool(
        tick.fills or tick.funding or tick.cash_flows or tick.instruments is not None
        or tick.splits is not None or tick.dividends is not None or tick.corrections is not None
    )  # fmt: skip


def names_of_quiet(tick: Tick) -> list[tuple[str, str]]:
    """The names of the items of a tick without parts: the tick itself and its equity mark."""
    own = [("tick", str(tick.id))]
    return own if tick.equity is None else [*own, ("equity", time_text(tick.t))]


def carry_over_bars(
    tables: Tables, agent: Agent, open_: Mapping[Position, PositionRow], bars: Mapping[str, Sequence[KnownBar]]
) -> None:
    """Carry open positions over the bars of a stretch of quiet ticks."""
    updated: list[PositionRow] = []
    for (symbol, leg), row in sorted(open_.items()):
        if row.round is None or symbol not in bars:
            continue
        stated = tables.statements([symbol], EVERYTHING, splits=True)
        splits = [item.at for item in stated if item.kind == "split" and item.voided_at is None]
        watch_open_round(agent.terms(), row.round, bars[symbol], splits)
        updated.append(PositionRow(symbol, leg, row.last, row.round))
    tables.put_positions(updated)
