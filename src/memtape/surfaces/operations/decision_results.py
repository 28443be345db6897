"""The operation on the results of trade decisions: what is active, what is closed, and how much was won, in R."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from memtape.core.codec import plain, time_text
from memtape.core.decisions.cards import TRADE_DECISION
from memtape.core.decisions.outcomes import NOT_TAKEN
from memtape.core.decisions.results import (
    DecisionResult,
    ResultFigures,
    ResultGroup,
    ResultWindow,
    TotalPoint,
    in_window,
    result_figures,
    running_total,
)
from memtape.core.ledger.trades import money_text
from memtape.core.values import Slug, Time
from memtape.surfaces.answer_models import Answer, answer_model
from memtape.surfaces.answers import optional_time_text
from memtape.surfaces.questions import Ask
from memtape.surfaces.registry import operation

if TYPE_CHECKING:
    from memtape.engine import Memory
    from memtape.engine.view.decisions import DecisionCard
    from memtape.surfaces.caller import Caller


class GetDecisionResults(Ask):
    """Which decisions."""

    agent: Annotated[Slug | None, Field(description="only this agent; default: all")] = None
    window: Annotated[ResultWindow, Field(description="closed in the last 24h or 7d; what is active is always listed")] = "all"
    limit: Annotated[int, Field(ge=1, le=500, description="rows of each list; the figures count all")] = 10
    curve: Annotated[bool, Field(description="true: also the running total of R, decision by decision")] = False
    as_of: Annotated[Time | None, Field(description="answer as of this time (ISO 8601 with zone)")] = None


class DecisionResultRow(Answer):
    """A trade decision with what came of it."""

    agent: Annotated[str, Field(description="the agent")]
    id: Annotated[str, Field(description="the decision")]
    run: Annotated[str | None, Field(description="the run that took it")]
    at: Annotated[str, Field(description="UTC; when it was taken")]
    symbol: Annotated[str | None, Field(description="what it is about")]
    action: Annotated[str | None, Field(description="what was decided")]
    side: Annotated[str | None, Field(description="long or short")]
    entry: Annotated[str | None, Field(description="planned entry; null: at the market")]
    stop: Annotated[str | None, Field(description="planned stop")]
    target: Annotated[str | None, Field(description="planned target")]
    status: Annotated[str | None, Field(description="pending, open, resolved, expired; null: it has no outcome")]
    closed_at: Annotated[str | None, Field(description="UTC; null: still active, or not known")]
    cause: Annotated[str | None, Field(description="stop, target, expiry, unfilled, ...")]
    r: Annotated[str | None, Field(description="outcome in R")]
    source: Annotated[str | None, Field(description="where the outcome comes from: bars, trade, or stated by the owner")]
    counts: Annotated[bool, Field(description="false: its real risk was too small, so it enters no figure")]
    conviction: Annotated[int | None, Field(description="score of its latest re-examination, 0 to 100")]
    re_examinable: Annotated[bool, Field(description="true: it may be examined again now")]


ResultFiguresRow = answer_model(
    ResultFigures,
    {
        "active": "pending or open", "closed": "resolved or expired",
        "n": "closed with an R that counts; the figures rest on these",
        "won": "above zero", "lost": "below zero", "flat": "zero", "total_r": "cumulative R", "won_r": "gross R won",
        "lost_r": "gross R lost, as a positive number", "hit_rate": "won / n", "profit_factor": "won_r / lost_r; null: no losses",
        "not_counted": "closed, with an R that enters no figure", "unfilled": "closed without R: the entry was never filled",
    },
)  # fmt: skip
TotalPointRow = answer_model(TotalPoint, {"key": "AGENT/DECISION", "at": "UTC", "r": "its R", "total_r": "cumulative R"})


class DecisionResults(Answer):
    """The results of trade decisions. Lists are newest first and may be cut; `figures` and `listed` count all."""

    window: Annotated[str, Field(description="24h, 7d or all")]
    as_of: Annotated[str, Field(description="UTC")]
    figures: Annotated[ResultFiguresRow, Field(description="over the closed decisions of the window")]  # type: ignore[valid-type]
    active: Annotated[list[DecisionResultRow], Field(description="pending and open")]
    closed: Annotated[list[DecisionResultRow], Field(description="resolved and expired")]
    without_outcome: Annotated[list[DecisionResultRow], Field(description="nothing says what came of them")]
    not_taken: Annotated[list[DecisionResultRow], Field(description="decisions not to trade, with their shadow outcome")]
    listed: Annotated[dict[str, int], Field(description="how many decisions each list has in all")]
    curve: Annotated[list[TotalPointRow], Field(description="oldest first; empty unless asked for")]  # type: ignore[valid-type]


@operation(
    writes=False,
    columns={
        **dict.fromkeys(("active", "without_outcome"), ("id", "symbol", "action", "status", "conviction", "agent", "at")),
        **dict.fromkeys(("closed", "not_taken"), ("id", "symbol", "action", "r", "cause", "agent", "at")),
    },
)
def get_decision_results(memory: Memory, ask: GetDecisionResults, caller: Caller) -> DecisionResults:
    """Get what came of trade decisions: active and closed ones, cumulative R, hit rate and profit factor.

    Decisions not to trade, and outcomes whose real risk was too small, enter no figure.
    """
    now = ask.as_of or memory.clock.now()
    agents = [ask.agent] if ask.agent is not None else [agent.id for agent in memory.agents()]
    found: list[tuple[DecisionResult, DecisionResultRow]] = []
    for agent in agents:
        for card in memory.agent(agent).ledger.decision_cards(as_of=ask.as_of):
            result = _result(agent, card)
            if card.decision.card == TRADE_DECISION.name and in_window(result, ask.window, now):
                found.append((result, _result_row(agent, card)))
    found.sort(key=lambda each: (each[0].decided_at, each[0].key), reverse=True)
    results = [result for result, _ in found]

    def rows(group: ResultGroup) -> list[DecisionResultRow]:
        return [row for result, row in found if result.group == group][: ask.limit]

    groups: Sequence[ResultGroup] = ("active", "closed", "without outcome", "not taken")
    return DecisionResults(
        window=ask.window, as_of=time_text(now), figures=ResultFiguresRow(**_figures(result_figures(results))),
        active=rows("active"), closed=rows("closed"), without_outcome=rows("without outcome"), not_taken=rows("not taken"),
        listed={group.replace(" ", "_"): sum(result.group == group for result in results) for group in groups},
        curve=[_point_row(point) for point in running_total(results)] if ask.curve else [],
    )  # fmt: skip


def _result(agent: str, card: DecisionCard) -> DecisionResult:
    outcome = card.outcome
    return DecisionResult(
        key=f"{agent}/{card.id}", decided_at=card.at, status=outcome.status if outcome else None,
        closed_at=outcome.outcome.exit_at if outcome else None,
        r=outcome.r if outcome else None, counts=outcome is None or outcome.counts,
        taken=(card.decision.action or "").lower() not in NOT_TAKEN,
    )  # fmt: skip


def _result_row(agent: str, card: DecisionCard) -> DecisionResultRow:
    decision, outcome = card.decision, card.outcome
    return DecisionResultRow(
        agent=agent, id=card.id, run=decision.run.id if decision.run is not None else None, at=time_text(card.at),
        symbol=decision.symbol, action=decision.action, side=decision.stated_side, entry=_price(card, "entry"),
        stop=_price(card, "stop"), target=_price(card, "target"), status=outcome.status if outcome else None,
        closed_at=optional_time_text(outcome.outcome.exit_at if outcome else None),
        cause=outcome.cause if outcome else None, r=money_text(outcome.r) if outcome else None,
        source=outcome.source if outcome else None, counts=outcome is None or outcome.counts, conviction=card.conviction,
        re_examinable=card.gate.allowed,
    )  # fmt: skip


def _price(card: DecisionCard, slot: str) -> str | None:
    value = card.slots.get(slot)
    return value if isinstance(value, str) else None


def _figures(figures: ResultFigures) -> dict[str, object]:
    ratios = {name: money_text(getattr(figures, name)) for name in ("total_r", "won_r", "lost_r", "hit_rate", "profit_factor")}
    return {**plain(figures), **ratios}


def _point_row(point: TotalPoint) -> object:
    return TotalPointRow(key=point.key, at=time_text(point.at), r=money_text(point.r), total_r=money_text(point.total_r))
