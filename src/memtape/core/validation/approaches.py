"""The approaches to sizing that validation compares: each gives the share of equity to risk on a trade.

Each sees a decision and its own account, nothing else. `evidence` is the size that memtape suggests; `owm_literal` is the
original formula; the others know less. A function of the user can be added (`Sizing`).

>>> round(risk_of_evidence(SizeSums(50.0, 0.6, 1.0, 1.0), 1.0, EvidenceRule()), 6)
0.015917
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from memtape.core.memory.affect import DRAWDOWN_LIMIT, risk_appetite
from memtape.core.recall.evidence import MIN_N_EFF
from memtape.core.recall.sizing import bounded_kelly
from memtape.core.validation.decisions import SizeSums, WalkedDecision

FIXED_RISK = 0.01  # of equity
STREAK_LOSSES = 3
DEEP_DRAWDOWN = 0.5  # of the limit


@dataclass(slots=True)
class SizingAccount:
    """The account of one approach at a decision."""

    equity: float
    peak: float
    starting_equity: float
    consecutive_losses: int = 0

    @property
    def drawdown(self) -> float:
        """How far equity is below its peak, as a share of it."""
        return (self.peak - self.equity) / self.peak if self.peak > 0 else 1.0

    @property
    def appetite(self) -> float:
        """The drawdown brake: 1 at the peak, a tenth at the limit."""
        return risk_appetite(self.drawdown)


Sizing = Callable[[WalkedDecision, SizingAccount], float]


@dataclass(frozen=True, slots=True)
class EvidenceRule:
    """The parameters of the size by evidence; the defaults are those of `sizing.bounded_kelly`."""

    kappa: float = 20.0
    gamma: float = 0.25
    fraction: float = 0.25
    cap: float = 0.02
    brake: bool = True  # the drawdown brake of the account


def risk_of_evidence(sums: SizeSums, appetite: float, rule: EvidenceRule) -> float:
    """Returns the suggested share of equity per 1R."""
    if sums.p_hat is None:
        return 0.0
    return bounded_kelly(
        sums.n_eff,
        sums.p_hat,
        sums.loss,
        sums.win,
        appetite,
        kappa=rule.kappa,
        gamma=rule.gamma,
        fraction=rule.fraction,
        cap=rule.cap,
        at_least=MIN_N_EFF,
    ).f


def evidence_sizing(variant: str | None = None, rule: EvidenceRule = EvidenceRule()) -> Sizing:  # noqa: B008
    """Returns the sizing by evidence, with other parameters of recall (`variant`) or of the size (`rule`)."""

    def size(decision: WalkedDecision, account: SizingAccount) -> float:
        sums = decision.evidence if variant is None else decision.variants[variant]
        return risk_of_evidence(sums, account.appetite if rule.brake else 1.0, rule)

    return size


def owm_literal(decision: WalkedDecision, account: SizingAccount) -> float:
    """The original formula: memories chosen and weighted by outcome, with its drawdown and streak branches."""
    calm, deep, streak = decision.literal
    if account.drawdown / DRAWDOWN_LIMIT > DEEP_DRAWDOWN:
        return deep * account.appetite
    return (streak if account.consecutive_losses >= STREAK_LOSSES else calm) * account.appetite


def fixed_lot(lot_scale: float) -> Sizing:
    """Returns the sizing that trades the lots of the history, all multiplied by one number; it never compounds."""

    def size(decision: WalkedDecision, account: SizingAccount) -> float:
        risk = decision.risk_usd if decision.risk_usd is not None else 1.0
        return risk * lot_scale / account.equity if account.equity > 0 else 0.0

    return size


BASELINE = "fixed_risk"
EVIDENCE = "evidence"
SIZINGS: Mapping[str, Sizing] = {
    BASELINE: lambda decision, account: FIXED_RISK,
    "simple_kelly": lambda decision, account: decision.simple,
    "recency_kelly": lambda decision, account: decision.recent,
    "recency_kelly_brake": lambda decision, account: decision.recent * account.appetite,
    "owm_literal": owm_literal,
    EVIDENCE: evidence_sizing(),
}
TITLES: Mapping[str, str] = {
    "fixed_lot": "fixed lot",
    BASELINE: "fixed risk 1 %",
    "simple_kelly": "simple Kelly",
    "recency_kelly": "recency Kelly, last 50",
    "recency_kelly_brake": "recency Kelly with brake",
    "owm_literal": "OWM literal",
    EVIDENCE: "evidence (memtape)",
}
