"""`memtape import`: a file of fills or closed trades into an agent's memory; a look at it first, unless told to commit.

The preview reads everything and writes nothing: which columns mean what, what is new, what cannot be read, and the sums
to hold against the broker's own. A commit writes all readable rows in one batch, or nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memtape.brokers import Found, Problem, Reading, Wishes, load, read_content
from memtape.brokers.reading import Progress
from memtape.brokers.totals import Sums, totals
from memtape.core.codec import plain, spell_time
from memtape.core.observed import ClosedTrade, Fill, Observed, happened_at
from memtape.core.trades import spelled as money
from memtape.core.values import Slug, read
from memtape.engine.observe import AHEAD
from memtape.errors import Invalid, Unknown
from memtape.store.tables import EVERYTHING
from memtape.surfaces.answers import time

if TYPE_CHECKING:
    from memtape.engine import AgentMemory, Memory

DEFAULT_AGENT = "main"
LISTED = 1000  # problems told one by one
BATCH = 500
_SAME: Mapping[str, tuple[str, ...]] = {
    "fill": ("symbol", "side", "t", "qty", "px"),
    "trade": ("symbol", "side", "entry_at", "exit_at", "entry_price", "exit_price"),
}  # in these a second delivery under the same id must agree with the first


def run_import(
    memory: Memory, path: str | Path, *, agent: str | None = None, format: str | None = None,
    mapping: Mapping[str, str] | None = None, commit: bool = False, zone: str | None = None, symbol: str | None = None,
    skip_bad: bool = False, where: Mapping[str, str] | None = None, on_progress: Progress | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Read a file; with `commit`, remember it. Returns what `memtape import --json` prints."""
    content = load(path)
    handle = _existing(memory, agent)
    wishes = Wishes(
        mapping=dict(mapping or {}), zone=zone, symbol=symbol, where=dict(where or {}), on_progress=on_progress,
        currency=handle.agent.settings.currency if handle else "USD", saved=lambda header: _saved(handle, header),
    )  # fmt: skip
    name, reading = read_content(content, wishes, format)
    _not_yet(memory, reading)
    if handle:
        _known_otherwise(handle, reading)
    new, duplicates = _counted(handle, reading.found)
    answer = {
        "format": name, "rows": reading.rows,
        "fills": sum(isinstance(each.value, Fill) for each in reading.found),
        "trades": sum(isinstance(each.value, ClosedTrade) for each in reading.found),
        "new": new, "duplicates": duplicates, "problems": _told(reading.problems), "totals": _sums(reading.found),
        "mapping": {"kind": reading.kind, "by": reading.mapped_by, "columns": reading.mapping, "unused": reading.unused,
                    "notes": reading.notes},
        "committed": False, "batch": None,
    }  # fmt: skip
    if handle is None:
        reading.notes.append(f"there is no agent '{agent or DEFAULT_AGENT}' yet: a commit makes it, mode paper, skill main")
    if commit:
        _refuse_bad(reading, skip_bad)
        source = {"file": content.name, "format": name, "digest": content.digest, "mapping": reading.mapping,
                  "header": list(reading.header)}  # fmt: skip
        done = memory.agent_for_writing(agent, make=True).import_items(list(_values(reading.found)), source)
        answer |= {"committed": True, "batch": done.batch if done.new else None}
    return answer


def _existing(memory: Memory, agent: str | None) -> AgentMemory | None:
    """The agent; None before its first write, because a preview makes nothing."""
    try:
        return memory.agent(read(Slug, agent or DEFAULT_AGENT, at="agent"))
    except Unknown:
        return None


def _saved(handle: AgentMemory | None, header: Sequence[str]) -> Mapping[str, str] | None:
    """The mapping that the latest standing import of the same columns was committed with."""
    for item, undone in reversed(handle.imports() if handle else []):
        if not undone and sorted(item.body.get("header", ())) == sorted(header) and item.body.get("mapping"):
            return dict(item.body["mapping"])
    return None


def pairs(option: str, said: Sequence[str]) -> dict[str, str]:
    """Repeated options like `--map side=direction` as a mapping.

    >>> pairs("map", ["side=direction", "symbol==XAUUSD", "fees="])
    {'side': 'direction', 'symbol': '=XAUUSD', 'fees': ''}
    """
    found: dict[str, str] = {}
    for each in said:
        name, equals, value = each.partition("=")
        if not equals or not name.strip():
            raise Invalid(option, f"'{each}' is not a pair", f"Write it like --{option} NAME=VALUE")
        found[name.strip()] = value.strip()
    return found


