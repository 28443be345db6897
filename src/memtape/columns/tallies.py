"""The counting behind beliefs, by column: the same tallies as `induction.count`, of a hundred thousand trades in a blink.

Trades are put in the order in which they closed, and sums run in that order, one after another, exactly as the reference
adds them: so both give the same figures to the last bit, whatever order the rows came in.

`where` asks a predicate of every row at once, in the same three-valued logic as `predicate.holds`. Most numbers are kept as
logarithms, which do not give them back to the last digit; a row so near to a bound that this might decide wrongly is settled
by its own facts, if the caller can supply them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memtape.columns.index import LEVELS, POSITIVE, UNKNOWN, Columns
from memtape.core.codec import micros, moment
from memtape.core.memory.belief_cells import GROUPINGS, INDUCED_FROM_TRADES, CellEvidence, CellKey, StatedTally, Tally
from memtape.core.memory.beliefs import StatedBelief
from memtape.core.memory.predicate import EQUALITY, MEMBERSHIP, AllOf, AnyOf, Condition, Not, Predicate, conditions, holds
from memtape.core.observed import ANY

Flags = NDArray[np.bool_]
Whole = NDArray[np.int64]
Floats = NDArray[np.float64]


SIDES = ["long", "short"]
LABELS = {
    "symbol": ("symbol_code", "symbols"), "strategy": ("strategy_code", "strategies"), "regime": ("regime_code", "regimes"),
    "volatility_regime": ("volatility_code", "volatilities"), "session": ("session_code", "sessions"),
}  # fmt: skip
HOUR_MICROS = 3_600_000_000
MAX_RADIX_CODES = 65536  # up to here codes are sorted by their digits, which is fastest
EPOCH_WEEKDAY = 3  # the first of January 1970
LOG_ROUNDING = 1e-12  # two numbers this near, by their size, may be one once the logarithm was taken


def tallies(columns: Columns, mask: Flags, claims_count: bool) -> dict[CellKey, Tally]:
    """The tallies of every cell over the rows of a mask, which picks at most one version of each trade."""
    rows = _counted(columns, mask, claims_count)
    if not len(rows):
        return {}
    counted = _CountedRows(columns, rows)
    wide = len(columns.symbols)
    pair = columns.strategy_code[rows].astype(np.int64) * wide + columns.symbol_code[rows]
    segments, segment = np.unique(pair, return_inverse=True)
    names = [(columns.strategies[s // wide], columns.symbols[s % wide]) for s in segments.tolist()]
    labels = {name: _cell_labels(columns, name, rows) for name in {name for names in GROUPINGS for name in names}}
    gaps = frozenset(name for name, (codes, _) in labels.items() if codes.min() < 0)
    around: dict[frozenset[str], tuple[Whole, list[tuple[int, Tally]]]] = {}  # of whom fields with gaps are known: often the same
    for absent in {frozenset[str](), *(gaps.intersection(grouping) for grouping in GROUPINGS)}:
        known = np.flatnonzero(reduce(np.logical_and, [labels[name][0] >= 0 for name in absent], np.ones(len(rows), np.bool_)))
        around[absent] = known, counted.by(segment[known], known, len(names))
    found = {CellKey(*names[at]): tally for at, tally in around[frozenset()][1]}
    for grouping in GROUPINGS:
        known, all_known = around[gaps.intersection(grouping)]
        code, sizes = segment[known], [len(labels[name][1]) for name in grouping]
        for at, tally in all_known:
            found[CellKey(*names[at], tuple((name, ANY) for name in grouping))] = tally
        for name, size in zip(grouping, sizes, strict=True):
            code = code * size + labels[name][0][known]
        for at, tally in counted.by(code, known, len(names) * int(np.prod(sizes))):
            place, chosen = at, []
            for name, size in reversed(list(zip(grouping, sizes, strict=True))):
                place, label = divmod(place, size)
                chosen.append((name, labels[name][1][label]))
            found[CellKey(*names[place], tuple(reversed(chosen)))] = tally
    return found


Settle = Callable[[Sequence[int]], Sequence[Mapping[str, object]]]  # rows -> the facts of their entries


def stated_tallies(
    stated: Iterable[StatedBelief], columns: Columns, mask: Flags, claims_count: bool, settle: Settle | None = None
) -> list[StatedTally]:
    """What the rows say of each stated belief that is `countable`; equal to `induction.count_stated`."""
    rows, counted = _counted(columns, mask, claims_count), []
    r = columns.r[rows]
    for one in stated:
        true, unknown = where(one.predicate, columns, settle)
        inside, apart = true[rows], unknown[rows]
        for name, wanted in (("symbol", one.symbol), ("strategy", one.strategy)):
            if wanted is not None:
                apart = apart | ~_is(columns, name, [wanted])[rows]
        if one.later_only:
            apart = apart | (columns.exit_us[: columns.n][rows] <= micros(one.stated_at))
        confirmed = _compared(one.op, r, [one.value])
        chosen = np.flatnonzero(~apart)
        both = dict(_CountedRows(columns, rows, confirmed).by(inside[chosen].astype(np.int64), chosen, 2))
        counted.append(StatedTally(one, both.get(1, Tally()), both.get(0, Tally())))
    return counted


def countable(stated: StatedBelief, columns: Columns) -> bool:
    """Returns True if the columns hold what a stated belief asks for; else its trades must be read."""
    return stated.metric == "pnl_r" and answerable(stated.predicate, columns)


def answerable(predicate: Predicate, columns: Columns) -> bool:
    """Returns True if every field that a predicate names is among the columns."""
    return all(c.field in LABELS or c.field == "side" or _number(columns, c.field) is not None for c in conditions(predicate))


def where(predicate: Predicate, columns: Columns, settle: Settle | None = None) -> tuple[Flags, Flags]:
    """The rows of which a predicate is true, and those of which nobody can tell."""
    true, false, near = _answer(predicate, columns)
    rows = np.flatnonzero(near).tolist()
    if settle is not None and rows:
        for row, facts in zip(rows, settle(rows), strict=True):
            truth = holds(predicate, facts)
            true[row], false[row] = truth is True, truth is False
    return true, ~(true | false)


# --- counting ------------------------------------------------------------------------------------------------------------


def _counted(columns: Columns, mask: Flags, claims_count: bool) -> Whole:
    """The rows that count. Rows are in the order in which their trades closed, those of one moment by id."""
    n = columns.n
    counted = mask[:n] & columns.teaches[:n] & columns.has_r[:n] & ~columns.shadow[:n]
    if not claims_count:
        counted &= ~columns.claimed[:n]
    rows: Whole = np.flatnonzero(counted)
    return rows


class _CountedRows:
    """The rows that count, with what is counted of them."""

    def __init__(self, columns: Columns, rows: Whole, confirmed: Flags | None = None) -> None:
        self.r: Floats = columns.r[rows].astype(np.float64)
        self._confirmed: Flags = self.r > 0 if confirmed is None else confirmed
        self._squares, self._tier = self.r * self.r, columns.tier[rows]
        self._tiers = np.flatnonzero(np.bincount(self._tier)).tolist()
        self._exit_us, self._rows, self._ids = columns.exit_us[rows], rows, columns.ids

    def by(self, code: Whole, chosen: Whole, size: int) -> list[tuple[int, Tally]]:
        """The tallies of the kept rows by their code, for each code that occurs."""
        if size > MAX_RADIX_CODES and size > len(code):  # many cells, few of which occur
            codes, small = np.unique(code, return_inverse=True)
            return [(int(codes[at]), tally) for at, tally in self.by(small, chosen, len(codes))]
        if not len(chosen):
            return []
        halves = 2 * code + self._confirmed[chosen]  # of each code, those against and those for
        counts = np.bincount(halves, minlength=2 * size)
        n, wins = counts[0::2] + counts[1::2], counts[1::2].tolist()
        last = np.full(2 * size, -1)
        last[halves] = chosen  # rows are in order, and the last one assigned stays
        sum_r = np.bincount(code, self.r[chosen], size).tolist()  # adds one after another, as the reference does
        sum_r2 = np.bincount(code, self._squares[chosen], size).tolist()
        tier = np.full(size, self._tiers[0])
        for higher in self._tiers[1:]:
            tier[code[self._tier[chosen] == higher]] = higher
        grouped = np.argsort(code.astype(np.uint16) if size <= MAX_RADIX_CODES else code, kind="stable")
        starts = (np.cumsum(n) - n).tolist()
        found = []
        for at in np.flatnonzero(n).tolist():
            count, start = int(n[at]), starts[at]
            tenth = self._exit(chosen[grouped[start + INDUCED_FROM_TRADES - 1]]) if count >= INDUCED_FROM_TRADES else None
            found.append((at, Tally(
                count, wins[at], sum_r[at], sum_r2[at], int(tier[at]), self._exit(chosen[grouped[start]]), tenth,
                self._evidence(last[2 * at + 1]), self._evidence(last[2 * at]),
            )))  # fmt: skip
        return found

    def _exit(self, place: int) -> Any:
        return moment(int(self._exit_us[place]))

    def _evidence(self, place: int) -> CellEvidence | None:
        return CellEvidence(self._exit(place), self._ids[int(self._rows[place])]) if place >= 0 else None


def _cell_labels(columns: Columns, name: str, rows: Whole) -> tuple[Whole, list[str]]:
    """The codes of a cell's field, and their names; what is left open is as good as unknown."""
    if name == "side":
        return columns.side_code[rows].astype(np.int64), SIDES
    codes, names = (getattr(columns, attribute) for attribute in LABELS[name])
    chosen = codes[rows].astype(np.int64)
    if ANY in names:
        chosen[chosen == names.index(ANY)] = -1
    return chosen, names


