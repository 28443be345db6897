"""A journal's prospective memories -> plans of the agent, which are proposals until the owner confirms them.

A trigger must be a predicate (`core.memory.predicate`). The package has two forms of its own that are translated: `atr_d1_min`
and `atr_d1_max`, and a list of conditions with `gte` and `lte`.

>>> row = {"id": "p", "trigger_condition": '{"atr_d1_min": 60}', "reasoning": "Wild days",
...        "planned_action": '{"type": "reduce_size", "size_factor": 0.5}'}
>>> plan = plan_from_row(JournalCells(), row)
>>> plan["trigger"], plan["action"], plan["size_factor"]
({'all': [{'field': 'atr_d1', 'op': 'ge', 'value': 60}]}, 'reduce', 0.5)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memtape.brokers.cells import shown_cell
from memtape.brokers.formats.tradememory.cells import JournalCells
from memtape.brokers.formats.tradememory.database import JournalRow
from memtape.core.memory.plans import CAREFUL_FIRST, Plan
from memtape.core.values import read
from memtape.errors import Invalid

FIX_PLAN = f"Create it with create_trading_plan; the actions are {', '.join(CAREFUL_FIRST)}"
_ACTIONS: dict[str, str] = {name: name for name in CAREFUL_FIRST} | {
    "reduce_size": "reduce", "skip": "skip_trade", "exit": "force_exit", "close_position": "force_exit",
}  # fmt: skip
_SIZE_FACTOR_NAMES = ("size_factor", "factor", "multiplier", "lot_multiplier")
_OPERATORS = {"gte": "ge", "lte": "le"}
_ATR_LIMITS = {"atr_d1_min": "ge", "atr_d1_max": "le"}


def read_plans(cells: JournalCells, rows: Sequence[tuple[int, JournalRow]]) -> list[dict[str, Any]]:
    """Returns the plans that wait for their trigger."""
    found: list[dict[str, Any]] = []
    ended = 0
    for line, row in rows:
        if (row.get("status") or "active") != "active":
            ended += 1
            continue
        try:
            found.append(plan_from_row(cells, row))
        except Invalid as error:
            cells.refuse("prospective_memory", line, row, error)
    if ended:
        cells.notes.append(f"{ended} plans have fired, expired or been cancelled: left out")
    return found


def plan_from_row(cells: JournalCells, row: JournalRow) -> dict[str, Any]:
    """Returns a row as an agent makes a plan. Raises Invalid if its trigger or action is unknown."""
    action = cells.object(row, "planned_action")
    kind = str(action.get("type") or row.get("action_type") or "").lower()
    if kind not in _ACTIONS:
        raise Invalid("planned_action", f"{shown_cell(kind)} is not an action of memtape", FIX_PLAN)
    factor = next((name for name in _SIZE_FACTOR_NAMES if name in action), None)
    priority, expiry = cells.level(row, "priority"), cells.time(row, "expiry")
    plan: dict[str, Any] = {
        "id": cells.key(row), "trigger": _trigger(cells.json(row, "trigger_condition")), "action": _ACTIONS[kind],
        "parameters": {key: value for key, value in action.items() if key not in ("type", factor)}, "maker": "agent",
        "reasoning": cells.text(row, "reasoning") or "no reason was given",
    }  # fmt: skip
    plan |= {} if factor is None else {"size_factor": action[factor]}
    plan |= {} if priority is None else {"priority": priority}
    plan |= {} if expiry is None else {"expires_at": expiry}
    read(Plan, plan).checked()
    return plan


def _trigger(condition: Any) -> dict[str, Any]:
    """Returns a trigger as a predicate. What cannot be translated stays as it is, and the check of the plan refuses it."""
    if not isinstance(condition, dict):
        raise Invalid("trigger_condition", "is not a JSON object", 'Write it like {"regime": "ranging"}')
    if set(condition) == {"conditions"} and isinstance(condition["conditions"], list):
        listed = [each if isinstance(each, dict) else {} for each in condition["conditions"]]
        return {"all": [{**each, "op": _OPERATORS.get(str(each.get("op")), each.get("op"))} for each in listed]}
    if not _ATR_LIMITS.keys() & condition.keys():
        return condition
    bounds = [
        {"field": "atr_d1", "op": op, "value": condition[name]}
        for name, op in _ATR_LIMITS.items()
        if condition.get(name) is not None
    ]
    rest = {key: value for key, value in condition.items() if key not in _ATR_LIMITS}
    return {"all": [*bounds, *([rest] if rest else [])]}
