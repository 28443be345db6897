"""The page of recall: a situation, and what memory recalls for it in three lists.

/agents/{agent}/memory    the form and the lists; htmx gets only those
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, cast, get_args

from starlette.responses import Response

from memtape.core.memory.situation import Regime, Session, Volatility
from memtape.core.recall.query import Profile
from memtape.errors import Invalid
from memtape.surfaces.operations.memories import RankedItem, RecallMemories, recall_memories
from memtape.surfaces.translate import error_report
from memtape.surfaces.web.charts import FactorBar, factor_bars, outcome_histogram
from memtape.surfaces.web.forms import read_question
from memtape.surfaces.web.register import page
from memtape.surfaces.web.site import PageRequest
from memtape.surfaces.web.svg import LinearScale
from memtape.surfaces.web.trades import AgentTrades, chosen_name, chosen_symbol

if TYPE_CHECKING:
    from memtape.core.recall.evidence import Evidence

CHOICES: Mapping[str, tuple[str, ...]] = {
    "regime": get_args(Regime),
    "volatility_regime": get_args(Volatility),
    "session": get_args(Session),
    "profile": get_args(Profile),
}
LABEL_FIELDS = ("regime", "volatility_regime", "session")
NUMBER_FIELDS = ("atr_d1", "atr_h1", "price", "drawdown_pct")


@dataclass(frozen=True, slots=True)
class RecallForm:
    """The form of the page, as text. `drawdown_pct` is in %; `now` fills in the present situation."""

    symbol: str = ""
    strategy: str = ""
    regime: str = ""
    volatility_regime: str = ""
    session: str = ""
    atr_d1: str = ""
    atr_h1: str = ""
    price: str = ""
    drawdown_pct: str = ""
    as_of: str = ""
    profile: str = "owm"
    limit: str = "10"
    explain: str = ""
    now: str = ""

    @classmethod
    def read(cls, query: Mapping[str, str]) -> RecallForm:
        """From an address.

        >>> RecallForm.read({"symbol": " BTC ", "drawdown_pct": "5", "profile": ""}).profile
        'owm'
        """
        given = {field.name: query[field.name].strip() for field in fields(cls) if field.name in query}
        return cls(**{name: text for name, text in given.items() if text})

    @property
    def situation(self) -> dict[str, Any] | None:
        """The situation that the form states; None: the present situation of the agent."""
        if self.now:
            return None
        stated: dict[str, Any] = {name: getattr(self, name) for name in LABEL_FIELDS if getattr(self, name)}
        stated |= {name: self._number(name) for name in NUMBER_FIELDS if getattr(self, name)}
        return stated | ({"symbol": self.symbol} if self.symbol else {}) if stated else None

    def _number(self, name: str) -> float | str:
        """A number of the situation; * means any value."""
        text = getattr(self, name)
        if text == "*":
            return str(text)
        try:
            value = float(text.replace("−", "-"))
        except ValueError:
            raise Invalid(name, "is not a number", "Write it like 1.55") from None
        if not math.isfinite(value):
            raise Invalid(name, "is not a finite number", "Write it like 1.55")
        return value / 100 if name == "drawdown_pct" else value

    def question_fields(self) -> dict[str, Any]:
        """The fields of the question to `recall_memories`.

        >>> RecallForm(symbol="BTC", regime="ranging", drawdown_pct="5").question_fields()["context"]
        {'regime': 'ranging', 'drawdown_pct': 0.05, 'symbol': 'BTC'}
        """
        values: dict[str, Any] = {
            "symbol": self.symbol, "strategy_name": self.strategy, "context": self.situation, "as_of": self.as_of,
            "profile": self.profile, "limit": self.limit, "explain": bool(self.explain),
        }  # fmt: skip
        return {name: value for name, value in values.items() if value not in (None, "")}

    def filled(self, situation: object) -> RecallForm:
        """The form with the situation of the answer, so that the reader can change one value and recall again.

        >>> from types import SimpleNamespace
        >>> RecallForm(now="1").filled(SimpleNamespace(price=56.137353, drawdown_pct=0.0543898)).price
        '56.1374'
        """
        values: dict[str, str] = {}
        for name in (*LABEL_FIELDS, *NUMBER_FIELDS):
            value = getattr(situation, name, None)
            if isinstance(value, int | float):
                # Where the equity was only assumed, losses may exceed it; a question may not say so.
                values[name] = f"{100 * min(value, 1):.4g}" if name == "drawdown_pct" else f"{value:.6g}"
            else:
                values[name] = value or ""
        return replace(self, **values, now="")


@page("/agents/{agent}/memory", nav="Memory", order=30)
def memory_page(request: PageRequest) -> Response:
    """A situation, and what memory recalls for it: ranked memories, warnings and evidence."""
    names = AgentTrades(request.site, request.agent.id).names()
    strategy = chosen_name(request.query, "strategy", names.strategies) or request.query.get("strategy", "")
    symbol = chosen_symbol(request.query, names)
    form = RecallForm.read({**request.query, "symbol": symbol, "strategy": strategy})
    template = "recall.html" if request.partial else "memory.html"
    offered = {"names": names, "choices": CHOICES}
    try:
        found = request.ask(recall_memories, read_question(RecallMemories, agent=request.agent.id, **form.question_fields()))
    except Invalid as error:
        return request.show(template, error_report(error).status, **offered, form=form, found=None, problem=str(error))
    # The row has the fields of the evidence that it mirrors.
    evidence = cast("Evidence", found.evidence)
    interval = evidence.mean_r_interval or ()
    return request.show(
        template, **offered, form=form.filled(found.situation), found=found, problem="", evidence=evidence,
        ranked=_with_bars(found.ranked), beliefs=_with_bars(found.beliefs), near_misses=_with_bars(found.near_misses),
        scale=LinearScale.around([evidence.mean_r, evidence.base.mean_r, *interval]),
        outcomes=outcome_histogram(evidence.distribution),
    )  # fmt: skip


def _with_bars(items: list[RankedItem]) -> list[tuple[RankedItem, list[FactorBar]]]:
    return list(zip(items, factor_bars([item.components for item in items]), strict=True))
