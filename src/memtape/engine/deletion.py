"""Destroys the records of an agent or of an owner. The rest of the log can still be verified.

The payloads of log rows are removed, their hashes stay. `verify` accepts a row without its payload if the log says that it was
destroyed: by a correction that names the row, by the deletion of its agent, or by the erasure of its owner. Everything that was
derived from the payload is removed from every projection.
"""

from __future__ import annotations

from collections.abc import Iterable

from memtape.core.codec import time_text
from memtape.core.items import OWNER_STREAM, Item
from memtape.core.skills import OWNER_AGENT
from memtape.documents.cache import SHARED_SCOPE
from memtape.engine.resources import Resources
from memtape.engine.view.owner_stream import agent_ids, other_agents
from memtape.engine.write.writer import Writer
from memtape.errors import Invalid, Unknown
from memtape.store.cutoff import EVERYTHING
from memtape.store.rows import Head
from memtape.store.schema import CACHES, PROJECTIONS
from memtape.store.tables import Tables, streams


def destroy_agent(resources: Resources, id: str, confirm: str) -> int:
    """Destroy everything that was recorded about an agent. Returns how many log rows lost their payload."""
    with resources.writing(OWNER_STREAM) as tables:
        if not tables.items("agent", EVERYTHING, keys=[id]) or tables.items("agent_deleted", EVERYTHING, keys=[id]):
            raise Unknown("id", "agent", id, other_agents(agent_ids(tables), id))
        if confirm != id:
            problem = f"'{confirm}' is not the id of the agent" if confirm else "is missing"
            raise Invalid("confirm", problem, f"To delete the agent and all its records for good, repeat its id: confirm={id}")
        tables.session.lock(resources.owner, id)
        rows = _shred(Tables(tables.session, resources.owner, id))
        now = resources.clock.now()
        body = {"agent": id, "log_rows": rows, "at": time_text(now)}
        _owner_writer(tables, resources).declare(Item("agent_deleted", id, now, body, id), now)
    resources.database.scrub(whole=True)
    _forget_documents(resources, [id])
    return rows


def destroy_owner(resources: Resources, confirm: str) -> tuple[list[str], int]:
    """Destroy everything that an owner has. Returns the streams, and how many log rows lost their payload."""
    if confirm != resources.owner:
        problem = f"'{confirm}' is not the name of the owner" if confirm else "is missing"
        fix = f"To erase everything for good, repeat the owner's name: confirm={resources.owner}"
        raise Invalid("confirm", problem, fix)
    with resources.writing(OWNER_STREAM) as tables:
        names = streams(tables.session, resources.owner)
        rows = 0
        for name in names:
            # The transaction holds the lock of the owner's stream from its beginning.
            if name != OWNER_STREAM:
                tables.session.lock(resources.owner, name)
            rows += _shred(Tables(tables.session, resources.owner, name))
        now = resources.clock.now()
        body = {"streams": names, "log_rows": rows, "at": time_text(now)}
        _owner_writer(tables, resources).declare(Item("erased", resources.owner, now, body), now)
    resources.database.scrub(whole=True)
    _forget_documents(resources, names)
    return names, rows


def _forget_documents(resources: Resources, streams: Iterable[str]) -> None:
    """Drop what the index holds of some agents, or of all shared folders; the files stay."""
    if resources.has_documents:
        for stream in streams:
            resources.documents.forget(resources.owner, SHARED_SCOPE if stream == OWNER_STREAM else stream)


def _owner_writer(tables: Tables, resources: Resources) -> Writer:
    return Writer(tables, OWNER_AGENT, resources.clock.now(), resources.author)


def _shred(tables: Tables) -> int:
    """Empty a stream. Its log keeps only hashes, its head only the number and the hash of the last row."""
    rows = tables.shred_log()
    for table in (*PROJECTIONS, *CACHES, "bars"):
        tables.clear(table)
    head = tables.head()
    tables.set_head(Head(head.seq, head.hash, None, None, None))
    return rows
