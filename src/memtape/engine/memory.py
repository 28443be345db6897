"""Memory: the door to one owner's store, and to each of its agents.

>>> import memtape
>>> memory = memtape.open(":memory:")
>>> _ = memory.create_skill("breakout", strategy="Buy strength.")
>>> _ = memory.create_agent("desk", skill="breakout", mode="sim")
>>> memory.agent("desk").trades()
[]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

from memtape.core.calendar import Event, told_ahead
from memtape.core.codec import EPOCH, canonical_plain, digest, identify, plain, spell_time
from memtape.core.items import OWNER_STREAM, Item, Kept, content_of, unpack
from memtape.core.observed import READERS, Bars, Claim, Closing, Decision, Observed, Tick, happened_at
from memtape.core.shadows import is_followed
from memtape.core.skills import Agent, AgentSettings, Mode, Skill
from memtape.core.values import Slug, read
from memtape.documents.cache import GLOBAL
from memtape.documents.index import DocumentIndex
from memtape.engine.briefing import ESTIMATED, Briefing, Made, Tokens
from memtape.engine.documents import Documents
from memtape.engine.following import Follower
from memtape.engine.forgetting import delete_agent, erase_owner, refuse_deleted
from memtape.engine.learning import learn
from memtape.engine.observe import Entry, Receipt, Writer, check_time, verified_since
from memtape.engine.planning import events_known
from memtape.engine.positions import Fresh, Told, rederive, reported_id
from memtape.engine.reflecting import Models, Reflecting, due_after
from memtape.engine.stating import Stating
from memtape.errors import Conflict, Invalid, Unknown
from memtape.plugs.clock import Clock, SystemClock
from memtape.plugs.embedder import Embedder
from memtape.plugs.models import model_of
from memtape.store.database import Database
from memtape.store.known import EVERYTHING, Known
from memtape.store.memories import Learned
from memtape.store.tables import Tables

SAME_REPORT = timedelta(minutes=10)
Gone = tuple[str, str, tuple[str, str], datetime]  # kind, key, position and time of an item that was taken back
DEFAULT = "main"


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import came to."""

    batch: str
    new: int
    duplicates: int


