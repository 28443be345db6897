"""The page of an agent's lessons: what it is shown, what is held back, and how each lesson was computed.

    /agents/{agent}/lessons                  the active note, the skill's, the history; ?earlier= and ?later= compare two
    POST /agents/{agent}/lessons/reflect     compute lessons now
    POST /agents/{agent}/lessons/retire      stop showing a lesson
    POST /agents/{agent}/lessons/promote     show the lessons of a note to every agent of the skill

htmx gets only the comparison of two notes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from starlette.responses import RedirectResponse, Response

from memtape.errors import Conflict, Invalid, MemtapeError, Unknown
from memtape.surfaces.operations.agents import list_agents
from memtape.surfaces.operations.lessons import (
    DiffLessons,
    GetHistory,
    LessonRow,
    LessonsAnswer,
    NoteRow,
    PromoteNote,
    Reflect,
    RetireLesson,
    diff_lessons,
    get_lesson_history,
    get_lessons,
    promote_lessons,
    reflect_now,
    retire_lesson,
)
from memtape.surfaces.operations.skills import ShowSkill, show_skill
from memtape.surfaces.questions import AsOf, OfOwner
from memtape.surfaces.translate import error_report
from memtape.surfaces.web import words
from memtape.surfaces.web.figures import agent_card
from memtape.surfaces.web.forms import chosen_fields, read_question
from memtape.surfaces.web.register import form, page
from memtape.surfaces.web.site import PageRequest, Site
from memtape.surfaces.web.trades import AgentTrades, unlisted_trade

if TYPE_CHECKING:
    from memtape.core.skills import MemoryConfig
    from memtape.surfaces.web.trades import TradeFields

NOTES_LISTED = 50
TRADES_LISTED = 60  # of one lesson
DONE: Mapping[str, str] = {
    "new": "New lessons were computed.",
    "same": "Nothing has changed: the same trades and the same model give the same note.",
    "replaced": "The model failed again, so memtape chose the lessons itself.",
    "failed": "The reflection failed; the previous note stays active.",
    "waits": "Nothing was done: another worker is computing lessons. Try again in a moment.",
    "retired": "The lesson is no longer shown. It stays on record.",
    "promoted": "The note is now shown to every agent of the skill.",
}


class LessonTrades(NamedTuple):
    """The trades that a lesson was computed from: how many, and the latest of them, each with its agent."""

    n: int
    latest: Sequence[tuple[str, TradeFields]]


class ScopedLesson(NamedTuple):
    """A lesson, and whether it comes from the agent's own note or from its skill's."""

    lesson: LessonRow
    scope: str


# ---- reading -------------------------------------------------------------------------------------------------------------


@page("/agents/{agent}/lessons", nav="Lessons", order=20)
def lessons_page(request: PageRequest) -> Response:
    """The active note with the trades behind each lesson, and the earlier notes."""
    if request.partial:
        return request.show("lessons_diff.html", **_comparison(request))
    return request.show("lessons.html", **_lessons_shown(request), problem="", done=DONE.get(request.query.get("done", ""), ""))


def _lessons_shown(request: PageRequest) -> dict[str, Any]:
    agent = request.agent
    found = request.ask(get_lessons, AsOf(agent=agent.id))
    history = request.ask(get_lesson_history, GetHistory(agent=agent.id, limit=NOTES_LISTED))
    skill = request.ask(show_skill, ShowSkill(id=agent.skill, version=agent.skill_version))
    # The row has the fields of the configuration that it mirrors.
    memory = cast("MemoryConfig", skill.memory)
    closed = request.site.by_log(agent.id, agent_card).performance.n
    return {
        "found": found, "closed": closed, "notes": [*history.notes, *history.skill_notes], "failures": history.failures,
        "next": words.next_reflection(memory.reflection, closed), "memory_on": memory.enabled,
        "currency": request.currency, "lesson_trades": _lesson_trades(request, found), **_comparison(request),
    }  # fmt: skip


def _comparison(request: PageRequest) -> dict[str, Any]:
    """Two notes compared: those that the address names, else the active one and the one before it, if there are two."""
    named = chosen_fields(request.query, "earlier", "later")
    try:
        return {
            "diff": request.ask(diff_lessons, read_question(DiffLessons, agent=request.agent.id, **named)),
            "diff_problem": "",
        }
    except (Conflict, Invalid, Unknown) as error:
        return {"diff": None, "diff_problem": str(error) if named else ""}


def _lesson_trades(request: PageRequest, found: LessonsAnswer) -> dict[str, LessonTrades]:
    """The trades of each lesson, by its id. A lesson of the skill may rest on trades of other agents."""
    agent = request.agent
    lessons = list(_scoped_lessons((found.note, found.skill_note)))
    names = [agent.id]
    if any(one.scope == "skill" for one in lessons):
        others = request.ask(list_agents, OfOwner()).agents
        names += [other.id for other in others if other.skill == agent.skill and other.id != agent.id]
    missing = {id_ for one in lessons for id_ in one.lesson.trades}
    trades: dict[str, tuple[str, TradeFields]] = {}
    for name in names:
        found_here = AgentTrades(request.site, name).by_id(missing)
        trades |= {id_: (name, trade) for id_, trade in found_here.items()}
        missing -= found_here.keys()
    return {one.lesson.id: _latest(one.lesson.trades, trades, agent.id) for one in lessons}


def _latest(ids: Sequence[str], trades: Mapping[str, tuple[str, TradeFields]], agent: str) -> LessonTrades:
    """The trades of a lesson, the last closed first."""
    found = [trades.get(id_, (agent, unlisted_trade(id_))) for id_ in ids]
    found.sort(key=lambda one: one[1].exit_at or "", reverse=True)
    return LessonTrades(len(ids), found[:TRADES_LISTED])


def lessons_from_trade(site: Site, agent: str, trade: str) -> list[ScopedLesson]:
    """The lessons of the active notes that were computed from a trade. If both notes have one, the agent's own counts."""
    found = site.ask(get_lessons, AsOf(agent=agent))
    lessons: dict[str, ScopedLesson] = {}
    for one in _scoped_lessons((found.note, found.skill_note)):
        if trade in one.lesson.trades:
            lessons.setdefault(one.lesson.id, one)
    return list(lessons.values())


