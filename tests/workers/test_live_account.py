"""One world, told twice: a simulation sees it tick by tick, a live agent through a venue's wire format. The memories agree.

The simulation goes first, with orders and fills named as the reader of the venue would name them. What it saw is then served
by a local server in Hyperliquid's format, and a live agent of the same name follows it into a store of its own: late, doubled
and disordered fills, failing answers, restarts, and a clock that is put forward and back.

What a memory says of a trade is then the same. What it says of the moment of entry (drawdown, losses in a row, regime, ATR) is
what could be known then, by law: it may differ only for a trade at whose entry the live agent knew something else than the
simulation did, because a fill was late or its clock was wrong. `Knowledge` measures exactly that.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, event, given, settings
from hypothesis import strategies as st

import memtape
from memtape.brokers.hyperliquid import INTERVALS, millis_of
from memtape.brokers.live import Hyperliquid, Unreachable
from memtape.core.codec import canonical, decimal_text, plain, time_text
from memtape.core.fills import Fill, Funding
from memtape.core.ledger.trades import trade_json
from memtape.core.memory.episodes import EPISODE_FIELDS, Episode
from memtape.core.observed import Bar, ClosedTrade, Decision, Situation, Tick
from memtape.engine import AgentMemory, Memory
from memtape.engine.proof.audit import verify_store
from memtape.errors import Invalid
from memtape.plugs.clock import FixedClock
from memtape.sim.paper import Order, Position
from memtape.sim.run import run_simulation
from memtape.sim.strategies import OrderProposal
from memtape.store.cutoff import EVERYTHING
from memtape.workers.live_account import follow_account
from tests.brokers.hyperliquid_server import ADDRESS, Server, Venue
from tests.effort import examples

START = datetime(2026, 6, 4, tzinfo=UTC)
D = Decimal
Draw = Callable[[st.SearchStrategy[Any]], Any]
# What an episode says of the moment of entry, from bars, equity and trades known by then. The outcome in R is among it where
# there was no stop and the ATR had to stand in for one.
OF_THE_MOMENT = frozenset({"risk_share", "stop_atr", "late_atr", "move_atr", "regime", "volatility_regime", "atr_d1", "atr_h1",
                           "atr_m5", "spread_as_atr_pct", "drawdown_pct", "consecutive_losses"})  # fmt: skip
IN_PROXY_R = frozenset({"pnl_r", "r_source", "mfe_r", "mae_r"})
OF_A_SHADOW = frozenset({"price", "target_r", "pnl_r"})  # it begins at the last price known, not at a fill
# When it was known, and the name of the venue: the paper broker of one, the live account of the other.
VERSIONED = frozenset({"known_from", "known_to", "source"})


# ---- the simulation ------------------------------------------------------------------------------------------------------


def walk(symbol: str, seed: int, n: int, length: timedelta) -> list[Bar]:
    """Bars of a random walk that is the same for the same seed."""
    chance, price, bars = Random(seed), D(100), []
    for k in range(n):
        o = price
        price = max(D(20), o + D(chance.randint(-40, 40)) / 10)
        h, low = max(o, price) + D(chance.randint(0, 15)) / 10, min(o, price) - D(chance.randint(0, 15)) / 10
        t0 = START + k * length
        bars.append(Bar(symbol=symbol, t0=t0, t1=t0 + length, o=o, h=h, l=low, c=price, v=D(chance.randint(1, 900))))
    return bars


class Whims:
    """A strategy that does whatever is drawn: enters with stop and target, adds, takes off, turns, passes."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw

    def __call__(self, history: Sequence[Bar], position: Position, equity: Decimal) -> list[OrderProposal]:
        bar, symbol = history[-1], history[-1].symbol
        deed = self.draw(st.sampled_from(["", "enter", "leave", "turn", "add", "enter bare", "enter limit", "pass", "", "again"]))
        if not deed or (position.working and deed != "leave"):
            return []
        side = "sell" if position.qty > 0 else "buy" if position.qty < 0 else self.draw(st.sampled_from(["buy", "sell"]))
        sign = 1 if side == "buy" else -1
        size = self.draw(st.sampled_from([D("0.5"), D(1), D("2.25")]))
        away = D(self.draw(st.integers(2, 9)))
        stop, target = bar.c - sign * away, bar.c + sign * away * self.draw(st.integers(1, 2))
        words = {"symbol": symbol, "reason": f"{deed} at {decimal_text(bar.c)}", "situation": self._situation(bar)}
        entry = Decision(**words, side="long" if sign > 0 else "short", stop=stop, target=target, qty=size,
                         confidence=D(self.draw(st.integers(0, 10))) / 10)  # fmt: skip
        order = Order(symbol=symbol, side=side, qty=size)
        if deed == "pass":
            return [OrderProposal(replace(entry, action="no_trade", qty=None))]
        if not position.qty:
            if deed == "enter bare":
                return [OrderProposal(replace(entry, stop=None, target=None), (order,))]
            if deed == "enter limit":
                px = bar.c - sign * D("0.5")
                return [OrderProposal(entry, (replace(order, kind="limit", px=px, stop=stop - sign, target=target, bars=2),))]
            return [OrderProposal(entry, (replace(order, stop=stop, target=target),))]
        leaving = replace(order, qty=abs(position.qty), reduce_only=True)
        if deed == "turn":
            return [OrderProposal(entry, (replace(order, qty=abs(position.qty) + size),))]
        if deed == "add":
            back = "buy" if side == "sell" else "sell"
            return [OrderProposal(Decision(**words), (replace(order, side=back),))]
        if deed == "again":  # out and in again in one block
            back = "buy" if side == "sell" else "sell"
            return [OrderProposal(Decision(**words), (leaving, replace(order, side=back)))]
        part = min(size, abs(position.qty)) if self.draw(st.booleans()) else abs(position.qty)
        return [OrderProposal(Decision(**words), (replace(leaving, qty=part),))]

    def _situation(self, bar: Bar) -> Situation | None:
        return Situation(price=float(bar.c), regime="ranging", atr_h1=2.5) if self.draw(st.booleans()) else None


