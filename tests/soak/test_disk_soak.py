"""Five thousand power cuts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.power import PowerPlant

CUTS, BATCH = 5_000, 250


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # apsw tells what SQLite kept to itself
@pytest.mark.parametrize("batch", range(CUTS // BATCH))
def test_the_power_fails_five_thousand_times_and_nothing_acknowledged_is_lost(memory_folder: Path, batch: int) -> None:
    tally = PowerPlant(memory_folder, seed=batch).cuts(BATCH)
    print(tally)
    assert tally.cuts == BATCH
