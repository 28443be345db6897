"""Evidence: statistics of trades in situations like the present one, with weights that do not depend on the outcome.

Every trade that may teach counts, weighted by similarity, age and confidence alone. A win and a loss of the same kind have the
same weight, and shuffling outcomes changes no weight. Only these numbers may be used for a size or a belief. n_eff is the
effective sample size; the interval of the mean is Student's with n_eff - 1 degrees of freedom.

R from stops (and R stated by the source) is one unit, R from ATR another, typical losses in money a third: they are never mixed,
and the answer names the one it uses (`outcome_units`). The suggested size uses stops alone. Trades of one signal count as one.

Numbers are unrounded inside; `rounded` gives them six significant digits in answers.

>>> from datetime import UTC, datetime
>>> at = datetime(2026, 6, 5, tzinfo=UTC)
>>> sums = weighted_sums([WeightedTrade(1.0, 2.0, at, "a"), WeightedTrade(1.0, -1.0, at, "b"), WeightedTrade(2.0, -1.0, at, "c")])
>>> sums.n_eff, sums.mean_r, sums.win_rate, sums.median_r
(2.66666666667, -0.25, 0.25, -1.0)
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass, replace
from datetime import datetime
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar

from memtape.core.memory.episodes import NOT_TAUGHT, Episode, RSource, believed_outcome
from memtape.core.memory.outcome_units import NO_UNIT, STOPS, OutcomeUnit, Signal, pick_unit, signal_of
from memtape.core.original.kelly_formulas import kelly_bet_of_r, kelly_exact, kelly_from_memory
from memtape.core.recall import sizing
from memtape.core.recall.query import Query, SizeBasis, age_days, compared_fields
from memtape.core.recall.scoring import confidence_factor, evidence_weight, faded
from memtape.core.recall.sizing import SizingHint
from memtape.core.statistics import beta_quantile, mean, normal_quantile
from memtape.core.value_class import dataclass

MIN_N_EFF = 10.0  # effective trades
BINS = ("<=-2R", "-2R..-1R", "-1R..0", "0", "0..1R", "1R..2R", ">2R")
NEGLIGIBLE_R = 1e-9  # rounding error of a sum of thousands; a smaller R is zero
RECENT_TRADES = 50
Z95 = normal_quantile(0.95)

T = TypeVar("T")


class WeightedTrade(NamedTuple):
    """A trade with its weight. Trades of one signal count as one; None: a signal of its own."""

    weight: float
    r: float
    exit_at: datetime
    id: str
    signal: Signal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedSums:
    """Sums over trades, from which all numbers are computed. Wins and losses are summed apart, so that nothing cancels."""

    n: int = 0  # signals
    trades: int = 0
    total: float = 0.0  # of weights
    squares: float = 0.0  # of weights
    won: float = 0.0  # weight of wins
    won_r: float = 0.0  # weight times R of wins
    lost: float = 0.0
    lost_r: float = 0.0  # above zero
    settled_squares: float = 0.0  # of the weights of wins and losses, without scratches
    deviation: float = 0.0  # weighted squares about the mean
    median_r: float | None = None
    bins: tuple[float, ...] = (0.0,) * len(BINS)
    wins: int = 0
    sum_r: float = 0.0  # unweighted
    worst_r: float | None = None
    worst_id: str | None = None
    first_exit: datetime | None = None
    last_exit: datetime | None = None

    @property
    def n_eff(self) -> float:
        """Kish's effective sample size, to 12 digits: ten equal trades are ten, in any order of summation."""
        return significant_digits(self.total**2 / self.squares, 12) if self.squares else 0.0

    @property
    def mean_r(self) -> float | None:
        return (self.won_r - self.lost_r) / self.total if self.total else None

    @property
    def win_rate(self) -> float | None:
        return self.won / self.total if self.total else None


