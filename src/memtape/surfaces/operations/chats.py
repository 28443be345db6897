"""Operations on the owner's chats with the coach, and on strategies that the coach proposes. Owner only, except set_strategy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from memtape.core.chat_system import ChatLevel, ChatMode
from memtape.core.chats import MessageText, StrategyStatus
from memtape.core.codec import plain, time_text
from memtape.core.values import Key, Line, Slug
from memtape.errors import Conflict
from memtape.surfaces.answer_models import Answer
from memtape.surfaces.answers import optional_time_text
from memtape.surfaces.questions import Ask, OfOwner
from memtape.surfaces.registry import operation

if TYPE_CHECKING:
    from decimal import Decimal

    from memtape.core.chats import Chat, ChatTurn, StrategyCard
    from memtape.engine import Memory
    from memtape.surfaces.caller import Caller


# ---- answers ---------------------------------------------------------------------------------------------------------


class ChatRow(Answer):
    """A chat in a list."""

    id: Annotated[str, Field(description="the chat")]
    title: Annotated[str, Field(description="the beginning of its first message; empty before it")]
    mode: Annotated[ChatMode, Field(description="coach, authoring or ops")]
    level: Annotated[ChatLevel, Field(description="beginner, regular or professional")]
    skill: Annotated[str | None, Field(description="the skill in focus")]
    agent: Annotated[str | None, Field(description="the agent in focus")]
    began_at: Annotated[str, Field(description="UTC")]
    last_at: Annotated[str, Field(description="UTC; when something last happened")]
    turns: Annotated[int, Field(description="messages of the owner")]
    cost_usd: Annotated[str | None, Field(description="US dollars, as far as known")]
    answering: Annotated[bool, Field(description="true: the coach is answering now")]


class ChatList(Answer):
    """Chats with the coach."""

    chats: Annotated[list[ChatRow], Field(description="the last active first")]
    n: Annotated[int, Field(description="how many")]


class ChatToolRow(Answer):
    """A tool that the coach called in a turn."""

    tool: Annotated[str, Field(description="the tool")]
    is_error: Annotated[bool, Field(description="true: it refused")]


class ChatTurnAnswer(Answer):
    """A message of the owner, and what came of it."""

    id: Annotated[str, Field(description="the turn")]
    chat: Annotated[str, Field(description="the chat")]
    at: Annotated[str, Field(description="UTC; when the message was sent")]
    text: Annotated[str, Field(description="the owner's message")]
    result: Annotated[str, Field(description="answering, ok, failed, lost (its process died) or stopped")]
    ended_at: Annotated[str | None, Field(description="UTC")]
    answer: Annotated[str, Field(description="the coach's answer")]
    error: Annotated[str | None, Field(description="why there is no answer")]
    note: Annotated[str | None, Field(description="what the owner should know")]
    tools: Annotated[list[ChatToolRow], Field(description="the tools that it called, in order")]
    model: Annotated[str | None, Field(description="the model that was asked")]
    input_tokens: Annotated[int | None, Field(description="null: unknown")]
    output_tokens: Annotated[int | None, Field(description="null: unknown")]
    cost_usd: Annotated[str | None, Field(description="US dollars; null: unknown")]


class StrategyCardAnswer(Answer):
    """A proposed strategy. Nothing changes until the owner confirms it."""

    card: Annotated[str, Field(description="its id, for confirm_strategy")]
    skill_id: Annotated[str, Field(description="the skill")]
    status: Annotated[StrategyStatus, Field(description="proposed, confirmed, or superseded by a newer card or version")]
    base_version: Annotated[int, Field(description="the version that it was written for; 0: a new skill")]
    version: Annotated[int | None, Field(description="the version that it became; null: not confirmed")]
    strategy: Annotated[str, Field(description="the strategy in words")]
    avoid: Annotated[list[str] | None, Field(description="what to avoid; null: as it is")]
    at: Annotated[str, Field(description="UTC")]


class ChatAnswer(ChatRow):
    """One chat with its turns."""

    digest: Annotated[str, Field(description="SHA-256 of the system text; the same in every turn")]
    facts: Annotated[list[str], Field(description="ids of the facts that it was shown")]
    messages: Annotated[list[ChatTurnAnswer], Field(description="oldest first")]
    cards: Annotated[list[StrategyCardAnswer], Field(description="strategies proposed in it, oldest first")]


def _money(amount: Decimal | None) -> str | None:
    return None if amount is None else str(plain(amount))


def _row_fields(chat: Chat) -> dict[str, object]:
    start = chat.start
    return {
        "id": chat.id, "title": chat.title, "mode": start.mode, "level": start.level, "skill": start.skill, "agent": start.agent,
        "began_at": time_text(start.at), "last_at": time_text(chat.last_at), "turns": len(chat.turns),
        "cost_usd": _money(chat.cost_usd), "answering": chat.open_turn is not None,
    }  # fmt: skip


def _turn_answer(turn: ChatTurn) -> ChatTurnAnswer:
    end = turn.end
    return ChatTurnAnswer(
        id=turn.id, chat=turn.chat, at=time_text(turn.at), text=turn.text, result=end.result if end else "answering",
        ended_at=optional_time_text(end.at if end else None), answer=end.text if end else "", error=end.error if end else None,
        note=end.note if end else None, model=turn.model, input_tokens=end.usage.input_tokens if end else None,
        output_tokens=end.usage.output_tokens if end else None, cost_usd=_money(end.usage.cost_usd) if end else None,
        tools=[ChatToolRow(tool=step.tool, is_error=step.is_error) for step in (end.steps if end else ()) if step.tool],
    )  # fmt: skip


def _card_answer(card: StrategyCard) -> StrategyCardAnswer:
    return StrategyCardAnswer(
        card=card.id, skill_id=card.skill, status=card.status, base_version=card.base_version, version=card.version,
        strategy=card.strategy, avoid=None if card.avoid is None else list(card.avoid), at=time_text(card.at),
    )  # fmt: skip


def _chat_answer(chat: Chat) -> ChatAnswer:
    return ChatAnswer.model_validate({
        **_row_fields(chat), "digest": chat.start.digest, "facts": list(chat.start.facts),
        "messages": [_turn_answer(turn) for turn in chat.turns], "cards": [_card_answer(card) for card in chat.cards],
    })  # fmt: skip


# ---- chats -----------------------------------------------------------------------------------------------------------


class StartChat(Ask):
    """What the chat is for."""

    mode: Annotated[ChatMode, Field(description="coach: trade better; authoring: write a skill; ops: what runs now")] = "coach"
    level: Annotated[ChatLevel, Field(description="beginner, regular or professional")] = "regular"
    skill: Annotated[Slug | None, Field(description="the skill in focus")] = None
    agent: Annotated[Slug | None, Field(description="the agent in focus")] = None


@operation(writes=True)
def start_chat(memory: Memory, ask: StartChat, caller: Caller) -> ChatAnswer:
    """Start a chat with the coach. What it knows about you is chosen now, and stays the same for the whole chat. Owner only."""
    from memtape.surfaces.chat_host import configured_model

    configured_model()
    return _chat_answer(memory.chats.start(mode=ask.mode, level=ask.level, skill=ask.skill, agent=ask.agent))


class NameChat(Ask):
    """Which chat."""

    chat: Annotated[Key, Field(description="id of the chat")]


class SendChat(NameChat):
    """A message to the coach."""

    text: Annotated[MessageText, Field(description="your message")]


@operation(writes=True, waits=True)
def send_chat(memory: Memory, ask: SendChat, caller: Caller) -> ChatTurnAnswer:
    """Send a message to the coach and wait for the answer: at most 8 rounds of tools, within a cost limit. Owner only.

    The message is on record before the model is asked. The model needs MEMTAPE_CHAT_MODEL.
    """
    from memtape.runners.chat_turn import conduct_turn
    from memtape.surfaces.chat_host import chat_host

    memory.chats.get(ask.chat)
    return _turn_answer(conduct_turn(memory, chat_host(memory), ask.chat, ask.text, caller.on_text))


class ListChats(OfOwner):
    """How many chats."""

    limit: Annotated[int, Field(ge=1, le=500, description="how many, the last active first")] = 20


@operation(writes=False, columns=("id", "last_at", "mode", "turns", "cost_usd", "title"))
def list_chats(memory: Memory, ask: ListChats, caller: Caller) -> ChatList:
    """List the chats with the coach, the last active first. Owner only."""
    found = sorted(memory.chats.all(ask.cutoff), key=lambda chat: (chat.last_at, chat.id), reverse=True)[: ask.limit]
    return ChatList(chats=[ChatRow.model_validate(_row_fields(chat)) for chat in found], n=len(found))


class GetChat(OfOwner):
    """Which chat."""

    chat: Annotated[Key, Field(description="id of the chat")]


@operation(writes=False, columns={"messages": ("at", "text", "answer", "result"), "cards": ("card", "skill_id", "status")})
def get_chat(memory: Memory, ask: GetChat, caller: Caller) -> ChatAnswer:
    """Get a chat with the coach: messages, answers, cost, tools called, strategies proposed. Owner only."""
    return _chat_answer(memory.chats.get(ask.chat, ask.cutoff))


@operation(writes=True)
def stop_chat(memory: Memory, ask: NameChat, caller: Caller) -> ChatAnswer:
    """Stop the answer that the coach is writing: what still comes of it is not recorded. Owner only."""
    return _chat_answer(memory.chats.stop_turn(ask.chat))


class DeleteChatAnswer(Answer):
    """What became of the chat."""

    chat: Annotated[str, Field(description="the chat")]
    log_rows: Annotated[int, Field(description="destroyed rows; their hashes stay and still verify")]


@operation(writes=True)
def delete_chat(memory: Memory, ask: NameChat, caller: Caller) -> DeleteChatAnswer:
    """Destroy a chat for good: messages, answers and proposed strategies. Facts remembered from it stay. Owner only."""
    return DeleteChatAnswer(chat=ask.chat, log_rows=memory.chats.delete(ask.chat))


# ---- strategies ------------------------------------------------------------------------------------------------------


class SetStrategy(Ask):
    """A strategy to propose."""

    skill_id: Annotated[Slug, Field(description="the skill; a new id proposes a new skill")]
    strategy: Annotated[str, Field(min_length=1, max_length=20_000, description="the whole strategy in words")]
    avoid: Annotated[
        list[Line] | None, Field(max_length=64, description="all hard rules: what to avoid; default: as they are")
    ] = None


@operation(writes=True, tools={"coach"})
def set_strategy(memory: Memory, ask: SetStrategy, caller: Caller) -> StrategyCardAnswer:
    """Propose the text of a strategy. It makes a card; a new version exists only after the owner confirms it.

    Only in an authoring chat. Limits cannot be changed by it.
    """
    if caller.is_model and caller.chat_mode != "authoring":
        raise Conflict("mode", "set_strategy works only in a chat in authoring mode", "Ask the owner to start an authoring chat")
    return _card_answer(
        memory.strategies.propose(ask.skill_id, ask.strategy, ask.avoid, chat=caller.chat_id, author=caller.role)
    )


class ConfirmStrategy(Ask):
    """Which proposed strategy."""

    card: Annotated[Key, Field(description="the card of set_strategy")]


@operation(writes=True)
def confirm_strategy(memory: Memory, ask: ConfirmStrategy, caller: Caller) -> StrategyCardAnswer:
    """Confirm a proposed strategy: it becomes the next version of its skill. Agents keep the version they run. Owner only."""
    return _card_answer(memory.strategies.confirm(ask.card))
