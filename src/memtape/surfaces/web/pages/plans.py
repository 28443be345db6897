"""The page of an agent's plans: which are active, which apply now, and which a model proposes.

/agents/{agent}/plans                          the plans; htmx gets only the lists
POST /agents/{agent}/plans/confirm, /cancel    the owner decides on the plan in the field `plan_id`
"""

from __future__ import annotations

from typing import Any

from starlette.responses import RedirectResponse, Response

from memtape.errors import Invalid, MemtapeError
from memtape.surfaces.operations.beliefs import GetBeliefs, get_beliefs
from memtape.surfaces.operations.plans import CheckPlans, NamePlan, cancel_plan, check_active_plans, confirm_plan
from memtape.surfaces.web import words
from memtape.surfaces.web.forms import chosen_fields, read_question
from memtape.surfaces.web.register import form, page
from memtape.surfaces.web.site import PageRequest
from memtape.surfaces.web.trades import AgentTrades, chosen_symbol

ENDED_LISTED = 50


@page("/agents/{agent}/plans", nav="Plans", order=70)
def plans_page(request: PageRequest) -> Response:
    """Active, proposed and ended plans, and the joint result of those that apply now."""
    return request.show("plans_list.html" if request.partial else "plans.html", **_plans_shown(request))


def _plans_shown(request: PageRequest, problem: str = "") -> dict[str, Any]:
    agent = request.agent.id
    names = AgentTrades(request.site, agent).names()
    symbol = chosen_symbol(request.query, names)
    filters = chosen_fields({"symbol": symbol}, "symbol")
    check = request.ask(check_active_plans, read_question(CheckPlans, agent=agent, all=True, **filters))
    by_status = {status: [plan for plan in check.plans if plan.status == status] for status in ("active", "proposed")}
    ended = [plan for plan in check.plans if plan.status not in by_status]
    ended.sort(key=lambda plan: plan.ended_at or plan.created_at or "", reverse=True)
    suggestions = request.ask(get_beliefs, GetBeliefs(agent=agent, limit=1)).suggested_plans
    return {
        "check": check, "symbol": symbol, "symbols": sorted({*names.symbols, symbol} - {""}),
        "active": by_status["active"], "proposed": by_status["proposed"],
        "ended": ended[:ENDED_LISTED], "n_ended": len(ended),
        "by_id": {plan.id: plan for plan in check.plans}, "problem": problem,
        "suggested": [words.plan_idea(plan) for plan in suggestions],
    }  # fmt: skip


def _with_problem(request: PageRequest, error: MemtapeError) -> Response:
    """The lists with the problem above them: the plan has ended meanwhile, or somebody else has decided first."""
    if isinstance(error, Invalid):
        raise error
    template = "plans_list.html" if request.partial else "plans.html"
    return request.show(template, 409, **_plans_shown(request, str(error)))


def _after(request: PageRequest) -> Response:
    if request.partial:
        return request.show("plans_list.html", **_plans_shown(request))
    return RedirectResponse(f"{request.agent_path}/plans", 303)


@form("/agents/{agent}/plans/confirm", within="Plans", on_error=_with_problem)
def confirm_plan_form(request: PageRequest) -> Response:
    """Confirms a proposed plan."""
    request.ask(confirm_plan, _named_plan(request))
    return _after(request)


@form("/agents/{agent}/plans/cancel", within="Plans", on_error=_with_problem)
def cancel_plan_form(request: PageRequest) -> Response:
    """Ends a plan."""
    request.ask(cancel_plan, _named_plan(request))
    return _after(request)


def _named_plan(request: PageRequest) -> NamePlan:
    return read_question(NamePlan, agent=request.agent.id, plan_id=request.form.get("plan_id", ""))
