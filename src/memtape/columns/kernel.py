"""The factors of a score over arrays: the same formulas as in `memtape.core`, whole columns at a time, in float64.

What comes out differs from the reference by rounding alone: a few units in the sixteenth digit for each factor, far within
`SCORE_MARGIN`. So these numbers may say which rows can matter, and what sums over many rows come to; a score that is shown is
always the reference's own. A kernel that is too small for float64 counts as none, as there.

Rows are taken in stretches that fit the processor's cache.

>>> round(float(recency_column(np.array([0.0, 30.0]), 30.0, 0.5)[1]), 6)
0.707107
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from memtape.columns.index import NOT_POSITIVE, POSITIVE, R_SOURCES, UNKNOWN
from memtape.core.codec import micros
from memtape.core.memory.situation import DRAWDOWN_BANDWIDTH, LABELS, relative
from memtape.core.memory.situation import UNKNOWN_MATCH as HALF
from memtape.core.observed import ANY
from memtape.core.original.likeness import NUMBERS_7_4

if TYPE_CHECKING:
    from memtape.columns.index import Bools, Columns, Floats, Rows
    from memtape.core.memory.outcome_units import OutcomeUnit
    from memtape.core.memory.situation import Labels
    from memtape.core.observed import Level, Situation
    from memtape.core.recall.query import Profile, Query

SCORE_MARGIN: Final = 1e-9  # relative; the true error is below 1e-12
FLOAT32_SCORE_MARGIN: Final = 1e-4  # the same with Q in float32
STRETCH_ROWS: Final = 16_384
DAY_US: Final = 86_400e6


def row_count(rows: Rows) -> int:
    """How many rows."""
    return rows.stop - rows.start if isinstance(rows, slice) else len(rows)


def row_slice(rows: Rows, start: int, stop: int) -> Rows:
    """Some of these rows."""
    return slice(rows.start + start, min(rows.start + stop, rows.stop)) if isinstance(rows, slice) else rows[start:stop]


def picked_rows(rows: Rows, at: NDArray[np.intp]) -> NDArray[np.intp]:
    """These of the rows, by their places."""
    return at + rows.start if isinstance(rows, slice) else rows[at]


def in_stretches(work: Callable[[Rows], Floats], rows: Rows) -> Floats:
    """The same work over rows, a stretch at a time."""
    n = row_count(rows)
    found = np.empty(n)
    with np.errstate(over="ignore"):  # what is too far to be measured is infinitely far
        for start in range(0, n, STRETCH_ROWS):
            found[start : start + STRETCH_ROWS] = work(row_slice(rows, start, start + STRETCH_ROWS))
    return found


# --- Rec and Q ----------------------------------------------------------------------------------------------------------


def age_column(columns: Columns, rows: Rows, as_of: datetime) -> Floats:
    """Ages in days."""
    found = (micros(as_of) - columns.exit_us[rows]) / DAY_US
    return np.maximum(found, 0.0, out=found)


def recency_column(age: Floats, tau_days: float, exponent: float) -> Floats:
    """Rec."""
    found = age / tau_days
    found += 1.0
    if exponent == 0.5:
        return np.divide(1.0, np.sqrt(found, out=found), out=found)
    return np.power(found, -exponent, out=found)


def outcome_column(
    columns: Columns, rows: Rows, claims_count: bool, unit: OutcomeUnit | None = None
) -> tuple[Floats, Bools]:
    """Outcomes in a unit as far as they may be believed, and where there is one; without a unit, each in the R that it has."""
    if unit is not None and unit.source == "money":
        r, known = columns.money[rows] / (unit.amount or 1.0), columns.has_money[rows] & ~columns.shadow[rows]
    else:
        r, known = columns.r[rows], columns.has_r[rows]
        if unit is not None:
            known = known & (by_atr(columns, rows) if unit.source == "atr_proxy" else by_stop(columns, rows))
    return r, known if claims_count else known & ~columns.claimed[rows]


def by_stop(columns: Columns, rows: Rows) -> Bools:
    """Where R comes from a stop or was stated."""
    found: Bools = (columns.source_r[rows] == R_SOURCES["stop"]) | (columns.source_r[rows] == R_SOURCES["stated"])
    return found


def by_atr(columns: Columns, rows: Rows) -> Bools:
    """Where R comes from ATR."""
    found: Bools = columns.source_r[rows] == R_SOURCES["atr_proxy"]
    return found


def quality_column(r: Floats, known: Bools, slope: float, exactly: bool = True) -> NDArray[np.floating[Any]]:
    """Q, of which the slope is k / sigma; where it need not be exact in float32, whose exponential takes a tenth of the time.

    There Q is right to 1e-5 of itself down to 1e-30.
    """
    found: NDArray[np.floating[Any]] = (r * -slope).astype(np.float64 if exactly else np.float32, copy=False)
    np.exp(found, out=found)  # may reach infinity, and Q then is 0
    found += 1.0
    np.divide(1.0, found, out=found)
    if not known.all():
        found[~known] = 0.5
    return found


def affect_column(r: Floats, known: Bools, profile: Profile, query: Query) -> Floats | float:
    """Aff: the drawdown branch, and in the literal profile the streak's."""
    literal = profile == "owm-literal"
    alpha = 0.3 if literal else query.parameters.alpha
    if profile == "balanced":
        return 1.0
    if query.affect.drawdown_state > 0.5:
        lean = np.where(r < -1.5, 0.5, np.where(r > 2.0, 0.3, 0.0))
    elif literal and query.affect.consecutive_losses >= 3:
        lean = np.where(r > 0, 0.3, np.where(r < 0, -0.2, 0.0))
    else:
        return 1.0
    return 1.0 + alpha * np.where(known, lean, 0.0)


