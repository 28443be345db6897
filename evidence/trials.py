"""Does memory help a rule that follows it: the verdict of `memtape trial` in invented worlds.

A rule takes one possible trade after another: without memory all of them, with memory those that recall and the check before
an order do not advise against, and with a placebo, a memory whose outcomes were shuffled. In noise the verdict "memory helps"
is false. Planted: the rule wins in two of four regimes (+0.65R a trade) and loses in the others (-0.55R), or loses in one part of
the day, where recall weighs a session less than a regime. Known beforehand: nine of ten trades that would lose are not entered.
After every 50 worlds with two good regimes it is asked whether the bar is kept beyond doubt (1 in 1,000), which ends them.
Beside each verdict stands how often memory would pass a plain test against no memory, by weeks and without a placebo.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from evidence.figures import Figure, Scale, percent_of, settled, share_figure
from evidence.trial_worlds import TRIAL_NOISE, TRIAL_PLANTED, TRIAL_SESSION, Tried, known_beforehand, never_ask, tried
from evidence.worlds import World
from memtape.core.memory.episodes import Episode

WORLDS: dict[Scale, int] = {"small": 1, "full": 200}  # of each kind
FURTHER: dict[Scale, int] = {"small": 0, "full": 100}  # of further kinds of noise
SESSION_WORLDS: dict[Scale, int] = {"small": 0, "full": 50}  # without a bar
MAX_FALSE, MIN_FOUND = 0.05, 0.80
MAIN = ("trial: brackets without an edge", "trial: outcomes on a random walk", "trial: each outcome keeps half of the one before")


def study(scale: Scale) -> Iterator[Figure]:
    """Yields the share of verdicts in each kind of world."""
    for world in TRIAL_NOISE if scale == "full" else TRIAL_NOISE[:1]:
        yield _helps(world, _verdicts(world, (WORLDS if world.name in MAIN else FURTHER)[scale], tried), at_most=MAX_FALSE)
    for world in TRIAL_PLANTED:
        lived = (tried(world.history(str(n))) for n in range(WORLDS[scale]))
        found = settled(lived, lambda one: one.answer == "helps", MIN_FOUND)
        yield _helps(world, found, at_least=MIN_FOUND)
    if SESSION_WORLDS[scale]:
        yield _helps(TRIAL_SESSION, _verdicts(TRIAL_SESSION, SESSION_WORLDS[scale], tried))
    peeking = _verdicts(TRIAL_NOISE[0], WORLDS[scale], lambda world: tried(known_beforehand(world)))
    yield share_figure("known beforehand: it is named", ["know the future" in one.reason for one in peeking], at_least=1.0)
    blind = _verdicts(TRIAL_PLANTED[0], WORLDS[scale] // 2 or 1, lambda world: tried(world, never_ask))
    yield share_figure("never asks memory: gets a verdict", [one.answer != "cannot be told" for one in blind], at_most=0)


def _verdicts(world: World, n: int, judge: Callable[[Sequence[Episode]], Tried]) -> list[Tried]:
    return [judge(world.history(str(number))) for number in range(n)]


def _helps(
    world: World, verdicts: Sequence[Tried], at_most: float | None = None, at_least: float | None = None
) -> Figure:
    plain = percent_of(one.passes_plainly for one in verdicts)
    name, helps = f"{world.name.removeprefix('trial: ')}: memory helps", [one.answer == "helps" for one in verdicts]
    return share_figure(name, helps, at_most, at_least, f"{plain} pass a plain test by weeks")

