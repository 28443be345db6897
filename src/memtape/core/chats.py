"""Chats of the owner with the coach, and the strategies that a model proposes in them: what the items of the owner's stream make.

A chat is the item `chat`. A turn is two items, as a run is: `chat_turn`, the owner's message, written before the model is asked,
and `chat_turn_end`, what came of it. A turn without an end is at work, or its process died: then it ends as `lost`.
A strategy that a model proposes is a `strategy_card`; only the owner's `strategy_confirmed` makes a version of the skill.

>>> from datetime import UTC, datetime
>>> noon = datetime(2026, 7, 1, 12, tzinfo=UTC)
>>> chat = Chat(ChatStart(id="c1", at=noon, as_of=noon, owner_head=3, digest="d"), (ChatTurn(id="t1", chat="c1", at=noon,
...     text="How did gold do?  I never trade alts."),))
>>> chat.title, chat.open_turn.id, chat.owner_messages
('How did gold do? I never trade alts.', 't1', ('How did gold do?  I never trade alts.',))
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from operator import attrgetter
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, ConfigDict, Field

from memtape.core.brief.sanitize import clean_line
from memtape.core.chat_system import CHAT_PROMPT_VERSION, ChatLevel, ChatMode
from memtape.core.decisions.runs import AgentRun, RunEnd, RunStart
from memtape.core.ids import AgentId
from memtape.core.items import StoredItem
from memtape.core.skills import LongText
from memtape.core.value_class import dataclass
from memtape.core.values import STRICT, Key, Line, ModelName, Slug, Time, read

MAX_MESSAGE_CHARS = 20_000
MAX_TITLE_CHARS = 80
UNANSWERED = "(This message was not answered.)"  # what a later turn is shown in place of an answer that never came
# What a deletion destroys: everything that contains words of the chat.
CHAT_TEXT_KINDS = ("chat", "chat_turn", "chat_turn_end", "strategy_card")
CARD_KINDS = ("strategy_card", "strategy_confirmed", "skill")  # what makes a card, and what becomes of it
CHAT_KINDS = ("chat", "chat_turn", "chat_turn_end", *CARD_KINDS)


def _visible(value: str) -> str:
    """Providers refuse a message without a visible character, and then every later turn of the chat that repeats it."""
    if not clean_line(value):
        raise ValueError("has no visible character; write a message")
    return value


MessageText = Annotated[str, Field(min_length=1, max_length=MAX_MESSAGE_CHARS), AfterValidator(_visible)]
StrategyStatus = Literal["proposed", "confirmed", "superseded"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatStart:
    """The item `chat`. With its moment and log row the system text comes out the same in every turn."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    id: Key
    at: Time
    as_of: Time
    owner_head: Annotated[int, Field(ge=0)]
    digest: Key  # of the system text
    mode: ChatMode = "coach"
    level: ChatLevel = "regular"
    skill: Slug | None = None
    agent: Slug | None = None
    facts: tuple[Key, ...] = ()  # the ids of the facts that it was shown
    version: int = CHAT_PROMPT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTurn:
    """The item `chat_turn`, a message of the owner, with how it ended."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    id: Key
    chat: Key
    at: Time
    text: Annotated[str, Field(min_length=1, max_length=MAX_MESSAGE_CHARS)]
    model: ModelName | None = None
    end: RunEnd | None = None

    def as_run(self) -> AgentRun:
        """The turn as a part of a transcript. A message without an answer stays in it, so that the model knows what was said."""
        start = RunStart(id=self.id, agent=AgentId("owner"), kind="chat", at=self.at, prompt=self.text, runner="llm")
        if self.end is not None and self.end.result == "ok":
            return AgentRun(start, self.end)
        return AgentRun(start, RunEnd(run=self.id, at=self.at, result="ok", text=UNANSWERED))


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyCard:
    """The item `strategy_card`: a strategy in words that waits for the owner's confirmation."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    id: Key
    at: Time
    skill: Slug
    base_version: Annotated[int, Field(ge=0)]  # the version that it was written for; 0: the skill does not exist yet
    strategy: Annotated[LongText, Field(min_length=1)]
    avoid: Annotated[tuple[Line, ...] | None, Field(max_length=64)] = None  # None: as it is
    chat: Key | None = None
    by: Literal["owner", "model"] = "model"
    status: StrategyStatus = "proposed"
    version: int | None = None  # of the skill, once it is confirmed


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat as it is known at some moment."""

    start: ChatStart
    turns: tuple[ChatTurn, ...] = ()
    cards: tuple[StrategyCard, ...] = ()

    @property
    def id(self) -> str:
        """Its id."""
        return self.start.id

    @property
    def title(self) -> str:
        """The beginning of the owner's first message; empty before it."""
        first = clean_line(self.turns[0].text) if self.turns else ""
        return first if len(first) <= MAX_TITLE_CHARS else f"{first[: MAX_TITLE_CHARS - 1]}…"

    @property
    def open_turn(self) -> ChatTurn | None:
        """The turn that has begun and not ended."""
        return next((turn for turn in reversed(self.turns) if turn.end is None), None)

    @property
    def owner_messages(self) -> tuple[str, ...]:
        """Everything that the owner said in it."""
        return tuple(turn.text for turn in self.turns)

    @property
    def last_at(self) -> datetime:
        """When something last happened in it."""
        last = self.turns[-1] if self.turns else None
        return self.start.at if last is None else last.end.at if last.end is not None else last.at

    @property
    def cost_usd(self) -> Decimal | None:
        """What its turns cost, as far as it is known; None: nothing is known."""
        known = [turn.end.usage.cost_usd for turn in self.turns if turn.end is not None and turn.end.usage.cost_usd is not None]
        return sum(known, Decimal(0)) if known else None


