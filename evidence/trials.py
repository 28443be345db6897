"""Does memory help a rule that follows it: the verdict of `memtape trial` in invented worlds.

A rule takes one possible trade after another: without memory all of them, with memory those that recall and the check before
an order do not advise against, and with a placebo, a memory whose outcomes were shuffled. In noise the verdict "memory helps"
is false. Planted: the rule wins in two of four regimes (+0.65R a trade) and loses in the others (-0.55R), or loses in one part of
the day, where recall weighs a session less than a regime. Known beforehand: nine of ten trades that would lose are not entered.
Beside each verdict stands how often memory would pass a plain test against no memory, by weeks and without a placebo.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from evidence.figures import Figure, Scale, percent_of, share_figure
from evidence.trial_worlds import TRIAL_NOISE, TRIAL_PLANTED, TRIAL_SESSION, known_beforehand, never_ask, tried
from evidence.worlds import World
from memtape.core.memory.episodes import Episode
from memtape.core.validation.verdict import Verdict

WORLDS: dict[Scale, int] = {"small": 1, "full": 200}
MAX_FALSE, MIN_FOUND = 0.05, 0.80


def study(scale: Scale) -> list[Figure]:
    """Returns the share of verdicts in each kind of world."""
    n = WORLDS[scale]
    noise = TRIAL_NOISE[:1] if scale == "small" else TRIAL_NOISE
    found = [_helps(world, _verdicts(world, n, tried), at_most=MAX_FALSE) for world in noise]
    found += [_helps(world, _verdicts(world, n, tried), at_least=MIN_FOUND) for world in TRIAL_PLANTED]
    if scale == "full":
        found.append(_helps(TRIAL_SESSION, _verdicts(TRIAL_SESSION, n, tried)))
    peeking = _verdicts(TRIAL_NOISE[0], n, lambda world: tried(known_beforehand(world)))
    blind = _verdicts(TRIAL_PLANTED[0], n, lambda world: tried(world, never_ask))
    return [
        *found,
        share_figure("known beforehand: it is named", ["know the future" in one.reason for one in peeking], at_least=1.0),
        share_figure("never asks memory: gets a verdict", [one.answer != "cannot be told" for one in blind], at_most=0),
    ]


def _verdicts(world: World, n: int, judge: Callable[[Sequence[Episode]], Verdict]) -> list[Verdict]:
    return [judge(world.history(str(number))) for number in range(n)]


def _helps(
    world: World, verdicts: Sequence[Verdict], at_most: float | None = None, at_least: float | None = None
) -> Figure:
    plain = percent_of(_passes_plainly(one) for one in verdicts)
    name, helps = f"{world.name.removeprefix('trial: ')}: memory helps", [one.answer == "helps" for one in verdicts]
    return share_figure(name, helps, at_most, at_least, f"{plain} pass a plain test by weeks")


def _passes_plainly(verdict: Verdict) -> bool:
    return any(gate.name == "better than off, trades of one week together" and gate.holds for gate in verdict.gates)
