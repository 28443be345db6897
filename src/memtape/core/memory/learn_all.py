"""All memories out of all that was recorded, in one fold: what a rebuild puts in place and what an earlier head had to say.

The write path forms the same episodes, steps and shadows a few at a time; that it ends where this does is what `verify` proves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from memtape.core.items import StoredItem, in_log_order
from memtape.core.ledger.rounds import KnownBar
from memtape.core.ledger.trades import Trade
from memtape.core.ledger.versions import TradeVersion
from memtape.core.memory.affect import AffectStep, affect_steps
from memtape.core.memory.episodes import Episode
from memtape.core.memory.learn import (
    AffectTimeline,
    Amendment,
    account_event_of,
    account_events_of_trade,
    amendment_of,
    believed_changes,
    claims_about,
    episodes_from_versions,
    timeline_of,
)
from memtape.core.memory.market import Market, completed_bar
from memtape.core.memory.shadows import Shadow, follow_shadow, is_followed, shadow_id
from memtape.core.memory.situation_fields import NO_MARKET_STATE, market_state_at
from memtape.core.observed import Decision
from memtape.core.skills import Agent
from memtape.core.values import read

Bars = Callable[[str], Sequence[KnownBar]]  # all that is known of a symbol


class LearnedMemories(NamedTuple):
    """What an agent remembers."""

    episodes: list[Episode]  # in all their versions
    steps: list[AffectStep]
    shadows: list[tuple[Decision, Shadow]]  # of the decisions not to trade that still stand
    past: AffectTimeline


class _Charts:
    """The markets of the symbols that were asked for."""

    def __init__(self, bars: Bars) -> None:
        self._bars, self._markets = bars, dict[str, Market]()

    def market(self, symbol: str, _: datetime) -> Market:
        if symbol not in self._markets:
            self._markets[symbol] = Market(completed_bar(seen) for seen in self._bars(symbol))
        return self._markets[symbol]


def learn_all(
    agent: Agent, versions: Sequence[TradeVersion], kept: Sequence[StoredItem], bars: Bars, verified_from: datetime | None
) -> LearnedMemories:
    """All memories. Of what was `kept`, equity marks, cash flows, corrections and decisions count; the rest is in `versions`.

    >>> desk = Agent(id="desk", skill="breakout")
    >>> learn_all(desk, [], [], lambda symbol: [], None)[:3]
    ([], [], [])
    """
    market, starting, notes = _Charts(bars).market, float(agent.settings.starting_equity), amended_later(kept, versions)

    def said(trade: Trade) -> Sequence[Amendment]:
        return notes.get(trade.id, ())

    told = [account_event_of(item) for item in in_log_order(item for item in kept if item.kind in ("equity", "flow"))]
    for version in versions:
        trade = version.trade
        seen = market_state_at(market(trade.symbol, trade.entry_at), trade.entry_at) if trade.pnl_r is None else NO_MARKET_STATE
        told += account_events_of_trade(version, seen, said(trade))
    steps = affect_steps(believed_changes(told, None, verified_from), starting)
    past = timeline_of(told, steps, starting, verified_from)
    episodes = episodes_from_versions(versions, market, past, starting, said)
    shadows: list[tuple[Decision, Shadow]] = []
    for item, decision in _followed(kept):
        assert decision.symbol is not None and decision.t is not None
        seen = market_state_at(market(decision.symbol, decision.t), decision.t)
        of_it = notes.get(shadow_id(agent.id, item.key), ())
        shadow = follow_shadow(
            agent, decision, item.known_at, bars(decision.symbol), seen, past.at(decision.t), of_it, item.gone_at
        )
        episodes += shadow.episodes
        if item.gone_at is None:
            shadows.append((decision, shadow))
    return LearnedMemories(episodes, steps, shadows, past)


def amended_later(kept: Iterable[StoredItem], versions: Sequence[TradeVersion]) -> dict[str, list[Amendment]]:
    """What was said of each memory after it was recorded: corrections, and claims that speak of a trade of the ledger."""
    notes: dict[str, list[Amendment]] = {}
    for item in kept:
        if item.kind == "correction":
            notes.setdefault(item.symbol, []).append(amendment_of(item))
    for id_, told in claims_about(versions).items():
        notes.setdefault(id_, []).extend(told)
    return notes


def _followed(kept: Iterable[StoredItem]) -> Iterable[tuple[StoredItem, Decision]]:
    for item in in_log_order(item for item in kept if item.kind == "decision"):
        if is_followed(decision := read(Decision, item.body)):
            yield item, decision