@dataclass
class AsTheVenueTells:
    """Hands ticks on to an agent under the names that the venue's reader gives, and keeps them as the script."""

    agent: AgentMemory
    draw: Draw
    ticks: list[Tick] = field(default_factory=list)
    orders: dict[str, str] = field(default_factory=dict)
    fills: int = 0

    def observe(self, tick: Tick, /) -> object:
        positions = {s: tuple(replace(h, leverage=D(3)) for h in held) for s, held in (tick.positions or {}).items()}
        blocks: dict[tuple[str, datetime], int] = {}
        fills: list[Fill] = []
        for fill in tick.fills:
            self.fills += 1
            oid, seq = self._order(fill.order_id or ""), blocks.get((fill.symbol, fill.t), 0)
            blocks[fill.symbol, fill.t] = seq + 1
            name = f"{fill.symbol}-{self.fills}-{oid}-{millis_of(fill.t)}-{decimal_text(fill.qty)}"
            forced = fill.trigger == "stop" and self.draw(st.integers(0, 9)) == 9
            fills.append(replace(fill, id=name, order_id=oid, seq=seq, liq=forced))
        decided = [replace(d, order_ids=tuple(map(self._order, d.order_ids))) for d in tick.decision or ()]
        told = replace(tick, id=f"hyperliquid-{millis_of(tick.t)}", positions=positions, fills=tuple(fills),
                       funding=tuple(self._paid(tick)), decision=tuple(decided) or None)  # fmt: skip
        self.ticks.append(told)
        return self.agent.observe(told)

    def _order(self, name: str) -> str:
        return self.orders.setdefault(name, str(700_000 + len(self.orders)))

    def _paid(self, tick: Tick) -> Iterator[Funding]:
        for symbol in sorted(tick.positions or {}):
            if self.draw(st.integers(0, 4)) == 4:
                usd, at = D(self.draw(st.integers(-30, 30))) / 100, tick.t - timedelta(seconds=10)
                yield Funding(id=f"{symbol}-funding-{millis_of(at)}", t=at, symbol=symbol, usd=usd)


