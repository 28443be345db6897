"""Functions that the runner `callable` runs in tests: they decide without looking."""

from __future__ import annotations

from typing import Any


def decide(question: Any) -> Any:
    """A card where one is asked for, a re-examination where that is, else words."""
    if question.schema is None:
        return "Nothing is held."
    if "conviction_score" in question.schema["properties"]:
        return {"conviction_score": 50, "notes": "Nothing changed.", "suggested_action": "HOLD", "watch_for": []}
    return {"symbol": "BTC", "action": "wait", "thesis": "the range is unresolved"}
