"""The section "rules": what the owner pinned."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from textwrap import wrap

from memtape.core.brief.budget import BriefLine
from memtape.core.brief.inputs import BriefInputs, PinnedRule, SourceRef
from memtape.core.brief.sanitize import owner_lines, safe_line, same_words, without_list_marker
from memtape.core.brief.section_register import section

TITLE_CHARS = 100
RULE_LINE_CHARS = 1_000


@section("rules", role="user", order=10, heading="## Rules", max_tokens=800, by_owner=True, stable=True)
def rules_section(inputs: BriefInputs) -> list[BriefLine]:
    """Returns the owner's pinned rules, without what limits and strategy have already said."""
    skill = inputs.skill
    return rule_lines(inputs.rules, {same_words(line) for line in (*skill.avoid, *owner_lines(skill.strategy))})


def rule_lines(pinned: Sequence[PinnedRule], said: Collection[str] = ()) -> list[BriefLine]:
    """Returns the title of each rule as an item, with the lines of its text below it; a line that was said before is left out.

    >>> [line.text for line in rule_lines([PinnedRule("m", "Manual", "# Risk\\n- 1 % a trade\\n\\n- no revenge trades")])]
    ['- Manual', '  | Risk', '  | 1 % a trade', '  | no revenge trades']
    """
    lines: list[BriefLine] = []
    known = {words for words in said if words}
    for rule in pinned:
        source = (SourceRef("rule", rule.id, 1),)
        fresh: list[BriefLine] = []
        for text in owner_lines(_wrapped(rule.text)):
            words = same_words(text)
            # A line that is all punctuation has no words, and two of them need not mean the same.
            if text and words not in known:
                fresh.append(BriefLine(f"  | {without_list_marker(text)}", source))
                known |= {words} if words else set()
        if fresh:
            lines += [BriefLine(f"- {safe_line(rule.title, TITLE_CHARS)}", source), *fresh]
    return lines


def _wrapped(text: str) -> str:
    """Returns the text with long lines wrapped, so that none is cut: the end of a rule may be what matters."""
    # An empty line wraps to no line at all, so only long lines are wrapped.
    lines = (wrap(line, RULE_LINE_CHARS) if len(line) > RULE_LINE_CHARS else [line] for line in text.splitlines())
    return "\n".join(part for parts in lines for part in parts)