def _scoped_lessons(notes: Iterable[NoteRow | None]) -> Iterator[ScopedLesson]:
    for note in notes:
        if note is not None:
            yield from (ScopedLesson(lesson, note.scope) for lesson in note.lessons)


# ---- writing -------------------------------------------------------------------------------------------------------------


def _with_problem(request: PageRequest, error: MemtapeError) -> Response:
    template = "lessons_list.html" if request.partial else "lessons.html"
    return request.show(template, error_report(error).status, **_lessons_shown(request), problem=str(error), done="")


def _after(request: PageRequest, done: str) -> Response:
    if request.partial:
        return request.show("lessons_list.html", **_lessons_shown(request), problem="", done=DONE[done])
    return RedirectResponse(f"{request.agent_path}/lessons?done={done}", 303)


@form("/agents/{agent}/lessons/reflect", within="Lessons", on_error=_with_problem)
def reflect_form(request: PageRequest) -> Response:
    """Computes lessons now."""
    result = request.ask(reflect_now, Reflect(agent=request.agent.id))
    if result.failed:
        done = "replaced" if result.new else "failed"
    else:
        done = "waits" if result.waits else "new" if result.new else "same"
    return _after(request, done)


@form("/agents/{agent}/lessons/retire", within="Lessons", on_error=_with_problem)
def retire_lesson_form(request: PageRequest) -> Response:
    """Stops showing a lesson."""
    fields = chosen_fields(request.form, "lesson_id", "reason")
    request.ask(retire_lesson, read_question(RetireLesson, agent=request.agent.id, **fields))
    return _after(request, "retired")


@form("/agents/{agent}/lessons/promote", within="Lessons", on_error=_with_problem)
def promote_lessons_form(request: PageRequest) -> Response:
    """Shows the lessons of a note to every agent of the skill."""
    request.ask(promote_lessons, read_question(PromoteNote, agent=request.agent.id, note_id=request.form.get("note_id", "")))
    return _after(request, "promoted")
