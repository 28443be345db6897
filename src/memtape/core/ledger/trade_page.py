"""A page of trades: which ones, in which order, and where it goes on.

A filter by label or tag looks at what memory knows of a trade, because labels that nobody stated come from bars, and the owner
may correct both. A closed trade that was forgotten has no labels; an open one has those that its decision stated.

>>> TradePage(outcome="open").status, TradePage(status="closed", outcome="loss").status
('open', 'closed')
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Literal, NamedTuple

from memtape.core.ledger.trades import Trade
from memtape.core.memory.episodes import Episode
from memtape.core.value_class import dataclass

SortName = Literal["entry", "exit", "symbol", "side", "held", "size", "net", "r"]
SORT_FIELDS: Mapping[SortName, str] = {
    "entry": "entry_at", "exit": "exit_at", "symbol": "symbol", "side": "side", "held": "holding_minutes",
    "size": "entry_size_usd", "net": "net_pnl_usd", "r": "pnl_r",
}  # fmt: skip
TradeOutcome = Literal["win", "loss", "scratch", "open", "unknown"]
DateName = Literal["entry", "exit"]


class TradeLabels(NamedTuple):
    """The labels and tags of a trade."""

    regime: str | None = None
    volatility_regime: str | None = None
    session: str | None = None
    tags: tuple[str, ...] = ()

    @classmethod
    def of_episode(cls, episode: Episode) -> TradeLabels:
        """Returns what memory knows of a closed trade."""
        return cls(episode.regime, episode.volatility_regime, episode.session, episode.tags)

    @classmethod
    def of_trade(cls, trade: Trade) -> TradeLabels:
        """Returns what the decision to enter stated."""
        return cls(trade.entry_regime, trade.entry_volatility, trade.entry_session, trade.tags)


@dataclass(frozen=True, slots=True, kw_only=True)
class TradePage:
    """Which trades, in which order, and how many: after so many (`offset`), or behind an (entry time, id) if sorted by entry."""

    status: str | None = None
    symbol: str | None = None
    strategy: str | None = None
    side: str | None = None
    outcome: TradeOutcome | None = None
    regime: str | None = None
    volatility_regime: str | None = None
    session: str | None = None
    tag: str | None = None
    date: DateName = "entry"  # which date `since` and `until` are about
    since: datetime | None = None
    until: datetime | None = None  # excluded
    sort: SortName = "entry"
    descending: bool = True
    offset: int = 0
    after: tuple[datetime, str] | None = None
    limit: int = 25

    def __post_init__(self) -> None:
        if self.outcome == "open" and self.status is None:
            object.__setattr__(self, "status", "open")

    @property
    def by_labels(self) -> dict[str, str]:
        """The labels that are asked for, by their field in memory."""
        asked = {"regime": self.regime, "volatility_regime": self.volatility_regime, "session": self.session}
        return {name: label for name, label in asked.items() if label is not None}

    def admits(self, trade: Trade, labels: TradeLabels | None = None) -> bool:
        """Returns True if a trade is one of those wanted."""
        known = labels or TradeLabels.of_trade(trade)
        at = trade.entry_at if self.date == "entry" else trade.exit_at
        return (
            (self.status is None or trade.status == self.status)
            and (self.symbol is None or trade.symbol == self.symbol)
            and (self.strategy is None or trade.strategy == self.strategy)
            and (self.side is None or trade.side == self.side)
            and (self.outcome is None or self.outcome == outcome_of_trade(trade))
            and all(getattr(known, name) == label for name, label in self.by_labels.items())
            and (self.tag is None or self.tag in known.tags)
            and (self.since is None or (at is not None and at >= self.since))
            and (self.until is None or (at is not None and at < self.until))
            and (self.after is None or self._is_behind(trade, self.after))
        )

    def _is_behind(self, trade: Trade, after: tuple[datetime, str]) -> bool:
        if trade.entry_at == after[0]:
            return trade.id > after[1]
        return trade.entry_at < after[0] if self.descending else trade.entry_at > after[0]

    def cut(self, admitted: Iterable[Trade]) -> list[Trade]:
        """Returns the page out of the trades that it admits: sorted, equal ones by entry and id, unknown values last."""
        field, trades = SORT_FIELDS[self.sort], sorted(admitted, key=lambda trade: trade.id)
        trades.sort(key=lambda trade: trade.entry_at, reverse=self.descending)
        known = [trade for trade in trades if getattr(trade, field) is not None]
        known.sort(key=lambda trade: getattr(trade, field), reverse=self.descending)
        unknown = [trade for trade in trades if getattr(trade, field) is None]
        return [*known, *unknown][self.offset : self.offset + self.limit]


def outcome_of_trade(trade: Trade) -> TradeOutcome:
    """Returns how a trade ended: a scratch ended at exactly zero; the outcome of one without a known price is unknown.

    Money decides. A claim may state only its R: then R decides.
    """
    if trade.status != "closed":
        return "open"
    result = trade.net_pnl_usd if trade.net_pnl_usd is not None else trade.pnl_r
    if result is None:
        return "unknown"
    return "win" if result > 0 else "loss" if result < 0 else "scratch"
