"""Candidates: what closed trades say of entries, exits and sizes, in numbers, and whether chance would do as much.

Which trades count. Trades that may teach and whose outcome is believed; the owner's word narrows it further. `wrong_reason`: it
came out as it did for another reason than the one given, so it says nothing of entries (entry timing, symbol selection, regime
fit), but its exit and its size were real. `structural`: a halt, an outage, funding or a roll made the outcome, so it says nothing
of exits and sizes, but the entry stood in that market all the same.

The unit. R from stops where ten trades have it, else R from ATR, never both; else the account's currency.

What is asked of entries: does a cell (`cells`) end better or worse than the trades outside it?

What is asked of exits. A stop loses and a target wins by construction, and whichever lies nearer is met sooner: outcome by exit
cause, or by holding time over all trades, finds the bracket and calls it a lesson. So:
- holding time is asked only of trades that were closed by choice, and only the way a bracket cannot explain. A trade that lives
  on without being stopped can only look better for it; that the longest held third is worse, or the shortest better, is a habit.
- an exit cause is asked by what came after: under chance the market goes on as far after a stop as after any other exit.
- what was given back from the best, the heat that winners took and the cost of each exit cause are described. Nothing stands
  against them that chance would do, so they claim nothing: p-value 1, `rest` None.

What is asked of sizes: is more or less risked after losses, and how do those trades end?

Every p-value comes from shuffled outcomes (`shuffling`); a candidate could be chance unless it passes the gate of Benjamini and
Hochberg over all that was asked, told or not.

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
from memtape.core.recall.evidence import STOPS, rounded
from memtape.core.statistics import mean

Unit = Literal["R", "account"]
NO_ENTRY, NO_EXIT = "wrong_reason", "structural"  # what the owner says an outcome tells nothing of
STOP = "stop"
# Of the usual risk. After a loss equity is smaller, so even a fixed size is a slightly larger share of it.
MIN_RISK_DIFFERENCE = 0.1
# Cells overlap. Of histories without any effect, fewer than one in ten may give a lesson.
FALSE_DISCOVERY_RATE = 0.08
UP_AT_BEST_R = 1.0  # R at its best: from there on there is something to give back
NOTHING_AFTER: Mapping[str, float] = MappingProxyType({})


class Sample(NamedTuple):
    """Trades and one figure of each, which is shuffled to judge questions about them."""

    trades: tuple[Episode, ...]
    values: tuple[float, ...]
    unit: Unit

    def of(self, places: Sequence[int]) -> Sample:
        return Sample(tuple(self.trades[i] for i in places), tuple(self.values[i] for i in places), self.unit)


def find_candidates(
    episodes: Sequence[Episode], *, claims_count: bool, after: Mapping[str, float] = NOTHING_AFTER
) -> list[Candidate]:
    """All that was looked at: all trades together, then what is least likely chance first.

    `after` tells by trade id how far a trade would have stood at its best after its exit, in R from its entry.
    """
    measured = comparable_outcomes(episodes, claims_count)
    if not measured.trades:
        return []
    exits = _without(measured, NO_EXIT)
    outcome_asked = [*_of_entries(_without(measured, NO_ENTRY)), *_of_holding(exits), *_of_losses(exits)]
    families = (outcome_asked, _of_sizes(exits), _of_what_came_after(exits, after))
    found = [*_judged(families), *_described(exits, after)]
    found.sort(key=lambda one: (one.p_value, SLOTS.index(one.slot), one.id))
    return [_leaving(one) for one in (_all(measured), *found)]


def _judged(families: Sequence[Sequence[Candidate]]) -> list[Candidate]:
    """Whether each could be chance: it must pass the gate over all that was asked, and over what was asked of the same figure.

    The gate opens wider the more passes it; that sizes follow losses, beyond doubt, must not carry a doubtful entry through.
    """
    everything = [one for sample in families for one in sample]
    passing = [
        frozenset(accepted_cells({one.id: one.p_value for one in sample}, FALSE_DISCOVERY_RATE))
        for sample in (everything, *families)
    ]
    return [replace(one, chance=not (one.id in passing[0] and any(one.id in own for own in passing[1:]))) for one in everything]


def _leaving(one: Candidate) -> Candidate:
    """With six significant digits, as all figures leave."""
    return replace(
        one, mean=rounded(one.mean), interval=rounded(one.interval), rest=rounded(one.rest), p_value=rounded(one.p_value)
    )  # fmt: skip


def tested_count(found: Sequence[Candidate]) -> int:
    """How many of them were held against chance."""
    return sum(one.rest is not None for one in found)


def comparable_outcomes(episodes: Sequence[Episode], claims_count: bool) -> Sample:
    """The trades that count, in the order of their entries, with their outcomes in one unit."""
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


# --- what is asked ------------------------------------------------------------------------------------------------------


def _of_entries(sample: Sample) -> list[Candidate]:
    """How trades end, by what was known at their entry."""
    return _tested(sample, entry_groups(sample.trades))


def _of_holding(sample: Sample) -> list[Candidate]:
    """How trades end that were closed by choice, the longest and the shortest held third."""
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
    """How trades end that were entered after losses."""
    counted = sample.of([i for i, e in enumerate(sample.trades) if e.consecutive_losses is not None])
    return _tested(counted, _after_losses(counted.trades, "cell"))


def _of_sizes(sample: Sample) -> list[Candidate]:
    """How much was risked after losses, in multiples of what was risked otherwise: so `rest` is 1."""
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
    """How far the market went on after an exit, by what closed the trade, against the other exits."""
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
    """The trades that were watched after their exit, with how far the market then went their way, in R from the exit."""
    followed = sample.of([i for i, e in enumerate(sample.trades) if e.id in after and sample.unit == "R"])
    return followed._replace(values=tuple(after[e.id] - r for e, r in zip(followed.trades, followed.values, strict=True)))


def _stopped(sample: Sample, after: Mapping[str, float]) -> str:
    """Stopped trades, and how many of them would have been right after all."""
    recovered = sum(after[e.id] >= UP_AT_BEST_R for e in sample.trades)
    return f"stopped trades, {recovered} of {len(sample.trades)} later at +1R or better"


def _causes(trades: Sequence[Episode]) -> dict[str, tuple[int, ...]]:
    """The trades by what closed them, as far as that is known; the stop first, so that it is the one told of two halves."""
    found: dict[str, list[int]] = defaultdict(list)
    for at, e in enumerate(trades):
        if stopped_out(e):
            found[STOP].append(at)
        elif e.trigger is not None:
            found[e.trigger.lower()].append(at)
    return {cause: tuple(found[cause]) for cause in sorted(found, key=lambda cause: (cause != STOP, cause))}


def _tested(sample: Sample, cells: Sequence[TradeGroup]) -> list[Candidate]:
    """The cells as candidates, each with its p-value; whether it could be chance is decided over all that is asked."""
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


# --- what is described ---------------------------------------------------------------------------------------------------


def _all(sample: Sample) -> Candidate:
    """All trades together; the slot is the first, where it is told that nothing stands out."""
    everyone = tuple(range(len(sample.trades)))
    return _candidate(TradeGroup("entry_timing", "all", "all", "all trades", everyone, everyone, kind="all"), sample)


def _described(sample: Sample, after: Mapping[str, float]) -> list[Candidate]:
    """What has nothing to be compared with: told as it is, or not at all."""
    found = [
        _as_it_is("exit_cause", "exit", cause, f"trades closed {close_phrase(cause)}", sample.of(inside))
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
            found.append(_as_it_is("stopped_then_right", "exit", STOP, _stopped(sample, after), sample))
    return [one for one in found if one is not None]


def _as_it_is(kind: str, field: str, value: str, label: str, sample: Sample) -> Candidate | None:
    if len(sample.trades) < MIN_GROUP_TRADES:
        return None
    everyone = tuple(range(len(sample.trades)))
    return _candidate(TradeGroup("exit_timing", field, value, label, everyone, everyone, kind=kind), sample)


def _given_back(sample: Sample) -> Candidate | None:
    """What trades that had been up 1R gave back from their best."""
    pairs = [
        (e, r, e.mfe_r - r)
        for e, r in zip(sample.trades, sample.values, strict=True)
        if e.mfe_r is not None and e.mfe_r >= UP_AT_BEST_R
    ]
    lost = sum(r <= 0 for _, r, _ in pairs)
    label = f"trades that had been up 1R or more ({lost} ended at or below zero)"
    return _as_it_is("give_back", "best", "up 1R", label, _sample([(e, back) for e, _, back in pairs], "R"))


def _heat(sample: Sample) -> Candidate | None:
    """How far trades went against us that won in the end: where a stop may sit."""
    pairs = [(e, -abs(e.mae_r)) for e, r in zip(sample.trades, sample.values, strict=True) if r > 0 and e.mae_r is not None]
    if not pairs:
        return None
    depth = sorted(heat for _, heat in pairs)[len(pairs) // 10]  # nine in ten stayed above it
    return _as_it_is("heat", "worst", "winners", f"winners, 9 in 10 of which never went below {depth:.2f}R", _sample(pairs, "R"))


# --- words and marks -----------------------------------------------------------------------------------------------------


def close_phrase(cause: str) -> str:
    """What closed a trade, as one says it.

    >>> close_phrase("stop"), close_phrase("manual"), close_phrase("time exit")
    ('by the stop', 'by hand', 'by "time exit"')
    """
    return {STOP: "by the stop", "manual": "by hand", "target": "at the target"}.get(cause, f"by {safe_name(cause)}")


def closed_by_trader(episode: Episode) -> bool:
    """Returns True if the trader closed it: not the stop, the target or the venue, by the source or by the outcome."""
    if stopped_out(episode):
        return False
    if episode.trigger is not None:
        return not any(word in episode.trigger.lower() for word in ("target", "profit", "tp", "liquidat", "expir"))
    return episode.target_r is None or episode.pnl_r is None or episode.pnl_r < 0.9 * episode.target_r


def duration_phrase(minutes: float) -> str:
    """A holding time as one says it.

    >>> duration_phrase(45), duration_phrase(150), duration_phrase(360), duration_phrase(4320)
    ('45 min', '2.5 h', '6 h', '3 days')
    """
    if minutes < 60:
        return f"{minutes:.0f} min"
    if minutes < 2880:
        return f"{minutes / 60:.1f}".removesuffix(".0") + " h"
    return f"{minutes / 1440:.1f}".removesuffix(".0") + " days"
