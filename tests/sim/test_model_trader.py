"""A model at the desk: it is shown what an agent may see, answers by schema, and is never obeyed blindly."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memtape
from memtape.core.codec import canonical, plain
from memtape.core.observed import Decision
from memtape.core.values import read
from memtape.sim.account import AccountView
from memtape.sim.guard import Guard
from memtape.sim.margin import Margin
from memtape.sim.model_trader import ModelQuestion, ModelTrader, ProposeOrder, UnusableAnswer, propose_order
from memtape.sim.orders import Order, Position
from memtape.sim.run import run_simulation
from memtape.sim.strategies import OrderProposal
from memtape.sim.venue import Venue

D = Decimal
NOON = datetime(2024, 1, 8, 12, tzinfo=UTC)
FLAT = AccountView(t=NOON, equity=D(10_000), day_equity=D(10_000), marks={"BTC": D(100), "ETH": D(100)})
LONG = replace(FLAT, positions={"BTC": Position(qty=D(3), entry_px=D(90))})
BUY = {"symbol": "BTC", "action": "buy", "qty": 2, "stop": 95, "target": 110, "reason": "Higher low", "confidence": 0.7}


def answered(answer: object, account: AccountView = FLAT, **about: Any) -> tuple[Decision, tuple[Order, ...]]:
    proposal = propose_order(answer, account, symbol="BTC", **about)
    assert isinstance(proposal, OrderProposal)
    assert read(Decision, plain(proposal.decision)) == proposal.decision, "it can be kept"
    return proposal.decision, proposal.orders


def test_a_complete_answer_becomes_a_decision_and_its_order() -> None:
    decision, (order,) = answered(BUY | {"memories": ["ep1", "ep2"]}, strategy="tape")
    assert (decision.action, decision.side, decision.qty, decision.stop, decision.target) == ("buy", "long", 2, 95, 110)
    assert (decision.reason, decision.confidence, decision.strategy, decision.verdict) == ("Higher low", D("0.7"), "tape", None)
    assert decision.slots == {"memories": "ep1, ep2"}
    assert (order.side, order.qty, order.kind, order.stop, order.target, order.bars) == ("buy", 2, "market", 95, 110, 1)


def test_a_size_in_percent_of_risk_is_turned_into_a_quantity_by_the_stop() -> None:
    _, (market,) = answered({**BUY, "qty": None, "risk_pct": 0.5})
    _, (limit,) = answered({**BUY, "qty": None, "risk_pct": "0.5", "kind": "limit", "px": 97})
    assert (market.qty, limit.qty) == (10, 25)


def test_not_trading_is_an_answer_and_may_say_what_it_passed_up() -> None:
    decision, orders = answered(
        {"symbol": "BTC", "action": "no_trade", "reason": "Too wide", "side": "long", "stop": 90, "target": 120}
    )
    assert (decision.action, decision.side, decision.stop, decision.target, orders) == ("no_trade", "long", 90, 120, ())
    assert decision.verdict is None


def test_closing_takes_off_what_is_held_or_the_part_that_is_named() -> None:
    _, (whole,) = answered({"symbol": "BTC", "action": "close", "reason": "Done"}, LONG)
    _, (part,) = answered({"symbol": "BTC", "action": "close", "qty": 1, "reason": "Half"}, LONG)
    _, (more,) = answered({"symbol": "BTC", "action": "close", "qty": 9, "reason": "All"}, LONG)
    assert [(o.side, o.qty, o.reduce_only) for o in (whole, part, more)] == [
        ("sell", 3, True),
        ("sell", 1, True),
        ("sell", 3, True),
    ]


def test_selling_part_of_a_long_reduces_it_and_selling_more_turns_it() -> None:
    decision, (less,) = answered({**BUY, "action": "sell", "stop": 105, "target": 90}, LONG)
    assert (less.reduce_only, less.qty, less.stop, decision.side, decision.stop) == (True, 2, None, "long", None)
    decision, (turn,) = answered({**BUY, "action": "sell", "qty": 5, "stop": 105, "target": 90}, LONG)
    assert (turn.reduce_only, turn.qty, turn.stop, decision.side) == (False, 5, 105, "short")


@pytest.mark.parametrize(
    "answer",
    [
        "buy!", 7, [], {}, {"symbol": "BTC"}, {**BUY, "action": "moon"}, {**BUY, "symbol": "DOGE"}, {**BUY, "symbol": "ETH"}, {**BUY, "lever": 5},
        {**BUY, "qty": None}, {**BUY, "risk_pct": 1}, {**BUY, "qty": -1}, {**BUY, "qty": "much"}, {**BUY, "qty": float("nan")},
        {**BUY, "qty": True}, {**BUY, "qty": None, "risk_pct": 101}, {**BUY, "qty": None, "risk_pct": 1, "stop": None},
        {**BUY, "qty": None, "risk_pct": 1, "stop": 100}, {**BUY, "kind": "limit"}, {**BUY, "px": 99}, {**BUY, "reason": "x" * 281},
        {**BUY, "reason": ""}, {**BUY, "reason": "a\x00b"}, {**BUY, "confidence": 1.5}, {**BUY, "memories": ["m"] * 13},
        {**BUY, "qty": 10**15}, {"symbol": "BTC", "action": "close", "reason": "nothing there"}, {**BUY, "sto\np": 1}, {**BUY, "sto\ud800p": 1},
    ],
)  # fmt: skip
def test_an_answer_that_cannot_be_used_is_no_decision_and_the_reason_is_said(answer: object) -> None:
    unusable = propose_order(answer, FLAT, symbol="BTC")
    assert isinstance(unusable, UnusableAnswer) and unusable.what in ("off_schema", "unusable")
    assert unusable.problem and unusable.problem.isprintable() and len(unusable.problem) <= 280


@pytest.mark.parametrize("wrong", [{"stop": 101}, {"target": 99}, {"stop": 100}, {"kind": "limit", "px": 94}, {"action": "sell"}])
def test_a_stop_or_target_on_the_wrong_side_is_refused_but_the_wish_is_kept(wrong: dict[str, Any]) -> None:
    decision, orders = answered(BUY | wrong)
    assert (decision.verdict and decision.verdict.code, orders) == ("R8_STOP_SIDE", ())
    assert decision.action == (wrong.get("action") or "buy")


def test_the_guard_has_the_last_word() -> None:
    decision, orders = answered(BUY | {"qty": 30}, guard=Guard({"risk per trade": "1 %"}))
    assert (decision.verdict and decision.verdict.code, orders, decision.qty) == ("R2_RISK_PER_TRADE", (), 30)
    decision, orders = answered(BUY, guard=Guard({"risk per trade": "1 %"}))
    assert decision.verdict is not None and decision.verdict.accepted and len(orders) == 1


def test_the_reason_of_a_model_without_an_answer_stays_as_it_is() -> None:
    assert propose_order(UnusableAnswer("the answer is empty", "empty"), FLAT, symbol="BTC") == UnusableAnswer("the answer is empty", "empty")


def test_a_quantity_is_rounded_down_to_the_smallest_step() -> None:
    _, (order,) = answered(BUY | {"qty": "0.123456789"})
    assert order.qty == D("0.12345678")


def test_line_breaks_in_a_reason_are_no_reason_to_refuse() -> None:
    assert answered(BUY | {"reason": " Higher\n low\t"})[0].reason == "Higher low"


def test_the_schema_names_every_field_and_needs_no_more_than_symbol_action_and_reason() -> None:
    schema = ProposeOrder.model_json_schema()
    assert schema["required"] == ["symbol", "action", "reason"]
    assert {"qty", "risk_pct", "kind", "px", "stop", "target", "confidence", "memories"} < set(schema["properties"])
    assert schema["additionalProperties"] is False
    json.dumps(schema)


jsons = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)
fields = [*ProposeOrder.model_fields, "else"]


@given(
    changed=st.dictionaries(st.sampled_from(fields), jsons, max_size=4),
    gone=st.sets(st.sampled_from(fields), max_size=2),
    held=st.booleans(),
)
def test_whatever_a_model_answers_there_is_a_decision_that_can_be_kept_or_a_reason(
    changed: dict[str, Any], gone: set[str], held: bool
) -> None:
    answer = {key: value for key, value in (BUY | changed).items() if key not in gone}
    account = LONG if held else FLAT
    if isinstance(propose_order(answer, account, symbol="BTC"), UnusableAnswer):
        return
    decision, orders = answered(answer, account)
    assert decision.symbol == "BTC"
    if decision.verdict is not None:
        assert orders == ()


# ---- in a run -----------------------------------------------------------------------------------------------------


class Scripted:
    """A model that says its lines, and remembers what it was asked."""

    def __init__(self, *lines: object) -> None:
        self.lines, self.prompts = list(lines), []

    def __call__(self, question: ModelQuestion) -> object:
        self.prompts.append(question.prompt)
        return self.lines.pop(0) if self.lines else None


def brief(symbol: str, as_of: datetime) -> str:
    return f"# What you know of {symbol} by {as_of:%d %H:%M}"


AAPL = BUY | {"symbol": "AAPL"}
BARS = ["99 101 98 100", "102 103 101 102", "103 104 102 103", "103 112 102 111"]


def test_an_answer_is_filled_in_the_next_bar_and_the_next_prompt_tells_of_it(words: Any) -> None:
    model, notebook = Scripted(AAPL), words.Notebook()
    bars = [words.day(n, prices) for n, prices in enumerate(BARS)]
    run_simulation(notebook, bars, ModelTrader(model, brief), fee_bps=0, slippage_bps=0, guard=Guard({}))
    assert [words.said(fill) for fill in notebook.fills] == ["buy 2 @ 102 (market)", "sell 2 @ 110 (target)"]
    (decision,) = notebook.decisions
    assert decision.order_ids == (notebook.fills[0].order_id,) and decision.run is not None and decision.run.digest
    first, second, third, last = model.prompts
    assert first.startswith("# What you know of AAPL by 09 00:00\n\n## AAPL at 2024-01-09T00:00:00Z\n\nopened ")
    assert "2024-01-08 00:00 | 99 " in first and "2024-01-09" not in first.split("opened")[1].replace("2024-01-09T", "")
    assert "Held: nothing; entries waiting: 0.\nEquity: 10000.00.\n\nAnswer" in first
    assert "Held: long 2 @ 102; entries waiting: 0." in second and "Last proposal: accepted" in second
    assert len(third) > len(second), "one bar more"
    assert "Held: nothing" in last, "it is asked on the bar of its target too"


def test_a_refusal_is_shown_to_the_model_at_the_next_tick(words: Any) -> None:
    model, notebook = Scripted(AAPL | {"qty": 5000}, None, "gibberish", None), words.Notebook()
    bars = [words.day(n, prices) for n, prices in enumerate(BARS)]
    result = run_simulation(notebook, bars, ModelTrader(model, brief), guard=Guard({"position": "the equity"}))
    assert "Last proposal: refused, R3_POSITION_CAP: The position would be worth 500000" in model.prompts[1]
    assert result.as_dict()["rejections"] == {"R3_POSITION_CAP": 1}
    assert notebook.fills == []


def test_an_answer_that_cannot_be_used_is_counted_and_the_model_is_not_told(words: Any) -> None:
    model, notebook = Scripted(AAPL | {"qty": 5000}, "gibberish", {"symbol": "AAPL", "action": "close", "reason": "x"}, None), words.Notebook()
    bars = [words.day(n, prices) for n, prices in enumerate(BARS)]
    result = run_simulation(notebook, bars, ModelTrader(model, brief), guard=Guard({"position": "the equity"}))
    assert len(notebook.decisions) == 1 and (result.decisions, result.no_trades) == (1, 0)
    assert result.as_dict()["model"]["skipped"] == {"off_schema": 1, "unusable": 1}
    last = [line for prompt in model.prompts[1:] for line in prompt.splitlines() if line.startswith("Last proposal")]
    assert len(last) == 3 and all("R3_POSITION_CAP" in line for line in last), "the last proposal is that of the first tick"


def test_the_model_sees_its_buying_power_where_there_is_margin(words: Any) -> None:
    model = Scripted()
    run_simulation(
        words.Notebook(), [words.day(0, BARS[0])], ModelTrader(model, brief), venue=Venue(margin=Margin.at_leverage(D(3)))
    )
    assert "Buying power: 30000.00 long, 30000.00 short." in model.prompts[0]


def test_only_the_last_bars_are_shown(words: Any) -> None:
    seen: list[ModelQuestion] = []
    bars = [words.day(n, "100 101 99 100") for n in range(20)]
    run_simulation(words.Notebook(), bars, ModelTrader(lambda asked: seen.append(asked), brief, bars=5))
    assert [len(asked.bars) for asked in seen] == [1, 2, 3, 4] + [5] * 16
    assert all(asked.bars[-1].t1 == asked.t == asked.account.t for asked in seen)


def test_every_symbol_is_asked_about_with_the_orders_of_the_ones_before_already_waiting(words: Any) -> None:
    seen: list[tuple[str, int]] = []

    def decide(asked: ModelQuestion) -> object:
        seen.append((asked.symbol, sum(position.working for position in asked.account.positions.values())))
        return BUY | {"symbol": asked.symbol}

    bars = [words.day(0, "100 101 99 100", symbol) for symbol in ("AAPL", "MSFT")]
    run_simulation(words.Notebook(), bars, ModelTrader(decide, brief))
    assert seen == [("AAPL", 0), ("MSFT", 1)]


def test_observed_first_a_brief_knows_of_what_has_just_happened_and_the_ledger_is_the_same(words: Any) -> None:
    ledgers = []
    for first in (False, True):
        with memtape.open(":memory:") as memory:
            memory.create_skill("model")
            memory.create_agent("main", skill="model", mode="sim")
            agent = memory.agent("main")
            held: list[int] = []

            def count(symbol: str, as_of: datetime, agent: Any = agent, held: list[int] = held) -> str:
                held.append(len(agent.ledger.trades(status="open")))
                return f"{held[-1]} open"

            bars = [words.day(n, prices) for n, prices in enumerate(BARS)]
            result = run_simulation(agent, bars, ModelTrader(Scripted(AAPL), count), guard=Guard({}), observe_first=first)
            assert held == ([0, 1, 1, 0] if first else [0, 0, 1, 1]), "bought at the second tick; the last reports the target"
            assert (result.decisions, result.trades) == (1, 1)
            (trade,) = agent.ledger.trades(status="closed")
            ledgers.append(plain(trade))
            assert (trade.entry_reason, trade.exit_trigger, trade.close_cause, trade.r_source) == (
                "Higher low",
                "target",
                "external",
                "stop",
            )
    assert ledgers[0] == ledgers[1]


def test_after_a_refusal_an_accepted_proposal_is_the_last_one_guard_or_not(words: Any) -> None:
    model = Scripted("gibberish", AAPL | {"stop": 90, "target": 130}, None)
    run_simulation(words.Notebook(), [words.day(n, prices) for n, prices in enumerate(BARS)], ModelTrader(model, brief))
    assert "Last proposal" not in model.prompts[1] and "Last proposal: accepted" in model.prompts[2]


def test_the_same_answers_give_the_same_bytes_in_the_memory(words: Any) -> None:
    lines = [
        AAPL,
        {"nonsense": 1},
        {"symbol": "AAPL", "action": "no_trade", "reason": "Enough", "side": "long", "stop": 120, "target": 90},
    ]
    hashes = []
    for _ in range(2):
        with memtape.open(":memory:") as memory:
            memory.create_skill("model")
            memory.create_agent("main", skill="model", mode="sim")
            agent = memory.agent("main")
            heard: list[tuple[Any, Any]] = []
            bars = [words.day(n, prices) for n, prices in enumerate(BARS)]
            venue, hear = Venue(margin=Margin.at_leverage(D(5))), heard.append
            model = ModelTrader(Scripted(*lines), brief)
            run_simulation(
                agent,
                bars,
                model,
                venue=venue,
                guard=Guard({}),
                after_tick=lambda tick, receipt, hear=hear: hear((tick, receipt)),
            )
            hashes.append(canonical(plain([(tick, receipt.concluded_data()) for tick, receipt in heard])))
            (trade,) = agent.ledger.trades(status="closed")
            assert (trade.entry_reason, trade.exit_trigger, trade.entry_leverage) == ("Higher low", "target", 5)
            assert len([decision for tick, _ in heard for decision in tick.decisions]) == 2
    assert hashes[0] == hashes[1]
