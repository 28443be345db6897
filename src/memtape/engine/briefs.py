"""Briefs: made from one view, recorded when shown, made again byte for byte.

Reading never writes. That a brief was shown is recorded by `record_shown`, which keeps its text once by digest with what is
needed to make it again (as of when, by which heads of the log, for which question). Only what was shown reinforces a memory,
and a plan that a shown brief said fires has fired.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from memtape.core.brief.compose import BRIEF_TOKENS, PROMPT_VERSION, compose_brief
from memtape.core.codec import canonical, make_id, plain, read_time, time_text
from memtape.core.events import Event, PlanFired
from memtape.core.items import OWNER_STREAM, Item
from memtape.core.ledger.terms import RULES_VERSION
from memtape.core.memory.plans import changed_plan_state
from memtape.core.observed import ANY, DocumentRef, Situation
from memtape.core.values import read
from memtape.engine.arguments import require_name, require_row
from memtape.engine.brief_inputs import gather, last_reason
from memtape.engine.brief_question import NO_DOCUMENTS, AssembledBrief, BriefQuestion
from memtape.engine.documents.reader import DocumentReader
from memtape.engine.documents.rules import (
    documents_digest,
    documents_known,
    documents_now,
    documents_of_receipt,
    recorded_documents,
)
from memtape.engine.documents.rules_seen import rules_seen
from memtape.engine.view import open_view
from memtape.engine.view.owner_stream import agent_and_skill
from memtape.engine.write.log_writer import Receipt
from memtape.errors import Conflict, Invalid
from memtape.store.cutoff import EVERYTHING
from memtape.store.memories import MemoryTables
from memtape.store.tables import Tables

if TYPE_CHECKING:
    from memtape.core.brief.inputs import BriefInputs
    from memtape.core.skills import Skill
    from memtape.engine.brief_cache import BriefCache
    from memtape.engine.documents.rules import (
        DocumentsAndProblems,
    )
    from memtape.engine.scope import AgentScope
    from memtape.engine.view.view import View
    from memtape.engine.write.writer import Writer

RECALL_SEGMENTS, REINFORCED_KINDS = ("memory", "similar"), ("episode", "trade", "belief")
# Where a brief takes its documents from: the files of now; what was known at a past moment; the files of now with the passages
# of a receipt that is on nobody's record yet; the record of the brief that was shown.
DocumentSource = Literal["now", "then", "receipt", "record"]


class Briefs:
    """The briefs of one agent."""

    def __init__(self, scope: AgentScope, cache: BriefCache) -> None:
        self._scope, self._cache = scope, cache

    # ---- making ----------------------------------------------------------------------------------------------------

    def make(
        self, situation: Situation | Mapping[str, Any] | None = None, *, symbol: str | None = None, strategy: str | None = None,
        thesis: str | None = None, as_of: datetime | None = None, head: int | None = None, owner_head: int | None = None,
        budget: int = BRIEF_TOKENS, without_memory: bool = False, skill: Skill | None = None, documents: str | None = None,
    ) -> AssembledBrief:  # fmt: skip
        """The brief for the next decision. `skill` previews another version of the agent's skill.

        A past brief is made of the documents that it was shown with; `documents` says which, where two were shown alike.
        """
        for name, text in (("symbol", symbol), ("strategy", strategy), ("thesis", thesis)):
            if text is not None:
                require_name(name, text)
        require_row("budget", budget)
        asked: dict[str, Any] = {
            "situation": read(Situation, situation) if situation is not None else None, "symbol": symbol, "strategy": strategy,
            "thesis": thesis, "budget": budget, "without_memory": without_memory,
        }  # fmt: skip
        with self._scope.view(as_of, head, owner_head) as view:
            shown = _shown_at(view, as_of) if view.is_reproduction else []
            if view.is_reproduction and owner_head is None:
                view.limit_owner(_owner_head_then(view, shown[0] if shown else None))
            same = _shown_alike(shown, asked, documents)
            question = BriefQuestion(
                as_of=view.as_of, head=view.recorded_head or 0,
                owner_head=view.owner_head.seq if view.cutoff.owner_head is None else view.cutoff.owner_head,
                papers=None if same is None else same.get("papers"), **asked,
            )  # fmt: skip
            source: DocumentSource = "record" if same is not None else "now" if view.is_present else "then"
            assembled = self._assemble(view, question, skill, source)
        if skill is None:
            self._cache.put(assembled)
        return assembled

    def reproduce(self, receipt: str) -> AssembledBrief:
        """The brief of a receipt: from the cache, or made again; raises Conflict if it does not come out the same."""
        if (cached := self._cache.find(self._scope.agent.id, receipt)) is not None:
            return cached
        try:
            data = dict(json.loads(receipt))
            digest_ = str(data.pop("digest"))
        except (ValueError, TypeError, KeyError, RecursionError):
            raise Invalid("brief", "is not the receipt of a brief", "Give the `receipt` that get_brief returned") from None
        question = read(BriefQuestion, data, at="brief")
        scope = self._scope
        with scope.reading() as tables:
            owner_tables = Tables(tables.session, tables.owner, OWNER_STREAM)
            if question.head > tables.head().seq or question.owner_head > owner_tables.head().seq:
                raise Invalid("brief", "names log rows that are not there", "Give the `receipt` that get_brief returned")
            is_recorded = bool(tables.items("brief", EVERYTHING, keys=[digest_]))
            heads = question.as_of, question.head, question.owner_head
            with open_view(scope.resources, tables, scope.agent, *heads) as view:
                assembled = self._assemble(view, question, None, "record" if is_recorded else "receipt")
        if assembled.brief.digest != digest_:
            raise Conflict("brief", "this brief cannot be made again from the record", "Ask for a new one with get_brief")
        return assembled

    def _assemble(self, view: View, question: BriefQuestion, preview: Skill | None, source: DocumentSource) -> AssembledBrief:
        resources = self._scope.resources
        agent, stated, version = agent_and_skill(view)
        skill = preview or stated
        embedder = resources.embedder if skill.context.memory.similarSituations else None
        inputs = gather(view, question, agent, skill, version, embedder)
        documents, problems = self._documents(view, question, inputs, source)
        inputs = replace(inputs, rules=documents.rules, documents=documents.documents, rule_problems=documents.missing)
        count, counted_by = resources.tokens
        brief = compose_brief(
            inputs, budget=question.budget, without_memory=question.without_memory, count=count, counted_by=counted_by
        )
        cited = () if question.without_memory or not skill.context.memory.enabled else brief.citations
        memories = {one.source.id for one in cited if one.segment in RECALL_SEGMENTS and one.source.kind in REINFORCED_KINDS}
        shown_plans = {one.source.id for one in cited if one.source.kind == "plan"}
        firing = [
            plan.state.plan.id for plan in inputs.plans
            if plan.state.status == "active" and plan.finding == "fires" and plan.state.plan.id in shown_plans
        ]  # fmt: skip
        used_embedder = embedder.id if embedder else None
        config = make_id(canonical(skill), version, PROMPT_VERSION, counted_by, used_embedder, RULES_VERSION)
        passages = tuple(
            DocumentRef(path=one.path, start_line=one.start_line, end_line=one.end_line, content_hash=one.content_hash)
            for one in documents.documents
        )
        return AssembledBrief(
            agent=self._scope.agent.id, brief=replace(brief, warnings=(*brief.warnings, *problems)),
            question=replace(question, papers=documents_digest(documents), passages=passages), config=config,
            memories=tuple(sorted(memories)), firing=tuple(sorted(firing)), documents=documents,
            notes=inputs.notes,
        )  # fmt: skip

    def _documents(
        self, view: View, question: BriefQuestion, inputs: BriefInputs, source: DocumentSource
    ) -> DocumentsAndProblems:
        """What the documents say to the brief, and what is wrong with those that should say something."""
        if source == "then":
            return documents_known(view)
        if source == "record" or (source == "receipt" and question.papers is None):
            recorded = recorded_documents(view.tables, question.papers) if question.papers is not None else None
            return recorded or NO_DOCUMENTS, ()
        reader = DocumentReader(self._scope.resources, view.tables)
        symbol, situation = inputs.situation.symbol, inputs.situation
        thesis = question.thesis or last_reason(view, symbol)
        words = " ".join(word for word in (symbol, question.strategy, situation.regime, thesis) if word and word != ANY)
        if source == "receipt":
            return documents_of_receipt(reader, rules_seen(view.items), words, question.passages)
        wanted = inputs.skill.context.memory.enabled and not question.without_memory and bool(words)
        return documents_now(
            reader, rules_seen(view.items, reader.rules_recorded), words, symbol, passages=wanted,
            simulated=view.agent.mode == "sim",
        )  # fmt: skip

    # ---- what was shown ----------------------------------------------------------------------------------------------

    def record_shown(self, brief: AssembledBrief | str, *, decision: str | None = None, run: str | None = None) -> Receipt:
        """Record that a brief was put before the agent, for a decision or a run. Idempotent.

        `brief` is the brief, or its receipt: then it is made again, and refused if it does not come out the same.
        """
        assembled = self.reproduce(brief) if isinstance(brief, str) else brief
        if not isinstance(assembled, AssembledBrief):
            problem = f"is neither a brief nor a receipt, it is {type(brief).__name__}"
            raise Invalid("brief", problem, "Give what briefs.make returned")
        if assembled.agent != self._scope.agent.id:
            problem = f"was made for the agent '{assembled.agent}'"
            raise Invalid("brief", problem, f"Show {self._scope.agent.id} a brief of its own")
        with self._scope.writing() as tables:
            at = self._scope.stated_at(tables)
            return write_shown(self._scope.writer(tables), assembled, at, decision=decision, run=run)

    def shown(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The briefs that were shown, newest first: digest, when, for which decision."""
        with self._scope.view() as view:
            items = view.items("shown", newest=True, limit=limit)
        return [
            item.body | {"id": item.key, "known_at": time_text(item.known_at), "documents": item.body.get("papers")}
            for item in items
        ]

    def text(self, digest_: str) -> str | None:
        """The text of a brief that was shown."""
        with self._scope.view() as view:
            found = view.items("brief", keys=[digest_])
        return str(found[0].body["text"]) if found else None


