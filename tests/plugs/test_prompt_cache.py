"""What Anthropic is asked to cache. The real SDK talks to a server that enforces the provider's rules."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel

from memtape.plugs.clock import FixedClock
from memtape.plugs.models import model_access, model_of
from memtape.plugs.prices import CachedTokens, answer_cost, price_of
from memtape.plugs.prompt_cache import min_cached_tokens
from memtape.runners.llm import LlmRunner
from tests.plugs.llm_server import Calls, LlmServer, Says, llm_server
from tests.plugs.provider_rules import anthropic_problem
from tests.runners.questions import EIGHT, PriceFeed, earlier_run, question

MARK = {"type": "ephemeral"}
RULES = "Never risk more than one percent of the account on a trade. " * 100  # about 1,200 tokens
RECORDS = "- 06-04 08:15 ETH short 3420→3455 -1.1R 45m [9e0e]\n" * 40  # about 1,200 tokens
TICK = "\n\n## Open positions\nnone"


class Answer(BaseModel):
    """A form that any JSON object fits."""

    lessons: list[str] = []


@pytest.fixture(scope="module")
def server() -> Iterator[LlmServer]:
    with llm_server() as opened:
        yield opened


def asked(server: LlmServer, name: str, system: str, stable: str, changing: str = TICK) -> dict[str, Any]:
    """The body of one question to a model."""
    server.plays(Says('{"lessons": []}'))
    model = model_of(f"anthropic/{name}", base_url=server.url("anthropic"), api_key="key-of-the-owner")
    model.answer(system, stable + changing, Answer, max_tokens=100, stable_chars=len(stable))
    return server.asked[-1].body


def text_of(content: Any) -> str:
    return content if isinstance(content, str) else "".join(block["text"] for block in content)


def marks(content: Any) -> list[bool]:
    return [False] if isinstance(content, str) else ["cache_control" in block for block in content]


def test_the_system_text_and_the_records_that_stay_are_marked_and_what_changes_is_not(server: LlmServer) -> None:
    body = asked(server, "claude-sonnet-4-5", RULES, RECORDS)
    assert body["system"] == [{"type": "text", "text": RULES, "cache_control": MARK}]
    assert body["messages"][0]["content"] == [
        {"type": "text", "text": RECORDS, "cache_control": MARK}, {"type": "text", "text": TICK},
    ]  # fmt: skip
    assert anthropic_problem(body) is None


def test_a_short_system_text_is_not_marked_but_counts_towards_the_mark_behind_the_records(server: LlmServer) -> None:
    body = asked(server, "claude-sonnet-4-5", "Trade with care.", RECORDS)
    assert body["system"] == "Trade with care." and marks(body["messages"][0]["content"]) == [True, False]


@pytest.mark.parametrize(("name", "marked"), [("claude-sonnet-4-5", True), ("claude-3-5-haiku-latest", True), ("claude-haiku-4-5", False)])
def test_what_does_not_reach_the_minimum_of_the_model_is_sent_as_plain_text(server: LlmServer, name: str, marked: bool) -> None:
    body = asked(server, name, RULES, RECORDS)
    assert marks(body["messages"][0]["content"])[0] is marked
    assert text_of(body["messages"][0]["content"]) == RECORDS + TICK, "the model reads the same in either case"


def test_a_question_that_changes_from_its_beginning_is_not_cut(server: LlmServer) -> None:
    assert asked(server, "claude-sonnet-4-5", RULES, "")["messages"][0]["content"] == TICK
    assert asked(server, "claude-sonnet-4-5", RULES, RECORDS, "\n")["messages"][0]["content"] == RECORDS + "\n"


def test_tools_and_earlier_runs_count_and_a_conversation_keeps_two_marks_however_long_it_gets(server: LlmServer) -> None:
    feed = PriceFeed()
    server.plays(*(Calls((("get_price", {"symbol": "BTC"}),)) for _ in range(3)), Says("Done."))
    runner = LlmRunner(lambda name: model_access(name, base_url=server.url("anthropic"), api_key="k"), FixedClock(EIGHT), 0)
    earlier = earlier_run("r1", "What now?", "Wait.")
    runner.run(
        question(
            model="anthropic/claude-sonnet-4-5", tools=[feed.tool()], system=RULES, prompt=RECORDS + TICK, transcript=[earlier],
            stable_chars=len(RECORDS),
        )
    )
    for one in server.asked[-4:]:
        body = one.body
        blocks = [block for message in body["messages"] if not isinstance(message["content"], str) for block in message["content"]]
        assert sum("cache_control" in block for block in (*body["system"], *blocks)) == 2
        assert anthropic_problem(body) is None


def test_the_local_server_refuses_marks_that_the_provider_refuses() -> None:
    block = {"type": "text", "text": "x", "cache_control": MARK}
    body = {"max_tokens": 9, "messages": [{"role": "user", "content": [block] * 5}]}
    assert "maximum of 4" in (anthropic_problem(body) or "")
    thought = {"type": "thinking", "thinking": "hm", "cache_control": MARK}
    body["messages"] = [{"role": "user", "content": "a"}, {"role": "assistant", "content": [thought]}]
    assert "thinking.cache_control" in (anthropic_problem(body) or "")


def test_cached_tokens_are_counted_and_paid_at_their_own_price() -> None:
    sonnet = price_of("anthropic/claude-sonnet-4-5")
    assert answer_cost(sonnet, 10_000, 0) == Decimal("0.03")
    assert answer_cost(sonnet, 10_000, 0, CachedTokens(read=10_000)) == Decimal("0.003")
    assert answer_cost(sonnet, 10_000, 0, CachedTokens(written=10_000)) == Decimal("0.0375")
    assert min_cached_tokens("claude-opus-5") == 4096
