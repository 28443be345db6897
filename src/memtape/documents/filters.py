"""Which documents a search looks at: some types, a folder or a file, and those of some days.

The date of a document is the last one in its path, such as `journal/2026-05-12.md`, else the time when its file was changed.

>>> [str(date_in_path(path)) for path in ("journal/2026-05/12.md", "logs/20260512.md", "a/2026-99-99.md", "a.md")]
['2026-05-12 00:00:00+00:00', '2026-05-12 00:00:00+00:00', 'None', 'None']
>>> choose_documents(path="journal/")
DocumentFilter(condition='(d.path = ? OR d.path GLOB ?)', values=('journal', 'journal/*'))
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

_DATE = re.compile(r"(?<!\d)((?:19|20)\d\d)[-_/.]?(\d\d)[-_/.]?(\d\d)(?!\d)")


@dataclass(frozen=True, slots=True)
class DocumentFilter:
    """A condition on `d`, a row of documents, and its values. Empty: all documents."""

    condition: str = ""
    values: tuple[str | int, ...] = ()

    def of_rows(self, scope: int) -> tuple[str, tuple[str | int, ...]]:
        """Returns a condition on the rows of the full-text table of a scope."""
        if not self.condition:
            return "", ()
        # The plus keeps SQLite from looking up each listed row instead of filtering those that it finds.
        chunks = f"SELECT c.id FROM documents d JOIN chunks c ON c.document = d.id WHERE d.scope = ? AND {self.condition}"
        return f"AND +rowid IN ({chunks})", (scope, *self.values)

    def of_documents(self) -> tuple[str, tuple[str | int, ...]]:
        """Returns the condition for a query that has `d`."""
        return (f"AND {self.condition}" if self.condition else ""), self.values

    def without(self, paths: Collection[str]) -> DocumentFilter:
        """Returns the filter without the documents of some paths."""
        if not paths:
            return self
        others = "d.path NOT IN (SELECT value FROM json_each(?))"
        condition = f"{self.condition} AND {others}" if self.condition else others
        return DocumentFilter(condition, (*self.values, json.dumps(sorted(paths))))


EVERYTHING = DocumentFilter()


def choose_documents(
    *, types: Sequence[str] = (), path: str = "", since: datetime | None = None, until: datetime | None = None
) -> DocumentFilter:
    """Returns a filter. `path` is a file, a folder, or a pattern with `*`; `until` is included."""
    conditions: list[str] = []
    values: list[str | int] = []
    if types:
        conditions.append("d.type IN (SELECT value FROM json_each(?))")
        values.append(json.dumps(list(types)))
    if path:
        plain = path.removeprefix("./").rstrip("/")
        is_pattern = "*" in path or "?" in path
        conditions.append("(d.path = ? OR d.path GLOB ?)")
        values += [plain, plain if is_pattern else f"{plain.replace('[', '[[]')}/*"]
    for sign, moment in ((">=", since), ("<=", until)):
        if moment is not None:
            conditions.append(f"d.dated {sign} ?")
            values.append(nanoseconds(moment))
    return DocumentFilter(" AND ".join(conditions), tuple(values))


def nanoseconds(moment: datetime) -> int:
    """Returns a time as nanoseconds since 1970, as file systems count."""
    seconds, rest = divmod(moment - datetime(1970, 1, 1, tzinfo=UTC), _SECOND)
    return seconds * 1_000_000_000 + rest.microseconds * 1000


_SECOND = datetime(1970, 1, 1, 0, 0, 1) - datetime(1970, 1, 1)


def date_in_path(path: str) -> datetime | None:
    """Returns the last date in a path, at midnight UTC; None if there is none."""
    for found in reversed(list(_DATE.finditer(path))):
        try:
            return datetime(int(found[1]), int(found[2]), int(found[3]), tzinfo=UTC)
        except ValueError:
            continue
    return None
