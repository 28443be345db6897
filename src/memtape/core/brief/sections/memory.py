"""The section "memory": what the agent's memory says about the situation.

Every line says one thing: losses to be warned of, then what all trades say together, other memories, plans, convictions, events
ahead and passages of documents. A line that would only say that nothing is known is left out.

>>> from datetime import UTC
>>> payrolls = CalendarEvent(id="e", t=datetime(2026, 6, 5, 12, 30, tzinfo=UTC), title="NFP", currencies=("USD",), impact="high")
>>> [line.text for line in event_lines([payrolls], datetime(2026, 6, 5, 12, tzinfo=UTC))]
['- Ahead: "NFP" (USD, high impact) in 30 minutes']
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from memtape.core.brief.budget import BriefLine, LinePriority
from memtape.core.brief.episode_text import episode_line, label_text
from memtape.core.brief.free_text import AGENT, CALENDAR, EXTERNAL, quoted_words
from memtape.core.brief.inputs import BriefInputs, BriefPlan, Conviction, Passage, SourceRef
from memtape.core.brief.number_format import format_count, format_mean_r, format_money
from memtape.core.brief.recalled_memories import SignalMemory, recalled_signals, warned_signals
from memtape.core.brief.references import brief_short_ids, shown_signals
from memtape.core.brief.sanitize import REASON_CHARS, line_range, quote_text, safe_line, safe_name
from memtape.core.brief.section_register import section
from memtape.core.brief.short_ids import ShortIds
from memtape.core.calendar import OPERATOR_TIER, CalendarEvent
from memtape.core.exposure import PositionExposure, reaction_text
from memtape.core.memory.beliefs import Belief
from memtape.core.memory.outcome_units import OutcomeUnit, signal_of
from memtape.core.observed import ANY, Situation
from memtape.core.recall.evidence import MIN_N_EFF, Evidence, payoff_words, rounded
from memtape.core.recall.explanations import age_phrase, hidden_text
from memtape.core.recall.reference import Recalled

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
NOTE_WORDS = 8
MANY_MINUTES = 180  # a time from here on is told in hours
PASSAGE_CHARS, UNTRUSTED_PASSAGE_CHARS = 240, 120
TITLES_IN_ONE_LINE = 3
MAX_EVENT_LINES = 4  # if there are more, a last line counts them
MAX_SENTENCE_CHARS = 80
MIN_INTERVAL_N_EFF = 2.5  # effective trades
SOURCE_WORDS = {0: "the venue", 1: "your records"}
COMPUTED_TIER, MODEL_TIER = 2, 3
WHOLE_SAMPLE = 100  # an effective sample from here on is told without decimals


@section("memory", role="user", order=50, heading="## From memory", max_tokens=1_600, from_memory=True, citable=True)
def memory_section(inputs: BriefInputs) -> list[BriefLine]:
    """Returns warnings, evidence, recalled memories, plans, convictions, events ahead, and documents."""
    short = brief_short_ids(inputs)
    lines: list[BriefLine] = []
    if (recalled := inputs.recalled) is not None:
        warned = warned_signals(recalled)
        lines += [_signal(each, inputs, short, keep=_warning_priority(at)) for at, each in enumerate(warned)]
        if inputs.episodes_known:
            lines += evidence_lines(rounded(recalled.evidence), inputs, _sources(recalled, inputs))
        if (wider := inputs.of_all_symbols) is not None and not has_mean(recalled.evidence):
            lines += _mean_lines(rounded(wider.evidence), inputs, _sources(wider, inputs), all_symbols=True)
        shown = {trade.id for trades in shown_signals(inputs) for trade in trades}
        for each in recalled_signals(recalled, warned, inputs.situation, shown):
            lines.append(_belief(each, short) if isinstance(each, Belief) else _signal(each, inputs, short))
        if recalled.hidden:
            lines.append(BriefLine(f"- {hidden_text(recalled.hidden)}", keep=LinePriority.EVIDENCE))
    lines += plan_lines(inputs.plans, inputs.proposed_plans, short)
    lines += [_conviction(each, inputs.as_of, short) for each in inputs.convictions]
    events = event_lines(inputs.events, inputs.as_of, inputs.exposures, inputs.currency)
    return [*lines, *events, *(_document(each, short) for each in inputs.documents)]


def _warning_priority(at: int) -> LinePriority:
    return LinePriority.WARNING if at else LinePriority.ALWAYS


def _signal(
    memory: SignalMemory, inputs: BriefInputs, short: ShortIds, keep: LinePriority = LinePriority.RANKED
) -> BriefLine:
    reason = inputs.reasons.get(memory.episode.id) or memory.episode.reflection or ""
    claims_count = inputs.query is None or inputs.query.claims_count
    # What the agent only claims beside a record of the venue is told alone.
    if memory.episode.kind == "trade" and (claims_count or not memory.episode.claimed):
        memory = replace(memory, trades=inputs.signal_trades.get(signal_of(memory.episode), ()))
    line = episode_line(
        memory, inputs.situation, inputs.as_of, reason=reason, currency=inputs.currency, claims_count=claims_count,
        reference=short.reference(memory.episode.id),
    )  # fmt: skip
    source = SourceRef("episode", memory.episode.id, memory.tier)
    return BriefLine(line.text, (source,), keep, free=line.free, bare=line.bare)


def _sources(recalled: Recalled, inputs: BriefInputs) -> str:
    """Returns where the trades behind the evidence come from, in words."""
    if inputs.outcome_source == "claimed":
        return "claimed by the agent"
    tiers = {memory.tier for memory in recalled.ranked} | {warning.tier for warning in recalled.warnings}
    known = [words for tier, words in SOURCE_WORDS.items() if tier in tiers]
    return f"from {' and '.join(known)}" if known else ""


def has_mean(evidence: Evidence) -> bool:
    """Returns True if a brief shows the mean of some evidence.

    A mean over one or two trades has no interval that a trader can use, and they have lines of their own.
    """
    return evidence.mean_r is not None and evidence.mean_r_interval is not None and evidence.n_eff >= MIN_INTERVAL_N_EFF


def evidence_lines(evidence: Evidence, inputs: BriefInputs, sources: str = "") -> Iterator[BriefLine]:
    """Yields what all trades of the symbol say about the situation, the size that they suggest, and what was decided against."""
    if has_mean(evidence):
        yield from _mean_lines(evidence, inputs, sources)
        yield from _size_lines(evidence)
    if evidence.shadows.n and evidence.shadows.mean_r is not None:
        amount = f"would have made {format_mean_r(evidence.shadows.mean_r)} on average"
        yield BriefLine(f"- Decided against: {format_count(evidence.shadows.n, 'trade')}, {amount}", keep=LinePriority.EVIDENCE)


def _mean_lines(evidence: Evidence, inputs: BriefInputs, sources: str, all_symbols: bool = False) -> Iterator[BriefLine]:
    """Yields the mean of the evidence, weighted and not. Of all symbols it suggests no size, so that has a line of its own."""
    where, free = _where(inputs.situation, all_symbols)
    interval, base = evidence.mean_r_interval, evidence.base
    if evidence.mean_r is not None and interval is not None and has_mean(evidence):
        unit = evidence.unit if evidence.unit.source else OutcomeUnit(evidence.r_source)
        figure = _figure(unit)
        between = f"90 % interval {figure(interval[0])} to {figure(interval[1])}, "
        unclaimed = evidence.n_claimed if inputs.outcome_source != "claimed" else 0
        parts = [
            f"mean {figure(evidence.mean_r)}{_in_unit(unit, inputs.currency)} "
            f"({between}effective sample {_sample(evidence.n_eff)}), {_won(evidence.win_rate)}",
            f"all {_counted(evidence)}{_compared(unit, inputs, all_symbols)}: {figure(base.mean_r or 0.0)}, "
            f"{_won(base.win_rate)}",
            sources, f"{format_count(unclaimed, 'trade')} claimed by the agent not counted" if unclaimed else "",
        ]  # fmt: skip
        text = "; ".join(part for part in parts if part)
        about = "(similar trades count more)"
        yield BriefLine(
            f"- Evidence{where} {about}: {text}", keep=LinePriority.EVIDENCE, free=free, bare=f"- Evidence {about}: {text}"
        )  # fmt: skip


def _counted(evidence: Evidence) -> str:
    """Returns how many trades the evidence rests on. Several trades entered at once count as one entry."""
    if evidence.n_trades == evidence.n:
        return format_count(evidence.n, "trade")
    return f"{format_count(evidence.n, 'entry')} ({format_count(evidence.n_trades, 'trade')})"


def _compared(unit: OutcomeUnit, inputs: BriefInputs, all_symbols: bool) -> str:
    """Returns which trades these are: other symbols may be left out, and so are trades without an outcome in the unit."""
    of_one = not all_symbols and inputs.query is not None and inputs.query.symbol is not None
    symbol = " of this symbol" if of_one else ""
    return symbol + {"stop": " with a stop", "stated": " with a stated R", "atr_proxy": " with an ATR"}.get(unit.source or "", "")


def _sample(n_eff: float) -> str:
    return f"{n_eff:.1f}" if n_eff < WHOLE_SAMPLE else f"{n_eff:,.0f}"


def _size_lines(evidence: Evidence) -> Iterator[BriefLine]:
    """Yields the size that the evidence suggests, or why it suggests none; nothing if no trade that counts has won or lost."""
    found = evidence.hint.sizing
    if not found.n_eff:
        return
    if found.n_eff < MIN_N_EFF:
        why = f"effective sample {found.n_eff:.1f}, at least {MIN_N_EFF:.0f} needed (only trades with a stop or a stated R count)"
        yield BriefLine(f"- No size suggested: {why}", keep=LinePriority.EVIDENCE)
        return
    if found.win is None or found.p_bound is None:
        yield BriefLine("- No size suggested: no trade like this won", keep=LinePriority.EVIDENCE)
        return
    rate, payoff = f"{100 * (found.p_hat or 0.0):.0f} %", payoff_words(found)
    careful = f"{100 * found.p_bound:.0f} %"
    if found.f:
        text = f"- Size by evidence: at most {100 * found.f:.2f} % of equity for 1R ({rate} won, taken as {careful}; {payoff})"
    else:
        # Shrinking towards no edge raises a rate that is far below it: that is not the careful side.
        cautious = f", cautious estimate {careful}" if found.p_bound < (found.p_hat or 0.0) else ""
        even = f"{100 * (found.loss or 0.0) / ((found.loss or 0.0) + found.win):.0f} %"
        text = (
            f"- No size suggested: wins average +{found.win:.1f}R and losses -{found.loss or 0.0:.1f}R, "
            f"so {even} must win to break even; {rate} won{cautious}"
        )
    yield BriefLine(text, keep=LinePriority.EVIDENCE)


def _figure(unit: OutcomeUnit) -> Callable[[float], str]:
    """Returns how a mean is written: with an R, or as a plain number of typical losses."""
    return (lambda r: format_mean_r(r).removesuffix("R")) if unit.source == "money" else format_mean_r


def _in_unit(unit: OutcomeUnit, currency: str) -> str:
    """Returns the unit in words, unless it is the R that the header explains."""
    if unit.source == "atr_proxy":
        return " by ATR"
    return f" in {unit.phrase(currency)}" if unit.source == "money" else ""


def _won(rate: float | None) -> str:
    return f"{100 * (rate or 0.0):.0f} % won"


def _where(situation: Situation, all_symbols: bool) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Returns the situation in words, and the labels among them that are no plain words."""
    labels = (
        ("{}", "symbol", None if all_symbols else situation.symbol), ("{}", "regime", situation.regime),
        ("{} volatility", "volatility_regime", situation.volatility_regime), ("{} session", "session", situation.session),
    )  # fmt: skip
    shown = [(form, label_text(name, label)) for form, name, label in labels if label and label != ANY]
    text = ", ".join(["any symbol"] * all_symbols + [form.format(label) for form, (label, _) in shown])
    return f" for {text}" if text else "", tuple((AGENT, words) for _, (_, words) in shown if words)


