"""The counting behind beliefs, by column: the same counts as `belief_cells.count_cells`, of a hundred thousand trades in a blink.

Trades are put in the order in which they closed, and sums run in that order, one after another, exactly as the reference
adds them: so both give the same figures to the last bit, whatever order the rows came in.

`where` asks a predicate of every row at once, in the same three-valued logic as `predicate.holds`. Most numbers are kept as
logarithms, which do not give them back to the last digit; a row so near to a bound that this might decide wrongly is settled
by its own facts, if the caller can supply them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memtape.columns.index import LEVELS, POSITIVE, R_SOURCES, UNKNOWN, distinct, median_of
from memtape.columns.kernel import outcome_column
from memtape.core.codec import micros, moment
from memtape.core.memory.belief_cells import (
    BLOCKS,
    CONDITIONS,
    GROUPINGS,
    MIN_COMPARED_TRADES,
    NO_COUNTS,
    BlockSums,
    CellCounts,
    CellEvidence,
    CellKey,
    StatedTally,
    Tally,
    blocks_of_runs,
)
from memtape.core.memory.outcome_units import MIN_LOSSES, OutcomeUnit, pick_unit
from memtape.core.memory.predicate import EQUALITY, MEMBERSHIP, AllOf, AnyOf, Condition, Not, conditions, holds
from memtape.core.observed import ANY

if TYPE_CHECKING:
    from memtape.columns.index import Columns
    from memtape.core.memory.belief_cells import (
        Conditions,
    )
    from memtape.core.memory.beliefs import StatedBelief
    from memtape.core.memory.predicate import Predicate

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


def tallies(columns: Columns, mask: Flags, claims_count: bool) -> CellCounts:
    """The counts of every cell over the rows of a mask, which picks at most one version of each trade."""
    trades = _counted(columns, mask, claims_count)
    if not len(trades):
        return NO_COUNTS
    unit = unit_of_rows(columns, trades)
    signals = _signals_of(columns, trades, unit, columns.strategy_code[trades])
    rows, wide = signals.rows, len(columns.symbols)
    pair = columns.strategy_code[rows].astype(np.int64) * wide + columns.symbol_code[rows]
    segments, segment = np.unique(pair, return_inverse=True)
    names = [(columns.strategies[s // wide], columns.symbols[s % wide]) for s in segments.tolist()]
    counted = _CountedSignals(columns, signals, segment, len(names))
    labels = {name: _cell_labels(columns, name, rows) for name in CONDITIONS}
    gaps = frozenset(name for name, (codes, _) in labels.items() if codes.min() < 0)
    # Of the groupings, most ask for the same fields with gaps to be known, so that their trades are the same.
    # The same holds for the number of blocks: most labels change so often that it is the usual one.
    around: dict[tuple[frozenset[str], bytes], tuple[Whole, _AroundBlocks, list[tuple[int, Tally]]]] = {}
    by_field = {name: counted.blocks_of_labels(codes) for name, (codes, _) in labels.items()}

    def around_of(grouping: Sequence[str]) -> tuple[Whole, _AroundBlocks, list[tuple[int, Tally]]]:
        absent = gaps.intersection(grouping)
        number = reduce(np.minimum, [by_field[name] for name in grouping], np.full(len(names), BLOCKS))
        if (key := (absent, number.tobytes())) not in around:
            known = np.flatnonzero(reduce(np.logical_and, [labels[n][0] >= 0 for n in absent], np.ones(len(rows), np.bool_)))
            blocks = counted.around(known, number)
            around[key] = known, blocks, counted.by(segment[known], known, len(names), blocks, 1)
        return around[key]

    found = {CellKey(*names[at]): tally for at, tally in around_of(())[2]}
    for grouping in GROUPINGS:
        known, blocks, all_known = around_of(grouping)
        code, sizes = segment[known], [len(labels[name][1]) for name in grouping]
        for at, tally in all_known:
            found[CellKey(*names[at], tuple((name, ANY) for name in grouping))] = tally
        for name, size in zip(grouping, sizes, strict=True):
            code = code * size + labels[name][0][known]
        parts = int(np.prod(sizes))
        for at, tally in counted.by(code, known, len(names) * parts, blocks, parts):
            place, chosen = at, []
            for name, size in reversed(list(zip(grouping, sizes, strict=True))):
                place, label = divmod(place, size)
                chosen.append((name, labels[name][1][label]))
            found[CellKey(*names[place], tuple(reversed(chosen)))] = tally
    return CellCounts(found, _joint_counts(names, segment, labels, signals.confirmed), unit)


def _joint_counts(
    names: Sequence[tuple[str, str]], segment: Whole, labels: Mapping[str, tuple[Whole, list[str]]], won: Flags
) -> dict[tuple[str, str], dict[Conditions, tuple[int, int]]]:
    """Trades and wins by all four conditions at once."""
    sizes = [len(labels[name][1]) + 1 for name in CONDITIONS]  # one more for unknown
    code = segment
    for name, size in zip(CONDITIONS, sizes, strict=True):
        code = code * size + (labels[name][0] + 1)
    combinations = math.prod(sizes)
    if (whole := len(names) * combinations) > MAX_RADIX_CODES:
        codes, code = np.unique(code, return_inverse=True)
    else:
        codes = np.arange(whole)
    halves = np.bincount(2 * code + won, minlength=2 * len(codes))
    wins = halves[1::2]
    n = halves[0::2] + wins
    some = np.flatnonzero(n)
    segments, combination = np.divmod(codes[some], combinations)
    held = {at: _conditions_of(at, labels, sizes) for at in distinct(combination).tolist()}
    found: dict[tuple[str, str], dict[Conditions, tuple[int, int]]] = {name: {} for name in names}
    counts = zip(segments.tolist(), combination.tolist(), n[some].tolist(), wins[some].tolist(), strict=True)
    for at, combined, trades, won_trades in counts:
        found[names[at]][held[combined]] = trades, won_trades
    return found


def _conditions_of(combination: int, labels: Mapping[str, tuple[Whole, list[str]]], sizes: Sequence[int]) -> Conditions:
    held: list[tuple[str, str]] = []
    for name, size in zip(reversed(CONDITIONS), reversed(sizes), strict=True):
        combination, label = divmod(combination, size)
        held += [(name, labels[name][1][label - 1])] if label else []
    return tuple(reversed(held))


Settle = Callable[[Sequence[int]], Sequence[Mapping[str, object]]]  # rows -> the facts of their entries


def stated_tallies(
    stated: Iterable[StatedBelief], columns: Columns, mask: Flags, claims_count: bool, settle: Settle | None = None
) -> list[StatedTally]:
    """What the rows say of each stated belief that is `countable`; equal to `belief_cells.count_stated`."""
    trades, counted = _counted(columns, mask, claims_count), []
    unit = unit_of_rows(columns, trades)
    measured = outcome_column(columns, trades, claims_count, unit)[1] if unit.source else np.zeros(len(trades), np.bool_)
    for one in stated:
        # A comparison with zero needs a sign only, which any outcome has.
        concerned = np.ones(len(trades), np.bool_) if one.value == 0.0 else measured
        for name, wanted in (("symbol", one.symbol), ("strategy", one.strategy)):
            if wanted is not None:
                concerned = concerned & _is(columns, name, [wanted])[trades]
        if one.later_only:
            concerned = concerned & (columns.exit_us[: columns.n][trades] > micros(one.stated_at))
        signals = _signals_of(columns, trades[concerned], unit, None, one.op, one.value)
        true, unknown = where(one.predicate, columns, settle)
        known = ~unknown[signals.rows]
        signals = signals.chosen(known)
        rows = _CountedSignals(columns, signals, np.zeros(len(signals.rows), np.int64), 1)
        everything = np.arange(len(signals.rows))
        blocks = rows.around(everything, rows.blocks_of_labels(true[signals.rows].astype(np.int64)))
        both = dict(rows.by(true[signals.rows].astype(np.int64), everything, 2, blocks, 2))
        inside, outside = (both.get(at, Tally(outside_blocks=blocks.total(0))) for at in (1, 0))
        counted.append(StatedTally(one, inside, outside, unit))
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
    counted = mask[:n] & columns.teaches[:n] & (columns.has_r[:n] | columns.has_money[:n]) & ~columns.shadow[:n]
    if not claims_count:
        counted &= ~columns.claimed[:n]
    rows: Whole = np.flatnonzero(counted)
    return rows


def unit_of_rows(columns: Columns, rows: Whole) -> OutcomeUnit:
    """The unit for an answer over these rows; equal to `outcome_units.choose_unit`."""
    source, has_r = columns.source_r[rows], columns.has_r[rows]
    stated, stop = has_r & (source == R_SOURCES["stated"]), has_r & (source == R_SOURCES["stop"])
    by_atr = has_r & (source == R_SOURCES["atr_proxy"])
    units = [(OutcomeUnit("stated" if stated.any() and not stop.any() else "stop"), stated | stop)]
    units.append((OutcomeUnit("atr_proxy"), by_atr))
    has_money = columns.has_money[rows]
    results = columns.money[rows[has_money]]
    if (amount := _typical_loss(results)) is not None:
        units.append((OutcomeUnit("money", amount, int(np.count_nonzero(results < 0)) < MIN_LOSSES), has_money))
    return pick_unit([(unit, float(_signal_count(columns, rows[known]))) for unit, known in units])


def _signal_count(columns: Columns, rows: Whole) -> int:
    shared = columns.shared[rows]
    return len(rows) - int(np.count_nonzero(shared)) + len(distinct(columns.signal[rows[shared]]))


def _typical_loss(results: Floats) -> float | None:
    """The same as `outcome_units.typical_loss`."""
    known = results[results != 0]
    losses = -known[known < 0]
    sizes = losses if len(losses) >= MIN_LOSSES else np.abs(known)
    return (median_of(sizes) or None) if len(sizes) else None


class _Signals(NamedTuple):
    """The signals that count, each at the row of its last trade, in the order in which these closed."""

    rows: Whole
    r: Floats  # the mean outcome in the unit, 0 if there is none
    has_r: Flags
    confirmed: Flags
    tier: NDArray[np.int8]

    def chosen(self, which: Flags) -> _Signals:
        return _Signals(self.rows[which], self.r[which], self.has_r[which], self.confirmed[which], self.tier[which])


def _signals_of(columns: Columns, rows: Whole, unit: OutcomeUnit, apart: Any, op: str = "gt", value: float = 0.0) -> _Signals:
    """The signals of rows; those of different codes in `apart` are different signals. Equal to `belief_cells.signal_outcomes`."""
    r, has_r = outcome_column(columns, rows, True, unit) if unit.source else (np.zeros(len(rows)), np.zeros(len(rows), np.bool_))
    tier = columns.tier[rows]
    if has_r.all() and not columns.shared[rows].any():
        return _Signals(rows, r, has_r, _compared(op, r, [value]), tier)
    r, own_r, has_own = np.where(has_r, r, 0.0), columns.r[rows], columns.has_r[rows]
    money = columns.money[rows]
    shared = np.flatnonzero(columns.shared[rows])
    if len(shared):
        _, group = np.unique(columns.signal[rows[shared]], return_inverse=True)
        if apart is not None:
            _, group = np.unique(group * (int(apart.max()) + 1) + apart[shared], return_inverse=True)
        size = int(group.max()) + 1
        last = np.zeros(size, np.int64)
        last[group] = shared  # rows are in order, and the last one assigned stays
        for values, known in ((r, has_r), (own_r, has_own), (money, columns.has_money[rows])):
            n = np.bincount(group, known[shared], size)
            values[last] = np.bincount(group, np.where(known[shared], values[shared], 0.0), size) / np.maximum(n, 1.0)
            known[last] = n > 0
        highest = np.zeros(size, tier.dtype)
        np.maximum.at(highest, group, tier[shared])
        tier[last] = highest
        stays = np.ones(len(rows), np.bool_)
        stays[shared] = False
        stays[last] = True
    else:
        stays = np.ones(len(rows), np.bool_)
    outcome = np.where(has_r, r, np.where(has_own, own_r, money))
    return _Signals(rows, r, has_r, _compared(op, outcome, [value]), tier).chosen(stays)


class _AroundBlocks(NamedTuple):
    """Signals and confirming signals per segment and block, of all whose fields are known, and their sums per segment."""

    n: Whole  # by segment * BLOCKS + block
    wins: Whole
    blocks: Whole  # by segment, as the following
    nn: Whole
    nw: Whole
    ww: Whole
    block: Whole  # of each signal, as n is

    @property
    def sums(self) -> tuple[Whole, Whole, Whole, Whole]:
        return self.blocks, self.nn, self.nw, self.ww

    def total(self, segment: int) -> BlockSums:
        return BlockSums(*(int(sums[segment]) for sums in self.sums))


class _CountedSignals:
    """The signals that count, with what is counted of them."""

    def __init__(self, columns: Columns, signals: _Signals, segment: Whole, n_segments: int) -> None:
        self.r, self._has_r, self._confirmed, self._tier = signals.r, signals.has_r, signals.confirmed, signals.tier
        self._all_r = bool(self._has_r.all())
        self._squares = self.r * self.r
        self._tiers = np.flatnonzero(np.bincount(self._tier)).tolist()
        self._rows, self._ids = signals.rows, columns.ids
        self._exit_us = columns.exit_us[signals.rows]
        sizes = np.bincount(segment, minlength=n_segments)
        order = np.argsort(segment.astype(np.uint16) if n_segments <= MAX_RADIX_CODES else segment, kind="stable")
        place = np.empty(len(segment), np.int64)
        place[order] = np.arange(len(segment)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        self._order, self._place, self._segment, self._sizes = order, place, segment, sizes
        self._n_segments = n_segments

    def blocks_of_labels(self, codes: Whole) -> Whole:
        """By segment, into how many blocks its signals are cut; equal to `belief_cells.blocks_of_labels`. Below zero: unknown."""
        known = self._order[codes[self._order] >= 0]
        segment, label = self._segment[known], codes[known]
        changes = (segment[1:] == segment[:-1]) & (label[1:] != label[:-1])
        runs = 1 + np.bincount(segment[1:][changes], minlength=self._n_segments)
        return np.array([blocks_of_runs(n) for n in runs.tolist()], np.int64)

    def around(self, chosen: Whole, blocks: Whole) -> _AroundBlocks:
        """The blocks of the chosen signals, so many in each segment."""
        size = self._n_segments * BLOCKS
        block = self._segment * BLOCKS + self._place * blocks[self._segment] // np.maximum(self._sizes[self._segment], 1)
        n = np.bincount(block[chosen], minlength=size)
        wins = np.bincount(block[chosen], self._confirmed[chosen], size).astype(np.int64)
        parts = ((n > 0).astype(np.int64), n * n, n * wins, wins * wins)
        occupied, nn, nw, ww = (part.reshape(self._n_segments, BLOCKS).sum(axis=1) for part in parts)
        return _AroundBlocks(n, wins, occupied, nn, nw, ww, block)

    def by(self, code: Whole, chosen: Whole, size: int, around: _AroundBlocks, parts: int) -> list[tuple[int, Tally]]:
        """The tallies of the chosen signals by their code, for each code that occurs; `parts` codes belong to one segment."""
        if size > MAX_RADIX_CODES and size > len(code):  # many cells, few of which occur
            codes, small = np.unique(code, return_inverse=True)
            found = self._by(small, chosen, len(codes), around, codes // parts)
            return [(int(codes[at]), tally) for at, tally in found]
        return self._by(code, chosen, size, around, np.arange(size) // parts)

    def _by(self, code: Whole, chosen: Whole, size: int, around: _AroundBlocks, segment: Whole) -> list[tuple[int, Tally]]:
        if not len(chosen):
            return []
        halves = 2 * code + self._confirmed[chosen]  # of each code, those against and those for
        counts = np.bincount(halves, minlength=2 * size)
        n, wins = counts[0::2] + counts[1::2], counts[1::2].tolist()
        last = np.full(2 * size, -1)
        last[halves] = chosen  # rows are in order, and the last one assigned stays
        n_r = n.tolist() if self._all_r else np.bincount(code, self._has_r[chosen], size).astype(np.int64).tolist()
        sum_r = np.bincount(code, self.r[chosen], size).tolist()  # adds one after another, as the reference does
        sum_r2 = np.bincount(code, self._squares[chosen], size).tolist()
        tier = np.full(size, self._tiers[0])
        for higher in self._tiers[1:]:
            tier[code[self._tier[chosen] == higher]] = higher
        grouped = np.argsort(code.astype(np.uint16) if size <= MAX_RADIX_CODES else code, kind="stable")
        starts = (np.cumsum(n) - n).tolist()
        inside, outside = self._block_sums(code[grouped], chosen[grouped], size, around, segment)
        found = []
        for at in np.flatnonzero(n).tolist():
            count, start = int(n[at]), starts[at]
            tenth = self._exit(chosen[grouped[start + MIN_COMPARED_TRADES - 1]]) if count >= MIN_COMPARED_TRADES else None
            found.append((at, Tally(
                count, wins[at], n_r[at], sum_r[at], sum_r2[at], int(tier[at]), self._exit(chosen[grouped[start]]), tenth,
                self._evidence(last[2 * at + 1]), self._evidence(last[2 * at]), BlockSums(*inside[at]), BlockSums(*outside[at]),
            )))  # fmt: skip
        return found

    def _block_sums(
        self, code: Whole, chosen: Whole, size: int, around: _AroundBlocks, segment: Whole
    ) -> tuple[list[list[int]], list[list[int]]]:
        """The sums over blocks inside each code and outside it, from signals that are sorted by code."""
        block = around.block[chosen]
        starts = np.flatnonzero(np.concatenate(([True], (np.diff(code) != 0) | (np.diff(block) != 0))))
        n = np.diff(np.append(starts, len(code)))
        won = np.concatenate(([0], np.cumsum(self._confirmed[chosen])))
        wins = won[np.append(starts[1:], len(code))] - won[starts]
        of, place = code[starts], block[starts]
        all_n, all_wins = around.n[place], around.wins[place]
        rest_n, rest_wins = all_n - n, all_wins - wins

        def summed(values: Any) -> Whole:
            return np.bincount(of, values, size).astype(np.int64)  # whole numbers far below 2 ** 53

        own = [summed(values) for values in (np.ones(len(n)), n * n, n * wins, wins * wins)]
        # Blocks without a signal of the code are outside as a whole; those with one lose its part.
        lost = (
            (rest_n == 0).astype(np.int64), all_n * all_n - rest_n * rest_n, all_n * all_wins - rest_n * rest_wins,
            all_wins * all_wins - rest_wins * rest_wins,
        )  # fmt: skip
        rest = [total[segment] - summed(values) for total, values in zip(around.sums, lost, strict=True)]
        return np.stack(own, axis=1).tolist(), np.stack(rest, axis=1).tolist()

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
