"""The whole loop in a real browser: make an agent, run it, examine its decision again, chat with it, reset its memory."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import memtape
from memtape.core.decisions.agent_config import DEFAULT_PROMPT
from memtape.plugs.clock import FixedClock
from memtape.surfaces.registry import execute
from tests.web.conftest import Visit
from tests.web.running_desk import RunningDesk, running_desk
from tests.web.test_lesson_pages import looking
from tests.web.test_memory_pages import STICKING_OUT
from tests.web.test_pages import Come, keep, until

RUNNER = """
def decide(question):
    asked = (question.schema or {}).get("properties", {})
    if "conviction_score" in asked:
        return {"conviction_score": 62, "notes": "The retest held.", "suggested_action": "HOLD",
                "watch_for": [{"item": "retest holds", "grade": "played out"}]}
    if "thesis" in asked:
        return {"symbol": "BTC", "action": "buy", "side": "long", "thesis": "Range broke upwards.", "stop": 98, "target": 104,
                "watch_for": ["retest holds"]}
    return f"You have sent {1 + sum(run.start.kind == 'chat' for run in question.transcript)} messages."
"""
UNLABELLED = """[...document.querySelectorAll("input:not([type=hidden]), select, textarea, button, a[href]")]
  .filter((one) => !(one.labels?.length || one.getAttribute("aria-label") || one.textContent.trim())).map((one) => one.outerHTML)"""


class TickingClock(FixedClock):
    """A clock that goes on a little whenever somebody looks at it, so that no two runs begin at one moment."""

    def now(self) -> datetime:
        self.at += timedelta(milliseconds=5)
        return self.at


def looks_good(here: Visit, name: str) -> None:
    """The page fits a wide light and a narrow dark window, and every control has a name."""
    for width, colours in here.windows():
        # A page that refreshes itself may be caught in the middle of a swap.
        until(here.page, f"document.documentElement.scrollWidth <= {width}")
        assert here.page.evaluate(STICKING_OUT) == [], name
        keep(here, f"{name}-{width}-{colours}")
    here.page.set_viewport_size({"width": 1280, "height": 900})
    assert here.page.evaluate(UNLABELLED) == [], name


def test_an_agent_is_made_run_examined_chatted_with_and_reset_in_the_browser(visit: Come, tmp_path: Path) -> None:
    script = tmp_path / "decide.py"
    script.write_text(RUNNER, encoding="utf-8")
    with memtape.open(str(tmp_path / "desk.db"), clock=TickingClock(datetime(2026, 3, 2, 10, 7, tzinfo=UTC))) as memory:
        with looking(visit, memory, expected=("status of 422",)) as here:
            page = here.at("/agents")
            page.get_by_role("link", name="Make an agent").click()
            page.get_by_label("Name", exact=True).fill("gold")
            page.get_by_label("Name of a new skill").fill("breakout")
            page.get_by_label("Strategy of a new skill").fill("Buy a close above the range.")
            page.get_by_label("Active Memory").check()
            page.get_by_label("Runner").fill("claude")
            page.get_by_label("Schedule (UTC)").fill("every 15 minutes")
            looks_good(here, "new-agent")
            page.get_by_role("button", name="Create agent").click()

            assert "is neither a period nor a cron" in here.text("#wrong-schedule")
            assert page.get_by_label("Runner").input_value() == "claude" and memory.agents() == []
            assert (
                page.get_by_label("Active Memory").is_checked()
                and not page.get_by_label("Review previous decisions").is_checked()
            )
            looks_good(here, "new-agent-wrong")
            page.get_by_label("Schedule (UTC)").fill("every 15m")
            page.get_by_role("button", name="Create agent").click()
            page.wait_for_url("**/agents/gold/edit?saved=new")
            assert "2026-03-02 10:15 UTC 2026-03-02 10:30 UTC 2026-03-02 10:45 UTC" in here.text("[role=status]")
            looks_good(here, "edit-agent")

            # A function of the owner is set on the command line; the page keeps it.
            memory.configure_agent("gold", {"runner": f"callable:{script}:decide"})
            page.goto(page.url)
            page.get_by_role("button", name="Save").click()
            page.wait_for_url("**/agents/gold/edit?saved=1")
            assert memory.agent_config("gold").config.runner == f"callable:{script}:decide"
            page.get_by_role("link", name="Go to the agent").click()
            assert "Fresh" in here.text("#active-memory") and "Runs since reset 0" in here.text("#active-memory")
            page.get_by_role("button", name="Run now").click()
            page.wait_for_url("**/agents/gold/runs")
            page.locator("#runs .run-ok").wait_for()
            looks_good(here, "runs")
            page.locator("#runs tbody th a").click()
            assert "BUY BTC long" in here.text(".card") and "Range broke upwards." in here.text(".card")
            assert DEFAULT_PROMPT in here.text("pre.text >> nth=0")
            looks_good(here, "run")

            page.get_by_role("button", name="Re-examine").click()
            page.locator("#conviction .convictions .num").wait_for()
            assert "62 HOLD" in here.text("#conviction") and "The retest held." in here.text("#conviction")
            page.locator("#conviction .convictions a").click()
            assert "retest holds played out" in here.text(".card") and "this run" in here.text("#conviction")
            looks_good(here, "re-examination")

            page.locator(".bar .site").get_by_role("link", name="Trade decisions").click()
            assert "62" in here.text("#active tbody tr") and page.get_by_role("button", name="Re-examine buy BTC").count() == 1
            looks_good(here, "results")

            here.at("/agents/gold")
            page.locator(".sections").get_by_role("link", name="Chat").click()
            for n in (1, 2):
                page.get_by_label("Your message").fill(f"Message {n}?")
                page.get_by_role("button", name="Send").click()
                page.get_by_text(f"You have sent {n} messages.").wait_for()
            page.get_by_role("button", name="Reset memory").click()
            page.locator(".chat .break").wait_for()
            assert (
                "Memory was reset" in here.text(".chat .break")
                and "Message 1?" in here.text(".chat")
                and "Fresh" in here.text("h1")
            )
            page.get_by_label("Your message").fill("Message 3?")
            page.get_by_role("button", name="Send").click()
            page.get_by_text("You have sent 1 messages.").nth(1).wait_for()  # the agent remembers nothing from before the reset
            looks_good(here, "chat")
            here.at("/")
            assert (
                "Carrying context" in here.text("tbody") and page.get_by_role("button", name="Reset memory of gold").count() == 1
            )
            looks_good(here, "agents-with-memory")
        runs = execute(memory, "list_runs", {}, agent="gold")["runs"]
        assert [run["kind"] for run in reversed(runs)] == ["manual", "re-examination", "chat", "chat", "chat"]
        assert {run["result"] for run in runs} == {"ok"}


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningDesk]:
    with running_desk(tmp_path, monkeypatch) as desk:
        desk.configure(active_memory=True)
        yield desk


def test_a_running_run_shows_its_end_by_itself_and_then_stops_asking(visit: Come, desk: RunningDesk) -> None:
    with looking(visit, desk.memory) as here:
        page = here.page
        with desk.runner.held():
            here.at("/agents/gold/runs")
            page.get_by_role("button", name="Run now").click()
            page.locator("#runs .run-running").wait_for()
            page.locator("#runs tbody th a").click()
            assert "The agent is at work." in here.text("#run [role=status]")
            looks_good(here, "run-running")
        page.locator("#run .card").wait_for()
        assert page.locator("#run[hx-get]").count() == 0 and "finished" in here.text("h1")
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.wait_for_timeout(2_600)
        assert asked == []


def test_while_the_agent_answers_what_is_being_typed_stays(visit: Come, desk: RunningDesk) -> None:
    with looking(visit, desk.memory) as here:
        page = here.at("/agents/gold/chat")
        with desk.runner.held():
            page.get_by_label("Your message").fill("Why did you buy?")
            page.get_by_role("button", name="Send").click()
            page.locator(".chat em").wait_for()
            page.get_by_label("Your message").fill("And the")
            looks_good(here, "chat-answering")
        page.get_by_text("because the range broke").wait_for()
        assert page.get_by_label("Your message").input_value() == "And the" and page.locator("#messages[hx-get]").count() == 0


def test_without_scripts_an_agent_can_be_run_and_examined_too(visit: Come, desk: RunningDesk) -> None:
    with looking(visit, desk.memory, scripts=False) as here:
        page = here.at("/agents/gold")
        page.get_by_role("button", name="Run now").click()
        desk.until_runs(1)
        here.at("/agents/gold/runs?kind=manual")
        page.locator("#runs tbody th a").click()
        page.get_by_role("button", name="Re-examine").click()
        page.wait_for_url("**#conviction")
        desk.until_runs(2)
        here.at(f"/agents/gold/runs/{desk.runs('manual')[0]['id']}")
        assert "62 HOLD" in here.text("#conviction")
