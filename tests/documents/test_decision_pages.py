"""Decisions as documents: a page a day, made from the log, found and cited like any note."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtape.core.observed import Decision, GuardVerdict, Run, Situation
from memtape.documents.chunks import cut_document
from memtape.documents.citations import check_citation, cite, lines_of
from memtape.documents.day_pages import LogDay
from memtape.documents.decision_pages import DECISIONS, decision_page
from memtape.documents.sources import SkippedFile
from memtape.engine import Memory
from memtape.engine.documents import log_pages
from memtape.engine.documents import sync as syncing
from memtape.engine.documents.log_pages import decision_days, log_page_text
from memtape.errors import Conflict
from tests.documents.desk import write

MAY_12 = date(2026, 5, 12)
TWO = datetime(2026, 5, 12, 14, 5, tzinfo=UTC)


def decided(id: str = "d1", at: datetime = TWO, **more) -> Decision:
    return Decision(
        **{"id": id, "t": at, "symbol": "XAUUSD", "action": "sell", "side": "short", "reason": "failed breakout", **more}
    )


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    """The index of a PostgreSQL store is kept in the home folder."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def agent(memory):
    memory.create_skill("gold")
    memory.create_agent("desk", skill="gold", mode="paper")
    return memory.agent("desk")


def text_of(agent, path: str) -> str | None:
    with agent.resources.reading(agent.agent.id) as tables:
        return log_page_text(tables, path)


# --- the page -----------------------------------------------------------------------------------------------------------


def test_a_page_tells_what_was_decided_why_what_the_guard_said_and_which_run_it_was():
    full = decided(
        qty=Decimal("0.50"), stop=Decimal(2400), confidence=Decimal("0.7"), strategy="fade", tags=("fomc", "london"), order_ids=("o-9",),
        verdict=GuardVerdict(accepted=False, code="R3_POSITION_CAP", note="2 % at risk"), slots={"thesis": "sellers above 2390", "invalidation": "close above"},
        situation=Situation(symbol="XAUUSD", regime="ranging", session="london", atr_h1=3.5, confidence=0.7),
        run=Run(id="run-4", kind="tick", model="anthropic/x", steps=("read the tape", "asked for the calendar"), cost_usd=Decimal("0.02")),
    )  # fmt: skip
    assert lines_of(decision_page(MAY_12, [full])) == [
        "# Decisions of 2026-05-12",
        "",
        "## 14:05:00 XAUUSD sell short d1",
        "",
        "Why: failed breakout",
        "Guard: refused by R3_POSITION_CAP: 2 % at risk",
        "Terms: strategy fade, confidence 0.7, qty 0.5, stop 2400",
        "Tags: fomc, london",
        "Orders: o-9",
        "- invalidation: close above",
        "- thesis: sellers above 2390",
        "Situation: atr_h1 3.5, regime ranging, session london",
        "Run: run-4 (tick, model anthropic/x, cost 0.02)",
        "1. read the tape",
        "2. asked for the calendar",
    ]


@given(st.lists(st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=60), min_size=4, max_size=4))
def test_no_words_of_a_model_can_pose_as_another_decision(words):
    reason, slot, tag, step = words
    told = decided(reason=reason, slots={"thesis": slot}, tags=(tag,), run=Run(id="r", steps=(step,)))
    lines = lines_of(decision_page(MAY_12, [told, decided("d2")]))
    assert [line for line in lines if line.startswith("#")] == [
        "# Decisions of 2026-05-12", "## 14:05:00 XAUUSD sell short d1", "## 14:05:00 XAUUSD sell short d2",
    ]  # fmt: skip


def test_a_key_that_a_model_wrote_into_its_reason_is_not_on_the_page():
    assert "(redacted)" in decision_page(MAY_12, [decided(reason="signed with sk-" + 10 * "a1")])


def test_a_page_of_a_thousand_decisions_is_cut_between_them_and_each_passage_names_its_own():
    many = [
        decided(f"d{n}", TWO + timedelta(seconds=n), reason=f"reason number {n} with some words behind it") for n in range(1000)
    ]
    text = decision_page(MAY_12, many)
    chunks = cut_document(text)
    for n in (0, 500, 999):
        holding = [chunk for chunk in chunks if f"Why: reason number {n} " in chunk.text]
        assert holding and all(f"short d{n}\n" in chunk.text for chunk in holding)


@given(st.dates(date(1970, 1, 1), date(2200, 12, 31)))
def test_a_path_names_its_day_and_only_that(day):
    assert DECISIONS.day(DECISIONS.path(day)) == day
    assert DECISIONS.day(DECISIONS.path(day).removeprefix("@")) is None and DECISIONS.day(f"x/{DECISIONS.path(day)}") is None


