"""Does memory help a rule on real bars? `memtape trial` on gold.

The rule `breakout_with_memory` trades hourly bars of gold from January to June 2025 in all four arms, each of three seeds in a
store of its own that begins empty. Figures are percent of the equity at the decision, by the week of entry. The tables are those
of the command. Nothing here says that memory makes money.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from evidence.figures import Figure, Scale
from evidence.trade_histories import DATA
from memtape.core.trial.arms import ARMS
from memtape.lab.trial.options import TrialOptions
from memtape.lab.trial.report_text import trial_markdown
from memtape.lab.trial.study import run_trial

BARS = DATA.parent / "market" / "xauusd_h1_2025-01_2025-06.csv.gz"
SEEDS: dict[Scale, int] = {"small": 1, "full": 3}


def study(scale: Scale) -> Iterator[Figure]:
    """Yields what memory was worth beside no memory and beside the placebo."""
    for result in results(scale):
        for one in result["comparisons"]:
            of = f"gold, breakout_with_memory: {one['own']} against {one['other']}, % of equity a week"
            yield Figure(of, one["mean"], one["weeks"], "weeks", baseline=f"90 % interval {_ends(one['interval'])}")


def appendix(scale: Scale) -> str:
    """Returns the report of the trial, its headings a level lower."""
    return "\n".join(trial_markdown(result).replace("\n## ", "\n#### ").replace("\n# ", "\n### ") for result in results(scale))


@cache
def results(scale: Scale) -> list[dict[str, Any]]:
    """Returns the trial; none where the bars are absent."""
    if not BARS.is_file():
        return []
    return [run_trial(TrialOptions(
        bars=BARS, symbol="XAUUSD", strategy="breakout_with_memory", arms=ARMS, seeds=SEEDS[scale], resamples=200,
        priced_as="anthropic/claude-haiku-4-5",
    ))]  # fmt: skip


def _ends(interval: list[float] | None) -> str:
    return "none" if interval is None else f"{interval[0]:+.2f} to {interval[1]:+.2f}"
