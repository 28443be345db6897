"""Indexers that are killed while they work, and what they leave behind."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

from memtape.documents.index import DocumentIndex
from memtape.documents.search import search_index
from tests.documents.desk import Letters, sync, write
from tests.faults.processes import fork

NOTES = 30


def month_written(work: Path, month: int) -> None:
    """Every note of a workspace rewritten to name another month; every fifth has several passages."""
    text = "note {n}: month{month} of gold was quiet. "
    write(work, {f"{n}.md": text.format(n=n, month=month) * (5 if n % 5 else 60) for n in range(NOTES)})


def killed(folder: Path, rounds: int, seed: int) -> Counter[str]:
    """Rewrite all notes, start an indexer, kill it at some moment, look at the index; so many times. What was found, counted."""
    chance, path, work = random.Random(seed), folder / "documents.db", folder / "work"
    month_written(work, 0)
    started = time.perf_counter()
    _indexed(path, work)
    usual, indexed, tally = time.perf_counter() - started, 0, Counter[str]()
    for month in range(1, rounds + 1):
        month_written(work, month)
        pid = fork(lambda: _indexed(path, work))
        time.sleep(chance.uniform(0.0, 1.3 * usual))
        os.kill(pid, signal.SIGKILL)
        tally["ended" if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0 else "killed"] += 1
        found = looked_at(path)
        assert found in (indexed, month), f"neither the old index nor the new one: month {found}"
        tally["new" if found == month else "old"] += 1
        indexed = found
    _indexed(path, work)
    assert looked_at(path, complete=True) == rounds
    return tally


def _indexed(path: Path, work: Path) -> None:
    index = DocumentIndex(path)
    sync(index, work, embedder=Letters())
    index.close()


def looked_at(path: Path, *, complete: bool = False) -> int:
    """The one month that an index tells of, whichever way it is asked; it must be whole."""
    index = DocumentIndex(path)
    try:
        with index.cache.writing() as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            for table in ("words_1", "whole_1"):
                connection.execute(f"INSERT INTO {table}({table}) VALUES ('integrity-check')")
            texts = connection.execute("SELECT DISTINCT substr(text, instr(text, 'month') + 5, 6) FROM chunks").fetchall()
        (month,) = {int(str(text).split()[0]) for (text,) in texts}
        assert index.health("ann", "gold").documents == NOTES
        for slot in ("sqlite_fts", "hybrid_embeddings"):
            found = search_index(index, f"month{month}", owner="ann", agent="gold", slot=slot, embedder=Letters(), limit=100)
            assert found.slot == slot and len({hit.path for hit in found.hits}) == NOTES
            assert not complete or found.missing == 0
        return month
    finally:
        index.close()
