"""The owner's chats and proposed strategies, as the owner's stream states them; as far as a cutoff allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memtape.core.chats import CARD_KINDS, CHAT_KINDS, fold_chats, fold_strategy_cards
from memtape.errors import Unknown
from memtape.store.cutoff import EVERYTHING

if TYPE_CHECKING:
    from memtape.core.chats import Chat, StrategyCard
    from memtape.core.items import StoredItem
    from memtape.store.cutoff import Cutoff
    from memtape.store.tables import Tables


def owner_chats(owner: Tables, cutoff: Cutoff = EVERYTHING) -> list[Chat]:
    """Every chat that was not deleted, in the order in which they began."""
    return fold_chats(owner.items_of(CHAT_KINDS, cutoff))


def chat_named(owner: Tables, id: str, cutoff: Cutoff = EVERYTHING) -> Chat:
    """A chat by its id, read without the others; raises Unknown if there is none."""
    start = owner.items("chat", cutoff, keys=[id], limit=1)
    if not start:
        raise Unknown("chat", "chat", id, "List them with list_chats")
    items: list[StoredItem] = [*start]
    for kind in ("chat_turn", "chat_turn_end"):
        items += owner.items(kind, cutoff, symbol=id)
    # A card is superseded by any later one of its skill, also by one of another chat: all of them are needed.
    return fold_chats([*items, *_card_items(owner, cutoff)])[0]


def strategy_card_named(owner: Tables, id: str, cutoff: Cutoff = EVERYTHING) -> StrategyCard:
    """A proposed strategy by its id; raises Unknown if there is none."""
    found = next((card for card in fold_strategy_cards(_card_items(owner, cutoff)) if card.id == id), None)
    if found is None:
        raise Unknown("card", "strategy card", id, "get_chat shows those of a chat")
    return found


def _card_items(owner: Tables, cutoff: Cutoff) -> list[StoredItem]:
    return owner.items_of(CARD_KINDS, cutoff)
