"""A skill's limits in the owner's words -> rules that check an order.

A rule checks one case, an order on an account, and returns None or a refusal: a code and a sentence. A value that cannot be read
with certainty gives no rule. `guard.py` lists the limits and their values.

>>> LIMIT_READERS[limit_key("Max-Orders_per day")][1]("ten") is None, len(LIMIT_READERS["orders per day"][1]("10") or [])
(True, 1)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import time
from decimal import Decimal

from memtape.core.values import ONE, ZERO
from memtape.sim.account import AccountView
from memtape.sim.orders import BUYING_POWER, Order, order_refusal

NO_STOP, RISK, POSITION, LEVERAGE = "R1_NO_STOP", "R2_RISK_PER_TRADE", "R3_POSITION_CAP", "R4_LEVERAGE"
DAILY_LOSS, ORDERS, SYMBOL, STOP_SIDE = "R5_DAILY_LOSS", "R6_ORDERS_PER_DAY", "R7_SYMBOL", "R8_STOP_SIDE"
SESSION, STOP_DISTANCE, OPEN_POSITIONS = "R10_SESSION", "R11_STOP_DISTANCE", "R12_OPEN_POSITIONS"
HUNDRED = Decimal(100)

_NUMBER = r"(?P<number>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)"
_OF = r"(?: of (?:the )?(?P<of>equity|account|price))?"
_AMOUNT = re.compile(rf"\$?{_NUMBER} ?(?P<unit>%|percent|usd|usdt|usdc|eur|gbp|chf)?{_OF}")
_FILLERS = re.compile(r"^(?:at most|at least|max\.?|maximum|min\.?|minimum|up to|no more than|not more than|<=|>=) ?")
_HOURS = re.compile(r"(\d{1,2}):(\d\d) ?[-–] ?(\d{1,2}):(\d\d)")


@dataclass(frozen=True, slots=True)
class LimitAmount:
    """An amount of money, or a share of something."""

    value: Decimal
    share: bool

    def of(self, whole: Decimal) -> Decimal:
        """Returns the amount, given the whole."""
        return self.value * max(whole, ZERO) if self.share else self.value


@dataclass(frozen=True, slots=True)
class OrderCase:
    """An order before the guard: the quantity that opens a position, and the price."""

    order: Order
    account: AccountView
    opens: Decimal
    px: Decimal

    @property
    def own_risk(self) -> Decimal | None:
        """The loss of the order alone at its stop; None without a stop."""
        return None if self.order.stop is None else abs(self.px - self.order.stop) * self.opens


LimitRule = Callable[[OrderCase], tuple[str, str] | None]  # code and reason of a refusal, or None


def plain_limit(text: str) -> str:
    """Returns a limit's value without filler words.

    >>> plain_limit("At most  1 %  of equity.")
    '1 % of equity'
    """
    return _FILLERS.sub("", " ".join(text.lower().split()).rstrip("."))


def limit_key(name: str) -> str:
    """Returns the name of a limit in one spelling.

    >>> limit_key("Max_Daily-Loss"), limit_key("min stop distance")
    ('daily loss', 'stop distance')
    """
    words = re.sub(r"[\s_-]+", " ", name.strip().lower())
    return re.sub(r"^(?:max|maximum|min|minimum) ", "", words)


def limit_amount(text: str, of: tuple[str, ...] = ("equity", "account")) -> LimitAmount | None:
    """Returns a limit's amount, or None if it cannot be read with certainty.

    >>> limit_amount("1 % of equity"), limit_amount("$5,000"), limit_amount("0.5 btc")
    (LimitAmount(value=Decimal('0.01'), share=True), LimitAmount(value=Decimal('5000'), share=False), None)
    """
    found = _AMOUNT.fullmatch(text)
    if found is None:
        return None
    share = found["unit"] in ("%", "percent")
    if found["of"] is not None and (not share or found["of"] not in of):
        return None
    value = Decimal(found["number"].replace(",", ""))
    return LimitAmount(value / HUNDRED if share else value, share)


def _risk(text: str) -> list[LimitRule] | None:
    if (limit := limit_amount(text)) is None:
        return None

    def rule(case: OrderCase) -> tuple[str, str] | None:
        if case.own_risk is None:
            return NO_STOP, "Without a stop the risk of the trade is unknown."
        # Otherwise a position could grow beyond the limit by one small order after another.
        risk, most = case.account.risk(case.order), limit.of(case.account.equity)
        if risk is None:
            return NO_STOP, f"A part of the position in {case.order.symbol} has no stop, so its risk is unknown."
        if risk <= most:
            return None
        what = "The stop" if risk == case.own_risk else "With what is held or waits to be filled, the stops"
        return RISK, f"{what} would cost {_amount_text(risk)}, the limit is {_amount_text(most)}."

    return [rule]


def _stop(text: str) -> list[LimitRule] | None:
    if text not in ("required", "always", "yes", "mandatory"):
        return None
    return [lambda case: None if case.order.stop is not None else (NO_STOP, "Every entry needs a stop.")]


def _position(text: str) -> list[LimitRule] | None:
    """Reads limits separated by commas. `the equity` means all of it, `no leverage` means 1."""
    rules: list[LimitRule] = []
    for part in text.split(", "):
        if part == "no leverage":
            rules += _leverage("1") or []
        elif (limit := LimitAmount(ONE, True) if part in ("the equity", "equity") else limit_amount(part)) is not None:
            rules.append(_cap_rule(limit))
        else:
            return None
    return rules


def _cap_rule(limit: LimitAmount) -> LimitRule:
    def rule(case: OrderCase) -> tuple[str, str] | None:
        worth, most = _worth_after(case), limit.of(case.account.equity)
        if worth <= most:
            return None
        return POSITION, f"The position would be worth {_amount_text(worth)}, the limit is {_amount_text(most)}."

    return rule


def _leverage(text: str) -> list[LimitRule] | None:
    found = re.fullmatch(rf"{_NUMBER} ?x?", text)
    if found is None:
        return None
    limit = Decimal(found["number"].replace(",", ""))

    def rule(case: OrderCase) -> tuple[str, str] | None:
        account, symbol = case.account, case.order.symbol
        others = sum((account.exposure(s) for s in {*account.positions, *account.waiting} if s != symbol), ZERO)
        worth = others + _worth_after(case)
        if worth <= limit * max(account.equity, ZERO):
            return None
        return (
            LEVERAGE,
            f"All positions would be worth {_amount_text(worth)}, the limit is {limit} times {_amount_text(account.equity)}.",
        )

    return [rule]


def _daily_loss(text: str) -> list[LimitRule] | None:
    if (limit := limit_amount(text)) is None:
        return None

    def rule(case: OrderCase) -> tuple[str, str] | None:
        lost, most = case.account.day_loss, limit.of(case.account.day_equity)
        return (
            (DAILY_LOSS, f"The day has cost {_amount_text(lost)}, the limit is {_amount_text(most)}.") if lost >= most else None
        )

    return [rule]


def _orders(text: str) -> list[LimitRule] | None:
    if not text.isdecimal():
        return None
    most = int(text)

    def rule(case: OrderCase) -> tuple[str, str] | None:
        n = case.account.orders_today
        return (ORDERS, f"{n} entries were ordered today, the limit is {most}.") if n >= most else None

    return [rule]


def _symbols(text: str) -> list[LimitRule] | None:
    allowed = {part.strip() for part in text.split(",")} - {""}
    if not allowed or any(len(part.split()) > 1 for part in allowed):
        return None  # a sentence, not a list

    def rule(case: OrderCase) -> tuple[str, str] | None:
        symbol = case.order.symbol
        return None if symbol.lower() in allowed else (SYMBOL, f"{symbol} is not among the symbols that are allowed.")

    return [rule]


def _hours(text: str) -> list[LimitRule] | None:
    spans: list[tuple[time, time]] = []
    for part in text.removesuffix("utc").strip().split(","):
        found = _HOURS.fullmatch(part.strip())
        if found is None or max(int(found[1]), int(found[3])) > 23 or max(int(found[2]), int(found[4])) > 59:
            return None
        spans.append((time(int(found[1]), int(found[2])), time(int(found[3]), int(found[4]))))

    def rule(case: OrderCase) -> tuple[str, str] | None:
        now = case.account.t.time()
        inside = any(a <= now < b if a < b else now >= a or now < b for a, b in spans)
        return None if inside else (SESSION, f"{now:%H:%M} UTC is outside the hours {text}.")

    return [rule]


def _stop_distance(text: str) -> list[LimitRule] | None:
    if (limit := limit_amount(text, of=("price",))) is None:
        return None

    def rule(case: OrderCase) -> tuple[str, str] | None:
        if case.order.stop is None:
            return None
        away, least = abs(case.px - case.order.stop), limit.of(case.px)
        return (
            (STOP_DISTANCE, f"The stop is {_amount_text(away)} away, the least is {_amount_text(least)}.")
            if away < least
            else None
        )

    return [rule]


def _open_positions(text: str) -> list[LimitRule] | None:
    if not text.isdecimal():
        return None
    most = int(text)

    def rule(case: OrderCase) -> tuple[str, str] | None:
        account = case.account
        others = {s for s in {*account.positions, *account.waiting} if s != case.order.symbol and account.exposure(s)}
        return (OPEN_POSITIONS, f"{len(others)} others are open, the limit is {most}.") if len(others) >= most else None

    return [rule]


def _stop_side_rule(case: OrderCase) -> tuple[str, str] | None:
    why = order_refusal(replace(case.order, band=None), case.px)
    return None if why is None else (STOP_SIDE, f"{why[1][:1].upper()}{why[1][1:]}.")


def _buying_power_rule(case: OrderCase) -> tuple[str, str] | None:
    if case.order.symbol not in case.account.power:
        return None
    most = case.account.power[case.order.symbol][case.order.side == "sell"]
    worth = case.order.qty * case.px
    return (BUYING_POWER, f"Worth {_amount_text(worth)}; the margin carries {_amount_text(most)} more.") if worth > most else None


def _worth_after(case: OrderCase) -> Decimal:
    """Returns the value of the symbol after the order, at the order's price."""
    order, held = case.order, case.account.position(case.order.symbol).qty
    buys, sells = case.account.waiting.get(order.symbol, (ZERO, ZERO))
    return abs(held + buys + order.qty if order.side == "buy" else held - sells - order.qty) * case.px


def _amount_text(number: Decimal) -> str:
    """Returns an amount of money for a sentence.

    >>> _amount_text(Decimal("15.000")), _amount_text(Decimal("0.123456789"))
    ('15', '0.1235')
    """
    text = f"{number:.2f}" if abs(number) >= 1 else f"{number:.4g}"
    return text.rstrip("0").rstrip(".") if "." in text else text


# For each limit the order in which it is checked, and the reader of its value.
LIMIT_READERS: Mapping[str, tuple[int, Callable[[str], list[LimitRule] | None]]] = {
    "symbols": (0, _symbols),
    "hours": (1, _hours),
    "trading hours": (1, _hours),
    "daily loss": (2, _daily_loss),
    "orders per day": (3, _orders),
    "stop": (5, _stop),
    "risk per trade": (6, _risk),
    "stop distance": (7, _stop_distance),
    "position": (8, _position),
    "position size": (8, _position),
    "open positions": (9, _open_positions),
    "leverage": (10, _leverage),
}
ALWAYS_RULES: tuple[tuple[int, LimitRule], ...] = ((4, _stop_side_rule), (11, _buying_power_rule))
