"""Analyses the behaviour of an agent: its habits over the latest trades, each figure with its sample or what is missing.

The window adapts to the agent: 20 trades if it is erratic, up to 100 if it is steady, by the stability of the last 100 trades
before the newest one (so that a trade never influences its own window). The trades before the window are the benchmark: they give
the expected win rate and mean outcome, and Kelly's fraction.

Outcomes are in one unit (`outcome_units`): R by stops where ten trades have a stop, else R by ATR, else typical losses in money.
What is about exits and sizes needs stops: how far a trade went to its target, Kelly's fraction, the first partial.

Drift is a change of level in outcomes, in risk or in hold time (`level_shifts`): outcomes alone show luck, not habits.
Risk and hold enter as logarithms, because a habit changes by a factor. The three are calibrated together: without any change they
raise an alarm in less than 5 % of each 100 trades. An alarm ends when the values are back, or after 100 trades, when what
changed is the habit.

Only trades that teach are used, and no claim that the broker has not confirmed. Like beliefs, this is a function of the
episodes known at a moment.

>>> behaviour([]).win_rate
Figure(value=None, n=0, why='needs 3 closed trades with a known outcome, has 0')
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from statistics import median
from typing import Literal, NamedTuple

from memtape.core.brief.number_format import signed_figure
from memtape.core.memory import habits
from memtape.core.memory.episodes import Episode
from memtape.core.memory.habits import MIN_HALVES_TRADES, MIN_SIDE_TRADES
from memtape.core.memory.level_shifts import SHIFT_TRADES, level_shifts
from memtape.core.memory.outcome_units import STOPS, OutcomeUnit, choose_unit, in_unit
from memtape.core.original.memories import window_literal
from memtape.core.recall.sizing import kelly_from_average
from memtape.core.statistics import mean, spread
from memtape.core.value_class import dataclass

DriftOf = Literal["outcome", "risk", "hold"]

WINDOW_TRADES = 100
MIN_PATTERN_TRADES = 10
MIN_BENCHMARK_TRADES = 10
LIKE_USUAL_SHARE = 0.2  # within a fifth of the usual
STOPPED_AT_R = -0.9  # if the exit cause is unknown, a loss of about 1R was the stop
# The minimum spread of a baseline: outcomes ½R; a tenth in risk, a quarter in hold (both logarithms).
LEAST_SPREAD: dict[DriftOf, float] = {"outcome": 0.5, "risk": 0.1, "hold": 0.25}


class Figure(NamedTuple):
    """A figure with its sample size; None if the sample is too small, with what is missing."""

    value: float | None
    n: int
    why: str = ""


class GroupOutcome(NamedTuple):
    """The outcome of a group of trades."""

    n: int
    win_rate: float | None
    mean_r: float | None


@dataclass(frozen=True, slots=True)
class Pattern:
    """A repeated behaviour: how often, in which situations, and with which outcome."""

    kind: Literal["stop distance", "first partial", "side"]
    sentence: str
    typical: float | None  # the median, or the share of longs
    frequency: Figure  # the share of trades that are like it; n is out of how many
    outcome: GroupOutcome  # of those that are
    otherwise: GroupOutcome  # of those that are not
    contexts: tuple[tuple[str, int], ...] = ()  # regimes in which it occurred, most frequent first


@dataclass(frozen=True, slots=True)
class DriftReport:
    """A change that is happening now: its direction, its size in deviations, and since which trade."""

    of: DriftOf
    method: str  # how it was tested: window, the latest trades against those before
    detected: bool
    n: int
    direction: str | None = None
    magnitude: float | None = None
    since: str | None = None  # trade id
    rang_at: datetime | None = None
    why: str = ""


class ClosedCounts(NamedTuple):
    """Realised and open gains and losses, counted at the moments of decision."""

    gains: int
    paper_gains: int
    losses: int
    paper_losses: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """An agent's habits at a moment; strategy and symbol are None if there are several."""

    strategy: str | None
    symbol: str | None
    n: int  # trades known
    window: int  # trades in the window, if there are as many
    window_of_the_original: int  # at least 50
    first_exit: datetime | None  # of the window
    last_exit: datetime | None
    claimed: int  # trades in the window that only the agent reported
    unit: OutcomeUnit  # of outcomes
    win_rate: Figure
    mean_r: Figure
    mean_hold_minutes: Figure
    entry_timing: Figure  # early (-1) to late (+1) against the decision
    exit_timing: Figure  # early (-1) to late (+1) against the target
    size_v_kelly: Figure  # mean risk as a multiple of Kelly's fraction
    size_variation: Figure  # deviation of the risk by its mean
    disposition: Figure  # how much longer losers are held than winners
    bracket: Figure  # the hold ratio that stop and target alone would show, with no behaviour in it
    disposition_effect: Figure  # Odean's: share of gains realised minus share of losses
    loss_aversion: Figure
    recency_bias: Figure
    momentum_bias: Figure  # contrarian (-1) to following (+1)
    stability: Figure
    expected_win_rate: Figure
    expected_mean_r: Figure
    kelly: Figure
    drifts: tuple[DriftReport, ...]
    patterns: tuple[Pattern, ...]

    @property
    def drift_detected(self) -> bool:
        return any(drift.detected for drift in self.drifts)


