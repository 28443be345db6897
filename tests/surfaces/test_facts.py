"""Facts as operations: what a model may and may not do with them, over MCP and in a chat, and what only the owner sees."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import anyio
import pytest
from mcp import Client

from memtape.core.chat_guard import ChatGuard
from memtape.engine import Memory
from memtape.engine.proof.audit import verify_store
from memtape.errors import Conflict, Invalid, MemtapeError, Unknown
from memtape.plugs.clock import FixedClock
from memtape.surfaces.caller import Caller
from memtape.surfaces.mcp import build_server
from memtape.surfaces.registry import all_operations, execute, find, in_tool_set, perform
from tests.conftest import NOON

pytestmark = pytest.mark.any_store

MODEL = Caller("model")
OWNER_ONLY = ("list_facts", "edit_fact", "restore_fact", "promote_fact", "demote_fact")


def call(memory: Memory, name: str, caller: Caller, **data: Any) -> dict[str, Any]:
    return perform(memory, find(name), data, caller)


def stored(memory: Memory) -> list[dict[str, Any]]:
    return execute(memory, "list_facts", {"archived": True})["facts"]


def test_a_model_remembers_and_forgets_and_has_no_way_to_recall():
    coach = in_tool_set(all_operations(), "coach", Caller("model"))
    assert {"remember", "forget"} <= set(coach) and set(OWNER_ONLY).isdisjoint(coach)
    assert {"remember", "forget"}.isdisjoint(in_tool_set(all_operations(), "trader", Caller("model")))


def test_over_mcp_nothing_is_stored_as_asserted_and_the_answer_says_so(memory):
    asked = {"fact": "The owner wants maximum leverage.", "confidence": "asserted", "quote": "maximum leverage"}

    async def talk() -> Any:
        async with Client(build_server(lambda: memory, tools="coach"), mode="2026-07-28") as client:
            return (await client.call_tool("remember", asked)).structured_content

    answer = anyio.run(talk)
    assert answer["confidence"] == "inferred" and "only the owner can assert it" in answer["note"]
    assert [(row["id"], row["confidence"], row["source"]) for row in stored(memory)] == [(answer["id"], "inferred", "chat")]


def test_a_model_that_repeats_the_owners_fact_changes_nothing_of_it(memory):
    own = call(memory, "remember", Caller("owner"), fact="I never trade alts.", confidence="asserted")
    again = call(memory, "remember", MODEL, fact="i never trade alts", confidence="inferred")
    assert again == own and len(stored(memory)) == 1


@pytest.mark.parametrize("name", OWNER_ONLY)
def test_what_is_for_the_owner_is_refused_for_a_model(memory, name):
    id_ = execute(memory, "remember", {"fact": "I never trade alts."})["id"]
    before = stored(memory)
    with pytest.raises(Conflict, match="permission denied for a model"):
        call(memory, name, MODEL, **({} if name == "list_facts" else {"fact_id": id_}))
    with pytest.raises(Conflict, match="permission denied for a model"):
        call(memory, "forget", MODEL, fact_id=id_, shred=True)
    assert stored(memory) == before


def test_a_model_forgets_what_was_inferred_and_not_what_the_owner_asserted(memory):
    guess = execute(memory, "remember", {"fact": "You seem to like breakouts."})["id"]
    own = execute(memory, "remember", {"fact": "I never trade alts.", "confidence": "asserted"})["id"]
    answer = call(memory, "forget", MODEL, fact_id=guess)
    assert (answer["archived_reason"], answer["log_rows"]) == ("agent_forget", 0)
    with pytest.raises(Conflict, match="the owner asserted this fact"):
        call(memory, "forget", MODEL, fact_id=own)
    assert [row["id"] for row in execute(memory, "list_facts", {})["facts"]] == [own]


def test_in_our_own_chat_the_guard_of_the_caller_decides_and_not_what_the_model_sends(memory):
    chat = ChatGuard().after_owner("I risk 1 % a trade, no more.")
    said = {"fact": "You risk at most 1 % a trade.", "confidence": "asserted", "quote": "I risk 1 % a trade"}
    assert call(memory, "remember", Caller("model", chat=chat), **said)["confidence"] == "asserted"
    tainted = Caller("model", chat=chat.after_tool("search_documents"))
    with pytest.raises(Conflict, match="a tool has answered since the owner last spoke"):
        call(memory, "remember", tainted, fact="You want ten times the size.")
    for field in ("chat", "owner_messages", "tool_answered"):
        with pytest.raises(Invalid):
            call(memory, "remember", tainted, fact="You want ten times the size.", **{field: False})
    assert len(stored(memory)) == 1


def test_the_owner_sees_every_column_and_what_is_stale(memory):
    memory.resources.clock = clock = FixedClock(NOON)
    memory.create_skill("gold")
    asked = {"fact": "Half the size.", "topic": "risk", "skill": "gold", "confidence": "asserted"}
    id_ = execute(memory, "remember", asked)["id"]
    clock.at += timedelta(days=60)
    (row,) = execute(memory, "list_facts", {})["facts"]
    assert row == {
        "id": id_, "fact": "Half the size.", "topic": "risk", "source": "profile", "confidence": "asserted", "skill": "gold",
        "last_referenced_at": None, "referenced": 0, "shown": 0, "created_at": "2026-11-15T12:00:00Z", "archived_at": None,
        "archived_reason": None, "stale": True,
    }  # fmt: skip
    memory.facts.record_referenced([id_], "chat-1/1")
    (row,) = execute(memory, "list_facts", {})["facts"]
    assert (row["stale"], row["referenced"], row["last_referenced_at"]) == (False, 1, "2027-01-14T12:00:00Z")
    assert execute(memory, "list_facts", {"as_of": NOON - timedelta(days=1)})["n"] == 0
    assert execute(memory, "list_facts", {"head": 1})["n"] == 0


def test_archived_facts_are_listed_when_asked_for_and_after_the_others(memory):
    gone = execute(memory, "remember", {"fact": "I trade gold."})["id"]
    kept = execute(memory, "remember", {"fact": "I trade silver."})["id"]
    execute(memory, "forget", {"fact_id": gone, "reason": "user_deleted"})
    assert [row["id"] for row in execute(memory, "list_facts", {})["facts"]] == [kept]
    assert [row["id"] for row in stored(memory)] == [kept, gone]
    assert execute(memory, "restore_fact", {"fact_id": gone})["fact"]["archived_at"] is None


def test_the_owner_destroys_a_fact_and_the_store_still_verifies(memory):
    id_ = execute(memory, "remember", {"fact": "I collect zebraquartz."})["id"]
    execute(memory, "edit_fact", {"fact_id": id_, "fact": "I collect zebraquartz and gold."})
    answer = execute(memory, "forget", {"fact_id": id_, "shred": True})
    assert answer == {"id": id_, "archived_at": None, "archived_reason": None, "log_rows": 2}
    assert stored(memory) == [] and verify_store(memory).ok


@pytest.mark.parametrize(
    ("name", "data", "field"),
    [
        ("remember", {"fact": "abc"}, "fact"), ("remember", {"fact": "x" * 501}, "fact"),
        ("remember", {"fact": "I trade gold.", "topic": "x" * 41}, "topic"),
        ("remember", {"fact": "I trade gold.", "confidence": "certain"}, "confidence"),
        ("edit_fact", {"fact_id": "x", "fact": "abc"}, "fact"), ("edit_fact", {"fact_id": "x", "topic": "x" * 41}, "topic"),
        ("edit_fact", {"fact_id": "x", "skill": "No Spaces"}, "skill"),
        ("forget", {"fact_id": "x", "reason": "bored"}, "reason"), ("list_facts", {"as_of": "2026-06-04T08:00:00"}, "as_of"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_by_its_field(memory, name, data, field):
    with pytest.raises(Invalid) as refused:
        execute(memory, name, data)
    assert refused.value.field == field and len(refused.value.errors) == 1


@pytest.mark.each_store
def test_another_owner_sees_and_changes_nothing(store_url: str, opened: Callable[..., Memory]):
    alice, bob = opened(store_url, "alice"), opened(store_url, "bob")
    id_ = execute(alice, "remember", {"fact": "I never trade alts.", "confidence": "asserted"})["id"]
    before = stored(alice)
    assert stored(bob) == [] and bob.facts.choose().block == "" and bob.facts.all() == []
    for name in ("forget", "edit_fact", "restore_fact", "promote_fact", "demote_fact"):
        with pytest.raises(Unknown):
            execute(bob, name, {"fact_id": id_})
    with pytest.raises(MemtapeError):
        execute(bob, "forget", {"fact_id": id_, "shred": True})
    assert execute(bob, "remember", {"fact": "I never trade alts."})["confidence"] == "inferred"
    assert stored(alice) == before and verify_store(alice).ok and verify_store(bob).ok
