"""How an agent has done: sums, rates and the equity curve, each over stated n.

NAV is flow-adjusted: deposits and withdrawals are not profit. Where the broker gave equity marks, NAV is the mark less the
flows so far; where it gave none, starting equity plus the net PnL of what was closed. A share is one of the money that was really
there: after a deposit of 50,000 into an account of 1,000, a loss of 2,000 is 4 % and not all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal, localcontext
from functools import cached_property
from math import sqrt
from typing import Protocol

from memtape.core.ledger.trades import Trade
from memtape.core.observed import CashFlow, EquityMark
from memtape.core.skills import AgentSettings
from memtape.core.value_class import dataclass
from memtape.core.values import MONEY, ZERO


@dataclass(frozen=True)
class Curve:
    """NAV over time, in the account currency."""

    points: tuple[tuple[datetime, Decimal], ...]
    source: str  # "marks" or "closed trades"
    assumed: bool = False  # nobody stated what the account started with: a share of it says nothing
    flows: tuple[Decimal, ...] = ()  # beside each point, deposits less withdrawals so far; empty: there were none

    @cached_property
    def growth(self) -> tuple[tuple[datetime, Decimal], ...]:
        """What the first equity would have become without any deposit or withdrawal: the time-weighted return.

        Between two points, a deposit counts from the first and a withdrawal from the second. Before the first money came, and
        while all of it is paid out, nothing grows: a rebate on an empty account is no return.

        >>> from datetime import UTC
        >>> days = [datetime(2026, 1, n, tzinfo=UTC) for n in (1, 2, 3)]
        >>> navs = (Decimal(1000), Decimal(1000), Decimal(-1040))
        >>> account = Curve(tuple(zip(days, navs)), "marks", flows=(Decimal(0), Decimal(50_000), Decimal(50_000)))
        >>> [int(value) for _, value in account.growth]
        [1000, 1000, 960]
        """
        if not any(self.flows):
            return self.points
        with localcontext(MONEY):
            (_, nav), moved = self.points[0], self.flows[0]
            at_work = [nav + moved]  # the money that could gain or lose on the way to each point
            factors = [Decimal(1)]
            for (_, after), total in zip(self.points[1:], self.flows[1:], strict=True):
                there = nav + moved + max(total - moved, ZERO)
                at_work.append(there)
                factors.append(max(1 + (after - nav) / there, ZERO) if there > 0 else Decimal(1))
                nav, moved = after, total
            value = next((money for money in at_work if money > 0), at_work[0])
            values = [value := value * factor for factor in factors]
        return tuple((t, value) for (t, _), value in zip(self.points, values, strict=True))

    @property
    def max_drawdown(self) -> tuple[Decimal, Decimal]:
        """The deepest fall from a peak: amount, and percent of that peak.

        >>> from datetime import UTC
        >>> day = lambda n: datetime(2026, 1, n, tzinfo=UTC)
        >>> Curve(((day(1), Decimal(100)), (day(2), Decimal(80)), (day(3), Decimal(120))), "marks").max_drawdown
        (Decimal('20'), Decimal('20'))
        """
        peak = deepest = worst = ZERO
        with localcontext(MONEY):
            for _, nav in self.points:
                peak = max(peak, nav)
                deepest = max(deepest, peak - nav)
            peak = ZERO
            for _, value in self.growth:
                peak = max(peak, value)
                if peak > 0:
                    worst = max(worst, 100 * (peak - value) / peak)
        return deepest, worst


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """Figures over closed trades, and the money of open ones so far; a rate without a sample is None, never 0.

    The sums of closed and open trades add up to the totals of the ledger. The open part of an open trade is not valued.
    """

    n: int
    n_known: int  # with a result in money or in R
    n_priced: int  # with a result in money
    wins: int
    losses: int
    win_rate: float | None
    net_pnl_usd: Decimal
    gross_pnl_usd: Decimal
    fees_usd: Decimal
    funding_usd: Decimal
    profit_factor: float | None
    mean_r: float | None
    n_r: int
    mean_holding_minutes: float | None
    max_drawdown_usd: Decimal | None
    max_drawdown_pct: Decimal | None
    sharpe_per_trade: float | None
    first_entry_at: datetime | None
    last_exit_at: datetime | None
    currency: str
    equity_source: str | None
    open_n: int = 0
    open_realized_pnl_usd: Decimal = ZERO
    open_fees_usd: Decimal = ZERO
    open_funding_usd: Decimal = ZERO
    open_net_pnl_usd: Decimal = ZERO


class PricedTrades(Protocol):
    """What is read of a trade to judge it."""

    @property
    def net_pnl_usd(self) -> Decimal | None:
        """Its outcome, if it is known."""
        ...

    @property
    def pnl_r(self) -> Decimal | float | None:
        """Its outcome in R, if its risk is known."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """Closed trades, summed up. `n` are those with a known result, `n_priced` those with one in money, `n_r` those with R.

    A trade whose source states only R is won or lost by its R.
    """

    n: int
    n_priced: int
    wins: int
    losses: int
    win_rate: float | None
    net_pnl: Decimal
    profit_factor: float | None  # None without a loss: a ratio to nothing says nothing
    n_r: int
    mean_r: float | None


def outcome_sums(trades: Iterable[PricedTrades]) -> Outcomes:
    """The outcomes of closed trades; a rate without a sample is None, never 0."""
    nets: list[Decimal] = []
    in_r: list[float] = []
    results: list[Decimal | float] = []
    for trade in trades:
        if trade.net_pnl_usd is not None:
            nets.append(trade.net_pnl_usd)
        if trade.pnl_r is not None:
            in_r.append(float(trade.pnl_r))
        result = trade.net_pnl_usd if trade.net_pnl_usd is not None else trade.pnl_r
        if result is not None:
            results.append(result)
    wins, losses = sum(result > 0 for result in results), sum(result < 0 for result in results)
    with localcontext(MONEY):
        gained, given = sum((n for n in nets if n > 0), ZERO), -sum((n for n in nets if n < 0), ZERO)
        return Outcomes(
            n=len(results), n_priced=len(nets), wins=wins, losses=losses, win_rate=wins / len(results) if results else None,
            net_pnl=gained - given, profit_factor=float(gained / given) if given else None,
            n_r=len(in_r), mean_r=sum(in_r) / len(in_r) if in_r else None,
        )  # fmt: skip


def equity_curve(
    closed: Sequence[Trade], marks: Sequence[EquityMark], flows: Sequence[CashFlow], settings: AgentSettings
) -> Curve:
    """NAV from marks, or from closed trades in order of their exits."""
    points: list[tuple[datetime, Decimal]] = []
    totals: list[Decimal] = []
    moved, pending = ZERO, sorted(flows, key=lambda flow: flow.t)
    with localcontext(MONEY):
        if marks:
            for mark in sorted(marks, key=lambda mark: mark.t):
                while pending and pending[0].t <= mark.t:
                    moved += pending.pop(0).usd
                points.append((mark.t, mark.equity - moved))
                totals.append(moved)
            return Curve(tuple(points), "marks", flows=tuple(totals) if any(totals) else ())
        nav = settings.starting_equity
        for trade in sorted(closed, key=lambda t: (t.exit_at or t.entry_at, t.id)):
            at = trade.exit_at or trade.entry_at
            if not points:
                points.append((trade.entry_at, nav))
                totals.append(ZERO)
                # What came before may be what the account is said to have started with.
                pending = [flow for flow in pending if flow.t > trade.entry_at]
            while pending and pending[0].t <= at:
                moved += pending.pop(0).usd
            nav += trade.net_pnl_usd or ZERO
            points.append((at, nav))
            totals.append(moved)
        assumed = settings.stated_equity is None
        return Curve(tuple(points), "closed trades", assumed, tuple(totals) if any(totals) and not assumed else ())


def performance(
    closed: Sequence[Trade], curve: Curve | None, settings: AgentSettings, held: Sequence[Trade] = ()
) -> Performance:
    """The figures of a set of closed trades, and the money of open ones; drawdown only with the curve of the whole account."""
    sums = outcome_sums(closed)
    priced = [t for t in closed if t.net_pnl_usd is not None]
    with localcontext(MONEY):
        gross = sum((t.realized_pnl_usd or ZERO for t in priced), ZERO)
        fees, funding = sum((t.fees_usd for t in closed), ZERO), sum((t.funding_usd for t in closed), ZERO)
    holding = [float(t.holding_minutes) for t in closed if t.holding_minutes is not None]
    deepest = curve.max_drawdown if curve and curve.points else None
    share = deepest[1] if deepest and curve and not curve.assumed else None
    return Performance(
        n=len(closed), n_known=sums.n, n_priced=sums.n_priced, wins=sums.wins, losses=sums.losses, win_rate=sums.win_rate,
        net_pnl_usd=sums.net_pnl, gross_pnl_usd=gross, fees_usd=fees, funding_usd=funding,
        profit_factor=sums.profit_factor, mean_r=sums.mean_r, n_r=sums.n_r,
        mean_holding_minutes=sum(holding) / len(holding) if holding else None,
        max_drawdown_usd=deepest[0] if deepest else None, max_drawdown_pct=share,
        sharpe_per_trade=_sharpe([float(t.net_pnl_usd or ZERO) for t in priced]),
        first_entry_at=min((t.entry_at for t in closed), default=None),
        last_exit_at=max((t.exit_at for t in closed if t.exit_at), default=None),
        currency=settings.currency, equity_source=curve.source if curve else None,
        open_n=len(held), **{f"open_{name}": usd for name, usd in trade_totals(held).items()},
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class TradingBook:
    """The trades and the equity curve of one agent."""

    settings: AgentSettings
    closed: Sequence[Trade]
    held: Sequence[Trade]
    curve: Curve

    @property
    def performance(self) -> Performance:
        """The agent's own figures."""
        return performance(self.closed, self.curve, self.settings, self.held)


