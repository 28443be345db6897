"""The trades of an agent as pages need them: a page of the table with its totals, single trades, and the names traded.

`AgentTrades` is the only place of the pages that reads trades in bulk. Each of its methods is one query; what the reader of the
table chose is in the address, so a view can be bookmarked, sent to someone, and returned to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast
from urllib.parse import urlencode

from memtape.core.codec import read_time, time_text
from memtape.core.discrepancy_text import discrepancy_text
from memtape.core.ledger.trade_page import SortName, TradeOutcome, TradePage, outcome_of_trade
from memtape.core.ledger.trades import Trade
from memtape.errors import Unknown
from memtape.surfaces.operations.ledger import GetTrade, get_ledger, get_open_positions, get_trade
from memtape.surfaces.questions import AsOf
from memtape.surfaces.trade_answers import trade_row
from memtape.surfaces.web.display import DISCREPANCIES, show_price, show_sentence, visible

if TYPE_CHECKING:
    from memtape.surfaces.web.figures import AgentCard
    from memtape.surfaces.web.site import Site

ROWS_PER_PAGE = 25
MAX_SINGLE_READS = 60  # for more trades than this, one reading of the ledger costs less
FILTER_CHOICES: Mapping[str, Mapping[str, str]] = {
    "side": {"long": "long", "short": "short"},
    "status": {"closed": "closed", "open": "open"},
    "outcome": {"win": "won", "loss": "lost", "scratch": "scratch", "unknown": "unknown"},
}


class TradeFields(Protocol):
    """The fields of a trade that pages compute with: amounts and times as text, None where unknown."""

    id: str
    symbol: str
    side: str
    status: str
    strategy: str
    quality: str
    currency: str
    entry_at: str
    exit_at: str | None
    entry_price: str | None
    exit_price: str | None
    stop_price: str | None
    target_price: str | None
    entry_decision: str | None
    exit_decision: str | None
    holding_minutes: str | None
    entry_size_usd: str | None
    initial_risk_usd: str | None
    realized_pnl_usd: str | None
    net_pnl_usd: str | None
    pnl_r: str | None
    mae_usd: str | None
    mfe_usd: str | None
    mae_r: str | None
    mfe_r: str | None
    leg: str
    fee_unknown: bool


def trade_fields(row: object) -> TradeFields:
    """The row of a trade in an answer. Its model is made from the columns of a trade, which no type checker can see."""
    return cast("TradeFields", row)


# ---- what the reader chose -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column that can be sorted: its name in the address, and its heading."""

    name: SortName
    heading: str
    number: bool = False  # True: its values are aligned to the right
    style: str = ""


def table_columns(currency: str) -> tuple[TableColumn, ...]:
    """The columns that can be sorted."""
    return (
        TableColumn("symbol", "Symbol"),
        TableColumn("side", "Side", style="roomy"),
        TableColumn("entry", "Entry"),
        TableColumn("exit", "Exit", style="wide"),
        TableColumn("held", "Held", number=True, style="wide"),
        TableColumn("size", f"Size ({currency})", number=True, style="wide"),
        TableColumn("net", f"Net PnL ({currency})", number=True),
        TableColumn("r", "R", number=True),
    )


@dataclass(frozen=True, slots=True)
class TableQuery:
    """The filters, the sort and the page. `sort` is a column's name, with a minus in front for the largest first."""

    symbol: str = ""
    side: str = ""
    status: str = ""
    strategy: str = ""
    outcome: str = ""
    sort: str = "-entry"
    page: int = 1

    @classmethod
    def read(cls, query: Mapping[str, str]) -> TableQuery:
        """From an address; values that make no sense are ignored.

        >>> TableQuery.read({"side": "long", "sort": "-net", "page": "x"})
        TableQuery(symbol='', side='long', status='', strategy='', outcome='', sort='-net', page=1)
        """
        known = {name: query.get(name, "") for name in ("symbol", "strategy")}
        known |= {name: query.get(name, "") if query.get(name) in values else "" for name, values in FILTER_CHOICES.items()}
        sort, page = query.get("sort", ""), query.get("page", "")
        if sort.removeprefix("-") in {column.name for column in table_columns("")}:
            known["sort"] = sort
        return cls(**known, page=int(page) if page.isascii() and page.isdigit() and 0 < len(page) < 8 else 1)

    def address(self, path: str, **changed: Any) -> str:
        """The address of this view with some values changed; it starts at the first page unless the page is what changes."""
        other = replace(self, **{"page": 1, **changed})
        values = {name: getattr(other, name) for name in self.__slots__}
        query = urlencode({name: value for name, value in values.items() if value != getattr(_DEFAULT_QUERY, name)})
        return f"{path}?{query}" if query else path

    def next_sort(self, column: TableColumn) -> str:
        """The sort that a click on a heading selects: numbers and times largest first, names from A; then the reverse."""
        down, up = f"-{column.name}", column.name
        first = up if column.name in ("symbol", "side") else down
        return (up if first == down else down) if self.sort == first else first

    def direction(self, column: TableColumn) -> str:
        """How a column is sorted, as `aria-sort` states it."""
        if self.sort.removeprefix("-") != column.name:
            return "none"
        return "descending" if self.sort.startswith("-") else "ascending"

    @property
    def filtered(self) -> bool:
        """True if any filter is set."""
        return any((self.symbol, self.side, self.status, self.strategy, self.outcome))

    def first_page(self, strategy: str) -> TradePage:
        """The first page of the trades that pass every filter. `strategy` is the name behind the one that a page shows."""
        outcome = cast("TradeOutcome | None", self.outcome or None)
        return TradePage(
            status=self.status or None, symbol=self.symbol or None, strategy=strategy or None, side=self.side or None,
            outcome=outcome, sort=cast("SortName", self.sort.removeprefix("-")), descending=self.sort.startswith("-"),
            limit=ROWS_PER_PAGE,
        )  # fmt: skip


