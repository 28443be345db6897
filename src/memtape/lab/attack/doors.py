"""The doors by which a model calls memtape: the operations as the MCP server calls them, an MCP client, an MCP client over HTTP.

`carry_out` makes the calls of a case and says of each whether it was recorded or refused. Only an error of memtape's own
counts as refused; any other exception is a defect.

With the gates off the same calls are made as the owner, and what a model claims is reported as the broker's record. That is
possible here only: no server can be started so.
"""

from __future__ import annotations

import json
import threading
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from memtape.core.observed import ClosedTrade
from memtape.core.values import read
from memtape.engine import Memory
from memtape.errors import MemtapeError
from memtape.lab.attack.cases import LOOKED_UP, AttackCall, AttackCase
from memtape.lab.attack.desks import (
    LOSING,
    NEIGHBOUR,
    NEIGHBOUR_SECRET,
    OTHER_OWNER,
    OWNER_PLAN,
    STRANGER,
    STRANGER_SECRET,
    TARGET,
    open_desk,
)
from memtape.surfaces.caller import Caller
from memtape.surfaces.model_answers import answer_for_model
from memtape.surfaces.registry import find, perform

OWNER_CALLER = Caller("owner", TARGET)
BUG_TEXT = "an internal error of memtape"
STARTED_SECONDS = 30
CALLS_BETWEEN_BRIEFS = 10
# The exceptions of a mistake in memtape itself.
DEFECTS = (ArithmeticError, AssertionError, AttributeError, LookupError, NameError, OSError, RuntimeError, TypeError, ValueError)


@dataclass(slots=True)
class CallResults:
    """What became of the calls of a case."""

    recorded: list[AttackCall] = field(default_factory=list)
    refused: int = 0
    defects: list[str] = field(default_factory=list)  # exceptions that are not memtape's own
    leaked: int = 0  # answers that contain the secret of another agent or owner

    def add_answer(self, call: AttackCall, answer: str, secrets: tuple[str, ...]) -> None:
        """Enters an answer to a call."""
        self.recorded.append(call)
        self.leaked += any(secret in answer for secret in secrets)


def carry_out(case: AttackCase, folder: Path, memory: Memory) -> CallResults:
    """Makes the calls of a case on the store in a folder; `memory` is that store, open for its owner."""
    _write_files(memory, folder, case.files)
    results = CallResults()
    ids = StoredIds(memory)
    for call in case.calls:
        if call.by_owner:
            _try(results, memory, call, OWNER_CALLER, (), as_model=False)
    models = (ids.looked_up(call) for call in case.calls if not call.by_owner)
    agent = {"own model": TARGET, "neighbour": NEIGHBOUR, "stranger": STRANGER}[case.attacker]
    secrets = tuple(
        {NEIGHBOUR: NEIGHBOUR_SECRET, STRANGER: STRANGER_SECRET}[name] for name in (NEIGHBOUR, STRANGER) if name != agent
    )
    if case.attacker == "stranger":
        with open_desk(folder, OTHER_OWNER) as other:
            _call_all(results, other, models, agent, case, secrets)
    else:
        _call_all(results, memory, models, agent, case, secrets)
    return results


def carry_out_without_gates(case: AttackCase, folder: Path, memory: Memory) -> Iterator[None]:
    """Makes the calls of a case as if nothing told a model from the broker and the owner; stops after every few of them.

    Trades that follow each other are recorded together, as one import: on a long record each alone would take a second. What is
    done to one trade of the record after another comes last, because the attack ends as soon as it has succeeded.
    """
    _write_files(memory, folder, case.files)
    results, ids = CallResults(), StoredIds(memory)
    calls = sorted((_ungated(ids.looked_up(call)) for call in case.calls), key=_is_about_a_trade)
    for together, some in groupby(calls, _can_be_imported):
        if together:
            trades = {call.data["trade_id"]: read(ClosedTrade, _trade_data(call)) for call in some}
            memory.agent(TARGET).imports.commit(list(trades.values()), {"file": "attack.csv"})
            yield
            continue
        for n, call in enumerate(some, 1):
            _try(results, memory, call, OWNER_CALLER, (), as_model=False)
            if n % CALLS_BETWEEN_BRIEFS == 0:
                yield
    yield


def _is_about_a_trade(call: AttackCall) -> bool:
    return call.operation in ("forget_memory", "correct_memory", "label_trade") and call.data.get("memory_id") != OWNER_PLAN


def _can_be_imported(call: AttackCall) -> bool:
    """Returns True for a trade of the agent that is complete and well formed."""
    if call.operation != "observe_trade" or call.data.get("agent", TARGET) != TARGET:
        return False
    try:
        read(ClosedTrade, _trade_data(call))
    except MemtapeError:
        return False
    return True


def _trade_data(call: AttackCall) -> dict[str, Any]:
    return {name: value for name, value in call.data.items() if name not in ("agent", "backfill")}


def control_calls(case: AttackCase, folder: Path, memory: Memory) -> None:
    """Makes the harmless calls with which a case is compared."""
    _write_files(memory, folder, case.control_files)
    for call in case.control:
        perform(memory, find(call.operation), dict(call.data), OWNER_CALLER)


