"""Runners are somebody else's code: whatever they return, the record of the agent can be read afterwards."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from memtape.core.decisions.runs import MAX_RUN_STEPS, RunStep, RunUsage
from memtape.engine.proof.audit import verify_store
from memtape.errors import Invalid
from memtape.runners.claude_command import command_line
from memtape.runners.protocol import RunnerAnswer
from memtape.runners.python_function import callable_runner
from memtape.surfaces.caller import Caller
from memtape.surfaces.registry import find, perform
from memtape.surfaces.run_host import run_host
from tests.runners.desk import BUY, HELD, MONDAY, RunDesk
from tests.runners.questions import question


def said(number: int) -> RunStep:
    return RunStep(at=MONDAY, turn=number, kind="text", text="looking")


def is_readable(desk: RunDesk) -> bool:
    """The runs can be listed, the next one can begin, and the store is proved."""
    listed = desk.agent.runs.newest()
    desk.later(5)
    desk.runner.replies[:] = [BUY]
    return bool(listed) and desk.run().result == "ok" and verify_store(desk.memory).ok


def test_steps_of_two_attempts_are_cut_at_what_the_log_takes():
    steps = tuple(said(number) for number in range(400))
    desk = RunDesk(RunnerAnswer(text="no card", steps=steps))
    desk.configure()
    run = desk.run()
    assert run.result == "failed" and len(desk.agent.runs.get(run.id).end.steps) == MAX_RUN_STEPS
    assert is_readable(desk)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"session": "s" * 1_000}, "session"), ({"session": "a\nb"}, "session"),
        ({"usage": RunUsage(cost_usd=Decimal(-5))}, "cost_usd"), ({"usage": RunUsage(cost_usd=Decimal("NaN"))}, "cost_usd"),
        ({"usage": RunUsage(input_tokens=-1)}, "input_tokens"), ({"usage": {"cost_usd": "free"}}, "cost_usd"),
        ({"steps": (RunStep(at=MONDAY, turn=-1, kind="text"),)}, "turn"), ({"text": 5}, "text"), ({"data": [1, 2]}, "data"),
        ({"data": {1: "buy"}}, "data"),
    ],
)  # fmt: skip
def test_an_answer_that_cannot_be_recorded_fails_its_run_and_nothing_else(wrong: dict[str, Any], field: str):
    desk = RunDesk(RunnerAnswer(**{"text": "", "data": BUY, **wrong}))
    desk.configure(active_memory=True)
    run = desk.run()
    assert run.result == "failed" and field in run.end.error
    assert desk.agent.ledger.decisions() == [] and is_readable(desk)


def test_half_characters_and_endless_texts_are_cut_and_recorded():
    desk = RunDesk(RunnerAnswer(text="\ud83d" + "x" * 300_000, data=BUY, note="n" * 5_000))
    desk.configure()
    run = desk.run()
    stored = desk.agent.runs.get(run.id).end
    assert (run.result, len(stored.text), len(stored.note), stored.text[0]) == ("ok", 200_000, 2_000, "?")
    assert is_readable(desk)


def test_a_function_that_returns_a_broken_answer_fails_its_run():
    desk = RunDesk(BUY)
    desk.configure()
    desk.host = run_host(desk.memory, lambda config: callable_runner(lambda question: RunnerAnswer(text=None)))  # type: ignore[arg-type]
    assert "text" in desk.run().end.error


def test_a_long_name_of_a_model_is_recorded_and_read():
    desk = RunDesk(BUY)
    desk.configure(model="openai/cognitivecomputations/dolphin-mistral-24b-venice-edition:free")
    assert desk.run().result == "ok" and is_readable(desk)


def test_a_prompt_that_the_log_cannot_hold_is_refused_before_anything_is_written():
    desk = RunDesk("Hello.")
    desk.configure()
    for prompt in ("x" * 250_000, "half a pair \ud83d"):
        with pytest.raises(Invalid, match="prompt"):
            desk.run("chat", prompt)
    assert desk.agent.runs.newest() == [] and desk.agent.head().seq == 0


def test_what_an_answer_to_a_reexamination_has_beside_its_fields_is_not_recorded():
    desk = RunDesk(BUY)
    desk.configure()
    first = desk.run()
    padded = {**HELD, "essay": "x" * 300_000}
    asked = {"agent": "gold", "decision": first.end.decision, "answer": padded}
    done = perform(desk.memory, find("reexamine_decision"), asked, Caller("model", "gold"))
    assert "essay" not in desk.agent.runs.get(done["run"]).end.text and is_readable(desk)


def test_a_null_character_in_a_strategy_does_not_break_the_command_of_claude(tmp_path):
    command = command_line("claude", question(system="Read the\0 dollar."), tmp_path)
    assert "Read the dollar." in command and not any("\0" in word for word in command)
