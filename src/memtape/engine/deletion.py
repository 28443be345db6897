"""Destroying what was recorded, and still proving the rest: payloads go, hashes stay.

A log row without its payload is whole as long as something in the log says that it was destroyed: a correction that names its
row, the deletion of its agent, the erasure of its owner. What was derived from it is gone from every projection.
"""

from __future__ import annotations

from memtape.core.codec import time_text
from memtape.core.items import OWNER_STREAM, Item
from memtape.core.skills import OWNER_AGENT
from memtape.engine.resources import Resources
from memtape.engine.write.writer import Writer
from memtape.errors import Invalid, Unknown
from memtape.store.cutoff import EVERYTHING
from memtape.store.rows import Head
from memtape.store.schema import CACHES, PROJECTIONS
from memtape.store.tables import Tables, streams


def destroy_agent(resources: Resources, id: str, confirm: str) -> int:
    """Destroy all that was recorded of an agent; how many log rows."""
    if confirm != id:
        raise Invalid("confirm", "is not the agent's id", f"Repeat it to confirm: {id}")
    with resources.writing(OWNER_STREAM) as tables:
        if not tables.items("agent", EVERYTHING, keys=[id]) or tables.items("agent_deleted", EVERYTHING, keys=[id]):
            raise Unknown("id", "agent", id, "List them with list_agents")
        tables.session.lock(resources.owner, id)
        rows = _shred(Tables(tables.session, resources.owner, id))
        now = resources.clock.now()
        body = {"agent": id, "log_rows": rows, "at": time_text(now)}
        _owner(tables, resources).declare(Item("agent_deleted", id, now, body, id), now)
    resources.database.scrub(whole=True)
    return rows


def destroy_owner(resources: Resources, confirm: str) -> tuple[list[str], int]:
    """Destroy everything of an owner; which streams, and how many log rows."""
    if confirm != resources.owner:
        raise Invalid("confirm", "is not the owner's name", f"Repeat it to confirm: {resources.owner}")
    with resources.writing(OWNER_STREAM) as tables:
        names = streams(tables.session, resources.owner)
        rows = 0
        for name in names:
            if name != OWNER_STREAM:
                tables.session.lock(resources.owner, name)
            rows += _shred(Tables(tables.session, resources.owner, name))
        now = resources.clock.now()
        body = {"streams": names, "log_rows": rows, "at": time_text(now)}
        _owner(tables, resources).declare(Item("erased", resources.owner, now, body), now)
    resources.database.scrub(whole=True)
    return names, rows


def _owner(tables: Tables, resources: Resources) -> Writer:
    return Writer(tables, OWNER_AGENT, resources.clock.now())


def _shred(tables: Tables) -> int:
    """Empty a stream: its log keeps hashes only, its head only its place."""
    rows = tables.shred_log()
    for table in (*PROJECTIONS, *CACHES, "bars"):
        tables.clear(table)
    head = tables.head()
    tables.set_head(Head(head.seq, head.hash, None, None, None))
    return rows
