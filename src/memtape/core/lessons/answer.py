"""The answer of a model to a reflection prompt: its pydantic model, and the JSON schema that a provider enforces.

The schema contains no ids, so it never changes and the provider compiles it once. `grounding` checks what a schema cannot. A
remark that is missing or no text costs the remark, not the lesson.

>>> sorted(ReflectionReply.model_json_schema()["properties"]["lessons"]["items"]["properties"])
['candidate', 'remark']
>>> ChosenLesson.model_validate({"candidate": "c1"}).remark, ChosenLesson.model_validate({"candidate": "c1", "remark": 5}).remark
('', '5')
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def _as_text(given: object) -> str:
    # Nothing but text can have the form of a remark: `grounding` drops it.
    return given if isinstance(given, str) else "" if given is None else str(given)


class ChosenLesson(BaseModel):
    """One candidate that the model chose, as the schema asks for it."""

    model_config = ConfigDict(extra="forbid", strict=True)
    candidate: Annotated[str, Field(description="the id of a candidate")]
    remark: Annotated[str, BeforeValidator(_as_text), Field(description="empty, or a remark of the form that is allowed")] = ""


class ReflectionReply(BaseModel):
    """The candidates that the model chose, in the order in which they are shown. None is an answer too."""

    model_config = ConfigDict(extra="forbid", strict=True)
    lessons: list[ChosenLesson]

    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Returns the schema in the plain form that every provider accepts: no titles, no references."""
        lesson = ChosenLesson.model_json_schema()
        fields = {
            name: {key: value for key, value in field.items() if key not in ("title", "default")}
            for name, field in lesson["properties"].items()
        }
        return _object({"lessons": {"type": "array", "items": _object(fields)}})


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
