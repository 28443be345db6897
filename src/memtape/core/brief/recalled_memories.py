"""Which of the recalled memories a brief shows: each fact once, and no signal twice.

Recall is asked for more than a brief shows, because trades of one signal (the same symbol and side, entered in the same second)
are one line with a count. What a warning says is not repeated as a recalled memory, and neither is a trade that stands among the
recent ones. A belief is shown only once it has passed the gate, and where its conditions do not contradict the situation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from memtape.core.memory.beliefs import Belief
from memtape.core.memory.episodes import Episode
from memtape.core.memory.outcome_units import NO_UNIT, OutcomeUnit, Signal, signal_of
from memtape.core.observed import ANY, Situation
from memtape.core.recall.reference import Recalled
from memtape.core.value_class import dataclass

RECALLED_FOR_BRIEF = 60  # memories and warnings that recall is asked for, so that enough signals remain
MAX_WARNING_LINES = 3
MAX_RECALLED_LINES = 3
CONDITIONS = ("symbol", "regime", "volatility_regime", "session")


@dataclass(frozen=True, slots=True)
class SignalMemory:
    """The memory of one signal: its best-placed episode, and how many trades it had."""

    episode: Episode
    tier: int
    n: int  # trades of the signal among those that recall found
    far: bool = False  # of a warning: no loss is similar, and this is the nearest
    unit: OutcomeUnit = NO_UNIT  # in which its outcome is told
    trades: tuple[Episode, ...] = ()  # all trades of the signal, if it has several and they were read


def warned_signals(recalled: Recalled, limit: int = MAX_WARNING_LINES) -> list[SignalMemory]:
    """Returns the losses to warn of, the worst first, each signal once."""
    unit = next((each.unit for each in recalled.warnings), NO_UNIT)
    return _by_signal(((each.memory, each.far) for each in recalled.warnings), limit, unit)


def recalled_signals(
    recalled: Recalled, warned: Iterable[SignalMemory], now: Situation, shown: Collection[str] = (),
    limit: int = MAX_RECALLED_LINES,
) -> list[SignalMemory | Belief]:  # fmt: skip
    """Returns the memories to show in the order of their rank: signals that no warning and no recent trade says, and beliefs.

    One place is for the best belief: it has passed a gate, and a single trade has not.
    """
    said, unit = {signal_of(each.episode) for each in warned}, recalled.evidence.unit
    episodes = [each.memory for each in recalled.ranked if isinstance(each.memory, Episode) and _tells_outcome(each.memory)]
    said |= {signal_of(episode) for episode in episodes if episode.id in shown}
    signals = {each.episode.id: each for each in _by_signal(((e, False) for e in episodes), len(episodes), unit)}
    found: list[SignalMemory | Belief] = []
    for each in (*recalled.ranked, *recalled.beliefs):
        memory = each.memory
        if isinstance(memory, Belief):
            found += [memory] if memory.status == "believed" and _applies(memory, now) else []
        elif isinstance(memory, Episode) and memory.id in signals and signal_of(memory) not in said:
            found.append(signals[memory.id])
    first = next((at for at, each in enumerate(found) if isinstance(each, Belief)), None)
    return found[:limit] if first is None or first < limit else [*found[: limit - 1], found[first]]


def _tells_outcome(episode: Episode) -> bool:
    """Returns False for a trade of which nobody knows how it ended: it has nothing to say about the next one."""
    return episode.kind != "trade" or episode.pnl_r is not None or episode.pnl_usd is not None


def _applies(belief: Belief, now: Situation) -> bool:
    """Returns True if nothing that is known of the present situation contradicts the conditions of a belief."""
    pairs = [(getattr(belief.situation, name), getattr(now, name)) for name in CONDITIONS]
    return all(then == present or then in (None, ANY) or present in (None, ANY) for then, present in pairs)


def shown_episodes(recalled: Recalled | None, now: Situation, shown: Collection[str]) -> list[Episode]:
    """Returns the episodes that a brief shows: those whose entry reason, and whose other trades of the signal, it needs."""
    if recalled is None:
        return []
    warned = warned_signals(recalled)
    rest = recalled_signals(recalled, warned, now, shown)
    return [each.episode for each in (*warned, *rest) if isinstance(each, SignalMemory)]


def _by_signal(episodes: Iterable[tuple[Episode, bool]], limit: int, unit: OutcomeUnit) -> list[SignalMemory]:
    groups: dict[tuple[Signal, str], list[tuple[Episode, bool]]] = {}
    for episode, far in episodes:
        groups.setdefault((signal_of(episode), episode.kind), []).append((episode, far))
    return [
        SignalMemory(group[0][0], group[0][0].tier, len(group), group[0][1], unit)
        for group in list(groups.values())[:limit]
    ]
