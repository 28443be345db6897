"""A journal of tradememory-protocol comes over: its trades as claims, its beliefs with their conditions, its plans as proposals.

fixtures/tradememory.db was written by the package itself; make_tradememory.py tells how.
"""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from memtape.brokers.files import load_file
from memtape.brokers.formats.tradememory import JournalImporter
from memtape.brokers.formats.tradememory.beliefs import belief_from_row
from memtape.brokers.formats.tradememory.cells import JournalCells
from memtape.brokers.formats.tradememory.plans import plan_from_row
from memtape.brokers.formats.tradememory.trades import read_trades
from memtape.brokers.importer import ImportedStatements, ImportOptions, ImportResult
from memtape.core.observed import Claim
from memtape.engine.proof.audit import verify_store
from memtape.errors import Invalid
from memtape.surfaces.cli.imports import run_import
from memtape.surfaces.cli.main import app

from .desk import given_memory

JOURNAL = Path(__file__).parent / "fixtures" / "tradememory.db"
RECORDS = "CREATE TABLE trade_records (id TEXT, timestamp TEXT, symbol TEXT, direction TEXT, market_context TEXT, exit_price REAL, pnl REAL)"
PRICED = '{"price": 100}'


def read(path: Path = JOURNAL, **options: Any) -> ImportResult:
    return JournalImporter().read(load_file(path), ImportOptions(**options))


def trade(id: str, journal: ImportResult | None = None) -> Claim:
    values = [each.value for each in (journal or read()).found]
    (found,) = [value for value in values if isinstance(value, Claim) and value.trade_id == id]
    return found


def problems(journal: ImportResult) -> dict[str, str]:
    """What could not be read, by the id that the problem names."""
    return {
        each.problem.split("'")[1]: f"{each.field}: {each.problem.partition(': ')[2]}"
        for each in journal.problems
        if "'" in each.problem
    }


def changed(folder: Path, *statements: str) -> Path:
    """A copy of the journal in which something else is said."""
    path = folder / "changed.db"
    shutil.copy(JOURNAL, path)
    return written(path, *statements)


def written(path: Path, *statements: str) -> Path:
    connection = apsw.Connection(str(path))
    for statement in statements:
        connection.execute(statement)
    connection.close()
    return path


def at(day: int, hour: int = 0, minute: int = 0, month: int = 3) -> datetime:
    return datetime(2026, month, day, hour, minute, tzinfo=UTC)


# ---- trades ----------------------------------------------------------------------------------------------------------


def test_every_trade_comes_once_whether_it_was_recorded_remembered_or_both() -> None:
    ids = [each.value.trade_id for each in read().found]
    assert ids == [
        "T-2026-0001", "T-2026-0002", "T-2026-0003", "R-1", "R-2", "R-3", "ord-1", "ord-2", "alpaca-34aeea2451207f0a",
        "BT-VB_XAUUSD_BUY_RR3-0001", "BT-VB_XAUUSD_BUY_RR3-0002", "replay_1",
    ]  # fmt: skip


def test_a_decision_and_its_outcome_become_one_claim_with_its_reasons() -> None:
    found = trade("T-2026-0001")
    assert (found.symbol, found.side, found.entry_price, found.exit_price) == (
        "XAUUSD",
        "long",
        Decimal("2891.5"),
        Decimal("2907.9"),
    )
    assert (found.entry_at, found.exit_at) == (at(2, 8), at(2, 11, 30))
    assert (found.pnl, found.pnl_r, found.confidence, found.strategy) == (82, 1.64, Decimal("0.72"), "VolBreakout")
    assert (found.note, found.source) == ("London open above the 20-period high", "tradememory")
    assert found.reflection == "Breakouts at the London open deserve full size"
    assert found.situation is not None and (found.situation.session, found.situation.price) == ("london", 2891.5)


def test_without_a_lesson_the_reason_to_leave_is_what_was_learned() -> None:
    assert trade("T-2026-0002").reflection == "stopped out"


def test_the_episode_adds_the_situation_that_the_record_lacks() -> None:
    found = trade("R-1")
    assert found.situation is not None and (found.situation.regime, found.situation.atr_d1) == ("ranging", 31.5)
    assert (found.mae, found.qty, found.reflection) == (-75, 5, "Do not buy breakouts in a range")


def test_a_trade_that_is_still_open_stays_open() -> None:
    found = trade("T-2026-0003")
    assert (found.exit_price, found.exit_at, found.pnl, found.entry_at) == (None, None, None, at(22, 8))
    assert found.situation is not None and found.situation.session == "asia"


