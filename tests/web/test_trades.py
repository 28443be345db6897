"""The table of trades: a page that is read alone equals the same page of the whole ledger."""

from __future__ import annotations

from dataclasses import fields
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import memtape
from memtape.core.ledger.trades import Trade
from memtape.engine import Memory
from memtape.engine.view.stored import StoredView
from memtape.surfaces.caller import Caller
from memtape.surfaces.operations.ledger import get_ledger
from memtape.surfaces.questions import AsOf
from memtape.surfaces.registry import execute
from memtape.surfaces.trade_answers import trade_row
from memtape.surfaces.web import trades
from memtape.surfaces.web.display import visible
from memtape.surfaces.web.figures import agent_card
from memtape.surfaces.web.site import Site
from memtape.surfaces.web.trades import ROWS_PER_PAGE, AgentTrades, TableQuery, TradeTable
from tests.web.test_answers import client_of

FIELDS = {
    "symbol": "symbol", "side": "side", "entry": "entry_at", "exit": "exit_at", "held": "holding_minutes",
    "size": "entry_size_usd", "net": "net_pnl_usd", "r": "pnl_r",
}  # fmt: skip


def page_of_the_ledger(memory: Memory, agent: str, query: TableQuery) -> dict[str, Any]:
    """The same page, cut from the whole ledger in the plainest way."""
    every = memory.agent(agent).ledger.trades()

    def outcome(trade: Trade) -> str:
        # A claim may state its outcome in R alone.
        result = trade.pnl_r if trade.net_pnl_usd is None else trade.net_pnl_usd
        return "" if trade.status == "open" or not result else "win" if result > 0 else "loss"

    passing = [
        trade for trade in every
        if all(not getattr(query, name) or getattr(trade, name) == getattr(query, name) for name in ("symbol", "side", "status"))
        and query.strategy in ("", visible(trade.strategy)) and query.outcome in ("", outcome(trade))
    ]  # fmt: skip
    field, down = FIELDS[query.sort.removeprefix("-")], query.sort.startswith("-")
    passing.sort(key=lambda trade: trade.id)
    passing.sort(key=lambda trade: trade.entry_at, reverse=down)
    known = sorted((t for t in passing if getattr(t, field) is not None), key=lambda t: getattr(t, field), reverse=down)
    ordered = known + [trade for trade in passing if getattr(trade, field) is None]
    pages = max(-(-len(passing) // ROWS_PER_PAGE), 1)
    page = min(query.page, pages)
    closed = [trade for trade in passing if trade.status == "closed"]
    return {
        "rows": [trade_row(trade) for trade in ordered[(page - 1) * ROWS_PER_PAGE : page * ROWS_PER_PAGE]],
        "n": len(passing), "of": len(every), "page": page, "pages": pages,
        "won": sum(outcome(trade) == "win" for trade in passing), "lost": sum(outcome(trade) == "loss" for trade in passing),
        "open": len(passing) - len(closed), "net": sum((trade.net_pnl_usd or Decimal(0) for trade in closed), Decimal(0)),
    }  # fmt: skip


def page_read_alone(memory: Memory, agent: str, query: TableQuery) -> dict[str, Any]:
    site = Site(memory)
    table = AgentTrades(site, agent).table(query, agent_card(site, agent))
    return {field.name: getattr(table, field.name) for field in fields(TradeTable)}


@pytest.mark.parametrize("agent", ["swing", "crypto", "fresh"])
@pytest.mark.parametrize("page", [1, 2, 9])
def test_a_page_that_is_read_alone_is_the_same_page_of_the_ledger(floor: Memory, agent: str, page: int) -> None:
    query = TableQuery(page=page)
    assert page_read_alone(floor, agent, query) == page_of_the_ledger(floor, agent, query)


@pytest.mark.parametrize("down", ["", "-"])
@pytest.mark.parametrize("column", FIELDS)
def test_every_sort_and_filter_gives_the_page_of_the_ledger(floor: Memory, column: str, down: str) -> None:
    names = AgentTrades(Site(floor), "swing").names()
    chosen: tuple[dict[str, Any], ...] = (
        {}, {"page": 3}, {"symbol": names.symbols[0]}, {"side": "short"}, {"status": "open"}, {"status": "closed"},
        {"strategy": str(visible(names.strategies[0]))}, {"outcome": "win", "page": 2}, {"outcome": "loss", "side": "long"},
        {"strategy": "no such strategy"}, {"symbol": "NONE"},
    )  # fmt: skip
    for one in chosen:
        query = TableQuery(sort=f"{down}{column}", **one)
        assert page_read_alone(floor, "swing", query) == page_of_the_ledger(floor, "swing", query), query


def test_without_a_filter_no_sort_reads_the_ledger(floor: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(floor)
    card = agent_card(site, "swing")

    def refused(*_args: object, **_chosen: object) -> Any:
        raise AssertionError("the whole ledger was read")

    monkeypatch.setattr(trades, "get_ledger", refused)
    monkeypatch.setattr(StoredView, "trades", refused)
    for column in FIELDS:
        assert len(AgentTrades(site, "swing").table(TableQuery(sort=column), card).rows) == ROWS_PER_PAGE


def test_claimed_trades_count_as_the_ledger_counts_them(tmp_path: Path) -> None:
    with memtape.open(str(tmp_path / "claims.db")) as memory:
        memory.create_skill("trend")
        memory.create_agent("desk", skill="trend", mode="paper")
        times = {"entry_at": "2026-06-01T08:00:00Z", "backfill": True}
        claim = {"symbol": "XAU", "direction": "long", "entry_price": 100}
        execute(memory, "remember_trade", {**claim, **times, "trade_id": "open"}, agent="desk")
        closed = {**claim, **times, "exit_price": 98, "pnl": "-2", "exit_at": "2026-06-01T09:00:00Z"}
        execute(memory, "remember_trade", {**closed, "trade_id": "a"}, agent="desk")
        execute(memory, "remember_trade", {**closed, "trade_id": "b", "pnl": None, "pnl_r": -1}, agent="desk")
        for query in (TableQuery(), TableQuery(sort="net"), TableQuery(outcome="loss"), TableQuery(status="open")):
            assert page_read_alone(memory, "desk", query) == page_of_the_ledger(memory, "desk", query)


def test_the_first_page_of_an_agent_reads_the_ledger_once_for_each_state_of_its_log(
    floor: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str | None] = []

    def counted(memory: Memory, ask: AsOf, caller: Caller) -> Any:
        read.append(ask.agent)
        return get_ledger(memory, ask, caller)

    monkeypatch.setattr(trades, "get_ledger", counted)
    with client_of(floor) as client:
        client.get("/agents/swing")
        assert read == ["swing"]
        for path in ("/agents/swing", "/agents/swing?page=2", "/agents/swing/plans", "/agents/swing/behaviour"):
            assert client.get(path).status_code == 200
        assert read == ["swing"]
