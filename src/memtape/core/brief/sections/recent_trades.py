"""The section "recent_trades": the newest closed trades, each in a short row. It ends what a provider can cache of a prompt."""

from __future__ import annotations

from memtape.core.brief.budget import BriefLine, LinePriority
from memtape.core.brief.free_text import AGENT, OWN_REASON
from memtape.core.brief.inputs import BriefInputs
from memtape.core.brief.references import brief_short_ids, shown_signals
from memtape.core.brief.section_register import section
from memtape.core.brief.trade_text import closed_trade_line, closed_trade_row, trade_refs
from memtape.core.ledger.trades import Trade


@section(
    "recent_trades", role="user", order=20, heading="## Recent trades on this skill (closed)", max_tokens=1_600,
    from_memory=True, citable=True, stable=True,
)  # fmt: skip
def recent_trades_section(inputs: BriefInputs) -> list[BriefLine]:
    """Returns the closed trades, the newest entry first, as many signals as the skill asks for."""
    newest = shown_signals(inputs)
    if inputs.skill.context.memory.rows == "seed":
        return [_seed_row(trade) for (trade,) in newest]
    above, short = (None, *(trades[0] for trades in newest)), brief_short_ids(inputs)
    return [closed_trade_row(trades, short.reference(trades[0].id), above[at]) for at, trades in enumerate(newest)]


def _seed_row(trade: Trade) -> BriefLine:
    author = AGENT if trade.quality == "claimed" else OWN_REASON
    free = ((author, trade.entry_reason),) if trade.entry_reason else ()
    return BriefLine(
        closed_trade_line(trade), trade_refs(trade), LinePriority.RECENT, free=free,
        bare=closed_trade_line(trade._replace(entry_reason=None)),
    )  # fmt: skip
