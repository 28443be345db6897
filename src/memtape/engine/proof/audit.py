"""Verifies and rebuilds a store. The rows of the log form a chain of hashes, and every projection must follow from the log.

`LogReplay` computes the rows that follow from a log. `verify_store` compares the tables with them and reports the first row that
differs. `rebuild_store` replaces the tables by them, if the chain is unbroken.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

from memtape.core.authors import OWNER_AUTHOR, author_of_payload
from memtape.core.chats import CHAT_TEXT_KINDS
from memtape.core.codec import GENESIS, canonical_plain, chain_hash, digest, moment, time_text
from memtape.core.facts import FACT_TEXT_KINDS
from memtape.core.ids import OwnerId
from memtape.core.items import OWNER_STREAM, delivery_digest
from memtape.core.ledger.rounds import KnownBar
from memtape.core.ledger.terms import RULES_VERSION
from memtape.core.observed import Bar
from memtape.core.skills import Agent
from memtape.core.values import read
from memtape.engine.memory import Memory
from memtape.engine.proof.log_replay import LogReplay, Rows
from memtape.engine.resources import Resources
from memtape.errors import Invalid, Tampered
from memtape.store.cutoff import EVERYTHING
from memtape.store.database import Session
from memtape.store.memories import EVERY_ONE, MemoryTables
from memtape.store.rows import COLUMNS, KEYS, LogRow, bar_values
from memtape.store.schema import MIGRATIONS, PROJECTIONS, TABLES
from memtape.store.tables import Tables, drop_other_streams, owners, streams, streams_in


@dataclass(frozen=True, slots=True)
class AuditProblem:
    """A row or a table that does not agree with the log."""

    owner: OwnerId
    stream: str
    table: str
    key: str
    problem: str


class ExportedHead(TypedDict):
    """The last row of a stream, as `memtape verify` prints it. A later verification can ask whether it is still there."""

    owner: OwnerId
    stream: str
    seq: int
    hash: str
    shredded: int  # how many rows up to this one have no payload any more


@dataclass(slots=True)
class Audit:
    """The report of `verify_store` and `rebuild_store`."""

    problems: list[AuditProblem] = field(default_factory=list)
    log_rows: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    heads: list[ExportedHead] = field(default_factory=list)
    # Streams whose projections were made by older rules. They are not compared: a rebuild makes them by those of today.
    needs_rebuild: list[str] = field(default_factory=list)
    # Rows without payload by owner/stream: in all, and since the heads that the store was compared with.
    shredded: dict[str, int] = field(default_factory=dict)
    shredded_since: dict[str, int] = field(default_factory=dict)
    deletions: list[str] = field(default_factory=list)  # what was deleted or destroyed since those heads

    @property
    def ok(self) -> bool:
        """True if there are no problems."""
        return not self.problems


# ---- verify ------------------------------------------------------------------------------------------------------------


def verify_store(memory: Memory, against: Iterable[Mapping[str, Any]] = ()) -> Audit:
    """Recompute the chain and every projection of all owners that the database shows.

    `against` are heads that were exported earlier (`ExportedHead` as JSON): the log must still contain them.
    """
    with memory.database.reading(memory.owner) as session:
        audit = verify_session(session, against)
    for number, problem in _migration_problems(memory.database.migrations()):
        audit.problems.append(AuditProblem(memory.owner, "", "migrations", str(number), problem))
    return audit


def verify_session(session: Session, against: Iterable[Mapping[str, Any]] = ()) -> Audit:
    """Verify everything that a transaction sees."""
    audit = Audit()
    for owner in owners(session):
        _verify_owner(audit, session, owner)
    for head in against:
        _verify_head(audit, Tables(session, head["owner"], head["stream"]), head)
    return audit


def _migration_problems(found: Mapping[int, str]) -> Iterator[tuple[int, str]]:
    """Compare the record of migrations with the migrations of this program. Yields numbers and problems."""
    true = {step.number: step.name for step in MIGRATIONS}
    for number in sorted(true.keys() | found.keys()):
        if number not in found:
            yield number, "is missing"
        elif number not in true:
            yield number, "is no migration of this version"
        elif found[number] != true[number]:
            yield number, f"name is {found[number]!r}, it should be {true[number]!r}"


def _verify_owner(audit: Audit, session: Session, owner: OwnerId) -> None:
    own = Tables(session, owner, OWNER_STREAM)
    agents, deleted = _stated_agents(own), deleted_streams(own.log_of(("agent_deleted", "erased")))
    known = streams(session, owner)
    for table in TABLES:
        for stream in streams_in(session, table, owner):
            if stream not in known:
                audit.problems.append(AuditProblem(owner, stream, table, "*", "rows of a stream that has no head"))
    for stream in sorted(agents.keys() - set(known)):
        audit.problems.append(AuditProblem(owner, stream, "streams", stream, "the head of this agent's stream is missing"))
    for stream in known:
        is_deleted = stream in deleted and stream != OWNER_STREAM
        if stream != OWNER_STREAM and stream not in agents and not is_deleted:
            audit.problems.append(AuditProblem(owner, stream, "streams", stream, "a stream of no agent"))
        _verify_stream(audit, Tables(session, owner, stream), agents.get(stream), is_deleted)


def _verify_stream(audit: Audit, tables: Tables, agent: Agent | None, deleted: bool) -> None:
    """Check one stream in the order of trust: the chain, the head, the bars, then what is derived from them."""
    replay = LogReplay(tables.owner, tables.stream, agent, deleted)
    destroyed = destroyed_in(tables.log_of(DESTROYING_KINDS), deleted)

    def add_problem(table: str, key: object, problem: str) -> None:
        audit.problems.append(AuditProblem(tables.owner, tables.stream, table, str(key), problem))

    last_hash, seq, shredded = GENESIS, 0, 0
    for row in tables.log():
        audit.log_rows += 1
        shredded += row.payload is None
        if (problem := _broken_link(row, seq, last_hash, destroyed)) is not None:
            add_problem("log", row.seq, problem)
            # Nothing after a broken link can be trusted.
            return
        seq, last_hash = row.seq, row.hash
        replay.take(row)
        if row.kind == "brief" and row.payload is not None and digest(_stated(row)["text"]) != row.key:
            add_problem("log", row.seq, "its brief is not the one that its digest names")
    head = tables.head()
    audit.heads.append({"owner": tables.owner, "stream": tables.stream, "seq": seq, "hash": last_hash, "shredded": shredded})
    if shredded:
        audit.shredded[f"{tables.owner}/{tables.stream}"] = shredded
    if (head.seq, head.hash) != (seq, last_hash):
        add_problem("streams", tables.stream, f"its head says row {head.seq}, the log ends at row {seq}: rows were cut or added")
        return
    times = head.first_snapshot, head.last_tick, head.known_at, head.verified_from
    if times != (replay.first_snapshot, replay.last_tick, replay.known_at, replay.verified_from):
        add_problem("streams", tables.stream, "its times do not follow from the log")
    bars = tables.rows("bars")
    audit.rows["bars"] = audit.rows.get("bars", 0) + len(bars)
    bar_problems = list(_bar_problems(replay.deliveries, bars))
    for key, problem in bar_problems:
        add_problem("bars", key, problem)
    audit.digests[f"{tables.owner}/{tables.stream}/bars"] = digest(canonical_plain(bars))
    if bar_problems:
        # Trades are derived from bars too, so wrong bars would make every trade look altered.
        return
    if head.rules > RULES_VERSION:
        add_problem("streams", tables.stream, f"its rules are of version {head.rules}, memtape knows {RULES_VERSION}")
        return
    if head.rules < RULES_VERSION and seq:
        audit.needs_rebuild.append(f"{tables.owner}/{tables.stream}")
        return
    for table, expected in replay.projections(_bars_by_symbol(tables)).items():
        found = tables.rows(table)
        audit.rows[table] = audit.rows.get(table, 0) + len(found)
        audit.digests[f"{tables.owner}/{tables.stream}/{table}"] = digest(canonical_plain(found))
        if (difference := _first_difference(table, expected, found)) is not None:
            add_problem(table, *difference)


# The rows that say that others were destroyed. One that names them may have destroyed rows of some kinds only. Everything
# before it is destroyed by `erased`, which stands in the owner's stream alone. All of them are the owner's statements.
SHREDDED_KINDS: Mapping[str, frozenset[str]] = {
    "correction": frozenset(("claim", "closing", "correction", "brief", "note")),
    "fact_shredded": frozenset(FACT_TEXT_KINDS),
    "chat_deleted": frozenset(CHAT_TEXT_KINDS),
}
DESTROYING_KINDS = (*SHREDDED_KINDS, "erased")


@dataclass(frozen=True, slots=True)
class DestroyedRows:
    """The rows of a stream whose payload was destroyed: single rows of some kinds, and all rows before `before`."""

    rows: Mapping[int, frozenset[str]] = field(default_factory=dict)
    before: int = 0

    def covers(self, row: LogRow) -> bool:
        """Returns True if a row may be without its payload."""
        return row.kind in self.rows.get(row.seq, ()) or row.seq < self.before


def destroyed_in(rows: Iterable[LogRow], deleted: bool) -> DestroyedRows:
    """The rows that were destroyed according to the log of the stream itself."""
    named: dict[int, frozenset[str]] = {}
    # All rows of a deleted stream were destroyed.
    before = 2**62 if deleted else 0
    for row in rows:
        if not _is_owners(row):
            continue
        if (kinds := SHREDDED_KINDS.get(row.kind)) is not None:
            # A row can only have destroyed rows that are earlier than itself.
            named |= {seq: kinds for seq in _stated(row).get("shredded", ()) if seq < row.seq}
        elif row.kind == "erased" and row.stream == OWNER_STREAM:
            before = max(before, row.seq)
    return DestroyedRows(named, before)


def deleted_streams(rows: Iterable[LogRow]) -> set[str]:
    """The streams that were deleted according to the owner's log."""
    found: set[str] = set()
    for row in rows:
        if row.kind in ("agent_deleted", "erased") and _is_owners(row):
            stated = _stated(row)
            found |= {stated.get("agent", "")} if row.kind == "agent_deleted" else set(stated.get("streams", ()))
    return found


