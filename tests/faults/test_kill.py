"""A writer killed at any moment loses nothing it acknowledged and leaves nothing half done (10,000 times in tests/soak)."""

from __future__ import annotations

from pathlib import Path

from tests.faults.killing import COMMITTING, Killer

ROUNDS = 30


def test_writers_killed_at_random_moments_lose_and_tear_nothing(tmp_path: Path) -> None:
    tally = Killer(tmp_path, seed=20261115).rounds(ROUNDS)
    print(tally)
    assert tally.rounds == ROUNDS
    assert tally.inside >= 0.3, f"too few kills hit an open transaction to prove anything: {tally}"
    assert tally.phases[COMMITTING] > 0, tally
    assert tally.acknowledged > ROUNDS // 8, tally
