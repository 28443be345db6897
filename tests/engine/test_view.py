"""A view is one transaction and one cutoff; stored rows and the log answer the same questions alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memtape.core.ledger.trade_page import SORT_FIELDS, TradePage
from memtape.core.memory.outcome_units import signal_of
from memtape.core.recall.evidence import rounded
from memtape.engine import AgentMemory, Memory
from memtape.engine.view.at_head import ViewAtHead
from memtape.engine.view.memories import RecallQuestion, recall_situation
from memtape.engine.view.outcomes import decision_outcomes
from memtape.engine.view.plans import plan_views
from memtape.engine.view.situation import current_situation
from memtape.engine.view.stored import StoredView
from memtape.engine.view.view import TradeFilter, View
from memtape.errors import Invalid
from memtape.store.cutoff import Cutoff
from tests.engine.counter import Counter
from tests.engine.desk_with_history import CLOCK, HOUR, START, desk_with_history

# ---- the contract: both kinds of view answer alike about the present head --------------------------------------------------

QUESTIONS: dict[str, Callable[[View], Any]] = {
    "all trades": lambda view: view.trades(),
    "open trades": lambda view: view.trades(TradeFilter(status="open")),
    "closed trades, oldest first": lambda view: view.trades(TradeFilter(status="closed", newest=False)),
    "a page of three": lambda view: view.trades(TradeFilter(limit=3)),
    "short trades": lambda view: view.trades(TradeFilter(side="short")),
    **{
        f"a page by {sort}, {'down' if down else 'up'}": lambda view, sort=sort, down=down: [
            trade.id for trade in view.trade_page(TradePage(sort=sort, descending=down, limit=4, offset=3))
        ]
        for sort in SORT_FIELDS
        for down in (True, False)
    },
    "a page of what won": lambda view: view.trade_page(TradePage(outcome="win", sort="net", limit=3)),
    "a page of one symbol": lambda view: view.trade_page(TradePage(symbol="BTC", limit=3)),
    **{
        f"a page of {name}": lambda view, wanted=wanted: [trade.id for trade in view.trade_page(TradePage(**wanted, limit=4))]
        for name, wanted in {
            "losses": {"outcome": "loss"}, "scratches": {"outcome": "scratch"}, "unknown outcomes": {"outcome": "unknown"},
            "open outcomes": {"outcome": "open"}, "one regime": {"regime": "ranging"}, "one session": {"session": "asia"},
            "one volatility": {"volatility_regime": "normal"}, "one tag": {"tag": "breakout"}, "one strategy": {"strategy": "breakout"},
            "the afternoon, by R": {"since": START + 5 * HOUR, "until": START + 9 * HOUR, "sort": "r"},
            "exits of the afternoon": {"date": "exit", "since": START + 5 * HOUR},
            "what is behind an entry": {"after": (START + 6 * HOUR, "0")},
        }.items()
    },
    "a page of what is open": lambda view: view.trade_page(TradePage(status="open")),
    "each trade by its id": lambda view: [view.trade(trade.id) for trade in view.trades()],
    "a trade that is not there": lambda view: view.trade("0123456789abcdef"),
    "trades closed in a day": lambda view: view.closed_between(START, START + timedelta(days=1)),
    "closed trades by id": lambda view: view.closed_trades({t.id for t in view.trades()}),
    "trades that decisions entered": lambda view: view.trades_entered_by({"d1", "d4", "d11", "nobody"}),
    "what bars show of decisions": lambda view: [(row.id, row.outcome) for row in view.outcomes()],
    "what bars show of some": lambda view: [(row.id, row.outcome) for row in view.outcomes(ids={"d0", "d9"})],
    "the last three decisions on bars": lambda view: [row.id for row in view.outcomes(symbol="BTC", limit=3)],
    "decisions of the afternoon on bars": lambda view: [row.id for row in view.outcomes(since=START + 5 * HOUR)],
    "what became of decisions": lambda view: decision_outcomes(view),
    "what became of one": lambda view: decision_outcomes(view, ["d3"]),
    "discrepancies": lambda view: view.discrepancies(100),
    "since when the broker is heard": lambda view: view.verified_from,
    "whether claims count": lambda view: view.claims_count,
    "episodes": lambda view: sorted(view.episodes(), key=lambda e: e.id),
    "each episode by its id": lambda view: [view.episode(e.id) for e in sorted(view.episodes(), key=lambda e: e.id)],
    "the episodes of some signals": lambda view: sorted(
        view.episodes_of_signals({signal_of(e) for e in sorted(view.episodes(), key=lambda e: e.id)[1::2]} | {("BTC", "long", 0)}), key=lambda e: e.id
    ),
    "the latest five episodes": lambda view: [e.id for e in view.latest_episodes(5)],
    "the latest episodes of one symbol": lambda view: [e.id for e in view.latest_episodes(5, symbol="BTC")],
    "what an answer rests on": lambda view: view.basis(),
    "beliefs": lambda view: rounded([[b.id, b.status, b.probability] for b in sorted(view.beliefs(), key=lambda b: b.id)]),
    "the affect state": lambda view: view.affect_step(),
    "the last steps of affect": lambda view: view.affect_history(10),
    "the number of its steps": lambda view: view.affect_step_count(),
    "plans and their states": lambda view: sorted(view.plan_states(), key=lambda plan: plan.id),
    "plans now": lambda view: plan_views(view, "BTC"),
    "the situation": lambda view: current_situation(view, "BTC"),
    "recall": lambda view: [(r.id, r.score) for r in recall_situation(view, RecallQuestion(symbol="BTC"))[0].ranked],
    "warnings": lambda view: [w.id for w in recall_situation(view, RecallQuestion(symbol="BTC"))[0].warnings],
    "evidence": lambda view: rounded(recall_situation(view, RecallQuestion(symbol="BTC"))[0].evidence),
    "known labels and symbols": lambda view: view.known_values(),
    "the unit of money": lambda view: view.money_unit(),
    "held symbols": lambda view: sorted(view.held_symbols()),
    "labels of entries": lambda view: dict(view.entry_labels([trade.id for trade in view.trades()])),
    "the calendar": lambda view: [item.key for item in view.owner_items("event")],
}


@contextmanager
def both_views(memory: Memory, hours: float) -> Iterator[tuple[View, View]]:
    agent = memory.agent("desk")
    with agent.resources.reading(agent.agent.id) as tables:
        cutoff = Cutoff(START + hours * HOUR, tables.head().seq)
        stored = StoredView(tables, agent.agent, cutoff, agent.resources.columns)
        yield stored, ViewAtHead(tables, agent.agent, cutoff)
        stored.release()


MOMENTS = {"at the start": 0.5, "in between": 7.25, "after a late fill": 13, "now": 1000}


def test_stored_rows_and_the_log_answer_the_same_questions_alike(memory):
    desk_with_history(memory)
    for moment, hours in MOMENTS.items():
        with both_views(memory, hours) as (stored, at_head):
            for question, ask in QUESTIONS.items():
                assert ask(stored) == ask(at_head), f"{question}, {moment}"


def test_every_primitive_is_asked_in_the_contract():
    primitives = set(View.__abstractmethods__) - {"at", "release"}
    text = Path(__file__).read_text(encoding="utf-8")
    asked = {name for name in primitives if f"view.{name}" in text}
    # These two are asked through the functions of plans and of the situation.
    assert primitives - asked <= {"recall", "open_position_count"}


def test_a_head_that_is_not_there_is_refused(memory):
    agent = desk_with_history(memory, trades=1)
    with pytest.raises(Invalid, match="head"), agent.view(head=10_000):
        pass


# ---- one transaction -------------------------------------------------------------------------------------------------------


READS: dict[str, Callable[[AgentMemory], Any]] = {
    "a brief": lambda agent: agent.briefs.make(symbol="BTC"),
    "a recall": lambda agent: agent.memories.recall({"regime": "ranging"}, symbol="BTC"),
    "a check before an order": lambda agent: agent.memories.check_order(symbol="BTC", side="long"),
    "a past brief": lambda agent: agent.briefs.make(symbol="BTC", as_of=START + 9 * HOUR),
    "a brief of an earlier head": lambda agent: agent.briefs.make(symbol="BTC", head=20),
    "a page of trades": lambda agent: agent.ledger.trades(limit=25),
    "the plans": lambda agent: agent.plans.all(symbol="BTC"),
    "the lessons": lambda agent: agent.lessons.active(),
    "the affect state": lambda agent: agent.memories.affect(),
    "performance": lambda agent: agent.ledger.performance(),
    "habits": lambda agent: agent.memories.behaviour(),
    "outcomes of decisions": lambda agent: agent.outcomes.list(),
}


def test_each_answer_is_read_in_one_transaction(memory, monkeypatch):
    agent = desk_with_history(memory)
    opened = {}
    for name, read in READS.items():
        with monkeypatch.context() as patched:
            counter = Counter(agent.resources, patched)
            read(agent)
            opened[name] = counter.transactions
    assert opened == dict.fromkeys(READS, 1)


def test_a_brief_has_the_clock_of_its_host(memory):
    agent = desk_with_history(memory, trades=1)
    assert agent.briefs.make(symbol="BTC").question.as_of == CLOCK