# ---- the live side -------------------------------------------------------------------------------------------------------


@dataclass
class Desk:
    """A live agent on a store of its own, which may be left and opened again at any time."""

    url: str
    server: Server
    interval: str
    coins: tuple[str, ...]
    clock: FixedClock
    overlap: timedelta = timedelta(hours=1)
    script: dict[str, Tick] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.open()

    def open(self) -> None:
        self.memory = memtape.open(self.url, clock=self.clock)
        self.agent = given_agent(self.memory, "live")
        self.source = Hyperliquid(ADDRESS, self.server.url, coins=self.coins, intervals=(self.interval,), overlap=self.overlap,
                                  sleep=lambda seconds: None, timeout=5.0)  # fmt: skip

    def restart(self) -> None:
        self.memory.close()
        self.open()

    def look(self) -> Any:
        return follow_account(self.agent, self.source, decide=lambda tick: self.script[tick.id].decision or ())


def given_agent(memory: Memory, mode: str) -> AgentMemory:
    memory.create_skill("whims", strategy="Whatever is drawn.")
    memory.create_agent("desk", skill="whims", mode=mode)  # type: ignore[arg-type]
    return memory.agent("desk")


def simulated(draw: Draw, agent: AgentMemory, interval: str) -> list[Tick]:
    """A history of one or two coins, played into a simulated agent; its ticks as the venue tells them."""
    coins, n = ["BTC", "ETH"][: draw(st.integers(1, 2))], draw(st.integers(4, 14))
    bars = [bar for coin in coins for bar in walk(coin, draw(st.integers(0, 999)), n, INTERVALS[interval])]
    told = AsTheVenueTells(agent, draw)
    run_simulation(told, bars, Whims(draw), fee_bps=5, slippage_bps=2, name="desk")
    return told.ticks


def followed(draw: Draw, desk: Desk, ticks: Sequence[Tick], untimely: bool) -> None:
    """The same ticks, served by the venue and followed by the live agent, with whatever goes wrong on the way."""
    venue = desk.server.venue
    desk.script = {tick.id: tick for tick in ticks}
    for tick in ticks:
        blocks = sorted({(fill.symbol, millis_of(fill.t)) for fill in tick.fills})
        delays = {block: draw(st.sampled_from([0, 0, 1, 2, 5])) for block in blocks} if untimely else {}
        venue.show(tick, delays)
        venue.doubled, venue.shuffled = draw(st.booleans()), draw(st.sampled_from([None, 1, 2]))
        mishaps = ["", "", "restart", "trouble", "twice"] + (["clock behind", "clock ahead", "clock lost"] if untimely else [])
        mishap = draw(st.sampled_from(mishaps))
        desk.clock.at = tick.t + {"clock behind": -timedelta(minutes=4), "clock ahead": timedelta(hours=3)}.get(
            mishap, timedelta(0)
        )
        if mishap == "restart":
            desk.restart()
        if mishap == "trouble":
            before = desk.agent.head()
            desk.server.trouble.extend(["fine"] * draw(st.integers(0, 2)) + ["500", "429", "garbage", "cut"])
            with pytest.raises(Unreachable):
                desk.look()
            desk.server.trouble.clear()
            assert desk.agent.head() == before  # never a part of a tick
        if mishap == "clock lost":
            desk.clock.at = tick.t - timedelta(days=3)
            with pytest.raises(Invalid, match="ahead of the clock"):
                desk.look()
            desk.clock.at = tick.t
        assert desk.look().written
        if mishap == "twice":
            assert not desk.look().written
        venue.pass_by()
    desk.clock.at = ticks[-1].t
    while venue.waiting:
        venue.pass_by()
        desk.look()
    desk.restart()  # which reads everything once more: a whole round trip may have come later than the overlap reaches back
    desk.look()


# ---- the same memories ---------------------------------------------------------------------------------------------------


