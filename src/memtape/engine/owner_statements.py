"""Writes a statement of the owner into the owner's stream: a skill, an agent, a fact, a card type, ..."""

from __future__ import annotations

from typing import Any

from memtape.core.items import Item
from memtape.core.skills import OWNER_AGENT
from memtape.engine.resources import Resources
from memtape.engine.write.log_writer import Receipt
from memtape.engine.write.writer import Writer
from memtape.store.tables import Tables


def record_statement(
    resources: Resources, tables: Tables, kind: str, key: str, body: dict[str, Any], symbol: str = ""
) -> Receipt:
    """Record a statement in an open transaction on the owner's stream."""
    now = resources.clock.now()
    return Writer(tables, OWNER_AGENT, now, resources.author).declare(Item(kind, key, now, body, symbol), now)
