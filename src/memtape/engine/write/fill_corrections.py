"""What becomes of fills that are delivered again, corrected or taken back: the reads and writes around `core/fill_records`."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from datetime import datetime

from memtape.core.fill_records import (
    awaited_fill,
    contents_of_fill,
    corrected_fill,
    correction_fields,
    fills_of,
    placed_correction,
)
from memtape.core.fills import Fill, FillCorrection
from memtape.core.items import Item, StoredItem, read_terms, unpack_items
from memtape.core.ledger.position_events import TermsEvent
from memtape.core.observed import Observed, Tick
from memtape.core.values import read
from memtape.errors import FieldProblem, Invalid, Unknown
from memtape.store.cutoff import EVERYTHING
from memtape.store.rows import item_row
from memtape.store.tables import Tables

NEWEST = 2**62  # the place of a statement that is not recorded yet, after all others
ItemName = tuple[str, str]  # kind, key


def names_about_fills(fills: Iterable[Fill]) -> list[ItemName]:
    """The items that say of a fill that it is void, or that it was corrected before it came."""
    return [(kind, fill.id) for fill in fills for kind in ("void_fill", "awaited_fill")]


def is_void(item: Item, known: Container[ItemName]) -> bool:
    """True for a fill that was taken back: its id stays void, also if it is delivered again."""
    return item.kind == "fill" and ("void_fill", item.key) in known


def stored_contents(tables: Tables, ids: Sequence[str]) -> dict[str, list[Fill]]:
    """Every content that some fills have had, the first one first."""
    stored: dict[str, list[StoredItem]] = {id_: [] for id_ in ids}
    corrections: dict[str, list[StoredItem]] = {id_: [] for id_ in ids}
    for item in tables.fills_with_corrections(ids):
        if item.kind == "fill":
            stored[item.key].append(item)
        else:
            corrections[item.body["fill_id"]].append(item)
    return {
        id_: contents_of_fill([each.body for each in stored[id_]], [each.body for each in corrections[id_]]) for id_ in ids
    }


def refuse_inverse_prices(tables: Tables, value: Observed, now: datetime) -> None:
    """Raises Invalid if a fill of an inverse contract is priced at zero or below, where the contract has no value."""
    field = "fills.{}.px" if isinstance(value, Tick) else "px"
    fills = [(field.format(n), fill) for n, fill in enumerate(fills_of(value)) if fill.px <= 0]
    if not fills:
        # As with nearly every value.
        return
    own = [item for item in unpack_items(value) if item.kind == "instrument"]
    _check_inverse_prices(tables, fills, [TermsEvent(item.body, now, NEWEST + n) for n, item in enumerate(own)])


def _check_inverse_prices(tables: Tables, fills: Sequence[tuple[str, Fill]], stated: Sequence[TermsEvent]) -> None:
    """Raises Invalid if one of these fills, each with the name of its price, has no value by its instrument's terms."""
    wrong = [(field, fill) for field, fill in fills if fill.px <= 0]
    if not wrong:
        return
    stored = tables.statements({fill.symbol for _, fill in wrong}, EVERYTHING)
    stated = [*(read_terms(item) for item in stored), *stated]
    problems: list[FieldProblem] = []
    for field, fill in wrong:
        counting = [e for e in stated if e.instrument.symbol == fill.symbol and e.order[0] <= fill.t and e.voided_at is None]
        latest = max(counting, key=lambda event: event.order, default=None)
        if latest is not None and latest.instrument.payoff == "inverse":
            problem = f"{fill.px} of {fill.symbol} is not above 0, and its payoff is inverse"
            problems.append(FieldProblem(field, problem, "Give a price above 0, or state other terms of the instrument"))
    if problems:
        raise Invalid(problems[0].field, problems[0].problem, problems[0].fix, *problems[1:])


def fill_after_corrections(tables: Tables, item: Item) -> Item:
    """A fill that was corrected before it came, as corrected."""
    corrections = [each for each in tables.fills_with_corrections([item.key]) if each.kind != "fill"]
    [corrected] = unpack_items(awaited_fill(item.body, [correction_fields(each.body) for each in corrections]))
    return corrected


def write_correction(
    tables: Tables, item: Item, seq: int, known_at: datetime, skill_version: int, batch: str | None, *, may_wait: bool
) -> tuple[Item, list[Fill]]:
    """Correct a fill, or take it back: its present content ends with log row `seq`, and the corrected one begins.

    Returns the correction with what it concerns, and the contents of the fill before and after it. With `may_wait`, a correction
    of a fill that has not come yet waits for it; else Unknown is raised.
    """
    correction: FillCorrection = item.body
    known = tables.fills_with_corrections([correction.fill_id])
    stored = [each for each in known if each.kind == "fill"]
    earlier = [each.body for each in known if each.kind != "fill"]
    contents = contents_of_fill([each.body for each in stored], earlier)
    if not contents and not may_wait:
        raise Unknown("fill_id", "fill of this agent", correction.fill_id, "Report the fill first, then its correction")
    current = next((each for each in stored if each.voided_at is None), None)
    before = read(Fill, current.body) if current else None
    corrections = [*(read(FillCorrection, correction_fields(body)) for body in earlier), correction]
    after = corrected_fill(contents[0], corrections) if contents and current else None
    if after is not None and not may_wait:
        _check_inverse_prices(tables, [("content.px", after)], ())
    item = placed_correction(item, before, after)
    # Nobody knows a correction before the content that it corrects.
    known_at = max(known_at, current.known_at) if current else known_at
    who = tables.owner, tables.stream
    rows = [item_row(*who, item, seq, known_at, skill_version, batch)]
    if not contents and correction.kind == "amend_fill":
        waiting = Item("awaited_fill", correction.fill_id, correction.t, None)
        if not tables.log_rows_of([(waiting.kind, waiting.key)]):
            rows.append(item_row(*who, waiting, seq, known_at, 1, None))
    if current is not None:
        # A content that came with this very value was never believed: the correction takes its row.
        tables.void_fill(correction.fill_id, seq, known_at, replaced=after is not None and current.seq == seq)
        if after is not None:
            [new] = unpack_items(after)
            # It belongs to the import of the fill, so that an undo takes it back too.
            rows.append(item_row(*who, new, seq, known_at, current.skill_version, current.batch))
    tables.put_items(rows)
    return item, [fill for fill in (before, after) if fill is not None]
