"""Memories at a view's moment: recall, one belief with its evidence, habits, and how often each memory was shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from memtape.core.memory.behaviour import behaviour, realised_counts
from memtape.core.memory.belief_cells import trades_for_and_against
from memtape.core.memory.learn import is_hidden_by
from memtape.core.memory.outcome_units import choose_unit, in_unit
from memtape.core.observed import Side, Situation
from memtape.core.original.forms import score_forms
from memtape.core.recall.query import AffectContext, Query, RecallParameters
from memtape.core.recall.unknown_values import label_notes, strategy_notes, symbol_notes
from memtape.core.value_class import dataclass
from memtape.engine.view.plans import plans_for_recall
from memtape.engine.view.situation import current_situation
from memtape.engine.view.view import AnswerBasis, TradeFilter
from memtape.errors import Unknown

if TYPE_CHECKING:
    from memtape.core.ledger.trades import Trade
    from memtape.core.memory.behaviour import Behaviour, ClosedCounts
    from memtape.core.memory.beliefs import Belief
    from memtape.core.memory.episodes import Episode
    from memtape.core.original.forms import ScoreForm
    from memtape.core.recall.reference import Recalled
    from memtape.engine.view.view import View

MAX_TICKS_BACK = 5_000
HABIT_TRADES = 1_000  # trades that habits are read from: the window, and the trades before it that it is measured by
DEFAULT_TYPES = ("episodic", "semantic")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallQuestion:
    """What recall is asked; without a situation, about the agent's own at the moment."""

    situation: Situation | None = None
    symbol: str | None = None
    strategy: str | None = None
    side: Side | None = None
    memory_types: tuple[str, ...] = DEFAULT_TYPES
    limit: int = 10
    warnings_limit: int = 5
    profile: str = "owm"
    explain: bool = False
    kelly_beside: bool = False
    parameters: RecallParameters | None = None
    hide: bool = True  # leave out what a model forgot; a check of an order leaves out nothing
    stated: Situation | None = None  # what the caller stated of the situation: notes are about that alone


def recall_situation(view: View, question: RecallQuestion) -> tuple[Recalled, Query, AnswerBasis]:
    """What memory has to say about a situation: ranked memories, warnings of losses, evidence."""
    query = recall_query(view, question)
    basis = replace(view.basis(), notes=_recall_notes(view, question))
    beliefs = view.beliefs() if "semantic" in question.memory_types else []
    plans = plans_for_recall(view.plan_states()) if "prospective" in question.memory_types else []
    hidden = {item.symbol for item in view.items("correction") if is_hidden_by(item)} if question.hide else set()
    if not hidden:
        return view.recall(query, beliefs, plans), query, basis
    # Others take the places of those that are hidden.
    wider = replace(query, limit=query.limit + len(hidden), warnings_limit=query.warnings_limit + len(hidden))
    found = view.recall(wider, beliefs, plans)
    shown = replace(
        found,
        ranked=tuple(each for each in found.ranked if each.id not in hidden)[: query.limit],
        warnings=tuple(each for each in found.warnings if each.id not in hidden)[: query.warnings_limit],
        near_misses=tuple(each for each in found.near_misses if each.id not in hidden),
        hidden=len(hidden),
    )
    return shown, query, basis


def _recall_notes(view: View, question: RecallQuestion) -> tuple[str, ...]:
    # A recall lists claims too. A check and a brief rest on what counts, and no claim changes a word of them.
    return question_notes(view, question.stated, question.symbol, question.strategy, counted=not question.hide)


def question_notes(
    view: View, stated: Situation | None, symbol: str | None, strategy: str | None = None, *, counted: bool = True
) -> tuple[str, ...]:
    """What a question asks for and no memory (that counts) has; the labels that the caller stated, not those that bars show."""
    labels = {} if stated is None else {name: getattr(stated, name) for name in Situation.__slots__}
    symbol = symbol or (stated.symbol if stated is not None else None)
    if symbol is None and strategy is None and not any(labels.get(name) for name in ("regime", "volatility_regime", "session")):
        return ()
    known = view.known_values(counted=counted)
    if symbol is not None and symbol not in known.symbols:
        # What is held for the first time is no memory yet, but no mistake either.
        known = replace(known, symbols=tuple(sorted({*known.symbols, *view.held_symbols()})))
    # A skill that has not traded yet is a strategy too.
    known = replace(known, strategies=tuple(sorted({*known.strategies, view.agent.skill})))
    return (*symbol_notes(symbol, known), *strategy_notes(strategy, known), *label_notes(labels, known))


