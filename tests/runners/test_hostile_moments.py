"""What happens while a run is at work: outcomes become known, stores are locked, clocks are set back, agents are deleted."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest

from memtape.core.codec import make_id
from memtape.engine.proof.audit import verify_store
from memtape.engine.reexamination import record_answer
from memtape.engine.runs import LEASE_TIME, BusyRun
from memtape.errors import Conflict, Locked
from memtape.runners import conduct
from memtape.runners.protocol import RunnerAnswer
from memtape.surfaces.caller import Caller
from memtape.surfaces.registry import find, perform
from tests.runners.desk import BUY, HELD, MONDAY, RunDesk

OWNER, MODEL = Caller("owner"), Caller("model", "gold")
SETTLING = (1, "100", "105", "99.5", "104.5")  # a bar that reaches the target of BUY


# ---- an outcome that becomes known in mid-run --------------------------------------------------------------------------


def test_an_examination_is_refused_if_the_outcome_became_known_while_the_model_worked():
    def settled_meanwhile(question: Any) -> Any:
        desk.bar(*SETTLING)
        return HELD

    desk = RunDesk(BUY, settled_meanwhile)
    desk.configure()
    first = desk.run()
    desk.later(5)
    again = desk.reexamine(first.end.decision)
    assert again.result == "failed" and "resolved" in again.end.error
    assert desk.agent.runs.examinations() == [] and verify_store(desk.memory).ok


def test_an_answer_is_refused_if_the_outcome_became_known_after_it_was_read(monkeypatch):
    desk = RunDesk(BUY)
    desk.configure()
    first = desk.run()
    begin = type(desk.agent.runs).begin

    def settled_meanwhile(runs: Any, *args: Any, **more: Any) -> Any:
        desk.bar(*SETTLING)
        return begin(runs, *args, **more)

    monkeypatch.setattr(type(desk.agent.runs), "begin", settled_meanwhile)
    with pytest.raises(Conflict, match="cannot be examined again: resolved"):
        record_answer(desk.agent, first.end.decision, HELD, by="owner")
    monkeypatch.undo()
    assert desk.agent.runs.examinations() == [] and desk.agent.runs.newest()[0].result == "failed"
    desk.later(1)
    assert desk.run().result == "ok", "no lease is left behind"


# ---- a decision that somebody planted ----------------------------------------------------------------------------------


def test_a_decision_planted_under_the_id_of_the_next_run_does_not_take_its_place():
    desk = RunDesk(BUY)
    desk.configure()
    planted = make_id("gold", "run", desk.agent.head().seq + 2)
    perform(desk.memory, find("record_decision"), {"id": planted, "symbol": "ETH", "action": "sell", "reason": "planted"}, MODEL)
    run = desk.run()
    assert run.id == planted and run.result == "ok"
    card = desk.agent.ledger.decision_card(run.end.decision)
    assert (card.decision.symbol, card.decision.action, card.decision.run.id) == ("BTC", "buy", run.id)
    assert desk.agent.ledger.decision(planted).decision.symbol == "ETH"
    assert verify_store(desk.memory).ok


# ---- a store that is locked at the end ---------------------------------------------------------------------------------


def locked(times: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Refuse the first writes at the end of a run, as a locked store does."""
    from memtape.engine.agent import AgentMemory

    left, end_run = [times], AgentMemory.end_run

    def end(agent: Any, *args: Any, **more: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise Locked(url="desk.db", seconds=5)
        return end_run(agent, *args, **more)

    monkeypatch.setattr(AgentMemory, "end_run", end)
    return left


def test_a_store_that_is_locked_at_the_end_is_tried_again_and_the_answer_is_kept(monkeypatch):
    desk = RunDesk(BUY)
    desk.configure(active_memory=True)
    left = locked(3, monkeypatch)
    run = desk.run()
    assert (run.result, left) == ("ok", [0])
    assert desk.agent.ledger.decision(run.end.decision) is not None


def test_an_answer_that_can_never_be_recorded_is_written_to_the_log_of_the_program(monkeypatch, caplog):
    desk = RunDesk(RunnerAnswer(text="Buy BTC at 100.", data=BUY))
    desk.configure()
    locked(1_000, monkeypatch)
    monkeypatch.setattr(conduct, "RECORD_SECONDS", 0.0)
    with caplog.at_level(logging.ERROR), pytest.raises(Locked):
        desk.run()
    assert "Buy BTC at 100." in caplog.text


def test_the_text_of_an_answer_that_did_not_fit_stays_on_record():
    desk = RunDesk("I would buy, but not today.")
    desk.configure()
    assert desk.run().end.text == "I would buy, but not today."


# ---- clocks ------------------------------------------------------------------------------------------------------------


def test_a_clock_that_is_set_back_hides_no_run_that_was_left_behind():
    desk = RunDesk(BUY)
    desk.configure(active_memory=True)
    desk.run("scheduled")
    desk.later(-60)
    left = desk.agent.runs.begin("scheduled", "Analyse BTC.", runner="claude")
    desk.later(3)
    last = desk.run()
    assert [run.result for run in desk.agent.runs.newest()] == ["ok", "lost", "ok"]
    assert desk.agent.runs.get(left.start.id).result == "lost"
    assert desk.agent.runs.session().resume == last.end.session_after, "the session goes on with the run that ended last"


def test_a_reset_counts_although_the_clock_was_set_back():
    desk = RunDesk(BUY)
    desk.configure(active_memory=True)
    desk.run("scheduled")
    desk.later(-60)
    assert desk.agent.runs.reset_session().status == "Fresh"
    desk.run("scheduled")
    assert desk.agent.runs.session().runs_since_reset == 1


def test_a_lease_taken_before_the_clock_was_set_back_ends_like_any_other():
    desk = RunDesk(BUY)
    desk.configure()
    left = desk.agent.runs.begin("manual", "Analyse BTC.", runner="claude")
    desk.later(-600)
    assert isinstance(desk.agent.runs.begin("manual", "x", runner="claude"), BusyRun), "its process may be alive"
    desk.clock.at += LEASE_TIME + timedelta(seconds=1)
    assert desk.run().result == "ok"
    assert desk.agent.runs.get(left.start.id).result == "lost"


# ---- agents that are deleted or reconfigured ---------------------------------------------------------------------------


def test_an_agent_deleted_in_mid_run_records_nothing_more():
    def deleted_meanwhile(question: Any) -> Any:
        desk.memory.delete_agent("gold", "gold")
        return BUY

    desk = RunDesk(deleted_meanwhile)
    desk.configure()
    with pytest.raises(Conflict, match="was deleted"):
        desk.run()
    assert verify_store(desk.memory).ok


def test_a_runner_removed_in_mid_run_ends_that_run_as_usual():
    def removed_meanwhile(question: Any) -> Any:
        desk.memory.configure_agent("gold", {"runner": None, "active_memory": False, "card": None})
        return BUY

    desk = RunDesk(removed_meanwhile)
    desk.configure(active_memory=True)
    desk.later(1)
    assert desk.run().result == "ok" and desk.agent.runs.session().status == "Off"


# ---- budgets -----------------------------------------------------------------------------------------------------------


def test_answers_that_a_model_gives_do_not_use_up_the_runs_of_the_day():
    desk = RunDesk(BUY)
    desk.configure(runs_per_day=2)
    first = desk.run()
    for _ in range(5):
        desk.later(1)
        perform(desk.memory, find("reexamine_decision"), {"decision": first.end.decision, "answer": HELD}, MODEL)
    assert desk.agent.runs.spending().runs == 1
    assert desk.run().result == "ok"
    desk.later(1)
    assert desk.run().end.error == "runs_per_day: 2 of 2 runs of this UTC day are used"


def test_a_run_that_goes_over_midnight_belongs_to_the_day_on_which_it_began():
    def over_midnight(question: Any) -> Any:
        desk.clock.at = MONDAY.replace(day=3, hour=0, minute=4)
        return BUY

    desk = RunDesk(over_midnight)
    desk.configure(runs_per_day=1)
    desk.clock.at = MONDAY.replace(hour=23, minute=59)
    assert desk.run().result == "ok"
    assert desk.run().result == "ok", "the new day has its own run"
    assert desk.run().result == "stopped"


# ---- cards inside a tick -----------------------------------------------------------------------------------------------


def tick(desk: RunDesk, number: int, **decision: Any) -> dict[str, Any]:
    at = (desk.clock.at + timedelta(seconds=number)).isoformat()
    data = {"agent": "gold", "id": f"t{number}", "t": at, "marks": {"BTC": "100"}, "decision": {"symbol": "BTC", **decision}}
    return perform(desk.memory, find("observe_tick"), data, OWNER)


def test_a_card_inside_a_tick_is_followed_like_one_that_is_recorded_alone():
    desk = RunDesk(BUY)
    tick(desk, 1, action="buy", side="long", card="trade-decision", slots={"thesis": "x", "stop": 98, "target": 104})
    desk.bar(1, "100", "105", "99.5", "104.5")
    assert desk.agent.outcomes.of("t1").status == "resolved"
    assert desk.agent.ledger.decision("t1").decision.slots == {"thesis": "x"}


@pytest.mark.parametrize(
    ("stated", "problem"),
    [({"card": "haiku", "slots": {"a": "b"}}, "haiku"), ({"card": "trade-decision", "slots": {"mood": "sad"}}, "mood")],
)
def test_a_tick_with_a_card_that_does_not_fit_is_recorded_as_stated_and_says_so(stated, problem):
    desk = RunDesk(BUY)
    done = tick(desk, 1, action="buy", **stated)
    [event] = [event for event in done["concluded"] if event["event"] == "card_misfit"]
    assert event["decision"] == "t1" and problem in event["problem"]
    assert desk.agent.ledger.decision("t1").decision.slots == stated["slots"]
    assert verify_store(desk.memory).ok
