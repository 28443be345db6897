"""Facts about the owner: what the log says of them, and which stand before an agent: at most ten.

`fold_facts` makes the facts from the items of the owner's stream: a `fact`, and later items that edit, promote, demote, archive
or restore it, or say that it was shown or referred to. `choose_facts` chooses: the steady ones are those last referred to, stated
facts before inferred ones. Where there are more than ten, two places rotate, so that a fact that is never referred to still comes
up again. Being shown is not being referred to.

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
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from memtape.core.brief.sanitize import clean_line
from memtape.core.codec import EPOCH
from memtape.core.items import StoredItem
from memtape.core.value_class import dataclass
from memtape.core.values import clean_text

FactSource = Literal["chat", "profile", "inferred"]  # from a conversation, entered by the owner, concluded from behaviour
Confidence = Literal["asserted", "inferred"]
ArchiveReason = Literal["user_deleted", "user_corrected", "agent_forget"]

MIN_FACT_CHARS, MAX_FACT_CHARS, MAX_TOPIC_CHARS = 4, 500, 40
MAX_FACTS = 10
STEADY_FACTS = 8  # places that do not rotate when there are more than MAX_FACTS
STALE_AFTER = timedelta(days=60)
FACTS_HEADING = "## What I know about you"
# The items of the owner's stream that make facts. The first two contain their words; the last two name several facts each.
FACT_TEXT_KINDS = ("fact", "fact_edited")
FACT_CHANGES = ("fact_promoted", "fact_demoted", "fact_archived", "fact_restored")
FACT_KINDS = (*FACT_TEXT_KINDS, *FACT_CHANGES, "facts_referenced", "facts_shown")


def _one_line(value: object) -> object:
    """A fact is one line: line breaks and runs of blanks in what somebody typed become one blank."""
    return " ".join(value.split()) if isinstance(value, str) else value


def _visible(value: object) -> object:
    """Characters that show nothing do not make a text long enough."""
    flat = _one_line(value)
    if isinstance(flat, str) and len(clean_line(flat)) < MIN_FACT_CHARS <= len(flat):
        raise ValueError(f"should have at least {MIN_FACT_CHARS} visible characters; write what is known in a few words")
    return flat


# The limits come right after `str`, so that a refusal speaks of characters.
_CLEAN = AfterValidator(clean_text)
FactText = Annotated[str, Field(min_length=MIN_FACT_CHARS, max_length=MAX_FACT_CHARS), _CLEAN, BeforeValidator(_visible)]
Topic = Annotated[str, Field(min_length=1, max_length=MAX_TOPIC_CHARS), _CLEAN, BeforeValidator(_one_line)]
TopicOrNone = Annotated[str, Field(max_length=MAX_TOPIC_CHARS), _CLEAN, BeforeValidator(_one_line)]  # empty: no topic


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Something known about the owner."""

    id: str
    text: str
    asserted: bool  # the owner said so; False: it was inferred
    created: datetime
    topic: str | None = None
    source: FactSource = "chat"
    skill: str | None = None  # None: it holds for every skill
    last_referenced: datetime | None = None
    archived: datetime | None = None
    archived_reason: ArchiveReason | None = None
    shown: tuple[datetime, ...] = ()  # in any order
    times_referenced: int = 0

    @property
    def confidence(self) -> Confidence:
        """Who says so: the owner (asserted), or somebody who concluded it (inferred)."""
        return "asserted" if self.asserted else "inferred"

    def referenced_by(self, now: datetime) -> datetime:
        """Returns when it was last referred to, as known at a moment; a fact that never was counts from its creation."""
        return self.last_referenced if self.last_referenced is not None and self.last_referenced <= now else self.created

    def is_stale(self, now: datetime) -> bool:
        """Returns True if nobody has referred to it for so long that it may be out of date."""
        return now - self.referenced_by(now) >= STALE_AFTER


