"""Brings a store to the rules of this version: its trades and memories are computed again from the log, after a backup.

Receipts and the briefs that were shown stay as they are in the log; what is derived from it follows the new rules, also for
answers about the past.
"""

from __future__ import annotations

from memtape.core.ids import OwnerId
from memtape.core.ledger.terms import RULES_VERSION
from memtape.engine.memory import Memory
from memtape.engine.proof.audit import rebuild_store
from memtape.errors import Tampered
from memtape.store.database import Database


def upgrade_rules(database: Database) -> list[OwnerId]:
    """Rebuild every owner whose projections were made by older rules. Returns these owners."""
    outdated = database.owners_with_rules_before(RULES_VERSION)
    if outdated:
        database.copy_before(f"rules-{RULES_VERSION}")
    rebuilt: list[OwnerId] = []
    for owner in outdated:
        try:
            # Not closed: it would close the database.
            rebuild_store(Memory(database, owner))
        except Tampered:
            # The log was altered. The store opens as it is, so that `memtape verify` can say where.
            continue
        rebuilt.append(owner)
    return rebuilt
