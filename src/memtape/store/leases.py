"""Leases: who may do a piece of scheduled work now. They keep two processes from doing it twice and prove nothing.

A lease is taken inside a transaction on its stream, so of two that ask only one gets it; it runs out by itself when its holder
dies.
"""

from __future__ import annotations

from datetime import datetime

from memtape.core.codec import micros
from memtape.store.cutoff import MINE
from memtape.store.tables import Tables


class Leases:
    """The leases of one stream, in one transaction."""

    def __init__(self, tables: Tables) -> None:
        self._session = tables.session
        self._mine = {"owner": tables.owner, "stream": tables.stream}

    def take(self, name: str, holder: str, now: datetime, until: datetime) -> bool:
        """Take a lease, or extend one's own; False while another holds it."""
        own = {**self._mine, "name": name}
        rows = self._session.all(f"SELECT holder, until FROM leases WHERE {MINE} AND name = :name", own)
        if rows and rows[0][0] != holder and rows[0][1] > micros(now):
            return False
        self._session.run(
            "INSERT INTO leases (owner, stream, name, holder, until) VALUES (:owner, :stream, :name, :holder, :until) "
            "ON CONFLICT (owner, stream, name) DO UPDATE SET holder = :holder, until = :until",
            {**own, "holder": holder, "until": micros(until)},
        )
        return True

    def release(self, name: str, holder: str) -> None:
        """Give a lease back, if it is still one's own."""
        self._session.run(f"DELETE FROM leases WHERE {MINE} AND name = :name AND holder = :holder",
                          {**self._mine, "name": name, "holder": holder})  # fmt: skip
