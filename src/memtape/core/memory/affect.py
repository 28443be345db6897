"""The affect state of an agent, computed from its record: confidence, risk appetite, drawdown, streaks.

Confidence is a slow average of how trades went (half of a change takes 6.6 trades). Risk appetite falls with the drawdown: slowly
at first in the original form, which keeps a tenth even beyond the limit; in proportion to the distance from the limit in the form
of Grossman and Zhou, which is zero at the limit. A deposit or a withdrawal is neither profit nor loss, and leaves the drawdown as
it was: a share of the money that was there when the loss was made.

>>> risk_appetite(0.10), round(risk_appetite_gz(0.10), 6), risk_appetite(0.25), risk_appetite_gz(0.25)
(0.75, 0.555556, 0.1, 0.0)

Reference: Grossman & Zhou 1993, Optimal Investment Strategies for Controlling Drawdowns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from memtape.core.recall.scoring import Spread, sigmoid
from memtape.core.value_class import dataclass
from memtape.errors import Invalid

CONFIDENCE_MEMORY = 0.9  # share of the old confidence after the next trade
DRAWDOWN_LIMIT = 0.20


def outcome_signal(pnl_r: float, sigma_r: float) -> float:
    """Returns how a trade went, 0 to 1, relative to the spread of outcomes.

    >>> round(outcome_signal(2.0, 1.5), 6)
    0.791391
    """
    return sigmoid(pnl_r / max(0.5, sigma_r))


def updated_confidence(confidence: float, latest: float, memory: float = CONFIDENCE_MEMORY) -> float:
    """Returns the confidence after one more signal."""
    return memory * confidence + (1.0 - memory) * latest


def risk_appetite(drawdown: float, limit: float = DRAWDOWN_LIMIT) -> float:
    """Returns the risk appetite in the original form: 1 at the peak, a tenth at the limit and beyond."""
    return max(0.1, 1.0 - (max(drawdown, 0.0) / _checked(limit)) ** 2)


def risk_appetite_gz(drawdown: float, limit: float = DRAWDOWN_LIMIT) -> float:
    """Returns the risk appetite of Grossman and Zhou: the share of equity above the limit, 1 at the peak, 0 at the limit."""
    if drawdown >= 1.0:
        return 0.0
    return max(0.0, (1.0 - (1.0 - _checked(limit)) / (1.0 - max(drawdown, 0.0))) / limit)


def fallen_share(peak: float, nav: float, scaled_peak: float | None, equity: float) -> float:
    """Returns the drawdown as a share of the scaled peak; where nothing has scaled the peak, of the peak without flows.

    A loss after everything was paid out is more than all of it.

    >>> fallen_share(100.0, 90.0, None, 90.0), fallen_share(1_000.0, -1_040.0, 51_000.0, 48_960.0)
    (0.1, 0.04)
    >>> fallen_share(100.0, 90.0, 0.0, -10.0)
    1.0
    """
    top, bottom = (peak, nav) if scaled_peak is None else (scaled_peak, equity)
    if top > 0:
        return (top - bottom) / top
    return 1.0 if bottom < top and peak > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Affect:
    """An agent's affect state at a moment."""

    confidence: float = 0.5
    risk_appetite: float = 1.0
    drawdown_state: float = 0.0  # 0 at the peak, 1 at the limit
    peak_equity: float  # the highest equity without flows
    scaled_peak: float | None = None  # the peak by which the equity fell, with deposits and withdrawals; None: there were none
    equity: float  # as the account shows it
    flow_free: float | None = None  # equity less deposits, plus withdrawals; None: there were none
    consecutive_wins: int = 0
    consecutive_losses: int = 0
    limit: float = DRAWDOWN_LIMIT
    assumed_equity: float | None = None  # what the account is assumed to have started with; None: its equity is known

    @property
    def equity_without_flows(self) -> float:
        """Returns what the account would show without deposits and withdrawals: money that was lost is measured by it."""
        return self.equity if self.flow_free is None else self.flow_free

    @property
    def below_peak(self) -> float:
        """Returns how far the equity without flows is below its peak, in the account currency."""
        return max(self.peak_equity - self.equity_without_flows, 0.0)

    @property
    def drawdown(self) -> float:
        """Returns how far the equity fell from its peak, as a share of the money that was there."""
        return fallen_share(self.peak_equity, self.equity_without_flows, self.scaled_peak, self.equity)

    @property
    def drawdown_has_share(self) -> bool:
        """Returns False if more was lost than the account is assumed to have had: a share would mean nothing."""
        return self.assumed_equity is None or self.drawdown < 1.0

    @property
    def assumption(self) -> str:
        """What must be said beside a percentage of the equity; empty if the equity is known."""
        return "" if self.assumed_equity is None else f", assuming {self.assumed_equity:,.0f}"


