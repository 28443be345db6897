"""The operations over HTTP under /v1, with MCP at /mcp and the web pages beside them.

Every error is answered as a problem (RFC 9457), each kind in one place: a `MemtapeError` by its row in `translate`, an error
of the framework by `_framework_problem`, a bug by the `RequestGuard`, which logs it. The guard runs before everything
else. memtape has no passwords yet, so it answers only this machine: it listens on loopback, accepts only loopback host
names (another site can point its own name at 127.0.0.1), and refuses writes from other sites.
"""

from __future__ import annotations

import hashlib
import logging
import re
import signal
import socket
from collections import OrderedDict, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from http import HTTPStatus
from time import perf_counter
from typing import TYPE_CHECKING, Any

import anyio
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memtape.errors import Conflict, FieldProblem, Invalid, Locked, MemtapeError, Unknown
from memtape.surfaces.caller import Caller
from memtape.surfaces.questions import agent_of_run
from memtape.surfaces.registry import Operation, ToolSet, UntitledSchema, all_operations, find, params_schema, perform
from memtape.surfaces.translate import Input, inputs, json_text, problem, problem_object, read_json

if TYPE_CHECKING:
    from memtape.engine import Memory

log = logging.getLogger(__name__)

MAX_BODY = 8 * 1024 * 1024
MAX_BODY_SECONDS = 10.0  # until a request is complete
MAX_IDEMPOTENCY_KEYS = 1024
RUN_REEXAMINATIONS = "/v1/runs/{run}/re-examinations"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
LOOPBACK_HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)
API_HEADERS = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


def check_bind(host: str) -> str:
    """The host to listen on. Raises `Invalid` unless it is loopback: without passwords, other machines must not reach memtape."""
    if host.lower() in ("127.0.0.1", "localhost", "::1", "[::1]"):
        return host.strip("[]")
    raise Invalid(
        "host",
        f"'{host}' is not a loopback address",
        "Use 127.0.0.1, and reach it from another machine through a tunnel, like ssh -L 8765:127.0.0.1:8765 HOST",
    )


def listen(host: str = "127.0.0.1", port: int = 8765) -> socket.socket:
    """A socket that listens on loopback; port 0 takes a free port (see `getsockname`)."""
    host = check_bind(host)
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen()
    except (OSError, OverflowError) as error:
        listener.close()
        # Port 8765 is that of every memtape: most likely it is another one.
        fix = f"Stop what uses it, or choose another: --port {port + 1} (make run PORT={port + 1}); 0 takes a free one"
        raise Conflict("port", f"{port} cannot be used ({error})", fix) from None
    return listener


def run_http(app: FastAPI, listener: socket.socket) -> None:
    """Serve until ctrl-C or SIGTERM, then return, so that the caller can close the memory."""
    import uvicorn

    def stop(*_: object) -> None:
        raise SystemExit(0)

    # uvicorn finishes running requests and then raises the signal again; unhandled, that would end the process at once.
    signal.signal(signal.SIGTERM, stop)
    config = uvicorn.Config(app, log_level="warning", proxy_headers=False, server_header=False, timeout_graceful_shutdown=5)
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])


def build_app(
    memory: Memory,
    *,
    mcp: bool = True,
    web: Callable[[FastAPI], None] | None = None,
    agent: str | None = None,
    tools: ToolSet = "trader",
    any_agent: bool = False,
    reports: bool = False,
    ready: Callable[[], object] | None = None,
    log_rows: Callable[[], int] | None = None,
    operations: Mapping[str, Operation] | None = None,
) -> FastAPI:
    """The application that `memtape serve` runs.

    `web` adds the pages; `ready` raises a `MemtapeError` if the store cannot be read; /metrics shows `log_rows`;
    `agent` is for /mcp and /v1; `tools`, `any_agent` and `reports` are for /mcp. `/mcp?agent=A` is bound to the agent A.
    """
    derived = operations or all_operations()
    endpoints: list[Callable[[], Any]] = []

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for running in endpoints:
                await stack.enter_async_context(running())
            yield

    app = FastAPI(title="memtape", version="1", lifespan=lifespan, openapi_url="/v1/openapi.json", docs_url=None, redoc_url=None)
    requests = Requests(derived)
    _add_operations(app, memory, derived, agent)
    _add_health(app, requests, ready, log_rows)
    if mcp:
        from memtape.surfaces.mcp import HttpEndpoint, build_server  # slow to import

        server = build_server(
            lambda: memory, tools=tools, agent=agent, any_agent=any_agent, reports=reports, operations=derived
        )
        endpoint = HttpEndpoint(server, MAX_BODY)
        app.router.routes.append(Route("/mcp", endpoint=endpoint, methods=["POST"]))
        endpoints.append(endpoint.running)
    if web is not None:
        web(app)
    app.add_exception_handler(MemtapeError, _memtape_problem)
    app.add_exception_handler(HTTPException, partial(_framework_problem, derived))
    app.add_exception_handler(RequestValidationError, _validation_problem)
    app.add_middleware(RequestGuard, requests=requests)
    return app


