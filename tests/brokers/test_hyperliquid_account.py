"""Money in and out of a followed Hyperliquid account, and what the venue does not show: cash flows, fees, pages, gaps, PnL."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import memtape
from memtape.brokers import hyperliquid as hl
from memtape.brokers.live import Hyperliquid, ReadRange
from memtape.core.fills import Fill
from memtape.core.observed import HeldPosition, Tick
from memtape.core.venue_coverage import ReadingGap
from memtape.engine import AgentMemory
from memtape.engine.account_polls import MAX_UNEXPLAINED, FollowedVenue, rate_unknown_fees, state_followed_venue, venue_coverage
from memtape.engine.proof.audit import verify_store
from memtape.plugs.clock import FixedClock
from memtape.surfaces.cli.main import app
from memtape.workers.live_account import FollowStep, follow_account
from tests import desk
from tests.brokers.hyperliquid_server import ADDRESS, STRANGER, Server, Venue, fill_json, state_json, update_json
from tests.effort import examples
from tests.web.test_answers import client_of
from tests.web.test_money_pages import words

D = Decimal
NOON = datetime(2026, 6, 4, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
VAULT = "0x" + "ef" * 20


class FollowedDesk:
    """A live agent that follows the local venue. Its clock is the venue's."""

    def __init__(self, server: Server) -> None:
        self.server, self.venue = server, server.venue
        self.memory = desk.given_memory(now=NOON)
        assert isinstance(self.memory.clock, FixedClock)
        self.clock = self.memory.clock
        self.agent: AgentMemory = desk.given_agent(self.memory, mode="live")
        self.restart()

    def restart(self, **more: Any) -> None:
        about: dict[str, Any] = {"intervals": (), "sleep": lambda seconds: None} | more
        self.source = Hyperliquid(ADDRESS, self.server.url, **about)

    def see(self, minutes: float, equity: str, held: dict[str, HeldPosition] | None = None, *fills: Fill) -> FollowStep:
        """Poll the account as it is so many minutes after noon."""
        self.clock.at = NOON + minutes * MINUTE
        positions = {symbol: (one,) for symbol, one in (held or {}).items()}
        self.venue.show(Tick(id="x", t=self.clock.at, positions=positions, equity=D(equity), fills=fills))
        return follow_account(self.agent, self.source)

    def flows(self) -> list[tuple[float, Decimal]]:
        with self.agent.view() as view:
            found = [(item.at, D(item.body["usd"])) for item in view.items("flow")]
        return [((at - NOON) / MINUTE, usd) for at, usd in found]

    def drawdown(self) -> tuple[float, Decimal | None]:
        """The drawdown of the affect state, and the deepest one of the equity curve in percent."""
        with self.agent.view() as view:
            affect = view.affect().drawdown
        return affect, self.agent.ledger.performance().max_drawdown_pct

    def brief(self) -> str:
        return self.agent.briefs.make().brief.text


@pytest.fixture
def followed() -> Iterator[FollowedDesk]:
    with Server() as server:
        yield FollowedDesk(server)


def at(minutes: float) -> datetime:
    return NOON + minutes * MINUTE


def eth(minutes: float, side: str, qty: str, px: str = "3400", **more: Any) -> Fill:
    return Fill(id="f", t=at(minutes), symbol="ETH", side=side, qty=D(qty), px=D(px), order_id="71", **more)  # type: ignore[arg-type]


def flows_of(*updates: dict[str, Any], address: str = ADDRESS, dex: str = "") -> list[Decimal]:
    return [flow.usd for flow in hl.cash_flows_from_answer(list(updates), address, dex).flows]


