"""Every exception that memtape raises. The docstring of each is its message.

Each surface turns them into an exit code, an HTTP status or an MCP error, in one place. Other code catches them only where
it can handle what they report.
"""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

# Of a value or a name that a message repeats; the caller knows the rest.
MAX_REPEATED_CHARS = 200


def _printable(text: str) -> str:
    """Returns text that every terminal and every answer can carry: half of a character stands as its escape."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _cut(text: str) -> str:
    return text if len(text) <= MAX_REPEATED_CHARS else f"{text[:MAX_REPEATED_CHARS]}..."


class MemtapeError(Exception):
    """Something went wrong in memtape."""

    def __init__(self, **facts: object) -> None:
        self.facts = facts
        super().__init__(_printable((type(self).__doc__ or "").format(**facts)))

    def __reduce__(self) -> tuple[object, ...]:
        # Pickle would call the class with its message alone: an error of another process would arrive as one of unpickling.
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[MemtapeError], args: tuple[object, ...], state: dict[str, object]) -> MemtapeError:
    """Returns an error as it was in the process that raised it."""
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


class FieldProblem(NamedTuple):
    """One wrong field of some input: which one, what is wrong, and what to do."""

    field: str
    problem: str
    fix: str = ""

    def __str__(self) -> str:
        return _printable(f"{_cut(self.field)}: {self.problem}" + (f". {self.fix}" if self.fix else ""))


class Invalid(MemtapeError):
    """{field}: {problem}. {fix}"""

    # If several fields are wrong, `more` has the others, and the message has one line for each.
    def __init__(self, field: str, problem: str, fix: str = "", *more: FieldProblem) -> None:
        self.field, self.problem, self.fix = field, problem, fix
        self.errors = (FieldProblem(field, problem, fix), *more)
        super().__init__(field=field, problem=problem, fix=fix)

    def __str__(self) -> str:
        return "\n".join(str(each) for each in self.errors)


class Unknown(MemtapeError):
    """{field}: there is no {what} '{id}'. {fix}"""

    def __init__(self, field: str, what: str, id: str, fix: str = "") -> None:
        super().__init__(field=field, what=what, id=_cut(str(id)), fix=fix)
        self.field = field

    def __str__(self) -> str:
        return super().__str__().strip()


class Conflict(MemtapeError):
    """{field}: {problem}. {fix}"""

    def __init__(self, field: str, problem: str, fix: str = "") -> None:
        super().__init__(field=field, problem=problem, fix=fix)
        self.field = field


class PermissionDenied(Conflict):
    """{field}: {problem}. {fix}"""


class NeedsRebuild(MemtapeError):
    """The trades of '{stream}' were computed by an older version of the rules. Make a backup, then run: memtape rebuild"""


class Locked(MemtapeError):
    """The store {url} has been locked by another writer for more than {seconds} s. Try again, or stop the other writer."""


class ReadOnly(MemtapeError):
    """The store {url} cannot be written: its file, folder or disk is read-only. Nothing was written. Check the permissions."""


class DiskFull(MemtapeError):
    """The disk of the store {url} is full. Nothing was written and nothing is lost. Free some space and try again."""


class StoreFailure(MemtapeError):
    """The store {url} failed: {problem}. This call wrote nothing."""


class NoStore(MemtapeError):
    """The store {url} cannot be opened: {problem}."""


class Damaged(MemtapeError):
    """The document index {url} is damaged: {problem}. Run: memtape docs reindex (it keeps the old file and builds a new one)"""


class NewerSchema(MemtapeError):
    """The store {url} has schema {found}, but this version of memtape knows only {known}. Upgrade memtape."""


class OlderSchema(MemtapeError):
    """The store {url} has schema {found}, but this version of memtape needs {known}. Run: memtape migrate --db '{url}'"""


class Tampered(MemtapeError):
    """The store {url} does not agree with its log: {problem}. Run: memtape verify"""


class MissingExtra(MemtapeError):
    """{what} needs the extra '{extra}'. Run: pip install 'memtape[{extra}]'"""


class Unreachable(MemtapeError):
    """{source} cannot be read: {problem}. Nothing was observed and nothing is lost. The next read starts at the same point."""


class ModelFailed(MemtapeError):
    """{model}: {problem}. {fix}"""

    def __init__(
        self,
        model: str,
        problem: str,
        *,
        what: str = "bad_answer",
        status: int | None = None,
        retry_later: bool = True,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        cost_usd: Decimal | None = None,
        cached_tokens: int | None = None,
    ) -> None:
        fix = "Retrying may help" if retry_later else "Retrying does not help until this is fixed"
        super().__init__(model=model, problem=problem, fix=fix, what=what, status=status)
        self.model, self.provider, self.problem = model, model.partition("/")[0], problem
        self.what, self.status, self.retry_later = what, status, retry_later
        # A failed call is paid for as well.
        self.input_tokens, self.output_tokens, self.cost_usd = input_tokens, output_tokens, cost_usd
        self.cached_tokens = cached_tokens


class RunFailed(MemtapeError):
    """{runner}: {problem}. {fix}"""

    # `what` is one of: bad_answer, misfit, session_lost, context_overflow, budget_spent, timed_out, not_configured, refused,
    # unavailable (the provider cannot be reached, or is busy), crashed, stopped (nobody waits for the answer any more).
    def __init__(
        self, runner: str, problem: str, fix: str = "", *, what: str = "bad_answer", usage: object = None,
        steps: tuple[object, ...] = (),
    ) -> None:  # fmt: skip
        super().__init__(runner=runner, problem=problem, fix=fix, what=what)
        self.runner, self.problem, self.fix, self.what = runner, problem, fix, what
        # A failed run is paid for as well, and its steps are worth reading.
        self.usage, self.steps = usage, steps

    def __str__(self) -> str:
        return super().__str__().strip()
