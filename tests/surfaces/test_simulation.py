"""`memtape sim` with a model at the desk: briefed, asked by schema, guarded, and all of it on record."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import memtape
from memtape.core.codec import plain
from memtape.engine.proof.audit import rebuild_store, verify_store
from memtape.engine.simulation import SimulationRecord
from memtape.errors import Conflict, Invalid, ModelFailed
from memtape.plugs.models import model_of
from memtape.plugs.prices import parse_prices
from memtape.sim.recorded_model import UseLimits
from memtape.sim.strategies import STRATEGIES
from memtape.surfaces.cli.main import app
from memtape.surfaces.cli.simulation import SimulationOptions, simulate
from tests.plugs.llm_server import Says, llm_server
from tests.plugs.scripted import Fails, Sends

START = datetime(2026, 3, 2, tzinfo=UTC)


@pytest.fixture
def bars(tmp_path: Path) -> Path:
    """Thirty hours of a market that rises by a dollar an hour."""
    file = tmp_path / "btc.csv"
    rows = [f"{(START + timedelta(hours=n)).isoformat()},{100 + n},{102 + n},{99 + n},{101 + n},50" for n in range(30)]
    file.write_text("\n".join(["time,open,high,low,close,volume", *rows]), encoding="utf-8")
    return file


@pytest.fixture
def few(bars: Path) -> Path:
    """The first eight of these hours."""
    bars.write_text("\n".join(bars.read_text(encoding="utf-8").splitlines()[:9]), encoding="utf-8")
    return bars


def contents(memory: memtape.Memory, agent: str = "desk") -> list[Any]:
    """Everything on record of an agent, in order, without the machine's own times."""
    with memory.resources.reading(agent) as tables:
        rows = [(row.kind, row.key, row.occurred_at, row.known_at, row.payload) for row in tables.log()]
    own = memory.agent(agent)
    return [rows, plain(own.ledger.trades(status="closed")), plain(own.ledger.trades(status="open")), plain(own.ledger.decisions(limit=1000))]


def order(**fields: Any) -> Says:
    return Says(json.dumps({"symbol": "BTC", "reason": "strength", **fields}))


def play(
    bars: Path, *parts: Any, provider: str = "openai", memory: memtape.Memory | None = None, prices: str = "", **more: Any
) -> tuple[memtape.Memory, dict[str, Any], list[Any]]:
    with llm_server() as server:
        server.plays(*parts)
        memory = memory or memtape.open(":memory:")
        memory.resources.models = lambda name: model_of(
            name, base_url=server.url(provider), api_key="k", retries=0, prices=parse_prices(prices)
        )
        options = {"agent": "desk", "symbol": "BTC", "fee_bps": "5", "slippage_bps": "2", "starting_equity": "10000", "report": None}
        found = simulate(memory, bars, f"{provider}/gpt-test", **(options | more))
        return memory, found, list(server.asked)


def test_a_model_trades_on_its_brief_and_what_it_was_shown_is_on_record(bars):
    buy, hold = order(action="buy", risk_pct=1, stop=95, target=110), order(action="no_trade", side="long", stop=90, target=150)
    memory, found, requests = play(bars, buy, hold)
    agent = memory.agent("desk")
    assert (found["trades"], found["ticks"]) == (1, 30)
    trade = agent.ledger.trades(status="closed")[0]
    assert (trade.entry_reason, trade.exit_trigger, trade.strategy) == ("strength", "target", "openai/gpt-test")
    shown = agent.briefs.shown()
    asked = len(requests)
    assert len(shown) == asked and all(row["decision"] for row in shown)
    assert "## Open positions (memory view)" in str(requests[5]) and "propose_order" in str(requests[5])


