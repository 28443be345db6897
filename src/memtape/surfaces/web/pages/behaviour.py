"""The page of an agent's behaviour: its habits, whether they drift, and its patterns.

/agents/{agent}/behaviour    for all trades, or for one strategy and symbol; htmx gets only the figures
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from starlette.responses import Response

from memtape.surfaces.operations.behaviour import GetBehaviour, get_behavioral_analysis
from memtape.surfaces.web import words
from memtape.surfaces.web.forms import read_question
from memtape.surfaces.web.register import page
from memtape.surfaces.web.site import PageRequest
from memtape.surfaces.web.trades import AgentTrades, chosen_name

if TYPE_CHECKING:
    from memtape.core.memory.behaviour import DriftReport


@page("/agents/{agent}/behaviour", nav="Behaviour", order=50)
def behaviour_page(request: PageRequest) -> Response:
    """What an agent does repeatedly, in one strategy and symbol or in all."""
    names = AgentTrades(request.site, request.agent.id).names()
    symbol = chosen_name(request.query, "symbol", names.symbols)
    strategy = chosen_name(request.query, "strategy", names.strategies)
    filters = {name: value for name, value in (("symbol", symbol), ("strategy_name", strategy)) if value}
    found = request.ask(get_behavioral_analysis, read_question(GetBehaviour, agent=request.agent.id, **filters))
    # The rows have the fields of the reports that they mirror.
    drifts = cast("list[DriftReport]", found.drift)
    return request.show(
        "behaviour_figures.html" if request.partial else "behaviour.html", found=found, names=names, symbol=symbol,
        strategy=strategy, habits=words.HABITS, figure_text=words.figure_text,
        drifts=[(drift, *words.DRIFTS[drift.of]) for drift in drifts],
    )  # fmt: skip
