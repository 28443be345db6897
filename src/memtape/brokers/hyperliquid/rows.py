"""The rows of Hyperliquid's answers, as the venue writes them: numbers as text, times in milliseconds."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from memtape.brokers.hyperliquid.names import DOLLAR_TOKEN
from memtape.core.codec import decimal_text
from memtape.core.value_class import dataclass
from memtape.core.values import MONEY, ZERO, Number, Price, Text

IGNORE_NEW_FIELDS = ConfigDict(extra="ignore")  # the venue may add fields at any time
Millis = Annotated[int, Field(ge=0, lt=7_258_118_400_000)]  # up to the year 2200
Coin = Annotated[Text, Field(min_length=1, max_length=64)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Liquidation:
    """The account that was liquidated. The fills of both sides have it."""

    __pydantic_config__: ClassVar[ConfigDict] = IGNORE_NEW_FIELDS
    liquidatedUser: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FillRow:
    """One row of userFills and userFillsByTime: the fields that are used."""

    __pydantic_config__: ClassVar[ConfigDict] = IGNORE_NEW_FIELDS
    coin: Coin
    px: Price
    sz: Price
    side: Literal["B", "A"]
    time: Millis
    startPosition: Number
    oid: int
    tid: int
    closedPnl: Number | None = None  # realised by the fill, before fees
    fee: Number = ZERO  # includes the builder's fee
    feeToken: str = DOLLAR_TOKEN
    dir: str = ""
    liquidation: Liquidation | None = None

    @property
    def key(self) -> str:
        """Identifies the fill in its account."""
        return f"{self.coin}-{self.tid}-{self.oid}-{self.time}-{decimal_text(self.sz)}"

    @property
    def after(self) -> Decimal:
        """The position after the fill."""
        return MONEY.add(self.startPosition, self.sz if self.side == "B" else -self.sz)


@dataclass(frozen=True, slots=True, kw_only=True)
class FundingDelta:
    """A payment for one coin. `usdc` is negative if the account paid."""

    __pydantic_config__: ClassVar[ConfigDict] = IGNORE_NEW_FIELDS
    coin: Coin
    usdc: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class FundingRow:
    """One row of userFunding."""

    __pydantic_config__: ClassVar[ConfigDict] = IGNORE_NEW_FIELDS
    time: Millis
    delta: FundingDelta


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRow:
    """One row of userNonFundingLedgerUpdates. Its delta has a `type`, and fields that depend on it."""

    __pydantic_config__: ClassVar[ConfigDict] = IGNORE_NEW_FIELDS
    time: Millis
    hash: Annotated[Text, Field(max_length=128)]
    delta: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leverage:
    """The leverage of a position."""

    __pydantic_config__: ClassVar[ConfigDict] = IGNORE_NEW_FIELDS
    value: Price


@dataclass(frozen=True, slots=True, kw_only=True)
class VenuePosition:
    """A position of clearinghouseState: net, one per coin."""

    __pydantic_config__: ClassVar[ConfigDict] = IGNORE_NEW_FIELDS
    coin: Coin
    szi: Number
    entryPx: Price | None = None
    positionValue: Price | None = None
    leverage: Leverage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetPosition:
    """The venue's wrapper of a position."""

    __pydantic_config__: ClassVar[ConfigDict] = IGNORE_NEW_FIELDS
    position: VenuePosition


@dataclass(frozen=True, slots=True, kw_only=True)
class MarginSummary:
    """The value of the account."""

    __pydantic_config__: ClassVar[ConfigDict] = IGNORE_NEW_FIELDS
    accountValue: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRow:
    """The answer to clearinghouseState."""

    __pydantic_config__: ClassVar[ConfigDict] = IGNORE_NEW_FIELDS
    time: Millis
    marginSummary: MarginSummary
    assetPositions: list[AssetPosition]


@dataclass(frozen=True, slots=True, kw_only=True)
class CandleRow:
    """One row of candleSnapshot: `T` is its last millisecond."""

    __pydantic_config__: ClassVar[ConfigDict] = IGNORE_NEW_FIELDS
    t: Millis
    s: Coin
    i: str
    o: Price
    h: Price
    l: Price  # noqa: E741  the venue's own name
    c: Price
    v: Price | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderRow:
    """An order of orderStatus and historicalOrders."""

    __pydantic_config__: ClassVar[ConfigDict] = IGNORE_NEW_FIELDS
    oid: int
    orderType: str = ""
    isTrigger: bool = False
    reduceOnly: bool = False
    isPositionTpsl: bool = False
    tif: str | None = None
