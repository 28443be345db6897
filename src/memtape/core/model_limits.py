"""How much a model may write in one day (UTC): of each kind of row, for one agent or, of what all agents share, for the owner.

A model in a loop, or one that a text has turned, can call a tool thousands of times. These limits are far above what an agent
needs. What the owner and the venue write has none.
"""

from __future__ import annotations

from collections.abc import Mapping

MODEL_ROWS_PER_DAY: Mapping[str, int] = {
    "claim": 1000, "closing": 1000, "decision": 5000, "decision_again": 5000, "shown": 5000, "correction": 500,
    "document_note": 200, "belief": 100,
    "plan": 50, "proposal": 50, "examination": 200, "event": 2000, "fact": 100, "skill": 20, "strategy_card": 50,
}  # fmt: skip
# What a person calls each kind.
KIND_WORDS: Mapping[str, str] = {
    "claim": "trades", "closing": "exits of trades", "decision": "decisions", "decision_again": "orders of decisions",
    "shown": "shown briefs",
    "correction": "corrections", "document_note": "notes", "belief": "beliefs", "plan": "plans", "proposal": "proposed edits",
    "examination": "re-examinations", "event": "events", "fact": "facts", "skill": "skills", "strategy_card": "strategy cards",
    "brief": "texts of briefs", "facts_shown": "shown facts", "fact_archived": "archived facts",
    "fact_restored": "facts brought back", "fact_demoted": "facts made less sure", "facts_referenced": "uses of facts",
    "plan_status": "changes of plans", "unbelief": "retired beliefs", "note": "lesson notes",
}  # fmt: skip


def over_limit(kind: str, written: int) -> str | None:
    """Returns why a model may write no more rows of a kind today; None if it may.

    >>> over_limit("plan", 49), over_limit("tick", 10**6)
    (None, None)
    >>> over_limit("plan", 50)
    'a model has recorded 50 plans for it today, the most of one day (UTC)'
    """
    limit = MODEL_ROWS_PER_DAY.get(kind)
    if limit is None or written < limit:
        return None
    return f"a model has recorded {written} {KIND_WORDS[kind]} for it today, the most of one day (UTC)"
