"""What the two strategies see, say and risk."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from memtape.core.codec import plain
from memtape.core.observed import Decision
from memtape.core.values import REASON_LENGTH, ZERO, read
from memtape.sim.bars import read_bars
from memtape.sim.paper import Position
from memtape.sim.run import run_simulation
from memtape.sim.strategies import MAX_LEVERAGE, RISK_SHARE, STRATEGIES, Breakout, MeanReversion, average_range, position_size

D = Decimal
EQUITY = D(10_000)
FLAT = Position()
CALM = [100 + n % 2 for n in range(70)]


def test_a_close_above_the_range_is_bought_with_a_stop_below_and_a_target_at_twice_the_risk(words: Any) -> None:
    bars = words.days([*CALM, 105])
    (proposal,) = Breakout()(bars, FLAT, EQUITY)
    decision, (order,) = proposal.decision, proposal.orders
    risk = 2 * average_range(bars, 14)
    assert (decision.action, decision.side, decision.strategy) == ("buy", "long", "breakout")
    assert decision.stop == (105 - risk).quantize(D("0.0001"))
    assert decision.target == (105 + 2 * risk).quantize(D("0.001"))
    assert (order.side, order.qty, order.stop, order.target) == ("buy", decision.qty, decision.stop, decision.target)
    assert (decision.reason or "").startswith("Above the 20-bar high 102, closed at 105. ATR(14)")


def test_a_close_below_the_range_is_sold_short(words: Any) -> None:
    (proposal,) = Breakout()(words.days([*CALM, 95]), FLAT, EQUITY)
    decision = proposal.decision
    assert (decision.action, decision.side) == ("sell", "short")
    assert decision.stop is not None and decision.target is not None and decision.target < 95 < decision.stop


def test_inside_the_range_nothing_is_decided(words: Any) -> None:
    assert Breakout()(words.days(CALM), FLAT, EQUITY) == []


def test_a_breakout_against_the_position_closes_it_whole(words: Any) -> None:
    held = Position(qty=D(3), entry_px=D(100))
    (proposal,) = Breakout()(words.days([*CALM, 95]), held, EQUITY)
    assert proposal.decision.action == "close"
    assert [(o.side, o.qty, o.reduce_only) for o in proposal.orders] == [("sell", 3, True)]


def test_a_breakout_with_the_position_adds_nothing(words: Any) -> None:
    assert Breakout()(words.days([*CALM, 105]), Position(qty=D(3), entry_px=D(100)), EQUITY) == []


def test_a_breakout_out_of_wild_bars_is_passed_with_direction_stop_and_target(words: Any) -> None:
    wild = [100 + (9 if n % 2 else -9) for n in range(12)]
    strategy = Breakout()
    (proposal,) = strategy(words.days([*CALM, *wild, 130]), FLAT, EQUITY)
    decision = proposal.decision
    assert (decision.action, decision.side, proposal.orders) == ("no_trade", "long", ())
    assert decision.stop is not None and decision.target is not None and decision.stop < 130 < decision.target
    assert strategy(words.days([*CALM, *wild, 130, 140]), FLAT, EQUITY) == [], "the same breakout is passed only once"


def test_a_stretched_close_is_faded_back_to_the_mean(words: Any) -> None:
    bars = words.days([*CALM[:30], 108], spread="0.1")
    (proposal,) = MeanReversion()(bars, FLAT, EQUITY)
    decision = proposal.decision
    mean = sum((b.c for b in bars[-20:]), ZERO) / 20
    assert (decision.action, decision.side, decision.target) == ("sell", "short", mean)
    assert decision.stop is not None and decision.stop > 108


def test_a_stretch_whose_mean_is_too_near_for_the_stop_is_passed(words: Any) -> None:
    (proposal,) = MeanReversion()(words.days([*CALM[:30], 103], spread="4"), FLAT, EQUITY)
    assert (proposal.decision.action, proposal.decision.side, proposal.orders) == ("no_trade", "short", ())


def test_patience_ends(words: Any) -> None:
    bars = words.days(CALM)
    early = Position(qty=D(-2), entry_px=D(101), since=bars[-10].t0)
    late = Position(qty=D(-2), entry_px=D(101), since=bars[-15].t0)
    assert MeanReversion()(bars, early, EQUITY) == []
    (proposal,) = MeanReversion()(bars, late, EQUITY)
    assert (proposal.decision.action, proposal.orders[0].side) == ("close", "buy")


def test_the_stop_costs_one_percent_and_the_position_never_exceeds_the_equity() -> None:
    assert position_size(EQUITY, D(100), D(96)) == D(25)
    assert position_size(EQUITY, D(3), D("2.9")) * D("0.1") <= EQUITY * RISK_SHARE
    assert position_size(EQUITY, D(100), D("99.99")) * 100 == EQUITY * MAX_LEVERAGE
    assert position_size(D(-5), D(100), D(96)) == 0


def test_an_account_without_money_proposes_nothing(words: Any) -> None:
    assert Breakout()(words.days([*CALM, 105]), FLAT, ZERO) == []


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_waits_for_its_history_and_for_its_working_orders(words: Any, name: str) -> None:
    strategy = STRATEGIES[name]()
    bars = words.days([*CALM, 120])
    assert all(strategy(bars[:n], FLAT, EQUITY) == [] for n in range(1, 15))
    assert strategy(bars, Position(working=1), EQUITY) == []


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_market_that_stands_still_is_left_alone(words: Any, name: str) -> None:
    assert STRATEGIES[name]()(words.days([100] * 80, spread="0"), FLAT, EQUITY) == []


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("file", ["xauusd_h1_2017_2024.csv.gz", "btcusdt_perp_1h_2023-01_2025-06.csv.gz"])
def test_on_real_hours_they_trade_pass_and_give_their_reasons(words: Any, market: Path, name: str, file: str) -> None:
    notebook = words.Notebook()
    result = run_simulation(notebook, read_bars(market / file)[:4_000], STRATEGIES[name]())
    assert 60 <= result.trades <= 400
    assert 0 < result.no_trades < result.decisions
    assert {row.exit_trigger for row in notebook.ledger.trades()} == {"stop", "target", "market"}
    for decision in notebook.decisions:
        assert decision.reason and len(decision.reason) <= REASON_LENGTH
        assert read(Decision, plain(decision)) == decision
    risks = [row.pnl_r for row in notebook.ledger.trades() if row.exit_trigger == "stop" and row.pnl_r is not None]
    assert D("-3") < min(risks) and max(risks) < 0, "a stop costs about its risk, more after a gap"
