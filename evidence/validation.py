"""Does memory help? `memtape validate` on trades of gold.

The history is walked forward with the defaults: the first 70 % of its trades train, the rest is asked as of its entry less an
hour. It is the variant `hybrid` of one engine, without stops, so R is by ATR; all 23 variants, each with its own memory, are
`memtape validate FILE --group variant`. The first figure is what choosing sizes by memory was worth per trade beside the same
risk on every trade; other approaches stand beside it. The tables are those of the command. Nothing here says that memory makes
money.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from evidence.figures import Figure, Scale
from evidence.trade_histories import BACKTEST, DATA
from memtape.lab.validate import report_text
from memtape.lab.validate.history import HistorySource
from memtape.lab.validate.options import ValidateOptions
from memtape.lab.validate.study import validate_history
from memtape.lab.validate.words import approach_title

GOLD = HistorySource(files=(DATA / BACKTEST,), where={"variant": "hybrid"})
RESAMPLES = 200


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
            (("what", "value"), report_text.setting_rows(result)),
        ):
            parts += [report_text.markdown_table(head, iter(rows)), ""]
    return "\n".join(parts)


@cache
def results(scale: Scale) -> Mapping[str, dict[str, Any]]:
    """Returns the validation of the history; none where the file is absent."""
    if not DATA.is_dir():
        return {}
    return {"gold, variant hybrid": validate_history(GOLD, options_of(scale))}


def options_of(scale: Scale) -> ValidateOptions:
    """Returns how a history is validated; the small study varies no parameter."""
    return ValidateOptions(vary=scale == "full", resamples=RESAMPLES if scale == "full" else 50)


def figures_of(name: str, result: Mapping[str, Any]) -> Iterator[Figure]:
    """Yields what memory was worth, what could have been seen, and what recall foretold."""
    verdict, differences, n = result["verdict"], result["differences"], result["data"]["decisions"]
    others = ", ".join(
        f"{approach_title(each)} {one['difference']:+.2f}" for each, one in differences.items() if each != "evidence"
    )
    yield Figure(f"{name}: evidence, R per trade at equal risk ({verdict['answer']})", verdict["difference"], n, "decisions",
                 baseline=others)  # fmt: skip
    yield Figure(f"{name}: smallest improvement that could be seen, R per trade", verdict["smallest_visible"], n, "decisions")
    lift = result["recall"]["recall_lift"]
    if lift["value"] is not None:
        precision = result["recall"]["recall_precision"]["value"]
        yield Figure(f"{name}: lift of the five best memories", lift["value"], lift["n"], "decisions",
                     baseline=f"they were right in {100 * precision:.0f} %")  # fmt: skip
