"""Strategies that a model proposes: a card waits for the owner, and only the owner's confirmation makes a version of the skill.

A card changes the words of a strategy and what to avoid. Limits, name and memory settings stay as they are.

>>> import memtape
>>> memory = memtape.open(":memory:")
>>> card = memory.strategies.propose("breakout", "Buy a close above the range.")
>>> memory.skills()
[]
>>> confirmed = memory.strategies.confirm(card.id)
>>> confirmed.version, memory.skill("breakout")[0].strategy
(1, 'Buy a close above the range.')
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memtape.core.chat_guard import Author
from memtape.core.chats import StrategyCard
from memtape.core.codec import make_id, plain
from memtape.core.items import OWNER_STREAM
from memtape.core.skills import Skill
from memtape.core.values import read
from memtape.engine.owner_statements import record_statement
from memtape.engine.resources import Resources
from memtape.engine.view.chats import strategy_card_named
from memtape.engine.view.owner_stream import skill_versions
from memtape.errors import Conflict, Invalid


class Strategies:
    """The proposed strategies of one owner."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources

    def get(self, id: str) -> StrategyCard:
        """One card; raises Unknown if there is none."""
        with self._resources.reading(OWNER_STREAM) as tables:
            return strategy_card_named(tables, id)

    def propose(
        self, skill: str, strategy: str, avoid: Sequence[str] | None = None, *, chat: str | None = None, author: Author = "owner"
    ) -> StrategyCard:
        """Make a card. The skill may be new; an earlier card of it that still waits is superseded."""
        if not strategy.strip():
            raise Invalid("strategy", "is empty", "Write the strategy in words")
        now = self._resources.clock.now()
        with self._resources.writing(OWNER_STREAM) as tables:
            versions = skill_versions(tables, skill)
            body = {
                "id": make_id(OWNER_STREAM, "strategy_card", tables.head().seq + 1), "at": now, "skill": skill,
                "base_version": len(versions), "strategy": strategy, "avoid": None if avoid is None else tuple(avoid),
                "chat": chat, "by": author,
            }  # fmt: skip
            card = read(StrategyCard, body)
            # What the owner would confirm must be a valid version of the skill.
            _next_version(versions, card)
            stated = {name: value for name, value in plain(card).items() if name not in ("status", "version")}
            record_statement(self._resources, tables, "strategy_card", card.id, stated, symbol=card.skill)
            return card

    def confirm(self, id: str) -> StrategyCard:
        """Make the version of the skill that a card proposes: one transaction. For the owner only.

        Raises Conflict if the card is superseded, or the skill has changed since.
        """
        with self._resources.writing(OWNER_STREAM) as tables:
            card = strategy_card_named(tables, id)
            if card.status == "confirmed":
                return card
            versions = skill_versions(tables, card.skill)
            if card.status == "superseded" or len(versions) != card.base_version:
                problem = f"the skill '{card.skill}' has a newer card or version than this one was written for"
                raise Conflict("card", problem, "Confirm the newer card, or ask for a new one")
            skill = _next_version(versions, card)
            version = len(versions)
            if not versions or versions[-1] != skill:
                version += 1
                body = plain(skill) | {"version": version}
                record_statement(self._resources, tables, "skill", f"{skill.id}@{version}", body, symbol=skill.id)
            confirmed = {"card": id, "version": version}
            record_statement(self._resources, tables, "strategy_confirmed", id, confirmed, symbol=card.skill)
            return replace(card, status="confirmed", version=version)


def _next_version(versions: Sequence[Skill], card: StrategyCard) -> Skill:
    """The skill with the words of a card, and everything else as it is."""
    current = versions[-1] if versions else read(Skill, {"id": card.skill})
    avoid = current.avoid if card.avoid is None else card.avoid
    return replace(current, strategy=card.strategy, avoid=avoid)
