"""What a model was asked in a run and what that cost: questions, decisions, skipped ticks, tokens and US dollars.

>>> use = ModelUse("openai/qwen3:8b")
>>> use.as_dict()["cost_usd"], use.as_dict()["skipped"]
('0', {})
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from memtape.core.codec import decimal_text, time_text
from memtape.core.decisions.tick_answers import TickAnswer
from memtape.core.lessons.reflection import LessonUse
from memtape.core.values import ZERO

UNKNOWN_COST = "unknown"
QUESTION_COLUMNS = (
    "t", "symbol", "action", "decision", "skipped", "problem", "input_tokens", "cached_tokens", "output_tokens", "cost_usd",
)  # fmt: skip


@dataclass(slots=True)
class ModelUse:
    """The answers of a model during a run, replayed ones included. `ended` says why the run ends before its bars do."""

    model: str
    answers: list[TickAnswer] = field(default_factory=list)
    lessons: tuple[LessonUse, ...] = ()  # drawn by a model between the ticks, which is paid too
    ended: str | None = None

    @property
    def decisions(self) -> int:
        """How many answers became a decision."""
        return sum(answer.skipped is None for answer in self.answers)

    @property
    def skipped(self) -> dict[str, int]:
        """Skipped ticks by reason."""
        return dict(sorted(Counter(answer.skipped for answer in self.answers if answer.skipped is not None).items()))

    @property
    def tokens(self) -> tuple[int, int, int]:
        """Input tokens, those of them that came from the provider's cache, and output tokens, as far as the provider says."""
        counts = [(a.input_tokens or 0, a.cached_tokens or 0, a.output_tokens or 0) for a in self.answers]
        return sum(c[0] for c in counts), sum(c[1] for c in counts), sum(c[2] for c in counts)

    @property
    def cost_usd(self) -> Decimal | None:
        """What all answers cost; None if the price of one is unknown. A request that failed without an answer costs nothing."""
        if any(a.cost_usd is None and (a.answer is not None or a.input_tokens) for a in self.answers):
            return None
        return sum((a.cost_usd for a in self.answers if a.cost_usd is not None), ZERO)

    @property
    def lessons_cost_usd(self) -> Decimal | None:
        """What the lessons cost; None if the price of one is unknown."""
        costs = [lesson.cost_usd for lesson in self.lessons]
        return None if None in costs else sum((cost for cost in costs if cost is not None), ZERO)

    @property
    def spent_usd(self) -> Decimal | None:
        """What answers and lessons cost; None if the price of one is unknown."""
        answers, lessons = self.cost_usd, self.lessons_cost_usd
        return None if answers is None or lessons is None else answers + lessons

    @property
    def spent_tokens(self) -> int:
        """The tokens of answers and lessons, input and output."""
        given, _, written = self.tokens
        return given + written + sum(lesson.input_tokens + lesson.output_tokens for lesson in self.lessons)

    def as_dict(self) -> dict[str, Any]:
        """Returns JSON data."""
        given, cached, written = self.tokens
        n, cost = self.decisions, self.cost_usd
        lessons = {
            "questions": len(self.lessons), "cost_usd": cost_text(self.lessons_cost_usd),
            "input_tokens": sum(lesson.input_tokens for lesson in self.lessons),
            "output_tokens": sum(lesson.output_tokens for lesson in self.lessons),
        }  # fmt: skip
        with_lessons = {"lessons": lessons, "total_cost_usd": cost_text(self.spent_usd)} if self.lessons else {}
        return {
            "questions": len(self.answers), "decisions": n, "skipped": self.skipped, "input_tokens": given,
            "cached_tokens": cached, "output_tokens": written, "cost_usd": cost_text(cost),
            "tokens_per_decision": round((given + written) / n) if n else None,
            "cost_usd_per_decision": None if not n else cost_text(None if cost is None else cost / n),
        } | with_lessons  # fmt: skip

    def rows(self) -> list[dict[str, Any]]:
        """Returns one row for each question."""
        rows = []
        for a in self.answers:
            cells = (
                time_text(a.at), a.symbol, None if a.skipped else a.data["action"], a.decision, a.skipped, a.problem,
                a.input_tokens, a.cached_tokens, a.output_tokens, None if a.cost_usd is None else decimal_text(a.cost_usd),
            )  # fmt: skip
            rows.append(dict(zip(QUESTION_COLUMNS, cells, strict=True)))
        return rows


def cost_text(cost: Decimal | None) -> str:
    """Returns a cost in US dollars with six places.

    >>> cost_text(Decimal("0.00270000")), cost_text(Decimal(0)), cost_text(None)
    ('0.0027', '0', 'unknown')
    """
    return UNKNOWN_COST if cost is None else decimal_text(Decimal(f"{cost:.6f}"))
