"""The sections of a brief, line by line: what was traded, what is held, where the account stands, what memory has to say.

Every line begins with a mark of ours and holds one item; words that others wrote stand in quotes, and what can be cited ends in
its id. Figures have one form each (`amounts`). Nothing here is chosen or weighed: lines only say how dear they are (`budget`).

>>> from datetime import UTC
>>> [line.text for line in events([Event(id="e", t=datetime(2026, 6, 5, 12, 30, tzinfo=UTC), name="NFP", currency="USD",
...                                      impact="high")], datetime(2026, 6, 5, 12, tzinfo=UTC))]
['- Ahead: "NFP" (USD, high impact) in 30 minutes']
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from textwrap import wrap

from memtape.core.amounts import about, gained, in_r2, lasting, minute, money, number, percent, span
from memtape.core.beliefs import Belief
from memtape.core.brief import Cited, Conviction, Holding, Inputs, Planned, Rule, Source
from memtape.core.budget import Keep, Line
from memtape.core.calendar import Event
from memtape.core.episodes import NOT_TAUGHT, Episode
from memtape.core.events import Discrepancy
from memtape.core.evidence import Evidence, leaving
from memtape.core.learn import TIER_OF
from memtape.core.observed import ANY, Situation
from memtape.core.ranking import Ranked
from memtape.core.reasons import ago, in_r
from memtape.core.risk import RiskState
from memtape.core.similar import Similar, summary
from memtape.core.text import located, named, one_line, quoted, reference, unlisted, words, written
from memtape.core.trades import Trade, by_entry
from memtape.core.warning import Warned

HEADINGS = {
    "rules": "## Rules",
    "recent_trades": "## Recent trades on this skill (closed)",
    "open_positions": "## Open positions (memory view)",
    "risk_state": "## Risk state",
    "memory": "## From memory",
    "similar": "## Similar situations in the past",
}
REASON, NOTE, PASSAGE, RULE_LINE = 120, 100, 240, 1_000  # characters of a quoted text
DISCREPANCIES = 5  # told one by one; of more only the number
MINUTE = timedelta(minutes=1)
OWNERS_WORD = {"wrong_reason": "the owner: for another reason", "structural": "the owner: structural"}


def user_sections(inputs: Inputs) -> dict[str, list[Line]]:
    """The lines of each section, before anything is left out."""
    config = inputs.skill.context.memory
    differing = list(discrepancies(inputs.discrepancies))
    shown = config.includeOpenPositions and config.enabled
    found: dict[str, list[Line]] = {
        "rules": rules(inputs.rules),
        "risk_state": [*risk_lines(inputs.risk, inputs.currency), *(() if shown else differing)],
    }
    if config.enabled:
        found |= {
            "recent_trades": recent_trades(inputs.recent, config.recentTradesK),
            "open_positions": [*(_held(each, inputs.as_of) for each in inputs.holding), *differing] if shown else [],
            "memory": from_memory(inputs),
            "similar": similar_lines(inputs.similar) if config.similarSituations else [],
        }
    return found


# --- what the owner pinned ----------------------------------------------------------------------------------------------


def rules(pinned: Sequence[Rule]) -> list[Line]:
    """The owner's own words: the title as an item, each line of the text under it.

    >>> [line.text for line in rules([Rule("m", "Manual", "# Risk\\n- 1 % a trade\\n\\n- no revenge trades")])]
    ['- Manual', '  | Risk', '  | 1 % a trade', '  | no revenge trades']
    """
    lines: list[Line] = []
    for rule in pinned:
        source = (Source("rule", rule.id, 1),)
        lines.append(Line(f"- {words(rule.title, NOTE)}", source))
        lines += [Line(f"  | {unlisted(text)}", source) for text in written(_wrapped(rule.text)) if text]
    return lines


def _wrapped(text: str) -> str:
    """A text in which no line is so long that it would be cut: the end of a rule may be what matters."""
    return "\n".join(part for line in text.splitlines() for part in (wrap(line, RULE_LINE) if len(line) > RULE_LINE else (line,)))


# --- trades and positions -----------------------------------------------------------------------------------------------


def recent_trades(trades: Iterable[Trade], most: int) -> list[Line]:
    """Closed trades, the newest entry first."""
    newest = sorted((trade for trade in trades if trade.exit_at is not None), key=by_entry, reverse=True)[:most]
    return [Line(closed_trade(trade), _of_trade(trade), Keep.RECENT) for trade in newest]


def closed_trade(trade: Trade) -> str:
    """One round trip: when, what, how large, from where to where, what came of it, and why it was entered."""
    assert trade.exit_at is not None
    unknown = "outcome unknown" if trade.pnl_r is None else ""  # some say how many R it was, and not how much money
    made = unknown if trade.net_pnl_usd is None else gained(trade.net_pnl_usd, trade.currency)
    percents = "" if trade.pnl_pct is None else f"({percent(trade.pnl_pct)}%)"
    return _joined(
        f"- {span(trade.entry_at, trade.exit_at)}", *_what(trade), f"→ {_price(trade.exit_price)}", made, percents,
        _r(trade.pnl_r, trade.r_source), lasting((trade.exit_at - trade.entry_at) / MINUTE), _excursions(trade), _marks(trade),
        _reason(trade.entry_reason),
    )  # fmt: skip


def open_position(held: Holding, as_of: datetime) -> str:
    """One position: what is held, what it is worth now, how far it ran, how long, its stop and target, and why."""
    trade, now, worth = held.trade, held.mark, held.unrealized_usd
    risk = trade.initial_risk_usd
    return _joined(
        "-", *_what(trade), "" if now is None else f"mark={number(now)}",
        "" if worth is None else f"unrealised={gained(worth, trade.currency)}",
        _r(worth / risk, trade.r_source) if worth is not None and risk else "",
        f"realised={gained(trade.realized_pnl_usd, trade.currency)}" if trade.realized_pnl_usd and trade.qty_exited else "",
        _excursions(trade), f"held {lasting((as_of - trade.entry_at) / MINUTE)}",
        "" if trade.stop_price is None else f"stop={number(trade.stop_price)}",
        "" if trade.target_price is None else f"target={number(trade.target_price)}",
        _marks(trade, still_open=True), _reason(trade.entry_reason),
    )  # fmt: skip


def _held(held: Holding, as_of: datetime) -> Line:
    return Line(open_position(held, as_of), _of_trade(held.trade))


def _what(trade: Trade) -> tuple[str, ...]:
    size = "" if trade.entry_size_usd is None else money(trade.entry_size_usd, trade.currency)
    return named(trade.symbol), trade.side, size, f"@ {_price(trade.entry_price)}"


def _price(amount: Decimal | None) -> str:
    return "?" if amount is None else number(amount)


def _r(r: Decimal | None, source: str | None) -> str:
    return "" if r is None else f"{in_r(float(r))}{' (by ATR)' if source == 'atr_proxy' else ''}"


def _excursions(trade: Trade) -> str:
    best = "" if trade.mfe_usd is None else f"MFE={about(trade.mfe_usd, trade.currency)}"
    worst = "" if trade.mae_usd is None else f"MAE={about(trade.mae_usd, trade.currency)}"
    return " / ".join(each for each in (best, worst) if each)


def _marks(trade: Trade, still_open: bool = False) -> str:
    """What must be known to read the figures: how it ended, how sure they are, what the owner said of it."""
    liquidated = "partly liquidated" if still_open else "liquidated"
    said = {"claimed": "claimed", "inferred": "inferred", "unpriced": "price unknown"}.get(trade.quality, "")
    left = ""
    if still_open and trade.qty_open is not None and trade.qty_exited and trade.qty_entered:
        left = f"{percent(100 * trade.qty_open / trade.qty_entered)} % still open"
    marks = [
        left, liquidated if trade.liquidation_fills or trade.close_cause == "liquidation" else "", said,
        "adopted" if trade.adopted else "",
        "excluded by the owner" if trade.teach in NOT_TAUGHT else OWNERS_WORD.get(trade.teach, ""),
    ]  # fmt: skip
    told = ", ".join(mark for mark in marks if mark)
    return f"({told})" if told else ""


def _of_trade(trade: Trade) -> tuple[Source, ...]:
    return (Source("trade", trade.id, TIER_OF[trade.quality]),)


def discrepancies(found: Sequence[Discrepancy]) -> Iterator[Line]:
    """Where broker and record disagree, the newest first."""
    newest = sorted(found, key=lambda each: (each.symbol, each.leg))
    newest.sort(key=lambda each: each.at, reverse=True)
    for each in newest[:DISCREPANCIES]:
        told = "was already held when the record began" if each.why == "adopted" else "fills do not explain what the broker shows"
        at = "" if each.price is None else f", priced at {number(each.price)}"
        yield Line(
            f"- Discrepancy {minute(each.at)} {named(each.symbol)}: {told} "
            f"(broker {number(each.broker_qty)}, record {number(each.ledger_qty)}{at})",
            (Source("discrepancy", f"{each.symbol}/{each.leg}@{minute(each.at)}", 2),),
        )
    if len(newest) > DISCREPANCIES:
        yield Line(f"- {len(newest) - DISCREPANCIES} more discrepancies in the last day")


# --- where the account stands -------------------------------------------------------------------------------------------


def risk_lines(state: RiskState, currency: str) -> Iterator[Line]:
    """The day so far. Nothing at all while nothing has happened."""
    if state.is_blank:
        return
    if state.refused:
        by_rule = ", ".join(f"{named(rule.code)} {len(rule.decisions)}" for rule in state.refused)
        n = sum(len(rule.decisions) for rule in state.refused)
        ids = [id for rule in state.refused for id in rule.decisions]
        yield Line(f"- Rejected in the last hour: {by_rule} ({n} of {_several(state.judged, 'proposal')})", _decisions(ids))
    if (last := state.last_refused) is not None:
        note = f" {quoted(last.note, REASON)}" if last.note else ""
        yield Line(f"- Last rejection, {ago(last.minutes_ago / 1440)}: {named(last.code)}{note}", _decisions([last.decision]))
    yield Line(f"- Orders today: {state.orders} (of {_several(state.decisions, 'decision')})")
    if state.closed:
        share = "" if state.realized_pct is None else f" ({percent(state.realized_pct)} % of the equity the day began with)"
        trades = tuple(Source("trade", id, 2) for id in state.closed)
        made = gained(state.realized_usd, currency)
        yield Line(f"- Realised today: {made}{share} in {_several(len(state.closed), 'trade')}", trades)
    if state.unknown:
        yield Line(f"- Closed today, outcome not known for sure: {_several(state.unknown, 'trade')}")
    if state.losing_streak is not None:
        yield Line(f"- Losses in a row: {state.losing_streak}")
    if state.drawdown is not None and state.drawdown_limit is not None:
        limit = percent(100 * state.drawdown_limit).removesuffix(".0")
        yield Line(f"- Drawdown: {percent(100 * max(state.drawdown, 0.0))} % from the peak (limit {limit} %)")


def _decisions(ids: Iterable[str]) -> tuple[Source, ...]:
    return tuple(Source("decision", id, 3) for id in ids if id)


# --- what memory has to say ---------------------------------------------------------------------------------------------


def from_memory(inputs: Inputs) -> list[Line]:
    """Warnings, evidence, what is recalled, plans, convictions, events ahead, documents."""
    found: list[Line] = []
    if (recalled := inputs.recalled) is not None:
        warned = {each.id for each in recalled.warnings}
        found += [_warning(each, first=not at) for at, each in enumerate(recalled.warnings)]
        if inputs.episodes_known:
            found += evidence_lines(leaving(recalled.evidence), inputs.situation, inputs.standing == "claimed")
        found += [_ranked(each) for each in (*recalled.ranked, *recalled.beliefs) if each.id not in warned]
    found += [_plan(each) for each in inputs.plans]
    found += [_conviction(each, inputs.as_of) for each in inputs.convictions]
    return [*found, *events(inputs.events, inputs.as_of), *(_document(each) for each in inputs.documents)]


def _warning(warned: Warned, first: bool) -> Line:
    far = " (the nearest loss; the situation was another)" if warned.far else ""
    text = f"- Warning{far}, {_episode(warned.memory, warned.why)} {reference(warned.id)}"
    return Line(text, (Source("episode", warned.id, warned.tier),), Keep.ALWAYS if first else Keep.WARNING)


def _episode(episode: Episode, why: str) -> str:
    """A trade and why it is told. Labels are somebody's words too: unless they are plain, the sentence is quoted."""
    labels = (episode.symbol, episode.regime, episode.volatility_regime, episode.session)
    plain = all(label is None or named(label) == label for label in labels)
    told = one_line(f"{why[:1].lower()}{why[1:]}", PASSAGE) if plain else quoted(why, PASSAGE)
    note = f" {quoted(episode.reflection, NOTE)}" if episode.reflection else ""
    return f"{named(episode.symbol)} {episode.side}: {told}{note}"


