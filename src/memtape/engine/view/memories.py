"""What memory has to say: recall, beliefs, habits, state of mind, plans; each as of any moment.

Reading never writes. Episodes come as columns that follow the store; as of an earlier head of the log they are formed again
from what had been recorded, by the same fold, and the plain reference answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from memtape.core.codec import micros
from memtape.core.codec import moment as moment_of
from memtape.core.ledger.trades import Trade
from memtape.core.memory.affect import Affect, AffectStep
from memtape.core.memory.behaviour import Behaviour, ClosedCounts, behaviour, realised_counts
from memtape.core.memory.belief_cells import beliefs_from_tallies, count_stated, fades_at
from memtape.core.memory.beliefs import Belief, entry_facts, suggested_plans, trades_for_and_against
from memtape.core.memory.episodes import Episode
from memtape.core.memory.episodes import known_episodes as known_at
from memtape.core.observed import Side, Situation
from memtape.core.original.forms import ScoreForm, score_forms
from memtape.core.recall.query import AffectContext, Query, RecallParameters
from memtape.core.recall.reference import Recalled, recall_reference
from memtape.core.skills import Agent
from memtape.core.values import read
from memtape.engine.column_cache import CachedBeliefs, CachedColumns, ColumnCache
from memtape.engine.view.at_head import AnswerBasis, MemoriesAtHead, stated_beliefs
from memtape.engine.view.ledger import Reading, is_verified
from memtape.engine.view.plan_inputs import current_situation
from memtape.engine.view.plans import PlanView, plan_states, plan_views, plans_for_recall
from memtape.engine.write.learn import Learner
from memtape.errors import Unknown
from memtape.store.cutoff import Cutoff
from memtape.store.memories import MemoryTables
from memtape.store.tables import Tables

if TYPE_CHECKING:
    from memtape.engine.memory import Memory

TICKS_LOOKED_AT = 5_000
LOOKED_BACK_ON = 1_000  # trades that habits are read from: the window, and what it is measured by


class Recollection(Reading):
    """The memories of one agent, to read."""

    def __init__(self, memory: Memory, agent: Agent, follower: ColumnCache) -> None:
        super().__init__(memory, agent)
        self._follower = follower
        self._last: MemoriesAtHead | None = None  # one question about the past asks it for several things

    def _again(self, at: datetime, head: int) -> MemoriesAtHead:
        """The memories as of a moment and a head."""
        if self._last is None or self._last.limits != Cutoff(at, head):
            self._last = MemoriesAtHead(self._memory, self.agent, Cutoff(at, head))
        return self._last

    # ---- moments ---------------------------------------------------------------------------------------------------

    def now(self) -> datetime:
        """The moment that a question without one is about: in a simulation the last that was observed, else the clock's."""
        last = self.head().known_at
        clock = self._memory.clock.now()
        return last if self.agent.mode == "sim" and last is not None else max(clock, last) if last else clock

    def state(self, *, as_of: datetime | None = None, head: int | None = None) -> AffectStep | None:
        """The state of mind at a moment, from what was known then; None before anything happened."""
        at = as_of or self.now()
        if head is not None:
            steps = self._again(at, head).steps
            return steps[-1] if steps else None
        with self._memory.reading(self.agent.id) as tables:
            return Learner(tables, self.agent, tables.head().verified_from).affect_timeline().at(at)

    def state_history(self, *, as_of: datetime | None = None, head: int | None = None, limit: int = 200) -> list[AffectStep]:
        """The last steps of the state of mind by a moment, oldest first."""
        if head is not None:
            return self._again(as_of or self.now(), head).steps[-limit:] if limit else []
        with self._memory.reading(self.agent.id) as tables:
            steps = MemoryTables(tables).affect_until(as_of, limit)
        return [step for step in steps if as_of is None or step.known_at <= as_of]

    def steps(self, *, as_of: datetime | None = None, head: int | None = None) -> int:
        """How many closes, marks and flows lie behind the state of mind."""
        if head is not None:
            return len(self._again(as_of or self.now(), head).steps)
        with self._memory.reading(self.agent.id) as tables:
            return MemoryTables(tables).affect_count(as_of)

    def mood(self, *, as_of: datetime | None = None, head: int | None = None) -> Affect:
        """The state of mind, calm before anything happened."""
        found = self.state(as_of=as_of, head=head)
        starting = float(self.agent.settings.starting_equity)
        return found.state() if found is not None else Affect(peak_equity=starting, equity=starting)

    # ---- episodes --------------------------------------------------------------------------------------------------

    def episodes(self, *, as_of: datetime | None = None, head: int | None = None) -> list[Episode]:
        """Every episode as it was believed at a moment."""
        at = as_of or self.now()
        if head is not None:
            return self._again(at, head).known()
        with self._memory.reading(self.agent.id) as tables:
            return known_at(MemoryTables(tables).episodes(), at)

    def episode(self, id: str, *, as_of: datetime | None = None, head: int | None = None) -> Episode | None:
        """One episode as it was believed at a moment."""
        at = as_of or self.now()
        if head is not None:
            return next((e for e in self.episodes(as_of=at, head=head) if e.id == id), None)
        with self._memory.reading(self.agent.id) as tables:
            found = known_at(MemoryTables(tables).episodes([id]), at)
        return found[0] if found else None

    # ---- recall ----------------------------------------------------------------------------------------------------

    def recall(
        self, situation: Situation | Mapping[str, Any] | None = None, *, symbol: str | None = None, strategy: str | None = None,
        memory_types: Sequence[str] = ("episodic", "semantic"), limit: int = 10, as_of: datetime | None = None,
        head: int | None = None, profile: str = "owm", explain: bool = False, kelly_beside: bool = False,
        parameters: RecallParameters | None = None, side: Side | None = None,
    ) -> tuple[Recalled, Query, AnswerBasis]:  # fmt: skip
        """What memory has to say about a situation: ranked, warnings, evidence. Without a situation: the one of now."""
        at = as_of or self.now()
        given = read(Situation, situation) if situation is not None else None
        mood = self.mood(as_of=at, head=head)
        citations = self._citations(at, head) if parameters is not None and parameters.strength == "on" else {}

        def query(tables: Tables, claims_count: bool) -> Query:
            past = self._again(at, head).past if given is None and head is not None else None
            asked = given if given is not None else current_situation(tables, self.agent, Cutoff(at, head), symbol, past=past)[0]
            return Query(
                situation=asked, as_of=at, symbol=symbol, strategy=strategy, side=side, memory_types=tuple(memory_types),  # type: ignore[arg-type]
                limit=limit, profile=profile, claims_count=claims_count, explain=explain, kelly_beside=kelly_beside,  # type: ignore[arg-type]
                affect=AffectContext(mood.drawdown_state, mood.consecutive_losses, mood.risk_appetite),
                parameters=parameters or RecallParameters(), times_shown=citations,
            )  # fmt: skip

        if head is not None:
            again = self._again(at, head)
            with self._memory.reading(self.agent.id) as tables:
                asked = query(tables, again.claims_count)
                plans = plans_for_recall(plan_states(tables, Cutoff(at, head))) if "prospective" in memory_types else []
            found = recall_reference(again.episodes, again.beliefs(), plans, asked)
            return found, asked, again.moment()
        from memtape.columns import recall_columns

        with self._follower.reading(self._memory, self.agent.id) as (tables, followed):
            moment = self._moment(tables, followed, at)
            asked = query(tables, moment.claims_count)
            beliefs = self._beliefs(tables, followed, moment) if "semantic" in memory_types else []
            plans = plans_for_recall(plan_states(tables, Cutoff(as_of=at))) if "prospective" in memory_types else []
            return recall_columns(followed.columns, beliefs, plans, asked, _fetcher(tables)), asked, moment

    def explain(
        self, id: str, situation: Mapping[str, Any] | None = None, *, as_of: datetime | None = None, head: int | None = None
    ) -> tuple[list[ScoreForm], int, datetime]:
        """One episode's factors in every form, how many episodes were known, and when."""
        _, query, moment = self.recall(situation, limit=0, as_of=as_of, head=head)
        known = self.episodes(as_of=moment.as_of, head=head)
        one = next((e for e in known if e.id == id), None)
        if one is None:
            raise Unknown("memory_id", "episode known then", id, "Find it with recall_memories or get_trades")
        return score_forms(one, known, query), len(known), moment.as_of

    def _moment(self, tables: Tables, followed: CachedColumns, at: datetime) -> AnswerBasis:
        columns = followed.columns
        mask = columns.mask(micros(at), None, None)
        n = int(mask.sum())
        verified = is_verified(tables, Cutoff(at))
        exits = columns.exit_us[: columns.n][mask] if n else None
        first, last = (moment_of(int(exits.min())), moment_of(int(exits.max()))) if exits is not None else (None, None)
        return AnswerBasis(at, not verified, n, first, last)

    def _citations(self, at: datetime, head: int | None) -> dict[str, int]:
        """How often each memory was shown to the agent by then: only that reinforces it."""
        with self._memory.reading(self.agent.id) as tables:
            shown = tables.items("shown", Cutoff(at, head))
        return Counter(id_ for item in shown for id_ in item.body["memories"])

    # ---- beliefs ---------------------------------------------------------------------------------------------------

    def beliefs(self, *, as_of: datetime | None = None, head: int | None = None) -> tuple[list[Belief], AnswerBasis]:
        """What is believed at a moment, every status."""
        at = as_of or self.now()
        if head is not None:
            again = self._again(at, head)
            return again.beliefs(), again.moment()
        with self._follower.reading(self._memory, self.agent.id) as (tables, followed):
            moment = self._moment(tables, followed, at)
            return self._beliefs(tables, followed, moment), moment

    def _beliefs(self, tables: Tables, followed: CachedColumns, moment: AnswerBasis) -> list[Belief]:
        from memtape.columns.tallies import countable, stated_tallies, tallies

        columns, at, claims_count = followed.columns, moment.as_of, moment.claims_count
        kept, latest, stated = followed.formed, tables.head().known_at, stated_beliefs(tables, Cutoff(as_of=at))
        lasting = latest is not None and at >= latest
        if lasting and kept is not None and kept.holds(followed.revision, claims_count, stated, at):
            return kept.beliefs
        mask = columns.mask(micros(at), None, None)
        counted = tallies(columns, mask, claims_count)
        fetch = _fetcher(tables)

        def settle(rows: Sequence[int]) -> list[Mapping[str, object]]:
            return [entry_facts(e) for e in fetch([(columns.ids[row], int(columns.known_from[row])) for row in rows])]

        by_column = [one for one in stated if countable(one, columns)]
        others = [one for one in stated if one not in by_column]
        said = stated_tallies(by_column, columns, mask, claims_count, settle)
        said += count_stated(others, known_at(MemoryTables(tables).episodes(), at), claims_count) if others else []
        formed = beliefs_from_tallies(counted, said, at)
        if lasting:
            followed.formed = CachedBeliefs(followed.revision, claims_count, stated, at, fades_at(formed), formed)
        return formed

    def belief(self, id: str, *, as_of: datetime | None = None, head: int | None = None) -> tuple[Belief, list[str], list[str]]:
        """One belief, with the trades for it and against it."""
        at = as_of or self.now()
        found, moment = self.beliefs(as_of=at, head=head)
        one = next((belief for belief in found if belief.id == id), None)
        if one is None:
            raise Unknown("belief_id", "belief", id, "List them with get_beliefs")
        for_, against = trades_for_and_against(one, self.episodes(as_of=at, head=head), moment.claims_count)
        return one, list(for_), list(against)

    # ---- habits ----------------------------------------------------------------------------------------------------

    def behaviour(
        self, *, strategy: str | None = None, symbol: str | None = None, as_of: datetime | None = None, head: int | None = None
    ) -> tuple[Behaviour, AnswerBasis]:
        """What the agent does again and again, in one strategy and symbol or in all."""
        at = as_of or self.now()
        again = self._again(at, head) if head is not None else None
        trades = self.trades(as_of=as_of, head=head, symbol=symbol, limit=LOOKED_BACK_ON)
        with self._memory.reading(self.agent.id) as tables:
            verified = is_verified(tables, Cutoff(at))
            episodes = MemoryTables(tables).latest(at, LOOKED_BACK_ON, symbol, strategy)
            counts = _realised(tables, Cutoff(at, head), trades)
        if again is not None:
            episodes = [
                e for e in again.known()
                if (strategy is None or e.strategy == strategy) and (symbol is None or e.symbol == symbol)
            ][-LOOKED_BACK_ON:]  # fmt: skip
        claims_count = again.claims_count if again is not None else not verified
        return behaviour(episodes, counts, claims_count=claims_count), AnswerBasis.of(at, claims_count, episodes)

    def behaviours(self, *, as_of: datetime | None = None, head: int | None = None, most: int = 50) -> list[Behaviour]:
        """The same for each strategy and symbol among the latest trades, the most traded first."""
        at = as_of or self.now()
        with self._memory.reading(self.agent.id) as tables:
            verified = is_verified(tables, Cutoff(at))
            episodes = MemoryTables(tables).latest(at, LOOKED_BACK_ON, None, None)
        claims_count = not verified
        if head is not None:
            again = self._again(at, head)
            episodes, claims_count = again.known()[-LOOKED_BACK_ON:], again.claims_count
        by: dict[tuple[str, str], list[Episode]] = {}
        for episode in episodes:
            by.setdefault((episode.strategy, episode.symbol), []).append(episode)
        largest = sorted(by, key=lambda key: (-len(by[key]), key))[:most]
        return [behaviour(by[key], claims_count=claims_count) for key in largest]

    # ---- plans -----------------------------------------------------------------------------------------------------

    def plans(
        self, situation: Situation | Mapping[str, Any] | None = None, *, symbol: str | None = None, as_of: datetime | None = None,
        head: int | None = None, context: Mapping[str, object] | None = None, owner_head: int | None = None,
    ) -> list[PlanView]:  # fmt: skip
        """Every plan at a moment: where it stands, whether it would fire now, and what its firings were worth."""
        at = as_of or self.now()
        said = read(Situation, situation) if situation is not None else None
        past = self._again(at, head).past if head is not None else None
        with self._memory.reading(self.agent.id) as tables:
            return plan_views(tables, self.agent, Cutoff(at, head, owner_head), symbol, said, context or {}, past)

    def suggested_plans(self, *, as_of: datetime | None = None) -> list[dict[str, Any]]:
        """Plans that beliefs and the drawdown suggest; none is made by this."""
        at = as_of or self.now()
        return [dict(plan) for plan in suggested_plans(self.beliefs(as_of=at)[0], self.mood(as_of=at).drawdown)]


