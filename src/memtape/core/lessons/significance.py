"""How surely a group of trades differs from the others, when luck comes in runs.

Outcomes of one day share a market, and good and bad weeks follow each other. A test that shuffles trades freely takes such runs
for evidence. Two tests respect them. The label of the group decides which one comes first; a small p-value must stand up to the
other one too, and the larger of the two counts.

- A label that varies within a day (hour, side, symbol) is judged by sign flips. The outcomes are centred: the mean of the group
  is subtracted from its trades, and that of the others from theirs. What is left of a day is luck, which could as well have had
  the other sign. The p-value is how often random signs, one per day, give a difference as large as the observed one. The signed
  outcomes are also shifted in a circle, so that the spread of all days counts and not only that of the few days with the label.
  A label may vary within some days and still last for weeks, like a regime: that is why a rotation must confirm it. Where the
  group's outcomes vary far more than the others (a symbol that is traded in a larger size), the shifts would mix in the
  calmer ones, so Student's t with the spread of the group itself must confirm it too.
- A label that is constant within a day (weekday, the regime of a day) is judged by rotation. Days with the label are compared
  with other days, so a run of good days falls on few of them. The outcomes, day by day, are shifted in a circle against the
  labels, forwards and in reverse: runs stay whole, and so does what the trades of a day share. The p-value is how often a shift
  gives as large a difference. One large outcome makes its own day stand out and is then in no other group: flips count it.

A rotation also uses centred outcomes. A real effect of Mondays returns with each shift by a week, and would otherwise hide
itself. Centring makes shifts that nearly repeat the labels too small: a shift is divided by what it keeps, and left out if it
keeps little. There are only twice as many shifts as days, and neighbours are alike. The p-value is therefore not below that
of Student's t with the spread over all shifts as its error, and equal to it where the difference is larger than in any shift.

The spread over all shifts may be small by luck, above all where few shifts differ from each other: a weekday has only six others,
however many weeks there are. So the error of a label of days is not below what days that lie near each other show (within a
quarter of the history, the nearer the more), and t has as many degrees of freedom as days are independent: all of them, divided
by the sum of squares of the autocorrelation of their labels within that distance. A label that lasts for weeks has few.

The 90 % interval is that of the difference of the two means, with the same error as the test: days, or shifts.

The signs come from a hash of the outcomes, so the same trades give the same p-value everywhere. A group that enough flips have
matched is not tested further: its p-value is then matches divided by flips, which is conservative.

>>> from random import Random
>>> chance = Random(1)
>>> outcomes = [chance.gauss(1.0 if at % 3 == 0 else 0.0, 1.0) for at in range(72)]  # the first trade of each day is better
>>> days = [at // 3 for at in range(72)]
>>> first = GroupQuestion(tuple(range(0, 72, 3)), tuple(range(72)))
>>> [found] = flip_tests(outcomes, days, [first])
>>> found.p_value < 0.01, [round(end, 2) for end in found.interval]
(True, [0.58, 1.26])
>>> even_days = GroupQuestion(tuple(at for at in range(72) if days[at] % 2), tuple(range(72)))
>>> [one.p_value > 0.1 for one in rotation_tests(outcomes, days, [even_days])]
[True]

References: Fisher 1935; Liu 1988 and Cameron, Gelbach & Miller 2008 (sign flips of clusters); Politis & Romano 1992 (circular
shifts of dependent data); Newey & West 1987 (an error from near neighbours); Besag & Clifford 1991 (early stops); Phipson &
Smyth 2010 (a p-value is never 0).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import shake_256
from operator import getitem, mul
from typing import NamedTuple

from memtape.core.lessons.label_shifts import (
    GroupQuestion,
    LabelShifts,
    Tail,
    centred_outcomes,
    day_shifts,
    sorted_days,
    trade_shifts,
)
from memtape.core.statistics import beta_cdf, beta_quantile, mean

FLIPS = 4_800
# More questions need more flips: the gate over m groups must be able to resolve p = 0.04 / m.
FLIPS_PER_QUESTION = 160
# After this many matches the p-value cannot pass the gate; more flips would only make it more precise.
ENOUGH_MATCHES = 10
FLIPS_PER_BLOCK = 120
DAYS_PER_BYTE = 8
CONFIRMED_FROM = 0.05  # p-value of a test, from which on down the other one must confirm it
FAR_MORE_VARIANCE = 2.0  # of a group against the others; 40 normal outcomes differ as much by luck in one of a thousand
SCALE = 1_000_000  # the largest outcome as an integer: equal sums compare as equal


class GroupTest(NamedTuple):
    """The answer: the p-value, and the 90 % interval of the difference of the means."""

    p_value: float
    interval: tuple[float, float]


# --- labels that vary within a day ---------------------------------------------------------------------------------------


def flip_tests(values: Sequence[float], days: Sequence[Hashable], questions: Sequence[GroupQuestion]) -> list[GroupTest]:
    """Judges groups by sign flips of days. `days` has the trading day of each trade; trades are in the order of their entries."""
    by_day = sorted_days(days)
    found = _flip_p_values(values, days, questions)
    tests = [
        GroupTest(_with_own_spread(p, values, by_day, question), _flip_interval(values, by_day, question))
        for p, question in zip(found, questions, strict=True)
    ]
    return [_confirmed(test, values, days, question) for test, question in zip(tests, questions, strict=True)]


def _flip_p_values(values: Sequence[float], days: Sequence[Hashable], questions: Sequence[GroupQuestion]) -> list[float]:
    whole = _as_integers(values)
    samples = [_FlipSample(whole, days, question) for question in questions]
    found, matched = [1.0] * len(questions), [0] * len(questions)
    open_ = [at for at, sample in enumerate(samples) if sample.observed > 0]
    width = max((len(sample.ends) for sample in samples), default=0) // DAYS_PER_BYTE + 1
    flips, done = max(FLIPS, FLIPS_PER_QUESTION * len(questions)), 0
    for shift, signs in _signs(repr(whole), width, flips):
        for at in tuple(open_):
            sample = samples[at]
            tables, observed, tail = _byte_tables(sample.parts(shift)), sample.observed, questions[at].tail
            for nth, flip in enumerate(signs, 1):
                if _beyond(sum(map(getitem, tables, flip)), tail) >= observed:
                    matched[at] += 1
                    if matched[at] == ENOUGH_MATCHES:
                        found[at] = ENOUGH_MATCHES / (done + nth)
                        open_.remove(at)
                        break
        done += len(signs)
        if not open_:
            break
    for at in open_:
        found[at] = (matched[at] + 1) / (done + 1)
    return found


def _confirmed(test: GroupTest, values: Sequence[float], days: Sequence[Hashable], question: GroupQuestion) -> GroupTest:
    """Returns the less certain one of a test by flips and one by rotation, if rotation can judge the label at all."""
    shifts = trade_shifts(values, days, question) if test.p_value <= CONFIRMED_FROM else None
    if shifts is None:
        return test
    rotated = _judged_by_shifts(values, question, shifts)
    return rotated if rotated.p_value > test.p_value else test


class _FlipSample:
    """The centred outcomes of the known trades in order, their weights in the difference of the means, and where days end."""

    __slots__ = ("ends", "observed", "outcomes", "weights")

    def __init__(self, whole: Sequence[int], days: Sequence[Hashable], question: GroupQuestion) -> None:
        order, group = sorted(question.known), set(question.inside)
        n, inside = len(order), len(group)
        rest = n - inside
        inner = sum(whole[i] for i in question.inside)
        outer = sum(whole[i] for i in order) - inner
        # Everything is multiplied by both counts, so that it stays an integer.
        self.outcomes = [
            rest * (inside * whole[i] - inner) if i in group else inside * (rest * whole[i] - outer) for i in order
        ]  # fmt: skip
        self.weights = [rest if i in group else -inside for i in order]
        self.ends = [at for at in range(1, n + 1) if at == n or days[order[at]] != days[order[at - 1]]]
        self.observed = _beyond(inside * rest * (rest * inner - inside * outer), question.tail)

    def parts(self, shift: int) -> list[int]:
        """Returns the share of each day in the difference, with the labels shifted in a circle against the outcomes."""
        by = shift % len(self.weights)
        terms = list(map(mul, self.weights[by:] + self.weights[:by], self.outcomes))
        return [sum(terms[start:end]) for start, end in zip([0, *self.ends], self.ends, strict=False)]


def _as_integers(values: Sequence[float]) -> list[int]:
    largest = max((abs(value) for value in values), default=0.0) or 1.0
    return [round(value / largest * SCALE) for value in values]


def _beyond(difference: int, tail: Tail) -> int:
    return abs(difference) if tail == "both" else difference if tail == "upper" else -difference


def _byte_tables(parts: Sequence[int]) -> list[list[int]]:
    """Returns for each eight days the sum under each of the 256 ways to sign them, so that one random byte flips eight days."""
    tables = []
    for start in range(0, len(parts), DAYS_PER_BYTE):
        sums = [0]
        for part in parts[start : start + DAYS_PER_BYTE]:
            sums = [total + part for total in sums] + [total - part for total in sums]
        # Fewer than eight days: a byte has more bits than are needed, and the higher ones change nothing.
        tables.append(sums * (256 // len(sums)))
    return tables


def _signs(seed: str, width: int, flips: int) -> Iterator[tuple[int, list[bytes]]]:
    """Yields blocks of flips with a shift for each block. A flip is one pseudo-random byte for each eight days."""
    for block in range(-(-flips // FLIPS_PER_BLOCK)):
        drawn = shake_256(f"{block}:{seed}".encode()).digest(width * FLIPS_PER_BLOCK + 8)
        count = min(FLIPS_PER_BLOCK, flips - block * FLIPS_PER_BLOCK)
        yield int.from_bytes(drawn[-8:], "little"), [drawn[width * at : width * (at + 1)] for at in range(count)]


def _with_own_spread(p_value: float, values: Sequence[float], by_day: Sequence[Sequence[int]], question: GroupQuestion) -> float:
    """Returns the p-value, not below that of Student's t over days if the group varies far more than the other trades."""
    difference, rests = centred_outcomes(values, question)
    group = set(question.inside)
    inside, outside = len(group), len(question.known) - len(group)
    if p_value > CONFIRMED_FROM or min(inside, outside) < 2:
        return p_value
    own = math.fsum(rests[i] ** 2 for i in group) / (inside - 1)
    others = math.fsum(rest**2 for i, rest in rests.items() if i not in group) / (outside - 1)
    days_inside = sum(not group.isdisjoint(day) for day in by_day)
    error = _flip_error(rests, by_day, question)
    if own <= FAR_MORE_VARIANCE * others or days_inside < 2 or error <= 0.0:
        return p_value
    tails = 2.0 if question.tail == "both" else 1.0
    return max(p_value, _t_tail(_toward(difference, question.tail) / error, days_inside - 1) * tails)


