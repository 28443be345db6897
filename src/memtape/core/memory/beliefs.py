"""Beliefs: how a proposition is counted, when it is believed, and how it fades.

A belief says "in this situation, a trade ends like this". Each trade that tests it counts one, for or against; the
rate of success is then a beta distribution, and what matters is not its mean but how likely it beats the base rate.
Propositions about the mean outcome have a normal-inverse-gamma posterior instead. A scan of hundreds of cells finds some
that look good by chance alone, so a belief stays a candidate until it has 30 trades and passes the
Benjamini-Hochberg gate over all cells that were scanned.

The original rule (`updated_beta_by_outcome` in `core/original/memories.py`) counts by |R| up to 2. Its numbers are no longer
counts, and its interval covers the truth far too rarely. It is only shown for comparison.

>>> seven_of_ten = beta_from_episodes(7, 3)
>>> seven_of_ten.mean, round(seven_of_ten.probability_above(0.5), 6)
(0.6666666666666666, 0.886719)

The base rate is itself counted from trades, often from few. So it is never taken as known: `difference_p_value` is how often
chance alone gives two counts this difference, given the total number of wins (Fisher's exact test), and `probability_greater` is
the probability that one unknown rate exceeds another.

>>> round(difference_p_value(7, 10, 5, 10), 6), round(probability_greater(beta_from_episodes(7, 3), beta_from_episodes(5, 5)), 6)
(0.649917, 0.806502)

References: Benjamini & Hochberg 1995; Gelman et al., Bayesian Data Analysis (3rd ed.) 2-3; Fisher 1935; Altham 1969.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Literal

from memtape.core.memory.episodes import Episode
from memtape.core.memory.outcome_units import OutcomeUnit
from memtape.core.memory.predicate import FIELDS, Predicate, Type, conditions, read_predicate
from memtape.core.observed import Situation
from memtape.core.recall.scoring import faded
from memtape.core.statistics import beta_cdf, beta_quantile, mean, student_cdf
from memtape.core.value_class import dataclass
from memtape.errors import Invalid

Status = Literal["candidate", "believed", "merged", "split", "retired"]
BELIEVED_FROM_TRADES = 30
RETIRED_BELOW_PROBABILITY = 0.05  # the probability that the belief is right, below which it is retired
TESTABLE: Mapping[str, Type] = {
    name: kind for name, kind in FIELDS.items() if name in {f.name for f in fields(Situation)} | {"strategy", "side"}
}  # the stored fields of a trade's entry
BY_STOP = OutcomeUnit("stop")
NEEDS_A_BEFORE = frozenset({"changed", "crosses_above", "crosses_below"})


@dataclass(frozen=True, slots=True)
class Beta:
    """What is known about a rate: alpha - 1 successes and beta - 1 failures on top of a uniform prior."""

    alpha: float = 1.0
    beta: float = 1.0

    @property
    def mean(self) -> float:
        return self.alpha / (self.alpha + self.beta)

    @property
    def variance(self) -> float:
        total = self.alpha + self.beta
        return self.alpha * self.beta / (total * total * (total + 1.0))

    @property
    def count(self) -> float:
        """The number of counts on top of the uniform prior."""
        return self.alpha + self.beta - 2.0

    def probability_above(self, rate: float) -> float:
        """Returns P(the true rate exceeds `rate`)."""
        return beta_cdf(1.0 - rate, self.beta, self.alpha)

    def bound(self, level: float = 0.05) -> float:
        """Returns the rate that the true one exceeds with probability 1 - level."""
        return beta_quantile(level, self.alpha, self.beta)


SEEDED = Beta(2.0, 1.0)  # the prior of a stated belief without evidence


def beta_from_episodes(wins: int, losses: int) -> Beta:
    """Returns a belief from similar episodes."""
    return Beta(1.0 + wins, 1.0 + losses)


def beta_from_pattern(confidence: float, sample_size: int) -> Beta:
    """Returns a belief from a pattern of the older format.

    >>> beta_from_pattern(0.72, 25)
    Beta(alpha=19.0, beta=8.0)
    """
    return Beta(1.0 + confidence * sample_size, 1.0 + (1.0 - confidence) * sample_size)


def updated_beta(belief: Beta, confirmed: Iterable[bool | None]) -> Beta:
    """Returns a belief after trades that tested it, one count each; None did not test it.

    >>> updated_beta(Beta(8.0, 4.0), [True, False, None])
    Beta(alpha=9.0, beta=5.0)
    """
    tested = [answer for answer in confirmed if answer is not None]
    return Beta(belief.alpha + sum(tested), belief.beta + len(tested) - sum(tested))


@dataclass(frozen=True, slots=True)
class MeanEdge:
    """What is known about a mean outcome in R."""

    mean: float
    scale: float
    df: float

    @property
    def probability_positive(self) -> float:
        return student_cdf(self.mean / self.scale, self.df)


def mean_edge(pnl_rs: Sequence[float | None], kappa: float = 10.0, s0: float = 1.0, m0: float = 0.0) -> MeanEdge:
    """Returns the normal-inverse-gamma posterior of the mean, with a prior worth kappa trades of mean m0 and deviation s0.

    >>> edge = mean_edge([1.0, -1.0, 2.0, -1.0])
    >>> round(edge.mean, 6), edge.df, round(edge.probability_positive, 3)
    (0.071429, 13.0, 0.594)
    """
    known = [r for r in pnl_rs if r is not None]
    average = mean(known) if known else m0
    return _mean_edge(len(known), average, math.fsum((r - average) ** 2 for r in known), kappa, s0, m0)


def mean_edge_of_sums(n: int, sum_r: float, sum_r2: float, kappa: float = 10.0, s0: float = 1.0, m0: float = 0.0) -> MeanEdge:
    """Returns `mean_edge` from the number of trades, the sum of their outcomes and of the squares.

    >>> mean_edge_of_sums(4, 1.0, 7.0) == mean_edge([1.0, -1.0, 2.0, -1.0])
    True
    """
    average = sum_r / n if n else m0
    return _mean_edge(n, average, max(0.0, sum_r2 - n * average * average), kappa, s0, m0)


def _mean_edge(n: int, average: float, squares: float, kappa: float, s0: float, m0: float) -> MeanEdge:
    total, a0 = kappa + n, (kappa - 1.0) / 2.0
    a = a0 + n / 2.0
    b = a0 * s0 * s0 + squares / 2.0 + kappa * n * (average - m0) ** 2 / (2.0 * total)
    return MeanEdge((kappa * m0 + n * average) / total, math.sqrt(b / (a * total)), 2.0 * a)


def difference_p_value(wins: int, n: int, other_wins: int, other_n: int) -> float:
    """Returns how often chance alone gives two win rates this difference: Fisher's exact test, twice the smaller tail.

    It is the share of all distributions of the wins among the trades that are at least as uneven. It is conservative for any true
    rate and any size of either group, as Benjamini and Hochberg's gate requires of a p-value. A binomial test that takes the
    other rate as known is not, least of all if the other group is small.

    >>> round(difference_p_value(21, 30, 58, 120), 6), difference_p_value(5, 10, 50, 100)
    (0.052707, 1.0)
    """
    won, whole = wins + other_wins, n + other_n
    if wins * whole >= n * won:
        return min(1.0, 2.0 * _drawing_at_least(wins, n, won, whole))
    return min(1.0, 2.0 * _drawing_at_least(n - wins, n, whole - won, whole))


def probability_greater(one: Beta, other: Beta) -> float:
    """Returns P(one rate exceeds the other); neither is known.

    Beta(a, b) with integers is the a-th lowest of a + b - 1 uniform numbers. So one exceeds the other exactly if the lowest
    a + a' - 1 of all numbers contain at least a' of the other's: a hypergeometric tail. If the parameters are no integers, the
    other rate is taken at its mean.

    >>> round(probability_greater(Beta(3, 3), Beta(3, 3)), 12), round(probability_greater(Beta(8, 4), Beta(50_001, 50_001)), 4)
    (0.5, 0.8867)
    """
    parts = (one.alpha, one.beta, other.alpha, other.beta)
    if not all(float(part).is_integer() for part in parts):
        return one.probability_above(other.mean)
    a, b, c, d = (int(part) for part in parts)
    return _drawing_at_least(c, a + c - 1, c + d - 1, a + b + c + d - 2)


def _drawing_at_least(k: int, draws: int, marked: int, whole: int) -> float:
    """Returns P(at least k marked ones among `draws` of `whole`), summed from the small end so that small tails stay exact."""
    if k <= max(0, draws + marked - whole) or k > min(draws, marked):
        return 1.0 if k <= max(0, draws + marked - whole) else 0.0
    # Below the mean, the result is one minus the other tail.
    if k * whole <= draws * marked:
        return 1.0 - _drawing_at_least(draws - k + 1, draws, whole - marked, whole)
    term = math.exp(_ln_choose(marked, k) + _ln_choose(whole - marked, draws - k) - _ln_choose(whole, draws))
    total, rest = 0.0, whole - marked - draws
    while term > total * 1e-17:
        total += term
        term *= (marked - k) * (draws - k) / ((k + 1) * (rest + k + 1))
        k += 1
    return min(1.0, total)


def _ln_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def accepted_cells(p_values: Mapping[str, float], false_discovery_rate: float = 0.1) -> list[str]:
    """Returns the cells that pass the Benjamini-Hochberg gate over all scanned cells, by name.

    >>> accepted_cells({"london": 0.001, "asia": 0.04, "overlap": 0.9}, 0.1)
    ['asia', 'london']
    """
    ordered = sorted(p_values.values())
    passing = [p for place, p in enumerate(ordered, 1) if p <= place * false_discovery_rate / len(ordered)]
    return sorted(name for name, p in p_values.items() if passing and p <= passing[-1])


def belief_status(n: int, passes: bool) -> Status:
    """Returns the status of a belief by its number of trades and the gate."""
    return "believed" if passes and n >= BELIEVED_FROM_TRADES else "candidate"


def wilson_interval(wins: int, n: int, z: float = 1.6448536269514722) -> tuple[float, float]:
    """Returns Wilson's 90 % interval of a rate: for display as good as beta quantiles, and a hundred times faster.

    >>> [round(end, 4) for end in wilson_interval(21, 30)]
    [0.5506, 0.8163]
    """
    rate, shrunk = wins / n, 1.0 + z * z / n
    middle = (rate + z * z / (2 * n)) / shrunk
    half = z * math.sqrt(rate * (1.0 - rate) / n + z * z / (4 * n * n)) / shrunk
    return max(0.0, middle - half), min(1.0, middle + half)


def belief_strength(
    days_since_evidence: float, regime_matches: bool | None, initial: float = 1.0, tau_days: float = 180.0,
    exponent: float = 0.3, mismatch: float = 0.3,
) -> float:  # fmt: skip
    """Returns the strength of a belief after time and a change of regime; None: it holds in every regime.

    >>> round(belief_strength(180, False), 6), belief_strength(0, None)
    (0.243676, 1.0)
    """
    return initial * faded(days_since_evidence, tau_days, exponent) * (mismatch if regime_matches is False else 1.0)


@dataclass(frozen=True, slots=True)
class Proposition:
    """What a belief says: if the situation at entry meets a predicate (JSON), the trade ends like this."""

    when: dict[str, object]
    metric: Literal["pnl_r", "pnl_usd", "hold_minutes", "mfe_r", "mae_r"] = "pnl_r"
    op: Literal["gt", "ge", "lt", "le"] = "gt"
    value: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedBelief:
    """A belief as its owner states it: in this situation, trades end like this. "VB works" is none: it must say when.

    >>> from datetime import UTC
    >>> at = datetime(2026, 6, 5, tzinfo=UTC)
    >>> StatedBelief(id="b1", sentence="VB works", when={}, stated_at=at)
    Traceback (most recent call last):
    memtape.errors.Invalid: validity_conditions: says nothing. Say when it holds, like {"regime": "trending_up"}
    """

    id: str
    sentence: str
    when: dict[str, object]
    stated_at: datetime
    metric: Literal["pnl_r", "pnl_usd", "hold_minutes", "mfe_r", "mae_r"] = "pnl_r"
    op: Literal["gt", "ge", "lt", "le"] = "gt"
    value: float = 0.0
    strategy: str | None = None  # None: any
    symbol: str | None = None
    tier: int = 1
    alpha: float = 2.0
    beta: float = 1.0
    rate: float | None = None  # the stated rate; None: more often than otherwise
    later_only: bool = False  # True if its counts already contain the past: only later trades test it

    def __post_init__(self) -> None:
        say_when = 'Say when it holds, like {"regime": "trending_up"}'
        if not self.when:
            raise Invalid("validity_conditions", "says nothing", say_when)
        named = conditions(self.predicate)
        if {condition.field for condition in named} <= {"strategy", "symbol"}:
            raise Invalid("validity_conditions", "names a strategy or a symbol only", say_when)
        if before := [condition.op for condition in named if condition.op in NEEDS_A_BEFORE]:
            raise Invalid("validity_conditions", f"{before[0]} needs the tick before the entry", "Compare with a value")
        if not math.isfinite(self.value):
            raise Invalid("value", "is not a finite number", "Give the outcome that it speaks of, like 0")
        if not min(self.alpha, self.beta) > 0:
            raise Invalid("alpha", "or beta is not above zero", "Leave them out, or give counts like 2 and 1")

    def tests(self, exit_at: datetime) -> bool:
        """Returns True if a trade that ended at this time may count."""
        return not self.later_only or exit_at > self.stated_at

    @property
    def predicate(self) -> Predicate:
        return read_predicate(self.when, TESTABLE, "validity_conditions")

    @property
    def proposition(self) -> Proposition:
        return Proposition(self.when, self.metric, self.op, self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Belief:
    """A belief at a moment. The prior is kept separate from the counts."""

    id: str
    sentence: str
    strategy: str | None  # None: any
    symbol: str | None
    situation: Situation  # where it holds; '*' for an open field
    proposition: Proposition
    source: Literal["induced", "seeded"]
    tier: int
    prior: Beta
    confirmed: int  # trades for it
    contradicted: int  # trades against it
    base_rate: float | None  # the same strategy and symbol outside its conditions
    base_n: int
    p_value: float | None  # how often chance alone gives this difference
    probability: float | None  # that its rate beats the base rate
    status: Status
    related: tuple[str, ...] = ()  # merged into, or split into, these
    why: str = ""  # the reason of its status, in one sentence
    mean_r: float | None = None  # in the unit
    unit: OutcomeUnit = BY_STOP  # of mean_r, and of an outcome that a stated belief compares with
    last_confirmed: str | None = None  # trade ids
    last_contradicted: str | None = None
    last_evidence_at: datetime | None = None
    since: datetime | None = None  # when it could first be stated
    edge: MeanEdge | None = None  # what is known about the mean outcome of its trades

    @property
    def n(self) -> int:
        return self.confirmed + self.contradicted

    @property
    def posterior(self) -> Beta:
        return Beta(self.prior.alpha + self.confirmed, self.prior.beta + self.contradicted)

    @property
    def rate(self) -> float | None:
        """How often its trades confirmed it."""
        return self.confirmed / self.n if self.n else None

    @property
    def edge_probability(self) -> float | None:
        """The probability that the mean outcome of its trades is above zero."""
        return self.edge.probability_positive if self.edge is not None else None

    @property
    def leaning(self) -> Literal["more", "less"] | None:
        """Whether its trades confirm it more or less often than the others; None if that is undecided."""
        if self.rate is None or self.base_rate is None or self.rate == self.base_rate:
            return None
        return "more" if self.rate > self.base_rate else "less"


# --- which trades test it ------------------------------------------------------------------------------------------------


def entry_facts(episode: Episode) -> dict[str, object]:
    """Returns the facts of a trade for a predicate: its situation at entry, its strategy and side."""
    then = episode.situation
    return {f.name: getattr(then, f.name) for f in fields(then)} | {"strategy": episode.strategy, "side": episode.side}


def confirms(proposition: Proposition, measured: float) -> bool:
    """Returns True if a trade with this outcome, or another figure that a proposition speaks of, ended as it says.

    >>> confirms(Proposition({}, "hold_minutes", "le", 20.0), 20.0), confirms(Proposition({}), 0.0)
    (True, False)
    """
    value = proposition.value
    return {"gt": measured > value, "ge": measured >= value, "lt": measured < value, "le": measured <= value}[proposition.op]


def belief_concerns(strategy: str | None, symbol: str | None, episode: Episode) -> bool:
    """Returns True if a trade has the strategy and symbol of a belief; None matches any."""
    return strategy in (None, episode.strategy) and symbol in (None, episode.symbol)


# --- what may follow from it ---------------------------------------------------------------------------------------------

DEEP_DRAWDOWN = 0.15


def suggested_plans(beliefs: Iterable[Belief], drawdown: float | None) -> list[dict[str, object]]:
    """Returns plans suggested by beliefs and a deep drawdown, as create_trading_plan takes them; advice, never an order.

    What wins less often is halved; it is skipped only where its mean outcome is, in all likelihood, below zero as well.

    >>> [plan["planned_action"] for plan in suggested_plans([], drawdown=0.18)]
    [{'type': 'reduce', 'size_factor': 0.5}]
    """
    plans: list[dict[str, object]] = []
    for belief in beliefs:
        if belief.status != "believed" or belief.leaning != "less" or belief.proposition.metric != "pnl_r":
            continue
        losing = belief.edge_probability is not None and belief.edge_probability < RETIRED_BELOW_PROBABILITY
        scope = {name: value for name, value in (("strategy", belief.strategy), ("symbol", belief.symbol)) if value}
        plans.append({
            "trigger_condition": {"all": [*([scope] if scope else []), belief.proposition.when]},
            "planned_action": {"type": "skip_trade"} if losing else {"type": "reduce", "size_factor": 0.5},
            "reasoning": belief.sentence, "sources": [belief.id],
        })  # fmt: skip
    if drawdown is not None and drawdown > DEEP_DRAWDOWN:
        plans.append({
            "trigger_condition": {"field": "drawdown_pct", "op": "gt", "value": DEEP_DRAWDOWN},
            "planned_action": {"type": "reduce", "size_factor": 0.5},
            "reasoning": f"The drawdown is {100 * drawdown:.0f} %: half the size until it is {100 * DEEP_DRAWDOWN:.0f} % again.",
            "sources": [],
        })  # fmt: skip
    return plans