# ---- deposits, withdrawals, transfers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "delta", "usd"),
    [
        ("deposit", {"usdc": "1000.0"}, "1000"),
        ("withdraw", {"usdc": "499.0", "nonce": 1780574400000, "fee": "1.0"}, "-500"),
        ("accountClassTransfer", {"usdc": "250.0", "toPerp": True}, "250"),
        ("accountClassTransfer", {"usdc": "250.0", "toPerp": False}, "-250"),
        ("internalTransfer", {"usdc": "20.0", "user": ADDRESS, "destination": STRANGER, "fee": "1.0"}, "-21"),
        ("internalTransfer", {"usdc": "20.0", "user": STRANGER, "destination": ADDRESS, "fee": "1.0"}, "20"),
        ("subAccountTransfer", {"usdc": "70.0", "user": ADDRESS, "destination": STRANGER}, "-70"),
        ("subAccountTransfer", {"usdc": "70.0", "user": STRANGER, "destination": ADDRESS}, "70"),
        ("vaultCreate", {"vault": VAULT, "usdc": "100.0", "fee": "10.0"}, "-110"),
        ("vaultDeposit", {"vault": VAULT, "usdc": "100.0"}, "-100"),
        ("vaultDistribution", {"vault": VAULT, "usdc": "12.5"}, "12.5"),
        ("vaultLeaderCommission", {"user": ADDRESS, "usdc": "3.0"}, "3"),
        ("rewardsClaim", {"amount": "8.25"}, "8.25"),
        ("perpDexClassTransfer", {"amount": "40.0", "token": "USDC", "dex": "", "toPerp": True}, "40"),
    ],
)  # fmt: skip
def test_each_kind_of_transfer_moves_the_perpetuals_account_by_its_own_sign(kind, delta, usd):
    assert flows_of(update_json(NOON, kind, **delta)) == [D(usd)]


def test_a_vault_sees_the_other_side_of_what_its_depositors_move():
    leaving = update_json(
        NOON, "vaultWithdraw", vault=VAULT, user=ADDRESS, requestedUsd="100.0", commission="2.0", closingCost="0.5",
        basis="80.0", netWithdrawnUsd="97.5",
    )  # fmt: skip
    assert flows_of(leaving) == [D("97.5")]
    assert flows_of(leaving, address=VAULT) == [D("-99.5")]
    assert flows_of(update_json(NOON, "vaultDeposit", vault=VAULT, usdc="100.0"), address=VAULT) == [D(100)]


def test_a_send_counts_where_it_leaves_or_reaches_the_perpetuals_account_that_is_followed():
    def sent(user: str, source: str, destination: str, to: str, token: str = "USDC") -> dict[str, Any]:
        return update_json(
            NOON, "send", user=user, sourceDex=source, destination=destination, destinationDex=to, token=token, amount="30.0",
            usdcValue="30.0", fee="1.0", nativeTokenFee="0.0", nonce=1, feeToken="",
        )  # fmt: skip

    assert flows_of(sent(ADDRESS, "", STRANGER, "")) == [D(-31)]
    assert flows_of(sent(STRANGER, "", ADDRESS, "")) == [D(30)]
    assert flows_of(sent(ADDRESS, "spot", ADDRESS, "")) == [D(30)]
    assert flows_of(sent(ADDRESS, "", ADDRESS, "xyz")) == [D(-31)]
    assert flows_of(sent(ADDRESS, "", ADDRESS, "xyz"), dex="xyz") == [D(30)]
    assert flows_of(sent(ADDRESS, "spot", STRANGER, "spot", "HYPE")) == []


def test_what_only_moves_spot_or_repeats_the_fills_is_no_cash_flow_and_not_reported():
    still = [
        update_json(NOON, "spotTransfer", token="HYPE", amount="5.0", usdcValue="190.0", user=ADDRESS, destination=STRANGER, fee="0"),
        update_json(NOON, "spotGenesis", token="HFUN", amount="3.0"),
        update_json(NOON, "cStakingTransfer", token="HYPE", amount="5.0", isDeposit=True),
        update_json(NOON, "liquidation", accountValue="12.0", leverageType="Cross", liquidatedPositions=[{"coin": "ETH", "szi": "1"}]),
    ]  # fmt: skip
    found = hl.cash_flows_from_answer(still, ADDRESS)
    assert (found.flows, found.unread) == ((), ())


def test_an_update_of_an_unknown_kind_or_shape_is_named_and_the_rest_is_read():
    odd = [update_json(NOON, "moonTransfer", usdc="5.0"), update_json(NOON, "deposit", amount="5.0"), {"time": 1, "hash": "0x1"}]
    found = hl.cash_flows_from_answer([*odd, update_json(NOON, "deposit", 9, usdc="7.0")], ADDRESS)
    assert [flow.usd for flow in found.flows] == [D(7)]
    assert found.unread == ("deposit", "moonTransfer", "without a kind")


