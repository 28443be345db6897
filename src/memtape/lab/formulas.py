"""The functions that answer the operations of golden vectors.

An adapter only converts a vector's inputs to arguments, and an answer to the vector's names. It computes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from memtape.core import statistics
from memtape.core.memory import affect, beliefs, habits, plans, predicate, situation
from memtape.core.memory.situation import Candle
from memtape.core.observed import Situation
from memtape.core.original import kelly_formulas, likeness, memories, score_formulas, validation
from memtape.core.recall import scoring, sizing
from memtape.errors import Invalid

Inputs = Mapping[str, Any]  # of one vector, as in its file
VectorAnswer = dict[str, Any]  # in the names of the vectors
_KNOWN = frozenset(field.name for field in fields(Situation))


def _vector(context: Inputs) -> Situation:
    """Returns a context of the vectors. Its names may have the prefix of the original's columns."""
    named = {name.removeprefix("context_"): value for name, value in context.items()}
    return Situation(**{name: value for name, value in named.items() if name in _KNOWN})


def _vector_time(text: str) -> datetime | None:
    """Returns a time of the vectors. Without a zone it is UTC; None if it cannot be read."""
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _original_time(text: str) -> datetime | None:
    """Returns a time as the original read it: without a zone it could not be subtracted and counted as unreadable."""
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return moment if moment.tzinfo else None


def _now(i: Inputs) -> datetime:
    moment = _vector_time(i["now"])
    if moment is None:
        raise Invalid("now", "is not a time", "Write ISO 8601 with its zone, like 2026-06-04T08:00:00Z")
    return moment


def _candidate(memory: Inputs) -> scoring.ScoringInput:
    return scoring.ScoringInput(
        id=memory["id"],
        kind=memory.get("_type", "episodic"),
        formed=_vector_time(memory.get("timestamp", "")),
        situation=_vector(memory.get("ctx", memory)),
        pnl_r=memory.get("pnl_r"),
        confidence=memory.get("confidence"),
        alpha=memory.get("alpha"),
        beta=memory.get("beta"),
        priority=memory.get("priority"),
        source_ids=tuple(memory.get("source_ids", ())),
    )


def _candidates(i: Inputs) -> list[scoring.ScoringInput]:
    return [_candidate(memory) for memory in i["memories"]]


def _affect_inputs(i: Inputs) -> scoring.AffectInputs:
    state = i.get("affective_state", {})
    return scoring.AffectInputs(state.get("drawdown_state", 0.0), state.get("consecutive_losses", 0))


def _candles(i: Inputs) -> list[Candle]:
    return [Candle(*map(float, bar[:4])) for bar in i["bars"]]


def _ranking(ranked: list[scoring.Scored], limit: int) -> VectorAnswer:
    return {
        "order": [scored.candidate.id for scored in ranked[:limit]],
        "scores": {scored.candidate.id: scored.score for scored in ranked},
        "components": {
            s.candidate.id: {
                "Q": s.components.quality,
                "Sim": s.components.similarity,
                "Rec": s.components.recency,
                "Conf": s.components.confidence,
                "Aff": s.components.affect,
            }
            for s in ranked
        },
    }


def _similar(measure: Callable[[Situation, Situation], float]) -> Callable[[Inputs], Any]:
    def answer(i: Inputs) -> dict[str, float]:
        memory, query = _vector(i["memory"]), _vector(i["query"])
        return {"sim": measure(memory, query), "sim_swapped": measure(query, memory)}

    return answer


def _recall_7_4(i: Inputs) -> VectorAnswer:
    candidates = _candidates(i)
    ranked = score_formulas.rank_7_4(candidates, _vector(i["query"]), _affect_inputs(i), _now(i))
    return _ranking(ranked, i.get("limit", 10)) | {"sigma_r": score_formulas.sigma_rms([c.pnl_r for c in candidates])}


