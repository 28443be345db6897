"""Records of a conversation with a model, recognised by what is in them wherever the file lies.

Claude Code writes a line for each event, with its type and its session. Others write messages with a role and a content, one per
line or as a list under `messages`; OpenAI's Codex puts each under `payload`, and ChatGPT's export all of them under `mapping`.

>>> is_transcript('{"type": "user", "sessionId": "s1", "message": {"role": "user", "content": "hi"}}\\n')
True
>>> is_transcript('{"role": "assistant", "content": "hold"}'), is_transcript('{"messages": [{"role": "user", "content": "hi"}]}')
(True, True)
>>> is_transcript('{"type": "response_item", "payload": {"type": "message", "role": "user", "content": [{"text": "hi"}]}}')
True
>>> is_transcript('[{"title": "t", "mapping": {"a": {"message": {"author": {"role": "user"}, "content": {"parts": ["hi"]}}}}}]')
True
>>> is_transcript('{"symbol": "BTC", "price": 1}\\n'), is_transcript("not json")
(False, False)
"""

from __future__ import annotations

import json
from typing import Any

ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
LINES_LOOKED_AT = 20
SAMPLE_CHARACTERS = 200_000


def is_transcript(text: str) -> bool:
    """Returns True if the records of a JSON or JSONL file are a conversation."""
    sample = text[:SAMPLE_CHARACTERS]
    lines = [line for line in sample.splitlines()[: LINES_LOOKED_AT + 1] if line.strip()]
    if any(_is_turn(_parsed(line)) for line in lines[:LINES_LOOKED_AT]):
        return True
    whole = _parsed(text) if len(text) <= SAMPLE_CHARACTERS else None
    return _is_turn(whole)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_turn(record: Any) -> bool:
    if isinstance(record, list):
        return bool(record) and _is_turn(record[0])
    if not isinstance(record, dict):
        return False
    if record.get("role") in ROLES and ("content" in record or "tool_calls" in record):
        return True
    if record.get("type") in ("user", "assistant", "summary") and ("sessionId" in record or "message" in record):
        return True
    if isinstance(record.get("mapping"), dict):
        return any(isinstance(turn, dict) and isinstance(turn.get("message"), dict) for turn in record["mapping"].values())
    if isinstance(record.get("messages"), list):
        return _is_turn(record["messages"])
    return isinstance(record.get("payload"), dict) and _is_turn(record["payload"])
