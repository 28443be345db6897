"""The page of an agent's affect state: `/agents/{agent}/state` shows it now and over time."""

from __future__ import annotations

from starlette.responses import Response

from memtape.surfaces.operations.state import GetState, get_agent_state
from memtape.surfaces.web.charts import affect_chart
from memtape.surfaces.web.register import page
from memtape.surfaces.web.site import PageRequest

MAX_STEPS = 5000  # drawn
STEPS_LISTED = 25


@page("/agents/{agent}/state", nav="State", order=60)
def state_page(request: PageRequest) -> Response:
    """The affect state, and the steps that led to it."""
    state = request.ask(get_agent_state, GetState(agent=request.agent.id, history=MAX_STEPS))
    history = state.history
    return request.show(
        "state.html", state=state, history=history, currency=request.currency,
        recent=history[::-1][:STEPS_LISTED], closes=sum(step.what == "close" for step in history),
        with_r=sum(step.pnl_r is not None for step in history),
        chart=affect_chart(history, state.max_acceptable_drawdown),
    )  # fmt: skip
