"""What is corrected, forgotten or destroyed of a memory; everything derived from it follows in the same transaction."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from memtape.core.authors import MODEL_AUTHOR
from memtape.core.events import MemoryCorrected, MemoryForgotten, MemoryShredded
from memtape.core.ids import MemoryId
from memtape.core.items import Item
from memtape.core.memory.shadows import shadow_id
from memtape.engine.write.batch import Batch
from memtape.engine.write.learn import learn_from_batch
from memtape.engine.write.log_writer import Receipt
from memtape.engine.write.writer import Writer
from memtape.errors import Conflict, Unknown
from memtape.store.cutoff import EVERYTHING
from memtape.store.memories import MemoryTables
from memtape.store.tables import Tables


def correct_episode(
    writer: Writer, id: str, changes: dict[str, Any], at: datetime, reason: str, *, forget: bool = False
) -> Receipt:
    """Correct an episode, or forget it, from a moment on."""
    tables, agent = writer.tables, writer.agent
    episode = next((e for e in MemoryTables(tables).episodes([id]) if e.known_to is None), None)
    if episode is None:
        raise Unknown("memory_id", "episode that counts now", id, "Find it with recall_memories or get_trades")
    if not episode.claimed and not {"pnl_r", "pnl_usd"}.isdisjoint(changes):
        fix = "Correct it at its source: undo the import, or send the missing fill"
        raise Conflict("changes", "the outcome of this trade is from the venue or your records", fix)
    number = len(tables.items("correction", EVERYTHING, symbol=id)) + 1
    event_type = MemoryForgotten if forget else MemoryCorrected
    events = [event_type(MemoryId(id), tuple(sorted(changes)))]
    body = {"memory": id, "changes": changes, "forget": forget, "reason": reason}
    if writer.author.tier >= MODEL_AUTHOR.tier:
        body["tier"] = writer.author.tier
    receipt = writer.declare(Item("correction", f"{id}#{number}", at, body, id), at, events)
    batch = Batch(changed={id: episode.exit_at} if episode.kind == "trade" else {})
    if episode.kind == "shadow":
        batch.followed = [decision for decision in MemoryTables(tables).shadows() if shadow_id(agent.id, decision) == id]
    learn_from_batch(tables, agent, writer.start, writer.verified_from, batch)
    return receipt


def shred_claim(writer: Writer, id: str, at: datetime, reason: str) -> Receipt:
    """Destroy a trade that the agent itself reported: its log rows lose their payloads, and nothing derived from it stays."""
    tables, agent, memory_tables = writer.tables, writer.agent, MemoryTables(writer.tables)
    versions = memory_tables.versions(ids=[id])
    if not versions:
        raise Unknown("memory_id", "trade", id, "Find it with recall_memories or get_trades")
    trade = versions[0].trade
    if trade.quality != "claimed":
        raise Conflict("shred", "this trade is from the venue or your records", "Forget it without shred, or delete the agent")
    rows = tables.drop_items(("claim", "closing"), trade.leg)
    for item in tables.items("correction", EVERYTHING, symbol=id):
        rows += tables.drop_items(("correction",), item.key)
    rows += _drop_texts_about(tables, id)
    tables.shred_log(rows)
    tables.drop_trade(id)
    body = {"memory": id, "changes": {}, "forget": True, "reason": reason, "shredded": rows}
    events = [MemoryShredded(MemoryId(id), len(rows))]
    receipt = writer.declare(Item("correction", f"{id}#shredded", at, body, id), at, events)
    memory_tables.drop_episodes([id])
    memory_tables.note_changes([id])
    # Everything that could have known of the trade is learned again: from its entry on, and from its exit for the affect state.
    batch = Batch(changed={"": trade.exit_at}, known_at=trade.entry_at)
    learn_from_batch(tables, agent, writer.start, writer.verified_from, batch)
    return receipt


def _drop_texts_about(tables: Tables, id: str) -> list[int]:
    """Remove the texts that repeat a destroyed trade: briefs that showed it, reflections in which a model worded it."""
    rows: list[int] = []
    for item in tables.items("brief", EVERYTHING):
        if id in item.body["cited"]:
            rows += tables.drop_items(("brief",), item.key)
    for item in tables.items("note", EVERYTHING):
        trades = {trade for lesson in item.body.get("lessons", ()) for trade in lesson.get("trades", ())}
        if item.body["model_used"] != "stats" and id in trades:
            rows += tables.drop_items(("note",), item.key)
    return rows
