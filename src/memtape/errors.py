"""Every exception memtape raises. The docstring of each is its message.

A surface turns these into an exit code, an HTTP status or an MCP error, in one place each; nothing else catches them
except to mend what they report.
"""

from __future__ import annotations

from decimal import Decimal


class MemtapeError(Exception):
    """Something went wrong in memtape."""

    def __init__(self, **facts: object) -> None:
        self.facts = facts
        super().__init__((type(self).__doc__ or "").format(**facts))


class Invalid(MemtapeError):
    """{field}: {problem}. {fix}"""

    def __init__(self, field: str, problem: str, fix: str = "") -> None:
        super().__init__(field=field, problem=problem, fix=fix)
        self.field, self.problem, self.fix = field, problem, fix

    def __str__(self) -> str:
        return super().__str__().strip()


class Unknown(MemtapeError):
    """{field}: there is no {what} '{id}'. {fix}"""

    def __init__(self, field: str, what: str, id: str, fix: str = "") -> None:
        super().__init__(field=field, what=what, id=id, fix=fix)
        self.field = field

    def __str__(self) -> str:
        return super().__str__().strip()


class Conflict(MemtapeError):
    """{field}: {problem}. {fix}"""

    def __init__(self, field: str, problem: str, fix: str = "") -> None:
        super().__init__(field=field, problem=problem, fix=fix)
        self.field = field


class Locked(MemtapeError):
    """The store {url} is locked by another writer since more than {seconds} s. Try again, or stop the other writer."""


class ReadOnly(MemtapeError):
    """The store {url} cannot be written (read-only file, folder or disk). Nothing was written; check its permissions."""


class DiskFull(MemtapeError):
    """The disk of the store {url} is full. Nothing was written and nothing is lost; free space and try again."""


class StoreFailure(MemtapeError):
    """The store {url} failed: {problem}. Nothing was written by this call."""


class NoStore(MemtapeError):
    """The store {url} cannot be opened: {problem}."""


class Damaged(MemtapeError):
    """The index of documents {url} is damaged: {problem}. Run: memtape docs reindex (it sets the file aside and makes another)"""


class NewerSchema(MemtapeError):
    """The store {url} has schema {found}, this memtape knows only {known}. Upgrade memtape."""


class OlderSchema(MemtapeError):
    """The store {url} has schema {found}, this memtape needs {known}. Run: memtape migrate --db {url}"""


class Tampered(MemtapeError):
    """The store {url} does not agree with its log: {problem}. Run: memtape verify"""


class MissingExtra(MemtapeError):
    """{what} needs the extra '{extra}'. Run: pip install 'memtape[{extra}]'"""


class Unreachable(MemtapeError):
    """{source} cannot be read: {problem}. Nothing was observed and nothing is lost; it is read again from the same point."""


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
    ) -> None:
        fix = "It may go better later" if retry_later else "It will not go better until this is mended"
        super().__init__(model=model, problem=problem, fix=fix, what=what, status=status)
        self.model, self.provider, self.problem = model, model.partition("/")[0], problem
        self.what, self.status, self.retry_later = what, status, retry_later
        self.input_tokens, self.output_tokens, self.cost_usd = input_tokens, output_tokens, cost_usd  # spent all the same
