"""The pages and the data of their charts, each made from what the operations answer.

    /                                  the agents
    /agents/{agent}                    one agent: figures, equity, positions, trades, decisions
    /agents/{agent}/trades/{trade}     one trade, and what it taught

`memory_pages` and `plan_pages` have what an agent remembers, believes, does, feels and intends, `lesson_pages` what its trades
taught it, `brief_pages` what it sees, `skill_pages` the skill it runs, `document_pages` what is written in its workspace,
`proposal_pages` what it wrote there itself and what it proposes. Asked for by htmx, the address of an agent gives the table of
trades alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import partial
from os import PathLike, stat_result
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from memtape.core.codec import plain, read_time
from memtape.errors import Invalid, Unknown
from memtape.surfaces.translate import json_text
from memtape.surfaces.web import charts, display
from memtape.surfaces.web.brief_pages import BriefPages
from memtape.surfaces.web.desk import Desk, only_a_part
from memtape.surfaces.web.document_pages import DocumentPages
from memtape.surfaces.web.lesson_pages import LessonPages, standing_behind
from memtape.surfaces.web.memory_pages import MemoryPages
from memtape.surfaces.web.plan_pages import PlanPages
from memtape.surfaces.web.proposal_pages import ProposalPages
from memtape.surfaces.web.skill_pages import SkillPages
from memtape.surfaces.web.table import CHOICES, Wanted, columns, tabled

if TYPE_CHECKING:
    from memtape.core.observed import Bar
    from memtape.engine import Memory

STATIC = Path(__file__).with_name("static")
RECENT_DECISIONS = 15
SPARK = (132, 36)
WIDE = (960, 300)


def add_pages(app: FastAPI, memory: Memory) -> None:
    """Put the pages of a memory on an app: `build_app(memory, web=partial(add_pages, memory=memory))`."""
    desk = Desk(memory)
    for kind in (Pages, MemoryPages, PlanPages, LessonPages, BriefPages, SkillPages, DocumentPages, ProposalPages):
        app.router.routes.extend(kind(desk).routes())
    app.router.routes.extend(Route(f"/{start}/{{rest:path}}", desk.page(_nowhere)) for start in ("agents", "skills"))


@dataclass(frozen=True, slots=True)
class AgentCard:
    """How an agent stands by one state of its log."""

    performance: Mapping[str, Any]
    n_open: int
    spark: str


@dataclass(frozen=True, slots=True)
class Total:
    """What the agents of one mode and currency come to; money of different kinds is never added."""

    mode: str
    currency: str
    agents: int
    n: int
    n_open: int
    n_priced: int
    wins: int
    net: Decimal

    @property
    def win_rate(self) -> float | None:
        """Over all their trades with a known outcome."""
        return self.wins / self.n_priced if self.n_priced else None


class Assets(StaticFiles):
    """The files of the pages; a browser may keep them and asks whether they changed."""

    def file_response(
        self, full_path: str | PathLike[str], stat_result: stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers["cache-control"] = "no-cache"
        return response


class Pages:
    """The pages of one memory."""

    def __init__(self, desk: Desk) -> None:
        self._desk, self._memory, self._ask = desk, desk.memory, desk.ask
        self._standings: dict[str, tuple[str, AgentCard]] = {}

    def routes(self) -> list[BaseRoute]:
        """Every address."""
        return [
            Route("/", self._desk.page(self.home)),
            *(Route(path, self._desk.page(lambda request: RedirectResponse("/", 308))) for path in ("/agents", "/skills")),
            Route("/agents/{agent}", self._desk.page(self.agent)),
            Route("/agents/{agent}/equity.json", self._desk.data(self.equity)),
            Route("/agents/{agent}/trades/{trade}", self._desk.page(self.trade)),
            Route("/agents/{agent}/trades/{trade}/bars.json", self._desk.data(self.bars)),
            Mount("/static", Assets(directory=STATIC)),
        ]

    # ---- the agents -----------------------------------------------------------------------------------------------

    def home(self, request: Request) -> Response:
        """Every agent with its figures, and what they come to."""
        agents = [(agent, self._standing(agent["id"])) for agent in self._ask("list_agents")["agents"]]
        totals: dict[tuple[str, str], Total] = {}
        for agent, standing in agents:
            did = standing.performance
            key = (agent["mode"], did["currency"])
            so_far = totals.get(key, Total(*key, 0, 0, 0, 0, 0, Decimal(0)))
            totals[key] = Total(
                *key, so_far.agents + 1, so_far.n + did["n"], so_far.n_open + standing.n_open,
                so_far.n_priced + did["n_priced"], so_far.wins + did["wins"], so_far.net + Decimal(did["net_pnl_usd"]),
            )  # fmt: skip
        return self._desk.show(
            "agents.html", agents=agents, totals=[totals[key] for key in sorted(totals)], spark=SPARK,
            skills=self._ask("list_skills")["skills"],
        )  # fmt: skip

    def _standing(self, agent: str) -> AgentCard:
        """An agent's figures. They follow from its log, so they are kept until its log has grown."""
        head = self._memory.agent(agent).head().hash
        kept, standing = self._standings.get(agent, ("", None))
        if standing is None or kept != head:
            standing = AgentCard(
                performance=self._ask("get_strategy_performance", agent),
                n_open=self._ask("get_open_positions", agent)["n"],
                spark=charts.drawing(self._ask("get_equity", agent), SPARK),
            )
            self._standings[agent] = (head, standing)
        return standing

    # ---- one agent ------------------------------------------------------------------------------------------------

    def agent(self, request: Request) -> Response:
        """One agent, or only its table of trades where that is all that changes."""
        agent = self._desk.agent(request)
        ledger = self._ask("get_ledger", agent["id"])
        wanted = Wanted.read(request.query_params)
        shown: dict[str, Any] = {
            "agent": agent, "currency": ledger["totals"]["currency"], "wanted": wanted, "path": f"/agents/{agent['id']}",
            "columns": columns(ledger["totals"]["currency"]), "table": tabled(ledger["rows"], wanted),
        }  # fmt: skip
        if only_a_part(request):
            return self._desk.show("trades.html", **shown)
        rows = ledger["rows"]
        decisions = self._ask("get_decisions", agent["id"], limit=RECENT_DECISIONS)["decisions"]
        led_to = {row[f"{end}_decision"]: row for row in rows for end in ("exit", "entry") if row[f"{end}_decision"]}
        equity = self._ask("get_equity", agent["id"])
        return self._desk.show(
            "agent.html", **shown,
            skill=self._ask("show_skill", id=agent["skill"], version=agent["skill_version"]),
            performance=self._ask("get_strategy_performance", agent["id"]),
            equity=equity, outline=charts.drawing(equity, WIDE), wide=WIDE,
            positions=[row for row in rows if row["status"] == "open"],
            decisions=[(decision, led_to.get(decision["id"])) for decision in decisions],
            discrepancies=ledger["discrepancies"],
            choices={
                "symbol": {name: name for name in sorted({row["symbol"] for row in rows})},
                "strategy": {name: name for name in sorted({str(display.visible(row["strategy"])) for row in rows})},
                **CHOICES,
            },
        )  # fmt: skip

    def equity(self, request: Request) -> Response:
        """The equity curve as its chart takes it."""
        agent = self._desk.agent(request)
        answer = self._ask("get_equity", agent["id"])
        points = charts.thin_points(charts.curve(answer["points"]), charts.MOST_POINTS)
        told = {name: answer[name] for name in ("agent", "currency", "source", "n")}
        return _json({**told, "points": [{"time": t, "value": nav} for t, nav in points]})

    # ---- one trade ------------------------------------------------------------------------------------------------

    def trade(self, request: Request) -> Response:
        """One trade: why, how it ran, what it brought, what it taught."""
        agent = self._desk.agent(request)
        taught = self._taught(request)
        trade, lessons = taught["trade"], standing_behind(self._desk, agent["id"], request.path_params["trade"])
        if trade is None:
            return self._desk.show("episode.html", agent=agent, taught=taught, episode=taught["episode"], lessons=lessons)
        reader = self._memory.agent(agent["id"])
        decisions, rests = {}, {}
        for end in ("entry", "exit"):
            found = reader.ledger.decision(trade[f"{end}_decision"]) if trade[f"{end}_decision"] else None
            decisions[end] = plain(found.decision) if found else None
            rests[end] = self._ask("get_citations", agent["id"], decision=found.decision.id)["citations"] if found else []
        bars = self._bars(agent, trade)
        return self._desk.show(
            "trade.html", agent=agent, trade=trade, currency=trade["currency"], decisions=decisions, rests=rests, taught=taught,
            episode=taught["episode"], lessons=lessons,
            axis=charts.excursions(trade), bars=charts.candles(trade, bars), n_bars=len(bars),
        )  # fmt: skip

    def _taught(self, request: Request) -> dict[str, Any]:
        """A trade with all that memory links to it; what was not taken, or only claimed, is remembered without one."""
        agent, id_ = request.path_params["agent"], request.path_params["trade"]
        try:
            return self._ask("get_trade_reflection", agent, trade_id=id_)
        except (Invalid, Unknown):
            raise Unknown("trade", "trade", id_, f"Choose one from the trades of '{agent}'") from None

    def bars(self, request: Request) -> Response:
        """The bars around a trade as their chart takes them."""
        agent = self._desk.agent(request)
        trade = self._trade(request)
        return _json(charts.candles(trade, self._bars(agent, trade)))

    def _bars(self, agent: Mapping[str, Any], trade: Mapping[str, Any]) -> list[Bar]:
        read = partial(self._memory.agent(agent["id"]).ledger.bars, trade["symbol"])
        entry = read_time(trade["entry_at"])
        return charts.around(read, entry, self._until(agent, trade, entry))

    def _until(self, agent: Mapping[str, Any], trade: Mapping[str, Any], entry: datetime) -> datetime:
        until = trade["exit_at"] or agent["last_known_at"]
        return max(read_time(until), entry) if until else entry

    def _trade(self, request: Request) -> dict[str, Any]:
        agent, id_ = request.path_params["agent"], request.path_params["trade"]
        try:
            trade: dict[str, Any] = self._ask("get_trade", agent, trade_id=id_)["trade"]
        except (Invalid, Unknown):
            raise Unknown("trade", "trade", id_, f"Choose one from the trades of '{agent}'") from None
        return trade


def _nowhere(request: Request) -> Response:
    """For addresses that look like ours."""
    raise Unknown("page", "page", request.url.path, "Start from the list of agents")


def _json(data: Mapping[str, Any]) -> Response:
    return Response(json_text(data), media_type="application/json")
