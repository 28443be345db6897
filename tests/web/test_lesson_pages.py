"""The page of lessons in a real browser: what an agent is shown, what is held back, and what the owner can change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import memtape
from memtape.core.codec import plain
from memtape.core.items import Item
from memtape.core.lessons.reflection import Candidate, Lesson, Reflection
from memtape.engine import AgentMemory, Memory
from memtape.engine.write.writer import Writer
from memtape.errors import ModelFailed
from memtape.plugs.clock import FixedClock
from tests.web.conftest import Visit, served
from tests.web.floor import HOSTILE, HOSTILE_SEEN
from tests.web.test_answers import brings_nothing_of_its_own, client_of
from tests.web.test_memory_pages import STICKING_OUT, ask
from tests.web.test_pages import Come, keep

START = datetime(2026, 1, 5, 8, tzinfo=UTC)
OWN = {"origin": "http://127.0.0.1"}
SHORTS = Candidate(
    id="c-shorts", slot="regime_fit", kind="cell", field="side", value="short", label="shorts in a range", unit="R", n=8, total=24,
    mean=-1.1, interval=(-1.2, -1.0), rest=0.61, p_value=0.0004, chance=False,
)  # fmt: skip
MORNING = replace(
    SHORTS, id="c-morning", slot="entry_timing", label="mornings", mean=0.05, interval=(-0.3, 0.4), p_value=0.42, chance=True
)


def diary(agent: AgentMemory, n: int) -> list[str]:
    """Trades that the agent reports: every third is a short and loses, the longs win a little; their ids."""
    for i in range(n):
        side, r = ("short", -1.0 - (i % 2) * 0.2) if i % 3 == 0 else ("long", 0.4 + (i % 5) * 0.1)
        sign, at = (1 if side == "long" else -1), START + timedelta(hours=i)
        agent.remember_trade(
            {"symbol": "XAU", "side": side, "entry_price": 100, "exit_price": 100 + sign * r, "pnl": 100 * r, "pnl_r": r, "trade_id": f"m{i}",
             "entry_at": at, "exit_at": at + timedelta(minutes=30), "situation": {"regime": "ranging"}}
        )  # fmt: skip
    return [trade.id for trade in reversed(agent.ledger.trades(status="closed"))]


def note(agent: AgentMemory, key: str, *lessons: Lesson, **more: Any) -> None:
    """A note in the agent's stream, as a reflection writes it."""
    at = START + timedelta(days=2, hours=int(key))
    made = Reflection(
        id=f"note{key}", agent=agent.agent.id, skill=agent.agent.skill, skill_version=1, generated_at=at, window_start=START,
        window_end=at, trades_considered=24, closed=24, model_used="stats", asked_by="cadence", lessons=lessons,
        candidates=(SHORTS, MORNING), scanned=14,
    )  # fmt: skip
    with agent.resources.writing(agent.agent.id) as tables:
        Writer(tables, agent.agent, at).declare(Item("note", key, at, plain(replace(made, **more))), at)


@contextmanager
def looking(visit: Come, memory: Memory, **how: Any) -> Iterator[Visit]:
    """A visitor to the pages of a memory, who leaves before the server stops, so that no request fails."""
    with served(memory) as address:
        here = visit(at=address, **how)
        yield here
        here.page.goto("about:blank")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Memory]:
    """An agent with a diary of 24 trades and two notes: the first by us, the second by a model, with a lesson held back."""
    with memtape.open(str(tmp_path / "desk.db"), clock=FixedClock(START + timedelta(days=4))) as memory:
        memory.create_skill("trend", strategy="Buy strength.", avoid=["No shorts."])
        for name in ("desk", "other"):
            memory.create_agent(name, skill="trend", mode="paper")
        agent = memory.agent("desk")
        ids = diary(agent, 24)
        shorts = Lesson(id="l1", slot="regime_fit", text="Shorts in a range: -1.10R a trade (n = 8).", candidate="c-shorts", n=8,
                        trades=tuple(ids[0::3]), regime="ranging", expires_at=START + timedelta(days=90))  # fmt: skip
        mornings = Lesson(id="l2", slot="entry_timing", text="Mornings do a little better.", candidate="c-morning", n=8, chance=True,
                          trades=tuple(ids[:8]))  # fmt: skip
        note(agent, "1", replace(shorts, id="l0", text="Shorts in a range: -1.00R a trade (n = 5).", n=5))
        held = Lesson(
            id="l3",
            slot="sizing",
            text=HOSTILE,
            candidate="c-shorts2",
            n=8,
            tier=3,
            flagged="speaks against the rule: No shorts.",
        )
        spent = {
            "model_used": "anthropic/claude-haiku-4-5",
            "input_tokens": 1900,
            "output_tokens": 120,
            "cost_usd": Decimal("0.0025"),
        }
        note(agent, "2", replace(shorts, tier=3), mornings, held, **spent)
        yield memory


