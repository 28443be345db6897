"""A permutation test: outcomes are shuffled among the trades thousands of times, to count how often chance does as much.

A group of trades is compared with the other trades whose condition is known. If the condition has no effect, any trade could have
had any outcome. The p-value is therefore the share of shuffles in which the two means differ at least as much as observed. It
holds for outcomes of any distribution: one +8R among many -1R needs no special formula.

Trades entered at the same moment are not independent. They form a cluster: a shuffle swaps whole clusters of the same size, and
permutes the outcomes within each. So ten positions opened on one signal count as one observation of the signal, and as ten
observations of their symbols.

The shuffles come from a hash of the outcomes, so the same trades give the same p-value everywhere. Sums are integers, so equal
shuffles compare as equal. A group that enough shuffles have matched is not shuffled further: its p-value is then matches divided
by shuffles, which is conservative (Besag & Clifford 1991).

>>> lucky = [2.0] * 6 + [-1.0] * 14
>>> moments = list(range(20))
>>> [round(p, 3) for p in shuffle_p_values(lucky, moments, [GroupQuestion(tuple(range(6)), tuple(range(20)))])]
[0.0]
>>> [p > 0.5 for p in shuffle_p_values(lucky, moments, [GroupQuestion((0, 8, 9), tuple(range(20)))])]
[True]

References: Fisher 1935; Besag & Clifford 1991, Sequential Monte Carlo p-values; Phipson & Smyth 2010 (a p-value is never 0).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import shake_256
from itertools import accumulate, chain
from operator import itemgetter
from struct import unpack
from typing import Literal, NamedTuple

from memtape.core.statistics import beta_quantile, mean

SHUFFLES = 4_800
# More questions need more shuffles: the gate over m groups must be able to resolve p = 0.1 / m.
SHUFFLES_PER_QUESTION = 48
# After this many matches the p-value cannot pass the gate; more shuffles would only make it more precise.
ENOUGH_MATCHES = 10
UNITS_PER_R = 1_000_000_000  # outcomes are integers in this unit
DEALS_PER_ORDER = 8  # shuffles made from one drawn order
BLOCK_DEALS = 16

Tail = Literal["both", "lower", "upper"]


class GroupQuestion(NamedTuple):
    """Asks whether a group of trades (`inside`) differs from the others whose condition is known. `known` holds both."""

    inside: tuple[int, ...]
    known: tuple[int, ...]
    tail: Tail = "both"


_Sum = Callable[[Sequence[int]], int]


@dataclass(slots=True)
class _OpenQuestion:
    """A question whose p-value is not decided yet."""

    at: int
    total: _Sum
    n: int
    known: int
    tail: Tail
    centre: int = 0
    observed: int = 0
    matched: int = 0

    def distance(self, inside: int, known: int) -> int:
        """Returns how far the difference of the means is from its expectation, times n times the number of known trades."""
        parted = self.known * inside - self.n * known - self.centre
        return abs(parted) if self.tail == "both" else parted if self.tail == "upper" else -parted


def shuffle_p_values(values: Sequence[float], moments: Sequence[Hashable], questions: Sequence[GroupQuestion]) -> list[float]:
    """Returns the p-value of each question. `moments` are the entry times, equal for trades entered together."""
    found = [1.0] * len(questions)
    if not questions:
        return found
    places = _arranged(moments)
    whole = [round(values[i] * UNITS_PER_R) for i in places]
    open_ = _open_questions(questions, places, whole, [moments[i] for i in places])
    most = max(SHUFFLES, SHUFFLES_PER_QUESTION * len(questions))
    for deal, dealt in enumerate(_deals(whole, [moments[i] for i in places], most), 1):
        done = False
        for known, several in open_.items():
            total = known(dealt)
            for one in several:
                if one.distance(one.total(dealt), total) >= one.observed:
                    one.matched += 1
                    done = done or one.matched == ENOUGH_MATCHES
        if done:
            for one in (one for several in open_.values() for one in several if one.matched == ENOUGH_MATCHES):
                found[one.at] = ENOUGH_MATCHES / deal
            open_ = {
                known: left
                for known, several in open_.items()
                if (left := [one for one in several if one.matched < ENOUGH_MATCHES])
            }
            if not open_:
                break
    for one in (one for several in open_.values() for one in several):
        found[one.at] = (one.matched + 1) / (most + 1)
    return found


def _arranged(moments: Sequence[Hashable]) -> list[int]:
    """Returns the indices of the trades sorted so that clusters are contiguous, and clusters of one size are adjacent."""
    size, first = Counter(moments), {moment: at for at, moment in reversed(list(enumerate(moments)))}
    return sorted(range(len(moments)), key=lambda i: (size[moments[i]], first[moments[i]], i))


def _open_questions(
    questions: Sequence[GroupQuestion], places: Sequence[int], whole: Sequence[int], moments: Sequence[Hashable]
) -> dict[_Sum, list[_OpenQuestion]]:
    """Returns the questions by their known trades, so that these are summed once per shuffle."""
    put = {trade: place for place, trade in enumerate(places)}
    expected = _expected(whole, moments)
    sums: dict[tuple[int, ...], _Sum] = {}
    open_: dict[_Sum, list[_OpenQuestion]] = defaultdict(list)
    for at, question in enumerate(questions):
        inside, known = [put[i] for i in question.inside], [put[i] for i in question.known]
        one = _OpenQuestion(at, _summed(inside, whole), len(inside), len(known), question.tail)
        one.centre = round(
            len(known) * math.fsum(expected[i] for i in inside) - len(inside) * math.fsum(expected[i] for i in known)
        )
        one.observed = one.distance(sum(whole[i] for i in inside), sum(whole[i] for i in known))
        open_[sums.setdefault(question.known, _summed(known, whole))].append(one)
    return dict(open_)


def _summed(places: Sequence[int], whole: Sequence[int]) -> _Sum:
    """Returns a function that sums a shuffle over these places. Over all places the sum is constant."""
    if len(places) == len(whole):
        total = sum(whole)
        return lambda _: total
    if len(places) == 1:
        return lambda dealt: dealt[places[0]]
    picked = itemgetter(*places)
    return lambda dealt: sum(picked(dealt))


def _expected(whole: Sequence[int], moments: Sequence[Hashable]) -> list[float]:
    """Returns the expected outcome of each trade in a shuffle: the mean over all clusters of the size of its own."""
    size, by_size = Counter(moments), defaultdict(list)
    for value, moment in zip(whole, moments, strict=True):
        by_size[size[moment]].append(float(value))
    means = {n: mean(values) for n, values in by_size.items()}
    return [means[size[moment]] for moment in moments]


def _deals(whole: Sequence[int], moments: Sequence[Hashable], most: int) -> Iterator[list[int]]:
    """Yields the outcomes in shuffled order; the places are those of `_arranged`.

    Clusters of one size swap places, and the outcomes within each cluster rotate; a rotation puts each outcome at each place with
    equal probability. Each drawn order is used eight times, rotated by an eighth each time: all rotations are equally likely.
    """
    clusters: dict[Hashable, list[int]] = defaultdict(list)
    for value, moment in zip(whole, moments, strict=True):
        clusters[moment].append(value)
    turned = [[outcomes[by:] + outcomes[:by] for by in range(len(outcomes))] for outcomes in clusters.values()]
    sizes = sorted(Counter(map(len, turned)).items())
    ends = accumulate(count for _, count in sizes)
    spans = [(size, range(end - count, end)) for (size, count), end in zip(sizes, ends, strict=True)]
    for draws in _draws(repr(whole), len(turned), -(-most // DEALS_PER_ORDER)):
        lots = []
        for size, span in spans:
            order = sorted(span, key=draws.__getitem__)
            lots.append((list(chain.from_iterable([turned[at][draws[at] % size] for at in order])), size, len(span)))
        for turn in range(DEALS_PER_ORDER):
            dealt: list[int] = []
            for outcomes, size, count in lots:
                first = count * turn // DEALS_PER_ORDER * size
                dealt += outcomes[first:]
                dealt += outcomes[:first]
            yield dealt


def _draws(seed: str, width: int, most: int) -> Iterator[tuple[int, ...]]:
    """Yields pseudo-random 32-bit numbers derived from a hash of the seed."""
    for block in range(-(-most // BLOCK_DEALS)):
        drawn = shake_256(f"{block}:{seed}".encode()).digest(4 * width * BLOCK_DEALS)
        for at in range(min(BLOCK_DEALS, most - block * BLOCK_DEALS)):
            yield unpack(f"<{width}I", drawn[4 * width * at : 4 * width * (at + 1)])


def mean_interval(values: Sequence[float], moments: Sequence[Hashable]) -> tuple[float, float]:
    """Returns the 90 % confidence interval of the mean: Student's t over entry moments, clusters counting once.

    >>> [round(end, 4) for end in mean_interval([1.0, -1.0, 2.0, -1.0], "abcd")], mean_interval([0.5], "a")
    ([-1.515, 2.015], (0.5, 0.5))
    >>> [round(end, 4) for end in mean_interval([1.0, 1.0, -1.0, -1.0, 2.0, 2.0, -1.0, -1.0], "aabbccdd")]  # no more is known
    [-1.515, 2.015]
    """
    n, middle = len(values), mean(values)
    together: dict[Hashable, list[float]] = defaultdict(list)
    for value, moment in zip(values, moments, strict=True):
        together[moment].append(value - middle)
    clusters = len(together)
    if clusters < 2:
        return middle, middle
    error = math.sqrt(clusters / (clusters - 1) * math.fsum(math.fsum(part) ** 2 for part in together.values())) / n
    half = _reach(clusters - 1) * error
    return middle - half, middle + half


@lru_cache(maxsize=1024)
def _reach(df: int) -> float:
    """Returns the two-sided 90 % quantile of Student's t.

    >>> round(_reach(10), 6)
    1.812461
    """
    x = beta_quantile(0.1, 0.5 * df, 0.5)
    return math.sqrt(df * (1.0 - x) / x)
