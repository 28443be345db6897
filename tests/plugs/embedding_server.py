"""A server of embeddings on this machine: it speaks OpenAI's form.

    with embedding_server() as server:
        server.plays(Fails(429), Embeds())
        RemoteEmbedder(server.url, "desk-embed")

A text's vector is made from its letters: the same text always has the same one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.plugs.scripted import Asked, Scripted, open_on_a_port

Item = dict[str, Any]


@dataclass(frozen=True)
class Embeds:
    """Vectors of a length; `spoils` may alter what is sent."""

    dim: int = 8
    spoils: Callable[[list[Item]], list[Item]] = lambda items: items


class EmbeddingServer(Scripted):
    """The server, while it is open."""

    @property
    def url(self) -> str:
        """As one would set it."""
        return f"http://{self.host}/v1"


@contextmanager
def embedding_server() -> Iterator[EmbeddingServer]:
    """A server on a port of its own, closed in the end."""
    server = EmbeddingServer(_reply, lambda part: {"error": {"message": part.said}}, [Embeds()])
    with open_on_a_port(server):
        yield server


def _reply(part: Embeds, asked: Asked) -> dict[str, Any]:
    texts = asked.body["input"]
    made = [{"object": "embedding", "index": at, "embedding": vector(text, part.dim)} for at, text in enumerate(texts)]
    return {"object": "list", "model": asked.body["model"], "data": part.spoils(made)}


def vector(text: str, dim: int) -> list[float]:
    """What the server makes of a text; not of length 1."""
    made = hashlib.shake_256(text.encode()).digest(dim)
    return [1.0 + byte for byte in made]
