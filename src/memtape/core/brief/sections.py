"""The sections of a brief, line by line: what was traded, what is held, where the account stands, what memory has to say.

Every line begins with a mark of ours and holds one item; words that others wrote stand in quotes, and what can be cited ends in
its id. Figures have one form each (`amounts`). Nothing here is chosen or weighed: lines only say how dear they are (`budget`).

>>> from datetime import UTC
>>> payrolls = CalendarEvent(id="e", t=datetime(2026, 6, 5, 12, 30, tzinfo=UTC), name="NFP", currency="USD", impact="high")
>>> [line.text for line in event_lines([payrolls], datetime(2026, 6, 5, 12, tzinfo=UTC))]
['- Ahead: "NFP" (USD, high impact) in 30 minutes']
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from textwrap import wrap

from memtape.core.brief.budget import BriefLine, LinePriority
from memtape.core.brief.inputs import BriefInputs, BriefPlan, Conviction, OpenPosition, Passage, PinnedRule, SourceRef
from memtape.core.brief.number_format import (
    format_duration,
    format_gain,
    format_mean_r,
    format_minute,
    format_money,
    format_number,
    format_percent,
    format_rough_gain,
    format_span,
)
from memtape.core.brief.risk import RiskState
from memtape.core.brief.sanitize import (
    id_reference,
    line_range,
    one_line,
    owner_lines,
    quote_text,
    safe_line,
    safe_name,
    without_list_marker,
)
from memtape.core.calendar import CalendarEvent
from memtape.core.events import Discrepancy
from memtape.core.ledger.trades import Trade, entry_order
from memtape.core.memory.beliefs import Belief
from memtape.core.memory.episodes import NOT_TAUGHT, Episode
from memtape.core.memory.learn import TIER_OF
from memtape.core.observed import ANY, Situation
from memtape.core.recall.evidence import Evidence, rounded
from memtape.core.recall.explanations import age_phrase, r_phrase
from memtape.core.recall.ranking import RankedMemory
from memtape.core.recall.similar import SimilarDecision, similar_summary
from memtape.core.recall.warnings import LossWarning

HEADINGS = {
    "rules": "## Rules",
    "recent_trades": "## Recent trades on this skill (closed)",
    "open_positions": "## Open positions (memory view)",
    "risk_state": "## Risk state",
    "memory": "## From memory",
    "similar": "## Similar situations in the past",
}
REASON, NOTE, PASSAGE, RULE_LINE = 120, 100, 240, 1_000  # characters of a quoted text
MAX_DISCREPANCY_LINES = 5  # told one by one; of more only the number
MINUTE = timedelta(minutes=1)
OWNERS_WORD = {"wrong_reason": "the owner: for another reason", "structural": "the owner: structural"}


def user_sections(inputs: BriefInputs) -> dict[str, list[BriefLine]]:
    """The lines of each section, before anything is left out."""
    config = inputs.skill.context.memory
    differing = list(discrepancy_lines(inputs.discrepancies))
    shown = config.includeOpenPositions and config.enabled
    found: dict[str, list[BriefLine]] = {
        "rules": rule_lines(inputs.rules),
        "risk_state": [*risk_lines(inputs.risk, inputs.currency), *(() if shown else differing)],
    }
    if config.enabled:
        found |= {
            "recent_trades": recent_trade_lines(inputs.recent, config.recentTradesK),
            "open_positions": [*(_held(each, inputs.as_of) for each in inputs.holding), *differing] if shown else [],
            "memory": memory_section(inputs),
            "similar": similar_lines(inputs.similar) if config.similarSituations else [],
        }
    return found


# --- what the owner pinned ----------------------------------------------------------------------------------------------


def rule_lines(pinned: Sequence[PinnedRule]) -> list[BriefLine]:
    """The owner's own words: the title as an item, each line of the text under it.

    >>> [line.text for line in rule_lines([PinnedRule("m", "Manual", "# Risk\\n- 1 % a trade\\n\\n- no revenge trades")])]
    ['- Manual', '  | Risk', '  | 1 % a trade', '  | no revenge trades']
    """
    lines: list[BriefLine] = []
    for rule in pinned:
        source = (SourceRef("rule", rule.id, 1),)
        lines.append(BriefLine(f"- {safe_line(rule.title, NOTE)}", source))
        lines += [BriefLine(f"  | {without_list_marker(text)}", source) for text in owner_lines(_wrapped(rule.text)) if text]
    return lines


def _wrapped(text: str) -> str:
    """A text in which no line is so long that it would be cut: the end of a rule may be what matters."""
    return "\n".join(part for line in text.splitlines() for part in (wrap(line, RULE_LINE) if len(line) > RULE_LINE else (line,)))


# --- trades and positions -----------------------------------------------------------------------------------------------


def recent_trade_lines(trades: Iterable[Trade], most: int) -> list[BriefLine]:
    """Closed trades, the newest entry first."""
    newest = sorted((trade for trade in trades if trade.exit_at is not None), key=entry_order, reverse=True)[:most]
    return [BriefLine(closed_trade_line(trade), _of_trade(trade), LinePriority.RECENT) for trade in newest]


def closed_trade_line(trade: Trade) -> str:
    """One round trip: when, what, how large, from where to where, what came of it, and why it was entered."""
    assert trade.exit_at is not None
    unknown = "outcome unknown" if trade.pnl_r is None else ""  # some say how many R it was, and not how much money
    amount = unknown if trade.net_pnl_usd is None else format_gain(trade.net_pnl_usd, trade.currency)
    percents = "" if trade.pnl_pct is None else f"({format_percent(trade.pnl_pct)}%)"
    return _joined(
        f"- {format_span(trade.entry_at, trade.exit_at)}",
        *_what(trade),
        f"→ {_price(trade.exit_price)}",
        amount,
        percents,
        _r(trade.pnl_r, trade.r_source),
        format_duration((trade.exit_at - trade.entry_at) / MINUTE),
        _excursions(trade),
        _marks(trade),
        _reason(trade.entry_reason),
    )


def open_position_line(held: OpenPosition, as_of: datetime) -> str:
    """One position: what is held, what it is worth now, how far it ran, how long, its stop and target, and why."""
    trade, now, worth = held.trade, held.mark, held.unrealized_usd
    risk = trade.initial_risk_usd
    return _joined(
        "-", *_what(trade), "" if now is None else f"mark={format_number(now)}",
        "" if worth is None else f"unrealised={format_gain(worth, trade.currency)}",
        _r(worth / risk, trade.r_source) if worth is not None and risk else "",
        f"realised={format_gain(trade.realized_pnl_usd, trade.currency)}" if trade.realized_pnl_usd and trade.qty_exited else "",
        _excursions(trade), f"held {format_duration((as_of - trade.entry_at) / MINUTE)}",
        "" if trade.stop_price is None else f"stop={format_number(trade.stop_price)}",
        "" if trade.target_price is None else f"target={format_number(trade.target_price)}",
        _marks(trade, still_open=True), _reason(trade.entry_reason),
    )  # fmt: skip


def _held(held: OpenPosition, as_of: datetime) -> BriefLine:
    return BriefLine(open_position_line(held, as_of), _of_trade(held.trade))


def _what(trade: Trade) -> tuple[str, ...]:
    size = "" if trade.entry_size_usd is None else format_money(trade.entry_size_usd, trade.currency)
    return safe_name(trade.symbol), trade.side, size, f"@ {_price(trade.entry_price)}"


def _price(amount: Decimal | None) -> str:
    return "?" if amount is None else format_number(amount)


def _r(r: Decimal | None, source: str | None) -> str:
    return "" if r is None else f"{r_phrase(float(r))}{' (by ATR)' if source == 'atr_proxy' else ''}"


def _excursions(trade: Trade) -> str:
    best = "" if trade.mfe_usd is None else f"MFE={format_rough_gain(trade.mfe_usd, trade.currency)}"
    worst = "" if trade.mae_usd is None else f"MAE={format_rough_gain(trade.mae_usd, trade.currency)}"
    return " / ".join(each for each in (best, worst) if each)


def _marks(trade: Trade, still_open: bool = False) -> str:
    """What must be known to read the figures: how it ended, how sure they are, what the owner said of it."""
    liquidated = "partly liquidated" if still_open else "liquidated"
    source = {"claimed": "claimed", "inferred": "inferred", "unpriced": "price unknown"}.get(trade.quality, "")
    left = ""
    if still_open and trade.qty_open is not None and trade.qty_exited and trade.qty_entered:
        left = f"{format_percent(100 * trade.qty_open / trade.qty_entered)} % still open"
    marks = [
        left, liquidated if trade.liquidation_fills or trade.close_cause == "liquidation" else "", source,
        "adopted" if trade.adopted else "",
        "excluded by the owner" if trade.teach in NOT_TAUGHT else OWNERS_WORD.get(trade.teach, ""),
    ]  # fmt: skip
    text = ", ".join(mark for mark in marks if mark)
    return f"({text})" if text else ""


def _of_trade(trade: Trade) -> tuple[SourceRef, ...]:
    return (SourceRef("trade", trade.id, TIER_OF[trade.quality]),)


def discrepancy_lines(found: Sequence[Discrepancy]) -> Iterator[BriefLine]:
    """Where broker and record disagree, the newest first."""
    newest = sorted(found, key=lambda each: (each.symbol, each.leg))
    newest.sort(key=lambda each: each.at, reverse=True)
    for each in newest[:MAX_DISCREPANCY_LINES]:
        text = "was already held when the record began" if each.why == "adopted" else "fills do not explain what the broker shows"
        at = "" if each.price is None else f", priced at {format_number(each.price)}"
        yield BriefLine(
            f"- Discrepancy {format_minute(each.at)} {safe_name(each.symbol)}: {text} "
            f"(broker {format_number(each.broker_qty)}, record {format_number(each.ledger_qty)}{at})",
            (SourceRef("discrepancy", f"{each.symbol}/{each.leg}@{format_minute(each.at)}", 2),),
        )
    if len(newest) > MAX_DISCREPANCY_LINES:
        yield BriefLine(f"- {len(newest) - MAX_DISCREPANCY_LINES} more discrepancies in the last day")


# --- where the account stands -------------------------------------------------------------------------------------------


def risk_lines(state: RiskState, currency: str) -> Iterator[BriefLine]:
    """The day so far. Nothing at all while nothing has happened."""
    if state.is_blank:
        return
    if state.refused:
        by_rule = ", ".join(f"{safe_name(rule.code)} {len(rule.decisions)}" for rule in state.refused)
        n = sum(len(rule.decisions) for rule in state.refused)
        ids = [id for rule in state.refused for id in rule.decisions]
        yield BriefLine(f"- Rejected in the last hour: {by_rule} ({n} of {_several(state.judged, 'proposal')})", _decisions(ids))
    if (last := state.last_refused) is not None:
        note = f" {quote_text(last.note, REASON)}" if last.note else ""
        yield BriefLine(
            f"- Last rejection, {age_phrase(last.minutes_ago / 1440)}: {safe_name(last.code)}{note}", _decisions([last.decision])
        )
    yield BriefLine(f"- Orders today: {state.orders} (of {_several(state.decisions, 'decision')})")
    if state.closed:
        share = (
            "" if state.realized_pct is None else f" ({format_percent(state.realized_pct)} % of the equity the day began with)"
        )
        trades = tuple(SourceRef("trade", id, 2) for id in state.closed)
        amount = format_gain(state.realized_usd, currency)
        yield BriefLine(f"- Realised today: {amount}{share} in {_several(len(state.closed), 'trade')}", trades)
    if state.unknown:
        yield BriefLine(f"- Closed today, outcome not known for sure: {_several(state.unknown, 'trade')}")
    if state.losing_streak is not None:
        yield BriefLine(f"- Losses in a row: {state.losing_streak}")
    if state.drawdown is not None and state.drawdown_limit is not None:
        limit = format_percent(100 * state.drawdown_limit).removesuffix(".0")
        yield BriefLine(f"- Drawdown: {format_percent(100 * max(state.drawdown, 0.0))} % from the peak (limit {limit} %)")


def _decisions(ids: Iterable[str]) -> tuple[SourceRef, ...]:
    return tuple(SourceRef("decision", id, 3) for id in ids if id)


# --- what memory has to say ---------------------------------------------------------------------------------------------


def memory_section(inputs: BriefInputs) -> list[BriefLine]:
    """Warnings, evidence, what is recalled, plans, convictions, events ahead, documents."""
    found: list[BriefLine] = []
    if (recalled := inputs.recalled) is not None:
        warned = {each.id for each in recalled.warnings}
        found += [_warning(each, first=not at) for at, each in enumerate(recalled.warnings)]
        if inputs.episodes_known:
            found += evidence_lines(rounded(recalled.evidence), inputs.situation, inputs.standing == "claimed")
        found += [_ranked(each) for each in (*recalled.ranked, *recalled.beliefs) if each.id not in warned]
    found += [_plan(each) for each in inputs.plans]
    found += [_conviction(each, inputs.as_of) for each in inputs.convictions]
    return [*found, *event_lines(inputs.events, inputs.as_of), *(_document(each) for each in inputs.documents)]


def _warning(warned: LossWarning, first: bool) -> BriefLine:
    far = " (the nearest loss; the situation was another)" if warned.far else ""
    text = f"- Warning{far}, {_episode(warned.memory, warned.why)} {id_reference(warned.id)}"
    return BriefLine(
        text, (SourceRef("episode", warned.id, warned.tier),), LinePriority.ALWAYS if first else LinePriority.WARNING
    )


def _episode(episode: Episode, why: str) -> str:
    """A trade and why it is told. Labels are somebody's words too: unless they are plain, the sentence is quoted."""
    labels = (episode.symbol, episode.regime, episode.volatility_regime, episode.session)
    plain = all(label is None or safe_name(label) == label for label in labels)
    text = one_line(f"{why[:1].lower()}{why[1:]}", PASSAGE) if plain else quote_text(why, PASSAGE)
    note = f" {quote_text(episode.reflection, NOTE)}" if episode.reflection else ""
    return f"{safe_name(episode.symbol)} {episode.side}: {text}{note}"


