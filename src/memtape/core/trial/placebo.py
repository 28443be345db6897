"""The placebo: what an agent would observe if its trades had ended as other trades of the same strategy did.

Every trade that ends is learned with the outcome of another trade, drawn from those of its strategy that ended before it;
only the first of a strategy has none but its own. Frequencies and sizes of outcomes stay as they are; which situation they
belong to is lost. A memory that helps because of what it knows must beat this one; a memory that helps because the agent
trades less does not.

The change is made in the tick, before anything is learned: the price of the last exit is moved so that the drawn outcome is
exact after fees, in R where the trade had a stop, else as a share of what was bought. Equity follows. The cause of the exit is
left out, and so are the stop and the target of trades that were decided against, because both would tell the true outcome.
Bars stay as they are, and with them how far a trade ran for and against it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from decimal import Decimal, localcontext

import numpy as np

from memtape.core.fills import Fill
from memtape.core.observed import Decision, Tick
from memtape.core.trial.round_trips import RoundTripBook
from memtape.core.values import MONEY, ZERO

PRICE_PLACES = Decimal("1e-8")


@dataclass(slots=True)
class OutcomeDraw:
    """The outcomes of each strategy so far, and the draw among them. `chance` belongs to one run."""

    chance: np.random.Generator
    _ended: defaultdict[tuple[str, bool], list[float]] = field(default_factory=lambda: defaultdict(list))

    def learned(self, strategy: str, outcome: float, has_stop: bool = True) -> float:
        """Returns the outcome with which a trade is learned.

        >>> draw = OutcomeDraw(np.random.default_rng(1))
        >>> [draw.learned("fade", r) for r in (2.0, -1.0, -1.0, -1.0)][:2]
        [2.0, 2.0]
        """
        pool = self._ended[strategy, has_stop]
        pool.append(outcome)
        # Its own outcome among the drawn ones would tell something: with 60 trades, one in twelve would be true.
        return pool[int(self.chance.integers(max(len(pool) - 1, 1)))]


@dataclass(slots=True)
class ShuffledOutcomes:
    """Turns the ticks of an account into those of the placebo."""

    draw: OutcomeDraw
    _book: RoundTripBook = field(default_factory=RoundTripBook)
    _offset: Decimal = ZERO  # of equity, from the outcomes so far
    _equity: Decimal = ZERO

    def tick(self, tick: Tick) -> Tick:
        """Returns a tick as the placebo observes it."""
        fills = tuple(changed for fill in tick.fills for part in self._book.parts(fill) for changed in [self._fill(part)])
        self._book.pay(tick.funding)
        self._equity = tick.equity if tick.equity is not None else self._equity
        equity = None if tick.equity is None else tick.equity + self._offset
        decisions = None if tick.decision is None else tuple(self.decision(one) for one in tick.decision)
        return replace(tick, fills=fills, equity=equity, decision=decisions)

    def decision(self, decision: Decision) -> Decision:
        """Returns a decision as the placebo records it: what was decided against is not followed to its true outcome."""
        self._book.note_decision(decision, self._equity)
        return replace(decision, stop=None, target=None) if decision.action == "no_trade" else decision

    def _fill(self, fill: Fill) -> Fill:
        held = self._book.open.get(fill.symbol)
        ended = self._book.fill(fill)
        if ended is None or held is None:
            return fill
        with localcontext(MONEY):
            net = held.net()
            unit = held.risk if held.risk else held.paid
            wanted = self.draw.learned(ended.strategy, float(net / unit), bool(held.risk))
            change = Decimal(repr(wanted)) * unit - net
            px = max((fill.px + held.side * change / fill.qty).quantize(PRICE_PLACES), PRICE_PLACES)  # no price is below zero
            self._offset += held.side * (px - fill.px) * fill.qty
        return replace(fill, px=px, trigger=None, closed_pnl=None)
