"""Documents that are always in context: the owner's rules, whole or by section.

The rules files at the top of a workspace are pinned automatically. The owner may pin any other document or section, and unpin it.
Only a document that an agent writes cannot be pinned; otherwise an agent could put its own words among the owner's rules.

>>> manual = "# Manual\\nIntro.\\n## Risk\\n1 % a trade.\\n### Gold\\nHalf.\\n## Entries\\nBreakouts.\\n"
>>> section_lines(manual, "Risk"), section_lines(manual, "risk › gold"), section_lines(manual, "Exits")
((3, 6), (5, 6), None)
>>> [may_be_pinned(path) for path in ("TRADING_MANUAL.md", "docs/risk/limits.txt", ".claude/rules/risk.md", "journal/SOUL.md")]
[True, True, True, False]
>>> [may_be_pinned(path) for path in ("memory/LEARNINGS.md", "runs/r1/transcript.md", "TRADE-LOG.md", ".env", "bars.csv")]
[False, False, False, False, False]
"""

from __future__ import annotations

import re
import stat
from pathlib import Path, PurePosixPath

from memtape.core.brief.inputs import RuleState
from memtape.documents.chunks import sections
from memtape.documents.citations import lines_of
from memtape.documents.question import parse_question
from memtape.documents.sources import PAGE_TYPE, TEXT_SUFFIXES, classify_path
from memtape.documents.write_policy import NOTE_FOLDERS

# Pinned automatically, in this order; upper and lower case are the same.
PINNED_RULE_FILES = ("SOUL.md", "TRADING_MANUAL.md", "TRADING-MANUAL.md", "MANUAL.md", "RULES.md", "AVOID.md", "LIMITS.md")
RULE_FOLDERS = ("", "memory/")
PINNABLE_SUFFIXES = TEXT_SUFFIXES | {".mdc", ".yaml", ".yml", ".toml", ".json"}
AGENT_TYPES = ("journal", "log", "transcript", "decision", PAGE_TYPE)  # that agents write, or that are made of what they write
_HEADING_SEPARATOR = re.compile(r"\s*[›>/]\s*")  # between a heading and one below it: "Risk › Gold"


def find_rule_files(root: Path) -> list[str]:
    """Returns the rules files of a workspace in the order of pinning, also those that cannot be read."""
    paths: list[str] = []
    for folder in RULE_FOLDERS:
        try:
            names = sorted(entry.name for entry in (root / folder).iterdir())
        except OSError:
            continue
        paths += [f"{folder}{name}" for rule in PINNED_RULE_FILES for name in names if name.casefold() == rule.casefold()]
    return paths


def is_rule_file(path: str) -> bool:
    """Returns True if a file of this name, at this place in its workspace, is pinned automatically."""
    folder, _, name = path.rpartition("/")
    return (f"{folder}/" if folder else "") in RULE_FOLDERS and name.casefold() in {rule.casefold() for rule in PINNED_RULE_FILES}


def may_be_pinned(path: str) -> bool:
    """Returns True if no agent writes a document: it is no note, log, transcript or decision of an agent."""
    if PurePosixPath(path).suffix.lower() not in PINNABLE_SUFFIXES:
        return False
    kind, tier = classify_path(path)
    folder = PurePosixPath(path).parts[0].lower() if "/" in path else ""
    return tier == 1 or (kind not in AGENT_TYPES and folder not in NOTE_FOLDERS)


def unreadable_reason(root: Path, path: str) -> tuple[RuleState, str]:
    """Returns why the text of a file in a folder cannot be read."""
    file = root / path
    try:
        status = file.lstat()
        if stat.S_ISLNK(status.st_mode) or file.resolve() != file.absolute():
            return "unreadable", "it is a link, and links are not followed"
        if stat.S_ISDIR(status.st_mode):
            return "unreadable", "it is a folder now"
        with file.open("rb") as opened:
            opened.read(1)
    except (FileNotFoundError, NotADirectoryError):
        return "missing", "the file is not there"
    except OSError as error:
        return "unreadable", f"it cannot be read: {error.strerror}"
    return "unreadable", "it is not text, or too large"


def section_lines(text: str, heading: str) -> tuple[int, int] | None:
    """Returns the first and last line of the first section with this heading, subsections included; None if there is none."""
    # A heading may itself contain a separator, so it is tried whole first.
    whole = [heading.strip("# ").casefold()]
    parts = [part.strip("# ").casefold() for part in _HEADING_SEPARATOR.split(heading.strip())]
    return _find_section(text, whole) or _find_section(text, parts)


def _find_section(text: str, headings: list[str]) -> tuple[int, int] | None:
    """Returns the lines of the first section whose last headings are these."""
    all_sections = sections(text)
    for at, section in enumerate(all_sections):
        if [name.casefold() for name in section.headings[-len(headings) :]] != headings:
            continue
        end = at + 1
        while end < len(all_sections) and len(all_sections[end].headings) > len(section.headings):
            end += 1
        numbers = [line.number for inner in all_sections[at:end] for block in inner.blocks for line in block]
        lines = lines_of(text)
        while len(numbers) > 1 and not lines[numbers[-1] - 1].strip():
            numbers.pop()
        return numbers[0], numbers[-1]
    return None


def is_relevant(passage: str, question: str, symbol: str | None) -> bool:
    """Returns True if a passage bears on a question: it names the symbol, or shares two words with the question.

    >>> is_relevant("Gold: XAUUSD gapped at the open.", "XAUUSD breakout", "XAUUSD")
    True
    >>> is_relevant("A breakout.", "gold breakout", None)
    False
    """
    lower = passage.casefold()
    if symbol and re.search(rf"(?<![\w]){re.escape(symbol.casefold())}(?![\w])", lower):
        return True
    # The first five letters of a word stand for its other forms.
    shared = sum(bool(re.search(rf"(?<![\w]){re.escape(word[:5])}", lower)) for word, _ in parse_question(question).words)
    return shared >= 2
