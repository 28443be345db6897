"""`memtape conform`: runs golden vectors through the product's own functions.

A ledger file is `{rules, cases}`: each case is a list of ticks and the rows they must give. It runs through a whole engine on a
store in memory. `VECTOR_NAMES` maps the vectors' names to ours. A list, or `{rules, vectors}`, is a file of formula vectors
`{name, op, inputs, expected, tol}`; `VECTOR_FORMULAS` has a function for each op.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from memtape.core.codec import decimal_text, read_time
from memtape.core.events import Discrepancy, discrepancy_json
from memtape.core.ledger.trades import Trade, entry_order, money_text, round_money, trade_json
from memtape.engine import AgentMemory, Memory
from memtape.engine.view.ledger import ledger_totals
from memtape.errors import Invalid, MemtapeError
from memtape.lab.card_formulas import CARD_FORMULAS
from memtape.lab.formulas import FORMULAS
from memtape.store.sqlite import SqliteDatabase

VECTOR_NAMES: Mapping[str, str] = {
    "deployment_id": "agent",
    "snapshot_id": "id",
    "entry_snapshot_id": "entry_decision",
    "exit_snapshot_id": "exit_decision",
}
VECTOR_FORMULAS = {**FORMULAS, **CARD_FORMULAS}
GOLDEN_DISCREPANCIES = ("snapshot", "adopted", "snapshot_lag", "fill_differs", "fee_unknown", "stop_wrong_side")


def run_vectors(file: Path) -> dict[str, Any]:
    """Run a file of vectors. Returns how many there are, how many passed, and what each failure expected and got."""
    try:
        vectors = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise Invalid("FILE", f"cannot be read: {error.strerror}", "Name a file of golden vectors") from None
    except ValueError as error:
        raise Invalid("FILE", f"is not JSON: {error}", "Name a file of golden vectors") from None
    if isinstance(vectors, dict) and isinstance(vectors.get("cases"), list):
        outcomes = [
            (case["name"], case["expected"] | {"moments": case.get("expected_as_of", [])}, ledger_case(case))
            for case in vectors["cases"]
        ]
        failed = [
            {"name": name, "expected": expected, "got": got, "differences": wrong}
            for name, expected, got in outcomes
            if (wrong := ledger_differences(expected, got))
        ]
        return {"total": len(outcomes), "passed": len(outcomes) - len(failed), "failed": failed}
    if isinstance(vectors, dict) and isinstance(vectors.get("vectors"), list):
        vectors = vectors["vectors"]
    if isinstance(vectors, list):
        failed = [v for vector in vectors if (v := _formula_failure(vector)) is not None]
        return {"total": len(vectors), "passed": len(vectors) - len(failed), "failed": failed}
    raise Invalid("FILE", "is neither a list of vectors nor {rules, vectors} nor {rules, cases}", "Name a file of golden vectors")


def ledger_case(case: Mapping[str, Any]) -> dict[str, Any]:
    """Runs a ledger case through an engine of its own. Returns the ledger, also as of every moment asked for, or the error."""
    with Memory(SqliteDatabase(":memory:")) as memory:
        try:
            memory.create_skill("golden")
            memory.create_agent("golden", skill="golden", mode="sim", settings=case["inputs"].get("config", {}))
            agent = memory.agent("golden")
            refused: list[tuple[str, dict[str, Any]]] = []
            for tick in case["inputs"]["ticks"]:
                try:
                    agent.observe({key: value for key, value in tick.items() if key != "restart_before"})
                except Invalid as error:
                    refused.append((tick["t"], {"snapshot_id": tick["snapshot_id"], "field": _field(error), "says": str(error)}))
            found = ledger_rows(agent) | {"refused": [each for _, each in refused], "moments": []}
            for past in case.get("expected_as_of", ()):
                moment = read_time(past["as_of"])
                rows = ledger_rows(agent, as_of=moment)
                found["moments"].append(rows | {"refused": [each for at, each in refused if read_time(at) <= moment]})
            return found
        except MemtapeError as error:
            return {"error": str(error)}


def _field(error: Invalid) -> str:
    """The field of a refusal as the vectors name it: without the number of the entry."""
    return ".".join(part for part in error.field.split(".") if not part.isdigit())


def ledger_rows(agent: AgentMemory, **known: Any) -> dict[str, Any]:
    """Returns an agent's ledger in the form of the vectors."""
    trades = sorted(agent.ledger.trades(newest=False, **known), key=entry_order)
    orphans = {symbol: decimal_text(round_money(usd)) for symbol, usd in agent.ledger.orphan_funding(**known).items()}
    return {
        "rows": [golden_row(trade) for trade in trades],
        "orphan_funding_usd": orphans,
        "totals": golden_totals(trades),
        "discrepancies": golden_discrepancies(agent.ledger.discrepancies(**known)),
    }


