"""The rows of trades with the labels of their entries: as stated, else as their episodes or the bars show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from memtape.core.labels import fold_fields
from memtape.core.memory.learn import entry_situation
from memtape.core.memory.situation_fields import market_state_at
from memtape.core.memory.trade_labels import lacks_labels, with_entry_labels

if TYPE_CHECKING:
    from memtape.core.ledger.trades import Trade
    from memtape.core.memory.trade_labels import EntryLabels
    from memtape.engine.view.view import View


def labelled_trades(view: View, trades: Sequence[Trade]) -> list[Trade]:
    """Trades with the labels of their entries that nobody stated filled in, as they were known at the view's moment."""
    corrected = _corrected_labels(view)
    lacking = [trade.id for trade in trades if lacks_labels(trade)]
    known = view.entry_labels(lacking) if lacking else {}
    found: list[Trade] = []
    for trade in trades:
        labels = known.get(trade.id)
        if labels is None:
            # An open trade has no episode yet, and a forgotten one has none any more.
            labels = _labels_from_bars(view, trade) if lacks_labels(trade) else {}
        found.append(with_entry_labels(trade, labels, corrected.get(trade.id)))
    return found


def _labels_from_bars(view: View, trade: Trade) -> EntryLabels:
    market = view.memory_tables.market(trade.symbol, trade.entry_at, view.cutoff.head)
    return entry_situation(trade, market_state_at(market, trade.entry_at), None)


def _corrected_labels(view: View) -> dict[str, dict[str, str | None]]:
    """The labels that corrections state, by trade; the last correction of a field counts."""
    found: dict[str, dict[str, str | None]] = {}
    for item in sorted(view.items("correction"), key=lambda item: item.seq):
        found.setdefault(item.symbol, {}).update(fold_fields(item.body["changes"]))
    return found
