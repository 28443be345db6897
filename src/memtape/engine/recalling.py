"""What memory has to say: recall, beliefs, habits, state of mind, plans; each as of any moment.

Reading never writes. Episodes come as columns that follow the store; as of an earlier head of the log they are formed again
from what had been recorded, by the same fold, and the plain reference answers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from memtape.core import recall as reference
from memtape.core.affect import Affect, Felt
from memtape.core.behaviour import Behaviour, ClosedCounts, behaviour, realised_counts
from memtape.core.beliefs import Belief, Stated, entry_facts, evidence_for, suggested_plans
from memtape.core.codec import micros, read_time
from memtape.core.codec import moment as moment_of
from memtape.core.episodes import Episode
from memtape.core.episodes import known as known_at
from memtape.core.forms import Form, forms
from memtape.core.induction import beliefs_of, count, count_stated, fades_at
from memtape.core.learn import Note, Told, claims_on, in_versions, memories_of
from memtape.core.market import Market, ended
from memtape.core.observed import ANY, Decision, Side, Situation
from memtape.core.plans import Look, Standing, changed, judged, made, value_of_leaving, value_of_sizing, value_of_skipping
from memtape.core.query import Mood, Parameters, Query
from memtape.core.recall import Recalled
from memtape.core.shadows import is_followed, shadow_episodes, shadow_id
from memtape.core.situation import LABELS, NUMBERS
from memtape.core.skills import Agent
from memtape.core.trades import Trade
from memtape.core.values import read
from memtape.engine.following import Followed, Follower, Formed
from memtape.engine.learning import Learning, account_event, correction
from memtape.engine.planning import INSTANT, decided_at, look_at, situation_now
from memtape.engine.reading import Reading, versions_known
from memtape.errors import Unknown
from memtape.store.known import Known
from memtape.store.memories import Learned
from memtape.store.tables import Tables

if TYPE_CHECKING:
    from memtape.engine.memory import Memory

TICKS_LOOKED_AT = 5_000
LOOKED_BACK_ON = 1_000  # trades that habits are read from: the window, and what it is measured by
FOLLOWING = timedelta(days=1)  # a trade entered within a day of a plan's firing is the one it was about


@dataclass(frozen=True, slots=True)
class Moment:
    """What an answer rests on: as of when, and whether the agent's own claims count."""

    as_of: datetime
    claims_count: bool
    n: int  # episodes known
    first_exit: datetime | None = None
    last_exit: datetime | None = None

    @property
    def standing(self) -> str:
        """How outcomes are known: by the broker's records, or by the agent's own word."""
        return "claimed" if self.claims_count else "verified"


@dataclass(frozen=True, slots=True)
class Said:
    """A plan as recall scores it."""

    id: str
    priority: float
    created_at: datetime
    tier: int
    source_ids: tuple[str, ...]
    situation: Situation
    reasoning: str


@dataclass(frozen=True, slots=True)
class PlanSeen:
    """A plan at a moment: what it would do now, and what its firings were worth."""

    standing: Standing
    finding: str  # expired, fires, holds, waits
    values: tuple[tuple[datetime, float], ...]  # of each firing that can be judged, in R


