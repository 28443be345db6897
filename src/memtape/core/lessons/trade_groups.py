"""The groups of trades by what was known at their entry, each in the slot of the lesson it may become.

A group is compared with the trades whose condition is known to differ; a trade without a regime is neither in a range nor
outside one. The choice of groups depends on the conditions alone, never on an outcome: every group with at least ten trades
entered at five moments or more, and as many outside it. With many trades the minimum is an eighth of them, up to 30: a smaller
group would have to differ by more than 1R to be distinguishable from chance, and every tested group raises the bar for the
others. Groups that say the same are tested once: of two complements the smaller, of two groups of a slot that share three in
four of their trades the simpler one.

>>> label_phrase("asia"), label_phrase("trending_up"), hour_block(13)
('the Asian session', 'trending up', '12-16 UTC')
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import Final, NamedTuple

from memtape.core.brief.sanitize import quote_text, safe_name
from memtape.core.lessons.label_shifts import Tail
from memtape.core.lessons.reflection import Slot
from memtape.core.memory.episodes import Episode

MIN_GROUP_TRADES, MIN_HOUR_GROUP_TRADES = 10, 30  # trades, inside and outside: an eighth of all, within these bounds
MIN_ENTRY_MOMENTS = 5  # distinct entry times
ONE_VALUE_SHARE = 0.9  # share of days with one value of a label, from which it is constant within a day
ALIKE_SHARE = 0.75  # share of common trades, from which two groups say the same
WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
SESSIONS: Final = {
    "asia": "the Asian session", "london": "London", "overlap": "the London-New York overlap", "newyork": "New York",
}  # fmt: skip


class TradeGroup(NamedTuple):
    """A group of trades, by their indices, and the trades that it is compared with."""

    slot: Slot
    field: str
    value: str
    label: str
    inside: tuple[int, ...]
    known: tuple[int, ...]  # inside and outside
    regime: str | None = None
    kind: str = "cell"
    tail: Tail = "both"  # the direction of a difference that counts


class GroupCondition(NamedTuple):
    """One condition known at entry: its values for a trade (none: unknown), and the label of a value."""

    slot: Slot
    field: str
    values: Callable[[Episode], tuple[str, ...]]
    label: Callable[[str], str]  # {} stands for the trades: "trades", "longs"


def label_phrase(label: str) -> str:
    """Returns a market label as a phrase: sessions by name, plain words as they are, other text in quotes."""
    return SESSIONS.get(label) or _bare(safe_name(label)).replace("_", " ")


def hour_block(hour: int) -> str:
    """Returns the block of four hours that contains an hour."""
    start = hour - hour % 4
    return f"{start:02d}-{start + 4:02d} UTC"


def _bare(words: str) -> str:
    """Returns text without braces, which mark the place of the trades in a label."""
    return words.replace("{", "(").replace("}", ")")


def _one(value: str | None) -> tuple[str, ...]:
    return () if value is None else (value,)


SIDE = GroupCondition("symbol_selection", "side", lambda e: (e.side,), lambda v: f"{v}s")
SYMBOL = GroupCondition("symbol_selection", "symbol", lambda e: (e.symbol,), lambda v: f"{_bare(safe_name(v))} {{}}")
REGIME = GroupCondition("regime_fit", "regime", lambda e: _one(e.regime), lambda v: f"{{}} in a {label_phrase(v)} market")
VOLATILITY = GroupCondition(
    "regime_fit", "volatility", lambda e: _one(e.volatility_regime), lambda v: f"{{}} in {label_phrase(v)} volatility"
)
SESSION = GroupCondition("entry_timing", "session", lambda e: _one(e.session), lambda v: f"{{}} in {label_phrase(v)}")
HOUR = GroupCondition("entry_timing", "hour", lambda e: (hour_block(e.entry_at.hour),), lambda v: f"{{}} entered {v}")
WEEKDAY = GroupCondition(
    "entry_timing", "weekday", lambda e: (WEEKDAYS[e.entry_at.weekday()],), lambda v: f"{{}} entered on a {v}"
)
TAG = GroupCondition("entry_timing", "tag", lambda e: e.tags, lambda v: f"{{}} tagged {_bare(quote_text(v, 40))}")
SINGLE = (SYMBOL, SIDE, REGIME, VOLATILITY, SESSION, HOUR, WEEKDAY, TAG)
WITH_SIDE = (SYMBOL, REGIME)


def entry_groups(trades: Sequence[Episode]) -> list[TradeGroup]:
    """Returns every group by entry condition that has enough trades inside and outside."""
    single = [cell for condition in SINGLE for cell in _by(condition, trades)]
    pairs = [cell for condition in WITH_SIDE for cell in _by_both(condition, trades)]
    return distinct_groups([cell for cell in (*single, *pairs) if has_enough_trades(cell, trades)])


def has_enough_trades(cell: TradeGroup, trades: Sequence[Episode]) -> bool:
    """Returns True if a group has enough trades, entered at enough moments, inside and outside."""
    outside, least = set(cell.known).difference(cell.inside), min(MIN_HOUR_GROUP_TRADES, max(MIN_GROUP_TRADES, len(trades) // 8))
    return all(
        len(group) >= least and len({trades[i].entry_at for i in group}) >= MIN_ENTRY_MOMENTS for group in (cell.inside, outside)
    )


def distinct_groups(cells: Sequence[TradeGroup]) -> list[TradeGroup]:
    """Returns the groups without those that have much the same trades as an earlier one of their slot, or its complement."""
    left: list[tuple[TradeGroup, frozenset[int]]] = []
    for cell in cells:
        inside = frozenset(cell.inside)
        outside = frozenset(cell.known) - inside
        if not any(other.slot == cell.slot and (_alike(inside, group) or outside == group) for other, group in left):
            left.append((cell, inside))
    return [cell for cell, _ in left]


def constant_within_days(field: str, cells: Sequence[TradeGroup], days: Sequence[Hashable]) -> bool:
    """Returns True if on nearly every trading day all trades are on one side of each group of a label."""
    days_known: set[Hashable] = set()
    days_split: set[Hashable] = set()
    for cell in cells:
        if cell.field == field:
            inside = {days[i] for i in cell.inside}
            outside = {days[i] for i in set(cell.known).difference(cell.inside)}
            days_known |= inside | outside
            days_split |= inside & outside
    return len(days_split) <= (1.0 - ONE_VALUE_SHARE) * len(days_known)


def _alike(one: frozenset[int], other: frozenset[int]) -> bool:
    return len(one & other) >= ALIKE_SHARE * len(one | other)


def _by(condition: GroupCondition, trades: Sequence[Episode]) -> list[TradeGroup]:
    """Returns the groups of one condition, the smallest first."""
    lots: dict[str, list[int]] = defaultdict(list)
    known: list[int] = []
    for at, trade in enumerate(trades):
        values = dict.fromkeys(condition.values(trade))
        # A trade without tags is known not to have any given tag.
        if values or condition is TAG:
            known.append(at)
        for value in values:
            lots[value].append(at)
    return [
        TradeGroup(
            condition.slot,
            condition.field,
            value,
            condition.label(value).format("trades"),
            tuple(lots[value]),
            tuple(known),
            value if condition is REGIME else None,
        )
        for value in sorted(lots, key=lambda value: (len(lots[value]), value))
    ]


def _by_both(condition: GroupCondition, trades: Sequence[Episode]) -> list[TradeGroup]:
    """Returns the groups of one condition and a side."""
    return [
        TradeGroup(
            cell.slot,
            f"{cell.field} and side",
            f"{cell.value} {side}",
            condition.label(cell.value).format(f"{side}s"),
            inside,
            cell.known,
            cell.regime,
        )
        for cell in _by(condition, trades)
        for side in ("long", "short")
        if (inside := tuple(i for i in cell.inside if trades[i].side == side))
    ]