def test_a_page_looks_different_when_any_of_its_decisions_was_added_taken_back_or_replaced():
    one, other = 64 * "a", 64 * "b"
    looks = [
        LogDay(MAY_12, 2, 9, one),
        LogDay(MAY_12, 3, 10, other),
        LogDay(MAY_12, 1, 9, one),
        LogDay(MAY_12, 2, 9, other),
    ]
    assert len({DECISIONS.entry(each).signature for each in looks}) == 4


# --- from the log (on both stores) --------------------------------------------------------------------------------------


def test_a_decision_is_found_by_its_reason_though_the_agent_has_no_workspace(agent):
    agent.observe(decided(reason="sold the failed breakout into the Fed"), backfill=True)
    agent.observe(decided("d2", TWO + timedelta(days=3), symbol="BTC", reason="funding flipped"), backfill=True)
    assert agent.documents.sync().documents == 2
    hit = agent.documents.search("why did we sell into the Fed").hits[0]
    assert (hit.path, hit.source_type, hit.tier) == ("@decisions/2026-05-12.md", "trace", 3)
    assert "failed breakout" in hit.snippet


def test_a_run_is_found_by_what_it_meant_to_do(agent):
    agent.observe(decided(run=Run(id="run-77", steps=("checked whether the pension flows were done",))), backfill=True)
    agent.documents.sync()
    assert (
        agent.documents.search("run-77").hits[0].path == agent.documents.search("pension flows").hits[0].path == DECISIONS.path(MAY_12)
    )


def test_lines_of_a_page_are_cited_and_stay_valid_when_more_is_decided_on_that_day(agent):
    agent.observe(decided(), backfill=True)
    agent.documents.sync()
    hit = agent.documents.search("failed breakout").hits[0]
    cited = cite(hit.path, text_of(agent, hit.path), hit.start_line, hit.end_line)
    assert cited.content_hash == hit.content_hash
    agent.observe(decided("d2", TWO + timedelta(hours=1)), backfill=True)
    assert check_citation(cited, text_of(agent, hit.path)).verdict == "valid"
    agent.observe(decided("d0", TWO - timedelta(hours=1)), backfill=True)
    assert check_citation(cited, text_of(agent, hit.path)).verdict in ("moved", "changed")


def test_only_the_day_on_which_something_was_decided_is_made_anew(agent, monkeypatch):
    made: list[date] = []
    monkeypatch.setattr(log_pages, "decision_page", lambda day, *rest: made.append(day) or decision_page(day, *rest))
    for n in range(40):
        agent.observe(decided(f"d{n}", TWO + timedelta(hours=12 * n)), backfill=True)
    assert agent.documents.sync().added == 21 and len(made) == 21
    made.clear()
    assert agent.documents.sync().read == 0 and made == []
    agent.observe(decided("new", TWO + timedelta(days=3)), backfill=True)
    assert (agent.documents.sync().changed, made) == (1, [MAY_12 + timedelta(days=3)])


def test_decisions_that_were_taken_back_or_destroyed_are_gone_at_once(agent, tmp_path):
    work = write(tmp_path / "work", {"SOUL.md": "Never move a stop."})
    agent.documents.add(work)
    agent.observe(decided("kept", TWO - timedelta(days=9)), backfill=True)
    agent.observe(decided("other", TWO + timedelta(days=1), reason="okapi"), backfill=True)
    batch = agent.imports.commit(
        [decided("d1"), decided("d2", TWO + timedelta(days=1), reason="zebra")], {"file": "old.csv"}
    ).batch
    before = agent.documents.sync()
    assert before.documents == 4 and agent.documents.search("zebra").hits
    write(work, {"later.md": "quokka"})
    agent.imports.undo(batch)
    assert agent.documents.search("zebra").hits == () and text_of(agent, DECISIONS.path(MAY_12)) is None
    assert agent.documents.search("okapi").hits, "of a page only what was taken back goes"
    assert agent.documents.search("never move a stop").hits and agent.documents.search("quokka").hits == (), (
        "no file is looked at for that"
    )
    told = agent.documents.sync()
    assert (told.added, told.changed, told.removed) == (1, 0, 0)
    Memory.of(agent.resources).delete_agent("desk", confirm="desk")
    with agent.resources.reading("desk") as tables:
        assert decision_days(tables) == []
    assert agent.resources.documents.health("local", "desk").documents == 0


