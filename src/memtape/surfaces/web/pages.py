"""The pages and the data of their charts, each made from what the operations answer.

    /                                  the agents
    /agents/{agent}                    one agent: figures, equity, positions, trades, decisions
    /agents/{agent}/trades/{trade}     one trade

A page runs in a worker thread and changes nothing. Asked for by htmx, the address of an agent gives the table of trades
alone. What is wrong is said in a page too, with the status that the same error has over HTTP.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import partial
from os import PathLike, stat_result
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from fastapi import FastAPI
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from memtape.core.codec import plain, read_time
from memtape.errors import Invalid, MemtapeError, Unknown
from memtape.surfaces.registry import execute
from memtape.surfaces.translate import json_text, outcome
from memtape.surfaces.web import charts, display
from memtape.surfaces.web.table import CHOICES, Wanted, columns, tabled

if TYPE_CHECKING:
    from memtape.core.observed import Bar
    from memtape.engine import Memory

STATIC = Path(__file__).with_name("static")
SECURITY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
RECENT_DECISIONS = 15
SPARK = (132, 36)
WIDE = (960, 300)

View = Callable[[Request], Response]


def add_pages(app: FastAPI, memory: Memory) -> None:
    """Put the pages of a memory on an app: `build_app(memory, web=partial(add_pages, memory=memory))`."""
    app.router.routes.extend(Pages(memory).routes())


@dataclass(frozen=True, slots=True)
class Standing:
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

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._threads = anyio.CapacityLimiter(8)
        self._standings: dict[str, tuple[str, Standing]] = {}
        self._templates = Environment(
            loader=PackageLoader("memtape.surfaces.web"), autoescape=True, undefined=StrictUndefined,
            finalize=display.visible, trim_blocks=True, lstrip_blocks=True,
        )  # fmt: skip
        self._templates.filters |= {
            "amount": display.amount, "signed": display.signed, "tone": display.tone, "price": display.price,
            "percent": display.percent, "when": display.when, "lasting": display.lasting, "frame": display.frame,
            "ending": display.ending,
        }  # fmt: skip
        self._templates.globals |= {
            "modes": display.MODES, "qualities": display.QUALITY, "methods": display.EXCURSIONS,
        }  # fmt: skip

    def routes(self) -> list[BaseRoute]:
        """Every address."""
        return [
            Route("/", self._page(self.home)),
            Route("/agents", self._page(lambda request: RedirectResponse("/", 308))),
            Route("/agents/{agent}", self._page(self.agent)),
            Route("/agents/{agent}/equity.json", self._data(self.equity)),
            Route("/agents/{agent}/trades/{trade}", self._page(self.trade)),
            Route("/agents/{agent}/trades/{trade}/bars.json", self._data(self.bars)),
            Route("/agents/{rest:path}", self._page(self.nowhere)),
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
        return self._show("agents.html", agents=agents, totals=[totals[key] for key in sorted(totals)], spark=SPARK)

    def _standing(self, agent: str) -> Standing:
        """An agent's figures. They follow from its log, so they are kept until its log has grown."""
        head = self._memory.agent(agent).head().hash
        kept, standing = self._standings.get(agent, ("", None))
        if standing is None or kept != head:
            standing = Standing(
                performance=self._ask("get_strategy_performance", agent),
                n_open=self._ask("get_open_positions", agent)["n"],
                spark=charts.drawing(self._ask("get_equity", agent), SPARK),
            )
            self._standings[agent] = (head, standing)
        return standing

    # ---- one agent ------------------------------------------------------------------------------------------------

    def agent(self, request: Request) -> Response:
        """One agent, or only its table of trades where that is all that changes."""
        agent = self._agent(request)
        ledger = self._ask("get_ledger", agent["id"])
        wanted = Wanted.read(request.query_params)
        shown: dict[str, Any] = {
            "agent": agent, "currency": ledger["totals"]["currency"], "wanted": wanted, "path": f"/agents/{agent['id']}",
            "columns": columns(ledger["totals"]["currency"]), "table": tabled(ledger["rows"], wanted),
        }  # fmt: skip
        if request.headers.get("hx-request-type") == "partial":
            return self._show("trades.html", **shown)
        rows = ledger["rows"]
        decisions = self._ask("get_decisions", agent["id"], limit=RECENT_DECISIONS)["decisions"]
        led_to = {row[f"{end}_decision"]: row for row in rows for end in ("exit", "entry") if row[f"{end}_decision"]}
        equity = self._ask("get_equity", agent["id"])
        return self._show(
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
        agent = self._agent(request)
        answer = self._ask("get_equity", agent["id"])
        points = charts.thinned(charts.curve(answer["points"]), charts.MOST_POINTS)
        told = {name: answer[name] for name in ("agent", "currency", "source", "n")}
        return _json({**told, "points": [{"time": t, "value": nav} for t, nav in points]})

    # ---- one trade ------------------------------------------------------------------------------------------------

    def trade(self, request: Request) -> Response:
        """One trade: why, how it ran, what it brought."""
        agent = self._agent(request)
        trade = self._trade(request)
        reader = self._memory.agent(agent["id"])
        decisions = {}
        for end in ("entry", "exit"):
            found = reader.decision(trade[f"{end}_decision"]) if trade[f"{end}_decision"] else None
            decisions[end] = plain(found.decision) if found else None
        bars = self._bars(agent, trade)
        return self._show(
            "trade.html", agent=agent, trade=trade, currency=trade["currency"], decisions=decisions,
            axis=charts.excursions(trade), bars=charts.candles(trade, bars), n_bars=len(bars),
        )  # fmt: skip

    def bars(self, request: Request) -> Response:
        """The bars around a trade as their chart takes them."""
        agent = self._agent(request)
        trade = self._trade(request)
        return _json(charts.candles(trade, self._bars(agent, trade)))

    def _bars(self, agent: Mapping[str, Any], trade: Mapping[str, Any]) -> list[Bar]:
        read = partial(self._memory.agent(agent["id"]).bars, trade["symbol"])
        entry = read_time(trade["entry_at"])
        return charts.around(read, entry, self._until(agent, trade, entry))

    def _until(self, agent: Mapping[str, Any], trade: Mapping[str, Any], entry: datetime) -> datetime:
        until = trade["exit_at"] or agent["last_known_at"]
        return max(read_time(until), entry) if until else entry

    # ---- how they are answered ------------------------------------------------------------------------------------

    def nowhere(self, request: Request) -> Response:
        """For addresses that look like ours."""
        raise Unknown("page", "page", request.url.path, "Start from the list of agents")

    def _ask(self, operation: str, agent: str | None = None, **asked: Any) -> dict[str, Any]:
        return execute(self._memory, operation, asked, agent=agent)

    def _agent(self, request: Request) -> dict[str, Any]:
        id_ = request.path_params["agent"]
        try:
            return self._ask("show_agent", id=id_)
        except (Invalid, Unknown):  # Invalid: not a name that an agent can have
            raise Unknown("agent", "agent", id_, "Choose one from the list of agents") from None

    def _trade(self, request: Request) -> dict[str, Any]:
        agent, id_ = request.path_params["agent"], request.path_params["trade"]
        try:
            trade: dict[str, Any] = self._ask("get_trade", agent, trade_id=id_)["trade"]
        except (Invalid, Unknown):
            raise Unknown("trade", "trade", id_, f"Choose one from the trades of '{agent}'") from None
        return trade

    def _page(self, view: View) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            try:
                return await anyio.to_thread.run_sync(view, request, limiter=self._threads)
            except MemtapeError as error:
                found = outcome(error)
                return self._show("error.html", found.status, title=found.title, problem=str(error))

        return answer

    def _data(self, view: View) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            return await anyio.to_thread.run_sync(view, request, limiter=self._threads)

        return answer

    def _show(self, template: str, status: int = 200, /, **shown: Any) -> Response:
        text = self._templates.get_template(template).render(**shown)
        return HTMLResponse(text, status, {"content-security-policy": SECURITY, "vary": "HX-Request-Type"})


def _json(data: Mapping[str, Any]) -> Response:
    return Response(json_text(data), media_type="application/json")
