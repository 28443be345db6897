"""Invented worlds for `memtape validate`: noise, dependent noise, a random walk, and an edge that depends on the situation.

A world is walked through exactly the functions of the product: recall over columns as of each entry, the accounts, the verdict.
Only the store is left out, because hundreds of worlds must be walked. `answer` saves what cannot change the answer.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np

from evidence.worlds import World, about, bracket, days_follow, follows, of_a_moment, states
from memtape.columns import Columns, recall_columns
from memtape.columns.recall import ColumnQuestion
from memtape.core.codec import micros
from memtape.core.memory.episodes import EPISODE_FIELDS, Episode
from memtape.core.recall.evidence import Evidence
from memtape.core.recall.query import Query
from memtape.core.recall.reference import Recalled
from memtape.core.validation.approach_runs import Accounts
from memtape.core.validation.approaches import BASELINE, EVIDENCE, SIZINGS, Sizing, SizingAccount
from memtape.core.validation.decisions import WalkedDecision
from memtape.core.validation.judgement import Judgement, judge_approach
from memtape.core.validation.look_ahead import look_ahead_signs
from memtape.core.validation.resampling import ALPHA
from memtape.core.validation.verdict import Answer, compare
from memtape.lab.validate.study import variant_runs
from memtape.lab.validate.walk import MemoryAt, Walker, WalkTerms

TIMES = {"known_from", "known_to", "entry_at", "exit_at"}
TRAIN_SHARE, SEED = 0.7, 20261118
HOUR, LOOK_BACK, LONGEST = timedelta(hours=1), 48, 72
GOOD_REGIMES = ("trending_up", "trending_down")


@dataclass(slots=True)
class ColumnMemory:
    """The memory of a world: its episodes as columns."""

    columns: Columns
    episodes: dict[tuple[str, int], Episode]

    @classmethod
    def of(cls, episodes: Sequence[Episode]) -> ColumnMemory:
        """Returns the memory of these episodes."""
        columns = Columns()
        columns.put([
            tuple(micros(value) if name in TIMES and value else value for name, value in zip(EPISODE_FIELDS, e, strict=True))
            for e in episodes
        ])  # fmt: skip
        return cls(columns, {(e.id, micros(e.known_from)): e for e in episodes})

    def recall(self, query: Query) -> Recalled:
        """Returns what the columns recall as of the query's moment."""
        return recall_columns(self.columns, [], [], query, lambda keys: [self.episodes[key] for key in keys])

    def claims_count(self, as_of: object) -> bool:
        """Returns True: nobody else reported these trades."""
        return True


@dataclass(slots=True)
class EvidenceMemory:
    """A memory that is asked for evidence and for the sizes of other rules: no verdict on evidence looks at its ranking.

    With `likely_alone` only the evidence of the decision's own situation is true: every other question gets the same answer.
    """

    memory: ColumnMemory
    likely_alone: bool
    likely: Recalled | None = None
    of_all: Evidence | None = None  # trades, equally weighted: the same in every state of the account

    def recall(self, query: Query) -> Recalled:
        """Returns the evidence; the sizes of other rules stand beside it where they are asked for."""
        if query.limit or self.likely is None:
            self.likely, self.of_all = _recalled(self._asked(replace(query, limit=0)).evidence(())), None
            return self.likely
        if self.likely_alone:
            return self.likely
        asked = self._asked(query)
        if not query.kelly_beside:
            return _recalled(asked.evidence(()))
        self.of_all = self.of_all or asked.evidence(())
        return _recalled(replace(self.of_all, beside=asked.beside(asked.yardstick((), ()))))

    def claims_count(self, as_of: object) -> bool:
        """Returns True: nobody else reported these trades."""
        return True

    def _asked(self, query: Query) -> ColumnQuestion:
        found = self.memory
        return ColumnQuestion(found.columns, query, lambda keys: [found.episodes[key] for key in keys]).in_one_unit()


def _recalled(evidence: Evidence) -> Recalled:
    return Recalled(ranked=(), warnings=(), evidence=evidence, near_misses=(), worth_testing=())


