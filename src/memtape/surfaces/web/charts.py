"""What each drawing of the pages shows, as numbers and text for the SVG of the templates.

The geometry is in `svg`. The two charts that lightweight-charts draws in the browser, equity and prices, get their data from
`equity_points` and from `price_chart`; without scripts the page shows the drawing made here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from memtape.core.brief.sections import FROM_MEMORY
from memtape.core.codec import EPOCH, read_time, time_text
from memtape.surfaces.web.svg import BOX_HEIGHT, BOX_WIDTH, LinearScale, Point, area, polyline, stack, steps, strokes, thin_points

if TYPE_CHECKING:
    from memtape.core.decisions.results import TotalPoint
    from memtape.surfaces.operations.beliefs import BeliefRow
    from memtape.surfaces.operations.briefs import PreviewAnswer, SegmentRow
    from memtape.surfaces.operations.ledger import EquityAnswer
    from memtape.surfaces.operations.state import StateStep
    from memtape.surfaces.web.trades import TradeFields

TIMELINE_POINTS = 900
DENSITY_STEPS = 240
DENSITY_HEADROOM = 1.06
LONGEST_STROKE_R = 3.0  # a close beyond it is drawn as long as this
HISTOGRAM_HEIGHT = 60.0  # pixels


def seconds(moment: datetime) -> int:
    """A moment as charts count time: whole seconds since 1970."""
    return (moment - EPOCH) // timedelta(seconds=1)


# ---- equity --------------------------------------------------------------------------------------------------------------


def equity_points(equity: EquityAnswer) -> list[tuple[int, float]]:
    """The equity curve as a chart takes it: at most one point a second, the last one of each."""
    return list({seconds(read_time(point.t)): float(point.nav) for point in equity.points}.items())


def equity_line(equity: EquityAnswer, width: int, height: int) -> str:
    """The equity curve as a line of an SVG of this size; empty where there are no two points."""
    points: Sequence[Point] = equity_points(equity)
    if equity.source != "marks":
        points = steps(points)
    if len(points) < 2:
        return ""
    shown = thin_points(points, width)
    values = [value for _, value in shown]
    # One pixel of room above and below, so that the stroke is not cut.
    return polyline(shown, LinearScale(shown[0][0], shown[-1][0], 0, width), LinearScale(min(values), max(values), height - 1, 1))


# ---- one trade -----------------------------------------------------------------------------------------------------------


class AxisMark(NamedTuple):
    """A place on the axis of a trade: its name, where it lies (in %), and the amount there."""

    name: str
    x: float
    usd: str
    r: str | None

    @property
    def anchor(self) -> str:
        """The side to which its label extends, so that it stays inside the drawing."""
        return "start" if self.x < 12 else "end" if self.x > 88 else "middle"


def excursion_axis(trade: TradeFields) -> dict[str, AxisMark] | None:
    """MAE, entry, MFE and exit of a trade on one axis, gross PnL to the right; None where they are not known.

    >>> from types import SimpleNamespace
    >>> axis = excursion_axis(SimpleNamespace(mae_usd="-50", mfe_usd="150", mae_r="-0.5", mfe_r="1.5", status="closed",
    ...                                       quality="fills", realized_pnl_usd="100", initial_risk_usd="100"))
    >>> [(mark.name, round(mark.x)) for mark in axis.values()]
    [('−1 R', 4), ('MAE', 22), ('entry', 41), ('MFE', 96), ('exit', 78)]
    """
    if trade.mae_usd is None or trade.mfe_usd is None or trade.quality == "unpriced":
        return None
    risk = float(trade.initial_risk_usd or 0)
    amounts: dict[str, tuple[str, str, str | None]] = {}
    if risk:
        amounts["stop"] = ("−1 R", f"-{trade.initial_risk_usd}", "-1")
    amounts |= {
        "mae": ("MAE", trade.mae_usd, trade.mae_r),
        "entry": ("entry", "0", None),
        "mfe": ("MFE", trade.mfe_usd, trade.mfe_r),
    }
    if trade.status == "closed" and trade.realized_pnl_usd is not None:
        gross = trade.realized_pnl_usd
        amounts["exit"] = ("exit", gross, f"{float(gross) / risk:.8f}" if risk else None)
    values = {key: float(usd) for key, (_, usd, _) in amounts.items()}
    low, high = min(values.values()), max(values.values())
    if low == high:
        return None
    scale = LinearScale(low, high, 4, 96)
    return {key: AxisMark(name, scale.percent(values[key]), usd, in_r) for key, (name, usd, in_r) in amounts.items()}


# ---- beliefs -------------------------------------------------------------------------------------------------------------


class Density(NamedTuple):
    """The density of a rate, 0 to 1 across: its line, the area within the interval, and the line of the prior."""

    line: str
    inside: str
    prior: str


def belief_density(belief: BeliefRow) -> Density:
    """What is known of how often a belief holds, beside what was assumed before the first trade.

    >>> from types import SimpleNamespace as Row
    >>> drawn = belief_density(Row(alpha=8.0, beta=4.0, prior=Row(alpha=1.0, beta=1.0), interval_90=[0.436, 0.865]))
    >>> drawn.line.split()[0], drawn.inside.split()[0], len(drawn.line.split())
    ('1,100', '436,100', 241)
    """
    now = beta_density(belief.alpha, belief.beta)
    before = beta_density(belief.prior.alpha, belief.prior.beta)
    # The ends are left out: a density may be infinite there.
    grid = [0.001 + 0.998 * n / DENSITY_STEPS for n in range(DENSITY_STEPS + 1)]
    top = max(now(rate) for rate in grid) * DENSITY_HEADROOM
    x, y = LinearScale(0, 1, 0, BOX_WIDTH), LinearScale(0, top, BOX_HEIGHT, 0)

    def points(rates: Iterable[float], density: Callable[[float], float]) -> list[Point]:
        return [(rate, min(density(rate), top)) for rate in rates]

    low, high = (bound or 0.0 for bound in belief.interval_90)
    inside = points([low, *(rate for rate in grid if low < rate < high), high], now)
    return Density(polyline(points(grid, now), x, y), area(inside, x, y, 0.0), polyline(points(grid, before), x, y))


def beta_density(alpha: float, beta: float) -> Callable[[float], float]:
    """The density of Beta(alpha, beta).

    >>> round(beta_density(2.0, 2.0)(0.5), 6)
    1.5
    """
    scale = math.lgamma(alpha + beta) - math.lgamma(alpha) - math.lgamma(beta)
    return lambda x: math.exp(scale + (alpha - 1) * math.log(x) + (beta - 1) * math.log1p(-x)) if 0 < x < 1 else 0.0


# ---- recall --------------------------------------------------------------------------------------------------------------


class OutcomeBar(NamedTuple):
    """A range of outcomes: its name, how many effective trades it has, and its bar."""

    name: str
    n: float
    x: float
    width: float
    height: float
    tone: str


_OUTCOME_NAMES: Mapping[str, str] = {
    "<=-2R": "≤ −2", "-2R..-1R": "to −1", "-1R..0": "to 0", "0": "0", "0..1R": "to 1", "1R..2R": "to 2", ">2R": "> 2",
}  # fmt: skip


def outcome_histogram(distribution: Mapping[str, float], height: float = HISTOGRAM_HEIGHT) -> list[OutcomeBar]:
    """How outcomes are spread, by ranges of R.

    >>> [(bar.name, bar.height, bar.tone) for bar in outcome_histogram({"-1R..0": 2.0, "0..1R": 4.0}, height=100)]
    [('to 0', 50.0, 'loss'), ('to 1', 100.0, 'gain')]
    """
    x, y = LinearScale(0, len(distribution)), LinearScale(0, max(distribution.values(), default=0.0), 0, height)
    return [
        OutcomeBar(_OUTCOME_NAMES.get(name, name), n, x.percent(place + 0.06), x.percent(0.88), y.percent(n),
                   "even" if name == "0" else "loss" if "-" in name else "gain")
        for place, (name, n) in enumerate(distribution.items())
    ]  # fmt: skip


class FactorBar(NamedTuple):
    """A factor of a score on a bar. `cost` is -ln(factor): below zero where the factor is above 1 and raises the score."""

    name: str
    factor: float
    cost: float
    x: float
    width: float

    @property
    def raises(self) -> bool:
        """True if the factor raises the score."""
        return self.cost < 0


def factor_costs(components: Mapping[str, float]) -> dict[str, float]:
    """What each factor of a score costs, as -ln(factor); empty where a factor is zero, because then the score is zero.

    A score is a product, so the costs add up to -ln(score): a factor of 1 costs nothing, a factor of ½ costs ln 2.

    >>> costs = factor_costs({"Q": 0.5, "Sim": 0.8, "Aff": 1.25})
    >>> {name: round(cost, 3) for name, cost in costs.items()}, round(sum(costs.values()), 3) == round(math.log(2), 3)
    ({'Q': 0.693, 'Sim': 0.223, 'Aff': -0.223}, True)
    >>> factor_costs({"Q": 0.5, "Sim": 0.0})
    {}
    """
    if any(factor <= 0 for factor in components.values()):
        return {}
    return {name: -math.log(factor) or 0.0 for name, factor in components.items()}


def factor_bars(scores: Sequence[Mapping[str, float]]) -> list[list[FactorBar]]:
    """The bars of several scores on one scale, where the longest fills its width. A short bar is a high score.

    >>> [[(part.name, part.x, part.width) for part in bar] for bar in factor_bars([{"Q": 0.25, "Aff": 2.0}])]
    [[('Q', 0.0, 100.0), ('Aff', 50.0, 50.0)]]
    """
    every = [factor_costs(components) for components in scores]
    full = max((sum(cost for cost in costs.values() if cost > 0) for costs in every), default=0.0) or 1.0
    bars = []
    for components, costs in zip(scores, every, strict=True):
        # What raises the score comes last and goes back over the end of the bar.
        ordered = sorted(costs.items(), key=lambda part: part[1] < 0)
        spans = stack((cost for _, cost in ordered), full)
        bars.append([FactorBar(name, components[name], cost, *span) for (name, cost), span in zip(ordered, spans, strict=True)])
    return bars


# ---- the affect state ----------------------------------------------------------------------------------------------------


class LinePanel(NamedTuple):
    """Lines over time between two levels."""

    low: float
    high: float
    lines: Mapping[str, str]

    def at(self, value: float) -> float:
        """How far below the top a value lies, in %."""
        return LinearScale(self.low, self.high, 100, 0).percent(value)


class AffectChart(NamedTuple):
    """The steps of the affect state, drawn above each other on one axis of time."""

    equity: LinePanel
    drawdown: LinePanel
    affect: LinePanel
    won: str  # an upward stroke for each close, by its R
    lost: str
    n_closes: int
    days: tuple[str, ...]


def affect_chart(history: Sequence[StateStep], limit: float) -> AffectChart | None:
    """The history of the affect state as a drawing; None where there are no two moments to draw a line between."""
    times = [seconds(read_time(step.at or "")) for step in history]
    if not times or times[0] == times[-1]:
        return None
    x = LinearScale(times[0], times[-1], 0, BOX_WIDTH)

    def line(name: str, at_foot: float, at_top: float) -> str:
        values = dict(zip(times, (getattr(step, name) or 0.0 for step in history), strict=True))
        points = thin_points(steps(list(values.items())), TIMELINE_POINTS)
        return polyline(points, x, LinearScale(at_foot, at_top, BOX_HEIGHT, 0))

    navs = [step.equity or 0.0 for step in history]
    deepest = max(*(step.drawdown_pct or 0.0 for step in history), limit)
    known = ((t, step.pnl_r) for t, step in zip(times, history, strict=True) if step.what == "close")
    closes = [(t, max(-LONGEST_STROKE_R, min(LONGEST_STROKE_R, r))) for t, r in known if r is not None]
    y = LinearScale(-LONGEST_STROKE_R, LONGEST_STROKE_R, BOX_HEIGHT, 0)
    return AffectChart(
        equity=LinePanel(min(navs), max(navs), {"equity": line("equity", min(navs), max(navs))}),
        drawdown=LinePanel(-deepest, 0.0, {"drawdown": line("drawdown_pct", deepest, 0.0)}),
        affect=LinePanel(0.0, 1.0, {"confidence": line("confidence", 0.0, 1.0), "appetite": line("risk_appetite", 0.0, 1.0)}),
        won=strokes([close for close in closes if close[1] > 0], x, y, 0.0),
        lost=strokes([close for close in closes if close[1] < 0], x, y, 0.0),
        n_closes=len(closes), days=_days(times[0], times[-1]),
    )  # fmt: skip


def _days(first: int, last: int) -> tuple[str, ...]:
    """The days at both ends of an axis of time and in its middle."""
    return tuple(time_text(EPOCH + timedelta(seconds=t))[:10] for t in (first, first + (last - first) // 2, last))


# ---- briefs --------------------------------------------------------------------------------------------------------------


class TokenShare(NamedTuple):
    """A part of a brief, its tokens, and its place on the bar of the whole. The lines between the parts have no name."""

    name: str
    role: str
    tokens: int
    left_out: int
    memory: bool
    x: float
    width: float


class TokenBar(NamedTuple):
    """The tokens of a brief: its parts one after the other, and where on their bar the warning begins."""

    parts: Sequence[TokenShare]
    total: int
    threshold: int
    mark: float
    past: bool
    warnings: Sequence[str]


def brief_token_bar(brief: PreviewAnswer) -> TokenBar:
    """The parts of a brief on one bar, with its warnings except the one of its length, which the bar shows."""
    length = f"{brief.tokens:,} tokens, more than"
    return token_bar(brief.segments, brief.tokens, brief.threshold, [w for w in brief.warnings if not w.startswith(length)])


def token_bar(segments: Iterable[SegmentRow], total: int, threshold: int, warnings: Sequence[str]) -> TokenBar:
    """Parts on one bar that is as long as the whole or as the threshold, whichever is more.

    >>> from types import SimpleNamespace as Part
    >>> found = token_bar([Part(name="header", role="system", tokens=500, left_out=0),
    ...                    Part(name="memory", role="user", tokens=1400, left_out=2)], 2000, 1500, [])
    >>> [(part.name, part.x, part.width) for part in found.parts], found.mark, found.past
    ([('header', 0.0, 25.0), ('memory', 25.0, 70.0), ('', 95.0, 5.0)], 75.0, True)
    """
    rows = [(s.name, s.role, s.tokens, s.left_out, s.name in FROM_MEMORY) for s in segments if s.tokens]
    between = total - sum(tokens for _, _, tokens, _, _ in rows)
    if between > 0:
        rows.append(("", "", between, 0, False))
    full = max(sum(tokens for _, _, tokens, _, _ in rows), threshold, 1)
    parts = [TokenShare(*row, *span) for row, span in zip(rows, stack((row[2] for row in rows), full), strict=True)]
    return TokenBar(parts, total, threshold, LinearScale(0, full).percent(threshold), total > threshold, warnings)


# ---- results of decisions ------------------------------------------------------------------------------------------------


class TotalChart(NamedTuple):
    """The running total of R over decisions, drawn from zero: its line, its levels, and the days of its ends."""

    panel: LinePanel
    days: tuple[str, str]
    n: int


def total_r_chart(points: Sequence[TotalPoint]) -> TotalChart | None:
    """The running total as a drawing, one step per decision; None where there is no decision to draw.

    >>> from types import SimpleNamespace as Row
    >>> days = ("2026-03-02T10:00:00Z", "2026-03-04T10:00:00Z")
    >>> chart = total_r_chart([Row(at=at, total_r=total) for at, total in zip(days, ("2", "-2"))])
    >>> chart.panel.lines["total"], chart.panel.at(0.0), chart.n, chart.days
    ('0,50 500,0 1000,100', 50.0, 2, ('2026-03-02', '2026-03-04'))
    """
    if not points:
        return None
    totals = [0.0, *(float(point.total_r) for point in points)]
    low, high = min(totals), max(totals)
    line = polyline(
        thin_points(list(enumerate(totals)), TIMELINE_POINTS),
        LinearScale(0, len(points), 0, BOX_WIDTH), LinearScale(low, high, BOX_HEIGHT, 0),
    )  # fmt: skip
    days = (str(points[0].at)[:10], str(points[-1].at)[:10])
    return TotalChart(LinePanel(low, high, {"total": line}), days, len(points))
