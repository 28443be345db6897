"""Decision makers: a built-in rule, a rule that follows its memory, a function of yours, or a model.

- `breakout`, `mean_reversion`: never look at memory.
- `breakout_with_memory`, `mean_reversion_with_memory`: the same rules, which ask memory before each entry. They leave it out if
  memory is against it and take half the size if memory says caution (`core/trial/advice`).
- `file.py:function` or `module:function`: `function(history, position, equity)`, or with a fourth parameter `memory`
  (`ArmMemory`).
- `openai/NAME`, `anthropic/NAME`: a model, asked as in `memtape sim`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, Decimal
from pathlib import Path
from typing import Any, Literal, cast

from memtape.core.brief.sanitize import cap_length
from memtape.core.codec import digest
from memtape.core.near_names import near_names
from memtape.core.observed import Bar
from memtape.core.values import REASON_LENGTH
from memtape.errors import Invalid
from memtape.lab.trial.arm_memory import ArmMemory
from memtape.lab.user_functions import call_function, load_function
from memtape.sim.orders import LOT, Position
from memtape.sim.strategies import STRATEGIES, OrderProposal, Strategy

WITH_MEMORY = "_with_memory"
RULES = (*STRATEGIES, *(f"{name}{WITH_MEMORY}" for name in STRATEGIES))
HALF = Decimal("0.5")
DeciderKind = Literal["rule", "function", "model"]


@dataclass(frozen=True, slots=True)
class DeciderName:
    """A decision maker by name, and the hash of its code where it is a file."""

    name: str
    kind: DeciderKind
    code: str | None = None

    @classmethod
    def read(cls, name: str) -> DeciderName:
        """Reads a name. Raises Invalid if there is no such decision maker."""
        if "/" in name and ".py:" not in name:
            return cls(name, "model")
        if ":" in name:
            source = inspect.getsourcefile(load_function(name, "strategy"))
            return cls(name, "function", None if source is None else digest(Path(source).read_text(encoding="utf-8")))
        if name not in RULES:
            near = near_names(name, RULES)
            fix = f"Choose one of {', '.join(RULES)}, file.py:function, or a model like anthropic/claude-haiku-4-5"
            raise Invalid("strategy", f"there is no strategy '{name}'", f"Did you mean {near[0]}?" if near else fix)
        return cls(name, "rule")

    @property
    def shown(self) -> str:
        """The name in a report: without the folder of a file."""
        return Path(self.name).name if self.kind == "function" else self.name


def rule_or_function(name: DeciderName, memory: ArmMemory) -> Strategy:
    """Returns a fresh decision maker for one run: what it remembers by itself does not pass from arm to arm."""
    if name.kind == "function":
        return _function_strategy(name.shown, load_function(name.name, "strategy"), memory)
    rule = STRATEGIES[name.name.removesuffix(WITH_MEMORY)]()
    return AdvisedStrategy(rule, memory) if name.name.endswith(WITH_MEMORY) else rule


@dataclass(frozen=True, slots=True)
class AdvisedStrategy:
    """A rule that asks memory before each entry, and skips it or halves its size if memory says so."""

    rule: Strategy
    memory: ArmMemory

    def __call__(self, history: Sequence[Bar], position: Position, equity: Decimal) -> list[OrderProposal]:
        """Returns the rule's proposals as memory advises."""
        return [self._advised(proposal) for proposal in self.rule(history, position, equity)]

    def _advised(self, proposal: OrderProposal) -> OrderProposal:
        decision = proposal.decision
        side = decision.stated_side
        if decision.action not in ("buy", "sell") or decision.symbol is None or side is None:
            return proposal
        found = self.memory.advice(decision.symbol, side)
        if found.advised == "skip":
            reason = cap_length(f"Passed, by memory: {found.why}", REASON_LENGTH)
            return OrderProposal(replace(decision, action="no_trade", side=side, qty=None, reason=reason))
        if found.advised == "take":
            return proposal
        orders = tuple(replace(order, qty=_half(order.qty)) for order in proposal.orders)
        reason = cap_length(f"{decision.reason} Half the size, by memory: {found.why}", REASON_LENGTH)
        return OrderProposal(replace(decision, qty=orders[0].qty, reason=reason), orders)


def _half(qty: Decimal) -> Decimal:
    return max((qty * HALF).quantize(LOT, rounding=ROUND_DOWN), LOT)


def _function_strategy(name: str, function: Callable[..., Any], memory: ArmMemory) -> Strategy:
    asks = len(inspect.signature(function).parameters) >= 4

    def strategy(history: Sequence[Bar], position: Position, equity: Decimal) -> Sequence[OrderProposal]:
        given = (history, position, equity, memory) if asks else (history, position, equity)
        found = call_function("strategy", name, function, *given)
        if found is None:
            return ()
        proposals = cast(Sequence[OrderProposal], found)
        if isinstance(found, Mapping | str) or not all(isinstance(one, OrderProposal) for one in proposals):
            raise Invalid("strategy", "the function returned something else than proposals", "Return a list of OrderProposal")
        return proposals

    return strategy