def recall_query(view: View, question: RecallQuestion) -> Query:
    """The query of a question, with the agent's affect state and what was shown to it."""
    affect, parameters = view.affect(), question.parameters or RecallParameters()
    return Query(
        situation=question.situation if question.situation is not None else current_situation(view, question.symbol),
        as_of=view.as_of, symbol=question.symbol, strategy=question.strategy, side=question.side,
        memory_types=question.memory_types, limit=question.limit, warnings_limit=question.warnings_limit,  # type: ignore[arg-type]
        profile=question.profile, claims_count=view.claims_count, explain=question.explain,  # type: ignore[arg-type]
        kelly_beside=question.kelly_beside, currency=view.agent.settings.currency,
        affect=AffectContext(affect.drawdown_state, affect.consecutive_losses, affect.risk_appetite, affect.assumption),
        parameters=parameters, times_shown=times_shown(view) if parameters.strength == "on" else {},
    )  # fmt: skip


def times_shown(view: View) -> dict[str, int]:
    """How often each memory was shown to the agent: only that reinforces it."""
    return Counter(id_ for item in view.items("shown") for id_ in item.body["memories"])


def explained_scores(view: View, id: str, situation: Situation | None) -> tuple[list[ScoreForm], int, datetime]:
    """The factors of one episode's score in every form, how many episodes were known, and when."""
    query = recall_query(view, RecallQuestion(situation=situation, limit=0))
    known = view.episodes()
    episode = next((e for e in known if e.id == id), None)
    if episode is None:
        raise Unknown("memory_id", "episode known then", id, "Find it with recall_memories or get_trades")
    if episode.pnl_r is None:
        # Without an R of its own, its outcome is compared in the unit that recall would choose.
        unit = choose_unit(known, view.claims_count)
        episode, known = unit.applied(episode), in_unit(known, unit)
    return score_forms(episode, known, query), len(known), view.as_of


def belief_with_evidence(view: View, id: str) -> tuple[Belief, list[str], list[str]]:
    """One belief, with the trades for it and against it."""
    belief = next((belief for belief in view.beliefs() if belief.id == id), None)
    if belief is None:
        raise Unknown("belief_id", "belief", id, "List them with get_beliefs")
    for_, against = trades_for_and_against(belief, view.episodes(), view.claims_count)
    return belief, list(for_), list(against)


# ---- habits ------------------------------------------------------------------------------------------------------------


def habits(view: View, *, strategy: str | None = None, symbol: str | None = None) -> tuple[Behaviour, AnswerBasis]:
    """What the agent does repeatedly, in one strategy and symbol or in all."""
    trades = view.trades(TradeFilter(symbol=symbol, limit=HABIT_TRADES))
    episodes = view.latest_episodes(HABIT_TRADES, symbol=symbol, strategy=strategy)
    found = behaviour(episodes, _realised(view, trades), claims_count=view.claims_count, money=view.money_unit())
    basis = AnswerBasis.of(view.as_of, view.claims_count, episodes)
    return found, basis if episodes else replace(basis, notes=question_notes(view, None, symbol, strategy))


def habits_by_group(view: View, limit: int = 50) -> list[Behaviour]:
    """The habits of each strategy and symbol among the latest trades, the most traded first."""
    groups: dict[tuple[str, str], list[Episode]] = {}
    for episode in view.latest_episodes(HABIT_TRADES):
        groups.setdefault((episode.strategy, episode.symbol), []).append(episode)
    largest = sorted(groups, key=lambda key: (-len(groups[key]), key))[:limit]
    money = view.money_unit()
    return [behaviour(groups[key], claims_count=view.claims_count, money=money) for key in largest]


def _realised(view: View, trades: Sequence[Trade]) -> ClosedCounts | None:
    """Gains and losses realised and left open at the agent's ticks, by the marks of each tick."""
    ticks = view.items("tick", newest=True, limit=MAX_TICKS_BACK)[::-1]
    if not ticks:
        return None
    trades = [trade for trade in trades if trade.exit_at is None or trade.exit_at >= ticks[0].at]
    by_entry = sorted(trades, key=lambda trade: trade.entry_at)
    several = any(a.exit_at is not None and b.entry_at < a.exit_at for a, b in pairwise(by_entry))
    moments: list[tuple[datetime, list[float], list[float]]] = []
    before = ticks[0].at
    for tick in ticks:
        marks = tick.body.get("marks", {})
        closed = [
            float(t.net_pnl_usd) for t in trades if t.exit_at and t.net_pnl_usd is not None and before < t.exit_at <= tick.at
        ]
        held = [
            (1 if t.side == "long" else -1) * (float(marks[t.symbol]) - float(t.entry_price))
            for t in trades
            if t.symbol in marks
            and t.entry_price is not None
            and t.entry_at < tick.at
            and (t.exit_at is None or t.exit_at > tick.at)
        ]
        if closed or held:
            moments.append((tick.at, closed, held))
        before = tick.at
    return realised_counts(moments, "portfolio" if several else "single")
