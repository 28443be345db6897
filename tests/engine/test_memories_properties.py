"""Memories are a function of what was recorded and when it was known: whatever the order, the batch, or what came later."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from memtape.core.observed import READERS, Observed
from memtape.core.recall.evidence import rounded
from memtape.core.values import read
from memtape.engine import Memory
from memtape.engine.proof.audit import rebuild_store, verify_store
from tests.desk import given_agent, given_memory, projections
from tests.effort import examples

START = datetime(2026, 1, 5, tzinfo=UTC)
LEARNED = ("trades", "episodes", "affect", "outcomes")


def at(minutes: int) -> datetime:
    return START + timedelta(minutes=minutes)


prices = st.integers(90, 110)
minutes = st.integers(0, 3000)
situations = st.fixed_dictionaries(
    {},
    optional={"regime": st.sampled_from(["ranging", "trending_up"]), "session": st.sampled_from(["london", "asia"]),
              "atr_d1": st.sampled_from([2.0, 3.0]), "price": st.sampled_from([99.0, 101.0])},
)  # fmt: skip


@st.composite
def trades(draw: Any, kind: str) -> tuple[str, dict[str, Any]]:
    entry, hold = draw(minutes), draw(st.integers(0, 600))
    entry_price, exit_price = draw(prices), draw(prices)
    key = draw(st.integers(0, 10_000))
    body: dict[str, Any] = {
        "trade_id": f"{kind}{key}", "symbol": draw(st.sampled_from(["XAU", "BTC"])), "side": draw(st.sampled_from(["long", "short"])),
        "entry_at": at(entry), "exit_at": at(entry + hold), "entry_price": entry_price, "exit_price": exit_price, "qty": 2,
        "situation": draw(situations),
    }  # fmt: skip
    if draw(st.booleans()):
        body["stop"] = entry_price - 2 if body["side"] == "long" else entry_price + 2
    return kind, body


plans = st.fixed_dictionaries({}, optional={"frame": st.sampled_from(["30m", "1h", "4h"]), "expiry_bars": st.integers(1, 5)})


@st.composite
def not_taken(draw: Any) -> tuple[str, dict[str, Any]]:
    body = {"id": f"d{draw(st.integers(0, 10_000))}", "t": at(draw(minutes)), "symbol": draw(st.sampled_from(["XAU", "BTC"])),
            "action": "no_trade", "side": "long", "stop": 97, "target": 104, "situation": draw(situations),
            **draw(plans)}  # fmt: skip
    return "decision", body


@st.composite
def decided(draw: Any) -> tuple[str, dict[str, Any]]:
    """A decision to trade, at the market or at a limit, with or without a target."""
    side = draw(st.sampled_from([1, -1]))
    body = {"id": f"e{draw(st.integers(0, 10_000))}", "t": at(draw(minutes)), "symbol": draw(st.sampled_from(["XAU", "BTC"])),
            "action": "buy" if side > 0 else "sell", "side": "long" if side > 0 else "short", "stop": 100 - 4 * side,
            **draw(plans), **draw(st.sampled_from([{}, {"entry_price": 100}, {"target": 100 + 3 * side}]))}  # fmt: skip
    return "decision", body


@st.composite
def bars(draw: Any) -> tuple[str, dict[str, Any]]:
    # Hours, and halves of hours that may together be an hour.
    length = draw(st.sampled_from([60, 60, 30]))
    first, symbol = draw(st.integers(0, 45 * 60 // length)), draw(st.sampled_from(["XAU", "BTC"]))
    rows = []
    for n in range(draw(st.integers(1, 12))):
        low, high = sorted((draw(prices), draw(prices)))
        t0 = at(length * (first + n))
        rows.append({"symbol": symbol, "t0": t0, "t1": t0 + timedelta(minutes=length), "o": low, "h": high, "l": low, "c": high})
    return "bars", {"bars": rows}


marks = st.builds(lambda m, e: ("equity", {"t": at(m), "equity": e}), minutes, st.integers(5000, 15000))
flows = st.builds(
    lambda m, n, usd: ("flow", {"id": f"c{n}", "t": at(m), "usd": usd}), minutes, st.integers(0, 999), st.integers(-900, 900)
)
histories = st.lists(
    st.one_of(trades("trade"), trades("claim"), not_taken(), decided(), bars(), marks, flows), min_size=1, max_size=14
)


def unlike(history: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, dict[str, Any]]]:
    """Each key once: a second delivery under the same key is the first, by whatever comes first."""
    seen: set[object] = set()
    found = []
    for kind, body in history:
        keys = [(kind, b["symbol"], b["t0"], b["t1"]) for b in body["bars"]] if kind == "bars" else [
            (kind, body.get("trade_id") or body.get("id") or body.get("t"))
        ]  # fmt: skip
        if not seen.intersection(keys):
            found.append((kind, body))
        seen.update(keys)
    return found


def told(history: list[tuple[str, dict[str, Any]]]) -> Any:
    memory = given_memory()
    agent = given_agent(memory)
    for kind, body in history:
        agent.observe(body, kind=kind)
    return agent


def learned(agent: Any) -> dict[str, Any]:
    found = projections(Memory.of(agent.resources))
    return {table: found[table] for table in LEARNED}


@given(histories, st.randoms(use_true_random=False))
def test_memories_are_the_same_in_whatever_order_a_history_is_told(history, chance):
    history = unlike(history)
    shuffled = list(history)
    chance.shuffle(shuffled)
    one, other = told(history), told(shuffled)
    assert learned(one) == learned(other)
    audit = verify_store(Memory.of(other.resources))
    assert audit.ok, audit.problems[0]


@given(histories)
def test_row_by_row_and_in_one_batch_give_the_same_memories(history):
    history = [(kind, body) for kind, body in unlike(history) if kind != "bars"]
    one = told(history)
    whole = given_agent(given_memory())
    values: list[Observed] = [read(READERS[kind], body) for kind, body in history]
    whole.imports.commit(values, {"file": "all.csv"})
    assert learned(one) == learned(whole)
    assert verify_store(Memory.of(whole.resources)).ok


@given(histories)
@settings(max_examples=examples(30, 500))
def test_a_rebuild_gives_the_same_memories(history):
    agent = told(unlike(history))
    before = projections(Memory.of(agent.resources))
    rebuild_store(Memory.of(agent.resources))
    assert projections(Memory.of(agent.resources)) == before


def known_at(kind: str, body: dict[str, Any]) -> datetime:
    if kind == "bars":
        return max(bar["t1"] for bar in body["bars"])
    return body.get("exit_at") or body["t"]


@given(histories, st.integers(0, 4000))
def test_what_memory_says_as_of_a_moment_does_not_depend_on_what_came_later(history, minute):
    history = unlike(history)
    moment = at(minute)
    cut = [(kind, body if kind != "bars" else {"bars": [b for b in body["bars"] if b["t1"] <= moment]}) for kind, body in history]
    cut = [(kind, body) for kind, body in cut if kind != "bars" or body["bars"]]
    before = [(kind, body) for kind, body in cut if known_at(kind, body) <= moment]
    whole, then = told(history), told(before)
    asked = {"regime": "ranging", "session": "london", "atr_d1": 2.0}
    for profile in ("owm", "owm-literal", "balanced"):
        one = whole.memories.recall(asked, as_of=moment, profile=profile, limit=20)
        other = then.memories.recall(asked, as_of=moment, profile=profile, limit=20)
        assert [(r.id, r.score) for r in one[0].ranked] == [(r.id, r.score) for r in other[0].ranked]
        assert [(w.id, w.severity) for w in one[0].warnings] == [(w.id, w.severity) for w in other[0].warnings]
        assert one[0].evidence == other[0].evidence
    assert whole.memories.affect(as_of=moment) == then.memories.affect(as_of=moment)
    assert whole.memories.beliefs(as_of=moment)[0] == then.memories.beliefs(as_of=moment)[0]
    assert whole.memories.behaviour(as_of=moment)[0] == then.memories.behaviour(as_of=moment)[0]


@given(histories)
@settings(max_examples=examples(30, 500))
def test_as_of_a_head_memory_says_what_it_said_when_the_log_stood_there(history):
    agent = given_agent(given_memory())
    asked = {"regime": "ranging", "session": "london"}
    end = at(10_000)
    said = []
    for kind, body in unlike(history):
        agent.observe(body, kind=kind)
        found, _, _ = agent.memories.recall(asked, as_of=end, limit=20)
        said.append(
            (
                agent.head().seq,
                [(r.id, r.score) for r in found.ranked],
                rounded(asdict(found.evidence)),
                agent.memories.affect(as_of=end),
            )
        )
    for seq, ranked, evidence, mood in said[-3:]:
        found, _, _ = agent.memories.recall(asked, as_of=end, limit=20, head=seq)
        assert [(r.id, r.score) for r in found.ranked] == ranked
        assert rounded(asdict(found.evidence)) == evidence
        assert agent.memories.affect(as_of=end, head=seq) == mood


# ---- imports, taken back and brought again --------------------------------------------------------------------------------


@st.composite
def ticks(draw: Any) -> tuple[str, dict[str, Any]]:
    minute, symbol = draw(minutes), draw(st.sampled_from(["XAU", "BTC"]))
    tick: dict[str, Any] = {"id": f"t{minute}", "t": at(minute), "marks": {symbol: draw(prices)} if draw(st.booleans()) else {}}
    if draw(st.booleans()):
        tick["positions"] = draw(st.sampled_from([{}, {symbol: [{"qty": "1", "entry_px": "100"}]}]))
    if draw(st.booleans()):
        side = draw(st.sampled_from(["buy", "sell"]))
        tick["fills"] = [
            {"id": f"f{minute}", "t": at(max(minute - 1, 0)), "symbol": symbol, "side": side, "qty": 1, "px": draw(prices)}
        ]
    return "tick", tick


observed = st.one_of(trades("trade"), trades("claim"), not_taken(), decided(), bars(), marks, flows, ticks())
followed = not_taken().map(lambda told: (told[0], {**told[1], "situation": {"price": 100.0}}))
files = st.builds(lambda some, one: unlike([*some, one]), st.lists(observed, max_size=3), followed)
seen = st.tuples(st.just("observe"), observed)
deeds = st.one_of(seen, seen, *(st.tuples(st.just(deed), st.integers(0, 3)) for deed in ("undo", "again")))
taken_back = st.builds(  # something is always taken back before the end
    lambda before, file, late, after: [*before, ("import", file), ("undo", 0), ("observe", late), *after],
    st.lists(seen, max_size=4), files, bars(), st.lists(deeds, max_size=8),
)  # fmt: skip


def done(agent: Any, deeds: list[tuple[str, Any]]) -> None:
    """Observations, imports, imports taken back (the n-th of them), and files brought again."""
    brought: list[list[Observed]] = []
    batches: list[str] = []
    for deed, what in deeds:
        if deed == "observe":
            agent.observe(what[1], kind=what[0], backfill=True)
        elif deed == "undo" and batches:
            agent.imports.undo(batches[what % len(batches)])
        elif deed == "import" or (deed == "again" and brought):
            file = [read(READERS[kind], body) for kind, body in what] if deed == "import" else brought[what % len(brought)]
            brought.append(file)
            imported = agent.imports.commit(file, {"file": f"{len(brought)}.csv"})
            batches += [imported.batch] if imported.new else []


@given(taken_back, st.sampled_from(["sim", "paper"]))
@settings(max_examples=examples(60, 2_000))
def test_whatever_is_taken_back_and_whatever_comes_after_it_memories_follow_from_the_log(deeds, mode):
    agent = given_agent(given_memory(), mode=mode)
    done(agent, deeds)
    audit, before = verify_store(Memory.of(agent.resources)), projections(Memory.of(agent.resources))
    assert audit.ok, audit.problems[0]
    rebuild_store(Memory.of(agent.resources))
    assert projections(Memory.of(agent.resources)) == before


def test_a_bar_that_comes_late_prices_the_trade_that_was_decided_against():
    memory = given_memory()
    agent = given_agent(memory)
    passed = {"id": "d0", "t": at(60), "symbol": "XAU", "action": "no_trade", "side": "long", "stop": 97, "target": 104}
    later = {"symbol": "XAU", "t0": at(60), "t1": at(120), "o": 90, "h": 90, "l": 90, "c": 90}
    earlier = {"symbol": "XAU", "t0": at(0), "t1": at(60), "o": 90, "h": 98, "l": 90, "c": 98}
    agent.observe(passed, kind="decision")
    agent.observe({"bars": [later]}, kind="bars")
    agent.observe({"bars": [earlier]}, kind="bars")
    assert verify_store(memory).problems == []
