"""A trade: one round trip of one position, flat to flat, as every reader of the ledger sees it.

Amounts are exact and unrounded here; they are rounded to 8 places, half to even, only when they leave (`trade_json`).
`_usd` columns are in the account currency of the agent, prices in the quote currency of the symbol.
"""

from __future__ import annotations

from datetime import datetime
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Literal, NamedTuple

from memtape.core.codec import decimal_text, time_text
from memtape.core.ids import AgentId, DecisionId, SkillId, TradeId
from memtape.core.observed import Side
from memtape.core.values import MONEY, ONE

Status = Literal["open", "closed"]
Quality = Literal["fills", "reported", "inferred", "unpriced", "claimed"]
PLACES = Decimal("1e-8")


class Trade(NamedTuple):
    """One row of the ledger. A named tuple, because a ledger makes and reads them by the hundred thousand."""

    id: TradeId
    agent: AgentId
    skill_id: SkillId
    skill_version: int
    strategy: str
    symbol: str
    leg: str
    side: Side
    currency: str
    status: Status
    entry_tick_at: datetime | None
    entry_at: datetime
    entry_item: str  # what opened it: fill:<id>, tick:<id> or trade:<id>
    entry_seq: int  # its place among the entries of one moment
    entry_price: Decimal | None
    entry_size_usd: Decimal | None
    entry_leverage: Decimal | None
    entry_reason: str | None
    entry_decision: DecisionId | None
    exit_tick_at: datetime | None
    exit_at: datetime | None
    exit_price: Decimal | None
    exit_reason: str | None
    exit_decision: DecisionId | None
    close_cause: str | None
    exit_trigger: str | None
    qty_entered: Decimal | None
    qty_exited: Decimal | None
    qty_open: Decimal | None
    avg_cost: Decimal | None
    stop_price: Decimal | None
    target_price: Decimal | None
    initial_risk_usd: Decimal | None
    r_source: str | None
    holding_minutes: Decimal | None
    realized_pnl_usd: Decimal | None
    fees_usd: Decimal
    funding_usd: Decimal
    net_pnl_usd: Decimal | None
    pnl_pct: Decimal | None
    pnl_r: Decimal | None
    mfe_usd: Decimal | None
    mae_usd: Decimal | None
    mfe_r: Decimal | None
    mae_r: Decimal | None
    excursion_method: str | None
    entry_regime: str | None
    entry_volatility: str | None
    entry_session: str | None
    exit_regime: str | None
    quality: Quality
    adopted: bool
    liquidation_fills: int
    tags: tuple[str, ...]
    teach: str
    confidence: Decimal | None = None  # of the decision to enter, 0 to 1
    entry_situation: str | None = None  # what that decision said of the market, canonical JSON
    first_partial_price: Decimal | None = None  # where the first part was taken off
    reflection: str | None = None  # what the agent made of a trade it reported itself
    source: str | None = None  # the venue that delivered it, or the name of the agent that claims it; None: the owner's records
    exit_item: str | None = None  # what closed it: fill:<id> or tick:<id>
    exit_seq: int | None = None  # its place among the exits of one moment
    fee_unknown: bool = False  # a fee in another currency, whose rate nobody stated, is not in fees_usd
    group_id: str | None = None  # links the legs of one idea, such as the options of a spread
    accounting: str = "margin"  # margin: converted once, at the exit's rate; cash: each notional at its own rate
    payoff: str = "linear"  # inverse: coin-margined
    multiplier: Decimal = ONE  # units per contract
    rate: Decimal | None = None  # the last one known: account currency per quote unit (inverse: per coin)
    cost_usd: Decimal | None = None  # of an open trade paid in full: what is open cost so much, before the multiplier


TRADE_FIELDS = Trade._fields


def entry_order(trade: Trade) -> tuple[object, ...]:
    """The order of the ledger: by entry, symbol, as they were opened, and the pieces of one lot as they were closed."""
    pieces = (trade.exit_at is None, trade.exit_at, trade.exit_seq or 0, trade.exit_item or "")
    return (trade.entry_at, trade.symbol, trade.entry_seq, trade.entry_item, trade.leg, *pieces)


def round_money(amount: Decimal) -> Decimal:
    """Eight places, half to even: the only rounding of money, and only on the way out.

    >>> round_money(Decimal("1.000000005")), round_money(Decimal("1.000000015"))
    (Decimal('1.00000000'), Decimal('1.00000002'))
    """
    return amount.quantize(PLACES, rounding=ROUND_HALF_EVEN, context=MONEY)


def money_text(amount: Decimal | None) -> str | None:
    """An amount as it leaves."""
    return None if amount is None else decimal_text(round_money(amount))


def trade_json(trade: Trade) -> dict[str, object]:
    """A trade as plain JSON data: amounts as strings of at most 8 places, times in UTC."""
    row: dict[str, object] = {}
    for name, value in zip(TRADE_FIELDS, trade, strict=True):
        if isinstance(value, Decimal):
            row[name] = money_text(value)
        elif isinstance(value, datetime):
            row[name] = time_text(value)
        else:
            row[name] = list(value) if isinstance(value, tuple) else value
    return row
