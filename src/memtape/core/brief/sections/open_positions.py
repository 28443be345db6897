"""The section "open_positions": what the agent holds, and where broker and record disagree.

A position with a stop or a target always has a line of its own: its plan is still open. Of the others the largest have one, and
the rest share a line with symbol, side, size and id, so that a wide portfolio does not fill the brief. Of positions that only the
agent claims the newest have a line, with or without a stop, and the rest are counted: it could claim any number of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memtape.core.brief.budget import BriefLine
from memtape.core.brief.inputs import BriefInputs, OpenPosition, SourceRef
from memtape.core.brief.number_format import format_minute, format_number
from memtape.core.brief.references import brief_short_ids
from memtape.core.brief.sanitize import safe_name
from memtape.core.brief.section_register import section
from memtape.core.brief.trade_text import merged_lots, more_positions_line, open_lots_line, open_position_line, size_of_lots
from memtape.core.discrepancy_text import discrepancy_text
from memtape.core.events import Discrepancy
from memtape.core.venue_coverage import VenueCoverage, missing_notes

MAX_POSITION_LINES = 8  # of positions with a line of their own; those with a stop or a target have one in any case
CLAIMED = "claimed"  # the quality of a trade that nobody but the agent reported
MAX_DISCREPANCY_LINES = 5  # if there are more, a last line counts them


Lots = tuple[OpenPosition, ...]


def shows_positions(inputs: BriefInputs) -> bool:
    """Returns True if the skill wants its open positions in the brief."""
    config = inputs.skill.context.memory
    return config.enabled and config.includeOpenPositions


@section("open_positions", role="user", order=30, heading="## Open positions (memory view)", from_memory=True, citable=True)
def open_positions_section(inputs: BriefInputs) -> Iterator[BriefLine]:
    """Yields the positions, then the discrepancies."""
    if not shows_positions(inputs):
        return
    short = brief_short_ids(inputs)
    claimed = sorted((each for each in inputs.holding if each.trade.quality == CLAIMED), key=lambda each: each.trade.entry_at)
    left_out = frozenset(each.trade.id for each in claimed[:-MAX_POSITION_LINES])
    alone, together = _divided(merged_lots(each for each in inputs.holding if each.trade.id not in left_out))
    for lots in alone:
        reference = short.reference(lots[0].trade.id)
        one = open_position_line(lots[0], inputs.as_of, reference)
        yield one if len(lots) == 1 else open_lots_line(lots, inputs.as_of, reference)
    if together:
        yield more_positions_line(together, [short.reference(lots[0].trade.id) for lots in together])
    if left_out:
        yield BriefLine(f"- {len(left_out)} more that the agent claims")
    yield from discrepancy_lines(inputs.discrepancies)
    yield from missing_lines(inputs.coverage)


def _divided(held: Sequence[Lots]) -> tuple[list[Lots], list[Lots]]:
    """Returns the positions with a line of their own, and those that share one. A single one would not make it shorter."""
    plain = [at for at, lots in enumerate(held) if lots[0].trade.stop_price is None and lots[0].trade.target_price is None]
    room = max(0, MAX_POSITION_LINES - (len(held) - len(plain)))
    small = set(sorted(plain, key=lambda at: (-size_of_lots(held[at]), at))[room:])
    if len(small) < 2:
        return list(held), []
    return [lots for at, lots in enumerate(held) if at not in small], [held[at] for at in sorted(small)]


def missing_lines(coverage: VenueCoverage | None) -> Iterator[BriefLine]:
    """Yields a line for each thing that the record of a followed account lacks."""
    for note in missing_notes(coverage, safe_name) if coverage is not None else ():
        yield BriefLine(f"- Not in this record: {note}")


def discrepancy_lines(found: Sequence[Discrepancy]) -> Iterator[BriefLine]:
    """Yields a line for each disagreement of broker and record, the newest first."""
    newest = sorted(found, key=lambda each: (each.symbol, each.leg, each.why, each.fill_id or "", each.fields or ()))
    newest.sort(key=lambda each: each.at, reverse=True)
    for each in newest[:MAX_DISCREPANCY_LINES]:
        words = discrepancy_text(each, format_number, safe_name)
        yield BriefLine(
            f"- Discrepancy {format_minute(each.at)} {safe_name(each.symbol)}: {words}",
            (SourceRef("discrepancy", f"{each.symbol}/{each.leg}@{format_minute(each.at)}", 2),),
        )
    if len(newest) > MAX_DISCREPANCY_LINES:
        yield BriefLine(f"- {len(newest) - MAX_DISCREPANCY_LINES} more discrepancies in the last day")
