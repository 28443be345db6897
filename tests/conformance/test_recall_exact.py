"""Recall through the store is exact: what columns answer equals a full scan by the plain reference, on both stores."""

from __future__ import annotations

import random
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from memtape.core.observed import ClosedTrade, Situation
from memtape.core.recall.evidence import rounded
from memtape.core.recall.reference import recall_reference as scan
from memtape.engine import AgentMemory
from memtape.store.memories import MemoryTables
from tests.desk import given_agent, given_memory
from tests.effort import examples

START = datetime(2024, 1, 1, tzinfo=UTC)


def a_trade(n: int, chance: random.Random) -> ClosedTrade:
    """The n-th trade: labels and levels with gaps, outcomes and times with many ties."""
    entry = START + timedelta(hours=n // 3)
    labels = {"regime": chance.choice([None, "ranging", "trending_up"]), "session": chance.choice(["london", "asia"]),
              "volatility_regime": chance.choice([None, "low", "high"]), "atr_d1": chance.choice([None, 20.0, 25.0, 40.0]),
              "atr_h1": chance.choice([None, 4.0, 6.0])}  # fmt: skip
    r = chance.choice([-3, -1, -1, -1, 0, 1, 1, 2, 5])
    return ClosedTrade(
        trade_id=f"x{n}", symbol=chance.choice(["XAU", "BTC", "EUR"]), side=chance.choice(["long", "short"]), entry_at=entry,
        exit_at=entry + timedelta(minutes=30), entry_price=Decimal(100), exit_price=Decimal(100), qty=Decimal(1), pnl=Decimal(2 * r),
        stop=Decimal(98) if chance.random() < 0.8 else None, strategy=chance.choice(["vb", "fade"]),
        situation=Situation(**{name: value for name, value in labels.items() if value is not None}),
    )  # fmt: skip


def the_past(agent: AgentMemory, rows: int) -> None:
    """Written, revised and corrected: not every version stands."""
    chance = random.Random(7)
    past = [a_trade(n, chance) for n in range(rows)]
    agent.imports.commit(past, {"file": "past.csv"})
    agent.imports.commit([replace(past[n], trade_id=f"late{n}", exit_at=past[n].exit_at + timedelta(days=1)) for n in range(0, rows, rows // 20)],
                       {"file": "late.csv"})  # fmt: skip
    ids = [e.id for e in agent.memories.episodes()]
    for n in range(0, len(ids), len(ids) // 10):
        agent.memories.correct(ids[n], {"regime": "volatile", "teach": "anomaly" if n % 3 else "learn"}, "looked again")
    agent.memories.forget(ids[5], "not ours")


def asked(chance: random.Random) -> tuple[dict[str, object], dict[str, object]]:
    situation = {"regime": chance.choice(["ranging", "trending_up", "volatile"]), "session": chance.choice(["london", "asia"]),
                 "atr_d1": chance.choice([18.0, 25.0, 60.0]), "drawdown_pct": chance.choice([0.0, 0.1])}  # fmt: skip
    how: dict[str, object] = {
        "symbol": chance.choice([None, "XAU", "BTC"]), "strategy": chance.choice([None, None, "vb"]), "limit": chance.choice([1, 5, 10, 40]),
        "profile": chance.choice(["owm", "owm", "owm-literal", "balanced"]),
        "as_of": START + timedelta(days=chance.choice([40, 90, 139, 150, 4000])),
    }  # fmt: skip
    return situation, how


def same_as_a_scan(agent: AgentMemory, queries: int) -> None:
    with agent.resources.reading(agent.agent.id) as tables:
        episodes = MemoryTables(tables).episodes()
    chance = random.Random(11)
    for _ in range(queries):
        situation, how = asked(chance)
        found, query, moment = agent.memories.recall(situation, **how)  # type: ignore[arg-type]
        beliefs, _ = agent.memories.beliefs(as_of=moment.as_of)
        wanted = scan(episodes, beliefs, [], query)
        assert [(i.id, i.score) for i in found.ranked] == [(i.id, i.score) for i in wanted.ranked], (situation, how)
        assert [(i.id, i.severity) for i in found.warnings] == [(i.id, i.severity) for i in wanted.warnings], (situation, how)
        assert rounded(asdict(found.evidence)) == rounded(asdict(wanted.evidence)), (situation, how)
        for item in found.ranked:
            c = item.components
            assert c.quality * c.similarity * c.recency * c.confidence * c.affect * c.sharpe == item.score


def test_recall_is_exact_on_every_store(memory):
    """Ten thousand trades are in tests/soak."""
    agent = given_agent(memory)
    the_past(agent, 600)
    same_as_a_scan(agent, 40)


@pytest.mark.soak
@pytest.mark.parametrize("what", ["regime", "loss"])
def test_neither_the_right_regime_nor_a_bad_loss_is_buried_under_thousands_of_newer_trades(what):
    agent = given_agent(given_memory())
    old = [a_trade(n, random.Random(n)) for n in range(5)]
    mine = Situation(regime="volatile", session="asia", volatility_regime="extreme", atr_d1=90.0)
    old = [
        replace(t, symbol="XAU", situation=mine, stop=Decimal(98), side="long", pnl=Decimal(4 if what == "regime" else -16))
        for t in old
    ]
    newer = [
        replace(a_trade(100 + n, random.Random(n)), symbol="XAU", pnl=Decimal(-1), stop=Decimal(98), side="long")
        for n in range(examples(2_000, 10_000))
    ]
    agent.imports.commit([*old, *newer], {"file": "all.csv"})
    found, _, _ = agent.memories.recall(
        {"regime": "volatile", "session": "asia", "volatility_regime": "extreme", "atr_d1": 90.0}, symbol="XAU"
    )
    ids = {e.id for e in agent.memories.episodes(as_of=START + timedelta(hours=30)) if e.regime == "volatile"}
    if what == "regime":
        assert {item.id for item in found.ranked[:5] if item.kind == "episodic"} <= ids and len(ids) == 5
    else:
        assert found.warnings[0].r == -8.0 and {item.id for item in found.warnings[:5]} == ids
