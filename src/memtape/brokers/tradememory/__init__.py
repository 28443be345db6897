"""A journal of tradememory-protocol: its SQLite file -> what the agent claims of its trades, what it believes, what it plans.

A trade may stand in `trade_records`, in `episodic_memory` or in both; it comes once, and each row adds what the other
lacks. Nothing of it is a broker's word, so it is a `Claim`. What the file computed from its trades (habits, state of mind)
is not read: memtape computes its own. What cannot be said here, a belief that names no situation, a trigger in words, is a
problem and never a guess. No problem stops a commit: a row of a database is not mended as easily as a line of a table.

>>> from memtape.brokers.tradememory.trades import trade_from_journal
>>> row = {"id": "T-1", "timestamp": "2026-03-02 08:00:00", "symbol": "XAUUSD", "direction": "long", "exit_price": 2907.9,
...        "exit_timestamp": "2026-03-02T11:30:00", "pnl": 82.0, "market_context": '{"price": 2891.5, "session": "asian"}'}
>>> trade = trade_from_journal(Cells(), row, {})
>>> trade["entry_price"], trade["situation"].session, str(trade["exit_at"] - trade["entry_at"])
(Decimal('2891.5'), 'asia', '3:30:00')
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memtape.brokers.cells import zone_of
from memtape.brokers.files import FileRows
from memtape.brokers.importer import ImportOptions, ImportProblem
from memtape.brokers.tradememory.beliefs import read_beliefs
from memtape.brokers.tradememory.cells import FORMAT, Cells
from memtape.brokers.tradememory.database import TABLES, JournalFile
from memtape.brokers.tradememory.plans import read_plans
from memtape.brokers.tradememory.trades import FoundTrade, read_trades
from memtape.errors import Invalid

__all__ = ["FORMAT", "FoundTrade", "Journal", "is_journal", "read_journal"]

_UNREAD = {"strategy_adjustments": "proposed changes of settings", "procedural_memory": "computed anew from the trades",
           "affective_state": "computed anew from the trades"}  # fmt: skip


@dataclass(slots=True)
class Journal:
    """A journal, read. Beliefs and plans are as an agent's memory takes them (`state_belief`, `plan`)."""

    rows: int = 0
    trades: list[FoundTrade] = field(default_factory=list)
    beliefs: list[dict[str, Any]] = field(default_factory=list)
    plans: list[dict[str, Any]] = field(default_factory=list)
    problems: list[ImportProblem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def is_journal(path: str | Path, content: FileRows) -> bool:
    """Whether a file is an SQLite database with one of the two tables of trades."""
    if not content.data.startswith(b"SQLite format 3\x00"):
        return False
    try:
        with JournalFile(path, content.name) as file:
            return file.has_trades
    except Invalid:
        return False


def read_journal(path: str | Path, content: FileRows, wishes: ImportOptions) -> Journal:
    """The file, read; `Invalid` only if nothing in it can be."""
    for option, said in (("map", wishes.mapping), ("where", wishes.where)):
        if said:
            raise Invalid(option, f"does not go with {FORMAT}, whose columns are known", "Leave it out")
    journal = Journal()
    with JournalFile(path, content.name) as file:
        file.check()
        found = {name: list(file.rows(name, journal.problems)) for name in TABLES}
        journal.notes += [f"{name} is not read, {n} rows: {why}" for name, why in _UNREAD.items() if (n := file.count(name))]
    journal.rows = sum(len(rows) for rows in found.values()) + len(journal.problems)
    zone, ahead = zone_of(wishes.zone) if wishes.zone else (None, None)
    cells = Cells(journal.problems, journal.notes, zone=zone, ahead=ahead, symbol=wishes.symbol)
    journal.trades = read_trades(cells, found["trade_records"], found["episodic_memory"])
    journal.beliefs = read_beliefs(cells, found["patterns"], found["semantic_memory"])
    journal.plans = read_plans(cells, found["prospective_memory"])
    journal.notes += cells.told()
    if wishes.on_progress:
        wishes.on_progress(journal.rows, journal.rows)
    return journal
