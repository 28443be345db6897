"""The inbox of proposals and the agent's own notes in a real browser: nothing is written before the owner says so."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

import memtape
from memtape.engine import Memory
from memtape.engine.documents import proposals
from memtape.plugs.clock import FixedClock
from memtape.surfaces.web.pages.proposals import open_proposals_badge
from memtape.surfaces.web.site import Site
from tests.web.floor import HOSTILE, HOSTILE_SEEN
from tests.web.test_answers import brings_nothing_of_its_own, client_of
from tests.web.test_document_pages import MANUAL, OWN, looking, written
from tests.web.test_memory_pages import STICKING_OUT, ask
from tests.web.test_pages import Come, keep

NOW = datetime(2026, 5, 12, 8, tzinfo=UTC)
PLAIN = HOSTILE.replace("\u202e", "").replace("\u202c", "")  # a proposal with characters that nobody sees is refused


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return written(tmp_path / "work", {"TRADING_MANUAL.md": MANUAL, "journal/2026-05-04.md": "# Monday\n\nQuiet.\n"})


@pytest.fixture
def desk(tmp_path: Path, work: Path) -> Iterator[Memory]:
    """An agent that proposes to change its manual and to write a new document, and has written two notes; one that did nothing."""
    with memtape.open(str(tmp_path / "desk.db"), clock=FixedClock(NOW)) as memory:
        memory.create_skill("trend")
        for name in ("desk", "other"):
            memory.create_agent(name, skill="trend", mode="paper")
        agent = memory.agent("desk")
        agent.documents.add(work)
        agent.journal.append("journal", "Waited: no volume.", run="r-16")
        agent.journal.append("learning", "Gold moves before the open.", run="r-17")
        agent.proposals.propose(
            "TRADING_MANUAL.md", old="1 % on a trade", new="0.5 % on a trade", reason="Three losses in a row.", run="r-17"
        )
        agent.proposals.propose("notes/gaps.md", text="# Gaps\nNo entry after a gap.\n", reason="It came up twice.")
        yield memory


@pytest.fixture
def client(desk: Memory) -> Iterator[TestClient]:
    with client_of(desk) as client:
        yield client


def change(memory: Memory, path: str = "TRADING_MANUAL.md") -> str:
    """The id of what is proposed for a document."""
    return str(next(one["id"] for one in ask(memory, "desk", "list_proposals")["proposals"] if one["path"] == path))


def manual(work: Path) -> str:
    return (work / "TRADING_MANUAL.md").read_text(encoding="utf-8")


# ---- the inbox -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scripts", [True, False])
def test_the_owner_accepts_a_change_of_the_manual_and_then_it_is_written(
    visit: Come, desk: Memory, work: Path, scripts: bool
) -> None:
    with looking(visit, desk, scripts=scripts) as here:
        page = here.at("/agents/desk")
        assert here.text(".sections .badge-count") == "2 open"
        page.locator(".sections").get_by_role("link", name="Proposals").click()
        page.wait_for_url("**/agents/desk/proposals")
        card = f"#proposal-{change(desk)}"
        content = here.text(card)
        for words in ("Change TRADING_MANUAL.md +1 −1 lines", "Three losses in a row.", "Proposed by desk, a model, in run r-17, 2026-05-12 08:00 UTC",
                      "applies The document has not changed since this was proposed."):  # fmt: skip
            assert words in content
        assert here.text(f"{card} .minus") == "4 − removed: R3: never risk more than 1 % on a trade."
        assert here.text(f"{card} .plus") == "4 + added: R3: never risk more than 0.5 % on a trade."
        assert [one.inner_text() for one in page.locator(f"{card} .differs").all()] == ["1", "0.5"]
        assert manual(work) == MANUAL
        page.locator(card).get_by_label("A note, for the record").fill("Until June.")
        page.locator(card).get_by_role("button", name="Accept the change of TRADING_MANUAL.md").click()
        page.wait_for_url("**/proposals?done=accepted#proposal-*")
        assert "Accepted: the document was changed." in here.text("[role=status]")
        assert manual(work) == MANUAL.replace("1 %", "0.5 %") and here.text(".sections .badge-count") == "1 open"
        decided = here.text(f"#decided {card}")
        assert "accepted" in decided and "Until June." in decided and page.locator(f"#open {card}").count() == 0


def test_a_rejected_change_is_never_written_and_stays_on_record(visit: Come, desk: Memory, work: Path) -> None:
    with looking(visit, desk) as here:
        page = here.at("/agents/desk/proposals")
        page.get_by_role("button", name="Reject the change of notes/gaps.md").click()
        page.wait_for_url("**/proposals?done=rejected#proposal-*")
        assert "New document notes/gaps.md" in here.text("#decided") and not (work / "notes").exists()
        page.locator("#decided summary").click()
        assert "+ added: # Gaps" in here.text("#decided .diff")


def test_what_no_longer_applies_cannot_be_accepted(visit: Come, desk: Memory, work: Path) -> None:
    (work / "TRADING_MANUAL.md").write_text(MANUAL.replace("1 %", "2 %"), encoding="utf-8")
    with looking(visit, desk) as here:
        page = here.at("/agents/desk/proposals")
        card = page.locator(f"#proposal-{change(desk)}")
        assert "no longer applies" in card.inner_text() and "Reject it; the agent can propose again" in card.inner_text()
        assert card.get_by_role("button", name="Accept").is_disabled() and card.get_by_role("button", name="Reject").is_enabled()
        (work / "TRADING_MANUAL.md").write_text("# New first line\n" + MANUAL, encoding="utf-8")
        here.at("/agents/desk/proposals")
        assert (
            "The document has changed elsewhere;" in card.inner_text() and card.get_by_role("button", name="Accept").is_enabled()
        )
        (work / "TRADING_MANUAL.md").write_text(MANUAL.replace("1 %", "0.5 %"), encoding="utf-8")
        here.at("/agents/desk/proposals")
        assert "already done" in card.inner_text()


def test_a_change_that_somebody_prevented_meanwhile_is_told_and_not_written(client: TestClient, desk: Memory, work: Path) -> None:
    changed = MANUAL.replace("1 %", "3 %")
    (work / "TRADING_MANUAL.md").write_text(changed, encoding="utf-8")
    answer = client.post("/agents/desk/proposals/accept", data={"proposal_id": change(desk)}, headers=OWN)
    assert (
        answer.status_code == 409
        and 'role="alert"' in answer.text
        and "has changed where the edit would change it" in answer.text
    )
    assert manual(work) == changed


def test_pressing_a_button_twice_decides_once(client: TestClient, desk: Memory) -> None:
    id_ = change(desk)
    content = [
        client.post("/agents/desk/proposals/accept", data={"proposal_id": id_}, headers=OWN, follow_redirects=False)
        for _ in range(2)
    ]
    assert [one.headers["location"].partition("?")[2].partition("#")[0] for one in content] == ["done=accepted", "done=before"]
    other = client.post("/agents/desk/proposals/reject", data={"proposal_id": id_}, headers=OWN)
    assert other.status_code == 409 and "was accepted" in other.text


def test_enter_in_a_note_decides_nothing(visit: Come, desk: Memory, work: Path) -> None:
    with looking(visit, desk) as here:
        page = here.at("/agents/desk/proposals")
        note = page.locator(f"#proposal-{change(desk)}").get_by_label("A note, for the record")
        note.fill("Let me think")
        note.press("Enter")
        page.wait_for_timeout(300)
        assert (
            page.url.endswith("/proposals")
            and manual(work) == MANUAL
            and len(ask(desk, "desk", "list_proposals", status="proposed")["proposals"]) == 2
        )
        for _ in range(2):  # on to Accept, then to Reject
            page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Reject the change of TRADING_MANUAL.md"
        page.keyboard.press("Enter")
        page.wait_for_url("**done=rejected**")
        assert "Let me think" in here.text("#decided") and manual(work) == MANUAL


@pytest.mark.parametrize("word", ["accept", "reject"])
def test_only_a_page_of_memtapes_own_may_decide(client: TestClient, desk: Memory, work: Path, word: str) -> None:
    before = desk.agent("desk").head()
    for headers in ({}, {"origin": "https://elsewhere.example"}, {"origin": "null"}, {**OWN, "sec-fetch-site": "cross-site"}):
        assert (
            client.post(f"/agents/desk/proposals/{word}", data={"proposal_id": change(desk)}, headers=headers).status_code == 403
        )
    assert client.get(f"/agents/desk/proposals/{word}?proposal_id={change(desk)}").status_code == 404
    assert desk.agent("desk").head() == before and manual(work) == MANUAL


@pytest.mark.parametrize(("form", "status"), [({"proposal_id": "nothing"}, 404), ({}, 422), ({"proposal_id": "x" * 200}, 422)])
def test_what_cannot_be_decided_is_said_on_the_page(client: TestClient, form: dict[str, str], status: int) -> None:
    answer = client.post("/agents/desk/proposals/accept", data=form, headers=OWN)
    assert (
        answer.status_code == status
        and 'role="alert"' in answer.text
        and "Nothing is written until you accept it." in answer.text
    )


def test_a_long_change_is_cut_in_the_inbox_and_whole_on_its_own_page(client: TestClient, desk: Memory) -> None:
    made = desk.agent("desk").proposals.propose(
        "notes/long.md", text="".join(f"line {n}\n" for n in range(900)), reason="All of it."
    )
    inbox = client.get("/agents/desk/proposals").text
    assert (
        "781 of 901 lines are not shown here." in inbox
        and f"/agents/desk/proposals/{made.id}" in inbox
        and "line 899<" not in inbox
    )
    alone = client.get(f"/agents/desk/proposals/{made.id}").text
    assert "line 899<" in alone and "not shown here" not in alone and "Accept" in alone
    assert client.get("/agents/desk/proposals/nothing").status_code == 404 == client.get("/agents/nobody/proposals").status_code


def test_every_page_counts_the_open_proposals_without_computing_a_diff(desk: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    site, id_ = Site(desk), change(desk)
    monkeypatch.setattr(proposals, "unified_diff", None)
    assert open_proposals_badge(site, "desk") == 2
    desk.agent("desk").proposals.reject(id_)
    assert open_proposals_badge(site, "desk") == 1 and open_proposals_badge(site, "other") == 0


def test_an_agent_that_proposed_nothing_has_nothing_waiting(visit: Come, desk: Memory) -> None:
    with looking(visit, desk) as here:
        here.at("/agents/other/proposals")
        assert "No open proposal." in here.text("#open") and here.page.locator(".sections .badge-count").count() == 0
        here.at("/agents/other/notes")
        assert "None yet." in here.text("main")


# ---- notes ---------------------------------------------------------------------------------------------------------------


def test_every_note_of_the_agent_is_in_sight_and_leads_to_its_lines(visit: Come, desk: Memory) -> None:
    with looking(visit, desk) as here:
        page = here.at("/agents/desk/notes")
        content = here.text("main")
        assert (
            content.index("Gold moves before the open.") < content.index("Waited: no volume.")
            and "2026-05-12 08:00 UTC" in content
        )
        page.get_by_role("link", name="journal/2026-05-12.md").click()
        page.wait_for_url("**/documents/view?path=journal%2F2026-05-12.md&start=1&end=2&hash=**#L1")
        assert here.text("#verdict").startswith("Valid.") and "journal by desk in run r-16" in here.text("#L1")
        here.at("/agents/desk/notes?run=r-17")
        assert page.locator(".own-note").count() == 1 and "Only from run r-17." in here.text("main")


# ---- what a model writes is only text ------------------------------------------------------------------------------------


def test_what_a_model_writes_into_a_proposal_or_a_note_is_only_read(visit: Come, desk: Memory) -> None:
    agent = desk.agent("desk")
    agent.proposals.propose(
        "TRADING_MANUAL.md",
        old="Wait for the close.",
        new=f"Wait.\n+++ {PLAIN}\n@@ -1 +1 @@\n</code>{PLAIN}",
        reason=HOSTILE,
        run='r"><i>',
    )
    agent.proposals.propose("notes/x<img src=y onerror=alert(1)>.md", text=PLAIN, reason="A name.")
    agent.journal.append("note", PLAIN, run='r"><b>')
    with looking(visit, desk) as here:
        page = here.at("/agents/desk/proposals")
        assert (
            HOSTILE_SEEN in here.text("#open")
            and f"+ added: +++ {PLAIN}" in here.text("#open")
            and "+ added: @@ -1 +1 @@" in here.text("#open")
        )
        for path in ("/agents/desk/proposals", "/agents/desk/notes", f"/agents/desk/notes?run={quote(PLAIN[:60])}",
                     f"/agents/desk/proposals?done={quote(PLAIN)}"):  # fmt: skip
            page = here.at(path)
            assert page.locator("main img, main script, main i, main b").count() == 0
        here.at("/agents/desk/notes")
        assert PLAIN in here.text(".own-note >> nth=0")
        page.get_by_role("link", name='r"><b>').click()
        page.wait_for_url("**/notes?run=r%22%3E%3Cb%3E")
        assert page.locator(".own-note").count() == 1


def test_the_pages_of_proposals_fit_their_window_and_bring_no_script_of_their_own(
    visit: Come, desk: Memory, client: TestClient
) -> None:
    agent = desk.agent("desk")
    agent.proposals.propose(
        "journal/2026-05-04.md", old="Quiet.", new="Quiet, but " + "for_a_very_long_word" * 12 + ".", reason="Said more exactly."
    )
    agent.proposals.reject(change(desk, "notes/gaps.md"), "Not now.")
    pages = {"proposals": "/agents/desk/proposals", "proposal": f"/agents/desk/proposals/{change(desk)}", "notes": "/agents/desk/notes",
             "proposals-none": "/agents/other/proposals", "notes-none": "/agents/other/notes"}  # fmt: skip
    with looking(visit, desk) as here:
        for name, path in pages.items():
            page = here.at(path)
            page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
            brings_nothing_of_its_own(client, path)
            for width, colours in here.windows():
                assert page.evaluate("document.documentElement.scrollWidth") <= width, path
                assert page.evaluate(STICKING_OUT) == [], path
                keep(here, f"{name}-{width}-{colours}")
