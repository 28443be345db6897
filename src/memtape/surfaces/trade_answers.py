"""A trade as an answer."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field, create_model

from memtape.core.ledger.trades import Trade, trade_json
from memtape.core.memory.trade_labels import label_sources
from memtape.store.schema import TRADE_COLUMNS
from memtape.surfaces.answer_models import Answer

_TRADE_TYPES: dict[str, Any] = {"money": str, "time": str, "text": str, "int": int, "flag": bool, "list": list[str]}
_TRADE_WORDS = {
    "pnl_r": "net PnL in units of initial risk", "pnl_pct": "net PnL in % of entry_size_usd", "mfe_usd": "largest open profit",
    "mae_usd": "largest open loss", "quality": "basis of the figures: fills, reported, inferred, unpriced or claimed",
    "source": "the venue that delivered it, or the agent that claims it; null: from your records",
    "net_pnl_usd": "realized - fees + funding, account currency", "realized_pnl_usd": "gross, account currency",
    "entry_at": "UTC", "exit_at": "UTC", "leg": "'' on a net account", "r_source": "source of the risk: stop",
    "exit_trigger": "what set off the exit: stop, target, manual, expiry, ...",
    "exit_item": "what closed it: fill:<id> or tick:<id>", "exit_seq": "its place among the exits of one moment",
    "fee_unknown": "true: a fee in another currency is not in fees_usd, because its rate is unknown",
    "group_id": "links the legs of one idea", "accounting": "margin or cash", "payoff": "linear or inverse",
    "multiplier": "units per contract", "rate": "the last one known: account currency per quote unit (inverse: per coin)",
    "cost_usd": "cash, open trades: what is open cost so much, before the multiplier",
}  # fmt: skip

TradeRow: type[BaseModel] = create_model(
    "TradeRow",
    __base__=Answer,
    __doc__="One trade: a round trip, flat to flat.",
    **{
        name: (_TRADE_TYPES[kind] | None, Field(description=_TRADE_WORDS.get(name, name.replace("_", " "))))
        for name, kind in TRADE_COLUMNS.items()
    },  # type: ignore[call-overload]
    labels_from=(
        dict[str, str],
        Field(
            description="where regime, volatility and session of the entry come from: stated, bars or time of entry",
            default_factory=dict,
        ),
    ),
)


def trade_row(trade: Trade) -> BaseModel:
    """The answer row of a trade."""
    labels = {"regime": trade.entry_regime, "volatility": trade.entry_volatility, "session": trade.entry_session}
    return TradeRow(**trade_json(trade), labels_from=label_sources(trade.entry_situation, labels))
