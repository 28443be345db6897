"""`memtape import`: imports a file of fills or closed trades; without --commit it only previews.

The preview reads everything and writes nothing: it reports the meaning of the columns, new rows, unreadable rows, and sums to
compare with the broker's. A commit writes all readable rows in one batch, or nothing. A journal of another memory
(`brokers.tradememory`) also has beliefs and plans: they are stated after its trades.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from memtape.brokers import TRADEMEMORY, FileRows, FoundRows, ImportOptions, ImportProblem, ImportResult, load, read_content
from memtape.brokers.importer import Progress
from memtape.brokers.totals import Sums, Totals, totals
from memtape.brokers.tradememory import Journal, is_journal, read_journal
from memtape.core.codec import plain, time_text
from memtape.core.ledger.trades import money_text as money
from memtape.core.memory.plans import Plan
from memtape.core.observed import Claim, ClosedTrade, Closing, Fill, Observed, occurred_at
from memtape.core.values import ZERO, Slug, read
from memtape.engine.write.writer import CLOCK_TOLERANCE
from memtape.errors import Invalid, Unknown
from memtape.store.cutoff import EVERYTHING
from memtape.surfaces.answers import optional_time_text
from memtape.surfaces.questions import DEFAULT_AGENT

if TYPE_CHECKING:
    from memtape.engine import AgentMemory, Memory


MAX_LISTED_PROBLEMS = 1000
BATCH = 500
# A second delivery under the same id must agree with the first in these fields.
_SAME: Mapping[str, tuple[str, ...]] = {
    "fill": ("symbol", "side", "t", "qty", "px"),
    "trade": ("symbol", "side", "entry_at", "exit_at", "entry_price", "exit_price"),
    "claim": ("symbol", "side", "entry_price", "exit_price", "exit_at"),
}
_CORRECTED = "If ids repeat across symbols or accounts: --map id=symbol+id; if it is a correction, undo the earlier import"
_OTHER_JOURNAL = "If it is from another journal, use another agent; if it is a correction, use correct_memory"


class Sourced(Protocol):
    """A value and its line in the file."""

    @property
    def line(self) -> int: ...
    @property
    def value(self) -> Fill | ClosedTrade | Claim: ...


S = TypeVar("S", bound=Sourced)


def run_import(
    memory: Memory, path: str | Path, *, agent: str | None = None, format: str | None = None,
    mapping: Mapping[str, str] | None = None, commit: bool = False, zone: str | None = None, symbol: str | None = None,
    skip_bad: bool = False, where: Mapping[str, str] | None = None, on_progress: Progress | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Read a file; with `commit`, import it. Returns what `memtape import --json` prints."""
    content = load(path)
    handle = _existing(memory, agent)
    wishes = ImportOptions(
        mapping=dict(mapping or {}), zone=zone, symbol=symbol, where=dict(where or {}), on_progress=on_progress,
        currency=handle.agent.settings.currency if handle else "USD", saved=lambda header: _saved(handle, header),
    )  # fmt: skip
    if format == TRADEMEMORY or (format is None and is_journal(path, content)):
        return _import_journal(memory, handle, agent, content, read_journal(path, content, wishes), commit=commit)
    name, reading = read_content(content, wishes, format)
    reading.found[:] = _up_to_now(memory.clock.now(), reading.found, reading.problems)
    if handle:
        reading.found[:] = _not_contradicting(handle, reading.found, reading.problems)
    new, duplicates = _counted(handle, reading.found)
    answer = {
        "format": name, "rows": reading.rows,
        "fills": sum(isinstance(each.value, Fill) for each in reading.found),
        "trades": sum(isinstance(each.value, ClosedTrade) for each in reading.found),
        "new": new, "duplicates": duplicates, "problems": _problem_rows(reading.problems),
        "totals": _sums(totals(reading.found)),
        "mapping": {"kind": reading.kind, "by": reading.mapped_by, "columns": reading.mapping, "unused": reading.unused,
                    "notes": reading.notes},
        "committed": False, "batch": None,
    }  # fmt: skip
    if handle is None:
        reading.notes.append(f"there is no agent '{agent or DEFAULT_AGENT}' yet: a commit creates it, mode paper, skill main")
    if commit:
        _refuse_bad(reading, skip_bad)
        source = {"file": content.name, "format": name, "digest": content.digest, "mapping": reading.mapping,
                  "header": list(reading.header)}  # fmt: skip
        done = memory.agent_for_writing(agent, make=True).imports.commit(list(_values(reading.found)), source)
        answer |= {"committed": True, "batch": done.batch if done.new else None}
    return answer


