"""The pages of agents that run: making one, running it, chatting with it, and examining its decisions again."""

from __future__ import annotations

from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from starlette.testclient import TestClient

from memtape.core.decisions.runs import RunKind
from memtape.errors import Conflict, StoreFailure
from memtape.runners.conduct import RunTask, conduct_run
from memtape.surfaces.run_host import run_host
from memtape.surfaces.web.background import MAX_WAITING, BackgroundRuns, RequestedRun
from tests.web.floor import HOSTILE, HOSTILE_SEEN
from tests.web.running_desk import CARD, HELD, RunningDesk, running_desk
from tests.web.test_answers import brings_nothing_of_its_own, client_of

OWN = {"origin": "http://127.0.0.1"}
NEW = {"id": "silver", "skill": "breakout", "mode": "paper"}
PART = {"HX-Request": "true", "HX-Request-Type": "partial"}


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningDesk]:
    with running_desk(tmp_path, monkeypatch) as desk:
        yield desk


@pytest.fixture
def client(desk: RunningDesk) -> Iterator[TestClient]:
    with client_of(desk.memory) as client:
        yield client


class Fields(HTMLParser):
    """The named fields of a page with their values, and the text of each element that has an id."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.values: dict[str, str | None] = {}
        self.said: dict[str, str] = {}
        self._area = self._select = self._id = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        self._id = known.get("id") or ""
        if tag == "input" and known.get("name"):
            ticked = known.get("type") != "checkbox" or "checked" in known
            self.values[known["name"] or ""] = known.get("value") if ticked else None
        self._area = (known.get("name") or "") if tag == "textarea" else ""
        self._select = (known.get("name") or "") if tag == "select" else self._select
        if tag == "option" and "selected" in known:
            self.values[self._select] = known.get("value")

    def handle_data(self, data: str) -> None:
        if self._area:
            self.values[self._area] = data.removeprefix("\n")
            self._area = ""
        if self._id:
            self.said[self._id] = data
            self._id = ""


def post(client: TestClient, path: str, status: int = 303, **fields: str) -> str:
    """Send a form; the address that it leads to, or the page that says what is wrong."""
    answer = client.post(path, data=fields, headers=OWN, follow_redirects=False)
    assert answer.status_code == status, answer.text
    return str(answer.headers["location"]) if status == 303 else answer.text


def read(client: TestClient, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, path
    return " ".join(unescape(answer.text).split())


def scheduled(desk: RunningDesk, n: int) -> None:
    for _ in range(n):
        desk.later(15)
        conduct_run(desk.memory, run_host(desk.memory), "gold", RunTask(kind="scheduled", prompt="Look."))


def until(condition: Any) -> None:
    deadline = monotonic() + 20
    while not condition():
        assert monotonic() < deadline, "it never came"
        sleep(0.02)


# ---- every page ----------------------------------------------------------------------------------------------------------


def test_every_page_of_runs_brings_nothing_of_its_own_and_reading_writes_nothing(desk: RunningDesk, client: TestClient) -> None:
    desk.configure(active_memory=True, members=["macro"], schedule="every 15m")
    run = desk.run()
    desk.ask("reexamine_decision", decision=run)
    desk.ask("send_message", text="Why?")
    heads = [desk.memory.agent(agent).head().hash for agent in ("gold", "macro")]
    for path in ("/", "/agents", "/agents/new", "/agents/gold/edit", "/agents/gold/runs", f"/agents/gold/runs/{run}",
                 "/agents/gold/chat", f"/agents/gold/decisions/{run}", f"/agents/gold/re-examine?decision={run}", "/results/trade-decisions",
                 f"/agents/macro/runs/{desk.runs('council', 'macro')[0]['id']}"):  # fmt: skip
        brings_nothing_of_its_own(client, path)
    assert [desk.memory.agent(agent).head().hash for agent in ("gold", "macro")] == heads


@pytest.mark.parametrize(
    "path",
    ["/agents/create", "/agents/gold/configure", "/agents/gold/memory/reset", "/agents/gold/runs/start", "/agents/gold/chat/send",
     "/agents/gold/re-examine/start", "/agents/gold/re-examine/answer"],
)  # fmt: skip
def test_a_form_of_another_site_is_refused(desk: RunningDesk, client: TestClient, path: str) -> None:
    desk.configure()
    for headers in ({}, {"origin": "https://elsewhere.example"}):
        assert client.post(path, data={**NEW, "text": "Sell all."}, headers=headers).status_code == 403
    assert desk.runs() == [] and desk.ask("list_agents", None)["n"] == 2


@pytest.mark.parametrize(
    "path",
    ["/agents/nobody/runs", "/agents/gold/runs/nothing", "/agents/gold/decisions/nothing", "/agents/gold/re-examine?decision=nothing",
     "/agents/gold/re-examine", "/agents/nobody/edit", "/agents/nobody/chat", "/results/nothing", "/agents/gold/decisions/" + "x" * 300],
)  # fmt: skip
def test_what_is_not_there_is_a_page_that_says_so(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404 and "<h1>Not found</h1>" in answer.text


def test_hostile_text_of_a_model_is_shown_as_text(desk: RunningDesk, client: TestClient) -> None:
    desk.configure()
    plain = HOSTILE.replace("\u202e", "").replace("\u202c", "")
    desk.runner.card = {**CARD, "thesis": plain, "watch_for": [plain], "symbol": "BTC"}
    desk.runner.chat = HOSTILE
    run = desk.run()
    desk.ask("send_message", text=HOSTILE)
    desk.runner.failure = HOSTILE
    desk.run()
    for path in (f"/agents/gold/runs/{run}", "/agents/gold/chat", f"/agents/gold/runs/{desk.runs('manual')[0]['id']}"):
        raw = client.get(path).text
        assert "<script>alert" not in raw and "<img src=x" not in raw and "\u202e" not in raw
    assert HOSTILE_SEEN in read(client, "/agents/gold/chat")


# ---- making and changing an agent ----------------------------------------------------------------------------------------


def test_a_new_agent_is_made_with_its_skill_and_shows_its_next_three_times(desk: RunningDesk, client: TestClient) -> None:
    where = post(
        client, "/agents/create", id="silver", skill="", skill_id="ranges", strategy="Fade the edges.\r\nNever chase.", mode="sim",
        active_memory="1", runner="llm", model="anthropic/x", default_prompt="Look at silver.", schedule="0 7 * * mon-fri",
        members="gold, macro", budget_usd_per_day="2.50", runs_per_day="40", card="research-note",
    )  # fmt: skip
    assert where == "/agents/silver/edit?saved=new"
    config = desk.ask("get_agent_config", "silver")["config"]
    assert config == {
        "active_memory": True, "review_decisions": False, "runner": "llm", "model": "anthropic/x", "default_prompt": "Look at silver.",
        "schedule": "0 7 * * mon-fri", "members": ["gold", "macro"], "budget_usd_per_day": "2.5", "runs_per_day": 40,
        "card": "research-note",
    }  # fmt: skip
    assert desk.ask("show_agent", None, id="silver")["mode"] == "sim"
    assert desk.ask("show_skill", None, id="ranges")["strategy"] == "Fade the edges.\nNever chase."
    page = read(client, where)
    assert "The agent silver was created. It runs next at:" in page
    assert [page.count(f"2026-03-0{day} 07:00 UTC") for day in (3, 4, 5, 6)] == [1, 1, 1, 0]


def test_every_wrong_field_of_a_new_agent_is_named_beside_it_and_nothing_is_made(desk: RunningDesk, client: TestClient) -> None:
    typed = {
        "id": "Gold!", "skill": "", "skill_id": "breakout", "strategy": "Buy <b>dips</b>.", "mode": "paper", "review_decisions": "1",
        "runner": "llm", "default_prompt": "Look.\nTwice.", "schedule": "0 0 30 2 *", "members": "nobody", "budget_usd_per_day": "much",
        "runs_per_day": "-3", "card": "napkin",
    }  # fmt: skip
    page = post(client, "/agents/create", 422, **typed)
    fields = Fields(page)
    wrong = {name.removeprefix("wrong-"): text for name, text in fields.said.items() if name.startswith("wrong-")}
    assert set(wrong) == {"id", "skill_id", "model", "schedule", "members", "budget_usd_per_day", "runs_per_day", "card"}
    assert "never fires" in wrong["schedule"] and "There is no agent 'nobody'" in wrong["members"]
    kept = {name: fields.values[name] for name in typed if name != "card"}
    assert kept == {name: text for name, text in typed.items() if name != "card"} and fields.values["active_memory"] is None
    assert page.count('aria-invalid="true"') == 8 and "Nothing was made" in page
    assert desk.ask("list_agents", None)["n"] == 2 and desk.ask("list_skills", None)["n"] == 1


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [({"id": "gold"}, "id", "There is an agent 'gold' already"), ({"id": "new"}, "id", "'new' is the address of this page"),
     ({"id": ""}, "id", "Is empty"), ({"skill": "none"}, "skill", "There is no skill 'none'"), ({"skill": ""}, "skill_id", "Is empty"),
     ({"mode": "real"}, "mode", "Should be"), ({"members": "silver"}, "members", "An agent cannot sit in its own council")],
)  # fmt: skip
def test_a_field_that_is_wrong_says_why(client: TestClient, change: dict[str, str], field: str, words: str) -> None:
    assert words in Fields(post(client, "/agents/create", 422, **{**NEW, **change})).said[f"wrong-{field}"]


def test_a_box_that_is_not_ticked_switches_off_and_an_empty_field_clears(desk: RunningDesk, client: TestClient) -> None:
    desk.configure(active_memory=True, review_decisions=True, schedule="every 15m", budget_usd_per_day="3", runs_per_day=5, model="m",
                   members=["macro"])  # fmt: skip
    fields = Fields(client.get("/agents/gold/edit").text).values
    assert (
        fields["active_memory"] == fields["review_decisions"] == "1"
        and fields["members"] == "macro"
        and fields["runs_per_day"] == "5"
    )
    assert post(client, "/agents/gold/configure", review_decisions="1") == "/agents/gold/edit?saved=1"
    config = desk.ask("get_agent_config")["config"]
    assert config["active_memory"] is False and config["review_decisions"] is True
    assert [config[name] for name in ("runner", "model", "schedule", "budget_usd_per_day", "runs_per_day")] == [None] * 5
    assert (
        config["members"] == []
        and config["card"] == ""
        and config["default_prompt"] == "Look at the market and at your records, and decide."
    )
    assert "Saved. It has no schedule" in read(client, "/agents/gold/edit?saved=1")


def test_a_council_in_a_circle_is_refused_beside_its_field(desk: RunningDesk, client: TestClient) -> None:
    desk.configure("macro", members=["gold"])
    page = post(client, "/agents/gold/configure", 422, members="macro", schedule="every 2h")
    assert "gold -> macro -> gold" in Fields(page).said["wrong-members"] and Fields(page).values["schedule"] == "every 2h"
    assert desk.ask("get_agent_config")["version"] == 0


def test_both_switches_are_off_by_default_and_active_memory_warns_of_its_cost(client: TestClient) -> None:
    for path in ("/agents/new", "/agents/gold/edit"):
        page = client.get(path).text
        assert Fields(page).values["active_memory"] is None and Fields(page).values["review_decisions"] is None
        assert "The context grows over time." in page and "cost more" in page


# ---- the memory of an agent ----------------------------------------------------------------------------------------------


def test_the_pill_says_what_an_agent_carries_and_turns_amber_past_twenty_runs(desk: RunningDesk, client: TestClient) -> None:
    assert "memory-fresh" not in client.get("/").text and "Reset memory" not in client.get("/agents/gold").text
    desk.configure(active_memory=True)
    assert ">Fresh</span>" in client.get("/agents").text
    scheduled(desk, 20)
    page = client.get("/").text
    assert "memory-carrying" in page and "Carrying context, 20 runs" in page and "memory-amber" not in page
    scheduled(desk, 1)
    desk.later(135)
    for path in ("/", "/agents"):
        assert "memory-amber" in client.get(path).text and "Carrying context, 21 runs" in client.get(path).text
    panel = read(client, "/agents/gold")
    assert "21 runs since the last reset: the context has grown long" in panel and "2h 15m" in panel


@pytest.mark.parametrize(
    ("back", "where"),
    [("list", "/?reset=gold"), ("agent", "/agents/gold?done=reset#active-memory"), ("chat", "/agents/gold/chat")],
)
def test_reset_starts_fresh_from_the_card_the_page_and_the_chat(
    desk: RunningDesk, client: TestClient, back: str, where: str
) -> None:
    desk.configure(active_memory=True)
    scheduled(desk, 2)
    desk.later(1)
    assert post(client, "/agents/gold/memory/reset", back=back) == where
    assert desk.ask("get_session")["status"] == "Fresh" and desk.ask("get_session")["runs_since_reset"] == 0
    assert "reset" in read(client, where.partition("#")[0]).lower()


# ---- runs ----------------------------------------------------------------------------------------------------------------


def test_run_now_goes_to_a_list_that_refreshes_until_the_run_has_ended(desk: RunningDesk, client: TestClient) -> None:
    desk.configure()
    with desk.runner.held():
        assert post(client, "/agents/gold/runs/start") == "/agents/gold/runs"
        desk.until_runs(1, "running")
        assert 'hx-trigger="every 2s"' in client.get("/agents/gold/runs").text
        run = desk.runs()[0]["id"]
        part = client.get(f"/agents/gold/runs/{run}", headers=PART).text
        assert part.lstrip().startswith('<div id="run" hx-get=') and "The agent is at work." in part and "<html" not in part
    desk.until_runs(1)
    until(lambda: "every 2s" not in client.get("/agents/gold/runs").text)
    page = read(client, f"/agents/gold/runs/{run}")
    assert (
        "every 2s" not in page and "Decision card" in page and "0.0125 US dollars" in page and "1,850 read, 240 written" in page
    )
    for slot in ("Entry", "Stop", "Target", "Thesis", "Invalidation", "Watch for", "Confidence", "Horizon"):
        assert f">{slot}</dt>" in page
    assert "recall_memories" in page and '"symbol": "BTC"' in page and page.count("<details>") >= 2


def test_a_button_pressed_twice_runs_once_and_another_prompt_waits_its_turn(desk: RunningDesk, client: TestClient) -> None:
    desk.configure()
    with desk.runner.held():
        for _ in range(2):
            post(client, "/agents/gold/runs/start")
        desk.until_runs(1, "running")
        post(client, "/agents/gold/runs/start", prompt="Look at gold instead.")
        assert "1 more waits for its turn" in read(client, "/agents/gold/runs")
    desk.until_runs(2)
    assert [question.prompt.endswith("Look at gold instead.") for question in desk.runner.questions] == [False, True]


def test_without_a_runner_the_page_says_so_at_once_and_nothing_is_started(desk: RunningDesk, client: TestClient) -> None:
    assert "Choose a runner" in client.get("/agents/gold").text and "Run now</button>" not in client.get("/agents/gold").text
    assert "is not configured for this agent" in post(client, "/agents/gold/runs/start", 422)
    page = post(client, "/agents/gold/chat/send", 422, text="Hello?")
    assert "is not configured for this agent" in page and "nobody answers" in page and desk.runs() == []


def test_a_problem_before_the_run_is_on_record_is_kept_until_the_next_one_is_asked_for(desk: RunningDesk) -> None:
    desk.configure()
    background = BackgroundRuns(desk.memory)
    asked = RequestedRun("gold", "manual", "")

    def broken() -> None:
        raise StoreFailure(url="desk.db", problem="the disk is gone")

    assert background.start(asked, broken)
    until(lambda: background.problem("gold"))
    assert "The run did not begin. The store desk.db failed: the disk is gone" in background.problem("gold")
    assert background.problem("macro") == "" and not background.waiting("gold")
    assert background.start(asked, lambda: None)
    until(lambda: not background.waiting("gold"))
    assert background.problem("gold") == ""


def test_a_bug_in_a_run_is_logged_and_told(desk: RunningDesk, caplog: pytest.LogCaptureFixture) -> None:
    desk.configure()
    background = BackgroundRuns(desk.memory)
    background.start(RequestedRun("gold", "chat", "x" * 200), lambda: 1 / 0)
    until(lambda: background.problem("gold"))
    assert "An internal error of memtape" in background.problem("gold") and "x" * 81 not in background.problem("gold")
    assert "ZeroDivisionError" in caplog.text


def test_only_so_many_runs_of_an_agent_may_wait(desk: RunningDesk) -> None:
    desk.configure()
    background = BackgroundRuns(desk.memory)
    with desk.runner.held():
        for n in range(MAX_WAITING):
            assert background.start(RequestedRun("gold", "chat", str(n)), desk.runner.go.wait)
        with pytest.raises(Conflict, match="16 runs of gold are waiting"):
            background.start(RequestedRun("gold", "chat", "one more"), desk.runner.go.wait)
    until(lambda: not background.waiting("gold"))


def test_the_list_of_runs_shows_one_kind_if_asked(desk: RunningDesk, client: TestClient) -> None:
    desk.configure()
    run = desk.run()
    desk.ask("send_message", text="Why?")
    desk.ask("reexamine_decision", decision=run)
    kinds: dict[RunKind, str] = {"manual": "started by hand", "chat": ">chat<", "re-examination": "examined</span>"}
    for kind in kinds:
        part = client.get(f"/agents/gold/runs?kind={kind}", headers=PART).text
        assert part.count("<tr>") == 2 and [words in part for words in kinds.values()].count(True) == 1 and kinds[kind] in part
    assert client.get("/agents/gold/runs?kind=strange", headers=PART).text.count("<tr>") == 4
    assert "No run of this kind yet." in read(client, "/agents/gold/runs?kind=council")


def test_a_run_that_failed_says_why(desk: RunningDesk, client: TestClient) -> None:
    desk.configure(runs_per_day=1)
    desk.runner.failure = "the model is overloaded"
    run = desk.run()
    assert "the model is overloaded" in read(client, f"/agents/gold/runs/{run}")
    stopped = desk.run()
    page = read(client, f"/agents/gold/runs/{stopped}")
    assert "runs_per_day: 1 of 1 runs of this UTC day are used" in page and "not run" in page and "There is no answer." in page


def test_the_runs_of_a_council_and_its_lead_lead_to_each_other(desk: RunningDesk, client: TestClient) -> None:
    desk.configure(members=["macro"])
    run, other = desk.run(), desk.run()
    mine, _ = reversed(desk.runs("council", "macro"))
    page = read(client, f"/agents/gold/runs/{run}")
    assert f"/agents/macro/runs/{mine['id']}" in page and page.count("/agents/macro/runs/") == 1
    member = read(client, f"/agents/macro/runs/{mine['id']}")
    assert f"/agents/gold/runs/{run}" in member and other not in member and "a run of gold" in member
    desk.configure(members=[])
    assert "whose council it sits in" not in read(client, f"/agents/macro/runs/{mine['id']}")


# ---- decisions and their re-examinations ---------------------------------------------------------------------------------


def test_a_decision_of_a_declared_or_unknown_card_type_shows_every_slot(desk: RunningDesk, client: TestClient) -> None:
    slots = [{"name": "setup", "kind": "choice", "choices": ["a", "b"], "help": "Which setup."}, {"name": "seen", "kind": "list"}]
    desk.ask("declare_card_type", None, card={"name": "setup-card", "slots": slots, "reExaminable": True})
    desk.ask("record_decision", id="d/1", action="note", card="setup-card", slots={"setup": "b", "seen": ["one", "two"]})
    desk.ask("record_decision", id="plain", action="sell", symbol="ETH", stop="2100.5", slots={"mood": "calm"})
    page = read(client, "/agents/gold/decisions/d%2F1")
    assert 'title="Which setup.">Setup</dt>' in page and '<li dir="auto">one</li>' in page and "setup-card" in page
    plain = read(client, "/agents/gold/decisions/plain")
    assert ">Mood</dt>" in plain and ">Stop</dt>" in plain and "2100.5" in plain and "cannot be examined again" in plain
    assert "Re-examine</" not in plain and "/agents/gold/decisions/d/1" in client.get("/agents/gold").text


def test_the_re_examine_button_is_gone_and_refused_once_the_outcome_is_known(desk: RunningDesk, client: TestClient) -> None:
    desk.configure()
    run = desk.run()
    desk.hour("BTC", "100", "101", "99", "100")
    desk.later(60)
    assert ">Re-examine</button>" in client.get(f"/agents/gold/runs/{run}").text
    desk.hour("BTC", "100", "101", "97", "98")
    desk.later(60)
    for path in (f"/agents/gold/runs/{run}", f"/agents/gold/decisions/{run}", "/results/trade-decisions"):
        page = client.get(path).text
        assert ">Re-examine</button>" not in page and "stop hit" in page and "−1.00" in page
    for action in ("start", "answer"):
        assert client.post(f"/agents/gold/re-examine/{action}", data={"decision": run}, headers=OWN).status_code == 409
    assert client.get(f"/agents/gold/re-examine?decision={run}").status_code == 409
    assert desk.runs("re-examination") == []


def test_the_owner_states_what_came_of_a_decision_and_the_bars_stay_beside_it(desk: RunningDesk, client: TestClient) -> None:
    desk.configure()
    run = desk.run()
    desk.hour("BTC", "100", "101", "97", "98")
    desk.later(60)
    empty = Fields(post(client, "/agents/gold/outcome", 422, decision=run, ending="closed", note="Before the news."))
    assert (
        "Is empty" in empty.said["wrong-r"] and empty.values["note"] == "Before the news." and empty.values["ending"] == "closed"
    )
    wrong = Fields(post(client, "/agents/gold/outcome", 422, decision=run, ending="unfilled", r="two", exit_price="cheap"))
    assert {"wrong-r", "wrong-exit_price"} <= set(wrong.said)
    assert "wrong-ending" in Fields(post(client, "/agents/gold/outcome", 422, decision=run, ending="magic", r="1")).said
    assert desk.ask("get_outcome", decision=run)["source"] == "bars"
    where = post(
        client, "/agents/gold/outcome", decision=run, ending="closed", r=" 0.4 ", exit_price="100.8", note="Before the news."
    )
    assert where == f"/agents/gold/runs/{run}#card-title"
    page = read(client, where)
    assert "+0.40" in page and "stated by you" in page and "Before the news." in page and "100.80" in page
    assert page.index("The bars show") < page.index("stop hit") and "−1.00" in page
    assert "+0.40" in read(client, "/results/trade-decisions")


def test_a_re_examination_appears_in_the_history_while_it_runs_and_after(desk: RunningDesk, client: TestClient) -> None:
    desk.configure()
    run = desk.run()
    desk.later(60)
    with desk.runner.held():
        assert post(client, "/agents/gold/re-examine/start", decision=run) == f"/agents/gold/runs/{run}#conviction"
        desk.until_runs(1, "running")
        page = client.get(f"/agents/gold/runs/{run}").text
        assert ">running</span>" in page and "every 2s" in page and ">Re-examine</button>" not in page
        assert "running…" in client.get("/results/trade-decisions").text
    desk.until_runs(2)
    until(lambda: "every 2s" not in client.get(f"/agents/gold/runs/{run}").text)
    desk.runner.grade = {**HELD, "conviction_score": 35, "suggested_action": "CLOSE", "notes": "Back in the range."}
    desk.later(60)
    post(client, "/agents/gold/re-examine/start", decision=run)
    desk.until_runs(2, kind="re-examination")
    page = read(client, f"/agents/gold/runs/{run}")
    assert page.index("Conviction 62 of 100") < page.index("Conviction 35 of 100") and "n = 2 re-examinations" in page
    last, first = (one["id"] for one in desk.runs("re-examination"))
    assert page.index(f"/agents/gold/runs/{first}") < page.index(f"/agents/gold/runs/{last}")
    card = read(client, f"/agents/gold/runs/{last}")
    assert "Back in the range." in card and "CLOSE" in card and ">played out</span>" in card and "this run" in card
    assert ">35</span>" in read(client, "/results/trade-decisions")


def test_a_re_examination_that_failed_stays_in_the_history_with_its_reason(desk: RunningDesk, client: TestClient) -> None:
    desk.configure()
    run = desk.run()
    desk.runner.failure = "the model is overloaded"
    post(client, "/agents/gold/re-examine/start", decision=run)
    desk.until_runs(1, "failed")
    page = read(client, f"/agents/gold/runs/{run}")
    assert "n = 0 re-examinations" in page and "the model is overloaded" in page and "Re-examine</button>" in page


def test_without_a_runner_the_owner_answers_the_question_on_a_page(desk: RunningDesk, client: TestClient) -> None:
    desk.ask("record_decision", id="d/1", symbol="BTC", action="buy", card="trade-decision", stop="98",
             slots={"thesis": "range broke", "watch_for": ["retest holds", "volume stays"]})  # fmt: skip
    page = client.get("/agents/gold/decisions/d%2F1").text
    assert 'href="/agents/gold/re-examine?decision=d/1"' in page
    question = read(client, "/agents/gold/re-examine?decision=d/1")
    assert "# Re-examine one of your decisions" in question and "range broke" in question and '<option value="SCALE"' in question
    typed = {"decision": "d/1", "conviction_score": "101", "notes": "It held. It rose.", "suggested_action": "SELL",
             "grade-1": "played out", "grade-2": "pending"}  # fmt: skip
    wrong = Fields(post(client, "/agents/gold/re-examine/answer", 422, **typed))
    assert {name for name in wrong.said if name.startswith("wrong-")} == {
        "wrong-conviction_score",
        "wrong-notes",
        "wrong-suggested_action",
    }
    assert wrong.values["conviction_score"] == "101" and wrong.values["notes"] == "It held. It rose." and desk.runs() == []
    assert wrong.values["grade-1"] == "played out"
    where = post(
        client,
        "/agents/gold/re-examine/answer",
        **{**typed, "conviction_score": "70", "notes": "It held.", "suggested_action": "HOLD"},
    )
    card = read(client, where)
    assert "70" in card and "It held." in card and "answered by owner" in card and ">played out</span>" in card
    assert desk.ask("get_decision", decision="d/1")["examinations"][0]["conviction_score"] == 70


# ---- chat ----------------------------------------------------------------------------------------------------------------


def test_a_message_is_answered_in_the_background_and_the_page_says_answering(desk: RunningDesk, client: TestClient) -> None:
    desk.configure()
    with desk.runner.held():
        assert post(client, "/agents/gold/chat/send", text="Why did\r\nyou buy?") == "/agents/gold/chat#end"
        desk.until_runs(1, "running", "chat")
        part = client.get("/agents/gold/chat", headers=PART).text
        assert part.count("Why did\nyou buy?") == 1 and part.count("answering…") == 1 and "every 2s" in part
    desk.until_runs(1, kind="chat")
    until(lambda: "every 2s" not in client.get("/agents/gold/chat").text)
    page = read(client, "/agents/gold/chat")
    assert "I bought BTC because the range broke upwards." in page and "answering…" not in page


def test_a_message_during_a_run_is_shown_at_once_and_waits_its_turn(desk: RunningDesk, client: TestClient) -> None:
    desk.configure()
    desk.ask("send_message", text="Same words.")
    with desk.runner.held():
        post(client, "/agents/gold/runs/start")
        desk.until_runs(1, "running", "manual")
        post(client, "/agents/gold/chat/send", text="Same words.")
        page = read(client, "/agents/gold/chat")
        assert page.count("Same words.") == 2 and "it may finish another run first" in page
    desk.until_runs(2, kind="chat")


def test_messages_stay_after_a_reset_with_a_line_where_the_memory_began_afresh(desk: RunningDesk, client: TestClient) -> None:
    desk.configure(active_memory=True)
    desk.later(1)
    desk.ask("send_message", text="First question.")
    desk.later(1)
    post(client, "/agents/gold/memory/reset", back="chat")
    desk.later(1)
    desk.ask("send_message", text="Second question.")
    desk.later(1)
    desk.memory.configure_agent("gold", {"active_memory": False})
    page = read(client, "/agents/gold/chat")
    order = [
        page.index(words)
        for words in ("First question.", "Memory was reset", "Second question.", "Active Memory was switched off")
    ]
    assert order == sorted(order) and "Active Memory was switched on" not in page
    assert [one["why"] for one in desk.ask("get_messages")["breaks"]] == ["switched on", "reset", "switched off"]


def test_an_empty_message_is_refused_and_an_answer_that_failed_says_why(desk: RunningDesk, client: TestClient) -> None:
    desk.configure()
    assert "text:" in post(client, "/agents/gold/chat/send", 422, text="  ") and desk.runs() == []
    desk.runner.failure = "timeout"
    desk.ask("send_message", text="Hello?")
    assert "timeout" in read(client, "/agents/gold/chat")


# ---- results -------------------------------------------------------------------------------------------------------------


def test_the_results_page_counts_what_was_closed_and_lists_the_rest_apart(desk: RunningDesk, client: TestClient) -> None:
    card = {
        "action": "buy",
        "side": "long",
        "card": "trade-decision",
        "stop": "98",
        "target": "104",
        "slots": {"thesis": "range"},
    }
    for symbol, agent, fields in (
        ("WON", "gold", {}), ("LOST", "macro", {"target": "110"}), ("HELD", "gold", {"expiry_bars": 100}), ("TINY", "gold", {"entry_price": "100"}),
        ("NO", "gold", {"action": "wait"}), ("ODD", "macro", {"stop": None}),
    ):  # fmt: skip
        desk.ask("record_decision", agent, **{**card, "id": symbol.lower(), "symbol": symbol, **fields})
    for symbol, agent, *bar in (
        ("WON", "gold", "100", "105", "99", "104"), ("HELD", "gold", "100", "101", "99", "100"),
        ("TINY", "gold", "98.1", "105", "98.05", "104"), ("NO", "gold", "100", "105", "99", "104"),
    ):  # fmt: skip
        desk.hour(symbol, *bar, agent=agent)
    desk.later(60)
    desk.ask(
        "record_outcome", "macro", decision="lost", status="resolved", cause="closed", r="-0.5", exit_at="2026-03-02T10:30:00Z"
    )
    desk.later(60 * 30)
    page = read(client, "/results/trade-decisions")
    assert "+1.50" in page and "50.0 %" in page and "4.00" in page and "n = 2 closed decisions with a result" in page
    assert "not counted" in page and "1 closed decision is in no figure" in page
    assert 'id="not-taken"' in page and 'id="without-outcome"' in page and page.count('<polyline class="equity"') == 1
    assert "Cumulative R from 0 to +1.50 over 2 decisions" in page
    alone = read(client, "/results/trade-decisions?agent=macro")
    assert "not shown without losses" not in alone and "−0.50" in alone and "/agents/gold/decisions" not in alone
    day = read(client, "/results/trade-decisions?window=24h")
    assert (
        "n = 0 closed decisions with a result" in day
        and "/agents/gold/decisions/held" in day
        and '<polyline class="equity"' not in day
    )
    assert "not shown without losses" in day
    for nonsense in ("window=year&agent=nobody", "window=&agent=%3Cb%3E"):
        assert read(client, f"/results/trade-decisions?{nonsense}").count('aria-current="true">all time') == 1
    part = client.get("/results/trade-decisions?agent=gold", headers=PART).text
    assert part.lstrip().startswith('<div id="results">')


def test_the_results_are_in_the_main_navigation_of_every_page(client: TestClient) -> None:
    for path in ("/", "/agents/new", "/agents/gold", "/skills/breakout", "/agents/nobody"):
        assert '<a href="/results/trade-decisions">Trade decisions</a>' in client.get(path).text
    assert 'href="/results/trade-decisions" aria-current="page"' in client.get("/results/trade-decisions").text
