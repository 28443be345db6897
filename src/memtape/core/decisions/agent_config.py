"""How an agent is run: its switches, runner, schedule and budget. Versioned in the owner's stream; only the owner changes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import datetime
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field

from memtape.core.codec import plain
from memtape.core.decisions.cards import TRADE_DECISION
from memtape.core.ids import AgentId
from memtape.core.value_class import dataclass
from memtape.core.values import SLUG, STRICT, ModelName, Price, read
from memtape.errors import Invalid

DEFAULT_PROMPT = "Look at the market and at your records, and decide."
RunnerName = Annotated[str, Field(min_length=1, max_length=500)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """The configuration of an agent, as the owner stated it last."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    active_memory: Annotated[bool, Field(description="chat and runs share one session that carries context from run to run")] = (
        False
    )
    review_decisions: Annotated[bool, Field(description="each run first asks for its last decisions (get_my_decisions)")] = False
    runner: Annotated[
        RunnerName | None, Field(description="callable:MODULE:FUNCTION, callable:/path/file.py:FUNCTION, llm, or claude")
    ] = None
    model: Annotated[ModelName | None, Field(description="for llm: anthropic/NAME or openai/NAME; claude: its name")] = None
    default_prompt: Annotated[str, Field(max_length=20_000, description="what a scheduled run is asked")] = DEFAULT_PROMPT
    schedule: Annotated[
        str | None, Field(max_length=200, description="'every 15m' (m, h, d) or a cron of five fields, in UTC")
    ] = None
    members: Annotated[
        tuple[Annotated[AgentId, SLUG], ...],
        Field(max_length=12, description="its council: agents that give their view first, without knowing the position"),
    ] = ()
    budget_usd_per_day: Annotated[Price | None, Field(description="US dollars per UTC day; runs stop when it is spent")] = None
    runs_per_day: Annotated[int | None, Field(ge=0, le=100_000, description="runs per UTC day")] = None
    card: Annotated[str | None, Field(description="card type of its decisions; null: it answers in free text")] = (
        TRADE_DECISION.name
    )


DEFAULT_CONFIG = AgentConfig()
CONFIG_FIELDS = tuple(each.name for each in fields(AgentConfig))


@dataclass(frozen=True, slots=True)
class ConfiguredAgent:
    """The configuration in force, and since when."""

    config: AgentConfig
    version: int  # 0: never configured
    at: datetime | None
    scheduled_since: datetime | None  # since when its schedule is in force, with a runner


def change_config(current: AgentConfig, changes: Mapping[str, Any]) -> AgentConfig:
    """The configuration with some fields changed; raises Invalid with every wrong field."""
    return read(AgentConfig, plain(current) | dict(changes))


def refuse_circle(agent: str, members: tuple[str, ...], members_of: Callable[[str], tuple[str, ...]]) -> None:
    """Raises Invalid if an agent would sit in its own council, directly or through its members, or a member twice."""
    if twice := next((member for member in members if members.count(member) > 1), None):
        raise Invalid("members", f"name '{twice}' twice", "Name each of them once")

    def path_back(name: str, path: tuple[str, ...]) -> tuple[str, ...]:
        for member in members if name == agent else members_of(name):
            if member == agent:
                return (*path, member)
            if member not in path and (found := path_back(member, (*path, member))):
                return found
        return ()

    if circle := path_back(agent, (agent,)):
        raise Invalid("members", f"form a circle: {' -> '.join(circle)}", "Leave out an agent that this agent advises")
