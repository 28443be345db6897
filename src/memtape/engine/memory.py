"""Memory: the door to one owner's store, and to each of its agents.

>>> import memtape
>>> memory = memtape.open(":memory:")
>>> _ = memory.create_skill("breakout", strategy="Buy strength.")
>>> _ = memory.create_agent("desk", skill="breakout", mode="sim")
>>> memory.agent("desk").ledger.trades()
[]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from memtape.core.authors import LogAuthor
from memtape.core.codec import plain
from memtape.core.ids import AgentId, OwnerId, SkillId
from memtape.core.items import OWNER_STREAM
from memtape.core.skills import ASSUMED_EQUITY, DEFAULT_AGENT, Agent, AgentSettings, Mode, Skill
from memtape.core.values import read
from memtape.engine.agent import AgentMemory
from memtape.engine.arguments import require_mapping, require_name, require_row, require_several
from memtape.engine.brief_cache import BriefCache
from memtape.engine.resources import Resources
from memtape.engine.view.owner_stream import (
    agent_ids,
    agent_named,
    find_agent,
    other_agents,
    skill_from_item,
    skill_of,
    skill_versions,
    unknown_skill,
)
from memtape.errors import Conflict, PermissionDenied, Unknown
from memtape.store.cutoff import EVERYTHING, Cutoff
from memtape.store.tables import Tables

if TYPE_CHECKING:
    from memtape.core.calendar import CalendarEvent, StatedEvent
    from memtape.core.decisions.agent_config import ConfiguredAgent
    from memtape.core.decisions.cards import CardDefinition
    from memtape.engine.agent_configs import AgentConfigs
    from memtape.engine.calendar import Calendar
    from memtape.engine.chats import Chats
    from memtape.engine.coach import Coach
    from memtape.engine.facts import Facts
    from memtape.engine.strategies import Strategies
    from memtape.plugs.clock import Clock
    from memtape.store.database import Database


class Memory:
    """Everything one owner's agents remember."""

    _only: str | None = None  # the one agent that can be reached; None: all
    _origin: Memory | None = None  # the memory that this one was made from

    def __init__(self, database: Database, owner: str = "local", clock: Clock | None = None, **options: Any) -> None:
        """`options` are those of `Resources`: models, embedders, the index of documents."""
        self.resources = Resources(database, owner, clock, **options)

    def bound_to(self, agent: str) -> Memory:
        """The same memory for a caller that may reach one agent only: it neither lists nor opens any other."""
        memory = self._with(self.resources)
        memory._only = agent
        return memory

    def said_by(self, author: LogAuthor) -> Memory:
        """The same memory for another author: what is written through it is recorded as that author's."""
        return self._with(self.resources.said_by(author))

    @classmethod
    def of(cls, resources: Resources) -> Memory:
        """The memory of resources that are open."""
        memory = cls.__new__(cls)
        memory.resources = resources
        return memory

    def _with(self, resources: Resources) -> Memory:
        """The same memory with other resources; briefs that were assembled are shared."""
        memory = Memory.of(resources)
        memory._only, memory._origin = self._only, self._origin or self
        return memory

    @cached_property
    def _briefs(self) -> BriefCache:
        """The briefs that were assembled lately."""
        return self._origin._briefs if self._origin is not None else BriefCache()

    # What belongs to the owner and to no agent is imported when it is first used.

    @cached_property
    def facts(self) -> Facts:
        """What is known about the owner."""
        from memtape.engine.facts import Facts

        return Facts(self.resources)

    @cached_property
    def coach(self) -> Coach:
        """What a chat is told at its start."""
        from memtape.engine.coach import Coach

        return Coach(self.resources)

    @cached_property
    def chats(self) -> Chats:
        """Chats with the coach."""
        from memtape.engine.chats import Chats

        return Chats(self.resources, self.coach)

    @cached_property
    def strategies(self) -> Strategies:
        """Strategies that are proposed and confirmed."""
        from memtape.engine.strategies import Strategies

        return Strategies(self.resources)

    @cached_property
    def calendar(self) -> Calendar:
        """The owner's calendar: events, and the files that they came from."""
        from memtape.engine.calendar import Calendar

        return Calendar(self.resources)

    @cached_property
    def _configs(self) -> AgentConfigs:
        """How agents are run."""
        from memtape.engine.agent_configs import AgentConfigs

        return AgentConfigs(self.resources)

    @contextmanager
    def at_one_state(self) -> Iterator[Memory]:
        """The same memory in one read transaction: whatever is read of it, by however many calls, is of one state."""
        with self.resources.at_one_state() as resources:
            yield self._with(resources)

    @property
    def database(self) -> Database:
        """The open database."""
        return self.resources.database

    @property
    def owner(self) -> OwnerId:
        """Whose memory it is."""
        return self.resources.owner

    @property
    def clock(self) -> Clock:
        """The clock of the host."""
        return self.resources.clock

    @property
    def url(self) -> str:
        """The address of the store."""
        return self.resources.database.url

    def close(self) -> None:
        """Close the store."""
        self.resources.close()

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # ---- skills ------------------------------------------------------------------------------------------------------

    def create_skill(
        self, id: str, *, name: str = "", strategy: str = "", avoid: Iterable[str] = (),
        limits: Mapping[str, str] | None = None, memory: Mapping[str, Any] | None = None,
        author: Literal["model"] | None = None,
    ) -> tuple[Skill, int]:  # fmt: skip
        """A skill and its version: a new version if the content is new, else the present one. `author`: None for the owner."""
        from memtape.plugs.models import check_reflector

        skill = read(
            Skill,
            {"id": id, "name": name, "strategy": strategy, "avoid": tuple(require_several("avoid", avoid)),
             "limits": {} if limits is None else require_mapping("limits", limits),
             "context": {} if memory is None else {"memory": require_mapping("memory", memory)}, "author": author},
        )  # fmt: skip
        check_reflector(skill.context.memory.reflection.model)
        with self.resources.writing(OWNER_STREAM) as tables:
            versions = skill_versions(tables, skill.id)
            if versions and versions[-1] == skill:
                return skill, len(versions)
            version = len(versions) + 1
            self._state(tables, "skill", f"{skill.id}@{version}", plain(skill) | {"version": version}, symbol=skill.id)
            return skill, version

    def skills(self, cutoff: Cutoff = EVERYTHING) -> list[tuple[Skill, int]]:
        """Each skill in its latest version."""
        with self.resources.reading(OWNER_STREAM) as tables:
            latest: dict[str, tuple[Skill, int]] = {}
            for item in tables.items("skill", cutoff):
                latest[item.symbol] = skill_from_item(item)
        return [latest[id_] for id_ in sorted(latest)]

    def skill(self, id: str, version: int | None = None, cutoff: Cutoff = EVERYTHING) -> tuple[Skill, int]:
        """One skill, in its latest version or in another."""
        require_name("skill", id)
        if version is not None:
            require_row("version", version)
        with self.resources.reading(OWNER_STREAM) as tables:
            versions = skill_versions(tables, id, cutoff)
            if not versions:
                raise unknown_skill(tables, id, cutoff, "List them with list_skills, or make it with create_skill")
        if version is not None and not 1 <= version <= len(versions):
            raise Unknown("version", f"version of skill '{id}'", str(version), f"It has versions 1 to {len(versions)}")
        number = version or len(versions)
        return versions[number - 1], number

    def skill_of(self, agent: Agent, cutoff: Cutoff = EVERYTHING) -> tuple[Skill, int]:
        """The skill that an agent runs, in the version it runs; before its first write, an empty one."""
        with self.resources.reading(OWNER_STREAM) as tables:
            return skill_of(tables, agent, cutoff)

    # ---- agents ------------------------------------------------------------------------------------------------------

    def create_agent(
        self, id: str, *, skill: str = DEFAULT_AGENT, mode: Mode = "paper",
        settings: Mapping[str, Any] | AgentSettings | None = None, skill_version: int | None = None,
    ) -> Agent:  # fmt: skip
        """Create an agent. Creating it twice changes nothing; another content under the same id is refused.

        The skill `main` is created with the first agent that runs it; every other one must exist.
        """
        if skill_version is not None:
            require_row("skill_version", skill_version)
        if isinstance(settings, AgentSettings):
            given = asdict(settings)
        else:
            given = {} if settings is None else require_mapping("settings", settings)
        wanted = read(Agent, {"id": id, "skill": skill, "mode": mode, "settings": given})
        if isinstance(settings, Mapping) and "starting_equity" in given and wanted.settings.starting_equity == ASSUMED_EQUITY:
            wanted = replace(wanted, settings=replace(wanted.settings, equity_stated=True))
        if skill == DEFAULT_AGENT:
            self._create_default_skill()
        with self.resources.writing(OWNER_STREAM) as tables:
            versions = skill_versions(tables, wanted.skill)
            if not versions:
                raise unknown_skill(tables, skill, fix="Make it first, with create_skill")
            if tables.items("agent_deleted", EVERYTHING, keys=[wanted.id]):
                raise Conflict(
                    "id", f"the agent '{id}' was deleted", "Choose another id: the log of a deleted agent stays closed"
                )
            existing = find_agent(tables, wanted.id)
            version = skill_version or (existing.skill_version if existing else len(versions))
            if not 1 <= version <= len(versions):
                raise Unknown("skill_version", f"version of skill '{skill}'", str(version), f"It has 1 to {len(versions)}")
            wanted = replace(wanted, skill_version=version)
            if existing:
                # Whether somebody stated the equity that is assumed anyway makes no other agent.
                wanted = replace(wanted, settings=replace(wanted.settings, equity_stated=existing.settings.equity_stated))
                if existing != wanted:
                    problem = f"the agent '{id}' exists with another skill, mode or setting"
                    raise Conflict("id", problem, "Choose another id; mode and settings never change")
                return wanted
            self._state(tables, "agent", wanted.id, plain(wanted))
            # The agent gets its stream at once, so that its disappearance would be noticed.
            Tables(tables.session, self.owner, wanted.id).make_head()
            return wanted

    def use_skill_version(self, id: str, version: int) -> Agent:
        """Let an agent run another version of its skill; trades keep the version they were entered under."""
        require_name("agent", id)
        require_row("skill_version", version)
        with self.resources.writing(OWNER_STREAM) as tables:
            agent = agent_named(tables, id)
            versions = skill_versions(tables, agent.skill)
            if not 1 <= version <= len(versions):
                raise Unknown("skill_version", f"version of skill '{agent.skill}'", str(version), f"It has 1 to {len(versions)}")
            if version != agent.skill_version:
                number = len(tables.items("agent_version", EVERYTHING, symbol=id)) + 1
                self._state(tables, "agent_version", f"{id}#{number}", {"skill_version": version}, symbol=id)
        return replace(agent, skill_version=version)

    # ---- how agents are run ------------------------------------------------------------------------------------------

    def configure_agent(self, id: str, changes: Mapping[str, Any]) -> ConfiguredAgent:
        """Change how an agent is run; what `changes` does not name stays as it is. Returns the configuration in force."""
        return self._configs.change(id, changes)

    def agent_config(self, id: str, cutoff: Cutoff = EVERYTHING) -> ConfiguredAgent:
        """How an agent is run."""
        self._require_reachable(id)
        return self._configs.config_of(id, cutoff)

    def declare_card_type(self, declared: CardDefinition | Mapping[str, Any]) -> CardDefinition:
        """Declare a card type, or change its slots; cards on record keep theirs."""
        return self._configs.declare_card_type(declared)

    def card_types(self, cutoff: Cutoff = EVERYTHING) -> dict[str, CardDefinition]:
        """Every card type by its name, those that ship included."""
        return self._configs.card_types(cutoff)

    def agents(self, cutoff: Cutoff = EVERYTHING) -> list[Agent]:
        """Every agent."""
        with self.resources.reading(OWNER_STREAM) as tables:
            found = [agent_named(tables, id_, cutoff) for id_ in agent_ids(tables, cutoff)]
        return sorted((agent for agent in found if self._only in (None, agent.id)), key=lambda agent: agent.id)

    def agent(self, id: str = DEFAULT_AGENT, cutoff: Cutoff = EVERYTHING) -> AgentMemory:
        """The memory of one agent."""
        self._require_reachable(id)
        with self.resources.reading(OWNER_STREAM) as tables:
            return self._memory_of(agent_named(tables, id, cutoff))

    def default_agent(self) -> AgentMemory:
        """The memory of the default agent. In a store without agents it exists with nothing in it until its first write."""
        self._require_reachable(DEFAULT_AGENT)
        with self.resources.reading(OWNER_STREAM) as tables:
            found = find_agent(tables, DEFAULT_AGENT)
            if found is None and (others := agent_ids(tables)):
                raise Unknown("agent", "agent", DEFAULT_AGENT, other_agents(others, DEFAULT_AGENT))
        return self._memory_of(found or Agent(id=AgentId(DEFAULT_AGENT), skill=SkillId(DEFAULT_AGENT)))

    def agent_for_writing(self, id: str | None, *, make: bool = False, settings: Mapping[str, Any] | None = None) -> AgentMemory:
        """An agent to write to. With `make` it is created on first use: of skill `main`, mode paper.

        So is the default agent in a store without agents. Where there are others, a write that names none is refused, because it
        was most likely meant for one of them. `settings` are those of an agent that is created.
        """
        name = DEFAULT_AGENT if id is None or id == "" else id
        self._require_reachable(name)
        if make or name == DEFAULT_AGENT:
            with self.resources.reading(OWNER_STREAM) as tables:
                exists = find_agent(tables, name) is not None
                if not exists and id is None and not make and (others := agent_ids(tables)):
                    raise Unknown("agent", "agent", name, other_agents(others, name))
            if not exists:
                self.create_agent(name, settings=settings)
        return self.agent(name)

    def _create_default_skill(self) -> None:
        with self.resources.reading(OWNER_STREAM) as tables:
            exists = bool(skill_versions(tables, DEFAULT_AGENT))
        if not exists:
            self.create_skill(DEFAULT_AGENT)

    def _require_reachable(self, id: str) -> None:
        require_name("agent", id)
        if self._only not in (None, id):
            raise PermissionDenied("agent", f"'{id}' is another agent, permission denied for the model of '{self._only}'")

    def _memory_of(self, agent: Agent) -> AgentMemory:
        return AgentMemory(self.resources, agent, self._briefs)

    def delete_agent(self, id: str, confirm: str) -> int:
        """Delete an agent and destroy everything recorded of it; returns how many log rows. This cannot be undone."""
        from memtape.engine.deletion import destroy_agent

        return destroy_agent(self.resources, require_name("agent", id), confirm)

    def erase_owner(self, confirm: str) -> tuple[list[str], int]:
        """Destroy everything of this owner; returns the streams and how many log rows. This cannot be undone."""
        from memtape.engine.deletion import destroy_owner

        return destroy_owner(self.resources, confirm)

    # ---- the calendar --------------------------------------------------------------------------------------------------

    def record_events(self, events: Iterable[StatedEvent | Mapping[str, Any]], *, backfill: bool = False) -> tuple[int, int]:
        """Record scheduled events, or new facts about them; returns how many were new and how many were known.

        With `backfill` a schedule counts as known a month ahead of its event, and the actual figure from its release on.
        """
        counts = self.calendar.record(events, backfill=backfill)
        return counts.new + counts.changed, counts.known

    def events(self, cutoff: Cutoff = EVERYTHING) -> list[CalendarEvent]:
        """The calendar, each event as it stands."""
        return self.calendar.events(cutoff)

    def _state(self, tables: Tables, kind: str, key: str, body: dict[str, Any], symbol: str = "") -> None:
        from memtape.engine.owner_statements import record_statement

        record_statement(self.resources, tables, kind, key, body, symbol)