@pytest.fixture
def client(desk: Memory) -> Iterator[TestClient]:
    with client_of(desk) as client:
        yield client


def lessons(memory: Memory, agent: str = "desk") -> dict[str, str]:
    found = ask(memory, agent, "get_lessons")["note"]
    return {lesson["id"]: lesson["status"] for lesson in found["lessons"]} if found else {}


# ---- reading -------------------------------------------------------------------------------------------------------------


def test_a_lesson_shows_its_numbers_and_leads_to_every_trade_behind_it(visit: Come, desk: Memory) -> None:
    with looking(visit, desk) as here:
        page = here.at("/agents/desk/lessons")
        content = here.text("#lesson-l1")
        for words in ("Shorts in a range: -1.10R a trade (n = 8).", "distinguishable from luck", "n = 8 of 24 trades, 33 %", "−1.10 R",
                      "the other trades +0.61; 90 % interval of the mean −1.20 to −1.00", "p = 0.00040", "From model", "Only in ranging",
                      "until 2026-04-05 08:00 UTC"):  # fmt: skip
            assert words in content
        assert "could be luck" in here.text("#lesson-l2") and "until the next note" in here.text("#lesson-l2")
        shorts = [trade.id for trade in desk.agent("desk").ledger.trades(status="closed") if trade.side == "short"]
        page.locator("#lesson-l1 summary", has_text="Its trades").click()
        paths = [link.get_attribute("href") for link in page.locator("#lesson-l1 .trades-list a").all()]
        assert paths == [f"/agents/desk/trades/{id_}" for id_ in shorts]
        page.locator("#lesson-l1 .trades-list a").first.click()
        page.wait_for_url("**/trades/*")
        behind = page.locator("section:has(#learned-title) a[href='/agents/desk/lessons#lesson-l1']")
        assert behind.count() == 1 and "Mornings" not in here.text("section:has(#learned-title)")
        behind.click()
        page.wait_for_url("**/lessons#lesson-l1")


def test_a_lesson_that_is_held_back_is_shown_only_to_the_owner(visit: Come, desk: Memory) -> None:
    with looking(visit, desk) as here:
        here.at("/agents/desk/lessons")
        assert HOSTILE_SEEN in here.text("#held") and "speaks against the rule: No shorts." in here.text("#held")
        assert HOSTILE_SEEN not in here.text("#shown-lessons") and "gnol" not in ask(desk, "desk", "get_brief")["text"]
        assert here.page.locator("main img, main script").count() == 0


def test_the_page_shows_when_lessons_are_computed_next(visit: Come, desk: Memory) -> None:
    with looking(visit, desk) as here:
        here.at("/agents/desk/lessons")
        content = here.text("section:has(#next-title)")
        assert (
            "after every 10 closed trades, by stats" in content and "when 30 trades have closed (24 so far, 6 to go)" in content
        )
        here.at("/agents/other/lessons")
        content = here.text("main")
        for words in ("Lessons need closed trades.", "there is nothing to compute", "0 so far, 10 to go", "Every note stays in this list",
                      "No note is shown to every agent", "A comparison needs two notes."):  # fmt: skip
            assert words in content
        assert here.page.get_by_role("button", name="Compute lessons now").is_disabled()


