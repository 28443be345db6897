"""Recall over columns: the answer of `core.recall`, without looking at every memory in Python.

The kernel finds which rows can have a place or warn; the store is asked for these alone; and the reference's own functions
rank them, word for word. Evidence is summed over the arrays and concluded by the reference. So lists are equal to the
reference's, scores bit for bit, and figures in the six digits in which they leave.

`fetch` reads episodes by (id, known_from in microseconds) from the snapshot that the columns were filled from.

>>> from datetime import UTC, datetime
>>> from memtape.columns.index import Columns
>>> from memtape.core.observed import Situation
>>> from memtape.core.recall.query import Query
>>> asked = Query(situation=Situation(), as_of=datetime(2026, 6, 5, tzinfo=UTC))
>>> recall_columns(Columns(), [], [], asked, lambda keys: []).ranked
()
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from memtape.columns import kernel, weights
from memtape.columns.index import OPEN_END, R_SOURCES, median_of
from memtape.columns.kernel import FLOAT32_SCORE_MARGIN, SCORE_MARGIN, picked_rows, row_count
from memtape.columns.leaders import (
    RANKED_DIRECTLY_ROWS,
    best,
    drop_duplicates,
    group_codes,
    leaders,
    newest,
    nth,
    of_each,
    situation_parts,
)
from memtape.core.codec import micros, moment
from memtape.core.memory.episodes import Episode
from memtape.core.memory.outcome_units import MIN_LOSSES, NO_UNIT, OutcomeUnit
from memtape.core.recall.evidence import (
    RECENT_TRADES,
    compared_sizes,
    evidence_from_sums,
    evidence_unit,
)
from memtape.core.recall.query import RecallParameters, situation_similarity
from memtape.core.recall.ranking import MAX_NEAR_MISSES, Yardstick, rank_memories
from memtape.core.recall.reference import assemble_recall, literal_best, ranks_own_r, sharpe_of, source_qualities
from memtape.core.recall.scoring import SIGMA_FLOOR, SIGMA_UNKNOWN, retrieval_strength, sigma_known
from memtape.core.recall.warnings import FADING_DAYS, FADING_EXPONENT, MIN_SIMILARITY, find_warnings, warning_unit

if TYPE_CHECKING:
    from memtape.columns.index import Bools, Columns, Floats, Rows
    from memtape.columns.leaders import (
        Parts,
        Places,
    )
    from memtape.core.memory.beliefs import Belief
    from memtape.core.memory.episodes import RSource
    from memtape.core.recall.evidence import (
        ComparedSize,
        Evidence,
        EvidenceSums,
    )
    from memtape.core.recall.query import PlanMemory, Profile, Query
    from memtape.core.recall.ranking import Ranking
    from memtape.core.recall.reference import Recalled
    from memtape.core.recall.warnings import LossWarning

Key = tuple[str, int]  # id and known_from in microseconds
Fetch = Callable[[list[Key]], Sequence[Episode]]
SIGMA_OUTCOMES = 100  # outcomes that sigma is known from
SAMPLE_ROWS = 4096  # rows from which the score that a place takes is guessed, from below
MAX_TIME_CONSTANTS = 100.0  # e^100 time constants: nothing is that old
PLAIN = RecallParameters()
TINY_SCORE = 1e-25  # where this is enough for a place, float32 may have lost Q altogether
SHARPE_MARGIN = 0.376  # a Sharpe weight lies between ½ and 2: what has none yet may be four times too low


def recall_columns(
    columns: Columns, beliefs: Sequence[Belief], plans: Sequence[PlanMemory], query: Query, fetch: Fetch
) -> Recalled:
    """What memory has to say about the situation asked about, as of the moment asked for."""
    question = ColumnQuestion(columns, query, fetch).in_one_unit()
    warnings = question.in_unit_of_losses().warnings()
    ranking, yardstick = question.ranking(beliefs, plans)
    other = question.beside(yardstick) if query.kelly_beside else ()
    return assemble_recall(ranking, warnings, question.evidence(other), beliefs, question.query)


def rank_columns(columns: Columns, beliefs: Sequence[Belief], plans: Sequence[PlanMemory], query: Query, fetch: Fetch) -> Ranking:
    """The ranking alone."""
    question = ColumnQuestion(columns, query, fetch)
    return (question if question.ranks_own_r else question.in_one_unit()).ranking(beliefs, plans)[0]


def evidence_columns(columns: Columns, query: Query) -> Evidence:
    """The evidence alone."""
    return ColumnQuestion(columns, query, lambda keys: []).evidence(())


class ColumnQuestion:
    """One question to the columns: its rows, and what several answers share."""

    def __init__(self, columns: Columns, query: Query, fetch: Fetch) -> None:
        self.columns, self.query, self.fetch = columns, query, fetch
        self.as_of = micros(query.as_of)
        self.rows: Rows = columns.segment(query.symbol, query.strategy)
        if query.side is not None:
            taken = columns.side_code[: columns.n] == (0 if query.side == "long" else 1)
            self.rows = np.flatnonzero(taken[self.rows]) if isinstance(self.rows, slice) else self.rows[taken[self.rows]]
        self.believed: Bools = columns.believed(self.rows, self.as_of)
        if 2 * np.count_nonzero(self.believed) < len(self.believed):  # a past moment: leave the rest alone
            self.rows = np.flatnonzero(self.believed) if isinstance(self.rows, slice) else self.rows[self.believed]
            self.believed = np.ones(len(self.rows), np.bool_)

    # --- what several answers share -------------------------------------------------------------------------------------

    def in_one_unit(self) -> ColumnQuestion:
        """The same question, with the unit in which the answer compares outcomes."""
        if not self.only_stops:
            return self._in(evidence_unit(self.sums))
        taught = self.columns.teaches[self.rows] & self.outcomes[1] & self.believed
        stop = self.columns.source_r[self.rows] == R_SOURCES["stop"]
        source: RSource | None = "stop" if (taught & stop).any() else "stated" if taught.any() else None
        return self._in(OutcomeUnit(source))

    def in_unit_of_losses(self) -> ColumnQuestion:
        """The same question in the unit that knows most losses."""
        if self.only_stops:
            return self
        taught = self.columns.teaches[self.rows] & self.believed
        units = (OutcomeUnit("stop" if self.sums.any_stop else "stated"), OutcomeUnit("atr_proxy"), self.money)
        losses = []
        for unit in units if self._money_alone else units[:2]:
            r, known = kernel.outcome_column(self.columns, self.rows, self.query.claims_count, unit)
            if (taught & known).any():
                losses.append((unit, int(np.count_nonzero(taught & known & (r < 0)))))
        return self._in(warning_unit(losses, self.query.unit))

    @property
    def ranks_own_r(self) -> bool:
        return ranks_own_r(self.query, bool((self.columns.has_r[self.rows] & self.believed).any()))

    def ranking(self, beliefs: Sequence[Belief], plans: Sequence[PlanMemory]) -> tuple[Ranking, Yardstick]:
        """The ranking, and what its scores were measured by."""
        question = self._in(None) if self.ranks_own_r else self
        yardstick = question.yardstick(beliefs, plans)
        return rank_memories(question.candidates(yardstick), beliefs, plans, question.query, yardstick), yardstick

    def _in(self, unit: OutcomeUnit | None) -> ColumnQuestion:
        """The same question in a unit. What does not depend on the unit is not computed again."""
        if unit == self.query.unit:
            return self
        other = copy(self)
        other.query = replace(self.query, unit=unit)
        other.__dict__.pop("outcomes", None)
        return other

    @cached_property
    def only_stops(self) -> bool:
        """True if every known outcome of these rows comes from a stop, as in most histories: then there is nothing to choose."""
        filters = (self.query.claims_count, self.query.symbol, self.query.strategy, self.query.side)
        return bool(self._cached_sigma(self._only_stops, *filters))

    def _only_stops(self) -> float:
        by_other = self.columns.has_r[self.rows] & ~kernel.by_stop(self.columns, self.rows)
        return float(not self._money_alone and not (by_other & self.believed).any())

    @cached_property
    def _money_alone(self) -> bool:
        """True if money knows an outcome that no stop knows."""
        columns, rows = self.columns, self.rows
        counted = columns.teaches[rows] & columns.has_money[rows] & self.believed & ~kernel.by_stop(columns, rows)
        return bool((counted if self.query.claims_count else counted & ~columns.claimed[rows]).any()) and bool(self.money.source)

    @cached_property
    def money(self) -> OutcomeUnit:
        """The agent's unit of money, from all its trades."""
        amount = self._cached_sigma(self._typical_loss, self.query.claims_count)
        few_losses = bool(self._cached_sigma(self._few_losses, self.query.claims_count))
        return OutcomeUnit("money", amount, few_losses) if amount else NO_UNIT

    def _money_results(self) -> Floats:
        """The results in money of all trades of the agent that count, without those of zero."""
        rows = slice(0, self.columns.n)
        r, known = kernel.outcome_column(self.columns, rows, self.query.claims_count, OutcomeUnit("money", 1.0))
        results: Floats = r[known & self.columns.teaches[rows] & self.columns.believed(rows, self.as_of) & (r != 0)]
        return results

    def _typical_loss(self) -> float:
        results = self._money_results()
        losses = -results[results < 0]
        sizes = losses if len(losses) >= MIN_LOSSES else np.abs(results)
        return median_of(sizes) if len(sizes) else 0.0

    def _few_losses(self) -> float:
        return float(np.count_nonzero(self._money_results() < 0) < MIN_LOSSES)

    @property
    def _unit(self) -> OutcomeUnit | None:
        """The unit that columns are read in; None where all outcomes are by stops, which is quicker and the same."""
        return None if self.only_stops else self.query.unit

    @cached_property
    def outcomes(self) -> tuple[Floats, Bools]:
        return kernel.outcome_column(self.columns, self.rows, self.query.claims_count, self._unit)

    @cached_property
    def ages(self) -> Floats:
        return kernel.age_column(self.columns, self.rows, self.query.as_of)

    @cached_property
    def likeness(self) -> Floats:
        return kernel.similarity_column(self.columns, self.rows, self.query)

    @cached_property
    def groups(self) -> NDArray[np.int32]:
        return group_codes(self.columns, self.rows, self.query.claims_count, shadows_apart=self.query.profile == "owm")

    def read(self, places: Places) -> list[Episode]:
        """The episodes at these places, from the store."""
        which = picked_rows(self.rows, places)
        assert not isinstance(which, slice)
        return list(self.fetch([(self.columns.ids[row], int(self.columns.known_from[row])) for row in which.tolist()]))

    # --- what scores are measured by ------------------------------------------------------------------------------------

    def yardstick(self, beliefs: Sequence[Belief], plans: Sequence[PlanMemory]) -> Yardstick:
        """What all memories together say about a score."""
        query, named = self.query, {source for plan in plans for source in plan.source_ids}
        literal = query.profile == "owm-literal" or query.kelly_beside
        spread_wanted = query.profile != "owm-literal" or named
        sigma = self._cached_sigma(self._sigma_known, query.claims_count, query.unit) if spread_wanted else SIGMA_UNKNOWN
        filters = (query.claims_count, query.symbol, query.strategy, query.unit)
        return Yardstick(
            sigma_r=sigma, sigma_rms=self._cached_sigma(self._sigma_rms, *filters) if literal else SIGMA_UNKNOWN,
            sharpe=sharpe_of(self._closed() if query.parameters.sharpe == "on" else [], query),
            sources=source_qualities(self._outcomes_of(named), beliefs, named, sigma, query),
        )  # fmt: skip

    def _cached_sigma(self, sigma: Callable[[], float], *of: object) -> float:
        """A sigma; of a question about now it stays the same until something changes."""
        if not self.columns.is_now(self.as_of):
            return sigma()
        key = (sigma.__name__, *of)
        if key not in self.columns.sigmas:
            self.columns.sigmas[key] = sigma()
        return self.columns.sigmas[key]

    def _teaching(self, rows: Rows) -> tuple[Floats, Bools]:
        """Outcomes of any rows of the agent, and which of them may be believed and teach."""
        columns = self.columns
        r, known = kernel.outcome_column(columns, rows, self.query.claims_count, self.query.unit)
        return r, known & columns.teaches[rows] & columns.believed(rows, self.as_of)

    def _sigma_known(self) -> float:
        """From the last outcomes and all that closed at the same moment as the first of them: the reference sorts them."""
        found: list[tuple[datetime, float]] = []
        for rows in self.columns.newest(before=self.as_of):
            r, counted = self._teaching(rows)
            found += zip(map(moment, self.columns.exit_us[rows[counted]].tolist()), r[counted].tolist(), strict=True)
            if len(found) >= SIGMA_OUTCOMES and found[SIGMA_OUTCOMES - 1][0] > moment(int(self.columns.exit_us[rows[-1]])):
                break
        return sigma_known(found, self.query.as_of, last=SIGMA_OUTCOMES)

    def _sigma_rms(self) -> float:
        r, known = self.outcomes
        counted = r[known & self.believed]
        n = len(counted)
        return max(SIGMA_FLOOR, math.sqrt(float(np.square(counted).sum(dtype=np.longdouble)) / n)) if n else SIGMA_UNKNOWN

    def _closed(self) -> list[tuple[datetime, float]]:
        r, counted = self._teaching(slice(0, self.columns.n))
        exits = self.columns.exit_us[: self.columns.n][counted].tolist()
        return [(moment(at), outcome) for at, outcome in zip(exits, r[counted].tolist(), strict=True)]

    def _outcomes_of(self, ids: set[str]) -> dict[str, float | None]:
        columns, found = self.columns, {}
        for id in ids:
            for row in columns.rows_of(id):
                here = slice(row, row + 1)
                if columns.believed(here, self.as_of)[0]:
                    r, known = kernel.outcome_column(columns, here, self.query.claims_count, self.query.unit)
                    found[id] = float(r[0]) if known[0] else None
        return found

    # --- ranked ---------------------------------------------------------------------------------------------------------

    def candidates(self, yardstick: Yardstick) -> list[Episode]:
        """All episodes that may have a place, or barely miss one."""
        query = self.query
        if "episodic" not in query.memory_types:
            return []
        m = query.limit + (MAX_NEAR_MISSES if query.explain else 0)
        margin = SHARPE_MARGIN if query.parameters.sharpe == "on" and query.profile == "owm" else FLOAT32_SCORE_MARGIN
        at, scores = self._scored(query.profile, yardstick, m, margin)
        group = self.groups[at]
        if query.profile == "balanced":
            r, known = self.outcomes
            group = 2 * group + (known & (r < 0))[at].astype(np.int32)
            lead = of_each(scores, group, np.arange(len(at)), m, margin)
        else:
            lead = leaders(scores, group, m, margin)
        return self.read(self._distinct(at[lead], scores[lead], group[lead], m))

    def _scored(self, profile: Profile, yardstick: Yardstick, m: int, margin: float) -> tuple[Places, Floats]:
        """Places and scores of all that may be among the first m.

        No factor but Aff is above 1. So what is older than the age at which freshness alone falls below a score that m
        others surely reach has no place, and of the rest only what reaches it without likeness need be compared.
        """
        floor = self._surely_reached(profile, yardstick, m) * (1.0 - 2.0 * margin)
        at = np.flatnonzero(self.believed & (self.columns.exit_us[self.rows] >= self._oldest(profile, floor)))
        others = self._other_factors(profile, yardstick, at, exactly=floor < TINY_SCORE)
        able = others >= floor
        at, others = at[able], others[able]
        return at, others * self._alike(profile, at)

    def _surely_reached(self, profile: Profile, yardstick: Yardstick, m: int) -> float:
        """A score that the m-th best has at least: that of the m-th best of the last rows, of those that may fill a list."""
        if profile == "balanced" or not m:
            return 0.0
        sample = np.arange(max(0, row_count(self.rows) - SAMPLE_ROWS), row_count(self.rows))
        sample = sample[self.believed[sample] & (self.groups[sample] == 0)]
        if len(sample) < m:
            return 0.0
        return nth(self._other_factors(profile, yardstick, sample, exactly=True) * self._alike(profile, sample), m)

    def _oldest(self, profile: Profile, floor: float) -> int:
        """The first exit from which on a row can still reach a score by its freshness, were all else at its best."""
        parameters = self.query.parameters if profile == "owm" else PLAIN
        at_best = (1.0 + 0.5 * parameters.alpha) * (parameters.boost_at_most if parameters.strength == "on" else 1.0)
        reach = math.log(at_best / floor) / parameters.exponent if floor > 0 and parameters.exponent > 0 else math.inf
        days = parameters.tau_days * math.expm1(reach) if reach < MAX_TIME_CONSTANTS else math.inf
        return self.as_of - int(days * kernel.DAY_US) - 1 if days * kernel.DAY_US < OPEN_END else -OPEN_END

    def _other_factors(self, profile: Profile, yardstick: Yardstick, at: Places, exactly: bool) -> Floats:
        """A score without likeness."""
        parameters = self.query.parameters if profile == "owm" else PLAIN
        slope = parameters.k / (yardstick.sigma_rms if profile == "owm-literal" else yardstick.sigma_r)

        def product(rows: Rows) -> Floats:
            r, known = kernel.outcome_column(self.columns, rows, self.query.claims_count, self._unit)
            found = kernel.recency_column(
                kernel.age_column(self.columns, rows, self.query.as_of), parameters.tau_days, parameters.exponent
            )
            found *= kernel.quality_column(np.abs(r) if profile == "balanced" else r, known, slope, exactly)
            found *= self.columns.conf[rows]
            found *= kernel.affect_column(r, known, profile, self.query)
            return found

        found = kernel.in_stretches(product, picked_rows(self.rows, at))
        if profile == "owm" and parameters.strength == "on":
            found *= self._boosts()[at]
        return found

    def _boosts(self) -> Floats:
        """What citations add to the freshness of each row."""
        found = np.ones(row_count(self.rows))
        for place, cited in self._cited():
            found[place] = retrieval_strength(0.0, cited, boost_at_most=self.query.parameters.boost_at_most)
        return found

    def _cited(self) -> list[tuple[int, int]]:
        """The places of cited episodes, and how often each was."""
        cited = {row: n for id, n in self.query.times_shown.items() for row in self.columns.rows_of(id)}
        if isinstance(self.rows, slice):
            return list(cited.items())
        places = np.flatnonzero(np.isin(self.rows, list(cited)))
        return [(int(place), cited[int(self.rows[place])]) for place in places]

    def _alike(self, profile: Profile, at: Places) -> Floats:
        rows = picked_rows(self.rows, at)
        if profile == "owm-literal":
            return kernel.similarity_column_7_4(self.columns, rows, self.query)
        if profile == "balanced":
            plain = kernel.SimilarityKernel(self.columns, replace(self.query, parameters=PLAIN), across=False)
            return kernel.in_stretches(plain.of, rows)
        if "likeness" in self.__dict__:
            return self.likeness[at]
        return kernel.similarity_column(self.columns, rows, self.query)

    def _distinct(self, at: Places, scores: Floats, group: NDArray[np.int32], m: int) -> Places:
        """The same places without those that m equal ones come before.

        Equal but for its time is enough: the newer is the fresher (save where the weeks before weigh). And what scores
        nothing is equal, whatever else it is.
        """
        if len(at) <= max(RANKED_DIRECTLY_ROWS, m):
            return at
        nothing = np.zeros(row_count(self.rows), np.bool_)
        nothing[at] = scores == 0
        grouped = np.zeros(row_count(self.rows), np.int32)
        grouped[at] = group
        r, known = self.outcomes
        cited = np.zeros(row_count(self.rows))
        for place, n in self._cited():
            cited[place] = n

        def parts(places: Places) -> Parts:
            rows = picked_rows(self.rows, places)
            when = self.columns.exit_us[rows] if self.query.parameters.sharpe == "on" else np.zeros(len(places))
            scored = [r[places] * known[places], known[places], cited[places], self.columns.conf[rows], when,
                      *situation_parts(self.columns, rows)]  # fmt: skip
            return [grouped[places], nothing[places], *(np.where(nothing[places], 0.0, part) for part in scored)]

        return drop_duplicates(self.columns, self.rows, at, m, parts)

    # --- warnings -------------------------------------------------------------------------------------------------------

    def warnings(self) -> tuple[LossWarning, ...]:
        """The losses to keep in mind."""
        m = self.query.warnings_limit
        r, known = self.outcomes
        lost = np.flatnonzero(self.columns.teaches[self.rows] & known & (r < 0) & self.believed)
        if not m or not len(lost):
            return ()
        sim = self.likeness[lost]
        alike = self._surely_alike(lost, sim)
        if not alike.any():
            near = lost[best(sim, 1, SCORE_MARGIN)]
            return find_warnings(self.read(drop_duplicates(self.columns, self.rows, near, 1, self._sim_parts)), self.query)
        lost, sim = lost[alike], sim[alike]
        severity = -r[lost] * sim * kernel.recency_column(self.ages[lost], FADING_DAYS, FADING_EXPONENT)
        severity *= self.columns.conf[picked_rows(self.rows, lost)]
        lead = leaders(severity, self.groups[lost], m, SCORE_MARGIN)
        return find_warnings(self.read(self._distinct(lost[lead], np.ones(len(lead)), self.groups[lost[lead]], m)), self.query)

    def _sim_parts(self, places: Places) -> Parts:
        return situation_parts(self.columns, picked_rows(self.rows, places))

    def _surely_alike(self, lost: Places, sim: Floats) -> Bools:
        """Which losses are alike enough to warn. Likeness by labels alone often comes to the very limit, and there the last
        digit decides: so of each kind of situation at the limit one is read, and the reference says which side it is on."""
        alike = sim >= MIN_SIMILARITY
        doubtful = np.flatnonzero(np.abs(sim - MIN_SIMILARITY) <= SCORE_MARGIN)
        if len(doubtful):
            parts = np.column_stack([part.astype(np.float64) for part in self._sim_parts(lost[doubtful])])
            _, first, kind = np.unique(parts, axis=0, return_index=True, return_inverse=True)
            read = {e.id: situation_similarity(e, self.query) >= MIN_SIMILARITY for e in self.read(lost[doubtful[first]])}
            ids = [self.columns.ids[row] for row in picked_rows(self.rows, lost[doubtful[first]])]
            alike[doubtful] = np.array([read[id] for id in ids])[kind.ravel()]
        return alike

    # --- evidence -------------------------------------------------------------------------------------------------------

    @cached_property
    def sums(self) -> EvidenceSums:
        """The sums behind evidence."""
        parameters = self.query.parameters
        weight = np.square(np.square(self.likeness)) if parameters.power == 4 else self.likeness**parameters.power
        weight *= kernel.recency_column(self.ages, parameters.tau_days, parameters.exponent)
        weight *= self.columns.conf[self.rows]
        money = NO_UNIT if self.only_stops else self.money
        return weights.evidence_sums_of_rows(self.columns, self.rows, self.believed, weight, self.query, money)

    def evidence(self, other: tuple[ComparedSize, ...]) -> Evidence:
        """What all trades together say."""
        return evidence_from_sums(self.sums, self.query, other)

    def beside(self, yardstick: Yardstick) -> tuple[ComparedSize, ...]:
        """The sizes of two other rules."""
        at, scores = self._scored("owm-literal", yardstick, RECENT_TRADES, FLOAT32_SCORE_MARGIN)
        lead = best(scores, RECENT_TRADES, FLOAT32_SCORE_MARGIN)
        top = self._distinct(at[lead], scores[lead], np.zeros(len(lead), np.int32), RECENT_TRADES)
        r, known = self.outcomes
        closed = np.flatnonzero(self.columns.teaches[self.rows] & known & self.believed)
        recent = r[newest(self.columns, self.rows, closed, RECENT_TRADES)].tolist()
        return compared_sizes(literal_best(self.read(top), self.query, yardstick), recent, self.query.affect.risk_appetite)
