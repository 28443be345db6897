"""The five expectations of the original text (section 8.5), answered one by one: held, failed, or cannot be told.

Each is asked of the original formula as written (OWM literal) and of what memtape suggests (evidence). Accounts are compared at
equal mean risk on the same redrawn weeks; an answer needs 95 % of the draws on its side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from memtape.core.validation.daily import WeekGrid, calmar_of_rows, drawdown_of_rows, growth_of_rows, sharpe_of_rows
from memtape.core.validation.resampling import Floats, IntervalEnds, percentile_interval

ClaimAnswer = Literal["held", "failed", "cannot be told"]
SURE = 0.95  # share of the draws
OVERFIT_HELD, OVERFIT_FAILED = 0.5, 0.25


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """One expectation, for one approach."""

    number: int
    claim: str
    approach: str
    answer: ClaimAnswer
    found: str


def answer_claims(
    drawn: Mapping[str, Floats], grid: WeekGrid, approaches: tuple[str, ...], overfitting: float | None, variants: int,
    void: str | None = None, untold: Mapping[str, str] | None = None,
) -> list[ClaimResult]:  # fmt: skip
    """Returns the answers. `drawn` has the redrawn daily returns of each approach at equal mean risk.

    `void` is the reason why this history can tell nothing of any approach: then no expectation held or failed. `untold` has such
    reasons of single approaches, like one that traded twice.
    """
    found: list[ClaimResult] = []
    for name in approaches:
        own = drawn[name]
        flat = not own.any()
        for number, other, text in (
            (1, "fixed_lot", "more growth than a fixed lot"),
            (2, "simple_kelly", "more growth than simple Kelly"),
        ):
            found.append(
                _compared(number, text, name, _growth(own) - _growth(drawn[other]), "log growth", flat or not drawn[other].any())
            )
        falls = [
            drawdown_of_rows(drawn[other]) - drawdown_of_rows(own)
            for other in ("fixed_lot", "simple_kelly")
            if drawn[other].any()
        ]
        less = np.minimum.reduce(falls) if falls else np.zeros(len(own))
        found.append(
            _compared(
                3, "a lower maximum drawdown than a fixed lot and simple Kelly", name, less, "drawdown saved", flat or not falls
            )
        )
        found.append(_calmar_claim(name, own, drawn["fixed_lot"], grid, flat))
    found.append(_overfitting_claim(overfitting, variants))
    reasons = dict(untold or {}) if void is None else dict.fromkeys((*approaches, "evidence"), void)
    found = [
        replace(one, answer="cannot be told", found=reasons[one.approach]) if one.approach in reasons else one for one in found
    ]
    return sorted(found, key=lambda one: one.number)


def _growth(rows: Floats) -> Floats:
    found: Floats = np.log(np.maximum(growth_of_rows(rows), 1e-12))
    return found


def answer_of(better: Floats) -> tuple[ClaimAnswer, float, IntervalEnds]:
    """Returns the answer of differences: held if nearly all draws are above zero, failed if nearly all are below.

    >>> answer_of(np.array([0.1] * 20))[0], answer_of(np.array([-0.1, 0.1]))[0]
    ('held', 'cannot be told')
    """
    above, below = float((better > 0).mean()), float((better < 0).mean())
    answer: ClaimAnswer = "held" if above >= SURE else "failed" if below >= SURE else "cannot be told"
    return answer, above, percentile_interval(better.tolist())


def _compared(number: int, text: str, approach: str, better: Floats, unit: str, missing: bool) -> ClaimResult:
    if missing:
        return ClaimResult(number, text, approach, "cannot be told", "one of the two never traded")
    answer, above, (low, high) = answer_of(better)
    return ClaimResult(
        number, text, approach, answer, f"{unit} {low:+.3f} to {high:+.3f}, better in {100 * above:.0f} % of draws"
    )


def _calmar_claim(approach: str, own: Floats, lot: Floats, grid: WeekGrid, flat: bool) -> ClaimResult:
    text = "the biggest improvement is in the Calmar ratio"
    if flat or not lot.any():
        return ClaimResult(4, text, approach, "cannot be told", "one of the two never traded")
    calmar = _improvement(calmar_of_rows(own, grid.years), calmar_of_rows(lot, grid.years))
    sharpe = _improvement(sharpe_of_rows(own, grid.days_per_year), sharpe_of_rows(lot, grid.days_per_year))
    known = np.isfinite(calmar) & np.isfinite(sharpe)
    if known.sum() < 0.5 * len(known):
        return ClaimResult(4, text, approach, "cannot be told", "the Calmar ratio is seldom defined")
    # An improvement of the Calmar ratio that is larger than that of the Sharpe ratio, each in its own size.
    margin = np.minimum(calmar[known], calmar[known] - sharpe[known])
    answer, above, _ = answer_of(margin)
    low, high = percentile_interval(calmar[known].tolist())
    return ClaimResult(
        4,
        text,
        approach,
        answer,
        f"change of Calmar {low:+.2f} to {high:+.2f} of its size, the biggest in {100 * above:.0f} % of draws",
    )


def _improvement(own: Floats, other: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = (own - other) / np.maximum(np.abs(own), np.abs(other))
    return found


def _overfitting_claim(overfitting: float | None, variants: int) -> ClaimResult:
    text = "choosing parameters on this history would overfit (so they stay at their defaults)"
    if overfitting is None:
        return ClaimResult(5, text, "evidence", "cannot be told", "too few weeks, or parameters were not varied")
    answer: ClaimAnswer = (
        "held" if overfitting >= OVERFIT_HELD else "failed" if overfitting < OVERFIT_FAILED else "cannot be told"
    )
    worse = f"the best of {variants} on one half was below the median on the other in {100 * overfitting:.0f} % of splits"
    return ClaimResult(5, text, "evidence", answer, worse)
