"""Money as real accounts behave: margin and cash, contracts, snapshots that lag, corrections, lots (rules M1-M15)."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memtape.core.ledger.trades import money_text
from memtape.engine.proof.audit import rebuild_store, verify_store
from memtape.errors import Invalid, Unknown
from memtape.lab.conform import ledger_rows
from tests import desk, money_histories, oracle
from tests.desk_language import replay
from tests.effort import examples

# ---- margin and cash ---------------------------------------------------------------------------------------------------


def test_a_currency_pair_on_margin_is_converted_once_at_the_rate_of_the_exit():
    """USDJPY 150 -> 151 is 100,000 yen, at 151 yen per dollar."""
    traded = replay("""
        08:00 instrument USDJPY base USD
        08:00 buy  100000 USDJPY @ 150 rate 0.006666666666666667
        09:00 sell 100000 USDJPY @ 151 rate 0.006622516556291391
    """)
    assert traded.trades == ["USDJPY long +662.25 closed 09:00"]


def test_an_index_that_did_not_move_earns_nothing_when_the_currency_does():
    traded = replay("""
        08:00 buy  10 DE40 @ 20000 rate 1.10
        09:00 sell 10 DE40 @ 20000 rate 1.12
    """)
    assert traded.trades == ["DE40 long +0.00 closed 09:00"]


def test_a_share_paid_in_full_earns_with_its_currency():
    traded = replay("""
        07:00 instrument SAP accounting cash
        08:00 buy  10 SAP @ 100 rate 1.10
        09:00 sell 10 SAP @ 100 rate 1.12
    """)
    assert traded.trades == ["SAP long +20.00 closed 09:00"]


def test_each_partial_exit_is_converted_at_its_own_rate():
    traded = replay("""
        08:00 buy  4 DE40 @ 20000 rate 1.10
        09:00 sell 2 DE40 @ 20010 rate 1.20
        10:00 sell 2 DE40 @ 20010 rate 1.00
    """)
    assert traded.trades == ["DE40 long +44.00 closed 10:00"]


def test_excursions_and_r_are_in_the_account_currency_too():
    trade = replay("""
        08:00 buy  10 DE40 @ 20000 rate 1.10 stop 19990
        08:00-09:00 bar DE40 20000 20020 19995 20010
        09:00 sell 10 DE40 @ 20010 rate 1.20
    """).trade
    figures = [money_text(trade.initial_risk_usd), money_text(trade.pnl_r), money_text(trade.mfe_usd), money_text(trade.mae_usd)]
    assert figures == ["110", "1.09090909", "220", "-55"]


@pytest.mark.parametrize(("mode", "mfe"), [("hl_strict", "24"), ("close", "12")])
def test_a_rate_that_a_tick_states_also_counts_for_bars_that_came_before_the_tick(mode, mfe):
    agent = desk.given_agent(desk.given_memory(), {"mfe_mode": mode}, mode="paper")
    agent.observe({"id": "f1", "t": "2026-06-04T08:00:00Z", "symbol": "DE40", "side": "buy", "qty": 1, "px": 100}, kind="fill")
    agent.observe({"id": "s1", "t": "2026-06-04T08:00:00Z", "rates": {"DE40": "1.1"}})
    bar = {"symbol": "DE40", "t0": "2026-06-04T09:00:00Z", "t1": "2026-06-04T10:00:00Z", "o": 100, "h": 120, "l": 100, "c": 110}
    agent.observe({"bars": [bar]}, kind="bars")
    agent.observe({"id": "s2", "t": "2026-06-04T09:00:00Z", "rates": {"DE40": "1.2"}})
    assert money_text(agent.ledger.trades()[0].mfe_usd) == mfe
    assert verify_store(desk.Memory.of(agent.resources)).problems == []


def test_terms_that_are_stated_later_revise_what_is_recorded():
    traded = replay("""
        08:00 buy  2 ES @ 5000
        09:00 sell 2 ES @ 5010
    """)
    assert traded.trades == ["ES long +20.00 closed 09:00"]
    [receipt] = traded.observe("10:00 instrument ES multiplier 50")
    assert traded.trades == ["ES long +1000.00 closed 09:00"]
    assert receipt.revised
    assert traded.trades_known_at("09:30") == ["ES long +20.00 closed 09:00"]


def test_a_coin_margined_contract_pays_in_coins():
    """100 contracts of 100 dollars: bought at 50,000 they are worth 0.2 coins, sold at 60,000 they leave 0.0333 coins."""
    traded = replay("""
        08:00 instrument BTCUSD payoff inverse multiplier 100
        08:00 buy  100 BTCUSD @ 50000 rate 50000
        09:00 sell 100 BTCUSD @ 60000 rate 60000
    """)
    assert traded.trades == ["BTCUSD long +2000.00 closed 09:00"]


def test_a_coin_margined_contract_has_no_price_of_zero():
    traded = replay("08:00 instrument BTCUSD payoff inverse multiplier 100")
    with pytest.raises(Invalid, match="is not above 0, and its payoff is inverse") as refused:
        traded.observe("09:00 tick; sell 1 BTCUSD @ 0")
    assert refused.value.field == "fills.0.px"
    assert traded.rows == []


def test_oil_may_cost_less_than_nothing():
    traded = replay("""
        08:00 instrument CL multiplier 1000
        08:00 buy  1 CL @ 10.01
        09:00 sell 1 CL @ -37.63
    """)
    assert traded.trades == ["CL long -47640.00 closed 09:00"]


def test_an_option_that_expires_worthless_loses_its_premium_and_one_that_is_assigned_becomes_shares():
    traded = replay("""
        08:00 instrument SPY-600C multiplier 100
        08:00 instrument SPY-590P multiplier 100
        08:00 sell 1 SPY-600C @ 4 group wheel
        08:00 sell 1 SPY-590P @ 3 group wheel
        15:00 buy  1 SPY-600C @ 0 trigger expiry group wheel
        15:00 buy  1 SPY-590P @ 0 trigger assignment group wheel
        15:00 buy  100 SPY @ 590 trigger assignment group wheel
        16:00 sell 100 SPY @ 585 group wheel
    """)
    assert traded.trades == [
        "SPY-590P short +300.00 closed 15:00", "SPY-600C short +400.00 closed 15:00", "SPY long -500.00 closed 16:00",
    ]  # fmt: skip
    assert {trade.group_id for trade in traded.rows} == {"wheel"}
    assert [trade.exit_trigger for trade in traded.rows] == ["assignment", "expiry", None]


# ---- splits, dividends, fees -------------------------------------------------------------------------------------------


def test_a_split_changes_the_units_and_not_the_money():
    traded = replay("""
        08:00 buy  10 NVDA @ 1000 stop 900
        09:00 split NVDA 10
        10:00 sell 100 NVDA @ 110
    """)
    assert traded.trades == ["NVDA long +1000.00 +1.0R closed 10:00"]
    assert traded.trade.stop_price == 90


def test_a_dividend_after_the_close_belongs_to_who_held_before_its_ex_date():
    traded = replay("""
        08:00 buy  10 SAP @ 100
        09:00 sell 10 SAP @ 99
        10:00 buy  10 SAP @ 99
        12:00 dividend SAP 15 ex 08:30
    """)
    assert traded.trades == ["SAP long +5.00 closed 09:00", "SAP long 10 @ 99 open"]
    assert traded.trades_known_at("11:00") == ["SAP long -10.00 closed 09:00", "SAP long 10 @ 99 open"]


def test_a_fee_in_another_currency_without_a_rate_is_named_and_not_guessed():
    traded = replay("""
        08:00 buy  1 BTC @ 100 fee 0.001 fee_currency BNB
        09:00 sell 1 BTC @ 101 fee 0.001 fee_currency BNB fee_rate 600
    """)
    assert traded.trades == ["BTC long +0.40 closed 09:00"]
    assert traded.trade.fee_unknown
    assert traded.discrepancies == ["08:00 BTC fee of f1 unknown: 0.001 BNB"]


# ---- snapshots invent nothing ------------------------------------------------------------------------------------------


def test_a_position_closed_and_reopened_between_two_looks_is_two_trades():
    traded = replay(
        """
        08:00 tick BTC 0.5 @ 60000 mark 60000; buy 0.5 BTC @ 60000 stop 59000 "first"
        09:00 tick BTC 0.6 @ 59400 mark 59500; bar 08:00-09:00 BTC 60000 60100 58900 59500; decide BTC stop 58800 "second"
    """,
        settle_seconds=0,
    )
    assert traded.trades == ["BTC long -500.00 -1.0R closed 09:00, inferred", "BTC long 0.6 @ 59400 open, inferred"]
    assert (traded.rows[0].exit_trigger, traded.rows[0].exit_reason, traded.rows[1].entry_reason) == ("stop", "stop", "second")


def test_a_computed_price_that_no_bar_saw_gives_way_to_the_mark():
    """The broker's average would make the 0.001 that was added cost 281,554."""
    traded = replay(
        """
        08:00 tick BTC 0.5 @ 65000 mark 65000; buy 0.5 BTC @ 65000
        09:00 tick BTC 0.501 @ 70000 mark 65276
    """,
        settle_seconds=0,
    )
    assert traded.discrepancies == ["09:00 BTC fills 0.5, broker 0.501 @ 65276"]


