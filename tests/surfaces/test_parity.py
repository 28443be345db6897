"""One real call of every operation on one store: over HTTP, over MCP and on the command line, the same JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import memtape
from memtape.core.calendar import read_calendar_event
from memtape.core.decisions.runs import RunEnd, RunStep
from memtape.core.observed import ClosedTrade
from memtape.core.values import read
from memtape.engine import Memory
from memtape.errors import MemtapeError
from memtape.surfaces.cli.main import app
from memtape.surfaces.policy import POLICY
from memtape.surfaces.registry import all_operations
from memtape.surfaces.translate import error_report
from tests.effort import SOAK

from .parity import Program, through_cli, through_command, through_http, through_mcp, through_python

PROGRAM = Program()
OLD_ERA = ("get_brief", "get_trades", "observe_fill", "recall_memories", "remember_trade")
T = "2026-06-04T{:02d}:00:00Z"
ANSWERS = Path(__file__).parents[1] / "runners" / "answers.py"
BTC = {"symbol": "BTC", "side": "buy", "qty": "0.5", "px": "65200"}
# What each operation is asked, in an order in which each can answer.
CALLS: dict[str, dict[str, Any]] = {
    "create_skill": {"id": "breakout", "strategy": "Buy strength.", "avoid": ["never average down"], "limits": {"risk": "1 %"},
                     "memory": {"recentTradesK": 5}},
    "list_skills": {},
    "show_skill": {"id": "breakout", "version": 1},
    "create_agent": {"id": "desk", "skill": "breakout", "mode": "sim", "settings": {"currency": "EUR", "dust_qty": "0.001",
                     "settle_seconds": 5, "trade_unit": "flat_to_flat"}},
    "use_skill_version": {"id": "desk", "skill_version": 1},
    "list_agents": {},
    "show_agent": {"id": "desk"},
    "observe_tick": {"agent": "desk", "id": "s1", "t": T.format(8), "positions": {"BTC": {"qty": "0.5", "entry_px": "65200"}},
                     "marks": {"BTC": "65210"}, "equity": "10000", "fills": [{"id": "f1", "t": T.format(8), **BTC}],
                     "decision": {"symbol": "BTC", "reason": "naïve “breakout” → up", "stop": "64000"}},
    "observe_fill": {"agent": "desk", "id": "f2", "t": T.format(9), **BTC, "side": "sell", "trigger": "target"},
    "observe_funding": {"agent": "desk", "id": "u1", "t": T.format(10), "symbol": "BTC", "usd": "-0.25"},
    "observe_trade": {"agent": "desk", "trade_id": "x1", "symbol": "ETH", "side": "short", "entry_at": T.format(7),
                      "exit_at": T.format(8), "entry_price": "3420", "exit_price": "3455", "qty": "0.05"},
    "observe_equity": {"agent": "desk", "t": T.format(11), "equity": "10100.5"},
    "observe_cash_flow": {"agent": "desk", "id": "c1", "t": T.format(11), "usd": "100"},
    "observe_bars": {"agent": "desk", "bars": [{"symbol": "BTC", "t0": T.format(8), "t1": T.format(9), "o": "65200",
                                                "h": "65900", "l": "65100", "c": "65800", "v": "12"}]},
    "record_decision": {"agent": "desk", "id": "d1", "t": T.format(12), "action": "no_trade", "symbol": "BTC", "reason": "chop"},
    "state_instrument": {"agent": "desk", "symbol": "BTC", "accounting": "cash", "multiplier": "1", "valid_from": T.format(1), "id": "i1"},
    "list_instruments": {"agent": "desk", "symbol": "BTC", "as_of": T.format(20)},
    "record_split": {"agent": "desk", "symbol": "NVDA", "t": T.format(12), "ratio": "10"},
    "record_dividend": {"agent": "desk", "symbol": "NVDA", "ex_date": T.format(12), "usd": "4.2", "rate": "1.1"},
    "amend_fill": {"agent": "desk", "fill_id": "f2", "t": T.format(12), "content": {"fee": "0.5"}},
    "void_fill": {"agent": "desk", "fill_id": "f9", "t": T.format(12)},
    "declare_card_type": {"card": {"name": "exit-review", "slots": [{"name": "verdict", "kind": "choice", "choices": ["good", "bad"]}]}},
    "list_card_types": {},
    "configure_agent": {"agent": "desk", "runner": f"callable:{ANSWERS}:decide", "review_decisions": True, "default_prompt": "Analyse BTC.", "budget_usd_per_day": "1.5"},
    "get_agent_config": {"agent": "desk"},
    "run_agent": {"agent": "desk"},
    "send_message": {"agent": "desk", "text": "What do you hold?"},
    "list_runs": {"agent": "desk", "limit": 5},
    "get_run": {"agent": "desk", "run": "?"},
    "get_session": {"agent": "desk", "as_of": T.format(20)},
    "reset_memory": {"agent": "desk"},
    "get_my_decisions": {"agent": "desk", "limit": 2, "as_of": T.format(20)},
    "get_decision": {"agent": "desk", "decision": "d1", "as_of": T.format(20)},
    "reexamine_decision": {"agent": "desk", "decision": "card-1"},
    "list_reexaminations": {"agent": "desk", "run": "d1"},
    "get_trades": {"agent": "desk", "limit": 1, "status": "closed"},
    "get_losses": {"agent": "desk", "limit": 3, "as_of": T.format(20)},
    "get_trade": {"agent": "desk", "trade_id": "?"},
    "get_open_positions": {"agent": "desk"},
    "get_strategy_performance": {"agent": "desk"},
    "get_ledger": {"agent": "desk", "as_of": T.format(20)},
    "get_decisions": {"agent": "desk", "limit": 5},
    "record_outcome": {"agent": "desk", "decision": "s1", "status": "resolved", "r": "1.25", "cause": "target", "exit_price": "65800",
                       "exit_at": T.format(11), "note": "closed by hand"},
    "get_outcome": {"agent": "desk", "decision": "s1", "as_of": T.format(20)},
    "get_decision_results": {"agent": "desk", "window": "7d", "curve": True, "as_of": T.format(20)},
    "get_messages": {"agent": "desk", "limit": 5},
    "get_equity": {"agent": "desk"},
    "import_file": {"agent": "desk", "file": "ideas.csv", "kind": "decisions", "map": {"reason": "why"},
                    "content": f"time,symbol,action,why\n{T.format(9)},ETH,buy,“strength”\n"},
    "list_imports": {"agent": "desk"},
    "undo_import": {"agent": "desk", "batch": "?"},
    "remember_trade": {"agent": "diary", "symbol": "XAU", "direction": "long", "entry_price": "2400", "exit_price": "2390",
                       "pnl": "-100", "pnl_r": -1.0, "strategy_name": "vb", "market_context": "chop", "context_regime": "ranging",
                       "context_atr_d1": 30.0, "confidence": 0.6, "reflection": "too early", "trade_id": "m1",
                       "entry_at": T.format(7), "exit_at": T.format(8)},
    "close_trade": {"agent": "diary", "trade_id": "m2", "exit_price": "2420", "exit_at": T.format(10)},
    "recall_memories": {"agent": "diary", "symbol": "XAU", "context_regime": "ranging", "explain": True, "as_of": T.format(20)},
    "get_beliefs": {"agent": "diary", "as_of": T.format(20)},
    "state_belief": {"agent": "diary", "sentence": "Ranges are no place to buy strength", "id": "b1", "op": "le",
                     "validity_conditions": {"regime": "ranging"}},
    "get_belief": {"agent": "diary", "belief_id": "b1", "as_of": T.format(20)},
    "get_behavioral_analysis": {"agent": "diary", "symbol": "XAU", "as_of": T.format(20)},
    "get_agent_state": {"agent": "diary", "history": 3, "as_of": T.format(20)},
    "get_trade_reflection": {"agent": "diary", "trade_id": "?", "as_of": T.format(20)},
    "explain_memory": {"agent": "diary", "memory_id": "?", "context": {"regime": "ranging"}, "as_of": T.format(20)},
    "pre_trade_check": {"agent": "diary", "symbol": "XAU", "side": "long", "entry_price": "2400", "stop": "2390", "qty": "1",
                        "context": {"regime": "ranging"}, "as_of": T.format(20)},
    "create_trading_plan": {"agent": "diary", "trigger_condition": {"regime": "ranging"}, "reasoning": "three false breakouts",
                            "planned_action": {"type": "reduce", "size_factor": 0.5}, "id": "p1", "expires_at": T.format(23), "maker": "agent"},
    "confirm_plan": {"agent": "diary", "plan_id": "p1"},
    "check_active_plans": {"agent": "diary", "current_context": {"regime": "ranging"}, "as_of": T.format(20), "all": True},
    "cancel_plan": {"agent": "diary", "plan_id": "p2"},
    "record_events": {"events": [{"id": "nfp", "t": "2026-06-05T12:30:00Z", "title": "NFP", "impact": "high", "currencies": ["USD"]}]},
    "get_upcoming_events": {"as_of": "2026-12-04T12:30:00Z", "lookaheadHours": 48, "types": ["nfp"], "symbols": ["XAUUSD"], "minImportance": 0.5,
                            "deploymentId": "desk"},
    "get_event_reactions": {"agent": "desk", "minImportance": 0.2, "as_of": T.format(20)},
    "list_event_imports": {},
    "get_skill_performance": {"skill_id": "breakout", "detail": "full", "as_of": T.format(20)},
    "get_my_deployments": {"deployment_id": "desk", "detail": "full", "as_of": T.format(20)},
    "undo_event_import": {"batch": "?"},
    "reflect_now": {"agent": "diary"},
    "get_lessons": {"agent": "diary", "as_of": T.format(20)},
    "get_lesson_history": {"agent": "diary", "as_of": T.format(20)},
    "diff_lessons": {"agent": "diary", "earlier": "?", "later": "?"},
    "promote_lessons": {"agent": "diary", "note_id": "?"},
    "retire_lesson": {"agent": "desk", "lesson_id": "?", "reason": "it is the plan"},
    "get_brief": {"agent": "diary", "symbol": "XAU", "as_of": T.format(20), "head": 0, "owner_head": 0, "budget": 2000},
    "preview_brief": {"agent": "diary", "symbol": "XAU", "as_of": T.format(20), "head": 0, "owner_head": 0,
                      "memory": {"recentTradesK": 1, "reflection": {"cadence": "daily"}}},
    "record_shown": {"agent": "diary", "brief": "?", "decision": "d7"},
    "list_shown_briefs": {"agent": "diary"},
    "get_shown_brief": {"agent": "diary", "digest": "?"},
    "reindex_documents": {"agent": "diary", "folder": "?"},
    "search_documents": {"agent": "diary", "query": "why no longs in chop"},
    "get_document": {"agent": "diary", "path": "journal/may.md", "start_line": 2},
    "verify_citation": {"agent": "diary", "path": "journal/may.md", "start_line": 3, "end_line": 3, "content_hash": "?", "quoted": "moved"},
    "list_documents": {"agent": "diary", "type": "journal"},
    "find_similar_reports": {"agent": "diary", "path": "reports/a.md"},
    "pin_document": {"agent": "diary", "path": "TRADING_MANUAL.md", "section": "Risk"},
    "unpin_document": {"agent": "diary", "path": "SOUL.md"},
    "list_pinned": {"agent": "diary"},
    "suggest_pins": {"agent": "diary"},
    "get_citations": {"agent": "diary", "limit": 5},
    "index_health": {"agent": "diary"},
    "append_note": {"agent": "diary", "kind": "journal", "text": "Waited: “no volume”.\nAgain.", "run": "r-1", "id": "n1"},
    "list_notes": {"agent": "diary", "run": "r-1"},
    "propose_edit": {"agent": "diary", "path": "journal/may.md", "old": "three", "new": "four", "reason": "one more", "run": "r-1"},
    "list_proposals": {"agent": "diary", "status": "proposed"},
    "get_proposal": {"agent": "diary", "proposal_id": "?"},
    "accept_proposal": {"agent": "diary", "proposal_id": "?", "note": "agreed"},
    "reject_proposal": {"agent": "diary", "proposal_id": "?"},
    "label_trade": {"agent": "diary", "trade_id": "?", "teach": "anomaly", "reason": "the feed was wrong"},
    "correct_memory": {"agent": "diary", "memory_id": "?", "changes": {"teach": "exclude"}, "reason": "typed twice"},
    "forget_memory": {"agent": "diary", "memory_id": "?", "reason": "a test"},
    "remember": {"fact": "You never trade “alts”.", "topic": "symbols"},
    "list_facts": {"archived": True},
    "edit_fact": {"fact_id": "?", "fact": "You trade gold and silver.", "topic": "symbols", "skill": ""},
    "promote_fact": {"fact_id": "?"},
    "demote_fact": {"fact_id": "?"},
    "restore_fact": {"fact_id": "?"},
    "forget": {"fact_id": "?", "reason": "user_corrected"},
    "start_chat": {"mode": "coach", "level": "beginner"},
    "send_chat": {"chat": "?", "text": "How did gold do?"},
    "list_chats": {"limit": 5, "as_of": T.format(20)},
    "get_chat": {"chat": "?"},
    "stop_chat": {"chat": "?"},
    "delete_chat": {"chat": "?"},
    "set_strategy": {"skill_id": "breakout", "strategy": "Buy “strength” after a pause.", "avoid": ["never average down"]},
    "confirm_strategy": {"card": "?"},
    "delete_agent": {"id": "gone", "confirm": "gone"},
    "erase_owner": {"confirm": "local"},
}  # fmt: skip
# Each call is made several times. These leave their mark every time, so their answers carry another number each time, or
# cannot be given twice; they are made once here, and their own tests are in tests/engine.
ONCE = {"index_health", "run_agent", "send_message", "reset_memory", "reexamine_decision", "correct_memory", "label_trade",
        "forget_memory", "delete_agent", "erase_owner", "start_chat", "send_chat", "delete_chat", "set_strategy"}  # fmt: skip
# Owner only for what is asked here, though a model may call the operation.
IN_PART = {"state_belief", "create_skill", "cancel_plan", "reindex_documents"}
OWNERS_OWN = IN_PART | {name for name, policy in POLICY.items() if policy.access == "owner"}
OWNER_ASKED = {"correct_memory", "reindex_documents"} | {name for name, policy in POLICY.items() if policy.access == "owner"}
# What each must refuse, with the field that is wrong.
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "create_skill": ({"id": "No Spaces"}, "id"),
    "list_skills": ({"colour": "red"}, "colour"),
    "show_skill": ({"id": "nowhere"}, "skill"),
    "create_agent": ({"id": "x", "skill": "nowhere"}, "skill"),
    "use_skill_version": ({"id": "desk", "skill_version": 99}, "skill_version"),
    "list_agents": ({"colour": "red"}, "colour"),
    "show_agent": ({"id": "nobody"}, "agent"),
    "observe_tick": ({"agent": "desk", "id": "z", "t": "2026-06-04T08:00:00"}, "t"),
    "observe_fill": ({"agent": "desk", "id": "z", "t": T.format(9), **BTC, "qty": "-1"}, "qty"),
    "observe_funding": ({"agent": "desk", "id": "z", "t": T.format(9), "symbol": "BTC", "usd": "NaN"}, "usd"),
    "observe_trade": ({"agent": "desk", "trade_id": "z", "symbol": "ETH", "side": "up", "entry_at": T.format(7),
                       "exit_at": T.format(8), "entry_price": "1", "exit_price": "1"}, "side"),
    "observe_equity": ({"agent": "desk", "t": "2099-01-01T00:00:00Z", "equity": "1"}, "t"),
    "observe_cash_flow": ({"agent": "desk", "id": "a\u0007b", "t": T.format(9), "usd": "1"}, "id"),
    "observe_bars": ({"agent": "desk", "bars": []}, "bars"),
    "record_decision": ({"agent": "desk", "reason": "x" * 281}, "reason"),
    "state_instrument": ({"agent": "desk", "symbol": "BTC", "payoff": "convex"}, "payoff"),
    "list_instruments": ({"agent": "nobody"}, "agent"),
    "record_split": ({"agent": "desk", "symbol": "NVDA", "t": T.format(12), "ratio": "0"}, "ratio"),
    "record_dividend": ({"agent": "desk", "symbol": "NVDA", "ex_date": T.format(12)}, "usd"),
    "amend_fill": ({"agent": "desk", "fill_id": "f2", "content": {}}, "content"),
    "void_fill": ({"agent": "desk", "fill_id": "nothing"}, "fill_id"),
    "declare_card_type": ({"card": {"name": "x", "slots": [{"name": "a"}, {"name": "a"}]}}, "slots.1.name"),
    "list_card_types": ({"colour": "red"}, "colour"),
    "configure_agent": ({"agent": "desk", "schedule": "0 0 30 2 *"}, "schedule"),
    "get_agent_config": ({"agent": "nobody"}, "agent"),
    "run_agent": ({"agent": "diary"}, "runner"),
    "send_message": ({"agent": "desk", "text": ""}, "text"),
    "list_runs": ({"agent": "desk", "kind": "walk"}, "kind"),
    "get_run": ({"agent": "desk", "run": "nothing"}, "run"),
    "get_session": ({"agent": "nobody"}, "agent"),
    "reset_memory": ({"agent": "nobody"}, "agent"),
    "get_my_decisions": ({"agent": "desk", "limit": 0}, "limit"),
    "get_decision": ({"agent": "desk", "decision": "nothing"}, "decision"),
    "reexamine_decision": ({"agent": "desk", "decision": "nothing"}, "decision"),
    "list_reexaminations": ({"agent": "nobody", "run": "r1"}, "agent"),
    "get_trades": ({"agent": "desk", "cursor": "nonsense"}, "cursor"),
    "get_losses": ({"agent": "desk", "limit": 0}, "limit"),
    "get_trade": ({"agent": "desk", "trade_id": "nothing"}, "trade_id"),
    "get_open_positions": ({"agent": "nobody"}, "agent"),
    "get_strategy_performance": ({"agent": "desk", "as_of": "yesterday"}, "as_of"),
    "get_ledger": ({"agent": "desk", "head": -1}, "head"),
    "get_decisions": ({"agent": "desk", "limit": 0}, "limit"),
    "record_outcome": ({"agent": "desk", "decision": "nothing", "status": "expired"}, "decision"),
    "get_outcome": ({"agent": "desk", "decision": "nothing"}, "decision"),
    "get_decision_results": ({"agent": "desk", "window": "1y"}, "window"),
    "get_messages": ({"agent": "desk", "limit": 0}, "limit"),
    "get_equity": ({"agent": "no such"}, "agent"),
    "import_file": ({"agent": "desk", "file": "a.csv", "content": "time,equity\n", "kind": "quotes"}, "kind"),
    "list_imports": ({"agent": "nobody"}, "agent"),
    "undo_import": ({"agent": "desk", "batch": "nothing"}, "batch"),
    "remember_trade": ({"agent": "diary", "symbol": "XAU", "direction": "long", "entry_price": "1", "exit_price": "1", "pnl": "5",
                        "pnl_r": -1.0}, "pnl_r"),
    "close_trade": ({"agent": "diary", "trade_id": "nothing", "exit_price": "1"}, "trade_id"),
    "recall_memories": ({"agent": "diary", "limit": 1000}, "limit"),
    "get_beliefs": ({"agent": "nobody"}, "agent"),
    "state_belief": ({"agent": "diary", "sentence": "VB works", "validity_conditions": {}}, "validity_conditions"),
    "get_belief": ({"agent": "diary", "belief_id": "nothing"}, "belief_id"),
    "get_behavioral_analysis": ({"agent": "nobody"}, "agent"),
    "get_agent_state": ({"agent": "diary", "history": -1}, "history"),
    "get_trade_reflection": ({"agent": "diary", "trade_id": "nothing"}, "trade_id"),
    "explain_memory": ({"agent": "diary", "memory_id": "nothing"}, "memory_id"),
    "pre_trade_check": ({"agent": "diary", "symbol": "XAU", "side": "up"}, "side"),
    "create_trading_plan": ({"agent": "diary", "trigger_condition": {"regime": 3}, "planned_action": {"type": "alert"},
                             "reasoning": "x"}, "trigger_condition.regime.value"),
    "confirm_plan": ({"agent": "diary", "plan_id": "nothing"}, "plan_id"),
    "check_active_plans": ({"agent": "nobody"}, "agent"),
    "cancel_plan": ({"agent": "diary", "plan_id": "nothing"}, "plan_id"),
    "record_events": ({"events": []}, "events"),
    "get_upcoming_events": ({"lookaheadHours": 73}, "lookaheadHours"),
    "get_event_reactions": ({"agent": "desk", "minImportance": 2}, "minImportance"),
    "list_event_imports": ({"colour": "red"}, "colour"),
    "get_skill_performance": ({"skill_id": "nowhere"}, "skill"),
    "get_my_deployments": ({"detail": "gossip"}, "detail"),
    "undo_event_import": ({"batch": "nothing"}, "batch"),
    "reflect_now": ({"agent": "diary", "model": "nowhere"}, "model"),
    "get_lessons": ({"agent": "nobody"}, "agent"),
    "get_lesson_history": ({"agent": "diary", "limit": 0}, "limit"),
    "diff_lessons": ({"agent": "diary", "earlier": "nothing", "later": "nothing"}, "note_id"),
    "promote_lessons": ({"agent": "diary", "note_id": "nothing"}, "note_id"),
    "retire_lesson": ({"agent": "diary", "lesson_id": "nothing"}, "lesson_id"),
    "get_brief": ({"agent": "diary", "budget": 10}, "budget"),
    "preview_brief": ({"agent": "diary", "memory": {"recentTradesK": 31}}, "memory.recentTradesK"),
    "record_shown": ({"agent": "diary", "brief": "yesterday's"}, "brief"),
    "list_shown_briefs": ({"agent": "nobody"}, "agent"),
    "get_shown_brief": ({"agent": "diary", "digest": "nothing"}, "digest"),
    "reindex_documents": ({"agent": "diary", "folder": "/nowhere/at/all"}, "folder"),
    "search_documents": ({"agent": "diary", "query": ""}, "query"),
    "list_documents": ({"agent": "nobody"}, "agent"),
    "get_document": ({"agent": "diary", "path": "../secret.md"}, "path"),
    "pin_document": ({"agent": "diary", "path": "journal/may.md"}, "path"),
    "unpin_document": ({"agent": "diary", "path": "nowhere.md"}, "path"),
    "list_pinned": ({"agent": "nobody"}, "agent"),
    "suggest_pins": ({"agent": "nobody"}, "agent"),
    "get_citations": ({"agent": "diary", "limit": 0}, "limit"),
    "verify_citation": ({"agent": "diary", "path": "a.md", "start_line": 0, "end_line": 1, "content_hash": "x"}, "start_line"),
    "find_similar_reports": ({"agent": "diary", "path": "journal/may.md"}, "path"),
    "index_health": ({"agent": "nobody"}, "agent"),
    "append_note": ({"agent": "diary", "kind": "note", "text": "x", "path": "../secret.md", "run": "r1"}, "path"),
    "list_notes": ({"agent": "diary", "limit": 0}, "limit"),
    "propose_edit": ({"agent": "diary", "path": "journal/may.md", "old": "nowhere", "new": "x", "reason": "x"}, "old"),
    "list_proposals": ({"agent": "diary", "status": "open"}, "status"),
    "get_proposal": ({"agent": "diary", "proposal_id": "nothing"}, "proposal_id"),
    "accept_proposal": ({"agent": "diary", "proposal_id": "nothing"}, "proposal_id"),
    "reject_proposal": ({"agent": "diary", "proposal_id": "nothing"}, "proposal_id"),
    "label_trade": ({"agent": "diary", "trade_id": "nothing", "teach": "learn"}, "memory_id"),
    "correct_memory": ({"agent": "diary", "memory_id": "nothing", "changes": {"teach": "exclude"}}, "memory_id"),
    "forget_memory": ({"agent": "diary", "memory_id": "nothing"}, "memory_id"),
    "remember": ({"fact": "abc"}, "fact"),
    "list_facts": ({"as_of": "2026-06-04T08:00:00"}, "as_of"),
    "edit_fact": ({"fact_id": "nothing", "fact": "x" * 501}, "fact"),
    "promote_fact": ({"fact_id": "nothing"}, "fact_id"),
    "demote_fact": ({"fact_id": "nothing"}, "fact_id"),
    "restore_fact": ({"fact_id": "nothing"}, "fact_id"),
    "forget": ({"fact_id": "nothing", "reason": "bored"}, "reason"),
    "start_chat": ({"mode": "gossip"}, "mode"),
    "send_chat": ({"chat": "nothing", "text": "Hello."}, "chat"),
    "list_chats": ({"limit": 0}, "limit"),
    "get_chat": ({"chat": "nothing"}, "chat"),
    "stop_chat": ({"chat": "nothing"}, "chat"),
    "delete_chat": ({"chat": "nothing"}, "chat"),
    "set_strategy": ({"skill_id": "No Spaces", "strategy": "Buy."}, "skill_id"),
    "confirm_strategy": ({"card": "nothing"}, "card"),
    "delete_agent": ({"id": "desk", "confirm": "no"}, "confirm"),
    "erase_owner": ({"confirm": "someone else"}, "confirm"),
}  # fmt: skip


def told(memory: Any, name: str) -> dict[str, Any]:
    """What a question about lessons, briefs and edits must name: the note, the lesson, the heads, the brief, the proposal."""
    diary = memory.agent("diary") if name in ("diff_lessons", "promote_lessons", "retire_lesson", "get_brief", "preview_brief",
                                               "record_shown", "get_shown_brief") else None  # fmt: skip
    match name:
        case "diff_lessons":
            return {"earlier": diary.lessons.reflections()[0].note.id, "later": diary.lessons.reflections()[0].note.id}
        case "promote_lessons":
            return {"note_id": diary.lessons.reflections()[0].note.id}
        case "retire_lesson":
            return {"lesson_id": memory.agent("desk").lessons.reflect().note.lessons[0].id}
        case "get_run":
            desk = memory.agent("desk")
            begun = desk.runs.begin("manual", "Analyse BTC.", runner="callable")
            step = RunStep(at=begun.start.at, turn=0, kind="tool", tool="get_brief", input={"symbol": "BTC"}, text="...", ms=12)
            end = RunEnd(run=begun.start.id, at=begun.start.at, result="ok", text="Flat.", steps=(step,))
            return {"run": desk.end_run(begun, end).id}
        case "get_brief" | "preview_brief":
            asked = diary.briefs.make(symbol="XAU").question
            return {"head": asked.head, "owner_head": asked.owner_head}
        case "record_shown":
            return {"brief": diary.briefs.make(symbol="XAU", budget=2000).receipt}
        case "get_shown_brief":
            return {"digest": diary.briefs.shown()[0]["digest"]}
        case "edit_fact" | "promote_fact" | "demote_fact" | "restore_fact" | "forget":
            # A fact of its own for each, so that every call can be made again: promoting one twice changes nothing.
            said = "You trade gold and silver." if name == "edit_fact" else f"This fact is for {name}."
            return {"fact_id": memory.facts.remember(said).fact.id}
        case "get_chat" | "stop_chat":
            chat = memory.chats.start(mode="ops").id
            memory.chats.begin_turn(chat, "What runs now?")
            return {"chat": memory.chats.stop_turn(chat).id}
        case "confirm_strategy":
            return {"card": memory.strategies.propose("reversal", "Sell a spike.").id}
        case "get_proposal" | "accept_proposal" | "reject_proposal":
            return {"proposal_id": memory.agent("diary").proposals.propose(f"notes/{name}.md", text="x", reason="x").id}
    return {}


def prime(memory: Memory, workspace: Path) -> tuple[dict[str, Any], dict[str, Any], dict[str, MemtapeError]]:
    """Perform every operation once; returns the calls that can be repeated, what each answers, and what each refuses."""
    calls = {name: dict(data) for name, data in CALLS.items()}
    for name in list(calls):
        if name == "get_trade":
            calls[name]["trade_id"] = memory.agent("desk").ledger.trades(status="closed")[0].id
        if name == "void_fill":
            memory.agent("desk").observe({"id": "f9", "t": T.format(9), **BTC, "symbol": "DOGE"}, kind="fill")
        if name == "undo_import":
            trade = {"trade_id": "i1", "symbol": "SOL", "side": "long", "entry_at": T.format(7), "exit_at": T.format(8),
                     "entry_price": 1, "exit_price": 2, "qty": 1}  # fmt: skip
            calls[name]["batch"] = memory.agent("desk").imports.commit([read(ClosedTrade, trade)], {"file": "a.csv"}).batch
        if name == "reexamine_decision":
            card = {"id": "card-1", "t": T.format(12), "symbol": "BTC", "action": "buy", "card": "trade-decision", "slots": {"thesis": "up"}}
            memory.agent("desk").observe(card, kind="decision")
        if name == "undo_event_import":
            event = read_calendar_event({"id": "gdp", "t": T.format(9), "title": "GDP q/q"})
            calls[name]["batch"] = memory.calendar.commit([event], {"file": "calendar.csv"}).batch
        if name == "remember_trade":
            memory.create_agent("diary", skill="breakout", mode="sim")
            memory.create_agent("gone", skill="breakout", mode="sim")
            opened = {"symbol": "XAU", "side": "long", "entry_price": 2400, "stop": 2390, "qty": 1, "trade_id": "m2",
                      "entry_at": T.format(9)}  # fmt: skip
            memory.agent("diary").remember_trade(opened)
        if calls[name].get("memory_id") == "?" or name in ("get_trade_reflection", "label_trade"):
            field = "memory_id" if "memory_id" in calls[name] else "trade_id"
            calls[name][field] = memory.agent("diary").ledger.trades(status="closed")[0].id
        calls[name] |= told(memory, name)
        if name == "reindex_documents":
            (workspace / "journal").mkdir()
            (workspace / "journal" / "may.md").write_text(
                "# May\n\nNo longs in chop: three false breaks.\n", encoding="utf-8"
            )
            (workspace / "SOUL.md").write_text("Patience.\n", encoding="utf-8")
            (workspace / "TRADING_MANUAL.md").write_text("# Manual\n\n## Risk\nR3: 1 % a trade.\n", encoding="utf-8")
            (workspace / "reports").mkdir()
            for page, won in (("reports/a.md", 40), ("reports/b.md", 70)):
                told_of = "# Simulation: a\n\nThese are simulated trades.\n\n## Settings\n| Strategy | breakout |\n| Symbols | BTC |\n"
                (workspace / page).write_text(f"{told_of}## Figures\n| Win rate | {won} % | 80 trades |\n", encoding="utf-8")
            calls[name]["folder"] = str(workspace)
        if name == "cancel_plan":
            plan = {"id": "p2", "trigger": {"session": "asia"}, "action": "alert", "reasoning": "thin"}
            memory.agent("diary").plans.create(plan)
        if name not in ONCE:
            through_python(memory, name, calls[name])
    calls = {name: data for name, data in calls.items() if name not in ONCE}
    expected = {name: through_python(memory, name, data) for name, data in calls.items()}
    refused: dict[str, MemtapeError] = {}
    for name, (data, _) in REFUSED.items():
        with pytest.raises(MemtapeError) as error:
            through_python(memory, name, data)
        refused[name] = error.value
    return calls, expected, refused


@pytest.fixture(scope="module")
def primed(tmp_path_factory):
    """A store on which every operation has been performed once, and what each then answers."""
    db = str(tmp_path_factory.mktemp("parity") / "desk.db")
    with memtape.open(db) as memory:
        return db, *prime(memory, tmp_path_factory.mktemp("workspace"))


def test_every_operation_is_called_and_refused_here():
    assert set(CALLS) == set(REFUSED) == set(all_operations())


def test_over_http_every_operation_answers_and_refuses_alike(primed):
    db, calls, expected, refused = primed
    with PROGRAM.serving(db) as address:
        for name, data in calls.items():
            assert through_http(address, name, data).data == expected[name], name
            if not all_operations()[name].writes:
                assert through_http(address, name, data, by_query=True).data == expected[name], name
        for name, (data, field) in REFUSED.items():
            asked = through_http(address, name, data)
            assert (asked.code, asked.error) == (error_report(refused[name]).status, str(refused[name])), name
            assert refused[name].field == field, name


@pytest.mark.soak
@pytest.mark.parametrize("era", ["legacy", "auto"])
def test_over_mcp_every_operation_answers_and_refuses_alike(primed, era):
    db, calls, expected, refused = primed
    wrong = {name: data for name, (data, _) in REFUSED.items() if name not in OWNER_ASKED}
    if era == "legacy" and not SOAK:  # only the handshake differs: an answer, a write and a refusal show that it leads to the same
        calls, wrong = ({name: each[name] for name in OLD_ERA} for each in (calls, wrong))
    # By default a model gets less of an answer than the other surfaces give. Three operations have a `detail` of their own.
    own = {name for name in calls if "detail" in all_operations()[name].params.model_fields}
    asked = [(name, data if all_operations()[name].writes or name in own else {**data, "detail": True}) for name, data in calls.items()]
    answered = through_mcp(PROGRAM, db, [*asked, *wrong.items()], era=era)
    answers, refusals = dict(zip(calls, answered, strict=False)), answered[len(calls) :]
    for name in OWNERS_OWN & set(calls):  # what a model says does not count as the owner's word
        assert answers.pop(name).data is None, name
    for name in own:  # fewer rows and columns, and no other value
        found = answers.pop(name).data
        assert found is not None and found, name
        single = {key: value for key, value in found.items() if not isinstance(value, list | dict)}
        assert single == {key: expected[name][key] for key in single}, name
    assert {name: asked.data for name, asked in answers.items()} == {n: expected[n] for n in calls if n not in OWNERS_OWN | own}
    assert [asked.error for asked in refusals] == [str(refused[name]) for name in wrong]


def test_on_the_command_line_every_operation_answers_and_refuses_alike(primed):
    db, calls, expected, _ = primed
    for name, data in calls.items():
        assert through_command(db, name, data).data == expected[name], name
    for name, (data, field) in REFUSED.items():
        if field == "colour":
            continue  # an option that does not exist is the parser's own refusal: see below
        asked = through_command(db, name, data)
        assert asked.code == 2, name
        assert (asked.error or "").split(":")[0] == field, name


@pytest.mark.parametrize("name", ["get_trades", "get_brief", "search_documents"])
def test_a_program_of_its_own_answers_so_too(primed, name):
    db, calls, expected, _ = primed
    assert through_cli(PROGRAM, db, name, calls[name]).data == expected[name]


def test_a_program_of_its_own_refuses_so_too(primed):
    data, field = REFUSED["get_trades"]
    asked = through_cli(PROGRAM, primed[0], "get_trades", data)
    assert asked.code == 2 and (asked.error or "").split(":")[0] == field


def test_an_option_that_does_not_exist_is_named_and_exits_2():
    done = CliRunner().invoke(app, ["skills", "list", "--colour", "red"])
    assert done.exit_code == 2 and "--colour" in done.stderr


def test_what_was_refused_left_nothing_behind(primed):
    db, _, expected, _ = primed
    with memtape.open(db) as memory:
        assert through_python(memory, "show_agent", {"id": "desk"})["log_rows"] == expected["show_agent"]["log_rows"]
