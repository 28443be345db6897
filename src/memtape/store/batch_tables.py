"""The tables of one stream during a transaction that records many values one after the other, as a simulation does.

Between two values nobody else changes the stream, so what one value left is still there for the next: its position, its head, its
last bars. This keeps them in memory instead of reading them again, and writes rows in large groups. Every answer is the one that
the database would give:

- rows that are added wait, and are written before any query of their table;
- a query with the same parameters is answered from memory as long as nothing was added to its tables (of items: to its kinds);
- a statement that changes or deletes rows ends everything that is kept of its table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from memtape.core.codec import moment
from memtape.store.cutoff import EVERYTHING
from memtape.store.database import in_batches
from memtape.store.kept_memories import KeptMemories
from memtape.store.rows import COLUMNS, PositionRow, added_item
from memtape.store.tables import Tables, order_in

if TYPE_CHECKING:
    from memtape.core.ids import OwnerId
    from memtape.core.items import Position, StoredItem
    from memtape.core.ledger.rounds import KnownBar
    from memtape.core.ledger.versions import TradeVersion
    from memtape.core.observed import Bar
    from memtape.store.cutoff import Cutoff
    from memtape.store.database import Params, Row, Session
    from memtape.store.rows import Head, LogRow

MAX_POSITIONS_KEPT = 500
MAX_ANSWERS_KEPT = 2000
_TABLE_NAMES = re.compile(r"\b(?:FROM|JOIN|INTO|UPDATE)\s+(\w+)")
_KIND, _KEY, _SEQ = (COLUMNS["items"].index(name) for name in ("kind", "key", "seq"))
_ALWAYS_THERE = ("tick", "equity", "decision", "order", "fill")  # in a stream of ticks; nobody need look whether they are


@lru_cache(maxsize=512)
def tables_named(sql: str) -> frozenset[str]:
    """The tables that a statement names.

    >>> sorted(tables_named("SELECT 1 FROM items i JOIN bars ON 1 = 1"))
    ['bars', 'items']
    """
    return frozenset(_TABLE_NAMES.findall(sql))


class BatchSession:
    """A transaction that gathers the rows to add, and remembers answers."""

    def __init__(self, session: Session, before_query: Callable[[frozenset[str]], None]) -> None:
        self._session, self._before_query = session, before_query
        self._waiting: dict[str, list[tuple[tuple[str, ...], str, list[Row]]]] = {}
        self._answers: dict[tuple[object, ...], tuple[tuple[int, ...], list[Row]]] = {}
        self._changes: dict[str, int] = {}  # by table, and by "items kind"
        self.changed_by_statement: Callable[[frozenset[str]], None] = lambda tables: None

    def run(self, sql: str, params: Params) -> None:
        """Execute a statement."""
        named = tables_named(sql)
        self._write(named)
        self._session.run(sql, params)
        for table in named:
            self._note(table)
            self._note(f"{table} *")
        self.changed_by_statement(named)

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Row], on_conflict: str = "") -> None:
        """Add rows later: before the next query of the table, or at the end."""
        if not rows:
            return
        waiting = self._waiting.setdefault(table, [])
        how = tuple(columns), on_conflict
        if waiting and waiting[-1][:2] == how:
            waiting[-1][2].extend(rows)
        else:
            waiting.append((*how, list(rows)))
        self._note(table)
        if table == "items":
            for kind in {row[_KIND] for row in rows}:
                self._note(f"items {kind}")

    def all(self, sql: str, params: Params) -> list[Row]:
        """Execute a query and fetch everything, or answer as before if nothing has changed since."""
        named = tables_named(sql)
        key = (sql, *((name, tuple(value) if isinstance(value, list) else value) for name, value in params.items()))
        seen = self._seen(named, params)
        earlier = self._answers.get(key)
        if earlier is not None and earlier[0] == seen:
            return list(earlier[1])
        self._write(named)
        found = self._session.all(sql, params)
        if len(self._answers) >= MAX_ANSWERS_KEPT:
            self._answers.clear()
        self._answers[key] = seen, found
        return list(found)

    def lock(self, owner: OwnerId, stream: str) -> None:
        """Make sure that nobody else writes to the stream until we commit."""
        self._session.lock(owner, stream)

    def let_go(self) -> None:
        """Forget the tables to which this session belongs."""
        self._before_query = self.changed_by_statement = lambda tables: None

    def write_all(self) -> None:
        """Write the rows that still wait."""
        self._write(frozenset(self._waiting))

    def _write(self, named: frozenset[str]) -> None:
        self._before_query(named)
        for table in sorted(named & self._waiting.keys()):
            for columns, on_conflict, rows in self._waiting.pop(table):
                self._session.insert(table, columns, rows, on_conflict)

    def _note(self, what: str) -> None:
        self._changes[what] = self._changes.get(what, 0) + 1

    def _seen(self, named: frozenset[str], params: Params) -> tuple[int, ...]:
        """How often what a query reads has changed so far."""
        changes = self._changes
        if named == {"items"} and ("kind" in params or "kinds" in params):
            kinds = params["kinds"] if "kinds" in params else (params["kind"],)
            return (changes.get("items *", 0), *(changes.get(f"items {kind}", 0) for kind in kinds))
        return tuple(changes.get(table, 0) for table in sorted(named))


class BatchTables(Tables):
    """The rows of one stream, while many values are recorded in one transaction. `finish` writes what waits."""

    def __init__(self, session: Session, owner: OwnerId, stream: str) -> None:
        self._batch = BatchSession(session, self._before_query)
        self._batch.changed_by_statement = self._forget
        super().__init__(self._batch, owner, stream)
        self._memories = self.kept = KeptMemories()
        self._head: Head | None = None
        self._head_waits = False
        self._positions: dict[Position, PositionRow] | None = None
        self._positions_waiting: dict[Position, PositionRow] = {}
        self._bars: dict[str, tuple[datetime, dict[tuple[int, datetime], Bar]]] = {}  # by symbol: all that opened since
        self._names: dict[tuple[str, str], int | None] | None = None  # of items; None: it is not stored
        self._ticks: dict[str, LogRow | None] = {}  # log rows by key; None: it is not there
        self._absent: set[str] = set()  # kinds of items of which there are none
        self._bars_end: dict[str, datetime | None] = {}  # by symbol
        self._last_exits: dict[str, datetime | None] = {}  # by symbol
        self._last_bars: dict[str, KnownBar] = {}  # by symbol, of all its bars
        self._fills_naming: dict[str, list[tuple[Position, datetime, int]]] | None = None  # by the name of a decision or order
        self._added: dict[tuple[str, str], dict[str, Any]] = {}  # decisions and orders of this transaction

    def expect(self, ticks: Iterable[str], names: Iterable[tuple[str, str]], decided: Iterable[str]) -> None:
        """Look up once which ticks and items of the values to come are stored, and which fills name what they decide."""
        self._ticks = dict.fromkeys(ticks)
        for row in self._logged_ticks(list(self._ticks)):
            self._ticks[row.key] = row
        by_kind: dict[str, list[tuple[str, str]]] = {}
        for name in names:
            by_kind.setdefault(name[0], []).append(name)
        self._names = {}
        for wanted in by_kind.values():
            self._names |= dict.fromkeys(wanted) | super().log_rows_of(wanted)
        listed = list(decided)
        self._fills_naming = {name: [] for name in listed}
        for some in in_batches(listed):
            for ref, position, at, seq in self._fills_with_refs(some):
                self._fills_naming[ref].append((position, at, seq))

    def finish(self) -> None:
        """Write everything that waits. Nothing can be asked any more."""
        self._before_query(frozenset(("positions", "streams")))
        self._batch.write_all()
        # Tables and session call each other. Apart, all that they kept is freed at once.
        self._batch.let_go()

    def _before_query(self, named: frozenset[str]) -> None:
        if "positions" in named and self._positions_waiting:
            waiting, self._positions_waiting = list(self._positions_waiting.values()), {}
            super().put_positions(waiting)
        if "streams" in named and self._head_waits and self._head is not None:
            self._head_waits = False
            super().set_head(self._head)

    def _forget(self, named: frozenset[str]) -> None:
        self._memories.forget(named)
        if "positions" in named:
            self._positions = None
        if "bars" in named:
            self._bars, self._bars_end, self._last_bars = {}, {}, {}
        if "items" in named:
            self._names, self._absent, self._fills_naming, self._added = None, set(), None, {}
        if "trades" in named:
            self._last_exits = {}
        if "log" in named:
            self._ticks = {}

    # ---- the log --------------------------------------------------------------------------------------------------

    def head(self) -> Head:
        """The head of the stream."""
        if self._head is None:
            self._head = super().head()
        return self._head

    def set_head(self, head: Head) -> None:
        """Move the head; it is written at the end."""
        self._head, self._head_waits = head, True

    def append(self, rows: Sequence[LogRow]) -> None:
        """Add rows to the log."""
        super().append(rows)
        self._ticks.update({row.key: row for row in rows if row.kind == "tick" and row.key in self._ticks})

    def logged(self, kind: str, key: str) -> LogRow | None:
        """The log row of one value, if it was recorded."""
        if kind == "tick" and key in self._ticks:
            return self._ticks[key]
        return super().logged(kind, key)

    # ---- items ----------------------------------------------------------------------------------------------------

    def log_rows_of(self, names: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """The log rows of the items with these (kind, key) that are stored and not taken back."""
        wanted = list(names)
        if self._names is None or not all(name in self._names for name in wanted):
            return super().log_rows_of(wanted)
        return {name: seq for name in wanted if (seq := self._names[name]) is not None}

    def all_new(self, names: Iterable[tuple[str, str]]) -> bool:
        """True if no item with one of these (kind, key) is stored, or all that are were taken back."""
        wanted, known = list(names), self._names
        for name in wanted:
            if known is None or name not in known:
                return super().all_new(wanted)
            if known[name] is not None:
                return False
        return True

    def put_items(self, rows: Sequence[dict[str, Any]]) -> None:
        """Add items."""
        super().put_items(rows)
        if self._names is not None:
            self._names.update({(row["kind"], row["key"]): row["seq"] for row in rows})
        if self._absent:
            self._absent.difference_update({row["kind"] for row in rows})
        for row in rows:
            if row["kind"] in ("decision", "order"):
                self._added[row["kind"], row["key"]] = row
            elif row["kind"] == "fill" and self._fills_naming is not None and row["ref"] is not None:
                both = f"o:{order_in(row['body'])}" if row["ref"].startswith("d:") else row["ref"]
                for name in {row["ref"], both} & self._fills_naming.keys():
                    self._fills_naming[name].append(((row["symbol"], row["leg"]), moment(row["at"]), row["seq"]))

    def put_tick_items(self, values: Sequence[Row]) -> None:
        """Add ticks and equity marks as the values of their rows."""
        super().put_tick_items(values)
        if self._names is not None:
            self._names.update({(row[_KIND], row[_KEY]): row[_SEQ] for row in values})

    def items(self, kind: str, known: Cutoff, **which: Any) -> list[StoredItem]:
        """Items of one kind."""
        if self._has_none(kind):
            return []
        if known is not EVERYTHING or which.keys() != {"keys"}:
            return super().items(kind, known, **which)
        names = self._names or {}
        keys = [key for key in which["keys"] if names.get((kind, key), 0) is not None]
        added = [self._added.get((kind, key)) for key in keys]
        if None in added:
            return super().items(kind, known, keys=keys)
        return sorted(map(added_item, filter(None, added)), key=lambda item: (item.at, item.seq, item.key))

    def fills_naming(self, names: Sequence[str], upto: int) -> dict[Position, datetime]:
        """The positions with fills, up to a log row, that name one of these decisions or orders."""
        if self._fills_naming is None or not all(name in self._fills_naming for name in names):
            return super().fills_naming(names, upto)
        since: dict[Position, datetime] = {}
        for name in names:
            for position, at, seq in self._fills_naming[name]:
                if seq <= upto:
                    since[position] = min(since.get(position, at), at)
        return since

    def statements(self, symbols: Iterable[str], known: Cutoff, *, splits: bool = False) -> list[StoredItem]:
        """What was stated about the terms of some symbols, and their splits."""
        if self._has_none("instrument") and (not splits or self._has_none("split")):
            return []
        return super().statements(symbols, known, splits=splits)

    def _has_none(self, kind: str) -> bool:
        """True if there is no item of a kind. Of most kinds that every value asks for, a stream has none."""
        if kind in self._absent:
            return True
        if kind in _ALWAYS_THERE or self.has_items(kind):
            return False
        self._absent.add(kind)
        return True

    # ---- positions ------------------------------------------------------------------------------------------------

    def positions(
        self, symbols: Iterable[str] = (), since: datetime | None = None, legs: Iterable[str] | None = None
    ) -> dict[Position, PositionRow]:
        """The open positions, those of these symbols (and legs), and those in which something happened after a moment."""
        if self._positions is None:
            every = super().positions(self._position_symbols())
            if len(every) > MAX_POSITIONS_KEPT:
                return super().positions(symbols, since, legs)
            self._positions = every
        named, of_legs = set(symbols), None if legs is None else set(legs)
        return {
            position: row
            for position, row in self._positions.items()
            if row.round is not None
            or (position[0] in named and (of_legs is None or position[1] in of_legs))
            or (since is not None and row.last[0] > since)
        }

    def put_positions(self, positions: Sequence[PositionRow]) -> None:
        """Add or replace positions; they are written at the end."""
        for row in positions:
            # What the database would carry to the next value.
            carried = row if row.round is None else PositionRow(row.symbol, row.leg, row.last, row.round.with_last_states())
            self._positions_waiting[row.symbol, row.leg] = carried
            if self._positions is not None:
                self._positions[row.symbol, row.leg] = carried

    # ---- bars and trades ------------------------------------------------------------------------------------------

    def bars_between(self, symbol: str, first: datetime, last: datetime) -> dict[tuple[int, datetime], Bar]:
        """Bars by (frame, open time) whose open time lies in a range."""
        since, bars = self._bars.get(symbol, (None, {}))
        if since is None or first < since:
            bars = super().bars_between(symbol, first, datetime.max.replace(tzinfo=UTC))
        bars = {key: bar for key, bar in bars.items() if bar.t0 >= first}
        self._bars[symbol] = first, bars
        return {key: bar for key, bar in bars.items() if bar.t0 <= last}

    def put_bar_values(self, bars: Sequence[KnownBar], values: Sequence[Row]) -> None:
        """Add bars as the values of their rows."""
        super().put_bar_values(bars, values)
        self._memories.add_bars(bars)
        for known in bars:
            self._note_bar(known)

    def _note_bar(self, known: KnownBar) -> None:
        bar, symbol = known.bar, known.bar.symbol
        if symbol in self._bars_end:
            end = self._bars_end.pop(symbol)
            if end is not None:
                self._bars_end[symbol] = max(end, bar.t1)
        last = self._last_bars.get(symbol)
        if last is not None and (bar.t1 > last.bar.t1 or (bar.t1 == last.bar.t1 and bar.frame < last.bar.frame)):
            self._last_bars[symbol] = known
        if symbol in self._bars and bar.t0 >= self._bars[symbol][0]:
            self._bars[symbol][1][bar.frame, bar.t0] = bar

    def bars_end(self, symbol: str) -> datetime | None:
        """When the last known bar of a symbol ended."""
        if symbol not in self._bars_end:
            self._bars_end[symbol] = super().bars_end(symbol)
        return self._bars_end[symbol]

    def last_bar(self, symbol: str, by: datetime | None, known: Cutoff) -> KnownBar | None:
        """The last bar completed by a moment; None: the last of all."""
        if by is not None or known is not EVERYTHING:
            return super().last_bar(symbol, by, known)
        if symbol not in self._last_bars:
            last = super().last_bar(symbol, by, known)
            if last is None:
                return None
            self._last_bars[symbol] = last
        return self._last_bars[symbol]

    def last_exit(self, symbol: str) -> datetime | None:
        """When the last trade of a symbol ended, in any version."""
        if symbol not in self._last_exits:
            self._last_exits[symbol] = super().last_exit(symbol)
        return self._last_exits[symbol]

    def put_versions(self, versions: Sequence[TradeVersion]) -> None:
        """Add versions of closed trades."""
        super().put_versions(versions)
        self._memories.add_versions(versions)
        for symbol in {version.trade.symbol for version in versions}:
            ended = self._last_exits.pop(symbol, None)
            exits = [version.trade.exit_at for version in versions if version.trade.symbol == symbol]
            if ended is not None:
                self._last_exits[symbol] = max([ended, *(at for at in exits if at is not None)])

    def reported_between(self, symbol: str, first: datetime, last: datetime) -> list[str]:
        """The keys of the reported trades of a symbol that were held within a time."""
        ended = self.last_exit(symbol)
        return super().reported_between(symbol, first, last) if ended is not None and ended > first else []

    def watched_trades(self, symbol: str, t0: datetime, t1: datetime) -> list[tuple[Position, datetime]]:
        """The positions of a symbol whose closed trades bars over [t0, t1) may change, each with the first such entry."""
        ended = self.last_exit(symbol)
        return super().watched_trades(symbol, t0, t1) if ended is not None and ended > t0 else []
