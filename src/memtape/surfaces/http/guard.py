"""The guard runs before everything else: it checks who calls and how much they send, and sets the headers of every answer.

memtape has no passwords yet, so it answers only this machine: it accepts only loopback host names (another site can point its own
name at 127.0.0.1), and refuses writes from other sites.
"""

from __future__ import annotations

import logging
import re
from time import perf_counter

import anyio
from fastapi import Response
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memtape.surfaces.http.health import Requests
from memtape.surfaces.http.problems import problem_response, status_title
from memtape.surfaces.translate import problem_object

log = logging.getLogger(__name__)

MAX_BODY = 8 * 1024 * 1024
MAX_BODY_SECONDS = 10.0  # until a request is complete
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
    # What is left of the request would be read and thrown away for as long as the client sends it.
    return problem_response(problem_object(status, status_title(status), detail), {"connection": "close"})


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