def affect_after_trade(state: Affect, pnl_r: float, latest: float) -> Affect:
    """Returns the state after a close with this signal; a scratch ends a winning streak, as in the original."""
    won = pnl_r > 0
    return replace(
        state,
        confidence=updated_confidence(state.confidence, latest),
        consecutive_wins=state.consecutive_wins + 1 if won else 0,
        consecutive_losses=0 if won else state.consecutive_losses + 1,
    )


def affect_after_equity(state: Affect, equity: float) -> Affect:
    """Returns the state after an equity mark without flows, which may be zero or below.

    >>> ruined = affect_after_equity(Affect(peak_equity=100.0, equity=100.0), 0.0)
    >>> ruined.drawdown, ruined.drawdown_state, ruined.risk_appetite
    (1.0, 1.0, 0.1)
    """
    marked = replace(state, equity=equity, flow_free=None, scaled_peak=None, peak_equity=max(state.peak_equity, equity))
    return replace(
        marked,
        risk_appetite=risk_appetite(marked.drawdown, state.limit),
        drawdown_state=min(1.0, marked.drawdown / _checked(state.limit)),
    )


# --- the fold over what happened to an account ------------------------------------------------------------------------


class AccountClose(NamedTuple):
    """A trade ended."""

    at: datetime
    id: str
    known_at: datetime
    pnl_r: float | None
    pnl_usd: float | None
    counts: bool = True  # False: the owner excluded it; it changes only the account
    entered_at: datetime | None = None
    rank: int = 1


class AccountMark(NamedTuple):
    """The broker reported the account's equity."""

    at: datetime
    id: str
    known_at: datetime
    equity: float
    rank: int = 2


class AccountFlow(NamedTuple):
    """Money was paid in (+) or out (-)."""

    at: datetime
    id: str
    known_at: datetime
    usd: float
    rank: int = 0


AccountChange = AccountClose | AccountMark | AccountFlow


class AffectStep(NamedTuple):
    """The state after one event, with everything that the next step needs."""

    at: datetime
    rank: int
    id: str
    known_at: datetime
    known_by: datetime  # when this and all before it were known
    confidence: float
    wins: int  # in a row
    losses: int  # in a row
    nav: float  # equity minus deposits
    peak: float
    flows: float
    marked_at: datetime | None  # when the broker last reported equity
    pnl_r: float | None = None  # of the close, if the event was one
    scaled_peak: float | None = None  # the highest equity as the account shows it, scaled by flows; None: made by rules before 7

    @property
    def equity(self) -> float:
        """Returns the equity as the account shows it, with deposits and withdrawals."""
        return self.nav + self.flows

    @property
    def drawdown(self) -> float:
        """Returns how far the equity fell from its peak, as a share of the money that was there."""
        return fallen_share(self.peak, self.nav, self.scaled_peak, self.equity)

    def state(self, limit: float = DRAWDOWN_LIMIT) -> Affect:
        """Returns the affect state of this step."""
        return Affect(
            confidence=self.confidence, risk_appetite=risk_appetite(self.drawdown, limit),
            drawdown_state=min(1.0, self.drawdown / _checked(limit)), peak_equity=self.peak, scaled_peak=self.scaled_peak,
            equity=self.equity, flow_free=self.nav, consecutive_wins=self.wins, consecutive_losses=self.losses, limit=limit,
        )  # fmt: skip