def test_a_snapshot_one_moment_behind_its_fill_leaves_one_trade_with_its_reason():
    traded = replay("""
        08:00:00 tick flat
        08:30:05 tick flat; buy 1 BTC @ 100 stop 98 "breakout" at 08:30:00
        08:31:00 tick BTC 1 @ 100 mark 100
        09:00:00 sell 1 BTC @ 104
    """)
    assert traded.trades == ["BTC long +4.00 +2.0R closed 09:00"]
    assert traded.rows[0].entry_reason == "breakout"
    assert traded.discrepancies == ["08:30 BTC fills 1, broker 0, snapshot_lag"]


def test_a_fill_one_moment_behind_its_snapshot_leaves_one_trade_with_its_reason():
    traded = replay("""
        08:00:00 tick flat
        08:30:00 tick BTC 1 @ 100 mark 100; decide BTC stop 98 "breakout"
        08:31:00 tick BTC 1 @ 100 mark 100; buy 1 BTC @ 100 at 08:30:12
        09:00:00 sell 1 BTC @ 104
    """)
    assert traded.trades == ["BTC long +4.00 +2.0R closed 09:00"]
    assert traded.rows[0].entry_reason == "breakout"


def test_an_agent_that_only_sends_snapshots_has_no_discrepancies():
    traded = replay("""
        08:00 tick flat
        09:00 tick BTC 1 @ 100 mark 100
        10:00 tick flat; mark BTC 103
    """)
    assert traded.trades == ["BTC long +3.00 closed 10:00, inferred"]
    assert traded.discrepancies == []


