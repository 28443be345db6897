"""The pages of what an agent remembers, believes, does and feels.

    /agents/{agent}/memory             a situation, and what memory has to say about it
    /agents/{agent}/beliefs            what it has come to believe
    /agents/{agent}/beliefs/{belief}   one belief, with the trades for it and against it
    /agents/{agent}/behaviour          what it does again and again
    /agents/{agent}/state              its state of mind, now and over time

Each is made from what the operations answer, and changes nothing. Asked for by htmx, an address gives only what a form
changes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from memtape.errors import Invalid, Unknown
from memtape.surfaces.translate import error_report
from memtape.surfaces.web import curves, explorer, words
from memtape.surfaces.web.desk import Desk, only_a_part
from memtape.surfaces.web.display import visible

MOST_BELIEFS = 200
MOST_EVIDENCE = 60
MOST_STEPS = 5000
RECENT_STEPS = 25
BELIEF_STATUSES = ("believed", "candidate", "merged", "split", "retired")


class Traded(NamedTuple):
    """What an agent has traded: the symbols, the one traded last first, and the strategies."""

    symbols: Sequence[str]
    strategies: Sequence[str]


def traded(desk: Desk, agent: str) -> Traded:
    """The symbols and strategies of an agent's trades."""
    rows = reversed(desk.ask("get_ledger", agent)["rows"])
    told = [(row["symbol"], row["strategy"]) for row in rows]
    return Traded(list(dict.fromkeys(symbol for symbol, _ in told)), sorted({strategy for _, strategy in told}))


def here(request: Request, symbols: Sequence[str]) -> str:
    """The symbol that a page is about: the one asked for, else the one traded last; empty text asks for any."""
    return request.query_params.get("symbol", symbols[0] if symbols else "").strip()


