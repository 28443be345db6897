"""The pages tell the truth: what they show is run, and comes out as they show it.

On a page of README.md and docs/, in the order in which they stand and in one empty folder:

- a `python` block runs; a `text` block after it is what it prints;
- a `console` block runs its `$ memtape ...` lines as on a terminal of 80 columns; what stands below each, if anything, is what it prints. A command must
  succeed unless `$ echo $?` follows it. A backslash at the end continues a command on the next line;
- a block with `file=NAME` beside its language is put into that file.

As in doctests, `...` stands for anything, and one blank is as good as several or a tab. What cannot run here (make, curl, a
server) is marked `sh`, and is not run.
"""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from memtape import errors
from memtape.settings import SETTINGS
from memtape.surfaces.cli import printing
from memtape.surfaces.cli.layout import COMMANDS, PANELS
from memtape.surfaces.cli.main import app
from memtape.surfaces.cli.reference import write_reference
from memtape.surfaces.registry import all_operations
from tests.docs.pages import BLOCK, PAGES, REFERENCE, ROOT, Block, blocks, commands, compare, named
from tests.plugs.coach_model import coach
from tests.plugs.llm_server import llm_server

LINKING = [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CHANGELOG.md", ROOT / "SECURITY.md"]
LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")


class Reader:
    """Someone who works through a page, line by line."""

    def __init__(self, page: Path) -> None:
        self.page = page
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.printed = ""
        self.ended = 0

    def take(self, block: Block) -> None:
        at = f"{named(self.page)}:{block.line}"
        if block.file is not None:
            Path(block.file).parent.mkdir(parents=True, exist_ok=True)
            Path(block.file).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            out = StringIO()
            with redirect_stdout(out):
                exec(compile(block.text, at, "exec"), self.names)
            self.printed = out.getvalue()
        elif block.language == "text":
            compare(at, block.text, self.printed)
        elif block.language == "console":
            self.type(at, block.text)

    def type(self, at: str, console: str) -> None:
        for command, expected in commands(console):
            if command == "echo $?":
                compare(at, expected, f"{self.ended}\n")
                self.ended = 0
                continue
            assert not self.ended, f"{at}: the command before '{command}' failed: {self.printed}"
            program, *words = shlex.split(command)
            assert program == "memtape", f"{at}: only memtape runs here; mark '{command}' as sh"
            done = CliRunner().invoke(app, words)
            if done.exception is not None and not isinstance(done.exception, SystemExit):
                raise done.exception
            self.ended, self.printed = done.exit_code, done.output
            compare(f"{at}: {command}", expected, done.output)
        assert not self.ended, f"{at}: the last command failed: {self.printed}"


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_what_a_page_shows_is_what_happens(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MEMTAPE_DB", str(tmp_path / "memory.db"))
    monkeypatch.delenv("MEMTAPE_OWNER", raising=False)
    # A reader sits at a terminal of 80 columns.
    monkeypatch.setattr(printing, "on_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    reader = Reader(page)
    with coach_at_hand(page, monkeypatch):
        for block in blocks(page):
            reader.take(block)


@contextmanager
def coach_at_hand(page: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """On the page of the coach, the model is a local server that answers from what the prompt really holds."""
    if page.name != "coach.md":
        yield
        return
    with llm_server() as server:
        server.plays(coach)
        monkeypatch.setenv("MEMTAPE_CHAT_MODEL", "anthropic/claude-haiku-4-5")
        monkeypatch.setenv("MEMTAPE_ANTHROPIC_URL", server.url("anthropic"))
        monkeypatch.setenv("ANTHROPIC_API_KEY", "key-of-the-owner")
        yield
        assert len(server.asked) == 5, "each message of the page was answered by the model, two of them after a tool"


def test_the_readme_runs_python_and_shows_how_to_run_test_and_connect() -> None:
    languages = [block.language for block in blocks(ROOT / "README.md")]
    assert {"sh", "python", "console"} <= set(languages)
    assert all(word in (ROOT / "README.md").read_text(encoding="utf-8") for word in ("make run", "make test", "mcpServers"))


@pytest.mark.parametrize("page", LINKING, ids=named)
def test_a_page_links_only_to_what_is_there(page: Path) -> None:
    text = re.sub(BLOCK, "", page.read_text(encoding="utf-8"))
    assert [link for link in LINK.findall(text) if not (page.parent / link).exists()] == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    linked = set(LINK.findall((ROOT / "README.md").read_text(encoding="utf-8")))
    pages = [*(ROOT / "docs").glob("*.md"), *REFERENCE.glob("*.md")]
    assert {named(page) for page in pages} <= linked


def test_the_architecture_names_every_room_and_only_files_that_are_there() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    source = ROOT / "src" / "memtape"
    rooms = [folder.name for folder in source.iterdir() if (folder / "__init__.py").exists()]
    assert [room for room in rooms if f"  {room}/" not in text] == []
    files = re.findall(r"`((?:core|store|engine|brokers|plugs|sim|surfaces|lab)/[\w/]+\.py)`", text)
    assert files and [file for file in files if not (source / file).exists()] == []


def test_the_architecture_lists_every_module() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"\w+", text[text.index("## 3. Rooms") : text.index("## 4. Data")]))
    modules = [path.relative_to(ROOT / "src") for path in (ROOT / "src" / "memtape").rglob("*.py")]
    of_one_format = [path for path in modules if path.parent.name == "tradememory"]
    assert [str(path) for path in modules if path.stem not in {*listed, "__init__"} and path not in of_one_format] == []


# ---- the reference ---------------------------------------------------------------------------------------------------


def headings(page: str) -> set[str]:
    return {line[3:] for line in (REFERENCE / page).read_text(encoding="utf-8").splitlines() if line.startswith("## ")}


def test_every_operation_has_its_paragraph() -> None:
    assert headings("operations.md") == set(all_operations())


def test_every_setting_has_its_row() -> None:
    page = (REFERENCE / "settings.md").read_text(encoding="utf-8")
    assert [s.name for s in SETTINGS if f"| `{s.name}` | `{s.default}` | {s.help} |" not in page] == []


def test_every_error_has_its_paragraph() -> None:
    known = {name for name, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.MemtapeError)}
    assert headings("errors.md") == known


def test_every_command_has_its_paragraph() -> None:
    page = (REFERENCE / "cli.md").read_text(encoding="utf-8")
    named_there = {line.removeprefix("### memtape ") for line in page.splitlines() if line.startswith("### memtape ")}
    words = {" ".join(word for word in name.split() if word == word.lower()) for name in named_there}
    assert {each.path for each in COMMANDS} | {name for panel in PANELS.values() for name in panel} <= words


def test_the_reference_is_what_the_program_writes_today(tmp_path: Path) -> None:
    for page in write_reference(tmp_path):
        here = REFERENCE / page.name
        assert here.read_bytes() == page.read_bytes(), f"{named(here)} is out of date: run make docs"
