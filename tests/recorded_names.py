"""The names and figures that recorded answers of an older version have today."""

from __future__ import annotations

from typing import Any


def by_todays_names(answer: Any) -> Any:
    """An answer of 0.1 with the names of today: a segment called "leash" is "limits", a lesson that was "told" is "shown"."""
    if isinstance(answer, str):
        # A mean that rounds to zero has no sign any more.
        return answer.replace("(-0.00", "(0.00")
    if isinstance(answer, list):
        return [by_todays_names(each) for each in answer]
    if not isinstance(answer, dict):
        return answer
    renamed = {"name": {"leash": "limits"}, "segment": {"leash": "limits"}, "status": {"told": "shown"}}
    return {
        key: renamed[key].get(value, value) if key in renamed and isinstance(value, str) else by_todays_names(value)
        for key, value in answer.items()
    }
