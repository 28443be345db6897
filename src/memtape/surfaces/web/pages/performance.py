"""The page of an agent's track record: `/agents/{agent}/performance` shows daily figures, groups and months, each with its n."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from memtape.surfaces.operations.performance import GetPerformance, get_strategy_performance
from memtape.surfaces.web.register import page
from memtape.surfaces.web.site import PageRequest


@page("/agents/{agent}/performance", nav="Performance", within="Overview", order=1)
def performance_page(request: PageRequest) -> Response:
    """The track record in detail."""
    found: Any = request.ask(get_strategy_performance, GetPerformance(agent=request.agent.id, detail=True))
    return request.show("performance.html", did=found, record=found.detail, currency=request.currency)
