"""The section "strategy": the skill's strategy in the owner's words."""

from __future__ import annotations

from memtape.core.brief.budget import BriefLine
from memtape.core.brief.inputs import BriefInputs
from memtape.core.brief.sanitize import owner_lines, same_words
from memtape.core.brief.section_register import section


@section("strategy", role="system", order=20, heading="Strategy:", stable=True)
def strategy_section(inputs: BriefInputs) -> list[BriefLine]:
    """Returns the strategy, line by line, without the avoid rules that stand above it."""
    avoided = {same_words(rule) for rule in inputs.skill.avoid}
    return [BriefLine(line) for line in owner_lines(inputs.skill.strategy) if not line or same_words(line) not in avoided]
