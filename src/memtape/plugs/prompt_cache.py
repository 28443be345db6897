"""Which parts of a question Anthropic may cache: the last block that seldom changes is marked with `cache_control`.

A provider reads a question from its beginning: tools, system text, then messages. What it has read up to a mark it keeps for a
few minutes, and a question that begins with the same bytes pays a tenth for them. Two marks are set, of the four that are
allowed: at the end of the system text, and at the end of the records that stay the same from tick to tick. A mark before which
there are too few tokens has no effect, so it is not set; the minimum depends on the model.

>>> min_cached_tokens("claude-sonnet-4-5"), min_cached_tokens("claude-haiku-4-5-20251001"), min_cached_tokens("claude-3-5-haiku")
(1024, 4096, 2048)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memtape.core.brief.token_estimate import estimate_tokens

EPHEMERAL = {"type": "ephemeral"}
# The first name that a model's name contains decides.
MIN_TOKENS: tuple[tuple[str, int], ...] = (
    ("opus-4-5", 4096), ("opus-4-6", 4096), ("opus-5", 4096), ("haiku-4-5", 4096), ("haiku-5", 4096), ("haiku", 2048),
)  # fmt: skip
USUAL_MIN_TOKENS = 1024
Block = dict[str, Any]


def min_cached_tokens(model: str) -> int:
    """Returns the tokens from which a model's provider caches the beginning of a question."""
    return next((tokens for name, tokens in MIN_TOKENS if name in model), USUAL_MIN_TOKENS)


@dataclass(frozen=True, slots=True)
class CacheMarks:
    """Sets the marks of one question. `before` are the tokens that stand before the system text: the tools."""

    model: str
    system: str
    before: int = 0

    def system_blocks(self) -> str | list[Block]:
        """Returns the system text, as a marked block if it is long enough."""
        if self.before + estimate_tokens(self.system) < min_cached_tokens(self.model) or not self.system.strip():
            return self.system
        return [{"type": "text", "text": self.system, "cache_control": EPHEMERAL}]

    def user_blocks(self, user: str, stable_chars: int, earlier: int = 0) -> str | list[Block]:
        """Returns the user's text, cut behind what seldom changes if that is long enough. `earlier` are tokens before it."""
        stable, changing = user[:stable_chars], user[stable_chars:]
        tokens = self.before + estimate_tokens(self.system) + earlier + estimate_tokens(stable)
        # The provider refuses a block without text.
        if tokens < min_cached_tokens(self.model) or not stable.strip() or not changing.strip():
            return user
        return [{"type": "text", "text": stable, "cache_control": EPHEMERAL}, {"type": "text", "text": changing}]


def tool_tokens(tools: Sequence[Mapping[str, Any]]) -> int:
    """Returns the tokens of the tools of a question."""
    return sum(estimate_tokens(json.dumps(tool)) for tool in tools)
