"""Signs that a history knows the future: labels or numbers of the entry that tell how the trade ended.

A regime that was read from the trade's own window, a confidence written afterwards, a trade that ends at the second of its entry:
memory learns from such fields what no trader could have known, and any validation of it is void. Honest labels never foretell
outcomes as well as these limits ask. A weak leak stays below them; with bars, labels can also be compared with what the bars show
at the entry and at the exit.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from memtape.core.memory.episodes import Episode
from memtape.core.statistics import binomial_tail
from memtape.core.validation.resampling import spearman

MIN_TRADES = 40
MAX_FORETOLD = 0.6  # share of the errors of guessing that a label may take away
MAX_CORRELATION = 0.6
MAX_INSTANT_SHARE = 0.05
PURE_SHARE = 0.2  # of the errors of guessing; an edge of nine in ten is no sign
PURE_CHANCE = 0.001
MIN_MOVED = 15  # trades whose regime differs between entry and exit
LABELS: tuple[tuple[str, Callable[[Episode], str | None]], ...] = (
    ("regime", lambda e: e.regime), ("volatility", lambda e: e.volatility_regime), ("session", lambda e: e.session),
    ("tags", lambda e: ",".join(e.tags) or None), ("strategy", lambda e: e.strategy),
)  # fmt: skip
NUMBERS = (
    "confidence",
    "atr_d1",
    "atr_h1",
    "atr_m5",
    "spread_points",
    "drawdown_pct",
    "consecutive_losses",
    "move_atr",
    "late_atr",
)


def look_ahead_signs(
    trades: Sequence[Episode], outcomes: Sequence[float], is_computed: Callable[[str], bool] = lambda name: False
) -> list[str]:
    """Returns each sign in a sentence; empty if there is none.

    `is_computed` says of a number whether memtape computed it from what was known at the entry. Such a number (a drawdown, losses
    in a row) may go with outcomes that come in runs, but it knows no future. It is asked only of numbers that would be a sign.
    """
    found = [sign for name, label in LABELS if (sign := _foretelling_label(name, label, trades, outcomes))]
    found += [
        sign
        for name, label in LABELS[:2]
        if not any(one.startswith(name) for one in found) and (sign := _too_pure_values(name, label, trades, outcomes))
    ]
    found += [
        sign for name in NUMBERS if (sign := _foretelling_number(name, trades, outcomes)) and not is_computed(name)
    ]
    instant = sum(e.exit_at <= e.entry_at and r != 0 for e, r in zip(trades, outcomes, strict=True))
    if instant > MAX_INSTANT_SHARE * len(trades):
        found.append(f"{instant} of {len(trades)} trades end at the second of their entry, so their outcome is known too early")
    return found


def _foretelling_label(
    name: str, label: Callable[[Episode], str | None], trades: Sequence[Episode], outcomes: Sequence[float]
) -> str | None:
    counts: defaultdict[tuple[str, str], Counter[bool]] = defaultdict(Counter)
    for e, r in zip(trades, outcomes, strict=True):
        if (value := label(e)) is not None and r != 0:
            counts[value, e.side][r > 0] += 1
    # A label that nearly every trade has to itself foretells nothing: it is a name.
    groups = [count for count in counts.values() if count.total() >= 5]
    n, won = sum(count.total() for count in groups), sum(count[True] for count in groups)
    errors = min(won, n - won)
    if n < MIN_TRADES or not errors:
        return None
    foretold = 1.0 - sum(min(count[True], count[False]) for count in groups) / errors
    if foretold < MAX_FORETOLD:
        return None
    return f"{name} and side at the entry foretell {100 * foretold:.0f} % of the outcomes that guessing misses"


def _too_pure_values(
    name: str, label: Callable[[Episode], str | None], trades: Sequence[Episode], outcomes: Sequence[float]
) -> str | None:
    """Returns a sentence if some values of a label and the side foretell nearly every outcome, as no trader could.

    A regime that was read from the trade's own window is often "ranging" and then foretells nothing, but its trends never err.
    """
    groups: defaultdict[str, defaultdict[str, Counter[bool]]] = defaultdict(lambda: defaultdict(Counter))
    for e, r in zip(trades, outcomes, strict=True):
        if (value := label(e)) is not None and r != 0:
            groups[value][e.side][r > 0] += 1
    every = [count for sides in groups.values() for count in sides.values()]
    n, won = sum(count.total() for count in every), sum(count[True] for count in every)
    if n < MIN_TRADES or won in (0, n):
        return None
    most = PURE_SHARE * min(won, n - won) / n
    found = []
    for value, sides in groups.items():
        size = sum(count.total() for count in sides.values())
        errors = sum(min(count[True], count[False]) for count in sides.values())
        found.append((errors / size, value, errors, size))
    size = errors = 0
    values: list[str] = []
    # The values with the fewest errors together: each of them may be rare.
    for _, value, own_errors, own_size in sorted(found):
        size, errors = size + own_size, errors + own_errors
        values.append(value)
        if size < n and binomial_tail(size - errors, size, 1.0 - most) <= PURE_CHANCE:
            return f"{name} {' or '.join(values)} at the entry and the side foretell {size - errors} of {size} outcomes"
    return None


def _foretelling_number(name: str, trades: Sequence[Episode], outcomes: Sequence[float]) -> str | None:
    for side in ("long", "short", None):
        pairs = [
            (float(value), r) for e, r in zip(trades, outcomes, strict=True)
            if (value := getattr(e, name)) is not None and side in (None, e.side)
        ]  # fmt: skip
        if len(pairs) >= MIN_TRADES:
            values = np.array(pairs)
            if abs(found := spearman(values[:, 0], values[:, 1])) >= MAX_CORRELATION:
                of = f" of {side}s" if side else ""
                return f"{name} at the entry has a rank correlation of {found:+.2f} with the outcome{of}"
    return None


def label_time_sign(labels: Sequence[tuple[str, str | None, str | None]]) -> str | None:
    """Returns a sentence if stated regimes fit the bars at the exit better than at the entry.

    Each trade has its stated regime, and the regimes that bars show at its entry and at its exit.

    >>> label_time_sign([("ranging", "volatile", "ranging")] * 20)
    'the stated regime is that of the exit in 20 of 20 trades whose regime changed, and that of the entry in 0'
    """
    moved = [(stated, entry, exit_) for stated, entry, exit_ in labels if entry and exit_ and entry != exit_]
    at_entry = sum(stated == entry for stated, entry, _ in moved)
    at_exit = sum(stated == exit_ for stated, _, exit_ in moved)
    if len(moved) < MIN_MOVED or at_exit <= at_entry or at_exit < 0.5 * len(moved):
        return None
    return (
        f"the stated regime is that of the exit in {at_exit} of {len(moved)} trades whose regime changed, "
        f"and that of the entry in {at_entry}"
    )
