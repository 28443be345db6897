"""Habits of an agent: rates, timing, sizing after wins and losses, drift.

Every figure is None if its sample is too small; a 0 would read as "no bias". Hold times alone prove little: a bracket order holds
winners and losers for different times without any behaviour (`bracket_hold_ratio`), so the shares of gains and of losses that
were realised (`realised_shares`) complement the hold ratio.

Drift is a change of level (`level_shifts`). `page_hinkley` and `cusum` are the plain formulas, for comparison; their thresholds
are not calibrated for several figures that are watched together.

>>> round(hold_ratio([3600, 5400], [9000, 7200], at_least=1), 6), round(bracket_hold_ratio(target=2, stop=1), 6)
(0.8, -0.375)

References: Shefrin & Statman 1985; Odean 1998; Coval & Shumway 2005; Page 1954; Kolmogorov-Smirnov.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Literal

from memtape.core.statistics import mean
from memtape.core.value_class import dataclass

MIN_SIDE_TRADES = 3
MIN_HALVES_TRADES = 20


def window(stability: float) -> int:
    """Returns the number of trades in the window: 20 for an erratic agent, 100 for a steady one.

    >>> window(0.0), window(0.1), window(1.0)
    (20, 28, 100)
    """
    return math.floor(20.0 + 80.0 * _clip(stability, 0.0, 1.0) + 0.5)


def win_rate(pnl_rs: Sequence[float | None]) -> float | None:
    """Returns the share of wins among closed trades; a scratch counts as closed, not as a win."""
    known = [r for r in pnl_rs if r is not None]
    return sum(r > 0 for r in known) / len(known) if known else None


def mean_r(pnl_rs: Sequence[float | None]) -> float | None:
    """Returns the mean outcome of closed trades, in R."""
    known = [r for r in pnl_rs if r is not None]
    return mean(known) if known else None


def holds_by_outcome(trades: Iterable[tuple[float | None, float | None]]) -> tuple[list[float], list[float]]:
    """Returns the hold times of winners and of losers, from (outcome in R, hold); scratches are neither.

    >>> holds_by_outcome([(2.0, 60.0), (-1.0, 90.0), (0.0, 5.0), (None, 5.0)])
    ([60.0], [90.0])
    """
    known = [(r, held) for r, held in trades if r is not None and held is not None]
    return [held for r, held in known if r > 0], [held for r, held in known if r < 0]


def hold_ratio(winners: Sequence[float], losers: Sequence[float], at_least: int = MIN_SIDE_TRADES) -> float | None:
    """Returns how much longer losers were held than winners: 0.5 means 50 % longer."""
    if min(len(winners), len(losers)) < max(at_least, 1) or not (held := mean(winners)):
        return None
    return mean(losers) / held - 1.0


def bracket_hold_ratio(target: float, stop: float) -> float:
    """Returns the hold ratio of a bracket on a market without drift, which contains no behaviour."""
    whole = target + stop
    won, lost = (whole**2 - stop**2) / 3.0, stop * (2.0 * whole - stop) / 3.0
    return lost / won - 1.0


@dataclass(frozen=True, slots=True)
class RealisedShares:
    """The realised shares of all gains and of all losses; effect = gains - losses, with its standard error."""

    gains: float | None
    losses: float | None
    effect: float | None
    error: float | None


def realised_shares(gains: int, paper_gains: int, losses: int, paper_losses: int) -> RealisedShares:
    """Returns Odean's measure of the disposition effect, from counts at the moments of decision.

    >>> shares = realised_shares(30, 90, 20, 140)
    >>> shares.gains, shares.losses, shares.effect, round(shares.error, 6)
    (0.25, 0.125, 0.125, 0.047393)
    """
    of_gains, of_losses = gains + paper_gains, losses + paper_losses
    pgr, plr = gains / of_gains if of_gains else None, losses / of_losses if of_losses else None
    if pgr is None or plr is None:
        return RealisedShares(pgr, plr, None, None)
    error = math.sqrt(pgr * (1.0 - pgr) / of_gains + plr * (1.0 - plr) / of_losses)
    return RealisedShares(pgr, plr, pgr - plr, error)


def loss_aversion(risks: Sequence[float | None], pnl_rs: Sequence[float | None], at_least: int = MIN_SIDE_TRADES) -> float | None:
    """Returns how much less is risked after a loss than after a win; risks are shares of equity, in the order of the trades.

    >>> loss_aversion([1.0, 1.0, 0.5] * 4, [1.0, -1.0, 1.0] * 4)
    0.5
    """
    after_loss, after_win = risks_after(risks, pnl_rs)
    if min(len(after_loss), len(after_win)) < max(at_least, 1) or not (usual := mean(after_win)):
        return None
    return 1.0 - mean(after_loss) / usual


def risks_after(risks: Sequence[float | None], pnl_rs: Sequence[float | None]) -> tuple[list[float], list[float]]:
    """Returns the known risks of trades after a loss, and of trades after a win.

    >>> risks_after([1.0, 2.0, None, 3.0], [1.0, -1.0, -1.0, 1.0])
    ([3.0], [2.0])
    """
    following = [(risk, r) for risk, r in zip(risks[1:], pnl_rs, strict=False) if risk is not None and r is not None]
    return [risk for risk, r in following if r < 0], [risk for risk, r in following if r > 0]


def recency_bias(
    risks: Sequence[float | None], pnl_rs: Sequence[float | None], memory: float = 0.7, at_least: int = MIN_SIDE_TRADES
) -> float | None:
    """Returns how much size follows recent outcomes: rank correlation of each risk with the mean outcome before it.

    >>> round(recency_bias([1.0, 2.0, 1.0, 2.0, 1.0], [1.0, -1.0, 1.0, -1.0, 1.0]), 6)
    0.894427
    """
    average, before = 0.0, []
    for r in pnl_rs:
        average = memory * average + (1.0 - memory) * (0.0 if r is None else r)
        before.append(average)
    pairs = [(risk, average) for risk, average in zip(risks[1:], before, strict=False) if risk is not None]
    return rank_correlation([risk for risk, _ in pairs], [average for _, average in pairs]) if len(pairs) >= at_least else None


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Returns Spearman's correlation, ties sharing their rank; None if one side is constant."""
    ranks_a, ranks_b = _ranks(a), _ranks(b)
    middle_a, middle_b = mean(ranks_a), mean(ranks_b)
    across = math.fsum((x - middle_a) * (y - middle_b) for x, y in zip(ranks_a, ranks_b, strict=True))
    within = math.fsum((x - middle_a) ** 2 for x in ranks_a) * math.fsum((y - middle_b) ** 2 for y in ranks_b)
    return across / math.sqrt(within) if within else None


