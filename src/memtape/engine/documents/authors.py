"""Who wrote a passage, as far as is known.

A note that went through memtape has a heading with its agent, run and id. A heading is only words in a file, so the log is asked:
the note counts as written by that agent if the log has it with these very words. What no log knows is said to be unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from memtape.documents.citations import content_hash, lines_of
from memtape.documents.sources import LOG_PAGES
from memtape.store.cutoff import EVERYTHING
from memtape.store.tables import Tables

if TYPE_CHECKING:
    from memtape.documents.search import SearchHit

_HEADING = re.compile(r"## \d{4}-\d\d-\d\dT[0-9:.]+Z \w+ by (\S+)(?: in run (.+?))? \[([^\[\]]+)\]$")
AUTHOR_OF_TIER = {1: "the owner", 2: "memtape", 4: "from outside"}
UNKNOWN_AUTHOR = "not on record"
NOTE_TIER = 3


def authors_of(tables: Tables, hits: Sequence[SearchHit], text_of: Callable[[str], str | None]) -> list[str]:
    """Returns the author of each passage in words: the owner, memtape, an agent with its runs, from outside, or unknown."""
    texts: dict[str, list[str]] = {}
    authors = []
    for hit in hits:
        if hit.path.startswith(LOG_PAGES):
            authors.append(f"agent {tables.stream}")
            continue
        if hit.tier != NOTE_TIER:
            authors.append(AUTHOR_OF_TIER.get(hit.tier, UNKNOWN_AUTHOR))
            continue
        if hit.path not in texts:
            texts[hit.path] = lines_of(text_of(hit.path) or "")
        found = dict.fromkeys(_authors(tables, texts[hit.path], hit))
        authors.append("; ".join(found) or UNKNOWN_AUTHOR)
    return authors


def _authors(tables: Tables, lines: Sequence[str], hit: SearchHit) -> Iterator[str]:
    """Yields the author of each note that the passage is part of; the first may have begun above the passage."""
    headings = [at for at, line in enumerate(lines[: hit.end_line]) if _HEADING.match(line)]
    within = [at for at in headings if at >= hit.start_line - 1]
    above = [at for at in headings if at < hit.start_line - 1][-1:] if not within or within[0] > hit.start_line - 1 else []
    for at in (*above, *within):
        heading = _HEADING.match(lines[at])
        assert heading is not None
        agent, run, id = heading[1], heading[2], heading[3]
        note = next(iter(Tables(tables.session, tables.owner, agent).items("document_note", EVERYTHING, keys=[id])), None)
        size = 0 if note is None else note.body["end_line"] - note.body["start_line"] + 1
        if note is not None and at + size < hit.start_line:
            yield UNKNOWN_AUTHOR
        elif note is not None and content_hash("\n".join(lines[at : at + size])) == note.body["content_hash"]:
            yield f"agent {agent}, run {note.body['run']}" if note.body["run"] else f"agent {agent}"
        else:
            yield f"not on record: its heading names agent {agent}{f', run {run}' if run else ''}"