def test_two_updates_of_one_transaction_are_two_flows_and_the_same_update_is_one():
    first, second = update_json(NOON, "deposit", usdc="5.0"), update_json(NOON, "deposit", usdc="6.0")
    assert sorted(flows_of(first, second, first)) == [D(5), D(6)]


def test_a_withdrawal_of_half_the_account_is_no_drawdown_anywhere(followed: FollowedDesk):
    followed.see(0, "10000")
    followed.venue.updates = [update_json(at(5), "withdraw", usdc="4999.0", nonce=1, fee="1.0")]
    followed.see(10, "5000")
    assert followed.flows() == [(5.0, D(-5000))]
    assert followed.drawdown() == (0.0, D(0))
    assert "Drawdown: 50" not in followed.brief()
    points = [nav for _, nav in followed.agent.ledger.equity().points]
    assert points == [D(10000), D(10000)]
    with client_of(followed.memory) as client:
        for page in ("", "/state", "/performance"):
            answer = client.get(f"/agents/desk{page}")
            assert answer.status_code == 200 and not re.search(r"\b50(\.0+)? ?%", words(answer.text)), page


def test_a_flow_is_recorded_once_over_polls_and_restarts_and_the_store_verifies(followed: FollowedDesk):
    followed.see(0, "10000")
    followed.venue.updates = [
        update_json(at(7), "accountClassTransfer", 2, usdc="500.0", toPerp=False), update_json(at(5), "deposit", usdc="1000.0")
    ]  # fmt: skip
    followed.venue.doubled = True
    for minutes in (10, 20, 30):
        followed.see(minutes, "10500")
        followed.restart()
    assert followed.flows() == [(5.0, D(1000)), (7.0, D(-500))]
    assert followed.drawdown() == (0.0, D(0))
    assert verify_store(followed.memory).ok


def test_more_updates_than_a_page_holds_are_all_read(followed: FollowedDesk):
    followed.see(0, "10000")
    followed.venue.updates = [update_json(at(1 + n / 1000), "deposit", n, usdc="1.0") for n in range(1230)]
    followed.see(10, "11230")
    assert len(followed.flows()) == 1230


# ---- a withdrawal that the venue lists minutes after it took the money -------------------------------------------------------


def test_equity_that_fell_for_no_visible_reason_waits_for_the_withdrawal_that_explains_it(followed: FollowedDesk):
    followed.see(0, "10000")
    assert followed.see(1, "5000").tick.equity is None
    assert followed.see(3, "5000").tick.equity is None
    assert followed.drawdown() == (0.0, D(0))
    followed.restart()
    followed.venue.updates = [update_json(at(5), "withdraw", usdc="4999.0", nonce=1, fee="1.0")]
    assert followed.see(6, "5000").tick.equity == D(5000)
    assert followed.drawdown() == (0.0, D(0))


def test_equity_that_nothing_explains_counts_after_a_while(followed: FollowedDesk):
    followed.see(0, "10000")
    followed.see(1, "5000")
    assert followed.see(1 + MAX_UNEXPLAINED / MINUTE, "5000").tick.equity == D(5000)
    assert followed.drawdown() == (0.5, D(50))


def test_a_loss_that_fills_and_prices_explain_counts_at_once(followed: FollowedDesk):
    followed.see(0, "10000")
    long = {"ETH": HeldPosition(qty=D(1), entry_px=D(3400), mark=D(2000), leverage=D(5))}
    assert followed.see(1, "8599", long, eth(0.5, "buy", "1", fee=D(1))).tick.equity == D(8599)
    assert followed.see(2, "7599", None, eth(1.5, "sell", "1", "1000", fee=D(0))).tick.equity == D(7599)


