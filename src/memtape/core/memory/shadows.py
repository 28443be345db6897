"""Shadows: trades that were decided against, remembered by what they would have made.

A decision not to trade that names side, stop and target is followed on later bars like any other decision
(`core/decisions/outcomes.py`). Its episode has the situation of the moment of the decision, and the R of the fill that the bars
show. It is known when the outcome is. A bar that arrives late may change it; the earlier version stays on record. What was never
filled, and what left too little of the planned risk, is no episode.
"""

from __future__ import annotations

from collections.abc import Sequence

from memtape.core.codec import make_id
from memtape.core.decisions.followed import FollowedDecision
from memtape.core.decisions.outcomes import OutcomeVersion
from memtape.core.ids import AgentId, MemoryId
from memtape.core.memory.affect import AffectStep
from memtape.core.memory.episodes import Episode
from memtape.core.memory.learn import Amendment, episode_versions
from memtape.core.memory.market import MarketState
from memtape.core.memory.situation_fields import entry_fields
from memtape.core.skills import Agent


def shadow_id(agent: AgentId, decision: str) -> MemoryId:
    """Returns the id of the episode of a decision not to trade."""
    return MemoryId(make_id(agent, "shadow", decision))


def remembered_versions(followed: FollowedDecision) -> list[OutcomeVersion]:
    """Returns the versions of an outcome that are episodes: of a shadow that ended, with a risk that counts."""
    return [v for v in followed.versions if v.outcome.shadow and v.outcome.is_final and v.outcome.counts]


def shadow_episodes(
    agent: Agent, followed: FollowedDecision, market: MarketState, state: AffectStep | None, amendments: Sequence[Amendment] = ()
) -> list[Episode]:
    """Returns the episode of a decision not to trade in all its versions, with later amendments."""
    decision = followed.decision
    assert decision.t is not None and decision.stop is not None and decision.symbol is not None
    situation = entry_fields(decision.t, decision.situation, market, state)
    # Losses are always counted, never taken from the stated situation.
    situation["consecutive_losses"] = state.losses if state is not None else None
    found: list[Episode] = []
    for version in remembered_versions(followed):
        outcome = version.outcome
        assert outcome.entry_price is not None and outcome.exit_at is not None
        risk = abs(float(outcome.entry_price - decision.stop))
        episode = Episode(
            id=shadow_id(agent.id, followed.item.key),
            known_from=version.known_from,
            known_to=version.known_to,
            kind="shadow",
            symbol=decision.symbol,
            strategy=decision.strategy or agent.skill,
            side=decision.side or "long",
            tier=2,
            claimed=False,
            source="shadow",
            entry_at=decision.t,
            exit_at=outcome.exit_at,
            pnl_r=outcome.r,
            r_source="stop",
            pnl_usd=None,
            hold_minutes=(outcome.exit_at - decision.t).total_seconds() / 60.0,
            risk_share=None,
            mfe_r=None,
            mae_r=None,
            target_r=abs(float(decision.target - outcome.entry_price)) / risk if decision.target is not None else None,
            stop_atr=None,
            partial_r=None,
            late_atr=None,
            move_atr=market.move_atr,
            trigger=outcome.cause,
            confidence=float(decision.confidence) if decision.confidence is not None else None,
            teach="learn",
            **situation,
            reflection=decision.reason,
            tags=decision.tags,
        )
        found += episode_versions(episode, amendments)
    return found