def write_shown(writer: Writer, assembled: AssembledBrief, at: datetime, *, decision: str | None, run: str | None) -> Receipt:
    """Record that a brief was shown, in the transaction of a writer: its documents and text once, and what it was for."""
    tables, question, brief = writer.tables, assembled.question, assembled.brief
    key = make_id("shown", assembled.agent, brief.digest, decision or "", run or "", time_text(question.as_of), question.head)
    if earlier := tables.logged("shown", key):
        return Receipt(earlier.stream, earlier.seq, earlier.hash, (), duplicate=True)
    if question.papers and not tables.items("papers", EVERYTHING, keys=[question.papers]):
        writer.declare(Item("papers", question.papers, at, plain(assembled.documents)), at)
    if not tables.items("brief", EVERYTHING, keys=[brief.digest]):
        cited = sorted({one.source.id for one in brief.citations})
        writer.declare(Item("brief", brief.digest, at, {"text": brief.text, "cited": cited}), at)
    lines = Counter(one.source.id for one in brief.citations if one.source.kind in ("rule", "document"))
    body: dict[str, Any] = {
        "told": dict(sorted(lines.items())), "digest": brief.digest, **plain(question), "config": assembled.config,
        "decision": decision, "run": run, "memories": list(assembled.memories), "tokens": brief.tokens,
    }  # fmt: skip
    return writer.declare(Item("shown", key, at, body), at, _fire_shown_plans(tables, assembled, at))


