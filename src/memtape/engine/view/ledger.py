"""The ledger at a view's moment: decisions, equity, performance, funding, imports. Trades are a primitive of the view."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from datetime import datetime
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING

from memtape.core.fills import Dividend, Funding
from memtape.core.ledger.performance import TradingBook, equity_curve, performance
from memtape.core.ledger.trades import round_money
from memtape.core.memory.outcome_units import OutcomeFigures
from memtape.core.observed import CashFlow, Decision, EquityMark
from memtape.core.value_class import dataclass
from memtape.core.values import MONEY, ZERO, read
from memtape.engine.view.view import AnswerBasis, TradeFilter

if TYPE_CHECKING:
    from memtape.core.items import StoredItem
    from memtape.core.ledger.performance import Curve, Performance
    from memtape.core.ledger.performance_detail import HeldPrice, PerformanceDetail
    from memtape.core.ledger.trades import Trade
    from memtape.core.lessons.losses import Losses
    from memtape.core.observed import Bar, Run
    from memtape.engine.view.view import View

HELD_SYMBOLS = 20  # the most traded ones, compared with holding them


@dataclass(frozen=True, slots=True)
class RecordedDecision:
    """A decision as it was recorded, with the tick it came in."""

    decision: Decision
    at: datetime
    known_at: datetime
    tick: str | None

    @property
    def run(self) -> Run | None:
        """The run that took it."""
        return self.decision.run


def recorded_decisions(
    view: View, *, symbol: str | None = None, limit: int | None = None, before: datetime | None = None
) -> list[RecordedDecision]:
    """Decisions, newest first."""
    return [_recorded(item) for item in view.items("decision", symbol=symbol, limit=limit, before=before, newest=True)]


def recorded_decision(view: View, id: str) -> RecordedDecision | None:
    """One decision."""
    return next((_recorded(item) for item in view.items("decision", keys=[id])), None)


def _recorded(item: StoredItem) -> RecordedDecision:
    return RecordedDecision(read(Decision, item.body), item.at, item.known_at, item.ref)


def bars_between(view: View, symbol: str, since: datetime, until: datetime) -> list[Bar]:
    """The bars of a symbol that opened within a time, of every length, in order of their opening."""
    found = view.tables.bars_between(symbol, since, until)
    return sorted(found.values(), key=lambda bar: (bar.t0, bar.frame))


def listed_imports(view: View) -> list[tuple[StoredItem, bool]]:
    """The imports, oldest first, and whether each was undone."""
    undone = {item.key for item in view.items("undo")}
    return [(item, item.key in undone) for item in view.items("import")]


def losses(view: View) -> Losses:
    """What the agent loses on: groups of closed trades, with the money of the ledger and a verdict against chance."""
    from memtape.core.lessons.losses import find_losses

    closed, episodes = view.trades(TradeFilter(status="closed")), view.episodes()
    found = find_losses(episodes, {trade.id: trade.net_pnl_usd for trade in closed}, claims_count=view.claims_count)
    return replace(found, source=AnswerBasis.of(view.as_of, view.claims_count, episodes).source_text)


def tags_in_use(view: View) -> list[str]:
    """The tags that the trades of the present have."""
    return sorted({tag for text in view.tables.values_in_use("tags") for tag in json.loads(text)})


def orphan_funding(view: View) -> dict[str, Decimal]:
    """Funding that fell when no trade was open, by symbol: all funding less what the trades carry."""
    paid: dict[str, Decimal] = {}
    with localcontext(MONEY):
        amounts = [(item.symbol, read(Funding, item.body).amount) for item in view.items("funding")]
        amounts += [(item.symbol, read(Dividend, item.body).amount) for item in view.items("dividend")]
        for symbol, amount in amounts:
            paid[symbol] = paid.get(symbol, ZERO) + amount
        if not paid:
            return {}
        for trade in view.trades():
            if trade.symbol in paid and trade.quality not in ("reported", "claimed"):
                paid[trade.symbol] -= trade.funding_usd
    # The shares of lots are quotients: what is left of them is below what is ever shown.
    return {symbol: usd for symbol, usd in sorted(paid.items()) if round_money(usd)}


def equity(view: View, closed: Sequence[Trade] | None = None) -> Curve:
    """The equity curve: reported equity less deposits, or starting equity plus net PnL where there are none.

    `closed` are all closed trades in the order of their entries, if they have been read already.
    """
    marks = [read(EquityMark, item.body) for item in view.items("equity")]
    flows = [read(CashFlow, item.body) for item in view.items("flow")]
    if closed is None:
        closed = view.trades(TradeFilter(status="closed", newest=False))
    return equity_curve(closed, marks, flows, view.agent.settings)


def trading_performance(view: View, *, symbol: str | None = None, strategy: str | None = None) -> Performance:
    """The figures of closed trades, and the money of open ones; the drawdown only for the whole account."""
    trades = view.trades(TradeFilter(symbol=symbol, strategy=strategy, newest=False))
    closed, held = ([trade for trade in trades if trade.status == status] for status in ("closed", "open"))
    whole = symbol is None and strategy is None
    return performance(closed, equity(view, closed) if whole else None, view.agent.settings, held)


def outcome_figures(view: View, *, symbol: str | None = None, strategy: str | None = None) -> OutcomeFigures:
    """The mean outcome of closed trades in one unit, and who reported them."""
    episodes = [
        e
        for e in view.episodes()
        if e.kind == "trade" and symbol in (None, e.symbol) and strategy in (None, e.strategy)
    ]
    source = AnswerBasis.of(view.as_of, view.claims_count, episodes).source_text
    return OutcomeFigures.of(episodes, view.claims_count, view.money_unit(), source)


def trading_book(view: View) -> TradingBook:
    """Every trade of the agent and its equity curve."""
    trades = view.trades(TradeFilter(newest=False))
    closed, held = ([trade for trade in trades if trade.status == status] for status in ("closed", "open"))
    return TradingBook(view.agent.settings, closed, held, equity(view, closed))


def track_record(view: View, *, symbol: str | None = None, strategy: str | None = None) -> PerformanceDetail:
    """The performance in detail. Of one symbol or strategy, daily figures are those of its profits in money."""
    from memtape.core.ledger.performance_detail import performance_detail

    trades = view.trades(TradeFilter(symbol=symbol, strategy=strategy, newest=False))
    closed, held = ([trade for trade in trades if trade.status == status] for status in ("closed", "open"))
    if symbol is None and strategy is None:
        curve = equity(view, closed)
    else:
        curve = replace(equity_curve(closed, (), (), view.agent.settings), assumed=True)
    return performance_detail(closed, curve, held, view.as_of, _held_prices(view, closed, curve))


def _held_prices(view: View, closed: Sequence[Trade], curve: Curve) -> list[HeldPrice] | None:
    """The prices of the most traded symbols at both ends of the record, where bars cover it; None if no symbol has any."""
    if len(curve.points) < 2:
        return None
    from memtape.core.ledger.performance_detail import HeldPrice, covers

    start, end = curve.points[0][0], curve.points[-1][0]
    prices: list[HeldPrice] = []
    for symbol, _ in Counter(trade.symbol for trade in closed).most_common(HELD_SYMBOLS):
        first = view.tables.first_bar(symbol, start, view.cutoff)
        last = view.tables.last_bar(symbol, end, view.cutoff)
        if first and last and covers(first.bar.t1, last.bar.t1, start, end):
            prices += [price] if (price := HeldPrice.between(first.bar, last.bar)) else []
    return prices or None


@dataclass(frozen=True, slots=True, kw_only=True)
class MoneyTotals:
    """The money of a set of trades, summed before rounding. Trades without a price are not in it."""

    n: int
    realized_pnl_usd: Decimal
    fees_usd: Decimal
    funding_usd: Decimal
    net_pnl_usd: Decimal

    @classmethod
    def of(cls, trades: Iterable[Trade]) -> MoneyTotals:
        """The sums of some trades."""
        priced = [trade for trade in trades if trade.net_pnl_usd is not None]
        with localcontext(MONEY):
            realized = sum((trade.realized_pnl_usd or ZERO for trade in priced), ZERO)
            fees, funding = sum((trade.fees_usd for trade in priced), ZERO), sum((trade.funding_usd for trade in priced), ZERO)
            net = realized - fees + funding
        return cls(n=len(priced), realized_pnl_usd=realized, fees_usd=fees, funding_usd=funding, net_pnl_usd=net)

    def __add__(self, other: MoneyTotals) -> MoneyTotals:
        with localcontext(MONEY):
            return MoneyTotals(**{each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalsByStatus:
    """What closed trades came to, what open ones realised, paid and received so far, and both together."""

    closed: MoneyTotals
    open: MoneyTotals
    all: MoneyTotals


def ledger_totals(trades: Sequence[Trade]) -> TotalsByStatus:
    """The totals of a ledger. The open part of an open trade is not valued."""
    closed = MoneyTotals.of(trade for trade in trades if trade.status == "closed")
    open_ = MoneyTotals.of(trade for trade in trades if trade.status == "open")
    return TotalsByStatus(closed=closed, open=open_, all=closed + open_)
