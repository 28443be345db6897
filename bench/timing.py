"""Timing: subject and baseline are timed in turn, in one run, and compared by their medians.

On a shared machine milliseconds mean little. The ratio to the same work done plainly, moments apart, is stable.
"""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

Work = Callable[[], object]
Clock = Callable[[], float]
Result = dict[str, Any]
MIN_BASELINE_SECONDS = 1e-9  # avoids a division by zero

wall: Clock = time.perf_counter
cpu: Clock = time.process_time


def children_cpu() -> float:
    """Returns the CPU seconds of the child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def peak_bytes() -> int:
    """Returns the most memory that this process has held so far."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024  # kilobytes, but on macOS bytes


@dataclass(slots=True)
class Sides:
    """Seconds of the plain way (`baseline`) and of memtape's way (`subject`)."""

    baseline: list[float] = field(default_factory=list)
    subject: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """The median of the subject divided by that of the baseline.

        >>> Sides([1.0, 9.0, 1.0], [2.0, 2.0, 50.0]).ratio
        2.0
        """
        return statistics.median(self.subject) / max(statistics.median(self.baseline), MIN_BASELINE_SECONDS)


def time_work(work: Work, *clocks: Clock) -> list[float]:
    """Returns the seconds that some work takes, by each clock."""
    before = [clock() for clock in clocks]
    work()
    return [clock() - start for clock, start in zip(clocks, before, strict=True)]


def time_in_turn(rounds: Iterable[tuple[Work, Work]], *clocks: Clock) -> tuple[Sides, ...]:
    """Time pairs of (baseline, subject) round by round, by each clock."""
    return tuple(Sides(*times) for times in time_works(rounds, *clocks))


def time_works(rounds: Iterable[tuple[Work, ...]], *clocks: Clock) -> list[list[list[float]]]:
    """Returns the times of several works, by clock and then by work.

    A work that follows a commit on the disk, or a large work in the processor's caches, is slower for it. So the work that
    goes first changes from round to round.
    """
    measured: list[list[list[float]]] = [[] for _ in clocks]
    for n, works in enumerate(rounds):
        for step in range(len(works)):
            turn = (n + step) % len(works)
            for by_work, seconds in zip(measured, time_work(works[turn], *clocks), strict=True):
                by_work.extend([] for _ in range(len(works) - len(by_work)))
                by_work[turn].append(seconds)
    return measured


def milliseconds(seconds: Iterable[float]) -> float:
    """Returns the median in milliseconds, rounded for display."""
    return round(statistics.median(seconds) * 1000, 3)


def judge(what: str, n: int, sides: Sides, bar: float, **more: Any) -> Result:
    """Compare a measurement with its bar. The milliseconds are for information only."""
    ratio = round(sides.ratio, 3)
    return {
        "what": what, "n": n, "ratio": ratio, "bar": bar, "better": "lower", "ok": ratio <= bar,
        "baseline_ms": milliseconds(sides.baseline), "subject_ms": milliseconds(sides.subject), **more,
    }  # fmt: skip
