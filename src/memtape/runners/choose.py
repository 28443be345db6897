"""Finds a runner by the name that stands in an agent's configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from memtape.errors import Invalid
from memtape.plugs.clock import Clock
from memtape.plugs.models import ModelAccess
from memtape.runners.protocol import Runner

RUNNER_FORMS = "Write callable:package.module:function, callable:/path/to/file.py:function, llm or claude"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerSources:
    """What the runners of this machine need."""

    clock: Clock
    access: Callable[[str], ModelAccess]  # how to reach a model by its name
    claude: str  # the Claude Code command line: a name or a path
    claude_folder: Path  # where it runs; it keeps the sessions of each folder apart
    environment: Mapping[str, str] = field(repr=False)  # of which Claude Code is given a part


def runner_of(name: str, model: str | None, sources: RunnerSources) -> Runner:
    """Returns the runner of a name. Raises Invalid for any other name, and if `llm` has no model. Nothing is started yet."""
    kind, _, target = name.partition(":")
    if kind == "callable" and target:
        from memtape.runners.python_function import callable_runner

        return callable_runner(target, sources.clock)
    if name == "llm":
        from memtape.runners.llm import LlmRunner

        if not model:
            raise Invalid("model", "the runner llm needs one", "Write anthropic/NAME or openai/NAME")
        return LlmRunner(sources.access, sources.clock)
    if name == "claude":
        from memtape.runners.claude import ClaudeRunner

        return ClaudeRunner(
            binary=sources.claude, folder=sources.claude_folder, environment=sources.environment, clock=sources.clock
        )  # fmt: skip
    raise Invalid("runner", f"there is no runner '{name}'", RUNNER_FORMS)