def evidence_lines(evidence: Evidence, situation: Situation, claimed: bool) -> Iterator[Line]:
    """What all trades together say about the situation, and the size that follows from it."""
    where = _where(situation)
    if evidence.mean_r is None:
        yield Line(f"- Evidence{where}: no trade in memory with a known outcome in R", keep=Keep.EVIDENCE)
    else:
        interval, base = evidence.mean_r_interval, evidence.base
        sure = f", 90 %: {in_r2(interval[0])} to {in_r2(interval[1])}" if interval else "; too few for an interval"
        told = f"mean {in_r2(evidence.mean_r)} (n = {evidence.n}, n_eff = {evidence.n_eff:.1f}{sure}), {_won(evidence.win_rate)}"
        told += f"; base rate {in_r2(base.mean_r or 0.0)}, {_won(base.win_rate)} (the same trades, each counted once)"
        by_atr = "; R by ATR, for want of stops" if evidence.r_source == "atr_proxy" else ""
        yield Line(f"- Evidence{where}: {told}{by_atr}{_claims(evidence, claimed)}", keep=Keep.EVIDENCE)
    f = evidence.hint.f
    most = f"at most {100 * f:.2f} % of equity for 1R" if f else "none"
    yield Line(f"- Size by evidence: {most}. {'; '.join(evidence.hint.reasons)}", keep=Keep.EVIDENCE)
    if evidence.shadows.n and evidence.shadows.mean_r is not None:
        made = f"would have made {in_r2(evidence.shadows.mean_r)} on average"
        yield Line(f"- Decided against: {_several(evidence.shadows.n, 'trade')}, {made}", keep=Keep.EVIDENCE)


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
    told = [form.format(named(label)) for form, label in labels if label and label != ANY]
    return f" for {', '.join(told)}" if told else ""


