"""Bars for decisions that wait: read from the followed venue over a real socket, completed ones only, each once."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from threading import Event
from typing import Any

import pytest
from typer.testing import CliRunner

import memtape
from memtape.brokers.hyperliquid import INTERVALS, millis_of
from memtape.brokers.live import MAINNET
from memtape.core.observed import Bar, Bars, Decision, Tick
from memtape.engine import AgentMemory, Memory
from memtape.engine.account_polls import FollowedVenue, followed_venue, state_followed_venue
from memtape.engine.proof.audit import verify_store
from memtape.plugs.clock import FixedClock
from memtape.surfaces.cli.main import app
from memtape.workers.decision_bars import DecisionBars, UnsettledDecision, fetching_decision_bars, unsettled_decisions
from tests.brokers.hyperliquid_server import ADDRESS, Server, Venue, candle_json, state_json

NOON = datetime(2026, 6, 4, 12, tzinfo=UTC)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def candles(symbol: str, frame: str, first: datetime, n: int) -> list[dict[str, Any]]:
    """The venue's candles of a price that rises by one with each."""
    length, made = INTERVALS[frame], []
    for k in range(n):
        price, t0 = Decimal(100 + k), first + k * length
        made.append(candle_json(Bar(symbol=symbol, t0=t0, t1=t0 + length, o=price, h=price + 2, l=price - 1, c=price + 1)))
    return made


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(Venue()) as server:
        yield server


class Desk:
    """An agent that follows an account at the local venue, and decisions that wait."""

    def __init__(self, memory: Memory, clock: FixedClock, server: Server) -> None:
        self.memory, self.clock, self.server = memory, clock, server
        self.waiting: list[UnsettledDecision] = []
        state_followed_venue(self.agent, FollowedVenue("hyperliquid", server.url))
        self.bars = DecisionBars(memory, lambda agent: self.waiting if agent.agent.id == "desk" else [])

    @property
    def agent(self) -> AgentMemory:
        return self.memory.agent("desk")

    def wait_for(self, symbol: str, since: datetime, frame: str = "1h") -> None:
        self.waiting.append(UnsettledDecision(symbol, frame, since))

    def stored(self, symbol: str = "ETH", frame: str = "1h") -> list[datetime]:
        with self.agent.view() as view:
            found = view.tables.bars_between(symbol, NOON - timedelta(days=60), NOON + timedelta(days=60))
        return sorted(t0 for length, t0 in found if length == INTERVALS[frame].total_seconds())

    @property
    def asked(self) -> list[dict[str, Any]]:
        return [question["req"] for question in self.server.venue.asked if question["type"] == "candleSnapshot"]


@pytest.fixture
def desk(memory: Memory, server: Server) -> Desk:
    """On each kind of store."""
    clock = FixedClock(NOON)
    memory.resources.clock = clock
    memory.create_skill("breakout")
    memory.create_agent("desk", skill="breakout", mode="live")
    return Desk(memory, clock, server)


def test_the_bars_of_a_waiting_decision_are_recorded_from_the_first_one_that_began_after_it(desk: Desk):
    desk.server.venue.candles = candles("ETH", "1h", NOON - 5 * HOUR, 6)
    desk.wait_for("ETH", NOON - 3 * HOUR + 20 * MINUTE)
    desk.clock.at = NOON + 30 * MINUTE
    assert desk.bars.fetch() == {"desk": 2}
    # The bar of the decision itself does not count, and that of noon is not complete.
    assert desk.stored() == [NOON - 2 * HOUR, NOON - HOUR]
    with desk.agent.view() as view:
        bar = view.tables.bars_between("ETH", NOON - HOUR, NOON - HOUR)[3600, NOON - HOUR]
    assert (str(bar.o), str(bar.h), str(bar.l), str(bar.c)) == ("104", "106", "103", "105")
    assert verify_store(desk.memory).ok


def test_a_bar_that_begins_at_the_moment_of_the_decision_counts(desk: Desk):
    desk.server.venue.candles = candles("ETH", "1h", NOON - 2 * HOUR, 3)
    desk.wait_for("ETH", NOON - HOUR)
    desk.bars.fetch()
    assert desk.stored() == [NOON - HOUR]


