"""Operations on imported files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from memtape.core.skills import DEFAULT_AGENT
from memtape.core.values import Key
from memtape.surfaces.answer_models import Answer, SparseAnswer
from memtape.surfaces.answers import ReceiptAnswer, receipt_answer
from memtape.surfaces.questions import AsOf, OfAgent, agent_of
from memtape.surfaces.registry import operation

if TYPE_CHECKING:
    from memtape.engine import Memory
    from memtape.surfaces.caller import Caller


class FileToImport(OfAgent):
    """A file and what is stated about it."""

    file: Annotated[str, Field(min_length=1, max_length=200, description="file name")]
    content: Annotated[str, Field(min_length=1, description="the file's text; of a compressed file its bytes in base64")]
    base64: Annotated[bool, Field(description="true: content is base64")] = False
    kind: Annotated[
        str | None, Field(description="trades, fills, decisions, equity or positions; default: as its columns show")
    ] = None
    format: Annotated[str | None, Field(description="csv or json; default: detected")] = None
    map: Annotated[dict[str, str] | None, Field(description="field -> column, where the detected one is wrong")] = None
    where: Annotated[dict[str, str] | None, Field(description="column -> value: only rows with these values")] = None
    zone: Annotated[str | None, Field(description="time zone of times without one, like Europe/Berlin")] = None
    symbol: Annotated[str | None, Field(description="symbol of a file without one")] = None
    currency: Annotated[str | None, Field(description="currency of the amounts, like EUR")] = None
    starting_equity: Annotated[str | None, Field(description="what the account started with; for a new agent")] = None
    guess: Annotated[bool, Field(description="detect the columns, even if they were mapped before")] = False
    skip_bad: Annotated[bool, Field(description="skip rows with problems")] = False
    commit: Annotated[bool, Field(description="import; false: preview only")] = False


class ProblemExample(Answer):
    """One row that has a problem."""

    line: Annotated[int | None, Field(description="line of the file; null: the whole file")]
    problem: Annotated[str, Field(description="what is wrong there")]


class ProblemKind(SparseAnswer):
    """All problems of one kind in a file."""

    count: Annotated[int, Field(description="rows that have it")]
    line: Annotated[int | None, Field(description="the first of them")]
    field: Annotated[str, Field(description="field, and its column")]
    problem: Annotated[str, Field(description="what is wrong in the first of them")]
    fix: Annotated[str, Field(description="what to do")]
    blocks: Annotated[bool, Field(description="true: a commit stops at it, unless skip_bad")]
    examples: Annotated[list[ProblemExample], Field(description="the first three")]


class SymbolSums(Answer):
    """The trades of one symbol."""

    n: Annotated[int, Field(description="trades or fills")]
    net_pnl: Annotated[str, Field(description="after costs")]


class TotalsOfFile(SparseAnswer):
    """The sums of a file; which of them it has depends on the kind."""

    n: Annotated[int, Field(description="trades, fills, decisions, marks and flows, or snapshots")]
    first: Annotated[str | None, Field(description="UTC", default_factory=str)]
    last: Annotated[str | None, Field(description="UTC", default_factory=str)]
    net_pnl: Annotated[str, Field(description="of trades and fills", default_factory=str)]
    gross_pnl: Annotated[str, Field(description="before costs", default_factory=str)]
    fees: Annotated[str, Field(description="of trades and fills", default_factory=str)]
    funding: Annotated[str, Field(description="of trades", default_factory=str)]
    by_symbol: Annotated[
        dict[str, SymbolSums | int], Field(description="sums of trades; else the number of rows", default_factory=dict)
    ]
    open: Annotated[dict[str, str], Field(description="quantities at the end of the file", default_factory=dict)]
    by_action: Annotated[dict[str, int], Field(description="decisions of each action", default_factory=dict)]
    followed: Annotated[int, Field(description="decisions whose outcome bars will settle", default_factory=int)]
    with_reason: Annotated[int, Field(description="decisions with a reason", default_factory=int)]
    with_outcome: Annotated[int, Field(description="decisions whose outcome the file states", default_factory=int)]
    first_equity: Annotated[str | None, Field(description="the first mark", default_factory=str)]
    last_equity: Annotated[str | None, Field(description="the last mark", default_factory=str)]
    lowest_equity: Annotated[str | None, Field(description="of all marks", default_factory=str)]
    highest_equity: Annotated[str | None, Field(description="of all marks", default_factory=str)]
    flows: Annotated[str | None, Field(description="deposits less withdrawals", default_factory=str)]


class MappingOfFile(Answer):
    """How the columns of a file were read."""

    kind: Annotated[str, Field(description="what the file was read as")]
    by: Annotated[str, Field(description="guessed, saved or given")]
    columns: Annotated[dict[str, str], Field(description="field -> column, and settings")]
    unused: Annotated[list[str], Field(description="columns that were not used")]
    notes: Annotated[list[str], Field(description="what was concluded from the file as a whole")]


class ImportAnswer(SparseAnswer):
    """What a file holds, and whether it was imported."""

    warning: Annotated[str, Field(description="only if the totals cannot be right", default_factory=str)]
    format: Annotated[str, Field(description="csv or json")]
    kind: Annotated[str, Field(description="trades, fills, decisions, equity or positions")]
    rows: Annotated[int, Field(description="rows in the file")]
    counts: Annotated[dict[str, int], Field(description="how many values of each kind were read", default_factory=dict)]
    fills: Annotated[int, Field(description="fills that were read")]
    trades: Annotated[int, Field(description="closed trades that were read")]
    unpriced: Annotated[int, Field(description="closed trades without an exit price", default_factory=int)]
    new: Annotated[int, Field(description="values that are not stored yet")]
    duplicates: Annotated[int, Field(description="values that are known")]
    problems: Annotated[list[ProblemKind], Field(description="one for each kind of problem")]
    account: Annotated[dict[str, str | None], Field(description="currency and starting equity", default_factory=dict)]
    totals: Annotated[TotalsOfFile, Field(description="sums to compare with the source")]
    mapping: Annotated[MappingOfFile, Field(description="how the columns were read, and notes")]
    committed: Annotated[bool, Field(description="true: it was imported")]
    batch: Annotated[str | None, Field(description="its batch, for undo_import")]


@operation(writes=True)
def import_file(memory: Memory, ask: FileToImport, caller: Caller) -> ImportAnswer:
    """Preview a file of trades, fills, decisions, equity or positions; with commit, import it. Owner only.

    Imports are idempotent: a second import of the same rows adds nothing.
    """
    from memtape.surfaces.file_imports import file_of_content, import_content

    found = import_content(
        memory, file_of_content(ask.file, ask.content, base64=ask.base64), agent=ask.agent, format=ask.format, kind=ask.kind,
        mapping=ask.map, where=ask.where, zone=ask.zone, symbol=ask.symbol, currency=ask.currency,
        starting_equity=ask.starting_equity, guess=ask.guess, skip_bad=ask.skip_bad, commit=ask.commit,
    )  # fmt: skip
    return ImportAnswer(**found)


class ImportRow(SparseAnswer):
    """One imported file."""

    batch: Annotated[str, Field(description="its batch")]
    file: Annotated[str, Field(description="file name", default_factory=str)]
    format: Annotated[str, Field(description="csv, json, tradememory, ...", default_factory=str)]
    digest: Annotated[str, Field(description="SHA-256 of the file", default_factory=str)]
    new: Annotated[int, Field(description="new rows", default_factory=int)]
    duplicates: Annotated[int, Field(description="rows that were known", default_factory=int)]
    mapping: Annotated[dict[str, str], Field(description="field -> column", default_factory=dict)]
    header: Annotated[list[str], Field(description="columns of the file", default_factory=list)]
    recorded_at: Annotated[str, Field(description="UTC", default_factory=str)]
    undone: Annotated[bool, Field(description="true: it was undone")]


class ImportsAnswer(Answer):
    """Imports of files."""

    agent: Annotated[str, Field(description="the agent")]
    imports: Annotated[list[ImportRow], Field(description="oldest first")]
    n: Annotated[int, Field(description="how many")]


@operation(writes=False, columns=("batch", "recorded_at", "new", "undone", "file"))
def list_imports(memory: Memory, ask: AsOf, caller: Caller) -> ImportsAnswer:
    """List imported files, oldest first, and whether each import was undone."""
    found = agent_of(memory, ask).imports.all(as_of=ask.as_of, head=ask.head)
    rows = [ImportRow(**{"batch": item.key, **item.body, "undone": undone}) for item, undone in found]
    return ImportsAnswer(agent=ask.agent or DEFAULT_AGENT, imports=rows, n=len(rows))


class UndoImport(OfAgent):
    """Which import to undo."""

    batch: Annotated[Key | None, Field(description="its batch, from list_imports; not needed if there is only one import")] = None


class UndoAnswer(ReceiptAnswer):
    """An undone import."""

    batch: Annotated[str, Field(description="its batch", default_factory=str)]
    file: Annotated[str, Field(description="file name; '' if it is not known", default_factory=str)]
    took_back: Annotated[dict[str, int], Field(description="how many items of each kind no longer count", default_factory=dict)]


@operation(writes=True)
def undo_import(memory: Memory, ask: UndoImport, caller: Caller) -> UndoAnswer:
    """Undo an import: its rows no longer count, and everything derived from them is recomputed. Owner only."""
    undone = agent_of(memory, ask).imports.undo(ask.batch)
    written = receipt_answer(undone.receipt)
    return UndoAnswer(
        **dict(written), batch=undone.batch, file=undone.file, took_back=dict(undone.took_back),
    )  # fmt: skip
