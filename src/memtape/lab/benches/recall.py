"""What recall costs: against the per-row reference on the same memories, with ten times as many, and for one symbol of twelve.

The past is made by arithmetic from a number: twelve symbols, each with a strategy of its own, few distinct outcomes and
times to the minute, so that there are ties; every seventh label and every fifth number missing; some shadows, some claims. The
reference costs the same for every row, so where it is timed on fewer rows its time is multiplied; the result says on how many.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from memtape.columns import Columns, rank_columns, recall_columns
from memtape.columns.recall import Key
from memtape.core.codec import micros, moment
from memtape.core.memory.episodes import EPISODE_FIELDS, Episode
from memtape.core.observed import Situation
from memtape.core.original.scores import rank_7_4
from memtape.core.recall.evidence import rounded
from memtape.core.recall.query import Query
from memtape.core.recall.reference import recall_reference
from memtape.core.recall.scoring import AffectInputs, Scored, ScoringInput
from memtape.lab.benches.desk import Bench
from memtape.lab.benches.timing import Result, Sides, cpu, in_turn, judged, milliseconds

SYMBOLS = tuple(f"S{n}" for n in range(12))
REGIMES, VOLATILITIES = ("trending_up", "trending_down", "ranging", "volatile"), ("low", "normal", "high", "extreme")
SESSIONS = ("asia", "london", "overlap", "newyork")
OUTCOMES = (-1.0, -1.0, 2.0, -0.4, 0.0, 1.3, -1.0, 3.1, None, 0.7, -2.2)
NOW = datetime(2026, 6, 5, 12, tzinfo=UTC)
YEARS = timedelta(days=730)
MINUTE_US, BATCH = 60_000_000, 20_000
AT = {name: at for at, name in enumerate(EPISODE_FIELDS)}
TIMES = tuple(AT[name] for name in ("known_from", "known_to", "entry_at", "exit_at"))
OFTEN = 4  # times each question about the ranking alone is asked in a round
PER_ROW = 10  # the reference is timed on one in ten of the rows


def row(n: int, of: int, claims: bool = True) -> tuple[Any, ...]:
    """The n-th memory of so many, as the store gives it: oldest first, over two years; with some that models claim."""
    h = (n * 2_654_435_761 + 12_345) % 2**32 >> 4
    exit_us = micros(NOW) - (of - n) * (YEARS // timedelta(microseconds=1)) // (of + 1) // MINUTE_US * MINUTE_US
    r, far = OUTCOMES[h % 11], (h % 997) / 997 - 0.5
    claim, size = claims and h % 17 == 0, 1 + n % 12
    price = None if h % 5 == 4 else 100.0 * size * (1 + 0.3 * far)
    told: dict[str, Any] = {
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
    return tuple(told.get(name) for name in EPISODE_FIELDS)


def episode(row: Sequence[Any]) -> Episode:
    """A row as an episode."""
    values = list(row)
    for at in TIMES:
        values[at] = None if values[at] is None else moment(values[at])
    values[AT["tags"]] = ()
    return Episode(*values)


def filled(n: int, claims: bool = True) -> Columns:
    """Columns with so many memories."""
    found = Columns()
    for start in range(0, n, BATCH):
        found.put([row(at, n, claims) for at in range(start, min(start + BATCH, n))])
    return found


def fetching(n: int, claims: bool = True) -> Callable[[list[Key]], list[Episode]]:
    """A store of so many memories: it makes what it is asked for, and keeps it."""
    made = cache(lambda id: episode(row(int(id), n, claims)))
    return lambda keys: [made(id) for id, _ in keys]


def questions() -> Iterator[Query]:
    """A few situations of a desk."""
    for n in range(5):
        size = 1 + 2 * n
        yield Query(
            situation=Situation(symbol=SYMBOLS[2 * n], regime=REGIMES[n % 4], volatility_regime=VOLATILITIES[n % 3],
                                session=SESSIONS[n % 4], price=102.0 * size, atr_d1=2.1 * size, atr_h1=0.55 * size,
                                spread_as_atr_pct=0.1, drawdown_pct=0.02 * n),
            as_of=NOW + timedelta(minutes=n),
        )  # fmt: skip


def quicker(what: str, n: int, sides: Sides, bar: float, **more: Any) -> Result:
    """How many times quicker the subject is than the baseline, against its bar."""
    ratio = round(1.0 / sides.ratio, 1)
    found = judged(what, n, sides, bar, **more)
    return found | {"ratio": ratio, "better": "higher", "ok": ratio >= bar}


def each_of(times: list[float], works: int) -> list[float]:
    """Seconds of one of several works that were timed together."""
    return [seconds / works for seconds in times]


def measure_ranked(bench: Bench) -> dict[str, Result]:
    """`ranked_100k`."""
    n = bench.scale.large
    columns, fetch = filled(n, claims=False), fetching(n, claims=False)  # the original knows no tiers
    asked = [replace(query, profile="owm-literal") for query in questions()]
    candidates = [
        ScoringInput(id=e.id, formed=e.exit_at, situation=e.situation, pnl_r=e.pnl_r, confidence=e.confidence)
        for e in (episode(row(at, n, claims=False)) for at in range(n))
    ]  # fmt: skip

    def plain(query: Query) -> list[Scored]:
        return rank_7_4(candidates, query.situation, AffectInputs(), query.as_of)

    def ours() -> list[list[str]]:
        return [[each.id for each in rank_columns(columns, [], [], query, fetch).ranked] for query in asked]

    for query, found in zip(asked[:2], ours(), strict=False):
        assert found == [each.candidate.id for each in plain(query)[: query.limit]], "the columns rank other memories"
    gc.freeze()  # the baseline's objects are not for the subject to sweep
    (sides,) = in_turn([(lambda: plain(asked[0]), lambda: [ours() for _ in range(OFTEN)])] * bench.scale.rounds, cpu)
    gc.unfreeze()
    sides.subject = each_of(sides.subject, OFTEN * len(asked))
    return {
        "ranked_100k": quicker(
            f"The ranking alone, exact, of {n} memories in 12 segments without a filter, against the original's "
            "formula row by row: how many times quicker.", n, sides, 300.0,
        )
    }  # fmt: skip


def measure_recall(bench: Bench) -> dict[str, Result]:
    """`recall_100k`, `recall_1m` and `recall_one_symbol`."""
    n, rounds = bench.scale.large, bench.scale.rounds
    few = n // PER_ROW
    memories = [episode(row(at, few)) for at in range(few)]
    asked = list(questions())
    sizes = {size: (filled(size), fetching(size)) for size in (few, n, 10 * n)}

    def ours(size: int, one_symbol: bool = False) -> None:
        columns, fetch = sizes[size]
        for query in asked:
            recall_columns(columns, [], [], replace(query, symbol=query.situation.symbol) if one_symbol else query, fetch)

    slow, quick = recall_reference(memories, [], [], asked[0]), recall_columns(sizes[few][0], [], [], asked[0], sizes[few][1])
    assert (slow.ranked, slow.warnings) == (quick.ranked, quick.warnings), "the columns recall other memories"
    assert rounded(slow.evidence) == rounded(quick.evidence), "the columns find other figures"
    (sides,) = in_turn([(lambda: recall_reference(memories, [], [], asked[0]), lambda: ours(n))] * rounds, cpu)
    whole = Sides([seconds * PER_ROW for seconds in sides.baseline], each_of(sides.subject, len(asked)))
    (small,) = in_turn([(lambda: ours(few), lambda: ours(n))] * rounds, cpu)
    (tenfold,) = in_turn([(lambda: ours(n), lambda: ours(10 * n))] * rounds, cpu)
    (filtered,) = in_turn([(lambda: ours(10 * n), lambda: ours(10 * n, one_symbol=True))] * rounds, cpu)
    (filtered_fewer,) = in_turn([(lambda: ours(n), lambda: ours(n, one_symbol=True))] * rounds, cpu)
    for side in (small, tenfold, filtered, filtered_fewer):
        side.baseline, side.subject = each_of(side.baseline, len(asked)), each_of(side.subject, len(asked))
    return {
        "recall_100k": quicker(
            f"Ranked, warnings and evidence with their reasons from {n} memories, against the reference row by row "
            f"(timed on {few} rows, times {PER_ROW}): how many times quicker.", n, whole, 60.0,
            few=few, few_ms=milliseconds(small.baseline),
        ),
        "recall_1m": judged(f"The same from {10 * n} memories against from {n}.", 10 * n, tenfold, 20.0),
        "recall_one_symbol": judged(
            f"The same for one symbol of twelve against all, from {10 * n} memories.", 10 * n, filtered, round(1 / 6, 3),
            fewer=n, fewer_ratio=round(filtered_fewer.ratio, 3),
        ),
    }  # fmt: skip


def measure_load(bench: Bench) -> dict[str, Result]:
    """`recall_load`."""
    n = bench.scale.large
    rows = [row(at, n) for at in range(n)]

    def load() -> None:
        Columns().put(rows)

    (sides,) = in_turn([(lambda: [episode(each) for each in rows], load)] * bench.scale.rounds, cpu)
    return {"recall_load": judged(f"{n} rows into columns, against reading them as episodes one by one.", n, sides, 2.0)}
