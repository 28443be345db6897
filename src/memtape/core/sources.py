"""Who reported a trade, in the words that every answer uses: the venue, the owner's records, or the agent itself.

Tiers say how far a record is trusted. Tier 0 is the venue itself: what a live reader or the paper broker delivers. Tier 1 are the
owner's records: imported files, and what the owner reports in Python, on the command line or over HTTP. Tier 3 is what a model
reports. An outcome that memtape had to infer is of tier 2, even if its inputs came from the venue.

>>> source_phrase(["venue"]), source_phrase(["records", "venue"]), source_phrase(["agent"])
('from the venue', 'from the venue and your records', 'claimed by the agent')
>>> source_phrase(["agent", "records"]), source_phrase([])
('from your records and claimed by the agent', 'no trades yet')
>>> source_of_trade("fills", "hyperliquid"), source_of_trade("reported", None), source_of_trade("claimed", "my-model")
('venue', 'records', 'agent')
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

TradeSource = Literal["venue", "records", "agent"]
OUTCOME_SOURCES: tuple[TradeSource, ...] = ("venue", "records", "agent")
# Who reports a trade, as trades and episodes name it: a venue by its name, the paper broker, or (of an episode) the records.
PAPER_BROKER, RECORDS = "paper broker", "records"
TIER_WORDS: Mapping[int, str] = {0: "the venue", 1: "your records", 2: "computed", 3: "model", 4: "external text"}
INFERRED_TIER = 2
_TIER_OF_SOURCE: Mapping[TradeSource, int] = {"venue": 0, "records": 1, "agent": 3}


def source_of_trade(quality: str, reporter: str | None) -> TradeSource:
    """Returns who reported a trade; `reporter` is the venue that delivered it, or the name that the agent gives itself."""
    if quality == "claimed":
        return "agent"
    return "venue" if reporter is not None else "records"


def trade_tier(quality: str, source: TradeSource) -> int:
    """Returns the tier of a trade's outcome.

    >>> trade_tier("fills", "venue"), trade_tier("reported", "records"), trade_tier("inferred", "venue")
    (0, 1, 2)
    """
    return INFERRED_TIER if quality in ("inferred", "unpriced") else _TIER_OF_SOURCE[source]


def source_of_episode(claimed: bool, reporter: str) -> TradeSource:
    """Returns who reported an episode: its `reporter` is RECORDS where a trade has none."""
    return source_of_trade("claimed" if claimed else "", None if reporter == RECORDS else reporter)


def source_phrase(sources: Iterable[TradeSource]) -> str:
    """Returns the sources of the trades behind an answer, in words."""
    found = set(sources)
    if not found:
        return "no trades yet"
    words = " and ".join(text for name, text in (("venue", "the venue"), ("records", "your records")) if name in found)
    parts = ([f"from {words}"] if words else []) + (["claimed by the agent"] if "agent" in found else [])
    return " and ".join(parts)
