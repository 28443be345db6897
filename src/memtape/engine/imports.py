"""Imports of files and their undo. An import is one transaction, and so is its undo."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from memtape.brokers.importer import FoundOutcome
from memtape.core.codec import EPOCH, canonical_plain, digest, make_id, plain, time_text
from memtape.core.decisions.decision_outcomes import StatedOutcome
from memtape.core.events import Event
from memtape.core.fill_records import fill_discrepancy
from memtape.core.fills import FillCorrection
from memtape.core.items import Item, Position, StoredItem, names_in_fills, unpack_items
from memtape.core.observed import Bars, Decision, Observed, Tick, occurred_at
from memtape.core.values import require_storable
from memtape.engine.arguments import require_mapping, require_several
from memtape.engine.documents.citations import Citations, cited_decisions
from memtape.engine.documents.sync import refresh_pages
from memtape.engine.scope import AgentScope
from memtape.engine.view.ledger import listed_imports
from memtape.engine.write.arrivals import Arrival, check_time, checked_value, complete_value
from memtape.engine.write.batch import Batch
from memtape.engine.write.decision_names import renamed_decisions, with_owners_names
from memtape.engine.write.learn import learn_from_batch
from memtape.engine.write.log_writer import Receipt
from memtape.engine.write.positions import rederive
from memtape.engine.write.reported_trades import reported_id, revise_reported
from memtape.engine.write.verification import first_broker_record
from memtape.engine.write.writer import Writer
from memtape.errors import Invalid, Unknown
from memtape.store.cutoff import EVERYTHING
from memtape.store.database import in_batches
from memtape.store.tables import Tables

ItemName = tuple[str, str]  # kind, key
MAX_NAMED_IMPORTS = 5  # in a message


@dataclass(frozen=True, slots=True)
class ImportReceipt:
    """The result of an import: its batch, and how many values were new or known already."""

    batch: str
    new: int
    duplicates: int


@dataclass(frozen=True, slots=True)
class ImportUndo:
    """The undo of an import: which one, and how many items of each kind no longer count."""

    batch: str
    file: str  # '' if the import did not name one
    took_back: Mapping[str, int]  # by kind of item: trade, fill, decision, ...
    receipt: Receipt


class VoidedItem(NamedTuple):
    """An item that the undo of an import made void."""

    kind: str
    key: str
    position: Position
    at: datetime


class Imports:
    """The files that were imported for one agent."""

    def __init__(self, scope: AgentScope) -> None:
        self._scope = scope

    def all(self, *, as_of: datetime | None = None, head: int | None = None) -> list[tuple[StoredItem, bool]]:
        """The imports, oldest first, each with True if it was undone."""
        with self._scope.view(as_of, head) as view:
            return listed_imports(view)

    def stored_bodies(self, names: Iterable[ItemName]) -> dict[ItemName, dict[str, Any]]:
        """The bodies of the items with these kinds and keys that are stored and not undone."""
        bodies: dict[ItemName, dict[str, Any]] = {}
        with self._scope.reading() as tables:
            stored = sorted(tables.log_rows_of(names))
            for kind in sorted({kind for kind, _ in stored}):
                for keys in in_batches(key for own_kind, key in stored if own_kind == kind):
                    bodies |= {(kind, item.key): item.body for item in tables.items(kind, EVERYTHING, keys=keys)}
        return bodies

    def stored_outcomes(self, decisions: Iterable[str]) -> dict[str, dict[str, Any]]:
        """The outcomes that were stated of these decisions and not undone, by decision, each as it was stated last."""
        with self._scope.reading() as tables:
            return _stated_outcomes(tables, decisions)

    def owners_names(self, decisions: Sequence[Decision]) -> dict[str, str]:
        """The ids under which a commit records those of these decisions whose names a model has used; writes nothing."""
        if not decisions:
            return {}
        with self._scope.reading() as tables:
            return renamed_decisions(decisions, with_owners_names(tables, decisions, self._scope.resources.author))

    def preview(self, values: Iterable[Observed], outcomes: Iterable[StatedOutcome] = ()) -> tuple[int, int]:
        """Returns how many of these values are new and how many are known already; writes nothing.

        A decision that is known counts as new if an outcome of it is.
        """
        names_by_value, stated = [_item_names(value) for value in values], {outcome.decision for outcome in outcomes}
        with self._scope.reading() as tables:
            known = set(tables.log_rows_of(name for names in names_by_value for name in names))
            stated -= _stated_outcomes(tables, stated).keys()
        new = 0
        for names in names_by_value:
            if any(name not in known or (name[0] == "decision" and name[1] in stated) for name in names):
                new += 1
                stated -= {key for _, key in names}
            # A value that is repeated within the file is new only once.
            known |= set(names)
        return new, len(names_by_value) - new

    # ---- commit ----------------------------------------------------------------------------------------------------

    def commit(
        self, values: Iterable[Observed], source: Mapping[str, Any], outcomes: Sequence[FoundOutcome] = ()
    ) -> ImportReceipt:
        """Record all values of a file or none of them. Each counts as known from its own time on.

        The lines that a decision cites are quoted from today's documents, because a file contains no quotes. `outcomes` is what
        the file states about its decisions; an outcome without a time of its own counts as known from now on.
        """
        source = require_mapping("source", source)
        require_storable(source, "source")
        listed = self._with_quotes([complete_value(checked_value(value), None) for value in require_several("values", values)])
        for value in listed:
            _refuse_corrections(value)
        now = self._scope.resources.clock.now()
        for value in listed:
            check_time(value, now)
        with self._scope.writing() as tables:
            # The count makes the id of a file that is imported a second time, after an undo, another one.
            earlier = len(tables.items("import", EVERYTHING))
            batch = make_id(self._scope.agent.id, "import", digest(canonical_plain(plain(dict(source)))), earlier)
            writer = self._scope.writer(tables)
            stated_as, listed = listed, with_owners_names(tables, listed, self._scope.resources.author)
            renamed = renamed_decisions(stated_as, listed)
            outcomes = [outcome.under(renamed) for outcome in outcomes]
            arrivals = [Arrival(value, occurred_at(value) or now, batch, own_times=isinstance(value, Bars)) for value in listed]
            decided = {value.id for value in listed if isinstance(value, Decision)}
            known = {key for _, key in tables.log_rows_of(("decision", id_) for id_ in decided if id_ is not None)}
            new, duplicates = writer.many(arrivals)
            stated = _new_outcomes(tables, outcomes, batch, now)
            writer.declare_all(stated, batch)
            # An outcome that a later file adds to a known decision is new, although its decision is not.
            added = sum(item.symbol in known for item, _ in stated)
            new, duplicates = new + added, duplicates - added
            if new:
                body = {**plain(dict(source)), "new": new, "duplicates": duplicates, "recorded_at": time_text(now)}
                # The import counts as known when its last value does, so that no read shows it before its values.
                known_at = max([*(arrival.known_at for arrival in arrivals), *(moment for _, moment in stated)])
                writer.declare(Item("import", batch, known_at, body), known_at)
            return ImportReceipt(batch, new, duplicates)

    def _with_quotes(self, values: list[Observed]) -> list[Observed]:
        """Add the text of cited lines to decisions that are new.

        A decision that is stored stays as it is and counts as a duplicate, even if the cited document has changed since.
        """
        citing = {
            index: [name for name in _item_names(value) if name[0] == "decision"]
            for index, value in enumerate(values)
            if cited_decisions(value)
        }
        if not citing:
            return values
        with self._scope.reading() as tables:
            known = tables.log_rows_of(name for names in citing.values() for name in names)
        new = {index for index, names in citing.items() if any(name not in known for name in names)}
        citations = Citations(self._scope)
        return [citations.add_quotes(value) if index in new else value for index, value in enumerate(values)]

    # ---- undo ------------------------------------------------------------------------------------------------------

    def undo(self, batch: str | None = None) -> ImportUndo:
        """Undo an import: from now on its items do not count. They stay in the log. The only import needs no batch."""
        undone = self._write_undo(batch)
        refresh_pages(self._scope.resources, self._scope.agent.id)
        return undone

    def _write_undo(self, batch: str | None) -> ImportUndo:
        with self._scope.writing() as tables:
            imported = _import_to_undo(tables, batch)
            batch, file = imported.key, str(imported.body.get("file", ""))
            took_back = tables.batch_counts(batch)
            if earlier := tables.logged("undo", batch):
                again = Receipt(earlier.stream, earlier.seq, earlier.hash, (), duplicate=True)
                return ImportUndo(batch, file, took_back, again)
            now = self._scope.stated_at(tables)
            writer = self._scope.writer(tables)
            # The items become void with the log row of the undo, which is the next one.
            voided = [VoidedItem(*row) for row in tables.void_batch(batch, writer.head.seq + 1, now)]
            ticks = _take_back_ticks(tables, writer, voided)
            changes = Batch(known_at=now)
            ended = self._end_reported_trades(tables, voided, now)
            events = self._rederive_positions(tables, writer, voided, changes)
            changes.changed |= ended
            # Terms that came with the import no longer hold for trades that were reported whole.
            changes.terms_of = {item.position[0] for item in voided if item.kind == "instrument"}
            events += revise_reported(tables, self._scope.agent, changes)
            changes.followed = [item.key for item in voided if item.kind == "decision"]
            differing = [item.key for item in voided if item.kind == "fill_differs"]
            tables.drop_differing(map(fill_discrepancy, tables.items("fill_differs", EVERYTHING, keys=differing, voided=True)))
            _note_account_change(voided, changes)
            # The undone items may have been the only records of a broker: then claims of the agent count again.
            writer.verified_from = first_broker_record(tables)
            receipt = writer.declare(Item("undo", batch, now, {"batch": batch, "items": len(voided), **ticks}), now, events)
            # Learning comes last: it reads the trades that were derived above.
            learn_from_batch(tables, self._scope.agent, writer.start, writer.verified_from, changes)
            return ImportUndo(batch, file, took_back, receipt)

    def _rederive_positions(self, tables: Tables, writer: Writer, voided: Sequence[VoidedItem], changes: Batch) -> list[Event]:
        """Derive every position again that an undone item had a part in. Returns the events."""
        positions = _positions_of(tables, voided, writer.head.seq)
        rows = tables.positions({symbol for symbol, _ in positions})
        events: list[Event] = []
        for position in sorted(positions):
            # From the beginning of the position: the flat point from which a shorter derivation would start may rest on
            # an undone item.
            events += rederive(
                tables, self._scope.agent, position, rows.get(position), EPOCH, EPOCH, writer.head.first_snapshot, changes.changed
            )
        return events

    def _end_reported_trades(self, tables: Tables, voided: Iterable[VoidedItem], now: datetime) -> dict[str, datetime]:
        """End the trades that undone items had reported complete, without fills. Returns when each had closed."""
        ended: dict[str, datetime] = {}
        for item in voided:
            position = item.position
            # A closing names only its claim: the claim has the position that is part of the trade's id.
            if item.kind == "closing" and (claims := tables.items("claim", EVERYTHING, keys=[item.key], voided=True)):
                position = claims[0].symbol, claims[0].leg
            if item.kind in ("trade", "claim", "closing"):
                source = "trade" if item.kind == "trade" else "claim"
                id_ = reported_id(self._scope.agent.id, source, item.key, position)
                ended[id_] = min(item.at, ended.get(id_, item.at))
        tables.end_versions(list(ended), now)
        return ended


def _take_back_ticks(tables: Tables, writer: Writer, voided: Sequence[VoidedItem]) -> dict[str, Any]:
    """Let the head of the stream name the ticks that are left, so that the same snapshots can be imported again.

    Returns what the row of the undo says about it: rows without it, of earlier versions, left the head as it was.
    """
    if not any(item.kind == "tick" for item in voided):
        return {}
    left = tables.items("tick", EVERYTHING)
    writer.last_tick = max((item.at for item in left), default=None)
    writer.first_snapshot = min((item.at for item in left if "positions" in item.body), default=None)
    return {"ticks_left": len(left)}


def _stated_outcomes(tables: Tables, decisions: Iterable[str]) -> dict[str, dict[str, Any]]:
    items = [
        item for some in in_batches(sorted(set(decisions)))
        for item in tables.items("outcome_stated", EVERYTHING, symbols=some)
    ]  # fmt: skip
    return {item.symbol: item.body for item in sorted(items, key=lambda item: item.seq)}


def _new_outcomes(
    tables: Tables, outcomes: Sequence[FoundOutcome], batch: str, now: datetime
) -> list[tuple[Item, datetime]]:
    """The outcomes of decisions that have none yet, each with the time from which it counts as known."""
    known = set(_stated_outcomes(tables, (outcome.stated.decision for outcome in outcomes)))
    found: list[tuple[Item, datetime]] = []
    for outcome in outcomes:
        decision = outcome.stated.decision
        if decision not in known:
            known.add(decision)
            at = min(outcome.known_at or now, now)
            body = plain(replace(outcome.stated, cause=outcome.stated.stated_cause))
            found.append((Item("outcome_stated", f"{decision}#{batch}", at, body, decision), at))
    return found


def _import_to_undo(tables: Tables, batch: str | None) -> StoredItem:
    """The import of a batch; without one, the only import that was not undone."""
    imports = tables.items("import", EVERYTHING, keys=None if batch is None else [batch])
    if batch is not None:
        if not imports:
            raise Unknown("batch", "import", batch, "List them with: memtape imports list")
        return imports[0]
    undone = {item.key for item in tables.items("undo", EVERYTHING)}
    standing = [item for item in imports if item.key not in undone]
    if len(standing) == 1:
        return standing[0]
    if not standing:
        raise Invalid("batch", "there is no import to undo", "List them with: memtape imports list")
    named = ", ".join(f"{item.key} ({item.body.get('file') or 'no file'})" for item in standing[-MAX_NAMED_IMPORTS:])
    raise Invalid("batch", f"there are {len(standing)} imports", f"Name the one to undo, like one of these: {named}")


def _refuse_corrections(value: Observed) -> None:
    """Raises Invalid for a correction of a fill: an undo could not give the fill its earlier content back."""
    if isinstance(value, FillCorrection) or (isinstance(value, Tick) and value.corrections):
        raise Invalid("corrections", "a correction of a fill cannot be imported", "Record it with amend_fill or void_fill")


def _item_names(value: Observed) -> list[ItemName]:
    return [(item.kind, item.key) for item in unpack_items(value)]


def _positions_of(tables: Tables, voided: Sequence[VoidedItem], upto: int) -> set[Position]:
    """The positions whose trades may differ without these items."""
    found = {item.position for item in voided if item.kind in ("fill", "funding", "dividend")}
    # Splits and terms hold for every position of their symbol, corrections for those of their fill.
    symbols = {item.position[0] for item in voided if item.kind in ("split", "instrument")}
    found |= {position for position in tables.positions(symbols) if position[0] in symbols} if symbols else set()
    # Also of positions that are gone: what was once believed of them may change.
    found |= {position for symbol in symbols for position in tables.positions_ever(EVERYTHING, symbol)}
    # A tick may contain a snapshot, which speaks about every position: also about those that it does not list.
    if any(item.kind == "tick" for item in voided):
        found |= set(tables.positions(since=EPOCH)) | set(tables.positions_ever(EVERYTHING))
    # A fill takes its reason and its stop from the decision or order that it names.
    named = [item for item in voided if item.kind in ("decision", "order")]
    names = [f"{item.kind[0]}:{name}" for item in named for name in names_in_fills(item.key)]
    if names:
        found |= set(tables.fills_naming(names, upto=upto))
    return found


def _note_account_change(voided: Iterable[VoidedItem], changes: Batch) -> None:
    """Let affect be computed again from the first undone equity mark or cash flow on."""
    moved = [item.at for item in voided if item.kind in ("equity", "flow")]
    if moved:
        # The id "" stands for a change of the account that is no trade.
        changes.changed[""] = min(moved)