def _recall_3_3(i: Inputs) -> VectorAnswer:
    sigma = i.get("sigma_r", scoring.SIGMA_UNKNOWN)
    return _ranking(
        score_formulas.rank_3_3(_candidates(i), _vector(i["query"]), _affect_inputs(i), _now(i), sigma), i.get("limit", 10)
    )


def _recall_balanced(i: Inputs) -> VectorAnswer:
    candidates = _candidates(i)
    sigma = i.get("sigma_r", score_formulas.sigma_rms([c.pnl_r for c in candidates]))
    limit, share = i.get("limit", 10), i.get("share", 0.4)
    best, ranked = scoring.rank_balanced(candidates, _vector(i["query"]), _now(i), sigma, limit, share)
    return _ranking(ranked, limit) | {"order": [scored.candidate.id for scored in best]}


def _hint(hint: sizing.SizingHint) -> VectorAnswer:
    return {
        "p_hat": hint.p_hat, "n_eff": hint.n_eff, "a": hint.loss, "b": hint.win,
        "p_lcb": hint.p_bound, "f_raw": hint.f_raw, "f": hint.f,
    }  # fmt: skip


def _lower_bound(pairs: list[tuple[float, float | None]], i: Inputs) -> VectorAnswer:
    names = {"kappa": "kappa", "gamma": "gamma", "fraction": "fraction", "cap": "cap", "n_min": "at_least"}
    options = {ours: i[theirs] for theirs, ours in names.items() if theirs in i}
    return _hint(sizing.lower_bound_size(pairs, i.get("risk_appetite", 1.0), **options))


def _estimator(i: Inputs) -> VectorAnswer:
    query, now, power = _vector(i["query"]), _now(i), i.get("power", 4.0)
    candidates = _candidates(i)
    weights = {
        c.id: scoring.evidence_weight(c.situation, query, scoring.fade(c, now), scoring.confidence_factor(c.confidence), power)
        for c in candidates
    }
    return _lower_bound([(weights[c.id], c.pnl_r) for c in candidates], i) | {"weights": weights}


def _kelly_from_memory(i: Inputs) -> VectorAnswer:
    sized = kelly_formulas.kelly_from_memory([(w, r) for w, r in i["scored"]], i.get("risk_appetite", 1.0))
    return {"kelly": sized.f, "p": sized.p, "a": sized.loss, "b": sized.win, "raw": sized.raw}


def _counts(belief: beliefs.Beta) -> VectorAnswer:
    return {
        "alpha": belief.alpha, "beta": belief.beta, "confidence": belief.mean, "uncertainty": belief.variance,
    }  # fmt: skip


def _induce(i: Inputs) -> VectorAnswer:
    belief = beliefs.beta_from_episodes(i["wins"], i["losses"])
    return _counts(belief) | {"sample_size": belief.count}


def _bayesian_update(i: Inputs) -> VectorAnswer:
    trades = [(trade.get("pnl_r"), trade["confirmed"]) for trade in i["trades"]]
    return _counts(memories.updated_beta_by_outcome(beliefs.Beta(i["alpha"], i["beta"]), trades)) | {
        "sample_size_added": len(trades)
    }


def _bayesian_update_unit(i: Inputs) -> VectorAnswer:
    belief = beliefs.updated_beta(beliefs.Beta(i["alpha"], i["beta"]), [trade["confirmed"] for trade in i["trades"]])
    return _counts(belief) | {"p_edge_over_half": belief.probability_above(0.5), "lcb05": belief.bound(0.05)}


def _edge_probability(i: Inputs) -> VectorAnswer:
    belief = beliefs.Beta(i["alpha"], i["beta"])
    return {"p": belief.probability_above(i.get("p0", 0.5)), "lcb05": belief.bound(0.05)}


def _mean_posterior(i: Inputs) -> VectorAnswer:
    edge = beliefs.mean_edge(i["pnl_rs"], i.get("kappa", 10.0), i.get("s0", 1.0), i.get("m0", 0.0))
    return {"mean": edge.mean, "scale": edge.scale, "p_positive": edge.probability_positive}


