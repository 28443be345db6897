"""The page of the notes that an agent wrote: `/agents/{agent}/notes`, newest first; ?run= those of one run."""

from __future__ import annotations

from starlette.responses import Response

from memtape.surfaces.operations.journal import ListNotes, list_notes
from memtape.surfaces.web.document_text import lines_address
from memtape.surfaces.web.forms import chosen_fields, read_question
from memtape.surfaces.web.register import page
from memtape.surfaces.web.site import PageRequest

NOTES_LISTED = 200


@page("/agents/{agent}/notes", nav="Its own notes", within="Documents", order=10)
def notes_page(request: PageRequest) -> Response:
    """The agent's notes; each leads to its lines in a document."""
    run = request.query.get("run", "").strip()
    filters = chosen_fields({"run": run}, "run")
    found = request.ask(list_notes, read_question(ListNotes, agent=request.agent.id, limit=NOTES_LISTED, **filters))
    path = request.agent_path
    notes = [(note, lines_address(path, note.path, note.start_line, note.end_line, note.content_hash)) for note in found.notes]
    return request.show("notes.html", notes=notes, limit=NOTES_LISTED, run=run)
