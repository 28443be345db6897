"""What a preview shows of a file of decisions, equity marks or positions, and what in it cannot be right."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal, localcontext
from itertools import pairwise
from typing import Any

from memtape.brokers.importer import FoundRow
from memtape.brokers.totals import MAX_QTY
from memtape.core.codec import decimal_text, time_text
from memtape.core.decisions.outcomes import outcome_card
from memtape.core.observed import CashFlow, Decision, EquityMark, Tick
from memtape.core.values import MONEY, ZERO

MAX_PRICE_RATIO = 10  # a stop, target or entry that is more than so many times the price, or less than that part of it, is absurd
MAX_EQUITY_RATIO = 100  # from one mark to the next, flows aside
MAX_LEVERAGE = 1000  # what is held, in units of the equity


def record_totals(kind: str, found: Sequence[FoundRow]) -> dict[str, Any]:
    """Returns the sums of a file of decisions, equity marks or positions as JSON."""
    if kind == "decisions":
        return _decision_totals(found)
    return _equity_totals(found) | (_position_totals(found) if kind == "positions" else {})


def absurd_records(found: Sequence[FoundRow]) -> list[str]:
    """Returns what cannot be true of decisions, marks and positions: usually a column is something else than it was taken for."""
    with localcontext(MONEY):
        several = (*_absurd_decisions(found), *_absurd_equity(found), *_absurd_positions(found))
    # One example of each kind says enough.
    return list(dict(reversed(several)).values())[::-1]


def record_counts(found: Sequence[FoundRow]) -> dict[str, int]:
    """Returns how many values of each kind a file has; marks and flows inside a snapshot count too."""
    counts: Counter[str] = Counter()
    for each in found:
        value = each.value
        counts[_KIND_WORDS.get(value.kind, value.kind)] += 1
        counts["decisions"] += each.decision is not None
        counts["outcomes"] += each.outcome is not None
        if isinstance(value, Tick):
            counts["equity_marks"] += value.equity is not None
            counts["cash_flows"] += len(value.cash_flows)
    return {kind: n for kind, n in sorted(counts.items()) if n}


_KIND_WORDS: Mapping[str, str] = {
    "trade": "trades", "fill": "fills", "claim": "trades", "decision": "decisions", "equity": "equity_marks",
    "flow": "cash_flows", "tick": "snapshots",
}  # fmt: skip


# ---- sums ----------------------------------------------------------------------------------------------------------------


def _decision_totals(found: Sequence[FoundRow]) -> dict[str, Any]:
    decisions = [each.value for each in found if isinstance(each.value, Decision)]
    times = [decision.t for decision in decisions if decision.t is not None]
    return {
        "n": len(decisions), **_span(times),
        "by_symbol": _counted(decision.symbol or "" for decision in decisions),
        "by_action": _counted(decision.action or decision.side or "" for decision in decisions),
        # Side and stop, and for a decision not to trade a target too.
        "followed": sum(outcome_card(decision) is not None for decision in decisions),
        "with_reason": sum(decision.reason is not None for decision in decisions),
        "with_outcome": sum(each.outcome is not None for each in found),
    }  # fmt: skip


def _equity_totals(found: Sequence[FoundRow]) -> dict[str, Any]:
    marks, flows = _marks(found), _flows(found)
    amounts = [equity for _, equity in marks]
    with localcontext(MONEY):
        moved = sum((usd for _, usd in flows), ZERO)
    return {
        "n": len(found), **_span([*(t for t, _ in marks), *(t for t, _ in flows), *_tick_times(found)]),
        "first_equity": _money(amounts[0] if amounts else None), "last_equity": _money(amounts[-1] if amounts else None),
        "lowest_equity": _money(min(amounts, default=None)), "highest_equity": _money(max(amounts, default=None)),
        "flows": _money(moved),
    }  # fmt: skip


def _position_totals(found: Sequence[FoundRow]) -> dict[str, Any]:
    snapshots = sorted((each.value for each in found if isinstance(each.value, Tick)), key=lambda tick: tick.t)
    shown = [tick.positions for tick in snapshots if tick.positions is not None]
    last = shown[-1] if shown else {}
    return {
        "by_symbol": _counted(symbol for positions in shown for symbol in positions),
        "open": {symbol: decimal_text(sum((held.qty for held in several), ZERO)) for symbol, several in sorted(last.items())},
    }


def _marks(found: Sequence[FoundRow]) -> list[tuple[datetime, Decimal]]:
    marks = [
        (each.value.t, each.value.equity) for each in found
        if isinstance(each.value, EquityMark | Tick) and each.value.equity is not None
    ]  # fmt: skip
    return sorted(marks)


def _flows(found: Sequence[FoundRow]) -> list[tuple[datetime, Decimal]]:
    alone = [each.value for each in found if isinstance(each.value, CashFlow)]
    inside = [flow for each in found if isinstance(each.value, Tick) for flow in each.value.cash_flows]
    return sorted((flow.t, flow.usd) for flow in (*alone, *inside))


def _tick_times(found: Sequence[FoundRow]) -> list[datetime]:
    return [each.value.t for each in found if isinstance(each.value, Tick)]


def _span(times: Sequence[datetime]) -> dict[str, str | None]:
    first, last = min(times, default=None), max(times, default=None)
    return {"first": None if first is None else time_text(first), "last": None if last is None else time_text(last)}


def _counted(words: Iterator[str]) -> dict[str, int]:
    return dict(sorted(Counter(words).items()))


def _money(amount: Decimal | None) -> str | None:
    return None if amount is None else decimal_text(amount)


# ---- what cannot be right ------------------------------------------------------------------------------------------------


def _absurd_decisions(found: Sequence[FoundRow]) -> Iterator[tuple[str, str]]:
    for each in found:
        decision = each.value
        if not isinstance(decision, Decision):
            continue
        if decision.qty is not None and decision.qty > MAX_QTY:
            yield "qty", f"line {each.line}: a quantity of {decision.qty:,.0f} is above {MAX_QTY:,}"
        market = decision.situation.price if decision.situation is not None else None
        at = decision.entry_price or (Decimal(str(market)) if isinstance(market, float) else None)
        for name in ("stop", "target"):
            price = getattr(decision, name)
            if price is not None and at and _is_far(price, at):
                yield name, f"line {each.line}: the {name} {decimal_text(price)} is far from the price {decimal_text(at)}"


def _is_far(price: Decimal, at: Decimal) -> bool:
    return price * at > 0 and not 1 <= max(price / at, at / price) <= MAX_PRICE_RATIO


def _absurd_equity(found: Sequence[FoundRow]) -> Iterator[tuple[str, str]]:
    marks, flows = _marks(found), _flows(found)
    times = [t for t, _ in flows]
    for (before, was), (after, is_) in pairwise(marks):
        between = flows[bisect_right(times, before) : bisect_right(times, after)]
        moved = sum((usd for _, usd in between), ZERO)
        low, high = sorted((was, is_ - moved))
        if low > 0 and high > MAX_EQUITY_RATIO * low:
            yield "equity", f"the equity goes from {was:,.2f} to {is_:,.2f} between {time_text(before)} and {time_text(after)}"


def _absurd_positions(found: Sequence[FoundRow]) -> Iterator[tuple[str, str]]:
    for each in found:
        tick = each.value
        if not isinstance(tick, Tick):
            continue
        value = ZERO
        for symbol, several in (tick.positions or {}).items():
            for held in several:
                if abs(held.qty) > MAX_QTY:
                    yield "qty", f"line {each.line}: a quantity of {abs(held.qty):,.0f} {symbol} is above {MAX_QTY:,}"
                price = tick.marks.get(symbol, held.entry_px)
                value += abs(held.qty * price) * (held.rate or 1) if price is not None else ZERO
        if tick.equity is not None and tick.equity > 0 and value > MAX_LEVERAGE * tick.equity:
            yield "value", f"line {each.line}: positions of {value:,.2f} on an equity of {tick.equity:,.2f}"
