"""Tables on a terminal of 80 and of 120 columns: they fit, and every id, time and result in them is whole."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import memtape
from memtape.runners.conduct import RunTask, conduct_run, reexamine
from memtape.surfaces.cli.layout import BY_HAND, COMMANDS, command_of
from memtape.surfaces.cli.main import app
from memtape.surfaces.cli.printing import summary
from memtape.surfaces.cli.tables import short_figure, short_time, table_lines
from memtape.surfaces.registry import all_operations, execute, result_schema
from memtape.surfaces.run_host import run_host
from tests.brokers.desk import REAL
from tests.runners.desk import BUY, HELD, ScriptedRunner
from tests.surfaces.terminal import on_terminal

WIDTHS = (80, 120)
WHOLE = re.compile(r"(^|_)(id|at|t|run|decision|digest|batch|r)$|net_pnl_usd$")
AGENT = "tech-breakout"
FILE = REAL / "nof1_alpha_arena_s1_trades_2025-10.csv.gz"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The demo, with something of each kind that a command lists."""
    db = str(tmp_path_factory.mktemp("demo") / "demo.db")
    filled = CliRunner().invoke(app, ["demo", "--db", db])
    assert filled.exit_code == 0, filled.output
    assert f"memtape trades --agent {AGENT} --db {db}\n" in filled.stdout, "it says what to try"
    assert CliRunner().invoke(app, ["demo", "--db", db]).stdout == filled.stdout, "a second time it stays as it is"
    with memtape.open(db) as memory, pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEMTAPE_CHAT_MODEL", "openai/gpt-5-mini")  # a chat is started, nothing is sent
        patch.setenv("OPENAI_API_KEY", "key-of-the-owner")
        for name, ask in FURTHER:
            execute(memory, name, ask)
        runner = ScriptedRunner(BUY, HELD)
        host = run_host(memory, lambda config: runner)
        memory.configure_agent(AGENT, {"runner": "llm"})
        reexamine(memory, host, AGENT, conduct_run(memory, host, AGENT, RunTask(kind="scheduled", prompt="Analyse.")).id)
    return db


EVENT = {"id": "us-cpi-2013-03", "t": "2026-12-10T13:30:00Z", "title": "US consumer prices, change over the month and the year",
         "kind": "cpi", "importance": 0.9, "currencies": ["USD"], "source": "statistics office"}  # fmt: skip
FURTHER: tuple[tuple[str, dict[str, Any]], ...] = (
    ("remember", {"fact": "I never hold a position over the weekend, and I do not trade in the week of a rate decision."}),
    ("create_trading_plan", {"agent": AGENT, "trigger_condition": {"regime": "volatile"}, "planned_action": {"type": "alert"},
                             "reasoning": "Volatile weeks cost the most last year; look twice at every order.", "id": "look-twice"}),
    ("record_events", {"events": [EVENT]}),
    ("append_note", {"agent": AGENT, "kind": "note", "text": "The gap on Monday was filled within the first hour of trading."}),
    ("propose_edit", {"agent": AGENT, "path": "TRADING_MANUAL.md", "text": "# Manual\n\nWait an hour.\n", "reason": "gaps fill"}),
    ("pin_document", {"agent": AGENT, "path": "TRADING_MANUAL.md"}),
    ("state_instrument", {"agent": AGENT, "symbol": "ES", "multiplier": "50"}),
    ("start_chat", {"mode": "coach"}),
    ("get_brief", {"agent": AGENT}),
)  # fmt: skip