def weighted_sums(observed: Sequence[WeightedTrade]) -> WeightedSums:
    """Returns the sums, each computed without intermediate rounding."""
    if not observed:
        return WeightedSums()
    trades = one_per_signal(observed)
    won, lost = [t for t in trades if t.r > 0], [t for t in trades if t.r < 0]
    total = math.fsum(t.weight for t in trades)
    won_r, lost_r = math.fsum(t.weight * t.r for t in won), math.fsum(-t.weight * t.r for t in lost)
    mean = (won_r - lost_r) / total if total else 0.0
    worst = min(observed, key=lambda t: (t.r, -t.exit_at.timestamp(), t.id))
    by_bin: list[list[float]] = [[] for _ in BINS]
    for t in trades:
        by_bin[outcome_bin(t.r)].append(t.weight)
    return WeightedSums(
        n=len(trades), trades=len(observed), total=total, squares=math.fsum(t.weight**2 for t in trades),
        won=math.fsum(t.weight for t in won), won_r=won_r, lost=math.fsum(t.weight for t in lost), lost_r=lost_r,
        settled_squares=math.fsum(t.weight**2 for t in (*won, *lost)),
        deviation=math.fsum(t.weight * (t.r - mean) ** 2 for t in trades), median_r=_median(trades, total),
        bins=tuple(math.fsum(weights) for weights in by_bin), wins=len(won), sum_r=math.fsum(t.r for t in trades),
        worst_r=worst.r, worst_id=worst.id, first_exit=min(t.exit_at for t in observed),
        last_exit=max(t.exit_at for t in observed),
    )  # fmt: skip


def one_per_signal(trades: Sequence[WeightedTrade]) -> list[WeightedTrade]:
    """Returns one trade for each signal, with the mean outcome and the mean weight of its trades.

    Twenty variants of one entry are one observation of the market: counted as twenty, they would make any figure look certain.

    >>> from datetime import UTC, datetime
    >>> at, signal = datetime(2026, 6, 5, tzinfo=UTC), ("XAU", "long", 0)
    >>> [t[:2] for t in one_per_signal([WeightedTrade(1.0, 2.0, at, "a", signal), WeightedTrade(0.5, -1.0, at, "b", signal)])]
    [(0.75, 0.5)]
    """
    signals: dict[object, list[WeightedTrade]] = {}
    for trade in trades:
        signals.setdefault(trade.id if trade.signal is None else trade.signal, []).append(trade)
    return [same[0] if len(same) == 1 else _mean_trade(same) for same in signals.values()]


def _mean_trade(same: Sequence[WeightedTrade]) -> WeightedTrade:
    r = math.fsum(t.r for t in same) / len(same)
    weight = math.fsum(t.weight for t in same) / len(same)
    return WeightedTrade(weight, 0.0 if abs(r) < NEGLIGIBLE_R else r, max(t.exit_at for t in same), same[0].id, same[0].signal)


def outcome_bin(r: float) -> int:
    """Returns the index of the bin of an outcome. A bin includes its upper end; 0 has its own bin.

    >>> [BINS[outcome_bin(r)] for r in (-2.0, -1.0, -0.5, 0.0, 1.0, 2.5)]
    ['<=-2R', '-2R..-1R', '-1R..0', '0', '0..1R', '>2R']
    """
    if r == 0:
        return 3
    return bisect_left((-2.0, -1.0, 0.0), r) if r < 0 else 4 + bisect_left((1.0, 2.0), r)


def _median(trades: Sequence[WeightedTrade], total: float) -> float | None:
    """Returns the weighted median of R; the middle of two values if the weight divides exactly between them."""
    ordered = sorted((t.r, t.weight) for t in trades if t.weight > 0)
    if not ordered:
        return None
    for at, passed in enumerate(accumulate(weight for _, weight in ordered)):
        over = passed / total - 0.5
        if abs(over) <= 1e-9 and at + 1 < len(ordered):
            return 0.5 * (ordered[at][0] + ordered[at + 1][0])
        if over > 0:
            return ordered[at][0]
    return ordered[-1][0]


# --- evidence -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BaseRate:
    """The same trades with equal weights: what happens in any situation."""

    n: int
    win_rate: float | None
    mean_r: float | None


@dataclass(frozen=True, slots=True)
class EvidenceSize:
    """The suggested risk per trade as a share of equity per 1R, and why."""

    sizing: SizingHint
    reasons: tuple[str, ...]

    @property
    def f(self) -> float:
        return self.sizing.f