_DEFAULT_QUERY = TableQuery()


# ---- a page of the table -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TradeTable:
    """A page of trades, and the totals of all trades that pass the filters; `net` counts the closed ones."""

    rows: Sequence[TradeFields]
    n: int
    of: int
    page: int
    pages: int
    won: int
    lost: int
    open: int
    net: Decimal

    @property
    def first(self) -> int:
        """The place of the first row among all trades that pass the filters."""
        return (self.page - 1) * ROWS_PER_PAGE + 1


class TableTotals(NamedTuple):
    """The totals of the trades that pass the filters; `net` counts the closed ones."""

    n: int
    won: int
    lost: int
    open: int
    net: Decimal

    @classmethod
    def of_card(cls, card: AgentCard) -> TableTotals:
        """The totals of all trades, from the figures of the agent."""
        did = card.performance
        return cls(did.n + card.n_open, did.wins, did.losses, card.n_open, did.net_pnl_usd)

    @classmethod
    def of_trades(cls, trades: Sequence[Trade]) -> TableTotals:
        """The totals of some trades.

        >>> TableTotals.of_trades([])
        TableTotals(n=0, won=0, lost=0, open=0, net=Decimal('0'))
        """
        outcomes = [outcome_of_trade(trade) for trade in trades]
        nets = [trade.net_pnl_usd or Decimal(0) for trade in trades if trade.status == "closed"]
        return cls(len(trades), outcomes.count("win"), outcomes.count("loss"), len(trades) - len(nets), sum(nets, Decimal(0)))


# ---- the trades of an agent ----------------------------------------------------------------------------------------------


class TradedNames(NamedTuple):
    """What an agent has traded: the symbols, the one traded last first, and the strategies from A to Z."""

    symbols: Sequence[str]
    strategies: Sequence[str]


class TradeLink(NamedTuple):
    """What a link to a trade shows."""

    id: str
    symbol: str
    side: str


class TradeIndex(NamedTuple):
    """What pages look up over all trades of an agent: the names traded, and the trade that each decision led to."""

    names: TradedNames
    by_decision: Mapping[str, TradeLink]


def every_trade(site: Site, agent: str) -> list[TradeFields]:
    """The whole ledger of an agent, in order of entry. It grows with the history: pages ask for less where they can."""
    return [trade_fields(row) for row in site.ask(get_ledger, AsOf(agent=agent)).rows]


def trade_index(site: Site, agent: str) -> TradeIndex:
    """The index of an agent's trades. It follows from the log alone: pages get it by `Site.by_log`."""
    trades = every_trade(site, agent)
    symbols = dict.fromkeys(trade.symbol for trade in reversed(trades))
    links: dict[str, TradeLink] = {}
    # A decision that closes one trade and opens another leads to the one that it opened.
    for end in ("exit_decision", "entry_decision"):
        links |= {id_: TradeLink(t.id, t.symbol, t.side) for t in trades if (id_ := getattr(t, end))}
    return TradeIndex(TradedNames(list(symbols), sorted({trade.strategy for trade in trades})), links)


class ShownDiscrepancy(NamedTuple):
    """A discrepancy as a page shows it."""

    at: str
    symbol: str
    leg: str
    why: str
    kind: str
    words: str


