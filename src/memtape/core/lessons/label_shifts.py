"""Shifts of outcomes against labels: what the difference of two groups would be if luck had come earlier or later.

Outcomes are shifted in a circle, forwards and in reverse, trade by trade or by whole days, so that every run of luck stays whole.
They are centred before: each trade less the mean of its own side. `significance` says how shifts are judged.

>>> monday = GroupQuestion((0, 5, 10, 15), tuple(range(20)))
>>> found = day_shifts([2.0, 0.0, -1.0, 1.0, 0.5] * 4, range(20), monday)
>>> len(found.differences), round(found.freedom, 1)  # the label changes every week: 16 of 20 shifts, both ways
(32, 16.4)
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from functools import lru_cache
from operator import itemgetter, mul
from typing import Literal, NamedTuple

from memtape.core.statistics import mean

MIN_SHIFT_TRADES = 5
NEAR_SHARE = 0.25  # of all days, within which days may be alike
PRECISION_BITS = 48  # of an outcome
MAX_LIKENESS = 0.7  # correlation of shifted labels with the labels, from which a shift says too little

Tail = Literal["both", "lower", "upper"]


class GroupQuestion(NamedTuple):
    """Asks whether a group of trades (`inside`) differs from the others whose label is known. `known` holds both."""

    inside: tuple[int, ...]
    known: tuple[int, ...]
    tail: Tail = "both"


class LabelShifts(NamedTuple):
    """The difference of the means in each shift of the centred outcomes, and how many shifts are independent of each other."""

    differences: tuple[float, ...]
    freedom: float
    least_error: float = 0.0  # of the difference


def centred_outcomes(values: Sequence[float], question: GroupQuestion) -> tuple[float, dict[int, float]]:
    """Returns the difference of the two means, and each outcome less the mean of its own side."""
    group = set(question.inside)
    inner = mean([values[i] for i in question.inside])
    outer = mean([values[i] for i in question.known if i not in group])
    return inner - outer, {i: values[i] - (inner if i in group else outer) for i in question.known}


def trade_shifts(values: Sequence[float], days: Sequence[Hashable], question: GroupQuestion) -> LabelShifts | None:
    """Returns the shifts by trades.

    None if nearly every shift repeats the labels, as with every second trade: then there is nothing to compare.
    """
    _, rests = centred_outcomes(values, question)
    order = sorted(question.known)
    place = {i: at for at, i in enumerate(order)}
    inside = [place[i] for i in question.inside]
    n, group = len(order), len(question.inside)
    rest = n - group
    ordered = [rests[i] for i in order]
    total = math.fsum(ordered)
    labels = [0] * n
    for at in inside:
        labels[at] = 1
    whole, unit = _as_whole_numbers(ordered)
    shifted: list[float] = []
    # Reversed outcomes are as likely as the outcomes, and keep runs whole too.
    for forwards in (True, False):
        step = 1 if forwards else -1
        kept_in_group, moved_in_group = (sums_in_circle(labels, row[::step]) for row in (labels, whole))
        for by, (kept, moved_units) in enumerate(zip(kept_in_group, moved_in_group, strict=True)):
            # Whether a trade comes after a loss depends on the outcome just before it: near shifts say nothing about chance.
            if forwards and min(by, n - by) < MIN_SHIFT_TRADES:
                continue
            # The correlation of the shifted labels with the labels.
            alike = (kept * n - group * group) / (group * rest)
            if abs(alike) < MAX_LIKENESS:
                moved = moved_units * unit
                shifted.append((moved / group - (total - moved) / rest) / math.sqrt(1.0 - alike * alike))
    freedom = max(len({days[i] for i in order}) - 2, 1)
    return LabelShifts(tuple(shifted), freedom) if len(shifted) >= n // 2 else None


def _as_whole_numbers(values: Sequence[float]) -> tuple[list[int], float]:
    """Returns values as whole multiples of a small unit, and the unit."""
    largest = max((abs(value) for value in values), default=0.0) or 1.0
    unit = math.ldexp(1.0, math.frexp(largest)[1] - PRECISION_BITS)
    return [round(value / unit) for value in values], unit


def sums_in_circle(labels: Sequence[int], values: Sequence[int]) -> list[int]:
    """Returns for each shift of the values in a circle the sum of those that meet a label of 1.

    All shifts come from one multiplication of two very large numbers, which have the labels and the values as their digits.
    Adding up each shift by itself takes a second and a half with 10,000 trades, this a tenth of it.

    >>> sums_in_circle([1, 1, 0, 0], [5, -1, 0, 2])
    [4, -1, 2, 7]
    """
    n, least = len(values), min(values)
    # Digits must not be negative, and none may grow into the next.
    largest_sum = n * (max(values) - least)
    width = largest_sum.bit_length() // 8 + 1
    backwards = int.from_bytes(b"".join(label.to_bytes(width, "little") for label in reversed(labels)), "little")
    forwards = int.from_bytes(b"".join((value - least).to_bytes(width, "little") for value in values), "little")
    digits = (backwards * forwards).to_bytes(2 * n * width, "little")
    found = [int.from_bytes(digits[at : at + width], "little") for at in range(0, 2 * n * width, width)]
    lifted = least * sum(labels)
    # What runs over the end of the values meets the labels again from the beginning.
    return [found[n - 1 + by] + (found[by - 1] if by else 0) + lifted for by in range(n)]


class _DayLabels:
    """The share of the group in the trades of each day, and how much these shares resemble themselves when days are shifted."""

    def __init__(self, days: Sequence[Hashable], question: GroupQuestion) -> None:
        group, known = set(question.inside), set(question.known)
        found = ([i for i in day if i in known] for day in sorted_days(days))
        self.by_day = [day for day in found if day]
        self.shares = [sum(i in group for i in day) / len(day) for day in self.by_day]
        self._middle = mean(self.shares)
        self._square = math.fsum((share - self._middle) ** 2 for share in self.shares)
        self.alike_forwards = self.likeness(self.shares)

    def likeness(self, shifted: Sequence[float]) -> list[float]:
        """Returns the correlation of the shares with others, for each shift of these; none if each day has the same share."""
        n = len(self.shares)
        if self._square <= 1e-9 * n:
            return []
        return [(both - n * self._middle * self._middle) / self._square for both in shifted_sums(shifted, self.shares)]

    @property
    def freedom(self) -> float:
        """How many days are independent: all, divided by the sum of squares of the autocorrelation of their labels."""
        days = len(self.shares)
        near = zip(nearness(days), self.alike_forwards, strict=False)
        return max(1.0, min(days - 2.0, days / max(1.0, math.fsum((kept * alike) ** 2 for kept, alike in near)) - 1.0))

    def error(self, sums: Sequence[float]) -> float:
        """Returns the error of the sum of outcomes by label, from how alike days are that lie near each other."""
        days, row = len(sums), [*sums, *sums]
        near = [(by, kept * self.alike_forwards[by]) for by, kept in enumerate(nearness(days)[: days // 2 + 1]) if kept]
        # Each distance but none counts twice, for the days before and after.
        square = 2.0 * math.fsum(k * sum(map(mul, sums, row[by : by + days])) for by, k in near) - sum(map(mul, sums, sums))
        lost = 2.0 * math.fsum(k * self.alike_forwards[by] for by, k in near)
        # Centring makes outcomes look less alike, the more so the longer a label lasts.
        return math.sqrt(max(0.0, square / days) * self._square / max(1.0 - lost / days, 0.1))


@lru_cache(maxsize=64)
def nearness(days: int) -> tuple[float, ...]:
    """Returns how much days count as neighbours by their distance in the circle: less with each day, none from a quarter on.

    >>> nearness(8)
    (1.0, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5)
    """
    reach = max(days * NEAR_SHARE, 1.0)
    return tuple(max(0.0, 1.0 - min(by, days - by) / reach) for by in range(days))


def shifted_sums(shares: Sequence[float], values: Sequence[float]) -> list[float]:
    """Returns for each shift of the shares in a circle the sum of the values by them. Days without a share cost nothing.

    >>> shifted_sums([1.0, 0.5, 0.0], [3.0, 4.0, 2.0])
    [5.0, 3.5, 5.0]
    """
    inside = [day for day, share in enumerate(shares) if share]
    weights, row, n = [shares[day] for day in inside], [*values, *values], len(values)
    picked = itemgetter(*inside) if len(inside) > 1 else lambda one: tuple(one[day] for day in inside)
    if all(weight == 1.0 for weight in weights):
        return [sum(picked(row[n - by : 2 * n - by])) for by in range(n)]
    return [sum(map(mul, weights, picked(row[n - by : 2 * n - by]))) for by in range(n)]


def day_shifts(values: Sequence[float], days: Sequence[Hashable], question: GroupQuestion) -> LabelShifts | None:
    """Returns the shifts by whole days: what trades of one day share stays together. None if nearly all repeat the labels."""
    _, rests = centred_outcomes(values, question)
    labels = _DayLabels(days, question)
    counts, sums = [len(day) for day in labels.by_day], [math.fsum(rests[i] for i in day) for day in labels.by_day]
    trades, total = sum(counts), math.fsum(sums)
    usual = _error_factor(len(question.inside), trades)
    shifted: list[float] = []
    backwards = labels.shares[::-1]
    for shares, likeness in ((labels.shares, labels.alike_forwards), (backwards, labels.likeness(backwards))):
        for inner, picked, alike in zip(shifted_sums(shares, counts), shifted_sums(shares, sums), likeness, strict=False):
            if abs(alike) < MAX_LIKENESS and 0.0 < inner < trades:
                apart = picked / inner - (total - picked) / (trades - inner)
                # Days have more or fewer trades: a difference of few trades is scaled to that of as many as the group has.
                shifted.append(apart * usual / _error_factor(inner, trades) / math.sqrt(1.0 - alike * alike))
    if len(shifted) < len(counts) // 2:
        return None
    inside = len(question.inside)
    return LabelShifts(tuple(shifted), labels.freedom, labels.error(sums) * trades / (inside * (trades - inside)))


def _error_factor(inside: float, trades: int) -> float:
    return math.sqrt(1.0 / inside + 1.0 / (trades - inside))


def sorted_days(days: Sequence[Hashable]) -> list[list[int]]:
    """Returns the trades of each day, by their indices."""
    found: dict[Hashable, list[int]] = defaultdict(list)
    for at, day in enumerate(days):
        found[day].append(at)
    return list(found.values())
