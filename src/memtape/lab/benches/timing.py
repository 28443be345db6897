"""How things are timed: subject and baseline in turn, in one run, compared by their medians.

Milliseconds say little on a machine that is shared; a ratio against the same work done plainly, moments apart, says much.
"""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

Work = Callable[[], object]
Clock = Callable[[], float]
Result = dict[str, Any]
ENOUGH = 1e-9  # a baseline that took no time at all is no baseline

wall: Clock = time.perf_counter
cpu: Clock = time.process_time


def children_cpu() -> float:
    """CPU seconds of the processes that were started and waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@dataclass(slots=True)
class Sides:
    """Times in seconds of the plain way (`baseline`) and of memtape's (`subject`)."""

    baseline: list[float] = field(default_factory=list)
    subject: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """How many times the baseline the subject takes.

        >>> Sides([1.0, 9.0, 1.0], [2.0, 2.0, 50.0]).ratio
        2.0
        """
        return statistics.median(self.subject) / max(statistics.median(self.baseline), ENOUGH)


def took(work: Work, *clocks: Clock) -> list[float]:
    """Seconds that some work takes, by each clock."""
    before = [clock() for clock in clocks]
    work()
    return [clock() - start for clock, start in zip(clocks, before, strict=True)]


def in_turn(rounds: Iterable[tuple[Work, Work]], *clocks: Clock) -> tuple[Sides, ...]:
    """Time (baseline, subject) round by round, by each clock."""
    return tuple(Sides(*times) for times in all_in_turn(rounds, *clocks))


def all_in_turn(rounds: Iterable[tuple[Work, ...]], *clocks: Clock) -> list[list[list[float]]]:
    """The times of several works, by clock and then by work; who goes first changes from round to round.

    What follows a commit on the disk, or a large work in the processor's caches, pays for it: so all take that place.
    """
    measured: list[list[list[float]]] = [[] for _ in clocks]
    for n, works in enumerate(rounds):
        for step in range(len(works)):
            turn = (n + step) % len(works)
            for by_work, seconds in zip(measured, took(works[turn], *clocks), strict=True):
                by_work.extend([] for _ in range(len(works) - len(by_work)))
                by_work[turn].append(seconds)
    return measured


def milliseconds(seconds: Iterable[float]) -> float:
    """The median, to be read."""
    return round(statistics.median(seconds) * 1000, 3)


def judged(what: str, n: int, sides: Sides, bar: float, **more: Any) -> Result:
    """A measurement against its bar; the milliseconds are for information."""
    ratio = round(sides.ratio, 3)
    return {
        "what": what, "n": n, "ratio": ratio, "bar": bar, "better": "lower", "ok": ratio <= bar,
        "baseline_ms": milliseconds(sides.baseline), "subject_ms": milliseconds(sides.subject), **more,
    }  # fmt: skip
