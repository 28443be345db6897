"""Answers at the door to a model are small by default, on a store of 10,000 trades too, and whole where it asks for that."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

import memtape
from memtape.core.brief.budget import estimate_tokens
from memtape.core.observed import ClosedTrade
from memtape.engine import Memory
from memtape.errors import Invalid
from memtape.plugs.clock import FixedClock
from memtape.surfaces.caller import Caller
from memtape.surfaces.model_answers import answer_for_model
from memtape.surfaces.registry import all_operations, in_tool_set, perform
from memtape.surfaces.translate import json_text

START, N = datetime(2024, 1, 1, tzinfo=UTC), 10_000
MODEL = Caller("model", "desk", bound=True)
MAX_ANSWER_TOKENS = 8_000


@pytest.fixture(scope="module")
def memory() -> Iterator[Memory]:
    with memtape.open(":memory:") as made:
        made.resources.clock = FixedClock(START + timedelta(hours=2 * N))
        made.create_skill("breakout")
        made.create_agent("desk", skill="breakout")
        trades = [
            ClosedTrade(
                trade_id=f"t{n}", symbol=("BTC", "ETH", "XAU")[n % 3], side="long" if n % 2 else "short", qty=Decimal(1),
                entry_at=START + timedelta(hours=2 * n), exit_at=START + timedelta(hours=2 * n + 1), entry_price=Decimal(100),
                exit_price=Decimal(100 + (n * 7919) % 11 - 5), stop=Decimal(98) if n % 2 else Decimal(102),
                entry_reason=f"break of the range, attempt {n}", tags=("news",) if n % 5 else (), strategy=f"setup {n % 4}",
            )
            for n in range(N)
        ]  # fmt: skip
        made.agent("desk").imports.commit(trades, {"file": "trades.csv"})
        yield made


def ask(memory: Memory, name: str, **data: Any) -> dict[str, Any]:
    return answer_for_model(memory, all_operations()[name], data, MODEL)


def test_no_read_answers_with_more_than_eight_thousand_tokens_by_default(memory):
    trade, belief = ask(memory, "get_trades")["trades"][0]["id"], ask(memory, "get_beliefs")["beliefs"][0]["id"]
    needed = {
        "get_trade": {"trade_id": trade}, "get_trade_reflection": {"trade_id": trade}, "explain_memory": {"memory_id": trade},
        "pre_trade_check": {"symbol": "BTC", "side": "long"}, "get_skill_performance": {"skill_id": "breakout", "detail": "full"},
        "get_my_deployments": {"detail": "full"}, "show_agent": {"id": "desk"}, "show_skill": {"id": "breakout"},
        "get_strategy_performance": {"detail": True}, "get_belief": {"belief_id": belief}, "search_documents": {"query": "range"},
        "find_similar_reports": {"where": ["win_rate > 0.5"]},
    }  # fmt: skip
    asked = 0
    for name, known in in_tool_set(all_operations(), "full", MODEL).items():
        required = known.params.model_json_schema().get("required", [])
        if known.writes or (required and name not in needed):
            continue
        tokens = estimate_tokens(json_text(ask(memory, name, **needed.get(name, {}))))
        assert tokens <= MAX_ANSWER_TOKENS, (name, tokens)
        asked += 1
    assert asked >= 35


def test_a_page_of_trades_has_ten_rows_of_the_columns_that_matter_and_a_cursor(memory):
    page = ask(memory, "get_trades")
    assert len(page["trades"]) == 10 and page["next_cursor"]
    assert {"id", "symbol", "side", "entry_at", "net_pnl_usd", "pnl_r"} <= set(page["trades"][0]) and len(page["trades"][0]) < 15
    following = ask(memory, "get_trades", cursor=page["next_cursor"], limit=3, fields=["symbol", "entry_reason"])
    assert [set(row) for row in following["trades"]] == [{"id", "symbol", "entry_reason"}] * 3
    assert len(ask(memory, "get_trades", limit=25)["trades"]) == 25


def test_a_brief_is_its_text_and_its_receipt(memory):
    brief = ask(memory, "get_brief")
    assert set(brief) <= {"text", "receipt", "as_of", "tokens", "warnings", "notes"} and {"text", "receipt"} <= set(brief)


def test_the_whole_answer_is_what_the_owner_gets(memory):
    for name in ("get_brief", "get_trades", "get_equity"):
        assert ask(memory, name, detail=True) == perform(memory, all_operations()[name], {"agent": "desk"}, Caller("owner"))


def test_a_column_or_a_detail_that_does_not_exist_is_refused_with_what_does(memory):
    for wrong, words in (({"fields": ["symbol", "pnlr"]}, "Did you mean pnl_r"), ({"fields": "symbol"}, "list of names"),
                         ({"detail": "all"}, "true or false"), ({"whole": True}, "unknown field")):  # fmt: skip
        with pytest.raises(Invalid, match=words):
            ask(memory, "get_trades", **wrong)


def test_an_operation_with_a_detail_of_its_own_is_asked_for_it(memory):
    assert "trades" not in ask(memory, "get_skill_performance", skill_id="breakout", detail="summary")
    assert len(ask(memory, "get_skill_performance", skill_id="breakout", detail="trades")["trades"]) == 30
    assert ask(memory, "get_strategy_performance", detail=True)["detail"]["sharpe"] is not None
