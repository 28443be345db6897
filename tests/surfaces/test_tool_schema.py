"""What the tools cost a model, and what their schemas still say."""

from __future__ import annotations

import json
import re
from typing import Any

import anyio
import pytest
from mcp import Client

import memtape
from memtape.surfaces.caller import Caller
from memtape.surfaces.mcp import INSTRUCTIONS, build_server, instructions_for
from memtape.surfaces.registry import TOOL_SETS, ToolSet, all_operations, in_tool_set, params_schema
from memtape.surfaces.tool_schema import CHECKS, tool_schema

BUDGETS: dict[ToolSet, int] = {"trader": 3_000, "coach": 4_500, "full": 15_000}


@pytest.mark.parametrize("tools", BUDGETS)
@pytest.mark.parametrize("bound", [True, False])
def test_the_tools_of_a_set_stay_within_its_budget(tools: ToolSet, bound: bool):
    async def list_tools() -> list[Any]:
        async with Client(build_server(lambda: memtape.open(":memory:"), tools=tools, any_agent=not bound)) as client:
            return (await client.list_tools()).tools

    listed = anyio.run(list_tools)
    text = [json.dumps({"name": one.name, "description": one.description, "inputSchema": one.input_schema}) for one in listed]
    # cl100k counts about 1.09 tokens for every four bytes of these schemas.
    assert 1.09 * sum(len(each) for each in text) / 4 <= BUDGETS[tools]


def test_a_schema_has_no_checks_and_every_word():
    def keys(value: object) -> set[str]:
        if isinstance(value, dict):
            return set(value) - set(value.get("properties", {})) | {key for each in value.values() for key in keys(each)}
        return {key for each in value for key in keys(each)} if isinstance(value, list) else set()

    for known in all_operations().values():
        listed = tool_schema(known, "full", False)
        own = listed["properties"]
        assert "$ref" not in json.dumps(listed) and "null" not in json.dumps(listed)
        for name, field in own.items():
            assert field.get("description"), (known.name, name)
            assert not CHECKS & {key for key in field if key != "title"}, (known.name, name)
        assert set(listed.get("required", [])) >= set(params_schema(known).get("required", [])), known.name


def test_no_parameter_is_described_by_its_own_name():
    for known in all_operations().values():
        for name, field in params_schema(known)["properties"].items():
            assert field["description"].strip(". ").lower() != name.replace("_", " ").lower(), (known.name, name)


def test_the_situation_is_told_by_an_example():
    asked = tool_schema(all_operations()["recall_memories"], "trader", True)["properties"]["context"]
    assert '"session": "london"' in asked["description"]


def test_a_bound_server_does_not_ask_for_the_agent():
    known = all_operations()["get_brief"]
    assert "agent" not in tool_schema(known, "trader", True)["properties"]
    assert "agent" in tool_schema(known, "trader", False)["properties"]


def test_the_instructions_state_the_loop_in_at_most_twelve_lines():
    lines = INSTRUCTIONS.splitlines()
    assert len(lines) + 1 <= 12
    told = [INSTRUCTIONS.index(name) for name in ("get_brief", "record_decision", "remember_trade")]
    assert told == sorted(told)


def test_the_names_of_the_seeds_are_listed_in_full():
    async def names() -> set[str]:
        async with Client(build_server(lambda: memtape.open(":memory:"), tools="full")) as client:
            return {tool.name for tool in (await client.list_tools()).tools}

    assert {"store_trade_memory", "recall_similar_trades"} <= anyio.run(names)


def test_a_coach_is_told_of_its_own_tools_and_an_action_has_fixed_words():
    for tools in TOOL_SETS:
        told = instructions_for(tools, "desk")
        assert len(told.splitlines()) <= 12
        named = set(re.findall(r"[a-z]+(?:_[a-z]+)+", told))
        assert named <= set(in_tool_set(all_operations(), tools, Caller("model", "desk", bound=True))), tools
    listed = tool_schema(all_operations()["record_decision"], "trader", True)
    assert listed["properties"]["action"]["enum"] == ["buy", "sell", "close", "reduce", "hold", "no_trade"]
    assert {"action", "reason"} <= set(listed["required"])
    note = tool_schema(all_operations()["append_note"], "trader", True)
    assert "run" in note["properties"] and "run" in note["required"], "a model is refused without it"


def test_what_a_model_needs_for_a_past_brief_is_not_listed_for_a_trader():
    asked = tool_schema(all_operations()["get_brief"], "trader", True)["properties"]
    assert set(asked) == {"context", "symbol", "strategy", "detail"}
