"""Hyperliquid: what its answers mean, how it is read over HTTP, and how an account is followed into a memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise, permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtape.brokers import hyperliquid as hl
from memtape.brokers.live import Hyperliquid, JsonEndpoint, ReadRange
from memtape.core.fills import Fill
from memtape.core.observed import Bar, Decision, HeldPosition, Tick
from memtape.engine import AgentMemory, Memory
from memtape.errors import Conflict, Invalid, Unreachable
from memtape.plugs.clock import FixedClock
from memtape.workers.live_account import FollowStep, follow_account, follow_until
from tests import desk
from tests.brokers.hyperliquid_server import ADDRESS, STRANGER, Account, Nights, Server, Venue, fill_json

D = Decimal
NOON = datetime(2026, 6, 4, 12, tzinfo=UTC)
HALF_PAST = 1780576200000  # 12:30, in the venue's spelling
CLOSING = {
    "coin": "ETH", "px": "3438.2", "sz": "1.5", "side": "A", "time": HALF_PAST, "startPosition": "2.5", "dir": "Close Long",
    "closedPnl": "42.3", "hash": "0x6b1f00000000000000000000000000000000000000000000000000000000c0de", "oid": 91500213411,
    "crossed": True, "fee": "2.320785", "tid": 418820013377001, "feeToken": "USDC", "twapId": None,
}  # fmt: skip
STATE = {
    "marginSummary": {"accountValue": "5120.5", "totalNtlPos": "3438.2", "totalRawUsd": "1682.3", "totalMarginUsed": "687.64"},
    "crossMarginSummary": {"accountValue": "5120.5", "totalNtlPos": "3438.2", "totalRawUsd": "1682.3", "totalMarginUsed": "687.64"},
    "crossMaintenanceMarginUsed": "34.38", "withdrawable": "4432.86", "time": 1780576260000,
    "assetPositions": [{"type": "oneWay", "position": {
        "coin": "ETH", "szi": "1.0", "entryPx": "3410.0", "positionValue": "3438.2", "unrealizedPnl": "28.2",
        "returnOnEquity": "0.0413489736", "liquidationPx": None, "marginUsed": "687.64", "maxLeverage": 25,
        "leverage": {"type": "cross", "value": 5}, "cumFunding": {"allTime": "12.1", "sinceOpen": "0.31", "sinceChange": "0.11"},
    }}],
}  # fmt: skip


def row(start: str, side: str, sz: str, oid: int = 1, **more: Any) -> dict[str, Any]:
    """A fill of ETH at half past twelve, in the venue's words."""
    return (
        CLOSING
        | {"startPosition": start, "side": side, "sz": sz, "oid": oid, "tid": oid * 10, "px": "3420.0", "fee": "0.0"}
        | more
    )


def bought_before(qty: str, px: str, fee: str = "0.0") -> dict[str, Any]:
    return row("0.0", "B", qty, 7, px=px, fee=fee, time=HALF_PAST - 3_600_000, dir="Open Long")


def ledger(*rows: dict[str, Any]) -> AgentMemory:
    """An agent that was told of these fills."""
    agent = desk.given_agent(desk.given_memory())
    for fill in hl.fills_from_answer(list(rows), ADDRESS):
        agent.observe(fill)
    return agent


# ---- what its answers mean -----------------------------------------------------------------------------------------------


def test_the_closing_fill_of_the_format_notes_leaves_39_979215_net_and_one_eth():
    (trade,) = ledger(CLOSING, bought_before("2.5", "3410.0")).ledger.trades()
    assert (trade.status, trade.qty_open, trade.qty_exited) == ("open", D("1.0"), D("1.5"))
    assert (trade.realized_pnl_usd, trade.fees_usd, trade.net_pnl_usd) == (D("42.3"), D("2.320785"), D("39.979215"))


def test_the_flip_of_the_format_notes_splits_its_fee_by_size():
    flip = row("1.0", "A", "3.0", dir="Long > Short", closedPnl="10.0", fee="4.617")
    short, long = ledger(bought_before("1.0", "3410.0"), flip).ledger.trades()
    assert (long.close_cause, long.realized_pnl_usd, long.fees_usd) == ("flip", D("10.0"), D("1.539"))
    assert (short.side, short.qty_open, short.fees_usd) == ("short", D("2.0"), D("3.078"))