# ---- pieces --------------------------------------------------------------------------------------------------------------


def _fetcher(tables: Tables) -> Callable[[list[tuple[str, int]]], list[Episode]]:
    def fetch(keys: list[tuple[str, int]]) -> list[Episode]:
        found: dict[tuple[str, int], Episode] = {
            (e.id, micros(e.known_from)): e for e in MemoryTables(tables).episodes([id_ for id_, _ in keys])
        }
        return [found[key] for key in keys]

    return fetch


def _realised(tables: Tables, known: Cutoff, trades: Sequence[Trade]) -> ClosedCounts | None:
    """Gains and losses realised and left open at the agent's ticks, by the marks of each tick."""
    ticks = tables.items("tick", known, newest=True, limit=TICKS_LOOKED_AT)[::-1]
    if not ticks:
        return None
    trades = [trade for trade in trades if trade.exit_at is None or trade.exit_at >= ticks[0].at]
    several = any(a.exit_at is not None and b.entry_at < a.exit_at
                  for a, b in pairwise(sorted(trades, key=lambda trade: trade.entry_at)))  # fmt: skip
    moments: list[tuple[datetime, list[float], list[float]]] = []
    before = ticks[0].at
    for tick in ticks:
        marks = tick.body.get("marks", {})
        closed = [
            float(t.net_pnl_usd) for t in trades if t.exit_at and t.net_pnl_usd is not None and before < t.exit_at <= tick.at
        ]
        held = [
            (1 if t.side == "long" else -1) * (float(marks[t.symbol]) - float(t.entry_price))
            for t in trades
            if t.symbol in marks
            and t.entry_price is not None
            and t.entry_at < tick.at
            and (t.exit_at is None or t.exit_at > tick.at)
        ]
        if closed or held:
            moments.append((tick.at, closed, held))
        before = tick.at
    return realised_counts(moments, "portfolio" if several else "single")


__all__ = ["AnswerBasis", "PlanView", "Recollection"]
