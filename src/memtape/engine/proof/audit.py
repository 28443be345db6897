"""Proof and repair: the log is hashed link by link, and every projection must follow from it.

`Replay` gives the rows that follow from a log. `verify_store` compares and names the first row that differs; `rebuild_store`
puts those rows in place of what is there, if the chain is whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from memtape.core.codec import GENESIS, canonical_plain, chain_hash, digest, moment
from memtape.core.ids import OwnerId
from memtape.core.items import OWNER_STREAM, delivery_digest
from memtape.core.ledger.rounds import KnownBar
from memtape.core.observed import Bar
from memtape.core.skills import Agent
from memtape.core.values import read
from memtape.engine.memory import Memory
from memtape.engine.proof.log_replay import LogReplay, Rows
from memtape.errors import Invalid, Tampered
from memtape.store.cutoff import EVERYTHING
from memtape.store.memories import EVERY_ONE, MemoryTables
from memtape.store.rows import (
    KEYS,
    LogRow,
)
from memtape.store.schema import PROJECTIONS, TABLES
from memtape.store.tables import Tables, drop_other_streams, owners, streams, streams_in


@dataclass(frozen=True, slots=True)
class AuditProblem:
    """Something that does not agree with the log."""

    owner: OwnerId
    stream: str
    table: str
    key: str
    problem: str


@dataclass(slots=True)
class Audit:
    """What `verify_store` and `rebuild_store` report."""

    problems: list[AuditProblem] = field(default_factory=list)
    log_rows: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    heads: list[dict[str, Any]] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


# ---- verify ------------------------------------------------------------------------------------------------------------


def verify_store(memory: Memory, against: Iterable[dict[str, Any]] = ()) -> Audit:
    """Recompute the chain and every projection; `against` are heads exported earlier, which must still be there."""
    audit = Audit()
    with memory.database.reading(memory.owner) as session:
        for owner in owners(session):
            _verify_owner(audit, session, owner)
        for head in against:
            _verify_head(audit, Tables(session, head["owner"], head["stream"]), head)
    return audit


def _verify_owner(audit: Audit, session: Any, owner: OwnerId) -> None:
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
        gone = stream in deleted and stream != OWNER_STREAM
        if stream != OWNER_STREAM and stream not in agents and not gone:
            audit.problems.append(AuditProblem(owner, stream, "streams", stream, "a stream of no agent"))
        _verify_stream(audit, Tables(session, owner, stream), agents.get(stream), gone)


def _verify_stream(audit: Audit, tables: Tables, agent: Agent | None, deleted: bool) -> None:
    replay = LogReplay(tables.owner, tables.stream, agent, deleted)
    destroyed = destroyed_in(tables.log_of(("correction", "erased")), deleted)

    def wrong(table: str, key: object, problem: str) -> None:
        audit.problems.append(AuditProblem(tables.owner, tables.stream, table, str(key), problem))

    last_hash, seq = GENESIS, 0
    for row in tables.log():
        audit.log_rows += 1
        if (problem := _broken_link(row, seq, last_hash, destroyed)) is not None:
            wrong("log", row.seq, problem)
            return  # nothing after a broken link can be trusted
        seq, last_hash = row.seq, row.hash
        replay.take(row)
        if row.kind == "brief" and row.payload is not None and digest(_stated(row)["text"]) != row.key:
            wrong("log", row.seq, "its brief is not the one that its digest names")
    head = tables.head()
    audit.heads.append({"owner": tables.owner, "stream": tables.stream, "seq": seq, "hash": last_hash})
    if (head.seq, head.hash) != (seq, last_hash):
        wrong("streams", tables.stream, f"its head says row {head.seq}, the log ends at row {seq}: rows were cut or added")
        return
    times = head.first_snapshot, head.last_tick, head.known_at, head.verified_from
    if times != (replay.first_snapshot, replay.last_tick, replay.known_at, replay.verified_from):
        wrong("streams", tables.stream, "its times do not follow from the log")
    bars = tables.rows("bars")
    audit.rows["bars"] = audit.rows.get("bars", 0) + len(bars)
    altered = list(_bars_against(replay.deliveries, bars, tables))
    for key, problem in altered:
        wrong("bars", key, problem)
    audit.digests[f"{tables.owner}/{tables.stream}/bars"] = digest(canonical_plain(bars))
    if altered:
        return  # trades cannot be judged by bars that are not those of the log
    for table, expected in replay.projections(_watched(tables)).items():
        found = tables.rows(table)
        audit.rows[table] = audit.rows.get(table, 0) + len(found)
        audit.digests[f"{tables.owner}/{tables.stream}/{table}"] = digest(canonical_plain(found))
        if (difference := _first_difference(table, expected, found)) is not None:
            wrong(table, *difference)


@dataclass(frozen=True, slots=True)
class DestroyedRows:
    """The rows of a stream whose payload was destroyed: some by name, and all before one."""

    rows: frozenset[int] = frozenset()
    before: int = 0

    def covers(self, seq: int) -> bool:
        """Whether a row may be without its payload."""
        return seq in self.rows or seq < self.before


def destroyed_in(rows: Iterable[LogRow], deleted: bool) -> DestroyedRows:
    """What the log of a stream says was destroyed in it."""
    named: set[int] = set()
    before = 2**62 if deleted else 0
    for row in rows:
        if row.kind == "correction" and row.payload is not None:
            named |= {seq for seq in _stated(row).get("shredded", ()) if seq < row.seq}
        elif row.kind == "erased":
            before = max(before, row.seq)
    return DestroyedRows(frozenset(named), before)


def deleted_streams(rows: Iterable[LogRow]) -> set[str]:
    """The streams that the owner's log says were deleted."""
    found: set[str] = set()
    for row in rows:
        if row.payload is not None and row.kind in ("agent_deleted", "erased"):
            stated = _stated(row)
            found |= {stated.get("agent", "")} if row.kind == "agent_deleted" else set(stated.get("streams", ()))
    return found