def _ranked(ranked: Ranked) -> Line:
    id = reference(ranked.id)
    if isinstance(ranked.memory, Episode):
        return Line(f"- Recalled, {_episode(ranked.memory, ranked.why)} {id}", _memory("episode", ranked), Keep.RANKED)
    if isinstance(ranked.memory, Belief):
        return Line(f"- Belief: {quoted(ranked.why, PASSAGE)} {id}", _memory("belief", ranked), Keep.RANKED)
    return Line(f"- Plan on record: {quoted(ranked.why, PASSAGE)} {id}", _memory("plan", ranked), Keep.RANKED)


def _memory(kind: str, ranked: Ranked) -> tuple[Source, ...]:
    return (Source(kind, ranked.id, ranked.tier),)


def _plan(planned: Planned) -> Line:
    """What a plan says now, and who says so; a model's proposal is never mistaken for the owner's word."""
    plan, proposed = planned.standing.plan, planned.standing.status == "proposed"
    whose = {1: "by the owner", 2: "computed from the record"}.get(plan.tier, "by a model, confirmed by the owner")
    if proposed:
        whose = "proposed by a model, not confirmed"
    size = "" if plan.size_factor is None else f" to {plan.size_factor:g} of the usual size"
    says = {"fires": "fires", "holds": "still holds"}.get(planned.finding, planned.finding)
    text = f"- Plan {says}: {plan.action.replace('_', ' ')}{size} ({whose}) {reference(plan.id)}"
    return Line(text, (Source("plan", plan.id, plan.tier),), Keep.PLAN, f": {quoted(plan.reasoning, REASON)}")


