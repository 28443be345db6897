"""The embedder `remote`: a server with OpenAI's `/embeddings` API. OpenAI, Voyage, Gemini, llama.cpp, Ollama and others.

Texts leave this machine, unless the server runs on it. A key is sent only by https or to this machine, never after a redirect,
and no error contains it. Plain http to another machine is allowed without a key, for a model server in the local network.

A busy or broken server is asked again: after the time it names, else after twice the time before. An answer is checked before
it is used: as many vectors as texts, each at its `index`, all of the same length, every number finite. Vectors are scaled to
norm 1. A wrong answer raises `ModelFailed`, and no part of it is used.

The id is `remote:MODEL@HOST:LENGTH`, because one model may give vectors of several lengths. The length is known after the first
answer. Before that, one word is embedded to learn it; if that fails, the id ends in `?`, which matches no stored vector.

>>> RemoteEmbedder("http://localhost:11434/v1", "nomic-embed-text", dim=768).id
'remote:nomic-embed-text@localhost:11434:768'
>>> RemoteEmbedder("http://example.com/v1", "m", key="k")
Traceback (most recent call last):
memtape.errors.Invalid: MEMTAPE_EMBEDDER_URL: the key would be sent to example.com unencrypted. Use https
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, ProxyHandler, Request, build_opener

from memtape.errors import Invalid, ModelFailed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

URL, MODEL, KEY = "MEMTAPE_EMBEDDER_URL", "MEMTAPE_EMBEDDER_MODEL", "MEMTAPE_EMBEDDER_KEY"
BATCH_TEXTS = 64
MAX_ATTEMPTS = 5
FIRST_WAIT_SECONDS, MAX_WAIT_SECONDS = 0.5, 60.0
TIMEOUT_SECONDS, PROBE_TIMEOUT_SECONDS = 60.0, 10.0
MAX_ANSWER_BYTES = 64_000_000  # 64 vectors are about 4 MB
BUSY_STATUSES = (408, 425, 429)


class EmbeddingAddress(NamedTuple):
    """The address of an embedding server."""

    url: str
    host: str  # with its port
    is_local: bool  # on this machine


class RetryLater(Exception):
    """A failure that may pass. `wait` is the time in seconds that the server names, if it does."""

    def __init__(self, failed: ModelFailed, wait: float | None = None) -> None:
        super().__init__(str(failed))
        self.failed, self.wait = failed, wait


class RemoteEmbedder:
    """A model on a server. `dim` is requested from the server and expected of it; `known_dim` is only expected."""

    def __init__(
        self, url: str, model: str, *, key: str = "", dim: int | None = None, known_dim: int | None = None,
        timeout: float = TIMEOUT_SECONDS, sleep: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        if not model:
            raise Invalid(MODEL, "is not set", "Name the server's model, like text-embedding-3-small")
        if not all("!" <= letter <= "~" for letter in key):
            raise Invalid(KEY, "contains a space or a character that no key has", "Check it")
        self.model, self.address = model, embedding_address(url, key)
        self._key, self._requested_dim, self._dim = key, dim, dim or known_dim
        self._timeout, self._sleep = timeout, sleep
        self._opener = _opener(self.address)

    @property
    def id(self) -> str:
        """The model, its server and the length of its vectors; `?` while the length is unknown."""
        return f"{self.name}:{self.dim or '?'}"

    @property
    def name(self) -> str:
        """The model and its server."""
        return f"remote:{self.model}@{self.address.host}"

    @property
    def dim(self) -> int:
        """The length of a vector; 0 if it is unknown and the server does not answer."""
        if self._dim is None:
            try:
                self._rows(["word"], PROBE_TIMEOUT_SECONDS)
            except (RetryLater, ModelFailed):
                return 0
        return self._dim or 0

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Returns a row of norm 1 for each text, in order; zeros for a text without a word."""
        import numpy as np

        # OpenAI refuses a whole batch that contains an empty text.
        sent = [at for at, text in enumerate(texts) if text.strip()]
        batches = [sent[start : start + BATCH_TEXTS] for start in range(0, len(sent), BATCH_TEXTS)]
        rows = [self._with_retries([_encodable(texts[at]) for at in batch]) for batch in batches]
        vectors = np.zeros((len(texts), self._dim or self.dim), np.float32)
        if sent:
            vectors[sent] = np.concatenate(rows)
        return vectors

    def _with_retries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embeds one batch and retries while that may help."""
        wait = FIRST_WAIT_SECONDS
        for left in reversed(range(MAX_ATTEMPTS)):
            try:
                return self._rows(texts, self._timeout)
            except RetryLater as later:
                if not left or (later.wait or 0.0) > MAX_WAIT_SECONDS:
                    raise later.failed from None
                self._sleep(wait if later.wait is None else later.wait)
                wait *= 2
        raise AssertionError("the last attempt returns or raises")

    def _rows(self, texts: Sequence[str], timeout: float) -> NDArray[np.float32]:
        """Embeds one batch in one attempt."""
        import numpy as np

        vectors = self._read(self._ask(texts, timeout), len(texts))
        length = self._dim or len(vectors[0])
        for vector in vectors:
            if len(vector) != length or not length:
                raise self._failed(f"a vector has {len(vector)} numbers; {length} were expected", permanent=True)
        try:
            rows = np.array(vectors, np.float64)
        except (TypeError, ValueError, OverflowError):
            raise self._failed("a vector contains something that is not a number") from None
        if rows.ndim != 2 or not np.isfinite(rows).all():
            raise self._failed("a vector contains a number that is not finite")
        self._dim = length
        # Scaled by the largest number first, so that no square overflows.
        rows /= np.maximum(np.abs(rows).max(1, keepdims=True), 1e-300)
        return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300), np.float32)

    def _ask(self, texts: Sequence[str], timeout: float) -> bytes:
        from memtape.plugs.models import connection_failure, timeout_failure

        question: dict[str, object] = {"model": self.model, "input": list(texts)}
        if self._requested_dim:
            question["dimensions"] = self._requested_dim
        headers = {"content-type": "application/json", "accept": "application/json", "user-agent": "memtape"}
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        request = Request(self.address.url, json.dumps(question).encode(), headers, method="POST")
        try:
            with self._opener.open(request, timeout=timeout) as response:
                body: bytes = response.read(MAX_ANSWER_BYTES + 1)
                broke_off = bool(response.length)  # bytes that were announced and did not arrive
        except HTTPError as error:
            raise self._refused(error) from None
        except TimeoutError:
            raise RetryLater(timeout_failure(self.name, timeout)) from None
        except URLError as error:
            slow = isinstance(error.reason, TimeoutError)
            failed = timeout_failure(self.name, timeout) if slow else connection_failure(self.name, self.address.host)
            raise RetryLater(failed) from None
        except (OSError, http.client.HTTPException):
            raise RetryLater(connection_failure(self.name, self.address.host)) from None
        if len(body) > MAX_ANSWER_BYTES:
            raise self._failed(f"the answer has more than {MAX_ANSWER_BYTES:,} bytes")
        if broke_off:
            raise RetryLater(connection_failure(self.name, self.address.host))
        return body

    def _refused(self, error: HTTPError) -> Exception:
        """Returns the failure for a status, with the server's message but without the key."""
        from memtape.plugs.models import error_message, status_failure

        with error:
            try:
                message = error_message(json.loads(error.read(10_000)))
            except (ValueError, OSError, http.client.HTTPException):
                message = ""
        if 300 <= error.code < 400:
            return self._failed(f"the server redirects ({error.code}), and redirects are not followed", permanent=True)
        failed = status_failure(self.name, error.code, message.replace(self._key, "***") if self._key else message)
        if error.code in BUSY_STATUSES or error.code >= 500:
            return RetryLater(failed, _seconds(error.headers.get("retry-after")))
        return failed

    def _read(self, body: bytes, count: int) -> list[list[Any]]:
        """Returns the vectors in the order of the texts. Gemini omits the first index; then the position is the index."""
        try:
            given = json.loads(body)["data"]
            items = [(item.get("index"), list(item["embedding"])) for item in given]
            placed = {at if index is None else index: vector for at, (index, vector) in enumerate(items)}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise self._failed("the answer is not in the form of OpenAI's embeddings") from None
        if len(given) != count or set(placed) != set(range(count)):
            raise self._failed(f"{len(given)} vectors for {count} texts, or not one for each")
        return [placed[at] for at in range(count)]

    def _failed(self, problem: str, permanent: bool = False) -> ModelFailed:
        return ModelFailed(self.name, problem, what="unreadable", status=200, retry_later=not permanent)


