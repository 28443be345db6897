"""Forms beliefs: trades are counted by cell, and each cell is compared with the trades outside it.

A cell is a strategy on a symbol in one or two conditions of (regime, volatility, session, side). From 10 trades on it is a
belief: a trade in it ends above 0R, more often or less often than one of the same strategy and symbol whose conditions are
known to be others. It stays a candidate until it has 30 trades and passes the gate over all cells that were scanned.
An owner may state a belief too; it is counted the same way, and those stated answer to a gate of their own, since they
were not found by looking everywhere.

There are no running sums. Beliefs are a function of the episodes known at a moment and of the beliefs stated by then. So the
order of arrival never matters, and a corrected or forgotten trade disappears from every belief at once.

- merged: a pair of conditions that holds nine in ten of a single one's trades says the same; so do two single ones that
  share nine in ten of their trades. The wider one, or the first by name, speaks for both.
- split: a single condition whose trades part, by another field, into some better and some worse than the base rate.
- retired: a belief that was contradicted, long untested, or showed no difference in a hundred trades.

>>> from datetime import UTC
>>> cell = CellKey("VB", "XAUUSD", (("session", "london"),))
>>> known = CellKey("VB", "XAUUSD", (("session", ANY),))
>>> at = datetime(2026, 6, 5, tzinfo=UTC)
>>> beliefs = beliefs_from_tallies({cell: Tally(30, 21, 12.0, 60.0), known: Tally(150, 79, 20.0, 240.0)}, (), at)
>>> print(beliefs[0].sentence)
VB on XAUUSD in london wins more often: 21 of 30 (70 %, 90 % interval 55-82 %) against 48 % of 120 otherwise.
>>> beliefs[0].status, beliefs[0].why
('believed', 'Chance alone would show as much in 5.3 % of histories: seldom, of 1 cell scanned.')
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import combinations
from typing import Literal, NamedTuple

from memtape.core.codec import make_id
from memtape.core.memory.beliefs import (
    BELIEVED_FROM_TRADES,
    RETIRED_BELOW_PROBABILITY,
    Belief,
    Beta,
    Proposition,
    StatedBelief,
    Status,
    accepted_cells,
    belief_concerns,
    belief_status,
    belief_strength,
    beta_from_episodes,
    confirms_proposition,
    difference_p_value,
    entry_facts,
    mean_edge_of_sums,
    probability_greater,
    wilson_interval,
)
from memtape.core.memory.episodes import Episode, believed_outcome
from memtape.core.memory.predicate import AllOf, Condition, Predicate, holds
from memtape.core.observed import ANY, Situation

CONDITIONS = ("regime", "volatility_regime", "session", "side")
GROUPINGS: tuple[tuple[str, ...], ...] = (*((field,) for field in CONDITIONS), *combinations(CONDITIONS, 2))
INDUCED_FROM_TRADES = 10  # trades, inside and outside
SAME_BELIEF_SHARE = 0.9  # of the trades shared: the same belief in other words
NO_DIFFERENCE_FROM_TRADES = 100  # trades
FADED_BELOW_STRENGTH = 0.5  # half its strength is gone: no trade has tested it for four and a half years
COMPUTED_TIER = 2  # the tier of what memtape computes
_MERGED: Status = "merged"
_SPLIT: Status = "split"


class CellEvidence(NamedTuple):
    """A trade that tested a belief. They compare by time, then by id."""

    exit_at: datetime
    id: str


class Tally(NamedTuple):
    """Counts of some trades. `wins` are those that confirm: above 0R, unless a stated belief says otherwise."""

    n: int = 0
    wins: int = 0
    sum_r: float = 0.0
    sum_r2: float = 0.0
    tier: int = 0  # the least trusted tier among their sources
    first_at: datetime | None = None
    tenth_at: datetime | None = None
    last_confirmed: CellEvidence | None = None
    last_contradicted: CellEvidence | None = None


class CellKey(NamedTuple):
    """Selects trades. Without conditions: all of a strategy on a symbol; a condition `*`: all whose field is known."""

    strategy: str
    symbol: str
    conditions: tuple[tuple[str, str], ...] = ()

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


Tested = tuple[CellEvidence, float | None, bool, int]  # the trade, its outcome in R, whether it confirms, its tier


def count_cells(episodes: Iterable[Episode], claims_count: bool) -> dict[CellKey, Tally]:
    """Returns the tallies of every cell, from episodes known at a moment; a trade counts once."""
    cells: defaultdict[CellKey, list[Tested]] = defaultdict(list)
    for episode in {e.id: e for e in sorted(episodes, key=lambda e: (e.exit_at, e.id))}.values():
        r = believed_outcome(episode, claims_count)
        if r is None or not episode.teaches:
            continue
        tested = (CellEvidence(episode.exit_at, episode.id), r, r > 0, episode.tier)
        for key in cells_of(episode):
            cells[key].append(tested)
    return {key: tally_cells(tested) for key, tested in cells.items()}


def cells_of(episode: Episode) -> list[CellKey]:
    """Returns the cells of a trade. With an unknown field it is neither inside nor outside the cells of that field.

    >>> CellKey("VB", "XAUUSD").with_(("side", "long")).known.conditions
    (('side', '*'),)
    """
    labels = {name: label for name in CONDITIONS if (label := getattr(episode, name)) is not None and label != ANY}
    keys = [CellKey(episode.strategy, episode.symbol)]
    for names in GROUPINGS:
        if all(name in labels for name in names):
            cell = CellKey(episode.strategy, episode.symbol, tuple((name, labels[name]) for name in names))
            keys += (cell, cell.known)
    return keys


def tally_cells(tested: Iterable[Tested]) -> Tally:
    """Returns the tally of trades, in the order in which they closed."""
    ordered = sorted(tested, key=lambda one: one[0])
    if not ordered:
        return Tally()
    sum_r = sum_r2 = 0.0
    last: dict[bool, CellEvidence] = {}
    for evidence, r, confirmed, _ in ordered:
        sum_r, sum_r2 = sum_r + (r or 0.0), sum_r2 + (r or 0.0) * (r or 0.0)
        last[confirmed] = evidence
    tenth = ordered[INDUCED_FROM_TRADES - 1][0].exit_at if len(ordered) >= INDUCED_FROM_TRADES else None
    return Tally(
        len(ordered), sum(confirmed for _, _, confirmed, _ in ordered), sum_r, sum_r2, max(tier for *_, tier in ordered),
        ordered[0][0].exit_at, tenth, last.get(True), last.get(False),
    )  # fmt: skip


# --- what an owner states ------------------------------------------------------------------------------------------------


class StatedTally(NamedTuple):
    """A stated belief with the counts inside and outside its conditions."""

    stated: StatedBelief
    inside: Tally
    outside: Tally


def count_stated(stated: Iterable[StatedBelief], episodes: Iterable[Episode], claims_count: bool) -> list[StatedTally]:
    """Returns the counts of each stated belief."""
    latest = list({e.id: e for e in episodes}.values())
    counted = []
    for one in stated:
        predicate, sides = one.predicate, {True: list[Tested](), False: list[Tested]()}
        for episode in latest:
            answer = confirms_proposition(one.proposition, episode, claims_count)
            if answer is None or not belief_concerns(one.strategy, one.symbol, episode) or not one.tests(episode.exit_at):
                continue
            if (inside := holds(predicate, entry_facts(episode))) is not None:
                sides[inside].append((CellEvidence(episode.exit_at, episode.id), episode.pnl_r, answer, episode.tier))
        counted.append(StatedTally(one, tally_cells(sides[True]), tally_cells(sides[False])))
    return counted


# --- forming beliefs -----------------------------------------------------------------------------------------------------


class BeliefCell(NamedTuple):
    """A cell with the trades outside it. The p-value is None if there are too few outside."""

    id: str  # of the belief
    key: CellKey
    inside: Tally
    base_n: int
    base_wins: int
    tier: int
    p_value: float | None

    @property
    def rate(self) -> float:
        return self.inside.wins / self.inside.n

    @property
    def base_rate(self) -> float | None:
        return self.base_wins / self.base_n if self.base_n >= INDUCED_FROM_TRADES else None


class CellSplit(NamedTuple):
    """The field by which a cell splits, and the parts."""

    field: str
    parts: tuple[BeliefCell, ...]
    p_value: float


def beliefs_from_tallies(tallies: Mapping[CellKey, Tally], stated: Iterable[StatedTally], as_of: datetime) -> list[Belief]:
    """Returns the beliefs at a moment: the induced ones by cell, then those stated by then."""
    cells = scan_cells(tallies)
    merged, parted = merges(cells), splits(cells)
    tested = {cell.id: cell.p_value for cell in cells.values() if cell.p_value is not None}
    passing = frozenset(accepted_cells(tested))
    formed = [_induced(cell, cells, merged, parted, passing, len(tested), as_of) for cell in cells.values()]
    return formed + _stated([one for one in stated if one.stated.stated_at <= as_of])


def fades_at(beliefs: Iterable[Belief]) -> datetime | None:
    """Returns when the first of these beliefs retires if no trade tests it; until then time alone changes none of them."""
    tested = [b.last_evidence_at for b in beliefs if b.last_evidence_at is not None and b.status != "retired"]
    days = 180.0 * (FADED_BELOW_STRENGTH ** (-1.0 / 0.3) - 1.0)  # when `belief_strength` falls to this strength
    return min(tested) + timedelta(days=days) - timedelta(seconds=1) if tested else None


def scan_cells(tallies: Mapping[CellKey, Tally]) -> dict[CellKey, BeliefCell]:
    """Returns the cells with enough trades, in order, each with the trades outside it."""
    cells = {}
    for key in sorted(
        key for key, found in tallies.items() if found.n >= INDUCED_FROM_TRADES and key.conditions and key != key.known
    ):
        inside, around = tallies[key], tallies[key.known]
        base_n, base_wins = around.n - inside.n, around.wins - inside.wins
        p_value = difference_p_value(inside.wins, inside.n, base_wins, base_n) if base_n >= INDUCED_FROM_TRADES else None
        id = make_id("belief", key.strategy, key.symbol, *(part for condition in key.conditions for part in condition))
        cells[key] = BeliefCell(id, key, inside, base_n, base_wins, max(around.tier, COMPUTED_TIER), p_value)
    return cells


def merges(cells: Mapping[CellKey, BeliefCell]) -> dict[CellKey, CellKey]:
    """Returns which cells say the same as another cell, and which one that is.

    A pair is part of both its parents, so its count alone tells how many of a parent's trades it shares.
    """
    into: dict[CellKey, CellKey] = {}
    pairs = [key for key in cells if len(key.conditions) == 2]
    for pair in pairs:
        first, second = sorted(pair.parents())
        if cells[pair].inside.n >= SAME_BELIEF_SHARE * max(cells[first].inside.n, cells[second].inside.n):
            into.setdefault(second, first)
    for pair in pairs:
        wider = [one for one in sorted(pair.parents()) if cells[pair].inside.n >= SAME_BELIEF_SHARE * cells[one].inside.n]
        if wider:
            into[pair] = wider[0]
        elif twin := _twin(pair, into, cells):
            into[pair] = twin
    return {key: _last(key, into) for key in into}


def _twin(pair: CellKey, into: Mapping[CellKey, CellKey], cells: Mapping[CellKey, BeliefCell]) -> CellKey | None:
    """Returns the pair of about the same size that says the same because one of its conditions does; None if there is none."""
    for own, other in (pair.conditions, pair.conditions[::-1]):
        speaker = into.get(pair._replace(conditions=(own,)))
        if speaker is None or other[0] in speaker.names:
            continue
        twin = speaker.with_(other)
        sizes = sorted(cells[key].inside.n if key in cells else 0 for key in (pair, twin))
        if sizes[0] >= SAME_BELIEF_SHARE * sizes[1]:
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
        if cells[parent].inside.n >= BELIEVED_FROM_TRADES and cells[parent].base_rate is not None and len(parts) > 1:
            considered[parent, field] = CellSplit(field, tuple(parts), _furthest(parts))
    passing = accepted_cells({f"{cells[parent].id} {field}": split.p_value for (parent, field), split in considered.items()})
    best: dict[CellKey, CellSplit] = {}
    for (parent, field), split in sorted(considered.items(), key=lambda one: (one[1].p_value, one[0])):
        if f"{cells[parent].id} {field}" in passing and _opposed(split.parts, cells[parent].base_rate):
            best.setdefault(parent, split)
    return best


def _furthest(parts: Sequence[BeliefCell]) -> float:
    pairs = [(a.inside, b.inside) for a, b in combinations(parts, 2)]
    apart = [difference_p_value(a.wins, a.n, b.wins, b.n) for a, b in pairs if _apart(a, b)]
    return min(1.0, len(pairs) * min(apart, default=1.0))


def _apart(a: Tally, b: Tally) -> bool:
    """Returns True if two rates differ by at least one deviation. A smaller difference passes no gate and is not tested."""
    rate = (a.wins + b.wins) / (a.n + b.n)
    return (a.wins / a.n - b.wins / b.n) ** 2 >= rate * (1.0 - rate) * (1.0 / a.n + 1.0 / b.n)


def _opposed(parts: Sequence[BeliefCell], base_rate: float | None) -> bool:
    return base_rate is not None and min(p.rate for p in parts) < base_rate < max(p.rate for p in parts)


def _induced(
    cell: BeliefCell, cells: Mapping[CellKey, BeliefCell], merged: Mapping[CellKey, CellKey], parted: Mapping[CellKey, CellSplit],
    passing: frozenset[str], scanned: int, as_of: datetime,
) -> Belief:  # fmt: skip
    own = beta_from_episodes(cell.inside.wins, cell.inside.n - cell.inside.wins)
    others = beta_from_episodes(cell.base_wins, cell.base_n - cell.base_wins)
    probability = probability_greater(own, others) if cell.base_rate is not None else None
    related: tuple[str, ...] = ()
    if cell.key in merged:
        wider = cells[merged[cell.key]]
        status, why, related = _MERGED, f"Says the same as {_where(wider.key)}, of {wider.inside.n} trades.", (wider.id,)
    elif split := parted.get(cell.key):
        status, why, related = _SPLIT, _split_words(split, cell), tuple(part.id for part in split.parts)
    else:
        status, why = _judged(cell, probability, cell.id in passing, scanned, as_of)
    return _formed(
        cell.inside, dict(cell.key.conditions), id=cell.id, sentence=_sentence(cell),
        strategy=cell.key.strategy, symbol=cell.key.symbol, proposition=Proposition(dict(cell.key.conditions)),
        source="induced", tier=cell.tier, prior=Beta(), base_rate=cell.base_rate, base_n=cell.base_n,
        p_value=cell.p_value, probability=probability, status=status, why=why, related=related,
    )  # fmt: skip


def _judged(cell: BeliefCell, probability: float | None, passes: bool, scanned: int, as_of: datetime) -> tuple[Status, str]:
    """Returns the status of a cell that was not merged, and why."""
    n, last = cell.inside.n, _last_tested(cell.inside)
    if last is not None and belief_strength((as_of - last) / timedelta(days=1), None) < FADED_BELOW_STRENGTH:
        return "retired", f"No trade has tested it since {last:%Y-%m-%d}."
    if probability is None or cell.p_value is None:
        return "candidate", f"Only {cell.base_n} trades outside it: {INDUCED_FROM_TRADES} are needed to compare."
    if not passes and n >= NO_DIFFERENCE_FROM_TRADES and 0.2 < probability < 0.8:
        return "retired", f"No difference seen in {n} trades."
    if n < BELIEVED_FROM_TRADES:
        return "candidate", f"{n} trades: {BELIEVED_FROM_TRADES} are needed."
    return belief_status(n, passes), _chance_words(cell.p_value, passes, f"{scanned} cell{'s' if scanned > 1 else ''} scanned")


def _stated(counted: Sequence[StatedTally]) -> list[Belief]:
    """Returns the stated beliefs with their tests so far."""
    enough = {one.stated.id: one for one in counted if min(one.inside.n, one.outside.n) >= INDUCED_FROM_TRADES}
    p_values = {i: difference_p_value(t.inside.wins, t.inside.n, t.outside.wins, t.outside.n) for i, t in enough.items()}
    passing = frozenset(accepted_cells(p_values))
    formed = []
    for stated, inside, outside in sorted(counted, key=lambda one: (one.stated.stated_at, one.stated.id)):
        base_rate = outside.wins / outside.n if outside.n >= INDUCED_FROM_TRADES else None
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
            inside, _plain(stated.predicate), id=stated.id, strategy=stated.strategy,
            sentence=_with_figures(stated.sentence, inside, base_rate, outside.n), symbol=stated.symbol,
            proposition=stated.proposition, source="seeded", tier=tier, prior=prior, base_rate=base_rate, base_n=outside.n,
            p_value=p_value, probability=probability, status=status, why=why, since=stated.stated_at,
        ))  # fmt: skip
    return formed


def _held(inside: Tally, right: float, p_value: float | None, passes: bool, n_stated: int) -> tuple[Status, str]:
    """Returns the status of a stated belief, and why. If it passes the gate in the wrong direction, it is retired."""
    if inside.n >= BELIEVED_FROM_TRADES and right < RETIRED_BELOW_PROBABILITY:
        return "retired", f"{inside.wins} of {inside.n} trades confirm it: the chance that it is right is {_percent(right)}."
    if inside.n < BELIEVED_FROM_TRADES:
        return "candidate", f"{inside.n} trades have tested it: {BELIEVED_FROM_TRADES} are needed."
    if p_value is None:
        return "candidate", f"Fewer than {INDUCED_FROM_TRADES} trades outside its conditions to compare with."
    return belief_status(inside.n, passes and right > 0.5), _chance_words(p_value, passes, f"{n_stated} stated")


def _formed(
    inside: Tally, plain: Mapping[str, object], *, id: str, sentence: str, strategy: str | None, symbol: str | None,
    proposition: Proposition, source: Literal["induced", "seeded"], tier: int, prior: Beta, base_rate: float | None,
    base_n: int, p_value: float | None, probability: float | None, status: Status, why: str,
    related: tuple[str, ...] = (), since: datetime | None = None,
) -> Belief:  # fmt: skip
    in_r = proposition.metric == "pnl_r" and inside.n > 0
    return Belief(
        id=id, sentence=sentence, strategy=strategy, symbol=symbol, situation=_holding_in(symbol, plain), source=source,
        proposition=proposition, tier=tier, prior=prior, confirmed=inside.wins, contradicted=inside.n - inside.wins,
        base_rate=base_rate, base_n=base_n, p_value=p_value, probability=probability, status=status, related=related, why=why,
        mean_r=inside.sum_r / inside.n if in_r else None,
        edge=mean_edge_of_sums(inside.n, inside.sum_r, inside.sum_r2) if in_r else None,
        last_confirmed=inside.last_confirmed.id if inside.last_confirmed else None,
        last_contradicted=inside.last_contradicted.id if inside.last_contradicted else None,
        last_evidence_at=_last_tested(inside), since=since or inside.tenth_at,
    )  # fmt: skip


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


# --- in words ------------------------------------------------------------------------------------------------------------


def _sentence(cell: BeliefCell) -> str:
    return _with_figures(_where(cell.key), cell.inside, cell.base_rate, cell.base_n, wins=True)


def _where(key: CellKey) -> str:
    """Returns a cell as a phrase.

    >>> _where(CellKey("VB", "XAUUSD", (("regime", "trending_up"), ("side", "long"))))
    'VB on XAUUSD long in a trending up market'
    """
    words = {"regime": "in a {} market", "volatility_regime": "in {} volatility", "session": "in {}", "side": "{}"}
    phrases = [words[name].format(label.replace("_", " ")) for name, label in reversed(key.conditions) if name != "session"]
    phrases += [words[name].format(label) for name, label in key.conditions if name == "session"]
    return " ".join([f"{key.strategy} on {key.symbol}", *phrases])


def _with_figures(who: str, inside: Tally, base_rate: float | None, base_n: int, wins: bool = False) -> str:
    """Returns a belief as a sentence with its numbers."""
    who = who.rstrip(". ")
    if not inside.n:
        return f"{who}: not tested yet."
    rate, (low, high) = inside.wins / inside.n, wilson_interval(inside.wins, inside.n)
    counted = f"{inside.wins} of {inside.n} ({_percent(rate)}, 90 % interval {100 * low:.0f}-{_percent(high)})"
    if base_rate is None:
        return f"{who}{' wins' if wins else ': confirmed by'} {counted}; {base_n} trades otherwise are too few to compare."
    how = "as often" if rate == base_rate else "more often" if rate > base_rate else "less often"
    claim = f"{who} wins {how}: {counted}" if wins else f"{who}: confirmed by {counted}"
    return f"{claim} against {_percent(base_rate)} of {base_n} otherwise."


def _split_words(split: CellSplit, cell: BeliefCell) -> str:
    labels = {part.id: dict(part.key.conditions)[split.field] for part in split.parts}
    parts = ", ".join(f"{labels[part.id]} wins {_percent(part.rate)} of {part.inside.n}" for part in split.parts)
    return f"By {split.field}: {parts}; otherwise {_percent(cell.base_rate or 0.0)} of {cell.base_n}."


def _chance_words(p_value: float, passes: bool, family: str) -> str:
    often = "in less than 0.01 %" if p_value < 1e-4 else f"in {100 * p_value:.2g} %"
    return f"Chance alone would show as much {often} of histories: {'seldom' if passes else 'too often'}, of {family}."


def _percent(rate: float) -> str:
    return f"{100 * rate:.0f} %"
