"""A validation as a Markdown document: the verdict in the first line, then every table. Search finds it among an agent's reports.

The same result gives the same bytes: a report has no clock and no path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memtape.core.codec import canonical_plain, digest
from memtape.lab.validate.words import METRIC_TITLES, R_BY, approach_title, counted, metric_text, rounded_text

REPORT_HEADING = "# Validation: "
RECALL_TITLES: Mapping[str, str] = {
    "recall_precision": "Recall precision of the top 5",
    "recall_base_rate": "The same of memories at random",
    "recall_lift": "Lift of recall",
    "evidence_accuracy": "Accuracy of evidence",
}
METHOD = (
    "Walk forward: before each trade recall is asked as of its entry less the embargo; memory holds only trades that had ended.",
    "Sizes at equal risk are those of the approach times one number, so that their mean is 1 % of equity. An approach that is "
    "ruined at its own risk is halved until it survives.",
    "Intervals hold 90 %. Those of accounts redraw whole weeks of daily returns, those of trades whole weeks of trades; "
    "differences are also redrawn by moments of entry.",
    "The permutation p shifts outcomes against sizes in a circle, forwards and reversed: runs of luck and of sizes stay whole.",
    "The deflated Sharpe ratio is that of weekly differences to fixed risk, over all approaches and variants that were tried. "
    "The ratios of useless ones vary by 1 / (weeks - 1).",
    "The probability of overfitting splits the weeks into 8 blocks in all symmetric ways.",
)
Row = Sequence[str]


def report_title(result: Mapping[str, Any]) -> str:
    """Returns the name of what was validated."""
    return str(result["data"].get("file") or f"agent {result['data']['agent']}")


def report_name(result: Mapping[str, Any]) -> str:
    """Returns a file name for the report: what was validated, and a mark of its data and settings."""
    name = "".join(c if c.isalnum() else "-" for c in report_title(result).split(".")[0].lower()).strip("-")[:60]
    mark = digest(canonical_plain({"data": result["data"]["hashes"], "settings": result["settings_hash"]}))[:8]
    return f"validate-{name}-{mark}"


def number_text(value: float | None, digits: int = 3, scale: float = 1.0) -> str:
    """Returns a number, or a dash where there is none.

    >>> number_text(0.12345), number_text(None), number_text(1234.5, 0)
    ('0.123', '–', '1,234')
    """
    return "–" if value is None else rounded_text(scale * value, digits)


def interval_text(ends: Sequence[float] | None, digits: int = 3) -> str:
    """Returns an interval in words.

    >>> interval_text([-0.1, 0.25], 2)
    '-0.10 to 0.25'
    """
    return "–" if ends is None else f"{number_text(ends[0], digits)} to {number_text(ends[1], digits)}"


def metric_rows(table: Mapping[str, Mapping[str, Any]]) -> Iterator[Row]:
    """Yields a row for each metric: its name and each approach's value, interval and n."""
    for name, title in METRIC_TITLES.items():
        cells = [approach[name] for approach in table.values()]
        yield title, *(f"{metric_text(name, cell)}, n {cell['n']:,}" for cell in cells)


def note_rows(table: Mapping[str, Mapping[str, Any]]) -> Iterator[Row]:
    """Yields what the metrics say beside their values, and why some are missing."""
    for name, title in METRIC_TITLES.items():
        notes: dict[str, list[str]] = {}
        for approach, cells in table.items():
            if note := cells[name]["note"]:
                notes.setdefault(note, []).append(approach_title(approach))
        for note, approaches in notes.items():
            yield title, note, "all" if len(approaches) == len(table) else ", ".join(approaches)


def difference_rows(result: Mapping[str, Any]) -> Iterator[Row]:
    """Yields the paired difference of each approach to fixed risk."""
    for name, one in result["differences"].items():
        yield (
            approach_title(name), number_text(one["difference"]), interval_text(one["interval_by_moment"]),
            interval_text(one["interval_by_week"]), number_text(one["p_by_moment"]), number_text(one["p_by_week"]),
            number_text(one["permutation_p"]), f"{one['n']:,}",
        )  # fmt: skip


DIFFERENCE_HEAD = ("approach", "R per trade", "by moment", "by week", "p by moment", "p by week", "permutation p", "n")


def recall_rows(result: Mapping[str, Any]) -> Iterator[Row]:
    """Yields how well memory foretold outcomes."""
    for name, title in RECALL_TITLES.items():
        cell = result["recall"][name]
        yield title, number_text(cell["value"]), interval_text(cell["interval"]), f"{cell['n']:,}", cell["note"]


def calibration_rows(result: Mapping[str, Any]) -> Iterator[Row]:
    """Yields expected and actual outcomes, from the lowest expectation to the highest."""
    for one in result["calibration"]:
        yield number_text(one["expected"]), number_text(one["actual"]), number_text(one["error"]), f"{one['n']:,}"


