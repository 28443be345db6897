"""What the agent sees, in a real browser: the brief to the byte, what was shown, and the panel that decides what is in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

import memtape
from memtape.engine import Memory
from memtape.surfaces.web.brief_lines import diff_lines
from tests.web.conftest import Visit
from tests.web.test_answers import brings_nothing_of_its_own, client_of
from tests.web.test_lesson_pages import OWN, diary, looking
from tests.web.test_memory_pages import STICKING_OUT, ask
from tests.web.test_pages import Come, keep, until

PANEL = {
    "edit": "1", "version": "1", "enabled": "1", "recentTradesK": "5", "includeOpenPositions": "1", "cadence": "daily",
    "everyNTrades": "10", "dailyHourUtc": "7", "model": "stats", "expireDays": "30",
}  # fmt: skip


@pytest.fixture
def client(floor: Memory) -> Iterator[TestClient]:
    with client_of(floor) as client:
        yield client


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Memory]:
    """Two agents of one skill; one has a diary of trades, and was shown a brief before the last of them."""
    with memtape.open(str(tmp_path / "desk.db")) as memory:
        memory.create_skill(
            "trend", strategy="Buy strength.\n- Stop below the range.", avoid=["No shorts."], limits={"risk": "1 %"}
        )
        for name in ("desk", "other"):
            memory.create_agent(name, skill="trend", mode="paper")
        diary(memory.agent("desk"), 9)
        made = memory.agent("desk").briefs.make(budget=900)
        memory.agent("desk").briefs.record_shown(made, run="morning")
        diary(memory.agent("desk"), 12)
        yield memory


def shown_lines(here: Visit, within: str = "#text") -> list[str]:
    return [str(line.text_content()) for line in here.page.locator(f"{within} .line code").all()]


def token_table(here: Visit) -> dict[str, int]:
    rows = here.page.locator(".token-table tbody tr, .token-table tfoot tr").all()
    table = [[str(cell.text_content()) for cell in row.locator("th, td").all()] for row in rows]
    return {cells[0]: int(cells[2].replace(",", "")) for cells in table}


# ---- the brief -----------------------------------------------------------------------------------------------------------


def test_the_page_shows_the_very_bytes_of_the_brief_and_what_each_part_weighs(
    visit: Come, floor: Memory, client: TestClient
) -> None:
    brief = ask(floor, "swing", "preview_brief")
    here = visit()
    page = here.at("/agents/swing/sees")
    assert "\n".join(shown_lines(here)) + "\n" == brief["text"] == client.get("/agents/swing/sees/text").text
    tokens = token_table(here)
    assert tokens["Whole"] == brief["tokens"] == sum(tokens.values()) - brief["tokens"]
    assert {"Recent trades", "Open positions", "Risk state", "From memory", "Strategy"} < set(tokens)
    assert [n for name, n in tokens.items() if name == "From memory"] == [
        s["tokens"] for s in brief["segments"] if s["name"] == "memory"
    ]
    assert not brief["past_threshold"] and page.locator("#tokens [role=alert]").count() == 0
    mark = float((page.locator("svg.tokens .base").get_attribute("x1") or "").rstrip("%"))
    assert mark == pytest.approx(min(100.0, 100 * 1500 / brief["tokens"]), abs=0.01)
    assert brief["digest"].startswith(here.text("#brief [role=status] code"))


def test_every_line_leads_to_its_source(visit: Come, floor: Memory, client: TestClient) -> None:
    brief = ask(floor, "swing", "get_brief")
    here = visit()
    page = here.at("/agents/swing/sees")
    kinds = {"trade", "episode", "plan"}
    assert kinds == {cited["kind"] for cited in brief["citations"]}
    for cited in brief["citations"]:
        line = page.locator(f"#line-{cited['line']} .source[title^='{cited['kind']} {cited['id']},']")
        to = line.get_attribute("href") or ""
        assert client.get(to.partition("#")[0]).status_code == 200, to
    page.locator("#text .source", has_text="plan").first.click()
    page.wait_for_url("**/plans#plan-half")


@pytest.mark.parametrize("scripts", [True, False])
def test_a_past_moment_is_shown_with_what_was_known_then(visit: Come, floor: Memory, scripts: bool) -> None:
    here = visit(scripts=scripts)
    page = here.at("/agents/swing/sees")
    page.get_by_label("As of (UTC)").fill("2024-08-01T00:00:00")
    page.get_by_label("Symbol").fill("MSFT")
    page.get_by_label("Budget, tokens").fill("800")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**budget=800**")
    page.wait_for_selector("#text a[href*='budget=800']")  # the last of the three changes has arrived
    assert "As of 2024-08-01 00:00 UTC" in here.text("#brief [role=status]")
    asked = {"as_of": "2024-08-01T00:00:00Z", "symbol": "MSFT", "budget": 800}
    brief = ask(floor, "swing", "get_brief", **asked)
    assert "\n".join(shown_lines(here)) + "\n" == brief["text"] and brief["tokens"] <= 800
    assert page.get_by_label("As of (UTC)").input_value() == "2024-08-01T00:00" and page.locator("#tokens svg").count() == 1
    assert "above the threshold" not in here.text("#brief") and "Lines left out for want of room" in here.text("#tokens")


def test_what_memory_adds_is_marked_line_by_line(visit: Come, floor: Memory) -> None:
    bare, full = (ask(floor, "swing", "get_brief", without_memory=without) for without in (True, False))
    here = visit()
    page = here.at("/agents/swing/sees")
    page.locator("#sees-view").select_option("difference")
    page.wait_for_selector("#text .compared")
    lines, signs = shown_lines(here), [str(sign.text_content()) for sign in page.locator("#text .line .sign").all()]
    assert "\n".join(line for line, sign in zip(lines, signs, strict=True) if sign != "−") + "\n" == full["text"]
    assert "\n".join(line for line, sign in zip(lines, signs, strict=True) if sign != "+") + "\n" == bare["text"]
    assert f"With memory: {full['tokens']:,} tokens. Without: {bare['tokens']:,}." in here.text("#text [role=status]")
    page.locator("#sees-view").select_option("without")
    page.wait_for_selector("#text h2:has-text('without memory')")
    assert "\n".join(shown_lines(here)) + "\n" == bare["text"] and "From memory" not in token_table(here)


_texts = st.lists(st.sampled_from(["", "a", "b", "- long", "- short"]), max_size=12).map(lambda lines: "\n".join(lines) + "\n")


@given(_texts, _texts)
def test_a_comparison_holds_both_texts_whole(before: str, after: str) -> None:
    found = diff_lines(before, after)
    assert "\n".join(line.text for line in found if line.sign != "+") + "\n" == before
    assert "\n".join(line.text for line in found if line.sign != "-") + "\n" == after


@pytest.mark.parametrize(
    ("query", "words"), [("budget=dear", "budget: is not a whole number"), ("as_of=yesterday", "as_of"), ("budget=7", "budget")]
)
def test_a_wrong_field_is_reported_beside_the_form(client: TestClient, query: str, words: str) -> None:
    answer = client.get(f"/agents/swing/sees?{query}")
    assert answer.status_code == 422 and words in answer.text and 'name="budget"' in answer.text
    assert client.get(f"/agents/swing/sees/text?{query}").status_code == 422


# ---- what was shown ------------------------------------------------------------------------------------------------------


def test_a_brief_that_was_shown_is_reproduced_byte_for_byte_after_more_trades(visit: Come, desk: Memory) -> None:
    record = ask(desk, "desk", "list_shown_briefs")["shown"][0]
    stored = ask(desk, "desk", "get_shown_brief", digest=record["digest"])["text"]
    assert stored != ask(desk, "desk", "get_brief", budget=900)["text"]
    with looking(visit, desk) as here:
        page = here.at("/agents/desk/sees")
        assert "run morning" in here.text("#past")
        page.locator("#past tbody a").first.click()
        page.wait_for_url("**/sees/shown/*")
        assert "Reproduced byte for byte." in here.text("#reproduced") and record["digest"] in here.text("#reproduced")
        assert "\n".join(shown_lines(here)) + "\n" == stored
        here.at("/agents/other/sees")
        assert "None yet." in here.text("#past")


def test_a_brief_that_comes_out_otherwise_now_says_so_and_shows_what_differs(visit: Come, desk: Memory) -> None:
    record = ask(desk, "desk", "list_shown_briefs")["shown"][0]
    stored = ask(desk, "desk", "get_shown_brief", digest=record["digest"])["text"]
    desk.resources.tokens = (lambda text: len(text) // 2, "another tokenizer")  # what fitted then does not fit now
    with looking(visit, desk) as here:
        page = here.at(f"/agents/desk/sees/shown/{record['id']}")
        assert "Computed again, it is different" in here.text("#reproduced [role=alert]") and "Reproduced" not in here.text(
            "#reproduced"
        )
        signs = [str(sign.text_content()) for sign in page.locator("#text .line .sign").all()]
        stored_lines = [line for line, sign in zip(shown_lines(here), signs, strict=True) if sign != "+"]
        assert "\n".join(stored_lines) + "\n" == stored and "−" in signs


def test_a_brief_that_nobody_was_shown_is_a_page_that_says_so(client: TestClient) -> None:
    assert client.get("/agents/swing/sees/shown/nothing").status_code == 404


# ---- the skill and its memory --------------------------------------------------------------------------------------------


def test_the_panel_previews_what_an_agent_would_see_while_it_is_filled_in(visit: Come, desk: Memory) -> None:
    with looking(visit, desk) as here:
        page = here.at("/skills/trend")
        before = token_table(here)
        assert "What desk would see" in here.text("#preview") and before["Recent trades"] > 100
        page.get_by_label("Recent trades, 0 to 30").fill("2")
        until(page, f"!document.querySelector('.token-table tfoot').textContent.includes('{before['Whole']:,}')")
        memory = ask(desk, "desk", "show_skill", id="trend")["memory"] | {"recentTradesK": 2}
        brief = preview(desk, memory)
        assert token_table(here)["Whole"] == brief["tokens"] < before["Whole"]
        page.get_by_label("Memory on").uncheck()
        page.wait_for_selector("#preview:not(:has-text('Recent trades'))")
        page.locator("#preview summary").click()
        assert "\n".join(shown_lines(here, "#preview")) + "\n" == preview(desk, memory | {"enabled": False})["text"]
        assert ask(desk, "desk", "show_skill", id="trend")["version"] == 1  # looking changes nothing
        page.get_by_label("Recent trades, 0 to 30").fill("99")
        page.wait_for_selector("#preview [role=alert]:has-text('recentTradesK')")


def preview(memory: Memory, config: dict[str, Any]) -> dict[str, Any]:
    from memtape.surfaces.registry import execute

    return execute(memory, "preview_brief", {"memory": config}, agent="desk")


@pytest.mark.parametrize("scripts", [True, False])
def test_saving_the_panel_makes_a_version_that_an_agent_runs_when_the_owner_says_so(
    visit: Come, desk: Memory, scripts: bool
) -> None:
    with looking(visit, desk, scripts=scripts) as here:
        page = here.at("/skills/trend")
        page.get_by_label("Recent trades, 0 to 30").fill("1")
        page.get_by_label("A lesson is shown for, days").fill("30")
        if not scripts:
            page.get_by_role("button", name="Preview").click()
            assert page.get_by_label("Recent trades, 0 to 30").input_value() == "1"
        page.get_by_role("button", name="Save as version 2").click()
        page.wait_for_url("**saved=2**")
        made = ask(desk, "desk", "show_skill", id="trend")
        assert (made["version"], made["memory"]["recentTradesK"], made["memory"]["reflection"]["expireDays"]) == (2, 1, 30)
        first = ask(desk, "desk", "show_skill", id="trend", version=1)
        assert all(made[name] == first[name] for name in ("name", "strategy", "avoid", "limits"))
        assert "recentTradesK 10 to 1; expireDays 90 to 30" in here.text("#versions")
        assert [desk.agent(name).agent.skill_version for name in ("desk", "other")] == [1, 1]
        page.get_by_role("button", name="Let desk use version 2").click()
        page.wait_for_selector("#agents tr:has-text('desk'):has-text('the latest')")
        assert [desk.agent(name).agent.skill_version for name in ("desk", "other")] == [2, 1]
        assert len([s for s in ask(desk, "desk", "get_brief")["text"].split("\n") if "XAU" in s and "→" in s]) == 1


def test_an_earlier_version_can_be_read(visit: Come, desk: Memory) -> None:
    desk.create_skill("trend", strategy="Sell weakness.")
    with looking(visit, desk) as here:
        page = here.at("/skills/trend")
        assert "Sell weakness." in here.text("section:has(#text-title)")
        page.get_by_role("link", name="version 1", exact=True).click()
        page.wait_for_url("**version=1")
        content = here.text("section:has(#text-title)")
        assert (
            "An earlier version." in content
            and "Stop below the range." in content
            and "No shorts." in content
            and "risk 1 %" in content
        )


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"recentTradesK": "99"}, 422),
        ({"everyNTrades": ""}, 422),
        ({"model": ""}, 422),
        ({"cadence": "often"}, 422),
        ({"version": "7"}, 409),
    ],
)
def test_a_panel_that_cannot_be_kept_stays_as_it_was_typed(desk: Memory, changed: dict[str, str], status: int) -> None:
    with client_of(desk) as client:
        answer = client.post("/skills/trend/memory", data=PANEL | changed, headers=OWN)
        assert answer.status_code == status and 'role="alert"' in answer.text
        assert f'name="dailyHourUtc" value="{PANEL["dailyHourUtc"]}"' in answer.text
        assert ask(desk, "desk", "show_skill", id="trend")["version"] == 1


def test_only_a_page_of_memtapes_own_may_change_a_skill_and_only_its_own_agents(desk: Memory) -> None:
    desk.create_skill("fade")
    with client_of(desk) as client:
        for headers in ({}, {"origin": "null"}, {"origin": "https://elsewhere.example"}, {**OWN, "sec-fetch-site": "cross-site"}):
            assert client.post("/skills/trend/memory", data=PANEL, headers=headers).status_code == 403
            assert client.post("/skills/trend/use", data={"agent": "desk", "version": "1"}, headers=headers).status_code == 403
        assert client.post("/skills/fade/use", data={"agent": "desk", "version": "1"}, headers=OWN).status_code == 404
        assert ask(desk, "desk", "show_skill", id="trend")["version"] == 1
        assert [client.get(f"/skills/{path}").status_code for path in ("nothing", "A b", "trend/memory", "trend/else")] == [
            404
        ] * 4


# ---- all of it -----------------------------------------------------------------------------------------------------------


def test_what_it_sees_and_its_skill_fit_their_window_and_bring_no_script_of_their_own(
    visit: Come, floor: Memory, client: TestClient
) -> None:
    here = visit()
    sees = [f"/agents/{agent}/sees{query}" for agent in ("swing", "crypto", "fresh") for query in ("", "?view=difference")]
    for path in (*sees, "/skills/breakout"):
        page = here.at(path)
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
        brings_nothing_of_its_own(client, path)
        for width, colours in here.windows():
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
            assert page.evaluate(STICKING_OUT) == [], path
            if "?" not in path:
                keep(here, f"{path.strip('/').replace('/', '-')}-{width}-{colours}")
