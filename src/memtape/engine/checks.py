"""One check before an order: recall, plans, beliefs, affect, the calendar and the owner's avoid rules, from one view."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from memtape.core.calendar import MODEL_TIER, CalendarEvent
from memtape.core.exposure import PositionExposure
from memtape.core.memory.beliefs import Belief
from memtape.core.memory.plans import ResolvedPlans, resolve_plans
from memtape.core.memory.predicate import holds, read_predicate
from memtape.core.observed import Situation
from memtape.core.recall.checks import CheckReason, CheckVerdict, order_verdict
from memtape.core.recall.reference import Recalled
from memtape.core.value_class import dataclass
from memtape.engine.view.events import events_concerning
from memtape.engine.view.exposure import position_exposures
from memtape.engine.view.memories import RecallQuestion, recall_situation
from memtape.engine.view.owner_stream import skill_of
from memtape.engine.view.plans import PlanView, plan_views, with_values
from memtape.engine.view.situation import current_situation
from memtape.engine.view.view import AnswerBasis

if TYPE_CHECKING:
    from memtape.core.observed import Side
    from memtape.engine.view.view import View

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
    exposures: tuple[PositionExposure, ...] = ()  # of the order to these events, as if it were filled


def check_order(
    view: View, *, symbol: str, side: Side, situation: Situation | None, strategy: str | None, risk_usd: float | None,
    notional_usd: Decimal | None = None, limit: int = 5,
) -> OrderCheck:  # fmt: skip
    """The verdict on an order and everything it rests on."""
    now, skill = current_situation(view, symbol, situation), skill_of(view.owner_tables, view.agent)[0]
    avoid = skill.avoid
    question = RecallQuestion(
        situation=now, symbol=symbol, strategy=strategy, side=side, limit=limit, stated=situation, hide=False
    )
    recalled, _, basis = recall_situation(view, question)
    context = {"side": side, "signal": True, **({"strategy": strategy} if strategy else {})}
    # What a model proposes or states says nothing here: it could state anything, as often as it likes.
    views = [plan for plan in plan_views(view, symbol, now, context) if plan.state.status == "active"]
    firing = with_values(view, [plan for plan in views if plan.finding in ("fires", "holds")])
    active = resolve_plans([plan.fired() for plan in firing])
    trusted = [belief for belief in view.beliefs() if belief.tier < MODEL_TIER]
    beliefs = [belief for belief in trusted if _holds_here(belief, now, symbol, side, strategy)]
    affect = view.affect()
    events = events_concerning(view, symbol)
    exposures = position_exposures(view, events, {(symbol, side): notional_usd})
    equity = affect.equity if affect.equity > 0 else None
    share = risk_usd / equity if risk_usd is not None and equity else None
    verdict, reasons = order_verdict(
        evidence=recalled.evidence, warnings=recalled.warnings, plans=active, affect=affect, beliefs=beliefs,
        events=events, exposures=exposures, minutes_ahead=[(e.t - view.as_of) / MINUTE for e in events], risk_share=share,
        skill=skill, currency=view.agent.settings.currency,
    )  # fmt: skip
    return OrderCheck(
        verdict, tuple(reasons), recalled, basis, tuple(firing), active, tuple(beliefs), events, share, avoid,
        exposures,
    )


def _holds_here(belief: Belief, now: Situation, symbol: str, side: Side, strategy: str | None) -> bool:
    """True if a belief is about this symbol and strategy, may be believed, and its condition holds in the situation."""
    if belief.symbol not in (None, symbol) or belief.strategy not in (None, strategy or belief.strategy):
        return False
    if belief.status not in ("candidate", "believed"):
        return False
    facts = {name: getattr(now, name) for name in Situation.__slots__}
    facts |= {"side": side, "symbol": symbol, "strategy": strategy}
    return holds(read_predicate(belief.proposition.when, None, "when"), facts) is True
