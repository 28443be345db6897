"""An episode: the memory of one trade, or of one decision not to trade, with the situation at its entry.

An episode is known from its exit on. Apart from the outcome, it contains only what was known at the entry. A late fill, a
correction or a label of the owner does not change it: the believed version ends (`known_to`) and a new one begins. A shadow is a
trade that was decided against, followed to its end on later bars. It is no trade, so it never counts for habits, affect or sizes.

Tiers say where an outcome comes from: 0 the venue, 1 the owner's records, 2 computed by memtape, 3 a model, 4 external text
(`core/sources.py`). A claim is an outcome that the agent itself reports (tier 3). It counts as long as there is no record of
tier 0 or 1. From then on a claim is `unverified`, and its outcome is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import ConfigDict, Field

from memtape.core.codec import plain
from memtape.core.ids import MemoryId
from memtape.core.labels import folded
from memtape.core.observed import Side, Situation
from memtape.core.value_class import dataclass
from memtape.core.values import STRICT, Label, Line
from memtape.errors import Invalid

Kind = Literal["trade", "shadow"]
RSource = Literal["stop", "atr_proxy", "stated", "money"]  # money: never stored, see `outcome_units`
Teach = Literal["learn", "exclude", "wrong_reason", "structural", "anomaly"]
NOT_TAUGHT = frozenset({"exclude", "anomaly"})  # labels of the owner that exclude a trade from all statistics


class Episode(NamedTuple):
    """One version of one episode. It is a named tuple for speed: there can be hundreds of thousands."""

    id: MemoryId  # the trade's own id, or the shadow's
    known_from: datetime
    known_to: datetime | None  # until when this version was believed; None: still
    kind: Kind
    symbol: str
    strategy: str
    side: Side
    tier: int
    claimed: bool  # True if only the agent reported the outcome
    source: str  # who reported it: a venue, `records`, or the name of the agent that claims it
    entry_at: datetime
    exit_at: datetime
    pnl_r: float | None  # outcome in units of initial risk
    r_source: RSource | None
    pnl_usd: float | None  # net, in the account currency
    hold_minutes: float | None
    risk_share: float | None  # 1R as a share of equity at entry
    mfe_r: float | None
    mae_r: float | None
    target_r: float | None  # distance of the target, in R
    stop_atr: float | None  # distance of the stop, in ATR
    partial_r: float | None  # where the first part was closed, in R
    late_atr: float | None  # how much worse the entry price was than the decided price, in ATR
    move_atr: float | None  # the 20-bar move before entry, in ATR
    trigger: str | None  # what closed it, if the source says so: stop, target, manual
    confidence: float | None  # of the decision, 0 to 1
    teach: Teach
    regime: str | None
    volatility_regime: str | None
    session: str | None
    price: float | None
    atr_d1: float | None
    atr_h1: float | None
    atr_m5: float | None
    spread_points: float | None
    spread_as_atr_pct: float | None
    drawdown_pct: float | None
    consecutive_losses: int | None
    reflection: str | None
    tags: tuple[str, ...]

    @property
    def situation(self) -> Situation:
        """The situation at entry."""
        ratio = self.atr_h1 / self.atr_d1 if self.atr_h1 is not None and self.atr_d1 else None
        return Situation(
            symbol=self.symbol, price=self.price, atr_d1=self.atr_d1, atr_h1=self.atr_h1, atr_m5=self.atr_m5,
            atr_ratio_h1_d1=ratio, regime=self.regime, volatility_regime=self.volatility_regime, session=self.session,
            hour_utc=self.entry_at.hour, day_of_week=self.entry_at.weekday(), spread_points=self.spread_points,
            spread_as_atr_pct=self.spread_as_atr_pct, drawdown_pct=self.drawdown_pct,
            consecutive_losses=self.consecutive_losses,
        )  # fmt: skip

    @property
    def teaches(self) -> bool:
        """True if it may be used in statistics: a trade that the owner has not excluded."""
        return self.kind == "trade" and self.teach not in NOT_TAUGHT


EPISODE_FIELDS = Episode._fields
_Level = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """A correction of an episode: words and labels, and the outcome if it is the agent's own claim."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    reflection: Line | None = None
    confidence: Annotated[float, Field(ge=0, le=1)] | None = None
    tags: Annotated[tuple[Label, ...], Field(max_length=16)] | None = None
    strategy: Label | None = None
    teach: Teach | None = None
    regime: Annotated[Label | None, folded("regime")] = None
    volatility_regime: Annotated[Label | None, folded("volatility")] = None
    session: Annotated[Label | None, folded("session")] = None
    price: _Level | None = None
    atr_d1: _Level | None = None
    atr_h1: _Level | None = None
    atr_m5: _Level | None = None
    spread_as_atr_pct: _Level | None = None
    drawdown_pct: _Level | None = None
    pnl_r: Annotated[float, Field(allow_inf_nan=False)] | None = None
    pnl_usd: Annotated[float, Field(allow_inf_nan=False)] | None = None

    def stated(self) -> dict[str, Any]:
        """Returns the stated fields as plain data. Raises `Invalid` if there are none."""
        stated: dict[str, Any] = plain(self)
        if not stated:
            raise Invalid("changes", "is empty", "Name at least one field and its right value")
        return stated


def known_episodes(episodes: Iterable[Episode], as_of: datetime) -> list[Episode]:
    """Returns the episodes known at a moment, each in the version believed then; none before its exit."""
    return [e for e in episodes if e.exit_at <= as_of and e.known_from <= as_of and (e.known_to is None or e.known_to > as_of)]


def believed_outcome(episode: Episode, claims_count: bool) -> float | None:
    """Returns the believed outcome in R; None if it is unknown or an unverified claim."""
    return None if episode.claimed and not claims_count else episode.pnl_r
