"""A question to memory as its form asks it, and a score as a bar of what each of its factors costs.

A score is a product of factors, so their logarithms add up: a factor of 1 costs nothing, one of ½ costs ln 2. The lengths
of a bar's parts add up to -ln(score); the shorter the bar, the higher the memory stands. A factor above 1 gives back.

>>> parts = costs({"Q": 0.5, "Sim": 0.8, "Aff": 1.25})
>>> [(part.name, round(part.cost, 3)) for part in parts], round(sum(part.cost for part in parts), 3) == round(math.log(2), 3)
([('Q', 0.693), ('Sim', 0.223), ('Aff', -0.223)], True)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, get_args

from memtape.core.memory.situation import Regime, Session, Volatility
from memtape.core.recall.query import Profile
from memtape.errors import Invalid

CHOICES: Mapping[str, tuple[str, ...]] = {
    "regime": get_args(Regime),
    "volatility_regime": get_args(Volatility),
    "session": get_args(Session),
    "profile": get_args(Profile),
}
LABELS = ("regime", "volatility_regime", "session")
NUMBERS = ("atr_d1", "atr_h1", "price", "drawdown_pct")


@dataclass(frozen=True, slots=True)
class RecallForm:
    """What the form asks; everything is text as it was typed. `drawdown_pct` is in %, `now` fills in the present situation."""

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
        """The situation that is asked about; None: the agent's own."""
        if self.now:
            return None
        said: dict[str, Any] = {name: getattr(self, name) for name in LABELS if getattr(self, name)}
        said |= {name: self._number(name) for name in NUMBERS if getattr(self, name)}
        return said | ({"symbol": self.symbol} if self.symbol else {}) if said else None

    def _number(self, name: str) -> float | str:
        """A number of the situation; * means anything."""
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

    def asking(self) -> dict[str, Any]:
        """As the operation takes it.

        >>> RecallForm(symbol="BTC", regime="ranging", drawdown_pct="5").asking()["context"]
        {'regime': 'ranging', 'drawdown_pct': 0.05, 'symbol': 'BTC'}
        """
        asked: dict[str, Any] = {
            "symbol": self.symbol, "strategy_name": self.strategy, "context": self.situation, "as_of": self.as_of,
            "profile": self.profile, "limit": self.limit, "explain": bool(self.explain),
        }  # fmt: skip
        return {name: value for name, value in asked.items() if value not in (None, "")}

    def filled(self, situation: Mapping[str, Any]) -> RecallForm:
        """The form with the situation that was answered, so that it can be changed a little and asked again.

        >>> RecallForm(now="1").filled({"price": 56.137353, "drawdown_pct": 0.0543898}).price
        '56.1374'
        """
        told: dict[str, str] = {}
        for name in (*LABELS, *NUMBERS):
            value = situation.get(name)
            if isinstance(value, int | float):
                told[name] = f"{100 * value:.4g}" if name == "drawdown_pct" else f"{value:.6g}"
            else:
                told[name] = value or ""
        return replace(self, **told, now="")


# ---- scores as bars ------------------------------------------------------------------------------------------------------


class Cost(NamedTuple):
    """One factor of a score; `cost` is -ln(factor), below zero where the factor is above 1."""

    name: str
    factor: float
    cost: float


class FactorBar(NamedTuple):
    """A factor's place on the bar, in % of its width."""

    name: str
    factor: float
    cost: float
    x: float
    width: float

    @property
    def gives(self) -> bool:
        """Whether it raises the score."""
        return self.cost < 0


def costs(components: Mapping[str, float]) -> list[Cost]:
    """What each factor costs; nothing where one is zero, for then the score is zero whatever the others are.

    >>> costs({"Q": 0.5, "Sim": 0.0})
    []
    """
    if any(factor <= 0 for factor in components.values()):
        return []
    return [Cost(name, factor, -math.log(factor) or 0.0) for name, factor in components.items()]


def bars(items: Sequence[Mapping[str, Any]]) -> list[list[FactorBar]]:
    """The bars of several scores, on one scale: the longest fills its width. What gives back overlaps the end of the bar.

    >>> [[(part.name, part.x, part.width) for part in bar] for bar in bars([{"components": {"Q": 0.25, "Aff": 2.0}}])]
    [[('Q', 0.0, 100.0), ('Aff', 50.0, 50.0)]]
    """
    told = [costs(item["components"]) for item in items]
    longest = max((sum(one.cost for one in each if one.cost > 0) for each in told), default=0.0) or 1.0
    return [_placed(each, 100 / longest) for each in told]


def _placed(told: Sequence[Cost], scale: float) -> list[FactorBar]:
    place, parts = 0.0, []
    for one in sorted(told, key=lambda one: one.cost < 0):  # what gives back comes last
        reached = place + one.cost * scale
        parts.append(FactorBar(*one, round(min(place, reached), 6), round(abs(one.cost) * scale, 6)))
        place = reached
    return parts
