"""The real Claude Code command line runs an agent against a server on this machine."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import memtape
from memtape.errors import RunFailed
from memtape.runners.claude import ClaudeRunner
from memtape.runners.protocol import RESET_ADVICE, McpCommand
from tests.plugs.scripted import Fails, Hangs
from tests.runners.claude_server import (
    MADE_UP_KEY,
    PRICE,
    ClaudeServer,
    answers,
    bundled_claude,
    calls,
    claude_server,
    runner_at,
    says,
    session_files,
)
from tests.runners.questions import ACTION_SCHEMA, TickingClock, question

pytestmark = pytest.mark.skipif(
    bundled_claude() is None, reason="the package claude-agent-sdk, which has the command line, is absent"
)

SOURCE = Path(memtape.__file__).parents[1]
LOST_SESSION = "12345678-2d78-4e35-b46d-0590927dfa59"


@pytest.fixture(scope="module")
def server() -> Iterator[ClaudeServer]:
    with claude_server() as opened:
        yield opened


@pytest.fixture
def runner(server: ClaudeServer, tmp_path: Path) -> ClaudeRunner:
    return runner_at(server, tmp_path)


def failure(runner: ClaudeRunner, **asked: Any) -> RunFailed:
    with pytest.raises(RunFailed) as raised:
        runner.run(question(**asked))
    return raised.value


# ---- sessions ----------------------------------------------------------------------------------------------------------


def test_two_runs_and_a_chat_share_one_session(server: ClaudeServer, runner: ClaudeRunner):
    server.plays(says("WAIT: the range is unresolved"), says("BUY: it broke out"), says("Because it broke out."))
    first = runner.run(question("Run at 08:00", keep_session=True))
    second = runner.run(
        question("Run at 09:00", keep_session=True, session=first.session, session_cost_usd=first.usage.session_cost_usd)
    )
    chat = runner.run(
        question("Why did you buy?", keep_session=True, session=second.session, session_cost_usd=second.usage.session_cost_usd)
    )
    assert chat.text == "Because it broke out."
    assert server.user_texts() == ["Run at 08:00", "Run at 09:00", "Why did you buy?"]
    assert server.assistant_texts() == ["WAIT: the range is unresolved", "BUY: it broke out"]
    # A fork each: the earlier session can be continued again if a run fails.
    assert len({first.session, second.session, chat.session}) == 3 and None not in (first.session, chat.session)


def test_the_cost_of_a_run_is_the_difference_to_what_its_session_had_cost(server: ClaudeServer, runner: ClaudeRunner):
    server.plays(says("WAIT"))
    first = runner.run(question(keep_session=True, model="anthropic/claude-opus-5-5"))
    again = {"keep_session": True, "session": first.session, "model": "claude-opus-5-5"}
    second = runner.run(question(**again, session_cost_usd=first.usage.session_cost_usd))
    assert (first.usage.cost_usd, first.usage.session_cost_usd) == (Decimal(PRICE), Decimal(PRICE))
    assert (second.usage.cost_usd, second.usage.session_cost_usd) == (Decimal(PRICE), 2 * Decimal(PRICE))
    assert (second.usage.input_tokens, second.usage.output_tokens) == (100, 20)
    # Where more was reported before than now, nothing is paid back.
    assert runner.run(question(**again, session_cost_usd=Decimal(9))).usage.cost_usd == 0


def test_a_changed_system_prompt_stands_in_the_next_request_of_a_session(server: ClaudeServer, runner: ClaudeRunner):
    server.plays(says("WAIT"))
    first = runner.run(question(system="Avoid: longs in chop.", keep_session=True))
    assert server.system() == "Avoid: longs in chop."
    runner.run(question(system="Avoid: shorts in London.", keep_session=True, session=first.session))
    assert server.system() == "Avoid: shorts in London."


def test_without_a_session_one_user_message_is_sent_and_nothing_is_kept(
    server: ClaudeServer, runner: ClaudeRunner, tmp_path: Path
):
    server.plays(says("WAIT"))
    kept = runner.run(question("Run at 08:00", keep_session=True))
    files = session_files(tmp_path)
    assert len(files) == 1
    given = runner.run(question("Run at 09:00", keep_session=False, session=kept.session))
    assert given.session is None and session_files(tmp_path) == files
    assert [one["role"] for one in server.messages()] == ["user"] and server.user_texts() == ["Run at 09:00"]


@pytest.mark.parametrize("lost", [LOST_SESSION, "not-a-session"])
def test_a_lost_session_begins_anew_and_says_so(server: ClaudeServer, runner: ClaudeRunner, lost: str):
    server.plays(says("WAIT"))
    given = runner.run(question(keep_session=True, session=lost, session_cost_usd=Decimal(3)))
    assert given.text == "WAIT" and given.session not in (None, lost)
    assert given.note == f"The session {lost} was not found: a new one began, without the earlier runs"
    assert given.usage.cost_usd == Decimal(PRICE)
    assert len(server.asked) == 1


def test_a_session_that_is_too_long_fails_with_the_advice_to_reset(server: ClaudeServer, runner: ClaudeRunner):
    server.plays(says("WAIT"))
    first = runner.run(question(keep_session=True))
    second = runner.run(question(keep_session=True, session=first.session))
    server.plays(Fails(400, "prompt is too long: 1200000 tokens > 1000000 maximum"))
    failed = failure(runner, keep_session=True, session=second.session)
    assert (failed.what, failed.fix) == ("context_overflow", RESET_ADVICE)
    # It is not summarised behind the owner's back.
    assert len(server.asked) == 1
    server.plays(says("Hm", "window"))
    assert failure(runner).what == "context_overflow"


# ---- answers -----------------------------------------------------------------------------------------------------------


def test_an_answer_in_the_form_of_the_schema_is_data(server: ClaudeServer, runner: ClaudeRunner):
    server.plays(answers({"action": "WAIT", "confidence": 0.5}))
    given = runner.run(question(schema=ACTION_SCHEMA))
    assert given.data == {"action": "WAIT", "confidence": 0.5} and json.loads(given.text) == given.data
    assert given.steps == ()


def test_an_answer_without_the_form_has_no_data(server: ClaudeServer, runner: ClaudeRunner):
    server.plays(says("I would wait."))
    given = runner.run(question(schema=ACTION_SCHEMA))
    assert (given.data, given.text) == (None, "I would wait.")


def test_an_answer_that_never_fits_is_a_misfit(server: ClaudeServer, runner: ClaudeRunner):
    server.plays(answers({"action": "SELL"}))
    failed = failure(runner, schema=ACTION_SCHEMA)
    assert failed.what == "misfit" and "confidence" in failed.problem
    assert {step.tool for step in failed.steps} == {"StructuredOutput"}


# ---- tools -------------------------------------------------------------------------------------------------------------


def tools_of(store: Path) -> McpCommand:
    """The real tools of the agent, on a store."""
    arguments = ("-m", "memtape.surfaces.cli.main", "mcp", "--agent", "breakout", "--tools", "trader", "--db", str(store))
    return McpCommand(sys.executable, arguments, {"PYTHONPATH": str(SOURCE)})


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with memtape.open(str(tmp_path / "desk.db")) as memory:
        memory.create_skill("breakout", strategy="Buy the breakout.")
        memory.create_agent("breakout", skill="breakout", mode="paper")
    return tmp_path / "desk.db"


def test_memtapes_tools_are_really_called_and_recorded_with_their_times(server: ClaudeServer, runner: ClaudeRunner, store: Path):
    decision = {"id": "d1", "symbol": "BTC", "action": "wait", "reason": "the range is unresolved"}
    server.plays(calls("get_brief", {}, "First my brief."), calls("record_decision", decision), says("Recorded."))
    given = runner.run(question(mcp=tools_of(store)))
    assert given.text == "Recorded."
    offered = {tool["name"] for tool in server.asked[0].body["tools"]}
    assert {"mcp__memtape__get_brief", "mcp__memtape__record_decision"} <= offered
    assert all(name.startswith("mcp__memtape__") for name in offered)
    said, brief, recorded = given.steps
    assert (said.kind, said.text, said.turn, brief.turn, recorded.turn) == ("text", "First my brief.", 0, 0, 1)
    assert (brief.tool, brief.input, brief.is_error) == ("get_brief", {}, False)
    assert server.tool_results(1)[0]["content"] in (brief.text, [{"type": "text", "text": brief.text}])
    assert recorded.tool == "record_decision" and recorded.input == decision, recorded
    assert said.at <= brief.at < recorded.at and brief.ms > 0
    with memtape.open(str(store)) as memory:
        assert memory.agent("breakout").ledger.decision("d1").decision.reason == "the range is unresolved"


def test_a_refused_call_goes_back_to_the_model_as_an_error(server: ClaudeServer, runner: ClaudeRunner, store: Path):
    server.plays(calls("record_decision", {"id": "d1", "stop": "under the low"}), says("I give up."))
    given = runner.run(question(mcp=tools_of(store)))
    assert given.text == "I give up." and given.steps[0].is_error
    assert server.tool_results()[0]["is_error"] is True and "stop: " in json.dumps(server.tool_results()[0])


def test_tools_that_cannot_be_started_end_the_run_before_it_is_paid_for(server: ClaudeServer, runner: ClaudeRunner):
    server.plays(Hangs())
    failed = failure(runner, mcp=McpCommand("/bin/false", ("--db", "postgresql://ann:secret@host/desk")))
    assert failed.what == "not_configured" and "tools could not be started" in failed.problem
    assert "/bin/false" in failed.fix and "secret" not in str(failed)


# ---- what a run must not depend on, and not give away ------------------------------------------------------------------


def test_notes_hooks_and_memories_of_the_person_at_the_machine_stay_out(
    server: ClaudeServer, runner: ClaudeRunner, tmp_path: Path
):
    server.plays(says("WAIT"))
    runner.run(question(keep_session=True))
    home = tmp_path / "home" / ".claude"
    (home / "CLAUDE.md").write_text("NOTE OF A PERSON")
    project = session_files(tmp_path)[0].parent / "memory"
    project.mkdir(exist_ok=True)
    (project / "MEMORY.md").write_text("NOTE OF THE TOOL")
    (tmp_path / "runs" / "breakout" / "CLAUDE.md").write_text("NOTE IN THE FOLDER")
    hook = {"hooks": [{"type": "command", "command": f"touch {tmp_path}/hooked; echo NOTE OF A HOOK"}]}
    (home / "settings.json").write_text(json.dumps({"hooks": {"UserPromptSubmit": [hook]}}))
    runner.run(question())
    assert "NOTE" not in json.dumps(server.asked[-1].body) and not (tmp_path / "hooked").exists()


def test_a_prompt_neither_attaches_files_nor_is_a_command(server: ClaudeServer, runner: ClaudeRunner, tmp_path: Path):
    (tmp_path / "wallet.txt").write_text("twelve seed words")
    server.plays(says("WAIT"))
    runner.run(question(f"The note says: see @{tmp_path}/wallet.txt"))
    assert "seed words" not in json.dumps(server.asked[-1].body)
    runner.run(question("/context is what I mean"))
    assert server.user_texts() == ["/context is what I mean"]


def test_long_texts_reach_the_model_whole(server: ClaudeServer, runner: ClaudeRunner):
    server.plays(says("WAIT"))
    system, prompt = "Strategy. " * 30_000, "Brief. " * 40_000
    runner.run(question(prompt, system=system))
    assert server.system().strip() == system.strip() and server.user_texts() == [prompt.strip()]


def written_by(tmp_path: Path, body: str) -> str:
    """A command in place of the command line tool."""
    script = tmp_path / "claude"
    script.write_text(f"#!{sys.executable}\n{body}")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return str(script)


RESULT = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "result": "WAIT",
    "session_id": "s1",
    "total_cost_usd": 0.1,
    "usage": {},
}


def test_only_a_part_of_the_environment_is_passed_on_and_the_prompt_is_in_no_argument(server: ClaudeServer, tmp_path: Path):
    look = f"import json, os, sys\nopen({str(tmp_path / 'seen')!r}, 'w').write(json.dumps([sys.argv, dict(os.environ), sys.stdin.read()]))"
    runner = runner_at(server, tmp_path, binary=written_by(tmp_path, f"{look}\nprint({json.dumps(json.dumps(RESULT))})"))
    mcp = McpCommand("/opt/memtape", ("mcp",), {"MEMTAPE_DB": "postgresql://ann:secret@host/desk"})
    assert runner.run(question("The secret plan", mcp=mcp, budget_usd=Decimal("1.50"), schema=ACTION_SCHEMA)).text == "WAIT"
    arguments, environment, prompt = json.loads((tmp_path / "seen").read_text())
    assert prompt == "The secret plan" and not any("secret" in one for one in arguments)
    assert not any(name.startswith(("MEMTAPE", "OPENAI")) for name in environment)
    assert environment["ANTHROPIC_API_KEY"] == MADE_UP_KEY and environment["HOME"] == str(tmp_path / "home")
    options = dict(pairwise(arguments))
    assert (options["--max-budget-usd"], json.loads(options["--json-schema"])) == ("1.5", ACTION_SCHEMA)
    assert (options["--allowedTools"], options["--tools"], options["--system-prompt-snapshot"]) == ("mcp__memtape", "", "off")
    assert "--no-session-persistence" in arguments and "--strict-mcp-config" in arguments
    assert not Path(options["--mcp-config"]).exists(), "the file with the password is gone after the run"


# ---- failures ----------------------------------------------------------------------------------------------------------


def test_a_spent_budget_stops_the_run(server: ClaudeServer, runner: ClaudeRunner, store: Path):
    server.plays(calls("get_brief", {}))
    failed = failure(runner, mcp=tools_of(store), budget_usd=Decimal("0.001"))
    assert failed.what == "budget_spent" and failed.usage.cost_usd >= Decimal("0.001") and failed.steps
    server.plays(says("WAIT"))
    assert failure(runner, budget_usd=Decimal(0)).what == "budget_spent" and server.asked == []


def test_the_budget_is_that_of_the_run_and_not_of_its_session(server: ClaudeServer, runner: ClaudeRunner):
    server.plays(says("WAIT"))
    first = runner.run(question(keep_session=True))
    second = runner.run(question(keep_session=True, session=first.session))
    third = runner.run(question(keep_session=True, session=second.session, budget_usd=Decimal("0.001")))
    assert third.text == "WAIT" and third.usage.session_cost_usd == 3 * Decimal(PRICE)


@pytest.mark.parametrize(
    ("part", "what", "says"),
    [
        (Fails(401, "invalid x-api-key"), "not_configured", "Invalid API key"),
        (Fails(404, "model: nope"), "not_configured", "selected model"),
        (Fails(529, "Overloaded"), "unavailable", "529"),
        (says("I cannot help with that.", "refusal"), "refused", "safeguards"),
        (says("It goes on and on", "limit"), "bad_answer", "output token maximum"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_provider_that_fails_is_named(server: ClaudeServer, runner: ClaudeRunner, part: Any, what: str, says: str):
    server.plays(part)
    failed = failure(runner)
    assert failed.what == what and says in failed.problem, failed


def test_without_a_login_the_owner_is_told_to_log_in(server: ClaudeServer, tmp_path: Path):
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "ANTHROPIC_BASE_URL": f"http://{server.host}"}
    failed = failure(runner_at(server, tmp_path, environment=environment))
    assert failed.what == "not_configured" and "log in" in failed.fix


def test_a_missing_command_line_is_named(server: ClaudeServer, tmp_path: Path):
    failed = failure(runner_at(server, tmp_path, binary=str(tmp_path / "no-claude")))
    assert failed.what == "not_configured" and "MEMTAPE_CLAUDE" in failed.fix and "no-claude" in failed.problem


@pytest.mark.parametrize(
    ("body", "what", "says"),
    [
        ("import sys; sys.exit('Segmentation fault\\nkey sk-' + 10 * 'a1B2')", "crashed", "Segmentation fault / key (redacted)"),
        ("print('<html>Sign in</html>')", "crashed", "‹html>Sign in"),
        ("print('[1, 2')", "crashed", "no result"),
        ("print('[]'); print('null'); print('{\"type\": 3}')", "crashed", "no result"),
        ("import sys; sys.exit(\"error: unknown option '--system-prompt-snapshot'\")", "not_configured", "unknown option"),
    ],
)
def test_a_command_line_that_prints_no_result_has_crashed(server: ClaudeServer, tmp_path: Path, body: str, what: str, says: str):
    failed = failure(runner_at(server, tmp_path, binary=written_by(tmp_path, body)))
    assert failed.what == what and says in failed.problem, failed


# ---- the process -------------------------------------------------------------------------------------------------------


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pids: list[int], seconds: float = 10.0) -> bool:
    for _ in range(round(seconds / 0.05)):
        if not any(map(alive, pids)):
            return True
        time.sleep(0.05)
    return False


STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"])
open({pids!r}, "w").write(f"{{os.getpid()}} {{child.pid}}")
print('{{"type": "assistant", "message": {{"id": "m1", "content": [{{"type": "tool_use", "id": "t1", "name": "mcp__memtape__get_brief", "input": {{}}}}]}}}}', flush=True)
time.sleep(600)
"""


