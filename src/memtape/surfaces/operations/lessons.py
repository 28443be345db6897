"""Lessons: drawing them, reading them with what stands behind each, and the owner's hand on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from memtape.core.codec import plain
from memtape.core.lessons.reflection import Lesson, compare_lessons
from memtape.core.memory.episodes import Teach
from memtape.core.values import Key, Label, Line
from memtape.errors import Conflict
from memtape.surfaces.answers import Answer, ReceiptAnswer, optional_time_text, receipt_answer, rounded_figure
from memtape.surfaces.questions import AsOf, OfAgent, agent_of
from memtape.surfaces.registry import operation

if TYPE_CHECKING:
    from datetime import datetime

    from memtape.core.lessons.reflection import Candidate, Reflection
    from memtape.engine import AgentMemory, Memory
    from memtape.engine.lessons import FailedReflection
    from memtape.engine.view.lessons import ReflectionView
    from memtape.surfaces.caller import Caller


class LessonRow(Answer):
    """One lesson and what stands behind it."""

    id: Annotated[str, Field(description="its id")]
    slot: Annotated[str, Field(description="entry_timing, sizing, symbol_selection, exit_timing or regime_fit")]
    text: Annotated[str, Field(description="as the agent reads it")]
    status: Annotated[Literal["told", "retired", "expired", "held_back"], Field(description="whether the agent is told")]
    why_held_back: Annotated[str | None, Field(description="what it contradicts, if it is held back for the owner")]
    n: Annotated[int, Field(description="trades it counts")]
    chance: Annotated[bool, Field(description="true: it could be chance")]
    tier: Annotated[int, Field(description="2 computed, 3 written by a model")]
    regime: Annotated[str | None, Field(description="the only regime it speaks of")]
    expires_at: Annotated[str | None, Field(description="until when it is told, UTC")]
    trades: Annotated[list[str], Field(description="the trades behind it")]
    figures: Annotated[dict[str, Any] | None, Field(description="what was computed: mean, interval, rest, p_value, share, unit")]


class NoteRow(Answer):
    """What one reflection came to."""

    id: Annotated[str, Field(description="its id")]
    scope: Annotated[Literal["agent", "skill"], Field(description="whom it speaks to")]
    status: Annotated[Literal["active", "superseded"], Field(description="the newest of a scope is active")]
    skill: Annotated[str, Field(description="of which skill")]
    skill_version: Annotated[int, Field(description="in which version")]
    generated_at: Annotated[str, Field(description="UTC")]
    window: Annotated[list[str | None], Field(description="first and last exit of the trades looked at, UTC")]
    trades_considered: Annotated[int, Field(description="how many")]
    closed: Annotated[int, Field(description="trades closed by then: what the cadence counts from")]
    scanned: Annotated[int, Field(description="statements that were computed and judged together")]
    model_used: Annotated[str, Field(description="stats, or the model")]
    asked_by: Annotated[str, Field(description="cadence, owner or model")]
    input_tokens: Annotated[int | None, Field(description="of the model")]
    output_tokens: Annotated[int | None, Field(description="of the model")]
    cost_usd: Annotated[str | None, Field(description="of the model")]
    from_note: Annotated[str | None, Field(description="the agent's note that this was promoted from")]
    lessons: Annotated[list[LessonRow], Field(description="its lessons")]


def _figures(found: Candidate | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "kind": found.kind,
        "label": found.label,
        "unit": found.unit,
        "n": found.n,
        "of": found.total,
        "share": rounded_figure(found.share),
        "mean": rounded_figure(found.mean),
        "interval_90": [rounded_figure(bound) for bound in found.interval],
        "rest": rounded_figure(found.rest),
        "p_value": rounded_figure(found.p_value),
        "chance": found.chance,
    }


def _status(one: Lesson, seen: ReflectionView, at: datetime) -> Literal["told", "retired", "expired", "held_back"]:
    if one.flagged is not None:
        return "held_back"
    if one.id in seen.retired:
        return "retired"
    return "expired" if one.expires_at is not None and one.expires_at <= at else "told"


def note_row(seen: ReflectionView, at: datetime) -> NoteRow:
    """A note as it leaves."""
    note = seen.note
    known = {one.id: one for one in note.candidates}
    return NoteRow(
        id=note.id,
        scope="agent" if note.agent else "skill",
        status=seen.status,
        skill=note.skill,
        skill_version=note.skill_version,
        generated_at=optional_time_text(note.generated_at) or "",
        window=[optional_time_text(note.window_start), optional_time_text(note.window_end)],
        trades_considered=note.trades_considered,
        closed=note.closed,
        scanned=note.scanned,
        model_used=note.model_used,
        asked_by=note.asked_by,
        input_tokens=note.input_tokens,
        output_tokens=note.output_tokens,
        cost_usd=None if note.cost_usd is None else str(plain(note.cost_usd)),
        from_note=note.from_note,
        lessons=[
            LessonRow(
                id=one.id,
                slot=one.slot,
                text=one.text,
                status=_status(one, seen, at),
                why_held_back=one.flagged,
                n=one.n,
                chance=one.chance,
                tier=one.tier,
                regime=one.regime,
                expires_at=optional_time_text(one.expires_at),
                trades=list(one.trades),
                figures=_figures(known.get(one.candidate)),
            )
            for one in note.lessons
        ],
    )


class LessonsAnswer(Answer):
    """The lessons an agent is told, and how the next reflection stands."""

    agent: Annotated[str, Field(description="the agent")]
    note: Annotated[NoteRow | None, Field(description="its active note; null before the first reflection")]
    skill_note: Annotated[NoteRow | None, Field(description="the active note of its skill, which speaks to all its agents")]
    due: Annotated[str | None, Field(description="why a reflection is due now; null: it is not")]
    cadence: Annotated[str, Field(description="when lessons are drawn, as the skill says")]
    last_failure: Annotated[dict[str, Any] | None, Field(description="the last reflection that failed since the active note")]


def _failure(failed: FailedReflection) -> dict[str, Any]:
    return {"at": optional_time_text(failed.at), "model": failed.model, "why": failed.why, "failures": failed.failures,
            "retry_at": optional_time_text(failed.retry_at)}  # fmt: skip


@operation(writes=False)
def get_lessons(memory: Memory, ask: AsOf, caller: Caller) -> LessonsAnswer:
    """The lessons an agent is told now or was told at a moment, with the trades and figures behind each."""
    handle = agent_of(memory, ask)
    own, shared = handle.lessons(as_of=ask.as_of, head=ask.head)
    at = ask.as_of or handle.now()
    skill, _ = memory.skill_of(handle.agent)
    due = handle.lessons.due() if ask.as_of is None and ask.head is None else None
    failed = [
        one
        for one in handle.lessons.failures()
        if own is None or one.at > own.note.generated_at or one.trigger == (due and due.key)
    ]
    return LessonsAnswer(
        agent=handle.agent.id, note=note_row(own, at) if own else None, skill_note=note_row(shared, at) if shared else None,
        due=due.why if due else None, cadence=_cadence(skill.context.memory.reflection),
        last_failure=_failure(failed[0]) if failed else None,
    )  # fmt: skip


def _cadence(config: Any) -> str:
    words = {"off": "never", "per_n_trades": f"after every {config.everyNTrades} closed trades",
             "daily": f"daily at {config.dailyHourUtc:02d}:00 UTC"}  # fmt: skip
    return f"{words[config.cadence]}, by {config.model}"


class LessonHistory(Answer):
    """Every note."""

    agent: Annotated[str, Field(description="the agent")]
    notes: Annotated[list[NoteRow], Field(description="the agent's, newest first")]
    skill_notes: Annotated[list[NoteRow], Field(description="its skill's, newest first")]
    failures: Annotated[list[dict[str, Any]], Field(description="reflections that came to nothing, newest first")]


class GetHistory(AsOf):
    """How far back."""

    limit: Annotated[int, Field(ge=1, le=500, description="how many of each, newest first")] = 50


@operation(writes=False)
def get_lesson_history(memory: Memory, ask: GetHistory, caller: Caller) -> LessonHistory:
    """What an agent was told over time: every note, active and superseded, and every reflection that failed."""
    handle = agent_of(memory, ask)
    at = ask.as_of or handle.now()
    own = handle.lessons.reflections(as_of=ask.as_of, head=ask.head)
    return LessonHistory(
        agent=handle.agent.id, notes=[note_row(seen, at) for seen in own[: ask.limit]],
        skill_notes=[note_row(seen, at) for seen in handle.lessons.skill_reflections(as_of=ask.as_of)[: ask.limit]],
        failures=[_failure(one) for one in handle.lessons.failures()[: ask.limit]],
    )  # fmt: skip


class DiffLessons(OfAgent):
    """Which two notes."""

    earlier: Annotated[Key | None, Field(description="id of a note; default: the one before the active note")] = None
    later: Annotated[Key | None, Field(description="id of a note; default: the active note")] = None


class LessonsDiff(Answer):
    """What changed between two notes."""

    agent: Annotated[str, Field(description="the agent")]
    earlier: Annotated[str, Field(description="id of the note")]
    later: Annotated[str, Field(description="id of the note")]
    changes: Annotated[list[dict[str, Any]], Field(description="what (added, removed, changed, kept), slot, before, after")]
    n: Annotated[dict[str, int], Field(description="how many of each")]


@operation(writes=False)
def diff_lessons(memory: Memory, ask: DiffLessons, caller: Caller) -> LessonsDiff:
    """What changed from one note to another, lesson by lesson."""
    handle = agent_of(memory, ask)
    earlier, later = _two_notes(handle, ask.earlier, ask.later)
    found = compare_lessons(earlier, later)
    return LessonsDiff(
        agent=handle.agent.id, earlier=earlier.id, later=later.id,
        changes=[{"what": c.what, "slot": c.slot, "before": c.before, "after": c.after} for c in found],
        n={what: sum(c.what == what for c in found) for what in ("added", "removed", "changed", "kept")},
    )  # fmt: skip


def _two_notes(handle: AgentMemory, earlier: str | None, later: str | None) -> tuple[Reflection, Reflection]:
    own = handle.lessons.reflections()
    if (earlier is None or later is None) and len(own) < 2:
        raise Conflict("agent", f"has {len(own)} note{'' if len(own) == 1 else 's'}", "Compare when there are two, or name both")
    last = handle.lessons.reflection(later).note if later is not None else own[0].note
    if earlier is not None:
        return handle.lessons.reflection(earlier).note, last
    place = next((n for n, seen in enumerate(own) if seen.note.id == last.id), 0)
    return own[min(place + 1, len(own) - 1)].note, last


class Reflect(OfAgent):
    """How."""

    model: Annotated[Label | None, Field(description="stats, anthropic/..., openai/...; default: as the skill says")] = None
    only_if_due: Annotated[bool, Field(description="do nothing unless the cadence says so")] = False


class ReflectAnswer(Answer):
    """What a reflection came to."""

    agent: Annotated[str, Field(description="the agent")]
    note: Annotated[NoteRow | None, Field(description="the note that is active now")]
    new: Annotated[
        bool, Field(description="whether it is new; from the same trades by the same model it is the one that was there")
    ]
    failed: Annotated[dict[str, Any] | None, Field(description="why it came to nothing; the note before it stays")]
    waits: Annotated[str | None, Field(description="why nothing was done: not due, another worker is at it, tried again later")]


@operation(writes=True)
def reflect_now(memory: Memory, ask: Reflect, caller: Caller) -> ReflectAnswer:
    """Draw lessons from the closed trades now. The note before it is superseded and stays on record.

    A model that is down or answers badly leaves the old note, and the answer says so.
    """
    handle = memory.agent_for_writing(ask.agent)
    done = handle.reflect_if_due() if ask.only_if_due else handle.reflect(model=ask.model, asked_by=caller.role)
    own = handle.notes()
    seen = next((each for each in own if done.note is not None and each.note.id == done.note.id), own[0] if own else None)
    return ReflectAnswer(
        agent=handle.agent.id, note=note_row(seen, handle.now()) if seen else None, new=done.new,
        failed=_failure(done.failed) if done.failed else None, waits=done.waits or None,
    )  # fmt: skip


class RetireLesson(OfAgent):
    """Which lesson."""

    lesson_id: Annotated[Key, Field(description="its id")]
    scope: Annotated[
        Literal["agent", "skill"] | None, Field(description="for this agent, or for all of its skill; default: where it stands")
    ] = None
    reason: Annotated[Line, Field(description="why, for the record")] = ""


@operation(writes=True)
def retire_lesson(memory: Memory, ask: RetireLesson, caller: Caller) -> ReceiptAnswer:
    """Let a lesson be told no more, also when it comes back with other numbers. It stays on record. The owner's word."""
    caller.require_owner("retire a lesson")
    return receipt_answer(memory.agent_for_writing(ask.agent).retire_lesson(ask.lesson_id, ask.reason, scope=ask.scope))