def behaviour(
    episodes: Iterable[Episode], counts: ClosedCounts | None = None, kelly: float | None = None, claims_count: bool = True,
    money: OutcomeUnit | None = None,
) -> Behaviour:  # fmt: skip
    """Returns the habits in these episodes; `kelly` overrides the fraction implied by the trades before the window.

    `money` is the agent's unit of money, if these are not all its episodes.
    """
    as_stored = habit_trades(episodes, claims_count)
    unit = choose_unit(as_stored, claims_count, money)
    trades = in_unit(as_stored, unit)
    steady = _stability(trades[-WINDOW_TRADES - 1 : -1]).value
    size = habits.window(0.5 if steady is None else steady)
    earlier, latest = trades[:-size], trades[-size:]
    with_stops = [e for e in as_stored[-size:] if e.r_source in STOPS]
    rs = [e.pnl_r for e in latest]
    before = _known([e.pnl_r for e in earlier])
    stops_before = _known([e.pnl_r for e in as_stored[:-size] if e.r_source in STOPS])
    fraction = _kelly(stops_before) if kelly is None else Figure(kelly, len(stops_before))
    risks = [e.risk_share for e in latest]
    return Behaviour(
        strategy=_only([e.strategy for e in trades]), symbol=_only([e.symbol for e in trades]), n=len(trades), window=size,
        window_of_the_original=window_literal(0.5 if steady is None else steady),
        first_exit=latest[0].exit_at if latest else None, last_exit=latest[-1].exit_at if latest else None,
        claimed=sum(e.claimed for e in latest), unit=unit,
        win_rate=_over(_known(rs), habits.win_rate, "closed trades with a known outcome"),
        mean_r=_over(_known(rs), habits.mean_r, "closed trades with a known outcome"),
        mean_hold_minutes=_over(_known([e.hold_minutes for e in latest]), mean, "trades with a known hold"),
        entry_timing=_over([max(-1.0, min(1.0, e.late_atr)) for e in latest if e.late_atr is not None], mean,
                           "trades with a decided price and an ATR"),
        exit_timing=_over(_exits(with_stops), mean, "trades with a target that were not stopped out"),
        size_v_kelly=_size_v_kelly(_known(risks), fraction),
        size_variation=_over(_known(risks), lambda xs: spread(xs) / mean(xs) if mean(xs) else None, "trades with a known risk"),
        disposition=_disposition(latest), bracket=_bracket(with_stops), disposition_effect=_disposition_effect(counts),
        loss_aversion=_loss_aversion(risks, rs), recency_bias=_recency_bias(risks, rs),
        momentum_bias=_over([_sign(e) * max(-1.0, min(1.0, e.move_atr)) for e in latest if e.move_atr is not None], mean,
                            "trades with the move before entry"),
        stability=_stability(latest),
        expected_win_rate=_over(before, habits.win_rate, "trades before the window", MIN_BENCHMARK_TRADES),
        expected_mean_r=_over(before, habits.mean_r, "trades before the window", MIN_BENCHMARK_TRADES),
        kelly=fraction, drifts=drift_reports(trades), patterns=_patterns(latest, with_stops, unit),
    )  # fmt: skip


