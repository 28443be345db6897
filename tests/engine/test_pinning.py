"""Rules always in context, passages in the brief, and what decisions rest on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memtape.compose import open_memory
from memtape.engine import AgentMemory, Memory
from memtape.engine.audit import rebuild, verify
from memtape.errors import Conflict, Invalid, Unknown

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
MANUAL = "# Manual\n\nWe trade gold.\n\n## Risk\n\nR3: never risk more than 1 % on XAUUSD.\n\n## Entries\n\nBreakouts only.\n"
NOTE = "# Slippage\n\nXAUUSD breakout entries slipped by 30 points at the open: wait for the first pullback.\n"


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.at = NOON

    def now(self) -> datetime:
        self.at += timedelta(seconds=1)
        return self.at


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A workspace with a manual and one note."""
    root = tmp_path / "desk"
    (root / "journal").mkdir(parents=True)
    (root / "TRADING_MANUAL.md").write_text(MANUAL)
    (root / "journal" / "2026-11-14.md").write_text(NOTE)
    return root


@pytest.fixture
def memory(tmp_path: Path) -> Any:
    with open_memory(str(tmp_path / "desk.db"), clock=Clock()) as opened:
        yield opened


def given(memory: Memory, desk: Path, mode: str = "paper") -> AgentMemory:
    memory.create_skill("breakout", strategy="Buy strength.")
    memory.create_agent("gold", skill="breakout", mode=mode)  # type: ignore[arg-type]
    agent = memory.agent("gold")
    agent.add_documents(desk)
    return agent


def rules(made: Any) -> str:
    return next((segment.text for segment in made.brief.segments if segment.name == "rules"), "")


# --- rules --------------------------------------------------------------------------------------------------------------


def test_the_manual_stands_first_among_the_records_of_every_brief(memory, desk):
    made = given(memory, desk).brief(symbol="XAUUSD")
    assert "R3: never risk more than 1 % on XAUUSD." in rules(made)
    assert next(segment.name for segment in made.brief.segments if segment.role == "user") == "rules"
    cited = [one.source for one in made.brief.citations if one.segment == "rules"]
    assert {source.tier for source in cited} == {1} and {source.kind for source in cited} == {"rule"}


def test_a_rule_holds_from_the_moment_the_file_is_saved(memory, desk):
    agent = given(memory, desk)
    before = agent.head()
    (desk / "TRADING_MANUAL.md").write_text(MANUAL.replace("1 %", "0.5 %"))
    assert "0.5 % on XAUUSD" in rules(agent.brief()) and agent.head() == before


def test_the_owner_pins_one_section_and_the_rest_of_the_manual_stays_out(memory, desk):
    agent = given(memory, desk)
    agent.pin_document("TRADING_MANUAL.md", "Risk")
    told = rules(agent.brief())
    assert "R3: never risk" in told and "Breakouts only" not in told
    assert [(pin.path, pin.section, pin.by) for pin in agent.pinned()] == [("TRADING_MANUAL.md", "Risk", "owner")]


def test_what_is_unpinned_stays_out_and_pinning_again_brings_it_back(memory, desk):
    agent = given(memory, desk)
    agent.unpin_document("TRADING_MANUAL.md")
    assert rules(agent.brief()) == "" and agent.pinned() == ()
    agent.pin_document("TRADING_MANUAL.md")
    assert agent.pin_document("TRADING_MANUAL.md").duplicate
    assert "Breakouts only" in rules(agent.brief())


def test_what_an_agent_may_write_to_cannot_be_pinned(memory, desk):
    agent = given(memory, desk)
    with pytest.raises(Invalid, match="not the owner's alone"):
        agent.pin_document("journal/2026-11-14.md")
    for path in ("../desk.db", "/etc/passwd", "journal/../TRADING_MANUAL.md", "none.md"):
        with pytest.raises(Unknown):
            agent.pin_document(path)
    with pytest.raises(Unknown, match="Exits"):
        agent.pin_document("TRADING_MANUAL.md", "Exits")


def test_a_rules_file_that_is_a_link_out_of_the_workspace_is_no_rule(memory, desk, tmp_path):
    secret = tmp_path / "secret.md"
    secret.write_text("the key is 1234")
    (desk / "SOUL.md").symlink_to(secret)
    assert "1234" not in given(memory, desk).brief().brief.text


