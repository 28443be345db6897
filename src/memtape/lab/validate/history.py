"""The history that is validated: a file, imported into a temporary store by the product's own importer, or an agent of a store.

Bars are recorded before the trades, so that regime, volatility and ATR of each entry come from bars that were complete by then.
A file is never changed, and the temporary store is deleted at the end.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from memtape.brokers.files import ImportFile, load_file
from memtape.brokers.formats import read_file
from memtape.brokers.importer import ImportOptions
from memtape.compose import open_memory
from memtape.core.codec import digest, time_text
from memtape.core.memory.episodes import Episode
from memtape.core.observed import Bar, Bars
from memtape.errors import Invalid
from memtape.sim.bars import bars_hash, read_bar_file
from memtape.surfaces.file_imports import import_content

if TYPE_CHECKING:
    from memtape.engine import AgentMemory, Memory

AGENT = "validated"
BAR_BATCH = 5000
GROUP_FIELDS = ("strategy", "symbol")
DAY = timedelta(days=1)
OLD_BARS = 5 * DAY  # longer than any weekend with holidays


@dataclass(frozen=True, slots=True)
class ValidatedHistory:
    """The trades of a history and where their memory is."""

    store: str  # address, for other processes
    owner: str | None
    agent_id: str
    agent: AgentMemory
    episodes: tuple[Episode, ...]  # closed trades that count, in order of their entries
    claims_count: bool
    group: str | None  # strategy or symbol
    group_by: str | None  # as the user named it: a column of a file is read as the strategy
    names: dict[str, str]  # file or agent, bars
    hashes: dict[str, str]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySource:
    """What is to be validated, as the command names it."""

    files: tuple[Path, ...] = ()
    agent: str | None = None
    store: str | None = None
    owner: str | None = None
    bars: Path | None = None
    symbol: str | None = None
    group: str | None = None
    format: str | None = None
    kind: str | None = None  # what the file holds: trades or fills
    mapping: Mapping[str, str] | None = None
    where: Mapping[str, str] | None = None
    zone: str | None = None
    skip_bad: bool = False


@contextmanager
def opened_history(source: HistorySource) -> Iterator[ValidatedHistory]:
    """Opens a history; a file is imported first."""
    if bool(source.files) == (source.agent is not None):
        raise Invalid("file", "give a file of trades or --agent, not both", "Name one of them")
    if source.agent is not None:
        if source.bars is not None:
            raise Invalid("bars", "an agent has its own bars", "Leave --bars out, or record them with the agent first")
        if source.group not in (None, *GROUP_FIELDS):
            raise Invalid("group", f"an agent has no column '{source.group}'", "Choose strategy or symbol")
        memory = open_memory(source.store, source.owner)
        agent = memory.agent(source.agent)
        yield _history(source, agent, source.store, source.agent, {"agent": source.agent},
                       {"log_head": agent.head().hash or ""}, (), source.group)  # fmt: skip
        return
    with TemporaryDirectory(prefix="memtape-validate-") as folder:
        store = str(Path(folder) / "history.db")
        with open_memory(store) as memory:
            names, hashes, notes, bars = _imported(memory, source)
            group = source.group if source.group in (None, *GROUP_FIELDS) else "strategy"
            history = _history(source, memory.agent(AGENT), store, AGENT, names, hashes, notes, group)
            yield replace(history, notes=(*notes, *_bar_notes(history.episodes, bars)))


def _history(
    source: HistorySource, agent: AgentMemory, store: str | None, agent_id: str, names: dict[str, str], hashes: dict[str, str],
    notes: tuple[str, ...], group: str | None,
) -> ValidatedHistory:  # fmt: skip
    with agent.view() as view:
        claims_count = view.claims_count
        trades = [e for e in view.episodes() if e.teaches and (claims_count or not e.claimed)]
    ordered = tuple(sorted(trades, key=lambda e: (e.entry_at, e.exit_at, e.id)))
    return ValidatedHistory(
        store or "", source.owner, agent_id, agent, ordered, claims_count, group, source.group, names, hashes, notes
    )


def _bar_notes(episodes: Sequence[Episode], bars: Sequence[Bar]) -> list[str]:
    """Returns what the bars do not show: entries before them, of other symbols, or long after the last one."""
    if not bars:
        return []
    notes, of = [], f"of {len(episodes):,} trades"
    traded, shown = sorted({e.symbol for e in episodes}), sorted({bar.symbol for bar in bars})
    if not set(traded) & set(shown):
        same = f"; if that is one market, give --symbol {traded[0]}" if len(traded) == len(shown) == 1 else ""
        notes.append(f"the bars are of {_some(shown)}, the trades of {_some(traded)}{same}")
    if unknown := sum(e.regime is None for e in episodes):
        notes.append(f"the bars show no regime at the entry of {unknown:,} {of}")
    ends: dict[str, list[datetime]] = {}
    for bar in bars:
        ends.setdefault(bar.symbol, []).append(bar.t1)
    usual = max(OLD_BARS, 2 * max(bar.t1 - bar.t0 for bar in bars))
    for times in ends.values():
        times.sort()
    old = 0
    for e in episodes:
        times = ends.get(e.symbol, [])
        place = bisect_right(times, e.entry_at)
        old += bool(place) and e.entry_at - times[place - 1] > usual
    if old:
        beyond = f"the last bar is more than {usual / DAY:g} days older than the entry of {old:,} {of}"
        notes.append(f"{beyond}: regime, volatility and ATR are those of that bar")
    return notes


def _grouped_mapping(loaded: ImportFile, source: HistorySource) -> dict[str, str]:
    """Returns the mapping of a file whose column of groups is the strategy too: it keeps the meaning that it has by itself."""
    mapping = dict(source.mapping or {})
    if source.group is None or source.group in GROUP_FIELDS:
        return mapping
    symbol = source.symbol if source.bars is None else None
    options = ImportOptions(
        mapping=mapping, zone=source.zone, symbol=symbol, where=dict(source.where or {}), kind=source.kind
    )
    try:
        own = read_file(loaded, options, source.format)[1].mapping
    except Invalid:
        own = {}  # the import says what is wrong
    kept = {name: column for name, column in own.items() if column == source.group and name != "strategy"}
    return mapping | kept | {"strategy": source.group}


def _some(symbols: Sequence[str]) -> str:
    return ", ".join(symbols[:3]) + (f" and {len(symbols) - 3} more" if len(symbols) > 3 else "")


def _imported(
    memory: Memory, source: HistorySource
) -> tuple[dict[str, str], dict[str, str], tuple[str, ...], Sequence[Bar]]:
    names, hashes, notes = {"file": ", ".join(file.name for file in source.files)}, {}, []
    bars: Sequence[Bar] = ()
    memory.create_skill(AGENT)
    memory.create_agent(AGENT, skill=AGENT)
    if source.bars is not None:
        bars = read_bar_file(source.bars, symbol=source.symbol).bars
        agent = memory.agent(AGENT)
        for start in range(0, len(bars), BAR_BATCH):
            agent.observe(Bars(bars=tuple(bars[start : start + BAR_BATCH])), backfill=True)
        names["bars"], hashes["bars"] = source.bars.name, bars_hash(bars)
    parts = []
    for file in source.files:
        loaded = load_file(file)
        mapping = _grouped_mapping(loaded, source)
        try:
            answer = import_content(
                memory, loaded, agent=AGENT, format=source.format, kind=source.kind, mapping=mapping, commit=True,
                zone=source.zone, where=dict(source.where or {}), skip_bad=source.skip_bad,
                symbol=source.symbol if source.bars is None else None,
            )  # fmt: skip
        except Invalid as error:
            if error.field != "map strategy" or "strategy" in (source.mapping or {}):
                raise
            raise Invalid("group", error.problem, error.fix) from None  # the group is read as the strategy
        parts.append(loaded.digest)
        if answer["duplicates"]:
            notes.append(f"{answer['duplicates']} of {answer['rows']} rows of {file.name} were there already and count once")
        still_open = sum(row["count"] for row in answer["problems"] if row["field"] == "exit_at" and not row["blocks"])
        if still_open:
            notes.append(f"{still_open} rows of {file.name} have no exit and are left out")
        skipped = sum(row["count"] for row in answer["problems"] if row["blocks"])
        if skipped:
            notes.append(f"{skipped} rows of {file.name} could not be read and are left out")
    hashes["file"] = parts[0] if len(parts) == 1 else digest("".join(parts))
    return names, hashes, tuple(notes), bars


def describe_period(episodes: tuple[Episode, ...]) -> dict[str, Any]:
    """Returns the ends of a history."""
    return {"first": time_text(episodes[0].entry_at), "last": time_text(max(e.exit_at for e in episodes))}
