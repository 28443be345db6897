"""Leases: which process may do a piece of scheduled work now, so that two do not do it at once. They are no record.

A lease is taken inside a transaction on its stream, so only one of two processes gets it. It expires if its holder dies.
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
        """Take a lease, or extend it. Returns False while another process holds it."""
        own = {**self._mine, "name": name}
        rows = self._session.all(f"SELECT holder, until FROM leases WHERE {MINE} AND name = :name", own)
        if rows and rows[0][0] != holder and rows[0][1] > micros(now):
            if rows[0][1] > micros(until):
                # The clock was set back since it was taken. A holder that is alive extends it; a dead one's ends as usual.
                self._session.run(
                    f"UPDATE leases SET until = :until WHERE {MINE} AND name = :name", {**own, "until": micros(until)}
                )
            return False
        self._session.run(
            "INSERT INTO leases (owner, stream, name, holder, until) VALUES (:owner, :stream, :name, :holder, :until) "
            "ON CONFLICT (owner, stream, name) DO UPDATE SET holder = :holder, until = :until",
            {**own, "holder": holder, "until": micros(until)},
        )
        return True

    def is_held(self, name: str, now: datetime) -> bool:
        """Returns True while some process holds a lease."""
        own = {**self._mine, "name": name, "now": micros(now)}
        return bool(self._session.all(f"SELECT 1 FROM leases WHERE {MINE} AND name = :name AND until > :now", own))

    def drop(self, name: str) -> None:
        """Take a lease from its holder."""
        self._session.run(f"DELETE FROM leases WHERE {MINE} AND name = :name", {**self._mine, "name": name})

    def extend(self, name: str, holder: str, until: datetime) -> bool:
        """Keep a lease longer. Returns False if the holder no longer has it."""
        own = {**self._mine, "name": name, "holder": holder}
        rows = self._session.all(f"SELECT 1 FROM leases WHERE {MINE} AND name = :name AND holder = :holder", own)
        if rows:
            self._session.run(
                f"UPDATE leases SET until = :until WHERE {MINE} AND name = :name AND holder = :holder",
                {**own, "until": micros(until)},
            )
        return bool(rows)

    def release(self, name: str, holder: str) -> None:
        """Give a lease back, if the holder still has it."""
        self._session.run(f"DELETE FROM leases WHERE {MINE} AND name = :name AND holder = :holder",
                          {**self._mine, "name": name, "holder": holder})  # fmt: skip
