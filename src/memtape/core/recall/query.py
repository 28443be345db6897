"""A recall query: the present situation, which trades and kinds count, as of when, and how memories are weighted.

A query contains everything that an answer depends on, including the time, so the same query over the same memories always gives
the same answer. `symbol` and `strategy` are exact filters; trades are compared with the situation. For a trade of another symbol,
prices and ATR are compared relative to its own price.

>>> from datetime import UTC
>>> query = Query(situation=Situation(symbol="XAU", regime="ranging"), as_of=datetime(2026, 6, 5, tzinfo=UTC))
>>> query.limit, query.profile, query.here
(10, 'owm', 'XAU')
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Literal, Protocol, get_args

from memtape.core.memory.beliefs import Belief
from memtape.core.memory.episodes import Episode, believed_outcome
from memtape.core.memory.outcome_units import OutcomeUnit
from memtape.core.memory.situation import LABELS, NUMBERS, Labels, Numbers, relative, similarity
from memtape.core.observed import Side, Situation
from memtape.core.recall import scoring
from memtape.core.recall.scoring import Kind
from memtape.core.value_class import dataclass
from memtape.errors import Invalid

Profile = Literal["owm", "owm-literal", "balanced"]
Switch = Literal["off", "on"]
SizeBasis = Literal["stops", "unit"]
MAX_LIMIT = 100


def _require(met: bool, field: str, problem: str, fix: str) -> None:
    if not met:
        raise Invalid(field, problem, fix)


class PlanMemory(Protocol):
    """The fields of a plan that recall uses."""

    @property
    def id(self) -> str: ...
    @property
    def priority(self) -> float: ...
    @property
    def created_at(self) -> datetime: ...
    @property
    def tier(self) -> int: ...
    @property
    def source_ids(self) -> tuple[str, ...]: ...
    @property
    def situation(self) -> Situation: ...
    @property
    def reasoning(self) -> str: ...


@dataclass(frozen=True, slots=True)
class AffectContext(scoring.AffectInputs):
    """The agent's affect state, as Aff and the size use it."""

    risk_appetite: float = 1.0
    assumption: str = ""  # what must be said beside a percentage of an equity that nobody stated


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallParameters:
    """How memories are weighted. These tune the profile `owm`, warnings and evidence; the other profiles are fixed."""

    k: float = 2.0  # how steeply Q rises with the outcome
    tau_days: float = 30.0
    exponent: float = 0.5
    belief_tau_days: float = 180.0
    belief_exponent: float = 0.3
    labels: Labels = LABELS
    numbers: Numbers = NUMBERS
    alpha: float = 0.3  # the most that Aff may change a score
    power: float = 4.0  # exponent of similarity in evidence
    sharpe: Switch = "off"
    sharpe_window_days: float = 30.0
    strength: Switch = "off"  # retrieval strength in place of Rec, from the query's times_shown
    boost_at_most: float = 1.25

    def __post_init__(self) -> None:
        for name in ("k", "tau_days", "belief_tau_days", "power", "sharpe_window_days"):
            _require(getattr(self, name) > 0, name, "is not above zero", "Give a positive number")
        for name in ("exponent", "belief_exponent", "alpha"):
            _require(getattr(self, name) >= 0, name, "is below zero", "Give zero or more")
        _require(self.boost_at_most >= 1, "boost_at_most", "is below one", "Give one or more: use never weakens a memory")
        for name, known, given in (("labels", LABELS, self.labels), ("numbers", NUMBERS, self.numbers)):
            names = [row[0] for row in known]
            _require(all(row[0] in names for row in given), name, "name a field that is not compared", f"Use {', '.join(names)}")
            _require(all(row[1] >= 0 for row in given), name, "have a weight below zero", "Give weights of zero or more")
            _require(len({row[0] for row in given}) == len(given), name, "name a field twice", "Give each field one weight")
        _require(all(width > 0 for _, _, width in self.numbers), "numbers", "have a width that is not above zero", "Widen it")
        total = sum(row[1] for row in self.labels) + sum(row[1] for row in self.numbers)
        _require(total > 0 and math.isfinite(total), "labels", "and numbers weigh nothing together", "Give some a weight")


NUMBERS_OF = ("k", "tau_days", "exponent", "belief_tau_days", "belief_exponent", "alpha", "power", "sharpe_window_days",
              "boost_at_most")  # fmt: skip


