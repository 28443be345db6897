"""The report of a simulation: the figures of the track record, curves, months and costs, on a page that needs nothing else."""

from __future__ import annotations

import csv
import io
import re
from datetime import datetime, timedelta
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from random import Random

import pytest
from typer.testing import CliRunner

import memtape
from memtape.core.observed import Decision
from memtape.sim.bars import bars_hash, read_bars
from memtape.sim.paper import Order
from memtape.sim.report import report_of, trades_csv
from memtape.sim.report_markdown import render_markdown, sparkline
from memtape.sim.run import SimResult, run_simulation
from memtape.sim.strategies import Breakout, OrderProposal
from memtape.surfaces.cli.main import app
from memtape.surfaces.web.sim_report import render_page
from tests import chromium

OPTIONS = ["--leverage", "5", "--funding", "0.0001", "--limit", "risk per trade=1 % of equity"]


@pytest.fixture(scope="module")
def bars(tmp_path_factory) -> Path:
    """A random walk over three months, four hours a bar."""
    chance, price = Random(5), 100.0
    rows = ["time,open,high,low,close,volume"]
    for n in range(400):
        close = max(5.0, price * (1 + chance.gauss(0, 0.01)))
        opened = datetime(2025, 1, 6) + timedelta(hours=4 * n)
        rows.append(f"{opened:%Y-%m-%dT%H:%M:%SZ},{price:.2f},{max(price, close) + 0.2:.2f},{min(price, close) - 0.2:.2f},{close:.2f},10")
        price = float(f"{close:.2f}")
    file = tmp_path_factory.mktemp("bars") / "walk_h4.csv"
    file.write_text("\n".join(rows) + "\n")
    return file


def simulated(bars: Path, store: Path, report: Path) -> None:
    done = CliRunner().invoke(app, ["sim", "--bars", str(bars), "--agent", "walk", "--db", str(store), "--report", str(report), *OPTIONS])
    assert done.exit_code == 0, done.output


@pytest.fixture(scope="module")
def folder(bars: Path, tmp_path_factory) -> Path:
    where = tmp_path_factory.mktemp("first") / "out"
    simulated(bars, where.parent / "a.db", where)
    return where


@pytest.fixture(scope="module")
def result(bars: Path) -> SimResult:
    with memtape.open(":memory:") as memory:
        memory.create_skill("breakout")
        memory.create_agent("walk", skill="breakout", mode="sim")
        return run_simulation(memory.agent("walk"), read_bars(bars), Breakout(), fee_bps="7.5", slippage_bps=3)


def test_two_runs_write_the_same_bytes_and_so_does_a_run_repeated_on_the_same_store(bars, folder, tmp_path) -> None:
    other = tmp_path / "elsewhere" / "out"
    other.parent.mkdir()
    simulated(bars, other.parent / "b.db", other)
    again = tmp_path / "again"
    with memtape.open(str(folder.parent / "a.db")) as memory:
        before = memory.agent("walk").head()
    simulated(bars, folder.parent / "a.db", again)
    with memtape.open(str(folder.parent / "a.db")) as memory:
        assert memory.agent("walk").head() == before, "a finished simulation is only read again"
    for name in ("report.html", "report.md", "trades.csv"):
        first = (folder / name).read_bytes()
        assert first and first == (other / name).read_bytes() == (again / name).read_bytes(), name
        assert str(folder.parent).encode() not in first and b"/tmp" not in first


def test_a_file_name_chooses_the_form_and_the_trades_are_written_beside_it(bars, tmp_path) -> None:
    for name, start in (("out.html", "<!doctype html>"), ("out.md", "# Simulation: walk")):
        simulated(bars, tmp_path / "a.db", tmp_path / name)
        assert (tmp_path / name).read_text().startswith(start)
    assert (tmp_path / "out.trades.csv").read_text().startswith("id,symbol,side,entry_at")
    bad = CliRunner().invoke(app, ["sim", "--bars", str(bars), "--agent", "walk", "--db", str(tmp_path / "a.db"),
                                   "--report", str(tmp_path / "no" / "such" / "out.html"), *OPTIONS])  # fmt: skip
    assert bad.exit_code == 2 and "cannot be written" in bad.output


