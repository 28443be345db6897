"""What a file holds: closed trades, fills, decisions, equity marks or positions.

Its columns say so; where they leave it open, the caller is asked. A kind fits if the file has the fields that a row of it needs.
Several kinds may fit: a log of orders with reasons could be a log of fills or of decisions. Then a column that only one kind has
decides; if each kind has one, nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from memtape.brokers.formats import FILE_KINDS
from memtape.brokers.headings import FIELDS_BY_KIND
from memtape.core.decisions.outcomes import NOT_TAKEN
from memtape.errors import Invalid

# Other words for a kind, as people say it.
_KIND_WORDS: Mapping[str, tuple[str, ...]] = {
    # A file that a person calls trades may list closed trades or executions.
    "trades": ("trades", "fills"),
    "predictions": ("decisions",),
}
# Columns that show that rows are decisions: nobody writes them beside a mark of an account.
_DECISION_EVIDENCE = ("reason", "confidence", "probability", "horizon", "expires_at", "outcome", "outcome_r", "invalidation")
_POSITION_EVIDENCE = ("cost", "unrealized", "value", "equity", "cash")
DECISION_NAMES = frozenset({"decision", "signal", "prediction", "recommendation", "forecast", "predicteddirection", "verdict"})


class KnownFields(Protocol):
    """The fields that a file has if it is read as one kind."""

    def __contains__(self, name: str) -> bool: ...


def kinds_of(word: str) -> tuple[str, ...]:
    """Returns the kinds that a caller means. Raises Invalid for an unknown word, with the choices.

    >>> kinds_of("trades"), kinds_of("predictions"), kinds_of("equity")
    (('trades', 'fills'), ('decisions',), ('equity',))
    """
    if word in _KIND_WORDS:
        return _KIND_WORDS[word]
    if word not in FIELDS_BY_KIND:
        raise Invalid("kind", f"'{word[:40]}' is no kind of file", f"Use one of {', '.join(FILE_KINDS)}")
    return (word,)


def missing_fields(kind: str, fields: KnownFields) -> list[str]:
    """Returns the fields that rows of a kind need and a file lacks."""
    lacking = [] if kind == "equity" else [name for name in ("symbol",) if name not in fields]
    if kind == "trades":
        lacking += [name for name in ("entry_at", "exit_at", "entry_price", "exit_price") if name not in fields]
        if "pnl_r" not in fields and not _states_money(fields):
            lacking.append("qty or pnl")
        if not any(name in fields for name in ("side", "is_short", "pnl_r")) and not _states_money(fields):
            lacking.append("side")
        return lacking
    if "time" not in fields:
        lacking.append("time")
    if kind == "fills":
        if all(name in fields for name in ("buy_qty", "buy_price", "sell_qty", "sell_price")):
            return lacking
        needed = ("price",) if "value" in fields else ("price", "qty")
        return lacking + [name for name in needed if name not in fields]
    if kind == "decisions":
        return lacking + ([] if "action" in fields or "side" in fields or "target" in fields else ["action or side"])
    if kind == "equity":
        flows = any(name in fields for name in ("flow", "deposit", "withdrawal"))
        return lacking + ([] if "equity" in fields or flows else ["equity"])
    if "qty" not in fields:
        lacking.append("qty")
    return lacking


def _states_money(fields: KnownFields) -> bool:
    """Returns True if the money that a trade made or lost is stated, or follows from its prices."""
    return any(name in fields for name in ("qty", "value", "pnl", "net_pnl"))


def choose_kind(
    fitting: Mapping[str, KnownFields], *, decision_names: bool, refusals_with_reason: bool, has_symbols: bool,
    buys_and_sells: bool,
) -> str | None:  # fmt: skip
    """Returns the kind of a file among those whose fields it has; None if no column shows it. Raises Invalid if several do.

    `decision_names`: a column is named like a decision. `refusals_with_reason`: rows that decide against a trade give a reason.
    `has_symbols`: a column names instruments. `buys_and_sells`: a column of sides says buy or sell, not only long or short.
    """
    # A list of ideas may state their outcome in R too: what may be a decision is one, unless money shows that it was traded.
    if "trades" in fitting and (_states_money(fitting["trades"]) or "decisions" not in fitting):
        return "trades"
    decisions, positions, fills = (fitting.get(kind) for kind in ("decisions", "positions", "fills"))
    decides = decisions is not None and (decision_names or any(name in decisions for name in _DECISION_EVIDENCE))
    holds = positions is not None and (
        any(name in positions for name in _POSITION_EVIDENCE) or ("entry_price" in positions and "mark" in positions)
    )
    if fills is not None:
        # An execution has a price and a quantity; a reason beside them is that of the execution.
        if decides and (decision_names or refusals_with_reason):
            return _ask(["fills", "decisions"])
        if holds and not buys_and_sells:
            return "positions" if not decides else _ask(["fills", "decisions", "positions"])
        return "fills"
    if decides and holds:
        return _ask(["decisions", "positions"])
    if holds:
        return "positions"
    # A plan without a quantity or a price that was paid is no execution.
    if decides or (decisions is not None and "stop" in decisions and "target" in decisions):
        return "decisions"
    return "equity" if "equity" in fitting and not has_symbols else None


def _ask(kinds: Sequence[str]) -> str:
    named = " or as ".join(kinds)
    choices = " or ".join(f"--kind {kind}" for kind in kinds)
    raise Invalid("kind", f"the file can be read as {named}", f"Say what it holds: {choices}")


def refuses(cell: str) -> bool:
    """Returns True if a cell states a decision not to trade.

    >>> refuses("Hold"), refuses("no trade"), refuses("buy")
    (True, True, False)
    """
    return cell.strip().lower().replace(" ", "_") in NOT_TAKEN
