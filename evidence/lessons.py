"""Lessons: how often luck becomes one, and how often an effect does.

A note is made of a history whose outcomes have nothing to do with its labels: they are rotated against the trades (runs of luck
stay whole) or shuffled. A note with a lesson that is not marked "could be chance" is a false one. Real histories are six
windows of 500 trades (four variants of a gold strategy, options of one person twice) and two short ones (coins and shares
traded by models, under 30 trading days). Invented histories have luck that lasts: outcomes that follow each other, and a hidden
state that lowers or lifts all outcomes for ten days on average. Worlds (`evidence/worlds.py`) have luck and calendars of many
kinds; those called fresh were invented after the tests were settled.

Then an effect is planted into 40 of 300 trades of a rotated history: 40 trades at random (a label that varies within a day), or
all trades of some days. It is found if its own group is in the note without the mark. One unit of the real histories is a
typical loss. The invented ones have a standard deviation of 1.4R. The options vary by about two units, so they are reported
without a bar. So is an effect of a weekday, a session or a regime that lasts for five days: a weekday returns each week, so its
days can only be compared with six other kinds of days, and such a label costs the most power.

Compared with Welch's t-test of the same groups, with one gate of the same rate over all of them.
"""

from __future__ import annotations

import math
import random
from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from statistics import NormalDist, fmean
from typing import Literal, NamedTuple

from evidence import trade_histories
from evidence.figures import Figure, Scale
from evidence.worlds import FRESH_WORLDS, KNOWN_WORLDS, SESSIONS, START, World, about
from memtape.core.lessons.candidates import FALSE_DISCOVERY_RATE, MIN_TRADING_DAYS, comparable_outcomes, find_candidates
from memtape.core.lessons.reflection import Candidate
from memtape.core.lessons.stats_lessons import lessons_of
from memtape.core.memory.beliefs import accepted_cells
from memtape.core.memory.episodes import EPISODE_FIELDS, Episode
from memtape.core.memory.outcome_units import typical_loss
from memtape.core.skills import Skill
from memtape.core.statistics import spread

NOTES: dict[Scale, int] = {"small": 8, "full": 200}
FEWER_NOTES: dict[Scale, int] = {"small": 8, "full": 100}  # of real histories, and of worlds that the tests were made with
PLANTED_NOTES: dict[Scale, int] = {"small": 8, "full": 40}
PLANTED_TRADES, HISTORY_TRADES = 40, 300
SKILL = Skill(id="study")
Level = Literal["within a day", "of a day"]
UNITS = {1.0: "one unit", 1.5: "one and a half"}
AT_MOST_FALSE = 0.10
AT_LEAST_FOUND: dict[tuple[Level, float], float] = {
    ("within a day", 1.0): 0.70, ("of a day", 1.0): 0.60, ("within a day", 1.5): 0.90, ("of a day", 1.5): 0.90,
}  # fmt: skip
REAL: dict[str, Callable[[], list[Episode]]] = {
    "gold strategy gold_soft22": partial(trade_histories.backtest, "gold_soft22"),
    "gold strategy rs_base": partial(trade_histories.backtest, "rs_base"),
    "gold strategy dca1_mask": partial(trade_histories.backtest, "dca1_mask"),
    "gold strategy gm_kalfx": partial(trade_histories.backtest, "gm_kalfx"),
    "options, earlier": partial(trade_histories.options, 0),
    "options, later": partial(trade_histories.options, 682),
    "coins by models, 12 days": trade_histories.arena,
    "shares by models, 26 days": trade_histories.shares,
}
LABELLED: dict[str, Callable[[Episode], bool]] = {
    "weekday": lambda e: e.entry_at.weekday() == 1,
    "session": lambda e: e.session == "london",
    "regime": lambda e: e.regime == "ranging",
}
SMALL_HISTORY = "gold strategy rs_base"


class Found(NamedTuple):
    """Which groups a note has without the mark, and which Welch's test would have."""

    lessons: frozenset[str]
    plain: frozenset[str]


