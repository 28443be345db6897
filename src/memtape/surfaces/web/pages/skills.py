"""The page of a skill: its text, its limits, its versions, and the panel that sets what its agents are shown from memory.

    /skills/{skill}                the skill; ?version= an earlier one; the fields of the panel preview what is typed there
    POST /skills/{skill}/memory    save the panel as a new version of the skill, with its text unchanged
    POST /skills/{skill}/use       let an agent run a version from now on

htmx gets only the preview: what one of the agents would see with the panel as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from starlette.responses import RedirectResponse, Response

from memtape.errors import Conflict, Invalid, MemtapeError, Unknown
from memtape.surfaces.operations.agents import AgentAnswer, UseSkillVersion, list_agents, use_skill_version
from memtape.surfaces.operations.briefs import PreviewBrief, preview_brief
from memtape.surfaces.operations.skills import CreateSkill, ShowSkill, SkillAnswer, create_skill, show_skill
from memtape.surfaces.questions import OfOwner
from memtape.surfaces.translate import error_report
from memtape.surfaces.web import words
from memtape.surfaces.web.brief_lines import brief_text_lines
from memtape.surfaces.web.charts import brief_token_bar
from memtape.surfaces.web.forms import read_question, row_fields, whole_number
from memtape.surfaces.web.register import form, page
from memtape.surfaces.web.site import PageRequest

VERSIONS_LISTED = 30
MODELS = ("stats", "anthropic/claude-haiku-4-5")


@dataclass(frozen=True, slots=True)
class MemoryForm:
    """The memory config as its form has it: the typed texts and the ticked boxes."""

    recentTradesK: str = ""
    cadence: str = ""
    everyNTrades: str = ""
    dailyHourUtc: str = ""
    model: str = ""
    expireDays: str = ""
    enabled: str = ""
    includeOpenPositions: str = ""
    similarSituations: str = ""

    @classmethod
    def read(cls, form: Mapping[str, str]) -> MemoryForm:
        """From a form; a browser does not send a box that is not ticked."""
        return cls(**{field.name: form.get(field.name, "").strip() for field in fields(cls)})

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> MemoryForm:
        """From a config.

        >>> reflection = {"cadence": "off", "everyNTrades": 10, "dailyHourUtc": 0, "model": "stats", "expireDays": 90}
        >>> config = {"enabled": True, "recentTradesK": 10, "includeOpenPositions": False, "similarSituations": False}
        >>> MemoryForm.of({**config, "reflection": reflection}).config() == {**config, "reflection": reflection}
        True
        """
        values = {**config, **config["reflection"]}
        return cls(**{field.name: _field_text(values.get(field.name)) for field in fields(cls)})

    def config(self) -> dict[str, Any]:
        """The config as operations take it."""
        numbers = {name: self._number(name) for name in ("recentTradesK", "everyNTrades", "dailyHourUtc", "expireDays")}
        return {
            "enabled": bool(self.enabled), "recentTradesK": numbers["recentTradesK"],
            "includeOpenPositions": bool(self.includeOpenPositions), "similarSituations": bool(self.similarSituations),
            "reflection": {
                "cadence": self.cadence, "everyNTrades": numbers["everyNTrades"], "dailyHourUtc": numbers["dailyHourUtc"],
                "model": self.model, "expireDays": numbers["expireDays"],
            },
        }  # fmt: skip

    def _number(self, name: str) -> int:
        number = whole_number(name, getattr(self, name))
        if number is None:
            raise Invalid(name, "is empty", "Write a whole number")
        return number


def _field_text(value: object) -> str:
    if isinstance(value, bool):
        return "1" if value else ""
    return "" if value is None else str(value)


class SkillVersion(NamedTuple):
    """A version of a skill, what it changed from the one before, and the agents that run it."""

    version: int
    changed: Sequence[str]
    agents: Sequence[str]


# ---- reading -------------------------------------------------------------------------------------------------------------


@page("/skills/{skill}")
def skill_page(request: PageRequest) -> Response:
    """The skill and the panel, or only what an agent would see with the panel as it is."""
    latest = _latest(request)
    panel = MemoryForm.read(request.query) if "edit" in request.query else MemoryForm.of(row_fields(latest.memory))
    if request.partial:
        preview = _preview(request, latest, panel, request.query.get("agent", ""))
        return request.show("skill_preview.html", skill=latest, **preview)
    return request.show("skill.html", **_skill_shown(request, latest, panel, request.query), problem="")


def _latest(request: PageRequest) -> SkillAnswer:
    id_ = request.value("skill")
    try:
        return request.ask(show_skill, read_question(ShowSkill, id=id_))
    except (Invalid, Unknown):
        raise Unknown("skill", "skill", id_, "Choose one from the list of agents") from None


def _agents(request: PageRequest, skill: str) -> list[AgentAnswer]:
    return [agent for agent in request.ask(list_agents, OfOwner()).agents if agent.skill == skill]


def _skill_shown(request: PageRequest, latest: SkillAnswer, panel: MemoryForm, query: Mapping[str, str]) -> dict[str, Any]:
    version = whole_number("version", query.get("version", ""))
    shown = request.ask(show_skill, read_question(ShowSkill, id=latest.id, version=version)) if version else latest
    agents = _agents(request, latest.id)
    return {
        "skill": latest, "shown": shown, "agents": agents, "versions": _versions(request, latest, agents), "panel": panel,
        "cadences": words.CADENCES, "models": MODELS, "saved": query.get("saved", ""),
        **_preview(request, latest, panel, query.get("agent", "")),
    }  # fmt: skip


def _versions(request: PageRequest, latest: SkillAnswer, agents: Sequence[AgentAnswer]) -> list[SkillVersion]:
    """The latest versions, newest first."""
    first = max(1, latest.version - VERSIONS_LISTED)
    every = {n: request.ask(show_skill, ShowSkill(id=latest.id, version=n)) for n in range(first, latest.version + 1)}
    return [
        SkillVersion(n, list(skill_changes(every[n - 1], every[n])) if n - 1 in every else ["the first"] if n == 1 else [],
                     [agent.id for agent in agents if agent.skill_version == n])
        for n in sorted(every, reverse=True)
    ]  # fmt: skip


def _preview(request: PageRequest, skill: SkillAnswer, panel: MemoryForm, agent: str) -> dict[str, Any]:
    """What one of the agents would see: the named one, else the one with the longest log."""
    agents = sorted(_agents(request, skill.id), key=lambda one: (-one.log_rows, one.id))
    chosen = next((one for one in agents if one.id == agent), agents[0] if agents else None)
    empty: dict[str, Any] = {"brief": None, "tokens": None, "lines": (), "previewed": chosen, "preview_problem": ""}
    if chosen is None:
        return empty
    try:
        brief = request.ask(preview_brief, read_question(PreviewBrief, agent=chosen.id, memory=panel.config()))
    except (Conflict, Invalid) as error:
        return empty | {"preview_problem": str(error)}
    lines = brief_text_lines(brief, f"/agents/{chosen.id}")
    return empty | {"brief": brief, "tokens": brief_token_bar(brief), "lines": lines}


def skill_changes(before: SkillAnswer, after: SkillAnswer) -> Iterator[str]:
    """What a version changed from the one before, in words.

    >>> old = SkillAnswer(id="s", version=1, name="", strategy="Buy.", avoid=[], limits={},
    ...                   memory={"recentTradesK": 10, "reflection": {"model": "stats"}})
    >>> new = SkillAnswer(**{**old.model_dump(), "strategy": "Sell.",
    ...                      "memory": {"recentTradesK": 5, "reflection": {"model": "stats"}}})
    >>> list(skill_changes(old, new))
    ['strategy', 'recentTradesK 10 to 5']
    """
    yield from (name for name in ("name", "strategy", "avoid", "limits") if getattr(before, name) != getattr(after, name))
    old, new = ({**memory, **memory["reflection"]} for memory in (row_fields(before.memory), row_fields(after.memory)))
    for name in new:
        if name != "reflection" and old.get(name) != new[name]:
            yield f"{name} {_setting_text(old.get(name))} to {_setting_text(new[name])}"


def _setting_text(value: object) -> str:
    return "never" if value is None else ("on" if value else "off") if isinstance(value, bool) else str(value)


# ---- writing -------------------------------------------------------------------------------------------------------------


def _with_problem(request: PageRequest, error: MemtapeError) -> Response:
    """The page with the problem above it, and everything as it was typed."""
    latest = _latest(request)
    panel = MemoryForm.read(request.form) if "edit" in request.form else MemoryForm.of(row_fields(latest.memory))
    shown = _skill_shown(request, latest, panel, {"agent": request.form.get("agent", "")})
    return request.show("skill.html", error_report(error).status, **shown, problem=str(error))


@form("/skills/{skill}/memory", on_error=_with_problem)
def save_memory_form(request: PageRequest) -> Response:
    """Saves the panel as the next version of the skill, unless somebody else has made a version meanwhile."""
    latest = _latest(request)
    if request.form.get("version") != str(latest.version):
        raise Conflict("version", f"version {latest.version} was made meanwhile", "Look at it and change it again")
    same = {name: getattr(latest, name) for name in ("id", "name", "strategy", "avoid", "limits")}
    made = request.ask(create_skill, read_question(CreateSkill, **same, memory=MemoryForm.read(request.form).config()))
    return RedirectResponse(f"/skills/{latest.id}?saved={made.version}#agents", 303)


@form("/skills/{skill}/use", on_error=_with_problem)
def use_version_form(request: PageRequest) -> Response:
    """Lets one agent of the skill run another version."""
    latest, agent = _latest(request), request.form.get("agent", "")
    if agent not in {one.id for one in _agents(request, latest.id)}:
        raise Unknown("agent", "agent of this skill", agent, "Choose one from the list below")
    request.ask(use_skill_version, read_question(UseSkillVersion, id=agent, skill_version=request.form.get("version", "")))
    return RedirectResponse(f"/skills/{latest.id}#agents", 303)