def golden_totals(trades: Sequence[Trade]) -> dict[str, Any]:
    """Returns the totals of a ledger in the form of the vectors."""
    totals = asdict(ledger_totals(trades))
    return {
        name: {key: money_text(amount) if isinstance(amount, Decimal) else amount for key, amount in sums.items()}
        for name, sums in totals.items()
    }


def golden_discrepancies(found: Iterable[Discrepancy]) -> list[dict[str, Any]]:
    """Returns the discrepancies that the vectors know, in their order."""
    known = [each for each in found if each.why in GOLDEN_DISCREPANCIES]
    rows = [dict.fromkeys(("ledger_qty", "broker_qty", "price")) | discrepancy_json(each) for each in known]
    return sorted(rows, key=_discrepancy_order)


def golden_row(trade: Trade) -> dict[str, Any]:
    """Returns a trade under the vectors' names as well as ours."""
    row = trade_json(trade)
    return row | {theirs: row[ours] for theirs, ours in VECTOR_NAMES.items() if ours in row}


def ledger_differences(expected: Mapping[str, Any], got: Mapping[str, Any]) -> list[str]:
    """Returns the differences of a ledger from the expected one. A vector names what it checks; amounts compare as numbers."""
    if "error" in got:
        return [str(got["error"])]
    wrong = _list_differences("row", expected["rows"], got["rows"])
    for name in ("discrepancies", "refused"):
        if name in expected:
            # How a refusal is worded is not compared.
            wanted = [{key: value for key, value in each.items() if key != "says"} for each in expected[name]]
            found = got.get(name, [])
            if name == "discrepancies":
                # Sorted by time, symbol and kind; what is equal in these may stand in any order.
                wanted, found = sorted(wanted, key=_discrepancy_order), sorted(found, key=_discrepancy_order)
            wrong += _list_differences(name, wanted, found)
    for name, sums in expected.get("totals", {}).items():
        have = got["totals"][name]
        wrong += [f"totals {name} {k}: {have.get(k)!r}, expected {v!r}" for k, v in sums.items() if not _equal(v, have.get(k))]
    for past, ledger in zip(expected.get("moments", []), got.get("moments", []), strict=True):
        wrong += [f"as of {past['as_of']}: {each}" for each in ledger_differences(past, ledger)]
    nonzero = {s: usd for s, usd in expected.get("orphan_funding_usd", {}).items() if Decimal(usd)}
    if nonzero.keys() != got["orphan_funding_usd"].keys() or any(
        not _equal(usd, got["orphan_funding_usd"][s]) for s, usd in nonzero.items()
    ):
        wrong.append(f"orphan funding {got['orphan_funding_usd']}, expected {nonzero}")
    return wrong


def _discrepancy_order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    amounts = [round_money(Decimal(row[name])) if row.get(name) is not None else Decimal(0) for name in ("price", "stop")]
    return row["at"], row["symbol"], row["why"], *amounts, row.get("fields") or []


def _list_differences(name: str, wanted: Sequence[Mapping[str, Any]], found: Sequence[Mapping[str, Any]]) -> list[str]:
    wrong = [] if len(wanted) == len(found) else [f"{len(found)} of {name}, expected {len(wanted)}"]
    for n, (want, have) in enumerate(zip(wanted, found, strict=False)):
        wrong += [f"{name} {n} {k}: {have.get(k)!r}, expected {v!r}" for k, v in want.items() if not _equal(v, have.get(k))]
    return wrong


def _equal(want: Any, have: Any) -> bool:
    if want == have:
        return True
    try:
        return isinstance(want, str) and isinstance(have, str) and Decimal(want) == Decimal(have)
    except InvalidOperation:
        return False


def _formula_failure(vector: Mapping[str, Any]) -> dict[str, Any] | None:
    formula = VECTOR_FORMULAS.get(str(vector.get("op")))
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
