"""Operations on the notes that an agent writes into its documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from memtape.core.document_edits import NOTE_LENGTH, NoteKind
from memtape.core.values import Key, Line
from memtape.engine.documents.journal import NoteId
from memtape.surfaces.answers import Answer, optional_time_text
from memtape.surfaces.questions import OfAgent, agent_of
from memtape.surfaces.registry import operation

if TYPE_CHECKING:
    from memtape.engine import Memory
    from memtape.engine.documents.journal import JournalNote
    from memtape.surfaces.caller import Caller


class AppendNote(OfAgent):
    """What is to be remembered."""

    kind: Annotated[NoteKind, Field(description="journal: of the day; learning: what should stay; note: anything else")]
    text: Annotated[str, Field(min_length=1, max_length=NOTE_LENGTH, description="in your own words; markdown is fine")]
    run: Annotated[Key | None, Field(description="the run that writes it")] = None
    path: Annotated[Line | None, Field(description="a .md below journal/, memory/, notes/, learnings/; default: by kind")] = None
    id: Annotated[NoteId | None, Field(description="your own id: the same again writes nothing; default: by content")] = None


class NoteAnswer(Answer):
    """A note and where it stands: cite it by path, lines and content_hash."""

    agent: Annotated[str, Field(description="whose")]
    id: Annotated[str, Field(description="the note")]
    kind: Annotated[str, Field(description="journal, learning or note")]
    at: Annotated[str | None, Field(description="UTC")]
    run: Annotated[str | None, Field(description="the run that wrote it")]
    path: Annotated[str, Field(description="the document it was added to")]
    start_line: Annotated[int, Field(description="first line, its heading")]
    end_line: Annotated[int, Field(description="last line")]
    content_hash: Annotated[str, Field(description="of the lines, to verify a citation by")]
    seq: Annotated[int, Field(description="the log row")]
    hash: Annotated[str, Field(description="its link in the chain")]
    duplicate: Annotated[bool, Field(description="true when it was there already: nothing was written")]
    index_problem: Annotated[str | None, Field(description="why a search does not find it yet; null: it does")]


def _note(agent: str, noted: JournalNote) -> dict[str, Any]:
    return {
        "agent": agent,
        "id": noted.id,
        "kind": noted.kind,
        "at": optional_time_text(noted.at),
        "run": noted.run,
        "path": noted.path,
        "start_line": noted.start_line,
        "end_line": noted.end_line,
        "content_hash": noted.content_hash,
        "seq": noted.receipt.seq,
        "hash": noted.receipt.hash,
    }


@operation(writes=True, tools={"trader"})
def append_note(memory: Memory, ask: AppendNote, caller: Caller) -> NoteAnswer:
    """Add a note to the agent's journal, learnings or notes: attributed, found by the next search, never rewritten."""
    handle = memory.agent_for_writing(ask.agent)
    noted = handle.append_note(ask.kind, ask.text, run=ask.run, id=ask.id, path=ask.path)
    return NoteAnswer(**_note(handle.agent.id, noted), duplicate=noted.receipt.duplicate,
                      index_problem=noted.index_problem or None)  # fmt: skip


class ListNotes(OfAgent):
    """Which notes."""

    limit: Annotated[int, Field(ge=1, le=500, description="how many, the newest first")] = 50
    run: Annotated[Key | None, Field(description="only of this run")] = None


class NotesAnswer(Answer):
    """Notes that were written, the newest first."""

    agent: Annotated[str, Field(description="whose")]
    notes: Annotated[list[dict[str, Any]], Field(description="id, at, kind, run, path, lines, content_hash, text: quoted data")]
    n: Annotated[int, Field(description="how many are listed")]


@operation(writes=False)
def list_notes(memory: Memory, ask: ListNotes, caller: Caller) -> NotesAnswer:
    """What an agent has written into its documents by itself: each note with its run, its place and its words."""
    handle = agent_of(memory, ask)
    rows = [{**_note(handle.agent.id, noted), "text": noted.text} for noted in handle.notes_written(ask.limit, ask.run)]
    return NotesAnswer(agent=handle.agent.id, notes=rows, n=len(rows))
