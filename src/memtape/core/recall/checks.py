"""Checks an order against memory before it is sent: clear, caution or against, with reasons in words. Advice only.

`against` needs a decision of the owner or evidence: an active plan that forbids the order, outcomes in similar situations whose
whole interval is below zero, or a drawdown at its limit. `caution` is anything that a careful trader would want to know: a bad
loss in much the same situation, more risk than evidence allows, a release ahead, a proposal to skip.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Literal

from memtape.core.brief.number_format import format_money, signed_figure
from memtape.core.brief.sanitize import quote_text
from memtape.core.calendar import CalendarEvent
from memtape.core.exposure import PositionExposure, reaction_text
from memtape.core.memory.affect import Affect
from memtape.core.memory.beliefs import Belief
from memtape.core.memory.plans import ResolvedPlans
from memtape.core.recall.evidence import Evidence
from memtape.core.recall.warnings import LossWarning
from memtape.core.skills import Skill
from memtape.core.value_class import dataclass

CheckVerdict = Literal["clear", "caution", "against"]
MIN_EFFECTIVE_SAMPLE = 10.0  # effective trades, below which evidence does not count
HIGH_SIMILARITY, BAD_LOSS_R = 0.8, -2.0
MAX_RISK_SHARE = 0.05  # of equity on one trade


@dataclass(frozen=True, slots=True)
class CheckReason:
    """One reason, its weight, and its source."""

    weighs: CheckVerdict
    text: str
    source: str  # plans, evidence, state, warnings, size, events, beliefs, avoid


def order_verdict(
    *, evidence: Evidence, warnings: Sequence[LossWarning], plans: ResolvedPlans, affect: Affect,
    beliefs: Iterable[Belief], events: Sequence[CalendarEvent], minutes_ahead: Sequence[float],
    exposures: Sequence[PositionExposure], risk_share: float | None, skill: Skill, currency: str = "USD",
) -> tuple[CheckVerdict, list[CheckReason]]:  # fmt: skip
    """Returns the verdict on an order and its reasons, the most serious first."""
    reasons = [
        *_from_plans(plans), *_from_evidence(evidence, currency), *_from_state(affect, skill.drawdown_limit, currency),
        *_from_warnings(warnings), *_from_size(evidence, risk_share, affect), *_from_beliefs(beliefs),
        *_from_events(events, minutes_ahead, exposures),
    ]  # fmt: skip
    whose = "Your own rule" if skill.is_owners else "A rule of this skill, written by a model"
    reasons += [CheckReason("clear", f"{whose}: {rule}", "avoid") for rule in skill.avoid]
    order: tuple[CheckVerdict, ...] = ("against", "caution", "clear")
    reasons.sort(key=lambda reason: order.index(reason.weighs))
    verdict = reasons[0].weighs if reasons else "clear"
    return verdict, reasons


def _from_plans(plans: ResolvedPlans) -> Iterable[CheckReason]:
    if plans.leads is not None:
        if plans.leads.action in ("skip_trade", "force_exit"):
            yield CheckReason("against", f"Plan {plans.leads.id} says: {plans.leads.action.replace('_', ' ')}", "plans")
        elif plans.size_factor < 1.0:
            yield CheckReason("caution", f"Plan {plans.leads.id} says: {plans.size_factor:g} of the usual size", "plans")
        else:
            yield CheckReason("caution", f"Plan {plans.leads.id} fires: {plans.leads.action.replace('_', ' ')}", "plans")


def _from_evidence(evidence: Evidence, currency: str) -> Iterable[CheckReason]:
    if evidence.mean_r is None:
        yield CheckReason("clear", "No trade with a known outcome to compare with", "evidence")
        return
    if evidence.n_eff < MIN_EFFECTIVE_SAMPLE:
        needed = f"effective sample {evidence.n_eff:.1f} of n = {evidence.n}, at least {MIN_EFFECTIVE_SAMPLE:.0f} needed"
        yield CheckReason("caution" if evidence.mean_r < 0 else "clear", f"Too little evidence: {needed}", "evidence")
        return
    low, high = evidence.mean_r_interval or (evidence.mean_r, evidence.mean_r)
    counted = f"{evidence.n} trades, similar ones counting more (effective sample {evidence.n_eff:.1f})"
    text = f"{counted}: mean {signed_figure(evidence.mean_r)}"
    unit = evidence.unit.phrase(currency)
    short = "R" if unit == "R" else ""
    text += f"{short}, 90 % interval {signed_figure(low)} to {signed_figure(high)}{short}{'' if short else f', in {unit}'}"
    weighs: CheckVerdict = "against" if high < 0 else "caution" if evidence.mean_r < 0 else "clear"
    yield CheckReason(weighs, text, "evidence")


def _from_state(affect: Affect, owners_limit: float | None, currency: str) -> Iterable[CheckReason]:
    limit = affect.limit if owners_limit is None else owners_limit
    # A limit is called the owner's only if the owner set it.
    whose = f"memtape's default limit of {100 * limit:.4g} %" if owners_limit is None else f"your limit of {100 * limit:.4g} %"
    fallen = f"Drawdown of {100 * affect.drawdown:.1f} %"
    if affect.assumption and not affect.below_peak:
        fallen += f" ({affect.assumption.removeprefix(', ')})"
    elif affect.assumption:
        lost = format_money(Decimal(repr(affect.below_peak)), currency)
        share = f"{100 * affect.drawdown:.1f} %" if affect.drawdown_has_share else "more than all of it"
        fallen = f"Drawdown of {lost} ({share}{affect.assumption})"
    if affect.drawdown >= limit:
        # Nobody set this limit, and nobody said how large the account is: that is no reason against an order.
        nobodys = owners_limit is None and bool(affect.assumption)
        yield CheckReason("caution" if nobodys else "against", f"{fallen} has reached {whose}", "state")
    elif affect.drawdown > 0.5 * limit:
        yield CheckReason("caution", f"{fallen} is past half of {whose}; risk appetite {affect.risk_appetite:.2f}", "state")
    if affect.consecutive_losses >= 3:
        yield CheckReason("caution", f"{affect.consecutive_losses} trades in a row without a win", "state")


def _from_warnings(warnings: Sequence[LossWarning]) -> Iterable[CheckReason]:
    for warned in warnings[:1]:
        much = warned.similarity >= HIGH_SIMILARITY and warned.r <= BAD_LOSS_R
        yield CheckReason("caution" if much else "clear", f"A similar trade lost: {warned.why}", "warnings")


def _from_size(evidence: Evidence, risk_share: float | None, affect: Affect) -> Iterable[CheckReason]:
    hint = evidence.hint
    if risk_share is None or hint.sizing.n_eff < MIN_EFFECTIVE_SAMPLE:
        return
    text = f"Risks {100 * risk_share:.2f} % of equity{affect.assumption}; evidence allows {100 * hint.f:.2f} %"
    far_more = risk_share > max(5 * hint.f, MAX_RISK_SHARE)
    yield CheckReason("against" if far_more else "caution" if risk_share > hint.f + 1e-12 else "clear", text, "size")


def _from_beliefs(beliefs: Iterable[Belief]) -> Iterable[CheckReason]:
    for belief in beliefs:
        if belief.status == "believed" and belief.probability is not None:
            yield CheckReason("caution" if belief.probability < 0.5 else "clear", belief.sentence, "beliefs")


def _from_events(
    events: Sequence[CalendarEvent], minutes_ahead: Sequence[float], exposures: Sequence[PositionExposure]
) -> Iterable[CheckReason]:
    reactions = {each.exposure.event_id: reaction_text(each.exposure) for each in exposures}
    for event, minutes in zip(events, minutes_ahead, strict=True):
        near = minutes <= 60 and not event.all_day
        weighs: CheckVerdict = "caution" if event.is_important and near else "clear"
        when = f"on {event.t:%Y-%m-%d}, time unknown" if event.all_day else f"in {minutes:.0f} minutes"
        text = f"{quote_text(event.title, 64)} ({event.impact_text}) {when}"
        if reaction := reactions.get(event.id):
            text += f"; this order's market {reaction}"
        yield CheckReason(weighs, text, "events")
