"""The terms of instruments at a view's moment: what was stated, and what of it is in force."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from memtape.core.codec import EPOCH
from memtape.core.fills import Instrument
from memtape.core.items import read_terms
from memtape.core.ledger.terms import ContractTerms
from memtape.core.value_class import dataclass

if TYPE_CHECKING:
    from memtape.engine.view.view import View


@dataclass(frozen=True, slots=True)
class TermsStatement:
    """A statement of the terms of a symbol, as it was recorded."""

    id: str
    instrument: Instrument
    terms: ContractTerms
    stated_at: datetime | None  # when it became known; None: it counts as known from the beginning
    log_row: int
    in_force: bool = False  # True if a trade that is entered at the view's moment gets these terms


def stated_terms(view: View, symbol: str | None = None) -> Sequence[TermsStatement]:
    """Every statement of terms, by symbol and then in the order in which they come into force."""
    items = view.items("instrument", symbol=symbol)
    listed = sorted(((read_terms(item), item) for item in items), key=lambda pair: (pair[1].symbol, pair[0].order))
    # Of each symbol the last one that holds by the moment.
    latest = {item.symbol: item.key for _, item in listed if item.at <= view.as_of}
    return [
        TermsStatement(
            item.key, event.instrument, ContractTerms.of(event.instrument),
            None if item.known_at == EPOCH else item.known_at, item.seq, latest.get(item.symbol) == item.key,
        )
        for event, item in listed
    ]  # fmt: skip
