"""The words for buying and selling, and for rows that are neither.

A fill says what was done: "Close Long" is a sale. A closed trade says what was held: "Close Long" was a long. Numbers
are read by the set of them that a column uses: 1 and -1, MetaTrader's 0 (buy) and 1 (sell), Nautilus' 1 and 2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

BUY, SELL = 1, -1
NEITHER = 0  # a row that is no execution: a deposit, a cancelled order, a decision not to trade

_BOTH: Mapping[str, int] = {
    **dict.fromkeys(("buy", "b", "bot", "bought", "long", "l", "bid", "openlong", "enterlong", "entrylong", "buytoopen", "bto",
                     "buylong", "buymarket", "marketbuy", "call"), BUY),
    **dict.fromkeys(("sell", "s", "sld", "sold", "short", "ask", "a", "openshort", "entershort", "entryshort", "selltoopen",
                     "sto", "sellshort", "shortsell", "ss", "sellmarket", "marketsell"), SELL),
}  # fmt: skip
_DONE: Mapping[str, int] = {
    **dict.fromkeys(("closeshort", "exitshort", "buytoclose", "btc", "buytocover", "cover", "buycover", "shortlong"), BUY),
    **dict.fromkeys(("closelong", "exitlong", "selltoclose", "stc", "selllong", "longshort"), SELL),
}
_HELD: Mapping[str, int] = {"closelong": BUY, "exitlong": BUY, "closeshort": SELL, "exitshort": SELL, "selllong": BUY}
_NEITHER = frozenset({
    "balance", "credit", "charge", "correction", "bonus", "interest", "dividend", "dividends", "tax", "deposit",
    "withdrawal", "withdraw", "transfer", "funding", "fee", "commission", "init", "initial", "notrade", "none", "hold",
    "wait", "skip", "flat", "noaction", "nothing", "cancel", "canceled", "cancelled", "rejected", "expired", "rebate",
    "conversion", "adjustment", "airdrop", "staking", "reward", "split",
})  # fmt: skip
_METATRADER = {"0": BUY, "1": SELL}  # higher numbers are balance, credit, charge, ...
_LETTERS = re.compile(r"[^a-z]+")
_INTEGER = re.compile(r"([+-]?\d{1,2})(\.0+)?")
_LONG, _SHORT = frozenset({"buy", "long", "bought"}), frozenset({"sell", "short", "sold"})


class Words:
    """How one column says buy and sell."""

    def __init__(self, cells: Iterable[str], *, held: bool, name: str = "") -> None:
        self.held = held
        distinct = set(cells) - {""}
        numbers = {found[1].lstrip("+") for cell in distinct if (found := _INTEGER.fullmatch(cell))}
        self._codes = _codes(numbers, name)
        self._known: dict[str, int | None] = {cell: self._read(cell) for cell in distinct}

    def side(self, cell: str) -> int | None:
        """BUY, SELL, NEITHER, or None for a word that is not known.

        >>> words = Words(["Open Long", "Close Long", "Long > Short", "no_trade", "maybe"], held=False)
        >>> [words.side(w) for w in ("Open Long", "Close Long", "Long > Short", "no_trade", "maybe")]
        [1, -1, -1, 0, None]
        """
        return self._known.get(cell)

    @property
    def share_known(self) -> float:
        """How much of the column's vocabulary is known: what makes a column one of sides."""
        return sum(side is not None for side in self._known.values()) / len(self._known) if self._known else 0.0

    @property
    def has_side(self) -> bool:
        """Whether anything in it is a side at all."""
        return any(self._known.values())

    def _read(self, cell: str) -> int | None:
        if number := _INTEGER.fullmatch(cell):
            return self._codes.get(number[1].lstrip("+"))
        word = _LETTERS.sub("", cell.lower())
        for known in (_HELD if self.held else _DONE, _BOTH):
            if word in known:
                return known[word]
        parts = set(_LETTERS.split(cell.lower()))
        if word in _NEITHER or "ca" in parts:  # "BUY (Ca.)" is IBKR's cancelled trade
            return NEITHER
        if parts & _LONG and not parts & _SHORT:
            return BUY
        if parts & _SHORT and not parts & _LONG:
            return SELL
        return NEITHER if parts & _NEITHER else None


def _codes(numbers: set[str], name: str) -> Mapping[str, int]:
    """What numbers mean in a column that uses these."""
    if "-1" in numbers:
        return {"1": BUY, "-1": SELL, "0": NEITHER}
    if "0" in numbers or name == "type":
        return dict.fromkeys(numbers, NEITHER) | _METATRADER
    return {"1": BUY, "2": SELL} if numbers <= {"1", "2"} else {}