@dataclass(frozen=True, slots=True)
class ComparedSize:
    """The size of another rule, for comparison only."""

    name: str
    f: float
    warning: str


@dataclass(frozen=True, slots=True)
class ShadowSummary:
    """Trades that were decided against, each signal once: their number, and the mean result that they would have had."""

    n: int = 0
    mean_r: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Statistics of trades in situations like the present one."""

    n: int  # signals; trades entered in the same second on the same symbol and side are one
    n_trades: int
    n_eff: float
    win_rate: float | None
    mean_r: float | None
    mean_r_interval: tuple[float, float] | None  # 90 %
    median_r: float | None
    distribution: dict[str, float]  # effective trades by R
    base: BaseRate
    worst_r: float | None
    worst_id: str | None
    r_source: RSource | None
    first_exit: datetime | None
    last_exit: datetime | None
    n_claimed: int  # trades that only the agent reported, counted or not
    shadows: ShadowSummary
    hint: EvidenceSize
    beside: tuple[ComparedSize, ...] = ()
    unit: OutcomeUnit = NO_UNIT  # of every outcome above


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceSums:
    """The sums behind evidence: by stops, by ATR, by money, and the trades that are not counted.

    Sums by ATR and by money may be left empty where stops are worth ten trades: they are not used then.
    """

    stops: WeightedSums
    by_atr: WeightedSums
    by_money: WeightedSums  # empty if every outcome that money knows is known by a stop
    money: OutcomeUnit  # the agent's unit of money
    any_stop: bool  # True if any R comes from an observed stop, not only from a stated R
    n_claimed: int
    shadows: ShadowSummary

    @property
    def units(self) -> tuple[OutcomeUnit, ...]:
        """The units in which an outcome is known, the best first."""
        stops = OutcomeUnit("stop" if self.any_stop else "stated")
        found = ((stops, self.stops), (OutcomeUnit("atr_proxy"), self.by_atr), (self.money, self.by_money))
        return tuple(unit for unit, sums in found if sums.n)

    def of(self, unit: OutcomeUnit) -> WeightedSums:
        """Returns the sums in a unit."""
        return {"atr_proxy": self.by_atr, "money": self.by_money}.get(unit.source or "", self.stops)


def evidence_unit(sums: EvidenceSums) -> OutcomeUnit:
    """Returns the unit of an answer: the best that is worth ten trades, else the one that is worth most."""
    return pick_unit([(unit, sums.of(unit).n_eff) for unit in sums.units])


def evidence_sums(episodes: Sequence[Episode], query: Query, money: OutcomeUnit = NO_UNIT) -> EvidenceSums:
    """Returns the sums over all known episodes that match the query. `money` is the agent's unit of money."""
    teaching = [e for e in episodes if e.teaches]
    counted = [e for e in teaching if query.claims_count or not e.claimed]
    shadows = [
        WeightedTrade(1.0, r, e.exit_at, e.id, signal_of(e)) for e in episodes
        if e.kind == "shadow" and e.teach not in NOT_TAUGHT and (r := believed_outcome(e, query.claims_count)) is not None
    ]  # fmt: skip
    weights: dict[str, float] = {}

    def sums_in(unit: OutcomeUnit) -> WeightedSums:
        found = []
        for e in counted:
            if (r := unit.outcome(e)) is not None:
                weight = weights[e.id] if e.id in weights else weights.setdefault(e.id, trade_weight(e, query))
                found.append(WeightedTrade(weight, r, e.exit_at, e.id, signal_of(e)))
        return weighted_sums(found)

    only_money = any(money.outcome(e) is not None and e.r_source not in STOPS for e in counted)
    return EvidenceSums(
        stops=sums_in(OutcomeUnit("stop")), by_atr=sums_in(OutcomeUnit("atr_proxy")),
        by_money=sums_in(money) if only_money else WeightedSums(), money=money,
        any_stop=any(e.r_source == "stop" and e.pnl_r is not None for e in counted),
        n_claimed=sum(e.claimed for e in teaching),
        shadows=_shadow_summary(shadows),
    )  # fmt: skip


