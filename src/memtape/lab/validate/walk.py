"""What memory said before each trade: the walk forward.

Before every trade of the validation period recall is asked as of its entry less the embargo, so that memory holds only trades
that had ended by then. It is the engine's own `as_of`; there is no second way of leaving the future out. Trades of the validation
period become memories when they end, like all others.

What recall says does not depend on any account, so the decisions of a walk can be divided among processes in any way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from memtape.core.codec import micros, moment
from memtape.core.memory.episodes import Episode, RSource
from memtape.core.memory.outcome_units import STOPS, OutcomeUnit, choose_unit
from memtape.core.observed import Situation
from memtape.core.recall.evidence import Evidence
from memtape.core.recall.query import AffectContext, Query, RecallParameters
from memtape.core.recall.reference import Recalled
from memtape.core.recall.sizing import kelly_r
from memtape.core.validation.decisions import NO_SUMS, SizeSums, WalkedDecision
from memtape.core.validation.judgement import NO_SITUATIONS
from memtape.engine import AgentMemory
from memtape.engine.view.view import View

TOP_MEMORIES = 5
QUARTER = 0.25
FLAT = RecallParameters(exponent=0.0, power=1e-9)  # every trade has the same weight
STATES = (AffectContext(), AffectContext(1.0, 0, 1.0), AffectContext(0.0, 3, 1.0))  # calm, deep drawdown, three losses
RECALL_VARIANTS: Mapping[str, RecallParameters] = {
    "tau 15 days": RecallParameters(tau_days=15.0), "tau 60 days": RecallParameters(tau_days=60.0),
    "decay exponent 0.25": RecallParameters(exponent=0.25), "decay exponent 1": RecallParameters(exponent=1.0),
    "similarity power 2": RecallParameters(power=2.0), "similarity power 8": RecallParameters(power=8.0),
}  # fmt: skip


class MemoryAt(Protocol):
    """What a walk asks of a memory."""

    def recall(self, query: Query) -> Recalled:
        """Returns the answer to a query, as of its own moment."""
        ...

    def claims_count(self, as_of: datetime) -> bool:
        """Returns True if the agent's own claims are all that was known then."""
        ...


@dataclass(frozen=True, slots=True)
class EngineMemory:
    """The memory of an agent, asked through one view of its store."""

    view: View

    def recall(self, query: Query) -> Recalled:
        """Returns what the engine recalls as of the query's moment."""
        then = self.view.at(query.as_of)
        try:
            return then.recall(query, (), ())
        finally:
            then.release()

    def claims_count(self, as_of: datetime) -> bool:
        """Returns True if claims are all that the agent had then."""
        return self.view.at(as_of).claims_count


@contextmanager
def engine_memory(agent: AgentMemory) -> Iterator[EngineMemory]:
    """Opens the memory of an agent for a walk."""
    with agent.view() as view:
        yield EngineMemory(view)


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkTerms:
    """How a walk asks: its split, its embargo, the unit of outcomes, and which parameters are varied."""

    split: datetime
    embargo: timedelta
    source: RSource  # of R
    by_strategy: bool = False  # memory of the same strategy alone
    vary: bool = True  # also ask with other parameters

    def as_dict(self) -> dict[str, Any]:
        """Returns what the answers depend on, as JSON data."""
        return {"split": micros(self.split), "embargo": self.embargo.total_seconds(), "source": self.source,
                "by_strategy": self.by_strategy, "vary": self.vary}  # fmt: skip

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> WalkTerms:
        """Returns the terms of JSON data."""
        return cls(split=moment(stored["split"]), embargo=timedelta(seconds=stored["embargo"]), source=stored["source"],
                   by_strategy=stored["by_strategy"], vary=stored["vary"])  # fmt: skip


def run_unit(episodes: Sequence[Episode], split: datetime, claims_count: bool) -> OutcomeUnit:
    """Returns the unit of a run: the best source that the trades known at the split have."""
    known = [e for e in episodes if e.exit_at <= split]
    return choose_unit(known or episodes, claims_count)


