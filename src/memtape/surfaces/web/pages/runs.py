"""The pages of an agent's runs.

    /agents/{agent}/runs              the runs, newest first; ?kind= only one kind
    /agents/{agent}/runs/{run}        one run: what it was asked, its answer, its decision or re-examination, its steps, its cost
    POST /agents/{agent}/runs/start   run the agent now; `prompt` takes the place of its default prompt

While a run is at work, htmx reads the page again every two seconds. Reading writes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast, get_args

from starlette.responses import RedirectResponse, Response

from memtape.core.decisions.runs import RunKind
from memtape.errors import Invalid, MemtapeError, Unknown
from memtape.surfaces.operations.agents import list_agents
from memtape.surfaces.operations.ledger import GetDecisions, get_decisions
from memtape.surfaces.operations.runs import (
    GetRun,
    ListRuns,
    RunAgent,
    RunAnswer,
    RunRow,
    ShowConfig,
    get_agent_config,
    get_run,
    list_runs,
    run_agent,
)
from memtape.surfaces.questions import OfOwner
from memtape.surfaces.translate import error_report, json_text
from memtape.surfaces.web.background import RequestedRun
from memtape.surfaces.web.decisions import shown_decision
from memtape.surfaces.web.forms import read_question
from memtape.surfaces.web.register import form, page
from memtape.surfaces.web.site import PageRequest

if TYPE_CHECKING:
    from memtape.core.decisions.agent_config import AgentConfig
    from memtape.core.decisions.runs import RunStep
    from memtape.core.observed import Decision

RUNS_LISTED = 200
COUNCIL_RUNS_READ = 500  # of each member, to find those that advised one run
LONG_TEXT = 700  # characters; a longer text is folded


class ShownStep(NamedTuple):
    """A step of a run, with what a tool was given as readable JSON."""

    step: RunStep
    given: str


def agent_config_of(request: PageRequest, agent: str) -> AgentConfig:
    """How an agent is run."""
    # The row has the fields of the configuration that it mirrors.
    return cast("AgentConfig", request.ask(get_agent_config, ShowConfig(agent=agent)).config)


# ---- the list ------------------------------------------------------------------------------------------------------------


@page("/agents/{agent}/runs", nav="Runs", order=4)
def runs_page(request: PageRequest) -> Response:
    """The runs of an agent; htmx gets only the list."""
    return _runs_shown(request)


def _runs_shown(request: PageRequest, status: int = 200, problem: str = "") -> Response:
    agent, asked = request.agent.id, request.query.get("kind", "")
    kinds = get_args(RunKind)
    kind: RunKind | None = cast("RunKind", asked) if asked in kinds else None
    waiting = len(request.site.background.waiting(agent))
    runs = request.ask(list_runs, ListRuns(agent=agent, kind=kind, limit=RUNS_LISTED)).runs
    # An agent has one run at a time, so only the newest can be at work; it may be of a kind that is not listed.
    newest = request.ask(list_runs, ListRuns(agent=agent, limit=1)).runs
    running = any(run.result == "running" for run in (*runs, *newest))
    found = request.ask(get_decisions, GetDecisions(agent=agent, limit=1000)).decisions
    shown: dict[str, Any] = {
        "runs": runs, "kind": kind or "", "most": RUNS_LISTED,
        # The rows have the fields of the decisions that they mirror.
        "decisions": {decision.id: decision for decision in cast("list[Decision]", found)},
        "waiting": waiting, "running": running, "busy": bool(waiting) or running,
        "problem": problem or request.site.background.problem(agent),
    }  # fmt: skip
    if request.partial:
        return request.show("runs_list.html", status, **shown)
    return request.show("runs.html", status, **shown, kinds=kinds, config=agent_config_of(request, agent))


def _with_problem(request: PageRequest, error: MemtapeError) -> Response:
    return _runs_shown(request, error_report(error).status, str(error))


@form("/agents/{agent}/runs/start", within="Runs", on_error=_with_problem)
def start_run_form(request: PageRequest) -> Response:
    """Starts a run and goes to the list, which refreshes until it has ended."""
    agent, prompt = request.agent.id, request.form.get("prompt", "").strip() or None
    question = read_question(RunAgent, agent=agent, prompt=prompt)
    request.site.background.start(RequestedRun(agent, "manual", prompt or ""), lambda: request.ask(run_agent, question))
    return RedirectResponse(f"{request.agent_path}/runs", 303)


# ---- one run -------------------------------------------------------------------------------------------------------------


@page("/agents/{agent}/runs/{run}", within="Runs")
def run_page(request: PageRequest) -> Response:
    """One run; htmx gets only its parts, as they are now."""
    agent, id_ = request.agent.id, request.value("run")
    try:
        run = request.ask(get_run, read_question(GetRun, agent=agent, run=id_))
    except (Invalid, Unknown):
        raise Unknown("run", "run", id_, f"Choose one from the runs of '{agent}'") from None
    decision = shown_decision(request, run.decision) if run.decision is not None else None
    steps = cast("list[RunStep]", run.steps)
    return request.show(
        "run_parts.html" if request.partial else "run.html", run=run, decision=decision, long_text=LONG_TEXT, wrong={}, typed={},
        found=decision.examination_by(run.id) if decision is not None else None,
        steps=[ShownStep(step, json_text(step.input, indent=2) if step.input else "") for step in steps],
        council=_council_runs(request, run), lead=_lead_run(request, run),
        busy=run.result == "running" or (decision is not None and decision.busy and run.kind != "re-examination"),
    )  # fmt: skip


def _council_runs(request: PageRequest, run: RunAnswer) -> list[tuple[str, RunRow]]:
    """The runs of the council that advised a run, each with its agent."""
    found: list[tuple[str, RunRow]] = []
    for member in agent_config_of(request, run.agent).members:
        runs = request.ask(list_runs, ListRuns(agent=member, kind="council", limit=COUNCIL_RUNS_READ)).runs
        found += [(member, each) for each in runs if each.parent == run.id]
    return found


def _lead_run(request: PageRequest, run: RunAnswer) -> tuple[str, str] | None:
    """The agent and the run that a council member's run advised, if it is still known whose council it sat in."""
    if run.kind != "council" or run.parent is None:
        return None
    for agent in request.ask(list_agents, OfOwner()).agents:
        if run.agent in agent_config_of(request, agent.id).members:
            try:
                return agent.id, request.ask(get_run, GetRun(agent=agent.id, run=run.parent)).id
            except Unknown:
                continue
    return None
