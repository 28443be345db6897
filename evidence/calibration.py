"""Is the verdict of `memtape validate` calibrated?

Two hundred invented histories of each kind are walked forward and judged by the functions of the product. In all but the last
kind nothing that memory could know matters: "memory helps" is then false. In the last, two of four regimes win and memory can
learn it.
"""

from __future__ import annotations

from evidence.figures import Figure, Scale
from evidence.validation_worlds import NOISE, PLANTED, answer, labels_of_the_walk, regime_of_the_exit
from memtape.core.validation.look_ahead import look_ahead_signs

RUNS: dict[Scale, int] = {"small": 1, "full": 200}
MAX_FALSE, MIN_FOUND = 0.05, 0.80


def study(scale: Scale) -> list[Figure]:
    """Returns how often the verdict is that memory helps, and how often planted look-ahead is named."""
    runs = range(RUNS[scale])
    figures = [_helps(world.name, [answer(world.history(str(n))) for n in runs], at_most=MAX_FALSE) for world in NOISE]
    walks = [answer(labels_of_the_walk(str(n))) for n in runs]
    figures.append(_helps("labels and outcomes of one random walk", walks, at_most=MAX_FALSE))
    planted = [answer(PLANTED.history(str(n))) for n in runs] if scale == "full" else [answer(PLANTED.history("small 0"))]
    figures.append(_helps(PLANTED.name, planted, at_least=MIN_FOUND))
    leaks = [regime_of_the_exit(NOISE[n % len(NOISE)].history(f"leak {n}")) for n in runs]
    named = [bool(look_ahead_signs(leak, [e.pnl_r or 0.0 for e in leak])) for leak in leaks]
    figures.append(Figure("a regime that was read at the exit: named as look-ahead", sum(named) / len(named), len(named),
                          "share of histories", at_least=0.95))  # fmt: skip
    return figures


def _helps(name: str, answers: list[str], at_most: float | None = None, at_least: float | None = None) -> Figure:
    said = f"\"memory hurts\" in {100 * answers.count('hurts') / len(answers):.1f} %"
    return Figure(f"{name.removeprefix('validate: ')}: memory helps", answers.count("helps") / len(answers), len(answers),
                  "share of histories", at_most, at_least, said)  # fmt: skip