@settings(max_examples=examples(12, 200), deadline=None)
@given(
    st.lists(st.tuples(st.integers(-4000, 4000).filter(bool), st.integers(0, 12)), min_size=1, max_size=4), st.integers(0, 4),
    st.booleans(),
)  # fmt: skip
def test_whatever_is_paid_in_and_out_and_however_late_it_is_listed_there_is_no_drawdown(
    moves: list[tuple[int, int]], restarts: int, doubled: bool
):
    """Each move changes the equity at once and is listed some minutes later; the account is polled every minute."""
    with Server(Venue(doubled=doubled)) as server:
        followed, equity, minute = FollowedDesk(server), 50_000, 1
        followed.see(0, str(equity))
        for n, (usd, late) in enumerate(moves):
            equity += usd
            for waited in range(late + 2):
                if waited == late:
                    kind = {"usdc": str(abs(usd)), "toPerp": usd > 0}
                    followed.venue.updates.append(update_json(at(minute - 0.5), "accountClassTransfer", n, **kind))
                if (minute + restarts) % 5 == 0:
                    followed.restart()
                followed.see(minute, str(equity))
                minute += 1
        assert [usd for _, usd in followed.flows()] == [D(usd) for usd, _ in moves]
        affect, curve = followed.drawdown()
        # Moves of up to 1 % of the equity are not waited for.
        assert affect <= 0.01 * len(moves) and curve is not None and curve <= len(moves)
        with followed.agent.view() as view:
            assert view.affect().equity_without_flows == pytest.approx(50_000)


# ---- fees without a rate ----------------------------------------------------------------------------------------------------


def test_a_fee_in_a_coin_without_a_rate_is_reported_and_the_reader_goes_on(followed: FollowedDesk):
    followed.see(0, "10000")
    followed.see(10, "10000", None, eth(1, "buy", "1"), eth(2, "sell", "1", "3410"))
    row = fill_json(eth(11, "buy", "1"), D(0), 900) | {"fee": "0.3", "feeToken": "USDH"}
    followed.venue.fills.append(row)
    followed.see(12, "10010", {"ETH": HeldPosition(qty=D(1), entry_px=D(3400), mark=D(3400))})
    trade = followed.agent.ledger.trades(status="open")[0]
    assert (trade.fee_unknown, trade.fees_usd) == (True, D(0))
    assert [(one.why, one.fee, one.fee_currency) for one in followed.agent.ledger.discrepancies()] == [
        ("fee_unknown", D("0.3"), "USDH")
    ]


def given_store(path: Any, server: Server) -> str:
    db = str(path / "memory.db")
    with memtape.open(db) as memory:
        memory.create_skill("breakout")
        memory.create_agent("desk", skill="breakout", mode="live")
        server.venue.state = state_json(Tick(id="t", t=memory.clock.now(), positions={}, equity=D(5000)))
    return db


def run_follow(db: str, server: Server, *more: str) -> Any:
    return CliRunner().invoke(
        app, ["sync", "--agent", "desk", "--address", ADDRESS, "--url", server.url, "--db", db, *more]
    )


@pytest.mark.parametrize("given_as", ["text", "file"])
def test_rates_on_the_command_line_count_a_fee_in_another_coin(followed: FollowedDesk, tmp_path, given_as):
    server, venue = followed.server, followed.venue
    db = given_store(tmp_path, server)
    assert run_follow(db, server).exit_code == 0
    with memtape.open(db) as memory:
        now = memory.clock.now()
    bought = Fill(id="f", t=now, symbol="ETH", side="buy", qty=D(1), px=D(3400), order_id="5")
    venue.fills = [fill_json(bought, D(0), 1) | {"fee": "0.3", "feeToken": "USDH"}]
    held = (HeldPosition(qty=D(1), entry_px=D(3400), mark=D(3400)),)
    venue.state = state_json(Tick(id="t", t=now, positions={"ETH": held}, equity=D(5000)))
    rates = "USDH=0.99, HYPE=38"
    if given_as == "file":
        (tmp_path / "rates.csv").write_text("coin,rate\nUSDH,0.99\nHYPE,38\n")
        rates = str(tmp_path / "rates.csv")
    done = run_follow(db, server, "--rates", rates)
    assert done.exit_code == 0, done.output
    with memtape.open(db) as memory:
        (trade,) = memory.agent("desk").ledger.trades()
        assert (trade.fees_usd, trade.fee_unknown) == (D("0.297"), False)


