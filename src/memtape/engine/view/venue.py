"""What the record of a followed account lacks, as it was stated by the cutoff."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from memtape.core.venue_coverage import read_coverage

if TYPE_CHECKING:
    from memtape.core.items import StoredItem
    from memtape.core.venue_coverage import VenueCoverage
    from memtape.engine.view.view import View


def coverage_at(view: View) -> VenueCoverage | None:
    """What was read of the agent's account and what was not; None if it follows no venue, or nothing was stated yet."""
    return latest_coverage(view.items("venue_coverage"))


def latest_coverage(stated: Iterable[StoredItem]) -> VenueCoverage | None:
    """The statement that was made last: it includes the ones before."""
    last = max(stated, key=lambda item: item.seq, default=None)
    return None if last is None else read_coverage(last.body)
