"""The owner's chats with the coach.

/chat                        the chats, and the form that starts one; without a model, how to configure one
POST /chat/start             start a chat and open it
/chat/{chat}                 one chat: messages, answers, what each cost, strategies that wait for the owner
POST /chat/{chat}/send       send a message; the page that opens then refreshes until the answer is there
POST /chat/{chat}/stop, /confirm, /delete    stop the answer; confirm the strategy in the field `card`; destroy the chat
"""

from __future__ import annotations

from typing import Any

from starlette.responses import RedirectResponse, Response

from memtape.core.chat_system import LEVELS, MODES
from memtape.core.chats import MAX_MESSAGE_CHARS
from memtape.errors import Invalid, MemtapeError
from memtape.surfaces.operations.agents import list_agents
from memtape.surfaces.operations.chats import (
    ConfirmStrategy,
    GetChat,
    ListChats,
    NameChat,
    SendChat,
    StartChat,
    confirm_strategy,
    delete_chat,
    get_chat,
    list_chats,
    start_chat,
    stop_chat,
)
from memtape.surfaces.operations.skills import list_skills
from memtape.surfaces.questions import OfOwner
from memtape.surfaces.translate import error_report
from memtape.surfaces.web.forms import chosen_fields, read_question
from memtape.surfaces.web.register import form, page
from memtape.surfaces.web.site import PageRequest

ADDRESS = "/chat"
CHATS_SHOWN = 100
MODE_WORDS = {"coach": "trade better", "authoring": "write a skill", "ops": "what runs now"}
LEVEL_WORDS = {"beginner": "new to trading", "regular": "knows the terms", "professional": "figures first"}
RESULT_WORDS = {
    "failed": "There is no answer.", "stopped": "The answer was stopped.", "lost": "The answer was lost; your message is kept.",
}  # fmt: skip


def missing_model() -> str:
    """How to configure a model, if there is none; otherwise empty."""
    from memtape.surfaces.chat_host import configured_model

    try:
        configured_model()
    except Invalid as missing:
        return str(missing)
    return ""


@page(ADDRESS)
def chats_page(request: PageRequest) -> Response:
    """The chats, the last active first."""
    return _chats_shown(request)


def _chats_shown(request: PageRequest, status: int = 200, problem: str = "") -> Response:
    return request.show(
        "chats.html", status, chats=request.ask(list_chats, ListChats(limit=CHATS_SHOWN)).chats, most=CHATS_SHOWN,
        modes={mode: MODE_WORDS[mode] for mode in sorted(MODES, key=list(MODE_WORDS).index)},
        levels={level: LEVEL_WORDS[level] for level in LEVELS}, typed=dict(request.form), problem=problem,
        skills=[skill.id for skill in request.ask(list_skills, OfOwner()).skills], without_model=missing_model(),
        agents=[agent.id for agent in request.ask(list_agents, OfOwner()).agents], deleted=request.query.get("deleted") == "1",
    )  # fmt: skip


def _start_problem(request: PageRequest, error: MemtapeError) -> Response:
    return _chats_shown(request, error_report(error).status, str(error))


@form(f"{ADDRESS}/start", on_error=_start_problem)
def start_chat_form(request: PageRequest) -> Response:
    """Starts a chat."""
    asked = read_question(StartChat, **chosen_fields(request.form, "mode", "level", "skill", "agent"))
    return RedirectResponse(f"{ADDRESS}/{request.ask(start_chat, asked).id}", 303)


@page(f"{ADDRESS}/{{chat}}")
def chat_with_coach_page(request: PageRequest) -> Response:
    """One chat; htmx gets only the messages."""
    return _chat_shown(request)


def _chat_shown(request: PageRequest, status: int = 200, problem: str = "", typed: str = "") -> Response:
    so_far = request.site.unfinished_answers.texts()
    chat = request.ask(get_chat, read_question(GetChat, chat=request.value("chat")))
    shown: dict[str, Any] = {"chat": chat, "results": RESULT_WORDS, "address": f"{ADDRESS}/{chat.id}", "so_far": so_far}
    if request.partial:
        return request.show("coach_messages.html", status, **shown)
    return request.show(
        "coach_chat.html", status, **shown, problem=problem, typed=typed, without_model=missing_model(), modes=MODE_WORDS,
        most_chars=MAX_MESSAGE_CHARS, confirmed=request.query.get("confirmed", ""),
    )  # fmt: skip


def _with_problem(request: PageRequest, error: MemtapeError) -> Response:
    return _chat_shown(request, error_report(error).status, str(error), request.form.get("text", ""))


@form(f"{ADDRESS}/{{chat}}/send", on_error=_with_problem)
def send_chat_form(request: PageRequest) -> Response:
    """Sends a message. It is on record at once; the coach answers in the background."""
    from memtape.surfaces.chat_host import send_in_background

    text = request.form.get("text", "").replace("\r\n", "\n").strip()
    asked = read_question(SendChat, chat=request.value("chat"), text=text)
    send_in_background(request.site.memory, asked.chat, asked.text, request.site.unfinished_answers.hearing)
    return RedirectResponse(f"{ADDRESS}/{asked.chat}#end", 303)


def _named(request: PageRequest) -> NameChat:
    return read_question(NameChat, chat=request.value("chat"))


@form(f"{ADDRESS}/{{chat}}/stop", on_error=_with_problem)
def stop_chat_form(request: PageRequest) -> Response:
    """Stops the answer."""
    return RedirectResponse(f"{ADDRESS}/{request.ask(stop_chat, _named(request)).id}#end", 303)


@form(f"{ADDRESS}/{{chat}}/confirm", on_error=_with_problem)
def confirm_strategy_form(request: PageRequest) -> Response:
    """Makes the version of the skill that a card proposes."""
    done = request.ask(confirm_strategy, read_question(ConfirmStrategy, card=request.form.get("card", "")))
    return RedirectResponse(f"{ADDRESS}/{_named(request).chat}?confirmed={done.card}#card-{done.card}", 303)


@form(f"{ADDRESS}/{{chat}}/delete", on_error=_with_problem)
def delete_chat_form(request: PageRequest) -> Response:
    """Destroys a chat for good."""
    request.ask(delete_chat, _named(request))
    return RedirectResponse(f"{ADDRESS}?deleted=1", 303)