def test_the_history_has_every_note_and_compares_any_two_in_words(visit: Come, desk: Memory) -> None:
    with looking(visit, desk) as here:
        page = here.at("/agents/desk/lessons")
        assert (
            "1,900, 120" in here.text("#note-note2")
            and "0.0025" in here.text("#note-note2")
            and "active" in here.text("#note-note2")
        )
        assert "superseded" in here.text("#note-note1") and "stats" in here.text("#note-note1")
        assert "2 added, 0 removed, 1 changed, 0 unchanged." in here.text("#diff")
        assert "Before: Shorts in a range: -1.00R a trade (n = 5). Now: Shorts in a range: -1.10R" in here.text("#diff .changed")
        page.locator("#diff-earlier").select_option("note2")
        page.wait_for_url("**earlier=note2**")
        page.locator("#diff-later").select_option("note1")
        page.wait_for_selector("#diff [role=status]:has-text('0 added, 2 removed, 1 changed')")
        assert here.text("#diff .removed >> nth=0").startswith("− Removed, entry timing Mornings")
        page.reload()
        assert "0 added, 2 removed" in here.text("#diff [role=status]")


# ---- the owner's hand ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scripts", [True, False])
def test_a_retired_lesson_is_no_longer_shown_to_the_agent(visit: Come, desk: Memory, scripts: bool) -> None:
    with looking(visit, desk, scripts=scripts) as here:
        page = here.at("/agents/desk/lessons")
        assert "Mornings do a little better." in ask(desk, "desk", "get_brief")["text"]
        page.locator("#lesson-l2 summary", has_text="Retire it").click()
        page.locator("#lesson-l2").get_by_label("Reason, for the record").fill("Not enough of them.")
        page.get_by_role("button", name="Retire the lesson: Mornings").click()
        page.wait_for_selector("#ended #lesson-l2")
        assert "The lesson is no longer shown." in here.text("#lessons [role=status] >> nth=0")
        assert lessons(desk) == {"l1": "shown", "l2": "retired", "l3": "held_back"}
        assert "Mornings" not in ask(desk, "desk", "get_brief")["text"]


def test_a_promoted_note_is_shown_to_the_other_agents_of_the_skill(visit: Come, desk: Memory) -> None:
    with looking(visit, desk) as here:
        page = here.at("/agents/desk/lessons")
        page.locator("#note-note2").get_by_role("button", name="Promote").click()
        page.wait_for_selector("#shared :text('In its own note too')")
        assert "Mornings do a little better. (from the skill)" in ask(desk, "other", "get_brief")["text"]
        here.at("/agents/other/lessons")
        first = page.locator("#shared .lesson").first
        assert "Shorts in a range" in first.inner_text() and HOSTILE_SEEN not in here.text("#shared")
        first.locator("summary", has_text="Its trades").click()
        first.locator(".trades-list a").first.click()
        page.wait_for_url("**/agents/desk/trades/*")  # the trades are those of the agent that learned it


@pytest.mark.parametrize("scripts", [True, False])
def test_the_same_trades_give_lessons_only_once(visit: Come, desk: Memory, scripts: bool) -> None:
    with looking(visit, desk, scripts=scripts) as here:
        page = here.at("/agents/desk/lessons")
        page.get_by_role("button", name="Compute lessons now").click()
        page.wait_for_selector("[role=status]:has-text('New lessons were computed.')")
        made = ask(desk, "desk", "get_lessons")["note"]
        assert made["asked_by"] == "owner" and page.locator("#history tbody tr").count() == 3
        assert all(lesson["text"] in here.text("#lessons") for lesson in made["lessons"])
        page.get_by_role("button", name="Compute lessons now").click()
        page.wait_for_selector("[role=status]:has-text('Nothing has changed')")
        assert page.locator("#history tbody tr").count() == 3


