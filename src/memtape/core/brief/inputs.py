"""The values of a brief: the text that a model reads before its next decision, in named segments, each line with its sources.

`BriefInputs` holds everything that a brief is made of, gathered by the engine as of one moment. `compose.compose_brief` turns it
into a `Brief` and reads nothing else, so the same inputs give the same bytes everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from decimal import Decimal
from typing import Literal

from memtape.core.brief.risk import RiskState
from memtape.core.calendar import CalendarEvent
from memtape.core.events import Discrepancy
from memtape.core.exposure import PositionExposure
from memtape.core.ledger.trades import Trade
from memtape.core.lessons.reflection import Lesson
from memtape.core.memory.episodes import Episode
from memtape.core.memory.outcome_units import Signal
from memtape.core.memory.plans import PlanState
from memtape.core.observed import Situation
from memtape.core.recall.query import Query
from memtape.core.recall.reference import Recalled
from memtape.core.recall.similar import SimilarDecision
from memtape.core.skills import Skill
from memtape.core.value_class import dataclass
from memtape.core.venue_coverage import VenueCoverage

Role = Literal["system", "user"]
WARN_TOKENS = 1_500


@dataclass(frozen=True, slots=True)
class SourceRef:
    """A source of a line: the record that supports it."""

    kind: str  # trade, lesson, rule, episode, belief, plan, event, decision, document, discrepancy
    id: str
    tier: int


@dataclass(frozen=True, slots=True)
class PinnedRule:
    """A pinned document, or a section of one: the owner's own words, always in context."""

    id: str
    title: str
    text: str
    path: str = ""
    start_line: int = 0
    end_line: int = 0
    content_hash: str = ""


RuleState = Literal["missing", "empty", "unreadable", "shortened"]


@dataclass(frozen=True, slots=True)
class RuleProblem:
    """A pinned document or section of which the agent does not get all that binds it."""

    path: str
    section: str | None = None
    state: RuleState = "missing"
    reason: str = ""  # "the file is not there"
    last_seen: datetime | None = None  # when it was last there whole; None: never
    lines_before: int = 0  # lines with words, when it was last there whole
    signs_before: int = 0  # signs without spaces

    @property
    def title(self) -> str:
        """The document, or the section with its document."""
        return self.path if self.section is None else f"{self.path} › {self.section}"


@dataclass(frozen=True, slots=True)
class OpenPosition:
    """An open trade with its unrealised result by the last known mark."""

    trade: Trade
    mark: Decimal | None
    unrealized_usd: Decimal | None


@dataclass(frozen=True, slots=True)
class BriefPlan:
    """A plan with its state, and what it does now: fires, holds or waits."""

    state: PlanState
    finding: str


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage of a document that is relevant to the decision."""

    id: str
    path: str
    start_line: int
    end_line: int
    snippet: str
    tier: int
    content_hash: str = ""
    quoted: str = ""  # the full text of the lines, by which they are found after an edit


@dataclass(frozen=True, slots=True)
class BriefDocuments:
    """What a brief takes from documents. Files can change without an entry in the log, so the shown text is recorded in full."""

    rules: tuple[PinnedRule, ...] = ()
    documents: tuple[Passage, ...] = ()
    missing: tuple[RuleProblem, ...] = ()  # pinned, and not there whole

    def __bool__(self) -> bool:
        return bool(self.rules or self.documents or self.missing)


@dataclass(frozen=True, slots=True)
class Conviction:
    """The latest conviction in an open decision."""

    decision: str
    score: int
    note: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class BriefInputs:
    """Everything that a brief is made of, as of one moment."""

    agent: str
    skill: Skill
    skill_version: int
    currency: str
    as_of: datetime
    situation: Situation
    risk: RiskState
    lessons: tuple[Lesson, ...] = ()  # of the agent's active reflection
    skill_lessons: tuple[Lesson, ...] = ()  # of the skill's active reflection, for all its agents
    rules: tuple[PinnedRule, ...] = ()
    rule_problems: tuple[RuleProblem, ...] = ()  # pinned, and not there whole
    recent: tuple[Trade, ...] = ()  # closed, newest entry first
    holding: tuple[OpenPosition, ...] = ()
    discrepancies: tuple[Discrepancy, ...] = ()  # of the last day
    coverage: VenueCoverage | None = None  # what the record of a followed account lacks
    recalled: Recalled | None = None
    # The trades of the signals that are remembered, where a signal has several.
    signal_trades: Mapping[Signal, tuple[Episode, ...]] = field(default_factory=dict)
    of_all_symbols: Recalled | None = None  # where too few trades of the symbol are known for a mean
    query: Query | None = None
    episodes_known: int = 0
    outcome_source: Literal["claimed", "verified"] = "verified"
    reasons: Mapping[str, str] = field(default_factory=dict)  # why the recalled trades were entered, by id
    plans: tuple[BriefPlan, ...] = ()  # active ones that fire or hold now
    notes: tuple[str, ...] = ()  # for the caller: what the question names and no memory has
    proposed_plans: int = 0  # a model's plans that wait for the owner's confirmation
    convictions: tuple[Conviction, ...] = ()
    events: tuple[CalendarEvent, ...] = ()  # ahead
    exposures: tuple[PositionExposure, ...] = ()  # of open positions, to these events
    documents: tuple[Passage, ...] = ()
    similar: tuple[SimilarDecision, ...] = ()


@dataclass(frozen=True, slots=True)
class Segment:
    """One named part of a brief; empty parts are omitted."""

    name: str
    role: Role
    text: str
    tokens: int
    left_out: int = 0  # lines that did not fit
    stable: bool = False  # changes only if a trade closes or somebody edits something


@dataclass(frozen=True, slots=True)
class LineSource:
    """A source of one line of the brief. `line` counts from 1 over the whole text."""

    segment: str
    line: int
    source: SourceRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """A composed brief: its text and how it was made."""

    text: str
    segments: tuple[Segment, ...]
    citations: tuple[LineSource, ...]
    tokens: int
    counted_by: str  # the tokenizer, or how the count was estimated
    digest: str  # sha256 of the text
    budget: int
    warnings: tuple[str, ...] = ()
    frame: tuple[str, str] = ("", "")  # the first and the last line around the records

    def of(self, role: Role) -> str:
        """Returns the part for one role as it is sent: the system segments, or the records between their two lines."""
        parts = [segment.text for segment in self.segments if segment.role == role]
        return "\n\n".join([self.frame[0], *parts, self.frame[1]] if role == "user" and parts else parts)

    @property
    def stable_records(self) -> str:
        """The beginning of the user part that stays the same from one tick to the next: up to the end of the recent trades."""
        stable = [segment.text for segment in self.segments if segment.role == "user" and segment.stable]
        return "\n\n".join([self.frame[0], *stable]) if stable else ""
