"""A server of embeddings on this machine: it speaks OpenAI's form, writes down what it was asked, and misbehaves by a script.

    with embedding_server() as server:
        server.plays(Fails(429), Embeds())
        RemoteEmbedder(server.url, "desk-embed")

The last part of the script is played again for every further request. A text's vector is made from its letters: the same text
always has the same one.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Item = dict[str, Any]


@dataclass(frozen=True)
class Embeds:
    """Vectors of a length; `spoils` may alter what is sent."""

    dim: int = 8
    spoils: Callable[[list[Item]], list[Item]] = lambda items: items


@dataclass(frozen=True)
class Fails:
    """A refusal by status."""

    status: int
    said: str = "not now"
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Sends:
    """A body as it is; `short` bytes of it are missing when the connection closes."""

    body: bytes
    short: int = 0


@dataclass(frozen=True)
class Hangs:
    """No reply within so many seconds."""

    seconds: float = 5.0


Part = Embeds | Fails | Sends | Hangs


@dataclass(frozen=True)
class Asked:
    """What the server was asked."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class EmbeddingServer:
    """The server, while it is open."""

    port: int
    asked: list[Asked] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)
    _script: list[Part] = field(default_factory=lambda: [Embeds()])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """As one would set it."""
        return f"http://{self.host}/v1"

    def plays(self, *parts: Part) -> None:
        """Forget what was, and play this from now on."""
        with self._lock:
            self._script, self.asked = list(parts), []

    def take(self, asked: Asked) -> Part:
        with self._lock:
            self.asked.append(asked)
            return self._script.pop(0) if len(self._script) > 1 else self._script[0]


@contextmanager
def embedding_server() -> Iterator[EmbeddingServer]:
    """A server on a port of its own, closed in the end."""
    http = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    http.daemon_threads = True
    server = EmbeddingServer(http.server_address[1])
    http.embedding = server  # type: ignore[attr-defined]
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        http.shutdown()
        http.server_close()
        thread.join()


def vector(text: str, dim: int) -> list[float]:
    """What the server makes of a text; not of length 1."""
    made = hashlib.shake_256(text.encode()).digest(dim)
    return [1.0 + byte for byte in made]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        server: EmbeddingServer = self.server.embedding  # type: ignore[attr-defined]
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        part = server.take(Asked(self.path, {name.lower(): value for name, value in self.headers.items()}, body))
        if isinstance(part, Hangs):
            server.closing.wait(part.seconds)
            self.close_connection = True
        elif isinstance(part, Sends):
            self._send(200, part.body, short=part.short)
        elif isinstance(part, Fails):
            self._send(part.status, json.dumps({"error": {"message": part.said}}).encode(), part.headers)
        else:
            made = [{"object": "embedding", "index": at, "embedding": vector(text, part.dim)} for at, text in enumerate(body["input"])]
            self._send(200, json.dumps({"object": "list", "model": body["model"], "data": part.spoils(made)}).encode())

    def _send(self, status: int, body: bytes, headers: tuple[tuple[str, str], ...] = (), short: int = 0) -> None:
        self.send_response(status)
        for name, value in (("content-type", "application/json"), ("content-length", str(len(body) + short)), ("connection", "close"), *headers):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Nothing on the terminal."""
