"""/healthz, /readyz and /metrics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping

import anyio
from fastapi import FastAPI, Response

from memtape.errors import MemtapeError
from memtape.surfaces.http.problems import problem_response
from memtape.surfaces.registry import Operation
from memtape.surfaces.translate import problem


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


def add_health(app: FastAPI, requests: Requests, ready: Callable[[], object] | None, log_rows: Callable[[], int] | None) -> None:
    @app.get("/healthz", include_in_schema=False)
    async def healthz() -> Response:
        return Response(b'{"ok": true}', media_type="application/json")

    @app.get("/readyz", include_in_schema=False)
    async def readyz() -> Response:
        if ready is not None:
            try:
                await anyio.to_thread.run_sync(ready)
            except MemtapeError as error:
                return problem_response({**problem(error), "status": 503}, {"retry-after": "1"})
        return Response(b'{"ok": true}', media_type="application/json")

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
