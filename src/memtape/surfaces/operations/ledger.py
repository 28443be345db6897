"""Operations that read the ledger: trades, open positions, performance, decisions, equity."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import fields
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, BeforeValidator, Field

from memtape.core.codec import micros, moment, plain
from memtape.core.events import Discrepancy, discrepancy_json
from memtape.core.labels import StatedSide, fold_label
from memtape.core.ledger.performance import trade_totals
from memtape.core.ledger.trade_page import SORT_FIELDS, DateName, SortName, TradeOutcome, TradePage
from memtape.core.ledger.trades import Trade, entry_order
from memtape.core.ledger.trades import money_text as money
from memtape.core.observed import Decision, Situation
from memtape.core.recall.unknown_values import tag_notes
from memtape.core.skills import DEFAULT_AGENT
from memtape.core.values import Key, Label, Symbol, Time
from memtape.engine.view.ledger import MoneyTotals, ledger_totals
from memtape.errors import Invalid, Unknown
from memtape.surfaces.answer_models import Answer, answer_model
from memtape.surfaces.answers import optional_time_text
from memtape.surfaces.questions import AsOf, agent_of
from memtape.surfaces.registry import operation
from memtape.surfaces.trade_answers import TradeRow, trade_row

if TYPE_CHECKING:
    from memtape.engine import Memory
    from memtape.surfaces.caller import Caller

ASCENDING = "asc-"  # begins the cursor of a page in ascending order
SortOrder = Literal["desc", "asc"]
DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
TRADE_TABLE = ("id", "entry_at", "symbol", "side", "net_pnl_usd", "pnl_r", "exit_at", "exit_trigger", "status")


# The columns of a trade by which a page may be sorted, beside the short names.
_SORT_ALIASES = {column: name for name, column in SORT_FIELDS.items()}


def _sort_name(value: object) -> object:
    return _SORT_ALIASES.get(value, value) if isinstance(value, str) else value


def _day_begins(value: object) -> object:
    """A day without a time begins at midnight UTC."""
    return f"{value}T00:00:00Z" if isinstance(value, str) and DAY.fullmatch(value) else value


def _day_ends(value: object) -> object:
    """A day without a time is included whole."""
    if isinstance(value, str) and DAY.fullmatch(value):
        with suppress(ValueError):
            return datetime.fromisoformat(f"{value}T00:00:00Z") + timedelta(days=1)
    return value


class GetTrades(AsOf):
    """Which trades, in which order."""

    status: Annotated[Literal["open", "closed"] | None, Field(description="default: both")] = None
    symbol: Annotated[Symbol | None, Field(description="only this symbol")] = None
    strategy: Annotated[Label | None, Field(description="only this strategy")] = None
    side: Annotated[StatedSide | None, Field(description="only this side")] = None
    outcome: Annotated[TradeOutcome | None, Field(description="scratch: exactly zero; unknown: closed without a price")] = None
    regime: Annotated[Label | None, Field(description="market regime at entry")] = None
    volatility: Annotated[Label | None, Field(description="volatility at entry")] = None
    session: Annotated[Label | None, Field(description="session at entry")] = None
    tag: Annotated[Label | None, Field(description="with this tag")] = None
    since: Annotated[Time | None, BeforeValidator(_day_begins), Field(description="from this time or day on (UTC)")] = None
    until: Annotated[Time | None, BeforeValidator(_day_ends), Field(description="before this time, or to this day's end")] = None
    date: Annotated[DateName, Field(description="the date that since and until mean")] = "entry"
    sort: Annotated[SortName, BeforeValidator(_sort_name), Field(description="sorted by")] = "entry"
    order: Annotated[SortOrder, Field(description="desc: newest or largest first; unknown last")] = "desc"
    limit: Annotated[int, Field(ge=1, le=1000, description="trades per page")] = 50
    cursor: Annotated[str | None, Field(max_length=200, description="next_cursor of the previous page")] = None

    def page(self) -> TradePage:
        """The page as the ledger takes it, with one trade more: it tells whether there is a next page."""
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise Invalid("until", "is not later than since: no trade can lie between", "Swap them, or leave one out")
        offset, after = _cursor(self.cursor, self.sort, self.order)
        labels = {
            name: fold_label(kind, text)
            for name, kind, text in (
                ("regime", "regime", self.regime), ("volatility_regime", "volatility", self.volatility),
                ("session", "session", self.session),
            )
            if text is not None
        }  # fmt: skip
        return TradePage(
            status=self.status, symbol=self.symbol, strategy=self.strategy, side=self.side, outcome=self.outcome, tag=self.tag,
            date=self.date, since=self.since, until=self.until, sort=self.sort, descending=self.order == "desc", offset=offset,
            after=after, limit=self.limit + 1, **labels,
        )  # fmt: skip


class TradesPage(Answer):
    """A page of trades."""

    agent: Annotated[str, Field(description="the agent")]
    trades: Annotated[list[TradeRow], Field(description="one page")]  # type: ignore[valid-type]
    n: Annotated[int, Field(description="trades on this page")]
    next_cursor: Annotated[str | None, Field(description="pass it as cursor for the next page; null at the end")]
    notes: Annotated[list[str], Field(description="what you asked for and no memory has, with what exists", default_factory=list)]


def _cursor(text: str | None, sort: SortName, order: SortOrder) -> tuple[int, tuple[datetime, str] | None]:
    """Where a page goes on: behind an entry if sorted by entry, else after so many trades."""
    if text is None:
        return 0, None
    is_ascending = text.startswith(ASCENDING)
    place, _, id_ = text.removeprefix(ASCENDING).partition("-")
    if is_ascending != (order == "asc"):
        place = ""
    if sort == "entry" and place.isdigit() and id_.isalnum() and int(place) <= 8_000_000_000_000_000:
        return 0, (moment(int(place)), id_)
    if sort != "entry" and place == sort and id_.isdigit() and len(id_) < 10:
        return int(id_), None
    fix = "Give next_cursor of the last page, or leave it out"
    raise Invalid("cursor", "is not a cursor of get_trades with this sort and order", fix)


@operation(writes=False, columns=TRADE_TABLE)
def get_trades(memory: Memory, ask: GetTrades, caller: Caller) -> TradesPage:
    """List an agent's trades, open and closed, newest entry first; filter by outcome, date, label and tag, or sort otherwise."""
    handle, page = agent_of(memory, ask), ask.page()
    found = handle.ledger.trade_page(page, as_of=ask.as_of, head=ask.head)
    notes: list[str] = []
    if not found and ask.cursor is None:
        labels = Situation(regime=page.regime, volatility_regime=page.volatility_regime, session=page.session)
        notes = handle.memories.notes(labels, symbol=ask.symbol, strategy=ask.strategy, as_of=ask.as_of, head=ask.head)
        notes += tag_notes(page.tag, handle.ledger.tags_in_use()) if page.tag is not None else []
    listed, more = found[: ask.limit], None
    if len(found) > ask.limit:
        last = listed[-1]
        place = f"{micros(last.entry_at)}-{last.id}" if ask.sort == "entry" else f"{ask.sort}-{page.offset + ask.limit}"
        more = ASCENDING + place if ask.order == "asc" else place
    return TradesPage(
        agent=ask.agent or DEFAULT_AGENT, trades=[trade_row(trade) for trade in listed], n=len(listed), next_cursor=more,
        notes=notes,
    )


