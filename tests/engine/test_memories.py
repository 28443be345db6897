"""What an agent remembers, corrects, forgets and intends, told through the engine on both stores."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memtape.engine import AgentMemory, Memory
from memtape.engine.proof.audit import rebuild_store, verify_store
from memtape.errors import Conflict, Invalid, PermissionDenied, Unknown
from memtape.store.memories import MemoryTables
from tests.desk import given_agent

pytestmark = pytest.mark.any_store

START = datetime(2026, 1, 5, 8, tzinfo=UTC)


def hour(n: float) -> datetime:
    return START + timedelta(hours=n)


def told(agent: AgentMemory, n: int, r: float, **more: Any) -> str:
    """The n-th trade of a diary, which ended at so many R; its id."""
    report = {"symbol": "XAU", "side": "long", "entry_price": 100, "exit_price": 100 + r, "pnl": 100 * r, "pnl_r": r, "strategy": "vb",
              "trade_id": f"m{n}", "entry_at": hour(n), "exit_at": hour(n + 0.5), "situation": {"regime": "ranging"}, **more}  # fmt: skip
    return str(agent.remember_trade(report).concluded[0].trade_id)


@pytest.fixture
def diary(memory: Memory) -> AgentMemory:
    """An agent without a broker, which reports its own trades."""
    return given_agent(memory)


# ---- one trade, all memories ---------------------------------------------------------------------------------------------


def test_a_reported_trade_is_learned_by_every_kind_of_memory_at_once(diary):
    for n in range(12):
        told(diary, n, -1.0 if n % 3 else 2.0)
    assert len(diary.memories.episodes()) == 12
    assert diary.memories.affect().consecutive_losses == 2
    beliefs, moment = diary.memories.beliefs()
    ranging = next(b for b in beliefs if b.proposition.when == {"regime": "ranging"})
    assert (ranging.n, ranging.confirmed, ranging.status) == (12, 4, "candidate")
    assert diary.memories.behaviour()[0].win_rate.n == 12
    assert (moment.n, moment.outcome_source) == (12, "claimed")
    assert verify_store(Memory.of(diary.resources)).ok


def test_twenty_losses_of_3r_show_in_confidence_risk_appetite_and_drawdown(diary):
    calm = diary.memories.affect()
    for n in range(20):
        told(diary, n, -3.0)
    mood = diary.memories.affect()
    assert mood.confidence < 0.15 < calm.confidence
    assert mood.consecutive_losses == 20
    assert mood.drawdown == pytest.approx(0.6) and mood.drawdown_state == 1.0
    assert mood.risk_appetite == pytest.approx(0.1)


def test_a_deposit_is_no_profit_and_a_withdrawal_no_drawdown(diary):
    # The hundred lost after the withdrawal was a tenth of the thousand that was left.
    diary.observe({"t": hour(1), "equity": 10000}, kind="equity")
    diary.observe({"id": "c1", "t": hour(2), "usd": 5000}, kind="flow")
    diary.observe({"t": hour(3), "equity": 15000}, kind="equity")
    assert diary.memories.affect().peak_equity == 10000
    diary.observe({"id": "c2", "t": hour(4), "usd": -14000}, kind="flow")
    assert diary.memories.affect().drawdown == 0
    diary.observe({"t": hour(5), "equity": 900}, kind="equity")
    assert diary.memories.affect().drawdown == pytest.approx(0.1)
    assert diary.memories.affect().below_peak == 100


def test_an_episode_keeps_the_situation_of_its_entry_and_is_not_known_before_its_exit(diary):
    id_ = told(diary, 1, 2.0)
    assert diary.memories.episodes(as_of=hour(1.4)) == []
    assert diary.memories.episode(id_, as_of=hour(1.5)).regime == "ranging"


def test_a_trade_reported_open_is_closed_later(diary):
    diary.remember_trade(
        {"symbol": "XAU", "side": "long", "entry_price": 100, "stop": 98, "qty": 1, "trade_id": "o", "entry_at": hour(1)}
    )
    assert [t.status for t in diary.ledger.trades()] == ["open"] and diary.memories.episodes() == []
    diary.close_trade({"trade_id": "o", "exit_price": 103, "exit_at": hour(2), "reflection": "patient"})
    (episode,) = diary.memories.episodes()
    assert (episode.pnl_r, episode.reflection) == (1.5, "patient")
    with pytest.raises(Unknown, match="trade_id"):
        diary.close_trade({"trade_id": "never", "exit_price": 1})
    assert verify_store(Memory.of(diary.resources)).ok


def test_the_same_report_within_ten_minutes_is_one_trade(diary):
    report = {"symbol": "XAU", "side": "long", "entry_price": 100, "exit_price": 101, "pnl_r": 1.0, "exit_at": hour(1)}
    assert not diary.remember_trade(report).duplicate
    assert diary.remember_trade({**report, "exit_at": hour(1.1)}).duplicate
    assert not diary.remember_trade({**report, "exit_at": hour(2)}).duplicate
    assert len(diary.ledger.trades()) == 2


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"pnl": 100, "pnl_r": -1.0}, "pnl_r"), ({"stop": 98, "pnl_r": 9.0, "pnl": 9}, "pnl_r"), ({"confidence": 1.2}, "confidence"), ({"pnl_r": float("nan")}, "pnl_r"),
        ({"entry_price": "high"}, "entry_price"), ({"exit_at": "2026-01-05T08:00:00"}, "exit_at"), ({"exit_at": "soon"}, "exit_at"),
        ({"exit_at": "2031-01-01T00:00:00Z"}, "exit_at"), ({"symbol": "\n"}, "symbol"), ({"reflection": "x" * 2001}, "reflection"),
        ({"stop": 105}, "stop"), ({"situation": {"atr_d1": float("inf")}}, "atr_d1"), ({"situation": {"colour": "red"}}, "colour"),
    ],
)  # fmt: skip
def test_a_report_that_cannot_be_right_is_refused_and_nothing_is_written(diary, wrong, field):
    before = diary.head()
    with pytest.raises(Invalid, match=field):
        told(diary, 1, 1.0, **wrong)
    assert diary.head() == before and diary.memories.episodes() == []


# ---- claims and the broker's word ----------------------------------------------------------------------------------------


def bought(n: int, px: float, side: str = "buy") -> dict[str, Any]:
    return {"id": f"f{n}", "t": hour(n), "symbol": "XAU", "side": side, "qty": 1, "px": px}


def test_a_planted_claim_of_50r_changes_nothing_for_an_agent_with_a_broker(diary):
    for n in range(0, 60, 2):
        won = 1 if n % 4 else -1
        report = {"trade_id": f"b{n}", "symbol": "XAU", "side": "long", "entry_at": hour(n), "exit_at": hour(n + 1), "entry_price": 100,
                  "exit_price": 100 + won, "qty": 1, "stop": 99, "situation": {"regime": "ranging"}}  # fmt: skip
        diary.observe(report, kind="trade")
    now, asked = hour(100), {"regime": "ranging"}
    before, _, _ = diary.memories.recall(asked, as_of=now)
    mood, beliefs, habits = (
        diary.memories.affect(as_of=now),
        diary.memories.beliefs(as_of=now)[0],
        diary.memories.behaviour(as_of=now)[0],
    )
    told(diary, 70, 50.0)
    after, _, moment = diary.memories.recall(asked, as_of=now, limit=20)
    assert moment.outcome_source == "verified"
    assert replace(after.evidence, n_claimed=0) == before.evidence and after.evidence.n_claimed == 1
    assert after.evidence.hint.f == before.evidence.hint.f
    assert (diary.memories.affect(as_of=now), diary.memories.beliefs(as_of=now)[0], diary.memories.behaviour(as_of=now)[0]) == (
        mood,
        beliefs,
        habits,
    )
    planted = [item for item in after.ranked if item.tier == 3]
    assert all(item.components.quality == 0.5 for item in planted) and len(planted) <= 1
    assert 50.0 not in [float(trade.pnl_r) for trade in diary.ledger.trades() if trade.pnl_r is not None]


def test_claims_count_until_the_broker_speaks_and_never_after(diary):
    for n in range(3):
        told(diary, n, -2.0)
    assert diary.memories.affect().consecutive_losses == 3
    diary.observe(bought(10, 100), kind="fill")
    assert diary.memories.affect().consecutive_losses == 0
    assert diary.memories.affect(as_of=hour(9)).consecutive_losses == 3
    assert diary.ledger.trades(status="closed") == [] and len(diary.ledger.trades(status="closed", as_of=hour(9))) == 3
    assert verify_store(Memory.of(diary.resources)).ok


def test_a_claim_lends_its_words_to_the_trade_of_the_ledger_that_it_speaks_of(diary):
    diary.observe(bought(1, 100), kind="fill")
    diary.observe(bought(2, 103, "sell"), kind="fill")
    claim = {"symbol": "XAU", "side": "long", "entry_price": 100.1, "exit_price": 110, "pnl": 1000, "entry_at": hour(1.05),
             "exit_at": hour(2), "confidence": 0.9, "reflection": "patience paid"}  # fmt: skip
    diary.remember_trade(claim)
    (episode,) = diary.memories.episodes()
    assert (episode.tier, episode.pnl_usd) == (1, 3.0)
    assert (episode.confidence, episode.reflection) == (None, "patience paid")  # it may have known the outcome
    assert verify_store(Memory.of(diary.resources)).ok


def test_a_claim_that_comes_before_the_brokers_fills_is_confirmed_by_them(diary):
    claim = {"symbol": "XAU", "side": "long", "entry_price": 100, "exit_price": 103, "pnl": 3, "entry_at": hour(1), "exit_at": hour(2),
             "reflection": "patience paid"}  # fmt: skip
    diary.remember_trade(claim)
    diary.observe(bought(1, 100), kind="fill")
    diary.observe(bought(2, 103, "sell"), kind="fill")
    (episode,) = diary.memories.episodes()
    assert (episode.tier, episode.reflection) == (1, "patience paid")
    assert verify_store(Memory.of(diary.resources)).ok


# ---- corrections and forgetting ------------------------------------------------------------------------------------------


def test_a_correction_cascades_and_what_was_said_before_stays_on_record(diary):
    ids = [told(diary, n, -1.0) for n in range(12)]
    before = diary.head()
    diary.memories.correct(ids[-1], {"pnl_r": 2.0, "pnl_usd": 200.0, "regime": "trending_up"}, "a typing error")
    assert diary.memories.affect().consecutive_wins == 1
    assert diary.memories.episode(ids[-1]).regime == "trending_up"
    assert next(b for b in diary.memories.beliefs()[0] if b.proposition.when == {"regime": "ranging"}).n == 11
    assert diary.memories.recall({}, head=before.seq)[0].evidence.win_rate == 0.0
    assert verify_store(Memory.of(diary.resources)).ok


def test_an_outcome_from_the_records_cannot_be_corrected_away(diary):
    diary.observe(bought(1, 100), kind="fill")
    diary.observe(bought(2, 97, "sell"), kind="fill")
    (episode,) = diary.memories.episodes()
    with pytest.raises(Conflict, match="from the venue or your records"):
        diary.memories.correct(episode.id, {"pnl_usd": 5.0}, "nicer")
    diary.memories.correct(episode.id, {"teach": "anomaly"}, "a fat finger")
    assert diary.memories.recall({})[0].evidence.n == 0 and diary.memories.affect().consecutive_losses == 0
    assert diary.memories.affect().equity == 9997.0  # what the account lost it lost


def test_a_forgotten_trade_teaches_nothing_and_the_ledger_keeps_it(diary):
    ids = [told(diary, n, -1.0 if n else 3.0) for n in range(11)]
    diary.memories.forget(ids[0], "not ours")
    assert ids[0] not in [e.id for e in diary.memories.episodes()]
    assert all(ids[0] not in diary.memories.belief(b.id)[1] for b in diary.memories.beliefs()[0])
    assert diary.ledger.trade(ids[0]) is not None
    with pytest.raises(Unknown):
        diary.memories.forget(ids[0], "again")
    assert verify_store(Memory.of(diary.resources)).ok


def test_a_shredded_report_is_gone_from_the_log_and_the_chain_still_verifies(diary):
    ids = [told(diary, n, 1.0, reflection="my secret") for n in range(3)]
    diary.memories.forget(ids[1], "private", shred=True)
    assert diary.ledger.trade(ids[1]) is None and ids[1] not in [e.id for e in diary.memories.episodes()]
    with diary.resources.reading("desk") as tables:
        assert sum("my secret" in (row.payload or "") for row in tables.log()) == 2
    assert verify_store(Memory.of(diary.resources)).ok
    rebuild_store(Memory.of(diary.resources))
    assert verify_store(Memory.of(diary.resources)).ok


def test_a_deleted_agent_leaves_hashes_only_and_writes_no_more(diary):
    memory = Memory.of(diary.resources)
    told(diary, 1, 1.0)
    with pytest.raises(Invalid, match="confirm"):
        memory.delete_agent("desk", "yes")
    assert memory.delete_agent("desk", "desk") == 1
    assert memory.agents() == [] and verify_store(memory).ok
    with memory.resources.reading("desk") as tables:
        assert [row.payload for row in tables.log()] == [None] and MemoryTables(tables).episodes() == []
    with pytest.raises(Conflict, match="deleted"):
        told(diary, 2, 1.0)
    with pytest.raises(Conflict, match="deleted"):
        memory.create_agent("desk", skill="plain", mode="sim")
    rebuild_store(memory)
    assert verify_store(memory).ok


def test_an_erased_owner_leaves_hashes_only(diary):
    memory = Memory.of(diary.resources)
    told(diary, 1, 1.0)
    memory.erase_owner("local")
    assert (memory.agents(), memory.skills()) == ([], []) and verify_store(memory).ok
    with pytest.raises(Conflict, match="erased"):
        memory.create_skill("again")
    rebuild_store(memory)
    assert verify_store(memory).ok


# ---- shadows and plans ---------------------------------------------------------------------------------------------------


def bar(n: float, o: float, h: float, low: float, c: float) -> dict[str, Any]:
    return {"bars": [{"symbol": "XAU", "t0": hour(n), "t1": hour(n + 1), "o": o, "h": h, "l": low, "c": c}]}


NOT_TAKEN = {
    "symbol": "XAU",
    "action": "no_trade",
    "side": "long",
    "stop": 98,
    "target": 104,
    "situation": {"price": 100, "regime": "ranging"},
}


def test_a_trade_not_taken_is_followed_to_its_end_and_counts_for_no_habit_and_no_size(diary):
    diary.observe({"id": "s1", "t": hour(1), "decision": NOT_TAKEN})
    assert diary.memories.episodes() == []
    diary.observe(bar(1, 100, 101, 99, 100), kind="bars")
    assert diary.memories.episodes() == []
    diary.observe(bar(2, 100, 104.5, 97, 99), kind="bars")
    (shadow,) = diary.memories.episodes()
    assert (shadow.kind, shadow.pnl_r, shadow.trigger, shadow.tier) == ("shadow", -1.0, "stop", 2)
    assert diary.memories.episodes(as_of=hour(2.5)) == []
    found, _, _ = diary.memories.recall({"regime": "ranging"})
    assert found.evidence.n == 0 and found.evidence.shadows.n == 1
    assert diary.memories.affect().consecutive_losses == 0 and diary.memories.behaviour()[0].n == 0
    assert verify_store(Memory.of(diary.resources)).ok


def test_a_plan_to_skip_fires_once_it_becomes_true_and_its_worth_is_measured_by_the_shadow(diary):
    diary.observe({"id": "s0", "t": hour(0), "decision": {**NOT_TAKEN, "situation": {"price": 100, "regime": "volatile"}}})
    plan = diary.plans.create({"trigger": {"regime": "ranging"}, "action": "skip_trade", "reasoning": "three false breakouts"})
    fired = diary.observe({"id": "s1", "t": hour(1), "decision": NOT_TAKEN}).concluded
    assert [(e.name, e.plan) for e in fired if e.name == "plan_fired"] == [("plan_fired", plan.id)]
    diary.observe(bar(1, 100, 104.5, 97, 99), kind="bars")
    (seen,) = diary.plans.all()
    assert (seen.state.fired, [value for _, value in seen.values]) == (1, [1.0])
    assert verify_store(Memory.of(diary.resources)).ok


def test_a_models_plan_is_only_proposed_until_the_owner_confirms_it(diary):
    diary.observe({"id": "s0", "t": hour(0)})
    plan = diary.plans.create(
        {"trigger": {"regime": "ranging"}, "action": "skip_trade", "reasoning": "I feel it", "maker": "agent"}
    )
    assert plan.status == "proposed"
    assert diary.observe({"id": "s1", "t": hour(1), "decision": NOT_TAKEN}).concluded == ()
    diary.plans.confirm(plan.id)
    told_ = diary.observe({"id": "s2", "t": hour(2), "decision": {**NOT_TAKEN, "id": "d2"}}).concluded
    assert [e.name for e in told_] == ["plan_fired"]
    assert [p.state.status for p in diary.plans.all(as_of=hour(0))] == ["proposed"]


def test_a_plan_ends_by_time_and_by_condition_and_only_then(diary):
    diary.observe({"id": "s0", "t": hour(0)})
    diary.plans.create(
        {"id": "time", "trigger": {"regime": "volatile"}, "action": "alert", "reasoning": "x", "expires_at": hour(2)}
    )
    diary.plans.create(
        {
            "id": "when",
            "trigger": {"regime": "volatile"},
            "action": "alert",
            "reasoning": "x",
            "expire_when": {"session": "london"},
        }
    )
    first = diary.observe({"id": "s1", "t": hour(1)}).concluded  # 09:00 UTC: london
    second = diary.observe({"id": "s2", "t": hour(2)}).concluded
    assert [(e.name, e.plan) for e in (*first, *second)] == [("plan_expired", "when"), ("plan_expired", "time")]
    assert verify_store(Memory.of(diary.resources)).ok


@pytest.mark.parametrize(
    ("trigger", "field"),
    [({"regime": 3}, "trigger_condition"), ({"nonsense": 1}, "nonsense"), ({"field": "price", "op": "gt", "value": "high"}, "value"),
     ({"field": "regime", "op": "gt", "value": "a"}, "op"), ({}, "trigger_condition")],
)  # fmt: skip
def test_a_trigger_that_could_never_be_asked_is_refused_when_the_plan_is_made(diary, trigger, field):
    with pytest.raises(Invalid, match=field):
        diary.plans.create({"trigger": trigger, "action": "alert", "reasoning": "x"})
    assert diary.plans.all() == []


def test_a_plan_may_look_at_the_calendar_and_at_the_agents_own_state(diary):
    Memory.of(diary.resources).record_events([{"id": "nfp", "t": hour(6), "name": "NFP", "impact": "high"}], backfill=True)
    diary.observe({"id": "s0", "t": hour(0)})
    before = {"all": [{"field": "minutes_to_event", "op": "le", "value": 60}, {"event_impact": "high"}]}
    diary.plans.create({"id": "news", "trigger": before, "action": "skip_trade", "reasoning": "no new risk into a release"})
    diary.plans.create({"id": "streak", "trigger": {"field": "consecutive_losses", "op": "ge", "value": 3}, "action": "reduce", "size_factor": 0.5,
                "reasoning": "three in a row"})  # fmt: skip
    for n in range(3):
        told(diary, n, -1.0)
    assert [e.plan for e in diary.observe({"id": "s1", "t": hour(4)}).concluded] == ["streak"]
    assert [e.plan for e in diary.observe({"id": "s2", "t": hour(5.5)}).concluded] == ["news"]


# ---- beliefs -------------------------------------------------------------------------------------------------------------


def test_the_owner_seeds_a_belief_mildly_and_trades_test_it_each_once(diary):
    with pytest.raises(Invalid, match="validity_conditions"):
        diary.memories.state_belief({"sentence": "VB works", "when": {}})
    id_ = diary.memories.state_belief({"sentence": "VB works in ranges", "when": {"regime": "ranging"}})
    for n in range(4):
        told(diary, n, 1.0 if n else -1.0)
    belief, for_, against = diary.memories.belief(id_)
    assert (belief.prior.alpha, belief.prior.beta, belief.n) == (2.0, 1.0, 4)
    assert (len(set(for_)), len(set(against))) == (3, 1)
    diary.memories.retire_belief(id_, "enough")
    assert id_ not in [b.id for b in diary.memories.beliefs()[0]]


def test_a_belief_on_a_field_that_columns_do_not_hold_is_counted_all_the_same(diary):
    id_ = diary.memories.state_belief(
        {"sentence": "Losing streaks end", "when": {"field": "consecutive_losses", "op": "ge", "value": 2}}
    )
    for n in range(5):
        told(diary, n, -1.0 if n < 4 else 2.0)
    assert (diary.memories.belief(id_)[0].n, diary.memories.belief(id_)[0].confirmed) == (3, 1)


# ---- columns follow the store --------------------------------------------------------------------------------------------


@pytest.mark.each_store
def test_recall_follows_what_another_process_writes(memory, opened):
    mine = given_agent(memory)
    told(mine, 1, 1.0)
    assert [r.id for r in mine.memories.recall({}, memory_types=["episodic"])[0].ranked] == [
        e.id for e in mine.memories.episodes()
    ]
    theirs = opened(memory.url).agent("desk")
    for n in range(2, 6):
        told(theirs, n, -1.0)
    gone = mine.memories.episodes()[0].id
    theirs.memories.forget(gone, "not ours")
    found, _, moment = mine.memories.recall({}, limit=10)
    assert moment.n == 4 and found.evidence.n == 4
    assert gone not in [r.id for r in found.ranked]
    rebuild_store(Memory.of(theirs.resources))
    assert mine.memories.recall({}, limit=10)[0].evidence == found.evidence


# ---- the check before an order -------------------------------------------------------------------------------------------


def test_a_check_before_an_order_gathers_what_memory_has_to_say(diary):
    from memtape.surfaces.registry import execute

    memory = Memory.of(diary.resources)
    memory.create_skill("plain", avoid=["never on fridays"])
    memory.use_skill_version("desk", 2)
    for n in range(40):
        told(diary, n, -1.0 if n % 5 else 0.2, stop=99)
    order = {
        "agent": "desk",
        "symbol": "XAU",
        "side": "long",
        "entry_price": 100,
        "stop": 98,
        "qty": 50,
        "context": {"regime": "ranging"},
    }
    found = execute(memory, "pre_trade_check", order)
    assert found["verdict"] == "against"
    assert {reason["source"] for reason in found["reasons"]} >= {"evidence", "warnings", "state", "avoid"}
    assert found["avoid"] == ["never on fridays"] and found["n"] == 40
    assert found["evidence"]["hint"]["sizing"]["f"] == 0.0


def test_a_close_is_not_counted_twice_where_the_brokers_equity_already_held_it(diary):
    report = {"trade_id": "b", "symbol": "XAU", "side": "long", "entry_price": 100, "exit_price": 110, "qty": 10, "stop": 99,
              "entry_at": hour(1), "exit_at": hour(3)}  # fmt: skip
    diary.observe({"t": hour(2), "equity": 10090}, kind="equity")  # the open profit is in it
    diary.observe(report, kind="trade")
    assert diary.memories.affect(as_of=hour(4)).peak_equity == 10090
    diary.observe({**report, "trade_id": "c", "entry_at": hour(4), "exit_at": hour(5), "exit_price": 95}, kind="trade")
    assert diary.memories.affect().equity == 10040


def test_a_rising_edge_that_rests_on_the_decisions_own_words_fires_once_while_they_stay(diary):
    diary.observe({"id": "s0", "t": hour(0)})
    diary.plans.create({"id": "p", "trigger": {"regime": "ranging"}, "action": "alert", "reasoning": "x"})
    for n in range(1, 4):
        diary.observe({"id": f"s{n}", "t": hour(n), "decision": {"symbol": "XAU", "situation": {"regime": "ranging"}}})
    (seen,) = diary.plans.all({"regime": "ranging"}, symbol="XAU")
    assert (seen.state.fired, seen.finding) == (1, "holds")


def test_as_of_a_head_beliefs_plans_and_checks_know_nothing_later(diary):
    from memtape.surfaces.registry import execute

    for n in range(12):
        told(diary, n, -1.0)
    head = diary.head().seq
    diary.plans.create({"id": "late", "trigger": {"regime": "ranging"}, "action": "skip_trade", "reasoning": "x"})
    for n in range(12, 20):
        told(diary, n, 2.0)
    (ranging,) = [b for b in diary.memories.beliefs(head=head)[0] if b.proposition.when == {"regime": "ranging"}]
    assert (ranging.n, diary.memories.belief(ranging.id, head=head)[0].n, diary.memories.belief(ranging.id)[0].n) == (12, 12, 20)
    assert (
        diary.plans.all(head=head) == []
        and len(diary.memories.affect_history(head=head)) == diary.memories.affect_step_count(head=head) == 12
    )
    order = {"agent": "desk", "symbol": "XAU", "side": "long", "context": {"regime": "ranging"}}
    assert execute(Memory.of(diary.resources), "pre_trade_check", order)["plans"] != []
    then = execute(Memory.of(diary.resources), "pre_trade_check", {**order, "head": head})
    assert (then["n"], then["plans"]) == (12, [])


def test_a_memory_is_shown_in_every_form_of_its_score_ours_being_what_recall_uses(diary):
    ids = [told(diary, n, float(n % 3 - 1), confidence=0.8) for n in range(15)]
    asked = {"regime": "ranging"}
    found, known, _ = diary.memories.explain(ids[-1], asked)
    ours = {form.factor: form.value for form in found if form.form == "ours"}
    (ranked,) = [item for item in diary.memories.recall(asked, limit=20)[0].ranked if item.id == ids[-1]]
    c = ranked.components
    assert (ours["Q"], ours["Sim"], ours["Rec"], ours["Conf"], ours["Aff"]) == (
        c.quality,
        c.similarity,
        c.recency,
        c.confidence,
        c.affect,
    )
    literal = next(
        i
        for i in diary.memories.recall(asked, limit=20, profile="owm-literal", memory_types=["episodic"])[0].ranked
        if i.id == ids[-1]
    )
    assert next(form.value for form in found if (form.factor, form.form) == ("Score", "7.4")) == literal.score
    assert known == 15 and {form.form for form in found} >= {"ours", "7.4", "3.2", "3.3", "2.6", "2.4", "3.6"}


def test_weights_and_parameters_can_be_set_and_wrong_ones_are_named(diary):
    from memtape.surfaces.registry import execute

    told(diary, 1, 1.0)
    ask = {"agent": "desk", "context": {"regime": "ranging"}}
    plain_ = execute(Memory.of(diary.resources), "recall_memories", ask)["ranked"][0]["components"]
    tuned = execute(
        Memory.of(diary.resources), "recall_memories", {**ask, "weights": {"regime": 1.0, "price": 0}, "parameters": {"k": 0.5}}
    )["ranked"][0]
    assert tuned["components"]["Sim"] > plain_["Sim"] and tuned["components"]["Q"] < plain_["Q"]
    with pytest.raises(Invalid, match=r"weights\.colour"):
        execute(Memory.of(diary.resources), "recall_memories", {**ask, "weights": {"colour": 1.0}})
    with pytest.raises(Invalid, match=r"parameters\.tau"):
        execute(Memory.of(diary.resources), "recall_memories", {**ask, "parameters": {"tau": 1.0}})


def test_an_event_that_was_moved_is_looked_for_where_it_went(diary):
    memory = Memory.of(diary.resources)
    memory.record_events([{"id": "fomc", "t": hour(6), "name": "FOMC", "impact": "high"}], backfill=True)
    memory.record_events([{"id": "fomc", "t": hour(30), "name": "FOMC", "impact": "high"}], backfill=True)
    diary.observe({"id": "s0", "t": hour(0)})
    diary.plans.create(
        {"id": "p", "trigger": {"field": "minutes_to_event", "op": "le", "value": 60}, "action": "alert", "reasoning": "x"}
    )
    assert diary.observe({"id": "s1", "t": hour(5.5)}).concluded == ()
    assert [e.plan for e in diary.observe({"id": "s2", "t": hour(29.5)}).concluded] == ["p"]


def test_a_check_of_a_short_is_not_answered_with_longs(diary):
    from memtape.surfaces.registry import execute

    for n in range(25):
        told(diary, n, 1.5)
    order = {
        "agent": "desk",
        "symbol": "XAU",
        "side": "long",
        "entry_price": 100,
        "stop": 98,
        "qty": 1,
        "context": {"regime": "ranging"},
    }
    assert execute(Memory.of(diary.resources), "pre_trade_check", order)["evidence"]["n"] == 25
    short = execute(Memory.of(diary.resources), "pre_trade_check", {**order, "side": "short", "stop": 102})
    assert (short["evidence"]["n"], short["evidence"]["hint"]["sizing"]["f"]) == (0, 0.0)
    with pytest.raises(Invalid, match="stop"):
        execute(Memory.of(diary.resources), "pre_trade_check", {**order, "stop": 102})


def test_a_model_neither_speaks_for_the_owner_nor_confirms_its_own_plan(diary):
    from memtape.surfaces.caller import Caller
    from memtape.surfaces.registry import all_operations, perform

    model, owner = Caller("model"), Caller("owner")
    plan = {"agent": "desk", "trigger_condition": {"regime": "ranging"}, "planned_action": {"type": "alert"}, "reasoning": "x"}
    operations = all_operations()
    with pytest.raises(Invalid, match="maker"):
        perform(Memory.of(diary.resources), operations["create_trading_plan"], {**plan, "maker": "owner"}, model)
    made = perform(Memory.of(diary.resources), operations["create_trading_plan"], plan, model)["plan"]
    assert (made["status"], made["maker"], made["tier"]) == ("proposed", "agent", 3)
    with pytest.raises(PermissionDenied, match="Ask the owner to confirm a proposed plan"):
        perform(Memory.of(diary.resources), operations["confirm_plan"], {"agent": "desk", "plan_id": made["id"]}, model)
    confirmed = perform(Memory.of(diary.resources), operations["confirm_plan"], {"agent": "desk", "plan_id": made["id"]}, owner)
    assert confirmed["plan"]["status"] == "active"
    in_percent = {**plan, "trigger_condition": {"field": "drawdown_pct", "op": "gt", "value": 15}}
    accepted = perform(Memory.of(diary.resources), operations["create_trading_plan"], in_percent, owner)
    assert "write 0.15 for 15 %" in str(accepted)


def test_the_default_agent_answers_before_it_was_ever_written_to(memory):
    from memtape.surfaces.registry import execute

    assert execute(memory, "recall_memories", {"context": {"regime": "ranging"}})["n"] == 0
    assert execute(memory, "get_agent_state", {})["confidence_level"] == 0.5
    assert execute(memory, "pre_trade_check", {"symbol": "XAU", "side": "long"})["verdict"] == "clear"
    assert memory.agents() == []


def test_a_report_told_late_counts_as_known_when_it_happened(memory):
    agent = given_agent(memory, mode="paper")
    told(agent, 1, -1.0)
    told(agent, 3, 2.0)
    assert len(agent.memories.episodes(as_of=hour(2))) == 1
    (_, second) = sorted(agent.memories.episodes(), key=lambda e: e.exit_at)
    assert second.consecutive_losses == 1


def test_forgetting_a_reported_loss_leaves_the_account_as_the_ledger_has_it(diary):
    told(diary, 1, 1.0)
    id_ = told(diary, 2, -1.0)
    equity = diary.memories.affect().equity
    diary.memories.forget(id_, "typed twice")
    assert diary.memories.affect().equity == equity == float(diary.ledger.equity().points[-1][1])
    assert diary.memories.affect().consecutive_losses == 0


# ---- what a careful reader found -----------------------------------------------------------------------------------------


def test_of_two_corrections_at_one_moment_the_later_stands_also_after_a_rebuild(diary):
    id_ = told(diary, 1, 1.0)
    diary.memories.correct(id_, {"reflection": "first"}, "")
    diary.memories.correct(id_, {"reflection": "second"}, "")
    assert diary.memories.episode(id_).reflection == "second" and verify_store(Memory.of(diary.resources)).ok


def test_a_mere_word_about_a_loss_does_not_make_it_unfelt_in_between(diary):
    id_ = told(diary, 1, -3.0)
    diary.observe({"id": "s", "t": hour(6)})
    diary.memories.correct(id_, {"reflection": "too early"}, "")
    assert diary.memories.affect(as_of=hour(5)).consecutive_losses == 1
    told(diary, 4, 1.0)
    assert sorted(e.consecutive_losses for e in diary.memories.episodes()) == [0, 1]
    assert verify_store(Memory.of(diary.resources)).ok


def test_a_shorter_bar_days_later_does_not_reopen_a_trade_not_taken(diary):
    diary.observe({"id": "s1", "t": hour(1), "decision": NOT_TAKEN})
    diary.observe(bar(1, 100, 101, 97, 99), kind="bars")
    short = {"symbol": "XAU", "t0": hour(49), "t1": hour(49) + timedelta(minutes=5), "o": 100, "h": 101, "l": 99, "c": 100}
    diary.observe({"bars": [short]}, kind="bars")
    assert [e.trigger for e in diary.memories.episodes()] == ["stop"] and verify_store(Memory.of(diary.resources)).ok


def test_undoing_fills_after_a_flat_moment_or_a_decision_leaves_what_stood_before(diary):
    from memtape.core.fills import Fill
    from memtape.core.observed import Decision
    from memtape.core.values import read

    diary.observe(bought(1, 100), kind="fill")
    diary.observe(bought(2, 101, "sell"), kind="fill")
    batch = diary.imports.commit(
        [read(Fill, bought(3, 102)), read(Decision, {**NOT_TAKEN, "id": "d", "t": hour(1)})], {"file": "x"}
    ).batch
    diary.observe(bar(1, 100, 101, 97, 99), kind="bars")
    assert sorted(e.kind for e in diary.memories.episodes()) == ["shadow", "trade"]
    diary.imports.undo(batch)
    assert [e.kind for e in diary.memories.episodes()] == ["trade"] and verify_store(Memory.of(diary.resources)).ok


def test_a_destroyed_report_takes_its_corrections_with_it_and_its_id_stays_closed(diary):
    id_ = told(diary, 1, 1.0)
    diary.memories.correct(id_, {"reflection": "my secret"}, "")
    diary.memories.forget(id_, "private")
    diary.memories.forget(id_, "private", shred=True)
    with diary.resources.reading("desk") as tables:
        assert not any("my secret" in (row.payload or "") for row in tables.log())
    with pytest.raises(Conflict, match="destroyed"):
        told(diary, 1, 1.0)
    assert verify_store(Memory.of(diary.resources)).ok


def test_as_of_a_head_a_paper_agents_entries_know_only_what_had_arrived(memory):
    from memtape.plugs.clock import FixedClock

    agent = given_agent(memory, mode="paper")
    trade = {"trade_id": "b1", "symbol": "XAU", "side": "long", "entry_at": hour(1), "exit_at": hour(2), "entry_price": 100, "exit_price": 97,
             "qty": 1, "stop": 99}  # fmt: skip
    memory.resources.clock = FixedClock(hour(10))
    agent.observe(trade, kind="trade")  # arrives late
    agent.observe({**trade, "trade_id": "b2", "entry_at": hour(3), "exit_at": hour(4)}, kind="trade")
    stored = sorted(agent.memories.episodes(as_of=hour(20)))
    assert sorted(agent.memories.episodes(as_of=hour(20), head=agent.head().seq)) == stored
    assert [e.consecutive_losses for e in stored] == [0, 0]


def test_a_plan_that_ended_can_be_made_anew_and_one_of_later_never_fired_before(diary):
    diary.observe({"id": "s0", "t": hour(0)})
    words = {"trigger": {"regime": "ranging"}, "action": "alert", "reasoning": "x"}
    first = diary.plans.create(words)
    diary.plans.cancel(first.id)
    again = diary.plans.create(words)
    assert again.id != first.id and again.status == "active"
