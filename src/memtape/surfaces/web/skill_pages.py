"""The page of a skill: its text, its limits, its versions, and the panel that says what of memory its agents are shown.

    /skills/{skill}                the skill; ?version= an earlier one; the panel's own fields preview what is typed there
    POST /skills/{skill}/memory    keep the panel as a new version of the skill, its text unchanged
    POST /skills/{skill}/use       let an agent run a version from now on

Asked for by htmx, the address gives only the preview: what one of its agents would see under the panel as it stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from memtape.errors import Conflict, Invalid, MemtapeError, Unknown
from memtape.surfaces.translate import error_report
from memtape.surfaces.web import brief_lines, words
from memtape.surfaces.web.brief_lines import whole
from memtape.surfaces.web.desk import Desk, Writes, only_a_part

VERSIONS = 30  # listed
MODELS = ("stats", "anthropic/claude-haiku-4-5")


@dataclass(frozen=True, slots=True)
class MemoryForm:
    """The memory config as its form has it: text as it was typed, and what is ticked."""

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
        """From a form; a box that is not ticked is not sent."""
        return cls(**{field.name: form.get(field.name, "").strip() for field in fields(cls)})

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> MemoryForm:
        """Of a config.

        >>> drawn = {"cadence": "off", "everyNTrades": 10, "dailyHourUtc": 0, "model": "stats", "expireDays": 90}
        >>> config = {"enabled": True, "recentTradesK": 10, "includeOpenPositions": False, "similarSituations": False}
        >>> MemoryForm.of({**config, "reflection": drawn}).config() == {**config, "reflection": drawn}
        True
        """
        said = {**config, **config["reflection"]}
        told = {field.name: said.get(field.name) for field in fields(cls)}
        return cls(**{name: ("1" if value else "") if isinstance(value, bool) else _text(value) for name, value in told.items()})

    def config(self) -> dict[str, Any]:
        """As the operations take it."""
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
        number = whole(name, getattr(self, name))
        if number is None:
            raise Invalid(name, "is empty", "Write a whole number")
        return number


def _text(value: object) -> str:
    return "" if value is None else str(value)


class SkillVersion(NamedTuple):
    """A version of a skill, what it changed of the one before, and who runs it."""

    version: int
    changed: Sequence[str]
    agents: Sequence[str]


class SkillPages:
    """The skills of one memory."""

    def __init__(self, desk: Desk) -> None:
        self._desk, self._ask = desk, desk.ask

    def routes(self) -> list[BaseRoute]:
        """Every address."""
        path = "/skills/{skill}"
        return [
            Route(path, self._desk.page(self.skill)),
            Route(f"{path}/memory", self._desk.writing(self._said(self._keep)), methods=["POST"]),
            Route(f"{path}/use", self._desk.writing(self._said(self._use)), methods=["POST"]),
        ]

    # ---- reading --------------------------------------------------------------------------------------------------

    def skill(self, request: Request) -> Response:
        """The skill and the panel, or only what the panel would make an agent see."""
        latest = self._latest(request)
        query = request.query_params
        panel = MemoryForm.read(query) if "edit" in query else MemoryForm.of(latest["memory"])
        if only_a_part(request):
            return self._desk.show("skill_preview.html", skill=latest, **self._preview(latest, panel, query.get("agent", "")))
        return self._desk.show("skill.html", **self._shown(latest, panel, query), problem="")

    def _latest(self, request: Request) -> dict[str, Any]:
        id_ = request.path_params["skill"]
        try:
            return self._ask("show_skill", id=id_)
        except (Invalid, Unknown):
            raise Unknown("skill", "skill", id_, "Choose one from the list of agents") from None

    def _agents(self, skill: str) -> list[dict[str, Any]]:
        return [agent for agent in self._ask("list_agents")["agents"] if agent["skill"] == skill]

    def _shown(self, latest: Mapping[str, Any], panel: MemoryForm, query: Mapping[str, str]) -> dict[str, Any]:
        asked = whole("version", query.get("version", ""))
        looked = self._ask("show_skill", id=latest["id"], version=asked) if asked else latest
        agents = self._agents(latest["id"])
        return {
            "skill": latest, "looked": looked, "agents": agents, "versions": self._versions(latest, agents), "panel": panel,
            "cadences": words.CADENCES, "models": MODELS, "saved": query.get("saved", ""),
            **self._preview(latest, panel, query.get("agent", "")),
        }  # fmt: skip

    def _versions(self, latest: Mapping[str, Any], agents: Sequence[Mapping[str, Any]]) -> list[SkillVersion]:
        """The latest versions, newest first."""
        first = max(1, latest["version"] - VERSIONS)
        every = {n: self._ask("show_skill", id=latest["id"], version=n) for n in range(first, latest["version"] + 1)}
        return [
            SkillVersion(n, list(changes(every[n - 1], every[n])) if n - 1 in every else ["the first"] if n == 1 else [],
                    [agent["id"] for agent in agents if agent["skill_version"] == n])
            for n in sorted(every, reverse=True)
        ]  # fmt: skip

    def _preview(self, skill: Mapping[str, Any], panel: MemoryForm, agent: str) -> dict[str, Any]:
        """What one of its agents would see: the one asked for, else the one that has observed most."""
        agents = sorted(self._agents(skill["id"]), key=lambda one: (-one["log_rows"], one["id"]))
        chosen = next((one for one in agents if one["id"] == agent), agents[0] if agents else None)
        told: dict[str, Any] = {"brief": None, "weight": None, "lines": (), "previewed": chosen, "preview_problem": ""}
        if chosen is None:
            return told
        try:
            brief = self._ask("preview_brief", chosen["id"], memory=panel.config())
        except (Conflict, Invalid) as error:
            return told | {"preview_problem": str(error)}
        path = f"/agents/{chosen['id']}"
        return told | {"brief": brief, "weight": brief_lines.token_bar(brief), "lines": brief_lines.brief_text_lines(brief, path)}

    # ---- the owner's hand -----------------------------------------------------------------------------------------

    def _said(self, do: Writes) -> Writes:
        """What a form does; what is wrong with it is said beside it, with everything as it was typed."""

        def answer(request: Request, form: Mapping[str, str]) -> Response:
            latest = self._latest(request)
            try:
                return do(request, form)
            except (Conflict, Invalid, Unknown) as error:
                return self._again(latest, form, error)

        return answer

    def _again(self, latest: Mapping[str, Any], form: Mapping[str, str], error: MemtapeError) -> Response:
        panel = MemoryForm.read(form) if "edit" in form else MemoryForm.of(latest["memory"])
        shown = self._shown(latest, panel, {"agent": form.get("agent", "")})
        return self._desk.show("skill.html", error_report(error).status, **shown, problem=str(error))

    def _keep(self, request: Request, form: Mapping[str, str]) -> Response:
        """The panel as the skill's next version. One that somebody else has made meanwhile is not overwritten unseen."""
        latest = self._latest(request)
        if form.get("version") != str(latest["version"]):
            raise Conflict("version", f"version {latest['version']} has been made meanwhile", "Look at it and change it again")
        text = {name: latest[name] for name in ("id", "name", "strategy", "avoid", "limits")}
        made = self._ask("create_skill", **text, memory=MemoryForm.read(form).config())
        return RedirectResponse(f"/skills/{latest['id']}?saved={made['version']}#agents", 303)

    def _use(self, request: Request, form: Mapping[str, str]) -> Response:
        """Another version for one agent of the skill."""
        latest = self._latest(request)
        if form.get("agent") not in {agent["id"] for agent in self._agents(latest["id"])}:
            raise Unknown("agent", "agent of this skill", form.get("agent", ""), "Choose one from the list below")
        self._ask("use_skill_version", id=form["agent"], skill_version=form.get("version", ""))
        return RedirectResponse(f"/skills/{latest['id']}#agents", 303)


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """What one version changed of the one before, in words.

    >>> drawn = {"reflection": {"model": "stats"}}
    >>> old = {"name": "", "strategy": "Buy.", "avoid": [], "limits": {}, "memory": {"recentTradesK": 10, **drawn}}
    >>> new = {**old, "strategy": "Sell.", "memory": {"recentTradesK": 5, **drawn}}
    >>> list(changes(old, new))
    ['strategy', 'recentTradesK 10 to 5']
    """
    yield from (name for name in ("name", "strategy", "avoid", "limits") if before[name] != after[name])
    old, new = ({**one["memory"], **one["memory"]["reflection"]} for one in (before, after))
    for name in new:
        if name != "reflection" and old.get(name) != new[name]:
            yield f"{name} {_told(old.get(name))} to {_told(new[name])}"


def _told(value: object) -> str:
    return "never" if value is None else ("on" if value else "off") if isinstance(value, bool) else str(value)
