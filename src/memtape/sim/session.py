"""One agent in one run: its market, its proposals, and the verdicts of guard and broker.

The strategy is asked on every bar, also on one in which a stop, a target or a liquidation filled, as a live agent is. Such an
exit has the id of an order that no decision names, so its only reason is its trigger.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, time
from decimal import Decimal, localcontext

from memtape.core.codec import time_text
from memtape.core.decisions.outcome_bars import frame_of_length
from memtape.core.ids import TickId
from memtape.core.ledger.trades import round_money
from memtape.core.observed import Bar, Decision, GuardVerdict, Tick
from memtape.core.values import MONEY, REASON_LENGTH
from memtape.sim.account import AccountView
from memtape.sim.guard import Guard, judge_order
from memtape.sim.paper import PaperBroker
from memtape.sim.strategies import AccountStrategy, OrderProposal, Strategy


class SimSession:
    """The state of one agent during a run."""

    def __init__(self, who: str, strategy: Strategy | AccountStrategy, broker: PaperBroker, guard: Guard | None) -> None:
        self._who, self._broker, self._guard = who, broker, guard
        self._of_account = strategy if isinstance(strategy, AccountStrategy) else None
        self._of_symbol = strategy if not isinstance(strategy, AccountStrategy) else None
        self._history: dict[str, list[Bar]] = {}
        self._day: tuple[date, Decimal] | None = None  # the UTC day and the equity at its start
        self._equity = broker.equity  # at the last tick
        self._orders_today = 0
        self._verdict: GuardVerdict | None = None
        self.rejections: Counter[str] = Counter()  # of proposals, by code

    def tick(self, t: datetime, completed: Sequence[Bar]) -> Tick:
        """Play bars and decide. Returns the tick with its decisions."""
        market = self.advance(t, completed)
        decisions = self.decide(market)
        return replace(market, decision=decisions) if decisions else market

    def advance(self, t: datetime, completed: Sequence[Bar]) -> Tick:
        """Play bars. Returns the tick without decisions."""
        fills = self._broker.advance(completed)
        self._begin_day(t)
        for bar in completed:
            self._history.setdefault(bar.symbol, []).append(bar)
        self._equity = self._broker.equity
        return Tick(
            id=TickId(f"{self._who}-{time_text(t)}"), t=t, positions=self._broker.snapshot(),
            marks=dict(sorted(self._broker.marks.items())), fills=fills, funding=self._broker.funding, bars=tuple(completed),
            equity=round_money(self._equity),
        )  # fmt: skip

    def decide(self, tick: Tick) -> tuple[Decision, ...]:
        """Asks the strategy about each symbol whose bar has closed, and places the orders."""
        if len(tick.bars) == 1:
            return tuple(self.ask(tick.t, tick.bars[0].symbol))
        return tuple(d for bar in tick.bars for d in self.ask(tick.t, bar.symbol))

    def _begin_day(self, t: datetime) -> None:
        if self._day is None or self._day[0] != t.date():
            at_midnight = t.time() == time(0)
            self._day, self._orders_today = (t.date(), self._broker.equity if at_midnight else self._equity), 0

    def ask(self, t: datetime, symbol: str) -> list[Decision]:
        """Asks the strategy about one symbol, and places the orders."""
        # The strategy computes in our context, whatever the caller's context is.
        with localcontext(MONEY):
            if self._of_account is not None:
                proposals = list(self._of_account.propose(symbol, self._history, self._account(t)))
            else:
                assert self._of_symbol is not None
                position = self._broker.position(symbol)
                # Orders that wait change neither cash nor positions: the equity is still that of the tick.
                proposals = list(self._of_symbol(self._history[symbol], position, self._equity))
        if not proposals:
            return []
        bar = self._history[symbol][-1]
        # What becomes of a decision is followed on the bars of the simulation.
        frame = frame_of_length(bar.t1 - bar.t0)
        decisions = [self._execute(t, proposal) for proposal in proposals]
        return [replace(decision, frame=decision.frame or frame) for decision in decisions]

    def _execute(self, t: datetime, proposal: OrderProposal) -> Decision:
        """Asks the guard, then places the orders. If guard or broker refuses, nothing is ordered."""
        if self._guard is not None:
            proposal = judge_order(proposal, self._account(t), self._guard)
        decision, orders = proposal.decision, proposal.orders
        ids = tuple(self._broker.place(order) for order in orders)
        if refused := next((id_ for id_ in ids if id_ in self._broker.codes), None):
            for id_ in ids:
                self._broker.cancel(id_)
            note = self._broker.refused[refused][:REASON_LENGTH]
            decision = replace(decision, verdict=GuardVerdict(accepted=False, code=self._broker.codes[refused], note=note))
            ids = ()
        elif decision.verdict is not None and not decision.verdict.accepted:
            self.rejections[decision.verdict.code or "?"] += 1
        self._verdict = decision.verdict or (GuardVerdict(accepted=True) if ids else self._verdict)
        self._orders_today += sum(not order.reduce_only for order in orders) if ids else 0
        return replace(decision, order_ids=ids)

    def _account(self, t: datetime) -> AccountView:
        broker = self._broker
        assert self._day is not None
        return AccountView(
            t=t, equity=broker.equity, day_equity=self._day[1], orders_today=self._orders_today, positions=broker.positions(),
            waiting=broker.waiting(), marks=dict(broker.marks), power=broker.powers(), verdict=self._verdict,
            stops=broker.stops(), entries=broker.entries(),
        )  # fmt: skip
