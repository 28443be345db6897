"""The tables, written once for both databases, and the numbered steps that lead to them.

Types that differ are named in braces: {money} is exact decimal (TEXT in SQLite, NUMERIC in PostgreSQL), {int} holds 64
bits, {text} sorts by its bytes; times are microseconds since 1970 in UTC. Every key starts with owner and stream, so tables
partition and shard by them. `log` is the authority, and `bars` the market data whose digests it holds; every other table is a
projection. {real} is a double.
"""

from __future__ import annotations

from typing import get_type_hints

from memtape.core.decisions.followed import FollowedOutcome
from memtape.core.ledger.trades import Trade
from memtape.core.memory.affect import AffectStep
from memtape.core.memory.episodes import Episode
from memtape.core.value_class import dataclass


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema; it runs in one transaction together with its record."""

    number: int
    name: str
    statements: tuple[str, ...]


def _kind(hint: object) -> str:
    text = str(hint)
    for word, kind in (("Decimal", "money"), ("datetime", "time"), ("bool", "flag"), ("float", "real"), ("tuple", "list"),
                       ("int", "int")):  # fmt: skip
        if word in text:
            return kind
    return "text"


def _kinds(value: type) -> dict[str, str]:
    """The fields of a value, and what kind of column each is."""
    return {name: _kind(hint) for name, hint in get_type_hints(value).items()}


TRADE_COLUMNS = _kinds(Trade)
EPISODE_COLUMNS = _kinds(Episode)
AFFECT_COLUMNS = _kinds(AffectStep)
OUTCOME_COLUMNS = _kinds(FollowedOutcome)

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
            """CREATE TABLE trades (
  owner {text} NOT NULL, stream {text} NOT NULL, known_from {int} NOT NULL, known_to {int}, settled_at {int},
  id {text} NOT NULL,
  agent {text},
  skill_id {text},
  skill_version {int},
  strategy {text},
  symbol {text} NOT NULL,
  leg {text} NOT NULL,
  side {text},
  currency {text},
  status {text},
  entry_tick_at {int},
  entry_at {int} NOT NULL,
  entry_item {text},
  entry_seq {int},
  entry_price {money},
  entry_size_usd {money},
  entry_leverage {money},
  entry_reason {text},
  entry_decision {text},
  exit_tick_at {int},
  exit_at {int} NOT NULL,
  exit_price {money},
  exit_reason {text},
  exit_decision {text},
  close_cause {text},
  exit_trigger {text},
  qty_entered {money},
  qty_exited {money},
  qty_open {money},
  avg_cost {money},
  stop_price {money},
  target_price {money},
  initial_risk_usd {money},
  r_source {text},
  holding_minutes {money},
  realized_pnl_usd {money},
  fees_usd {money},
  funding_usd {money},
  net_pnl_usd {money},
  pnl_pct {money},
  pnl_r {money},
  mfe_usd {money},
  mae_usd {money},
  mfe_r {money},
  mae_r {money},
  excursion_method {text},
  entry_regime {text},
  entry_volatility {text},
  entry_session {text},
  exit_regime {text},
  quality {text},
  adopted {int},
  liquidation_fills {int},
  tags {text},
  teach {text},
  PRIMARY KEY (owner, stream, id, known_from)){options}""",
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
    Migration(
        2,
        "episodes, affect, shadows, plans",
        (
            "ALTER TABLE trades ADD COLUMN confidence {money}",
            "ALTER TABLE trades ADD COLUMN entry_situation {text}",
            "ALTER TABLE trades ADD COLUMN first_partial_price {money}",
            "ALTER TABLE trades ADD COLUMN reflection {text}",
            "ALTER TABLE trades ADD COLUMN source {text}",
            "CREATE INDEX trades_replaced ON trades (owner, stream, known_to) WHERE known_to IS NOT NULL",
            "ALTER TABLE streams ADD COLUMN verified_from {int}",
            "CREATE INDEX bars_frame ON bars (owner, stream, symbol, frame, t1)",
            """CREATE TABLE episodes (
  owner {text} NOT NULL, stream {text} NOT NULL, id {text} NOT NULL,
  known_from {int} NOT NULL,
  known_to {int},
  kind {text} NOT NULL,
  symbol {text} NOT NULL,
  strategy {text},
  side {text},
  tier {int},
  claimed {int},
  source {text},
  entry_at {int} NOT NULL,
  exit_at {int} NOT NULL,
  pnl_r {real},
  r_source {text},
  pnl_usd {real},
  hold_minutes {real},
  risk_share {real},
  mfe_r {real},
  mae_r {real},
  target_r {real},
  stop_atr {real},
  partial_r {real},
  late_atr {real},
  move_atr {real},
  trigger {text},
  confidence {real},
  teach {text},
  regime {text},
  volatility_regime {text},
  session {text},
  price {real},
  atr_d1 {real},
  atr_h1 {real},
  atr_m5 {real},
  spread_points {real},
  spread_as_atr_pct {real},
  drawdown_pct {real},
  consecutive_losses {int},
  reflection {text},
  tags {text},
  PRIMARY KEY (owner, stream, id, known_from)){options}""",
            "CREATE INDEX episodes_entry ON episodes (owner, stream, entry_at)",
            "CREATE INDEX episodes_exit ON episodes (owner, stream, exit_at)",
            """CREATE TABLE changes (
  owner {text} NOT NULL, stream {text} NOT NULL, revision {int} NOT NULL, id {text} NOT NULL,
  PRIMARY KEY (owner, stream, revision, id)){options}""",
            """CREATE TABLE affect (
  owner {text} NOT NULL, stream {text} NOT NULL, at {int} NOT NULL,
  rank {int} NOT NULL,
  id {text} NOT NULL,
  known_at {int} NOT NULL,
  known_by {int} NOT NULL,
  confidence {real},
  wins {int},
  losses {int},
  nav {real},
  peak {real},
  flows {real},
  marked_at {int},
  pnl_r {real},
  PRIMARY KEY (owner, stream, at, rank, id)){options}""",
            """CREATE TABLE shadows (
  owner {text} NOT NULL, stream {text} NOT NULL, id {text} NOT NULL, symbol {text} NOT NULL, at {int} NOT NULL, until {int},
  PRIMARY KEY (owner, stream, id)){options}""",
            "CREATE INDEX shadows_symbol ON shadows (owner, stream, symbol, until)",
            """CREATE TABLE plans (
  owner {text} NOT NULL, stream {text} NOT NULL, id {text} NOT NULL, status {text} NOT NULL, at {int} NOT NULL,
  fired {int} NOT NULL, fired_at {int}, ended_at {int}, body {text} NOT NULL,
  PRIMARY KEY (owner, stream, id)){options}""",
            "CREATE INDEX plans_status ON plans (owner, stream, status)",
        ),
    ),
    Migration(
        3,
        "leases",
        (
            """CREATE TABLE leases (
  owner {text} NOT NULL, stream {text} NOT NULL, name {text} NOT NULL, holder {text} NOT NULL, until {int} NOT NULL,
  PRIMARY KEY (owner, stream, name)){options}""",
        ),
    ),
    Migration(
        4,
        "sort keys of trades",
        # Money is exact text or NUMERIC: its double is an order to sort by, never an amount.
        tuple(
            f"CREATE INDEX trades_by_{name} ON trades (owner, stream, {key}, entry_at, id) WHERE known_to IS NULL"
            for name, key in (
                ("exit", "exit_at"),
                ("symbol", "symbol"),
                ("side", "side"),
                ("held", "(CAST(holding_minutes AS DOUBLE PRECISION))"),
                ("size", "(CAST(entry_size_usd AS DOUBLE PRECISION))"),
                ("net", "(CAST(net_pnl_usd AS DOUBLE PRECISION))"),
                ("r", "(CAST(pnl_r AS DOUBLE PRECISION))"),
            )
        ),
    ),
    Migration(
        5,
        "instrument terms of trades, kinds of discrepancies, rules of streams",
        (
            "ALTER TABLE trades ADD COLUMN exit_item {text}",
            "ALTER TABLE trades ADD COLUMN exit_seq {int}",
            "ALTER TABLE trades ADD COLUMN fee_unknown {int}",
            "ALTER TABLE trades ADD COLUMN group_id {text}",
            "ALTER TABLE trades ADD COLUMN accounting {text}",
            "ALTER TABLE trades ADD COLUMN payoff {text}",
            "ALTER TABLE trades ADD COLUMN multiplier {money}",
            "ALTER TABLE trades ADD COLUMN rate {money}",
            "ALTER TABLE trades ADD COLUMN cost_usd {money}",
            # By which version of the rules the projections of a stream were made; none: version 1.
            "ALTER TABLE streams ADD COLUMN rules {int}",
            # A projection: the rebuild that follows a change of rules fills it.
            "DROP TABLE discrepancies",
            """CREATE TABLE discrepancies (
  owner {text} NOT NULL, stream {text} NOT NULL, symbol {text} NOT NULL, leg {text} NOT NULL, at {int} NOT NULL,
  why {text} NOT NULL, fill_id {text} NOT NULL, entry_at {int} NOT NULL, ledger_qty {money}, broker_qty {money},
  price {money}, detail {text},
  PRIMARY KEY (owner, stream, symbol, leg, at, why, fill_id)){options}""",
        ),
    ),
    Migration(
        6,
        "outcomes of decisions",
        (
            # Both are projections: the rebuild that follows a change of rules fills the new one.
            "DROP TABLE shadows",
            """CREATE TABLE outcomes (
  owner {text} NOT NULL, stream {text} NOT NULL, id {text} NOT NULL,
  known_from {int} NOT NULL,
  known_to {int},
  symbol {text} NOT NULL,
  at {int} NOT NULL,
  frame {text} NOT NULL,
  expiry_bars {int} NOT NULL,
  side {text} NOT NULL,
  limit_price {money},
  stop {money} NOT NULL,
  target {money},
  status {text} NOT NULL,
  entry_price {money},
  entry_at {int},
  exit_price {money},
  exit_at {int},
  cause {text},
  r {real},
  shadow {int} NOT NULL,
  risk_too_small {int} NOT NULL,
  until {int},
  PRIMARY KEY (owner, stream, id, known_from)){options}""",
            # Which outcomes new bars of a symbol may change.
            "CREATE INDEX outcomes_until ON outcomes (owner, stream, symbol, frame, until)",
            "CREATE INDEX outcomes_at ON outcomes (owner, stream, at)",
            # Which trades a decision led to.
            "CREATE INDEX trades_decision ON trades (owner, stream, entry_decision) WHERE entry_decision IS NOT NULL",
        ),
    ),
    Migration(
        7,
        "labels and tags of trades",
        (
            "CREATE INDEX trades_by_strategy ON trades (owner, stream, strategy, entry_at, id) WHERE known_to IS NULL",
            *(
                f"CREATE INDEX episodes_by_{name} ON episodes (owner, stream, {column}, entry_at, id) "
                "WHERE kind = 'trade' AND known_to IS NULL"
                for name, column in (
                    ("regime", "regime"),
                    ("volatility", "volatility_regime"),
                    ("session", "session"),
                    ("tags", "tags"),
                )
            ),
        ),
    ),
    Migration(
        8,
        "peaks scaled by deposits and withdrawals",
        # The rebuild that follows a change of rules fills it.
        ("ALTER TABLE affect ADD COLUMN scaled_peak {real}",),
    ),
)

TABLES = ("log", "streams", "items", "positions", "trades", "discrepancies", "bars", "episodes", "affect", "outcomes", "plans")

PROJECTIONS = ("items", "positions", "trades", "discrepancies", "episodes", "affect", "outcomes", "plans")
# Which episodes changed when, for readers with columns in memory; and the leases. They are no part of the record.
CACHES = ("changes", "leases")
LATEST = MIGRATIONS[-1].number
