"""The register of the sections of a brief.

A section is one function that takes `BriefInputs` and yields its lines. The decorator `section` states the rest: the name of the
segment, the role that reads it, the heading, its place, its own token budget, and what kind of text it holds. A module in
`memtape.core.brief.sections` is found by itself, so a new section needs no other edit.

>>> @section("weather", role="user", order=900, heading="## Weather", max_tokens=50)
... def weather_section(inputs: BriefInputs) -> Iterable[BriefLine]:
...     yield BriefLine("- Dry and calm")
>>> weather = _SPECS.pop("weather")
>>> weather.heading, weather.max_tokens, weather.from_memory
('## Weather', 50, False)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from memtape.core.brief.budget import BriefLine, BriefSection
from memtape.core.brief.inputs import BriefInputs, Role
from memtape.core.value_class import dataclass

SectionLines = Callable[[BriefInputs], Iterable[BriefLine]]
_Lines = TypeVar("_Lines", bound=SectionLines)


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionSpec:
    """A section: how it is written, where it is placed, and how it is treated."""

    name: str  # the segment's name, which is part of the JSON of a brief
    role: Role
    order: int  # among the sections of its role, lowest first
    lines: SectionLines
    heading: str = ""
    max_tokens: int | None = None  # its own budget; None: only the budget of the whole brief applies
    from_memory: bool = False  # left out of a brief without memory
    citable: bool = False  # its lines end in an id that an answer can cite
    by_owner: bool = False  # the owner's own words rather than records: they get all the room that the budget has
    stable: bool = False  # changes only if a trade closes or somebody edits something: the part of a prompt that can be cached

    def write(self, inputs: BriefInputs) -> BriefSection:
        """Returns the whole section, before anything is left out."""
        return BriefSection(self.name, self.role, tuple(self.lines(inputs)), self.heading)


_SPECS: dict[str, SectionSpec] = {}


def section(
    name: str, *, role: Role, order: int, heading: str = "", max_tokens: int | None = None, from_memory: bool = False,
    citable: bool = False, by_owner: bool = False, stable: bool = False,
) -> Callable[[_Lines], _Lines]:  # fmt: skip
    """Registers a function as a section of the brief. Raises ValueError if the name or the place is taken."""

    def register(lines: _Lines) -> _Lines:
        for other in _SPECS.values():
            if other.name == name or (other.role, other.order) == (role, order):
                raise ValueError(f"section {name!r} of {role} at {order} is in conflict with {other.name!r} at {other.order}")
        _SPECS[name] = SectionSpec(
            name=name, role=role, order=order, lines=lines, heading=heading, max_tokens=max_tokens, from_memory=from_memory,
            citable=citable, by_owner=by_owner, stable=stable,
        )  # fmt: skip
        return lines

    return register


def registered_sections() -> tuple[SectionSpec, ...]:
    """Returns every registered section in the order in which a brief shows them: the system's first."""
    return tuple(sorted(_SPECS.values(), key=lambda spec: (spec.role != "system", spec.order)))