def _is_owners(row: LogRow) -> bool:
    """True if the owner or the venue stated a row. What a model states destroys nothing."""
    payload = json.loads(row.payload or "null")
    return isinstance(payload, dict) and author_of_payload(payload).tier <= OWNER_AUTHOR.tier


def _stated(row: LogRow) -> dict[str, Any]:
    """The statement of a row; empty if it has none. A forged row may have any payload: the check of the chain finds it."""
    payload = json.loads(row.payload or "{}")
    stated = payload.get("stated", {}) if isinstance(payload, dict) else {}
    return stated if isinstance(stated, dict) else {}


def checked_chain(rows: Iterable[LogRow], url: str, destroyed: DestroyedRows) -> Iterator[LogRow]:
    """Yield the rows, each checked against the one before. Raises Tampered at the first that does not follow."""
    seq, last_hash = 0, GENESIS
    for row in rows:
        if (problem := _broken_link(row, seq, last_hash, destroyed)) is not None:
            raise Tampered(url=url, problem=f"log row {row.seq} of {row.stream}: {problem}")
        seq, last_hash = row.seq, row.hash
        yield row


def _stated_agents(tables: Tables) -> dict[str, Agent]:
    """The agents according to the owner's log, because their projection may be what was altered."""
    replay = LogReplay(tables.owner, OWNER_STREAM, None)
    try:
        for row in checked_chain(tables.log(), "", destroyed_in(tables.log_of(DESTROYING_KINDS), False)):
            replay.take(row)
    except Tampered:
        # The rows before the break still count. The caller checks the same chain and reports the break.
        pass
    deleted = {item.key for item in replay.stored if item.kind == "agent_deleted"}
    return {item.key: read(Agent, item.body) for item in replay.stored if item.kind == "agent" and item.key not in deleted}


