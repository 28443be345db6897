"""Imported decisions: the lines they cite are quoted from the documents, never from the file."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

import memtape
from memtape.core.fills import Fill, FillCorrection, Instrument
from memtape.core.memory.affect import outcome_signal
from memtape.core.observed import ClosedTrade, Decision, Tick
from memtape.core.values import read
from memtape.engine.proof.audit import verify_store
from memtape.errors import Invalid, Locked
from memtape.plugs.clock import FixedClock
from tests.conftest import NOON
from tests.desk import given_agent, given_memory
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


def test_a_check_for_writing_raises_while_another_writer_holds_the_lock(agent):
    agent.resources.check_writable()
    with memtape.open(agent.resources.database.url) as other, other.resources.writing("gold"), pytest.raises(Locked):
        agent.resources.check_writable()


def test_an_undo_takes_back_a_fill_that_was_amended_after_its_import():
    memory = given_memory()
    agent = given_agent(memory)
    bought = {"id": "f1", "t": "2026-06-04T08:00:00Z", "symbol": "BTC", "side": "buy", "qty": 1, "px": 100}
    batch = agent.imports.commit([read(Fill, bought)], {"file": "a.csv"}).batch
    amended = {"kind": "amend_fill", "fill_id": "f1", "t": "2026-06-04T09:00:00Z", "content": {"px": "101"}}
    agent.observe(amended, kind="amend_fill")
    assert [trade.entry_price for trade in agent.ledger.trades()] == [101]
    agent.imports.undo(batch)
    assert agent.ledger.trades() == []
    assert verify_store(memory).problems == []


def test_an_undo_of_imported_terms_computes_reported_trades_again():
    memory = given_memory()
    agent = given_agent(memory)
    trade = {"trade_id": "t1", "symbol": "ES", "side": "long", "entry_at": "2026-06-04T08:00:00Z",
             "exit_at": "2026-06-04T09:00:00Z", "entry_price": 5000, "exit_price": 5010, "qty": 1}  # fmt: skip
    agent.observe(trade, kind="trade")
    batch = agent.imports.commit([read(Instrument, {"symbol": "ES", "multiplier": 50})], {"file": "terms.json"}).batch
    assert [row.net_pnl_usd for row in agent.ledger.trades()] == [500]
    agent.imports.undo(batch)
    assert [row.net_pnl_usd for row in agent.ledger.trades()] == [10]
    assert verify_store(memory).problems == []


def many_trades(n: int) -> list[ClosedTrade]:
    day = {"symbol": "ES", "side": "long", "entry_price": 5000, "exit_price": 5010, "stop": 4990, "qty": 1}
    start = NOON - timedelta(days=100)
    times = [(start + timedelta(hours=each), start + timedelta(hours=each, minutes=90)) for each in range(n)]
    return [read(ClosedTrade, {"trade_id": f"t{k}", "entry_at": entry, "exit_at": exit_, **day}) for k, (entry, exit_) in enumerate(times)]


def test_an_undo_judges_each_trade_a_few_times_and_not_once_for_every_other_trade(monkeypatch):
    memory = given_memory()
    agent = given_agent(memory)
    batch = agent.imports.commit(many_trades(200), {"file": "a.csv"}).batch
    judged: list[float] = []

    def counted(pnl_r: float, sigma_r: float) -> float:
        judged.append(pnl_r)
        return outcome_signal(pnl_r, sigma_r)

    monkeypatch.setattr("memtape.core.memory.affect.outcome_signal", counted)
    agent.imports.undo(batch)
    assert 0 < len(judged) <= 3 * 200
    monkeypatch.undo()
    assert verify_store(memory).problems == []


def test_a_correction_of_a_fill_cannot_be_imported():
    agent = given_agent(given_memory())
    void = read(FillCorrection, {"kind": "void_fill", "fill_id": "f1", "t": "2026-06-04T09:00:00Z"})
    with pytest.raises(Invalid, match=r"cannot be imported\. Record it with amend_fill or void_fill"):
        agent.imports.commit([void], {"file": "a.csv"})
