"""The operations over HTTP: an address for each of them under /v1, with MCP and the pages beside them."""

from memtape.surfaces.http.app import build_app
from memtape.surfaces.http.listening import check_bind, listen, run_http

__all__ = ["build_app", "check_bind", "listen", "run_http"]
