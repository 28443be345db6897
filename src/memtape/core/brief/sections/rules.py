"""The section "rules": what the owner pinned, word for word, and what of it is missing."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from memtape.core.brief.budget import BriefLine
from memtape.core.brief.inputs import BriefInputs, PinnedRule, RuleProblem, SourceRef
from memtape.core.brief.number_format import format_minute
from memtape.core.brief.sanitize import owner_lines, redact_secrets, safe_line, same_words, verbatim_lines
from memtape.core.brief.section_register import section

TITLE_CHARS = 100
RULE_LINE_CHARS = 1_000
_HEADING = re.compile(r" {0,3}#{1,6}\s+(.*?)[\s#]*$")
_FENCE = re.compile(r" {0,3}(?:`{3,}|~{3,})")
_NEWLINE = re.compile(r"\r\n|\n|\r")


@section("rules", role="user", order=10, heading="## Rules", by_owner=True, stable=True)
def rules_section(inputs: BriefInputs) -> list[BriefLine]:
    """Returns what is missing of the owner's pinned rules, then the rules, without those that the skill has said whole."""
    skill = inputs.skill
    said = {same_words(line) for line in (*skill.avoid, *owner_lines(skill.strategy))}
    return [*problem_lines(inputs.rule_problems), *rule_lines(inputs.rules, said)]


def problem_lines(problems: Sequence[RuleProblem]) -> list[BriefLine]:
    """Returns a line for each pinned document of which something is missing, and what that means.

    >>> from datetime import UTC, datetime
    >>> gone = RuleProblem("RULES.md", None, "missing", "the file is not there", datetime(2026, 5, 4, 9, tzinfo=UTC), 12)
    >>> for line in problem_lines([gone]): print(line.text)
    - RULES MISSING: RULES.md, last seen 2026-05-04T09:00 (the file is not there)
    - What is missing binds you too. If in doubt, do not trade, and name the missing rules in your answer.
    """
    lines = [BriefLine(f"- {problem_text(each)}") for each in problems]
    if lines:
        lines.append(
            BriefLine("- What is missing binds you too. If in doubt, do not trade, and name the missing rules in your answer.")
        )
    return lines


def problem_text(problem: RuleProblem) -> str:
    """Returns what of a pinned document is missing, since when and why."""
    whole = " whole" if problem.state == "shortened" else ""
    seen = f"last seen{whole} {format_minute(problem.last_seen)}" if problem.last_seen else "never seen with any text"
    return f"RULES MISSING: {safe_line(problem.title, TITLE_CHARS)}, {seen} ({safe_line(problem.reason, 120)})"


def rule_lines(pinned: Sequence[PinnedRule], said: Collection[str] = ()) -> list[BriefLine]:
    """Returns the title of each rule as an item, with its text below it word for word.

    Other rules refer to a rule by its number, and a line may depend on the one above it: so single lines are never left out. A
    document is left out if all of it was said before, by the skill or by a document above it.

    >>> [line.text for line in rule_lines([PinnedRule("m", "Manual", "# Risk\\n3. *Never* over 1 %\\n\\n   - see rule 2")])]
    ['- Manual', '  | # Risk', '  | 3. *Never* over 1 %', '  |    - see rule 2']
    """
    lines: list[BriefLine] = []
    known = {words for words in said if words}
    for rule in pinned:
        body = list(_body(rule))
        words = {
            same_words(line.text.removeprefix("  | ")) for line in body if not _HEADING.match(line.text.removeprefix("  | "))
        }
        if words <= known:
            continue
        known |= words
        lines += [BriefLine(f"- {safe_line(rule.title, TITLE_CHARS)}", (SourceRef("rule", rule.id, 1),)), *body]
    return lines


def _body(rule: PinnedRule) -> Iterator[BriefLine]:
    """Yields the lines of a rule, each with the heading that it stands under and its number in its document."""
    source, part, fenced = (SourceRef("rule", rule.id, 1),), rule.path or rule.title, False
    heading = ""
    # A secret may span lines, so it is looked for in the whole text.
    for number, line in enumerate(_NEWLINE.split(redact_secrets(rule.text)), rule.start_line or 1):
        fenced ^= bool(_FENCE.match(line))
        if not fenced and (found := _HEADING.match(line)):
            heading = found[1]
        name, at = safe_line(f"{part} › {heading}" if heading else part, TITLE_CHARS), number
        if 0 < rule.end_line < number:
            # The sentence below a very long document says how much of it is not here. Where it finds no room, it is the name.
            name, at = f"{safe_line(part, TITLE_CHARS)} {line}", 0
        for shown in verbatim_lines(line):
            yield from (BriefLine(f"  | {piece}", source, part=name, number=at) for piece in _pieces(shown))


def _pieces(line: str) -> Iterator[str]:
    """Yields a line in pieces of at most `RULE_LINE_CHARS`, cut between words: the end of a rule may be what matters."""
    while len(line) > RULE_LINE_CHARS:
        at = line.rfind(" ", RULE_LINE_CHARS // 2, RULE_LINE_CHARS) + 1 or RULE_LINE_CHARS
        yield line[:at].rstrip()
        line = line[at:]
    yield line
