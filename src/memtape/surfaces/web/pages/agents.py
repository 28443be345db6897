"""The first page, `/`: every agent with its figures, and the totals of each kind of money."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from starlette.responses import Response

from memtape.surfaces.answers import AsOf, OfOwner, PerformanceAnswer
from memtape.surfaces.operations.records import (
    GetPerformance,
    get_equity,
    get_open_positions,
    get_strategy_performance,
)
from memtape.surfaces.operations.skills import AgentAnswer, list_agents, list_skills
from memtape.surfaces.web.charts import equity_line
from memtape.surfaces.web.register import page
from memtape.surfaces.web.site import PageRequest, Site

SPARKLINE_SIZE = (132, 36)


@dataclass(frozen=True, slots=True)
class AgentCard:
    """The figures of an agent for one state of its log."""

    performance: PerformanceAnswer
    n_open: int
    sparkline: str


@dataclass(frozen=True, slots=True)
class ModeTotal:
    """The sum over the agents of one mode and currency; money of different kinds is never added."""

    mode: str
    currency: str
    agents: int = 0
    n: int = 0
    n_open: int = 0
    n_priced: int = 0
    wins: int = 0
    net: Decimal = Decimal(0)

    @property
    def win_rate(self) -> float | None:
        """Over all their trades with a known outcome."""
        return self.wins / self.n_priced if self.n_priced else None

    def plus(self, card: AgentCard) -> ModeTotal:
        """The total with one more agent."""
        did = card.performance
        return ModeTotal(
            self.mode, self.currency, self.agents + 1, self.n + did.n, self.n_open + card.n_open, self.n_priced + did.n_priced,
            self.wins + did.wins, self.net + Decimal(did.net_pnl_usd),
        )  # fmt: skip


@page("/")
def agents_page(request: PageRequest) -> Response:
    """Every agent with its figures, and the totals."""
    agents = [(agent, request.site.by_log(agent.id, agent_card)) for agent in request.ask(list_agents, OfOwner()).agents]
    return request.show(
        "agents.html", agents=agents, totals=mode_totals(agents), sparkline_size=SPARKLINE_SIZE,
        skills=request.ask(list_skills, OfOwner()).skills,
    )  # fmt: skip


def agent_card(site: Site, agent: str) -> AgentCard:
    """The figures of an agent. They follow from its log alone."""
    return AgentCard(
        performance=site.ask(get_strategy_performance, GetPerformance(agent=agent)),
        n_open=site.ask(get_open_positions, AsOf(agent=agent)).n,
        sparkline=equity_line(site.ask(get_equity, AsOf(agent=agent)), *SPARKLINE_SIZE),
    )


def mode_totals(agents: list[tuple[AgentAnswer, AgentCard]]) -> list[ModeTotal]:
    """The totals of each mode and currency, in their order."""
    totals: dict[tuple[str, str], ModeTotal] = {}
    for agent, card in agents:
        key = (agent.mode, card.performance.currency)
        totals[key] = totals.get(key, ModeTotal(*key)).plus(card)
    return [totals[key] for key in sorted(totals)]
