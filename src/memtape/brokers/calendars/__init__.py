"""Files of scheduled events: tables by column mapping, and calendars in the iCalendar format.

>>> from memtape.brokers.files import unpack_file
>>> from memtape.brokers.importer import ImportOptions
>>> text = b"time,currency,impact,event,actual\\n2025-06-11T12:30:00Z,USD,high,CPI m/m,0.1%\\n"
>>> name, result = read_event_file(unpack_file("calendar.csv", text), ImportOptions())
>>> name, result.found[0].event.kind, result.found[0].event.importance, result.found[0].event.actual
('csv', 'cpi', 0.8, 0.1)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

EVENT_FORMATS = ("csv", "ics")

# The names of the formats are part of the command line's help, which must not wait for the readers.
if TYPE_CHECKING:
    from memtape.brokers.calendars.event_file import EventFile
    from memtape.brokers.files import ImportFile
    from memtape.brokers.importer import ImportOptions


def read_event_file(file: ImportFile, options: ImportOptions, format: str | None = None) -> tuple[str, EventFile]:
    """Read a file by the named format, or by the one that its text shows. Returns the format's name and the events."""
    from memtape.brokers.calendars.event_table import read_event_table
    from memtape.brokers.calendars.icalendar import is_icalendar, read_icalendar
    from memtape.errors import Invalid

    if format is not None and format not in EVENT_FORMATS:
        fix = f"Use one of {', '.join(EVENT_FORMATS)}, or leave it out"
        raise Invalid("format", f"there is no format '{format[:40]}' of events", fix)
    name = format or ("ics" if is_icalendar(file) else "csv")
    return name, read_icalendar(file, options) if name == "ics" else read_event_table(file, options)
