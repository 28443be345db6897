"""Shadows: trades that were decided against, followed to their end on later bars.

A decision not to trade that names side, stop and target has an outcome: the later bars show which of stop and target would have
come first; any doubt is decided against the trade (`plans.plan_ending`). After 30 days it ends at the last close. Without shadows
a rule that says "skip" could never be unlearned. The outcome is known when the bar that ended it is. A bar that arrives late may
change it; the earlier version stays on record.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from memtape.core.codec import make_id
from memtape.core.decisions.outcomes import NOT_TAKEN
from memtape.core.ids import AgentId, MemoryId
from memtape.core.ledger.rounds import KnownBar
from memtape.core.memory.affect import AffectStep
from memtape.core.memory.episodes import Episode
from memtape.core.memory.learn import Amendment, episode_versions, until_voided
from memtape.core.memory.market import MarketState
from memtape.core.memory.plans import plan_ending
from memtape.core.memory.situation import Candle
from memtape.core.memory.situation_fields import entry_fields
from memtape.core.observed import Decision
from memtape.core.skills import Agent

FOLLOWED_FOR = timedelta(days=30)
WATCHED_FOR = 2 * FOLLOWED_FOR  # the last bar that began in time has ended by then


class ShadowEnding(NamedTuple):
    """The end of a shadow, as believed from one moment on."""

    known_from: datetime
    exit_at: datetime
    price: float
    trigger: str


class Shadow(NamedTuple):
    """The result of following a decision not to trade."""

    episodes: list[Episode]  # in all their versions
    until: datetime | None  # when it ended; None: still open


def is_followed(decision: Decision) -> bool:
    """Returns True if a decision is not to trade and states enough of the trade to follow it."""
    return (
        (decision.action or "").lower() in NOT_TAKEN
        and None not in (decision.symbol, decision.side, decision.stop, decision.target)
    )  # fmt: skip


def shadow_id(agent: AgentId, decision: str) -> MemoryId:
    """Returns the id of the episode of a decision not to trade."""
    return MemoryId(make_id(agent, "shadow", decision))


def later_bars(decision: Decision, bars: Sequence[KnownBar]) -> list[KnownBar]:
    """Returns the bars that may end a shadow: those that began after it, by their end, the shorter first."""
    assert decision.t is not None
    last, end = decision.t + FOLLOWED_FOR, decision.t + WATCHED_FOR
    after = [known for known in bars if decision.t <= known.bar.t0 < last and known.bar.t1 <= end]
    return sorted(after, key=lambda known: (known.bar.t1, known.bar.frame))


def shadow_endings(decision: Decision, known_at: datetime, bars: Sequence[KnownBar]) -> list[ShadowEnding]:
    """Returns the ends of a shadow in the versions that were believed; none if it is open."""
    later = later_bars(decision, bars)
    knowledge = sorted({max(known_at, known.known_at) for known in later})
    if all(a.known_at <= b.known_at for a, b in itertools.pairwise(later)):
        ended = _end(decision, later)
        if ended is None:
            return []
        place, exit_at, price, trigger = ended
        return [ShadowEnding(max([known_at, *(known.known_at for known in later[: place + 1])]), exit_at, price, trigger)]
    found: list[ShadowEnding] = []
    for moment in knowledge:
        ended = _end(decision, [known for known in later if known.known_at <= moment])
        if ended is not None and (not found or found[-1][1:] != ended[1:]):
            found.append(ShadowEnding(moment, *ended[1:]))
    return found


def _end(decision: Decision, later: Sequence[KnownBar]) -> tuple[int, datetime, float, str] | None:
    assert decision.t is not None and decision.stop is not None
    side, stop = 1 if decision.side == "long" else -1, float(decision.stop)
    target = float(decision.target) if decision.target is not None else None
    past = next((n for n, known in enumerate(later) if known.bar.t1 >= decision.t + FOLLOWED_FOR), None)
    # The shadow ends there; longer bars after it do not count.
    later = later if past is None else later[: past + 1]
    candles = [Candle(float(s.bar.o), float(s.bar.h), float(s.bar.l), float(s.bar.c)) for s in later]
    if (ended := plan_ending(side, stop, target, candles)) is not None:
        place, price = ended
        won = target is not None and side * (price - target) >= 0
        return place, later[place].bar.t1, price, "target" if won else "stop"
    if past is not None:
        return past, later[past].bar.t1, candles[past].close, "time"
    return None


def follow_shadow(
    agent: Agent, decision: Decision, known_at: datetime, bars: Sequence[KnownBar], market: MarketState, state: AffectStep | None,
    amendments: Sequence[Amendment] = (), voided_at: datetime | None = None,
) -> Shadow:  # fmt: skip
    """Returns a decision not to trade followed to its end on bars, with later amendments, until it was taken back."""
    ends = shadow_endings(decision, known_at, bars)
    episodes = _episodes(agent, decision, ends, market, state)
    versions = [version for episode in episodes for version in episode_versions(episode, amendments)]
    return Shadow(until_voided(versions, voided_at), ends[-1].exit_at if ends else None)


def _episodes(
    agent: Agent, decision: Decision, ends: Sequence[ShadowEnding], market: MarketState, state: AffectStep | None
) -> list[Episode]:
    """Returns the episode in all versions that follow from the bars."""
    assert decision.t is not None and decision.id is not None and decision.stop is not None and decision.symbol is not None
    situation = entry_fields(decision.t, decision.situation, market, state)
    entry, stop, side = situation["price"], float(decision.stop), 1 if decision.side == "long" else -1
    if entry is None or side * (entry - stop) <= 0:
        # No price was known, or it had already passed the stop: there was no trade to take.
        return []
    # Losses are always counted, never taken from the stated situation.
    situation["consecutive_losses"] = state.losses if state is not None else None
    risk = abs(entry - stop)
    found: list[Episode] = []
    for ended, following in zip(ends, [*ends[1:], None][: len(ends)], strict=True):
        found.append(
            Episode(
                id=shadow_id(agent.id, decision.id),
                known_from=ended.known_from,
                known_to=following.known_from if following else None,
                kind="shadow",
                symbol=decision.symbol,
                strategy=decision.strategy or agent.skill,
                side=decision.side or "long",
                tier=2,
                claimed=False,
                source="shadow",
                entry_at=decision.t,
                exit_at=ended.exit_at,
                pnl_r=side * (ended.price - entry) / risk,
                r_source="stop",
                pnl_usd=None,
                hold_minutes=(ended.exit_at - decision.t).total_seconds() / 60.0,
                risk_share=None,
                mfe_r=None,
                mae_r=None,
                target_r=abs(float(decision.target) - entry) / risk if decision.target is not None else None,
                stop_atr=None,
                partial_r=None,
                late_atr=None,
                move_atr=market.move_atr,
                trigger=ended.trigger,
                confidence=float(decision.confidence) if decision.confidence is not None else None,
                teach="learn",
                **situation,
                reflection=decision.reason,
                tags=decision.tags,
            )
        )
    return found
