"""What a runner returned, in a form that the log takes. A runner may be anybody's code, and its answer is checked once, here.

A record that cannot be read again would be the end of its agent: every later run reads the earlier ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from memtape.core.codec import plain
from memtape.core.decisions.runs import MAX_RUN_NOTE, MAX_RUN_STEPS, NO_USAGE, RunStep, RunUsage
from memtape.core.values import Key, read
from memtape.errors import Invalid, RunFailed
from memtape.runners.protocol import RunnerAnswer
from memtape.runners.steps import storable_text


def storable_answer(runner: str, answer: RunnerAnswer) -> RunnerAnswer:
    """Returns an answer that can be recorded: texts cut and valid, everything else checked.

    Raises RunFailed if its text, data, session, usage or a step is nothing that the log takes.

    >>> storable_answer("callable", RunnerAnswer(text="half a pair \\ud83d")).text
    'half a pair ?'
    >>> storable_answer("callable", RunnerAnswer(text="WAIT", session="two\\nlines"))
    Traceback (most recent call last):
    memtape.errors.RunFailed: callable: its answer cannot be recorded: session: contains a control character (U+000A). ...
    """
    usage, steps = NO_USAGE, ()  # type: RunUsage, tuple[RunStep, ...]
    try:
        usage, steps = _usage(answer.usage), _steps(answer.steps)
        if not isinstance(answer.text, str):
            raise Invalid("text", f"is {type(answer.text).__name__}", "Return a text")
        if answer.data is not None and not _is_json_object(answer.data):
            raise Invalid("data", "is not a JSON object", "Return a mapping of names to values")
        session = None if not answer.session else read(Key, answer.session, at="session")
    except Invalid as wrong:
        problem = f"its answer cannot be recorded: {str(wrong).rstrip('.')}"
        raise RunFailed(runner, problem, usage=usage, steps=steps) from wrong
    note = storable_text(str(answer.note))[:MAX_RUN_NOTE] if answer.note else None
    return replace(answer, text=storable_text(answer.text), session=session, usage=usage, steps=steps, note=note)


def storable_failure(failed: RunFailed) -> tuple[RunUsage, tuple[RunStep, ...]]:
    """Returns what a failed run has spent and done, as far as that can be recorded."""
    try:
        return _usage(failed.usage), _steps(failed.steps)
    except Invalid:
        return NO_USAGE, ()


def _usage(usage: Any) -> RunUsage:
    return NO_USAGE if usage is None else read(RunUsage, plain(usage), at="usage")


def _steps(steps: Any) -> tuple[RunStep, ...]:
    return read(tuple[RunStep, ...], [plain(step) for step in steps[:MAX_RUN_STEPS]], at="steps")


def _is_json_object(data: object) -> bool:
    return isinstance(data, Mapping) and all(isinstance(name, str) for name in data)