def evidence_lines(evidence: Evidence, situation: Situation, claimed: bool) -> Iterator[BriefLine]:
    """What all trades together say about the situation, and the size that follows from it."""
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
        yield BriefLine(f"- Decided against: {_several(evidence.shadows.n, 'trade')}, {amount}", keep=LinePriority.EVIDENCE)


def _won(rate: float | None) -> str:
    return f"{100 * (rate or 0.0):.0f} % won"


def _claims(evidence: Evidence, claimed: bool) -> str:
    if claimed:
        return "; as you reported them, confirmed by no broker"
    return f"; {_several(evidence.n_claimed, 'claim')} that no broker confirmed not counted" if evidence.n_claimed else ""


def _where(situation: Situation) -> str:
    labels = (
        ("{}", situation.symbol), ("{}", situation.regime), ("{} volatility", situation.volatility_regime),
        ("{} session", situation.session),
    )  # fmt: skip
    text = [form.format(safe_name(label)) for form, label in labels if label and label != ANY]
    return f" for {', '.join(text)}" if text else ""


def _ranked(ranked: RankedMemory) -> BriefLine:
    id = id_reference(ranked.id)
    if isinstance(ranked.memory, Episode):
        return BriefLine(
            f"- Recalled, {_episode(ranked.memory, ranked.why)} {id}", _memory("episode", ranked), LinePriority.RANKED
        )
    if isinstance(ranked.memory, Belief):
        return BriefLine(f"- Belief: {quote_text(ranked.why, PASSAGE)} {id}", _memory("belief", ranked), LinePriority.RANKED)
    return BriefLine(f"- Plan on record: {quote_text(ranked.why, PASSAGE)} {id}", _memory("plan", ranked), LinePriority.RANKED)


