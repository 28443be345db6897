"""The embedder `remote`: a server that speaks like OpenAI's `/embeddings`. OpenAI, Voyage, Gemini, llama.cpp, Ollama and others.

What is embedded leaves this machine, unless the server is on it. A key is sent by https or to this machine only, never along a
redirect, and stands in no error. Plain http to another machine is allowed without a key: a model server in one's own network.

A busy or broken server is asked again, after the time it names or after twice the time before. An answer is checked before it
counts: as many vectors as texts, each where its `index` says, all as long as the first that came, every figure finite. They are
brought to length 1. Whatever is not so is `ModelFailed`, and nothing of that answer is used.

The id is `remote:MODEL@HOST:LENGTH`: the same name may stand for vectors of several lengths. The length is known after the first
answer; until then one word is embedded to learn it, and if that fails the id ends in `?`, which fits no stored vector.

>>> RemoteEmbedder("http://localhost:11434/v1", "nomic-embed-text", dim=768).id
'remote:nomic-embed-text@localhost:11434:768'
>>> RemoteEmbedder("http://example.com/v1", "m", key="k")
Traceback (most recent call last):
memtape.errors.Invalid: MEMTAPE_EMBEDDER_URL: a key would travel to example.com readable by all between. Use https
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
BATCH = 64
TRIES = 5
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 0.5, 60.0
TIMEOUT_SECONDS, LEARNING_SECONDS = 60.0, 10.0
MOST_BYTES = 64_000_000  # 64 vectors are about 4 MB
BUSY = (408, 425, 429)


class Address(NamedTuple):
    """Where vectors are made."""

    url: str
    host: str  # with its port, as it is told
    here: bool  # on this machine


class Later(Exception):
    """It may go better later; the server may have said when."""

    def __init__(self, failed: ModelFailed, wait: float | None = None) -> None:
        super().__init__(str(failed))
        self.failed, self.wait = failed, wait


class RemoteEmbedder:
    """A model on a server. `dim` is asked of the server and expected of it; `known_dim` is only expected."""

    def __init__(
        self, url: str, model: str, *, key: str = "", dim: int | None = None, known_dim: int | None = None,
        timeout: float = TIMEOUT_SECONDS, sleep: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        if not model:
            raise Invalid(MODEL, "there is none", "Name the server's model, like text-embedding-3-small")
        if not all("!" <= letter <= "~" for letter in key):
            raise Invalid(KEY, "it has a space or a letter that no key has", "Check it")
        self.model, self.address = model, checked_address(url, key)
        self._key, self._asked_dim, self._dim = key, dim, dim or known_dim
        self._timeout, self._sleep = timeout, sleep
        self._opener = _opener(self.address)

    @property
    def id(self) -> str:
        """The model, its server and the length of its vectors; `?` for a length that cannot be learned now."""
        return f"{self.name}:{self.dim or '?'}"

    @property
    def name(self) -> str:
        """The model and its server."""
        return f"remote:{self.model}@{self.address.host}"

    @property
    def dim(self) -> int:
        """How long a vector is; 0 if it is not known and the server does not answer."""
        if self._dim is None:
            try:
                self._rows(["word"], LEARNING_SECONDS)
            except (Later, ModelFailed):
                return 0
        return self._dim or 0

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """A row of length 1 for each text, in order; zeros for a text that says nothing."""
        import numpy as np

        sent = [at for at, text in enumerate(texts) if text.strip()]  # OpenAI refuses a whole batch for an empty text
        batches = [sent[start : start + BATCH] for start in range(0, len(sent), BATCH)]
        made = [self._patiently([_sendable(texts[at]) for at in batch]) for batch in batches]
        found = np.zeros((len(texts), self._dim or self.dim), np.float32)
        if sent:
            found[sent] = np.concatenate(made)
        return found

    def _patiently(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One batch, asked for again while that may help."""
        wait = FIRST_WAIT_SECONDS
        for left in reversed(range(TRIES)):
            try:
                return self._rows(texts, self._timeout)
            except Later as later:
                if not left or (later.wait or 0.0) > LONGEST_WAIT_SECONDS:
                    raise later.failed from None
                self._sleep(wait if later.wait is None else later.wait)
                wait *= 2
        raise AssertionError("the last try returns or raises")

    def _rows(self, texts: Sequence[str], timeout: float) -> NDArray[np.float32]:
        """One batch, asked for once, and its answer as vectors of length 1."""
        import numpy as np

        vectors = self._read(self._ask(texts, timeout), len(texts))
        length = self._dim or len(vectors[0])
        for vector in vectors:
            if len(vector) != length or not length:
                raise self._failed(f"a vector of {len(vector)} figures where {length} were expected", lasting=True)
        try:
            rows = np.array(vectors, np.float64)
        except (TypeError, ValueError, OverflowError):
            raise self._failed("a vector has something else than figures") from None
        if rows.ndim != 2 or not np.isfinite(rows).all():
            raise self._failed("a vector has something else than finite figures")
        self._dim = length
        rows /= np.maximum(np.abs(rows).max(1, keepdims=True), 1e-300)  # first, so that no square is too large
        return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300), np.float32)

    def _ask(self, texts: Sequence[str], timeout: float) -> bytes:
        from memtape.plugs.models import timed_out, unreachable

        asked = {"model": self.model, "input": list(texts)} | ({"dimensions": self._asked_dim} if self._asked_dim else {})
        headers = {"content-type": "application/json", "accept": "application/json", "user-agent": "memtape"}
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        request = Request(self.address.url, json.dumps(asked).encode(), headers, method="POST")
        try:
            with self._opener.open(request, timeout=timeout) as response:
                body: bytes = response.read(MOST_BYTES + 1)
                broke_off = bool(response.length)  # what was announced and did not come
        except HTTPError as error:
            raise self._refused(error) from None
        except TimeoutError:
            raise Later(timed_out(self.name, timeout)) from None
        except URLError as error:
            slow = isinstance(error.reason, TimeoutError)
            raise Later(timed_out(self.name, timeout) if slow else unreachable(self.name, self.address.host)) from None
        except (OSError, http.client.HTTPException):
            raise Later(unreachable(self.name, self.address.host)) from None
        if len(body) > MOST_BYTES:
            raise self._failed(f"the answer has more than {MOST_BYTES:,} bytes")
        if broke_off:
            raise Later(unreachable(self.name, self.address.host))
        return body

    def _refused(self, error: HTTPError) -> Exception:
        """A refusal by status, with the server's own words but without the key."""
        from memtape.plugs.models import by_status, said_in

        with error:
            try:
                said = said_in(json.loads(error.read(10_000)))
            except (ValueError, OSError, http.client.HTTPException):
                said = ""
        if 300 <= error.code < 400:
            return self._failed(f"the server sends elsewhere ({error.code}), where nothing is sent", lasting=True)
        failed = by_status(self.name, error.code, said.replace(self._key, "***") if self._key else said)
        if error.code in BUSY or error.code >= 500:
            return Later(failed, _seconds(error.headers.get("retry-after")))
        return failed

    def _read(self, body: bytes, count: int) -> list[list[Any]]:
        """The vectors in the order of the texts. Gemini leaves out the index of the first; then its place is its index."""
        try:
            given = json.loads(body)["data"]
            told = [(item.get("index"), list(item["embedding"])) for item in given]
            placed = {at if index is None else index: vector for at, (index, vector) in enumerate(told)}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise self._failed("the answer is not in the form of OpenAI's embeddings") from None
        if len(given) != count or set(placed) != set(range(count)):
            raise self._failed(f"{len(given)} vectors came for {count} texts, or not one for each")
        return [placed[at] for at in range(count)]

    def _failed(self, problem: str, lasting: bool = False) -> ModelFailed:
        return ModelFailed(self.name, problem, what="unreadable", status=200, retry_later=not lasting)


