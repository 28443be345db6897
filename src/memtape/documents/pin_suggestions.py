"""Which files and sections of a workspace look like rules, so that the owner can pin them. Nothing is pinned by itself.

A file is suggested for its name (CLAUDE.md, risk-limits.md), a section for its heading (Hard limits, Never), and both for how
many of their lines forbid or bound something. A long file is suggested by its sections.

>>> page = "# Desk\\nWe trade gold.\\n## Risk rules\\n- Never risk over 1 %.\\n- Max 3 trades a day.\\n## History\\n2019.\\n"
>>> [(each.section, each.reason) for each in suggest_in("STATUS.md", page)]
[('Risk rules', 'its heading; 2 of 2 lines forbid or bound something')]
>>> policy = "# Policy\\n\\n| Rule 1 | largest name | 6 % |\\n| Rule 2 | industry | 22 % |\\n| Rule 3 | new name | none |\\n"
>>> [each.reason for each in suggest_in("POLICY.md", policy)]
['its name; 3 of 3 lines forbid or bound something']
>>> suggest_in("plan.md", "# Plan\\nBuy the dip, perhaps.\\n")
[]
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from memtape.core.brief.token_estimate import estimate_tokens
from memtape.core.value_class import dataclass
from memtape.documents.chunks import sections
from memtape.documents.citations import lines_of
from memtape.documents.pinned_rules import section_lines
from memtape.documents.sources import FileEntry
from memtape.documents.text_files import read_text_file

MAX_SUGGESTIONS, MAX_OF_ONE_FILE = 10, 3
MAX_FILES_READ, MAX_BYTES = 1_000, 200_000
MAX_WHOLE_TOKENS = 1_500  # a longer file is suggested by its sections
MIN_BINDING = 2  # lines that forbid or bound something
_NAMES = re.compile(
    r"(?:^|[^a-z])(?:rules?|limits?|manual|guardrails?|discipline|checklist|risk|policy|avoid|claude|agents|soul|mandate)(?:[^a-z]|$)"
)
_HEADINGS = re.compile(
    r"\b(?:rules?|limits?|never|avoid|forbidden|prohibited|do not|don['’]?ts?|must|guardrails?|constraints?|non-negotiables?"
    r"|discipline|risk management|hard stops?|kill switch|checklist|mandate)\b", re.IGNORECASE,
)  # fmt: skip
_BINDING = re.compile(
    r"\b(?:never|always|must(?: not)?|do not|don['’]t|may not|only|no more than|at most|max(?:imum)?|min(?:imum)?|required?"
    r"|forbidden|not allowed|stop after|limit(?:ed)?|no new|largest|smallest|up to|within)\b|[<>≤≥]\s*\d|\brule\s+\d",
    re.IGNORECASE,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PinSuggestion:
    """A document or section that looks like rules."""

    path: str
    section: str | None
    reason: str
    start_line: int
    end_line: int
    tokens: int
    binding: int  # lines that forbid or bound something


def likely_rules(entries: Sequence[FileEntry]) -> list[PinSuggestion]:
    """Returns what looks most like rules among these files, the most binding first; of one file at most three sections."""
    found: list[PinSuggestion] = []
    for entry in entries[:MAX_FILES_READ]:
        if entry.size <= MAX_BYTES and isinstance(text := read_text_file(entry), str):
            found += suggest_in(entry.path, text)
    # Rules are kept near the top of a workspace; a thousand skill files below it have rules of their own.
    found.sort(key=lambda each: (len(PurePosixPath(each.path).parts), -each.binding, each.path, each.start_line))
    return found[:MAX_SUGGESTIONS]


def suggest_in(path: str, text: str) -> list[PinSuggestion]:
    """Returns what looks like rules in one document: the whole, or its sections."""
    lines = lines_of(text)
    is_named = bool(_NAMES.search(PurePosixPath(path).stem.lower()))
    tokens = estimate_tokens(text)
    whole = _suggestion(path, None, lines, (1, len(lines)), "its name", tokens) if is_named else None
    if whole and tokens <= MAX_WHOLE_TOKENS:
        return [whole]
    found: list[PinSuggestion] = []
    for section in sections(text):
        heading = section.headings[-1] if section.headings else ""
        if not _HEADINGS.search(heading) or (place := section_lines(text, heading)) is None:
            continue
        size = estimate_tokens("\n".join(lines[place[0] - 1 : place[1]]))
        inside = any(other.start_line <= place[0] and place[1] <= other.end_line for other in found)
        if size <= MAX_WHOLE_TOKENS and not inside and (each := _suggestion(path, heading, lines, place, "its heading", size)):
            found.append(each)
    best = sorted(found, key=lambda each: -each.binding)[:MAX_OF_ONE_FILE]
    return sorted(best, key=lambda each: each.start_line) or ([whole] if whole else [])


def _suggestion(
    path: str, section: str | None, lines: Sequence[str], place: tuple[int, int], why: str, tokens: int
) -> PinSuggestion | None:
    first, last = place
    words = [line for line in lines[first - 1 : last] if line.strip() and not line.lstrip().startswith("#")]
    binding = sum(bool(_BINDING.search(line)) for line in words)
    if binding < MIN_BINDING or binding * 5 < len(words):
        return None
    reason = f"{why}; {binding} of {len(words)} lines forbid or bound something"
    return PinSuggestion(path, section, reason, first, last, tokens, binding)
