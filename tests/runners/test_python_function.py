"""A Python function runs an agent: it answers, calls tools, crashes, or cannot be found."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from memtape.errors import Conflict, Invalid, RunFailed
from memtape.plugs.clock import FixedClock
from memtape.runners.protocol import RunnerAnswer, RunQuestion, RunTool
from memtape.runners.python_function import callable_runner
from tests.runners.questions import ACTION_SCHEMA, EIGHT, PriceFeed, TickingClock, earlier_run, question


def run(function: Any, **asked: Any) -> RunnerAnswer:
    return callable_runner(function, FixedClock(EIGHT)).run(question(**asked))


def failure(target: Any, **asked: Any) -> RunFailed:
    with pytest.raises(RunFailed) as raised:
        callable_runner(target, TickingClock()).run(question(**asked))
    return raised.value


def test_a_text_a_mapping_and_a_whole_answer_are_answers():
    assert run(lambda question: f"Hold: {question.prompt}") == RunnerAnswer(text="Hold: What now?")
    given = run(lambda question: {"action": "WAIT", "entry": Decimal("65000.5")}, schema=ACTION_SCHEMA)
    assert given.data == {"action": "WAIT", "entry": Decimal("65000.5")}
    assert given.text == '{"action": "WAIT", "entry": "65000.5"}'
    whole = RunnerAnswer(text="WAIT", data={"action": "WAIT"}, note="from the desk")
    assert run(lambda question: whole) == whole


def test_a_function_keeps_no_session_and_is_given_the_runs_of_the_session_from_the_log():
    earlier = earlier_run("r1", "What now?", "WAIT")
    given = run(lambda question: question.transcript[-1].end.text, transcript=[earlier], keep_session=True, session="r1")
    assert (given.text, given.session) == ("WAIT", None)


def test_each_tool_call_is_a_step_with_its_time_and_what_came_back():
    feed = PriceFeed()

    def decide(question: RunQuestion) -> str:
        price = question.tools[0].call
        return f"{price({'symbol': 'DOGE'}).is_error} {price({'symbol': 'BTC'}).text}"

    given = callable_runner(decide, TickingClock()).run(question(tools=[feed.tool()]))
    assert given.text == "True 65000.5"
    assert feed.asked == [{"symbol": "DOGE"}, {"symbol": "BTC"}]
    assert [(step.tool, step.input, step.text, step.is_error, step.turn, step.ms) for step in given.steps] == [
        ("get_price", {"symbol": "DOGE"}, "symbol: there is no 'DOGE'. Ask for BTC", True, 0, 250),
        ("get_price", {"symbol": "BTC"}, "65000.5", False, 1, 250),
    ]
    assert given.steps[0].at > EIGHT and given.steps[1].at > given.steps[0].at


def test_a_tool_that_memtape_refuses_answers_with_the_reason():
    def refuse(input: Any) -> Any:
        raise Conflict("id", "this decision was recorded before", "Use another id")

    tool = RunTool("record_decision", "Record a decision.", {"type": "object"}, refuse)
    assert run(lambda question: question.tools[0].call({}).text, tools=[tool]).text.startswith("id: this decision was recorded")


def test_whatever_the_function_raises_is_a_crashed_run_that_keeps_its_steps():
    def crash(question: RunQuestion) -> str:
        question.tools[0].call({"symbol": "BTC"})
        raise ZeroDivisionError("stop equals entry")

    failed = failure(crash, tools=[PriceFeed().tool()])
    assert (failed.what, str(failed)) == ("crashed", "callable: the function raised ZeroDivisionError: stop equals entry.")
    assert [step.tool for step in failed.steps] == ["get_price"]

    def leave(question: RunQuestion) -> str:
        raise SystemExit(3)

    assert failure(leave).what == "crashed"


def test_a_key_in_the_message_of_a_crash_is_not_kept():
    def crash(question: RunQuestion) -> str:
        raise RuntimeError("login with sk-" + "a1B2" * 8)

    assert failure(crash).problem == "the function raised RuntimeError: login with (redacted)"


def test_an_answer_of_another_kind_is_refused():
    failed = failure(lambda question: None)
    assert (failed.what, failed.problem) == ("bad_answer", "the function returned NoneType")
    assert "not JSON: TypeError" in failure(lambda question: {("a", "pair"): 1}).problem


def test_a_function_is_found_in_a_file_and_a_changed_file_counts_from_the_next_run_on(tmp_path: Path):
    file = tmp_path / "desk.py"
    body = "from __future__ import annotations\nfrom dataclasses import dataclass\n@dataclass\nclass View:\n    side: str\n"
    file.write_text(body + "def decide(question):\n    return View('long').side\n")
    runner = callable_runner(f"{file}:decide", FixedClock(EIGHT))
    assert runner.run(question()).text == "long"
    file.write_text(body + "def decide(question):\n    return View('flat').side\n")
    assert runner.run(question()).text == "flat"


def test_a_function_is_found_in_a_package():
    assert callable_runner("json:dumps", FixedClock(EIGHT)).name == "callable"
    assert failure("json:dumps").what == "crashed"  # found and called


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("no.such.package:decide", "no.such.package cannot be imported: ModuleNotFoundError"),
        ("json:decide", "json has no function 'decide'"),
        ("/no/such/file.py:decide", "/no/such/file.py cannot be imported: FileNotFoundError"),
    ],
)
def test_a_function_that_is_not_there_is_named(target: str, says: str):
    failed = failure(target)
    assert failed.what == "not_configured" and says in str(failed)


@pytest.mark.parametrize("target", ["decide", "desk.py:decide", "desk:", ":decide", "a b:decide", "desk:de cide", ""])
def test_a_target_of_another_form_is_refused(target: str):
    with pytest.raises(Invalid, match=r"runner: .*Write package\.module:function"):
        callable_runner(target)
