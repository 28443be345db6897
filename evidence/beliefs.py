"""Beliefs and drift: how many beliefs one edge gives, how often luck is believed, and how often a steady agent raises an alarm.

Histories are simulated. A trade has a regime, a volatility, a session and a side; it wins with the base rate, and where an edge
was planted, 30 points more often in a trending-up market. Labels are independent from trade to trade, or regime and volatility
last for days at three trades a day. Luck without an edge is independent, or comes in runs: a hidden state that lasts for days and
moves the win rate up or down, or outcomes that repeat the one before. The baseline for beliefs is the earlier rule: every group
that passes Benjamini and Hochberg's gate at 10 % by Fisher's exact test against all trades outside it.

Drift is asked for every 10 trades, as an agent that looks at its behaviour would do: outcomes, risk and time held together. The
baseline is the earlier rule: Page and Hinkley's test with threshold 10 on each of the three, and CUSUM with threshold 10 on
outcomes. A sigma is the standard deviation of one trade's figure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evidence.figures import Figure, Scale
from memtape.core.memory.behaviour import drift_reports
from memtape.core.memory.belief_cells import CellCounts, count_cells
from memtape.core.memory.belief_formation import belief_keys, beliefs_from_counts
from memtape.core.memory.beliefs import BELIEVED_FROM_TRADES, Belief, accepted_cells, difference_p_value
from memtape.core.memory.episodes import EPISODE_FIELDS, Episode
from memtape.core.memory.habits import cusum, page_hinkley
from memtape.core.statistics import mean, spread

START = datetime(2026, 1, 5, 8, tzinfo=UTC)
LABELS = {
    "regime": ("trending_up", "trending_down", "ranging", "volatile"), "volatility_regime": ("low", "normal", "high"),
    "session": ("asia", "london", "overlap", "newyork"), "side": ("long", "short"),
}  # fmt: skip
EDGE = {"regime": "trending_up"}
RUNS: dict[Scale, int] = {"small": 20, "full": 300}
EMPTY = dict.fromkeys(EPISODE_FIELDS) | {
    "kind": "trade", "symbol": "XAUUSD", "strategy": "VB", "tier": 0, "claimed": False, "source": "broker", "r_source": "stop",
    "teach": "learn", "tags": (), "side": "long",
}  # fmt: skip
Floats = NDArray[np.float64]
Codes = dict[str, NDArray[np.int64]]
WinRates = Callable[[np.random.Generator, int], Floats]


def study(scale: Scale) -> list[Figure]:
    """Returns the figures of beliefs and of drift."""
    return [*_edges(RUNS[scale]), *_luck(RUNS[scale], scale), *_steady(RUNS[scale], scale), *_changes(RUNS[scale])]


# --- histories -----------------------------------------------------------------------------------------------------------


def lasting(chance: np.random.Generator, n: int, choices: int, trades: float) -> NDArray[np.int64]:
    """Returns a state for each trade that lasts for some trades on average before another one is drawn."""
    drawn, changes = chance.integers(choices, size=n), chance.random(n) < 1.0 / trades
    changes[0] = True
    return drawn[np.maximum.accumulate(np.where(changes, np.arange(n), 0))]


def labels(chance: np.random.Generator, n: int, lasts: float, regimes: int = 4) -> Codes:
    """Returns labels for n trades; regime and volatility last for `lasts` trades on average."""
    sizes = {"regime": regimes, "volatility_regime": 3, "session": 4, "side": 2}
    return {name: lasting(chance, n, size, lasts if "regime" in name else 1.0) for name, size in sizes.items()}


def trades(codes: Codes, won: NDArray[np.bool_]) -> list[Episode]:
    """Returns a history of three trades a day."""
    found = []
    for n in range(len(won)):
        at = START + timedelta(hours=8 * n)
        said = {name: LABELS[name][int(code[n])] for name, code in codes.items()}
        told = EMPTY | said | {
            "id": f"t{n:05}", "known_from": at, "entry_at": at - timedelta(minutes=30), "exit_at": at,
            "pnl_r": 1.0 if won[n] else -1.0,
        }  # fmt: skip
        found.append(Episode(**told))  # type: ignore[arg-type]
    return found


def lucky_days(rate: float, by: float, lasts: float) -> WinRates:
    """Returns win rates that are `by` higher or lower for some trades on end."""
    return lambda chance, n: rate + by * (2.0 * lasting(chance, n, 2, lasts) - 1.0)


def repeated(rate: float, share: float) -> WinRates:
    """Returns outcomes as rates of 0 and 1: each trade repeats the one before with some probability."""
    return lambda chance, n: (chance.random(n) < rate)[_origins(chance, n, share)].astype(np.float64)


def _origins(chance: np.random.Generator, n: int, share: float) -> NDArray[np.int64]:
    fresh = chance.random(n) >= share
    fresh[0] = True
    return np.maximum.accumulate(np.where(fresh, np.arange(n), 0))


# --- beliefs -------------------------------------------------------------------------------------------------------------


def believed_now(counts: CellCounts) -> list[Belief]:
    """Returns what memtape believes after the last trade."""
    found = beliefs_from_counts(counts, (), START + timedelta(days=400))
    return [belief for belief in found if belief.status == "believed"]


def believed_before(counts: CellCounts) -> list[dict[str, str]]:
    """Returns the conditions of the groups that the earlier rule believed."""
    p_values, conditions, sizes = {}, {}, {}
    for key in belief_keys(counts):
        inside, around = counts.cells[key], counts.cells[key.known]
        if around.n - inside.n >= 10:
            name = str(key)
            p_values[name] = difference_p_value(inside.wins, inside.n, around.wins - inside.wins, around.n - inside.n)
            conditions[name], sizes[name] = dict(key.conditions), inside.n
    return [conditions[name] for name in accepted_cells(p_values) if sizes[name] >= BELIEVED_FROM_TRADES]


class EdgeResult(NamedTuple):
    """What one history with an edge gave."""

    found: bool
    beliefs: int
    mirrored: bool  # a belief of another regime, or of a part of the planted one
    before: int
    mirrored_before: bool
    inside: int  # trades in the regime with the edge


def edge_result(seed: int, n: int, lasts: float, regimes: int) -> EdgeResult:
    """Returns what a history gave in which a trending-up market wins 30 points more often than 45 %."""
    chance = np.random.default_rng(seed)
    codes = labels(chance, n, lasts, regimes)
    counts = count_cells(trades(codes, chance.random(n) < np.where(codes["regime"] == 0, 0.75, 0.45)), True)
    now, before = [belief.proposition.when for belief in believed_now(counts)], believed_before(counts)
    return EdgeResult(EDGE in now, len(now), mirrors(now), len(before), mirrors(before), int((codes["regime"] == 0).sum()))


def mirrors(believed: Iterable[dict[str, str]] | Iterable[dict[str, object]]) -> bool:
    """Returns True if a belief is about another regime or about a part of the planted edge."""
    return any("regime" in when and when != EDGE for when in believed)


def _edges(runs: int) -> list[Figure]:
    figures = []
    for words, lasts, regimes in (("labels independent", 1.0, 4), ("regimes last 4 days", 12.0, 3)):
        long = [edge_result(seed, 1000, lasts, regimes) for seed in range(runs)]
        short = [edge_result(10_000 + seed, 300, lasts, regimes) for seed in range(runs)]
        figures += [
            _share(f"one edge, 1,000 trades, {words}: at most two beliefs", [one.beliefs <= 2 for one in long], at_least=0.95,
                   baseline=f"{_mean(one.before <= 2 for one in long)} before, with {np.mean([one.before for one in long]):.0f} "
                   "beliefs on average"),
            _share("the same: a mirror image or a part is believed too", [one.mirrored for one in long], at_most=0.10,
                   baseline=f"{_mean(one.mirrored_before for one in long)} before"),
            _share("the same: the edge is found", [one.found for one in long], at_least=0.95),
            _share(f"one edge, 300 trades, {words}: found", [one.found for one in short], at_least=0.80),
        ]  # fmt: skip
    hard = [edge_result(20_000 + seed, 300, 12.0, 4) for seed in range(runs)]
    return [
        *figures,
        _share("one edge, 300 trades, four regimes that last 4 days: found", [one.found for one in hard]),
        _share(f"the same, of those with {BELIEVED_FROM_TRADES} trades in that regime, as a belief needs",
               [one.found for one in hard if one.inside >= BELIEVED_FROM_TRADES], at_least=0.80),
    ]  # fmt: skip


def _luck(runs: int, scale: Scale) -> list[Figure]:
    """Histories without an edge: the share in which anything is believed."""
    cases: list[tuple[str, int, float, WinRates, bool]] = [
        (f"independent luck, win rate {100 * rate:.0f} %", 300, 1.0, _constant(rate), True) for rate in (0.35, 0.5, 0.65)
    ]
    lengths = (300, 1000) if scale == "full" else (300,)
    for n in lengths:
        cases += [
            ("luck that lasts 3 days (win rate 30 or 70 %), regimes 4 days", n, 12.0, lucky_days(0.5, 0.2, 9.0), True),
            ("luck that lasts 5 days (win rate 20 or 50 %), regimes 5 days", n, 15.0, lucky_days(0.35, 0.15, 15.0), True),
            ("luck that lasts 5 days (win rate 50 or 80 %), regimes 5 days", n, 15.0, lucky_days(0.65, 0.15, 15.0), True),
            ("every third outcome repeats the one before, regimes 4 days", n, 12.0, repeated(0.45, 0.33), True),
            ("luck that lasts 16 days (win rate 35 or 65 %), regimes 24 days", n, 72.0, lucky_days(0.5, 0.15, 48.0), False),
        ]  # fmt: skip
    figures = []
    for at, (words, n, lasts, rates, has_bar) in enumerate(cases):
        now, before = [], []
        for seed in range(runs):
            chance = np.random.default_rng(100_000 * (at + 1) + seed)
            counts = count_cells(trades(labels(chance, n, lasts), chance.random(n) < rates(chance, n)), True)
            now.append(bool(believed_now(counts)))
            before.append(bool(believed_before(counts)))
        name = f"no edge, {n:,} trades, {words}: something is believed"
        figures.append(_share(name, now, at_most=0.10 if has_bar else None, baseline=f"{_mean(before)} before"))
    return figures


def _constant(rate: float) -> WinRates:
    return lambda chance, n: np.full(n, rate)


# --- drift ---------------------------------------------------------------------------------------------------------------

Draw = Callable[[np.random.Generator, int], Floats]


def _bracket(chance: np.random.Generator, n: int) -> Floats:
    return np.where(chance.random(n) < 1 / 3, 2.0, -1.0)


def _heavy(chance: np.random.Generator, n: int) -> Floats:
    return chance.standard_t(3, n)


def _normal(chance: np.random.Generator, n: int) -> Floats:
    return chance.standard_normal(n)


def _alike(chance: np.random.Generator, n: int) -> Floats:
    """Values with a correlation of 0.15 from one to the next."""
    noise, values = chance.standard_normal(n) * math.sqrt(1 - 0.15**2), np.zeros(n)
    for at in range(n):
        values[at] = noise[at] + (0.15 * values[at - 1] if at else 0.0)
    return values


def _of_bracket(target: float, wins: float) -> Draw:
    return lambda chance, n: np.where(chance.random(n) < wins, target, -1.0)


def _long_tail(chance: np.random.Generator, n: int) -> Floats:
    """Gains with a long tail: the logarithm is normal."""
    return np.exp(chance.standard_normal(n)) - math.exp(0.5)


_far, _farther, _near = _of_bracket(3.0, 1 / 4), _of_bracket(5.0, 1 / 6), _of_bracket(1 / 3, 3 / 4)
STEADY: tuple[tuple[str, Draw, Draw], ...] = (
    ("brackets of -1R and +2R", _bracket, _normal), ("outcomes with heavy tails", _heavy, _normal),
    ("normal outcomes", _normal, _normal), ("mild autocorrelation in outcomes and risk", _alike, _alike),
    ("brackets of -1R and +3R", _far, _normal), ("brackets of -1R and +5R", _farther, _normal),
    ("brackets of -1R and +9R", _of_bracket(9.0, 0.1), _normal), ("brackets of -1R and +R/3", _near, _normal),
    ("gains with a long tail", _long_tail, _normal),
)  # fmt: skip
RISK_SIGMA, HOLD_SIGMA = 0.4, 1.0  # of logarithms


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


def alarm_now(history: list[Episode]) -> bool:
    """Returns True if behaviour reports a drift after the last of these trades."""
    return any(report.detected for report in drift_reports(history))


def alarm_before(history: list[Episode]) -> bool:
    """Returns True if the earlier rule reported one: an alarm of either test within the last 100 trades."""
    figures = (
        ([e.pnl_r or 0.0 for e in history], 0.5), ([math.log(e.risk_share or 1.0) for e in history], 0.1),
        ([math.log((e.hold_minutes or 0.0) + 1.0) for e in history], 0.25),
    )  # fmt: skip
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


def _steady(runs: int, scale: Scale) -> list[Figure]:
    figures = []
    for at, (words, outcome, figure) in enumerate(STEADY):
        now, before = [], []
        for seed in range(runs):
            chance = np.random.default_rng(10_000_000 + 100_000 * at + seed)
            history = episodes_of(
                outcome(chance, 300), RISK_SIGMA * figure(chance, 300), HOLD_SIGMA * _normal(chance, 300)
            )
            polls = [history[:n] for n in range(10, 301, 10)]
            now.append(any(alarm_now(seen) for seen in polls))
            before.append(any(alarm_before(seen) for seen in polls))
        name = f"no change, 300 trades polled every 10, {words}: an alarm"
        # Dependent trades are no steady ones: reported, without a bar.
        at_most = None if "autocorrelation" in words else 0.15
        figures.append(_share(name, now, at_most=at_most, baseline=f"{_mean(before)} before"))
    return figures


def _changes(runs: int) -> list[Figure]:
    """A change by one sigma after 150 trades; 60 trades later the values return."""
    cases: list[tuple[str, Draw, int, float, float | None]] = [
        ("brackets of -1R and +2R fall", _bracket, 0, -math.sqrt(2.0), 0.9), ("normal outcomes fall", _normal, 0, -1.0, 0.9),
        ("brackets of -1R and +2R rise", _bracket, 0, math.sqrt(2.0), 0.9), ("normal outcomes rise", _normal, 0, 1.0, 0.9),
        ("risk grows", _bracket, 1, RISK_SIGMA, 0.9), ("the time held grows", _bracket, 2, HOLD_SIGMA, 0.9),
        ("risk shrinks", _bracket, 1, -RISK_SIGMA, 0.9), ("the time held shrinks", _bracket, 2, -HOLD_SIGMA, 0.9),
        ("brackets of -1R and +3R fall", _far, 0, -math.sqrt(3.0), 0.9),
        ("brackets of -1R and +3R rise", _far, 0, math.sqrt(3.0), None),
        ("brackets of -1R and +5R fall", _farther, 0, -math.sqrt(5.0), None),
        ("brackets of -1R and +5R rise", _farther, 0, math.sqrt(5.0), None),
        ("outcomes with heavy tails fall", _heavy, 0, -math.sqrt(3.0), None),
        ("outcomes with mild autocorrelation fall", _alike, 0, -1.0, None),
    ]  # fmt: skip
    figures = []
    for at, (words, outcome, which, by, bar) in enumerate(cases):
        found, ended, before = [], [], []
        for seed in range(runs):
            chance = np.random.default_rng(20_000_000 + 100_000 * at + seed)
            parts = [outcome(chance, 290), RISK_SIGMA * _normal(chance, 290), HOLD_SIGMA * _normal(chance, 290)]
            parts[which][150:210] += by
            history = episodes_of(*parts)
            if alarm_now(history[:150]):
                continue  # a false alarm, which is counted above
            found.append(any(alarm_now(history[:n]) for n in (160, 170, 180)))
            before.append(any(alarm_before(history[:n]) for n in (160, 170, 180)))
            ended.append(not alarm_now(history))
        baseline = f"{_mean(before)} before, with the false alarms above"
        name = f"{words} by one sigma after 150 trades: noticed within 30"
        figures.append(_share(name, found, at_least=bar, baseline=baseline))
        figures.append(_share("the same, back after 60 trades: no alarm 80 trades later", ended, at_least=0.90))
    return figures


def _share(
    name: str, hits: list[bool], at_most: float | None = None, at_least: float | None = None, baseline: str = ""
) -> Figure:
    return Figure(name, float(np.mean(hits)), len(hits), "share of histories", at_most, at_least, baseline)


def _mean(hits: Iterable[bool]) -> str:
    return f"{100 * float(np.mean(list(hits))):.0f} %"
