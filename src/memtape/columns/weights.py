"""The sums of evidence over arrays: what `core.evidence` sums one by one.

Sums are numpy's pairwise ones over weights that are all positive, wins and losses apart, so that nothing cancels: their
relative error stays below 1e-13 for a million trades, whatever the order, and the figures agree with the reference in far
more than the six digits in which they leave.

>>> weighted_median(np.array([2.0, -1.0, -1.0]), np.array([1.0, 1.0, 2.0]), 4.0)
-1.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from memtape.columns.index import R_SOURCES
from memtape.columns.kernel import by_stop, outcome_column, picked_rows
from memtape.core.codec import moment
from memtape.core.memory.outcome_units import OutcomeUnit
from memtape.core.recall.evidence import BINS, MIN_N_EFF, NEGLIGIBLE_R, EvidenceSums, ShadowSummary, WeightedSums

if TYPE_CHECKING:
    from memtape.columns.index import Bools, Columns, Floats, Ints, Rows
    from memtape.core.recall.query import Query

NEAR, FINE = 1e-6, 64  # how near to half the weight we look closer, and into how many parts an R is cut to find it
BIN_EDGES_R = (-8.0, 8.0)


def evidence_sums_of_rows(
    columns: Columns, rows: Rows, believed: Bools, weight: Floats, query: Query, money: OutcomeUnit
) -> EvidenceSums:
    """The sums that evidence rests on. Worse sources are summed only where the better ones are not enough."""
    teaches = columns.teaches[rows] & believed
    counted = teaches if query.claims_count else teaches & ~columns.claimed[rows]
    stop = by_stop(columns, rows)

    def sums_in(unit: OutcomeUnit) -> WeightedSums:
        r, known = outcome_column(columns, rows, query.claims_count, unit)
        return weighted_sums_of_rows(columns, rows, counted & known, r, weight)

    stops = sums_in(OutcomeUnit("stop"))
    atr = sums_in(OutcomeUnit("atr_proxy")) if stops.n_eff < MIN_N_EFF else WeightedSums()
    enough = max(stops.n_eff, atr.n_eff) >= MIN_N_EFF
    only_money = not enough and money.source is not None and bool((counted & columns.has_money[rows] & ~stop).any())
    r, known = outcome_column(columns, rows, query.claims_count)
    shadow = columns.shadow[rows] & believed & known & ~columns.aside[rows]
    at = np.flatnonzero(shadow)
    picked = picked_rows(rows, at)
    missed, _ = one_row_per_signal(columns.signal[picked], columns.shared[picked], r[at], np.ones(len(at)))
    return EvidenceSums(
        stops=stops, by_atr=atr, by_money=sums_in(money) if only_money else WeightedSums(), money=money,
        any_stop=bool((counted & known & (columns.source_r[rows] == R_SOURCES["stop"])).any()),
        n_claimed=int(np.count_nonzero(teaches & columns.claimed[rows])),
        shadows=ShadowSummary(len(missed), float(missed.sum()) / len(missed) if len(missed) else None),
    )  # fmt: skip


def weighted_sums_of_rows(columns: Columns, rows: Rows, which: Bools, r: Floats, weight: Floats) -> WeightedSums:
    """The sums over some of the rows, each signal once."""
    at = np.flatnonzero(which)
    if not len(at):
        return WeightedSums()
    trades = len(at)
    picked = picked_rows(rows, at)
    exits = columns.exit_us[picked]
    worst_r, worst_id = _worst(columns, rows, at, r[at], exits)
    r, w = one_row_per_signal(columns.signal[picked], columns.shared[picked], r[at], weight[at])
    held = np.bincount(_bins(r), w, len(BINS))
    products, squares = w * r, w * w
    won, lost, settled = r > 0, r < 0, r != 0
    total, won_r, lost_r = float(w.sum()), float(products[won].sum()), -float(products[lost].sum())
    mean = (won_r - lost_r) / total if total else 0.0
    return WeightedSums(
        n=len(r), trades=trades, total=total, squares=float(squares.sum()), won=float(w[won].sum()), won_r=won_r,
        lost=float(w[lost].sum()),
        lost_r=lost_r, settled_squares=float(squares[settled].sum()), deviation=float((w * (r - mean) ** 2).sum()),
        median_r=weighted_median(r, w, total), bins=tuple(held.tolist()), wins=int(np.count_nonzero(won)),
        sum_r=float(r[won].sum()) + float(r[lost].sum()), worst_r=worst_r, worst_id=worst_id,
        first_exit=moment(int(exits.min())), last_exit=moment(int(exits.max())),
    )  # fmt: skip


def one_row_per_signal(signal: Ints, shared: Bools, r: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Outcomes and weights with one entry for each signal: the means over its rows, as `evidence.one_per_signal` takes them."""
    if not shared.any():
        return r, weight
    at = np.flatnonzero(shared)
    _, first, group, size = np.unique(signal[at], return_index=True, return_inverse=True, return_counts=True)
    several = size > 1
    mean_r, mean_weight = np.bincount(group, r[at]) / size, np.bincount(group, weight[at]) / size
    mean_r[np.abs(mean_r) < NEGLIGIBLE_R] = 0.0
    # The first row of a signal stands for all of them, so that the order of the sums does not depend on what was marked.
    r, weight, stays = r.copy(), weight.copy(), np.ones(len(r), np.bool_)
    stays[at[several[group]]] = False
    leads = at[first[several]]
    stays[leads], r[leads], weight[leads] = True, mean_r[several], mean_weight[several]
    return r[stays], weight[stays]


def _bins(r: Floats) -> NDArray[np.intp]:
    """`evidence.bin_of` of each."""
    found = np.searchsorted(np.array([-2.0, -1.0, 0.0, 1.0, 2.0]), r, side="left")
    return found + (r >= 0)  # zero stands alone, and all above it one further


def _worst(columns: Columns, rows: Rows, at: NDArray[np.intp], r: Floats,
           exits: NDArray[np.int64]) -> tuple[float, str]:  # fmt: skip
    """The worst outcome; of equal ones the newest, then by id."""
    worst = r == r.min()
    worst &= exits == exits[worst].max()
    return float(r.min()), min(columns.ids[row] for row in picked_rows(rows, at[worst]))


def weighted_median(r: Floats, weight: Floats, total: float) -> float | None:
    """The R with half the weight on either side; only what lies near half is sorted."""
    r, weight = r[weight > 0], weight[weight > 0]
    if not len(r):
        return None
    cut = ((np.clip(r, *BIN_EDGES_R) - BIN_EDGES_R[0]) * FINE).astype(np.intp)
    passed = np.cumsum(np.bincount(cut, weight)) / total
    low, high = (min(int(np.searchsorted(passed, 0.5 + near, side="right")), len(passed) - 1) for near in (-NEAR, NEAR))
    near = (cut >= low) & (cut <= high)
    order = np.argsort(r[near], kind="stable")
    ordered = r[near][order]
    over = (passed[low - 1] if low else 0.0) + np.cumsum(weight[near][order]) / total - 0.5
    at = int(np.argmax(over >= -1e-9)) if over[-1] >= -1e-9 else len(over) - 1
    if abs(over[at]) <= 1e-9 and at + 1 < len(ordered):
        return float(0.5 * (ordered[at] + ordered[at + 1]))
    return float(ordered[at])
