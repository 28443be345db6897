"""kill -9 in mid-run: the same command continues, asks only for what is new, and the record is that of a run that never stopped."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import memtape
from memtape.engine.proof.audit import verify_store
from tests.plugs.llm_server import LlmServer, Says, llm_server
from tests.plugs.scripted import Asked, Fails
from tests.surfaces.test_simulation import contents

START = datetime(2026, 3, 2, tzinfo=UTC)
TICKS = 16
LONGEST_RUN = 120.0  # seconds until a test gives up
QUESTION = re.compile(r"## (\w+) at (\S+Z)")


def walk(file: Path, symbols: tuple[str, ...], hours: int) -> Path:
    """Bars of a random walk, always the same."""
    chance, rows = random.Random(5), ["time,symbol,open,high,low,close,volume"]
    prices = dict.fromkeys(symbols, 100.0)
    for n in range(hours):
        for symbol in symbols:
            before, after = prices[symbol], round(prices[symbol] + chance.uniform(-2, 2), 2)
            high, low = max(before, after) + 0.5, min(before, after) - 0.5
            rows.append(f"{(START + timedelta(hours=n)).isoformat()},{symbol},{before:.2f},{high:.2f},{low:.2f},{after:.2f},50")
            prices[symbol] = after
    file.write_text("\n".join(rows), encoding="utf-8")
    return file


def asked_about(asked: Asked) -> tuple[str, str]:
    """The symbol and the time that a prompt is about."""
    found = QUESTION.search(asked.body["messages"][-1]["content"])
    assert found is not None
    return found[1], found[2]


def answer_to(asked: Asked) -> Says | Fails:
    """What the model answers, by its prompt alone: it trades, passes, and now and then says nothing of use."""
    symbol, at = asked_about(asked)
    prompt = asked.body["messages"][-1]["content"]
    hour = int(at[11:13]) + (symbol == "ETH")
    about = {"symbol": symbol, "reason": f"hour {hour}"}
    close = float(prompt.split("Held:")[0].strip().splitlines()[-1].split("|")[4])
    if hour % 11 == 7:
        return Fails(500)
    if hour % 7 == 5:
        return Says("I would rather not say", tokens=(700, 10))
    if "Held: nothing; entries waiting: 0" in prompt and hour % 2:
        order = {"action": "buy", "qty": 2.5, "stop": round(close - 1.1, 2), "target": round(close + 1.3, 2)}
        limit = {"kind": "limit", "px": round(close - 0.4, 2), "bars": 3} if hour % 3 else {}
        return Says(json.dumps(about | order | limit), tokens=(900, 40))
    return Says(json.dumps(about | {"action": "no_trade", "side": "short", "stop": close + 3, "target": close - 3}), tokens=(800, 30))


class Desk:
    """A store, a file of bars, and the command that is run on them."""

    def __init__(self, folder: Path, bars: Path, *options: str, server: LlmServer | None = None) -> None:
        folder.mkdir()
        self.folder, self.db = folder, folder / "memory.db"
        self.command = [sys.executable, "-m", "memtape.surfaces.cli.main", "sim", "--bars", str(bars), "--agent", "desk", "--json",
                        "--db", str(self.db), "--report", str(folder / "out.md"), *options]  # fmt: skip
        url = {} if server is None else {"MEMTAPE_OPENAI_URL": server.url("openai"), "MEMTAPE_PRICES": "openai/test=1/10"}
        self.environment = {**os.environ, **url, "OPENAI_API_KEY": "made-up"}
        with memtape.open(str(self.db)) as memory:
            memory.create_skill("quick", memory={"reflection": {"everyNTrades": 2}})

    def begin(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment)

    def end_at(self, *where: str) -> None:
        """Run the command until a method is called for the nth time."""
        command = [sys.executable, "-c", ENDS_AT, *where, *self.command[3:]]
        done = subprocess.run(command, capture_output=True, env=self.environment, timeout=LONGEST_RUN, check=False)
        assert done.returncode == 9, (where, done.stdout, done.stderr.decode())

    def finish(self) -> dict[str, Any]:
        done = subprocess.run(self.command, capture_output=True, env=self.environment, timeout=LONGEST_RUN, check=False)
        assert done.returncode == 0, done.stderr.decode()
        found: dict[str, Any] = json.loads(done.stdout)
        return {name: value for name, value in found.items() if not name.endswith("file") and name != "report"}

    def record(self) -> list[Any]:
        with memtape.open(str(self.db)) as memory:
            assert verify_store(memory).ok
            assert memory.agent("desk").lessons.reflections(), "lessons were drawn on the way"
            return [*contents(memory), memory.agent("desk").briefs.shown()]

    @property
    def report(self) -> bytes:
        return (self.folder / "out.md").read_bytes()


@pytest.mark.parametrize("seed", [1, 2])
def test_a_model_that_is_killed_at_any_moment_continues_and_no_question_is_asked_twice_but_the_one_in_flight(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    bars = walk(tmp_path / "walk.csv", ("BTC", "ETH"), TICKS)
    with llm_server() as server:
        options = ("--strategy", "openai/test", "--skill", "quick")
        straight, broken = (Desk(tmp_path / name, bars, *options, server=server) for name in ("straight", "broken"))
        server.plays(answer_to)
        figures = straight.finish()
        assert figures["trades"] > 2 and set(figures["model"]["skipped"]) == {"not_json", "server_error"}
        # The SDK repeats what fails with a status of 500; such questions count once here.
        once = {asked_about(asked) for asked in server.asked}
        assert len(once) == 2 * TICKS

        counts: Counter[tuple[str, str]] = Counter()
        in_flight: set[tuple[str, str]] = set()
        for kill_after in sorted(chance.sample(range(2, 2 * TICKS - 2), 4)):
            wait = chance.choice((0.0, 0.002, 0.005, 0.01, 0.02, 0.04))
            process, asked = kill_while_asking(server, broken, kill_after - len(counts), wait)
            assert process.returncode == -signal.SIGKILL
            counts.update(set(asked))
            in_flight |= {asked[-1]} if asked else set()
        server.plays(answer_to)
        assert broken.finish() == figures
        counts.update({asked_about(asked) for asked in server.asked})
        assert set(counts) == once
        assert {question for question, n in counts.items() if n > 1} <= in_flight
        assert broken.record() == straight.record() and broken.report == straight.report
        server.plays(answer_to)
        assert broken.finish() == figures and server.asked == [], "a finished run asks nothing"


def kill_while_asking(
    server: LlmServer, desk: Desk, questions: int, wait: float
) -> tuple[subprocess.Popen[bytes], list[tuple[str, str]]]:
    """Run until so many questions were asked, wait a moment, and kill. Returns what was asked."""
    seen: list[tuple[str, str]] = []
    reached = threading.Event()

    def answer(asked: Asked) -> Says | Fails:
        seen.append(asked_about(asked))
        if len(set(seen)) >= questions:
            reached.set()
        return answer_to(asked)

    server.plays(answer)
    process = desk.begin()
    assert reached.wait(LONGEST_RUN), process.stderr and process.stderr.read().decode()
    time.sleep(wait)
    process.kill()
    process.communicate()
    return process, seen


def test_a_strategy_that_is_killed_between_its_batches_continues_to_the_same_record(tmp_path: Path) -> None:
    bars = walk(tmp_path / "walk.csv", ("BTC",), 900)
    straight, broken = (Desk(tmp_path / name, bars, "--skill", "quick") for name in ("straight", "broken"))
    figures = straight.finish()
    assert figures["trades"] > 10
    for ticks in (100, 600):
        process = broken.begin()
        ends = time.monotonic() + LONGEST_RUN
        while recorded_ticks(broken.db) < ticks and process.poll() is None and time.monotonic() < ends:
            time.sleep(0.002)
        process.kill()
        process.communicate()
    assert recorded_ticks(broken.db) >= 100
    assert broken.finish() == figures
    assert broken.record() == straight.record() and broken.report == straight.report


# Runs the command, and ends the process without warning at the nth call of a method: before it, or after it.
ENDS_AT = """
import importlib, os, sys
module, owner, method, nth, moment = sys.argv[1:6]
sys.argv = ["memtape", *sys.argv[6:]]
holder = getattr(importlib.import_module(module), owner)
whole, calls = getattr(holder, method), []
def ends(*args, **more):
    is_counted = method != "observe" or type(args[1]).__name__ == "Decision"
    calls.extend([1] if is_counted else [])
    if is_counted and len(calls) == int(nth) and moment == "before":
        os._exit(9)
    done = whole(*args, **more)
    if is_counted and len(calls) == int(nth):
        os._exit(9)
    return done
