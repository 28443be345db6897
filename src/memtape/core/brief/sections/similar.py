"""The section "similar": earlier decisions in situations like this one."""

from __future__ import annotations

from collections.abc import Sequence

from memtape.core.brief.budget import BriefLine, LinePriority
from memtape.core.brief.inputs import BriefInputs, SourceRef
from memtape.core.brief.number_format import format_count, format_mean_r, format_minute
from memtape.core.brief.sanitize import REASON_CHARS, id_reference, quote_text, safe_line, safe_name
from memtape.core.brief.section_register import section
from memtape.core.recall.explanations import r_phrase
from memtape.core.recall.similar import SimilarDecision, similar_summary


@section(
    "similar", role="user", order=60, heading="## Similar situations in the past", max_tokens=500, from_memory=True, citable=True
)
def similar_section(inputs: BriefInputs) -> list[BriefLine]:
    """Returns the nearest earlier decisions, if the skill wants them."""
    return similar_lines(inputs.similar) if inputs.skill.context.memory.similarSituations else []


def similar_lines(found: Sequence[SimilarDecision]) -> list[BriefLine]:
    """Returns a summary of the nearest earlier decisions, then each of them with its outcome."""
    if not found:
        return []
    known, won, mean_r = similar_summary(found)
    text = "no outcome known" if mean_r is None else f"{won} of {known} with a known outcome won, mean {format_mean_r(mean_r)}"
    nearest = f"{format_count(len(found), 'earlier decision')} nearest by {safe_line(found[0].by, 80)}"
    head = BriefLine(f"- The {nearest}: {text}", keep=LinePriority.SIMILAR)
    return [head, *(_similar(each) for each in found)]


def _similar(one: SimilarDecision) -> BriefLine:
    ended = r_phrase(one.pnl_r) + (" (by ATR)" if one.r_source == "atr_proxy" and one.pnl_r is not None else "")
    if one.kind == "shadow":
        ended = f"decided against, would have been {ended}" if one.pnl_r is not None else "decided against"
    if one.claimed:
        ended = f"{ended} as claimed" if one.pnl_r is not None else "outcome claimed but unverified"
    source = f" {quote_text(one.text, REASON_CHARS)}" if one.text else ""
    what = f"{safe_name(one.symbol)} {safe_name(one.side)}, {100 * one.similarity:.0f} % alike"
    text = f"- {format_minute(one.decided_at)} {what}: {ended}{source} {id_reference(one.id)}"
    return BriefLine(text, (SourceRef("episode", one.id, one.tier),), LinePriority.SIMILAR)
