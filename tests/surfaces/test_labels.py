"""A label or a side means the same through every door, however it is written: Python, HTTP, MCP by stdio, the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import memtape

from .parity import Program, through_command, through_http, through_mcp, through_python

PROGRAM = Program()
LOSS = {"symbol": "BTCUSDT", "entry_price": "100", "exit_price": "99", "pnl_r": -1, "entry_at": "2026-06-04T08:00:00Z"}
WRITTEN = {"python": ("London", "long"), "http": ("LDN", "BUY"), "mcp": ("LONDON session", "Buy"), "cli": ("europe", "Long")}


def report(door: str, n: int) -> dict[str, Any]:
    """The same loss as each door reports it, in its own words for session and side."""
    session, side = WRITTEN[door]
    return {**LOSS, "direction": side, "trade_id": f"m{n}", "exit_at": f"2026-06-04T09:0{n}:00Z", "situation": {"session": session}}


def question(session: str) -> dict[str, Any]:
    return {"symbol": "BTCUSDT", "side": "BUY", "context": {"session": session}, "as_of": "2026-06-05T00:00:00Z"}


def test_every_door_records_and_asks_by_the_same_label(tmp_path: Path) -> None:
    db = str(tmp_path / "desk.db")
    with memtape.open(db) as memory:
        through_python(memory, "remember_trade", report("python", 0))
    through_command(db, "remember_trade", report("cli", 1))
    [by_mcp] = through_mcp(PROGRAM, db, [("remember_trade", report("mcp", 2))])
    assert by_mcp.error is None
    with PROGRAM.serving(db) as address:
        assert through_http(address, "remember_trade", report("http", 3)).error is None
        answers = [through_http(address, "recall_memories", question(word)).data for word in ("London", "LDN", "LONDON session")]
        unknown = through_http(address, "recall_memories", question("frankfurtt")).data
    answers += [asked.data for asked in through_mcp(PROGRAM, db, [("recall_memories", question("LDN") | {"detail": True})])]
    answers.append(through_command(db, "recall_memories", question(" London ")).data)
    with memtape.open(db) as memory:
        assert {episode.session for episode in memory.agent("main").memories.episodes()} == {"london"}
        answers.append(through_python(memory, "recall_memories", question("london")))
    assert all(answer == answers[0] for answer in answers)
    assert answers[0] is not None and unknown is not None
    assert (answers[0]["n"], answers[0]["notes"], answers[0]["outcomes"]) == (4, [], "claimed by the agent")
    assert unknown["notes"] == ["no memory has session 'frankfurtt'; known: london"]


def test_the_market_in_words_is_read_for_labels_and_the_answer_says_which(tmp_path):
    from memtape.surfaces.registry import execute

    with memtape.open(str(tmp_path / "words.db")) as memory:
        trade = {"symbol": "XAU", "direction": "long", "entry_price": 100, "exit_price": 99, "pnl_r": -1}
        told = execute(memory, "remember_trade", trade | {"market_context": "London open, choppy, high volatility"})
        assert told["notes"] == ["read from market_context: regime ranging, volatility_regime high, session london"]
        found = execute(memory, "recall_memories", {"symbol": "XAU", "market_context": "quiet Tokyo session"})
        assert found["notes"][0] == "read from market_context: volatility_regime low, session asia"
        assert (found["situation"]["session"], found["situation"]["volatility_regime"]) == ("asia", "low")
        nothing = execute(memory, "recall_memories", {"symbol": "XAU", "market_context": "it looks good"})
        assert nothing["notes"][0].startswith("no label was read from market_context")
        stated = execute(memory, "recall_memories", {"context": {"session": "newyork"}, "market_context": "uptrend into London"})
        assert (stated["situation"]["session"], stated["situation"]["regime"]) == ("newyork", "trending_up")
