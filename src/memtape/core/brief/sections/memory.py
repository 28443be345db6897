"""The section "memory": what the agent's memory says about the situation.

>>> from datetime import UTC
>>> payrolls = CalendarEvent(id="e", t=datetime(2026, 6, 5, 12, 30, tzinfo=UTC), title="NFP", currencies=("USD",), impact="high")
>>> [line.text for line in event_lines([payrolls], datetime(2026, 6, 5, 12, tzinfo=UTC))]
['- Ahead: "NFP" (USD, high impact) in 30 minutes']
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from memtape.core.brief.budget import BriefLine, LinePriority
from memtape.core.brief.inputs import BriefInputs, BriefPlan, Conviction, Passage, SourceRef
from memtape.core.brief.number_format import format_count, format_mean_r, format_money
from memtape.core.brief.sanitize import REASON_CHARS, id_reference, line_range, one_line, quote_text, safe_name
from memtape.core.brief.section_register import section
from memtape.core.calendar import CalendarEvent
from memtape.core.exposure import PositionExposure, reaction_text
from memtape.core.memory.beliefs import Belief
from memtape.core.memory.episodes import Episode
from memtape.core.observed import ANY, Situation
from memtape.core.recall.evidence import Evidence, rounded
from memtape.core.recall.explanations import age_phrase
from memtape.core.recall.ranking import RankedMemory
from memtape.core.recall.warnings import LossWarning

MINUTE = timedelta(minutes=1)
NOTE_CHARS = 100
PASSAGE_CHARS = 240
TITLES_IN_ONE_LINE = 3


@section("memory", role="user", order=50, heading="## From memory", max_tokens=1_600, from_memory=True, citable=True)
def memory_section(inputs: BriefInputs) -> list[BriefLine]:
    """Returns warnings, evidence, recalled memories, plans, convictions, events ahead, and documents."""
    lines: list[BriefLine] = []
    if (recalled := inputs.recalled) is not None:
        warned = {each.id for each in recalled.warnings}
        lines += [_warning(each, first=not at) for at, each in enumerate(recalled.warnings)]
        if inputs.episodes_known:
            lines += evidence_lines(rounded(recalled.evidence), inputs.situation, inputs.outcome_source == "claimed")
        lines += [_ranked(each) for each in (*recalled.ranked, *recalled.beliefs) if each.id not in warned]
    lines += [_plan(each) for each in inputs.plans]
    lines += [_conviction(each, inputs.as_of) for each in inputs.convictions]
    events = event_lines(inputs.events, inputs.as_of, inputs.exposures, inputs.currency)
    return [*lines, *events, *(_document(each) for each in inputs.documents)]


def _warning(warning: LossWarning, first: bool) -> BriefLine:
    far = " (the nearest loss; the situation was another)" if warning.far else ""
    text = f"- Warning{far}, {_episode(warning.memory, warning.why)} {id_reference(warning.id)}"
    return BriefLine(
        text, (SourceRef("episode", warning.id, warning.tier),), LinePriority.ALWAYS if first else LinePriority.WARNING
    )


def _episode(episode: Episode, why: str) -> str:
    """Returns a trade and why it is shown."""
    # A label may be any text that somebody wrote: unless all are plain words, the sentence is quoted.
    labels = (episode.symbol, episode.regime, episode.volatility_regime, episode.session)
    plain = all(label is None or safe_name(label) == label for label in labels)
    text = one_line(f"{why[:1].lower()}{why[1:]}", PASSAGE_CHARS) if plain else quote_text(why, PASSAGE_CHARS)
    note = f" {quote_text(episode.reflection, NOTE_CHARS)}" if episode.reflection else ""
    return f"{safe_name(episode.symbol)} {episode.side}: {text}{note}"


def evidence_lines(evidence: Evidence, situation: Situation, claimed: bool) -> Iterator[BriefLine]:
    """Yields the evidence of all trades for the situation, and the size that it suggests."""
    where = _where(situation)
    if evidence.mean_r is None:
        yield BriefLine(f"- Evidence{where}: no trade in memory with a known outcome in R", keep=LinePriority.EVIDENCE)
    else:
        interval, base = evidence.mean_r_interval, evidence.base
        sure = (
            f", 90 %: {format_mean_r(interval[0])} to {format_mean_r(interval[1])}" if interval else "; too few for an interval"
        )
        sample = f"(n = {evidence.n}, n_eff = {evidence.n_eff:.1f}{sure})"
        text = f"mean {format_mean_r(evidence.mean_r)} {sample}, {_won(evidence.win_rate)}"
        text += f"; base rate {format_mean_r(base.mean_r or 0.0)}, {_won(base.win_rate)} (the same trades, each counted once)"
        by_atr = "; R by ATR, for want of stops" if evidence.r_source == "atr_proxy" else ""
        yield BriefLine(f"- Evidence{where}: {text}{by_atr}{_claims(evidence, claimed)}", keep=LinePriority.EVIDENCE)
    f = evidence.hint.f
    most = f"at most {100 * f:.2f} % of equity for 1R" if f else "none"
    yield BriefLine(f"- Size by evidence: {most}. {'; '.join(evidence.hint.reasons)}", keep=LinePriority.EVIDENCE)
    if evidence.shadows.n and evidence.shadows.mean_r is not None:
        amount = f"would have made {format_mean_r(evidence.shadows.mean_r)} on average"
        yield BriefLine(f"- Decided against: {format_count(evidence.shadows.n, 'trade')}, {amount}", keep=LinePriority.EVIDENCE)


def _won(rate: float | None) -> str:
    return f"{100 * (rate or 0.0):.0f} % won"


def _claims(evidence: Evidence, claimed: bool) -> str:
    if claimed:
        return "; as you reported them, confirmed by no broker"
    return f"; {format_count(evidence.n_claimed, 'claim')} that no broker confirmed not counted" if evidence.n_claimed else ""


def _where(situation: Situation) -> str:
    labels = (
        ("{}", situation.symbol), ("{}", situation.regime), ("{} volatility", situation.volatility_regime),
        ("{} session", situation.session),
    )  # fmt: skip
    text = [form.format(safe_name(label)) for form, label in labels if label and label != ANY]
    return f" for {', '.join(text)}" if text else ""


def _ranked(ranked: RankedMemory) -> BriefLine:
    if isinstance(ranked.memory, Episode):
        kind, text = "episode", f"Recalled, {_episode(ranked.memory, ranked.why)}"
    elif isinstance(ranked.memory, Belief):
        kind, text = "belief", f"Belief: {quote_text(ranked.why, PASSAGE_CHARS)}"
    else:
        kind, text = "plan", f"Plan on record: {quote_text(ranked.why, PASSAGE_CHARS)}"
    return BriefLine(f"- {text} {id_reference(ranked.id)}", (SourceRef(kind, ranked.id, ranked.tier),), LinePriority.RANKED)


def _plan(entry: BriefPlan) -> BriefLine:
    """Returns what a plan does now and who wrote it, so that a model's proposal is not mistaken for an owner's plan."""
    plan, proposed = entry.state.plan, entry.state.status == "proposed"
    whose = {1: "by the owner", 2: "computed from the record"}.get(plan.tier, "by a model, confirmed by the owner")
    if proposed:
        whose = "proposed by a model, not confirmed"
    size = "" if plan.size_factor is None else f" to {plan.size_factor:g} of the usual size"
    state = {"fires": "fires", "holds": "still holds"}.get(entry.finding, entry.finding)
    text = f"- Plan {state}: {plan.action.replace('_', ' ')}{size} ({whose}) {id_reference(plan.id)}"
    return BriefLine(
        text, (SourceRef("plan", plan.id, plan.tier),), LinePriority.PLAN, f": {quote_text(plan.reasoning, REASON_CHARS)}"
    )


def _conviction(conviction: Conviction, as_of: datetime) -> BriefLine:
    when = age_phrase(max((as_of - conviction.at) / timedelta(days=1), 0.0))
    text = f"- Conviction {conviction.score}/100 in your open decision, {when}: {quote_text(conviction.note, REASON_CHARS)}"
    return BriefLine(
        f"{text} {id_reference(conviction.decision)}", (SourceRef("decision", conviction.decision, 3),), LinePriority.CONVICTION
    )


def event_lines(
    ahead: Sequence[CalendarEvent], as_of: datetime, exposures: Sequence[PositionExposure] = (), currency: str = "USD"
) -> list[BriefLine]:
    """Returns the scheduled events, the nearest first, each with how the markets of open positions moved at such events."""
    lines: list[BriefLine] = []
    by_event = {each.exposure.event_id: [] for each in exposures}  # type: dict[str, list[PositionExposure]]
    for each in exposures:
        by_event[each.exposure.event_id].append(each)
    coming = sorted((each for each in ahead if each.ends >= as_of), key=lambda each: (each.t, each.id))
    for together in _grouped(coming):
        event = together[0]
        impact = f"{event.impact} impact" if event.impact else event.impact_text
        about = ", ".join([*map(safe_name, event.currencies), *map(safe_name, event.symbols), impact])
        titles = ", ".join(quote_text(each.title, 64) for each in together[:TITLES_IN_ONE_LINE])
        more = f" and {len(together) - TITLES_IN_ONE_LINE} more" if len(together) > TITLES_IN_ONE_LINE else ""
        when = f"on {event.t:%Y-%m-%d}, time unknown" if event.all_day else _minutes_until(event, as_of)
        exposed = "".join(f"; {text}" for each in by_event.get(event.id, ()) if (text := exposure_text(each, currency)))
        lines.append(
            BriefLine(
                f"- Ahead: {titles}{more} ({about}) {when}", tuple(SourceRef("event", each.id, 4) for each in together),
                LinePriority.EVENT if lines else LinePriority.FIRST_EVENT, exposed,
            )
        )  # fmt: skip
    return lines


def _grouped(events: Sequence[CalendarEvent]) -> list[list[CalendarEvent]]:
    """Returns events in groups of one release: of one kind and currency at one moment, like CPI m/m and y/y."""
    groups: dict[tuple[object, ...], list[CalendarEvent]] = {}
    for event in events:
        alone = event.id if event.kind == "other" else ""
        release = (event.t, event.kind, event.currencies, event.symbols, event.impact, event.all_day, alone)
        groups.setdefault(release, []).append(event)
    return list(groups.values())


def _minutes_until(event: CalendarEvent, as_of: datetime) -> str:
    return f"in {format_count(round((event.t - as_of) / MINUTE), 'minute')}"


def exposure_text(exposed: PositionExposure, currency: str) -> str:
    """Returns what a position faces, in words; nothing if too few events were measured.

    >>> from decimal import Decimal
    >>> from memtape.core.exposure import Exposure
    >>> row = Exposure(event_id="e", symbol="XAUUSD", side="long", similar_events=66, median_abs_move=0.0034, worst_move=-0.018,
    ...                median_range=0.0099)
    >>> exposure_text(PositionExposure(row, Decimal("6691.48")), "USD")
    'your XAUUSD long ($6,691) in the 2 h after 66 such events: range 0.99 %, move 0.34 % (medians), worst for it -1.80 %'
    """
    row = exposed.exposure
    if row.median_range is None or row.median_abs_move is None or row.worst_move is None:
        return ""
    size = "" if exposed.notional_usd is None else f" ({format_money(exposed.notional_usd, currency)})"
    return f"your {safe_name(row.symbol)} {row.side}{size} {reaction_text(row)}"


def _document(passage: Passage) -> BriefLine:
    where = line_range(passage.path, passage.start_line, passage.end_line)
    text = f"- Document {where} {quote_text(passage.snippet, PASSAGE_CHARS)} {id_reference(passage.id)}"
    return BriefLine(text, (SourceRef("document", passage.id, passage.tier),), LinePriority.DOCUMENT)