class GetTrade(AsOf):
    """Which trade."""

    trade_id: Annotated[Key, Field(description="its id, or its short id from a brief")]


class TradeAnswer(Answer):
    """One trade."""

    trade: Annotated[TradeRow, Field(description="every column")]  # type: ignore[valid-type]


@operation(writes=False)
def get_trade(memory: Memory, ask: GetTrade, caller: Caller) -> TradeAnswer:
    """Get one trade with its reasons, prices and excursions."""
    ledger = agent_of(memory, ask).ledger
    found = ledger.trade(ledger.full_id(ask.trade_id, as_of=ask.as_of, head=ask.head), as_of=ask.as_of, head=ask.head)
    if found is None:
        raise Unknown("trade_id", "trade", ask.trade_id, "List them with get_trades")
    return TradeAnswer(trade=trade_row(found))


class OpenPositions(Answer):
    """Open positions."""

    agent: Annotated[str, Field(description="the agent")]
    positions: Annotated[list[TradeRow], Field(description="the open trades")]  # type: ignore[valid-type]
    n: Annotated[int, Field(description="how many")]


@operation(writes=False, columns=("id", "entry_at", "symbol", "side", "qty_open", "entry_price", "stop_price", "net_pnl_usd"))
def get_open_positions(memory: Memory, ask: AsOf, caller: Caller) -> OpenPositions:
    """List an agent's open trades, with realised PnL and excursions so far."""
    found = agent_of(memory, ask).ledger.trades(status="open", as_of=ask.as_of, head=ask.head)
    return OpenPositions(agent=ask.agent or DEFAULT_AGENT, positions=[trade_row(t) for t in found], n=len(found))


