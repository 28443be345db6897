"""Skills and agents: what is traded, by which words, and who trades it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from memtape.core.codec import plain
from memtape.core.skills import AgentSettings, MemoryConfig, Mode
from memtape.core.values import Label, Line, Slug
from memtape.store.cutoff import EVERYTHING, Cutoff
from memtape.surfaces.answers import (
    Answer,
    Ask,
    OfOwner,
    optional_time_text,
)
from memtape.surfaces.registry import operation

if TYPE_CHECKING:
    from memtape.engine import Memory
    from memtape.surfaces.caller import Caller


def known_of(ask: OfOwner) -> Cutoff:
    return Cutoff(ask.as_of, ask.head)


# ---- skills --------------------------------------------------------------------------------------------------------------


class CreateSkill(Ask):
    """A skill to make, or a new version of one."""

    id: Annotated[Slug, Field(description="its name for ever: a-z, 0-9, dot, dash, underscore")]
    name: Annotated[Line, Field(max_length=120, description="what people call it")] = ""
    strategy: Annotated[str, Field(max_length=20_000, description="the strategy in words")] = ""
    avoid: Annotated[list[Line], Field(max_length=64, description="hard rules: what never to do")] = Field(default_factory=list)
    limits: Annotated[dict[Label, Line], Field(description="limits by name, as text")] = Field(default_factory=dict)
    memory: Annotated[MemoryConfig | None, Field(description="what of its memory an agent is shown")] = None


class SkillAnswer(Answer):
    """A version of a skill."""

    id: Annotated[str, Field(description="the skill")]
    version: Annotated[int, Field(description="1, 2, ...")]
    name: Annotated[str, Field(description="what people call it")]
    strategy: Annotated[str, Field(description="the strategy in words")]
    avoid: Annotated[list[str], Field(description="what never to do")]
    limits: Annotated[dict[str, str], Field(description="limits by name")]
    memory: Annotated[dict[str, Any], Field(description="its memory configuration, complete")]


class SkillList(Answer):
    """Skills."""

    skills: Annotated[list[SkillAnswer], Field(description="each in its latest version")]
    n: Annotated[int, Field(description="how many")]


class ShowSkill(OfOwner):
    """Which skill."""

    id: Annotated[Slug, Field(description="the skill")]
    version: Annotated[int | None, Field(ge=1, description="default: the latest")] = None


def _skill_answer(found: tuple[Any, int]) -> SkillAnswer:
    skill, version = found
    return SkillAnswer(
        id=skill.id, version=version, name=skill.name, strategy=skill.strategy, avoid=list(skill.avoid),
        limits=dict(skill.limits), memory=plain(skill.context.memory),
    )  # fmt: skip


@operation(writes=True)
def create_skill(memory: Memory, ask: CreateSkill, caller: Caller) -> SkillAnswer:
    """Make a skill, or its next version if the content differs from the latest."""
    if any(skill.id == ask.id for skill, _ in memory.skills()):
        caller.require_owner("change a skill")
    config = None if ask.memory is None else plain(ask.memory)
    return _skill_answer(
        memory.create_skill(ask.id, name=ask.name, strategy=ask.strategy, avoid=ask.avoid, limits=ask.limits, memory=config)
    )


@operation(writes=False, tools={"coach"})
def list_skills(memory: Memory, ask: OfOwner, caller: Caller) -> SkillList:
    """Every skill in its latest version."""
    found = [_skill_answer(each) for each in memory.skills(known_of(ask))]
    return SkillList(skills=found, n=len(found))


@operation(writes=False)
def show_skill(memory: Memory, ask: ShowSkill, caller: Caller) -> SkillAnswer:
    """One skill, in its latest version or in another."""
    return _skill_answer(memory.skill(ask.id, ask.version, known_of(ask)))


# ---- agents --------------------------------------------------------------------------------------------------------------


class CreateAgent(Ask):
    """An agent to make."""

    id: Annotated[Slug, Field(description="its name for ever: a-z, 0-9, dot, dash, underscore")]
    skill: Annotated[Slug, Field(description="the skill it runs")]
    mode: Annotated[Mode, Field(description="sim, paper or live; never changes")] = "paper"
    skill_version: Annotated[int | None, Field(ge=1, description="default: the latest")] = None
    settings: Annotated[AgentSettings | None, Field(description="account currency, excursion mode, dust, starting equity")] = None


class UseSkillVersion(Ask):
    """Which version an agent runs from now on."""

    id: Annotated[Slug, Field(description="the agent")]
    skill_version: Annotated[int, Field(ge=1, description="the version; trades keep the one they were entered under")]


class AgentAnswer(Answer):
    """An agent and where it stands."""

    id: Annotated[str, Field(description="the agent")]
    skill: Annotated[str, Field(description="its skill")]
    skill_version: Annotated[int, Field(description="the version it runs")]
    mode: Annotated[str, Field(description="sim, paper or live")]
    settings: Annotated[dict[str, Any], Field(description="what its account fixes")]
    log_rows: Annotated[int, Field(description="what was observed of it")]
    last_tick: Annotated[str | None, Field(description="UTC")]
    last_known_at: Annotated[str | None, Field(description="UTC: the latest it knows of")]


class AgentList(Answer):
    """Agents."""

    agents: Annotated[list[AgentAnswer], Field(description="each with where it stands")]
    n: Annotated[int, Field(description="how many")]


class ShowAgent(OfOwner):
    """Which agent."""

    id: Annotated[Slug, Field(description="the agent")]


def _agent_answer(memory: Memory, id: str, known: Cutoff = EVERYTHING) -> AgentAnswer:
    found = memory.agent(id, known)
    agent, head = found.agent, found.head()
    return AgentAnswer(
        id=agent.id, skill=agent.skill, skill_version=agent.skill_version, mode=agent.mode, settings=plain(agent.settings),
        log_rows=head.seq, last_tick=optional_time_text(head.last_tick), last_known_at=optional_time_text(head.known_at),
    )  # fmt: skip


@operation(writes=True)
def create_agent(memory: Memory, ask: CreateAgent, caller: Caller) -> AgentAnswer:
    """Make an agent: one running instance of a skill on one account. The same again is the same."""
    memory.create_agent(ask.id, skill=ask.skill, mode=ask.mode, settings=ask.settings, skill_version=ask.skill_version)
    return _agent_answer(memory, ask.id)


@operation(writes=True)
def use_skill_version(memory: Memory, ask: UseSkillVersion, caller: Caller) -> AgentAnswer:
    """Let an agent run another version of its skill from now on."""
    caller.require_owner("choose the version of a skill")
    memory.use_skill_version(ask.id, ask.skill_version)
    return _agent_answer(memory, ask.id)


@operation(writes=False)
def list_agents(memory: Memory, ask: OfOwner, caller: Caller) -> AgentList:
    """Every agent and where it stands."""
    found = [_agent_answer(memory, agent.id, known_of(ask)) for agent in memory.agents(known_of(ask))]
    return AgentList(agents=found, n=len(found))


@operation(writes=False)
def show_agent(memory: Memory, ask: ShowAgent, caller: Caller) -> AgentAnswer:
    """One agent and where it stands."""
    return _agent_answer(memory, ask.id, known_of(ask))
