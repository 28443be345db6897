"""Runs bars, a strategy and a paper broker through an agent exactly as live: one tick for each bar time.

    bars that close at t -> broker: fills since the last tick -> strategy: decisions, orders -> Tick -> agent.observe

A decision at one tick places orders. They fill during the next bar, and the fills arrive with the next tick. They have the order
ids that the decision names, so the ledger knows the reason of each position.

Stops, targets and liquidations are the broker's own exits and have ids that no decision names (`session.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import datetime
from decimal import Decimal, localcontext
from itertools import groupby, pairwise
from typing import Any, Protocol, cast, runtime_checkable

from memtape.core.codec import plain, time_text
from memtape.core.ledger.performance import Curve, outcome_sums
from memtape.core.ledger.performance_detail import HeldPrice, PerformanceDetail, performance_detail
from memtape.core.ledger.trades import Trade
from memtape.core.observed import Bar, Bars, Decision, Tick
from memtape.core.values import MONEY, ZERO, Money, read
from memtape.engine.write.quiet_ticks import has_parts
from memtape.errors import Invalid
from memtape.sim.bars import bars_hash
from memtape.sim.figures import EquityPath, TradeRow, max_drawdown_pct
from memtape.sim.guard import Guard
from memtape.sim.model_use import ModelUse
from memtape.sim.order_ids import OrderNaming
from memtape.sim.paper import PaperBroker
from memtape.sim.result import RunCosts, RunTerms, SimResult
from memtape.sim.session import SimSession
from memtape.sim.strategies import AccountStrategy, Strategy
from memtape.sim.venue import PLAIN_VENUE, Venue

AmountInput = Decimal | int | float | str
Progress = Callable[[int, int], object]  # (ticks done, ticks in all)
BATCH_TICKS = 2000
AfterTick = Callable[[Tick, Any], object]  # (the tick, the receipt of agent.observe)


class Observer(Protocol):
    """An agent of the engine, or a stand-in that records ticks."""

    def observe(self, tick: Tick, /) -> object:
        """Observe one tick."""
        ...


class DecisionObserver(Protocol):
    """An observer that records decisions too."""

    def observe(self, decision: Decision, /) -> object:
        """Observe one decision."""
        ...


class TradeLedger(Protocol):
    """A ledger of trades."""

    def trades(self, *, status: str = "closed") -> Sequence[TradeRow]:
        """Returns the trades of one status."""
        ...


@runtime_checkable
class HasLedger(Protocol):
    """An observer that has a ledger."""

    @property
    def ledger(self) -> TradeLedger:
        """Its ledger."""
        ...


class WaitingTicksLike(Protocol):
    """Ticks that wait to be written."""

    def add(self, tick: Tick, /) -> object:
        """Add one."""
        ...


@runtime_checkable
class TakesManyTicks(Protocol):
    """An observer that can record many ticks together."""

    def waiting_ticks(self, on_receipt: AfterTick | None, size: int, /) -> AbstractContextManager[WaitingTicksLike]:
        """Ticks that are written `size` at a time."""
        ...


def run_simulation(
    agent: Observer,
    bars: Iterable[Bar],
    strategy: Strategy | AccountStrategy,
    *,
    fee_bps: AmountInput = 5,
    slippage_bps: AmountInput = 2,
    starting_equity: AmountInput = 10_000,
    on_progress: Progress | None = None,
    name: str | None = None,
    prefix: str = "p",
    naming: OrderNaming | None = None,
    after_tick: AfterTick | None = None,
    venue: Venue = PLAIN_VENUE,
    guard: Guard | None = None,
    observe_first: bool = False,
    skipped_bars: int = 0,
    batch: int | None = None,
) -> SimResult:
    """Trades a strategy over bars; `agent` observes everything. The same bars give the same ticks.

    `name` is the agent's name in tick ids; by default its `id`. `prefix` begins the ids of fills and orders: a second run of one
    agent over other bars needs another prefix, or its fills look like known ones. `naming` uses a venue's own ids. `venue` has
    the terms of the account (margin, funding, hours, ...), `guard` the limits: a refused decision is recorded and not ordered.
    `after_tick` is called with each tick and its receipt before the next tick.

    With `observe_first` the agent observes each tick before it decides, and each decision after that as a separate value, before
    it is asked about the next symbol. A brief then knows what has just happened.

    A strategy that asks a model has its use of the model as `use` (`ModelUse`), and can end the run after a tick by `use.ended`.

    `batch` ticks are written together: by default BATCH_TICKS, or one at a time with `observe_first` or `after_tick`. The record
    is the same. With a larger batch `after_tick` is called once its tick is written; ticks after one that makes lessons due are
    written after it has returned. `skipped_bars` is the number of rows that had no complete bar, for the result.
    """
    who = name or str(getattr(agent, "id", "sim"))
    listed = tuple(bars)
    if not listed:
        raise Invalid("bars", "the list is empty", "Give at least one bar")
    # Checked once, here: all that the paper broker makes of them follows.
    ordered = sorted(read(Bars, Bars(bars=listed)).bars, key=lambda bar: (bar.t1, bar.symbol))
    cash, fee, slippage = (
        _amount(value, at)
        for value, at in ((starting_equity, "starting_equity"), (fee_bps, "fee_bps"), (slippage_bps, "slippage_bps"))
    )
    broker = PaperBroker(cash, fee_bps=fee, slippage_bps=slippage, prefix=prefix, naming=naming, venue=venue)
    session = SimSession(who, strategy, broker, guard)
    total, tally = len({bar.t1 for bar in ordered}), _RunCounts()
    use = getattr(strategy, "use", None)
    use = use if isinstance(use, ModelUse) else None
    size = batch or (1 if observe_first or after_tick is not None else BATCH_TICKS)
    with _ticks_to(agent, size if not observe_first else 1, after_tick) as take:
        for t, together in groupby(ordered, key=lambda bar: bar.t1):
            completed = tuple(together)
            _refuse_repeated(completed)
            if observe_first:
                tick, receipt = _observe_first(agent, session, t, completed)
                if after_tick is not None:
                    after_tick(tick, receipt)
            else:
                tick = session.tick(t, completed)
                take(tick)
            tally.add(tick)
            if on_progress is not None:
                on_progress(len(tally.path), total)
            if use is not None and use.ended is not None:
                break
    path = tally.path
    first, last = min(bar.t0 for bar in ordered), path[-1][0]
    closed, played = _closed_trades(agent, first, last), [bar for bar in ordered if bar.t1 <= last]
    return SimResult(
        agent=who, strategy=_name(strategy), parameters=_parameters(strategy),
        symbols=tuple(sorted({bar.symbol for bar in ordered})), first=first, last=last, bars=len(played),
        skipped_bars=skipped_bars,
        fee_bps=fee, slippage_bps=slippage, starting_equity=cash, ending_equity=path[-1][1],
        ticks=len(path), fills=tally.fills, decisions=tally.decisions, no_trades=tally.no_trades, refused=len(broker.refused),
        figures=outcome_sums(closed), max_drawdown_pct=max_drawdown_pct(cash, path),
        costs=RunCosts(fees=tally.fees, slippage=broker.slippage, funding=tally.funding), bars_hash=bars_hash(ordered),
        record=_track_record(agent, closed, ((first, cash), *path), played), closed=closed, equity=tuple(path),
        terms=_terms(tally, session, broker, guard),
        conditions=(*venue.conditions(), *_limits(guard)), model=use, all_ticks=total,
        open_positions=tuple((symbol, held) for symbol, held in broker.positions().items() if held.qty),
    )  # fmt: skip


@dataclass(slots=True)
class _RunCounts:
    """Counts and sums over the ticks of a run."""

    path: list[tuple[datetime, Decimal]] = field(default_factory=list)
    fills: int = 0
    decisions: int = 0
    no_trades: int = 0
    liquidations: int = 0
    fees: Decimal = ZERO
    funding: Decimal = ZERO

    def add(self, tick: Tick) -> None:
        """Add one tick."""
        assert tick.equity is not None
        self.path.append((tick.t, tick.equity))
        if not has_parts(tick):
            return
        self.fills += len(tick.fills)
        self.liquidations += sum(fill.liq for fill in tick.fills)
        self.decisions += len(tick.decision or ())
        self.no_trades += sum(d.action == "no_trade" for d in tick.decision or ())
        with localcontext(MONEY):
            self.fees += sum((fill.fee for fill in tick.fills), ZERO)
            self.funding += sum((payment.usd for payment in tick.funding), ZERO)


def _terms(tally: _RunCounts, session: SimSession, broker: PaperBroker, guard: Guard | None) -> RunTerms | None:
    if broker.venue == PLAIN_VENUE and guard is None and not session.rejections:
        return None
    rejections = session.rejections + Counter(broker.codes.values())
    return RunTerms(
        funding=tally.funding, liquidations=tally.liquidations, shortfall=broker.shortfall,
        rejections=dict(sorted(rejections.items())), advice=() if guard is None else tuple(guard.advice),
    )  # fmt: skip


def _limits(guard: Guard | None) -> list[tuple[str, str]]:
    return [] if guard is None else [(f"Limit: {name}", text) for name, text in guard.limits.items()]


@contextmanager
def _ticks_to(agent: Observer, size: int, after_tick: AfterTick | None) -> Iterator[Callable[[Tick], object]]:
    """Gives a function that records ticks: one at a time, or `size` together if the agent can do that."""
    if size > 1 and isinstance(agent, TakesManyTicks):
        with agent.waiting_ticks(after_tick, size) as waiting:
            yield waiting.add
    else:
        yield lambda tick: _observe_one(agent, tick, after_tick)


def _observe_one(agent: Observer, tick: Tick, after_tick: AfterTick | None) -> None:
    receipt = agent.observe(tick)
    if after_tick is not None:
        after_tick(tick, receipt)


def _observe_first(agent: Observer, session: SimSession, t: datetime, completed: Sequence[Bar]) -> tuple[Tick, object]:
    """Observes one tick, then its decisions. Returns the tick and its receipt."""
    tick = session.advance(t, completed)
    receipt = agent.observe(tick)
    for bar in tick.bars:
        made = tick.decision or ()
        tick = replace(tick, decision=(*made, *session.ask(t, bar.symbol)) or None)
        for decision in tick.decisions[len(made) :]:
            cast(DecisionObserver, agent).observe(decision)
    return tick, receipt


def _refuse_repeated(completed: Sequence[Bar]) -> None:
    for one, next_ in pairwise(completed):
        if one.symbol == next_.symbol:
            raise Invalid("bars", f"{one.symbol} has two bars that close at {time_text(one.t1)}", "Give each bar once")


def _closed_trades(agent: Observer, first: datetime, last: datetime) -> tuple[TradeRow, ...]:
    """Returns the closed trades of this run; an agent may have older ones."""
    if not isinstance(agent, HasLedger):
        return ()
    rows = [t for t in agent.ledger.trades(status="closed") if first <= t.entry_at and (t.exit_at or last) <= last]
    return tuple(sorted(rows, key=lambda t: (t.exit_at or last, t.entry_at, t.symbol)))


def _track_record(agent: Observer, closed: Sequence[TradeRow], path: EquityPath, bars: Sequence[Bar]) -> PerformanceDetail:
    """Returns the track record of a run. The bars of the run give the prices of buying and holding."""
    last = path[-1][0]
    held = [t for t in agent.ledger.trades(status="open") if t.entry_at >= path[0][0]] if isinstance(agent, HasLedger) else []
    traded = {trade.symbol for trade in closed}
    ends: dict[str, tuple[Bar, Bar]] = {}
    for bar in bars:
        ends[bar.symbol] = (ends.get(bar.symbol, (bar, bar))[0], bar)
    prices = [HeldPrice.between(*ends[symbol]) for symbol in sorted(traded & ends.keys()) if ends[symbol][0] != ends[symbol][1]]
    # The track record reads those fields of a trade that a report uses.
    rows, open_ = cast(Sequence[Trade], closed), cast(Sequence[Trade], held)
    return performance_detail(rows, Curve(tuple(path), "marks"), open_, last, [p for p in prices if p is not None] or None)


def _amount(value: AmountInput, at: str) -> Decimal:
    amount: Decimal = read(Money, value, at)
    return amount


def _name(strategy: Strategy | AccountStrategy) -> str:
    return str(getattr(strategy, "name", None) or getattr(strategy, "__name__", type(strategy).__name__))


def _parameters(strategy: Strategy | AccountStrategy) -> dict[str, str]:
    if not is_dataclass(strategy):
        return {}
    return {f.name: str(plain(getattr(strategy, f.name))) for f in fields(strategy)}
