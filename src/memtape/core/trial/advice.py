"""What a rule makes of its memory before an entry: take the trade, take half of it, or leave it out.

- A reason of the check before an order that weighs `against`, a lesson that trades like this one do worse and lose, or outcomes
  in similar situations that lose on average over at least ten effective trades: leave out.
- Any other reason that weighs `caution`, but for too little evidence: half the size.
- Anything else: the trade as it is.

Reasons from the state of the account (drawdown, losses in a row) are left aside: a guard needs no memory for them. Lessons that
could be chance are hints for the owner and do not count, as in a brief.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from memtape.core.lessons.reflection import Candidate, Lesson
from memtape.core.lessons.trade_groups import SINGLE
from memtape.core.memory.episodes import EPISODE_FIELDS, Episode
from memtape.core.observed import Side, Situation
from memtape.core.recall.checks import MIN_EFFECTIVE_SAMPLE, CheckReason
from memtape.core.recall.evidence import Evidence

Advised = Literal["take", "halve", "skip"]
STATE, EVIDENCE_SOURCE = "state", "evidence"  # sources of reasons


@dataclass(frozen=True, slots=True)
class MemoryAdvice:
    """What to do with an entry, and why in one sentence."""

    advised: Advised = "take"
    why: str = ""


TAKE = MemoryAdvice()


def advice_of(reasons: Sequence[CheckReason], evidence: Evidence | None = None, lessons: Iterable[str] = ()) -> MemoryAdvice:
    """Returns the advice of reasons, of the evidence behind them, and of lessons that speak against the trade.

    >>> advice_of([CheckReason("against", "Drawdown 25 %", "state"), CheckReason("caution", "It lost here", "warnings")])
    MemoryAdvice(advised='halve', why='It lost here')
    >>> advice_of([], None, ["Shorts: -0.4R a trade"]).advised
    'skip'
    """
    counted = [reason for reason in reasons if reason.source != STATE]
    if against := [reason.text for reason in counted if reason.weighs == "against"] + list(lessons):
        return MemoryAdvice("skip", against[0])
    if evidence is not None and evidence.n_eff >= MIN_EFFECTIVE_SAMPLE and evidence.mean_r is not None and evidence.mean_r < 0:
        return MemoryAdvice("skip", next(reason.text for reason in counted if reason.source == EVIDENCE_SOURCE))
    if caution := next((one.text for one in counted if one.weighs == "caution" and one.source != EVIDENCE_SOURCE), None):
        return MemoryAdvice("halve", caution)
    return TAKE


def lessons_against(
    lessons: Iterable[Lesson], candidates: Iterable[Candidate], situation: Situation, *, at: datetime, symbol: str, side: Side
) -> list[str]:
    """Returns the lessons that trades like this one lose, and more than others do."""
    by_id = {one.id: one for one in candidates}
    order = order_episode(situation, at, symbol, side)
    found = []
    for lesson in lessons:
        about = by_id.get(lesson.candidate)
        if about is None or about.chance or about.rest is None or not about.mean < min(0.0, about.rest):
            continue
        if group_contains(about.field, about.value, order):
            found.append(lesson.text)
    return found


def order_episode(situation: Situation, at: datetime, symbol: str, side: Side) -> Episode:
    """Returns an order as lessons see trades: by its labels at the entry."""
    known = dict.fromkeys(EPISODE_FIELDS) | {
        "symbol": symbol, "side": side, "regime": situation.regime, "volatility_regime": situation.volatility_regime,
        "session": situation.session, "entry_at": at, "tags": (),
    }  # fmt: skip
    return Episode(**known)  # type: ignore[arg-type]


def group_contains(field: str, value: str, order: Episode) -> bool:
    """Returns True if an order belongs to the group of trades that a lesson is about.

    >>> from datetime import UTC
    >>> order = order_episode(Situation(session="london"), datetime(2026, 6, 5, 9, tzinfo=UTC), "BTC", "short")
    >>> group_contains("session", "london", order), group_contains("symbol and side", "BTC long", order)
    (True, False)
    """
    name, _, with_side = field.partition(" and ")
    if with_side:
        value, _, side = value.rpartition(" ")
        if side != order.side:
            return False
    condition = next((one for one in SINGLE if one.field == name), None)
    return condition is not None and value in condition.values(order)