def test_what_the_guard_refuses_is_recorded_with_its_code_and_told_to_the_model_at_the_next_tick(bars):
    greedy, calm = order(action="buy", qty=500, stop=95), order(action="no_trade")
    memory, found, requests = play(bars, greedy, calm, terms=SimulationOptions(limits={"risk per trade": "1 % of equity"}))
    assert found["rejections"] == {"R2_RISK_PER_TRADE": 1} and found["trades"] == 0
    first = memory.agent("desk").ledger.decisions(limit=100)[-1].decision
    assert first.verdict is not None and first.verdict.code == "R2_RISK_PER_TRADE"
    assert "R2_RISK_PER_TRADE" in str(requests[1])


PASS = order(action="no_trade", side="long", stop=90, target=150)
BAD_PARTS = {
    "refused": Says("I cannot help with that", stop="refusal"), "cut_off": Says('{"symbol": "BT', stop="limit"),
    "not_json": Says("let me think about it"), "off_schema": order(action="moon"), "unusable": order(action="close"),
    "empty": Says(""), "rate_limited": Fails(429), "server_error": Fails(500), "overloaded": Fails(529),
    "timed_out": Fails(408), "unreadable": Sends(b"<html>a proxy</html>"),
}  # fmt: skip


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize("what", BAD_PARTS)
def test_a_refusal_or_bad_answer_skips_one_tick_with_its_true_reason_and_the_model_is_not_told(few, provider, what):
    memory, found, requests = play(few, PASS, BAD_PARTS[what], PASS, provider=provider)
    assert (found["model"]["questions"], found["model"]["decisions"], found["decisions"], found["no_trades"]) == (8, 7, 7, 7)
    assert found["model"]["skipped"] == {what: 1} and found["ended"] == "all bars"
    agent = memory.agent("desk")
    (skipped,) = [answer for answer in agent.simulation.answers().values() if answer.skipped]
    assert (skipped.at, skipped.decision, skipped.answer) == (START + timedelta(hours=2), None, None) and skipped.problem
    decisions = agent.ledger.decisions(limit=100)
    assert len(decisions) == 7 and skipped.at not in {one.decision.t for one in decisions}
    assert all(one.decision.verdict is None for one in decisions)
    told = str([request.body for request in requests])
    assert "R0_BAD_ANSWER" not in told and "Last proposal" not in told and (skipped.problem or "?")[:20] not in told
    shown = agent.briefs.shown()
    assert len(shown) == 8 and sum(row["decision"] is None for row in shown) == 1
    assert verify_store(memory).ok


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_a_failure_that_cannot_pass_ends_the_run_at_once_and_the_same_command_continues(few, status):
    memory = memtape.open(":memory:")
    with pytest.raises(ModelFailed, match="does not help"):
        play(few, PASS, PASS, Fails(status), PASS, memory=memory)
    assert len(memory.agent("desk").simulation.answers()) == 2
    _, found, requests = play(few, PASS, memory=memory)
    assert len(requests) == 6 and found["model"]["decisions"] == 8


def test_ten_failures_in_a_row_end_the_run_cleanly_and_the_same_command_continues_after_them(bars, tmp_path):
    memory, found, requests = play(bars, PASS, Fails(500), report=tmp_path / "out.md")
    assert found["ended"] == "10 failures in a row" and found["ticks"] == 11 == len(requests)
    assert (found["model"]["decisions"], found["model"]["skipped"]) == (1, {"server_error": 10})
    assert "| Ended | 10 failures in a row, after 11 of 30 ticks |" in (tmp_path / "out.md").read_text()
    _, found, requests = play(bars, PASS, memory=memory)
    assert (found["ended"], len(requests), found["model"]["decisions"]) == ("all bars", 19, 20)
    _, found, _ = play(bars, PASS, *[Fails(500)] * 9, PASS, agent="lucky", memory=memory)
    assert (found["ended"], found["model"]["skipped"]) == ("all bars", {"server_error": 9})


