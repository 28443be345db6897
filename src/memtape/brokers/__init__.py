"""Files of brokers, exchanges and bots -> observed values. `FORMATS` lists the readers; the first that claims a file reads it.

A journal of tradememory-protocol is no table but a database, with beliefs and plans beside its trades: `tradememory` reads it.

>>> from memtape.brokers.files import content_of
>>> text = b"time,symbol,side,qty,price\\n2026-06-04T08:00:00Z,BTC,buy,0.5,65200\\n"
>>> format, reading = read_content(content_of("fills.csv", text), Wishes())
>>> format, reading.kind, reading.found[0].value.px
('csv', 'fills', Decimal('65200'))
"""

from __future__ import annotations

from memtape.brokers.files import Content, load
from memtape.brokers.generic import CsvReader, JsonReader
from memtape.brokers.reading import Found, Problem, Reader, Reading, Wishes
from memtape.brokers.tradememory import FORMAT as TRADEMEMORY
from memtape.errors import Invalid

__all__ = [
    "FORMATS", "TRADEMEMORY", "Content", "Found", "Problem", "Reader", "Reading", "Wishes", "load", "read_content",
]  # fmt: skip

# Named formats stand before the general ones, which claim everything.
FORMATS: dict[str, Reader] = {"json": JsonReader(), "csv": CsvReader()}


def read_content(content: Content, wishes: Wishes, format: str | None = None) -> tuple[str, Reading]:
    """A file, read: by the named format, or by the first that claims it."""
    if format is not None and format not in FORMATS:
        known = ", ".join(sorted([*FORMATS, TRADEMEMORY]))
        raise Invalid("format", f"'{format[:40]}' is not known", f"Use one of {known}, or leave it out")
    name = format or next(name for name, reader in FORMATS.items() if reader.claims(content))
    return name, FORMATS[name].read(content, wishes)