def _flip_interval(values: Sequence[float], by_day: Sequence[Sequence[int]], question: GroupQuestion) -> tuple[float, float]:
    difference, rests = centred_outcomes(values, question)
    days = sum(any(i in rests for i in day) for day in by_day)
    return _around(difference, _flip_error(rests, by_day, question), days - 1) if days > 1 else (difference, difference)


def _flip_error(rests: Mapping[int, float], by_day: Sequence[Sequence[int]], question: GroupQuestion) -> float:
    """Returns the error of the difference of the two means, from what is left of each day; 0 if there is only one."""
    inside, outside = len(question.inside), len(question.known) - len(question.inside)
    group = set(question.inside)
    parts = [
        math.fsum(rests[i] / inside if i in group else -rests[i] / outside for i in day if i in rests)
        for day in by_day if any(i in rests for i in day)
    ]  # fmt: skip
    return math.sqrt(len(parts) / (len(parts) - 1) * math.fsum(part * part for part in parts)) if len(parts) > 1 else 0.0


# --- labels that are constant within a day -------------------------------------------------------------------------------


def rotation_tests(values: Sequence[float], days: Sequence[Hashable], questions: Sequence[GroupQuestion]) -> list[GroupTest]:
    """Judges groups by shifting days in a circle against their labels. Trades are in the order of their entries."""
    tests = []
    for question in questions:
        shifts = day_shifts(values, days, question)
        if shifts is None:
            apart = centred_outcomes(values, question)[0]
            tests.append(GroupTest(1.0, (apart, apart)))
        else:
            tests.append(_judged_by_shifts(values, question, shifts))
    # A single large outcome may make its own weekday stand out, and is then in no other: flips count it.
    doubtful = [at for at, test in enumerate(tests) if test.p_value <= CONFIRMED_FROM]
    flipped = _flip_p_values(values, days, [questions[at] for at in doubtful])
    for at, p_value in zip(doubtful, flipped, strict=True):
        tests[at] = tests[at]._replace(p_value=max(p_value, tests[at].p_value))
    return tests