class Memory:
    """Everything one owner's agents remember."""

    def __init__(
        self, database: Database, owner: str = "local", clock: Clock | None = None, *, models: Models = model_of,
        embedder: Callable[[], Embedder | None] = lambda: None, tokens: Tokens = ESTIMATED, documents: str = ":memory:",
    ) -> None:  # fmt: skip
        self.database = database
        self.owner: str = read(Slug, owner, at="owner")
        self.clock: Clock = clock or SystemClock()
        self.follower, self.made = Follower(), Made()
        self.models, self.tokens = models, tokens
        self._embedder, self._documents = embedder, documents

    @cached_property
    def embedder(self) -> Embedder | None:
        """What compares texts, where the slot is on."""
        return self._embedder()

    @cached_property
    def documents(self) -> DocumentIndex:
        """The index of documents: a cache in a file of its own."""
        return DocumentIndex(self._documents)

    @property
    def url(self) -> str:
        """Where it is kept."""
        return self.database.url

    def close(self) -> None:
        """Let go of the store."""
        self.database.close()
        if "documents" in self.__dict__:
            self.documents.close()

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @contextmanager
    def writing(self, stream: str) -> Iterator[Tables]:
        """A transaction on one stream."""
        with self.database.writing(self.owner) as session:
            session.lock(self.owner, stream)
            refuse_deleted(Tables(session, self.owner, OWNER_STREAM), stream)
            yield Tables(session, self.owner, stream)

    @contextmanager
    def repairing(self, stream: str) -> Iterator[Tables]:
        """A transaction on one stream that adds nothing to its log."""
        with self.database.writing(self.owner) as session:
            session.lock(self.owner, stream)
            yield Tables(session, self.owner, stream)

    @contextmanager
    def reading(self, stream: str) -> Iterator[Tables]:
        """One unchanging state of a stream."""
        with self.database.reading(self.owner) as session:
            yield Tables(session, self.owner, stream)

    # ---- skills and agents ----------------------------------------------------------------------------------------

    def create_skill(
        self, id: str, *, name: str = "", strategy: str = "", avoid: Iterable[str] = (),
        limits: Mapping[str, str] | None = None, memory: Mapping[str, Any] | None = None,
    ) -> tuple[Skill, int]:  # fmt: skip
        """A skill and its version: the next one if the content is new, else the one it has."""
        skill = read(
            Skill,
            {"id": id, "name": name, "strategy": strategy, "avoid": tuple(avoid), "limits": dict(limits or {}),
             "context": {} if memory is None else {"memory": dict(memory)}},
        )  # fmt: skip
        with self.writing(OWNER_STREAM) as tables:
            versions = _skill_versions(tables, EVERYTHING, skill.id)
            if versions and versions[-1] == skill:
                return skill, len(versions)
            version = len(versions) + 1
            self._state(tables, "skill", f"{skill.id}@{version}", plain(skill) | {"version": version}, symbol=skill.id)
            return skill, version

    def skills(self, known: Known = EVERYTHING) -> list[tuple[Skill, int]]:
        """Each skill in its latest version."""
        with self.reading(OWNER_STREAM) as tables:
            latest: dict[str, tuple[Skill, int]] = {}
            for item in tables.items("skill", known):
                latest[item.symbol] = _skill(item)
        return [latest[id_] for id_ in sorted(latest)]

    def skill(self, id: str, version: int | None = None, known: Known = EVERYTHING) -> tuple[Skill, int]:
        """One skill, in its latest version or in another."""
        with self.reading(OWNER_STREAM) as tables:
            versions = _skill_versions(tables, known, id)
        if not versions:
            raise Unknown("skill", "skill", id, "List them with list_skills, or make it with create_skill")
        if version is not None and not 1 <= version <= len(versions):
            raise Unknown("version", f"version of skill '{id}'", str(version), f"It has versions 1 to {len(versions)}")
        number = version or len(versions)
        return versions[number - 1], number

    def skill_of(self, agent: Agent, known: Known = EVERYTHING) -> tuple[Skill, int]:
        """The skill that an agent runs, in the version it runs; before its first write, an empty one."""
        with self.reading(OWNER_STREAM) as tables:
            versions = _skill_versions(tables, known, agent.skill)
        if not versions:
            return Skill(id=agent.skill), 1
        version = min(agent.skill_version, len(versions))
        return versions[version - 1], version

    def agent_then(self, agent: Agent, known: Known) -> tuple[Agent, Skill, int]:
        """An agent and its skill as they stood for a reader of some moment and head."""
        with self.reading(OWNER_STREAM) as tables:
            then = _find_agent(tables, agent.id, known) or replace(agent, skill_version=1)
        return (then, *self.skill_of(then, known))

    def create_agent(
        self, id: str, *, skill: str, mode: Mode = "paper", settings: Mapping[str, Any] | AgentSettings | None = None,
        skill_version: int | None = None,
    ) -> Agent:  # fmt: skip
        """An agent; the same again is the same, anything else under its name is refused."""
        wanted = read(
            Agent,
            {"id": id, "skill": skill, "mode": mode,
             "settings": asdict(settings) if isinstance(settings, AgentSettings) else dict(settings or {})},
        )  # fmt: skip
        with self.writing(OWNER_STREAM) as tables:
            versions = _skill_versions(tables, EVERYTHING, wanted.skill)
            if not versions:
                raise Unknown("skill", "skill", skill, "Make it first, with create_skill")
            if tables.items("agent_deleted", EVERYTHING, keys=[wanted.id]):
                raise Conflict("id", f"the agent '{id}' was deleted", "Choose another id: the log of a deleted one stays closed")
            known = _find_agent(tables, wanted.id)
            version = skill_version or (known.skill_version if known else len(versions))
            if not 1 <= version <= len(versions):
                raise Unknown("skill_version", f"version of skill '{skill}'", str(version), f"It has 1 to {len(versions)}")
            wanted = replace(wanted, skill_version=version)
            if known:
                if known != wanted:
                    raise Conflict("id", f"the agent '{id}' exists with another skill, mode or setting",
                                   "Choose another id; mode and settings never change")  # fmt: skip
                return wanted
            self._state(tables, "agent", wanted.id, plain(wanted))
            return self._ready(tables, wanted)

    def use_skill_version(self, id: str, version: int) -> Agent:
        """Let an agent run another version of its skill; trades keep the one they were entered under."""
        with self.writing(OWNER_STREAM) as tables:
            agent = _agent_of(tables, id)
            versions = _skill_versions(tables, EVERYTHING, agent.skill)
            if not 1 <= version <= len(versions):
                raise Unknown("skill_version", f"version of skill '{agent.skill}'", str(version), f"It has 1 to {len(versions)}")
            if version != agent.skill_version:
                number = len(tables.items("agent_version", EVERYTHING, symbol=id)) + 1
                self._state(tables, "agent_version", f"{id}#{number}", {"skill_version": version}, symbol=id)
        return replace(agent, skill_version=version)

    def _ready(self, tables: Tables, agent: Agent) -> Agent:
        """Give a new agent its stream, so that its disappearance would be noticed."""
        Tables(tables.session, self.owner, agent.id).make_head()
        return agent

    def agents(self, known: Known = EVERYTHING) -> list[Agent]:
        """Every agent."""
        with self.reading(OWNER_STREAM) as tables:
            gone = {item.key for item in tables.items("agent_deleted", known)}
            found = [_agent_of(tables, item.key, known) for item in tables.items("agent", known) if item.key not in gone]
        return sorted(found, key=lambda agent: agent.id)

    def agent(self, id: str = DEFAULT, known: Known = EVERYTHING) -> AgentMemory:
        """The memory of one agent."""
        with self.reading(OWNER_STREAM) as tables:
            return AgentMemory(self, _agent_of(tables, id, known))

    def default_agent(self) -> AgentMemory:
        """The memory of the default agent; before its first write it is there all the same, with nothing in it."""
        with self.reading(OWNER_STREAM) as tables:
            found = _find_agent(tables, DEFAULT)
        return AgentMemory(self, found or Agent(id=DEFAULT, skill=DEFAULT))

    def agent_for_writing(self, id: str | None, *, make: bool = False) -> AgentMemory:
        """An agent to write to. The default one, and with `make` any, is made on first use: of skill `main`, mode paper."""
        name = id or DEFAULT
        if make or name == DEFAULT:
            with self.reading(OWNER_STREAM) as tables:
                known = _find_agent(tables, name) is not None
                has_skill = bool(_skill_versions(tables, EVERYTHING, DEFAULT))
            if not known:
                if not has_skill:
                    self.create_skill(DEFAULT)
                self.create_agent(name, skill=DEFAULT)
        return self.agent(name)

    def delete_agent(self, id: str, confirm: str) -> int:
        """Delete an agent and destroy all that was recorded of it; how many log rows. There is no way back."""
        rows = delete_agent(self, id, confirm)
        self._forget_documents([id])
        return rows

    def erase_owner(self, confirm: str) -> tuple[list[str], int]:
        """Destroy everything of this owner; which streams, and how many log rows. There is no way back."""
        gone, rows = erase_owner(self, confirm)
        self._forget_documents(gone)
        return gone, rows

    def _forget_documents(self, streams: Iterable[str]) -> None:
        """Drop what the index holds of some agents, or of all that is shared; the files stay."""
        if "documents" in self.__dict__ or Path(self._documents).exists():
            for stream in streams:
                self.documents.forget(self.owner, GLOBAL if stream == OWNER_STREAM else stream)

    # ---- the calendar -------------------------------------------------------------------------------------------------

    def record_events(self, events: Iterable[Event | Mapping[str, Any]], *, backfill: bool = False) -> tuple[int, int]:
        """Take in scheduled events, or what is newly known of them; how many were new, how many known.

        With `backfill` a schedule counts as known a month ahead of its event, and the actual figure from its release on.
        """
        listed = [read(Event, event) for event in events]
        with self.writing(OWNER_STREAM) as tables:
            known = {event.id: event for event in events_known(tables)}
            fresh = [event for event in listed if known.get(event.id) != event]
            seq = tables.head().seq
            writer = Writer(tables, Agent(id="owner", skill="owner"), self.clock.now())
            for event in fresh:
                for each, known_at in told_ahead(event) if backfill else [(event, self.clock.now())]:
                    seq += 1
                    writer.declare(Item("event", f"{event.id}#{seq}", each.t, plain(each), event.id), known_at)
        return len(fresh), len(listed) - len(fresh)

    def events(self, known: Known = EVERYTHING) -> list[Event]:
        """The calendar, each event as it was last stated."""
        with self.reading(OWNER_STREAM) as tables:
            return events_known(tables, known)

    def _state(self, tables: Tables, kind: str, key: str, body: dict[str, Any], symbol: str = "") -> None:
        """Record a statement of the owner."""
        now = self.clock.now()
        Writer(tables, Agent(id="owner", skill="owner"), now).declare(Item(kind, key, now, body, symbol), now)


