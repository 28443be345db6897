"""Imported decisions: the lines they cite are quoted from the documents, never from the file."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

import memtape
from memtape.core.observed import Decision, Tick
from memtape.core.values import read
from memtape.errors import Invalid, Locked
from memtape.plugs.clock import FixedClock
from tests.conftest import NOON
from tests.documents.desk import write


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    return write(tmp_path / "desk", {"TRADING_MANUAL.md": "# Manual\n\nNever risk more than 1 %.\n"})


@pytest.fixture
def agent(desk: Path, tmp_path: Path):
    memory = memtape.open(str(tmp_path / "desk.db"), clock=FixedClock(NOON))
    memory.create_skill("plain")
    memory.create_agent("gold", skill="plain", mode="paper")
    memory.agent("gold").documents.add(desk)
    yield memory.agent("gold")
    memory.close()


def citing(path: str = "TRADING_MANUAL.md", line: int = 3, **more: str) -> dict[str, object]:
    cited = {"path": path, "start_line": line, "end_line": line, **more}
    return {"id": "d1", "t": NOON - timedelta(hours=1), "symbol": "XAUUSD", "action": "buy", "citations": [cited]}


def quotes(agent) -> list[str]:
    return [each.citation.quoted for each in agent.citations.of()]


def test_the_lines_that_an_imported_decision_cites_are_quoted_from_the_document(agent):
    agent.imports.commit([read(Decision, citing())], {"file": "a.jsonl"})
    tick = {"id": "t1", "t": NOON - timedelta(hours=1), "marks": {"XAUUSD": "4000"}, "decision": [{**citing(line=1), "id": "d2"}]}
    agent.imports.commit([read(Tick, tick)], {"file": "b.jsonl"})
    assert sorted(quotes(agent)) == ["# Manual", "Never risk more than 1 %."]


@pytest.mark.parametrize(
    "cited, field",
    [
        (citing("NOTHING.md"), "citations.0.path"),
        (citing(content_hash="0" * 64, quoted="Risk everything."), "citations.0.content_hash"),
    ],
)
def test_a_quote_that_no_document_has_is_refused_with_the_whole_file(agent, cited, field):
    honest = read(Decision, {**citing(), "id": "d0"})
    with pytest.raises(Invalid) as refused:
        agent.imports.commit([honest, read(Decision, cited)], {"file": "a.jsonl"})
    assert refused.value.field == field and quotes(agent) == []


def test_a_second_import_of_a_file_is_a_duplicate_even_if_the_document_has_changed(agent, desk):
    one = agent.documents.cite("TRADING_MANUAL.md", 3, 3)
    decisions = [read(Decision, citing(content_hash=one.content_hash, quoted=one.quoted))]
    first = agent.imports.commit(decisions, {"file": "a.jsonl"})
    write(desk, {"TRADING_MANUAL.md": "All is new.\n"})
    assert (agent.imports.commit(decisions, {"file": "a.jsonl"}).duplicates, quotes(agent)) == (1, [one.quoted])
    agent.imports.undo(first.batch)
    with pytest.raises(Invalid, match="no longer say"):
        agent.imports.commit(decisions, {"file": "a.jsonl"})


def test_stored_bodies_are_those_of_items_that_were_not_undone(agent):
    done = agent.imports.commit([read(Decision, citing())], {"file": "a.jsonl"})
    names = [("decision", "d1"), ("decision", "unknown"), ("fill", "d1")]
    assert {name: body["symbol"] for name, body in agent.imports.stored_bodies(names).items()} == {("decision", "d1"): "XAUUSD"}
    agent.imports.undo(done.batch)
    assert agent.imports.stored_bodies(names) == {}


def test_a_check_for_writing_raises_while_another_process_holds_the_lock(agent):
    agent.resources.check_writable()
    with memtape.open(agent.resources.database.url) as other, other.resources.writing("gold"), pytest.raises(Locked):
        agent.resources.check_writable()
