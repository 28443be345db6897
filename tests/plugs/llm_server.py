"""A provider of models on this machine: it speaks Anthropic's and OpenAI's wire formats, writes down what it was asked, and
misbehaves by a script. The real SDKs, with their real retries, talk to it.

    with llm_server() as server:
        server.plays(Fails(429), Says('{"lessons": []}'))
        model_of("anthropic/claude-haiku-4-5", base_url=server.url("anthropic"), api_key="k")

The last part of the script is played again for every further request.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PATHS = {"/v1/messages": "anthropic", "/v1/chat/completions": "openai"}
SOON = "0.01"  # seconds: real retries, not long ones


@dataclass(frozen=True)
class Says:
    """A reply in good form; its text may be anything. `stop`: end, limit or refusal."""

    text: str | None
    stop: str = "end"
    tokens: tuple[int, int] | None = (900, 120)


@dataclass(frozen=True)
class Fails:
    """A refusal by status, in the provider's form."""

    status: int
    said: str = "not now"
    retry_after: str | None = SOON


@dataclass(frozen=True)
class Sends:
    """A body that no provider sends; `short` bytes of it are missing when the connection closes."""

    body: bytes
    content_type: str = "application/json"
    short: int = 0


@dataclass(frozen=True)
class Hangs:
    """No reply within so many seconds."""

    seconds: float = 5.0


Part = Says | Fails | Sends | Hangs


@dataclass(frozen=True)
class Request:
    """What the provider was asked."""

    provider: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class LlmServer:
    """The provider, while it is open."""

    port: int
    requests: list[Request] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)
    _script: list[Part] = field(default_factory=lambda: [Says('{"lessons": []}')])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def url(self, provider: str) -> str:
        """The address for a provider's SDK, as one would set it."""
        return f"http://127.0.0.1:{self.port}" + ("/v1" if provider == "openai" else "")

    def plays(self, *parts: Part) -> None:
        """Forget what was, and play this from now on."""
        with self._lock:
            self._script, self.requests = list(parts), []

    def take(self, request: Request) -> Part:
        with self._lock:
            self.requests.append(request)
            return self._script.pop(0) if len(self._script) > 1 else self._script[0]


@contextmanager
def llm_server() -> Iterator[LlmServer]:
    """A provider on a port of its own, closed in the end."""
    http = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    http.daemon_threads = True
    server = LlmServer(http.server_address[1])
    http.llm = server  # type: ignore[attr-defined]
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        http.shutdown()
        http.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        server: LlmServer = self.server.llm  # type: ignore[attr-defined]
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        provider = PATHS.get(self.path.partition("?")[0], "nobody")
        part = server.take(Request(provider, {name.lower(): value for name, value in self.headers.items()}, body))
        if isinstance(part, Hangs):
            server.closing.wait(part.seconds)
            self.close_connection = True
            return
        if isinstance(part, Sends):
            self._send(200, part.body, part.content_type, short=part.short)
        elif isinstance(part, Fails):
            error = {"type": "error", "error": {"type": "some_error", "message": part.said, "code": None, "param": None}}
            self._send(part.status, json.dumps(error).encode(), retry_after=part.retry_after)
        else:
            spoken = _as_anthropic if provider == "anthropic" else _as_openai
            self._send(200, json.dumps(spoken(part, body["model"])).encode())

    def _send(self, status: int, body: bytes, kind: str = "application/json", *, short: int = 0, retry_after: str | None = None) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body) + short))
        self.send_header("connection", "close")
        if retry_after is not None:
            self.send_header("retry-after", retry_after)
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Nothing on the terminal."""


def _as_anthropic(part: Says, model: str) -> dict[str, Any]:
    stop = {"end": "end_turn", "limit": "max_tokens", "refusal": "refusal"}[part.stop]
    said = [] if part.text is None else [{"type": "text", "text": part.text}]
    thought = {"type": "thinking", "thinking": "Which of them matter?", "signature": "s"}
    usage = {"input_tokens": part.tokens[0], "output_tokens": part.tokens[1]} if part.tokens else {}
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [thought, *said], "stop_reason": stop,
        "stop_sequence": None, "usage": usage,
    }  # fmt: skip


def _as_openai(part: Says, model: str) -> dict[str, Any]:
    stop = {"end": "stop", "limit": "length", "refusal": "stop"}[part.stop]
    message: dict[str, Any] = {"role": "assistant", "content": part.text, "refusal": None}
    if part.stop == "refusal":
        message |= {"content": None, "refusal": part.text or "I cannot help with that."}
    said = {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": stop, "logprobs": None}],
    }  # fmt: skip
    if part.tokens:
        said["usage"] = {"prompt_tokens": part.tokens[0], "completion_tokens": part.tokens[1], "total_tokens": sum(part.tokens)}
    return said
