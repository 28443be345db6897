"""Imports the journal of another memory: its trades as claims in one batch, then its beliefs and plans one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from memtape.brokers.files import ImportFile
from memtape.brokers.importer import ImportedStatements, ImportProblem, ImportResult
from memtape.brokers.totals import AccountSums, FileTotals
from memtape.core.codec import plain
from memtape.core.memory.plans import Plan
from memtape.core.observed import Claim, Closing
from memtape.core.values import ZERO, read
from memtape.engine.write.arrivals import CLOCK_TOLERANCE
from memtape.errors import Invalid
from memtape.surfaces.import_answers import mapping_json, new_agent_note, totals_json
from memtape.surfaces.import_checks import drop_changed, drop_future, listed_problems

if TYPE_CHECKING:
    from memtape.engine import AgentMemory, Memory


def import_journal(
    memory: Memory, handle: AgentMemory | None, agent: str | None, file: ImportFile, name: str, result: ImportResult,
    statements: ImportedStatements, settings: Mapping[str, str], *, commit: bool,
) -> dict[str, Any]:  # fmt: skip
    """Import claims in one batch, then beliefs and plans one by one. No problem in a journal blocks the rest."""
    now = memory.clock.now()
    result.found = drop_future(now, result.found, result.problems, blocks=False)
    _drop_expired(statements, result.notes, now)
    if handle:
        result.found = drop_changed(handle, result.found, result.problems, blocks=False)
        _drop_changed_statements(handle, statements, result)
    else:
        result.notes.append(new_agent_note(agent, commit))
    claims = [each.value for each in result.found if isinstance(each.value, Claim)]
    values = _with_closings(handle, claims)
    new, duplicates = handle.imports.preview(values) if handle else (len(values), 0)
    answer = {
        "format": name, "kind": result.kind, "rows": result.rows, "fills": 0, "trades": len(values),
        "counts": {"trades": len(values), "beliefs": len(statements.beliefs), "plans": len(statements.plans)},
        "beliefs": len(statements.beliefs), "plans": len(statements.plans), "new": new, "duplicates": duplicates,
        "problems": listed_problems(result.problems),
        "totals": totals_json(_claimed_totals(claims)),
        "mapping": mapping_json(result), "committed": False, "batch": None,
    }  # fmt: skip
    if commit:
        if not (values or statements.beliefs or statements.plans):
            raise Invalid(file.name, "has nothing to import", "Preview it without --commit")
        source = {"file": file.name, "format": name, "digest": file.digest}
        desk = memory.agent_for_writing(agent, make=True, settings=settings)
        batch = _commit_journal(desk, values, statements, source)
        answer |= {"committed": True, "batch": batch}
    return answer


def _commit_journal(
    desk: AgentMemory, values: Sequence[Claim | Closing], statements: ImportedStatements, source: Mapping[str, Any]
) -> str | None:
    """Write trades, closings, beliefs and plans, in this order. Each is idempotent, so a repetition completes a broken import."""
    claims = [value for value in values if isinstance(value, Claim)]
    done = desk.imports.commit(claims, source) if claims else None
    for value in values:
        if isinstance(value, Closing):
            desk.close_trade(value, backfill=True)
    for belief in statements.beliefs:
        desk.memories.state_belief(belief)
    for plan in statements.plans:
        desk.plans.create(plan)
    return done.batch if done and done.new else None


def _drop_expired(statements: ImportedStatements, notes: list[str], now: datetime) -> None:
    waiting = [plan for plan in statements.plans if plan.get("expires_at", now + CLOCK_TOLERANCE) > now]
    if past := len(statements.plans) - len(waiting):
        notes.append(f"{past} plan{'s have' if past > 1 else ' has'} expired: left out")
    statements.plans = waiting


def _drop_changed_statements(handle: AgentMemory, statements: ImportedStatements, result: ImportResult) -> None:
    """Drop beliefs and plans whose id is known with other content: a write would refuse them, so they are reported."""
    names = [("belief", belief["id"]) for belief in statements.beliefs] + [("plan", plan["id"]) for plan in statements.plans]
    bodies = handle.imports.stored_bodies(names)
    problem = "is known with other content: the stored one stays"
    fix = "Withdraw the stored one and state this one under a new id"
    for name, listed, is_same in (("belief", statements.beliefs, _same_belief), ("plan", statements.plans, _same_plan)):
        stored = {key: body for (kind, key), body in bodies.items() if kind == name}
        other = [each["id"] for each in listed if each["id"] in stored and not is_same(each, stored[each["id"]])]
        result.problems += [ImportProblem(None, name, f"{id_} {problem}", fix, blocks=False) for id_ in other]
        listed[:] = [each for each in listed if each["id"] not in other]
        if repeated := sum(each["id"] in stored for each in listed):
            result.notes.append(f"{repeated} {name}{'s are' if repeated > 1 else ' is'} known already")


def _same_belief(belief: Mapping[str, Any], body: Mapping[str, Any]) -> bool:
    return bool(plain({name: value for name, value in belief.items() if name != "id"}) == body)


def _same_plan(plan: Mapping[str, Any], body: Mapping[str, Any]) -> bool:
    return replace(read(Plan, dict(plan)), expires_at=None) == replace(read(Plan, dict(body)), expires_at=None)


def _with_closings(handle: AgentMemory | None, claims: Sequence[Claim]) -> list[Claim | Closing]:
    """Returns the claims; a trade that an earlier import left open comes as its closing."""
    if handle is None:
        return list(claims)
    bodies = handle.imports.stored_bodies(("claim", claim.trade_id or "") for claim in claims)

    def was_open(claim: Claim) -> bool:
        stored = bodies.get(("claim", claim.trade_id or ""))
        return claim.exit_price is not None and stored is not None and "exit_price" not in stored

    return [_closing(claim) if was_open(claim) else claim for claim in claims]


def _closing(claim: Claim) -> Closing:
    assert claim.trade_id is not None and claim.exit_price is not None
    return Closing(trade_id=claim.trade_id, exit_price=claim.exit_price, exit_at=claim.exit_at, pnl=claim.pnl, pnl_r=claim.pnl_r,
                   reflection=claim.reflection, mae=claim.mae)  # fmt: skip


def _claimed_totals(claims: Sequence[Claim]) -> FileTotals:
    """Returns the sums of the claimed trades. They are net, because a claim's profit is net."""
    totals = FileTotals()
    for claim in claims:
        side = 1 if claim.side == "long" else -1
        if claim.exit_price is None or claim.exit_at is None:
            totals.open[claim.symbol] = totals.open.get(claim.symbol, ZERO) + side * (claim.qty or ZERO)
            continue
        net = claim.pnl if claim.pnl is not None else side * (claim.exit_price - claim.entry_price) * (claim.qty or ZERO)
        for sums in (totals, totals.by_symbol.setdefault(claim.symbol, AccountSums())):
            sums.add(net, ZERO, ZERO, claim.entry_at or claim.exit_at, claim.exit_at)
    totals.by_symbol = dict(sorted(totals.by_symbol.items()))
    return totals
