"""Every attack on every desk, with the gates on and off: as `memtape attack` runs them."""

from __future__ import annotations

import pytest

from memtape.lab.attack.desks import DESKS
from memtape.lab.attack.report import attack_report
from memtape.lab.attack.suite import DEFAULT_CASES, DEFAULT_SEED, run_attacks

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("desk", DESKS)
def test_no_attack_of_the_whole_suite_changes_what_counts(desk: str) -> None:
    report = attack_report(run_attacks(DEFAULT_CASES, DEFAULT_SEED, (desk,)), DEFAULT_CASES, DEFAULT_SEED)
    assert report["missed"] == []
