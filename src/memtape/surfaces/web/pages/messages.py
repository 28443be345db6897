"""The chat with an agent.

/agents/{agent}/chat              messages and answers, oldest first, also from before a reset
POST /agents/{agent}/chat/send    send a message; the page that opens then refreshes until the answer is there
"""

from __future__ import annotations

from typing import Any, NamedTuple

from starlette.responses import RedirectResponse, Response

from memtape.errors import MemtapeError
from memtape.surfaces.operations.messages import AgentMessage, GetMessages, MemoryBreak, MessagesAnswer, get_messages
from memtape.surfaces.operations.runs import SendMessage, get_session, send_message
from memtape.surfaces.questions import AsOf
from memtape.surfaces.translate import error_report
from memtape.surfaces.web.background import RequestedRun
from memtape.surfaces.web.forms import read_question
from memtape.surfaces.web.pages.runs import agent_config_of
from memtape.surfaces.web.register import form, page
from memtape.surfaces.web.site import PageRequest

MESSAGES_SHOWN = 100


class ChatLine(NamedTuple):
    """One line of the chat: a message with its answer, or a moment from which on earlier messages are not remembered."""

    message: AgentMessage | None
    memory_break: MemoryBreak | None

    @property
    def at(self) -> str:
        """When it was."""
        return (self.message or self.memory_break).at  # type: ignore[union-attr]


@page("/agents/{agent}/chat", nav="Chat", order=5)
def chat_page(request: PageRequest) -> Response:
    """The chat; htmx gets only the messages."""
    return _chat_shown(request)


def _chat_shown(request: PageRequest, status: int = 200, problem: str = "", typed: str = "") -> Response:
    agent = request.agent.id
    asked = request.site.background.waiting(agent, "chat")
    chat = request.ask(get_messages, GetMessages(agent=agent, limit=MESSAGES_SHOWN))
    waiting = [each.what for each, last in asked.items() if not _has_begun(each.what, last, chat)]
    shown: dict[str, Any] = {
        "lines": chat_lines(chat), "waiting": waiting, "n": chat.n, "most": MESSAGES_SHOWN,
        "busy": bool(waiting) or any(message.result == "running" for message in chat.messages),
        "problem": problem or request.site.background.problem(agent),
    }  # fmt: skip
    if request.partial:
        return request.show("chat_messages.html", status, **shown)
    session = request.ask(get_session, AsOf(agent=agent))
    return request.show("chat.html", status, **shown, session=session, typed=typed, config=agent_config_of(request, agent))


def chat_lines(chat: MessagesAnswer) -> list[ChatLine]:
    """Messages and breaks in the order of their times. A break before the first message says nothing and is left out."""
    lines = [ChatLine(message, None) for message in chat.messages]
    first = chat.messages[0].at if chat.messages else "9999"
    lines += [ChatLine(None, each) for each in chat.breaks if each.at > first]
    # A break at the very moment of a message comes before it: the message already starts fresh.
    return sorted(lines, key=lambda line: (line.at, line.message is not None))


def _has_begun(text: str, last: str | None, chat: MessagesAnswer) -> bool:
    """Returns True if the run of a message is on record: one with its text, after the one that was the last then."""
    runs = [message.run for message in chat.messages]
    since = runs.index(last) + 1 if last in runs else 0
    return any(message.text == text for message in chat.messages[since:])


def _with_problem(request: PageRequest, error: MemtapeError) -> Response:
    return _chat_shown(request, error_report(error).status, str(error), request.form.get("text", ""))


@form("/agents/{agent}/chat/send", within="Chat", on_error=_with_problem)
def send_message_form(request: PageRequest) -> Response:
    """Sends a message. The agent answers in the background."""
    text = request.form.get("text", "").replace("\r\n", "\n").strip()
    question = read_question(SendMessage, agent=request.agent.id, text=text)
    request.site.background.start(RequestedRun(request.agent.id, "chat", text), lambda: request.ask(send_message, question))
    return RedirectResponse(f"{request.agent_path}/chat#end", 303)
