"""The questions that operations take: base models, the agent they ask about, and questions made from observed values."""

from __future__ import annotations

from dataclasses import MISSING, fields, replace
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from memtape.core.observed import Tick
from memtape.core.values import Slug, Time
from memtape.errors import Conflict, Unknown
from memtape.store.cutoff import Cutoff

if TYPE_CHECKING:
    from memtape.engine import AgentMemory, Memory


class Ask(BaseModel):
    """A question; unknown fields are refused."""

    # The validator is built when it is first used: a command uses one of many.
    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True, defer_build=True)


class OfAgent(Ask):
    """A question about one agent."""

    agent: Annotated[Slug | None, Field(description="the agent; default: the server's agent, else 'main'")] = None


class OfOwner(Ask):
    """A question about the owner's skills and agents, now or at a past moment."""

    as_of: Annotated[Time | None, Field(description="answer as of this time (ISO 8601 with zone)")] = None
    head: Annotated[int | None, Field(ge=0, le=2**53, description="answer as of this row of the owner's log")] = None

    @property
    def cutoff(self) -> Cutoff:
        """What was known at `as_of`, and stated by the log row `head`."""
        return Cutoff(self.as_of, self.head)


class AsOf(OfAgent):
    """A question about one agent, now or at a past moment."""

    as_of: Annotated[Time | None, Field(description="answer as of this time (ISO 8601 with zone)")] = None
    head: Annotated[int | None, Field(ge=0, le=2**53, description="answer as of this log row")] = None


def agent_of(memory: Memory, ask: OfAgent) -> AgentMemory:
    """The agent that a question is about; without a name, the default agent, which may not have been made yet."""
    return memory.agent(ask.agent) if ask.agent is not None else memory.default_agent()


def agent_of_run(memory: Memory, run: str, agent: str | None = None) -> str:
    """The agent that has a run, or a decision of that id; among all agents if none is named. Raises Unknown if there is none."""
    names = [memory.agent(agent).agent.id] if agent is not None else [each.id for each in memory.agents()]
    found = [name for name in names if _has_run(memory.agent(name), run)]
    if not found:
        raise Unknown("run", "run", run, "List them with list_runs")
    if len(found) > 1:
        raise Conflict("agent", f"{', '.join(found)} each have a decision '{run}'", "Name the agent")
    return found[0]


def _has_run(agent: AgentMemory, id: str) -> bool:
    named = agent.ledger.decision(id) is not None or agent.runs.find(id) is not None
    return named or bool(agent.runs.examinations_of_run(id))


def flattened(name: str, value: Any, wrapper: str, words: dict[str, str], **more: Any) -> type[OfAgent]:
    """A question with the fields of an observed value and `more`. The value may also come as one object, under `wrapper`."""
    hints = get_type_hints(value, include_extras=True)

    def unwrap(_cls: Any, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(data.get(wrapper), dict):
            return {**{k: v for k, v in data.items() if k != wrapper}, **data[wrapper]}
        return data

    own: dict[str, Any] = {}
    for field in fields(value):
        if field.name == "venue":
            continue
        hint = hints[field.name]
        described = any(getattr(part, "description", None) for part in get_args(hint)[1:])
        if not described:
            hint = Annotated[hint, Field(description=words.get(field.name, field.name.replace("_", " ")))]
        if field.default is not MISSING:
            own[field.name] = (hint, field.default)
        elif field.default_factory is not MISSING:
            own[field.name] = (hint, Field(default_factory=field.default_factory))
        else:
            own[field.name] = (hint, ...)
    backfill = Annotated[bool, Field(description="recorded late: counts as known from its own time, not from now")]
    return create_model(
        name,
        __base__=OfAgent,
        __doc__=value.__doc__,
        __validators__={"unwrap": model_validator(mode="before")(classmethod(unwrap))},  # type: ignore[arg-type, dict-item]
        **own,
        **more,
        backfill=(backfill, False),
    )


def value_of(ask: OfAgent, value: Any) -> Any:
    """The observed value of a flattened question."""
    found = value(**{field.name: getattr(ask, field.name, field.default) for field in fields(value)})
    # Only memtape's own readers may say that the venue itself delivered a fill.
    if isinstance(found, Tick) and any(fill.venue for fill in found.fills):
        return replace(found, fills=tuple(replace(fill, venue=None) for fill in found.fills))
    return found