def test_both_forms_state_every_figure_with_its_n_the_costs_the_months_the_data_and_the_settings(bars, folder) -> None:
    page, text = _words_of(folder / "report.html"), (folder / "report.md").read_text()
    for name in ("Return", "Growth a year (CAGR)", "Volatility, annualised", "Sharpe ratio, daily, annualised", "Calmar ratio",
                 "Sortino ratio, daily, annualised", "Largest drawdown", "Longest time under water", "Win rate", "Profit factor",
                 "Payoff ratio", "Exposure", "Expectancy", "Fees", "Slippage", "Funding received less paid", "Buying and holding",
                 "Liquidations"):  # fmt: skip
        row = re.search(rf"^\| {re.escape(name)} \| ([^|]+) \| ([^|]+) \|$", text, re.MULTILINE)
        assert row, name
        assert f"{name} {row[1].strip()} {row[2].strip()}" in page, name
    for month in ("2025-01", "2025-02", "2025-03"):
        assert f"| {month} |" in text
    assert bars_hash(read_bars(bars)) in text and bars_hash(read_bars(bars)) in page
    for said in ("initial 0.2, maintenance 0.1", "0.0001 every 8 hours", "1 % of equity", "5 basis points a fill"):
        assert said in text and said in page


def test_the_page_asks_for_nothing_outside_itself_and_runs_no_script(folder) -> None:
    page = (folder / "report.html").read_text()
    assert "<script" not in page and "http:" not in page and "https:" not in page and "@import" not in page and "url(" not in page
    assert re.findall(r'(?:src|href)="([^"]*)"', page) == ["data:,"]
    assert "prefers-color-scheme: dark" in page


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_fits_the_screen_in_both_themes(folder, theme, width) -> None:
    if chromium.find() is None:
        pytest.skip("there is no chromium")
    with chromium.browser() as browser:
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=theme)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.goto((folder / "report.html").as_uri())
        assert asked == [(folder / "report.html").as_uri()] and complaints == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == ("rgb(244, 246, 248)" if theme == "light" else "rgb(14, 19, 24)")
        drawn = page.evaluate("[...document.querySelectorAll('svg polyline')].map(line => line.getBoundingClientRect().height > 20)")
        assert drawn == [True, True]


def test_the_figures_are_those_of_the_track_record_of_the_agent(bars) -> None:
    with memtape.open(":memory:") as memory:
        memory.create_skill("breakout")
        memory.create_agent("walk", skill="breakout", mode="sim")
        agent = memory.agent("walk")
        made = run_simulation(agent, read_bars(bars), Breakout())
        own = agent.ledger.track_record()
    for name in ("sharpe", "sortino", "volatility", "calmar", "total_return", "max_drawdown", "expectancy_usd", "payoff_ratio",
                 "streaks", "r_distribution", "by_symbol", "by_side", "months", "exposure"):  # fmt: skip
        assert getattr(made.record, name) == getattr(own, name), name


def test_costs_explain_the_difference_between_prices_and_money(bars, result) -> None:
    free = run_simulation(_Deaf(), read_bars(bars), _Same(result), fee_bps=0, slippage_bps=0)
    assert result.costs.slippage is not None and result.costs.slippage > 0 and result.costs.fees > 0
    change = result.ending_equity - result.starting_equity
    before = change + result.costs.fees + result.costs.slippage
    assert before == pytest.approx(free.ending_equity - free.starting_equity, abs=Decimal("0.0001"))


