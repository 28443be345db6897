"""The chain of hashes of a log, and which of its rows may be without their payload, by whose statement."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any

from memtape.core.authors import OWNER_AUTHOR, author_of_payload
from memtape.core.chats import CHAT_TEXT_KINDS
from memtape.core.codec import GENESIS, chain_hash, digest
from memtape.core.facts import FACT_TEXT_KINDS
from memtape.core.items import OWNER_STREAM
from memtape.core.value_class import dataclass
from memtape.errors import Tampered
from memtape.store.rows import LogRow

# The rows that say that others were destroyed. One that names them may have destroyed rows of some kinds only. Everything
# before it is destroyed by `erased`, which stands in the owner's stream alone. All of them are the owner's statements.
SHREDDED_KINDS: Mapping[str, frozenset[str]] = {
    "correction": frozenset(("claim", "closing", "correction", "brief", "note")),
    "fact_shredded": frozenset(FACT_TEXT_KINDS),
    "chat_deleted": frozenset(CHAT_TEXT_KINDS),
}
DESTROYING_KINDS = (*SHREDDED_KINDS, "erased")


@dataclass(frozen=True, slots=True)
class DestroyedRows:
    """The rows of a stream whose payload was destroyed: single rows of some kinds, and all rows before `before`."""

    rows: Mapping[int, frozenset[str]] = field(default_factory=dict)
    before: int = 0

    def covers(self, row: LogRow) -> bool:
        """Returns True if a row may be without its payload."""
        return row.kind in self.rows.get(row.seq, ()) or row.seq < self.before


def destroyed_in(rows: Iterable[LogRow], deleted: bool) -> DestroyedRows:
    """The rows that were destroyed according to the log of the stream itself."""
    named: dict[int, frozenset[str]] = {}
    # All rows of a deleted stream were destroyed.
    before = 2**62 if deleted else 0
    for row in rows:
        if not is_owners_row(row):
            continue
        if (kinds := SHREDDED_KINDS.get(row.kind)) is not None:
            # A row can only have destroyed rows that are earlier than itself.
            named |= {seq: kinds for seq in stated_of(row).get("shredded", ()) if seq < row.seq}
        elif row.kind == "erased" and row.stream == OWNER_STREAM:
            before = max(before, row.seq)
    return DestroyedRows(named, before)


def deleted_streams(rows: Iterable[LogRow]) -> set[str]:
    """The streams that were deleted according to the owner's log."""
    found: set[str] = set()
    for row in rows:
        if row.kind in ("agent_deleted", "erased") and is_owners_row(row):
            stated = stated_of(row)
            found |= {stated.get("agent", "")} if row.kind == "agent_deleted" else set(stated.get("streams", ()))
    return found


def is_owners_row(row: LogRow) -> bool:
    """True if the owner or the venue stated a row. What a model states destroys nothing."""
    payload = json.loads(row.payload or "null")
    return isinstance(payload, dict) and author_of_payload(payload).tier <= OWNER_AUTHOR.tier


def stated_of(row: LogRow) -> dict[str, Any]:
    """The statement of a row; empty if it has none. A forged row may have any payload: the check of the chain finds it."""
    payload = json.loads(row.payload or "{}")
    stated = payload.get("stated", {}) if isinstance(payload, dict) else {}
    return stated if isinstance(stated, dict) else {}


def checked_chain(rows: Iterable[LogRow], url: str, destroyed: DestroyedRows) -> Iterator[LogRow]:
    """Yield the rows, each checked against the one before. Raises Tampered at the first that does not follow."""
    seq, last_hash = 0, GENESIS
    for row in rows:
        if (problem := broken_link(row, seq, last_hash, destroyed)) is not None:
            raise Tampered(url=url, problem=f"log row {row.seq} of {row.stream}: {problem}")
        seq, last_hash = row.seq, row.hash
        yield row


def broken_link(row: LogRow, seq: int, last_hash: str, destroyed: DestroyedRows) -> str | None:
    """Returns why a row does not follow the row `seq` with `last_hash`; None if it does."""
    if row.seq != seq + 1:
        return f"row {seq + 1} is missing" if row.seq > seq else "stands twice"
    if row.prev_hash != last_hash:
        return "does not follow the row before it"
    if row.payload is None and not destroyed.covers(row):
        return "its payload is missing"
    if row.payload is not None and digest(row.payload) != row.payload_hash:
        return "its payload was altered"
    times = row.occurred_at, row.known_at, row.recorded_at
    if chain_hash(row.stream, row.seq, row.kind, row.key, *times, row.payload_hash, row.prev_hash) != row.hash:
        return "was altered: its hash does not match"
    return None
