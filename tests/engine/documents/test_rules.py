"""Rules always in context, passages in the brief, and what decisions rest on."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memtape.compose import open_memory
from memtape.core.codec import canonical_plain, plain
from memtape.documents.citations import Citation, content_hash
from memtape.engine import AgentMemory, Memory
from memtape.engine.proof.audit import rebuild_store, verify_store
from memtape.errors import Conflict, Invalid, Unknown
from memtape.surfaces.registry import execute

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
    agent.documents.add(desk)
    return agent


def rules(made: Any) -> str:
    return next((segment.text for segment in made.brief.segments if segment.name == "rules"), "")


# --- rules --------------------------------------------------------------------------------------------------------------


def test_the_manual_stands_first_among_the_records_of_every_brief(memory, desk):
    made = given(memory, desk).briefs.make(symbol="XAUUSD")
    assert "R3: never risk more than 1 % on XAUUSD." in rules(made)
    assert next(segment.name for segment in made.brief.segments if segment.role == "user") == "rules"
    cited = [one.source for one in made.brief.citations if one.segment == "rules"]
    assert {source.tier for source in cited} == {1} and {source.kind for source in cited} == {"rule"}


def test_a_rule_holds_from_the_moment_the_file_is_saved(memory, desk):
    agent = given(memory, desk)
    before = agent.head()
    (desk / "TRADING_MANUAL.md").write_text(MANUAL.replace("1 %", "0.5 %"))
    assert "0.5 % on XAUUSD" in rules(agent.briefs.make()) and agent.head() == before


def test_the_owner_pins_one_section_and_the_rest_of_the_manual_stays_out(memory, desk):
    agent = given(memory, desk)
    agent.rules.pin("TRADING_MANUAL.md", "Risk")
    told = rules(agent.briefs.make())
    assert "R3: never risk" in told and "Breakouts only" not in told
    assert [(pin.path, pin.section, pin.by) for pin in agent.rules.pinned()] == [("TRADING_MANUAL.md", "Risk", "owner")]


def test_what_is_unpinned_stays_out_and_pinning_again_brings_it_back(memory, desk):
    agent = given(memory, desk)
    agent.rules.unpin("TRADING_MANUAL.md")
    assert rules(agent.briefs.make()) == "" and agent.rules.pinned() == ()
    agent.rules.pin("TRADING_MANUAL.md")
    assert agent.rules.pin("TRADING_MANUAL.md").duplicate
    assert "Breakouts only" in rules(agent.briefs.make())


def test_what_an_agent_may_write_to_cannot_be_pinned(memory, desk):
    agent = given(memory, desk)
    with pytest.raises(Invalid, match="may be written by the agent"):
        agent.rules.pin("journal/2026-11-14.md")
    for path in ("../desk.db", "/etc/passwd", "journal/../TRADING_MANUAL.md", "none.md"):
        with pytest.raises(Unknown):
            agent.rules.pin(path)
    with pytest.raises(Unknown, match="Exits"):
        agent.rules.pin("TRADING_MANUAL.md", "Exits")


def test_a_rules_file_that_is_a_link_out_of_the_workspace_is_no_rule(memory, desk, tmp_path):
    secret = tmp_path / "secret.md"
    secret.write_text("the key is 1234")
    (desk / "SOUL.md").symlink_to(secret)
    assert "1234" not in given(memory, desk).briefs.make().brief.text


def test_a_pinned_file_that_is_gone_is_told_not_left_out_in_silence(memory, desk):
    agent = given(memory, desk)
    agent.rules.pin("TRADING_MANUAL.md", "Risk")
    (desk / "TRADING_MANUAL.md").unlink()
    made = agent.briefs.make()
    assert "RULES MISSING: TRADING_MANUAL.md › Risk, last seen 2026-11-15T12:00 (the file is not there)" in rules(made)
    assert any(told.startswith("RULES MISSING: TRADING_MANUAL.md › Risk") for told in made.brief.warnings)


def test_long_rules_are_cut_at_their_budget_and_the_brief_says_so(memory, desk):
    (desk / "TRADING_MANUAL.md").write_text("".join(f"Rule {n}: never do thing number {n} on a Friday.\n" for n in range(400)))
    made = given(memory, desk).briefs.make()
    assert "Rule 0:" in rules(made) and "Rule 399:" not in rules(made) and made.brief.tokens <= 4_000
    assert "NOT SHOWN for want of room: TRADING_MANUAL.md, lines " in rules(made) and "to 400. They bind you too" in rules(made)


def test_rules_of_a_shared_folder_are_pinned_by_the_owner_for_one_agent(memory, desk, tmp_path):
    shared = tmp_path / "playbooks"
    shared.mkdir()
    (shared / "RULES.md").write_text("No trades on Fridays.")
    agent = given(memory, desk)
    agent.documents.add(shared, shared=True)
    assert "Fridays" not in rules(agent.briefs.make())
    agent.rules.pin("playbooks/RULES.md")
    assert "Fridays" in rules(agent.briefs.make())


def test_rules_stay_in_a_brief_without_memory_and_passages_do_not(memory, desk):
    made = given(memory, desk).briefs.make(symbol="XAUUSD", without_memory=True)
    assert "R3: never risk" in rules(made) and "pullback" not in made.brief.text


@pytest.mark.parametrize("how", ["the folder is away", "deleted", "a link", "not text"])
def test_a_manual_that_was_in_every_brief_does_not_vanish_in_silence(memory, desk, how):
    agent, manual = given(memory, desk), desk / "TRADING_MANUAL.md"
    agent.briefs.record_shown(agent.briefs.make(), run="r1")
    if how == "the folder is away":
        desk.rename(desk.with_name("away"))
    elif how == "deleted":
        manual.unlink()
    elif how == "a link":
        manual.rename(desk / "x")
        manual.symlink_to(desk / "x")
    else:
        manual.write_bytes(bytes(range(256)) * 8)
    made = agent.briefs.make()
    assert rules(made).split("\n")[1].startswith("- RULES MISSING: TRADING_MANUAL.md, last seen 2026-11-15T12:00 (")
    assert len(rules(made).split("\n")) == 3 and any("TRADING_MANUAL.md" in told for told in made.brief.warnings)


def test_of_a_manual_that_no_brief_has_room_for_all_that_is_not_shown_is_named(memory, desk):
    agent = given(memory, desk)
    (desk / "TRADING_MANUAL.md").write_text("Never chase.\n" * 400_000)
    text = rules(agent.briefs.make())
    shown = text.count("| Never chase.")
    unshown = re.search(r"NOT SHOWN .* lines (\d+) to (\d+); TRADING_MANUAL.md \(it goes on for ([\d,]+) lines more\)", text)
    assert shown > 100 and unshown and int(unshown[1]) == shown + 1
    assert int(unshown[2]) + int(unshown[3].replace(",", "")) == 400_000


NUMBERED = "1. One trade a day.\n2. Never average down.\n3. Maximum 20 %.\n4. See rule 3.\n"
HOW = ["deleted", "emptied", "cut short", "a folder", "renamed", "not text"]


def damage(rules_file: Path, how: str) -> None:
    if how == "cut short":
        rules_file.write_text(NUMBERED[:40])
    elif how == "emptied":
        rules_file.write_text(" \n")
    elif how == "renamed":
        rules_file.rename(rules_file.with_name("OLD.md"))
    elif how == "not text":
        rules_file.write_bytes(b"\0\1\2")
    else:
        rules_file.unlink()
        if how == "a folder":
            rules_file.mkdir()


@pytest.mark.parametrize("how", HOW)
def test_a_rules_file_that_no_brief_has_shown_yet_does_not_vanish_either(memory, desk, how):
    (desk / "RULES.md").write_text(NUMBERED)
    agent = given(memory, desk)
    damage(desk / "RULES.md", how)
    for n in range(3):  # not only in the first brief without them
        made = agent.briefs.make()
        assert "RULES MISSING: RULES.md, last seen" in rules(made) and "2026-11-15T12:00" in rules(made)
        assert any(told.startswith("RULES MISSING: RULES.md") for told in made.brief.warnings)
        agent.briefs.record_shown(made, run=f"r{n}")
        agent.documents.sync()
    assert any("RULES MISSING: RULES.md" in pin.problem for pin in agent.rules.pinned())
    (desk / "RULES.md").rmdir() if how == "a folder" else None
    (desk / "RULES.md").write_text(NUMBERED)
    assert "RULES MISSING" not in agent.briefs.make().brief.text and "3. Maximum 20 %." in rules(agent.briefs.make())


def test_the_owner_confirms_shorter_rules_and_lets_go_of_a_file_that_is_gone(memory, desk):
    (desk / "RULES.md").write_text(NUMBERED)
    agent = given(memory, desk)
    (desk / "RULES.md").write_text("1. One trade a day.\n")
    assert "(of 4 lines 1 are left)" in rules(agent.briefs.make())
    agent.rules.pin("RULES.md")
    assert "RULES MISSING" not in rules(agent.briefs.make())
    (desk / "RULES.md").unlink()
    assert "RULES MISSING: RULES.md" in rules(agent.briefs.make())
    agent.rules.unpin("RULES.md")
    assert "RULES" not in rules(agent.briefs.make())


def test_a_rule_that_the_owner_takes_out_by_a_proposal_is_not_missing(memory, desk):
    (desk / "RULES.md").write_text(NUMBERED)
    agent = given(memory, desk)
    edit = agent.proposals.propose("RULES.md", old="4. See rule 3.\n", new="", reason="said twice", run="r1")
    agent.proposals.accept(edit.id)
    assert "RULES MISSING" not in rules(agent.briefs.make()) and "4. See" not in rules(agent.briefs.make())


def test_a_brief_that_misses_rules_is_made_again_byte_for_byte(memory, desk, tmp_path):
    (desk / "RULES.md").write_text(NUMBERED)
    agent = given(memory, desk)
    agent.briefs.record_shown(agent.briefs.make(symbol="XAUUSD"), run="r1")
    (desk / "RULES.md").unlink()
    made = agent.briefs.make(symbol="XAUUSD")
    with open_memory(str(tmp_path / "desk.db"), clock=Clock()) as other:
        other.agent("gold").briefs.record_shown(other.agent("gold").briefs.make(symbol="EURUSD"), run="r2")
        assert other.agent("gold").briefs.reproduce(made.receipt).brief.text == made.brief.text
    agent.briefs.record_shown(made, run="r3")
    (desk / "RULES.md").write_text(NUMBERED)
    again = agent.briefs.make(symbol="XAUUSD", as_of=made.question.as_of, head=made.question.head)
    assert again.brief.text == made.brief.text and "RULES MISSING" in again.brief.text


def test_the_owner_pins_any_file_that_no_agent_writes(memory, desk):
    (desk / "docs" / "risk").mkdir(parents=True)
    (desk / "docs" / "risk" / "limits.md").write_text("Two trades a day.\n")
    agent = given(memory, desk)
    agent.rules.pin("docs/risk/limits.md")
    assert "Two trades a day." in rules(agent.briefs.make())


def test_a_workspace_that_became_a_link_gives_no_rules(memory, desk, tmp_path):
    agent, other = given(memory, desk), tmp_path / "other"
    other.mkdir()
    (other / "TRADING_MANUAL.md").write_text("Risk everything.\n")
    desk.rename(tmp_path / "away")
    desk.symlink_to(other)
    assert "Risk everything" not in agent.briefs.make().brief.text


@pytest.mark.parametrize("broken", ["no database", "a folder"])
def test_a_broken_index_keeps_no_agent_from_its_rules(memory, desk, tmp_path, broken):
    given(memory, desk)
    memory.close()
    index = tmp_path / "desk.docs.db"
    for ending in ("", "-wal", "-shm"):
        Path(f"{index}{ending}").unlink(missing_ok=True)
    _ = index.mkdir() if broken == "a folder" else index.write_bytes(b"nothing" * 999)
    with open_memory(str(tmp_path / "desk.db"), clock=Clock()) as again:
        made = again.agent("gold").briefs.make(symbol="XAUUSD")
    assert "R3: never risk" in rules(made) and any("No document is cited" in told for told in made.brief.warnings)


def test_a_file_that_may_not_be_read_is_told_by_its_name(memory, desk, monkeypatch):
    agent, opened = given(memory, desk), Path.open

    def refused(file: Path, *more: Any) -> Any:
        if file.name == "TRADING_MANUAL.md":
            raise PermissionError(13, "Permission denied")
        return opened(file, *more)

    monkeypatch.setattr(Path, "open", refused)
    assert any("TRADING_MANUAL.md" in told for told in agent.briefs.make().brief.warnings)
    monkeypatch.setattr(Path, "read_bytes", lambda file: opened(file, "nowhere"))
    (pin,) = agent.rules.pinned()
    assert "RULES MISSING: TRADING_MANUAL.md, last seen" in pin.problem and "Permission denied" in pin.problem


def test_a_rule_on_one_long_line_is_told_to_its_end(memory, desk):
    (desk / "TRADING_MANUAL.md").write_text("Never trade " + "and never hope " * 80 + "unless the daily loss is below 2 %.\n")
    assert "the daily loss is below 2 %" in rules(given(memory, desk).briefs.make())


def test_a_manual_of_megabytes_is_told_from_its_beginning_and_says_that_it_goes_on(memory, desk):
    (desk / "TRADING_MANUAL.md").write_text("".join(f"Rule {n}: wait.\n" for n in range(200_000)))
    agent = given(memory, desk)
    (pin,) = agent.rules.pinned()
    assert pin.rule is not None and len(pin.rule.text) < 65_000 and pin.rule.text.endswith("lines more)")
    assert pin.rule.end_line < 6_000 and "Rule 0: wait." in rules(agent.briefs.make())


def test_headings_with_a_slash_are_pinned_and_a_document_has_one_name(memory, desk):
    (desk / "TRADING_MANUAL.md").write_text("# M\n\n## Entries/Exits\n\nBreak only.\n\n## Other\n\nNothing.\n")
    agent = given(memory, desk)
    agent.rules.pin("TRADING_MANUAL.md", "Entries/Exits")
    assert "Break only" in rules(agent.briefs.make()) and "Nothing" not in rules(agent.briefs.make())
    for path in ("./TRADING_MANUAL.md", "TRADING_MANUAL.md/", "a" * 300 + ".md", "x" * 2000):
        with pytest.raises(Unknown):
            agent.rules.pin(path)


# --- passages -----------------------------------------------------------------------------------------------------------


def test_a_note_on_the_symbol_is_cited_with_its_lines(memory, desk):
    made = given(memory, desk).briefs.make(symbol="XAUUSD", thesis="breakout at the open")
    assert "journal/2026-11-14.md:1-3" in made.brief.text and "wait for the first pullback" in made.brief.text
    source = next(one.source for one in made.brief.citations if one.source.kind == "document")
    assert source.tier == 3 and [one.id for one in made.documents.documents] == [source.id]


def test_a_note_that_has_nothing_to_do_with_the_decision_is_not_cited(memory, desk):
    made = given(memory, desk).briefs.make(symbol="SOL", thesis="funding flipped")
    assert made.documents.documents == ()


def test_a_simulation_is_told_rules_but_no_passage_that_might_know_the_future(memory, desk):
    made = given(memory, desk, mode="sim").briefs.make(symbol="XAUUSD", thesis="breakout at the open")
    assert "R3: never risk" in rules(made) and made.documents.documents == ()


def test_a_brief_without_any_document_makes_no_index_file(tmp_path):
    with open_memory(str(tmp_path / "bare.db"), clock=Clock()) as memory:
        memory.create_skill("breakout")
        memory.create_agent("gold", skill="breakout")
        memory.agent("gold").briefs.make(symbol="XAUUSD")
    assert [file.name for file in tmp_path.glob("bare.docs*")] == []


# --- the past -----------------------------------------------------------------------------------------------------------


def test_a_shown_brief_is_made_again_byte_for_byte_after_its_documents_changed(memory, desk):
    agent = given(memory, desk)
    made = agent.briefs.make(symbol="XAUUSD", thesis="breakout at the open")
    agent.briefs.record_shown(made, run="r1")
    (desk / "TRADING_MANUAL.md").write_text("# Manual\n\nAnything goes.\n")
    (desk / "journal" / "2026-11-14.md").unlink()
    agent.documents.sync()
    asked = made.question
    again = agent.briefs.make(symbol="XAUUSD", thesis="breakout at the open", as_of=asked.as_of, head=asked.head)
    assert again.brief.text == made.brief.text and again.question == made.question
    assert "Anything goes" in agent.briefs.make().brief.text


def test_as_of_a_moment_before_the_manual_changed_the_rules_are_those_last_shown(memory, desk):
    agent = given(memory, desk)
    assert rules(agent.briefs.make(as_of=NOON - timedelta(days=1))) == ""
    first = agent.briefs.make()
    agent.briefs.record_shown(first, run="r1")
    (desk / "TRADING_MANUAL.md").write_text("# Manual\n\nAnything goes.\n")
    then = memory.clock.now()
    agent.briefs.record_shown(agent.briefs.make(), run="r2")
    assert "R3: never risk" in rules(agent.briefs.make(as_of=then)) and "Anything goes" in rules(
        agent.briefs.make(as_of=memory.clock.now())
    )


def test_a_receipt_is_taken_by_another_process_while_the_documents_are_the_same_and_refused_when_not(memory, desk, tmp_path):
    receipt = given(memory, desk).briefs.make(symbol="XAUUSD").receipt
    with open_memory(str(tmp_path / "desk.db"), clock=Clock()) as other:
        assert other.agent("gold").briefs.reproduce(receipt).receipt == receipt
        (desk / "TRADING_MANUAL.md").write_text("# Manual\n\nAnything goes.\n")
        with pytest.raises(Conflict, match="cannot be made again"):
            other.agent("gold").briefs.reproduce(receipt)


def test_a_note_written_after_the_brief_does_not_keep_its_decision_out_of_the_record(memory, desk, tmp_path):
    agent = given(memory, desk)
    receipt = agent.briefs.make(symbol="XAUUSD", thesis="breakout pullback").receipt
    agent.journal.append("journal", "XAUUSD breakout pullback: waited at the open, XAUUSD slipped.")
    with open_memory(str(tmp_path / "desk.db"), clock=memory.clock) as other:
        fill = {"id": "f1", "t": "2026-11-15T12:00:00Z", "symbol": "XAUUSD", "side": "buy", "qty": "1", "px": "4000"}
        tick = {"agent": "gold", "id": "t1", "t": "2026-11-15T12:00:00Z", "brief": receipt, "fills": [fill]}
        assert [told["event"] for told in execute(other, "observe_tick", tick)["concluded"]] == ["opened"]
        assert [one["run"] for one in other.agent("gold").briefs.shown()] == ["t1"]
        (desk / "TRADING_MANUAL.md").write_text("# Manual\n\nAnything goes.\n")
        tick |= {
            "id": "t2",
            "t": "2026-11-15T12:00:05Z",
            "fills": [fill | {"id": "f2", "side": "sell", "t": "2026-11-15T12:00:04Z"}],
        }
        receipt = agent.briefs.make(symbol="EURUSD").receipt
        (desk / "TRADING_MANUAL.md").write_text("# Manual\n\nNothing goes.\n")
        told = execute(other, "observe_tick", tick | {"brief": receipt})["concluded"]
        assert [one["event"] for one in told] == ["closed", "brief_not_recorded"]


def test_of_two_briefs_shown_at_one_row_each_is_made_again_by_its_documents(memory, desk):
    agent = given(memory, desk, mode="sim")
    agent.observe({"id": "t1", "t": "2026-11-15T10:00:00Z", "marks": {"XAUUSD": "4000"}})
    one = agent.briefs.make(symbol="XAUUSD")
    (desk / "TRADING_MANUAL.md").write_text("R9: no trades on Friday.\n")
    two, other = agent.briefs.make(symbol="XAUUSD"), agent.briefs.make(symbol="EURUSD")
    for number, made in enumerate((one, two, other)):
        agent.briefs.record_shown(made, run=f"r{number}")
    for made in (one, two, other):
        asked = made.question
        again = agent.briefs.make(symbol=asked.symbol, as_of=asked.as_of, head=asked.head, documents=asked.papers)
        assert again.brief.text == made.brief.text


def test_what_is_shown_later_changes_no_brief_as_of_an_earlier_row(memory, desk):
    agent = given(memory, desk, mode="sim")
    agent.observe({"id": "t1", "t": "2026-11-15T10:00:00Z", "marks": {"XAUUSD": "4000"}})
    then = {"as_of": datetime(2026, 11, 15, 11, tzinfo=UTC), "head": agent.head().seq}
    before = agent.briefs.make(symbol="XAUUSD", **then)
    agent.briefs.record_shown(agent.briefs.make(symbol="XAUUSD"), run="r1")
    assert agent.briefs.make(symbol="XAUUSD", **then).brief.text == before.brief.text


def test_rules_that_were_taken_back_do_not_return_as_of_later(memory, desk):
    agent = given(memory, desk)
    agent.briefs.record_shown(agent.briefs.make(symbol="EURUSD"), run="r1")
    agent.rules.unpin("TRADING_MANUAL.md")
    agent.briefs.record_shown(agent.briefs.make(symbol="EURUSD"), run="r2")
    assert rules(agent.briefs.make(symbol="EURUSD", as_of=memory.clock.now())) == ""


def test_an_older_set_of_rules_cannot_be_passed_off_as_shown(memory, desk):
    agent = given(memory, desk)
    old = agent.briefs.make(symbol="EURUSD")
    agent.briefs.record_shown(old, run="r1")
    (desk / "TRADING_MANUAL.md").write_text("# Manual\n\nR3: half as much.\n")
    forged = {**plain(old.question), "head": agent.head().seq, "digest": old.brief.digest[::-1]}
    with pytest.raises(Conflict):
        agent.briefs.reproduce(canonical_plain(forged))


def test_pins_and_documents_are_in_the_log_which_verifies_and_rebuilds(memory, desk):
    agent = given(memory, desk)
    agent.rules.pin("TRADING_MANUAL.md", "Risk")
    agent.briefs.record_shown(agent.briefs.make(symbol="XAUUSD"), run="r1")
    assert verify_store(memory).ok and rebuild_store(memory).ok and verify_store(memory).ok


# --- what a decision rests on ---------------------------------------------------------------------------------------------


def decide(agent: AgentMemory, id: str, **more: Any) -> Any:
    return agent.observe({"id": id, "symbol": "XAUUSD", "action": "no_trade", "reason": "slippage", **more}, kind="decision")


def test_a_decision_keeps_the_words_it_cited_and_says_later_whether_they_still_stand(memory, desk):
    agent = given(memory, desk)
    hit = agent.documents.search("slippage at the open").hits[0]
    lines = {"path": hit.path, "start_line": hit.start_line, "end_line": hit.end_line, "content_hash": hit.content_hash}
    decide(agent, "d1", citations=[lines], run={"id": "r1"})
    (rested,) = agent.citations.of(decision="d1")
    assert (rested.run, rested.role, rested.verdict.verdict) == ("r1", "cited", "valid") and "pullback" in rested.citation.quoted
    note = desk / "journal" / "2026-11-14.md"
    note.write_text("Two\nlines\n" + NOTE)
    assert [(one.verdict.verdict, one.verdict.start_line) for one in agent.citations.of(run="r1")] == [("moved", 3)]
    note.write_text(NOTE.replace("30", "3"))
    assert agent.citations.of(run="r1")[0].verdict.verdict == "changed"
    note.unlink()
    assert agent.citations.of(run="r1")[0].verdict.verdict == "gone"


def test_lines_that_moved_since_the_search_are_recorded_where_they_stand(memory, desk):
    agent = given(memory, desk)
    hit = agent.documents.search("slippage at the open").hits[0]
    (desk / "journal" / "2026-11-14.md").write_text("One line\n" + NOTE)
    lines = {"path": hit.path, "start_line": hit.start_line, "end_line": hit.end_line, "content_hash": hit.content_hash}
    decide(agent, "d1", citations=[lines])
    assert agent.citations.of(decision="d1")[0].citation.start_line == hit.start_line + 1


def test_a_citation_of_words_that_are_not_there_is_refused_and_nothing_is_written(memory, desk):
    agent = given(memory, desk)
    before = agent.head()
    for wrong, field in (
        ({"path": "none.md", "start_line": 1, "end_line": 1}, "citations.0.path"),
        ({"path": "TRADING_MANUAL.md", "start_line": 1, "end_line": 1, "content_hash": "0" * 64}, "citations.0.content_hash"),
        ({"path": "TRADING_MANUAL.md", "start_line": 90, "end_line": 91}, "citations.0.end_line"),
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
    assert [one.citation.quoted for one in agent.citations.of(decision="t1")] == ["R3: never risk more than 1 % on XAUUSD."]


def test_only_what_stood_in_the_brief_is_said_to_have_been_shown(memory, desk):
    (desk / "SOUL.md").write_text(
        "\n".join(f"S{n}: rule number {n} of the soul is long enough to matter here." for n in range(200))
    )
    agent = given(memory, desk)
    made = agent.briefs.make(symbol="XAUUSD", thesis="breakout", budget=900)
    agent.briefs.record_shown(made, decision="d1")
    rested = next(one for one in agent.citations.of(decision="d1") if one.citation.path == "SOUL.md")
    told = [line for line in made.brief.text.splitlines() if "of the soul" in line]
    assert len(told) < 200 and "R3: never risk" in rules(made)
    assert (rested.citation.path, rested.citation.end_line) == ("SOUL.md", len(told)) and rested.verdict.verdict == "valid"


def test_what_a_decision_was_shown_belongs_to_its_run(memory, desk):
    agent = given(memory, desk)
    decide(agent, "d1", run={"id": "r1"})
    agent.briefs.record_shown(agent.briefs.make(symbol="XAUUSD"), decision="d1")
    assert {one.run for one in agent.citations.of(run="r1")} == {"r1"}


def test_a_citation_of_an_untouched_file_stands_though_the_index_was_deleted(memory, desk, tmp_path):
    cited = given(memory, desk).documents.cite("TRADING_MANUAL.md", 1, 3)
    memory.close()
    for ending in ("", "-wal", "-shm"):
        (tmp_path / f"desk.docs.db{ending}").unlink(missing_ok=True)
    with open_memory(str(tmp_path / "desk.db"), clock=Clock()) as again:
        agent = again.agent("gold")
        assert agent.documents.verify_citation(cited).verdict == "valid" and agent.documents.read("TRADING_MANUAL.md", 7, 7)[
            0
        ].startswith("R3")
        for hidden in (".env", "../desk.db", "journal/.secret.md", "venv/x.md"):
            with pytest.raises(Unknown):
                agent.documents.read(hidden)


def test_lines_that_are_no_lines_are_never_valid(memory, desk):
    agent = given(memory, desk)
    for first, last in ((900, 901), (3, 2), (1, 0)):
        assert (
            agent.documents.verify_citation(Citation("TRADING_MANUAL.md", first, last, content_hash(""), "")).verdict == "changed"
        )


def test_a_folder_that_is_none_is_refused_by_its_name(memory, desk):
    for folder in ("~nosuchuser/x", "x" * 5000, "a\0b"):
        with pytest.raises(Invalid, match="folder"):
            given(memory, desk).documents.add(folder)


def test_what_a_run_was_shown_belongs_to_it(memory, desk):
    agent = given(memory, desk)
    agent.briefs.record_shown(agent.briefs.make(symbol="XAUUSD", thesis="breakout at the open"), decision="d1", run="r1")
    assert [(one.role, one.citation.path, one.verdict.verdict) for one in agent.citations.of(run="r1")] == [
        ("rule", "TRADING_MANUAL.md", "valid"), ("document", "journal/2026-11-14.md", "valid"),
    ]  # fmt: skip
    assert agent.citations.of(run="r2") == [] and len(agent.citations.of()) == 2


LONG_NOTE = "# Slippage\n\nXAUUSD breakout entries slipped by 30 points at the open of every Friday in May.\n\nWait.\n"


@pytest.mark.parametrize("synced", [True, False])
@pytest.mark.parametrize("new", ["journal/old/2026-11-14.md", "archive/slippage.md"])
def test_a_citation_survives_that_its_file_is_renamed_or_moved(memory, desk, new, synced):
    agent = given(memory, desk)
    note = desk / "journal" / "2026-11-14.md"
    note.write_text(LONG_NOTE)
    agent.documents.sync()
    hit = agent.documents.search("slipped at the open").hits[0]
    by_search = Citation(hit.path, hit.start_line, hit.end_line, hit.content_hash, "")
    by_lines = agent.documents.cite("journal/2026-11-14.md", 3, 3)
    decide(agent, "d1", citations=[plain(by_lines)])
    (desk / new).parent.mkdir(parents=True)
    note.rename(desk / new)
    (desk / new).write_text(f"Filed.\n{LONG_NOTE}")
    if synced:
        agent.documents.sync()
    for citation, line in ((by_search, hit.start_line + 1), (by_lines, 4)):
        found = agent.documents.verify_citation(citation)
        assert (found.verdict, found.path, found.start_line) == ("moved", new, line)
    (rested,) = agent.citations.of(decision="d1")
    assert (rested.verdict.verdict, rested.verdict.path, rested.verdict.start_line) == ("moved", new, 4)


def test_a_few_common_words_do_not_make_a_citation_of_a_deleted_file_moved(memory, desk):
    agent = given(memory, desk)
    (desk / "journal" / "other.md").write_text("# Slippage\n\nWait.\n")
    cited = agent.documents.cite("journal/2026-11-14.md", 1, 1)
    (desk / "journal" / "2026-11-14.md").unlink()
    agent.documents.sync()
    assert agent.documents.verify_citation(cited).verdict == "gone"
