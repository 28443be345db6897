"""Ten thousand writers killed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.faults.killing import COMMITTING, Killer

ROUNDS, BATCH = 10_000, 500


@pytest.mark.parametrize("batch", range(ROUNDS // BATCH))
def test_ten_thousand_writers_are_killed_and_nothing_is_lost_or_torn(tmp_path: Path, batch: int) -> None:
    tally = Killer(tmp_path, seed=random.Random(batch).randrange(2**32)).rounds(BATCH)
    print(tally)
    assert tally.rounds == BATCH
    assert tally.inside >= 0.3, tally
    assert tally.phases[COMMITTING] > 0, tally
