"""Everything that a brief may say, read through one view; the core composes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from memtape.core.brief.inputs import BriefInputs, BriefPlan, Conviction
from memtape.core.brief.recalled_memories import RECALLED_FOR_BRIEF, shown_episodes
from memtape.core.brief.references import group_by_signal, shown_signals
from memtape.core.brief.risk import risk_state
from memtape.core.brief.sections.memory import has_mean
from memtape.core.memory.outcome_units import signal_of
from memtape.core.memory.plans import resolve_plans
from memtape.core.memory.shadows import shadow_id
from memtape.core.observed import CashFlow, Decision
from memtape.core.recall.similar import similar_decisions
from memtape.core.values import read
from memtape.documents.vectors import EMBEDDER_ERRORS
from memtape.engine.view.events import events_concerning
from memtape.engine.view.examinations import examinations
from memtape.engine.view.exposure import held_notionals, position_exposures
from memtape.engine.view.lessons import active_lessons
from memtape.engine.view.memories import RecallQuestion, question_notes, recall_situation
from memtape.engine.view.open_positions import open_positions
from memtape.engine.view.outcomes import decision_outcomes
from memtape.engine.view.owner_stream import INSTANT
from memtape.engine.view.plans import plan_views
from memtape.engine.view.situation import current_situation, last_symbol
from memtape.engine.view.venue import coverage_at
from memtape.engine.view.view import TradeFilter

if TYPE_CHECKING:
    from memtape.core.events import Discrepancy
    from memtape.core.ledger.trades import Trade
    from memtape.core.memory.episodes import Episode
    from memtape.core.memory.outcome_units import Signal
    from memtape.core.observed import Situation
    from memtape.core.recall.similar import SimilarDecision
    from memtape.core.skills import Agent, Skill
    from memtape.engine.brief_question import BriefQuestion
    from memtape.engine.view.plans import PlanView
    from memtape.engine.view.view import View
    from memtape.plugs.embedder import Embedder

DAY = timedelta(days=1)
SIMILAR_DECISIONS = 5
COMPARED_IN_WORDS = 100  # the nearest by situation that are compared in words as well
MAX_CONVICTIONS = 5
MAX_DISCREPANCIES = 20
MAX_DISCREPANCIES_READ = 200  # among them may be many that no brief shows
# A late snapshot explains itself, and what was held before the record began is no news to the agent.
NOT_IN_BRIEFS = frozenset(("snapshot_lag", "adopted"))


def gather(
    view: View, question: BriefQuestion, agent: Agent, skill: Skill, version: int, embedder: Embedder | None
) -> BriefInputs:
    """Everything a brief may say, as of the view's cutoff; each section's reader is called once. Documents come later."""
    config = skill.context.memory
    symbol = question.symbol or (question.situation.symbol if question.situation else None) or last_symbol(view)
    situation = current_situation(view, symbol, question.situation)
    affect = view.affect()
    recent = view.items("decision", since=view.as_of - DAY, before=view.as_of + INSTANT)
    midnight = _midnight(view.as_of)
    # What was paid in or out today is no part of the equity that the day began with.
    paid_in = sum((read(CashFlow, item.body).usd for item in view.items("flow", since=midnight)), Decimal(0))
    risk = risk_state(
        [read(Decision, item.body) for item in recent], view.closed_between(midnight, view.as_of), affect,
        Decimal(repr(affect.equity)) - paid_in, view.as_of, claims_count=view.claims_count,
    )  # fmt: skip
    inputs = BriefInputs(
        agent=agent.id, skill=skill, skill_version=version, currency=agent.settings.currency, as_of=view.as_of,
        situation=situation, risk=risk, discrepancies=_recent_discrepancies(view), coverage=coverage_at(view),
    )  # fmt: skip
    if not config.enabled or question.without_memory:
        return inputs
    asked = RecallQuestion(
        situation=situation, symbol=symbol, strategy=question.strategy, limit=RECALLED_FOR_BRIEF,
        warnings_limit=RECALLED_FOR_BRIEF,
    )  # fmt: skip
    recalled, query, basis = recall_situation(view, asked)
    lacks_mean = not has_mean(recalled.evidence) and recalled.evidence.n_trades < basis.n
    of_all_symbols = None
    if symbol is not None and (lacks_mean or not recalled.warnings):
        # An agent may trade many symbols, each a few times: what its trades in all of them say is the nearest there is.
        elsewhere, _, _ = recall_situation(view, replace(asked, symbol=None))
        of_all_symbols = elsewhere if lacks_mean else None
        if not recalled.warnings:
            recalled = replace(recalled, warnings=tuple(replace(each, far=True) for each in elsewhere.warnings[:1]))
    own, shared = active_lessons(view)
    holding = open_positions(view) if config.includeOpenPositions else ()
    events = events_concerning(view, symbol, {position.trade.symbol for position in holding})
    closed = _recent_trades(view, config.recentTradesK)
    listed = shown_signals(replace(inputs, recent=closed))
    remembered = shown_episodes(recalled, situation, {trade.id for trades in listed for trade in trades})
    signals = _signal_trades(view, remembered)
    plans = plan_views(view, symbol, situation, {"strategy": question.strategy} if question.strategy else None)
    return replace(
        inputs,
        lessons=own.lessons_shown(view.as_of) if own else (), skill_lessons=shared.lessons_shown(view.as_of) if shared else (),
        recent=closed, holding=holding,
        recalled=recalled, of_all_symbols=of_all_symbols, query=query,
        episodes_known=basis.n, outcome_source=basis.outcome_source,
        reasons=_entry_reasons(view, [episode.id for episode in remembered], closed), signal_trades=signals,
        notes=question_notes(view, question.situation, question.symbol, question.strategy),
        plans=_firing_plans(plans),
        proposed_plans=sum(each.state.status == "proposed" and each.finding != "expired" for each in plans),
        events=events, exposures=position_exposures(view, events, held_notionals(holding)),
        similar=_similar(view, situation, symbol, question, embedder) if config.similarSituations else (),
        convictions=_convictions(view),
    )  # fmt: skip


def _recent_trades(view: View, signals: int) -> tuple[Trade, ...]:
    """The newest closed trades: enough for so many signals, each whole. Most signals are one trade, so few are read at first."""
    limit = signals + 1
    while signals:
        trades = view.trades(TradeFilter(status="closed", limit=limit))
        # More trades may have been entered in the same second as the last one read.
        last = _second(trades[-1]) if trades else None
        whole = [trade for trade in trades if _second(trade) != last]
        if len(trades) < limit or len(group_by_signal(whole)) >= signals:
            return tuple(trades)
        limit *= 4
    return ()


def _second(trade: Trade) -> datetime:
    return trade.entry_at.replace(microsecond=0)


def _signal_trades(view: View, shown: Sequence[Episode]) -> dict[Signal, tuple[Episode, ...]]:
    """All trades of the remembered signals that have several. Recall finds the best or the worst of them first."""
    signals = {signal_of(episode) for episode in shown if episode.kind == "trade"}
    found: dict[Signal, list[Episode]] = {}
    for episode in view.episodes_of_signals(signals) if signals else ():
        if episode.kind == "trade" and (view.claims_count or not episode.claimed):
            found.setdefault(signal_of(episode), []).append(episode)
    return {signal: tuple(sorted(trades, key=lambda each: each.id)) for signal, trades in found.items() if len(trades) > 1}


def _entry_reasons(view: View, ids: Sequence[str], known: Sequence[Trade]) -> dict[str, str]:
    """Why the remembered trades were entered, by id; the trades that are not known yet are read in one statement."""
    trades = [trade for trade in known if trade.id in ids]
    trades += view.closed_trades(set(ids) - {trade.id for trade in trades})
    return {trade.id: trade.entry_reason for trade in trades if trade.entry_reason}


def _midnight(at: datetime) -> datetime:
    return at.replace(hour=0, minute=0, second=0, microsecond=0)


def _recent_discrepancies(view: View) -> tuple[Discrepancy, ...]:
    found = view.discrepancies(MAX_DISCREPANCIES_READ)
    shown = [d for d in found if view.as_of - DAY <= d.at <= view.as_of and d.why not in NOT_IN_BRIEFS]
    return tuple(shown[:MAX_DISCREPANCIES])


def _firing_plans(views: Sequence[PlanView]) -> tuple[BriefPlan, ...]:
    """The active plans that fire or hold now, in the order in which they weigh. What a model proposes is only counted."""
    firing = {one.state.plan.id: one for one in views if one.state.status == "active" and one.finding in ("fires", "holds")}
    in_order = resolve_plans([one.fired() for one in firing.values()]).in_order
    return tuple(BriefPlan(firing[one.id].state, firing[one.id].finding) for one in in_order)


def _convictions(view: View) -> tuple[Conviction, ...]:
    """The latest re-examination of each decision whose outcome is still open."""
    latest = {one.decision: one for one in examinations(view)}
    if not latest:
        return ()
    settled = {each.decision for each in decision_outcomes(view, list(latest)) if each.status in ("resolved", "expired")}
    found = sorted((one for one in latest.values() if one.decision not in settled), key=lambda one: one.at, reverse=True)
    shown = found[:MAX_CONVICTIONS]
    return tuple(Conviction(one.decision, one.examination.conviction_score, one.examination.notes, one.at) for one in shown)


# ---- similar decisions ---------------------------------------------------------------------------------------------------


def _similar(
    view: View, situation: Situation, symbol: str | None, question: BriefQuestion, embedder: Embedder | None
) -> tuple[SimilarDecision, ...]:
    """The nearest earlier decisions; with an embedder, the nearest of them by words too."""
    episodes, claims_count = view.episodes(), view.claims_count
    near = similar_decisions(episodes, situation, view.as_of, limit=COMPARED_IN_WORDS, claims_count=claims_count)
    chosen = {one.id for one in near}
    candidates = [e for e in episodes if e.id in chosen]
    reasons = _reasons(view, candidates)
    words = question.thesis or last_reason(view, symbol)
    texts: dict[str, float] | None = None
    if embedder is not None and words:
        try:
            texts = cosines(embedder, words, {id_: reason for id_, reason in reasons.items() if reason})
        except EMBEDDER_ERRORS:
            # Without an embedder, fall back to similarity by situation only; the section says what it compared.
            texts = None
    if texts is None or embedder is None:
        return similar_decisions(
            candidates, situation, view.as_of, reasons=reasons, limit=SIMILAR_DECISIONS, claims_count=claims_count
        )
    return similar_decisions(
        candidates, situation, view.as_of, reasons=reasons, texts=texts, model=embedder.id, limit=SIMILAR_DECISIONS,
        claims_count=claims_count,
    )  # fmt: skip


def _reasons(view: View, episodes: Sequence[Episode]) -> dict[str, str]:
    """The reason given for each decision."""
    ids = {e.id for e in episodes if e.kind == "trade"}
    found: dict[str, str] = {trade.id: trade.entry_reason or "" for trade in view.closed_trades(ids)}
    first = min((e.entry_at for e in episodes if e.kind == "shadow"), default=None)
    if first is not None:
        for item in view.items("decision", since=first):
            found[shadow_id(view.agent.id, item.key)] = item.body.get("reason") or ""
    return {id_: reason for id_, reason in found.items() if reason}


def cosines(embedder: Embedder, words: str, reasons: Mapping[str, str]) -> dict[str, float]:
    """The cosine of each decision's reason to the present words."""
    if not reasons:
        return {}
    ids = sorted(reasons)
    vectors = embedder.embed([words, *(reasons[id_] for id_ in ids)])
    return {id_: float(vectors[n + 1] @ vectors[0]) for n, id_ in enumerate(ids)}


# ---- what the agent last had to do with ----------------------------------------------------------------------------------


def last_reason(view: View, symbol: str | None) -> str:
    """The reason of the last decision, on a symbol or on any."""
    last = view.items("decision", symbol=symbol, newest=True, limit=1)
    return (last[0].body.get("reason") or "") if last else ""
