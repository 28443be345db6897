"""Who may call what: every operation has a policy, a model is not the broker, and a bound model reaches its own agent alone."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from fastapi.testclient import TestClient
from mcp import Client

import memtape
from memtape.engine import Memory
from memtape.errors import MemtapeError, PermissionDenied
from memtape.surfaces.caller import Caller
from memtape.surfaces.http import build_app
from memtape.surfaces.mcp import build_server
from memtape.surfaces.policy import POLICY, policy_of
from memtape.surfaces.registry import all_operations, find, in_tool_set, perform
from tests.surfaces.parity import Program

GOLD = Caller("model", "gold", bound=True)
FILL = {"id": "f1", "t": "2026-06-01T09:00:00Z", "symbol": "BTC", "side": "buy", "qty": "1", "px": "100"}
REPORTS: dict[str, dict[str, Any]] = {
    "observe_fill": FILL,
    "observe_tick": {"id": "t1", "t": "2026-06-01T09:00:00Z", "positions": {}},
    "observe_equity": {"t": "2026-06-01T09:00:00Z", "equity": "50000"},
    "observe_cash_flow": {"id": "c1", "t": "2026-06-01T09:00:00Z", "usd": "500"},
    "observe_funding": {"id": "u1", "t": "2026-06-01T09:00:00Z", "symbol": "BTC", "usd": "5"},
    "observe_trade": {"trade_id": "w1", "symbol": "BTC", "side": "long", "entry_at": "2026-06-01T09:00:00Z",
                      "exit_at": "2026-06-01T10:00:00Z", "entry_price": "100", "exit_price": "200", "qty": "1", "stop": "99"},
    "observe_bars": {"bars": [{"symbol": "BTC", "t0": "2026-06-01T09:00:00Z", "t1": "2026-06-01T10:00:00Z", "o": "1", "h": "9",
                               "l": "1", "c": "5"}]},
    "record_split": {"symbol": "BTC", "t": "2026-06-01T09:00:00Z", "ratio": "2"},
    "record_dividend": {"symbol": "BTC", "ex_date": "2026-06-01", "usd": "3"},
    "state_instrument": {"symbol": "BTC", "multiplier": "1000"},
}  # fmt: skip


@pytest.fixture
def memory() -> Memory:
    made = memtape.open(":memory:")
    made.create_skill("breakout")
    for name in ("gold", "silver"):
        made.create_agent(name, skill="breakout")
    return made


def test_every_operation_says_who_may_call_it_and_what_it_concerns():
    assert set(POLICY) == set(all_operations())
    for name, known in all_operations().items():
        takes_agent = "agent" in known.params.model_fields
        assert takes_agent == (policy_of(known).concerns == "agent"), name


def test_a_model_that_may_not_report_is_refused_every_report_and_nothing_is_written(memory):
    assert set(REPORTS) == {name for name, policy in POLICY.items() if policy.access == "reports"}
    before = memory.agent("gold").head()
    for name, data in REPORTS.items():
        with pytest.raises(PermissionDenied, match=r"permission denied for a model.*--reports operator"):
            perform(memory, find(name), {"agent": "gold", **data}, GOLD)
    assert memory.agent("gold").head() == before


def test_a_model_reports_for_the_account_if_the_owner_says_so(memory):
    reporting = Caller("model", "gold", bound=True, reports=True)
    assert perform(memory, find("observe_fill"), FILL, reporting)["duplicate"] is False


def test_tools_of_the_owner_are_not_listed_for_a_model():
    listed = in_tool_set(all_operations(), "full", Caller("model"))
    assert all(POLICY[name].access == "model" for name in listed)
    assert set(in_tool_set(all_operations(), "full", Caller("owner"))) == set(all_operations())


def test_a_bound_model_neither_reads_nor_writes_another_agent_by_any_operation(memory):
    perform(memory, find("observe_fill"), {**FILL, "agent": "silver"}, Caller("owner"))
    for known in all_operations().values():
        data = {name: "silver" for name in ("agent", "id", "deployment_id") if name in known.params.model_fields}
        if not data or policy_of(known).access != "model" or known.name in ("create_skill", "show_skill"):
            continue
        with pytest.raises(MemtapeError) as refused:
            perform(memory, known, data, GOLD)
        # A question that is wrong in other ways too may be refused for those first.
        assert "another agent" in str(refused.value) or "required" in str(refused.value) or "should" in str(refused.value), known.name


def test_a_bound_model_sees_no_other_agent_in_lists(memory):
    perform(memory, find("observe_fill"), {**FILL, "agent": "silver"}, Caller("owner"))
    assert [row["id"] for row in perform(memory, find("list_agents"), {}, GOLD)["agents"]] == ["gold"]
    assert "silver" not in str(perform(memory, find("get_my_deployments"), {}, GOLD))
    assert "silver" not in str(perform(memory, find("get_skill_performance"), {"skill_id": "breakout"}, GOLD))
    assert [row["id"] for row in perform(memory, find("list_agents"), {}, Caller("model", "gold"))["agents"]] == ["gold", "silver"]


def _talk(server: Any, what: Any) -> Any:
    async def session() -> Any:
        async with Client(server, mode="2026-07-28") as client:
            return await what(client)

    return anyio.run(session)


def test_resources_and_prompts_of_a_bound_server_are_of_its_agent_alone(memory):
    async def what(client: Client) -> None:
        assert (await client.read_resource("memtape://brief")).contents[0].text
        for ask in (client.read_resource("memtape://brief/silver"), client.get_prompt("weekly_review", {"agent": "silver"}),
                    client.get_prompt("coach", {"agent": "silver"})):  # fmt: skip
            with pytest.raises(Exception, match="another agent"):
                await ask

    _talk(build_server(lambda: memory, agent="gold"), what)


def test_a_server_without_an_agent_names_those_that_exist_and_invents_none(memory):
    async def what(client: Client) -> list[str]:
        answers = [await client.call_tool("get_brief", {}), await client.call_tool("record_decision", {"action": "no_trade", "reason": "x"})]
        assert all(answer.is_error for answer in answers)
        return ["".join(getattr(block, "text", "") for block in answer.content) for answer in answers]

    for text in _talk(build_server(lambda: memory), what):
        assert text == "agent: there is no agent 'main'. There are: gold, silver"
    assert [agent.id for agent in memory.agents()] == ["gold", "silver"]


def test_an_operation_of_the_owner_is_refused_with_the_reason_though_it_is_not_listed(memory):
    async def what(client: Client) -> str:
        answer = await client.call_tool("import_file", {"file": "a.csv", "content": "x"})
        assert answer.is_error
        return "".join(getattr(block, "text", "") for block in answer.content)

    assert _talk(build_server(lambda: memory, agent="gold"), what).startswith("caller: owner only, permission denied for a model. Ask the owner to")


def test_over_http_the_address_binds_to_an_agent(tmp_path):
    db = str(tmp_path / "desk.db")
    with memtape.open(db) as memory:
        memory.create_skill("breakout")
        for name in ("gold", "silver"):
            memory.create_agent(name, skill="breakout")

    async def what(client: Client) -> None:
        assert not (await client.call_tool("get_brief", {})).is_error
        refused = await client.call_tool("get_brief", {"agent": "silver"})
        assert refused.is_error and "another agent" in str(refused.content)

    with Program().serving(db) as address:
        for era in ("legacy", "2026-07-28"):
            async def session(era: str = era) -> None:
                async with Client(f"{address}/mcp?agent=gold", mode=era) as client:
                    await what(client)

            anyio.run(session)


def test_an_address_that_names_two_agents_is_refused(tmp_path):
    call = {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "memtape://brief/silver"}}
    accepts = {"accept": "application/json, text/event-stream"}
    with memtape.open(str(tmp_path / "desk.db")) as memory, TestClient(build_app(memory), base_url="http://127.0.0.1") as client:
        answer = client.post("/mcp?agent=gold&agent=silver", json=call, headers=accepts)
        assert "the address names 2 agents" in answer.json()["error"]["message"]
