"""The facts about the owner, as the owner's stream states them; as far as a cutoff allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memtape.core.facts import FACT_KINDS, fold_facts
from memtape.errors import Unknown
from memtape.store.cutoff import EVERYTHING

if TYPE_CHECKING:
    from memtape.core.facts import Fact
    from memtape.store.cutoff import Cutoff
    from memtape.store.tables import Tables


def owner_facts(owner: Tables, cutoff: Cutoff = EVERYTHING) -> list[Fact]:
    """Every fact, archived ones included, in the order of their creation."""
    return fold_facts(owner.items_of(FACT_KINDS, cutoff))


def fact_named(owner: Tables, id: str, cutoff: Cutoff = EVERYTHING) -> Fact:
    """A fact by its id; raises Unknown if there is none."""
    found = next((fact for fact in owner_facts(owner, cutoff) if fact.id == id), None)
    if found is None:
        raise Unknown("fact_id", "fact", id, "The owner can list them with list_facts, or on the page /profile/facts")
    return found
