"""The results of trade decisions as an operation, and the conviction history at an address of its own."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

from memtape.errors import Invalid, Unknown
from memtape.surfaces.http import build_app
from memtape.surfaces.registry import execute
from tests.runners.desk import BUY, HELD, RunDesk


def results(desk: RunDesk, **asked: Any) -> dict[str, Any]:
    return execute(desk.memory, "get_decision_results", asked)


def decide(desk: RunDesk, symbol: str, agent: str = "gold", **fields: Any) -> None:
    """A decision to buy at the market with 2 at risk and 4 to win, named after its symbol."""
    card = {"id": symbol.lower(), "symbol": symbol, "action": "buy", "side": "long", "card": "trade-decision", "stop": 98, "target": 104}
    execute(desk.memory, "record_decision", {**card, "slots": {"thesis": "range broke"}, **fields}, agent=agent)


def hour(desk: RunDesk, symbol: str, o: str, h: str, l: str, c: str, agent: str = "gold") -> None:  # noqa: E741
    """The bar of the hour that begins now; the time is then its end, when everything of the hour is told."""
    start, end = desk.clock.at, desk.clock.at + timedelta(hours=1)
    bar = {"symbol": symbol, "t0": start, "t1": end, "o": o, "h": h, "l": l, "c": c}
    desk.clock.at = end
    desk.memory.agent(agent).observe({"bars": [bar]}, kind="bars")
    desk.clock.at = start


def test_decisions_of_all_agents_are_listed_by_what_came_of_them() -> None:
    desk = RunDesk("")
    desk.memory.create_agent("silver", skill="breakout")
    decide(desk, "WON")
    decide(desk, "LOST", "silver")
    decide(desk, "HELD")
    decide(desk, "TINY", entry_price=100)
    decide(desk, "NO", action="wait", side="long")
    decide(desk, "ODD", "silver", stop=None, target=None)
    decide(desk, "NOTE", card="research-note", slots={"title": "Dollar", "thesis": "It turns."}, action=None)
    hour(desk, "WON", "100", "105", "99", "104")
    hour(desk, "LOST", "100", "101", "97", "98", "silver")
    hour(desk, "HELD", "100", "101", "99", "100")
    hour(desk, "TINY", "98.1", "105", "98.05", "104")
    hour(desk, "NO", "100", "105", "99", "104")
    desk.later(60)
    found = results(desk, curve=True)
    assert [row["id"] for row in found["active"]] == ["held"] and [row["id"] for row in found["closed"]] == ["lost", "won", "tiny"]
    assert [row["id"] for row in found["without_outcome"]] == ["odd"] and [row["id"] for row in found["not_taken"]] == ["no"]
    assert found["listed"] == {"active": 1, "closed": 3, "without_outcome": 1, "not_taken": 1}
    figures = found["figures"]
    assert (figures["n"], figures["total_r"], figures["hit_rate"], figures["profit_factor"]) == (2, "1", "0.5", "2")
    assert figures["not_counted"] == 1 and found["closed"][2]["counts"] is False
    assert [(point["key"], point["total_r"]) for point in found["curve"]] == [("gold/won", "2"), ("silver/lost", "1")]
    row = found["closed"][1]
    assert (row["agent"], row["stop"], row["target"], row["entry"], row["side"]) == ("gold", "98", "104", None, "long")
    assert row["re_examinable"] is False and found["active"][0]["re_examinable"] is True and row["closed_at"] == "2026-03-02T11:00:00Z"
    assert [row["id"] for row in results(desk, agent="silver")["closed"]] == ["lost"]
    assert results(desk, limit=1)["listed"]["closed"] == 3 and len(results(desk, limit=1)["closed"]) == 1
    assert results(desk, as_of="2026-03-02T10:30:00Z")["listed"]["closed"] == 0


def test_a_window_counts_what_closed_in_it() -> None:
    desk = RunDesk("")
    decide(desk, "OLD")
    decide(desk, "SLOW", expiry_bars=100)
    hour(desk, "OLD", "100", "105", "99", "104")
    hour(desk, "SLOW", "100", "101", "99", "100")
    desk.later(60 * 30)
    hour(desk, "SLOW", "100", "101", "97", "98")
    desk.later(60)
    assert results(desk, window="24h")["figures"]["total_r"] == "-1"
    assert results(desk, window="7d")["figures"]["total_r"] == "1" and results(desk)["curve"] == []
    with pytest.raises(Invalid, match="window"):
        results(desk, window="1y")
    with pytest.raises(Unknown, match="agent"):
        results(desk, agent="nobody")


def test_what_the_owner_states_of_a_decision_is_what_counts() -> None:
    desk = RunDesk("")
    decide(desk, "WON")
    hour(desk, "WON", "100", "105", "99", "104")
    desk.later(60)
    execute(desk.memory, "record_outcome", {"decision": "won", "status": "resolved", "r": "0.5", "cause": "closed"}, agent="gold")
    (row,) = results(desk)["closed"]
    assert (row["r"], row["cause"], row["source"]) == ("0.5", "closed", "stated") and results(desk)["figures"]["total_r"] == "0.5"


def test_the_latest_conviction_stands_in_the_row() -> None:
    desk = RunDesk(BUY, HELD, {**HELD, "conviction_score": 35})
    desk.configure()
    run = desk.run()
    for _ in range(2):
        desk.later(60)
        desk.reexamine(run.id)
    (row,) = results(desk)["active"]
    assert (row["id"], row["run"], row["conviction"]) == (run.id, run.id, 35)


# ---- GET /v1/runs/{run}/re-examinations ----------------------------------------------------------------------------------


@pytest.fixture
def examined() -> Iterator[tuple[RunDesk, str]]:
    """A desk whose agent bought and examined that again once."""
    desk = RunDesk(BUY, HELD)
    desk.memory.create_agent("silver", skill="breakout")
    desk.configure()
    run = desk.run()
    desk.reexamine(run.id)
    yield desk, run.id


def client_of(desk: RunDesk, agent: str | None = None) -> TestClient:
    return TestClient(build_app(desk.memory, mcp=False, agent=agent), base_url="http://127.0.0.1")


def test_a_run_has_its_conviction_history_at_its_own_address(examined: tuple[RunDesk, str]) -> None:
    desk, run = examined
    for agent, query in ((None, ""), (None, "?agent=gold"), ("gold", ""), ("silver", "?agent=gold")):
        answer = client_of(desk, agent).get(f"/v1/runs/{run}/re-examinations{query}")
        assert answer.status_code == 200 and answer.json()["agent"] == "gold" and answer.json()["n"] == 1
        assert answer.json()["examinations"][0]["conviction_score"] == 62


@pytest.mark.parametrize(
    ("agent", "path", "status"),
    [(None, "nothing/re-examinations", 404), ("silver", "{run}/re-examinations", 404), (None, "{run}/re-examinations?agent=nobody", 404),
     (None, "{run}/re-examinations?limit=3", 422)],
)  # fmt: skip
def test_what_that_address_does_not_know_is_a_problem(
    examined: tuple[RunDesk, str], agent: str | None, path: str, status: int
) -> None:
    desk, run = examined
    answer = client_of(desk, agent).get(f"/v1/runs/{path.format(run=run)}")
    assert answer.status_code == status and answer.headers["content-type"] == "application/problem+json"


def test_a_run_that_an_agent_names_itself_has_the_history_of_its_decision() -> None:
    desk = RunDesk("")
    decide(desk, "BTC", run={"id": "r7"})
    answer = {"conviction_score": 40, "notes": "It stalled.", "suggested_action": "CLOSE"}
    execute(desk.memory, "reexamine_decision", {"decision": "btc", "answer": answer}, agent="gold")
    for named in ("r7", "btc"):
        found = client_of(desk).get(f"/v1/runs/{named}/re-examinations").json()
        assert [one["conviction_score"] for one in found["examinations"]] == [40]


def test_two_agents_with_a_decision_of_one_name_must_be_told_apart() -> None:
    desk = RunDesk("")
    desk.memory.create_agent("silver", skill="breakout")
    for agent in ("gold", "silver"):
        decide(desk, "D1", agent)
    client = client_of(desk)
    answer = client.get("/v1/runs/d1/re-examinations")
    assert answer.status_code == 409 and "gold, silver" in answer.json()["detail"]
    assert client.get("/v1/runs/d1/re-examinations?agent=silver").json()["n"] == 0


def test_the_address_is_in_the_openapi_document() -> None:
    document = client_of(RunDesk("")).get("/v1/openapi.json").json()
    described = document["paths"]["/v1/runs/{run}/re-examinations"]["get"]
    assert [each["name"] for each in described["parameters"]] == ["run", "agent"]
    answers = described["responses"]["200"]["content"]["application/json"]["schema"]
    assert answers == {"$ref": "#/components/schemas/ReexaminationList"} and "default" in described["responses"]
