"""How a trial is run, as the command gives it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from memtape.core.trial.arms import OFF, ON, SHUFFLED, Arm
from memtape.core.values import Money, read
from memtape.errors import Invalid
from memtape.lab.validate.parts import check_kept_folder

MAX_SEEDS = 100
MAX_LATER_START = 0.2  # of the bars, within which later seeds begin


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOptions:
    """How a trial is run."""

    bars: Path
    strategy: str
    arms: tuple[Arm, ...] = (OFF, ON, SHUFFLED)
    symbol: str | None = None
    seeds: int = 3
    chance: int = 20261118
    fee_bps: str = "5"
    slippage_bps: str = "2"
    starting_equity: str = "10000"
    resamples: int = 500
    priced_as: str | None = None  # a model by whose price the tokens of a rule's briefs are counted
    max_cost: Decimal | None = None  # US dollars, of the whole trial
    max_tokens: int | None = None
    engine: str = "serial"
    workers: int = 1
    address: str | None = None
    keep: Path | None = None  # folder of finished runs, and of a model's answers
    on_progress: Callable[[int, int], object] | None = None

    def check(self) -> None:
        """Raises `Invalid` for options that make no sense."""
        if not 1 <= self.seeds <= MAX_SEEDS:
            raise Invalid("seeds", f"{self.seeds} is not within 1 to {MAX_SEEDS}", "Give a few: they share the market")
        if self.resamples < 50:
            raise Invalid("resamples", f"{self.resamples} are too few for an interval", "Give 50 or more")
        for name, amount in (("fee_bps", self.fee_bps), ("slippage_bps", self.slippage_bps)):
            if not 0 <= read(Money, amount, at=name) < 10_000:
                raise Invalid(name, f"{amount} is outside 0 to 10000", "Give basis points: 5 means 0.05 %")
        if not read(Money, self.starting_equity, at="starting_equity") > 0:
            raise Invalid("starting_equity", f"{self.starting_equity} is not above 0", "Give the money the account starts with")
        check_kept_folder(self.keep)

    def settings(self) -> dict[str, Any]:
        """What the numbers depend on, besides bars and decision maker; not how they are computed."""
        return {
            "arms": list(self.arms), "seeds": self.seeds, "chance": self.chance, "fee_bps": self.fee_bps,
            "slippage_bps": self.slippage_bps, "starting_equity": self.starting_equity, "resamples": self.resamples,
            "priced_as": self.priced_as, "max_cost": None if self.max_cost is None else str(self.max_cost),
            "max_tokens": self.max_tokens,
        }  # fmt: skip
