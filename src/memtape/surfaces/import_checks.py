"""What is checked about a file before it is imported, with the memory and the clock at hand; and its problems as an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from memtape.brokers.importer import FoundRow, ImportProblem, ProblemGroup, group_problems
from memtape.core.codec import plain, time_text
from memtape.core.decisions.decision_outcomes import StatedOutcome
from memtape.core.ids import DecisionId
from memtape.core.items import Item, body_of, unpack_items
from memtape.core.observed import CashFlow, Claim, ClosedTrade, Decision, EquityMark, Tick, occurred_at
from memtape.core.skills import DEFAULT_AGENT
from memtape.engine.write.arrivals import CLOCK_TOLERANCE
from memtape.errors import FieldProblem, Invalid

if TYPE_CHECKING:
    from memtape.engine import AgentMemory

MAX_LISTED_KINDS = 100
# A second delivery under the same id must agree with the first in these fields.
_IDENTIFYING_FIELDS: Mapping[str, tuple[str, ...]] = {
    "fill": ("symbol", "side", "t", "qty", "px"),
    "trade": ("symbol", "side", "entry_at", "exit_at", "entry_price", "exit_price"),
    "claim": ("symbol", "side", "entry_price", "exit_price", "exit_at"),
    "decision": ("symbol", "action", "side", "t", "entry_price", "stop", "target"),
    "equity": ("equity",),
    "flow": ("usd",),
    "tick": ("positions",),
}
_FIX_ID = "If ids repeat across symbols or accounts, use --map id=symbol+id; if it is a correction, undo the earlier import"
_FIX_JOURNAL_ID = "If it is another journal, import it into another agent; if it is a correction, use correct_memory"
_FIX_MARK = "The account is known otherwise at that moment. If this is the correction, undo the earlier import"


def drop_future(
    now: datetime, found: Sequence[FoundRow], problems: list[ImportProblem], *, blocks: bool = True
) -> list[FoundRow]:
    """Drop rows in the future: their zone or year is wrong."""
    rows: list[FoundRow] = []
    for each in found:
        at = occurred_at(each.value)
        if at is not None and at > now + CLOCK_TOLERANCE:
            field = "exit_at" if isinstance(each.value, ClosedTrade | Claim) else "time"
            problem = f"{time_text(at)} is in the future"
            problems.append(ImportProblem(each.line, field, problem, f"It is now {time_text(now)}. Check zone and year", blocks))
        else:
            rows.append(each)
    return rows


def take_owners_names(handle: AgentMemory, found: Sequence[FoundRow], notes: list[str]) -> list[FoundRow]:
    """Give decisions whose id or order a model used for another decision the id under which they are recorded."""
    stated = [each for row in found for each in (row.decision, row.value) if isinstance(each, Decision)]
    renamed = handle.imports.owners_names(stated)
    if not renamed:
        return list(found)
    first, *others = renamed.values()
    more = f" and {len(others)} more" if others else ""
    notes.append(f"recorded as {first}{more}: a model had used the id, or an order, for another decision")

    def named(decision: Decision) -> Decision:
        return replace(decision, id=DecisionId(renamed.get(decision.id or "", decision.id or "")))

    return [
        replace(
            row, value=named(row.value) if isinstance(row.value, Decision) else row.value,
            decision=named(row.decision) if row.decision is not None else None,
            outcome=row.outcome.under(renamed) if row.outcome is not None else None,
        )
        for row in found
    ]  # fmt: skip


def drop_changed(
    handle: AgentMemory, found: Sequence[FoundRow], problems: list[ImportProblem], *, blocks: bool = True
) -> list[FoundRow]:
    """Drop rows whose id is known with other content. A write would ignore them as a second delivery, so they are reported."""
    items = [[item for item in unpack_items(each.value) if item.kind in _IDENTIFYING_FIELDS] for each in found]
    known = handle.imports.stored_bodies((item.kind, item.key) for several in items for item in several)
    rows: list[FoundRow] = []
    for each, several in zip(found, items, strict=True):
        problem = next((problem for item in several if (problem := _difference(item, known.get((item.kind, item.key))))), None)
        if problem is None:
            rows.append(each)
            continue
        field, fix = ("id", _FIX_JOURNAL_ID if isinstance(each.value, Claim) else _FIX_ID)
        if isinstance(each.value, EquityMark | CashFlow | Tick):
            field, fix = "time", _FIX_MARK
        problems.append(ImportProblem(each.line, field, problem, fix, blocks))
    return rows


def _difference(item: Item, earlier: Mapping[str, Any] | None) -> str | None:
    """Returns how an item differs from the one that is stored under its key; None if it does not."""
    if earlier is None:
        return None
    now = body_of(item) if item.kind == "tick" else plain(item.body)
    differing = [name for name in _fields_to_compare(item.kind, earlier) if earlier.get(name) != now.get(name)]
    if not differing:
        return None
    name = differing[0]
    if item.kind == "tick":
        return f"the snapshot of {time_text(item.at)} is known with other positions"
    what = f"id {item.key}" if item.kind not in ("equity", "flow") else f"{item.kind} of {time_text(item.at)}"
    return f"{what} is known with {name} {earlier.get(name)}, here it is {now.get(name)}"


def _fields_to_compare(kind: str, earlier: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the fields that must agree. A claimed trade that was open may have ended since."""
    still_open = kind == "claim" and "exit_price" not in earlier
    return tuple(name for name in _IDENTIFYING_FIELDS[kind] if not (still_open and name.startswith("exit_")))


