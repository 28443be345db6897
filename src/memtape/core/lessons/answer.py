"""The answer of a model to a reflection prompt: its pydantic model, and the JSON schema that a provider enforces.

The schema contains no ids, so it never changes and the provider compiles it once. `grounding` checks what a schema cannot.

>>> sorted(ReflectionReply.model_json_schema()["properties"]["lessons"]["items"]["properties"])
['candidate', 'remark']
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field


class ChosenLesson(BaseModel):
    """One candidate that the model chose, as the schema asks for it."""

    model_config = ConfigDict(extra="forbid", strict=True)
    candidate: Annotated[str, Field(description="the id of a candidate")]
    remark: Annotated[str, Field(description="empty, or a remark of the form that is allowed")]


class ReflectionReply(BaseModel):
    """The candidates that the model chose, in the order in which they are shown. None is an answer too."""

    model_config = ConfigDict(extra="forbid", strict=True)
    lessons: list[ChosenLesson]

    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Returns the schema in the plain form that every provider accepts: no titles, no references."""
        lesson = ChosenLesson.model_json_schema()
        fields = {
            name: {key: value for key, value in field.items() if key != "title"} for name, field in lesson["properties"].items()
        }
        return _object({"lessons": {"type": "array", "items": _object(fields)}})


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