def _judged_by_shifts(values: Sequence[float], question: GroupQuestion, shifts: LabelShifts) -> GroupTest:
    difference = centred_outcomes(values, question)[0]
    observed = _toward(difference, question.tail) * (1.0 - 1e-9)
    matches = sum(_toward(one, question.tail) >= observed for one in shifts.differences)
    error = max(shifts.least_error, math.sqrt(math.fsum(one * one for one in shifts.differences) / len(shifts.differences)))
    counted = (matches + 1) / (len(shifts.differences) + 1)
    tails = 2.0 if question.tail == "both" else 1.0
    by_error = _t_tail(observed / error, shifts.freedom) * tails if error > 0.0 else 0.0
    p_value = max(counted, by_error) if matches or not error else by_error
    return GroupTest(p_value, _around(difference, error, max(int(shifts.freedom), 1)))


def _toward(difference: float, tail: Tail) -> float:
    return abs(difference) if tail == "both" else difference if tail == "upper" else -difference


def _t_tail(t: float, freedom: float) -> float:
    """Returns the probability that Student's t is larger.

    >>> round(_t_tail(1.812461, 10), 6)
    0.05
    """
    half = 0.5 * beta_cdf(freedom / (freedom + t * t), 0.5 * freedom, 0.5)
    return half if t > 0 else 1.0 - half


