"""The section "strategy": the skill's strategy in the owner's words, or in those of the model that made the skill."""

from __future__ import annotations

from memtape.core.brief.budget import BriefLine
from memtape.core.brief.inputs import BriefInputs
from memtape.core.brief.sanitize import owner_lines, quote_text, same_words
from memtape.core.brief.section_register import section

NOT_THE_OWNERS = "(written by a model, not by the owner)"
MAX_MODEL_LINE_CHARS = 2_000


@section("strategy", role="system", order=20, heading="Strategy:", stable=True)
def strategy_section(inputs: BriefInputs) -> list[BriefLine]:
    """Returns the strategy, line by line, without the avoid rules that stand above it."""
    avoided = {same_words(rule) for rule in inputs.skill.avoid}
    lines = [BriefLine(line) for line in owner_lines(inputs.skill.strategy) if not line or same_words(line) not in avoided]
    if inputs.skill.is_owners:
        return lines
    # In quotes, so that no line of it can pass for a limit of the owner.
    quoted = [BriefLine(quote_text(line.text, MAX_MODEL_LINE_CHARS)) for line in lines if line.text.strip()]
    return [BriefLine(NOT_THE_OWNERS), *quoted] if quoted else []
