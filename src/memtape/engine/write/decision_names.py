"""Decisions of the owner whose names a model has used first.

Fills take their stop and their strategy from the decision that they name. A model may have recorded a decision under the id or
for the order that the owner's desk then uses, with a stop far away, so that a loss would look small in R. What the account
reports is never refused for that: the owner's decision is recorded under its id with `@owner` at the end, and fills that name the
id or one of its orders take what it says (`core/items.py`). A model cannot use such a name.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from memtape.core.authors import MODEL_AUTHOR, LogAuthor, author_of_payload
from memtape.core.codec import plain
from memtape.core.ids import DecisionId
from memtape.core.items import OWNERS_MARK, decision_items
from memtape.core.observed import Decision, Observed, Tick
from memtape.core.values import MAX_KEY_CHARS, read
from memtape.errors import Invalid
from memtape.store.cutoff import EVERYTHING
from memtape.store.tables import Tables

LONGEST_RENAMED = MAX_KEY_CHARS - len(OWNERS_MARK)  # characters of an id to which the mark can be added
# What may differ between two records of one decision: when and in which run it was recorded, and under which names.
_NAMES_AND_TIMES = frozenset(("id", "t", "run", "order_ids"))


def with_owners_names(tables: Tables, values: Sequence[Observed], author: LogAuthor) -> list[Observed]:
    """Returns the values, with decisions renamed whose names a model has used for something else.

    Raises `Invalid` if a model uses a name that is made here.
    """
    if author.tier >= MODEL_AUTHOR.tier:
        return [_without_orders_of_owner(tables, value) if isinstance(value, Decision) else value for value in values]
    decided = [decision for value in values for decision in _decisions_of(value)]
    if not decided:
        return list(values)
    names = {(item.kind, item.key) for decision in decided for item in decision_items(decision, None)}
    known = tables.log_rows_of(sorted(names))
    return [_renamed(tables, value, known) for value in values] if known else list(values)


def renamed_decisions(stated: Sequence[Observed], named: Sequence[Observed]) -> dict[str, str]:
    """The decisions that were renamed: the id that was stated, and the one under which each is recorded."""
    ids = [[decision.id or "" for value in values for decision in _decisions_of(value)] for values in (stated, named)]
    return {before: after for before, after in zip(*ids, strict=True) if before != after}


def _without_orders_of_owner(tables: Tables, decision: Decision) -> Decision:
    """A decision of a model. If the owner recorded it, the model adds no order to it."""
    _refuse_names_of_owner(decision)
    seq = tables.log_rows_of([("decision", decision.id)]).get(("decision", decision.id)) if decision.id is not None else None
    return decision if seq is None or _is_models(tables, seq) else replace(decision, order_ids=())


def _refuse_names_of_owner(decision: Decision) -> None:
    # To an id as long as this the mark could not be added, and the owner's decision could not be told from it.
    if decision.id is not None and len(decision.id) > LONGEST_RENAMED:
        raise Invalid("id", f"has {len(decision.id)} characters, and an agent's own has at most {LONGEST_RENAMED}", "Shorten it")
    for field, names in (("id", (decision.id,)), ("order_ids", decision.order_ids)):
        if any(name is not None and name.endswith(OWNERS_MARK) for name in names):
            raise Invalid(field, f"ends with {OWNERS_MARK}, which only names of the owner do", "Choose another name")


def _decisions_of(value: Observed) -> tuple[Decision, ...]:
    if isinstance(value, Tick):
        return value.decisions if value.decision is not None else ()
    return (value,) if isinstance(value, Decision) else ()


def _renamed(tables: Tables, value: Observed, known: dict[tuple[str, str], int]) -> Observed:
    if isinstance(value, Decision):
        return _owners(value) if _is_taken(tables, value, known) else value
    if isinstance(value, Tick) and value.decision is not None:
        stated = zip(value.decision, value.decisions, strict=True)
        return replace(value, decision=tuple(_owners(named) if _is_taken(tables, named, known) else own for own, named in stated))
    return value


def _owners(decision: Decision) -> Decision:
    return replace(decision, id=DecisionId(f"{decision.id}{OWNERS_MARK}"))


def _is_taken(tables: Tables, decision: Decision, known: dict[tuple[str, str], int]) -> bool:
    """Returns True if a model has used the id, or one of the orders, for another decision."""
    if decision.id is None or len(decision.id) > LONGEST_RENAMED or decision.id.endswith(OWNERS_MARK):
        return False
    taken = {
        name: seq for item in decision_items(decision, None)
        if (seq := known.get(name := (item.kind, item.key))) is not None and _is_models(tables, seq)
    }  # fmt: skip
    if not taken:
        return False
    if ("decision", decision.id) in taken:
        (stored,) = tables.items("decision", EVERYTHING, keys=[decision.id])
        earlier = plain(read(Decision, stored.body))
        stated = {name: part for name, part in plain(decision).items() if part and name not in _NAMES_AND_TIMES}
        # A desk may record again what its model decided; then nothing is to be said twice.
        if any(earlier.get(name) != part for name, part in stated.items()):
            return True
    orders = [key for kind, key in taken if kind == "order"]
    return bool(orders) and any(order.ref != decision.id for order in tables.items("order", EVERYTHING, keys=orders))


def _is_models(tables: Tables, seq: int) -> bool:
    row = next(iter(tables.log(after=seq - 1, chunk=1)))
    return row.payload is not None and author_of_payload(json.loads(row.payload)).tier >= MODEL_AUTHOR.tier
