"""The runs of an agent at a view's moment, what they cost, and the re-examinations of its decisions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from memtape.core.decisions.runs import AgentRun, RunEnd, RunStart
from memtape.core.values import ZERO, read
from memtape.store.database import in_batches

if TYPE_CHECKING:
    from memtape.core.items import StoredItem
    from memtape.engine.view.view import View

INSTANT = timedelta(microseconds=1)


def agent_runs(
    view: View, *, ids: Sequence[str] | None = None, since: datetime | None = None, before: datetime | None = None,
    kind: str | None = None, limit: int | None = None,
) -> list[AgentRun]:  # fmt: skip
    """Runs, the one that began last first; `kind` chooses one kind of them."""
    starts = view.items("run", keys=ids, since=since, before=before, symbol=kind, newest=True, limit=limit)
    return _with_ends(view, sorted(starts, key=lambda item: item.seq, reverse=True))


def agent_run(view: View, id: str) -> AgentRun | None:
    """One run."""
    return next(iter(agent_runs(view, ids=[id])), None)


def last_run(view: View) -> AgentRun | None:
    """The run that began last; only this one may still be at work, because an agent has one run at a time."""
    return next(iter(agent_runs(view, limit=1)), None)


def last_scheduled_start(view: View) -> datetime | None:
    """When the last scheduled run began, whatever became of it."""
    found = view.items("run", symbol="scheduled", newest=True, limit=1)
    return found[0].at if found else None


def _with_ends(view: View, starts: Sequence[StoredItem]) -> list[AgentRun]:
    if not starts:
        return []
    ends = {
        item.key: read(RunEnd, item.body)
        for some in in_batches(item.key for item in starts) for item in view.items("run_end", keys=some)
    }  # fmt: skip
    return [AgentRun(read(RunStart, item.body), ends.get(item.key)) for item in starts]


@dataclass(frozen=True, slots=True)
class DaySpending:
    """What an agent's runs of one UTC day came to."""

    runs: int  # without those that were stopped before they began, and answers given without a runner
    cost_usd: Decimal
    unpriced: int  # runs whose cost nobody stated


def spending_on_day(view: View, moment: datetime) -> DaySpending:
    """The runs of the UTC day of a moment, and what they cost."""
    start = moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    of_day = agent_runs(view, since=start, before=start + timedelta(days=1))
    found = [run for run in of_day if run.result != "stopped" and run.start.asks_model]
    costs = [run.end.usage.cost_usd for run in found if run.end is not None]
    return DaySpending(len(found), sum((cost for cost in costs if cost is not None), ZERO), costs.count(None))


def transcript(view: View, session: str | None, known: Iterable[AgentRun] = ()) -> list[AgentRun]:
    """The runs that a session consists of, oldest first, for a runner that keeps no session itself.

    Such a session is named after its last run, and each run names the session before it. `known` are runs that were read before:
    a session may consist of a thousand, and those are not read one by one.
    """
    found: dict[str, AgentRun] = {}
    by_id = {run.id: run for run in known}
    while session is not None and session not in found and (run := by_id.get(session) or agent_run(view, session)) is not None:
        found[session] = run
        session = run.start.session_before
    return list(found.values())[::-1]
