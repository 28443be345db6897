"""The contract of file importers, and their register.

An importer turns a file into observed values with their line numbers. A row that it cannot read is a value too
(`ImportProblem`), never an exception, so a preview always shows the whole file. A new format is one module in
`memtape.brokers.formats` with one class like this:

    @importer("mybroker")
    class MyBrokerImporter:
        general = False

        def claims(self, file: ImportFile) -> bool: ...
        def read(self, file: ImportFile, options: ImportOptions) -> ImportResult: ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from memtape.brokers.files import ImportFile
from memtape.core.fills import Fill
from memtape.core.observed import Claim, ClosedTrade, Decision

Progress = Callable[[int, int], None]  # rows done, rows in all


@dataclass(frozen=True, slots=True)
class ImportProblem:
    """A row that was not read or, without a line, a doubt about the whole file."""

    line: int | None
    field: str
    problem: str
    fix: str
    blocks: bool = True  # False: a commit goes on, for example past a position that is still open

    def as_dict(self) -> dict[str, Any]:
        """Returns the problem as JSON."""
        return {"line": self.line, "field": self.field, "problem": self.problem, "fix": self.fix}


@dataclass(frozen=True, slots=True)
class FoundRow:
    """One row as an observed value. A decision carries what a fill cannot, above all its reason; the fill names it."""

    line: int
    value: Fill | ClosedTrade | Claim
    decision: Decision | None = None


def _no_saved_mapping(header: Sequence[str]) -> Mapping[str, str] | None:
    return None


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What the caller states about a file."""

    mapping: Mapping[str, str] = field(default_factory=dict)  # field -> column, or a setting
    zone: str | None = None
    symbol: str | None = None
    where: Mapping[str, str] = field(default_factory=dict)  # column -> the value that a row must have
    currency: str = "USD"  # of the account
    saved: Callable[[Sequence[str]], Mapping[str, str] | None] = _no_saved_mapping  # the mapping of an earlier import
    on_progress: Progress | None = None


@dataclass(slots=True)
class ImportedStatements:
    """Beliefs and plans that a file contains besides its trades, in the form in which an agent states them."""

    beliefs: list[dict[str, Any]] = field(default_factory=list)
    plans: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True)
class ImportResult:
    """The content of a file."""

    rows: int
    kind: str  # fills or trades
    header: tuple[str, ...] = ()
    mapping: dict[str, str] = field(default_factory=dict)  # complete: given as an option, it reads the file in the same way
    mapped_by: str = "format"  # guessed, saved, given, or format where the format itself defines the columns
    unused: list[str] = field(default_factory=list)
    found: list[FoundRow] = field(default_factory=list)
    problems: list[ImportProblem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    statements: ImportedStatements | None = None  # of formats that contain more than fills and trades


class Importer(Protocol):
    """Reads one format."""

    general: bool  # True: it accepts files of any origin, so it is asked after the others

    def claims(self, file: ImportFile) -> bool:
        """Returns True if the file looks like this format."""
        ...

    def read(self, file: ImportFile, options: ImportOptions) -> ImportResult:
        """Read the file. Raises Invalid only if nothing in it can be read."""
        ...


REGISTER: dict[str, Importer] = {}
C = TypeVar("C", bound=type[Importer])


def importer(name: str) -> Callable[[C], C]:
    """Register a class as the importer of a format."""

    def register(cls: C) -> C:
        REGISTER[name] = cls()
        return cls

    return register
