"""Operations on decisions: an agent's own last ones as clean lines, one with its card, and examining one again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from memtape.core.codec import plain, time_text
from memtape.core.decisions.reviews import DEFAULT_LINES
from memtape.core.values import Key
from memtape.errors import Unknown
from memtape.surfaces.answer_models import Answer
from memtape.surfaces.questions import AsOf, OfAgent, agent_of
from memtape.surfaces.registry import operation

if TYPE_CHECKING:
    from memtape.engine import AgentMemory, Memory
    from memtape.engine.view.decisions import DecisionCard
    from memtape.engine.view.examinations import RecordedExamination
    from memtape.surfaces.caller import Caller


# ---- review ------------------------------------------------------------------------------------------------------------


class GetMyDecisions(AsOf):
    """How many."""

    limit: Annotated[int, Field(ge=1, le=50, description="how many lines, newest first")] = DEFAULT_LINES


class ReviewAnswer(Answer):
    """The last decisions of an agent."""

    agent: Annotated[str, Field(description="the agent")]
    as_of: Annotated[str, Field(description="UTC")]
    lines: Annotated[list[str], Field(description="age, action, gist, outcome, latest conviction; newest first")]
    ids: Annotated[list[str], Field(description="the decisions of these lines, for reexamine_decision")]
    tally: Annotated[str, Field(description="what came of all decisions")]
    hit_rate: Annotated[str, Field(description="won of those that won, lost or ended flat, with n")]


@operation(writes=False, tools={"trader", "coach"})
def get_my_decisions(memory: Memory, ask: GetMyDecisions, caller: Caller) -> ReviewAnswer:
    """Get your last decisions, what came of each, and your hit rate: `2d ago · WAIT · range unresolved`.

    1R: the risk from real entry to stop. `shadow`: what a trade you decided against would have done.
    """
    handle = agent_of(memory, ask)
    found, ids, as_of = handle.ledger.review(ask.limit, as_of=ask.as_of, head=ask.head)
    return ReviewAnswer(
        agent=handle.agent.id,
        as_of=time_text(as_of),
        lines=list(found.lines),
        ids=ids,
        tally=found.tally,
        hit_rate=found.hit_rate,
    )


# ---- one decision --------------------------------------------------------------------------------------------------------


class GetDecision(AsOf):
    """Which decision."""

    decision: Annotated[Key, Field(description="an id from get_decisions")]


class ExaminationRow(Answer):
    """One re-examination."""

    run: Annotated[str, Field(description="the run that examined it")]
    decision: Annotated[str, Field(description="the decision that was examined")]
    at: Annotated[str, Field(description="UTC")]
    conviction_score: Annotated[int, Field(description="0: refuted, 100: fully confirmed")]
    notes: Annotated[str, Field(description="what changed since, in one sentence")]
    suggested_action: Annotated[str, Field(description="advice; nothing acts on it")]
    watch_for: Annotated[dict[str, str], Field(description="each item that was to be watched: played out, failed or pending")]


class DecisionAnswer(Answer):
    """A decision with its card, its outcome and its re-examinations."""

    agent: Annotated[str, Field(description="the agent")]
    id: Annotated[str, Field(description="the decision")]
    at: Annotated[str, Field(description="UTC")]
    symbol: Annotated[str | None, Field(description="what it is about")]
    action: Annotated[str | None, Field(description="what was decided")]
    side: Annotated[str | None, Field(description="long or short")]
    reason: Annotated[str | None, Field(description="why")]
    card: Annotated[str | None, Field(description="type of its card")]
    slots: Annotated[dict[str, str | list[str]], Field(description="the slots of its card")]
    run: Annotated[str | None, Field(description="the run that took it")]
    status: Annotated[str | None, Field(description="pending, open, resolved, expired; null: it has no outcome")]
    cause: Annotated[str | None, Field(description="stop, target, expiry, unfilled, ...")]
    r: Annotated[str | None, Field(description="outcome in R")]
    outcome_source: Annotated[str | None, Field(description="bars, trade (the ledger) or stated (by the owner)")]
    re_examinable: Annotated[bool, Field(description="true: it may be examined again now")]
    examinations: Annotated[list[ExaminationRow], Field(description="oldest first")]


def examination_row(one: RecordedExamination) -> ExaminationRow:
    """The row of a re-examination."""
    found = one.examination
    return ExaminationRow(
        run=one.run, decision=one.decision, at=time_text(one.at), conviction_score=found.conviction_score, notes=found.notes,
        suggested_action=found.suggested_action, watch_for=dict(found.watch_for),
    )  # fmt: skip


def decision_answer(agent: str, card: DecisionCard) -> DecisionAnswer:
    """The answer about one decision."""
    decision, outcome = card.decision, card.outcome
    return DecisionAnswer(
        agent=agent, id=card.id, at=time_text(card.at), symbol=decision.symbol, action=decision.action,
        side=decision.stated_side, reason=decision.reason, card=decision.card,
        slots={name: value if isinstance(value, str) else list(value) for name, value in card.slots.items()},
        run=decision.run.id if decision.run is not None else None, status=outcome.status if outcome else None,
        cause=outcome.cause if outcome else None, r=plain(outcome.r) if outcome and outcome.r is not None else None,
        outcome_source=outcome.source if outcome else None, re_examinable=card.gate.allowed,
        examinations=[examination_row(one) for one in card.examinations],
    )  # fmt: skip


def _named_decision(handle: AgentMemory, id: str, **known: Any) -> DecisionAnswer:
    found = handle.ledger.decision_card(id, **known)
    if found is None:
        raise Unknown("decision", "decision", id, "List them with get_my_decisions")
    return decision_answer(handle.agent.id, found)


@operation(writes=False, columns={"examinations": ("run", "at", "conviction_score", "suggested_action", "notes")})
def get_decision(memory: Memory, ask: GetDecision, caller: Caller) -> DecisionAnswer:
    """Get one decision: its card, its outcome, and its re-examinations."""
    return _named_decision(agent_of(memory, ask), ask.decision, as_of=ask.as_of, head=ask.head)


# ---- re-examination ------------------------------------------------------------------------------------------------------


class ReexamineDecision(OfAgent):
    """Which decision, and your answer if you have one."""

    decision: Annotated[Key, Field(description="an id from get_decisions")]
    answer: Annotated[
        dict[str, Any] | None,
        Field(
            description="conviction_score 0-100, notes (one sentence), suggested_action, watch_for; it is recorded, no run starts"
        ),
    ] = None


class ReexaminationAnswer(Answer):
    """A re-examination, or the question to answer."""

    agent: Annotated[str, Field(description="the agent")]
    decision: Annotated[str, Field(description="the decision")]
    run: Annotated[str | None, Field(description="the run that examined it; null: none was started")]
    result: Annotated[str, Field(description="ok, failed, stopped, or `asked`: answer the prompt and call again with the answer")]
    error: Annotated[str | None, Field(description="why the run failed")]
    examination: Annotated[ExaminationRow | None, Field(description="what it found")]
    prompt: Annotated[str | None, Field(description="the question, if no run was started")]
    answer_schema: Annotated[dict[str, Any] | None, Field(description="the JSON schema of the answer")]


@operation(writes=True, waits=True)
def reexamine_decision(memory: Memory, ask: ReexamineDecision, caller: Caller) -> ReexaminationAnswer:
    """Examine a decision again: is its conclusion still right? The decision itself never changes.

    The owner starts a fresh run of the agent's runner. Without a runner, and for a model, it returns the question; call it again
    with your `answer` to record it. Refused once the outcome is known, where the card says so.
    """
    from memtape.engine.reexamination import record_answer, reexamination_task

    handle = memory.agent_for_writing(ask.agent)
    agent = handle.agent.id
    known: dict[str, Any] = {"agent": agent, "decision": ask.decision}
    if ask.answer is not None:
        run = record_answer(handle, ask.decision, ask.answer, by="model" if caller.is_model else "owner")
    elif caller.is_model or memory.agent_config(agent).config.runner is None:
        task = reexamination_task(handle, ask.decision)
        return ReexaminationAnswer(
            **known, run=None, result="asked", error=None, examination=None, prompt=task.prompt, answer_schema=dict(task.schema)
        )
    else:
        from memtape.runners.conduct import reexamine
        from memtape.surfaces.run_host import run_host

        run = reexamine(memory, run_host(memory), agent, ask.decision)
    found = handle.runs.examination(run.id)
    return ReexaminationAnswer(
        **known, run=run.id, result=run.result or "running", error=run.end.error if run.end else None,
        examination=examination_row(found) if found is not None else None, prompt=None, answer_schema=None,
    )  # fmt: skip


class ListReexaminations(OfAgent):
    """Of which run or decision."""

    run: Annotated[Key, Field(description="the run that took the decision, or the decision's own id")]


class ReexaminationList(Answer):
    """The conviction history of a decision."""

    agent: Annotated[str, Field(description="the agent")]
    run: Annotated[str, Field(description="the run or decision that was asked about")]
    examinations: Annotated[list[ExaminationRow], Field(description="oldest first")]
    n: Annotated[int, Field(description="how many")]


@operation(writes=False, columns=("run", "at", "conviction_score", "suggested_action", "notes"))
def list_reexaminations(memory: Memory, ask: ListReexaminations, caller: Caller) -> ReexaminationList:
    """List the re-examinations of a run's decision, oldest first: its conviction history."""
    handle = agent_of(memory, ask)
    found = [examination_row(one) for one in handle.runs.examinations_of_run(ask.run)]
    return ReexaminationList(agent=handle.agent.id, run=ask.run, examinations=found, n=len(found))
