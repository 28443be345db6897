"""Invented worlds for `memtape trial`: noise, dependent noise, a random walk, and an edge that depends on the situation.

A rule that follows its memory meets one possible trade after another. Without memory it takes each; with memory it asks what
recall and the check before an order say of the trades that it took and that have ended, and skips or halves. The placebo learns
each trade with an outcome that was shuffled. Recall, check, advice, draw, comparison and verdict are the functions of the
product; store, broker and lessons are left out, because hundreds of worlds must be lived through.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from evidence.validation_worlds import GOOD_REGIMES, TIMES, ColumnMemory, random_walk
from evidence.worlds import World, about, bracket, days_follow, follows, of_a_moment, states
from memtape.columns import Columns
from memtape.core.codec import micros
from memtape.core.memory.affect import Affect
from memtape.core.memory.episodes import EPISODE_FIELDS, Episode
from memtape.core.memory.plans import resolve_plans
from memtape.core.recall.checks import order_verdict
from memtape.core.recall.query import Query
from memtape.core.skills import Skill
from memtape.core.trial.advice import Advised, advice_of
from memtape.core.trial.arms import OFF, ON, SHUFFLED, Arm
from memtape.core.trial.comparison import ArmComparison, SeedTrades, compare_arms, weekly_differences
from memtape.core.trial.foreknowledge import foreknowledge_signs
from memtape.core.trial.judgement import TrialEvidence, judge_trial
from memtape.core.trial.placebo import OutcomeDraw
from memtape.core.trial.round_trips import RoundTrip
from memtape.core.validation.resampling import ALPHA
from memtape.core.validation.verdict import Answer

SEED, SEEDS = 20261118, 1
CALM = Affect(peak_equity=10_000.0, equity=10_000.0)
SIZES: dict[Advised, float] = {"take": 1.0, "halve": 0.5, "skip": 0.0}
Advise = Callable[["WorldMemory", Episode], Advised]


@dataclass(slots=True)
class WorldMemory:
    """What a rule has learned in one arm of a world."""

    memory: ColumnMemory
    questions: int = 0

    @classmethod
    def empty(cls) -> WorldMemory:
        """Returns a memory without trades."""
        return cls(ColumnMemory(Columns(), {}))

    def learn(self, trade: Episode) -> None:
        """Remember a trade that has ended."""
        key = (trade.id, micros(trade.known_from))
        self.memory.episodes[key] = trade
        values = zip(EPISODE_FIELDS, trade, strict=True)
        self.memory.columns.put([tuple(micros(value) if name in TIMES and value else value for name, value in values)])  # type: ignore[arg-type]

    def advice(self, trade: Episode) -> Advised:
        """Returns what memory advises about an entry."""
        self.questions += 1
        asked = Query(
            situation=trade.situation, as_of=trade.entry_at, symbol=trade.symbol, strategy=trade.strategy, side=trade.side,
            memory_types=("episodic",), limit=0, warnings_limit=1,
        )  # fmt: skip
        found = self.memory.recall(asked)
        _, reasons = order_verdict(
            evidence=found.evidence, warnings=found.warnings, plans=resolve_plans([]), affect=CALM, beliefs=(), events=(),
            minutes_ahead=(), exposures=(), risk_share=None, skill=Skill(id="world"),  # type: ignore[arg-type]
        )  # fmt: skip
        return advice_of(reasons, found.evidence).advised


def ask_memory(memory: WorldMemory, trade: Episode) -> Advised:
    """Follows memory."""
    return memory.advice(trade)


def never_ask(memory: WorldMemory, trade: Episode) -> Advised:
    """Takes every trade, and never looks at memory."""
    return "take"


def lived(trades: Sequence[Episode], arm: Arm, seed: int, advise: Advise) -> tuple[list[RoundTrip], int]:
    """Returns what one arm got, and how often it asked memory."""
    memory, draw = WorldMemory.empty(), OutcomeDraw(np.random.default_rng([SEED, seed]))
    held: list[tuple[object, str, Episode]] = []
    got = []
    for trade in trades:
        while held and held[0][0] <= trade.entry_at:  # type: ignore[operator]
            ended = heappop(held)[2]
            r = ended.pnl_r or 0.0
            r = draw.learned(ended.strategy, r) if arm == SHUFFLED else r
            memory.learn(ended._replace(pnl_r=r, pnl_usd=100.0 * r, mfe_r=None, mae_r=None))
        size = SIZES["take" if arm == OFF else advise(memory, trade)]
        if size:
            got.append(_taken(trade, size))
            heappush(held, (trade.exit_at, trade.id, trade))
    return got, memory.questions


def _taken(trade: Episode, size: float) -> RoundTrip:
    r = trade.pnl_r or 0.0
    return RoundTrip(
        symbol=trade.symbol, side=trade.side, strategy=trade.strategy, entry_at=trade.entry_at, exit_at=trade.exit_at,
        qty=f"{size:g}",
        net=f"{100 * r * size:.6f}", share=r * size, r=r, odds=1 / 3, trigger=None, confidence=trade.confidence, tags=trade.tags,
    )  # fmt: skip


class Tried(NamedTuple):
    """The answer in a world, why, and whether memory passes a plain test against no memory, by weeks and without a placebo."""

    answer: Answer
    reason: str
    passes_plainly: bool


def tried(world: Sequence[Episode], advise: Advise = ask_memory, seeds: int = SEEDS, whole: bool = False) -> Tried:
    """Returns the verdict on a world. Unless the `whole` is asked for, no arm is lived through that cannot change the answer."""
    trades = sorted(world, key=lambda e: (e.entry_at, e.symbol, e.id))
    if len({e.entry_at for e in trades}) == len(trades):
        trades = [e._replace(symbol="BTCUSDT") for e in trades]  # one market, as in most trials
    starts = [random.Random(f"{SEED} {seed}").randrange(len(trades) // 5) if seed > 1 else 0 for seed in range(1, seeds + 1)]
    runs: dict[Arm, list[SeedTrades]] = {}
    pairs: dict[Arm, ArmComparison] = {}
    questions = 0
    for arm in (OFF, ON, SHUFFLED):
        runs[arm] = []
        for seed, start in enumerate(starts, 1):
            got, asked = lived(trades[start:], arm, seed, advise)
            questions += asked
            weeks = [_taken(trade, 1.0).week for trade in (trades[start], trades[-1])]
            runs[arm].append(SeedTrades(got, range(weeks[0], weeks[1] + 1)))
        for number, other in enumerate((OFF, SHUFFLED)):
            if {ON, other} <= runs.keys() and other not in pairs:
                chance = np.random.default_rng([SEED, number])
                pairs[other] = compare_arms(weekly_differences(runs[ON], runs[other]), chance, 50)
        settled = foreknowledge_signs(runs[OFF][0].trades) if arm == OFF else arm == ON and _luck_explains(pairs[OFF])
        if settled and not whole:
            break
    off = runs[OFF]
    same = all(
        [t.identity for t in one.trades] == [t.identity for t in two.trades]
        for found in runs.values() for one, two in zip(found, off, strict=True)
    )  # fmt: skip
    fewest = min(off, key=lambda one: len(one.trades)).trades
    verdict = judge_trial(TrialEvidence(
        against=pairs, trades=len(fewest), won=sum(t.share > 0 for t in fewest), questions=questions, same_everywhere=same,
        look_ahead=foreknowledge_signs(off[0].trades),
    ))  # fmt: skip
    return Tried(verdict.answer, verdict.reason, OFF in pairs and pairs[OFF].by_week.p_value <= ALPHA)


def _luck_explains(pair: ArmComparison) -> bool:
    """Returns True if memory passes neither the tests of "better than no memory" nor those of "worse"."""
    higher = max(pair.by_week.p_value, pair.by_block.p_value, pair.permutation_p)
    lower = max(1.0 - pair.by_week.p_value, 1.0 - pair.by_block.p_value, pair.permutation_p_lower)
    return min(higher, lower) > ALPHA


# --- worlds ------------------------------------------------------------------------------------------------------------------


def regime_edge(chance: random.Random, trades: Sequence[Episode]) -> list[float]:
    """Returns outcomes of -1R and +2R with a mean of +0.65R in two of four regimes, and of -0.55R in the others."""
    return [2.0 if chance.random() < (0.55 if e.regime in GOOD_REGIMES else 0.15) else -1.0 for e in trades]


def session_edge(chance: random.Random, trades: Sequence[Episode]) -> list[float]:
    """Returns outcomes of -1R and +2R with a mean of -0.55R in London and in the overlap, and of +0.5R at other times."""
    return [2.0 if chance.random() < (0.15 if e.session in ("london", "overlap") else 0.50) else -1.0 for e in trades]


def known_beforehand(episodes: Sequence[Episode]) -> list[Episode]:
    """Returns the trades of a decision maker that knows the future: nearly all that would lose are not entered."""
    chance = random.Random(SEED)
    return [e for e in episodes if (e.pnl_r or 0.0) > 0 or chance.random() < 0.1]


TRIAL_NOISE = (
    World("trial: brackets without an edge", bracket(2.0, 1 / 3), about(0, 3), (300, 300)),
    World("trial: brackets that lose after costs", bracket(1.9, 1 / 3), about(0, 3), (300, 300)),
    World("trial: outcomes on a random walk", random_walk, about(0, 3), (300, 300)),
    World("trial: each outcome keeps half of the one before", follows(0.5), about(0, 3), (300, 300)),
    World("trial: each day keeps half of the day before", days_follow(0.5), about(1, 4), (300, 300)),
    World("trial: a hidden state of 8 days", states((-0.6, 0.6), 8), about(0, 3), (300, 300)),
    World("trial: four trades of one moment share their luck", of_a_moment, about(0, 8), (300, 300), burst=4),
)
TRIAL_PLANTED = (
    World("trial: an edge in two of four regimes", regime_edge, about(0, 3), (700, 700)),
)
# Recall weighs a session less than a regime, so this edge is found more seldom: its figure has no bar.
TRIAL_SESSION = World("trial: a session in which the rule loses", session_edge, about(0, 3), (700, 700))