def _stated(row: LogRow) -> dict[str, Any]:
    """What a row states; nothing if it states nothing: it may be forged, which the chain will tell."""
    payload = json.loads(row.payload or "{}")
    stated = payload.get("stated", {}) if isinstance(payload, dict) else {}
    return stated if isinstance(stated, dict) else {}


def whole_chain(rows: Iterable[LogRow], url: str, destroyed: DestroyedRows) -> Iterator[LogRow]:
    """Pass rows on, each checked against the one before; `Tampered` at the first that does not follow."""
    seq, last_hash = 0, GENESIS
    for row in rows:
        if (problem := _broken_link(row, seq, last_hash, destroyed)) is not None:
            raise Tampered(url=url, problem=f"log row {row.seq} of {row.stream}: {problem}")
        seq, last_hash = row.seq, row.hash
        yield row


def _stated_agents(tables: Tables) -> dict[str, Agent]:
    """The agents as the owner's log states them: the projection may be what is broken."""
    replay = LogReplay(tables.owner, OWNER_STREAM, None)
    try:
        for row in whole_chain(tables.log(), "", destroyed_in(tables.log_of(("erased",)), False)):
            replay.take(row)
    except Tampered:
        pass  # what stands before the break still counts; whoever asked comes to the break itself
    deleted = {item.key for item in replay.stored if item.kind == "agent_deleted"}
    return {item.key: read(Agent, item.body) for item in replay.stored if item.kind == "agent" and item.key not in deleted}


def _broken_link(row: LogRow, seq: int, last_hash: str, destroyed: DestroyedRows) -> str | None:
    if row.seq != seq + 1:
        return f"row {seq + 1} is missing" if row.seq > seq else "stands twice"
    if row.prev_hash != last_hash:
        return "does not follow the row before it"
    if row.payload is None and not destroyed.covers(row.seq):
        return "its payload is missing"
    if row.payload is not None and digest(row.payload) != row.payload_hash:
        return "its payload was altered"
    times = row.occurred_at, row.known_at, row.recorded_at
    if chain_hash(row.stream, row.seq, row.kind, row.key, *times, row.payload_hash, row.prev_hash) != row.hash:
        return "was altered: its hash does not match"
    return None


def _bars_against(deliveries: dict[int, dict[str, Any]], bars: Rows, tables: Tables) -> Iterator[tuple[str, str]]:
    """Bars by the log row that brought them, against what that row says of them."""
    by_seq: dict[int, Rows] = {}
    for bar in bars:
        by_seq.setdefault(bar["seq"], []).append(bar)
    for seq in sorted(by_seq.keys() | deliveries.keys()):
        said, here = deliveries.get(seq, {"count": 0, "digest": delivery_digest(())}), by_seq.get(seq, [])
        if len(here) != said["count"]:
            yield f"log row {seq}", f"brought {said['count']} bars, {len(here)} are here"
        elif _altered(here, said["digest"]):
            yield f"log row {seq}", "its bars were altered"


