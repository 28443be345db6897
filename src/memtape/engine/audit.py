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

from memtape.core.codec import GENESIS, canonical_plain, chain_hash, digest, micros, moment, read_time
from memtape.core.history import Version, derive
from memtape.core.items import OWNER_STREAM, Item, Kept, Named, Position, body_of, closed_by, delivery_digest, happenings, unpack
from memtape.core.learn import Note, Told, claims_on, in_versions, memories_of
from memtape.core.market import Market, Seen, ended
from memtape.core.observed import READERS, Bar, Claim, Decision, Fill, Observed, Tick
from memtape.core.plans import Standing, changed, made
from memtape.core.rounds import Watched
from memtape.core.shadows import FOLLOWED_FOR, endings, is_followed, shadow_episodes, shadow_id
from memtape.core.skills import Agent
from memtape.core.values import read
from memtape.engine.learning import account_event, correction
from memtape.engine.memory import Memory
from memtape.engine.observe import broker_said, standing_alone
from memtape.engine.positions import reported_id, reported_version
from memtape.errors import Invalid, Tampered
from memtape.store.memories import EVERY_ONE, Learned, plan_values
from memtape.store.rows import (
    KEYS,
    LogRow,
    PositionRow,
    discrepancy_row,
    episode_values,
    felt_values,
    item_row,
    micros_of,
    position_row,
    row_of,
    version_row,
)
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

    def __init__(self, owner: str, stream: str, agent: Agent | None, deleted: bool = False) -> None:
        self.owner, self.stream, self.agent, self.deleted = owner, stream, agent, deleted
        self.items: Rows = []
        self.kept: list[Kept] = []
        self.reported: dict[str, list[tuple[int, Version]]] = {}  # by trade, with the index of the item
        self.first_snapshot: datetime | None = None
        self.last_tick: datetime | None = None
        self.known_at: datetime | None = None
        self.deliveries: dict[int, dict[str, Any]] = {}  # log row -> what it says of its bars
        self._here: dict[tuple[str, str], int] = {}  # (kind, key) -> index among the items
        self._batches: dict[str, list[int]] = {}
        self.verified_from: datetime | None = None
        self._broker: dict[int, datetime] = {}  # items that are the broker's own word, and since when
        self.plans: dict[str, Standing] = {}

    def take(self, row: LogRow) -> None:
        """The next row."""
        known_at = moment(row.known_at)
        if row.payload is None and self.deleted:
            return
        self.known_at = known_at if self.known_at is None else max(self.known_at, known_at)
        if row.payload is None:
            return  # destroyed, as a later row says
        payload = json.loads(row.payload)
        if "stated" in payload:
            item = Item(row.kind, row.key, moment(row.occurred_at), payload["stated"], payload["symbol"])
            self._add(item, row, known_at, 1, None)
            if row.kind == "undo":
                self._void(row.key, row.seq, known_at)
            self._plan(row.kind, payload["stated"], known_at)
            return
        for told in payload["concluded"]:
            if told["event"] in ("plan_fired", "plan_expired"):
                status = told["event"].removeprefix("plan_")
                self.plans[told["plan"]] = changed(self.plans[told["plan"]], status, read_time(told["at"]))
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
        if broker_said(item):
            self._broker[index] = known_at
            self.verified_from = known_at if self.verified_from is None else min(self.verified_from, known_at)
        if self.agent is None:
            return
        if item.kind == "closing":
            claim = self.kept[self._here["claim", item.key]]
            whole = closed_by(read(Claim, claim.body), item.body)
            item = Item("claim", item.key, item.at, whole, claim.symbol, claim.leg, claim.ref)
            self._report(index, reported_version(self.agent, item, known_at, version))
        elif item.kind == "trade" or (item.kind == "claim" and item.body.exit_price is not None):
            self._report(index, reported_version(self.agent, item, known_at, version))

    def _plan(self, kind: str, stated: dict[str, Any], at: datetime) -> None:
        if kind == "plan":
            self.plans[stated["id"]] = made(stated, at)
        elif kind == "plan_status":
            self.plans[stated["plan"]] = changed(self.plans[stated["plan"]], stated["status"], at)

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
            claim = self._here.get(("claim", kept.key))
            self._here.pop((kept.kind, kept.key), None)
            self._broker.pop(index, None)
            if self.agent is None or kept.kind not in ("trade", "claim", "closing"):
                continue
            named = self.kept[claim] if kept.kind == "closing" and claim is not None else kept
            kind = "trade" if kept.kind == "trade" else "claim"
            id_ = reported_id(self.agent.id, kind, kept.key, (named.symbol, named.leg))
            told = self.reported.get(id_, [])
            self.reported[id_] = [(n, v if v.known_to is not None else replace(v, known_to=known_at)) for n, v in told]
        self.verified_from = min(self._broker.values(), default=None)

    def _memories(self, versions: Sequence[Version], bars: dict[str, list[Watched]]) -> dict[str, Rows]:
        """The rows of what was learned."""
        assert self.agent is not None
        own, who = self.agent, (self.owner, self.stream)
        markets = {symbol: Market(ended(seen) for seen in several) for symbol, several in bars.items()}
        account = [
            Told(account_event(item.kind, item.body, item.key, item.known_at), item.gone_at)
            for item in self.kept if item.kind in ("equity", "flow")
        ]  # fmt: skip
        said: dict[str, list[Note]] = claims_on(versions)
        for item in self.kept:
            if item.kind == "correction":
                said.setdefault(item.symbol, []).insert(0, correction(item))
        starting = float(own.settings.starting_equity)
        episodes, steps, past = memories_of(
            versions, account, lambda symbol, _: markets.get(symbol), starting, self.verified_from,
            lambda trade: said.get(trade.id, []),
        )  # fmt: skip
        shadows: Rows = []
        for item in self.kept:
            if item.kind != "decision" or item.gone_at is not None or not is_followed(decision := read(Decision, item.body)):
                continue
            assert decision.symbol is not None and decision.t is not None
            later = [w for w in bars.get(decision.symbol, []) if decision.t < w.bar.t1 <= decision.t + 2 * FOLLOWED_FOR]
            market = markets.get(decision.symbol)
            found = shadow_episodes(own.id, own.skill, decision, item.known_at, later,
                                    market.at(decision.t) if market else Seen(), past.at(decision.t))  # fmt: skip
            notes = said.get(shadow_id(own.id, item.key), [])
            episodes += [version for episode in found for version in in_versions(episode, notes)]
            ends = endings(decision, item.known_at, later)
            until = micros_of(ends[-1].exit_at) if ends else None
            shadows.append(row_of("shadows", (*who, item.key, decision.symbol, micros(decision.t), until)))
        return {
            "episodes": [row_of("episodes", episode_values(*who, e)) for e in episodes],
            "affect": [row_of("affect", felt_values(*who, step)) for step in steps],
            "shadows": shadows,
            "plans": [row_of("plans", plan_values(*who, plan)) for plan in self.plans.values()],
        }

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
            **(self._memories(versions, bars) if self.agent is not None else {}),
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
    own = Tables(session, owner, OWNER_STREAM)
    agents, deleted = _stated_agents(own), deleted_streams(own.log_of(("agent_deleted", "erased")))
    known = streams(session, owner)
    for table in TABLES:
        rows = session.all(f"SELECT DISTINCT stream FROM {table} WHERE owner = :owner ORDER BY stream", {"owner": owner})
        for (stream,) in rows:
            if stream not in known:
                audit.problems.append(Problem(owner, stream, table, "*", "rows of a stream that has no head"))
    for stream in sorted(agents.keys() - set(known)):
        audit.problems.append(Problem(owner, stream, "streams", stream, "the head of this agent's stream is missing"))
    for stream in known:
        gone = stream in deleted and stream != OWNER_STREAM
        if stream != OWNER_STREAM and stream not in agents and not gone:
            audit.problems.append(Problem(owner, stream, "streams", stream, "a stream of no agent"))
        _verify_stream(audit, Tables(session, owner, stream), agents.get(stream), gone)