def entry_timing(side: int, signal_price: float, entry_price: float, atr: float) -> float | None:
    """Returns early (-1) to late (+1) relative to the signal, in ATR."""
    return _clip(side * (entry_price - signal_price) / atr, -1.0, 1.0) if atr > 0 else None


def exit_timing(exit_r: float, target_r: float, mfe_r: float) -> float | None:
    """Returns early (-1) to late (+1) relative to the target; not for trades that were stopped out.

    Before the target was reached, it is the remaining distance; after that, what was given back from the best.

    >>> exit_timing(1.0, 2.0, 1.4), exit_timing(1.0, 2.0, 2.5)
    (-0.5, 0.75)
    """
    if target_r <= 0:
        return None
    if mfe_r < target_r:
        return _clip((exit_r - target_r) / target_r, -1.0, 0.0)
    return _clip((mfe_r - exit_r) / target_r, 0.0, 1.0)


def momentum_bias(entries: Sequence[tuple[int, float]]) -> float | None:
    """Returns contrarian (-1) to following (+1): the mean of side times the 20-bar return before entry, in ATR, at most one.

    >>> momentum_bias([(1, 0.5), (-1, 2.0)])
    -0.25
    """
    return mean([side * _clip(move, -1.0, 1.0) for side, move in entries]) if entries else None


