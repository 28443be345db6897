"""The cells of a journal: text, numbers, times and JSON as SQLite keeps them. What cannot be read is `Invalid`, by its column.

>>> cells = Cells()
>>> cells.number({"price": 0.1}, "entry_price", "price"), str(cells.time({"t": "2026-03-02 08:00"}, "t")), cells.told()
(Decimal('0.1'), '2026-03-02 08:00:00+00:00', ['1 times have no zone: read as UTC'])
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta, tzinfo
from decimal import Decimal
from typing import Any

from memtape.brokers.cells import BadCell, Times, numbers, shown_cell
from memtape.brokers.importer import ImportProblem
from memtape.brokers.texts import Texts
from memtape.brokers.tradememory.database import MEND, Row
from memtape.errors import Invalid

FORMAT = "tradememory"
LINE, LABEL = 2000, 64
_SESSIONS = {"asian": "asia", "new_york": "newyork", "ny": "newyork", "us": "newyork", "london_newyork": "overlap"}


class Cells:
    """How the cells of one file are read, and what there is to say about it."""

    def __init__(
        self, problems: list[ImportProblem] | None = None, notes: list[str] | None = None, *, zone: tzinfo | None = None,
        ahead: timedelta | None = None, symbol: str | None = None,
    ) -> None:  # fmt: skip
        self.problems, self.notes = [] if problems is None else problems, [] if notes is None else notes
        self.times, self.texts, self.symbol = Times(None, zone, ahead or timedelta()), Texts(), symbol

    def refuse(self, table: str, line: int, row: Row, error: Invalid) -> None:
        """A row that cannot be read: told, and no reason to stop."""
        name = shown_cell(str(row.get("id") or row.get("pattern_id") or "no id"))
        column = table if error.field == "input" else f"{table}.{error.field}"
        self.problems.append(ImportProblem(line, column, f"{name}: {error.problem}", error.fix or MEND, blocks=False))

    def told(self) -> list[str]:
        """What was done to times and texts."""
        naive = [f"{self.times.naive} times have no zone: read as UTC"] if self.times.naive else []
        return naive + self.texts.notes()

    def text(self, row: Row, name: str, limit: int = LINE) -> str | None:
        """One line of text."""
        value = row.get(name)
        if value is None or isinstance(value, bytes | dict | list):
            return None
        return self.texts.line(str(value).strip(), limit)

    def key(self, row: Row, name: str = "id") -> str:
        """The row's own id, whole: a second delivery is recognised by it."""
        value = row.get(name)
        if not isinstance(value, str | int) or not str(value).strip():
            raise Invalid(name, "is empty", MEND)
        return str(value).strip()

    def number(self, row: Row, *several: str) -> Decimal | None:
        """The first of these columns that holds a number."""
        for name in several:
            value = row.get(name)
            if value is None or isinstance(value, bool | bytes | dict | list):
                continue
            found = numbers([str(value).strip()], "point")[0]
            if isinstance(found, BadCell):
                raise Invalid(name, found.problem, found.fix)
            if found is not None:
                return found
        return None

    def level(self, row: Row, *several: str) -> float | None:
        """A number for statistics, not for money."""
        found = self.number(row, *several)
        return None if found is None else float(found)

    def time(self, row: Row, name: str) -> datetime | None:
        """A moment; without a zone it is UTC, or what the owner says."""
        found = self.times.read(str(row.get(name) or "").strip())
        if isinstance(found, BadCell):
            raise Invalid(name, found.problem, found.fix)
        return found

    def json(self, row: Row, name: str) -> Any:
        """What a column of JSON holds; None if it is empty."""
        value = row.get(name)
        if value is None or value == "":
            return None
        try:
            return json.loads(value, parse_constant=lambda word: None)
        except (ValueError, TypeError, RecursionError):
            raise Invalid(name, f"{shown_cell(str(value))} is not valid JSON", MEND) from None

    def object(self, row: Row, name: str) -> dict[str, Any]:
        """A JSON object; a mere text in its place is a description."""
        value = self.json(row, name)
        if isinstance(value, str):
            return {"description": value}
        return {key: each for key, each in value.items() if each is not None} if isinstance(value, dict) else {}

    def label(self, row: Row, name: str) -> str | None:
        """A regime or a session in one spelling: `New York` and `new_york` are `newyork`.

        >>> Cells().label({"session": "New York"}, "session"), Cells().label({"regime": "unknown"}, "regime")
        ('newyork', None)
        """
        text = (self.text(row, name, LABEL) or "").lower().replace(" ", "_").replace("-", "_")
        if text in ("", "unknown", "none", "null"):
            return None
        return _SESSIONS.get(text, text) if name == "session" else text
