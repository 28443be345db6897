"""Runs of an agent: begun and ended on record, one at a time, within a budget, with a session that remembers or none."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from memtape.core.codec import time_text
from memtape.engine.proof.audit import verify_store
from memtape.errors import Conflict, Invalid, Unknown
from memtape.runners.protocol import RunnerAnswer
from memtape.surfaces.caller import Caller
from memtape.surfaces.registry import find, perform
from tests.runners.desk import BUY, HELD, MONDAY, RunDesk, cost

OWNER, MODEL = Caller("owner"), Caller("model", "gold")


def test_a_run_is_on_record_with_its_prompt_its_decision_and_its_cost():
    desk = RunDesk(BUY, usage=cost("0.25"))
    desk.configure()
    run = desk.run()
    assert (run.result, run.start.kind, run.start.prompt) == ("ok", "manual", "Analyse BTC.")
    assert run.end.usage.cost_usd == cost("0.25").cost_usd
    card = desk.agent.ledger.decision_card(run.end.decision)
    assert (card.decision.symbol, str(card.decision.stop), card.decision.run.id) == ("BTC", "98", run.id)
    assert card.slots["watch_for"] == ("retest holds", "volume stays")
    assert desk.agent.runs.get(run.id) == run
    assert verify_store(desk.memory).ok


def test_limits_avoid_rules_and_records_ride_in_the_prompt_and_the_runs_own_prompt_comes_last():
    desk = RunDesk(BUY)
    desk.configure()
    desk.run(prompt="Only look at BTC.")
    asked = desk.runner.questions[0]
    assert "Never average down." in asked.prompt and "Never average down." in asked.system
    assert asked.prompt.endswith("# This run\n\nOnly look at BTC.")
    assert "get_my_decisions" not in asked.prompt and "get_my_decisions" not in [tool.name for tool in asked.tools]


def test_with_review_on_the_run_is_told_to_ask_for_its_decisions_and_has_the_tool():
    desk = RunDesk(BUY)
    desk.configure(review_decisions=True)
    desk.run()
    desk.later(60)
    desk.run()
    asked = desk.runner.questions[-1]
    assert "get_my_decisions" in asked.prompt
    [tool] = [tool for tool in asked.tools if tool.name == "get_my_decisions"]
    assert "1h ago · BUY · range broke upwards" in tool.call({}).text


def test_the_tools_of_a_run_act_for_its_own_agent_alone():
    desk = RunDesk(BUY)
    desk.memory.create_agent("silver", skill="breakout")
    desk.configure()
    desk.run()
    [tool] = [tool for tool in desk.runner.questions[0].tools if tool.name == "record_decision"]
    refused = tool.call({"agent": "silver", "symbol": "BTC", "action": "sell"})
    assert refused.is_error and "another agent" in refused.text
    assert desk.memory.agent("silver").ledger.decisions() == []
    assert not tool.call({"agent": "gold", "symbol": "BTC", "action": "sell", "reason": "lower high"}).is_error


def test_a_misfit_answer_is_asked_once_more_and_then_fits():
    desk = RunDesk({**BUY, "mood": "bullish"}, BUY)
    desk.configure()
    run = desk.run()
    assert run.result == "ok"
    assert "mood" in desk.runner.questions[1].prompt


def test_two_misfits_fail_the_run_and_write_no_decision():
    desk = RunDesk("I would buy.")
    desk.configure()
    run = desk.run()
    assert run.result == "failed" and "did not fit, twice" in run.end.error
    assert desk.agent.ledger.decisions() == []
    assert verify_store(desk.memory).ok


def test_off_nothing_of_earlier_runs_reaches_the_next_one():
    desk = RunDesk(BUY)
    desk.configure()
    desk.run(prompt="First question.")
    desk.later(15)
    desk.run(prompt="Second question.")
    asked = desk.runner.questions[-1]
    assert (asked.session, asked.transcript, asked.keep_session) == (None, [], False)
    assert "First question." not in asked.prompt
    assert desk.agent.runs.session().status == "Off"


def test_on_chat_and_runs_share_one_session():
    desk = RunDesk(BUY, "Noted.", BUY)
    desk.configure(active_memory=True)
    assert desk.agent.runs.session().status == "Fresh"
    first = desk.run("scheduled")
    desk.later(15)
    chat = desk.run("chat", "Be careful around CPI.")
    desk.later(15)
    desk.run("scheduled", "Analyse again.")
    asked = desk.runner.questions[-1]
    assert [run.start.prompt for run in asked.transcript] == ["Analyse BTC.", "Be careful around CPI."]
    assert asked.transcript[1].end.text == "Noted." and asked.prompt.endswith("Analyse again.")
    assert asked.session == chat.end.session_after != first.end.session_after
    found = desk.agent.runs.session()
    assert (found.status, found.runs_since_reset) == ("Carrying context", 2)


def test_a_reset_starts_fresh_and_keeps_the_messages():
    desk = RunDesk("Hello.")
    desk.configure(active_memory=True)
    desk.run("chat", "Hi.")
    desk.later(1)
    assert perform(desk.memory, find("reset_memory"), {"agent": "gold"}, OWNER)["status"] == "Fresh"
    desk.later(1)
    desk.run("chat", "Who am I?")
    assert desk.runner.questions[-1].session is None
    assert [run.start.prompt for run in desk.agent.runs.newest(kind="chat")] == ["Who am I?", "Hi."]


def test_while_memory_is_off_chat_has_a_session_of_its_own():
    desk = RunDesk("Hello.", BUY, "Again.")
    desk.configure()
    desk.run("chat", "Hi.")
    desk.later(1)
    desk.run("scheduled")
    assert desk.runner.questions[-1].session is None
    desk.later(1)
    desk.run("chat", "Still there?")
    assert [run.start.prompt for run in desk.runner.questions[-1].transcript] == ["Hi."]


def test_an_agent_in_a_simulation_carries_its_session_through_simulated_time():
    desk = RunDesk(BUY)
    desk.memory.create_agent("past", skill="breakout", mode="sim")
    desk.configure("past", active_memory=True)
    past = desk.memory.agent("past")

    def hour(number: int) -> None:
        start = MONDAY.replace(year=2024, hour=number)
        bar = {"symbol": "BTC", "t0": start, "t1": start + timedelta(hours=1), "o": "100", "h": "101", "l": "99", "c": "100"}
        past.observe({"bars": [bar]}, kind="bars")

    hour(8)
    first = desk.run("scheduled", agent="past")
    hour(9)
    second = desk.run("scheduled", agent="past")
    assert second.start.session_before == first.end.session_after and past.runs.session().runs_since_reset == 2
    hour(10)
    assert past.runs.reset_session().status == "Fresh"
    desk.configure("past", active_memory=False)
    assert past.runs.session().status == "Off"


def test_a_failed_run_stores_no_session():
    desk = RunDesk(BUY, "no card", "no card", BUY)
    desk.configure(active_memory=True)
    first = desk.run("scheduled")
    desk.later(1)
    assert desk.run("scheduled").result == "failed"
    desk.later(1)
    desk.run("scheduled")
    assert desk.runner.questions[-1].session == first.end.session_after


def test_a_session_of_another_runner_starts_fresh_and_the_run_says_so():
    desk = RunDesk(RunnerAnswer(text="", data=BUY, session="5d1c-of-claude"), BUY)
    desk.configure(active_memory=True)
    desk.run("scheduled")
    desk.later(1)
    second = desk.run("scheduled")
    assert desk.runner.questions[-1].transcript == [] and "5d1c-of-claude is of another runner" in second.end.note
    desk.later(1)
    third = desk.run("scheduled")
    assert [run.id for run in desk.runner.questions[-1].transcript] == [second.id] and third.end.note is None


def test_the_cost_of_the_session_so_far_is_passed_on():
    desk = RunDesk(RunnerAnswer(text="", data=BUY, session="s1", usage=cost("0.30", "0.30")), BUY)
    desk.configure(active_memory=True)
    desk.run("scheduled")
    desk.later(1)
    desk.run("scheduled")
    asked = desk.runner.questions[-1]
    assert (asked.session, asked.session_cost_usd) == ("s1", Decimal("0.30"))


def test_a_second_run_waits_its_turn_and_is_refused_if_it_does_not_come():
    desk = RunDesk(lambda question: desk.run() and BUY)
    desk.configure()
    with pytest.raises(Conflict, match="is at work"):
        desk.run()
    assert desk.agent.runs.newest()[0].result == "failed"


def test_a_run_whose_process_died_is_lost_and_its_late_answer_is_refused():
    desk = RunDesk(BUY)
    desk.configure(active_memory=True)
    left = desk.agent.runs.begin("scheduled", "Analyse BTC.", runner="claude")
    desk.later(2)
    run = desk.run("scheduled")
    assert run.result == "ok" and desk.agent.runs.get(left.start.id).result == "lost"
    with pytest.raises(Conflict, match="ended as lost"):
        desk.agent.end_run(left, run.end)
    assert desk.agent.runs.session().runs_since_reset == 1
    assert verify_store(desk.memory).ok


def test_a_spent_budget_stops_the_next_run_with_the_reason():
    desk = RunDesk(BUY, usage=cost("0.60"))
    desk.configure(budget_usd_per_day="1.00")
    desk.run("scheduled")
    desk.later(15)
    assert desk.agent.runs.begin("manual", "x", runner="llm").budget_usd == Decimal("0.40")
    desk.later(2)
    desk.run("scheduled")
    desk.later(15)
    stopped = desk.run("scheduled")
    assert (stopped.result, len(desk.runner.questions)) == ("stopped", 2)
    assert stopped.end.error == "budget_usd_per_day: $1.20 of $1.00 of this UTC day are spent"
    desk.later(24 * 60)
    assert desk.run("scheduled").result == "ok"


def test_runs_per_day_stops_further_runs():
    desk = RunDesk(BUY)
    desk.configure(runs_per_day=1)
    assert desk.run().result == "ok"
    desk.later(5)
    assert desk.run().result == "stopped"


def test_a_reexamination_leaves_the_decision_as_it_is_and_the_session_alone():
    desk = RunDesk(BUY, HELD)
    desk.configure(active_memory=True)
    first = desk.run()
    before = desk.memory.agent("gold").head()
    row = desk.hash_of("decision")
    desk.later(60)
    again = desk.reexamine(first.end.decision)
    asked = desk.runner.questions[-1]
    assert (again.result, again.start.kind, again.start.parent) == ("ok", "re-examination", first.id)
    assert (asked.session, asked.keep_session) == (None, False)
    assert "range broke upwards" in asked.prompt and "overrides every other format" in asked.prompt
    card = desk.agent.ledger.decision_card(first.end.decision)
    assert (card.conviction, card.examinations[0].run) == (62, again.id)
    assert card.examinations[0].examination.watch_for == (("retest holds", "played out"), ("volume stays", "pending"))
    assert desk.hash_of("decision") == row
    assert desk.agent.runs.session().resume == first.end.session_after
    assert desk.agent.head().seq > before.seq and verify_store(desk.memory).ok


def test_a_conviction_of_101_is_a_misfit():
    desk = RunDesk(BUY, {**HELD, "conviction_score": 101})
    desk.configure()
    first = desk.run()
    desk.later(60)
    again = desk.reexamine(first.end.decision)
    assert again.result == "failed" and "conviction_score" in again.end.error
    assert desk.agent.runs.examinations() == []


def test_without_a_runner_a_reexamination_returns_the_question_and_records_the_answer():
    desk = RunDesk(BUY)
    desk.configure()
    first = desk.run()
    desk.memory.configure_agent("gold", {"runner": None})
    desk.later(60)
    asked = perform(desk.memory, find("reexamine_decision"), {"decision": first.end.decision}, MODEL)
    assert asked["result"] == "asked" and asked["answer_schema"]["required"][0] == "conviction_score"
    with pytest.raises(Invalid, match="suggested_action"):
        wrong = {**HELD, "suggested_action": "PANIC"}
        perform(desk.memory, find("reexamine_decision"), {"decision": first.end.decision, "answer": wrong}, MODEL)
    done = perform(desk.memory, find("reexamine_decision"), {"decision": first.end.decision, "answer": HELD}, MODEL)
    assert (done["result"], done["examination"]["conviction_score"]) == ("ok", 62)
    listed = perform(desk.memory, find("list_reexaminations"), {"agent": "gold", "run": first.id}, OWNER)
    assert [row["conviction_score"] for row in listed["examinations"]] == [62]


def test_council_members_answer_first_and_are_told_nothing_of_the_account():
    desk = RunDesk(BUY, "Dollar is weak.", HELD)
    desk.memory.create_skill("macro", strategy="Read the dollar.")
    desk.memory.create_agent("macro", skill="macro")
    desk.configure()
    first = desk.run()
    desk.agent.observe({"id": "f1", "t": MONDAY, "symbol": "BTC", "side": "buy", "qty": "7.25", "px": "100.125"}, kind="fill")
    desk.configure(members=["macro"])
    desk.later(60)
    desk.reexamine(first.end.decision)
    member, lead = desk.runner.questions[1:]
    assert (member.tools, member.mcp, member.session, member.transcript) == ((), None, None, [])
    for told in ("7.25", "100.125", "98", "104", first.id, "range broke", "gold", "Analyse BTC."):
        assert told not in member.system + member.prompt
    assert "> Dollar is weak." in lead.prompt and "@ 100.125" in lead.prompt
    of_member = desk.memory.agent("macro").runs.newest()[0]
    assert (of_member.start.kind, of_member.result) == ("council", "ok")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"schedule": "0 0 30 2 *"}, "schedule"), ({"schedule": "hourly"}, "schedule"), ({"runs_per_day": -5}, "runs_per_day"),
        ({"members": ["gold"]}, "members"), ({"members": ["macro", "macro"]}, "members"), ({"colour": "red"}, "colour"),
    ],
)  # fmt: skip
def test_a_configuration_that_cannot_work_is_refused_and_nothing_is_written(changes, field):
    desk = RunDesk(BUY)
    desk.memory.create_agent("macro", skill="breakout")
    with pytest.raises(Invalid) as refused:
        desk.memory.configure_agent("gold", changes)
    assert refused.value.field == field
    assert desk.memory.agent_config("gold").version == 0


def test_a_council_in_a_circle_is_refused():
    desk = RunDesk(BUY)
    desk.memory.create_agent("macro", skill="breakout")
    desk.configure(members=["macro"])
    with pytest.raises(Invalid, match="macro -> gold -> macro"):
        desk.configure("macro", members=["gold"])


def test_an_unknown_card_or_member_is_refused():
    desk = RunDesk(BUY)
    for changes in ({"card": "haiku"}, {"members": ["nobody"]}):
        with pytest.raises(Unknown):
            desk.memory.configure_agent("gold", changes)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("configure_agent", {"agent": "gold", "active_memory": True}), ("reset_memory", {"agent": "gold"}),
        ("run_agent", {"agent": "gold"}), ("send_message", {"agent": "gold", "text": "hi"}),
        ("declare_card_type", {"card": {"name": "x", "slots": [{"name": "a"}]}}),
    ],
)  # fmt: skip
def test_a_model_can_neither_configure_run_nor_reset(name, data):
    desk = RunDesk(BUY)
    desk.configure()
    heads = desk.memory.agent("gold").head(), desk.memory.agent_config("gold")
    with pytest.raises(Conflict, match="owner only"):
        perform(desk.memory, find(name), data, MODEL)
    assert (desk.memory.agent("gold").head(), desk.memory.agent_config("gold")) == heads


def test_the_session_can_be_seen_as_of_an_earlier_moment():
    desk = RunDesk(BUY)
    desk.configure(active_memory=True)
    desk.run("scheduled")
    desk.later(30)
    desk.run("scheduled")
    then = perform(desk.memory, find("get_session"), {"agent": "gold", "as_of": time_text(MONDAY + timedelta(minutes=10))}, OWNER)
    assert (then["runs_since_reset"], then["session_age"]) == (1, "10m")


def test_an_agent_without_a_card_answers_in_free_text_and_takes_no_decision():
    desk = RunDesk("Gold looks heavy.")
    desk.configure(card="")
    run = desk.run()
    assert (run.result, run.end.text, run.end.decision) == ("ok", "Gold looks heavy.", None)
    assert desk.runner.questions[0].schema is None
    assert desk.agent.ledger.decisions() == []


def test_the_latest_conviction_stands_in_the_next_brief_until_the_outcome_is_known():
    desk = RunDesk(BUY, HELD)
    desk.configure()
    first = desk.run()
    desk.later(5)
    desk.reexamine(first.end.decision)
    line = f'- Conviction 62/100 in your open decision, just now: "The retest held." [{first.id[:4]}]'
    assert line in desk.agent.briefs.make().brief.text
    desk.bar(1, "100", "105", "99.5", "104.5")
    assert "Conviction" not in desk.agent.briefs.make().brief.text


def test_a_python_function_cannot_be_set_over_the_network_but_one_that_is_set_stays(tmp_path):
    file = tmp_path / "desk.py"
    file.write_text("def decide(question): ...", encoding="utf-8")
    desk, caller = RunDesk(BUY), Caller("owner", over_network=True)
    asked = {"agent": "gold", "runner": f"callable:{file}:decide"}
    for runner in (asked["runner"], "callable:os:getcwd"):
        with pytest.raises(Invalid, match="cannot be set over HTTP or on a page"):
            perform(desk.memory, find("configure_agent"), {"agent": "gold", "runner": runner}, caller)
    assert desk.memory.agent_config("gold").version == 0
    perform(desk.memory, find("configure_agent"), asked, OWNER)
    kept = perform(desk.memory, find("configure_agent"), {**asked, "review_decisions": True}, caller)
    assert kept["config"]["runner"] == f"callable:{file}:decide" and kept["config"]["review_decisions"]