def ledger(agent: AgentMemory) -> list[dict[str, object]]:
    """Every trade, open and closed, in all columns but the labels and the venue: bars that came late were not known at its entry."""
    with agent.view() as view:
        return [{**trade_json(trade), "source": None} for trade in view.trades()]


class Knowledge:
    """When everything happened, and when it was known."""

    def __init__(self, agent: AgentMemory) -> None:
        with agent.resources.reading("desk") as tables:
            kinds = ("tick", "fill", "funding", "equity")
            self.all = [(one.at, one.known_at, kind, one.key) for kind in kinds for one in tables.items(kind, EVERYTHING)]
            self.all += [(one.bar.t1, one.known_at, coin, str(one.bar.t0))
                         for coin in ("BTC", "ETH") for one in tables.bars(coin, EVERYTHING)]  # fmt: skip

    def by(self, moment: datetime) -> set[tuple[str, str]]:
        """What had happened by a moment and was known by then."""
        return {(kind, key) for at, known_at, kind, key in self.all if at <= moment and known_at <= moment}


def remembered(agent: AgentMemory) -> dict[str, Episode]:
    return {episode.id: episode for episode in agent.memories.episodes(as_of=MUCH_LATER)}


def differing(one: Episode, other: Episode) -> set[str]:
    return {name for name in EPISODE_FIELDS if getattr(one, name) != getattr(other, name)} - VERSIONED


def may_differ(one: Episode, other: Episode) -> frozenset[str]:
    """What two tellings of an episode may differ in if not the same was known at its entry."""
    if one.kind == "shadow":
        return OF_THE_MOMENT | OF_A_SHADOW
    return OF_THE_MOMENT if {one.r_source, other.r_source} == {"stop"} else OF_THE_MOMENT | IN_PROXY_R


def recalled(agent: AgentMemory) -> list[str]:
    """What recall answers, in full, to three questions."""
    asked = [{"regime": "ranging", "session": "london"}, {"symbol": "BTC", "price": 100, "drawdown_pct": 0.02}, {}]
    answers = [plain(agent.memories.recall(one, as_of=MUCH_LATER, limit=50)[0]) for one in asked]
    return [canonical(unversioned(answer) | {"evidence": as_it_leaves(answer["evidence"])}) for answer in answers]


def unversioned(answer: Any) -> Any:
    """An answer without the times between which each memory in it was believed, and without the name of the venue."""
    if isinstance(answer, list):
        return [unversioned(part) for part in answer]
    if not isinstance(answer, dict):
        return answer
    parts = {name: unversioned(part) for name, part in answer.items() if name != "source"}
    if isinstance(parts.get("memory"), list):
        parts["memory"] = [part for name, part in zip(EPISODE_FIELDS, parts["memory"], strict=True) if name not in VERSIONED]
    return parts


def as_it_leaves(evidence: Any) -> Any:
    """Figures in six significant digits: the last ones depend on the order in which trades became known."""
    if isinstance(evidence, dict):
        return {name: as_it_leaves(part) for name, part in evidence.items()}
    if isinstance(evidence, list):
        return [as_it_leaves(part) for part in evidence]
    return float(f"{evidence:.6g}") if isinstance(evidence, float) else evidence


def briefed(agent: AgentMemory) -> list[str]:
    """The briefs of a moment, as text."""
    return [agent.briefs.make(as_of=MUCH_LATER, symbol=symbol).brief.text for symbol in ("BTC", "ETH")]


MUCH_LATER = START + timedelta(days=30)


