"""Is the verdict of `memtape validate` calibrated?

Invented histories are walked forward and judged by the functions of the product. In all but the last kinds nothing that memory
could know matters: "memory helps" is then false. Then two of four regimes win and memory can learn it; after every 50 of these
worlds it is asked whether the bar is kept beyond doubt (1 in 1,000), which ends them. The command varies parameters by default
and counts them as tried, which makes "memory helps" rarer in every world; some planted ones are walked like that. At last the
regime is one that was read at the exit, and a sizing is asked about that bets on the right regimes but never looks at outcomes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evidence.figures import Figure, Scale, settled, share_figure
from evidence.validation_worlds import (
    NOISE,
    PLANTED,
    EvidenceMemory,
    answer,
    answer_of_command,
    in_trends_only,
    judged,
    labels_of_the_walk,
    regime_of_the_exit,
    walked,
)
from memtape.core.memory.episodes import Episode
from memtape.core.validation.look_ahead import look_ahead_signs
from memtape.core.validation.verdict import Answer

WORLDS: dict[Scale, int] = {"small": 1, "full": 200}  # of each kind
COMMAND_WORLDS: dict[Scale, int] = {"small": 1, "full": 40}
MAX_FALSE, MIN_FOUND = 0.05, 0.80


def study(scale: Scale) -> Iterator[Figure]:
    """Yields how often the verdict is that memory helps, and how often planted look-ahead is named."""
    for world in NOISE:
        yield _helps(world.name, [answer(world.history(str(seed))) for seed in range(WORLDS[scale])], at_most=MAX_FALSE)
    walks = [answer(labels_of_the_walk(str(n))) for n in range(WORLDS[scale])]
    yield _helps("labels and outcomes of one random walk", walks, at_most=MAX_FALSE)
    planted = (_planted(scale, n) for n in range(WORLDS[scale]))
    found = settled(planted, lambda one: one == "helps", MIN_FOUND)
    yield _helps(PLANTED.name, found, at_least=MIN_FOUND)
    as_command = [answer_of_command(PLANTED.history(f"command {n}")) for n in range(COMMAND_WORLDS[scale])]
    yield _helps(f"{PLANTED.name}, with the defaults of the command", as_command, at_least=MIN_FOUND)
    leaks = [regime_of_the_exit(NOISE[n % len(NOISE)].history(f"leak {n}")) for n in range(WORLDS[scale])]
    named = [bool(look_ahead_signs(leak, [e.pnl_r or 0.0 for e in leak])) for leak in leaks]
    yield share_figure("a regime that was read at the exit: named as look-ahead", named, at_least=0.95)
    blind = [_never_learns(PLANTED.history(f"small {n}")) for n in range(WORLDS[scale])]
    yield share_figure("a sizing that bets on the right regimes and never looks at outcomes: gets a verdict",
                       [one != "cannot be told" for one in blind], at_most=0)  # fmt: skip


def _planted(scale: Scale, n: int) -> Answer:
    return answer(PLANTED.history(str(n) if scale == "full" else f"small {n}"), likely_first=False)


def _never_learns(episodes: Sequence[Episode]) -> Answer:
    """Returns the answer on `in_trends_only`, which looks at the regime alone: other questions to memory change nothing."""
    decisions = walked(episodes, lambda memory: EvidenceMemory(memory, likely_alone=True))
    return judged(episodes, "in_trends_only", {"in_trends_only": in_trends_only}, decisions).verdict.answer


def _helps(name: str, answers: Sequence[str], at_most: float | None = None, at_least: float | None = None) -> Figure:
    said = f"\"memory hurts\" in {100 * answers.count('hurts') / len(answers):.1f} %"
    helps = [found == "helps" for found in answers]
    return share_figure(f"{name.removeprefix('validate: ')}: memory helps", helps, at_most, at_least, said)