def test_a_bar_does_not_change_a_position_that_the_broker_priced_when_it_was_opened():
    traded = replay("""
        08:00 tick BTC 1 @ 100 mark 100
        08:10 tick flat; mark BTC 100
        08:20 tick BTC 2 @ 103 mark 103
        08:10-08:20 bar BTC 100 103 100 103 known 08:30
    """)
    assert traded.trades == ["BTC long +0.00 closed 08:10, inferred, adopted", "BTC long 2 @ 103 open, inferred"]
    assert verify_store(traded.memory).problems == []


def test_a_decision_of_the_first_tick_that_opens_the_position_is_its_reason():
    tick = {"id": "s1", "t": "2026-06-04T08:00:00Z", "positions": {"BTC": {"qty": 1, "entry_px": 100, "mark": 100}}}
    for decision, reason in (
        ({"symbol": "BTC", "reason": "why", "action": "buy"}, "why"),
        ({"symbol": "BTC", "reason": "why", "action": "open", "side": "long"}, "why"),
        ({"symbol": "BTC", "reason": "why", "action": "sell"}, None),
        ({"symbol": "BTC", "reason": "why"}, None),
    ):
        agent = desk.given_agent(desk.given_memory())
        agent.observe({**tick, "decision": decision})
        [trade] = agent.ledger.trades()
        assert (trade.entry_reason, trade.adopted) == (reason, reason is None), decision


