"""Which records the lines of a brief stand for: the trades that it lists, and the short ids of everything that it shows."""

from __future__ import annotations

from memtape.core.brief.inputs import BriefInputs
from memtape.core.brief.short_ids import ShortIds
from memtape.core.ledger.trades import Trade, entry_order


def shown_trades(inputs: BriefInputs) -> list[Trade]:
    """Returns the closed trades that a brief shows as recent ones, the newest entry first."""
    closed = sorted((trade for trade in inputs.recent if trade.exit_at is not None), key=entry_order, reverse=True)
    return closed[: inputs.skill.context.memory.recentTradesK]


def brief_short_ids(inputs: BriefInputs) -> ShortIds:
    """Returns the short ids of a brief. Those of lessons and recent trades do not depend on what else it shows."""
    stable: list[str] = [one.id for one in (*inputs.lessons, *inputs.skill_lessons)]
    stable += [trade.id for trade in shown_trades(inputs)]
    changing: list[str] = [position.trade.id for position in inputs.holding]
    if (found := inputs.recalled) is not None:
        changing += [warning.id for warning in found.warnings]
        changing += [memory.id for memory in (*found.ranked, *found.beliefs)]
    changing += [plan.state.plan.id for plan in inputs.plans]
    changing += [conviction.decision for conviction in inputs.convictions]
    changing += [passage.id for passage in inputs.documents]
    changing += [decision.id for decision in inputs.similar]
    return ShortIds(stable, changing)
