"""A journal's prospective memories -> plans that the agent makes, so proposals until the owner confirms them.

A trigger must be one that can be asked (`core.predicate`). The package's own two ways to say more than "equal" are put into
its words: `atr_d1_min` and `atr_d1_max`, and a list of conditions with `gte` and `lte`.

>>> row = {"id": "p", "trigger_condition": '{"atr_d1_min": 60}', "reasoning": "Wild days",
...        "planned_action": '{"type": "reduce_size", "size_factor": 0.5}'}
>>> plan = plan_of(Cells(), row)
>>> plan["trigger"], plan["action"], plan["size_factor"]
({'all': [{'field': 'atr_d1', 'op': 'ge', 'value': 60}]}, 'reduce', 0.5)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memtape.brokers.cells import shown_cell
from memtape.brokers.tradememory.cells import Cells
from memtape.brokers.tradememory.database import Row
from memtape.core.memory.plans import CAREFUL_FIRST, Plan
from memtape.core.values import read
from memtape.errors import Invalid

AGAIN = f"Make it again with create_trading_plan; the actions are {', '.join(CAREFUL_FIRST)}"
_ACTIONS: dict[str, str] = {name: name for name in CAREFUL_FIRST} | {
    "reduce_size": "reduce", "skip": "skip_trade", "exit": "force_exit", "close_position": "force_exit",
}  # fmt: skip
_FACTORS = ("size_factor", "factor", "multiplier", "lot_multiplier")
_OPS = {"gte": "ge", "lte": "le"}
_LIMITS = {"atr_d1_min": "ge", "atr_d1_max": "le"}


def read_plans(cells: Cells, rows: Sequence[tuple[int, Row]]) -> list[dict[str, Any]]:
    """The plans that wait for their trigger."""
    found: list[dict[str, Any]] = []
    ended = 0
    for line, row in rows:
        if (row.get("status") or "active") != "active":
            ended += 1
            continue
        try:
            found.append(plan_of(cells, row))
        except Invalid as error:
            cells.refuse("prospective_memory", line, row, error)
    if ended:
        cells.notes.append(f"{ended} plans have fired, expired or been cancelled: left out")
    return found


def plan_of(cells: Cells, row: Row) -> dict[str, Any]:
    """A row as an agent's memory takes a plan; `Invalid` if it cannot be asked or done."""
    action = cells.object(row, "planned_action")
    kind = str(action.get("type") or row.get("action_type") or "").lower()
    if kind not in _ACTIONS:
        raise Invalid("planned_action", f"{shown_cell(kind)} is no action that memtape knows", AGAIN)
    factor = next((name for name in _FACTORS if name in action), None)
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


def _trigger(said: Any) -> dict[str, Any]:
    """A trigger in the words of `core.predicate`; what it cannot say goes through as it is, to be refused there."""
    if not isinstance(said, dict):
        raise Invalid("trigger_condition", "is not a JSON object", 'Write it like {"regime": "ranging"}')
    if set(said) == {"conditions"} and isinstance(said["conditions"], list):
        listed = [each if isinstance(each, dict) else {} for each in said["conditions"]]
        return {"all": [{**each, "op": _OPS.get(str(each.get("op")), each.get("op"))} for each in listed]}
    if not _LIMITS.keys() & said.keys():
        return said
    bounds = [{"field": "atr_d1", "op": op, "value": said[name]} for name, op in _LIMITS.items() if said.get(name) is not None]
    rest = {key: value for key, value in said.items() if key not in _LIMITS}
    return {"all": [*bounds, *([rest] if rest else [])]}
