"""What a model answered at one tick of a simulation about one symbol: the item `tick_answer`, recorded before it is acted on.

The answer is kept as it was given, with its tokens and its cost. A run that continues after an interruption acts on the recorded
answers again and asks only for those that are missing. An answer that could not be used is recorded with the reason. It is no
decision: nothing is learned from it, and the model is not told of it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field

from memtape.core.codec import make_id
from memtape.core.decisions.runs import MAX_RUN_NOTE, Count, RunText
from memtape.core.observed import Run
from memtape.core.values import STRICT, Key, Label, ModelName, Price, Symbol, Time


@dataclass(frozen=True, slots=True, kw_only=True)
class TickAnswer:
    """The item `tick_answer`. It has either an answer with its decision, or why the tick was skipped."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    tick: Key
    symbol: Symbol
    at: Time
    model: ModelName
    digest: Annotated[Key, Field(description="hash of the prompt")]
    answer: Annotated[RunText | None, Field(description="the answer as JSON")] = None
    decision: Key | None = None
    skipped: Annotated[Label | None, Field(description="why there is no decision, like refused or rate_limited")] = None
    problem: Annotated[str | None, Field(max_length=MAX_RUN_NOTE)] = None
    input_tokens: Count | None = None
    cached_tokens: Annotated[Count | None, Field(description="of the input tokens, those from the provider's cache")] = None
    output_tokens: Count | None = None
    cost_usd: Price | None = None

    @property
    def key(self) -> str:
        """The key of the item: one answer for a tick and a symbol."""
        return answer_key(self.tick, self.symbol)

    @property
    def data(self) -> Any:
        """The answer."""
        return None if self.answer is None else json.loads(self.answer)

    @property
    def run(self) -> Run:
        """The execution that a decision from this answer names."""
        return Run(
            id=self.key, digest=self.digest, model=self.model, tokens_in=self.input_tokens, tokens_out=self.output_tokens,
            cost_usd=self.cost_usd,
        )  # fmt: skip


def answer_key(tick: str, symbol: str) -> str:
    """The key under which the answer of a tick about a symbol is recorded."""
    return make_id("tick_answer", tick, symbol)
