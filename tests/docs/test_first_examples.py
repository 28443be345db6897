"""The first example of every page runs as a reader would type it: a fresh folder, an empty home, a real shell and a terminal of 80 columns.

The first example is everything down to the first output that the page shows: files, Python blocks, and one console block.
`tests/docs/test_docs.py` runs the rest of each page in one process, which is quicker.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, Block, blocks, commands, compare, named
from tests.plugs.coach_model import coach
from tests.plugs.llm_server import llm_server

# A table of terms and the report of the studies have nothing to type.
WITHOUT_EXAMPLES = {"docs/glossary.md", "docs/evidence.md"}
WITH_EXAMPLES = [page for page in PAGES if named(page) not in WITHOUT_EXAMPLES]
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# A command that takes a while draws a bar, which no page prints.
PROGRESS = re.compile(r"[^\r\n]*[━╸╺][^\r\n]*[\r\n]*")


def first_example(page: Path) -> list[Block]:
    """The blocks of a page that run, down to the first output."""
    example: list[Block] = []
    for block in blocks(page):
        if block.language == "sh" and block.file is None:
            continue
        example.append(block)
        if block.language in {"console", "text"} and block.file is None:
            return example
    return example


def reader_environment(folder: Path) -> dict[str, str]:
    """What a reader has who just installed memtape: a home, a path to it, and no setting."""
    kept = {name: value for name, value in os.environ.items() if name in {"LANG", "LC_ALL", "TMPDIR"}}
    return {
        **kept,
        "HOME": str(folder),
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "TERM": "xterm",
        "PYTHONUTF8": "1",
    }


def on_terminal(command: str, folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    """Runs a line in a shell on a terminal of 80 columns; returns its exit code and what it prints."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
    process = subprocess.Popen(
        ["sh", "-c", command], cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True
    )
    os.close(theirs)
    printed = bytearray()
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # Linux ends a terminal whose other side was closed with an error instead of an empty read.
            break
        if not piece:
            break
        printed += piece
    os.close(ours)
    text = printed.decode("utf-8", "replace").replace("\r\n", "\n").replace("\x1b[2K", "\r")
    return process.wait(), PROGRESS.sub("", ESCAPE.sub("", text)).replace("\r", "")


def work_through(page: Path, folder: Path, environment: dict[str, str]) -> None:
    printed = ""
    for number, block in enumerate(first_example(page)):
        at = f"{named(page)}:{block.line}"
        if block.file is not None:
            (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.file).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            (folder / f"example{number}.py").write_text(block.text, encoding="utf-8")
            code, printed = on_terminal(f"python example{number}.py", folder, environment)
            assert code == 0, f"{at}\n{printed}"
        elif block.language == "text":
            compare(at, block.text, printed)
        elif block.language == "console":
            code = 0
            for command, expected in commands(block.text):
                if command == "echo $?":
                    compare(at, expected, f"{code}\n")
                    code = 0
                    continue
                assert code == 0, f"{at}: the command before '{command}' failed: {printed}"
                code, printed = on_terminal(command, folder, environment)
                compare(f"{at}: {command}", expected, printed)
            assert code == 0, f"{at}: the last command failed: {printed}"


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=named)
def test_the_first_example_of_a_page_runs_as_printed_in_a_fresh_folder(page: Path, tmp_path: Path) -> None:
    environment = reader_environment(tmp_path)
    if page.name != "coach.md":
        work_through(page, tmp_path, environment)
        return
    # The page of the coach needs a model: a local server answers from what the prompt really holds.
    with llm_server() as server:
        server.plays(coach)
        model = {"MEMTAPE_CHAT_MODEL": "anthropic/claude-haiku-4-5", "MEMTAPE_ANTHROPIC_URL": server.url("anthropic")}
        work_through(page, tmp_path, {**environment, **model, "ANTHROPIC_API_KEY": "key-of-the-owner"})


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=named)
def test_a_page_has_an_example_whose_output_it_shows(page: Path) -> None:
    shown = [block for block in first_example(page) if block.language in {"console", "text"}]
    assert shown and shown[-1].text.strip()


def test_a_page_without_an_example_is_a_list() -> None:
    assert {named(page) for page in PAGES} >= WITHOUT_EXAMPLES
    assert all(blocks(page) == [] for page in PAGES if named(page) in WITHOUT_EXAMPLES)


def test_the_first_page_fits_in_600_words() -> None:
    quickstart = next(page for page in PAGES if page.name == "quickstart.md")
    assert len(quickstart.read_text(encoding="utf-8").split()) <= 600
