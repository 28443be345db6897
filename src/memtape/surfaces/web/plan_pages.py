"""The page of an agent's plans: what is intended, what fires now, and the owner's word on what a model proposes.

/agents/{agent}/plans              the plans
POST /agents/{agent}/plans/confirm, /cancel    the owner's word; the field `plan_id` says on which
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from memtape.errors import Conflict, Unknown
from memtape.surfaces.web import words
from memtape.surfaces.web.desk import Desk, Writes, only_a_part
from memtape.surfaces.web.memory_pages import here, traded

ENDED = 50  # how many that have ended are listed


class PlanPages:
    """The plans of the agents of one memory."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def routes(self) -> list[BaseRoute]:
        """Every address."""
        path = "/agents/{agent}/plans"
        return [
            Route(path, self._desk.page(self.plans)),
            *(Route(f"{path}/{word}", self._desk.writing(self._said(word)), methods=["POST"]) for word in ("confirm", "cancel")),
        ]

    def plans(self, request: Request) -> Response:
        """Active, proposed and ended plans, and what those say together that fire now."""
        agent = self._desk.agent(request)
        return self._desk.show("plans_list.html" if only_a_part(request) else "plans.html", **self._shown(agent, request))

    def _said(self, word: str) -> Writes:
        """The owner confirms a plan, or lets it end."""

        def answer(request: Request, form: Mapping[str, str]) -> Response:
            agent, problem = self._desk.agent(request), ""
            try:
                self._desk.ask(f"{word}_plan", agent["id"], plan_id=form.get("plan_id", ""))
            except (Conflict, Unknown) as error:  # it has ended meanwhile, or someone else has said so first
                problem = str(error)
            if only_a_part(request):
                return self._desk.show("plans_list.html", 409 if problem else 200, **self._shown(agent, request, problem))
            if problem:
                return self._desk.show("plans.html", 409, **self._shown(agent, request, problem))
            return RedirectResponse(f"/agents/{agent['id']}/plans", 303)

        return answer

    def _shown(self, agent: Mapping[str, Any], request: Request, problem: str = "") -> dict[str, Any]:
        symbols, _ = traded(self._desk, agent["id"])
        symbol = here(request, symbols)
        asked = {"symbol": symbol} if symbol else {}
        told = self._desk.ask("check_active_plans", agent["id"], all=True, **asked)
        plans = {status: [plan for plan in told["plans"] if plan["status"] == status] for status in ("active", "proposed")}
        ended = [plan for plan in told["plans"] if plan["status"] not in plans]
        ended.sort(key=lambda plan: plan["ended_at"] or plan["created_at"], reverse=True)
        beliefs = self._desk.ask("get_beliefs", agent["id"], limit=1)
        return {
            "agent": agent, "path": f"/agents/{agent['id']}", "told": told,
            "symbol": symbol, "symbols": sorted({*symbols, symbol} - {""}),
            "active": plans["active"], "proposed": plans["proposed"], "ended": ended[:ENDED], "n_ended": len(ended),
            "by_id": {plan["id"]: plan for plan in told["plans"]}, "problem": problem,
            "suggested": [words.suggested(plan) for plan in beliefs["suggested_plans"]],
        }  # fmt: skip
