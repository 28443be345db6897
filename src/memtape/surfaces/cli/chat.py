"""The command `memtape chat`: a chat with the coach in the terminal, or one message and its answer."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memtape.surfaces.cli.commands import perform_as_owner
from memtape.surfaces.cli.options import Db, Json, Owner, open_store, say
from memtape.surfaces.cli.printing import answer, reporting
from memtape.surfaces.cli.tables import printable

if TYPE_CHECKING:
    from memtape.engine import Memory

LEAVE = ("/quit", "/exit")
HELP_LINE = "Write to the coach; an empty line or /quit ends. Ctrl-C stops an answer."


def chat(
    message: Annotated[str | None, typer.Option("--message", "-m", help="Send this one message and print the answer.")] = None,
    chat_id: Annotated[str | None, typer.Option("--chat", help="Go on with this chat; default: a new one.")] = None,
    mode: Annotated[str, typer.Option(help="A new chat: coach, authoring or ops.")] = "coach",
    level: Annotated[str, typer.Option(help="A new chat: beginner, regular or professional.")] = "regular",
    skill: Annotated[str | None, typer.Option(help="A new chat: the skill in focus.")] = None,
    agent: Annotated[str | None, typer.Option(help="A new chat: the agent in focus.")] = None,
    db: Db = None, owner: Owner = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Chat with the coach. It remembers what you tell it about yourself; see `memtape facts`."""
    with reporting(as_json), open_store(db, owner) as memory:
        asked = {"mode": mode, "level": level, "skill": skill, "agent": agent}
        name = chat_id or perform_as_owner(memory, "start_chat", asked)["id"]
        if message is not None:
            turn = _send(memory, name, message, as_json)
            if turn["result"] != "ok":
                raise typer.Exit(1)
            return
        if sys.stdin.isatty():
            say(HELP_LINE)
        _converse(memory, name, as_json)


def _converse(memory: Memory, name: str, as_json: bool) -> None:
    """Send line after line until the input ends."""
    while True:
        try:
            text = input("you> " if sys.stdin.isatty() else "").strip()
        except (EOFError, KeyboardInterrupt):
            break
        if not text or text in LEAVE:
            break
        try:
            _send(memory, name, text, as_json)
        except KeyboardInterrupt:
            say("Stopped.")
    say(f"To go on with this chat: memtape chat --chat {name}")


def _send(memory: Memory, name: str, text: str, as_json: bool) -> dict[str, Any]:
    """Send a message and print what came of it; on a terminal the answer is printed while it is written."""
    from memtape.surfaces.caller import Caller
    from memtape.surfaces.registry import find, perform

    pieces: list[str] = []

    def print_piece(piece: str) -> None:
        pieces.append(piece)
        typer.echo(_shown(piece), nl=False)

    on_text = print_piece if sys.stdout.isatty() and not as_json else None
    try:
        turn = perform(memory, find("send_chat"), {"chat": name, "text": text}, Caller("owner", on_text=on_text))
    finally:
        if pieces:
            typer.echo()
    _print_turn(turn, as_json, printed=bool(pieces))
    return turn


def _shown(text: str) -> bytes:
    return "\n".join(map(printable, text.split("\n"))).encode()


def _print_turn(turn: dict[str, Any], as_json: bool, printed: bool) -> None:
    if as_json:
        answer(turn, True)
        return
    if turn["result"] == "ok":
        if not printed:
            typer.echo(_shown(turn["answer"]))
    else:
        say(f"No answer ({turn['result']}): {turn['error']}")
    cost = f"${turn['cost_usd']}" if turn["cost_usd"] is not None else "cost unknown"
    used = f", tools: {', '.join(call['tool'] for call in turn['tools'])}" if turn["tools"] else ""
    say(f"chat {turn['chat']} ({cost}{used})")
