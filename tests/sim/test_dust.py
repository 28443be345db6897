"""Dust is no trade: it is refused, or goes with the rest, so that no memory is formed of it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

import memtape
from memtape.sim.model_trader import ModelTrader
from memtape.sim.run import run_simulation

D = Decimal
QUIET = "100 101 99 100"


@pytest.mark.parametrize(
    ("order", "why"),
    [
        ("buy 0.00000001", "the order is worth 0.00000100; the least is 0.01, a millionth of the starting equity"),
        ("buy 0.0000999", "the order is worth 0.00999; the least is 0.01, a millionth of the starting equity"),
        ("sell 0.00009 limit 101", "the order is worth 0.00909; the least is 0.01, a millionth of the starting equity"),
        ("buy 1 stop 99.995", "its stop costs 0.005; the least is 0.01, a millionth of the starting equity"),
        ("buy 0.000000001", "a quantity of 0.000000001 is too small; it must be above 0.00000001"),
    ],
)
def test_an_entry_that_is_worth_or_risks_nothing_is_refused(words: Any, order: str, why: str) -> None:
    desk = words.Desk()
    desk.day(QUIET)
    id_ = desk.order(order)
    assert (desk.broker.codes[id_], desk.broker.refused[id_]) == ("B4_DUST", why)
    assert desk.day(QUIET) == [] and desk.holds() == "flat"


def test_the_smallest_sensible_entry_is_taken_and_a_small_account_has_smaller_ones(words: Any) -> None:
    desk = words.Desk()
    desk.day(QUIET)
    desk.order("buy 0.0001")
    desk.order("buy 1 stop 99.99")
    assert desk.broker.codes == {}
    small = words.Desk(cash=10)
    small.day(QUIET)
    small.order("buy 0.00001 stop 90")
    assert small.broker.codes == {}


def test_an_agent_says_itself_which_quantity_is_dust(words: Any) -> None:
    desk = words.Desk(dust_qty=D("0.5"))
    desk.day(QUIET)
    id_ = desk.order("buy 0.5")
    assert desk.broker.refused[id_] == "a quantity of 0.5 is too small; it must be above 0.5"
    desk.order("buy 2")
    desk.day(QUIET)
    desk.order("sell 1.6 close")
    assert desk.day(QUIET) == ["sell 2 @ 100 (market)"] and desk.holds() == "flat"


def test_a_close_that_would_leave_dust_closes_everything(words: Any) -> None:
    desk = words.Desk()
    desk.day(QUIET)
    desk.order("buy 3 stop 90")
    desk.day(QUIET)
    desk.order("sell 2.99999999 close")
    assert desk.day(QUIET) == ["sell 3 @ 100 (market)"] and desk.holds() == "flat"
    assert desk.day("100 101 80 85") == [], "its stop is gone with it"


def test_a_crumb_of_the_volume_opens_nothing_and_a_crumb_that_is_left_is_dropped(words: Any) -> None:
    desk = words.Desk(participation=D("0.5"))
    desk.day(QUIET)
    desk.order("buy 2")
    assert desk.day(QUIET, volume="0.0001") == [] and desk.holds() == "flat", "half of it would be worth 0.005"
    assert desk.day(QUIET, volume="3.9999") == ["buy 1.99995 @ 100 (market)"]
    assert desk.broker.position("AAPL").working == 0, "0.00005 are left: worth 0.005"


def test_a_dust_order_of_a_model_is_on_record_as_refused_and_teaches_nothing(words: Any) -> None:
    answers = iter([{"symbol": "AAPL", "action": "buy", "qty": 1e-8, "stop": 95, "target": 105, "reason": "tiny"}])
    with memtape.open(":memory:") as memory:
        memory.create_skill("model")
        memory.create_agent("main", skill="model", mode="sim")
        agent = memory.agent("main")
        bars = [words.day(n, QUIET) for n in range(4)]
        result = run_simulation(agent, bars, ModelTrader(lambda asked: next(answers, None), lambda symbol, t: ""))
        (decided,) = agent.ledger.decisions()
        assert decided.decision.verdict is not None and decided.decision.verdict.code == "B4_DUST"
        assert decided.decision.verdict.note == "the order is worth 0.00000100; the least is 0.01, a millionth of the starting equity"
        assert (result.fills, result.trades, result.refused) == (0, 0, 1)
        assert agent.ledger.trades(status="closed") == []
