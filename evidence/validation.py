"""Does memory help? `memtape validate` on trades of gold.

Three histories are walked forward with the defaults: the first 70 % of the trades train, the rest is asked as of its entry less
an hour. The first is the variant `hybrid` of one engine; the second the same with bars of 30 minutes, from which regime and
volatility come; the third all 23 variants with these bars, each with its own memory and account
(`memtape validate FILE --group variant --bars BARS`). The trades have no stops, so R is by ATR. The first figure of each is what
choosing sizes by memory was worth per trade beside the same risk on every trade; other approaches stand beside it. After it the
same without the drawdown brake, under which a bad start weighs more: that is what the choice of trades alone was worth. The
tables are those of the command. Nothing here says that memory makes money.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from evidence.figures import Figure, Scale
from evidence.trade_histories import BACKTEST, DATA
from memtape.lab.validate import report_text
from memtape.lab.validate.history import HistorySource
from memtape.lab.validate.options import ValidateOptions
from memtape.lab.validate.study import validate_history
from memtape.lab.validate.words import approach_title

BARS = DATA.parent / "market" / "xauusd_m30_2022-02_2025-06.csv.gz"
HYBRID = HistorySource(files=(DATA / BACKTEST,), where={"variant": "hybrid"})
GOLD: Mapping[str, HistorySource] = {
    "gold, variant hybrid": HYBRID,
    "gold, variant hybrid, with bars": replace(HYBRID, bars=BARS),
    "gold, all 23 variants, with bars": HistorySource(files=(DATA / BACKTEST,), group="variant", bars=BARS),
}
RESAMPLES = 200
NO_BRAKE = "no drawdown brake"


def study(scale: Scale) -> list[Figure]:
    """Returns what sizes by memory were worth on each history."""
    return [figure for name, result in results(scale).items() for figure in figures_of(name, result)]


def appendix(scale: Scale) -> str:
    """Returns the whole table of each history and the answers to the five expectations, as Markdown."""
    return tables_of(results(scale))


def tables_of(found: Mapping[str, dict[str, Any]]) -> str:
    """Returns the tables of some validations."""
    parts = []
    for name, result in found.items():
        approaches = [approach_title(each) for each in result["own_risk"]]
        parts += [f"### {name[0].upper()}{name[1:]}", "", result["sentence"], result["power"], ""]
        for head, rows in (
            (("metric, at its own risk", *approaches), report_text.metric_rows(result["own_risk"])),
            (("metric, at equal risk", *approaches), report_text.metric_rows(result["equal_risk"])),
            (report_text.DIFFERENCE_HEAD, report_text.difference_rows(result)),
            (("recall", "value", "interval", "n", "what"), report_text.recall_rows(result)),
            (("expectation", "of", "answer", "found"), report_text.claim_rows(result)),
            (("expected R", "actual R", "error by weeks", "n"), report_text.calibration_rows(result)),
            (("variant of evidence", "net PnL", "traded", "mean risk %", "selectivity R"), report_text.sensitivity_rows(result)),
            (("what", "value"), report_text.setting_rows(result)),
        ):
            parts += [report_text.markdown_table(head, iter(rows)), ""]
    return "\n".join(parts)


@cache
def results(scale: Scale) -> Mapping[str, dict[str, Any]]:
    """Returns the validation of each history, in a small study of the first; none where the files are absent."""
    if not DATA.is_dir():
        return {}
    names = list(GOLD) if scale == "full" else list(GOLD)[:1]
    return {name: validate_history(GOLD[name], options_of(scale)) for name in names}


def options_of(scale: Scale) -> ValidateOptions:
    """Returns how a history is validated; the small study varies no parameter.

    MEMTAPE_EVIDENCE_KEEP names a folder of finished parts: a study that was interrupted goes on from there.
    """
    keep = os.environ.get("MEMTAPE_EVIDENCE_KEEP") if scale == "full" else None
    return ValidateOptions(
        vary=scale == "full", resamples=RESAMPLES if scale == "full" else 50, keep=None if keep is None else Path(keep)
    )


def figures_of(name: str, result: Mapping[str, Any]) -> Iterator[Figure]:
    """Yields what memory was worth, what could have been seen, and what recall foretold."""
    verdict, differences, n = result["verdict"], result["differences"], result["data"]["decisions"]
    others = ", ".join(
        f"{approach_title(each)} {one['difference']:+.2f}" for each, one in differences.items() if each != "evidence"
    )
    yield Figure(f"{name}: evidence, R per trade at equal risk ({verdict['answer']})", verdict["difference"], n, "decisions",
                 baseline=others)  # fmt: skip
    for one in result["sensitivity"]:
        if one["variant"] == NO_BRAKE and one["selectivity"] is not None:
            what = f"{name}: evidence without the drawdown brake, R per trade at equal risk"
            yield Figure(what, one["selectivity"], n, "decisions")
    yield Figure(f"{name}: smallest improvement that could be seen, R per trade", verdict["smallest_visible"], n, "decisions")
    lift = result["recall"]["recall_lift"]
    if lift["value"] is not None:
        precision = result["recall"]["recall_precision"]["value"]
        yield Figure(f"{name}: lift of the five best memories", lift["value"], lift["n"], "decisions",
                     baseline=f"they were right in {100 * precision:.0f} %")  # fmt: skip
