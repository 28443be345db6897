"""The desk's past for tests of recall: episodes as plain words, and by chance; the same as rows; beliefs and plans."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from hypothesis import strategies as st

from memtape.columns import Columns
from memtape.core.codec import micros
from memtape.core.memory.beliefs import Belief, Beta, Proposition
from memtape.core.memory.episodes import EPISODE_FIELDS, Episode
from memtape.core.memory.situation import LABELS, NUMBERS
from memtape.core.observed import Situation
from memtape.core.recall.query import AffectContext, Query, RecallParameters

NOON = datetime(2026, 6, 5, 12, tzinfo=UTC)
DAY = timedelta(days=1)
TIMES = {"known_from", "known_to", "entry_at", "exit_at"}
LONDON = Situation(
    symbol="XAU", regime="trending_up", volatility_regime="high", session="london", price=5175.0, atr_d1=112.0, atr_h1=21.5,
    spread_as_atr_pct=0.07, drawdown_pct=0.06,
)  # fmt: skip
UNSAID: dict[str, Any] = dict.fromkeys(EPISODE_FIELDS)
# Each id is entered in a second of its own: trades of one second would be one signal.
SECOND_OF: defaultdict[str, int] = defaultdict(count().__next__)


def episode(id: str, pnl_r: float | None = 1.0, days_ago: float = 1.0, **said: Any) -> Episode:
    """A trade of gold in the London morning, unless it is said otherwise."""
    exit_at = said.pop("exit_at", NOON - days_ago * DAY)
    told = UNSAID | {
        "kind": "trade", "symbol": "XAU", "strategy": "breakout", "side": "long", "tier": 0, "claimed": False,
        "source": "broker", "r_source": None if pnl_r is None else "stop", "teach": "learn", "tags": (), "confidence": 0.8,
        "known_from": exit_at, "entry_at": exit_at - timedelta(seconds=3600 - SECOND_OF[id] % 3500), "regime": LONDON.regime,
        "volatility_regime": LONDON.volatility_regime, "session": LONDON.session, "price": LONDON.price,
        "atr_d1": LONDON.atr_d1, "atr_h1": LONDON.atr_h1, "spread_as_atr_pct": LONDON.spread_as_atr_pct,
        "drawdown_pct": LONDON.drawdown_pct,
    }  # fmt: skip
    return Episode(**(told | {"id": id, "pnl_r": pnl_r, "exit_at": exit_at} | said))


def asked(situation: Situation = LONDON, **said: Any) -> Query:
    return Query(situation=situation, **({"as_of": NOON} | said))


def belief(id: str = "b", confirmed: int = 14, contradicted: int = 6, **said: Any) -> Belief:
    told: dict[str, Any] = {
        "sentence": "Breakouts pay in the London morning", "strategy": "breakout", "symbol": "XAU",
        "situation": Situation(**{name: "*" for name, *_ in (*LABELS[:2], *NUMBERS)}, session="london"),
        "proposition": Proposition({"session": "london"}), "source": "induced", "tier": 2, "prior": Beta(), "base_rate": 0.5,
        "base_n": 40, "p_value": 0.1, "probability": 0.7, "status": "candidate", "last_evidence_at": NOON - 3 * DAY,
        "since": NOON - 60 * DAY,
    }  # fmt: skip
    return Belief(id=id, confirmed=confirmed, contradicted=contradicted, **(told | said))


@dataclass(frozen=True)
class Plan:
    """As much of a plan as recall looks at."""

    id: str
    priority: float = 0.8
    created_at: datetime = NOON - 10 * DAY
    tier: int = 1
    source_ids: tuple[str, ...] = ()
    situation: Situation = LONDON
    reasoning: str = "Halve the size after two losses in a row"


def row(of: Episode) -> tuple[Any, ...]:
    """An episode as the store gives it."""

    def plain(name: str, value: Any) -> Any:
        if name in TIMES:
            return None if value is None else micros(value)
        return json.dumps(value) if name == "tags" else value

    return tuple(plain(name, value) for name, value in zip(EPISODE_FIELDS, of, strict=True))


def filled(episodes: list[Episode]) -> Columns:
    columns = Columns()
    columns.put([row(each) for each in episodes])
    return columns


def fetching(episodes: list[Episode]):
    """Reads episodes as a store would, and refuses what is not there."""
    by_key = {(each.id, micros(each.known_from)): each for each in episodes}
    return lambda keys: [by_key[key] for key in keys]


# --- by chance ----------------------------------------------------------------------------------------------------------

SYMBOLS, STRATEGIES = ("XAU", "BTC", "EUR"), ("breakout", "fade")
REGIMES, VOLATILITIES, SESSIONS = ("trending_up", "ranging", "volatile"), ("low", "high"), ("asia", "london")


def by_chance(n: int, seed: int, **said: Any) -> list[Episode]:
    """A past with ties and gaps: few distinct outcomes and times, shared signals, unknown labels and numbers, claims, shadows, tiers."""
    chance = random.Random(seed)
    return [_by_chance(f"{chance.randrange(10**6):06d}-{at}", chance, **said) for at in range(n)]


def _by_chance(id: str, chance: random.Random, **said: Any) -> Episode:
    def perhaps(value: Any, gap: float = 0.15) -> Any:
        return None if chance.random() < gap else value

    days = chance.choice([chance.randrange(3), chance.randrange(700), chance.random() * 700])
    exit_at = NOON - days * DAY
    r = perhaps(chance.choice([-1.0, -1.0, 2.0, 0.0, round(chance.gauss(0, 1.5), 1), chance.gauss(0, 2)]))
    told = {
        "kind": chance.choice(["trade"] * 12 + ["shadow"]), "symbol": chance.choice(SYMBOLS),
        "strategy": chance.choice(STRATEGIES), "side": chance.choice(["long", "short"]),
        "tier": chance.choice([0, 0, 0, 1, 2, 3, 4]), "source": chance.choice(["broker", "model", "other model", "file"]),
        "entry_at": exit_at - timedelta(seconds=chance.choice([3600, 3600, chance.randrange(10**5)])),
        "pnl_usd": perhaps(chance.choice([-2.0, -0.5, 0.0, 4.0, chance.gauss(0, 2)]) * 20 if r is None else r * chance.choice([10.5, 20]), gap=0.3),
        "claimed": chance.random() < 0.15, "r_source": r if r is None else chance.choice(["stop", "stop", "stated", "atr_proxy"]),
        "teach": chance.choice(["learn"] * 9 + ["exclude", "structural"]), "confidence": perhaps(chance.choice([0.0, 0.5, 0.8, 1.0])),
        "known_from": exit_at + chance.choice([0, 0, 0, 5]) * DAY, "known_to": chance.choice([None] * 9 + [NOON - DAY]),
        "regime": perhaps(chance.choice(REGIMES)), "volatility_regime": perhaps(chance.choice(VOLATILITIES)),
        "session": perhaps(chance.choice(SESSIONS)), "price": perhaps(chance.choice([5000.0, 65000.0, 1.1, 0.0])),
        "atr_d1": perhaps(chance.choice([100.0, 112.0, 1300.0, 0.0])), "atr_h1": perhaps(20 * chance.lognormvariate(0, 0.4)),
        "spread_as_atr_pct": perhaps(chance.choice([0.0, 0.07, 0.2])), "drawdown_pct": perhaps(chance.choice([0.0, 0.001, 0.06, 0.2])),
    }  # fmt: skip
    return episode(id, r, exit_at=exit_at, **(told | said))


def perhaps(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


situations = st.builds(
    Situation, symbol=st.sampled_from([None, "XAU", "BTC", "JPY"]), regime=st.sampled_from([None, "*", *REGIMES]),
    volatility_regime=st.sampled_from([None, *VOLATILITIES, "extreme"]), session=st.sampled_from([None, *SESSIONS]),
    price=st.sampled_from([None, "*", 0.0, 5000.0, 5175.0, 70000.0]), atr_d1=st.sampled_from([None, "*", 0.0, 90.0, 112.0]),
    atr_h1=perhaps(st.floats(1, 1000)), spread_as_atr_pct=st.sampled_from([None, 0.0, 0.07, 0.3]),
    drawdown_pct=st.sampled_from([None, "*", 0.0, 0.002, 0.06, 0.3]),
)  # fmt: skip


@st.composite
def parameters(draw: Any) -> RecallParameters:
    return RecallParameters(
        k=draw(st.sampled_from([0.5, 2.0, 8.0])), tau_days=draw(st.sampled_from([5.0, 30.0])),
        exponent=draw(st.sampled_from([0.0, 0.3, 0.5, 1.0])), power=draw(st.sampled_from([1.0, 4.0, 7.5])),
        alpha=draw(st.sampled_from([0.0, 0.3])), sharpe=draw(st.sampled_from(["off", "off", "on"])),
        strength=draw(st.sampled_from(["off", "on"])),
        labels=tuple((name, draw(st.sampled_from([0.0, 0.1, weight]))) for name, weight in LABELS),
        numbers=tuple((name, draw(st.sampled_from([weight, 0.4])), width) for name, weight, width in NUMBERS),
    )  # fmt: skip


@st.composite
def queries(draw: Any) -> Query:
    return Query(
        situation=draw(situations), as_of=NOON - draw(st.sampled_from([0, 0, 1, 300, 650])) * DAY,
        symbol=draw(st.sampled_from([None, None, "XAU", "JPY"])), strategy=draw(st.sampled_from([None, None, "breakout"])),
        memory_types=draw(st.sampled_from([("episodic", "semantic"), ("episodic",), ("episodic", "semantic", "prospective")])),
        limit=draw(st.sampled_from([0, 1, 3, 10, 40])), warnings_limit=draw(st.sampled_from([0, 1, 5, 20])),
        profile=draw(st.sampled_from(["owm", "owm", "owm-literal", "balanced"])),
        affect=AffectContext(draw(st.sampled_from([0.0, 0.7])), draw(st.sampled_from([0, 4])), draw(st.sampled_from([1.0, 0.4]))),
        claims_count=draw(st.booleans()), parameters=draw(st.just(RecallParameters()) | parameters()), explain=draw(st.booleans()),
        kelly_beside=draw(st.booleans()),
    )  # fmt: skip