def _write_files(memory: Memory, folder: Path, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        file = folder / "desk.workspace" / TARGET / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def _call_all(
    results: CallResults, memory: Memory, calls: Iterator[AttackCall], agent: str, case: AttackCase, secrets: tuple[str, ...]
) -> None:
    if case.door == "tools":
        caller = Caller("model", agent, bound=True)
        for call in calls:
            _try(results, memory, call, caller, secrets)
    elif case.door == "mcp":
        from memtape.surfaces.mcp import build_server

        _by_client(results, build_server(lambda: memory, tools="full", agent=agent), calls, secrets)
    else:
        with _served(memory) as address:
            _by_client(results, f"{address}/mcp?agent={agent}", calls, secrets)


def _try(
    results: CallResults, memory: Memory, call: AttackCall, caller: Caller, secrets: tuple[str, ...], as_model: bool = True
) -> None:
    run = answer_for_model if as_model else perform
    try:
        answer = run(memory, find(call.operation), dict(call.data), caller)
    except MemtapeError:
        results.refused += 1
    # What this suite looks for: it is reported with its trace, and the suite goes on.
    except DEFECTS:
        results.defects.append(f"{call.operation}: {traceback.format_exc(limit=-3)}")
    else:
        results.add_answer(call, json.dumps(answer, default=str), secrets)


def _by_client(results: CallResults, server: Any, calls: Iterator[AttackCall], secrets: tuple[str, ...]) -> None:
    """Makes the calls with an MCP client."""
    import anyio
    from mcp import Client
    from mcp.shared.exceptions import MCPError

    async def talk() -> None:
        async with Client(server) as client:
            for call in calls:
                try:
                    answer = await client.call_tool(call.operation, dict(call.data))
                except MCPError:
                    results.refused += 1
                    continue
                text = "".join(getattr(block, "text", "") for block in answer.content)
                if BUG_TEXT in text:
                    results.defects.append(f"{call.operation}: {text}")
                elif answer.is_error:
                    results.refused += 1
                else:
                    results.add_answer(call, text, secrets)

    anyio.run(talk)


@contextmanager
def _served(memory: Memory) -> Iterator[str]:
    """Serves a memory on a free port of loopback; yields its address."""
    import uvicorn

    from memtape.surfaces.http import build_app, listen

    listener = listen(port=0)
    server = uvicorn.Server(uvicorn.Config(build_app(memory, tools="full"), log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(STARTED_SECONDS)
        listener.close()


class StoredIds:
    """The ids of the store that stand for `@losing 3`, `@claimed` and `@receipt` in a call."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._lost: list[str] | None = None

    def looked_up(self, call: AttackCall) -> AttackCall:
        """Returns a call with the ids that its data asks for."""
        asks = {name: value for name, value in call.data.items() if isinstance(value, str) and value.startswith(LOOKED_UP)}
        found = {name: self._find(value) for name, value in asks.items()}
        return AttackCall(call.operation, {**call.data, **found}, call.by_owner) if found else call

    def _find(self, text: str) -> str:
        if text == f"{LOOKED_UP}receipt":
            return str(perform(self._memory, find("get_brief"), {"symbol": LOSING}, OWNER_CALLER)["receipt"])
        if text == f"{LOOKED_UP}claimed":
            return next((row["id"] for row in self._trades() if row["quality"] == "claimed"), "none")
        if self._lost is None:
            self._lost = [row["id"] for row in self._trades() if float(row["pnl_r"] or 0) < 0]
        at = int(text.rpartition(" ")[2])
        return self._lost[at] if at < len(self._lost) else "none"

    def _trades(self) -> list[dict[str, Any]]:
        return list(perform(self._memory, find("get_trades"), {"symbol": LOSING, "limit": 200}, OWNER_CALLER)["trades"])


# ---- gates off ------------------------------------------------------------------------------------------------------------

CLAIMED_FIELDS = {"direction": "side", "strategy_name": "strategy", "reflection": "entry_reason"}
REPORTED_FIELDS = frozenset(
    (
        "agent",
        "trade_id",
        "symbol",
        "side",
        "entry_at",
        "exit_at",
        "entry_price",
        "exit_price",
        "qty",
        "stop",
        "strategy",
        "situation",
        "entry_reason",
        "tags",
        "confidence",
    )
)


def _ungated(call: AttackCall) -> AttackCall:
    """Returns a call as it would be made if nothing told a model from the broker and the owner."""
    data = dict(call.data)
    if call.operation == "remember_trade" and data.get("exit_price") is not None and data.get("entry_at"):
        renamed = {CLAIMED_FIELDS.get(name, name): value for name, value in data.items()}
        renamed["trade_id"] = f"ungated-{data.get('trade_id')}"
        kept = {name: value for name, value in renamed.items() if name in REPORTED_FIELDS and value is not None}
        return AttackCall("observe_trade", {**kept, "backfill": True})
    if call.operation == "correct_memory" and "reflection" not in data.get("changes", {}):
        return AttackCall("label_trade", {"trade_id": data["memory_id"], "teach": "exclude"})
    return AttackCall(call.operation, data)
