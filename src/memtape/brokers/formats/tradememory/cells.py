"""The cells of a journal: text, numbers, times and JSON as stored by SQLite. An unreadable cell raises `Invalid` with its column.

>>> cells = JournalCells()
>>> cells.number({"price": 0.1}, "entry_price", "price"), str(cells.time({"t": "2026-03-02 08:00"}, "t")), cells.reading_notes()
(Decimal('0.1'), '2026-03-02 08:00:00+00:00', ['1 times have no zone: read as UTC'])
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta, tzinfo
from decimal import Decimal
from typing import Any

from memtape.brokers.cells import BadCell, TimeReader, read_numbers, shown_cell
from memtape.brokers.formats.tradememory.database import FIX_ROW, JournalRow
from memtape.brokers.importer import ImportProblem
from memtape.brokers.texts import TextCleaner
from memtape.core.labels import LabelKind, fold_label
from memtape.errors import Invalid

FORMAT = "tradememory"
MAX_LINE_CHARS, MAX_LABEL_CHARS = 2000, 64
_LABEL_KINDS: Mapping[str, LabelKind] = {"regime": "regime", "volatility_regime": "volatility", "session": "session"}


class JournalCells:
    """Reads the cells of one file and collects problems and notes."""

    def __init__(
        self, problems: list[ImportProblem] | None = None, notes: list[str] | None = None, *, zone: tzinfo | None = None,
        ahead: timedelta | None = None, symbol: str | None = None,
    ) -> None:  # fmt: skip
        self.problems, self.notes = [] if problems is None else problems, [] if notes is None else notes
        self.times, self.texts, self.symbol = TimeReader(None, zone, ahead or timedelta()), TextCleaner(), symbol

    def refuse(self, table: str, line: int, row: JournalRow, error: Invalid) -> None:
        """Report a row that cannot be read; it does not block the import."""
        name = shown_cell(str(row.get("id") or row.get("pattern_id") or "no id"))
        column = table if error.field == "input" else f"{table}.{error.field}"
        self.problems.append(ImportProblem(line, column, f"{name}: {error.problem}", error.fix or FIX_ROW, blocks=False))

    def reading_notes(self) -> list[str]:
        """Returns notes on the times and texts that were changed."""
        naive = [f"{self.times.naive} times have no zone: read as UTC"] if self.times.naive else []
        return naive + self.texts.notes()

    def text(self, row: JournalRow, name: str, limit: int = MAX_LINE_CHARS) -> str | None:
        """Returns one line of text."""
        value = row.get(name)
        if value is None or isinstance(value, bytes | dict | list):
            return None
        return self.texts.line(str(value).strip(), limit)

    def key(self, row: JournalRow, name: str = "id") -> str:
        """Returns the row's own id, uncut, because it identifies a second delivery."""
        value = row.get(name)
        if not isinstance(value, str | int) or not str(value).strip():
            raise Invalid(name, "is empty", FIX_ROW)
        return str(value).strip()

    def number(self, row: JournalRow, *names: str) -> Decimal | None:
        """Returns the number in the first of these columns that has one."""
        for name in names:
            value = row.get(name)
            if value is None or isinstance(value, bool | bytes | dict | list):
                continue
            found = read_numbers([str(value).strip()], "point")[0]
            if isinstance(found, BadCell):
                raise Invalid(name, found.problem, found.fix)
            if found is not None:
                return found
        return None

    def level(self, row: JournalRow, *names: str) -> float | None:
        """Returns a number for statistics, not for money."""
        value = self.number(row, *names)
        return None if value is None else float(value)

    def time(self, row: JournalRow, name: str) -> datetime | None:
        """Returns a time. Without a zone it is in the zone that the owner gave, else UTC."""
        found = self.times.read(str(row.get(name) or "").strip())
        if isinstance(found, BadCell):
            raise Invalid(name, found.problem, found.fix)
        return found

    def json(self, row: JournalRow, name: str) -> Any:
        """Returns the content of a JSON column; None if it is empty."""
        value = row.get(name)
        if value is None or value == "":
            return None
        try:
            return json.loads(value, parse_constant=lambda word: None)
        except (ValueError, TypeError, RecursionError):
            raise Invalid(name, f"{shown_cell(str(value))} is not valid JSON", FIX_ROW) from None

    def object(self, row: JournalRow, name: str) -> dict[str, Any]:
        """Returns a JSON object. A plain text in its place becomes the description."""
        value = self.json(row, name)
        if isinstance(value, str):
            return {"description": value}
        return {key: each for key, each in value.items() if each is not None} if isinstance(value, dict) else {}

    def label(self, row: JournalRow, name: str) -> str | None:
        """Returns a regime or a session in one spelling: `New York` and `new_york` are `newyork`.

        >>> JournalCells().label({"session": "New York"}, "session"), JournalCells().label({"regime": "unknown"}, "regime")
        ('newyork', None)
        """
        text = self.text(row, name, MAX_LABEL_CHARS) or ""
        label = fold_label(_LABEL_KINDS[name], text)
        # A label of the journal's own: the journal itself writes it in several ways.
        return label.lower().replace(" ", "_").replace("-", "_") if label is not None else None