def test_a_rate_that_is_stated_later_counts_fees_that_were_recorded_without_one(followed: FollowedDesk):
    followed.see(0, "10000")
    followed.venue.fills.append(fill_json(eth(1, "buy", "1"), D(0), 900) | {"fee": "0.3", "feeToken": "kUSD"})
    held = {"ETH": HeldPosition(qty=D(1), entry_px=D(3400), mark=D(3400))}
    followed.see(2, "10000", held)
    assert [one.why for one in followed.agent.ledger.discrepancies()] == ["fee_unknown"]
    assert rate_unknown_fees(followed.agent, {"kUSD": D("0.5"), "HYPE": D(38)}) == 1
    (trade,) = followed.agent.ledger.trades()
    assert (trade.fees_usd, trade.fee_unknown, followed.agent.ledger.discrepancies()) == (D("0.15"), False, [])
    followed.see(3, "10000", held)
    assert rate_unknown_fees(followed.agent, {"kUSD": D("0.5")}) == 0
    assert followed.agent.ledger.discrepancies() == []


def test_one_read_is_one_line_for_people(followed: FollowedDesk, tmp_path):
    followed.venue.fills = [fill_json(eth(-900, "buy", "1"), D(0), 1) | {"coin": "@107"}]
    done = run_follow(given_store(tmp_path, followed.server), followed.server)
    first, second = done.stdout.splitlines()
    assert first.endswith("  account recorded; equity 5,000.00") and second == "Not in this record: fills of @107 (spot)."


@pytest.mark.parametrize(("rates", "problem"), [("USDH", "is not COIN=RATE"), ("USDH=x", "is not a rate"), ("USDH=-1", "is not a rate")])
def test_a_rate_that_cannot_be_read_is_refused_before_anything_is_asked(followed: FollowedDesk, tmp_path, rates, problem):
    done = run_follow(given_store(tmp_path, followed.server), followed.server, "--rates", rates)
    assert done.exit_code != 0 and problem in done.output
    assert followed.venue.asked == []


# ---- pages, gaps, history ------------------------------------------------------------------------------------------------------


def crowd(n: int, minutes: float = 5) -> list[dict[str, Any]]:
    """Fills of one millisecond, each of a thousandth of an ETH."""
    return [fill_json(eth(minutes, "buy", "0.001"), D("0.001") * k, k + 1) for k in range(n)]


def test_a_millisecond_with_more_fills_than_a_page_is_read_from_both_ends(followed: FollowedDesk):
    followed.see(0, "10000")
    followed.venue.fills = [*crowd(3500), fill_json(eth(6, "buy", "1"), D("3.5"), 9000)]
    held = {"ETH": HeldPosition(qty=D("4.5"), entry_px=D(3400), mark=D(3400))}
    step = followed.see(10, "10000", held)
    assert len(step.tick.fills) == 3501
    assert venue_coverage(followed.agent) is None  # nothing is missing


def test_a_millisecond_with_more_fills_than_the_venue_shows_is_named_as_a_gap_and_reading_goes_on(followed: FollowedDesk):
    followed.see(0, "10000")
    followed.venue.fills = [*crowd(4500), fill_json(eth(6, "buy", "1"), D("4.5"), 9000)]
    held = {"ETH": HeldPosition(qty=D("5.5"), entry_px=D(3400), mark=D(3400))}
    step = followed.see(10, "10000", held)
    assert len(step.tick.fills) == 4001
    coverage = venue_coverage(followed.agent)
    assert coverage is not None and coverage.gaps == (ReadingGap(what="fills", since=at(5), until=at(5)),)
    assert "Not in this record: some fills of 2026-06-04 12:05: the venue did not give all of them" in followed.brief()
    followed.restart()
    head = followed.agent.head().seq
    followed.see(11, "10000", held)
    assert followed.agent.head().seq == head  # a gap is stated once


def test_a_venue_that_ignores_from_which_end_it_is_asked_leaves_a_gap_that_is_named(followed: FollowedDesk):
    followed.see(0, "10000")
    followed.venue.fills, followed.venue.knows_reversed = crowd(2300), False
    followed.see(10, "10000", {"ETH": HeldPosition(qty=D("2.3"), entry_px=D(3400), mark=D(3400))})
    coverage = venue_coverage(followed.agent)
    assert coverage is not None and coverage.gaps == (ReadingGap(what="fills", since=at(5), until=at(5)),)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.booleans())
