"""The broker's cash and the memory's ledger are two accounts of one thing: they agree to the last digit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal, localcontext
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memtape
from memtape.core.observed import Bar, Decision
from memtape.core.values import MONEY
from memtape.sim.account import AccountView
from memtape.sim.funding import SteadyFunding
from memtape.sim.margin import Margin
from memtape.sim.paper import Order, PaperBroker
from memtape.sim.session import SimSession
from memtape.sim.strategies import OrderProposal
from memtape.sim.venue import PLAIN_VENUE, Venue
from tests.effort import examples

D = Decimal
DAYS, ORDERLY = 12, 3  # of the days, the last few are for leaving
VENUES = {
    "plain": PLAIN_VENUE,
    "margin": Venue(margin=Margin.at_leverage(D(20))),
    "steps": Venue(margin=Margin.at_leverage(D(10)), liquidation_steps=4, liquidation_fee_bps=D(80)),
    "funding": Venue(funding={"AAPL": SteadyFunding(rate=D("0.00037")), "MSFT": SteadyFunding(rate=D("-0.0011"), every=timedelta(hours=1))}),
    "thin": Venue(participation=D("0.05")),
    "all": Venue(
        margin=Margin.at_leverage(D(30)), liquidation_steps=3, participation=D("0.9"),
        funding={"AAPL": SteadyFunding(rate=D("0.0013")), "MSFT": SteadyFunding(rate=D("0.0007"))},
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Gambler:
    """Orders at random, the same for the same seed; then leaves."""

    seed: int
    leverage: int

    def propose(self, symbol: str, history: Mapping[str, Sequence[Bar]], account: AccountView, /) -> list[OrderProposal]:
        """Up to two orders."""
        chance, n, last = Random(f"{self.seed}/{symbol}/{len(history[symbol])}"), len(history[symbol]), history[symbol][-1].c
        held = account.position(symbol).qty
        if n > DAYS - ORDERLY:
            side = "sell" if held > 0 else "buy"
            return [_said(symbol, Order(symbol=symbol, side=side, qty=abs(held), reduce_only=True))] if held else []
        return [self._order(chance, symbol, last, account.equity) for _ in range(chance.choice([0, 1, 1, 2]))]

    def _order(self, chance: Random, symbol: str, last: Decimal, equity: Decimal) -> OrderProposal:
        side = chance.choice(["buy", "sell"])
        worth = max(equity, D(1)) * self.leverage * D(str(round(chance.uniform(0.05, 0.7), 3)))
        kind = chance.choice(["market", "market", "limit", "stop"])
        px = None if kind == "market" else (last * D(str(round(chance.gauss(1, 0.02), 4)))).quantize(D("0.01"))
        away, sign = (last * D(str(round(chance.uniform(0.005, 0.08), 4)))).quantize(D("0.01")), 1 if side == "buy" else -1
        near = last if px is None else px
        exits = {"stop": near - sign * away, "target": near + sign * 2 * away} if chance.random() < 0.6 else {}
        return _said(
            symbol, Order(symbol=symbol, side=side, qty=(worth / last).quantize(D("1e-8")), kind=kind, px=px, bars=2, **exits)
        )


def _said(symbol: str, order: Order) -> OrderProposal:
    action = "close" if order.reduce_only else order.side
    side = {"buy": "long", "sell": "short"}[order.side] if not order.reduce_only else None
    return OrderProposal(
        Decision(symbol=symbol, action=action, reason=f"{order.side} {order.kind}", side=side, stop=order.stop), (order,)
    )


def tape(words: Any, seed: int) -> Iterator[tuple[Bar, Bar]]:
    """Days of two symbols, with gaps and an occasional crash; the volume of the last ones is not known."""
    chance, last = Random(seed), {"AAPL": 100.0, "MSFT": 40.0}
    for n in range(DAYS):
        bars = []
        for symbol in last:
            o = last[symbol] * (1 + chance.gauss(0, 0.01) + (chance.random() < 0.05) * chance.choice([-0.2, 0.2]))
            path = [o * (1 + chance.gauss(0, 0.03)) for _ in range(3)]
            told = " ".join(f"{px:.2f}" for px in (o, max(o, *path), min(o, *path), path[-1]))
            bars.append(words.day(n, told, symbol, volume=None if n >= DAYS - ORDERLY else 200 * (1 + n % 3)))
            last[symbol] = path[-1]
        yield bars[0], bars[1]


def leave(broker: PaperBroker) -> None:
    """Closes by hand what the gambler could not."""
    for symbol, position in broker.positions().items():
        broker.place(Order(symbol=symbol, side="sell" if position.qty > 0 else "buy", qty=abs(position.qty), reduce_only=True))


@contextmanager
def an_agent() -> Iterator[Any]:
    with memtape.open(":memory:") as memory:
        memory.create_skill("gamble")
        memory.create_agent("main", skill="gamble", mode="sim")
        yield memory.agent("main")


@pytest.mark.parametrize("name", VENUES)
@settings(max_examples=examples(8, 120))
@given(seed=st.integers(0, 100_000))
def test_when_all_is_closed_the_cash_is_what_the_ledger_says_was_earned(seed: int, name: str, words: Any) -> None:
    venue = VENUES[name]
    broker = PaperBroker(D(10_000), fee_bps=D("7.5"), slippage_bps=D(3), venue=venue)
    leverage = int(venue.margin.leverage) if venue.margin else 2
    sitting = SimSession("main", Gambler(seed, leverage), broker, None)
    paid, calm = D(0), (words.day(DAYS, "90 90 90 90", volume=None), words.day(DAYS, "45 45 45 45", "MSFT", volume=None))
    with an_agent() as agent:
        for bars in [*tape(words, seed), calm]:
            if bars is calm:
                leave(broker)
            tick = sitting.tick(bars[0].t1, bars)
            receipt = agent.observe(tick)
            assert not [event for event in receipt.concluded if event.name == "discrepancy"]
            held = {
                trade.symbol: (trade.qty_open if trade.side == "long" else -trade.qty_open)
                for trade in agent.ledger.trades(status="open")
            }
            assert held == {symbol: h[0].qty for symbol, h in (tick.positions or {}).items()}
            paid += sum((payment.usd for payment in tick.funding), D(0))
        assert tick.positions == {}
        trades = agent.ledger.trades(status="closed")
    with localcontext(MONEY):
        net, funding, fees = (sum((getattr(t, c) for t in trades), D(0)) for c in ("net_pnl_usd", "funding_usd", "fees_usd"))
        assert abs(broker.cash - 10_000 - net) < D("1e-40"), "but for the last of the ledger's sixty digits"
    assert funding == paid
    assert fees >= 0 and all(trade.quality == "fills" for trade in trades)
    liquidated = [trade for trade in trades if trade.close_cause == "liquidation"]
    assert not liquidated or venue.on_margin


def test_the_gamblers_do_meet_every_end(words: Any) -> None:
    causes: dict[str, set[str]] = {}
    parts = 0
    for name, venue in VENUES.items():
        for seed in range(10):
            broker = PaperBroker(D(10_000), fee_bps=D("7.5"), slippage_bps=D(3), venue=venue)
            sitting = SimSession("main", Gambler(seed, int(venue.margin.leverage) if venue.margin else 2), broker, None)
            fills = [fill for bars in tape(words, seed) for fill in sitting.tick(bars[0].t1, bars).fills]
            causes.setdefault(name, set()).update(fill.trigger or "" for fill in fills)
            parts += len(fills) - len({fill.order_id for fill in fills})
    usual = {"market", "limit", "stop", "target", "stop_entry"}
    assert causes["plain"] == causes["thin"] == causes["funding"] == usual
    assert causes["margin"] == causes["steps"] == causes["all"] == usual | {"liquidation"}
    assert parts > 10, "orders filled in parts"
