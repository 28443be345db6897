"""Which commands there are: their place in `memtape --help`, their line there, and the operation that each calls.

One table, so that each thing stands in one place under one name, and `memtape --help` needs nothing else. A command without an
operation is written by hand in its own module. An operation without a command is called with `memtape op NAME`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import lru_cache

from memtape.core.value_class import dataclass

# The panels of `memtape --help`: each command of the first level, with its line.
PANELS: Mapping[str, Mapping[str, str]] = {
    "Start": {
        "demo": "Fill a demo store with simulated trades, and say what to try.",
        "init": "Create the store and print its MCP configuration.",
        "import": "Preview a file of trades, fills or decisions, or import it.",
        "imports": "List the imported files, or undo an import.",
        "connect": "Connect Claude Code, Cursor or another program over MCP.",
        "doctor": "Check the installation and the store.",
    },
    "Ask": {
        "brief": "Print what an agent sees before its next decision.",
        "recall": "Recall what memory knows about a situation.",
        "check": "Check an order against memory before it is sent.",
        "lessons": "List what the closed trades teach, or compute it now.",
        "trades": "List the trades of an agent, or the open ones.",
        "trade": "Show one trade with its reasons, prices and result.",
        "performance": "Show the figures over the closed trades.",
        "ledger": "Print every trade with the totals.",
        "decisions": "List what was decided, and what came of it.",
        "ask": "Ask for losses, habits, beliefs, equity or state.",
        "chat": "Talk with the coach.",
    },
    "Record": {
        "observe": "Record a tick, a fill, bars and other observations.",
        "remember": "Remember a trade, a fact, a belief or a note.",
        "decide": "Record a decision, also the one not to trade.",
    },
    "Own": {
        "agents": "List, create, configure and delete agents.",
        "skills": "List and create strategies, and show how each did.",
        "plans": "List, create, confirm and cancel plans.",
        "docs": "Index, search and pin documents; decide on proposed edits.",
        "facts": "List what is known about you, and correct it.",
        "events": "List and import scheduled events.",
        "cards": "List the forms of decisions, or add one.",
        "chats": "List, show and delete chats with the coach.",
    },
    "Run": {
        "sim": "Simulate a strategy or a model on your bars.",
        "validate": "Say whether memory would have helped the sizes of a history.",
        "trial": "Compare a decision maker with memory, without it, and a placebo.",
        "follow": "Follow a live account until you stop it.",
        "sync": "Read a live account once.",
        "serve": "Serve the pages, HTTP and MCP on this machine.",
        "mcp": "Serve MCP on standard input and output.",
        "run": "Run an agent once.",
        "runs": "List the runs of an agent, or show one.",
    },
    "Keep": {
        "backup": "Copy the store while others write to it.",
        "restore": "Restore a backup or an export into an empty store.",
        "export": "Export everything to a file; its ending is the format.",
        "verify": "Prove that nothing in the store was altered.",
        "rebuild": "Rebuild every table from the log.",
        "migrate": "Bring an older store to this version.",
    },
    "More": {
        "op": "Call any operation by its own name.",
        "embedder": "List or build the models that compare texts.",
        "conform": "Run a file of golden vectors.",
        "bench": "Measure the performance budgets.",
        "attack": "Attack copies of test stores as a model could.",
    },
}


@dataclass(frozen=True, slots=True)
class OperationCommand:
    """A command that calls an operation."""

    path: str  # the words after `memtape`
    operation: str
    line: str  # what its group's help says about it; "" for a command of the first level, which PANELS describes
    arguments: tuple[str, ...] = ()  # the fields that are given by position


# Groups whose commands all call operations, or some of them; the first command of a group with "list" is its default.
COMMANDS: tuple[OperationCommand, ...] = (
    # Ask
    OperationCommand("recall", "recall_memories", ""),
    OperationCommand("check", "pre_trade_check", "", ("symbol", "side")),
    OperationCommand("lessons list", "get_lessons", "List the lessons that an agent sees."),
    OperationCommand("lessons now", "reflect_now", "Compute lessons from the closed trades now."),
    OperationCommand("lessons history", "get_lesson_history", "List all notes of lessons, not only the active one."),
    OperationCommand("lessons retire", "retire_lesson", "Stop showing a lesson.", ("lesson_id",)),
    OperationCommand("lessons share", "promote_lessons", "Show a note to every agent of the skill.", ("note_id",)),
    OperationCommand("trades list", "get_trades", "List trades, newest first."),
    OperationCommand("trades open", "get_open_positions", "List the open trades."),
    OperationCommand("trades teach", "label_trade", "Set what a closed trade counts for in lessons.", ("trade_id", "teach")),
    OperationCommand("trades explain", "get_trade_reflection", "Show a trade with all that memory made of it.", ("trade_id",)),
    OperationCommand("trade", "get_trade", "", ("trade_id",)),
    OperationCommand("performance", "get_strategy_performance", ""),
    OperationCommand("ledger", "get_ledger", ""),
    OperationCommand("decisions list", "get_decisions", "List decisions, newest first."),
    OperationCommand("decisions review", "get_my_decisions", "Show the last decisions, one line each, and a tally."),
    OperationCommand("decisions show", "get_decision", "Show one decision with its card and outcome.", ("decision",)),
    OperationCommand("decisions results", "get_decision_results", "Show what came of the decisions to trade."),
    OperationCommand("decisions outcome", "get_outcome", "Show what became of a decision.", ("decision",)),
    OperationCommand("decisions settle", "record_outcome", "State the outcome of a decision.", ("decision", "status")),
    OperationCommand("decisions reexamine", "reexamine_decision", "Examine a decision again.", ("decision",)),
    OperationCommand("decisions reexaminations", "list_reexaminations", "List the re-examinations of a run.", ("run",)),
    OperationCommand("decisions citations", "get_citations", "List the document lines that decisions cite."),
    OperationCommand("ask losses", "get_losses", "What does an agent lose on?"),
    OperationCommand("ask habits", "get_behavioral_analysis", "How does an agent trade: timing, sizing, holding?"),
    OperationCommand("ask beliefs", "get_beliefs", "What does an agent believe, on what evidence?"),
    OperationCommand("ask belief", "get_belief", "Which trades speak for and against one belief?", ("belief_id",)),
    OperationCommand("ask equity", "get_equity", "How did the equity go?"),
    OperationCommand("ask state", "get_agent_state", "How confident is an agent, and how deep in drawdown?"),
    OperationCommand("ask why", "explain_memory", "Why does a memory get its score?", ("memory_id",)),
    # Record
    OperationCommand("observe tick", "observe_tick", "Record what one run observed and decided."),
    OperationCommand("observe fill", "observe_fill", "Record one execution at the broker."),
    OperationCommand("observe bars", "observe_bars", "Record completed bars."),
    OperationCommand("observe trade", "observe_trade", "Record a closed trade that its source reports whole."),
    OperationCommand("observe equity", "observe_equity", "Record the equity of the account."),
    OperationCommand("observe funding", "observe_funding", "Record a funding, swap or borrow payment."),
    OperationCommand("observe cash-flow", "observe_cash_flow", "Record a deposit or withdrawal."),
    OperationCommand("observe split", "record_split", "Record a split of a share."),
    OperationCommand("observe dividend", "record_dividend", "Record a dividend."),
    OperationCommand("observe terms", "state_instrument", "State the terms of a symbol: multiplier, payoff, ..."),
    OperationCommand("observe amend", "amend_fill", "Correct a recorded fill.", ("fill_id",)),
    OperationCommand("observe void", "void_fill", "Take back a fill that the venue cancelled.", ("fill_id",)),
    OperationCommand("remember trade", "remember_trade", "Remember a trade that an agent reports."),
    OperationCommand("remember exit", "close_trade", "Remember the exit of such a trade.", ("trade_id",)),
    OperationCommand("remember fact", "remember", "Remember a fact about you.", ("fact",)),
    OperationCommand("remember belief", "state_belief", "State a belief.", ("sentence",)),
    OperationCommand("remember note", "append_note", "Add a note to the journal, learnings or notes.", ("kind", "text")),
    OperationCommand("decide", "record_decision", ""),
    # Own
    OperationCommand("agents list", "list_agents", "List the agents."),
    OperationCommand("agents figures", "get_my_deployments", "List the agents with their figures."),
    OperationCommand("agents show", "show_agent", "Show one agent and its status.", ("id",)),
    OperationCommand("agents create", "create_agent", "Create an agent of a skill.", ("id",)),
    OperationCommand("agents configure", "configure_agent", "Change how an agent is run.", ("agent",)),
    OperationCommand("agents config", "get_agent_config", "Show how an agent is run.", ("agent",)),
    OperationCommand("agents use-version", "use_skill_version", "Switch to another version of the skill.",
                     ("id", "skill_version")),
    OperationCommand("agents message", "send_message", "Send a message and wait for the answer.", ("text",)),
    OperationCommand("agents messages", "get_messages", "Show the messages of an agent."),
    OperationCommand("agents session", "get_session", "Show the state of Active Memory."),
    OperationCommand("agents reset", "reset_memory", "Start a new session."),
    OperationCommand("agents delete", "delete_agent", "Delete an agent and destroy its data.", ("id",)),
    OperationCommand("skills list", "list_skills", "List the skills."),
    OperationCommand("skills show", "show_skill", "Show one skill.", ("id",)),
    OperationCommand("skills create", "create_skill", "Create a skill, or its next version.", ("id",)),
    OperationCommand("skills performance", "get_skill_performance", "Show how a skill did over all agents.", ("skill_id",)),
    OperationCommand("skills propose", "set_strategy", "Propose the text of a strategy.", ("skill_id",)),
    OperationCommand("skills confirm", "confirm_strategy", "Confirm a proposed strategy.", ("card",)),
    OperationCommand("plans list", "check_active_plans", "List the plans, and which apply now."),
    OperationCommand("plans create", "create_trading_plan", "Create a plan: if the trigger holds, then the action."),
    OperationCommand("plans confirm", "confirm_plan", "Confirm a proposed plan.", ("plan_id",)),
    OperationCommand("plans cancel", "cancel_plan", "Cancel a plan.", ("plan_id",)),
    OperationCommand("docs list", "list_documents", "List the documents."),
    OperationCommand("docs show", "get_document", "Show a document, or some of its lines.", ("path",)),
    OperationCommand("docs health", "index_health", "Show the state of the index."),
    OperationCommand("docs pin", "pin_document", "Pin a document or section as a rule.", ("path",)),
    OperationCommand("docs unpin", "unpin_document", "Unpin it.", ("path",)),
    OperationCommand("docs pinned", "list_pinned", "List what is pinned."),
    OperationCommand("docs suggest", "suggest_pins", "List what looks like rules and is not pinned."),
    OperationCommand("docs notes", "list_notes", "List the notes that an agent wrote."),
    OperationCommand("docs propose", "propose_edit", "Propose a change of a document.", ("path",)),
    OperationCommand("docs proposal", "get_proposal", "Show one proposed edit with its diff.", ("proposal_id",)),
    OperationCommand("docs check", "verify_citation", "Check whether cited lines are unchanged.", ("path",)),
    OperationCommand("docs similar", "find_similar_reports", "Find backtest reports like this one, or by conditions.", ("path",)),
    OperationCommand("facts list", "list_facts", "List what is known about you."),
    OperationCommand("facts edit", "edit_fact", "Change the text, topic or skill of a fact.", ("fact_id",)),
    OperationCommand("facts promote", "promote_fact", "Say that a fact is so.", ("fact_id",)),
    OperationCommand("facts demote", "demote_fact", "Say that a fact is only a guess.", ("fact_id",)),
    OperationCommand("facts forget", "forget", "Archive a fact, or destroy it with --shred.", ("fact_id",)),
    OperationCommand("facts restore", "restore_fact", "Bring an archived fact back.", ("fact_id",)),
    OperationCommand("events record", "record_events", "Record events, or new facts about them."),
    OperationCommand("events reactions", "get_event_reactions", "Show how markets moved after such events."),
    OperationCommand("events imports", "list_event_imports", "List the imported calendars."),
    OperationCommand("events undo", "undo_event_import", "Undo an import of events.", ("batch",)),
    OperationCommand("cards list", "list_card_types", "List the card types."),
    OperationCommand("chats list", "list_chats", "List the chats with the coach."),
    OperationCommand("chats show", "get_chat", "Show a chat.", ("chat",)),
    OperationCommand("chats stop", "stop_chat", "Stop the answer that is being written.", ("chat",)),
    OperationCommand("chats delete", "delete_chat", "Destroy a chat for good.", ("chat",)),
    # Run
    OperationCommand("run", "run_agent", ""),
    OperationCommand("runs list", "list_runs", "List the runs of an agent."),
    OperationCommand("runs show", "get_run", "Show one run with its steps.", ("run",)),
)  # fmt: skip

# Operations whose command is written by hand.
BY_HAND: Mapping[str, str] = {
    "get_brief": "brief",
    "import_file": "import",
    "list_imports": "imports list",
    "undo_import": "imports undo",
    "diff_lessons": "lessons diff",
    "search_documents": "docs search",
    "reindex_documents": "docs index",
    "list_proposals": "docs proposals",
    "accept_proposal": "docs accept",
    "reject_proposal": "docs reject",
    "get_upcoming_events": "events list",
    "declare_card_type": "cards add",
    "start_chat": "chat",
    "send_chat": "chat",
}


@lru_cache(maxsize=1)
def _commands_by_operation() -> Mapping[str, str]:
    # `memtape trades` is `memtape trades list`.
    return {**{each.operation: each.path.removesuffix(" list") for each in COMMANDS}, **BY_HAND}


def command_of(operation: str) -> str:
    """The words after `memtape` that call an operation.

    >>> command_of("get_trades"), command_of("confirm_plan"), command_of("record_shown")
    ('trades', 'plans confirm', 'op record_shown')
    """
    return _commands_by_operation().get(operation, f"op {operation}")


# Words that people type for a command of another name.
OTHER_WORDS: Mapping[str, str] = {
    "today": "brief", "context": "brief", "prompt": "brief", "memory": "recall", "similar": "recall", "order": "check",
    "pretrade": "check", "stats": "performance", "statistics": "performance", "results": "performance", "report": "performance",
    "losers": "ask losses", "positions": "trades open", "history": "trades", "buy": "decide", "sell": "decide",
    "backtest": "sim", "simulate": "sim", "simulation": "sim", "web": "serve", "start": "serve", "dashboard": "serve",
    "stdio": "mcp", "claude": "connect claude-code", "setup": "init", "status": "doctor", "health": "doctor",
    "upgrade": "migrate", "update": "migrate", "audit": "verify", "prove": "verify", "save": "backup", "dump": "export",
    "calendar": "events", "strategies": "skills", "documents": "docs", "files": "docs", "version": "--version",
}  # fmt: skip


def nearest_commands(word: str, operations: frozenset[str] = frozenset()) -> list[str]:
    """The commands that may be meant by a word that is none: the one of the operation of that name, those that end in it,
    and those spelled alike.

    >>> nearest_commands("get-trades"), nearest_commands("trads"), nearest_commands("search"), nearest_commands("xyzzy")
    (['trades'], ['trades', 'trade'], ['docs search'], [])
    >>> nearest_commands("undo"), nearest_commands("today"), nearest_commands("status")
    (['imports undo', 'events undo'], ['brief'], ['doctor'])
    """
    if (operation := word.replace("-", "_")) in operations | _commands_by_operation().keys():
        return [command_of(operation)]
    if word.lower() in OTHER_WORDS:
        return [OTHER_WORDS[word.lower()]]
    alike = get_close_matches(word, [name for panel in PANELS.values() for name in panel], n=2, cutoff=0.7)
    paths = dict.fromkeys((*BY_HAND.values(), *(each.path for each in COMMANDS)))
    verbs = [path for path in paths if word == path.partition(" ")[2]]
    return (verbs + alike)[:3]


# `remember` and `forget` are ordinary words too, so only names of several words are replaced.
_OPERATION_NAME = re.compile(r"(?<![\w./-])([a-z]+(?:_[a-z]+)+)(?![\w./=-])( with detail\b)?")


def in_words_of_commands(text: str, operations: frozenset[str] = frozenset()) -> str:
    """A text that names operations, with the commands that call them; `operations` are those without a command of their own.

    >>> in_words_of_commands("List them with list_runs, or read known_at")
    'List them with memtape runs, or read known_at'
    >>> in_words_of_commands("get_strategy_performance with detail lists every hour")
    'memtape performance --detail lists every hour'
    """
    operations |= _commands_by_operation().keys()

    def command(found: re.Match[str]) -> str:
        return f"memtape {command_of(found[1])}{' --detail' if found[2] else ''}" if found[1] in operations else found[0]

    return _OPERATION_NAME.sub(command, text)
