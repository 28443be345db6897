"""The table of trades: what of the ledger is wanted, in which order, on which page; and the links that ask for it.

Everything wanted is in the address, so a view can be kept, sent to someone, and gone back to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from memtape.core.codec import read_time
from memtape.surfaces.web.display import visible

ON_A_PAGE = 25
CHOICES: Mapping[str, Mapping[str, str]] = {
    "side": {"long": "long", "short": "short"},
    "status": {"closed": "closed", "open": "open"},
    "outcome": {"win": "won", "loss": "lost"},
}

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name in the address, its heading, and the trade's value it is ordered by."""

    name: str
    heading: str
    field: str
    order: Callable[[str], Any] = str
    style: str = ""

    @property
    def number(self) -> bool:
        """Whether its values stand to the right."""
        return self.order is Decimal


def columns(currency: str) -> tuple[Column, ...]:
    """The columns that can be ordered."""
    return (
        Column("symbol", "Symbol", "symbol"),
        Column("side", "Side", "side", style="roomy"),
        Column("entry", "Entry", "entry_at", read_time),
        Column("exit", "Exit", "exit_at", read_time, style="wide"),
        Column("held", "Held", "holding_minutes", Decimal, style="wide"),
        Column("size", f"Size ({currency})", "entry_size_usd", Decimal, style="wide"),
        Column("net", f"Net PnL ({currency})", "net_pnl_usd", Decimal),
        Column("r", "R", "pnl_r", Decimal),
    )


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the reader asked for. `sort` is a column's name, with a minus in front for the largest first."""

    symbol: str = ""
    side: str = ""
    status: str = ""
    strategy: str = ""
    outcome: str = ""
    sort: str = "-entry"
    page: int = 1

    @classmethod
    def read(cls, query: Mapping[str, str]) -> Wanted:
        """From an address; what makes no sense there is as if it were not there.

        >>> Wanted.read({"side": "long", "sort": "-net", "page": "x"})
        Wanted(symbol='', side='long', status='', strategy='', outcome='', sort='-net', page=1)
        """
        known = {name: query.get(name, "") for name in ("symbol", "strategy")}
        known |= {name: query.get(name, "") if query.get(name) in words else "" for name, words in CHOICES.items()}
        sort, page = query.get("sort", ""), query.get("page", "")
        if sort.removeprefix("-") in {column.name for column in columns("")}:
            known["sort"] = sort
        return cls(**known, page=int(page) if page.isascii() and page.isdigit() and 0 < len(page) < 8 else 1)

    def address(self, path: str, **changed: Any) -> str:
        """The address of this view with something changed; always from the first page unless that is what changes."""
        other = replace(self, **{"page": 1, **changed})
        asked = {name: getattr(other, name) for name in self.__slots__}
        query = urlencode({name: value for name, value in asked.items() if value != getattr(_NOTHING, name)})
        return f"{path}?{query}" if query else path

    def turned(self, column: Column) -> str:
        """The order that a click on a heading asks for: numbers and times largest first, names from A; then the reverse."""
        down, up = f"-{column.name}", column.name
        first = up if column.name in ("symbol", "side") else down
        return (up if first == down else down) if self.sort == first else first

    def direction(self, column: Column) -> str:
        """How a column is ordered, as `aria-sort` says it."""
        if self.sort.removeprefix("-") != column.name:
            return "none"
        return "descending" if self.sort.startswith("-") else "ascending"

    @property
    def filters(self) -> bool:
        """Whether anything is left out."""
        return any((self.symbol, self.side, self.status, self.strategy, self.outcome))

    def fits(self, trade: Row) -> bool:
        """Whether a trade is wanted."""
        return (
            (not self.symbol or trade["symbol"] == self.symbol)
            and (not self.side or trade["side"] == self.side)
            and (not self.status or trade["status"] == self.status)
            and (not self.strategy or visible(trade["strategy"]) == self.strategy)
            and (not self.outcome or trade_outcome(trade) == self.outcome)
        )


_NOTHING = Wanted()


def trade_outcome(trade: Row) -> str:
    """What became of a trade: `win`, `loss`, or nothing yet, nothing known or nothing at all."""
    if trade["status"] != "closed" or trade["net_pnl_usd"] is None:
        return ""
    net = Decimal(trade["net_pnl_usd"])
    return "win" if net > 0 else "loss" if net < 0 else ""


@dataclass(frozen=True, slots=True)
class TradeTable:
    """A page of trades, and what all that fit come to; `net` is over the closed ones."""

    rows: Sequence[Row]
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
        """The place of the first row among all that fit."""
        return (self.page - 1) * ON_A_PAGE + 1


def tabled(ledger: Sequence[Row], wanted: Wanted) -> TradeTable:
    """The trades that fit, ordered and cut to a page; trades of which the order's value is unknown come last."""
    column = next(column for column in columns("") if column.name == wanted.sort.removeprefix("-"))
    fitting = [trade for trade in reversed(ledger) if wanted.fits(trade)]
    known = [trade for trade in fitting if trade[column.field] is not None]
    known.sort(key=lambda trade: column.order(trade[column.field]), reverse=wanted.sort.startswith("-"))
    ordered = known + [trade for trade in fitting if trade[column.field] is None]
    pages = max(-(-len(ordered) // ON_A_PAGE), 1)
    page = min(wanted.page, pages)
    outcomes = [trade_outcome(trade) for trade in fitting]
    nets = [Decimal(trade["net_pnl_usd"] or 0) for trade in fitting if trade["status"] == "closed"]
    return TradeTable(
        rows=ordered[(page - 1) * ON_A_PAGE : page * ON_A_PAGE], n=len(fitting), of=len(ledger), page=page, pages=pages,
        won=outcomes.count("win"), lost=outcomes.count("loss"), open=len(fitting) - len(nets), net=sum(nets, Decimal(0)),
    )  # fmt: skip
