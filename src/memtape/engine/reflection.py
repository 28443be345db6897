"""Reflection: from closed trades to lessons, between ticks and never inside one.

READ what is due, and the trades; DECIDE: candidates are computed and written as sentences; memtape or a model chooses among
them; WRITE the reflection, or that it failed. After three failures in a row memtape chooses. A lease keeps two workers from
asking a model twice. That one cause has one reflection is guaranteed by the log, where the cause is the reflection's key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from memtape.core.codec import canonical_plain, digest, make_id, plain, read_time
from memtape.core.events import Reflected, ReflectionFailed
from memtape.core.ids import ReflectionId
from memtape.core.items import OWNER_STREAM, Item
from memtape.core.ledger.trades import Trade
from memtape.core.lessons.cadence import due_trigger, next_attempt_at
from memtape.core.lessons.candidates import find_candidates, tested_count
from memtape.core.lessons.grounding import ground_lessons, rejection_summary
from memtape.core.lessons.prompt import reflection_prompt
from memtape.core.lessons.reflection import Candidate, Lesson, Reflection, with_expiry
from memtape.core.lessons.stats_lessons import lesson_about, lessons_of
from memtape.core.memory.episodes import Episode
from memtape.core.memory.outcome_units import money_unit_of_results
from memtape.core.memory.trade_labels import with_entry_labels
from memtape.core.skills import Skill
from memtape.core.value_class import dataclass
from memtape.core.values import read
from memtape.engine.view.lessons import last_reflection
from memtape.engine.view.owner_stream import skill_of
from memtape.errors import Conflict, Invalid, MissingExtra, ModelFailed
from memtape.store.cutoff import EVERYTHING
from memtape.store.leases import Leases
from memtape.store.memories import MemoryTables
from memtape.store.tables import Tables

if TYPE_CHECKING:
    from memtape.core.lessons.cadence import ReflectionTrigger
    from memtape.core.lessons.reflection import AskedBy
    from memtape.engine.scope import AgentScope
    from memtape.plugs.models import Model

STATS = "stats"
LEASE, LEASE_TIME = "reflection", timedelta(minutes=10)
WINDOW_TRADES = 500  # trades that a reflection looks at
TRADES_SHOWN_TO_MODEL = 60  # its candidates count all of them
MAX_ANSWER_TOKENS = 4_000  # models that reason count that too
MAX_MODEL_FAILURES = 3  # in a row, after which memtape chooses the lessons
WATCHED_AFTER_EXIT = timedelta(days=5)  # how long the market is watched after a stopped trade


@dataclass(frozen=True, slots=True)
class FailedReflection:
    """A reflection that failed; the one before it stays active."""

    trigger: str
    at: datetime
    model: str
    why: str
    failures: int  # of this model, in a row
    retry_at: datetime


@dataclass(frozen=True, slots=True)
class ReflectionResult:
    """The result of a reflection: a new one, the one that was there already, a failure, or why it waits."""

    note: Reflection | None = None
    failed: FailedReflection | None = None
    new: bool = False
    waits: str = ""


@dataclass(frozen=True, slots=True)
class ChosenLessons:
    """The lessons of a reflection, who chose them, and what that cost."""

    lessons: tuple[Lesson, ...]
    model: str
    failed_model: str | None = None  # the model that failed before
    failures: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: Decimal | None = None

    def failed(self, why: str) -> ModelFailed:
        """The failure of an answer that cannot be used; its cost is recorded all the same."""
        return ModelFailed(
            self.model, why, input_tokens=self.input_tokens, output_tokens=self.output_tokens, cost_usd=self.cost_usd
        )


class DueQuestion(NamedTuple):
    """What lessons that are due would ask a model."""

    model: Model
    text: str  # all that is sent
    answer_tokens: int  # at most


@dataclass(frozen=True, slots=True)
class ReflectionWindow:
    """The trades that a reflection looks at, and the candidates computed from them."""

    skill: Skill
    version: int
    episodes: tuple[Episode, ...]
    trades: tuple[Trade, ...]  # the newest of them, newest first
    candidates: tuple[Candidate, ...]
    closed: int
    stated_at: datetime


class Reflector:
    """Draws the lessons of one agent."""

    def __init__(self, scope: AgentScope) -> None:
        self._scope = scope

    def due(self) -> ReflectionTrigger | None:
        """What makes a reflection due now; None if nothing does."""
        with self._scope.reading() as tables:
            return self._due(tables, self._skill(tables)[0])

    def _skill(self, tables: Tables) -> tuple[Skill, int]:
        return skill_of(Tables(tables.session, tables.owner, OWNER_STREAM), self._scope.agent)

    def _due(self, tables: Tables, skill: Skill) -> ReflectionTrigger | None:
        config, last = skill.context.memory, last_reflection(tables)
        if not config.enabled:
            return None
        found = due_trigger(
            config.reflection, closed=closed_count(tables), counted=last.closed if last else 0,
            last_at=last.generated_at if last else None, at=self._scope.stated_at(tables),
        )  # fmt: skip
        if found is None:
            return None
        undone, verified = len(tables.items("undo", EVERYTHING)), tables.head().verified_from is not None
        # After an undo, or once the broker is heard, other trades count: the same number of trades is another cause.
        if undone or verified:
            found = replace(found, key=f"{found.key}@{undone}{'v' if verified else ''}")
        return None if tables.items("note", EVERYTHING, keys=[found.key]) else found

    def reflect_if_due(self) -> ReflectionResult:
        """Draw lessons if they are due, no other worker does it, and the last failure is long enough ago."""
        now = self._scope.resources.clock.now()
        with self._scope.reading() as tables:
            trigger = self._due(tables, self._skill(tables)[0])
            failed = _failed_since(tables)
        if trigger is None:
            return ReflectionResult(waits="not due")
        # A clock that was set back must not make the next attempt wait.
        if failed and failed[0].at <= now < failed[0].retry_at:
            return ReflectionResult(failed=failed[0], waits="tried again later")
        return self._reflect(trigger.key, "cadence", None)

    def due_question(self) -> DueQuestion | None:
        """What `reflect_if_due` would ask a model now; None if it asks none."""
        with self._scope.reading() as tables:
            trigger, failed = self._due(tables, self._skill(tables)[0]), _failed_since(tables)
        now = self._scope.resources.clock.now()
        if trigger is None or (failed and failed[0].at <= now < failed[0].retry_at):
            return None
        window = self._window()
        name = window.skill.context.memory.reflection.model
        if name == STATS or not window.candidates:
            return None
        system, user, schema = reflection_prompt(window.skill, window.trades, window.candidates)
        form = canonical_plain(schema.model_json_schema())
        try:
            return DueQuestion(self._model(name), f"{system}\n{user}\n{form}", MAX_ANSWER_TOKENS)
        except ModelFailed:
            return None  # a model that is not there is not paid

    def reflect(self, *, model: str | None = None, asked_by: AskedBy = "owner") -> ReflectionResult:
        """Draw lessons now, whatever the cadence says. The same trades and model give the reflection that is there."""
        if model is not None and model != STATS:
            # An unknown model is refused here, by its name.
            self._scope.resources.models(model)
        return self._reflect(None, asked_by, model)

    def _reflect(self, key: str | None, asked_by: AskedBy, model: str | None) -> ReflectionResult:
        holder, now = uuid4().hex, self._scope.resources.clock.now()
        with self._scope.resources.repairing(self._scope.agent.id) as tables:
            if not Leases(tables).take(LEASE, holder, now, now + LEASE_TIME):
                return ReflectionResult(waits="another worker is at it")
        try:
            return self._reflect_under_lease(key, asked_by, model)
        finally:
            with self._scope.resources.repairing(self._scope.agent.id) as tables:
                Leases(tables).release(LEASE, holder)

    def _reflect_under_lease(self, key: str | None, asked_by: AskedBy, model: str | None) -> ReflectionResult:
        window = self._window()
        name = model or window.skill.context.memory.reflection.model
        key = key or self._question_key(_asked_key(window, name))
        if (earlier := self._recorded(key)) is not None:
            return ReflectionResult(note=earlier)
        if not window.episodes:
            raise Conflict("agent", "no trade has closed yet", "Reflect when there is something to reflect on")
        try:
            chosen = self._choose(window, name)
        except ModelFailed as failure:
            failed = self._fail(key, name, failure)
            if failed.failures < MAX_MODEL_FAILURES:
                return ReflectionResult(failed=failed)
            chosen = replace(self._choose(window, STATS), failed_model=name, failures=failed.failures)
            # A question of the owner keeps its own key, so that the model can be asked again about the same trades.
            key = key if asked_by == "cadence" else f"{key}:{STATS}"
            return replace(self._write(key, asked_by, window, chosen), failed=failed)
        return self._write(key, asked_by, window, chosen)

    def _question_key(self, key: str) -> str:
        """The key of a question: the earlier one while its reflection is active, else a new one."""
        with self._scope.reading() as tables:
            notes = sorted(tables.items("note", EVERYTHING, symbol=""), key=lambda item: item.seq)
        earlier = [item.key for item in notes if item.key == key or item.key.startswith(f"{key}#")]
        if not earlier or notes[-1].key == earlier[-1]:
            return earlier[-1] if earlier else key
        return f"{key}#{len(earlier) + 1}"

    def _recorded(self, key: str) -> Reflection | None:
        with self._scope.reading() as tables:
            found = tables.items("note", EVERYTHING, keys=[key])
        return read(Reflection, found[0].body) if found else None

    def _window(self) -> ReflectionWindow:
        with self._scope.reading() as tables:
            skill, version = self._skill(tables)
            at = self._scope.stated_at(tables)
            verified = tables.head().verified_from is not None
            episodes = MemoryTables(tables).latest(at, WINDOW_TRADES, None, None, trades=True, claims=not verified)
            ids = [e.id for e in episodes]
            trades: dict[str, Trade] = {v.trade.id: v.trade for v in MemoryTables(tables).versions(ids=ids, current_only=True)}
            found = find_candidates(
                episodes, claims_count=not verified, after=_moves_after_exit(tables, episodes, trades, at),
                currency=self._scope.agent.settings.currency,
                money=money_unit_of_results(MemoryTables(tables).money_results(at, claims=not verified)),
            )  # fmt: skip
            # A model reads the labels that the candidates were computed from, whether somebody stated them or bars show them.
            newest = [with_entry_labels(trades[e.id], e._asdict()) for e in reversed(episodes) if e.id in trades]
            newest = newest[:TRADES_SHOWN_TO_MODEL]
            return ReflectionWindow(skill, version, tuple(episodes), tuple(newest), tuple(found), closed_count(tables), at)

    def _choose(self, window: ReflectionWindow, name: str) -> ChosenLessons:
        # Without candidates there is nothing that a model could choose from.
        if name == STATS or not window.candidates:
            return ChosenLessons(lessons_of(window.candidates, window.skill), STATS)
        system, user, schema = reflection_prompt(window.skill, window.trades, window.candidates)
        answer = self._model(name).answer(system, user, schema, max_tokens=MAX_ANSWER_TOKENS)
        grounded = ground_lessons(answer.data, window.candidates, window.skill.avoid)
        lessons = grounded.lessons
        if not lessons and not grounded.rejected:
            lessons = _nothing_chosen(window)
        chosen = ChosenLessons(
            lessons, name, input_tokens=answer.input_tokens, output_tokens=answer.output_tokens, cost_usd=answer.cost_usd
        )
        if not lessons and grounded.rejected:
            raise chosen.failed(f"no lesson of its answer stands: {rejection_summary(grounded.rejected)}")
        return chosen

    def _model(self, name: str) -> Model:
        """The model of a name. That there is none is a failure like any other: recorded, and tried again."""
        try:
            return self._scope.resources.models(name)
        except (Invalid, MissingExtra) as problem:
            raise ModelFailed(name, str(problem).rstrip("."), what="not_configured", retry_later=False) from problem

    # ---- writing ---------------------------------------------------------------------------------------------

    def _write(self, key: str, asked_by: AskedBy, window: ReflectionWindow, chosen: ChosenLessons) -> ReflectionResult:
        exits = [e.exit_at for e in window.episodes]
        cited = {one.candidate for one in chosen.lessons}
        with self._scope.writing() as tables:
            if found := tables.items("note", EVERYTHING, keys=[key]):
                return ReflectionResult(note=read(Reflection, found[0].body))
            at = max(window.stated_at, self._scope.stated_at(tables))
            config = window.skill.context.memory.reflection
            note = Reflection(
                id=make_id(self._scope.agent.id, "note", key), agent=self._scope.agent.id, skill=self._scope.agent.skill,
                skill_version=window.version, generated_at=at, window_start=min(exits), window_end=max(exits),
                trades_considered=len(window.episodes), closed=window.closed, model_used=chosen.model, asked_by=asked_by,
                lessons=with_expiry(chosen.lessons, at, config.expireDays), scanned=tested_count(window.candidates),
                candidates=tuple(one for one in window.candidates if one.id in cited or not one.chance)[:100],
                input_tokens=chosen.input_tokens, output_tokens=chosen.output_tokens, cost_usd=chosen.cost_usd,
                failed_model=chosen.failed_model, failures=chosen.failures,
            )  # fmt: skip
            writer = self._scope.writer(tables)
            writer.declare(Item("note", key, at, plain(note)), at, [Reflected(ReflectionId(note.id))])
            return ReflectionResult(note=note, new=True)

    def _fail(self, key: str, model: str, failure: ModelFailed) -> FailedReflection:
        with self._scope.writing() as tables:
            at, now = self._scope.stated_at(tables), self._scope.resources.clock.now()
            # A note says which model failed so often: failures of another one are not counted.
            earlier = len(list(takewhile(lambda one: one.model == model, _failed_since(tables))))
            failed = FailedReflection(key, now, model, str(failure), earlier + 1, next_attempt_at(earlier + 1, now))
            number = len(tables.items("reflection_failed", EVERYTHING)) + 1
            spent = {"input_tokens": failure.input_tokens, "output_tokens": failure.output_tokens, "cost_usd": failure.cost_usd}
            body = plain(asdict(failed)) | plain({name: value for name, value in spent.items() if value is not None})
            writer = self._scope.writer(tables)
            writer.declare(Item("reflection_failed", f"{key}#{number}", at, body), at, [ReflectionFailed()])
        return failed


def _nothing_chosen(window: ReflectionWindow) -> tuple[Lesson, ...]:
    """The lessons where a model chose none: that no pattern was found, if that is so."""
    found = window.candidates
    everything = next((one for one in found if one.kind == "all"), None)
    if everything is None or any(not one.chance for one in found):
        return ()
    return (lesson_about(everything, found, window.skill.avoid, {one.id: one for one in found}),)


def closed_count(tables: Tables) -> int:
    """How many closed trades the ledger shows."""
    return tables.count_closed(claims=tables.head().verified_from is None)


def due_after(tables: Tables, skill: Skill, at: datetime) -> bool:
    """True if the trade that has just closed makes lessons due; trades are counted no further than needed."""
    config, last = skill.context.memory, last_reflection(tables)
    if not config.enabled or config.reflection.cadence == "off":
        return False
    counted = last.closed if last else 0
    since = MemoryTables(tables).ended_after(last.window_end if last else None, config.reflection.everyNTrades)
    found = due_trigger(
        config.reflection, closed=counted + since, counted=counted, last_at=last.generated_at if last else None, at=at
    )
    return found is not None


def _asked_key(window: ReflectionWindow, model: str) -> str:
    """The key of a question: the same trades with their outcomes, skill version and model give the same key."""
    found = [plain(one) for one in window.candidates]
    return f"asked:{model}:{digest(canonical_plain([found, len(window.episodes), window.version]))[:16]}"


def _failed_since(tables: Tables) -> list[FailedReflection]:
    """The failures since the last reflection, newest first."""
    notes = [item.seq for item in tables.items("note", EVERYTHING, symbol="")]
    return failed_reflections(tables, max(notes, default=0))


def failed_reflections(tables: Tables, after: int = 0) -> list[FailedReflection]:
    items = [item for item in tables.items("reflection_failed", EVERYTHING) if item.seq > after]
    items.sort(key=lambda item: item.seq, reverse=True)
    return [
        FailedReflection(b["trigger"], read_time(b["at"]), b["model"], b["why"], b["failures"], read_time(b["retry_at"]))
        for b in (item.body for item in items)
    ]


def _moves_after_exit(tables: Tables, episodes: Sequence[Episode], trades: dict[str, Trade], at: datetime) -> dict[str, float]:
    """How far the market moved in favour of each trade after its exit, in R from its entry, by the bars known."""
    found: dict[str, float] = {}
    for episode in episodes:
        trade = trades.get(episode.id)
        if trade is None or not trade.entry_price or not trade.stop_price or not trade.exit_at:
            continue
        risk = abs(trade.entry_price - trade.stop_price)
        later = [
            bar
            for bar in tables.bars_between(trade.symbol, trade.exit_at, trade.exit_at + WATCHED_AFTER_EXIT).values()
            if bar.t1 <= at
        ]
        if later and risk:
            best = (
                max(b.h for b in later) - trade.entry_price
                if trade.side == "long"
                else trade.entry_price - min(b.l for b in later)
            )
            found[episode.id] = float(best / risk)
    return found
