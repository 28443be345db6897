"""Whatever a call holds, memtape answers it or refuses it with an error of its own. 20,000 calls are in tests/soak."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

import pytest

from memtape.engine import Memory
from memtape.engine.proof.audit import verify_store
from tests.fuzz.calls import FuzzedCall, fuzzed_calls
from tests.fuzz.doors import by_command_line, by_http, by_mcp, by_methods, by_python, fuzzed_store
from tests.fuzz.python_calls import python_calls

CALLS = 120
SEED = 1910


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with fuzzed_store(tmp_path) as memory:
        yield memory


@pytest.mark.parametrize("door", [by_python, by_command_line, by_http, by_mcp])
def test_a_door_answers_or_refuses_whatever_it_is_given(
    memory: Memory, door: Callable[[Memory, Iterable[FuzzedCall]], list[str]]
) -> None:
    found = door(memory, islice(fuzzed_calls(SEED), CALLS))
    assert not found, f"{len(found)} calls broke memtape:\n" + "\n".join(found[:5])
    assert verify_store(memory).ok


def test_a_method_of_python_answers_or_refuses_whatever_it_is_given(memory: Memory) -> None:
    found = by_methods(memory, islice(python_calls(SEED), CALLS * 2))
    assert not found, f"{len(found)} calls broke memtape:\n" + "\n".join(found[:5])
    assert verify_store(memory).ok


def test_some_of_the_calls_are_good_and_some_are_refused(memory: Memory) -> None:
    before = memory.agent("gold").head().seq
    by_methods(memory, islice(python_calls(SEED), 300))
    assert 5 < memory.agent("gold").head().seq - before < 250