class AgentTrades:
    """The queries that pages make about the trades of one agent."""

    def __init__(self, site: Site, agent: str) -> None:
        self._site, self._agent = site, agent

    def table(self, query: TableQuery, card: AgentCard) -> TradeTable:
        """One page of the table, with the totals of all trades that pass its filters.

        Only a filter reads more trades than the page shows: its totals need all that pass it.
        """
        ledger = self._site.memory.agent(self._agent).ledger
        every = totals = TableTotals.of_card(card)
        strategy = chosen_name({"strategy": query.strategy}, "strategy", self.names().strategies) if query.strategy else ""
        wanted = query.first_page(strategy)
        if query.strategy and not strategy:
            totals = TableTotals.of_trades([])
        elif query.filtered:
            found = ledger.trades(status=wanted.status, symbol=wanted.symbol, strategy=wanted.strategy, side=wanted.side)
            totals = TableTotals.of_trades([trade for trade in found if wanted.admits(trade)])
        pages = max(-(-totals.n // ROWS_PER_PAGE), 1)
        page = min(query.page, pages)
        rows = ledger.trade_page(replace(wanted, offset=(page - 1) * ROWS_PER_PAGE)) if totals.n else []
        return TradeTable(
            rows=[trade_fields(trade_row(trade)) for trade in rows], n=totals.n, of=every.n, page=page, pages=pages,
            won=totals.won, lost=totals.lost, open=totals.open, net=totals.net,
        )  # fmt: skip

    def open_positions(self) -> list[TradeFields]:
        """The open trades, in order of entry."""
        found = self._site.ask(get_open_positions, AsOf(agent=self._agent)).positions
        return [trade_fields(row) for row in reversed(found)]

    def by_id(self, ids: Iterable[str]) -> dict[str, TradeFields]:
        """The trades with these ids; an id that the ledger does not have is left out."""
        unique, found = set(ids), dict[str, TradeFields]()
        if len(unique) > MAX_SINGLE_READS:
            return {trade.id: trade for trade in every_trade(self._site, self._agent) if trade.id in unique}
        for id_ in unique:
            with suppress(Unknown):
                found[id_] = trade_fields(self._site.ask(get_trade, GetTrade(agent=self._agent, trade_id=id_)).trade)
        return found

    def by_decision(self, decision: str | None) -> TradeLink | None:
        """The trade that a decision opened, else the one that it closed; None if it did neither."""
        return self._site.by_log(self._agent, trade_index).by_decision.get(decision or "")

    def names(self) -> TradedNames:
        """The symbols and strategies that were traded."""
        return self._site.by_log(self._agent, trade_index).names

    def discrepancies(self) -> list[ShownDiscrepancy]:
        """Records that do not agree, in words, newest first."""
        return [
            ShownDiscrepancy(
                time_text(found.at), found.symbol, found.leg, found.why, DISCREPANCIES.get(found.why, found.why),
                show_sentence(discrepancy_text(found, show_price, str)),
            )
            for found in self._site.memory.agent(self._agent).ledger.discrepancies()
        ]  # fmt: skip

    def unknown_fees(self, trade: TradeFields) -> list[str]:
        """The fees of a trade that are not included, because nobody stated their rate."""
        if not trade.fee_unknown:
            return []
        found = self._site.memory.agent(self._agent).ledger.discrepancies()
        since, until = read_time(trade.entry_at), read_time(trade.exit_at) if trade.exit_at else None
        own = [
            each for each in found
            if each.why == "fee_unknown" and (each.symbol, each.leg) == (trade.symbol, trade.leg)
            and since <= each.at and (until is None or each.at <= until)
        ]  # fmt: skip
        named = [f"fee of {show_price(each.fee)} in {each.fee_currency} not included: rate unknown" for each in reversed(own)]
        return named or ["a fee in another currency is not included: rate unknown"]


def unlisted_trade(id_: str) -> TradeFields:
    """The place holder of a trade that no ledger lists: only its id is known."""
    return trade_fields(SimpleNamespace(id=id_, symbol=id_, side="", exit_at=None, pnl_r=None))


def chosen_symbol(query: Mapping[str, str], names: TradedNames) -> str:
    """The symbol that an address names, else the one traded last; an empty value in the address means any symbol."""
    return query.get("symbol", names.symbols[0] if names.symbols else "").strip()


def chosen_name(query: Mapping[str, str], field: str, known: Iterable[str]) -> str:
    """The value that an address names, if it is a known one. A page shows a value, and so sends it, made visible."""
    return {str(visible(value)): value for value in known}.get(query.get(field, ""), "")