# ---- corrections -------------------------------------------------------------------------------------------------------


def test_an_amended_fill_counts_from_its_correction_on():
    traded = replay("""
        08:00 buy  1 BTC @ 100
        09:00 sell 1 BTC @ 110
        10:00 amend f2 px 108 fee 0.5
    """)
    assert traded.trades == ["BTC long +7.50 closed 09:00"]
    assert traded.trades_known_at("09:30") == ["BTC long +10.00 closed 09:00"]
    assert traded.receipts[-1].revised


def test_a_voided_fill_never_was_also_if_it_is_delivered_again():
    traded = replay("""
        08:00 buy  1 BTC @ 100
        08:30 buy  2 BTC @ 103
        09:00 sell 1 BTC @ 106
        10:00 void f2
        11:00 buy  2 BTC @ 103 id f2 at 08:30
    """)
    assert traded.trades == ["BTC long +6.00 closed 09:00"]
    assert traded.trades_known_at("09:30") == ["BTC long 2 @ 102 open"]


def test_a_fill_that_moves_to_another_symbol_leaves_one_position_and_enters_the_other():
    traded = replay("""
        08:00 buy  1 BTC @ 100
        08:30 buy  1 BTC @ 100
        09:00 amend f2 symbol BTC-PERP
    """)
    assert traded.trades == ["BTC long 1 @ 100 open", "BTC-PERP long 1 @ 100 open"]


def test_terms_also_revise_what_was_believed_of_a_leg_that_a_correction_emptied():
    traded = replay("""
        08:00 buy  1 ES @ 5000 leg L
        09:00 sell 1 ES @ 5010 leg L
        10:00 amend f1 leg M
        10:00 amend f2 leg M
        11:00 instrument ES multiplier 50
    """, mode="sim")  # fmt: skip
    assert traded.trades == ["ES M long +500.00 closed 09:00"]
    assert traded.trades_known_at("09:30") == ["ES L long +500.00 closed 09:00"]
    assert verify_store(traded.memory).problems == []


def test_the_same_id_with_other_content_is_reported_and_ignored():
    traded = replay("""
        08:00 tick; buy 1 BTC @ 100
        08:30 tick; buy 1 BTC @ 90 id f1 at 08:00
        09:00 buy 1 BTC @ 91 id f1 at 08:00
    """)
    assert traded.trades == ["BTC long 1 @ 100 open"]
    assert traded.discrepancies == ["08:30 BTC fill f1 came again with another px", "09:00 BTC fill f1 came again with another px"]
    [event] = [event for event in traded.receipts[1].concluded_data() if event["event"] == "discrepancy"]
    assert (event["why"], event["fill_id"], event["fields"]) == ("fill_differs", "f1", ["px"])


def test_two_equal_fills_are_suspected_as_one_when_a_snapshot_contradicts_their_sum():
    traded = replay(
        """
        08:00 tick flat
        09:00 tick BTC 1 @ 100 mark 100; buy 1 BTC @ 100 at 08:30; buy 1 BTC @ 100 at 08:30
    """,
        settle_seconds=0,
    )
    assert "09:00 BTC f1 and f2 may be one fill" in traded.discrepancies


