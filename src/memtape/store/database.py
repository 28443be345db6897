"""What the engine needs from a database, and what all databases share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any, Protocol

from memtape.core.ids import OwnerId
from memtape.errors import Invalid

Row = tuple[Any, ...]
Params = Mapping[str, Any]


class Session(Protocol):
    """A transaction in progress. Statements use :name parameters; `IN :names` takes a list."""

    def run(self, sql: str, params: Params) -> None:
        """Execute a statement."""
        ...

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Row], on_conflict: str = "") -> None:
        """Add rows, their values in the order of the columns."""
        ...

    def all(self, sql: str, params: Params) -> list[Row]:
        """Execute a query and fetch everything."""
        ...

    def lock(self, owner: OwnerId, stream: str) -> None:
        """Make sure that nobody else writes to the stream until we commit."""
        ...


class Database(Protocol):
    """A database that is open."""

    url: str  # for messages: without a password
    address: str  # what opens it again
    dialect: str

    def writing(self, owner: OwnerId) -> AbstractContextManager[Session]:
        """A transaction that commits as a whole or changes nothing."""
        ...

    def reading(self, owner: OwnerId) -> AbstractContextManager[Session]:
        """A transaction that sees one unchanging state and writes nothing."""
        ...

    def schema(self) -> int:
        """The number of the last migration that was applied."""
        ...

    def migrations(self) -> dict[int, str]:
        """The record of applied migrations: number and name."""
        ...

    def restore_migration_records(self) -> None:
        """Restore the record of migrations where it was altered, if the schema is that of this version."""
        ...

    def migrate(self, *, upto: int | None = None) -> list[str]:
        """Apply the migrations that are missing. Returns their names."""
        ...

    def owners_with_rules_before(self, version: int) -> list[OwnerId]:
        """The owners with projections that were made by older rules, as far as this login may see them."""
        ...

    def copy_before(self, what: str) -> None:
        """Copy a file beside itself before something changes in it, unless opening it made a copy already."""
        ...

    def facts(self) -> dict[str, object]:
        """What `memtape doctor` reports about it."""
        ...

    def backup(self, path: str) -> None:
        """Write a consistent copy of everything to a new file."""
        ...

    def scrub(self, *, whole: bool) -> None:
        """Remove copies of destroyed payloads from its files as far as possible; `whole`: those of a whole stream."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


@lru_cache(maxsize=64)
def insertion(table: str, columns: tuple[str, ...], mark: str, on_conflict: str) -> str:
    """The statement that adds a row.

    >>> insertion("t", ("a", "b"), "?", "")
    'INSERT INTO t (a, b) VALUES (?, ?)'
    """
    marks = ", ".join([mark] * len(columns))
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks}) {on_conflict}".strip()


def expand(sql: str, params: Params) -> tuple[str, Params]:
    """Spell out `IN :names` for a list of values; an empty list matches nothing.

    >>> expand("SELECT 1 WHERE x IN :xs", {"xs": ["a", "b"]})
    ('SELECT 1 WHERE x IN (:xs_0, :xs_1)', {'xs_0': 'a', 'xs_1': 'b'})
    """
    if " IN :" not in sql:
        return sql, params
    lists = {name: value for name, value in params.items() if isinstance(value, list)}
    flat = {name: value for name, value in params.items() if name not in lists}
    for name, values in lists.items():
        slots = ", ".join(f":{name}_{n}" for n in range(len(values))) or "NULL"
        sql = sql.replace(f"IN :{name}", f"IN ({slots})")
        flat |= {f"{name}_{n}": value for n, value in enumerate(values)}
    return sql, flat


def is_storable_text(value: object) -> bool:
    """True for text that a database can hold: without a zero, and without half a character.

    >>> is_storable_text("gold"), is_storable_text("a\\ud800"), is_storable_text(b"gold")
    (True, False, False)
    """
    return isinstance(value, str) and "\x00" not in value and not any("\ud800" <= each <= "\udfff" for each in value)


def unstorable(params: Params) -> Invalid | None:
    """Returns which value of a statement no database can hold; None if all can be held.

    >>> unstorable({"symbol": object()})
    Invalid('symbol: is not text, a number or a time that a store can look up, it is object. Correct it')
    """
    for name, value in params.items():
        held = is_storable_text(value) or value is None or isinstance(value, float | bytes)
        if not held and not (isinstance(value, int) and -(2**63) <= value < 2**63):
            problem = f"is not text, a number or a time that a store can look up, it is {type(value).__name__}"
            return Invalid(name, problem, "Correct it")
    return None


def in_batches(rows: Iterable[Any], size: int = 500) -> Iterable[list[Any]]:
    """Rows in lists of at most `size`: databases limit the number of parameters."""
    batch: list[Any] = []
    for row in rows:
        batch.append(row)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
