"""The socket that memtape listens on, and the loop that serves it. memtape has no passwords yet, so it is loopback only."""

from __future__ import annotations

import signal
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from memtape.errors import Conflict, Invalid

if TYPE_CHECKING:
    from fastapi import FastAPI


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