# --- asking --------------------------------------------------------------------------------------------------------------

Answer = tuple[Flags, Flags, Flags]  # true, false, and so near a bound that the logarithm may err


def _answer(predicate: Predicate, columns: Columns) -> Answer:
    if isinstance(predicate, Not):
        true, false, near = _answer(predicate.part, columns)
        return false, true, near
    if isinstance(predicate, Condition):
        named = predicate.field in LABELS or predicate.field == "side"
        return _label(predicate, columns) if named else _level(predicate, columns)
    parts = [_answer(part, columns) for part in predicate.parts]
    trues, falses, nears = zip(*parts, strict=True)
    near = reduce(np.logical_or, nears)
    if isinstance(predicate, AllOf):
        return reduce(np.logical_and, trues), reduce(np.logical_or, falses), near
    assert isinstance(predicate, AnyOf)
    return reduce(np.logical_or, trues), reduce(np.logical_and, falses), near


def _nowhere(columns: Columns) -> Flags:
    return np.zeros(columns.n, np.bool_)


def _label(condition: Condition, columns: Columns) -> Answer:
    known, none = _is_known(columns, condition.field), _nowhere(columns)
    if condition.op == "exists":
        return (known, ~known, none) if condition.value else (~known, known, none)
    wanted = [v for v in (condition.value if isinstance(condition.value, tuple) else (condition.value,)) if isinstance(v, str)]
    if condition.op not in EQUALITY | MEMBERSHIP or not wanted:
        return none, none.copy(), none
    same = _is(columns, condition.field, wanted)
    other = known & ~same
    return (same, other, none) if condition.op in ("eq", "in") else (other, same, none)


