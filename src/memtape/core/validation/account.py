"""Runs one approach over the decisions of a walk forward: its account, trade by trade.

A size is a share of the equity that is realised when the trade is entered; the result arrives when it ends. So trades that
overlap do not know each other's results. An account cannot lose more than it has; one that is ruined trades no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from memtape.core.validation.approaches import Sizing, SizingAccount
from memtape.core.validation.decisions import WalkedDecision

Floats = NDArray[np.float64]
MAX_RISK = 1.0  # of equity


@dataclass(frozen=True, slots=True)
class AccountRun:
    """What one approach did: the size and the result of each decision, and the equity after each close."""

    sizes: Floats  # share of equity per 1R
    pnl: Floats  # in the account currency
    risks: Floats  # money per 1R
    path: tuple[tuple[datetime, float], ...]  # equity after each close, in order of time
    starting_equity: float
    ruined: bool = False  # nothing is left, of the account or of one of several

    @property
    def ending_equity(self) -> float:
        """The equity after the last close."""
        return self.path[-1][1] if self.path else self.starting_equity


def run_account(decisions: Sequence[WalkedDecision], sizing: Sizing, starting_equity: float) -> AccountRun:
    """Runs a sizing over decisions in order of their entries."""
    account = SizingAccount(starting_equity, starting_equity, starting_equity)
    sizes, pnl, risks = np.zeros(len(decisions)), np.zeros(len(decisions)), np.zeros(len(decisions))
    path: list[tuple[datetime, float]] = []
    held: list[tuple[datetime, str, int]] = []

    def close(at: int) -> None:
        pnl[at] = max(pnl[at], -account.equity)
        account.equity += pnl[at]
        account.peak = max(account.peak, account.equity)
        if sizes[at] > 0:
            account.consecutive_losses = 0 if decisions[at].r > 0 else account.consecutive_losses + 1
        path.append((decisions[at].exit_at, account.equity))

    for place, decision in enumerate(decisions):
        while held and held[0][0] <= decision.entry_at:
            close(heappop(held)[2])
        if account.equity > 0:
            sizes[place] = min(sizing(decision.before_outcome(), replace(account)), MAX_RISK)
            risks[place] = sizes[place] * account.equity
            pnl[place] = risks[place] * decision.r
        heappush(held, (decision.exit_at, decision.id, place))
    while held:
        close(heappop(held)[2])
    return AccountRun(sizes, pnl, risks, tuple(path), starting_equity, account.equity <= 0)


def pooled_runs(parts: Sequence[tuple[Sequence[int], AccountRun]], n: int) -> AccountRun:
    """Returns several accounts as one: each has the places of its decisions, and all start with their share of the money."""
    sizes, pnl, risks = np.zeros(n), np.zeros(n), np.zeros(n)
    changes: list[tuple[datetime, int, float]] = []
    for number, (places, run) in enumerate(parts):
        at = np.asarray(places, dtype=np.int64)
        sizes[at], pnl[at], risks[at] = run.sizes, run.pnl, run.risks
        before = run.starting_equity
        for when, equity in run.path:
            changes.append((when, number, equity - before))
            before = equity
    total = starting = sum(run.starting_equity for _, run in parts)
    path = []
    for when, _, change in sorted(changes, key=lambda one: one[:2]):
        total += change
        path.append((when, total))
    return AccountRun(sizes, pnl, risks, tuple(path), starting, any(run.ruined for _, run in parts))
