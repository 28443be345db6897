"""Every benchmark runs and reports its fields. Speed itself is not tested."""

from __future__ import annotations

import pytest

from bench.budgets import BENCHES, run_benches
from memtape.errors import Unknown

FIELDS = {"n", "ratio", "bar", "better", "ok", "what", "baseline_ms", "subject_ms"}


@pytest.fixture(scope="module")
def results():
    return run_benches(None, quick=True, say=lambda line: None)


def test_every_bench_reports_its_ratio_and_its_bar(results):
    assert list(results) == list(BENCHES)
    for name, result in results.items():
        assert result.keys() >= FIELDS, name
        assert result["better"] in ("lower", "higher")
        assert isinstance(result["ok"], bool)
        assert result["n"] > 0 and result["ratio"] > 0 and result["bar"] > 0


def test_one_bench_can_be_run_alone():
    assert list(run_benches("tick_vs_commit", quick=True, say=lambda line: None)) == ["tick_vs_commit"]


def test_an_unknown_bench_is_refused_with_the_names_there_are():
    with pytest.raises(Unknown, match="import_10k"):
        run_benches("speed", quick=True, say=lambda line: None)
