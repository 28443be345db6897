"""A simulation report as one HTML file: inline style and SVG, no script, and nothing that a browser would have to fetch."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from memtape.core.ledger.performance_detail import PerformanceDetail
from memtape.sim.report import (
    CAVEAT,
    SimReport,
    amount_text,
    price_text,
    ratio_text,
    share_text,
    when_text,
)
from memtape.surfaces.web.charts import seconds
from memtape.surfaces.web.display import gain_or_loss, show_value
from memtape.surfaces.web.svg import BOX_WIDTH, LinearScale, area, polyline, thin_points

CHART_POINTS = 1000
EQUITY_HEIGHT, UNDERWATER_HEIGHT = 260, 110
MONTH_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class TimeChart(NamedTuple):
    """A line over time, the area to its ground level, and the values at its top and bottom."""

    line: str
    area: str
    height: int
    top: str
    bottom: str
    ground: float | None  # how far below the top the ground level lies, in units of the height; None: at an edge


def render_page(report: SimReport) -> str:
    """Returns a report as one HTML page. The same report gives the same bytes."""
    pages = Environment(
        loader=PackageLoader("memtape.surfaces.web"), autoescape=True, undefined=StrictUndefined, finalize=show_value,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    pages.filters |= {
        "money": amount_text, "figure": ratio_text, "share": share_text, "px": price_text, "minute": when_text,
        "tone": gain_or_loss,
    }  # fmt: skip
    first, last = report.equity[0][0], report.equity[-1][0]
    return pages.get_template("sim_report.html").render(
        report=report, record=report.record, caveat=CAVEAT, month_names=MONTH_NAMES, box_width=BOX_WIDTH,
        equity=equity_chart(report), underwater=underwater_chart(report), groups=_groups(report.record),
        days=[f"{day:%Y-%m-%d}" for day in (first, first + (last - first) / 2, last)],
    ) + "\n"  # fmt: skip


def equity_chart(report: SimReport) -> TimeChart:
    """Returns the equity curve; its ground is the starting equity."""
    points = [(at, float(equity)) for at, equity in report.equity]
    low, high = min(value for _, value in points), max(value for _, value in points)
    start = points[0][1]
    drawn = _draw(points, low, high, start, EQUITY_HEIGHT)
    level = LinearScale(low, high, EQUITY_HEIGHT - 2, 2).at(start)
    return drawn._replace(top=f"{high:,.2f}", bottom=f"{low:,.2f}", ground=round(level, 2))


def underwater_chart(report: SimReport) -> TimeChart:
    """Returns how far equity lay below its highest value so far."""
    deepest = min(fall for _, fall in report.underwater)
    drawn = _draw(report.underwater, deepest, 0.0, 0.0, UNDERWATER_HEIGHT)
    return drawn._replace(top="0 %", bottom=share_text(deepest, 2))


def _draw(points: Sequence[tuple[datetime, float]], low: float, high: float, ground: float, height: int) -> TimeChart:
    shown = thin_points([(seconds(at), value) for at, value in points], CHART_POINTS)
    x = LinearScale(shown[0][0], shown[-1][0], 0, BOX_WIDTH)
    # Two units of room above and below, so that the stroke is not cut.
    y = LinearScale(low, high, height - 2, 2)
    return TimeChart(polyline(shown, x, y), area(shown, x, y, ground), height, "", "", None)


def _groups(record: PerformanceDetail) -> list[tuple[str, object]]:
    tables = (
        ("By symbol", record.by_symbol), ("By side", record.by_side), ("By weekday of entry", record.by_weekday),
        ("By hour of entry, UTC", record.by_hour),
    )  # fmt: skip
    return [(title, rows) for title, rows in tables if rows]