def test_a_correction_of_an_unknown_fill_is_refused_unless_a_tick_brings_it():
    traded = replay("08:00 buy 1 BTC @ 100")
    with pytest.raises(Unknown, match="there is no fill of this agent 'f9'"):
        traded.observe("09:00 amend f9 px 1")
    traded.observe("""
        10:00 tick; amend f2 px 102
        11:00 sell 1 BTC @ 101 id f2
    """)
    assert traded.trades == ["BTC long +2.00 closed 11:00"]


def test_a_correction_is_checked_when_it_comes_not_when_its_fill_does():
    traded = replay("08:00 buy 1 BTC @ 100")
    correction = {"kind": "amend_fill", "fill_id": "f9", "t": "2026-06-04T09:00:00Z", "content": {"px": "abc", "qty": "-4"}}
    tick = {"id": "s1", "t": "2026-06-04T09:00:00Z", "corrections": [correction]}
    with pytest.raises(Invalid) as refused:
        traded.agent.observe(tick)
    assert {each.field for each in refused.value.errors} == {"corrections.0.content.px", "corrections.0.content.qty"}
    with pytest.raises(Invalid, match=r"content.t: .* is more than 5 minutes ahead of the clock"):
        traded.observe("09:00 amend f1 t 23:00")


def test_a_correction_gives_a_coin_margined_contract_no_price_of_zero():
    traded = replay("""
        08:00 instrument BTCUSD payoff inverse multiplier 100
        08:00 buy 1 BTCUSD @ 50000
    """)
    with pytest.raises(Invalid, match="is not above 0, and its payoff is inverse") as refused:
        traded.observe("09:00 amend f1 px 0")
    assert refused.value.field == "content.px"
    assert traded.trades == ["BTCUSD long 1 @ 50000 open"]


def test_a_correction_is_not_known_before_the_fill_that_it_corrects():
    traded = replay(
        """
        08:10 buy 1 BTC @ 100
        08:00 amend f1 qty 2
    """,
        mode="sim",
    )
    assert traded.trades == ["BTC long 2 @ 100 open"]
    assert traded.trades_known_at("08:05") == []
    assert verify_store(traded.memory).problems == []


def test_a_trade_whose_entry_was_moved_keeps_its_episodes_when_something_earlier_changes():
    traded = replay(
        """
        08:00 sell 1 BTC @ 100
        08:00 sell 2 BTC @ 100
        08:20 buy  1 BTC @ 90
        08:30 amend f1 t 07:50
        08:00 void f2
    """,
        mode="sim",
        trade_unit="fifo_lots",
    )
    assert traded.trades == ["BTC short +10.00 closed 08:20"]
    assert verify_store(traded.memory).problems == []


def test_a_stop_on_the_wrong_side_is_not_taken_and_named():
    traded = replay("""
        08:00 buy 1 BTC @ 100 stop 105 "long"
        09:00 sell 1 BTC @ 102
    """)
    assert traded.trades == ["BTC long +2.00 closed 09:00"]
    assert traded.discrepancies == ["08:00 BTC stop 105 on the wrong side of 100"]


def test_a_trade_that_ended_at_its_stop_says_so_whatever_the_tick_decided():
    trade = replay("""
        08:00 buy  1 BTC @ 100 stop 97 "in"
        09:00 tick; sell 1 BTC @ 97 trigger stop; decide BTC "something else"
    """).trade
    assert (trade.exit_reason, trade.exit_trigger, trade.close_cause, trade.exit_decision) == ("stop", "stop", "external", None)


