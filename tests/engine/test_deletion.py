"""What is destroyed is in no file of the store any more, nor in those beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

import memtape
from memtape.engine.proof.audit import verify_store
from memtape.plugs.clock import FixedClock
from tests.conftest import NOON
from tests.documents.desk import write

MANUAL = "# Manual\n\nZebraquartz is the rule.\n"


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MEMTAPE_WAIT_SECONDS", "0.3")
    made = memtape.open(str(tmp_path / "desk.db"), clock=FixedClock(NOON))
    made.create_skill("plain")
    for name in ("gold", "silver"):
        made.create_agent(name, skill="plain", mode="paper")
    yield made
    made.close()


def write_word_everywhere(memory, name: str, word: str) -> None:
    """Let an agent write a word wherever text is stored, and often enough that database pages are split."""
    agent = memory.agent(name)
    for n in range(60):
        reason = f"{word} {n} " * (1 + 7 * n)
        agent.observe({"id": f"d{n}", "t": NOON, "symbol": "XAUUSD", "action": "buy", "reason": reason[:280]}, kind="decision")
    agent.journal.append("journal", f"{word} at the open")
    agent.briefs.record_shown(agent.briefs.make(symbol="XAUUSD"))
    agent.documents.sync()


def left(folder: Path, word: str) -> dict[str, int]:
    files = sorted(folder.glob("desk.*"))
    return {file.name: times for file in files if file.is_file() and (times := file.read_bytes().lower().count(word.encode()))}


@pytest.mark.parametrize("closed", [True, False], ids=["after the store is closed", "while it is open"])
def test_no_file_contains_a_word_of_a_deleted_agent(memory, tmp_path, closed):
    for name, word in (("gold", "zebraquartz"), ("silver", "okapi")):
        memory.agent(name).documents.add(write(tmp_path / name, {"TRADING_MANUAL.md": MANUAL.replace("Zebraquartz", word)}))
        write_word_everywhere(memory, name, word)
    assert left(tmp_path, "zebraquartz")
    memory.delete_agent("gold", "gold")
    if closed:
        memory.close()
    assert left(tmp_path, "zebraquartz") == {} and set(left(tmp_path, "okapi")) >= {"desk.db", "desk.docs.db"}
    if not closed:
        assert verify_store(memory).ok and memory.agent("silver").documents.search("okapi").hits


def test_the_store_contains_no_word_of_a_shredded_trade(memory, tmp_path):
    agent = memory.agent("gold")
    claim = {"symbol": "XAUUSD", "side": "long", "entry_price": "100", "exit_price": "99", "qty": "1", "stop": "98"}
    agent.remember_trade({**claim, "trade_id": "t1", "reflection": "zebraquartz", "entry_at": NOON, "exit_at": NOON})
    agent.remember_trade({**claim, "trade_id": "t2", "reflection": "okapi", "entry_at": NOON, "exit_at": NOON})
    trade_id = next(trade.id for trade in agent.ledger.trades() if trade.leg == "t1")
    assert left(tmp_path, "zebraquartz")
    agent.memories.forget(trade_id, shred=True)
    assert left(tmp_path, "zebraquartz") == {} and left(tmp_path, "okapi")


def test_an_agent_can_be_deleted_while_another_process_reads(memory, tmp_path):
    write_word_everywhere(memory, "gold", "zebraquartz")
    other = memtape.open(str(tmp_path / "desk.db"), clock=FixedClock(NOON))
    with other.resources.reading("gold") as tables:
        assert tables.head().seq
        memory.delete_agent("gold", "gold")
    assert [agent.id for agent in other.agents()] == ["silver"]
    other.close()