def stability(risks: Sequence[float], holds: Sequence[float]) -> float:
    """Returns how similar the two halves of the window are in risk and hold time, 0 to 1; ½ with fewer than 20 trades."""
    if min(len(risks), len(holds)) < MIN_HALVES_TRADES:
        return 0.5
    return 1.0 - 0.5 * (_between_halves(risks) + _between_halves(holds))


Direction = Literal["improving", "degrading"]


@dataclass(frozen=True, slots=True)
class PageHinkley:
    """The running state of the test: the cumulative deviation from the running mean, upwards and downwards."""

    n: int = 0
    mean: float = 0.0
    up: float = 0.0
    down: float = 0.0

    def updated(self, x: float, delta: float = 0.25) -> PageHinkley:
        n = self.n + 1
        middle = self.mean + (x - self.mean) / n
        return PageHinkley(n, middle, max(0.0, self.up + (x - middle) - delta), max(0.0, self.down - (x - middle) - delta))


@dataclass(frozen=True, slots=True)
class Cusum:
    """Cumulative sums of z = (r - baseline mean) / baseline deviation, upwards and downwards."""

    up: float = 0.0
    down: float = 0.0

    def updated(self, z: float, slack: float = 0.25) -> Cusum:
        return Cusum(max(0.0, self.up + z - slack), max(0.0, self.down - z - slack))


@dataclass(frozen=True, slots=True)
class Drift:
    """The index of the first alarm (from 0) and the sums there; without an alarm, the sums at the end."""

    alarm: int | None
    direction: Direction | None
    up: float
    down: float


def page_hinkley(xs: Iterable[float], delta: float = 0.25, threshold: float = 10.0) -> Drift:
    """Returns the result of Page and Hinkley's test over r/sigma.

    >>> page_hinkley([0.2, 0.1, 0.3, 0.2, -1.5, -1.4, -1.6], threshold=2.0).alarm
    6
    """
    state = PageHinkley()
    for at, x in enumerate(xs):
        state = state.updated(x, delta)
        if (direction := alarm(state, threshold)) is not None:
            return Drift(at, direction, state.up, state.down)
    return Drift(None, None, state.up, state.down)


def cusum(zs: Iterable[float], slack: float = 0.25, threshold: float = 10.0) -> Drift:
    """Returns the result of CUSUM over outcomes relative to a baseline.

    >>> cusum([1.0] * 5, threshold=3.0)
    Drift(alarm=4, direction='improving', up=3.75, down=0.0)
    """
    state = Cusum()
    for at, z in enumerate(zs):
        state = state.updated(z, slack)
        if (direction := alarm(state, threshold)) is not None:
            return Drift(at, direction, state.up, state.down)
    return Drift(None, None, state.up, state.down)


def alarm(state: PageHinkley | Cusum, threshold: float = 10.0) -> Direction | None:
    """Returns the direction in which the sums have passed the threshold, or None."""
    if max(state.up, state.down) <= threshold:
        return None
    return "degrading" if state.down >= state.up else "improving"


def _clip(value: float, low: float, high: float) -> float:
    return max(low, min(high, value))


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [(ordered.index(value) + bisect_right(ordered, value) + 1) / 2.0 for value in values]


def _between_halves(values: Sequence[float]) -> float:
    """Returns the Kolmogorov-Smirnov distance between the first and the second half."""
    first, second = sorted(values[: len(values) // 2]), sorted(values[len(values) // 2 :])
    return max(abs(bisect_right(first, at) / len(first) - bisect_right(second, at) / len(second)) for at in (*first, *second))
