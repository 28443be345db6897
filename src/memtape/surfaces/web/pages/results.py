"""The page of what came of trade decisions, of all agents: `/results/trade-decisions?window=24h|7d|all&agent=`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from starlette.responses import Response

from memtape.core.decisions.results import WINDOWS, ResultWindow
from memtape.surfaces.operations.agents import list_agents
from memtape.surfaces.operations.decision_results import DecisionResultRow, GetDecisionResults, get_decision_results
from memtape.surfaces.questions import OfOwner
from memtape.surfaces.web.charts import total_r_chart
from memtape.surfaces.web.decisions import decision_path
from memtape.surfaces.web.pages.runs import agent_config_of
from memtape.surfaces.web.register import page
from memtape.surfaces.web.site import PageRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memtape.core.decisions.results import ResultFigures, TotalPoint

ROWS_LISTED = 200
WINDOW_NAMES: dict[ResultWindow, str] = {"24h": "24 hours", "7d": "7 days", "all": "all time"}


class ResultRow(NamedTuple):
    """A decision in a list: where its page is, and how it can be examined again."""

    row: DecisionResultRow
    path: str
    has_runner: bool
    at_work: bool  # a re-examination of it was asked for and has not ended


@page("/results/trade-decisions")
def results_page(request: PageRequest) -> Response:
    """Active and closed decisions with their figures; htmx gets only these."""
    agents = [agent.id for agent in request.ask(list_agents, OfOwner()).agents]
    window = cast("ResultWindow", request.query.get("window", "all"))
    asked = request.query.get("agent", "")
    question = GetDecisionResults(
        window=window if window in WINDOWS else "all", agent=asked if asked in agents else None, limit=ROWS_LISTED, curve=True
    )
    found = request.ask(get_decision_results, question)
    runners = {agent: agent_config_of(request, agent).runner is not None for agent in agents}
    waiting = {(each.agent, each.what) for agent in agents for each in request.site.background.waiting(agent, "re-examination")}

    def rows(listed: Sequence[DecisionResultRow]) -> list[ResultRow]:
        return [
            ResultRow(row, decision_path(row.agent, row.id, row.run), runners[row.agent], (row.agent, row.id) in waiting)
            for row in listed
        ]

    return request.show(
        "results_parts.html" if request.partial else "results.html", site_place="results", window=found.window,
        windows=WINDOW_NAMES, agents=agents, agent_asked=question.agent or "", as_of=found.as_of, listed=found.listed,
        # The rows have the fields of the values that they mirror.
        figures=cast("ResultFigures", found.figures), chart=total_r_chart(cast("list[TotalPoint]", found.curve)),
        active=rows(found.active), closed=rows(found.closed), not_taken=rows(found.not_taken),
        without_outcome=rows(found.without_outcome), most=ROWS_LISTED,
    )  # fmt: skip
