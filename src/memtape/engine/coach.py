"""The system text of a chat with the owner: made from the facts of one moment, recorded when shown, made again byte for byte.

Reading it records nothing. Its receipt names the moment, the row of the owner's log and what was asked for; `record_shown` makes
the text again from it, and refuses a receipt whose text does not come out the same.
"""

from __future__ import annotations

import json
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from memtape.core.chat_system import CHAT_PROMPT_VERSION, ChatFocus, ChatLevel, ChatMode, ChatSystem, compose_chat_system
from memtape.core.codec import canonical_plain, make_id, plain
from memtape.core.facts import choose_facts
from memtape.core.items import OWNER_STREAM
from memtape.core.value_class import dataclass
from memtape.core.values import STRICT, Slug, Time, read
from memtape.engine.facts import write_facts_shown
from memtape.engine.resources import Resources
from memtape.engine.view.facts import owner_facts
from memtape.engine.view.owner_stream import find_agent, skill_versions, unknown_agent, unknown_skill
from memtape.engine.write.log_writer import Receipt
from memtape.errors import Conflict, Invalid
from memtape.store.cutoff import Cutoff
from memtape.store.tables import Tables

COACH_PROMPT = "coach"  # in a receipt: what it is the receipt of
RECEIPT_HELP = "Give the receipt that stands at the end of the prompt"


@dataclass(frozen=True, slots=True, kw_only=True)
class CoachQuestion:
    """What a system text was asked for. With the moment and the log row it makes the same bytes. Its fields are payload keys."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    as_of: Time
    owner_head: Annotated[int, Field(ge=0, le=2**53)]
    level: ChatLevel = "regular"
    mode: ChatMode = "coach"
    skill: Slug | None = None
    agent: Slug | None = None
    version: int = CHAT_PROMPT_VERSION

    @property
    def cutoff(self) -> Cutoff:
        """What was known and recorded."""
        return Cutoff(self.as_of, self.owner_head)


@dataclass(frozen=True, slots=True)
class CoachPrompt:
    """A system text, the question that it answers, and the facts in it."""

    question: CoachQuestion
    system: ChatSystem
    facts: tuple[str, ...]  # their ids

    @property
    def text(self) -> str:
        """The system text."""
        return self.system.text

    @property
    def receipt(self) -> str:
        """What must be given to record that it was shown, in one line."""
        return canonical_plain({"prompt": COACH_PROMPT, "digest": self.system.digest, **plain(self.question)})


def is_coach_receipt(receipt: str) -> bool:
    """Returns True if a receipt is that of a system text of a chat, and not of a brief."""
    try:
        data = json.loads(receipt)
    except (ValueError, RecursionError):
        return False
    return isinstance(data, dict) and data.get("prompt") == COACH_PROMPT


class Coach:
    """The system texts of one owner's chats."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources

    def prompt(
        self, *, level: ChatLevel = "regular", mode: ChatMode = "coach", skill: str | None = None, agent: str | None = None
    ) -> CoachPrompt:
        """The system text of a chat that begins now. With an agent and no skill, the skill in focus is the agent's."""
        with self._resources.reading(OWNER_STREAM) as tables:
            if agent is not None:
                found = find_agent(tables, agent)
                if found is None:
                    raise unknown_agent(tables, agent)
                skill = skill or found.skill
            if skill is not None and not skill_versions(tables, skill):
                raise unknown_skill(tables, skill)
            asked = {"level": level, "mode": mode, "skill": skill, "agent": agent}
            now, head = self._resources.clock.now(), tables.head().seq
            question = read(CoachQuestion, {**asked, "as_of": now, "owner_head": head})
            return _assembled(tables, question)

    def again(self, question: CoachQuestion) -> CoachPrompt:
        """The system text of a chat that began earlier, for its next turn: the same bytes, unless a fact in it was destroyed."""
        with self._resources.reading(OWNER_STREAM) as tables:
            return _assembled(tables, question)

    def reproduce(self, receipt: str) -> CoachPrompt:
        """The system text of a receipt; raises Conflict if it does not come out the same."""
        try:
            data = dict(json.loads(receipt))
            digest_, kind = str(data.pop("digest")), data.pop("prompt")
        except (ValueError, TypeError, KeyError, RecursionError):
            raise Invalid("brief", "is not a receipt", RECEIPT_HELP) from None
        question = read(CoachQuestion, data, at="brief")
        with self._resources.reading(OWNER_STREAM) as tables:
            if question.owner_head > tables.head().seq or kind != COACH_PROMPT:
                raise Invalid("brief", "names log rows that are not there", RECEIPT_HELP)
            found = _assembled(tables, question)
        if question.version != CHAT_PROMPT_VERSION or found.system.digest != digest_:
            raise Conflict("brief", "this prompt cannot be made again from the record", "Read memtape://coach again")
        return found

    def record_shown(self, prompt: CoachPrompt | str, *, chat: str | None = None) -> Receipt:
        """Record that a system text, and so its facts, were put before a model: once for each chat, or for each receipt."""
        shown = self.reproduce(prompt) if isinstance(prompt, str) else prompt
        key = chat or make_id("facts_shown", shown.receipt)
        with self._resources.writing(OWNER_STREAM) as tables:
            body = {"digest": shown.system.digest, **plain(shown.question), **({} if chat is None else {"chat": chat})}
            return write_facts_shown(tables, self._resources, key, shown.facts, body)


def _assembled(tables: Tables, question: CoachQuestion) -> CoachPrompt:
    chosen = choose_facts(owner_facts(tables, question.cutoff), question.as_of, question.skill).chosen
    focus = ChatFocus(question.skill, question.agent)
    system = compose_chat_system(chosen, level=question.level, mode=question.mode, focus=focus)
    return CoachPrompt(question, system, tuple(fact.id for fact in chosen))
