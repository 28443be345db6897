"""The briefs that a process made last: recording one as shown need not make it again."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memtape.engine.brief_question import AssembledBrief

CACHED_BRIEFS = 64  # briefs that are kept


class BriefCache:
    """The briefs that this process made last, by agent and receipt."""

    def __init__(self) -> None:
        self._by_receipt: OrderedDict[tuple[str, str], AssembledBrief] = OrderedDict()
        self._lock = Lock()

    def put(self, assembled: AssembledBrief) -> None:
        """Keep a brief; the oldest leaves where there are too many."""
        with self._lock:
            self._by_receipt[assembled.agent, assembled.receipt] = assembled
            self._by_receipt.move_to_end((assembled.agent, assembled.receipt))
            while len(self._by_receipt) > CACHED_BRIEFS:
                self._by_receipt.popitem(last=False)

    def find(self, agent: str, receipt: str) -> AssembledBrief | None:
        """The brief of a receipt, if it is still kept."""
        with self._lock:
            return self._by_receipt.get((agent, receipt))