def test_a_time_without_a_zone_is_utc_and_one_with_a_zone_is_what_it_says() -> None:
    assert trade("R-1").exit_at == at(4, 10)
    assert trade("R-2").exit_at == at(5, 13)  # 14:00+01:00
    assert trade("BT-VB_XAUUSD_BUY_RR3-0001").entry_at == at(3, 9, month=2)
    assert trade("R-1", read(zone="+02:00")).exit_at == at(4, 8)
    assert "6 times have no zone: read as UTC" in read().notes


def test_a_trade_told_after_its_end_began_as_long_before_as_it_was_held() -> None:
    assert (trade("R-2").entry_at, trade("R-2").exit_at) == (at(5, 8, 30), at(5, 13))
    assert trade("alpaca-34aeea2451207f0a").entry_at == at(9, 8)
    assert trade("R-3").entry_at == trade("R-3").exit_at == at(6, 8)  # nothing says how long


def test_a_replayed_trade_is_stamped_with_its_entry() -> None:
    found = trade("replay_1")
    assert (found.entry_at, found.exit_at) == (at(20, 8, month=2), at(20, 10, month=2))
    assert found.situation is not None
    assert (found.situation.session, found.situation.volatility_regime, found.situation.atr_h1) == ("newyork", "high", None)


def test_lots_are_counted_in_units_where_the_profit_tells_what_a_lot_holds() -> None:
    assert (trade("T-2026-0001").qty, trade("T-2026-0003").qty, trade("ord-1").qty) == (5, 5, Decimal("0.5"))
    assert "pnl is 100 x price move x qty for XAUUSD: qty is counted in units of 100" in read().notes


def test_a_lot_of_a_symbol_that_never_closed_is_no_size(tmp_path: Path) -> None:
    journal = read(changed(tmp_path, "UPDATE trade_records SET symbol = 'XAGUSD' WHERE id = 'T-2026-0003'"))
    assert trade("T-2026-0003", journal).qty is None
    assert "qty of 1 trades is left out: no closed trade of their symbol shows the size of a lot" in journal.notes


def test_the_stop_of_an_order_gives_r_where_the_file_states_none(tmp_path: Path) -> None:
    path = changed(
        tmp_path,
        "UPDATE trade_records SET pnl_r = NULL WHERE id = 'ord-1'",
        "UPDATE episodic_memory SET pnl_r = NULL WHERE id = 'ord-1'",
    )
    memory = given_memory()
    run_import(memory, path, agent="desk", commit=True)
    (found,) = [t for t in memory.agent("desk").ledger.trades() if t.leg == "ord-1"]
    assert (found.stop_price, found.pnl_r, found.r_source) == (64000, Decimal("1.4935"), "stop")


def test_a_stop_beyond_the_entry_was_moved_there_and_is_no_risk(tmp_path: Path) -> None:
    moved = json.dumps({"entry_price": 66000, "protective_stop_price": 66100})
    journal = read(changed(tmp_path, f"UPDATE trade_records SET market_context = '{moved}' WHERE id = 'ord-2'"))
    assert trade("ord-2", journal).stop is None
    assert "stops of 1 trades are beyond the entry, so they were moved later: left out" in journal.notes


def test_a_trade_opened_in_the_record_and_closed_in_the_episode_has_both_ends() -> None:
    record = {"id": "x", "timestamp": "2026-03-02T08:00:00Z", "symbol": "BTC", "direction": "buy", "market_context": PRICED}
    episode = {"id": "x", "timestamp": "2026-03-02T12:00:00Z", "direction": "long", "exit_price": 110.0, "pnl": 10.0}
    (found,) = read_trades(JournalCells(), [(1, record)], [(1, episode)])
    assert (found.value.side, found.value.entry_at, found.value.exit_at) == ("long", at(2, 8), at(2, 12))


# ---- what cannot be read ---------------------------------------------------------------------------------------------


def test_a_row_that_cannot_be_a_trade_is_told_and_the_others_are_read() -> None:
    journal = read()
    told = problems(journal)
    assert told["T-2026-0004"] == "trade_records.market_context: has no entry price"
    assert told["T-2026-0005"] == "trade_records.market_context: '{oops' is not valid JSON"
    assert told["replay_2"] == "episodic_memory.context_json: names no symbol"
    assert (len(journal.found), journal.rows) == (12, 43)
    assert not any(problem.blocks for problem in journal.problems)
    assert all(problem.fix for problem in journal.problems)


