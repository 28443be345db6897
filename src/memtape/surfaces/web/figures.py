"""The figures of an agent that follow from its log alone. Pages get them by `Site.by_log`: computed once per state of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from memtape.core.ledger.performance import Performance
from memtape.core.memory.outcome_units import OutcomeFigures
from memtape.surfaces.answers import rounded_figure
from memtape.surfaces.operations.ledger import EquityAnswer, EquityPoint, get_equity, get_open_positions
from memtape.surfaces.questions import AsOf
from memtape.surfaces.web.charts import equity_line
from memtape.surfaces.web.site import Site

SPARKLINE_SIZE = (132, 36)
CHART_SIZE = (960, 300)


@dataclass(frozen=True, slots=True)
class EquitySummary:
    """The ends of the equity curve, and the curve as the lines of two drawings."""

    n: int
    source: str
    first: EquityPoint | None
    last: EquityPoint | None
    sparkline: str
    line: str


@dataclass(frozen=True, slots=True)
class AgentCard:
    """The figures of an agent for one state of its log."""

    performance: Performance
    equity: EquitySummary
    n_open: int
    outcomes: OutcomeFigures | None = None  # if no trade has R: the mean outcome in another unit


def agent_card(site: Site, agent: str) -> AgentCard:
    """The figures of an agent."""
    # The operation also computes the agent's habits, which cost most and have a page of their own.
    performance = site.memory.agent(agent).ledger.performance()
    performance = replace(performance, mean_r=rounded_figure(performance.mean_r))
    equity = equity_summary(site.ask(get_equity, AsOf(agent=agent)))
    # Episodes are read only if they can say more than the ledger does.
    outcomes = site.memory.agent(agent).ledger.outcome_figures() if performance.n and not performance.n_r else None
    return AgentCard(performance, equity, site.ask(get_open_positions, AsOf(agent=agent)).n, outcomes)


def equity_summary(equity: EquityAnswer) -> EquitySummary:
    """The summary of an equity curve."""
    first, last = (equity.points[0], equity.points[-1]) if equity.points else (None, None)
    lines = [equity_line(equity, *size) for size in (SPARKLINE_SIZE, CHART_SIZE)]
    return EquitySummary(equity.n, equity.source, first, last, *lines)
