"""Destroying what was recorded, and still proving the rest: payloads go, hashes stay.

A log row without its payload is whole as long as something in the log says that it was destroyed: a correction that names its
row, the deletion of its agent, the erasure of its owner. What was derived from it is gone from every projection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memtape.core.codec import time_text
from memtape.core.items import OWNER_STREAM, Item
from memtape.core.skills import OWNER_AGENT
from memtape.engine.write.writer import Writer
from memtape.errors import Conflict, Invalid, Unknown
from memtape.store.cutoff import EVERYTHING
from memtape.store.rows import Head
from memtape.store.schema import CACHES, PROJECTIONS
from memtape.store.tables import Tables, streams

if TYPE_CHECKING:
    from memtape.engine.memory import Memory


def destroy_agent(memory: Memory, id: str, confirm: str) -> int:
    """Destroy all that was recorded of an agent; how many log rows."""
    if confirm != id:
        raise Invalid("confirm", "is not the agent's id", f"Repeat it to confirm: {id}")
    with memory.writing(OWNER_STREAM) as tables:
        if not tables.items("agent", EVERYTHING, keys=[id]) or tables.items("agent_deleted", EVERYTHING, keys=[id]):
            raise Unknown("id", "agent", id, "List them with list_agents")
        tables.session.lock(memory.owner, id)
        rows = _shred(Tables(tables.session, memory.owner, id))
        now = memory.clock.now()
        body = {"agent": id, "log_rows": rows, "at": time_text(now)}
        _owner(tables, memory).declare(Item("agent_deleted", id, now, body, id), now)
    memory.database.scrub(whole=True)
    return rows


def destroy_owner(memory: Memory, confirm: str) -> tuple[list[str], int]:
    """Destroy everything of an owner; which streams, and how many log rows."""
    if confirm != memory.owner:
        raise Invalid("confirm", "is not the owner's name", f"Repeat it to confirm: {memory.owner}")
    with memory.writing(OWNER_STREAM) as tables:
        names = streams(tables.session, memory.owner)
        rows = 0
        for name in names:
            if name != OWNER_STREAM:
                tables.session.lock(memory.owner, name)
            rows += _shred(Tables(tables.session, memory.owner, name))
        now = memory.clock.now()
        body = {"streams": names, "log_rows": rows, "at": time_text(now)}
        _owner(tables, memory).declare(Item("erased", memory.owner, now, body), now)
    memory.database.scrub(whole=True)
    return names, rows


def refuse_deleted(owner: Tables, stream: str) -> None:
    """An owner that was erased writes no more, nor does an agent that was deleted."""
    for kind in owner.stated(("erased", "agent_deleted"), (owner.owner, stream)):
        if kind == "erased":
            raise Conflict("owner", "everything of this owner was erased", "Use another owner, or another store")
        raise Conflict("agent", f"the agent '{stream}' was deleted", "Use another agent")


def _owner(tables: Tables, memory: Memory) -> Writer:
    return Writer(tables, OWNER_AGENT, memory.clock.now())


def _shred(tables: Tables) -> int:
    """Empty a stream: its log keeps hashes only, its head only its place."""
    rows = tables.shred_log()
    for table in (*PROJECTIONS, *CACHES, "bars"):
        tables.clear(table)
    head = tables.head()
    tables.set_head(Head(head.seq, head.hash, None, None, None))
    return rows
