"""The page of what is known about the owner, in a real browser and without: the owner sees all of it and corrects it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import memtape
from memtape.engine import Memory
from memtape.plugs.clock import FixedClock
from tests.web.floor import HOSTILE, HOSTILE_SEEN
from tests.web.test_answers import brings_nothing_of_its_own, client_of
from tests.web.test_document_pages import OWN, looking
from tests.web.test_memory_pages import STICKING_OUT
from tests.web.test_pages import Come, keep, until

NOW = datetime(2026, 5, 12, 8, tzinfo=UTC)
PAGE = "/profile/facts"
LONG = "You want to grow this account 2× in 6 months without drawdowns over 15 %, and you would rather miss a trade " * 4


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Memory]:
    """An owner of whom a few things are known: asserted and inferred, one of them stale, one archived, one hostile."""
    with memtape.open(str(tmp_path / "desk.db"), clock=FixedClock(NOW - timedelta(days=90))) as memory:
        memory.create_skill("gold-breakout")
        memory.create_agent("desk", skill="gold-breakout", mode="paper")
        memory.facts.remember("I take no leverage above 5×.", topic="risk", confidence="asserted")
        clock = memory.resources.clock
        assert isinstance(clock, FixedClock)
        clock.at = NOW - timedelta(days=3)
        memory.facts.remember("You favour mean reversion.", topic="style", skill="gold-breakout", author="model")
        memory.facts.remember(LONG, topic="a-topic-of-nearly-forty-characters-here", author="model")
        memory.facts.remember(HOSTILE, topic=HOSTILE[:40], author="model")
        memory.facts.archive(memory.facts.remember("You fear Mondays.", author="model").fact.id, "user_deleted")
        clock.at = NOW
        yield memory


@pytest.fixture
def client(desk: Memory) -> Iterator[TestClient]:
    with client_of(desk) as client:
        yield client


def fact(memory: Memory, words: str) -> str:
    """The id of the fact with these words."""
    (found,) = [each.id for each in memory.facts.all() if words in each.text]
    return found


def test_the_page_shows_every_column_and_what_is_stale(desk, client):
    memory_id = fact(desk, "leverage")
    desk.facts.record_shown([memory_id], "chat-1")
    text = " ".join(client.get(PAGE).text.split())
    for heading in ("Fact", "Topic", "Confidence", "Source", "Skill", "Last referenced", "Created"):
        assert f'<th scope="col">{heading}</th>' in text
    row = text[text.index(f'id="fact-{memory_id}"') :]
    row = row[: row.index("</tr>")]
    for seen in ("I take no leverage above 5×.", "stale", "risk", "asserted", "profile", "never", "used 0×, shown 1×", "2026-02-11"):
        assert seen in row, seen
    assert text.count(">stale</span>") == 1
    assert "You fear Mondays." not in text and "Show archived (1)" in text
    archived = " ".join(client.get(f"{PAGE}?archived=1").text.split())
    assert "You fear Mondays." in archived and "archived by you" in archived and "Hide archived (1)" in archived


def test_the_page_brings_no_script_or_style_of_its_own_and_hides_nothing(desk, client):
    for path in (PAGE, f"{PAGE}?archived=1", f"{PAGE}?edit={fact(desk, 'leverage')}", f"{PAGE}?edit=nothing&done=nothing"):
        brings_nothing_of_its_own(client, path)
    assert HOSTILE not in client.get(PAGE).text


def test_a_fact_that_was_remembered_in_a_chat_is_there_at_the_next_look(desk, client):
    assert "You trade at night." not in client.get(PAGE).text
    desk.facts.remember("You trade at night.", author="model")
    assert "You trade at night." in client.get(PAGE).text


def test_the_owners_own_fact_is_asserted_and_of_the_profile(desk, client):
    asked = {"fact": "I sleep at night.", "topic": "session", "skill": ""}
    answer = client.post(f"{PAGE}/add", data=asked, headers=OWN)
    assert answer.status_code == 200 and "Added" in answer.text
    stored = desk.facts.get(fact(desk, "sleep"))
    assert (stored.source, stored.confidence, stored.topic, stored.skill) == ("profile", "asserted", "session", None)
    again = client.post(f"{PAGE}/add", data={"fact": "You favour mean reversion", "skill": "gold-breakout"}, headers=OWN)
    assert "known already" in again.text and desk.facts.get(fact(desk, "mean")).confidence == "asserted"


def test_each_button_does_what_it_says(desk, client):
    id_ = fact(desk, "mean")

    def press(name: str, **more: str) -> str:
        answer = client.post(f"{PAGE}/{name}", data={"fact_id": id_, **more}, headers=OWN)
        assert answer.status_code == 200, answer.text
        return answer.text

    assert "Now asserted" in press("promote") and desk.facts.get(id_).confidence == "asserted"
    assert "Now inferred" in press("demote") and desk.facts.get(id_).confidence == "inferred"
    assert "Saved" in press("edit", fact="You favour momentum.", topic="", skill="")
    changed = desk.facts.get(id_)
    assert (changed.text, changed.topic, changed.skill) == ("You favour momentum.", None, None)
    assert "Archived" in press("archive") and desk.facts.get(id_).archived_reason == "user_deleted"
    assert "Restored" in press("restore") and desk.facts.get(id_).archived is None


def test_what_does_not_fit_is_said_and_what_was_typed_stays(desk, client):
    id_ = fact(desk, "mean")
    for path, asked, problem in (
        ("add", {"fact": "abc", "topic": "odd"}, "at least 4 characters"),
        ("add", {"fact": "x" * 501}, "at most 500 characters"),
        ("edit", {"fact_id": id_, "fact": "no", "topic": "odd"}, "at least 4 characters"),
    ):
        answer = client.post(f"{PAGE}/{path}", data=asked, headers=OWN)
        assert answer.status_code == 422 and problem in answer.text and f">{asked['fact']}</textarea>" in answer.text
    same = client.post(f"{PAGE}/edit", data={"fact_id": id_, "fact": "I take no leverage above 5x"}, headers=OWN)
    assert same.status_code == 409 and "says the same" in same.text
    gone = client.post(f"{PAGE}/archive", data={"fact_id": "nothing"}, headers=OWN)
    assert gone.status_code == 409 and "there is no fact" in gone.text
    assert desk.facts.get(id_).text == "You favour mean reversion."


def test_a_form_from_another_page_changes_nothing(desk, client):
    id_ = fact(desk, "leverage")
    for origin in ({}, {"origin": "https://elsewhere.example"}):
        for name in ("add", "edit", "promote", "demote", "archive", "restore"):
            answer = client.post(f"{PAGE}/{name}", data={"fact_id": id_, "fact": "Take more leverage."}, headers=origin)
            assert answer.status_code == 403
    assert [each.text for each in desk.facts.all() if each.id == id_] == ["I take no leverage above 5×."]


def test_an_owner_of_whom_nothing_is_known_is_told_how_to_begin(tmp_path: Path):
    with memtape.open(str(tmp_path / "new.db")) as memory, client_of(memory) as client:
        assert "Nothing is known about you yet" in client.get(PAGE).text


@pytest.mark.parametrize("scripts", [True, False])
def test_the_owner_goes_there_from_the_agents_and_corrects_a_fact(visit: Come, desk: Memory, scripts: bool) -> None:
    with looking(visit, desk, scripts=scripts) as here:
        page = here.at("/")
        page.get_by_role("link", name="What the coach knows about you").click()
        page.wait_for_url(f"**{PAGE}")
        id_ = fact(desk, "mean")
        page.locator(f"#edit-{id_}").click()
        page.locator("#edit-fact").fill("You favour momentum.")
        page.locator("#save").click()
        page.locator(f"#fact-{id_}", has_text="You favour momentum.").wait_for()
        page.locator(f"#confidence-{id_}", has_text="Promote").click()
        page.locator(f"#confidence-{id_}", has_text="Demote").wait_for()
        page.locator(f"#archive-{id_}").click()
        page.locator(f"#fact-{id_}").wait_for(state="detached")
        page.locator("#archived-toggle").click()
        page.locator(f"#restore-{id_}").click()
        page.locator(f"#archive-{id_}").wait_for()
        page.locator("#new-fact").fill("I sleep at night.")
        page.locator("#add").click()
        page.locator("tbody tr", has_text="I sleep at night.").wait_for()
    stored = desk.facts.get(id_)
    assert (stored.text, stored.confidence, stored.archived) == ("You favour momentum.", "asserted", None)
    assert desk.facts.get(fact(desk, "sleep")).source == "profile"


def test_the_page_is_used_by_keyboard_alone(visit: Come, desk: Memory) -> None:
    """Tab, Enter and Space do all of it, and the focus is never lost: after each step it is where the next one begins."""
    id_ = fact(desk, "mean")
    with looking(visit, desk) as here:
        page = here.at(PAGE)
        keys = page.keyboard

        def focus() -> str:
            return str(page.evaluate("document.activeElement.id"))

        def tab_to(wanted: str) -> None:
            for _ in range(60):
                if focus() == wanted:
                    return
                keys.press("Tab")
            raise AssertionError(f"Tab does not lead to {wanted}")

        def lands_on(wanted: str, seen: str) -> None:
            page.locator("#facts", has_text=seen).wait_for()
            until(page, f"document.activeElement.id === '{wanted}'")

        tab_to("new-fact")
        keys.type("I sleep at night.")
        keys.press("Tab")
        keys.type("session")
        tab_to("add")
        keys.press("Enter")
        lands_on("add", "Added")
        tab_to(f"edit-{id_}")
        keys.press("Enter")
        lands_on("edit-fact", "Cancel")
        tab_to("cancel")
        keys.press("Enter")
        lands_on(f"edit-{id_}", "Archive")
        keys.press("Space")
        lands_on("edit-fact", "Cancel")
        keys.press("Control+a")
        keys.type("You favour momentum.")
        tab_to("save")
        keys.press("Enter")
        lands_on(f"edit-{id_}", "Saved")
        keys.press("Tab")
        keys.press("Space")
        lands_on(f"confidence-{id_}", "Now asserted")
        keys.press("Enter")
        lands_on(f"confidence-{id_}", "Now inferred")
        keys.press("Tab")
        keys.press("Enter")
        lands_on("undo", "Archived:")
        keys.press("Enter")
        lands_on(f"edit-{id_}", "Restored")
        tab_to(f"archive-{id_}")
        keys.press("Enter")
        lands_on("undo", "Archived:")
        tab_to("archived-toggle")
        keys.press("Enter")
        lands_on("archived-toggle", "Hide archived (2)")
        tab_to(f"restore-{id_}")
        keys.press("Enter")
        lands_on(f"edit-{id_}", "Restored")
    assert desk.facts.get(id_).text == "You favour momentum." and desk.facts.get(id_).archived is None


def test_nothing_sticks_out_in_any_window_and_hostile_text_stays_text(visit: Come, desk: Memory) -> None:
    with looking(visit, desk) as here:
        for path in (f"{PAGE}?archived=1", f"{PAGE}?edit={fact(desk, 'mean')}"):
            page = here.at(path)
            for width, colours in here.windows():
                assert page.evaluate(STICKING_OUT) == [], (path, width)
                keep(here, f"facts-{'edit' if 'edit' in path else 'all'}-{width}-{colours}")
            for width in (1000, 870):
                page.set_viewport_size({"width": width, "height": 900})
                assert page.evaluate(STICKING_OUT) == [], (path, width)
        page = here.at(PAGE)
        assert HOSTILE_SEEN in here.text(f"#fact-{fact(desk, HOSTILE[:10])} th")


def test_on_a_phone_a_long_topic_does_not_cover_its_label(visit: Come, desk: Memory) -> None:
    desk.facts.remember("You trade gold.", topic="T" * 40)
    with looking(visit, desk) as here:
        page = here.at(PAGE)
        page.set_viewport_size({"width": 400, "height": 900})
        sticking_out = """(cell) => { const text = document.createRange(); text.selectNodeContents(cell);
          return text.getBoundingClientRect().left < cell.getBoundingClientRect().left + 30 }"""
        assert not page.locator(f"td[data-label=Topic]:has-text('{'T' * 40}')").evaluate(sticking_out)
