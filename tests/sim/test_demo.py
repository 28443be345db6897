"""The demo: three agents, real prices, simulated trades, and nothing that pretends otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from memtape.core.codec import canonical
from memtape.errors import MissingExtra
from memtape.sim import demo


class Shelf:
    """A memory that only keeps what it is given."""

    def __init__(self, words: Any) -> None:
        self.words = words
        self.skills: dict[str, str] = {}
        self.agents: dict[str, Any] = {}
        self.modes: set[str] = set()

    def create_skill(self, name: str, /, *, strategy: str, avoid: Sequence[str], limits: Mapping[str, str]) -> None:
        self.skills[name] = strategy

    def create_agent(self, name: str, /, *, skill: str, mode: str, settings: Mapping[str, object]) -> None:
        assert skill in self.skills
        self.modes.add(mode)
        self.agents.setdefault(name, self.words.Notebook(name))

    def agent(self, name: str, /) -> Any:
        return self.agents[name]


@pytest.fixture(scope="module")
def filled(words: Any) -> tuple[Shelf, list[Any], list[tuple[str, int, int]]]:
    pytest.importorskip("bokeh_sampledata")
    shelf, steps = Shelf(words), []  # type: ignore[var-annotated]
    results = demo.fill_demo(shelf, lambda agent, done, total: steps.append((agent, done, total)))
    return shelf, results, steps


def test_three_agents_trade_five_years_a_few_hundred_times(filled: Any) -> None:
    shelf, results, steps = filled
    assert list(shelf.agents) == ["tech-breakout", "tech-reversion", "ibm-breakout"]
    assert 150 <= sum(result.trades for result in results) <= 400
    assert all(result.trades > 20 and result.no_trades > 0 for result in results)
    assert 4.9 < (results[0].last - results[0].first).days / 365.25 < 5.1
    assert steps[-1] == ("ibm-breakout", results[-1].ticks, results[-1].ticks)


def test_everything_says_that_it_is_simulated(filled: Any) -> None:
    shelf, results, _ = filled
    assert shelf.modes == {"sim"}
    assert all("Simulated trades on real prices" in text for text in (*shelf.skills.values(), demo.DEMO_LABEL))
    assert all(result.as_dict()["simulated"] for result in results)


def test_a_second_filling_brings_the_very_same_ticks(filled: Any, words: Any) -> None:
    shelf, _, _ = filled
    again = Shelf(words)
    demo.fill_demo(again)
    for name, notebook in shelf.agents.items():
        assert [canonical(t) for t in again.agents[name].ticks] == [canonical(t) for t in notebook.ticks]


def test_a_split_is_no_crash() -> None:
    pytest.importorskip("bokeh_sampledata")
    closes: dict[str, list[Any]] = {}
    for bar in demo.demo_bars():
        closes.setdefault(bar.symbol, []).append(bar.c)
    assert sorted(closes) == ["AAPL", "GOOG", "IBM", "MSFT"]
    for series in closes.values():
        assert all(abs(after / before - 1) < 0.25 for before, after in pairwise(series))


def test_without_the_package_the_demo_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'memtape\[demo\]'"):
        demo.demo_bars()


def test_the_packages_older_layout_with_a_file_a_symbol_is_read_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    data = tmp_path / "_data"
    data.mkdir()
    for symbol in ("AAPL", "GOOG", "IBM", "MSFT"):
        rows = "Date,Open,High,Low,Close,Volume,Adj Close\n2010-01-05,2,4,1,3,9,1.5\n2010-01-04,2,4,1,3,9,1.5\n"
        (data / f"{symbol}.csv").write_text(rows, encoding="utf-8")
    package = ModuleSpec("bokeh_sampledata", None, is_package=True)
    package.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(demo, "find_spec", lambda name: package)
    bars = demo.demo_bars()
    assert [bar.symbol for bar in bars] == ["AAPL", "GOOG", "IBM", "MSFT"] * 2
    assert {bar.c for bar in bars} == {bars[0].c} and float(bars[0].c) == 1.5