def _shadow_summary(shadows: Sequence[WeightedTrade]) -> ShadowSummary:
    signals = one_per_signal(shadows)
    return ShadowSummary(len(signals), math.fsum(t.r for t in signals) / len(signals) if signals else None)


def trade_weight(episode: Episode, query: Query) -> float:
    """Returns the weight of a trade as evidence for the query's situation."""
    then, now = compared_fields(episode, query)
    parameters = query.parameters
    rec = faded(age_days(episode.exit_at, query), parameters.tau_days, parameters.exponent)
    return evidence_weight(
        then, now, rec, confidence_factor(episode.confidence), parameters.power, parameters.labels, parameters.numbers
    )


def evidence_from_sums(found: EvidenceSums, query: Query, beside: tuple[ComparedSize, ...] = ()) -> Evidence:
    """Returns the evidence from its sums."""
    unit = evidence_unit(found)
    sums = found.of(unit)
    scale = sums.n_eff / sums.total if sums.total else 0.0
    return Evidence(
        n=sums.n, n_trades=sums.trades, n_eff=sums.n_eff, win_rate=sums.win_rate, mean_r=sums.mean_r,
        mean_r_interval=_interval(sums),
        median_r=sums.median_r, distribution={name: held * scale for name, held in zip(BINS, sums.bins, strict=True)},
        base=BaseRate(sums.n, sums.wins / sums.n if sums.n else None, sums.sum_r / sums.n if sums.n else None),
        worst_r=sums.worst_r, worst_id=sums.worst_id, r_source=unit.source, first_exit=sums.first_exit, last_exit=sums.last_exit,
        n_claimed=found.n_claimed, shadows=found.shadows, beside=beside, unit=unit,
        hint=_hint(found.stops if query.size_by == "stops" else sums, query.affect.risk_appetite, query.size_by),
    )  # fmt: skip


def _interval(sums: WeightedSums) -> tuple[float, float] | None:
    """Returns the 90 % interval of the mean; None if the effective sample is below 1.5 trades."""
    n, mean = sums.n_eff, sums.mean_r
    if mean is None or n < 1.5:
        return None
    half = _reach(n - 1.0) * math.sqrt(sums.deviation / sums.total / (n - 1.0))
    return mean - half, mean + half


def _reach(df: float) -> float:
    """Returns the two-sided 90 % quantile of Student's t with df degrees of freedom.

    From 200 on it uses the expansion about the normal (Abramowitz & Stegun 26.7.5), which has nine correct digits there.

    >>> round(_reach(10.0), 6), round(_reach(200.0), 6)
    (1.812461, 1.652508)
    """
    if df < 200.0:
        x = beta_quantile(0.1, 0.5 * df, 0.5)
        return math.sqrt(df * (1.0 - x) / x) if x > 0 else math.inf
    z = Z95
    terms = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + sum(term / df**power for power, term in enumerate(terms, 1))


def _hint(stops: WeightedSums, risk_appetite: float, size_by: SizeBasis) -> EvidenceSize:
    settled = stops.won + stops.lost
    if not settled:
        return EvidenceSize(SizingHint(0.0, 0.0), ("No size suggested: no trade with a stop or a stated R has won or lost",))
    n_eff = significant_digits(settled**2 / stops.settled_squares, 12) if stops.settled_squares else 0.0
    found = sizing.bounded_kelly(
        n_eff, stops.won / settled, stops.lost_r / stops.lost if stops.lost else None,
        stops.won_r / stops.won if stops.won else None, risk_appetite, at_least=MIN_N_EFF,
    )  # fmt: skip
    # The words are about stops; a size by another unit is never shown to an agent.
    return EvidenceSize(found, _reasons(found, risk_appetite) if size_by == "stops" else ())


def payoff_words(found: SizingHint) -> str:
    """Returns the mean win and the mean loss in words.

    >>> payoff_words(SizingHint(0.01, 40.0, 0.5, 0.9, 1.6)), payoff_words(SizingHint(0.02, 40.0, 1.0, 1.0, 1.6))
    ('+1.6R against -0.9R', '+1.6R against -1R, which is assumed because none lost')
    """
    lost = "-1R, which is assumed because none lost" if found.p_hat == 1.0 else f"-{found.loss or 0.0:.1f}R"
    return f"+{found.win or 0.0:.1f}R against {lost}"