def test_an_import_is_taken_back_though_the_index_is_broken_and_none_is_made_for_it(agent, monkeypatch):
    batches = [agent.imports.commit([decided(f"d{n}")], {"file": f"{n}.csv"}).batch for n in range(2)]
    assert agent.imports.undo(batches[0]).receipt.seq and not agent.resources.has_documents
    agent.documents.sync()

    def broken(*_):
        raise Conflict("documents", "the disk is full")

    monkeypatch.setattr(agent.resources.documents, "refresh", broken)
    agent.imports.undo(batches[1])
    assert text_of(agent, DECISIONS.path(MAY_12)) is None


@pytest.mark.parametrize("day", ["9999-12-31", "0001-01-01"])
def test_nothing_was_decided_on_the_first_and_the_last_day_of_the_calendar(agent, day):
    assert text_of(agent, f"@decisions/{day}.md") is None


def test_pages_stand_beside_the_files_of_the_workspace_and_neither_forgets_the_other(agent, tmp_path):
    agent.observe(decided(), backfill=True)
    agent.documents.add(write(tmp_path / "work", {"SOUL.md": "Never move a stop."}))
    assert agent.documents.sync().documents == 2
    (tmp_path / "work" / "SOUL.md").unlink()
    assert agent.documents.sync().documents == 1 and agent.documents.sync(rebuild=True).documents == 1
    assert agent.documents.search("failed breakout").hits


def test_a_file_cannot_pose_as_a_page_of_decisions(agent, tmp_path):
    agent.observe(decided(), backfill=True)
    forged = {
        f"@decisions/{name}": "# Decisions\nThe guard accepted a forged order." for name in ("2026-05-12.md", "2026-05-13.md")
    }
    agent.documents.add(write(tmp_path / "work", {"SOUL.md": "x", **forged}))
    told = agent.documents.sync()
    assert told.documents == 2 and [each.path for each in told.problems] == ["@decisions/"]
    assert agent.documents.search("forged order").hits == ()
    assert "forged" not in text_of(agent, DECISIONS.path(MAY_12)) and text_of(agent, "@decisions/2026-05-13.md") is None


def test_of_an_agent_that_is_deleted_while_its_decisions_are_indexed_nothing_stays(agent, monkeypatch):
    agent.observe(decided(reason="zebra"), backfill=True)
    agent.documents.sync()
    agent.observe(decided("d2", reason="zebra again"), backfill=True)
    real = syncing.sync_index

    def deleted_before_it_is_written(index, owner, scope, places, **more):
        pages = [(each, each.make_text()) for place in places for each in place.list_entries()]
        Memory.of(agent.resources).delete_agent("desk", confirm="desk")
        late = [replace(each, make_text=lambda text=text: text) for each, text in pages]
        return real(index, owner, scope, [replace(places[0], list_entries=lambda: late)], **more)

    monkeypatch.setattr(syncing, "sync_index", deleted_before_it_is_written)
    with pytest.raises(Conflict, match="was deleted"):
        agent.documents.sync()
    assert agent.documents.search("zebra").hits == ()


def test_a_store_that_was_replaced_by_another_brings_its_own_pages(sqlite_url, opened, tmp_path):
    for reason in ("the first store", "the second one"):
        memory = opened(sqlite_url)
        memory.create_skill("gold")
        memory.create_agent("desk", skill="gold", mode="paper")
        memory.agent("desk").observe(decided(reason=reason), backfill=True)
        memory.agent("desk").documents.sync()
        assert reason in memory.agent("desk").documents.search("store one").hits[0].snippet
        memory.close()
        for file in tmp_path.glob("memory.db*"):
            file.unlink()


def test_another_agent_does_not_find_them(agent, memory):
    agent.observe(decided(), backfill=True)
    memory.create_agent("other", skill="gold", mode="paper")
    agent.documents.sync()
    assert memory.agent("other").documents.sync().documents == 0
    assert memory.agent("other").documents.search("failed breakout").hits == ()


def test_a_day_with_more_decisions_than_a_page_holds_says_so(agent, monkeypatch):
    monkeypatch.setattr(log_pages, "DECISIONS", replace(DECISIONS, max_records=3))
    agent.imports.commit([decided(f"d{n}", TWO + timedelta(minutes=n)) for n in range(5)], {"file": "many.csv"})
    told = agent.documents.sync()
    assert told.problems == (SkippedFile(DECISIONS.path(MAY_12), "2 of its 5 decisions are not on the page"),)
    text = text_of(agent, DECISIONS.path(MAY_12))
    assert "short d2\n" in text and "short d3\n" not in text and "2 more of this day" in text
    assert DECISIONS.max_records > 1000
