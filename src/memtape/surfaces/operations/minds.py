"""What an agent has come to believe, what it does again and again, and the state it is in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AliasChoices, Field

from memtape.core.codec import plain
from memtape.core.memory.affect import Affect, AffectInput, AffectStep, affect_path, risk_appetite_gz
from memtape.core.memory.beliefs import Belief, mean_edge, updated_beta, updated_beta_by_outcome
from memtape.core.statistics import binomial_tail, mean
from memtape.core.values import Key, Label, Line, Symbol
from memtape.surfaces.answers import Answer, AsOf, OfAgent, behaviour_row, optional_time_text, rounded_figure
from memtape.surfaces.operations.memories import Basis, basis_of, belief_row
from memtape.surfaces.operations.records import reader
from memtape.surfaces.registry import operation

if TYPE_CHECKING:
    from datetime import datetime

    from memtape.engine import AgentMemory, Memory
    from memtape.surfaces.caller import Caller


# ---- beliefs -------------------------------------------------------------------------------------------------------------


class GetBeliefs(AsOf):
    """Which beliefs."""

    status: Annotated[
        Literal["candidate", "believed", "merged", "split", "retired"] | None, Field(description="default: all")
    ] = None
    strategy: Annotated[Label | None, Field(description="only about this strategy")] = None
    symbol: Annotated[Symbol | None, Field(description="only about this symbol")] = None
    limit: Annotated[int, Field(ge=1, le=1000, description="how many")] = 100


class BeliefsAnswer(Basis):
    """Beliefs, the most certain first."""

    beliefs: Annotated[list[dict[str, Any]], Field(description="sentence, status, counts, interval, base rate, why")]
    total: Annotated[int, Field(description="how many there are")]
    suggested_plans: Annotated[list[dict[str, Any]], Field(description="plans that beliefs and the drawdown suggest; not made")]


@operation(writes=False)
def get_beliefs(memory: Memory, ask: GetBeliefs, caller: Caller) -> BeliefsAnswer:
    """What an agent has come to believe, with what speaks for and against each.

    A belief stays a candidate until it has 30 trades and passes the false-discovery gate over all cells that were scanned.
    """
    handle = reader(memory, ask)
    found, moment = handle.memories.beliefs(as_of=ask.as_of, head=ask.head)
    chosen = [
        b for b in found
        if (ask.status is None or b.status == ask.status) and (ask.strategy is None or b.strategy in (None, ask.strategy))
        and (ask.symbol is None or b.symbol in (None, ask.symbol))
    ]  # fmt: skip
    rank = ("believed", "candidate", "split", "merged", "retired")
    chosen.sort(key=lambda b: (rank.index(b.status), 1.0 if b.p_value is None else b.p_value, -b.n, b.id))
    return BeliefsAnswer(
        **basis_of(handle.agent.id, moment), beliefs=[belief_row(b) for b in chosen[: ask.limit]], total=len(chosen),
        suggested_plans=[plain(p) for p in handle.plans.suggested(as_of=ask.as_of)] if ask.head is None else [],
    )  # fmt: skip


class GetBelief(AsOf):
    """Which belief."""

    belief_id: Annotated[Key, Field(description="its id")]


class BeliefAnswer(Basis):
    """A belief and its evidence."""

    belief: Annotated[dict[str, Any], Field(description="sentence, status, counts, interval, base rate, why")]
    confirming: Annotated[list[str], Field(description="trades for it, each once")]
    contradicting: Annotated[list[str], Field(description="trades against it, each once")]
    coin: Annotated[
        float | None, Field(description="how often a coin would confirm it as often; the base rate is the fairer measure")
    ]
    mean_edge: Annotated[
        dict[str, Any] | None, Field(description="what its trades say of the mean outcome in R: mean, P(above 0), n")
    ]
    by_outcome: Annotated[
        dict[str, Any] | None, Field(description="alpha and beta by the original rule, which counts by |R| up to 2")
    ]


@operation(writes=False)
def get_belief(memory: Memory, ask: GetBelief, caller: Caller) -> BeliefAnswer:
    """One belief, with every trade for it and against it."""
    handle = reader(memory, ask)
    return _belief_answer(handle, *handle.memories.belief(ask.belief_id, as_of=ask.as_of, head=ask.head), ask.as_of, ask.head)


def _belief_answer(
    handle: AgentMemory, belief: Belief, for_: list[str], against: list[str], as_of: datetime | None, head: int | None
) -> BeliefAnswer:
    """A belief with its evidence, and what other ways of counting make of it."""
    episodes = {e.id: e for e in handle.memories.episodes(as_of=as_of, head=head)} if for_ or against else {}
    tested = [(episodes[id_].pnl_r, id_ in set(for_)) for id_ in sorted([*for_, *against])]
    literal = updated_beta_by_outcome(belief.prior, tested)
    unit = updated_beta(belief.prior, [confirmed for _, confirmed in tested])
    edge = mean_edge([r for r, _ in tested])
    told = {
        "alpha": rounded_figure(literal.alpha),
        "beta": rounded_figure(literal.beta),
        "confidence": rounded_figure(literal.mean),
    }
    _, moment = handle.memories.beliefs(as_of=as_of, head=head)
    return BeliefAnswer(
        **basis_of(handle.agent.id, moment),
        belief=belief_row(belief),
        confirming=for_,
        contradicting=against,
        coin=rounded_figure(binomial_tail(len(for_), len(tested), 0.5)) if tested else None,
        mean_edge={
            "mean": rounded_figure(edge.mean),
            "probability_positive": rounded_figure(edge.probability_positive),
            "n": len(tested),
        }
        if tested
        else None,
        by_outcome=told | {"unit_counts": rounded_figure(unit.mean)} if tested else None,
    )


class StateBelief(OfAgent):
    """A belief of the owner's: in such a situation, trades end so."""

    sentence: Annotated[Line, Field(description="what you believe, in words")]
    validity_conditions: Annotated[
        dict[str, Any], Field(description="when it holds: a predicate over the entry situation, never empty")
    ]
    metric: Annotated[Literal["pnl_r", "pnl_usd", "hold_minutes", "mfe_r", "mae_r"], Field(description="what it speaks of")] = (
        "pnl_r"
    )
    op: Annotated[Literal["gt", "ge", "lt", "le"], Field(description="how it compares")] = "gt"
    value: Annotated[float, Field(allow_inf_nan=False, description="with what")] = 0.0
    strategy: Annotated[Label | None, Field(description="only this strategy; default: any")] = None
    symbol: Annotated[Symbol | None, Field(description="only this symbol; default: any")] = None
    id: Annotated[Key | None, Field(description="default: made from the content")] = None


