"""The page of an agent's rules: what is always in its context, what of that is missing, and what looks like rules.

/agents/{agent}/rules                   the pinned documents and sections, and suggestions
POST /agents/{agent}/rules/pin, /unpin  the document in the field `path`, or the section of it in `section`
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from starlette.responses import RedirectResponse, Response

from memtape.errors import MemtapeError
from memtape.surfaces.answers import ReceiptAnswer
from memtape.surfaces.operations.rules import PinDocument, list_pinned, pin_document, suggest_pins, unpin_document
from memtape.surfaces.questions import OfAgent
from memtape.surfaces.translate import error_report
from memtape.surfaces.web.forms import chosen_fields, read_question
from memtape.surfaces.web.register import form, page
from memtape.surfaces.web.site import PageRequest, Site

if TYPE_CHECKING:
    from memtape.surfaces.web.site import OperationFunction

DONE: Mapping[str, str] = {
    "pinned": "Pinned: it is in every brief from now on.",
    "unpinned": "Unpinned: no brief shows it any more.",
}


def missing_rules_badge(site: Site, agent: str) -> int:
    """The number of pinned rules of which something is missing."""
    return sum(bool(pin.problem) for pin in site.memory.agent(agent).rules.pinned())


@page("/agents/{agent}/rules", nav="Rules", within="Documents", order=5, badge=missing_rules_badge)
def rules_page(request: PageRequest) -> Response:
    """What is pinned, what of it is missing, and what looks like rules."""
    return _rules_shown(request, done=DONE.get(request.query.get("done", ""), ""))


def _rules_shown(request: PageRequest, status: int = 200, *, done: str = "", problem: str = "") -> Response:
    agent = OfAgent(agent=request.agent.id)
    return request.show(
        "rules.html", status, pins=request.ask(list_pinned, agent).pinned,
        suggestions=request.ask(suggest_pins, agent).suggestions, rules_done=done, rules_problem=problem,
    )  # fmt: skip


def _with_problem(request: PageRequest, error: MemtapeError) -> Response:
    return _rules_shown(request, error_report(error).status, problem=str(error))


@form("/agents/{agent}/rules/pin", within="Documents", on_error=_with_problem)
def pin_form(request: PageRequest) -> Response:
    """Pins a document or section as it is now."""
    return _state(request, pin_document, "pinned")


@form("/agents/{agent}/rules/unpin", within="Documents", on_error=_with_problem)
def unpin_form(request: PageRequest) -> Response:
    """Unpins a document or section."""
    return _state(request, unpin_document, "unpinned")


def _state(request: PageRequest, operation: OperationFunction[PinDocument, ReceiptAnswer], done: str) -> Response:
    fields = chosen_fields(request.form, "path", "section")
    request.ask(operation, read_question(PinDocument, agent=request.agent.id, **fields))
    return RedirectResponse(f"{request.agent_path}/rules?done={done}", 303)
