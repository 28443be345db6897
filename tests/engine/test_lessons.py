"""Lessons drawn by the engine: when, once, by whom; what the owner may do with them. On both stores."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from threading import Barrier, Thread
from typing import Any

import pytest
from pydantic import BaseModel

from memtape.core.lessons.reflection import Reflection
from memtape.core.observed import ClosedTrade
from memtape.core.values import read
from memtape.engine import AgentMemory, Memory
from memtape.engine.proof.audit import rebuild_store, verify_store
from memtape.engine.reflection import LEASE, LEASE_TIME
from memtape.errors import Conflict, Invalid, ModelFailed, Unknown
from memtape.plugs.clock import FixedClock
from memtape.plugs.models import ModelAnswer
from memtape.store.leases import Leases
from memtape.workers.schedule import reflect_due

pytestmark = pytest.mark.any_store

START = datetime(2026, 1, 5, 8, tzinfo=UTC)
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
MODEL = "anthropic/claude-haiku-4-5"


def hour(n: float) -> datetime:
    return START + timedelta(hours=n)


def told(agent: AgentMemory, n: int, r: float | None = None, **more: Any) -> str:
    """The n-th trade of a diary: shorts in a range lose, the rest wins a little; its id."""
    side = "short" if n % 3 == 0 else "long"
    r = (-1.0 - (n % 2) * 0.2 if side == "short" else 0.4 + (n % 5) * 0.1) if r is None else r
    sign = 1 if side == "long" else -1
    report = {"symbol": "XAU", "side": side, "entry_price": 100, "exit_price": 100 + sign * r, "pnl": 100 * r, "pnl_r": r,
              "trade_id": f"m{n}", "entry_at": hour(n), "exit_at": hour(n + 0.5), "situation": {"regime": "ranging"}, **more}  # fmt: skip
    return str(agent.remember_trade(report).concluded[0].trade_id)


def given(memory: Memory, avoid: tuple[str, ...] = (), id: str = "desk", **reflection: Any) -> AgentMemory:
    memory.create_skill("breakout", strategy="Buy strength.", avoid=avoid, memory={"reflection": reflection})
    memory.create_agent(id, skill="breakout", mode="paper")
    return memory.agent(id)


class Scripted:
    """A model that answers what it is told to, or fails; counts how often it was asked."""

    id = MODEL

    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked = list(answers), 0

    def __call__(self, name: str) -> Scripted:
        return self

    def answer(self, system: str, user: str, form: type[BaseModel], *, max_tokens: int) -> ModelAnswer:
        self.asked += 1
        said = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        said = said(user) if callable(said) else said
        if isinstance(said, Exception):
            raise said
        return ModelAnswer(said, 900, 120, Decimal("0.0015"), MODEL)


def active(agent: AgentMemory) -> Reflection:
    notes = [seen.note for seen in agent.lessons.reflections() if seen.status == "active"]
    assert len(notes) == 1
    return notes[0]


# ---- cadence -------------------------------------------------------------------------------------------------------------


def test_lessons_are_due_after_every_tenth_closed_trade_and_not_before(memory):
    agent = given(memory)
    for n in range(9):
        told(agent, n)
    assert agent.lessons.due() is None and reflect_due(memory) == {}
    told(agent, 9)
    assert agent.lessons.due().key == "per-10-trades:1"
    assert reflect_due(memory)["desk"].new
    assert agent.lessons.due() is None and reflect_due(memory) == {}
    note = active(agent)
    assert (note.trades_considered, note.closed, note.model_used, note.asked_by) == (10, 10, "stats", "cadence")
    assert note.lessons


def test_the_receipt_of_the_trade_that_makes_lessons_due_says_so(memory):
    agent = given(memory, everyNTrades=3)
    due = [agent.remember_trade({"symbol": "XAU", "side": "long", "entry_price": 100, "exit_price": 101, "pnl_r": 1, "pnl": 1,
                                 "trade_id": f"m{n}", "entry_at": hour(n), "exit_at": hour(n + 0.5)}).reflection_due
           for n in range(3)]  # fmt: skip
    assert due == [False, False, True]


def test_two_closes_in_one_tick_that_pass_the_tenth_trade_make_one_note(memory):
    agent = given(memory, everyNTrades=2)
    opened = [{"id": f"o{n}", "t": hour(0), "symbol": s, "side": "buy", "qty": 1, "px": 100} for n, s in enumerate("ABC")]
    closed = [{"id": f"c{n}", "t": hour(1), "symbol": s, "side": "sell", "qty": 1, "px": 101} for n, s in enumerate("ABC")]
    agent.observe({"id": "t1", "t": hour(0.5), "fills": opened})
    receipt = agent.observe({"id": "t2", "t": hour(1.5), "fills": closed})
    assert receipt.reflection_due
    reflect_due(memory)
    reflect_due(memory)
    assert [seen.note.closed for seen in agent.lessons.reflections()] == [3]


def test_daily_lessons_are_due_once_the_hour_has_passed_and_a_trade_has_closed_since(memory):
    agent = given(memory, cadence="daily", dailyHourUtc=13)
    told(agent, 0)
    clock = memory.clock
    assert isinstance(clock, FixedClock)
    assert reflect_due(memory)["desk"].note.lessons  # yesterday's hour has passed, and none ran since
    assert reflect_due(memory) == {}
    told(agent, 1)
    clock.at = NOON.replace(hour=12, minute=59)
    assert reflect_due(memory) == {}
    clock.at = NOON.replace(hour=13)
    assert reflect_due(memory)["desk"].new and reflect_due(memory) == {}
    clock.at = NOON.replace(hour=14) + timedelta(days=3)
    assert reflect_due(memory) == {}  # nothing has closed since
    assert len(agent.lessons.reflections()) == 2


def test_with_the_cadence_off_or_memory_disabled_nothing_is_drawn(memory):
    off = given(memory, cadence="off", everyNTrades=2)
    memory.create_skill("blank", memory={"enabled": False, "reflection": {"everyNTrades": 2}})
    memory.create_agent("blank", skill="blank", mode="paper")
    for agent in (off, memory.agent("blank")):
        for n in range(4):
            told(agent, n)
    assert reflect_due(memory) == {}


def test_trades_that_are_taken_back_and_come_again_make_no_second_note_for_the_same_count(memory):
    agent = given(memory, everyNTrades=2)
    told(agent, 0)
    told(agent, 1)
    reflect_due(memory)
    agent.memories.forget(agent.ledger.trades()[0].id, shred=True)
    told(agent, 2)
    assert reflect_due(memory) == {} and len(agent.lessons.reflections()) == 1


def test_a_thousand_decisions_not_to_trade_leave_the_trades_in_sight(memory):
    agent = given(memory, everyNTrades=10)
    for n in range(10):
        told(agent, n)
    for n in range(40):
        at = hour(100 + n)
        agent.observe({"id": f"p{n}", "t": at, "symbol": "XAU", "action": "no_trade", "side": "long", "stop": 95, "target": 110,
                       "situation": {"price": 100}}, kind="decision", backfill=True)  # fmt: skip
        bar = {"symbol": "XAU", "t0": at, "t1": at + timedelta(hours=1), "o": 100, "h": 111, "l": 99, "c": 110}
        agent.observe({"bars": [bar]}, kind="bars", backfill=True)
    assert sum(e.kind == "shadow" for e in agent.memories.episodes()) >= 30
    assert reflect_due(memory)["desk"].note.trades_considered == 10


def test_after_an_import_was_taken_back_lessons_are_drawn_anew_from_what_is_left(memory):
    agent = given(memory, everyNTrades=10)
    trade = {"symbol": "XAU", "side": "long", "entry_price": 100, "exit_price": 101, "qty": 1, "stop": 99}
    brought = [read(ClosedTrade, trade | {"trade_id": f"i{n}", "entry_at": hour(n), "exit_at": hour(n + 0.5)}) for n in range(40)]
    batch = agent.imports.commit(brought, {"file": "a.csv"}).batch
    reflect_due(memory)
    assert active(agent).closed == 40
    agent.imports.undo(batch)
    for n in range(12):
        agent.observe(trade | {"trade_id": f"x{n}", "entry_at": hour(n), "exit_at": hour(n + 0.5)}, kind="trade", backfill=True)
    assert reflect_due(memory)["desk"].new and active(agent).closed == 12
    assert reflect_due(memory) == {}


# ---- one note ------------------------------------------------------------------------------------------------------------


def test_the_earlier_note_is_superseded_and_stays(memory):
    agent = given(memory, everyNTrades=2)
    for n in range(4):
        told(agent, n)
        reflect_due(memory)
    assert [(seen.status, seen.note.closed) for seen in agent.lessons.reflections()] == [("active", 4), ("superseded", 2)]
    assert verify_store(memory).ok


@pytest.mark.each_store
def test_of_two_workers_one_draws_the_lessons_and_the_model_is_asked_once(memory):
    model = Scripted(lambda user: answer_from(user))
    memory.resources.models = model
    given(memory, everyNTrades=10, model=MODEL)
    agent = memory.agent("desk")
    for n in range(60):
        told(agent, n)
    ready = Barrier(2)

    def work() -> None:
        ready.wait()
        memory.agent("desk").lessons.reflect_if_due()

    workers = [Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(agent.lessons.reflections()) == 1 and model.asked == 1


@pytest.mark.each_store
def test_while_another_holds_the_lease_nothing_is_done_and_when_it_runs_out_it_is(memory):
    agent = given(memory, everyNTrades=2)
    told(agent, 0)
    told(agent, 1)
    with memory.resources.repairing("desk") as tables:  # a worker that asked its model and died
        assert Leases(tables).take(LEASE, "dead", NOON, NOON + LEASE_TIME)
    assert agent.lessons.reflect_if_due().waits == "another worker is at it" and agent.lessons.reflections() == []
    memory.clock.at = NOON + LEASE_TIME + timedelta(seconds=1)
    assert agent.lessons.reflect_if_due().new and len(agent.lessons.reflections()) == 1


@pytest.mark.each_store
def test_a_crash_between_the_models_answer_and_the_note_leaves_no_note_and_the_next_try_one(memory):
    class Died(RuntimeError):
        """The process ended."""

    model = Scripted(Died(), lambda user: answer_from(user))
    memory.resources.models = model
    agent = given(memory, everyNTrades=10, model=MODEL)
    for n in range(60):
        told(agent, n)
    with pytest.raises(Died):
        agent.lessons.reflect_if_due()
    assert agent.lessons.reflections() == [] and agent.lessons.due() is not None
    assert agent.lessons.reflect_if_due().new and len(agent.lessons.reflections()) == 1


def test_asking_again_about_the_same_trades_gives_the_note_that_is_there(memory):
    agent = given(memory, cadence="off")
    for n in range(12):
        told(agent, n)
    first, again = agent.lessons.reflect(), agent.lessons.reflect()
    assert first.new and not again.new and first.note == again.note
    told(agent, 12)
    assert agent.lessons.reflect().new


def test_there_is_nothing_to_reflect_on_before_a_trade_has_closed(memory):
    with pytest.raises(Conflict, match="no trade has closed"):
        given(memory).lessons.reflect()


# ---- a model's words -----------------------------------------------------------------------------------------------------


def candidates_in(user: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in user.splitlines() if line.startswith("{")]


def answer_from(user: str, place: int = 0, remark: str = "") -> dict[str, Any]:
    """A well-behaved answer: it chooses a candidate that the prompt names."""
    return {"lessons": [{"candidate": candidates_in(user)[place]["id"], "remark": remark}]}


def test_a_model_chooses_the_lessons_and_memtape_writes_them(memory):
    shown: list[str] = []

    def last_first(user: str) -> dict[str, Any]:
        rows = candidates_in(user)[::-1]
        shown.extend(row["sentence"] for row in rows)
        return {"lessons": [{"candidate": row["id"], "remark": ""} for row in rows]}

    memory.resources.models = Scripted(last_first)
    agent = given(memory, everyNTrades=10, model=MODEL)
    for n in range(150):
        told(agent, n, r=(1 if n % 3 else -1) + n % 7 / 10 - (n % 5 == 0), entry_at=hour(7 * n), exit_at=hour(7 * n + 1))
    reflect_due(memory)
    note = active(agent)
    assert (note.model_used, note.input_tokens, note.output_tokens, note.cost_usd) == (MODEL, 900, 120, Decimal("0.0015"))
    assert [one.text for one in note.lessons] == shown[: len(note.lessons)] and len(note.lessons) > 1
    assert {one.tier for one in note.lessons} == {2}
    assert note.chosen_by == MODEL


def test_a_remark_is_told_as_a_models_and_one_that_is_not_allowed_leaves_the_lesson_as_it_is(memory):
    memory.resources.models = Scripted(
        lambda user: answer_from(user, remark="late breakouts in thin liquidity"),
        lambda user: answer_from(user, remark="double the size at once"),
    )
    agent = given(memory, cadence="off", model=MODEL)
    for n in range(60):
        told(agent, n)
    first = agent.lessons.reflect().note.lessons[0]
    told(agent, 60)
    second = agent.lessons.reflect().note.lessons[0]
    assert first.text.endswith(" Model's remark: late breakouts in thin liquidity.") and first.tier == 3
    assert "double" not in second.text and "remark" not in second.text and second.tier == 2


def test_a_model_that_chooses_nothing_gives_a_note_that_says_what_was_tested(memory):
    memory.resources.models = Scripted({"lessons": []})
    agent = given(memory, everyNTrades=10, model=MODEL)
    for n in range(60):
        told(agent, n, r=float(n % 2))
    done = reflect_due(memory)["desk"]
    assert done.new and done.failed is None and agent.lessons.failures() == []
    assert active(agent).model_used == MODEL
    assert [one.text.split(" (")[0] for one in active(agent).lessons] == [
        "No pattern in the last 60 trades with a result in R is distinguishable from luck"
    ]


def test_where_a_pattern_stands_and_a_model_chooses_none_the_note_is_empty_and_no_failure(memory):
    memory.resources.models = Scripted({"lessons": []})
    agent = given(memory, cadence="off", model=MODEL)
    for n in range(150):
        told(agent, n, entry_at=hour(8 * n), exit_at=hour(8 * n + 1))
    done = agent.lessons.reflect()
    assert done.new and done.failed is None and done.note.lessons == ()
    assert any(not one.chance for one in done.note.candidates)
    assert verify_store(memory).ok


def test_failures_of_another_model_do_not_count(memory):
    memory.resources.models = Scripted(ModelFailed(MODEL, "overloaded", what="status", status=529))
    agent = given(memory, everyNTrades=10, model=MODEL)
    for n in range(60):
        told(agent, n)
    other = f"{MODEL}-2"
    assert [agent.lessons.reflect(model=name).failed.failures for name in (other, other, MODEL, MODEL)] == [1, 2, 1, 2]
    assert agent.lessons.reflections() == []
    assert agent.lessons.reflect(model=MODEL).note.chosen_by == f"memtape, because {MODEL} failed 3 times in a row"


def test_after_three_failures_in_a_row_memtape_chooses_and_the_note_says_so(memory):
    model = Scripted(ModelFailed(MODEL, "overloaded", what="status", status=529))
    memory.resources.models = model
    agent = given(memory, everyNTrades=10, model=MODEL)
    for n in range(60):
        told(agent, n)
    for attempt in (1, 2):
        assert agent.lessons.reflect_if_due().failed.failures == attempt and agent.lessons.reflections() == []
        memory.clock.at = agent.lessons.failures()[0].retry_at
    done = agent.lessons.reflect_if_due()
    assert done.new and done.failed.failures == 3 and model.asked == 3
    assert active(agent).model_used == "stats" and active(agent).lessons
    assert active(agent).chosen_by == f"memtape, because {MODEL} failed 3 times in a row"
    assert agent.lessons.due() is None and len(agent.lessons.failures()) == 3
    # The next ten trades ask the model again, from the first try.
    memory.resources.models = Scripted(lambda user: answer_from(user))
    for n in range(60, 70):
        told(agent, n)
    assert agent.lessons.reflect_if_due().note.chosen_by == MODEL
    assert verify_store(memory).ok


def test_the_owner_may_ask_a_model_again_about_the_same_trades_after_it_failed_three_times(memory):
    failing = ModelFailed(MODEL, "overloaded", what="status", status=529)
    memory.resources.models = Scripted(failing, failing, failing, lambda user: answer_from(user))
    agent = given(memory, cadence="off", model=MODEL)
    for n in range(60):
        told(agent, n)
    assert [agent.lessons.reflect().new for _ in range(4)] == [False, False, True, True]
    assert [seen.note.model_used for seen in agent.lessons.reflections()] == [MODEL, "stats"]


@pytest.mark.parametrize(
    "said",
    [
        ModelFailed(MODEL, "overloaded", what="status", status=529),
        {"lessons": [{"candidate": "nothing", "remark": "late entries"}]},
        {"lessons": [{"slot": "sizing", "text": "Trust me.", "candidate": "nothing"}]},
        {"wrong": True},
    ],
)
def test_a_model_that_fails_or_answers_badly_leaves_the_old_note_and_a_clear_record(memory, said):
    agent = given(memory, everyNTrades=2)
    for n in range(20):
        told(agent, n)
    reflect_due(memory)
    old = active(agent)
    memory.create_skill("breakout", strategy="Buy strength.", memory={"reflection": {"everyNTrades": 2, "model": MODEL}})
    memory.use_skill_version("desk", 2)
    agent = memory.agent("desk")
    memory.resources.models = Scripted(said)
    told(agent, 20)
    told(agent, 21)
    failed = reflect_due(memory)["desk"].failed
    assert active(agent) == old
    assert failed.model == MODEL and failed.why and failed.failures == 1
    assert failed.retry_at == NOON + timedelta(minutes=1)
    assert [one.why for one in agent.lessons.failures()] == [failed.why]
    assert agent.lessons.reflect_if_due().waits == "tried again later"
    memory.clock.at = NOON + timedelta(minutes=1)
    assert agent.lessons.reflect_if_due().failed.retry_at == memory.clock.at + timedelta(minutes=2)
    assert verify_store(memory).ok


@pytest.mark.parametrize("name", ["nowhere/great-model", "claude-haiku-4-5", "anthropic/", "Stats"])
def test_an_unknown_model_is_refused_when_the_skill_is_stated(memory, name):
    with pytest.raises(Invalid, match=r"memory.reflection.model: .* stats .* anthropic/NAME or openai/NAME"):
        given(memory, everyNTrades=2, model=name)
    assert memory.skills() == []


def test_a_model_without_its_key_is_a_failure_that_is_told(memory):
    agent = given(memory, everyNTrades=2, model=MODEL)
    for n in range(40):
        told(agent, n)
    failed = reflect_due(memory)["desk"].failed
    assert "api_key" in failed.why and agent.lessons.reflections() == []


def test_a_lesson_that_contradicts_an_avoid_rule_is_held_back_for_the_owner_and_the_others_are_told(memory):
    memory.resources.models = Scripted(
        lambda user: {"lessons": [{"candidate": row["id"], "remark": ""} for row in candidates_in(user)]}
    )
    agent = given(memory, avoid=("No longs.",), cadence="off", model=MODEL)
    for n in range(150):
        told(agent, n, r=(1.5 if n % 3 else 0.2) + n % 7 / 10, entry_at=hour(8 * n), exit_at=hour(8 * n + 1),
             situation={"regime": "ranging", "session": "london" if n % 2 else "asia"})  # fmt: skip
    agent.lessons.reflect()
    seen = agent.lessons.reflections()[0]
    held = [one for one in seen.note.lessons if one.flagged]
    assert held and all("No longs." in one.flagged for one in held)
    assert not set(held) & set(seen.lessons_shown(NOON))


# ---- the owner's hand ----------------------------------------------------------------------------------------------------


def test_a_retired_lesson_is_told_no_more_even_when_it_comes_back_with_other_numbers(memory):
    agent = given(memory, everyNTrades=10)
    for n in range(60):
        told(agent, n)
    reflect_due(memory)
    own, _ = agent.lessons.active()
    one = own.lessons_shown(NOON)[0]
    agent.lessons.retire(one.id, "I know, and it is the plan")
    assert agent.lessons.retire(one.id).duplicate
    assert one.id not in {each.id for each in agent.lessons.active()[0].lessons_shown(NOON)}
    for n in range(60, 70):
        told(agent, n)
    reflect_due(memory)
    own, _ = agent.lessons.active()
    assert own.note.closed == 70
    assert one.candidate not in {each.candidate for each in own.lessons_shown(NOON)}
    with pytest.raises(Unknown, match="lesson"):
        agent.lessons.retire("nothing")


def test_a_lesson_retired_for_one_agent_is_not_told_to_it_by_the_skill_and_still_told_to_others(memory):
    agent, other = given(memory, everyNTrades=10), given(memory, id="other", everyNTrades=10)
    for n in range(60):
        told(agent, n)
    reflect_due(memory)
    agent.lessons.promote(active(agent).id)
    one = agent.lessons.active()[0].lessons_shown(NOON)[0]
    agent.lessons.retire(one.id)
    assert one.id not in {each.id for note in agent.lessons.active() for each in note.lessons_shown(NOON)}
    assert one.id in {each.id for each in other.lessons.active()[1].lessons_shown(NOON)}
    agent.lessons.retire(one.id, scope="skill")
    assert one.id not in {each.id for each in other.lessons.active()[1].lessons_shown(NOON)}


def test_a_promoted_note_speaks_to_every_agent_of_the_skill_and_the_next_supersedes_it(memory):
    agent = given(memory, everyNTrades=10)
    given(memory, id="other", everyNTrades=10)
    for n in range(60):
        told(agent, n)
    reflect_due(memory)
    note = active(agent)
    promoted = agent.lessons.promote(note.id)
    assert (
        (promoted.agent, promoted.from_note, promoted.lessons)
        == (None, note.id, agent.lessons.reflections()[0].lessons_shown(NOON))
        != (None, note.id, ())
    )
    _, shared = memory.agent("other").lessons.active()
    assert shared.note == promoted
    assert agent.lessons.promote(note.id).id == promoted.id and len(agent.lessons.skill_reflections()) == 1
    for n in range(60, 70):
        told(agent, n)
    reflect_due(memory)
    agent.lessons.promote(active(agent).id)
    assert [seen.status for seen in agent.lessons.skill_reflections()] == ["active", "superseded"]
    assert verify_store(memory).ok and rebuild_store(memory).ok


def test_lessons_as_of_a_moment_are_those_that_were_told_then(memory):
    agent = given(memory, everyNTrades=2)
    told(agent, 0)
    told(agent, 1)
    reflect_due(memory)
    first = active(agent)
    memory.clock.at = NOON + timedelta(days=1)
    told(agent, 2)
    told(agent, 3)
    reflect_due(memory)
    assert agent.lessons.active(as_of=NOON)[0].note == first
    assert agent.lessons.active(as_of=NOON - timedelta(days=1)) == (None, None)
    memory.clock.at = NOON + timedelta(days=200)
    own, _ = agent.lessons.active()
    assert own.lessons_shown(memory.clock.at) == ()  # 90 days have passed


def test_a_trade_that_the_owner_excludes_counts_in_no_lesson(memory):
    agent = given(memory, cadence="off")
    ids = [told(agent, n) for n in range(40)]
    agent.memories.correct(ids[0], {"teach": "exclude"}, "fat finger")
    note = agent.lessons.reflect().note
    assert all(ids[0] not in one.trades for one in (*note.lessons, *note.candidates))
    assert {trade.id: trade.teach for trade in agent.ledger.trades()} == dict.fromkeys(ids, "learn") | {ids[0]: "exclude"}
    assert "excluded" in agent.briefs.make(symbol="XAU").brief.text or agent.ledger.trades()[0].id != ids[0]


def test_an_unknown_model_asked_for_by_name_is_refused_at_once(memory):
    agent = given(memory)
    told(agent, 0)
    with pytest.raises(Invalid, match="model"):
        agent.lessons.reflect(model="nowhere")
    assert agent.lessons.failures() == []
