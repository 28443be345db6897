"""What became of decisions, on both stores: as bars arrive, as of any moment, by the ledger, and by the owner's word."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memtape.core.decisions.decision_outcomes import DecisionOutcome
from memtape.core.decisions.outcome_bars import FRAME_SECONDS
from memtape.core.decisions.outcomes import Outcome
from memtape.core.skills import Mode
from memtape.engine import AgentMemory, Memory
from memtape.engine.proof.audit import rebuild_store, verify_store
from memtape.engine.proof.transfer import export_store, restore_store
from memtape.errors import Conflict, Invalid, Unknown
from memtape.plugs.clock import FixedClock
from memtape.sim.run import run_simulation
from memtape.surfaces.caller import Caller
from memtape.surfaces.registry import all_operations, perform
from tests.desk import given_memory, projections
from tests.effort import examples

TEN = datetime(2026, 3, 2, 10, tzinfo=UTC)
LONG = {"id": "d1", "t": TEN, "symbol": "XAU", "action": "buy", "side": "long", "stop": 98, "target": 104}


def at(hours: float) -> datetime:
    return TEN + timedelta(hours=hours)


def given_desk(memory: Memory, mode: Mode = "sim") -> AgentMemory:
    # A simulation has its own time, and the clock of the machine is far ahead of it.
    memory.resources.clock = FixedClock(at(5_000) if mode == "sim" else TEN)
    memory.create_skill("plain")
    memory.create_agent("desk", skill="plain", mode=mode)
    return memory.agent("desk")


def bar(n: float, o: Any, h: Any, low: Any, c: Any, hours: float = 1) -> dict[str, Any]:
    return {"symbol": "XAU", "t0": at(n), "t1": at(n + hours), "o": o, "h": h, "l": low, "c": c}


def arrive(agent: AgentMemory, hours: float, kind: str, value: dict[str, Any]) -> None:
    """Something arrives so many hours after ten."""
    agent.resources.clock = FixedClock(at(hours))
    agent.observe(value, kind=kind)


def told(agent: AgentMemory, id: str = "d1", **cutoff: Any) -> tuple[str, str, str | None, float | None] | None:
    """Who says what of a decision."""
    found = agent.outcomes.of(id, **cutoff)
    return None if found is None else (found.source, found.outcome.status, found.outcome.cause, found.outcome.r)


def agrees_with_its_log(memory: Memory) -> bool:
    audit, before = verify_store(memory), projections(memory)
    assert audit.ok, audit.problems[0]
    rebuild_store(memory)
    return projections(memory) == before


# ---- on bars ---------------------------------------------------------------------------------------------------------------


def test_a_decision_is_settled_as_bars_arrive_and_as_of_any_moment_it_is_what_was_known_then(memory: Memory) -> None:
    agent = given_desk(memory)
    agent.observe(LONG, kind="decision")
    assert told(agent) == ("bars", "pending", None, None)
    agent.observe({"bars": [bar(0, 100, 101, 99, 100)]}, kind="bars")
    assert told(agent) == ("bars", "open", None, None)
    agent.observe({"bars": [bar(1, 100, 104, 99, 103)]}, kind="bars")
    assert told(agent) == ("bars", "resolved", "target", 2.0)
    assert [told(agent, as_of=at(hours)) for hours in (0.9, 1, 1.9)] == [
        ("bars", "pending", None, None), ("bars", "open", None, None), ("bars", "open", None, None),
    ]  # fmt: skip
    assert [told(agent, head=head) for head in (1, 2, 3)] == [
        ("bars", "pending", None, None), ("bars", "open", None, None), ("bars", "resolved", "target", 2.0),
    ]  # fmt: skip
    assert agrees_with_its_log(memory)


def test_a_bar_that_arrives_late_changes_what_is_believed_from_then_on(memory: Memory) -> None:
    agent = given_desk(memory, "paper")
    arrive(agent, 0, "decision", LONG)
    arrive(agent, 1.1, "bars", {"bars": [bar(0, 100, 101, 99, 100)]})
    arrive(agent, 3.1, "bars", {"bars": [bar(2, 100, 104, 99, 103)]})
    assert told(agent) == ("bars", "resolved", "target", 2.0)
    arrive(agent, 9, "bars", {"bars": [bar(1, 100, 101, 97, 98)]})
    assert told(agent) == ("bars", "resolved", "stop", -1.0)
    assert told(agent, as_of=at(8.9)) == told(agent, head=3) == ("bars", "resolved", "target", 2.0)
    assert agrees_with_its_log(memory)


def test_decisions_and_bars_in_every_order_end_in_the_same_rows(opened: Callable[..., Memory], store_url: str) -> None:
    values = [
        ("decision", LONG), ("decision", {**LONG, "id": "w1", "action": "wait", "t": at(1)}),
        ("bars", {"bars": [bar(0, 100, 101, 99, 100), bar(2, 101, 102, 100, 101)]}), ("bars", {"bars": [bar(1, 100, 103, 100, 101)]}),
        ("bars", {"bars": [bar(3 + n / 4, 101, 104 if n == 2 else 102, 100, 101, hours=0.25) for n in range(4)]}),
    ]  # fmt: skip
    memory = opened(store_url)
    given_desk(memory)
    found = []
    for n, order in enumerate(permutations(values)):
        memory.create_agent(f"desk{n}", skill="plain", mode="sim")
        for kind, value in order:
            memory.agent(f"desk{n}").observe(value, kind=kind)
        with memory.resources.reading(f"desk{n}") as tables:
            rows = {name: tables.rows(name) for name in ("outcomes", "episodes")}
        # The id of a shadow's episode contains the agent's.
        found.append(
            [{**row, "stream": "", "id": "" if name == "episodes" else row["id"]} for name in rows for row in rows[name]]
        )
    assert [(row["id"], row["status"], row["cause"]) for row in found[0] if row.get("known_to") is None and "status" in row] == [
        ("d1", "resolved", "target"), ("w1", "resolved", "target"),
    ]  # fmt: skip
    assert all(rows == found[0] for rows in found)
    assert verify_store(memory).ok


def test_a_decision_not_to_trade_is_a_shadow_with_the_r_of_the_real_fill(memory: Memory) -> None:
    agent = given_desk(memory)
    agent.observe({**LONG, "action": "WAIT", "situation": {"price": 99, "regime": "ranging"}}, kind="decision")
    agent.observe({"bars": [bar(0, 100, 101, 97, 98)]}, kind="bars")
    found = agent.outcomes.of("d1")
    assert found is not None and found.outcome.shadow and found.outcome.r == -1.0
    [episode] = agent.memories.episodes()
    assert (episode.kind, episode.pnl_r, episode.trigger, episode.entry_at, episode.exit_at) == (
        "shadow",
        -1.0,
        "stop",
        at(0),
        at(1),
    )
    assert (episode.price, episode.target_r, episode.known_from) == (99.0, 2.0, at(1))
    assert agrees_with_its_log(memory)


@pytest.mark.parametrize(
    ("plan", "first", "status"),
    [
        ({"entry_price": 100, "expiry_bars": 1}, bar(0, 103, 103.5, 102, 103), "expired"),
        ({"entry_price": 100}, bar(0, 98.1, 105, 98.05, 104), "resolved"),
    ],
    ids=["never filled", "too little of the risk left"],
)
def test_a_shadow_that_was_not_filled_or_left_no_risk_is_no_memory(
    memory: Memory, plan: dict[str, Any], first: dict[str, Any], status: str
) -> None:
    agent = given_desk(memory)
    agent.observe({**LONG, "action": "skip", **plan}, kind="decision")
    agent.observe({"bars": [first]}, kind="bars")
    found = agent.outcomes.of("d1")
    assert found is not None and found.outcome.status == status and not found.outcome.counts
    assert agent.memories.episodes() == []
    assert agrees_with_its_log(memory)


def test_a_decision_in_a_tick_that_contradicts_itself_is_recorded_and_has_no_outcome(memory: Memory) -> None:
    agent = given_desk(memory)
    with pytest.raises(Invalid, match="stop: 105 is above the target 104"):
        agent.observe({**LONG, "stop": 105}, kind="decision")
    assert agent.head().seq == 0
    agent.observe({"id": "t1", "t": TEN, "decision": {**LONG, "stop": 105}})
    assert told(agent) is None and agrees_with_its_log(memory)


def test_an_undone_decision_keeps_the_outcome_that_was_believed_of_it(memory: Memory) -> None:
    from memtape.core.observed import Decision
    from memtape.core.values import read

    agent = given_desk(memory, "paper")
    memory.resources.clock = FixedClock(at(5))
    batch = agent.imports.commit([read(Decision, LONG)], {"file": "x.csv"}).batch
    agent.observe({"bars": [bar(0, 100, 101, 99, 100)]}, kind="bars", backfill=True)
    memory.resources.clock = FixedClock(at(6))
    agent.imports.undo(batch)
    with pytest.raises(Unknown, match="there is no decision 'd1'"):
        told(agent)
    assert agent.outcomes.list() == []
    assert told(agent, as_of=at(5.5)) == ("bars", "open", None, None)
    # A bar that is learned of after the undo, and was known before it, changes what was believed until then.
    agent.observe({"bars": [bar(1, 100, 104, 99, 103)]}, kind="bars", backfill=True)
    assert told(agent, as_of=at(5.5)) == ("bars", "resolved", "target", 2.0)
    assert agrees_with_its_log(memory)


def test_shorter_bars_settle_a_decision_once_they_make_up_a_bar_of_its_frame(memory: Memory) -> None:
    agent = given_desk(memory)
    agent.observe({**LONG, "frame": "4h", "t": at(2)}, kind="decision")  # at noon
    for n in range(3):
        agent.observe({"bars": [bar(2 + n, 100 + n, 103, 99, 101 + n)]}, kind="bars")
        assert told(agent) == ("bars", "pending", None, None)
    agent.observe({"bars": [bar(5, 103, 104, 102, 103)]}, kind="bars")
    assert told(agent) == ("bars", "resolved", "target", 2.0)
    assert agrees_with_its_log(memory)


def test_bars_before_a_long_gap_and_after_it_are_found(memory: Memory) -> None:
    agent = given_desk(memory)
    agent.observe({"bars": [bar(0, 100, 101, 99, 100), *(bar(500 + n, 100, 101, 99, 100) for n in range(60))]}, kind="bars")
    agent.observe({**LONG, "expiry_bars": 30}, kind="decision", backfill=True)
    found = agent.outcomes.of("d1")
    assert found is not None and (found.outcome.status, found.outcome.exit_at) == ("expired", at(500 + 29))
    assert agrees_with_its_log(memory)


def test_a_bar_in_order_costs_as_many_statements_whatever_the_number_of_decisions_that_are_open(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, asked, counts = given_desk(memory), list[str](), []
    with memory.resources.reading("desk") as tables:
        session = type(tables.session)
    run = session.all

    def counted(own: Any, sql: str, params: Any) -> Any:
        asked.append(sql)
        return run(own, sql, params)

    monkeypatch.setattr(session, "all", counted)
    for n in range(12):
        agent.observe({**LONG, "id": f"d{n}", "t": at(n)}, kind="decision")
        asked.clear()
        agent.observe({"bars": [bar(n, 100, 101, 99, 100)]}, kind="bars")
        counts.append(len(asked))
        assert not any("kind = :kind AND key IN" in sql for sql in asked), "a decision was read again"
    assert {each.outcome.status for each in agent.outcomes.list()} == {"open"}
    assert set(counts[1:]) == {counts[-1]} and counts[-1] > 5  # the very first bar is not compared with one before it
    assert agrees_with_its_log(memory)


def test_a_simulation_on_daily_bars_follows_its_decisions_on_days(memory: Memory) -> None:
    from memtape.core.observed import Bar, Decision
    from memtape.core.values import read
    from memtape.sim.strategies import OrderProposal

    def waits(history: list[Bar], *_: object) -> list[OrderProposal]:
        return [
            OrderProposal(Decision(symbol="XAU", action="wait", side="long", stop=history[-1].c - 2, target=history[-1].c + 4))
        ]

    agent = given_desk(memory)
    days = [read(Bar, bar(24 * n, 100 + n, 101.5 + n, 99.5 + n, 101 + n, hours=24)) for n in range(6)]
    run_simulation(agent, days, waits)
    listed = agent.outcomes.list()
    assert [each.outcome.status for each in listed] == ["pending", "open", "open", "open", "resolved", "resolved"]
    assert [(e.trigger, e.pnl_r) for e in agent.memories.episodes()] == [("target", 2.0)] * 2
    assert agrees_with_its_log(memory)


def test_outcomes_survive_an_export_and_go_with_their_agent(
    opened: Callable[..., Memory], store_url: str, tmp_path: Path
) -> None:
    memory = opened(store_url)
    agent = given_desk(memory)
    agent.observe(LONG, kind="decision")
    agent.observe({"bars": [bar(0, 100, 101, 99, 100)]}, kind="bars")
    agent.outcomes.record({"decision": "d1", "status": "resolved", "r": "1.5"})
    export_store(memory, tmp_path / "all.jsonl", "jsonl")
    with given_memory() as other:
        restore_store(other, tmp_path / "all.jsonl")
        assert other.agent("desk").outcomes.list() == agent.outcomes.list() != []
    memory.delete_agent("desk", "desk")
    with memory.resources.reading("desk") as tables:
        assert tables.rows("outcomes") == []
    assert verify_store(memory).ok


# ---- the ledger and the owner ----------------------------------------------------------------------------------------------


def fill(id: str, hours: float, side: str, px: Any) -> dict[str, Any]:
    return {
        "id": id,
        "t": at(hours),
        "symbol": "XAU",
        "side": side,
        "qty": 2,
        "px": px,
        "decision": "d1" if side == "buy" else None,
    }


def test_a_decision_that_became_a_trade_has_the_ledgers_outcome_and_keeps_the_bars_own(memory: Memory) -> None:
    agent = given_desk(memory)
    agent.observe(LONG, kind="decision")
    agent.observe(fill("f1", 0.5, "buy", "100.5"), kind="fill")
    assert told(agent) == ("trade", "open", None, None)
    agent.observe({"bars": [bar(0, 100, 101, 99, 100), bar(1, 100, 104, 99, 103)]}, kind="bars")
    agent.observe({**fill("f2", 3, "sell", "103"), "trigger": "manual"}, kind="fill")
    found = agent.outcomes.of("d1")
    assert found is not None
    assert (found.source, found.outcome.status, found.outcome.cause, found.outcome.r) == ("trade", "resolved", "manual", 1.0)
    assert found.auto is not None and (found.auto.cause, found.auto.r) == ("target", 2.0)
    assert found.trades == tuple(trade.id for trade in agent.ledger.trades())
    assert told(agent, as_of=at(2.5)) == told(agent, head=3) == ("trade", "open", None, None)
    assert told(agent, as_of=at(0.2)) == ("bars", "pending", None, None)


def test_a_trade_without_a_trigger_was_closed(memory: Memory) -> None:
    agent = given_desk(memory)
    agent.observe(LONG, kind="decision")
    agent.observe(fill("f1", 0.5, "buy", "100"), kind="fill")
    agent.observe(fill("f2", 3, "sell", "99"), kind="fill")
    assert told(agent) == ("trade", "resolved", "closed", -0.5)


def test_of_a_decision_that_entered_lots_the_risk_of_all_of_them_counts(memory: Memory) -> None:
    memory.resources.clock = FixedClock(at(5_000))
    memory.create_skill("plain")
    memory.create_agent("desk", skill="plain", mode="sim", settings={"trade_unit": "fifo_lots"})
    agent = memory.agent("desk")
    agent.observe(LONG, kind="decision")
    agent.observe(fill("f1", 0.5, "buy", "100"), kind="fill")
    agent.observe({**fill("f2", 1, "sell", "104"), "qty": 1}, kind="fill")
    assert told(agent) == ("trade", "open", None, None)
    agent.observe({**fill("f3", 2, "sell", "101"), "qty": 1, "trigger": "manual"}, kind="fill")
    assert told(agent) == ("trade", "resolved", "manual", 1.25)


def test_what_the_owner_states_takes_precedence_and_the_last_statement_counts(memory: Memory) -> None:
    agent = given_desk(memory, "paper")
    arrive(agent, 0, "decision", LONG)
    arrive(agent, 1, "bars", {"bars": [bar(0, 100, 101, 99, 100)]})
    memory.resources.clock = FixedClock(at(2))
    agent.outcomes.record({"decision": "d1", "status": "resolved", "r": "1.5", "note": "closed by hand at the desk"})
    memory.resources.clock = FixedClock(at(3))
    agent.outcomes.record({"decision": "d1", "status": "expired"})
    found = agent.outcomes.of("d1")
    opened = Outcome("open", found.auto.entry_price, at(0)) if found and found.auto else None
    assert (
        found == DecisionOutcome("d1", "stated", opened._replace(status="expired", cause="unfilled"), opened) if opened else False
    )
    earlier = agent.outcomes.of("d1", as_of=at(2.5))
    assert earlier is not None and (earlier.note, earlier.outcome.cause, earlier.outcome.r) == (
        "closed by hand at the desk",
        "closed",
        1.5,
    )
    assert told(agent, as_of=at(1.5)) == told(agent, head=2) == ("bars", "open", None, None)
    assert agrees_with_its_log(memory)


def test_a_model_cannot_state_an_outcome(memory: Memory) -> None:
    agent = given_desk(memory)
    agent.observe(LONG, kind="decision")
    with pytest.raises(Conflict, match=r"owner only, permission denied for a model. Ask the owner to state the outcome"):
        perform(memory, all_operations()["record_outcome"], {"agent": "desk", "decision": "d1", "status": "expired"}, Caller("model"))
    assert agent.head().seq == 1
    answer = perform(memory, all_operations()["get_outcome"], {"agent": "desk", "decision": "d1"}, Caller("model"))
    assert (answer["source"], answer["outcome"]["status"]) == ("bars", "pending")


def test_the_same_statement_twice_is_one(memory: Memory) -> None:
    agent = given_desk(memory)
    agent.observe(LONG, kind="decision")
    stated = {"decision": "d1", "status": "resolved", "r": "1.50"}
    first, again = agent.outcomes.record(stated), agent.outcomes.record({**stated, "r": 1.5})
    assert (again.duplicate, again.hash, agent.head().seq) == (True, first.hash, 2)
    assert not agent.outcomes.record({**stated, "r": 2}).duplicate


def test_the_owner_may_state_the_outcome_of_a_decision_that_bars_cannot_follow(memory: Memory) -> None:
    agent = given_desk(memory)
    agent.observe({"id": "d1", "t": TEN, "symbol": "XAU", "action": "stand_aside"}, kind="decision")
    assert told(agent) is None and agent.outcomes.list() == []
    agent.outcomes.record({"decision": "d1", "status": "resolved", "cause": "target", "r": 2})
    found = agent.outcomes.of("d1")
    assert found is not None and (found.outcome, found.auto) == (Outcome("resolved", cause="target", r=2.0, shadow=True), None)


@pytest.mark.parametrize(
    ("stated", "wrong"),
    [
        ({"status": "won"}, ["status"]),
        ({"status": "open", "r": "much"}, ["status", "r"]),
        ({"status": "resolved", "r": 1, "exit_at": at(-1), "cause": "unfilled"}, ["exit_at", "r"]),
    ],
)
def test_a_statement_that_makes_no_sense_is_refused_with_every_wrong_field(
    memory: Memory, stated: dict[str, Any], wrong: list[str]
) -> None:
    agent = given_desk(memory)
    agent.observe(LONG, kind="decision")
    with pytest.raises(Invalid) as refused:
        agent.outcomes.record({"decision": "d1", **stated})
    assert [error.field for error in refused.value.errors] == wrong
    with pytest.raises(Unknown, match="there is no decision 'd9'"):
        agent.outcomes.record({"decision": "d9", "status": "expired"})
    assert agent.head().seq == 1


def test_outcomes_are_listed_newest_decision_first_by_symbol_time_and_number(memory: Memory) -> None:
    agent = given_desk(memory)
    for n in range(4):
        agent.observe({**LONG, "id": f"d{n}", "t": at(n), "symbol": "XAU" if n % 2 else "BTC"}, kind="decision")

    def listed(*args: Any, **kwargs: Any) -> list[str]:
        return [each.decision for each in agent.outcomes.list(*args, **kwargs)]

    assert listed() == ["d3", "d2", "d1", "d0"]
    assert (listed(symbol="XAU"), listed(limit=1), listed(since=at(2))) == (["d3", "d1"], ["d3"], ["d3", "d2"])
    assert (listed(["d0", "d2"]), listed(["d9"])) == (["d2", "d0"], [])


# ---- whatever arrives whenever ---------------------------------------------------------------------------------------------

spans = st.sampled_from([1, 1, 0.5, 0.25, 4])


@st.composite
def arrivals(draw: Any) -> list[tuple[float, str, dict[str, Any]]]:
    """Decisions and bars, each arriving some time after it happened, in the order of arrival."""
    found: list[tuple[float, str, dict[str, Any]]] = []
    for n in range(draw(st.integers(1, 3))):
        hours, side = draw(st.integers(0, 24)) / 4, draw(st.sampled_from([1, -1]))
        plan = {"side": "long" if side > 0 else "short", "stop": 100 - 3 * side, "target": 100 + 3 * side,
                "action": draw(st.sampled_from(["buy", "pass"])), "expiry_bars": draw(st.integers(1, 4)),
                "frame": draw(st.sampled_from([frame for frame in FRAME_SECONDS if frame in ("15m", "30m", "1h", "4h")]))}  # fmt: skip
        if draw(st.booleans()):
            plan["entry_price"] = 100
        late = draw(st.sampled_from([0, 0, 2]))
        found.append((hours + late, "decision", {"id": f"d{n}", "t": at(hours), "symbol": "XAU", **plan}))
    seen = set()
    for _ in range(draw(st.integers(1, 14))):
        length = draw(spans)
        first = draw(st.integers(-2, round(10 / length))) * length
        rows = []
        for n in range(draw(st.integers(1, 5))):
            prices = sorted(draw(st.integers(96, 104)) for _ in range(4))
            if (first + n * length, length) not in seen:
                rows.append(bar(first + n * length, prices[1], prices[3], prices[0], prices[2], hours=length))
                seen.add((first + n * length, length))
        if rows:
            late = draw(st.sampled_from([0, 0, 0, 0.5, 30]))
            found.append(((rows[-1]["t1"] - TEN) / timedelta(hours=1) + late, "bars", {"bars": rows}))
    return sorted(found, key=lambda each: each[0]) if draw(st.booleans()) else found


@given(arrivals(), st.sampled_from(["sim", "paper"]))
@settings(max_examples=examples(60, 3_000))
def test_whenever_bars_and_decisions_arrive_outcomes_follow_from_the_log(values: list[Any], mode: Mode) -> None:
    memory = given_memory()
    agent = given_desk(memory, mode)
    said = []
    for hours, kind, value in values:
        # What comes later than something else is known later: the clock never runs backwards.
        agent.resources.clock = FixedClock(max(agent.resources.clock.now(), at(hours)))
        agent.observe(value, kind=kind)
        with agent.view(as_of=at(1000)) as view:
            said.append((agent.head().seq, view.outcomes()))
    audit = verify_store(memory)
    assert audit.ok, audit.problems[0]
    for seq, rows in said:
        with agent.view(as_of=at(1000), head=seq) as view:
            assert [(row.id, row.outcome) for row in view.outcomes()] == [(row.id, row.outcome) for row in rows]
