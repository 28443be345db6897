"""The trades of an agent as pages need them: a page of the table with its totals, single trades, and the names traded.

`AgentTrades` is the only place of the pages that reads trades in bulk. Each of its methods is one query; what the reader of the
table chose is in the address, so a view can be bookmarked, sent to someone, and returned to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast
from urllib.parse import urlencode

from memtape.core.codec import plain, read_time
from memtape.errors import Unknown
from memtape.surfaces.answers import AsOf
from memtape.surfaces.operations.records import (
    GetTrade,
    GetTrades,
    get_ledger,
    get_open_positions,
    get_trade,
    get_trades,
)
from memtape.surfaces.web.display import visible

if TYPE_CHECKING:
    from memtape.surfaces.web.figures import AgentCard
    from memtape.surfaces.web.site import Site

ROWS_PER_PAGE = 25
MAX_ROWS_READ = 1000  # the most that get_trades gives at once
MAX_SINGLE_READS = 60  # for more trades than this, one reading of the ledger costs less
FILTER_CHOICES: Mapping[str, Mapping[str, str]] = {
    "side": {"long": "long", "short": "short"},
    "status": {"closed": "closed", "open": "open"},
    "outcome": {"win": "won", "loss": "lost"},
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


# ---- what the reader chose -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column that can be sorted: its name in the address, its heading, and the field that it sorts by."""

    name: str
    heading: str
    field: str
    sort_key: Callable[[str], Any] = str
    style: str = ""

    @property
    def number(self) -> bool:
        """True if its values are aligned to the right."""
        return self.sort_key is Decimal