def test_a_failed_reflection_is_reported_and_leaves_the_note(visit: Come, desk: Memory) -> None:
    desk.create_skill("trend", memory={"reflection": {"model": "anthropic/claude-haiku-4-5"}})
    desk.use_skill_version("desk", 2)

    def down(name: str) -> Any:
        raise ModelFailed(name, "it answers nothing")

    desk.resources.models = down
    with looking(visit, desk) as here:
        page = here.at("/agents/desk/lessons")
        page.get_by_role("button", name="Compute lessons now").click()
        page.wait_for_selector("#lessons [role=status]:has-text('The reflection failed')")
        assert "it answers nothing" in here.text("section:has(#next-title)") and "1 in a row" in here.text(
            "section:has(#next-title)"
        )
        assert lessons(desk) == {"l1": "shown", "l2": "shown", "l3": "held_back"}


def test_the_owner_excludes_a_trade_from_the_figures(visit: Come, desk: Memory) -> None:
    trade = desk.agent("desk").ledger.trades(status="closed")[0]
    with looking(visit, desk) as here:
        page = here.at(f"/agents/desk/trades/{trade.id}")
        assert "now: normal" in here.text("#teach")
        page.get_by_label("Counts for").select_option("anomaly")
        page.get_by_label("Reason, for the record").fill("The feed was wrong.")
        page.get_by_role("button", name="Save").click()
        page.wait_for_url("**#teach")
        assert "now: anomaly" in here.text("#teach") and "counts in no figure" in here.text("section:has(#learned-title)")
        assert ask(desk, "desk", "get_trade_reflection", trade_id=trade.id)["episode"]["teach"] == "anomaly"


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("lessons/reflect", {}),
        ("lessons/retire", {"lesson_id": "l1"}),
        ("lessons/promote", {"note_id": "note2"}),
        ("teach", {"teach": "exclude"}),
    ],
)
def test_only_a_page_of_memtape_may_change_what_is_shown(
    client: TestClient, desk: Memory, path: str, form: dict[str, str]
) -> None:
    trade = desk.agent("desk").ledger.trades(status="closed")[0].id
    to = f"/agents/desk/trades/{trade}/teach" if path == "teach" else f"/agents/desk/{path}"
    before = {name: desk.agent(name).head() for name in ("desk", "other")}
    for headers in ({}, {"origin": "https://elsewhere.example"}, {**OWN, "sec-fetch-site": "cross-site"}):
        assert client.post(to, data=form, headers=headers).status_code == 403
    assert client.get(to).status_code == 404
    assert {name: desk.agent(name).head() for name in before} == before and ask(desk, "other", "get_lessons")[
        "skill_note"
    ] is None


@pytest.mark.parametrize(
    ("agent", "path", "form", "status"),
    [
        ("desk", "lessons/retire", {"lesson_id": "nothing"}, 404), ("desk", "lessons/retire", {}, 422),
        ("desk", "lessons/promote", {"note_id": "nothing"}, 404), ("other", "lessons/reflect", {}, 409),
    ],
)  # fmt: skip
def test_a_refused_change_is_explained_on_the_page(
    client: TestClient, agent: str, path: str, form: dict[str, str], status: int
) -> None:
    answer = client.post(f"/agents/{agent}/{path}", data=form, headers=OWN)
    assert answer.status_code == status and 'role="alert"' in answer.text and "Lessons it is shown" in answer.text


# ---- all of it -----------------------------------------------------------------------------------------------------------


def test_the_page_of_lessons_fits_its_window_and_brings_no_script_of_its_own(
    visit: Come, desk: Memory, client: TestClient
) -> None:
    with looking(visit, desk) as here:
        for agent in ("desk", "other"):
            page = here.at(f"/agents/{agent}/lessons")
            page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
            brings_nothing_of_its_own(client, f"/agents/{agent}/lessons")
            for width, colours in here.windows():
                assert page.evaluate("document.documentElement.scrollWidth") <= width and page.evaluate(STICKING_OUT) == []
                keep(here, f"lessons-{agent}-{width}-{colours}")
