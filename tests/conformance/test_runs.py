"""Runs, cards and re-examinations on both stores: the same answers, proved and rebuilt alike, as of any moment."""

from __future__ import annotations

from datetime import timedelta

from memtape.engine import Memory
from memtape.engine.proof.audit import rebuild_store, verify_store
from memtape.surfaces.caller import Caller
from memtape.surfaces.registry import find, perform
from tests.runners.desk import BUY, HELD, MONDAY, RunDesk

OWNER = Caller("owner")


def test_a_day_of_runs_is_proved_and_rebuilt(memory: Memory) -> None:
    desk = RunDesk(BUY, "Noted.", {**BUY, "mood": "odd"}, {**BUY, "mood": "odd"}, HELD, database=memory.database)
    desk.configure(active_memory=True, review_decisions=True)
    first = desk.run("scheduled")
    desk.later(5)
    desk.run("chat", "Careful.")
    desk.later(5)
    assert desk.run("scheduled").result == "failed"
    desk.later(5)
    desk.reexamine(first.end.decision)
    desk.memory.agent("gold").runs.reset_session()
    before = verify_store(desk.memory)
    rebuild_store(desk.memory)
    assert before.ok and verify_store(desk.memory).digests == before.digests
    listed = perform(desk.memory, find("list_runs"), {"agent": "gold"}, OWNER)["runs"]
    assert [(run["kind"], run["result"]) for run in listed] == [
        ("re-examination", "ok"), ("scheduled", "failed"), ("chat", "ok"), ("scheduled", "ok"),
    ]  # fmt: skip
    assert desk.agent.runs.session().status == "Fresh"


def test_the_past_shows_what_was_configured_and_carried_then(memory: Memory) -> None:
    desk = RunDesk(BUY, database=memory.database)
    desk.configure(active_memory=True)
    desk.run("scheduled")
    head = desk.agent.head().seq
    desk.later(10)
    desk.run("scheduled")
    desk.later(10)
    desk.configure(active_memory=False)
    assert desk.agent.runs.session().status == "Off"
    assert desk.agent.runs.session(MONDAY + timedelta(minutes=1)).runs_since_reset == 1
    assert desk.agent.runs.session(MONDAY + timedelta(minutes=15), head).runs_since_reset == 1
    assert desk.agent.runs.session(MONDAY + timedelta(minutes=15)).runs_since_reset == 2


def test_another_owner_sees_no_run_no_card_and_no_configuration(memory: Memory) -> None:
    desk = RunDesk(BUY, database=memory.database)
    desk.configure(active_memory=True)
    desk.run()
    desk.memory.declare_card_type({"name": "exit-review", "slots": [{"name": "verdict"}]})
    stranger = Memory(memory.database, owner="stranger", clock=desk.clock)
    stranger.create_skill("breakout")
    stranger.create_agent("gold", skill="breakout")
    assert stranger.agent_config("gold").version == 0
    assert "exit-review" not in stranger.card_types()
    assert stranger.agent("gold").runs.newest() == []