# --- Sim ----------------------------------------------------------------------------------------------------------------


def similarity_column(columns: Columns, rows: Rows, query: Query) -> Floats:
    """Sim to the situation asked about, of other symbols in shares of price."""
    here, code = query.here, columns.symbols.codes.get(query.here, -2)
    within, across = SimilarityKernel(columns, query, across=False), SimilarityKernel(columns, query, across=True)

    def alike(some: Rows) -> Floats:
        same = columns.symbol_code[some] == code
        if here is None or same.all():
            return within.of(some)
        found = across.of(some)
        own = np.flatnonzero(same)
        if len(own):
            found[own] = within.of(picked_rows(some, own))
        return found

    return in_stretches(alike, rows)


class SimilarityKernel:
    """Sim of one kind to one situation: within a symbol, or across symbols, where ATR is compared per price."""

    def __init__(self, columns: Columns, query: Query, across: bool) -> None:
        parameters = query.parameters
        self.columns, self.numbers, self.across = columns, parameters.numbers, across
        self.now = relative(query.situation) if across else query.situation
        self.total = sum(weight for _, weight in parameters.labels) + sum(weight for _, weight, _ in parameters.numbers)
        self.by_labels = label_table(columns, self.now, parameters.labels)

    def of(self, rows: Rows) -> Floats:
        found = self.by_labels[self.columns.labels_code[rows]]
        priced = self.columns.state("price")[rows] == POSITIVE if self.across else None
        for name, weight, width in self.numbers:
            match = _level_match(self.columns, rows, name, getattr(self.now, name), width, priced)
            match *= weight
            found += match
        found /= self.total
        return found


def label_table(columns: Columns, now: Situation, labels: Labels, literal: bool = False) -> Floats:
    """What each set of labels that has occurred adds to likeness."""
    weights = dict(labels)
    names = (columns.regimes, columns.volatilities, columns.sessions)
    wanted = [getattr(now, name) for name, _ in LABELS]

    def match(then: str | None, want: str | None) -> float:
        if literal:
            return float(bool(then) and then == want)
        return 1.0 if ANY in (then, want) else HALF if then is None or want is None else float(then == want)

    of_each = [
        np.array([weights.get(name, 0.0) * match(then, want) for then in (*known, None)])
        for (name, _), known, want in zip(LABELS, names, wanted, strict=True)
    ]
    sets = np.array(list(columns.label_sets), np.intp).reshape(-1, len(LABELS))
    found: Floats = sum((held[codes] for held, codes in zip(of_each, sets.T, strict=True)), np.zeros(len(sets)))
    return found


def _level_match(columns: Columns, rows: Rows, name: str, now: Level, width: float, priced: Bools | None) -> Floats | float:
    """How near a number is; `priced` is given across symbols, where ATR is compared per price."""
    if now == ANY:
        return 1.0
    per_price = priced is not None and name in ("atr_d1", "atr_h1")
    if now is None or (priced is not None and name == "price"):
        return HALF
    state = columns.state(name)[rows]
    if name == "drawdown_pct":
        found = _bell((columns.level(name)[rows] - now) / DRAWDOWN_BANDWIDTH)
    elif now <= 0:
        found = (state == NOT_POSITIVE).astype(np.float64)
    else:
        gap = columns.level(name)[rows] - math.log(now)
        if per_price:
            gap = np.where(state == POSITIVE, gap - columns.level("price")[rows], gap)
        found = _bell(gap / math.log1p(width))
    unknown = state == UNKNOWN
    if priced is not None and per_price:
        unknown |= ~priced
    found[unknown] = HALF
    return found


def similarity_column_7_4(columns: Columns, rows: Rows, query: Query) -> Floats:
    """Sim of the second original form."""
    now = query.situation
    total = sum(weight for _, weight in LABELS) + sum(weight for _, weight, _ in NUMBERS_7_4)
    by_labels = label_table(columns, now, LABELS, literal=True)

    def alike(some: Rows) -> Floats:
        found = by_labels[columns.labels_code[some]]
        for name, weight, width in NUMBERS_7_4:
            level = getattr(now, name)
            if isinstance(level, float | int):
                found += weight * _kernel(columns, some, name, level, width)
        return found / total

    return in_stretches(alike, rows)


def _kernel(columns: Columns, rows: Rows, name: str, now: float, width: float) -> Floats:
    """A Gaussian whose width is scaled by the memory's value: (1 - now / then) / width."""
    state, level = columns.state(name)[rows], columns.level(name)[rows]
    if name == "drawdown_pct":
        usable = level != 0  # unknown is kept as zero
        gap = 1.0 - now / np.where(usable, level, 1.0)
    else:
        usable = state == POSITIVE
        gap = 1.0 - now * np.exp(-np.where(usable, level, 0.0))
    found = _bell(gap / width)
    found[~usable] = 0.0
    return found


def _bell(deviations: Floats) -> Floats:
    deviations *= deviations
    deviations *= -0.5
    return np.exp(deviations, out=deviations)
