"""The words for buying and selling, and for rows that are neither.

In a file of fills "Close Long" is a sale. In a file of closed trades "Close Long" was a long. The meaning of a number depends on
the numbers in its column: 1 and -1, MetaTrader's 0 (buy) and 1 (sell), Nautilus' 1 and 2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from memtape.core.labels import fold_label

BUY, SELL = 1, -1
NEITHER = 0  # not an execution: a deposit, a cancelled order, a decision not to trade

_SIDE_WORDS: Mapping[str, int] = {
    **dict.fromkeys(("buy", "b", "bot", "bought", "long", "l", "bid", "openlong", "enterlong", "entrylong", "buytoopen", "bto",
                     "buylong", "buymarket", "marketbuy", "call", "kauf", "kaufen", "gekauft", "k", "achat", "acheter"), BUY),
    **dict.fromkeys(("sell", "s", "sld", "sold", "short", "ask", "a", "openshort", "entershort", "entryshort", "selltoopen",
                     "sto", "sellshort", "shortsell", "ss", "sellmarket", "marketsell", "verkauf", "verkaufen", "verkauft", "v",
                     "vente", "vendre"), SELL),
}  # fmt: skip
_FILL_WORDS: Mapping[str, int] = {
    **dict.fromkeys(("closeshort", "exitshort", "buytoclose", "btc", "buytocover", "cover", "buycover", "shortlong"), BUY),
    **dict.fromkeys(("closelong", "exitlong", "selltoclose", "stc", "selllong", "longshort"), SELL),
}
_TRADE_WORDS: Mapping[str, int] = {"closelong": BUY, "exitlong": BUY, "closeshort": SELL, "exitshort": SELL, "selllong": BUY}
_OTHER_WORDS = frozenset({
    "balance", "credit", "charge", "correction", "bonus", "interest", "dividend", "dividends", "tax", "deposit",
    "withdrawal", "withdraw", "transfer", "funding", "fee", "commission", "init", "initial", "notrade", "none", "hold",
    "wait", "skip", "flat", "noaction", "nothing", "cancel", "canceled", "cancelled", "rejected", "expired", "rebate",
    "conversion", "adjustment", "airdrop", "staking", "reward", "split", "ach", "wire", "cdiv", "dividende", "einzahlung",
    "auszahlung", "zinsen", "depot", "retrait",
})  # fmt: skip
_METATRADER_CODES = {"0": BUY, "1": SELL}  # higher numbers are balance, credit, charge, ...
_LETTERS = re.compile(r"[^a-z]+")
_INTEGER = re.compile(r"([+-]?\d{1,2})(\.0+)?")
_LONG_WORDS, _SHORT_WORDS = frozenset({"buy", "long", "bought"}), frozenset({"sell", "short", "sold"})


_OPENING = frozenset({"open", "opened", "opening", "openposition", "entry", "enter", "in", "o", "add", "increase", "scalein"})
_CLOSING = frozenset({
    "close", "closed", "closing", "closeposition", "exit", "out", "c", "partialclose", "closepartial", "partialexit", "reduce",
    "decrease", "scaleout", "stop", "stoploss", "sl", "takeprofit", "tp", "target", "liquidation", "liquidated",
})  # fmt: skip


def is_no_trade(cell: str) -> bool:
    """Returns True if a word names something else than a trade.

    >>> is_no_trade("Deposit"), is_no_trade("funding"), is_no_trade("buy")
    (True, True, False)
    """
    return _LETTERS.sub("", cell.lower()) in _OTHER_WORDS


def closes_position(cell: str) -> bool | None:
    """Returns True if a word says that a fill closes, False if it opens, None for any other word.

    >>> closes_position("OPEN"), closes_position("partial close"), closes_position("limit")
    (False, True, None)
    """
    word = _LETTERS.sub("", cell.lower())
    return True if word in _CLOSING else False if word in _OPENING else None


def names_positions(cells: Iterable[str]) -> bool:
    """Returns True if all these sides are those of positions, long and short, and none is what was done, like buy."""
    words = {cell.lower() for cell in cells} - {""}
    return bool(words) and words <= {"long", "short", "l", "s"}


class SideWords:
    """The words for buy and sell in one column."""

    def __init__(self, cells: Iterable[str], *, held: bool, name: str = "") -> None:
        self.held = held
        distinct = set(cells) - {""}
        numbers = {found[1].lstrip("+") for cell in distinct if (found := _INTEGER.fullmatch(cell))}
        self._codes = _side_codes(numbers, name)
        self._known: dict[str, int | None] = {cell: self._read(cell) for cell in distinct}

    def side(self, cell: str) -> int | None:
        """Returns BUY, SELL, NEITHER, or None for an unknown word.

        >>> words = SideWords(["Open Long", "Close Long", "Long > Short", "no_trade", "maybe"], held=False)
        >>> [words.side(w) for w in ("Open Long", "Close Long", "Long > Short", "no_trade", "maybe")]
        [1, -1, -1, 0, None]
        """
        return self._known.get(cell)

    @property
    def share_known(self) -> float:
        """The share of the column's distinct values that are known. A high share shows that it is a column of sides."""
        return sum(side is not None for side in self._known.values()) / len(self._known) if self._known else 0.0

    @property
    def has_side(self) -> bool:
        """True if at least one value is a side."""
        return any(self._known.values())

    def _read(self, cell: str) -> int | None:
        if number := _INTEGER.fullmatch(cell):
            return self._codes.get(number[1].lstrip("+"))
        word = _LETTERS.sub("", cell.lower())
        for known in (_TRADE_WORDS if self.held else _FILL_WORDS, _SIDE_WORDS):
            if word in known:
                return known[word]
        if (label := fold_label("side", cell)) in ("long", "short"):
            return BUY if label == "long" else SELL
        parts = set(_LETTERS.split(cell.lower()))
        # IBKR writes "BUY (Ca.)" for a cancelled trade.
        if word in _OTHER_WORDS or "ca" in parts:
            return NEITHER
        if parts & _LONG_WORDS and not parts & _SHORT_WORDS:
            return BUY
        if parts & _SHORT_WORDS and not parts & _LONG_WORDS:
            return SELL
        return NEITHER if parts & _OTHER_WORDS else None


def _side_codes(numbers: set[str], name: str) -> Mapping[str, int]:
    """Returns the meaning of the numbers in a column."""
    if "-1" in numbers:
        return {"1": BUY, "-1": SELL, "0": NEITHER}
    if "0" in numbers or name == "type":
        return dict.fromkeys(numbers, NEITHER) | _METATRADER_CODES
    return {"1": BUY, "2": SELL} if numbers <= {"1", "2"} else {}
