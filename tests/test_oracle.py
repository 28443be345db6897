"""The oracle is itself held to the golden cases, and to the one law that no bookkeeping can escape: cash balances."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import histories, oracle
from tests.effort import examples

GOLDEN = json.loads((Path(__file__).parent / "golden" / "ledger_golden.json").read_text(encoding="utf-8"))
HL_STRICT = {"mfe_mode": "hl_strict", "dust_qty": "0"}
CLOSE = {"mfe_mode": "close", "dust_qty": "0"}
DUSTY = {"mfe_mode": "hl_strict", "dust_qty": "0.001"}

# How to draw a history, and the settings to read it with.
KINDS = {
    "net": (histories.histories(), HL_STRICT),
    "closes only": (histories.histories(), CLOSE),
    "hedged": (histories.histories(hedge=True, max_symbols=2), HL_STRICT),
    "with rates": (histories.histories(rates=True), HL_STRICT),
    "dusty": (histories.histories(crumbs=True), DUSTY),
}
modest = settings(max_examples=examples(25, 400), deadline=None, derandomize=True)


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: str(case["name"]))
def test_a_golden_history_gives_its_golden_rows(case: dict[str, Any]) -> None:
    assert oracle.rows(case["inputs"]["ticks"], case["inputs"]["config"]) == case["expected"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_cash_book_balances_with_the_rows(kind: str) -> None:
    drawn, config = KINDS[kind]

    @modest
    @given(drawn)
    def balances(ticks: list[dict[str, Any]]) -> None:
        answer = oracle.rows(ticks, config)
        cash, earned = oracle.cash(ticks, config), oracle.earned(ticks, config)
        if cash is None or earned is None:
            assert cash is earned is None
            assert any(row["quality"] == "unpriced" for row in answer["rows"])
            return
        assert cash + oracle.held_at_cost(ticks, config) == earned
        # what was told, rounded as it is, says the same
        told = sum((Fraction(row["net_pnl_usd"]) for row in answer["rows"]), Fraction(0))
        told += sum((Fraction(usd) for usd in answer["orphan_funding_usd"].values()), Fraction(0))
        assert abs(told - earned) <= Fraction(len(answer["rows"]) + len(answer["orphan_funding_usd"]), 10**8)

    balances()


@modest
@given(histories.histories(rates=True, crumbs=True))
def test_rows_are_whole_whatever_happens(ticks: list[dict[str, Any]]) -> None:
    rows = oracle.rows(ticks, DUSTY)["rows"]
    open_positions = [(row["symbol"], row.get("leg")) for row in rows if row["status"] == "open"]
    assert len(open_positions) == len(set(open_positions))
    assert [(row["entry_at"], row["symbol"]) for row in rows] == sorted((r["entry_at"], r["symbol"]) for r in rows)
    for row in rows:
        assert Fraction(row["mae_usd"]) <= 0 <= Fraction(row["mfe_usd"])
        closed = row["status"] == "closed"
        assert (row["exit_at"] is not None) == (row["close_cause"] is not None) == closed
        left = Fraction(row["qty_entered"]) - Fraction(row["qty_exited"]) - Fraction(row["qty_open"])
        assert abs(left) <= Fraction(DUSTY["dust_qty"])
        if closed and row["realized_pnl_usd"] is not None:
            assert Fraction(row["mae_usd"]) <= Fraction(row["realized_pnl_usd"]) <= Fraction(row["mfe_usd"])


@modest
@given(st.data())
def test_rows_do_not_depend_on_the_order_of_delivery(data: st.DataObject) -> None:
    ticks = data.draw(histories.histories())
    deliveries = histories.shuffled_deliveries(data.draw, ticks)
    assert oracle.rows(carried(deliveries), HL_STRICT) == oracle.rows(ticks, HL_STRICT)


def carried(deliveries: list[histories.Delivery]) -> list[dict[str, Any]]:
    """Single deliveries as ticks again: each item comes with the next tick, the last ones with the last."""
    ticks: list[dict[str, Any]] = []
    on_the_way: dict[str, list[Any]] = {"fills": [], "funding": [], "bars": []}
    for kind, item in deliveries:
        if kind == "tick":
            ticks.append(item | on_the_way)
            on_the_way = {"fills": [], "funding": [], "bars": []}
        elif kind == "bars":
            on_the_way["bars"] += item["bars"]
        else:
            on_the_way["fills" if kind == "fill" else "funding"].append(item)
    last = ticks[-1]
    return [*ticks[:-1], last | {name: last[name] + items for name, items in on_the_way.items()}]
