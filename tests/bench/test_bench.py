"""Every benchmark runs and reports its fields. Speed itself is not tested."""

from __future__ import annotations

import pytest

from bench.budgets import BENCHES, BENCHES_ON_REQUEST, run_benches
from memtape.errors import Unknown
from tests.effort import SOAK

FIELDS = {"n", "ratio", "bar", "better", "ok", "what", "baseline_ms", "subject_ms"}
# Even the quick form of these takes a second or more: make soak runs them, and make bench runs all in full.
SLOW = {"verify_100k", "rebuild_100k", "docs_search_10k", "docs_search_100k", "docs_search_1m", "docs_search_shared", "docs_hybrid", "docs_memory_100k", "tick_flat",
        "mcp_ready", "start", "start_recall"}  # fmt: skip


@pytest.mark.soak
@pytest.mark.parametrize("name", [name for name in (*BENCHES, *BENCHES_ON_REQUEST) if SOAK or name not in SLOW])
def test_a_bench_reports_its_ratio_and_its_bar(name):
    results = run_benches(name, quick=True, say=lambda line: None)
    assert list(results) == [name]
    result = results[name]
    assert result.keys() >= FIELDS
    assert result["better"] in ("lower", "higher")
    assert isinstance(result["ok"], bool)
    assert result["n"] > 0 and result["ratio"] > 0 and result["bar"] > 0


def test_an_unknown_bench_is_refused_with_the_names_there_are():
    with pytest.raises(Unknown, match="import_10k"):
        run_benches("speed", quick=True, say=lambda line: None)