def test_a_pinned_file_that_is_gone_is_told_not_left_out_in_silence(memory, desk):
    agent = given(memory, desk)
    agent.pin_document("TRADING_MANUAL.md", "Risk")
    (desk / "TRADING_MANUAL.md").unlink()
    made = agent.brief()
    assert rules(made) == "" and any("TRADING_MANUAL.md is not there" in told for told in made.brief.warnings)


def test_long_rules_are_cut_at_their_budget_and_the_brief_says_so(memory, desk):
    (desk / "TRADING_MANUAL.md").write_text("".join(f"Rule {n}: never do thing number {n} on a Friday.\n" for n in range(400)))
    made = given(memory, desk).brief()
    assert "Rule 0:" in rules(made) and "Rule 399:" not in rules(made) and "more lines of rules are over their budget" in rules(made)


def test_rules_of_a_shared_folder_are_pinned_by_the_owner_for_one_agent(memory, desk, tmp_path):
    shared = tmp_path / "playbooks"
    shared.mkdir()
    (shared / "RULES.md").write_text("No trades on Fridays.")
    agent = given(memory, desk)
    agent.add_documents(shared, shared=True)
    assert "Fridays" not in rules(agent.brief())
    agent.pin_document("playbooks/RULES.md")
    assert "Fridays" in rules(agent.brief())


def test_rules_stay_in_a_brief_without_memory_and_passages_do_not(memory, desk):
    made = given(memory, desk).brief(symbol="XAUUSD", without_memory=True)
    assert "R3: never risk" in rules(made) and "pullback" not in made.brief.text


# --- passages -----------------------------------------------------------------------------------------------------------


def test_a_note_on_the_symbol_is_cited_with_its_lines(memory, desk):
    made = given(memory, desk).brief(symbol="XAUUSD", thesis="breakout at the open")
    assert "journal/2026-11-14.md:1-3" in made.brief.text and "wait for the first pullback" in made.brief.text
    source = next(one.source for one in made.brief.citations if one.source.kind == "document")
    assert source.tier == 3 and [one.id for one in made.papers.documents] == [source.id]


def test_a_note_that_has_nothing_to_do_with_the_decision_is_not_cited(memory, desk):
    made = given(memory, desk).brief(symbol="SOL", thesis="funding flipped")
    assert made.papers.documents == ()


def test_a_simulation_is_told_rules_but_no_passage_that_might_know_the_future(memory, desk):
    made = given(memory, desk, mode="sim").brief(symbol="XAUUSD", thesis="breakout at the open")
    assert "R3: never risk" in rules(made) and made.papers.documents == ()


def test_a_brief_without_any_document_makes_no_index_file(tmp_path):
    with open_memory(str(tmp_path / "bare.db"), clock=Clock()) as memory:
        memory.create_skill("breakout")
        memory.create_agent("gold", skill="breakout")
        memory.agent("gold").brief(symbol="XAUUSD")
    assert [file.name for file in tmp_path.glob("bare.docs*")] == []


# --- the past -----------------------------------------------------------------------------------------------------------


def test_a_shown_brief_is_made_again_byte_for_byte_after_its_documents_changed(memory, desk):
    agent = given(memory, desk)
    made = agent.brief(symbol="XAUUSD", thesis="breakout at the open")
    agent.shown(made, run="r1")
    (desk / "TRADING_MANUAL.md").write_text("# Manual\n\nAnything goes.\n")
    (desk / "journal" / "2026-11-14.md").unlink()
    agent.sync_documents()
    asked = made.question
    again = agent.brief(symbol="XAUUSD", thesis="breakout at the open", as_of=asked.as_of, head=asked.head)
    assert again.brief.text == made.brief.text and again.question == made.question
    assert "Anything goes" in agent.brief().brief.text


def test_as_of_a_moment_before_the_manual_changed_the_rules_are_those_last_shown(memory, desk):
    agent = given(memory, desk)
    assert rules(agent.brief(as_of=NOON - timedelta(days=1))) == ""
    first = agent.brief()
    agent.shown(first, run="r1")
    (desk / "TRADING_MANUAL.md").write_text("# Manual\n\nAnything goes.\n")
    then = memory.clock.now()
    agent.shown(agent.brief(), run="r2")
    assert "R3: never risk" in rules(agent.brief(as_of=then)) and "Anything goes" in rules(agent.brief(as_of=memory.clock.now()))


def test_a_receipt_is_taken_by_another_process_while_the_documents_are_the_same_and_refused_when_not(memory, desk, tmp_path):
    receipt = given(memory, desk).brief(symbol="XAUUSD").receipt
    with open_memory(str(tmp_path / "desk.db"), clock=Clock()) as other:
        assert other.agent("gold").brief_again(receipt).receipt == receipt
        (desk / "TRADING_MANUAL.md").write_text("# Manual\n\nAnything goes.\n")
        with pytest.raises(Conflict, match="cannot be made again"):
            other.agent("gold").brief_again(receipt)


