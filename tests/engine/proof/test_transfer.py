"""Leaving with everything and coming back: the digests are the same."""

from __future__ import annotations

import csv
import json

import pytest

from memtape.engine.proof.audit import rebuild_store, verify_store
from memtape.engine.proof.transfer import export_store, restore_store
from memtape.errors import Conflict, Invalid, Tampered
from tests import desk, oracle

HISTORY = [
    {"id": "s1", "t": "2026-06-04T08:00:00Z", "positions": {"BTC": {"qty": "1", "entry_px": "100"}}, "equity": "1000",
     "fills": [{"id": "=f1", "t": "2026-06-04T08:00:00Z", "symbol": "BTC", "side": "buy", "qty": "1", "px": "100"}],
     "bars": [{"symbol": "BTC", "t0": "2026-06-04T07:00:00Z", "t1": "2026-06-04T08:00:00Z", "o": 99, "h": 101, "l": 98, "c": 100}],
     "decision": {"symbol": "BTC", "reason": '=HYPERLINK("x") and, "quotes"; ’naïve’'}},
    {"id": "s2", "t": "2026-06-04T09:00:00Z", "positions": {}, "marks": {"BTC": "104.123456789"}},
]  # fmt: skip


@pytest.fixture
def memory():
    filled = desk.given_memory()
    agent = desk.given_agent(filled)
    for tick in HISTORY:
        agent.observe(tick)
    return filled


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_an_export_restores_into_an_empty_store_to_the_same_digests(memory, form, tmp_path):
    export_store(memory, tmp_path / "out", form)
    restored = desk.given_memory()
    restore_store(restored, tmp_path / "out")
    assert verify_store(restored).digests == verify_store(memory).digests
    assert verify_store(restored).heads == verify_store(memory).heads
    assert desk.rows_of(restored.agent("desk")) == desk.rows_of(memory.agent("desk"))


def test_a_spreadsheet_takes_no_cell_of_an_export_for_a_formula(memory, tmp_path):
    export_store(memory, tmp_path / "out", "csv")
    for file in (tmp_path / "out").glob("*.csv"):
        with file.open(newline="") as lines:
            for row in csv.reader(lines):
                assert not any(cell.startswith(("=", "@", "+")) for cell in row), file.name


def test_an_export_that_was_altered_is_refused(memory, tmp_path):
    export_store(memory, tmp_path / "out.jsonl", "jsonl")
    text = (tmp_path / "out.jsonl").read_text().replace("104.123456789", "204.123456789")
    (tmp_path / "bad.jsonl").write_text(text)
    restored = desk.given_memory()
    with pytest.raises(Tampered):
        restore_store(restored, tmp_path / "bad.jsonl")
    assert restored.agents() == []


def test_an_export_whose_bars_were_altered_leaves_the_store_empty(memory, tmp_path):
    export_store(memory, tmp_path / "out.jsonl", "jsonl")
    (tmp_path / "bad.jsonl").write_text((tmp_path / "out.jsonl").read_text().replace('"h":"101"', '"h":"201"'))
    restored = desk.given_memory()
    with pytest.raises(Tampered, match="bars"):
        restore_store(restored, tmp_path / "bad.jsonl")
    assert restored.agents() == []


def test_a_row_without_its_payload_is_found_and_nothing_is_rebuilt_from_it(memory):
    with memory.resources.writing("desk") as tables:
        tables.session.run("UPDATE log SET payload = NULL WHERE stream = 'desk' AND seq = 1", {})
    assert verify_store(memory).problems[0].problem == "its payload is missing"
    before = desk.projections(memory)
    with pytest.raises(Tampered):
        rebuild_store(memory)
    assert desk.projections(memory) == before


def test_a_restore_into_a_store_that_is_not_empty_is_refused(memory, tmp_path):
    export_store(memory, tmp_path / "out.jsonl", "jsonl")
    with pytest.raises(Conflict):
        restore_store(memory, tmp_path / "out.jsonl")
    with pytest.raises(Conflict):
        export_store(memory, tmp_path / "out.jsonl", "jsonl")
    with pytest.raises(Invalid):
        restore_store(desk.given_memory(), tmp_path / "nothing")
    (tmp_path / "junk.jsonl").write_text('{"table": "log"}\n')
    with pytest.raises(Invalid, match="line 1"):
        restore_store(desk.given_memory(), tmp_path / "junk.jsonl")


def test_the_markdown_export_reads_as_a_table_of_trades(memory, tmp_path):
    export_store(memory, tmp_path / "trades.md", "markdown")
    text = (tmp_path / "trades.md").read_text()
    assert "## desk (sim, USD, n = 1, times in UTC)" in text and "| BTC | long |" in text


def test_the_jsonl_export_is_one_row_a_line(memory, tmp_path):
    export_store(memory, tmp_path / "out.jsonl", "jsonl")
    tables = [json.loads(line)["table"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert sorted(set(tables)) == ["bars", "log", "streams"] and tables.count("log") == 4


def test_the_second_opinion_agrees_with_this_history(memory):
    expected = oracle.rows([{"marks": {}, "fills": [], "funding": [], "bars": [], **{("snapshot_id" if k == "id" else k): v
                             for k, v in tick.items()}} for tick in HISTORY], {"mfe_mode": "hl_strict", "dust_qty": "0"})  # fmt: skip
    assert desk.ledger_differences(expected, desk.rows_of(memory.agent("desk"))) == []
