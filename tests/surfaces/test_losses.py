"""What do I lose on? Asked on a terminal of 80 columns, as JSON, by a model, and on a page."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

import memtape
from memtape.plugs.clock import FixedClock
from memtape.surfaces.caller import Caller
from memtape.surfaces.registry import all_operations, execute, perform
from tests.web.test_answers import client_of

PROGRAM = (sys.executable, "-c", "from memtape.surfaces.cli.main import app; app()")
REAL_TRADES = Path(__file__).resolve().parents[3] / "shared" / "data" / "trades" / "nof1_alpha_arena_s1_trades_2025-10.csv.gz"
MONDAY = datetime(2026, 1, 5, tzinfo=UTC)


@pytest.fixture
def db(tmp_path) -> str:
    """Two hundred trades, of which those in ETH lose."""
    path = str(tmp_path / "desk.db")
    with memtape.open(path, clock=FixedClock(MONDAY + timedelta(days=100))) as memory:
        memory.create_skill("a rather long name of a strategy".replace(" ", "-"))
        memory.create_agent("desk", skill="a-rather-long-name-of-a-strategy", mode="paper")
        for n in range(200):
            at = MONDAY + timedelta(hours=7 * n)
            symbol = ("BTCUSDT.PERPETUAL", "ETH")[n * n % 7 % 2]
            pnl = Decimal(n * 37 % 101 - 50) / 3 - (30 if symbol == "ETH" else 0)
            memory.agent("desk").observe(
                {"trade_id": str(n), "symbol": symbol, "side": ("long", "short")[n % 3 % 2], "entry_at": at, "entry_price": 100,
                 "exit_at": at + timedelta(hours=2), "exit_price": 100, "pnl": round(pnl, 8), "strategy": ("x" * 60, "swing")[n % 2]},
                kind="trade", backfill=True,
            )  # fmt: skip
    return path


def on_a_terminal(*words: str) -> list[str]:
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 80, 0, 0))
    env = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | {"TERM": "dumb", "NO_COLOR": "1"}
    seen = b""
    with subprocess.Popen([*PROGRAM, *words], stdout=child, stderr=child, stdin=child, env=env) as process:
        os.close(child)
        while True:
            try:
                part = os.read(parent, 65536)
            except OSError:
                break
            if not part:
                break
            seen += part
        assert process.wait(timeout=60) == 0, seen.decode()
    os.close(parent)
    return seen.decode().replace("\r", "").split("\n")


def test_on_a_terminal_of_80_columns_the_answer_fits_and_says_it_in_words(db):
    lines = on_a_terminal("ask", "losses", "--agent", "desk", "--db", db)
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    assert "Worse than luck explains: ETH" in text and "typical losses of $" in text


def test_as_json_the_sums_are_the_ledgers(db):
    done = subprocess.run([*PROGRAM, "ask", "losses", "--agent", "desk", "--db", db, "--json"], capture_output=True, check=True)
    answer = json.loads(done.stdout)
    with memtape.open(db) as memory:
        trades = execute(memory, "get_ledger", {"agent": "desk"})["rows"]
        assert answer["net_pnl_usd"] == execute(memory, "get_ledger", {"agent": "desk"})["totals"]["net_pnl_usd"]
    worst = answer["groups"][0]
    eth = [Decimal(trade["net_pnl_usd"]) for trade in trades if trade["symbol"] == "ETH"]
    assert (worst["by"], worst["value"], worst["n"], worst["is_worse"]) == ("symbol", "ETH", len(eth), True)
    assert Decimal(worst["net_pnl_usd"]) == sum(eth) and worst["n_r"] == len(eth)


def test_a_model_may_ask_and_nothing_is_known_before_the_first_trade(db):
    with memtape.open(db) as memory:
        asked = {"agent": "desk", "as_of": "2026-01-05T00:30:00Z"}
        early = perform(memory, all_operations()["get_losses"], asked, Caller("model"))
        assert (early["n"], early["groups"], early["summary"]) == (0, [], "No closed trade with a known result yet.")
        later = perform(memory, all_operations()["get_losses"], {"agent": "desk", "limit": 1}, Caller("model"))
        assert len(later["groups"]) == 1 < later["n_groups"]


def test_the_page_lists_the_groups_and_the_agents_page_asks_for_the_worst(db):
    with memtape.open(db) as memory, client_of(memory) as client:
        page = client.get("/agents/desk/losses")
        assert page.status_code == 200 and "worse than luck explains" in page.text and "ETH" in page.text
        assert 'hx-get="/agents/desk/losses"' in client.get("/agents/desk").text
        tile = client.get("/agents/desk/losses", headers={"HX-Request": "true", "HX-Request-Type": "partial"})
        assert 'id="losses-tile"' in tile.text and "<html" not in tile.text and tile.text.count("<li>") == 3


@pytest.mark.skipif(not REAL_TRADES.exists(), reason="the shared data is not here")
def test_a_file_of_real_trades_without_stops_has_an_answer(tmp_path):
    db = str(tmp_path / "real.db")
    subprocess.run([*PROGRAM, "import", str(REAL_TRADES), "--agent", "a", "--db", db, "--commit"], capture_output=True, check=True)
    with memtape.open(db) as memory:
        answer = execute(memory, "get_losses", {"agent": "a"})
    assert answer["n"] == 269 and answer["unit"].startswith("typical losses of $") and len(answer["groups"]) == 10
    assert all(group["verdict"] and group["n"] >= 10 for group in answer["groups"])
