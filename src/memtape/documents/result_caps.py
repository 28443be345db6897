"""Which of the ranked passages become results: places are given one by one, so the first k never depend on the limit.

One document from outside may hold at most 40 % of any first places. All texts from outside together, and all that the agent
itself wrote, hold at most 40 % while there are others: a model can write any number of notes with the words of a question.
Transcripts and pages of decisions, of which there are many, give way to other documents in the same way.

>>> ranked = [PassageCandidate(number, path, "note", 4) for number, path in enumerate("aab")]
>>> [each.chunk for each in pick_results(ranked, 3)]
[0, 2]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import field
from typing import NamedTuple

from memtape.core.recall.ranking import may_hold
from memtape.core.value_class import dataclass
from memtape.documents.sources import LOG_PAGES

EXTERNAL_TIER = 4  # texts from outside
BULK_TYPES = ("trace", "transcript")  # types that grow with every decision and run


class PassageCandidate(NamedTuple):
    """A passage that may become a result: what decides about its place."""

    chunk: int
    path: str
    type: str
    tier: int
    start: int = 0
    scope: int = 0
    dated: int = 0  # nanoseconds since 1970


@dataclass(frozen=True, slots=True)
class ResultCaps:
    """The share of any first places that one document of a tier may hold, and that a type may hold while others are left."""

    document: dict[int, float] = field(default_factory=lambda: {EXTERNAL_TIER: 0.4})
    type: dict[str, float] = field(default_factory=lambda: dict.fromkeys(BULK_TYPES, 0.4))
    author: float = 0.4  # of all texts from outside together, and of all that the agent wrote
    written_by_agent: frozenset[str] = frozenset()  # the paths of documents with notes of the agent

    def is_uncapped(self, candidate: PassageCandidate) -> bool:
        """Returns True if no cap can ever move this passage."""
        share = 1.0 if self.author_of(candidate) is None else self.author
        return min(self.document.get(candidate.tier, 1.0), self.type.get(candidate.type, 1.0), share) >= 1

    def author_of(self, candidate: PassageCandidate) -> str | None:
        """Returns whose words a passage has, if they are rationed."""
        if candidate.tier == EXTERNAL_TIER:
            return "from outside"
        return "agent" if candidate.path in self.written_by_agent or candidate.path.startswith(LOG_PAGES) else None


def pick_results(ranked: Sequence[PassageCandidate], limit: int, *, caps: ResultCaps | None = None) -> list[PassageCandidate]:
    """Returns the results in order; `ranked` is best first."""
    caps, waiting = caps or ResultCaps(), list(ranked)
    # The common case: no passage in reach is subject to a cap, so the order stays as it is.
    if all(caps.is_uncapped(each) for each in waiting[:limit]):
        return waiting[:limit]
    places_held: Counter[str] = Counter()
    results: list[PassageCandidate] = []
    while waiting and len(results) < limit:
        at = _next_allowed(waiting, places_held, len(results) + 1, caps)
        if at is None:
            break
        chosen = waiting.pop(at)
        places_held.update((f"document {chosen.path}", f"type {chosen.type}", f"author {caps.author_of(chosen)}"))
        results.append(chosen)
    return results


def _next_allowed(waiting: Sequence[PassageCandidate], places_held: Counter[str], places: int, caps: ResultCaps) -> int | None:
    """Returns the index of the first passage that may take the next place; None if there is none.

    The cap of a document always holds. Those of a type and of an author hold only while a passage of another one is left.
    """
    first_over_type_cap: int | None = None
    for at, each in enumerate(waiting):
        if places_held[f"document {each.path}"] >= may_hold(caps.document.get(each.tier, 1.0), places):
            continue
        author = caps.author_of(each)
        over_author = author is not None and places_held[f"author {author}"] >= may_hold(caps.author, places)
        if places_held[f"type {each.type}"] < may_hold(caps.type.get(each.type, 1.0), places) and not over_author:
            return at
        first_over_type_cap = at if first_over_type_cap is None else first_over_type_cap
    return first_over_type_cap