def _codes(columns: Columns, field: str) -> tuple[Any, list[str]]:
    if field == "side":
        return columns.side_code[: columns.n], SIDES
    codes, names = LABELS[field]
    return getattr(columns, codes)[: columns.n], getattr(columns, names)


def _is_known(columns: Columns, field: str) -> Flags:
    known: Flags = _codes(columns, field)[0] >= 0
    return known


def _is(columns: Columns, field: str, wanted: Sequence[str]) -> Flags:
    codes, names = _codes(columns, field)
    return np.isin(codes, [at for at, name in enumerate(names) if name in wanted])


def _level(condition: Condition, columns: Columns) -> Answer:
    none, found = _nowhere(columns), _number(columns, condition.field)
    if found is None:
        raise LookupError(condition.field)  # ask `answerable` first
    values, known, rough = found
    if condition.op == "exists":
        return (known, ~known, none) if condition.value else (~known, known, none)
    given = condition.value if isinstance(condition.value, tuple) else (condition.value,)
    bounds = [float(v) for v in given if isinstance(v, int | float) and not isinstance(v, bool)]
    if condition.op in ("changed", "crosses_above", "crosses_below") or not bounds:
        return none, none.copy(), none
    met = _compared(condition.op, values, bounds)
    close = [np.abs(values - bound) <= LOG_ROUNDING * np.maximum(np.abs(values), abs(bound)) for bound in bounds]
    return known & met, known & ~met, rough & reduce(np.logical_or, close)


def _compared(op: str, values: Floats, bounds: Sequence[float]) -> Flags:
    met: Flags
    if op in ("eq", "in", "ne", "nin"):
        met = np.isin(values, bounds)
        return met if op in ("eq", "in") else ~met
    if op == "between":
        met = (values >= bounds[0]) & (values <= bounds[1])
        return met
    compare = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}[op]
    met = compare(values, bounds[0])
    return met


def _number(columns: Columns, field: str) -> tuple[Floats, Flags, Flags] | None:
    """The values of a field, where they are known, and where they are not to the last digit; None: not among the columns."""
    n = columns.n
    exact = np.zeros(n, np.bool_)
    if field in ("hour_utc", "day_of_week"):
        hours = columns.entry_us[:n] // HOUR_MICROS
        value = hours % 24 if field == "hour_utc" else (hours // 24 + EPOCH_WEEKDAY) % 7
        return value.astype(np.float64), ~exact, exact
    if field not in LEVELS:
        return None
    state, level = columns.state(field)[:n], columns.level(field)[:n]
    known = state != UNKNOWN
    if field == "drawdown_pct":
        return level, known, exact
    return np.where(state == POSITIVE, np.exp(np.minimum(level, 700.0)), 0.0), known, known
