"""The page of one trade: the reasons, the bars around it, how far it ran, its result, and what was learned from it.

/agents/{agent}/trades/{trade}              the trade; a shadow or a claim without a trade has a page too
/agents/{agent}/trades/{trade}/bars.json    the data of the price chart
POST /agents/{agent}/trades/{trade}/teach   the owner sets what the trade counts for
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response

from memtape.core.codec import plain, read_time
from memtape.errors import Invalid, Unknown
from memtape.surfaces.operations.explanations import GetReflection, ReflectionAnswer, get_trade_reflection
from memtape.surfaces.operations.ledger import GetTrade, get_trade
from memtape.surfaces.operations.lessons import LabelTrade, label_trade
from memtape.surfaces.operations.rules import GetCitations, RestedRow, get_citations
from memtape.surfaces.translate import json_text
from memtape.surfaces.web.charts import excursion_axis
from memtape.surfaces.web.forms import chosen_fields, read_question
from memtape.surfaces.web.pages.lessons import lessons_from_trade
from memtape.surfaces.web.price_chart import bars_around, candle_chart
from memtape.surfaces.web.register import data, form, page
from memtape.surfaces.web.site import PageRequest
from memtape.surfaces.web.trades import AgentTrades, TradeFields, trade_fields

if TYPE_CHECKING:
    from memtape.core.observed import Bar


@page("/agents/{agent}/trades/{trade}")
def trade_page(request: PageRequest) -> Response:
    """One trade. A shadow, or a claim that no broker confirms, has an episode and no trade."""
    reflection = _reflection(request)
    trade = None if reflection.trade is None else trade_fields(reflection.trade)
    learned: dict[str, Any] = {
        "reflection": reflection, "episode": reflection.episode,
        "lessons": lessons_from_trade(request.site, request.agent.id, request.value("trade")),
    }  # fmt: skip
    if trade is None:
        return request.show("episode.html", **learned)
    decisions, sources = {}, {}
    for end in ("entry", "exit"):
        decisions[end], sources[end] = _decision(request, getattr(trade, f"{end}_decision"))
    bars = _bars(request, trade)
    return request.show(
        "trade.html", **learned, trade=trade, currency=trade.currency, decisions=decisions, sources=sources,
        axis=excursion_axis(trade), bars=candle_chart(trade, bars), n_bars=len(bars),
        unknown_fees=AgentTrades(request.site, request.agent.id).unknown_fees(trade),
    )  # fmt: skip


def _reflection(request: PageRequest) -> ReflectionAnswer:
    """A trade with everything that memory links to it."""
    agent, id_ = request.agent.id, request.value("trade")
    try:
        return request.ask(get_trade_reflection, read_question(GetReflection, agent=agent, trade_id=id_))
    except (Invalid, Unknown):
        raise _unknown_trade(agent, id_) from None


def _unknown_trade(agent: str, id_: str) -> Unknown:
    return Unknown("trade", "trade", id_, f"Choose one from the trades of '{agent}'")


def _decision(request: PageRequest, id_: str | None) -> tuple[Any, list[RestedRow]]:
    """A decision, and the lines of documents that it cites or was shown."""
    found = request.site.memory.agent(request.agent.id).ledger.decision(id_) if id_ else None
    if found is None:
        return None, []
    cited = request.ask(get_citations, GetCitations(agent=request.agent.id, decision=found.decision.id))
    return plain(found.decision), cited.citations


@data("/agents/{agent}/trades/{trade}/bars.json")
def bars_data(request: PageRequest) -> Response:
    """The bars around a trade as their chart takes them."""
    agent, id_ = request.agent.id, request.value("trade")
    try:
        trade = trade_fields(request.ask(get_trade, read_question(GetTrade, agent=agent, trade_id=id_)).trade)
    except (Invalid, Unknown):
        raise _unknown_trade(agent, id_) from None
    return Response(json_text(candle_chart(trade, _bars(request, trade))), media_type="application/json")


def _bars(request: PageRequest, trade: TradeFields) -> list[Bar]:
    """The bars from before the entry to after the exit; of an open trade, to the latest moment that is known."""
    read = partial(request.site.memory.agent(request.agent.id).ledger.bars, trade.symbol)
    entry = read_time(trade.entry_at)
    until = trade.exit_at or request.agent.last_known_at
    return bars_around(read, entry, max(read_time(until), entry) if until else entry)


@form("/agents/{agent}/trades/{trade}/teach")
def teach_form(request: PageRequest) -> Response:
    """Records what a trade counts for."""
    agent, trade = request.agent.id, request.value("trade")
    label = read_question(LabelTrade, agent=agent, trade_id=trade, **chosen_fields(request.form, "teach", "reason"))
    request.ask(label_trade, label)
    return RedirectResponse(f"{request.agent_path}/trades/{quote(trade, safe='')}#teach", 303)
