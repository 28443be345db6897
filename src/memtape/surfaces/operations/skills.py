"""Operations on skills: strategies in words, with versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from memtape.core.codec import plain
from memtape.core.skills import MemoryConfig
from memtape.core.values import Label, Line, Slug
from memtape.surfaces.answer_models import Answer, answer_model
from memtape.surfaces.questions import Ask, OfOwner
from memtape.surfaces.registry import operation

if TYPE_CHECKING:
    from memtape.engine import Memory
    from memtape.surfaces.caller import Caller


class CreateSkill(Ask):
    """A skill to create, or a new version of one."""

    id: Annotated[Slug, Field(description="permanent id: a-z, 0-9, dot, dash, underscore")]
    name: Annotated[Line, Field(max_length=120, description="display name")] = ""
    strategy: Annotated[str, Field(max_length=20_000, description="the strategy in words")] = ""
    avoid: Annotated[list[Line], Field(max_length=64, description="hard rules: what to avoid")] = Field(default_factory=list)
    limits: Annotated[dict[Label, Line], Field(description="limits by name, as text")] = Field(default_factory=dict)
    memory: Annotated[MemoryConfig | None, Field(description="what an agent is shown of its memory")] = None


MemoryConfigRow = answer_model(MemoryConfig, sparse=True)


class SkillAnswer(Answer):
    """A version of a skill."""

    id: Annotated[str, Field(description="the skill")]
    version: Annotated[int, Field(description="1, 2, ...")]
    name: Annotated[str, Field(description="display name")]
    strategy: Annotated[str, Field(description="the strategy in words")]
    avoid: Annotated[list[str], Field(description="hard rules")]
    limits: Annotated[dict[str, str], Field(description="limits by name")]
    memory: Annotated[MemoryConfigRow, Field(description="its memory configuration")]  # type: ignore[valid-type]
    author: Annotated[str, Field(description="who wrote this version: owner or model")] = "owner"


class SkillList(Answer):
    """Skills."""

    skills: Annotated[list[SkillAnswer], Field(description="skills in their latest version")]
    n: Annotated[int, Field(description="how many")]


class ShowSkill(OfOwner):
    """Which skill."""

    id: Annotated[Slug, Field(description="id of the skill")]
    version: Annotated[int | None, Field(ge=1, description="default: the latest")] = None


def _skill_answer(found: tuple[Any, int]) -> SkillAnswer:
    skill, version = found
    return SkillAnswer(
        id=skill.id, version=version, name=skill.name, strategy=skill.strategy, avoid=list(skill.avoid),
        limits=dict(skill.limits), memory=MemoryConfigRow(**plain(skill.context.memory)),
        author=skill.author or "owner",
    )  # fmt: skip


@operation(writes=True)
def create_skill(memory: Memory, ask: CreateSkill, caller: Caller) -> SkillAnswer:
    """Create a skill, or its next version if the content differs. A model cannot change an existing skill."""
    if any(skill.id == ask.id for skill, _ in memory.skills()):
        caller.require_owner("change a skill")
    config = None if ask.memory is None else plain(ask.memory)
    return _skill_answer(
        memory.create_skill(
            ask.id, name=ask.name, strategy=ask.strategy, avoid=ask.avoid, limits=ask.limits, memory=config,
            author="model" if caller.is_model else None,
        )
    )


@operation(writes=False, tools={"coach"}, columns=("id", "version", "name", "strategy"))
def list_skills(memory: Memory, ask: OfOwner, caller: Caller) -> SkillList:
    """List every skill in its latest version."""
    found = [_skill_answer(each) for each in memory.skills(ask.cutoff)]
    return SkillList(skills=found, n=len(found))


@operation(writes=False)
def show_skill(memory: Memory, ask: ShowSkill, caller: Caller) -> SkillAnswer:
    """Get one skill, in its latest or another version."""
    return _skill_answer(memory.skill(ask.id, ask.version, ask.cutoff))
