"""The operations over HTTP: one path each, problems for everything that goes wrong, and a guarded door."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from fastapi import FastAPI
from starlette.responses import HTMLResponse
from starlette.testclient import TestClient

from memtape.errors import Conflict, Invalid, Locked, NoStore
from memtape.surfaces.http import build_app, check_bind, listen
from memtape.surfaces.http.guard import MAX_BODY

from .desk import DESK, Desk
from .parity import Program

ORDER: dict[str, Any] = {"symbol": "BTC", "side": "long", "qty": "0.5"}
HERE = "http://127.0.0.1:8300"


def client_of(app: FastAPI, address: str = HERE) -> TestClient:
    return TestClient(app, base_url=address)


@pytest.fixture
def memory(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "desk.json")


@pytest.fixture
def client(memory: Desk) -> Iterator[TestClient]:
    with client_of(build_app(memory, operations=DESK)) as client:  # type: ignore[arg-type]
        yield client


def assert_problem(answer: Any, status: int, *said: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body["status"] == status and body["type"].startswith("urn:memtape:problem:") and body["title"]
    assert all(word in body["detail"] for word in said), body["detail"]
    return dict(body)


# Operations


def test_a_write_is_a_post_and_a_read_is_a_get_or_a_post(client):
    placed = client.post("/v1/place_order", json=ORDER)
    assert placed.status_code == 200 and placed.json()["qty"] == "0.5"
    assert client.get("/v1/list_orders").json() == client.post("/v1/list_orders", json={}).json()
    assert client.post("/v1/list_orders").json()["orders"][0]["symbol"] == "BTC"  # no body: nothing asked for
    refused = client.get("/v1/place_order")
    assert_problem(refused, 405, "GET is not allowed for /v1/place_order. Use POST")
    assert refused.headers["allow"] == "POST"


def test_an_alias_is_the_same_operation(client):
    assert client.post("/v1/submit_order", json=ORDER).json()["id"] == "o1"


def test_a_query_may_hold_lists_and_objects(client, memory):
    client.post("/v1/place_order", json=ORDER | {"tags": ["trend", "café"]})
    client.post("/v1/place_order", json=ORDER | {"symbol": "ETH", "tags": ["range"]})

    def found(**query: Any) -> list[str]:
        return [row["symbol"] for row in client.get("/v1/list_orders", params=query).json()["orders"]]

    assert found(symbol="ETH") == ["ETH"]
    assert found(tags="café") == ["BTC"] and found(tags=["café", "range"]) == ["BTC", "ETH"]
    assert found(tags='["range"]') == ["ETH"]
    assert found(open_only="true", limit="1") == ["BTC"]
    asked = client.get("/v1/list_orders", params={"where": '{"age": {"days": 3}}'}).json()
    assert asked["where"] == {"age": {"days": 3}}


def test_pages_follow_each_other_by_their_cursor(client):
    for symbol in ("A", "B", "C"):
        client.post("/v1/place_order", json=ORDER | {"symbol": symbol})
    first = client.get("/v1/list_orders", params={"limit": 2}).json()
    second = client.get("/v1/list_orders", params={"limit": 2, "cursor": first["next_cursor"]}).json()
    assert [row["symbol"] for row in first["orders"] + second["orders"]] == ["A", "B", "C"]
    assert second["next_cursor"] is None


def test_the_openapi_document_names_every_operation_with_its_schemas(client):
    document = client.get("/v1/openapi.json").json()
    assert set(document["paths"]) == {"/v1/place_order", "/v1/list_orders", "/v1/make_trouble"}
    post = document["paths"]["/v1/place_order"]["post"]
    assert (post["operationId"], post["summary"], post["tags"]) == ("place_order", "Place an order.", ["Desk"])
    schemas = document["components"]["schemas"]
    named = post["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    assert schemas[named]["required"] == ["symbol", "side", "qty"]
    assert post["parameters"][0]["name"] == "Idempotency-Key"
    asked = document["paths"]["/v1/list_orders"]["get"]
    assert {field["name"]: field["in"] for field in asked["parameters"]}["where"] == "query"
    for reference in _references(document):
        assert reference.rpartition("/")[2] in schemas
    ids = [entry["operationId"] for path in document["paths"].values() for entry in path.values()]
    assert len(ids) == len(set(ids))


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)


# Problems


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"{", 422, "body: is not JSON"),
        (b"[]", 422, "body: is not a JSON object"),
        (b'"BTC"', 422, "body: is not a JSON object"),
        (b"null", 422, "body: is not a JSON object"),
        (b'\xff\xfe{"a": 1}', 422, "body: is not Unicode text"),
        (b'{"symbol": "\\ud800"}', 422, "body: is not Unicode text"),
        (b'{"symbol": "BTC", "side": "long", "qty": Infinity}', 422, "Infinity is not a JSON number"),
        (b"[" * 200_000, 422, "body: is nested too deeply"),
        (b'{"symbol": "BTC", "side": "long", "qty": 1, "\\u0000": 2}', 422, "unknown field"),
        (b'{"symbol": "BTC", "side": "long", "qty": -1}', 422, "qty: should be greater than 0"),
        (b"{}", 422, "symbol: required"),
    ],
)
def test_a_wrong_body_is_a_problem_that_names_the_field(client, memory, body, status, said):
    told = assert_problem(client.post("/v1/place_order", content=body), status, said)
    assert told["field"] == told["errors"][0]["field"]
    assert memory.orders() == {}


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"limit": "0"}, "limit: should be greater than or equal to 1"),
        ({"limit": "many"}, "limit: should be a whole number"),
        ({"where": "{"}, "where: is not JSON"),
        ({"symbl": "BTC"}, "symbl: unknown field"),
        ({"symbol": ["BTC", "ETH"]}, "symbol: is given 2 times"),
        ({"where": "[1]"}, "where: should be a JSON object"),
    ],
)
def test_a_wrong_query_is_a_problem_that_names_the_field(client, query, said):
    assert_problem(client.get("/v1/list_orders", params=query), 422, said)


@pytest.mark.parametrize(("kind", "status"), [("locked", 503), ("conflict", 409), ("unknown", 404)])
def test_what_the_engine_refuses_has_its_own_status(client, kind, status):
    answer = client.post("/v1/make_trouble", json={"kind": kind})
    assert_problem(answer, status)
    assert answer.headers.get("retry-after") == ("1" if kind == "locked" else None)


def test_a_bug_is_logged_with_its_trace_and_answered_without_it(client, caplog):
    answer = client.post("/v1/make_trouble", json={"kind": "bug"})
    assert_problem(answer, 500, "internal error")
    assert "secret" not in answer.text and "the secret of the desk" in caplog.text and "Traceback" in caplog.text
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_path_that_is_not_there_is_a_problem_too(client):
    assert_problem(client.get("/v1/list_order"), 404, "Did you mean list_orders")
    assert_problem(client.get("/nowhere"), 404, "There is no page or operation at /nowhere")
    assert_problem(client.delete("/v1/list_orders"), 405, "DELETE")


def test_only_json_is_taken_as_a_body(client, memory):
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert_problem(client.post("/v1/place_order", content=b"symbol=BTC", headers=form), 415, "Content-Type: application/json")
    assert_problem(client.post("/v1/place_order", content=b"{}", headers={"content-type": "text/plain"}), 415)
    named = {"content-type": "Application/JSON; charset=utf-8"}
    assert client.post("/v1/place_order", content=json.dumps(ORDER), headers=named).status_code == 200


def test_a_huge_body_is_refused_whether_or_not_it_says_so(client):
    huge = b'{"note": "' + b"x" * MAX_BODY + b'"}'
    assert_problem(client.post("/v1/make_trouble", content=huge), 413, "8388608 bytes")

    def parts() -> Iterator[bytes]:
        for _ in range(9):
            yield b"x" * (MAX_BODY // 8)

    assert_problem(client.post("/v1/make_trouble", content=parts()), 413)
    assert_problem(client.post("/mcp", content=huge, headers={"content-type": "application/json"}), 413)


# Repeating a write


def test_the_idempotency_key_becomes_the_id_of_a_write_that_has_none(client):
    key = {"Idempotency-Key": "tick-7"}
    first = client.post("/v1/place_order", json=ORDER, headers=key).json()
    again = client.post("/v1/place_order", json=ORDER, headers=key).json()
    assert (first["id"], first["duplicate"], again["duplicate"]) == ("tick-7", False, True)


def test_a_repeated_key_gives_the_same_answer_without_doing_it_again(client, memory):
    key = {"Idempotency-Key": "calm-1"}
    first = client.post("/v1/make_trouble", json={"kind": "slow", "note": "a"}, headers=key)
    again = client.post("/v1/make_trouble", json={"kind": "slow", "note": "a"}, headers=key)
    assert first.content == again.content and memory.orders() == {"calm": 1}
    other = client.post("/v1/make_trouble", json={"kind": "slow", "note": "b"}, headers=key)
    assert_problem(other, 409, "Idempotency-Key: was used with another body")


def test_two_deliveries_at_once_with_one_key_do_it_once(client, memory):
    answers: list[bytes] = []

    def deliver() -> None:
        key = {"Idempotency-Key": "calm-2"}
        answers.append(client.post("/v1/make_trouble", json={"kind": "slow"}, headers=key).content)

    threads = [threading.Thread(target=deliver) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(answers)) == 1 and memory.orders() == {"calm": 1}


def test_a_failed_write_may_be_tried_again_with_its_key(client):
    key = {"Idempotency-Key": "calm-3"}
    assert_problem(client.post("/v1/make_trouble", json={"kind": "locked"}, headers=key), 503)
    assert client.post("/v1/make_trouble", json={"kind": "slow"}, headers=key).json()["count"] == 1
    assert_problem(client.post("/v1/make_trouble", json={"kind": "slow"}, headers={"Idempotency-Key": "k" * 129}), 422)


# The door


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:8300", "LOCALHOST", "[::1]:8300", "[::1]"])
def test_memtape_answers_to_loopback_names(client, host):
    assert client.get("/healthz", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "testserver",
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example:80",
        "localhost:80@evil",
        "10.0.0.5",
        "",
    ],
)
def test_memtape_does_not_answer_to_other_names(client, host):
    for path in ("/healthz", "/v1/list_orders", "/mcp"):
        assert_problem(client.get(path, headers={"host": host}), 421, "Host")


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1:9999", "http://127.0.0.1:8300.evil.example"]
)
def test_a_page_of_another_site_cannot_write(client, memory, origin):
    assert_problem(client.post("/v1/place_order", json=ORDER, headers={"origin": origin}), 403, "Origin")
    assert_problem(client.post("/mcp", json={}, headers={"origin": origin}), 403)
    assert memory.orders() == {}


def test_our_own_pages_and_programs_can_write(client):
    assert client.post("/v1/place_order", json=ORDER, headers={"origin": HERE}).status_code == 200
    assert client.post("/v1/place_order", json=ORDER, headers={"sec-fetch-site": "same-origin"}).status_code == 200
    assert_problem(client.post("/v1/place_order", json=ORDER, headers={"sec-fetch-site": "cross-site"}), 403)


@pytest.mark.parametrize("path", ["/v1/list_orders", "/v1/nothing", "/healthz", "/metrics", "/v1/openapi.json"])
def test_every_answer_carries_the_security_headers(client, path):
    headers = client.get(path).headers
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert headers["x-content-type-options"] == "nosniff" and headers["x-frame-options"] == "DENY"
    assert "access-control-allow-origin" not in headers


def test_the_pages_keep_their_own_policy(memory):
    def web(app: FastAPI) -> None:
        @app.get("/", include_in_schema=False)
        def home() -> HTMLResponse:
            return HTMLResponse("<p>hello", headers={"content-security-policy": "default-src 'self'"})

    with client_of(build_app(memory, mcp=False, web=web, operations=DESK)) as client:  # type: ignore[arg-type]
        answer = client.get("/")
        assert answer.headers["content-security-policy"] == "default-src 'self'"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert_problem(client.post("/mcp", json={}), 404)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "[::1]"])
def test_loopback_may_be_bound(host):
    assert check_bind(host) == host.strip("[]")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "memtape.example", "", "127.0.0.2"])
def test_anything_else_may_not_be_bound(host):
    with pytest.raises(Invalid, match=r"host: .* is not a loopback address. Use 127.0.0.1"):
        check_bind(host)


def test_a_port_that_is_taken_is_a_conflict():
    with listen(port=0) as first:
        port = first.getsockname()[1]
        with pytest.raises(Conflict, match=f"port: {port} cannot be used"):
            listen(port=port)
    for wrong in (-1, 70_000):
        with pytest.raises(Conflict, match="port"):
            listen(port=wrong)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_server_closes_its_memory(tmp_path, how):
    program = Program((sys.executable, str(Path(__file__).with_name("desk.py"))), db_option=())
    with program.serving(str(tmp_path / "desk.json"), stop=how) as address:
        assert httpx.post(f"{address}/v1/place_order", json=ORDER).status_code == 200
    assert (tmp_path / "desk.closed").exists()


# Health


def test_ready_means_the_store_can_be_read(memory):
    state: list[Exception] = []

    def ready() -> None:
        if state:
            raise state[0]

    def rows() -> int:
        ready()
        return 42

    app = build_app(memory, mcp=False, ready=ready, log_rows=rows, operations=DESK)  # type: ignore[arg-type]
    with client_of(app) as client:
        assert client.get("/readyz").json() == {"ok": True}
        assert "memtape_log_rows 42\n" in client.get("/metrics").text
        for error in (Locked(url="desk.db", seconds=5), NoStore(url="desk.db", problem="no such folder")):
            state[:] = [error]
            assert_problem(client.get("/readyz"), 503, "desk.db")
            assert client.get("/healthz").status_code == 200
            metrics = client.get("/metrics").text
            assert "memtape_store_readable 0\n" in metrics and "memtape_log_rows" not in metrics


def test_requests_are_counted_by_operation_and_status_and_never_by_a_made_up_path(client):
    client.post("/v1/place_order", json=ORDER)
    client.post("/v1/submit_order", json=ORDER)
    client.post("/v1/place_order", json={})
    client.get('/v1/x"} 1')
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'memtape_requests_total{operation="place_order",status="200"} 2\n' in answer.text
    assert 'memtape_requests_total{operation="place_order",status="422"} 1\n' in answer.text
    assert 'memtape_requests_total{operation="other",status="404"} 1\n' in answer.text
    assert 'memtape_request_seconds_count{operation="place_order",status="200"} 2\n' in answer.text


def test_an_application_can_be_started_again(memory):
    app = build_app(memory, operations=DESK)  # type: ignore[arg-type]
    for _ in range(2):
        with client_of(app) as client:
            assert client.get("/healthz").status_code == 200


def test_a_write_that_takes_minutes_keeps_only_its_own_key_waiting():
    from memtape.surfaces.http.idempotency import IdempotentAnswers

    async def ask() -> list[str]:
        answers, ended, order = IdempotentAnswers(), anyio.Event(), []

        async def run() -> bytes:
            order.append("a run begins")
            await ended.wait()
            return b"run"

        async def note() -> bytes:
            return b"note"

        async def repeated() -> None:
            order.append((await answers.once(("run_agent", "k1"), b"{}", run)).decode())

        async with anyio.create_task_group() as group:
            group.start_soon(repeated)
            group.start_soon(repeated)
            await anyio.sleep(0.01)
            with anyio.fail_after(5):
                order.append((await answers.once(("append_note", "k2"), b"{}", note)).decode())
            ended.set()
        assert not answers._at_work
        return order

    assert anyio.run(ask) == ["a run begins", "note", "run", "run"]
