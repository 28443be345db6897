"""Every SQL statement of memtape, once, for both databases: the rows of one stream of one owner.

A `Tables` is handed to the engine inside a transaction. It turns rows into values and back and decides nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from memtape.core.codec import GENESIS, canonical, micros, moment, read_time
from memtape.core.items import StoredItem
from memtape.core.ledger.terms import RULES_VERSION
from memtape.store.cutoff import EVERYTHING, FOREVER, MINE, NEVER
from memtape.store.database import in_batches
from memtape.store.rows import (
    COLUMNS,
    KEYS,
    Head,
    LogRow,
    PositionRow,
    comparable,
    micros_of,
    position_row,
    round_from_row,
    time_of,
)
from memtape.store.schema import TABLES
from memtape.store.trades import TradeTables

if TYPE_CHECKING:
    from memtape.core.ids import OwnerId
    from memtape.core.items import Position
    from memtape.store.cutoff import Cutoff
    from memtape.store.database import Row, Session

DAY_MICROS = 86_400_000_000
_LOG_LIST = ", ".join(COLUMNS["log"][1:])


_REPLACE_POSITION = "ON CONFLICT (owner, stream, symbol, leg) DO UPDATE SET " + ", ".join(
    f"{column} = excluded.{column}" for column in COLUMNS["positions"][4:]
)
_values = {table: itemgetter(*columns) for table, columns in COLUMNS.items()}  # a row's values in the order of its columns


MAX_TEXT_PATTERNS = 8


def order_in(body: str) -> str | None:
    """The order that the stored body of a fill names."""
    named: str | None = json.loads(body).get("order_id")
    return named


def _in_pattern(text: str) -> str:
    """Text as a pattern of LIKE has it.

    >>> _in_pattern("50%_a!")
    '50!%!_a!!'
    """
    return re.sub("([%_!])", r"!\1", text)


class Tables(TradeTables):
    """The rows of one stream of one owner, in one transaction."""

    # ---- the log --------------------------------------------------------------------------------------------------

    def head(self) -> Head:
        """The head of the stream; before its first row, a head at zero."""
        what = "seq, hash, first_snapshot, last_tick, known_at, verified_from, rules"
        rows = self.session.all(f"SELECT {what} FROM streams WHERE {MINE}", self._mine)
        if not rows:
            return Head(0, GENESIS, None, None, None)
        seq, hash_, first, last, known, verified, rules = rows[0]
        return Head(seq, hash_, time_of(first), time_of(last), time_of(known), time_of(verified), 1 if rules is None else rules)

    def set_head(self, head: Head) -> None:
        """Write the head of the stream."""
        self.session.run(
            "INSERT INTO streams (owner, stream, seq, hash, first_snapshot, last_tick, known_at, verified_from, rules) "
            "VALUES (:owner, :stream, :seq, :hash, :first, :last, :known, :verified, :rules) "
            "ON CONFLICT (owner, stream) DO UPDATE SET seq = :seq, hash = :hash, first_snapshot = :first, last_tick = :last, "
            "known_at = :known, verified_from = :verified, rules = :rules",
            {**self._mine, "seq": head.seq, "hash": head.hash, "first": micros_of(head.first_snapshot),
             "last": micros_of(head.last_tick), "known": micros_of(head.known_at),
             "verified": micros_of(head.verified_from), "rules": head.rules},
        )  # fmt: skip

    def make_head(self) -> None:
        """Give the stream a head at zero if it has none."""
        self.session.run(
            "INSERT INTO streams (owner, stream, seq, hash, rules) VALUES (:owner, :stream, 0, :hash, :rules) "
            "ON CONFLICT DO NOTHING",
            {**self._mine, "hash": GENESIS, "rules": RULES_VERSION},
        )

    def append(self, rows: Sequence[LogRow]) -> None:
        """Add rows to the log."""
        self.session.insert("log", COLUMNS["log"], [(self.owner, *row) for row in rows])

    def log(self, *, after: int = 0, upto: int | None = None, chunk: int = 2000) -> Iterator[LogRow]:
        """The log in order."""
        while True:
            rows = self.session.all(
                f"SELECT {_LOG_LIST} FROM log WHERE {MINE} AND seq > :after AND seq <= :upto ORDER BY seq LIMIT :chunk",
                {**self._mine, "after": after, "upto": FOREVER if upto is None else upto, "chunk": chunk},
            )
            yield from map(LogRow._make, rows)
            if len(rows) < chunk:
                return
            after = rows[-1][1]

    def log_of(self, kinds: Sequence[str], telling: str = "") -> list[LogRow]:
        """The log rows of some kinds, in order; with `telling`, only those whose payload contains that text."""
        own, where = {**self._mine, "kinds": list(kinds)}, "kind IN :kinds"  # type: dict[str, Any], str
        if telling:
            own, where = own | {"telling": f"%{telling}%"}, f"{where} AND payload LIKE :telling"
        rows = self.session.all(f"SELECT {_LOG_LIST} FROM log WHERE {MINE} AND {where} ORDER BY seq", own)
        return [LogRow(*row) for row in rows]

    def rows_by_models(self, kind: str, since: int, limit: int) -> int:
        """How many rows of a kind models have written since a moment (in microseconds); below `limit` it may be too few.

        The cost does not grow with the log: mostly one row tells that all rows since then are fewer than the limit.
        """
        low, high = 0, self.head().seq
        if self._recorded_at(high - limit + 1) < since:
            return 0
        while low < high:
            # The first row of that time, by halving: rows are recorded in order of time.
            middle = (low + high) // 2
            low, high = (low, middle) if self._recorded_at(middle) >= since else (middle + 1, high)
        rows = self.session.all(
            f"SELECT count(*) FROM log WHERE {MINE} AND seq >= :first AND kind = :kind AND payload LIKE :by",
            {**self._mine, "first": low, "kind": kind, "by": '{"author":"model"%'},
        )
        return int(rows[0][0])

    def _recorded_at(self, seq: int) -> int:
        """When a row was recorded, in microseconds; before all times if there is no such row."""
        rows = self.session.all(f"SELECT recorded_at FROM log WHERE {MINE} AND seq = :seq", {**self._mine, "seq": seq})
        return int(rows[0][0]) if rows else -1

    def logged(self, kind: str, key: str) -> LogRow | None:
        """The log row of one value, if it was recorded."""
        rows = self.session.all(
            f"SELECT {_LOG_LIST} FROM log WHERE {MINE} AND kind = :kind AND key = :key",
            {**self._mine, "kind": kind, "key": key},
        )
        return LogRow(*rows[0]) if rows else None

    def _logged_ticks(self, keys: Sequence[str]) -> list[LogRow]:
        """The log rows of ticks with these keys."""
        found: list[LogRow] = []
        for some in in_batches(keys):
            own = {**self._mine, "keys": some}
            rows = self.session.all(f"SELECT {_LOG_LIST} FROM log WHERE {MINE} AND kind = 'tick' AND key IN :keys", own)
            found += [LogRow(*row) for row in rows]
        return found

    def shred_log(self, rows: Sequence[int] | None = None) -> int:
        """Destroy the payloads of the whole log, or of some rows. Returns how many there were."""
        which, params = "payload IS NOT NULL", dict(self._mine)  # type: str, dict[str, Any]
        if rows is not None:
            which, params = f"{which} AND seq IN :rows", params | {"rows": list(rows)}
        found = self.session.all(f"SELECT count(*) FROM log WHERE {MINE} AND {which}", params)
        self.session.run(f"UPDATE log SET payload = NULL WHERE {MINE} AND {which}", params)
        return int(found[0][0])

    def drop_items(self, kinds: Sequence[str], key: str) -> list[int]:
        """Remove items for good. Returns the log rows that brought them."""
        own = {**self._mine, "kinds": list(kinds), "key": key}
        rows = self.session.all(f"SELECT seq FROM items WHERE {MINE} AND kind IN :kinds AND key = :key ORDER BY seq", own)
        self.session.run(f"DELETE FROM items WHERE {MINE} AND kind IN :kinds AND key = :key", own)
        return [seq for (seq,) in rows]

    # ---- items ----------------------------------------------------------------------------------------------------

    def log_rows_of(self, names: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """The log rows of the items with these (kind, key) that are stored and not taken back."""
        wanted = set(names)
        found: dict[tuple[str, str], int] = {}
        for some in in_batches(sorted(wanted)):
            rows = self.session.all(
                f"SELECT kind, key, seq FROM items WHERE {MINE} AND void_seq IS NULL AND kind IN :kinds AND key IN :keys",
                {**self._mine, "kinds": sorted({kind for kind, _ in some}), "keys": sorted({key for _, key in some})},
            )
            found |= {(kind, key): seq for kind, key, seq in rows if (kind, key) in wanted}
        return found

    def all_new(self, names: Iterable[tuple[str, str]]) -> bool:
        """True if no item with one of these (kind, key) is stored, or all that are were taken back."""
        return not self.log_rows_of(names)

    def stated(self, kinds: Sequence[str], keys: Sequence[str]) -> list[str]:
        """The kinds of the stored items with one of these keys."""
        own = {**self._mine, "kinds": list(kinds), "keys": list(keys)}
        rows = self.session.all(f"SELECT kind FROM items WHERE {MINE} AND kind IN :kinds AND key IN :keys", own)
        return [kind for (kind,) in rows]

    def has_items(self, kind: str) -> bool:
        """True if there is any item of a kind, taken back or not."""
        return bool(self.session.all(f"SELECT 1 FROM items WHERE {MINE} AND kind = :kind LIMIT 1", {**self._mine, "kind": kind}))

    def put_items(self, rows: Sequence[dict[str, Any]]) -> None:
        """Add items."""
        self.insert("items", rows)

    def put_tick_items(self, values: Sequence[Row]) -> None:
        """Add ticks and equity marks as the values of their rows."""
        self.session.insert("items", COLUMNS["items"], values)

    def _stored_items(
        self, where: str, params: dict[str, Any], known: Cutoff, order: str = "at, seq", voided: bool = False
    ) -> list[StoredItem]:
        here = "" if voided else "AND (void_seq IS NULL OR void_seq > :upto OR void_at > :as_of) "
        rows = self.session.all(
            "SELECT seq, kind, key, at, known_at, skill_version, symbol, leg, ref, batch, body, void_seq, void_at FROM items "
            f"WHERE {MINE} AND {where} AND known_at <= :as_of AND seq <= :upto {here}ORDER BY {order}",
            {**self._mine, **params, **known.limits()},
        )
        upto, as_of = known.limits()["upto"], known.limits()["as_of"]
        found = [
            StoredItem(
                seq,
                kind,
                key,
                moment(at),
                moment(known_at),
                version,
                symbol,
                leg,
                ref,
                json.loads(body) if body else None,
                batch,
                moment(void_at) if voided and void_seq is not None and void_seq <= upto and void_at <= as_of else None,
            )
            for seq, kind, key, at, known_at, version, symbol, leg, ref, batch, body, void_seq, void_at in rows
        ]
        if voided or known.as_of is None:
            return found
        # An item that was taken back after `as_of` and came again is found twice. The later one counts.
        return list({(item.kind, item.key): item for item in found}.values())

    def span(self, position: Position, after: datetime | None, known: Cutoff) -> list[StoredItem]:
        """Everything that concerns a position after a moment: its fills and funding, every tick, and the ticks' decisions.

        Items that were taken back are included, with the time until which they counted.
        """
        return self._stored_items(
            "symbol IN (:symbol, '') AND at > :after "
            "AND kind IN ('tick', 'fill', 'funding', 'decision', 'split', 'dividend', 'amend_fill', 'void_fill') "
            "AND (leg = :leg OR kind IN ('tick', 'decision', 'split', 'amend_fill', 'void_fill'))",
            {"symbol": position[0], "leg": position[1], "after": NEVER if after is None else micros(after)},
            known,
            voided=True,
        )

    def statements(self, symbols: Iterable[str], known: Cutoff, *, splits: bool = False) -> list[StoredItem]:
        """What was stated about the terms of some symbols, and their splits; what was taken back is included."""
        kinds = ["instrument", "split"] if splits else ["instrument"]
        named = sorted(set(symbols))
        # The symbol is in an expression, so that the index by kind is chosen: statements are few, items of a symbol many.
        where = "kind IN :kinds AND symbol || '' IN :symbols"
        return self._stored_items(where, {"kinds": kinds, "symbols": named}, known, voided=True) if named else []

    def items(
        self, kind: str, known: Cutoff, *, keys: Sequence[str] | None = None, symbol: str | None = None,
        symbols: Sequence[str] | None = None, since: datetime | None = None, before: datetime | None = None,
        limit: int | None = None, newest: bool = False, voided: bool = False,
    ) -> list[StoredItem]:  # fmt: skip
        """Items of one kind, oldest first or newest first; with `voided`, also those that were taken back."""
        where, params = "kind = :kind", {"kind": kind}  # type: str, dict[str, Any]
        if keys is not None:
            where, params = f"{where} AND key IN :keys", params | {"keys": list(keys)}
        if symbol is not None:
            where, params = f"{where} AND symbol = :symbol", params | {"symbol": symbol}
        if symbols is not None:
            where, params = f"{where} AND symbol IN :symbols", params | {"symbols": list(symbols)}
        if since is not None:
            where, params = f"{where} AND at >= :since", params | {"since": micros(since)}
        if before is not None:
            where, params = f"{where} AND at < :before", params | {"before": micros(before)}
        order = "at DESC, seq DESC, key" if newest else "at, seq, key"
        return self._stored_items(where, params, known, order if limit is None else f"{order} LIMIT {int(limit)}", voided)

    def items_of(self, kinds: Sequence[str], known: Cutoff) -> list[StoredItem]:
        """Items of several kinds, in the order in which they were recorded."""
        return self._stored_items("kind IN :kinds", {"kinds": list(kinds)}, known, "seq, key")

    def days_of(self, kind: str, completed_by: str | None = None) -> list[tuple[datetime, int, int, str]]:
        """The UTC days with items of a kind: the start of each, how many, the last log row and its hash.

        With `completed_by`, only items count that an item of that kind with the same key completes, and the log row is that of
        the completing item: a run is on record once it has ended, under the day on which it began.
        """
        counted, joined, own = "items", "", {**self._mine, "kind": kind}
        if completed_by is not None:
            counted, own = "completing", own | {"completed_by": completed_by}
            joined = (
                "JOIN items completing ON completing.owner = items.owner AND completing.stream = items.stream "
                "AND completing.kind = :completed_by AND completing.key = items.key AND completing.void_seq IS NULL "
            )
        rows = self.session.all(
            "SELECT days.day, days.number, days.last, log.hash FROM "
            f"(SELECT items.at / {DAY_MICROS} AS day, count(*) AS number, max({counted}.seq) AS last FROM items {joined}"
            "WHERE items.owner = :owner AND items.stream = :stream AND items.kind = :kind AND items.void_seq IS NULL GROUP BY 1) "
            "days JOIN log ON log.owner = :owner AND log.stream = :stream AND log.seq = days.last ORDER BY days.day",
            own,
        )
        return [(moment(day * DAY_MICROS), count, last, hash) for day, count, last, hash in rows]

    def item_keys(self, kind: str) -> list[str]:
        """The keys of the items of one kind that were not taken back, newest first, without their bodies."""
        rows = self.session.all(
            f"SELECT key FROM items WHERE {MINE} AND kind = :kind AND void_seq IS NULL ORDER BY seq DESC",
            {**self._mine, "kind": kind},
        )
        return [key for (key,) in rows]

    def item_bodies(self, kind: str) -> list[dict[str, Any]]:
        """The bodies of the items of one kind that were not taken back and not destroyed, and nothing else of them."""
        rows = self.session.all(
            f"SELECT body FROM items WHERE {MINE} AND kind = :kind AND void_seq IS NULL AND body IS NOT NULL",
            {**self._mine, "kind": kind},
        )
        return [json.loads(body) for (body,) in rows]

    def fills_with_corrections(self, ids: Sequence[str]) -> list[StoredItem]:
        """Every content of some fills and every correction of them, in the order in which they were recorded."""
        found: list[StoredItem] = []
        for some in in_batches(ids):
            refs = [f"f:{id_}" for id_ in some]
            found += self._stored_items("kind = 'fill' AND key IN :ids", {"ids": some}, EVERYTHING, "seq", voided=True)
            found += self._stored_items("ref IN :refs", {"refs": refs}, EVERYTHING, "seq, key")
        return found

    def corrections_before(self, until: datetime, known: Cutoff) -> list[StoredItem]:
        """The corrections of fills up to a moment that were made after it; what was taken back is included."""
        where = "kind IN ('amend_fill', 'void_fill') AND at <= :until"
        items = self._stored_items(where, {"until": micros(until)}, known, voided=True)
        return [item for item in items if read_time(item.body["t"]) > until]

    def items_about(self, ref: str) -> list[StoredItem]:
        """Items that refer to something."""
        return self._stored_items("ref = :ref", {"ref": ref}, EVERYTHING)

    def positions_ever(self, known: Cutoff, symbol: str | None = None) -> list[Position]:
        """Every (symbol, leg) that fills, funding or dividends have named; with `symbol`, those of that symbol."""
        own = "" if symbol is None else "AND symbol = :symbol "
        rows = self.session.all(
            f"SELECT DISTINCT symbol, leg FROM items WHERE {MINE} AND kind IN ('fill', 'funding', 'dividend') {own}"
            "AND known_at <= :as_of AND seq <= :upto ORDER BY symbol, leg",
            {**self._mine, **known.limits()} | ({} if symbol is None else {"symbol": symbol}),
        )
        return [(named, leg) for named, leg in rows]

    def fills_naming(self, names: Sequence[str], upto: int) -> dict[Position, datetime]:
        """The positions with fills, up to a log row, that name one of these decisions or orders; each with the first of them."""
        # Neither sorted nor grouped in SQL, and the kind in an expression: so SQLite chooses the index by ref.
        rows = self.session.all(
            f"SELECT symbol, leg, at FROM items WHERE {MINE} AND ref IN :names AND kind || '' = 'fill' AND seq <= :upto",
            {**self._mine, "names": list(names), "upto": upto},
        )
        found = [((symbol, leg), moment(at)) for symbol, leg, at in rows]
        found += [(position, at) for _, position, at, seq in self._fills_with_both(names) if seq <= upto]
        since: dict[Position, datetime] = {}
        for position, at in found:
            since[position] = min(since.get(position, at), at)
        return since

    def _fills_with_refs(self, names: Sequence[str]) -> list[tuple[str, Position, datetime, int]]:
        """The fills that name one of these decisions or orders: the name, the position, the time and the log row of each."""
        rows = self.session.all(
            f"SELECT ref, symbol, leg, at, seq FROM items WHERE {MINE} AND ref IN :names AND kind || '' = 'fill'",
            {**self._mine, "names": list(names)},
        )
        found = [(ref, (symbol, leg), moment(at), seq) for ref, symbol, leg, at, seq in rows]
        return found + self._fills_with_both(names)

    def _fills_with_both(self, names: Sequence[str]) -> list[tuple[str, Position, datetime, int]]:
        """The same of fills that name one of these orders and a decision too, which their `ref` has."""
        orders = {name for name in names if name.startswith("o:")}
        if not orders:
            return []
        # One order, or a few, are looked for in the text, so that not every body is read.
        looked_for = [canonical(name.removeprefix("o:")) for name in sorted(orders)] if len(orders) <= MAX_TEXT_PATTERNS else [""]
        patterns = {f"p{n}": f'%"order_id":{_in_pattern(text)}%' for n, text in enumerate(looked_for)}
        like = " OR ".join(f"body LIKE :{name} ESCAPE '!'" for name in patterns)
        rows = self.session.all(
            f"SELECT body, symbol, leg, at, seq FROM items WHERE {MINE} AND ref >= 'd:' AND ref < 'd;' AND kind || '' = 'fill' "
            f"AND ({like})",
            {**self._mine, **patterns},
        )
        named = [(f"o:{order_in(body)}", (symbol, leg), moment(at), seq) for body, symbol, leg, at, seq in rows]
        return [each for each in named if each[0] in orders]

    def has_fill(self, position: Position | None = None, *, until: datetime | None = None, known: Cutoff = EVERYTHING) -> bool:
        """True if there is a fill: of any position, also one that was taken back since; or of one position, that counts."""
        own: dict[str, Any] = {**self._mine, **known.limits(), "until": FOREVER if until is None else micros(until)}
        which, counts = "kind = 'fill'", ""
        if position is not None:
            counts = "AND (void_seq IS NULL OR void_seq > :upto OR void_at > :as_of) "
            # The kind is in an expression, so that the index by symbol and time is chosen.
            which = "kind || '' = 'fill' AND symbol = :symbol AND leg = :leg"
            own |= {"symbol": position[0], "leg": position[1]}
        return bool(self.session.all(
            f"SELECT 1 FROM items WHERE {MINE} AND {which} AND at <= :until AND known_at <= :as_of AND seq <= :upto {counts}"
            "LIMIT 1",
            own,
        ))  # fmt: skip

    def void_fill(self, key: str, seq: int, known_at: datetime, replaced: bool = False) -> None:
        """Take back the present content of a fill, because a correction ends it; with `replaced`, as if it had never been."""
        which = f"{MINE} AND kind = 'fill' AND key = :key AND void_seq IS NULL"
        own: dict[str, Any] = {**self._mine, "key": key}
        if replaced:
            self.session.run(f"DELETE FROM items WHERE {which}", own)
        else:
            own |= {"seq": seq, "at": micros(known_at)}
            self.session.run(f"UPDATE items SET void_seq = :seq, void_at = :at WHERE {which}", own)

    def void_batch(self, batch: str, seq: int, known_at: datetime) -> list[tuple[str, str, Position, datetime]]:
        """Take back the items of an import. Returns their kinds, keys, positions and times."""
        rows = self.session.all(
            f"SELECT kind, key, symbol, leg, at FROM items WHERE {MINE} AND batch = :batch AND void_seq IS NULL ORDER BY seq",
            {**self._mine, "batch": batch},
        )
        self.session.run(
            f"UPDATE items SET void_seq = :seq, void_at = :at WHERE {MINE} AND batch = :batch AND void_seq IS NULL",
            {**self._mine, "batch": batch, "seq": seq, "at": micros(known_at)},
        )
        return [(kind, key, (symbol, leg), moment(at)) for kind, key, symbol, leg, at in rows]

    def batch_counts(self, batch: str) -> dict[str, int]:
        """How many items of each kind an import brought."""
        rows = self.session.all(
            f"SELECT kind, count(*) FROM items WHERE {MINE} AND batch = :batch GROUP BY kind ORDER BY kind",
            {**self._mine, "batch": batch},
        )
        return {kind: int(n) for kind, n in rows}

    # ---- positions ------------------------------------------------------------------------------------------------

    def positions(
        self, symbols: Iterable[str] = (), since: datetime | None = None, legs: Iterable[str] | None = None
    ) -> dict[Position, PositionRow]:
        """The open positions, those of these symbols (and legs), and those in which something happened after a moment.

        One query each: an OR of the three would walk every position the stream ever had, and tickets are many.
        """
        which = f"SELECT symbol, leg, last_at, last_rank, last_seq, last_id, round FROM positions WHERE {MINE}"
        rows = self.session.all(f"{which} AND round IS NOT NULL ORDER BY symbol, leg", self._mine)
        for some in in_batches(sorted(symbols)):
            if legs is None:
                rows += self.session.all(f"{which} AND symbol IN :symbols", {**self._mine, "symbols": some})
            for some_legs in in_batches(sorted(legs or ())):
                at = {**self._mine, "symbols": some, "legs": some_legs}
                rows += self.session.all(f"{which} AND symbol IN :symbols AND leg IN :legs", at)
        if since is not None:
            rows += self.session.all(f"{which} AND last_at > :since", {**self._mine, "since": micros(since)})
        # Several of these queries may give the same row, and a position of many lots takes long to read.
        distinct = {(row[0], row[1]): row for row in rows}
        return {
            (symbol, leg): PositionRow(symbol, leg, (moment(at), rank, seq, id_), round_from_row(round_) if round_ else None)
            for symbol, leg, at, rank, seq, id_, round_ in distinct.values()
        }

    def _position_symbols(self) -> list[str]:
        """The symbols of which there are positions, open or flat."""
        rows = self.session.all(f"SELECT DISTINCT symbol FROM positions WHERE {MINE} ORDER BY symbol", self._mine)
        return [symbol for (symbol,) in rows]

    def put_positions(self, positions: Sequence[PositionRow]) -> None:
        """Add or replace positions."""
        rows = [_values["positions"](position_row(self.owner, self.stream, p)) for p in positions]
        self.session.insert("positions", COLUMNS["positions"], rows, _REPLACE_POSITION)

    def drop_position(self, position: Position) -> None:
        """Remove a position of which nothing is left."""
        self.session.run(
            f"DELETE FROM positions WHERE {MINE} AND symbol = :symbol AND leg = :leg",
            {**self._mine, "symbol": position[0], "leg": position[1]},
        )

    # ---- whole tables ---------------------------------------------------------------------------------------------

    def is_unprojected(self) -> bool:
        """True if the log has rows that must have left items, and there are no items at all."""
        if self.session.all(f"SELECT 1 FROM items WHERE {MINE} LIMIT 1", self._mine):
            return False
        rows = f"SELECT 1 FROM log WHERE {MINE} AND kind NOT IN ('bars', 'more') AND payload IS NOT NULL LIMIT 1"
        return bool(self.session.all(rows, self._mine))

    def rows(self, table: str) -> list[dict[str, Any]]:
        """A whole table of this stream, in the order of its key."""
        return list(self.each_row(table))

    def each_row(self, table: str, chunk: int = 2000) -> Iterator[dict[str, Any]]:
        """The same, one row after the other: few at a time are in memory."""
        if table != "bars":
            yield from self._pages(table, {}, [name for name in KEYS[table] if name != "stream"], chunk)
            return
        # The index of bars has `t0` before `frame`: it gives the order of the key for one symbol and frame at a time.
        query = f"SELECT DISTINCT symbol, frame FROM bars WHERE {MINE} ORDER BY symbol, frame"
        for symbol, frame in self.session.all(query, self._mine):
            yield from self._pages(table, {"symbol": symbol, "frame": frame}, ["t0"], chunk)

    def _pages(self, table: str, among: dict[str, Any], keys: Sequence[str], chunk: int) -> Iterator[dict[str, Any]]:
        """The rows of a table with some values, in the order of `keys`. Each page begins after the last row of the one before."""
        names, last = ", ".join(keys), ", ".join(f":last_{name}" for name in keys)
        where, params = " AND ".join([MINE, *(f"{name} = :{name}" for name in among)]), {**self._mine, **among, "chunk": chunk}
        after = ""
        while True:
            found = self.session.all(
                f"SELECT {', '.join(COLUMNS[table])} FROM {table} WHERE {where} {after}ORDER BY {names or 'stream'} LIMIT :chunk",
                params,
            )
            rows = [comparable(table, row) for row in found]
            yield from rows
            if len(rows) < chunk:
                return
            after = f"AND ({names}) > ({last}) "
            params |= {f"last_{name}": rows[-1][name] for name in keys}

    def insert(self, table: str, rows: Sequence[dict[str, Any]]) -> None:
        """Put rows in, as the row functions give them."""
        self.session.insert(table, COLUMNS[table], [_values[table](row) for row in rows])

    def clear(self, table: str) -> None:
        """Empty a table of this stream."""
        self.session.run(f"DELETE FROM {table} WHERE {MINE}", self._mine)


def streams(session: Session, owner: OwnerId) -> list[str]:
    """The streams of an owner that have anything."""
    rows = session.all("SELECT stream FROM streams WHERE owner = :owner ORDER BY stream", {"owner": owner})
    return [name for (name,) in rows]


def streams_in(session: Session, table: str, owner: OwnerId) -> list[str]:
    """The streams of an owner that have rows in a table, whether or not they have a head."""
    rows = session.all(f"SELECT DISTINCT stream FROM {table} WHERE owner = :owner ORDER BY stream", {"owner": owner})
    return [stream for (stream,) in rows]


def drop_other_streams(session: Session, table: str, owner: OwnerId, streams: Sequence[str]) -> None:
    """Delete the rows of an owner's streams other than these from a table."""
    which = {"owner": owner, "streams": list(streams)}
    session.run(f"DELETE FROM {table} WHERE owner = :owner AND stream NOT IN :streams", which)


def owners(session: Session) -> list[OwnerId]:
    """Every owner that this transaction may see."""
    everywhere = " UNION ".join(f"SELECT owner FROM {table}" for table in TABLES)
    return sorted(name for (name,) in session.all(everywhere, {}) if name is not None)  # a broken file may have lost one


def outdated_owners(session: Session, rules: int) -> list[OwnerId]:
    """The owners with a stream whose projections were made by older rules."""
    rows = session.all(
        "SELECT DISTINCT owner FROM streams WHERE coalesce(rules, 1) < :rules AND seq > 0 ORDER BY owner", {"rules": rules}
    )
    return [owner for (owner,) in rows]
