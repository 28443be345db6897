"""The page of one decision, and examining it again. A decision that was recorded over MCP has no run, and has this page.

/agents/{agent}/decisions/{decision}       its card, its outcome, its conviction history
/agents/{agent}/re-examine?decision=       without a runner: the question, and a form for the answer
POST /agents/{agent}/re-examine/start      a fresh run of the agent examines it again
POST /agents/{agent}/re-examine/answer     record an answer that was given without a runner
POST /agents/{agent}/outcome               the owner states what came of a decision
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response

from memtape.core.decisions.examinations import GRADES
from memtape.errors import Conflict, Invalid, MemtapeError
from memtape.surfaces.caller import Caller
from memtape.surfaces.operations.cards import list_card_types
from memtape.surfaces.operations.decisions import DecisionAnswer, ReexamineDecision, reexamine_decision
from memtape.surfaces.operations.outcomes import RecordOutcome, record_outcome
from memtape.surfaces.questions import OfOwner
from memtape.surfaces.translate import error_report
from memtape.surfaces.web.background import RequestedRun
from memtape.surfaces.web.decisions import ShownDecision, shown_decision
from memtape.surfaces.web.forms import chosen_fields, field_problems, read_question
from memtape.surfaces.web.register import form, page
from memtape.surfaces.web.site import PageRequest

# What ended a decision, as the owner chooses it, and the status that it then has.
ENDINGS: Mapping[str, str] = {
    "closed": "resolved", "stop": "resolved", "target": "resolved", "expiry": "expired", "unfilled": "expired",
}  # fmt: skip

# ---- reading -------------------------------------------------------------------------------------------------------------


@page("/agents/{agent}/decisions/{decision:path}", within="Runs")
def one_decision_page(request: PageRequest) -> Response:
    """One decision; htmx gets only its parts, as they are now."""
    return _decision_shown(request, request.value("decision"))


def _decision_shown(
    request: PageRequest, id: str, status: int = 200, problem: str = "", wrong: Mapping[str, str] | None = None
) -> Response:
    shown = shown_decision(request, id)
    return request.show(
        "decision_parts.html" if request.partial else "decision.html", status, decision=shown, busy=shown.busy,
        problem=problem or request.site.background.problem(request.agent.id), wrong=wrong or {}, typed=request.form,
    )  # fmt: skip


@page("/agents/{agent}/re-examine", within="Runs")
def question_page(request: PageRequest) -> Response:
    """The question that examines a decision again, with a form for the answer."""
    return _question_shown(request, request.query)


def _question_shown(
    request: PageRequest, typed: Mapping[str, str], status: int = 200, wrong: Mapping[str, str] | None = None
) -> Response:
    shown = shown_decision(request, typed.get("decision", ""))
    _refuse_ended(shown.answer)
    question = ReexamineDecision(agent=request.agent.id, decision=shown.answer.id)
    # Asked as a model: the owner's own call would start a run where a runner is configured, and a page only reads.
    asked = reexamine_decision(request.site.memory, question, Caller("model", request.agent.id))
    fields = {"conviction_score", "notes", "suggested_action", "watch_for"}
    wrong = wrong or {}
    return request.show(
        "re_examine.html", status, decision=shown, prompt=asked.prompt, typed=typed, wrong=wrong, grades=GRADES,
        actions=_actions(request, shown.answer), watch_for=_watch_for(shown.answer),
        problem="; ".join(text for name, text in wrong.items() if name not in fields),
    )  # fmt: skip


def _actions(request: PageRequest, answer: DecisionAnswer) -> list[str]:
    types = request.ask(list_card_types, OfOwner()).card_types
    return next((card.reExamineActions for card in types if card.name == answer.card), [])


def _watch_for(answer: DecisionAnswer) -> list[str]:
    items = answer.slots.get("watch_for", [])
    return items if isinstance(items, list) else [items]


def _refuse_ended(answer: DecisionAnswer) -> None:
    if not answer.re_examinable:
        why = "its outcome is known" if answer.status in ("resolved", "expired") else "its card type does not allow it"
        raise Conflict("decision", f"cannot be examined again: {why}", "Examine a decision that is still open")


# ---- writing -------------------------------------------------------------------------------------------------------------


def _with_problem(request: PageRequest, error: MemtapeError) -> Response:
    return _decision_shown(request, request.form.get("decision", ""), error_report(error).status, str(error))


@form("/agents/{agent}/re-examine/start", within="Runs", on_error=_with_problem)
def start_examination_form(request: PageRequest) -> Response:
    """Starts a run that examines a decision again, and goes to the page that shows it."""
    shown = _named(request)
    question = ReexamineDecision(agent=request.agent.id, decision=shown.answer.id)
    request.site.background.start(
        RequestedRun(request.agent.id, "re-examination", shown.answer.id), lambda: request.ask(reexamine_decision, question)
    )
    return RedirectResponse(f"{shown.path}#conviction", 303)


def _answer_with_problem(request: PageRequest, error: MemtapeError) -> Response:
    return _question_shown(request, request.form, error_report(error).status, field_problems(error))


@form("/agents/{agent}/re-examine/answer", within="Runs", on_error=_answer_with_problem)
def answer_form(request: PageRequest) -> Response:
    """Records an answer that was given without a runner, and goes to its run."""
    shown = _named(request)
    question = read_question(ReexamineDecision, agent=request.agent.id, decision=shown.answer.id, answer=_answer(request, shown))
    made = request.ask(reexamine_decision, question)
    return RedirectResponse(f"{request.agent_path}/runs/{quote(made.run or '', safe='')}", 303)


def _named(request: PageRequest) -> ShownDecision:
    shown = shown_decision(request, request.form.get("decision", ""))
    _refuse_ended(shown.answer)
    return shown


def _answer(request: PageRequest, shown: ShownDecision) -> dict[str, Any]:
    """The answer as it was typed. What is no whole number stays a text, which the operation refuses with its own words."""
    score = request.form.get("conviction_score", "").strip()
    graded = [
        {"item": item, "grade": request.form.get(f"grade-{n}", "")} for n, item in enumerate(_watch_for(shown.answer), start=1)
    ]
    return {
        "conviction_score": int(score) if score.isascii() and score.isdigit() and len(score) < 10 else score or None,
        "notes": " ".join(request.form.get("notes", "").split()),
        "suggested_action": request.form.get("suggested_action", "").strip(),
        **({"watch_for": graded} if graded else {}),
    }


def _outcome_with_problem(request: PageRequest, error: MemtapeError) -> Response:
    wrong = field_problems(error)
    above = "" if wrong.keys() <= {"r", "exit_price", "note", "ending"} else str(error)
    return _decision_shown(request, request.form.get("decision", ""), error_report(error).status, above, wrong)


@form("/agents/{agent}/outcome", within="Runs", on_error=_outcome_with_problem)
def state_outcome_form(request: PageRequest) -> Response:
    """Records what the owner says came of a decision; what memtape computed stays beside it."""
    shown = shown_decision(request, request.form.get("decision", ""))
    ending = request.form.get("ending", "")
    if ending not in ENDINGS:
        raise Invalid("ending", "is not one of the choices", "Choose what ended it")
    stated = chosen_fields({name: text.strip() for name, text in request.form.items()}, "r", "exit_price", "note")
    if "r" not in stated and ending != "unfilled":
        raise Invalid("r", "is empty", "Write the result in R, like -1 or 1.5")
    question = read_question(
        RecordOutcome, agent=request.agent.id, decision=shown.answer.id, status=ENDINGS[ending], cause=ending, **stated
    )
    request.ask(record_outcome, question)
    return RedirectResponse(f"{shown.path}#card-title", 303)