def test_whatever_the_crowds_every_fill_is_read_or_a_gap_is_named(crowds: list[int], doubled: bool):
    """Pages of four: from both ends a millisecond shows up to eight fills, and from eight on nobody knows whether these are all."""
    venue, held, tid = Venue(page=4, doubled=doubled), D(0), 0
    for k, size in enumerate(crowds):
        for _ in range(size):
            tid += 1
            venue.fills.append(fill_json(eth(k, "buy", "1"), held, tid))
            held += 1
    venue.state = state_json(
        Tick(id="x", t=at(60), equity=D(1), positions={"ETH": (HeldPosition(qty=held, entry_px=D(3400), mark=D(3400)),)})
    )
    reader = Hyperliquid(ADDRESS, ask=venue.info, intervals=(), page_rows=4)
    tick = reader.poll(ReadRange(NOON - MINUTE, NOON - MINUTE))
    assert {gap.since for gap in reader.coverage.gaps} == {at(k) for k, size in enumerate(crowds) if size >= 8}
    assert len(tick.fills) == sum(min(size, 8) for size in crowds)


def test_fills_that_the_venue_has_forgotten_since_the_last_read_are_a_gap(followed: FollowedDesk):
    followed.see(0, "10000")
    held = D(0)
    for n in range(10_050):
        followed.venue.fills.append(fill_json(eth(5 + n / 1000, "buy", "0.001"), held, n + 1))
        held += D("0.001")
    followed.see(30, "10000", {"ETH": HeldPosition(qty=held, entry_px=D(3400), mark=D(3400))})
    coverage = venue_coverage(followed.agent)
    assert coverage is not None
    (gap,) = coverage.gaps
    assert (gap.what, gap.since, gap.until) == ("fills", NOON, at(5 + 50 / 1000))


def test_the_oldest_fill_that_the_venue_still_had_is_recorded_and_shown(followed: FollowedDesk, tmp_path):
    old = at(-60 * 24 * 30)
    followed.venue.fills = [fill_json(Fill(id="f", t=old, symbol="ETH", side="buy", qty=D(1), px=D(3400)), D(0), 1)]
    followed.see(0, "10000")
    coverage = venue_coverage(followed.agent)
    assert coverage is not None and coverage.oldest_fill == old
    assert followed.agent.ledger.trades() == []


# ---- what is left out -------------------------------------------------------------------------------------------------------------


def test_spot_and_other_exchanges_are_named_in_the_brief(followed: FollowedDesk):
    followed.see(0, "10000")
    foreign = fill_json(eth(1, "buy", "1"), D(0), 1)
    followed.venue.fills = [foreign | {"coin": "@107"}, foreign | {"coin": "xyz:GOLD", "tid": 2}]
    followed.venue.updates = [update_json(at(1), "borrowLend", token="USDC", operation="supply", amount="5.0", interestAmount="0")]
    followed.see(10, "10000")
    coverage = venue_coverage(followed.agent)
    assert coverage is not None
    assert (coverage.left_out, coverage.unread_updates) == (("@107", "xyz:GOLD"), ("borrowLend",))
    text = followed.brief()
    assert 'Not in this record: fills of "@107" (spot) and xyz:GOLD (another exchange of the venue)' in text
    assert "borrowLend" in text


def test_doctor_names_what_a_followed_account_does_not_show(followed: FollowedDesk, tmp_path):
    server, venue = followed.server, followed.venue
    foreign = fill_json(eth(-900, "buy", "1"), D(0), 1)
    venue.fills = [foreign | {"coin": "@107"}, foreign | {"tid": 2}]
    db = given_store(tmp_path, server)
    assert run_follow(db, server).exit_code == 0
    found = json.loads(CliRunner().invoke(app, ["doctor", "--db", db, "--json"]).stdout)
    notes = "\n".join(found["notes"])
    assert "agent desk follows hyperliquid" in notes
    assert "fills of @107 (spot)" in notes
    assert "The venue's oldest fill is of 2026-06-03 21:00. Earlier history is not available from the venue." in notes