def test_each_round_reads_only_what_is_missing_and_asks_nothing_while_no_bar_can_be_complete(desk: Desk):
    desk.server.venue.candles = candles("ETH", "1h", NOON - 5 * HOUR, 8)
    desk.wait_for("ETH", NOON - 4 * HOUR)
    assert desk.bars.fetch() == {"desk": 4} and len(desk.asked) == 1
    for _ in range(30):
        desk.clock.at += MINUTE
        assert desk.bars.fetch() == {}
    assert len(desk.asked) == 1
    desk.clock.at = NOON + HOUR + MINUTE
    assert desk.bars.fetch() == {"desk": 1}
    assert desk.asked[1]["startTime"] == millis_of(NOON) and desk.stored()[-1] == NOON
    again = DecisionBars(desk.memory, lambda agent: desk.waiting)
    assert again.fetch() == {} and len(desk.asked) == 2, "a restarted server sees in the store what is there"


def test_a_hole_before_bars_that_came_by_another_way_is_filled(desk: Desk):
    desk.server.venue.candles = candles("ETH", "1h", NOON - 5 * HOUR, 6)
    own = [{"symbol": "ETH", "t0": NOON - HOUR, "t1": NOON, "o": "7", "h": "8", "l": "6", "c": "7"}]
    desk.agent.observe({"bars": own}, kind="bars")
    desk.wait_for("ETH", NOON - 4 * HOUR)
    assert desk.bars.fetch() == {"desk": 3}
    assert desk.stored() == [NOON - n * HOUR for n in (4, 3, 2, 1)]


def test_two_decisions_on_one_symbol_are_one_question_since_the_earlier_one_and_each_frame_has_its_own(desk: Desk):
    desk.server.venue.candles = candles("ETH", "1h", NOON - 5 * HOUR, 6) + candles("ETH", "5m", NOON - HOUR, 13)
    desk.wait_for("ETH", NOON - HOUR)
    desk.wait_for("ETH", NOON - 3 * HOUR)
    desk.wait_for("ETH", NOON - 30 * MINUTE, "5m")
    assert desk.bars.fetch() == {"desk": 9}
    assert [(about["interval"], about["startTime"]) for about in desk.asked] == [
        ("1h", millis_of(NOON - 3 * HOUR)), ("5m", millis_of(NOON - 30 * MINUTE)),
    ]  # fmt: skip


def test_a_candle_that_is_still_at_work_is_not_recorded_though_our_clock_is_ahead(desk: Desk):
    desk.server.venue.candles = candles("ETH", "1h", NOON - 2 * HOUR, 2)
    desk.wait_for("ETH", NOON - 2 * HOUR)
    desk.clock.at = NOON + 3 * MINUTE  # the venue has 11:58
    assert desk.bars.fetch() == {"desk": 1} and desk.stored() == [NOON - 2 * HOUR]
    desk.server.venue.candles[-1]["c"] = "101.5"
    desk.server.venue.candles += candles("ETH", "1h", NOON, 1)
    assert desk.bars.fetch() == {"desk": 1}
    with desk.agent.view() as view:
        assert str(view.tables.bars_between("ETH", NOON - HOUR, NOON - HOUR)[3600, NOON - HOUR].c) == "101.5"


def test_the_last_candle_of_a_coin_without_trades_is_recorded_some_minutes_after_its_end(desk: Desk):
    desk.server.venue.candles = candles("ETH", "1h", NOON - HOUR, 1)
    desk.wait_for("ETH", NOON - HOUR)
    assert desk.bars.fetch() == {}
    desk.clock.at += 5 * MINUTE
    assert desk.bars.fetch() == {"desk": 1}


@pytest.mark.parametrize("page", [5_000, 700])
def test_more_bars_than_an_answer_holds_are_read_in_parts(desk: Desk, page: int):
    desk.server.venue.candle_page = page
    desk.server.venue.candles = candles("ETH", "1m", NOON - 12_000 * MINUTE, 12_001)
    desk.wait_for("ETH", NOON - 11_900 * MINUTE, "1m")
    assert desk.bars.fetch() == {"desk": 11_900}
    assert desk.stored(frame="1m") == [NOON - n * MINUTE for n in range(11_900, 0, -1)]
    spans = [about["endTime"] - about["startTime"] for about in desk.asked]
    assert max(spans) < 5_000 * 60_000, "no question is for more than one answer can hold"


def test_a_venue_that_is_down_is_one_line_in_the_log_and_is_asked_again(desk: Desk, caplog: pytest.LogCaptureFixture):
    desk.server.venue.candles = candles("ETH", "1h", NOON - 5 * HOUR, 6)
    desk.wait_for("ETH", NOON - 3 * HOUR)
    head = desk.agent.head().seq
    desk.server.trouble.extend(["503", "503", "garbage"])
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert desk.bars.fetch() == {}
    assert desk.agent.head().seq == head, "nothing stands in for the missing bars"
    assert [record.getMessage().partition(": ")[0] for record in caplog.records] == 2 * ["no 1h bars of ETH for desk"]
    assert desk.bars.fetch() == {"desk": 3}