def _induction_gate(i: Inputs) -> VectorAnswer:
    p_values = {cell: statistics.binomial_tail(wins, n, i["base_rate"]) for cell, (wins, n) in i["cells"].items()}
    return {"p_values": p_values, "accepted": beliefs.accepted_cells(p_values, i.get("fdr", 0.1))}


def _confidence_ewma(i: Inputs) -> VectorAnswer:
    signal = memories.outcome_signal_original(i["pnl_r"], i.get("expected_pnl_r"))
    return {
        "signal": signal,
        "confidence": affect.updated_confidence(i["confidence"], signal, i.get("lam", affect.CONFIDENCE_MEMORY)),
    }


def _affective_path(i: Inputs) -> VectorAnswer:
    limit = i.get("max_acceptable_drawdown", affect.DRAWDOWN_LIMIT)
    start = affect.Affect(confidence=i["confidence0"], peak_equity=i["peak0"], equity=i["peak0"], limit=limit)
    happened = [
        memories.AffectInput(pnl_r=event.get("pnl_r"), expected_r=event.get("expected"), equity=event.get("equity"))
        for event in i["events"]
    ]
    end = memories.affect_path(start, happened)
    return {
        "confidence_level": end.confidence, "risk_appetite": end.risk_appetite, "drawdown_state": end.drawdown_state,
        "peak_equity": end.peak_equity, "consecutive_wins": end.consecutive_wins,
        "consecutive_losses": end.consecutive_losses,
    }  # fmt: skip


def _procedural(i: Inputs) -> VectorAnswer:
    trades = [(trade.get("pnl_r"), trade.get("hold")) for trade in i["trades"]]
    outcomes = [r for r, _ in trades]
    return {
        "actual_win_rate": habits.win_rate(outcomes),
        "actual_avg_pnl_r": habits.mean_r(outcomes),
        "disposition_effect": habits.hold_ratio(*habits.holds_by_outcome(trades), at_least=1),
    }


def _realised_shares(i: Inputs) -> VectorAnswer:
    shares = habits.realised_shares(i["rg"], i["pg"], i["rl"], i["pl"])
    return {"pgr": shares.gains, "plr": shares.losses, "de": shares.effect, "se": shares.error}


def _cusum(i: Inputs) -> VectorAnswer:
    drift = habits.cusum(i["z"], i["k"], i["h"])
    return {"alarm": drift.alarm, "direction": drift.direction, "s_plus": drift.up, "s_minus": drift.down}


def _page_hinkley(i: Inputs) -> VectorAnswer:
    drift = habits.page_hinkley(i["x"], i["delta"], i["lam"])
    return {"alarm": drift.alarm, "direction": drift.direction, "ph_up": drift.up, "ph_down": drift.down}


def _classify(i: Inputs) -> VectorAnswer:
    """The vectors name the two figures by their usual periods."""
    market = situation.market_labels(_candles(i), i.get("atr_n", 14), i.get("er_n", 20))
    return {
        "atr14": market.atr, "er20": market.efficiency, "pct_rank": market.volatility_rank,
        "volatility_regime": market.volatility_regime, "regime": market.regime,
    }  # fmt: skip


def _predicate(i: Inputs) -> VectorAnswer:
    """The vectors name fields of their own, so any field is allowed here."""
    read = predicate.read_predicate(i["predicate"], fields=None)
    return {"value": predicate.holds(read, i.get("context", {}), i.get("previous"))}


def _shadow(i: Inputs) -> VectorAnswer:
    outcome = plans.plan_shadow(i["side"], i["entry"], i["stop"], i.get("target"), _candles(i))
    return {
        "pnl_r": outcome,
        "plan_value_r_if_skipped": None if outcome is None else plans.value_of_skipping(outcome),
    }


def _sharpe(answer: tuple[float | None, float], name: str) -> VectorAnswer:
    return {name: answer[0], "weight": answer[1]}


