"""A journal of tradememory-protocol: an SQLite file with trades that an agent claims, its beliefs and its plans.

A trade may be in `trade_records`, in `episodic_memory` or in both. It is read once, and each row adds what the other lacks. No
broker confirms it, so it is a `Claim`. What the file computed from its trades (habits, affect) is not read, because memtape
computes its own. A belief that names no situation and a trigger in prose are problems; nothing is guessed. No problem blocks a
commit, because a row of a database is harder to correct than a line of a table.

>>> from memtape.brokers.formats.tradememory.cells import JournalCells
>>> from memtape.brokers.formats.tradememory.trades import trade_from_journal
>>> row = {"id": "T-1", "timestamp": "2026-03-02 08:00:00", "symbol": "XAUUSD", "direction": "long", "exit_price": 2907.9,
...        "exit_timestamp": "2026-03-02T11:30:00", "pnl": 82.0, "market_context": '{"price": 2891.5, "session": "asian"}'}
>>> trade = trade_from_journal(JournalCells(), row, {})
>>> trade["entry_price"], trade["situation"].session, str(trade["exit_at"] - trade["entry_at"])
(Decimal('2891.5'), 'asia', '3:30:00')
"""

from __future__ import annotations

from memtape.brokers.cells import read_zone
from memtape.brokers.files import ImportFile
from memtape.brokers.formats.tradememory.beliefs import read_beliefs
from memtape.brokers.formats.tradememory.cells import FORMAT, JournalCells
from memtape.brokers.formats.tradememory.database import TABLES, JournalFile
from memtape.brokers.formats.tradememory.plans import read_plans
from memtape.brokers.formats.tradememory.trades import read_trades
from memtape.brokers.importer import ImportedStatements, ImportOptions, ImportProblem, ImportResult, importer
from memtape.errors import Invalid

_UNREAD_TABLES = {
    "strategy_adjustments": "proposed changes of settings",
    "procedural_memory": "memtape computes it from the trades",
    "affective_state": "memtape computes it from the trades",
}


@importer(FORMAT)
class JournalImporter:
    """Journals of tradememory-protocol."""

    general = False

    def claims(self, file: ImportFile) -> bool:
        """Returns True for an SQLite database with one of the two tables of trades."""
        if not file.data.startswith(b"SQLite format 3\x00"):
            return False
        try:
            with JournalFile(file) as journal:
                return journal.has_trades
        except Invalid:
            return False

    def read(self, file: ImportFile, options: ImportOptions) -> ImportResult:
        """Read the journal. Raises Invalid only if nothing in it can be read."""
        for option, value in (("map", options.mapping), ("where", options.where)):
            if value:
                raise Invalid(option, f"does not apply to {FORMAT}, whose columns are known", "Leave it out")
        problems: list[ImportProblem] = []
        with JournalFile(file) as journal:
            journal.check()
            tables = {name: list(journal.rows(name, problems)) for name in TABLES}
            notes = [f"{name} is not read, {n} rows: {why}" for name, why in _UNREAD_TABLES.items() if (n := journal.count(name))]
        rows = sum(len(each) for each in tables.values()) + len(problems)
        zone, ahead = read_zone(options.zone) if options.zone else (None, None)
        cells = JournalCells(problems, notes, zone=zone, ahead=ahead, symbol=options.symbol)
        trades = read_trades(cells, tables["trade_records"], tables["episodic_memory"])
        beliefs = read_beliefs(cells, tables["patterns"], tables["semantic_memory"])
        plans = read_plans(cells, tables["prospective_memory"])
        notes += cells.reading_notes()
        if options.on_progress:
            options.on_progress(rows, rows)
        return ImportResult(
            rows, "trades", found=trades, problems=problems, notes=notes, statements=ImportedStatements(beliefs, plans)
        )
