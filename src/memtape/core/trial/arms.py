"""The arms of a trial: what the same decision maker may know of its own past.

off            nothing: no recall, no lessons, no recent trades
on             all that memtape has to say
shuffled       the same, learned from outcomes that were shuffled among trades of the same strategy: a placebo
lessons-only   the lessons of reflections, and nothing else
"""

from __future__ import annotations

from typing import Literal, get_args

from memtape.core.near_names import near_names
from memtape.errors import Invalid

Arm = Literal["off", "on", "shuffled", "lessons-only"]
ARMS: tuple[Arm, ...] = get_args(Arm)
OFF: Arm = "off"
ON: Arm = "on"
SHUFFLED: Arm = "shuffled"
LESSONS_ONLY: Arm = "lessons-only"
ARM_TITLES = {OFF: "no memory", ON: "memory", SHUFFLED: "memory with shuffled outcomes", LESSONS_ONLY: "lessons only"}


def read_arms(text: str) -> tuple[Arm, ...]:
    """Returns the arms of a list with commas, in the order in which a report has them.

    >>> read_arms("on, off"), read_arms("off,on,lessons_only")
    (('off', 'on'), ('off', 'on', 'lessons-only'))
    >>> read_arms("off")
    Traceback (most recent call last):
    memtape.errors.Invalid: arms: 'off' is compared with nothing. Give off and at least one of on, shuffled, lessons-only
    """
    named = [part.strip().lower().replace("_", "-") for part in text.split(",") if part.strip()]
    for name in named:
        if name not in ARMS:
            near = near_names(name, ARMS)
            fix = f"Did you mean {near[0]}?" if near else f"Choose from {', '.join(ARMS)}"
            raise Invalid("arms", f"there is no arm '{name}'", fix)
    found = tuple(arm for arm in ARMS if arm in named)
    others = f"at least one of {', '.join(ARMS[1:])}"
    if not found:
        raise Invalid("arms", "is empty", f"Give off and {others}")
    if len(found) == 1:
        raise Invalid("arms", f"'{found[0]}' is compared with nothing", f"Give off and {others}")
    if OFF not in found:
        raise Invalid("arms", "has no arm without memory to compare with", f"Give off and {others}")
    return found
