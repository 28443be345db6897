"""A belief as somebody states it: in such a situation, trades end so. Checked before it is stored."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from memtape.core.value_class import dataclass
from memtape.core.values import STRICT, Key, Label, Line, Symbol, require_storable


@dataclass(frozen=True, slots=True, kw_only=True)
class BeliefStatement:
    """What a stated belief may say. What is not stated is left out of the log, so that a better default serves old rows too."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    sentence: Annotated[Line, Field(min_length=1)]
    when: dict[str, Any]
    metric: Literal["pnl_r", "pnl_usd", "hold_minutes", "mfe_r", "mae_r"] | None = None
    op: Literal["gt", "ge", "lt", "le"] | None = None
    value: Annotated[float, Field(allow_inf_nan=False)] | None = None
    strategy: Label | None = None
    symbol: Symbol | None = None
    id: Key | None = None
    tier: Annotated[int, Field(ge=1, le=4)] | None = None
    alpha: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    beta: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    rate: Annotated[float, Field(ge=0, le=1)] | None = None
    later_only: bool | None = None

    def checked(self) -> BeliefStatement:
        """Returns the statement if the log can hold its condition. Raises `Invalid` if not."""
        require_storable(self.when, "when")
        return self