def _deflated_sharpe(i: Inputs) -> VectorAnswer:
    arguments = (i["sr"], i["n"], i["skew"], i["kurtosis"], i["var_sr"], i["trials"])
    return dict(zip(("sr0", "dsr"), validation.deflated_sharpe(*arguments), strict=True))


def _purged_split(i: Inputs) -> VectorAnswer:
    start, end, embargo = i["test_start"], i["test_end"], i.get("embargo", 0)
    return {
        "walk_forward_train": validation.purged_before(i["trades"], start, embargo),
        "cpcv_train": validation.purged_around(i["trades"], start, end, embargo),
    }


def _fade_of(i: Inputs) -> dict[str, float]:
    return {"tau_days": i.get("tau", 30.0), "exponent": i.get("d", 0.5)}


def _affect(formula: Callable[[float | None, float, int, float], float]) -> Callable[[Inputs], Any]:
    return lambda i: {"aff": formula(i["pnl_r"], i["drawdown_state"], i["consecutive_losses"], i.get("alpha", 0.3))}


def _score_extended(i: Inputs) -> VectorAnswer:
    c = i["components"]
    return {"score": scoring.Components(c["Q"], c["Sim"], c["Rec"], c["Conf"], c.get("Aff", 1.0), i.get("sharpe_w", 1.0)).score}


