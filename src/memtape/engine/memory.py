"""Memory: the door to one owner's store, and to each of its agents.

>>> import memtape
>>> memory = memtape.open(":memory:")
>>> _ = memory.create_skill("breakout", strategy="Buy strength.")
>>> _ = memory.create_agent("desk", skill="breakout", mode="sim")
>>> memory.agent("desk").trades()
[]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import datetime
from functools import cache, cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

from memtape.core.calendar import CalendarEvent, backfilled_versions
from memtape.core.codec import plain
from memtape.core.events import TradeClosed
from memtape.core.ids import AgentId, OwnerId, SkillId
from memtape.core.items import OWNER_STREAM, Item, StoredItem
from memtape.core.observed import READERS, Bars, Claim, Closing, Observed, Tick, occurred_at
from memtape.core.skills import OWNER_AGENT, Agent, AgentSettings, Mode, Skill
from memtape.core.values import Slug, read
from memtape.documents.cache import GLOBAL, set_aside
from memtape.documents.index import DocumentIndex
from memtape.documents.search import Previous, Slot
from memtape.engine.briefs import ESTIMATED, BriefCache, Briefing, Tokens
from memtape.engine.column_cache import ColumnCache
from memtape.engine.deletion import destroy_agent, destroy_owner, refuse_deleted
from memtape.engine.documents.journal import Noting
from memtape.engine.imports import Importing
from memtape.engine.lessons import Models, Reflecting, due_after
from memtape.engine.view.plan_inputs import calendar_events
from memtape.engine.write.arrivals import checked_value, complete_value, named_claim
from memtape.engine.write.statements import Stating
from memtape.engine.write.writer import Arrival, Receipt, Writer, check_time
from memtape.errors import Conflict, Damaged, Unknown
from memtape.plugs.clock import Clock, SystemClock
from memtape.plugs.embedder import Embedder
from memtape.plugs.models import model_of
from memtape.store.cutoff import EVERYTHING, Cutoff
from memtape.store.database import Database
from memtape.store.tables import Tables

DEFAULT = "main"


class Memory:
    """Everything one owner's agents remember."""

    def __init__(
        self, database: Database, owner: str = "local", clock: Clock | None = None, *, models: Models = model_of,
        embedder: Callable[[], Embedder | None] = lambda: None, tokens: Tokens = ESTIMATED, documents: str = ":memory:",
        workspaces: str | None = None, slot: Slot = "sqlite_fts",
        document_embedder: Callable[[Slot], Embedder | None] = lambda slot: None, embedder_by_id: Previous = lambda id: None,
    ) -> None:  # fmt: skip
        self.database = database
        self.owner = OwnerId(read(Slug, owner, at="owner"))
        self.clock: Clock = clock or SystemClock()
        self.follower, self.made = ColumnCache(), BriefCache()
        self.models, self.tokens = models, tokens
        self._embedder, self._documents, self._workspaces = embedder, documents, workspaces
        self.slot, self.document_embedder, self.embedder_by_id = slot, cache(document_embedder), embedder_by_id

    @cached_property
    def embedder(self) -> Embedder | None:
        """What compares texts, where the slot is on."""
        return self._embedder()

    @cached_property
    def documents(self) -> DocumentIndex:
        """The index of documents: a cache in a file of its own."""
        return DocumentIndex(self._documents)

    def mend_documents(self) -> bool:
        """Set the index of documents aside if its file is damaged: the next sync of each agent makes it anew. Whether it was.

        It is opened again before that: another process may have set aside what is open here, and made a good one.
        """
        for _ in range(2):
            try:
                self.documents.check()
                return False
            except Damaged:
                if "documents" in self.__dict__:
                    self.documents.close()
                    del self.documents
        set_aside(self._documents)
        return True

    @property
    def has_documents(self) -> bool:
        """Whether there is an index of documents; asking for it does not make one."""
        return "documents" in self.__dict__ or Path(self._documents).exists()

    @property
    def workspace_home(self) -> Path | None:
        """The folder in which agents that were given no workspace get one; none for a store that keeps nothing."""
        if self._workspaces is None:
            return None
        return Path(self._workspaces) / ("" if self.owner == "local" else f"@{self.owner}")

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

    def skills(self, known: Cutoff = EVERYTHING) -> list[tuple[Skill, int]]:
        """Each skill in its latest version."""
        with self.reading(OWNER_STREAM) as tables:
            latest: dict[str, tuple[Skill, int]] = {}
            for item in tables.items("skill", known):
                latest[item.symbol] = _skill(item)
        return [latest[id_] for id_ in sorted(latest)]

    def skill(self, id: str, version: int | None = None, known: Cutoff = EVERYTHING) -> tuple[Skill, int]:
        """One skill, in its latest version or in another."""
        with self.reading(OWNER_STREAM) as tables:
            versions = _skill_versions(tables, known, id)
        if not versions:
            raise Unknown("skill", "skill", id, "List them with list_skills, or make it with create_skill")
        if version is not None and not 1 <= version <= len(versions):
            raise Unknown("version", f"version of skill '{id}'", str(version), f"It has versions 1 to {len(versions)}")
        number = version or len(versions)
        return versions[number - 1], number

    def skill_of(self, agent: Agent, known: Cutoff = EVERYTHING) -> tuple[Skill, int]:
        """The skill that an agent runs, in the version it runs; before its first write, an empty one."""
        with self.reading(OWNER_STREAM) as tables:
            versions = _skill_versions(tables, known, agent.skill)
        if not versions:
            return Skill(id=agent.skill), 1
        version = min(agent.skill_version, len(versions))
        return versions[version - 1], version

    def agent_then(self, agent: Agent, known: Cutoff) -> tuple[Agent, Skill, int]:
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

    def agents(self, known: Cutoff = EVERYTHING) -> list[Agent]:
        """Every agent."""
        with self.reading(OWNER_STREAM) as tables:
            gone = {item.key for item in tables.items("agent_deleted", known)}
            found = [_agent_of(tables, item.key, known) for item in tables.items("agent", known) if item.key not in gone]
        return sorted(found, key=lambda agent: agent.id)

    def agent(self, id: str = DEFAULT, known: Cutoff = EVERYTHING) -> AgentMemory:
        """The memory of one agent."""
        with self.reading(OWNER_STREAM) as tables:
            return AgentMemory(self, _agent_of(tables, id, known))

    def default_agent(self) -> AgentMemory:
        """The memory of the default agent; before its first write it is there all the same, with nothing in it."""
        with self.reading(OWNER_STREAM) as tables:
            found = _find_agent(tables, DEFAULT)
        return AgentMemory(self, found or Agent(id=AgentId(DEFAULT), skill=SkillId(DEFAULT)))

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
        rows = destroy_agent(self, id, confirm)
        self._forget_documents([id])
        return rows

    def erase_owner(self, confirm: str) -> tuple[list[str], int]:
        """Destroy everything of this owner; which streams, and how many log rows. There is no way back."""
        gone, rows = destroy_owner(self, confirm)
        self._forget_documents(gone)
        return gone, rows

    def _forget_documents(self, streams: Iterable[str]) -> None:
        """Drop what the index holds of some agents, or of all that is shared; the files stay."""
        if self.has_documents:
            for stream in streams:
                self.documents.forget(self.owner, GLOBAL if stream == OWNER_STREAM else stream)

    # ---- the calendar -------------------------------------------------------------------------------------------------

    def record_events(self, events: Iterable[CalendarEvent | Mapping[str, Any]], *, backfill: bool = False) -> tuple[int, int]:
        """Take in scheduled events, or what is newly known of them; how many were new, how many known.

        With `backfill` a schedule counts as known a month ahead of its event, and the actual figure from its release on.
        """
        listed = [read(CalendarEvent, event) for event in events]
        with self.writing(OWNER_STREAM) as tables:
            known = {event.id: event for event in calendar_events(tables)}
            fresh = [event for event in listed if known.get(event.id) != event]
            seq = tables.head().seq
            writer = Writer(tables, OWNER_AGENT, self.clock.now())
            for event in fresh:
                for each, known_at in backfilled_versions(event) if backfill else [(event, self.clock.now())]:
                    seq += 1
                    writer.declare(Item("event", f"{event.id}#{seq}", each.t, plain(each), event.id), known_at)
        return len(fresh), len(listed) - len(fresh)

    def events(self, known: Cutoff = EVERYTHING) -> list[CalendarEvent]:
        """The calendar, each event as it was last stated."""
        with self.reading(OWNER_STREAM) as tables:
            return calendar_events(tables, known)

    def _state(self, tables: Tables, kind: str, key: str, body: dict[str, Any], symbol: str = "") -> None:
        """Record a statement of the owner."""
        now = self.clock.now()
        Writer(tables, OWNER_AGENT, now).declare(Item(kind, key, now, body, symbol), now)


