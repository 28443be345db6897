"""What the log says of plans: their states at a past moment, and when each fired.

That a plan fired or expired stands in the log row that concluded it. The stored plans show the present; for an earlier moment the
statements and those conclusions are put in order again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from memtape.core.events import PlanEvent, PlanFired, read_event
from memtape.core.memory.plans import changed_plan_state, new_plan_state

if TYPE_CHECKING:
    from memtape.core.memory.plans import PlanState
    from memtape.engine.view.view import View

CONCLUDING_KINDS = ("tick", "shown")  # the log rows that may conclude that a plan fired or expired


def plan_firings(view: View) -> dict[str, list[PlanFired]]:
    """The events of each plan that fired. The log is not read where no stored plan has fired."""
    stored, fired = view.stored_plans(), dict[str, list[PlanFired]]()
    if not any(plan.fired for plan in stored):
        return fired
    for _, event in _plan_events(view, stored):
        if isinstance(event, PlanFired):
            fired.setdefault(event.plan, []).append(event)
    return fired


def plan_states_from_log(view: View, stored: Sequence[PlanState]) -> list[PlanState]:
    """Every plan and its state as of the view's cutoff, from statements and conclusions in the order of the log."""
    states = {item.key: new_plan_state(item.body, item.known_at) for item in view.items("plan")}
    changes = [(item.seq, item.known_at, item.symbol, item.body["status"]) for item in view.items("plan_status")]
    for seq, event in _plan_events(view, stored):
        changes.append((seq, event.at, event.plan, event.name.removeprefix("plan_")))
    for _, at, id_, status in sorted(changes, key=lambda change: change[0]):
        if id_ in states:
            states[id_] = changed_plan_state(states[id_], status, at)
    return list(states.values())


def _plan_events(view: View, stored: Sequence[PlanState]) -> Iterator[tuple[int, PlanEvent]]:
    """The conclusions about plans by the view's cutoff, each with its log row."""
    if not any(plan.fired or plan.ended_at is not None for plan in stored):
        return
    limits = view.cutoff.limits()
    for row in view.tables.log_of(CONCLUDING_KINDS, telling='"plan_'):
        if row.payload is not None and row.known_at <= limits["as_of"] and row.seq <= limits["upto"]:
            events = map(read_event, json.loads(row.payload)["concluded"])
            yield from ((row.seq, event) for event in events if isinstance(event, PlanEvent))
