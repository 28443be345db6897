"""Scheduled runs: due by the store, once after an outage, never twice for one moment, and never under another run."""

from __future__ import annotations

from datetime import timedelta
from threading import Event, Thread

import pytest

from memtape.errors import Conflict, NeedsRebuild
from memtape.workers.run_schedule import RunSchedule, due_agents, end_lost_runs
from tests.runners.desk import BUY, MONDAY, RunDesk


def scheduled(desk: RunDesk, agent: str, slot: object) -> None:
    desk.run("scheduled", agent=agent, slot=slot)


def test_a_schedule_does_not_fire_when_it_is_configured_and_fires_at_its_next_slot():
    desk = RunDesk(BUY)
    desk.configure(schedule="every 15m")
    assert due_agents(desk.memory) == []
    desk.later(14)
    assert due_agents(desk.memory) == []
    desk.later(1)
    assert due_agents(desk.memory) == [("gold", MONDAY + timedelta(minutes=15))]


def test_a_schedule_without_a_runner_does_not_fire_at_once_when_it_gets_one():
    desk = RunDesk(BUY)
    desk.memory.configure_agent("gold", {"schedule": "every 15m"})
    desk.later(24 * 60 + 7)
    desk.configure()
    assert due_agents(desk.memory) == []
    desk.later(8)
    assert [agent for agent, _ in due_agents(desk.memory)] == ["gold"]
    desk.configure(model="openai/gpt-5-mini")
    assert [agent for agent, _ in due_agents(desk.memory)] == ["gold"], "another model is no other schedule"


def test_after_an_outage_of_a_day_one_run_is_due_not_ninety_six():
    desk = RunDesk(BUY)
    desk.configure(schedule="every 15m")
    desk.later(24 * 60 + 7)
    [(agent, slot)] = due_agents(desk.memory)
    scheduled(desk, agent, slot)
    assert due_agents(desk.memory) == []
    assert [run.start.slot for run in desk.agent.runs.newest()] == [MONDAY + timedelta(days=1)]


def test_a_change_that_leaves_the_schedule_alone_does_not_skip_a_slot():
    desk = RunDesk(BUY)
    desk.configure(schedule="every 15m")
    desk.later(15.5)
    desk.configure(review_decisions=True)
    assert [agent for agent, _ in due_agents(desk.memory)] == ["gold"]


def test_two_servers_run_one_slot_once():
    desk = RunDesk(BUY)
    desk.configure(schedule="every 15m")
    desk.later(15)
    [(agent, slot)] = due_agents(desk.memory)
    scheduled(desk, agent, slot)
    with pytest.raises(Conflict):
        scheduled(desk, agent, slot)
    assert len(desk.agent.runs.newest()) == 1


def test_a_failed_run_is_not_repeated_before_its_next_slot():
    desk = RunDesk("no card")
    desk.configure(schedule="every 15m")
    desk.later(15)
    scheduled(desk, *due_agents(desk.memory)[0])
    assert desk.agent.runs.newest()[0].result == "failed" and due_agents(desk.memory) == []


def test_a_spent_budget_is_on_record_as_a_stopped_run_with_its_reason():
    desk = RunDesk(BUY)
    desk.configure(schedule="every 15m", runs_per_day=0)
    desk.later(15)
    scheduled(desk, *due_agents(desk.memory)[0])
    stopped = desk.agent.runs.newest()[0]
    assert (stopped.result, stopped.end.error) == ("stopped", "runs_per_day: 0 of 0 runs of this UTC day are used")


def test_the_schedule_starts_an_agent_once_while_its_run_is_at_work():
    desk = RunDesk(BUY)
    desk.configure(schedule="every 15m")
    desk.later(15)
    begun, may_end = Event(), Event()

    def work(agent: str, slot: object) -> None:
        begun.set()
        assert may_end.wait(10)
        scheduled(desk, agent, slot)

    schedule = RunSchedule(desk.memory, work)
    assert schedule.start_due() == ["gold"] and begun.wait(10)
    assert schedule.start_due() == []
    may_end.set()
    schedule.join(10)
    assert [run.result for run in desk.agent.runs.newest()] == ["ok"]


def test_a_message_during_a_run_waits_its_turn():
    from memtape.runners.conduct import RunTask, conduct_run

    answering, may_answer, order = Event(), Event(), []

    def slowly(question):
        answering.set()
        assert may_answer.wait(10)
        order.append("run")
        return BUY

    desk = RunDesk(slowly, lambda question: order.append("chat") or "Yes.")
    desk.configure(active_memory=True)
    run = Thread(target=desk.run, args=("scheduled",))
    run.start()
    assert answering.wait(10)
    chat = Thread(target=lambda: conduct_run(desk.memory, desk.host, "gold", RunTask(kind="chat", prompt="Still long?")))
    chat.start()
    chat.join(0.7)
    assert chat.is_alive() and order == []
    may_answer.set()
    run.join(10)
    chat.join(10)
    assert order == ["run", "chat"]
    newest, earlier = desk.agent.runs.newest()
    assert newest.start.session_before == earlier.end.session_after


def test_a_run_left_behind_is_ended_as_lost_once_its_lease_is_out():
    desk = RunDesk(BUY)
    desk.configure(schedule="every 15m")
    begun = desk.agent.runs.begin("manual", "Analyse.", runner="claude")
    assert end_lost_runs(desk.memory) == []
    desk.later(2)
    assert end_lost_runs(desk.memory) == [begun.start.id]
    assert end_lost_runs(desk.memory) == []
    assert desk.agent.runs.get(begun.start.id).result == "lost"


def test_a_run_that_keeps_its_lease_is_never_lost():
    desk = RunDesk(BUY)
    desk.configure()
    begun = desk.agent.runs.begin("manual", "Analyse.", runner="claude")
    for _ in range(5):
        desk.later(0.5)
        assert desk.agent.runs.extend(begun)
    assert end_lost_runs(desk.memory) == []


def test_an_agent_whose_record_cannot_be_read_keeps_no_other_from_its_schedule(monkeypatch, caplog):
    desk = RunDesk(BUY)
    desk.memory.create_agent("broken", skill="breakout")
    for name in ("broken", "gold"):
        desk.configure(name, schedule="every 15m")
    desk.later(20)
    runs, last = type(desk.agent.runs), type(desk.agent.runs).last_scheduled

    def fails_for_one(self):
        if self._scope.agent.id == "broken":
            raise NeedsRebuild(stream="broken")
        return last(self)

    monkeypatch.setattr(runs, "last_scheduled", fails_for_one)
    assert [agent for agent, _ in due_agents(desk.memory)] == ["gold"]
    assert "the schedule of broken could not be read" in caplog.text
