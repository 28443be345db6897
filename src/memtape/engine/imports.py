"""Files taken in whole, and taken back: an import is one transaction, and so is its undoing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memtape.core.codec import EPOCH, canonical_plain, digest, make_id, plain, time_text
from memtape.core.events import Event
from memtape.core.items import Item, StoredItem, unpack_items
from memtape.core.memory.shadows import is_followed
from memtape.core.observed import Bars, Decision, Observed, occurred_at
from memtape.core.values import read
from memtape.engine.documents.citations import Citations, cited_decisions
from memtape.engine.documents.sync import refresh_pages
from memtape.engine.scope import AgentScope
from memtape.engine.view.ledger import listed_imports
from memtape.engine.write.arrivals import checked_value, complete_value
from memtape.engine.write.batch import Batch
from memtape.engine.write.learn import learn_from_batch
from memtape.engine.write.positions import rederive, reported_id
from memtape.engine.write.verification import first_broker_record
from memtape.engine.write.writer import Arrival, Receipt, check_time
from memtape.errors import Unknown
from memtape.store.cutoff import EVERYTHING
from memtape.store.memories import MemoryTables
from memtape.store.tables import Tables

Gone = tuple[str, str, tuple[str, str], datetime]  # kind, key, position and time of an item that was taken back


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import came to."""

    batch: str
    new: int
    duplicates: int


class Imports:
    """The files that were imported for one agent."""

    def __init__(self, scope: AgentScope) -> None:
        self._scope = scope

    def all(self, *, as_of: datetime | None = None, head: int | None = None) -> list[tuple[StoredItem, bool]]:
        """The imports, oldest first, and whether each was undone."""
        with self._scope.view(as_of, head) as view:
            return listed_imports(view)

    def commit(self, seen: Iterable[Observed], source: Mapping[str, Any]) -> Imported:
        """Take in a file's worth of observations, all or none; each counts as known from its own time on.

        Lines that a decision cites are quoted from the documents of today: a file brings no quotes of its own.
        """
        listed = self._quoting([complete_value(checked_value(value), None) for value in seen])
        now = self._scope.resources.clock.now()
        for value in listed:
            check_time(value, now)
        with self._scope.writing() as tables:
            earlier = len(tables.items("import", EVERYTHING))
            batch = make_id(self._scope.agent.id, "import", digest(canonical_plain(plain(dict(source)))), earlier)
            writer = self._scope.writer(tables)
            entries = [Arrival(value, occurred_at(value) or now, batch, own_times=isinstance(value, Bars)) for value in listed]
            new, known = writer.many(entries)
            if new:
                body = {**plain(dict(source)), "new": new, "duplicates": known, "recorded_at": time_text(now)}
                known_at = max(entry.known_at for entry in entries)  # told after the fact, like all that it brought
                writer.declare(Item("import", batch, known_at, body), known_at)
            return Imported(batch, new, known)

    def _quoting(self, listed: list[Observed]) -> list[Observed]:
        """Decisions with the words of what they cite; those that are here already stay duplicates, whatever stands there now."""
        made = {at: [(item.kind, item.key) for item in unpack_items(value) if item.kind == "decision"]
                for at, value in enumerate(listed) if cited_decisions(value)}  # fmt: skip
        if not made:
            return listed
        citations = Citations(self._scope)
        with self._scope.reading() as tables:
            known = tables.log_rows_of(name for names in made.values() for name in names)
        fresh = {at for at, names in made.items() if any(name not in known for name in names)}
        return [citations.add_quotes(value) if at in fresh else value for at, value in enumerate(listed)]

    def preview(self, seen: Iterable[Observed]) -> tuple[int, int]:
        """How many of these would be new, and how many are known already; writes nothing."""
        names = [[(item.kind, item.key) for item in unpack_items(value)] for value in seen]
        with self._scope.reading() as tables:
            known = tables.log_rows_of(name for several in names for name in several)
        taken: set[tuple[str, str]] = set(known)
        new = 0
        for several in names:
            if any(name not in taken for name in several):
                new += 1
            taken |= set(several)
        return new, len(names) - new

    def undo(self, batch: str) -> Receipt:
        """Take an import back: what it brought no longer counts, from now on; the log keeps it."""
        receipt = self._undone(batch)
        refresh_pages(self._scope.resources, self._scope.agent.id)
        return receipt

    def _undone(self, batch: str) -> Receipt:
        with self._scope.writing() as tables:
            now = self._scope.stated_at(tables)
            if not tables.items("import", EVERYTHING, keys=[batch]):
                raise Unknown("batch", "import", batch, "List them with: memtape imports list")
            if done := tables.logged("undo", batch):
                return Receipt(done.stream, done.seq, done.hash, (), duplicate=True)
            writer = self._scope.writer(tables)
            gone = tables.void_batch(batch, writer.head.seq + 1, now)
            whole = self._reported(tables, gone)
            tables.end_versions(list(whole), now)
            touched: dict[tuple[str, str], datetime] = {}
            everywhere = list(tables.positions(since=EPOCH)) if any(kind == "tick" for kind, *_ in gone) else []
            for kind, _, position, at in gone:
                for each in [position] if kind in ("fill", "funding") else everywhere if kind == "tick" else []:
                    touched[each] = min(touched.get(each, at), at)
            names = [f"{kind[0]}:{key}" for kind, key, _, _ in gone if kind in ("decision", "order")]
            for position, at in tables.fills_naming(names, upto=writer.head.seq).items() if names else ():
                touched[position] = min(touched.get(position, at), at)
            held = tables.positions({symbol for symbol, _ in touched})
            concluded: list[Event] = []
            fresh = Batch(known_at=now)
            for position in sorted(touched):
                since, first = EPOCH, writer.head.first_snapshot  # from its beginning: what it stood on may be gone
                concluded += rederive(tables, self._scope.agent, position, held.get(position), since, since, first, fresh.changed)
            fresh.changed |= whole
            fresh.shadows = self._unfollow(tables, [key for kind, key, *_ in gone if kind == "decision"])
            moved = min((at for kind, _, _, at in gone if kind in ("equity", "flow")), default=None)
            if moved is not None:
                fresh.changed[""] = moved  # no trade, but the account felt it
            writer.verified_from = first_broker_record(tables)
            receipt = writer.declare(Item("undo", batch, now, {"batch": batch, "items": len(gone)}), now, concluded)
            learn_from_batch(tables, self._scope.agent, writer.start, writer.verified_from, fresh)
            return receipt

    def _unfollow(self, tables: Tables, decisions: Sequence[str]) -> list[Decision]:
        """Follow decisions that were taken back no longer; those whose shadows end with that."""
        kept = tables.items("decision", EVERYTHING, keys=decisions, gone=True) if decisions else []
        found = [decision for item in kept if is_followed(decision := read(Decision, item.body))]
        for decision in found:
            MemoryTables(tables).drop_shadow(decision.id or "")
        return found

    def _reported(self, tables: Tables, gone: Iterable[Gone]) -> dict[str, datetime | None]:
        """The trades reported whole that items taken back had told of, and when each ended."""
        found: dict[str, datetime | None] = {}
        for kind, key, position, at in gone:
            if kind == "closing":
                claims = tables.items("claim", EVERYTHING, keys=[key], gone=True)
                position = (claims[0].symbol, claims[0].leg) if claims else position
            if kind in ("trade", "claim", "closing"):
                id_ = reported_id(self._scope.agent.id, "trade" if kind == "trade" else "claim", key, position)
                found[id_] = min(at, found.get(id_) or at)
        return found
