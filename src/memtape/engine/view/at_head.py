"""An agent's memories as of a head of the log: formed again from what had been recorded by then.

The stored memories know what was recorded later, so they cannot say what an earlier reader met. The fold of a rebuild can: it
is given the rows up to that head, and the plain reference answers from what comes out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from memtape.core.memory.belief_cells import beliefs_from_tallies, count_cells, count_stated
from memtape.core.memory.beliefs import Belief, StatedBelief
from memtape.core.memory.episodes import Episode
from memtape.core.memory.episodes import known_episodes as known_at
from memtape.core.memory.learn import claims_count_at
from memtape.core.memory.learn_all import learn_all
from memtape.core.skills import Agent
from memtape.engine.view.ledger import trade_versions
from memtape.engine.write.writer import first_broker_record
from memtape.store.cutoff import Cutoff
from memtape.store.tables import Tables

if TYPE_CHECKING:
    from memtape.engine.memory import Memory


@dataclass(frozen=True, slots=True)
class AnswerBasis:
    """What an answer rests on: as of when, and whether the agent's own claims count."""

    as_of: datetime
    claims_count: bool
    n: int  # episodes known
    first_exit: datetime | None = None
    last_exit: datetime | None = None

    @classmethod
    def of(cls, as_of: datetime, claims_count: bool, episodes: Sequence[Episode]) -> AnswerBasis:
        """The moment of an answer that rests on these episodes."""
        exits = [episode.exit_at for episode in episodes]
        return cls(as_of, claims_count, len(exits), min(exits, default=None), max(exits, default=None))

    @property
    def standing(self) -> Literal["claimed", "verified"]:
        """How outcomes are known: by the broker's records, or by the agent's own word."""
        return "claimed" if self.claims_count else "verified"


class MemoriesAtHead:
    """The memories of one agent as of a moment and a head."""

    def __init__(self, memory: Memory, agent: Agent, known: Cutoff) -> None:
        assert known.as_of is not None
        self.limits, self.as_of = known, known.as_of
        with memory.reading(agent.id) as tables:
            kept = [item for kind in ("equity", "flow") for item in tables.items(kind, known, gone=True)]
            kept += [item for kind in ("correction", "decision") for item in tables.items(kind, known)]
            self.verified_from = first_broker_record(tables, known)
            versions = trade_versions(tables, agent, known)
            bars = cache(lambda symbol: tables.bars(symbol, known))
            formed = learn_all(agent, versions, kept, bars, self.verified_from)
            self.episodes, self.steps, self.past = formed.episodes, formed.steps, formed.past
            self._stated = stated_beliefs(tables, known)

    @property
    def claims_count(self) -> bool:
        """Whether the agent's own claims count: while there is no broker to ask."""
        return claims_count_at(self.as_of, self.verified_from)

    def known(self) -> list[Episode]:
        """Every episode as it was believed at the moment."""
        return known_at(self.episodes, self.as_of)

    def moment(self) -> AnswerBasis:
        """What an answer from here rests on."""
        return AnswerBasis.of(self.as_of, self.claims_count, self.known())

    def beliefs(self) -> list[Belief]:
        """What is believed at the moment, every status."""
        found = self.known()
        counted = count_cells(found, self.claims_count)
        return beliefs_from_tallies(counted, count_stated(self._stated, found, self.claims_count), self.as_of)


def stated_beliefs(tables: Tables, known: Cutoff) -> list[StatedBelief]:
    """The beliefs that the owner stated and has not taken back."""
    gone = {item.symbol for item in tables.items("unbelief", known)}
    return [stated_belief(item.key, item.body, item.known_at) for item in tables.items("belief", known) if item.key not in gone]


def stated_belief(id: str, body: Mapping[str, Any], stated_at: datetime) -> StatedBelief:
    """A belief as it was stated."""
    return StatedBelief(id=id, stated_at=stated_at, **body)
