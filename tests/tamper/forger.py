"""The forger: has the file (or the superuser's password) and edits rows behind memtape's back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Protocol

import apsw

from memtape.store.rows import COLUMNS, KEYS
from memtape.store.schema import AFFECT_COLUMNS, EPISODE_COLUMNS, TABLES, TRADE_COLUMNS

Row = dict[str, Any]
Deed = tuple[str, tuple[Any, ...]]  # a statement and its values
_NOT_NULL = {
    "log": set(COLUMNS["log"]) - {"payload"},
    "streams": {"owner", "stream", "seq", "hash"},
    "items": set(COLUMNS["items"]) - {"ref", "batch", "body", "void_seq", "void_at"},
    "positions": set(COLUMNS["positions"]) - {"round"},
    "trades": {"owner", "stream", "known_from", "id", "symbol", "leg", "entry_at", "exit_at"},
    "discrepancies": set(COLUMNS["discrepancies"]) - {"price"},
    "bars": set(COLUMNS["bars"]) - {"v"},
    "episodes": {"owner", "stream", "id", "known_from", "kind", "symbol", "entry_at", "exit_at"},
    "affect": {"owner", "stream", "at", "rank", "id", "known_at", "known_by"},
    "outcomes": {"owner", "stream", "id", "known_from", "symbol", "at", "frame", "expiry_bars", "side", "stop", "status", "shadow", "risk_too_small"},
    "plans": {"owner", "stream", "id", "status", "at", "fired", "body"},
}


class Refused(Exception):
    """The database's own constraints did not let the forger through."""


class Hands(Protocol):
    """A straight way into a database; statements use ? for parameters."""

    def run(self, sql: str, *values: Any) -> list[tuple[Any, ...]]: ...


