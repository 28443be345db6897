"""A replay is a broker's day told again: the same ticks, in the same order, every time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from decimal import Decimal, localcontext
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memtape
from memtape.core.codec import canonical, plain, time_text
from memtape.core.ledger.fold import fold_events
from memtape.core.ledger.position_events import FillEvent, SnapshotView
from memtape.core.ledger.rounds import trade_from_round
from memtape.core.ledger.terms import AccountTerms
from memtape.core.observed import Bar, Decision, Tick
from memtape.core.values import MONEY, read
from memtape.errors import Invalid
from memtape.sim.account import AccountView
from memtape.sim.funding import SteadyFunding
from memtape.sim.margin import Margin
from memtape.sim.paper import Order, Position
from memtape.sim.report import CAVEAT
from memtape.sim.report_markdown import render_report
from memtape.sim.run import run_simulation
from memtape.sim.strategies import STRATEGIES, Breakout, MeanReversion, OrderProposal
from memtape.sim.venue import Venue
from tests.effort import examples

D = Decimal


def wander(words: Any, seed: int, symbol: str, n: int = 160) -> list[Bar]:
    """A random walk that is the same for the same seed."""
    chance, price, closes = Random(seed), 100.0, []
    for _ in range(n):
        price = max(5.0, price * (1 + chance.gauss(0, 0.02)))
        closes.append(f"{price:.2f}")
    bars: list[Bar] = words.days(closes, symbol, spread="0.4")
    return bars


def buy_once(history: Sequence[Bar], position: Position, equity: Decimal) -> list[OrderProposal]:
    """Buys after the first bar, with a stop at 95 and a target at 110."""
    if len(history) != 1:
        return []
    stop, target, symbol = D(95), D(110), history[-1].symbol
    decision = Decision(symbol=symbol, action="buy", side="long", reason="first light", stop=stop, target=target)
    return [OrderProposal(decision, (Order(symbol=symbol, side="buy", qty=D(2), stop=stop, target=target),))]


def test_a_decision_fills_during_the_next_bar_and_is_reported_with_the_next_tick(words: Any) -> None:
    notebook = words.Notebook("main")
    bars = [words.day(0, "99 101 98 100"), words.day(1, "102 103 101 102"), words.day(2, "103 112 102 111")]
    run_simulation(notebook, bars, buy_once, fee_bps=0, slippage_bps=0)
    decided, entered, left = notebook.ticks
    assert [tick.id for tick in notebook.ticks] == [f"main-{time_text(bar.t1)}" for bar in bars]
    assert (decided.fills, decided.positions, decided.equity) == ((), {}, 10_000)
    (decision,), (entry,), (exit_,) = decided.decisions, entered.fills, left.fills
    assert decision.order_ids == (entry.order_id,)
    assert decided.t < entry.t < entered.t and entry.px == 102
    assert entered.positions is not None and entered.positions["AAPL"][0].qty == 2
    assert entered.decision is None
    assert (exit_.trigger, exit_.px, left.positions, left.equity) == ("target", 110, {}, 10_016)
    assert exit_.order_id not in decision.order_ids, "the broker's own exit has no reason but its trigger"


def test_all_symbols_of_one_time_are_one_tick(words: Any) -> None:
    notebook = words.Notebook()
    bars = [*wander(words, 1, "AAPL", 20), *wander(words, 2, "MSFT", 20)]
    result = run_simulation(notebook, bars, Breakout())
    assert (result.ticks, result.bars) == (20, 40)
    assert all([bar.symbol for bar in tick.bars] == ["AAPL", "MSFT"] for tick in notebook.ticks)
    assert all(tick.marks == {bar.symbol: bar.c for bar in tick.bars} for tick in notebook.ticks)


def test_every_symbol_is_asked_about_on_every_bar_also_on_one_that_stopped_it_out(words: Any) -> None:
    notebook, asked = words.Notebook(), []
    strategy = MeanReversion()

    def ask(history: Sequence[Bar], position: Position, equity: Decimal) -> list[OrderProposal]:
        asked.append((history[-1].t1, history[-1].symbol))
        return list(strategy(history, position, equity))

    bars = [*wander(words, 3, "AAPL", 400), *wander(words, 4, "MSFT", 400)]
    run_simulation(notebook, bars, ask)
    assert sorted(asked) == sorted((bar.t1, bar.symbol) for bar in bars)
    exits = [(tick, fill) for tick in notebook.ticks for fill in tick.fills if fill.trigger in ("stop", "target")]
    decided_again = sum(fill.symbol in {d.symbol for d in tick.decisions} for tick, fill in exits)
    assert len(exits) > 5 and decided_again > 0


def test_a_decision_on_the_bar_of_a_stop_is_not_the_reason_of_the_exit(words: Any) -> None:
    def always_in(history: Sequence[Bar], position: Position, equity: Decimal) -> list[OrderProposal]:
        if position.qty or position.working:
            return []
        stop = history[-1].c - 2
        decision = Decision(symbol="AAPL", action="buy", side="long", reason=f"Bar {len(history)}", stop=stop)
        return [OrderProposal(decision, (Order(symbol="AAPL", side="buy", qty=D(1), stop=stop),))]

    with memtape.open(":memory:") as memory:
        memory.create_skill("in")
        memory.create_agent("in", skill="in", mode="sim")
        agent = memory.agent("in")
        bars = [words.day(0, "100 101 99 100"), words.day(1, "100 101 97 98"), words.day(2, "98 99 97 98"), words.day(3, "98 98 95 95")]
        run_simulation(agent, bars, always_in, fee_bps=0, slippage_bps=0)
        trades = agent.ledger.trades(status="closed", newest=False)
        assert agent.ledger.discrepancies() == []
    assert [(t.entry_reason, t.exit_reason, t.exit_trigger, t.close_cause, t.exit_decision) for t in trades] == [
        ("Bar 1", "stop", "stop", "external", None),
        ("Bar 2", "stop", "stop", "external", None),
    ]


@settings(max_examples=examples(8, 150))
@given(seed=st.integers(0, 10_000), name=st.sampled_from(sorted(STRATEGIES)))
def test_the_same_bars_give_the_same_bytes(seed: int, name: str, words: Any) -> None:
    bars = [*wander(words, seed, "AAPL"), *wander(words, seed + 1, "MSFT")]
    once, again = words.Notebook(), words.Notebook()
    run_simulation(once, bars, STRATEGIES[name]())
    Random(seed).shuffle(bars)
    with localcontext() as careless:
        careless.prec = 12
        run_simulation(again, bars, STRATEGIES[name]())
    assert [canonical(tick) for tick in once.ticks] == [canonical(tick) for tick in again.ticks]


@settings(max_examples=examples(8, 150))
@given(seed=st.integers(0, 10_000), name=st.sampled_from(sorted(STRATEGIES)), cut=st.integers(70, 159))
def test_the_future_changes_nothing_in_the_past(seed: int, name: str, cut: int, words: Any) -> None:
    bars = wander(words, seed, "AAPL")
    whole, part = words.Notebook(), words.Notebook()
    run_simulation(whole, bars, STRATEGIES[name]())
    run_simulation(part, bars[:cut], STRATEGIES[name]())
    assert whole.ticks[:cut] == part.ticks


@settings(max_examples=examples(8, 150))
@given(seed=st.integers(0, 10_000), name=st.sampled_from(sorted(STRATEGIES)))
def test_the_ledger_finds_nothing_to_correct_and_accounts_for_all_the_equity(seed: int, name: str, words: Any) -> None:
    notebook = words.Notebook()
    result = run_simulation(notebook, wander(words, seed, "AAPL", 300), STRATEGIES[name](), fee_bps="7.5", slippage_bps=3)
    named = {order: d for d in notebook.decisions for order in d.order_ids}
    happened: list[SnapshotView | FillEvent] = []
    for n, tick in enumerate(notebook.ticks):
        held = (tick.positions or {}).get("AAPL", (None,))[0]
        decision = next((d for d in tick.decisions if d.symbol == "AAPL"), None)
        happened.append(SnapshotView(tick.id, tick.t, tick.t, first=n == 0, held=held, decision=decision))
        happened += [FillEvent(f, tick.t, decision=named.get(f.order_id or "")) for f in tick.fills]
    folded = fold_events(AccountTerms("notebook", "test"), "AAPL", "", happened)
    assert folded.discrepancies == []
    trades = [trade_from_round(AccountTerms("notebook", "test"), "AAPL", "", round_) for round_ in folded.closed]
    for trade in trades:
        assert trade.entry_reason and trade.stop_price and trade.r_source == "stop"
        # What ended at its stop or target says so; everything else was decided.
        assert (trade.exit_reason == trade.exit_trigger) == (trade.close_cause == "external")
        assert (trade.exit_trigger in ("stop", "target")) == (trade.close_cause == "external")
    with localcontext(MONEY):
        net = sum((trade.net_pnl_usd for trade in trades if trade.net_pnl_usd is not None), D(0))
        if folded.open is None:
            assert result.ending_equity == 10_000 + net.quantize(D("1e-8"))
        assert result.net_pnl == net


def test_every_tick_can_be_kept_and_read_again(words: Any) -> None:
    notebook = words.Notebook()
    run_simulation(notebook, [*wander(words, 5, "AAPL", 200), *wander(words, 6, "MSFT", 200)], Breakout(), fee_bps="3.33")
    for tick in notebook.ticks:
        assert read(Tick, plain(tick)) == tick


def test_the_figures_say_how_much_stands_behind_them(words: Any) -> None:
    notebook = words.Notebook()
    result = run_simulation(notebook, wander(words, 7, "AAPL", 400), MeanReversion())
    rows = notebook.ledger.trades()
    told_ = result.as_dict()
    assert result.trades == len(rows) == told_["n"]["win_rate"] > 3
    assert result.net_pnl == sum(row.net_pnl_usd for row in rows)
    assert told_["win_rate"] == pytest.approx(sum(row.net_pnl_usd > 0 for row in rows) / len(rows), abs=1e-6)
    assert told_["n"]["sharpe"] == 400 and told_["sharpe_clock"] == "calendar days, 365 a year"
    assert told_["simulated"] is True


def test_the_drawdown_is_the_deepest_fall_from_a_high_and_no_trade_has_no_rate(words: Any) -> None:
    notebook = words.Notebook()
    bars = [words.day(0, "100 101 99 100"), words.day(1, "100 101 99 100"), words.day(2, "100 101 96 96")]
    result = run_simulation(notebook, bars, buy_once, fee_bps=0, slippage_bps=0, starting_equity=200)
    assert result.max_drawdown_pct == pytest.approx(4.0)
    assert (result.trades, result.figures.win_rate, result.figures.profit_factor) == (0, None, None)


def test_an_observer_without_a_ledger_gets_its_ticks_all_the_same(words: Any) -> None:
    class Ear:
        heard = 0

        def observe(self, tick: Tick, /) -> None:
            self.heard += 1

    ear = Ear()
    result = run_simulation(ear, wander(words, 8, "AAPL", 100), Breakout())
    assert (ear.heard, result.trades, result.agent) == (100, 0, "sim")


def test_trades_from_before_the_run_are_not_counted(words: Any) -> None:
    notebook = words.Notebook()
    early = wander(words, 9, "AAPL", 200)
    run_simulation(notebook, early, MeanReversion())
    late = [words.day(300 + n, "100 101 99 100") for n in range(5)]
    assert run_simulation(notebook, late, MeanReversion(), prefix="q").trades == 0


def test_progress_counts_the_ticks(words: Any) -> None:
    seen: list[tuple[int, int]] = []
    bars = wander(words, 10, "AAPL", 5)
    run_simulation(words.Notebook(), bars, Breakout(), on_progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]


@pytest.mark.parametrize(
    ("about", "field"),
    [
        ({"fee_bps": -1}, "fee_bps"),
        ({"slippage_bps": 20_000}, "slippage_bps"),
        ({"starting_equity": 0}, "starting_equity"),
        ({"fee_bps": "much"}, "fee_bps"),
    ],
)
def test_senseless_settings_are_refused_by_name(words: Any, about: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        run_simulation(words.Notebook(), wander(words, 1, "AAPL", 3), Breakout(), **about)
    assert refused.value.field == field


def test_no_bars_or_one_bar_twice_are_refused(words: Any) -> None:
    with pytest.raises(Invalid, match="the list is empty"):
        run_simulation(words.Notebook(), [], Breakout())
    bar = words.day(0, "100 101 99 100")
    with pytest.raises(Invalid, match="AAPL has two bars"):
        run_simulation(words.Notebook(), [bar, bar], Breakout())


def test_the_report_says_what_it_is_and_shows_the_last_twenty_trades(words: Any) -> None:
    result = run_simulation(words.Notebook("tape-reader"), wander(words, 11, "AAPL", 900), MeanReversion())
    text = render_report(result)
    assert text.startswith(f"# Simulation: tape-reader\n\nBacktest of mean reversion on AAPL.\n\n{CAVEAT}\n")
    assert "They say nothing about future returns." in text
    assert f"## Trades (last 20 of {result.trades})" in text
    assert f"| Win rate | {100 * (result.figures.win_rate or 0):.1f} % | {result.trades} trades |" in text
    assert "| Data | 900 bars, 2024-01-08 00:00 to 2026-06-26 00:00 UTC |" in text
    assert text.partition("## Trades")[2].count("\n| 20") == 20
    assert text == render_report(result)


def test_a_reason_cannot_break_the_table(words: Any) -> None:
    def sly(history: Sequence[Bar], position: Position, equity: Decimal) -> list[OrderProposal]:
        return [
            OrderProposal(Decision(symbol="AAPL", action="buy", reason="a | b\n<script>", stop=D(95)), p.orders)
            for p in buy_once(history, position, equity)
        ]

    bars = [words.day(0, "99 101 98 100"), words.day(1, "102 103 101 102"), words.day(2, "103 112 102 111")]
    row = render_report(run_simulation(words.Notebook(), bars, sly)).splitlines()[-1]
    assert row.endswith(r"| target | a \| b &lt;script> |")


def test_a_run_without_trades_says_so(words: Any) -> None:
    text = render_report(run_simulation(words.Notebook(), [words.day(0, "100 101 99 100")], Breakout()))
    assert "No trade was closed." in text
    assert "| Win rate | – | 0 trades |" in text


# ---- between ticks, and under terms -------------------------------------------------------------------------------


def test_after_each_tick_its_receipt_is_handed_on_before_the_next_begins(words: Any) -> None:
    heard: list[str] = []

    class Ear:
        def observe(self, tick: Tick, /) -> str:
            heard.append(f"observed {tick.t:%d}")
            return f"receipt {tick.t:%d}"

    bars = [words.day(n, "100 101 99 100") for n in range(2)]
    run_simulation(Ear(), bars, Breakout(), after_tick=lambda tick, receipt: heard.append(f"{receipt} of {tick.t:%d}"))
    assert heard == ["observed 09", "receipt 09 of 09", "observed 10", "receipt 10 of 10"]


def test_a_run_on_margin_tells_its_funding_its_liquidations_and_what_is_owed(words: Any) -> None:
    def all_in(history: Sequence[Bar], position: Position, equity: Decimal) -> list[OrderProposal]:
        order = Order(symbol="AAPL", side="buy", qty=D(9))
        return [OrderProposal(Decision(symbol="AAPL", action="buy", reason="all in"), (order,))] if len(history) == 1 else []

    venue = Venue(margin=Margin.at_leverage(D(10)), funding={"AAPL": SteadyFunding(rate=D("0.001"), every=timedelta(hours=24))})
    notebook = words.Notebook()
    bars = [words.day(n, "100 100 100 100") for n in range(2)] + [words.day(2, "85 85 85 85"), words.day(3, "85 85 85 85")]
    result = run_simulation(notebook, bars, all_in, fee_bps=0, slippage_bps=0, starting_equity=100, venue=venue)
    told = result.as_dict()
    assert (told["funding"], told["liquidations"], told["shortfall"], told["rejections"]) == ("-0.9", 1, "35.9", {})
    assert told["ending_equity"] == "-35.9"
    assert [fill.liq for fill in notebook.fills] == [False, True]
    assert [payment.usd for tick in notebook.ticks for payment in tick.funding] == [D("-0.9")]
    text = render_report(result)
    assert (
        "| Liquidations | 1 | 2 fills |" in text
        and "| Shortfall | 35.90 |" in text
        and "| Funding received less paid | -0.90 |" in text
    )


def test_a_symbol_is_asked_about_on_the_bar_of_its_liquidation(words: Any) -> None:
    asked: list[int] = []

    def all_in(history: Sequence[Bar], position: Position, equity: Decimal) -> list[OrderProposal]:
        asked.append(len(history))
        order = Order(symbol="AAPL", side="buy", qty=D(9))
        return [OrderProposal(Decision(symbol="AAPL", action="buy"), (order,))] if len(history) == 1 else []

    bars = [words.day(n, "100 100 100 100") for n in range(2)] + [words.day(2, "85 85 85 85"), words.day(3, "85 85 85 85")]
    run_simulation(words.Notebook(), bars, all_in, starting_equity=100, venue=Venue(margin=Margin.at_leverage(D(10))))
    assert asked == [1, 2, 3, 4]


def test_a_strategy_may_look_at_the_whole_account(words: Any) -> None:
    seen: list[tuple[str, list[str], int, int]] = []

    class Careful:
        name = "careful"

        def propose(self, symbol: str, history: Mapping[str, Sequence[Bar]], account: AccountView, /) -> list[OrderProposal]:
            seen.append((symbol, sorted(history), len(account.positions), account.orders_today))
            order = Order(symbol=symbol, side="buy", qty=D(1))
            return [OrderProposal(Decision(symbol=symbol, action="buy"), (order,))]

    bars = [words.day(n, "100 101 99 100", symbol) for n in range(2) for symbol in ("AAPL", "MSFT")]
    result = run_simulation(words.Notebook(), bars, Careful())
    both = ["AAPL", "MSFT"]
    assert seen == [("AAPL", both, 0, 0), ("MSFT", both, 1, 1), ("AAPL", both, 2, 0), ("MSFT", both, 2, 1)]
    assert result.strategy == "careful"
