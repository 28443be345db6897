"""How an agent is run, as its owner stated it, and the card types that the owner declared."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from memtape.core.decisions.agent_config import DEFAULT_CONFIG, AgentConfig, ConfiguredAgent
from memtape.core.decisions.cards import BUILT_IN_CARDS, CardDefinition
from memtape.core.values import read
from memtape.errors import Unknown
from memtape.store.cutoff import EVERYTHING

if TYPE_CHECKING:
    from memtape.core.items import StoredItem
    from memtape.store.cutoff import Cutoff
    from memtape.store.tables import Tables


def stated_configs(owner: Tables, agent: str, cutoff: Cutoff = EVERYTHING) -> list[StoredItem]:
    """Every configuration of an agent, oldest first."""
    return sorted(owner.items("agent_config", cutoff, symbol=agent), key=lambda item: item.seq)


def configured_agent(owner: Tables, agent: str, cutoff: Cutoff = EVERYTHING) -> ConfiguredAgent:
    """The configuration of an agent in force; the default one before the owner has stated any."""
    stated = stated_configs(owner, agent, cutoff)
    if not stated:
        return ConfiguredAgent(DEFAULT_CONFIG, 0, None, None)
    config = read(AgentConfig, stated[-1].body)
    since: datetime | None = None
    for item in reversed(stated):
        # Without a runner it could not fire, and must not make up for that at once when it gets one.
        if item.body.get("schedule") != config.schedule or item.body.get("runner") is None:
            break
        since = item.known_at
    return ConfiguredAgent(config, len(stated), stated[-1].known_at, since)


def card_types(owner: Tables, cutoff: Cutoff = EVERYTHING) -> dict[str, CardDefinition]:
    """Every card type by its name: those that ship, and those that the owner declared, each as it was declared last."""
    found = {card.name: card for card in BUILT_IN_CARDS}
    for item in sorted(owner.items("card_type", cutoff), key=lambda item: item.seq):
        found[item.symbol] = read(CardDefinition, item.body)
    return found


def card_type(owner: Tables, name: str) -> CardDefinition:
    """The card type of a name; raises Unknown if there is none."""
    known = card_types(owner)
    if name not in known:
        raise Unknown(
            "card", "card type", name, f"Known are {', '.join(sorted(known))}; declare others with: memtape cards add FILE"
        )
    return known[name]
