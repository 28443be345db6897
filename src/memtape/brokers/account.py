"""What a file says about its account: the currency of its amounts, and the money that the account started with."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from itertools import pairwise

from memtape.brokers.files import CellTable
from memtape.brokers.headings import heading_coin, heading_currency
from memtape.brokers.mapping import SAMPLE_ROWS, ColumnMapping
from memtape.core.observed import ClosedTrade
from memtape.core.values import MONEY

DOLLAR_CURRENCIES = frozenset({"USD", "USDT", "USDC", "BUSD", "FDUSD", "DAI", "TUSD"})  # counted as equal to one another
DEFAULT_CURRENCY = "USD"
BALANCE_TOLERANCE = Decimal("0.011")  # balances and profits are rounded to cents
# The first of these groups that states a currency decides. A fee may be paid in another one, and a price has one of its own.
_MONEY_FIELDS = (("pnl", "net_pnl", "balance", "value", "equity", "cash", "flow", "deposit", "withdrawal"),
                 ("fees", "entry_fee", "exit_fee", "funding"),
                 ("entry_price", "exit_price", "price"))  # fmt: skip
_SYMBOLS = {"$": "USD", "€": "EUR", "£": "GBP", "¥": "JPY", "₹": "INR"}
_CODES = DOLLAR_CURRENCIES | {"EUR", "GBP", "CHF", "JPY", "AUD", "CAD", "NZD", "SEK", "NOK", "INR", "SGD", "HKD", "CNY"}
_CODE = re.compile(r"[A-Z]{3,5}")


@dataclass(frozen=True, slots=True)
class FileCurrency:
    """The currency of a file's amounts; several if it contradicts itself, none if it does not state any."""

    found: tuple[str, ...] = ()
    source: str = ""  # the columns that state it

    @property
    def stated(self) -> str | None:
        """The currency, if there is one."""
        return self.found[0] if len(self.found) == 1 else None


def same_currency(one: str, other: str) -> bool:
    """Returns True if amounts in these currencies are added without a rate.

    >>> same_currency("USDT", "USD"), same_currency("EUR", "USD")
    (True, False)
    """
    return one == other or {one, other} <= DOLLAR_CURRENCIES


def find_currency(source: CellTable, mapping: ColumnMapping) -> FileCurrency:
    """Returns the currency of a file: as given, else of its currency column, else of the headings and cells of its amounts."""
    if constant := mapping.constants.get("currency"):
        return FileCurrency((_account_currency(constant),), "--currency")
    # Beside a rate, the column states the currency of what was traded, not that of the account.
    if "currency" in mapping.columns and "rate" not in mapping:
        words = {cell.upper() for cell in mapping.cells(source, "currency") if _CODE.fullmatch(cell.upper())}
        if words:
            return _currencies(words, [source.header[at] for at in mapping.columns["currency"]])
    for fields in _MONEY_FIELDS:
        # The currency of prices is that of the amounts only where the amounts are computed from them.
        if "price" in fields and ("pnl" in mapping or "net_pnl" in mapping):
            continue
        columns = {at for name in fields for at in mapping.columns.get(name, ())}
        by_column = {at: _column_currencies(source, at, coins="pnl" in fields) for at in sorted(columns)}
        if found := {word for words in by_column.values() for word in words}:
            return _currencies(found, [source.header[at] for at, words in by_column.items() if words])
    return FileCurrency()


def _currencies(words: Iterable[str], headings: Iterable[str]) -> FileCurrency:
    return FileCurrency(tuple(sorted({_account_currency(word) for word in words})), ", ".join(headings))


def _account_currency(word: str) -> str:
    return DEFAULT_CURRENCY if word.upper() in DOLLAR_CURRENCIES else word.upper()


def _column_currencies(source: CellTable, at: int, *, coins: bool) -> set[str]:
    """Returns the currencies that a column names: in its heading, or beside its numbers. A fee in a coin says nothing of the
    account, so its heading does so only with `coins`.
    """
    if named := heading_currency(source.header[at]) or (heading_coin(source.header[at]) if coins else None):
        return {named}
    found: set[str] = set()
    for cell in source.column(at)[:SAMPLE_ROWS]:
        found |= {_SYMBOLS[sign] for sign in _SYMBOLS.keys() & set(cell)}
        found |= set(_CODE.findall(cell)) & _CODES
    return found


def starting_equity(balances: Sequence[Decimal | None], trades: Sequence[ClosedTrade]) -> Decimal | None:
    """Returns what the account had before the first trade, if the balances beside the trades move by their profits.

    `balances` has the balance after each of these trades. Deposits in between are allowed in a fifth of the rows.
    """
    known = [(trade, balance) for trade, balance in zip(trades, balances, strict=True) if balance is not None]
    known.sort(key=lambda pair: pair[0].exit_at)
    if len(known) < 2 or any(trade.pnl is None for trade, _ in known):
        return None
    with localcontext(MONEY):
        nets = [(trade.pnl or Decimal(0)) - trade.fees + trade.funding for trade, _ in known]
        moves = [after[1] - before[1] for before, after in pairwise(known)]
        fitting = sum(abs(move - net) <= BALANCE_TOLERANCE for move, net in zip(moves, nets[1:], strict=True))
        start = known[0][1] - nets[0]
    return start if 5 * fitting >= 4 * len(moves) and start > 0 else None
