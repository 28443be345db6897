"""Reads the pages of README.md and docs/: their fenced blocks, the commands in them, and what they show as printed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, OutputChecker
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(?P<language>\w+)(?: file=(?P<file>\S+))?\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    file: str | None
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(found["language"], found["file"], found["text"], text.count("\n", 0, found.start()) + 2)
        for found in BLOCK.finditer(text)
    ]


def commands(console: str) -> Iterator[tuple[str, str]]:
    """Each command of a console block, and what the page says that it prints."""
    for part in re.split(r"^\$ ", console.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
        command, _, printed = part.partition("\n")
        yield command.strip(), printed


def compare(at: str, expected: str, printed: str) -> None:
    """Fails if the page shows something else than is printed; a page that shows nothing promises nothing."""
    same = OutputChecker().check_output(expected, printed, ELLIPSIS | NORMALIZE_WHITESPACE)
    assert same or not expected.strip(), f"{at}\nthe page shows:\n{expected}\nit prints:\n{printed}"