def _belief(belief: Belief, short: ShortIds) -> BriefLine:
    """Returns what is believed, how often it held, and how often it holds otherwise. An induced sentence ends in its figures."""
    plain = belief.sentence.partition(": ")[0].rstrip(".")
    rate = "" if belief.rate is None else f", {100 * belief.rate:.0f} %"
    base = "" if belief.base_rate is None else f", against {100 * belief.base_rate:.0f} % otherwise"
    counted = f"held in {belief.confirmed} of {format_count(belief.n, 'trade')}{rate}{base}" if belief.n else "not tested yet"
    # An induced belief names the labels of its trades, and those may be a model's own words.
    labels = [(name, str(label)) for name, label in belief.proposition.when.items() if isinstance(label, str)]
    foreign = belief.tier >= MODEL_TIER or any(label_text(name, label)[1] for name, label in labels)
    # Quotes mean that somebody wrote it: a sentence that memtape made from plain labels has none.
    is_own = belief.tier == COMPUTED_TIER and not foreign
    sentence = f"{safe_line(plain, MAX_SENTENCE_CHARS)}:" if is_own else quote_text(plain, MAX_SENTENCE_CHARS)
    free = ((AGENT, sentence),) if foreign else ()
    return BriefLine(
        f"- Belief: {sentence} {counted} {short.reference(belief.id)}", (SourceRef("belief", belief.id, belief.tier),),
        LinePriority.RANKED, free=free,
    )  # fmt: skip


