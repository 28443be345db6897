"""The risk state of an account today: refusals and their reasons, orders, realised result, drawdown.

An order that was refused an hour ago would be refused again. An agent that does not know this proposes it again at every tick.
Each figure comes with the number of decisions or trades it counts. A day is a UTC day; nothing after `as_of` is known.

>>> from datetime import UTC
>>> from memtape.core.observed import GuardVerdict
>>> at = datetime(2026, 6, 5, 12, tzinfo=UTC)
>>> too_large = GuardVerdict(accepted=False, code="R3_POSITION_CAP", note="size above the cap")
>>> decisions = [Decision(id="d1", t=at - timedelta(minutes=12), action="buy", symbol="BTC", verdict=too_large)]
>>> state = risk_state(decisions, [], None, None, at)
>>> [(rule.code, len(rule.decisions)) for rule in state.refused], state.judged, state.orders, state.last_refused.minutes_ago
([('R3_POSITION_CAP', 1)], 1, 0, 12.0)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal, localcontext

from memtape.core.decisions.outcomes import NOT_TAKEN
from memtape.core.ledger.trades import Trade
from memtape.core.memory.affect import Affect
from memtape.core.observed import Decision
from memtape.core.value_class import dataclass
from memtape.core.values import MONEY, ZERO

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
HUNDRED = Decimal(100)
NO_RULE = "no rule named"


@dataclass(frozen=True, slots=True)
class RuleRefusals:
    """A rule that refused, and the decisions it refused."""

    code: str
    decisions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LastRefusal:
    """The latest refusal: the rule, its note, and how long ago it was."""

    decision: str
    code: str
    note: str | None
    minutes_ago: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskState:
    """An account's day. None is unknown, never zero."""

    refused: tuple[RuleRefusals, ...] = ()  # by rule in the last hour, the most frequent first
    judged: int = 0  # proposals of the last hour that got a verdict
    last_refused: LastRefusal | None = None
    orders: int = 0  # decisions of today to trade that were not refused
    decisions: int = 0  # decisions of today
    realized_usd: Decimal = ZERO  # net, of the trades closed today
    realized_pct: Decimal | None = None  # of the equity that the day began with
    closed: tuple[str, ...] = ()  # ids of the trades in realized_usd
    unknown: int = 0  # trades closed today whose outcome is unknown or unverified
    losing_streak: int | None = None
    drawdown: float | None = None  # a share of the money that was there
    drawdown_usd: Decimal = ZERO  # below the peak without deposits and withdrawals
    drawdown_limit: float | None = None
    assumption: str = ""  # what must be said beside a percentage of an equity that nobody stated

    @property
    def is_blank(self) -> bool:
        """True if there is nothing to report: no decision, no close, no streak, no drawdown."""
        quiet = self.decisions == 0 and not self.closed and not self.unknown and self.last_refused is None
        return quiet and not self.losing_streak and not self.drawdown


def risk_state(
    decisions: Sequence[Decision], closed_today: Sequence[Trade], affect: Affect | None, equity: Decimal | None,
    as_of: datetime, *, claims_count: bool = True,
) -> RiskState:  # fmt: skip
    """Returns the risk state from the last day's decisions, the trades closed today, affect, and the equity known now.

    The equity at the start of the day is that equity minus the result of the day's closed trades. If `claims_count` is False, the
    agent has a broker, and outcomes that it only claims are not counted.
    """
    day = as_of.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    known = sorted((d for d in decisions if _at(d) <= as_of), key=lambda d: (_at(d), d.id or ""))
    today = [d for d in known if _at(d) >= day]
    hour = [d for d in known if _at(d) > as_of - HOUR]
    refusals = [d for d in known if _is_refused(d)]
    closed = [t for t in closed_today if t.exit_at is not None and day <= t.exit_at <= as_of]
    priced = [t for t in closed if t.net_pnl_usd is not None and (claims_count or t.quality != "claimed")]
    profit = _net(priced)
    # No share of an equity that nobody stated.
    known_equity = equity if affect is None or affect.assumed_equity is None else None
    return RiskState(
        refused=_by_rule(d for d in hour if _is_refused(d)), judged=sum(d.verdict is not None for d in hour),
        last_refused=_last(refusals[-1], as_of) if refusals else None,
        orders=sum(_is_order(d) and not _is_refused(d) for d in today), decisions=len(today),
        realized_usd=profit, realized_pct=_share(profit, known_equity), closed=tuple(t.id for t in priced),
        unknown=len(closed) - len(priced),
        losing_streak=None if affect is None else affect.consecutive_losses,
        drawdown=None if affect is None else affect.drawdown,
        drawdown_usd=ZERO if affect is None else Decimal(repr(affect.below_peak)),
        drawdown_limit=None if affect is None else affect.limit,
        assumption="" if affect is None else affect.assumption,
    )  # fmt: skip


def _at(decision: Decision) -> datetime:
    assert decision.t is not None  # the log gives every decision its time
    return decision.t


def _is_refused(decision: Decision) -> bool:
    return decision.verdict is not None and not decision.verdict.accepted


def _is_order(decision: Decision) -> bool:
    return decision.action is not None and decision.action.lower() not in NOT_TAKEN


def _code(decision: Decision) -> str:
    return (decision.verdict.code if decision.verdict is not None else None) or NO_RULE


def _by_rule(refused: Iterable[Decision]) -> tuple[RuleRefusals, ...]:
    found: dict[str, list[str]] = {}
    for decision in refused:
        found.setdefault(_code(decision), []).append(decision.id or "")
    return tuple(RuleRefusals(code, tuple(ids)) for code, ids in sorted(found.items(), key=lambda rule: (-len(rule[1]), rule[0])))


def _last(refusal: Decision, as_of: datetime) -> LastRefusal:
    note = refusal.verdict.note if refusal.verdict is not None else None
    return LastRefusal(refusal.id or "", _code(refusal), note, (as_of - _at(refusal)) / MINUTE)


def _net(trades: Iterable[Trade]) -> Decimal:
    with localcontext(MONEY):
        return sum((t.net_pnl_usd or ZERO for t in trades), ZERO)


def _share(profit: Decimal, equity: Decimal | None) -> Decimal | None:
    """Returns the profit in percent of the equity at the start of the day; None if that is unknown or not above zero."""
    if equity is None:
        return None
    with localcontext(MONEY):
        began = equity - profit
        return HUNDRED * profit / began if began > 0 else None