def test_the_state_of_the_format_notes_is_one_eth_at_five_times_marked_at_3438_2():
    account = hl.account_from_answer(STATE)
    assert account.positions == {"ETH": (HeldPosition(qty=D("1.0"), entry_px=D("3410.0"), leverage=D(5), mark=D("3438.2")),)}
    assert (account.equity, account.marks, account.t) == (D("5120.5"), {"ETH": D("3438.2")}, NOON + timedelta(minutes=31))


def test_a_fill_is_named_by_coin_trade_order_time_and_size_and_counts_once():
    (fill,) = hl.fills_from_answer([CLOSING, CLOSING | {"sz": "1.50"}], ADDRESS)
    assert fill.id == f"ETH-418820013377001-91500213411-{HALF_PAST}-1.5"
    assert (fill.order_id, fill.t) == ("91500213411", NOON + timedelta(minutes=30))
    system = [row("3.0", "A", sz, 0, tid=0) for sz in ("1.0", "2.0")]
    assert len(hl.fills_from_answer(system, ADDRESS)) == 2  # the venue's own fills have no trade id


def test_the_builders_part_is_in_the_fee_and_not_paid_twice_and_a_rebate_is_negative():
    with_builder, rebate = hl.fills_from_answer(
        [CLOSING | {"builderFee": "0.5"}, row("0.0", "B", "1", fee="-0.12", time=1)], ADDRESS
    )[::-1]
    assert (with_builder.fee, rebate.fee) == (D("2.320785"), D("-0.12"))


def test_a_spot_buy_that_pays_in_the_coin_brings_less_of_it_at_the_price_paid():
    spot = row("0.0", "B", "10", coin="@107", px="25.0", fee="0.007", feeToken="HYPE", dir="Buy")
    (fill,) = hl.fills_from_answer([spot], ADDRESS)
    assert (fill.symbol, fill.qty, fill.fee) == ("SPOT@107", D("9.993"), D("0.175"))
    assert fill.qty * fill.px + fill.fee == D(250)  # what left the account
    assert hl.fills_from_answer([spot | {"coin": "PURR/USDC"}], ADDRESS)[0].symbol == "PURR/USDC"


def test_a_fee_in_a_token_without_a_price_is_left_in_that_token_and_reading_goes_on():
    odd = row("0.0", "B", "1", fee="0.3", feeToken="USDH")
    (fill,) = hl.fills_from_answer([odd], ADDRESS)
    assert (fill.fee, fill.fee_currency, fill.fee_rate) == (D("0.3"), "USDH", None)
    assert hl.fills_from_answer([odd], ADDRESS, rates={"USDH": D("0.99")})[0].fee == D("0.297")


def test_only_the_one_who_was_liquidated_was_liquidated():
    def liquidated(user: str) -> bool:
        told = CLOSING | {"liquidation": {"liquidatedUser": user, "markPx": "3430.0", "method": "market"}}
        return hl.fills_from_answer([told], ADDRESS)[0].liq

    assert liquidated(ADDRESS.upper().replace("0X", "0x"))
    assert not liquidated(STRANGER)


def test_a_word_for_the_direction_that_nobody_has_heard_of_is_no_reason_to_lose_the_fill():
    (fill,) = hl.fills_from_answer([CLOSING | {"dir": "Sideways Conversion"}], ADDRESS)
    assert (fill.side, fill.trigger) == ("sell", None)
    assert hl.fills_from_answer([CLOSING | {"dir": "Auto-Deleveraging"}], ADDRESS)[0].trigger == "auto_deleveraging"


def test_an_answer_that_is_not_what_it_should_be_is_refused_by_its_field():
    with pytest.raises(Invalid, match=r"userFills\.1\.px"):
        hl.fills_from_answer([CLOSING, CLOSING | {"px": "a lot"}], ADDRESS)
    with pytest.raises(Invalid, match=r"clearinghouseState\.marginSummary"):
        hl.account_from_answer({"time": 1, "assetPositions": []})