def _conviction(conviction: Conviction, as_of: datetime) -> Line:
    when = ago(max((as_of - conviction.at) / timedelta(days=1), 0.0))
    text = f"- Conviction {conviction.score}/100 in your open decision, {when}: {quoted(conviction.note, REASON)}"
    return Line(f"{text} {reference(conviction.decision)}", (Source("decision", conviction.decision, 3),), Keep.CONVICTION)


def events(ahead: Sequence[Event], as_of: datetime) -> list[Line]:
    """What is scheduled, the nearest first."""
    lines: list[Line] = []
    for event in sorted((each for each in ahead if each.t >= as_of), key=lambda each: (each.t, each.id)):
        impact = f"{event.impact} impact" if event.impact else "impact unknown"
        about_ = ", ".join([*([named(event.currency)] if event.currency else []), impact])
        text = f"- Ahead: {quoted(event.name, 64)} ({about_}) in {_several(round((event.t - as_of) / MINUTE), 'minute')}"
        lines.append(Line(text, (Source("event", event.id, 4),), Keep.EVENT if lines else Keep.FIRST_EVENT))
    return lines


def _document(cited: Cited) -> Line:
    where = located(cited.path, cited.start_line, cited.end_line)
    text = f"- Document {where} {quoted(cited.snippet, PASSAGE)} {reference(cited.id)}"
    return Line(text, (Source("document", cited.id, cited.tier),), Keep.DOCUMENT)