class AffectFold:
    """Folds events one by one into steps, starting from `before` and the outcomes in R up to it.

    A mark of the broker replaces the equity. Until the next mark, a close changes equity by its net outcome, unless the trade was
    open at the last mark, which then already contains its value. A mark at the moment of a flow contains it. A deposit is no
    profit: it scales the peak, so that the drawdown stays the same share. The first mark sets the scale and keeps the drawdown
    reached by closed trades.
    """

    __slots__ = (
        "_confidence", "_flows", "_known_by", "_losses", "_marked_at", "_nav", "_outcomes", "_peak", "_scaled_peak", "_spread",
        "_wins",
    )  # fmt: skip

    def __init__(self, starting: float, before: AffectStep | None = None, outcomes: Sequence[float] = ()) -> None:
        # Most events are marks, which need no spread of outcomes.
        self._spread: Spread | None = None
        self._outcomes = outcomes
        self._confidence, self._wins, self._losses = (before.confidence, before.wins, before.losses) if before else (0.5, 0, 0)
        self._nav, self._peak, self._flows = (before.nav, before.peak, before.flows) if before else (starting, starting, 0.0)
        # A step of rules before 7 has no scaled peak: then the peak without flows is moved to where the account is.
        scaled = before.scaled_peak if before else None
        self._scaled_peak = scaled if scaled is not None else self._peak + self._flows
        self._marked_at = before.marked_at if before else None
        self._known_by = before.known_by if before else None

    def add(self, event: AccountChange) -> AffectStep:
        """Returns the state after one more event, which must not be earlier than the last one."""
        r: float | None = None
        if isinstance(event, AccountClose):
            r = event.pnl_r if event.counts else None
            won = r if r is not None else event.pnl_usd
            if r is not None:
                spread = self._spread = self._spread or Spread(self._outcomes)
                self._confidence = updated_confidence(self._confidence, outcome_signal(r, spread.sigma()))
                spread.add(r)
            # A scratch ends a winning streak, as in the original.
            if won is not None and event.counts:
                self._wins, self._losses = (self._wins + 1, 0) if won > 0 else (0, self._losses + 1)
            if self._marked_at is None or event.entered_at is None or event.entered_at >= self._marked_at:
                self._nav += event.pnl_usd or 0.0
        elif isinstance(event, AccountFlow):
            shown = self._nav + self._flows
            self._flows += event.usd
            self._scale(shown, self._nav + self._flows)
        else:
            stated = event.equity - self._flows
            if self._marked_at is None:
                shown, shows = self._nav + self._flows, stated + self._flows
                self._scaled_peak = shows * (self._scaled_peak / shown) if shown > 0 else max(shows, self._scaled_peak)
                self._peak = stated * (self._peak / self._nav) if self._nav > 0 else max(stated, self._peak)
            self._nav, self._marked_at = stated, event.at
        self._peak = max(self._peak, self._nav)
        self._scaled_peak = max(self._scaled_peak, self._nav + self._flows)
        self._known_by = event.known_at if self._known_by is None else max(self._known_by, event.known_at)
        return AffectStep(event.at, event.rank, event.id, event.known_at, self._known_by, self._confidence, self._wins,
                          self._losses, self._nav, self._peak, self._flows, self._marked_at, r, self._scaled_peak)  # fmt: skip

    def _scale(self, shown: float, shows: float) -> None:
        """Move the peak with a flow, from what the account showed to what it shows, so that the drawdown stays the same share."""
        if shows > 0:
            # A deposit into an empty account starts the measurement again, at the new equity.
            self._scaled_peak = shows * (self._scaled_peak / shown) if shown > 0 else shows
        elif shown > 0:
            # All of it was paid out, or more than was known to be there: nothing is left that could have fallen.
            self._scaled_peak = shows
        elif self._scaled_peak <= 0:
            self._scaled_peak += shows - shown  # still nothing; a ruined account, whose peak is above zero, stays ruined


def event_order(event: AccountChange) -> tuple[datetime, int, str]:
    """The order in which events of an account are folded."""
    return event.at, event.rank, event.id


def affect_steps(
    events: Iterable[AccountChange], starting: float, before: AffectStep | None = None, outcomes: Sequence[float] = ()
) -> list[AffectStep]:
    """Returns the state after each event, in order of time, starting from `before` and the outcomes in R up to it.

    >>> from datetime import UTC, timedelta
    >>> day = datetime(2026, 1, 1, tzinfo=UTC)
    >>> losses = [AccountClose(day + timedelta(days=n), str(n), day + timedelta(days=n), -3.0, -300.0) for n in range(20)]
    >>> last = affect_steps(losses, 10_000.0)[-1]
    >>> round(last.confidence, 3), last.losses, round(last.state().drawdown, 2), last.state().risk_appetite
    (0.089, 20, 0.6, 0.1)
    """
    fold = AffectFold(starting, before, outcomes)
    ordered = sorted(events, key=event_order)
    return [fold.add(event) for event in ordered]


def _checked(limit: float) -> float:
    if not 0.0 < limit <= 1.0:
        raise Invalid("max_acceptable_drawdown", "is not between 0 and 1", "Give a fraction, like 0.2 for 20 %")
    return limit