def sensitivity_rows(result: Mapping[str, Any]) -> Iterator[Row]:
    """Yields what another value of each parameter would have done."""
    for one in result["sensitivity"]:
        yield (
            one["variant"], number_text(one["net_pnl"], 0), f"{one['traded']:,}", number_text(one["mean_risk"], 2, 100.0),
            number_text(one["selectivity"]),
        )  # fmt: skip


def claim_rows(result: Mapping[str, Any]) -> Iterator[Row]:
    """Yields the five expectations of the original text with their answers."""
    for one in result["claims"]:
        yield f"{one['number']}. {one['claim']}", approach_title(one["approach"]), one["answer"], one["found"]


def gate_rows(verdict: Mapping[str, Any]) -> Iterator[Row]:
    """Yields the gates of a verdict."""
    for gate in verdict["gates"]:
        yield gate["name"], "holds" if gate["holds"] else "fails", gate["found"]


def setting_rows(result: Mapping[str, Any]) -> Iterator[Row]:
    """Yields what the numbers depend on: data, settings, seed, version, hashes."""
    data, settings = result["data"], result["settings"]
    yield "Data", f"{data['trades']:,} closed trades, {data['first']} to {data['last']}"
    for name, value in data["hashes"].items():
        yield f"SHA-256 of {name}", value
    if "bars" in data:
        yield "Bars", data["bars"]
    typical = "; 1R is the typical loss that was known at each decision" if data["r_by"] == "money" else ""
    yield "Unit of outcomes", f"{R_BY[data['r_by']]}{typical}"
    yield "Split", f"{data['split']}; {data['training_trades']:,} trades were known then, {data['purged']} were still open"
    yield "Embargo", f"{data['embargo_hours']:g} hour{'' if data['embargo_hours'] == 1 else 's'}"
    decided = f"{data['decisions']:,} at {counted(data['moments'], 'moment')} in {counted(data['weeks'], 'week')}"
    yield "Decisions", f"{decided}; {data['without_outcome']} without an outcome left out; {data['recalls']:,} recalls"
    if data["groups"]:
        own = "each with its own memory and account; the drawdown at an entry is that of all"
        yield "Groups", f"{len(data['groups'])} by {data['group_by']}, {own}"
    yield "Clock of Sharpe", data["clock"]
    yield "Unfavourable regimes", ", ".join(data["unfavourable_regimes"]) or "none before the split"
    yield "Seed", f"{settings['seed']}, {settings['resamples']} redrawn histories"
    yield "Starting equity", f"{settings['starting_equity']:,.0f}"
    yield "memtape", result["memtape"]
    yield "SHA-256 of settings", result["settings_hash"]


def validation_markdown(result: Mapping[str, Any]) -> str:
    """Returns the report as Markdown."""
    approaches = [approach_title(name) for name in result["own_risk"]]
    parts = [f"{result['sentence']}", "", f"{REPORT_HEADING}{report_title(result)}", "", result["power"], ""]
    parts += [f"- Look-ahead: {sign}" for sign in result["look_ahead"]] + [f"- {note}" for note in result["notes"]] + [""]
    sections: list[tuple[str, Row, Iterator[Row]]] = [
        ("The five expectations", ("expectation", "of", "answer", "found"), claim_rows(result)),
        ("Gates of the verdict", ("gate", "", "found"), gate_rows(result["verdict"])),
        ("At their own risk", ("metric", *approaches), metric_rows(result["own_risk"])),
        ("At equal mean risk", ("metric", *approaches), metric_rows(result["equal_risk"])),
        ("Notes to the metrics", ("metric", "note", "approaches"), note_rows(result["own_risk"])),
        ("Differences to fixed risk, at equal risk", DIFFERENCE_HEAD, difference_rows(result)),
        ("Recall", ("figure", "value", "interval", "n", "what"), recall_rows(result)),
        ("Calibration", ("expected R", "actual R", "error by weeks", "n"), calibration_rows(result)),
        ("Sensitivity", ("variant", "net PnL", "traded", "mean risk %", "selectivity R"), sensitivity_rows(result)),
    ]
    for name, verdict in result["user_verdicts"].items():
        sections.append((f"Gates of {name}: {verdict['answer']}", ("gate", "", "found"), gate_rows(verdict)))
    sections.append(("Data and settings", ("what", "value"), setting_rows(result)))
    for title, head, rows in sections:
        parts += [f"## {title}", "", markdown_table(head, rows), ""]
    parts += ["## Method", "", *(f"- {line}" for line in METHOD), ""]
    return "\n".join(parts)


def markdown_table(head: Row, rows: Iterator[Row]) -> str:
    """Returns a table.

    >>> print(markdown_table(("a", "b"), iter([("1", "x|y")])))
    | a | b |
    |---|---|
    | 1 | x\\|y |
    """
    lines = [head, *rows]
    text = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
    return "\n".join([text[0], "|" + "---|" * len(head), *text[1:]])
