"""The cost of recall: compared with the per-row reference, with ten times as many memories, and for one symbol of twelve.

The n-th memory is computed from n: twelve symbols, each with a strategy of its own; few distinct outcomes and times to the
minute, so that there are ties; every seventh label and every fifth number is missing; some are shadows, some are claims. The
reference costs the same for every row. So it is timed on fewer rows and its time multiplied; the result says on how many.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from bench.desk import BenchRun
from bench.timing import Result, Sides, cpu, judge, milliseconds, time_in_turn
from memtape.columns import Columns, rank_columns, recall_columns
from memtape.columns.recall import Key
from memtape.core.codec import micros, moment
from memtape.core.memory.episodes import EPISODE_FIELDS, Episode
from memtape.core.observed import Situation
from memtape.core.original.score_formulas import rank_7_4
from memtape.core.recall.evidence import rounded
from memtape.core.recall.query import Query
from memtape.core.recall.reference import recall_reference
from memtape.core.recall.scoring import AffectInputs, Scored, ScoringInput

SYMBOLS = tuple(f"S{n}" for n in range(12))
REGIMES, VOLATILITIES = ("trending_up", "trending_down", "ranging", "volatile"), ("low", "normal", "high", "extreme")
SESSIONS = ("asia", "london", "overlap", "newyork")
OUTCOMES = (-1.0, -1.0, 2.0, -0.4, 0.0, 1.3, -1.0, 3.1, None, 0.7, -2.2)
LAST_EXIT = datetime(2026, 6, 5, 12, tzinfo=UTC)
TIME_SPAN = timedelta(days=730)
MINUTE_US, BATCH_ROWS = 60_000_000, 20_000
FIELD_INDEX = {name: at for at, name in enumerate(EPISODE_FIELDS)}
TIME_INDICES = tuple(FIELD_INDEX[name] for name in ("known_from", "known_to", "entry_at", "exit_at"))
RANKING_REPEATS = 4  # times each ranking question is asked in a round
REFERENCE_SHARE = 10  # the reference is timed on one in ten of the rows


def row(n: int, of: int, claims: bool = True) -> tuple[Any, ...]:
    """Returns the n-th memory of so many as a row of the store: oldest first, over two years, some claimed by models."""
    h = (n * 2_654_435_761 + 12_345) % 2**32 >> 4
    exit_us = micros(LAST_EXIT) - (of - n) * (TIME_SPAN // timedelta(microseconds=1)) // (of + 1) // MINUTE_US * MINUTE_US
    r, far = OUTCOMES[h % 11], (h % 997) / 997 - 0.5
    claim, size = claims and h % 17 == 0, 1 + n % 12
    price = None if h % 5 == 4 else 100.0 * size * (1 + 0.3 * far)
    values: dict[str, Any] = {
        "id": f"{n:07d}", "known_from": exit_us, "kind": "shadow" if h % 23 == 0 else "trade", "symbol": SYMBOLS[n % 12],
        "strategy": f"strategy {n % 12}", "side": "long" if h % 3 else "short", "tier": 3 if claim else 0, "claimed": claim,
        "source": ("model", "another model")[h % 2] if claim else "broker", "exit_at": exit_us,
        "entry_at": exit_us - 30 * MINUTE_US, "pnl_r": r, "r_source": None if r is None else "stop" if h % 4 else "atr_proxy",
        "confidence": None if h % 9 == 0 else h % 11 / 10, "teach": "exclude" if h % 41 == 0 else "learn",
        "regime": None if h % 7 == 0 else REGIMES[h // 7 % 4], "session": None if h % 7 == 2 else SESSIONS[h // 112 % 4],
        "volatility_regime": None if h % 7 == 1 else VOLATILITIES[h // 28 % 4], "price": price,
        "atr_d1": None if h % 5 == 0 else 2.0 * size * (1 + far), "atr_h1": None if h % 5 == 1 else 0.5 * size * (1 - far),
        "spread_as_atr_pct": None if h % 5 == 2 else h % 13 / 50, "drawdown_pct": None if h % 5 == 3 else h % 19 / 100,
        "tags": "[]",
    }  # fmt: skip
    return tuple(values.get(name) for name in EPISODE_FIELDS)


def episode(row: Sequence[Any]) -> Episode:
    """Returns a row as an episode."""
    values = list(row)
    for at in TIME_INDICES:
        values[at] = None if values[at] is None else moment(values[at])
    values[FIELD_INDEX["tags"]] = ()
    return Episode(*values)


def filled_columns(n: int, claims: bool = True) -> Columns:
    """Returns columns with so many memories."""
    columns = Columns()
    for start in range(0, n, BATCH_ROWS):
        columns.put([row(at, n, claims) for at in range(start, min(start + BATCH_ROWS, n))])
    return columns


def episode_fetcher(n: int, claims: bool = True) -> Callable[[list[Key]], list[Episode]]:
    """Returns a stand-in for a store of so many memories: it makes each episode when it is first read."""
    made = cache(lambda id: episode(row(int(id), n, claims)))
    return lambda keys: [made(id) for id, _ in keys]


def questions() -> Iterator[Query]:
    """Yields a few situations of a desk."""
    for n in range(5):
        size = 1 + 2 * n
        yield Query(
            situation=Situation(symbol=SYMBOLS[2 * n], regime=REGIMES[n % 4], volatility_regime=VOLATILITIES[n % 3],
                                session=SESSIONS[n % 4], price=102.0 * size, atr_d1=2.1 * size, atr_h1=0.55 * size,
                                spread_as_atr_pct=0.1, drawdown_pct=0.02 * n),
            as_of=LAST_EXIT + timedelta(minutes=n),
        )  # fmt: skip


def judge_speedup(what: str, n: int, sides: Sides, bar: float, **more: Any) -> Result:
    """Compare how many times quicker than the baseline the subject is with its bar."""
    ratio = round(1.0 / sides.ratio, 1)
    result = judge(what, n, sides, bar, **more)
    return result | {"ratio": ratio, "better": "higher", "ok": ratio >= bar}


def per_work(times: list[float], works: int) -> list[float]:
    """Returns the seconds of one of several works that were timed together."""
    return [seconds / works for seconds in times]


def measure_ranked(bench: BenchRun) -> dict[str, Result]:
    """Measure `ranked_100k`."""
    n = bench.scale.large
    # The original formula has no tiers, so it has no claims.
    columns, fetch = filled_columns(n, claims=False), episode_fetcher(n, claims=False)
    queries = [replace(query, profile="owm-literal") for query in questions()]
    candidates = [
        ScoringInput(id=e.id, formed=e.exit_at, situation=e.situation, pnl_r=e.pnl_r, confidence=e.confidence)
        for e in (episode(row(at, n, claims=False)) for at in range(n))
    ]  # fmt: skip

    def plain(query: Query) -> list[Scored]:
        return rank_7_4(candidates, query.situation, AffectInputs(), query.as_of)

    def ours() -> list[list[str]]:
        return [[each.id for each in rank_columns(columns, [], [], query, fetch).ranked] for query in queries]

    for query, found in zip(queries[:2], ours(), strict=False):
        assert found == [each.candidate.id for each in plain(query)[: query.limit]], "the columns rank differently"
    # The garbage collector must not charge the baseline's objects to the subject.
    gc.freeze()
    (sides,) = time_in_turn(
        [(lambda: plain(queries[0]), lambda: [ours() for _ in range(RANKING_REPEATS)])] * bench.scale.rounds, cpu
    )
    gc.unfreeze()
    sides.subject = per_work(sides.subject, RANKING_REPEATS * len(queries))
    return {
        "ranked_100k": judge_speedup(
            f"The ranking alone, exact, of {n} memories in 12 segments without a filter, compared with the original "
            "formula row by row: how many times quicker.", n, sides, 300.0,
        )
    }  # fmt: skip


def measure_recall(bench: BenchRun) -> dict[str, Result]:
    """Measure `recall_100k`, `recall_1m` and `recall_one_symbol`."""
    n, rounds = bench.scale.large, bench.scale.rounds
    few = n // REFERENCE_SHARE
    memories = [episode(row(at, few)) for at in range(few)]
    queries = list(questions())
    sizes = {size: (filled_columns(size), episode_fetcher(size)) for size in (few, n, 10 * n)}

    def ours(size: int, one_symbol: bool = False) -> None:
        columns, fetch = sizes[size]
        for query in queries:
            recall_columns(columns, [], [], replace(query, symbol=query.situation.symbol) if one_symbol else query, fetch)

    slow, quick = recall_reference(memories, [], [], queries[0]), recall_columns(sizes[few][0], [], [], queries[0], sizes[few][1])
    assert (slow.ranked, slow.warnings) == (quick.ranked, quick.warnings), "the columns recall different memories"
    assert rounded(slow.evidence) == rounded(quick.evidence), "the columns give different figures"
    (sides,) = time_in_turn([(lambda: recall_reference(memories, [], [], queries[0]), lambda: ours(n))] * rounds, cpu)
    whole = Sides([seconds * REFERENCE_SHARE for seconds in sides.baseline], per_work(sides.subject, len(queries)))
    (small,) = time_in_turn([(lambda: ours(few), lambda: ours(n))] * rounds, cpu)
    (tenfold,) = time_in_turn([(lambda: ours(n), lambda: ours(10 * n))] * rounds, cpu)
    (filtered,) = time_in_turn([(lambda: ours(10 * n), lambda: ours(10 * n, one_symbol=True))] * rounds, cpu)
    (filtered_fewer,) = time_in_turn([(lambda: ours(n), lambda: ours(n, one_symbol=True))] * rounds, cpu)
    for side in (small, tenfold, filtered, filtered_fewer):
        side.baseline, side.subject = per_work(side.baseline, len(queries)), per_work(side.subject, len(queries))
    return {
        "recall_100k": judge_speedup(
            f"Ranking, warnings and evidence with reasons from {n} memories, compared with the reference row by row "
            f"(timed on {few} rows, times {REFERENCE_SHARE}): how many times quicker.", n, whole, 60.0,
            few=few, few_ms=milliseconds(small.baseline),
        ),
        "recall_1m": judge(f"The same from {10 * n} memories, compared with {n}.", 10 * n, tenfold, 20.0),
        "recall_one_symbol": judge(
            f"The same for one symbol of twelve, compared with all, from {10 * n} memories.", 10 * n, filtered, round(1 / 6, 3),
            fewer=n, fewer_ratio=round(filtered_fewer.ratio, 3),
        ),
    }  # fmt: skip


def measure_load(bench: BenchRun) -> dict[str, Result]:
    """Measure `recall_load`."""
    n = bench.scale.large
    rows = [row(at, n) for at in range(n)]

    def load() -> None:
        Columns().put(rows)

    (sides,) = time_in_turn([(lambda: [episode(each) for each in rows], load)] * bench.scale.rounds, cpu)
    return {"recall_load": judge(f"{n} rows into columns, compared with reading them as episodes one by one.", n, sides, 2.0)}
