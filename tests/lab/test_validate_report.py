"""The report of `memtape validate`: one page that fetches nothing, its data, and a document that search finds."""

from __future__ import annotations

import json
import re
from functools import partial

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from memtape.compose import open_memory
from memtape.surfaces.cli.main import app
from memtape.surfaces.http import build_app
from memtape.surfaces.web import add_pages
from tests.lab.trade_files import trade_rows, write_trades


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A store with an agent, and two runs of the same validation."""
    folder = tmp_path_factory.mktemp("reports")
    trades, store = write_trades(folder / "trades.csv", trade_rows(80)), folder / "desk.db"
    done = CliRunner().invoke(app, ["import", str(trades), "--db", str(store), "--agent", "desk", "--commit"])
    assert done.exit_code == 0, done.output
    for name in ("first", "second"):
        command = ["validate", str(trades), "--resamples", "50", "--report", str(folder / name), "--documents-of", "desk"]
        done = CliRunner().invoke(app, [*command, "--quick", "--db", str(store)])
        assert done.exit_code == 0, done.output
    return folder


def test_two_runs_write_the_same_bytes(desk):
    for name in ("report.html", "report.json", "report.md"):
        assert (desk / "first" / name).read_bytes() == (desk / "second" / name).read_bytes()


def test_the_verdict_is_the_first_line_and_nothing_is_fetched(desk):
    page, data = (desk / "first" / "report.html").read_text(), json.loads((desk / "first" / "report.json").read_text())
    assert data["sentence"] == (desk / "first" / "report.md").read_text().splitlines()[0]
    first = re.search(r"<h1>(.*?)</h1>", page, re.DOTALL)
    assert first is not None and first[1].startswith("It cannot be told whether memory helps")
    assert not re.findall(r"(?:src|href)=\"(?!data:,)", page) and "<script" not in page and "url(" not in page
    assert "makes money" not in page and page.count("<svg") == 2 and page.count("<table") >= 12


def test_a_report_names_its_data_settings_seed_and_version(desk):
    text, data = (desk / "first" / "report.md").read_text(), json.loads((desk / "first" / "report.json").read_text())
    for value in (data["data"]["hashes"]["file"], data["settings_hash"], str(data["settings"]["seed"]), data["memtape"]):
        assert value in text


def test_search_finds_the_report_and_the_page_lists_it(desk):
    with open_memory(str(desk / "desk.db")) as memory:
        found = memory.agent("desk").documents.search("does memory help: permutation, deflated Sharpe ratio")
        assert found.hits and found.hits[0].path.startswith("reports/validate-trades-")
        site = build_app(memory, mcp=False, web=partial(add_pages, memory=memory))
        page = TestClient(site, base_url="http://127.0.0.1").get("/agents/desk/reports")
        assert page.status_code == 200 and "It cannot be told whether memory helps" in page.text
        assert page.text.count("reports/validate-trades-") == 1


def test_a_report_that_is_no_page_is_refused(tmp_path):
    trades = write_trades(tmp_path / "trades.csv", trade_rows(80))
    done = CliRunner().invoke(app, ["validate", str(trades), "--quick", "--resamples", "50", "--report", str(tmp_path / "a.pdf")])
    assert done.exit_code == 2 and "a.pdf is no HTML file" in done.output