def habit_trades(episodes: Iterable[Episode], claims_count: bool) -> list[Episode]:
    """Returns the trades that habits are computed from, each once, in the order in which they closed."""
    ordered = sorted(episodes, key=lambda e: (e.exit_at, e.id))
    return list({e.id: e for e in ordered if e.teaches and (claims_count or not e.claimed)}.values())


def realised_counts(
    moments: Iterable[tuple[datetime, Sequence[float], Sequence[float]]], way: Literal["portfolio", "single"] = "portfolio"
) -> ClosedCounts:
    """Returns what was realised and what was left open, from (moment, results realised, results on paper of what stayed open).

    With several positions only moments with a close are decisions about all of them; with one position at a time, every
    moment of holding it is. A result of zero is neither a gain nor a loss.

    >>> at = datetime(2026, 6, 5)
    >>> decisions = [(at, [120.0], [-40.0, 15.0]), (at, [], [30.0])]
    >>> tuple(realised_counts(decisions)), tuple(realised_counts(decisions, "single"))
    ((1, 1, 0, 1), (1, 2, 0, 1))
    """
    taken = [(realised, paper) for _, realised, paper in moments if realised or way == "single"]
    done, left = [x for realised, _ in taken for x in realised], [x for _, paper in taken for x in paper]
    return ClosedCounts(sum(x > 0 for x in done), sum(x > 0 for x in left), sum(x < 0 for x in done), sum(x < 0 for x in left))


# --- single figures ------------------------------------------------------------------------------------------------------


def _over(
    values: Sequence[float], figure: Callable[[Sequence[float]], float | None], what: str, at_least: int = MIN_SIDE_TRADES
) -> Figure:
    if len(values) < at_least:
        return Figure(None, len(values), f"needs {at_least} {what}, has {len(values)}")
    value = figure(values)
    return Figure(value, len(values), "" if value is not None else f"the {what} are all zero")


def _exits(trades: Sequence[Episode]) -> list[float]:
    """Returns how early or late each exit was, for trades that had a target and were not stopped out."""
    values = [
        habits.exit_timing(e.pnl_r, e.target_r, e.mfe_r)
        for e in trades
        if e.pnl_r is not None and e.target_r is not None and e.mfe_r is not None and not stopped_out(e)
    ]
    return _known(values)


def stopped_out(episode: Episode) -> bool:
    """Returns True if the stop closed a trade: as its source says, else by a loss of about 1R."""
    if episode.trigger is not None:
        return "stop" in episode.trigger.lower()
    return episode.pnl_r is not None and episode.pnl_r <= STOPPED_AT_R


def _size_v_kelly(risks: Sequence[float], kelly: Figure) -> Figure:
    if kelly.value is None:
        return Figure(None, len(risks), f"Kelly's fraction {kelly.why}")
    if kelly.value <= 0:
        return Figure(None, len(risks), f"Kelly's fraction is {kelly.value:.3f}: it advises no bet to compare with")
    fraction = kelly.value
    return _over(risks, lambda xs: mean(xs) / fraction, "trades with a known risk")


def _kelly(before: Sequence[float]) -> Figure:
    if len(before) < MIN_BENCHMARK_TRADES:
        return Figure(None, len(before), f"needs {MIN_BENCHMARK_TRADES} trades with a stop before the window, has {len(before)}")
    value = kelly_from_average(sum(r > 0 for r in before) / len(before), mean(before))
    return Figure(value, len(before), "" if value is not None else "has no win to go by before the window")


def _disposition(trades: Sequence[Episode]) -> Figure:
    winners, losers = habits.holds_by_outcome((e.pnl_r, e.hold_minutes) for e in trades)
    why = _both_sides(len(winners), len(losers), "winners", "losers")
    value = None if why else habits.hold_ratio(winners, losers)
    return Figure(value, len(winners) + len(losers), why or ("" if value is not None else "winners were held for no time"))


