"""The benches run and tell what they must tell; how fast anything is, is no matter of tests."""

from __future__ import annotations

import pytest

from memtape.errors import Unknown
from memtape.lab.bench import BENCHES, run_benches

TOLD = {"n", "ratio", "bar", "better", "ok", "what", "baseline_ms", "subject_ms"}


@pytest.fixture(scope="module")
def found():
    return run_benches(None, quick=True, say=lambda line: None)


def test_every_bench_tells_its_ratio_and_its_bar(found):
    assert list(found) == list(BENCHES)
    for name, told in found.items():
        assert told.keys() >= TOLD, name
        assert told["better"] in ("lower", "higher")
        assert isinstance(told["ok"], bool)
        assert told["n"] > 0 and told["ratio"] > 0 and told["bar"] > 0


def test_one_bench_can_be_run_alone():
    assert list(run_benches("tick_vs_commit", quick=True, say=lambda line: None)) == ["tick_vs_commit"]


def test_an_unknown_bench_is_refused_with_the_names_there_are():
    with pytest.raises(Unknown, match="import_10k"):
        run_benches("speed", quick=True, say=lambda line: None)
