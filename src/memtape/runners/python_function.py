"""The runner `callable`: a Python function of the owner decides, for simulations, tests and strategies that need no model.

The function is given the `RunQuestion` and returns a `RunnerAnswer`, a text, or a mapping in the form of the schema:

    def decide(question):
        brief = question.tools[0].call({})
        return {"action": "WAIT", "reason": "the range is unresolved"}

It runs in this process, so no time limit can end it. Whatever it raises is a run that failed.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from memtape.core.brief.sanitize import redact_secrets
from memtape.core.codec import make_id
from memtape.errors import Invalid, RunFailed
from memtape.plugs.clock import Clock, SystemClock
from memtape.runners.protocol import RunnerAnswer, RunQuestion
from memtape.runners.steps import StepRecorder, storable_text

RunFunction = Callable[[RunQuestion], object]
TARGET_FORMS = "Write package.module:function, or /path/to/file.py:function"
MAX_PROBLEM_CHARS = 500


@dataclass(frozen=True, slots=True)
class CallableRunner:
    """Runs an agent by a Python function."""

    target: str | RunFunction
    clock: Clock

    @property
    def name(self) -> str:
        """Its name."""
        return "callable"

    def run(self, question: RunQuestion) -> RunnerAnswer:
        """Call the function. A session is no concern of it: earlier runs are in `question.transcript`."""
        function = self._function()
        recorder = StepRecorder(self.clock)
        try:
            answer = function(replace(question, tools=recorder.wrapped(question.tools)))
        except RunFailed:
            raise
        # The code is somebody else's: it may raise anything, and whatever it raises ends this run alone.
        except (Exception, SystemExit) as error:
            raise self._crashed(error, recorder) from error
        return _as_answer(answer, recorder)

    def _function(self) -> RunFunction:
        if not isinstance(self.target, str):
            return self.target
        where, _, name = self.target.rpartition(":")
        try:
            module = _module_of_file(where) if where.endswith(".py") else importlib.import_module(where)
        except (Exception, SystemExit) as error:
            problem = f"{where} cannot be imported: {_described(error)}"
            raise RunFailed("callable", problem, TARGET_FORMS, what="not_configured") from error
        function = getattr(module, name, None)
        if not callable(function):
            raise RunFailed("callable", f"{where} has no function '{name}'", TARGET_FORMS, what="not_configured")
        found: RunFunction = function
        return found

    def _crashed(self, error: BaseException, recorder: StepRecorder) -> RunFailed:
        return RunFailed("callable", f"the function raised {_described(error)}", what="crashed", steps=recorder.steps)


def callable_runner(target: str | RunFunction, clock: Clock | None = None) -> CallableRunner:
    """Returns the runner of a function: package.module:function, /path/to/file.py:function, or the function itself.

    The function is imported at each run, so that a changed file counts from the next run on.

    >>> callable_runner("desk.strategies:breakout").target
    'desk.strategies:breakout'
    >>> callable_runner("breakout")
    Traceback (most recent call last):
    memtape.errors.Invalid: runner: 'breakout' names no function. Write package.module:function, or /path/to/file.py:function
    """
    if isinstance(target, str):
        where, _, name = target.rpartition(":")
        is_file = where.endswith(".py")
        names_module = all(part.isidentifier() for part in where.split("."))
        if not name.isidentifier() or not (is_file or names_module):
            raise Invalid("runner", f"'{target}' names no function", TARGET_FORMS)
        if is_file and not Path(where).is_absolute():
            raise Invalid("runner", f"the path '{where}' is relative", TARGET_FORMS)
    return CallableRunner(target, clock or SystemClock())


def _module_of_file(path: str) -> ModuleType:
    state = Path(path).stat()
    return _loaded(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=64)
def _loaded(path: str, changed_ns: int, size: int) -> ModuleType:
    module = ModuleType(f"memtape_callable_{make_id(path, changed_ns, size)}")
    module.__file__ = path
    # Dataclasses look up their own module by its name.
    sys.modules[module.__name__] = module
    try:
        # Not by a loader of Python: its cached bytecode misses a change of the same length within one second.
        exec(compile(Path(path).read_bytes(), path, "exec"), module.__dict__)
    except BaseException:
        del sys.modules[module.__name__]
        raise
    return module


def _as_answer(answer: object, recorder: StepRecorder) -> RunnerAnswer:
    if isinstance(answer, str):
        return RunnerAnswer(text=storable_text(answer), steps=recorder.steps)
    if isinstance(answer, Mapping):
        try:
            text = storable_text(_json_text(answer))
        except (TypeError, ValueError, RecursionError) as error:
            raise RunFailed("callable", f"the returned mapping is not JSON: {_described(error)}", steps=recorder.steps) from error
        return RunnerAnswer(text=text, data=dict(answer), steps=recorder.steps)
    if isinstance(answer, RunnerAnswer):
        return replace(answer, steps=answer.steps or recorder.steps)
    problem, fix = f"the function returned {type(answer).__name__}", "Return a text, a mapping or a RunnerAnswer"
    raise RunFailed("callable", problem, fix, steps=recorder.steps)


def _json_text(data: Mapping[str, Any]) -> str:
    # Amounts are decimals, and their text is exact.
    return json.dumps(dict(data), ensure_ascii=False, default=str)


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {redact_secrets(str(error))}"[:MAX_PROBLEM_CHARS].rstrip(": .")
