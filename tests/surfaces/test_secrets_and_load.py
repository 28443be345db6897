"""Passwords are never shown, a model cannot choose a paid model, and a request that never ends is ended."""

from __future__ import annotations

import anyio
import pytest
from fastapi.testclient import TestClient

import memtape
from memtape.compose import open_memory, store_address, without_password
from memtape.errors import Invalid, MemtapeError, PermissionDenied
from memtape.surfaces.caller import Caller
from memtape.surfaces.http import build_app
from memtape.surfaces.http.guard import RequestGuard
from memtape.surfaces.http.health import Requests
from memtape.surfaces.registry import find, perform

SECRET = "hunter2-geheim"
ADDRESSES = [
    f"postgresql://ann:{SECRET}@127.0.0.1:1/db", f"postgres://:{SECRET}@127.0.0.1:1/db", f"postgresql://ann:p@{SECRET}@127.0.0.1:1/db",
    f"postgresql://ann:p/{SECRET}@127.0.0.1:1/db", f"postgresql://127.0.0.1:1/db?user=ann&password={SECRET}",
    f"postgresql://127.0.0.1:1/db?sslpassword={SECRET}", f"POSTGRESQL://ann:{SECRET}@127.0.0.1:1/db",
    f"host=127.0.0.1 port=1 user=ann password={SECRET} dbname=db", f"password='{SECRET}' host=127.0.0.1 port=1",
    f"mysql://ann:{SECRET}@host/db", f"postgresql:ann:{SECRET}@host/db", f"postgresql://ann:{SECRET}@127.0.0.1:bad/db",
    f"postgresql://ann:{SECRET}@127.0.0.1:1/db?nonsense=1",
    f"postgresql://127.0.0.1:1/db?%70assw%6Frd={SECRET}", f"postgresql://127.0.0.1:1/db?password=a {SECRET}", f"ann:{SECRET}@host/db",
    f"//ann:{SECRET}@host/db", f"postgresql//ann:{SECRET}@host/db", f"postgres/ann:{SECRET}@host/db",
]  # fmt: skip


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_message_shows_a_password(address: str, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert SECRET not in without_password(address)
    with pytest.raises(MemtapeError) as refused:
        open_memory(address)
    assert SECRET not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("address", ["host=h dbname=d", "dbname=d", "service=desk", "  user=ann"])
def test_a_libpq_string_is_never_taken_for_a_file_name(address: str) -> None:
    with pytest.raises(Invalid, match=r"Write postgresql://"):
        store_address(address)


def test_a_model_may_not_choose_a_paid_model_for_lessons() -> None:
    with memtape.open(":memory:") as memory:
        memory.create_skill("breakout")
        memory.create_agent("gold", skill="breakout")
        model = Caller("model", "gold", bound=True)
        with pytest.raises(PermissionDenied, match="owner only"):
            perform(memory, find("reflect_now"), {"model": "anthropic/claude-opus-4-5"}, model)
        for allowed in ({}, {"model": "stats"}):
            with pytest.raises(MemtapeError, match="no trade has closed yet"):
                perform(memory, find("reflect_now"), allowed, model)


def test_a_body_that_never_ends_is_refused_after_its_time() -> None:
    sent: list[dict] = []

    async def app(scope, receive, send) -> None:
        raise AssertionError("an incomplete body reached the application")

    async def never() -> dict:
        await anyio.sleep_forever()
        return {}

    async def send(message: dict) -> None:
        sent.append(message)

    async def main() -> None:
        scope = {"type": "http", "method": "POST", "path": "/v1/x", "headers": [(b"host", b"127.0.0.1"), (b"content-length", b"5")], "query_string": b""}
        await RequestGuard(app, Requests({}), body_seconds=0.01)(scope, never, send)

    anyio.run(main)
    assert sent[0]["status"] == 408 and b"not complete after" in sent[1]["body"]
    # Else a client that sends a byte now and then would hold the connection for ever.
    assert (b"connection", b"close") in sent[0]["headers"]


def test_a_batch_and_a_number_without_end_are_refused_in_plain_words() -> None:
    with memtape.open(":memory:") as memory, TestClient(build_app(memory), base_url="http://127.0.0.1") as client:
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        heads = {"accept": "application/json, text/event-stream"}
        refused = client.post("/mcp", json=[call, call], headers=heads)
        assert refused.status_code == 400 and refused.json()["error"]["message"] == "a batch is not taken: send one request at a time"
        assert client.post("/mcp", json=call, headers=heads).json()["result"]["tools"]
        endless = client.post("/v1/get_trades", content=b'{"limit":' + b"9" * 5000 + b"}", headers={"content-type": "application/json"})
        assert endless.status_code == 422 and "a number has 5,000 digits" in endless.json()["detail"]
