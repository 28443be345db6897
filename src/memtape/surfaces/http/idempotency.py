"""Answers that are kept by Idempotency-Key, so that a repeated request changes nothing."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable

import anyio

from memtape.errors import Conflict

MAX_IDEMPOTENCY_KEYS = 1024


class IdempotentAnswers:
    """Answers of this process by Idempotency-Key, for writes without an id.

    Only successful answers are stored: after an error the same key may be sent again, with the same or another body.
    """

    def __init__(self, size: int = MAX_IDEMPOTENCY_KEYS) -> None:
        self._size = size
        self._answers: OrderedDict[tuple[str, str], tuple[bytes, bytes]] = OrderedDict()
        # By key: a repeated request waits for the answer of the first. Others do not: a run of an agent takes minutes.
        self._at_work: dict[tuple[str, str], anyio.Lock] = {}

    async def once(self, key: tuple[str, str], body: bytes, make: Callable[[], Awaitable[bytes]]) -> bytes:
        digest = hashlib.sha256(body).digest()
        lock = self._at_work.setdefault(key, anyio.Lock())
        try:
            async with lock:
                before, answer = self._answers.get(key, (digest, b""))
                if before != digest:
                    raise Conflict("Idempotency-Key", "was used with another body", "Use a new key, or send the same body")
                if not answer:
                    answer = await make()
                    self._answers[key] = (digest, answer)
                    while len(self._answers) > self._size:
                        self._answers.popitem(last=False)
                return answer
        finally:
            if not lock.locked() and not lock.statistics().tasks_waiting:
                self._at_work.pop(key, None)
