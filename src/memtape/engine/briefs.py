"""The brief: everything that memory has to say before a decision, gathered as of one moment, composed by the core.

Reading never writes: that a brief was shown is told by `shown`, which keeps its text once by digest, with what is needed to make
it again (as of when, by which heads of the log, for which question). Only what was shown reinforces a memory, and a plan that a
shown brief told to fire has fired.
"""

from __future__ import annotations

import json
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from memtape.core.brief.budget import ESTIMATE
from memtape.core.brief.compose import BRIEF_TOKENS, PROMPT_VERSION, compose_brief
from memtape.core.brief.inputs import Brief, BriefDocuments, BriefInputs, BriefPlan, OpenPosition
from memtape.core.brief.risk import risk_state
from memtape.core.calendar import upcoming_events
from memtape.core.codec import canonical, canonical_plain, make_id, plain, read_time, time_text
from memtape.core.events import Discrepancy, Event, PlanFired
from memtape.core.items import OWNER_STREAM, Item
from memtape.core.ledger.open_position import open_value
from memtape.core.ledger.trades import Trade
from memtape.core.memory.episodes import Episode
from memtape.core.memory.plans import changed_plan_state, resolve_plans
from memtape.core.observed import ANY, Decision, DocumentRef, Situation
from memtape.core.recall.similar import SimilarDecision, similar_decisions
from memtape.core.skills import Agent, Skill
from memtape.core.values import STRICT, Key, Label, Line, Symbol, Time, read
from memtape.documents.vectors import BROKEN
from memtape.engine.checks import fired_of
from memtape.engine.documents.citations import Citing
from memtape.engine.documents.rules import documents_digest
from memtape.engine.view.ledger import is_verified, trade_versions
from memtape.engine.view.lessons import lessons_at
from memtape.engine.view.memories import Recollection
from memtape.engine.view.plan_inputs import INSTANT, as_of_moment, current_situation
from memtape.engine.write.writer import Receipt, Writer
from memtape.errors import Conflict, Invalid
from memtape.plugs.embedder import Embedder
from memtape.store.cutoff import EVERYTHING, Cutoff
from memtape.store.memories import MemoryTables
from memtape.store.tables import Tables

if TYPE_CHECKING:
    from memtape.engine.memory import Memory

DAY, EVENT_HORIZON = timedelta(days=1), timedelta(hours=24)
RECALLED_MEMORIES = 5  # memories in a brief
SIMILAR, COMPARED_IN_WORDS = 5, 100  # the nearest by situation are compared in words as well
LOOKED_BACK = 20  # ticks, for the last price of each symbol
Tokens = tuple[Callable[[str], int] | None, str]  # what counts tokens, and what it is called; None: an estimate
ESTIMATED: Tokens = (None, ESTIMATE)
RETRIEVED, REINFORCED = ("memory", "similar"), ("episode", "trade", "belief")  # of what is shown, what recall had found
MIN_BRIEF_TOKENS, MAX_BRIEF_TOKENS = 200, 32_000  # tokens that a brief may be asked to keep to
CACHED_BRIEFS = 64  # briefs that a process remembers having made, so that `shown` need not make them again


