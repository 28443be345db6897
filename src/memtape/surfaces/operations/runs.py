"""Operations on runs: running an agent, how it is run, its session, its chat, and examining a decision again."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from memtape.core.codec import plain, time_text
from memtape.core.decisions.agent_config import CONFIG_FIELDS, AgentConfig
from memtape.core.decisions.runs import MAX_RUN_TEXT, AgentRun, RunKind, RunStep
from memtape.core.decisions.schedules import parse_schedule
from memtape.core.values import Key, Slug
from memtape.surfaces.answer_models import Answer, answer_model
from memtape.surfaces.answers import optional_time_text
from memtape.surfaces.questions import Ask, AsOf, OfAgent, agent_of
from memtape.surfaces.registry import operation

if TYPE_CHECKING:
    from memtape.core.decisions.agent_config import ConfiguredAgent
    from memtape.core.decisions.sessions import SessionStatus
    from memtape.engine import AgentMemory, Memory
    from memtape.surfaces.caller import Caller

NEXT_RUNS_SHOWN = 3
TEXT_SHOWN = 400  # characters of an answer in a list of runs


# ---- how an agent is run ---------------------------------------------------------------------------------------------


class ConfigureAgent(Ask):
    """What to change; fields that are left out stay as they are."""

    agent: Annotated[Slug, Field(description="the agent")]
    active_memory: Annotated[bool | None, Field(description="chat and runs share one session; switching it on starts fresh")] = (
        None
    )
    review_decisions: Annotated[bool | None, Field(description="each run first asks for its last decisions")] = None
    runner: Annotated[
        str | None, Field(description="callable:MODULE:FUNCTION, callable:/path/file.py:FUNCTION, llm, claude; '' for none")
    ] = None
    model: Annotated[str | None, Field(description="llm: anthropic/NAME or openai/NAME; claude: a model name; '' for none")] = (
        None
    )
    default_prompt: Annotated[str | None, Field(description="what a scheduled run is asked")] = None
    schedule: Annotated[str | None, Field(description="'every 15m' (m, h, d), or a cron of five fields in UTC; '' for none")] = (
        None
    )
    members: Annotated[list[Slug] | None, Field(description="its council: other agents that give their view first")] = None
    budget_usd_per_day: Annotated[str | float | None, Field(description="US dollars per UTC day; '' for no limit")] = None
    runs_per_day: Annotated[int | None, Field(description="runs per UTC day; -1 for no limit")] = None
    card: Annotated[str | None, Field(description="card type of its decisions; '' for answers in free text")] = None


class ShowConfig(Ask):
    """Which agent."""

    agent: Annotated[Slug, Field(description="the agent")]


AgentConfigRow = answer_model(
    AgentConfig,
    {
        "active_memory": "chat and runs share one session", "review_decisions": "each run first asks for its last decisions",
        "runner": "who executes it", "model": "the model", "default_prompt": "what a scheduled run is asked",
        "schedule": "when it runs, UTC", "members": "its council", "budget_usd_per_day": "US dollars per UTC day",
        "runs_per_day": "runs per UTC day", "card": "card type of its decisions",
    },
)  # fmt: skip


class ConfigAnswer(Answer):
    """How an agent is run."""

    agent: Annotated[str, Field(description="the agent")]
    version: Annotated[int, Field(description="how often it was configured; 0: never")]
    configured_at: Annotated[str | None, Field(description="UTC; when it was configured last")]
    config: Annotated[AgentConfigRow, Field(description="the configuration in force")]  # type: ignore[valid-type]
    next_runs: Annotated[list[str], Field(description="UTC; the next moments of its schedule")]


def _config_answer(memory: Memory, agent: str, found: ConfiguredAgent) -> ConfigAnswer:
    fields = {name: plain(value) for name, value in asdict(found.config).items()}
    return ConfigAnswer(
        agent=agent, version=found.version, configured_at=optional_time_text(found.at), config=AgentConfigRow(**fields),
        next_runs=_next_runs(found.config.schedule, memory.clock.now()),
    )  # fmt: skip


def _next_runs(schedule: str | None, now: datetime) -> list[str]:
    """The next moments of a schedule."""
    if schedule is None:
        return []
    parsed, moments = parse_schedule(schedule), [now]
    # The moments of a very long period lie beyond the last year that a calendar can name.
    with suppress(OverflowError):
        for _ in range(NEXT_RUNS_SHOWN):
            moments.append(parsed.following(moments[-1]))
    return [time_text(moment) for moment in moments[1:]]


@operation(writes=True)
def configure_agent(memory: Memory, ask: ConfigureAgent, caller: Caller) -> ConfigAnswer:
    """Change how an agent is run: memory, review, runner, schedule, council, budget. Owner only.

    Every change is a new version on record. A schedule that never fires and a council that forms a circle are refused.
    """
    cleared: dict[str, Any] = {"runner": "", "model": "", "schedule": "", "budget_usd_per_day": "", "runs_per_day": -1}
    given = {name: getattr(ask, name) for name in CONFIG_FIELDS if getattr(ask, name) is not None}
    changes: dict[str, Any] = {
        name: None if name in cleared and value == cleared[name] else value for name, value in given.items()
    }
    if changes.get("runner"):
        from memtape.surfaces.run_host import checked_runner_name

        current = memory.agent_config(ask.agent).config
        changes["runner"] = checked_runner_name(
            str(changes["runner"]), changes.get("model", current.model), current=current.runner, over_network=caller.over_network
        )
    return _config_answer(memory, ask.agent, memory.configure_agent(ask.agent, changes))


@operation(writes=False)
def get_agent_config(memory: Memory, ask: ShowConfig, caller: Caller) -> ConfigAnswer:
    """Get how an agent is run: memory, review, runner, schedule, council, budget."""
    return _config_answer(memory, ask.agent, memory.agent_config(ask.agent))


# ---- runs ------------------------------------------------------------------------------------------------------------


class RunAgent(OfAgent):
    """What the run is asked."""

    prompt: Annotated[str | None, Field(max_length=MAX_RUN_TEXT, description="default: the agent's default prompt")] = None


class SendMessage(OfAgent):
    """A message to an agent."""

    text: Annotated[str, Field(min_length=1, max_length=20_000, description="your message")]


RunStepRow = answer_model(
    RunStep,
    {
        "at": "UTC", "turn": "steps of one answer of the model have the same turn", "kind": "text or tool",
        "text": "what the model said, or what the tool returned", "tool": "the tool", "call_id": "the provider's id of the call",
        "input": "what the tool was given", "is_error": "true: the tool refused", "ms": "duration in milliseconds",
    },
    sparse=True,
)  # fmt: skip


class RunRow(Answer):
    """A run in a list."""

    id: Annotated[str, Field(description="the run")]
    kind: Annotated[RunKind, Field(description="scheduled, manual, chat, re-examination or council")]
    at: Annotated[str, Field(description="UTC; when it began")]
    result: Annotated[str, Field(description="running, ok, failed, lost or stopped")]
    ended_at: Annotated[str | None, Field(description="UTC")]
    runner: Annotated[str, Field(description="who executed it")]
    model: Annotated[str | None, Field(description="the model")]
    decision: Annotated[str | None, Field(description="the decision that it took; of a re-examination: the one examined")]
    parent: Annotated[str | None, Field(description="the run examined again; of a council member: the lead's run")]
    input_tokens: Annotated[int | None, Field(description="null: unknown")]
    output_tokens: Annotated[int | None, Field(description="null: unknown")]
    cost_usd: Annotated[str | None, Field(description="US dollars; null: unknown")]
    error: Annotated[str | None, Field(description="why it failed or was stopped")]
    text: Annotated[str, Field(description="what it answered; in a list only the beginning")]


class RunAnswer(RunRow):
    """One run."""

    agent: Annotated[str, Field(description="the agent")]
    prompt: Annotated[str, Field(description="its own prompt")]
    session_before: Annotated[str | None, Field(description="the session that it continued; null: a fresh one")]
    session_after: Annotated[str | None, Field(description="the session after it; null: it stored none")]
    slot: Annotated[str | None, Field(description="UTC; the moment of the schedule that it was started for")]
    note: Annotated[str | None, Field(description="what the owner should know")]
    steps: Annotated[list[RunStepRow], Field(description="what the model said and called, with times")]  # type: ignore[valid-type]


class RunList(Answer):
    """Runs."""

    agent: Annotated[str, Field(description="the agent")]
    runs: Annotated[list[RunRow], Field(description="newest first")]
    n: Annotated[int, Field(description="how many")]


def _row_fields(run: AgentRun) -> dict[str, Any]:
    start, end = run.start, run.end
    return {
        "id": run.id, "kind": start.kind, "at": time_text(start.at), "result": run.result or "running",
        "ended_at": optional_time_text(end.at if end else None), "runner": start.runner, "model": start.model,
        "decision": start.decision or (end.decision if end else None), "parent": start.parent,
        "input_tokens": end.usage.input_tokens if end else None, "output_tokens": end.usage.output_tokens if end else None,
        "cost_usd": plain(end.usage.cost_usd) if end and end.usage.cost_usd is not None else None,
        "error": end.error if end else None, "text": end.text if end else "",
    }  # fmt: skip


def run_row(run: AgentRun) -> RunRow:
    """A run in a list."""
    fields = _row_fields(run)
    return RunRow(**{**fields, "text": fields["text"][:TEXT_SHOWN]})


def run_answer(run: AgentRun) -> RunAnswer:
    """One run with all that is known of it."""
    start, end = run.start, run.end
    return RunAnswer(
        **_row_fields(run), agent=start.agent, prompt=start.prompt, session_before=start.session_before,
        session_after=end.session_after if end else None, slot=optional_time_text(start.slot), note=end.note if end else None,
        steps=[RunStepRow(**plain(step)) for step in end.steps] if end else [],
    )  # fmt: skip


@operation(writes=True, waits=True)
def run_agent(memory: Memory, ask: RunAgent, caller: Caller) -> RunAnswer:
    """Run an agent once with its configured runner, and wait for its end. Owner only.

    Its answer is recorded as a decision. A run that is at work is waited for.
    """
    from memtape.runners.conduct import RunTask, conduct_run
    from memtape.surfaces.run_host import run_host

    agent = agent_of(memory, ask).agent.id
    prompt = ask.prompt or memory.agent_config(agent).config.default_prompt
    return run_answer(conduct_run(memory, run_host(memory), agent, RunTask(kind="manual", prompt=prompt)))


@operation(writes=True, waits=True)
def send_message(memory: Memory, ask: SendMessage, caller: Caller) -> RunAnswer:
    """Send a message to an agent and wait for its answer. Owner only.

    With Active Memory on, chat and runs share one session; off, chat has a session of its own.
    """
    from memtape.runners.conduct import RunTask, conduct_run
    from memtape.surfaces.run_host import run_host

    agent = agent_of(memory, ask).agent.id
    return run_answer(conduct_run(memory, run_host(memory), agent, RunTask(kind="chat", prompt=ask.text)))


class ListRuns(AsOf):
    """Which runs."""

    kind: Annotated[RunKind | None, Field(description="only this kind")] = None
    limit: Annotated[int, Field(ge=1, le=500, description="how many, newest first")] = 20


@operation(writes=False, columns=("id", "at", "kind", "result", "cost_usd", "decision", "error"))
def list_runs(memory: Memory, ask: ListRuns, caller: Caller) -> RunList:
    """List the runs of an agent, newest first; as of a past moment, as they were known then."""
    handle = agent_of(memory, ask)
    found = [run_row(run) for run in handle.runs.newest(limit=ask.limit, kind=ask.kind, as_of=ask.as_of, head=ask.head)]
    return RunList(agent=handle.agent.id, runs=found, n=len(found))


class GetRun(AsOf):
    """Which run."""

    run: Annotated[Key, Field(description="an id from list_runs")]


@operation(writes=False, columns={"steps": ("at", "kind", "tool", "ms", "is_error")})
def get_run(memory: Memory, ask: GetRun, caller: Caller) -> RunAnswer:
    """Get one run: what it was asked, its steps, its answer and its cost."""
    return run_answer(agent_of(memory, ask).runs.get(ask.run, as_of=ask.as_of, head=ask.head))


# ---- the session -----------------------------------------------------------------------------------------------------


class SessionAnswer(Answer):
    """The session of an agent."""

    agent: Annotated[str, Field(description="the agent")]
    status: Annotated[str, Field(description="Off, Fresh, or Carrying context")]
    runs_since_reset: Annotated[int | None, Field(description="successful scheduled runs since the session began; null: off")]
    amber: Annotated[bool, Field(description="true: past 20 runs; a reset keeps runs fast")]
    session_age: Annotated[str | None, Field(description="time since the session was last updated, like 2h 15m")]
    warning: Annotated[str | None, Field(description="what to do about a session that has grown long")]
    resume: Annotated[str | None, Field(description="the session that the next run continues")]
    begun_at: Annotated[str | None, Field(description="UTC; when the session last began")]


def _session_answer(handle: AgentMemory, found: SessionStatus) -> SessionAnswer:
    warning = None
    if found.amber:
        warning = f"{found.runs_since_reset} runs since the last reset: the context has grown. Reset it with reset_memory."
    return SessionAnswer(
        agent=handle.agent.id, status=found.status, runs_since_reset=found.runs_since_reset, amber=found.amber,
        session_age=found.session_age, warning=warning, resume=found.resume, begun_at=optional_time_text(found.anchor),
    )  # fmt: skip


@operation(writes=False)
def get_session(memory: Memory, ask: AsOf, caller: Caller) -> SessionAnswer:
    """Get the state of an agent's Active Memory: off, fresh, or carrying context, and for how many runs."""
    handle = agent_of(memory, ask)
    return _session_answer(handle, handle.runs.session(ask.as_of, ask.head))


@operation(writes=True)
def reset_memory(memory: Memory, ask: OfAgent, caller: Caller) -> SessionAnswer:
    """Start a new session for an agent; its messages and runs stay on record. Owner only."""
    handle = memory.agent_for_writing(ask.agent)
    return _session_answer(handle, handle.runs.reset_session())
