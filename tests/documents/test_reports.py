"""Backtest reports of any engine: their metrics, backtests like one of them, and conditions."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

import memtape
from memtape.documents.report_exports import read_export
from memtape.documents.reports import Report, compare_reports, parse_report
from memtape.documents.text_files import read_document
from memtape.errors import Invalid, Unknown
from memtape.surfaces.registry import execute

SAMPLES = Path(__file__).parents[1] / "fixtures" / "reports"
BLOCK = {"strategy": "breakout", "symbols": ["BTC"], "period": ["2024-01-01", "2024-12-31"], "parameters": {"n": 20},
         "metrics": {"win_rate": 0.5, "sharpe": 1.2, "max_drawdown": 0.2}}  # fmt: skip


def changed(**more: object) -> Report:
    report = parse_report("a.json", json.dumps({**BLOCK, **more}))
    assert report is not None
    return report


@pytest.mark.parametrize("respect", ["strategy", "symbols", "period", "parameters", "metrics"])
def test_each_respect_counts_and_the_answer_says_in_which_two_backtests_are_alike(respect):
    other: dict[str, object] = {"strategy": "fade", "symbols": ["ETH"], "period": ["2019-01-01", "2019-12-31"], "parameters": {"n": 90},
             "metrics": {"win_rate": 0.9, "sharpe": -1.0, "max_drawdown": 0.6}}  # fmt: skip
    base, same = changed(), compare_reports(changed(), changed())
    assert same.likeness == 1.0 and set(same.respects.values()) == {1.0}
    unlike = compare_reports(base, changed(**{respect: other[respect]}))
    assert unlike.likeness < 0.95 and unlike.respects[respect] < 0.3
    assert all(value == 1.0 for name, value in unlike.respects.items() if name != respect)


def test_a_report_that_states_little_is_not_more_alike_than_one_that_agrees_in_most():
    bare = parse_report("b.json", json.dumps({"strategy": "breakout", "metrics": {"win_rate": 0.5}}))
    assert bare is not None
    near = changed(parameters={"n": 25})
    assert compare_reports(changed(), near).likeness > compare_reports(changed(), bare).likeness


@pytest.fixture
def desk(tmp_path):
    """A workspace with reports in three forms, and its memory."""
    reports = tmp_path / "desk" / "reports"
    reports.mkdir(parents=True)
    (reports / "a.md").write_text("# Breakout on BTC\n\nLooked good.\n")
    (reports / "a.metrics.json").write_text(json.dumps(BLOCK))
    (reports / "b.md").write_text(
        "---\nstrategy: breakout\nsymbols: [BTC]\nparameters:\n  n: 25\nmetrics:\n  win_rate: 51 %\n  sharpe: 1.1\n---\n# B\n\nFine.\n"
    )
    (reports / "c.json").write_text(json.dumps({**BLOCK, "strategy": "fade", "symbols": ["ETH"]}))
    with memtape.open(str(tmp_path / "desk.db")) as memory:
        memory.agent_for_writing("main").documents.add(tmp_path / "desk")
        yield memory


def found(memory, **asked):
    return [row["path"] for row in execute(memory, "find_similar_reports", asked)["reports"]]


def test_a_rate_in_percent_is_a_share_and_a_condition_that_takes_percent_for_a_share_is_refused(desk):
    block = '{"strategy": "fade", "metrics": {"win_rate": 41, "max_drawdown": -18.5, "total_return": 4.6}}'
    report = parse_report("reports/x.metrics.json", block)
    assert report is not None and report.metrics == {"win_rate": 0.41, "max_drawdown": 0.185, "total_return": 4.6}
    with pytest.raises(Invalid, match="win_rate is a share from 0 to 1, and 50 is none"):
        found(desk, where=["win_rate > 50"])


def test_conditions_are_exact_and_name_metrics_parameters_symbols_and_strategies(desk):
    assert found(desk, where=["win_rate > 0.5"]) == ["reports/b.md"]
    assert found(desk, where=["win_rate >= 50%"]) == ["reports/a.md", "reports/b.md", "reports/c.json"]
    assert found(desk, where=["win_rate = 0.5", "symbol = ETH"]) == ["reports/c.json"]
    assert found(desk, where=["strategy = breakout", "n > 20"]) == ["reports/b.md"]
    for wrong in ("win_rate", "win_rate > much"):
        with pytest.raises(Invalid):
            found(desk, where=[wrong])
    with pytest.raises(Unknown, match="sharpe"):
        found(desk, where=["shrape > 1"])


def test_a_block_beside_a_page_speaks_for_the_page_and_is_no_passage(desk):
    rows = execute(desk, "find_similar_reports", {"path": "reports/a.md"})["reports"]
    assert [row["path"] for row in rows] == ["reports/b.md", "reports/c.json"]
    assert (
        rows[0]["alike_in"]["strategy"] == 1.0
        and rows[0]["alike_in"]["parameters"] == 0.8
        and "period" not in rows[0]["alike_in"]
    )
    hits = execute(desk, "search_documents", {"query": "breakout BTC"})["results"]
    assert "reports/a.metrics.json" not in {hit["path"] for hit in hits}


def test_a_page_that_mentions_metrics_is_no_report():
    assert parse_report("reports/x.md", "# Idea\n\nWin rate 60 %, sharpe ratio 2, max drawdown 10 % would be fine.\n") is None
    assert parse_report("reports/x.md", "---\ntitle: x\ntags: [a]\n---\n# X\n") is None
    assert parse_report("reports/x.json", '{"a": [1, 2]}') is None


def test_a_page_of_statistics_is_recognised_by_what_its_cells_show():
    rows = {"# Trades": 153, "Buy &amp; Hold Return [%]": 55.2, "Win Rate [%]": 26.8, "Return [%]": -4.4}
    page = "".join(f"<tr><th>{name}</th><td>{value}</td></tr>" for name, value in rows.items())
    export = read_export("stats.html", f"<table>{page}</table>")
    assert export.engine == "backtesting.py" and export.metrics["buy_and_hold"] == pytest.approx(0.552)


def test_an_argument_that_a_printed_series_cut_is_not_read():
    stats = "# Trades   153\nBuy & Hold Return [%]   55.2\nWin Rate [%]   26.8\nReturn [%]   -4.4\n_strategy   {}\n"
    for strategy, parameters in (
        ("SmaCross(n1=10...", {}), ("SmaCross(n1=10,n2=3...", {"n1": 10}), ("SmaCross(n1=10,n2=30)", {"n1": 10, "n2": 30}), ("SmaCross", {}),
    ):  # fmt: skip
        export = read_export("stats.txt", stats.format(strategy))
        assert (export.strategy, export.parameters) == ("SmaCross", parameters)


def test_the_title_above_a_printed_table_does_not_hide_its_first_row():
    table = "                Strategy\nStart Period  2023-01-02\nEnd Period    2023-06-16\nSharpe              1.82\nPayoff Ratio         1.1\nCAGR                0.96\nMax Drawdown       -0.19\n"
    export = read_export("metrics.txt", table)
    assert export.engine == "QuantStats" and export.period == ("2023-01-02", "2023-06-16")


# What each sample states. Those of backtesting.py, vectorbt and QuantStats were written by these packages on a random walk (the page of
# QuantStats is shortened); the archive of freqtrade by freqtrade from a list of made-up trades, its JSON by hand.
STATED = {
    "backtesting_stats.txt": ("backtesting.py", "SmaCross", {"n1": 8}, 0.4444444, 0.1766718, "2021-05-14"),
    "backtesting_stats.csv": ("backtesting.py", "SmaCross", {"n1": 8, "n2": 30}, 0.4444444, 0.1766718, "2021-05-14"),
    "backtesting_stats.json": ("backtesting.py", "SmaCross", {"n1": 8, "n2": 30}, 0.4444444, 0.1766718, "2021-05-14"),
    "quantstats_metrics.txt": ("QuantStats", "", {}, None, 0.2022, "2021-05-14"),
    "quantstats_metrics.csv": ("QuantStats", "", {}, None, 0.2, "2021-05-14"),
    "quantstats_metrics.json": ("QuantStats", "", {}, None, 0.2, "2021-05-14"),
    "quantstats_tearsheet.html": ("QuantStats", "", {}, None, 0.2022, "2021-05-14"),
    "vectorbt_stats.txt": ("vectorbt", "", {}, 0.55555556, 0.08661217, "2024-08-22"),
    "run-7.csv": ("vectorbt", "", {}, 0.55555556, 0.08661217, "2024-08-22"),
    "freqtrade-backtest-result.json": ("freqtrade", "SampleStrategy", {"stoploss": -0.1}, 0.5121951, 0.0411, "2024-06-30"),
    "freqtrade-backtest-result.zip": ("freqtrade", "MomoStrategy", {"stoploss": -0.1, "timeframe": "1h"}, 0.5609756, 0.0099496564, "2024-05-29"),
}  # fmt: skip


@pytest.mark.parametrize("name", [path.name for path in sorted(SAMPLES.iterdir())])
def test_an_export_of_another_engine_is_read_as_it_is(name):
    engine, strategy, parameters, won, fall, last_day = STATED[name]
    text = read_document(SAMPLES, name)
    assert text is not None
    report = parse_report(f"reports/{name}", text)
    assert report is not None and (report.engine, report.strategy) == (engine, strategy)
    assert parameters.items() <= report.parameters.items()
    assert report.metrics.get("win_rate") == (None if won is None else pytest.approx(won, rel=1e-6))
    assert report.metrics["max_drawdown"] == pytest.approx(fall, rel=1e-6)
    assert report.period is not None and report.period[1] == last_day


def test_the_exports_of_all_engines_in_a_workspace_are_found_by_a_condition(tmp_path):
    folder = tmp_path / "desk" / "backtests"
    folder.mkdir(parents=True)
    for sample in SAMPLES.iterdir():
        (folder / sample.name).write_bytes(sample.read_bytes())
    with memtape.open(str(tmp_path / "desk.db")) as memory:
        memory.agent_for_writing("main").documents.add(tmp_path / "desk")
        assert set(found(memory, where=["max_drawdown > 0"], limit=20)) == {f"backtests/{name}" for name in STATED}
        assert found(memory, where=["engine = freqtrade"]) == [
            f"backtests/freqtrade-backtest-result.{ending}" for ending in ("json", "zip")
        ]
        like = execute(memory, "find_similar_reports", {"path": "backtests/backtesting_stats.csv"})["reports"]
        assert like[0]["path"] == "backtests/backtesting_stats.json" and like[0]["alike_in"]["metrics"] == 1.0


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_front_matter_is_read_as_people_write_it(newline):
    page = (
        "---\nstrategy: breakout\nsymbols:\n  - BTC\n  - 'ETH'\nperiod:\n  start: 2024-01-01\n  end: 2024-12-31\nparameters:\n  n: 20\n"
        "metrics:\n  win_rate: 41 %  # of 300\n  sharpe: 1.2\n---\n# My test\n"
    )
    report = parse_report("reports/my.md", page.replace("\n", newline))
    assert report is not None and (report.strategy, report.symbols, report.parameters) == ("breakout", ("BTC", "ETH"), {"n": 20})
    assert report.metrics == {"win_rate": 0.41, "sharpe": 1.2} and report.period == ("2024-01-01", "2024-12-31")


@pytest.mark.parametrize("is_archive", [False, True])
def test_every_strategy_of_a_freqtrade_result_is_found(tmp_path, is_archive):
    tested = {"total_trades": 41, "sharpe": 0.7, "winrate": 0.56, "backtest_start": "2024-01-01 00:00:00", "backtest_end": "2024-05-29 23:00:00"}
    result = json.dumps({"strategy": {"Momo": tested, "Fade": tested | {"winrate": 0.31}, "Grid": tested | {"winrate": 0.88}}, "strategy_comparison": []})
    folder = tmp_path / "desk" / "backtest_results"
    folder.mkdir(parents=True)
    if is_archive:
        with zipfile.ZipFile(folder / "result.zip", "w") as archive:
            archive.writestr("result.json", result)
    else:
        (folder / "result.json").write_text(result)
    path = "backtest_results/result." + ("zip" if is_archive else "json")
    with memtape.open(str(tmp_path / "desk.db")) as memory:
        memory.agent_for_writing("main").documents.add(tmp_path / "desk")
        assert found(memory, where=["win_rate > 0.5"]) == [f"{path}", f"{path} › Grid"]
        assert found(memory, where=["strategy = Fade"]) == [f"{path} › Fade"]
        like = execute(memory, "find_similar_reports", {"path": f"{path} › Fade"})["reports"]
        assert {each["strategy"] for each in like} == {"Momo", "Grid"}
