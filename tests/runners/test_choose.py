"""An agent names its runner, and the settings of the machine complete it."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from memtape import compose
from memtape.errors import Invalid
from tests.plugs.llm_server import Says, llm_server
from tests.runners.questions import question


def test_a_function_is_named_after_the_word_callable(tmp_path: Path):
    (tmp_path / "desk.py").write_text("def decide(question):\n    return 'WAIT'\n")
    runner = compose.runner(f"callable:{tmp_path}/desk.py:decide")
    assert (runner.name, runner.run(question()).text) == ("callable", "WAIT")


def test_a_language_model_is_reached_by_the_settings_of_its_provider(monkeypatch: pytest.MonkeyPatch):
    with llm_server() as server:
        server.plays(Says("WAIT"))
        monkeypatch.setenv("MEMTAPE_ANTHROPIC_URL", server.url("anthropic"))
        monkeypatch.setenv("ANTHROPIC_API_KEY", "key-of-the-owner")
        runner = compose.runner("llm", "anthropic/claude-haiku-4-5")
        assert runner.run(question(model="anthropic/claude-haiku-4-5")).text == "WAIT"
        assert "key-of-the-owner" in str(server.asked[0].headers)


def test_claude_code_is_found_by_its_setting_and_runs_in_one_folder_for_each_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    script = tmp_path / "my-claude"
    script.write_text(
        f'#!{sys.executable}\nimport json, os\nprint(json.dumps({{"type": "result", "subtype": "success", "result": os.getcwd()}}))'
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("MEMTAPE_CLAUDE", str(script))
    monkeypatch.setenv("HOME", str(tmp_path))
    runner = compose.runner("claude")
    assert (runner.name, runner.run(question()).text) == ("claude", str(tmp_path / ".memtape" / "claude" / "breakout"))


@pytest.mark.parametrize("name", ["", "callable", "callable:", "python", "claude:opus", "llm:gpt", "Claude"])
def test_an_unknown_runner_is_refused_with_the_forms_that_exist(name: str):
    with pytest.raises(Invalid, match=r"runner: there is no runner .*callable:package\.module:function.* llm or claude"):
        compose.runner(name, "anthropic/claude-haiku-4-5")


def test_a_function_in_another_form_and_a_language_model_without_a_name_are_refused():
    with pytest.raises(Invalid, match="runner: 'decide' names no function"):
        compose.runner("callable:decide")
    with pytest.raises(Invalid, match="model: the runner llm needs one"):
        compose.runner("llm")
