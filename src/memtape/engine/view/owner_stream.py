"""What the owner's stream states: skills in their versions, agents; as far as a cutoff allows. The calendar: `events`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from memtape.core.near_names import meant
from memtape.core.skills import Agent, Skill
from memtape.core.values import read
from memtape.errors import Unknown
from memtape.store.cutoff import EVERYTHING, Cutoff

if TYPE_CHECKING:
    from memtape.core.items import StoredItem
    from memtape.engine.view.view import View
    from memtape.store.tables import Tables

INSTANT = timedelta(microseconds=1)
MAX_NAMED_AGENTS = 12  # in an error


def skill_from_item(item: StoredItem) -> tuple[Skill, int]:
    """A skill and its version, as they were stated."""
    body = dict(item.body)
    version = body.pop("version")
    return read(Skill, body), int(version)


def skill_versions(owner: Tables, id: str, cutoff: Cutoff = EVERYTHING) -> list[Skill]:
    """The versions of a skill, in order."""
    found = [skill_from_item(item) for item in owner.items("skill", cutoff, symbol=id)]
    return [skill for skill, _ in sorted(found, key=lambda pair: pair[1])]


def find_agent(owner: Tables, id: str, cutoff: Cutoff = EVERYTHING) -> Agent | None:
    """An agent with the skill version that it runs; None if it does not exist or was deleted."""
    found = owner.items("agent", cutoff, keys=[id])
    if not found or owner.items("agent_deleted", cutoff, keys=[id]):
        return None
    agent = read(Agent, found[0].body)
    changes = owner.items("agent_version", cutoff, symbol=id, newest=True, limit=1)
    return replace(agent, skill_version=changes[0].body["skill_version"]) if changes else agent


def agent_named(owner: Tables, id: str, cutoff: Cutoff = EVERYTHING) -> Agent:
    """An agent by its id; raises Unknown if there is none."""
    found = find_agent(owner, id, cutoff)
    if found is None:
        raise unknown_agent(owner, id, cutoff)
    return found


def agent_ids(owner: Tables, cutoff: Cutoff = EVERYTHING) -> list[str]:
    """The agents that exist, by id."""
    deleted = {item.key for item in owner.items("agent_deleted", cutoff)}
    return sorted(item.key for item in owner.items("agent", cutoff) if item.key not in deleted)


def other_agents(ids: Sequence[str], wanted: str) -> str:
    """What to do if an agent does not exist: the nearest name, or those that exist.

    >>> other_agents(["gold", "swing"], "golt"), other_agents(["gold", "swing"], "main"), other_agents([], "main")
    ('Did you mean gold?', 'There are: gold, swing', 'There is none yet: the owner creates one with create_agent')
    """
    if near := meant(wanted, ids):
        return near
    if not ids:
        return "There is none yet: the owner creates one with create_agent"
    more = f" and {len(ids) - MAX_NAMED_AGENTS} more" if len(ids) > MAX_NAMED_AGENTS else ""
    return f"There are: {', '.join(ids[:MAX_NAMED_AGENTS])}{more}"


def unknown_agent(owner: Tables, id: str, cutoff: Cutoff = EVERYTHING) -> Unknown:
    """The error for an agent that does not exist, with the agents that may be meant or that exist."""
    return Unknown("agent", "agent", id, other_agents(agent_ids(owner, cutoff), id))


def unknown_skill(owner: Tables, id: str, cutoff: Cutoff = EVERYTHING, fix: str = "List them with list_skills") -> Unknown:
    """The error for a skill that does not exist, with the skills that may be meant."""
    known = dict.fromkeys(item.symbol for item in owner.items("skill", cutoff))
    return Unknown("skill", "skill", id, " ".join(filter(None, (meant(id, known), fix))))


def skill_of(owner: Tables, agent: Agent, cutoff: Cutoff = EVERYTHING) -> tuple[Skill, int]:
    """The skill that an agent runs, in the version it runs; before its first write, an empty one."""
    versions = skill_versions(owner, agent.skill, cutoff)
    if not versions:
        return Skill(id=agent.skill), 1
    version = min(agent.skill_version, len(versions))
    return versions[version - 1], version


def agent_and_skill(view: View) -> tuple[Agent, Skill, int]:
    """The agent of a view and its skill, as the owner had stated them."""
    # In a simulation the owner's statements are made by another clock than the agent's: only `owner_head` limits them.
    as_of = None if view.agent.mode == "sim" else view.as_of
    cutoff = Cutoff(as_of, view.cutoff.owner_head)
    agent = find_agent(view.owner_tables, view.agent.id, cutoff) or replace(view.agent, skill_version=1)
    return (agent, *skill_of(view.owner_tables, agent, cutoff))
