"""The guard of an account: checks proposed orders against those limits of a skill that a machine can read.

A limit is a name and a value, as an owner writes them into a skill. The limits below are checked. Any other limit, and any with a
value that cannot be read with certainty, is advice to the agent: the guard lists it in `advice` and names it in its verdicts.

| limit | values | refuses with |
|---|---|---|
| `risk per trade` | `1 % of equity`, `100 USD` | R1_NO_STOP, R2_RISK_PER_TRADE |
| `stop` | `required` | R1_NO_STOP |
| `position` | `20 % of equity`, `5000`, `the equity`, `no leverage` | R3_POSITION_CAP, R4_LEVERAGE |
| `leverage` | `3`, `3x` | R4_LEVERAGE |
| `daily loss` | `3 %` (of the equity at 00:00 UTC), `300 USD` | R5_DAILY_LOSS |
| `orders per day` | `10` | R6_ORDERS_PER_DAY |
| `symbols` | `BTC, ETH` | R7_SYMBOL |
| `hours` | `13:30-20:00` (UTC; several with commas) | R10_SESSION |
| `stop distance` (the least) | `0.5 %` (of the price), `2.5` | R11_STOP_DISTANCE |
| `open positions` | `3` | R12_OPEN_POSITIONS |

Always refused: a stop or target on the wrong side of the price (R8_STOP_SIDE) and an order beyond the margin (R9_BUYING_POWER).
Never refused: an order that only reduces a position, because nothing may keep a loss open.

>>> from datetime import datetime
>>> from decimal import Decimal
>>> guard = Guard({"risk per trade": "1 % of equity", "attitude": "stay calm"})
>>> sorted(guard.advice)
['attitude']
>>> account = AccountView(t=datetime(2024, 1, 8), equity=Decimal(1000), day_equity=Decimal(1000), marks={"BTC": Decimal(100)})
>>> order = Order(symbol="BTC", side="buy", qty=Decimal(3), stop=Decimal(95))
>>> guard.judge(order, account)
GuardVerdict(accepted=False, code='R2_RISK_PER_TRADE', note='The stop would cost 15, the limit is 10.')
>>> guard.judge(replace(order, qty=Decimal(2)), account)
GuardVerdict(accepted=True, code=None, note='Not checked, advice only: attitude.')
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import localcontext

from memtape.core.observed import GuardVerdict
from memtape.core.values import MONEY, REASON_LENGTH
from memtape.sim.account import AccountView
from memtape.sim.limits import ALWAYS_RULES, LIMIT_READERS, SYMBOL, LimitRule, OrderCase, plain_limit
from memtape.sim.limits import limit_key as named
from memtape.sim.orders import Order
from memtape.sim.strategies import OrderProposal


class Guard:
    """Reads limits once, then judges orders. It has no state."""

    def __init__(self, limits: Mapping[str, str]) -> None:
        self.limits = dict(limits)
        self.advice: dict[str, str] = {}  # limits that are not checked
        found: list[tuple[int, LimitRule]] = list(ALWAYS_RULES)
        for key, text in limits.items():
            read = LIMIT_READERS.get(named(key))
            rules = read[1](plain_limit(text)) if read else None
            if read is None or rules is None:
                self.advice[key] = text
            else:
                found += [(read[0], rule) for rule in rules]
        self._rules = [rule for _, rule in sorted(found, key=lambda pair: pair[0])]

    def judge(self, order: Order, account: AccountView) -> GuardVerdict:
        """Returns the verdict: accepted, or the first rule against it. Rules on what is allowed come before rules on size."""
        with localcontext(MONEY):
            why = self._refusal(order, account)
        if why is not None:
            return GuardVerdict(accepted=False, code=why[0], note=why[1][:REASON_LENGTH])
        note = f"Not checked, advice only: {', '.join(self.advice)}." if self.advice else None
        return GuardVerdict(accepted=True, note=note and "".join(c for c in note if c.isprintable())[:REASON_LENGTH])

    def _refusal(self, order: Order, account: AccountView) -> tuple[str, str] | None:
        opens = account.opens(order)
        if not opens:
            return None
        px = account.price(order)
        if px is None:
            return SYMBOL, f"No price of {order.symbol} is known."
        case = OrderCase(order, account, opens, px)
        return next((why for rule in self._rules if (why := rule(case))), None)


def judge_order(proposal: OrderProposal, account: AccountView, guard: Guard) -> OrderProposal:
    """Returns a proposal with its verdict and all its orders or none. A judged proposal, or one without orders, stays."""
    if not proposal.orders or proposal.decision.verdict is not None:
        return proposal
    verdict = GuardVerdict(accepted=True)
    for order in proposal.orders:
        verdict = guard.judge(order, account)
        if not verdict.accepted:
            return OrderProposal(replace(proposal.decision, verdict=verdict))
        account = account.after(order)
    return OrderProposal(replace(proposal.decision, verdict=verdict), proposal.orders)