def _verify_stream(audit: Audit, tables: Tables, agent: Agent | None, deleted: bool) -> None:
    replay = Replay(tables.owner, tables.stream, agent, deleted)
    destroyed = destroyed_in(tables.log_of(("correction", "erased")), deleted)

    def wrong(table: str, key: object, problem: str) -> None:
        audit.problems.append(Problem(tables.owner, tables.stream, table, str(key), problem))

    last_hash, seq = GENESIS, 0
    for row in tables.log():
        audit.log_rows += 1
        if (problem := _broken_link(row, seq, last_hash, destroyed)) is not None:
            wrong("log", row.seq, problem)
            return  # nothing after a broken link can be trusted
        seq, last_hash = row.seq, row.hash
        replay.take(row)
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
class Destroyed:
    """The rows of a stream whose payload was destroyed: some by name, and all before one."""

    rows: frozenset[int] = frozenset()
    before: int = 0

    def covers(self, seq: int) -> bool:
        """Whether a row may be without its payload."""
        return seq in self.rows or seq < self.before


def destroyed_in(rows: Iterable[LogRow], deleted: bool) -> Destroyed:
    """What the log of a stream says was destroyed in it."""
    named: set[int] = set()
    before = 2**62 if deleted else 0
    for row in rows:
        if row.kind == "correction" and row.payload is not None:
            named |= {seq for seq in _stated(row).get("shredded", ()) if seq < row.seq}
        elif row.kind == "erased":
            before = max(before, row.seq)
    return Destroyed(frozenset(named), before)


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


