"""What the note of a search says about the index that it was answered from."""

from __future__ import annotations

from pathlib import Path

import pytest

import memtape
from memtape.surfaces.registry import execute


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    root = tmp_path / "desk"
    root.mkdir()
    (root / "note.md").write_text("# Gold\nThe stop was moved.\n")
    (root / "chart.png").write_bytes(b"\x89PNG")
    return root


def note(store: Path, question: str = "gold stop") -> str:
    with memtape.open(str(store)) as memory:
        return memory.agent("main").documents.search(question).note


def test_a_search_says_that_the_index_is_empty_changed_or_behind_a_missing_folder(tmp_path, desk, monkeypatch):
    store = tmp_path / "desk.db"
    with memtape.open(str(store)) as memory:
        memory.agent_for_writing("main").documents.add(desk)
    assert note(store) == "" and "1 no kind of text that is indexed" in note(store, "hippopotamus")
    (desk / "new.md").write_text("Gold again.")
    assert "1 file changed since the index" in note(store)
    desk.rename(tmp_path / "away")
    assert str(desk) in note(store) and "answered from the index of" in note(store)
    (tmp_path / "away").rename(desk)
    # Another version of memtape starts with an empty index, and a search would find nothing without a word.
    monkeypatch.setattr("memtape.documents.cache.CACHE_VERSION", 99)
    assert note(store) == f"{desk} is not indexed at the moment: reindex_documents"
    (tmp_path / "desk.docs.db").unlink()
    assert note(store) == "nothing is indexed yet: run memtape docs reindex"


def test_a_restricted_search_that_finds_nothing_says_that_it_was_restricted(tmp_path, desk):
    with memtape.open(str(tmp_path / "desk.db")) as memory:
        documents = memory.agent_for_writing("main").documents
        documents.add(desk)
        assert documents.search("gold", path="nowhere").note.startswith("no document has the path, type and days that were asked for")
        assert documents.search("gold", types=["note"]).note == ""


def test_a_plain_date_is_a_day_in_a_search(tmp_path, desk):
    for day in ("2026-05-14", "2026-05-15", "2026-05-16"):
        (desk / f"{day}.md").write_text("Gold was quiet.")
    with memtape.open(str(tmp_path / "desk.db")) as memory:
        memory.agent_for_writing("main").documents.add(desk)
        for since, until, days in (("2026-05-15", "2026-05-15", 1), ("2026-05-15", "2026-05-16T00:00:00Z", 2)):
            found = execute(memory, "search_documents", {"query": "quiet", "since": since, "until": until})["results"]
            assert len(found) == days
