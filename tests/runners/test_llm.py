"""A language model with tools runs an agent. The real SDKs talk to a server that refuses what the providers refuse."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from memtape.core.decisions.runs import RunStep
from memtape.errors import RunFailed
from memtape.plugs.clock import FixedClock
from memtape.plugs.models import ModelAccess, model_access
from memtape.plugs.prices import answer_cost, price_of
from memtape.runners.llm import LlmRunner
from memtape.runners.protocol import MAX_TOOL_ROUNDS, RESET_ADVICE, RunnerAnswer
from tests.plugs.llm_server import SIGNATURE, Calls, LlmServer, Says, llm_server
from tests.plugs.scripted import Fails, Hangs, Sends
from tests.runners.questions import ACTION_SCHEMA, EIGHT, PriceFeed, TickingClock, earlier_run, question

NAMES = {"anthropic": "anthropic/claude-haiku-4-5", "openai": "openai/gpt-5-mini"}
TOKENS = (900, 120)  # of every reply of the server
BTC, DOGE = {"symbol": "BTC"}, {"symbol": "DOGE"}


@pytest.fixture(scope="module")
def server() -> Iterator[LlmServer]:
    with llm_server() as opened:
        yield opened


@pytest.fixture(params=NAMES)
def provider(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


class Desk:
    """An agent at a provider, with a price feed."""

    def __init__(self, server: LlmServer, provider: str) -> None:
        self.server, self.provider, self.feed = server, provider, PriceFeed()

    def access(self, name: str) -> ModelAccess:
        return model_access(name, base_url=self.server.url(name.partition("/")[0]), api_key="key-of-the-owner")

    def run(self, *parts: Any, clock: Any = None, retries: int = 2, **asked: Any) -> RunnerAnswer:
        self.server.plays(*parts)
        runner = LlmRunner(self.access, clock or FixedClock(EIGHT), retries)
        return runner.run(question(**{"model": NAMES[self.provider], "tools": [self.feed.tool()]} | asked))

    def failure(self, *parts: Any, **asked: Any) -> RunFailed:
        with pytest.raises(RunFailed) as raised:
            self.run(*parts, **asked)
        return raised.value

    def messages(self, request: int = -1) -> list[tuple[str, str]]:
        """The messages of a request, each as its role and a line."""
        return [(one["role"], _line(one)) for one in self.server.asked[request].body["messages"]]


def _line(message: dict[str, Any]) -> str:
    """A message of either provider in the same words."""
    if message["role"] == "tool":
        return f"result: {message['content']}"
    parts = message["content"] if isinstance(message["content"], list) else [{"type": "text", "text": message["content"]}]
    said = [one["text"] for one in parts if one["type"] == "text" and one["text"]]
    said += [f"calls {one['name']} {json.dumps(one['input'])}" for one in parts if one["type"] == "tool_use"]
    said += [f"result: {'Refused: ' if one['is_error'] else ''}{one['content']}" for one in parts if one["type"] == "tool_result"]
    functions = [one["function"] for one in message.get("tool_calls", ())]
    return " | ".join([*said, *(f"calls {one['name']} {one['arguments']}" for one in functions)])


@pytest.fixture
def desk(server: LlmServer, provider: str) -> Desk:
    return Desk(server, provider)


# ---- the loop ----------------------------------------------------------------------------------------------------------


def test_the_model_calls_tools_until_it_answers(desk: Desk):
    given = desk.run(Calls((("get_price", BTC),), "First the price."), Says("WAIT at 65000.5"), clock=TickingClock())
    assert given.text == "WAIT at 65000.5" and given.session is None and given.data is None
    assert desk.feed.asked == [BTC]
    said, called = given.steps
    assert (said.kind, said.text, said.turn) == ("text", "First the price.", 0)
    assert (called.tool, called.input, called.text, called.turn, called.ms) == ("get_price", BTC, "65000.5", 0, 250)
    assert EIGHT < said.at < called.at and called.call_id
    exchange = [("user", "What now?"), ("assistant", 'First the price. | calls get_price {"symbol": "BTC"}')]
    result = ("user" if desk.provider == "anthropic" else "tool", "result: 65000.5")
    assert [one for one in desk.messages() if one[0] != "system"] == [*exchange, result]


def test_a_model_that_thinks_gets_its_thoughts_back_with_its_calls(server: LlmServer):
    desk = Desk(server, "anthropic")
    desk.run(Calls((("get_price", BTC),)), Says("WAIT"))
    assistant = server.asked[-1].body["messages"][1]["content"]
    assert assistant[0] == {"type": "thinking", "thinking": "Which of them matter?", "signature": SIGNATURE}


def test_several_calls_of_one_turn_are_answered_together_and_refusals_go_back_as_such(desk: Desk):
    calls = Calls((("get_price", DOGE), ("get_price", BTC), ("sell_all", {})))
    given = desk.run(calls, Says("WAIT"))
    assert [(step.turn, step.is_error) for step in given.steps] == [(0, True), (0, False), (0, True)]
    results = " ".join(text for role, text in desk.messages() if text.startswith("result"))
    assert "Refused: symbol: there is no 'DOGE'" in results and "65000.5" in results
    assert "Refused: tool: there is no 'sell_all'. Use one of: get_price" in results


def test_the_system_text_is_the_systems_and_the_tools_are_offered(desk: Desk):
    desk.run(Says("WAIT"), system="Avoid longs in chop.")
    body = desk.server.asked[-1].body
    if desk.provider == "anthropic":
        assert body["system"] == "Avoid longs in chop." and [tool["name"] for tool in body["tools"]] == ["get_price"]
    else:
        assert body["messages"][0] == {"role": "system", "content": "Avoid longs in chop."}
        assert [tool["function"]["name"] for tool in body["tools"]] == ["get_price"]


def test_input_that_is_no_object_is_refused(server: LlmServer):
    desk = Desk(server, "openai")
    given = desk.run(
        Calls((("get_price", '{"symbol": "BT'), ("get_price", "[1]"), ("get_price", '{"symbol": NaN}'))), Says("WAIT")
    )
    assert [step.is_error for step in given.steps] == [True] * 3 and desk.feed.asked == []
    assert given.steps[0].text.startswith("input: it is not a JSON object")


def test_a_model_that_calls_tools_without_end_is_stopped(desk: Desk):
    failed = desk.failure(Calls((("get_price", BTC),)))
    assert failed.what == "bad_answer" and f"after {MAX_TOOL_ROUNDS} rounds" in failed.problem
    assert len(desk.server.asked) - 1 == MAX_TOOL_ROUNDS == len(failed.steps)
    assert failed.usage.input_tokens == (MAX_TOOL_ROUNDS + 1) * TOKENS[0]


# ---- the session -------------------------------------------------------------------------------------------------------


def step(turn: int, kind: Any, text: str, **other: Any) -> RunStep:
    return RunStep(at=EIGHT, turn=turn, kind=kind, text=text, **other)


def called(turn: int, text: str, **other: Any) -> RunStep:
    return step(turn, "tool", text, **{"tool": "get_price", "input": BTC, "call_id": "call-1"} | other)


SESSION = [
    earlier_run("r1", "Run at 08:00", "WAIT", [step(0, "text", "Let me look."), called(0, "64000"), called(0, "no", is_error=True), called(1, "64010")]),
    earlier_run("r2", "Run at 09:00", "BUY", [called(0, "65000", call_id="call-1")]),
]  # fmt: skip


def test_the_runs_of_the_session_come_before_the_prompt_with_their_tool_calls(desk: Desk):
    desk.run(Says("HOLD"), prompt="Run at 10:00", transcript=SESSION, keep_session=True, session="r2")
    calls = 'calls get_price {"symbol": "BTC"}'
    told = [line for role, line in desk.messages() if role != "system"]
    results = (
        ["result: 64000 | result: Refused: no"] if desk.provider == "anthropic" else ["result: 64000", "result: Refused: no"]
    )
    assert told == [
        "Run at 08:00", f"Let me look. | {calls} | {calls}", *results, calls, "result: 64010", "WAIT",
        "Run at 09:00", calls, "result: 65000", "BUY", "Run at 10:00",
    ]  # fmt: skip


def test_runs_that_failed_are_no_part_of_the_session(desk: Desk):
    failed = earlier_run("r0", "Run at 07:00", "")
    object.__setattr__(failed.end, "result", "failed")
    desk.run(Says("HOLD"), prompt="Run at 08:00", transcript=[failed])
    assert [line for role, line in desk.messages() if role == "user"] == ["Run at 08:00"]


def test_without_tools_the_calls_of_earlier_runs_are_told_as_text(desk: Desk):
    desk.run(Says("HOLD"), transcript=SESSION, tools=[])
    assert ("assistant", "(get_price returned: 65000)\nBUY") in desk.messages()


def test_empty_prompts_and_answers_of_the_past_do_not_make_the_provider_refuse(desk: Desk):
    past = [
        earlier_run("r1", "", ""),
        earlier_run("r2", " ", "x", [step(0, "text", "Hm."), called(1, "", tool="strange tool/name")]),
    ]
    assert desk.run(Says("HOLD"), prompt=" ", transcript=past).text == "HOLD"


def test_the_transcript_of_a_run_can_be_told_to_the_other_provider(server: LlmServer):
    first = Desk(server, "openai")
    given = first.run(Calls((("get_price", BTC), ("get_price", DOGE))), Says("WAIT"))
    second = Desk(server, "anthropic")
    assert second.run(Says("HOLD"), transcript=[earlier_run("r1", "Run", given.text, given.steps)] * 2).text == "HOLD"


# ---- answers in a form -------------------------------------------------------------------------------------------------


def test_an_answer_in_the_form_of_the_schema_is_data(desk: Desk):
    given = desk.run(Calls((("get_price", BTC),)), Says('{"action": "WAIT", "confidence": 0.5}'), schema=ACTION_SCHEMA)
    assert given.data == {"action": "WAIT", "confidence": 0.5}


@pytest.mark.parametrize("text", ["I would wait.", '{"action": "WAIT"', "[]", '"WAIT"', '{"action": "WAIT", "action": "BUY"}'])
def test_an_answer_that_is_no_json_object_has_no_data(desk: Desk, text: str):
    given = desk.run(Says(text), schema=ACTION_SCHEMA)
    assert (given.data, given.text) == (None, text)


CARD = {
    "type": "object",
    "required": ["conviction_score", "legs"],
    "properties": {
        "conviction_score": {"type": "integer", "minimum": 0, "maximum": 100},
        "notes": {"type": "string", "maxLength": 280, "default": ""},
        "legs": {"type": "array", "maxItems": 4, "items": {"$ref": "#/$defs/leg"}},
    },
    "$defs": {"leg": {"type": "object", "properties": {"stop": {"type": "number"}}}},
}


def test_a_schema_with_limits_and_optional_slots_is_put_in_a_form_that_the_provider_takes(desk: Desk):
    said = {"conviction_score": 62, "notes": None, "legs": [{"stop": 64000}]}
    given = desk.run(Says(json.dumps(said)), schema=CARD)
    assert given.data == {"conviction_score": 62, "legs": [{"stop": 64000}]}
    sent = json.dumps(desk.server.asked[-1].body)
    assert "minimum 0, maximum 100" in sent


# ---- what it costs -----------------------------------------------------------------------------------------------------


def test_tokens_and_cost_are_summed_over_the_turns(desk: Desk):
    given = desk.run(Calls((("get_price", BTC),)), Says("WAIT"))
    assert (given.usage.input_tokens, given.usage.output_tokens) == (1_800, 240)
    one = answer_cost(price_of(NAMES[desk.provider]), *TOKENS)
    assert one is not None and given.usage.cost_usd == 2 * one


def test_a_run_that_has_spent_its_budget_is_stopped_before_the_next_turn(desk: Desk):
    one = answer_cost(price_of(NAMES[desk.provider]), *TOKENS)
    assert one is not None
    failed = desk.failure(Calls((("get_price", BTC),)), budget_usd=one * 2)
    assert failed.what == "budget_spent" and len(desk.server.asked) == 2
    assert failed.usage.cost_usd == 2 * one and len(failed.steps) == 2
    assert desk.failure(Says("WAIT"), budget_usd=Decimal(0)).what == "budget_spent" and desk.server.asked == []


def test_a_model_without_a_list_price_has_no_cost(desk: Desk):
    given = desk.run(Says("WAIT"), model=f"{desk.provider}/some-model", budget_usd=Decimal("0.0001"))
    assert given.usage.cost_usd is None and given.usage.input_tokens == TOKENS[0]


# ---- failures ----------------------------------------------------------------------------------------------------------

TOO_LONG = {
    "anthropic": (Fails(400, "prompt is too long: 210000 tokens > 200000 maximum"), Fails(413), Says("Hm", "window")),
    "openai": (Fails(400, "This model's maximum context length is 128000 tokens."), Fails(413)),
}


def test_a_session_that_is_too_long_fails_with_the_advice_to_reset(desk: Desk):
    for part in TOO_LONG[desk.provider]:
        failed = desk.failure(part)
        assert (failed.what, failed.fix) == ("context_overflow", RESET_ADVICE), part


def test_openais_code_for_a_session_that_is_too_long_counts_whatever_the_words(server: LlmServer):
    desk = Desk(server, "openai")
    refuse, server.refuse = (
        server.refuse,
        lambda part: {"error": {"message": part.said, "code": "context_length_exceeded", "type": "x"}},
    )
    try:
        assert desk.failure(Fails(400, "Please shorten it")).what == "context_overflow"
    finally:
        server.refuse = refuse


@pytest.mark.parametrize(
    ("part", "what", "says"),
    [
        (Fails(401, "invalid key sk-" + "a1B2" * 9), "not_configured", "invalid key (redacted)"),
        (Fails(404, "no such model"), "not_configured", "no such model"),
        (Fails(429, "slow down"), "unavailable", "slow down"),
        (Fails(529), "unavailable", "529"),
        (Fails(400, "bad tool"), "bad_answer", "bad tool"),
        (Sends(b"<html>Sign in</html>", "text/html"), "bad_answer", "not in the provider's form"),
        (Says("I cannot help with that.", "refusal"), "refused", "refused"),
        (Says("It goes on and", "limit"), "bad_answer", "cut off"),
        (Says(""), "bad_answer", "empty"),
        (Says(None), "bad_answer", "empty"),
    ],
)
def test_what_fails_is_named(desk: Desk, part: Any, what: str, says: str):
    failed = desk.failure(part)
    assert failed.what == what and says in str(failed), failed


def test_a_busy_provider_is_asked_again(desk: Desk):
    assert desk.run(Fails(429), Fails(529), Says("WAIT")).text == "WAIT"


def test_a_failure_after_some_turns_keeps_what_was_done_and_spent(desk: Desk):
    failed = desk.failure(Calls((("get_price", BTC),)), Fails(400, "bad tool"))
    assert [step.tool for step in failed.steps] == ["get_price"] and failed.usage.output_tokens == TOKENS[1]


def test_a_run_ends_when_its_time_is_over(desk: Desk):
    failed = desk.failure(Hangs(), timeout_seconds=0.4, retries=1)
    assert (failed.what, failed.problem) == ("timed_out", "no answer within 0.4 s")
    # The clock has moved on by more than the limit when the second turn is due.
    slow = desk.failure(Calls((("get_price", BTC),)), timeout_seconds=1.5, clock=TickingClock())
    assert slow.what == "timed_out" and 0 < len(slow.steps) < MAX_TOOL_ROUNDS


def test_without_a_model_or_a_key_the_owner_is_told_what_to_set(server: LlmServer):
    desk = Desk(server, "anthropic")
    assert "Set one, like anthropic/" in str(desk.failure(Says("WAIT"), model=None))
    failed = desk.failure(Says("WAIT"), model="stats")
    assert failed.what == "not_configured" and "names no provider" in failed.problem
    runner = LlmRunner(lambda name: model_access(name), FixedClock(EIGHT))
    with pytest.raises(RunFailed, match="Set ANTHROPIC_API_KEY"):
        runner.run(question(model="anthropic/claude-haiku-4-5"))
