"""`memtape sim` with a model at the desk: briefed, asked by schema, guarded, and all of it on record."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import memtape
from memtape.errors import Invalid, ModelFailed
from memtape.plugs.models import model_of
from memtape.surfaces.cli.simulation import SimulationOptions, simulate
from tests.plugs.llm_server import Says, llm_server
from tests.plugs.scripted import Fails

START = datetime(2026, 3, 2, tzinfo=UTC)


@pytest.fixture
def bars(tmp_path: Path) -> Path:
    """Thirty hours of a market that rises by a dollar an hour."""
    file = tmp_path / "btc.csv"
    rows = [f"{(START + timedelta(hours=n)).isoformat()},{100 + n},{102 + n},{99 + n},{101 + n},50" for n in range(30)]
    file.write_text("\n".join(["time,open,high,low,close,volume", *rows]), encoding="utf-8")
    return file


def order(**fields: Any) -> Says:
    return Says(json.dumps({"symbol": "BTC", "reason": "strength", **fields}))


def play(bars: Path, *parts: Any, **more: Any) -> tuple[memtape.Memory, dict[str, Any], list[Any]]:
    with llm_server() as server:
        server.plays(*parts)
        memory = memtape.open(":memory:")
        memory.resources.models = lambda name: model_of(name, base_url=server.url("openai"), api_key="k", retries=0)
        found = simulate(memory, bars, "openai/gpt-test", agent="desk", symbol="BTC", fee_bps="5", slippage_bps="2",
                         starting_equity="10000", report=None, **more)  # fmt: skip
        return memory, found, list(server.asked)


def test_a_model_trades_on_its_brief_and_what_it_was_shown_is_on_record(bars):
    buy, hold = order(action="buy", risk_pct=1, stop=95, target=110), order(action="no_trade", side="long", stop=90, target=150)
    memory, found, requests = play(bars, buy, hold)
    agent = memory.agent("desk")
    assert (found["trades"], found["ticks"]) == (1, 30)
    trade = agent.ledger.trades(status="closed")[0]
    assert (trade.entry_reason, trade.exit_trigger, trade.strategy) == ("strength", "target", "openai/gpt-test")
    shown = agent.briefs.shown()
    asked = len(requests)
    assert len(shown) == asked and all(row["decision"] for row in shown)
    assert "## Open positions (memory view)" in str(requests[5]) and "propose_order" in str(requests[5])


def test_what_the_guard_refuses_is_recorded_with_its_code_and_told_to_the_model_at_the_next_tick(bars):
    greedy, calm = order(action="buy", qty=500, stop=95), order(action="no_trade")
    memory, found, requests = play(bars, greedy, calm, terms=SimulationOptions(limits={"risk per trade": "1 % of equity"}))
    assert found["rejections"] == {"R2_RISK_PER_TRADE": 1} and found["trades"] == 0
    first = memory.agent("desk").ledger.decisions(limit=100)[-1].decision
    assert first.verdict is not None and first.verdict.code == "R2_RISK_PER_TRADE"
    assert "R2_RISK_PER_TRADE" in str(requests[1])


def test_an_answer_that_cannot_be_read_is_a_decision_not_to_trade(bars):
    memory, found, _ = play(bars, Says("let me think about it"), order(action="no_trade"))
    assert found["rejections"] == {"R0_BAD_ANSWER": 1}
    assert memory.agent("desk").ledger.decisions(limit=100)[-1].decision.action == "no_trade"


def test_a_model_that_will_never_answer_ends_the_run(bars):
    with pytest.raises(ModelFailed):
        play(bars, Fails(401))


def test_leverage_and_funding_are_terms_of_the_account(bars):
    _, found, _ = play(bars, order(action="buy", qty=300, stop=50), order(action="no_trade"),
                            terms=SimulationOptions(leverage="5", funding="0.001"))  # fmt: skip
    assert found["funding"].startswith("-") and found["liquidations"] == 0
    with pytest.raises(Invalid, match="leverage"):
        play(bars, order(action="no_trade"), terms=SimulationOptions(leverage="0.5"))


def test_a_strategy_that_does_not_exist_is_refused_by_name(bars):
    with pytest.raises(Invalid, match="strategy"):
        simulate(memtape.open(":memory:"), bars, "astrology", agent="desk", symbol="BTC", fee_bps="5", slippage_bps="2",
                 starting_equity="10000", report=None)  # fmt: skip
