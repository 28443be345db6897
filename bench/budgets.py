"""The register of benchmarks. Each result is a ratio against a baseline that is timed in the same run.

A full run caches the stores it makes in `.bench/` of the working folder, so that the next run is quicker.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.briefs import measure_brief
from bench.desk import FULL, QUICK, BenchRun
from bench.documents import (
    measure_hybrid,
    measure_index,
    measure_reindex,
    measure_search_1m,
    measure_search_10k,
    measure_search_100k,
    measure_search_shared,
)  # fmt: skip
from bench.events import measure_exposure
from bench.facts import measure_chat_system
from bench.outcomes import measure_settling
from bench.pages import measure_agent_page, measure_column_cache, measure_trade_by_id, measure_trade_page
from bench.recall import measure_load, measure_ranked, measure_recall
from bench.records import measure_import, measure_import_records, measure_page, measure_rebuild, measure_undo, measure_verify
from bench.runs import measure_run
from bench.simulation import measure_simulation
from bench.startup import measure_help, measure_mcp, measure_starts
from bench.ticks import measure_flatness, measure_reports, measure_reports_flatness, measure_ticks
from bench.timing import Result
from bench.validation import measure_walk
from memtape.errors import Unknown

CACHE = Path(".bench")
BENCHES: dict[str, Callable[[BenchRun], dict[str, Result]]] = {
    "tick": measure_ticks,
    "tick_vs_commit": measure_ticks,
    "tick_flat": measure_flatness,
    "remember_trade": measure_reports,
    "remember_trade_vs_commit": measure_reports,
    "remember_trade_flat": measure_reports_flatness,
    "import_10k": measure_import,
    "import_records_10k": measure_import_records,
    "undo_import": measure_undo,
    "verify_100k": measure_verify,
    "rebuild_100k": measure_rebuild,
    "read_trades": measure_page,
    "trade_by_id": measure_trade_by_id,
    "trade_page": measure_trade_page,
    "agent_page": measure_agent_page,
    "column_cache": measure_column_cache,
    "ranked_100k": measure_ranked,
    "recall_100k": measure_recall,
    "recall_1m": measure_recall,
    "recall_one_symbol": measure_recall,
    "recall_load": measure_load,
    "brief": measure_brief,
    "run": measure_run,
    "settle_10k": measure_settling,
    "chat_system": measure_chat_system,
    "event_exposure": measure_exposure,
    "sim_vs_backtesting": measure_simulation,
    "validate_walk": measure_walk,
    "docs_search_10k": measure_search_10k,
    "docs_search_100k": measure_search_100k,
    "docs_search_shared": measure_search_shared,
    "docs_hybrid": measure_hybrid,
    "docs_index": measure_index,
    "docs_reindex_10k": measure_reindex,
    "docs_memory_100k": measure_hybrid,
    "help": measure_help,
    "start": measure_starts,
    "start_recall": measure_starts,
    "mcp_ready": measure_mcp,
}
# Too long for every run: measured only if asked for by name.
BENCHES_ON_REQUEST: dict[str, Callable[[BenchRun], dict[str, Result]]] = {"docs_search_1m": measure_search_1m}


def run_benches(name: str | None, *, quick: bool, say: Callable[[str], None]) -> dict[str, Result]:
    """Run one benchmark, or all but those on request. `quick` uses small sizes and caches nothing."""
    known = BENCHES | BENCHES_ON_REQUEST
    if name is not None and name not in known:
        raise Unknown("name", "benchmark", name, f"Choose one of {', '.join(known)}")
    wanted = [name] if name else list(BENCHES)
    if not quick:
        CACHE.mkdir(exist_ok=True)
    results: dict[str, Result] = {}
    with tempfile.TemporaryDirectory(prefix="run-", dir=None if quick else CACHE) as folder:
        place = Path(folder)
        bench = BenchRun(QUICK if quick else FULL, folder=place, cache=place if quick else CACHE, say=say)
        for each in wanted:
            if each not in results:
                say(f"Measuring {each}")
                results |= known[each](bench)
    return {each: results[each] for each in wanted}