@dataclass
class Twins:
    """The two agents at the end of a history."""

    simulated: AgentMemory
    live: AgentMemory

    def agree(self, timely: bool) -> None:
        assert ledger(self.live) == ledger(self.simulated)
        assert self.live.ledger.discrepancies() == self.simulated.ledger.discrepancies()
        assert self.live.ledger.orphan_funding() == self.simulated.ledger.orphan_funding()
        sim, live = remembered(self.simulated), remembered(self.live)
        knew, knew_live = Knowledge(self.simulated), Knowledge(self.live)
        alike = True
        for id_ in sorted(sim.keys() | live.keys()):
            one, other = sim.get(id_), live.get(id_)
            entry_at = (one or live[id_]).entry_at
            if knew_live.by(entry_at) == knew.by(entry_at):
                assert one is not None and other is not None and differing(one, other) == set()
                continue
            assert not timely
            if one is None or other is None:  # with no price known there was no trade to take
                assert (one or live[id_]).kind == "shadow"
                alike = False
            else:
                assert differing(one, other) <= may_differ(one, other)
                alike = alike and not differing(one, other)
        event(f"{len(sim)} episodes, all alike: {alike}")
        if alike:
            assert recalled(self.live) == recalled(self.simulated)
            assert briefed(self.live) == briefed(self.simulated)


def play(draw: Draw, untimely: bool) -> None:
    interval = draw(st.sampled_from(["1m", "1h"]))
    with tempfile.TemporaryDirectory() as folder, Server(Venue()) as server:
        clock = FixedClock(START + timedelta(days=20))
        sim = memtape.open(":memory:", clock=clock)
        agent = given_agent(sim, "sim")
        ticks = simulated(draw, agent, interval)
        desk = Desk(str(Path(folder) / "live.db"), server, interval, ("BTC", "ETH"), FixedClock(START))
        followed(draw, desk, ticks, untimely)
        Twins(agent, desk.agent).agree(timely=not untimely)
        assert verify_store(desk.memory).problems == []
        desk.memory.close()
        sim.close()


# Told as drawn: a history of this size takes minutes to make smaller.
AS_DRAWN = settings(max_examples=examples(8, 200), phases=[Phase.explicit, Phase.generate])


@AS_DRAWN
@given(st.data())
def test_a_live_agent_remembers_what_its_simulation_did_through_doubled_and_disordered_answers_failures_and_restarts(data):
    play(data.draw, untimely=False)


@AS_DRAWN
@given(st.data())
def test_late_fills_and_a_wrong_clock_leave_the_same_ledger_and_change_only_what_was_known_at_an_entry(data):
    play(data.draw, untimely=True)


@pytest.mark.parametrize(
    "clock_says", [(180, 840, 660), (180, 182, 181)], ids=["hours ahead, then set right", "put back a minute"]
)
def test_a_store_verifies_after_the_clock_was_put_back_and_what_came_later_was_known_earlier(clock_says):
    clock = FixedClock(START)
    agent = given_agent(memtape.open(":memory:", clock=clock), "live")
    for n, minutes in enumerate(clock_says):
        clock.at = START + timedelta(minutes=minutes)
        t = START + timedelta(minutes=[180, min(clock_says[1], 600), clock_says[2] + 2][n])
        held = {"ETH": {"qty": "1", "entry_px": "100"}} if n == 0 else {}
        agent.observe({"id": f"s{n}", "t": time_text(t), "positions": held, "marks": {"ETH": "101"}})
    assert verify_store(Memory.of(agent.resources)).problems == []


def test_a_brief_about_nothing_in_particular_is_about_the_same_symbol_however_decisions_were_recorded():
    told = []
    for together in (True, False):
        agent = given_agent(memtape.open(":memory:", clock=FixedClock(START)), "live")
        for n, symbol in enumerate(("BTC", "ETH")):
            agent.observe(ClosedTrade(trade_id=symbol, symbol=symbol, side="long", entry_at=START - timedelta(hours=9),
                                      exit_at=START - timedelta(hours=8), entry_price=D(100), exit_price=D(101 + n), qty=D(1)))  # fmt: skip
        tick = Tick(id="s1", t=START, positions={}, decision=(Decision(symbol="BTC"), Decision(symbol="ETH")))
        agent.observe(tick if together else replace(tick, decision=None))
        for decision in () if together else tick.decisions:
            agent.observe(decision)
        told.append(agent.briefs.make(as_of=START).brief.text)
    assert told[0] == told[1]
