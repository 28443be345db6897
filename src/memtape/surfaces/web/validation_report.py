"""The report of `memtape validate` as one HTML file: inline style and SVG, no script, and nothing that a browser would fetch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from memtape.core.validation.approaches import BASELINE, EVIDENCE
from memtape.lab.validate import report_text
from memtape.lab.validate.words import approach_title
from memtape.surfaces.web.svg import BOX_WIDTH, LinearScale, Point, polyline

CHART_HEIGHT = 280
BANDED = (BASELINE, EVIDENCE)  # bands of all approaches would cover each other; the table has them all


class ChartLine(NamedTuple):
    """One approach in a chart: its number chooses the colour."""

    number: int
    title: str
    points: str
    band: str = ""


class LineChart(NamedTuple):
    """Lines over the same x axis, the values at the top and the bottom, and where a level lies."""

    lines: Sequence[ChartLine]
    top: str
    bottom: str
    level: float
    ends: tuple[str, str]


class IntervalMark(NamedTuple):
    """A value with its interval on a horizontal scale, in % of its width."""

    title: str
    low: float
    high: float
    value: float
    text: str


def study_pages() -> Environment:
    """Returns the templates of the reports of studies."""
    return Environment(
        loader=PackageLoader("memtape.surfaces.web"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip


def render_validation(result: Mapping[str, Any]) -> str:
    """Returns the result of a validation as one HTML page. The same result gives the same bytes."""
    approaches = [approach_title(name) for name in result["own_risk"]]
    marks, zero = difference_marks(result)
    return study_pages().get_template("validation_report.html").render(
        result=result, text=report_text, title=report_text.report_title(result), approaches=approaches, box_width=BOX_WIDTH,
        height=CHART_HEIGHT, equity=equity_lines(result), rolling=rolling_chart(result), marks=marks, zero=zero,
        calibration=calibration_chart(result), equity_rows=equity_rows(result), rolling_rows=rolling_rows(result),
    ) + "\n"  # fmt: skip


def equity_lines(result: Mapping[str, Any]) -> LineChart:
    """Returns the equity of every approach at equal risk, with the 90 % band of two of them."""
    curves, weeks = result["curves"]["equity"], result["curves"]["weeks"]
    start = float(result["settings"]["starting_equity"])
    shown = [value for curve in curves.values() for value in curve["line"]] + [start]
    shown += [value for name in BANDED for end in ("low", "high") for value in curves[name][end]]
    y, x = LinearScale(min(shown), max(shown), CHART_HEIGHT - 2, 2), LinearScale(0, max(len(weeks), 1), 0, BOX_WIDTH)
    lines = []
    for number, (name, curve) in enumerate(curves.items()):
        band = ""
        if name in BANDED:
            upper, lower = _with_start(curve["high"], start), _with_start(curve["low"], start)
            band = polyline([*upper, *reversed(lower)], x, y)
        lines.append(ChartLine(number, approach_title(name), polyline(_with_start(curve["line"], start), x, y), band))
    return LineChart(lines, f"{max(shown):,.0f}", f"{min(shown):,.0f}", round(y.at(start), 2), _ends(weeks))


def rolling_chart(result: Mapping[str, Any]) -> LineChart:
    """Returns the 30-day Sharpe ratio of every approach at its own risk."""
    curves = result["curves"]["rolling"]
    days = sorted({day for points in curves.values() for day, _ in points})
    place = {day: number for number, day in enumerate(days)}
    values = [value for points in curves.values() for _, value in points] + [0.0]
    y, x = LinearScale(min(values), max(values), CHART_HEIGHT - 2, 2), LinearScale(0, max(len(days) - 1, 1), 0, BOX_WIDTH)
    lines = [
        ChartLine(number, approach_title(name), polyline([(place[day], value) for day, value in points], x, y))
        for number, (name, points) in enumerate(curves.items())
    ]
    return LineChart(lines, f"{max(values):.1f}", f"{min(values):.1f}", round(y.at(0.0), 2), _ends(days))


def difference_marks(result: Mapping[str, Any]) -> tuple[list[IntervalMark], float]:
    """Returns each difference to fixed risk with its interval by weeks, and where zero lies."""
    rows = {name: (one["interval_by_week"] or [one["difference"]] * 2, one) for name, one in result["differences"].items()}
    scale = LinearScale.around([end for ends, _ in rows.values() for end in ends])
    marks = [
        IntervalMark(
            approach_title(name), scale.percent(ends[0]), scale.percent(ends[1]), scale.percent(one["difference"]),
            f"{one['difference']:+.3f}R",
        )
        for name, (ends, one) in rows.items()
    ]  # fmt: skip
    return marks, scale.percent(0.0)


def calibration_chart(result: Mapping[str, Any]) -> list[IntervalMark]:
    """Returns expected and actual R of each group: the interval is two errors of the actual mean, the value the expectation."""
    rows = [(one, 2.0 * (one["error"] or 0.0)) for one in result["calibration"]]
    ends = [one["actual"] + way * error for one, error in rows for way in (-1, 1)]
    scale = LinearScale.around([*ends, *(one["expected"] for one, _ in rows)])
    return [
        IntervalMark(
            f"n {one['n']:,}", scale.percent(one["actual"] - error), scale.percent(one["actual"] + error),
            scale.percent(one["expected"]), f"expected {one['expected']:+.2f}, actual {one['actual']:+.2f}",
        )
        for one, error in rows
    ]  # fmt: skip


def equity_rows(result: Mapping[str, Any]) -> Sequence[report_text.Row]:
    """Returns the equity at the end of the chart with its band."""
    rows = []
    for name, curve in result["curves"]["equity"].items():
        band = f"{curve['low'][-1]:,.0f} to {curve['high'][-1]:,.0f}"
        rows.append((approach_title(name), f"{curve['line'][-1]:,.0f}", band, f"{len(curve['line'])} weeks"))
    return rows


def rolling_rows(result: Mapping[str, Any]) -> Sequence[report_text.Row]:
    """Returns the range of the 30-day Sharpe ratio."""
    rows = []
    for name, points in result["curves"]["rolling"].items():
        values = sorted(value for _, value in points)
        texts = (f"{values[0]:.2f}", f"{values[len(values) // 2]:.2f}", f"{values[-1]:.2f}") if values else ("–", "–", "–")
        rows.append((approach_title(name), *texts, f"{len(values)} weeks with trades"))
    return rows


def _with_start(values: Sequence[float], start: float) -> list[Point]:
    return [(0.0, start), *((number, value) for number, value in enumerate(values, 1))]


def _ends(names: Sequence[str]) -> tuple[str, str]:
    return (names[0], names[-1]) if names else ("", "")
