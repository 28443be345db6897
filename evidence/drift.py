"""Drift: how often a steady agent raises an alarm, and how soon a change is noticed.

Drift is asked for every 10 trades, as an agent that looks at its behaviour would do: outcomes, risk and time held together. What
drift says after n trades depends on those trades only, so one pass over a history gives the answers of all polls. A sigma is the
standard deviation of one trade's figure. Where outcomes rise or fall, every outcome is moved by one sigma; where the win rate
rises, the mean rises by one sigma because more trades reach their target, and outcomes vary more than before.

The threshold was tuned on other seeds, on normal outcomes and on those with a correlation of 0.15 and 0.3 from one to the next.
Worlds called fresh were written down after it was settled. The baseline is the earlier rule on the first histories of each kind:
Page and Hinkley's test with threshold 10 on each of the three figures, and CUSUM with threshold 10 on outcomes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from evidence.beliefs import EMPTY, START
from evidence.figures import Figure, Scale, percent_of, share_figure
from memtape.core.memory.behaviour import LEAST_SPREAD, drift_values
from memtape.core.memory.episodes import Episode
from memtape.core.memory.habits import cusum, page_hinkley
from memtape.core.memory.level_shifts import level_shifts
from memtape.core.statistics import mean, spread

RUNS: dict[Scale, int] = {"small": 20, "full": 500}
COMPARED_RUNS = 60  # histories on which the earlier rule is tried
Floats = NDArray[np.float64]
Change = Callable[[np.random.Generator, list[Floats]], None]
Draw = Callable[[np.random.Generator, int], Floats]


def _bracket(chance: np.random.Generator, n: int) -> Floats:
    return np.where(chance.random(n) < 1 / 3, 2.0, -1.0)


def _heavy(chance: np.random.Generator, n: int) -> Floats:
    return chance.standard_t(3, n)


def _normal(chance: np.random.Generator, n: int) -> Floats:
    return chance.standard_normal(n)


def _alike(by: float) -> Draw:
    """Values with this correlation from one to the next."""

    def draw(chance: np.random.Generator, n: int) -> Floats:
        values = chance.standard_normal(n)
        values[1:] *= math.sqrt(1 - by**2)
        for at in range(1, n):
            values[at] += by * values[at - 1]
        return values

    return draw


def _smoothed(chance: np.random.Generator, n: int) -> Floats:
    """Values that share some of their noise with the two before."""
    noise = chance.standard_normal(n + 2)
    return (noise[2:] + 0.2 * noise[1:-1] + 0.1 * noise[:-2]) / math.sqrt(1.05)


def _repeated_bracket(chance: np.random.Generator, n: int) -> Floats:
    """Brackets of -1R and +2R; every sixth outcome repeats the one before."""
    values = _bracket(chance, n)
    for at in np.flatnonzero(chance.random(n) < 1 / 6):
        values[at] = values[at - 1] if at else values[at]
    return values


def _in_turns(chance: np.random.Generator, n: int) -> Floats:
    """Calm and wild times: the spread of outcomes follows the size of the one before."""
    noise, values, variance = chance.standard_normal(n), np.zeros(n), 1.0
    for at in range(n):
        values[at] = noise[at] * math.sqrt(variance)
        variance = 0.1 + 0.15 * values[at] ** 2 + 0.75 * variance
    return values


def _of_bracket(target: float, wins: float) -> Draw:
    return lambda chance, n: np.where(chance.random(n) < wins, target, -1.0)


def _long_tail(chance: np.random.Generator, n: int) -> Floats:
    """Gains with a long tail: the logarithm is normal."""
    return np.exp(chance.standard_normal(n)) - math.exp(0.5)


_mild, _strong = _alike(0.15), _alike(0.3)
_far, _farther, _near = _of_bracket(3.0, 1 / 4), _of_bracket(5.0, 1 / 6), _of_bracket(1 / 3, 3 / 4)
STEADY: tuple[tuple[str, Draw, Draw, Draw], ...] = (
    ("brackets of -1R and +2R", _bracket, _normal, _normal), ("outcomes with heavy tails", _heavy, _normal, _normal),
    ("normal outcomes", _normal, _normal, _normal), ("mild autocorrelation in outcomes and risk", _mild, _mild, _normal),
    ("brackets of -1R and +3R", _far, _normal, _normal), ("brackets of -1R and +5R", _farther, _normal, _normal),
    ("brackets of -1R and +9R", _of_bracket(9.0, 0.1), _normal, _normal), ("brackets of -1R and +R/3", _near, _normal, _normal),
    ("gains with a long tail", _long_tail, _normal, _normal),
    ("autocorrelation of 0.3 in outcomes and risk", _strong, _strong, _normal),
    ("fresh: mild autocorrelation in outcomes, risk and time held", _mild, _mild, _mild),
    ("fresh: outcomes and risk share noise with the two before", _smoothed, _smoothed, _normal),
    ("fresh: brackets, every sixth outcome repeats the one before", _repeated_bracket, _normal, _normal),
    ("fresh: calm and wild times", _in_turns, _normal, _normal),
    ("fresh: brackets of -1R and +4R, mild autocorrelation in risk and time held", _of_bracket(4.0, 1 / 5), _mild, _mild),
)  # fmt: skip
RISK_SIGMA, HOLD_SIGMA = 0.4, 1.0  # of logarithms


def study(scale: Scale) -> list[Figure]:
    """Returns the figures of drift."""
    return [*_steady(RUNS[scale]), *_changes(RUNS[scale])]


def episodes_of(outcomes: Floats, risks: Floats, holds: Floats) -> list[Episode]:
    """Returns trades with these outcomes in R, logarithms of risk and logarithms of the time held."""
    found = []
    for n, (r, risk, hold) in enumerate(zip(outcomes.tolist(), risks.tolist(), holds.tolist(), strict=True)):
        at = START + timedelta(hours=8 * n)
        told = EMPTY | {
            "id": f"t{n:05}", "known_from": at, "entry_at": at - timedelta(minutes=30), "exit_at": at, "pnl_r": r,
            "risk_share": 0.01 * math.exp(risk), "hold_minutes": 60.0 * math.exp(hold),
        }  # fmt: skip
        found.append(Episode(**told))  # type: ignore[arg-type]
    return found


def alarms(history: list[Episode]) -> list[tuple[int, int]]:
    """Returns after how many trades each alarm begins, and with how many it is over; polls from then on do not see it."""
    found = []
    for of, values in drift_values(history).items():
        for shift in level_shifts([x for _, x in values], LEAST_SPREAD[of]):
            found.append((shift.at + 1, len(history) + 1 if shift.ended is None else shift.ended + 1))
    return found


def alarm_at(found: list[tuple[int, int]], polls: range | tuple[int, ...]) -> bool:
    """Returns True if one of the polls, after so many trades, sees an alarm."""
    return any(begins <= poll < ends for begins, ends in found for poll in polls)


def alarm_before(history: list[Episode]) -> bool:
    """Returns True if the earlier rule reported one: an alarm of either test within the last 100 trades."""
    figures = [([x for _, x in values], LEAST_SPREAD[of]) for of, values in drift_values(history).items()]
    return any(_rings(values, least) for values, least in figures) or _cusum_rings(*figures[0])


def _rings(values: list[float], least_spread: float) -> bool:
    if len(values) < 20:
        return False
    unit = max(least_spread, spread(values[:50]))
    scaled, start, last = [value / unit for value in values], 0, -1
    while (drift := page_hinkley(scaled[start:])).alarm is not None:
        last = start + drift.alarm
        start = last + 1
    return last >= max(0, len(values) - 100)


def _cusum_rings(values: list[float], least_spread: float) -> bool:
    before, latest = values[:-100], values[-100:]
    if len(before) < 100:
        return False
    middle, unit = mean(before), max(least_spread, spread(before))
    return cusum([(value - middle) / unit for value in latest]).alarm is not None


def _steady(runs: int) -> list[Figure]:
    figures = []
    for at, (words, outcome, risk, hold) in enumerate(STEADY):
        now, before, polls = [], [], range(10, 301, 10)
        for seed in range(runs):
            chance = np.random.default_rng(30_000_000 + 100_000 * at + seed)
            history = episodes_of(outcome(chance, 300), RISK_SIGMA * risk(chance, 300), HOLD_SIGMA * hold(chance, 300))
            now.append(alarm_at(alarms(history), polls))
            if seed < COMPARED_RUNS:
                before.append(any(alarm_before(history[:n]) for n in polls))
        name = f"no change, 300 trades polled every 10, {words}: an alarm"
        figures.append(share_figure(name, now, at_most=0.15, baseline=f"{percent_of(before)} before"))
    return figures


def _moved(which: int, by: float) -> Change:
    """Moves outcomes (0), risk (1) or time held (2) of the trades 150 to 210."""

    def change(chance: np.random.Generator, parts: list[Floats]) -> None:
        parts[which][150:210] += by

    return change


def _wins_more(target: float, wins: float) -> Change:
    """Lets more of the trades 150 to 210 reach their target, so that their mean is one sigma higher."""
    draw = _of_bracket(target, wins + math.sqrt(wins * (1.0 - wins)))

    def change(chance: np.random.Generator, parts: list[Floats]) -> None:
        parts[0][150:210] = draw(chance, 60)

    return change


def _changes(runs: int) -> list[Figure]:
    """A change by one sigma after 150 trades; 60 trades later the values return."""
    root = math.sqrt
    cases: list[tuple[str, Draw, Change, float | None]] = [
        ("brackets of -1R and +2R fall", _bracket, _moved(0, -root(2.0)), 0.9),
        ("normal outcomes fall", _normal, _moved(0, -1.0), 0.9),
        ("brackets of -1R and +2R rise", _bracket, _moved(0, root(2.0)), 0.9),
        ("normal outcomes rise", _normal, _moved(0, 1.0), 0.9),
        ("risk grows", _bracket, _moved(1, RISK_SIGMA), 0.9), ("the time held grows", _bracket, _moved(2, HOLD_SIGMA), 0.9),
        ("risk shrinks", _bracket, _moved(1, -RISK_SIGMA), 0.9), ("the time held shrinks", _bracket, _moved(2, -HOLD_SIGMA), 0.9),
        ("brackets of -1R and +3R fall", _far, _moved(0, -root(3.0)), 0.9),
        ("brackets of -1R and +3R rise", _far, _moved(0, root(3.0)), 0.9),
        ("brackets of -1R and +5R fall", _farther, _moved(0, -root(5.0)), 0.9),
        ("brackets of -1R and +5R rise", _farther, _moved(0, root(5.0)), 0.9),
        ("outcomes with heavy tails fall", _heavy, _moved(0, -root(3.0)), 0.9),
        ("gains with a long tail fall", _long_tail, _moved(0, -2.16), 0.9),
        ("the win rate of brackets of -1R and +2R rises", _bracket, _wins_more(2.0, 1 / 3), 0.9),
        ("the win rate of brackets of -1R and +3R rises", _far, _wins_more(3.0, 1 / 4), None),
        ("the win rate of brackets of -1R and +5R rises", _farther, _wins_more(5.0, 1 / 6), None),
        ("outcomes with mild autocorrelation fall", _mild, _moved(0, -1.0), None),
    ]  # fmt: skip
    figures = []
    for at, (words, outcome, change, bar) in enumerate(cases):
        found, ended, before = [], [], []
        for seed in range(runs):
            chance = np.random.default_rng(40_000_000 + 100_000 * at + seed)
            parts = [outcome(chance, 290), RISK_SIGMA * _normal(chance, 290), HOLD_SIGMA * _normal(chance, 290)]
            change(chance, parts)
            history = episodes_of(*parts)
            rung = alarms(history)
            if alarm_at(rung, (150,)):
                continue  # a false alarm, which is counted above
            found.append(alarm_at(rung, (160, 170, 180)))
            ended.append(not alarm_at(rung, (290,)))
            if seed < COMPARED_RUNS:
                before.append(any(alarm_before(history[:n]) for n in (160, 170, 180)))
        baseline = f"{percent_of(before)} before, with the false alarms above"
        name = f"{words} by one sigma after 150 trades: noticed within 30"
        figures.append(share_figure(name, found, at_least=bar, baseline=baseline))
        figures.append(share_figure("the same, back after 60 trades: no alarm 80 trades later", ended, at_least=0.90))
    return figures
