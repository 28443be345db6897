"""The section "similar": earlier decisions in situations like this one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from decimal import Decimal

from memtape.core.brief.budget import BriefLine, LinePriority
from memtape.core.brief.free_text import AGENT, OWN_REASON, quoted_words
from memtape.core.brief.inputs import BriefInputs, SourceRef
from memtape.core.brief.number_format import format_count, format_mean_r, format_minute, format_rough_gain
from memtape.core.brief.recalled_memories import shown_episodes
from memtape.core.brief.references import brief_short_ids, shown_signals
from memtape.core.brief.sanitize import safe_line, safe_name
from memtape.core.brief.section_register import section
from memtape.core.brief.short_ids import ShortIds
from memtape.core.brief.trade_text import short_symbol, symbol_text
from memtape.core.recall.explanations import r_phrase
from memtape.core.recall.similar import SimilarDecision, similar_summary

MAX_SIMILAR_WORDS = 8


@section(
    "similar", role="user", order=60, heading="## Similar situations in the past", max_tokens=500, from_memory=True, citable=True
)
def similar_section(inputs: BriefInputs) -> list[BriefLine]:
    """Returns the nearest earlier decisions, if the skill wants them; those that no other line of the brief shows."""
    if not inputs.skill.context.memory.similarSituations:
        return []
    recent = {trade.id for trades in shown_signals(inputs) for trade in trades}
    said = {*recent, *(episode.id for episode in shown_episodes(inputs.recalled, inputs.situation, recent))}
    return similar_lines(inputs.similar, brief_short_ids(inputs), inputs.currency, said)


def similar_lines(
    found: Sequence[SimilarDecision], short: ShortIds, currency: str, said: Collection[str] = ()
) -> list[BriefLine]:
    """Returns a summary of the nearest earlier decisions, then each of them with its outcome unless it is said elsewhere."""
    if not found:
        return []
    known, won, mean_r = similar_summary(found)
    nearest = f"{format_count(len(found), 'earlier decision')} most similar by {safe_line(found[0].by, 80)}"
    lines = [_similar(each, short, currency) for each in found if each.id not in said]
    if mean_r is None:
        return lines
    mean = format_mean_r(mean_r)
    if found[0].unit.source == "money":
        mean = f"{mean.removesuffix('R')} in {found[0].unit.phrase(currency)}"
    summary = f"{won} of {known} with a known outcome won, mean {mean}"
    return [BriefLine(f"- The {nearest}: {summary}", keep=LinePriority.SIMILAR), *lines]


def _similar(one: SimilarDecision, short: ShortIds, currency: str) -> BriefLine:
    ended = r_phrase(one.pnl_r) + (" (by ATR)" if one.r_source == "atr_proxy" and one.pnl_r is not None else "")
    if one.pnl_usd is not None and (one.pnl_r is None or one.unit.source == "money"):
        ended = format_rough_gain(Decimal(repr(one.pnl_usd)), currency)
    if one.kind == "shadow":
        ended = f"decided against, would have been {ended}" if one.pnl_r is not None else "decided against"
    if one.claimed:
        ended = f"{ended} as claimed" if one.pnl_r is not None else "outcome claimed but unverified"
    words, id = quoted_words(one.text, MAX_SIMILAR_WORDS), short.reference(one.id)
    symbol, name = symbol_text(one.symbol, one.claimed)
    what = f"{safe_name(one.side)}, {100 * one.similarity:.0f} % alike: {ended}"
    author = AGENT if one.claimed or one.kind == "shadow" else OWN_REASON
    free = (*((AGENT, each) for each in (name,) if each), *((author, each) for each in (words,) if each))
    start = f"- {format_minute(one.decided_at)}"
    return BriefLine(
        f"{start} {symbol} {what}{f' {words}' if words else ''} {id}", (SourceRef("episode", one.id, one.tier),),
        LinePriority.SIMILAR, free=free, bare=f"{start} {short_symbol(one.symbol, one.claimed)} {what} {id}",
    )  # fmt: skip