# ---- checks that need more than the file ---------------------------------------------------------------------------


def _not_yet(memory: Memory, reading: Reading) -> None:
    """What lies ahead of the clock has its zone or its year wrong."""
    now = memory.clock.now()
    kept: list[Found] = []
    for each in reading.found:
        at = happened_at(each.value)
        if at is not None and at > now + AHEAD:
            field = "exit_at" if isinstance(each.value, ClosedTrade) else "time"
            problem = f"{spell_time(at)} lies ahead of the clock"
            reading.problems.append(Problem(each.line, field, problem, f"It is now {spell_time(now)}; check zone and year"))
        else:
            kept.append(each)
    reading.found[:] = kept


def _known_otherwise(handle: AgentMemory, reading: Reading) -> None:
    """An id that is known with another content would be taken for a second delivery and lost; say so instead."""
    known = _kept_already(handle, reading.found)
    if not known:
        return
    kept: list[Found] = []
    for each in reading.found:
        earlier = known.get((each.value.kind, _key(each)))
        now = plain(each.value) if earlier else {}
        differing = [name for name in _SAME[each.value.kind] if earlier and earlier.get(name) != now.get(name)]
        if earlier and differing:
            was, is_ = earlier.get(differing[0]), now.get(differing[0])
            problem = f"id {_key(each)} is known with {differing[0]} {was}, here it is {is_}"
            fix = "If ids repeat across symbols or accounts: --map id=symbol+id; if it is a correction, undo the earlier import"
            reading.problems.append(Problem(each.line, "id", problem, fix))
        else:
            kept.append(each)
    reading.found[:] = kept


def _kept_already(handle: AgentMemory, found: Sequence[Found]) -> dict[tuple[str, str], dict[str, Any]]:
    """What is remembered under the names of these rows."""
    kept: dict[tuple[str, str], dict[str, Any]] = {}
    with handle.memory.reading(handle.agent.id) as tables:
        seen = sorted(tables.seen((each.value.kind, _key(each)) for each in found))
        for kind in sorted({kind for kind, _ in seen}):
            keys = [key for own, key in seen if own == kind]
            for start in range(0, len(keys), BATCH):
                some = tables.items(kind, EVERYTHING, keys=keys[start : start + BATCH])
                kept |= {(kind, item.key): item.body for item in some}
    return kept


def _refuse_bad(reading: Reading, skip_bad: bool) -> None:
    bad = [problem for problem in reading.problems if problem.blocks]
    if bad and not skip_bad:
        first = bad[0]
        where = f"the first in line {first.line}: {first.field} {first.problem}"
        fix = f"Nothing was written. {first.fix}; or import the other rows with --skip-bad"
        raise Invalid("file", f"{len(bad)} of {reading.rows} rows cannot be read, {where}", fix)
    if not reading.found:
        raise Invalid("file", "has no rows to import", "Look at it first, without --commit")


# ---- what is told --------------------------------------------------------------------------------------------------


def _key(found: Found) -> str:
    return found.value.id if isinstance(found.value, Fill) else found.value.trade_id


def _values(found: Sequence[Found]) -> Iterator[Observed]:
    for each in found:
        if each.decision is not None:
            yield each.decision
        yield each.value


def _counted(handle: AgentMemory | None, found: Sequence[Found]) -> tuple[int, int]:
    if handle:
        return handle.preview([each.value for each in found])
    distinct = len({(each.value.kind, _key(each)) for each in found})
    return distinct, len(found) - distinct


def _told(problems: Sequence[Problem]) -> list[dict[str, Any]]:
    told = [problem.told() for problem in problems[:LISTED]]
    if len(problems) > LISTED:
        rest = Problem(None, "row", f"{len(problems) - LISTED:,} more rows have problems", "Mend these first")
        told.append(rest.told())
    return told


def _sums(found: Sequence[Found]) -> dict[str, Any]:
    whole = totals(found)

    def told(sums: Sums) -> dict[str, Any]:
        return {"n": sums.n, "net_pnl": money(sums.net), "gross_pnl": money(sums.gross), "fees": money(sums.fees),
                "funding": money(sums.funding)}  # fmt: skip

    return {
        **told(whole), "first": time(whole.first), "last": time(whole.last),
        "by_symbol": {symbol: {"n": sums.n, "net_pnl": money(sums.net)} for symbol, sums in whole.by_symbol.items()},
        "open": {symbol: money(qty) for symbol, qty in whole.open.items()},
    }  # fmt: skip
