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

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Any, Protocol, TypeVar

from memtape.brokers.files import ImportFile
from memtape.core.decisions.decision_outcomes import StatedOutcome
from memtape.core.fills import Fill
from memtape.core.observed import CashFlow, Claim, ClosedTrade, Decision, EquityMark, Tick

Progress = Callable[[int, int], None]  # rows done, rows in all
EXAMPLES_PER_KIND = 3
_GOT = re.compile(r" ?\(got .*\)$")  # at the end of a fix: the value of one row


@dataclass(frozen=True, slots=True)
class ImportProblem:
    """A row that was not read or, without a line, a doubt about the whole file."""

    line: int | None
    field: str
    problem: str
    fix: str
    blocks: bool = True  # False: a commit goes on, for example past a position that is still open

    @property
    def kind(self) -> tuple[str, str]:
        """What problems of one kind have in common: the field, and what to do about it."""
        return self.field, _GOT.sub("", self.fix)


@dataclass(frozen=True, slots=True)
class ProblemGroup:
    """All problems of one kind in a file, by their lines."""

    problems: tuple[ImportProblem, ...]

    @property
    def blocks(self) -> bool:
        """True if a commit stops at them."""
        return any(problem.blocks for problem in self.problems)

    @property
    def examples(self) -> tuple[ImportProblem, ...]:
        """The first problems."""
        return self.problems[:EXAMPLES_PER_KIND]

    def as_dict(self) -> dict[str, Any]:
        """Returns the group as JSON: the first problem, how many there are, and examples."""
        first, examples = self.problems[0], [{"line": each.line, "problem": each.problem} for each in self.examples]
        return {"count": len(self.problems), "line": first.line, "field": first.field, "problem": first.problem, "fix": first.fix,
                "blocks": self.blocks, "examples": examples}  # fmt: skip


def group_problems(problems: Iterable[ImportProblem]) -> list[ProblemGroup]:
    """Returns the problems by kind: those of the whole file first, then by the line at which a kind first occurs.

    >>> bad = [ImportProblem(n, "qty", f"'x{n}' is not a number", "Write digits") for n in (9, 4, 5, 7)]
    >>> (group,) = group_problems(bad)
    >>> len(group.problems), [(each.line, each.problem) for each in group.examples]
    (4, [(4, "'x4' is not a number"), (5, "'x5' is not a number"), (7, "'x7' is not a number")])
    """
    kinds: dict[tuple[str, str], list[ImportProblem]] = {}
    for problem in sorted(problems, key=lambda problem: problem.line or 0):
        kinds.setdefault(problem.kind, []).append(problem)
    return [ProblemGroup(tuple(several)) for several in kinds.values()]


@dataclass(frozen=True, slots=True)
class FoundRow:
    """One row as an observed value. A decision carries what a fill cannot, above all its reason; the fill names it.

    All rows of one moment in a file of positions are one tick: the line is that of the first.
    """

    line: int
    value: Fill | ClosedTrade | Claim | Decision | EquityMark | CashFlow | Tick
    decision: Decision | None = None
    outcome: FoundOutcome | None = None  # of a decision, if the file states what became of it


@dataclass(frozen=True, slots=True)
class FoundOutcome:
    """What a file states about the outcome of a decision, and from when on that was known; None: not before the import."""

    stated: StatedOutcome
    known_at: datetime | None

    def under(self, ids: Mapping[str, str]) -> FoundOutcome:
        """The same outcome, of a decision that is recorded under another id if these ids name one."""
        id_ = ids.get(self.stated.decision)
        return self if id_ is None else replace(self, stated=replace(self.stated, decision=id_))


def _no_saved_mapping(header: Sequence[str]) -> Mapping[str, str] | None:
    return None


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What the caller states about a file."""

    mapping: Mapping[str, str] = field(default_factory=dict)  # field -> column, or a setting
    zone: str | None = None
    symbol: str | None = None
    where: Mapping[str, str] = field(default_factory=dict)  # column -> the value that a row must have
    currency: str | None = None  # of the amounts in the file
    account_currency: str | None = None  # None: there is no account yet
    kind: str | None = None  # what the file holds; None: as its columns show
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
    kind: str  # one of FILE_KINDS
    header: tuple[str, ...] = ()
    mapping: dict[str, str] = field(default_factory=dict)  # complete: given as an option, it reads the file in the same way
    mapped_by: str = "format"  # guessed, saved, given, or format where the format itself defines the columns
    unused: list[str] = field(default_factory=list)
    found: list[FoundRow] = field(default_factory=list)
    problems: list[ImportProblem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unpriced: int = 0  # closed trades without an exit price
    currency: str | None = None  # of the amounts; None: the file does not state it
    starting_equity: Decimal | None = None  # of the account, if a column of balances shows it
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
