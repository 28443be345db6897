"""Facts about the owner, and which of them stand before an agent: at most ten.

The steady ones are those last referred to, stated facts before inferred ones. Where there are more than ten, two places rotate,
so that a fact that is never referred to still comes up again. Being shown is not being referred to.

>>> from datetime import UTC, datetime
>>> now = datetime(2026, 7, 1, 8, tzinfo=UTC)
>>> style = Fact(id="f1", text="You seem to favour mean reversion.", topic="style", asserted=False, created=now)
>>> hours = Fact(id="f2", text="You trade gold in\\nLondon hours.", topic="hours", asserted=True, created=now.replace(month=4))
>>> choice = choose_facts([style, hours], now)
>>> print(choice.block)
## What I know about you
- [hours] You trade gold in London hours.
- [style] You seem to favour mean reversion. (inferred)
>>> choice.stale
('f2',)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from memtape.core.codec import micros

MAX_FACTS = 10
STEADY_FACTS = 8  # places that do not rotate when there are more than MAX_FACTS
STALE_AFTER = timedelta(days=60)
FACTS_HEADING = "## What I know about you"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Something known about the owner."""

    id: str
    text: str
    asserted: bool  # the owner said so; False: it was inferred
    created: datetime
    topic: str | None = None
    skill: str | None = None  # None: it holds for every skill
    last_referenced: datetime | None = None
    archived: datetime | None = None
    shown: tuple[datetime, ...] = ()  # in any order

    def referenced_by(self, now: datetime) -> datetime:
        """Returns when it was last referred to, as known at a moment; a fact that never was counts from its creation."""
        return self.last_referenced if self.last_referenced is not None and self.last_referenced <= now else self.created


@dataclass(frozen=True, slots=True)
class FactChoice:
    """The facts that an agent is shown, as values and as text, and the ids of those that may be out of date."""

    chosen: tuple[Fact, ...]
    block: str
    stale: tuple[str, ...]  # of all eligible facts, chosen or not


def choose_facts(facts: Iterable[Fact], now: datetime, focus_skill: str | None = None) -> FactChoice:
    """Returns the facts to show at a moment, to an agent of a skill."""
    eligible = sorted((fact for fact in facts if is_eligible(fact, now, focus_skill)), key=lambda fact: _steady_order(fact, now))
    chosen = eligible
    if len(eligible) > MAX_FACTS:
        rotating = sorted(eligible[STEADY_FACTS:], key=lambda fact: _rotation_order(fact, now))
        chosen = [*eligible[:STEADY_FACTS], *rotating[: MAX_FACTS - STEADY_FACTS]]
    stale = sorted(fact.id for fact in eligible if now - fact.referenced_by(now) >= STALE_AFTER)
    return FactChoice(tuple(chosen), facts_block(chosen), tuple(stale))


def is_eligible(fact: Fact, now: datetime, focus_skill: str | None) -> bool:
    """Returns True if a fact is known, not archived by then, and not of another skill."""
    archived = fact.archived is not None and fact.archived <= now
    return fact.created <= now and not archived and (not fact.skill or fact.skill == focus_skill)


def facts_block(facts: Sequence[Fact]) -> str:
    """Returns facts as a section of a prompt, a line each; no fact, no section."""
    return "\n".join([FACTS_HEADING, *map(fact_line, facts)]) if facts else ""


def fact_line(fact: Fact) -> str:
    """Returns a fact as one line. White space is collapsed, so that no text can begin a line of its own."""
    topic = " ".join((fact.topic or "").split())
    parts = ("-", f"[{topic}]" if topic else "", " ".join(fact.text.split()), "" if fact.asserted else "(inferred)")
    return " ".join(part for part in parts if part)


def _steady_order(fact: Fact, now: datetime) -> tuple[Any, ...]:
    return not fact.asserted, -micros(fact.referenced_by(now)), -micros(fact.created), fact.id


def _rotation_order(fact: Fact, now: datetime) -> tuple[Any, ...]:
    """The fact that was not seen for the longest time comes first; before it, those that were never shown."""
    shown = [moment for moment in fact.shown if moment <= now]
    return bool(shown), max(map(micros, shown), default=0), len(shown), micros(fact.created), fact.id