def walked(
    episodes: Sequence[Episode], memory_of: Callable[[ColumnMemory], MemoryAt] = lambda memory: memory
) -> list[WalkedDecision]:
    """Returns the decisions of a world after its split."""
    ordered = sorted(episodes, key=lambda e: (e.entry_at, e.id))
    split = ordered[int(TRAIN_SHARE * len(ordered))].entry_at
    terms = WalkTerms(split=split, embargo=timedelta(0), source="stop", vary=False)
    return _decided(ordered, memory_of(ColumnMemory.of(ordered)), terms)


def _decided(ordered: Sequence[Episode], memory: MemoryAt, terms: WalkTerms) -> list[WalkedDecision]:
    walker = Walker(memory, terms)
    found = [walker.decide(e) for e in ordered if e.entry_at >= terms.split]
    return [decision for decision in found if decision is not None]


def answer_of_command(episodes: Sequence[Episode]) -> Answer:
    """Returns the answer with the defaults of the command: an hour's embargo, and parameters varied, which count as tried."""
    ordered = sorted(episodes, key=lambda e: (e.entry_at, e.id))
    terms = WalkTerms(split=ordered[int(TRAIN_SHARE * len(ordered))].entry_at, embargo=HOUR, source="stop")
    decisions = _decided(ordered, EvidenceMemory(ColumnMemory.of(ordered), likely_alone=False), terms)
    return judged(episodes, decisions=decisions, vary=True).verdict.answer


def judged(
    episodes: Sequence[Episode], name: str = EVIDENCE, extra: dict[str, Sizing] | None = None,
    decisions: Sequence[WalkedDecision] | None = None, vary: bool = False,
) -> Judgement:  # fmt: skip
    """Returns the verdict on a world."""
    accounts = Accounts(walked(episodes) if decisions is None else decisions, 10_000.0)
    sizings = accounts.all_sizings(extra or {})
    runs = {each: accounts.run(sizing) for each, sizing in sizings.items()}
    signs = look_ahead_signs(episodes, [e.pnl_r or 0.0 for e in episodes])
    variants = variant_runs(accounts) if vary else {}
    return judge_approach(name, accounts, runs, sizings, np.random.default_rng(SEED), variants=variants, look_ahead=signs)


def answer(episodes: Sequence[Episode], likely_first: bool = True) -> Answer:
    """Returns the answer of `judged` for evidence, sooner: only what may be "helps" is asked for the other approaches."""
    if likely_first:
        accounts = Accounts(walked(episodes, lambda memory: EvidenceMemory(memory, likely_alone=True)), 10_000.0)
        higher, lower = _largest_p(accounts)
        if higher > ALPHA:
            return _answer_of_two(episodes, accounts) if lower <= ALPHA else "cannot be told"
    decisions = walked(episodes, lambda memory: EvidenceMemory(memory, likely_alone=False))
    return judged(episodes, decisions=decisions).verdict.answer


def _largest_p(accounts: Accounts) -> tuple[float, float]:
    """Returns the largest p of the first three tests of "helps" by evidence, and of those of "hurts"."""
    decisions = accounts.decisions
    own, baseline = (accounts.surviving_sizes(SIZINGS[name], accounts.run(SIZINGS[name])) for name in (EVIDENCE, BASELINE))
    outcomes = np.array([decision.r for decision in decisions])
    pair = compare(own, baseline, outcomes, [d.moment for d in decisions], [d.week for d in decisions])
    higher = max(pair.by_moment.p_value, pair.by_week.p_value, pair.permutation_p)
    return higher, max(1.0 - pair.by_moment.p_value, 1.0 - pair.by_week.p_value, pair.permutation_p_lower)


def _answer_of_two(episodes: Sequence[Episode], accounts: Accounts) -> Answer:
    """Returns the answer from evidence and equal risk alone, which is all that "hurts" rests on."""
    sizings = {name: SIZINGS[name] for name in (BASELINE, EVIDENCE)}
    runs = {name: accounts.run(sizing) for name, sizing in sizings.items()}
    signs = look_ahead_signs(episodes, [e.pnl_r or 0.0 for e in episodes])
    return judge_approach(EVIDENCE, accounts, runs, sizings, np.random.default_rng(SEED), look_ahead=signs).verdict.answer


def in_trends_only(decision: WalkedDecision, account: SizingAccount) -> float:
    """Returns a bet on regimes that are good in the planted world, without ever having learned it."""
    return 0.02 if decision.regime in GOOD_REGIMES else 0.0


