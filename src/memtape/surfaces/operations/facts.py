"""Operations on facts about the owner. A model may remember and forget; there is no operation by which a model recalls them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from memtape.core.facts import ArchiveReason, Confidence, Fact, FactText, Topic, TopicOrNone
from memtape.core.values import Key, Line, Slug
from memtape.surfaces.answer_models import Answer
from memtape.surfaces.answers import optional_time_text
from memtape.surfaces.questions import Ask, OfOwner
from memtape.surfaces.registry import operation

if TYPE_CHECKING:
    from memtape.engine import Memory
    from memtape.surfaces.caller import Caller


class Remember(Ask):
    """A fact about the owner."""

    fact: Annotated[FactText, Field(description="one sentence about the owner, 4 to 500 characters")]
    topic: Annotated[Topic | None, Field(description="short tag: risk, symbols, session, goal, ...")] = None
    confidence: Annotated[Confidence, Field(description="asserted: the owner said so (quote it); else inferred")] = "inferred"
    quote: Annotated[Line | None, Field(description="the owner's own words, verbatim, if asserted")] = None
    skill: Annotated[Slug | None, Field(description="it holds only for this skill; default: for all")] = None


class RememberAnswer(Answer):
    """The fact as it is stored."""

    id: Annotated[str, Field(description="its id, for forget")]
    fact: Annotated[str, Field(description="its text")]
    confidence: Annotated[str, Field(description="asserted or inferred, as stored")]
    note: Annotated[str, Field(description="why it is stored as less sure than asked; empty: as asked")]


@operation(writes=True, tools={"coach"})
def remember(memory: Memory, ask: Remember, caller: Caller) -> RememberAnswer:
    """Remember a fact about the owner that will matter in later chats. One that says the same is not stored twice.

    Over MCP it is stored as inferred; only the owner can assert it.
    """
    found = memory.facts.remember(
        ask.fact, topic=ask.topic, skill=ask.skill, confidence=ask.confidence, quote=ask.quote,
        author=caller.role, chat=caller.chat,
    )  # fmt: skip
    return RememberAnswer(id=found.fact.id, fact=found.fact.text, confidence=found.fact.confidence, note=found.note)


class Forget(Ask):
    """Which fact to forget."""

    fact_id: Annotated[Key, Field(description="id of the fact")]
    reason: Annotated[ArchiveReason, Field(description="user_corrected: the owner contradicts it")] = "agent_forget"
    shred: Annotated[bool, Field(description="destroy its text for good; owner only")] = False


class ForgetAnswer(Answer):
    """What became of the fact."""

    id: Annotated[str, Field(description="the fact")]
    archived_at: Annotated[str | None, Field(description="UTC; null: it was destroyed")]
    archived_reason: Annotated[str | None, Field(description="why; null: it was destroyed")]
    log_rows: Annotated[int, Field(description="destroyed rows; their hashes stay and still verify")]


@operation(writes=True, tools={"coach"})
def forget(memory: Memory, ask: Forget, caller: Caller) -> ForgetAnswer:
    """Archive a fact that the owner corrects or contradicts: it is shown no more. The owner can restore it.

    A fact that the owner asserted goes only if the owner says so.
    """
    if ask.shred:
        caller.require_owner("destroy the text of a fact")
        return ForgetAnswer(id=ask.fact_id, archived_at=None, archived_reason=None, log_rows=memory.facts.shred(ask.fact_id))
    fact = memory.facts.archive(ask.fact_id, ask.reason, author=caller.role, chat=caller.chat)
    return ForgetAnswer(
        id=fact.id, archived_at=optional_time_text(fact.archived), archived_reason=fact.archived_reason, log_rows=0
    )


class ListFacts(OfOwner):
    """Which facts."""

    archived: Annotated[bool, Field(description="also those that are archived")] = False


class FactRow(Answer):
    """A fact about the owner."""

    id: Annotated[str, Field(description="its id")]
    fact: Annotated[str, Field(description="its text")]
    topic: Annotated[str | None, Field(description="short tag")]
    source: Annotated[str, Field(description="chat, profile (entered by the owner) or inferred (from behaviour)")]
    confidence: Annotated[str, Field(description="asserted by the owner, or inferred")]
    skill: Annotated[str | None, Field(description="the skill for which it holds; null: for all")]
    last_referenced_at: Annotated[str | None, Field(description="UTC; when it was last used or stated again")]
    referenced: Annotated[int, Field(description="how often it was used or stated again")]
    shown: Annotated[int, Field(description="in how many chats it was shown")]
    created_at: Annotated[str, Field(description="UTC")]
    archived_at: Annotated[str | None, Field(description="UTC; null: in force")]
    archived_reason: Annotated[str | None, Field(description="user_deleted, user_corrected or agent_forget")]
    stale: Annotated[bool, Field(description="true: not referred to for 60 days, it may be out of date")]


class FactList(Answer):
    """Facts about the owner."""

    facts: Annotated[list[FactRow], Field(description="the last referred to first; archived ones last")]
    n: Annotated[int, Field(description="how many")]


class FactAnswer(Answer):
    """One fact about the owner."""

    fact: Annotated[FactRow, Field(description="the fact")]


def fact_row(fact: Fact, now: datetime) -> FactRow:
    """The answer row of a fact."""
    return FactRow(
        id=fact.id, fact=fact.text, topic=fact.topic, source=fact.source, confidence=fact.confidence, skill=fact.skill,
        last_referenced_at=optional_time_text(fact.last_referenced), referenced=fact.times_referenced, shown=len(fact.shown),
        created_at=optional_time_text(fact.created) or "", archived_at=optional_time_text(fact.archived),
        archived_reason=fact.archived_reason, stale=fact.archived is None and fact.is_stale(now),
    )  # fmt: skip


@operation(
    writes=False,
    columns=("id", "topic", "confidence", "created_at", "fact", "archived_reason"),
)  # fmt: skip
def list_facts(memory: Memory, ask: ListFacts, caller: Caller) -> FactList:
    """List what is known about the owner, now or at a past moment. Owner only: a chat is shown a choice of them."""
    now = ask.as_of or memory.clock.now()
    found = [fact for fact in memory.facts.all(ask.cutoff) if ask.archived or fact.archived is None]
    found.sort(key=lambda fact: (fact.referenced_by(now), fact.created, fact.id), reverse=True)
    found.sort(key=lambda fact: fact.archived is not None)
    return FactList(facts=[fact_row(fact, now) for fact in found], n=len(found))


class NameFact(Ask):
    """Which fact."""

    fact_id: Annotated[Key, Field(description="id of the fact")]


SlugOrNone = Annotated[str, Field(pattern=r"^([a-z0-9][a-z0-9._-]{0,63})?$")]


class EditFact(NameFact):
    """A fact and what to change of it."""

    fact: Annotated[FactText | None, Field(description="its new text, 4 to 500 characters")] = None
    topic: Annotated[TopicOrNone | None, Field(description="its new topic; empty: none")] = None
    skill: Annotated[SlugOrNone | None, Field(description="the only skill for which it holds; empty: all")] = None


@operation(writes=True)
def edit_fact(memory: Memory, ask: EditFact, caller: Caller) -> FactAnswer:
    """Change the text, topic or skill of a fact; what it said before stays on record. Owner only."""
    return _answer(memory, memory.facts.edit(ask.fact_id, text=ask.fact, topic=ask.topic, skill=ask.skill))


@operation(writes=True)
def restore_fact(memory: Memory, ask: NameFact, caller: Caller) -> FactAnswer:
    """Bring an archived fact back. Owner only."""
    return _answer(memory, memory.facts.restore(ask.fact_id))


@operation(writes=True)
def promote_fact(memory: Memory, ask: NameFact, caller: Caller) -> FactAnswer:
    """Mark a fact as asserted: the owner says so. Owner only."""
    return _answer(memory, memory.facts.promote(ask.fact_id))


@operation(writes=True)
def demote_fact(memory: Memory, ask: NameFact, caller: Caller) -> FactAnswer:
    """Mark a fact as inferred: a guess, not something that the owner said. Owner only."""
    return _answer(memory, memory.facts.demote(ask.fact_id))


def _answer(memory: Memory, fact: Fact) -> FactAnswer:
    return FactAnswer(fact=fact_row(fact, memory.clock.now()))