def study(scale: Scale) -> list[Figure]:
    """Measures false lessons and found effects."""
    notes = NOTES[scale]
    wanted = [] if not trade_histories.DATA.exists() else list(REAL) if scale == "full" else [SMALL_HISTORY]
    real = {name: REAL[name]() for name in wanted}
    figures = [
        _false(f"{name}, outcomes {how}", [one(trades, random.Random(f"{name} {how} {n}")) for n in range(FEWER_NOTES[scale])])
        for name, trades in real.items() for how, one in (("rotated", rotated), ("shuffled", shuffled))
    ]  # fmt: skip
    figures += [
        _false(f"invented, {name}", [invented(random.Random(f"{name} {n}"), noise) for n in range(notes)])
        for name, noise in (("luck that follows itself", following), ("a hidden state of days", hidden_state))
    ]
    for worlds, many in ((KNOWN_WORLDS, FEWER_NOTES[scale]), (FRESH_WORLDS, notes)):
        figures += [
            _false(f"world, {world.name}", [world.history(f"study {n}") for n in range(many)])
            for world in (worlds if scale == "full" else worlds[::3])
        ]
    figures += [_of_label(field, size, PLANTED_NOTES[scale]) for field in LABELLED for size in UNITS] if scale == "full" else []
    for (level, size), bar in AT_LEAST_FOUND.items():
        for name, trades in (*real.items(), ("invented", None)):
            if trades is not None and len({e.entry_at.date() for e in trades}) < MIN_TRADING_DAYS:
                continue
            seeds = [random.Random(f"{name} {level} {size} {n}") for n in range(PLANTED_NOTES[scale])]
            histories = [planted(trades, level, size * (1 if n % 2 else -1), chance) for n, chance in enumerate(seeds)]
            # A typical loss of the options is about half of the standard deviation of their outcomes: no test finds so little.
            least = None if name.startswith("options") else bar
            figures.append(_planted(f"{UNITS[size]} {level} in 40 of 300 trades, {name}", histories, least, level))
    return figures


# ---- what is measured ----------------------------------------------------------------------------------------------------


def _false(name: str, histories: Sequence[Sequence[Episode]]) -> Figure:
    found = [look(history) for history in histories]
    share, plain = (fmean(bool(groups) for groups in column) for column in zip(*found, strict=True))
    return Figure(f"false lessons: {name}", share, len(found), "share of notes", at_most=AT_MOST_FALSE, baseline=_welch(plain))


def _planted(name: str, histories: Sequence[Sequence[Episode]], least: float | None, level: Level) -> Figure:
    field = "tag" if level == "within a day" else "volatility"
    found = [look(history) for history in histories]
    share, plain = (
        fmean(any(group.startswith(field) for group in groups) for groups in column) for column in zip(*found, strict=True)
    )
    return Figure(f"found: {name}", share, len(found), "share of notes", at_least=least, baseline=_welch(plain))


def _of_label(field: str, size: float, notes: int) -> Figure:
    """An effect of a label that trades have anyway: found, where only luck is independent."""
    found = [look(labelled(field, size * (1 if n % 2 else -1), n)) for n in range(notes)]
    share, plain = (
        fmean(any(group.startswith(f"{field} ") for group in groups) for groups in column) for column in zip(*found, strict=True)
    )
    name = f"found: {UNITS[size]} of one {field} in 300 trades"
    return Figure(name, share, len(found), "share of notes", baseline=_welch(plain))


def labelled(field: str, by: float, seed: int) -> list[Episode]:
    """Returns 300 invented trades; those with one value of a label are better or worse by so many R."""
    ordinary = World(f"one {field} differs", independent, about(2, 5))
    trades = ordinary.history(f"study {by} {seed}")
    chosen = LABELLED[field]
    return [e._replace(pnl_r=(e.pnl_r or 0.0) + by, pnl_usd=100 * ((e.pnl_r or 0.0) + by)) if chosen(e) else e for e in trades]


def _welch(share: float) -> str:
    return f"t-test {100 * share:.1f} %"


def look(trades: Sequence[Episode]) -> Found:
    """Returns what a note says of some trades without the mark, and what Welch's test says of the same groups."""
    found = find_candidates(trades, claims_count=True)
    names = {one.id: f"{one.field} {one.value}" for one in found}
    lessons = lessons_of(found, SKILL)
    sample = comparable_outcomes(trades, claims_count=True)
    outcomes = {e.id: value for e, value in zip(sample.trades, sample.values, strict=True)}
    p_values = {one.id: welch_p_value(one, outcomes) for one in found if one.kind == "cell"}
    plain = accepted_cells(p_values, FALSE_DISCOVERY_RATE) if p_values else []
    return Found(frozenset(names[one.candidate] for one in lessons if not one.chance), frozenset(names[id_] for id_ in plain))


def welch_p_value(one: Candidate, outcomes: dict[str, float]) -> float:
    """Returns the p-value of Welch's t-test of a group against all other trades, by the normal distribution."""
    inside = [outcomes[id_] for id_ in one.trades if id_ in outcomes]
    group = set(one.trades)
    rest = [value for id_, value in outcomes.items() if id_ not in group]
    error = math.sqrt(sum(spread(side) ** 2 / len(side) for side in (inside, rest)))
    return 2.0 * NormalDist().cdf(-abs(fmean(inside) - fmean(rest)) / error) if error else 1.0


# ---- histories -----------------------------------------------------------------------------------------------------------


def rotated(trades: Sequence[Episode], chance: random.Random) -> list[Episode]:
    """Returns the trades with their outcomes shifted in a circle: runs stay whole."""
    by = chance.randrange(1, len(trades))
    return _with_outcomes(trades, [trades[(n + by) % len(trades)] for n in range(len(trades))])


