"""The web pages, made on the server from what the operations answer. `add_pages` puts them on an app."""

from __future__ import annotations

from os import PathLike, stat_result
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from memtape.errors import Unknown
from memtape.surfaces.web.register import PageEntry, all_pages
from memtape.surfaces.web.site import PageRequest, Site

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.types import Scope

    from memtape.engine import Memory
    from memtape.engine.proof.projection_health import StoreHealth

__all__ = ["add_pages"]

STATIC = Path(__file__).with_name("static")


def add_pages(app: FastAPI, memory: Memory, health: StoreHealth | None = None) -> None:
    """Puts the pages of a memory on an app: `build_app(memory, web=partial(add_pages, memory=memory))`.

    The first page shows what `health` knows to be wrong; without it, what a quick look finds.
    """
    site = Site(memory, health)
    routes = app.router.routes
    # The first route that fits answers, so an address without a gap comes before one with: /agents/new, then /agents/{agent}.
    for entry in sorted(all_pages(), key=lambda entry: "{" in entry.address):
        routes.append(Route(entry.address, site.endpoint(entry), methods=["POST" if entry.kind == "form" else "GET"]))
    routes.append(Mount("/static", StaticAssets(directory=STATIC)))
    routes.append(Route("/skills", _to_the_agents))
    for start in ("/agents", "/skills", "/results"):
        routes.append(Route(f"{start}/{{rest:path}}", site.endpoint(PageEntry(f"{start}/", _unknown_page, "page"))))


def _to_the_agents(request: Request) -> Response:
    return RedirectResponse("/", 308)


def _unknown_page(request: PageRequest) -> Response:
    raise Unknown("page", "page", request.http.url.path, "Start from the list of agents")


class StaticAssets(StaticFiles):
    """The files of the pages; a browser may store them and asks each time whether they have changed."""

    def file_response(
        self, full_path: str | PathLike[str], stat_result: stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers["cache-control"] = "no-cache"
        return response
