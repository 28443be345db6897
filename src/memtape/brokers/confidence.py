"""Confidence on any scale -> 0 to 1. The whole column decides the scale; where it cannot, confidence is left out.

Confidence is a remark beside a trade. So a value that cannot be read never costs the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from memtape.brokers.cells import BadCell
from memtape.core.codec import decimal_text

ONE = Decimal(1)


def scale_confidence(
    cells: Sequence[Decimal | BadCell | None], name: str, stated: str | None = None
) -> tuple[list[Decimal | None], str | None, list[str]]:
    """Returns the confidences from 0 to 1, their scale (None: they are left out), and notes for the preview.

    >>> scale_confidence([Decimal(7), None, Decimal(9)], "conviction")
    ([Decimal('0.7'), None, Decimal('0.9')], '10', ['conviction is on a scale of 10: divided by 10'])
    >>> scale_confidence([Decimal("0.4"), Decimal(75)], "conviction")[1:]
    (None, ['conviction is left out: its values go from 0.4 to 75, on no scale of 1, 10 or 100'])
    """
    values = [value for value in cells if isinstance(value, Decimal)]
    unread = sum(isinstance(value, BadCell) for value in cells)
    notes = [f"{name}: {unread} values are not numbers and are left out"] if unread and values else []
    nothing: list[Decimal | None] = [None] * len(cells)
    if not values:
        return nothing, None, [f"{name} is left out: its values are not numbers"] if unread else []
    low, high = min(values), max(values)
    if low == high == 0:
        return nothing, None, [*notes, f"{name} is left out: it is 0 in every row"]
    scale = stated or _scale(values, low, high)
    if scale is None:
        span = f"its values go from {decimal_text(low)} to {decimal_text(high)}"
        known = "; if it is 5, give --map confidence_scale=5" if ONE < high <= 5 and low >= ONE else ""
        clause = f"the scale is unclear{known}" if known else "on no scale of 1, 10 or 100"
        return nothing, None, [*notes, f"{name} is left out: {span}, {clause}"]
    top = Decimal(scale)
    found = [round(value / top, 18).normalize() if isinstance(value, Decimal) and 0 <= value <= top else None for value in cells]
    if beyond := sum(not 0 <= value <= top for value in values):
        notes.append(f"{name}: {beyond} values are outside 0 to {scale} and are left out")
    if top != 1:
        notes.append(f"{name} is on a scale of {scale}: divided by {scale}")
    return found, scale, notes


def _scale(values: Sequence[Decimal], low: Decimal, high: Decimal) -> str | None:
    """Returns the scale that fits all values; None if several or none do."""
    if low < 0 or high > 100:
        return None
    if high <= 1:
        return "1"
    # A fraction below 1 among larger values, or a top of 5 or less, fits more than one scale.
    if any(0 < value < 1 for value in values) or high <= 5:
        return None
    return "10" if high <= 10 else "100"
