"""The tables, written once for both databases, and the numbered steps that lead to them.

Types that differ are named in braces: {money} is exact decimal (TEXT in SQLite, NUMERIC in PostgreSQL), {int} holds 64
bits, {text} sorts by its bytes; times are microseconds since 1970 in UTC. Every key starts with owner and stream, so tables
partition and shard by them. `log` is the authority and `bars` the market data it vouches for by digest; every other table is a
projection.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_type_hints

from memtape.core.trades import Trade


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema; it runs in one transaction together with its record."""

    number: int
    name: str
    statements: tuple[str, ...]


def _kind(hint: object) -> str:
    text = str(hint)
    for word, kind in (("Decimal", "money"), ("datetime", "time"), ("bool", "flag"), ("int", "int"), ("tuple", "list")):
        if word in text:
            return kind
    return "text"


TRADE_COLUMNS: dict[str, str] = {name: _kind(hint) for name, hint in get_type_hints(Trade).items()}

_SQL_TYPE = {"money": "{money}", "time": "{int}", "int": "{int}", "flag": "{int}", "list": "{text}", "text": "{text}"}
_TRADES = ",\n  ".join(
    f"{name} {_SQL_TYPE[kind]}" + (" NOT NULL" if name in ("id", "symbol", "leg", "entry_at", "exit_at") else "")
    for name, kind in TRADE_COLUMNS.items()
)

MIGRATIONS: tuple[Migration, ...] = (
    Migration(
        1,
        "log, items, positions, trades, bars",
        (
            """CREATE TABLE log (
  owner {text} NOT NULL, stream {text} NOT NULL, seq {int} NOT NULL, kind {text} NOT NULL, key {text} NOT NULL,
  occurred_at {int} NOT NULL, known_at {int} NOT NULL, recorded_at {int} NOT NULL,
  payload {text}, payload_hash {text} NOT NULL, prev_hash {text} NOT NULL, hash {text} NOT NULL,
  PRIMARY KEY (owner, stream, seq), UNIQUE (owner, stream, kind, key)){options}""",
            """CREATE TABLE streams (
  owner {text} NOT NULL, stream {text} NOT NULL, seq {int} NOT NULL, hash {text} NOT NULL,
  first_snapshot {int}, last_tick {int}, known_at {int},
  PRIMARY KEY (owner, stream)){options}""",
            """CREATE TABLE items (
  owner {text} NOT NULL, stream {text} NOT NULL, kind {text} NOT NULL, key {text} NOT NULL, seq {int} NOT NULL,
  symbol {text} NOT NULL, leg {text} NOT NULL, at {int} NOT NULL, known_at {int} NOT NULL, skill_version {int} NOT NULL,
  ref {text}, batch {text}, body {text}, void_seq {int}, void_at {int},
  PRIMARY KEY (owner, stream, kind, key, seq)){options}""",
            "CREATE UNIQUE INDEX items_once ON items (owner, stream, kind, key) WHERE void_seq IS NULL",
            "CREATE INDEX items_placed ON items (owner, stream, symbol, at)",
            "CREATE INDEX items_kind ON items (owner, stream, kind, at)",
            "CREATE INDEX items_ref ON items (owner, stream, ref) WHERE ref IS NOT NULL",
            "CREATE INDEX items_batch ON items (owner, stream, batch) WHERE batch IS NOT NULL",
            """CREATE TABLE positions (
  owner {text} NOT NULL, stream {text} NOT NULL, symbol {text} NOT NULL, leg {text} NOT NULL,
  last_at {int} NOT NULL, last_rank {int} NOT NULL, last_seq {int} NOT NULL, last_id {text} NOT NULL,
  round {text},
  PRIMARY KEY (owner, stream, symbol, leg)){options}""",
            "CREATE INDEX positions_open ON positions (owner, stream, symbol, leg) WHERE round IS NOT NULL",
            "CREATE INDEX positions_last ON positions (owner, stream, last_at)",
            "CREATE TABLE trades (\n  owner {text} NOT NULL, stream {text} NOT NULL, known_from {int} NOT NULL, known_to {int}, "
            "settled_at {int},\n  " + _TRADES + ",\n  PRIMARY KEY (owner, stream, id, known_from)){options}",
            "CREATE INDEX trades_exit ON trades (owner, stream, symbol, exit_at)",
            "CREATE INDEX trades_entry ON trades (owner, stream, entry_at)",
            """CREATE TABLE discrepancies (
  owner {text} NOT NULL, stream {text} NOT NULL, symbol {text} NOT NULL, leg {text} NOT NULL, at {int} NOT NULL,
  why {text} NOT NULL, ledger_qty {money} NOT NULL, broker_qty {money} NOT NULL, price {money},
  PRIMARY KEY (owner, stream, symbol, leg, at)){options}""",
            """CREATE TABLE bars (
  owner {text} NOT NULL, stream {text} NOT NULL, symbol {text} NOT NULL, frame {int} NOT NULL, t0 {int} NOT NULL,
  t1 {int} NOT NULL, o {money} NOT NULL, h {money} NOT NULL, l {money} NOT NULL, c {money} NOT NULL, v {money},
  seq {int} NOT NULL, known_at {int} NOT NULL,
  PRIMARY KEY (owner, stream, symbol, t0, frame)){options}""",
            "CREATE INDEX bars_end ON bars (owner, stream, symbol, t1)",
            "CREATE INDEX bars_seq ON bars (owner, stream, seq)",
        ),
    ),
)

TABLES = ("log", "streams", "items", "positions", "trades", "discrepancies", "bars")

PROJECTIONS = ("items", "positions", "trades", "discrepancies")
LATEST = MIGRATIONS[-1].number