def plan_lines(plans: Iterable[BriefPlan], proposed: int, short: ShortIds) -> Iterator[BriefLine]:
    """Yields the plans that the owner made or confirmed, then how many proposals of a model wait for the owner."""
    yield from (_plan(each, short) for each in plans if each.state.status != "proposed")
    if proposed:
        waits = "waits" if proposed == 1 else "wait"
        yield BriefLine(
            f"- {format_count(proposed, 'plan')} proposed by a model {waits} for the owner to confirm", keep=LinePriority.PLAN
        )


def _plan(entry: BriefPlan, short: ShortIds) -> BriefLine:
    """Returns what a plan does now and who wrote it."""
    plan = entry.state.plan
    whose = {1: "by the owner", 2: "computed from the record"}.get(plan.tier, "by a model, confirmed by the owner")
    size = "" if plan.size_factor is None else f" to {plan.size_factor:g} of the usual size"
    state = {"fires": "fires", "holds": "still holds"}.get(entry.finding, entry.finding)
    text = f"- Plan {state}: {plan.action.replace('_', ' ')}{size} ({whose}) {short.reference(plan.id)}"
    source = (SourceRef("plan", plan.id, plan.tier),)
    if plan.tier < MODEL_TIER:
        return BriefLine(text, source, LinePriority.PLAN, f": {quote_text(plan.reasoning, REASON_CHARS)}")
    reason = quoted_words(plan.reasoning, NOTE_WORDS)
    return BriefLine(f"{text}: {reason}", source, LinePriority.PLAN, free=((AGENT, reason),), bare=text)


