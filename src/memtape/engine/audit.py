"""Proof and repair: the log is hashed link by link, and every projection must follow from it.

`Replay` takes a stream's log from nothing and gives the rows that every other table must have. `verify` compares and names
the first row that differs; `rebuild` puts those rows in place of what is there, if the chain is whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from memtape.core.codec import GENESIS, canonical_plain, chain_hash, digest, identify, micros, moment
from memtape.core.history import Version, derive
from memtape.core.items import Item, Kept, Named, Position, body_of, delivery_digest, happenings, unpack
from memtape.core.observed import READERS, Bar, Decision, Fill, Observed, Tick
from memtape.core.rounds import Watched
from memtape.core.skills import Agent
from memtape.core.values import read
from memtape.engine.memory import OWNER_STREAM, Memory
from memtape.engine.observe import standing_alone
from memtape.engine.positions import reported_version
from memtape.errors import Invalid, Tampered
from memtape.store.rows import KEYS, LogRow, PositionRow, discrepancy_row, item_row, position_row, version_row
from memtape.store.schema import PROJECTIONS, TABLES
from memtape.store.tables import EVERYTHING, Tables, owners, streams

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that does not agree with the log."""

    owner: str
    stream: str
    table: str
    key: str
    problem: str


@dataclass(slots=True)
class Audit:
    """What `verify` and `rebuild` report."""

    problems: list[Problem] = field(default_factory=list)
    log_rows: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    heads: list[dict[str, Any]] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


# ---- replaying the log -------------------------------------------------------------------------------------------------


