"""The pages of the chat with the coach: start one, send, stop, confirm a strategy, delete; and how to configure a model."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import memtape
from memtape.core.decisions.runs import MAX_RUN_TEXT
from memtape.core.items import OWNER_STREAM
from memtape.engine import Memory
from memtape.surfaces.web.background import UnfinishedAnswers
from tests.plugs.coach_model import ALTS, coach
from tests.plugs.llm_server import Calls, Halts, LlmServer, Says, llm_server
from tests.plugs.scripted import Hangs
from tests.web.floor import HOSTILE
from tests.web.test_answers import brings_nothing_of_its_own, client_of
from tests.web.test_document_pages import OWN, looking
from tests.web.test_memory_pages import STICKING_OUT
from tests.web.test_pages import Come, keep

ANSWERED = 20.0  # seconds within which the local server has answered


@pytest.fixture(scope="module")
def server() -> Iterator[LlmServer]:
    with llm_server() as opened:
        yield opened


@pytest.fixture
def desk(tmp_path: Path, server: LlmServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Memory]:
    monkeypatch.setenv("MEMTAPE_CHAT_MODEL", "anthropic/claude-haiku-4-5")
    monkeypatch.setenv("MEMTAPE_ANTHROPIC_URL", server.url("anthropic"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key-of-the-owner")
    server.plays(coach)
    with memtape.open(str(tmp_path / "desk.db")) as memory:
        memory.create_skill("gold", strategy="Buy strength.")
        memory.create_agent("desk", skill="gold")
        yield memory


@pytest.fixture
def client(desk: Memory) -> Iterator[TestClient]:
    with client_of(desk) as client:
        yield client


def post(client: TestClient, address: str, status: int = 303, **fields: str) -> str:
    answer = client.post(address, data=fields, headers=OWN, follow_redirects=False)
    assert answer.status_code == status, answer.text
    return answer.headers.get("location", "").partition("#")[0] if status == 303 else answer.text


def until_answered(memory: Memory, chat: str) -> None:
    until = time.monotonic() + ANSWERED
    while memory.chats.get(chat).open_turn is not None:
        assert time.monotonic() < until, "no answer came"
        time.sleep(0.02)


def test_a_chat_is_started_and_answered_and_what_was_said_is_on_the_page_of_facts(desk, client):
    where = post(client, "/chat/start", mode="coach", level="beginner", skill="gold", agent="")
    chat = where.rpartition("/")[2]
    assert post(client, f"{where}/send", text="I never trade alts.") == where
    until_answered(desk, chat)
    shown = " ".join(client.get(where).text.split())
    assert "I never trade alts." in shown and "Noted." in shown and "looked at: remember" in shown and "$0.00" in shown
    assert "hx-trigger" not in shown, "nothing is waited for"
    assert ALTS in client.get("/profile/facts").text
    listed = client.get("/chat").text
    assert f'href="{where}"' in listed and "I never trade alts." in listed
    assert 'aria-current="page">Coach</a>' in listed and 'href="/chat"' in client.get("/").text


def test_an_answer_that_is_being_written_is_waited_for_and_can_be_stopped(desk, client, server):
    where = post(client, "/chat/start", mode="coach", level="regular")
    server.plays(Hangs(1))
    post(client, f"{where}/send", text="Think about gold.")
    waiting = client.get(where).text
    assert "answering…" in waiting and 'hx-trigger="every 1s"' in waiting and f'action="{where}/stop"' in waiting
    assert "still answering" in post(client, f"{where}/send", 409, text="Hurry.") and "Hurry." in post(client, f"{where}/send", 409, text="Hurry.")
    post(client, f"{where}/stop")
    stopped = client.get(where).text
    for thread in threading.enumerate():  # the late answer comes before the store is closed
        if thread.name.startswith("memtape-page-chat"):
            thread.join(ANSWERED)
    assert stopped == client.get(where).text
    assert "The answer was stopped." in stopped and "Think about gold." in stopped and "hx-trigger" not in stopped


def test_an_answer_is_shown_while_it_is_written_and_nothing_of_it_is_stored_before_it_ends(desk, client, server):
    where = post(client, "/chat/start", mode="coach", level="regular")
    chat, go_on = where.rpartition("/")[2], threading.Event()
    server.plays(Calls((("list_skills", {}),), "I look."), Halts(Says("Gold <b>rose</b> – by 3 %. Keep the rest."), after=14, until=go_on))
    post(client, f"{where}/send", text="How is gold?")
    until = time.monotonic() + ANSWERED
    while "Gold &lt;b&gt;" not in (written := client.get(where, headers={"HX-Request": "true"}).text):
        assert time.monotonic() < until, written
        time.sleep(0.02)
    assert "I look." in written and "answering…" in written and 'hx-trigger="every 1s"' in written and "Keep the rest." not in written
    assert "Gold" not in client.get(f"/chat/{desk.chats.start().id}").text, "another chat shows nothing of it"
    with desk.resources.reading(OWNER_STREAM) as tables:
        assert "rose" not in "".join(row.payload or "" for row in tables.log())
    go_on.set()
    until_answered(desk, chat)
    shown = client.get(where).text
    assert "Gold &lt;b&gt;rose&lt;/b&gt; – by 3 %. Keep the rest." in shown and "answering…" not in shown and "I look." not in shown


def test_what_was_written_of_an_answer_is_bounded_and_dropped_at_its_end():
    answers = UnfinishedAnswers()
    with answers.hearing("t1") as on_text, answers.hearing("t2") as other:
        on_text("x" * MAX_RUN_TEXT)
        on_text("y")
        other("Gold")
        assert answers.texts() == {"t1": "x" * MAX_RUN_TEXT, "t2": "Gold"}
    assert answers.texts() == {}
    with pytest.raises(OSError), answers.hearing("t3") as on_text:
        on_text("Gold")
        raise OSError
    assert answers.texts() == {}


def test_a_proposed_strategy_becomes_a_version_by_the_owners_click(desk, client, server):
    where = post(client, "/chat/start", mode="authoring", level="regular", skill="gold")
    server.plays(Calls((("set_strategy", {"skill_id": "gold", "strategy": "Buy a close above the range."}),)), Says("See the card."))
    post(client, f"{where}/send", text="Write it down.")
    until_answered(desk, where.rpartition("/")[2])
    card = desk.chats.get(where.rpartition("/")[2]).cards[0].id
    assert "Confirm as version 2" in client.get(where).text and desk.skill("gold")[1] == 1
    post(client, f"{where}/confirm", card=card)
    assert "version 2</a>" in client.get(where).text and desk.skill("gold")[0].strategy == "Buy a close above the range."


def test_a_deleted_chat_is_gone(desk, client):
    where = post(client, "/chat/start", mode="ops", level="regular")
    assert post(client, f"{where}/delete") == "/chat?deleted=1"
    assert "was destroyed" in client.get("/chat?deleted=1").text
    assert client.get(where).status_code == 404 and desk.chats.all() == []


def test_without_a_model_the_pages_say_how_to_configure_one(desk, client, monkeypatch):
    chat = desk.chats.start().id
    monkeypatch.delenv("MEMTAPE_CHAT_MODEL")
    for address in ("/chat", f"/chat/{chat}"):
        assert "MEMTAPE_CHAT_MODEL=anthropic/claude-haiku-4-5" in client.get(address).text
    assert "no model is configured" in post(client, "/chat/start", 422, mode="coach")
    assert "no model is configured" in post(client, f"/chat/{chat}/send", 422, text="Hello.")


def test_hostile_words_are_shown_and_do_nothing(desk, client, server):
    server.plays(Says(HOSTILE))
    chat = desk.chats.start().id
    post(client, f"/chat/{chat}/send", text=HOSTILE)
    until_answered(desk, chat)
    for address in ("/chat", f"/chat/{chat}"):
        brings_nothing_of_its_own(client, address)


def test_what_is_wrong_is_said_above_the_form(desk, client):
    assert "mode" in post(client, "/chat/start", 422, mode="gossip")
    where = post(client, "/chat/start", mode="coach")
    assert "text" in post(client, f"{where}/send", 422, text=" ")
    assert client.post(f"{where}/send", data={"text": "x"}, headers={"origin": "https://elsewhere.example"}).status_code == 403


def test_in_a_browser_the_answer_comes_by_itself_and_everything_fits_a_phone(visit: Come, desk, server) -> None:
    """By keyboard alone: start a chat, write, send; the answer appears without a further step."""
    server.plays(Calls((("list_skills", {}),)), Says("You run one skill. " * 12))
    with looking(visit, desk) as here:
        page = here.at("/chat")
        page.focus("#chat-agent")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.wait_for_selector("#field-text")
        page.focus("#field-text")
        page.keyboard.type("What do I run?")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.wait_for_selector("#messages :text('You run one skill.')")
        assert "looked at: list_skills" in page.inner_text("#messages")
        chat = desk.chats.all()[0].id
        desk.strategies.propose("gold", "Buy a close above the range. " * 20, ["never average down"], chat=chat)
        for path in ("/chat", f"/chat/{chat}"):
            page = here.at(path)
            for width, colours in here.windows():
                keep(here, f"{'chats' if path == '/chat' else 'chat-with-coach'}-{width}-{colours}")
                assert page.evaluate(STICKING_OUT) == [], (path, width)
