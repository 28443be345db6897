"""Beliefs: how many beliefs one edge gives, and how often luck is believed.

Histories are simulated. A trade has a regime, a volatility, a session and a side; it wins with the base rate, and where an edge
was planted, 30 points more often in a trending-up market. Labels are independent from trade to trade, or regime and volatility
last for days at three trades a day. Luck without an edge is independent, or comes in runs: a hidden state that lasts for days and
moves the win rate up or down, or outcomes that repeat the one before. The baseline for beliefs is the earlier rule: every group
that passes Benjamini and Hochberg's gate at 10 % by Fisher's exact test against all trades outside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evidence.figures import Figure, Scale, percent_of, share_figure
from memtape.core.memory.belief_cells import CellCounts, count_cells
from memtape.core.memory.belief_formation import belief_keys, beliefs_from_counts
from memtape.core.memory.beliefs import BELIEVED_FROM_TRADES, Belief, accepted_cells, difference_p_value
from memtape.core.memory.episodes import EPISODE_FIELDS, Episode

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
    """Returns the figures of beliefs."""
    return [*_edges(RUNS[scale]), *_luck(RUNS[scale], scale)]


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
            share_figure(
                f"one edge, 1,000 trades, {words}: at most two beliefs", [one.beliefs <= 2 for one in long], at_least=0.95,
                baseline=f"{percent_of(one.before <= 2 for one in long)} before, with "
                f"{np.mean([one.before for one in long]):.0f} beliefs on average",
            ),
            share_figure("the same: a mirror image or a part is believed too", [one.mirrored for one in long], at_most=0.10,
                         baseline=f"{percent_of(one.mirrored_before for one in long)} before"),
            share_figure("the same: the edge is found", [one.found for one in long], at_least=0.95),
            share_figure(f"one edge, 300 trades, {words}: found", [one.found for one in short], at_least=0.80),
        ]  # fmt: skip
    hard = [edge_result(20_000 + seed, 300, 12.0, 4) for seed in range(runs)]
    return [
        *figures,
        share_figure("one edge, 300 trades, four regimes that last 4 days: found", [one.found for one in hard], at_least=0.80),
        share_figure(f"the same, of those with {BELIEVED_FROM_TRADES} trades in that regime, as a belief needs",
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
        figures.append(share_figure(name, now, at_most=0.10 if has_bar else None, baseline=f"{percent_of(before)} before"))
    return figures


def _constant(rate: float) -> WinRates:
    return lambda chance, n: np.full(n, rate)
