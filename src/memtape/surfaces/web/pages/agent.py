"""The first page of an agent: figures, equity, open positions, trades, decisions and discrepancies.

/agents/{agent}                all of it; htmx gets only the table of trades
/agents/{agent}/equity.json    the data of the equity chart
POST /agents/{agent}/memory/reset    start the agent's session afresh
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from starlette.responses import RedirectResponse, Response

from memtape.core.venue_coverage import READ_OF_VENUE, VenueCoverage, history_note, missing_notes
from memtape.engine.account_polls import followed_venue, venue_coverage
from memtape.surfaces.operations.ledger import GetDecisions, get_decisions, get_equity
from memtape.surfaces.operations.runs import ShowConfig, get_agent_config, get_session, reset_memory
from memtape.surfaces.operations.skills import ShowSkill, show_skill
from memtape.surfaces.questions import AsOf, OfAgent
from memtape.surfaces.translate import json_text
from memtape.surfaces.web.charts import equity_points
from memtape.surfaces.web.display import visible
from memtape.surfaces.web.figures import CHART_SIZE, agent_card
from memtape.surfaces.web.register import data, form, page
from memtape.surfaces.web.site import PageRequest
from memtape.surfaces.web.svg import thin_points
from memtape.surfaces.web.trades import FILTER_CHOICES, AgentTrades, TableQuery, TradedNames, table_columns

if TYPE_CHECKING:
    from memtape.core.observed import Decision

RECENT_DECISIONS = 15


class VenueNotes(NamedTuple):
    """The venue of a followed account as the page shows it."""

    source: str
    url: str
    reads: str
    missing: list[str]
    history: str


DONE = {"reset": "The memory was reset: the next run starts fresh. Messages stay visible."}
MAX_CHART_POINTS = 4000  # a chart is about 1200 pixels wide; two values per pixel show every extreme


@page("/agents/{agent}", nav="Overview", order=0)
def agent_page(request: PageRequest) -> Response:
    """One agent, or only its table of trades."""
    agent, currency = request.agent, request.currency
    card = request.site.by_log(agent.id, agent_card)
    trades, query = AgentTrades(request.site, agent.id), TableQuery.read(request.query)
    table = {"currency": currency, "query": query, "columns": table_columns(currency), "table": trades.table(query, card)}
    if request.partial:
        return request.show("trades.html", **table)
    found = request.ask(get_decisions, GetDecisions(agent=agent.id, limit=RECENT_DECISIONS)).decisions
    # The rows have the fields of the decisions that they mirror.
    decisions = cast("list[Decision]", found)
    return request.show(
        "agent.html", **table,
        skill=request.ask(show_skill, ShowSkill(id=agent.skill, version=agent.skill_version)),
        performance=card.performance, outcomes=card.outcomes, equity=card.equity, chart_size=CHART_SIZE,
        positions=trades.open_positions(),
        decisions=[(decision, trades.by_decision(decision.id)) for decision in decisions],
        discrepancies=trades.discrepancies(), venue=_venue_notes(request),
        choices=_filter_choices(trades.names()), session=request.ask(get_session, AsOf(agent=agent.id)),
        found=request.ask(get_agent_config, ShowConfig(agent=agent.id)), done=DONE.get(request.query.get("done", ""), ""),
        problem=request.site.background.problem(agent.id),
    )  # fmt: skip


def _venue_notes(request: PageRequest) -> VenueNotes | None:
    """Which venue the agent follows, and what its record lacks; None if it follows none."""
    agent = request.site.memory.agent(request.agent.id)
    venue, coverage = followed_venue(agent), venue_coverage(agent)
    if venue is None and coverage is None:
        return None
    stated = coverage or VenueCoverage()
    missing = [str(visible(note)) for note in missing_notes(stated)]
    return VenueNotes(venue.source if venue else "", venue.url if venue else "", READ_OF_VENUE, missing, history_note(stated))


def _filter_choices(names: TradedNames) -> dict[str, dict[str, str]]:
    """What each filter of the table offers: value and word. A page shows a strategy, and so sends it, made visible."""
    return {
        "symbol": {name: name for name in sorted(names.symbols)},
        "strategy": {name: name for name in sorted(str(visible(name)) for name in names.strategies)},
        **{name: dict(words) for name, words in FILTER_CHOICES.items()},
    }


@form("/agents/{agent}/memory/reset", within="Overview")
def reset_memory_form(request: PageRequest) -> Response:
    """Starts the session of an agent afresh, and goes back to the page that asked for it."""
    request.ask(reset_memory, OfAgent(agent=request.agent.id))
    if request.form.get("back") == "list":
        return RedirectResponse(f"/?reset={request.agent.id}", 303)
    if request.form.get("back") == "chat":
        return RedirectResponse(f"{request.agent_path}/chat", 303)
    return RedirectResponse(f"{request.agent_path}?done=reset#active-memory", 303)


@data("/agents/{agent}/equity.json")
def equity_data(request: PageRequest) -> Response:
    """The equity curve as its chart takes it."""
    equity = request.ask(get_equity, AsOf(agent=request.agent.id))
    points = thin_points(equity_points(equity), MAX_CHART_POINTS)
    chart = {
        "agent": equity.agent, "currency": equity.currency, "source": equity.source, "n": equity.n,
        "points": [{"time": t, "value": nav} for t, nav in points],
    }  # fmt: skip
    return Response(json_text(chart), media_type="application/json")
