"""How agents are run: their configuration, and the card types that decisions may use. Both are statements of the owner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memtape.core.codec import plain
from memtape.core.decisions.agent_config import AgentConfig, ConfiguredAgent, change_config, refuse_circle
from memtape.core.decisions.cards import CardDefinition, read_card_type
from memtape.core.decisions.schedules import parse_schedule
from memtape.core.items import OWNER_STREAM
from memtape.engine.arguments import require_mapping
from memtape.engine.owner_statements import record_statement
from memtape.engine.resources import Resources
from memtape.engine.view.agent_config import card_type, card_types, configured_agent
from memtape.engine.view.owner_stream import agent_named
from memtape.store.cutoff import EVERYTHING, Cutoff
from memtape.store.tables import Tables


class AgentConfigs:
    """The configurations of one owner's agents."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources

    def change(self, id: str, changes: Mapping[str, Any]) -> ConfiguredAgent:
        """Change how an agent is run; what `changes` does not name stays as it is. Returns the configuration in force."""
        with self._resources.writing(OWNER_STREAM) as tables:
            agent_named(tables, id)
            current = configured_agent(tables, id)
            wanted = change_config(current.config, require_mapping("changes", changes))
            _check_config(tables, id, wanted)
            if wanted != current.config:
                key = f"{id}#{current.version + 1}"
                record_statement(self._resources, tables, "agent_config", key, plain(wanted), symbol=id)
            return configured_agent(tables, id)

    def config_of(self, id: str, cutoff: Cutoff = EVERYTHING) -> ConfiguredAgent:
        """How an agent is run."""
        with self._resources.reading(OWNER_STREAM) as tables:
            return configured_agent(tables, agent_named(tables, id, cutoff).id, cutoff)

    def declare_card_type(self, declared: CardDefinition | Mapping[str, Any]) -> CardDefinition:
        """Declare a card type, or change its slots; cards on record keep theirs."""
        card = read_card_type(plain(declared) if isinstance(declared, CardDefinition) else require_mapping("card", declared))
        with self._resources.writing(OWNER_STREAM) as tables:
            if card_types(tables).get(card.name) != card:
                number = len(tables.items("card_type", EVERYTHING, symbol=card.name)) + 1
                key = f"{card.name}#{number}"
                record_statement(self._resources, tables, "card_type", key, plain(card), symbol=card.name)
        return card

    def card_types(self, cutoff: Cutoff = EVERYTHING) -> dict[str, CardDefinition]:
        """Every card type by its name, those that ship included."""
        with self._resources.reading(OWNER_STREAM) as tables:
            return card_types(tables, cutoff)


def _check_config(tables: Tables, id: str, wanted: AgentConfig) -> None:
    """Refuse a schedule that never fires, a council that does not exist or forms a circle, and an unknown card."""
    if wanted.schedule is not None:
        parse_schedule(wanted.schedule)
    if wanted.card:
        card_type(tables, wanted.card)
    for member in wanted.members:
        agent_named(tables, member)
    refuse_circle(id, wanted.members, lambda member: configured_agent(tables, member).config.members)
