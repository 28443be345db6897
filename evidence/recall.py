"""Recall: exact, and whether it predicts.

Each real history is walked forward. At the entry of every trade, evidence is asked about the situation of that entry, with what
was known then, and its mean is compared with how the trade ended: rank correlation, with a 90 % interval from resampled days. The
baseline is the mean of the last 50 outcomes, which looks at no situation. At random moments the whole answer is compared with the
reference implementation, which scores every memory in plain Python.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from evidence.figures import Figure, Scale
from evidence.histories import HISTORIES, MIN_TRADES, RealHistory, histories_available, imported
from memtape.columns import Columns, evidence_columns, recall_columns
from memtape.core.codec import micros
from memtape.core.memory.episodes import EPISODE_FIELDS, Episode
from memtape.core.memory.outcome_units import money_unit
from memtape.core.recall.evidence import rounded
from memtape.core.recall.query import Query
from memtape.core.recall.reference import recall_reference
from memtape.core.statistics import mean

SEED, RESAMPLES, BASELINE_TRADES = 20261118, 400, 50
TIMES = {"known_from", "known_to", "entry_at", "exit_at"}
Prediction = tuple[str, float, float, float]  # day, by evidence, by the last outcomes, what happened


def study(scale: Scale) -> list[Figure]:
    """Returns the share of exact answers, and how well evidence and the baseline rank what followed."""
    if not histories_available():
        return []
    chosen = HISTORIES if scale == "full" else HISTORIES[:1]
    asked = equal = 0
    figures = []
    for history in chosen:
        episodes, columns = _remembered(history)
        for query in _random_queries(episodes, 20 if scale == "full" else 3):
            asked, equal = asked + 1, equal + _is_equal(episodes, columns, query)
        if (figure := _predictive(history.name, _walked(episodes, columns), scale)) is not None:
            figures.append(figure)
    exact = Figure("answers equal to the reference, real histories", equal / asked, asked, "share of answers", at_least=1.0)
    return [exact, *figures]


def _remembered(history: RealHistory) -> tuple[list[Episode], Columns]:
    """Returns the episodes of a history and the columns that answer about them."""
    agent = imported(history)
    with agent.view() as view:
        episodes = list(view.episodes())
    columns = Columns()
    columns.put([_row(e) for e in episodes])
    return episodes, columns


def _row(episode: Episode) -> list[object]:
    values = zip(EPISODE_FIELDS, episode, strict=True)
    return [micros(value) if name in TIMES and value is not None else value for name, value in values]


def _query(episode: Episode) -> Query:
    # The entry itself is the moment: everything that closed by then is known.
    return Query(situation=episode.situation, as_of=episode.entry_at)


def _random_queries(episodes: Sequence[Episode], n: int) -> list[Query]:
    later = sorted(episodes, key=lambda e: (e.entry_at, e.id))[MIN_TRADES // 2 :]
    return [_query(e) for e in random.Random(SEED).sample(later, min(n, len(later)))]


def _is_equal(episodes: Sequence[Episode], columns: Columns, query: Query) -> bool:
    stored = {(e.id, micros(e.known_from)): e for e in episodes}
    slow = recall_reference(episodes, [], [], query)
    quick = recall_columns(columns, [], [], query, lambda keys: [stored[key] for key in keys])
    same = (slow.ranked, slow.warnings) == (quick.ranked, quick.warnings)
    return same and rounded(slow.evidence) == rounded(quick.evidence)


def _walked(episodes: Sequence[Episode], columns: Columns) -> list[Prediction]:
    """Returns a prediction for each trade that enough others were known before."""
    money = money_unit(episodes, claims_count=True)
    ended = sorted(episodes, key=lambda e: (e.exit_at, e.id))
    found: list[Prediction] = []
    for episode in sorted(episodes, key=lambda e: (e.entry_at, e.id)):
        before = [r for e in ended if e.exit_at <= episode.entry_at and (r := money.outcome(e)) is not None]
        happened = money.outcome(episode)
        if len(before) < MIN_TRADES or happened is None:
            continue
        evidence = evidence_columns(columns, _query(episode))
        if evidence.mean_r is not None:
            found.append((f"{episode.entry_at:%Y-%m-%d}", evidence.mean_r, mean(before[-BASELINE_TRADES:]), happened))
    return found


def _predictive(name: str, walked: Sequence[Prediction], scale: Scale) -> Figure | None:
    if len(walked) < MIN_TRADES:
        return None
    by_evidence, by_last = (_correlation(walked, which) for which in (1, 2))
    low, high = _interval(walked, RESAMPLES if scale == "full" else 20)
    baseline = f"last {BASELINE_TRADES} outcomes: {by_last:+.2f}; 90 % interval {low:+.2f} to {high:+.2f}"
    what = f"rank correlation of evidence with what followed, {name}"
    return Figure(what, by_evidence, len(walked), "trades", baseline=baseline)


def _correlation(walked: Sequence[Prediction], which: int) -> float:
    """Returns Spearman's correlation of a prediction with what happened; 0 if one of them never varies."""
    ranks = [_ranks(np.array([one[at] for one in walked], float)) for at in (which, 3)]
    return float(np.corrcoef(*ranks)[0, 1]) if all(np.ptp(each) > 0 for each in ranks) else 0.0


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the ranks of values; equal ones share theirs."""
    _, place, size = np.unique(values, return_inverse=True, return_counts=True)
    ranks: NDArray[np.float64] = (np.cumsum(size) - (size - 1) / 2.0)[place]
    return ranks


def _interval(walked: Sequence[Prediction], resamples: int) -> tuple[float, float]:
    """Returns the 90 % interval over resampled days: trades of one day share their luck."""
    days: defaultdict[str, list[Prediction]] = defaultdict(list)
    for one in walked:
        days[one[0]].append(one)
    chance, names = random.Random(SEED), sorted(days)
    drawn = []
    for _ in range(resamples):
        sample = [one for day in chance.choices(names, k=len(names)) for one in days[day]]
        drawn.append(_correlation(sample, 1))
    drawn.sort()
    return drawn[int(0.05 * len(drawn))], drawn[int(0.95 * len(drawn))]