def test_a_snapshot_that_showed_the_uncorrected_account_stays_unjudged_when_later_terms_are_stated():
    """The position was flat at 08:20, after the fill that was voided and before the snapshot that still contains its effect."""
    traded = replay("""
        08:00 buy  1 BTC @ 100       known 12:00
        08:20 sell 1 BTC @ 101       known 12:00
        08:20 buy  3 BTC @ 102 id f9 known 12:00
        08:40 void f9                known 12:01
        08:25 buy  2 BTC @ 103       known 12:01
        08:30 flat                   known 12:01
    """, settle_seconds=0)  # fmt: skip
    assert traded.trades == ["BTC long +1.00 closed 08:20", "BTC long 2 @ 103 open"]
    traded.observe("08:50 instrument BTC from 08:50 known 12:02")
    assert traded.trades == ["BTC long +1.00 closed 08:20", "BTC long 2 @ 103 open"]
    assert verify_store(traded.memory).problems == []


def test_late_ticks_from_before_a_position_unsettle_nothing():
    memory = desk.given_memory()
    agent = desk.given_agent(memory, mode="paper")
    for id_, side, hour in (("f1", "buy", 10), ("f2", "sell", 11)):
        fill = {"id": id_, "t": f"2026-06-04T{hour}:00:00Z", "symbol": "DE40", "side": side, "qty": 1, "px": 100}
        agent.observe(fill, kind="fill", backfill=True)
    agent.observe({"id": "s1", "t": "2026-06-04T08:00:00Z", "rates": {"DE40": "1.1"}})
    memory.clock.at = desk.NOON + timedelta(minutes=1)
    agent.observe({"id": "s2", "t": "2026-06-04T09:00:00Z", "positions": {}})
    assert verify_store(memory).problems == []


# ---- lots --------------------------------------------------------------------------------------------------------------


def test_an_account_that_is_never_flat_learns_from_its_reductions():
    traded = replay(
        """
        08:00 buy  2 ETH @ 100
        09:00 buy  2 ETH @ 110
        10:00 sell 3 ETH @ 120 fee 3
    """,
        trade_unit="fifo_lots",
    )
    assert traded.trades == ["ETH long +38.00 closed 10:00", "ETH long +9.00 closed 10:00", "ETH long 1 @ 110 open"]
    with traded.agent.view() as view:
        assert sorted(episode.pnl_usd for episode in view.episodes()) == [9.0, 38.0]
    assert verify_store(traded.memory).problems == []


# ---- excursions of trades that come whole ------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "mfe", "mae"), [("hl_strict", "20", "-10"), ("close", "12", "-5")])
def test_bars_show_how_far_a_reported_trade_ran(mode, mfe, mae):
    agent = desk.given_agent(desk.given_memory(), {"mfe_mode": mode})
    trade = {"trade_id": "t1", "symbol": "BTC", "side": "long", "entry_at": "2026-06-04T08:00:00Z",
             "exit_at": "2026-06-04T10:00:00Z", "entry_price": 100, "exit_price": 106, "qty": 2}  # fmt: skip
    bars = [
        {"symbol": "BTC", "t0": "2026-06-04T08:00:00Z", "t1": "2026-06-04T09:00:00Z", "o": 100, "h": 110, "l": 95, "c": "97.5"},
        {"symbol": "BTC", "t0": "2026-06-04T09:00:00Z", "t1": "2026-06-04T10:00:00Z", "o": "97.5", "h": 107, "l": 97, "c": 106},
    ]
    agent.observe(trade, kind="trade")
    assert agent.ledger.trades()[0].mfe_usd is None
    agent.observe({"bars": bars}, kind="bars", backfill=True)
    [row] = agent.ledger.trades()
    assert (money_text(row.mfe_usd), money_text(row.mae_usd), row.excursion_method) == (mfe, mae, mode)


# ---- whatever happens --------------------------------------------------------------------------------------------------


def in_engine(case: dict[str, Any]) -> Any:
    """An agent that was sent a case, and what was refused."""
    agent = desk.given_agent(desk.given_memory(), case["config"])
    refused = []
    for tick in case["ticks"]:
        try:
            agent.observe(desk.plain_tick(tick))
        except Invalid:
            refused.append({"snapshot_id": tick["snapshot_id"], "field": "fills.px"})
    return agent, refused


