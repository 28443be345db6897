"""Finds candidates: patterns of entries, exits and sizes in closed trades, in numbers, each tested against chance.

Which trades count: trades that may teach and have a believed outcome. The owner's labels exclude more. `wrong_reason`: the
trade ended as it did for another reason than the stated one, so it is not used for entries (entry timing, symbol selection,
regime fit), but for its exit and size. `structural`: a halt, an outage, funding or a roll caused the outcome, so it is not used
for exits and sizes, but for its entry.

The unit is one for all of them (`outcome_units`): R from stops, R from ATR, or typical losses in money. Trades of one signal
(same symbol, side and second of entry) are one observation with their mean outcome, except in questions about exits, because
one signal may be closed in two ways.

The question about entries: does a group (`trade_groups`) end better or worse than the trades outside it?

The questions about exits need R by stop and a known exit trigger. A stop loses and a target wins by construction, and the
nearer of the two is reached sooner. Outcome by exit cause, or by holding time over all trades, would therefore only rediscover
the bracket. So:
- Holding time is tested only on trades closed by choice, and only in the direction that a bracket cannot explain. A trade that
  is not stopped for long looks better for that alone; a worse longest third, or a better shortest third, is a habit.
- An exit cause is tested by the market after the exit: under chance it moves as far after a stop as after any other exit.
- Give-back from the best, the heat that winners took and the cost of each exit cause are only described. There is nothing to
  compare them with, so they claim nothing: p-value 1, `rest` None.

The questions about sizes: is more or less risked after losses, and how do those trades end?

Two tests give the p-values (`significance`): sign flips of days for labels that vary within a day, rotation for labels that are
constant within a day. Which one applies is decided by the trades: the label of nearly every trading day has one value, or not.
Each of the two families passes a gate of Benjamini and Hochberg at half of the false-discovery rate, over all its candidates,
shown or not. What does not pass could be chance. Under 30 trading days everything could be.

>>> find_candidates([], claims_count=True)
[]
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from types import MappingProxyType
from typing import NamedTuple

from memtape.core.brief.sanitize import safe_name
from memtape.core.codec import make_id
from memtape.core.lessons.label_shifts import GroupQuestion
from memtape.core.lessons.reflection import SLOTS, Candidate
from memtape.core.lessons.significance import flip_tests, mean_interval, rotation_tests
from memtape.core.lessons.trade_groups import (
    MIN_GROUP_TRADES,
    TradeGroup,
    constant_within_days,
    distinct_groups,
    entry_groups,
    has_enough_trades,
)
from memtape.core.memory.beliefs import accepted_cells
from memtape.core.memory.episodes import Episode
from memtape.core.memory.outcome_units import OutcomeUnit, choose_unit, in_unit, signal_of
from memtape.core.recall.evidence import rounded
from memtape.core.statistics import mean

SIZE_AFTER_LOSSES = "size_after_losses"  # the kind of candidate whose figures are multiples of the usual risk
NO_ENTRY, NO_EXIT = "wrong_reason", "structural"  # the owner's labels that exclude a trade
STOP = "stop"
# As a share of the usual risk. After a loss equity is smaller, so even a fixed size is a slightly larger share of it.
MIN_RISK_DIFFERENCE = 0.1
# Over both families of tests, half each. At this rate, fewer than one in ten histories without any effect give a lesson.
FALSE_DISCOVERY_RATE = 0.05
MIN_TRADING_DAYS = 30  # under this many days, everything could be chance
UP_AT_BEST_R = 1.0  # R at its best, from which a trade has something to give back
NOTHING_AFTER: Mapping[str, float] = MappingProxyType({})


class Sample(NamedTuple):
    """Observations and one value of each: a trade, or the trades of one signal. All values are in one unit."""

    trades: tuple[Episode, ...]  # in the order of their entries; for a signal, its first trade
    values: tuple[float, ...]
    ids: tuple[tuple[str, ...], ...]  # the trades behind each observation
    unit: str  # in words

    def of(self, places: Sequence[int]) -> Sample:
        trades, values = tuple(self.trades[i] for i in places), tuple(self.values[i] for i in places)
        return Sample(trades, values, tuple(self.ids[i] for i in places), self.unit)

    @property
    def days(self) -> list[date]:
        """The trading day of each observation, UTC."""
        return [e.entry_at.date() for e in self.trades]


def find_candidates(
    episodes: Sequence[Episode], *, claims_count: bool, after: Mapping[str, float] = NOTHING_AFTER,
    currency: str = "USD", money: OutcomeUnit | None = None,
) -> list[Candidate]:  # fmt: skip
    """Returns every candidate: all trades together, then by p-value.

    `after` gives by trade id the best result that the trade would have reached after its exit, in R from its entry. `money` is
    the agent's unit of money, if these are not all its trades.
    """
    measured = comparable_outcomes(episodes, claims_count, currency, money)
    if not measured.trades:
        return []
    exits, sizes = _known_exits(_without(measured, NO_EXIT)), one_value_per_signal(_without(measured, NO_EXIT))
    by_outcome = [*_of_entries(one_value_per_signal(_without(measured, NO_ENTRY))), *_of_holding(exits), *_of_losses(sizes)]
    topics = (by_outcome, _of_sizes(sizes), _of_what_came_after(exits, after))
    enough = len(set(measured.days)) >= MIN_TRADING_DAYS
    found = [*_judged(topics, enough), *_described(exits, after)]
    found.sort(key=lambda one: (one.p_value, SLOTS.index(one.slot), one.id))
    return [_rounded(one) for one in (_all(measured), *found)]


class JudgedCandidate(NamedTuple):
    """A tested candidate, and its family: judged by rotation, or by sign flips."""

    candidate: Candidate
    by_rotation: bool


def _judged(topics: Sequence[Sequence[JudgedCandidate]], enough: bool) -> list[Candidate]:
    """Returns the candidates with `chance` decided. Each must pass the gate of its family, and again among those of its topic.

    The gate becomes wider the more candidates pass it. A strong finding about sizes must not let a doubtful entry through.
    """
    everything = [one for topic in topics for one in topic]
    passed: set[str] = set()
    for by_rotation in (False, True):
        families = [[one.candidate for one in some if one.by_rotation is by_rotation] for some in (everything, *topics)]
        gates = [set(accepted_cells({one.id: one.p_value for one in family}, FALSE_DISCOVERY_RATE / 2)) for family in families]
        passed |= gates[0] & set().union(*gates[1:])
    return [replace(one.candidate, chance=not (enough and one.candidate.id in passed)) for one in everything]


def _rounded(one: Candidate) -> Candidate:
    """Returns the candidate with its numbers rounded to six significant digits."""
    return replace(
        one, mean=rounded(one.mean), interval=rounded(one.interval), rest=rounded(one.rest), p_value=rounded(one.p_value),
        difference=rounded(one.difference),
    )  # fmt: skip


def tested_count(found: Sequence[Candidate]) -> int:
    """Returns how many candidates were tested against chance."""
    return sum(one.rest is not None for one in found)


def comparable_outcomes(
    episodes: Sequence[Episode], claims_count: bool, currency: str = "USD", money: OutcomeUnit | None = None
) -> Sample:
    """Returns the trades that count, in the order of their entries, with their outcomes in one unit."""
    unit = choose_unit(episodes, claims_count, money)
    believed = sorted(
        (e for e in episodes if e.teaches and (claims_count or not e.claimed)), key=lambda e: (e.entry_at, e.exit_at, e.id)
    )
    return _sample([(e, e.pnl_r) for e in in_unit(believed, unit) if e.pnl_r is not None], unit.phrase(currency))


def one_value_per_signal(sample: Sample) -> Sample:
    """Returns one observation for each signal, with the mean outcome and all tags of its trades."""
    signals: dict[tuple[str, str, int], list[int]] = defaultdict(list)
    for at, trade in enumerate(sample.trades):
        signals[signal_of(trade)].append(at)
    if len(signals) == len(sample.trades):
        return sample
    places = list(signals.values())
    tags = [tuple(dict.fromkeys(tag for i in group for tag in sample.trades[i].tags)) for group in places]
    return Sample(
        tuple(sample.trades[group[0]]._replace(tags=own) for group, own in zip(places, tags, strict=True)),
        tuple(mean([sample.values[i] for i in group]) for group in places),
        tuple(tuple(id_ for i in group for id_ in sample.ids[i]) for group in places), sample.unit,
    )  # fmt: skip


def _sample(pairs: Sequence[tuple[Episode, float]], unit: str) -> Sample:
    return Sample(tuple(e for e, _ in pairs), tuple(value for _, value in pairs), tuple((e.id,) for e, _ in pairs), unit)


def _known_exits(sample: Sample) -> Sample:
    """Returns the trades whose R is by a stop and whose exit is known: what a stop cost is not guessed from the outcome."""
    return sample.of([i for i, e in enumerate(sample.trades) if e.r_source == "stop" and e.trigger is not None])


def _without(sample: Sample, teach: str) -> Sample:
    return sample.of([i for i, e in enumerate(sample.trades) if e.teach != teach])


# --- tested candidates --------------------------------------------------------------------------------------------------


def _of_entries(sample: Sample) -> list[JudgedCandidate]:
    """Tests the outcomes of groups by what was known at the entry."""
    return _tested(sample, entry_groups(sample.trades))


def _of_holding(sample: Sample) -> list[JudgedCandidate]:
    """Tests the outcomes of the longest and the shortest held third of the trades closed by choice."""
    chosen = sample.of([i for i, e in enumerate(sample.trades) if e.hold_minutes is not None and closed_by_trader(e)])
    held = [e.hold_minutes or 0.0 for e in chosen.trades]
    if len(held) < 3 * MIN_GROUP_TRADES:
        return []
    third, everyone = len(held) // 3, tuple(range(len(held)))
    short, long = sorted(held)[third - 1], sorted(held)[-third]
    longest, shortest = (tuple(i for i in everyone if held[i] >= long), tuple(i for i in everyone if held[i] <= short))
    return _tested(
        chosen,
        [
            TradeGroup(
                "exit_timing",
                "hold",
                "longest third",
                f"trades closed by choice after {duration_phrase(long)} or more",
                longest,
                everyone,
                tail="lower",
            ),
            TradeGroup(
                "exit_timing",
                "hold",
                "shortest third",
                f"trades closed by choice within {duration_phrase(short)}",
                shortest,
                everyone,
                tail="upper",
            ),
        ],
    )


def _of_losses(sample: Sample) -> list[JudgedCandidate]:
    """Tests the outcomes of trades entered after losses."""
    counted = sample.of([i for i, e in enumerate(sample.trades) if e.consecutive_losses is not None])
    return _tested(counted, _after_losses(counted.trades, "cell"))


def _of_sizes(sample: Sample) -> list[JudgedCandidate]:
    """Tests the risk taken after losses, as a multiple of the usual risk; `rest` is therefore 1."""
    sized = sample.of([i for i, e in enumerate(sample.trades) if e.consecutive_losses is not None and e.risk_share])
    risks = sized._replace(values=tuple(e.risk_share or 0.0 for e in sized.trades))
    found = []
    for one, by_rotation in _tested(risks, _after_losses(risks.trades, SIZE_AFTER_LOSSES)):
        usual = one.rest or 1.0
        low, high = one.difference or (0.0, 0.0)
        scaled = replace(
            one, mean=one.mean / usual, interval=(one.interval[0] / usual, one.interval[1] / usual), rest=1.0,
            difference=(low / usual, high / usual), unit="times the usual risk",
        )  # fmt: skip
        small = abs(scaled.mean - 1.0) < MIN_RISK_DIFFERENCE
        found.append(JudgedCandidate(replace(scaled, p_value=1.0) if small else scaled, by_rotation))
    return found


def _after_losses(trades: Sequence[Episode], kind: str) -> list[TradeGroup]:
    everyone = tuple(range(len(trades)))
    return [
        TradeGroup("sizing", "losses", f"{least} or more",
             f"trades entered after {'a loss' if least == 1 else f'{least} losses or more in a row'}",
             tuple(i for i, e in enumerate(trades) if (e.consecutive_losses or 0) >= least), everyone, kind=kind)
        for least in (1, 2)
    ]  # fmt: skip


def _of_what_came_after(sample: Sample, after: Mapping[str, float]) -> list[JudgedCandidate]:
    """Tests how far the market moved on after an exit, by exit cause, against the other exits."""
    followed = _followed_after_exit(sample, after)
    everyone = tuple(range(len(followed.trades)))
    return _tested(followed, [
        TradeGroup("exit_timing", "exit", cause, _stopped(followed.of(inside), after), inside, everyone,
                   kind="stopped_then_right")
        if cause == STOP else
        TradeGroup("exit_timing", "exit", cause, f"trades closed {close_phrase(cause)}", inside, everyone, kind="went_on")
        for cause, inside in _causes(followed.trades).items()
    ])  # fmt: skip


def _followed_after_exit(sample: Sample, after: Mapping[str, float]) -> Sample:
    """Returns the trades observed after their exit, with how far the market then moved in their favour, in R from the exit."""
    followed = sample.of([i for i, e in enumerate(sample.trades) if e.id in after])
    return followed._replace(values=tuple(after[e.id] - r for e, r in zip(followed.trades, followed.values, strict=True)))


def _stopped(sample: Sample, after: Mapping[str, float]) -> str:
    """Returns the label of stopped trades, with how many of them later would have been right."""
    recovered = sum(after[e.id] >= UP_AT_BEST_R for e in sample.trades)
    return f"stopped trades, {recovered} of {len(sample.trades)} later at +1R or better"


def _causes(trades: Sequence[Episode]) -> dict[str, tuple[int, ...]]:
    """Returns the trades by known exit cause. The stop comes first, so that it is kept when two groups are complements."""
    found: dict[str, list[int]] = defaultdict(list)
    for at, e in enumerate(trades):
        cause = (e.trigger or "").lower()
        found[STOP if STOP in cause else cause].append(at)
    return {cause: tuple(found[cause]) for cause in sorted(found, key=lambda cause: (cause != STOP, cause))}


def _tested(sample: Sample, cells: Sequence[TradeGroup]) -> list[JudgedCandidate]:
    """Returns the groups as candidates with their p-values. `chance` is decided later, over all candidates."""
    cells = distinct_groups([cell for cell in cells if has_enough_trades(cell, sample.trades)])
    days = sample.days
    rotated = {cell.field: constant_within_days(cell.field, cells, days) for cell in cells}
    found: list[JudgedCandidate] = []
    for by_rotation, test in ((False, flip_tests), (True, rotation_tests)):
        family = [cell for cell in cells if rotated[cell.field] is by_rotation]
        questions = [GroupQuestion(cell.inside, cell.known, cell.tail) for cell in family]
        for cell, tested in zip(family, test(sample.values, days, questions), strict=True):
            one = _candidate(cell, sample)
            found.append(JudgedCandidate(replace(one, p_value=tested.p_value, difference=tested.interval), by_rotation))
    return found


def _candidate(cell: TradeGroup, sample: Sample) -> Candidate:
    inside = sample.of(cell.inside)
    rest = [sample.values[i] for i in sorted(set(cell.known).difference(cell.inside))]
    return Candidate(
        id=make_id(cell.slot, cell.kind, cell.field, cell.value), slot=cell.slot, kind=cell.kind, field=cell.field,
        value=cell.value, label=cell.label, unit=sample.unit, n=len(inside.trades), total=len(sample.trades),
        mean=mean(inside.values), interval=mean_interval(inside.values, inside.days), rest=mean(rest) if rest else None,
        p_value=1.0, chance=True, trades=tuple(id_ for ids in inside.ids for id_ in ids), regime=cell.regime,
        days=len(set(inside.days)),
    )  # fmt: skip


# --- described candidates ------------------------------------------------------------------------------------------------


def _all(sample: Sample) -> Candidate:
    """Returns all trades together, in the first slot, where a lesson may say that nothing stands out."""
    everyone = tuple(range(len(sample.trades)))
    return _candidate(TradeGroup("entry_timing", "all", "all", "all trades", everyone, everyone, kind="all"), sample)


def _described(sample: Sample, after: Mapping[str, float]) -> list[Candidate]:
    """Returns the candidates that have nothing to be compared with."""
    found = [
        _description("exit_cause", "exit", cause, f"trades closed {close_phrase(cause)}", sample.of(inside))
        for cause, inside in _causes(sample.trades).items()
    ]
    followed = _followed_after_exit(sample, after)
    stops = _causes(followed.trades).get(STOP, ())
    found += [_given_back(sample), _heat(sample)]
    if not has_enough_trades(TradeGroup("exit_timing", "", "", "", stops, tuple(range(len(followed.trades)))), followed.trades):
        sample = followed.of(stops)
        found.append(_description("stopped_then_right", "exit", STOP, _stopped(sample, after), sample))
    return [one for one in found if one is not None]


def _description(kind: str, field: str, value: str, label: str, sample: Sample) -> Candidate | None:
    if len(sample.trades) < MIN_GROUP_TRADES:
        return None
    everyone = tuple(range(len(sample.trades)))
    return _candidate(TradeGroup("exit_timing", field, value, label, everyone, everyone, kind=kind), sample)


def _given_back(sample: Sample) -> Candidate | None:
    """Describes what trades that had been up 1R gave back from their best."""
    pairs = [
        (e, r, e.mfe_r - r)
        for e, r in zip(sample.trades, sample.values, strict=True)
        if e.mfe_r is not None and e.mfe_r >= UP_AT_BEST_R
    ]
    lost = sum(r <= 0 for _, r, _ in pairs)
    label = f"trades that had been up 1R or more ({lost} ended at or below zero)"
    return _description("give_back", "best", "up 1R", label, _sample([(e, back) for e, _, back in pairs], "R"))


def _heat(sample: Sample) -> Candidate | None:
    """Describes how far winning trades first went against the position: where a stop may be placed."""
    pairs = [(e, -abs(e.mae_r)) for e, r in zip(sample.trades, sample.values, strict=True) if r > 0 and e.mae_r is not None]
    if not pairs:
        return None
    # Nine in ten winners stayed above this depth.
    depth = sorted(heat for _, heat in pairs)[len(pairs) // 10]
    return _description(
        "heat", "worst", "winners", f"winners, 9 in 10 of which never went below {depth:.2f}R", _sample(pairs, "R")
    )


# --- phrases -------------------------------------------------------------------------------------------------------------


def close_phrase(cause: str) -> str:
    """Returns the exit cause as a phrase.

    >>> close_phrase("stop"), close_phrase("manual"), close_phrase("time exit")
    ('by the stop', 'by hand', 'by "time exit"')
    """
    return {STOP: "by the stop", "manual": "by hand", "target": "at the target"}.get(cause, f"by {safe_name(cause)}")


def closed_by_trader(episode: Episode) -> bool:
    """Returns True if the trader closed the trade, not the stop, the target or the venue, as its source says."""
    words = (STOP, "target", "profit", "tp", "liquidat", "expir")
    return episode.trigger is not None and not any(word in episode.trigger.lower() for word in words)


def duration_phrase(minutes: float) -> str:
    """Returns a holding time as a phrase.

    >>> duration_phrase(45), duration_phrase(150), duration_phrase(360), duration_phrase(4320)
    ('45 min', '2.5 h', '6 h', '3 days')
    """
    if minutes < 60:
        return f"{minutes:.0f} min"
    if minutes < 2880:
        return f"{minutes / 60:.1f}".removesuffix(".0") + " h"
    return f"{minutes / 1440:.1f}".removesuffix(".0") + " days"
