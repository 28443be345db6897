"""The cost of what pages ask most: one trade, a page of trades by any column, an agent's page, and columns in a bounded cache."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any

from bench.desk import AGENT, FIRST_TRADE, LIVE_SYMBOL, BenchRun, desk, tick
from bench.recall import row
from bench.ticks import observe
from bench.timing import Result, Sides, Work, cpu, judge, time_in_turn
from memtape.core.ledger.trade_page import SORT_FIELDS, TradePage
from memtape.engine.column_cache import ColumnCache

PAGE_ROWS, REPEATS, FLAT = 25, 10, 1.3
# Every filter of a page, the dates within both histories, and filters together with a sort that no index of theirs serves.
_DAYS = {"since": FIRST_TRADE + timedelta(days=1), "until": FIRST_TRADE + timedelta(days=3)}
FILTERS: dict[str, dict[str, Any]] = {
    "of one symbol": {"symbol": LIVE_SYMBOL}, "of one side": {"side": "long"}, "of one strategy": {"strategy": "breakout"},
    "closed": {"status": "closed"}, "open": {"status": "open"}, "won": {"outcome": "win"}, "lost": {"outcome": "loss"},
    "lost, by net": {"outcome": "loss", "sort": "net"}, "scratched": {"outcome": "scratch"}, "unknown": {"outcome": "unknown"},
    "of one regime": {"regime": "ranging"}, "of one volatility": {"volatility_regime": "high"},
    "of one session": {"session": "london"}, "of one tag": {"tag": "news"},
    "of one regime, by net": {"regime": "ranging", "sort": "net"}, "of one tag, by R": {"tag": "news", "sort": "r"},
    "entered in two days": _DAYS, "exited in two days": {"date": "exit", **_DAYS},
    "exited in two days, by net": {"date": "exit", "sort": "net", **_DAYS},
    "exited since": {"date": "exit", "since": _DAYS["since"]}, "entered since, by R": {"since": _DAYS["since"], "sort": "r"},
}  # fmt: skip
AGENTS, EPISODES, LIMIT_MB = 1_000, 200, 8.0


def measure_trade_by_id(bench: BenchRun) -> dict[str, Result]:
    """Measure `trade_by_id`."""
    few, many = bench.scale.few, bench.scale.many
    with desk(bench.store(few)) as (_, small), desk(bench.store(many)) as (_, large):
        ids = [agent.ledger.trades(limit=50)[-1].id for agent in (small, large)]

        def look_up(agent: object, id: str) -> None:
            for _ in range(REPEATS):
                assert agent.ledger.trade(id) is not None  # type: ignore[attr-defined]

        rounds = [(partial(look_up, small, ids[0]), partial(look_up, large, ids[1]))] * bench.scale.pages
        (sides,) = time_in_turn(rounds, cpu)
    return {"trade_by_id": judge(f"One trade by its id among {many} trades, compared with among {few}.", many, sides, FLAT)}


def measure_trade_page(bench: BenchRun) -> dict[str, Result]:
    """Measure `trade_page`: the worst of all sorts and filters is judged."""
    few, many = bench.scale.few, bench.scale.many
    worst: tuple[float, str, Sides] | None = None
    ratios: dict[str, float] = {}
    with desk(bench.store(few)) as (_, small), desk(bench.store(many)) as (_, large):
        pages = {f"by {sort}, {'down' if down else 'up'}": TradePage(sort=sort, descending=down, limit=PAGE_ROWS)
                 for sort in SORT_FIELDS for down in (True, False)}  # fmt: skip
        pages |= {name: TradePage(limit=PAGE_ROWS, **wanted) for name, wanted in FILTERS.items()}
        for name, page in pages.items():
            rounds = [(partial(small.ledger.trade_page, page), partial(large.ledger.trade_page, page))] * bench.scale.pages
            (sides,) = time_in_turn(rounds, cpu)
            ratios[name] = round(sides.ratio, 3)
            if worst is None or sides.ratio > worst[0]:
                worst = (sides.ratio, name, sides)
    assert worst is not None
    what = f"A page of {PAGE_ROWS} of {many} trades, the worst of {len(pages)} sorts and filters, compared with of {few}."
    return {"trade_page": judge(what, many, worst[2], FLAT, worst=worst[1], ratios=ratios)}


class _Agent:
    """The episodes of one agent as the cache reads them."""

    def __init__(self, episodes: int) -> None:
        self._episodes = episodes

    def revision(self) -> int:
        return 1

    def episode_rows(self) -> list[tuple[object, ...]]:
        return [row(n, self._episodes) for n in range(self._episodes)]


def measure_column_cache(bench: BenchRun) -> dict[str, Result]:
    """Measure `column_cache`: the memory that many agents take, as a share of the limit."""
    agents = AGENTS if bench.scale.many > 1_000 else 50
    cache, most = ColumnCache(LIMIT_MB), 0
    for n in range(agents):
        with cache.columns("local", f"agent-{n}", _Agent(EPISODES)):  # type: ignore[arg-type]
            most = max(most, cache.nbytes())
    sides = Sides([LIMIT_MB * 1024 * 1024], [float(most)])
    what = f"The most bytes of columns that {agents} agents of {EPISODES} episodes took, compared with the limit."
    return {"column_cache": judge(what, agents, sides, 1.0)}


def measure_agent_page(bench: BenchRun) -> dict[str, Result]:
    """Measure `agent_page`: the first view of an agent's page after a tick, when nothing computed before still holds."""
    from starlette.testclient import TestClient

    from memtape.surfaces.http import build_app
    from memtape.surfaces.web import add_pages

    n, path = bench.scale.paged, bench.copy(bench.store(bench.scale.paged), "agent-page.db")
    with desk(path) as (memory, agent):
        app = build_app(memory, mcp=False, web=partial(add_pages, memory=memory))
        client = TestClient(app, base_url="http://127.0.0.1")

        def queries() -> None:
            agent.ledger.performance()
            agent.ledger.equity()
            agent.ledger.trade_page(TradePage(limit=PAGE_ROWS))
            agent.ledger.trades(status="open")
            agent.ledger.decisions(limit=PAGE_ROWS)
            agent.ledger.discrepancies(PAGE_ROWS)
            memory.skill_of(agent.agent)

        def page() -> None:
            assert client.get(f"/agents/{AGENT}").status_code == 200

        def rounds() -> Iterator[tuple[Work, Work]]:
            for number in range(bench.scale.rounds * 5):
                observe(memory, agent, tick(number))
                yield queries, page

        (sides,) = time_in_turn(rounds(), cpu)
    what = f"The page of an agent with {n} trades, after a tick, compared with the queries behind it."
    return {"agent_page": judge(what, n, sides, 3.0)}
