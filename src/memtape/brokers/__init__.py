"""Files of brokers, exchanges and bots -> observed values. `FORMATS` lists the readers; the first that claims a file reads it.

A journal of tradememory-protocol is no table but a database, with beliefs and plans beside its trades: `tradememory` reads it.

>>> from memtape.brokers.files import file_content
>>> text = b"time,symbol,side,qty,price\\n2026-06-04T08:00:00Z,BTC,buy,0.5,65200\\n"
>>> format, reading = read_content(file_content("fills.csv", text), ImportOptions())
>>> format, reading.kind, reading.found[0].value.px
('csv', 'fills', Decimal('65200'))
"""

from __future__ import annotations

from memtape.brokers.files import FileRows, load
from memtape.brokers.generic import CsvReader, JsonReader
from memtape.brokers.importer import FoundRows, Importer, ImportOptions, ImportProblem, ImportResult
from memtape.brokers.tradememory import FORMAT as TRADEMEMORY
from memtape.errors import Invalid

__all__ = [
    "FORMATS",
    "TRADEMEMORY",
    "FileRows",
    "FoundRows",
    "ImportOptions",
    "ImportProblem",
    "ImportResult",
    "Importer",
    "load",
    "read_content",
]

# Named formats stand before the general ones, which claim everything.
FORMATS: dict[str, Importer] = {"json": JsonReader(), "csv": CsvReader()}


def read_content(content: FileRows, wishes: ImportOptions, format: str | None = None) -> tuple[str, ImportResult]:
    """A file, read: by the named format, or by the first that claims it."""
    if format is not None and format not in FORMATS:
        known = ", ".join(sorted([*FORMATS, TRADEMEMORY]))
        raise Invalid("format", f"'{format[:40]}' is not known", f"Use one of {known}, or leave it out")
    name = format or next(name for name, reader in FORMATS.items() if reader.claims(content))
    return name, FORMATS[name].read(content, wishes)