def test_a_symbol_said_by_the_owner_serves_the_rows_without_one() -> None:
    assert trade("replay_2", read(symbol="XAUUSD")).symbol == "XAUUSD"


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("timestamp = 'yesterday'", "trade_records.timestamp: 'yesterday' is not a time"),
        ("timestamp = ''", "trade_records.timestamp: is empty"),
        ("exit_timestamp = '2026-03-01T00:00:00'", "trade_records.exit_at: is before entry_at"),
        ("direction = 'sideways'", "trade_records.side: should be 'long' or 'short'"),
        ("pnl_r = -1.0", "trade_records.pnl_r: has the opposite sign of pnl"),
        ("pnl = -82.0, pnl_r = NULL, exit_price = NULL", "trade_records.exit_price: is missing although an outcome is given"),
        ("direction = 'short'", "trade_records.pnl: 82 contradicts a short whose price rose from 2891.5 to 2907.9"),
        ("confidence = 7", "trade_records.confidence: should be less than or equal to 1"),
        ("symbol = 'X<script>'", "trade_records.symbol: should match pattern"),
        ("pnl = 9e999", "trade_records.pnl: 'inf' is not a finite number"),
        ("tags = '[1,'", "trade_records.tags: '[1,' is not valid JSON"),
    ],
)
def test_a_trade_that_contradicts_itself_is_a_problem_of_its_own_row(tmp_path: Path, said: str, problem: str) -> None:
    journal = read(changed(tmp_path, f"UPDATE trade_records SET {said} WHERE id = 'T-2026-0001'"))
    assert problems(journal)["T-2026-0001"].startswith(problem)
    assert len(journal.found) == 11


def test_a_row_whose_text_is_broken_is_told_and_the_others_are_read(tmp_path: Path) -> None:
    journal = read(changed(tmp_path, "UPDATE trade_records SET reasoning = CAST(x'ff80' AS TEXT) WHERE id = 'T-2026-0001'"))
    (broken,) = [p for p in journal.problems if p.field == "trade_records"]
    assert (broken.line, broken.problem.startswith("cannot be read")) == (1, True)
    assert len(journal.found) == 11


def test_a_trade_without_an_id_is_told(tmp_path: Path) -> None:
    journal = read(
        written(
            tmp_path / "j.db",
            RECORDS,
            f"INSERT INTO trade_records VALUES (NULL, '2026-03-02', 'A', 'long', '{PRICED}', NULL, NULL)",
        )
    )
    assert [(p.line, p.field, p.problem) for p in journal.problems] == [(1, "trade_records.id", "'no id': is empty")]


def test_secrets_and_control_characters_do_not_come_in_with_a_reason(tmp_path: Path) -> None:
    journal = read(
        changed(
            tmp_path,
            "UPDATE trade_records SET reasoning = 'broke out' || char(7) || ', api_key=AbCd1234EfGh' WHERE id = 'T-2026-0001'",
        )
    )
    assert trade("T-2026-0001", journal).note == "broke out, [redacted]"


