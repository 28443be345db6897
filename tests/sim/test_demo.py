"""The demo: three agents, real prices, simulated trades, and nothing that pretends otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, time
from decimal import Decimal as D
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest

import memtape
from memtape.core.codec import canonical
from memtape.engine import Memory
from memtape.sim import demo
from memtape.sim.demo_documents import fill_documents
from memtape.surfaces.registry import execute
from tests.web.test_answers import client_of

AGENTS = [agent.name for agent in demo.DEMO_AGENTS]


class Reflections:
    """Counts how often lessons are drawn."""

    drawn = 0

    def reflect(self) -> None:
        self.drawn += 1

    def reflections(self) -> list[Any]:
        return []


class Shelf:
    """A memory that only keeps what it is given."""

    def __init__(self, words: Any) -> None:
        self.words = words
        self.skills: dict[str, str] = {}
        self.agents: dict[str, Any] = {}
        self.modes: set[str] = set()

    def create_skill(self, name: str, /, *, strategy: str, avoid: Sequence[str], limits: Mapping[str, str], memory: Any) -> None:
        self.skills[name] = strategy

    def create_agent(self, name: str, /, *, skill: str, mode: str, settings: Mapping[str, object]) -> None:
        assert skill in self.skills
        self.modes.add(mode)
        self.agents.setdefault(name, self.words.Notebook(name)).lessons = Reflections()

    def agent(self, name: str, /) -> Any:
        return self.agents[name]


@pytest.fixture(scope="module")
def filled(words: Any) -> tuple[Shelf, list[Any], list[tuple[str, int, int]]]:
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
    closes: dict[str, list[Any]] = {}
    for bar in demo.demo_bars():
        closes.setdefault(bar.symbol, []).append(bar.c)
    assert sorted(closes) == ["AAPL", "GOOG", "IBM", "MSFT"]
    for series in closes.values():
        assert all(abs(after / before - 1) < 0.25 for before, after in pairwise(series))


# ---- in a real store ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    folder = tmp_path_factory.mktemp("demo")
    with memtape.open(str(folder / "demo.db")) as memory:
        demo.fill_demo(memory)
        fill_documents(memory, folder / "demo.workspace" / "tech-breakout")
        yield memory


def test_prices_are_those_that_were_quoted_in_those_years(store: Memory) -> None:
    quoted = {(bar.symbol, bar.t0.date()): bar for bar in demo.demo_bars()}
    assert quoted["AAPL", date(2012, 9, 19)].c == D("702.1") and quoted["IBM", date(2013, 3, 1)].c == D("202.91")
    for trade in (trade for agent in AGENTS for trade in store.agent(agent).ledger.trades()):
        for at, px in ((trade.entry_at, trade.entry_price), (trade.exit_at, trade.exit_price)):
            if at is not None and px is not None:
                bar = quoted[trade.symbol, at.date()]
                # Slippage goes against the trade, by two basis points.
                assert bar.l * D("0.9997") <= px <= bar.h * D("1.0003"), (trade.symbol, at, px)


def test_every_fill_lies_in_the_hours_of_new_york_and_shares_are_whole(store: Memory) -> None:
    for trade in (trade for agent in AGENTS for trade in store.agent(agent).ledger.trades()):
        for at in filter(None, (trade.entry_at, trade.exit_at)):
            there = at.astimezone(ZoneInfo("America/New_York"))
            assert there.weekday() < 5 and time(9, 30) <= there.time() <= time(16), (trade.symbol, there)
        assert trade.qty_entered == int(trade.qty_entered)


def test_daily_bars_give_no_session(store: Memory) -> None:
    for agent in AGENTS:
        assert {trade.entry_session for trade in store.agent(agent).ledger.trades()} == {None}
        assert "session" not in store.agent(agent).briefs.make({}).brief.of("user")


def test_the_brief_of_each_agent_has_no_warning_and_no_made_up_certainty(store: Memory) -> None:
    for agent in AGENTS:
        brief = store.agent(agent).briefs.make({})
        assert list(brief.brief.warnings) == [], agent
    assert execute(store, "index_health", {"agent": "tech-breakout"})["problems"] == []


def test_lessons_are_of_today_and_say_of_each_whether_it_could_be_chance(store: Memory) -> None:
    for agent in AGENTS:
        found = execute(store, "get_lessons", {"agent": agent})
        statuses = {lesson["status"] for lesson in found["note"]["lessons"]}
        assert statuses and "expired" not in statuses, agent
        for lesson in found["note"]["lessons"]:
            tested = re.search("could be chance|distinguishable from luck|not tested against chance", lesson["text"])
            assert bool(tested) == lesson["chance"], lesson["text"]


def test_a_second_filling_of_a_store_adds_nothing(store: Memory) -> None:
    heads = {agent: store.agent(agent).head() for agent in AGENTS}
    demo.fill_demo(store)
    assert {agent: store.agent(agent).head() for agent in AGENTS} == heads


def test_the_page_calls_a_lesson_luck_only_where_it_was_compared_with_chance(store: Memory) -> None:
    for agent in AGENTS:
        with client_of(store) as client:
            page = client.get(f"/agents/{agent}/lessons").text
        cards = re.findall(r'<li class="lesson".*?</li>', page, re.DOTALL)
        described = [card for card in cards if "not tested against chance" in card]
        assert described and not any("could be luck" in card for card in described), agent
        assert all("could be luck" in card for card in cards if "could be chance" in card), agent
