"""The cells that trades are sorted into by what was known at their entry, each in the slot of the lesson it may become.

A cell is compared with the trades whose condition is known to be another; a trade without a regime is neither in a range nor
outside one. Which cells are looked at depends on the conditions alone, never on an outcome: every cell with ten trades entered at
five moments or more, and as many outside it; of many trades an eighth, up to 30: what is smaller would have to differ by more
than 1R to be told from chance, and every cell looked at makes the others harder to believe. What says the same is looked at
once: of two halves the smaller, of two cells of a slot that share three in four of their trades the plainer one.

>>> label_phrase("asia"), label_phrase("trending_up"), hour_block(13)
('the Asian session', 'trending up', '12-16 UTC')
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from memtape.core.brief.sanitize import quote_text, safe_name
from memtape.core.lessons.reflection import Slot
from memtape.core.lessons.shuffle import Tail
from memtape.core.memory.episodes import Episode

MIN_GROUP_TRADES, MIN_HOUR_GROUP_TRADES = 10, 30  # trades, inside and outside: an eighth of all, within these bounds
MIN_ENTRY_MOMENTS = 5  # at which they were entered
ALIKE_SHARE = 0.75  # of the trades of both: they say the same
WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
SESSIONS: Final = {
    "asia": "the Asian session", "london": "London", "overlap": "the London-New York overlap", "newyork": "New York",
}  # fmt: skip


class TradeGroup(NamedTuple):
    """Some of the trades, by their places among those looked at, and those that they are compared with."""

    slot: Slot
    field: str
    value: str
    label: str
    inside: tuple[int, ...]
    known: tuple[int, ...]  # inside and outside
    regime: str | None = None
    kind: str = "cell"
    tail: Tail = "both"  # which way it may differ to mean something


class GroupCondition(NamedTuple):
    """One thing known at entry: which values a trade has of it (none: not known), and how a value is said of some trades."""

    slot: Slot
    field: str
    values: Callable[[Episode], tuple[str, ...]]
    label: Callable[[str], str]  # with {} for the trades: "trades", "longs"


def label_phrase(label: str) -> str:
    """A label of the market as one says it: sessions by name, others as plain words, foreign ones in quotes."""
    return SESSIONS.get(label) or _bare(safe_name(label)).replace("_", " ")


def hour_block(hour: int) -> str:
    """The four hours that an hour lies in."""
    start = hour - hour % 4
    return f"{start:02d}-{start + 4:02d} UTC"


def _bare(words: str) -> str:
    """Foreign words without braces, which stand for the trades in a label."""
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
    """Every cell of what was known at entry that holds enough trades, inside and outside."""
    single = [cell for condition in SINGLE for cell in _by(condition, trades)]
    pairs = [cell for condition in WITH_SIDE for cell in _by_both(condition, trades)]
    return distinct_groups([cell for cell in (*single, *pairs) if has_enough_trades(cell, trades)])


def has_enough_trades(cell: TradeGroup, trades: Sequence[Episode]) -> bool:
    """Returns True if a cell holds enough trades, entered at enough moments, inside and outside."""
    outside, least = set(cell.known).difference(cell.inside), min(MIN_HOUR_GROUP_TRADES, max(MIN_GROUP_TRADES, len(trades) // 8))
    return all(
        len(group) >= least and len({trades[i].entry_at for i in group}) >= MIN_ENTRY_MOMENTS for group in (cell.inside, outside)
    )


def distinct_groups(cells: Sequence[TradeGroup]) -> list[TradeGroup]:
    """The cells without those that hold much the same trades as an earlier one of their slot, or just the others."""
    left: list[tuple[TradeGroup, frozenset[int]]] = []
    for cell in cells:
        inside = frozenset(cell.inside)
        outside = frozenset(cell.known) - inside
        if not any(other.slot == cell.slot and (_alike(inside, group) or outside == group) for other, group in left):
            left.append((cell, inside))
    return [cell for cell, _ in left]


def _alike(one: frozenset[int], other: frozenset[int]) -> bool:
    return len(one & other) >= ALIKE_SHARE * len(one | other)


def _by(condition: GroupCondition, trades: Sequence[Episode]) -> list[TradeGroup]:
    """The cells of one condition, the smallest first."""
    lots: dict[str, list[int]] = defaultdict(list)
    known: list[int] = []
    for at, trade in enumerate(trades):
        values = dict.fromkeys(condition.values(trade))
        if values or condition is TAG:  # a trade without a tag is known not to have it
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
    """The cells of one condition and a side."""
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
