"""The pages that make an agent and change how it is run.

    /agents/new                          a form for a new agent: its id, skill and mode, and how it is run
    POST /agents/create                  make it
    /agents/{agent}/edit                 how an agent is run; with ?saved=1 what was saved, and when it runs next
    POST /agents/{agent}/configure       save that as the next version of its configuration

Every wrong field is named beside it, and what was typed stays. A box that is not ticked is not sent by a browser: absent is off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, cast

from starlette.responses import RedirectResponse, Response

from memtape.core.decisions.agent_config import DEFAULT_CONFIG, DEFAULT_PROMPT, AgentConfig, change_config
from memtape.core.decisions.schedules import parse_schedule
from memtape.errors import FieldProblem, Invalid, MemtapeError
from memtape.surfaces.operations.agents import CreateAgent, create_agent, list_agents
from memtape.surfaces.operations.cards import list_card_types
from memtape.surfaces.operations.runs import ConfigureAgent, ShowConfig, configure_agent, get_agent_config
from memtape.surfaces.operations.skills import CreateSkill, create_skill, list_skills
from memtape.surfaces.questions import OfOwner
from memtape.surfaces.run_host import checked_runner_name
from memtape.surfaces.translate import error_report
from memtape.surfaces.web.forms import field_problems, read_question, row_fields, whole_number
from memtape.surfaces.web.register import form, page
from memtape.surfaces.web.site import PageRequest

NEW_AGENT = "new"  # the address of the form, so no agent made here can have this name
NEW_SKILL = ""  # the value of the choice that makes a skill
RUNNERS: Mapping[str, str] = {
    "claude": "the Claude Code command line of this machine",
    "llm": "a model by its API: Anthropic, or compatible with OpenAI",
}


@dataclass(frozen=True, slots=True)
class AgentForm:
    """The form as it was typed: texts, and boxes that are ticked or not."""

    id: str = ""
    skill: str = NEW_SKILL
    skill_id: str = ""
    strategy: str = ""
    mode: str = "paper"
    active_memory: str = ""
    review_decisions: str = ""
    runner: str = ""
    model: str = ""
    default_prompt: str = DEFAULT_PROMPT
    schedule: str = ""
    members: str = ""
    budget_usd_per_day: str = ""
    runs_per_day: str = ""
    card: str = DEFAULT_CONFIG.card or ""

    @classmethod
    def read(cls, form: Mapping[str, str]) -> AgentForm:
        """From what a browser sent; it ends the lines of a text with two characters."""
        return cls(**{each.name: form.get(each.name, "").replace("\r\n", "\n").strip() for each in fields(cls)})

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> AgentForm:
        """From a configuration.

        >>> AgentForm.of({"active_memory": True, "schedule": None, "members": ["macro", "flow"], "runs_per_day": 9}).members
        'macro, flow'
        """
        known = {each.name for each in fields(cls)}
        return cls(**{name: _typed(value) for name, value in config.items() if name in known})

    def config(self) -> dict[str, Any]:
        """The configuration that it states; None where a field is empty. Raises Invalid for a number that is none."""
        return {
            "active_memory": bool(self.active_memory), "review_decisions": bool(self.review_decisions),
            "runner": self.runner or None, "model": self.model or None, "default_prompt": self.default_prompt or DEFAULT_PROMPT,
            "schedule": self.schedule or None, "members": self.members.replace(",", " ").split(),
            "budget_usd_per_day": self.budget_usd_per_day or None,
            "runs_per_day": whole_number("runs_per_day", self.runs_per_day), "card": self.card,
        }  # fmt: skip

    def question(self, agent: str) -> ConfigureAgent:
        """The question that states this configuration of an agent; the operation has a word of its own for `none`."""
        stated = {name: "" if value is None else value for name, value in self.config().items()}
        runs = stated.pop("runs_per_day")
        return read_question(ConfigureAgent, agent=agent, **stated, runs_per_day=-1 if runs == "" else runs)


def _typed(value: object) -> str:
    if isinstance(value, bool):
        return "1" if value else ""
    if isinstance(value, list | tuple):
        return ", ".join(str(each) for each in value)
    return "" if value is None else str(value)


# ---- reading -------------------------------------------------------------------------------------------------------------


@page("/agents/new")
def new_agent_page(request: PageRequest) -> Response:
    """The empty form of a new agent."""
    skills = request.ask(list_skills, OfOwner()).skills
    return _new_shown(request, AgentForm(skill=skills[0].id if skills else NEW_SKILL))


def _new_shown(request: PageRequest, typed: AgentForm, status: int = 200, wrong: Mapping[str, str] | None = None) -> Response:
    skills = request.ask(list_skills, OfOwner()).skills
    return request.show("new_agent.html", status, **_choices(request, typed, wrong or {}), skills=skills)


@page("/agents/{agent}/edit", within="Overview")
def edit_agent_page(request: PageRequest) -> Response:
    """How an agent is run."""
    found = request.ask(get_agent_config, ShowConfig(agent=request.agent.id))
    return _edit_shown(request, AgentForm.of(row_fields(found.config)))


def _edit_shown(request: PageRequest, typed: AgentForm, status: int = 200, wrong: Mapping[str, str] | None = None) -> Response:
    found = request.ask(get_agent_config, ShowConfig(agent=request.agent.id))
    saved = request.query.get("saved", "") if wrong is None else ""
    return request.show(
        "edit_agent.html", status, **_choices(request, typed, wrong or {}), found=found, saved=saved,
        # The row has the fields of the configuration that it mirrors.
        schedule=cast("AgentConfig", found.config).schedule,
    )  # fmt: skip


def _choices(request: PageRequest, typed: AgentForm, wrong: Mapping[str, str]) -> dict[str, Any]:
    own = request.http.path_params.get("agent", typed.id)
    known = {each.name for each in fields(AgentForm)}
    return {
        "typed": typed, "wrong": wrong, "problem": "; ".join(text for name, text in wrong.items() if name not in known),
        "cards": request.ask(list_card_types, OfOwner()).card_types, "runners": RUNNERS, "default_prompt": DEFAULT_PROMPT,
        "others": [agent.id for agent in request.ask(list_agents, OfOwner()).agents if agent.id != own],
    }  # fmt: skip


# ---- writing -------------------------------------------------------------------------------------------------------------


def _new_with_problem(request: PageRequest, error: MemtapeError) -> Response:
    return _new_shown(request, AgentForm.read(request.form), error_report(error).status, field_problems(error))


@form("/agents/create", on_error=_new_with_problem)
def create_agent_form(request: PageRequest) -> Response:
    """Makes an agent, and its skill if that is new. Everything is checked first: a wrong field leaves nothing half made."""
    typed = AgentForm.read(request.form)
    wanted, skill = _checked(_new_problems(request, typed), lambda: _new_agent(typed))
    if skill is not None:
        request.ask(create_skill, skill)
    request.ask(create_agent, wanted)
    request.ask(configure_agent, typed.question(wanted.id))
    return RedirectResponse(f"/agents/{wanted.id}/edit?saved=new", 303)


def _edit_with_problem(request: PageRequest, error: MemtapeError) -> Response:
    return _edit_shown(request, AgentForm.read(request.form), error_report(error).status, field_problems(error))


@form("/agents/{agent}/configure", within="Overview", on_error=_edit_with_problem)
def configure_agent_form(request: PageRequest) -> Response:
    """Saves how an agent is run."""
    typed = AgentForm.read(request.form)
    question = _checked(_config_problems(request, typed, request.agent.id), lambda: typed.question(request.agent.id))
    request.ask(configure_agent, question)
    return RedirectResponse(f"{request.agent_path}/edit?saved=1", 303)


def _checked(problems: Iterator[FieldProblem], make: Callable[[], Any]) -> Any:
    """What `make` returns, if there is no problem; else raises one Invalid with all of them."""
    found = list(problems)
    if found:
        raise Invalid(*found[0], *found[1:])
    return make()


def _new_agent(typed: AgentForm) -> tuple[CreateAgent, CreateSkill | None]:
    own = typed.skill == NEW_SKILL
    skill = read_question(CreateSkill, id=typed.skill_id, strategy=typed.strategy) if own else None
    return read_question(CreateAgent, id=typed.id, skill=typed.skill_id if own else typed.skill, mode=typed.mode), skill


def _new_problems(request: PageRequest, typed: AgentForm) -> Iterator[FieldProblem]:
    """Everything that keeps a new agent from being made."""
    agents = {agent.id for agent in request.ask(list_agents, OfOwner()).agents}
    skills = {skill.id for skill in request.ask(list_skills, OfOwner()).skills}
    if not typed.id:
        yield FieldProblem("id", "is empty", "Write a short name, like gold-breakout")
    elif typed.id == NEW_AGENT:
        yield FieldProblem("id", "'new' is the address of this page", "Choose another name")
    elif typed.id in agents:
        yield FieldProblem("id", f"there is an agent '{typed.id}' already", "Choose another name, or edit that agent")
    else:
        yield from _raised(lambda: read_question(CreateAgent, id=typed.id, skill="any", mode=typed.mode))
    if typed.skill != NEW_SKILL:
        if typed.skill not in skills:
            yield FieldProblem("skill", f"there is no skill '{typed.skill}'", "Choose one from the list")
    elif not typed.skill_id:
        yield FieldProblem("skill_id", "is empty", "Write a short name, like breakout, or choose a skill above")
    elif typed.skill_id in skills:
        yield FieldProblem("skill_id", f"there is a skill '{typed.skill_id}' already", "Choose it above, or another name")
    else:
        wrong = _raised(lambda: read_question(CreateSkill, id=typed.skill_id, strategy=typed.strategy))
        yield from (each._replace(field="skill_id" if each.field == "id" else each.field) for each in wrong)
    yield from _config_problems(request, typed, typed.id)


def _config_problems(request: PageRequest, typed: AgentForm, agent: str) -> Iterator[FieldProblem]:
    """Everything that is wrong with a configuration, not only the first thing that the operation would refuse."""
    try:
        stated = typed.config()
    except Invalid as error:
        yield from error.errors
        stated = replace(typed, runs_per_day="").config()
    yield from _raised(lambda: change_config(DEFAULT_CONFIG, stated))
    if typed.runner:
        known = [each.id for each in request.ask(list_agents, OfOwner()).agents]
        found = request.ask(get_agent_config, ShowConfig(agent=agent)).config if agent in known else None
        current = cast("AgentConfig", found).runner if found is not None else None
        yield from _raised(lambda: checked_runner_name(typed.runner, typed.model or None, current=current, over_network=True))
    if typed.schedule:
        yield from _raised(lambda: parse_schedule(typed.schedule))
    agents = {each.id for each in request.ask(list_agents, OfOwner()).agents}
    for member in stated["members"]:
        if member == agent:
            yield FieldProblem("members", "an agent cannot sit in its own council", "Leave it out")
        elif member not in agents:
            yield FieldProblem("members", f"there is no agent '{member}'", "Make it first, or leave it out")
    if typed.card and typed.card not in {card.name for card in request.ask(list_card_types, OfOwner()).card_types}:
        yield FieldProblem("card", f"there is no card type '{typed.card}'", "Choose one from the list")


def _raised(check: Callable[[], object]) -> Iterator[FieldProblem]:
    try:
        check()
    except Invalid as error:
        yield from error.errors