def table_commands(db: str) -> dict[str, list[str]]:
    """A command for each reading operation whose answer has a table."""
    with memtape.open(db) as memory:
        trade = execute(memory, "get_trades", {"agent": AGENT, "status": "closed", "limit": 1})["trades"][0]["id"]
        belief = execute(memory, "get_beliefs", {"agent": AGENT, "limit": 1})["beliefs"][0]["id"]
        run, decision = (
            execute(memory, "list_runs", {"agent": AGENT})["runs"][-1]["id"],
            execute(memory, "get_decisions", {"agent": AGENT, "limit": 1})["decisions"][0]["id"],
        )
        chat = execute(memory, "list_chats", {})["chats"][0]["id"]
        shelves = {shelf["type"]: shelf["latest"] for shelf in execute(memory, "list_documents", {"agent": AGENT})["shelves"]}
        report = shelves["report"][0]["path"]
        brief = execute(memory, "get_brief", {"agent": AGENT})
        execute(memory, "record_shown", {"agent": AGENT, "brief": brief["receipt"] if "receipt" in brief else brief["digest"]})
    arguments = {
        "trades explain": [trade], "ask why": [trade], "ask belief": [belief], "check": ["MSFT", "long"], "runs show": [run],
        "decisions show": [decision], "decisions reexaminations": [run], "chats show": [chat], "docs similar": [report],
        "docs search": ["ATR"], "skills performance": ["breakout"], "op preview_brief": [], "brief": ["--segments"],
        "events list": ["--hours", "72"], "performance": ["--detail"], "ask state": ["--history", "5"],
        "recall": ["--symbol", "MSFT"], "trades": ["--limit", "20"], "decisions": ["--limit", "20"],
    }  # fmt: skip
    found = {}
    for known in all_operations().values():
        if not known.writes and any(True for _ in tables_of(result_schema(known))) and known.name != "get_equity":
            command = command_of(known.name)
            takes_agent = "agent" in known.params.model_fields
            found[known.name] = [*command.split(), *arguments.get(command, []), *(["--agent", AGENT] if takes_agent else [])]
    found["doctor"], found["verify"], found["embedder"] = ["doctor"], ["verify"], ["embedder", "list"]
    return found


def tables_of(schema: Mapping[str, Any]) -> Iterator[str]:
    """The names of the tables in an answer: lists of objects at its first two levels."""
    defs = schema.get("$defs", {})

    def resolved(field: Mapping[str, Any]) -> Mapping[str, Any]:
        if "$ref" in field:
            return resolved(defs[field["$ref"].rpartition("/")[2]])
        options = [each for key in ("anyOf", "oneOf", "allOf") for each in field.get(key, ()) if each.get("type") != "null"]
        return resolved(options[0]) if options else field

    for name, field in schema.get("properties", {}).items():
        found = resolved(field)
        if found.get("type") == "array" and resolved(found.get("items", {})).get("type") == "object":
            yield name
        elif found.get("type") == "object":
            yield from (
                part
                for part, each in found.get("properties", {}).items()
                if resolved(each).get("type") == "array" and resolved(resolved(each).get("items", {})).get("type") == "object"
            )


