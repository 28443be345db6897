"""Outcomes of random decisions on random bars, in any order of delivery, compared with an oracle that shares no code with memtape."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from memtape.core.decisions.outcomes import Outcome, OutcomeCard, outcome_versions, version_at
from memtape.core.ledger.rounds import KnownBar
from memtape.core.observed import Bar
from memtape.engine import AgentMemory, Memory
from memtape.engine.proof.audit import rebuild_store, verify_store
from memtape.plugs.clock import FixedClock
from tests.desk import given_memory, projections
from tests.effort import examples
from tests.oracle.outcome import FRAMES, ABar, Ending, Plan, follow, known_from, of_frame

BEGIN = int(datetime(2026, 3, 6, 12, tzinfo=UTC).timestamp())  # a Friday
LAST = BEGIN + 40 * 86_400


def moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def seconds(at: datetime | None) -> int | None:
    return None if at is None else int(at.timestamp())


def price(dice: random.Random, around: int) -> Fraction:
    """A price from few, so that prices often meet; sometimes exactly a tenth of a percent from one of them, or just beyond that."""
    whole = Fraction(around + dice.randint(-5, 5))
    return whole * (1 + dice.choice((0, 0, 0, Fraction(1, 1000), Fraction(-1, 1000), Fraction(105, 100_000), Fraction(-105, 100_000))))


def plan_of(dice: random.Random, around: int, frame: str) -> Plan:
    """A plan that contradicts nothing."""
    while True:
        side, decided = dice.choice((1, -1)), BEGIN + dice.choice((0, 0, 1, 1800, 3599, 3600, 7200))
        limit = dice.choice((None, price(dice, around)))
        stop, target = price(dice, around), dice.choice((None, price(dice, around)))
        losing = limit if limit is not None else target
        if losing is not None and side * (losing - stop) <= 0:
            continue
        if limit is not None and target is not None and side * (target - limit) <= 0:
            continue
        shadow = target is not None and dice.random() < 0.2
        return Plan(decided, side, limit, stop, target, frame, dice.choice((1, 2, 3, 4, 6, 24)), shadow)


def bars_of(dice: random.Random, around: int, frame: str, plans: Sequence[Plan]) -> Iterator[ABar]:
    """Bars that begin before the decision, with holes and a weekend; most of one frame, some of others.

    Some reach exactly as near to the limit of a plan as fills it.
    """
    limits = [(plan.limit, plan.side) for plan in plans if plan.limit is not None]
    near = [limit + side * abs(limit) / 1000 for limit, side in limits]
    length = FRAMES[frame]
    opens = (BEGIN // length - 2) * length
    for _ in range(dice.randint(0, 9)):
        opens += length * dice.choice((1, 1, 1, 1, 1, 2, 48))
        parts = dice.choice((1, 1, 1, 2, 4))
        if length % (60 * parts):
            parts = 1
        for n in range(parts):
            if n and dice.random() < 0.1:
                continue
            closes = opens + (n + 1) * length // parts
            late = dice.choice((0, 0, 0, 1, length, 3 * length, 10 * length))
            yield _bar(dice, around, opens + n * length // parts, closes, closes + late, near)
        if dice.random() < 0.1 and length <= 3600:
            whole = opens // 14400 * 14400
            yield _bar(dice, around, whole, whole + 14400, whole + 14400, near)


def _bar(dice: random.Random, around: int, opens: int, closes: int, known: int, near: Sequence[Fraction]) -> ABar:
    o, c = price(dice, around), price(dice, around)
    if near and dice.random() < 0.3:
        reached = dice.choice(near)
        o, c = dice.choice(((max(o, reached), max(c, reached)), (min(o, reached), min(c, reached))))
        return ABar(opens, closes, o, max(o, c, reached), min(o, c, reached), c, known)
    h = max(o, c, price(dice, around)) if dice.random() < 0.7 else max(o, c)
    low = min(o, c, price(dice, around)) if dice.random() < 0.7 else min(o, c)
    return ABar(opens, closes, o, h, low, c, known)


def distinct(bars: Iterator[ABar]) -> list[ABar]:
    """Each bar once: the store keeps the first one of a time and a length."""
    found: dict[tuple[int, int], ABar] = {}
    for bar in bars:
        found.setdefault((bar.opens, bar.closes), bar)
    return list(found.values())


def decimal(value: Fraction | None) -> Decimal | None:
    return None if value is None else Decimal(value.numerator) / Decimal(value.denominator)


def stated(outcome: Outcome) -> Ending:
    """An outcome of memtape in the words of the oracle; R stays the double that it is."""
    exact = [None if each is None else Fraction(each) for each in (outcome.entry_price, outcome.exit_price)]
    return Ending(
        outcome.status, outcome.cause, exact[0], seconds(outcome.entry_at), exact[1], seconds(outcome.exit_at), outcome.r,  # type: ignore[arg-type]
        outcome.risk_too_small,
    )  # fmt: skip


def expected(plan: Plan, bars: list[ABar], as_of: int) -> Ending:
    found = follow(plan, of_frame(bars, plan.frame, as_of))
    return found._replace(r=None if found.r is None else float(found.r))  # type: ignore[arg-type]


def around_of(dice: random.Random) -> int:
    return dice.choice((100, 1000, 5, -40, 0))


# ---- the fold -------------------------------------------------------------------------------------------------------------


def scene(seed: int) -> tuple[random.Random, Plan, list[ABar]]:
    dice = random.Random(seed)
    around, frame = around_of(dice), dice.choice(("15m", "1h", "1h", "1h", "4h"))
    plan = plan_of(dice, around, frame)
    return dice, plan, distinct(bars_of(dice, around, frame, [plan]))


def test_the_dice_reach_every_ending() -> None:
    seen = Counter(expected(plan, bars, LAST)[:2] for _, plan, bars in map(scene, range(1_000)))
    endings = {("pending", None), ("open", None), ("resolved", "stop"), ("resolved", "target"), ("expired", "expiry"), ("expired", "unfilled")}
    assert set(seen) == endings and min(seen.values()) > 20, seen


@given(st.integers(0, 2**32))
@settings(max_examples=examples(1_000, 50_000))
def test_versions_of_thousands_of_cards_are_what_the_rules_say_at_every_moment(seed: int) -> None:
    dice, plan, bars = scene(seed)
    card = OutcomeCard(
        t=moment(plan.decided), symbol="X", action="wait" if plan.shadow else "buy", side="long" if plan.side > 0 else "short",
        entry_price=decimal(plan.limit), stop=decimal(plan.stop), target=decimal(plan.target), frame=plan.frame,  # type: ignore[arg-type]
        expiry_bars=plan.bars,
    )  # fmt: skip
    known = [
        KnownBar(
            Bar(symbol="X", t0=moment(b.opens), t1=moment(b.closes), o=decimal(b.o), h=decimal(b.h), l=decimal(b.l), c=decimal(b.c)),  # type: ignore[arg-type]
            moment(b.known),
        )
        for b in bars
    ]  # fmt: skip
    dice.shuffle(known)
    versions = outcome_versions(card, moment(plan.decided), known)
    for as_of in sorted({plan.decided, LAST, *(known_from(bar) for bar in bars if known_from(bar) >= plan.decided)}):
        found = version_at(versions, moment(as_of))
        assert found is not None and found.shadow == plan.shadow
        assert stated(found) == expected(plan, bars, as_of), as_of


# ---- the engine -----------------------------------------------------------------------------------------------------------


def given_desk(memory: Memory) -> AgentMemory:
    memory.resources.clock = FixedClock(moment(BEGIN))
    memory.create_skill("plain")
    memory.create_agent("desk", skill="plain")
    return memory.agent("desk")


def play(agent: AgentMemory, seed: int) -> None:
    """Deliver decisions and bars in the order in which they become known, and compare at every moment and every head."""
    dice = random.Random(seed)
    around, symbols = around_of(dice), ("X", "Y")
    plans: dict[str, tuple[str, Plan, int]] = {}  # id: symbol, plan, when it was known
    bars: dict[str, list[ABar]] = {symbol: [] for symbol in symbols}
    arrivals: list[tuple[int, int, str, Any]] = []
    for symbol in symbols:
        frame = dice.choice(("15m", "1h", "1h", "4h"))
        for n in range(dice.randint(1, 3)):
            plan = plan_of(dice, around, frame)
            known = plan.decided + dice.choice((0, 0, 1, 3600, 20_000))
            plans[f"{symbol}{n}"] = symbol, plan, known
            arrivals.append((known, dice.random(), f"{symbol}{n}", plan))  # type: ignore[arg-type]
        own = [plan for of, plan, _ in plans.values() if of == symbol]
        bars[symbol] = distinct(bars_of(dice, around, frame, own))
        arrivals += [(known_from(bar), dice.random(), symbol, bar) for bar in bars[symbol]]  # type: ignore[misc]
    heads: list[tuple[int, int, int]] = []  # moment, head, arrivals so far
    arrivals.sort(key=lambda each: each[:2])
    for number, (at, _, name, value) in enumerate(arrivals, start=1):
        agent.resources.clock = FixedClock(moment(at))
        if isinstance(value, Plan):
            agent.observe(decision(name, plans[name][0], value), kind="decision")
        else:
            given = {"symbol": name, "t0": moment(value.opens), "t1": moment(value.closes)}
            prices = {letter: decimal(each) for letter, each in zip("ohlc", (value.o, value.h, value.l, value.c), strict=True)}
            agent.observe({"bars": [given | prices]}, kind="bars")
            if dice.random() < 0.2:
                # A second delivery with other prices changes nothing.
                agent.observe({"bars": [given | {"o": 1, "h": 9_999, "l": -9_999, "c": 2}]}, kind="bars")
        heads.append((at, agent.head().seq, number))
    agent.resources.clock = FixedClock(moment(LAST))
    for id_, (symbol, plan, known) in plans.items():
        for at, head, number in heads:
            in_time = [each for each in arrivals[:number] if each[0] <= at]
            there = [value for _, _, name, value in in_time if name == symbol and isinstance(value, ABar)]
            if all(name != id_ for _, _, name, _ in in_time):
                continue
            assert at >= known
            found = agent.outcomes.of(id_, as_of=moment(at), head=head)
            assert found is not None and found.source == "bars"
            assert stated(found.outcome) == expected(plan, there, at), (seed, id_, at, head)
            then = agent.outcomes.of(id_, as_of=moment(at))
            assert then is not None
            assert stated(then.outcome) == expected(plan, [bar for bar in bars[symbol] if known_from(bar) <= at], at), (seed, id_, at)


def decision(id: str, symbol: str, plan: Plan) -> dict[str, Any]:
    given = {
        "id": id, "t": moment(plan.decided), "symbol": symbol, "action": "wait" if plan.shadow else "buy" if plan.side > 0 else "sell",
        "side": "long" if plan.side > 0 else "short", "entry_price": decimal(plan.limit), "stop": decimal(plan.stop),
        "target": decimal(plan.target), "frame": plan.frame, "expiry_bars": plan.bars,
    }  # fmt: skip
    return {name: value for name, value in given.items() if value is not None}


@given(st.integers(0, 2**32))
@settings(max_examples=examples(25, 2_000))
def test_the_engine_follows_decisions_as_the_oracle_does_at_every_moment_and_every_head(seed: int) -> None:
    with given_memory() as memory:
        play(given_desk(memory), seed)
        assert verify_store(memory).ok
        before = projections(memory)
        rebuild_store(memory)
        assert projections(memory) == before


def test_both_stores_follow_decisions_as_the_oracle_does(memory: Memory) -> None:
    play(given_desk(memory), 4_711)
    assert verify_store(memory).ok
