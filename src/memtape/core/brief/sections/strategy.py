"""The section "strategy": the skill's strategy in the owner's words."""

from __future__ import annotations

from memtape.core.brief.budget import BriefLine
from memtape.core.brief.inputs import BriefInputs
from memtape.core.brief.sanitize import owner_lines
from memtape.core.brief.section_register import section


@section("strategy", role="system", order=20, heading="Strategy:")
def strategy_section(inputs: BriefInputs) -> list[BriefLine]:
    """Returns the strategy, line by line."""
    return [BriefLine(line) for line in owner_lines(inputs.skill.strategy)]