# ---- tokens and cost -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_tokens_and_cost_are_told_for_each_decision_and_in_all_and_stay_on_record(bars, provider, tmp_path):
    dear = Says(PASS.text, tokens=(1_000, 100), cached=400)
    bad = Says("hm", tokens=(1_000, 50))
    memory, found, _ = play(bars, dear, bad, dear, provider=provider, prices=f"{provider}/gpt-test=1/10/0.5", report=tmp_path / "out")
    model = found["model"]
    assert (model["input_tokens"], model["cached_tokens"], model["output_tokens"]) == (30_000, 29 * 400, 29 * 100 + 50)
    # 600 at 1, 400 at 0.5 and 100 at 10 for a million: 0.0018; the one that could not be used: 0.0015.
    assert model["cost_usd"] == "0.0537" and model["cost_usd_per_decision"] == "0.001852"
    assert [row["cost_usd"] for row in found["asked"][:3]] == ["0.0018", "0.0015", "0.0018"]
    run = memory.agent("desk").ledger.decisions(limit=1)[0].decision.run
    assert run is not None and (run.model, run.tokens_in, run.tokens_out, run.cost_usd) == (
        f"{provider}/gpt-test", 1_000, 100, Decimal("0.0018"),
    )  # fmt: skip
    for page in ("report.md", "report.html"):
        text = (tmp_path / "out" / page).read_text()
        assert all(each in text for each in ("The model", "Cost in US dollars", "0.0537", "30,000", "not_json 1", "0.001852")), page
    rows = (tmp_path / "out" / "questions.csv").read_text().splitlines()
    assert len(rows) == 31 and rows[2].startswith("2026-03-02T02:00:00Z,BTC,,,not_json,the answer is not JSON")
    assert rows[3] == "2026-03-02T03:00:00Z,BTC,no_trade,desk-2026-03-02T03:00:00Z,,,1000,400,100,0.0018"


def test_without_a_price_tokens_are_told_and_the_cost_is_unknown_and_not_nothing(bars, tmp_path):
    _, found, _ = play(bars, PASS, report=tmp_path / "out.md")
    assert found["model"]["cost_usd"] == found["model"]["cost_usd_per_decision"] == "unknown"
    assert found["model"]["input_tokens"] == 27_000
    assert "| Cost in US dollars | unknown | the price is not known" in (tmp_path / "out.md").read_text()


PRICES = "openai/gpt-test=1/10"
NEAR = order(action="buy", risk_pct=1, stop=95, target=500)


def test_a_cost_limit_ends_the_run_before_the_question_that_could_exceed_it_and_a_higher_one_continues(bars, tmp_path):
    def run(limit: str, memory: memtape.Memory | None = None) -> tuple[memtape.Memory, dict[str, Any], int]:
        first = NEAR if memory is None else PASS
        store, found, requests = play(
            bars, Says(first.text, tokens=(2_000, 100)), Says(PASS.text, tokens=(2_000, 100)), prices=PRICES, memory=memory,
            limits=UseLimits(Decimal(limit)), report=tmp_path / "out.md",
        )  # fmt: skip
        return store, found, len(requests)

    memory, found, asked = run("0.05")
    assert found["ended"] == "cost limit" and 0 < asked == found["model"]["questions"] < 30
    assert Decimal(found["model"]["cost_usd"]) == Decimal("0.003") * asked <= Decimal("0.05")
    assert found["ticks"] == asked + 1, "the tick of the question that was not asked is on record"
    assert [row["symbol"] for row in found["open_positions"]] == ["BTC"]
    text = (tmp_path / "out.md").read_text()
    assert f"| Ended | cost limit, after {asked + 1} of 30 ticks |" in text and "| Open at the end | BTC " in text
    _, again, more = run("0.05", memory)
    assert again == found and more == 0, "the same limit, the same end"
    _, found, more = run("1", memory)
    assert found["ended"] == "all bars" and asked + more == 30 and found["model"]["cost_usd"] == "0.09"
    whole, straight, _ = run("1")
    assert contents(memory) == contents(whole) and {**found, "asked": 0} == {**straight, "asked": 0}


