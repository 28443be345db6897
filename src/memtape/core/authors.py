"""Who caused a row of the log, and how far that author is trusted. Every new row records both.

The author is who called: the owner, a model, or the venue (a live reader, the paper broker). The tier is what the row counts for.
They differ for a model that the owner lets report for the account: it is the author, and its reports count as the owner's.

>>> stamped('{"concluded":[]}', MODEL_AUTHOR)
'{"author":"model","concluded":[],"tier":3}'
>>> author_of_payload({"author": "model", "concluded": [], "tier": 3}) == MODEL_AUTHOR
True
>>> author_of_payload({"concluded": []}) == OWNER_AUTHOR
True
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from memtape.core.value_class import dataclass

AuthorName = Literal["owner", "model", "venue"]


@dataclass(frozen=True, slots=True)
class LogAuthor:
    """Who caused a row, and its tier: 0 the venue, 1 the owner, 3 a model."""

    name: AuthorName
    tier: int


VENUE_AUTHOR, OWNER_AUTHOR, MODEL_AUTHOR = LogAuthor("venue", 0), LogAuthor("owner", 1), LogAuthor("model", 3)
REPORTING_MODEL = LogAuthor("model", 1)  # started with `--reports operator`


def stamped(payload: str, author: LogAuthor) -> str:
    """Returns a payload in canonical JSON with its author and tier: by their names the first and the last of its keys."""
    return f'{{"author":"{author.name}",{payload[1:-1]},"tier":{author.tier}}}'


def author_of_payload(payload: Mapping[str, Any]) -> LogAuthor:
    """Returns who caused the row of a payload. Rows that were written before authors were recorded count as the owner's."""
    return LogAuthor(payload["author"], payload["tier"]) if "author" in payload else OWNER_AUTHOR
