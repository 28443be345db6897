"""20,000 fuzzed calls over four doors: Python, command line, HTTP, MCP."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

import pytest

from memtape.engine import Memory
from memtape.engine.proof.audit import verify_store
from tests.fuzz.calls import FuzzedCall, fuzzed_calls
from tests.fuzz.doors import by_command_line, by_http, by_mcp, by_methods, by_python, fuzzed_store
from tests.fuzz.python_calls import python_calls

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("door", [by_python, by_command_line, by_http, by_mcp])
def test_four_thousand_calls_by_each_door_are_answered_or_refused(
    tmp_path: Path, door: Callable[[Memory, Iterable[FuzzedCall]], list[str]]
) -> None:
    with fuzzed_store(tmp_path) as memory:
        found = door(memory, islice(fuzzed_calls(1911), 4_000))
        assert not found, f"{len(found)} calls broke memtape:\n" + "\n".join(found[:5])
        assert verify_store(memory).ok


def test_four_thousand_calls_of_methods_are_answered_or_refused(tmp_path: Path) -> None:
    with fuzzed_store(tmp_path) as memory:
        found = by_methods(memory, islice(python_calls(1911), 4_000))
        assert not found, f"{len(found)} calls broke memtape:\n" + "\n".join(found[:5])
        assert verify_store(memory).ok