def softened(expected: dict[str, Any], got: dict[str, Any]) -> dict[str, Any]:
    """A ledger with amounts taken from the expected one where the last digit differs: divisions round, fractions do not."""
    for name in ("rows", "discrepancies"):
        for want, have in zip(expected[name], got[name], strict=False):
            have |= {key: value for key, value in want.items() if is_near(value, have.get(key))}
    for name, sums in expected["totals"].items():
        got["totals"][name] |= {key: value for key, value in sums.items() if is_near(value, got["totals"][name][key])}
    return got


def is_near(one: Any, other: Any) -> bool:
    """Whether two amounts differ in their last digit at most."""
    try:
        return abs(Decimal(one) - Decimal(other)) <= Decimal("2e-8")
    except (ArithmeticError, TypeError, ValueError):
        return False


@settings(max_examples=examples(60, 2_000))
@given(money_histories.money_cases())
def test_the_ledger_equals_the_second_opinion_on_money(case):
    agent, refused = in_engine(case)
    expected = oracle.ledger(case["ticks"], case["config"])
    got = softened(expected, ledger_rows(agent) | {"refused": refused})
    assert desk.ledger_differences(expected, got) == []


@settings(max_examples=examples(25, 1_000))
@given(money_histories.money_cases())
def test_a_rebuild_of_any_account_gives_every_row_again(case):
    agent, _ = in_engine(case)
    memory = desk.Memory.of(agent.resources)
    found = verify_store(memory)
    assert found.problems == []
    rebuild_store(memory)
    assert verify_store(memory).digests == found.digests


@settings(max_examples=examples(15, 1_000))
@given(st.data(), money_histories.money_cases())
def test_the_order_of_deliveries_changes_no_money(data, case):
    ledgers = []
    for _ in range(2):
        memory = desk.given_memory()
        agent = desk.given_agent(memory, case["config"])
        for kind, value in money_histories.shuffled_deliveries(data.draw, case):
            agent.observe(value, kind=kind)
        assert verify_store(memory).problems == []
        ledgers.append(desk.projections(memory))
    assert ledgers[0] == ledgers[1]


@settings(max_examples=examples(40, 1_000))
@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(50, 200), st.integers(90, 110)), min_size=2, max_size=8), st.booleans())
def test_no_computed_price_lies_outside_what_was_seen(snapshots, with_bars):
    """Whatever positions do between ticks: an inferred price is the broker's own entry price, or lies in the widened range."""
    agent = desk.given_agent(desk.given_memory())
    # A fill, so that discrepancies are listed.
    agent.observe({"id": "f0", "t": "2026-06-04T07:00:00Z", "symbol": "ETH", "side": "buy", "qty": 1, "px": 1}, kind="fill")
    stated: dict[str, tuple[Decimal, Decimal]] = {}
    for n, (qty, entry, mark) in enumerate(snapshots):
        t = f"2026-06-04T{8 + n:02}:00:00Z"
        position = {"BTC": {"qty": qty, "entry_px": entry, "mark": mark}} if qty else {}
        bar = {"symbol": "BTC", "t0": f"2026-06-04T{7 + n:02}:00:00Z", "t1": t, "o": mark, "h": mark + 5, "l": mark - 5, "c": mark}
        agent.observe({"id": f"s{n}", "t": t, "positions": position | {"ETH": {"qty": 1}}, "marks": {"BTC": mark},
                       "bars": [bar] if with_bars else []})  # fmt: skip
        stated[t] = Decimal(entry), Decimal(mark)
    marks = [Decimal(mark) for _, _, mark in snapshots]
    low, high = min(marks) - 5, max(marks) + 5
    for found in agent.ledger.discrepancies():
        if found.symbol == "BTC" and found.price is not None:
            entry, _ = stated[found.at.strftime("%Y-%m-%dT%H:%M:%SZ")]
            assert found.price == entry or low * Decimal("0.98") <= found.price <= high * Decimal("1.02"), found
