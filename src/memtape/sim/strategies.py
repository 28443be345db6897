"""Two simple strategies for demos and tests. They show what the memory does, not how to earn money.

A strategy is a callable: (the closed bars of one symbol, its position, the account's equity) -> proposals. It gets nothing else,
so it cannot know the future. A proposal is a decision, as the memory stores it, and its orders. Deliberately not trading is a
decision without orders, with the direction, stop and target that it passed up, so that its outcome can be followed.

A strategy that needs more than its own symbol has a method `propose` instead, which gets all closed bars and the account.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_DOWN, Decimal
from itertools import pairwise
from typing import ClassVar, Literal, Protocol, runtime_checkable

from memtape.core.observed import Bar, Decision, Side
from memtape.core.values import ONE, ZERO
from memtape.sim.account import AccountView
from memtape.sim.orders import LOT, Order, Position

RISK_SHARE = Decimal("0.01")  # of equity, lost at the stop
MAX_LEVERAGE = ONE  # the largest value of a position as a multiple of equity
HALF = Decimal("0.5")


@dataclass(frozen=True, slots=True)
class OrderProposal:
    """A decision and its orders."""

    decision: Decision
    orders: tuple[Order, ...] = ()


Strategy = Callable[[Sequence[Bar], Position, Decimal], Sequence[OrderProposal]]


@runtime_checkable
class AccountStrategy(Protocol):
    """A strategy that is asked about one symbol after another and gets all bars and the whole account."""

    def propose(self, symbol: str, history: Mapping[str, Sequence[Bar]], account: AccountView, /) -> Sequence[OrderProposal]:
        """Returns proposals for a symbol whose bar has just closed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakout:
    """Goes with a close beyond the range of the last `lookback` bars.

    Stop `stop_atr` ATR away, target at `reward` times that risk. A breakout in the other direction closes what is held.
    Passes when the ATR is `calm` times its own longer average: the stop would be too wide for what such moves bring.
    """

    name: ClassVar[str] = "breakout"
    lookback: int = 20
    atr_bars: int = 14
    stop_atr: Decimal = Decimal(2)
    reward: Decimal = Decimal(2)
    calm: Decimal = Decimal("1.5")
    calm_bars: int = 60
    lot: Decimal = LOT

    def __call__(self, history: Sequence[Bar], position: Position, equity: Decimal) -> list[OrderProposal]:
        """Returns proposals after the last bar."""
        if len(history) <= max(self.lookback + 1, self.calm_bars) or position.working:
            return []
        side = self._side(history[-self.lookback - 1 :])
        if side is None or _held_side(position) == side:
            return []
        bar, edge = history[-1], self._edge(history[-self.lookback - 1 : -1], side)
        # The reason for the trade comes first: where there is little room, only the first words are shown.
        place = f"Above the {self.lookback}-bar high" if side == "long" else f"Below the {self.lookback}-bar low"
        observation = f"{place} {_number_text(edge)}, closed at {_number_text(bar.c)}"
        if position.qty:
            return [_exit(self.name, bar, position, f"{observation}: the move has turned against the {_held_side(position)}.")]
        atr, usual = average_range(history, self.atr_bars), average_range(history, self.calm_bars)
        risk, sign = self.stop_atr * atr, ONE if side == "long" else -ONE
        stop, target = _round_price(bar.c - sign * risk), _round_price(bar.c + sign * risk * self.reward)
        if risk <= 0 or min(stop, target) <= 0:
            return []
        text = f"{observation}. ATR({self.atr_bars}) {_number_text(atr, 4)}"
        if atr > self.calm * usual:
            if self._side(history[-self.lookback - 2 : -1]) == side:
                # It passed when the breakout was new. A repetition would count one decision twice.
                return []
            why = f"against a usual {_number_text(usual, 4)}: a stop at {_number_text(stop)} would be too wide."
            return [_no_trade(self.name, bar, side, stop, target, f"Passed. {text} {why}")]
        text = f"{text}; stop {self.stop_atr} ATR away at {_number_text(stop)}, target {self.reward}R at {_number_text(target)}."
        return _entry(self.name, bar, side, stop, target, position_size(equity, bar.c, stop, self.lot), text)

    def _side(self, window: Sequence[Bar]) -> Side | None:
        if window[-1].c > self._edge(window[:-1], "long"):
            return "long"
        return "short" if window[-1].c < self._edge(window[:-1], "short") else None

    @staticmethod
    def _edge(window: Sequence[Bar], side: Side) -> Decimal:
        return max(bar.h for bar in window) if side == "long" else min(bar.l for bar in window)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanReversion:
    """Fades a close that is `entry_z` standard deviations away from the mean of the last `lookback` closes.

    Stop `stop_atr` ATR away, target the mean as it stood. Gives up after `patience` bars. Passes when the way to the
    mean is less than `worth` times the way to the stop.
    """

    name: ClassVar[str] = "mean_reversion"
    lookback: int = 20
    entry_z: Decimal = Decimal(2)
    atr_bars: int = 14
    stop_atr: Decimal = Decimal(2)
    worth: Decimal = Decimal("0.9")
    patience: int = 15
    lot: Decimal = LOT

    def __call__(self, history: Sequence[Bar], position: Position, equity: Decimal) -> list[OrderProposal]:
        """Returns proposals after the last bar."""
        if len(history) <= max(self.lookback, self.atr_bars) or position.working:
            return []
        bar = history[-1]
        if position.qty:
            return self._give_up(history, position)
        mean, z = self._distance(history)
        if abs(z) < self.entry_z:
            return []
        side: Side = "short" if z > 0 else "long"
        risk, sign = self.stop_atr * average_range(history, self.atr_bars), ONE if side == "long" else -ONE
        stop, target = _round_price(bar.c - sign * risk), _round_price(mean)
        reward = abs(target - bar.c) / risk if risk > 0 else ZERO
        if risk <= 0 or min(stop, target) <= 0 or (target - bar.c) * sign <= 0:
            return []
        stretch = f"{_number_text(abs(z), 3)} deviations {'above' if z > 0 else 'below'}"
        observation = f"{stretch} the {self.lookback}-bar mean {_number_text(mean)}, closed at {_number_text(bar.c)}"
        if reward < self.worth:
            if abs(self._distance(history[-self.lookback - 1 : -1])[1]) >= self.entry_z:
                return []  # it passed when the stretch was new
            why = f"a stop at {_number_text(stop)} would be too wide, the mean offers only {_number_text(reward, 3)}R."
            return [_no_trade(self.name, bar, side, stop, target, f"Passed. {observation}: {why}")]
        plan = f"Stop {self.stop_atr} ATR away at {_number_text(stop)}, target the mean, {_number_text(reward, 3)}R."
        qty = position_size(equity, bar.c, stop, self.lot)
        return _entry(self.name, bar, side, stop, target, qty, f"{observation}; fading it. {plan}")

    def _give_up(self, history: Sequence[Bar], position: Position) -> list[OrderProposal]:
        since = position.since
        if since is None or len(history) < self.patience or history[-self.patience].t0 < since:
            return []
        entry = _number_text(position.entry_px or ZERO)
        text = f"Still {_number_text(history[-1].c)} after {self.patience} bars, entered at {entry}: the mean did not pull."
        return [_exit(self.name, history[-1], position, text)]

    def _distance(self, history: Sequence[Bar]) -> tuple[Decimal, Decimal]:
        """Returns the mean of the last closes and the distance of the last one in standard deviations."""
        closes = [bar.c for bar in history[-self.lookback :]]
        mean = sum(closes, ZERO) / len(closes)
        variance = sum(((c - mean) ** 2 for c in closes), ZERO) / (len(closes) - 1)
        return mean, (closes[-1] - mean) / variance.sqrt() if variance else ZERO


