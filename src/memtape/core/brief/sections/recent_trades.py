"""The section "recent_trades": the newest closed trades."""

from __future__ import annotations

from memtape.core.brief.budget import BriefLine, LinePriority
from memtape.core.brief.inputs import BriefInputs
from memtape.core.brief.section_register import section
from memtape.core.brief.trade_text import closed_trade_line, trade_source
from memtape.core.ledger.trades import entry_order


@section(
    "recent_trades", role="user", order=20, heading="## Recent trades on this skill (closed)", max_tokens=1_600, from_memory=True
)
def recent_trades_section(inputs: BriefInputs) -> list[BriefLine]:
    """Returns the closed trades, the newest entry first, as many as the skill asks for."""
    closed = sorted((trade for trade in inputs.recent if trade.exit_at is not None), key=entry_order, reverse=True)
    newest = closed[: inputs.skill.context.memory.recentTradesK]
    return [BriefLine(closed_trade_line(trade), trade_source(trade), LinePriority.RECENT) for trade in newest]
