"""What Anthropic and OpenAI refuse a request for, in short: a request that breaks a rule gets HTTP 400, as from them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
COMMON_KEYWORDS = {"type", "enum", "const", "properties", "required", "additionalProperties", "items", "anyOf", "$defs", "$ref",
                   "title", "description"}  # fmt: skip
# Everything else is refused, like the limits of numbers and texts at Anthropic, and what no schema language knows at both.
ANTHROPIC_KEYWORDS = COMMON_KEYWORDS | {"allOf", "default", "format"}
OPENAI_KEYWORDS = COMMON_KEYWORDS | {"pattern", "format", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
                                     "minItems", "maxItems"}  # fmt: skip
MAX_UNIONS, MAX_OPTIONAL = 16, 24  # properties of one schema, at Anthropic


def anthropic_problem(body: dict[str, Any]) -> str | None:
    """What the Messages API would refuse; None if nothing."""
    return next(_anthropic(body), None)


def openai_problem(body: dict[str, Any]) -> str | None:
    """What the chat completions API would refuse; None if nothing."""
    return next(_openai(body), None)


def _anthropic(body: dict[str, Any]) -> Iterator[str]:
    if not isinstance(body.get("max_tokens"), int):
        yield "max_tokens: Field required"
    if not isinstance(body.get("stream", False), bool):
        yield "stream: Input should be a valid boolean"
    if "stream_options" in body:
        yield "stream_options: Extra inputs are not permitted"
    messages = body["messages"]
    blocks = [_blocks(one) for one in messages]
    yield from _cache_problems(body, blocks)
    if not messages or messages[0]["role"] != "user":
        yield "messages: first message must use the user role"
    for number, message in enumerate(messages):
        if message["role"] not in ("user", "assistant"):
            yield f"messages.{number}.role: system is a parameter of its own"
        if number and messages[number - 1]["role"] == message["role"]:
            yield "messages: roles must alternate between user and assistant"
        if not blocks[number] or any(one["type"] == "text" and not one["text"].strip() for one in blocks[number]):
            yield f"messages.{number}: text content blocks must be non-empty"
        asked = [one["id"] for one in blocks[number] if one["type"] == "tool_use"]
        answers = (
            [one["tool_use_id"] for one in blocks[number + 1] if one["type"] == "tool_result"] if number + 1 < len(blocks) else []
        )
        if set(asked) - set(answers):
            yield f"messages.{number}: tool_use ids were found without tool_result blocks immediately after: {asked}"
        before = [one["id"] for one in blocks[number - 1] if one["type"] == "tool_use"] if number else []
        given = [one["tool_use_id"] for one in blocks[number] if one["type"] == "tool_result"]
        if set(given) - set(before) or len(set(given)) < len(given):
            yield f"messages.{number}: unexpected tool_use_id found in tool_result blocks: {given}"
        if any(not NAME.fullmatch(id) for id in asked):
            yield f"messages.{number}: tool_use.id: String should match pattern"
    called = [one["id"] for part in blocks for one in part if one["type"] == "tool_use"]
    if len(set(called)) < len(called):
        yield "messages: tool_use ids must be unique"
    if called and not body.get("tools"):
        yield "tools: requests which include tool_use or tool_result blocks must define tools"
    for tool in body.get("tools", []):
        if not NAME.fullmatch(tool["name"]) or tool["input_schema"].get("type") != "object":
            yield f"tools: {tool['name']}: input_schema.type should be object"
    form = body.get("output_config", {}).get("format")
    if form is not None:
        if form["type"] != "json_schema":
            yield "output_config.format.type"
        yield from _schema_problems(form["schema"], ANTHROPIC_KEYWORDS)
        yield from _too_complex(form["schema"])


def _cache_problems(body: dict[str, Any], blocks: list[list[dict[str, Any]]]) -> Iterator[str]:
    system = body.get("system", "")
    system = system if isinstance(system, list) else []
    if any(one.get("type") != "text" for one in system):
        yield "system: only text blocks are allowed"
    marked = [one for one in (*body.get("tools", []), *system, *(each for part in blocks for each in part)) if "cache_control" in one]
    if len(marked) > 4:
        yield f"A maximum of 4 blocks with cache_control may be provided. Found {len(marked)}."
    for one in marked:
        mark = one["cache_control"]
        if not isinstance(mark, dict) or mark.get("type") != "ephemeral" or mark.get("ttl", "5m") not in ("5m", "1h"):
            yield "cache_control: Input tag does not match any of the expected tags: 'ephemeral'"
        if one.get("type") in ("thinking", "redacted_thinking"):
            yield f"{one['type']}.cache_control: Extra inputs are not permitted"
        if one.get("type") == "text" and not one["text"].strip():
            yield "cache_control cannot be set for empty text blocks"


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _openai(body: dict[str, Any]) -> Iterator[str]:
    messages, waiting = body["messages"], []
    if "stream_options" in body and body.get("stream") is not True:
        yield "The 'stream_options' parameter is only allowed when 'stream' is enabled."
    for number, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                yield "messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
            else:
                waiting.remove(message["tool_call_id"])
            if not isinstance(message["content"], str):
                yield f"messages.{number}.content: expected a string"
            continue
        if waiting:
            yield f"an assistant message with 'tool_calls' must be followed by tool messages: {waiting}"
        if message["role"] == "assistant":
            for call in message.get("tool_calls") or []:
                waiting.append(call["id"])
                json.loads(call["function"]["arguments"])
            if message.get("content") is None and not message.get("tool_calls"):
                yield f"messages.{number}: content or tool_calls is required"
            if "tool_calls" in message and not message["tool_calls"]:
                yield f"messages.{number}.tool_calls: empty array"
    if waiting:
        yield f"an assistant message with 'tool_calls' must be followed by tool messages: {waiting}"
    if "tools" in body and not body["tools"]:
        yield "tools: empty array"
    for tool in body.get("tools", []):
        if tool["type"] != "function" or not NAME.fullmatch(tool["function"]["name"]):
            yield "tools: not a function"
    form = body.get("response_format")
    if form is not None:
        schema = form["json_schema"]
        if not NAME.fullmatch(schema["name"]) or schema["strict"] is not True:
            yield "response_format: a strict schema with a name"
        yield from _schema_problems(schema["schema"], OPENAI_KEYWORDS, all_required=True)


def _schema_problems(schema: object, known: set[str], all_required: bool = False, place: str = "schema") -> Iterator[str]:
    if isinstance(schema, list):
        for each in schema:
            yield from _schema_problems(each, known, all_required, place)
    if not isinstance(schema, dict):
        return
    if unknown := schema.keys() - known:
        yield f"{place}: {sorted(unknown)} is not permitted"
    if schema.get("type") == "object" or "properties" in schema:
        if schema.get("additionalProperties") is not False:
            yield f"{place}: 'additionalProperties' is required to be supplied and to be false"
        if all_required and set(schema.get("required", ())) != set(schema.get("properties", {})):
            yield f"{place}: 'required' is required to be supplied and to be an array including every key in properties"
    for name, value in schema.items():
        if name in ("properties", "$defs"):
            for inner, each in value.items():
                yield from _schema_problems(each, known, all_required, f"{place}.{inner}")
        elif name not in ("enum", "const", "default", "required", "examples"):
            yield from _schema_problems(value, known, all_required, f"{place}.{name}")


def _too_complex(schema: object) -> Iterator[str]:
    """What Anthropic's compiler refuses: too many properties that may have several types, or may be missing."""
    unions = optional = 0
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, dict):
            properties = part.get("properties", {})
            unions += sum("anyOf" in one or isinstance(one.get("type"), list) for one in properties.values())
            optional += len(set(properties) - set(part.get("required", ())))
            waiting += part.values()
    if unions > MAX_UNIONS:
        yield f"Schemas contains too many parameters with union types ({unions}); the limit is {MAX_UNIONS}"
    if optional > MAX_OPTIONAL:
        yield f"Schemas contains too many optional parameters ({optional}); the limit is {MAX_OPTIONAL}"
