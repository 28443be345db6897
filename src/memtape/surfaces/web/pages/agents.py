"""The first page, `/` and `/agents`: every agent with its figures, and the totals of each kind of money."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from starlette.responses import Response

from memtape.surfaces.operations.agents import AgentAnswer, list_agents
from memtape.surfaces.operations.runs import get_session
from memtape.surfaces.operations.skills import list_skills
from memtape.surfaces.questions import AsOf, OfOwner
from memtape.surfaces.web.figures import SPARKLINE_SIZE, AgentCard, agent_card
from memtape.surfaces.web.register import page
from memtape.surfaces.web.site import PageRequest


@dataclass(frozen=True, slots=True)
class ModeTotal:
    """The sum over the agents of one mode and currency; money of different kinds is never added."""

    mode: str
    currency: str
    agents: int = 0
    n: int = 0
    n_open: int = 0
    n_known: int = 0
    wins: int = 0
    net: Decimal = Decimal(0)

    @property
    def win_rate(self) -> float | None:
        """Over all their trades with a known outcome."""
        return self.wins / self.n_known if self.n_known else None

    def plus(self, card: AgentCard) -> ModeTotal:
        """The total with one more agent."""
        did = card.performance
        return ModeTotal(
            self.mode, self.currency, self.agents + 1, self.n + did.n, self.n_open + card.n_open, self.n_known + did.n_known,
            self.wins + did.wins, self.net + did.net_pnl_usd,
        )  # fmt: skip


@page("/agents")
@page("/")
def agents_page(request: PageRequest) -> Response:
    """Every agent with its figures, and the totals."""
    agents = [(agent, request.site.by_log(agent.id, agent_card)) for agent in request.ask(list_agents, OfOwner()).agents]
    reset = request.query.get("reset", "")
    return request.show(
        "agents.html", wrong=request.site.health.problems(),
        totals=mode_totals(agents), sparkline_size=SPARKLINE_SIZE,
        skills=request.ask(list_skills, OfOwner()).skills,
        # The session follows from the owner's log too, and from the time: it is not computed once per state of the agent's log.
        agents=[(agent, card, request.ask(get_session, AsOf(agent=agent.id))) for agent, card in agents],
        reset=reset if any(agent.id == reset for agent, _ in agents) else "",
    )  # fmt: skip


def mode_totals(agents: list[tuple[AgentAnswer, AgentCard]]) -> list[ModeTotal]:
    """The totals of each mode and currency, in their order."""
    totals: dict[tuple[str, str], ModeTotal] = {}
    for agent, card in agents:
        key = (agent.mode, card.performance.currency)
        totals[key] = totals.get(key, ModeTotal(*key)).plus(card)
    return [totals[key] for key in sorted(totals)]
