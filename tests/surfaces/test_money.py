"""True money at the surfaces: terms, splits, dividends, corrected fills, totals, and decisions on their own."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from typer.testing import CliRunner

from memtape.engine import Memory
from memtape.errors import Conflict, Invalid, MemtapeError
from memtape.surfaces.caller import Caller
from memtape.surfaces.cli.main import app
from memtape.surfaces.registry import TOOL_SETS, all_operations, execute, find, in_tool_set, perform
from tests.desk import NOON, given_agent, given_memory

T = "2026-06-04T{:02d}:00:00Z"
NEW = ("state_instrument", "list_instruments", "record_split", "record_dividend", "amend_fill", "void_fill")


@pytest.fixture
def memory() -> Iterator[Memory]:
    with given_memory() as memory:
        given_agent(memory)
        yield memory


def ask(memory: Memory, name: str, **data: Any) -> dict[str, Any]:
    return execute(memory, name, {"agent": "desk", **data})


def fill(memory: Memory, id: str, hour: int, side: str, qty: str, px: str, symbol: str = "USDJPY", **more: Any) -> dict[str, Any]:
    return ask(memory, "observe_fill", id=id, t=T.format(hour), symbol=symbol, side=side, qty=qty, px=px, **more)


def net(memory: Memory, **when: Any) -> str:
    return str(ask(memory, "get_ledger", **when)["totals"]["net_pnl_usd"])


# ---- instruments ---------------------------------------------------------------------------------------------------------


def test_terms_are_stated_listed_and_counted_also_after_the_fills(memory: Memory) -> None:
    fill(memory, "f1", 8, "buy", "2", "5000", "ES")
    fill(memory, "f2", 9, "sell", "2", "5001", "ES")
    assert net(memory) == "2"
    assert ask(memory, "state_instrument", symbol="ES", multiplier="50")["revised"] is True
    assert net(memory) == "100"
    ask(memory, "state_instrument", symbol="ES", multiplier="5", valid_from=T.format(12))
    assert net(memory) == "100"  # entered before the new terms
    found = ask(memory, "list_instruments", as_of=T.format(10))
    assert [(row["symbol"], row["multiplier"]) for row in found["instruments"]] == [("ES", "50")]
    found = ask(memory, "list_instruments", as_of=T.format(13))
    assert [(row["multiplier"], row["valid_from"]) for row in found["instruments"]] == [("5", T.format(12))]
    assert [(row["multiplier"], row["valid_from"], row["in_force"]) for row in found["statements"]] == [
        ("50", None, False), ("5", T.format(12), True),
    ]  # fmt: skip


def test_an_inverse_contract_is_listed_on_margin(memory: Memory) -> None:
    ask(memory, "state_instrument", symbol="BTCUSD", payoff="inverse", accounting="cash", id="i1")
    [row] = ask(memory, "list_instruments", symbol="BTCUSD")["instruments"]
    assert (row["accounting"], row["payoff"]) == ("margin", "inverse")


def test_instruments_are_listed_as_they_had_been_recorded_by_a_row_of_the_log(memory: Memory) -> None:
    ask(memory, "state_instrument", symbol="ES", multiplier="50")
    ask(memory, "state_instrument", symbol="ES", multiplier="5")
    assert [row["multiplier"] for row in ask(memory, "list_instruments", head=1)["instruments"]] == ["50"]
    assert [row["multiplier"] for row in ask(memory, "list_instruments")["instruments"]] == ["5"]


def test_a_split_and_a_dividend_without_an_id_are_recorded_once(memory: Memory) -> None:
    fill(memory, "f1", 8, "buy", "10", "1000", "NVDA")
    for name, data in (
        ("record_split", {"symbol": "NVDA", "t": T.format(9), "ratio": "10"}),
        ("record_dividend", {"symbol": "NVDA", "ex_date": T.format(10), "usd": "8"}),
    ):
        first, again = ask(memory, name, **data), ask(memory, name, **data)
        assert (first["duplicate"], again["duplicate"], again["seq"]) == (False, True, first["seq"])
    fill(memory, "f2", 11, "sell", "100", "101", "NVDA")
    [row] = ask(memory, "get_ledger")["rows"]
    assert (row["qty_exited"], row["realized_pnl_usd"], row["funding_usd"], row["net_pnl_usd"]) == ("100", "100", "8", "108")


# ---- corrected fills -----------------------------------------------------------------------------------------------------


def test_an_amended_fill_counts_from_now_on_and_the_past_keeps_the_old_content(memory: Memory) -> None:
    fill(memory, "f1", 8, "buy", "1", "100", "X")
    fill(memory, "f2", 9, "sell", "1", "180", "X")
    answer = ask(memory, "amend_fill", fill_id="f2", content={"px": "108"}, t=T.format(12))
    assert answer["revised"] is True
    assert (net(memory), net(memory, as_of=T.format(11))) == ("8", "80")


def test_a_correction_without_a_time_counts_from_the_agents_own_clock(memory: Memory) -> None:
    fill(memory, "f1", 8, "buy", "1", "100", "X")
    fill(memory, "f2", 9, "sell", "1", "180", "X")
    ask(memory, "void_fill", fill_id="f2")
    row = memory.agent("desk").ledger.trades(as_of=datetime(2026, 6, 4, 9, tzinfo=UTC))[0]
    assert (row.status, memory.agent("desk").now()) == ("open", datetime(2026, 6, 4, 9, tzinfo=UTC))
    again = ask(memory, "void_fill", fill_id="f2")
    assert again["duplicate"] is True
    assert fill(memory, "f2", 9, "sell", "1", "180", "X")["duplicate"] is True  # a void id stays void


def test_only_the_owner_corrects_a_fill(memory: Memory) -> None:
    fill(memory, "f1", 8, "buy", "1", "100", "X")
    for name, more in (("amend_fill", {"content": {"px": "1"}}), ("void_fill", {})):
        with pytest.raises(Conflict, match="owner only"):
            perform(memory, find(name), {"agent": "desk", "fill_id": "f1", **more}, Caller("model"))


@pytest.mark.parametrize(("content", "said"), [({"colour": "red"}, "colour"), ({}, "is empty"), ({"px": "many"}, "px")])
def test_a_correction_that_makes_no_sense_is_refused(memory: Memory, content: dict[str, str], said: str) -> None:
    fill(memory, "f1", 8, "buy", "1", "100", "X")
    with pytest.raises(MemtapeError, match=said):
        ask(memory, "amend_fill", fill_id="f1", content=content)


def test_a_model_gets_these_operations_only_if_it_may_report_for_the_account() -> None:
    corrections = {"amend_fill", "void_fill"}
    for tools in TOOL_SETS:
        assert set(NEW) & set(in_tool_set(all_operations(), tools, Caller("model"))) <= {"list_instruments"}
        reporting = set(NEW) & set(in_tool_set(all_operations(), tools, Caller("model", reports=True)))
        assert reporting == (set(NEW) - corrections if tools == "full" else set())


# ---- totals --------------------------------------------------------------------------------------------------------------


def never_flat(memory: Memory, seed: int) -> None:
    """An account that scales in and out and is never flat, with prices and fees that do not divide."""
    chance, held, at = Random(seed), Decimal(0), NOON - timedelta(days=60)
    for n in range(60):
        at += timedelta(hours=chance.randint(1, 20))
        out = held > 3 and chance.random() < 0.5
        qty = Decimal(chance.randint(1, int(held * 100) - 100 if out else 700)) / 100
        held += -qty if out else qty
        price = Decimal(chance.randint(10**9, 2 * 10**9)) / 10**8
        memory.agent("desk").observe(
            {"id": f"f{n}", "t": at.isoformat(), "symbol": "BTC", "side": "sell" if out else "buy", "qty": str(qty), "px": str(price),
             "fee": str(Decimal(chance.randint(1, 10**7)) / 10**9), "rate": str(Decimal(chance.randint(10**8, 10**9)) / 10**9)},
            kind="fill",
        )  # fmt: skip
        if n % 7 == 0:
            memory.agent("desk").observe(
                {"id": f"u{n}", "t": at.isoformat(), "symbol": "BTC", "usd": str(Decimal(chance.randint(-(10**7), 10**7)) / 10**9)},
                kind="funding",
            )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("unit", ["flat_to_flat", "fifo_lots"])
def test_closed_and_open_trades_add_up_to_the_ledger_to_the_last_digit(unit: str, seed: int) -> None:
    with given_memory() as memory:
        given_agent(memory, {"trade_unit": unit})
        never_flat(memory, seed)
        did, totals = ask(memory, "get_strategy_performance"), ask(memory, "get_ledger")["totals"]
        assert did["open_n"] == totals["open"]["n"] == totals["n_open"] > 0
        assert did["n"] == totals["closed"]["n"] and (did["n"] > 20) is (unit == "fifo_lots")
        for closed, name in (
            ("net_pnl_usd", "net_pnl_usd"), ("gross_pnl_usd", "realized_pnl_usd"), ("fees_usd", "fees_usd"), ("funding_usd", "funding_usd"),
        ):  # fmt: skip
            assert Decimal(did[closed]) + Decimal(did[f"open_{name}"]) == Decimal(totals["all"][name]) == Decimal(totals[name])
            assert abs(Decimal(did[f"open_{name}"]) - Decimal(totals["open"][name])) <= Decimal("1e-8")
            assert did[closed] == totals["closed"][name]


def test_the_money_of_one_symbol_is_that_of_its_open_trades(memory: Memory) -> None:
    fill(memory, "f1", 8, "buy", "3", "100", "X", fee="1")
    fill(memory, "f2", 9, "sell", "1", "110", "X", fee="2")
    fill(memory, "f3", 9, "buy", "1", "110", "Y", fee="4")
    did = ask(memory, "get_strategy_performance", symbol="X")
    names = ("open_n", "open_realized_pnl_usd", "open_fees_usd", "open_net_pnl_usd")
    assert [did[name] for name in names] == [1, "10", "3", "7"]


# ---- decisions on their own ----------------------------------------------------------------------------------------------


def test_a_decision_without_a_time_has_that_of_the_simulation(memory: Memory) -> None:
    ask(memory, "observe_tick", id="s1", t=T.format(8), marks={"BTC": "65000"})
    ask(memory, "record_decision", symbol="BTC", action="no_trade", reason="chop")
    [row] = ask(memory, "get_decisions")["decisions"]
    assert (row["t"], row["known_at"]) == (T.format(8), T.format(8))


def test_terms_alone_do_not_set_the_clock_of_a_simulation_to_1970(memory: Memory) -> None:
    ask(memory, "state_instrument", symbol="ES", multiplier="50")
    assert memory.agent("desk").now() == NOON


def test_a_decision_without_a_time_has_that_of_the_clock_elsewhere(memory: Memory) -> None:
    given_agent(memory, mode="paper", id="real")
    execute(memory, "record_decision", {"agent": "real", "action": "no_trade"})
    [row] = execute(memory, "get_decisions", {"agent": "real"})["decisions"]
    assert row["t"] == "2026-11-15T12:00:00Z"


@pytest.mark.parametrize(
    ("decision", "said"),
    [
        ({"side": "long", "stop": "105"}, "stop: 105 is above the entry 100 of a long. Give a stop below it"),
        ({"action": "buy", "stop": "100"}, "stop: 100 equals the entry 100 of a long"),
        ({"action": "sell", "stop": "95"}, "stop: 95 is below the entry 100 of a short. Give a stop above it"),
        ({"side": "long", "target": "99"}, "target: 99 is below the entry 100 of a long. Give a target above it"),
        ({"side": "long", "stop": "105", "target": "99"}, "stop: 105 is above .*\ntarget: 99 is below"),
    ],
)
def test_a_decision_with_its_stop_or_target_on_the_wrong_side_is_refused(memory: Memory, decision: dict[str, str], said: str) -> None:
    with pytest.raises(Invalid, match=said):
        ask(memory, "record_decision", symbol="BTC", entry_price="100", t=T.format(8), **decision)
    assert ask(memory, "get_decisions")["n"] == 0
    # With a tick it is recorded: what an account reports is never refused for a decision's words.
    ask(memory, "observe_tick", id="s1", t=T.format(8), decision={"symbol": "BTC", "entry_price": "100", **decision})
    assert ask(memory, "get_decisions")["n"] == 1


def test_a_decision_at_the_market_with_its_stop_beyond_its_target_is_refused(memory: Memory) -> None:
    with pytest.raises(Invalid, match=r"stop: 105 is above the target 104 of a long. Give a stop below it"):
        ask(memory, "record_decision", symbol="BTC", side="long", stop="105", target="104", t=T.format(8))
    assert ask(memory, "get_decisions")["n"] == 0


@pytest.mark.parametrize("decision", [{"side": "short", "stop": "105"}, {"stop": "105"}, {"action": "close", "stop": "105"}])
def test_any_other_decision_is_recorded(memory: Memory, decision: dict[str, str]) -> None:
    ask(memory, "record_decision", symbol="BTC", entry_price="100", t=T.format(8), **decision)
    assert ask(memory, "get_decisions")["decisions"][0]["entry_price"] == "100"


# ---- agents and the command line -----------------------------------------------------------------------------------------


def test_the_settings_of_an_agent_say_what_holds() -> None:
    with given_memory() as memory:
        given_agent(memory, {"settle_seconds": 5, "trade_unit": "fifo_lots"})
        given_agent(memory, mode="live", id="real")
        names = ("settle_seconds", "trade_unit")
        shown = {id_: execute(memory, "show_agent", {"id": id_})["settings"] for id_ in ("desk", "real")}
        assert [shown["desk"][name] for name in names] == [5, "fifo_lots"]
        assert [shown["real"][name] for name in names] == [30, "flat_to_flat"]
        with pytest.raises(Invalid, match="settle_seconds"):
            execute(memory, "create_agent", {"id": "x", "skill": "plain", "settings": {"settle_seconds": -1}})


def test_the_command_line_states_terms_and_corrects_fills(tmp_path: Any) -> None:
    db = str(tmp_path / "desk.db")

    def run(*words: str) -> str:
        done = CliRunner().invoke(app, [*words, "--db", db])
        assert done.exit_code == 0, done.output
        return done.output

    run("skills", "create", "plain")
    run("agents", "create", "desk", "--skill", "plain", "--mode", "sim", "--settings", '{"trade_unit": "fifo_lots"}')
    run("observe", "terms", "--agent", "desk", "--symbol", "ES", "--multiplier", "50")
    run("observe", "fill", "--agent", "desk", "--id", "f1", "--t", T.format(8), "--symbol", "ES", "--side", "buy", "--qty", "1", "--px", "500")
    run("observe", "amend", "f1", "--agent", "desk", "--content", '{"px": "5000"}')
    assert "50" in run("op", "list_instruments", "--agent", "desk")
    assert '"entry_price": "5000"' in run("trades", "open", "--agent", "desk", "--json")