def test_fills_of_one_block_follow_what_each_found_held_whatever_order_they_come_in():
    swept = [row("0.0", "B", "1.0", 3), row("1.0", "B", "0.5", 1), row("1.5", "B", "2.0", 2)]
    for told in permutations(swept):
        assert [str(f.qty) for f in hl.fills_from_answer(list(told), ADDRESS)] == ["1.0", "0.5", "2.0"]
        assert [f.seq for f in hl.fills_from_answer(list(told), ADDRESS)] == [0, 1, 2]


def test_a_dead_end_is_taken_last():
    # From flat: in and out with 1, then in with 2. Taking the 2 first would strand the others.
    block = [row("0.0", "B", "2.0", 1), row("0.0", "B", "1.0", 2), row("1.0", "A", "1.0", 3)]
    assert [str(f.qty) for f in hl.fills_from_answer(block, ADDRESS)] == ["1.0", "1.0", "2.0"]


def test_out_and_in_again_in_one_block_is_told_by_what_was_held_around_it():
    out, back = row("1.0", "A", "1.0", 9), row("0.0", "B", "1.0", 8)
    held = bought_before("1.0", "3400.0")
    assert [f.side for f in hl.fills_from_answer([held, back, out], ADDRESS)] == ["buy", "sell", "buy"]
    was_flat = [row("0.0", "B", "1.0", 9), row("1.0", "A", "1.0", 8)]
    earlier = [held, row("1.0", "A", "1.0", 6, time=HALF_PAST - 60_000)]
    assert [f.side for f in hl.fills_from_answer([*earlier, *was_flat], ADDRESS)][2:] == ["buy", "sell"]
    rows = [hl.fill_rows([one])[0] for one in (out, back)]
    assert [r.side for r in hl.order_fills(rows, {"ETH": D(1)})] == ["A", "B"]
    assert [r.side for r in hl.order_fills(rows)] == ["B", "A"]  # nothing around it is known: the older order goes first


@given(st.lists(st.integers(-6, 6).filter(bool), min_size=1, max_size=9), st.randoms(use_true_random=False))
def test_any_walk_from_flat_is_put_together_so_that_each_fill_begins_where_the_last_one_ended(steps, chance):
    held, rows = 0, []
    for n, step in enumerate(steps):
        rows.append(row(str(held), "B" if step > 0 else "A", str(abs(step)), n + 1))
        held += step
    chance.shuffle(rows)
    ordered = hl.order_fills(hl.fill_rows(rows), {"ETH": D(held)})
    assert len(ordered) == len(steps)
    assert all(one.after == other.startPosition for one, other in pairwise(ordered))
    assert held == 0 or (ordered[0].startPosition, ordered[-1].after) == (0, held)


def test_stops_and_targets_are_told_by_their_orders():
    def order(oid: int, kind: str, **more: Any) -> dict[str, Any]:
        about = {"oid": oid, "orderType": kind, "isTrigger": kind not in ("Limit", "Market"), "reduceOnly": True} | more
        return {"order": about, "status": "filled", "statusTimestamp": HALF_PAST}

    told = [order(1, "Stop Market"), order(2, "Take Profit Market"), order(3, "Limit"), order(4, "Limit", tif="Ioc"),
            order(5, "Stop Limit", reduceOnly=False), order(6, "Take Profit Limit"), order(7, "Market"),
            order(8, "Stop Market", reduceOnly=False, isPositionTpsl=True)]  # fmt: skip
    assert hl.triggers_from_answer(told) == {
        1: "stop", 2: "target", 3: "limit", 4: "market", 5: "stop_entry", 6: "target", 7: "market", 8: "stop",
    }  # fmt: skip
    (fill,) = hl.fills_from_answer([CLOSING], ADDRESS, triggers={91500213411: "stop"})
    assert fill.trigger == "stop"


