"""Reading: one transaction, one cutoff, and plain functions over both.

`open_view` is the only place that chooses between the two kinds of view: stored rows answer the present and any past moment
(`as_of`); the log answers what had been recorded by an earlier row (`head`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from memtape.engine.arguments import require_moment, require_row
from memtape.engine.present import present_of
from memtape.errors import Invalid
from memtape.store.cutoff import Cutoff

if TYPE_CHECKING:
    from memtape.core.skills import Agent
    from memtape.engine.resources import Resources
    from memtape.engine.view.view import View
    from memtape.store.tables import Tables


@contextmanager
def open_view(
    resources: Resources, tables: Tables, agent: Agent, as_of: datetime | None = None, head: int | None = None,
    owner_head: int | None = None,
) -> Iterator[View]:  # fmt: skip
    """The view of an open read transaction; without `as_of` it shows the present of the agent."""
    if as_of is not None:
        require_moment("as_of", as_of)
    for name, row in (("head", head), ("owner_head", owner_head)):
        if row is not None:
            require_row(name, row)
    if head is None and owner_head is not None:
        raise Invalid("owner_head", "is given without head", "Give both: they are in the record of what was shown")
    latest = tables.head()
    moment = as_of or present_of(agent, latest, resources.clock.now())
    cutoff = Cutoff(moment, latest.seq if head is None else head, owner_head)
    if head is not None and head > latest.seq:
        raise Invalid("head", f"the log ends at row {latest.seq}", "Give a row that is there")
    view: View
    # Both kinds are imported when they are needed, so that a command that opens no view starts without them.
    # Stored rows also say when a version ceased to be believed. A reader who names a row of the log sees that only if it had
    # become known by the moment.
    everything_known = latest.known_at is None or moment >= latest.known_at
    if head is None or (head == latest.seq and everything_known):
        from memtape.engine.view.stored import StoredView

        view = StoredView(tables, agent, cutoff, resources.columns, latest)
    else:
        from memtape.engine.view.at_head import ViewAtHead

        view = ViewAtHead(tables, agent, cutoff)
    view.is_present, view.is_reproduction = as_of is None and head is None, head is not None
    try:
        yield view
    finally:
        view.release()
