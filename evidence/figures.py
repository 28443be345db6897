"""One measured figure of a study, with its bar and what it is compared with.

>>> Figure("notes with an unmarked lesson, outcomes shuffled", 0.045, n=200, at_most=0.10, unit="share of notes").row()
'| notes with an unmarked lesson, outcomes shuffled | 4.5 % | 200 notes | at most 10 % | | yes |'
>>> Figure("tokens of a brief", 1120.0, n=20, at_most=1500.0, unit="histories", baseline="2,480 before").row()
'| tokens of a brief | 1,120 | 20 histories | at most 1,500 | 2,480 before | yes |'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from memtape.core.statistics import binomial_tail

T = TypeVar("T")

Scale = Literal["small", "full"]  # small: a few runs, for the suite; full: what the published figures need


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure, how many observations it rests on, and its bar."""

    name: str
    value: float
    n: int
    unit: str  # what n counts; `share of notes` makes the value a percentage and counts notes
    at_most: float | None = None
    at_least: float | None = None
    baseline: str = ""  # a simple alternative on the same data, in words
    source: str = ""  # which history

    @property
    def ok(self) -> bool:
        """True if the figure keeps its bar; one without a bar is only reported."""
        above = self.at_least is None or self.value >= self.at_least
        return above and (self.at_most is None or self.value <= self.at_most)

    def row(self) -> str:
        """Returns the figure as a row of the table in docs/evidence.md."""
        bar = " and ".join(
            f"{words} {self._shown(limit)}" for words, limit in (("at most", self.at_most), ("at least", self.at_least))
            if limit is not None
        )  # fmt: skip
        counted = f"{self.n:,} {self.unit.removeprefix('share of ')}"
        cells = (self.name, self._shown(self.value), counted, bar, self.baseline, ("yes" if self.ok else "**no**") if bar else "")
        return "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|"

    def _shown(self, value: float) -> str:
        if self.unit.startswith("share of "):
            return f"{100 * value:.1f} %".replace(".0 %", " %")
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def share_figure(
    name: str, hits: Sequence[bool], at_most: float | None = None, at_least: float | None = None, baseline: str = ""
) -> Figure:
    """Returns the share of histories in which something happened."""
    return Figure(name, sum(hits) / len(hits), len(hits), "share of histories", at_most, at_least, baseline)


def percent_of(hits: Iterable[bool]) -> str:
    """Returns how often something happened, in words.

    >>> percent_of([True, False, False, False])
    '25 %'
    """
    counted = list(hits)
    return f"{100 * sum(counted) / len(counted):.0f} %"


def settled(found: Iterable[T], is_hit: Callable[[T], bool], at_least: float) -> list[T]:
    """Returns what was found until the bar is kept beyond doubt, which is asked after every 50.

    It is, if so many hits would come in fewer than 1 of 1,000 such samples where the true share is that of the bar.

    >>> len(settled("h" * 200, lambda one: one == "h", 0.8)), len(settled("hhhhx" * 40, lambda one: one == "h", 0.8))
    (50, 200)
    """
    seen: list[T] = []
    for one in found:
        seen.append(one)
        if len(seen) % 50 == 0 and binomial_tail(sum(map(is_hit, seen)), len(seen), at_least) < 0.001:
            break
    return seen
