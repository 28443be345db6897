"""`memtape bench`: the performance budgets, each a ratio against a baseline timed in the same run.

Full runs keep the stores they make in `.bench/` of the working folder, so that the next run is quicker.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from memtape.errors import Unknown
from memtape.lab.benches.briefs import measure_brief
from memtape.lab.benches.desk import FULL, QUICK, Bench
from memtape.lab.benches.documents import (
    measure_hybrid,
    measure_index,
    measure_reindex,
    measure_search_10k,
    measure_search_100k,
)  # fmt: skip
from memtape.lab.benches.recall import measure_load, measure_ranked, measure_recall
from memtape.lab.benches.records import measure_import, measure_page, measure_rebuild, measure_verify
from memtape.lab.benches.starting import measure_help, measure_mcp
from memtape.lab.benches.ticks import measure_flatness, measure_reports, measure_reports_flatness, measure_ticks
from memtape.lab.benches.timing import Result

KEPT = Path(".bench")
BENCHES: dict[str, Callable[[Bench], dict[str, Result]]] = {
    "tick": measure_ticks,
    "tick_vs_commit": measure_ticks,
    "tick_flat": measure_flatness,
    "remember_trade": measure_reports,
    "remember_trade_vs_commit": measure_reports,
    "remember_trade_flat": measure_reports_flatness,
    "import_10k": measure_import,
    "verify_100k": measure_verify,
    "rebuild_100k": measure_rebuild,
    "read_trades": measure_page,
    "ranked_100k": measure_ranked,
    "recall_100k": measure_recall,
    "recall_1m": measure_recall,
    "recall_one_symbol": measure_recall,
    "recall_load": measure_load,
    "brief": measure_brief,
    "docs_search_10k": measure_search_10k,
    "docs_search_100k": measure_search_100k,
    "docs_hybrid": measure_hybrid,
    "docs_index": measure_index,
    "docs_reindex_10k": measure_reindex,
    "docs_memory_100k": measure_hybrid,
    "help": measure_help,
    "mcp_ready": measure_mcp,
}


def run_benches(name: str | None, *, quick: bool, say: Callable[[str], None]) -> dict[str, Result]:
    """Measure everything, or what is named; `quick` does little of it and keeps nothing."""
    if name is not None and name not in BENCHES:
        raise Unknown("name", "bench", name, f"Choose one of {', '.join(BENCHES)}")
    wanted = [name] if name else list(BENCHES)
    if not quick:
        KEPT.mkdir(exist_ok=True)
    found: dict[str, Result] = {}
    with tempfile.TemporaryDirectory(prefix="run-", dir=None if quick else KEPT) as folder:
        place = Path(folder)
        bench = Bench(QUICK if quick else FULL, folder=place, kept=place if quick else KEPT, say=say)
        for each in wanted:
            if each not in found:
                say(f"Measuring {each}")
                found |= BENCHES[each](bench)
    return {each: found[each] for each in wanted}
