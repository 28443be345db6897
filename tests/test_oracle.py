"""The oracle is itself held to the one law that no bookkeeping can escape, cash balances, and to plain laws of its own.

`tests/core/ledger/test_oracle.py` holds it to the golden cases.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import histories, money_histories, oracle
from tests.effort import examples

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


# The money rules

few = settings(max_examples=examples(15, 400), deadline=None, derandomize=True)
UNITS = ("flat_to_flat", "fifo_lots")


def added(ledger: dict[str, Any], name: str) -> Fraction:
    return sum((Fraction(row[name]) for row in ledger["rows"] if row["quality"] != "unpriced"), Fraction(0))


def is_priced(ledger: dict[str, Any]) -> bool:
    return all(row["quality"] != "unpriced" for row in ledger["rows"])


@few
@given(money_histories.money_cases())
def test_money_histories_balance_and_add_up(case: dict[str, Any]) -> None:
    ticks, config = case["ticks"], case["config"]
    ledger = oracle.ledger(ticks, config)
    cash, earned = oracle.cash(ticks, config), oracle.earned(ticks, config)
    assert (cash is None) == (earned is None) == (not is_priced(ledger))
    if cash is not None and earned is not None:
        assert cash + oracle.held_at_cost(ticks, config) == earned
    # Rows and totals are rounded each for itself.
    rounding = Fraction(len(ledger["rows"]) + 1, 2 * 10**8)
    for name in ("realized_pnl_usd", "fees_usd", "funding_usd", "net_pnl_usd"):
        closed, still_open, every = (Fraction(ledger["totals"][which][name]) for which in ("closed", "open", "all"))
        assert abs(added(ledger, name) - every) <= rounding
        assert abs(closed + still_open - every) <= Fraction(3, 2 * 10**8)


@few
@given(money_histories.money_cases())
def test_both_trade_units_share_out_the_same_quantities_fees_and_funding(case: dict[str, Any]) -> None:
    flat, fifo = (oracle.ledger(case["ticks"], case["config"] | {"trade_unit": unit}) for unit in UNITS)
    assert flat["discrepancies"] == fifo["discrepancies"]
    assert flat["orphan_funding_usd"] == fifo["orphan_funding_usd"]
    if is_priced(flat):
        assert [flat["totals"]["all"][name] for name in ("fees_usd", "funding_usd")] == [
            fifo["totals"]["all"][name] for name in ("fees_usd", "funding_usd")
        ]
        assert added(flat, "qty_open") == added(fifo, "qty_open")


@few
@given(histories.histories())
def test_when_everything_is_closed_both_trade_units_realise_the_same(ticks: list[dict[str, Any]]) -> None:
    last = max(tick["t"] for tick in ticks)
    marks = dict.fromkeys(histories.MARKET, "100")
    fills_end = max([last, *(fill["t"] for tick in ticks for fill in tick["fills"])])
    end = {"t": fills_end.replace("Z", ".5Z"), "snapshot_id": "end", "positions": {}, "marks": marks}
    flat, fifo = (oracle.ledger([*ticks, end], HL_STRICT | {"trade_unit": unit}) for unit in UNITS)
    assert flat["totals"]["open"]["n"] == fifo["totals"]["open"]["n"] == 0
    if is_priced(flat):
        assert flat["totals"]["closed"]["realized_pnl_usd"] == fifo["totals"]["closed"]["realized_pnl_usd"]


small = st.integers(1, 9)
trades = st.lists(st.tuples(small, small, small), min_size=1, max_size=4)  # quantity, price, rate


@few
@given(trades, trades, small, st.sampled_from(UNITS), st.sampled_from(["buy", "sell"]))
def test_on_margin_the_rates_of_entries_never_touch_the_pnl(
    entries: list[tuple[int, int, int]], exits: list[tuple[int, int, int]], other: int, unit: str, side: str
) -> None:
    """Entries first, then exits, the last of which closes what is left."""
    ledgers = []
    for factor in (1, other):
        fills = [(qty, px, rate * factor, side) for qty, px, rate in entries]
        left = sum(qty for qty, _, _ in entries)
        for place, (qty, px, rate) in enumerate(exits):
            size = left if place == len(exits) - 1 else min(qty, left)
            left -= size
            if size:
                fills.append((size, px, rate, "sell" if side == "buy" else "buy"))
        told = [
            {"id": f"f{place}", "t": f"2026-06-04T08:0{place}:00Z", "symbol": "GER40", "side": way}
            | {"qty": str(qty), "px": str(px), "rate": str(rate)}
            for place, (qty, px, rate, way) in enumerate(fills)
        ]
        ledgers.append(oracle.ledger([{"id": "s1", "t": "2026-06-04T09:00:00Z", "fills": told}], {"trade_unit": unit}))
    assert ledgers[0]["totals"] == ledgers[1]["totals"]
    assert ledgers[0]["totals"]["open"]["n"] == 0


@few
@given(money_histories.money_cases())
def test_sending_every_tick_twice_changes_nothing(case: dict[str, Any]) -> None:
    once = oracle.ledger(case["ticks"], case["config"])
    twice = oracle.ledger([tick for tick in case["ticks"] for _ in range(2)], case["config"])
    assert twice | {"refused": once["refused"]} == once


@few
@given(money_histories.money_cases())
def test_a_refused_tick_leaves_nothing_behind(case: dict[str, Any]) -> None:
    ledger = oracle.ledger(case["ticks"], case["config"])
    bad = {fill["id"] for tick in case["ticks"] for fill in tick["fills"] if fill["id"].startswith("bad")}
    good = [tick for tick in case["ticks"] if not bad & {fill["id"] for fill in tick["fills"]}]
    assert oracle.ledger(good, case["config"]) | {"refused": ledger["refused"]} == ledger
