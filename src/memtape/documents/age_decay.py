"""How much less an old note counts, if a search asks for that. Rules and other texts of the owner never lose anything by age."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from memtape.documents.filters import nanoseconds

DECAYING_TYPES = frozenset({"journal", "log", "memory", "note", "transcript", "trace"})
_DAY = 86_400_000_000_000  # nanoseconds


@dataclass(frozen=True, slots=True)
class AgeDecay:
    """After so many days a note counts half.

    >>> from datetime import UTC, timedelta
    >>> now = datetime(2026, 5, 12, tzinfo=UTC)
    >>> decay = AgeDecay(now, 30)
    >>> decay.share("journal", nanoseconds(now - timedelta(days=30))), decay.share("rules", 0)
    (0.5, 1.0)
    """

    now: datetime
    half_life_days: float

    def share(self, type: str, dated: int) -> float:
        """Returns what is left of the score of a document."""
        if type not in DECAYING_TYPES:
            return 1.0
        age_days = max(nanoseconds(self.now) - dated, 0) / _DAY
        return float(0.5 ** (age_days / self.half_life_days))