def drop_stale(handle: AgentMemory, found: Sequence[FoundRow], problems: list[ImportProblem]) -> list[FoundRow]:
    """Drop snapshots that are not later than the last tick of the agent: ticks keep their order. Equity and flows stay."""
    last = handle.head().last_tick
    if last is None or not any(isinstance(each.value, Tick) for each in found):
        return list(found)
    ticks = [each.value.id for each in found if isinstance(each.value, Tick)]
    known = handle.imports.stored_bodies(("tick", id_) for id_ in ticks)
    rows: list[FoundRow] = []
    for each in found:
        tick = each.value
        if not isinstance(tick, Tick) or tick.t > last or ("tick", tick.id) in known:
            rows.append(each)
            continue
        problem = f"the snapshot of {time_text(tick.t)} is not later than the last one of the agent, {time_text(last)}"
        fix = "Its positions are left out, its equity and flows are imported. Import older snapshots first, or into a new agent"
        problems.append(ImportProblem(each.line, "time", problem, fix, blocks=False))
        rows += [FoundRow(each.line, flow) for flow in tick.cash_flows]
        if tick.equity is not None:
            rows.append(FoundRow(each.line, EquityMark(t=tick.t, equity=tick.equity)))
    return rows


def drop_changed_outcomes(handle: AgentMemory, found: Sequence[FoundRow], problems: list[ImportProblem]) -> list[FoundRow]:
    """Drop outcomes of decisions that are known with another outcome; the decisions stay."""
    stated = {each.outcome.stated.decision: each.outcome.stated for each in found if each.outcome is not None}
    known = handle.imports.stored_outcomes(stated)
    rows: list[FoundRow] = []
    for each in found:
        body = known.get(each.outcome.stated.decision) if each.outcome is not None else None
        if each.outcome is not None and body is not None and not _same_outcome(each.outcome.stated, body):
            problem = f"decision {each.outcome.stated.decision} is known with another outcome: the stored one stays"
            fix = "If the file is right, state it with record_outcome, or undo the earlier import"
            problems.append(ImportProblem(each.line, "outcome", problem, fix, blocks=False))
            rows.append(FoundRow(each.line, each.value, each.decision))
        else:
            rows.append(each)
    return rows


def _same_outcome(stated: StatedOutcome, earlier: Mapping[str, Any]) -> bool:
    now = plain(stated) | {"cause": stated.stated_cause}
    return all(now.get(name) == earlier.get(name) for name in ("status", "cause", "r", "exit_price", "exit_at"))


def refuse_second_reading(handle: AgentMemory, file_digest: str, mapping: Mapping[str, str]) -> list[ImportProblem]:
    """The problem of a file that counts already and is read otherwise now, so that each of its rows would count twice."""
    for item, undone in handle.imports.all():
        earlier = item.body.get("mapping") or {}
        if undone or item.body.get("digest") != file_digest or earlier.get("kind") != mapping.get("kind"):
            continue
        differing = [name for name in dict.fromkeys((*earlier, *mapping)) if earlier.get(name) != mapping.get(name)]
        if not differing:
            continue
        name = differing[0]
        problem = (f"this file was imported before, with {name} {earlier.get(name) or 'not given'}, here it is "
                   f"{mapping.get(name) or 'not given'}: its rows would count twice")  # fmt: skip
        own = "" if handle.agent.id == DEFAULT_AGENT else f" --agent {handle.agent.id}"
        fix = f"Take the earlier import back first: memtape imports undo {item.key}{own}"
        return [ImportProblem(None, name, problem, fix)]
    return []


def refuse_bad_rows(problems: Sequence[ImportProblem], rows: int, has_rows: bool, skip_bad: bool) -> None:
    """Raises Invalid if a file has rows that cannot be read, unless they are to be skipped, or no others."""
    bad = [problem for problem in problems if problem.blocks]
    of_file = [problem for problem in bad if problem.line is None]
    if of_file:
        # A doubt about every row: leaving rows out does not help.
        first, *more = (FieldProblem(each.field, each.problem, each.fix) for each in of_file)
        raise Invalid(first.field, f"{first.problem}. Nothing was written", first.fix, *more)
    if bad and not skip_bad:
        lines = {problem.line for problem in bad}
        problem = f"{len(lines)} of {rows} rows cannot be read. Nothing was written"
        fix = "Correct them, or import the other rows with --skip-bad"
        raise Invalid("file", problem, fix, *map(_group_problem, group_problems(bad)))
    if not has_rows:
        if left_out := [problem for problem in problems if problem.line is not None]:
            why = left_out[0]
            raise Invalid("file", f"has no rows to import: {len(left_out)} of {rows} {why.problem}", why.fix)
        raise Invalid("file", "has no rows to import", "See what it holds: memtape import FILE")


def _group_problem(group: ProblemGroup) -> FieldProblem:
    first, n = group.problems[0], len(group.problems)
    more = f" and {n - len(group.examples)} more" if n > len(group.examples) else ""
    examples = "; ".join(f"line {each.line}: {each.problem}" for each in group.examples)
    return FieldProblem(first.field, examples + more, first.fix)


def listed_problems(problems: Sequence[ImportProblem]) -> list[dict[str, Any]]:
    """Returns the problems of a file as JSON, one entry for each kind."""
    groups = group_problems(problems)
    listed = [group.as_dict() for group in groups[:MAX_LISTED_KINDS]]
    if len(groups) > MAX_LISTED_KINDS:
        rest = ImportProblem(None, "row", f"{len(groups) - MAX_LISTED_KINDS:,} more kinds of problems", "Correct these first")
        listed.append(ProblemGroup((rest,)).as_dict())
    return listed
