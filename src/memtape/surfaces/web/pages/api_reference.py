"""The pages that explain the HTTP interface, made from its OpenAPI document.

/docs                the operations by group
/docs/{operation}    one operation: what it takes, what it returns, a command that calls it
"""

from __future__ import annotations

from starlette.responses import Response

from memtape.core.near_names import meant
from memtape.errors import Unknown
from memtape.surfaces.web.api_reference import ApiOperation, api_operations, operations_by_group
from memtape.surfaces.web.register import page
from memtape.surfaces.web.site import PageRequest


@page("/docs")
def api_page(request: PageRequest) -> Response:
    """Every operation, by group."""
    return request.site.render("api.html", groups=operations_by_group(_operations(request)))


@page("/docs/{operation}")
def api_operation_page(request: PageRequest) -> Response:
    """One operation."""
    operations, name = _operations(request), request.value("operation")
    if name not in operations:
        raise Unknown("operation", "operation", name, meant(name, operations) or "Choose one on /docs")
    return request.site.render("api_operation.html", operation=operations[name])


def _operations(request: PageRequest) -> dict[str, ApiOperation]:
    return api_operations(request.http.app.openapi())