def test_lessons_that_a_model_draws_count_in_the_cost_limit(bars):
    def run(limit: str, memory: memtape.Memory) -> tuple[dict[str, Any], int]:
        first, second = order(action="buy", qty=1, stop=90, target=104), order(action="buy", qty=1, stop=90, target=112)
        here = Says(PASS.text, tokens=(1_000, 100))
        parts = [first, *[here] * 5, second, here] if not memory.agents() else [here]
        prices = f"{PRICES}, openai/gpt-lessons=10/40"
        _, found, asked = play(bars, *parts, prices=prices, memory=memory, skill="mine", limits=UseLimits(Decimal(limit)))
        return found, len(asked)

    memory = memtape.open(":memory:")
    memory.create_skill("mine", memory={"reflection": {"model": "openai/gpt-lessons", "everyNTrades": 2}})
    found, before = run("0.15", memory)
    assert (found["ended"], found["trades"]) == ("cost limit", 2)
    assert "lessons" not in found["model"], "an answer about lessons alone can cost 0.16"
    found, more = run("5", memory)
    drawn = found["model"]["lessons"]
    assert (found["ended"], drawn["questions"]) == ("all bars", 1), "a higher limit draws the lessons that were due, and goes on"
    assert before + more == 30 + 1 and drawn["cost_usd"] == "0.014"
    assert Decimal(found["model"]["total_cost_usd"]) == Decimal(found["model"]["cost_usd"]) + Decimal("0.014")


def test_a_cost_limit_with_a_model_for_lessons_whose_price_is_unknown_is_refused(few):
    memory = memtape.open(":memory:")
    memory.create_skill("mine", memory={"reflection": {"model": "openai/gpt-lessons"}})
    with pytest.raises(Invalid, match="max_cost: the price of openai/gpt-lessons is not known"):
        play(few, PASS, prices=PRICES, memory=memory, skill="mine", limits=UseLimits(Decimal(1)))
    assert memory.agents() == []


def test_a_token_limit_needs_no_price_and_a_cost_limit_without_one_is_refused(bars):
    _, found, requests = play(bars, PASS, limits=UseLimits(max_tokens=20_000))
    given = found["model"]["input_tokens"] + found["model"]["output_tokens"]
    assert found["ended"] == "token limit" and 0 < len(requests) < 30 and given <= 20_000
    memory = memtape.open(":memory:")
    with pytest.raises(Invalid, match=r"max_cost: the price of openai/gpt-test is not known\. Set MEMTAPE_PRICES=openai/gpt-test="):
        play(bars, PASS, limits=UseLimits(Decimal(1)), memory=memory)
    assert memory.agents() == [] and memory.skills() == []


def test_leverage_and_funding_are_terms_of_the_account(bars):
    _, found, _ = play(bars, order(action="buy", qty=300, stop=50), order(action="no_trade"),
                            terms=SimulationOptions(leverage="5", funding="0.001"))  # fmt: skip
    assert found["funding"].startswith("-") and found["liquidations"] == 0
    with pytest.raises(Invalid, match="leverage"):
        play(bars, order(action="no_trade"), terms=SimulationOptions(leverage="0.5"))


def test_a_strategy_that_does_not_exist_is_refused_by_name(bars):
    with pytest.raises(Invalid, match="strategy"):
        simulate(memtape.open(":memory:"), bars, "astrology", agent="desk", symbol="BTC", fee_bps="5", slippage_bps="2",
                 starting_equity="10000", report=None)  # fmt: skip


# ---- one run under one name ----------------------------------------------------------------------------------------


OTHERS: dict[str, tuple[dict[str, Any], str]] = {
    "fee": ({"fee_bps": "7"}, "fee_bps is 5 there and 7 here"),
    "slippage": ({"slippage_bps": "3"}, "slippage_bps is 2 there and 3 here"),
    "equity": ({"starting_equity": "5000"}, "starting_equity is 10000 there and 5000 here"),
    "limits": ({"terms": SimulationOptions(limits={"leverage": "1"})}, r'limits is {} there and {"leverage":"1"} here'),
    "leverage": ({"terms": SimulationOptions(leverage="3")}, "leverage is not given there and 3 here"),
    "symbol": ({"symbol": "ETH"}, "bars are "),
    "several": ({"fee_bps": "7", "slippage_bps": "3"}, "fee_bps is 5 there and 7 here; slippage_bps is 2 there and 3 here"),
}


