"""What a file states about the outcome of a decision: a word, an R, an exit price, and when it ended."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, localcontext

from memtape.brokers.cells import EMPTY_WORDS, BadCell
from memtape.brokers.mapped_table import MappedTable
from memtape.core.decisions.decision_outcomes import StatedOutcome
from memtape.core.observed import Decision
from memtape.core.values import MONEY, read

MAX_R = 1_000_000
_LETTERS = re.compile(r"[^a-z]+")
_PENDING = frozenset({"pending", "open", "unresolved", "active", "running", "waiting", "tbd", "unknown"})
_CAUSES: Mapping[str, str] = {
    **dict.fromkeys(("target", "tp", "takeprofit", "targethit", "hittarget", "tphit"), "target"),
    **dict.fromkeys(("stop", "sl", "stoploss", "stopped", "stoppedout", "stophit", "hitstop", "slhit"), "stop"),
    **dict.fromkeys(("win", "won", "winner", "profit", "correct", "right", "true", "yes", "hit", "success"), "won"),
    **dict.fromkeys(("loss", "lost", "loser", "lose", "incorrect", "wrong", "false", "no", "miss", "missed", "failure", "fail",
                     "failed"), "lost"),
    **dict.fromkeys(("flat", "be", "breakeven", "scratch", "draw", "even"), "flat"),
    **dict.fromkeys(("expired", "expiry", "timeout", "timedout", "timestop"), "expiry"),
    **dict.fromkeys(("unfilled", "notfilled", "nofill", "nevertriggered", "nottriggered", "cancelled", "canceled"), "unfilled"),
}  # fmt: skip
_EXPIRED_CAUSES = ("expiry", "unfilled")


@dataclass(frozen=True, slots=True)
class ResultColumns:
    """The columns of a file that say what became of its decisions."""

    words: Sequence[str]
    in_r: Sequence[Decimal | BadCell | None]
    prices: Sequence[Decimal | BadCell | None]
    times: Sequence[datetime | BadCell | None]
    codes: Mapping[str, str]  # the meaning of the numbers in the column of words

    @classmethod
    def of(cls, table: MappedTable) -> ResultColumns:
        """The columns of a table."""
        words = table.cells("outcome")
        numbers = {word.removesuffix(".0") for word in words if word and not any(c.isalpha() for c in word)}
        codes: Mapping[str, str] = {}
        if numbers <= {"0", "1"}:
            codes = {"1": "won", "0": "lost"}
        elif numbers <= {"-1", "0", "1"}:
            codes = {"1": "won", "0": "flat", "-1": "lost"}
        return cls(words, table.numbers("outcome_r"), table.numbers("outcome_price"), table.moments("outcome_at"), codes)

    def outcome(self, row: int, decision: Decision) -> StatedOutcome | None:
        """Returns the outcome that a row states; None if it states none, or that it is still pending."""
        word = self.words[row].strip()
        letters = _LETTERS.sub("", word.lower())
        if letters in _PENDING:
            return None
        cause = self.codes.get(word.removesuffix(".0")) or _CAUSES.get(letters)
        said = word.lower() not in EMPTY_WORDS
        in_r, price = _number(self.in_r[row]), _number(self.prices[row])
        at = self.times[row]
        if not said and in_r is None and price is None:
            return None
        if in_r is None and price is not None:
            in_r = planned_r(decision, price)
        if cause == "unfilled":
            in_r = None
        data = {
            "decision": decision.id, "status": "expired" if cause in _EXPIRED_CAUSES else "resolved", "cause": cause,
            "r": in_r if in_r is not None and abs(in_r) <= MAX_R else None, "exit_price": price,
            "exit_at": at if isinstance(at, datetime) else None,
            # The file's own word, so that nothing that it says is lost.
            "note": f"stated by the file: {word[:200]}" if said else None,
        }  # fmt: skip
        stated: StatedOutcome = read(StatedOutcome, {name: value for name, value in data.items() if value is not None})
        return stated


def _number(cell: Decimal | BadCell | None) -> Decimal | None:
    return cell if isinstance(cell, Decimal) else None


def planned_r(decision: Decision, exit_price: Decimal) -> Decimal | None:
    """Returns the result of a plan in units of its risk, if it states side, entry and stop."""
    if decision.side is None or decision.entry_price is None or decision.stop is None:
        return None
    with localcontext(MONEY):
        side = 1 if decision.side == "long" else -1
        return round(side * (exit_price - decision.entry_price) / abs(decision.entry_price - decision.stop), 6)