class Replay:
    """A stream's log, row by row, into the rows that must follow from it."""

    def __init__(self, owner: str, stream: str, agent: Agent | None) -> None:
        self.owner, self.stream, self.agent = owner, stream, agent
        self.items: Rows = []
        self.kept: list[Kept] = []
        self.reported: dict[str, list[tuple[int, Version]]] = {}  # by trade, with the index of the item
        self.first_snapshot: datetime | None = None
        self.last_tick: datetime | None = None
        self.known_at: datetime | None = None
        self.deliveries: dict[int, dict[str, Any]] = {}  # log row -> what it says of its bars
        self._here: dict[tuple[str, str], int] = {}  # (kind, key) -> index among the items
        self._batches: dict[str, list[int]] = {}

    def take(self, row: LogRow) -> None:
        """The next row."""
        known_at = moment(row.known_at)
        self.known_at = known_at if self.known_at is None else max(self.known_at, known_at)
        assert row.payload is not None, "a row without its payload is a broken link"
        payload = json.loads(row.payload)
        if "stated" in payload:
            item = Item(row.kind, row.key, moment(row.occurred_at), payload["stated"], payload["symbol"])
            self._add(item, row, known_at, 1, None)
            if row.kind == "undo":
                self._void(row.key, row.seq, known_at)
            return
        observed = dict(payload["observed"])
        kind = "tick" if row.kind == "more" else row.kind
        if kind in ("tick", "bars") and isinstance(observed.get("bars"), dict):
            self.deliveries[row.seq] = observed.pop("bars")
        if kind == "bars":
            return
        value: Observed = read(READERS[kind], observed)
        items = unpack(value)
        if isinstance(value, Tick):
            if row.kind == "more" or (self.last_tick is not None and value.t <= self.last_tick):
                items = standing_alone(items)
            else:
                self.last_tick = value.t
                if value.positions is not None and self.first_snapshot is None:
                    self.first_snapshot = value.t
        for item in items:
            if (item.kind, item.key) not in self._here:
                self._add(item, row, known_at, payload["skill_version"], payload.get("batch"))

    def _add(self, item: Item, row: LogRow, known_at: datetime, version: int, batch: str | None) -> None:
        index = len(self.items)
        self._here[item.kind, item.key] = index
        if batch:
            self._batches.setdefault(batch, []).append(index)
        self.items.append(item_row(self.owner, self.stream, item, row.seq, known_at, version, batch))
        kept = Kept(row.seq, item.kind, item.key, item.at, known_at, version, item.symbol, item.leg, item.ref, body_of(item),
                    batch is not None)  # fmt: skip
        self.kept.append(kept)
        if item.kind == "trade" and self.agent is not None:
            self._report(index, reported_version(self.agent, item, known_at, version))

    def _report(self, index: int, new: Version) -> None:
        """A reported trade; if it was taken back before, the earlier version ends where this one begins."""
        earlier = self.reported.get(new.trade.id, [])
        kept = [(n, v) for n, v in earlier if v.known_from < new.known_from]
        kept = [
            (n, replace(v, known_to=new.known_from) if v.known_to is not None and v.known_to > new.known_from else v)
            for n, v in kept
        ]
        self.reported[new.trade.id] = [*kept, (index, new)]

    def _void(self, batch: str, seq: int, known_at: datetime) -> None:
        for index in self._batches.pop(batch, ()):
            row, kept = self.items[index], self.kept[index]
            row["void_seq"], row["void_at"] = seq, micros(known_at)
            self.kept[index] = replace(kept, gone_at=known_at)
            self._here.pop((kept.kind, kept.key), None)
            if kept.kind == "trade" and self.agent is not None:
                id_ = identify(self.agent.id, f"trade:{kept.key}", kept.symbol, kept.leg)
                self.reported[id_] = [(n, replace(v, known_to=known_at) if n == index else v) for n, v in self.reported[id_]]

    def projections(self, bars: dict[str, list[Watched]]) -> dict[str, Rows]:
        """The rows of every projection."""
        versions = [version for several in self.reported.values() for _, version in several]
        positions: list[PositionRow] = []
        discrepancies: Rows = []
        if self.agent is not None:
            for position, kept in self._by_position().items():
                named = self._named(kept)
                happened = happenings(position, kept, named, self.first_snapshot)
                derived = derive(self.agent.terms(), *position, happened, bars.get(position[0], []))
                versions += derived.versions
                discrepancies += [discrepancy_row(self.owner, self.stream, d) for d in derived.discrepancies]
                if derived.last is not None:
                    positions.append(PositionRow(*position, derived.last, derived.open))
        found: dict[str, Rows] = {
            "items": list(self.items),
            "positions": [position_row(self.owner, self.stream, p) for p in positions],
            "trades": [version_row(self.owner, self.stream, v) for v in versions],
            "discrepancies": discrepancies,
        }
        for table, rows in found.items():
            rows.sort(key=lambda row, table=table: tuple(row[c] for c in KEYS[table]))  # type: ignore[misc]
        return found

    def _by_position(self) -> dict[Position, list[Kept]]:
        """What concerns each position: its own items, and every tick and tick decision from its first mention on."""
        own: dict[Position, list[Kept]] = {}
        shared: list[Kept] = []
        for item in self.kept:
            if item.kind in ("fill", "funding"):
                own.setdefault((item.symbol, item.leg), []).append(item)
            elif item.kind in ("tick", "decision"):
                shared.append(item)
                if item.kind == "tick":
                    for symbol, several in (item.body.get("positions") or {}).items():
                        for held in several:
                            own.setdefault((symbol, held.get("leg", "")), []).append(item)
        found: dict[Position, list[Kept]] = {}
        for position, items in sorted(own.items()):
            first = min(item.at for item in items)
            found[position] = [item for item in items if item.kind != "tick"] + [
                item for item in shared if item.at >= first and item.symbol in ("", position[0])
            ]
        return found

    def _named(self, kept: Sequence[Kept]) -> Named:
        decisions: dict[str, tuple[Decision, datetime]] = {}
        for item in kept:
            if item.kind == "fill" and item.ref is not None:
                fill = read(Fill, item.body)
                for name in (f"d:{fill.decision}", f"o:{fill.order_id}"):
                    if (found := self._decision(name)) is not None:
                        decisions[name] = found
        return Named(decisions)

    def _decision(self, name: str) -> tuple[Decision, datetime] | None:
        sort, _, id_ = name.partition(":")
        if sort == "o":
            order = self._here.get(("order", id_))
            id_ = self.kept[order].ref or "" if order is not None else ""
        index = self._here.get(("decision", id_))
        return None if index is None else (read(Decision, self.kept[index].body), self.kept[index].known_at)


# ---- verify ------------------------------------------------------------------------------------------------------------


def verify(memory: Memory, against: Iterable[dict[str, Any]] = ()) -> Audit:
    """Recompute the chain and every projection; `against` are heads exported earlier, which must still be there."""
    audit = Audit()
    with memory.database.reading(memory.owner) as session:
        for owner in owners(session):
            _verify_owner(audit, session, owner)
        for head in against:
            _verify_head(audit, Tables(session, head["owner"], head["stream"]), head)
    return audit


def _verify_owner(audit: Audit, session: Any, owner: str) -> None:
    agents = _stated_agents(Tables(session, owner, OWNER_STREAM))
    known = streams(session, owner)
    for table in TABLES:
        rows = session.all(f"SELECT DISTINCT stream FROM {table} WHERE owner = :owner ORDER BY stream", {"owner": owner})
        for (stream,) in rows:
            if stream not in known:
                audit.problems.append(Problem(owner, stream, table, "*", "rows of a stream that has no head"))
    for stream in sorted(agents.keys() - set(known)):
        audit.problems.append(Problem(owner, stream, "streams", stream, "the head of this agent's stream is missing"))
    for stream in known:
        if stream != OWNER_STREAM and stream not in agents:
            audit.problems.append(Problem(owner, stream, "streams", stream, "a stream of no agent"))
        _verify_stream(audit, Tables(session, owner, stream), agents.get(stream))


