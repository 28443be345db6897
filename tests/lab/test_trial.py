"""`memtape trial`: one decision maker on the same bars, with memory, without it and with a placebo."""

from __future__ import annotations

import json
import random
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

import memtape
from memtape.compose import open_memory
from memtape.core.codec import moment
from memtape.core.observed import Decision
from memtape.core.trial.advice import MemoryAdvice
from memtape.core.trial.arms import ARMS, OFF, ON, SHUFFLED
from memtape.core.trial.round_trips import RoundTrip
from memtape.lab.trial import arm_run
from memtape.lab.trial.arm_run import run_arm
from memtape.lab.trial.deciders import AdvisedStrategy, DeciderName
from memtape.lab.trial.options import TrialOptions
from memtape.lab.trial.study import TrialFiles, make_trial_parts, run_trial
from memtape.sim.bars import read_bars
from memtape.sim.orders import Order
from memtape.sim.run import run_simulation
from memtape.sim.strategies import Breakout, OrderProposal
from memtape.surfaces.cli.main import app
from memtape.surfaces.http import build_app
from memtape.surfaces.web import add_pages
from tests.plugs.llm_server import Says, llm_server

START = datetime(2025, 1, 6, tzinfo=UTC)
STRATEGIES_FILE = '''
from decimal import Decimal
from memtape import Decision
from memtape.sim.orders import Order
from memtape.sim.strategies import OrderProposal

calls = []

def _long(last, reason="Dip"):
    stop, target = last.c * Decimal("0.995"), last.c * Decimal("1.01")
    decision = Decision(symbol=last.symbol, action="buy", side="long", reason=reason, stop=stop, target=target, strategy="dip")
    return [OrderProposal(decision, (Order(symbol=last.symbol, side="buy", qty=Decimal(1), stop=stop, target=target),))]

def follows(history, position, equity, memory):
    if position.qty or position.working or len(history) % 6:
        return []
    if len(history) > 340 and memory.arm != "off" and not memory.brief(history[-1].symbol):
        return []
    return [] if memory.advice(history[-1].symbol, "long").advised == "skip" else _long(history[-1])

def moody(history, position, equity):
    """Its state would pass from one arm to the next if it were not loaded afresh."""
    calls.append(1)
    return [] if position.qty or position.working or len(calls) % 9 else _long(history[-1], "win rate 90 %")

def idle(history, position, equity):
    return []

def wrong(history, position, equity):
    return {"action": "buy"}

def breaks(history, position, equity):
    return 1 / 0
'''


