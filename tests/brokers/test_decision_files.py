"""Files of decisions and predictions: what an agent meant to do, why, how sure it was, and what became of it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memtape.core.observed import Decision
from memtape.engine import Memory
from memtape.engine.proof.audit import rebuild_store, verify_store
from memtape.errors import Invalid
from memtape.surfaces.cli.imports import run_import

from .desk import NOON, REAL, given_memory, ledger, read, write_file

HEADER = "time,symbol,action,side,entry,stop,target,confidence,reason\n"
GOLD = "2026-06-04T08:00:00Z,XAUUSD,buy,long,,98,104,0.7,breakout above the range\n"
SKIP = "2026-06-04T12:00:00Z,XAUUSD,no trade,long,,97,110,0.4,news in an hour\n"
SHORT = "2026-06-05T08:00:00Z,EURUSD,sell,short,1.10,1.11,1.08,0.6,lower high\n"


def decisions(memory: Memory) -> list[Decision]:
    """The decisions of the desk, oldest first."""
    found = [recorded.decision for recorded in memory.agent("desk").ledger.decisions()]
    return sorted(found, key=lambda decision: (decision.t or NOON, decision.id or ""))


def read_decisions(text: str, **options: Any) -> list[Decision]:
    found = read(text, **options)
    assert (found.kind, [p for p in found.problems if p.blocks]) == ("decisions", [])
    return [each.value for each in found.found if isinstance(each.value, Decision)]


def hourly(start: datetime, prices: list[tuple[float, float, float, float]], symbol: str = "XAUUSD") -> dict[str, Any]:
    bars = []
    for n, (o, h, l, c) in enumerate(prices):  # noqa: E741
        t0 = start + timedelta(hours=n)
        bars.append({"symbol": symbol, "t0": t0, "t1": t0 + timedelta(hours=1)} | dict(zip("ohlc", map(str, (o, h, l, c)), strict=True)))
    return {"bars": bars}


def test_a_preview_of_decisions_counts_them_and_writes_nothing(tmp_path: Path) -> None:
    memory = given_memory()
    answer = run_import(memory, write_file(tmp_path, HEADER + GOLD + SKIP + SHORT), agent="desk")
    assert {name: answer[name] for name in ("format", "kind", "rows", "counts", "new", "duplicates", "problems", "committed")} == {
        "format": "csv", "kind": "decisions", "rows": 3, "counts": {"decisions": 3}, "new": 3, "duplicates": 0, "problems": [],
        "committed": False,
    }  # fmt: skip
    assert answer["totals"] == {
        "n": 3, "first": "2026-06-04T08:00:00Z", "last": "2026-06-05T08:00:00Z", "by_symbol": {"EURUSD": 1, "XAUUSD": 2},
        "by_action": {"buy": 1, "no_trade": 1, "sell": 1}, "followed": 3, "with_reason": 3, "with_outcome": 0,
    }  # fmt: skip
    assert (decisions(memory), memory.agent("desk").imports.all()) == ([], [])


def test_imported_decisions_keep_what_the_agent_said(tmp_path: Path) -> None:
    memory = given_memory()
    run_import(memory, write_file(tmp_path, HEADER + GOLD + SKIP + SHORT), agent="desk", commit=True)
    gold, skip, short = decisions(memory)
    assert (gold.action, gold.side, gold.stop, gold.target, gold.confidence) == ("buy", "long", 98, 104, Decimal("0.7"))
    assert (gold.reason, skip.action, short.entry_price) == ("breakout above the range", "no_trade", Decimal("1.10"))
    assert verify_store(memory).ok


def test_a_second_import_adds_nothing_also_reordered_and_a_grown_file_adds_what_is_new(tmp_path: Path) -> None:
    memory = given_memory()
    run_import(memory, write_file(tmp_path, HEADER + GOLD + SKIP), agent="desk", commit=True)
    again = run_import(memory, write_file(tmp_path, HEADER + SKIP + GOLD), agent="desk", commit=True)
    assert (again["new"], again["duplicates"], again["batch"]) == (0, 2, None)
    grown = run_import(memory, write_file(tmp_path, HEADER + SHORT + SKIP + GOLD), agent="desk", commit=True)
    assert (grown["new"], grown["duplicates"], len(decisions(memory))) == (1, 2, 3)


def test_an_undo_takes_back_every_decision_and_its_outcome_and_the_file_can_come_again(tmp_path: Path) -> None:
    memory = given_memory()
    path = write_file(tmp_path, HEADER.strip() + ",outcome,r\n" + GOLD.strip() + ",win,1.5\n")
    run_import(memory, path, agent="desk", commit=True)
    desk = memory.agent("desk")
    before = desk.outcomes.list()
    assert [(o.source, o.r) for o in before] == [("stated", Decimal("1.5"))]
    undone = desk.imports.undo()
    assert (dict(undone.took_back), decisions(memory), desk.outcomes.list()) == ({"decision": 1, "outcome_stated": 1}, [], [])
    assert run_import(memory, path, agent="desk", commit=True)["new"] == 1
    assert desk.outcomes.list() == before
    assert verify_store(memory).ok


def test_a_decision_counts_as_known_from_its_own_time_and_is_named_as_imported(tmp_path: Path) -> None:
    memory = given_memory()
    run_import(memory, write_file(tmp_path, HEADER + GOLD + SHORT), agent="desk", commit=True)
    desk = memory.agent("desk")
    assert [d.decision.symbol for d in desk.ledger.decisions(as_of=datetime(2026, 6, 4, 9, tzinfo=UTC))] == ["XAUUSD"]
    assert desk.ledger.decisions(as_of=datetime(2026, 6, 4, 7, tzinfo=UTC)) == []
    with desk.view() as view:
        (first, *_) = view.items("decision")
    assert first.imported and first.known_at == first.at


def test_bars_that_come_later_settle_imported_decisions_as_they_do_live_ones(tmp_path: Path) -> None:
    start = datetime(2026, 6, 4, 8, tzinfo=UTC)
    rose = hourly(start, [(100, 101, 99, 100.5), (100.5, 104.5, 100, 104), (104, 106, 103, 105), (105, 111, 104, 110)] * 2)
    imported, live = given_memory(), given_memory()
    run_import(imported, write_file(tmp_path, HEADER + GOLD + SKIP), agent="desk", commit=True)
    for decision in decisions(imported):
        live.agent("desk").observe(decision)
    for memory in (imported, live):
        memory.agent("desk").observe(rose, kind="bars")
    settled = {o.decision: (o.status, o.cause, o.outcome.r, o.outcome.shadow) for o in imported.agent("desk").outcomes.list()}
    assert sorted((status, cause, round(r or 0, 2), shadow) for status, cause, r, shadow in settled.values()) == [
        ("resolved", "target", 2.0, False), ("resolved", "target", 3.33, True),
    ]  # fmt: skip
    assert settled == {o.decision: (o.status, o.cause, o.outcome.r, o.outcome.shadow) for o in live.agent("desk").outcomes.list()}
    # The other order of delivery gives the same.
    late = given_memory()
    late.agent("desk").observe(rose, kind="bars")
    run_import(late, tmp_path / "trades.csv", agent="desk", commit=True)
    assert {o.decision: (o.status, o.cause, o.outcome.r, o.outcome.shadow) for o in late.agent("desk").outcomes.list()} == settled
    assert verify_store(late).ok


def test_a_decision_names_its_order_and_so_gives_its_reason_to_the_fill(tmp_path: Path) -> None:
    memory = given_memory()
    fills = "id,time,symbol,side,qty,price,fee,order_id\n1,2026-06-04T08:01:00Z,BTC,buy,1,100,0,o-7\n2,2026-06-04T09:00:00Z,BTC,sell,1,110,0,o-8\n"
    run_import(memory, write_file(tmp_path, fills), agent="desk", commit=True)
    plan = "id,time,symbol,action,stop,reason,order_id\nd-1,2026-06-04T08:00:00Z,BTC,buy,95,range broke,o-7\n"
    run_import(memory, write_file(tmp_path, plan), agent="desk", commit=True)
    (trade,) = ledger(memory)
    assert (trade["entry_decision"], trade["entry_reason"], trade["pnl_r"]) == ("d-1", "range broke", 2)
    (outcome,) = memory.agent("desk").outcomes.list()
    assert (outcome.source, outcome.r) == ("trade", 2)


@pytest.mark.parametrize("decision_first", [True, False])
def test_a_decision_names_the_trade_that_it_became_and_has_its_outcome(tmp_path: Path, decision_first: bool) -> None:
    memory = given_memory()
    trades = write_file(
        tmp_path,
        "trade_id,symbol,side,entry_time,exit_time,entry_price,exit_price,qty,stop\n"
        "T-9,BTC,long,2026-06-04T08:01:00Z,2026-06-04T09:00:00Z,100,110,1,95\n",
    )
    plan = write_file(
        tmp_path, "time,symbol,signal,reason,trade_id\n2026-06-04T08:00:00Z,BTC,long,range broke,T-9\n", "plan.csv"
    )
    for path in (plan, trades) if decision_first else (trades, plan):
        run_import(memory, path, agent="desk", commit=True)
    (outcome,) = memory.agent("desk").outcomes.list()
    assert (outcome.source, outcome.status, outcome.r, len(outcome.trades)) == ("trade", "resolved", 2, 1)
    earlier = memory.agent("desk").outcomes.list(as_of=datetime(2026, 6, 4, 8, 30, tzinfo=UTC))
    assert [each.source for each in earlier if each.source == "trade"] == []


def test_predictions_keep_their_probability_and_what_became_of_them(tmp_path: Path) -> None:
    text = (
        "predicted_at,ticker,prediction,probability,horizon_days,outcome,resolved_at\n"
        "2026-05-04T20:00:00Z,NVDA,up,0.65,5,correct,2026-05-11T20:00:00Z\n"
        "2026-05-05T20:00:00Z,AMD,down,70%,5,wrong,2026-05-12T20:00:00Z\n"
        "2026-06-05T20:00:00Z,TSLA,bullish,0.55,5,,\n"
    )
    memory = given_memory()
    answer = run_import(memory, write_file(tmp_path, text), agent="desk", commit=True)
    assert (answer["kind"], answer["counts"], answer["problems"]) == ("decisions", {"decisions": 3, "outcomes": 2}, [])
    up, down, open_ = decisions(memory)
    assert [(d.side, d.confidence, d.slots["probability"], d.frame, d.expiry_bars) for d in (up, down, open_)] == [
        ("long", Decimal("0.65"), "0.65", "1d", 5), ("short", Decimal("0.7"), "0.7", "1d", 5),
        ("long", Decimal("0.55"), "0.55", "1d", 5),
    ]  # fmt: skip
    outcomes = {o.decision: (o.source, o.status, o.cause, o.note) for o in memory.agent("desk").outcomes.list()}
    assert outcomes == {
        up.id: ("stated", "resolved", "won", "stated by the file: correct"),
        down.id: ("stated", "resolved", "lost", "stated by the file: wrong"),
    }
    # Nobody knew it before it was resolved.
    assert memory.agent("desk").outcomes.list(as_of=datetime(2026, 5, 11, 19, tzinfo=UTC)) == []


def test_an_outcome_that_a_later_export_adds_is_new_and_the_decision_is_not(tmp_path: Path) -> None:
    header, row = "time,symbol,direction,horizon,probability,result,resolved_at\n", "2026-05-04T20:00:00Z,NVDA,up,24h,0.6,{},{}\n"
    memory = given_memory()
    first = run_import(memory, write_file(tmp_path, header + row.format("pending", "")), agent="desk", commit=True)
    assert (first["new"], first["counts"]) == (1, {"decisions": 1})
    later = write_file(tmp_path, header + row.format("won", "2026-05-05T20:00:00Z"))
    preview = run_import(memory, later, agent="desk")
    done = run_import(memory, later, agent="desk", commit=True)
    assert (preview["new"], preview["duplicates"], done["new"], done["committed"]) == (1, 0, 1, True)
    assert (len(decisions(memory)), [o.cause for o in memory.agent("desk").outcomes.list()]) == (1, ["won"])
    assert run_import(memory, later, agent="desk", commit=True)["new"] == 0
    other = run_import(memory, write_file(tmp_path, header + row.format("lost", "2026-05-05T20:00:00Z")), agent="desk", commit=True)
    (problem,) = other["problems"]
    assert (other["new"], problem["blocks"]) == (0, False)
    assert problem["problem"].endswith("is known with another outcome: the stored one stays")
    # The undo of the second file takes back the outcome alone.
    desk = memory.agent("desk")
    assert dict(desk.imports.undo(done["batch"]).took_back) == {"outcome_stated": 1}
    assert (len(decisions(memory)), desk.outcomes.list()) == (1, [])
    desk.outcomes.record({"decision": decisions(memory)[0].id, "status": "resolved", "r": "-1"})
    assert [o.r for o in desk.outcomes.list()] == [-1]
    assert verify_store(memory).ok
    assert rebuild_store(memory)


def test_a_probability_of_a_rise_is_the_confidence_in_a_long_and_its_rest_that_in_a_short() -> None:
    up, down = read_decisions(
        "time,symbol,prediction,prob_up\n2026-05-04T20:00:00Z,A,up,0.8\n2026-05-04T20:00:00Z,B,down,0.3\n"
    )
    assert (up.confidence, down.confidence, down.slots["probability"]) == (Decimal("0.8"), Decimal("0.7"), "0.3")


def test_a_stop_on_the_wrong_side_is_left_out_and_reported_and_the_row_stays() -> None:
    found = read(HEADER + "2026-06-04T08:00:00Z,XAUUSD,buy,long,100,105,110,0.7,typo\n")
    (problem,) = found.problems
    assert (problem.field, problem.blocks, problem.problem) == ("stop", False, "105 is above the entry 100 of a long")
    (row,) = found.found
    assert isinstance(row.value, Decision)
    assert (row.value.stop, row.value.target) == (None, 110)


def test_all_problems_of_a_file_of_decisions_appear_in_one_run_grouped_by_kind(tmp_path: Path) -> None:
    rows = [
        f"2026-06-04T0{n}:00:00Z,XAUUSD,buy,{'diagonal' if n < 5 else 'long'},,{'x' if n == 5 else 98},104,0.7,why\n"
        for n in range(1, 8)
    ]
    memory = given_memory()
    answer = run_import(memory, write_file(tmp_path, HEADER + "".join(rows) + "99:99,XAUUSD,buy,long,,98,104,1,w\n"), agent="desk")
    assert [(p["field"], p["count"], len(p["examples"])) for p in answer["problems"]] == [("side", 4, 3), ("stop", 1, 1), ("time", 1, 1)]
    with pytest.raises(Invalid, match="6 of 8 rows cannot be read"):
        run_import(memory, tmp_path / "trades.csv", agent="desk", commit=True)
    assert run_import(memory, tmp_path / "trades.csv", agent="desk", commit=True, skip_bad=True)["new"] == 2


def test_labels_are_folded_and_times_without_a_zone_are_read_in_the_zone_that_is_given() -> None:
    text = "date,symbol,decision,reason,regime,session\n2026-06-04 10:00,XAUUSD,BUY,why,Up-Trend,LDN\n"
    (decision,) = read_decisions(text, zone="Europe/Berlin")
    assert decision.t == datetime(2026, 6, 4, 8, tzinfo=UTC)
    assert decision.situation is not None
    assert (decision.action, decision.situation.regime, decision.situation.session) == ("buy", "trending_up", "london")
    assert [p.problem for p in read(text).problems] == ["times have no zone; read as UTC"]


def test_a_decision_to_close_or_to_hold_opens_nothing() -> None:
    found = read_decisions(
        "time,symbol,signal,stop,target,confidence\n"
        "2026-06-04T08:00:00Z,BTC,hold,90,120,0.6\n2026-06-04T09:00:00Z,BTC,close_position,90,120,0.6\n"
        "2026-06-04T10:00:00Z,BTC,buy_to_enter,90,120,0.6\n2026-06-04T11:00:00Z,BTC,sell_to_enter,120,90,0.6\n"
    )
    assert [(d.action, d.side) for d in found] == [
        ("hold", None), ("close_position", None), ("buy_to_enter", "long"), ("sell_to_enter", "short"),
    ]  # fmt: skip


def test_a_long_reason_is_cut_and_kept_whole_as_the_thesis() -> None:
    reason = "the range has held for three weeks and " * 12
    (decision,) = read_decisions(f"time,symbol,action,reason\n2026-06-04T08:00:00Z,BTC,buy,{reason}\n")
    assert decision.reason is not None and len(decision.reason) <= 280
    assert decision.slots["thesis"] == reason.strip()


def test_one_answer_of_a_model_with_a_decision_for_each_coin_is_one_decision_for_each_coin(tmp_path: Path) -> None:
    cycle = {
        "id": "c-1", "timestamp": 1780560000, "model_id": "m", "llm_response": {
            "BTC": {"signal": "hold", "coin": "BTC", "stop_loss": 90, "profit_target": 120, "confidence": 0.6},
            "ETH": {"signal": "buy_to_enter", "stop_loss": 9, "profit_target": 12, "confidence": 0.8, "justification": "momentum"},
        },
    }  # fmt: skip
    memory = given_memory()
    path = write_file(tmp_path, json.dumps(cycle) + "\n" + json.dumps(cycle | {"id": "c-2", "llm_response": {}}) + "\n", "log.jsonl")
    answer = run_import(memory, path, agent="desk", commit=True)
    assert (answer["kind"], answer["new"]) == ("decisions", 2)
    assert [(d.symbol, d.side, d.stop, d.reason) for d in decisions(memory)] == [
        ("BTC", None, 90, None), ("ETH", "long", 9, "momentum"),
    ]  # fmt: skip
    assert run_import(memory, path, agent="desk", commit=True)["new"] == 0


def test_an_absurd_stop_is_named_in_the_first_line_of_the_preview(tmp_path: Path) -> None:
    row = "2026-06-04T08:00:00Z,BTC,buy,long,65200,64.1,70000,0.7,stop in thousands\n"
    answer = run_import(given_memory(), write_file(tmp_path, HEADER + row), agent="desk")
    assert next(iter(answer)) == "warning"
    assert "line 2: the stop 64.1 is far from the price 65200" in answer["warning"]


def test_a_file_that_could_be_fills_or_decisions_is_asked_about(tmp_path: Path) -> None:
    text = "time,symbol,action,qty,price,reason\n2026-06-04T08:00:00Z,BTC,buy,1,100,why\n2026-06-04T09:00:00Z,BTC,hold,0,100,wait\n"
    memory = given_memory()
    path = write_file(tmp_path, text)
    with pytest.raises(Invalid) as asked:
        run_import(memory, path, agent="desk")
    assert str(asked.value) == (
        "kind: the file can be read as fills or as decisions. Say what it holds: --kind fills or --kind decisions"
    )
    assert run_import(memory, path, agent="desk", kind="fills")["counts"] == {"decisions": 1, "fills": 1}
    as_decisions = run_import(memory, path, agent="desk", kind="predictions", commit=True)
    assert (as_decisions["kind"], as_decisions["new"]) == ("decisions", 2)
    # The next file with these columns is read as the last was committed.
    assert run_import(memory, path, agent="desk")["kind"] == "decisions"
    assert run_import(memory, path, agent="desk", kind="trades")["kind"] == "fills"
    with pytest.raises(Invalid, match=r"'quotes' is no kind of file\. Use one of trades, fills, decisions, equity, positions"):
        run_import(memory, path, agent="desk", kind="quotes")


@pytest.mark.skipif(not REAL.is_dir(), reason=f"{REAL} is not here")
def test_real_decisions_of_models_come_in_whole(tmp_path: Path) -> None:
    memory = given_memory()
    path = REAL / "deepfund_decisions.jsonl.gz"
    answer = run_import(memory, path, agent="desk", kind="decisions", zone="America/New_York", commit=True)
    assert (answer["rows"], answer["new"], answer["problems"]) == (24, 24, [])
    assert answer["totals"]["by_action"] == {"buy": 8, "hold": 16}
    assert all(decision.reason for decision in decisions(memory))
    cycles = run_import(memory, REAL / "nof1_alpha_arena_s1_conversations_2025-10-28.jsonl.gz", agent="desk", commit=True)
    assert (cycles["kind"], cycles["rows"], cycles["problems"]) == ("decisions", 457, [])
    assert cycles["totals"]["by_action"] == {"buy_to_enter": 2, "close_position": 2, "hold": 452}
    actions = REAL / "aitrader_us_nasdaq100_hourly_actions.csv.gz"
    hours = run_import(given_memory(), actions, agent="desk", kind="decisions", zone="America/New_York", commit=True)
    # Also the hours in which nothing was traded, which are no fills.
    assert (hours["new"], hours["problems"], hours["totals"]["by_action"]) == (
        1320, [], {"buy": 310, "no_trade": 781, "sell": 229},
    )  # fmt: skip
    assert verify_store(memory).ok


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(6)), st.integers(0, 6))
def test_any_order_of_rows_and_any_split_into_two_files_gives_the_same_decisions(order: list[int], cut: int) -> None:
    rows = [f"2026-06-0{1 + n % 3}T0{n}:00:00Z,{'ABC'[n % 3]},buy,long,,98,104,0.{n + 1},why\n" for n in range(5)]
    rows.append(rows[0])  # the same row twice
    whole = {each.value.id for each in read(HEADER + "".join(rows)).found if isinstance(each.value, Decision)}
    mixed = [rows[n] for n in order]
    assert {each.value.id for each in read(HEADER + "".join(mixed)).found if isinstance(each.value, Decision)} == whole
    parts = {each.value.id for part in (mixed[:cut], mixed[cut:]) if part for each in read(HEADER + "".join(part)).found
             if isinstance(each.value, Decision)}  # fmt: skip
    assert parts <= whole and len(whole) == 6
