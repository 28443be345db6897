"""The page of an agent's lessons, and the owner's hand on them: what it is told, what is held back, how it came to be.

    /agents/{agent}/lessons                      the active note, the skill's, the history; ?earlier=&later= compares two
    POST /agents/{agent}/lessons/reflect         draw lessons now
    POST /agents/{agent}/lessons/retire          tell one of them no more
    POST /agents/{agent}/lessons/promote         tell them to every agent of the skill
    POST /agents/{agent}/trades/{trade}/teach    the owner's word on how a trade may teach

Asked for by htmx, the address gives only the comparison of two notes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from memtape.errors import Conflict, Invalid, MemtapeError, Unknown
from memtape.surfaces.translate import error_report
from memtape.surfaces.web import words
from memtape.surfaces.web.desk import Desk, Writes, only_a_part

HISTORY = 50  # notes in the table
MOST_TRADES = 60  # behind one lesson
DONE: Mapping[str, str] = {
    "new": "Lessons were drawn anew.",
    "same": "Nothing has changed: the same trades by the same model make the note that is there.",
    "failed": "The reflection came to nothing; the note before it stays.",
    "waits": "Nothing was done: another worker is drawing lessons. Look again in a moment.",
    "retired": "The lesson is told no more. It stays on record.",
    "promoted": "The note is now told to every agent of the skill.",
}


class Behind(NamedTuple):
    """The trades behind a lesson: how many, and the latest of them, each with the agent that made it."""

    n: int
    latest: Sequence[tuple[str, Mapping[str, Any]]]


class LessonPages:
    """The lessons of the agents of one memory."""

    def __init__(self, desk: Desk) -> None:
        self._desk, self._ask = desk, desk.ask

    def routes(self) -> list[BaseRoute]:
        """Every address."""
        path = "/agents/{agent}/lessons"
        says = {"reflect": self._reflect, "retire": self._retire, "promote": self._promote}
        return [
            Route(path, self._desk.page(self.lessons)),
            *(Route(f"{path}/{word}", self._desk.writing(self._said(do)), methods=["POST"]) for word, do in says.items()),
            Route("/agents/{agent}/trades/{trade}/teach", self._desk.writing(self.teach), methods=["POST"]),
        ]

    # ---- reading --------------------------------------------------------------------------------------------------

    def lessons(self, request: Request) -> Response:
        """The active note with what stands behind each lesson, and the notes before it."""
        agent = self._desk.agent(request)
        if only_a_part(request):
            return self._desk.show("lessons_diff.html", **self._compared(agent, request))
        done = DONE.get(request.query_params.get("done", ""), "")
        return self._desk.show("lessons.html", **self._shown(agent, request), problem="", done=done)

    def _shown(self, agent: Mapping[str, Any], request: Request) -> dict[str, Any]:
        found = self._ask("get_lessons", agent["id"])
        history = self._ask("get_lesson_history", agent["id"], limit=HISTORY)
        skill = self._ask("show_skill", id=agent["skill"], version=agent["skill_version"])
        closed = self._ask("get_strategy_performance", agent["id"])["n"]
        return {
            "agent": agent, "path": _path(agent), "found": found, "history": history, "closed": closed,
            "notes": [*history["notes"], *history["skill_notes"]],
            "next": words.next_reflection(skill["memory"]["reflection"], closed), "remembers": skill["memory"]["enabled"],
            "currency": agent["settings"]["currency"], "behind": self._behind(agent, found),
            **self._compared(agent, request),
        }  # fmt: skip

    def _compared(self, agent: Mapping[str, Any], request: Request) -> dict[str, Any]:
        """Two notes side by side: those asked for, else the active one and the one before it, once there are two."""
        asked = {name: request.query_params[name] for name in ("earlier", "later") if request.query_params.get(name)}
        try:
            return {"diff": self._ask("diff_lessons", agent["id"], **asked), "diff_problem": ""}
        except (Conflict, Invalid, Unknown) as error:
            return {"diff": None, "diff_problem": str(error) if asked else ""}

    def _behind(self, agent: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Behind]:
        """The trades behind each lesson; those behind the skill's may be another agent's."""
        lessons = list(_lessons((found["note"], found["skill_note"])))
        names = [agent["id"]]
        if any(lesson["scope"] == "skill" for lesson in lessons):
            others = self._ask("list_agents")["agents"]
            names += [other["id"] for other in others if other["skill"] == agent["skill"] and other["id"] != agent["id"]]
        made = {row["id"]: (name, row) for name in reversed(names) for row in self._ask("get_ledger", name)["rows"]}
        return {lesson["id"]: _latest(lesson["trades"], made, agent["id"]) for lesson in lessons}

    # ---- the owner's hand -----------------------------------------------------------------------------------------

    def _said(self, do: Writes) -> Writes:
        """What a button does, and the page after it: what is wrong is said there."""

        def answer(request: Request, form: Mapping[str, str]) -> Response:
            agent = self._desk.agent(request)
            try:
                return do(request, form)
            except (Conflict, Invalid, Unknown) as error:
                return self._again(agent, request, error)

        return answer

    def _again(self, agent: Mapping[str, Any], request: Request, error: MemtapeError) -> Response:
        shown = self._shown(agent, request)
        template = "lessons_list.html" if only_a_part(request) else "lessons.html"
        return self._desk.show(template, error_report(error).status, **shown, problem=str(error), done="")

    def _reflect(self, request: Request, form: Mapping[str, str]) -> Response:
        came = self._ask("reflect_now", request.path_params["agent"])
        said = "waits" if came["waits"] else "failed" if came["failed"] else "new" if came["new"] else "same"
        return self._after(request, said)

    def _retire(self, request: Request, form: Mapping[str, str]) -> Response:
        asked = {name: form[name] for name in ("lesson_id", "reason") if form.get(name)}
        self._ask("retire_lesson", request.path_params["agent"], **asked)
        return self._after(request, "retired")

    def _promote(self, request: Request, form: Mapping[str, str]) -> Response:
        self._ask("promote_lessons", request.path_params["agent"], note_id=form.get("note_id", ""))
        return self._after(request, "promoted")

    def _after(self, request: Request, said: str) -> Response:
        agent = self._desk.agent(request)
        if only_a_part(request):
            return self._desk.show("lessons_list.html", **self._shown(agent, request), problem="", done=DONE[said])
        return RedirectResponse(f"{_path(agent)}/lessons?done={said}", 303)

    def teach(self, request: Request, form: Mapping[str, str]) -> Response:
        """How a trade may teach, by the owner's word."""
        agent, trade = self._desk.agent(request), request.path_params["trade"]
        asked = {name: form[name] for name in ("teach", "reason") if form.get(name)}
        self._ask("label_trade", agent["id"], trade_id=trade, **asked)
        return RedirectResponse(f"{_path(agent)}/trades/{quote(trade, safe='')}#teach", 303)


