"""Operations on agents: running instances of a skill on one account."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, ValidatorFunctionWrapHandler, field_validator

from memtape.core.codec import plain
from memtape.core.skills import ASSUMED_EQUITY, DEFAULT_AGENT, AgentSettings, Mode
from memtape.core.values import Slug
from memtape.store.cutoff import EVERYTHING, Cutoff
from memtape.surfaces.answer_models import Answer, answer_model
from memtape.surfaces.answers import optional_time_text
from memtape.surfaces.questions import Ask, OfOwner
from memtape.surfaces.registry import operation

if TYPE_CHECKING:
    from memtape.engine import Memory
    from memtape.surfaces.caller import Caller


class CreateAgent(Ask):
    """An agent to create."""

    id: Annotated[Slug, Field(description="permanent id: a-z, 0-9, dot, dash, underscore")]
    skill: Annotated[Slug, Field(description="the skill it runs; main is created with its first agent")] = DEFAULT_AGENT
    mode: Annotated[Mode, Field(description="sim, paper or live; cannot be changed")] = "paper"
    skill_version: Annotated[int | None, Field(ge=1, description="default: the latest")] = None
    settings: Annotated[
        AgentSettings | None,
        Field(description="currency, mfe_mode, dust_qty, starting_equity, settle_seconds, trade_unit; fixed for life"),
    ] = None

    @field_validator("settings", mode="wrap")
    @classmethod
    def _state_equity(cls, given: Any, read: ValidatorFunctionWrapHandler) -> AgentSettings | None:
        # Once read, a stated equity of 10,000 looks like the one that is assumed where nobody states any.
        settings: AgentSettings | None = read(given)
        if settings is None or not isinstance(given, Mapping) or "starting_equity" not in given:
            return settings
        return replace(settings, equity_stated=True) if settings.starting_equity == ASSUMED_EQUITY else settings


class UseSkillVersion(Ask):
    """Which version an agent uses from now on."""

    id: Annotated[Slug, Field(description="id of the agent")]
    skill_version: Annotated[int, Field(ge=1, description="the version; existing trades keep theirs")]


AgentSettingsRow = answer_model(
    AgentSettings,
    {
        "currency": "account currency", "mfe_mode": "how excursions are measured", "dust_qty": "a smaller position is none",
        "starting_equity": "for the equity curve where the broker gives no equity; 10000 is assumed where nobody states it",
        "settle_seconds": "how long a snapshot may lag behind the fills before it counts as a contradiction",
        "trade_unit": "flat_to_flat: one trade per round trip; fifo_lots: one per lot and reduction",
        "equity_stated": "true: somebody stated the 10000",
    },
    sparse=True,
)  # fmt: skip


class AgentAnswer(Answer):
    """An agent and its status."""

    id: Annotated[str, Field(description="the agent")]
    skill: Annotated[str, Field(description="its skill")]
    skill_version: Annotated[int, Field(description="the version it uses")]
    mode: Annotated[str, Field(description="sim, paper or live")]
    settings: Annotated[AgentSettingsRow, Field(description="account settings")]  # type: ignore[valid-type]
    log_rows: Annotated[int, Field(description="rows in its log")]
    last_tick: Annotated[str | None, Field(description="UTC")]
    last_known_at: Annotated[str | None, Field(description="UTC; time of its latest record")]


class AgentList(Answer):
    """Agents."""

    agents: Annotated[list[AgentAnswer], Field(description="the agents")]
    n: Annotated[int, Field(description="how many")]


class ShowAgent(OfOwner):
    """Which agent."""

    id: Annotated[Slug, Field(description="id of the agent")]


def _agent_answer(memory: Memory, id: str, known: Cutoff = EVERYTHING) -> AgentAnswer:
    found = memory.agent(id, known)
    agent, head = found.agent, found.head()
    return AgentAnswer(
        id=agent.id, skill=agent.skill, skill_version=agent.skill_version, mode=agent.mode,
        # Defaults that depend on the mode are filled in, so that the answer says what holds.
        settings=AgentSettingsRow(**plain(replace(
            agent.settings, settle_seconds=agent.settle_seconds, trade_unit=agent.terms().trade_unit
        ))),
        log_rows=head.seq, last_tick=optional_time_text(head.last_tick), last_known_at=optional_time_text(head.known_at),
    )  # fmt: skip


@operation(writes=True)
def create_agent(memory: Memory, ask: CreateAgent, caller: Caller) -> AgentAnswer:
    """Create an agent: one running instance of a skill on one account. Repeating it changes nothing."""
    memory.create_agent(ask.id, skill=ask.skill, mode=ask.mode, settings=ask.settings, skill_version=ask.skill_version)
    return _agent_answer(memory, ask.id)


@operation(writes=True)
def use_skill_version(memory: Memory, ask: UseSkillVersion, caller: Caller) -> AgentAnswer:
    """Switch an agent to another version of its skill. Owner only."""
    memory.use_skill_version(ask.id, ask.skill_version)
    return _agent_answer(memory, ask.id)


@operation(writes=False, columns=("id", "skill", "skill_version", "mode", "log_rows", "last_tick"))
def list_agents(memory: Memory, ask: OfOwner, caller: Caller) -> AgentList:
    """List every agent and its status."""
    found = [_agent_answer(memory, agent.id, ask.cutoff) for agent in memory.agents(ask.cutoff)]
    return AgentList(agents=found, n=len(found))


@operation(writes=False)
def show_agent(memory: Memory, ask: ShowAgent, caller: Caller) -> AgentAnswer:
    """Get one agent and its status."""
    return _agent_answer(memory, ask.id, ask.cutoff)
