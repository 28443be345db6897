"""Verifies and rebuilds a store. The rows of the log form a chain of hashes, and every projection must follow from the log.

`LogReplay` computes the rows that follow from a log. `verify_store` compares the tables with them and reports the first row that
differs. `rebuild_store` replaces the tables by them, if the chain is unbroken.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import lru_cache
from typing import Any, TypedDict

from memtape.core.codec import GENESIS, digest, moment, time_text
from memtape.core.ids import OwnerId
from memtape.core.items import OWNER_STREAM
from memtape.core.ledger.terms import RULES_VERSION
from memtape.core.skills import Agent
from memtape.core.value_class import dataclass
from memtape.core.values import read
from memtape.engine.memory import Memory
from memtape.engine.proof.chain import (
    DESTROYING_KINDS,
    SHREDDED_KINDS,
    DestroyedRows,
    broken_link,
    checked_chain,
    deleted_streams,
    destroyed_in,
    stated_of,
)
from memtape.engine.proof.comparison import HashedRows, bar_problems, first_difference
from memtape.engine.proof.log_replay import BarsOf, LogReplay
from memtape.engine.resources import Resources
from memtape.errors import Tampered
from memtape.store.cutoff import EVERYTHING
from memtape.store.database import Session, in_batches
from memtape.store.memories import EVERY_ONE, MemoryTables
from memtape.store.rows import COLUMNS
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

    def count(self, table: str, tables: Tables, rows: HashedRows) -> None:
        """Enter the rows of a table of one stream: how many there are, and their digest."""
        self.rows[table] = self.rows.get(table, 0) + rows.count
        self.digests[f"{tables.owner}/{tables.stream}/{table}"] = rows.digest()


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
        if (problem := broken_link(row, seq, last_hash, destroyed)) is not None:
            add_problem("log", row.seq, problem)
            # Nothing after a broken link can be trusted.
            return
        seq, last_hash = row.seq, row.hash
        replay.take(row)
        if row.kind == "brief" and row.payload is not None and digest(stated_of(row)["text"]) != row.key:
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
    bars = HashedRows(tables.each_row("bars"))
    of_bars = list(bar_problems(tables, replay.deliveries, bars))
    for key, problem in of_bars:
        add_problem("bars", key, problem)
    audit.count("bars", tables, bars)
    if of_bars:
        # Trades are derived from bars too, so wrong bars would make every trade look altered.
        return
    if head.rules > RULES_VERSION:
        add_problem("streams", tables.stream, f"its rules are of version {head.rules}, memtape knows {RULES_VERSION}")
        return
    if head.rules < RULES_VERSION and seq:
        audit.needs_rebuild.append(f"{tables.owner}/{tables.stream}")
        return
    for table, expected in replay.projections(_bars_of(tables)).items():
        found = HashedRows(tables.each_row(table))
        left = iter(found)
        if (difference := first_difference(table, expected.in_order(), left)) is not None:
            add_problem(table, *difference)
            # The digest is that of all rows.
            deque(left, maxlen=0)
        audit.count(table, tables, found)


def _bars_of(tables: Tables) -> BarsOf:
    """All bars of a symbol. Trades are derived symbol by symbol, so that those of two are enough in memory."""
    return lru_cache(maxsize=2)(lambda symbol: tables.bars(symbol, EVERYTHING))


def _stated_agents(tables: Tables) -> dict[str, Agent]:
    """The agents according to the owner's log, because their projection may be what was altered."""
    replay = LogReplay(tables.owner, OWNER_STREAM, None)
    try:
        for row in checked_chain(tables.log(), "", destroyed_in(tables.log_of(DESTROYING_KINDS), False)):
            replay.take(row)
    except Tampered:
        # The rows before the break still count. The caller checks the same chain and reports the break.
        pass
    deleted = {item.key for item in replay.items_of(("agent_deleted",))}
    return {item.key: read(Agent, item.body) for item in replay.items_of(("agent",)) if item.key not in deleted}


def _verify_head(audit: Audit, tables: Tables, head: Mapping[str, Any]) -> None:
    """Report a head that was exported earlier and is no longer in the log, and name what was destroyed since."""
    name = f"{head['owner']}/{head['stream']}"
    # Heads that were exported before shredded rows were counted have no count.
    if (since := audit.shredded.get(name, 0) - head.get("shredded", 0)) > 0:
        audit.shredded_since[name] = since
    for later in tables.log_of((*DESTROYING_KINDS, "agent_deleted")):
        shreds = later.kind not in SHREDDED_KINDS or bool(stated_of(later).get("shredded"))
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
            for table, expected in replay.projections(_bars_of(tables)).items():
                tables.clear(table)
                for some in in_batches(expected.in_order()):
                    tables.session.insert(table, COLUMNS[table], some)
                written = HashedRows(tables.each_row(table))
                deque(written, maxlen=0)
                audit.count(table, tables, written)
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