setattr(holder, method, ends)
from memtape.surfaces.cli.main import main
main()
"""
MOMENTS = {
    "after the tick, before the brief": ("memtape.engine.briefs", "Briefs", "make", "20", "before"),
    "after the answer, before it is recorded": ("memtape.engine.simulation", "SimulationRecord", "record_answer", "21", "before"),
    "after it is recorded, before the decision": ("memtape.engine.simulation", "SimulationRecord", "record_answer", "22", "after"),
    "after the decision": ("memtape.engine.agent", "AgentMemory", "observe", "17", "after"),
    "before the lessons": ("memtape.engine.lessons", "Lessons", "reflect_if_due", "1", "before"),
    "within the lessons": ("memtape.engine.reflection", "Reflector", "_reflect_under_lease", "2", "before"),
    "after the agent, before its terms": ("memtape.engine.simulation", "SimulationRecord", "state_terms", "1", "before"),
}


def test_whatever_was_written_last_the_run_continues_to_the_same_record(tmp_path: Path) -> None:
    bars = walk(tmp_path / "walk.csv", ("BTC", "ETH"), TICKS)
    with llm_server() as server:
        options = ("--strategy", "openai/test", "--skill", "quick")
        straight = Desk(tmp_path / "straight", bars, *options, server=server)
        server.plays(answer_to)
        figures, record = straight.finish(), straight.record()
        for number, (moment, where) in enumerate(MOMENTS.items()):
            broken = Desk(tmp_path / f"broken{number}", bars, *options, server=server)
            broken.end_at(*where)
            assert broken.finish() == figures, moment
            assert broken.record() == record and broken.report == straight.report, moment


@pytest.mark.parametrize("moment", ["before the lessons", "within the lessons", "after the agent, before its terms"])
def test_a_strategy_that_is_killed_before_its_lessons_draws_them_where_they_belong(tmp_path: Path, moment: str) -> None:
    bars = walk(tmp_path / "walk.csv", ("BTC",), 400)
    straight, broken = (Desk(tmp_path / name, bars, "--skill", "quick") for name in ("straight", "broken"))
    figures = straight.finish()
    broken.end_at(*MOMENTS[moment])
    assert broken.finish() == figures
    assert broken.record() == straight.record() and broken.report == straight.report


def recorded_ticks(db: Path) -> int:
    with suppress(sqlite3.OperationalError), closing(sqlite3.connect(f"file:{db}?mode=ro", uri=True, timeout=0)) as store:
        return int(store.execute("SELECT count(*) FROM items WHERE kind = 'tick'").fetchone()[0])
    return 0
