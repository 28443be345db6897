"""A model's words are heard while it speaks, and come to the same as without streaming. The real SDKs read the streams."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from memtape.plugs.clock import FixedClock
from memtape.runners import llm
from memtape.runners.protocol import RunnerAnswer
from tests.plugs.llm_server import Calls, Halts, LlmServer, Says, llm_server
from tests.plugs.scripted import Fails, Sends
from tests.runners.questions import EIGHT, TickingClock
from tests.runners.test_llm import BTC, DOGE, NAMES, Desk

# Characters of two to four bytes, and U+2028, which some take for the end of a line.
WORDS = "Gold rose – 3 %, über alles… 🙂\u2028\n\nSell “half”, keep the rest."
ROUNDS = (
    Calls((("get_price", BTC), ("get_price", DOGE | {"why": "naïve 🙂 “quoted”"})), "First the prices…"), Calls((("get_price", BTC),)), Says(WORDS),
)  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[LlmServer]:
    with llm_server() as opened:
        yield opened


@pytest.fixture(params=NAMES)
def desk(server: LlmServer, request: pytest.FixtureRequest) -> Desk:
    return Desk(server, request.param)


def plain(request: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in request.items() if name not in ("stream", "stream_options")}


def without_ids(value: Any) -> Any:
    """A request without the ids of calls, which are new in every reply."""
    if isinstance(value, list):
        return [without_ids(each) for each in value]
    if isinstance(value, dict):
        return {name: without_ids(each) for name, each in value.items() if name not in ("id", "tool_use_id", "tool_call_id")}
    return value


def essence(given: RunnerAnswer) -> tuple[Any, ...]:
    return given.text, given.usage, [(step.turn, step.kind, step.tool, step.input, step.text, step.is_error) for step in given.steps]


def test_pieces_come_in_order_and_join_to_the_answer(desk: Desk):
    heard: list[str] = []
    given = desk.run(Says(WORDS), on_text=heard.append)
    assert given.text == "".join(heard) == WORDS and len(heard) > 5


def test_a_streamed_run_with_tools_asks_calls_and_costs_the_same_as_one_that_is_not_streamed(desk: Desk):
    heard: list[str] = []
    whole = desk.run(*ROUNDS)
    asked_whole = [one.body for one in desk.server.asked]
    called, desk.feed.asked = desk.feed.asked, []
    streamed = desk.run(*ROUNDS, on_text=heard.append)
    assert essence(streamed) == essence(whole) and desk.feed.asked == called and len(called) == 3
    assert "".join(heard) == f"First the prices…\n\n{WORDS}"
    assert [without_ids(plain(one.body)) for one in desk.server.asked] == without_ids(asked_whole)
    assert all(one.body["stream"] is True for one in desk.server.asked)
    assert not any("stream" in body or "stream_options" in body for body in asked_whole)


def test_without_a_listener_the_request_has_the_same_bytes_as_ever(desk: Desk):
    desk.run(Says("WAIT"), tools=[])
    assert desk.server.asked[0].raw == {
        "anthropic": b'{"max_tokens":8192,"messages":[{"role":"user","content":"What now?"}],"model":"claude-haiku-4-5","system":"You trade BTC."}',
        "openai": b'{"model":"gpt-5-mini","messages":[{"role":"system","content":"You trade BTC."},{"role":"user","content":"What now?"}],"max_tokens":8192}',
    }[desk.provider]  # fmt: skip


def test_a_tool_input_that_is_no_json_is_refused_and_the_model_may_correct_it(desk: Desk):
    given = desk.run(Calls((("get_price", '{"symbol": '),)), Says("WAIT"), on_text=lambda piece: None)
    assert given.text == "WAIT" and given.steps[0].is_error and "not a JSON object" in given.steps[0].text and desk.feed.asked == []


@pytest.mark.parametrize("stop", ["limit", "refusal"])
def test_an_answer_that_is_cut_off_or_refused_fails_as_without_streaming(desk: Desk, stop: str):
    whole, streamed = desk.failure(Says("I…", stop)), desk.failure(Says("I…", stop), on_text=lambda piece: None)
    assert (streamed.what, str(streamed), streamed.usage) == (whole.what, str(whole), whole.usage)


def test_a_connection_that_breaks_in_mid_stream_fails_as_one_that_breaks_before(desk: Desk):
    heard: list[str] = []
    broken = desk.failure(Halts(Says(WORDS), after=14), on_text=heard.append)
    whole = desk.failure(Sends(b'{"half": ', short=20), retries=0)
    assert broken.what == whole.what == "unavailable" and str(broken) == str(whole)
    assert heard and WORDS.startswith("".join(heard)) and len(desk.server.asked) == 1


def test_a_stream_that_is_closed_before_its_end_is_no_answer(desk: Desk):
    head = {"anthropic": b'event: message_start\ndata: {"type": "message_start", "message": {"usage": {}}}\n\n',
            "openai": b'data: {"choices": [{"index": 0, "delta": {"content": "Buy"}, "finish_reason": null}]}\n\n'}  # fmt: skip
    failed = desk.failure(Sends(head[desk.provider], "text/event-stream"), on_text=lambda piece: None)
    assert failed.what == "unavailable" and "no connection" in str(failed)


@pytest.mark.parametrize(("type", "status", "what"), [
    ("overloaded_error", 503, "unavailable"), ("rate_limit_error", 429, "unavailable"), ("invalid_request_error", 400, "bad_answer"),
    ("something_new", 500, "unavailable"),
])  # fmt: skip
def test_an_error_that_is_told_in_mid_stream_fails_as_one_that_is_told_by_status(desk: Desk, type: str, status: int, what: str):
    code = "rate_limit_exceeded" if type == "rate_limit_error" else None
    error = {"type": type, "message": "not now", "code": code}
    streamed = desk.failure(Halts(Says(WORDS), after=14, error=error), on_text=lambda piece: None)
    whole = desk.failure(Fails(status), retries=0)
    assert (streamed.what, whole.what) == (what, what) and "not now" in str(streamed)


@pytest.mark.parametrize("data", [b'{"type": 7, "choices": 7}', b"{half", b"[]", b'"words"', b"null", b'{"type": "content_block_delta", "delta": 7, "choices": [7]}'])
def test_an_event_in_no_known_form_is_a_bad_answer(desk: Desk, data: bytes):
    body = Sends(b"event: message_start\ndata: " + data + b"\n\n", "text/event-stream")
    assert desk.failure(body, on_text=lambda piece: None).what == "bad_answer"


def test_half_a_character_is_heard_as_a_question_mark_and_the_halves_join_in_the_answer(desk: Desk):
    deltas = [r'"A \ud83d"', r'"\ude42"']
    if desk.provider == "openai":
        events = [f'{{"choices": [{{"index": 0, "delta": {{"content": {text}}}}}]}}' for text in deltas]
        events.append('{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}')
    else:
        events = ['{"type": "message_start", "message": {}}', '{"type": "content_block_start", "content_block": {"type": "text", "text": ""}}']
        events += [f'{{"type": "content_block_delta", "delta": {{"type": "text_delta", "text": {text}}}}}' for text in deltas]
        events.append('{"type": "message_stop"}')
    heard: list[str] = []
    body = "".join(f"event: one\ndata: {event}\n\n" for event in events).encode()
    assert desk.run(Sends(body, "text/event-stream"), on_text=heard.append).text == "A 🙂"
    assert heard == ["A ?", "?"]


def test_a_page_in_place_of_a_stream_is_a_bad_answer(desk: Desk):
    page = Sends(b"<html>Welcome to the proxy</html>", "text/html")
    assert desk.failure(page, on_text=lambda piece: None).what == desk.failure(page).what == "bad_answer"


def test_a_run_that_is_stopped_in_mid_stream_ends_between_two_pieces(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(llm, "STOP_CHECK_SECONDS", 0.0)
    heard: list[str] = []
    go_on = threading.Event()
    try:
        # The rest of the answer is never sent before the run has ended.
        failed = desk.failure(Halts(Says("gold " * 40), after=30, until=go_on), on_text=heard.append, is_stopped=lambda: len(heard) == 3)
    finally:
        go_on.set()
    assert failed.what == "stopped" and heard == ["gold "] * 3


def test_an_answer_that_trickles_in_for_too_long_is_timed_out(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(llm, "STOP_CHECK_SECONDS", 0.0)
    clock = TickingClock()
    failed = desk.failure(Says("gold " * 40), on_text=lambda piece: None, clock=clock, timeout_seconds=5.0)
    assert failed.what == "timed_out" and clock.at < EIGHT + timedelta(seconds=8)
    assert desk.run(Says("gold " * 40), on_text=lambda piece: None, clock=FixedClock(EIGHT), timeout_seconds=5.0).text