def standing_behind(desk: Desk, agent: str, trade: str) -> list[dict[str, Any]]:
    """The lessons of the active notes that rest on a trade; one that the skill tells too is the agent's own."""
    found = desk.ask("get_lessons", agent)
    resting: dict[str, dict[str, Any]] = {}
    for lesson in _lessons((found["note"], found["skill_note"])):
        if trade in lesson["trades"]:
            resting.setdefault(lesson["id"], lesson)
    return list(resting.values())


def _lessons(notes: Iterable[Mapping[str, Any] | None]) -> Iterator[dict[str, Any]]:
    for note in notes:
        if note is not None:
            yield from ({**lesson, "scope": note["scope"]} for lesson in note["lessons"])


def _latest(ids: Sequence[str], made: Mapping[str, tuple[str, Mapping[str, Any]]], agent: str) -> Behind:
    """The trades of a lesson, the one that closed last first; what no ledger lists is known by its id alone."""
    unknown = {"symbol": "", "side": "", "exit_at": None, "pnl_r": None}
    told = [made.get(id_, (agent, {"id": id_, **unknown, "symbol": id_})) for id_ in ids]
    told.sort(key=lambda one: one[1]["exit_at"] or "", reverse=True)
    return Behind(len(ids), told[:MOST_TRADES])


def _path(agent: Mapping[str, Any]) -> str:
    return f"/agents/{agent['id']}"