MoneyTotalsRow = answer_model(
    MoneyTotals,
    {
        "n": "trades with a known outcome", "realized_pnl_usd": "gross", "fees_usd": "paid is positive",
        "funding_usd": "received is positive, dividends included", "net_pnl_usd": "realized - fees + funding",
    },
)  # fmt: skip


def _totals_row(sums: MoneyTotals) -> BaseModel:
    amounts = {field.name: getattr(sums, field.name) for field in fields(sums)}
    return MoneyTotalsRow(**{name: money(usd) if isinstance(usd, Decimal) else usd for name, usd in amounts.items()})


def _has_no_outcome(trade: Trade) -> bool:
    return trade.quality == "unpriced" or (trade.status == "closed" and trade.net_pnl_usd is None)


class LedgerTotals(Answer):
    """Counts and sums over the whole ledger."""

    n: Annotated[int, Field(description="trades")]
    n_open: Annotated[int, Field(description="open trades")]
    n_unpriced: Annotated[int, Field(description="trades without a known outcome")]
    currency: Annotated[str, Field(description="account currency")]
    net_pnl_usd: Annotated[str | None, Field(description="realized - fees + funding")]
    realized_pnl_usd: Annotated[str | None, Field(description="gross")]
    fees_usd: Annotated[str | None, Field(description="paid is positive")]
    funding_usd: Annotated[str | None, Field(description="received is positive")]
    orphan_funding_usd: Annotated[dict[str, str | None], Field(description="funding without a position, by symbol")]
    closed: Annotated[MoneyTotalsRow, Field(description="of closed trades")]  # type: ignore[valid-type]
    open: Annotated[MoneyTotalsRow, Field(description="of open trades: realised, paid and received so far")]  # type: ignore[valid-type]
    all: Annotated[MoneyTotalsRow, Field(description="of both")]  # type: ignore[valid-type]


DiscrepancyRow = answer_model(
    Discrepancy,
    {
        "at": "UTC", "leg": "'' on a net account", "symbol": "its symbol",
        "why": "snapshot: it differs from the fills; adopted: a position without fills; snapshot_lag: it came early or late; "
        "fill_differs: a fill came again with other content; fee_unknown: a fee without a rate; stop_wrong_side: a stop that was "
        "not taken; fill_twice: two fills that may be one; pnl_differs: the broker states another PnL of a fill",
        "ledger_qty": "by the fills", "broker_qty": "by the snapshot", "price": "of the inferred fill, or of the entry",
        "fill_id": "the fill", "fields": "which fields of the fill differ", "fee": "not counted", "fee_currency": "of that fee",
        "stop": "not taken", "other": "the second fill", "entry_at": "UTC; of the entry that the stop belongs to",
        "stated_pnl": "of the fill before fees, as the broker states it", "ledger_pnl": "the same by the ledger",
    },
    sparse=True,
)


class LedgerAnswer(Answer):
    """The whole ledger."""

    agent: Annotated[str, Field(description="the agent")]
    rows: Annotated[list[TradeRow], Field(description="every trade, by entry time and symbol")]  # type: ignore[valid-type]
    totals: Annotated[LedgerTotals, Field(description="counts, and sums in the account currency")]
    discrepancies: Annotated[list[DiscrepancyRow], Field(description="records that do not agree, newest first")]  # type: ignore[valid-type]