def _bracket(trades: Sequence[Episode]) -> Figure:
    """Returns the hold ratio that the usual target and stop give on a market without drift."""
    targets = _known([e.target_r for e in trades])
    if len(targets) < MIN_SIDE_TRADES:
        return Figure(None, len(targets), f"needs {MIN_SIDE_TRADES} trades with a stop and a target, has {len(targets)}")
    return Figure(habits.bracket_hold_ratio(mean(targets), 1.0), len(targets), "")


def _disposition_effect(counts: ClosedCounts | None) -> Figure:
    if counts is None:
        return Figure(None, 0, "needs ticks with what was held at each close")
    gains, losses = counts.gains + counts.paper_gains, counts.losses + counts.paper_losses
    why = _both_sides(gains, losses, "gains", "losses")
    return Figure(None if why else habits.realised_shares(*counts).effect, gains + losses, why)


def _loss_aversion(risks: Sequence[float | None], rs: Sequence[float | None]) -> Figure:
    after_loss, after_win = habits.risks_after(risks, rs)
    why = _both_sides(len(after_win), len(after_loss), "trades with a known risk after a win", "after a loss")
    value = None if why else habits.loss_aversion(risks, rs)
    return Figure(value, len(after_win) + len(after_loss), why or ("" if value is not None else "nothing was risked after a win"))


def _recency_bias(risks: Sequence[float | None], rs: Sequence[float | None]) -> Figure:
    n = sum(risk is not None for risk in risks[1:])
    if n < MIN_SIDE_TRADES:
        return Figure(None, n, f"needs {MIN_SIDE_TRADES} trades with a known risk after another, has {n}")
    value = habits.recency_bias(risks, rs)
    return Figure(value, n, "" if value is not None else "the risk never varies")


def _stability(trades: Sequence[Episode]) -> Figure:
    risks, holds = _known([e.risk_share for e in trades]), _known([e.hold_minutes for e in trades])
    if (n := min(len(risks), len(holds))) < MIN_HALVES_TRADES:
        return Figure(None, n, f"needs {MIN_HALVES_TRADES} trades with a known risk and hold, has {n}")
    return Figure(habits.stability(risks, holds), n)


def _both_sides(one: int, other: int, name: str, other_name: str) -> str:
    if min(one, other) >= MIN_SIDE_TRADES:
        return ""
    return f"needs {MIN_SIDE_TRADES} {name} and {MIN_SIDE_TRADES} {other_name}, has {one} and {other}"


# --- drift ---------------------------------------------------------------------------------------------------------------


WORDS = {"outcome": ("improving", "degrading"), "risk": ("larger", "smaller"), "hold": ("longer", "shorter")}


def drift_values(trades: Sequence[Episode]) -> dict[DriftOf, list[tuple[Episode, float]]]:
    """Returns what drift is looked for in: outcomes, and the logarithms of risk and time held, each with its trade."""
    return {
        "outcome": [(e, e.pnl_r) for e in trades if e.pnl_r is not None],
        "risk": [(e, math.log(e.risk_share)) for e in trades if e.risk_share is not None and e.risk_share > 0],
        "hold": [(e, math.log(e.hold_minutes + 1.0)) for e in trades if e.hold_minutes is not None],
    }


def drift_reports(trades: Sequence[Episode]) -> tuple[DriftReport, ...]:
    """Returns for outcomes, risk and time held whether they are changing, from trades in the order in which they closed."""
    return tuple(_drift(of, values) for of, values in drift_values(trades).items())


def _drift(of: DriftOf, values: Sequence[tuple[Episode, float]]) -> DriftReport:
    if len(values) < SHIFT_TRADES:
        return DriftReport(of, "window", False, len(values), why=f"needs {SHIFT_TRADES} trades, has {len(values)}")
    shifts = level_shifts([x for _, x in values], LEAST_SPREAD[of])
    if not shifts or shifts[-1].ended is not None:
        return DriftReport(of, "window", False, len(values))
    last = shifts[-1]
    return DriftReport(
        of, "window", True, len(values), WORDS[of][last.direction == "degrading"], last.magnitude, values[last.began][0].id,
        values[last.at][0].exit_at,
    )  # fmt: skip


