"""Composes a brief: who the agent is and which rules bind it, then its records between two lines that no record can imitate.

What seldom changes comes first, so that a provider can cache it: the system part (header, limits, strategy, lessons, footer),
then the user part from its beginning to the end of the recent trades. Unless a trade closes or somebody edits a note, a rule or
the skill, two consecutive prompts begin with the same bytes up to there. What changes with every tick follows: positions, risk,
memory, events, and on the last line the moment and the mark.

The user part holds the records, which are data. No record can begin a line, so none can imitate the last one; besides, that line
carries a mark made from the hash of the text above it, which the author of a recorded text cannot know. Empty sections are
omitted.

Any change of wording or form raises `PROMPT_VERSION`: the same inputs and version give the same bytes.

>>> from datetime import UTC, datetime
>>> from memtape.core.observed import Situation
>>> from memtape.core.brief.risk import RiskState
>>> from memtape.core.skills import Skill
>>> new = BriefInputs(agent="desk", skill=Skill(id="fade", strategy="Fade the open.", avoid=("Never average down.",)),
...              skill_version=1, currency="USD",
...              as_of=datetime(2026, 6, 5, 12, tzinfo=UTC), situation=Situation(), risk=RiskState())
>>> brief = compose_brief(new)
>>> [segment.name for segment in brief.segments], "memory" in brief.text
(['header', 'limits', 'strategy', 'footer'], False)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from memtape.core.brief.budget import (
    ESTIMATE,
    BriefSection,
    Count,
    estimate_tokens,
    fit_section,
    fit_sections,
)
from memtape.core.brief.free_text import ration_free_text
from memtape.core.brief.header_and_footer import footer_lines, header_lines
from memtape.core.brief.inputs import (
    WARN_TOKENS,
    Brief,
    BriefInputs,
    LineSource,
    Role,
    RuleProblem,
    Segment,
)
from memtape.core.brief.number_format import format_minute
from memtape.core.brief.rule_room import CHANGING_SHARE, cut_rules
from memtape.core.brief.sections import SECTIONS
from memtape.core.brief.sections.rules import problem_text
from memtape.core.codec import digest
from memtape.core.skills import MemoryConfig
from memtape.errors import Invalid

PROMPT_VERSION = 10
BRIEF_TOKENS = 4_000  # tokens
FRAME_TOKENS = 60  # of the lines around the records and the sentence on the rules
BETWEEN = "\n\n"
MARKS: dict[Role, str] = {"system": "=== system ===", "user": "=== user ==="}
_STABLE = frozenset({"header", "footer", *(spec.name for spec in SECTIONS if spec.stable)})
_BY_OWNER = frozenset(spec.name for spec in SECTIONS if spec.by_owner)
_OWNERS_TEXT = _BY_OWNER | {"strategy"}


def compose_brief(
    inputs: BriefInputs, *, budget: int = BRIEF_TOKENS, without_memory: bool = False, count: Count | None = None,
    counted_by: str = ESTIMATE,
) -> Brief:  # fmt: skip
    """Returns the brief. `count` is the tokenizer and `counted_by` its name; without one, tokens are estimated."""
    if budget < 1:
        raise Invalid("budget", "is below one token", "Give the tokens that a brief may take, like 4000")
    measure = estimate_tokens if count is None else count
    with_memory = inputs.skill.context.memory.enabled and not without_memory

    def cost(sections: Sequence[BriefSection]) -> int:
        return measure(_text(inputs, _framed(inputs, sections, with_memory)))

    wanted = _fit_all(inputs, with_memory, measure)
    if cost(wanted) > budget:
        wanted = _with_rules_in_budget(wanted, budget, cost, measure)
    fitted = fit_sections(wanted, budget, cost)
    whole = _framed(inputs, fitted, with_memory)
    text = _text(inputs, whole)
    tokens = measure(text)
    return Brief(
        text=text,
        segments=tuple(
            Segment(each.name, each.role, each.text, measure(each.text), each.left_out, each.name in _STABLE) for each in whole
        ),
        citations=tuple(_citations(whole)), tokens=tokens, counted_by=ESTIMATE if count is None else counted_by,
        digest=digest(text), budget=budget, frame=_frame(inputs, whole),
        warnings=_warnings(wanted, fitted, tokens, budget, inputs.rule_problems, measure),
    )  # fmt: skip


def _fit_all(inputs: BriefInputs, with_memory: bool, count: Count) -> list[BriefSection]:
    """Returns every section that has lines, each cut to its own budget, the words of others rationed.

    Header and footer are added later.
    """
    if not with_memory:
        inputs = replace(inputs, skill=inputs.skill.with_memory(MemoryConfig(enabled=False)))
    specs = [spec for spec in SECTIONS if with_memory or not spec.from_memory]
    written = [(spec, section) for spec in specs if (section := spec.write(inputs)).lines]
    rationed = {section.name: section for section in ration_free_text([section for _, section in written], count)}
    return [fit_section(rationed[spec.name], count, max_tokens=spec.max_tokens) for spec, _ in written if spec.name in rationed]


def _with_rules_in_budget(
    sections: Sequence[BriefSection], budget: int, cost: Callable[[Sequence[BriefSection]], int], count: Count
) -> list[BriefSection]:
    """Returns the sections with the pinned rules cut, if even without anything that may be left out they are over the budget."""
    fixed = fit_sections(sections, 0, cost)
    rules = next((section for section in fixed if section.name in _BY_OWNER), None)
    if rules is None or cost(fixed) <= budget:
        return list(sections)
    system = cost([section for section in fixed if section.role == "system"])
    others = cost([section for section in fixed if section is not rules])
    cut = cut_rules(rules, max(min(int(budget * (1 - CHANGING_SHARE)) - system, budget - others - FRAME_TOKENS), 0), count)
    return [cut if section.name == rules.name else section for section in sections]


def _framed(inputs: BriefInputs, fitted: Sequence[BriefSection], with_memory: bool) -> list[BriefSection]:
    """Returns the sections with header and footer, in the order in which they are read."""
    system = [section for section in fitted if section.role == "system"]
    user = [section for section in fitted if section.role == "user"]
    has_rules = any(section.name in _BY_OWNER for section in user)
    return [
        BriefSection("header", "system", tuple(header_lines(inputs, has_rules, with_memory))), *system,
        BriefSection("footer", "system", tuple(footer_lines(with_memory))), *user,
    ]  # fmt: skip


def _frame(inputs: BriefInputs, whole: Sequence[BriefSection]) -> tuple[str, str]:
    """Returns the first and the last line of the records. If the mark occurs in the records, it is hashed again."""
    content = BETWEEN.join(section.text for section in whole if section.role == "user")
    if not content:
        return "", ""
    moment = format_minute(inputs.as_of)
    mark = digest(f"{content}{BETWEEN}{moment}")[:16]
    while mark in content:
        mark = digest(mark + content)[:16]
    return "BEGIN RECORDS", f"END RECORDS as of {moment}, checksum {mark}"


def _text(inputs: BriefInputs, whole: Sequence[BriefSection]) -> str:
    """Returns the text of both parts, each under the mark of its role."""
    opening, closing = _frame(inputs, whole)
    system = [section.text for section in whole if section.role == "system"]
    user = [section.text for section in whole if section.role == "user"]
    text = f"{MARKS['system']}\n{BETWEEN.join(system)}\n"
    return f"{text}\n{MARKS['user']}\n{BETWEEN.join([opening, *user, closing])}\n" if user else text


def _citations(whole: Sequence[BriefSection]) -> Iterator[LineSource]:
    """Yields the sources of each line of the text."""
    at, role = 0, None
    for section in whole:
        if section.role != role:
            role = section.role
            # The line of the role's mark; in the user part also the opening line and a blank one.
            at += 3 if role == "user" else 1
        at += bool(section.heading)
        for line in section.lines:
            at += 1
            yield from (LineSource(section.name, at, source) for source in line.sources)
        at += 1


def _warnings(
    wanted: Sequence[BriefSection], fitted: Sequence[BriefSection], tokens: int, budget: int, missing: Sequence[RuleProblem],
    count: Count,
) -> tuple[str, ...]:  # fmt: skip
    """Returns what the sender of the brief should know: rules that the agent does not get, a broken budget, a costly length."""
    warnings = [problem_text(each) for each in missing]
    warnings += [
        f"Pinned rules that found no room in {budget:,} tokens: {'; '.join(section.unshown)}. Raise the budget, or pin less"
        for section in fitted
        if section.unshown
    ]
    if tokens > budget:
        warnings.append(f"What may not be left out takes {tokens:,} tokens, more than the budget of {budget:,}")
    left = {each.name: each.left_out for each in fitted if each.left_out}
    left |= {each.name: len(each.lines) + each.left_out for each in wanted if each.name not in {one.name for one in fitted}}
    if left:
        warnings.append(f"Lines left out for want of room: {', '.join(f'{name} {n}' for name, n in sorted(left.items()))}")
    # Strategy, rules and passages are the owner's own words, and are not counted.
    if tokens - sum(count(each.text) for each in fitted if each.name in _OWNERS_TEXT) > WARN_TOKENS:
        warnings.append(
            f"{tokens:,} tokens, more than {WARN_TOKENS:,} besides strategy, rules and documents: each run pays for them"
        )
    return tuple(warnings)