class AgentMemory(Stating, Reflecting, Documents, Briefing):
    """What one agent remembers: observe to write, the rest to read."""

    def __init__(self, memory: Memory, agent: Agent) -> None:
        super().__init__(memory, agent, memory.follower)
        self.memory = memory

    def observe(self, seen: Observed | Mapping[str, Any], *, kind: str = "tick", backfill: bool = False) -> Receipt:
        """Take in a tick, a fill, funding, a closed trade, an equity mark, a cash flow, a decision or bars.

        Plain data is read as a value of `kind`. `backfill` says that it is told after the fact: it then counts as known
        from its own time on, not from now.
        """
        value: Observed = read(READERS[kind], seen) if isinstance(seen, Mapping) else _checked(seen)
        now = self.memory.clock.now()
        value = completed(value, now)
        check_time(value, now)
        with self.memory.writing(self.agent.id) as tables:
            if isinstance(value, Claim):
                value = named_claim(tables, value)
            known_at = self._known_at(value, now, backfill)
            own_times = isinstance(value, Bars) and (backfill or self.agent.mode == "sim")
            receipt = Writer(tables, self.agent, now).one(Entry(value, known_at, own_times=own_times))
            if receipt.duplicate or all(told["event"] != "closed" for told in receipt.concluded):
                return receipt
            owners = Tables(tables.session, tables.owner, OWNER_STREAM)
            stated = owners.items("skill", EVERYTHING, keys=[f"{self.agent.skill}@{self.agent.skill_version}"])
            due = bool(stated) and due_after(tables, _skill(stated[0])[0], self._said_at(tables))
            return replace(receipt, reflection_due=True) if due else receipt

    def remember_trade(self, claim: Claim | Mapping[str, Any], *, backfill: bool = False) -> Receipt:
        """Take in a trade as the agent reports it, whole or still open."""
        return self.observe(claim, kind="claim", backfill=backfill)

    def close_trade(self, closing: Closing | Mapping[str, Any], *, backfill: bool = False) -> Receipt:
        """Take in the end of a trade that the agent had reported open."""
        return self.observe(closing, kind="closing", backfill=backfill)

    def _known_at(self, seen: Observed, now: datetime, backfill: bool) -> datetime:
        own_word = isinstance(seen, Claim | Closing)  # the agent knew of its own trade when it happened
        if self.agent.mode != "sim" and not backfill and not own_word:
            return now
        at = happened_at(seen) or now
        if not isinstance(seen, Tick):
            return at
        parts = [fill.t for fill in seen.fills] + [paid.t for paid in seen.funding] + [flow.t for flow in seen.cash_flows]
        return max([at, *parts])

    def import_items(self, seen: Iterable[Observed], source: Mapping[str, Any]) -> Imported:
        """Take in a file's worth of observations, all or none; each counts as known from its own time on."""
        listed = [completed(_checked(value), None) for value in seen]
        now = self.memory.clock.now()
        for value in listed:
            check_time(value, now)
        with self.memory.writing(self.agent.id) as tables:
            earlier = len(tables.items("import", EVERYTHING))
            batch = identify(self.agent.id, "import", digest(canonical_plain(plain(dict(source)))), earlier)
            writer = Writer(tables, self.agent, now)
            entries = [Entry(value, happened_at(value) or now, batch, own_times=isinstance(value, Bars)) for value in listed]
            new, known = writer.many(entries)
            if new:
                body = {**plain(dict(source)), "new": new, "duplicates": known, "recorded_at": spell_time(now)}
                known_at = max(entry.known_at for entry in entries)  # told after the fact, like all that it brought
                writer.declare(Item("import", batch, known_at, body), known_at)
            return Imported(batch, new, known)

    def preview(self, seen: Iterable[Observed]) -> tuple[int, int]:
        """How many of these would be new, and how many are known already; writes nothing."""
        names = [[(item.kind, item.key) for item in unpack(value)] for value in seen]
        with self.memory.reading(self.agent.id) as tables:
            known = tables.seen(name for several in names for name in several)
        taken: set[tuple[str, str]] = set(known)
        new = 0
        for several in names:
            if any(name not in taken for name in several):
                new += 1
            taken |= set(several)
        return new, len(names) - new

    def undo_import(self, batch: str) -> Receipt:
        """Take an import back: what it brought no longer counts, from now on; the log keeps it."""
        with self.memory.writing(self.agent.id) as tables:
            now = self._said_at(tables)
            if not tables.items("import", EVERYTHING, keys=[batch]):
                raise Unknown("batch", "import", batch, "List them with: memtape imports list")
            if done := tables.logged("undo", batch):
                return Receipt(done.stream, done.seq, done.hash, (), duplicate=True)
            writer = Writer(tables, self.agent, self.memory.clock.now())
            gone = tables.void_batch(batch, writer.head.seq + 1, now)
            whole = self._reported(tables, gone)
            tables.end_versions(list(whole), now)
            touched: dict[tuple[str, str], datetime] = {}
            everywhere = list(tables.positions(since=EPOCH)) if any(kind == "tick" for kind, *_ in gone) else []
            for kind, _, position, at in gone:
                for each in [position] if kind in ("fill", "funding") else everywhere if kind == "tick" else []:
                    touched[each] = min(touched.get(each, at), at)
            names = [f"{kind[0]}:{key}" for kind, key, _, _ in gone if kind in ("decision", "order")]
            for position, at in tables.fills_naming(names, upto=writer.head.seq).items() if names else ():
                touched[position] = min(touched.get(position, at), at)
            held = tables.positions({symbol for symbol, _ in touched})
            concluded: list[Told] = []
            fresh = Fresh(known_at=now)
            for position in sorted(touched):
                since, first = EPOCH, writer.head.first_snapshot  # from its beginning: what it stood on may be gone
                concluded += rederive(tables, self.agent, position, held.get(position), since, since, first, fresh.changed)
            fresh.changed |= whole
            fresh.shadows = self._unfollow(tables, [key for kind, key, *_ in gone if kind == "decision"])
            moved = min((at for kind, _, _, at in gone if kind in ("equity", "flow")), default=None)
            if moved is not None:
                fresh.changed[""] = moved  # no trade, but the account felt it
            writer.verified_from = verified_since(tables)
            receipt = writer.declare(Item("undo", batch, now, {"batch": batch, "items": len(gone)}), now, concluded)
            learn(tables, self.agent, writer.start, writer.verified_from, fresh)
            return receipt

    def _unfollow(self, tables: Tables, decisions: Sequence[str]) -> list[Decision]:
        """Follow decisions that were taken back no longer; those whose shadows end with that."""
        kept = tables.items("decision", EVERYTHING, keys=decisions, gone=True) if decisions else []
        found = [decision for item in kept if is_followed(decision := read(Decision, item.body))]
        for decision in found:
            Learned(tables).drop_shadow(decision.id or "")
        return found

    def _reported(self, tables: Tables, gone: Iterable[Gone]) -> dict[str, datetime | None]:
        """The trades reported whole that items taken back had told of, and when each ended."""
        found: dict[str, datetime | None] = {}
        for kind, key, position, at in gone:
            if kind == "closing":
                claims = tables.items("claim", EVERYTHING, keys=[key], gone=True)
                position = (claims[0].symbol, claims[0].leg) if claims else position
            if kind in ("trade", "claim", "closing"):
                id_ = reported_id(self.agent.id, "trade" if kind == "trade" else "claim", key, position)
                found[id_] = min(at, found.get(id_) or at)
        return found


