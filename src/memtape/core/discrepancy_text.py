"""A discrepancy in plain words: what does not agree, which records it is about, and what counts."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from memtape.core.events import Discrepancy

# The fields of a fill as a person calls them, where the field's own name is short for something.
_FIELD_WORDS = {
    "t": "time", "px": "price", "qty": "quantity", "seq": "place among fills of one moment", "liq": "liquidation",
    "fee_currency": "currency of the fee", "fee_rate": "rate of the fee", "order_id": "order", "group": "group",
}  # fmt: skip


def discrepancy_text(found: Discrepancy, number: Callable[[Decimal], str], name: Callable[[str], str]) -> str:
    """A discrepancy in one sentence without its end. `number` and `name` write amounts and names of others.

    >>> from datetime import UTC, datetime
    >>> noon = datetime(2026, 6, 5, 12, tzinfo=UTC)
    >>> discrepancy_text(Discrepancy("BTC", "", noon, "fill_differs", fill_id="f1", fields=("px", "fee")), str, str)
    'fill f1 came again with another price and fee; what came first counts'
    >>> discrepancy_text(Discrepancy("BTC", "", noon, "fee_unknown", fill_id="f1", fee=Decimal(2), fee_currency="BNB"), str, str)
    'the fee of fill f1, 2 BNB, is not counted: its rate is unknown'
    """
    fill = name(found.fill_id) if found.fill_id else "?"
    match found.why:
        case "adopted":
            return "was already held when the record began" + _quantities(found, number)
        case "snapshot":
            return "fills do not explain the position in the snapshot" + _quantities(found, number)
        case "snapshot_lag":
            return "the snapshot and the fills came at different times; the fills count" + _quantities(found, number)
        case "fill_differs":
            words = [_FIELD_WORDS.get(field, field) for field in found.fields or ()]
            listed = " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
            return f"fill {fill} came again with another {listed or 'content'}; what came first counts"
        case "fee_unknown":
            fee = "" if found.fee is None else f", {number(found.fee)} {name(found.fee_currency or '?')},"
            return f"the fee of fill {fill}{fee} is not counted: its rate is unknown"
        case "stop_wrong_side":
            stop, entry = (_given(amount, number) for amount in (found.stop, found.price))
            return f"the stop {stop} is on the wrong side of the entry at {entry} and was not taken"
        case "fill_twice":
            other = name(found.other) if found.other else "?"
            return f"fills {fill} and {other} are equal but for their ids, and the snapshot shows only one of them" + _quantities(
                found, number, priced=False
            )
        case "pnl_differs":
            stated, own = (_given(amount, number) for amount in (found.stated_pnl, found.ledger_pnl))
            return f"the venue states a PnL of {stated} for fill {fill}, the record has {own} (before fees)"


def _quantities(found: Discrepancy, number: Callable[[Decimal], str], *, priced: bool = True) -> str:
    at = f", priced at {number(found.price)}" if priced and found.price is not None else ""
    return f" (snapshot {_given(found.broker_qty, number)}, fills {_given(found.ledger_qty, number)}{at})"


def _given(amount: Decimal | None, number: Callable[[Decimal], str]) -> str:
    return "?" if amount is None else number(amount)