class AgentMemory(Stating, Importing, Reflecting, Noting, Briefing):
    """What one agent remembers: observe to write, the rest to read."""

    def __init__(self, memory: Memory, agent: Agent) -> None:
        super().__init__(memory, agent, memory.follower)
        self.memory = memory

    def observe(self, seen: Observed | Mapping[str, Any], *, kind: str = "tick", backfill: bool = False) -> Receipt:
        """Take in a tick, a fill, funding, a closed trade, an equity mark, a cash flow, a decision or bars.

        Plain data is read as a value of `kind`. `backfill` says that it is told after the fact: it then counts as known
        from its own time on, not from now.
        """
        value: Observed = read(READERS[kind], seen) if isinstance(seen, Mapping) else checked_value(seen)
        now = self.memory.clock.now()
        value = self.with_citations(complete_value(value, now))
        check_time(value, now)
        with self.memory.writing(self.agent.id) as tables:
            if isinstance(value, Claim):
                value = named_claim(tables, value)
            known_at = self._known_at(value, now, backfill)
            own_times = isinstance(value, Bars) and (backfill or self.agent.mode == "sim")
            receipt = Writer(tables, self.agent, now).one(Arrival(value, known_at, own_times=own_times))
            if receipt.duplicate or not any(isinstance(event, TradeClosed) for event in receipt.concluded):
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
        at = occurred_at(seen) or now
        if not isinstance(seen, Tick):
            return at
        parts = [fill.t for fill in seen.fills] + [paid.t for paid in seen.funding] + [flow.t for flow in seen.cash_flows]
        return max([at, *parts])


def _skill(item: StoredItem) -> tuple[Skill, int]:
    body = dict(item.body)
    version = body.pop("version")
    return read(Skill, body), int(version)


def _skill_versions(tables: Tables, known: Cutoff, id: str) -> list[Skill]:
    found = [_skill(item) for item in tables.items("skill", known, symbol=id)]
    return [skill for skill, _ in sorted(found, key=lambda pair: pair[1])]


def _find_agent(tables: Tables, id: str, known: Cutoff = EVERYTHING) -> Agent | None:
    found = tables.items("agent", known, keys=[id])
    if not found or tables.items("agent_deleted", known, keys=[id]):
        return None
    agent = read(Agent, found[0].body)
    changes = tables.items("agent_version", known, symbol=id, newest=True, limit=1)
    return replace(agent, skill_version=changes[0].body["skill_version"]) if changes else agent


def _agent_of(tables: Tables, id: str, known: Cutoff = EVERYTHING) -> Agent:
    found = _find_agent(tables, id, known)
    if found is None:
        raise Unknown("agent", "agent", id, "List them with list_agents, or make it with create_agent")
    return found
