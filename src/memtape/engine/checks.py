"""One call for what memory has to say about an order: recall, plans, beliefs, state, the calendar, the owner's own rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from memtape.core.calendar import CalendarEvent, upcoming_events
from memtape.core.memory.beliefs import Belief
from memtape.core.memory.plans import FiredPlan, ResolvedPlans, resolve_plans
from memtape.core.memory.predicate import holds, read_predicate
from memtape.core.observed import Side, Situation
from memtape.core.recall.checks import CheckReason, CheckVerdict, order_verdict
from memtape.core.recall.reference import Recalled
from memtape.core.values import read
from memtape.engine.view.memories import AnswerBasis, PlanView, Recollection
from memtape.engine.view.plan_inputs import current_situation
from memtape.store.cutoff import Cutoff

EVENT_HORIZON = timedelta(hours=24)
MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class OrderCheck:
    """What memory has to say about an order."""

    verdict: CheckVerdict
    reasons: tuple[CheckReason, ...]
    recalled: Recalled
    moment: AnswerBasis
    plans: tuple[PlanView, ...]  # those that would fire
    resolved: ResolvedPlans
    beliefs: tuple[Belief, ...]  # those that hold here
    events: tuple[CalendarEvent, ...]
    risk_share: float | None
    avoid: tuple[str, ...]


def check_order(
    agent: Recollection, *, symbol: str, side: Side, situation: Mapping[str, Any] | None, strategy: str | None,
    risk_usd: float | None, as_of: datetime | None, avoid: tuple[str, ...], head: int | None = None, limit: int = 5,
) -> OrderCheck:  # fmt: skip
    """Gather it all, as of one moment."""
    at = as_of or agent.now()
    past = agent._again(at, head).past if head is not None else None
    with agent._memory.reading(agent.agent.id) as tables:
        said = read(Situation, situation) if situation is not None else None
        now, _ = current_situation(tables, agent.agent, Cutoff(at, head), symbol, said, past)
    recalled, _, moment = agent.recall(now, symbol=symbol, strategy=strategy, side=side, limit=limit, as_of=at, head=head)
    context = {"side": side, "signal": True, **({"strategy": strategy} if strategy else {})}
    seen_now = agent.plans(now, symbol=symbol, as_of=at, head=head, context=context)
    firing = [seen for seen in seen_now if seen.finding in ("fires", "holds")]
    active = resolve_plans([fired_of(seen) for seen in firing if seen.standing.status == "active"])
    proposed = resolve_plans([fired_of(seen) for seen in firing if seen.standing.status == "proposed"])
    facts = {name: getattr(now, name) for name in Situation.__slots__} | {"side": side, "symbol": symbol, "strategy": strategy}
    beliefs = [
        belief for belief in agent.beliefs(as_of=at, head=head)[0]
        if belief.symbol in (None, symbol) and belief.strategy in (None, strategy or belief.strategy)
        and belief.status in ("candidate", "believed")
        and holds(read_predicate(belief.proposition.when, None, "when"), facts) is True
    ]  # fmt: skip
    mood = agent.mood(as_of=at, head=head)
    events = list(upcoming_events(agent._memory.events(Cutoff(as_of=at)), at, EVENT_HORIZON))
    equity = mood.equity if mood.equity > 0 else None
    share = risk_usd / equity if risk_usd is not None and equity else None
    verdict, reasons = order_verdict(
        evidence=recalled.evidence, warnings=recalled.warnings, plans=active, proposed=proposed, affect=mood, beliefs=beliefs,
        events=events, minutes_ahead=[(e.t - at) / MINUTE for e in events], risk_share=share, avoid=avoid,
    )  # fmt: skip
    return OrderCheck(
        verdict, tuple(reasons), recalled, moment, tuple(firing), active, tuple(beliefs), tuple(events), share, avoid
    )


def fired_of(seen: PlanView) -> FiredPlan:
    """A plan as it is weighed against others."""
    plan = seen.standing.plan
    return FiredPlan(
        id=plan.id, action=plan.action, priority=plan.priority, created_at=seen.standing.at, size_factor=plan.size_factor
    )
