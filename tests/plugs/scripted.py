"""A server on this machine that plays a script: it writes down what it was asked, answers as its maker says, and misbehaves.

The last part of the script is played again for every further request. `Fails`, `Sends` and `Hangs` are the same whoever is
played; what a good reply is, and in which form a refusal is told, the maker says.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Fails:
    """A refusal by status."""

    status: int
    said: str = "not now"
    headers: Headers = ()


@dataclass(frozen=True)
class Sends:
    """A body as it is; `short` bytes of it are missing when the connection closes."""

    body: bytes
    content_type: str = "application/json"
    short: int = 0


@dataclass(frozen=True)
class Streams:
    """Server-sent events, written part by part; a part of None breaks the connection."""

    parts: Iterable[bytes | None]


@dataclass(frozen=True)
class Hangs:
    """No reply within so many seconds."""

    seconds: float = 5.0


@dataclass(frozen=True)
class Asked:
    """What the server was asked."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    raw: bytes = b""  # the body as it came


@dataclass
class Scripted:
    """The server, while it is open."""

    reply: Callable[[Any, Asked], dict[str, Any] | Sends | Streams]
    refuse: Callable[[Fails], dict[str, Any]]
    script: list[Any]
    refusing: Headers = ()  # with every refusal
    wrong: Callable[[Asked], str | None] = lambda asked: None  # what the provider would refuse a request for, whatever is played
    port: int = 0
    asked: list[Asked] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def plays(self, *parts: Any) -> None:
        """Forget what was, and play this from now on."""
        with self._lock:
            self.script, self.asked = list(parts), []

    def take(self, asked: Asked) -> Any:
        with self._lock:
            self.asked.append(asked)
            return self.script.pop(0) if len(self.script) > 1 else self.script[0]


@contextmanager
def open_on_a_port(server: Scripted) -> Iterator[None]:
    """Serve on a port of its own, closed in the end."""
    http = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    http.daemon_threads = True
    http.played = server  # type: ignore[attr-defined]
    server.port = http.server_address[1]
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.closing.set()
        http.shutdown()
        http.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        server: Scripted = self.server.played  # type: ignore[attr-defined]
        raw = self.rfile.read(int(self.headers["content-length"]))
        asked = Asked(self.path, {name.lower(): value for name, value in self.headers.items()}, json.loads(raw), raw)
        part = server.take(asked)
        if callable(part):
            part = part(asked)  # it answers from what it was asked
        if (problem := server.wrong(asked)) is not None:
            part = Fails(400, problem)
        reply = part if isinstance(part, Hangs | Sends | Fails) else server.reply(part, asked)
        if isinstance(part, Hangs):
            server.closing.wait(part.seconds)
        elif isinstance(reply, Sends):
            self._send(200, reply.body, (("content-type", reply.content_type),), reply.short)
        elif isinstance(reply, Streams):
            self._stream(reply.parts)
        elif isinstance(part, Fails):
            self._send(part.status, json.dumps(server.refuse(part)).encode(), (*server.refusing, *part.headers))
        else:
            self._send(200, json.dumps(reply).encode())
        self.close_connection = True

    def _send(self, status: int, body: bytes, headers: Headers = (), short: int = 0) -> None:
        self.send_response(status)
        told = {"content-type": "application/json", "content-length": str(len(body) + short), "connection": "close"} | dict(
            headers
        )
        for name, value in told.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, parts: Iterable[bytes | None]) -> None:
        self.send_response(200)
        for name, value in (("content-type", "text/event-stream; charset=utf-8"), ("transfer-encoding", "chunked"), ("connection", "close")):
            self.send_header(name, value)
        self.end_headers()
        with suppress(ConnectionError):  # whoever asked has gone: the answer was stopped
            for part in parts:
                if part is None:
                    return
                self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: object) -> None:
        """Nothing on the terminal."""
