"""The arithmetic of an instrument: what a price and a quantity are worth, linear and inverse, on margin and in cash.

The worth of a fill is counted in a `weight`: price times quantity where the payoff is linear, quantity divided by price where it
is inverse (a coin-margined contract is worth fewer coins at a higher price). An average price is read back from the weight.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from memtape.core.fills import Instrument
from memtape.core.ids import AgentId, SkillId
from memtape.core.ledger.excursions import MfeMode
from memtape.core.value_class import dataclass
from memtape.core.values import ONE, ZERO

# The version of the rules by which trades, memories and outcomes are computed. A store made by older rules needs a rebuild.
# 1: the first rules. 2: accounting on margin and in cash, instrument terms, bounded prices, late snapshots, corrections, lots.
# 3: outcomes of decisions; decisions not to trade are followed by the same rules.
# 4: labels are folded to their vocabularies, bars of a day give no session, tiers tell the venue from the owner's records.
# 5: a trade that never held more than dust teaches nothing.
# 6: a claim about a trade of the record adds its reflection, not its confidence; a model's words do not replace the owner's.
# 7: a drawdown is a share of the money that was there: deposits and withdrawals scale its peak.
RULES_VERSION = 7
TradeUnit = Literal["flat_to_flat", "fifo_lots"]


@dataclass(frozen=True, slots=True)
class AccountTerms:
    """What an agent's account fixes for all its trades."""

    agent: AgentId
    skill_id: SkillId
    currency: str = "USD"
    dust_qty: Decimal = ZERO
    mfe_mode: MfeMode = "hl_strict"
    settle_seconds: int = 0  # how long a snapshot may lag behind the fills, or run ahead of them
    trade_unit: TradeUnit = "flat_to_flat"


@dataclass(frozen=True, slots=True)
class ContractTerms:
    """The terms of an instrument that a trade keeps for its whole life."""

    accounting: Literal["margin", "cash"] = "margin"
    multiplier: Decimal = ONE
    payoff: Literal["linear", "inverse"] = "linear"
    base: str | None = None

    @classmethod
    def of(cls, stated: Instrument) -> ContractTerms:
        """The terms that a statement gives. An inverse contract is always on margin."""
        accounting = "margin" if stated.payoff == "inverse" else stated.accounting
        return cls(accounting, stated.multiplier, stated.payoff, stated.base)

    @property
    def is_cash(self) -> bool:
        """True if each notional counts at its own rate."""
        return self.accounting == "cash"

    @property
    def is_inverse(self) -> bool:
        """True for coin-margined contracts."""
        return self.payoff == "inverse"

    def admits(self, price: Decimal) -> bool:
        """False for a price at which the contract has no value."""
        return price > 0 or not self.is_inverse

    def weight(self, price: Decimal, qty: Decimal) -> Decimal:
        """The worth of a quantity at a price, in quote currency (inverse: in coins), before the multiplier."""
        return qty / price if self.is_inverse else price * qty

    def average(self, weight: Decimal, qty: Decimal) -> Decimal | None:
        """The average price of a quantity from its weight; None where there is none."""
        if self.is_inverse:
            return qty / weight if weight else None
        return weight / qty if qty else None

    def gain(self, side: int, entry: Decimal, exit: Decimal) -> Decimal:
        """What the way from one weight to another gains a side, before the rate."""
        return (entry - exit if self.is_inverse else exit - entry) * side * self.multiplier

    def rate_from(self, price: Decimal | None, currency: str) -> Decimal | None:
        """The rate that follows from a price: 1/price where the base is the account currency; None where nothing follows."""
        if self.base is None or self.base != currency:
            return None
        if self.is_inverse:
            # The base is the coin, and so is the account currency.
            return ONE
        return ONE / price if price is not None and price > 0 else None


DEFAULT_TERMS = ContractTerms()
