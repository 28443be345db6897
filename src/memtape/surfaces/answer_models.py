"""Answer models that are derived from the core values they mirror, so that no field is written twice.

`answer_model` turns a dataclass or named tuple into a pydantic model with the same fields in the same order, as the JSON of
an answer spells them: money and times are text, tuples are lists, values inside values are models of their own. The models
describe and order the data; they never change a value: a whole number in a field for figures stays a whole number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from decimal import Decimal
from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, WithJsonSchema, create_model, model_serializer, model_validator

# A figure as it is: pydantic alone would turn 1 into 1.0.
Real = Annotated[float | int, WithJsonSchema({"type": "number"})]


class Answer(BaseModel):
    """An answer."""

    # The validator is built when it is first used: a command uses one of many.
    model_config = ConfigDict(defer_build=True)


class SparseAnswer(Answer):
    """An answer that leaves out the fields that do not apply, and keeps the others in the order in which they were given."""

    model_config = ConfigDict(extra="allow")
    _given: tuple[str, ...] = PrivateAttr(())

    @model_validator(mode="wrap")
    @classmethod
    def _note_order(cls, data: Any, handler: Any) -> Any:
        made = handler(data)
        if isinstance(data, Mapping):
            made._given = tuple(data)
        return made

    # Without a return type the JSON schema stays that of the fields.
    @model_serializer(mode="wrap")
    def _only_given(self, handler: Any):  # type: ignore[no-untyped-def]
        # pydantic also asks for the value of an absent nested answer, which is None and then left out.
        if self is None:
            return None
        dumped = handler(self)
        return {name: dumped[name] for name in self._given}


def answer_model(
    value: type, words: Mapping[str, str] | None = None, *, name: str = "", sparse: bool = False,
    first: Mapping[str, Any] | None = None, **more: Any,
) -> type[BaseModel]:  # fmt: skip
    """The answer model of a core value. `words` describe its fields; `first` and `more` are fields before and after them.

    With `sparse`, fields that are None are left out of the JSON, as `core.codec.plain` leaves them out.

    >>> from memtape.core.recall.evidence import BaseRate
    >>> list(answer_model(BaseRate).model_fields)
    ['n', 'win_rate', 'mean_r']
    """
    own: dict[str, Any] = {}
    for field, hint in _hints(value).items():
        described = Field(description=(words or {}).get(field))
        own[field] = (Annotated[_json_type(hint, sparse), described], Field(default_factory=_absent) if sparse else ...)
    return create_model(
        name or f"{value.__name__}Row", __base__=SparseAnswer if sparse else Answer, __doc__=value.__doc__,
        **(first or {}), **own, **more,
    )  # fmt: skip


def _absent() -> None:
    """The default of a field that is left out: a factory, so that the schema shows no default."""


@cache
def _nested(value: type, sparse: bool) -> type[BaseModel]:
    return answer_model(value, sparse=sparse)


def _hints(value: type) -> dict[str, Any]:
    """The fields of a dataclass or named tuple with their types, in order."""
    hints = get_type_hints(value)
    names = [field.name for field in fields(value)] if is_dataclass(value) else value._fields  # type: ignore[attr-defined]
    return {name: hints[name] for name in names}


def _json_type(hint: Any, sparse: bool) -> Any:
    """The type of a value in JSON."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        # A sparse answer leaves null out.
        return reduce(or_, [_json_type(part, sparse) for part in parts if not (sparse and part is type(None))])
    if origin is Literal:
        # Described, not enforced: reading an old store must not fail on a label.
        return Annotated[str, WithJsonSchema({"type": "string", "enum": list(parts)})]
    if origin in (tuple, list, Sequence):
        kinds = [_json_type(part, sparse) for part in parts if part is not Ellipsis]
        return list[reduce(or_, kinds)]  # type: ignore[misc]
    if origin in (dict, Mapping):
        return dict[str, _json_type(parts[1], sparse)]  # type: ignore[misc]
    if hint in (datetime, Decimal):
        return str
    if hint is float:
        return Real
    if isinstance(hint, type) and is_dataclass(hint):
        return _nested(hint, sparse)
    if isinstance(hint, type) and hasattr(hint, "_fields"):
        # Inside another value, JSON spells a named tuple as a list.
        return list[reduce(or_, [_json_type(part, sparse) for part in _hints(hint).values()])]  # type: ignore[misc]
    return getattr(hint, "__supertype__", hint)
