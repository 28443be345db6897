"""Ticks on which nothing happens are written together. Rows and receipts are those of one transaction for each tick."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from memtape.compose import open_database
from memtape.core.events import PlanFired
from memtape.core.fills import Fill
from memtape.core.ledger.rounds import KnownBar
from memtape.core.observed import Bar, Decision, HeldPosition, Tick
from memtape.engine import AgentMemory, Memory
from memtape.engine.write import writer
from memtape.engine.write.observed_json import observed_json, quiet_tick_json
from memtape.plugs.clock import FixedClock
from memtape.store.schema import TABLES
from tests.effort import examples

D = Decimal
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
START = datetime(2026, 3, 2, tzinfo=UTC)
HOUR = timedelta(hours=1)


class Account:
    """Ticks of an account that mostly just goes on; now and then something happens, or arrives in disorder."""

    def __init__(self, seed: int, disorder: float, *, long_bars: bool = True) -> None:
        self.chance, self.disorder, self.long_bars = Random(seed), disorder, long_bars
        self.symbols = ["BTC", "ETH"][: 1 + seed % 2]
        self.price = dict.fromkeys(self.symbols, D(100))
        self.held: dict[str, tuple[Decimal, Decimal]] = {}  # quantity and entry price
        self.late: list[Bar] = []
        self.fills = self.orders = self.ordered = 0

    def ticks(self, n: int) -> list[Tick]:
        found: list[Tick] = []
        for hour in range(1, n + 1):
            tick = self.tick(START + hour * HOUR)
            if found and self.odd():
                # A tick comes again, or in the wrong order.
                found.append(self.chance.choice(found[-3:]))
            found.append(tick)
        return found

    def odd(self) -> bool:
        return self.chance.random() < self.disorder

    def tick(self, t: datetime) -> Tick:
        chance, bars, fills, decisions = self.chance, list[Bar](), list[Fill](), list[Decision]()
        for symbol in self.symbols:
            bars += self.bars(symbol, t)
            if chance.random() < 0.12:
                fills.append(self.fill(symbol, t))
            if chance.random() < 0.08:
                decisions.append(self.decision(symbol))
        if self.late and chance.random() < 0.5:
            bars.append(self.late.pop())
        shown = {s: (HeldPosition(qty=q, entry_px=px, mark=self.price[s]),) for s, (q, px) in self.held.items()}
        if self.odd() and shown:
            symbol = next(iter(shown))
            change = {"qty": shown[symbol][0].qty * 2} if chance.random() < 0.5 else {"entry_px": self.price[symbol] * D("0.97")}
            shown[symbol] = (HeldPosition(**{"qty": shown[symbol][0].qty, "entry_px": shown[symbol][0].entry_px} | change),)
        return Tick(
            id=f"t{t:%d%H}", t=t, positions=None if self.odd() else shown, marks=dict(self.price) if chance.random() < 0.8 else {},
            fills=tuple(fills), bars=tuple(bars), decision=tuple(decisions) or None,
            equity=None if self.odd() else D(10_000) + D(chance.randint(-300, 300)),
            rates={self.symbols[0]: D("1.1")} if self.odd() else None,
        )  # fmt: skip

    def bars(self, symbol: str, t: datetime) -> list[Bar]:
        chance, o = self.chance, self.price[symbol]
        c = self.price[symbol] = (o * D(1 + chance.gauss(0, 0.01))).quantize(D("0.01")) if not self.odd() else o * D(chance.choice((12, "0.05")))
        own = [Bar(symbol=symbol, t0=t - HOUR, t1=t, o=o, h=max(o, c) + 1, l=min(o, c) - D("0.5"), c=c)]
        if self.long_bars and t.hour % 4 == 0 and chance.random() < 0.5:
            own.append(Bar(symbol=symbol, t0=t - 4 * HOUR, t1=t, o=o, h=max(o, c) + 2, l=min(o, c) - D("0.5"), c=c))
        if self.odd():
            self.late += own
            return []
        return own

    def fill(self, symbol: str, t: datetime) -> Fill:
        self.fills += 1
        side, qty, px = self.chance.choice(("buy", "sell")), D(self.chance.randint(1, 3)), self.price[symbol]
        before = self.held.get(symbol, (D(0), D(0)))
        now = before[0] + (qty if side == "buy" else -qty)
        self.held.pop(symbol, None)
        if now:
            self.held[symbol] = now, px if before[0] * now <= 0 else before[1]
        at = t - (timedelta(hours=5) if self.odd() else timedelta(minutes=30))
        return Fill(id=f"f{self.fills}", t=at, symbol=symbol, side=side, qty=qty, px=px, fee=D("0.1"), order_id=f"o{self.fills}")

    def decision(self, symbol: str) -> Decision:
        px, passes = self.price[symbol], self.chance.random() < 0.5
        if self.chance.random() < 0.5:
            # Mere words, with an order that the next fill belongs to, or an earlier one.
            self.orders += 1
            named, taken = self.fills if self.odd() else self.fills + 1, self.ordered
            self.ordered = named
            ids = (f"x{self.orders}",) if named == taken and not self.odd() else (f"o{named}", f"x{self.orders}")
            return Decision(symbol=symbol, action="buy", reason=f"Words {self.orders}", order_ids=ids)
        return Decision(
            symbol=symbol, action="no_trade" if passes else "buy", side="long", stop=px * D("0.98"), target=px * D("1.02"),
            frame="1h", reason="A level",
        )  # fmt: skip


@contextmanager
def agent_of(url: str, owner: str) -> Iterator[AgentMemory]:
    with Memory(open_database(url), owner, FixedClock(NOON)) as memory:
        memory.create_skill("s")
        memory.create_agent("a", skill="s", mode="sim")
        yield memory.agent("a")


def rows_of(agent: AgentMemory) -> dict[str, list[Any]]:
    with agent.resources.reading("a") as tables:
        return {table: [{k: v for k, v in row.items() if k != "owner"} for row in tables.rows(table)] for table in TABLES}


def assert_recorded_alike(url: str, ticks: list[Tick], size: int) -> dict[str, list[Any]]:
    found = []
    for owner, many in (("one", False), ("many", True)):
        with agent_of(url, owner) as agent:
            if many:
                receipts = [receipt for n in range(0, len(ticks), size) for receipt in agent.observe_ticks(ticks[n : n + size])]
            else:
                receipts = [agent.observe(tick) for tick in ticks]
            found.append((receipts, rows_of(agent)))
    (receipts, rows), (together, rows_together) = found
    for table in rows:
        assert rows[table] == rows_together[table], table
    assert receipts == together
    return rows


@settings(max_examples=examples(12, 400))
@given(seed=st.integers(0, 100_000), size=st.integers(2, 80), disorder=st.sampled_from([0.0, 0.01, 0.06]))
def test_any_account_is_recorded_alike_tick_by_tick_and_together(seed: int, size: int, disorder: float) -> None:
    assert_recorded_alike(":memory:", Account(seed, disorder).ticks(70), size)


def test_both_stores_record_a_disordered_account_alike_tick_by_tick_and_together(store_url: str) -> None:
    rows = assert_recorded_alike(store_url, Account(7, 0.03).ticks(120), 50)
    assert len(rows["trades"]) > 3 and rows["outcomes"] and rows["discrepancies"] and rows["positions"]


def test_most_ticks_of_a_calm_account_are_written_together(monkeypatch: Any) -> None:
    one_by_one: list[str] = []
    ordinary = writer.Writer.one

    def noted(self: writer.Writer, arrival: writer.Arrival) -> writer.Receipt:
        assert isinstance(arrival.value, Tick)
        one_by_one.append(arrival.value.id)
        return ordinary(self, arrival)

    monkeypatch.setattr(writer.Writer, "one", noted)
    ticks = Account(5, 0.0, long_bars=False).ticks(100)
    with agent_of(":memory:", "o") as agent:
        agent.observe_ticks(ticks)
        assert agent.head().seq == 100
    assert one_by_one == [ticks[0].id, *(tick.id for tick in ticks[1:] if tick.fills or any(d.stop for d in tick.decisions))]
    assert any(tick.decision and tick.id not in one_by_one for tick in ticks)


def test_plans_are_judged_at_every_tick() -> None:
    ticks, ends = Account(4, 0.0).ticks(30), []
    for many in (False, True):
        with agent_of(":memory:", "o") as agent:
            agent.observe(ticks[0])
            agent.plans.create({"trigger": {"field": "hour_utc", "op": "ge", "value": 10}, "action": "skip_trade", "reasoning": "A price"})
            receipts = agent.observe_ticks(ticks[1:]) if many else [agent.observe(tick) for tick in ticks[1:]]
            ends.append((receipts, rows_of(agent)))
    assert ends[0] == ends[1]
    assert any(isinstance(event, PlanFired) for receipt in ends[0][0] for event in receipt.concluded)


prices = st.decimals("0.01", 10_000, places=4)
held = st.builds(HeldPosition, qty=prices, entry_px=prices | st.none(), mark=prices | st.none(), leg=st.sampled_from(["", 'L"1']), leverage=prices | st.none(), rate=prices | st.none())


@settings(max_examples=examples(60, 2_000))
@given(
    positions=st.none() | st.dictionaries(st.sampled_from(["BTC", "ÄTH"]), st.tuples(held)),
    marks=st.dictionaries(st.sampled_from(["BTC", "ÄTH"]), prices), equity=st.none() | prices | st.just(D(0)),
    rates=st.none() | st.dictionaries(st.just("BTC"), prices), bars=st.integers(0, 2),
)  # fmt: skip
def test_a_quiet_tick_is_written_like_any_other(positions: Any, marks: Any, equity: Any, rates: Any, bars: int) -> None:
    t, px = datetime(2026, 3, 2, 12, tzinfo=UTC), D(5)
    some = tuple(Bar(symbol=f"S{n}", t0=t - timedelta(hours=1), t1=t, o=px, h=px, l=px, c=px) for n in range(bars))
    tick = Tick(id='t"1', t=t, positions=positions, marks=marks, equity=equity, rates=rates, bars=some)
    for new in (some, some[:1]):
        known = [KnownBar(bar, t) for bar in new]
        assert quiet_tick_json(tick, known) == observed_json(tick, known)
