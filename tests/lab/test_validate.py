"""`memtape validate`: a history is walked forward, and its verdict says no more than the trades do."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, NoReturn

import numpy as np
import pytest
from typer.testing import CliRunner

from memtape.core.validation.adaptation import drawdown_recovery, regime_lag
from memtape.core.validation.approach_runs import Accounts
from memtape.core.validation.approaches import SIZINGS, SizingAccount
from memtape.core.validation.claims import answer_claims
from memtape.core.validation.daily import WeekGrid, draw_weeks, week_grid
from memtape.core.validation.decisions import SizeSums, WalkedDecision
from memtape.core.validation.figures import MetricInputs
from memtape.core.validation.foresight import recall_metrics
from memtape.core.validation.verdict import VerdictInputs, compare, judge
from memtape.errors import Invalid
from memtape.lab.validate.history import HistorySource, opened_history
from memtape.lab.validate.options import ValidateOptions, load_sizing
from memtape.lab.validate.parts import EngineLost, PartFiles, WalkPart, decision_from_json, make_parts, run_parts, walk_part
from memtape.lab.validate.study import split_moment, validate_history
from memtape.lab.validate.walk import Walker, WalkTerms, engine_memory
from memtape.surfaces.cli.main import app
from tests.lab.trade_files import START, trade_rows, write_trades

QUICK = ValidateOptions(vary=False, resamples=50)


@pytest.fixture(scope="module")
def trades(tmp_path_factory):
    return write_trades(tmp_path_factory.mktemp("validate") / "trades.csv", trade_rows(80))


@pytest.fixture(scope="module")
def result(trades):
    return validate_history(HistorySource(files=(trades,)), ValidateOptions(resamples=50))


def test_every_approach_and_every_metric_has_its_n_and_stands_at_its_own_and_at_equal_risk(result):
    approaches = ["fixed_lot", "fixed_risk", "simple_kelly", "recency_kelly", "recency_kelly_brake", "owm_literal", "evidence"]
    assert list(result["own_risk"]) == list(result["equal_risk"]) == approaches
    for table in (result["own_risk"], result["equal_risk"]):
        for cells in table.values():
            assert {"net_pnl", "profit_factor", "sharpe", "max_drawdown", "ghpr", "calmar", "kelly_accuracy", "rolling_sharpe",
                    "regime_lag", "recovery", "disposition", "sizing_consistency", "skipped_unfavourable"} <= cells.keys()  # fmt: skip
            assert all(cell["n"] is not None and (cell["interval"] or cell["note"] or cell["value"] is not None) for cell in cells.values())
    risks = [cells["mean_risk"]["value"] for cells in result["equal_risk"].values() if cells["mean_risk"]["value"]]
    assert np.allclose(risks, 0.01, atol=2e-4)
    assert {"recall_precision", "recall_base_rate", "recall_lift", "evidence_accuracy"} == result["recall"].keys()
    assert (result["data"]["r_by"] == "stop" and "252 a year" in result["data"]["clock"]) or "365" in result["data"]["clock"]


def test_the_five_expectations_are_answered_one_by_one(result):
    assert {claim["number"] for claim in result["claims"]} == {1, 2, 3, 4, 5}
    assert {claim["answer"] for claim in result["claims"]} <= {"held", "failed", "cannot be told"}
    assert len(result["sensitivity"]) == 16 and "could not have been seen" in result["power"]


def test_a_decision_sees_only_trades_that_ended_before_its_embargo(trades):
    with opened_history(HistorySource(files=(trades,))) as history, engine_memory(history.agent) as memory:
        for embargo in (0.0, 20.0):
            terms = WalkTerms(split=START, embargo=timedelta(hours=embargo), source="stop", vary=False)
            for episode in history.episodes[40:45]:
                decision = Walker(memory, terms).decide(episode)
                ended = sum(e.exit_at <= episode.entry_at - timedelta(hours=embargo) for e in history.episodes)
                assert decision.known == ended


@pytest.mark.parametrize(("late", "known"), [(0, 41), (1, 40)])
def test_a_second_decides_whether_an_outcome_was_known(tmp_path, late, known):
    rows = trade_rows(60)
    at = datetime.fromisoformat(rows[41][3])
    # Forty ordinary trades, one that wins 500R and ends one embargo before the decision, or a second later, and the decision.
    ended = (at - timedelta(hours=1) + timedelta(seconds=late)).isoformat()
    rows[40] = [*rows[40][:3], (at - timedelta(hours=3)).isoformat(), ended, "100", "600", "1", "99", "500", *rows[40][10:]]
    with opened_history(HistorySource(files=(write_trades(tmp_path / "trades.csv", rows),))) as history:
        terms = WalkTerms(split=START, embargo=timedelta(hours=1), source="stop", vary=False)
        with engine_memory(history.agent) as memory:
            decision = Walker(memory, terms).decide(history.episodes[41])
    assert decision.known == known and (decision.evidence.win > 2.5) is (late == 0)


def test_a_trade_of_a_symbol_without_a_history_has_an_outcome_in_money_and_no_size(tmp_path):
    rows = [[*row[:1], "NEW" if n == 55 else row[1], *row[2:8], "", *row[9:]] for n, row in enumerate(trade_rows(60))]
    found = validate_history(HistorySource(files=(write_trades(tmp_path / "trades.csv", rows),)), QUICK)
    assert found["data"]["r_by"] == "money" and found["data"]["decisions"] == 18 and found["data"]["without_outcome"] == 0


def test_where_no_trade_gets_a_size_the_power_says_so(tmp_path):
    rows = [[*row[:1], f"S{n}", *row[2:]] for n, row in enumerate(trade_rows(60))]
    found = validate_history(HistorySource(files=(write_trades(tmp_path / "trades.csv", rows),)), QUICK)
    assert found["power"].startswith("No trade got a size")


def test_later_trades_change_no_earlier_decision(tmp_path):
    rows = trade_rows(80)
    found = []
    for name, some in (("whole", rows), ("cut", rows[:60])):
        with opened_history(HistorySource(files=(write_trades(tmp_path / f"{name}.csv", some),))) as history:
            terms = WalkTerms(split=history.episodes[40].entry_at, embargo=timedelta(hours=1), source="stop", vary=False)
            with engine_memory(history.agent) as memory:
                walker = Walker(memory, terms)
                found.append([walker.decide(e) for e in history.episodes[40:60]])
    assert found[0] == found[1]


def test_a_sizing_never_sees_how_its_trade_ends(trades):
    seen: list[WalkedDecision] = []

    def curious(decision: WalkedDecision, account: SizingAccount) -> float:
        seen.append(decision)
        return 0.01

    found = validate_history(HistorySource(files=(trades,)), ValidateOptions(vary=False, resamples=50, approaches={"curious": curious}))
    assert seen and all(np.isnan(d.r) and d.pnl_usd is None and d.exit_at == d.entry_at and d.hold_minutes is None for d in seen)
    # It never looked at an outcome, so it gets no verdict.
    assert found["user_verdicts"]["curious"]["answer"] == "cannot be told"


def test_a_sizing_that_asks_for_the_outcome_is_refused(trades):
    options = ValidateOptions(vary=False, resamples=50, approaches={"cheat": lambda decision, account: 0.02 * decision.r})
    with pytest.raises(Invalid, match="gave the size nan"):
        validate_history(HistorySource(files=(trades,)), options)


def test_a_sizing_cannot_write_its_own_account(trades):
    def forger(decision: WalkedDecision, account: SizingAccount) -> float:
        account.equity = account.peak = 1e9
        return 0.01

    found = validate_history(HistorySource(files=(trades,)), ValidateOptions(vary=False, resamples=50, approaches={"forger": forger}))
    assert found["own_risk"]["forger"] == found["own_risk"]["fixed_risk"]


@pytest.mark.parametrize(("size", "message"), [(None, "odd gave the size None"), ("0.01", "odd gave the size '0.01'")])
def test_a_sizing_that_gives_no_number_is_refused(trades, size, message):
    options = ValidateOptions(vary=False, resamples=50, approaches={"odd": lambda decision, account: size})
    with pytest.raises(Invalid, match=message):
        validate_history(HistorySource(files=(trades,)), options)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def size(decision, account):\n    return 1 / 0\n", "size failed: ZeroDivisionError: division by zero (mine.py, line 2)"),
        ("def size(decision):\n    return 0.01\n", "size failed: TypeError: size() takes 1 positional argument but 2 were given"),
        ("def size(decision, account):\nreturn 1\n", "cannot be loaded: IndentationError"),
        ("raise SystemExit(3)\n", "cannot be loaded: SystemExit: 3 (mine.py, line 1)"),
        ("size = 0.01\n", "is no function but float"),
    ],
)
def test_a_sizing_that_fails_is_named_with_its_line(trades, tmp_path, code, message):
    (tmp_path / "mine.py").write_text(code)
    done = CliRunner().invoke(app, ["validate", str(trades), "--quick", "--resamples", "50", "--approach", f"{tmp_path / 'mine.py'}:size"])
    assert done.exit_code == 2 and message in " ".join(done.output.split()), done.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--keep", "{file}"], "--keep: {file} cannot be a folder"),
        (["--report", "out.txt"], "--report: out.txt is no HTML file"),
        (["--report", "{file}/out.html"], "--report: {file}/out.html cannot be written"),
        (["--documents-of", "nobody", "--db", ":memory:"], "there is no agent 'nobody'"),
    ],
)
def test_where_nothing_could_be_kept_nothing_is_walked(trades, monkeypatch, options, message):
    def walked(*_: object) -> NoReturn:
        raise AssertionError("walked first")

    monkeypatch.setattr("memtape.lab.validate.study._validated", walked)
    done = CliRunner().invoke(app, ["validate", str(trades), *(each.format(file=trades) for each in options)])
    assert done.exit_code == 2 and "".join(message.format(file=trades).split()) in "".join(done.output.split()), done.output


def test_a_sizing_that_throws_dice_is_refused(trades):
    dice = Random(1)
    options = ValidateOptions(vary=False, resamples=50, approaches={"dice": lambda decision, account: dice.random()})
    with pytest.raises(Invalid, match="other sizes when it was asked again"):
        validate_history(HistorySource(files=(trades,)), options)


def test_a_size_by_the_number_of_trades_known_has_learned_nothing_from_outcomes(trades):
    def by_count(decision: WalkedDecision, account: SizingAccount) -> float:
        return 0.0001 * decision.known + 0.0001 * decision.evidence.n_eff

    found = validate_history(HistorySource(files=(trades,)), ValidateOptions(vary=False, resamples=50, approaches={"by_count": by_count}))
    gates = {gate["name"]: gate["holds"] for gate in found["user_verdicts"]["by_count"]["gates"]}
    assert gates["sizes vary"] and not gates["sizes depend on outcomes"]


def test_a_time_of_the_split_without_a_zone_is_utc(trades):
    with opened_history(HistorySource(files=(trades,))) as history:
        for text in ("2025-02-01", "2025-02-01T00:00:00", "2025-02-01 00:00", "2025-02-01T02:00:00+02:00"):
            assert split_moment(history.episodes, text) == datetime(2025, 2, 1, tzinfo=UTC)


def test_one_decision_after_the_split_is_too_few_and_says_so(trades, recwarn):
    found = validate_history(HistorySource(files=(trades,)), ValidateOptions(split="0.99", vary=False, resamples=50))
    assert found["sentence"].startswith("It cannot be told whether memory helps (1 decision):") and not recwarn.list


def test_two_runs_a_pool_and_a_resumed_run_give_the_same_numbers(trades, tmp_path):
    source = HistorySource(files=(trades,))
    first = validate_history(source, QUICK)
    again = validate_history(source, ValidateOptions(vary=False, resamples=50, keep=tmp_path / "parts"))
    assert list((tmp_path / "parts").glob("part-*.json"))
    # The second run takes the finished parts; the pool computes them in other processes.
    resumed = validate_history(source, ValidateOptions(vary=False, resamples=50, keep=tmp_path / "parts"))
    pooled = validate_history(source, ValidateOptions(vary=False, resamples=50, engine="pool", workers=2))
    assert json.dumps(first) == json.dumps(again) == json.dumps(resumed) == json.dumps(pooled)


def test_finished_parts_are_not_computed_again(trades, tmp_path):
    with opened_history(HistorySource(files=(trades,))) as history:
        terms = WalkTerms(split=history.episodes[60].entry_at, embargo=timedelta(hours=1), source="stop", vary=False)
        parts, files = make_parts(history, terms), PartFiles(tmp_path, "data")
        first = run_parts(parts, files, work=walk_part)

        def refuse(part: WalkPart) -> dict:
            raise AssertionError("computed again")

        assert run_parts(parts, files, work=refuse) == first
        with pytest.raises(AssertionError):  # of other data
            run_parts(parts, PartFiles(tmp_path, "other"), work=refuse)


def die_once(part: WalkPart) -> dict:
    """Kills the process at the first part that is tried."""
    marker = Path(part.store).with_name("died")
    if not marker.exists():
        marker.touch()
        os._exit(9)
    return walk_part(part)


def die_always(part: WalkPart) -> dict:
    """Kills the process."""
    os._exit(9)


def test_the_part_of_a_dead_worker_is_done_again(trades):
    with opened_history(HistorySource(files=(trades,))) as history:
        terms = WalkTerms(split=history.episodes[75].entry_at, embargo=timedelta(hours=1), source="stop", vary=False)
        parts, nowhere = make_parts(history, terms), PartFiles(None, "")
        found = run_parts(parts, nowhere, engine="pool", workers=1, work=die_once)
        assert found == run_parts(parts, nowhere, work=walk_part)
        assert all(decision_from_json(row).id for row in found[0]["decisions"])
        with pytest.raises(EngineLost, match="lost 3 times"):
            run_parts(parts, nowhere, engine="pool", workers=1, work=die_always)


def refuse(part: WalkPart) -> dict[str, Any]:
    """A worker that refuses its part, as one does whose input is wrong."""
    raise Invalid("strategy", f"part {part.number} cannot be done", "Correct the function")


def test_what_a_worker_of_a_pool_refuses_is_named_as_in_one_process(trades):
    with opened_history(HistorySource(files=(trades,))) as history:
        terms = WalkTerms(split=history.episodes[60].entry_at, embargo=timedelta(hours=1), source="stop", vary=False)
        with pytest.raises(Invalid, match=r"^strategy: part 0 cannot be done\. Correct the function$"):
            run_parts(make_parts(history, terms), PartFiles(None, ""), engine="pool", workers=1, work=refuse)


def test_each_group_has_its_own_memory_and_account(trades):
    found = validate_history(HistorySource(files=(trades,), group="regime"), QUICK)
    assert found["data"]["groups"] == ["ranging", "trending_up"] and found["data"]["group_by"] == "regime"


def test_a_column_that_groups_keeps_the_meaning_that_it_has_by_itself(tmp_path):
    sides = ("long", "short")
    rows = [[*row[:2], sides[n % 2], *row[3:8], "", "", *row[10:]] for n, row in enumerate(trade_rows(40))]
    file = write_trades(tmp_path / "a.csv", rows)
    for group, values in (("side", sides), ("regime", ("ranging", "trending_up"))):
        with opened_history(HistorySource(files=(file,), group=group)) as history:
            assert {(e.strategy, getattr(e, group)) for e in history.episodes} == {(value, value) for value in values}


def test_an_agent_of_a_store_is_validated_like_its_file(trades, tmp_path):
    store = str(tmp_path / "desk.db")
    done = CliRunner().invoke(app, ["import", str(trades), "--db", store, "--agent", "desk", "--commit"])
    assert done.exit_code == 0, done.output
    by_file = validate_history(HistorySource(files=(trades,)), QUICK)
    by_agent = validate_history(HistorySource(agent="desk", store=store), QUICK)
    assert by_agent["own_risk"] == by_file["own_risk"] and by_agent["verdict"] == by_file["verdict"]


def _open(row: list[str]) -> list[str]:
    """A trade that has not ended."""
    return [*row[:4], "", row[5], "", *row[7:9], "", *row[10:]]


def test_the_first_line_is_the_verdict(trades):
    done = CliRunner().invoke(app, ["validate", str(trades), "--quick", "--resamples", "50"])
    assert done.exit_code == 0, done.output
    first = done.output.splitlines()[0]
    assert first.startswith("It cannot be told whether memory helps") and "makes money" not in done.output


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (trade_rows(12), [], "it has 12 closed trades. At least 30"),
        (trade_rows(60), ["--split", "2031-01-01"], "--split: no trade that has ended was entered after 2031-01-01T00:00:00Z"),
        (trade_rows(60), ["--split", "2001-01-01"], "--split: no trade ended before 2001-01-01T00:00:00Z"),
        (trade_rows(60), ["--split", "1.5"], "is no share between 0 and 1"),
        (trade_rows(60), ["--split", "2025-13-99"], "'2025-13-99' is neither a share nor a time"),
        (trade_rows(60), ["--embargo", "-1"], "--embargo: -1.0 is below zero"),
        (trade_rows(60), ["--embargo", "nan"], "--embargo: nan hours are no embargo"),
        (trade_rows(60), ["--embargo", "1e9"], "hours are no embargo"),
        (trade_rows(60), ["--starting-equity", "nan"], "--starting-equity: nan is not above zero"),
        (trade_rows(60), ["--starting-equity", "1e308"], "--starting-equity: 1e+308 is more money than there is"),
        (trade_rows(60), ["--seed", "-1"], "--seed: -1 is below zero"),
        (trade_rows(60), ["--engine", "magic"], "there is no engine 'magic'"),
        (trade_rows(60), ["--approach", "nothing"], "names no function"),
        (trade_rows(60), ["--approach", "no_such_module:size"], "cannot be loaded"),
        (trade_rows(60), ["--agent", "desk"], "not both"),
        (trade_rows(60), ["--group", "moon"], "--group: there is no column 'moon'. The columns are: trade_id"),
        ([], [], "file: has no rows to import"),
        ([_open(row) for row in trade_rows(60)], [], "file: has no rows to import: 60 of 60 still open"),
        ([[*row[:3], START.isoformat(), *row[4:]] for row in trade_rows(60)], [], "all 60 trades were entered at 2025-01-06T09:00:00Z"),
    ],
)
def test_bad_input_is_named_with_its_fix(tmp_path, rows, options, message):
    file = write_trades(tmp_path / "trades.csv", rows)
    done = CliRunner().invoke(app, ["validate", str(file), "--quick", *options])
    assert done.exit_code == 2 and message in done.output, done.output


def _exits(*prices: str) -> list[list[str]]:
    """Trades that end at these prices in turn: 102 wins, 99 loses, 100 is the price of the entry."""
    return [[*row[:6], prices[n % len(prices)], *row[7:9], "", *row[10:]] for n, row in enumerate(trade_rows(40))]


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (_exits("102"), "all trades after the split won"),
        (_exits("99"), "all trades after the split lost"),
        (_exits("102", "100"), "no trade after the split lost"),
        (_exits("100"), "all trades after the split ended at zero"),
    ],
)
def test_trades_of_one_class_give_no_verdict_but_the_reason(tmp_path, rows, reason):
    found = validate_history(HistorySource(files=(write_trades(tmp_path / "one.csv", rows),)), QUICK)
    assert found["verdict"]["answer"] == "cannot be told" and found["verdict"]["reason"] == reason


def test_rows_without_an_exit_are_left_out_and_named(tmp_path):
    rows = [row if n < 60 else _open(row) for n, row in enumerate(trade_rows(80))]
    found = validate_history(HistorySource(files=(write_trades(tmp_path / "open.csv", rows),)), QUICK)
    assert found["data"]["trades"] == 60 and found["notes"] == ["20 rows of open.csv have no exit and are left out"]


def test_weeks_are_those_of_entries_however_long_a_trade_lasts(tmp_path):
    rows = [[*row[:4], (START + timedelta(days=500)).isoformat() if n == 79 else row[4], *row[5:]] for n, row in enumerate(trade_rows(80))]
    found = validate_history(HistorySource(files=(write_trades(tmp_path / "long.csv", rows),)), QUICK)
    assert found["data"]["weeks"] == found["verdict"]["weeks"] < 10


@pytest.mark.parametrize("rows", [trade_rows(90), [[*row[:-1], "trending_up" if row[9] == "2.0" else "ranging"] for row in trade_rows(300)]])
def test_no_expectation_holds_or_fails_where_the_history_can_tell_nothing(tmp_path, rows):
    # Four weeks after the split; then a regime that was read at the exit, with which every account grows.
    found = validate_history(HistorySource(files=(write_trades(tmp_path / "a.csv", rows),)), ValidateOptions(vary=False, resamples=50))
    assert found["verdict"]["answer"] == "cannot be told"
    assert {(claim["answer"], claim["found"]) for claim in found["claims"]} == {("cannot be told", found["verdict"]["reason"])}


def _alternating(path: Path, stated: bool) -> Path:
    """Trades that lose and win in turn, one a day; `stated` has a confidence that was written after each trade had ended."""
    lines = ["trade_id,symbol,side,entry_time,exit_time,entry_price,exit_price,qty,stop" + ",confidence" * stated]
    for n in range(60):
        entry, won = START + timedelta(days=n), n % 2 == 1
        row = f"t{n},XAUUSD,long,{entry.isoformat()},{(entry + timedelta(hours=1)).isoformat()},100,{101 if won else 99},1,99"
        lines.append(row + f",{0.9 if won else 0.2}" * stated)
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_drawdown_that_memtape_counted_itself_knows_no_future_however_well_it_foretells(tmp_path):
    # After each loss comes a win: losses in a row and drawdown at the entry foretell every outcome, and both were known then.
    found = validate_history(HistorySource(files=(_alternating(tmp_path / "a.csv", stated=False),)), QUICK)
    assert found["look_ahead"] == []


def test_a_confidence_that_foretells_outcomes_is_a_sign_of_look_ahead(tmp_path):
    source = HistorySource(files=(_alternating(tmp_path / "a.csv", stated=True),))
    assert validate_history(source, QUICK)["look_ahead"] == [
        "confidence at the entry has a rank correlation of +1.00 with the outcome of longs"
    ]


def test_no_expectation_holds_or_fails_of_an_approach_that_traded_twice():
    weekly = np.full((50, 70), 0.01)
    weekly[:, ::3] = -0.005
    drawn = {"fixed_lot": weekly, "simple_kelly": weekly, "owm_literal": 2 * weekly, "evidence": -weekly}
    grid = WeekGrid(2900, 10, 7, 0, 69)
    told = answer_claims(drawn, grid, ("owm_literal", "evidence"), 0.1, 16, None, {"evidence": "it gave 2 of 555 decisions a size"})
    assert {one.answer for one in told if one.approach == "owm_literal"} >= {"held"}
    assert {(one.answer, one.found) for one in told if one.approach == "evidence"} == {
        ("cannot be told", "it gave 2 of 555 decisions a size")
    }


def test_bars_that_end_long_before_the_trades_are_named(tmp_path):
    file, bars = write_trades(tmp_path / "a.csv", trade_rows(60)), tmp_path / "xauusd_h1.csv"
    lines = [f"{(START + timedelta(hours=n - 400)).isoformat()},100,101,99,100" for n in range(600)]
    bars.write_text("\n".join(["time,open,high,low,close", *lines]) + "\n")
    with opened_history(HistorySource(files=(file,), bars=bars)) as history:
        assert history.notes == (
            "the last bar is more than 5 days older than the entry of 38 of 60 trades: regime, volatility and ATR are those of that bar",
        )


def test_bars_of_another_symbol_than_the_trades_are_named_with_the_option_that_helps(tmp_path):
    file, bars = write_trades(tmp_path / "a.csv", trade_rows(40)), tmp_path / "gold_h1.csv"
    lines = [f"{(START + timedelta(hours=n)).isoformat()},100,101,99,100" for n in range(40)]
    bars.write_text("\n".join(["time,open,high,low,close", *lines]) + "\n")
    with opened_history(HistorySource(files=(file,), bars=bars)) as history:
        assert history.notes == (
            "the bars are of GOLD, the trades of XAUUSD; if that is one market, give --symbol XAUUSD",
        )


def test_files_that_overlap_count_each_trade_once(tmp_path):
    rows = trade_rows(90)
    files = (write_trades(tmp_path / "a.csv", rows[:60]), write_trades(tmp_path / "b.csv", rows[30:]))
    found = validate_history(HistorySource(files=files), QUICK)
    assert found["data"]["trades"] == 90 and found["notes"] == ["30 of 60 rows of b.csv were there already and count once"]


def test_the_order_of_rows_does_not_matter(tmp_path):
    rows = trade_rows(90)
    found = [
        validate_history(HistorySource(files=(write_trades(tmp_path / name, some),)), QUICK)
        for name, some in (("a.csv", rows), ("b.csv", rows[::-1]))
    ]
    assert found[0]["own_risk"] == found[1]["own_risk"]


def test_a_trade_that_ends_before_its_entry_is_refused(tmp_path):
    rows = trade_rows(60)
    rows[7][3], rows[7][4] = rows[7][4], rows[7][3]
    done = CliRunner().invoke(app, ["validate", str(write_trades(tmp_path / "a.csv", rows)), "--quick"])
    assert done.exit_code == 2 and "line" in done.output


def test_a_share_of_trades_keeps_one_moment_together(trades):
    with opened_history(HistorySource(files=(trades,))) as history:
        assert split_moment(history.episodes, "0.5") == history.episodes[40].entry_at


def test_a_function_of_a_file_is_an_approach(tmp_path):
    file = tmp_path / "sizing.py"
    file.write_text("def half(decision, account):\n    return 0.5 * decision.recent\n")
    name, sizing = load_sizing(f"{file}:half")
    assert name == "half" and callable(sizing) and name not in SIZINGS


def decision(
    r: float, place: int, *, top_won: int = 0, top_lost: int = 0, group: str = "", symbol: str = "XAUUSD", regime: str | None = None,
) -> WalkedDecision:  # fmt: skip
    """A decision of a day, with memories that won and lost."""
    entry = START + timedelta(days=place)
    return WalkedDecision(
        id=f"d{place:03}", group=group, symbol=symbol, side="long", strategy="one", entry_at=entry, exit_at=entry + timedelta(hours=1),
        r=r, pnl_usd=r, risk_usd=1.0, regime=regime, volatility=None, session=None, hold_minutes=60.0, known=10, base_rate=0.7,
        predicted=None, simple=0.0, recent=0.0, literal=(0.0, 0.0, 0.0), evidence=SizeSums(0.0), variants={}, top_won=top_won,
        top_lost=top_lost,
    )  # fmt: skip


def test_an_account_loses_no_more_than_it_has_and_a_ruined_approach_is_halved_until_it_survives():
    accounts = Accounts([decision(r, place) for place, r in enumerate([-3.0, 2.0, 2.0, -1.0])], 1000.0)
    ruined = accounts.run(lambda decision, account: 0.5)
    assert ruined.ruined and ruined.ending_equity == 0.0 and ruined.sizes.tolist() == [0.5, 0.0, 0.0, 0.0]
    assert accounts.surviving_sizes(lambda decision, account: 0.5, ruined).tolist() == [0.25] * 4


def test_a_difference_below_zero_is_explained_as_one_below_zero():
    chance, weeks = Random(3), [place // 8 for place in range(160)]
    outcomes = np.array([chance.choice((-1.0, 1.0)) for _ in weeks])
    lean = np.where(outcomes > 0, 0.0099, 0.0101) + np.array([chance.uniform(-0.009, 0.009) for _ in weeks])
    pair = compare(lean, np.full(160, 0.01), outcomes, range(160), weeks)
    found = judge(VerdictInputs(comparison=pair, traded=160, sizes_vary=True, looks_at_outcomes=True))
    assert pair.mean < 0 and found.answer == "cannot be told"
    assert "R per trade at equal risk (difference below zero, trades of one moment together: p 0." in found.reason


def test_two_accounts_recover_as_the_sum_of_their_money():
    # One account stays below its peak from its second trade on; together they are above theirs again at the fourth.
    rows = [decision(r, place, group=group) for place, (r, group) in enumerate([(1, "a"), (-10, "a"), (11, "b"), (0.5, "b"), (1, "b")])]
    run = Accounts(rows, 1000.0).run(lambda decision, account: 0.01)
    equity = np.array([run.starting_equity, *(at for _, at in run.path)])
    below = equity < np.maximum.accumulate(equity)
    grid = week_grid(rows)
    inputs = MetricInputs(rows, grid, draw_weeks(grid, np.random.default_rng(1), 50), frozenset(), 1)
    assert below.tolist() == [False, False, True, False, False, False]
    assert drawdown_recovery(inputs, run).value == 1.0


def test_a_regime_changes_within_a_symbol_and_not_between_two():
    rows = [
        decision(1.0, place, symbol=symbol, regime="ranging" if symbol == "EURUSD" else "volatile")
        for place, symbol in enumerate(["EURUSD"] * 12 + ["XAUUSD"] * 12)
    ]
    grid = week_grid(rows)
    inputs = MetricInputs(rows, grid, draw_weeks(grid, np.random.default_rng(1), 50), frozenset(), 1)
    found = regime_lag(inputs, np.full(24, 0.01))
    assert found.n == 0 and "none changes" in found.note


def test_a_recall_that_always_shows_winners_is_often_right_and_foretells_nothing():
    decisions = [decision(1.0 if place % 10 < 7 else -1.0, place, top_won=5) for place in range(100)]
    grid = week_grid(decisions)
    found = recall_metrics(MetricInputs(decisions, grid, draw_weeks(grid, np.random.default_rng(1), 50), frozenset(), 1))
    assert found["recall_precision"].value == pytest.approx(0.7) and found["recall_lift"].value == pytest.approx(0.0)
