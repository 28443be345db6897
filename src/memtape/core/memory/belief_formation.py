"""Forms beliefs from counts: each cell of trades is compared with the trades outside it, and stated beliefs are tested.

From 10 trades on a cell is a belief: a trade in it wins more often or less often than one of the same strategy and symbol whose
conditions are known to be others. It stays a candidate until it has 30 trades and passes the gate (`belief_gate`), which believes
the clearest cell first and leaves its trades out of the base of all others. An owner may state a belief too; it is counted the
same way, and those stated answer to a gate of their own, since they were not found by looking everywhere.

- merged: a pair of conditions that holds nine in ten of a single one's trades says the same; so do two single ones that
  share nine in ten of their trades. The wider one, or the first by name, speaks for both.
- split: a single condition whose trades part, by another field, into some better and some worse than the base rate.
- retired: a belief that was contradicted, long untested, or showed no difference in a hundred trades.

>>> from datetime import UTC
>>> from memtape.core.memory.belief_cells import BlockSums
>>> cell, known = (CellKey("VB", "XAUUSD", (("session", label),)) for label in ("london", ANY))
>>> blocks, others = BlockSums(10, 90, 63, 49), BlockSums(10, 1440, 696, 348)
>>> inside = Tally(30, 21, 30, 12.0, 60.0, inside_blocks=blocks, outside_blocks=others)
>>> counts = CellCounts({cell: inside, known: Tally(150, 79, 150, 20.0, 240.0)}, {}, OutcomeUnit("stop"))
>>> [belief] = beliefs_from_counts(counts, (), datetime(2026, 6, 5, tzinfo=UTC))
>>> print(belief.sentence)
VB on XAUUSD wins more often in London: 21 of 30 (70 %, 90 % interval 55-82 %) against 48 % of the other 120 trades.
>>> belief.status, belief.why
('believed', 'Chance alone gives a difference like this in 5.3 % of histories: rare enough with 1 group tested.')
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import combinations
from typing import Literal, NamedTuple

from memtape.core.codec import make_id
from memtape.core.memory.belief_cells import (
    CONDITIONS,
    MIN_COMPARED_TRADES,
    CellCounts,
    CellKey,
    StatedTally,
    Tally,
)
from memtape.core.memory.belief_gate import CellTest, GroupRate, difference, judge_cells
from memtape.core.memory.belief_text import (
    belief_sentence,
    cell_phrase,
    chance_words,
    needs_trades,
    percent,
    split_sentence,
    stated_sentence,
    too_few,
    trade_count,
)
from memtape.core.memory.beliefs import (
    BELIEVED_FROM_TRADES,
    RETIRED_BELOW_PROBABILITY,
    Belief,
    Beta,
    Proposition,
    Status,
    accepted_cells,
    belief_status,
    belief_strength,
    beta_from_episodes,
    mean_edge_of_sums,
    probability_greater,
)
from memtape.core.memory.outcome_units import OutcomeUnit
from memtape.core.memory.predicate import AllOf, Condition, Predicate
from memtape.core.observed import ANY, Situation

SAME_BELIEF_SHARE = 0.9  # of the trades shared: the same belief in other words
NO_DIFFERENCE_FROM_TRADES = 100  # trades
FADED_BELOW_STRENGTH = 0.5  # half its strength is gone: no trade has tested it for four and a half years
COMPUTED_TIER = 2  # the tier of what memtape computes
_MERGED: Status = "merged"
_SPLIT: Status = "split"


class BeliefCell(NamedTuple):
    """A cell with the trades that it is compared with."""

    id: str  # of the belief
    key: CellKey
    inside: Tally
    tier: int
    test: CellTest
    outside: tuple[int, int]  # all trades outside, and their wins; the base is without those of believed cells

    @property
    def left_out(self) -> bool:
        """True if trades of believed cells are missing from the base."""
        return self.test.base_n < self.outside[0]

    @property
    def rate(self) -> float:
        return self.inside.wins / self.inside.n

    @property
    def base_rate(self) -> float | None:
        return self.test.base_wins / self.test.base_n if self.test.base_n >= MIN_COMPARED_TRADES else None


class CellSplit(NamedTuple):
    """The field by which a cell splits, and the parts."""

    field: str
    parts: tuple[BeliefCell, ...]
    p_value: float


def beliefs_from_counts(counts: CellCounts, stated: Iterable[StatedTally], as_of: datetime) -> list[Belief]:
    """Returns the beliefs at a moment: the induced ones by cell, then those stated by then."""
    keys = belief_keys(counts)
    merged = merges({key: counts.cells[key].n for key in keys})
    # What nobody has tested for years is not believed, and must not stand in the way of what is.
    aside = {*merged, *(key for key in keys if _faded(counts.cells[key], as_of))}
    cells = compared_cells(counts, keys, aside)
    parted = splits(cells)
    formed = [_induced(cell, cells, merged, parted, counts.unit, as_of) for cell in cells.values()]
    return formed + _stated([one for one in stated if one.stated.stated_at <= as_of])


def fades_at(beliefs: Iterable[Belief]) -> datetime | None:
    """Returns when the first of these beliefs retires if no trade tests it; until then time alone changes none of them."""
    tested = [b.last_evidence_at for b in beliefs if b.last_evidence_at is not None and b.status != "retired"]
    days = 180.0 * (FADED_BELOW_STRENGTH ** (-1.0 / 0.3) - 1.0)  # when `belief_strength` falls to this strength
    return min(tested) + timedelta(days=days) - timedelta(seconds=1) if tested else None


def belief_keys(counts: CellCounts) -> list[CellKey]:
    """Returns the cells with enough trades, in order."""
    return sorted(
        key for key, found in counts.cells.items()
        if found.n >= MIN_COMPARED_TRADES and key.conditions and key != key.known
    )  # fmt: skip


def compared_cells(counts: CellCounts, keys: Sequence[CellKey], aside: Iterable[CellKey]) -> dict[CellKey, BeliefCell]:
    """Returns the cells, each with the trades that it is compared with; those set aside are not believed."""
    tests = judge_cells(counts, keys, aside).tests
    cells = {}
    for key in keys:
        inside, around, test = counts.cells[key], counts.cells[key.known], tests[key]
        id = make_id("belief", key.strategy, key.symbol, *(part for condition in key.conditions for part in condition))
        outside = around.n - inside.n, around.wins - inside.wins
        cells[key] = BeliefCell(id, key, inside, max(around.tier, COMPUTED_TIER), test, outside)
    return cells


def merges(sizes: Mapping[CellKey, int]) -> dict[CellKey, CellKey]:
    """Returns which cells say the same as another cell, and which one that is, by their numbers of trades.

    A pair is part of both its parents, so its count alone tells how many of a parent's trades it shares.
    """
    into: dict[CellKey, CellKey] = {}
    pairs = [key for key in sizes if len(key.conditions) == 2]
    for pair in pairs:
        first, second = sorted(pair.parents())
        if sizes[pair] >= SAME_BELIEF_SHARE * max(sizes[first], sizes[second]):
            into.setdefault(second, first)
    for pair in pairs:
        wider = [one for one in sorted(pair.parents()) if sizes[pair] >= SAME_BELIEF_SHARE * sizes[one]]
        if wider:
            into[pair] = wider[0]
        elif twin := _twin(pair, into, sizes):
            into[pair] = twin
    return {key: _last(key, into) for key in into}


def _twin(pair: CellKey, into: Mapping[CellKey, CellKey], sizes: Mapping[CellKey, int]) -> CellKey | None:
    """Returns the pair of about the same size that says the same because one of its conditions does; None if there is none."""
    for own, other in (pair.conditions, pair.conditions[::-1]):
        speaker = into.get(pair._replace(conditions=(own,)))
        if speaker is None or other[0] in speaker.names:
            continue
        twin = speaker.with_(other)
        fewer, more = sorted(sizes.get(key, 0) for key in (pair, twin))
        if fewer >= SAME_BELIEF_SHARE * more:
            return twin
    return None


def _last(key: CellKey, into: Mapping[CellKey, CellKey]) -> CellKey:
    """Returns the last cell of a chain of merges. Each merge goes to a wider or an earlier cell, so the chain ends."""
    while key in into:
        key = into[key]
    return key


def splits(cells: Mapping[CellKey, BeliefCell]) -> dict[CellKey, CellSplit]:
    """Returns the single cells that split by another field into parts better and worse than the base rate.

    Of several parts the two that differ most are compared, so their p-value is multiplied by the number of comparisons;
    Benjamini and Hochberg's gate is then applied to all splits considered.
    """
    considered: dict[tuple[CellKey, str], CellSplit] = {}
    children: defaultdict[tuple[CellKey, str], list[BeliefCell]] = defaultdict(list)
    for key, cell in cells.items():
        for parent, (_, (field, _)) in zip(key.parents(), (key.conditions, key.conditions[::-1]), strict=False):
            if cell.inside.n < SAME_BELIEF_SHARE * cells[parent].inside.n:  # otherwise it says the same as the parent
                children[parent, field].append(cell)
    for (parent, field), parts in children.items():
        if cells[parent].inside.n >= BELIEVED_FROM_TRADES and cells[parent].outside[0] >= MIN_COMPARED_TRADES and len(parts) > 1:
            considered[parent, field] = CellSplit(field, tuple(parts), _furthest(parts))
    passing = accepted_cells({f"{cells[parent].id} {field}": split.p_value for (parent, field), split in considered.items()})
    best: dict[CellKey, CellSplit] = {}
    for (parent, field), split in sorted(considered.items(), key=lambda one: (one[1].p_value, one[0])):
        outside_n, outside_wins = cells[parent].outside
        if f"{cells[parent].id} {field}" in passing and _opposed(split.parts, outside_wins / outside_n):
            best.setdefault(parent, split)
    return best


def _furthest(parts: Sequence[BeliefCell]) -> float:
    pairs = [(a.inside, b.inside) for a, b in combinations(parts, 2)]
    apart = [
        difference(*(GroupRate(one.n, one.wins, one.n, one.wins, one.inside_blocks) for one in (a, b)))[0]
        for a, b in pairs if _apart(a, b)
    ]  # fmt: skip
    return min(1.0, len(pairs) * min(apart, default=1.0))


def _apart(a: Tally, b: Tally) -> bool:
    """Returns True if two rates differ by at least one deviation. A smaller difference passes no gate and is not tested."""
    rate = (a.wins + b.wins) / (a.n + b.n)
    return (a.wins / a.n - b.wins / b.n) ** 2 >= rate * (1.0 - rate) * (1.0 / a.n + 1.0 / b.n)


def _opposed(parts: Sequence[BeliefCell], base_rate: float) -> bool:
    return min(p.rate for p in parts) < base_rate < max(p.rate for p in parts)


def _induced(
    cell: BeliefCell, cells: Mapping[CellKey, BeliefCell], merged: Mapping[CellKey, CellKey], parted: Mapping[CellKey, CellSplit],
    unit: OutcomeUnit, as_of: datetime,
) -> Belief:  # fmt: skip
    inside, test = cell.inside, cell.test
    own, others = (beta_from_episodes(w, n - w) for w, n in ((inside.wins, inside.n), (test.base_wins, test.base_n)))
    probability = probability_greater(own, others) if cell.base_rate is not None else None
    related: tuple[str, ...] = ()
    if cell.key in merged:
        wider = cells[merged[cell.key]]
        status, related = _MERGED, (wider.id,)
        why = f"Says the same as {cell_phrase(wider.key)} ({trade_count(wider.inside.n)})."
    elif not test.believed and (split := parted.get(cell.key)):
        status, related = _SPLIT, tuple(part.id for part in split.parts)
        parts = {dict(p.key.conditions)[split.field]: (p.inside.wins, p.inside.n) for p in split.parts}
        outside_n, outside_wins = cell.outside
        why = split_sentence(split.field, parts, outside_wins, outside_n)
    else:
        status, why = _judged(cell, probability, as_of)
    return _formed(
        inside, dict(cell.key.conditions), unit, id=cell.id,
        sentence=belief_sentence(cell.key, inside.wins, inside.n, test.base_wins, test.base_n, cell.left_out),
        strategy=cell.key.strategy, symbol=cell.key.symbol, proposition=Proposition(dict(cell.key.conditions)),
        source="induced", tier=cell.tier, prior=Beta(), base_rate=cell.base_rate, base_n=test.base_n,
        p_value=test.p_value, probability=probability, status=status, why=why, related=related,
    )  # fmt: skip


def _judged(cell: BeliefCell, probability: float | None, as_of: datetime) -> tuple[Status, str]:
    """Returns the status of a cell that was not merged, and why."""
    n, test, last = cell.inside.n, cell.test, _last_tested(cell.inside)
    if last is not None and _faded(cell.inside, as_of):
        return "retired", f"No trade has tested it since {last:%Y-%m-%d}."
    if probability is None:
        words = too_few(test.base_n, cell.left_out)
        return "candidate", f"{words[0].upper()}{words[1:]}."
    if test.p_value is None:
        return "candidate", "Nearly all of its trades belong to another belief."
    if not test.believed and n >= NO_DIFFERENCE_FROM_TRADES and 0.2 < probability < 0.8:
        return "retired", f"No difference seen in {n} trades."
    if n < BELIEVED_FROM_TRADES:
        return "candidate", needs_trades(n)
    if test.gate_p_value is None:
        return "candidate", "Each of its two conditions is believed by itself; together they say no more."
    if test.unlike is not None and not test.believed:
        return "candidate", f"It does not differ clearly from the other trades of {cell_phrase(test.unlike)}."
    return belief_status(n, test.believed), chance_words(test.gate_p_value, test.believed, test.groups)


def _stated(counted: Sequence[StatedTally]) -> list[Belief]:
    """Returns the stated beliefs with their tests so far."""
    enough = {one.stated.id: one for one in counted if min(one.inside.n, one.outside.n) >= MIN_COMPARED_TRADES}
    p_values = {
        id: difference(*(GroupRate(t.n, t.wins, t.n, t.wins, t.inside_blocks) for t in (one.inside, one.outside)))[0]
        for id, one in enough.items()
    }
    passing = frozenset(accepted_cells(p_values))
    formed = []
    for stated, inside, outside, unit in sorted(counted, key=lambda one: (one.stated.stated_at, one.stated.id)):
        base_rate = outside.wins / outside.n if outside.n >= MIN_COMPARED_TRADES else None
        prior, p_value = Beta(stated.alpha, stated.beta), p_values.get(stated.id)
        own = Beta(prior.alpha + inside.wins, prior.beta + inside.n - inside.wins)
        probability = (
            probability_greater(own, beta_from_episodes(outside.wins, outside.n - outside.wins))
            if base_rate is not None
            else None
        )
        right = own.probability_above(0.5 if stated.rate is None else stated.rate)
        if stated.rate is None and probability is not None:
            right = probability
        status, why = _held(inside, right, p_value, stated.id in passing, len(p_values))
        tier = max(stated.tier, inside.tier) if inside.tier > COMPUTED_TIER else stated.tier  # claims raise it, fills do not
        formed.append(_formed(
            inside, _plain(stated.predicate), unit, id=stated.id, strategy=stated.strategy,
            sentence=stated_sentence(stated.sentence, inside.wins, inside.n, outside.wins, outside.n), symbol=stated.symbol,
            proposition=stated.proposition, source="seeded", tier=tier, prior=prior, base_rate=base_rate, base_n=outside.n,
            p_value=p_value, probability=probability, status=status, why=why, since=stated.stated_at,
        ))  # fmt: skip
    return formed


def _held(inside: Tally, right: float, p_value: float | None, passes: bool, n_stated: int) -> tuple[Status, str]:
    """Returns the status of a stated belief, and why. If it passes the gate in the wrong direction, it is retired."""
    if inside.n >= BELIEVED_FROM_TRADES and right < RETIRED_BELOW_PROBABILITY:
        chance = "less than 1 %" if right < 0.005 else percent(right)
        return "retired", f"{inside.wins} of {inside.n} trades confirm it: the probability that it is right is {chance}."
    if inside.n < BELIEVED_FROM_TRADES:
        return "candidate", needs_trades(inside.n)
    if p_value is None:
        return "candidate", f"Fewer than {MIN_COMPARED_TRADES} trades outside its conditions to compare with."
    return belief_status(inside.n, passes and right > 0.5), chance_words(p_value, passes, n_stated, "stated belief")


def _formed(
    inside: Tally, plain: Mapping[str, object], unit: OutcomeUnit, *, id: str, sentence: str, strategy: str | None,
    symbol: str | None, proposition: Proposition, source: Literal["induced", "seeded"], tier: int, prior: Beta,
    base_rate: float | None, base_n: int, p_value: float | None, probability: float | None, status: Status, why: str,
    related: tuple[str, ...] = (), since: datetime | None = None,
) -> Belief:  # fmt: skip
    in_r = proposition.metric == "pnl_r" and inside.n_r > 0
    return Belief(
        id=id, sentence=sentence, strategy=strategy, symbol=symbol, situation=_holding_in(symbol, plain), source=source,
        proposition=proposition, tier=tier, prior=prior, confirmed=inside.wins, contradicted=inside.n - inside.wins,
        base_rate=base_rate, base_n=base_n, p_value=p_value, probability=probability, status=status, related=related, why=why,
        mean_r=inside.sum_r / inside.n_r if in_r else None, unit=unit,
        edge=mean_edge_of_sums(inside.n_r, inside.sum_r, inside.sum_r2) if in_r else None,
        last_confirmed=inside.last_confirmed.id if inside.last_confirmed else None,
        last_contradicted=inside.last_contradicted.id if inside.last_contradicted else None,
        last_evidence_at=_last_tested(inside), since=since or inside.tenth_at,
    )  # fmt: skip


def _faded(inside: Tally, as_of: datetime) -> bool:
    last = _last_tested(inside)
    return last is not None and belief_strength((as_of - last) / timedelta(days=1), None) < FADED_BELOW_STRENGTH


def _last_tested(inside: Tally) -> datetime | None:
    return max((evidence.exit_at for evidence in (inside.last_confirmed, inside.last_contradicted) if evidence), default=None)


OPEN_FIELDS = (*CONDITIONS[:3], "price", "atr_d1", "atr_h1", "atr_m5", "atr_ratio_h1_d1", "spread_points", "spread_as_atr_pct",
               "drawdown_pct")  # fmt: skip


def _holding_in(symbol: str | None, plain: Mapping[str, object]) -> Situation:
    """Returns the situation in which a belief holds: its plain conditions, and any value for the other fields."""
    return Situation(symbol=symbol, **{name: plain.get(name, ANY) for name in OPEN_FIELDS})  # type: ignore[arg-type]


def _plain(predicate: Predicate) -> dict[str, object]:
    """Returns the equality conditions of a predicate that must all hold."""
    parts = predicate.parts if isinstance(predicate, AllOf) else (predicate,)
    return {part.field: part.value for part in parts if isinstance(part, Condition) and part.op == "eq"}
