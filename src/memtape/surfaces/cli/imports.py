"""`memtape import`: imports a file of fills or closed trades into an agent's memory. Without `--commit` it is a preview.

The preview reads everything and writes nothing. It shows the meaning of columns, what is new, what cannot be read, and sums to
compare with the broker's own. A commit writes all readable rows in one batch, or nothing. A file may contain beliefs and plans
too (`ImportResult.statements`), like a journal of another memory: they are stated after its trades.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memtape.brokers.account import DEFAULT_CURRENCY
from memtape.brokers.files import ImportFile, clean_name, load_file
from memtape.brokers.formats import read_file
from memtape.brokers.importer import (
    FoundRow,
    ImportedStatements,
    ImportOptions,
    ImportProblem,
    ImportResult,
    ProblemGroup,
    Progress,
    group_problems,
)
from memtape.brokers.totals import AccountSums, FileTotals, absurd_totals, file_totals
from memtape.core.codec import decimal_text, plain, time_text
from memtape.core.fills import Fill
from memtape.core.ledger.trades import money_text as money
from memtape.core.memory.plans import Plan
from memtape.core.observed import Claim, ClosedTrade, Closing, Observed, occurred_at
from memtape.core.values import ZERO, Quantity, Slug, read
from memtape.engine.write.writer import CLOCK_TOLERANCE
from memtape.errors import FieldProblem, Invalid, Unknown
from memtape.surfaces.answers import optional_time_text
from memtape.surfaces.questions import DEFAULT_AGENT

if TYPE_CHECKING:
    from memtape.engine import AgentMemory, Memory

MAX_LISTED_KINDS = 100
# A second delivery under the same id must agree with the first in these fields.
_IDENTIFYING_FIELDS: Mapping[str, tuple[str, ...]] = {
    "fill": ("symbol", "side", "t", "qty", "px"),
    "trade": ("symbol", "side", "entry_at", "exit_at", "entry_price", "exit_price"),
    "claim": ("symbol", "side", "entry_price", "exit_price", "exit_at"),
}
_FIX_ID = "If ids repeat across symbols or accounts, use --map id=symbol+id; if it is a correction, undo the earlier import"
_FIX_JOURNAL_ID = "If it is another journal, import it into another agent; if it is a correction, use correct_memory"


def run_import(
    memory: Memory, path: str | Path, *, agent: str | None = None, format: str | None = None,
    mapping: Mapping[str, str] | None = None, commit: bool = False, zone: str | None = None, symbol: str | None = None,
    skip_bad: bool = False, where: Mapping[str, str] | None = None, on_progress: Progress | None = None,
    currency: str | None = None, starting_equity: str | None = None, guess: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Read a file; with `commit`, import it. Returns what `memtape import --json` prints.

    `currency` is that of the file's amounts and `starting_equity` what the account started with; both become settings of an agent
    that the import creates. With `guess`, the mapping of an earlier import is not used.
    """
    file = load_file(path)
    handle = _existing(memory, agent)
    options = ImportOptions(
        mapping=dict(mapping or {}), zone=zone, symbol=symbol, where=dict(where or {}), on_progress=on_progress,
        currency=currency, account_currency=handle.agent.settings.currency if handle else None,
        saved=lambda header: None if guess else _saved_mapping(handle, header),
    )  # fmt: skip
    name, result = read_file(file, options, format)
    settings = _account_settings(handle, result, currency, starting_equity)
    if result.statements is not None:
        return _import_journal(memory, handle, agent, file, name, result, result.statements, settings, commit=commit)
    if handle is None:
        _ask_for_account(result, settings)
    result.found[:] = _drop_future(memory.clock.now(), result.found, result.problems)
    if handle:
        result.found[:] = _drop_changed(handle, result.found, result.problems)
    new, duplicates = _count_new(handle, result.found)
    totals = file_totals(result.found)
    absurd = absurd_totals(result.found, totals)
    answer = {
        # In the first line, because a person who commits may read no other.
        **({"warning": f"The totals cannot be right: {'; '.join(absurd)}. Check the columns below"} if absurd else {}),
        "format": name, "rows": result.rows,
        "fills": sum(isinstance(each.value, Fill) for each in result.found),
        "trades": sum(isinstance(each.value, ClosedTrade) for each in result.found),
        "unpriced": result.unpriced, "new": new, "duplicates": duplicates, "problems": listed_problems(result.problems),
        "account": settings, "totals": _totals_json(totals),
        "mapping": {"kind": result.kind, "by": result.mapped_by, "columns": result.mapping, "unused": result.unused,
                    "notes": result.notes},
        "committed": False, "batch": None,
    }  # fmt: skip
    if handle is None:
        result.notes.append(_new_agent_note(agent))
    if commit:
        refuse_bad_rows(result.problems, result.rows, bool(result.found), skip_bad)
        source = {"file": file.name, "format": name, "digest": file.digest, "mapping": result.mapping,
                  "header": list(result.header)}  # fmt: skip
        desk = memory.agent_for_writing(agent, make=True, settings=_stated_settings(settings))
        done = desk.imports.commit(list(_values(result.found)), source)
        answer |= {"committed": True, "batch": done.batch if done.new else None}
    return answer