def test_pins_and_papers_are_in_the_log_which_verifies_and_rebuilds(memory, desk):
    agent = given(memory, desk)
    agent.pin_document("TRADING_MANUAL.md", "Risk")
    agent.shown(agent.brief(symbol="XAUUSD"), run="r1")
    assert verify(memory).ok and rebuild(memory).ok and verify(memory).ok


# --- what a decision rests on ---------------------------------------------------------------------------------------------


def decide(agent: AgentMemory, id: str, **more: Any) -> Any:
    return agent.observe({"id": id, "symbol": "XAUUSD", "action": "no_trade", "reason": "slippage", **more}, kind="decision")


def test_a_decision_keeps_the_words_it_cited_and_says_later_whether_they_still_stand(memory, desk):
    agent = given(memory, desk)
    hit = agent.search_documents("slippage at the open").hits[0]
    lines = {"path": hit.path, "start_line": hit.start_line, "end_line": hit.end_line, "content_hash": hit.content_hash}
    decide(agent, "d1", citations=[lines], run={"id": "r1"})
    (rested,) = agent.citations(decision="d1")
    assert (rested.run, rested.role, rested.verdict.verdict) == ("r1", "cited", "valid") and "pullback" in rested.citation.quoted
    note = desk / "journal" / "2026-11-14.md"
    note.write_text("Two\nlines\n" + NOTE)
    assert [(one.verdict.verdict, one.verdict.start_line) for one in agent.citations(run="r1")] == [("moved", 3)]
    note.write_text(NOTE.replace("30", "3"))
    assert agent.citations(run="r1")[0].verdict.verdict == "changed"
    note.unlink()
    assert agent.citations(run="r1")[0].verdict.verdict == "gone"


def test_lines_that_moved_since_the_search_are_recorded_where_they_stand(memory, desk):
    agent = given(memory, desk)
    hit = agent.search_documents("slippage at the open").hits[0]
    (desk / "journal" / "2026-11-14.md").write_text("One line\n" + NOTE)
    lines = {"path": hit.path, "start_line": hit.start_line, "end_line": hit.end_line, "content_hash": hit.content_hash}
    decide(agent, "d1", citations=[lines])
    assert agent.citations(decision="d1")[0].citation.start_line == hit.start_line + 1


def test_a_citation_of_words_that_are_not_there_is_refused_and_nothing_is_written(memory, desk):
    agent = given(memory, desk)
    before = agent.head()
    for wrong, field in (
        ({"path": "none.md", "start_line": 1, "end_line": 1}, "citations.0.path"),
        ({"path": "TRADING_MANUAL.md", "start_line": 1, "end_line": 1, "content_hash": "0" * 64}, "citations.0.content_hash"),
        ({"path": "TRADING_MANUAL.md", "start_line": 90, "end_line": 91}, "lines"),
    ):
        with pytest.raises(Invalid) as refused:
            decide(agent, "d1", citations=[wrong])
        assert refused.value.field == field
    assert agent.head() == before


def test_a_tick_that_is_delivered_again_after_its_source_was_deleted_is_a_repetition_not_an_error(memory, desk):
    agent = given(memory, desk)
    cited = {"path": "TRADING_MANUAL.md", "start_line": 7, "end_line": 7}
    tick = {"id": "t1", "t": NOON, "decision": {"action": "no_trade", "symbol": "XAUUSD", "citations": [cited]}}
    agent.observe(tick)
    (desk / "TRADING_MANUAL.md").unlink()
    assert agent.observe(tick).duplicate
    assert [one.citation.quoted for one in agent.citations(decision="t1")] == ["R3: never risk more than 1 % on XAUUSD."]


def test_what_a_run_was_shown_belongs_to_it(memory, desk):
    agent = given(memory, desk)
    agent.shown(agent.brief(symbol="XAUUSD", thesis="breakout at the open"), decision="d1", run="r1")
    assert [(one.role, one.citation.path, one.verdict.verdict) for one in agent.citations(run="r1")] == [
        ("rule", "TRADING_MANUAL.md", "valid"), ("document", "journal/2026-11-14.md", "valid"),
    ]  # fmt: skip
    assert agent.citations(run="r2") == [] and len(agent.citations()) == 2