def _memory(kind: str, ranked: RankedMemory) -> tuple[SourceRef, ...]:
    return (SourceRef(kind, ranked.id, ranked.tier),)


def _plan(planned: BriefPlan) -> BriefLine:
    """What a plan says now, and who says so; a model's proposal is never mistaken for the owner's word."""
    plan, proposed = planned.standing.plan, planned.standing.status == "proposed"
    whose = {1: "by the owner", 2: "computed from the record"}.get(plan.tier, "by a model, confirmed by the owner")
    if proposed:
        whose = "proposed by a model, not confirmed"
    size = "" if plan.size_factor is None else f" to {plan.size_factor:g} of the usual size"
    says = {"fires": "fires", "holds": "still holds"}.get(planned.finding, planned.finding)
    text = f"- Plan {says}: {plan.action.replace('_', ' ')}{size} ({whose}) {id_reference(plan.id)}"
    return BriefLine(text, (SourceRef("plan", plan.id, plan.tier),), LinePriority.PLAN, f": {quote_text(plan.reasoning, REASON)}")


def _conviction(conviction: Conviction, as_of: datetime) -> BriefLine:
    when = age_phrase(max((as_of - conviction.at) / timedelta(days=1), 0.0))
    text = f"- Conviction {conviction.score}/100 in your open decision, {when}: {quote_text(conviction.note, REASON)}"
    return BriefLine(
        f"{text} {id_reference(conviction.decision)}", (SourceRef("decision", conviction.decision, 3),), LinePriority.CONVICTION
    )


