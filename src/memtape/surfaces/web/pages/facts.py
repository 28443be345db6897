"""The page of what is known about the owner: every fact with where it comes from, to be corrected at any time.

/profile/facts                    the facts; `archived=1` shows the archived ones too, `edit=ID` opens one to be edited
POST /profile/facts/add           the owner states a fact
POST /profile/facts/edit, /promote, /demote, /archive, /restore    the owner changes the fact in the field `fact_id`
"""

from __future__ import annotations

from typing import Any

from starlette.responses import RedirectResponse, Response

from memtape.core.facts import MAX_FACT_CHARS, MAX_TOPIC_CHARS, MIN_FACT_CHARS
from memtape.errors import Invalid, MemtapeError, Unknown
from memtape.surfaces.operations.facts import (
    EditFact,
    Forget,
    ListFacts,
    NameFact,
    Remember,
    demote_fact,
    edit_fact,
    forget,
    list_facts,
    promote_fact,
    remember,
    restore_fact,
)
from memtape.surfaces.operations.skills import list_skills
from memtape.surfaces.questions import OfOwner
from memtape.surfaces.web.forms import chosen_fields, query_text, read_question
from memtape.surfaces.web.register import form, page
from memtape.surfaces.web.site import PageRequest

ADDRESS = "/profile/facts"
DONE = {
    "added": "Added: from the next chat on, the coach knows it.",
    "known": "This was known already; it counts as stated by you.",
    "saved": "Saved. What it said before stays on record.",
    "promoted": "Now asserted: it counts as your own statement.",
    "demoted": "Now inferred: it is marked as a guess.",
    "archived": "Archived: the coach is not shown it any more.",
    "restored": "Restored: the coach may be shown it again.",
}
SOURCES = {"chat": "from a chat", "profile": "entered by you", "inferred": "concluded from your behaviour"}
ARCHIVED = {"user_deleted": "by you", "user_corrected": "corrected by you", "agent_forget": "by the coach"}


@page(ADDRESS)
def facts_page(request: PageRequest) -> Response:
    """Every fact, and the form to add one."""
    return _show(request, 200, chosen_fields(request.query, "archived", "edit", "last", "done", "fact"))


def _show(
    request: PageRequest, status: int, asked: dict[str, str], problem: str = "", typed: dict[str, str] | None = None
) -> Response:
    found = request.ask(list_facts, ListFacts(archived=True)).facts
    active = [row for row in found if row.archived_at is None]
    archived = [row for row in found if row.archived_at is not None]
    values: dict[str, Any] = {
        "active": active, "archived": archived, "show_archived": asked.get("archived") == "1", "edit": asked.get("edit", ""),
        "last": asked.get("last", ""), "done": DONE.get(asked.get("done", ""), ""), "problem": problem, "typed": typed or {},
        "undo": asked.get("fact", "") if asked.get("done") == "archived" else "",
        "topics": sorted({row.topic for row in found if row.topic}),
        "skills": [skill.id for skill in request.ask(list_skills, OfOwner()).skills],
        "sources": SOURCES, "archived_by": ARCHIVED, "address": ADDRESS,
        "chars": {"least": MIN_FACT_CHARS, "most": MAX_FACT_CHARS, "topic": MAX_TOPIC_CHARS},
    }  # fmt: skip
    return request.show("facts_list.html" if request.partial else "facts.html", status, **values)


def _after(request: PageRequest, done: str, fact_id: str, *, to_row: bool = False) -> Response:
    """The page after a change. `to_row` moves the focus to the row, where the form that had it is gone."""
    asked = {"archived": request.form.get("archived", ""), "done": done, "fact": fact_id, "last": fact_id if to_row else ""}
    if request.partial:
        return _show(request, 200, asked)
    return RedirectResponse(f"{ADDRESS}?{query_text(asked)}#fact-{fact_id}", 303)


def _with_problem(request: PageRequest, error: MemtapeError) -> Response:
    """The page with what is wrong above it, and what was typed still in its form."""
    asked, typed = chosen_fields(request.form, "archived"), {}
    if "fact" in request.form:
        typed = {name: request.form.get(name, "") for name in ("fact", "topic", "skill")}
        asked["edit"] = "" if isinstance(error, Unknown) else request.form.get("fact_id", "")
    return _show(request, 422 if isinstance(error, Invalid) else 409, asked, str(error), typed)


@form(f"{ADDRESS}/add", on_error=_with_problem)
def add_fact_form(request: PageRequest) -> Response:
    """Adds a fact, as the owner's own statement."""
    known = {row.id for row in request.ask(list_facts, ListFacts(archived=False)).facts}
    stated = chosen_fields(request.form, "topic", "skill")
    asked = read_question(Remember, fact=request.form.get("fact", ""), confidence="asserted", **stated)
    stored = request.ask(remember, asked)
    return _after(request, "known" if stored.id in known else "added", stored.id)


@form(f"{ADDRESS}/edit", on_error=_with_problem)
def edit_fact_form(request: PageRequest) -> Response:
    """Changes the text, topic and skill of a fact."""
    fields = {name: request.form.get(name, "") for name in ("fact_id", "fact", "topic", "skill")}
    return _after(request, "saved", request.ask(edit_fact, read_question(EditFact, **fields)).fact.id, to_row=True)


@form(f"{ADDRESS}/promote", on_error=_with_problem)
def promote_fact_form(request: PageRequest) -> Response:
    """Marks a fact as asserted."""
    return _after(request, "promoted", request.ask(promote_fact, _named(request)).fact.id)


@form(f"{ADDRESS}/demote", on_error=_with_problem)
def demote_fact_form(request: PageRequest) -> Response:
    """Marks a fact as inferred."""
    return _after(request, "demoted", request.ask(demote_fact, _named(request)).fact.id)


@form(f"{ADDRESS}/archive", on_error=_with_problem)
def archive_fact_form(request: PageRequest) -> Response:
    """Archives a fact for the owner."""
    asked = Forget(fact_id=_named(request).fact_id, reason="user_deleted")
    return _after(request, "archived", request.ask(forget, asked).id)


@form(f"{ADDRESS}/restore", on_error=_with_problem)
def restore_fact_form(request: PageRequest) -> Response:
    """Brings an archived fact back."""
    return _after(request, "restored", request.ask(restore_fact, _named(request)).fact.id, to_row=True)


def _named(request: PageRequest) -> NameFact:
    return read_question(NameFact, fact_id=request.form.get("fact_id", ""))
