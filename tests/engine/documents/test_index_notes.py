"""What the note of a search says about the index that it was answered from."""

from __future__ import annotations

from pathlib import Path

import pytest

import memtape


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
