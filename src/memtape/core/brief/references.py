"""Which records the lines of a brief stand for: the trades that it lists, and the short ids of everything that it shows."""

from __future__ import annotations

from collections.abc import Iterable

from memtape.core.brief.inputs import BriefInputs
from memtape.core.brief.short_ids import ShortIds
from memtape.core.ledger.trades import Trade, entry_order
from memtape.core.memory.outcome_units import Signal, signal_of


def shown_signals(inputs: BriefInputs) -> list[tuple[Trade, ...]]:
    """Returns the closed trades that a brief shows as recent ones, the newest entry first; trades of one signal together.

    In the longer form of the seed each trade stands by itself.
    """
    closed = sorted((trade for trade in inputs.recent if trade.exit_at is not None), key=entry_order, reverse=True)
    config = inputs.skill.context.memory
    found: list[tuple[Trade, ...]] = [(trade,) for trade in closed] if config.rows == "seed" else group_by_signal(closed)
    return found[: config.recentTradesK]


def group_by_signal(trades: Iterable[Trade]) -> list[tuple[Trade, ...]]:
    """Returns trades in their order, those of one signal together. What the agent only claims is apart from what is on record."""
    groups: dict[tuple[Signal, bool], list[Trade]] = {}
    for trade in trades:
        groups.setdefault((signal_of(trade), trade.quality == "claimed"), []).append(trade)
    return [tuple(group) for group in groups.values()]


def brief_short_ids(inputs: BriefInputs) -> ShortIds:
    """Returns the short ids of a brief. Those of lessons and recent trades do not depend on what else it shows."""
    stable: list[str] = [one.id for one in (*inputs.lessons, *inputs.skill_lessons)]
    stable += [trades[0].id for trades in shown_signals(inputs)]
    changing: list[str] = [position.trade.id for position in inputs.holding]
    if (found := inputs.recalled) is not None:
        changing += [warning.id for warning in found.warnings]
        changing += [memory.id for memory in (*found.ranked, *found.beliefs)]
    changing += [plan.state.plan.id for plan in inputs.plans]
    changing += [conviction.decision for conviction in inputs.convictions]
    changing += [passage.id for passage in inputs.documents]
    changing += [decision.id for decision in inputs.similar]
    return ShortIds(stable, changing)
