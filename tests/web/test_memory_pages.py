"""The pages of memory in a real browser: what an agent remembers, believes, does, feels and intends, as the engine says it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

import memtape
from memtape.core.sources import TIER_WORDS
from memtape.engine import Memory
from memtape.surfaces.registry import execute
from memtape.surfaces.web.charts import factor_bars
from tests.web.conftest import served
from tests.web.floor import HOSTILE_SEEN
from tests.web.test_answers import brings_nothing_of_its_own, client_of
from tests.web.test_pages import Come, keep, until

PAGES = ("losses", "memory", "beliefs", "behaviour", "state", "plans")
# What is wider than its panel, except where a panel scrolls on purpose.
STICKING_OUT = """[...document.querySelectorAll("main *")].filter((one) => !one.closest(".scroll, .hidden, .chart, svg")
  && one.getBoundingClientRect().right > one.parentElement.closest(".panel, main").getBoundingClientRect().right + 1)
  .map((one) => one.outerHTML.slice(0, 120))"""


def ask(memory: Memory, agent: str, operation: str, **asked: Any) -> dict[str, Any]:
    return execute(memory, operation, asked, agent=agent)


def pages_of(memory: Memory, agent: str) -> list[str]:
    beliefs = [belief["id"] for belief in ask(memory, agent, "get_beliefs")["beliefs"]]
    addresses = [*PAGES, "memory?explain=1&profile=balanced", *(f"beliefs/{quote(id_, safe='')}" for id_ in beliefs[:2])]
    return [f"/agents/{agent}/{address}" for address in addresses]


# ---- all of them ---------------------------------------------------------------------------------------------------------


def test_every_page_of_memory_fits_its_window_and_complains_of_nothing(visit: Come, floor: Memory) -> None:
    here = visit()
    for path in (path for agent in ("swing", "crypto", "fresh") for path in pages_of(floor, agent)):
        answer = here.page.goto(here.address + path)
        assert answer is not None and answer.status == 200, path
        for width, colours in here.windows():
            assert here.page.evaluate("document.documentElement.scrollWidth") <= width, path
            assert here.page.evaluate(STICKING_OUT) == [], path
            if "swing" in path and "?" not in path and "%" not in path:
                keep(here, f"{path.replace('/agents/swing/', '').replace('/', '-')}-{width}-{colours}")


def test_the_pages_of_an_agent_lead_to_each_other(visit: Come) -> None:
    here = visit()
    here.at("/agents/swing")
    here.drawn()
    for word in ("Memory", "Beliefs", "Behaviour", "State", "Plans"):
        here.page.locator(".sections").get_by_role("link", name=word).click()
        here.page.wait_for_url(f"**/agents/swing/{word.lower()}")
        assert here.text("h1").startswith(word) and "simulated" in here.text("h1")
        assert here.text(".sections [aria-current]") == word
    here.page.locator(".sections").get_by_role("link", name="Overview").click()
    here.page.wait_for_url("**/agents/swing")


def test_no_page_of_memory_brings_a_script_or_a_style_of_its_own(client: TestClient, floor: Memory) -> None:
    for path in (path for agent in ("swing", "crypto", "fresh") for path in pages_of(floor, agent)):
        brings_nothing_of_its_own(client, path)
        assert "script-src 'self'; style-src 'self'" in client.get(path).headers["content-security-policy"]


@pytest.fixture
def client(floor: Memory) -> Iterator[TestClient]:
    with client_of(floor) as client:
        yield client


@pytest.mark.parametrize("path", ["beliefs/nothing", "beliefs/" + "x" * 300, "memory/else", "plans/confirm"])
def test_what_is_not_remembered_is_a_page_that_says_so(client: TestClient, path: str) -> None:
    answer = client.get(f"/agents/swing/{path}")
    assert answer.status_code == 404 and "<h1>Not found</h1>" in answer.text and "<script>" not in answer.text


def test_an_agent_that_nobody_made_has_no_memory(client: TestClient) -> None:
    assert [client.get(f"/agents/nobody/{room}").status_code for room in PAGES] == [404] * len(PAGES)


# ---- the explorer --------------------------------------------------------------------------------------------------------


def test_the_parts_of_a_bar_multiply_to_the_score(visit: Come, floor: Memory) -> None:
    here = visit()
    here.at("/agents/swing/memory?symbol=AAPL&explain=1")
    found = ask(floor, "swing", "recall_memories", symbol="AAPL", explain=True)
    shown = here.page.locator("#ranked .memories > li").all()
    assert len(shown) == len(found["ranked"]) > 3
    lengths: list[float] = []
    for item, row in zip(shown, found["ranked"], strict=True):
        score = float(item.locator(".score").get_attribute("title") or "")
        parts = [
            (float(part.get_attribute("data-factor") or ""), float((part.get_attribute("width") or "").rstrip("%")))
            for part in item.locator("svg.costs rect").all()
        ]
        assert score == row["score"] and math.prod(factor for factor, _ in parts) == pytest.approx(score, rel=1e-9)
        lengths += [width / -math.log(factor) for factor, width in parts if factor < 0.99]
        assert sum(width for _, width in parts) == pytest.approx(-math.log(score) * lengths[-1], rel=1e-4)
        label = item.locator("svg.costs").get_attribute("aria-label") or ""
        assert label.startswith("Score 0.") and "outcome 0." in label
    assert max(lengths) == pytest.approx(min(lengths), rel=1e-4)  # one scale for all


@given(
    st.lists(st.dictionaries(st.sampled_from(["Q", "Sim", "Rec", "Conf", "Aff"]), st.floats(0.001, 1.5), min_size=1), min_size=1)
)
def test_the_lengths_of_a_bar_add_up_to_the_logarithm_of_its_score(scores: list[dict[str, float]]) -> None:
    longest = max(sum(max(-math.log(factor), 0.0) for factor in each.values()) for each in scores) or 1.0
    for each, parts in zip(scores, factor_bars(scores), strict=True):
        signed = sum(-part.width if part.raises else part.width for part in parts)
        assert signed * longest / 100 == pytest.approx(-math.log(math.prod(each.values())), abs=1e-5 * longest + 1e-9)
        assert all(
            part.x <= 100 for part in parts
        )  # to the left as far as the raising factor reaches, however short the longest is


def test_the_explorer_begins_with_the_situation_of_the_moment_and_answers_another(visit: Come, floor: Memory) -> None:
    here = visit()
    page = here.at("/agents/swing/memory")
    last = floor.agent("swing").ledger.trades()[0].symbol
    own = ask(floor, "swing", "recall_memories", symbol=last)["situation"]
    assert page.get_by_label("Symbol").input_value() == last
    assert page.get_by_label("Regime").input_value() == own["regime"]
    assert float(page.get_by_label("Price", exact=True).input_value()) == pytest.approx(own["price"], rel=1e-5)
    assert float(page.get_by_label("Drawdown, %").input_value()) == pytest.approx(100 * own["drawdown_pct"], rel=1e-3)

    page.get_by_label("Symbol").fill("MSFT")
    page.get_by_label("Regime").fill("trending_up")
    page.get_by_label("How many").fill("3")
    for name in ("ATR (day), in price", "Price", "Session"):
        page.get_by_label(name, exact=True).fill("")
    page.get_by_role("button", name="Recall").click()
    page.wait_for_url("**regime=trending_up**")
    until(page, "document.querySelectorAll('#ranked .memories > li').length === 3")
    drawdown = float(page.get_by_label("Drawdown, %").input_value()) / 100
    situation = {"symbol": "MSFT", "regime": "trending_up", "drawdown_pct": drawdown}
    found = ask(floor, "swing", "recall_memories", symbol="MSFT", context=situation, limit=3)
    scores = [item.get_attribute("title") for item in page.locator("#ranked .score").all()]
    assert [float(score or "") for score in scores] == [item["score"] for item in found["ranked"]]
    evidence = found["evidence"]
    assert f"n = {evidence['n']}, n_eff = {evidence['n_eff']:.1f}" in here.text("#evidence-title")
    assert f"Win rate {100 * evidence['win_rate']:.1f} %" in here.text("#evidence")
    assert evidence["hint"]["reasons"][0] in here.text("#evidence")
    assert "Outcomes from " in here.text("#evidence") and page.locator("#evidence .histogram rect").count() == 7
    assert [("far" in (li.get_attribute("class") or "")) for li in page.locator("#warnings .memories > li").all()] == [
        item["far"] for item in found["warnings"]
    ]

    page.get_by_role("button", name="Present situation").click()
    page.wait_for_url("**now=1**")
    until(page, "document.querySelector('#ask-price').value !== ''")
    assert page.get_by_label("Symbol").input_value() == "MSFT"


def test_every_memory_leads_to_its_own_page(visit: Come, floor: Memory) -> None:
    here = visit()
    for list_ in ("#ranked", "#warnings"):
        here.at("/agents/swing/memory?symbol=MSFT")
        links = [link.get_attribute("href") or "" for link in here.page.locator(f"{list_} .title a").all()]
        assert links
        for path in {path.split("/")[3]: path for path in links}.values():
            answer = here.page.goto(here.address + path)
            assert answer is not None and answer.status == 200


def test_what_is_typed_wrong_is_said_beside_the_form(visit: Come) -> None:
    here = visit(expected=("status of 422",))
    page = here.at("/agents/swing/memory?symbol=AAPL")
    for field, text, words in (("Price", "dear", "price: is not a number"), ("As of (UTC)", "yesterday", "as_of:")):
        page.get_by_label(field, exact=True).fill(text)
        page.get_by_role("button", name="Recall").click()
        page.wait_for_selector(f"#explorer [role=alert]:has-text('{words}')")
        assert page.get_by_label(field, exact=True).input_value() == text and page.get_by_label("Symbol").input_value() == "AAPL"
        page.get_by_label(field, exact=True).fill("")
    page.get_by_role("button", name="Recall").click()
    page.wait_for_selector("#ranked .memories > li")


def test_recall_as_of_an_earlier_day_knows_only_what_was_known_then(visit: Come, floor: Memory) -> None:
    here = visit(scripts=False)
    page = here.at("/agents/swing/memory")
    page.get_by_label("As of (UTC)").fill("2024-08-01T00:00:00Z")
    page.get_by_role("button", name="Present situation").click()
    known = [t for t in floor.agent("swing").ledger.trades(status="closed") if t.exit_at and f"{t.exit_at:%F}" < "2024-08-01"]
    assert f"As of 2024-08-01 00:00 UTC, from n = {len(known)} closed trades" in here.text("#explorer [role=status]")
    assert 0 < len(known) < len(floor.agent("swing").ledger.trades(status="closed"))


# ---- beliefs -------------------------------------------------------------------------------------------------------------


def test_beliefs_are_chosen_by_status_and_a_merged_one_leads_to_what_says_the_same(visit: Come, floor: Memory) -> None:
    beliefs = ask(floor, "swing", "get_beliefs")["beliefs"]
    merged = [belief for belief in beliefs if belief["status"] == "merged"]
    here = visit()
    page = here.at("/agents/swing/beliefs")
    assert page.locator("#beliefs tbody tr").count() == len(beliefs) > len(merged) > 0
    page.get_by_label("Status").select_option("merged")
    page.wait_for_url("**status=merged**")
    until(page, f"document.querySelectorAll('#beliefs tbody tr').length === {len(merged)}")
    assert merged[0]["why"] in here.text("#beliefs") and page.locator("#beliefs svg.rate").count() == len(merged)
    page.locator("#beliefs tbody a").first.click()
    page.wait_for_url(f"**/beliefs/{merged[0]['id']}")
    into = next(belief for belief in beliefs if belief["id"] == merged[0]["related"][0])
    page.get_by_role("link", name=into["sentence"], exact=True).click()
    page.wait_for_url(f"**/beliefs/{into['id']}")
    assert merged[0]["sentence"] in here.text("section:has(#related-title)")


def test_a_belief_shows_how_sure_it_is_and_every_trade_for_and_against(visit: Come, floor: Memory) -> None:
    found = ask(floor, "swing", "get_belief", belief_id="shorts-lose")
    belief = found["belief"]
    here = visit()
    page = here.at("/agents/swing/beliefs/shorts-lose")
    assert belief["base_rate"] is not None and page.locator("svg.density .base").count() == 1
    x = float((page.locator("svg.density .base").get_attribute("x1") or "").rstrip("%"))
    assert x == pytest.approx(100 * belief["base_rate"], abs=0.01)
    shaded = [float(point.split(",")[0]) for point in (page.locator(".likely").get_attribute("points") or "").split()]
    assert [min(shaded) / 1000, max(shaded) / 1000] == pytest.approx(belief["interval_90"], abs=1e-4)
    for name in ("confirming", "contradicting"):
        paths = [link.get_attribute("href") for link in page.locator(f"#{name} a").all()]
        assert paths == [f"/agents/swing/trades/{id_}" for id_ in found[name][::-1]] != []
    page.locator("#confirming a").first.click()
    learned = page.locator("section:has(#learned-title)")
    learned.wait_for()
    assert belief["sentence"] in learned.inner_text() and "Evidence for" in learned.inner_text()


def test_a_trade_says_in_which_situation_it_was_entered_and_what_was_like_it(visit: Come, floor: Memory) -> None:
    trade = floor.agent("swing").ledger.trades(status="closed")[0]
    reflection = ask(floor, "swing", "get_trade_reflection", trade_id=trade.id)
    here = visit()
    here.at(f"/agents/swing/trades/{trade.id}")
    here.drawn()
    content = here.text("section:has(#learned-title)")
    assert f"Regime {reflection['episode']['regime'].replace('_', ' ')}" in content
    assert f"outcome from {TIER_WORDS[reflection['episode']['tier']]}" in content
    for item in reflection["similar"]:
        assert here.page.locator(f"section:has(#learned-title) a[href='/agents/swing/trades/{item['id']}']").count() == 1
    open_ = floor.agent("swing").ledger.trades(status="open")[0]
    here.at(f"/agents/swing/trades/{open_.id}")
    assert "Nothing yet: a trade becomes a memory when it closes." in here.text("section:has(#learned-title)")


# ---- behaviour and state -------------------------------------------------------------------------------------------------


def test_a_habit_below_its_sample_is_grey_and_says_what_it_lacks(visit: Come, floor: Memory) -> None:
    here = visit()
    for agent in ("swing", "crypto", "fresh"):
        page = here.at(f"/agents/{agent}/behaviour")
        figures = ask(floor, agent, "get_behavioral_analysis")["figures"]
        for name, figure in figures.items():
            tile = page.locator(f"[data-figure={name}]")
            content = " ".join(tile.inner_text().split())
            assert ("off" in (tile.get_attribute("class") or "").split()) == (figure["value"] is None)
            assert (figure["why"][1:] if figure["value"] is None else f"n = {figure['n']};") in content
    assert "No closed trades yet" in here.text("#behaviour")


def test_habits_can_be_reflection_of_one_symbol(visit: Come, floor: Memory) -> None:
    here = visit()
    page = here.at("/agents/swing/behaviour")
    page.get_by_label("Symbol").select_option("MSFT")
    page.wait_for_url("**symbol=MSFT**")
    found = ask(floor, "swing", "get_behavioral_analysis", symbol="MSFT")
    page.wait_for_selector(f"#behaviour [role=status]:has-text('n = {found['n']} closed')")
    rate = found["figures"]["win_rate"]
    assert f"Win rate {100 * rate['value']:.1f} % n = {rate['n']};" in here.text("[data-figure=win_rate]")
    assert page.locator("section:has(#drift-title) tbody tr").count() == len(found["drift"])
    assert all(pattern["sentence"] in here.text("section:has(#patterns-title)") for pattern in found["patterns"])


def test_closes_that_have_no_r_make_no_confidence() -> None:
    memory = memtape.open(":memory:")
    for n in range(4):
        told = {"symbol": "BTC", "direction": "long", "entry_price": 100, "exit_price": 99, "qty": 1, "trade_id": f"t{n}",
                "entry_at": f"2026-06-0{n + 1}T08:00:00Z", "exit_at": f"2026-06-0{n + 1}T09:00:00Z"}  # fmt: skip
        execute(memory, "remember_trade", told)
    page = client_of(memory).get("/agents/main/state").text
    assert "none of the 4 closes has one" in page and "closes with an R" not in page


def test_the_state_is_drawn_with_a_stroke_for_every_close(visit: Come, floor: Memory) -> None:
    state = ask(floor, "swing", "get_agent_state", history=5000)
    closes = [step for step in state["history"] if step["what"] == "close" and step["pnl_r"] is not None]
    here = visit()
    page = here.at("/agents/swing/state")
    strokes = {way: (page.locator(f".lane .{way}").get_attribute("d") or "").count("M") for way in ("won", "lost")}
    assert strokes == {"won": sum(s["pnl_r"] > 0 for s in closes), "lost": sum(s["pnl_r"] < 0 for s in closes)}
    assert f"Without a win {state['consecutive_losses']}" in here.text(".tiles")
    assert f"{100 * state['drawdown_pct']:.1f} %" in here.text(".tiles") and f"n = {state['n']} closes" in here.text(".tiles")
    assert page.locator(".lane polyline.equity").count() == 1
    page = here.at("/agents/fresh/state")
    assert page.locator(".tiles.off").count() == 1 and page.locator(".lane").count() == 0
    assert "No closed trades and no equity marks yet" in here.text("main")


def test_an_agent_without_trades_says_why_everything_is_grey(visit: Come) -> None:
    here = visit()
    for page, words in (
        ("memory", ("No closed trade yet: there are no memories.", "no rate, no interval, no size")),
        ("beliefs", ("No closed trades yet. A belief needs 10 trades",)),
        ("plans", ("No active plan.", "No plan needs your confirmation.", "No plan has ended yet.")),
    ):
        here.at(f"/agents/fresh/{page}")
        assert all(each in here.text("main") for each in words), page
        assert here.page.locator("p.off").count() >= 1


# ---- plans ---------------------------------------------------------------------------------------------------------------


def test_plans_say_when_they_apply_and_which_of_them_is_followed(visit: Come, floor: Memory) -> None:
    check = ask(floor, "swing", "check_active_plans", all=True)
    assert check["leads"] and check["overruled"] == ["half"]
    here = visit()
    here.at("/agents/swing/plans")
    now = here.text("section:has(#now-title)")
    assert "2 plans of 2 active apply. Combined: 25 % of the usual size" in now and "Overruled" in now
    assert "If number of trades in a row without a win is at least 1: take 25 % of the usual size." in here.text("#plan-less")
    assert "overruled" in here.text("#plan-half") and "Worth not known yet: n = 0" in here.text("#plan-half")
    assert "From the agent (model), advice only" in here.text("#proposed") and "cancelled" in here.text("#ended")
    assert here.page.locator("#ended button").count() == 0


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Memory]:
    """An agent of which a model proposes two plans."""
    with memtape.open(str(tmp_path / "desk.db")) as memory:
        memory.create_skill("trend")
        memory.create_agent("desk", skill="trend", mode="paper")
        for name in ("one", "two"):
            plan = {"trigger_condition": {"regime": "ranging"}, "planned_action": {"type": "skip_trade"}}
            ask(memory, "desk", "create_trading_plan", id=name, reasoning=f"Plan {name}.", maker="agent", **plan)
        yield memory


def plan_statuses(memory: Memory) -> dict[str, str]:
    return {plan["id"]: plan["status"] for plan in ask(memory, "desk", "check_active_plans", all=True)["plans"]}


@pytest.mark.parametrize("scripts", [True, False])
def test_a_proposed_plan_is_confirmed_by_a_click_and_another_cancelled(visit: Come, desk: Memory, scripts: bool) -> None:
    with served(desk) as address:
        here = visit(at=address, scripts=scripts)
        page = here.at("/agents/desk/plans")
        assert plan_statuses(desk) == {"one": "proposed", "two": "proposed"}
        page.get_by_role("button", name="Confirm the plan: Plan one.").click()
        page.wait_for_selector("#active #plan-one")
        assert plan_statuses(desk) == {"one": "active", "two": "proposed"}
        page.get_by_role("button", name="Cancel the plan: Plan two.").click()
        page.wait_for_selector("#ended #plan-two")
        assert plan_statuses(desk) == {"one": "active", "two": "cancelled"}
        assert "n = 0" in here.text("#proposed-title") and page.url == f"{address}/agents/desk/plans"


def test_a_plan_that_has_ended_meanwhile_is_not_confirmed(visit: Come, desk: Memory) -> None:
    with served(desk) as address:
        here = visit(at=address, expected=("status of 409",))
        page = here.at("/agents/desk/plans")
        ask(desk, "desk", "cancel_plan", plan_id="one")
        page.get_by_role("button", name="Confirm the plan: Plan one.").click()
        page.wait_for_selector("#plans [role=alert]:has-text('cancelled')")
        assert page.locator("#ended #plan-one").count() == 1 and plan_statuses(desk)["one"] == "cancelled"


@pytest.mark.parametrize("origin", ["https://elsewhere.example", "http://127.0.0.1:1", "null", None])
def test_only_a_page_of_memtapes_own_may_confirm_a_plan(desk: Memory, origin: str | None) -> None:
    with client_of(desk) as client:
        headers = {} if origin is None else {"origin": origin}
        answer = client.post("/agents/desk/plans/confirm", data={"plan_id": "one"}, headers=headers)
        assert answer.status_code == 403 and plan_statuses(desk)["one"] == "proposed"
        own = {"origin": "http://127.0.0.1"}
        framed = {**own, "sec-fetch-site": "cross-site"}
        assert client.post("/agents/desk/plans/confirm", data={"plan_id": "one"}, headers=framed).status_code == 403
        assert plan_statuses(desk)["one"] == "proposed"
        assert client.get("/agents/desk/plans/confirm?plan_id=one").status_code == 404
        done = client.post("/agents/desk/plans/confirm", data={"plan_id": "one"}, headers=own, follow_redirects=False)
        assert done.status_code == 303 and plan_statuses(desk)["one"] == "active"


@pytest.mark.parametrize(("body", "status"), [(b"", 422), (b"plan_id=nothing", 409), (b"\xff" * 9, 422), (b"a=1&" * 99, 422)])
def test_a_form_that_names_no_plan_changes_nothing(desk: Memory, body: bytes, status: int) -> None:
    with client_of(desk) as client:
        answer = client.post("/agents/desk/plans/cancel", content=body, headers={"origin": "http://127.0.0.1"})
        assert answer.status_code == status and plan_statuses(desk) == {"one": "proposed", "two": "proposed"}


# ---- what the ledger does not have, and what means harm -------------------------------------------------------------------


def test_a_claim_that_no_broker_confirms_has_a_page_that_says_so(visit: Come, tmp_path: Path) -> None:
    claim = {"symbol": "XAU", "direction": "long", "entry_price": 100, "exit_price": 98, "pnl_r": -1, "context_regime": "ranging"}
    with memtape.open(str(tmp_path / "claims.db")) as memory, served(memory) as address:
        memory.create_skill("trend")
        memory.create_agent("desk", skill="trend", mode="paper")
        times = {"entry_at": "2026-06-04T07:00:00Z", "exit_at": "2026-06-04T08:00:00Z"}
        ask(memory, "desk", "remember_trade", **claim, **times, backfill=True)
        id_ = memory.agent("desk").ledger.trades()[0].id
        here = visit(at=address)
        here.at(f"/agents/desk/trades/{id_}")
        assert "as claimed" in here.text("section:has(#quality-title)") and "claimed by the agent" in here.text("main")
        here.at("/agents/desk/memory")
        assert "Outcomes: claimed by the agent." in here.text("#explorer")
        fill = {"id": "f1", "t": "2026-06-05T08:00:00Z", "symbol": "BTC", "side": "buy", "qty": "1", "px": "65200"}
        ask(memory, "desk", "observe_fill", **fill)
        assert [trade.symbol for trade in memory.agent("desk").ledger.trades()] == ["BTC"]
        here.at(f"/agents/desk/trades/{id_}")
        assert "XAU long" in here.text("h1") and "Neither the venue's records nor yours have it" in here.text("main")
        here.at("/agents/desk/memory?symbol=")
        assert "from n = 0 closed trades." in here.text("#explorer")


def test_hostile_words_in_plans_and_beliefs_are_shown_as_words(visit: Come, floor: Memory) -> None:
    here = visit()
    here.at("/agents/crypto/plans")
    assert HOSTILE_SEEN in here.text("#proposed")
    here.at("/agents/crypto/beliefs")
    assert HOSTILE_SEEN in here.text("#beliefs")
    here.page.locator("#beliefs tbody a").first.click()
    here.page.wait_for_selector("svg.density")
    assert HOSTILE_SEEN in here.text("h1") and 'b<i>"1/2' in here.text("main")
    here.at("/agents/crypto/behaviour")
    here.page.get_by_label("Strategy").select_option("odd[U+202E]one")
    here.page.wait_for_url("**strategy=**")
    here.page.wait_for_selector("#behaviour [role=status]:has-text('n = 1 closed')")
    assert here.page.locator("main img, main script, main i").count() == 0
    assert not any(turn in here.page.content() for turn in "\u202e\u202c")