# --- similar situations -------------------------------------------------------------------------------------------------


def similar_lines(found: Sequence[Similar]) -> list[Line]:
    """The nearest earlier decisions with what came of them; first how they ended together."""
    if not found:
        return []
    known, won, mean_r = summary(found)
    told = "no outcome known" if mean_r is None else f"{won} of {known} with a known outcome won, mean {in_r2(mean_r)}"
    nearest = f"{_several(len(found), 'earlier decision')} nearest by {words(found[0].by, 80)}"
    head = Line(f"- The {nearest}: {told}", keep=Keep.SIMILAR)
    return [head, *(_similar(each) for each in found)]


def _similar(one: Similar) -> Line:
    ended = in_r(one.pnl_r) + (" (by ATR)" if one.r_source == "atr_proxy" and one.pnl_r is not None else "")
    if one.kind == "shadow":
        ended = f"decided against, would have been {ended}" if one.pnl_r is not None else "decided against"
    if one.claimed:
        ended = f"{ended} as claimed" if one.pnl_r is not None else "outcome claimed but unverified"
    said = f" {quoted(one.text, REASON)}" if one.text else ""
    what = f"{named(one.symbol)} {named(one.side)}, {100 * one.similarity:.0f} % alike"
    text = f"- {minute(one.decided_at)} {what}: {ended}{said} {reference(one.id)}"
    return Line(text, (Source("episode", one.id, one.tier),), Keep.SIMILAR)


def _reason(text: str | None) -> str:
    return quoted(text, REASON) if text else ""


def _several(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)