class Recollection(Reading):
    """The memories of one agent, to read."""

    def __init__(self, memory: Memory, agent: Agent, follower: Follower) -> None:
        super().__init__(memory, agent)
        self._follower = follower

    # ---- moments ---------------------------------------------------------------------------------------------------

    def now(self) -> datetime:
        """The moment that a question without one is about: in a simulation the last that was observed, else the clock's."""
        last = self.head().known_at
        clock = self._memory.clock.now()
        return last if self.agent.mode == "sim" and last is not None else max(clock, last) if last else clock

    def state(self, *, as_of: datetime | None = None, head: int | None = None) -> Felt | None:
        """The state of mind at a moment, from what was known then; None before anything happened."""
        at = as_of or self.now()
        if head is not None:
            steps = _Again(self, Known(at, head)).steps
            return steps[-1] if steps else None
        with self._memory.reading(self.agent.id) as tables:
            return Learning(tables, self.agent, tables.head().verified_from).past().at(at)

    def state_history(self, *, as_of: datetime | None = None, head: int | None = None, limit: int = 200) -> list[Felt]:
        """The last steps of the state of mind by a moment, oldest first."""
        if head is not None:
            return _Again(self, Known(as_of or self.now(), head)).steps[-limit:] if limit else []
        with self._memory.reading(self.agent.id) as tables:
            steps = Learned(tables).felt_until(as_of, limit)
        return [step for step in steps if as_of is None or step.known_at <= as_of]

    def steps(self, *, as_of: datetime | None = None, head: int | None = None) -> int:
        """How many closes, marks and flows lie behind the state of mind."""
        if head is not None:
            return len(_Again(self, Known(as_of or self.now(), head)).steps)
        with self._memory.reading(self.agent.id) as tables:
            return Learned(tables).felt_count(as_of)

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
            return known_at(_Again(self, Known(at, head)).episodes, at)
        with self._memory.reading(self.agent.id) as tables:
            return known_at(Learned(tables).episodes(), at)

    def episode(self, id: str, *, as_of: datetime | None = None, head: int | None = None) -> Episode | None:
        """One episode as it was believed at a moment."""
        at = as_of or self.now()
        if head is not None:
            return next((e for e in self.episodes(as_of=at, head=head) if e.id == id), None)
        with self._memory.reading(self.agent.id) as tables:
            found = known_at(Learned(tables).episodes([id]), at)
        return found[0] if found else None

    # ---- recall ----------------------------------------------------------------------------------------------------

    def recall(
        self, situation: Situation | Mapping[str, Any] | None = None, *, symbol: str | None = None, strategy: str | None = None,
        memory_types: Sequence[str] = ("episodic", "semantic"), limit: int = 10, as_of: datetime | None = None,
        head: int | None = None, profile: str = "owm", explain: bool = False, kelly_beside: bool = False,
        parameters: Parameters | None = None, side: Side | None = None,
    ) -> tuple[Recalled, Query, Moment]:  # fmt: skip
        """What memory has to say about a situation: ranked, warnings, evidence. Without a situation: the one of now."""
        at = as_of or self.now()
        given = read(Situation, situation) if situation is not None else None
        mood = self.mood(as_of=at, head=head)
        citations = self._citations(at) if parameters is not None and parameters.strength == "on" else {}

        def query(tables: Tables, claims_count: bool) -> Query:
            asked = given if given is not None else situation_now(tables, self.agent, at, symbol)[0]
            return Query(
                situation=asked, as_of=at, symbol=symbol, strategy=strategy, side=side, memory_types=tuple(memory_types),  # type: ignore[arg-type]
                limit=limit, profile=profile, claims_count=claims_count, explain=explain, kelly_beside=kelly_beside,  # type: ignore[arg-type]
                mood=Mood(mood.drawdown_state, mood.consecutive_losses, mood.risk_appetite),
                parameters=parameters or Parameters(), citations=citations,
            )  # fmt: skip

        if head is not None:
            again = _Again(self, Known(at, head))
            with self._memory.reading(self.agent.id) as tables:
                asked = query(tables, again.claims_count)
                plans = _said(standings(tables, Known(at, head))) if "prospective" in memory_types else []
            found = reference.recall(again.episodes, again.beliefs(), plans, asked)
            return found, asked, again.moment()
        from memtape.columns import recall

        with self._follower.reading(self._memory, self.agent.id) as (tables, followed):
            moment = self._moment(tables, followed, at)
            asked = query(tables, moment.claims_count)
            beliefs = self._beliefs(tables, followed, moment) if "semantic" in memory_types else []
            plans = _said(standings(tables, Known(as_of=at))) if "prospective" in memory_types else []
            return recall(followed.columns, beliefs, plans, asked, _fetcher(tables)), asked, moment

    def explain(
        self, id: str, situation: Mapping[str, Any] | None = None, *, as_of: datetime | None = None, head: int | None = None
    ) -> tuple[list[Form], int, datetime]:
        """One episode's factors in every form, how many episodes were known, and when."""
        _, query, moment = self.recall(situation, limit=0, as_of=as_of, head=head)
        known = self.episodes(as_of=moment.as_of, head=head)
        one = next((e for e in known if e.id == id), None)
        if one is None:
            raise Unknown("memory_id", "episode known then", id, "Find it with recall_memories or get_trades")
        return forms(one, known, query), len(known), moment.as_of

    def _moment(self, tables: Tables, followed: Followed, at: datetime) -> Moment:
        columns = followed.columns
        mask = columns.mask(micros(at), None, None)
        n = int(mask.sum())
        verified = tables.head().verified_from
        exits = columns.exit_us[: columns.n][mask] if n else None
        first, last = (moment_of(int(exits.min())), moment_of(int(exits.max()))) if exits is not None else (None, None)
        return Moment(at, verified is None or at < verified, n, first, last)

    def _citations(self, at: datetime) -> dict[str, int]:
        """How many decisions by then cited each memory (slot `memories`, ids separated by commas)."""
        cited: dict[str, int] = {}
        for row in self.decisions(as_of=at):
            for id_ in filter(None, (part.strip() for part in row.decision.slots.get("memories", "").split(","))):
                cited[id_] = cited.get(id_, 0) + 1
        return cited

    # ---- beliefs ---------------------------------------------------------------------------------------------------

    def beliefs(self, *, as_of: datetime | None = None, head: int | None = None) -> tuple[list[Belief], Moment]:
        """What is believed at a moment, every status."""
        at = as_of or self.now()
        if head is not None:
            again = _Again(self, Known(at, head))
            return again.beliefs(), again.moment()
        with self._follower.reading(self._memory, self.agent.id) as (tables, followed):
            moment = self._moment(tables, followed, at)
            return self._beliefs(tables, followed, moment), moment

    def _beliefs(self, tables: Tables, followed: Followed, moment: Moment) -> list[Belief]:
        from memtape.columns.tallies import countable, stated_tallies, tallies

        columns, at, claims_count = followed.columns, moment.as_of, moment.claims_count
        kept, latest, stated = followed.formed, tables.head().known_at, _stated(tables, Known(as_of=at))
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
        said += count_stated(others, known_at(Learned(tables).episodes(), at), claims_count) if others else []
        formed = beliefs_of(counted, said, at)
        if lasting:
            followed.formed = Formed(followed.revision, claims_count, stated, at, fades_at(formed), formed)
        return formed

    def belief(
        self, id: str, *, as_of: datetime | None = None, head: int | None = None
    ) -> tuple[Belief, list[str], list[str]]:
        """One belief, with the trades for it and against it."""
        at = as_of or self.now()
        found, moment = self.beliefs(as_of=at, head=head)
        one = next((belief for belief in found if belief.id == id), None)
        if one is None:
            raise Unknown("belief_id", "belief", id, "List them with get_beliefs")
        for_, against = evidence_for(one, self.episodes(as_of=at, head=head), moment.claims_count)
        return one, list(for_), list(against)

    # ---- habits ----------------------------------------------------------------------------------------------------

    def behaviour(
        self, *, strategy: str | None = None, symbol: str | None = None, as_of: datetime | None = None, head: int | None = None
    ) -> tuple[Behaviour, Moment]:
        """What the agent does again and again, in one strategy and symbol or in all."""
        at = as_of or self.now()
        again = _Again(self, Known(at, head)) if head is not None else None
        trades = self.trades(as_of=as_of, head=head, symbol=symbol, limit=LOOKED_BACK_ON)
        with self._memory.reading(self.agent.id) as tables:
            verified = tables.head().verified_from
            episodes = Learned(tables).latest(at, LOOKED_BACK_ON, symbol, strategy)
            counts = _realised(tables, Known(at, head), trades)
        if again is not None:
            episodes = [
                e for e in known_at(again.episodes, at)
                if (strategy is None or e.strategy == strategy) and (symbol is None or e.symbol == symbol)
            ][-LOOKED_BACK_ON:]  # fmt: skip
        claims_count = again.claims_count if again is not None else verified is None or at < verified
        exits = [e.exit_at for e in episodes]
        moment = Moment(at, claims_count, len(episodes), min(exits, default=None), max(exits, default=None))
        return behaviour(episodes, counts, claims_count=claims_count), moment

    def behaviours(self, *, as_of: datetime | None = None, head: int | None = None, most: int = 50) -> list[Behaviour]:
        """The same for each strategy and symbol among the latest trades, the most traded first."""
        at = as_of or self.now()
        with self._memory.reading(self.agent.id) as tables:
            verified = tables.head().verified_from
            episodes = Learned(tables).latest(at, LOOKED_BACK_ON, None, None)
        claims_count = verified is None or at < verified
        if head is not None:
            again = _Again(self, Known(at, head))
            episodes, claims_count = known_at(again.episodes, at)[-LOOKED_BACK_ON:], again.claims_count
        by: dict[tuple[str, str], list[Episode]] = {}
        for episode in episodes:
            by.setdefault((episode.strategy, episode.symbol), []).append(episode)
        largest = sorted(by, key=lambda key: (-len(by[key]), key))[:most]
        return [behaviour(by[key], claims_count=claims_count) for key in largest]

    # ---- plans -----------------------------------------------------------------------------------------------------

    def plans(
        self, situation: Situation | Mapping[str, Any] | None = None, *, symbol: str | None = None, as_of: datetime | None = None,
        head: int | None = None, context: Mapping[str, object] | None = None,
    ) -> list[PlanSeen]:  # fmt: skip
        """Every plan at a moment: where it stands, whether it would fire now, and what its firings were worth."""
        at = as_of or self.now()
        said = read(Situation, situation) if situation is not None else None
        with self._memory.reading(self.agent.id) as tables:
            now = look_at(tables, self.agent, at, symbol, said=said) | dict(context or {})
            ticks = tables.items("tick", Known(at, head), before=at + INSTANT, newest=True, limit=1)
            last, before = ticks[0].at if ticks else None, None
            if last is not None:
                before = look_at(tables, self.agent, last, symbol, decided_at(tables, last).get(symbol or ""))
            standing = standings(tables, Known(at, head))
            fired = _firings(tables, Known(at, head))
            episodes = known_at(Learned(tables).episodes(), at) if fired else []
        seen: list[PlanSeen] = []
        for plan in standing:
            finding = (
                judged(plan.plan, Look(at, now, before), plan.fired, plan.fired_at)
                if plan.status in ("active", "proposed")
                else "waits"
            )
            values = [(when, value) for when, what in fired.get(plan.id, ())
                      if (value := _worth(plan, when, what, episodes)) is not None]  # fmt: skip
            seen.append(PlanSeen(plan, finding, tuple(values)))
        return seen

    def suggested_plans(self, *, as_of: datetime | None = None) -> list[dict[str, Any]]:
        """Plans that beliefs and the drawdown suggest; none is made by this."""
        at = as_of or self.now()
        return [dict(plan) for plan in suggested_plans(self.beliefs(as_of=at)[0], self.mood(as_of=at).drawdown)]


