"""The answer of a model to a reflection prompt: its pydantic model, and the JSON schema that a provider enforces.

The schema contains no ids, so it never changes and the provider compiles it once. `grounding` checks what a schema cannot.

>>> sorted(ReflectionReply.model_json_schema()["properties"]["lessons"]["items"]["properties"])
['candidate', 'mean', 'n', 'slot', 'text', 'trades']
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from memtape.core.lessons.reflection import Slot

LONGEST_LESSON = 300  # characters


class LessonAnswer(BaseModel):
    """One lesson, as the schema asks for it."""

    model_config = ConfigDict(extra="forbid", strict=True)
    slot: Annotated[Slot, Field(description="as the candidate has it")]
    text: Annotated[str, Field(description=f"the lesson, one line of at most {LONGEST_LESSON} characters")]
    candidate: Annotated[str, Field(description="the id of the candidate that it words")]
    trades: Annotated[list[str], Field(description="ids from the candidate's own list")]
    n: Annotated[int, Field(description="as the candidate has it")]
    mean: Annotated[float, Field(description="as the candidate has it")]


class ReflectionReply(BaseModel):
    """All lessons of one answer."""

    model_config = ConfigDict(extra="forbid", strict=True)
    lessons: list[LessonAnswer]

    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Returns the schema in the plain form that every provider accepts: no titles, no references."""
        lesson = LessonAnswer.model_json_schema()
        fields = {
            name: {key: value for key, value in field.items() if key != "title"} for name, field in lesson["properties"].items()
        }
        return _object({"lessons": {"type": "array", "items": _object(fields)}})


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