# Operations


def _add_operations(app: FastAPI, memory: Memory, derived: Mapping[str, Operation], agent: str | None) -> None:
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
                "tags": ["write" if known.writes else "read"],
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
            operation_id="run_reexaminations", summary=listed.summary, description=listed.doc, tags=["read"], response_model=None,
        )  # fmt: skip
    app.openapi = partial(_openapi, app, derived)  # type: ignore[method-assign]


Answer = Callable[[Operation, object], Awaitable[bytes]]


def _posted(known: Operation, answer: Answer, stored: IdempotentAnswers) -> Callable[[Request], Awaitable[Response]]:
    async def post(request: Request) -> Response:
        body = await request.body()
        data = _body(body, request.headers)
        key = request.headers.get("idempotency-key") if known.writes else None
        if key is None:
            return _json(await answer(known, data))
        if not 1 <= len(key) <= 128 or not key.isprintable():
            raise Invalid("Idempotency-Key", "is not a key", "Send 1 to 128 printable characters")
        if "id" in known.params.model_fields and "id" not in data:
            return _json(await answer(known, {**data, "id": key}))
        return _json(await stored.once((known.name, key), body, partial(answer, known, data)))

    return post


def _queried(known: Operation, answer: Answer) -> Callable[[Request], Awaitable[Response]]:
    fields = {field.name: field for field in inputs(params_schema(known))}

    async def get(request: Request) -> Response:
        query = request.query_params
        data = {name: _typed(fields.get(name), query.getlist(name)) for name in query}
        return _json(await answer(known, data))

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
        return _json(await answer(known, {"agent": named, "run": run}))

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


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json")


class IdempotentAnswers:
    """Answers of this process by Idempotency-Key, for writes without an id.

    Only successful answers are stored: after an error the same key may be sent again, with the same or another body.
    """

    def __init__(self, size: int = MAX_IDEMPOTENCY_KEYS) -> None:
        self._size = size
        self._answers: OrderedDict[tuple[str, str], tuple[bytes, bytes]] = OrderedDict()
        # By key: a repeated request waits for the answer of the first. Others do not: a run of an agent takes minutes.
        self._at_work: dict[tuple[str, str], anyio.Lock] = {}

    async def once(self, key: tuple[str, str], body: bytes, make: Callable[[], Awaitable[bytes]]) -> bytes:
        digest = hashlib.sha256(body).digest()
        lock = self._at_work.setdefault(key, anyio.Lock())
        try:
            async with lock:
                before, answer = self._answers.get(key, (digest, b""))
                if before != digest:
                    raise Conflict("Idempotency-Key", "was used with another body", "Use a new key, or send the same body")
                if not answer:
                    answer = await make()
                    self._answers[key] = (digest, answer)
                    while len(self._answers) > self._size:
                        self._answers.popitem(last=False)
                return answer
        finally:
            if not lock.locked() and not lock.statistics().tasks_waiting:
                self._at_work.pop(key, None)


def _openapi(app: FastAPI, derived: Mapping[str, Operation]) -> dict[str, Any]:
    """The OpenAPI document of the framework, with the params and results of the operations added."""
    if app.openapi_schema:
        return app.openapi_schema
    document = get_openapi(title="memtape", version="1", description=(__doc__ or "").split("\n")[0], routes=app.routes)
    refs, models = models_json_schema(
        [pair for known in derived.values() for pair in ((known.params, "validation"), (known.result, "serialization"))],
        ref_template="#/components/schemas/{model}",
        schema_generator=UntitledSchema,
    )
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    schemas |= {**models.get("$defs", {}), "Problem": _PROBLEM_SCHEMA}
    for known in derived.values():
        for method, entry in document["paths"][f"/v1/{known.name}"].items():
            asked = refs[known.params, "validation"]
            if method == "post":
                required = any(field.required for field in inputs(params_schema(known)))
                entry["requestBody"] = {"required": required, "content": {"application/json": {"schema": asked}}}
            else:
                fields = schemas[asked["$ref"].rpartition("/")[2]]["properties"]
                entry["parameters"] = [_parameter(field, fields) for field in inputs(params_schema(known))]
            if known.writes:
                entry["parameters"] = [
                    {"name": "Idempotency-Key", "in": "header", "required": False, "schema": {"type": "string"}}
                ]
            returned = {"application/json": {"schema": refs[known.result, "serialization"]}}
            entry["responses"] = {"200": {"description": known.summary, "content": returned}, "default": _PROBLEM}
    if "list_reexaminations" in derived:
        listed = derived["list_reexaminations"]
        returned = {"application/json": {"schema": refs[listed.result, "serialization"]}}
        document["paths"][RUN_REEXAMINATIONS]["get"] |= {
            "parameters": [
                {"name": "run", "in": "path", "required": True, "schema": _TEXT,
                 "description": "the run, or the id of a decision"},
                {"name": "agent", "in": "query", "required": False, "schema": _TEXT,
                 "description": "the agent; default: the server's agent, else the one that has the run"},
            ],
            "responses": {"200": {"description": listed.summary, "content": returned}, "default": _PROBLEM},
        }  # fmt: skip
    app.openapi_schema = document
    return document


