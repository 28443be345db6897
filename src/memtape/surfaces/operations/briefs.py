"""Operations on briefs: what an agent is shown before a decision, and the record of what it was shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import AliasChoices, Field

from memtape.core.brief.compose import BRIEF_TOKENS
from memtape.core.brief.inputs import WARN_TOKENS
from memtape.core.brief.sections import FROM_MEMORY
from memtape.core.observed import Situation
from memtape.core.skills import MemoryConfig
from memtape.core.values import Key, Label, Line, Symbol
from memtape.engine.brief_question import MAX_BRIEF_TOKENS, MIN_BRIEF_TOKENS
from memtape.engine.coach import is_coach_receipt
from memtape.errors import Unknown
from memtape.surfaces.answer_models import Answer, SparseAnswer
from memtape.surfaces.answers import ReceiptAnswer, optional_time_text, receipt_answer
from memtape.surfaces.questions import AsOf, OfAgent, agent_of
from memtape.surfaces.registry import operation

if TYPE_CHECKING:
    from memtape.engine import Memory
    from memtape.engine.brief_question import AssembledBrief
    from memtape.surfaces.caller import Caller


class GetBrief(AsOf):
    """What the brief is for."""

    context: Annotated[Situation | None, Field(validation_alias=AliasChoices("context", "situation"),
                       description="the situation; missing fields come from bars and the agent's state")] = None  # fmt: skip
    symbol: Annotated[Symbol | None, Field(description="what the decision is about; default: the last symbol decided on")] = None
    strategy: Annotated[Label | None, Field(validation_alias=AliasChoices("strategy", "strategy_name"),
                        description="only memories of this strategy")] = None  # fmt: skip
    thesis: Annotated[Line | None, Field(description="what you consider, in words: finds similar decisions")] = None
    budget: Annotated[
        int,
        Field(
            ge=MIN_BRIEF_TOKENS, le=MAX_BRIEF_TOKENS, description="maximum tokens; what does not fit is left out in a fixed order"
        ),
    ] = BRIEF_TOKENS
    without_memory: Annotated[bool, Field(description="leave out everything from memory, for comparison")] = False
    owner_head: Annotated[int | None, Field(ge=0, le=2**53, description="with head: as of this row of the owner's log")] = None
    documents: Annotated[Key | None, Field(description="with head: the brief with these documents")] = None


class SegmentRow(Answer):
    """One part of a brief."""

    name: Annotated[str, Field(description="header, limits, strategy, lessons, footer, rules, recent_trades, ...")]
    role: Annotated[str, Field(description="system or user")]
    text: Annotated[str, Field(description="its text")]
    tokens: Annotated[int, Field(description="tokens, counted as counted_by says")]
    left_out: Annotated[int, Field(description="lines left out")]


class CitationRow(Answer):
    """The source of one line."""

    segment: Annotated[str, Field(description="its segment")]
    line: Annotated[int, Field(description="line number in the whole text, from 1")]
    kind: Annotated[str, Field(description="trade, lesson, rule, episode, belief, plan, event, ...")]
    id: Annotated[str, Field(description="its id")]
    tier: Annotated[int, Field(description="0 the venue, 1 your records, 2 computed, 3 agent or model, 4 external")]


class BriefAnswer(Answer):
    """A brief."""

    agent: Annotated[str, Field(description="the agent")]
    as_of: Annotated[str, Field(description="UTC; contains only what was known then")]
    head: Annotated[int, Field(description="last log row it uses")]
    owner_head: Annotated[int, Field(description="last row of the owner's log it uses; both heads reproduce it")]
    text: Annotated[str, Field(description="the brief, system part first")]
    segments: Annotated[list[SegmentRow], Field(description="its parts in order; empty ones are omitted")]
    citations: Annotated[list[CitationRow], Field(description="the source of each line")]
    tokens: Annotated[int, Field(description="of the whole text")]
    counted_by: Annotated[str, Field(description="tokenizer, or how tokens were estimated")]
    digest: Annotated[str, Field(description="SHA-256 of the text")]
    warnings: Annotated[list[str], Field(description="about the brief itself: budget, length")]
    notes: Annotated[list[str], Field(description="what you asked for and no memory has, with what exists", default_factory=list)]
    receipt: Annotated[str, Field(description="pass it as `brief` with your decision: records that you were shown this")]


def brief_answer(agent: str, made: AssembledBrief) -> BriefAnswer:
    """The answer of a brief."""
    brief = made.brief
    return BriefAnswer(
        agent=agent, as_of=optional_time_text(made.question.as_of) or "", head=made.question.head,
        owner_head=made.question.owner_head, text=brief.text,
        segments=[SegmentRow(name=s.name, role=s.role, text=s.text, tokens=s.tokens, left_out=s.left_out)
                  for s in brief.segments],
        citations=[CitationRow(segment=c.segment, line=c.line, kind=c.source.kind, id=c.source.id, tier=c.source.tier)
                   for c in brief.citations],
        tokens=brief.tokens, counted_by=brief.counted_by, digest=brief.digest, warnings=list(brief.warnings),
        notes=list(made.notes), receipt=made.receipt,
    )  # fmt: skip


@operation(
    writes=False,
    tools={"trader"},
    columns={"segments": ("name", "role", "tokens", "left_out"), "citations": ("line", "segment", "kind", "id", "tier")},
)
def get_brief(memory: Memory, ask: GetBrief, caller: Caller) -> BriefAnswer:
    """Get your brief for the next decision: rules, lessons, recent trades, open positions, risk, and what memory knows.

    `text` is the brief; give `receipt` to record_decision as `brief`. A past brief is made again with its as_of and head.
    """
    handle = agent_of(memory, ask)
    made = handle.briefs.make(
        ask.context, symbol=ask.symbol, strategy=ask.strategy, thesis=ask.thesis, as_of=ask.as_of, head=ask.head,
        owner_head=ask.owner_head, budget=ask.budget, without_memory=ask.without_memory, documents=ask.documents,
    )  # fmt: skip
    return brief_answer(handle.agent.id, made)


class RecordShown(OfAgent):
    """Which brief was shown."""

    brief: Annotated[str, Field(min_length=2, max_length=8_000, description="receipt from get_brief, or of the prompt coach")]
    decision: Annotated[Key | None, Field(description="id of the decision based on it")] = None
    run: Annotated[Key | None, Field(description="id of the run")] = None


@operation(writes=True)
def record_shown(memory: Memory, ask: RecordShown, caller: Caller) -> ReceiptAnswer:
    """Record that the agent was shown a brief, or the coach its prompt. Only what was shown reinforces memories."""
    if is_coach_receipt(ask.brief):
        # The facts in it belong to the owner, not to an agent.
        return receipt_answer(memory.coach.record_shown(ask.brief))
    handle = memory.agent_for_writing(ask.agent)
    return receipt_answer(handle.briefs.record_shown(ask.brief, decision=ask.decision, run=ask.run))


class ListShown(OfAgent):
    """How many."""

    limit: Annotated[int, Field(ge=1, le=1000, description="how many, newest first")] = 50


class ShownRow(SparseAnswer):
    """A shown brief, with what reproduces it."""

    id: Annotated[str, Field(description="its id")]
    digest: Annotated[str, Field(description="SHA-256 of the text")]
    known_at: Annotated[str | None, Field(description="UTC; when it was recorded", default_factory=str)]
    as_of: Annotated[str, Field(description="UTC", default_factory=str)]
    head: Annotated[int, Field(description="last log row it uses", default_factory=int)]
    owner_head: Annotated[int, Field(description="last row of the owner's log it uses", default_factory=int)]
    budget: Annotated[int, Field(description="maximum tokens", default_factory=int)]
    tokens: Annotated[int, Field(description="its tokens", default_factory=int)]
    symbol: Annotated[str | None, Field(description="what it was for", default_factory=str)]
    decision: Annotated[str | None, Field(description="the decision based on it", default_factory=str)]
    run: Annotated[str | None, Field(description="the run", default_factory=str)]
    documents: Annotated[str | None, Field(description="the documents it contains, as a hash", default_factory=str)]


class ShownList(Answer):
    """Shown briefs."""

    agent: Annotated[str, Field(description="the agent")]
    shown: Annotated[list[ShownRow], Field(description="shown briefs")]
    n: Annotated[int, Field(description="how many")]


@operation(writes=False, columns=("digest", "known_at", "as_of", "head", "symbol", "tokens", "decision", "run"))
def list_shown_briefs(memory: Memory, ask: ListShown, caller: Caller) -> ShownList:
    """List the briefs an agent was shown, newest first, with what reproduces each."""
    handle = agent_of(memory, ask)
    found = [ShownRow(**shown) for shown in handle.briefs.shown(ask.limit)]
    return ShownList(agent=handle.agent.id, shown=found, n=len(found))


class ShownBrief(OfAgent):
    """Which brief."""

    digest: Annotated[Key, Field(description="its digest")]


class ShownText(Answer):
    """A brief as it was shown."""

    agent: Annotated[str, Field(description="the agent")]
    digest: Annotated[str, Field(description="SHA-256 of the text")]
    text: Annotated[str, Field(description="the exact text")]


@operation(writes=False)
def get_shown_brief(memory: Memory, ask: ShownBrief, caller: Caller) -> ShownText:
    """Get the exact text of a brief that an agent was shown."""
    handle = agent_of(memory, ask)
    text = handle.briefs.text(ask.digest)
    if text is None:
        raise Unknown("digest", "shown brief", ask.digest, "List them with list_shown_briefs")
    return ShownText(agent=handle.agent.id, digest=ask.digest, text=text)


class PreviewBrief(GetBrief):
    """A brief with another memory configuration."""

    memory: Annotated[
        MemoryConfig | None, Field(description="the skill's memory configuration to try; default: the current one")
    ] = None


class PreviewAnswer(BriefAnswer):
    """The brief an agent would see, and how much of it comes from memory."""

    memory_tokens: Annotated[int, Field(description="tokens from memory")]
    threshold: Annotated[int, Field(description="tokens above which a warning is given")]
    past_threshold: Annotated[bool, Field(description="true: the brief is above it")]


@operation(
    writes=False,
    columns={"segments": ("name", "role", "tokens", "left_out"), "citations": ("line", "segment", "kind", "id", "tier")},
)
def preview_brief(memory: Memory, ask: PreviewBrief, caller: Caller) -> PreviewAnswer:
    """Preview the brief, also with another memory configuration of the skill, with tokens per segment."""
    handle = agent_of(memory, ask)
    skill, _ = memory.skill_of(handle.agent)
    made = handle.briefs.make(
        ask.context, symbol=ask.symbol, strategy=ask.strategy, thesis=ask.thesis, as_of=ask.as_of, head=ask.head,
        owner_head=ask.owner_head, budget=ask.budget, without_memory=ask.without_memory, documents=ask.documents,
        skill=None if ask.memory is None else skill.with_memory(ask.memory),
    )  # fmt: skip
    brief = brief_answer(handle.agent.id, made)
    return PreviewAnswer(
        **brief.model_dump(), memory_tokens=sum(s.tokens for s in made.brief.segments if s.name in FROM_MEMORY),
        threshold=WARN_TOKENS, past_threshold=made.brief.tokens > WARN_TOKENS,
    )  # fmt: skip
