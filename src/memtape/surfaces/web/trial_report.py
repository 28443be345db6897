"""The report of `memtape trial` as one HTML file: inline style and SVG, no script, and nothing that a browser would fetch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memtape.lab.trial import report_text
from memtape.surfaces.web.svg import BOX_WIDTH, LinearScale, polyline
from memtape.surfaces.web.validation_report import CHART_HEIGHT, ChartLine, IntervalMark, LineChart, study_pages

ARM_COLOURS = {"off": 1, "on": 6, "shuffled": 5, "lessons-only": 7}


def render_trial(result: Mapping[str, Any]) -> str:
    """Returns the result of a trial as one HTML page. The same result gives the same bytes."""
    marks, zero = pair_marks(result)
    return study_pages().get_template("trial_report.html").render(
        result=result, text=report_text, title=report_text.trial_title(result), arms=list(result["arms"]), box_width=BOX_WIDTH,
        height=CHART_HEIGHT, lines=result_lines(result), marks=marks, zero=zero,
    ) + "\n"  # fmt: skip


def result_lines(result: Mapping[str, Any]) -> LineChart:
    """Returns the sum of results by week of every arm."""
    curves, weeks = result["curves"]["lines"], result["curves"]["weeks"]
    values = [value for line in curves.values() for value in line] + [0.0]
    y, x = LinearScale(min(values), max(values), CHART_HEIGHT - 2, 2), LinearScale(0, max(len(weeks), 1), 0, BOX_WIDTH)
    lines = [
        ChartLine(ARM_COLOURS[arm], arm, polyline([(0.0, 0.0), *((float(n), value) for n, value in enumerate(line, 1))], x, y))
        for arm, line in curves.items()
    ]
    ends = (weeks[0], weeks[-1]) if weeks else ("", "")
    return LineChart(lines, f"{max(values):+.1f} %", f"{min(values):+.1f} %", round(y.at(0.0), 2), ends)


def pair_marks(result: Mapping[str, Any]) -> tuple[list[IntervalMark], float]:
    """Returns each difference between arms with its interval, and where zero lies."""
    rows = [(one, one["interval"] or [one["mean"]] * 2) for one in result["comparisons"]]
    scale = LinearScale.around([end for _, ends in rows for end in ends])
    marks = [
        IntervalMark(
            f"{one['own']} against {one['other']}", scale.percent(ends[0]), scale.percent(ends[1]), scale.percent(one["mean"]),
            f"{one['mean']:+.3f} %",
        )
        for one, ends in rows
    ]  # fmt: skip
    return marks, scale.percent(0.0)