# --- patterns ------------------------------------------------------------------------------------------------------------


def _patterns(trades: Sequence[Episode], with_stops: Sequence[Episode], unit: OutcomeUnit) -> tuple[Pattern, ...]:
    """Returns the patterns of some trades, whose outcomes are in the unit; a first partial is in R, so it needs a stop."""
    partial_r = {e.id: e.partial_r for e in with_stops}
    stops = [(e, e.stop_atr) for e in trades if e.stop_atr is not None]
    partials = [(e, r) for e in trades if (r := partial_r.get(e.id)) is not None]
    return (
        _around_the_usual("stop distance", stops, "Stop {:.2g} ATR away", unit),
        _around_the_usual("first partial", partials, "First part closed at {:.2g}R", unit, of=len(trades)),
        _side(trades, unit),
    )  # fmt: skip


def _around_the_usual(
    kind: Literal["stop distance", "first partial"], values: Sequence[tuple[Episode, float]], words: str, unit: OutcomeUnit,
    of: int | None = None,
) -> Pattern:  # fmt: skip
    """Returns a pattern by its median: how many trades (out of `of`) come within a fifth of it, and how those went."""
    if len(values) < MIN_PATTERN_TRADES:
        why = f"needs {MIN_PATTERN_TRADES} trades with a {kind}, has {len(values)}"
        sentence = f"Too few trades with a {kind} to show a pattern."
        return Pattern(kind, sentence, None, Figure(None, len(values), why), _went(()), _went(()))
    usual, n = median(x for _, x in values), of or len(values)
    like = [e for e, x in values if abs(x - usual) <= LIKE_USUAL_SHARE * abs(usual)]
    unlike = [e for e, x in values if abs(x - usual) > LIKE_USUAL_SHARE * abs(usual)]
    sentence = f"{words.format(usual)} in {len(like)} of {n} trades{_outcome_words(_went(like), unit)}."
    regimes = Counter(e.regime for e in like if e.regime is not None)
    contexts = tuple(sorted(regimes.items(), key=lambda one: (-one[1], one[0])))
    return Pattern(kind, sentence, usual, Figure(len(like) / n, n), _went(like), _went(unlike), contexts)


def _side(trades: Sequence[Episode], unit: OutcomeUnit) -> Pattern:
    long, short = [e for e in trades if e.side == "long"], [e for e in trades if e.side == "short"]
    if len(trades) < MIN_PATTERN_TRADES:
        why = f"needs {MIN_PATTERN_TRADES} trades, has {len(trades)}"
        sentence = "Too few trades to show a preferred side."
        return Pattern("side", sentence, None, Figure(None, len(trades), why), _went(long), _went(short))
    share = len(long) / len(trades)
    of_longs, of_shorts = _outcome_words(_went(long), unit), _outcome_words(_went(short), unit)
    sentence = f"Long in {len(long)} of {len(trades)} trades{of_longs}; short in {len(short)}{of_shorts}."
    regimes = Counter(e.regime for e in long if e.regime is not None)
    contexts = tuple(sorted(regimes.items(), key=lambda one: (-one[1], one[0])))
    return Pattern("side", sentence, share, Figure(share, len(trades)), _went(long), _went(short), contexts)


def _went(trades: Sequence[Episode]) -> GroupOutcome:
    rs = _known([e.pnl_r for e in trades])
    enough = len(rs) >= MIN_SIDE_TRADES
    return GroupOutcome(len(rs), habits.win_rate(rs) if enough else None, habits.mean_r(rs) if enough else None)


def _outcome_words(went: GroupOutcome, unit: OutcomeUnit) -> str:
    shown = {"money": f" {unit.noun}", "atr_proxy": "R by ATR"}.get(unit.source or "", "R")
    return "" if went.mean_r is None else f" ({signed_figure(went.mean_r)}{shown} on average)"


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _only(names: Sequence[str]) -> str | None:
    return names[0] if names and len(set(names)) == 1 else None


def _sign(episode: Episode) -> int:
    return 1 if episode.side == "long" else -1