@pytest.mark.parametrize("strategy", ["openai/gpt-test", "breakout"])
@pytest.mark.parametrize("other", OTHERS)
def test_other_terms_under_the_same_name_are_refused_by_name_and_nothing_is_written(few, strategy, other):
    change, said = OTHERS[other]
    memory, _, _ = play_any(few, strategy)
    before = everything(memory)
    with pytest.raises(Conflict) as refused:
        play_any(few, strategy, memory=memory, **change)
    assert said in str(refused.value) and "'desk' has a simulation with other terms" in str(refused.value)
    assert everything(memory) == before


def test_other_bars_model_or_strategy_under_the_same_name_are_refused(bars, tmp_path):
    memory, _, _ = play_any(bars, "openai/gpt-test")
    shorter = tmp_path / "shorter.csv"
    shorter.write_text("\n".join(bars.read_text().splitlines()[:-3]), encoding="utf-8")
    for change, said in (
        ({"file": shorter}, "(30 from 2026-03-02T00:00:00Z to 2026-03-03T06:00:00Z) there"),
        ({"strategy": "openai/gpt-other"}, "strategy is openai/gpt-test there and openai/gpt-other here"),
        ({"strategy": "breakout"}, "strategy is openai/gpt-test there and breakout here"),
    ):
        before = everything(memory)
        with pytest.raises(Conflict) as refused:
            play_any(change.get("file", bars), change.get("strategy", "openai/gpt-test"), memory=memory)
        assert said in str(refused.value)
        assert everything(memory) == before


def test_a_finished_run_that_is_run_again_asks_nothing_and_gives_the_same_figures(bars, tmp_path):
    buy = order(action="buy", risk_pct=1, stop=95, target=110, kind="limit", px=100, bars=5)
    memory, found, _ = play(bars, buy, PASS, report=tmp_path / "a.md")
    before, renamed = contents(memory), bars.with_name("renamed.csv")
    bars.rename(renamed)
    _, again, requests = play(renamed, Fails(500), memory=memory, report=tmp_path / "b.md")
    assert requests == [] and contents(memory) == before
    rebuild_store(memory)
    assert play(renamed, Fails(500), memory=memory)[2] == [] and verify_store(memory).ok, "also after a rebuild"
    files = ("report", "trades_file", "questions_file", "metrics_file")
    assert {k: v for k, v in again.items() if k not in files} == {k: v for k, v in found.items() if k not in files}
    assert (tmp_path / "a.md").read_bytes() == (tmp_path / "b.md").read_bytes()


@pytest.mark.parametrize("change", [{"mode": "paper"}, {"skill": "mine"}, {"settings": {"starting_equity": 5000}}])
def test_an_agent_that_was_made_for_something_else_is_refused_before_anything_is_written(few, change):
    memory = memtape.open(":memory:")
    memory.create_skill("mine")
    memory.create_skill("breakout", name="breakout", strategy=(STRATEGIES["breakout"].__doc__ or "").strip())
    memory.create_agent("desk", **({"skill": "breakout", "mode": "sim", "settings": {"starting_equity": 10_000}} | change))
    before = everything(memory)
    with pytest.raises(Conflict, match=r"'desk' has a simulation with other terms: (mode|skill|starting_equity) is"):
        play_any(few, "breakout", memory=memory)
    assert everything(memory) == before


