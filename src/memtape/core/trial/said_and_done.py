"""What a decision maker said beside what it did: its words against its orders and fills, and its story against its ledger.

Each check has a count: of how many decisions it could be asked, in how many word and deed differ, and up to five examples. A
claim about the ledger ("win rate 60 %", "won 6 of the last 10", "three losses in a row") is compared with the trades that had
ended by then: all of them, the last 10, 20 and 50, those of the same symbol and of the same side. It counts as contradicted only
if none of these fits.

>>> [(claim.kind, claim.value) for claim in ledger_claims("My win rate is 60 %, after three losses in a row.")]
[('win rate', 60.0), ('losses in a row', 3.0)]
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

from memtape.core.codec import time_text
from memtape.core.fills import Fill
from memtape.core.observed import Decision
from memtape.core.trial.round_trips import RoundTrip

MAX_EXAMPLES = 5
PRICE_TOLERANCE, SIZE_TOLERANCE = 0.001, 0.001  # shares: what is said is rounded
RATE_TOLERANCE = 5.0  # percentage points
STOP_TOLERANCE_R = 0.1
LAST = (10, 20, 50)
QUOTED_CHARS = 160
CHECKS: Mapping[str, str] = {
    "reason": "a trade is entered with a reason",
    "side": "the order has the side that was decided",
    "stop": "the order has the stop that was decided",
    "stop in words": "the stop in the reason is that of the order",
    "size": "the order has the size that was decided",
    "filled size": "an entry that filled, filled in the size that was decided",
    "stop held": "a stop that was hit filled within 0.1R of its price",
    "ledger": "a claim about the own record fits the ledger",
}  # fmt: skip
_WORDS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10}
_COUNT = rf"(\d{{1,3}}|{'|'.join(_WORDS)})"
_STOP = re.compile(r"\bstop\b[^.;]*?(?:\bat\b|@|:|=)\s*\$?(\d[\d,]*(?:\.\d+)?)", re.IGNORECASE)
_PERCENT, _RATE_NAME = r"(\d{1,3}(?:\.\d+)?)\s*(?:%|percent)", r"(?:win rate|winrate|hit rate)"
_RATE = re.compile(rf"{_RATE_NAME}\D{{0,16}}{_PERCENT}|{_PERCENT}\s*(?:{_RATE_NAME}|won\b|winners\b)", re.IGNORECASE)
_WON_OF = re.compile(rf"\bwon\s+{_COUNT}\s+(?:out of|of)\s+(?:the\s+|my\s+)?(?:last\s+)?{_COUNT}", re.IGNORECASE)
_ENDED = r"(losses|wins|losers|winners)"
_STREAK = re.compile(rf"{_COUNT}\s+{_ENDED}\s+in a row|{_COUNT}\s+(?:straight|consecutive)\s+{_ENDED}", re.IGNORECASE)


class LedgerClaim(NamedTuple):
    """What a reason says of the own record."""

    kind: str  # win rate, losses in a row, wins in a row
    value: float  # percent, or a number of trades
    last: int | None = None  # the number of trades that it speaks of, if it says so


@dataclass(slots=True)
class CheckCount:
    """One check: how often it could be made, how often word and deed differ, and examples."""

    n: int = 0
    differ: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, fits: bool, example: str) -> None:
        """Count one."""
        self.n += 1
        if not fits:
            self.differ += 1
            if len(self.examples) < MAX_EXAMPLES:
                self.examples.append(example)


@dataclass(slots=True)
class SaidAndDone:
    """The checks of one arm in one run."""

    counts: dict[str, CheckCount] = field(default_factory=lambda: {name: CheckCount() for name in CHECKS})
    refused: int = 0  # entries that guard or broker refused
    _entries: dict[str, Decision] = field(default_factory=dict)  # by order

    def decided(self, decision: Decision, orders: Sequence[Mapping[str, Any]], ended: Sequence[RoundTrip]) -> None:
        """Check a decision with the orders that it placed, and the trades that had ended by then."""
        if decision.reason:
            self._story(decision, ended)
        if decision.action not in ("buy", "sell"):
            return
        when = _when(decision)
        self.counts["reason"].add(bool(decision.reason), f"{when}: no reason")
        if decision.verdict is not None and not decision.verdict.accepted:
            self.refused += 1
        for order in orders:
            if order["reduce_only"]:
                continue
            said = f"{when}: {decision.action} decided, {order['side']} ordered"
            self.counts["side"].add(order["side"] == decision.action, said)
            if decision.stop is not None or order["stop"] is not None:
                said = f"{when}: stop {decision.stop} decided, {order['stop']} ordered"
                self.counts["stop"].add(_close(decision.stop, order["stop"], PRICE_TOLERANCE), said)
            if decision.qty is not None:
                said = f"{when}: {decision.qty} decided, {order['qty']} ordered"
                self.counts["size"].add(_close(decision.qty, order["qty"], SIZE_TOLERANCE), said)
            if decision.reason and order["stop"] is not None and (stop := _STOP.search(decision.reason)):
                told = Decimal(stop[1].replace(",", ""))
                said = f"{when}: '{_quote(decision.reason)}', ordered with stop {order['stop']}"
                self.counts["stop in words"].add(_close(told, order["stop"], PRICE_TOLERANCE), said)
        for id_ in decision.order_ids:
            self._entries[id_] = decision

    def filled(self, fills: Sequence[Fill]) -> None:
        """Check the entries that filled in a tick."""
        for fill in fills:
            decision = self._entries.get(fill.order_id or "")
            if decision is not None and decision.qty is not None:
                said = f"{_when(decision)}: {decision.qty} decided, {fill.qty} filled"
                self.counts["filled size"].add(_close(decision.qty, fill.qty, SIZE_TOLERANCE), said)

    def closed(self, trade: RoundTrip) -> None:
        """Check a trade that ended."""
        if trade.trigger == "stop" and trade.beyond_stop is not None:
            said = f"{trade.symbol} {trade.side} of {time_text(trade.entry_at)}: filled {trade.beyond_stop:.2f}R beyond its stop"
            self.counts["stop held"].add(trade.beyond_stop <= STOP_TOLERANCE_R, said)

    def _story(self, decision: Decision, ended: Sequence[RoundTrip]) -> None:
        for claim in ledger_claims(decision.reason or ""):
            fits, ledger = fits_ledger(claim, ended, decision.symbol, decision.stated_side)
            said = f"{_when(decision)}: '{_quote(decision.reason or '')}'; the ledger has {ledger}"
            self.counts["ledger"].add(fits, said)

    def as_dict(self) -> dict[str, Any]:
        """Returns JSON data."""
        rows = {name: {"n": one.n, "differ": one.differ, "examples": one.examples} for name, one in self.counts.items()}
        return {"checks": rows, "refused": self.refused}


def ledger_claims(text: str) -> list[LedgerClaim]:
    """Returns what a text says of the own record, as far as it can be read with certainty."""
    found = [LedgerClaim("win rate", float(rate[1] or rate[2])) for rate in _RATE.finditer(text)]
    for won in _WON_OF.finditer(text):
        wins, of = _count(won[1]), _count(won[2])
        if of > 0 and wins <= of:
            found.append(LedgerClaim("win rate", 100.0 * wins / of, of))
    for streak in _STREAK.finditer(text):
        n, what = (streak[1], streak[2]) if streak[1] else (streak[3], streak[4])
        found.append(LedgerClaim("losses in a row" if what.lower().startswith("los") else "wins in a row", float(_count(n))))
    return found


def fits_ledger(
    claim: LedgerClaim, ended: Sequence[RoundTrip], symbol: str | None, side: str | None
) -> tuple[bool, str]:
    """Returns True if a claim fits the trades that had ended, with what the ledger has."""
    won = [float(trade.net) > 0 for trade in ended]
    if claim.kind != "win rate":
        wanted, run = claim.kind == "wins in a row", 0
        for win in reversed(won):
            if win != wanted:
                break
            run += 1
        return run == int(claim.value), f"{run} {claim.kind}"
    groups = {"all trades": won} | {f"the last {n}": won[-n:] for n in ([claim.last] if claim.last else LAST)}
    if claim.last is None:
        groups[f"trades of {symbol}"] = [win for win, trade in zip(won, ended, strict=True) if trade.symbol == symbol]
        groups[f"{side}s"] = [win for win, trade in zip(won, ended, strict=True) if trade.side == side]
    else:
        del groups["all trades"]
    rates = {name: 100.0 * sum(wins) / len(wins) for name, wins in groups.items() if wins}
    if not rates:
        return False, "no trade that has ended"
    name, rate = next(iter(rates.items()))
    fits = any(abs(one - claim.value) <= RATE_TOLERANCE for one in rates.values())
    return fits, f"{rate:.0f} % won (n {len(groups[name])}, {name})"


def _count(text: str) -> int:
    return int(text) if text.isdigit() else _WORDS[text.lower()]


def _close(said: Decimal | None, done: Decimal | None, tolerance: float) -> bool:
    if said is None or done is None:
        return said is None and done is None
    return abs(said - done) <= Decimal(repr(tolerance)) * max(abs(said), abs(done))


def _when(decision: Decision) -> str:
    return f"{decision.symbol} {time_text(decision.t)[:16] if decision.t is not None else ''}".strip()


def _quote(text: str) -> str:
    return text if len(text) <= QUOTED_CHARS else f"{text[:QUOTED_CHARS]}..."
