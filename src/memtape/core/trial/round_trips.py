"""Round trips of a paper account, flat to flat, from its own fills: what one arm of a trial got.

The arm without memory has no ledger, so its trades are counted here. The paper broker reports every fill once and in order, in
the account currency, so that no snapshot has to be reconciled. Tests hold the figures equal to those of the ledger.

>>> from datetime import UTC
>>> at = datetime(2026, 6, 4, 8, tzinfo=UTC)
>>> book = RoundTripBook()
>>> book.note_decision(Decision(id="d1", symbol="BTC", action="buy", stop=Decimal(95), order_ids=("o1",)), Decimal(10_000))
>>> book.fill(Fill(id="f1", t=at, symbol="BTC", side="buy", qty=Decimal(2), px=Decimal(100), order_id="o1"))
>>> trip = book.fill(Fill(id="f2", t=at, symbol="BTC", side="sell", qty=Decimal(2), px=Decimal(110)))
>>> trip.side, trip.r, round(trip.share, 6)
('long', 2.0, 0.2)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal, localcontext
from typing import Any

from memtape.core.codec import micros, moment
from memtape.core.fills import Fill, Funding
from memtape.core.observed import Decision, Side
from memtape.core.validation.decisions import MONDAY, WEEK
from memtape.core.values import MONEY, ZERO

HUNDRED = 100.0
FEE_PLACES = Decimal("1e-8")
TIMES = ("entry_at", "exit_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTrip:
    """One trade of an arm."""

    symbol: str
    side: Side
    strategy: str
    entry_at: datetime
    exit_at: datetime
    qty: str  # entered
    net: str  # after fees and funding, in the account currency
    share: float  # the same in percent of the equity at the decision
    r: float | None  # in units of initial risk; None without a stop
    odds: float | None  # the chance of its target before its stop if the price is a fair game
    trigger: str | None
    beyond_stop: float | None = None  # how far the exit lay beyond the decided stop, in R before fees; None without a stop
    confidence: float | None = None
    tags: tuple[str, ...] = ()

    @property
    def week(self) -> int:
        """The number of the week of its entry, Monday to Sunday UTC."""
        return (self.entry_at - MONDAY) // WEEK

    @property
    def identity(self) -> tuple[object, ...]:
        """What it is known by in another arm."""
        return (self.symbol, self.side, self.entry_at, self.exit_at, self.qty, self.net)

    def as_dict(self) -> dict[str, Any]:
        """Returns JSON data; floats keep every digit."""
        stored = {name: getattr(self, name) for name in self.__slots__}
        return stored | {name: micros(stored[name]) for name in TIMES} | {"tags": list(self.tags)}

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> RoundTrip:
        """Returns the trade of JSON data."""
        return cls(**(stored | {name: moment(stored[name]) for name in TIMES} | {"tags": tuple(stored["tags"])}))


@dataclass(frozen=True, slots=True)
class _Stated:
    """The decision behind an order."""

    decision: Decision
    equity: Decimal  # at the decision


@dataclass(slots=True)
class _OpenTrip:
    """A trade that is not over."""

    side: int
    entry_at: datetime
    stated: _Stated | None
    entered: Decimal = ZERO
    left: Decimal = ZERO
    paid: Decimal = ZERO
    got: Decimal = ZERO
    costs: Decimal = ZERO  # fees less funding received
    risk: Decimal | None = ZERO  # None: an entry had no stop

    def net(self) -> Decimal:
        return self.side * (self.got - self.paid) - self.costs


@dataclass(slots=True)
class RoundTripBook:
    """The open trades of an account, one for each symbol."""

    open: dict[str, _OpenTrip] = field(default_factory=dict)
    _orders: dict[str, _Stated] = field(default_factory=dict)

    def note_decision(self, decision: Decision, equity: Decimal) -> None:
        """Take note of a decision: its orders may fill later."""
        for order in decision.order_ids:
            self._orders[order] = _Stated(decision, equity)

    def parts(self, fill: Fill) -> list[Fill]:
        """Returns a fill that turns a position as two: what closes the old one, and what opens the new one."""
        held = self.open.get(fill.symbol)
        if held is None or (held.side > 0) == (fill.side == "buy") or fill.qty <= held.left:
            return [fill]
        with localcontext(MONEY):
            fee = (fill.fee * held.left / fill.qty).quantize(FEE_PLACES).normalize()  # the two fees add up to the whole exactly
            first = replace(fill, qty=held.left, fee=fee)
            return [first, replace(fill, id=f"{fill.id}-open", qty=fill.qty - held.left, fee=fill.fee - first.fee)]

    def fill(self, fill: Fill) -> RoundTrip | None:
        """Take one part of a fill. Returns the trade that it ends."""
        with localcontext(MONEY):
            side = 1 if fill.side == "buy" else -1
            held = self.open.get(fill.symbol)
            if held is None:
                held = self.open[fill.symbol] = _OpenTrip(side, fill.t, self._orders.get(fill.order_id or ""))
            held.costs += fill.fee
            if side == held.side:
                stated = self._orders.get(fill.order_id or "")
                stop = None if stated is None else stated.decision.stop
                held.entered, held.left, held.paid = held.entered + fill.qty, held.left + fill.qty, held.paid + fill.qty * fill.px
                held.risk = None if stop is None or held.risk is None else held.risk + abs(fill.px - stop) * fill.qty
                return None
            held.left, held.got = held.left - fill.qty, held.got + fill.qty * fill.px
            if held.left > 0:
                return None
            del self.open[fill.symbol]
            return _ended(held, fill)

    def pay(self, payments: Iterable[Funding]) -> None:
        """Take funding on what is held."""
        with localcontext(MONEY):
            for payment in payments:
                if (held := self.open.get(payment.symbol)) is not None:
                    held.costs -= payment.amount


def _ended(held: _OpenTrip, last: Fill) -> RoundTrip:
    net, stated = held.net(), held.stated
    decision = None if stated is None else stated.decision
    equity = stated.equity if stated is not None and stated.equity > 0 else None
    return RoundTrip(
        symbol=last.symbol, side="long" if held.side > 0 else "short",
        strategy=(decision.strategy if decision is not None else None) or "", entry_at=held.entry_at, exit_at=last.t,
        qty=str(held.entered), net=str(net), share=HUNDRED * float(net / equity) if equity else 0.0,
        r=float(net / held.risk) if held.risk else None, odds=_odds(held, decision), trigger=last.trigger,
        beyond_stop=_beyond_stop(held, decision, last.px),
        confidence=None if decision is None or decision.confidence is None else float(decision.confidence),
        tags=() if decision is None else decision.tags,
    )  # fmt: skip


def _odds(held: _OpenTrip, decision: Decision | None) -> float | None:
    """Returns how often a price without memory or drift reaches the target before the stop."""
    if decision is None or decision.stop is None or decision.target is None:
        return None
    entry = held.paid / held.entered
    risk, reward = held.side * (entry - decision.stop), held.side * (decision.target - entry)
    return float(risk / (risk + reward)) if risk > 0 and reward > 0 else None


def _beyond_stop(held: _OpenTrip, decision: Decision | None, px: Decimal) -> float | None:
    if decision is None or decision.stop is None:
        return None
    risk = abs(held.paid / held.entered - decision.stop)
    return float(held.side * (decision.stop - px) / risk) if risk else None


def week_start(week: int) -> datetime:
    """Returns the Monday on which a week begins.

    >>> week_start(0).isoformat()
    '1969-12-29T00:00:00+00:00'
    """
    return MONDAY + week * WEEK
