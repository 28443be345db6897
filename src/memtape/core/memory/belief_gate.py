"""Decides which groups of trades are believed: one edge gives one belief, and chance gives one in at most a tenth of histories.

A group that wins more often makes every other group look worse by comparison, and every part of it look better. So groups
are believed one at a time, the clearest first. Once one is believed, its trades no longer count when others are judged: its
mirror images and its parts are then compared with trades that have nothing to do with it, and what remains is believed or not.
A pair of conditions must also differ from the rest of each of its two single conditions, in the same direction; where both
are believed already, it has nothing to add.

**The gate.** A group can be believed from 30 trades on; which groups have as many is known without looking at an outcome. Let m
be the number of such groups of one condition (two that are all trades together, like long and short, are one test). The k-th
belief about one condition needs a p-value of at most k * 8 % / m. Pairs have the other 2 % in the same way: a pair must pass
three comparisons, so chance uses up little of its part. Where nothing has an edge, the first belief needs a p-value of at most
its part divided by the number of groups of its kind. By Bonferroni's inequality that happens in at most 10 % of histories if
each p-value is right, however the groups overlap. After k - 1 beliefs that are right, a wrong one follows with a probability of
at most k * 10 %, so that about a tenth of k is wrong: the false-discovery rate of Benjamini and Hochberg's step-up, reached by
steps that only go down. Of a pair the gate looks at the largest p-value of its three comparisons (an intersection-union test),
which is valid whichever of them is true.

**Runs of luck.** Fisher's test takes trades for independent. But a regime lasts for days, and so does luck: a few good days then
look like a regime that wins. So each test is made a second time with a variance that the trades show themselves. The trades of a
strategy on a symbol, in the order in which they closed, are cut into 20 blocks of consecutive ones, and the wins per block tell
how alike outcomes of one block are, beyond the difference of the two groups: the correlation within a block. Where a label itself
lasts for long there are fewer and longer blocks, about as many as it has runs and at least six (`belief_cells`). The more trades
a group has in a block, the more its win rate varies (the design effect of Kish 1965). The p-value is the larger of Fisher's and
that of Student's t, with as many degrees of freedom as the blocks give.

**The 10 % hold** for independent luck, and for luck that lasts for no longer than a block: a twentieth of the history. Luck and
regimes that both last for longer are seen only in part, and more than a tenth of such histories can have a false belief:
`evidence/beliefs.py` measures how many.

>>> even, runs = BlockSums(10, 360, 180, 90), BlockSums(10, 360, 180, 140)  # 3 of 6 in each block; 6 or 0 in some
>>> [round(GroupRate(60, 30, 60, 30, sums).excess, 1) for sums in (even, runs)]
[-60.0, 162.2]
>>> winning = GroupRate(60, 45, 60, 45, BlockSums(10, 360, 270, 205))
>>> [round(difference(winning, GroupRate(60, 30, 60, 30, sums))[0], 4) for sums in (even, runs)]
[0.0091, 0.0523]
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from memtape.core.memory.belief_cells import (
    GROUPINGS,
    MIN_COMPARED_TRADES,
    BlockSums,
    CellCounts,
    CellKey,
    Conditions,
    Tally,
)
from memtape.core.memory.beliefs import BELIEVED_FROM_TRADES, difference_p_value
from memtape.core.observed import ANY
from memtape.core.statistics import student_cdf

FALSE_DISCOVERY_RATE = 0.1
# Of one condition and of pairs. Pairs must pass three comparisons, so that chance uses up little of their part.
SHARE_OF_RATE = {1: 0.8, 2: 0.2}
CLEARLY_CHANCE = 0.1  # the p-value of Fisher's test above which no gate is passed; the second test could only raise it
Counts = dict[Conditions, tuple[int, int]]  # trades and wins


class GroupRate(NamedTuple):
    """Trades and wins of a group, and how the wins of the whole group that it is a part of fall into blocks."""

    n: int
    wins: int
    whole_n: int
    whole_wins: int
    sums: BlockSums

    @property
    def rate(self) -> float:
        return self.wins / self.n

    @property
    def excess(self) -> float:
        """By how much the wins per block vary more than those of independent trades, in trades."""
        rate = self.whole_wins / self.whole_n
        if self.sums.blocks < 2 or not 0 < self.whole_wins < self.whole_n:
            return 0.0
        between = self.sums.ww - 2.0 * rate * self.sums.nw + rate * rate * self.sums.nn
        # The rate is estimated from the same blocks, which makes them look more even than they are.
        return between * self.blocks / (self.blocks - 1.0) / (rate * (1.0 - rate)) - self.whole_n if self.blocks > 1.0 else 0.0

    @property
    def blocks(self) -> float:
        """The number of blocks of equal size that are worth as much."""
        return self.whole_n * self.whole_n / self.sums.nn if self.sums.nn else 0.0

    def variance(self, correlation: float) -> float:
        """The variance of the win rate. Half a trade is added on either side: nothing won does not mean that nothing can win."""
        rate = (self.wins + 0.5) / (self.n + 1.0)
        design_effect = 1.0 + correlation * (self.sums.nn / self.whole_n - 1.0)
        return design_effect * rate * (1.0 - rate) / self.n


def luck_correlation(one: GroupRate, other: GroupRate) -> float:
    """Returns how alike the outcomes within a block are, from 0 (independent) to 1, beyond the difference of the two groups."""
    pairs = sum(group.sums.nn - group.whole_n for group in (one, other))
    return min(1.0, max(0.0, (one.excess + other.excess) / pairs)) if pairs else 0.0


def difference(one: GroupRate, other: GroupRate) -> tuple[float, float]:
    """Returns how often chance alone gives two groups this difference, runs of luck included, and the size of the difference.

    The size is in standard errors; where Fisher's test alone shows that chance explains it, only its sign matters.
    """
    fisher, apart = difference_p_value(one.wins, one.n, other.wins, other.n), one.rate - other.rate
    if fisher > CLEARLY_CHANCE:
        return fisher, apart
    correlation = luck_correlation(one, other)
    errors = apart / math.sqrt(one.variance(correlation) + other.variance(correlation))
    df = max(1.0, one.blocks + other.blocks - 2.0)
    return max(fisher, min(1.0, 2.0 * student_cdf(-abs(errors), df))), errors


class CellTest(NamedTuple):
    """A cell compared with the trades outside it, those of believed cells left out on both sides."""

    base_n: int
    base_wins: int
    p_value: float | None  # against the base; None if there are too few trades to compare
    gate_p_value: float | None  # what the gate looks at: of a pair, the largest of its comparisons; None: not tested
    deviations: float = 0.0  # the difference, in its standard errors
    unlike: CellKey | None = None  # the single cell from whose rest a pair differs least
    believed: bool = False
    groups: int = 0  # groups of its kind that were tested


class GatedCells(NamedTuple):
    """The tests of all cells, and which are believed, in the order in which they were."""

    tests: dict[CellKey, CellTest]
    believed: tuple[CellKey, ...]


def judge_cells(counts: CellCounts, keys: Sequence[CellKey], aside: Iterable[CellKey]) -> GatedCells:
    """Returns which cells are believed. Those set aside say the same as another one and are compared, but not believed."""
    segments: defaultdict[tuple[str, str], list[CellKey]] = defaultdict(list)
    for key in keys:
        segments[key.strategy, key.symbol].append(key)
    tests: dict[CellKey, CellTest] = {}
    halves = counts_with_other_known(counts.cells)
    for members in segments.values():
        tests |= _SegmentTests(counts, halves, members, ()).tests()
    out = set(aside)
    open_ = [k for k in keys if k not in out and counts.cells[k].n >= BELIEVED_FROM_TRADES and tests[k].gate_p_value is not None]
    groups = {size: _distinct_groups((key for key in open_ if len(key.conditions) == size), counts.cells) for size in (1, 2)}
    believed: list[CellKey] = []
    while (best := _clearest(open_, tests, counts.cells)) is not None:
        size = len(best.conditions)
        place = 1 + sum(len(key.conditions) == size for key in believed)
        if (tests[best].gate_p_value or 0.0) > place * SHARE_OF_RATE[size] * FALSE_DISCOVERY_RATE / groups[size]:
            # Nothing of this kind is clearer. The other kind has a threshold of its own.
            open_ = [key for key in open_ if len(key.conditions) != size]
            continue
        believed.append(best)
        open_.remove(best)
        tests[best] = tests[best]._replace(believed=True)
        segment = [key for key in segments[best.strategy, best.symbol] if key not in believed]
        own = tuple(key for key in believed if (key.strategy, key.symbol) == (best.strategy, best.symbol))
        tests |= _SegmentTests(counts, halves, segment, own).tests()
    return GatedCells({key: test._replace(groups=groups[len(key.conditions)]) for key, test in tests.items()}, tuple(believed))


def _distinct_groups(keys: Iterable[CellKey], cells: Mapping[CellKey, Tally]) -> int:
    """Returns the number of different tests: two groups that are all trades together (long and short) are one."""
    by_field: defaultdict[CellKey, list[int]] = defaultdict(list)
    for key in keys:
        by_field[key.known].append(cells[key].n)
    return sum(1 if len(sizes) == 2 and sum(sizes) == cells[known].n else len(sizes) for known, sizes in by_field.items())


def _clearest(open_: Iterable[CellKey], tests: Mapping[CellKey, CellTest], cells: Mapping[CellKey, Tally]) -> CellKey | None:
    """Returns the cell that chance explains least. Of two mirror images it is the one that is further from even odds."""
    ranked = [
        (test.gate_p_value, -abs(test.deviations), len(key.conditions), -abs(cells[key].wins / cells[key].n - 0.5), key)
        for key in open_ if (test := tests[key]).gate_p_value is not None
    ]  # fmt: skip
    return min(ranked)[-1] if ranked else None


class _SegmentTests:
    """The tests of the cells of one strategy and symbol, without the trades of believed cells."""

    def __init__(
        self, counts: CellCounts, halves: Mapping[CellKey, tuple[int, int]], members: Sequence[CellKey],
        believed: tuple[CellKey, ...],
    ) -> None:  # fmt: skip
        self._halves = halves
        self._cells, self._members, self._believed = counts.cells, members, frozenset(b.conditions for b in believed)
        self._joint = counts.joint.get((members[0].strategy, members[0].symbol), {}) if members else {}
        self._counted: dict[frozenset[Conditions], Counts] = {}

    def tests(self) -> dict[CellKey, CellTest]:
        return {key: self._test(key) for key in self._members}

    def _without(self, believed: frozenset[Conditions]) -> Counts:
        """Returns the counts of all cells without the trades of some believed ones."""
        if believed not in self._counted:
            self._counted[believed] = count_without(self._joint, believed)
        return self._counted[believed]

    def _test(self, key: CellKey) -> CellTest:
        whole, known = self._cells[key], self._cells[key.known]
        whole_out_n, whole_out_wins = known.n - whole.n, known.wins - whole.wins
        # A believed cell that contains this one does not hide it: the question is then what this one adds.
        wider = frozenset(b for b in self._believed if set(b) <= set(key.conditions))
        if not self._believed:
            n, wins, base_n, base_wins = whole.n, whole.wins, whole_out_n, whole_out_wins
        else:
            n, wins = self._without(self._believed - wider).get(key.conditions, (0, 0))
            clean = self._without(self._believed)
            around, own = clean.get(key.known.conditions, (0, 0)), clean.get(key.conditions, (0, 0))
            base_n, base_wins = around[0] - own[0], around[1] - own[1]
        if min(n, base_n) < MIN_COMPARED_TRADES:
            return CellTest(base_n, base_wins, None, None)
        inside = GroupRate(n, wins, whole.n, whole.wins, whole.inside_blocks)
        outside = GroupRate(base_n, base_wins, whole_out_n, whole_out_wins, whole.outside_blocks)
        p_value, apart = difference(inside, outside)
        if len(wider) == len(key.conditions) == 2:
            return CellTest(base_n, base_wins, p_value, None, apart)
        # Without the trades of other beliefs it must differ in the same direction as the sentence says of all its trades.
        if (whole.wins / whole.n - outside.rate) * (inside.rate - outside.rate) <= 0:
            return CellTest(base_n, base_wins, p_value, 1.0, apart)
        if len(key.conditions) == 1 or p_value > FALSE_DISCOVERY_RATE:
            return CellTest(base_n, base_wins, p_value, p_value, apart)
        gate, unlike = self._against_singles(key, inside, outside.rate, self._believed - wider)
        return CellTest(base_n, base_wins, p_value, max(p_value, gate), apart, unlike if gate > p_value else None)

    def _against_singles(
        self, key: CellKey, inside: GroupRate, base_rate: float, believed: frozenset[Conditions]
    ) -> tuple[float, CellKey]:
        """Returns the p-value of a pair against the rest of that single cell from which it differs least, and that cell."""
        compared = []
        counts = self._without(believed) if believed else None
        for parent, (field, _) in zip(key.parents(), key.conditions[::-1], strict=True):
            half = parent.with_((field, ANY))
            around = self._halves[half] if counts is None else counts.get(half.conditions, (0, 0))
            rest_n, rest_wins = around[0] - inside.n, around[1] - inside.wins
            whole = self._cells[parent]
            p_value = 1.0
            if rest_n >= MIN_COMPARED_TRADES and (rest_wins / rest_n - inside.rate) * (base_rate - inside.rate) > 0:
                p_value, _ = difference(inside, GroupRate(rest_n, rest_wins, whole.n, whole.wins, whole.inside_blocks))
            compared.append((p_value, parent))
        return max(compared)


def counts_with_other_known(cells: Mapping[CellKey, Tally]) -> dict[CellKey, tuple[int, int]]:
    """Returns trades and wins of each single cell, as far as a second field is known: the sums of its pairs with that field."""
    sums: dict[CellKey, tuple[int, int]] = {}
    for key, tally in cells.items():
        if len(key.conditions) == 2 and key.conditions[0][1] != ANY:
            first, second = key.conditions
            for half in ((first, (second[0], ANY)), ((first[0], ANY), second)):
                place = CellKey(key.strategy, key.symbol, half)
                n, wins = sums.get(place, (0, 0))
                sums[place] = n + tally.n, wins + tally.wins
    return sums


def count_without(joint: Mapping[Conditions, tuple[int, int]], believed: Iterable[Conditions]) -> Counts:
    """Returns trades and wins of every cell and of all whose fields (or one of two) are known, without those of believed ones."""
    sums: dict[Conditions, list[int]] = {}
    gone = [frozenset(one) for one in believed]
    for labels, (n, wins) in joint.items():
        held = frozenset(labels)
        if any(one <= held for one in gone):
            continue
        label = dict(labels)
        for names in GROUPINGS:
            if all(name in label for name in names):
                for conditions in _open_ways(tuple((name, label[name]) for name in names)):
                    found = sums.setdefault(conditions, [0, 0])
                    found[0] += n
                    found[1] += wins
    return {conditions: (n, wins) for conditions, (n, wins) in sums.items()}


def _open_ways(conditions: Conditions) -> list[Conditions]:
    ways: list[Conditions] = [()]
    for name, value in conditions:
        ways = [(*way, (name, chosen)) for way in ways for chosen in (value, ANY)]
    return ways
