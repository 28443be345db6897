"""Operations on imported files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from memtape.core.values import Key
from memtape.surfaces.answer_models import Answer, SparseAnswer
from memtape.surfaces.answers import ReceiptAnswer, receipt_answer
from memtape.surfaces.questions import DEFAULT_AGENT, AsOf, OfAgent, agent_of
from memtape.surfaces.registry import operation

if TYPE_CHECKING:
    from memtape.engine import Memory
    from memtape.surfaces.caller import Caller


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


@operation(writes=False, columns=("batch", "file", "format", "new", "duplicates", "recorded_at", "undone"))
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
    caller.require_owner("undo an import")
    undone = agent_of(memory, ask).imports.undo(ask.batch)
    written = receipt_answer(undone.receipt)
    return UndoAnswer(
        **dict(written), batch=undone.batch, file=undone.file, took_back=dict(undone.took_back),
    )  # fmt: skip
