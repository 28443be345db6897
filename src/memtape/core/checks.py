"""What memory has to say about an order before it is sent: clear, caution or against, each reason in words. Advice only.

`against` needs something that the owner decided or that evidence shows: an active plan that says not to, outcomes in like
situations whose whole interval lies below zero, a drawdown at its limit. `caution` is anything that a careful trader would want
to have seen: a bad loss in much the same situation, more risk than evidence allows, a release ahead, a proposal to skip.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from memtape.core.affect import Affect
from memtape.core.beliefs import Belief
from memtape.core.calendar import Event
from memtape.core.evidence import Evidence
from memtape.core.plans import Resolved
from memtape.core.warning import Warned

Verdict = Literal["clear", "caution", "against"]
ENOUGH = 10.0  # effective trades below which evidence says nothing
MUCH_ALIKE, BAD_LOSS = 0.8, -2.0
TOO_MUCH = 0.05  # of equity on one trade, where evidence allows far less


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason, how much it weighs, and what it comes from."""

    weighs: Verdict
    text: str
    source: str  # plans, evidence, state, warnings, size, events, beliefs, avoid


def checked(
    *, evidence: Evidence, warnings: Sequence[Warned], plans: Resolved, proposed: Resolved, mood: Affect,
    beliefs: Iterable[Belief], events: Sequence[Event], minutes_ahead: Sequence[float], risk_share: float | None,
    avoid: Sequence[str],
) -> tuple[Verdict, list[Reason]]:  # fmt: skip
    """The verdict on an order, and its reasons, the heaviest first."""
    reasons = [
        *_from_plans(plans, proposed), *_from_evidence(evidence), *_from_state(mood), *_from_warnings(warnings),
        *_from_size(evidence, risk_share), *_from_beliefs(beliefs), *_from_events(events, minutes_ahead),
    ]  # fmt: skip
    reasons += [Reason("clear", f"Your own rule: {rule}", "avoid") for rule in avoid]
    order: tuple[Verdict, ...] = ("against", "caution", "clear")
    reasons.sort(key=lambda reason: order.index(reason.weighs))
    verdict = reasons[0].weighs if reasons else "clear"
    return verdict, reasons


def _from_plans(plans: Resolved, proposed: Resolved) -> Iterable[Reason]:
    if plans.leads is not None:
        if plans.leads.action in ("skip_trade", "force_exit"):
            yield Reason("against", f"Plan {plans.leads.id} says: {plans.leads.action.replace('_', ' ')}", "plans")
        elif plans.size_factor < 1.0:
            yield Reason("caution", f"Plan {plans.leads.id} says: {plans.size_factor:g} of the usual size", "plans")
        else:
            yield Reason("caution", f"Plan {plans.leads.id} fires: {plans.leads.action.replace('_', ' ')}", "plans")
    if proposed.leads is not None and proposed.leads.action in ("skip_trade", "force_exit", "reduce"):
        yield Reason(
            "caution", f"Proposed by a model, not confirmed: plan {proposed.leads.id} says {proposed.leads.action}", "plans"
        )


def _from_evidence(evidence: Evidence) -> Iterable[Reason]:
    if evidence.mean_r is None or evidence.n_eff < ENOUGH:
        poor = evidence.mean_r is not None and evidence.mean_r < 0
        yield Reason(
            "caution" if poor else "clear",
            f"Evidence is worth {evidence.n_eff:.1f} equal trades (n = {evidence.n}): too little to say",
            "evidence",
        )
        return
    low, high = evidence.mean_r_interval or (evidence.mean_r, evidence.mean_r)
    told = f"{evidence.n} trades (worth {evidence.n_eff:.1f}) in like situations: mean {evidence.mean_r:+.2f}R"
    told += f", 90 % {low:+.2f} to {high:+.2f}R"
    weighs: Verdict = "against" if high < 0 else "caution" if evidence.mean_r < 0 else "clear"
    yield Reason(weighs, told, "evidence")


def _from_state(mood: Affect) -> Iterable[Reason]:
    if mood.drawdown_state >= 1.0:
        yield Reason("against", f"Drawdown {100 * mood.drawdown:.1f} % is at its limit of {100 * mood.limit:.0f} %", "state")
    elif mood.drawdown_state > 0.5:
        yield Reason(
            "caution", f"Drawdown {100 * mood.drawdown:.1f} %, past half of its limit; appetite {mood.risk_appetite:.2f}", "state"
        )
    if mood.consecutive_losses >= 3:
        yield Reason("caution", f"{mood.consecutive_losses} losses in a row", "state")


def _from_warnings(warnings: Sequence[Warned]) -> Iterable[Reason]:
    for warned in warnings[:1]:
        much = warned.similarity >= MUCH_ALIKE and warned.r <= BAD_LOSS
        yield Reason("caution" if much else "clear", f"A loss like it: {warned.why}", "warnings")


def _from_size(evidence: Evidence, risk_share: float | None) -> Iterable[Reason]:
    hint = evidence.hint
    if risk_share is None or hint.sizing.n_eff < ENOUGH:
        return
    told = f"Risks {100 * risk_share:.2f} % of equity; evidence allows {100 * hint.f:.2f} %"
    far_more = risk_share > max(5 * hint.f, TOO_MUCH)
    yield Reason("against" if far_more else "caution" if risk_share > hint.f + 1e-12 else "clear", told, "size")


def _from_beliefs(beliefs: Iterable[Belief]) -> Iterable[Reason]:
    for belief in beliefs:
        if belief.status == "believed" and belief.probability is not None:
            yield Reason("caution" if belief.probability < 0.5 else "clear", belief.sentence, "beliefs")


def _from_events(events: Sequence[Event], minutes_ahead: Sequence[float]) -> Iterable[Reason]:
    for event, minutes in zip(events, minutes_ahead, strict=True):
        weighs: Verdict = "caution" if event.impact == "high" and minutes <= 60 else "clear"
        yield Reason(weighs, f"{event.name} ({event.impact or 'impact unknown'}) in {minutes:.0f} minutes", "events")
