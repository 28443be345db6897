"""The file formats that can be imported. One module per format; a new module here is a new format.

A module has one class with the decorator `@importer(NAME)`, where NAME is the name of the module. `Importer` (in
`memtape.brokers.importer`) is its contract: `claims` recognises a file, `read` reads it. Nothing else has to change: the help of
`memtape import`, its messages and the recognition of files follow this folder.

>>> from memtape.brokers.files import unpack_file
>>> from memtape.brokers.importer import ImportOptions
>>> text = b"time,symbol,side,qty,price\\n2026-06-04T08:00:00Z,BTC,buy,0.5,65200\\n"
>>> format, result = read_file(unpack_file("fills.csv", text), ImportOptions())
>>> format, result.kind, result.found[0].value.px
('csv', 'fills', Decimal('65200'))
>>> format_names()
['csv', 'html', 'json', 'tradememory']
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

# The names of the formats are part of the command line's help, which must not wait for the importers.
if TYPE_CHECKING:
    from memtape.brokers.files import ImportFile
    from memtape.brokers.importer import Importer, ImportOptions, ImportResult

# What the rows of a file can be: the help names them too.
FILE_KINDS = ("trades", "fills", "decisions", "equity", "positions")


def format_names() -> list[str]:
    """Returns the names of all formats, without importing them."""
    return sorted(module.name for module in iter_modules(__path__))


def importers() -> dict[str, Importer]:
    """Returns all importers by name, in the order in which they are asked whether a file is theirs."""
    from memtape.brokers.importer import REGISTER

    for name in format_names():
        import_module(f"{__name__}.{name}")
    return {name: REGISTER[name] for name in sorted(REGISTER, key=lambda name: (REGISTER[name].general, name))}


def read_file(file: ImportFile, options: ImportOptions, format: str | None = None) -> tuple[str, ImportResult]:
    """Read a file by the named format, or by the first format that claims it. Returns the format's name and the result."""
    from memtape.errors import Invalid

    known = importers()
    if format is not None and format not in known:
        fix = f"Use one of {', '.join(format_names())}, or leave it out"
        raise Invalid("format", f"there is no format '{format[:40]}'", fix)
    name = format or next((name for name, reader in known.items() if reader.claims(file)), None)
    if name is None:
        raise Invalid(file.name, "is in no known format", f"The formats are {', '.join(format_names())}")
    return name, known[name].read(file, options)
