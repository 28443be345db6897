"""Which documents are always in context: the owner's rules, whole or by section.

The rules files at the top of a workspace are pinned by themselves; the owner may pin others, or sections, and take any of it
back. Only what no agent may write to can be pinned: a rule that an agent could add to would be its own word in the owner's mouth.

>>> manual = "# Manual\\nIntro.\\n## Risk\\n1 % a trade.\\n### Gold\\nHalf.\\n## Entries\\nBreakouts.\\n"
>>> section_lines(manual, "Risk"), section_lines(manual, "risk › gold"), section_lines(manual, "Exits")
((3, 6), (5, 6), None)
>>> may_be_pinned("TRADING_MANUAL.md"), may_be_pinned("journal/SOUL.md"), may_be_pinned("plan.md")
(True, False, True)
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from memtape.documents.chunks import sections
from memtape.documents.citations import lines_of
from memtape.documents.question import parse_question
from memtape.documents.sources import FILE_BYTES, classified, text_of

# Pinned without being asked for, in this order; compared without case.
RULES = ("SOUL.md", "TRADING_MANUAL.md", "TRADING-MANUAL.md", "MANUAL.md", "RULES.md", "AVOID.md", "LIMITS.md")
PLACES = ("", "memory/")
BELOW = re.compile(r"\s*[›>/]\s*")  # between a heading and one under it


def rules_in(root: Path) -> list[str]:
    """The rules files of a workspace, in their order; those that cannot be read too."""
    found: list[str] = []
    for place in PLACES:
        try:
            names = sorted(entry.name for entry in (root / place).iterdir())
        except OSError:
            continue
        found += [f"{place}{name}" for rule in RULES for name in names if name.casefold() == rule.casefold()]
    return found


def may_be_pinned(path: str) -> bool:
    """Whether a document is the owner's alone: one of the rules, or a page at the top of the workspace."""
    kind, tier = classified(path)
    return tier == 1 or (kind == "note" and len(PurePosixPath(path).parts) == 1)


def text_in(root: Path, path: str) -> str | None:
    """The text of a document of a workspace; none where it cannot be read, is no text, is too large, or a link leads to it."""
    parts = PurePosixPath(path).parts
    if not parts or path != "/".join(parts) or any(part in ("..", ".", "/") or "\\" in part or "\0" in part for part in parts):
        return None
    return text_at(root.joinpath(*parts), path)


def text_at(file: Path, path: str) -> str | None:
    """The text of a file that is a document under this path, if it can be read and no link leads to it."""
    try:
        if not file.is_file() or file.resolve() != file:
            return None
        with file.open("rb") as opened:
            content = opened.read(FILE_BYTES + 1)
    except OSError:
        return None
    return text_of(path, content) if len(content) <= FILE_BYTES else None


def section_lines(text: str, heading: str) -> tuple[int, int] | None:
    """The first and last line of what stands under a heading, those below it included; the first one of that name."""
    whole = [heading.strip("# ").casefold()]
    return _section(text, whole) or _section(text, [part.strip("# ").casefold() for part in BELOW.split(heading.strip())])


def _section(text: str, wanted: list[str]) -> tuple[int, int] | None:
    found = sections(text)
    for at, each in enumerate(found):
        if [name.casefold() for name in each.headings[-len(wanted) :]] != wanted:
            continue
        end = at + 1
        while end < len(found) and len(found[end].headings) > len(each.headings):
            end += 1
        numbers = [line.number for under in found[at:end] for block in under.blocks for line in block]
        rows = lines_of(text)
        while len(numbers) > 1 and not rows[numbers[-1] - 1].strip():
            numbers.pop()
        return numbers[0], numbers[-1]
    return None


def bears_on(passage: str, question: str, symbol: str | None) -> bool:
    """Whether a passage has to do with a question: it names the symbol, or shares two of its words.

    >>> bears_on("Gold: XAUUSD gapped at the open.", "XAUUSD breakout", "XAUUSD"), bears_on("A breakout.", "gold breakout", None)
    (True, False)
    """
    said = passage.casefold()
    if symbol and re.search(rf"(?<![\w]){re.escape(symbol.casefold())}(?![\w])", said):
        return True
    return sum(bool(re.search(rf"(?<![\w]){re.escape(word[:5])}", said)) for word, _ in parse_question(question).words) >= 2
