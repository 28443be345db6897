"""Answers as a model gets them by default: few rows, the columns that matter, nothing that is empty.

A model pays for every word of an answer, and a page of trades has seventy columns. So at the door to a model a list has at most
ten rows of chosen columns, and values that are null are left out. `fields` chooses other columns, `limit` and `cursor` give more
rows where an operation has them, and `detail` gives the answer as every other surface gets it.

>>> rows = [{"id": f"t{n}", "symbol": "BTC", "fees_usd": "1", "pnl_r": None} for n in range(12)]
>>> found = small_answer({"agent": "desk", "trades": rows}, {"trades": ("symbol", "pnl_r")}, ())
>>> small_answer({"score": 0.47885381235940216, "rows": [{"similarity": 2 / 3}]}, {}, ())
{'score': 0.478854, 'rows': [{'similarity': 0.666667}]}
>>> found["trades"][0], len(found["trades"]), found["not_shown"]
({'id': 't0', 'symbol': 'BTC'}, 10, {'trades': 2})
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from memtape.core.near_names import meant
from memtape.errors import Invalid
from memtape.surfaces.registry import Operation, perform
from memtape.surfaces.translate import EVERY_TABLE

if TYPE_CHECKING:
    from memtape.engine import Memory
    from memtape.surfaces.caller import Caller

DEFAULT_ROWS = 10
MAX_TEXT_CHARACTERS = 20_000  # of a document: about 5,000 tokens
MAX_NESTED_VALUES = 10  # of such a list within a row
MAX_VALUES = 40  # of a list that is no table, such as the ids behind a belief
ROWS: Mapping[str, int] = {"get_skill_performance": 30, "get_my_deployments": 30}  # a coach sees the last 30 trades
# Names by which a row can be asked for again.
IDS = frozenset({"id", "trade_id", "decision_id", "plan_id", "belief_id", "note_id", "fact_id", "run", "path", "digest"})
# Parts that a model rarely needs: it asks for them with `detail`.
LEFT_OUT: Mapping[str, frozenset[str]] = {
    "get_brief": frozenset({"segments", "citations", "counted_by", "digest", "head", "owner_head", "agent"}),
    "get_strategy_performance": frozenset({"habits"}),
    "recall_memories": frozenset({"situation", "profile"}),
    "get_equity": frozenset({"points"}),
}
FIELDS = {"type": "array", "items": {"type": "string"}, "description": "columns to show"}
DETAIL = {"type": "boolean", "description": "every row and column"}
# Where an answer is no table, what `detail` adds to it.
MORE: Mapping[str, str] = {
    "get_brief": "also its segments, citations and digest", "get_document": "also more than 20,000 characters",
}  # fmt: skip


def answer_for_model(memory: Memory, known: Operation, data: object, caller: Caller) -> dict[str, Any]:
    """Performs an operation and returns its answer in the size that a model can use, or with everything if it asks for that."""
    if not isinstance(data, Mapping):
        return perform(memory, known, data, caller)
    asked, fields, detail = asked_of_door(known, data)
    answer = perform(memory, known, asked, caller)
    if known.writes:
        return with_short_lists(answer)
    if detail:
        return answer
    rows = data["limit"] if isinstance(data.get("limit"), int) else ROWS.get(known.name, DEFAULT_ROWS)
    if known.name == "get_document" and "end_line" not in data:
        answer = first_lines(answer)
    return with_short_lists(small_answer(answer, known.columns, fields, LEFT_OUT.get(known.name, ()), max(rows, DEFAULT_ROWS)))


def first_lines(answer: Mapping[str, Any], most: int = MAX_TEXT_CHARACTERS) -> dict[str, Any]:
    """Returns lines of a document up to a number of characters, and how to read on.

    >>> page = {"start_line": 11, "end_line": 14, "text": "one\\ntwo\\nthree\\nfour"}
    >>> first_lines(page, most=9)
    {'start_line': 11, 'end_line': 12, 'text': 'one\\ntwo', 'note': 'line 12 of 14; read on with start_line 13'}
    >>> first_lines({"start_line": 1, "end_line": 1, "text": "a" * 20}, most=9)["note"]
    'the first 9 of 20 characters of a long line; all with detail'
    >>> first_lines(page) == page
    True
    """
    text, first, last = answer.get("text"), answer.get("start_line"), answer.get("end_line")
    if not isinstance(text, str) or len(text) <= most or not isinstance(first, int) or not isinstance(last, int):
        return dict(answer)
    lines = text[: most + 1].split("\n")[:-1]
    if not lines:
        long = text.partition("\n")[0]
        note = f"the first {most} of {len(long)} characters of a long line; all with detail"
        return {**answer, "end_line": first, "text": text[:most], "note": note}
    end = first + len(lines) - 1
    note = f"line {end} of {last}; read on with start_line {end + 1}"
    return {**answer, "end_line": end, "text": "\n".join(lines), "note": note}


def with_short_lists(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The answer with short lists of ids: behind a belief or a lesson there can be thousands. `not_shown` counts the others.

    >>> long = {"id": "b1", "confirming": list(range(50)), "note": {"lessons": [{"trades": list(range(12))}]}}
    >>> with_short_lists(long)["not_shown"]
    {'confirming': 10, 'trades': 2}
    """
    hidden: dict[str, int] = {}
    short = {name: _with_short_list(name, value, MAX_VALUES, hidden) for name, value in answer.items()}
    return short | ({"not_shown": {**answer.get("not_shown", {}), **hidden}} if hidden else {})