class SqliteHands:
    """A connection of the forger's own to the file."""

    def __init__(self, path: str) -> None:
        self.connection = apsw.Connection(path)
        self.connection.execute("PRAGMA synchronous=OFF")

    def run(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        try:
            return list(self.connection.execute(sql, [str(v) if isinstance(v, Decimal) else v for v in values]))
        except apsw.ConstraintError as error:
            raise Refused(str(error)) from None

    def close(self) -> None:
        self.connection.close()


class PostgresHands:
    """The superuser, whom row-level security does not bind."""

    def __init__(self, superuser: Any) -> None:
        self.superuser = superuser

    def run(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        from psycopg import errors

        try:
            cursor = self.superuser.execute(sql.replace("?", "%s"), values)
        except errors.IntegrityError as error:
            raise Refused(str(error)) from None
        return cursor.fetchall() if cursor.description else []


@dataclass(frozen=True)
class Forgery:
    """One thing done to one row, in words and in deeds."""

    what: str
    table: str
    row: Row
    deeds: tuple[Deed, ...]
    in_place: bool = False  # the row keeps its key, or is gone

    def __str__(self) -> str:
        where = "/".join(str(self.row[c]) for c in KEYS[self.table])
        return f"{self.what} in {self.table} {where}"


class Forger:
    """Knows the true rows, falsifies one, and can put everything back."""

    def __init__(self, hands: Hands) -> None:
        self.hands = hands
        self.true = {table: self.rows(table) for table in TABLES}

    def rows(self, table: str) -> list[Row]:
        key = ", ".join(("owner", *KEYS[table]))
        found = self.hands.run(f"SELECT {', '.join(COLUMNS[table])} FROM {table} ORDER BY {key}")
        return [dict(zip(COLUMNS[table], row, strict=True)) for row in found]

    def commit(self, forgery: Forgery) -> None:
        """Do it, all or nothing."""
        self.hands.run("BEGIN")
        try:
            for sql, values in forgery.deeds:
                self.hands.run(sql, *values)
        except BaseException:
            self.hands.run("ROLLBACK")
            raise
        self.hands.run("COMMIT")

    def restore(self, *tables: str) -> None:
        """Put the true rows back."""
        self.hands.run("BEGIN")
        for table in tables or TABLES:
            self.hands.run(f"DELETE FROM {table}")
            for row in self.true[table]:
                sql, values = insertion(table, row)
                self.hands.run(sql, *values)
        self.hands.run("COMMIT")

    # ---- kinds of forgery; `most` limits the rows tried ----------------------------------------------------------

    def edits(self, table: str, most: int | None = None) -> Iterator[Forgery]:
        """One value of one row changed, in every column: to a neighbour, to nothing, to nonsense."""
        for column in COLUMNS[table]:
            for row in _spread(self.true[table], column, most):
                for new in falsified(table, column, row[column]):
                    what = f"{column} {_short(row[column])} -> {_short(new)}"
                    moved = column in ("owner", *KEYS[table])
                    yield Forgery(what, table, row, (update(table, row, {column: new}),), in_place=not moved)

    def deletions(self, table: str, most: int | None = None) -> Iterator[Forgery]:
        """One row gone."""
        for row in _spread(self.true[table], "owner", most):
            sql, values = _where(table, row)
            yield Forgery("deleted", table, row, ((f"DELETE FROM {table} WHERE {sql}", values),), in_place=True)

    def copies(self, table: str, most: int | None = None) -> Iterator[Forgery]:
        """A row copied under another key: of another owner or stream, with another id, at another time."""
        for row in _spread(self.true[table], "owner", most):
            for column in ("owner", *KEYS[table]):
                new = falsified(table, column, row[column])[0]
                yield Forgery(f"{column} {_short(new)} in a copy", table, row, (insertion(table, row | {column: new}),))
            if table == "log":  # one that the unique keys let through
                end = row | {"seq": row["seq"] + 1000, "key": f"{row['key']}x"}
                yield Forgery("copied to the end", table, row, (insertion(table, end),))

    def swaps(self, table: str, most: int | None = None) -> Iterator[Forgery]:
        """Two neighbouring rows exchange the values of one column, and of all but their keys."""
        rows = self.true[table]
        own = [c for c in COLUMNS[table] if c not in ("owner", *KEYS[table])]
        for n in _spread([{"n": n} for n in range(len(rows) - 1)], "n", most):
            one, other = rows[n["n"]], rows[n["n"] + 1]
            for columns in [*([c] for c in COLUMNS[table]), own]:
                if all(one[c] == other[c] for c in columns):
                    continue
                away = {c: _elsewhere(one[c]) if c not in own or table == "log" else one[c] for c in columns}
                deeds = (
                    update(table, one, away),  # first out of the way of unique keys
                    update(table, other, {c: one[c] for c in columns}),
                    update(table, one | away, {c: other[c] for c in columns}),
                )
                what = columns[0] if len(columns) == 1 else "everything"
                yield Forgery(f"{what} exchanged with {'/'.join(str(other[c]) for c in KEYS[table])}", table, one, deeds)


def falsified(table: str, column: str, value: Any) -> list[Any]:
    """What a forger might write in place of a value."""
    may_be_null = column not in _NOT_NULL[table]
    if value is None:
        if is_real(table, column):
            return [0.5]
        return [Decimal("0.5")] if _is_money(table, column) else [1] if _is_int(table, column) else ["x"]
    new: list[Any]
    if isinstance(value, bool | int):
        new = [value + 1, 0 if value else -1]
    elif isinstance(value, float):
        new = [value + 1e-9, -value if value else 7.0]
    elif isinstance(value, Decimal):
        new = [value + Decimal("0.00000001"), -value if value else Decimal(7)]
    elif _is_money(table, column):
        number = Decimal(value)
        new = [format(number + Decimal("0.00000001"), "f"), format(-number if number else Decimal(7), "f"), f"{value}z"]
    elif column in ("hash", "prev_hash", "payload_hash"):
        new = [("1" if value[0] != "1" else "2") + value[1:]]
    elif value.startswith("{"):
        new = [value.replace('":"', '":"9', 1), value[:-1], "{}", ""]
    else:
        new = [f"{value}x", ""]
    new = [other for other in new if other != value]
    return [*new, None] if may_be_null else new


def insertion(table: str, row: Row) -> Deed:
    """The statement that adds a row."""
    marks = ", ".join("?" for _ in COLUMNS[table])
    sql = f"INSERT INTO {table} ({', '.join(COLUMNS[table])}) VALUES ({marks})"
    return sql, tuple(row[c] for c in COLUMNS[table])


def update(table: str, row: Row, new: Mapping[str, Any]) -> Deed:
    """The statement that changes a row."""
    sql, values = _where(table, row)
    return f"UPDATE {table} SET {', '.join(f'{c} = ?' for c in new)} WHERE {sql}", (*new.values(), *values)


def _where(table: str, row: Row) -> Deed:
    keys = ("owner", *KEYS[table])
    return " AND ".join(f"{c} = ?" for c in keys), tuple(row[c] for c in keys)


def _is_money(table: str, column: str) -> bool:
    if table == "trades":
        return TRADE_COLUMNS.get(column) == "money"
    return column in {"discrepancies": ("ledger_qty", "broker_qty", "price"), "bars": tuple("ohlcv")}.get(table, ())


def _is_int(table: str, column: str) -> bool:
    whole = {"known_to", "settled_at", "void_seq", "void_at", "first_snapshot", "last_tick", "known_at", "verified_from", "until",
             "fired_at", "ended_at"}  # fmt: skip
    kinds = {"trades": TRADE_COLUMNS, "episodes": EPISODE_COLUMNS, "affect": AFFECT_COLUMNS}.get(table, {})
    return column in whole or kinds.get(column) in ("time", "int", "flag")


def is_real(table: str, column: str) -> bool:
    """Whether a column holds a double."""
    return {"episodes": EPISODE_COLUMNS, "affect": AFFECT_COLUMNS}.get(table, {}).get(column) == "real"


def _spread(rows: list[Row], column: str, most: int | None) -> list[Row]:
    """Some rows from all over the table, with a value in the column and without."""
    if most is None or len(rows) <= most:
        return rows
    full, empty = [r for r in rows if r[column] is not None], [r for r in rows if r[column] is None]
    step = max(len(full) // most, 1)
    return full[::step][:most] + empty[:1]


def _elsewhere(value: Any) -> Any:
    return value + 10**12 if isinstance(value, int) else f"{value}~" if isinstance(value, str) else value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 24 else f"{text[:21]}..."
