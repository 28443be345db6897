"""`memtape conform`: runs golden vectors through the product's own functions.

A ledger file is `{rules, cases}`: each case is a list of ticks and the rows they must give. It runs through a whole engine on a
store in memory. `VECTOR_NAMES` maps the vectors' names to ours. A list is a file of formula vectors `{name, op, inputs, expected,
tol}`; `FORMULAS` has a function for each op.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from memtape.core.codec import decimal_text
from memtape.core.ledger.trades import Trade, entry_order, round_money, trade_json
from memtape.engine import AgentMemory, Memory
from memtape.errors import Invalid, MemtapeError
from memtape.lab.formulas import FORMULAS
from memtape.store.sqlite import SqliteDatabase

VECTOR_NAMES: Mapping[str, str] = {
    "deployment_id": "agent",
    "snapshot_id": "id",
    "entry_snapshot_id": "entry_decision",
    "exit_snapshot_id": "exit_decision",
}


def run_vectors(file: Path) -> dict[str, Any]:
    """Run a file of vectors. Returns how many there are, how many passed, and what each failure expected and got."""
    try:
        vectors = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise Invalid("FILE", f"cannot be read: {error.strerror}", "Name a file of golden vectors") from None
    except ValueError as error:
        raise Invalid("FILE", f"is not JSON: {error}", "Name a file of golden vectors") from None
    if isinstance(vectors, dict) and isinstance(vectors.get("cases"), list):
        outcomes = [(case["name"], case["expected"], ledger_case(case)) for case in vectors["cases"]]
        failed = [
            {"name": name, "expected": expected, "got": got, "differences": wrong}
            for name, expected, got in outcomes
            if (wrong := ledger_differences(expected, got))
        ]
        return {"total": len(outcomes), "passed": len(outcomes) - len(failed), "failed": failed}
    if isinstance(vectors, list):
        failed = [v for vector in vectors if (v := _formula_failure(vector)) is not None]
        return {"total": len(vectors), "passed": len(vectors) - len(failed), "failed": failed}
    raise Invalid("FILE", "is neither a list of vectors nor {rules, cases}", "Name a file of golden vectors")


def ledger_case(case: Mapping[str, Any]) -> dict[str, Any]:
    """Runs a ledger case through an engine of its own. Returns the rows, or the error."""
    with Memory(SqliteDatabase(":memory:")) as memory:
        try:
            memory.create_skill("golden")
            memory.create_agent("golden", skill="golden", mode="sim", settings=case["inputs"].get("config", {}))
            agent = memory.agent("golden")
            for tick in case["inputs"]["ticks"]:
                agent.observe({key: value for key, value in tick.items() if key != "restart_before"})
            return ledger_rows(agent)
        except MemtapeError as error:
            return {"error": str(error)}


def ledger_rows(agent: AgentMemory, **known: Any) -> dict[str, Any]:
    """Returns an agent's ledger in the form of the vectors."""
    trades = sorted(agent.ledger.trades(newest=False, **known), key=entry_order)
    orphans = {symbol: decimal_text(round_money(usd)) for symbol, usd in agent.ledger.orphan_funding(**known).items()}
    return {"rows": [golden_row(trade) for trade in trades], "orphan_funding_usd": orphans}


def golden_row(trade: Trade) -> dict[str, Any]:
    """Returns a trade under the vectors' names as well as ours."""
    row = trade_json(trade)
    return row | {theirs: row[ours] for theirs, ours in VECTOR_NAMES.items() if ours in row}


def ledger_differences(expected: Mapping[str, Any], got: Mapping[str, Any]) -> list[str]:
    """Returns the differences of a ledger from the expected one. Amounts are compared as numbers."""
    if "error" in got:
        return [str(got["error"])]
    wanted, found = expected["rows"], got["rows"]
    wrong = [] if len(wanted) == len(found) else [f"{len(found)} rows, expected {len(wanted)}"]
    for n, (want, have) in enumerate(zip(wanted, found, strict=False)):
        wrong += [f"row {n} {k}: {have.get(k)!r}, expected {v!r}" for k, v in want.items() if not _equal(v, have.get(k))]
    nonzero = {s: usd for s, usd in expected.get("orphan_funding_usd", {}).items() if Decimal(usd)}
    if nonzero.keys() != got["orphan_funding_usd"].keys() or any(
        not _equal(usd, got["orphan_funding_usd"][s]) for s, usd in nonzero.items()
    ):
        wrong.append(f"orphan funding {got['orphan_funding_usd']}, expected {nonzero}")
    return wrong


def _equal(want: Any, have: Any) -> bool:
    if want == have:
        return True
    try:
        return isinstance(want, str) and isinstance(have, str) and Decimal(want) == Decimal(have)
    except InvalidOperation:
        return False


def _formula_failure(vector: Mapping[str, Any]) -> dict[str, Any] | None:
    formula = FORMULAS.get(str(vector.get("op")))
    if formula is None:
        return {"name": vector.get("name"), "expected": vector.get("expected"), "got": f"no operation '{vector.get('op')}'"}
    try:
        got = formula(vector["inputs"])
    # A vector that raises is one failure among others.
    except (MemtapeError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        got = f"{type(error).__name__}: {error}"
    if is_near(vector["expected"], got, float(vector.get("tol", 1e-9))):
        return None
    return {"name": vector["name"], "expected": vector["expected"], "got": got}


def is_near(want: Any, have: Any, tol: float) -> bool:
    """Returns True if an answer is as expected: numbers within tol, all else exactly. A vector names only what it checks.

    >>> is_near({"f": 0.5, "order": ["a"]}, {"f": 0.5 + 1e-12, "order": ["a"], "n": 3}, 1e-9), is_near(1, True, 1e-9)
    (True, False)
    """
    if isinstance(want, dict):
        return isinstance(have, Mapping) and all(key in have and is_near(value, have[key], tol) for key, value in want.items())
    if isinstance(want, list):
        return (
            isinstance(have, list | tuple)
            and len(want) == len(have)
            and all(is_near(a, b, tol) for a, b in zip(want, have, strict=True))
        )
    if isinstance(want, bool) or isinstance(have, bool) or not isinstance(want, int | float):
        return type(want) is type(have) and bool(want == have)
    return isinstance(have, int | float) and (want == have or abs(want - have) <= tol)
