"""The owner's chats with the coach: beginning one, its turns, stopping a turn, deleting a chat.

The model is asked between the beginning and the end of a turn, by `runners/chat_turn.py`, outside any transaction. The owner's
message is on record before that. One turn of a chat at a time: a lease, extended while the model works, says who answers. A turn
whose lease ran out, because its process died, is lost; its late answer, and that of a turn that the owner stopped, is refused.

>>> import memtape
>>> memory = memtape.open(":memory:")
>>> chat = memory.chats.start()
>>> begun = memory.chats.begin_turn(chat.id, "How did gold do?")
>>> ended = memory.chats.end_turn(begun, RunEnd(run=begun.turn.id, at=begun.turn.at, result="ok", text="It rose."))
>>> [(turn.text, turn.end.text) for turn in memory.chats.get(chat.id).turns]
[('How did gold do?', 'It rose.')]
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import uuid4

from memtape.core.chat_system import ChatLevel, ChatMode
from memtape.core.chats import CHAT_TEXT_KINDS, Chat, ChatStart, ChatTurn, MessageText
from memtape.core.codec import make_id, plain
from memtape.core.decisions.runs import RunEnd
from memtape.core.items import OWNER_STREAM, Item
from memtape.core.skills import OWNER_AGENT
from memtape.core.values import read
from memtape.engine.coach import Coach, CoachPrompt, CoachQuestion
from memtape.engine.facts import write_facts_shown
from memtape.engine.resources import Resources
from memtape.engine.runs import LEASE_TIME
from memtape.engine.view.chats import chat_named, owner_chats
from memtape.engine.write.writer import Writer
from memtape.errors import Conflict
from memtape.store.cutoff import EVERYTHING, Cutoff
from memtape.store.leases import Leases
from memtape.store.tables import Tables

LOST = "the process that asked the model ended without an answer"
STOPPED = "the owner stopped it"


@dataclass(frozen=True, slots=True)
class BegunTurn:
    """A turn that has begun, the chat with its earlier turns, and the lease that it holds."""

    chat: Chat
    turn: ChatTurn
    holder: str


class Chats:
    """The chats of one owner."""

    def __init__(self, resources: Resources, coach: Coach) -> None:
        self._resources, self._coach = resources, coach

    # ---- reading -----------------------------------------------------------------------------------------------------

    def all(self, cutoff: Cutoff = EVERYTHING) -> list[Chat]:
        """Every chat that was not deleted, in the order in which they began."""
        with self._resources.reading(OWNER_STREAM) as tables:
            return [self._with_lost(tables, chat, cutoff) for chat in owner_chats(tables, cutoff)]

    def get(self, id: str, cutoff: Cutoff = EVERYTHING) -> Chat:
        """One chat; raises Unknown if there is none."""
        with self._resources.reading(OWNER_STREAM) as tables:
            return self._with_lost(tables, chat_named(tables, id, cutoff), cutoff)

    def _with_lost(self, tables: Tables, chat: Chat, cutoff: Cutoff) -> Chat:
        """The chat, with a turn whose process died shown as lost before somebody records it."""
        turn = chat.open_turn
        if turn is None or not cutoff.all or Leases(tables).is_held(_lease(chat.id), self._resources.clock.now()):
            return chat
        lost = replace(turn, end=_lost(turn, turn.at))
        return replace(chat, turns=tuple(lost if each.id == turn.id else each for each in chat.turns))

    def prompt(self, chat: Chat) -> CoachPrompt:
        """The system text of a chat: the same bytes in every turn, unless a fact in it was destroyed."""
        start = chat.start
        return self._coach.again(
            CoachQuestion(
                as_of=start.as_of, owner_head=start.owner_head, level=start.level, mode=start.mode, skill=start.skill,
                agent=start.agent, version=start.version,
            )
        )  # fmt: skip

    # ---- a chat ------------------------------------------------------------------------------------------------------

    def start(
        self, *, mode: ChatMode = "coach", level: ChatLevel = "regular", skill: str | None = None, agent: str | None = None
    ) -> Chat:
        """Begin a chat. Its facts are chosen now, once, and recorded as shown."""
        shown = self._coach.prompt(level=level, mode=mode, skill=skill, agent=agent)
        asked = shown.question
        with self._resources.writing(OWNER_STREAM) as tables:
            id_, now = make_id(OWNER_STREAM, "chat", tables.head().seq + 1), self._resources.clock.now()
            start = ChatStart(
                id=id_, at=now, as_of=asked.as_of, owner_head=asked.owner_head, digest=shown.system.digest, mode=asked.mode,
                level=asked.level, skill=asked.skill, agent=asked.agent, facts=shown.facts, version=asked.version,
            )  # fmt: skip
            self._declare(tables, "chat", id_, id_, plain(start), now)
            write_facts_shown(tables, self._resources, id_, shown.facts, {"digest": shown.system.digest, "chat": id_})
        return Chat(start)

    def delete(self, id: str) -> int:
        """Destroy the words of a chat for good; its log rows keep their hashes. Returns how many. Facts stay."""
        with self._resources.writing(OWNER_STREAM) as tables:
            chat = chat_named(tables, id)
            keys = {
                "chat": [id], "chat_turn": [turn.id for turn in chat.turns], "chat_turn_end": [turn.id for turn in chat.turns],
                "strategy_card": [card.id for card in chat.cards],
            }  # fmt: skip
            rows = sorted(row for kind in CHAT_TEXT_KINDS for key in keys[kind] for row in tables.drop_items((kind,), key))
            tables.shred_log(rows)
            Leases(tables).drop(_lease(id))
            self._declare(tables, "chat_deleted", id, id, {"chat": id, "shredded": rows}, self._resources.clock.now())
        self._resources.database.scrub(whole=False)
        return len(rows)

    # ---- a turn ------------------------------------------------------------------------------------------------------

    def begin_turn(self, chat: str, text: str, *, model: str | None = None) -> BegunTurn:
        """Record the owner's message and take the lease. A turn that a dead process left behind is ended first, as lost.

        Raises Conflict if another turn of the chat is at work.
        """
        holder, now = uuid4().hex, self._resources.clock.now()
        text = read(MessageText, text, at="text")
        with self._resources.writing(OWNER_STREAM) as tables:
            found = chat_named(tables, chat)
            turn = read(ChatTurn, {"id": "new", "chat": chat, "at": now, "text": text, "model": model})
            if not Leases(tables).take(_lease(chat), holder, now, now + LEASE_TIME):
                raise Conflict("chat", "the coach is still answering", "Wait for the answer, or stop it with stop_chat")
            if (left_behind := found.open_turn) is not None:
                self._declare_end(tables, left_behind, _lost(left_behind, now))
                found = chat_named(tables, chat)
            turn = replace(turn, id=make_id(OWNER_STREAM, "chat_turn", tables.head().seq + 1))
            stated = {name: value for name, value in plain(turn).items() if name != "end"}
            self._declare(tables, "chat_turn", turn.id, chat, stated, now)
        return BegunTurn(found, turn, holder)

    def extend(self, begun: BegunTurn) -> bool:
        """Keep the lease while the model works. Returns False if it was lost meanwhile."""
        until = self._resources.clock.now() + LEASE_TIME
        with self._resources.repairing(OWNER_STREAM) as tables:
            return Leases(tables).extend(_lease(begun.turn.chat), begun.holder, until)

    def is_open(self, begun: BegunTurn) -> bool:
        """Returns True if a turn was neither ended nor stopped, and its chat not deleted."""
        with self._resources.reading(OWNER_STREAM) as tables:
            return _is_open(tables, begun.turn)

    def end_turn(self, begun: BegunTurn, end: RunEnd) -> ChatTurn:
        """Record how a turn ended and give the lease back. Raises Conflict if it was ended, or its chat deleted, meanwhile."""
        with self._resources.writing(OWNER_STREAM) as tables:
            if not _is_open(tables, begun.turn):
                raise Conflict("chat", "this turn was stopped, or its chat deleted, before the answer came", "Send it again")
            end = replace(end, run=begun.turn.id, at=max(begun.turn.at, self._resources.clock.now()))
            self._declare_end(tables, begun.turn, end)
            Leases(tables).release(_lease(begun.turn.chat), begun.holder)
        return replace(begun.turn, end=end)

    def stop_turn(self, chat: str) -> Chat:
        """End the turn that is at work as stopped: its answer is not waited for, and refused when it comes."""
        with self._resources.writing(OWNER_STREAM) as tables:
            turn, now = chat_named(tables, chat).open_turn, self._resources.clock.now()
            if turn is not None:
                alive = Leases(tables).is_held(_lease(chat), now)
                stopped = RunEnd(run=turn.id, at=max(turn.at, now), result="stopped", error=STOPPED)
                self._declare_end(tables, turn, stopped if alive else _lost(turn, now))
                Leases(tables).drop(_lease(chat))
            return chat_named(tables, chat)

    # ---- the log -----------------------------------------------------------------------------------------------------

    def _declare_end(self, tables: Tables, turn: ChatTurn, end: RunEnd) -> None:
        self._declare(tables, "chat_turn_end", turn.id, turn.chat, plain(end), end.at)

    def _declare(self, tables: Tables, kind: str, key: str, chat: str, body: dict[str, Any], at: datetime) -> None:
        writer = Writer(tables, OWNER_AGENT, self._resources.clock.now(), self._resources.author)
        writer.declare(Item(kind, key, at, body, chat), at)


def _lease(chat: str) -> str:
    return f"chat {chat}"


def _lost(turn: ChatTurn, at: datetime) -> RunEnd:
    return RunEnd(run=turn.id, at=max(at, turn.at), result="lost", error=LOST)


def _is_open(tables: Tables, turn: ChatTurn) -> bool:
    begun = tables.items("chat_turn", EVERYTHING, keys=[turn.id], limit=1)
    return bool(begun) and not tables.items("chat_turn_end", EVERYTHING, keys=[turn.id], limit=1)
