"""All memories out of all that was recorded, in one fold: what a rebuild puts in place and what an earlier head had to say.

The write path forms the same episodes, steps and shadows a few at a time; that it ends where this does is what `verify` proves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from memtape.core.affect import Felt, felt
from memtape.core.episodes import Episode
from memtape.core.history import Version
from memtape.core.items import Kept, in_turn
from memtape.core.learn import Note, Past, account_told, believed, claims_on, correction, episodes_of, past_of, told_of
from memtape.core.market import Market, ended
from memtape.core.observed import Decision
from memtape.core.rounds import Watched
from memtape.core.said import NOTHING, seen_at
from memtape.core.shadows import Shadow, follow, is_followed, shadow_id
from memtape.core.skills import Agent
from memtape.core.trades import Trade
from memtape.core.values import read

Bars = Callable[[str], Sequence[Watched]]  # all that is known of a symbol


class Remembered(NamedTuple):
    """What an agent remembers."""

    episodes: list[Episode]  # in all their versions
    steps: list[Felt]
    shadows: list[tuple[Decision, Shadow]]  # of the decisions not to trade that still stand
    past: Past


class _Charts:
    """The markets of the symbols that were asked for."""

    def __init__(self, bars: Bars) -> None:
        self._bars, self._markets = bars, dict[str, Market]()

    def market(self, symbol: str, _: datetime) -> Market:
        if symbol not in self._markets:
            self._markets[symbol] = Market(ended(seen) for seen in self._bars(symbol))
        return self._markets[symbol]


def remembered(
    agent: Agent, versions: Sequence[Version], kept: Sequence[Kept], bars: Bars, verified_from: datetime | None
) -> Remembered:
    """All memories. Of what was `kept`, equity marks, cash flows, corrections and decisions count; the rest is in `versions`.

    >>> desk = Agent(id="desk", skill="breakout")
    >>> remembered(desk, [], [], lambda symbol: [], None)[:3]
    ([], [], [])
    """
    market, starting, notes = _Charts(bars).market, float(agent.settings.starting_equity), said_later(kept, versions)

    def said(trade: Trade) -> Sequence[Note]:
        return notes.get(trade.id, ())

    told = [account_told(item) for item in in_turn(item for item in kept if item.kind in ("equity", "flow"))]
    for version in versions:
        trade = version.trade
        seen = seen_at(market(trade.symbol, trade.entry_at), trade.entry_at) if trade.pnl_r is None else NOTHING
        told += told_of(version, seen, said(trade))
    steps = felt(believed(told, None, verified_from), starting)
    past = past_of(told, steps, starting, verified_from)
    episodes = episodes_of(versions, market, past, starting, said)
    shadows: list[tuple[Decision, Shadow]] = []
    for item, decision in _followed(kept):
        assert decision.symbol is not None and decision.t is not None
        seen = seen_at(market(decision.symbol, decision.t), decision.t)
        of_it = notes.get(shadow_id(agent.id, item.key), ())
        shadow = follow(agent, decision, item.known_at, bars(decision.symbol), seen, past.at(decision.t), of_it, item.gone_at)
        episodes += shadow.episodes
        if item.gone_at is None:
            shadows.append((decision, shadow))
    return Remembered(episodes, steps, shadows, past)


def said_later(kept: Iterable[Kept], versions: Sequence[Version]) -> dict[str, list[Note]]:
    """What was said of each memory after it was recorded: corrections, and claims that speak of a trade of the ledger."""
    notes: dict[str, list[Note]] = {}
    for item in kept:
        if item.kind == "correction":
            notes.setdefault(item.symbol, []).append(correction(item))
    for id_, told in claims_on(versions).items():
        notes.setdefault(id_, []).extend(told)
    return notes


def _followed(kept: Iterable[Kept]) -> Iterable[tuple[Kept, Decision]]:
    for item in in_turn(item for item in kept if item.kind == "decision"):
        if is_followed(decision := read(Decision, item.body)):
            yield item, decision
