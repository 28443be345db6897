"""The past can be asked for: what was told after each tick is told again, by the moment or by the head of the log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memtape.core.ledger.trades import Trade
from memtape.core.values import Time, read
from memtape.engine import AgentMemory, Memory
from tests.desk import given_agent, plain_tick

CASES: dict[str, dict[str, Any]] = {
    case["name"]: case["inputs"]
    for case in json.loads((Path(__file__).parents[1] / "golden" / "ledger_golden.json").read_text(encoding="utf-8"))["cases"]
}
TOLD = ["late_fill", "inferred_flip", "funding_attribution", "two_symbols", "composite_short", "random_40", "random_60_missing"]


def told(agent: AgentMemory, **known: Any) -> set[Trade]:
    return set(agent.ledger.trades(**known))


@pytest.mark.parametrize("name", TOLD)
def test_what_was_told_after_each_tick_is_told_again(memory: Memory, name: str) -> None:
    agent = given_agent(memory, CASES[name]["config"])
    then: list[tuple[Any, int, set[Trade]]] = []
    for tick in CASES[name]["ticks"]:
        at = read(Time, tick["t"])  # type: ignore[arg-type, var-annotated]
        receipt = agent.observe(plain_tick(tick))
        if not receipt.duplicate and (not then or at > then[-1][0]):
            then.append((at, receipt.seq, told(agent)))
    for at, seq, trades in then[:: max(len(then) // 12, 1)]:
        assert told(agent, as_of=at) == trades, f"as of {at}"
        assert told(agent, head=seq) == trades, f"by head {seq}"
        assert told(agent, as_of=at, head=seq) == trades, f"as of {at}, by head {seq}"
