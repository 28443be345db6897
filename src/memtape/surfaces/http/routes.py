"""Every operation at its address: POST with a JSON object, and GET with a query for those that only read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from fastapi import FastAPI, Request, Response
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse

from memtape.errors import Invalid
from memtape.surfaces.caller import Caller
from memtape.surfaces.http.idempotency import IdempotentAnswers
from memtape.surfaces.http.openapi import RUN_REEXAMINATIONS, openapi_document
from memtape.surfaces.questions import agent_of_run
from memtape.surfaces.registry import Operation, params_schema, perform
from memtape.surfaces.translate import Input, inputs, json_text, read_json

if TYPE_CHECKING:
    from memtape.engine import Memory

REFERENCE_PAGE = "/docs"  # one of the web pages


def add_operation_routes(app: FastAPI, memory: Memory, derived: Mapping[str, Operation], agent: str | None) -> None:
    threads = anyio.CapacityLimiter(8)
    # Operations that ask a model take minutes: they must not keep the others waiting.
    waiting_threads = anyio.CapacityLimiter(32)
    stored = IdempotentAnswers()
    caller = Caller("owner", agent, over_network=True)

    async def answer(known: Operation, data: object) -> bytes:
        limiter = waiting_threads if known.waits else threads
        done = await anyio.to_thread.run_sync(perform, memory, known, data, caller, limiter=limiter)
        return json_text(done).encode()

    for known in derived.values():
        for name in (known.name, *known.aliases):
            described: dict[str, Any] = {
                "operation_id": name,
                "summary": known.summary,
                "description": known.doc,
                "tags": [known.group],
                "include_in_schema": name == known.name,
                "response_model": None,
            }
            app.add_api_route(f"/v1/{name}", _posted(known, answer, stored), methods=["POST"], **described)
            if not known.writes:
                described["operation_id"] = f"{name}_by_query"
                app.add_api_route(f"/v1/{name}", _queried(known, answer), methods=["GET"], **described)
    if "list_reexaminations" in derived:
        listed = derived["list_reexaminations"]
        app.add_api_route(
            RUN_REEXAMINATIONS, _reexaminations_of_run(memory, listed, answer, agent, threads), methods=["GET"],
            operation_id="run_reexaminations", summary=listed.summary, description=listed.doc, tags=[listed.group],
            response_model=None,
        )  # fmt: skip
    app.add_api_route("/v1", _operation_list(app, derived), methods=["GET"], include_in_schema=False, response_model=None)
    app.openapi = partial(openapi_document, app, derived)  # type: ignore[method-assign]


Answer = Callable[[Operation, object], Awaitable[bytes]]


def _posted(known: Operation, answer: Answer, stored: IdempotentAnswers) -> Callable[[Request], Awaitable[Response]]:
    async def post(request: Request) -> Response:
        body = await request.body()
        data = _body(body, request.headers)
        key = request.headers.get("idempotency-key") if known.writes else None
        if key is None:
            return json_response(await answer(known, data))
        if not 1 <= len(key) <= 128 or not key.isprintable():
            raise Invalid("Idempotency-Key", "is not a key", "Send 1 to 128 printable characters")
        if "id" in known.params.model_fields and "id" not in data:
            return json_response(await answer(known, {**data, "id": key}))
        return json_response(await stored.once((known.name, key), body, partial(answer, known, data)))

    return post


def _queried(known: Operation, answer: Answer) -> Callable[[Request], Awaitable[Response]]:
    fields = {field.name: field for field in inputs(params_schema(known))}

    async def get(request: Request) -> Response:
        query = request.query_params
        data = {name: _typed(fields.get(name), query.getlist(name)) for name in query}
        return json_response(await answer(known, data))

    return get


def _reexaminations_of_run(
    memory: Memory, known: Operation, answer: Answer, agent: str | None, threads: anyio.CapacityLimiter
) -> Callable[[Request], Awaitable[Response]]:
    """The conviction history of a run at its own address. Without an agent: the server's agent, else the one that has the run."""

    async def get(request: Request) -> Response:
        run, query = request.path_params["run"], dict(request.query_params)
        if unknown := sorted(query.keys() - {"agent"}):
            raise Invalid(unknown[0], "is not a field of this address", "Only agent may follow the question mark")
        # An agent without that run has no history to show: that is an error, not an empty list.
        named = await anyio.to_thread.run_sync(agent_of_run, memory, run, query.get("agent") or agent, limiter=threads)
        return json_response(await answer(known, {"agent": named, "run": run}))

    return get


def _operation_list(app: FastAPI, derived: Mapping[str, Operation]) -> Callable[[Request], Awaitable[Response]]:
    """The start of the API: a program gets the list of operations, a person who opens it in a browser the pages of /docs."""

    async def get(request: Request) -> Response:
        has_pages = any(getattr(route, "path", None) == REFERENCE_PAGE for route in app.router.routes)
        if has_pages and "text/html" in request.headers.get("accept", ""):
            return RedirectResponse(REFERENCE_PAGE, 303, {"vary": "Accept"})
        groups: dict[str, list[dict[str, object]]] = {}
        for known in sorted(derived.values(), key=lambda known: (known.group, known.name)):
            row = {"name": known.name, "address": f"/v1/{known.name}", "writes": known.writes, "summary": known.summary}
            groups.setdefault(known.group, []).append(row)
        listed = {"openapi": "/v1/openapi.json", "docs": REFERENCE_PAGE if has_pages else None, "groups": groups}
        return Response(json_text(listed), media_type="application/json", headers={"vary": "Accept"})

    return get


def _typed(field: Input | None, texts: list[str]) -> object:
    return texts[0] if field is None else field.read(texts)  # the params refuse an unknown name


def _body(body: bytes, headers: Headers) -> dict[str, Any]:
    if not body.strip():
        return {}
    kind = headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise HTTPException(415, f"body: is '{kind}', not JSON. Send it with Content-Type: application/json")
    data = read_json(body, "body")
    if not isinstance(data, dict):
        raise Invalid("body", "is not a JSON object", 'Write the fields by name, like {"agent": "main"}')
    return data


def json_response(body: bytes) -> Response:
    return Response(body, media_type="application/json")