def _verify_stream(audit: Audit, tables: Tables, agent: Agent | None) -> None:
    replay = Replay(tables.owner, tables.stream, agent)

    def wrong(table: str, key: object, problem: str) -> None:
        audit.problems.append(Problem(tables.owner, tables.stream, table, str(key), problem))

    last_hash, seq = GENESIS, 0
    for row in tables.log():
        audit.log_rows += 1
        if (problem := _broken_link(row, seq, last_hash)) is not None:
            wrong("log", row.seq, problem)
            return  # nothing after a broken link can be trusted
        seq, last_hash = row.seq, row.hash
        replay.take(row)
    head = tables.head()
    audit.heads.append({"owner": tables.owner, "stream": tables.stream, "seq": seq, "hash": last_hash})
    if (head.seq, head.hash) != (seq, last_hash):
        wrong("streams", tables.stream, f"its head says row {head.seq}, the log ends at row {seq}: rows were cut or added")
        return
    if (head.first_snapshot, head.last_tick, head.known_at) != (replay.first_snapshot, replay.last_tick, replay.known_at):
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


def whole_chain(rows: Iterable[LogRow], url: str) -> Iterator[LogRow]:
    """Pass rows on, each checked against the one before; `Tampered` at the first that does not follow."""
    seq, last_hash = 0, GENESIS
    for row in rows:
        if (problem := _broken_link(row, seq, last_hash)) is not None:
            raise Tampered(url=url, problem=f"log row {row.seq} of {row.stream}: {problem}")
        seq, last_hash = row.seq, row.hash
        yield row


def _stated_agents(tables: Tables) -> dict[str, Agent]:
    """The agents as the owner's log states them: the projection may be what is broken."""
    replay = Replay(tables.owner, OWNER_STREAM, None)
    try:
        for row in whole_chain(tables.log(), ""):
            replay.take(row)
    except Tampered:
        pass  # what stands before the break still counts; whoever asked comes to the break itself
    return {item.key: read(Agent, item.body) for item in replay.kept if item.kind == "agent"}


def _broken_link(row: LogRow, seq: int, last_hash: str) -> str | None:
    if row.seq != seq + 1:
        return f"row {seq + 1} is missing" if row.seq > seq else "stands twice"
    if row.prev_hash != last_hash:
        return "does not follow the row before it"
    if row.payload is None:
        return "its payload is missing"
    if digest(row.payload) != row.payload_hash:
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


def _seen(row: dict[str, Any]) -> Watched:
    bar = read(Bar, {"symbol": row["symbol"], "t0": moment(row["t0"]), "t1": moment(row["t1"]),
                     **{letter: row[letter] for letter in "ohlcv"}})  # fmt: skip
    return Watched(bar, moment(row["known_at"]))


def _watched(tables: Tables) -> dict[str, list[Watched]]:
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
            Problem(head["owner"], head["stream"], "log", str(head["seq"]), f"the exported head is gone: {what}")
        )


# ---- rebuild -----------------------------------------------------------------------------------------------------------


def rebuild(memory: Memory) -> Audit:
    """Throw every projection away and make it anew from the log; refused, with nothing changed, if the chain is broken."""
    audit = Audit()
    with memory.reading(OWNER_STREAM) as tables:
        agents = _stated_agents(tables)
        names = streams(tables.session, memory.owner)
    for stream in names:  # all are looked at before one is changed
        with memory.reading(stream) as tables:
            for _ in whole_chain(tables.log(), memory.url):
                pass
    with memory.writing(OWNER_STREAM) as tables:
        for table in PROJECTIONS:
            strays = f"DELETE FROM {table} WHERE owner = :owner AND stream NOT IN :names"
            tables.session.run(strays, {"owner": memory.owner, "names": names})
    for stream in names:
        with memory.writing(stream) as tables:
            replay = Replay(memory.owner, stream, agents.get(stream))
            for row in whole_chain(tables.log(), memory.url):
                audit.log_rows += 1
                replay.take(row)
            for table, rows in replay.projections(_watched(tables)).items():
                tables.clear(table)
                tables.insert(table, rows)
                audit.rows[table] = audit.rows.get(table, 0) + len(rows)
                audit.digests[f"{memory.owner}/{stream}/{table}"] = digest(canonical_plain(tables.rows(table)))
            head = tables.head()
            tables.set_head(
                replace(head, first_snapshot=replay.first_snapshot, last_tick=replay.last_tick, known_at=replay.known_at)
            )
    return audit
