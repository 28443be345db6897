"""Since when an agent has records of the venue or the owner: from then on, its own claims no longer count by themselves."""

from __future__ import annotations

from datetime import datetime

from memtape.core.items import Item
from memtape.store.cutoff import EVERYTHING, Cutoff
from memtape.store.tables import Tables

BROKER_KINDS = ("fill", "funding", "dividend", "trade")


def is_broker_record(item: Item) -> bool:
    """True if an item is a record of the account: a fill, funding, a reported trade or a position snapshot."""
    return item.kind in BROKER_KINDS or (item.kind == "tick" and item.body.positions is not None)


def first_broker_record(tables: Tables, cutoff: Cutoff = EVERYTHING) -> datetime | None:
    """When the first such record that still counts became known, as far as the cutoff allows; None if there is none."""
    known = [item.known_at for kind in BROKER_KINDS for item in tables.items(kind, cutoff)]
    known += [item.known_at for item in tables.items("tick", cutoff) if "positions" in item.body]
    return min(known, default=None)
