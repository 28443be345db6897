"""The labels of a trade's entry, as its row in the ledger shows them: as stated, else as bars and the time of entry show.

The ledger stores what was stated. What bars show is part of the episode, which follows every late bar; a row is completed from it
when it is read, so that both always agree, at any past moment too.

>>> label_sources('{"regime":"ranging"}', {"regime": "ranging", "volatility": "low", "session": None})
{'regime': 'stated', 'volatility': 'bars'}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from memtape.core.codec import canonical
from memtape.core.ledger.trades import Trade

LabelSource = Literal["stated", "bars", "time of entry"]
# The columns of a trade, the fields of a situation that they show, and where an answer gets a label that nobody stated.
_COLUMNS: tuple[tuple[str, str, LabelSource], ...] = (
    ("entry_regime", "regime", "bars"), ("entry_volatility", "volatility_regime", "bars"),
    ("entry_session", "session", "time of entry"),
)  # fmt: skip
EntryLabels = Mapping[str, str | None]  # by field of a situation


def lacks_labels(trade: Trade) -> bool:
    """Returns True if a label of the entry was not stated."""
    return any(getattr(trade, column) is None for column, _, _ in _COLUMNS)


def with_entry_labels(trade: Trade, known: EntryLabels, corrected: EntryLabels | None = None) -> Trade:
    """Returns a trade with the labels that nobody stated filled in; what was corrected later counts as stated."""
    stated: dict[str, Any] = json.loads(trade.entry_situation) if trade.entry_situation else {}
    changes = {field: value for _, field, _ in _COLUMNS if corrected and (value := corrected.get(field)) is not None}
    labels: dict[str, Any] = {}
    for column, field, _ in _COLUMNS:
        value = changes.get(field) or getattr(trade, column) or known.get(field)
        if value != getattr(trade, column):
            labels[column] = value
    if changes:
        labels["entry_situation"] = canonical(stated | changes)
    return trade._replace(**labels) if labels else trade


def label_sources(entry_situation: str | None, labels: EntryLabels) -> dict[str, LabelSource]:
    """Returns where each label of a row comes from; `labels` are regime, volatility and session. Unknown ones are left out."""
    stated: dict[str, Any] = json.loads(entry_situation) if entry_situation else {}
    found: dict[str, LabelSource] = {}
    for column, field, otherwise in _COLUMNS:
        name = column.removeprefix("entry_")
        if labels.get(name) is not None:
            found[name] = "stated" if stated.get(field) is not None else otherwise
    return found
