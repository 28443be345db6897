"""The housekeeping commands, as a person types them."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest
from typer.testing import CliRunner

import memtape
from memtape.surfaces.cli.main import app

GOLDEN = Path(__file__).parent.parent / "golden" / "ledger_golden.json"
runner = CliRunner()


def ask(*argv: str, code: int = 0) -> dict:
    done = runner.invoke(app, [*argv, "--json"])
    assert done.exit_code == code, done.output
    return json.loads(done.stdout) if code in (0, 1, 4) else json.loads(done.stderr)


@pytest.fixture
def db(tmp_path) -> str:
    path = str(tmp_path / "desk.db")
    bars = tmp_path / "gold.csv"
    rows = ["time,open,high,low,close,volume"]
    price = 100.0
    for n in range(240):
        drift = 0.8 if (n // 30) % 2 else -0.7
        rows.append(
            f"2024-01-{1 + n // 24:02d}T{n % 24:02d}:00:00Z,{price:.2f},{price + 1.2:.2f},{price - 1.1:.2f},{price + drift:.2f},5"
        )
        price += drift
    bars.write_text("\n".join(rows))
    found = ask("sim", "--bars", str(bars), "--strategy", "breakout", "--agent", "gold", "--db", path,
                "--report", str(tmp_path / "report.md"))  # fmt: skip
    assert found["ticks"] == 240 and found["trades"] > 0
    assert "simulated" in (tmp_path / "report.md").read_text()
    return path


def test_conform_runs_the_golden_ledger():
    assert ask("conform", str(GOLDEN)) == {"total": 36, "passed": 36, "failed": []}


def test_conform_tells_what_differs_and_exits_1(tmp_path):
    case = json.loads(GOLDEN.read_text())["cases"][0]
    case["expected"]["rows"][0]["net_pnl_usd"] = "999"
    (tmp_path / "bad.json").write_text(json.dumps({"rules": {}, "cases": [case]}))
    found = ask("conform", str(tmp_path / "bad.json"), code=1)
    assert (found["total"], found["passed"], found["failed"][0]["name"]) == (1, 0, "long_full_close")
    assert "net_pnl_usd" in found["failed"][0]["differences"][0]


def test_the_ledger_prints_every_column_and_totals_that_add_up(db):
    found = ask("ledger", "--agent", "gold", "--db", db)
    total = sum(float(row["net_pnl_usd"]) for row in found["rows"])
    assert abs(total - float(found["totals"]["net_pnl_usd"])) < 1e-6
    assert {"pnl_r", "mfe_usd", "exit_trigger", "initial_risk_usd", "teach", "entry_reason"} <= found["rows"][0].keys()


def test_verify_finds_an_altered_outcome_and_exits_4_and_rebuild_mends_it(db, tmp_path):
    heads = tmp_path / "heads.json"
    before = ask("verify", "--db", db, "--export-heads", str(heads))
    assert before["ok"]
    import apsw

    connection = apsw.Connection(db)
    connection.execute("UPDATE trades SET net_pnl_usd = '1000000' WHERE rowid = 1")
    connection.close()
    found = ask("verify", "--db", db, code=4)
    assert found["problems"][0]["table"] == "trades" and "net_pnl_usd" in found["problems"][0]["problem"]
    ask("rebuild", "--db", db)
    assert ask("verify", "--db", db, "--against", str(heads))["digests"] == before["digests"]


def test_backup_export_and_restore_keep_everything(db, tmp_path):
    want = ask("verify", "--db", db)["digests"]
    ask("backup", str(tmp_path / "copy.db"), "--db", db)
    ask("export", str(tmp_path / "all.jsonl"), "--db", db)
    for n, source in enumerate(("copy.db", "all.jsonl")):
        target = str(tmp_path / f"new{n}.db")
        assert ask("restore", str(tmp_path / source), "--db", target)["digests"] == want
        assert ask("restore", str(tmp_path / source), "--db", target, code=3)["status"] == 409


def test_the_ending_of_an_export_is_its_format(db, tmp_path):
    trades = ask("ledger", "--agent", "gold", "--db", db)["rows"]
    assert ask("export", str(tmp_path / "x.csv"), "--db", db)["rows"] == {"trades": len(trades)}
    with (tmp_path / "x.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == [trade["id"] for trade in trades] and rows[0]["agent"] == "gold"
    assert [Decimal(row["net_pnl_usd"]) for row in rows] == [Decimal(trade["net_pnl_usd"]) for trade in trades]
    assert ask("export", str(tmp_path / "x.md"), "--db", db)["format"] == "markdown"
    assert ask("export", str(tmp_path / "x.jsonl"), "--db", db)["format"] == "jsonl"
    assert ask("export", str(tmp_path / "folder"), "--format", "csv", "--db", db)["rows"].keys() > {"log", "trades"}
    wrong = ask("export", str(tmp_path / "x.xls"), "--db", db, code=2)
    assert wrong["field"] == "path" and ".csv" in wrong["fix"] and not (tmp_path / "x.xls").exists()
    assert ask("restore", str(tmp_path / "x.csv"), "--db", str(tmp_path / "new.db"), code=2)["field"] == "path"


def test_verify_recall_and_doctor_end_with_a_plain_sentence(db, tmp_path):
    def last(*words: str) -> str:
        return runner.invoke(app, [*words, "--db", db]).stdout.splitlines()[-1]

    assert last("verify").startswith("Nothing was altered: all ")
    assert last("doctor").startswith("All is well: ")
    assert last("recall", "--agent", "gold").startswith("In short: ")
    import apsw

    connection = apsw.Connection(db)
    connection.execute("UPDATE trades SET net_pnl_usd = '1000000' WHERE rowid = 1")
    connection.close()
    assert last("verify").startswith("The store does not agree with its log: trades ")
    (tmp_path / "junk.db").write_bytes(b"not a database at all, just text" * 200)
    failed = runner.invoke(app, ["doctor", "--db", str(tmp_path / "junk.db")])
    assert failed.exit_code == 1 and failed.stdout.splitlines()[-1].endswith("above.") and "failed" in failed.stdout


def test_a_context_may_be_written_as_pairs(db):
    as_pairs = "session=london,regime=ranging,atr_d1=1.5"
    as_json = '{"session": "london", "regime": "ranging", "atr_d1": 1.5}'
    for command in (["recall"], ["check", "GOLD", "long"], ["brief", "--symbol", "GOLD"], ["op", "preview_brief"]):
        answers = [ask(*command, "--agent", "gold", "--context", text, "--db", db) for text in (as_pairs, as_json)]
        assert answers[0] == answers[1], command
    assert ask("recall", "--agent", "gold", "--context", as_pairs, "--db", db)["situation"]["atr_d1"] == 1.5
    for wrong in ("london", "session=london,session=asia", "session=london,,"):
        done = runner.invoke(app, ["recall", "--agent", "gold", "--context", wrong, "--db", db])
        assert done.exit_code == 2 and done.stderr.startswith("memtape: --context: "), done.output


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (["trades", "--agent", "gild"], "--agent: there is no agent 'gild'. Did you mean gold?"),
        (["agents", "create", "x", "--skill", "brekout"], "--skill: there is no skill 'brekout'. Did you mean breakout?"),
        (["trades", "--agent", "gold", "--strategy", "brekout"], "no memory of the strategy 'brekout'; did you mean breakout?"),
        (["trades", "--agent", "gold", "--session", "lundon"], "no memory has session 'lundon'; known: asia, newyork, overlap"),
        (["recall", "--agent", "gold", "--symbol", "glod"], "did you mean GOLD?"),
        (["decisions", "--agent", "gold", "--symbol", "glod"], "did you mean GOLD?"),
        (["brief", "--agent", "gold", "--symbol", "glod"], "did you mean GOLD?"),
        (["recall", "--agent", "gold", "--strategy-name", "brekout"], "did you mean breakout?"),
        (["check", "GOLD", "long", "--agent", "gold", "--context", "sesion=london"], "--context sesion: unknown field. Did you mean session?"),
    ],
)  # fmt: skip
def test_an_unknown_name_gets_the_nearest_ones_in_the_words_of_the_command_line(db, words, near):
    assert near in runner.invoke(app, [*words, "--db", db]).output


def test_doctor_says_what_is_well_and_what_is_empty(db, tmp_path):
    found = ask("doctor", "--db", db)
    assert found["ok"] and {"python", "sqlite version", "schema", "lock", "disk", "file system"} <= {
        c["check"] for c in found["checks"]
    }
    empty = ask("doctor", "--db", str(tmp_path / "new.db"))
    assert any("no agents yet" in note for note in empty["notes"])


def test_doctor_tells_of_a_file_that_is_no_store(tmp_path):
    (tmp_path / "junk.db").write_bytes(b"not a database at all, just text" * 200)
    assert not ask("doctor", "--db", str(tmp_path / "junk.db"), code=1)["ok"]


def test_bad_input_is_exit_2_with_the_field_and_the_fix(db):
    assert ask("ledger", "--agent", "nobody", "--db", db, code=2)["field"] == "agent"
    assert ask("ledger", "--agent", "gold", "--as-of", "yesterday", "--db", db, code=2)["field"] == "as_of"
    assert ask("init", "--db", "mysql://x", code=2)["field"] == "db"


def test_the_same_default_file_from_any_folder(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    environment = {k: v for k, v in os.environ.items() if k != "MEMTAPE_DB"} | {"HOME": str(home)}
    found = set()
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        done = subprocess.run([sys.executable, "-m", "memtape.surfaces.cli.main", "init", "--json"], cwd=tmp_path / folder,
                              env=environment | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
                              capture_output=True, text=True, check=True)  # fmt: skip
        found.add(json.loads(done.stdout)["db"])
    assert found == {f"sqlite:///{home}/.memtape/memory.db"}


def test_help_imports_nothing_heavy():
    code = ("import sys; from memtape.surfaces.cli.main import app; from typer.testing import CliRunner; "
            "assert CliRunner().invoke(app, ['--help']).exit_code == 0; "
            "print([m for m in ('numpy', 'mcp', 'fastapi', 'apsw', 'pydantic', 'psycopg') if m in sys.modules])")  # fmt: skip
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == "[]"


def test_ten_lines_of_python_give_a_trade(tmp_path):
    with memtape.open(str(tmp_path / "x.db")) as memory:
        memory.create_skill("s")
        memory.create_agent("a", skill="s", mode="sim")
        agent = memory.agent("a")
        for n, (side, px) in enumerate((("buy", 100), ("sell", 103))):
            agent.observe({"id": f"f{n}", "t": f"2026-06-04T0{8 + n}:00:00Z", "symbol": "BTC", "side": side, "qty": 1, "px": px},
                          kind="fill")  # fmt: skip
        assert str(agent.ledger.trades()[0].net_pnl_usd) == "3"