def whole_chain(rows: Iterable[LogRow], url: str, destroyed: Destroyed) -> Iterator[LogRow]:
    """Pass rows on, each checked against the one before; `Tampered` at the first that does not follow."""
    seq, last_hash = 0, GENESIS
    for row in rows:
        if (problem := _broken_link(row, seq, last_hash, destroyed)) is not None:
            raise Tampered(url=url, problem=f"log row {row.seq} of {row.stream}: {problem}")
        seq, last_hash = row.seq, row.hash
        yield row


def _stated_agents(tables: Tables) -> dict[str, Agent]:
    """The agents as the owner's log states them: the projection may be what is broken."""
    replay = Replay(tables.owner, OWNER_STREAM, None)
    try:
        for row in whole_chain(tables.log(), "", destroyed_in(tables.log_of(("erased",)), False)):
            replay.take(row)
    except Tampered:
        pass  # what stands before the break still counts; whoever asked comes to the break itself
    deleted = {item.key for item in replay.kept if item.kind == "agent_deleted"}
    return {item.key: read(Agent, item.body) for item in replay.kept if item.kind == "agent" and item.key not in deleted}


def _broken_link(row: LogRow, seq: int, last_hash: str, destroyed: Destroyed) -> str | None:
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
        deleted = deleted_streams(tables.log_of(("agent_deleted", "erased"))) - {OWNER_STREAM}
    destroyed: dict[str, Destroyed] = {}
    for stream in names:  # all are looked at before one is changed
        with memory.reading(stream) as tables:
            destroyed[stream] = destroyed_in(tables.log_of(("correction", "erased")), stream in deleted)
            for _ in whole_chain(tables.log(), memory.url, destroyed[stream]):
                pass
    with memory.repairing(OWNER_STREAM) as tables:
        for table in PROJECTIONS:
            strays = f"DELETE FROM {table} WHERE owner = :owner AND stream NOT IN :names"
            tables.session.run(strays, {"owner": memory.owner, "names": names})
    for stream in names:
        with memory.repairing(stream) as tables:
            replay = Replay(memory.owner, stream, agents.get(stream), stream in deleted)
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
                replace(head, first_snapshot=replay.first_snapshot, last_tick=replay.last_tick, known_at=replay.known_at,
                        verified_from=replay.verified_from)
            )
            Learned(tables).note_changes([EVERY_ONE])
    return audit