def test_the_trades_beside_the_report_add_up_to_its_figures(result) -> None:
    rows = list(csv.DictReader(io.StringIO(trades_csv(result.closed))))
    assert len(rows) == result.trades > 8
    assert sum(Decimal(row["net_pnl_usd"]) for row in rows) == pytest.approx(result.net_pnl, abs=Decimal("0.000001"))
    for row in rows:
        net = Decimal(row["realized_pnl_usd"]) - Decimal(row["fees_usd"]) + Decimal(row["funding_usd"])
        assert net == pytest.approx(Decimal(row["net_pnl_usd"]), abs=Decimal("0.0000001"))


def test_the_reason_of_a_trade_is_text_and_neither_markup_nor_a_formula(bars) -> None:
    def sly(history, position, equity):
        if position.qty or len(history) % 50:
            return []
        stop = history[-1].c * Decimal("0.9")
        decision = Decision(symbol="WALK", action="buy", reason="=cmd() <script>alert(1)</script> | x", stop=stop)
        return [OrderProposal(decision, (Order(symbol="WALK", side="buy", qty=Decimal(1), stop=stop, target=history[-1].c * 2),))]

    with memtape.open(":memory:") as memory:
        memory.create_skill("sly")
        memory.create_agent("sly", skill="sly", mode="sim")
        report = report_of(run_simulation(memory.agent("sly"), read_bars(bars), sly))
    assert report.closed
    assert "<script>" not in render_page(report) and "&lt;script&gt;" in render_page(report)
    assert "<script>" not in render_markdown(report)
    assert "'=cmd()" in trades_csv(report.closed)


def test_a_run_without_trades_has_a_page_too(bars) -> None:
    with memtape.open(":memory:") as memory:
        memory.create_skill("calm")
        memory.create_agent("calm", skill="calm", mode="sim")
        report = report_of(run_simulation(memory.agent("calm"), read_bars(bars)[:1], lambda *_: []))
    assert "No trade was closed." in render_page(report) and "No trade was closed." in render_markdown(report)
    assert trades_csv(report.closed).count("\n") == 1


def test_the_hash_of_bars_depends_on_every_price_and_not_on_their_order(bars) -> None:
    known = read_bars(bars)
    other = [*known[:-1], known[-1].__class__(**{f: getattr(known[-1], f) for f in ("symbol", "t0", "t1", "o", "h", "l", "c")}, v=Decimal(11))]
    assert bars_hash(known) == bars_hash(known[::-1]) != bars_hash(other)


def test_a_line_of_blocks_shows_the_last_value_of_every_stretch() -> None:
    assert sparkline([0.0] * 10, width=5) == "▁" * 5
    assert sparkline([0.0, -0.5, -1.0], high=0.0) in ("█▅▁", "█▄▁")


class _Deaf:
    """An observer that keeps nothing."""

    def observe(self, tick, /) -> None:
        """Takes it."""


class _Same:
    """Places the orders of an earlier run again, whatever the costs."""

    def __init__(self, earlier: SimResult) -> None:
        self._strategy = Breakout()
        self._equity = dict(earlier.equity)

    def __call__(self, history, position, equity):
        return self._strategy(history, position, self._equity[history[-1].t1])


class _Words(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []

    def handle_data(self, data: str) -> None:
        self.words += data.split()


def _words_of(file: Path) -> str:
    parser = _Words()
    parser.feed(file.read_text())
    return " ".join(parser.words)


def test_skipped_rows_are_counted_in_the_answer_and_in_the_report_and_strict_refuses_them(bars, tmp_path) -> None:
    lines = bars.read_text().splitlines()
    holes = tmp_path / "walk_h4.csv"
    holes.write_text("\n".join([*lines[:50], "2025-01-14T04:00:00Z,,,,,", *lines[51:]]) + "\n")
    command = ["sim", "--bars", str(holes), "--agent", "walk", "--db", str(tmp_path / "a.db"), "--report", str(tmp_path / "out.md")]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0 and "skipped_bars: 1" in done.output
    assert "| Skipped | 1 row with an empty field |" in (tmp_path / "out.md").read_text()
    strict = CliRunner().invoke(app, [*command, "--strict"])
    assert strict.exit_code == 2 and "walk_h4.csv line 51, open: is empty" in strict.output