NO_PAPERS = BriefDocuments()
Row = Annotated[int, Field(ge=0, le=2**53)]
# A brief at the present; one of the past; one that was made and is on nobody's record yet; one that was shown.
When = Literal["now", "then", "receipt", "again"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BriefQuestion:
    """What a brief was asked for. With `as_of` and the heads it makes the same bytes again."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    as_of: Time
    head: Row
    owner_head: Row
    situation: Situation | None = None
    symbol: Symbol | None = None
    strategy: Label | None = None
    thesis: Line | None = None
    budget: Annotated[int, Field(ge=MIN_BRIEF_TOKENS, le=MAX_BRIEF_TOKENS)] = BRIEF_TOKENS
    without_memory: bool = False
    papers: Key | None = None  # what it took from documents, by the name under which `shown` records it
    passages: Annotated[tuple[DocumentRef, ...], Field(max_length=16)] = ()  # the lines among them, to be found again


@dataclass(frozen=True, slots=True)
class AssembledBrief:
    """A brief, and the question it answers."""

    agent: str
    brief: Brief
    question: BriefQuestion
    config: str  # hash of the skill, its version, the prompt's and the tokenizer's: what else the bytes depend on
    memories: tuple[str, ...]  # ids of the memories that it puts before the agent
    firing: tuple[str, ...]  # ids of the active plans that it tells to fire
    papers: BriefDocuments = NO_PAPERS

    @property
    def receipt(self) -> str:
        """What `shown` needs to be told of it, in one line."""
        return canonical_plain({"digest": self.brief.digest, **plain(self.question)})


class BriefCache:
    """The briefs that this process made last, by agent and receipt."""

    def __init__(self) -> None:
        self._by_receipt: OrderedDict[tuple[str, str], AssembledBrief] = OrderedDict()
        self._lock = Lock()

    def keep(self, made: AssembledBrief) -> None:
        """Remember one."""
        with self._lock:
            self._by_receipt[made.agent, made.receipt] = made
            self._by_receipt.move_to_end((made.agent, made.receipt))
            while len(self._by_receipt) > CACHED_BRIEFS:
                self._by_receipt.popitem(last=False)

    def find(self, agent: str, receipt: str) -> AssembledBrief | None:
        """One of them."""
        with self._lock:
            return self._by_receipt.get((agent, receipt))


class Briefing(Recollection, Citing):
    """What one agent is told."""

    memory: Memory

    def brief(
        self, situation: Situation | Mapping[str, Any] | None = None, *, symbol: str | None = None, strategy: str | None = None,
        thesis: str | None = None, as_of: datetime | None = None, head: int | None = None, owner_head: int | None = None,
        budget: int = BRIEF_TOKENS, without_memory: bool = False, skill: Skill | None = None, papers: str | None = None,
    ) -> AssembledBrief:  # fmt: skip
        """What the agent is told before its next decision. `skill` previews another version of its skill.

        A past one is made again of the documents that it was shown with; `papers` says which, where two were shown alike.
        """
        said = read(Situation, situation) if situation is not None else None
        if head is None and owner_head is not None:
            raise Invalid("owner_head", "is given without head", "Give both: they are in the record of what was shown")
        if head is not None and head > self.head().seq:
            raise Invalid("head", f"the log ends at row {self.head().seq}", "Give a row that is there")
        asked: dict[str, Any] = {"situation": said, "symbol": symbol, "strategy": strategy, "thesis": thesis, "budget": budget,
                 "without_memory": without_memory}  # fmt: skip
        shown = self._shown_at(as_of, head) if head is not None else []
        if head is not None and owner_head is None:
            owner_head = self._owner_head(shown[0] if shown else None, head)
        was = _alike(shown, asked, papers)
        question = BriefQuestion(
            as_of=as_of or self.now(), head=self.head().seq if head is None else head,
            owner_head=self._owners_head() if owner_head is None else owner_head, **asked,
            papers=None if was is None else was.get("papers"),
        )  # fmt: skip
        then = Cutoff(question.as_of, question.head, question.owner_head)
        when: When = "again" if was is not None else "now" if as_of is None and head is None else "then"
        made = self._assemble(question, then if head is not None else Cutoff(question.as_of), skill, when)
        if head is None and self._moved_on(question):  # somebody wrote while it was gathered: it must not be half of each
            made = self._assemble(question, then, skill, when)
        if skill is None:
            self.memory.made.keep(made)
        return made

    def _assemble(self, asked: BriefQuestion, known: Cutoff, preview: Skill | None, when: When) -> AssembledBrief:
        own, skill, version = self._skill_then(asked, known.head is not None)
        skill = preview or skill
        inputs = self._gather(asked, known, own, skill, version)
        papers, problems = self._papers(asked, known, inputs, when)
        inputs = replace(inputs, rules=papers.rules, documents=papers.documents)
        count, counted_by = self.memory.tokens
        composed = compose_brief(
            inputs, budget=asked.budget, without_memory=asked.without_memory, count=count, counted_by=counted_by
        )
        told = () if asked.without_memory or not skill.context.memory.enabled else composed.citations
        memories = sorted({one.source.id for one in told if one.segment in RETRIEVED and one.source.kind in REINFORCED})
        firing = sorted(
            one.standing.plan.id for one in inputs.plans
            if one.standing.status == "active" and one.finding == "fires"
            and any(cited.source.kind == "plan" and cited.source.id == one.standing.plan.id for cited in told)
        )  # fmt: skip
        embedder = self.memory.embedder if skill.context.memory.similarSituations else None
        config = make_id(canonical(skill), version, PROMPT_VERSION, counted_by, embedder.id if embedder else None)
        composed = replace(composed, warnings=(*composed.warnings, *problems))
        lines = tuple(
            DocumentRef(path=one.path, start_line=one.start_line, end_line=one.end_line, content_hash=one.content_hash)
            for one in papers.documents
        )  # fmt: skip
        asked = replace(asked, papers=documents_digest(papers), passages=lines)
        return AssembledBrief(self.agent.id, composed, asked, config, tuple(memories), tuple(firing), papers)

    def _papers(
        self, asked: BriefQuestion, known: Cutoff, inputs: BriefInputs, when: When
    ) -> tuple[BriefDocuments, tuple[str, ...]]:
        """What documents say to the brief: as they are now, as they were recorded, or as was known then."""
        if when == "then":
            return self.rules_known(Cutoff(asked.as_of, known.head))
        if when == "again" or (when == "receipt" and asked.papers is None):
            recorded = self.papers_shown(asked.papers) if asked.papers is not None else None
            return recorded or NO_PAPERS, ()
        symbol, situation = inputs.situation.symbol, inputs.situation
        thesis = asked.thesis or self._last_words(symbol, known)
        words = " ".join(word for word in (symbol, asked.strategy, situation.regime, thesis) if word and word != ANY)
        if when == "receipt":
            return self.papers_of(words, asked.passages)
        remembers = inputs.skill.context.memory.enabled and not asked.without_memory
        return self.papers_now(words, symbol, passages=remembers and bool(words))

    # ---- the pieces --------------------------------------------------------------------------------------------------

    def _gather(self, asked: BriefQuestion, known: Cutoff, own: Agent, skill: Skill, version: int) -> BriefInputs:
        at, head, config = asked.as_of, known.head, skill.context.memory
        remembers = config.enabled and not asked.without_memory
        past = self._again(at, head).past if head is not None else None
        with self._memory.reading(self.agent.id) as tables:
            symbol = asked.symbol or (asked.situation.symbol if asked.situation else None) or last_symbol(tables, known)
            situation, _ = current_situation(tables, self.agent, known, symbol, asked.situation, past)
            decisions = [
                read(Decision, item.body)
                for item in tables.items("decision", known, since=at - DAY, before=at + INSTANT)
            ]  # fmt: skip
            note, shared = lessons_at(tables, own, known)
            prices = last_prices(tables, known)
            claims_count = not is_verified(tables, known)
        mood = self.mood(as_of=at, head=head)
        risk = risk_state(
            decisions, self._closed_today(at, head), mood, Decimal(repr(mood.equity)), at, claims_count=claims_count
        )
        inputs = BriefInputs(
            agent=own.id, skill=skill, skill_version=version, currency=own.settings.currency, as_of=at, situation=situation,
            risk=risk, discrepancies=self._differing(at, head),
        )  # fmt: skip
        if not remembers:
            return inputs
        recalled, query, moment = self.recall(
            situation, symbol=symbol, strategy=asked.strategy, limit=RECALLED_MEMORIES, as_of=at, head=head
        )
        return replace(
            inputs,
            lessons=note.told(at) if note else (), skill_lessons=shared.told(at) if shared else (),
            recent=tuple(self.trades(status="closed", as_of=at, head=head, limit=config.recentTradesK))
            if config.recentTradesK else (),
            holding=self._holding(at, head, prices) if config.includeOpenPositions else (),
            recalled=recalled, query=query, episodes_known=moment.n,
            standing=moment.standing, plans=self._planned(situation, symbol, asked, known),
            events=tuple(upcoming_events(self.memory.events(known.owners()), at, EVENT_HORIZON)),
            similar=self._similar(situation, symbol, asked, known, moment.claims_count) if config.similarSituations else (),
        )  # fmt: skip

    def _holding(self, at: datetime, head: int | None, prices: Mapping[str, Decimal]) -> tuple[OpenPosition, ...]:
        held: list[OpenPosition] = []
        for trade in self.trades(status="open", as_of=at, head=head):
            mark = prices.get(trade.symbol)
            if mark is None:
                with self._memory.reading(self.agent.id) as tables:
                    seen = tables.last_bar(trade.symbol, at, Cutoff(at, head))
                mark = seen.bar.c if seen else None
            held.append(OpenPosition(trade, mark, open_value(trade, mark)))
        return tuple(held)

    def _differing(self, at: datetime, head: int | None) -> tuple[Discrepancy, ...]:
        return tuple(d for d in self.discrepancies(20, as_of=at, head=head) if at - DAY <= d.at <= at and d.why == "snapshot")

    def _closed_today(self, at: datetime, head: int | None) -> list[Trade]:
        midnight = at.replace(hour=0, minute=0, second=0, microsecond=0)
        if head is not None:
            found = self.trades(status="closed", as_of=at, head=head)
        else:
            with self._memory.reading(self.agent.id) as tables:
                learned = MemoryTables(tables)
                forgotten = {item.symbol for item in tables.items("correction", EVERYTHING) if item.body["forget"]}
                versions = learned.versions(ids={*learned.exited_between(midnight, at), *forgotten})
                verified = is_verified(tables, Cutoff(at))
            then = [v.trade for v in versions if v.known_from <= at and (v.known_to is None or v.known_to > at)]
            found = [trade for trade in then if not (verified and trade.quality == "claimed")]
        today = [trade for trade in found if trade.exit_at is not None and midnight <= trade.exit_at <= at]
        return sorted(today, key=lambda trade: (trade.exit_at or at, trade.id))

    def _planned(self, situation: Situation, symbol: str | None, asked: BriefQuestion, known: Cutoff) -> tuple[BriefPlan, ...]:
        seen = self.plans(
            situation, symbol=symbol, as_of=asked.as_of, head=known.head, owner_head=known.owner_head,
            context={"strategy": asked.strategy} if asked.strategy else None,
        )  # fmt: skip
        firing = {one.standing.plan.id: one for one in seen if one.finding in ("fires", "holds")}
        heard = resolve_plans([fired_of(one) for one in firing.values()]).in_order
        return tuple(BriefPlan(firing[one.id].standing, firing[one.id].finding) for one in heard)

    def _similar(
        self, situation: Situation, symbol: str | None, asked: BriefQuestion, known: Cutoff, claims_count: bool
    ) -> tuple[SimilarDecision, ...]:
        """The nearest earlier decisions; with the embedding slot on, the nearest of them by words too."""
        episodes = self.episodes(as_of=asked.as_of, head=known.head)
        near = similar_decisions(episodes, situation, asked.as_of, limit=COMPARED_IN_WORDS, claims_count=claims_count)
        chosen = {one.id for one in near}
        candidates = [e for e in episodes if e.id in chosen]
        reasons = self._reasons(candidates, known)
        embedder, words = self.memory.embedder, asked.thesis or self._last_words(symbol, known)
        if embedder is None or not words:
            return similar_decisions(
                candidates, situation, asked.as_of, reasons=reasons, limit=SIMILAR, claims_count=claims_count
            )
        try:
            texts = cosines(embedder, words, {id_: reason for id_, reason in reasons.items() if reason})
        except BROKEN:  # a model that is not there costs its own word: the section says by what it compared
            return similar_decisions(
                candidates, situation, asked.as_of, reasons=reasons, limit=SIMILAR, claims_count=claims_count
            )
        return similar_decisions(
            candidates,
            situation,
            asked.as_of,
            reasons=reasons,
            texts=texts,
            model=embedder.id,
            limit=SIMILAR,
            claims_count=claims_count,
        )

    def _reasons(self, episodes: Sequence[Episode], known: Cutoff) -> dict[str, str]:
        """What was said at each decision."""
        from memtape.core.memory.shadows import shadow_id

        with self._memory.reading(self.agent.id) as tables:
            ids = {e.id for e in episodes if e.kind == "trade"}
            then = trade_versions(tables, self.agent, known) if known.head is not None else MemoryTables(tables).versions(ids=ids)
            at = as_of_moment(known)
            found: dict[str, str] = {
                v.trade.id: v.trade.entry_reason or "" for v in then
                if v.trade.id in ids and v.known_from <= at and (v.known_to is None or v.known_to > at)
            }  # fmt: skip
            first = min((e.entry_at for e in episodes if e.kind == "shadow"), default=None)
            if first is not None:
                for item in tables.items("decision", known, since=first):
                    found[shadow_id(self.agent.id, item.key)] = item.body.get("reason") or ""
        return {id_: reason for id_, reason in found.items() if reason}

    def _last_words(self, symbol: str | None, known: Cutoff) -> str:
        with self._memory.reading(self.agent.id) as tables:
            last = tables.items("decision", known, symbol=symbol, newest=True, limit=1)
        return (last[0].body.get("reason") or "") if last else ""

    # ---- the owner's side of a moment ----------------------------------------------------------------------------------

    def _moved_on(self, asked: BriefQuestion) -> bool:
        """Whether something was recorded or stated since a question was asked."""
        return (self.head().seq, self._owners_head()) != (asked.head, asked.owner_head)

    def _owners_head(self) -> int:
        with self._memory.reading(OWNER_STREAM) as tables:
            return tables.head().seq

    def _shown_at(self, as_of: datetime | None, head: int) -> list[dict[str, Any]]:
        """What is on record of the briefs that were shown at a row of the log."""
        with self._memory.reading(self.agent.id) as tables:
            rows = [item.body for item in tables.items("shown", EVERYTHING) if item.body["head"] == head]
        return [dict(row) for row in rows if as_of is None or read_time(row["as_of"]) == as_of]

    def _owner_head(self, was: Mapping[str, Any] | None, head: int) -> int:
        """How far the owner's stream had come: as a brief that was shown says, else by what was recorded before the next row."""
        if was is not None:
            return int(was["owner_head"])
        with self._memory.reading(self.agent.id) as tables:
            following = next(iter(tables.log(after=head, upto=head + 1)), None)
        with self._memory.reading(OWNER_STREAM) as tables:
            if following is None:
                return tables.head().seq
            return max((row.seq for row in tables.log() if row.recorded_at <= following.recorded_at), default=0)

    def _skill_then(self, asked: BriefQuestion, past: bool) -> tuple[Agent, Skill, int]:
        """The agent and its skill as they stood. For a simulation the clock of its statements is another than its own."""
        limits = Cutoff(None if self.agent.mode == "sim" else asked.as_of, asked.owner_head if past else None)
        return self.memory.agent_then(self.agent, limits)

    # ---- what was shown ------------------------------------------------------------------------------------------------

    def shown(self, made: AssembledBrief | str, *, decision: str | None = None, run: str | None = None) -> Receipt:
        """Record that a brief was put before the agent, for a decision or a run; the same again changes nothing.

        `made` is the brief, or its receipt: then it is made again, and refused if it does not come out the same.
        """
        if isinstance(made, str):
            made = self.brief_again(made)
        elif made.agent != self.agent.id:
            raise Invalid("brief", f"was made for the agent '{made.agent}'", f"Show {self.agent.id} a brief of its own")
        asked, text = made.question, made.brief.text
        key = make_id("shown", self.agent.id, made.brief.digest, decision or "", run or "", time_text(asked.as_of), asked.head)
        with self.memory.writing(self.agent.id) as tables:
            if done := tables.logged("shown", key):
                return Receipt(done.stream, done.seq, done.hash, (), duplicate=True)
            at = self._said_at(tables)
            writer = Writer(tables, self.agent, self.memory.clock.now())
            if asked.papers and not tables.items("papers", EVERYTHING, keys=[asked.papers]):
                writer.declare(Item("papers", asked.papers, at, plain(made.papers)), at)
            if not tables.items("brief", EVERYTHING, keys=[made.brief.digest]):
                cited = sorted({one.source.id for one in made.brief.citations})
                writer.declare(Item("brief", made.brief.digest, at, {"text": text, "cited": cited}), at)
            told_of = Counter(one.source.id for one in made.brief.citations if one.source.kind in ("rule", "document"))
            said: dict[str, Any] = {
                "told": dict(sorted(told_of.items())), "digest": made.brief.digest,
                **plain(asked), "config": made.config, "decision": decision, "run": run,
                "memories": list(made.memories), "tokens": made.brief.tokens,
            }  # fmt: skip
            told = self._fired(tables, made, at)
            return writer.declare(Item("shown", key, at, said), at, told)

    def _fired(self, tables: Tables, made: AssembledBrief, at: datetime) -> list[Event]:
        """The plans that the brief told to fire have fired, if they still stand."""
        learned = MemoryTables(tables)
        told: list[Event] = []
        for standing in learned.plans(("active",)):
            if standing.plan.id in made.firing and (standing.fired_at is None or standing.fired_at < made.question.as_of):
                learned.put_plans([changed_plan_state(standing, "fired", at)])
                told.append(PlanFired(standing.plan.id, at, standing.plan.action))
        return told

    def brief_again(self, receipt: str) -> AssembledBrief:
        """The brief of a receipt: the one that was made, or made again; refused if it does not come out the same."""
        if (kept := self.memory.made.find(self.agent.id, receipt)) is not None:
            return kept
        try:
            data = dict(json.loads(receipt))
            digest_ = str(data.pop("digest"))
        except (ValueError, TypeError, KeyError, RecursionError):
            raise Invalid("brief", "is not the receipt of a brief", "Give the `receipt` that get_brief returned") from None
        asked = read(BriefQuestion, data, at="brief")
        if asked.head > self.head().seq or asked.owner_head > self._owners_head():
            raise Invalid("brief", "names log rows that are not there", "Give the `receipt` that get_brief returned")
        known = Cutoff(asked.as_of, asked.head, asked.owner_head) if self._moved_on(asked) else Cutoff(asked.as_of)
        made = self._assemble(asked, known, None, "again" if self.brief_text(digest_) is not None else "receipt")
        if made.brief.digest != digest_:
            raise Conflict("brief", "this brief cannot be made again from the record", "Ask for a new one with get_brief")
        return made

    def briefs_shown(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Which briefs were shown, newest first: digest, when, for which decision."""
        with self._memory.reading(self.agent.id) as tables:
            items = tables.items("shown", EVERYTHING, newest=True, limit=limit)
        return [item.body | {"id": item.key, "known_at": time_text(item.known_at)} for item in items]

    def brief_text(self, digest_: str) -> str | None:
        """The text of a brief that was shown."""
        with self._memory.reading(self.agent.id) as tables:
            found = tables.items("brief", EVERYTHING, keys=[digest_])
        return str(found[0].body["text"]) if found else None


def _alike(shown: Sequence[Mapping[str, Any]], asked: Mapping[str, Any], papers: str | None) -> Mapping[str, Any] | None:
    """The brief among those shown that was asked for in the same words; the last of them, or the one with these papers."""
    wanted = {name: plain(value) for name, value in asked.items() if value is not None}
    same = [row for row in shown if {name: row[name] for name in asked if row.get(name) is not None} == wanted]
    return next((row for row in reversed(same) if papers in (None, row.get("papers"))), None)


def last_symbol(tables: Tables, known: Cutoff) -> str | None:
    """What the agent last had to do with: its last decision's symbol, else one that it holds or sees, else its last trade's."""
    decided = [item for item in tables.items("decision", known, newest=True, limit=LOOKED_BACK) if item.symbol]
    if decided:  # of several of one moment the first, whether they came in one tick or one by one
        return min((item for item in decided if item.at == decided[0].at), key=lambda item: item.key).symbol
    for tick in tables.items("tick", known, newest=True, limit=1):
        for symbol in [*sorted(tick.body.get("positions") or {}), *sorted(tick.body.get("marks", {}))]:
            return str(symbol)
    for kind in ("fill", "trade", "claim"):
        for item in tables.items(kind, known, newest=True, limit=1):
            return item.symbol
    return None


def last_prices(tables: Tables, known: Cutoff) -> dict[str, Decimal]:
    """The last mark of each symbol among the latest ticks."""
    found: dict[str, Decimal] = {}
    for tick in tables.items("tick", known, newest=True, limit=LOOKED_BACK):
        for symbol, mark in tick.body.get("marks", {}).items():
            found.setdefault(symbol, Decimal(mark))
        for symbol, several in (tick.body.get("positions") or {}).items():
            for held in several:
                if held.get("mark") is not None:
                    found.setdefault(symbol, Decimal(held["mark"]))
    return found


def cosines(embedder: Embedder, words: str, reasons: Mapping[str, str]) -> dict[str, float]:
    """How near the words of each decision are to the present ones."""
    if not reasons:
        return {}
    ids = sorted(reasons)
    vectors = embedder.embed([words, *(reasons[id_] for id_ in ids)])
    return {id_: float(vectors[n + 1] @ vectors[0]) for n, id_ in enumerate(ids)}