@operation(writes=True)
def state_belief(memory: Memory, ask: StateBelief, caller: Caller) -> BeliefAnswer:
    """State a belief as the owner: it starts mild (alpha 2, beta 1) and is tested by every trade its conditions hold for."""
    handle = memory.agent_for_writing(ask.agent)
    body = {"sentence": ask.sentence, "when": ask.validity_conditions, "metric": ask.metric, "op": ask.op, "value": ask.value,
            "strategy": ask.strategy, "symbol": ask.symbol, "id": ask.id,
            "tier": 3 if caller.is_model else None}  # fmt: skip
    id_ = handle.state_belief({k: v for k, v in body.items() if v is not None})
    return _belief_answer(handle, *handle.belief(id_), None, None)


# ---- habits and state ----------------------------------------------------------------------------------------------------


class GetBehaviour(AsOf):
    """Whose habits."""

    strategy_name: Annotated[Label | None, Field(validation_alias=AliasChoices("strategy_name", "strategy"),
                             description="only this strategy")] = None  # fmt: skip
    symbol: Annotated[Symbol | None, Field(description="only this symbol")] = None


class BehaviourAnswer(Basis):
    """What an agent does again and again."""

    strategy: Annotated[str | None, Field(description="null: several")]
    symbol: Annotated[str | None, Field(description="null: several")]
    window_trades: Annotated[int, Field(description="trades looked back on; steady agents have longer windows")]
    window_of_the_original: Annotated[int, Field(description="the original's window, for comparison")]
    figures: Annotated[dict[str, Any], Field(description="each with value (null below its sample), n, and why it is null")]
    drift: Annotated[
        list[dict[str, Any]], Field(description="whether outcomes, risk or hold are changing: direction, magnitude, since")
    ]
    drift_detected: Annotated[bool, Field(description="whether any is, now")]
    segments: Annotated[list[dict[str, Any]], Field(description="the same for each strategy and symbol")]
    patterns: Annotated[list[dict[str, Any]], Field(description="what is done again and again, how often, and what came of it")]


@operation(writes=False, tools={"coach"})
def get_behavioral_analysis(memory: Memory, ask: GetBehaviour, caller: Caller) -> BehaviourAnswer:
    """What an agent does again and again: timing, sizing against Kelly, disposition, reaction to losses, stability, drift."""
    handle = reader(memory, ask)
    found, moment = handle.memories.behaviour(strategy=ask.strategy_name, symbol=ask.symbol, as_of=ask.as_of, head=ask.head)
    parts = [] if found.strategy and found.symbol else handle.memories.behaviours(as_of=ask.as_of, head=ask.head)
    chosen = [b for b in parts if ask.strategy_name in (None, b.strategy) and ask.symbol in (None, b.symbol)]
    segments = [{"n": part.n, **behaviour_row(part)} for part in chosen]
    return BehaviourAnswer(**basis_of(handle.agent.id, moment), **behaviour_row(found), segments=segments)