@dataclass(slots=True)
class Walker:
    """Asks a memory before each decision. Equal questions of one moment are asked once."""

    memory: MemoryAt
    terms: WalkTerms
    recalls: int = 0
    _seen: dict[Any, _Answers] = field(default_factory=dict)

    def decide(self, episode: Episode, group: str = "") -> WalkedDecision | None:
        """Returns the decision before a trade; None if its outcome has no R in the unit of the run."""
        answers = self._answers(episode)
        unit = answers.unit(self.terms.source) or self._unit_of_money(episode.entry_at - self.terms.embargo)
        r = unit.outcome(episode) if unit is not None else None
        if r is None:
            return None
        risk = None if episode.pnl_usd is None or not r else abs(episode.pnl_usd / r)
        return WalkedDecision(
            id=episode.id, group=group, symbol=episode.symbol, side=episode.side, strategy=episode.strategy,
            entry_at=episode.entry_at, exit_at=episode.exit_at, r=r, pnl_usd=episode.pnl_usd, risk_usd=risk,
            regime=episode.regime, volatility=episode.volatility_regime, session=episode.session,
            hold_minutes=episode.hold_minutes, known=answers.all_known.n, base_rate=answers.all_known.base.win_rate,
            predicted=answers.likely.mean_r if answers.is_in(self.terms.source, answers.likely) else None,
            simple=_quarter_kelly(_sums(answers.all_known, self.terms.source)), recent=answers.recent, literal=answers.literal,
            evidence=_sums(answers.likely, self.terms.source),
            variants={name: _sums(found, self.terms.source) for name, found in answers.variants.items()},
            top_won=answers.top_won, top_lost=answers.top_lost,
        )  # fmt: skip

    def _answers(self, episode: Episode) -> _Answers:
        as_of = episode.entry_at - self.terms.embargo
        strategy = episode.strategy if self.terms.by_strategy else None
        key = (as_of, episode.situation, episode.symbol, episode.side, strategy)
        if key not in self._seen:
            if self._seen and next(iter(self._seen))[0] != as_of:
                self._seen.clear()
            self._seen[key] = self._ask(episode, as_of, strategy)
        return self._seen[key]

    def _unit_of_money(self, as_of: datetime) -> OutcomeUnit | None:
        """Returns the unit of money from all trades: also a trade that is like no trade before has an outcome."""
        asked = Query(
            situation=Situation(), as_of=as_of, memory_types=("episodic",), limit=0, warnings_limit=0, size_by="unit",
            claims_count=self.memory.claims_count(as_of),
        )  # fmt: skip
        unit = self._recall(asked).evidence.unit
        return unit if unit.source == "money" else None

    def _ask(self, episode: Episode, as_of: datetime, strategy: str | None) -> _Answers:
        asked = Query(
            situation=episode.situation, as_of=as_of, symbol=episode.symbol, strategy=strategy, side=episode.side,
            memory_types=("episodic",), limit=TOP_MEMORIES, warnings_limit=0, size_by="unit",
            claims_count=self.memory.claims_count(as_of),
        )  # fmt: skip
        likely = self._recall(asked)
        bare = replace(asked, limit=0)
        both_sides = replace(bare, side=None, parameters=FLAT, kelly_beside=True)
        every = [self._recall(replace(both_sides, affect=state)).evidence for state in STATES]
        varied = {NO_SITUATIONS: RecallParameters(power=1e-9), **(RECALL_VARIANTS if self.terms.vary else {})}
        variants = {name: self._recall(replace(bare, parameters=changed)).evidence for name, changed in varied.items()}
        outcomes = [_result(each.memory) for each in likely.ranked if isinstance(each.memory, Episode)]
        return _Answers(
            likely=likely.evidence, all_known=every[0], recent=_beside(every[0], "kelly of the last 50"),
            literal=tuple(_beside(one, "kelly of the original") for one in every),  # type: ignore[arg-type]
            variants=variants, top_won=sum(r is not None and r > 0 for r in outcomes),
            top_lost=sum(r is not None and r < 0 for r in outcomes),
        )  # fmt: skip

    def _recall(self, query: Query) -> Recalled:
        self.recalls += 1
        return self.memory.recall(query)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answers:
    likely: Evidence  # of trades in such a situation
    all_known: Evidence  # of all trades, equally weighted
    recent: float
    literal: tuple[float, float, float]
    variants: dict[str, Evidence]
    top_won: int
    top_lost: int

    def unit(self, source: RSource) -> OutcomeUnit | None:
        """The unit of outcomes at this moment; money is measured by the typical loss that was known."""
        if source != "money":
            return OutcomeUnit(source)
        return next((e.unit for e in (self.likely, self.all_known) if e.unit.source == "money"), None)

    @staticmethod
    def is_in(source: RSource, evidence: Evidence) -> bool:
        return evidence.unit.source == source or {evidence.unit.source, source} <= set(STOPS)


def _sums(evidence: Evidence, source: RSource) -> SizeSums:
    """Returns the sums behind a size; none if the answer was in another unit than the run."""
    if not _Answers.is_in(source, evidence):
        return NO_SUMS
    found = evidence.hint.sizing
    return SizeSums(found.n_eff, found.p_hat, found.loss, found.win)


def _quarter_kelly(sums: SizeSums) -> float:
    """Returns a quarter of Kelly from a win rate taken as certain; none before ten trades, a win and a loss."""
    if sums.n_eff < 10 or sums.p_hat is None or not sums.loss or not sums.win:
        return 0.0
    return max(0.0, QUARTER * kelly_r(sums.p_hat, sums.loss, sums.win))


def _result(episode: Episode) -> float | None:
    """Returns how a trade ended, in money or in R: only its sign is used."""
    return episode.pnl_usd if episode.pnl_usd is not None else episode.pnl_r


def _beside(evidence: Evidence, name: str) -> float:
    return next((size.f for size in evidence.beside if size.name == name), 0.0)
