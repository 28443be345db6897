"""Outcomes: what became of a decision, on the bars that followed it.

A decision that states a side and a stop is followed on the later bars of its frame: it is filled or not, it ends at its stop, at
its target, or after a declared number of bars at the last close. A decision not to trade that states side, stop and target is
followed in the same way; it is then a shadow. Without shadows a rule that says "skip" could never be unlearned.

Every doubt is decided against the trade: the bar in which the decision was made does not count, the stop comes before the target
in one bar, and in a bar that was entered somewhere inside only the stop counts. R is counted from the real fill. Where a gap
left less than a fifth of the planned risk, R would be a large number that nobody planned: the outcome is marked
(`risk_too_small`) and enters no figure.

>>> from datetime import UTC, timedelta
>>> from memtape.core.observed import Bar
>>> ten = datetime(2026, 3, 2, 10, tzinfo=UTC)
>>> def hourly(n, o, h, l, c):
...     t0 = ten + timedelta(hours=n)
...     prices = dict(zip("ohlc", map(Decimal, (o, h, l, c))))
...     return KnownBar(Bar(symbol="XAUUSD", t0=t0, t1=t0 + timedelta(hours=1), **prices), t0 + timedelta(hours=1))
>>> card = OutcomeCard(symbol="XAUUSD", side="long", stop=Decimal(98), target=Decimal(104), t=ten)
>>> bars = [hourly(0, 100, 101, 99, 100), hourly(1, 100, 104, 99, 103)]
>>> outcome = follow_outcome(card, bars)
>>> outcome.status, outcome.cause, outcome.entry_price, outcome.exit_price, outcome.r
('resolved', 'target', Decimal('100'), Decimal('104'), 2.0)
>>> [(f"{version.known_from:%H:%M}", version.outcome.status) for version in outcome_versions(card, ten, bars)]
[('10:00', 'pending'), ('11:00', 'open'), ('12:00', 'resolved')]
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from itertools import groupby
from typing import Literal, NamedTuple, get_args

from memtape.core.codec import EPOCH
from memtape.core.decisions.outcome_bars import FRAME_SECONDS, FrameBars
from memtape.core.ledger.rounds import KnownBar
from memtape.core.observed import Bar, Decision, Frame, Side
from memtape.core.value_class import dataclass
from memtape.core.values import MONEY
from memtape.errors import FieldProblem, Invalid

TRADE_CARD = "trade-decision"
MODEL_ACTIONS = ("buy", "sell", "close", "reduce", "hold", "no_trade")  # what a model may decide
# The actions of a decision not to trade, in any case.
NOT_TAKEN = frozenset({"no_trade", "no-trade", "notrade", "skip", "skip_trade", "hold", "wait", "none", "pass", "stand_aside"})
DEFAULT_FRAME: Frame = "1h"
DEFAULT_EXPIRY_BARS = 24
FILL_TOLERANCE = Decimal("0.001")  # of a limit: a market that came this near has filled it
NO_TARGET = Decimal("Infinity")
LEAST_RISK_SHARE = 5  # the real risk must be at least one fifth of the planned one

OutcomeStatus = Literal["pending", "open", "resolved", "expired"]
_FINAL = ("resolved", "expired")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeCard:
    """What is followed of a decision."""

    t: datetime
    symbol: str | None = None
    card: str = TRADE_CARD
    action: str | None = None
    side: Side | None = None
    entry_price: Decimal | None = None  # a limit; None: at the market
    stop: Decimal | None = None
    target: Decimal | None = None
    frame: Frame = DEFAULT_FRAME
    expiry_bars: int = DEFAULT_EXPIRY_BARS

    @property
    def is_shadow(self) -> bool:
        """True for a decision not to trade."""
        return self.card == TRADE_CARD and (self.action or "").lower() in NOT_TAKEN

    @property
    def is_followed(self) -> bool:
        """True if it states enough of a trade to have an outcome."""
        needed = [self.side, self.stop, *([self.target] if self.is_shadow else [])]
        return self.card == TRADE_CARD and None not in needed


class Outcome(NamedTuple):
    """What became of a decision, as far as it is known."""

    status: OutcomeStatus
    entry_price: Decimal | None = None  # the real fill
    entry_at: datetime | None = None
    exit_price: Decimal | None = None
    exit_at: datetime | None = None
    cause: str | None = None  # stop, target, expiry, unfilled; of a trade of the ledger its exit trigger, or closed
    r: float | None = None
    shadow: bool = False
    risk_too_small: bool = False

    @property
    def is_final(self) -> bool:
        """True if later bars change nothing."""
        return self.status in _FINAL

    @property
    def counts(self) -> bool:
        """True if it enters figures: it has an R that rests on about the risk that was planned."""
        return self.r is not None and not self.risk_too_small


# By whether it is a shadow.
_PENDING = Outcome("pending"), Outcome("pending", shadow=True)
_UNFILLED = Outcome("expired", cause="unfilled"), Outcome("expired", cause="unfilled", shadow=True)


class OutcomeVersion(NamedTuple):
    """An outcome as it was believed from one moment to another."""

    known_from: datetime
    known_to: datetime | None  # None: it still is
    outcome: Outcome
    settled_by: datetime | None  # when the bar that ended it closed; None: it has not ended


# ---- what is followed --------------------------------------------------------------------------------------------------


def outcome_card(decision: Decision) -> OutcomeCard | None:
    """Returns what is followed of a decision; None if it has no outcome, or contradicts itself."""
    if decision.t is None or decision.symbol is None:
        return None
    card = OutcomeCard(
        t=decision.t, symbol=decision.symbol, card=decision.card or TRADE_CARD, action=decision.action, side=decision.side,
        entry_price=decision.entry_price, stop=decision.stop, target=decision.target, frame=decision.frame or DEFAULT_FRAME,
        expiry_bars=DEFAULT_EXPIRY_BARS if decision.expiry_bars is None else decision.expiry_bars,
    )  # fmt: skip
    return card if card.is_followed and not wrong_card_fields(card) else None


def check_outcome_card(card: OutcomeCard) -> None:
    """Raises Invalid if a card contradicts itself. It names every wrong field."""
    if wrong := wrong_card_fields(card):
        raise Invalid(*wrong[0], *wrong[1:])


def check_decision(decision: Decision) -> None:
    """Raises Invalid if a decision states prices that contradict each other.

    Only for a decision on its own: what comes with a tick is never refused for a decision's words.
    """
    # To sell at a price is to go short there; to sell at the market may also be to close a long.
    side = decision.side if decision.entry_price is None else decision.stated_side
    # The time is of no importance here, and may be filled in later.
    check_outcome_card(
        OutcomeCard(t=EPOCH, side=side, entry_price=decision.entry_price, stop=decision.stop, target=decision.target)
    )


def wrong_card_fields(card: OutcomeCard) -> list[FieldProblem]:
    """Returns the fields of a card that are wrong, in the order side, entry_price, stop, target, frame, expiry_bars.

    >>> card = OutcomeCard(t=datetime(2026, 3, 2), side="long", entry_price=Decimal(100), stop=Decimal(105), target=Decimal(95))
    >>> for wrong in wrong_card_fields(card): print(wrong)
    stop: 105 is above the entry 100 of a long. Give a stop below it, or leave it out
    target: 95 is below the entry 100 of a long. Give a target above it, or leave it out
    """
    wrong: list[FieldProblem] = []
    if card.side is not None and card.side not in get_args(Side):
        wrong.append(FieldProblem("side", f"'{card.side}' is no side", "Give long or short"))
    elif card.side is not None:
        wrong += _wrong_prices(card, card.side)
    if card.frame not in list(FRAME_SECONDS):  # a list also compares what has no hash
        wrong.append(FieldProblem("frame", f"'{card.frame}' is no frame", f"Give one of {', '.join(FRAME_SECONDS)}"))
    if type(card.expiry_bars) is not int or card.expiry_bars < 1:
        wrong.append(FieldProblem("expiry_bars", f"{card.expiry_bars} is not a number of bars", "Give a whole number from 1"))
    return wrong


def _wrong_prices(card: OutcomeCard, side: Side) -> Iterator[FieldProblem]:
    """The prices that lie on the wrong side of the entry. A market entry has no price yet: then stop and target are compared."""
    entry, stop, target = card.entry_price, card.stop, card.target
    losing, winning = ("below", "above") if side == "long" else ("above", "below")
    if entry is None:
        if stop is not None and target is not None and not _lies(stop, losing, target):
            where = f"{stop} {_where(stop, target)} the target {target} of a {side}"
            yield FieldProblem("stop", where, f"Give a stop {losing} it, or leave one of them out")
        return
    if stop is not None and not _lies(stop, losing, entry):
        where = f"{stop} {_where(stop, entry)} the entry {entry} of a {side}"
        yield FieldProblem("stop", where, f"Give a stop {losing} it, or leave it out")
    if target is not None and not _lies(target, winning, entry):
        where = f"{target} {_where(target, entry)} the entry {entry} of a {side}"
        yield FieldProblem("target", where, f"Give a target {winning} it, or leave it out")


def _lies(price: Decimal, where: str, other: Decimal) -> bool:
    return price < other if where == "below" else price > other


def _where(price: Decimal, other: Decimal) -> str:
    return "equals" if price == other else "is above" if price > other else "is below"


# ---- the fold ----------------------------------------------------------------------------------------------------------


def follow_outcome(card: OutcomeCard, bars: Iterable[KnownBar]) -> Outcome:
    """Returns the outcome of a card on the bars of its frame that are known, in any order."""
    later = sorted((known for known in bars if known.bar.t0 >= card.t), key=lambda known: known.bar.t0)
    return _changes(card, later[: card.expiry_bars])[-1][1]


def _changes(card: OutcomeCard, window: Sequence[KnownBar]) -> list[tuple[int, Outcome]]:
    """Returns an outcome each time it changes, with the number of bars after which it is so. The first is after none."""
    shadow, complete = card.is_shadow, len(window) == card.expiry_bars
    changes = [(0, _PENDING[shadow])]
    entry = _entry(card, window)
    if entry is None:
        return [*changes, (len(window), _UNFILLED[shadow])] if complete else changes
    n, fill, inside = entry
    bar = window[n - 1].bar
    if _is_beyond_plan(card, fill):
        # The market ran through the whole plan before the entry: no trade is left.
        return [*changes, (n, _UNFILLED[shadow])]
    opened = Outcome("open", fill, bar.t1 if inside else bar.t0, shadow=shadow, risk_too_small=_is_too_small(card, fill))
    ending = _exit_in_entry_bar(card, bar, n, inside) or _exit_after(card, window, n)
    closed = _closing(card, opened, window, ending, complete)
    if closed is None:
        return [*changes, (n, opened)]
    return [*changes, *([(n, opened)] if n < closed[0] else []), closed]


def _changes_of_open(card: OutcomeCard, outcome: Outcome, counted: int, bars: Sequence[KnownBar]) -> list[tuple[int, Outcome]]:
    """Returns how an outcome that has not ended changes on the bars that follow those already counted."""
    rest = card.expiry_bars - counted
    window = bars[:rest]
    if outcome.status == "pending":
        # Nothing but the number of bars is left of those before.
        return _changes(replace(card, expiry_bars=rest), window)[1:]
    closed = _closing(card, outcome, window, _exit_after(card, window, 0), len(window) == rest)
    return [] if closed is None else [closed]


_Ending = tuple[int, Decimal, datetime, str]  # the number of the bar, the price, the time, the cause


def _closing(
    card: OutcomeCard, opened: Outcome, window: Sequence[KnownBar], ending: _Ending | None, complete: bool
) -> tuple[int, Outcome] | None:
    """Returns the end of a filled card and the number of its bar: at stop or target, or at the last close of its window."""
    if ending is not None:
        n, price, at, cause = ending
        return n, _closed(card, opened, "resolved", price, at, cause)
    if not complete:
        return None
    last = window[-1].bar
    return len(window), _closed(card, opened, "expired", last.c, last.t1, "expiry")


def _entry(card: OutcomeCard, window: Sequence[KnownBar]) -> tuple[int, Decimal, bool] | None:
    """Returns the number of the bar that fills a card, the price, and whether that was inside the bar; None: no bar does."""
    limit, long = card.entry_price, card.side == "long"
    if limit is None:
        return (1, window[0].bar.o, False) if window else None
    tolerance = MONEY.multiply(abs(limit), FILL_TOLERANCE)
    near = MONEY.add(limit, tolerance if long else -tolerance)
    for n, known in enumerate(window, 1):
        bar = known.bar
        nearest = bar.l if long else bar.h
        if nearest > near if long else nearest < near:
            continue
        if bar.o <= limit if long else bar.o >= limit:
            # A gap through the limit gives the better price.
            return n, bar.o, False
        reached = nearest <= limit if long else nearest >= limit
        # Else the nearest price that was really traded.
        return n, limit if reached else nearest, True
    return None


def _exit_in_entry_bar(card: OutcomeCard, bar: Bar, n: int, inside: bool) -> _Ending | None:
    """Returns the end of a filled card in the very bar that filled it."""
    long, stop, target = card.side == "long", card.stop, card.target
    assert stop is not None
    if bar.l <= stop if long else bar.h >= stop:
        return n, stop, bar.t1, "stop"
    # Of a bar that was entered inside, the target may have come before the entry.
    if not inside and target is not None and (bar.h >= target if long else bar.l <= target):
        return n, target, bar.t1, "target"
    return None


def _exit_after(card: OutcomeCard, window: Sequence[KnownBar], first: int) -> _Ending | None:
    """Returns the end of a filled card at its stop or target, in the bars of a window from a place on."""
    long, stop, target = card.side == "long", card.stop, card.target
    assert stop is not None
    if target is None:
        target = NO_TARGET if long else -NO_TARGET
    for n in range(first, len(window)):
        bar = window[n].bar
        if (bar.l > stop and bar.h < target) if long else (bar.h < stop and bar.l > target):
            continue
        if bar.o <= stop if long else bar.o >= stop:
            return n + 1, bar.o, bar.t0, "stop"
        if bar.o >= target if long else bar.o <= target:
            return n + 1, bar.o, bar.t0, "target"
        # Of both in one bar the stop.
        if bar.l <= stop if long else bar.h >= stop:
            return n + 1, stop, bar.t1, "stop"
        return n + 1, target, bar.t1, "target"
    return None


def _is_beyond_plan(card: OutcomeCard, fill: Decimal) -> bool:
    """Returns True if a fill price lies at or beyond the stop, or at or beyond the target."""
    assert card.stop is not None
    if card.side == "long":
        return fill <= card.stop or (card.target is not None and fill >= card.target)
    return fill >= card.stop or (card.target is not None and fill <= card.target)


def _is_too_small(card: OutcomeCard, fill: Decimal) -> bool:
    """Returns True if a gap through the limit left too little of the planned risk to count in."""
    if card.entry_price is None or card.stop is None:
        return False
    real, planned = MONEY.subtract(fill, card.stop), MONEY.subtract(card.entry_price, card.stop)
    return MONEY.multiply(abs(real), Decimal(LEAST_RISK_SHARE)) < abs(planned)


def _closed(card: OutcomeCard, opened: Outcome, status: OutcomeStatus, price: Decimal, at: datetime, cause: str) -> Outcome:
    assert opened.entry_price is not None and card.stop is not None
    side = 1 if card.side == "long" else -1
    gained, risk = MONEY.subtract(price, opened.entry_price), abs(MONEY.subtract(opened.entry_price, card.stop))
    (a, b), (c, d) = gained.as_integer_ratio(), risk.as_integer_ratio()
    # The quotient of two whole numbers is the double next to the exact ratio.
    r = side * (a * d) / (b * c)
    return Outcome(status, opened.entry_price, opened.entry_at, price, at, cause, r, opened.shadow, opened.risk_too_small)


# ---- versions ----------------------------------------------------------------------------------------------------------


def outcome_versions(card: OutcomeCard, known_at: datetime, bars: Iterable[KnownBar]) -> list[OutcomeVersion]:
    """Returns the outcome of a decision in every version that was believed since the decision was known.

    `bars` are bars of its symbol, of any length (see `outcome_bars`). As of any moment the version in force is the fold over
    the bars known by then.
    """
    return versions_on(card, known_at, FrameBars.of(bars, card.frame))


def settle_outcomes(
    cards: Sequence[tuple[OutcomeCard, datetime]], bars: Sequence[KnownBar], until: datetime | None = None
) -> list[list[OutcomeVersion]]:
    """Returns the outcomes of many decisions of one symbol, each with the moment at which it was known, in their order.

    The bars are prepared once for each frame. `until`: bars that ended after it may be missing.
    """
    series = {frame: FrameBars.of(bars, frame, until) for frame in {card.frame for card, _ in cards}}
    return [versions_on(card, known_at, series[card.frame]) for card, known_at in cards]


def versions_on(card: OutcomeCard, known_at: datetime, series: FrameBars) -> list[OutcomeVersion]:
    """Returns the outcome of a decision in every version, on bars that are prepared."""
    first = series.place_of(card.t)
    window = series.bars[first : first + card.expiry_bars]
    changes: list[_Change] = []
    for n, outcome in _changes(card, window):
        last = window[n - 1] if n else None
        changes.append((known_at, outcome, None) if last is None else (max(known_at, last.known_at), outcome, last.bar.t1))
    settled, end = outcome.is_final, first + (n if outcome.is_final else len(window))
    # In the ordinary case bars become known in their order, and what ended a decision was known before anything later.
    if not (series.in_order(first, end) and (not settled or series.known_from_place[end] >= changes[-1][0])):
        changes = _changes_by_knowledge(card, known_at, series)
    return _versions(changes)


def continued_versions(
    card: OutcomeCard, known_from: datetime, outcome: Outcome, counted: int, bars: Sequence[KnownBar]
) -> list[OutcomeVersion]:
    """Returns the version that is believed, and those that follow from bars that come in order, in every version.

    In order: each bar is later than those already counted, and was known no earlier than they and the version were.
    """
    changes: list[_Change] = [(known_from, outcome, None)]
    for n, later in _changes_of_open(card, outcome, counted, bars):
        changes.append((max(known_from, bars[n - 1].known_at), later, bars[n - 1].bar.t1))
    return _versions(changes)


_Change = tuple[datetime, Outcome, datetime | None]  # known from, the outcome, the close of the last bar it rests on


def _changes_by_knowledge(card: OutcomeCard, known_at: datetime, series: FrameBars) -> list[_Change]:
    """Returns the changes of an outcome whose bars did not become known in their order: a fold for each moment of knowledge."""
    bars, places = series.bars, range(series.place_of(card.t), series.window_end(card.t, card.expiry_bars))
    moments = sorted((max(known_at, bars[place].known_at), place) for place in places)
    changes: list[_Change] = [(known_at, _PENDING[card.is_shadow], None)]
    known: list[int] = []
    last = len(bars)  # the place of the last bar on which the present outcome rests
    for moment, several in groupby(moments, key=lambda each: each[0]):
        new = [place for _, place in several]
        for place in new:
            insort(known, place)
        if changes[-1][1].is_final and min(new) > last:
            continue
        window = known[: card.expiry_bars]
        n, outcome = _changes(card, [bars[place] for place in window])[-1]
        last = window[n - 1] if outcome.is_final else len(bars)
        changes.append((moment, outcome, bars[window[n - 1]].bar.t1 if n else None))
    return changes


def _versions(changes: Sequence[_Change]) -> list[OutcomeVersion]:
    """Returns changes as versions: of several at one moment the last counts, and equal ones that follow each other are one."""
    kept: list[_Change] = []
    for change in changes:
        moment, outcome, rests_on = change
        if kept and kept[-1][0] == moment:
            kept.pop()
        if kept and kept[-1][1] == outcome:
            # The same outcome of other bars: bars up to the later of their ends may change it.
            began, _, earlier = kept[-1]
            kept[-1] = began, outcome, rests_on if earlier is None or rests_on is None else max(rests_on, earlier)
        else:
            kept.append(change)
    ends = [*(moment for moment, _, _ in kept[1:]), None]
    return [
        OutcomeVersion(moment, end, outcome, rests_on if outcome.status in _FINAL else None)
        for (moment, outcome, rests_on), end in zip(kept, ends, strict=True)
    ]


def version_at(versions: Iterable[OutcomeVersion], moment: datetime) -> Outcome | None:
    """Returns the outcome that was believed at a moment; None before the decision was known."""
    found = [v for v in versions if v.known_from <= moment and (v.known_to is None or v.known_to > moment)]
    return found[0].outcome if found else None