def _new_agent_note(agent: str | None) -> str:
    return f"there is no agent '{agent or DEFAULT_AGENT}' yet: a commit creates it, mode paper, skill main"


def _account_settings(
    handle: AgentMemory | None, result: ImportResult, currency: str | None, starting_equity: str | None
) -> dict[str, str | None]:
    """Returns the currency and the starting equity of the account: of the agent, else as stated, else as the file shows them."""
    stated = None if starting_equity is None else read(Quantity, starting_equity, at="starting_equity")
    if handle is not None:
        own = handle.agent.settings
        if stated is not None and stated != own.stated_equity:
            known = "none" if own.stated_equity is None else decimal_text(own.stated_equity)
            problem = f"the agent '{handle.agent.id}' exists with another one ({known}), and settings never change"
            raise Invalid("starting_equity", problem, "Leave it out, or import into a new agent")
        return {"currency": own.currency, "starting_equity": _equity_text(own.stated_equity)}
    start = stated if stated is not None else result.starting_equity
    return {"currency": result.currency or currency or DEFAULT_CURRENCY, "starting_equity": _equity_text(start)}


def _equity_text(equity: Decimal | None) -> str | None:
    return None if equity is None else decimal_text(equity)


def _stated_settings(settings: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in settings.items() if value is not None}


def _ask_for_account(result: ImportResult, settings: Mapping[str, str | None]) -> None:
    """Ask for what neither the file nor the caller states about the account of a new agent."""
    asked: list[ImportProblem] = []
    if result.currency is None:
        problem = f"the file does not state the currency of its amounts; read as {settings['currency']}"
        asked.append(ImportProblem(None, "currency", problem, "If it is another one, give it, like --currency EUR", blocks=False))
    if settings["starting_equity"] is None:
        problem = "nobody stated what the account started with; results are given in money, not in percent of it"
        asked.append(ImportProblem(None, "starting_equity", problem, "Give it, like --starting-equity 25000", blocks=False))
    result.problems[:0] = asked


def _existing(memory: Memory, agent: str | None) -> AgentMemory | None:
    """Returns the agent; None before its first write, because a preview creates nothing."""
    try:
        return memory.agent(read(Slug, agent or DEFAULT_AGENT, at="agent"))
    except Unknown:
        return None


def _saved_mapping(handle: AgentMemory | None, header: Sequence[str]) -> Mapping[str, str] | None:
    """Returns the mapping of the latest import of the same columns, also of one that was undone."""
    for item, _ in reversed(handle.imports.all() if handle else []):
        if sorted(item.body.get("header", ())) == sorted(header) and item.body.get("mapping"):
            return dict(item.body["mapping"])
    return None