def event_lines(ahead: Sequence[CalendarEvent], as_of: datetime) -> list[BriefLine]:
    """What is scheduled, the nearest first."""
    lines: list[BriefLine] = []
    for event in sorted((each for each in ahead if each.t >= as_of), key=lambda each: (each.t, each.id)):
        impact = f"{event.impact} impact" if event.impact else "impact unknown"
        about_ = ", ".join([*([safe_name(event.currency)] if event.currency else []), impact])
        text = f"- Ahead: {quote_text(event.name, 64)} ({about_}) in {_several(round((event.t - as_of) / MINUTE), 'minute')}"
        lines.append(
            BriefLine(text, (SourceRef("event", event.id, 4),), LinePriority.EVENT if lines else LinePriority.FIRST_EVENT)
        )
    return lines


def _document(cited: Passage) -> BriefLine:
    where = line_range(cited.path, cited.start_line, cited.end_line)
    text = f"- Document {where} {quote_text(cited.snippet, PASSAGE)} {id_reference(cited.id)}"
    return BriefLine(text, (SourceRef("document", cited.id, cited.tier),), LinePriority.DOCUMENT)


# --- similar situations -------------------------------------------------------------------------------------------------


def similar_lines(found: Sequence[SimilarDecision]) -> list[BriefLine]:
    """The nearest earlier decisions with what came of them; first how they ended together."""
    if not found:
        return []
    known, won, mean_r = similar_summary(found)
    text = "no outcome known" if mean_r is None else f"{won} of {known} with a known outcome won, mean {format_mean_r(mean_r)}"
    nearest = f"{_several(len(found), 'earlier decision')} nearest by {safe_line(found[0].by, 80)}"
    head = BriefLine(f"- The {nearest}: {text}", keep=LinePriority.SIMILAR)
    return [head, *(_similar(each) for each in found)]


def _similar(one: SimilarDecision) -> BriefLine:
    ended = r_phrase(one.pnl_r) + (" (by ATR)" if one.r_source == "atr_proxy" and one.pnl_r is not None else "")
    if one.kind == "shadow":
        ended = f"decided against, would have been {ended}" if one.pnl_r is not None else "decided against"
    if one.claimed:
        ended = f"{ended} as claimed" if one.pnl_r is not None else "outcome claimed but unverified"
    source = f" {quote_text(one.text, REASON)}" if one.text else ""
    what = f"{safe_name(one.symbol)} {safe_name(one.side)}, {100 * one.similarity:.0f} % alike"
    text = f"- {format_minute(one.decided_at)} {what}: {ended}{source} {id_reference(one.id)}"
    return BriefLine(text, (SourceRef("episode", one.id, one.tier),), LinePriority.SIMILAR)


def _reason(text: str | None) -> str:
    return quote_text(text, REASON) if text else ""


def _several(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)