def _skill(item: Kept) -> tuple[Skill, int]:
    body = dict(item.body)
    version = body.pop("version")
    return read(Skill, body), int(version)


def _skill_versions(tables: Tables, known: Known, id: str) -> list[Skill]:
    found = [_skill(item) for item in tables.items("skill", known, symbol=id)]
    return [skill for skill, _ in sorted(found, key=lambda pair: pair[1])]


def _find_agent(tables: Tables, id: str, known: Known = EVERYTHING) -> Agent | None:
    found = tables.items("agent", known, keys=[id])
    if not found or tables.items("agent_deleted", known, keys=[id]):
        return None
    agent = read(Agent, found[0].body)
    changes = tables.items("agent_version", known, symbol=id, newest=True, limit=1)
    return replace(agent, skill_version=changes[0].body["skill_version"]) if changes else agent


def _agent_of(tables: Tables, id: str, known: Known = EVERYTHING) -> Agent:
    found = _find_agent(tables, id, known)
    if found is None:
        raise Unknown("agent", "agent", id, "List them with list_agents, or make it with create_agent")
    return found


def _checked(seen: Observed) -> Observed:
    """A value made in Python, checked like any other."""
    if seen.kind not in READERS:
        raise Invalid("kind", f"'{seen.kind}' is not an observed kind", f"Use one of {', '.join(READERS)}")
    value: Observed = read(READERS[seen.kind], seen)
    return value


