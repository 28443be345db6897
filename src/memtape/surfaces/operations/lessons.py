"""Operations on lessons: compute, read, retire and promote them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from memtape.core.codec import plain
from memtape.core.lessons.reflection import Lesson, compare_lessons, lessons_for_agent
from memtape.core.memory.episodes import Teach
from memtape.core.values import Key, Label, Line
from memtape.errors import Conflict
from memtape.plugs.models import KEY_SETTINGS
from memtape.surfaces.answer_models import Answer
from memtape.surfaces.answers import ReceiptAnswer, optional_time_text, receipt_answer, rounded_figure
from memtape.surfaces.questions import AsOf, OfAgent, agent_of
from memtape.surfaces.registry import operation

if TYPE_CHECKING:
    from datetime import datetime

    from memtape.core.lessons.reflection import Candidate, Reflection
    from memtape.engine import AgentMemory, Memory
    from memtape.engine.reflection import FailedReflection
    from memtape.engine.view.lessons import ReflectionView
    from memtape.surfaces.caller import Caller

NOTE_TABLES = {
    "note": ("id", "generated_at", "trades_considered", "scanned", "chosen_by", "lessons"),
    "skill_note": ("id", "generated_at", "trades_considered", "chosen_by", "lessons"),
    "lessons": ("id", "status", "slot", "n", "expires_at", "text"),
}


LessonStatus = Literal["shown", "hint", "retired", "expired", "held_back"]


class LessonFigures(Answer):
    """The statistics behind a lesson."""

    kind: Annotated[str, Field(description="what is compared")]
    label: Annotated[str, Field(description="which trades")]
    unit: Annotated[str, Field(description="of the figures: R, R by ATR, typical losses of ...")]
    n: Annotated[int, Field(description="these trades; those of one signal count once")]
    of: Annotated[int, Field(description="all trades")]
    share: Annotated[float | None, Field(description="share of the trades")]
    mean: Annotated[float | None, Field(description="mean outcome of these trades")]
    interval_90: Annotated[list[float | None], Field(description="90 % interval of the mean")]
    rest: Annotated[float | None, Field(description="mean outcome of the other trades")]
    difference: Annotated[float | None, Field(description="mean - rest")]
    difference_90: Annotated[list[float | None] | None, Field(description="90 % interval of the difference")]
    p_value: Annotated[float | None, Field(description="how often chance gives such a difference")]
    chance: Annotated[bool, Field(description="true: it could be luck")]


class FailureRow(Answer):
    """A failed reflection."""

    at: Annotated[str | None, Field(description="UTC")]
    model: Annotated[str, Field(description="the model")]
    why: Annotated[str, Field(description="why it failed")]
    failures: Annotated[int, Field(description="failures in a row")]
    retry_at: Annotated[str | None, Field(description="UTC; the next attempt")]


class LessonChangeRow(Answer):
    """How one lesson changed."""

    what: Annotated[str, Field(description="added, removed, changed or kept")]
    slot: Annotated[str, Field(description="its slot")]
    before: Annotated[str | None, Field(description="its text before")]
    after: Annotated[str | None, Field(description="its text after")]


class LessonRow(Answer):
    """One lesson and its evidence."""

    id: Annotated[str, Field(description="its id")]
    slot: Annotated[str, Field(description="entry_timing, sizing, symbol_selection, exit_timing or regime_fit")]
    text: Annotated[str, Field(description="in words")]
    status: Annotated[
        LessonStatus, Field(description="shown: the agent sees it; hint: only the owner sees it (chance, or nothing found)")
    ]
    why_held_back: Annotated[str | None, Field(description="what it contradicts, if it is held back")]
    n: Annotated[int, Field(description="number of trades")]
    chance: Annotated[bool, Field(description="true: it could be luck")]
    tier: Annotated[int, Field(description="2 computed, 3 with a remark by a model")]
    regime: Annotated[str | None, Field(description="only in this regime")]
    expires_at: Annotated[str | None, Field(description="UTC; the agent sees it until then")]
    trades: Annotated[list[str], Field(description="ids of its trades")]
    figures: Annotated[LessonFigures | None, Field(description="its statistics")]


class NoteRow(Answer):
    """The result of one reflection."""

    id: Annotated[str, Field(description="its id")]
    scope: Annotated[Literal["agent", "skill"], Field(description="one agent, or all of the skill")]
    status: Annotated[Literal["active", "superseded"], Field(description="the newest is active")]
    skill: Annotated[str, Field(description="the skill")]
    skill_version: Annotated[int, Field(description="its version")]
    generated_at: Annotated[str, Field(description="UTC")]
    window: Annotated[list[str | None], Field(description="first and last exit of its trades, UTC")]
    trades_considered: Annotated[int, Field(description="how many")]
    closed: Annotated[int, Field(description="trades closed by then; the cadence counts from here")]
    scanned: Annotated[int, Field(description="patterns tested together")]
    model_used: Annotated[str, Field(description="stats, or the model")]
    chosen_by: Annotated[str, Field(description="who chose the lessons, in words; also if a model failed before")]
    asked_by: Annotated[str, Field(description="what started it: cadence, owner or model")]
    input_tokens: Annotated[int | None, Field(description="of the model")]
    output_tokens: Annotated[int | None, Field(description="of the model")]
    cost_usd: Annotated[str | None, Field(description="of the model")]
    from_note: Annotated[str | None, Field(description="the agent's note it was promoted from")]
    lessons: Annotated[list[LessonRow], Field(description="its lessons")]


def _figures(found: Candidate | None) -> LessonFigures | None:
    if found is None:
        return None
    return LessonFigures(
        kind=found.kind, label=found.label, unit=found.unit, n=found.n, of=found.total, share=rounded_figure(found.share),
        mean=rounded_figure(found.mean), interval_90=[rounded_figure(bound) for bound in found.interval],
        rest=rounded_figure(found.rest), difference=None if found.rest is None else rounded_figure(found.mean - found.rest),
        difference_90=None if found.difference is None else [rounded_figure(bound) for bound in found.difference],
        p_value=rounded_figure(found.p_value), chance=found.chance,
    )  # fmt: skip


def _status(one: Lesson, view: ReflectionView, at: datetime) -> LessonStatus:
    if one.flagged is not None:
        return "held_back"
    if one.id in view.retired:
        return "retired"
    if one.expires_at is not None and one.expires_at <= at:
        return "expired"
    return "shown" if lessons_for_agent([one], at) else "hint"


def note_row(view: ReflectionView, at: datetime) -> NoteRow:
    """The answer row of a note: the result of one reflection."""
    note = view.note
    known = {one.id: one for one in note.candidates}
    return NoteRow(
        id=note.id,
        scope="agent" if note.agent else "skill",
        status=view.status,
        skill=note.skill,
        skill_version=note.skill_version,
        generated_at=optional_time_text(note.generated_at) or "",
        window=[optional_time_text(note.window_start), optional_time_text(note.window_end)],
        trades_considered=note.trades_considered,
        closed=note.closed,
        scanned=note.scanned,
        model_used=note.model_used,
        chosen_by=note.chosen_by,
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
                status=_status(one, view, at),
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
    """The lessons of an agent, and when the next reflection is due."""

    agent: Annotated[str, Field(description="the agent")]
    note: Annotated[NoteRow | None, Field(description="its active lessons; null before the first reflection")]
    skill_note: Annotated[NoteRow | None, Field(description="the active lessons of its skill, shown to all its agents")]
    due: Annotated[str | None, Field(description="why a reflection is due; null: it is not")]
    cadence: Annotated[str, Field(description="when lessons are computed")]
    last_failure: Annotated[FailureRow | None, Field(description="the last failed reflection since then")]


def _failure(failed: FailedReflection) -> FailureRow:
    return FailureRow(at=optional_time_text(failed.at), model=failed.model, why=failed.why, failures=failed.failures,
                      retry_at=optional_time_text(failed.retry_at))  # fmt: skip


@operation(writes=False, columns=NOTE_TABLES)
def get_lessons(memory: Memory, ask: AsOf, caller: Caller) -> LessonsAnswer:
    """Get the lessons of an agent, now or at a past time, with the trades and figures behind each. Hints are not in its brief."""
    handle = agent_of(memory, ask)
    own, shared = handle.lessons.active(as_of=ask.as_of, head=ask.head)
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
    """Every reflection."""

    agent: Annotated[str, Field(description="the agent")]
    notes: Annotated[list[NoteRow], Field(description="of the agent, newest first")]
    skill_notes: Annotated[list[NoteRow], Field(description="of its skill, newest first")]
    failures: Annotated[list[FailureRow], Field(description="failed reflections, newest first")]


class GetHistory(AsOf):
    """How far back."""

    limit: Annotated[int, Field(ge=1, le=500, description="how many of each, newest first")] = 50


@operation(writes=False, columns=("id", "generated_at", "status", "trades_considered", "model_used"))
def get_lesson_history(memory: Memory, ask: GetHistory, caller: Caller) -> LessonHistory:
    """List all lessons an agent saw over time, active and superseded, and every failed reflection."""
    handle = agent_of(memory, ask)
    at = ask.as_of or handle.now()
    own = handle.lessons.reflections(as_of=ask.as_of, head=ask.head)
    return LessonHistory(
        agent=handle.agent.id, notes=[note_row(view, at) for view in own[: ask.limit]],
        skill_notes=[note_row(view, at) for view in handle.lessons.skill_reflections(as_of=ask.as_of)[: ask.limit]],
        failures=[_failure(one) for one in handle.lessons.failures()[: ask.limit]],
    )  # fmt: skip


class DiffLessons(OfAgent):
    """Which two reflections."""

    earlier: Annotated[Key | None, Field(description="note id; default: the note before the active one")] = None
    later: Annotated[Key | None, Field(description="note id; default: the active one")] = None


class LessonsDiff(Answer):
    """The changes between two notes."""

    agent: Annotated[str, Field(description="the agent")]
    earlier: Annotated[str, Field(description="id of a note")]
    later: Annotated[str, Field(description="id of a note")]
    changes: Annotated[list[LessonChangeRow], Field(description="lesson by lesson")]
    n: Annotated[dict[str, int], Field(description="how many were added, removed, changed, kept")]


@operation(writes=False, columns=("what", "slot", "before", "after"))
def diff_lessons(memory: Memory, ask: DiffLessons, caller: Caller) -> LessonsDiff:
    """Compare two notes of lessons, lesson by lesson."""
    handle = agent_of(memory, ask)
    earlier, later = _two_notes(handle, ask.earlier, ask.later)
    found = compare_lessons(earlier, later)
    return LessonsDiff(
        agent=handle.agent.id, earlier=earlier.id, later=later.id,
        changes=[LessonChangeRow(what=c.what, slot=c.slot, before=c.before, after=c.after) for c in found],
        n={what: sum(c.what == what for c in found) for what in ("added", "removed", "changed", "kept")},
    )  # fmt: skip


def _two_notes(handle: AgentMemory, earlier: str | None, later: str | None) -> tuple[Reflection, Reflection]:
    own = handle.lessons.reflections()
    if (earlier is None or later is None) and len(own) < 2:
        raise Conflict("agent", f"has {len(own)} note{'' if len(own) == 1 else 's'}", "Wait until there are two, or name both")
    last = handle.lessons.reflection(later).note if later is not None else own[0].note
    if earlier is not None:
        return handle.lessons.reflection(earlier).note, last
    place = next((n for n, view in enumerate(own) if view.note.id == last.id), 0)
    return own[min(place + 1, len(own) - 1)].note, last


class Reflect(OfAgent):
    """How to reflect."""

    model: Annotated[Label | None, Field(description="stats, anthropic/..., openai/...; default: as the skill says")] = None
    only_if_due: Annotated[bool, Field(description="do nothing unless it is due")] = False


class ReflectAnswer(Answer):
    """The result of a reflection."""

    agent: Annotated[str, Field(description="the agent")]
    note: Annotated[NoteRow | None, Field(description="the active note")]
    new: Annotated[bool, Field(description="true: it is new; equal trades and model give the existing note")]
    failed: Annotated[FailureRow | None, Field(description="why the model failed; after 3 failures memtape chooses")]
    waits: Annotated[str | None, Field(description="why nothing was done: not due, another worker runs it, retried later")]


@operation(writes=True, columns=NOTE_TABLES)
def reflect_now(memory: Memory, ask: Reflect, caller: Caller) -> ReflectAnswer:
    """Compute lessons from the closed trades now. The previous note is superseded and stays on record.

    If the model fails, the previous note stays active and the answer says so.
    """
    # A name that is not the name of a model is refused, for the owner and for a model alike.
    if ask.model is not None and ask.model.partition("/")[0] in KEY_SETTINGS:
        caller.require_owner("choose the model that words lessons (a model may choose stats, or leave it to the skill)")
    handle = memory.agent_for_writing(ask.agent)
    done = handle.lessons.reflect_if_due() if ask.only_if_due else handle.lessons.reflect(model=ask.model, asked_by=caller.role)
    own = handle.lessons.reflections()
    view = next((each for each in own if done.note is not None and each.note.id == done.note.id), own[0] if own else None)
    return ReflectAnswer(
        agent=handle.agent.id, note=note_row(view, handle.now()) if view else None, new=done.new,
        failed=_failure(done.failed) if done.failed else None, waits=done.waits or None,
    )  # fmt: skip


class RetireLesson(OfAgent):
    """Which lesson."""

    lesson_id: Annotated[Key, Field(description="an id from get_lessons")]
    scope: Annotated[
        Literal["agent", "skill"] | None, Field(description="for this agent or its whole skill; default: where the lesson is")
    ] = None
    reason: Annotated[Line, Field(description="why, for the record")] = ""


@operation(writes=True)
def retire_lesson(memory: Memory, ask: RetireLesson, caller: Caller) -> ReceiptAnswer:
    """Stop showing a lesson, even if it is recomputed with new figures. It stays on record. Owner only."""
    return receipt_answer(memory.agent_for_writing(ask.agent).lessons.retire(ask.lesson_id, ask.reason, scope=ask.scope))


class PromoteNote(OfAgent):
    """Which note."""

    note_id: Annotated[Key, Field(description="the note whose lessons are shown to every agent of the skill")]


@operation(writes=True)
def promote_lessons(memory: Memory, ask: PromoteNote, caller: Caller) -> NoteRow:
    """Show the lessons of a note to every agent of the skill; they replace the skill's earlier ones. Owner only."""
    handle = memory.agent_for_writing(ask.agent)
    note = handle.lessons.promote(ask.note_id)
    return note_row(handle.lessons.reflection(note.id), memory.clock.now())


class LabelTrade(OfAgent):
    """Which trade, and what it counts for."""

    trade_id: Annotated[Key, Field(description="an id from get_trades")]
    teach: Annotated[Teach, Field(description="learn: counts; exclude, anomaly: in no statistic; wrong_reason: not for entries; "
                                  "structural: not for exits and sizes")]  # fmt: skip
    reason: Annotated[Line, Field(description="why, for the record")] = ""


@operation(writes=True)
def label_trade(memory: Memory, ask: LabelTrade, caller: Caller) -> ReceiptAnswer:
    """Set what a closed trade counts for in lessons, beliefs, habits, evidence and state. Owner only."""
    handle = memory.agent_for_writing(ask.agent)
    return receipt_answer(handle.memories.correct(ask.trade_id, {"teach": ask.teach}, ask.reason))
