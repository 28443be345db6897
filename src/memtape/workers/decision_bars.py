"""Bars for decisions that are not settled yet: every minute, `serve` asks the venue that an agent follows for them.

A decision is settled on the bars of its own frame that began after it. An agent whose account is followed gets those of the
symbols that it holds; a decision may name another symbol, wait for its entry, or be a decision not to trade. So the bars of every
unsettled decision are read from the venue, from the first one that is missing on, and recorded like any other bars.

Only completed bars are recorded. A venue that cannot be reached, or does not know a symbol, goes to the log and is asked again in
the next round; nothing stands in for a missing bar. Any number of processes may do this on one store: a bar is stored once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager
from datetime import datetime
from typing import NamedTuple

from memtape.brokers.hyperliquid import candle_length
from memtape.brokers.live import HyperliquidCandles
from memtape.core.observed import Bars
from memtape.engine import AgentMemory, Memory
from memtape.engine.account_polls import FollowedVenue, followed_venue, missing_bars_from, unstored_bars
from memtape.errors import MemtapeError
from memtape.workers.repeat import repeating

FETCH_SECONDS = 60.0
DECISIONS_LOOKED_AT = 1_000  # the newest
log = logging.getLogger(__name__)


class UnsettledDecision(NamedTuple):
    """What a decision that is not settled waits for: bars of a symbol and a length, since it was taken."""

    symbol: str
    frame: str  # 1m, 5m, 15m, 30m, 1h, 4h or 1d
    since: datetime


Unsettled = Callable[[AgentMemory], Iterable[UnsettledDecision]]
OpenVenue = Callable[[FollowedVenue], HyperliquidCandles | None]


def unsettled_decisions(agent: AgentMemory) -> list[UnsettledDecision]:
    """The decisions of an agent whose outcome is pending or open."""
    with agent.view() as view:
        followed = view.outcomes(limit=DECISIONS_LOOKED_AT)
    return [UnsettledDecision(each.symbol, each.frame, each.at) for each in followed if each.status in ("pending", "open")]


def candles_of(venue: FollowedVenue) -> HyperliquidCandles | None:
    """The candles of a venue; None if memtape cannot read any there."""
    return HyperliquidCandles(venue.url) if venue.source == "hyperliquid" else None


class _Wanted(NamedTuple):
    """Bars that one agent waits for."""

    agent: str
    symbol: str
    frame: str
    since: datetime


class DecisionBars:
    """Reads the bars that unsettled decisions wait for. What it remembers only saves questions: all of it is in the store."""

    def __init__(
        self, memory: Memory, unsettled: Unsettled = unsettled_decisions, *, agents: Collection[str] | None = None,
        open_venue: OpenVenue = candles_of,
    ) -> None:  # fmt: skip
        self._memory, self._unsettled, self._agents, self._open_venue = memory, unsettled, agents, open_venue
        self._read_until: dict[_Wanted, datetime] = {}
        self._problems: dict[_Wanted, str] = {}

    def fetch(self) -> dict[str, int]:
        """Read and record the missing bars of all agents. Returns how many were recorded, by agent."""
        recorded: dict[str, int] = {}
        asked: set[_Wanted] = set()
        for agent in self._memory.agents():
            if self._agents is not None and agent.id not in self._agents:
                continue
            try:
                recorded[agent.id] = self._fetch_of(self._memory.agent(agent.id), asked)
            except MemtapeError as problem:
                log.warning("no bars for the decisions of %s: %s", agent.id, problem)
        self._read_until = {wanted: at for wanted, at in self._read_until.items() if wanted in asked}
        self._problems = {wanted: problem for wanted, problem in self._problems.items() if wanted in asked}
        return {agent: count for agent, count in recorded.items() if count}

    def _fetch_of(self, agent: AgentMemory, asked: set[_Wanted]) -> int:
        venue = followed_venue(agent)
        source = None if venue is None else self._open_venue(venue)
        if source is None:
            return 0
        recorded = 0
        for wanted in _joined(agent.agent.id, self._unsettled(agent)):
            asked.add(wanted)
            try:
                recorded += self._fetch_pair(agent, source, wanted)
                self._problems.pop(wanted, None)
            except MemtapeError as problem:
                # A venue that is down for an hour is one line, not sixty.
                if self._problems.get(wanted) != str(problem):
                    log.warning("no %s bars of %s for %s: %s", wanted.frame, wanted.symbol, wanted.agent, problem)
                self._problems[wanted] = str(problem)
        return recorded

    def _fetch_pair(self, agent: AgentMemory, source: HyperliquidCandles, wanted: _Wanted) -> int:
        length, now = candle_length(wanted.frame), self._memory.clock.now()
        # A minute without any trade may have no bar at all: what was read once is not asked for again by this process.
        begin = self._read_until.get(wanted) or missing_bars_from(agent, wanted.symbol, length, wanted.since, now)
        if begin + length > now:
            return 0
        bars = source.completed(wanted.symbol, wanted.frame, begin, now)
        if new := unstored_bars(agent, bars):
            agent.observe(Bars(bars=tuple(new)))
        self._read_until[wanted] = max((bar.t1 for bar in bars), default=begin)
        return len(new)


def _joined(agent: str, unsettled: Iterable[UnsettledDecision]) -> list[_Wanted]:
    """One question per symbol and frame, since the earliest decision."""
    earliest: dict[tuple[str, str], datetime] = {}
    for symbol, frame, since in unsettled:
        earliest[symbol, frame] = min(since, earliest.get((symbol, frame), since))
    return [_Wanted(agent, symbol, frame, since) for (symbol, frame), since in sorted(earliest.items())]


def fetching_decision_bars(
    memory: Memory, unsettled: Unsettled = unsettled_decisions, *, agents: Collection[str] | None = None,
    every_seconds: float = FETCH_SECONDS,
) -> AbstractContextManager[None]:  # fmt: skip
    """Read bars for unsettled decisions during the block, in a thread of its own."""
    return repeating(DecisionBars(memory, unsettled, agents=agents).fetch, "reading bars for decisions", every_seconds)
