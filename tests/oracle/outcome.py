"""The outcome of a decision by hand: rules O1-O10 of the golden file, walked bar by bar in fractions. It shares no code with memtape.

A bar is (opens, closes, open, high, low, close, known_at). Prices are fractions, times are whole seconds. `follow` is given the bars of
the decision's frame; `of_frame` chooses them from bars of any length.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

FRAMES = {"1m": 60, "5m": 300, "15m": 900, "30m": 1800, "1h": 3600, "4h": 14400, "1d": 86400}
NOT_TRADED = {"wait", "no_trade", "no-trade", "notrade", "skip", "skip_trade", "hold", "none", "pass", "stand_aside"}


class ABar(NamedTuple):
    opens: int
    closes: int
    o: Fraction
    h: Fraction
    l: Fraction  # noqa: E741
    c: Fraction
    known: int


class Plan(NamedTuple):
    decided: int
    side: int  # +1 long, -1 short
    limit: Fraction | None
    stop: Fraction
    target: Fraction | None
    frame: str
    bars: int
    shadow: bool


class Ending(NamedTuple):
    status: str
    cause: str | None = None
    fill: Fraction | None = None
    filled: int | None = None
    exit: Fraction | None = None
    exited: int | None = None
    r: Fraction | None = None
    small: bool = False


def known_from(bar: ABar) -> int:
    """A bar cannot be known before it has ended."""
    return max(bar.known, bar.closes)


def of_frame(bars: list[ABar], frame: str, as_of: int) -> list[ABar]:
    """The bars of a frame known at a moment: its own, and where one is missing a whole group of shorter ones of one length.

    Every bar lies on a multiple of its own length. Of several for one time the one that was known first counts, then the longest.
    """
    length = FRAMES[frame]
    found: dict[int, list[tuple[int, int, ABar]]] = {}
    for part in {bar.closes - bar.opens for bar in bars}:
        if length % part:
            continue
        groups: dict[int, list[ABar]] = {}
        for bar in bars:
            if bar.closes - bar.opens == part and bar.opens % part == 0:
                groups.setdefault(bar.opens // length * length, []).append(bar)
        for opens, group in groups.items():
            if len(group) * part == length:
                group.sort()
                known = max(map(known_from, group))
                whole = ABar(opens, opens + length, group[0].o, max(b.h for b in group), min(b.l for b in group), group[-1].c, known)
                found.setdefault(opens, []).append((known, -part, whole))
    chosen = [min(several, key=lambda each: each[:2])[2] for several in found.values()]
    return sorted(bar for bar in chosen if bar.known <= as_of)


def follow(plan: Plan, bars: list[ABar]) -> Ending:
    """What became of a plan on the bars of its frame that are known."""
    s = plan.side
    window = [bar for bar in sorted(bars) if bar.opens >= plan.decided][: plan.bars]
    fill = filled = None
    for number, bar in enumerate(window, start=1):
        # As a long sees it: `worst` is the price against the trade, `best` the one for it.
        worst, best = (bar.l, bar.h) if s > 0 else (bar.h, bar.l)
        if fill is None:
            inside = False
            if plan.limit is None or s * (bar.o - plan.limit) <= 0:
                fill, filled = bar.o, bar.opens
            elif s * (worst - plan.limit) <= abs(plan.limit) / 1000:
                fill, filled, inside = (plan.limit if s * (worst - plan.limit) <= 0 else worst), bar.closes, True
            else:
                continue
            if s * (fill - plan.stop) <= 0 or (plan.target is not None and s * (plan.target - fill) <= 0):
                return Ending("expired", "unfilled")
        else:
            inside = False
            if s * (bar.o - plan.stop) <= 0:
                return _ended(plan, fill, filled, bar.o, bar.opens, "resolved", "stop")
            if plan.target is not None and s * (bar.o - plan.target) >= 0:
                return _ended(plan, fill, filled, bar.o, bar.opens, "resolved", "target")
        if s * (worst - plan.stop) <= 0:
            return _ended(plan, fill, filled, plan.stop, bar.closes, "resolved", "stop")
        if not inside and plan.target is not None and s * (best - plan.target) >= 0:
            return _ended(plan, fill, filled, plan.target, bar.closes, "resolved", "target")
        if number == plan.bars:
            return _ended(plan, fill, filled, bar.c, bar.closes, "expired", "expiry")
    if fill is None:
        return Ending("expired", "unfilled") if len(window) == plan.bars else Ending("pending")
    return Ending("open", None, fill, filled, small=_is_small(plan, fill))


def _is_small(plan: Plan, fill: Fraction) -> bool:
    return plan.limit is not None and abs(fill - plan.stop) < abs(plan.limit - plan.stop) / 5


def _ended(plan: Plan, fill: Fraction, filled: Any, exit: Fraction, exited: int, status: str, cause: str) -> Ending:
    r = plan.side * (exit - fill) / abs(fill - plan.stop)
    return Ending(status, cause, fill, filled, exit, exited, r, _is_small(plan, fill))
