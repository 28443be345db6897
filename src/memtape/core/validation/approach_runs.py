"""The accounts of all approaches over the same decisions: at their own risk, and scaled to the same mean risk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from memtape.core.statistics import mean
from memtape.core.validation.account import AccountRun, Floats, pooled_runs, run_account
from memtape.core.validation.approaches import FIXED_RISK, SIZINGS, Sizing, fixed_lot
from memtape.core.validation.decisions import WalkedDecision
from memtape.errors import Invalid

MIN_SURVIVING_SHARE = 1 / 1024


@dataclass(frozen=True, slots=True)
class Accounts:
    """The accounts of all approaches over the same decisions, in order of their entries."""

    decisions: Sequence[WalkedDecision]
    starting_equity: float

    def groups(self) -> list[list[int]]:
        """The places of the decisions of each group: each has an account of its own."""
        found: dict[str, list[int]] = {}
        for place, decision in enumerate(self.decisions):
            found.setdefault(decision.group, []).append(place)
        return [found[name] for name in sorted(found)]

    def run(self, sizing: Sizing) -> AccountRun:
        """Returns the account of a sizing; with several groups, their sum."""
        groups = self.groups()
        equity = self.starting_equity / len(groups)
        parts = [(places, run_account([self.decisions[at] for at in places], sizing, equity)) for places in groups]
        return parts[0][1] if len(parts) == 1 else pooled_runs(parts, len(self.decisions))

    def check_repeatable(self, name: str, sizing: Sizing) -> None:
        """Refuses a sizing that gives other sizes when it is asked again: no figure of it could be told from chance."""
        if not np.array_equal(self.run(sizing).sizes, self.run(sizing).sizes):
            raise Invalid("approach", f"{name} gave other sizes when it was asked again", "Use nothing but decision and account")

    def surviving_sizes(self, sizing: Sizing, run: AccountRun) -> Floats:
        """Returns the sizes of an approach. One that is ruined at its own risk is halved until it lives to the end."""
        share = 1.0
        while run.ruined and share > MIN_SURVIVING_SHARE:
            share *= 0.5
            run = self.run(_part_of(sizing, share))
        return run.sizes

    def at_equal_risk(self, sizes: Floats) -> AccountRun:
        """Returns the account of the same sizes, multiplied by one number so that their mean is that of fixed risk."""
        middle = float(sizes.mean())
        factor = FIXED_RISK / middle if middle > 0 else 0.0
        by_id = {decision.id: factor * float(size) for decision, size in zip(self.decisions, sizes, strict=True)}
        return self.run(lambda decision, account: by_id[decision.id])

    def lot_sizing(self) -> Sizing:
        """Returns the sizing by fixed lots: those of the history, so that the mean risk is 1 % of the starting equity."""
        equity = self.starting_equity / len(self.groups())
        known = [d.risk_usd for d in self.decisions if d.risk_usd is not None]
        usual = float(np.median(known)) if known else 1.0
        filled = {d.id: d.risk_usd if d.risk_usd is not None else usual for d in self.decisions}
        sizing = fixed_lot(FIXED_RISK * equity / mean(list(filled.values())))
        return lambda decision, account: sizing(replace(decision, risk_usd=filled[decision.id]), account)

    def all_sizings(self, extra: Mapping[str, Sizing]) -> dict[str, Sizing]:
        """Returns every approach by name, those of the user last."""
        return {"fixed_lot": self.lot_sizing(), **SIZINGS, **extra}


def _part_of(sizing: Sizing, share: float) -> Sizing:
    return lambda decision, account: share * sizing(decision, account)