def test_a_timeout_ends_the_whole_process_group_and_keeps_the_steps(server: ClaudeServer, tmp_path: Path):
    pids = tmp_path / "pids"
    runner = runner_at(server, tmp_path, binary=written_by(tmp_path, STUBBORN.format(pids=str(pids))), clock=TickingClock())
    failed = failure(runner, timeout_seconds=1.0)
    assert (failed.what, failed.problem) == ("timed_out", "no answer within 1 s")
    assert [(step.tool, step.is_error) for step in failed.steps] == [("get_brief", True)]
    assert gone([int(pid) for pid in pids.read_text().split()])


def test_a_command_line_that_answers_and_then_hangs_has_answered(server: ClaudeServer, tmp_path: Path):
    body = f"import time\nprint({json.dumps(json.dumps(RESULT))}, flush=True)\ntime.sleep(600)"
    given = runner_at(server, tmp_path, binary=written_by(tmp_path, body)).run(question(timeout_seconds=1.0))
    assert (given.text, given.usage.cost_usd) == ("WAIT", Decimal("0.1"))


def children_of(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in listed] + [deeper for child in listed for deeper in children_of(int(child))]


def test_a_timeout_ends_the_real_command_line_with_its_tools(server: ClaudeServer, runner: ClaudeRunner, store: Path):
    server.plays(Hangs(60))
    before = set(children_of(os.getpid()))
    started: list[int] = []

    def look(asked: Any) -> None:
        started.extend(set(children_of(os.getpid())) - before)

    server.wrong = look  # called when the request arrives: the command line and its tools are at work
    try:
        # On a busy machine the command line may need longer than that to ask its first question.
        for seconds in (6.0, 20.0, 60.0):
            failed = failure(runner, mcp=tools_of(store), timeout_seconds=seconds)
            if len(started) >= 2:
                break
    finally:
        server.wrong = lambda asked: None
    assert failed.what == "timed_out"
    assert len(started) >= 2 and gone(started)


ONE_RUN = """
import sys
from pathlib import Path
from memtape.plugs.clock import SystemClock
from memtape.runners.claude import ClaudeRunner
from memtape.runners.protocol import RunQuestion
binary, folder, url = sys.argv[1:]
environment = {"PATH": "/usr/bin:/bin", "HOME": folder, "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "made-up"}
runner = ClaudeRunner(binary=binary, folder=Path(folder), environment=environment, clock=SystemClock())
runner.run(RunQuestion(agent="breakout", system="You trade.", prompt="What now?"))
"""


def test_the_command_line_does_not_outlive_a_memtape_that_is_killed(server: ClaudeServer, tmp_path: Path):
    # It is in the middle of a request, and would call tools for ever.
    server.plays(Hangs(1.5), calls("get_brief", {}))
    arguments = [sys.executable, "-c", ONE_RUN, str(bundled_claude()), str(tmp_path), f"http://{server.host}"]
    process = subprocess.Popen(arguments, env={"PYTHONPATH": str(SOURCE), "PATH": os.environ["PATH"]})
    server.wrong = lambda asked: None
    while not server.asked:
        assert process.poll() is None
        time.sleep(0.05)
    started = children_of(process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert started and gone(started)
    assert len(server.asked) < 10
