"""How a history is validated, as the command gives it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np

from memtape.core.validation.approaches import TITLES, Sizing, SizingAccount
from memtape.core.validation.decisions import WalkedDecision
from memtape.errors import Invalid
from memtape.lab.user_functions import call_function, load_function
from memtape.lab.validate.parts import check_kept_folder

MAX_EMBARGO_HOURS = 8784.0  # a year
MAX_STARTING_EQUITY = 1e15


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateOptions:
    """How a history is validated."""

    split: str | None = None  # a time, or a share like 0.7; default: the first 70 % of the trades train
    embargo_hours: float = 1.0
    starting_equity: float = 10_000.0
    seed: int = 20261118
    resamples: int = 500
    vary: bool = True
    approaches: Mapping[str, Sizing] = field(default_factory=dict)
    engine: str = "serial"
    workers: int = 1
    address: str | None = None
    keep: Path | None = None  # folder of finished parts
    on_progress: Callable[[int, int], object] | None = None

    def check(self) -> None:
        """Raises `Invalid` for options that make no sense."""
        if self.embargo_hours < 0:
            raise Invalid("embargo", f"{self.embargo_hours} is below zero", "Give hours of 0 or more")
        if not self.embargo_hours <= MAX_EMBARGO_HOURS:
            raise Invalid("embargo", f"{self.embargo_hours} hours are no embargo", "Give hours of 0 to a year")
        if not 0 < self.starting_equity <= MAX_STARTING_EQUITY:
            problem = "is not above zero" if not self.starting_equity > 0 else "is more money than there is"
            raise Invalid("starting_equity", f"{self.starting_equity} {problem}", "Give the equity that accounts start with")
        if self.seed < 0:
            raise Invalid("seed", f"{self.seed} is below zero", "Give a whole number of 0 or more")
        if self.resamples < 50:
            raise Invalid("resamples", f"{self.resamples} are too few for an interval", "Give 50 or more")
        for name in self.approaches:
            if name in TITLES:
                raise Invalid("approach", f"'{name}' is an approach of memtape", "Rename the function")
        check_kept_folder(self.keep)

    def settings(self) -> dict[str, Any]:
        """What the numbers depend on; not how they are computed."""
        return {
            "split": self.split,
            "embargo_hours": self.embargo_hours,
            "starting_equity": self.starting_equity,
            "seed": self.seed,
            "resamples": self.resamples,
            "vary": self.vary,
            "approaches": sorted(self.approaches),
        }


def load_sizing(name: str) -> tuple[str, Sizing]:
    """Returns a sizing of the user: `package.module:function` or `file.py:function`."""
    return name.rpartition(":")[2], cast(Sizing, load_function(name, "approach"))


def checked_sizing(name: str, sizing: Sizing) -> Sizing:
    """Returns a sizing of the user that names itself where it fails or gives no share of equity."""

    def size(decision: WalkedDecision, account: SizingAccount) -> float:
        found = call_function("approach", name, sizing, decision, account)
        if not isinstance(found, int | float | np.number) or isinstance(found, bool) or not found >= 0:  # NaN too
            raise Invalid("approach", f"{name} gave the size {found!r}", "Return a share of equity of 0 or more")
        return float(found)

    return size