def _parameter(field: Input, schemas: Mapping[str, Any]) -> dict[str, Any]:
    schema = schemas[field.name]
    shaped = {"content": {"application/json": {"schema": schema}}} if field.kind == "json" else {"schema": schema}
    return {"name": field.name, "in": "query", "required": field.required, "description": field.help, **shaped}


_TEXT = {"type": "string"}
_PROBLEM_SCHEMA = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {name: {"type": "string"} for name in ("type", "title", "detail", "field", "fix")}
    | {
        "status": {"type": "integer"},
        "errors": {
            "type": "array",
            "items": {"type": "object", "properties": {name: {"type": "string"} for name in ("field", "problem", "fix")}},
        },
    },
}
_PROBLEM = {
    "description": "What is wrong, and what to do about it.",
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
}


# Problems


def _problem(body: Mapping[str, object], headers: Mapping[str, str] | None = None) -> Response:
    status = body["status"]
    assert isinstance(status, int)
    return Response(json_text(body), status, headers, media_type="application/problem+json")


async def _memtape_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, MemtapeError)
    return _problem(problem(error), {"retry-after": "1"} if isinstance(error, Locked) else None)


async def _framework_problem(derived: Mapping[str, Operation], request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = error.detail
    if error.status_code == 404 and request.url.path.startswith("/v1/"):
        try:
            find(request.url.path.removeprefix("/v1/"), derived)
        except Unknown as unknown:
            return _problem(problem(unknown))
    if error.status_code == 404 and detail == "Not Found":
        detail = f"There is no page or operation at {request.url.path}. /v1/openapi.json lists the operations"
    if error.status_code == 405:
        operation = derived.get(request.url.path.removeprefix("/v1/"))
        reads = operation is not None and not operation.writes
        allowed = "GET or POST" if reads else (error.headers or {}).get("Allow", "another method")
        detail = f"{request.method} is not allowed for {request.url.path}. Use {allowed}"
    return _problem(problem_object(error.status_code, _title(error.status_code), detail), error.headers)


async def _validation_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    problems = [
        FieldProblem(".".join(str(part) for part in each["loc"][1:]) or "input", str(each["msg"]).lower(), "Correct it")
        for each in error.errors()
    ]
    return _problem(problem(Invalid(*problems[0], *problems[1:])))


def _title(status: int) -> str:
    return HTTPStatus(status).phrase.capitalize()


# Health


class Requests:
    """Counts and durations of requests, by operation and status."""

    def __init__(self, operations: Mapping[str, Operation]) -> None:
        self._names = {f"/v1/{name}": known.name for known in operations.values() for name in (known.name, *known.aliases)}
        self._counts: defaultdict[tuple[str, int], int] = defaultdict(int)
        self._seconds: defaultdict[tuple[str, int], float] = defaultdict(float)

    def count(self, path: str, status: int, seconds: float) -> None:
        # There are only a few labels: a made-up path must not become a new series.
        label = (self._names.get(path) or ("mcp" if path == "/mcp" else "other"), status)
        self._counts[label] += 1
        self._seconds[label] += seconds

    def lines(self) -> list[str]:
        labels = {key: f'{{operation="{key[0]}",status="{key[1]}"}}' for key in sorted(self._counts)}
        return [
            "# HELP memtape_requests_total Requests answered.",
            "# TYPE memtape_requests_total counter",
            *(f"memtape_requests_total{label} {self._counts[key]}" for key, label in labels.items()),
            "# HELP memtape_request_seconds Time to answer.",
            "# TYPE memtape_request_seconds summary",
            *(f"memtape_request_seconds_sum{label} {self._seconds[key]:.6f}" for key, label in labels.items()),
            *(f"memtape_request_seconds_count{label} {self._counts[key]}" for key, label in labels.items()),
        ]


def _add_health(app: FastAPI, requests: Requests, ready: Callable[[], object] | None, log_rows: Callable[[], int] | None) -> None:
    @app.get("/healthz", include_in_schema=False)
    async def healthz() -> Response:
        return _json(b'{"ok": true}')

    @app.get("/readyz", include_in_schema=False)
    async def readyz() -> Response:
        if ready is not None:
            try:
                await anyio.to_thread.run_sync(ready)
            except MemtapeError as error:
                return _problem({**problem(error), "status": 503}, {"retry-after": "1"})
        return _json(b'{"ok": true}')

    @app.get("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        lines = requests.lines()
        if log_rows is not None:
            lines += ["# HELP memtape_store_readable 1 if the store can be read."]
            lines += ["# TYPE memtape_store_readable gauge"]
            try:
                rows = await anyio.to_thread.run_sync(log_rows)
            except MemtapeError:
                lines += ["memtape_store_readable 0"]
            else:
                lines += ["memtape_store_readable 1", "# HELP memtape_log_rows Rows in the log."]
                lines += ["# TYPE memtape_log_rows gauge", f"memtape_log_rows {rows}"]
        return Response("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4; charset=utf-8")


# The guard


class SlowBody(Exception):
    """A body that was not complete in time; it would hold a connection for ever."""


class RequestGuard:
    """Runs before everything else: checks who calls and how much they send, and sets the headers of every answer."""

    def __init__(
        self, app: ASGIApp, requests: Requests, max_body: int = MAX_BODY, body_seconds: float = MAX_BODY_SECONDS
    ) -> None:
        self._app, self._requests, self._max_body, self._body_seconds = app, requests, max_body, body_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = perf_counter(), 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in API_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            if refused := _stranger(scope):
                await refused(scope, receive, sending)
            elif scope["method"] in SAFE_METHODS:
                await self._app(scope, receive, sending)
            elif (body := await self._body_in_time(scope, receive)) is None:
                await _refuse(413, f"The body is larger than {self._max_body} bytes. Send it in parts")(scope, receive, sending)
            else:
                await self._app(scope, _replay(body, receive), sending)
        except ClientDisconnect:
            status = 499
        except SlowBody:
            slow = f"The body was not complete after {self._body_seconds:g} s. Send it again"
            await _refuse(408, slow)(scope, receive, sending)
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            if status:
                raise  # the answer has begun; breaking the connection is the only signal left
            await _refuse(500, "An internal error of memtape; the request is not at fault. See the log of memtape")(
                scope, receive, sending
            )
        finally:
            self._requests.count(scope["path"], status, perf_counter() - began)

    async def _body_in_time(self, scope: Scope, receive: Receive) -> bytes | None:
        """The body, or None if it is too large. Raises `SlowBody` if it is not complete in time."""
        try:
            with anyio.fail_after(self._body_seconds):
                return await _whole_body(scope, receive, self._max_body)
        except TimeoutError:
            raise SlowBody from None


def _refuse(status: int, detail: str) -> Response:
    return _problem(problem_object(status, _title(status), detail))


def _stranger(scope: Scope) -> Response | None:
    """The refusal of a request that does not come from a user of this machine, or None."""
    headers = Headers(scope=scope)
    hosts = headers.getlist("host")
    if len(hosts) != 1 or not LOOPBACK_HOST.fullmatch(hosts[0]):
        return _refuse(421, "Host: memtape answers only to 127.0.0.1, localhost and [::1]. Use one of these")
    if scope["method"] in SAFE_METHODS:
        return None
    origin = headers.get("origin")
    if origin is not None and origin.lower() not in (f"http://{hosts[0].lower()}", f"https://{hosts[0].lower()}"):
        return _refuse(403, "Origin: a page of another site may not write. Call memtape from its own pages or a program")
    if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return _refuse(403, "Sec-Fetch-Site: a page of another site may not write")
    return None


async def _whole_body(scope: Scope, receive: Receive, limit: int) -> bytes | None:
    """The body, or None if it is too large. Read here, so that no handler has to check the size."""
    declared = Headers(scope=scope).get("content-length", "0")
    if declared.isascii() and declared.isdigit() and (len(declared) > 12 or int(declared) > limit):
        return None
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect  # a partial body must not be processed
        body += message.get("body", b"")
        if len(body) > limit:
            return None
        if not message.get("more_body", False):
            return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    parts: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return parts.pop() if parts else await receive()

    return replayed
