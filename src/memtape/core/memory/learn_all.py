"""Builds all memories from the whole record in one fold: for a rebuild, and for an earlier head of the log.

The write path forms the same episodes, steps and outcomes a few at a time. `verify` proves that both give the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from memtape.core.decisions.followed import FollowedOutcome, follow_decisions
from memtape.core.items import StoredItem, each_in_log_order
from memtape.core.ledger.rounds import KnownBar
from memtape.core.ledger.trades import Trade
from memtape.core.ledger.versions import TradeVersion
from memtape.core.memory.affect import AffectStep, affect_steps
from memtape.core.memory.affect_timeline import AffectTimeline, believed_changes, timeline_of
from memtape.core.memory.episodes import Episode
from memtape.core.memory.learn import (
    Amendment,
    account_event_of,
    account_events_of_trade,
    amendment_of,
    claims_about,
    episodes_from_versions,
)
from memtape.core.memory.market import Market, MarketState, completed_bar
from memtape.core.memory.shadows import remembered_versions, shadow_episodes, shadow_id
from memtape.core.memory.situation_fields import NO_MARKET_STATE, market_state_at
from memtape.core.skills import Agent

Bars = Callable[[str], Sequence[KnownBar]]  # all known bars of a symbol


class LearnedMemories(NamedTuple):
    """The memories of an agent."""

    episodes: list[Episode]  # in all their versions
    steps: list[AffectStep]
    outcomes: list[FollowedOutcome]  # of decisions, in all their versions
    past: AffectTimeline


class _Charts:
    """The markets of symbols, each built once."""

    def __init__(self, bars: Bars) -> None:
        self._bars, self._markets = bars, dict[str, Market]()

    def market(self, symbol: str, _: datetime) -> Market:
        if symbol not in self._markets:
            self._markets[symbol] = Market(completed_bar(known) for known in self._bars(symbol))
        return self._markets[symbol]


class MemoryFold:
    """Forms all memories of an agent, from the versions of its trades and from its items.

    Of the items, equity marks, cash flows, corrections and decisions count; fills and ticks are already in `versions`. Both are
    gone through several times and may be long: none of them is held here, and episodes and outcomes are given one by one.
    """

    def __init__(
        self, agent: Agent, versions: Iterable[TradeVersion], items: Iterable[StoredItem], bars: Bars,
        verified_from: datetime | None,
    ) -> None:  # fmt: skip
        self._agent, self._versions, self._items, self._bars = agent, versions, items, bars
        self._market, self._amended = _Charts(bars).market, amended_later(items, versions)
        self._starting = float(agent.settings.starting_equity)
        # First affect: it is folded from everything that happened to the account, in all versions of it.
        events = [account_event_of(item) for item in each_in_log_order(items) if item.kind in ("equity", "flow")]
        for version in versions:
            trade = version.trade
            # The market is only needed for a trade whose outcome in R must be taken from ATR.
            at_entry = self._state(trade.symbol, trade.entry_at) if trade.pnl_r is None else NO_MARKET_STATE
            events += account_events_of_trade(version, at_entry, self._amendments(trade))
        self.steps = affect_steps(believed_changes(events, None, verified_from), self._starting)
        # Then episodes: each contains affect as it was known at its entry, which the timeline looks up.
        self.past = timeline_of(events, self.steps, self._starting, verified_from)

    def episodes_and_outcomes(self) -> Iterator[Episode | FollowedOutcome]:
        """The episodes of trades and of decisions against one, and the outcomes of decisions, in all their versions."""
        yield from episodes_from_versions(self._versions, self._market, self.past, self._starting, self._amendments)
        for followed in follow_decisions(self._items, self._bars):
            yield from followed.rows()
            if remembered_versions(followed):
                at, symbol = followed.card.t, followed.item.symbol
                of_shadow = self._amended.get(shadow_id(self._agent.id, followed.item.key), ())
                yield from shadow_episodes(self._agent, followed, self._state(symbol, at), self.past.at(at), of_shadow)

    def _amendments(self, trade: Trade) -> Sequence[Amendment]:
        return self._amended.get(trade.id, ())

    def _state(self, symbol: str, at: datetime) -> MarketState:
        return market_state_at(self._market(symbol, at), at)


def learn_all(
    agent: Agent, versions: Sequence[TradeVersion], items: Sequence[StoredItem], bars: Bars, verified_from: datetime | None
) -> LearnedMemories:
    """Returns all memories of an agent at once.

    >>> desk = Agent(id="desk", skill="breakout")
    >>> learn_all(desk, [], [], lambda symbol: [], None)[:3]
    ([], [], [])
    """
    fold = MemoryFold(agent, versions, items, bars, verified_from)
    episodes: list[Episode] = []
    outcomes: list[FollowedOutcome] = []
    for formed in fold.episodes_and_outcomes():
        if isinstance(formed, Episode):
            episodes.append(formed)
        else:
            outcomes.append(formed)
    return LearnedMemories(episodes, fold.steps, outcomes, fold.past)


def amended_later(items: Iterable[StoredItem], versions: Iterable[TradeVersion]) -> dict[str, list[Amendment]]:
    """Returns the later amendments of each memory: corrections, and claims about trades of the ledger."""
    found: dict[str, list[Amendment]] = {}
    for item in items:
        if item.kind == "correction":
            found.setdefault(item.symbol, []).append(amendment_of(item))
    for id_, amendments in claims_about(versions).items():
        found.setdefault(id_, []).extend(amendments)
    return found
