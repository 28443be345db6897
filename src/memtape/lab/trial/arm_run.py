"""One run of a trial: one arm, one seed. It depends only on the bars and the part, so any process may do it, and do it again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from decimal import Decimal
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from memtape.compose import open_memory
from memtape.core.codec import micros, moment
from memtape.core.observed import Bar, Decision, Tick
from memtape.core.trial.arms import SHUFFLED, Arm
from memtape.core.trial.placebo import OutcomeDraw, ShuffledOutcomes
from memtape.core.trial.round_trips import RoundTrip, RoundTripBook
from memtape.core.trial.said_and_done import SaidAndDone
from memtape.engine import AgentMemory, Memory
from memtape.lab.trial.arm_memory import ArmMemory
from memtape.lab.trial.deciders import DeciderName, rule_or_function
from memtape.lab.trial.model_decider import ModelDecider
from memtape.sim.bars import read_bar_file
from memtape.sim.orders import Order
from memtape.sim.paper import PaperBroker
from memtape.sim.recorded_model import UseLimits
from memtape.sim.session import SimSession
from memtape.sim.strategies import AccountStrategy, Strategy

AGENT = "trial"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialPart:
    """One run of a trial, for any process."""

    bars: str  # file
    symbol: str | None
    decider: DeciderName
    arm: Arm
    seed: int  # from 1
    start: int  # microseconds: bars that open earlier are left out
    until: int | None  # microseconds: bars that close later are left out
    fee_bps: str
    slippage_bps: str
    starting_equity: str
    chance: int  # the seed of everything that chance decides
    max_cost: str | None = None  # US dollars, of this run
    max_tokens: int | None = None
    answers: str | None = None  # file of a model's answers
    number: int = 0

    def terms(self) -> dict[str, Any]:
        """What the numbers depend on, besides the bars."""
        return {name: value for name, value in asdict(self).items() if name not in ("bars", "answers", "number")}


class NotingBroker(PaperBroker):
    """A paper broker that notes every order by its id."""

    def __init__(self, part: TrialPart) -> None:
        super().__init__(
            Decimal(part.starting_equity), fee_bps=Decimal(part.fee_bps), slippage_bps=Decimal(part.slippage_bps), prefix=AGENT
        )
        self.placed: dict[str, Order] = {}

    def place(self, order: Order) -> str:
        """Places an order."""
        id_ = super().place(order)
        self.placed[id_] = order
        return id_


def run_arm(part: TrialPart) -> dict[str, Any]:
    """Runs one arm of one seed. Returns what came of it as JSON data."""
    start, until = moment(part.start), None if part.until is None else moment(part.until)
    source = read_bar_file(part.bars, symbol=part.symbol)
    bars = [bar for bar in source.bars if bar.t0 >= start and (until is None or bar.t1 <= until)]
    with open_memory(":memory:") as memory:
        return ArmRun(part, memory).play(bars)


class ArmRun:
    """The state of one run."""

    def __init__(self, part: TrialPart, memory: Memory) -> None:
        self._part, self._store = part, memory
        placebo = None
        if part.arm == SHUFFLED:
            placebo = ShuffledOutcomes(OutcomeDraw(np.random.default_rng([part.chance, part.seed])))
        self.memory = ArmMemory(part.arm, self._open_agent, placebo)
        self._broker, self._book, self._said = NotingBroker(part), RoundTripBook(), SaidAndDone()
        self._model: ModelDecider | None = None
        self._strategy = self._make_strategy()
        self._trades: list[RoundTrip] = []
        self._path: dict[str, float] = {}  # equity at the end of each day
        self._decisions = self._entries = 0

    def _open_agent(self) -> AgentMemory:
        self._store.create_skill(AGENT)
        self._store.create_agent(AGENT, skill=AGENT, mode="sim", settings={"starting_equity": self._part.starting_equity})
        return self._store.agent(AGENT)

    def _make_strategy(self) -> Strategy | AccountStrategy:
        if self._part.decider.kind != "model":
            return rule_or_function(self._part.decider, self.memory)
        limits = UseLimits(None if self._part.max_cost is None else Decimal(self._part.max_cost), self._part.max_tokens)
        answers = None if self._part.answers is None else Path(self._part.answers)
        self._model = ModelDecider(self.memory, self._store.resources.models(self._part.decider.name), limits, answers)
        return self._model

    def play(self, bars: Sequence[Bar]) -> dict[str, Any]:
        """Plays all bars."""
        session = SimSession(AGENT, self._strategy, self._broker, None)
        ordered, last = sorted(bars, key=lambda bar: (bar.t1, bar.symbol)), None
        for t, together in groupby(ordered, key=lambda bar: bar.t1):
            tick = session.advance(t, tuple(together))
            self._took(tick)
            self.memory.observe(tick)
            decisions: list[Decision] = []
            for bar in tick.bars:
                decisions += session.ask(t, bar.symbol)
            self._decided(t, decisions)
            self.memory.decided(tuple(decisions))
            last = t
            if self._model is not None and self._model.use.ended is not None:
                break
        return self._result(last)

    def _took(self, tick: Tick) -> None:
        for fill in tick.fills:
            for part in self._book.parts(fill):
                if (ended := self._book.fill(part)) is not None:
                    self._trades.append(ended)
                    self._said.closed(ended)
        self._said.filled(tick.fills)
        self._book.pay(tick.funding)
        self._path[f"{tick.t:%Y-%m-%d}"] = float(tick.equity or 0)

    def _decided(self, t: datetime, decisions: Sequence[Decision]) -> None:
        for decision in decisions:
            self._book.note_decision(decision, self._broker.equity)
            orders = [_terms(self._broker.placed[id_]) for id_ in decision.order_ids]
            self._said.decided(replace(decision, t=t), orders, self._trades)
            self._decisions += 1
            self._entries += decision.action in ("buy", "sell")

    def _result(self, last: datetime | None) -> dict[str, Any]:
        memory = self.memory
        return {
            "number": self._part.number, "arm": self._part.arm, "seed": self._part.seed,
            "trades": [trade.as_dict() for trade in self._trades], "equity": self._path,
            "last": None if last is None else micros(last), "open": len(self._book.open), "decisions": self._decisions,
            "entries": self._entries, "questions": memory.questions, "advised": dict(sorted(memory.advised.items())),
            "tokens": memory.tokens(), "said": self._said.as_dict(),
            "model": None if self._model is None else self._model.use.as_dict() | {"ended": self._model.use.ended},
        }  # fmt: skip


def _terms(order: Order) -> dict[str, Any]:
    return {"side": order.side, "qty": order.qty, "stop": order.stop, "reduce_only": order.reduce_only}


def first_bars(bars: Sequence[Bar], seeds: int, chance: int, share: float) -> list[datetime]:
    """Returns the moment at which each seed begins: the first bar, then moments within the first `share` of the bars."""
    times = sorted({bar.t0 for bar in bars})
    found = [times[0]]
    for seed in range(2, seeds + 1):
        found.append(times[int(np.random.default_rng([chance, seed, 1]).integers(1, max(int(share * len(times)), 2)))])
    return found


