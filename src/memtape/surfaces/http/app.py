"""The operations over HTTP under /v1, with MCP at /mcp and the web pages beside them.

Every error is answered as a problem (RFC 9457), each kind in one place: a `MemtapeError` by its row in `translate`, an error
of the framework by `_framework_problem`, a bug by the `RequestGuard`, which logs it. The guard runs before everything
else. memtape has no passwords yet, so it answers only this machine: it listens on loopback, accepts only loopback host
names (another site can point its own name at 127.0.0.1), and refuses writes from other sites.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from starlette.routing import Route

from memtape.surfaces.http.guard import MAX_BODY, RequestGuard
from memtape.surfaces.http.health import Requests, add_health
from memtape.surfaces.http.problems import add_problems
from memtape.surfaces.http.routes import add_operation_routes
from memtape.surfaces.registry import Operation, ToolSet, all_operations

if TYPE_CHECKING:
    from memtape.engine import Memory


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
    add_operation_routes(app, memory, derived, agent)
    add_health(app, requests, ready, log_rows)
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
    add_problems(app, derived)
    app.add_middleware(RequestGuard, requests=requests)
    return app