class PromoteNote(OfAgent):
    """Which note."""

    note_id: Annotated[Key, Field(description="a note of this agent")]


@operation(writes=True)
def promote_lessons(memory: Memory, ask: PromoteNote, caller: Caller) -> NoteRow:
    """Let what a note tells be told to every agent of the skill. The owner's word; the skill's note before it is superseded."""
    caller.require_owner("promote a note")
    handle = memory.agent_for_writing(ask.agent)
    note = handle.lessons.promote(ask.note_id)
    return note_row(handle.lessons.reflection(note.id), memory.clock.now())


class LabelTrade(OfAgent):
    """Which trade, and how it may teach."""

    trade_id: Annotated[Key, Field(description="its id")]
    teach: Annotated[Teach, Field(description="learn; exclude, anomaly: out of every statistic; wrong_reason: not for entries; "
                                  "structural: not for exits and sizes")]  # fmt: skip
    reason: Annotated[Line, Field(description="why, for the record")] = ""


@operation(writes=True)
def label_trade(memory: Memory, ask: LabelTrade, caller: Caller) -> ReceiptAnswer:
    """Say how a closed trade may teach. The owner's word: lessons, beliefs, habits, evidence and state follow it."""
    caller.require_owner("label a trade")
    handle = memory.agent_for_writing(ask.agent)
    return receipt_answer(handle.memories.correct(ask.trade_id, {"teach": ask.teach}, ask.reason))
