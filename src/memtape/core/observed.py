"""What arrives from outside: ticks, fills, funding, bars, closed trades, equity, decisions.

Each value is one item with a key of its own, given by its source, so a second delivery is recognised whatever road it
takes. A tick gathers what one run of an agent saw at one moment; `positions` absent means that no snapshot was taken,
an empty one means flat.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import AfterValidator, AliasChoices, BeforeValidator, ConfigDict, Field

from memtape.core.codec import EPOCH
from memtape.core.fills import CheckedCorrection, Dividend, Fill, FillCorrection, Funding, Instrument, Split
from memtape.core.ids import DecisionId, TickId
from memtape.core.labels import Side as Side
from memtape.core.labels import StatedSide, folded
from memtape.core.value_class import dataclass
from memtape.core.values import (
    KEY,
    ONE,
    STRICT,
    ZERO,
    Fraction,
    Key,
    Label,
    Leg,
    Line,
    ModelName,
    Money,
    Number,
    Price,
    Quantity,
    Reason,
    Symbol,
    Time,
    clean_text,
)
from memtape.errors import Invalid

QUOTED_LENGTH = 20_000  # characters of a passage that is cited


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
    o: Number
    h: Number
    l: Number  # noqa: E741  the candle's own letter
    c: Number
    v: Price | None = None

    @property
    def frame(self) -> int:
        """Length in seconds."""
        length = self.t1 - self.t0
        return length.days * 86_400 + length.seconds


CheckedBar = Annotated[Bar, AfterValidator(_coherent)]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldPosition:
    """One position in a snapshot: signed quantity, and what the broker says of it."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    qty: Annotated[Number, Field(description="signed: short is negative")]
    entry_px: Number | None = None
    leverage: Price | None = None
    mark: Number | None = None
    leg: Leg = ""
    rate: Annotated[Quantity | None, Field(description="account currency per quote unit (inverse: per coin) then")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardVerdict:
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
    kind: Literal["tick", "scheduled", "manual", "chat", "re-examination", "council"] = "tick"
    digest: Annotated[Key | None, Field(description="hash of the context the model saw")] = None
    steps: Annotated[tuple[Line, ...], Field(max_length=64)] = ()
    model: ModelName | None = None
    tokens_in: Annotated[int, Field(ge=0)] | None = None
    tokens_out: Annotated[int, Field(ge=0)] | None = None
    cost_usd: Price | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentRef:
    """Lines of a document that a decision rests on. What stood there is added when it is recorded."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    path: Annotated[Line, Field(min_length=1)]
    start_line: Annotated[int, Field(ge=1)]
    end_line: Annotated[int, Field(ge=1)]
    content_hash: Annotated[Key | None, Field(description="as search_documents gave it: refused if they changed since")] = None
    quoted: Annotated[str, Field(max_length=QUOTED_LENGTH)] | None = None


MAX_SLOT_LENGTH, MAX_SLOT_ENTRIES = 2_000, 32


def _slot_value(value: object) -> str | tuple[str, ...]:
    """A slot is a text or a list of texts; a number is stored as it is written."""
    if not isinstance(value, list | tuple):
        return _slot_text(value)
    if len(value) > MAX_SLOT_ENTRIES:
        raise ValueError(f"has {len(value)} entries; give at most {MAX_SLOT_ENTRIES}")
    return tuple(_slot_text(each, f"entry {number} ") for number, each in enumerate(value, start=1))


def _slot_text(value: object, which: str = "") -> str:
    text = str(value) if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else value
    if not isinstance(text, str):
        raise ValueError(f"{which}is neither a text nor a number; write a text, or a list of texts")
    if len(text) > MAX_SLOT_LENGTH:
        raise ValueError(f"{which}has {len(text)} characters; shorten it to {MAX_SLOT_LENGTH}")
    try:
        return clean_text(text)
    except ValueError as wrong:
        raise ValueError(f"{which}{wrong}") from None


# All is checked before the two alternatives are tried: otherwise one wrong slot would be reported twice, once for each.
SlotValue = Annotated[Line | Annotated[tuple[Line, ...], Field(max_length=MAX_SLOT_ENTRIES)], BeforeValidator(_slot_value)]
Frame = Literal["1m", "5m", "15m", "30m", "1h", "4h", "1d"]

ANY: Final = "*"  # what is left open: it matches whatever the value


def _named(name: str, *others: str) -> Any:
    """A field of a situation: its own name, and the names under which agents and files know it."""
    return Field(validation_alias=AliasChoices(name, f"context_{name}", *others))


Finite = Annotated[float, Field(allow_inf_nan=False)]
_InR = Annotated[float, Field(ge=-1e6, le=1e6, allow_inf_nan=False)]
Level = Finite | Literal["*"] | None  # a number, anything, or unknown
Share = Annotated[float, Field(le=1, allow_inf_nan=False)] | Literal["*"] | None
Positive = Annotated[float, Field(ge=0, allow_inf_nan=False)] | Literal["*"] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """The market and the agent's own state at a moment: what two moments are compared by. None is unknown, '*' anything."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    symbol: Symbol | None = None
    price: Annotated[Positive, _named("price")] = None
    atr_d1: Annotated[Positive, _named("atr_d1")] = None
    atr_h1: Annotated[Positive, _named("atr_h1")] = None
    atr_m5: Annotated[Positive, _named("atr_m5")] = None
    atr_ratio_h1_d1: Annotated[Positive, _named("atr_ratio_h1_d1")] = None
    regime: Annotated[Label | None, folded("regime"), _named("regime")] = None
    volatility_regime: Annotated[Label | None, folded("volatility"), _named("volatility_regime", "volatility")] = None
    session: Annotated[Label | None, folded("session"), _named("session")] = None
    hour_utc: Annotated[int | None, _named("hour_utc")] = None
    day_of_week: Annotated[int | None, _named("day_of_week")] = None  # 0 is Monday
    spread_points: Annotated[Positive, _named("spread_points", "spread")] = None
    spread_as_atr_pct: Annotated[Positive, _named("spread_as_atr_pct")] = None
    drawdown_pct: Annotated[Share, _named("drawdown_pct", "recent_drawdown_pct")] = None  # a fraction: 0.05 is 5 %
    consecutive_losses: Annotated[int | None, _named("consecutive_losses")] = None
    confidence: Annotated[Finite | None, _named("confidence")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a run concluded, deliberately not trading included. Inside a tick, id and time default to the tick's."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    kind: ClassVar[str] = "decision"
    id: Annotated[DecisionId, AfterValidator(clean_text), KEY] | None = None
    t: Time | None = None
    symbol: Symbol | None = None
    action: Annotated[Label | None, Field(description="buy, sell, close, no_trade, ...")] = None
    reason: Reason | None = None
    side: Annotated[StatedSide | None, Field(description="direction considered")] = None
    qty: Quantity | None = None
    stop: Number | None = None
    target: Number | None = None
    confidence: Fraction | None = None
    strategy: Label | None = None
    tags: Annotated[tuple[Label, ...], Field(max_length=16)] = ()
    order_ids: Annotated[tuple[Key, ...], Field(max_length=64)] = ()
    situation: Situation | None = None
    verdict: GuardVerdict | None = None
    run: Run | None = None
    slots: Annotated[dict[Label, SlotValue], Field(max_length=32, description="the card's further slots")] = field(
        default_factory=dict
    )
    citations: Annotated[tuple[DocumentRef, ...], Field(max_length=16, description="lines of documents it rests on")] | None = (
        None
    )
    entry_price: Annotated[Number | None, Field(description="planned entry; the stop must lie on the losing side of it")] = None
    card: Annotated[Label | None, Field(description="type of the card, like trade-decision")] = None
    frame: Annotated[Frame | None, Field(description="length of the bars that the outcome is followed on; default 1h")] = None
    expiry_bars: Annotated[int | None, Field(ge=1, le=100_000, description="bars after which it expires; default 24")] = None

    @property
    def stated_side(self) -> Side | None:
        """The direction that it states: its side, else that of buy or sell."""
        sides: Mapping[str, Side] = {"buy": "long", "sell": "short"}
        return self.side or sides.get((self.action or "").lower())


def _several(value: object) -> object:
    return value if value is None or isinstance(value, list | tuple) else (value,)


def _by_symbol(value: object) -> object:
    if isinstance(value, Mapping):
        return {k: v if isinstance(v, list | tuple) else (v,) for k, v in value.items()}
    return value


def _distinct_legs(positions: dict[str, tuple[HeldPosition, ...]] | None) -> dict[str, tuple[HeldPosition, ...]] | None:
    for symbol, held in (positions or {}).items():
        if len({h.leg for h in held}) < len(held):
            raise ValueError(f"{symbol} has two positions with one leg; give each its own leg")
    return positions


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """What one run saw at one moment: a snapshot, and what happened since the one before."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    kind: ClassVar[str] = "tick"
    id: Annotated[TickId, AfterValidator(clean_text), KEY, Field(validation_alias=AliasChoices("id", "snapshot_id"))]
    t: Time
    positions: Annotated[
        dict[Symbol, tuple[HeldPosition, ...]] | None,
        BeforeValidator(_by_symbol),
        AfterValidator(_distinct_legs),
        Field(description="symbol -> position, or a list of positions with legs; absent: no snapshot; {}: flat"),
    ] = None
    marks: Annotated[
        dict[Symbol, Number], Field(description="symbol -> price; with its rate as {px, rate}, or put the rate into rates")
    ] = field(default_factory=dict)
    fills: tuple[Fill, ...] = ()
    funding: tuple[Funding, ...] = ()
    bars: tuple[CheckedBar, ...] = ()
    equity: Money | None = None
    cash_flows: tuple[CashFlow, ...] = ()
    decision: Annotated[
        tuple[Decision, ...] | None, BeforeValidator(_several), Field(description="one decision, or a list of them")
    ] = None
    rates: Annotated[
        dict[Symbol, Quantity] | None, Field(description="symbol -> account currency per quote unit (inverse: per coin)")
    ] = None
    instruments: Annotated[tuple[Instrument, ...] | None, Field(description="terms of symbols, where not the defaults")] = None
    splits: tuple[Split, ...] | None = None
    dividends: tuple[Dividend, ...] | None = None
    corrections: Annotated[tuple[CheckedCorrection, ...] | None, Field(description="fills that the venue corrects")] = None

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """Its decisions with their ids and times filled in: the tick's own, then numbered."""
        if self.decision is None:
            return ()
        return tuple(
            replace(d, id=d.id or DecisionId(self.id if n == 0 else f"{self.id}#{n + 1}"), t=d.t or self.t)
            for n, d in enumerate(self.decision)
        )


def _split_marks(data: object) -> object:
    """A tick as given, with marks of the form {px, rate} taken apart: the prices stay in `marks`, the rates go to `rates`."""
    marks = data.get("marks") if isinstance(data, Mapping) else None
    if not isinstance(marks, Mapping) or not any(isinstance(mark, Mapping) for mark in marks.values()):
        return data
    assert isinstance(data, Mapping)
    whole = {symbol: mark for symbol, mark in marks.items() if isinstance(mark, Mapping) and set(mark) <= {"px", "rate"}}
    rates = {symbol: mark["rate"] for symbol, mark in whole.items() if mark.get("rate") is not None}
    prices = {symbol: mark["px"] for symbol, mark in whole.items() if mark.get("px") is not None}
    kept = {symbol: mark for symbol, mark in marks.items() if symbol not in whole}
    return {**data, "marks": kept | prices, "rates": (data.get("rates") or {}) | rates}


CheckedTick = Annotated[Tick, BeforeValidator(_split_marks)]


def _in_order(trade: ClosedTrade) -> ClosedTrade:
    if trade.exit_at < trade.entry_at:
        raise ValueError("exit_at is before entry_at; exchange them or correct one")
    if trade.qty is None and trade.pnl is None and trade.pnl_r is None and trade.exit_price is not None:
        raise ValueError("neither qty nor pnl is given, nor pnl_r; one of them is needed to know the outcome")
    if trade.pnl is not None and trade.pnl_r is not None and float(trade.pnl - trade.fees + trade.funding) * trade.pnl_r < 0:
        raise ValueError("pnl_r has the opposite sign of pnl after fees and funding; correct one of them")
    return trade


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedTrade:
    """A round trip that its source reports whole. `pnl` is gross, before fees and funding, where the source states it.

    Without an exit price it was closed at a price that nobody recorded: its outcome is unknown, unless `pnl` or
    `pnl_r` states it.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    kind: ClassVar[str] = "trade"
    trade_id: Annotated[Key, Field(description="the source's own id of the trade")]
    symbol: Symbol
    side: StatedSide
    entry_at: Time
    exit_at: Time
    entry_price: Number
    exit_price: Annotated[Number | None, Field(description="absent: closed at a price that nobody recorded")] = None
    qty: Quantity | None = None
    pnl: Money | None = None
    fees: Money = ZERO
    funding: Money = ZERO
    rate: Quantity = ONE
    leverage: Price | None = None
    stop: Number | None = None
    target: Number | None = None
    entry_reason: Reason | None = None
    exit_reason: Reason | None = None
    trigger: Label | None = None
    strategy: Label | None = None
    tags: Annotated[tuple[Label, ...], Field(max_length=16)] = ()
    situation: Situation | None = None
    confidence: Annotated[Fraction | None, Field(description="of the decision to enter, 0 to 1")] = None
    note: Annotated[Line | None, Field(description="a remark of the source about it")] = None
    pnl_r: Annotated[_InR | None, Field(description="the outcome in R, as the source states it; a stop comes first")] = None


CheckedTrade = Annotated[ClosedTrade, AfterValidator(_in_order)]


def _either_name(*names: str) -> Any:
    return Field(validation_alias=AliasChoices(*names))


def _agreeing(claim: Claim | Closing) -> Claim | Closing:
    """Refuse a report that contradicts itself."""
    if claim.pnl is not None and claim.pnl_r is not None and float(claim.pnl) * claim.pnl_r < 0:
        raise Invalid("pnl_r", "has the opposite sign of pnl", "Correct one of them")
    if isinstance(claim, Closing):
        return claim
    side = 1 if claim.side == "long" else -1
    if claim.entry_at is not None and claim.exit_at is not None and claim.exit_at < claim.entry_at:
        raise Invalid("exit_at", "is before entry_at", "Exchange them or correct one")
    if claim.stop is not None and side * (claim.entry_price - claim.stop) <= 0:
        raise Invalid("stop", "does not lie on the losing side of entry_price", "Give the stop that was set at entry")
    if claim.exit_price is None:
        if claim.pnl is not None or claim.pnl_r is not None or claim.exit_at is not None:
            raise Invalid("exit_price", "is missing although an outcome is given", "Give it, or close the trade later")
        return claim
    if claim.qty is None and claim.pnl is None and claim.pnl_r is None and claim.stop is None:
        raise Invalid("pnl", "is missing, and so are pnl_r, qty and stop", "Give one of them: it is needed to know the outcome")
    moved = side * (claim.exit_price - claim.entry_price)
    if claim.stop is not None and claim.pnl_r is not None:
        by_prices = float(moved / abs(claim.entry_price - claim.stop))
        if abs(claim.pnl_r - by_prices) > max(1.0, abs(by_prices)):
            raise Invalid("pnl_r", f"says {claim.pnl_r:g}R, but entry, exit and stop say {by_prices:g}R", "Correct one of them")
    if claim.qty is not None and claim.pnl is None and claim.pnl_r is not None and float(moved) * claim.pnl_r < 0:
        # Without a stated pnl, the prices are the result in money.
        raise Invalid("pnl_r", "has the opposite sign of the price move", "Correct pnl_r, the prices or the side")
    if claim.qty is not None and claim.pnl is not None and claim.pnl * moved < 0 and abs(claim.pnl) > abs(moved * claim.qty) / 2:
        raise Invalid("pnl", "has the opposite sign of the price move", "Correct pnl, the prices or the side")
    return claim


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A trade as the agent itself reports it, whole or still open. Its outcome is a claim until the broker's own confirms it."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    kind: ClassVar[str] = "claim"
    trade_id: Annotated[Key | None, Field(description="the agent's own id of it; default: made from the content")] = None
    symbol: Symbol
    side: Annotated[StatedSide, _either_name("side", "direction")]
    entry_price: Number
    exit_price: Annotated[Number | None, Field(description="absent: it is still open")] = None
    pnl: Annotated[Money | None, Field(description="net, in the account currency")] = None
    pnl_r: Annotated[_InR | None, Field(description="the outcome in units of initial risk")] = None
    strategy: Annotated[Label | None, _either_name("strategy", "strategy_name")] = None
    note: Annotated[Line | None, _either_name("note", "market_context")] = None
    situation: Annotated[Situation | None, Field(description="the market at entry")] = None
    confidence: Annotated[Fraction | None, Field(description="of the decision to enter, 0 to 1")] = None
    reflection: Annotated[Line | None, Field(description="what the agent makes of it")] = None
    mae: Annotated[Money | None, _either_name("mae", "max_adverse_excursion")] = None
    entry_at: Time | None = None
    exit_at: Annotated[Time | None, Field(description="default: now")] = None
    qty: Quantity | None = None
    stop: Number | None = None
    target: Number | None = None
    tags: Annotated[tuple[Label, ...], Field(max_length=16)] = ()
    source: Annotated[Label, Field(description="who says so: the agent, a model, a file")] = "agent"


CheckedClaim = Annotated[Claim, AfterValidator(_agreeing)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """The end of a trade that the agent had reported open."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    kind: ClassVar[str] = "closing"
    trade_id: Annotated[Key, Field(description="the id under which it was reported")]
    exit_price: Number
    exit_at: Annotated[Time | None, Field(description="default: now")] = None
    pnl: Annotated[Money | None, Field(description="net, in the account currency")] = None
    pnl_r: Annotated[_InR | None, Field(description="the outcome in units of initial risk")] = None
    reflection: Annotated[Line | None, Field(description="what the agent makes of it")] = None
    mae: Annotated[Money | None, _either_name("mae", "max_adverse_excursion")] = None


CheckedClosing = Annotated[Closing, AfterValidator(_agreeing)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """A delivery of bars on their own."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    kind: ClassVar[str] = "bars"
    bars: Annotated[tuple[CheckedBar, ...], Field(min_length=1)]


Observed = (
    Tick | Fill | Funding | ClosedTrade | EquityMark | CashFlow | Decision | Bars | Claim | Closing
    | Instrument | Split | Dividend | FillCorrection
)  # fmt: skip

READERS: Mapping[str, Any] = {
    "tick": CheckedTick,
    "fill": Fill,
    "funding": Funding,
    "trade": CheckedTrade,
    "equity": EquityMark,
    "flow": CashFlow,
    "decision": Decision,
    "bars": Bars,
    "claim": CheckedClaim,
    "closing": CheckedClosing,
    "instrument": Instrument,
    "split": Split,
    "dividend": Dividend,
    "amend_fill": CheckedCorrection,
    "void_fill": CheckedCorrection,
}


def occurred_at(value: Observed) -> datetime | None:
    """When an observed value was complete: the latest moment in it."""
    if isinstance(value, Tick):
        return value.t
    if isinstance(value, ClosedTrade | Closing):
        return value.exit_at
    if isinstance(value, Claim):
        return value.exit_at or value.entry_at
    if isinstance(value, Bars):
        return max(bar.t1 for bar in value.bars)
    if isinstance(value, Instrument):
        # Terms that are stated after the fact were there from the start.
        return value.valid_from or EPOCH
    return value.t
