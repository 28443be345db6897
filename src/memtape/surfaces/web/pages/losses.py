"""What an agent loses on: `/agents/{agent}/losses` shows the worst groups; htmx gets the worst few for the agent's page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response

from memtape.surfaces.operations.losses import GetLosses, LossesAnswer, get_losses
from memtape.surfaces.web.register import page

if TYPE_CHECKING:
    from memtape.surfaces.web.site import PageRequest, Site

MAX_GROUPS = 50
TILE_GROUPS = 3


@page("/agents/{agent}/losses", nav="Losses", within="Overview", order=2)
def losses_page(request: PageRequest) -> Response:
    """The losing groups, or only the worst of them."""
    # The tests against chance take a while: their result holds until the log grows.
    found = request.site.by_log(request.agent.id, _agent_losses)
    if request.partial:
        return request.show("losses_tile.html", losses=found, groups=found.groups[:TILE_GROUPS], currency=request.currency)
    return request.show("losses.html", losses=found, currency=request.currency)


def _agent_losses(site: Site, agent: str) -> LossesAnswer:
    return site.ask(get_losses, GetLosses(agent=agent, limit=MAX_GROUPS))