def rows_of(data: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(data, dict):
        for value in data.values():
            if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
                yield from value
            else:
                yield from rows_of(value)


def texts_of(data: Any) -> Iterator[str]:
    """The texts of several lines in an answer."""
    if isinstance(data, str) and "\n" in data:
        yield data
    elif isinstance(data, dict | list):
        for part in data.values() if isinstance(data, dict) else data:
            yield from texts_of(part)


def must_be_whole(name: str, data: dict[str, Any]) -> set[str]:
    """The ids, times and results that a terminal has to show whole."""
    known = all_operations().get(name)
    found = set()
    for row in rows_of(summary(data, known.columns if known else {})):
        for column, value in row.items():
            if WHOLE.search(column) and isinstance(value, str) and value:
                found.add(short_time(value)[:16] if re.match(r"\d{4}-\d\d-\d\dT", value) else value)
    return found


def check(db: str, commands: Mapping[str, list[str]]) -> None:
    import json

    words = {name: [*argv, *([] if argv[0] == "embedder" else ["--db", db])] for name, argv in commands.items()}
    whole = {}
    for name, argv in words.items():
        done = CliRunner().invoke(app, [*argv, "--json"])
        assert done.exit_code == 0, (argv, done.output)
        whole[name] = json.loads(done.stdout)
    for width in WIDTHS:
        for (name, argv), (code, shown) in zip(words.items(), on_terminal(width, list(words.values())), strict=True):
            said = f"{' '.join(argv)} at {width}:\n{shown}"
            assert code == 0, said
            texts = {line for text in texts_of(whole[name]) for line in text.split("\n")}  # a brief or a diff is printed as it is
            wide = [line for line in shown.splitlines() if len(line) > width and " " in line.strip() and line not in texts]
            assert not wide, said
            assert "│" not in shown and "Traceback" not in shown, said
            if name == "get_brief":
                continue
            for text in must_be_whole(name, whole[name]):
                seen = {text, short_figure(text), f"{float(text):.2f}" if re.fullmatch(r"-?\d+(\.\d+)?", text) else text}
                assert any(each in shown for each in seen), f"{text} is not whole in {said}"


def test_every_command_that_prints_a_table_fits_on_the_demo(demo: str) -> None:
    commands = table_commands(demo)
    assert {"get_trades", "get_ledger", "recall_memories", "get_decisions", "list_runs", "get_lessons"} <= commands.keys()
    check(demo, commands)


@pytest.mark.skipif(not FILE.exists(), reason="the real files are not here")
def test_the_tables_of_an_imported_real_file_fit(tmp_path: Path) -> None:
    db = str(tmp_path / "real.db")
    done = CliRunner().invoke(app, ["import", str(FILE), "--agent", "arena", "--commit", "--db", db])
    assert done.exit_code == 0, done.output
    ours = {"get_trades": ["trades", "--limit", "50"], "get_ledger": ["ledger"], "list_imports": ["imports", "list"],
            "recall_memories": ["recall", "--context", "session=london,regime=ranging"], "get_beliefs": ["ask", "beliefs"],
            "get_lessons": ["lessons"], "get_losses": ["ask", "losses"], "get_decisions": ["decisions"],
            "get_strategy_performance": ["performance", "--detail"]}  # fmt: skip
    check(db, {name: [*words, "--agent", "arena"] for name, words in ours.items()})


def test_decisions_are_lines_and_not_json(demo: str) -> None:
    ((code, shown),) = on_terminal(80, [["decisions", "review", "--agent", AGENT, "--db", demo]])
    assert code == 0 and '["' not in shown and "\n  - " in shown


def test_a_pipe_gets_every_column_and_columns_chooses(demo: str) -> None:
    words = ["trades", "--agent", AGENT, "--limit", "2", "--db", demo]
    heading = next(line for line in CliRunner().invoke(app, words).stdout.splitlines() if "\t" in line)
    assert len(heading.split("\t")) > 50
    chosen = CliRunner().invoke(app, [*words, "--columns", "id,pnl_r"]).stdout.splitlines()
    assert chosen[2] == "id\tpnl_r" and len(chosen[3].split("\t")) == 2
    wrong = CliRunner().invoke(app, [*words, "--columns", "id,pnlr"])
    assert wrong.exit_code == 2 and wrong.stderr == "memtape: --columns: there is no column 'pnlr'. Did you mean pnl_r?\n"


def test_every_command_that_reads_takes_columns_and_json() -> None:
    for path in [each.path for each in COMMANDS if not all_operations()[each.operation].writes] + [
        path
        for name, path in BY_HAND.items()
        if not all_operations()[name].writes and path not in ("brief", "lessons diff", "docs proposals")
    ]:
        text = CliRunner().invoke(app, [*path.split(), "--help"]).output
        assert "--columns" in text and "--json" in text, path


def test_the_message_of_a_wrong_call_fits_the_terminal(demo: str) -> None:
    wrong = [["trads"], ["get-trades"], ["trades", "--simbol", "MSFT"], ["agents", "lst"], ["check"], ["trades", "--limit", "x"],
             ["trades", "--agent", "tech-brakout", "--db", demo]]  # fmt: skip
    for words, (code, shown) in zip(wrong, on_terminal(80, wrong), strict=True):
        assert code == 2 and "Traceback" not in shown, (words, shown)
        assert max(map(len, shown.splitlines())) <= 80, (words, shown)


def test_a_long_symbol_below_its_row_is_named_and_whole() -> None:
    rows = [{"id": "a" * 16, "entry_at": "2025-01-02 08:00Z", "symbol": symbol, "side": "long", "net_pnl_usd": "-12.5", "pnl_r": "-1"}
            for symbol in ("NQ=F 2025-03 E-mini Nasdaq-100 Future", "EURUSD")]  # fmt: skip
    shown = table_lines(rows, width=80)
    assert "    symbol NQ=F 2025-03 E-mini Nasdaq-100 Future" in shown and "    symbol EURUSD" in shown


def test_each_import_is_one_line_with_its_file() -> None:
    columns = all_operations()["list_imports"].columns["*"]
    made = {"batch": "3cfb30df557c8736", "recorded_at": "2025-11-19T22:39:21.123456Z", "new": 12_345, "undone": False,
            "file": "tradovate_performance.csv"}  # fmt: skip
    shown = table_lines([{name: made[name] for name in columns}] * 2, width=80)
    assert len(shown) == 4, shown
    assert shown[-1].split() == ["3cfb30df557c8736", "2025-11-19", "22:39:21Z", "12345", "no", "tradovate_performance.csv"]
