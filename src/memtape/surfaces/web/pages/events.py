"""The page of scheduled events, `/events`: what is ahead, what each agent's open positions face, and past reactions.

The values after the question mark: `hours` ahead, the least `importance`, and the `agent` whose markets' reactions are shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from starlette.responses import Response

from memtape.errors import Invalid
from memtape.surfaces.operations.agents import AgentAnswer, list_agents
from memtape.surfaces.operations.calendar import (
    EventsAnswer,
    ExposureRow,
    GetEventReactions,
    GetEvents,
    ReactionRow,
    get_event_reactions,
    get_upcoming_events,
)
from memtape.surfaces.questions import OfOwner
from memtape.surfaces.web.forms import read_question
from memtape.surfaces.web.register import page
from memtape.surfaces.web.site import PageRequest

HOURS = ("24", "48", "72")
IMPORTANCES: Mapping[str, str] = {"0": "all", "0.4": "medium and high", "0.8": "high only"}


@dataclass(frozen=True, slots=True)
class ExposureLine:
    """What one position of an agent faces: the releases of one kind at one moment, and how its market moved at such events."""

    titles: tuple[str, ...]
    kind: str
    t: str
    all_day: bool
    row: ExposureRow


@dataclass(frozen=True, slots=True)
class AgentExposure:
    """One agent with an open position that an event touches."""

    agent: AgentAnswer
    as_of: str
    lines: tuple[ExposureLine, ...]


@dataclass(frozen=True, slots=True)
class SymbolReactions:
    """One market and its past reactions, the strongest first."""

    symbol: str
    rows: tuple[ReactionRow, ...]
    widest: float  # the largest median range, for the length of bars


@page("/events")
def events_page(request: PageRequest) -> Response:
    """The calendar of the next days, and what it means to the agents."""
    hours, importance = request.query.get("hours", "72"), request.query.get("importance", "0.4")
    if hours not in HOURS:
        raise Invalid("hours", f"'{hours}' is not a choice", f"Use one of {', '.join(HOURS)}")
    if importance not in IMPORTANCES:
        raise Invalid("importance", f"'{importance}' is not a choice", f"Use one of {', '.join(IMPORTANCES)}")
    question = {"lookaheadHours": float(hours), "minImportance": float(importance)}
    agents = request.ask(list_agents, OfOwner()).agents
    answers = {agent.id: request.ask(get_upcoming_events, read_question(GetEvents, **question, deploymentId=agent.id))
               for agent in agents}  # fmt: skip
    exposed = [AgentExposure(agent, answers[agent.id].as_of, lines) for agent in agents if (lines := _lines(answers[agent.id]))]
    chosen = _chosen(request, agents, exposed)
    past = {"agent": chosen, "minImportance": float(importance)}
    reactions = request.ask(get_event_reactions, read_question(GetEventReactions, **past)).reactions if chosen else []
    return request.show(
        "events.html", ahead=request.ask(get_upcoming_events, read_question(GetEvents, **question)), exposed=exposed,
        agents=agents, chosen=chosen, markets=_by_symbol(reactions), hours=hours, hours_choices=HOURS, importance=importance,
        importance_choices=IMPORTANCES,
    )  # fmt: skip


def _chosen(request: PageRequest, agents: Sequence[AgentAnswer], exposed: Sequence[AgentExposure]) -> str:
    """The agent whose markets are shown: the one asked for, else the first that is exposed, else the first."""
    wanted = request.query.get("agent", "")
    if wanted in {agent.id for agent in agents}:
        return wanted
    return next((each.agent.id for each in exposed), agents[0].id if agents else "")


def _lines(answer: EventsAnswer) -> tuple[ExposureLine, ...]:
    """The exposures of an agent. Releases of one kind at one moment, like CPI m/m and y/y, are one line for each position."""
    events = {event.id: event for event in cast("list[Any]", answer.events)}
    grouped: dict[tuple[str, ...], list[ExposureRow]] = {}
    for row in answer.your_exposure or ():
        event = events[row.event_id]
        grouped.setdefault((event.t, event.kind, row.symbol, row.position_side), []).append(row)
    found: list[ExposureLine] = []
    for rows in grouped.values():
        event = events[rows[0].event_id]
        titles = tuple(events[row.event_id].title for row in rows)
        found.append(ExposureLine(titles, event.kind, event.t, bool(event.all_day), rows[0]))
    return tuple(found)


def _by_symbol(rows: Sequence[ReactionRow]) -> list[SymbolReactions]:
    found: list[SymbolReactions] = []
    for symbol in sorted({row.symbol for row in rows}):
        own = sorted((row for row in rows if row.symbol == symbol), key=lambda row: (-(row.median_range_pct or 0), row.kind))
        found.append(SymbolReactions(symbol, tuple(own), max((row.median_range_pct or 0 for row in own), default=0)))
    return found
