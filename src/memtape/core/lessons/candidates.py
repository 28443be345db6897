"""Finds candidates: patterns of entries, exits and sizes in closed trades, in numbers, each tested against chance.

Which trades count: trades that may teach and have a believed outcome. The owner's labels exclude more. `wrong_reason`: the trade
ended as it did for another reason than the stated one, so it is not used for entries (entry timing, symbol selection, regime
fit), but for its exit and size. `structural`: a halt, an outage, funding or a roll caused the outcome, so it is not used for
exits and sizes, but for its entry.

The unit: R from stops if ten trades have it, else R from ATR, never both; else the account's currency.

The question about entries: does a group (`trade_groups`) end better or worse than the trades outside it?

The questions about exits. A stop loses and a target wins by construction, and the nearer of the two is reached sooner. Outcome by
exit cause, or by holding time over all trades, would therefore only rediscover the bracket. So:
- Holding time is tested only on trades closed by choice, and only in the direction that a bracket cannot explain. A trade that is
  not stopped for long looks better for that alone; a worse longest third, or a better shortest third, is a habit.
- An exit cause is tested by the market after the exit: under chance it moves as far after a stop as after any other exit.
- Give-back from the best, the heat that winners took and the cost of each exit cause are only described. There is nothing to
  compare them with, so they claim nothing: p-value 1, `rest` None.

The questions about sizes: is more or less risked after losses, and how do those trades end?

Every p-value comes from shuffled outcomes (`shuffle`). A candidate could be chance unless it passes the gate of Benjamini and
Hochberg over all tested candidates, shown or not.

>>> find_candidates([], claims_count=True)
[]
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Literal, NamedTuple

from memtape.core.brief.sanitize import safe_name
from memtape.core.codec import make_id
from memtape.core.lessons.reflection import SLOTS, Candidate
from memtape.core.lessons.shuffle import GroupQuestion, mean_interval, shuffle_p_values
from memtape.core.lessons.trade_groups import (
    MIN_GROUP_TRADES,
    TradeGroup,
    distinct_groups,
    entry_groups,
    has_enough_trades,
)
from memtape.core.memory.behaviour import stopped_out
from memtape.core.memory.beliefs import accepted_cells
from memtape.core.memory.episodes import Episode, believed_outcome
from memtape.core.memory.outcome_units import STOPS
from memtape.core.recall.evidence import rounded
from memtape.core.statistics import mean

Unit = Literal["R", "account"]
NO_ENTRY, NO_EXIT = "wrong_reason", "structural"  # the owner's labels that exclude a trade
STOP = "stop"
# As a share of the usual risk. After a loss equity is smaller, so even a fixed size is a slightly larger share of it.
MIN_RISK_DIFFERENCE = 0.1
# Groups overlap. At this rate, fewer than one in ten histories without any effect give a lesson.
FALSE_DISCOVERY_RATE = 0.08
UP_AT_BEST_R = 1.0  # R at its best, from which a trade has something to give back
NOTHING_AFTER: Mapping[str, float] = MappingProxyType({})


class Sample(NamedTuple):
    """Trades and one value of each; the values are shuffled to test questions about the trades."""

    trades: tuple[Episode, ...]
    values: tuple[float, ...]
    unit: Unit

    def of(self, places: Sequence[int]) -> Sample:
        return Sample(tuple(self.trades[i] for i in places), tuple(self.values[i] for i in places), self.unit)


def find_candidates(
    episodes: Sequence[Episode], *, claims_count: bool, after: Mapping[str, float] = NOTHING_AFTER
) -> list[Candidate]:
    """Returns every candidate: all trades together, then by p-value.

    `after` gives by trade id the best result that the trade would have reached after its exit, in R from its entry.
    """
    measured = comparable_outcomes(episodes, claims_count)
    if not measured.trades:
        return []
    exits = _without(measured, NO_EXIT)
    by_outcome = [*_of_entries(_without(measured, NO_ENTRY)), *_of_holding(exits), *_of_losses(exits)]
    families = (by_outcome, _of_sizes(exits), _of_what_came_after(exits, after))
    found = [*_judged(families), *_described(exits, after)]
    found.sort(key=lambda one: (one.p_value, SLOTS.index(one.slot), one.id))
    return [_rounded(one) for one in (_all(measured), *found)]


def _judged(families: Sequence[Sequence[Candidate]]) -> list[Candidate]:
    """Returns the candidates with `chance` decided: each must pass the gate over all families and the gate of its own family.

    The gate becomes wider the more candidates pass it. A strong finding about sizes must not let a doubtful entry through.
    """
    everything = [one for family in families for one in family]
    passing = [
        frozenset(accepted_cells({one.id: one.p_value for one in family}, FALSE_DISCOVERY_RATE))
        for family in (everything, *families)
    ]
    return [replace(one, chance=not (one.id in passing[0] and any(one.id in own for own in passing[1:]))) for one in everything]


def _rounded(one: Candidate) -> Candidate:
    """Returns the candidate with its numbers rounded to six significant digits."""
    return replace(
        one, mean=rounded(one.mean), interval=rounded(one.interval), rest=rounded(one.rest), p_value=rounded(one.p_value)
    )  # fmt: skip


def tested_count(found: Sequence[Candidate]) -> int:
    """Returns how many candidates were tested against chance."""
    return sum(one.rest is not None for one in found)


def comparable_outcomes(episodes: Sequence[Episode], claims_count: bool) -> Sample:
    """Returns the trades that count, in the order of their entries, with their outcomes in one unit."""
    believed = sorted(
        (e for e in episodes if e.teaches and (claims_count or not e.claimed)), key=lambda e: (e.entry_at, e.exit_at, e.id)
    )
    in_r = [(e, r) for e in believed if (r := believed_outcome(e, claims_count)) is not None]
    lots = (
        _sample([(e, r) for e, r in in_r if e.r_source in STOPS], "R"),
        _sample([(e, r) for e, r in in_r if e.r_source == "atr_proxy"], "R"),
        _sample([(e, e.pnl_usd) for e in believed if e.pnl_usd is not None], "account"),
    )
    return next(
        (sample for sample in lots if len(sample.trades) >= MIN_GROUP_TRADES), max(lots, key=lambda sample: len(sample.trades))
    )


def _sample(pairs: Sequence[tuple[Episode, float]], unit: Unit) -> Sample:
    return Sample(tuple(e for e, _ in pairs), tuple(value for _, value in pairs), unit)


def _without(sample: Sample, teach: str) -> Sample:
    return sample.of([i for i, e in enumerate(sample.trades) if e.teach != teach])


# --- tested candidates --------------------------------------------------------------------------------------------------


def _of_entries(sample: Sample) -> list[Candidate]:
    """Tests the outcomes of groups by what was known at the entry."""
    return _tested(sample, entry_groups(sample.trades))


def _of_holding(sample: Sample) -> list[Candidate]:
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


def _of_losses(sample: Sample) -> list[Candidate]:
    """Tests the outcomes of trades entered after losses."""
    counted = sample.of([i for i, e in enumerate(sample.trades) if e.consecutive_losses is not None])
    return _tested(counted, _after_losses(counted.trades, "cell"))


def _of_sizes(sample: Sample) -> list[Candidate]:
    """Tests the risk taken after losses, as a multiple of the usual risk; `rest` is therefore 1."""
    sized = sample.of([i for i, e in enumerate(sample.trades) if e.consecutive_losses is not None and e.risk_share])
    if sample.unit != "R":
        return []
    risks = sized._replace(values=tuple(e.risk_share or 0.0 for e in sized.trades))
    found = []
    for one in _tested(risks, _after_losses(risks.trades, "size_after_losses")):
        usual = one.rest or 1.0
        times, bounds = one.mean / usual, (one.interval[0] / usual, one.interval[1] / usual)
        p_value = one.p_value if abs(times - 1.0) >= MIN_RISK_DIFFERENCE else 1.0
        found.append(replace(one, mean=times, interval=bounds, rest=1.0, p_value=p_value))
    return found


def _after_losses(trades: Sequence[Episode], kind: str) -> list[TradeGroup]:
    everyone = tuple(range(len(trades)))
    return [
        TradeGroup("sizing", "losses", f"{least} or more",
             f"trades entered after {'a loss' if least == 1 else f'{least} losses or more in a row'}",
             tuple(i for i, e in enumerate(trades) if (e.consecutive_losses or 0) >= least), everyone, kind=kind)
        for least in (1, 2)
    ]  # fmt: skip


def _of_what_came_after(sample: Sample, after: Mapping[str, float]) -> list[Candidate]:
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
    followed = sample.of([i for i, e in enumerate(sample.trades) if e.id in after and sample.unit == "R"])
    return followed._replace(values=tuple(after[e.id] - r for e, r in zip(followed.trades, followed.values, strict=True)))


def _stopped(sample: Sample, after: Mapping[str, float]) -> str:
    """Returns the label of stopped trades, with how many of them later would have been right."""
    recovered = sum(after[e.id] >= UP_AT_BEST_R for e in sample.trades)
    return f"stopped trades, {recovered} of {len(sample.trades)} later at +1R or better"


def _causes(trades: Sequence[Episode]) -> dict[str, tuple[int, ...]]:
    """Returns the trades by known exit cause. The stop comes first, so that it is kept when two groups are complements."""
    found: dict[str, list[int]] = defaultdict(list)
    for at, e in enumerate(trades):
        if stopped_out(e):
            found[STOP].append(at)
        elif e.trigger is not None:
            found[e.trigger.lower()].append(at)
    return {cause: tuple(found[cause]) for cause in sorted(found, key=lambda cause: (cause != STOP, cause))}


def _tested(sample: Sample, cells: Sequence[TradeGroup]) -> list[Candidate]:
    """Returns the groups as candidates with their p-values. `chance` is decided later, over all candidates."""
    cells = distinct_groups([cell for cell in cells if has_enough_trades(cell, sample.trades)])
    questions = [GroupQuestion(cell.inside, cell.known, cell.tail) for cell in cells]
    p_values = shuffle_p_values(sample.values, [e.entry_at for e in sample.trades], questions)
    return [_candidate(cell, sample, p) for cell, p in zip(cells, p_values, strict=True)]


def _candidate(cell: TradeGroup, sample: Sample, p_value: float = 1.0) -> Candidate:
    inside = sample.of(cell.inside)
    rest = [sample.values[i] for i in sorted(set(cell.known).difference(cell.inside))]
    return Candidate(
        id=make_id(cell.slot, cell.kind, cell.field, cell.value), slot=cell.slot, kind=cell.kind, field=cell.field,
        value=cell.value, label=cell.label, unit=sample.unit, n=len(inside.trades), total=len(sample.trades),
        mean=mean(inside.values), interval=mean_interval(inside.values, [e.entry_at for e in inside.trades]),
        rest=mean(rest) if rest else None, p_value=p_value, chance=True, trades=tuple(e.id for e in inside.trades),
        regime=cell.regime,
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
    if sample.unit == "R":
        followed = _followed_after_exit(sample, after)
        stops = _causes(followed.trades).get(STOP, ())
        found += [_given_back(sample), _heat(sample)]
        if not has_enough_trades(
            TradeGroup("exit_timing", "", "", "", stops, tuple(range(len(followed.trades)))), followed.trades
        ):
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
    """Returns True if the trader closed the trade, not the stop, the target or the venue.

    The stated trigger decides; without one, the outcome does.
    """
    if stopped_out(episode):
        return False
    if episode.trigger is not None:
        return not any(word in episode.trigger.lower() for word in ("target", "profit", "tp", "liquidat", "expir"))
    return episode.target_r is None or episode.pnl_r is None or episode.pnl_r < 0.9 * episode.target_r


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
