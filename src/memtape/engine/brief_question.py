"""The question that a brief answers, the brief with what is needed to make it again."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from memtape.core.brief.compose import BRIEF_TOKENS
from memtape.core.brief.inputs import Brief, BriefDocuments
from memtape.core.codec import canonical_plain, plain
from memtape.core.observed import DocumentRef, Situation
from memtape.core.value_class import dataclass
from memtape.core.values import STRICT, Key, Label, Line, Symbol, Time

MIN_BRIEF_TOKENS, MAX_BRIEF_TOKENS = 200, 32_000  # the budgets that may be asked for
NO_DOCUMENTS = BriefDocuments()
LogRowNumber = Annotated[int, Field(ge=0, le=2**53)]


@dataclass(frozen=True, slots=True, kw_only=True)
class BriefQuestion:
    """What a brief was asked for. With `as_of` and the heads it makes the same bytes again. Its fields are payload keys."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    as_of: Time
    head: LogRowNumber
    owner_head: LogRowNumber
    situation: Situation | None = None
    symbol: Symbol | None = None
    strategy: Label | None = None
    thesis: Line | None = None
    budget: Annotated[int, Field(ge=MIN_BRIEF_TOKENS, le=MAX_BRIEF_TOKENS)] = BRIEF_TOKENS
    without_memory: bool = False
    # The key under which the documents that it used are recorded when it is shown. Log and receipts call it so.
    papers: Key | None = None
    passages: Annotated[tuple[DocumentRef, ...], Field(max_length=16)] = ()  # the lines among them, to be found again


@dataclass(frozen=True, slots=True)
class AssembledBrief:
    """A brief, and the question it answers."""

    agent: str
    brief: Brief
    question: BriefQuestion
    config: str  # hash of skill, versions of skill, prompt and rules, tokenizer and embedder: what else the bytes depend on
    memories: tuple[str, ...]  # ids of the memories that it puts before the agent
    firing: tuple[str, ...]  # ids of the active plans that it says fire now
    documents: BriefDocuments = NO_DOCUMENTS
    notes: tuple[str, ...] = ()  # what the question names and no memory has

    @property
    def receipt(self) -> str:
        """What must be given to record that it was shown, in one line."""
        return canonical_plain({"digest": self.brief.digest, **plain(self.question)})
