"""Outcomes of decisions as of a view: what counts as the outcome of each, and what the bars show beside it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from memtape.core.decisions.decision_outcomes import effective_outcome
from memtape.core.items import names_by_authority
from memtape.engine.write.reported_trades import reported_id
from memtape.store.database import in_batches

if TYPE_CHECKING:
    from memtape.core.decisions.decision_outcomes import DecisionOutcome
    from memtape.core.items import StoredItem
    from memtape.core.ledger.trades import Trade
    from memtape.engine.view.view import View


def decision_outcomes(
    view: View, ids: Sequence[str] | None = None, *, symbol: str | None = None, since: datetime | None = None,
    limit: int | None = None,
) -> list[DecisionOutcome]:  # fmt: skip
    """The outcomes of decisions, the newest decisions first; a decision of which nothing is known has none.

    `limit` is the number of decisions that are looked at.
    """
    items = _decisions(view, ids, symbol, since, limit)
    keys = frozenset(item.key for item in items)
    if not keys:
        return []
    auto = {row.id: row.outcome for row in view.outcomes(ids=keys)}
    stated = stated_outcomes(view)
    trades: dict[str, list[Trade]] = {}
    for trade in view.trades_entered_by(keys):
        trades.setdefault(trade.entry_decision or "", []).append(trade)
    for decision, several in _named_trades(view, items).items():
        trades.setdefault(decision, []).extend(several)
    found = [
        effective_outcome(
            item.key, stated.get(item.key), item.body.get("action"), trades.get(item.key, ()), auto.get(item.key)
        )
        for item in items
    ]  # fmt: skip
    return [outcome for outcome in found if outcome is not None]


def _named_trades(view: View, decisions: Sequence[StoredItem]) -> dict[str, list[Trade]]:
    """By decision, the trades that came whole and that it names by their own id.

    Fills name their decision. A trade that its source reports whole cannot, so the decision names the trade.
    """
    by_trade = _decisions_of_orders(view, decisions)
    found: dict[str, list[Trade]] = {}
    for some in in_batches(sorted(by_trade)):
        keys = {
            reported_id(view.agent.id, "trade", item.key, (item.symbol, item.leg)): by_trade[item.key]
            for item in view.items("trade", keys=some)
        }
        for trade in view.closed_trades(keys.keys()):
            found.setdefault(keys[trade.id], []).append(trade)
    return found


def _decisions_of_orders(view: View, decisions: Sequence[StoredItem]) -> dict[str, str]:
    """By the name of an order, which of these decisions has it: the owner's, or else the first that named it."""
    names, asked = {name for item in decisions for name in item.body.get("order_ids", ())}, {item.key for item in decisions}
    keys = sorted(key for name in names for key in names_by_authority(name))
    refs = {order.key: order.ref for some in in_batches(keys) for order in view.items("order", keys=some)}
    of = {name: next((ref for key in names_by_authority(name) if (ref := refs.get(key)) is not None), None) for name in names}
    return {name: decision for name, decision in of.items() if decision in asked}


def _decisions(
    view: View, ids: Sequence[str] | None, symbol: str | None, since: datetime | None, limit: int | None
) -> list[StoredItem]:
    """Decisions, the newest first."""
    if ids is None:
        return view.items("decision", symbol=symbol, since=since, newest=True, limit=limit)
    found = [
        item for some in in_batches(sorted(set(ids)))
        for item in view.items("decision", keys=some, symbol=symbol, since=since, newest=True)
    ]  # fmt: skip
    return sorted(found, key=lambda item: (item.at, item.seq), reverse=True)[:limit]


def stated_outcomes(view: View) -> dict[str, dict[str, Any]]:
    """What the owner stated last of each decision, by the decision's id."""
    return {item.body["decision"]: item.body for item in sorted(view.items("outcome_stated"), key=lambda item: item.seq)}