# ---- pieces --------------------------------------------------------------------------------------------------------------


def _fetcher(tables: Tables) -> Callable[[list[tuple[str, int]]], list[Episode]]:
    def fetch(keys: list[tuple[str, int]]) -> list[Episode]:
        found = {(e.id, micros(e.known_from)): e for e in Learned(tables).episodes([id_ for id_, _ in keys])}
        return [found[key] for key in keys]

    return fetch


def _realised(tables: Tables, known: Known, trades: Sequence[Trade]) -> ClosedCounts | None:
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


def _stated(tables: Tables, known: Known) -> list[Stated]:
    """The beliefs that the owner stated and has not taken back."""
    gone = {item.symbol for item in tables.items("unbelief", known)}
    return [stated_of(item.key, item.body, item.known_at) for item in tables.items("belief", known) if item.key not in gone]


def stated_of(id: str, body: Mapping[str, Any], stated_at: datetime) -> Stated:
    """A belief as it was stated."""
    return Stated(id=id, stated_at=stated_at, **body)


def _said(standing: Iterable[Standing]) -> list[Said]:
    """Plans as recall scores them: what their trigger asks of the situation, anything where it asks nothing."""
    found: list[Said] = []
    for each in standing:
        if each.status not in ("active", "proposed"):
            continue
        plan = each.plan
        flat = {k: v for k, v in plan.trigger.items() if k in Situation.__slots__ and isinstance(v, str | float | int)}
        anything = dict.fromkeys([name for name, *_ in (*LABELS, *NUMBERS)], ANY)
        situation = read(Situation, anything | flat)
        found.append(Said(plan.id, plan.priority, each.at, plan.tier, plan.sources, situation, plan.reasoning))
    return found