def option_pairs(option: str, values: Sequence[str]) -> dict[str, str]:
    """Returns repeated options like `--map side=direction` as a mapping.

    >>> option_pairs("map", ["side=direction", "symbol==XAUUSD", "fees="])
    {'side': 'direction', 'symbol': '=XAUUSD', 'fees': ''}
    """
    found: dict[str, str] = {}
    for each in values:
        name, equals, value = each.partition("=")
        if not equals or not name.strip():
            raise Invalid(option, f"'{each}' is not a pair", f"Write it like --{option} NAME=VALUE")
        found[name.strip()] = value.strip()
    return found


# ---- for people ----------------------------------------------------------------------------------------------------


def import_text(found: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an import's answer for people: one row for each kind of problem, with its first lines and what is wrong there."""
    rows = []
    for row in found["problems"]:
        lines = ", ".join(str(each["line"]) for each in row["examples"] if each["line"] is not None)
        more = ", ..." if lines and row["count"] > len(row["examples"]) else ""
        problems = "; ".join(dict.fromkeys(each["problem"] for each in row["examples"]))
        rows.append({"count": row["count"], "lines": lines + more, "field": row["field"], "problem": problems, "fix": row["fix"]})
    return {**found, "problems": rows}


def import_line(row: Mapping[str, Any]) -> str:
    """Returns an import as one line.

    >>> import_line({"batch": "3f0c", "file": "trades.csv", "format": "csv", "new": 3, "duplicates": 0,
    ...              "recorded_at": "2026-06-04T08:00:00Z", "undone": True})
    '3f0c  2026-06-04T08:00:00Z  3 new, 0 known  csv  trades.csv  (undone)'
    """
    counts = f"{row.get('new', 0)} new, {row.get('duplicates', 0)} known"
    parts = [row["batch"], row.get("recorded_at", ""), counts, row.get("format", ""), clean_name(row.get("file", ""))]
    return "  ".join(part for part in (*parts, "(undone)" if row["undone"] else "") if part)


def undo_sentence(done: Mapping[str, Any]) -> str:
    """Returns what an undo took back.

    >>> undo_sentence({"file": "trades.csv", "batch": "3f0c", "took_back": {"trade": 3, "decision": 1}, "duplicate": False})
    'Took back trades.csv (3f0c): 1 decision, 3 trades. They no longer count; the file can be imported again.'
    """
    counts = [f"{n} {kind.replace('_', ' ')}{'' if n == 1 else 's'}" for kind, n in sorted(done["took_back"].items())]
    what = f"{clean_name(done['file']) or 'the import'} ({done['batch']}): {', '.join(counts) or 'nothing'}"
    if done["duplicate"]:
        return f"Was taken back before: {what}."
    return f"Took back {what}. They no longer count; the file can be imported again."


# ---- checks that need more than the file ---------------------------------------------------------------------------


def _drop_future(
    now: datetime, found: Sequence[FoundRow], problems: list[ImportProblem], *, blocks: bool = True
) -> list[FoundRow]:
    """Drop rows in the future: their zone or year is wrong."""
    rows: list[FoundRow] = []
    for each in found:
        at = occurred_at(each.value)
        if at is not None and at > now + CLOCK_TOLERANCE:
            field = "time" if isinstance(each.value, Fill) else "exit_at"
            problem = f"{time_text(at)} is in the future"
            problems.append(ImportProblem(each.line, field, problem, f"It is now {time_text(now)}. Check zone and year", blocks))
        else:
            rows.append(each)
    return rows


def _drop_changed(
    handle: AgentMemory, found: Sequence[FoundRow], problems: list[ImportProblem], *, blocks: bool = True
) -> list[FoundRow]:
    """Drop rows whose id is known with other content. A write would ignore them as a second delivery, so they are reported."""
    known = handle.imports.stored_bodies((each.value.kind, _key(each)) for each in found)
    rows: list[FoundRow] = []
    for each in found:
        kind = each.value.kind
        earlier = known.get((kind, _key(each)))
        now = plain(each.value) if earlier else {}
        differing = [name for name in _fields_to_compare(kind, earlier) if earlier and earlier.get(name) != now.get(name)]
        if earlier and differing:
            was, is_ = earlier.get(differing[0]), now.get(differing[0])
            problem = f"id {_key(each)} is known with {differing[0]} {was}, here it is {is_}"
            problems.append(ImportProblem(each.line, "id", problem, _FIX_JOURNAL_ID if kind == "claim" else _FIX_ID, blocks))
        else:
            rows.append(each)
    return rows


def _fields_to_compare(kind: str, earlier: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Returns the fields that must agree. A claimed trade that was open may have ended since."""
    still_open = kind == "claim" and earlier is not None and "exit_price" not in earlier
    return tuple(name for name in _IDENTIFYING_FIELDS[kind] if not (still_open and name.startswith("exit_")))


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
        raise Invalid("file", "has no rows to import", "Preview it without --commit")


# ---- the answer --------------------------------------------------------------------------------------------------


def _key(found: FoundRow) -> str:
    return found.value.id if isinstance(found.value, Fill) else found.value.trade_id or ""


def _values(found: Sequence[FoundRow]) -> Iterator[Observed]:
    for each in found:
        if each.decision is not None:
            yield each.decision
        yield each.value


def _count_new(handle: AgentMemory | None, found: Sequence[FoundRow]) -> tuple[int, int]:
    if handle:
        return handle.imports.preview([each.value for each in found])
    distinct = len({(each.value.kind, _key(each)) for each in found})
    return distinct, len(found) - distinct


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


def _totals_json(totals: FileTotals) -> dict[str, Any]:
    def sums_json(sums: AccountSums) -> dict[str, Any]:
        return {"n": sums.n, "net_pnl": money(sums.net), "gross_pnl": money(sums.gross), "fees": money(sums.fees),
                "funding": money(sums.funding)}  # fmt: skip

    return {
        **sums_json(totals), "first": optional_time_text(totals.first), "last": optional_time_text(totals.last),
        "by_symbol": {symbol: {"n": sums.n, "net_pnl": money(sums.net)} for symbol, sums in totals.by_symbol.items()},
        "open": {symbol: money(qty) for symbol, qty in totals.open.items()},
    }  # fmt: skip


# ---- a journal of another memory -----------------------------------------------------------------------------------


def _import_journal(
    memory: Memory, handle: AgentMemory | None, agent: str | None, file: ImportFile, name: str, result: ImportResult,
    statements: ImportedStatements, settings: Mapping[str, str | None], *, commit: bool,
) -> dict[str, Any]:  # fmt: skip
    """Import claims in one batch, then beliefs and plans one by one. No problem in a journal blocks the rest."""
    now = memory.clock.now()
    result.found = _drop_future(now, result.found, result.problems, blocks=False)
    _drop_expired(statements, result.notes, now)
    if handle:
        result.found = _drop_changed(handle, result.found, result.problems, blocks=False)
        _drop_changed_statements(handle, statements, result)
    else:
        result.notes.append(_new_agent_note(agent))
    claims = [each.value for each in result.found if isinstance(each.value, Claim)]
    values = _with_closings(handle, claims)
    new, duplicates = handle.imports.preview(values) if handle else (len(values), 0)
    answer = {
        "format": name, "rows": result.rows, "fills": 0, "trades": len(values), "beliefs": len(statements.beliefs),
        "plans": len(statements.plans), "new": new, "duplicates": duplicates, "problems": listed_problems(result.problems),
        "totals": _totals_json(_claimed_totals(claims)),
        "mapping": {"kind": result.kind, "by": result.mapped_by, "columns": result.mapping, "unused": result.unused,
                    "notes": result.notes},
        "committed": False, "batch": None,
    }  # fmt: skip
    if commit:
        if not (values or statements.beliefs or statements.plans):
            raise Invalid(file.name, "has nothing to import", "Preview it without --commit")
        source = {"file": file.name, "format": name, "digest": file.digest}
        desk = memory.agent_for_writing(agent, make=True, settings=_stated_settings(settings))
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
