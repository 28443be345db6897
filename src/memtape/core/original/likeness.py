"""Similarity of situations as the original text gives it: two forms that do not agree.

Both are asymmetric, because the width of a kernel is scaled by the memory's value, and neither is 1 for identical situations at
zero drawdown. `core/memory/situation.py` has the form that memtape uses.

>>> then = Situation(regime="ranging", atr_d1=80.0)
>>> round(similarity_2_6(then, then), 6), round(similarity_7_4(then, then), 6)
(0.65, 0.421053)
"""

from __future__ import annotations

import math

from memtape.core.memory.situation import LABELS, NUMBERS, Labels, Numbers, gaussian, total_weight
from memtape.core.observed import Situation

NUMBERS_7_4: Numbers = tuple(row for row in NUMBERS if row[0] != "spread_as_atr_pct")


def similarity_2_6(memory: Situation, query: Situation, labels: Labels = LABELS, numbers: Numbers = NUMBERS) -> float:
    """Returns the first original form: eight fields; two unknown labels count as a match.

    >>> similarity_2_6(Situation(), Situation())
    0.5
    """
    parts = [weight for name, weight in labels if getattr(memory, name) == getattr(query, name)]
    return math.fsum(parts + _kernels(memory, query, numbers)) / total_weight(labels, numbers)


def similarity_7_4(memory: Situation, query: Situation, labels: Labels = LABELS, numbers: Numbers = NUMBERS_7_4) -> float:
    """Returns the second original form: seven fields; a label must be known to match.

    >>> similarity_7_4(Situation(), Situation())
    0.0
    """
    known = ((getattr(memory, name), getattr(query, name), weight) for name, weight in labels)
    parts = [weight for then, now, weight in known if then and now and then == now]
    return math.fsum(parts + _kernels(memory, query, numbers)) / total_weight(labels, numbers)


def _kernels(memory: Situation, query: Situation, numbers: Numbers) -> list[float]:
    """Returns Gaussian kernels whose width is scaled by the memory's value; 0 for zero or unknown values, as in the original."""
    found = []
    for name, weight, width in numbers:
        then, now = getattr(memory, name), getattr(query, name)
        if isinstance(then, float | int) and isinstance(now, float | int) and then != 0:
            found.append(weight * gaussian((then - now) / abs(then) / width))
    return found