def checked_address(url: str, key: str = "") -> Address:
    """Where to ask, from the address that a server tells for its API.

    >>> checked_address("https://api.openai.com/v1/").url
    'https://api.openai.com/v1/embeddings'
    """
    fix = "Write it like https://api.openai.com/v1 or http://localhost:11434/v1"
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise Invalid(URL, "it is not an address", fix) from None
    if parts.scheme not in ("http", "https") or not host or not url.strip().isascii():
        raise Invalid(URL, "it is not an address" if url.strip() else "there is none", fix)
    if parts.username or parts.password:
        raise Invalid(URL, "it has a name or a password in it", f"Put the key into {KEY}")
    here = _is_here(host)
    if key and parts.scheme == "http" and not here:
        raise Invalid(URL, f"a key would travel to {host} readable by all between", "Use https")
    path = parts.path.rstrip("/").removesuffix("/embeddings") + "/embeddings"
    shown = f"[{host}]" if ":" in host else host
    where = f"{shown}:{port}" if port is not None else shown
    return Address(urlunsplit((parts.scheme, where, path, parts.query, "")), where, here)


def _is_here(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


class _Staying(HTTPRedirectHandler):
    """Goes nowhere else: the key would go along."""

    def redirect_request(self, *told: Any) -> None:
        return None


def _opener(there: Address) -> OpenerDirector:
    """As the environment says which proxy to use, but none on this machine."""
    return build_opener(_Staying, ProxyHandler({})) if there.here else build_opener(_Staying)


def _seconds(said: str | None) -> float | None:
    """`Retry-After` in seconds; a date is not looked at.

    >>> _seconds("1.5"), _seconds("Wed, 21 Oct 2026 07:28:00 GMT"), _seconds("-1")
    (1.5, None, None)
    """
    try:
        seconds = float(said or "")
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def _sendable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")  # half a surrogate pair has no bytes
