"""Every tool of the set `full` answers a model in at most 8,000 tokens by default: writes too, and what needs a record of its own."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import memtape
from memtape.core.brief.budget import estimate_tokens
from memtape.core.observed import ClosedTrade
from memtape.engine import Memory
from memtape.errors import MemtapeError
from memtape.plugs.clock import FixedClock
from memtape.runners.conduct import RunTask, conduct_run
from memtape.surfaces.caller import Caller
from memtape.surfaces.model_answers import answer_for_model
from memtape.surfaces.registry import all_operations, in_tool_set
from memtape.surfaces.run_host import run_host
from memtape.surfaces.translate import json_text
from tests.runners.desk import BUY, ScriptedRunner

START, N = datetime(2024, 1, 1, tzinfo=UTC), 10_000
MODEL = Caller("model", "desk", bound=True)
OWNER = Caller("owner", "desk", bound=True)
MAX_ANSWER_TOKENS = 8_000
LONG = "The range held for three sessions, and the break came without volume. " * 24


def ask(memory: Memory, name: str, caller: Caller = MODEL, **data: Any) -> dict[str, Any]:
    return answer_for_model(memory, all_operations()[name], data, caller)


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """Ten thousand trades, a long document, a run, and many decisions, notes and proposals with long texts."""
    folder: Path = tmp_path_factory.mktemp("desk")
    with memtape.open(str(folder / "memory.db")) as made:
        made.resources.clock = FixedClock(START + timedelta(hours=2 * N))
        made.create_skill("breakout")
        made.create_agent("desk", skill="breakout")
        made.configure_agent("desk", {"runner": "llm"})
        trades = [
            ClosedTrade(
                trade_id=f"t{n}", symbol=("BTC", "ETH", "XAU")[n % 3], side="long" if n % 2 else "short", qty=Decimal(1),
                entry_at=START + timedelta(hours=2 * n), exit_at=START + timedelta(hours=2 * n + 1), entry_price=Decimal(100),
                exit_price=Decimal(100 + (n * 7919) % 11 - 5), stop=Decimal(98) if n % 2 else Decimal(102),
                entry_reason=f"break of the range, attempt {n}: {LONG[:200]}", tags=("news",) if n % 5 else (),
                strategy=f"setup {n % 4}",
            )
            for n in range(N)
        ]  # fmt: skip
        desk = made.agent("desk")
        desk.imports.commit(trades, {"file": "trades.csv"})
        workspace = folder / "workspace"
        workspace.mkdir()
        (workspace / "manual.md").write_text("# Manual\n\n" + "\n\n".join(f"## Rule {n}\n\n{LONG}" for n in range(400)))
        desk.documents.add(workspace)
        conduct_run(made, run_host(made, lambda config: ScriptedRunner(BUY)), "desk", RunTask(kind="manual", prompt=LONG))
        for n in range(60):
            card = {"symbol": "BTC", "action": "no_trade", "side": "long", "entry_price": "100", "stop": "98", "reason": LONG[:280]}
            ask(made, "record_decision", OWNER, **card, id=f"d{n}")
            ask(made, "append_note", OWNER, kind="note", text=f"{n}: {LONG}")
            ask(made, "propose_edit", OWNER, path=f"notes/{n}.md", text=LONG, reason=LONG[:200])
        yield made


def needed(memory: Memory) -> dict[str, dict[str, Any]]:
    """What each tool must be given."""
    trade, belief = ask(memory, "get_trades")["trades"][0]["id"], ask(memory, "get_beliefs")["beliefs"][0]["id"]
    run, decision = ask(memory, "list_runs")["runs"][0]["id"], ask(memory, "get_decisions")["decisions"][0]["id"]
    proposal = ask(memory, "list_proposals")["proposals"][0]["id"]
    hit = ask(memory, "search_documents", query="range", detail=True)["results"][0]
    claim = {"symbol": "XAU", "direction": "long", "entry_price": "100", "stop": "98"}
    cited = {name: hit[name] for name in ("path", "start_line", "end_line", "content_hash")}
    plan = {"trigger_condition": {"field": "regime", "op": "eq", "value": "ranging"}, "planned_action": {"type": "alert", "text": "halve the size"},
            "reasoning": LONG[:400]}  # fmt: skip
    return {
        "show_agent": {"id": "desk"}, "get_belief": {"belief_id": belief}, "record_shown": {"brief": "b1"},
        "state_belief": {"sentence": "BTC long loses", "validity_conditions": {"symbol": "BTC", "side": "long"}},
        "record_events": {"events": [{"id": "cpi", "title": "CPI", "impact": "high", "currencies": ["USD"], "t": "2026-05-01T12:30:00Z"}]},
        "pre_trade_check": {"symbol": "BTC", "side": "long"}, "forget_memory": {"memory_id": trade},
        "get_decision": {"decision": decision}, "reexamine_decision": {"decision": decision}, "get_outcome": {"decision": decision},
        "list_reexaminations": {"run": run}, "get_run": {"run": run}, "get_skill_performance": {"skill_id": "breakout"},
        "search_documents": {"query": "range"}, "get_document": {"path": hit["path"]}, "verify_citation": cited,
        "get_trade_reflection": {"trade_id": trade}, "explain_memory": {"memory_id": trade}, "get_trade": {"trade_id": trade},
        "remember": {"fact": "I trade in the morning."}, "append_note": {"kind": "note", "text": LONG, "run": run},
        "remember_trade": claim, "record_decision": {"action": "no_trade", "symbol": "BTC", "reason": LONG[:280]},
        "create_trading_plan": plan, "propose_edit": {"path": "notes/new.md", "text": LONG, "reason": "new", "run": run},
        "get_proposal": {"proposal_id": proposal}, "get_agent_config": {"agent": "desk"}, "show_skill": {"id": "breakout"},
        "correct_memory": {"memory_id": trade, "changes": {"reflection": LONG[:300]}},
        "close_trade": {"trade_id": trade, "exit_price": "101"},
        "cancel_plan": {"plan_id": "none"}, "forget": {"fact_id": "none"}, "set_strategy": {"skill_id": "breakout", "strategy": LONG},
        "create_skill": {"id": "second"},
        "find_similar_reports": {"where": ["win_rate > 0.5"]},
    }  # fmt: skip


def test_every_tool_answers_in_at_most_eight_thousand_tokens_by_default(memory: Memory) -> None:
    given, refused = needed(memory), []
    for name in in_tool_set(all_operations(), "full", MODEL):
        try:
            answer = json_text(ask(memory, name, **given.get(name, {})))
        except MemtapeError as error:
            refused.append(name)
            answer = str(error)
        assert estimate_tokens(answer) <= MAX_ANSWER_TOKENS, (name, estimate_tokens(answer))
    lessons = json_text(ask(memory, "get_lessons"))  # there are some by now
    assert "trades" in lessons and estimate_tokens(lessons) <= MAX_ANSWER_TOKENS
    # A refusal is an answer too, but no more tools than these may hide behind one.
    assert set(refused) <= {"cancel_plan", "forget", "set_strategy", "close_trade", "forget_memory", "correct_memory", "record_shown",
                            "create_skill", "reexamine_decision"}, refused  # fmt: skip