def _altered(bars: Rows, digest_: str) -> bool:
    if any(row["frame"] * 1_000_000 != row["t1"] - row["t0"] for row in bars):
        return True
    try:
        return delivery_digest(_seen(row) for row in bars) != digest_
    except (Invalid, ArithmeticError):
        return True  # no bar at all


def _seen(row: dict[str, Any]) -> KnownBar:
    bar = read(Bar, {"symbol": row["symbol"], "t0": moment(row["t0"]), "t1": moment(row["t1"]),
                     **{letter: row[letter] for letter in "ohlcv"}})  # fmt: skip
    return KnownBar(bar, moment(row["known_at"]))


def _watched(tables: Tables) -> dict[str, list[KnownBar]]:
    symbols = {row["symbol"] for row in tables.rows("bars")}
    return {symbol: tables.bars(symbol, EVERYTHING) for symbol in symbols}


def _first_difference(table: str, expected: Rows, found: Rows) -> tuple[str, str] | None:
    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row[c] for c in KEYS[table])

    wanted, here = {key(row): row for row in expected}, {key(row): row for row in found}
    for at in sorted(wanted.keys() | here.keys()):
        name = "/".join(str(part) for part in at)
        if at not in here:
            return name, "is missing"
        if at not in wanted:
            return name, "follows from nothing in the log"
        for column, value in wanted[at].items():
            if here[at][column] != value:
                return name, f"{column} is {here[at][column]!r}, the log says {value!r}"
    return None


def _verify_head(audit: Audit, tables: Tables, head: dict[str, Any]) -> None:
    row = next(iter(tables.log(after=head["seq"] - 1, upto=head["seq"])), None) if head["seq"] else None
    if head["seq"] and (row is None or row.hash != head["hash"]):
        what = "the log was cut before it" if row is None else "another row stands in its place"
        audit.problems.append(
            AuditProblem(head["owner"], head["stream"], "log", str(head["seq"]), f"the exported head is gone: {what}")
        )


# ---- rebuild -----------------------------------------------------------------------------------------------------------


def rebuild_store(memory: Memory) -> Audit:
    """Throw every projection away and make it anew from the log; refused, with nothing changed, if the chain is broken."""
    audit = Audit()
    with memory.resources.reading(OWNER_STREAM) as tables:
        agents = _stated_agents(tables)
        names = streams(tables.session, memory.owner)
        deleted = deleted_streams(tables.log_of(("agent_deleted", "erased"))) - {OWNER_STREAM}
    destroyed: dict[str, DestroyedRows] = {}
    for stream in names:  # all are looked at before one is changed
        with memory.resources.reading(stream) as tables:
            destroyed[stream] = destroyed_in(tables.log_of(("correction", "erased")), stream in deleted)
            for _ in whole_chain(tables.log(), memory.url, destroyed[stream]):
                pass
    with memory.resources.repairing(OWNER_STREAM) as tables:
        for table in PROJECTIONS:
            drop_other_streams(tables.session, table, memory.owner, names)
    for stream in names:
        with memory.resources.repairing(stream) as tables:
            replay = LogReplay(memory.owner, stream, agents.get(stream), stream in deleted)
            for row in whole_chain(tables.log(), memory.url, destroyed[stream]):
                audit.log_rows += 1
                replay.take(row)
            for table, rows in replay.projections(_watched(tables)).items():
                tables.clear(table)
                tables.insert(table, rows)
                audit.rows[table] = audit.rows.get(table, 0) + len(rows)
                audit.digests[f"{memory.owner}/{stream}/{table}"] = digest(canonical_plain(tables.rows(table)))
            head = tables.head()
            tables.set_head(
                replace(
                    head,
                    first_snapshot=replay.first_snapshot,
                    last_tick=replay.last_tick,
                    known_at=replay.known_at,
                    verified_from=replay.verified_from,
                )
            )
            MemoryTables(tables).note_changes([EVERY_ONE])
    return audit
