"""The table of trades: a page that is read alone equals the same page of the whole ledger."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import memtape
from memtape.engine import Memory
from memtape.surfaces.answers import AsOf
from memtape.surfaces.operations.records import get_ledger
from memtape.surfaces.registry import execute
from memtape.surfaces.web import trades
from memtape.surfaces.web.figures import agent_card
from memtape.surfaces.web.site import Site
from memtape.surfaces.web.trades import AgentTrades, TableQuery, trade_table
from tests.web.test_answers import client_of


def both_ways(memory: Memory, agent: str, page: int) -> tuple[dict[str, Any], dict[str, Any]]:
    site, query = Site(memory), TableQuery(page=page)
    read = AgentTrades(site, agent).table(query, agent_card(site, agent))
    whole = trade_table(get_ledger(memory, AsOf(agent=agent)).rows, query)
    fields = ("rows", "n", "of", "page", "pages", "won", "lost", "open", "net")
    one, other = ({name: getattr(table, name) for name in fields} for table in (read, whole))
    # The ledger's rows are rounded, each by itself; the figures of the agent are summed first.
    other["net"] = pytest.approx(other["net"], abs=Decimal("0.000001"))
    return one, other


@pytest.mark.parametrize("agent", ["swing", "crypto", "fresh"])
@pytest.mark.parametrize("page", [1, 2, 9])
def test_a_page_that_is_read_alone_is_the_same_page_of_the_ledger(floor: Memory, agent: str, page: int) -> None:
    read, whole = both_ways(floor, agent, page)
    assert read == whole


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
        read, whole = both_ways(memory, "desk", 1)
        assert read == whole


def test_the_first_page_of_an_agent_reads_the_ledger_once_for_each_state_of_its_log(
    floor: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str | None] = []

    def counted(memory: Memory, ask: AsOf) -> Any:
        read.append(ask.agent)
        return get_ledger(memory, ask)

    monkeypatch.setattr(trades, "get_ledger", counted)
    with client_of(floor) as client:
        client.get("/agents/swing")
        assert read == ["swing"]
        for path in ("/agents/swing", "/agents/swing?page=2", "/agents/swing/plans", "/agents/swing/behaviour"):
            assert client.get(path).status_code == 200
        assert read == ["swing"]