def shuffled(trades: Sequence[Episode], chance: random.Random) -> list[Episode]:
    """Returns the trades with their outcomes in random order."""
    return _with_outcomes(trades, chance.sample(list(trades), len(trades)))


def _with_outcomes(trades: Sequence[Episode], others: Sequence[Episode]) -> list[Episode]:
    return [e._replace(pnl_r=o.pnl_r, pnl_usd=o.pnl_usd) for e, o in zip(trades, others, strict=True)]


def planted(trades: Sequence[Episode] | None, level: Level, by: float, chance: random.Random) -> list[Episode]:
    """Returns 300 trades of which 40 are better or worse by so many units; None: invented trades."""
    base = invented(chance, independent) if trades is None else rotated(trades[:HISTORY_TRADES], chance)
    chosen = set(chance.sample(range(len(base)), PLANTED_TRADES)) if level == "within a day" else _of_days(base, chance)
    unit = typical_loss(e.pnl_usd for e in base if e.pnl_usd is not None) or 1.0
    found = []
    for at, e in enumerate(base):
        extra = by if at in chosen else 0.0
        e = e._replace(
            pnl_r=None if e.pnl_r is None else e.pnl_r + extra, pnl_usd=None if e.pnl_usd is None else e.pnl_usd + extra * unit
        )
        if level == "within a day":
            found.append(e._replace(tags=("planted",) if at in chosen else ()))
        else:
            found.append(e._replace(volatility_regime="high" if at in chosen else "normal"))
    return found


def _of_days(trades: Sequence[Episode], chance: random.Random) -> set[int]:
    """Returns the places of about 40 trades: all those of some days."""
    days = sorted({e.entry_at.date() for e in trades})
    chosen: set[int] = set()
    for day in chance.sample(days, len(days)):
        own = {at for at, e in enumerate(trades) if e.entry_at.date() == day}
        if len(chosen | own) <= PLANTED_TRADES:
            chosen |= own
    return chosen


def invented(chance: random.Random, noise: Callable[[random.Random, Sequence[Episode]], list[float]]) -> list[Episode]:
    """Returns 300 trades of four symbols, two to five a day; their outcomes, in R by a stop, follow from the noise alone."""
    found: list[Episode] = []
    regime, volatility, day = "ranging", "normal", 0
    while len(found) < HISTORY_TRADES:
        regime = chance.choice(("ranging", "trending_up", "trending_down")) if chance.random() < 0.3 else regime
        volatility = chance.choice(("low", "normal", "high")) if chance.random() < 0.3 else volatility
        for hour in sorted(chance.sample(range(24), chance.randint(2, 5))):
            at = START + timedelta(days=day, hours=hour)
            found.append(_trade(len(found), at, chance, regime, volatility))
        day += 1
    found = found[:HISTORY_TRADES]
    outcomes = noise(chance, found)
    return [e._replace(pnl_r=r, pnl_usd=100 * r) for e, r in zip(found, outcomes, strict=True)]


def _trade(n: int, at: datetime, chance: random.Random, regime: str, volatility: str) -> Episode:
    known = dict.fromkeys(EPISODE_FIELDS) | {
        "id": f"t{n:05}", "known_from": at + timedelta(hours=1), "kind": "trade", "strategy": "study", "tier": 0,
        "claimed": False, "symbol": chance.choice(("BTCUSDT", "ETHUSDT", "SOLUSDT", "XAUUSD")),
        "side": chance.choice(("long", "short")),
        "source": "broker", "entry_at": at, "exit_at": at + timedelta(hours=1), "r_source": "stop", "teach": "learn",
        "regime": regime, "volatility_regime": volatility, "tags": (chance.choice(("breakout", "pullback", "fade")),),
        "session": SESSIONS[bisect((7, 12, 16, 21), at.hour)],
        "consecutive_losses": chance.choice((0, 0, 1, 2)), "hold_minutes": 60.0,
    }  # fmt: skip
    return Episode(**known)  # type: ignore[arg-type]


def independent(chance: random.Random, trades: Sequence[Episode]) -> list[float]:
    """Returns independent outcomes with a standard deviation of 1.4R."""
    return [chance.gauss(0.05, 1.4) for _ in trades]


def following(chance: random.Random, trades: Sequence[Episode]) -> list[float]:
    """Returns outcomes of which each keeps half of the one before."""
    return list(_following(chance, len(trades)))


def _following(chance: random.Random, n: int) -> Iterator[float]:
    last = 0.0
    for _ in range(n):
        last = 0.5 * last + chance.gauss(0, 1.2)
        yield last


def hidden_state(chance: random.Random, trades: Sequence[Episode]) -> list[float]:
    """Returns outcomes around +0.7R or -0.7R; which of them changes on one day of ten."""
    state, day, found = 0.7, None, []
    for e in trades:
        if e.entry_at.date() != day:
            state, day = (-state if chance.random() < 0.1 else state), e.entry_at.date()
        found.append(state + chance.gauss(0, 1.2))
    return found