def _fire_shown_plans(tables: Tables, assembled: AssembledBrief, at: datetime) -> list[Event]:
    """The plans that the brief said fire have fired, if they are still active."""
    memory_tables, events = MemoryTables(tables), list[Event]()
    for state in memory_tables.plans(("active",)):
        not_yet = state.fired_at is None or state.fired_at < assembled.question.as_of
        if state.plan.id in assembled.firing and not_yet:
            memory_tables.put_plans([changed_plan_state(state, "fired", at)])
            events.append(PlanFired(state.plan.id, at, state.plan.action))
    return events


def _shown_at(view: View, as_of: datetime | None) -> list[dict[str, Any]]:
    """The records of the briefs that were shown at the view's row of the log."""
    # They were recorded after that row, so the view's own cutoff does not show them.
    bodies = [dict(item.body) for item in view.tables.items("shown", EVERYTHING) if item.body["head"] == view.recorded_head]
    return [body for body in bodies if as_of is None or read_time(body["as_of"]) == as_of]


def _shown_alike(shown: Sequence[Mapping[str, Any]], asked: Mapping[str, Any], documents: str | None) -> Mapping[str, Any] | None:
    """The last brief shown that answered the same question, or the one with these documents."""
    wanted = {name: plain(value) for name, value in asked.items() if value is not None}
    same = [row for row in shown if {name: row[name] for name in asked if row.get(name) is not None} == wanted]
    return next((row for row in reversed(same) if documents in (None, row.get("papers"))), None)


def _owner_head_then(view: View, shown: Mapping[str, Any] | None) -> int:
    """The owner's head at the view's row: by a brief shown then, else by what was recorded before the agent's next row."""
    if shown is not None:
        return int(shown["owner_head"])
    head = view.recorded_head or 0
    following = next(iter(view.tables.log(after=head, upto=head + 1)), None)
    if following is None:
        return view.owner_head.seq
    return max((row.seq for row in view.owner_tables.log() if row.recorded_at <= following.recorded_at), default=0)