def _broken_link(row: LogRow, seq: int, last_hash: str, destroyed: DestroyedRows) -> str | None:
    """Returns why a row does not follow the row `seq` with `last_hash`; None if it does."""
    if row.seq != seq + 1:
        return f"row {seq + 1} is missing" if row.seq > seq else "stands twice"
    if row.prev_hash != last_hash:
        return "does not follow the row before it"
    if row.payload is None and not destroyed.covers(row):
        return "its payload is missing"
    if row.payload is not None and digest(row.payload) != row.payload_hash:
        return "its payload was altered"
    times = row.occurred_at, row.known_at, row.recorded_at
    if chain_hash(row.stream, row.seq, row.kind, row.key, *times, row.payload_hash, row.prev_hash) != row.hash:
        return "was altered: its hash does not match"
    return None


def _bar_problems(deliveries: dict[int, dict[str, Any]], bars: Rows) -> Iterator[tuple[str, str]]:
    """Compare the bars of each delivery with the count and the digest in its log row. Yields keys and problems."""
    by_seq: dict[int, Rows] = {}
    for bar in bars:
        by_seq.setdefault(bar["seq"], []).append(bar)
    for seq in sorted(by_seq.keys() | deliveries.keys()):
        delivery, stored = deliveries.get(seq, {"count": 0, "digest": delivery_digest(())}), by_seq.get(seq, [])
        if len(stored) != delivery["count"]:
            yield f"log row {seq}", f"brought {delivery['count']} bars, {len(stored)} are here"
        elif _bars_differ(stored, delivery["digest"]):
            yield f"log row {seq}", "its bars were altered"


def _bars_differ(bars: Rows, expected_digest: str) -> bool:
    """Returns True if these rows do not have the digest of their delivery."""
    try:
        known = [_bar_of_row(row) for row in bars]
        # The digest is of values: each row must also be spelt as memtape writes it, `frame` included.
        spelt = [
            dict(zip(COLUMNS["bars"], bar_values(row["owner"], row["stream"], each.bar, row["seq"], each.known_at), strict=True))
            for row, each in zip(bars, known, strict=True)
        ]
        return spelt != bars or delivery_digest(known) != expected_digest
    except (Invalid, ArithmeticError):
        # An altered value may make the row no valid bar at all.
        return True