# --- intervals -----------------------------------------------------------------------------------------------------------


def mean_interval(values: Sequence[float], days: Sequence[Hashable]) -> tuple[float, float]:
    """Returns the 90 % confidence interval of a mean: Student's t over days, each counting once.

    >>> [round(end, 4) for end in mean_interval([1.0, -1.0, 2.0, -1.0], "abcd")], mean_interval([0.5], "a")
    ([-1.515, 2.015], (0.5, 0.5))
    >>> [round(end, 4) for end in mean_interval([1.0, 1.0, -1.0, -1.0, 2.0, 2.0, -1.0, -1.0], "aabbccdd")]  # no more is known
    [-1.515, 2.015]
    """
    n, middle = len(values), mean(values)
    together: dict[Hashable, list[float]] = defaultdict(list)
    for value, day in zip(values, days, strict=True):
        together[day].append(value - middle)
    clusters = len(together)
    if clusters < 2:
        return middle, middle
    error = math.sqrt(clusters / (clusters - 1) * math.fsum(math.fsum(part) ** 2 for part in together.values())) / n
    return _around(middle, error, clusters - 1)


def _around(middle: float, error: float, freedom: int) -> tuple[float, float]:
    half = _reach(freedom) * error
    return middle - half, middle + half


@lru_cache(maxsize=1024)
def _reach(df: int) -> float:
    """Returns the two-sided 90 % quantile of Student's t.

    >>> round(_reach(10), 6)
    1.812461
    """
    x = beta_quantile(0.1, 0.5 * df, 0.5)
    return math.sqrt(df * (1.0 - x) / x)