FORMULAS: Mapping[str, Callable[[Inputs], Any]] = {
    "outcome_quality": lambda i: {"Q": scoring.outcome_quality(i["pnl_r"], i.get("sigma_r", 1.5), i.get("k", 2.0))},
    "outcome_quality_semantic": lambda i: {"Q": scoring.quality_of_belief(i["alpha"], i["beta"])},
    "outcome_quality_prospective": lambda i: {"Q": scoring.quality_of_plan(i["priority"], i["source_q"])},
    "sigma_r_rms": lambda i: {"sigma_r": score_formulas.sigma_rms(i["pnl_rs"])},
    "sigma_r_std": lambda i: {"sigma_r": score_formulas.sigma_sd(i["pnl_rs"], i.get("ddof", 1))},
    "context_similarity_2_6": _similar(likeness.similarity_2_6),
    "context_similarity_7_4": _similar(likeness.similarity_7_4),
    "context_similarity_symmetric": _similar(situation.similarity),
    "recency": lambda i: {"rec": scoring.recency(_vector_time(i["timestamp"]), _now(i), **_fade_of(i))},
    "recency_seed_literal_naive": lambda i: {"rec": scoring.recency(_original_time(i["timestamp"]), _now(i), **_fade_of(i))},
    "recency_whole_days": lambda i: {
        "rec": score_formulas.recency_by_whole_days(_vector_time(i["timestamp"]), _now(i), **_fade_of(i))
    },
    "confidence_factor": lambda i: {"conf": scoring.confidence_factor(i["confidence"])},
    "affective_modulation": _affect(score_formulas.affect_7_4),
    "affective_modulation_3_2": _affect(score_formulas.affect_3_2),
    "retrieval_bias_2_4": lambda i: {"boost": score_formulas.retrieval_bias_2_4(i["pnl_r"], i["drawdown_state"])},
    "outcome_weighted_recall_7_4": _recall_7_4,
    "outcome_weighted_recall_3_3": _recall_3_3,
    "recall_balanced": _recall_balanced,
    "score_extended": _score_extended,
    "retrieval_strength": lambda i: {
        "S": scoring.retrieval_strength(i["t_days"], i["n_retrievals"], i.get("S0", 1.0), i.get("tau", 30.0), i.get("d", 0.5))
    },
    "semantic_strength": lambda i: {
        "S": beliefs.belief_strength(i["t_days"], i["regime_match"], i.get("S0", 1.0), i.get("tau_s", 180.0), i.get("d_s", 0.3))
    },
    "sharpe_weight": lambda i: _sharpe(score_formulas.sharpe_weight(i["pnl_rs"], i["window_days"], i.get("ddof", 1)), "sharpe"),
    "sharpe_weight_v2": lambda i: _sharpe(
        scoring.sharpe_weight_cautious(i["pnl_rs"], i["window_days"], i.get("z", 1.0)), "sharpe_ann"
    ),
    "kelly_ratio": lambda i: {"f": kelly_formulas.kelly_bet(i["p"], i["b"])},
    "kelly_amounts": lambda i: {
        "f": sizing.kelly_r(i["p"], i["a"], i["b"]),
        "f_bet_equivalent": kelly_formulas.kelly_bet_of_r(i["p"], i["a"], i["b"]),
    },
    "kelly_from_win_rate_and_avg": lambda i: {
        "b": sizing.win_from_average(i["p"], i["avg_pnl_r"], i.get("a", 1.0)),
        "f": sizing.kelly_from_average(i["p"], i["avg_pnl_r"], i.get("a", 1.0)),
    },
    "kelly_from_memory": _kelly_from_memory,
    "kelly_exact": lambda i: {"f": kelly_formulas.kelly_exact([(w, r) for w, r in i["pairs"]])},
    "kelly_lcb": lambda i: _lower_bound([(w, r) for w, r in i["pairs"]], i),
    "estimator": _estimator,
    "beta_stats": lambda i: _counts(beliefs.Beta(i["alpha"], i["beta"])),
    "induce": _induce,
    "migrate_pattern": lambda i: _counts(beliefs.beta_from_pattern(i["confidence"], i["sample_size"])),
    "bayesian_update": _bayesian_update,
    "bayesian_update_unit": _bayesian_update_unit,
    "edge_probability": _edge_probability,
    "mean_posterior": _mean_posterior,
    "induction_gate": _induction_gate,
    "risk_appetite": lambda i: {"risk_appetite": affect.risk_appetite(i["drawdown"], i["max_acceptable_drawdown"])},
    "risk_appetite_grossman_zhou": lambda i: {
        "risk_appetite": affect.risk_appetite_gz(i["drawdown"], i["max_acceptable_drawdown"])
    },
    "confidence_ewma": _confidence_ewma,
    "confidence_signal_v2": lambda i: {"signal": affect.outcome_signal(i["pnl_r"], i["sigma_r"])},
    "affective_path": _affective_path,
    "adaptive_window": lambda i: {"N": memories.window_literal(i["stability"])},
    "adaptive_window_v2": lambda i: {"N": habits.window(i["stability"])},
    "procedural": _procedural,
    "pgr_plr": _realised_shares,
    "mechanical_hold_ratio": lambda i: {"disposition": habits.bracket_hold_ratio(i["tp"], i["sl"])},
    "loss_aversion": lambda i: {"score": habits.loss_aversion(i["risk_fraction"], i["pnl_rs"])},
    "recency_bias": lambda i: {"score": habits.recency_bias(i["risk_fraction"], i["pnl_rs"], i.get("lam", 0.7))},
    "entry_timing": lambda i: {"bias": habits.entry_timing(i["side"], i["p_signal"], i["p_entry"], i["atr"])},
    "exit_timing": lambda i: {"bias": habits.exit_timing(i["exit_r"], i["target_r"], i["mfe_r"])},
    "momentum_bias": lambda i: {"bias": habits.momentum_bias([(side, move) for side, move in i["items"]])},
    "stability": lambda i: {"stability": habits.stability(i["risk_fraction"], i["hold"])},
    "cusum": _cusum,
    "page_hinkley": _page_hinkley,
    "classify": _classify,
    "session": lambda i: {"session": situation.session_of(i["minute_of_day_utc"])},
    "predicate": _predicate,
    "shadow_trade": _shadow,
    "deflated_sharpe": _deflated_sharpe,
    "pbo": lambda i: dict(
        zip(("pbo", "logits"), validation.overfitting(i["matrix"], i["blocks"], i.get("metric", "mean")), strict=True)
    ),
    "purged_split": _purged_split,
}