def _firings(tables: Tables, known: Known) -> dict[str, list[tuple[datetime, dict[str, Any]]]]:
    """When each plan fired, from the conclusions in the log."""
    fired: dict[str, list[tuple[datetime, dict[str, Any]]]] = {}
    for _, told in _concluded_of_plans(tables, known):
        if told["event"] == "plan_fired":
            fired.setdefault(told["plan"], []).append((read_time(told["at"]), told))
    return fired


def _concluded_of_plans(tables: Tables, known: Known) -> Iterator[tuple[int, dict[str, Any]]]:
    """What ticks concluded about plans, in order, as far as a reader may know."""
    if not Learned(tables).plans():
        return
    limits = known.limits()
    for row in tables.log_of(("tick",), telling='"plan_'):
        if row.payload is not None and row.known_at <= limits["as_of"] and row.seq <= limits["upto"]:
            told = json.loads(row.payload)["concluded"]
            yield from ((row.seq, t) for t in told if t["event"] in ("plan_fired", "plan_expired"))


def standings(tables: Tables, known: Known) -> list[Standing]:
    """Every plan and where it stood, as far as a reader may know."""
    stored = Learned(tables).plans()
    latest = tables.head().known_at
    if not stored or (known.head is None and known.as_of is not None and latest is not None and known.as_of >= latest):
        return stored
    found = {item.key: made(item.body, item.known_at) for item in tables.items("plan", known)}
    happened = [(item.seq, item.known_at, item.symbol, item.body["status"]) for item in tables.items("plan_status", known)]
    for seq, told in _concluded_of_plans(tables, known):
        happened.append((seq, read_time(told["at"]), told["plan"], told["event"].removeprefix("plan_")))
    for _, at, id_, status in sorted(happened, key=lambda each: each[0]):
        if id_ in found:
            found[id_] = changed(found[id_], status, at)
    return list(found.values())


