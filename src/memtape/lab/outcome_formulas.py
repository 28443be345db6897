"""Golden vectors of outcomes: a card and bars as JSON in, what became of the card as JSON out.

Prices are decimal strings, `r` is the double next to the exact ratio. A card that is no decision to be followed has every field
null. A card that contradicts itself is refused: `{"refused": [fields]}`, under the names of the vectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from memtape.core.codec import decimal_text, read_time, time_text
from memtape.core.decisions.outcome_bars import frame_length
from memtape.core.decisions.outcomes import TRADE_CARD, Outcome, OutcomeCard, follow_outcome, wrong_card_fields
from memtape.core.ledger.rounds import KnownBar
from memtape.core.observed import Bar

OUTCOME_FIELDS = ("status", "entry_price", "entry_at", "exit_price", "exit_at", "cause", "r", "shadow")
REFUSAL_ORDER = ("side", "entry", "stop", "target", "frame", "expiry_bars")


def outcome_vector(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what the product says to a vector of the op `outcome`."""
    given, as_of = inputs["card"], read_time(inputs["as_of"])
    card, unreadable = _card(given)
    if card.card != TRADE_CARD:
        return _row(None, shadow=False)
    wrong = unreadable | {"entry" if each.field == "entry_price" else each.field for each in wrong_card_fields(card)}
    if wrong:
        return {"refused": [field for field in REFUSAL_ORDER if field in wrong]}
    if not card.is_followed:
        return _row(None, shadow=card.is_shadow)
    bars = [_bar(row, card) for row in inputs.get("bars") or ()]
    return _row(follow_outcome(card, [known for known in bars if known.known_at <= as_of]), shadow=card.is_shadow)


def _card(given: Mapping[str, Any]) -> tuple[OutcomeCard, set[str]]:
    """Returns the card of a vector, and the fields that cannot be read; these are left out of the card."""
    entry = given.get("entry")
    prices = {"entry": None if entry == "market" else entry, "stop": given.get("stop"), "target": given.get("target")}
    read = {name: _price(text) for name, text in prices.items()}
    unreadable = {name for name, text in prices.items() if text is not None and read[name] is None}
    card = OutcomeCard(
        t=read_time(given["decided_at"]), symbol=given.get("symbol"), card=given.get("type") or TRADE_CARD,
        action=given.get("action"), side=given.get("side"), entry_price=read["entry"], stop=read["stop"], target=read["target"],
        **{name: given[name] for name in ("frame", "expiry_bars") if given.get(name) is not None},
    )  # fmt: skip
    if "entry" in unreadable:
        # Without its entry nothing can be said about the other prices.
        card = replace(card, stop=None, target=None)
    return card, unreadable


def _price(text: Any) -> Decimal | None:
    """Returns a price; None if the text is none."""
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        return None
    try:
        price = Decimal(str(text))
    except InvalidOperation:
        return None
    return price if price.is_finite() and price > 0 else None


def _bar(row: list[Any], card: OutcomeCard) -> KnownBar:
    """Returns a bar [t, open, high, low, close, known_at?] of the card's frame."""
    t0 = read_time(row[0])
    t1 = t0 + frame_length(card.frame)
    o, h, low, c = (Decimal(str(price)) for price in row[1:5])
    return KnownBar(
        Bar(symbol=card.symbol or "", t0=t0, t1=t1, o=o, h=h, l=low, c=c),
        read_time(row[5]) if len(row) > 5 and row[5] is not None else t1,
    )


def _row(outcome: Outcome | None, shadow: bool) -> dict[str, Any]:
    if outcome is None:
        return dict.fromkeys(OUTCOME_FIELDS) | {"shadow": shadow}
    return {field: _plain(getattr(outcome, field)) for field in OUTCOME_FIELDS}


def _plain(value: object) -> object:
    if isinstance(value, Decimal):
        return decimal_text(value)
    return time_text(value) if isinstance(value, datetime) else value