def write_bars(path: Path, n: int, *, seed: int = 7, reverse: bool = False) -> Path:
    """Writes hourly bars of a random walk."""
    chance, price, rows = random.Random(seed), 100.0, []
    for place in range(n):
        close = price * (1 + chance.gauss(0, 0.004))
        high, low = max(price, close) * 1.001, min(price, close) * 0.999
        cells = (f"{START + timedelta(hours=place):%Y-%m-%dT%H:%M:%SZ}", *(f"{px:.4f}" for px in (price, high, low, close)))
        rows.append(",".join(cells))
        price = float(f"{close:.4f}")
    path.write_text("\n".join(["time,open,high,low,close", *(reversed(rows) if reverse else rows)]) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("trial")
    write_bars(made / "walk_h1.csv", 360)
    (made / "maker.py").write_text(STRATEGIES_FILE, encoding="utf-8")
    return made


def options(folder: Path, strategy: str, **more: Any) -> TrialOptions:
    name = f"{folder}/maker.py:{strategy}" if strategy in ("follows", "moody", "idle", "wrong", "breaks") else strategy
    return TrialOptions(**({"bars": folder / "walk_h1.csv", "strategy": name, "resamples": 50, "seeds": 1} | more))


@pytest.fixture(scope="module")
def followed(folder):
    """A trial of a function that follows memory, in every arm, whose finished runs are kept."""
    return run_trial(options(folder, "follows", arms=ARMS, keep=folder / "kept", priced_as="anthropic/claude-haiku-4-5"))


# --- the same decision maker on the same bars --------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["breakout", "moody"])
def test_a_decision_maker_that_never_looks_at_memory_gets_the_same_trades_in_all_arms_and_no_verdict(folder, strategy):
    found = run_trial(options(folder, strategy, arms=ARMS, seeds=2))
    assert len({json.dumps(row["arms"][arm]) for row in found["seeds"][:1] for arm in ARMS}) == 1
    assert found["arms"][OFF]["trades"] > 5 and all(one["changed_trades"] == 0 for one in found["comparisons"])
    assert found["verdict"]["answer"] == "cannot be told" and "does not use memory" in found["sentence"]


def test_the_trades_of_an_arm_are_those_of_the_ledger(folder):
    bars = read_bars(folder / "walk_h1.csv")
    part = make_trial_parts(options(folder, "breakout"), DeciderName.read("breakout"), bars, TrialFiles(None, ""))[0]
    found = [RoundTrip.from_dict(one) for one in run_arm(part)["trades"]]
    with memtape.open(":memory:") as memory:
        memory.create_skill("trial")
        memory.create_agent("trial", skill="trial", mode="sim")
        agent = memory.agent("trial")
        run_simulation(agent, bars, Breakout(), name="trial")
        ledger = sorted(agent.ledger.trades(status="closed"), key=lambda t: t.exit_at)
    assert [(t.side, t.entry_at, t.exit_at) for t in found] == [(t.side, t.entry_at, t.exit_at) for t in ledger]
    assert [Decimal(t.net) for t in found] == [t.net_pnl_usd for t in ledger]
    assert [t.r for t in found] == pytest.approx([float(t.pnl_r) for t in ledger])


def test_memory_learns_what_happened_and_the_placebo_the_same_trades_with_other_outcomes(folder):
    bars = read_bars(folder / "walk_h1.csv")
    parts = make_trial_parts(options(folder, "follows"), DeciderName.read(f"{folder}/maker.py:follows"), bars, TrialFiles(None, ""))
    for part in parts[1:3]:
        with open_memory(":memory:") as memory:
            run = arm_run.ArmRun(part, memory)
            real = {moment(trade["entry_at"]): trade["r"] for trade in run.play(bars)["trades"]}
            learned = {e.entry_at: e.pnl_r for e in run.memory.agent.memories.episodes()}
        assert len(learned) > 10 and learned.keys() <= real.keys()
        same = sum(learned[at] == pytest.approx(real[at], abs=1e-4) for at in learned)
        assert same == len(learned) if part.arm == ON else same < 0.8 * len(learned)
        # The placebo has no outcome that nobody had.
        assert {round(r, 3) for r in learned.values()} <= {round(r, 3) for r in real.values()}


def test_a_question_knows_the_bar_that_has_just_closed_and_no_trade_that_ends_later(folder):
    bars, asked = read_bars(folder / "walk_h1.csv")[:200], []
    maker = DeciderName.read(f"{folder}/maker.py:follows")
    part = make_trial_parts(options(folder, "follows"), maker, bars, TrialFiles(None, ""))[1]
    with open_memory(":memory:") as memory:
        run = arm_run.ArmRun(part, memory)
        usual = run.memory.agent.memories.check_order

        def check(**question: Any) -> Any:
            known = run.memory.agent.memories.episodes()
            asked.append((run.memory.agent.now(), max((e.exit_at for e in known), default=START), len(known)))
            return usual(**question)

        run.memory.agent.memories.check_order = check  # type: ignore[method-assign]
        run.play(bars)
    closes = {bar.t1 for bar in bars}
    assert len(asked) > 5 and asked[-1][2] > 3
    assert all(now in closes and last_exit <= now for now, last_exit, _ in asked)


def test_every_arm_has_its_figures_and_memory_its_cost_beside_its_effect(followed):
    assert list(followed["arms"]) == list(ARMS) == list(followed["cost"])
    assert followed["arms"][OFF]["questions"] == 0 < followed["arms"][ON]["questions"]
    cost = followed["cost"]
    assert cost[ON]["tokens"] > cost["lessons-only"]["tokens"] >= cost[OFF]["tokens"] > 100 and cost[ON]["n"] > 1
    assert Decimal(cost[ON]["cost_usd"]) == pytest.approx(Decimal(round(cost[ON]["tokens"])) / 1_000_000)
    assert {(one["own"], one["other"]) for one in followed["comparisons"]} >= {(ON, OFF), (ON, SHUFFLED), ("lessons-only", OFF)}
    assert "helps" not in followed["sentence"] or "cannot be told" in followed["sentence"]


def test_what_was_said_is_counted_against_what_was_done(folder):
    found = run_trial(options(folder, "moody", arms=(OFF, ON)))
    rows = {row["check"]: row for row in found["said"] if row["arm"] == OFF}
    assert rows["reason"]["n"] > 5 and rows["stop"]["differ"] == rows["side"]["differ"] == 0
    assert rows["ledger"]["n"] > 5 and rows["ledger"]["differ"] > 0 and "win rate 90 %" in rows["ledger"]["examples"][0]
    assert found["verdict"]["answer"] == "cannot be told"


# --- the same numbers ----------------------------------------------------------------------------------------------------------


def test_two_runs_a_pool_and_a_resumed_trial_give_the_same_numbers(folder, followed, monkeypatch):
    resumed = run_trial(options(folder, "follows", arms=ARMS, keep=folder / "kept", priced_as="anthropic/claude-haiku-4-5"))
    one = sorted((folder / "kept").glob("trial-*.json"))[0]
    one.write_text('{"number": 0, "tra')  # a run that was killed while it wrote
    pooled = run_trial(options(
        folder, "follows", arms=ARMS, keep=folder / "kept", priced_as="anthropic/claude-haiku-4-5", engine="pool", workers=2
    ))  # fmt: skip
    assert json.dumps(followed) == json.dumps(resumed) == json.dumps(pooled)


def test_finished_runs_are_not_run_again(folder, followed, monkeypatch):
    def refuse(part: Any) -> dict[str, Any]:
        raise AssertionError("run again")

    monkeypatch.setattr("memtape.lab.trial.study.run_arm", refuse)
    assert run_trial(options(folder, "follows", arms=ARMS, keep=folder / "kept", priced_as="anthropic/claude-haiku-4-5")) == followed
    with pytest.raises(AssertionError, match="run again"):
        run_trial(options(folder, "follows", arms=ARMS, keep=folder / "kept", fee_bps="6"))


def test_bars_in_any_order_of_rows_give_the_same_trial(folder, tmp_path):
    found = []
    for reverse in (False, True):
        bars = write_bars(tmp_path / "walk_h1.csv", 300, reverse=reverse)
        found.append(run_trial(options(folder, "breakout", bars=bars)))
    assert found[0] == found[1]


@pytest.mark.parametrize("advised", ["skip", "halve"])
def test_a_long_reason_of_memory_is_cut_to_what_a_decision_may_say(advised):
    class Cautious:
        def advice(self, symbol: str, side: str) -> MemoryAdvice:
            return MemoryAdvice(advised, "similar trades lost " * 30)

    def buys(history, position, equity):
        order = Order(symbol="BTC", side="buy", qty=Decimal(2))
        return [OrderProposal(Decision(symbol="BTC", action="buy", side="long", reason="Above the high.", qty=Decimal(2)), (order,))]

    [found] = AdvisedStrategy(buys, Cautious())([], None, Decimal(10_000))
    assert len(found.decision.reason) <= 280 and "by memory: similar trades lost" in found.decision.reason


# --- a model -----------------------------------------------------------------------------------------------------------------


def test_a_model_is_asked_in_every_arm_and_its_tokens_and_cost_are_its_providers(folder, tmp_path, monkeypatch):
    bars = write_bars(tmp_path / "BTC.csv", 60)
    buy = Says(json.dumps({"symbol": "BTC", "action": "buy", "risk_pct": 1, "stop": 80, "target": 140, "reason": "win rate 60 %"}))
    stop_above = Says(json.dumps({"symbol": "BTC", "action": "buy", "risk_pct": 1, "stop": 180, "target": 240, "reason": "up"}))
    passing = Says(json.dumps({"symbol": "BTC", "action": "no_trade", "reason": "quiet"}), tokens=(1_000, 100))
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("MEMTAPE_PRICES", "openai/gpt-test=1/10")
    trial = options(folder, "openai/gpt-test", bars=bars, arms=(OFF, ON), keep=tmp_path / "kept")
    with llm_server() as server:
        monkeypatch.setenv("MEMTAPE_OPENAI_URL", server.url("openai"))
        server.plays(stop_above, buy, Says("I would buy,\u2028I think."), *[passing] * 200)
        found, asked = run_trial(trial), len(server.asked)
        assert run_trial(trial) == found and len(server.asked) == asked == 120
        answers = next((tmp_path / "kept").glob("trial-*.jsonl"))
        answers.write_bytes(answers.read_bytes()[:-10])  # killed while it wrote the last one, which is asked again, once
        for again in (asked + 1, asked + 1):
            for one in (tmp_path / "kept").glob("trial-*[0-9a-f].json"):
                one.unlink()  # killed before its end: the answers are there
            assert run_trial(trial) == found and len(server.asked) == again
    systems = [json.dumps(one.body) for one in server.asked]
    assert not any("Recent trades" in text for text in systems[:60])
    assert found["cost"][ON]["by"] == "the provider's count" and found["cost"][ON]["n"] == 60
    assert found["notes"] == [
        "off: 1 of 2 entries were refused by the guard or the broker",
        "off: 1 of 60 questions to the model gave no decision (not_json 1)",
    ]
    assert found["cost"][ON]["total_usd"] == "0.12" and found["verdict"]["answer"] == "cannot be told"


# --- the command and its report ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reports(folder):
    """Two runs of one command, put among an agent's documents."""
    store = folder / "desk.db"
    with open_memory(str(store)) as memory:
        memory.create_skill("desk")
        memory.create_agent("desk", skill="desk", mode="paper")
    for name in ("first", "second"):
        done = CliRunner().invoke(app, [
            "trial", "--bars", str(folder / "walk_h1.csv"), "--strategy", "breakout", "--seeds", "1", "--resamples", "50",
            "--report", str(folder / name), "--documents-of", "desk", "--db", str(store),
        ])  # fmt: skip
        assert done.exit_code == 0, done.output
    return folder


def test_two_runs_write_the_same_bytes_and_the_verdict_is_the_first_line(reports):
    for name in ("report.html", "report.json", "report.md"):
        assert (reports / "first" / name).read_bytes() == (reports / "second" / name).read_bytes()
    page, data = (reports / "first" / "report.html").read_text(), json.loads((reports / "first" / "report.json").read_text())
    text = (reports / "first" / "report.md").read_text()
    first = re.search(r"<h1>(.*?)</h1>", page, re.DOTALL)
    assert first is not None and text.splitlines()[0] == first[1] == data["sentence"]
    assert not re.findall(r"(?:src|href)=\"(?!data:,)", page) and "<script" not in page and "url(" not in page
    assert "makes money" not in page and page.count("<svg") == 1 and page.count("<table") >= 8
    for value in (data["data"]["hashes"]["bars"], data["settings_hash"], str(data["settings"]["chance"]), data["memtape"]):
        assert value in text and value in page


def test_search_finds_the_trial_and_the_page_of_reports_lists_it(reports):
    with open_memory(str(reports / "desk.db")) as memory:
        found = memory.agent("desk").documents.search("trial placebo shuffled outcomes breakout")
        assert found.hits and found.hits[0].path.startswith("reports/trial-breakout-walk-h1-")
        site = build_app(memory, mcp=False, web=partial(add_pages, memory=memory))
        page = TestClient(site, base_url="http://127.0.0.1").get("/agents/desk/reports")
        assert page.status_code == 200 and "It cannot be told whether memory helps breakout" in page.text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--arms", "off"], "--arms: 'off' is compared with nothing"),
        (["--arms", "off,moon"], "--arms: there is no arm 'moon'"),
        (["--strategy", "brakout"], "Did you mean breakout?"),
        (["--strategy", "no.py:thing"], "there is no file no.py"),
        (["--seeds", "0"], "--seeds: 0 is not within 1 to 100"),
        (["--max-cost", "1"], "asks no model"),
        (["--priced-as", "openai/nobody"], "the price of openai/nobody is not known"),
        (["--engine", "magic"], "there is no engine 'magic'"),
        (["--fee-bps", "20000"], "outside 0 to 10000"),
    ],
)
def test_bad_input_is_named_with_its_fix(folder, arguments, message):
    done = CliRunner().invoke(app, ["trial", "--bars", str(folder / "walk_h1.csv"), "--strategy", "breakout", *arguments])
    assert done.exit_code == 2 and message in " ".join(done.output.split()), done.output


def test_too_few_bars_a_function_without_proposals_and_one_that_never_trades_say_so(folder, tmp_path):
    few = write_bars(tmp_path / "few.csv", 40)
    done = CliRunner().invoke(app, ["trial", "--bars", str(few), "--strategy", "breakout"])
    assert done.exit_code == 2 and "few.csv has 40 bars" in done.output
    with pytest.raises(memtape.errors.Invalid, match="something else than proposals"):
        run_trial(options(folder, "wrong"))
    with pytest.raises(memtape.errors.Invalid, match=r"breaks failed: ZeroDivisionError: division by zero \(maker.py, line"):
        run_trial(options(folder, "breaks"))
    found = run_trial(options(folder, "idle"))
    assert found["sentence"].endswith("this decision maker never traded without memory.")