def test_a_candle_ends_where_the_next_begins_and_counts_only_once_it_is_over():
    candle = {"t": HALF_PAST, "T": HALF_PAST + 59_999, "s": "ETH", "i": "1m", "o": "1.1", "c": "1.2", "h": "1.3", "l": "1.0",
              "v": "5.5", "n": 3}  # fmt: skip
    opened = NOON + timedelta(minutes=30)
    expected = Bar(
        symbol="ETH", t0=opened, t1=opened + timedelta(minutes=1), o=D("1.1"), h=D("1.3"), l=D("1.0"), c=D("1.2"), v=D("5.5")
    )
    assert hl.bars_from_candles([candle, candle]) == [expected]
    assert hl.bars_from_candles([candle], until=opened + timedelta(seconds=59)) == []
    with pytest.raises(Invalid, match=r"interval: '1M' is not a candle interval"):
        hl.bars_from_candles([candle | {"i": "1M"}])


# ---- reading it over HTTP ------------------------------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        server.venue.state = dict(STATE)
        yield server


def source(server: Server, **more: Any) -> Hyperliquid:
    """A reader that does not wait between attempts."""
    about: dict[str, Any] = {"intervals": (), "sleep": lambda seconds: None} | more
    return Hyperliquid(ADDRESS, server.url, **about)


BEGAN = ReadRange(NOON - timedelta(days=1), NOON)


def test_a_poll_gives_one_tick_as_of_the_venues_own_clock(server):
    later = CLOSING | {"time": 1780576260001, "tid": 2}  # a millisecond after the state: it belongs to the next tick
    server.venue.fills = [CLOSING, later]
    server.venue.funding = [{"time": HALF_PAST, "hash": "0x0", "delta": {"type": "funding", "coin": "ETH", "usdc": "-0.11"}}]
    server.venue.orders = {91500213411: {"order": {"oid": 91500213411, "orderType": "Take Profit Market", "reduceOnly": True}}}
    tick = source(server).poll(BEGAN)
    assert (tick.id, tick.t, tick.equity) == ("hyperliquid-1780576260000", NOON + timedelta(minutes=31), D("5120.5"))
    assert [(fill.px, fill.trigger) for fill in tick.fills] == [(D("3438.2"), "target")]
    assert [(paid.usd, paid.symbol) for paid in tick.funding] == [(D("-0.11"), "ETH")]


def test_the_first_look_takes_what_is_held_and_leaves_older_fills_to_an_import(server):
    server.venue.fills = [CLOSING]
    tick = source(server).poll(None)
    assert (tick.fills, set(tick.positions)) == ((), {"ETH"})