def table_columns(currency: str) -> tuple[TableColumn, ...]:
    """The columns that can be sorted."""
    return (
        TableColumn("symbol", "Symbol", "symbol"),
        TableColumn("side", "Side", "side", style="roomy"),
        TableColumn("entry", "Entry", "entry_at", read_time),
        TableColumn("exit", "Exit", "exit_at", read_time, style="wide"),
        TableColumn("held", "Held", "holding_minutes", Decimal, style="wide"),
        TableColumn("size", f"Size ({currency})", "entry_size_usd", Decimal, style="wide"),
        TableColumn("net", f"Net PnL ({currency})", "net_pnl_usd", Decimal),
        TableColumn("r", "R", "pnl_r", Decimal),
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

    def matches(self, trade: TradeFields) -> bool:
        """Returns True if a trade passes every filter."""
        return (
            (not self.symbol or trade.symbol == self.symbol)
            and (not self.side or trade.side == self.side)
            and (not self.status or trade.status == self.status)
            and (not self.strategy or visible(trade.strategy) == self.strategy)
            and (not self.outcome or trade_outcome(trade) == self.outcome)
        )


_DEFAULT_QUERY = TableQuery()


def trade_outcome(trade: TradeFields) -> str:
    """`win` or `loss`; empty for a trade that is open, has no known price, or ended at exactly zero."""
    if trade.status != "closed" or trade.net_pnl_usd is None:
        return ""
    net = Decimal(trade.net_pnl_usd)
    return "win" if net > 0 else "loss" if net < 0 else ""


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


def trade_table(trades: Sequence[TradeFields], query: TableQuery) -> TradeTable:
    """The page that a query selects from trades. Equal ones are newest first; a trade with an unknown sort value comes last."""
    column = next(column for column in table_columns("") if column.name == query.sort.removeprefix("-"))
    passing = [trade for trade in trades if query.matches(trade)]
    # The order of get_trades: the newest entry first, of equal ones the smaller id first.
    passing.sort(key=lambda trade: trade.id)
    passing.sort(key=lambda trade: read_time(trade.entry_at), reverse=True)
    known = [trade for trade in passing if getattr(trade, column.field) is not None]
    known.sort(key=lambda trade: column.sort_key(getattr(trade, column.field)), reverse=query.sort.startswith("-"))
    ordered = known + [trade for trade in passing if getattr(trade, column.field) is None]
    pages = max(-(-len(ordered) // ROWS_PER_PAGE), 1)
    page = min(query.page, pages)
    outcomes = [trade_outcome(trade) for trade in passing]
    nets = [Decimal(trade.net_pnl_usd or 0) for trade in passing if trade.status == "closed"]
    return TradeTable(
        rows=ordered[(page - 1) * ROWS_PER_PAGE : page * ROWS_PER_PAGE], n=len(passing), of=len(trades), page=page, pages=pages,
        won=outcomes.count("win"), lost=outcomes.count("loss"), open=len(passing) - len(nets), net=sum(nets, Decimal(0)),
    )  # fmt: skip


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


def trade_index(site: Site, agent: str) -> TradeIndex:
    """The index of an agent's trades. It follows from the log alone: pages get it by `Site.by_log`."""
    trades: Sequence[TradeFields] = site.ask(get_ledger, AsOf(agent=agent)).rows
    symbols = dict.fromkeys(trade.symbol for trade in reversed(trades))
    links: dict[str, TradeLink] = {}
    # A decision that closes one trade and opens another leads to the one that it opened.
    for end in ("exit_decision", "entry_decision"):
        links |= {id_: TradeLink(t.id, t.symbol, t.side) for t in trades if (id_ := getattr(t, end))}
    return TradeIndex(TradedNames(list(symbols), sorted({trade.strategy for trade in trades})), links)


class AgentTrades:
    """The queries that pages make about the trades of one agent."""

    def __init__(self, site: Site, agent: str) -> None:
        self._site, self._agent = site, agent

    def _every_trade(self) -> Sequence[TradeFields]:
        return self._site.ask(get_ledger, AsOf(agent=self._agent)).rows

    def table(self, query: TableQuery, card: AgentCard) -> TradeTable:
        """One page of the table, with the totals of all trades that pass its filters.

        The newest trades without a filter are read as they are shown. Other sorts and filters read the whole ledger.
        """
        last = query.page * ROWS_PER_PAGE
        if query.filtered or query.sort != _DEFAULT_QUERY.sort or last > MAX_ROWS_READ:
            return trade_table(self._every_trade(), query)
        did = card.performance
        n = did.n + card.n_open
        pages = max(-(-n // ROWS_PER_PAGE), 1)
        page = min(query.page, pages)
        found = self._site.ask(get_trades, GetTrades(agent=self._agent, limit=page * ROWS_PER_PAGE)).trades
        return TradeTable(
            rows=found[(page - 1) * ROWS_PER_PAGE :], n=n, of=n, page=page, pages=pages, won=did.wins, lost=did.losses,
            open=card.n_open, net=Decimal(did.net_pnl_usd),
        )  # fmt: skip

    def open_positions(self) -> list[TradeFields]:
        """The open trades, in order of entry."""
        return self._site.ask(get_open_positions, AsOf(agent=self._agent)).positions[::-1]

    def by_id(self, ids: Iterable[str]) -> dict[str, TradeFields]:
        """The trades with these ids; an id that the ledger does not have is left out."""
        unique, found = set(ids), dict[str, TradeFields]()
        if len(unique) > MAX_SINGLE_READS:
            return {trade.id: trade for trade in self._every_trade() if trade.id in unique}
        for id_ in unique:
            with suppress(Unknown):
                found[id_] = self._site.ask(get_trade, GetTrade(agent=self._agent, trade_id=id_)).trade
        return found

    def by_decision(self, decision: str) -> TradeLink | None:
        """The trade that a decision opened, else the one that it closed; None if it did neither."""
        return self._site.by_log(self._agent, trade_index).by_decision.get(decision)

    def names(self) -> TradedNames:
        """The symbols and strategies that were traded."""
        return self._site.by_log(self._agent, trade_index).names

    def discrepancies(self) -> list[dict[str, Any]]:
        """Where the positions of the broker differ from its fills."""
        return [plain(found) for found in self._site.memory.agent(self._agent).ledger.discrepancies()]


def unlisted_trade(id_: str) -> TradeFields:
    """The place holder of a trade that no ledger lists: only its id is known."""
    return cast("TradeFields", SimpleNamespace(id=id_, symbol=id_, side="", exit_at=None, pnl_r=None))


def chosen_symbol(query: Mapping[str, str], names: TradedNames) -> str:
    """The symbol that an address names, else the one traded last; an empty value in the address means any symbol."""
    return query.get("symbol", names.symbols[0] if names.symbols else "").strip()


def chosen_name(query: Mapping[str, str], field: str, known: Iterable[str]) -> str:
    """The value that an address names, if it is a known one. A page shows a value, and so sends it, made visible."""
    return {str(visible(value)): value for value in known}.get(query.get(field, ""), "")
