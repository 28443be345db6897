"""What arrives from outside: ticks, fills, funding, bars, closed trades, equity, decisions.

Each value is one item with a key of its own, given by its source, so a second delivery is recognised whatever road it
takes. A tick gathers what one run of an agent saw at one moment; `positions` absent means that no snapshot was taken,
an empty one means flat.

>>> from memtape.core.values import read
>>> read(Fill, {"id": "f1", "t": "2026-06-04T08:00:00Z", "symbol": "BTC", "side": "buy", "qty": "0.5", "px": 65200}).px
Decimal('65200')
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, AliasChoices, BeforeValidator, ConfigDict, Field

from memtape.core.values import (
    ONE,
    STRICT,
    ZERO,
    Fraction,
    Key,
    Label,
    Leg,
    Line,
    Money,
    Number,
    Price,
    Quantity,
    Reason,
    Symbol,
    Time,
)

Side = Literal["long", "short"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fill:
    """One execution at the broker. `qty` is in base units, `rate` is account currency per unit of the quote currency."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    kind: ClassVar[str] = "fill"
    id: Annotated[Key, Field(description="the broker's own id of the execution")]
    t: Annotated[Time, Field(description="when it was executed")]
    symbol: Symbol
    side: Literal["buy", "sell"]
    qty: Quantity
    px: Annotated[Price, Field(description="price in the quote currency; 0 is legal, options expire")]
    leg: Annotated[Leg, Field(description="'' on a net account, LONG/SHORT in hedge mode, the ticket on hedging MT5")] = ""
    fee: Annotated[Money, Field(description="paid is positive, a rebate negative")] = ZERO
    seq: Annotated[int, Field(description="order among fills of one moment")] = 0
    liq: Annotated[bool, Field(description="true when the venue liquidated")] = False
    rate: Annotated[Quantity, Field(description="account currency per quote unit")] = ONE
    order_id: Key | None = None
    decision: Annotated[Key | None, Field(description="id of the decision that this fill carries out")] = None
    trigger: Annotated[Label | None, Field(description="what set it off, if the source says: stop, target, manual")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Funding:
    """Funding, swap or borrow interest of a held position, signed from the account's side: + is received."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    kind: ClassVar[str] = "funding"
    id: Key
    t: Time
    symbol: Symbol
    usd: Annotated[Money, Field(description="in the account currency; received is positive")]
    leg: Leg = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CashFlow:
    """A deposit (+) or withdrawal (-): it moves equity and is not profit."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    kind: ClassVar[str] = "flow"
    id: Key
    t: Time
    usd: Money


@dataclass(frozen=True, slots=True, kw_only=True)
class EquityMark:
    """The account's equity at a moment, in the account currency, as the broker states it."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    kind: ClassVar[str] = "equity"
    t: Time
    equity: Money
    id: Annotated[Key | None, Field(description="default: the time itself")] = None


def _coherent(bar: Bar) -> Bar:
    if bar.t1 <= bar.t0:
        raise ValueError("t1 is not after t0; give the open time and the close time of the bar")
    if not bar.l <= min(bar.o, bar.c) <= max(bar.o, bar.c) <= bar.h:
        raise ValueError("the low must not exceed open and close, nor they the high; check the order o, h, l, c")
    return bar


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A completed bar over [t0, t1)."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    symbol: Symbol
    t0: Time
    t1: Time
    o: Price
    h: Price
    l: Price  # noqa: E741  the candle's own letter
    c: Price
    v: Price | None = None

    @property
    def frame(self) -> int:
        """Length in seconds."""
        return int((self.t1 - self.t0).total_seconds())


CheckedBar = Annotated[Bar, AfterValidator(_coherent)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One position in a snapshot: signed quantity, and what the broker says of it."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    qty: Annotated[Number, Field(description="signed: short is negative")]
    entry_px: Price | None = None
    leverage: Price | None = None
    mark: Price | None = None
    leg: Leg = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the engine that guards the account said to a proposal."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    accepted: bool
    code: Annotated[Label | None, Field(description="the rule that refused, like R3_POSITION_CAP")] = None
    note: Reason | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One execution of an agent: what it was asked, what it did, what it cost."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    id: Key
    kind: Literal["tick", "chat", "manual", "re-examination"] = "tick"
    digest: Annotated[Key | None, Field(description="hash of the context the model saw")] = None
    steps: Annotated[tuple[Line, ...], Field(max_length=64)] = ()
    model: Label | None = None
    tokens_in: Annotated[int, Field(ge=0)] | None = None
    tokens_out: Annotated[int, Field(ge=0)] | None = None
    cost_usd: Price | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Labels of the market at a moment, as the caller sees it. What is missing is unknown."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    regime: Label | None = None
    volatility: Label | None = None
    session: Label | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a run concluded, deliberately not trading included. Inside a tick, id and time default to the tick's."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    kind: ClassVar[str] = "decision"
    id: Key | None = None
    t: Time | None = None
    symbol: Symbol | None = None
    action: Annotated[Label | None, Field(description="buy, sell, close, no_trade, ...")] = None
    reason: Reason | None = None
    side: Annotated[Side | None, Field(description="direction considered")] = None
    qty: Quantity | None = None
    stop: Price | None = None
    target: Price | None = None
    confidence: Fraction | None = None
    strategy: Label | None = None
    tags: Annotated[tuple[Label, ...], Field(max_length=16)] = ()
    order_ids: Annotated[tuple[Key, ...], Field(max_length=64)] = ()
    situation: Situation | None = None
    verdict: Verdict | None = None
    run: Run | None = None
    slots: Annotated[dict[Label, Line], Field(max_length=32, description="the card's further slots")] = field(
        default_factory=dict
    )


def _several(value: object) -> object:
    return value if value is None or isinstance(value, list | tuple) else (value,)


def _by_symbol(value: object) -> object:
    if isinstance(value, Mapping):
        return {k: v if isinstance(v, list | tuple) else (v,) for k, v in value.items()}
    return value


def _distinct_legs(positions: dict[str, tuple[Held, ...]] | None) -> dict[str, tuple[Held, ...]] | None:
    for symbol, held in (positions or {}).items():
        if len({h.leg for h in held}) < len(held):
            raise ValueError(f"{symbol} has two positions with one leg; give each its own leg")
    return positions


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """What one run saw at one moment: a snapshot, and what happened since the one before."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    kind: ClassVar[str] = "tick"
    id: Annotated[Key, Field(validation_alias=AliasChoices("id", "snapshot_id"))]
    t: Time
    positions: Annotated[
        dict[Symbol, tuple[Held, ...]] | None,
        BeforeValidator(_by_symbol),
        AfterValidator(_distinct_legs),
        Field(description="symbol -> position, or a list of positions with legs; absent: no snapshot; {}: flat"),
    ] = None
    marks: dict[Symbol, Price] = field(default_factory=dict)
    fills: tuple[Fill, ...] = ()
    funding: tuple[Funding, ...] = ()
    bars: tuple[CheckedBar, ...] = ()
    equity: Money | None = None
    cash_flows: tuple[CashFlow, ...] = ()
    decision: Annotated[
        tuple[Decision, ...] | None, BeforeValidator(_several), Field(description="one decision, or a list of them")
    ] = None

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """Its decisions with their ids and times filled in: the tick's own, then numbered."""
        given = self.decision or ()
        return tuple(
            replace(d, id=d.id or (self.id if n == 0 else f"{self.id}#{n + 1}"), t=d.t or self.t)
            for n, d in enumerate(given)
        )


def _in_order(trade: ClosedTrade) -> ClosedTrade:
    if trade.exit_at < trade.entry_at:
        raise ValueError("exit_at is before entry_at; exchange them or correct one")
    if trade.qty is None and trade.pnl is None:
        raise ValueError("neither qty nor pnl is given; one of them is needed to know the outcome")
    return trade


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedTrade:
    """A round trip that its source reports whole. `pnl` is gross, before fees and funding, where the source states it."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    kind: ClassVar[str] = "trade"
    trade_id: Annotated[Key, Field(description="the source's own id of the trade")]
    symbol: Symbol
    side: Side
    entry_at: Time
    exit_at: Time
    entry_price: Price
    exit_price: Price
    qty: Quantity | None = None
    pnl: Money | None = None
    fees: Money = ZERO
    funding: Money = ZERO
    rate: Quantity = ONE
    leverage: Price | None = None
    stop: Price | None = None
    target: Price | None = None
    entry_reason: Reason | None = None
    exit_reason: Reason | None = None
    trigger: Label | None = None
    strategy: Label | None = None
    tags: Annotated[tuple[Label, ...], Field(max_length=16)] = ()
    situation: Situation | None = None


CheckedTrade = Annotated[ClosedTrade, AfterValidator(_in_order)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """A delivery of bars on their own."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    kind: ClassVar[str] = "bars"
    bars: Annotated[tuple[CheckedBar, ...], Field(min_length=1)]


Observed = Tick | Fill | Funding | ClosedTrade | EquityMark | CashFlow | Decision | Bars

READERS: Mapping[str, Any] = {
    "tick": Tick,
    "fill": Fill,
    "funding": Funding,
    "trade": CheckedTrade,
    "equity": EquityMark,
    "flow": CashFlow,
    "decision": Decision,
    "bars": Bars,
}


def happened_at(seen: Observed) -> datetime | None:
    """When an observed value was complete: the latest moment in it."""
    if isinstance(seen, ClosedTrade):
        return seen.exit_at
    if isinstance(seen, Bars):
        return max(bar.t1 for bar in seen.bars)
    return seen.t