def combined_performance(books: Sequence[TradingBook]) -> list[Performance]:
    """The figures of several agents together, one for each account currency: amounts in two currencies are not added.

    The drawdown of several agents is that of their closed trades one after another, on all their starting equity.
    """
    found: list[Performance] = []
    for currency in sorted({book.settings.currency for book in books}):
        own = [book for book in books if book.settings.currency == currency]
        if len(own) == 1:
            found.append(own[0].performance)
            continue
        closed, held = [t for book in own for t in book.closed], [t for book in own for t in book.held]
        with localcontext(MONEY):
            starting = sum((book.settings.starting_equity for book in own), ZERO)
        # If one of them was only assumed, so is the sum.
        stated = all(book.settings.stated_equity is not None for book in own)
        together = replace(own[0].settings, starting_equity=starting, equity_stated=stated)
        found.append(performance(closed, equity_curve(closed, (), (), together), own[0].settings, held))
    return found


def trade_totals(trades: Sequence[Trade]) -> dict[str, Decimal]:
    """The money sums of a set of trades. A trade without a price counts with its fees and funding only."""
    sums = {"net_pnl_usd": ZERO, "realized_pnl_usd": ZERO, "fees_usd": ZERO, "funding_usd": ZERO}
    with localcontext(MONEY):
        for trade in trades:
            for name in sums:
                sums[name] += getattr(trade, name) or ZERO
    return sums


def _sharpe(values: Sequence[float]) -> float | None:
    """Mean over standard deviation per trade, not annualised; None under two trades or without spread."""
    if len(values) < 2:
        return None
    mean = sum(values) / len(values)
    spread = sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1))
    return mean / spread if spread else None
