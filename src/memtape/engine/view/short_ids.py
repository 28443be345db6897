"""Short ids of briefs: the record that an answer means by them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memtape.core.brief.short_ids import MIN_DIGITS, resolve_short_id
from memtape.errors import Invalid

if TYPE_CHECKING:
    from memtape.engine.view.view import View

ID_DIGITS = 16
BRIEFS_SEARCHED = 20  # the last briefs that were shown, in which a short id is looked for first
NAMED_CANDIDATES = 3


def full_trade_id(view: View, id: str, field: str = "trade_id") -> str:
    """The id of the trade that a short id stands for; an id that is not short, or that no trade begins with, stays as it is.

    The briefs that were shown last come first, because their short ids were made to tell their own records apart.
    """
    given = id.strip().strip("[]")
    if not MIN_DIGITS <= len(given) < ID_DIGITS or view.trade(id) is not None:
        return id
    digests = [item.body["digest"] for item in view.items("shown", newest=True, limit=BRIEFS_SEARCHED)]
    for item in view.items("brief", keys=digests) if digests else []:
        found = [one for one in resolve_short_id(given, item.body.get("cited", ())) if view.closed_trades([one])]
        if len(found) == 1:
            return found[0]
    known = resolve_short_id(given, (trade.id for trade in view.trades()))
    if len(known) > 1:
        some = ", ".join(known[:NAMED_CANDIDATES])
        raise Invalid(field, f"'{given}' stands for {len(known)} trades ({some}, ...)", "Give more of its digits")
    return known[0] if known else id