def _reasons(found: SizingHint, risk_appetite: float, cap: float = 0.02) -> tuple[str, ...]:
    if found.n_eff < MIN_N_EFF:
        enough = f"at least {MIN_N_EFF:.0f} needed (only trades with a stop or a stated R count)"
        return (f"No size suggested: effective sample {found.n_eff:.1f}, {enough}",)
    reasons = [f"Effective sample of trades with a stop: {found.n_eff:.1f}"]
    if found.win is None or found.p_bound is None:
        return (*reasons, "none of them won: no size suggested")
    reasons.append(f"they won {100 * (found.p_hat or 0.0):.0f} %, {payoff_words(found)} on average")
    reasons.append(f"shrunk towards no edge, the cautious end of that win rate is {100 * found.p_bound:.0f} %")
    if not found.f:
        return (*reasons, "which leaves no edge: no size suggested")
    most = f"; never more than {100 * cap:.0f} %" if found.f >= cap else ""
    reasons.append(f"a quarter of Kelly is {25 * max(0.0, found.f_raw or 0.0):.2f} % of equity{most}")
    braked = f"the drawdown leaves {100 * risk_appetite:.0f} % of it: {100 * found.f:.2f} %"
    return (*reasons, braked) if risk_appetite < 0.995 else tuple(reasons)


def compared_sizes(literal: Sequence[sizing.Weighted], recent: Sequence[float], risk_appetite: float) -> tuple[ComparedSize, ...]:
    """Returns the sizes of other rules: the original's, from its 50 best memories, and those from the last 50 outcomes."""
    return (
        ComparedSize("kelly of the original", kelly_from_memory(literal, risk_appetite).f,
               "Computed from memories that were chosen for having won: it bets on a fair coin"),
        ComparedSize("kelly of the last 50", kelly_from_memory([(1.0, r) for r in recent], risk_appetite).f,
               "Takes the win rate of the last 50 trades as certain, whatever the situation"),
        *_exactly(recent),
    )  # fmt: skip


def _exactly(recent: Sequence[float]) -> Iterable[ComparedSize]:
    """Yields exact Kelly, and Kelly as the share that a losing bet costs; both in full, not a quarter."""
    pairs = [(1.0, r) for r in recent]
    won, lost = [r for r in recent if r > 0], [-r for r in recent if r < 0]
    if (root := kelly_exact(pairs)) is not None:
        yield ComparedSize(
            "whole kelly of the last 50, exact", root, "The growth-optimal share if the last 50 were the whole truth"
        )
    if won and lost:
        share = kelly_bet_of_r(len(won) / len(recent), mean(lost), mean(won))
        yield ComparedSize("whole kelly of the last 50, as a bet", share, "The share lost by a losing bet, not the share per 1R")


# --- rounding -----------------------------------------------------------------------------------------------------------


def rounded(value: T) -> T:
    """Returns a number, or a value with all its numbers, to six significant digits.

    >>> rounded((2 / 3, 1234567.0, 1e-17, 3, None))
    (0.666667, 1234570.0, 0.0, 3, None)
    """
    found: Any = value
    if isinstance(value, float):
        found = (
            0.0 if abs(value) < NEGLIGIBLE_R else significant_digits(significant_digits(value, 12), 6)
        )  # twice: sums differ in the last digits
    elif isinstance(value, tuple):
        found = tuple(rounded(each) for each in value)
    elif isinstance(value, dict):
        found = {key: rounded(each) for key, each in value.items()}
    elif is_dataclass(value) and not isinstance(value, type):
        found = replace(value, **{each.name: rounded(getattr(value, each.name)) for each in fields(value)})
    return found  # type: ignore[no-any-return]


def significant_digits(value: float, n: int) -> float:
    """Returns a number to n significant digits."""
    return float(f"{value:.{n - 1}e}")
