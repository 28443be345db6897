"""Counts trades by cell: the counts are all that beliefs are formed from (`belief_formation`).

A cell is a strategy on a symbol in one or two conditions of (regime, volatility, session, side). A trade counts in each of its
cells if its outcome is known: in R by any source, or in money. It wins if the outcome is positive. Mean outcomes are in the one
unit of the answer (`outcome_units`), and only trades that have an outcome in that unit enter them.

One signal counts once: trades of one strategy on the same symbol and side that were entered in the same second are one
observation with their mean outcome; the last of them to close stands for it.

There are no running sums. Counts are a function of the episodes known at a moment, so the order of arrival never matters, and
a corrected or forgotten trade disappears from every belief at once.

>>> cell = CellKey("VB", "XAUUSD", (("session", "london"),))
>>> cell.known.conditions, cell.with_(("side", "long")).parents() == [cell, CellKey("VB", "XAUUSD", (("side", "long"),))]
((('session', '*'),), True)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import combinations, pairwise
from typing import NamedTuple

from memtape.core.memory.beliefs import TESTABLE, Belief, Proposition, StatedBelief, belief_concerns, confirms, entry_facts
from memtape.core.memory.episodes import Episode
from memtape.core.memory.outcome_units import NO_UNIT, OutcomeUnit, choose_unit, signal_of
from memtape.core.memory.predicate import holds, read_predicate
from memtape.core.observed import ANY

CONDITIONS = ("regime", "volatility_regime", "session", "side")
GROUPINGS: tuple[tuple[str, ...], ...] = (*((field,) for field in CONDITIONS), *combinations(CONDITIONS, 2))
MIN_COMPARED_TRADES = 10  # trades, inside and outside
BLOCKS = 20  # blocks of consecutive trades into which those of a strategy and symbol are cut
MIN_BLOCKS = 6  # where a label hardly ever changes
Conditions = tuple[tuple[str, str], ...]
WINS = Proposition({})  # a trade ends with a positive outcome


class CellEvidence(NamedTuple):
    """A trade that tested a belief. They compare by time, then by id."""

    exit_at: datetime
    id: str


class BlockSums(NamedTuple):
    """Sums over blocks of consecutive trades: with n trades and w wins in a block, the sums of n * n, n * w and w * w."""

    blocks: int = 0  # blocks with a trade
    nn: int = 0
    nw: int = 0
    ww: int = 0


class Tally(NamedTuple):
    """Counts of some trades. `wins` are those that confirm: a positive outcome, unless a stated belief says otherwise."""

    n: int = 0
    wins: int = 0
    n_r: int = 0  # trades with an outcome in the unit of the answer
    sum_r: float = 0.0
    sum_r2: float = 0.0
    tier: int = 0  # the least trusted tier among their sources
    first_at: datetime | None = None
    tenth_at: datetime | None = None
    last_confirmed: CellEvidence | None = None
    last_contradicted: CellEvidence | None = None
    inside_blocks: BlockSums = BlockSums()
    outside_blocks: BlockSums = BlockSums()  # of the trades outside, whose fields are known


class CellKey(NamedTuple):
    """Selects trades. Without conditions: all of a strategy on a symbol; a condition `*`: all whose field is known."""

    strategy: str
    symbol: str
    conditions: Conditions = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.conditions)

    @property
    def known(self) -> CellKey:
        """Returns the cell of all trades whose fields are known: those inside and those outside this cell."""
        return CellKey(self.strategy, self.symbol, tuple((name, ANY) for name in self.names))

    def parents(self) -> list[CellKey]:
        """Returns the single cells that a pair is part of."""
        return [self._replace(conditions=(one,)) for one in self.conditions] if len(self.conditions) == 2 else []

    def with_(self, condition: tuple[str, str]) -> CellKey:
        """Returns a single cell narrowed by a condition on another field."""
        return self._replace(conditions=tuple(sorted((*self.conditions, condition), key=lambda one: CONDITIONS.index(one[0]))))


class CellCounts(NamedTuple):
    """The tallies of cells, the unit of their mean outcomes, and the counts by all conditions at once."""

    cells: dict[CellKey, Tally]
    joint: dict[tuple[str, str], dict[Conditions, tuple[int, int]]]  # strategy and symbol -> known conditions -> trades, wins
    unit: OutcomeUnit


NO_COUNTS = CellCounts({}, {}, NO_UNIT)


class SignalOutcome(NamedTuple):
    """The trades of one signal as one observation."""

    evidence: CellEvidence  # the last of its trades to close
    r: float | None  # the mean outcome in the unit of the answer
    confirmed: bool
    tier: int
    trade: Episode  # the last one; its labels are those of the signal
    place: int = 0  # among the signals that are cut into blocks together
    of: int = 1  # how many these are


def count_cells(episodes: Iterable[Episode], claims_count: bool) -> CellCounts:
    """Returns the tallies of every cell, from episodes known at a moment; a signal counts once."""
    counted = counted_trades(episodes, claims_count)
    unit = choose_unit(counted, claims_count)
    segments: defaultdict[tuple[str, str], list[Episode]] = defaultdict(list)
    for episode in counted:
        segments[episode.strategy, episode.symbol].append(episode)
    blocks: dict[CellKey, int] = {}
    inside: defaultdict[CellKey, list[SignalOutcome]] = defaultdict(list)
    joint: dict[tuple[str, str], dict[Conditions, tuple[int, int]]] = {}
    for segment, trades in segments.items():
        found = joint[segment] = {}
        signals = in_places(signal_outcomes(trades, unit))
        fields = {name: blocks_of_labels(getattr(signal.trade, name) for signal in signals) for name in CONDITIONS}
        for names in ((), *GROUPINGS):
            known = CellKey(*segment, tuple((name, ANY) for name in names))
            blocks[known] = min((fields[name] for name in names), default=BLOCKS)
        for signal in signals:
            for key in cells_of(signal.trade):
                inside[key].append(signal)
            labels = known_labels(signal.trade)
            n, wins = found.get(labels, (0, 0))
            found[labels] = n + 1, wins + signal.confirmed
    around = {key: block_counts(members, blocks[key]) for key, members in inside.items() if key == key.known}
    cells = {key: tally_signals(members, around[key.known], blocks[key.known]) for key, members in inside.items()}
    return CellCounts(cells, joint, unit)


def counted_trades(episodes: Iterable[Episode], claims_count: bool) -> list[Episode]:
    """Returns the trades with a known outcome that may teach, each once, in the order in which they closed."""
    return [e for e in teaching_trades(episodes, claims_count) if e.pnl_r is not None or e.pnl_usd is not None]


def teaching_trades(episodes: Iterable[Episode], claims_count: bool) -> list[Episode]:
    """Returns the trades that may teach, each once, in the order in which they closed."""
    latest = {e.id: e for e in sorted(episodes, key=lambda e: (e.exit_at, e.id))}.values()
    return [e for e in latest if e.teaches and (claims_count or not e.claimed)]


def signal_outcomes(trades: Iterable[Episode], unit: OutcomeUnit, proposition: Proposition = WINS) -> list[SignalOutcome]:
    """Returns the signals of trades in the order in which their last trades closed, and which confirm a proposition.

    Whether a trade won is known by the sign of any outcome; a comparison with another number needs an outcome in the unit.
    """
    by_sign = proposition.metric == "pnl_r" and proposition.value == 0.0
    grouped: defaultdict[object, list[Episode]] = defaultdict(list)
    for trade in trades:
        if by_sign or _measured(proposition, trade, unit) is not None:
            grouped[signal_of(trade)].append(trade)
    found = []
    for group in grouped.values():
        last, r = group[-1], mean_known([unit.outcome(trade) for trade in group])
        ways = [[_measured(proposition, trade, unit) for trade in group]]
        ways += [[trade.pnl_r for trade in group], [trade.pnl_usd for trade in group]] if by_sign else []
        value = next((value for way in ways if (value := mean_known(way)) is not None), 0.0)
        confirmed, tier = confirms(proposition, value), max(trade.tier for trade in group)
        found.append(SignalOutcome(CellEvidence(last.exit_at, last.id), r, confirmed, tier, last))
    return sorted(found, key=lambda one: one.evidence)


def _measured(proposition: Proposition, trade: Episode, unit: OutcomeUnit) -> float | None:
    """Returns what a proposition speaks of: the outcome in the unit of the answer, or another figure of the trade."""
    if proposition.metric == "pnl_r":
        return unit.outcome(trade)
    measured: float | None = getattr(trade, proposition.metric)
    return measured


def mean_known(values: Iterable[float | None]) -> float | None:
    """Returns the mean of the known values, added one after another; None if there are none.

    >>> mean_known([1.0, None, 2.0]), mean_known([None])
    (1.5, None)
    """
    known = [value for value in values if value is not None]
    total = 0.0
    for value in known:
        total += value
    return total / len(known) if known else None


def in_places(ordered: Sequence[SignalOutcome]) -> list[SignalOutcome]:
    """Returns the signals with their places, by which they fall into blocks of as many consecutive ones as can be."""
    return [signal._replace(place=place, of=len(ordered)) for place, signal in enumerate(ordered)]


def blocks_of_labels(labels: Iterable[object]) -> int:
    """Returns into how many blocks the trades with these labels are cut, in the order in which they closed.

    Where a label lasts for long, luck may last as long, and short blocks would not show it: so there are at most five blocks for
    four runs of the label.

    >>> blocks_of_labels(["asia", "london"] * 50), blocks_of_labels(["ranging"] * 40 + [None] + ["volatile"] * 40)
    (20, 6)
    >>> blocks_of_labels((["ranging"] * 8 + ["volatile"] * 8) * 5)
    13
    """
    known = [label for label in labels if label is not None and label != ANY]
    return blocks_of_runs(1 + sum(before != label for before, label in pairwise(known)))


def blocks_of_runs(runs: int) -> int:
    """Returns into how many blocks trades are cut if their labels form so many runs."""
    return min(BLOCKS, max(MIN_BLOCKS, (5 * runs + 3) // 4))


def known_labels(episode: Episode) -> Conditions:
    """Returns the known conditions of a trade."""
    labels = ((name, getattr(episode, name)) for name in CONDITIONS)
    return tuple((name, label) for name, label in labels if label is not None and label != ANY)


def cells_of(episode: Episode) -> list[CellKey]:
    """Returns the cells of a trade. With an unknown field it is neither inside nor outside the cells of that field.

    >>> CellKey("VB", "XAUUSD").with_(("side", "long")).known.conditions
    (('side', '*'),)
    """
    labels = dict(known_labels(episode))
    keys = [CellKey(episode.strategy, episode.symbol)]
    for names in GROUPINGS:
        if all(name in labels for name in names):
            cell = CellKey(episode.strategy, episode.symbol, tuple((name, labels[name]) for name in names))
            keys += (cell, cell.known)
    return keys


def tally_signals(inside: Sequence[SignalOutcome], around: Mapping[int, tuple[int, int]], blocks: int) -> Tally:
    """Returns the tally of signals, in the order in which they closed. `around`: counts by block, inside and outside together."""
    if not inside:
        return Tally(outside_blocks=block_sums(around.values()))
    n_r, sum_r, sum_r2 = 0, 0.0, 0.0
    last: dict[bool, CellEvidence] = {}
    for evidence, r, confirmed, *_ in inside:
        if r is not None:
            n_r, sum_r, sum_r2 = n_r + 1, sum_r + r, sum_r2 + r * r
        last[confirmed] = evidence
    tenth = inside[MIN_COMPARED_TRADES - 1].evidence.exit_at if len(inside) >= MIN_COMPARED_TRADES else None
    own = block_counts(inside, blocks)
    return Tally(
        len(inside), sum(signal.confirmed for signal in inside), n_r, sum_r, sum_r2, max(signal.tier for signal in inside),
        inside[0].evidence.exit_at, tenth, last.get(True), last.get(False), block_sums(own.values()),
        block_sums((n - own.get(block, (0, 0))[0], w - own.get(block, (0, 0))[1]) for block, (n, w) in around.items()),
    )  # fmt: skip


def block_counts(signals: Iterable[SignalOutcome], blocks: int) -> dict[int, tuple[int, int]]:
    """Returns the number of signals, and of those that confirm, by block."""
    counts: dict[int, tuple[int, int]] = {}
    for signal in signals:
        block = signal.place * blocks // signal.of
        n, w = counts.get(block, (0, 0))
        counts[block] = n + 1, w + signal.confirmed
    return counts


def block_sums(counts: Iterable[tuple[int, int]]) -> BlockSums:
    """Returns the sums over blocks, from the signals and confirming signals of each."""
    some = [(n, w) for n, w in counts if n]
    return BlockSums(len(some), sum(n * n for n, _ in some), sum(n * w for n, w in some), sum(w * w for _, w in some))


# --- what an owner states ------------------------------------------------------------------------------------------------


class StatedTally(NamedTuple):
    """A stated belief with the counts inside and outside its conditions, and the unit of outcomes in R."""

    stated: StatedBelief
    inside: Tally
    outside: Tally
    unit: OutcomeUnit = NO_UNIT


def count_stated(stated: Iterable[StatedBelief], episodes: Iterable[Episode], claims_count: bool) -> list[StatedTally]:
    """Returns the counts of each stated belief."""
    trades = teaching_trades(episodes, claims_count)
    unit = choose_unit([e for e in trades if e.pnl_r is not None or e.pnl_usd is not None], claims_count)
    counted = []
    for one in stated:
        predicate = one.predicate
        told = (e for e in trades if one.tests(e.exit_at))
        found = concerned_signals(one.proposition, one.strategy, one.symbol, told, unit)
        tested = [(holds(predicate, entry_facts(signal.trade)), signal) for signal in found]
        placed = in_places([signal for inside, signal in tested if inside is not None])
        sides = [inside for inside, _ in tested if inside is not None]
        halves = [[s for s, side in zip(placed, sides, strict=True) if side is wanted] for wanted in (True, False)]
        blocks = blocks_of_labels(sides)
        around = block_counts(placed, blocks)
        counted.append(StatedTally(one, *(tally_signals(half, around, blocks) for half in halves), unit))
    return counted


def concerned_signals(
    proposition: Proposition, strategy: str | None, symbol: str | None, trades: Iterable[Episode], unit: OutcomeUnit
) -> list[SignalOutcome]:
    """Returns the signals of the trades with the strategy and symbol of a belief; None matches any."""
    concerned = [e for e in trades if belief_concerns(strategy, symbol, e)]
    if proposition.metric == "pnl_r":
        concerned = [e for e in concerned if e.pnl_r is not None or e.pnl_usd is not None]
    return signal_outcomes(concerned, unit, proposition)


def trades_for_and_against(belief: Belief, episodes: Iterable[Episode], claims_count: bool) -> tuple[list[str], list[str]]:
    """Returns the trades for a belief and those against it, by id, in the order in which they closed.

    Of several trades of one signal it is the last to close.
    """
    predicate, found = read_predicate(belief.proposition.when, TESTABLE), {True: list[str](), False: list[str]()}
    trades = teaching_trades(episodes, claims_count)
    for signal in concerned_signals(belief.proposition, belief.strategy, belief.symbol, trades, belief.unit):
        if holds(predicate, entry_facts(signal.trade)):
            found[signal.confirmed].append(signal.evidence.id)
    return found[True], found[False]