def _existing(memory: Memory, agent: str | None) -> AgentMemory | None:
    """The agent, or None before its first write: a preview creates nothing."""
    try:
        return memory.agent(read(Slug, agent or DEFAULT_AGENT, at="agent"))
    except Unknown:
        return None


def _saved(handle: AgentMemory | None, header: Sequence[str]) -> Mapping[str, str] | None:
    """The mapping of the latest import with the same columns that was not undone."""
    for item, undone in reversed(handle.imports.all() if handle else []):
        if not undone and sorted(item.body.get("header", ())) == sorted(header) and item.body.get("mapping"):
            return dict(item.body["mapping"])
    return None


def option_pairs(option: str, given: Sequence[str]) -> dict[str, str]:
    """Repeated options like `--map side=direction` as a mapping.

    >>> option_pairs("map", ["side=direction", "symbol==XAUUSD", "fees="])
    {'side': 'direction', 'symbol': '=XAUUSD', 'fees': ''}
    """
    found: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name.strip():
            raise Invalid(option, f"'{each}' is not a pair", f"Write it like --{option} NAME=VALUE")
        found[name.strip()] = value.strip()
    return found


# ---- checks that need more than the file ---------------------------------------------------------------------------


def _up_to_now(now: datetime, found: Sequence[S], problems: list[ImportProblem], *, blocks: bool = True) -> list[S]:
    """The rows up to now. A row in the future has a wrong zone or year and becomes a problem."""
    good: list[S] = []
    for each in found:
        at = occurred_at(each.value)
        if at is not None and at > now + CLOCK_TOLERANCE:
            field = "time" if isinstance(each.value, Fill) else "exit_at"
            problem = f"{time_text(at)} is in the future"
            problems.append(ImportProblem(each.line, field, problem, f"It is now {time_text(now)}; check zone and year", blocks))
        else:
            good.append(each)
    return good


def _not_contradicting(handle: AgentMemory, found: Sequence[S], problems: list[ImportProblem], *, blocks: bool = True) -> list[S]:
    """The rows that do not contradict stored ones. Another row under a known id would be ignored as a repetition: report it."""
    known = _stored_rows(handle, found)
    good: list[S] = []
    for each in found:
        kind = each.value.kind
        earlier = known.get((kind, _key(each)))
        now = plain(each.value) if earlier else {}
        differing = [name for name in _same(kind, earlier) if earlier and earlier.get(name) != now.get(name)]
        if earlier and differing:
            was, is_ = earlier.get(differing[0]), now.get(differing[0])
            problem = f"id {_key(each)} is stored with {differing[0]} {was}, but here it is {is_}"
            problems.append(ImportProblem(each.line, "id", problem, _OTHER_JOURNAL if kind == "claim" else _CORRECTED, blocks))
        else:
            good.append(each)
    return good


