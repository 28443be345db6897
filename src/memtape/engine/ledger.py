"""An agent's ledger: trades, decisions, instruments, equity, performance. Each call opens one view."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from memtape.engine.view import ledger as reads
from memtape.engine.view.instruments import stated_terms
from memtape.engine.view.short_ids import full_trade_id
from memtape.engine.view.trade_labels import labelled_trades
from memtape.engine.view.view import TradeFilter

if TYPE_CHECKING:
    from memtape.core.decisions.reviews import Review
    from memtape.core.events import Discrepancy
    from memtape.core.ledger.performance import Curve, Performance, TradingBook
    from memtape.core.ledger.performance_detail import PerformanceDetail
    from memtape.core.ledger.trade_page import TradePage
    from memtape.core.ledger.trades import Trade
    from memtape.core.lessons.losses import Losses
    from memtape.core.memory.outcome_units import OutcomeFigures
    from memtape.core.observed import Bar
    from memtape.engine.scope import AgentScope
    from memtape.engine.view.decisions import DecisionCard
    from memtape.engine.view.instruments import TermsStatement
    from memtape.engine.view.ledger import RecordedDecision

LATEST_TRADES = 200  # among which a trade that closed within minutes is looked for


class Ledger:
    """The ledger of one agent, as of any moment (`as_of`) and any row of its log (`head`)."""

    def __init__(self, scope: AgentScope) -> None:
        self._scope = scope

    def trades(
        self, *, status: str | None = None, symbol: str | None = None, strategy: str | None = None, side: str | None = None,
        as_of: datetime | None = None, head: int | None = None, newest: bool = True, limit: int | None = None,
        after: tuple[datetime, str] | None = None,
    ) -> list[Trade]:  # fmt: skip
        """Trades, open and closed, the newest entry first. `after` continues a page behind its last (entry time, id)."""
        wanted = TradeFilter(
            status=status, symbol=symbol, strategy=strategy, side=side, newest=newest, limit=limit, after=after
        )  # fmt: skip
        with self._scope.view(as_of, head) as view:
            return labelled_trades(view, view.trades(wanted))

    def trade_page(self, page: TradePage, *, as_of: datetime | None = None, head: int | None = None) -> list[Trade]:
        """A page of trades by any sort and filter of the table; its cost does not grow with the history."""
        with self._scope.view(as_of, head) as view:
            return labelled_trades(view, view.trade_page(page))

    def first_fill_naming(self, decision: str | None, orders: Sequence[str]) -> datetime | None:
        """The time of the first recorded fill that names a decision or one of its orders; None if there is none."""
        names = [*([f"d:{decision}"] if decision else []), *(f"o:{order}" for order in orders)]
        if not names:
            return None
        with self._scope.reading() as tables:
            return min(tables.fills_naming(names, tables.head().seq).values(), default=None)

    def has_ended_trade_naming(self, decision: str | None, orders: Sequence[str]) -> bool:
        """True if a trade has closed since the first fill that names a decision or one of its orders, in the fill's position."""
        names = [*([f"d:{decision}"] if decision else []), *(f"o:{order}" for order in orders)]
        if not names:
            return False
        with self._scope.view() as view:
            since = view.tables.fills_naming(names, view.tables.head().seq)
            for (symbol, leg), at in since.items():
                latest = view.trades(TradeFilter(status="closed", symbol=symbol, limit=LATEST_TRADES))
                if any(trade.leg == leg and trade.exit_at is not None and trade.exit_at >= at for trade in latest):
                    return True
        return False

    def losses(self, *, as_of: datetime | None = None, head: int | None = None) -> Losses:
        """What the agent loses on: groups of closed trades, the worst first, each with a verdict against chance."""
        with self._scope.view(as_of, head) as view:
            return reads.losses(view)

    def outcome_figures(
        self, *, symbol: str | None = None, strategy: str | None = None, as_of: datetime | None = None, head: int | None = None
    ) -> OutcomeFigures:
        """The mean outcome of closed trades in one unit, and who reported them."""
        with self._scope.view(as_of, head) as view:
            return reads.outcome_figures(view, symbol=symbol, strategy=strategy)

    def tags_in_use(self) -> list[str]:
        """The tags that trades have."""
        with self._scope.view() as view:
            return reads.tags_in_use(view)

    def trade(self, id: str, *, as_of: datetime | None = None, head: int | None = None) -> Trade | None:
        """One trade."""
        with self._scope.view(as_of, head) as view:
            found = view.trade(id)
            return None if found is None else labelled_trades(view, [found])[0]

    def full_id(self, id: str, *, field: str = "trade_id", as_of: datetime | None = None, head: int | None = None) -> str:
        """The id of the trade that a short id of a brief stands for."""
        with self._scope.view(as_of, head) as view:
            return full_trade_id(view, id, field)

    def discrepancies(self, limit: int = 1000, *, as_of: datetime | None = None, head: int | None = None) -> list[Discrepancy]:
        """Where two records of the account do not agree, newest first."""
        with self._scope.view(as_of, head) as view:
            return view.discrepancies(limit)

    def decisions(
        self, *, symbol: str | None = None, limit: int | None = None, as_of: datetime | None = None,
        head: int | None = None, before: datetime | None = None,
    ) -> list[RecordedDecision]:  # fmt: skip
        """Decisions, newest first."""
        with self._scope.view(as_of, head) as view:
            return reads.recorded_decisions(view, symbol=symbol, limit=limit, before=before)

    def decision(self, id: str) -> RecordedDecision | None:
        """One decision."""
        with self._scope.view() as view:
            return reads.recorded_decision(view, id)

    def decision_cards(
        self, *, symbol: str | None = None, limit: int | None = None, as_of: datetime | None = None, head: int | None = None,
        before: datetime | None = None,
    ) -> list[DecisionCard]:  # fmt: skip
        """Decisions with their cards, outcomes and re-examinations, newest first."""
        with self._scope.view(as_of, head) as view:
            from memtape.engine.view.decisions import decision_cards

            return decision_cards(view, symbol=symbol, limit=limit, before=before)

    def decision_card(self, id: str, *, as_of: datetime | None = None, head: int | None = None) -> DecisionCard | None:
        """One decision with its card, outcome and re-examinations."""
        with self._scope.view(as_of, head) as view:
            from memtape.engine.view.decisions import decision_card

            return decision_card(view, id)

    def review(
        self, limit: int, *, as_of: datetime | None = None, head: int | None = None
    ) -> tuple[Review, list[str], datetime]:
        """The last decisions as lines with tally and hit rate; the ids of these lines; and the moment of the review."""
        with self._scope.view(as_of, head) as view:
            from memtape.engine.view.decisions import review

            return review(view, limit)

    def bars(self, symbol: str, since: datetime, until: datetime) -> list[Bar]:
        """The bars of a symbol that opened within a time, of every length, in order of their opening."""
        with self._scope.view() as view:
            return reads.bars_between(view, symbol, since, until)

    def instruments(
        self, symbol: str | None = None, *, as_of: datetime | None = None, head: int | None = None
    ) -> Sequence[TermsStatement]:
        """Every statement of the terms of instruments, by symbol, and which of them are in force at the moment."""
        with self._scope.view(as_of, head) as view:
            return stated_terms(view, symbol)

    def orphan_funding(self, *, as_of: datetime | None = None, head: int | None = None) -> dict[str, Decimal]:
        """Funding that fell when no trade was open, by symbol."""
        with self._scope.view(as_of, head) as view:
            return reads.orphan_funding(view)

    def equity(self, *, as_of: datetime | None = None, head: int | None = None) -> Curve:
        """The equity curve: reported equity less deposits, or starting equity plus net PnL where there are none."""
        with self._scope.view(as_of, head) as view:
            return reads.equity(view)

    def book(self, *, as_of: datetime | None = None, head: int | None = None) -> TradingBook:
        """Every trade and the equity curve, for figures over several agents."""
        with self._scope.view(as_of, head) as view:
            return reads.trading_book(view)

    def performance(
        self, *, symbol: str | None = None, strategy: str | None = None, as_of: datetime | None = None,
        head: int | None = None,
    ) -> Performance:  # fmt: skip
        """The figures of closed trades, and the money of open ones so far."""
        with self._scope.view(as_of, head) as view:
            return reads.trading_performance(view, symbol=symbol, strategy=strategy)

    def track_record(
        self, *, symbol: str | None = None, strategy: str | None = None, as_of: datetime | None = None,
        head: int | None = None,
    ) -> PerformanceDetail:  # fmt: skip
        """The performance in detail: figures of daily equity, drawdown, exposure, R, streaks, by group and month."""
        with self._scope.view(as_of, head) as view:
            return reads.track_record(view, symbol=symbol, strategy=strategy)
