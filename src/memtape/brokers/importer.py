"""What a reader of broker files is asked, and what it gives back: observed values with their lines, and what it could not read.

A named format is one `Importer` in `memtape.brokers.FORMATS`. Whatever it reads, bad rows are values here, never exceptions:
a preview always shows the whole file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from memtape.brokers.files import FileRows
from memtape.core.observed import ClosedTrade, Decision, Fill

Progress = Callable[[int, int], None]  # rows done, rows in all


@dataclass(frozen=True, slots=True)
class ImportProblem:
    """Something the owner of the file should know: a row that was not read, or (without a line) a doubt about the whole."""

    line: int | None
    field: str
    problem: str
    fix: str
    blocks: bool = True  # whether a commit stops at it; an open position is told and stops nothing

    def told(self) -> dict[str, Any]:
        """As it leaves."""
        return {"line": self.line, "field": self.field, "problem": self.problem, "fix": self.fix}


@dataclass(frozen=True, slots=True)
class FoundRows:
    """One row as an observed value. What a fill cannot carry, its reason above all, is in a decision that the fill names."""

    line: int
    value: Fill | ClosedTrade
    decision: Decision | None = None


def _nothing_saved(header: Sequence[str]) -> Mapping[str, str] | None:
    return None


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What the caller says about a file."""

    mapping: Mapping[str, str] = field(default_factory=dict)  # field -> column, or a setting
    zone: str | None = None
    symbol: str | None = None
    where: Mapping[str, str] = field(default_factory=dict)  # column -> the only value wanted
    currency: str = "USD"  # of the account
    saved: Callable[[Sequence[str]], Mapping[str, str] | None] = _nothing_saved  # the mapping an earlier import kept
    on_progress: Progress | None = None


@dataclass(slots=True)
class ImportResult:
    """A file, read."""

    header: tuple[str, ...]
    rows: int
    kind: str  # fills or trades
    mapping: dict[str, str]  # complete: given back as a wish it reads the same file the same way
    mapped_by: str  # guessed, saved or given
    unused: list[str] = field(default_factory=list)
    found: list[FoundRows] = field(default_factory=list)
    problems: list[ImportProblem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Importer(Protocol):
    """Reads one format."""

    def claims(self, content: FileRows) -> bool:
        """Whether the file looks like this format."""
        ...

    def read(self, content: FileRows, wishes: ImportOptions) -> ImportResult:
        """The file, read; `Invalid` only if nothing in it can be."""
        ...
