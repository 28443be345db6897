"""The pages of an agent's beliefs.

/agents/{agent}/beliefs             all of them, or of one status; htmx gets only the table
/agents/{agent}/beliefs/{belief}    one belief, with the trades for it and against it
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from starlette.responses import Response

from memtape.errors import Invalid, Unknown
from memtape.surfaces.operations.beliefs import GetBelief, GetBeliefs, get_belief, get_beliefs
from memtape.surfaces.web.charts import belief_density
from memtape.surfaces.web.forms import chosen_fields, read_question
from memtape.surfaces.web.register import page
from memtape.surfaces.web.site import PageRequest
from memtape.surfaces.web.trades import AgentTrades, TradeFields, chosen_name, unlisted_trade

BELIEFS_LISTED = 200
MAX_BELIEFS = 1000
TRADES_LISTED = 60  # on each side of a belief
BELIEF_STATUSES = ("believed", "candidate", "merged", "split", "retired")


@page("/agents/{agent}/beliefs", nav="Beliefs", order=40)
def beliefs_page(request: PageRequest) -> Response:
    """The table of beliefs."""
    status = chosen_name(request.query, "status", BELIEF_STATUSES)
    filters = chosen_fields({"status": status}, "status")
    found = request.ask(get_beliefs, read_question(GetBeliefs, agent=request.agent.id, limit=BELIEFS_LISTED, **filters))
    template = "beliefs_table.html" if request.partial else "beliefs.html"
    return request.show(template, found=found, status=status, choices=BELIEF_STATUSES)


class BeliefSide(NamedTuple):
    """The trades for or against a belief: how many, and the latest of them."""

    name: str
    n: int
    latest: Sequence[TradeFields]


@page("/agents/{agent}/beliefs/{belief:path}", within="Beliefs")
def belief_page(request: PageRequest) -> Response:
    """One belief: how certain it is, and the trades for it and against it."""
    agent, id_ = request.agent.id, request.value("belief")
    try:
        found = request.ask(get_belief, read_question(GetBelief, agent=agent, belief_id=id_))
    except (Invalid, Unknown):
        raise Unknown("belief", "belief", id_, f"Choose one from the beliefs of '{agent}'") from None
    belief = found.belief
    trades = AgentTrades(request.site, agent)
    every = {each.id: each for each in request.ask(get_beliefs, GetBeliefs(agent=agent, limit=MAX_BELIEFS)).beliefs}
    return request.show(
        "belief.html", belief=belief, density=belief_density(belief),
        sides=[_side("confirming", found.confirming, trades), _side("contradicting", found.contradicting, trades)],
        into=[every[other] for other in belief.related if other in every],
        out_of=[each for each in every.values() if id_ in each.related],
    )  # fmt: skip


def _side(name: str, ids: Sequence[str], trades: AgentTrades) -> BeliefSide:
    """One side of a belief. The ids are in the order in which the trades closed; the latest comes first here."""
    latest = ids[::-1][:TRADES_LISTED]
    found = trades.by_id(latest)
    return BeliefSide(name, len(ids), [found.get(id_) or unlisted_trade(id_) for id_ in latest])
