"""Fills, payments on what is held, and what is stated about both: terms of instruments, splits, corrections.

>>> from memtape.core.values import read
>>> read(Fill, {"id": "f1", "t": "2026-06-04T08:00:00Z", "symbol": "BTC", "side": "buy", "qty": "0.5", "px": 65200}).px
Decimal('65200')
"""

from __future__ import annotations

from dataclasses import fields
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, ConfigDict, Field

from memtape.core.codec import time_text
from memtape.core.labels import OrderSide
from memtape.core.value_class import dataclass
from memtape.core.values import (
    MONEY,
    ONE,
    STRICT,
    ZERO,
    Currency,
    Key,
    Label,
    Leg,
    Money,
    Number,
    Quantity,
    Symbol,
    Time,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fill:
    """One execution at the broker.

    `qty` is in units or contracts, `rate` is account currency per unit of the quote currency (of an inverse contract: per coin).
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    kind: ClassVar[str] = "fill"
    id: Annotated[Key, Field(description="the broker's own id of the execution")]
    t: Annotated[Time, Field(description="when it was executed")]
    symbol: Symbol
    side: OrderSide
    qty: Quantity
    px: Annotated[Number, Field(description="price in the quote currency; zero and negative prices are legal")]
    leg: Annotated[Leg, Field(description="'' on a net account, LONG/SHORT in hedge mode, the ticket on hedging MT5")] = ""
    fee: Annotated[Money, Field(description="paid is positive, a rebate negative; in the account currency unless stated")] = ZERO
    seq: Annotated[int, Field(description="order among fills of one moment")] = 0
    liq: Annotated[bool, Field(description="true when the venue liquidated")] = False
    rate: Annotated[Quantity, Field(description="account currency per quote unit")] = ONE
    order_id: Key | None = None
    decision: Annotated[Key | None, Field(description="id of the decision that this fill carries out")] = None
    trigger: Annotated[Label | None, Field(description="what set it off, if known: stop, target, manual, expiry")] = None
    fee_currency: Annotated[Currency | None, Field(description="of the fee, if it is not the account currency")] = None
    fee_rate: Annotated[Quantity | None, Field(description="account currency per unit of the fee's currency")] = None
    group: Annotated[Key | None, Field(description="links the legs of one idea, such as the options of a spread")] = None
    venue: Annotated[Key | None, Field(description="set by memtape's own readers: the venue that delivered it")] = None
    closed_pnl: Annotated[
        Money | None, Field(description="realised by it before fees, as the broker states it, at average cost; compared only")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Funding:
    """Funding, swap or borrow interest of a held position, signed from the account's side: + is received."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    kind: ClassVar[str] = "funding"
    id: Key
    t: Time
    symbol: Symbol
    usd: Annotated[Money, Field(description="in the account currency, or in another one with rate; received is positive")]
    leg: Leg = ""
    rate: Annotated[Quantity | None, Field(description="account currency per unit of the amount, if that is in another")] = None

    @property
    def amount(self) -> Decimal:
        """What was received, in the account currency."""
        return self.usd if self.rate is None else MONEY.multiply(self.usd, self.rate)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instrument:
    """The terms of a symbol. A statement is whole: what it leaves out has its default."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    kind: ClassVar[str] = "instrument"
    symbol: Symbol
    accounting: Annotated[
        Literal["margin", "cash"],
        Field(description="margin: PnL converted once, at the exit's rate; cash (paid in full): each notional at its own rate"),
    ] = "margin"
    multiplier: Annotated[Quantity, Field(description="units per contract")] = ONE
    payoff: Annotated[Literal["linear", "inverse"], Field(description="inverse: coin-margined contracts")] = "linear"
    base: Annotated[Currency | None, Field(description="currency of what is bought, if the rate is 1/price")] = None
    valid_from: Annotated[Time | None, Field(description="for trades entered from then on; default: from the beginning")] = None
    id: Annotated[Key | None, Field(description="default: made from the content and the time")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A split of a share: `ratio` new units for one old."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    kind: ClassVar[str] = "split"
    id: Key
    symbol: Symbol
    t: Annotated[Time, Field(description="from when prices and quantities are in new units")]
    ratio: Annotated[Quantity, Field(description="new units for one old: 10 for ten-for-one, 0.1 for a reverse split")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dividend:
    """A dividend, signed from the account's side. It belongs to the trade that was open immediately before the ex-date."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    kind: ClassVar[str] = "dividend"
    id: Key
    symbol: Symbol
    ex_date: Annotated[Time, Field(description="who held before this moment is entitled")]
    t: Annotated[Time, Field(description="when it is paid")]
    usd: Annotated[Money, Field(description="the whole amount; a short position pays: negative")]
    rate: Annotated[Quantity | None, Field(description="account currency per unit of the amount, if that is in another")] = None
    leg: Leg = ""

    @property
    def amount(self) -> Decimal:
        """What was received, in the account currency."""
        return self.usd if self.rate is None else MONEY.multiply(self.usd, self.rate)


def _fill_fields(content: dict[str, Any]) -> dict[str, Any]:
    known = {field.name for field in fields(Fill)} - {"id", "venue"}
    if not content:
        raise ValueError("is empty; name the fields that change, like {\"px\": \"108\"}")
    if unknown := sorted(set(content) - known):
        raise ValueError(f"has no field {', '.join(unknown)}; use {', '.join(sorted(known))}")
    return content


def _whole_correction(correction: FillCorrection) -> FillCorrection:
    if (correction.kind == "amend_fill") != (correction.content is not None):
        problem = "is missing; name the fields that change" if correction.content is None else "is of no use here; remove it"
        raise ValueError(f"content {problem}")
    return correction


@dataclass(frozen=True, slots=True, kw_only=True)
class FillCorrection:
    """The venue, or the owner, corrects a fill (`amend_fill`) or takes it back (`void_fill`), from `t` on."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    kind: Literal["amend_fill", "void_fill"]
    fill_id: Key
    t: Annotated[Time, Field(description="from when the correction counts")]
    content: Annotated[
        dict[str, Any] | None, AfterValidator(lambda content: content if content is None else _fill_fields(content)),
        Field(description="the fields that change, with their new values"),
    ] = None  # fmt: skip

    @property
    def id(self) -> str:
        """Its key: a fill has at most one correction of a kind at a moment."""
        return self.fill_id if self.kind == "void_fill" else f"{self.fill_id}@{time_text(self.t)}"


CheckedCorrection = Annotated[FillCorrection, AfterValidator(_whole_correction)]