def _bar_of_row(row: dict[str, Any]) -> KnownBar:
    bar = read(Bar, {"symbol": row["symbol"], "t0": moment(row["t0"]), "t1": moment(row["t1"]),
                     **{letter: row[letter] for letter in "ohlcv"}})  # fmt: skip
    return KnownBar(bar, moment(row["known_at"]))


def _bars_by_symbol(tables: Tables) -> dict[str, list[KnownBar]]:
    symbols = {row["symbol"] for row in tables.rows("bars")}
    return {symbol: tables.bars(symbol, EVERYTHING) for symbol in symbols}


def _first_difference(table: str, expected: Rows, found: Rows) -> tuple[str, str] | None:
    """Returns the key and the problem of the first row that differs, in the order of keys; None if all agree."""

    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row[c] for c in KEYS[table])

    expected_rows, stored_rows = {key(row): row for row in expected}, {key(row): row for row in found}
    for row_key in sorted(expected_rows.keys() | stored_rows.keys()):
        name = "/".join(str(part) for part in row_key)
        if row_key not in stored_rows:
            return name, "is missing"
        if row_key not in expected_rows:
            return name, "follows from nothing in the log"
        stored = stored_rows[row_key]
        for column, value in expected_rows[row_key].items():
            if stored[column] != value:
                return name, f"{column} is {stored[column]!r}, the log says {value!r}"
    return None


def _verify_head(audit: Audit, tables: Tables, head: Mapping[str, Any]) -> None:
    """Report a head that was exported earlier and is no longer in the log, and name what was destroyed since."""
    name = f"{head['owner']}/{head['stream']}"
    # Heads that were exported before shredded rows were counted have no count.
    if (since := audit.shredded.get(name, 0) - head.get("shredded", 0)) > 0:
        audit.shredded_since[name] = since
    for later in tables.log_of((*DESTROYING_KINDS, "agent_deleted")):
        shreds = later.kind not in SHREDDED_KINDS or bool(_stated(later).get("shredded"))
        if later.seq > head["seq"] and shreds:
            at = time_text(moment(later.recorded_at))
            audit.deletions.append(f"{name} row {later.seq}: {later.kind} {later.key} at {at}")
    row = next(iter(tables.log(after=head["seq"] - 1, upto=head["seq"])), None) if head["seq"] else None
    if head["seq"] and (row is None or row.hash != head["hash"]):
        reason = "the log was cut before it" if row is None else "another row stands in its place"
        audit.problems.append(
            AuditProblem(head["owner"], head["stream"], "log", str(head["seq"]), f"the exported head is gone: {reason}")
        )


# ---- rebuild -----------------------------------------------------------------------------------------------------------


def rebuild_store(memory: Memory) -> Audit:
    """Replace every projection by the rows that follow from the log.

    Raises Tampered if the chain of a stream is broken. Then nothing was changed.
    """
    memory.database.restore_migration_records()
    return rebuild_projections(memory.resources)


def rebuild_projections(resources: Resources) -> Audit:
    """Replace every projection, in as many transactions as the resources open. Raises Tampered if a chain is broken."""
    audit, owner = Audit(), resources.owner
    with resources.reading(OWNER_STREAM) as tables:
        agents = _stated_agents(tables)
        names = streams(tables.session, owner)
        deleted = deleted_streams(tables.log_of(("agent_deleted", "erased"))) - {OWNER_STREAM}
    destroyed: dict[str, DestroyedRows] = {}
    # Every chain is checked before the first table is changed.
    for stream in names:
        with resources.reading(stream) as tables:
            destroyed[stream] = destroyed_in(tables.log_of(DESTROYING_KINDS), stream in deleted)
            for _ in checked_chain(tables.log(), resources.database.url, destroyed[stream]):
                pass
    with resources.repairing(OWNER_STREAM) as tables:
        for table in PROJECTIONS:
            drop_other_streams(tables.session, table, owner, names)
    for stream in names:
        with resources.repairing(stream) as tables:
            replay = LogReplay(owner, stream, agents.get(stream), stream in deleted)
            for row in checked_chain(tables.log(), resources.database.url, destroyed[stream]):
                audit.log_rows += 1
                replay.take(row)
            for table, rows in replay.projections(_bars_by_symbol(tables)).items():
                tables.clear(table)
                tables.insert(table, rows)
                audit.rows[table] = audit.rows.get(table, 0) + len(rows)
                audit.digests[f"{owner}/{stream}/{table}"] = digest(canonical_plain(tables.rows(table)))
            head = tables.head()
            tables.set_head(
                replace(
                    head,
                    first_snapshot=replay.first_snapshot,
                    last_tick=replay.last_tick,
                    known_at=replay.known_at,
                    verified_from=replay.verified_from,
                    rules=RULES_VERSION,
                )
            )
            MemoryTables(tables).note_changes([EVERY_ONE])
    return audit