def _conviction(conviction: Conviction, as_of: datetime, short: ShortIds) -> BriefLine:
    when = age_phrase(max((as_of - conviction.at) / DAY, 0.0))
    text, id = f"- Conviction {conviction.score}/100 in your open decision, {when}", short.reference(conviction.decision)
    note = quoted_words(conviction.note, NOTE_WORDS)
    return BriefLine(
        f"{text}: {note} {id}", (SourceRef("decision", conviction.decision, MODEL_TIER),), LinePriority.CONVICTION,
        free=((AGENT, f"{note} {id}"),), bare=text,
    )  # fmt: skip


def event_lines(
    ahead: Sequence[CalendarEvent], as_of: datetime, exposures: Sequence[PositionExposure] = (), currency: str = "USD"
) -> list[BriefLine]:
    """Returns the scheduled events, the nearest first, each with how the markets of open positions moved at such events."""
    lines: list[BriefLine] = []
    by_event = {each.exposure.event_id: [] for each in exposures}  # type: dict[str, list[PositionExposure]]
    for each in exposures:
        by_event[each.exposure.event_id].append(each)
    coming = sorted((each for each in ahead if each.ends >= as_of), key=lambda each: (each.t, each.id))
    groups = _grouped(coming)
    for at, together in enumerate(groups):
        event = together[0]
        impact = f"{event.impact} impact" if event.impact else event.impact_text
        about = ", ".join([*map(safe_name, event.currencies), *map(safe_name, event.symbols), impact])
        titles = ", ".join(quote_text(each.title, 64) for each in together[:TITLES_IN_ONE_LINE])
        more = f" and {len(together) - TITLES_IN_ONE_LINE} more" if len(together) > TITLES_IN_ONE_LINE else ""
        if len(lines) == MAX_EVENT_LINES:
            rest = sum(len(group) for group in groups[at:])
            lines.append(BriefLine(f"- {format_count(rest, 'more event')} ahead", keep=LinePriority.EVENT))
            break
        when = f"on {event.t:%Y-%m-%d}, time unknown" if event.all_day else _minutes_until(event, as_of)
        exposed = "".join(f"; {text}" for each in by_event.get(event.id, ()) if (text := exposure_text(each, currency)))
        # Only events of the owner's calendar are the owner's own text; a model or a feed may have added the others.
        trusted = all(each.tier <= OPERATOR_TIER for each in together)
        lines.append(
            BriefLine(
                f"- Ahead: {titles}{more} ({about}) {when}", tuple(SourceRef("event", each.id, each.tier) for each in together),
                LinePriority.EVENT if lines else LinePriority.FIRST_EVENT, exposed,
                free=() if trusted else ((CALENDAR, f"{titles} {about}"),), bare=f"- Ahead: an event {when}",
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
    minutes = round((event.t - as_of) / MINUTE)
    if not minutes:
        return "now"
    if minutes < MANY_MINUTES:
        return f"in {format_count(minutes, 'minute')}"
    return f"in {f'{minutes / 60:.1f}'.removesuffix('.0')} hours"


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


def _document(passage: Passage, short: ShortIds) -> BriefLine:
    where = line_range(passage.path, passage.start_line, passage.end_line)
    trusted = passage.tier < MODEL_TIER
    words = f"{where} {quote_text(passage.snippet, PASSAGE_CHARS if trusted else UNTRUSTED_PASSAGE_CHARS)}"
    author = AGENT if passage.tier == MODEL_TIER else EXTERNAL
    return BriefLine(
        f"- Document {words} {short.reference(passage.id)}", (SourceRef("document", passage.id, passage.tier),),
        LinePriority.DOCUMENT, free=() if trusted else ((author, words),),
    )  # fmt: skip