def test_the_command_ends_with_one_after_ten_failures_and_with_nothing_at_a_limit(bars, tmp_path, monkeypatch):
    with llm_server() as server:
        monkeypatch.setenv("MEMTAPE_ANTHROPIC_URL", server.url("anthropic"))
        monkeypatch.setenv("ANTHROPIC_API_KEY", "made-up")
        words = ["sim", "--bars", str(bars), "--strategy", "anthropic/claude-haiku-4-5", "--db", str(tmp_path / "m.db"), "--report",
                 str(tmp_path / "out.html")]  # fmt: skip
        server.plays(PASS, Says("hm"))
        done = CliRunner().invoke(app, [*words, "--agent", "desk"])
        assert done.exit_code == 1 and "ended: 10 failures in a row" in done.stdout
        assert "the run ended after 10 failures in a row; the last: the answer is not JSON" in done.stderr
        server.plays(PASS)
        done = CliRunner().invoke(app, [*words, "--agent", "desk", "--max-cost", "0.02", "--json"])
        found = json.loads(done.stdout)
        assert (done.exit_code, found["ended"]) == (0, "cost limit") and "ended at its cost limit" in done.stderr
        assert Decimal(found["model"]["cost_usd"]) <= Decimal("0.02") and len(found["asked"]) == found["model"]["questions"]
        assert "The model" in (tmp_path / "out.html").read_text()
        server.plays(Fails(401, "invalid x-api-key"))
        done = CliRunner().invoke(app, [*words, "--agent", "desk"])
        assert done.exit_code == 1 and "not allowed (401): 'invalid x-api-key'. Retrying does not help" in done.stderr


def test_wrong_amounts_are_refused_before_anything_is_written(bars):
    for wrong in ({"fee_bps": "x"}, {"fee_bps": "-1"}, {"starting_equity": "0"}, {"skill": "none-such"}):
        memory = memtape.open(":memory:")
        with pytest.raises(memtape.errors.MemtapeError):
            play_any(bars, "breakout", memory=memory, **wrong)
        assert memory.agents() == [] and memory.skills() == []


def test_a_strategy_that_an_older_version_ran_may_be_repeated_and_a_model_may_not(bars, monkeypatch):
    with monkeypatch.context() as older:
        older.setattr(SimulationRecord, "state_terms", lambda self, terms, at: None)
        memory, found, _ = play_any(bars, "breakout")
        asked, _, _ = play_any(bars, "openai/gpt-test")
    before = contents(memory)[0]
    _, again, _ = play_any(bars, "breakout", memory=memory)
    assert again == found and contents(memory)[0][:-1] == before, "only its terms are recorded now"
    with pytest.raises(Conflict, match="were not recorded, so it cannot be continued"):
        play_any(bars, "openai/gpt-test", memory=asked)
    with monkeypatch.context() as older:
        older.setattr(SimulationRecord, "state_terms", lambda self, terms, at: None)
        memory, _, _ = play_any(bars, "breakout")
    bars.write_text(bars.read_text().replace(",130,", ",129,"), encoding="utf-8")
    with pytest.raises(Conflict, match="the ticks on record are not those of these bars"):
        play_any(bars, "breakout", memory=memory)


def play_any(file: Path, strategy: str, *, memory: memtape.Memory | None = None, **more: Any) -> tuple[memtape.Memory, dict[str, Any], list[Any]]:
    """A run of a model that passes, or of a strategy."""
    with llm_server() as server:
        server.plays(PASS)
        memory = memory or memtape.open(":memory:")
        memory.resources.models = lambda name: model_of(name, base_url=server.url("openai"), api_key="k", retries=0)
        options = {"agent": "desk", "symbol": "BTC", "fee_bps": "5", "slippage_bps": "2", "starting_equity": "10000", "report": None}
        return memory, simulate(memory, file, strategy, **(options | more)), list(server.asked)


def everything(memory: memtape.Memory) -> list[Any]:
    """Every row of every log."""
    rows = []
    for stream in ("@owner", *(agent.id for agent in memory.agents())):
        with memory.resources.reading(stream) as tables:
            rows += [(row.seq, row.hash) for row in tables.log()]
    return rows