def tuned(numbers: Mapping[str, float], weights: Mapping[str, float], strength: bool, sharpe: bool) -> RecallParameters:
    """Returns parameters with some numbers and some similarity weights set; a weight of 0 ignores a field.

    >>> tuned({"k": 1.0}, {"price": 0.0}, False, False).numbers[-1]
    ('price', 0.0, 0.2)
    """
    for name in numbers:
        _require(name in NUMBERS_OF, f"parameters.{name}", "is not a number that can be set", f"Use {', '.join(NUMBERS_OF)}")
    fields_ = [name for name, _ in LABELS] + [name for name, _, _ in NUMBERS]
    for name in weights:
        _require(name in fields_, f"weights.{name}", "is not a field that is compared", f"Use {', '.join(fields_)}")
    return RecallParameters(
        **dict(numbers), labels=tuple((name, weights.get(name, weight)) for name, weight in LABELS),
        numbers=tuple((name, weights.get(name, weight), width) for name, weight, width in NUMBERS),
        strength="on" if strength else "off", sharpe="on" if sharpe else "off",
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A query to memory."""

    situation: Situation
    as_of: datetime
    symbol: str | None = None
    strategy: str | None = None
    side: Side | None = None  # only trades of this side
    memory_types: tuple[Kind, ...] = ("episodic", "semantic")
    limit: int = 10
    warnings_limit: int = 5
    profile: Profile = "owm"
    affect: AffectContext = AffectContext()
    claims_count: bool = True  # False: the agent has a broker, so an outcome it merely claims is unverified
    unit: OutcomeUnit | None = None  # the unit of the outcomes; None: not chosen yet, each in the R that it has
    currency: str = "USD"  # of the account
    parameters: RecallParameters = RecallParameters()
    times_shown: Mapping[str, int] = field(default_factory=dict)  # decisions that cited a memory, as of the start of the tick
    explain: bool = False
    kelly_beside: bool = False
    size_by: SizeBasis = "stops"  # unit: validation sizes by the unit of the answer, because many files have no stop

    def __post_init__(self) -> None:
        _require(self.as_of.tzinfo is not None, "as_of", "has no time zone", "Add Z for UTC or an offset")
        for name, limit in (("limit", self.limit), ("warnings_limit", self.warnings_limit)):
            _require(isinstance(limit, int), name, "is not a whole number", "Give a number like 10")
            _require(0 <= limit <= MAX_LIMIT, name, f"is not within 0..{MAX_LIMIT}", "Ask for fewer")
        _require(self.profile in get_args(Profile), "profile", "is not known", f"Choose one of {', '.join(get_args(Profile))}")
        _require(set(self.memory_types) <= set(get_args(Kind)), "memory_types", "name a kind that does not exist",
                 f"Choose from {', '.join(get_args(Kind))}")  # fmt: skip

    @property
    def here(self) -> str | None:
        """The symbol of the situation, if it is known."""
        return self.situation.symbol or self.symbol

    def asks_for(self, symbol: str | None, strategy: str | None) -> bool:
        """Returns True if a memory of this symbol and strategy passes the filters; None matches any."""
        return (self.symbol is None or symbol in (None, self.symbol)) and (
            self.strategy is None or strategy in (None, self.strategy)
        )


def outcome_for(episode: Episode, query: Query) -> float | None:
    """Returns the believed outcome of an episode in the unit of the answer; None if it has none in that unit."""
    if query.unit is None or (episode.claimed and not query.claims_count):
        return believed_outcome(episode, query.claims_count)
    return query.unit.outcome(episode)


def situation_similarity(episode: Episode, query: Query) -> float:
    """Returns the similarity of a trade's situation to the query's; across symbols relative to price."""
    then, now = compared_fields(episode, query)
    return similarity(then, now, query.parameters.labels, query.parameters.numbers)


def compared_fields(episode: Episode, query: Query) -> tuple[Situation, Situation]:
    """Returns the two situations as they are compared."""
    if query.here is not None and query.here != episode.symbol:
        return relative(episode.situation), relative(query.situation)
    return episode.situation, query.situation


def age_days(formed: datetime, query: Query) -> float:
    """Returns the age in days at the time of the query."""
    return max((query.as_of - formed) / scoring.DAY, 0.0)


def last_tested(belief: Belief) -> datetime | None:
    """Returns when a belief was last tested, or first stated if it never was."""
    return belief.last_evidence_at or belief.since
