"""Operations on imported files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from memtape.core.values import Key
from memtape.surfaces.answers import Answer, ReceiptAnswer, receipt_answer
from memtape.surfaces.questions import DEFAULT_AGENT, AsOf, OfAgent, agent_of
from memtape.surfaces.registry import operation

if TYPE_CHECKING:
    from memtape.engine import Memory
    from memtape.surfaces.caller import Caller


class ImportsAnswer(Answer):
    """Imports of files."""

    agent: Annotated[str, Field(description="the agent")]
    imports: Annotated[list[dict[str, Any]], Field(description="batch, file, format, new, duplicates, undone")]
    n: Annotated[int, Field(description="how many")]


@operation(writes=False, columns=("batch", "file", "format", "new", "duplicates", "recorded_at", "undone"))
def list_imports(memory: Memory, ask: AsOf, caller: Caller) -> ImportsAnswer:
    """List imported files, oldest first, and whether each import was undone."""
    found = agent_of(memory, ask).imports.all(as_of=ask.as_of, head=ask.head)
    rows = [{"batch": item.key, **item.body, "undone": undone} for item, undone in found]
    return ImportsAnswer(agent=ask.agent or DEFAULT_AGENT, imports=rows, n=len(rows))


class UndoImport(OfAgent):
    """Which import to undo."""

    batch: Annotated[Key, Field(description="its batch, from list_imports")]


@operation(writes=True)
def undo_import(memory: Memory, ask: UndoImport, caller: Caller) -> ReceiptAnswer:
    """Undo an import: its rows no longer count, and everything derived from them is recomputed. Owner only."""
    caller.require_owner("undo an import")
    return receipt_answer(agent_of(memory, ask).imports.undo(ask.batch))