def fold_chats(items: Iterable[StoredItem]) -> list[Chat]:
    """Returns the chats that items of the owner's stream make, in the order in which they began.

    What belongs to a chat that was deleted says nothing any more.
    """
    starts: dict[str, ChatStart] = {}
    turns: dict[str, ChatTurn] = {}
    cards: list[StoredItem] = []
    for item in sorted(items, key=_log_place):
        if item.kind == "chat":
            starts[item.key] = read(ChatStart, item.body)
        elif item.kind == "chat_turn":
            turns[item.key] = read(ChatTurn, item.body)
        elif item.kind == "chat_turn_end" and (turn := turns.get(item.key)) is not None:
            turns[item.key] = replace(turn, end=read(RunEnd, item.body))
        else:
            cards.append(item)
    proposed = fold_strategy_cards(cards)
    return [
        Chat(start, tuple(t for t in turns.values() if t.chat == id_), tuple(card for card in proposed if card.chat == id_))
        for id_, start in starts.items()
    ]


_log_place = attrgetter("seq")


def fold_strategy_cards(items: Iterable[StoredItem]) -> list[StrategyCard]:
    """Returns the proposed strategies, oldest first. A later card or version of the same skill supersedes one that waits."""
    cards: dict[str, StrategyCard] = {}
    for item in sorted(items, key=_log_place):
        if item.kind == "strategy_card":
            card = read(StrategyCard, item.body)
            _supersede(cards, card.skill)
            cards[card.id] = card
        elif item.kind == "strategy_confirmed" and (found := cards.get(item.key)) is not None:
            _supersede(cards, found.skill)
            cards[item.key] = replace(found, status="confirmed", version=item.body["version"])
        elif item.kind == "skill":
            # A version, no matter who made it. The owner's confirmation is stated after the version that it makes.
            _supersede(cards, item.body["id"])
    return list(cards.values())


def _supersede(cards: dict[str, StrategyCard], skill: str) -> None:
    for id_, card in cards.items():
        if card.skill == skill and card.status == "proposed":
            cards[id_] = replace(card, status="superseded")