def completed(seen: Observed, now: datetime | None) -> Observed:
    """A decision on its own needs a time and an id; both have defaults."""
    if isinstance(seen, Decision):
        at = seen.t or now
        if at is None:
            raise Invalid("t", "is missing", "Give the time of the decision")
        return replace(seen, t=at, id=seen.id or identify("decision", plain(seen), spell_time(at)))
    if isinstance(seen, Claim):
        closed = seen.exit_price is not None
        at = seen.exit_at or (now if closed else None)
        entry_at = seen.entry_at or at or now
        if entry_at is None or (closed and at is None):
            raise Invalid("exit_at", "is missing", "Give the time at which the trade ended")
        seen = replace(seen, exit_at=at, entry_at=entry_at)
        return seen if now is not None or seen.trade_id else replace(seen, trade_id=content_of(seen))
    if isinstance(seen, Closing):
        at = seen.exit_at or now
        if at is None:
            raise Invalid("exit_at", "is missing", "Give the time at which the trade ended")
        return replace(seen, exit_at=at)
    return seen


def named_claim(tables: Tables, claim: Claim) -> Claim:
    """A claim with its id: the one it came with, or that of the same report within ten minutes, or one of its own."""
    if claim.trade_id is not None:
        if (row := tables.logged("claim", claim.trade_id)) is not None and row.payload is None:
            raise Conflict("trade_id", f"the trade '{claim.trade_id}' was destroyed", "Report it under another id")
        return claim
    content = content_of(claim)
    earlier = tables.items_about(f"c:{content}")
    at = claim.exit_at or claim.entry_at
    for item in earlier:
        if at is not None and abs(item.at - at) <= SAME_REPORT:
            return replace(claim, trade_id=item.key)
    number = len(earlier) + 1
    while tables.logged("claim", content if number == 1 else f"{content}-{number}") is not None:
        number += 1
    return replace(claim, trade_id=content if number == 1 else f"{content}-{number}")
