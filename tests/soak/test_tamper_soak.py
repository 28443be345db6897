"""Every forgery of every row."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import memtape
from memtape.store.schema import TABLES
from tests.tamper.forger import Forger, SqliteHands
from tests.tamper.house import furnish
from tests.tamper.trial import Trial


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    path = str(tmp_path_factory.mktemp("house") / "memory.db")
    with furnish(memtape.open(path)) as memory:
        hands = SqliteHands(path)
        yield Trial(memory, Forger(hands))
        hands.close()


@pytest.mark.parametrize("kind", ["edits", "deletions", "copies", "swaps"])
@pytest.mark.parametrize("table", TABLES)
def test_every_forgery_of_every_row_is_found_and_named(trial: Trial, table: str, kind: str) -> None:
    trial.committed, trial.failures = 0, []
    for forgery in getattr(trial.forger, kind)(table, None):
        trial.attempt(forgery)
    print(f"{table}: {trial.committed} {kind}")
    assert trial.committed
    assert not trial.verdict(), trial.verdict()