def test_pages_are_turned_until_every_fill_is_read_even_where_one_page_ends_within_a_block(server):
    held, rows = D(0), []
    for n in range(1, 4301):
        fill = Fill(
            id=str(n), t=NOON + timedelta(milliseconds=n // 3), symbol="ETH", side="buy", qty=D("0.5"), px=D(100), order_id="5"
        )
        rows.append(fill_json(fill, held, n))
        held += fill.qty
    server.venue.fills, server.venue.shuffled = rows, 3
    tick = source(server).poll(BEGAN)
    assert len(tick.fills) == 4300
    # One question more, from the beginning of time, asks for the oldest fill.
    assert sum(question["type"] == "userFillsByTime" and question["startTime"] > 0 for question in server.venue.asked) == 3
    assert [fill.id.split("-")[1] for fill in tick.fills] == [str(n) for n in range(1, 4301)]


def test_later_polls_read_back_over_the_overlap_and_everything_again_after_a_day(server):
    reader = source(server)
    starts = []
    for hours in (0, 1, 26):
        server.venue.state = STATE | {"time": STATE["time"] + hours * 3_600_000}
        reader.poll(ReadRange(BEGAN.began, NOON + timedelta(hours=hours)))
        reader.confirm()
        starts.append(next(q["startTime"] for q in reversed(server.venue.asked) if q["type"] == "userFillsByTime"))
    began, noon = hl.millis_of(BEGAN.began) + 1, hl.millis_of(NOON) + 1
    assert starts == [began, noon, began]


def test_spot_and_other_exchanges_are_left_out_and_counted_for_the_state_does_not_show_them(server):
    server.venue.fills = [CLOSING, CLOSING | {"coin": "@107", "tid": 5}, CLOSING | {"coin": "dex:GOLD", "tid": 6}]
    reader = source(server)
    assert [fill.symbol for fill in reader.poll(BEGAN).fills] == ["ETH"]
    assert reader.left_out == {"@107": 1, "dex:GOLD": 1}


def test_orders_that_the_venue_no_longer_lists_are_asked_for_one_by_one(server):
    server.venue.fills = [CLOSING]
    server.venue.orders = {91500213411: {"order": {"oid": 91500213411, "orderType": "Stop Market", "reduceOnly": True}}}
    server.venue.forgotten_orders = True
    reader = source(server)
    assert reader.poll(BEGAN).fills[0].trigger == "stop"
    reader.confirm()
    server.venue.asked.clear()
    assert reader.poll(BEGAN).fills[0].trigger == "stop"
    assert {question["type"] for question in server.venue.asked} == {
        "clearinghouseState", "userFillsByTime", "userFunding", "userNonFundingLedgerUpdates",
    }  # fmt: skip


def test_candles_are_asked_for_when_one_has_ended_and_again_if_the_tick_was_not_kept(server):
    def candle(n: int) -> dict[str, Any]:
        at = hl.millis_of(NOON) + n * 300_000
        return {"t": at, "T": at + 299_999, "s": "ETH", "i": "5m", "o": "1", "c": "1", "h": "1", "l": "1", "v": "0", "n": 0}

    server.venue.candles = [candle(n) for n in range(7)]  # the last one is still running at 12:31
    reader = source(server, intervals=("5m",))
    assert [bar.t0.minute for bar in reader.poll(BEGAN).bars] == [0, 5, 10, 15, 20, 25]
    assert len(reader.poll(BEGAN).bars) == 6  # the tick was lost: they come once more
    reader.confirm()
    assert reader.poll(BEGAN).bars == ()
    server.venue.state = STATE | {"time": STATE["time"] + 240_000}  # 12:35
    assert [bar.t0.minute for bar in reader.poll(BEGAN).bars] == [30]


@pytest.mark.parametrize("trouble", ["429", "500", "503", "garbage", "cut"])
def test_what_passes_is_tried_again_each_time_after_a_longer_wait(server, trouble):
    waited: list[float] = []
    server.trouble.extend([trouble] * 3)
    assert source(server, sleep=waited.append).poll(None).equity == D("5120.5")
    assert waited == [1.0, 2.0, 4.0]


def test_a_venue_that_does_not_answer_is_given_up_and_says_so(server):
    server.trouble.extend(["silent"] * 2)
    with pytest.raises(Unreachable, match=r"clearinghouseState: .*timed out \(2 times\)\. Nothing was observed"):
        source(server, timeout=0.05, attempts=2).poll(None)


def test_a_question_that_the_venue_refuses_is_not_repeated(server):
    waited: list[float] = []
    server.trouble.append("422")
    with pytest.raises(Unreachable, match="status 422"):
        source(server, sleep=waited.append).poll(None)
    assert waited == []


def test_nobody_at_the_address_is_an_error_in_words():
    with Server() as gone:
        url = gone.url
    with pytest.raises(Unreachable, match="refused"):
        JsonEndpoint(f"{url}/info", attempts=1)({"type": "clearinghouseState"})


@pytest.mark.parametrize("url", ["file:///etc/passwd", "api.hyperliquid.xyz", "ftp://host/x"])
def test_only_addresses_of_venues_are_asked_and_only_about_whole_accounts(url):
    with pytest.raises(Invalid, match="url"):
        Hyperliquid(ADDRESS, url)
    with pytest.raises(Invalid, match="address: '0xab' is not an account"):
        Hyperliquid("0xab")


# ---- following -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def live() -> tuple[AgentMemory, Account, FixedClock]:
    memory = desk.given_memory(now=NOON)
    assert isinstance(memory.clock, FixedClock)
    return desk.given_agent(memory, mode="live"), Account(memory.clock), memory.clock


def wait(clock: FixedClock, **span: float) -> None:
    clock.at += timedelta(**span)


def eth(id: str, at: datetime, side: str, qty: str, **more: Any) -> Fill:
    return Fill(id=id, t=at, symbol="ETH", side=side, qty=D(qty), px=D(3400), **more)


def test_an_account_that_stands_still_is_written_down_once_an_hour(live):
    agent, account, clock = live
    written = []
    for _ in range(13):
        written.append(follow_account(agent, account).written)
        wait(clock, minutes=10)
    assert written == [True, *[False] * 5, True, *[False] * 5, True]
    assert account.took == 13


def test_a_move_of_equity_or_another_position_is_news(live):
    agent, account, clock = live
    assert follow_account(agent, account).written
    wait(clock, minutes=1)
    account.equity = D(4990)
    assert not follow_account(agent, account).written
    account.equity = D(4970)
    assert follow_account(agent, account).written
    wait(clock, minutes=1)
    account.positions = {"ETH": (HeldPosition(qty=D(1), entry_px=D(3400), mark=D(3400)),)}
    assert follow_account(agent, account).written
    wait(clock, minutes=1)
    account.positions = {"ETH": (HeldPosition(qty=D(1), entry_px=D(3400), mark=D(3401)),)}  # only its price has moved
    assert not follow_account(agent, account).written


def test_the_same_fill_shown_for_an_hour_is_observed_once(live):
    agent, account, clock = live
    follow_account(agent, account)
    account.fills, account.positions = (eth("f1", NOON + timedelta(seconds=5), "buy", "1"),), {"ETH": (HeldPosition(qty=D(1)),)}
    steps = []
    for _ in range(4):
        wait(clock, minutes=1)
        steps.append(follow_account(agent, account))
    assert [step.written for step in steps] == [True, False, False, False]
    assert len(agent.ledger.trades()) == 1


def test_where_to_read_from_is_in_the_store_so_a_restart_needs_nothing_else(live):
    agent, account, clock = live
    follow_account(agent, account)
    wait(clock, hours=2)
    follow_account(agent, account)
    again = Memory.of(agent.resources).agent("desk")
    wait(clock, minutes=1)
    follow_account(again, account)
    assert account.asked == [None, ReadRange(NOON, NOON), ReadRange(NOON, NOON + timedelta(hours=2))]


def test_a_position_without_its_fill_is_searched_for_from_where_it_was_first_seen(live):
    agent, account, clock = live
    follow_account(agent, account)
    wait(clock, hours=1)
    account.positions = {"ETH": (HeldPosition(qty=D(1), entry_px=D(3400), mark=D(3400)),)}
    follow_account(agent, account)
    # Until the first fill arrives, the account may be one that only ever sends snapshots.
    assert agent.ledger.discrepancies() == []
    for _ in range(3):
        wait(clock, hours=1)
        follow_account(agent, account)
    assert account.asked[-1] == ReadRange(NOON, NOON + timedelta(hours=1))
    account.fills = (eth("late", NOON + timedelta(minutes=30), "buy", "1"),)
    wait(clock, minutes=1)
    assert follow_account(agent, account).receipt.revised is False  # the trade is still open: nothing closed was told otherwise
    assert (agent.ledger.discrepancies(), agent.ledger.trades()[0].quality) == ([], "fills")
    wait(clock, minutes=1)
    follow_account(agent, account)
    assert account.asked[-1].last_read == NOON + timedelta(hours=4, minutes=1)


def test_a_failing_source_or_a_lost_clock_leaves_no_trace(live):
    agent, account, clock = live
    follow_account(agent, account)
    before = agent.head()
    wait(clock, hours=1)
    account.problems = [Unreachable(source="venue", problem="down")]
    with pytest.raises(Unreachable):
        follow_account(agent, account)
    ahead = Account(FixedClock(clock.at + timedelta(hours=1)))
    with pytest.raises(Invalid, match="ahead of the clock"):
        follow_account(agent, ahead)
    assert (agent.head(), ahead.took) == (before, 0)


def test_decisions_are_recorded_after_the_tick_under_its_name_and_explain_the_fills_of_their_orders(live):
    agent, account, clock = live
    enter = Decision(symbol="ETH", reason="breakout", stop=D(3300), order_ids=("77",))
    step = follow_account(agent, account, decide=lambda tick: [enter, Decision(symbol="BTC", action="no_trade")])
    assert sorted(str(row.decision.id) for row in agent.ledger.decisions()) == [step.tick.id, f"{step.tick.id}#2"]
    assert len(step.decisions) == 2
    wait(clock, minutes=1)
    account.fills = (eth("f1", NOON + timedelta(seconds=5), "buy", "1", order_id="77"),)
    account.positions = {"ETH": (HeldPosition(qty=D(1)),)}
    follow_account(agent, account)
    (trade,) = agent.ledger.trades()
    assert (trade.entry_reason, trade.entry_decision, trade.stop_price) == ("breakout", step.tick.id, D(3300))


def test_nobody_is_asked_to_decide_twice_about_one_tick_or_about_none(live):
    agent, account, clock = live
    asked: list[Tick] = []

    def decide(tick: Tick) -> list[Decision]:
        asked.append(tick)
        return []

    follow_account(agent, account, decide=decide)
    account.fills = (eth("late", NOON - timedelta(minutes=1), "buy", "1"), eth("gone", NOON, "sell", "1"))
    assert follow_account(agent, account, decide=decide).written  # the same moment again, with fills that were late
    wait(clock, minutes=1)
    assert not follow_account(agent, account, decide=decide).written
    assert len(asked) == 1


def test_a_simulation_is_not_followed(live):
    agent, account, _ = live
    sim = desk.given_agent(Memory.of(agent.resources), mode="sim", id="paper-desk")
    with pytest.raises(Conflict, match="'paper-desk' is a simulation"):
        follow_account(sim, account)


def test_a_follower_goes_on_until_told_to_stop_and_waits_longer_while_things_fail(live):
    agent, account, clock = live
    account.problems = [Unreachable(source="venue", problem="down") for _ in range(7)]
    nights, told = Nights(clock, 9), []
    follow_until(agent, account, nights, on_step=told.append)
    assert nights.waited == [20.0, 40.0, 80.0, 160.0, 300.0, 300.0, 300.0, 10.0, 10.0]
    assert [isinstance(one, FollowStep) for one in told] == [False] * 7 + [True] * 2


def test_nobody_is_polled_more_than_once_a_second(live):
    agent, account, clock = live
    with pytest.raises(Invalid, match=r"every: 0\.5 s is too short"):
        follow_until(agent, account, Nights(clock, 1), every=timedelta(seconds=0.5))
    assert account.asked == []


def test_an_account_is_followed_over_the_wire_from_entry_to_exit(server):
    memory = desk.given_memory(now=NOON)
    agent, clock = desk.given_agent(memory, mode="live"), memory.clock
    reader = source(server)
    venue: Venue = server.venue
    long = {"ETH": (HeldPosition(qty=D(1), entry_px=D(3400), mark=D(3410), leverage=D(5)),)}
    enter = eth("", NOON + timedelta(minutes=5), "buy", "1", order_id="71", fee=D("1.5"), trigger="market")
    leave = replace(eth("", NOON + timedelta(minutes=15), "sell", "1", order_id="72", trigger="stop"), px=D(3350))
    plan = Decision(symbol="ETH", reason="breakout", stop=D(3350), order_ids=("71",))
    for minutes, positions, fills in ((0, {}, ()), (10, long, (enter,)), (20, {}, (leave,))):
        clock.at = NOON + timedelta(minutes=minutes)
        venue.show(Tick(id="x", t=clock.at, positions=positions, fills=fills, equity=D(5000)))
        follow_account(agent, reader, decide=lambda tick, n=minutes: [plan] if n == 0 else [])
    (trade,) = agent.ledger.trades()
    assert (trade.net_pnl_usd, trade.pnl_r, trade.exit_trigger, trade.entry_leverage) == (D("-51.5"), D("-1.03"), "stop", D(5))
    assert (trade.entry_reason, trade.quality, agent.ledger.discrepancies()) == ("breakout", "fills", [])
