"""What becomes of a fill after its first delivery: another content under the same id, corrections, its end.

Pure functions that the writer and the replay of the log share, so that both come to the same items.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from datetime import datetime
from typing import Any

from memtape.core.codec import canonical, make_id, plain, time_text
from memtape.core.events import Discrepancy
from memtape.core.fills import Fill, FillCorrection
from memtape.core.items import Item, StoredItem
from memtape.core.observed import Observed, Tick
from memtape.core.values import read
from memtape.errors import FieldProblem, Invalid

# What only the agent knows of a fill. A venue that delivers it again does not repeat these, and that is no difference.
_AGENTS_OWN = ("decision", "order_id", "group")
# What one delivery of a fill may state and another leave out.
_OPTIONAL = ("closed_pnl",)


def fills_of(value: Observed) -> Sequence[Fill]:
    """The fills that a value brings, repeated ones included."""
    return value.fills if isinstance(value, Tick) else (value,) if isinstance(value, Fill) else ()


def amended_fields(value: Observed) -> list[tuple[str, Fill]]:
    """The new contents that the corrections of a value state, each with the name of its field.

    What a correction leaves out is filled in with any value: the fill that it corrects may not be known yet. Raises Invalid,
    which lists every wrong field.
    """
    if isinstance(value, Tick):
        named = [(f"corrections.{n}.content", correction) for n, correction in enumerate(value.corrections or ())]
    else:
        named = [("content", value)] if isinstance(value, FillCorrection) else []
    found: list[tuple[str, Fill]] = []
    problems: list[FieldProblem] = []
    for field, correction in named:
        left_out = {"id": correction.fill_id, "t": correction.t, "symbol": "X", "side": "buy", "qty": 1, "px": 1}
        try:
            found.append((field, read(Fill, left_out | (correction.content or {}), field)))
        except Invalid as wrong:
            problems += wrong.errors
    if problems:
        raise Invalid(problems[0].field, problems[0].problem, problems[0].fix, *problems[1:])
    return found


def differing_deliveries(value: Observed, versions: dict[str, list[Fill]], known_at: datetime) -> list[Item]:
    """Items that name the fills of a value whose id is known with other content.

    `versions` are the contents of each fill so far, the first one first. Of a fill that is new with this value, the first
    delivery counts.
    """
    found: list[Item] = []
    fills = fills_of(value)
    # Only of its own fills: an import asks for each of its values, with the contents of all fills of the file.
    seen = {fill.id: list(versions.get(fill.id, ())) for fill in fills}
    for fill in fills:
        contents = seen[fill.id]
        if not contents:
            contents.append(fill)
        elif not any(_is_same(fill, content) for content in contents):
            first = contents[0]
            at = value.t if isinstance(value, Tick) else known_at
            by = time_text(at) if isinstance(value, Tick) else make_id(canonical(fill))
            body = {"fill_id": fill.id, "fields": _differing_fields(first, fill), "content": plain(fill)}
            found.append(Item("fill_differs", f"{fill.id}@{by}", at, body, first.symbol, first.leg))
    return list({item.key: item for item in reversed(found)}.values())[::-1]


def fill_discrepancy(item: Item | StoredItem) -> Discrepancy:
    """The discrepancy that such an item is."""
    fields_ = tuple(item.body["fields"])
    return Discrepancy(item.symbol, item.leg, item.at, "fill_differs", fill_id=item.body["fill_id"], fields=fields_)


def correction_fields(body: dict[str, Any]) -> dict[str, Any]:
    """What was stated in the stored body of a correction, without what it concerns."""
    return {name: value for name, value in body.items() if name not in ("positions", "since", "was")}


def _differing_fields(first: Fill, other: Fill) -> list[str]:
    # Who delivers a fill is no part of its content: the owner and the venue may report the same one.
    names = [field.name for field in fields(Fill) if field.name != "venue"]
    return [
        name for name in names
        if getattr(first, name) != getattr(other, name) and not (name in _AGENTS_OWN and getattr(other, name) is None)
        and not (name in _OPTIONAL and None in (getattr(first, name), getattr(other, name)))
    ]  # fmt: skip


def _is_same(fill: Fill, content: Fill) -> bool:
    return not _differing_fields(content, fill)


def corrected_fill(first: Fill, corrections: Iterable[FillCorrection]) -> Fill | None:
    """A fill after its corrections, in the order of their times; None if it was voided: it stays void."""
    ordered = sorted(corrections, key=lambda correction: correction.t)
    if any(correction.kind == "void_fill" for correction in ordered):
        return None
    content = plain(first)
    for correction in ordered:
        content |= correction.content or {}
    return read(Fill, content, "content")


def awaited_fill(first: Fill, corrections: Iterable[dict[str, Any]]) -> Fill:
    """A fill that comes after its corrections, as corrected."""
    fill = corrected_fill(first, [read(FillCorrection, each) for each in corrections])
    assert fill is not None, "a fill that was voided before it came is not recorded"
    return fill


def placed_correction(item: Item, before: Fill | None, after: Fill | None) -> Item:
    """The item of a correction with what it concerns: from when, and which positions if the quantity held is another one.

    `before` is the fill until now (None: never delivered, or void already), `after` the fill from now on (None: void). Snapshots
    between the two showed the uncorrected account.
    """
    body = plain(item.body)
    if before is None:
        return replace(item, body=body)
    known = [fill for fill in (before, after) if fill is not None]
    body["was"], since = plain(before), min(fill.t for fill in known)
    names = ("qty", "side", "symbol", "leg", "t")
    if after is None or any(getattr(before, name) != getattr(after, name) for name in names):
        positions = sorted({(fill.symbol, fill.leg) for fill in known})
        body |= {"positions": [list(position) for position in positions], "since": time_text(since)}
    return replace(item, at=since, body=body)


def contents_of_fill(stored: Iterable[Any], corrections: Iterable[Any]) -> list[Fill]:
    """Every content that a fill has had, the first one first: from its stored bodies and those of its corrections, in order."""
    bodies = [body["was"] for body in corrections if "was" in body]
    contents = [read(Fill, body) for body in [*bodies, *stored]]
    return [content for n, content in enumerate(contents) if content not in contents[:n]]
