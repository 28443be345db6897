"""What a quant asks of a track record: risk-adjusted returns, drawdown, exposure, expectancy, R, streaks, and their sources.

Every figure has its n and its clock. Figures of daily equity are those of `performance_daily`; the others are counted over closed
trades with a known outcome. A trade belongs to the weekday and hour of its entry and to the month of its exit, in UTC.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal, localcontext

from memtape.core.ledger.performance import Curve, Outcomes, outcome_sums
from memtape.core.ledger.performance_daily import (
    ClockedFigure,
    ClockedMoney,
    DailyEquity,
    FallFromPeak,
    calmar,
    daily_growth,
    deepest_fall,
    ended_day,
    growth_rate,
    longest_fall,
    sharpe,
    sortino,
    total_return,
    volatility,
)
from memtape.core.ledger.trades import Trade
from memtape.core.observed import Bar
from memtape.core.value_class import dataclass
from memtape.core.values import MONEY, ZERO

WEEKDAY_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
R_BINS = ("<=-2R", "-2R..-1R", "-1R..0", "0", "0..1R", "1R..2R", ">2R")  # each includes its upper end
R_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
BY_TRADE, BY_ENTRY, BY_EXIT = "closed trades, in order of exit", "UTC time of entry", "UTC month of exit"
BY_TIME = "time from the first entry to the last exit"
MAX_SYMBOLS = 50  # listed
MAX_GAP_SHARE = 0.1  # of the time that bars must cover, at either end


@dataclass(frozen=True, slots=True, kw_only=True)
class RDistribution:
    """The outcomes in R of the trades whose risk is known."""

    n: int
    clock: str
    bins: dict[str, int]
    quantiles: dict[str, float]  # 5 %, 25 %, 50 %, 75 %, 95 %
    worst: float | None
    best: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Streaks:
    """Wins and losses in a row. A trade that made nothing ends a streak."""

    n: int
    clock: str
    longest_win: int
    longest_loss: int
    current: int  # wins in a row, or minus the losses in a row
    costliest_usd: Decimal  # the largest loss of one losing streak, negative


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """The closed trades with a known outcome of one group."""

    name: str
    n: int
    net_pnl_usd: Decimal
    win_rate: float | None
    profit_factor: float | None
    n_r: int
    mean_r: float | None

    @classmethod
    def of(cls, name: str, sums: Outcomes) -> GroupFigures:
        """The figures of a group with these outcomes."""
        return cls(name, sums.n, sums.net_pnl, sums.win_rate, sums.profit_factor, sums.n_r, sums.mean_r)


@dataclass(frozen=True, slots=True)
class MonthFigures:
    """One month: the trades that ended in it, and how daily equity changed."""

    month: str  # 2026-06
    n: int
    net_pnl_usd: Decimal
    win_rate: float | None
    change: float | None  # a share of the equity at its start; None if no equity is stated


@dataclass(frozen=True, slots=True)
class HeldPrice:
    """A symbol's price at the start and at the end of the time that is compared, from bars."""

    symbol: str
    bought_at: datetime
    bought: Decimal
    sold_at: datetime
    sold: Decimal
    change: float  # a share of the price at which it was bought

    @classmethod
    def between(cls, first: Bar, last: Bar) -> HeldPrice | None:
        """What holding made from the end of one bar to the end of another; None at prices that are not above zero."""
        if first.c <= 0:
            return None
        return cls(first.symbol, first.t1, first.c, last.t1, last.c, float(last.c / first.c) - 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldComparison:
    """The account against buying what it traded, in equal parts, and holding it over the same time."""

    clock: str
    n: int  # symbols with bars over the time
    held: tuple[HeldPrice, ...]
    hold_return: float
    own_return: float | None
    difference: float | None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PerformanceDetail:
    """The track record in detail."""

    basis: str
    clocks: dict[str, str]  # of the tables
    first_day: str | None
    last_day: str | None
    sharpe: ClockedFigure
    sortino: ClockedFigure
    volatility: ClockedFigure
    total_return: ClockedFigure
    cagr: ClockedFigure
    calmar: ClockedFigure
    max_drawdown: FallFromPeak | None
    longest_drawdown: FallFromPeak | None
    exposure: ClockedFigure
    expectancy_usd: ClockedMoney
    expectancy_r: ClockedFigure
    payoff_ratio: ClockedFigure
    r_distribution: RDistribution
    streaks: Streaks
    by_weekday: tuple[GroupFigures, ...]
    by_hour: tuple[GroupFigures, ...]
    by_symbol: tuple[GroupFigures, ...]
    by_side: tuple[GroupFigures, ...]
    months: tuple[MonthFigures, ...]
    buy_and_hold: HoldComparison | None


def performance_detail(
    closed: Sequence[Trade], curve: Curve, held: Sequence[Trade], as_of: datetime, prices: Sequence[HeldPrice] | None
) -> PerformanceDetail:
    """Returns the track record of closed trades in detail. `held` are open trades, which count for exposure only.

    `prices` are those of the traded symbols, for the comparison with holding them; None: no bars cover the time.
    """
    ordered = sorted(closed, key=lambda trade: (trade.exit_at or trade.entry_at, trade.id))
    daily = daily_growth(curve)
    none = ClockedFigure(None, 0, "days", "needs two records of the account")

    def figure(of: Callable[[DailyEquity], ClockedFigure]) -> ClockedFigure:
        return none if daily is None else of(daily)

    grown = figure(total_return)
    return PerformanceDetail(
        basis=_basis(curve), clocks={"by_weekday, by_hour, by_symbol, by_side": BY_ENTRY, "months": BY_EXIT},
        first_day=daily.days[0].isoformat() if daily else None, last_day=daily.days[-1].isoformat() if daily else None,
        sharpe=figure(sharpe), sortino=figure(sortino), volatility=figure(volatility), total_return=grown,
        cagr=figure(growth_rate), calmar=figure(calmar), max_drawdown=deepest_fall(daily) if daily else None,
        longest_drawdown=longest_fall(daily) if daily else None, exposure=exposure(closed, held, as_of),
        expectancy_usd=_expectancy(ordered), expectancy_r=_expectancy_r(ordered), payoff_ratio=_payoff(ordered),
        r_distribution=r_distribution(ordered), streaks=streaks(ordered),
        by_weekday=_groups(ordered, lambda trade: WEEKDAY_NAMES[_utc(trade.entry_at).weekday()], WEEKDAY_NAMES),
        by_hour=_groups(ordered, lambda trade: f"{_utc(trade.entry_at):%H}"),
        by_symbol=_largest(_groups(ordered, lambda trade: trade.symbol)),
        by_side=_groups(ordered, lambda trade: trade.side), months=month_table(ordered, daily),
        buy_and_hold=None if prices is None else _compare_with_holding(prices, grown),
    )  # fmt: skip


def _basis(curve: Curve) -> str:
    if curve.assumed:
        return "daily profits in money: no equity is stated"
    return "daily equity, as it was reported" if curve.source == "marks" else "daily equity, from closed trades"


def _utc(at: datetime) -> datetime:
    return at.astimezone(UTC)


# ---- over trades -------------------------------------------------------------------------------------------------------


def exposure(closed: Iterable[Trade], held: Iterable[Trade], as_of: datetime) -> ClockedFigure:
    """Returns the share of the time in which any position was open, from the first entry on."""
    spans = [(trade.entry_at, trade.exit_at or trade.entry_at) for trade in closed] + [(trade.entry_at, as_of) for trade in held]
    spans = sorted((start, end) for start, end in spans if end >= start)
    if not spans:
        return ClockedFigure(None, 0, BY_TIME, "no trades")
    whole = max(end for _, end in spans) - spans[0][0]
    exposed, until = timedelta(), spans[0][0]
    for start, end in spans:
        exposed += max(end - max(start, until), timedelta())
        until = max(until, end)
    if not whole:
        return ClockedFigure(None, len(spans), BY_TIME, "all trades ended when they began")
    return ClockedFigure(exposed / whole, len(spans), BY_TIME)


def _nets(trades: Iterable[Trade]) -> list[Decimal]:
    return [trade.net_pnl_usd for trade in trades if trade.net_pnl_usd is not None]


def _expectancy(trades: Sequence[Trade]) -> ClockedMoney:
    """The mean net result of a trade."""
    nets = _nets(trades)
    with localcontext(MONEY):
        mean = sum(nets, ZERO) / len(nets) if nets else None
    return ClockedMoney(mean, len(nets), BY_TRADE, "" if nets else "no trades with a known outcome")


def _expectancy_r(trades: Sequence[Trade]) -> ClockedFigure:
    """The mean result of a trade in R."""
    in_r = [float(trade.pnl_r) for trade in trades if trade.pnl_r is not None]
    return ClockedFigure(sum(in_r) / len(in_r) if in_r else None, len(in_r), BY_TRADE, "" if in_r else "no trades with a stop")


def _payoff(trades: Sequence[Trade]) -> ClockedFigure:
    """The mean win over the mean loss."""
    nets = _nets(trades)
    won, lost = [net for net in nets if net > 0], [-net for net in nets if net < 0]
    if not won or not lost:
        return ClockedFigure(None, len(nets), BY_TRADE, "needs a win and a loss")
    with localcontext(MONEY):
        return ClockedFigure(float((sum(won, ZERO) / len(won)) / (sum(lost, ZERO) / len(lost))), len(nets), BY_TRADE)


def r_distribution(trades: Iterable[Trade]) -> RDistribution:
    """Returns how outcomes in R are distributed."""
    in_r = sorted(float(trade.pnl_r) for trade in trades if trade.pnl_r is not None)
    counts = Counter(R_BINS[_r_bin(r)] for r in in_r)
    quantiles = {f"{100 * share:.0f} %": _quantile(in_r, share) for share in R_QUANTILES} if in_r else {}
    return RDistribution(
        n=len(in_r), clock=BY_TRADE, bins={name: counts[name] for name in R_BINS}, quantiles=quantiles,
        worst=in_r[0] if in_r else None, best=in_r[-1] if in_r else None,
    )  # fmt: skip


def _r_bin(r: float) -> int:
    if r == 0:
        return 3
    return bisect_left((-2.0, -1.0, 0.0), r) if r < 0 else 4 + bisect_left((1.0, 2.0), r)


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Returns a quantile of sorted values, between two of them in proportion.

    >>> _quantile([1.0, 2.0, 3.0, 4.0], 0.5), _quantile([1.0], 0.95)
    (2.5, 1.0)
    """
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def streaks(trades: Iterable[Trade]) -> Streaks:
    """Returns wins and losses in a row, of trades in order of their exits."""
    nets = _nets(trades)
    longest = {1: 0, -1: 0}
    current, lost, costliest = 0, ZERO, ZERO
    with localcontext(MONEY):
        for net in nets:
            sign = 1 if net > 0 else -1 if net < 0 else 0
            current = current + sign if sign and current * sign >= 0 else sign
            lost = lost + net if sign < 0 and current < -1 else net if sign < 0 else ZERO
            costliest = min(costliest, lost)
            if sign:
                longest[sign] = max(longest[sign], abs(current))
    return Streaks(n=len(nets), clock=BY_TRADE, longest_win=longest[1], longest_loss=longest[-1], current=current,
                   costliest_usd=costliest)  # fmt: skip


# ---- by group ------------------------------------------------------------------------------------------------------------


def _groups(
    trades: Iterable[Trade], name_of: Callable[[Trade], str], order: Sequence[str] | None = None
) -> tuple[GroupFigures, ...]:
    grouped: dict[str, list[Trade]] = {}
    for trade in trades:
        grouped.setdefault(name_of(trade), []).append(trade)
    names = [name for name in order if name in grouped] if order else sorted(grouped)
    return tuple(GroupFigures.of(name, outcome_sums(grouped[name])) for name in names)


def _largest(groups: Sequence[GroupFigures]) -> tuple[GroupFigures, ...]:
    return tuple(sorted(groups, key=lambda group: (-group.n, group.name))[:MAX_SYMBOLS])


def month_table(trades: Iterable[Trade], daily: DailyEquity | None) -> tuple[MonthFigures, ...]:
    """Returns one row for each month, from the first record to the last."""
    by_month = {group.name: group for group in _groups(trades, _month_of_exit)}
    changes = {} if daily is None or daily.in_money or daily.is_ruined else _monthly_changes(daily)
    found: list[MonthFigures] = []
    for month in sorted(by_month.keys() | changes.keys()):
        group = by_month.get(month) or GroupFigures.of(month, outcome_sums(()))
        found.append(MonthFigures(month, group.n, group.net_pnl_usd, group.win_rate, changes.get(month)))
    return tuple(found)


def _month_of_exit(trade: Trade) -> str:
    return f"{ended_day(trade.exit_at or trade.entry_at):%Y-%m}"


def _monthly_changes(daily: DailyEquity) -> Mapping[str, float]:
    ends: dict[str, float] = {}
    for day, value in zip(daily.days, daily.values, strict=True):
        ends[f"{day:%Y-%m}"] = float(value)
    before = [float(daily.start), *ends.values()]
    return {month: end / start - 1.0 for (month, end), start in zip(ends.items(), before, strict=False)}


# ---- against holding -------------------------------------------------------------------------------------------------------


def covers(first_bar_end: datetime, last_bar_end: datetime, start: datetime, end: datetime) -> bool:
    """Returns True if bars from one moment to another cover most of a time."""
    gap = (end - start) * MAX_GAP_SHARE
    return first_bar_end < last_bar_end and first_bar_end - start <= gap and end - last_bar_end <= gap


def _compare_with_holding(prices: Sequence[HeldPrice], own: ClockedFigure) -> HoldComparison:
    hold = sum(price.change for price in prices) / len(prices)
    difference = None if own.value is None else own.value - hold
    return HoldComparison(clock="first to last record, prices from bars", n=len(prices), held=tuple(prices), hold_return=hold,
                          own_return=own.value, difference=difference, why=own.why)  # fmt: skip
