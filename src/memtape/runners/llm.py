"""The runner `llm`: a language model with tools, at Anthropic or at a server with OpenAI's API.

It keeps no session of its own. The runs of the session come from the log, with their tool calls, and are sent before the prompt.
The loop: ask the model, call the tools that it wants, send it what they returned, until it answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from time import monotonic
from typing import Any

from memtape.core.decisions.runs import NO_USAGE, RunUsage
from memtape.errors import Invalid, MissingExtra, ModelFailed, RunFailed
from memtape.plugs.answer_schema import without_optional_nulls
from memtape.plugs.clock import Clock
from memtape.plugs.models import RETRIES, ModelAccess, strict_json
from memtape.plugs.prices import answer_cost
from memtape.runners.conversation import Conversation, ConversationStart, ModelTurn, ToolCall
from memtape.runners.protocol import RESET_ADVICE, RunnerAnswer, RunQuestion, ToolOutput
from memtape.runners.steps import StepRecorder, storable_text

# How the failures of a provider are told. All others mean that it is busy or cannot be reached.
_WHATS: Mapping[str, str] = {
    "refused": "refused", "timed_out": "timed_out", "too_long": "context_overflow", "not_allowed": "not_configured",
    "not_paid": "not_configured", "not_found": "not_configured", "bad_request": "bad_answer", "unreadable": "bad_answer",
}  # fmt: skip


STOP_CHECK_SECONDS = 0.25  # how often it is asked in mid-stream whether the run was stopped: that may read a store


@dataclass(frozen=True, slots=True)
class LlmRunner:
    """Runs an agent by a language model with tools."""

    access: Callable[[str], ModelAccess]  # how to reach a model by its name
    clock: Clock
    retries: int = RETRIES

    @property
    def name(self) -> str:
        """Its name."""
        return "llm"

    def run(self, question: RunQuestion) -> RunnerAnswer:
        """Ask the model until it answers. Raises RunFailed with what was spent and done so far."""
        access = self._access_to(question.model)
        start = _start_of(access.provider)
        ends = self.clock.now() + timedelta(seconds=question.timeout_seconds)
        return _ToolLoop(question, access, start(access, question), self.clock, ends, self.retries).run()

    def _access_to(self, model: str | None) -> ModelAccess:
        if not model:
            raise RunFailed("llm", "the agent has no model", "Set one, like anthropic/claude-sonnet-5-5", what="not_configured")
        try:
            return self.access(model)
        except (Invalid, MissingExtra) as wrong:
            raise RunFailed("llm", str(wrong).rstrip("."), what="not_configured") from wrong


def _start_of(provider: str) -> ConversationStart:
    # Imported when needed: each provider has forms of its own.
    if provider == "anthropic":
        from memtape.runners.anthropic_conversation import start_anthropic

        return start_anthropic
    from memtape.runners.openai_conversation import start_openai

    return start_openai


@dataclass(slots=True)
class _ToolLoop:
    """One run: the conversation, with what was spent and done so far."""

    question: RunQuestion
    access: ModelAccess
    conversation: Conversation
    clock: Clock
    ends: datetime
    retries: int
    usage: RunUsage = NO_USAGE
    recorder: StepRecorder = field(init=False)
    next_check: float = 0.0

    def __post_init__(self) -> None:
        self.recorder = StepRecorder(self.clock)

    def run(self) -> RunnerAnswer:
        rounds = self.question.max_tool_rounds
        for turn in range(rounds + 1):
            self.recorder.turn = turn
            reply = self._ask()
            if not reply.calls:
                return self._answer(reply)
            if turn < rounds:
                self.recorder.said(reply.text)
                if self.question.on_text is not None and reply.text.strip():
                    self.question.on_text("\n\n")
                self.conversation.append_outputs([(call, self._call(call)) for call in reply.calls])
        raise self._failed("bad_answer", f"the model still called tools after {rounds} rounds of them", "Ask for less at a time")

    def _check_stopped(self) -> None:
        if self.question.is_stopped():
            raise self._failed("stopped", "it was stopped")

    def _ask(self) -> ModelTurn:
        self._check_stopped()
        budget, spent = self.question.budget_usd, self.usage.cost_usd or 0
        if budget is not None and spent >= budget:
            raise self._failed("budget_spent", f"the budget of {budget:f} USD is spent")
        left = (self.ends - self.clock.now()).total_seconds()
        if left <= 0:
            raise self._timed_out()
        try:
            # Every attempt may take its share of the time that is left, so that all of them end in time.
            on_piece = self._hear if self.question.on_text is not None else None
            reply = self.conversation.ask(left / (self.retries + 1), self.retries, on_piece)
        except ModelFailed as failed:
            raise self._of_provider(failed) from failed
        self.usage = self.usage.plus(
            RunUsage(
                input_tokens=reply.input_tokens, output_tokens=reply.output_tokens,
                cost_usd=answer_cost(self.access.price, reply.input_tokens, reply.output_tokens, reply.cached),
            )
        )  # fmt: skip
        if reply.stop == "overflow":
            raise self._failed("context_overflow", "the model has reached the end of its context", RESET_ADVICE)
        if reply.stop == "refused":
            raise self._failed("refused", "the model refused to answer")
        if reply.stop == "cut_off":
            raise self._failed("bad_answer", "the answer was cut off at the token limit")
        return reply

    def _hear(self, piece: str) -> None:
        """Take a piece of a streamed reply."""
        if monotonic() >= self.next_check:
            self.next_check = monotonic() + STOP_CHECK_SECONDS
            self._check_stopped()
            # The provider's timeout is for each piece; a reply may not trickle in for ever.
            if self.clock.now() >= self.ends:
                raise self._timed_out()
        if piece and self.question.on_text is not None:
            self.question.on_text(storable_text(piece))

    def _call(self, call: ToolCall) -> ToolOutput:
        self._check_stopped()
        tool = next((tool for tool in self.question.tools if tool.name == call.name), None)
        if tool is not None and call.input is not None:
            return self.recorder.call(tool, call.input, call.id)
        if tool is None:
            known = ", ".join(tool.name for tool in self.question.tools)
            output = ToolOutput(f"tool: there is no '{call.name}'. Use one of: {known}", is_error=True)
        else:
            output = ToolOutput("input: it is not a JSON object. Send one in the form of the tool's schema", is_error=True)
        now = self.clock.now()
        self.recorder.called(call.name, call.input or {}, output, began=now, ended=now, call_id=call.id)
        return output

    def _answer(self, reply: ModelTurn) -> RunnerAnswer:
        if not reply.text.strip():
            raise self._failed("bad_answer", "the answer is empty")
        data = _data(reply.text, self.question.schema)
        return RunnerAnswer(text=storable_text(reply.text), data=data, steps=self.recorder.steps, usage=self.usage)

    def _of_provider(self, failed: ModelFailed) -> RunFailed:
        if failed.what == "timed_out":
            return self._timed_out()
        what = _WHATS.get(failed.what, "unavailable")
        fix = RESET_ADVICE if what == "context_overflow" else str(failed.facts["fix"])
        return self._failed(what, f"{failed.model}: {failed.problem}", fix)

    def _timed_out(self) -> RunFailed:
        return self._failed("timed_out", f"no answer within {self.question.timeout_seconds:g} s")

    def _failed(self, what: str, problem: str, fix: str = "") -> RunFailed:
        return RunFailed("llm", problem, fix, what=what, usage=self.usage, steps=self.recorder.steps)


def _data(text: str, schema: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Returns the answer as data; None if it is not asked for, or not JSON. It is not checked against the schema here."""
    if schema is None:
        return None
    try:
        data = without_optional_nulls(strict_json(text), schema)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None
