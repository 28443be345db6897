"""Facts about the owner: remembered, corrected, archived and restored; every change is an item of the owner's stream.

>>> import memtape
>>> memory = memtape.open(":memory:")
>>> first = memory.facts.remember("I never trade alts.", topic="symbols", confidence="asserted")
>>> again = memory.facts.remember("You never trade alts")
>>> again.fact.id == first.fact.id, again.new
(True, False)
>>> [fact.text for fact in memory.facts.all()]
['I never trade alts.']
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from memtape.core.chat_guard import Author, ChatGuard, FactVerdict, judge_fact, may_archive
from memtape.core.codec import make_id
from memtape.core.fact_wording import find_same_fact
from memtape.core.facts import (
    FACT_TEXT_KINDS,
    ArchiveReason,
    Confidence,
    Fact,
    FactChoice,
    FactSource,
    FactText,
    Topic,
    choose_facts,
)
from memtape.core.items import OWNER_STREAM
from memtape.core.value_class import dataclass
from memtape.core.values import Slug, read
from memtape.engine.owner_statements import record_statement
from memtape.engine.resources import Resources
from memtape.engine.view.facts import fact_named, owner_facts
from memtape.engine.view.owner_stream import skill_versions, unknown_skill
from memtape.engine.write.log_writer import Receipt
from memtape.errors import Conflict
from memtape.store.cutoff import EVERYTHING, Cutoff
from memtape.store.tables import Tables

# A fact that is stated again counts as referred to, unless it is the same call made twice.
RESTATED_AFTER = timedelta(minutes=10)
OWNERS_REASONS = ("user_deleted", "user_corrected")


@dataclass(frozen=True, slots=True)
class RememberedFact:
    """A fact as it is stored now."""

    fact: Fact
    new: bool  # False: a fact that says the same was there
    note: str = ""  # what the caller should know: why it is stored as less sure than wanted


class Facts:
    """What is known about the owner."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources

    # ---- reading -----------------------------------------------------------------------------------------------------

    def all(self, cutoff: Cutoff = EVERYTHING) -> list[Fact]:
        """Every fact, archived ones included, in the order of their creation."""
        with self._resources.reading(OWNER_STREAM) as tables:
            return owner_facts(tables, cutoff)

    def get(self, id: str, cutoff: Cutoff = EVERYTHING) -> Fact:
        """One fact; raises Unknown if there is none."""
        with self._resources.reading(OWNER_STREAM) as tables:
            return fact_named(tables, id, cutoff)

    def choose(self, focus_skill: str | None = None, cutoff: Cutoff = EVERYTHING) -> FactChoice:
        """The facts that a chat which begins now, or at the moment of the cutoff, is shown. Reading them records nothing."""
        return choose_facts(self.all(cutoff), cutoff.as_of or self._resources.clock.now(), focus_skill)

    # ---- remembering ---------------------------------------------------------------------------------------------------

    def remember(
        self, text: str, *, topic: str | None = None, skill: str | None = None, confidence: Confidence = "inferred",
        quote: str | None = None, source: FactSource | None = None, author: Author = "owner", chat: ChatGuard | None = None,
    ) -> RememberedFact:  # fmt: skip
        """Store a fact, or find the one that says the same. A model's fact is asserted only by the owner's own words in `chat`.

        Raises Conflict if the chat's guard refuses it, or if a model infers again what the owner has archived.
        """
        text = read(FactText, text, at="fact")
        topic = None if topic is None else read(Topic, topic, at="topic")
        skill = None if skill is None else read(Slug, skill, at="skill")
        verdict = judge_fact(author, text, confidence, quote, chat)
        if verdict.confidence is None:
            raise Conflict("fact", verdict.note, "Wait until the owner speaks again; if it still matters, remember it then")
        with self._resources.writing(OWNER_STREAM) as tables:
            _check_skill(tables, skill)
            same = find_same_fact(owner_facts(tables), text, skill)
            if same is not None:
                self._restate(tables, same, author, verdict)
                return RememberedFact(fact_named(tables, same.id), new=False, note=verdict.note)
            id_ = make_id(OWNER_STREAM, "fact", tables.head().seq + 1)
            # The quotation by which a model asserts a fact is the evidence for it.
            evidence = quote if author == "model" and verdict.confidence == "asserted" else None
            body = {
                "text": text, "topic": topic, "skill": skill, "source": source or ("profile" if author == "owner" else "chat"),
                "confidence": verdict.confidence, "quote": evidence,
            }  # fmt: skip
            self._state(tables, "fact", id_, id_, author, {name: value for name, value in body.items() if value is not None})
            return RememberedFact(fact_named(tables, id_), new=True, note=verdict.note)

    def _restate(self, tables: Tables, same: Fact, author: Author, verdict: FactVerdict) -> None:
        """A fact that is there was stated again: it is in use, and as sure as who states it now."""
        asserts = verdict.confidence == "asserted"
        if same.archived is not None:
            if not asserts and author == "model" and same.archived_reason in OWNERS_REASONS:
                raise Conflict("fact", "the owner has archived this fact", "Only the owner's own words can bring it back")
            self._change(tables, "fact_restored", same.id, author)
            if same.asserted and not asserts:
                # A model may bring back what a model forgot, but not the certainty that the owner gave it.
                self._change(tables, "fact_demoted", same.id, author)
        if asserts and not same.asserted:
            self._change(tables, "fact_promoted", same.id, author)
        now = self._resources.clock.now()
        if now - same.referenced_by(now) >= RESTATED_AFTER:
            self._name(tables, "facts_referenced", f"{same.id}#{tables.head().seq + 1}", [same.id], {})

    # ---- changing ------------------------------------------------------------------------------------------------------

    def edit(self, id: str, *, text: str | None = None, topic: str | None = None, skill: str | None = None) -> Fact:
        """Change the words, the topic or the skill of a fact; an empty topic or skill takes it away. For the owner only."""
        with self._resources.writing(OWNER_STREAM) as tables:
            fact = _active(tables, id)
            wanted = {
                "text": fact.text if text is None else read(FactText, text, at="fact"),
                "topic": fact.topic if topic is None else (topic and read(Topic, topic, at="topic")) or None,
                "skill": fact.skill if skill is None else (skill and read(Slug, skill, at="skill")) or None,
            }
            _check_skill(tables, wanted["skill"])
            others = [other for other in owner_facts(tables) if other.id != id and other.archived is None]
            if (same := find_same_fact(others, str(wanted["text"]), wanted["skill"])) is not None:
                raise Conflict("fact", f"the fact {same.id} says the same", "Edit or archive that one instead")
            if wanted != {"text": fact.text, "topic": fact.topic, "skill": fact.skill}:
                self._change(tables, "fact_edited", id, "owner", {k: v for k, v in wanted.items() if v is not None})
            return fact_named(tables, id)

    def promote(self, id: str) -> Fact:
        """Mark a fact as asserted: the owner says so. For the owner only."""
        return self._set_asserted(id, True)

    def demote(self, id: str) -> Fact:
        """Mark a fact as inferred: somebody concluded it. For the owner only."""
        return self._set_asserted(id, False)

    def _set_asserted(self, id: str, asserted: bool) -> Fact:
        with self._resources.writing(OWNER_STREAM) as tables:
            if _active(tables, id).asserted != asserted:
                self._change(tables, "fact_promoted" if asserted else "fact_demoted", id, "owner")
            return fact_named(tables, id)

    def archive(
        self, id: str, reason: ArchiveReason = "agent_forget", *, author: Author = "owner", chat: ChatGuard | None = None
    ) -> Fact:
        """Archive a fact: it is shown no more and stays on record. A fact that is archived already stays as it is.

        Raises Conflict if a model would archive what the owner asserted, without a message of the owner in `chat`.
        """
        with self._resources.writing(OWNER_STREAM) as tables:
            fact = fact_named(tables, id)
            if fact.archived is not None:
                return fact
            if not may_archive(author, fact.asserted, chat):
                fix = "Ask the owner to archive it, on the page /profile/facts"
                raise Conflict("fact_id", "the owner asserted this fact", fix)
            # Only in a chat in which the owner has just spoken can a model say that the owner wants it.
            owner_says_so = author == "owner" or may_archive(author, True, chat)
            stated = reason if owner_says_so else "agent_forget"
            self._change(tables, "fact_archived", id, author, {"reason": stated})
            return fact_named(tables, id)

    def restore(self, id: str) -> Fact:
        """Bring an archived fact back. For the owner only."""
        with self._resources.writing(OWNER_STREAM) as tables:
            if fact_named(tables, id).archived is not None:
                self._change(tables, "fact_restored", id, "owner")
            return fact_named(tables, id)

    def shred(self, id: str) -> int:
        """Destroy the text of a fact for good; its log rows keep their hashes. Returns how many. For the owner only."""
        with self._resources.writing(OWNER_STREAM) as tables:
            fact_named(tables, id)
            rows: list[int] = []
            for kind in FACT_TEXT_KINDS:
                for item in tables.items(kind, EVERYTHING, symbol=id):
                    rows += tables.drop_items((kind,), item.key)
            tables.shred_log(rows)
            self._state(tables, "fact_shredded", id, id, "owner", {"fact": id, "shredded": rows})
        self._resources.database.scrub(whole=False)
        return len(rows)

    # ---- what was shown, and what was used -----------------------------------------------------------------------------

    def record_shown(self, ids: Iterable[str], chat: str) -> Receipt:
        """Record which facts a chat was shown: once for each chat."""
        with self._resources.writing(OWNER_STREAM) as tables:
            return write_facts_shown(tables, self._resources, chat, ids, {"chat": chat})

    def record_referenced(self, ids: Iterable[str], use: str) -> Receipt:
        """Record that facts were used, and not only shown: once for each `use`, which names a turn of a chat."""
        with self._resources.writing(OWNER_STREAM) as tables:
            if (earlier := tables.logged("facts_referenced", use)) is not None:
                return Receipt(earlier.stream, earlier.seq, earlier.hash, (), duplicate=True)
            known = {fact.id for fact in owner_facts(tables)}
            named = [id_ for id_ in dict.fromkeys(ids) if id_ in known]
            return self._name(tables, "facts_referenced", use, named, {"use": use})

    # ---- the log -------------------------------------------------------------------------------------------------------

    def _change(self, tables: Tables, kind: str, id: str, author: Author, more: dict[str, Any] | None = None) -> None:
        self._state(tables, kind, f"{id}#{tables.head().seq + 1}", id, author, {"fact": id, **(more or {})})

    def _name(self, tables: Tables, kind: str, key: str, ids: list[str], more: dict[str, Any]) -> Receipt:
        return record_statement(self._resources, tables, kind, key, {"facts": ids, **more})

    def _state(self, tables: Tables, kind: str, key: str, id: str, author: Author, body: dict[str, Any]) -> None:
        record_statement(self._resources, tables, kind, key, body | {"by": author}, symbol=id)


def write_facts_shown(tables: Tables, resources: Resources, key: str, ids: Iterable[str], more: dict[str, Any]) -> Receipt:
    """Record that facts were shown, in an open transaction on the owner's stream; the same key a second time changes nothing."""
    if (earlier := tables.logged("facts_shown", key)) is not None:
        return Receipt(earlier.stream, earlier.seq, earlier.hash, (), duplicate=True)
    return record_statement(resources, tables, "facts_shown", key, {"facts": list(dict.fromkeys(ids)), **more})


def _active(tables: Tables, id: str) -> Fact:
    fact = fact_named(tables, id)
    if fact.archived is not None:
        raise Conflict("fact_id", "the fact is archived", "Bring it back first, with restore_fact")
    return fact


def _check_skill(tables: Tables, skill: str | None) -> None:
    if skill is not None and not skill_versions(tables, skill):
        raise unknown_skill(tables, skill)