STRATEGIES: Mapping[str, Callable[[], Strategy]] = {Breakout.name: Breakout, MeanReversion.name: MeanReversion}


def average_range(history: Sequence[Bar], bars: int) -> Decimal:
    """Returns the mean true range of the last bars: ATR without Wilder's smoothing, so that older bars have no effect."""
    window = history[-bars - 1 :]
    ranges = [max(bar.h, before.c) - min(bar.l, before.c) for before, bar in pairwise(window)]
    return sum(ranges, ZERO) / len(ranges)


def position_size(equity: Decimal, px: Decimal, stop: Decimal, lot: Decimal = LOT) -> Decimal:
    """Returns the quantity in whole lots whose stop costs RISK_SHARE of the equity, worth at most MAX_LEVERAGE times the equity.

    >>> position_size(Decimal(10000), Decimal(100), Decimal(95)), position_size(Decimal(10000), Decimal(100), Decimal("99.9"))
    (Decimal('20.00000000'), Decimal('100.00000000'))
    >>> position_size(Decimal(10000), Decimal(100), Decimal(97), lot=Decimal(1))
    Decimal('33')
    """
    if equity <= 0:
        return ZERO
    wanted = equity * RISK_SHARE / abs(px - stop)
    lots = (min(wanted, equity * MAX_LEVERAGE / px) / lot).quantize(ONE, rounding=ROUND_DOWN)
    return (lots * lot).quantize(lot)


def _held_side(position: Position) -> Side | None:
    return None if not position.qty else "long" if position.qty > 0 else "short"


def _entry(name: str, bar: Bar, side: Side, stop: Decimal, target: Decimal, qty: Decimal, reason: str) -> list[OrderProposal]:
    """Returns a market entry with stop and target. Its band refuses an open that has moved half the stop distance, either way."""
    if qty <= 0:
        return []
    action: Literal["buy", "sell"] = "buy" if side == "long" else "sell"
    slack = abs(bar.c - stop) * HALF
    order = Order(symbol=bar.symbol, side=action, qty=qty, stop=stop, target=target, band=(bar.c - slack, bar.c + slack))
    decision = Decision(
        symbol=bar.symbol, action=action, reason=reason, side=side, qty=qty, stop=stop, target=target, strategy=name
    )
    return [OrderProposal(decision, (order,))]


def _no_trade(name: str, bar: Bar, side: Side, stop: Decimal, target: Decimal, reason: str) -> OrderProposal:
    return OrderProposal(
        Decision(symbol=bar.symbol, action="no_trade", reason=reason, side=side, stop=stop, target=target, strategy=name)
    )


def _exit(name: str, bar: Bar, position: Position, reason: str) -> OrderProposal:
    side, qty = _held_side(position), abs(position.qty)
    order = Order(symbol=bar.symbol, side="sell" if side == "long" else "buy", qty=qty, reduce_only=True)
    decision = Decision(symbol=bar.symbol, action="close", reason=reason, side=side, qty=qty, strategy=name)
    return OrderProposal(decision, (order,))


def _round_price(px: Decimal, digits: int = 6) -> Decimal:
    """Rounds a price to six significant digits: a stop needs no more."""
    return px.quantize(ONE.scaleb(max(min(px.adjusted() + 1 - digits, 0), -18))) if px else px


def _number_text(number: Decimal, digits: int = 6) -> str:
    """Returns a number for a sentence.

    >>> _number_text(Decimal("1290.4000")), _number_text(Decimal("0.000012345678")), _number_text(Decimal("2.10987"), 3)
    ('1290.4', '0.0000123457', '2.11')
    """
    text = format(_round_price(number, digits), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