@dataclass(frozen=True, slots=True)
class FactChoice:
    """The facts that an agent is shown, as values and as text, and the ids of those that may be out of date."""

    chosen: tuple[Fact, ...]
    block: str
    stale: tuple[str, ...]  # of all eligible facts, chosen or not


def fold_facts(items: Iterable[StoredItem], as_of: datetime | None = None) -> list[Fact]:
    """Returns the facts that items of the owner's stream make, in the order of their creation, as known at a moment.

    The items may come in any order: each has its place in the log. A change of a fact that is not there, because its text was
    destroyed, says nothing.
    """
    fields: dict[str, dict[str, Any]] = {}
    known = items if as_of is None else [item for item in items if item.known_at <= as_of]
    for item in sorted(known, key=_log_place):
        if item.kind == "fact":
            fields[item.key] = _new_fact(item)
        elif item.kind in ("facts_shown", "facts_referenced"):
            for id_ in item.body["facts"]:
                if (fact := fields.get(id_)) is not None:
                    _count(fact, item)
        elif (fact := fields.get(item.body["fact"])) is not None:
            _change(fact, item)
    for fact in fields.values():
        fact["shown"] = tuple(fact["shown"])
    return [Fact(**fact) for fact in fields.values()]


_log_place = attrgetter("seq")


def _new_fact(item: StoredItem) -> dict[str, Any]:
    body = item.body
    return {
        "id": item.key, "text": body["text"], "topic": body.get("topic"), "source": body["source"], "skill": body.get("skill"),
        "asserted": body["confidence"] == "asserted", "created": item.at, "shown": [], "times_referenced": 0,
    }  # fmt: skip


def _count(fact: dict[str, Any], item: StoredItem) -> None:
    """A fact was shown, or referred to: counted apart."""
    if item.kind == "facts_shown":
        fact["shown"].append(item.at)
        return
    fact["times_referenced"] += 1
    last = fact.get("last_referenced")
    fact["last_referenced"] = item.at if last is None else max(last, item.at)


def _change(fact: dict[str, Any], item: StoredItem) -> None:
    match item.kind:
        case "fact_edited":
            # An edit states the whole: what it leaves out, the fact has not got any more.
            fact |= {"text": item.body["text"], "topic": item.body.get("topic"), "skill": item.body.get("skill")}
        case "fact_promoted" | "fact_demoted":
            fact["asserted"] = item.kind == "fact_promoted"
        case "fact_archived":
            fact |= {"archived": item.at, "archived_reason": item.body["reason"]}
        case "fact_restored":
            fact |= {"archived": None, "archived_reason": None}


def choose_facts(facts: Iterable[Fact], now: datetime, focus_skill: str | None = None) -> FactChoice:
    """Returns the facts to show at a moment, to an agent of a skill."""
    eligible = _in_steady_order((fact for fact in facts if is_eligible(fact, now, focus_skill)), now)
    chosen = eligible
    if len(eligible) > MAX_FACTS:
        rotating = sorted(eligible[STEADY_FACTS:], key=lambda fact: _rotation_order(fact, now))
        chosen = [*eligible[:STEADY_FACTS], *rotating[: MAX_FACTS - STEADY_FACTS]]
    stale = sorted(fact.id for fact in eligible if fact.is_stale(now))
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


def _in_steady_order(facts: Iterable[Fact], now: datetime) -> list[Fact]:
    """Asserted before inferred, then the latest reference, then the latest creation, then by id."""
    ordered = sorted(facts, key=lambda fact: fact.id)
    # Sorting is stable, also in reverse: each sort keeps the order of the one before among equals.
    ordered.sort(key=lambda fact: (fact.referenced_by(now), fact.created), reverse=True)
    ordered.sort(key=lambda fact: not fact.asserted)
    return ordered


def _rotation_order(fact: Fact, now: datetime) -> tuple[Any, ...]:
    """The fact that was not seen for the longest time comes first; before it, those that were never shown."""
    shown = [moment for moment in fact.shown if moment <= now]
    return bool(shown), max(shown, default=EPOCH), len(shown), fact.created, fact.id
