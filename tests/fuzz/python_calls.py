"""Calls of the Python surface itself: methods of `Memory` and of an agent, with spoiled names, kinds and whole values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from random import Random
from typing import Any

import memtape
from memtape.engine import Memory
from memtape.store.database import is_storable_text
from tests.fuzz.calls import AGENT, NOW, SPOILED

KINDS = ("tick", "fill", "trade", "equity", "flow", "decision", "bars", "claim", "closing", "funding", "instrument", "split")
OBSERVED: dict[str, dict[str, Any]] = {
    "tick": {"id": "k1", "t": NOW, "positions": {"BTC": {"qty": "1", "entry_px": "100"}}, "marks": {"BTC": "101"}, "equity": "1000",
             "fills": [{"id": "f9", "t": NOW, "symbol": "BTC", "side": "buy", "qty": "1", "px": "100"}], "bars": [], "cash_flows": []},
    "fill": {"id": "f1", "t": NOW, "symbol": "BTC", "side": "buy", "qty": "1", "px": "100", "fee": "0.1"},
    "trade": {"trade_id": "t1", "symbol": "BTC", "side": "long", "entry_at": "2026-06-01T07:00:00Z", "exit_at": NOW,
              "entry_price": "100", "exit_price": "103", "qty": "1", "stop": "98"},
    "equity": {"t": NOW, "equity": "1000"},
    "flow": {"id": "c1", "t": NOW, "amount": "10"},
    "decision": {"id": "d1", "t": NOW, "action": "buy", "symbol": "BTC", "side": "long", "reason": "range", "stop": "98"},
    "bars": {"bars": [{"symbol": "BTC", "t0": "2026-06-01T08:00:00Z", "t1": NOW, "o": "1", "h": "2", "l": "1", "c": "2"}]},
    "claim": {"trade_id": "c1", "symbol": "BTC", "side": "long", "entry_price": "100", "exit_price": "103", "stop": "98"},
    "closing": {"trade_id": "c1", "exit_price": "103"},
    "funding": {"id": "u1", "t": NOW, "symbol": "BTC", "amount": "1"},
    "instrument": {"symbol": "BTC", "multiplier": "10"},
    "split": {"symbol": "BTC", "t": NOW, "ratio": "2"},
}  # fmt: skip
PythonCall = tuple[str, Callable[[Memory], object]]


def python_calls(seed: int) -> Iterator[PythonCall]:
    """Yields a description and a call, without end."""
    random = Random(seed)
    while True:
        yield _observed(random)
        yield _observed(random)
        yield _named(random)


def _bad(random: Random) -> Any:
    return random.choice(SPOILED)


def _observed(random: Random) -> PythonCall:
    kind = random.choice(KINDS)
    value: Any = dict(OBSERVED[kind])
    for _ in range(random.choice((0, 1, 1, 2))):
        value[random.choice([*value, "unknown"])] = _bad(random)
    if random.random() < 0.1:
        value = _bad(random)
    said: Any = _bad(random) if random.random() < 0.15 else kind
    backfill = random.random() < 0.5
    return f"observe({ascii(value)[:400]}, kind={ascii(said)[:80]})", lambda memory: memory.agent(AGENT).observe(
        value, kind=said, backfill=backfill
    )


def _named(random: Random) -> PythonCall:
    bad, other = _bad(random), _bad(random)
    calls: dict[str, Callable[[Memory], object]] = {
        "agent": lambda memory: memory.agent(bad),
        "agent_for_writing": lambda memory: memory.agent_for_writing(bad),
        "create_skill": lambda memory: memory.create_skill(bad),
        "create_skill.strategy": lambda memory: memory.create_skill("swing", strategy=bad),
        "create_skill.avoid": lambda memory: memory.create_skill("swing", avoid=bad),
        "create_skill.limits": lambda memory: memory.create_skill("swing", limits=bad),
        "create_agent": lambda memory: memory.create_agent(bad, skill="breakout"),
        "create_agent.mode": lambda memory: memory.create_agent("other", skill="breakout", mode=bad),
        "create_agent.skill": lambda memory: memory.create_agent("other", skill=bad),
        "create_agent.settings": lambda memory: memory.create_agent("other", skill="breakout", settings={"starting_equity": bad}),
        "create_agent.all_settings": lambda memory: memory.create_agent("other", skill="breakout", settings=bad),
        "skill": lambda memory: memory.skill(bad),
        "use_skill_version": lambda memory: memory.use_skill_version(AGENT, bad),
        "delete_agent": lambda memory: memory.delete_agent(bad, other),
        "record_events": lambda memory: memory.record_events([{"id": "e", "t": bad, "title": other}]),
        "record_events.whole": lambda memory: memory.record_events(bad),
        "remember_trade": lambda memory: memory.agent(AGENT).remember_trade(bad),
        "close_trade": lambda memory: memory.agent(AGENT).close_trade(bad),
        "observe_ticks": lambda memory: memory.agent(AGENT).observe_ticks([bad]),
        "performance": lambda memory: memory.agent(AGENT).ledger.performance(as_of=bad),
        "losses": lambda memory: memory.agent(AGENT).ledger.losses(head=bad),
        "brief": lambda memory: memory.agent(AGENT).briefs.make(symbol=bad, as_of=datetime(2026, 6, 1, tzinfo=UTC)),
        "brief.situation": lambda memory: memory.agent(AGENT).briefs.make(bad),
        "record_shown": lambda memory: memory.agent(AGENT).briefs.record_shown(bad),
        "trades.limit": lambda memory: memory.agent(AGENT).ledger.trades(limit=bad),
        "performance.symbol": lambda memory: memory.agent(AGENT).ledger.performance(symbol=bad),
        "recall.limit": lambda memory: memory.agent(AGENT).memories.recall({}, limit=bad),
        "configure_agent": lambda memory: memory.configure_agent(AGENT, bad),
        "declare_card_type": lambda memory: memory.declare_card_type(bad),
        "state_belief": lambda memory: memory.agent(AGENT).memories.state_belief(bad),
        "create_plan": lambda memory: memory.agent(AGENT).plans.create(bad),
        "correct": lambda memory: memory.agent(AGENT).memories.correct(other, bad, "mistake"),
        "correct.reason": lambda memory: memory.agent(AGENT).memories.correct("x", {"pnl_r": bad}, other),
        "forget": lambda memory: memory.agent(AGENT).memories.forget(bad),
        "import": lambda memory: memory.agent(AGENT).imports.commit(bad, {"file": "a.csv"}),
        "import.source": lambda memory: memory.agent(AGENT).imports.commit([], bad),
        "import.file": lambda memory: memory.agent(AGENT).imports.commit([], {"file": bad}),
        "append_note": lambda memory: memory.agent(AGENT).journal.append("note", bad, run="r"),
        "append_note.kind": lambda memory: memory.agent(AGENT).journal.append(bad, "held", run="r", path=other),
        "propose_edit": lambda memory: memory.agent(AGENT).proposals.propose(bad, text=other, reason="clearer"),
        "propose_edit.new": lambda memory: memory.agent(AGENT).proposals.propose("a.md", old=bad, new=other, reason="clearer"),
        "read_document": lambda memory: memory.agent(AGENT).documents.read(bad, other),
        "search_documents": lambda memory: memory.agent(AGENT).documents.search(bad),
        # Any other text is the path of a store.
        "open": lambda memory: None if bad is None or (isinstance(bad, str) and is_storable_text(bad)) else memtape.open(bad),
    }
    name = random.choice(sorted(calls))
    return f"{name}({ascii(bad)[:200]}, {ascii(other)[:80]})", calls[name]
