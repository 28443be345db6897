"""Skills and agents: the strategy, its limits, and the configuration of its memory.

A skill is a versioned strategy: creating it with different content makes the next version. An agent is one running instance of a
skill on one account, in mode sim, paper or live; its mode never changes.
"""

from __future__ import annotations

import re
from dataclasses import field, replace
from decimal import Decimal
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from memtape.core.ids import AgentId, SkillId
from memtape.core.ledger.excursions import MfeMode
from memtape.core.ledger.terms import AccountTerms, TradeUnit
from memtape.core.value_class import dataclass
from memtape.core.values import SLUG, STRICT, ZERO, Currency, Label, Line, Price, Quantity, Text

Mode = Literal["sim", "paper", "live"]
LIVE_SETTLE_SECONDS = 30
ASSUMED_EQUITY = Decimal(10_000)  # of an account whose equity nobody stated
_DRAWDOWN_NAMES = frozenset({"drawdown", "maxdrawdown", "maxdrawdownpct", "drawdownlimit", "maximumdrawdown", "maxdd"})
_PERCENTAGE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<percent>%|percent)?")
LongText = Annotated[str, Field(max_length=20_000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectionConfig:
    """When lessons are made, and by which reflector."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    cadence: Literal["off", "per_n_trades", "daily"] = "per_n_trades"
    everyNTrades: Annotated[int, Field(ge=2, le=100)] = 10
    dailyHourUtc: Annotated[int, Field(ge=0, le=23)] = 0
    model: Label = "stats"
    expireDays: Annotated[int, Field(ge=0, le=3650)] = 90  # how long a lesson is shown; 0: until it is superseded


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryConfig:
    """Which parts of its memory an agent sees. Unknown keys are rejected; a payload without this block gets the defaults."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    enabled: bool = True
    recentTradesK: Annotated[int, Field(ge=0, le=30)] = 10
    rows: Literal["short", "seed"] = "short"  # how a recent trade is written; seed: the longer form with size, both times and MFE
    includeOpenPositions: bool = True
    reflection: ReflectionConfig = field(default_factory=ReflectionConfig)
    similarSituations: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillContext:
    """The context block of a skill."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    memory: MemoryConfig = field(default_factory=MemoryConfig)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """One version of a strategy."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    id: Annotated[SkillId, SLUG]
    name: Annotated[Text, Field(max_length=120)] = ""
    strategy: LongText = ""
    avoid: Annotated[tuple[Line, ...], Field(max_length=64)] = ()
    limits: Annotated[dict[Label, Line], Field(max_length=32)] = field(default_factory=dict)
    context: SkillContext = field(default_factory=SkillContext)
    author: Annotated[Literal["model"] | None, Field(description="model: a model wrote this version; absent: the owner")] = None

    @property
    def is_owners(self) -> bool:
        """True if the owner wrote this version: only then are its limits and avoid rules the owner's."""
        return self.author is None

    @property
    def drawdown_limit(self) -> float | None:
        """The largest drawdown that the owner's limits allow, as a share; None if the owner set none that can be read.

        >>> Skill(id="a", limits={"Max drawdown": "15 %"}).drawdown_limit, Skill(id="a", limits={"risk": "1 %"}).drawdown_limit
        (0.15, None)
        """
        for name, text in self.limits.items() if self.is_owners else ():
            found = _PERCENTAGE.fullmatch(text.strip())
            if found and "".join(letter for letter in name.lower() if letter.isalpha()) in _DRAWDOWN_NAMES:
                share = float(found["number"]) / (100 if found["percent"] or float(found["number"]) > 1 else 1)
                return share if 0 < share <= 1 else None
        return None

    def with_memory(self, memory: MemoryConfig) -> Skill:
        """Returns the skill with another memory configuration."""
        return replace(self, context=replace(self.context, memory=memory))


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """The settings of an agent that never change."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    currency: Currency = "USD"
    mfe_mode: MfeMode = "hl_strict"
    dust_qty: Price = ZERO
    starting_equity: Quantity = ASSUMED_EQUITY
    settle_seconds: Annotated[
        int | None,
        Field(ge=0, le=3600, description="how long a snapshot may lag behind the fills; default: 0 in a simulation, else 30"),
    ] = None
    trade_unit: Annotated[
        TradeUnit | None,
        Field(description="flat_to_flat (default): one trade per round trip; fifo_lots: one per lot and reduction"),
    ] = None
    equity_stated: Annotated[
        bool | None, Field(description="true: a starting_equity of 10,000 was stated; it is assumed where nobody states one")
    ] = None

    @property
    def stated_equity(self) -> Decimal | None:
        """What the account started with; None if nobody stated it, so that no share of it says anything."""
        stated = self.starting_equity != ASSUMED_EQUITY if self.equity_stated is None else self.equity_stated
        return self.starting_equity if stated else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """One running instance of a skill."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    id: Annotated[AgentId, SLUG]
    skill: Annotated[SkillId, SLUG]
    skill_version: Annotated[int, Field(ge=1)] = 1
    mode: Mode = "paper"
    settings: AgentSettings = field(default_factory=AgentSettings)

    def terms(self) -> AccountTerms:
        """Returns what the ledger needs to know about the agent."""
        own = self.settings
        return AccountTerms(
            agent=self.id, skill_id=self.skill, currency=own.currency, dust_qty=own.dust_qty, mfe_mode=own.mfe_mode,
            settle_seconds=self.settle_seconds, trade_unit=own.trade_unit or "flat_to_flat",
        )  # fmt: skip

    @property
    def settle_seconds(self) -> int:
        """How long a snapshot of this account may lag behind its fills, or run ahead of them."""
        if self.settings.settle_seconds is not None:
            return self.settings.settle_seconds
        return 0 if self.mode == "sim" else LIVE_SETTLE_SECONDS


# The placeholder agent of the owner's own stream, which belongs to no agent.
DEFAULT_AGENT = "main"  # the agent of a call that names none
OWNER_AGENT = Agent(id=AgentId("owner"), skill=SkillId("owner"))