def _worth(standing: Standing, when: datetime, told: Mapping[str, Any], episodes: Sequence[Episode]) -> float | None:
    """What a firing was worth in R, against what would have happened without it; None while that is not known."""
    plan, symbol = standing.plan, told.get("symbol")
    about = sorted(
        (e for e in episodes if (symbol is None or e.symbol == symbol) and when <= e.entry_at <= when + FOLLOWING
         and e.pnl_r is not None), key=lambda e: (e.entry_at, e.id),
    )  # fmt: skip
    if plan.action == "skip_trade":
        shadows = [e for e in about if e.kind == "shadow"]
        return value_of_skipping(shadows[0].pnl_r or 0.0) if shadows else None
    if plan.action == "force_exit":
        open_then = [
            e for e in episodes if e.kind == "trade" and e.entry_at <= when < e.exit_at and (symbol is None or e.symbol == symbol)
        ]
        shadows = [e for e in about if e.kind == "shadow"]
        if open_then and shadows and open_then[0].pnl_r is not None and shadows[0].pnl_r is not None:
            return value_of_leaving(open_then[0].pnl_r, shadows[0].pnl_r)
        return None
    trades = [e for e in about if e.kind == "trade"]
    if plan.size_factor is not None and trades and trades[0].pnl_r is not None:
        return value_of_sizing(plan.size_factor, trades[0].pnl_r)
    return None


class _Again:
    """An agent's memories as of a head of the log: formed again from what had been recorded by then."""

    def __init__(self, reader: Recollection, known: Known) -> None:
        assert known.as_of is not None
        agent, self.as_of = reader.agent, known.as_of
        with reader._memory.reading(agent.id) as tables:
            versions = versions_known(tables, agent, known)
            account = [
                Told(account_event(kind, item.body, item.key, item.known_at), item.gone_at)
                for kind in ("equity", "flow") for item in tables.items(kind, known, gone=True)
            ]  # fmt: skip
            notes: dict[str, list[Note]] = {}
            for item in tables.items("correction", known):
                notes.setdefault(item.symbol, []).append(correction(item))
            for id_, told in claims_on(versions).items():
                notes.setdefault(id_, []).extend(told)
            said = [item.known_at for kind in ("fill", "funding", "trade") for item in tables.items(kind, known)]
            said += [item.known_at for item in tables.items("tick", known) if "positions" in item.body]
            self.verified_from = min(said, default=None)
            markets: dict[str, Market] = {}

            def market(symbol: str, _: datetime) -> Market:
                if symbol not in markets:
                    markets[symbol] = Market(ended(seen) for seen in tables.bars(symbol, known))
                return markets[symbol]

            starting = float(agent.settings.starting_equity)
            self.episodes, self.steps, past = memories_of(
                versions, account, market, starting, self.verified_from, lambda trade: notes.get(trade.id, [])
            )
            for item in tables.items("decision", known):
                decision = read(Decision, item.body)
                if is_followed(decision) and decision.symbol is not None and decision.t is not None:
                    seen, bars = market(decision.symbol, decision.t).at(decision.t), tables.bars(decision.symbol, known)
                    found = shadow_episodes(agent.id, agent.skill, decision, item.known_at, bars, seen, past.at(decision.t))
                    said_of = notes.get(shadow_id(agent.id, item.key), [])
                    self.episodes += [version for episode in found for version in in_versions(episode, said_of)]
            self._stated = _stated(tables, known)

    @property
    def claims_count(self) -> bool:
        return self.verified_from is None or self.as_of < self.verified_from

    def moment(self) -> Moment:
        exits = [e.exit_at for e in known_at(self.episodes, self.as_of)]
        return Moment(self.as_of, self.claims_count, len(exits), min(exits, default=None), max(exits, default=None))

    def beliefs(self) -> list[Belief]:
        found = known_at(self.episodes, self.as_of)
        counted = count(found, self.claims_count)
        return beliefs_of(counted, count_stated(self._stated, found, self.claims_count), self.as_of)