@operation(
    writes=False,
    columns={"rows": TRADE_TABLE, "discrepancies": ("at", "symbol", "why", "fill_id", "ledger_qty", "broker_qty")},
)  # fmt: skip
def get_ledger(memory: Memory, ask: AsOf, caller: Caller) -> LedgerAnswer:
    """Get an agent's whole ledger: every trade by entry time, totals, and records that do not agree."""
    handle = agent_of(memory, ask)
    rows = sorted(handle.ledger.trades(as_of=ask.as_of, head=ask.head, newest=False), key=entry_order)
    orphans = {symbol: money(usd) for symbol, usd in handle.ledger.orphan_funding(as_of=ask.as_of, head=ask.head).items()}
    sums = ledger_totals(rows)
    totals = LedgerTotals(
        n=len(rows), n_open=sum(t.status == "open" for t in rows), n_unpriced=sum(map(_has_no_outcome, rows)),
        currency=handle.agent.settings.currency, **{name: money(usd) for name, usd in trade_totals(rows).items()},
        orphan_funding_usd=orphans, closed=_totals_row(sums.closed), open=_totals_row(sums.open), all=_totals_row(sums.all),
    )  # fmt: skip
    found = [DiscrepancyRow(**discrepancy_json(d)) for d in handle.ledger.discrepancies(as_of=ask.as_of, head=ask.head)]
    return LedgerAnswer(agent=handle.agent.id, rows=[trade_row(t) for t in rows], totals=totals, discrepancies=found)


class GetDecisions(AsOf):
    """Which decisions."""

    symbol: Annotated[Symbol | None, Field(description="only this symbol")] = None
    limit: Annotated[int, Field(ge=1, le=1000, description="how many")] = 20
    before: Annotated[Time | None, Field(description="only decisions before this time")] = None


DecisionRow = answer_model(
    Decision, {"t": "UTC", "action": "buy, sell, close, no_trade, ...", "verdict": "of the guard", "run": "the run that decided"},
    sparse=True,
    known_at=(Annotated[str | None, Field(description="UTC; when it was recorded")], Field(default_factory=str)),
    tick=(Annotated[str | None, Field(description="the tick it came with; null: none")], Field(default_factory=str)),
)  # fmt: skip


class DecisionsAnswer(Answer):
    """Decisions, newest first."""

    agent: Annotated[str, Field(description="the agent")]
    decisions: Annotated[list[DecisionRow], Field(description="newest first")]  # type: ignore[valid-type]
    n: Annotated[int, Field(description="how many")]
    notes: Annotated[
        list[str], Field(description="what you asked for and no decision has, with what exists", default_factory=list)
    ]


@operation(writes=False, columns=("id", "symbol", "action", "side", "t", "stop", "confidence", "reason"))
def get_decisions(memory: Memory, ask: GetDecisions, caller: Caller) -> DecisionsAnswer:
    """List an agent's decisions, newest first, including decisions not to trade, each with its run."""
    handle = agent_of(memory, ask)
    found = handle.ledger.decisions(symbol=ask.symbol, limit=ask.limit, as_of=ask.as_of, head=ask.head, before=ask.before)
    notes = handle.memories.notes(symbol=ask.symbol, as_of=ask.as_of, head=ask.head) if ask.symbol and not found else []
    rows = [DecisionRow(**plain(row.decision), known_at=optional_time_text(row.known_at), tick=row.tick) for row in found]
    return DecisionsAnswer(agent=ask.agent or DEFAULT_AGENT, decisions=rows, n=len(rows), notes=notes)


class EquityPoint(Answer):
    """NAV at a time."""

    t: Annotated[str, Field(description="UTC")]
    nav: Annotated[str, Field(description="account currency, without deposits and withdrawals")]


class EquityAnswer(Answer):
    """The equity curve."""

    agent: Annotated[str, Field(description="the agent")]
    points: Annotated[list[EquityPoint], Field(description="oldest first")]
    n: Annotated[int, Field(description="how many")]
    source: Annotated[str, Field(description="'marks' (reported equity) or 'closed trades' (added to the starting equity)")]
    currency: Annotated[str, Field(description="account currency")]
    max_drawdown_pct: Annotated[
        str | None, Field(description="largest fall from a peak, in % of the peak; null: nobody stated an equity")
    ]


@operation(writes=False)
def get_equity(memory: Memory, ask: AsOf, caller: Caller) -> EquityAnswer:
    """Get an agent's equity curve, adjusted for deposits and withdrawals."""
    handle = agent_of(memory, ask)
    curve = handle.ledger.equity(as_of=ask.as_of, head=ask.head)
    points = [EquityPoint(t=optional_time_text(t) or "", nav=money(nav) or "0") for t, nav in curve.points]
    return EquityAnswer(
        agent=handle.agent.id, points=points, n=len(points), source=curve.source, currency=handle.agent.settings.currency,
        max_drawdown_pct=money(curve.max_drawdown[1]) if curve.points and not curve.assumed else None,
    )  # fmt: skip
