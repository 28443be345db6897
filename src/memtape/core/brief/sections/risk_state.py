"""The section "risk_state": the account's day so far."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from memtape.core.brief.budget import BriefLine
from memtape.core.brief.free_text import AGENT
from memtape.core.brief.inputs import BriefInputs, SourceRef
from memtape.core.brief.number_format import format_count, format_gain, format_money, format_percent
from memtape.core.brief.risk import RiskState
from memtape.core.brief.sanitize import REASON_CHARS, quote_text, safe_name
from memtape.core.brief.section_register import section
from memtape.core.brief.sections.open_positions import discrepancy_lines, missing_lines, shows_positions
from memtape.core.recall.explanations import age_phrase

MAX_CODE_CHARS = 24
MAX_RULES = 5
NO_DRAWDOWN = format_percent(0.0)


@section("risk_state", role="user", order=40, heading="## Risk state")
def risk_state_section(inputs: BriefInputs) -> Iterator[BriefLine]:
    """Yields the risk state, and the discrepancies if no section of open positions shows them."""
    yield from risk_lines(inputs.risk, inputs.currency)
    if not shows_positions(inputs):
        yield from discrepancy_lines(inputs.discrepancies)
        yield from missing_lines(inputs.coverage)


def risk_lines(state: RiskState, currency: str) -> Iterator[BriefLine]:
    """Yields the day so far; no line if nothing has happened."""
    if state.is_blank:
        return
    if state.refused:
        by_rule = ", ".join(f"{_code(rule.code)} {len(rule.decisions)}" for rule in state.refused[:MAX_RULES])
        n = sum(len(rule.decisions) for rule in state.refused)
        ids = [id for rule in state.refused for id in rule.decisions]
        yield BriefLine(
            f"- Rejected in the last hour: {n} of {format_count(state.judged, 'proposal')} ({by_rule})", _decisions(ids)
        )
    if (last := state.last_refused) is not None:
        note = quote_text(last.note, REASON_CHARS) if last.note else ""
        text = f"- Last rejection, {age_phrase(last.minutes_ago / 1440)}: {_code(last.code)}"
        yield BriefLine(f"{text} {note}".rstrip(), _decisions([last.decision]), free=((AGENT, note),) if note else (), bare=text)
    if state.decisions:
        yield BriefLine(f"- Orders today: {state.orders} ({format_count(state.decisions, 'decision')})")
    if state.closed:
        share = (
            "" if state.realized_pct is None else f" ({format_percent(state.realized_pct)} % of the equity the day began with)"
        )
        trades = tuple(SourceRef("trade", id, 2) for id in state.closed)
        amount = format_gain(state.realized_usd, currency)
        yield BriefLine(f"- Realised today: {amount}{share} in {format_count(len(state.closed), 'trade')}", trades)
    if state.unknown:
        yield BriefLine(f"- Closed today, outcome not known for sure: {format_count(state.unknown, 'trade')}")
    # One loss stands among the recent trades. A trade that ended flat is no loss, but no win either.
    if (state.losing_streak or 0) > 1:
        yield BriefLine(f"- Trades in a row without a win: {state.losing_streak}")
    fallen = format_percent(100 * max(state.drawdown or 0.0, 0.0))
    if fallen != NO_DRAWDOWN:
        if state.assumption and state.drawdown_usd > 0:
            lost = format_money(state.drawdown_usd, currency)
            # An account cannot lose more than all it had: then the assumption is wrong, and a share of it says nothing.
            share = f" ({fallen} %{state.assumption})" if (state.drawdown or 0.0) < 1.0 else ""
            yield BriefLine(f"- Drawdown: {lost} from the peak{share}")
        else:
            # A deposit leaves the share as it was, and then less than the loss is needed to earn the money back.
            yield BriefLine(f"- Drawdown: {fallen} % from the peak{state.assumption}")


def _code(code: str) -> str:
    """Returns the code of a rule. The reporter of a verdict may choose it."""
    return safe_name(code) if len(code) <= MAX_CODE_CHARS else quote_text(code, MAX_CODE_CHARS)


def _decisions(ids: Iterable[str]) -> tuple[SourceRef, ...]:
    return tuple(SourceRef("decision", id, 3) for id in ids if id)