class GetState(AsOf):
    """When, and how much of its history."""

    history: Annotated[int, Field(ge=0, le=5000, description="how many past steps to add")] = 0


class StateAnswer(Answer):
    """An agent's state of mind, computed from outcomes and flow-adjusted equity."""

    agent: Annotated[str, Field(description="whose")]
    as_of: Annotated[str, Field(description="UTC")]
    n: Annotated[int, Field(description="steps behind it: closes, equity marks, flows")]
    confidence_level: Annotated[float, Field(description="slow average of how trades went, 0 to 1")]
    risk_appetite: Annotated[float, Field(description="1 at the peak, a tenth at the drawdown limit")]
    risk_appetite_grossman_zhou: Annotated[float, Field(description="the stricter form: 0 at the limit")]
    momentum_bias: Annotated[float | None, Field(description="contrarian (-1) to following (+1); null below its sample")]
    drawdown_pct: Annotated[float, Field(description="a fraction: 0.05 is 5 %")]
    drawdown_state: Annotated[float, Field(description="0 at the peak, 1 at the limit")]
    max_acceptable_drawdown: Annotated[float, Field(description="the limit, a fraction")]
    equity: Annotated[float, Field(description="NAV, account currency, deposits taken out")]
    peak_equity: Annotated[float, Field(description="its highest")]
    consecutive_wins: Annotated[int, Field(description="in a row")]
    consecutive_losses: Annotated[int, Field(description="in a row")]
    original: Annotated[
        dict[str, Any], Field(description="the original's confidence, measured by the mean outcome; shown, not followed")
    ]
    last_updated: Annotated[str | None, Field(description="UTC: the last step")]
    history: Annotated[list[dict[str, Any]], Field(description="past steps, oldest first")]


@operation(writes=False, tools={"coach"})
def get_agent_state(memory: Memory, ask: GetState, caller: Caller) -> StateAnswer:
    """An agent's state of mind: confidence, risk appetite, drawdown, streaks; computed, never told."""
    handle = reader(memory, ask)
    at = ask.as_of or handle.now()
    step, mood = handle.memories.affect_step(as_of=at, head=ask.head), handle.memories.affect(as_of=at, head=ask.head)
    steps = handle.memories.affect_history(as_of=at, head=ask.head, limit=ask.history) if ask.history else []
    habits, _ = handle.memories.behaviour(as_of=at, head=ask.head)
    return StateAnswer(
        agent=handle.agent.id,
        as_of=optional_time_text(at) or "",
        n=handle.memories.affect_step_count(as_of=at, head=ask.head),
        confidence_level=rounded_figure(mood.confidence) or 0.0,
        risk_appetite=rounded_figure(mood.risk_appetite) or 0.0,
        risk_appetite_grossman_zhou=rounded_figure(risk_appetite_gz(mood.drawdown)) or 0.0,
        momentum_bias=rounded_figure(habits.momentum_bias.value),
        drawdown_pct=rounded_figure(mood.drawdown) or 0.0,
        drawdown_state=rounded_figure(mood.drawdown_state) or 0.0,
        max_acceptable_drawdown=mood.limit,
        equity=rounded_figure(mood.equity) or 0.0,
        peak_equity=rounded_figure(mood.peak_equity) or 0.0,
        consecutive_wins=mood.consecutive_wins,
        consecutive_losses=mood.consecutive_losses,
        original=_original_state(handle.memories.affect_history(as_of=at, head=ask.head, limit=100)),
        last_updated=optional_time_text(step.at) if step else None,
        history=[
            {
                "at": optional_time_text(s.at),
                "what": ("flow", "close", "mark")[s.rank],
                "confidence": rounded_figure(s.confidence),
                "equity": rounded_figure(s.nav),
                "drawdown_pct": rounded_figure(s.state().drawdown),
                "risk_appetite": rounded_figure(s.state().risk_appetite),
                "pnl_r": rounded_figure(s.pnl_r),
            }
            for s in steps
        ],
    )


def _original_state(steps: Sequence[AffectStep]) -> dict[str, Any]:
    """The original's state over the last closes: each measured by the mean outcome before it."""
    outcomes = [step.pnl_r for step in steps if step.pnl_r is not None]
    if not outcomes or not steps:
        return {"confidence": None, "n": 0}
    told = [AffectInput(pnl_r=r, expected_r=mean(outcomes[:n]) if n else None) for n, r in enumerate(outcomes)]
    calm = Affect(peak_equity=steps[0].peak, equity=steps[0].nav)
    return {"confidence": rounded_figure(affect_path(calm, told).confidence), "n": len(outcomes)}
