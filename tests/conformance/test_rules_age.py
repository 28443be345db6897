"""A store whose trades older rules made needs a rebuild: it says so, is not called tampered with, and gets one after a copy."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memtape.compose import open_memory
from memtape.core.ledger.trades import money_text
from memtape.engine import Memory
from memtape.engine.proof.audit import rebuild_store, verify_store
from memtape.engine.proof.upgrade import upgrade_rules
from memtape.errors import NeedsRebuild
from memtape.plugs.clock import FixedClock
from memtape.store.sqlite import SqliteDatabase
from tests.desk import given_agent

FIXTURE = Path(__file__).parents[1] / "fixtures" / "store_0_1_fx.db.gz"
NOW = FixedClock(datetime(2026, 6, 5, tzinfo=UTC))
OF_0_1 = {"USDJPY": "-6", "DE40": "4000"}  # what version 0.1 said of the closed trades of the agent `fx`


@pytest.fixture
def old_store(tmp_path: Path) -> Path:
    """A copy of a store of version 0.1 with currency trades."""
    path = tmp_path / "old.db"
    path.write_bytes(gzip.decompress(FIXTURE.read_bytes()))
    return path


def nets(memory: Memory, agent: str) -> dict[str, str | None]:
    closed = memory.agent(agent).ledger.trades(status="closed", newest=False)
    return {trade.symbol: money_text(trade.net_pnl_usd) for trade in closed}


def test_opening_an_old_store_computes_its_trades_by_the_rules_of_today_after_a_copy(old_store: Path) -> None:
    with open_memory(f"sqlite:///{old_store}", "local", NOW) as memory:
        assert nets(memory, "fx") == {"USDJPY": "656.25165563", "DE40": "0"}
        assert nets(memory, "usd") == {"ETH": "198"}
        assert [money_text(trade.net_pnl_usd) for trade in memory.agent("snapshots").ledger.trades(newest=False)] == ["-450", "260"]
        found = verify_store(memory)
        assert (found.problems, found.needs_rebuild) == ([], [])
    assert (old_store.parent / "old.db.before-5").exists()
    with open_memory(f"sqlite:///{old_store}", "local", NOW) as memory:
        assert nets(memory, "fx") == {"USDJPY": "656.25165563", "DE40": "0"}
    assert len(list(old_store.parent.glob("*.before-*"))) == 1


def test_until_then_it_needs_a_rebuild_and_is_not_called_tampered_with(old_store: Path) -> None:
    # The database alone takes the step of the schema. Trades are computed by what opens a memory on it.
    memory = Memory(SqliteDatabase(str(old_store)), clock=NOW)
    found = verify_store(memory)
    assert (found.problems, found.needs_rebuild) == ([], ["local/@owner", "local/fx", "local/snapshots", "local/usd"])
    assert nets(memory, "fx") == OF_0_1
    with pytest.raises(NeedsRebuild, match="computed by an older version of the rules"):
        memory.agent("fx").observe({"id": "late", "t": "2026-06-04T14:00:00Z", "equity": 1})
    rebuild_store(memory)
    assert verify_store(memory).needs_rebuild == []
    assert nets(memory, "fx") == {"USDJPY": "656.25165563", "DE40": "0"}
    memory.close()


def test_what_was_shown_keeps_its_text(old_store: Path) -> None:
    before = Memory(SqliteDatabase(str(old_store)), clock=NOW)
    with before.resources.reading("fx") as tables:
        texts = [row.payload for row in tables.log()]
    before.close()
    with open_memory(f"sqlite:///{old_store}", "local", NOW) as memory, memory.resources.reading("fx") as tables:
        assert [row.payload for row in tables.log()] == texts
        assert any('"kind":"brief"' in (text or "") or "USDJPY long" in (text or "") for text in texts)


def test_a_store_on_either_database_is_rebuilt_for_each_of_its_owners(opened: Callable[..., Memory], store_url: str) -> None:
    memory = opened(store_url)
    agent = given_agent(memory)
    for id_, side, px, rate in (("f1", "buy", "20000", "1.10"), ("f2", "sell", "20010", "1.12")):
        fill = {"id": id_, "t": f"2026-06-04T0{id_[1]}:00:00Z", "symbol": "DE40", "side": side, "qty": "10", "px": px, "rate": rate}
        agent.observe(fill, kind="fill")
    with memory.resources.repairing("desk") as tables:
        # As if older rules had made the trade and its stream.
        tables.session.run("UPDATE trades SET net_pnl_usd = '4000', realized_pnl_usd = '4000'", {})
        tables.session.run("UPDATE streams SET rules = NULL", {})
    assert verify_store(memory).needs_rebuild
    assert upgrade_rules(memory.database) == [memory.owner]
    found = verify_store(memory)
    assert (found.problems, found.needs_rebuild) == ([], [])
    assert [money_text(trade.net_pnl_usd) for trade in memory.agent("desk").ledger.trades()] == ["112"]
    assert upgrade_rules(memory.database) == []


def test_a_drawdown_of_older_rules_is_read_as_they_left_it_until_the_store_is_rebuilt(
    opened: Callable[..., Memory], store_url: str
) -> None:
    memory = opened(store_url)
    agent = given_agent(memory)
    agent.observe({"t": "2026-06-01T08:00:00Z", "equity": 1_000}, kind="equity")
    agent.observe({"id": "d", "t": "2026-06-02T08:00:00Z", "usd": 50_000}, kind="flow")
    agent.observe({"t": "2026-06-03T08:00:00Z", "equity": 48_960}, kind="equity")
    assert agent.memories.affect().drawdown == pytest.approx(0.04)
    with memory.resources.repairing("desk") as tables:
        # As rules 6 left it: the column came with schema 8.
        tables.session.run("UPDATE affect SET scaled_peak = NULL", {})
        tables.session.run("UPDATE streams SET rules = 6", {})
    assert verify_store(memory).problems == []
    assert [step.drawdown for step in agent.memories.affect_history()] == [0, 0, 2.04]
    assert upgrade_rules(memory.database) == [memory.owner]
    assert agent.memories.affect().drawdown == pytest.approx(0.04)
    assert verify_store(memory).needs_rebuild == []