def embedding_address(url: str, key: str = "") -> EmbeddingAddress:
    """Returns the address of the embeddings, from the base address of a server's API. Raises Invalid if it is unsafe.

    >>> embedding_address("https://api.openai.com/v1/").url
    'https://api.openai.com/v1/embeddings'
    """
    fix = "Write it like https://api.openai.com/v1 or http://localhost:11434/v1"
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise Invalid(URL, "is not an address", fix) from None
    if parts.scheme not in ("http", "https") or not host or not url.strip().isascii():
        raise Invalid(URL, "is not an address" if url.strip() else "is not set", fix)
    if parts.username or parts.password:
        raise Invalid(URL, "contains a name or a password", f"Put the key into {KEY}")
    is_local = _is_loopback(host)
    if key and parts.scheme == "http" and not is_local:
        raise Invalid(URL, f"the key would be sent to {host} unencrypted", "Use https")
    path = parts.path.rstrip("/").removesuffix("/embeddings") + "/embeddings"
    shown = f"[{host}]" if ":" in host else host
    where = f"{shown}:{port}" if port is not None else shown
    return EmbeddingAddress(urlunsplit((parts.scheme, where, path, parts.query, "")), where, is_local)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


class _NoRedirects(HTTPRedirectHandler):
    """Follows no redirect, because the key would go with it."""

    def redirect_request(self, *args: Any) -> None:
        return None


def _opener(address: EmbeddingAddress) -> OpenerDirector:
    """Returns an opener with the proxy of the environment; without a proxy for this machine."""
    return build_opener(_NoRedirects, ProxyHandler({})) if address.is_local else build_opener(_NoRedirects)


def _seconds(header: str | None) -> float | None:
    """Returns `Retry-After` in seconds; None for a date.

    >>> _seconds("1.5"), _seconds("Wed, 21 Oct 2026 07:28:00 GMT"), _seconds("-1")
    (1.5, None, None)
    """
    try:
        seconds = float(header or "")
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def _encodable(text: str) -> str:
    # Half a surrogate pair cannot be encoded.
    return text.encode("utf-8", "replace").decode("utf-8")