# --- worlds ------------------------------------------------------------------------------------------------------------------


def context_edge(chance: random.Random, trades: Sequence[Episode]) -> list[float]:
    """Returns outcomes of -1R and +2R that win in two of four regimes, and lose in the others."""
    return [2.0 if chance.random() < (0.55 if e.regime in GOOD_REGIMES else 0.20) else -1.0 for e in trades]


def random_walk(chance: random.Random, trades: Sequence[Episode]) -> list[float]:
    """Returns outcomes of brackets on a random walk: trades that overlap share its steps."""
    steps, found = [chance.gauss(0, 1) for _ in range(40 * len(trades))], []
    start = trades[0].entry_at
    for e in trades:
        at, price, sign = int((e.entry_at - start) / timedelta(hours=2)), 0.0, 1 if e.side == "long" else -1
        for step in steps[at % len(steps) : at % len(steps) + 60]:
            price += sign * step / 3.0
            if price <= -1.0 or price >= 2.0:
                break
        found.append(max(-1.0, min(2.0, price)))
    return found


def labels_of_the_walk(seed: str, trades: int = 700) -> list[Episode]:
    """Returns trades on one random walk, with regimes that its last 48 hours show: known at the entry, and of no use.

    Volatility comes in waves, trades last up to three days and overlap, and each ends at -1R, at +2R or after its time.
    """
    chance = random.Random(f"walk {seed}")
    found = World("validate: a walk", lambda _, some: [0.0] * len(some), about(2, 5), (trades, trades)).history(seed)
    start, wave, path = found[0].entry_at, 1.0, [0.0]
    for _ in range(int((found[-1].entry_at - start) / HOUR) + LOOK_BACK + LONGEST + 1):
        wave = min(max(wave * math.exp(chance.gauss(0, 0.05)), 0.3), 3.0)
        path.append(path[-1] + chance.gauss(0, wave))
    return [_on_the_walk(e, path, int((e.entry_at - start) / HOUR) + LOOK_BACK) for e in found]


def _on_the_walk(e: Episode, path: Sequence[float], at: int) -> Episode:
    spread = float(np.std(np.diff(path[at - LOOK_BACK : at + 1])))
    trend = (path[at] - path[at - LOOK_BACK]) / (spread * math.sqrt(LOOK_BACK))
    regime = "trending_up" if trend > 0.7 else "trending_down" if trend < -0.7 else "ranging"
    side, ended, r = 1 if e.side == "long" else -1, at, 0.0
    while ended < at + LONGEST and -1.0 < r < 2.0:
        ended += 1
        r = side * (path[ended] - path[at]) / (3.0 * spread)
    r, hours = min(max(r, -1.0), 2.0), ended - at
    exit_at = e.entry_at + hours * HOUR
    return e._replace(regime=regime, exit_at=exit_at, known_from=exit_at, pnl_r=r, pnl_usd=100 * r, hold_minutes=60.0 * hours)


def regime_of_the_exit(episodes: Sequence[Episode], trending: float = 1.0) -> list[Episode]:
    """Returns the trades with a regime that was read when they ended, as a careless journal has it.

    `trending` is the share of trades in whose window the journal saw a trend; the others are ranging.
    """
    up, down, chance = "trending_up", "trending_down", random.Random("exit")
    found = [up if ((e.pnl_r or 0.0) > 0) == (e.side == "long") else down for e in episodes]
    return [
        e._replace(regime=regime if chance.random() < trending else "ranging") for e, regime in zip(episodes, found, strict=True)
    ]


NOISE = (
    World("validate: brackets without an edge", bracket(2.0, 1 / 3), about(0, 3), (700, 700)),
    World("validate: outcomes on a random walk", random_walk, about(0, 3), (700, 700)),
    World("validate: each outcome keeps half of the one before", follows(0.5), about(0, 3), (700, 700)),
    World("validate: each day keeps half of the day before", days_follow(0.5), about(1, 3), (700, 700)),
    World("validate: a hidden state of 8 days", states((-0.6, 0.6), 8), about(0, 4), (700, 700)),
    World("validate: four trades of one moment share their luck", of_a_moment, about(0, 6), (700, 700), burst=4),
)
PLANTED = World("validate: an edge in two of four regimes", context_edge, about(0, 3), (1400, 1400))