def _same(kind: str, earlier: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The fields that must agree. A trade that was reported as open may have closed since."""
    still_open = kind == "claim" and earlier is not None and "exit_price" not in earlier
    return tuple(name for name in _SAME[kind] if not (still_open and name.startswith("exit_")))


def _stored_rows(handle: AgentMemory, found: Sequence[Sourced]) -> dict[tuple[str, str], dict[str, Any]]:
    """What is stored under the ids of these rows."""
    stored: dict[tuple[str, str], dict[str, Any]] = {}
    with handle.reading() as tables:
        known = sorted(tables.seen((each.value.kind, _key(each)) for each in found))
        for kind in sorted({kind for kind, _ in known}):
            keys = [key for own, key in known if own == kind]
            for start in range(0, len(keys), BATCH):
                some = tables.items(kind, EVERYTHING, keys=keys[start : start + BATCH])
                stored |= {(kind, item.key): item.body for item in some}
    return stored


def _refuse_bad(reading: ImportResult, skip_bad: bool) -> None:
    bad = [problem for problem in reading.problems if problem.blocks]
    if bad and not skip_bad:
        first = bad[0]
        where = f"the first in line {first.line}: {first.field} {first.problem}"
        fix = f"Nothing was written. {first.fix}; or import the other rows with --skip-bad"
        raise Invalid("file", f"{len(bad)} of {reading.rows} rows cannot be read, {where}", fix)
    if not reading.found:
        raise Invalid("file", "has no rows to import", "Look at it first, without --commit")


# ---- what is reported --------------------------------------------------------------------------------------------------


def _key(found: Sourced) -> str:
    return found.value.id if isinstance(found.value, Fill) else found.value.trade_id or ""


def _values(found: Sequence[FoundRows]) -> Iterator[Observed]:
    for each in found:
        if each.decision is not None:
            yield each.decision
        yield each.value


def _counted(handle: AgentMemory | None, found: Sequence[FoundRows]) -> tuple[int, int]:
    if handle:
        return handle.imports.preview([each.value for each in found])
    distinct = len({(each.value.kind, _key(each)) for each in found})
    return distinct, len(found) - distinct


def _problem_rows(problems: Sequence[ImportProblem]) -> list[dict[str, Any]]:
    rows = [problem.told() for problem in problems[:MAX_LISTED_PROBLEMS]]
    if len(problems) > MAX_LISTED_PROBLEMS:
        rest = ImportProblem(None, "row", f"{len(problems) - MAX_LISTED_PROBLEMS:,} more rows have problems", "Fix these first")
        rows.append(rest.told())
    return rows


def _sums(whole: Totals) -> dict[str, Any]:
    def sums_row(sums: Sums) -> dict[str, Any]:
        return {"n": sums.n, "net_pnl": money(sums.net), "gross_pnl": money(sums.gross), "fees": money(sums.fees),
                "funding": money(sums.funding)}  # fmt: skip

    return {
        **sums_row(whole), "first": optional_time_text(whole.first), "last": optional_time_text(whole.last),
        "by_symbol": {symbol: {"n": sums.n, "net_pnl": money(sums.net)} for symbol, sums in whole.by_symbol.items()},
        "open": {symbol: money(qty) for symbol, qty in whole.open.items()},
    }  # fmt: skip


# ---- a journal of another memory -----------------------------------------------------------------------------------


def _import_journal(
    memory: Memory, handle: AgentMemory | None, agent: str | None, content: FileRows, journal: Journal, *, commit: bool
) -> dict[str, Any]:
    """Import the trades of a journal as one batch of claims, then its beliefs and plans. A bad row never blocks the rest."""
    now, problems = memory.clock.now(), journal.problems
    journal.trades = _up_to_now(now, journal.trades, problems, blocks=False)
    _unexpired(journal, now)
    if handle:
        journal.trades = _not_contradicting(handle, journal.trades, problems, blocks=False)
        _keep_stored(handle, journal)
    else:
        journal.notes.append(f"there is no agent '{agent or DEFAULT_AGENT}' yet: a commit creates it, mode paper, skill main")
    values = _with_exits(handle, [each.value for each in journal.trades])
    new, duplicates = handle.imports.preview(values) if handle else (len(values), 0)
    answer = {
        "format": TRADEMEMORY, "rows": journal.rows, "fills": 0, "trades": len(values), "beliefs": len(journal.beliefs),
        "plans": len(journal.plans), "new": new, "duplicates": duplicates, "problems": _problem_rows(problems),
        "totals": _sums(_claimed_totals([each.value for each in journal.trades])),
        "mapping": {"kind": "trades", "by": "format", "columns": {}, "unused": [], "notes": journal.notes},
        "committed": False, "batch": None,
    }  # fmt: skip
    if commit:
        if not (values or journal.beliefs or journal.plans):
            raise Invalid(content.name, "has nothing to import", "Look at it first, without --commit")
        source = {"file": content.name, "format": TRADEMEMORY, "digest": content.digest}
        batch = _write_journal(memory.agent_for_writing(agent, make=True), values, journal, source)
        answer |= {"committed": True, "batch": batch}
    return answer


def _write_journal(
    desk: AgentMemory, values: Sequence[Claim | Closing], journal: Journal, source: Mapping[str, Any]
) -> str | None:
    """Write trades, exits, beliefs and plans, in this order. A repetition completes an interrupted import."""
    claims = [value for value in values if isinstance(value, Claim)]
    done = desk.imports.commit(claims, source) if claims else None
    for value in values:
        if isinstance(value, Closing):
            desk.close_trade(value, backfill=True)
    for belief in journal.beliefs:
        desk.memories.state_belief(belief)
    for plan in journal.plans:
        desk.plans.create(plan)
    return done.batch if done and done.new else None


def _unexpired(journal: Journal, now: datetime) -> None:
    waiting = [plan for plan in journal.plans if plan.get("expires_at", now + CLOCK_TOLERANCE) > now]
    if past := len(journal.plans) - len(waiting):
        journal.notes.append(f"{past} plan{'s have' if past > 1 else ' has'} expired and are left out")
    journal.plans = waiting


def _keep_stored(handle: AgentMemory, journal: Journal) -> None:
    """Keep the stored one of a belief or plan that differs from the file, and report it: a second version would be refused."""
    with handle.reading() as tables:
        beliefs = {item.key: item.body for item in tables.items("belief", EVERYTHING, keys=[b["id"] for b in journal.beliefs])}
        plans = {item.key: item.body for item in tables.items("plan", EVERYTHING, keys=[p["id"] for p in journal.plans])}
    differs = "is stored with other content: the stored one is kept"
    fix = "Retire the stored one, and state this one under a new id"
    both = (("belief", journal.beliefs, beliefs, _same_belief), ("plan", journal.plans, plans, _same_plan))
    for name, listed, known, alike in both:
        other = [each["id"] for each in listed if each["id"] in known and not alike(each, known[each["id"]])]
        journal.problems += [ImportProblem(None, name, f"{id_} {differs}", fix, blocks=False) for id_ in other]
        listed[:] = [each for each in listed if each["id"] not in other]
        if repeated := sum(each["id"] in known for each in listed):
            journal.notes.append(f"{repeated} {name}{'s are' if repeated > 1 else ' is'} known already")


def _same_belief(belief: Mapping[str, Any], body: Mapping[str, Any]) -> bool:
    return bool(plain({name: value for name, value in belief.items() if name != "id"}) == body)


def _same_plan(plan: Mapping[str, Any], body: Mapping[str, Any]) -> bool:
    return replace(read(Plan, dict(plan)), expires_at=None) == replace(read(Plan, dict(body)), expires_at=None)


def _with_exits(handle: AgentMemory | None, claims: Sequence[Claim]) -> list[Claim | Closing]:
    """The claims; a trade that an earlier import reported as open becomes its exit."""
    if handle is None:
        return list(claims)
    known: dict[str, Any] = {}
    with handle.reading() as tables:
        for start in range(0, len(claims), BATCH):
            some = [claim.trade_id or "" for claim in claims[start : start + BATCH]]
            known |= {item.key: item.body for item in tables.items("claim", EVERYTHING, keys=some)}

    def was_open(claim: Claim) -> bool:
        return claim.exit_price is not None and "exit_price" not in known.get(claim.trade_id or "", {"exit_price": None})

    return [_ending(claim) if was_open(claim) else claim for claim in claims]


def _ending(claim: Claim) -> Closing:
    assert claim.trade_id is not None and claim.exit_price is not None
    return Closing(trade_id=claim.trade_id, exit_price=claim.exit_price, exit_at=claim.exit_at, pnl=claim.pnl, pnl_r=claim.pnl_r,
                   reflection=claim.reflection, mae=claim.mae)  # fmt: skip


def _claimed_totals(claims: Sequence[Claim]) -> Totals:
    """The totals that the journal claims; net, because a claim's profit is net."""
    whole = Totals()
    for claim in claims:
        side = 1 if claim.side == "long" else -1
        if claim.exit_price is None or claim.exit_at is None:
            whole.open[claim.symbol] = whole.open.get(claim.symbol, ZERO) + side * (claim.qty or ZERO)
            continue
        net = claim.pnl if claim.pnl is not None else side * (claim.exit_price - claim.entry_price) * (claim.qty or ZERO)
        for sums in (whole, whole.by_symbol.setdefault(claim.symbol, Sums())):
            sums.add(net, ZERO, ZERO, claim.entry_at or claim.exit_at, claim.exit_at)
    whole.by_symbol = dict(sorted(whole.by_symbol.items()))
    return whole