def test_a_symbol_that_the_venue_does_not_have_keeps_no_other_from_its_bars(desk: Desk):
    desk.server.venue.unlisted = {"AAPL"}
    desk.server.venue.candles = candles("ETH", "1h", NOON - 5 * HOUR, 6)
    desk.wait_for("AAPL", NOON - 3 * HOUR)
    desk.wait_for("ETH", NOON - 3 * HOUR)
    assert desk.bars.fetch() == {"desk": 3} and desk.stored("AAPL") == []


def test_an_agent_that_follows_no_venue_or_an_unknown_one_is_left_alone(desk: Desk):
    desk.memory.create_agent("other", skill="breakout", mode="paper")
    waits = DecisionBars(desk.memory, lambda agent: [UnsettledDecision("ETH", "1h", NOON - 3 * HOUR)], agents={"other"})
    assert waits.fetch() == {}
    state_followed_venue(desk.memory.agent("other"), FollowedVenue("elsewhere", desk.server.url))
    assert waits.fetch() == {} and desk.asked == []


def test_the_venue_that_was_named_last_is_asked_and_naming_it_again_writes_nothing(desk: Desk):
    with Server(Venue(candles=candles("ETH", "1h", NOON - 5 * HOUR, 6))) as test_network:
        state_followed_venue(desk.agent, FollowedVenue("hyperliquid", test_network.url))
        head = desk.agent.head().seq
        state_followed_venue(desk.agent, FollowedVenue("hyperliquid", test_network.url))
        assert desk.agent.head().seq == head
        desk.wait_for("ETH", NOON - 3 * HOUR)
        assert desk.bars.fetch() == {"desk": 3} and desk.asked == []
    state_followed_venue(desk.agent, FollowedVenue("hyperliquid", MAINNET))
    assert followed_venue(desk.agent) == FollowedVenue("hyperliquid", MAINNET)
    assert verify_store(desk.memory).ok


def test_bars_are_read_for_decisions_until_their_outcome_is_known(desk: Desk):
    """One waits at the market, one for its limit; one has no stop, so it has no outcome; one has expired after one bar."""
    plan: dict[str, Any] = {"symbol": "ETH", "action": "buy", "side": "long", "stop": Decimal(90), "target": Decimal(200)}
    for n, more in enumerate(({}, {"frame": "5m", "entry_price": Decimal(95)}, {"stop": None}, {"expiry_bars": 1}), 1):
        desk.agent.observe(Decision(**{**plan, **more, "id": f"d{n}", "t": NOON - n * HOUR}))
    bar = Bar(symbol="ETH", t0=NOON - 4 * HOUR, t1=NOON - 3 * HOUR, o=Decimal(100), h=Decimal(101), l=Decimal(99), c=Decimal(100))
    desk.agent.observe(Bars(bars=(bar,)))
    assert sorted(unsettled_decisions(desk.agent)) == [
        UnsettledDecision("ETH", "1h", NOON - HOUR), UnsettledDecision("ETH", "5m", NOON - 2 * HOUR),
    ]  # fmt: skip


def test_a_server_reads_them_in_the_background_until_it_ends(desk: Desk):
    desk.server.venue.candles = candles("ETH", "1h", NOON - 5 * HOUR, 6)
    desk.wait_for("ETH", NOON - 3 * HOUR)
    asked = Event()

    def unsettled(agent: AgentMemory) -> list[UnsettledDecision]:
        if desk.stored():
            asked.set()
        return desk.waiting

    with fetching_decision_bars(desk.memory, unsettled, every_seconds=0.01):
        assert asked.wait(10)
    assert desk.stored() == [NOON - n * HOUR for n in (3, 2, 1)]


def test_following_an_account_names_its_venue(server: Server, tmp_path):
    db = str(tmp_path / "memory.db")
    with memtape.open(db) as memory:
        memory.create_skill("breakout")
        memory.create_agent("desk", skill="breakout", mode="live")
        server.venue.state = state_json(Tick(id="t", t=memory.clock.now(), positions={}, equity=Decimal(5000)))
    given = ["sync", "--agent", "desk", "--address", ADDRESS, "--url", server.url, "--db", db, "--json"]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0 and json.loads(done.stdout)["written"]
    with memtape.open(db) as memory:
        assert followed_venue(memory.agent("desk")) == FollowedVenue("hyperliquid", server.url)