@pytest.mark.parametrize("raw", [b"hello\nworld\n", b"SQLite format 3\x00" + b"\xff" * 600])
def test_a_file_that_is_no_database_is_refused_by_its_name(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "notes.db"
    path.write_bytes(raw)
    with pytest.raises(Invalid, match=r"notes\.db: is not an SQLite database\. Give a file of tradememory-protocol"):
        run_import(given_memory(), path, agent="desk", format="tradememory")


def test_a_database_of_something_else_is_refused_with_what_it_holds(tmp_path: Path) -> None:
    path = written(tmp_path / "shop.db", "CREATE TABLE orders (id TEXT)", "CREATE TABLE trade_records (id TEXT, price REAL)")
    with pytest.raises(
        Invalid, match=r"shop\.db: has neither trade_records nor episodic_memory .* \(its tables: orders, trade_records\)"
    ):
        run_import(given_memory(), path, agent="desk", format="tradememory")
    with pytest.raises(Invalid, match=r"shop\.db: is a database"):
        run_import(given_memory(), path, agent="desk")


def test_a_view_that_poses_as_a_table_of_trades_is_not_run(tmp_path: Path) -> None:
    path = written(
        tmp_path / "view.db", "CREATE VIEW trade_records AS SELECT 1 AS id, 2 AS timestamp, 3 AS symbol, 4 AS direction"
    )
    with pytest.raises(Invalid, match="has neither trade_records"):
        read(path)


def test_columns_are_known_so_they_are_not_mapped() -> None:
    with pytest.raises(Invalid, match="map: does not apply to tradememory"):
        read(mapping={"side": "direction"})


def test_an_older_file_with_fewer_columns_and_tables_is_read(tmp_path: Path) -> None:
    row = f"INSERT INTO trade_records VALUES ('T-1', '2026-03-02T08:00:00', 'BTC', 'long', '{PRICED}', 110, 10)"
    journal = read(written(tmp_path / "old.db", RECORDS, row))
    assert [(each.value.trade_id, each.value.pnl) for each in journal.found] == [("T-1", 10)]
    assert (journal.statements, journal.problems) == (ImportedStatements(), [])


def test_a_journal_that_its_agent_is_writing_is_read_as_last_committed_and_left_as_it_is(tmp_path: Path) -> None:
    path = changed(tmp_path, "PRAGMA journal_mode = wal")
    agent = apsw.Connection(str(path))
    agent.execute(
        "UPDATE trade_records SET pnl_r = 9 WHERE id = 'T-2026-0001'; BEGIN; UPDATE trade_records SET pnl_r = 1 WHERE id = 'R-1'"
    )
    before = path.read_bytes()
    journal = read(path)
    assert (trade("T-2026-0001", journal).pnl_r, trade("R-1", journal).pnl_r) == (9.0, -1.2)
    assert path.read_bytes() == before
    agent.execute("ROLLBACK")
    agent.close()


_cell = st.one_of(st.none(), st.integers(-(10**25), 10**25), st.floats(), st.text(max_size=20), st.binary(max_size=8),
                  st.sampled_from(["{}", "[]", '{"price": 1}', '{"price": {"a": 1}}', '"x"', "NaN", "2026-03-02", "long"]))  # fmt: skip


@given(st.data())
def test_whatever_a_row_holds_it_is_read_or_told(data: st.DataObject) -> None:
    names = ("id", "timestamp", "symbol", "direction", "lot_size", "strategy", "confidence", "reasoning", "market_context", "exit_timestamp",
             "exit_price", "pnl", "pnl_r", "hold_duration", "lessons", "tags", "trigger_condition", "planned_action", "expiry", "priority",
             "validity_conditions", "proposition", "alpha", "beta", "regime")  # fmt: skip
    good = {"id": "T", "timestamp": "2026-03-02", "symbol": "BTC", "direction": "long", "market_context": PRICED}
    row = {**good, **data.draw(st.dictionaries(st.sampled_from(names), _cell, max_size=6))}
    cells = JournalCells()
    found = read_trades(cells, [(1, {"id": None, **row})], [])
    assert len(found) + len(cells.problems) == 1
    for read_row in (belief_from_row, plan_from_row):
        try:
            read_row(cells, row)
        except Invalid as error:
            assert error.problem


# ---- beliefs and plans -----------------------------------------------------------------------------------------------


def test_a_belief_keeps_its_conditions_and_its_own_counts() -> None:
    (found,) = [b for b in read().statements.beliefs if b["id"] == "S-1"]
    assert found == {
        "id": "S-1", "sentence": "Pullbacks pay in a calm downtrend", "strategy": "Pullback", "symbol": "EURUSD", "tier": 4,
        "when": {"session": "london", "regime": "trending_down", "volatility_regime": "low"}, "alpha": 9.0, "beta": 5.0,
        "later_only": True,
    }  # fmt: skip


def test_a_pattern_that_names_a_session_is_a_belief_worth_as_many_trades_as_it_saw(tmp_path: Path) -> None:
    alone = read(changed(tmp_path, "DELETE FROM semantic_memory"))
    assert [(b["id"], b["when"], b["alpha"], b["beta"]) for b in alone.statements.beliefs] == [
        ("P-1", {"session": "london"}, 19.0, 8.0)
    ]


def test_a_pattern_and_the_belief_that_was_migrated_from_it_are_one() -> None:
    assert [b["id"] for b in read().statements.beliefs].count("P-1") == 1


def test_a_belief_that_says_not_when_is_told_and_never_invented() -> None:
    told = problems(read())
    assert told["S-2"] == told["AUTO-RANK-001"] == "semantic_memory.validity_conditions: names no situation"


def test_a_condition_that_nobody_can_look_up_is_not_left_out_either() -> None:
    assert problems(read())["S-3"] == "semantic_memory.validity_conditions: 'moon' is not known at a trade's entry"


def test_conditions_written_as_a_predicate_hold_together_with_the_columns() -> None:
    row = {"id": "b", "proposition": "p", "alpha": 1, "beta": 1, "regime": "ranging",
           "validity_conditions": '{"any": [{"session": "asia"}, {"session": "london"}]}'}  # fmt: skip
    assert belief_from_row(JournalCells(), row)["when"] == {
        "all": [{"all": [{"any": [{"session": "asia"}, {"session": "london"}]}]}, {"regime": "ranging"}]
    }


def test_a_plan_with_a_trigger_that_can_be_asked_comes_as_the_agents_own() -> None:
    skip, halve, _ = read().statements.plans
    assert (skip["action"], skip["trigger"], skip["maker"], skip["priority"]) == (
        "skip_trade", {"regime": "ranging", "strategy": "VolBreakout"}, "agent", 0.8)  # fmt: skip
    assert (halve["action"], halve["size_factor"], halve["trigger"]) == (
        "reduce", 0.5, {"all": [{"field": "atr_d1", "op": "ge", "value": 60}]})  # fmt: skip


def test_a_list_of_conditions_is_said_in_our_words() -> None:
    said = json.dumps({"conditions": [{"field": "drawdown_pct", "op": "gte", "value": 0.1}]})
    plan = plan_from_row(
        JournalCells(), {"id": "p", "trigger_condition": said, "planned_action": '{"type": "alert"}', "reasoning": "careful"}
    )
    assert plan["trigger"] == {"all": [{"field": "drawdown_pct", "op": "ge", "value": 0.1}]}


def test_a_plan_in_words_is_told_with_what_cannot_be_asked() -> None:
    told = problems(read())
    assert told["plan-000000050000"] == "prospective_memory.trigger_condition.nfp.field: there is no field 'nfp'"
    assert told["plan-000000070000"] == "prospective_memory.planned_action: 'market_condition' is not an action of memtape"


# ---- preview, commit, undo -------------------------------------------------------------------------------------------


def test_a_preview_tells_trades_beliefs_and_plans_and_writes_nothing() -> None:
    memory = given_memory()
    desk = memory.agent("desk")
    before = desk.head()
    answer = run_import(memory, JOURNAL, agent="desk", format="tradememory")
    assert {name: answer[name] for name in ("format", "rows", "fills", "trades", "beliefs", "plans", "new", "duplicates", "committed", "batch")} == {
        "format": "tradememory", "rows": 43, "fills": 0, "trades": 12, "beliefs": 4, "plans": 2, "new": 12, "duplicates": 0,
        "committed": False, "batch": None,
    }  # fmt: skip
    assert (answer["totals"]["n"], answer["totals"]["net_pnl"], answer["totals"]["open"]) == (
        10,
        "855.5",
        {"XAUUSD": "5", "BTC/USD": "0.5"},
    )
    assert "1 plan has expired: left out" in answer["mapping"]["notes"]
    assert (desk.head(), desk.ledger.trades(), desk.memories.beliefs()[0], desk.plans.all()) == (before, [], [], [])


def test_a_journal_is_known_by_its_tables_without_being_named() -> None:
    assert run_import(given_memory(), JOURNAL, agent="desk")["format"] == "tradememory"


def test_what_was_committed_is_claimed_believed_with_its_prior_and_proposed() -> None:
    memory = given_memory()
    answer = run_import(memory, JOURNAL, agent="desk", commit=True)
    desk = memory.agent("desk")
    assert (answer["committed"], answer["batch"] is not None) == (True, True)
    trades = desk.ledger.trades()
    assert ({t.quality for t in trades}, {t.source for t in trades}, len([t for t in trades if t.status == "open"])) == (
        {"claimed"},
        {"tradememory"},
        2,
    )
    assert len(desk.memories.episodes()) == 10
    believed = {belief.id: belief for belief in desk.memories.beliefs()[0]}
    assert (believed["S-1"].prior.alpha, believed["S-1"].prior.beta, believed["S-1"].tier, believed["S-1"].status) == (
        9.0,
        5.0,
        4,
        "candidate",
    )
    assert [(p.state.id, p.state.status) for p in desk.plans.all()] == [
        ("plan-000000030000", "proposed"),
        ("plan-000000040000", "proposed"),
    ]
    assert verify_store(memory).ok


def test_imported_twice_there_are_only_duplicates_and_the_log_does_not_grow() -> None:
    memory = given_memory()
    run_import(memory, JOURNAL, agent="desk", commit=True)
    before = memory.agent("desk").head()
    again = run_import(memory, JOURNAL, agent="desk", commit=True)
    assert (again["new"], again["duplicates"], again["batch"]) == (0, 12, None)
    assert memory.agent("desk").head() == before


def test_a_trade_that_was_open_and_has_ended_since_is_closed_by_the_later_import(tmp_path: Path) -> None:
    memory = given_memory()
    run_import(memory, JOURNAL, agent="desk", commit=True)
    ended = (
        "UPDATE trade_records SET exit_price = 2960, pnl = 50, exit_timestamp = '2026-03-23T08:00:00' WHERE id = 'T-2026-0003'"
    )
    later = changed(tmp_path, ended)
    first, second = (run_import(memory, later, agent="desk", commit=True) for _ in range(2))
    assert [(answer["new"], answer["duplicates"]) for answer in (first, second)] == [(1, 11), (0, 12)]
    (found,) = [t for t in memory.agent("desk").ledger.trades() if t.leg == "T-2026-0003"]
    assert (found.status, found.net_pnl_usd, found.exit_at) == ("closed", 50, at(23, 8))
    assert verify_store(memory).ok


def test_an_id_that_is_known_with_another_price_is_told_and_not_taken_for_a_repetition(tmp_path: Path) -> None:
    memory = given_memory()
    run_import(memory, JOURNAL, agent="desk", commit=True)
    other = changed(tmp_path, "UPDATE trade_records SET exit_price = 2908.9, pnl = 87 WHERE id = 'T-2026-0001'")
    answer = run_import(memory, other, agent="desk", commit=True)
    assert (answer["trades"], answer["new"]) == (11, 0)
    assert "id T-2026-0001 is known with exit_price 2907.9, here it is 2908.9" in [p["problem"] for p in answer["problems"]]


def test_a_belief_whose_counts_have_moved_on_is_told_and_the_one_that_stands_is_kept(tmp_path: Path) -> None:
    memory = given_memory()
    run_import(memory, JOURNAL, agent="desk", commit=True)
    answer = run_import(
        memory, changed(tmp_path, "UPDATE semantic_memory SET alpha = 10 WHERE id = 'S-1'"), agent="desk", commit=True
    )
    assert [p["problem"] for p in answer["problems"] if p["field"] == "belief"] == [
        "S-1 is known with other content: the stored one stays"
    ]
    assert {b.id: b.prior.alpha for b in memory.agent("desk").memories.beliefs()[0]}["S-1"] == 9.0


def test_undo_takes_the_trades_back_and_they_can_come_again() -> None:
    memory = given_memory()
    desk = memory.agent("desk")
    done = run_import(memory, JOURNAL, agent="desk", commit=True)
    before = desk.ledger.trades()
    desk.imports.undo(done["batch"])
    assert (desk.ledger.trades(), desk.memories.episodes()) == ([], [])
    assert verify_store(memory).ok
    assert run_import(memory, JOURNAL, agent="desk", commit=True)["new"] == 12
    assert desk.ledger.trades() == before
    assert verify_store(memory).ok


def test_a_trade_ahead_of_the_clock_is_told_and_left_out(tmp_path: Path) -> None:
    path = changed(tmp_path, "UPDATE trade_records SET exit_timestamp = '2031-01-01T00:00:00' WHERE id = 'T-2026-0001'")
    answer = run_import(given_memory(), path, agent="desk", commit=True)
    assert answer["new"] == 11
    assert "2031-01-01T00:00:00Z is in the future" in [p["problem"] for p in answer["problems"]]


def test_a_journal_without_anything_readable_is_refused_on_commit(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"empty\.db: has nothing to import"):
        run_import(given_memory(), written(tmp_path / "empty.db", RECORDS), agent="desk", commit=True)


def test_the_command_line_previews_commits_and_undoes_a_journal(tmp_path: Path) -> None:
    def typed(*words: str) -> dict[str, Any]:
        done = CliRunner().invoke(app, [*words, "--agent", "desk", "--db", str(tmp_path / "memory.db"), "--json"])
        assert done.exit_code == 0, done.output
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    asked = ("import", str(JOURNAL), "--format", "tradememory")
    assert (typed(*asked)["committed"], typed(*asked, "--commit")["new"], typed(*asked, "--commit")["duplicates"]) == (
        False,
        12,
        12,
    )
    (batch,) = [row["batch"] for row in typed("imports", "list")["imports"]]
    typed("imports", "undo", batch)
    assert typed("ledger")["rows"] == []
