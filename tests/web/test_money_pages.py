"""The pages of an account with terms, unknown fees and records that do not agree. No browser needed."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from memtape.engine import AgentMemory
from tests.desk import given_agent, given_memory
from tests.web.test_answers import client_of

T = "2026-06-04T{:02d}:00:00Z"
JPY = {"symbol": "USDJPY", "qty": "100000"}


@pytest.fixture
def desk() -> Iterator[tuple[TestClient, AgentMemory]]:
    with given_memory() as memory:
        agent = given_agent(memory, {"settle_seconds": 60, "trade_unit": "flat_to_flat"})
        agent.observe({"symbol": "USDJPY", "base": "USD"}, kind="instrument")
        agent.observe({"symbol": "PERP", "payoff": "inverse", "multiplier": "100"}, kind="instrument")
        agent.observe({"id": "s0", "t": T.format(7), "positions": {}})
        enter = {**JPY, "id": "f1", "t": T.format(8), "side": "buy", "px": "150", "rate": "0.0067", "fee": "0.01", "fee_currency": "BNB",
                 "group": "carry-1"}  # fmt: skip
        agent.observe({"id": "s1", "t": T.format(8), "fills": [enter], "decision": {"symbol": "USDJPY", "stop": "155", "reason": "carry"}})
        agent.observe({**enter, "px": "150.5"}, kind="fill")
        leave = {**JPY, "id": "f2", "t": T.format(9), "side": "sell", "px": "151", "rate": "0.0066", "trigger": "manual"}
        agent.observe(leave, kind="fill")
        perp = {"symbol": "PERP", "px": "50000", "qty": "10", "rate": "50000"}
        agent.observe({**perp, "id": "f3", "t": T.format(9), "side": "buy", "fee": "1"}, kind="fill")
        agent.observe({**perp, "id": "f4", "t": T.format(10), "side": "sell", "qty": "5", "px": "51000"}, kind="fill")
        with client_of(memory) as client:
            yield client, agent


def words(text: str) -> str:
    """A page without its tags."""
    return " ".join(re.sub(r"<[^>]*>", " ", text).replace("&#39;", "'").split())


def test_the_page_of_an_agent_shows_open_money_settings_and_every_discrepancy(desk: tuple[TestClient, AgentMemory]) -> None:
    client, _ = desk
    page = words(client.get("/agents/desk").text)
    assert "Open positions, n = 1: +8.80 USD net so far (realised +9.80 , fees 1.00 , funding 0.00 )." in page
    assert "With the closed trades: +668.80 USD" in page
    assert "60 s that a snapshot may lag behind the fills" in page and "one trade per round trip, from flat to flat" in page
    assert "3 discrepancies between the records of the account" in page
    assert "fee not counted The fee of fill f1, 0.01 BNB, is not counted: its rate is unknown." in page
    assert "fill came again Fill f1 came again with another price; what came first counts." in page
    assert "stop not taken The stop 155.00 is on the wrong side of the entry at 150.00 and was not taken." in page


def test_the_page_of_a_trade_shows_its_terms_and_the_fee_that_is_not_in_it(desk: tuple[TestClient, AgentMemory]) -> None:
    client, agent = desk
    closed, held = (agent.ledger.trades(status=status)[0] for status in ("closed", "open"))
    page = words(client.get(f"/agents/desk/trades/{closed.id}").text)
    assert "fee of 0.01 in BNB not included: rate unknown" in page and "carry-1" in page and "Trigger manual" in page
    assert "on margin: the PnL is converted once, at the exit's rate" in page
    page = words(client.get(f"/agents/desk/trades/{held.id}").text)
    assert "inverse: coin-margined" in page and "100 units per contract" in page and "51,000.00 USD per coin" not in page
    assert "50,000.00 USD per coin" in page and "not included" not in page
