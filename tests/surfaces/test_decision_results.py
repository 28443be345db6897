"""The results of trade decisions as an operation, and the conviction history at an address of its own."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.testclient import TestClient

from memtape.errors import Invalid, Unknown
from memtape.surfaces.http import build_app
from memtape.surfaces.registry import execute
from tests.runners.desk import BUY, HELD, RunDesk


def outcome(status: str, cause: str | None = None, r: str | None = None, **more: Any) -> SimpleNamespace:
    known = {"status": status, "cause": cause, "r": None if r is None else Decimal(r), "counts": True, "source": "bars"}
    return SimpleNamespace(**{**known, **more})


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> dict[str, SimpleNamespace]:
    """What came of decisions, by their id."""
    found: dict[str, SimpleNamespace] = {}
    monkeypatch.setattr("memtape.engine.view.decisions.decision_outcomes", lambda view, ids: [
        SimpleNamespace(decision=id_, **vars(each)) for id_, each in found.items()
    ])  # fmt: skip
    return found


def results(desk: RunDesk, **asked: Any) -> dict[str, Any]:
    return execute(desk.memory, "get_decision_results", asked)


def decide(desk: RunDesk, id: str, agent: str = "gold", **fields: Any) -> None:
    given = {"id": id, "symbol": "BTC", "action": "buy", "card": "trade-decision", "slots": {"thesis": "range broke"}, **fields}
    execute(desk.memory, "record_decision", given, agent=agent)


def test_decisions_of_all_agents_are_listed_by_what_came_of_them(outcomes: dict[str, Any]) -> None:
    desk = RunDesk("")
    desk.memory.create_agent("silver", skill="breakout")
    for hours, (id_, agent) in enumerate([("d1", "gold"), ("d2", "silver"), ("d3", "gold"), ("d4", "silver"), ("d5", "gold")]):
        desk.later(60 * bool(hours))
        decide(desk, id_, agent, stop=98, target=104)
    decide(desk, "no", action="wait", side="long", stop=98, target=104)
    decide(desk, "note", card="research-note", slots={"title": "Dollar", "thesis": "It turns."}, action=None, symbol=None)
    outcomes |= {
        "d1": outcome("resolved", "target", "2"), "d2": outcome("resolved", "stop", "-1"), "d3": outcome("open"),
        "d4": outcome("expired", "expiry", "30", counts=False), "no": outcome("resolved", "target", "5"),
    }  # fmt: skip
    found = results(desk, curve=True)
    assert [row["id"] for row in found["active"]] == ["d3"] and [row["id"] for row in found["closed"]] == ["d4", "d2", "d1"]
    assert [row["id"] for row in found["without_outcome"]] == ["d5"] and [row["id"] for row in found["not_taken"]] == ["no"]
    assert found["listed"] == {"active": 1, "closed": 3, "without_outcome": 1, "not_taken": 1}
    figures = found["figures"]
    assert (figures["n"], figures["total_r"], figures["hit_rate"], figures["profit_factor"]) == (2, "1", "0.5", "2")
    assert [(point["key"], point["total_r"]) for point in found["curve"]] == [("gold/d1", "2"), ("silver/d2", "1")]
    row = found["closed"][2]
    assert (row["agent"], row["stop"], row["target"], row["entry"], row["side"]) == ("gold", "98", "104", None, "long")
    assert row["re_examinable"] is False and found["active"][0]["re_examinable"] is True
    assert [row["id"] for row in results(desk, agent="silver")["closed"]] == ["d4", "d2"]
    assert results(desk, limit=1)["listed"]["closed"] == 3 and len(results(desk, limit=1)["closed"]) == 1


def test_a_window_counts_what_was_decided_in_it(outcomes: dict[str, Any]) -> None:
    desk = RunDesk("")
    decide(desk, "old")
    desk.later(60 * 30)
    decide(desk, "new")
    outcomes |= {"old": outcome("resolved", "target", "2"), "new": outcome("resolved", "stop", "-1")}
    assert results(desk, window="24h")["figures"]["total_r"] == "-1"
    assert results(desk, window="7d")["figures"]["total_r"] == "1" and results(desk)["curve"] == []
    with pytest.raises(Invalid, match="window"):
        results(desk, window="1y")
    with pytest.raises(Unknown, match="agent"):
        results(desk, agent="nobody")


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


def test_two_agents_with_a_decision_of_one_name_must_be_told_apart() -> None:
    desk = RunDesk("")
    desk.memory.create_agent("silver", skill="breakout")
    for agent in ("gold", "silver"):
        decide(desk, "d1", agent)
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