def test_the_page_of_an_agent_names_its_venue_and_what_its_record_lacks(followed: FollowedDesk):
    foreign = fill_json(eth(-900, "buy", "1"), D(0), 1)
    followed.venue.fills = [foreign | {"coin": "@107"}, foreign | {"coin": "<b>:GOLD", "tid": 2}]
    followed.see(0, "10000")
    state_followed_venue(followed.agent, FollowedVenue("hyperliquid", followed.server.url))
    with client_of(followed.memory) as client:
        page = client.get("/agents/desk").text
    assert "<b>:GOLD" not in page
    text = words(page)
    assert f"This agent follows hyperliquid at {followed.server.url}: its perpetuals are read, spot and the exchanges of" in text
    assert "The venue's oldest fill is of 2026-06-03 21:00. Earlier history is not available from the venue." in text
    assert "Not in this record: fills of &lt;b&gt;:GOLD (another exchange of the venue) and @107 (spot)." in text


# ---- the venue's own PnL -------------------------------------------------------------------------------------------------------------


def test_the_venues_own_pnl_agrees_with_the_ledger_over_adds_partial_exits_and_flips(followed: FollowedDesk):
    followed.see(0, "10000")
    fills = [
        eth(1, "buy", "1", "3400"), eth(2, "buy", "2", "3430.5"), eth(3, "sell", "0.7", "3450"), eth(4, "sell", "4", "3390.1"),
        eth(5, "buy", "1.7", "3401"),
    ]  # fmt: skip
    followed.see(10, "10000", None, *fills)
    assert any(D(row["closedPnl"]) for row in followed.venue.fills)
    assert followed.agent.ledger.discrepancies() == []


def test_a_closed_pnl_that_differs_from_the_ledger_is_a_discrepancy_in_words(followed: FollowedDesk):
    followed.see(0, "10000")
    followed.see(10, "10000", None, eth(1, "buy", "1", "3400"), eth(2, "sell", "1", "3450"))
    followed.see(12, "10000", {"ETH": HeldPosition(qty=D(1), entry_px=D(3400), mark=D(3400))}, eth(11, "buy", "1", "3400"))
    row = fill_json(eth(13, "sell", "1", "3450"), D(1), 500, D("49.2"))
    followed.venue.fills.append(row)
    step = followed.see(14, "10000")
    (found,) = [one for one in followed.agent.ledger.discrepancies() if one.why == "pnl_differs"]
    assert (found.stated_pnl, found.ledger_pnl, found.symbol, found.at) == (D("49.2"), D(50), "ETH", at(13))
    assert "discrepancy" in [event.name for event in (step.receipt.concluded if step.receipt else ())]
    assert f"the venue states a PnL of 49.2 for fill {found.fill_id}, the record has 50" in followed.brief()
    assert verify_store(followed.memory).ok


def test_a_rounded_entry_price_of_a_position_held_before_the_record_is_no_difference(followed: FollowedDesk):
    held = HeldPosition(qty=D(2), entry_px=D("3410.3"), mark=D(3420))
    followed.see(0, "10000", {"ETH": held})
    # The venue knows the entry as 3410.333..., and shows it rounded.
    followed.venue.fills = [fill_json(eth(5, "sell", "2", "3420"), D(2), 1, D("19.333334"))]
    followed.see(10, "10000")
    assert [one.why for one in followed.agent.ledger.discrepancies()] == ["adopted"]


@settings(max_examples=examples(15, 300))
@given(
    st.lists(st.tuples(st.sampled_from(["buy", "sell"]), st.integers(1, 40), st.integers(3000, 3900)), min_size=1, max_size=25)
)
def test_at_average_cost_venue_and_ledger_always_agree(steps: list[tuple[str, int, int]]):
    venue, agent = Venue(), desk.given_agent(desk.given_memory(now=NOON + timedelta(days=1)))
    fills = tuple(eth(k, side, str(D(qty) / 10), str(px)) for k, (side, qty, px) in enumerate(steps))
    venue.show(Tick(id="x", t=NOON, fills=fills))
    for fill in hl.fills_from_answer(venue.fills, ADDRESS):
        agent.observe(fill)
    assert agent.ledger.discrepancies() == []
