"""What an account at Hyperliquid holds at a moment."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal, localcontext

from memtape.brokers.hyperliquid.names import coin_symbol, time_from_millis
from memtape.brokers.hyperliquid.rows import StateRow, VenuePosition
from memtape.core.codec import decimal_text
from memtape.core.observed import HeldPosition
from memtape.core.value_class import dataclass
from memtape.core.values import MONEY, read

MARK_STEP = Decimal("1e-10")


@dataclass(frozen=True, slots=True)
class VenueAccount:
    """An account's positions and equity at a moment."""

    t: datetime
    equity: Decimal
    positions: dict[str, tuple[HeldPosition, ...]]
    held: dict[str, Decimal]  # by coin

    @property
    def marks(self) -> dict[str, Decimal]:
        """The mark prices of the positions."""
        return {symbol: held[0].mark for symbol, held in self.positions.items() if held[0].mark is not None}


def account_from_answer(payload: object) -> VenueAccount:
    """Returns an answer to clearinghouseState. It has no mark price; the value of the position gives it."""
    state = read(StateRow, payload, at="clearinghouseState")
    rows = sorted((one.position for one in state.assetPositions if one.position.szi), key=lambda row: row.coin)
    positions: dict[str, tuple[HeldPosition, ...]] = {
        coin_symbol(row.coin): (
            HeldPosition(
                qty=row.szi, entry_px=row.entryPx, leverage=row.leverage.value if row.leverage else None, mark=_mark(row)
            ),
        )
        for row in rows
    }
    return VenueAccount(
        time_from_millis(state.time), state.marginSummary.accountValue, positions, {row.coin: row.szi for row in rows}
    )


def _mark(row: VenuePosition) -> Decimal | None:
    if row.positionValue is None:
        return None
    with localcontext(MONEY):
        return Decimal(decimal_text((row.positionValue / abs(row.szi)).quantize(MARK_STEP)))