def _with_short_list(name: str, value: Any, most: int, hidden: dict[str, int]) -> Any:
    if isinstance(value, Mapping):
        return {key: _with_short_list(key, each, MAX_NESTED_VALUES, hidden) for key, each in value.items()}
    if not isinstance(value, list):
        return value
    if any(isinstance(each, Mapping | list) for each in value):
        return [_with_short_list(name, each, MAX_NESTED_VALUES, hidden) for each in value]
    if len(value) > most:
        hidden[name] = hidden.get(name, 0) + len(value) - most
    return value[:most]


def answer_options(known: Operation) -> dict[str, Any]:
    """Returns the parameters that the door adds to a tool: `fields` for the columns of a table, `detail` for what is left out.

    Three operations have a `detail` of their own, which says how much they read.
    """
    if known.writes:
        return {}
    own, left_out = known.params.model_fields, LEFT_OUT.get(known.name, frozenset())
    in_tables = [name for name, chosen in known.columns.items() if chosen and name not in left_out]
    added: dict[str, Any] = {"fields": FIELDS} if in_tables else {}
    if known.columns or known.name in LEFT_OUT:
        added |= {"detail": DETAIL | {"description": MORE[known.name]} if known.name in MORE else DETAIL}
    return {name: schema for name, schema in added.items() if name not in own}


def asked_of_door(known: Operation, data: Mapping[str, Any]) -> tuple[dict[str, Any], Sequence[str], bool]:
    """Returns what an operation is asked, and what is asked of the door: columns, and whether all of the answer is wanted."""
    # Both are accepted for every read, also where the schema does not list them.
    asked, own = dict(data), known.params.model_fields
    if known.writes:
        return asked, (), False
    fields = asked.pop("fields", None) if "fields" not in own else None
    if not (fields is None or (isinstance(fields, list) and all(isinstance(name, str) for name in fields))):
        raise Invalid("fields", "is not a list of names", 'Write it like ["symbol", "pnl_r"]')
    # An operation with a `detail` of its own is asked for it; where that is yes or no, yes means the same at the door.
    detail = asked.get("detail")
    if "detail" not in own and asked.pop("detail", None) not in (None, True, False):
        raise Invalid("detail", "is not true or false", "Give true for every row and column, or leave it out")
    limit = own.get("limit")
    if limit is not None and isinstance(limit.default, int) and limit.default > DEFAULT_ROWS and detail is not True:
        asked.setdefault("limit", DEFAULT_ROWS)
    return asked, fields or (), detail is True


def small_answer(
    answer: Mapping[str, Any], columns: Mapping[str, Sequence[str]], fields: Sequence[str], left_out: Collection[str] = (),
    rows: int = DEFAULT_ROWS,
) -> dict[str, Any]:  # fmt: skip
    """Returns an answer with few rows in each list, chosen columns, and no empty values. `not_shown` counts the other rows."""
    small: dict[str, Any] = {}
    hidden: dict[str, int] = {}
    _require_columns(answer, fields)
    for name, value in answer.items():
        if name in left_out or value is None or value == {}:
            continue
        if not isinstance(value, list):
            small[name] = _without_empty(value)
            continue
        is_table = all(isinstance(row, dict) for row in value)
        most = rows if is_table else MAX_VALUES
        chosen = fields or columns.get(name) or columns.get(EVERY_TABLE) or ()
        small[name] = [_small_row(row, chosen) if is_table else _without_empty(row) for row in value[:most]]
        if len(value) > most:
            hidden[name] = len(value) - most
    return small | ({"not_shown": hidden} if hidden else {})


def _require_columns(answer: Mapping[str, Any], fields: Sequence[str]) -> None:
    """Raises `Invalid` for a column that no table of the answer has: left out silently, it would look as if it were empty."""
    tables = [value for value in answer.values() if isinstance(value, list) and value and isinstance(value[0], dict)]
    known = list(dict.fromkeys(name for table in tables for row in table for name in row))
    for name in fields:
        if known and name not in known:
            raise Invalid("fields", f"there is no column '{name}'", meant(name, known) or f"Choose from {', '.join(known)}")


def _small_row(row: Mapping[str, Any], chosen: Sequence[str]) -> dict[str, Any]:
    kept = {name: value for name, value in row.items() if not chosen or name in chosen or name in IDS}
    return {name: _without_empty(value) for name, value in kept.items() if value is not None and value not in ([], {}, "")}


def _without_empty(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_empty(each) for name, each in value.items() if each is not None and each not in ([], {}, "")}
    if isinstance(value, float):
        # A score of 17 digits costs a model ten tokens and says no more than six digits do; money is a string and stays whole.
        return float(f"{value:.6g}")
    return [_without_empty(each) for each in value] if isinstance(value, list) else value
