"""The operations as MCP tools, to clients of both eras, over stdio and over HTTP."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
import uvicorn
from mcp import Client
from mcp.shared.exceptions import MCPError

from memtape.errors import Invalid, Locked
from memtape.surfaces.http import build_app
from memtape.surfaces.mcp import BRIEF, COACH, REFERENCE, build_server

from .desk import DESK, Desk
from .parity import Program, _free_port

ERAS = {"legacy": "2025-11-25", "auto": "2026-07-28"}
ORDER: dict[str, Any] = {"symbol": "BTC", "side": "long", "qty": "0.5"}
PROGRAM = Program((sys.executable, str(Path(__file__).with_name("desk.py"))), db_option=())

Talk = Callable[[Client], Awaitable[Any]]


@pytest.fixture
def memory(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "desk.json")


def talk(server: Any, what: Talk, era: str = "auto") -> Any:
    async def main() -> Any:
        async with Client(server, mode=era) as client:
            return await what(client)

    return anyio.run(main)


def server_of(memory: Desk, **options: Any) -> Any:
    return build_server(lambda: memory, operations=DESK, **{"tools": "full", "any_agent": True, **options})  # type: ignore[arg-type, return-value]


def text_of(result: Any) -> str:
    (block,) = result.content
    return str(block.text)


@pytest.mark.parametrize("era", ERAS)
def test_a_call_is_answered_as_data_and_as_text_to_both_eras(memory, era):
    async def what(client: Client) -> None:
        assert client.protocol_version == ERAS[era]
        await client.list_tools()  # from now on the client holds results against the output schemas
        placed = await client.call_tool("place_order", ORDER)
        assert placed.structured_content["qty"] == "0.5" and placed.structured_content["at"] is None
        assert json.loads(text_of(placed)) == placed.structured_content
        listed = await client.call_tool("list_orders", {"symbol": "BTC"})
        assert [row["id"] for row in listed.structured_content["orders"]] == ["o1"]
        assert (await client.call_tool("submit_order", ORDER)).structured_content["id"] == "o2"

    talk(server_of(memory), what, era)


@pytest.mark.parametrize("era", ERAS)
def test_a_tool_is_described_by_its_operation(memory, era):
    async def what(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(tools) == [*DESK, "submit_order"], "an alias is listed after the others"
        place, orders = tools["place_order"], tools["list_orders"]
        assert place.title == "Place order" and place.description == DESK["place_order"].doc
        assert place.input_schema["required"] == ["symbol", "side", "qty"]
        assert "title" not in place.input_schema["properties"]["symbol"]
        assert set(place.output_schema["properties"]) == set(DESK["place_order"].result.model_fields)
        hints = place.annotations
        assert (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint, hints.open_world_hint) == (
            False,
            False,
            True,
            False,
        )
        assert orders.annotations.read_only_hint is True

    talk(server_of(memory), what, era)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("place_order", ORDER | {"side": "up"}, "side: should be 'long' or 'short'. Choose one of these (got 'up')"),
        ("place_order", {}, "symbol: required\nside: required (long or short)\nqty: required (number)"),
        ("make_trouble", {"kind": "conflict"}, "note: differs from before. Use another id"),
        ("make_trouble", {"kind": "unknown"}, "agent: there is no agent 'nobody'. Create it first"),
    ],
)
def test_a_refusal_is_a_result_with_the_message_and_every_wrong_field(memory, era, name, data, said):
    async def what(client: Client) -> None:
        await client.list_tools()
        result = await client.call_tool(name, data)
        assert result.is_error and text_of(result) == said
        assert result.structured_content is None, "clients hold it against the output schema"
        told = result.meta["memtape/problem"]
        if told["title"] == "Invalid input":
            assert [f"{each['field']}: " for each in told["errors"]] == [
                line.partition(" ")[0] + " " for line in said.split("\n")
            ]

    talk(server_of(memory), what, era)


@pytest.mark.parametrize("era", ERAS)
def test_a_bug_is_logged_and_its_words_stay_here(memory, era, caplog):
    async def what(client: Client) -> None:
        result = await client.call_tool("make_trouble", {"kind": "bug"})
        assert result.is_error and "internal error of memtape" in text_of(result)
        assert "secret" not in text_of(result)

    talk(server_of(memory), what, era)
    assert "the secret of the desk" in caplog.text and "Traceback" in caplog.text


@pytest.mark.parametrize("era", ERAS)
def test_a_tool_set_is_all_that_its_client_can_see_and_call(memory, era):
    async def what(client: Client) -> None:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["place_order", "list_orders"]
        for name in ("make_trouble", "list_order", ""):
            with pytest.raises(MCPError, match=r"tool: there is no .* in the tool set 'trader'"):
                await client.call_tool(name, {"kind": "slow"})

    talk(server_of(memory, tools="trader"), what, era)
    assert memory.orders() == {}
    with pytest.raises(Invalid, match="there is no tool set 'night'"):
        server_of(memory, tools="night")


def test_a_server_speaks_for_its_agent(memory):
    async def what(client: Client) -> None:
        assert "'apple'" in (client.instructions or "")
        assert (await client.call_tool("place_order", ORDER)).structured_content["agent"] == "apple"
        named = await client.call_tool("place_order", ORDER | {"agent": "pear"})
        assert named.structured_content["agent"] == "pear"

    talk(server_of(memory, agent="apple"), what)


@pytest.mark.parametrize("era", ERAS)
def test_the_reference_of_the_tools_can_be_read(memory, era):
    async def what(client: Client) -> None:
        pages = [page.uri for page in (await client.list_resources()).resources]
        named = [one.uri_template for one in (await client.list_resource_templates()).resource_templates]
        assert (pages, named) == ([REFERENCE, BRIEF, COACH], [REFERENCE + "/{name}", BRIEF + "/{agent}"])
        whole = (await client.read_resource(REFERENCE)).contents[0].text
        assert "## place_order" in whole and "## make_trouble" not in whole
        assert (await client.read_resource(f"{REFERENCE}/list_orders")).contents[0].text in whole + "\n"
        for uri in (f"{REFERENCE}/make_trouble", "memtape://nothing", "file:///etc/passwd"):
            with pytest.raises(MCPError, match="there is no resource"):
                await client.read_resource(uri)

    talk(server_of(memory, tools="trader"), what, era)


def test_the_store_is_opened_once_and_tried_again_when_it_was_locked(memory):
    opened: list[str] = []

    def factory() -> Desk:
        opened.append("try")
        if len(opened) == 1:
            raise Locked(url="desk.db", seconds=5)
        return memory

    async def what(client: Client) -> None:
        assert opened == [], "listing tools needs no store"
        refused = await client.call_tool("list_orders", {})
        assert refused.is_error and "has been locked by another writer" in text_of(refused)

        async def ask() -> None:
            assert not (await client.call_tool("list_orders", {})).is_error

        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(ask)
        assert len(opened) == 2

    talk(build_server(factory, operations=DESK, tools="full"), what)  # type: ignore[arg-type]


def test_calls_run_beside_the_loop(memory):
    async def what(client: Client) -> None:
        beats = 0

        async def beat() -> None:
            nonlocal beats
            while True:
                await anyio.sleep(0.01)
                beats += 1

        async with anyio.create_task_group() as group:
            group.start_soon(beat)
            await client.call_tool("make_trouble", {"kind": "slow"})
            group.cancel_scope.cancel()
        assert beats > 5

    talk(server_of(memory), what)


# stdio, a real process


def lines(*messages: dict[str, Any]) -> str:
    return "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)


def hello(version: str) -> dict[str, Any]:
    who = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    return {"id": 1, "method": "initialize", "params": who}


def pipe(db: Path, text: str) -> tuple[list[dict[str, Any]], subprocess.CompletedProcess[str]]:
    argv = [*PROGRAM.argv, "mcp", str(db)]
    done = subprocess.run(
        argv, input=text, env=PROGRAM.environment(), capture_output=True, text=True, timeout=60, errors="surrogateescape"
    )
    return [json.loads(line) for line in done.stdout.splitlines()], done


@pytest.mark.parametrize("version", ["2024-11-05", "2025-11-25"])
def test_the_last_request_of_a_pipe_is_still_answered(tmp_path, version):
    call = {"id": 2, "method": "tools/call", "params": {"name": "make_trouble", "arguments": {"kind": "slow"}}}
    answers, done = pipe(tmp_path / "d.json", lines(hello(version), {"method": "notifications/initialized"}, call))
    assert done.returncode == 0 and done.stderr == ""
    assert answers[0]["result"]["protocolVersion"] == version
    assert [answer["id"] for answer in answers] == [1, 2]
    assert json.loads(answers[1]["result"]["content"][0]["text"]) == {"note": "", "count": 1}


def test_a_line_that_is_no_message_is_answered_and_the_rest_goes_on(tmp_path):
    ask = {"id": 2, "method": "tools/call", "params": {"name": "list_orders", "arguments": {}}}
    text = lines(hello("2025-06-18")) + 'no json\n{"id": 7, "jsonrpc": "2.0"}\n' + lines(ask)
    answers, done = pipe(tmp_path / "d.json", text)
    assert [answer["id"] for answer in answers].count(None) == 2
    assert {answer["id"] for answer in answers} == {None, 1, 2} and done.returncode == 0
    assert "not JSON-RPC" in done.stderr


def test_a_cancelled_request_does_not_hold_the_end_back(tmp_path):
    call = {"id": 2, "method": "tools/call", "params": {"name": "make_trouble", "arguments": {"kind": "slow"}}}
    stop = {"method": "notifications/cancelled", "params": {"requestId": 2}}
    began = time.monotonic()
    answers, done = pipe(tmp_path / "d.json", lines(hello("2025-06-18"), call, stop))
    assert [answer["id"] for answer in answers] == [1] and done.returncode == 0
    assert time.monotonic() - began < 20


def test_a_client_that_leaves_at_once_leaves_no_trace(tmp_path):
    answers, done = pipe(tmp_path / "d.json", "")
    assert (answers, done.returncode, done.stderr) == ([], 0, "")


# HTTP, a real socket


@contextmanager
def serving(memory: Desk, **options: Any) -> Iterator[str]:
    port = _free_port()
    app = build_app(memory, operations=DESK, **{"tools": "full", "any_agent": True, **options})  # type: ignore[arg-type]
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning", timeout_graceful_shutdown=2))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(timeout=20)


def test_both_eras_are_served_over_http_beside_the_api(memory):
    async def what(client: Client) -> str:
        tools = (await client.list_tools()).tools
        placed = await client.call_tool("place_order", ORDER | {"id": "one"})
        refused = await client.call_tool("place_order", ORDER | {"qty": "-1"})
        assert len(tools) == 4 and refused.is_error and text_of(refused).startswith("qty: should be greater than 0")
        assert placed.structured_content["agent"] == "apple"
        return str(client.protocol_version)

    with serving(memory, agent="apple") as address:
        assert {talk(f"{address}/mcp", what, era) for era in ERAS} == set(ERAS.values())
        over_api = httpx.get(f"{address}/v1/list_orders").json()
        assert [row["id"] for row in over_api["orders"]] == ["one"]
        refused = httpx.get(f"{address}/mcp", headers={"accept": "text/event-stream"})
        assert refused.status_code == 405 and refused.headers["content-type"] == "application/problem+json"
        counted = httpx.get(f"{address}/metrics").text
        assert 'memtape_requests_total{operation="mcp",status="200"}' in counted


def test_http_sessions_are_not_needed_and_not_kept(memory):
    headers = {"accept": "application/json", "content-type": "application/json"}
    ask = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "list_orders", "arguments": {}}}
    with serving(memory) as address:
        answer = httpx.post(f"{address}/mcp", json=ask, headers=headers)
        assert answer.status_code == 200 and answer.json()["id"] == 5
        assert "mcp-session-id" not in answer.headers and answer.headers["x-content-type-options"] == "nosniff"
