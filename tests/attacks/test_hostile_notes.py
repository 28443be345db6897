"""A model fills its journal with notes that have the words of a question. Search gives it four of ten places while there is more."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

import memtape
from memtape.engine import Memory
from memtape.plugs.clock import FixedClock
from memtape.surfaces.caller import Caller
from memtape.surfaces.registry import find, perform

NOW = datetime(2026, 6, 1, 9, tzinfo=UTC)
NOTES = 60
QUESTION = "gold breakout london range"


def texts_of(memory: Memory, limit: int) -> list[str]:
    found = perform(memory, find("search_documents"), {"query": QUESTION, "limit": limit}, Caller("owner", "gold"))
    return ["note" if "agent gold" in hit["author"] else "other" for hit in found["results"]]


def desk(tmp_path: Path, pages: int) -> Memory:
    folder = tmp_path / "own"
    folder.mkdir()
    for n in range(pages):
        (folder / f"page{n}.md").write_text(f"# Page {n}\n\nA breakout of gold after the London range number {n} wants volume.\n")
    memory = memtape.open(str(tmp_path / "desk.db"), clock=FixedClock(NOW))
    memory.create_skill("breakout")
    memory.create_agent("gold", skill="breakout")
    memory.agent("gold").documents.add(str(folder))
    model = Caller("model", "gold", bound=True)
    for n in range(NOTES):
        perform(memory, find("append_note"), {"kind": "note", "run": f"r{n}", "path": f"notes/n{n % 9}.md", "text": f"{QUESTION} {QUESTION} {n}"}, model)  # fmt: skip
    return memory


@pytest.mark.parametrize("limit", [5, 10])
def test_hostile_notes_hold_four_of_ten_places(tmp_path: Path, limit: int) -> None:
    with desk(tmp_path, pages=12) as memory:
        found = texts_of(memory, limit)
        assert len(found) == limit and found.count("note") <= 0.4 * limit


def test_where_nothing_else_matches_the_notes_are_all_shown(tmp_path: Path) -> None:
    with desk(tmp_path, pages=0) as memory:
        assert set(texts_of(memory, 5)) == {"note"}


def test_more_notes_than_a_search_looks_at_do_not_hide_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memtape.documents.search.POOL_SIZE", 20)
    with desk(tmp_path, pages=12) as memory:
        assert texts_of(memory, 10).count("note") <= 4