class MemoryPages:
    """The memories of the agents of one memory."""

    def __init__(self, desk: Desk) -> None:
        self._desk, self._ask = desk, desk.ask

    def routes(self) -> list[BaseRoute]:
        """Every address."""
        views = {
            "memory": self.memory, "beliefs": self.beliefs, "beliefs/{belief:path}": self.belief,
            "behaviour": self.behaviour, "state": self.state,
        }  # fmt: skip
        return [Route(f"/agents/{{agent}}/{path}", self._desk.page(view)) for path, view in views.items()]

    # ---- recall ---------------------------------------------------------------------------------------------------

    def memory(self, request: Request) -> Response:
        """The explorer: a situation, and what memory has to say about it in three lists."""
        agent = self._desk.agent(request)
        known = traded(self._desk, agent["id"])
        strategy = _chosen(request, "strategy", known.strategies) or request.query_params.get("strategy", "")
        asked = explorer.RecallForm.read({**request.query_params, "symbol": here(request, known.symbols), "strategy": strategy})
        template = "recalled.html" if only_a_part(request) else "memory.html"
        shown = {"agent": agent, "path": f"/agents/{agent['id']}", "known": known, "choices": explorer.CHOICES}
        try:
            found = self._ask("recall_memories", agent["id"], **asked.asking())
        except Invalid as error:
            status = error_report(error).status
            return self._desk.show(template, status, **shown, asked=asked, found=None, problem=str(error))
        listed = ("ranked", "beliefs", "near_misses")
        lists = {name: list(zip(found[name], explorer.bars(found[name]), strict=True)) for name in listed}
        evidence = found["evidence"]
        interval = evidence["mean_r_interval"] or ()
        return self._desk.show(
            template, **shown, asked=asked.filled(found["situation"]), found=found, problem="", lists=lists, evidence=evidence,
            scale=curves.Axis.over([evidence["mean_r"], evidence["base"]["mean_r"], *interval]),
            bins=curves.histogram(evidence["distribution"]),
        )  # fmt: skip

    # ---- beliefs --------------------------------------------------------------------------------------------------

    def beliefs(self, request: Request) -> Response:
        """The table of beliefs, of one status or of all."""
        agent = self._desk.agent(request)
        status = _chosen(request, "status", BELIEF_STATUSES)
        found = self._ask("get_beliefs", agent["id"], limit=MOST_BELIEFS, **({"status": status} if status else {}))
        return self._desk.show(
            "beliefs_table.html" if only_a_part(request) else "beliefs.html", agent=agent, path=f"/agents/{agent['id']}",
            found=found, status=status, choices=BELIEF_STATUSES,
        )  # fmt: skip

    def belief(self, request: Request) -> Response:
        """One belief: how sure it is, and the trades for it and against it."""
        agent, id_ = self._desk.agent(request), request.path_params["belief"]
        try:
            found = self._ask("get_belief", agent["id"], belief_id=id_)
        except (Invalid, Unknown):
            raise Unknown("belief", "belief", id_, f"Choose one from the beliefs of '{agent['id']}'") from None
        belief = found["belief"]
        trades = {row["id"]: row for row in self._ask("get_ledger", agent["id"])["rows"]}
        all_beliefs = {each["id"]: each for each in self._ask("get_beliefs", agent["id"], limit=1000)["beliefs"]}
        return self._desk.show(
            "belief.html", agent=agent, path=f"/agents/{agent['id']}", belief=belief, drawn=curves.density(belief),
            sides=[_side(name, found[name], trades) for name in ("confirming", "contradicting")],
            into=[all_beliefs[other] for other in belief["related"] if other in all_beliefs],
            out_of=[each for each in all_beliefs.values() if id_ in each["related"]],
        )  # fmt: skip

    # ---- habits ---------------------------------------------------------------------------------------------------

    def behaviour(self, request: Request) -> Response:
        """What an agent does again and again, in one strategy and symbol or in all."""
        agent = self._desk.agent(request)
        known = traded(self._desk, agent["id"])
        symbol, strategy = _chosen(request, "symbol", known.symbols), _chosen(request, "strategy", known.strategies)
        asked = {name: value for name, value in (("symbol", symbol), ("strategy_name", strategy)) if value}
        found = self._ask("get_behavioral_analysis", agent["id"], **asked)
        return self._desk.show(
            "behaviour_figures.html" if only_a_part(request) else "behaviour.html", agent=agent, path=f"/agents/{agent['id']}",
            found=found, known=known, symbol=symbol, strategy=strategy, habits=words.HABITS, valued=words.valued,
            drifts=[(drift, *words.DRIFTS[drift["of"], drift["method"]]) for drift in found["drift"]],
        )  # fmt: skip

    # ---- the state of mind ----------------------------------------------------------------------------------------

    def state(self, request: Request) -> Response:
        """The state of mind now, and how it came to be."""
        agent = self._desk.agent(request)
        found = self._ask("get_agent_state", agent["id"], history=MOST_STEPS)
        history = found["history"]
        return self._desk.show(
            "state.html", agent=agent, path=f"/agents/{agent['id']}", state=found, history=history,
            currency=self._ask("get_equity", agent["id"])["currency"], recent=history[::-1][:RECENT_STEPS],
            closes=sum(step["what"] == "close" for step in history),
            drawn=curves.timeline(history, found["max_acceptable_drawdown"]),
        )  # fmt: skip


class Side(NamedTuple):
    """The trades on one side of a belief: how many, and the latest of them."""

    name: str
    n: int
    latest: Sequence[Mapping[str, Any]]


def _side(name: str, ids: Sequence[str], trades: Mapping[str, Mapping[str, Any]]) -> Side:
    """Trades in the order in which they closed, the latest first; what the ledger does not list is known by its id alone."""
    latest = [trades.get(id_, {"id": id_, "symbol": id_, "side": "", "exit_at": None, "pnl_r": None}) for id_ in ids[::-1]]
    return Side(name, len(ids), latest[:MOST_EVIDENCE])


def _chosen(request: Request, name: str, known: Collection[str]) -> str:
    """What an address asks for, where there is such a thing; a page shows each value, and so sends it, without tricks."""
    return {str(visible(value)): value for value in known}.get(request.query_params.get(name, ""), "")
