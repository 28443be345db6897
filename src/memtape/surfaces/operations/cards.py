"""Operations on card types: the forms that decisions may have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from memtape.core.codec import plain
from memtape.core.decisions.cards import BUILT_IN_CARDS, CardDefinition, SlotDefinition
from memtape.surfaces.answer_models import Answer, answer_model
from memtape.surfaces.questions import Ask, OfOwner
from memtape.surfaces.registry import operation

if TYPE_CHECKING:
    from memtape.engine import Memory
    from memtape.surfaces.caller import Caller

SlotRow = answer_model(
    SlotDefinition,
    {
        "name": "the slot", "kind": "text, number, list or choice", "required": "true: a card without it is refused",
        "choices": "of a choice: the words that may be chosen", "help": "what belongs into it",
    },
)  # fmt: skip


class CardTypeRow(Answer):
    """A card type."""

    name: Annotated[str, Field(description="its name: the field `card` of a decision")]
    help: Annotated[str, Field(description="what it is for")]
    slots: Annotated[list[SlotRow], Field(description="its slots")]  # type: ignore[valid-type]
    reExaminable: Annotated[bool | str | None, Field(description="true, until_resolved, or null: never examined again")]
    reExamineActions: Annotated[list[str], Field(description="what a re-examination may suggest; empty: any short word")]
    built_in: Annotated[bool, Field(description="true: it ships with memtape")]


class CardTypeList(Answer):
    """Card types."""

    card_types: Annotated[list[CardTypeRow], Field(description="by name")]
    n: Annotated[int, Field(description="how many")]


class DeclareCardType(Ask):
    """A card type to declare."""

    card: Annotated[
        dict[str, Any],
        Field(
            description="name, slots (each with name, kind text|number|list|choice, required, choices, help), help, "
            "reExaminable (true or until_resolved), reExamineActions (uppercase words)"
        ),
    ]


def _card_type_row(card: CardDefinition) -> CardTypeRow:
    return CardTypeRow(
        name=card.name, help=card.help, slots=[SlotRow(**plain(slot)) for slot in card.slots], reExaminable=card.reExaminable,
        reExamineActions=list(card.reExamineActions), built_in=any(card.name == each.name for each in BUILT_IN_CARDS),
    )  # fmt: skip


@operation(writes=True)
def declare_card_type(memory: Memory, ask: DeclareCardType, caller: Caller) -> CardTypeRow:
    """Declare a card type, or change one that was declared: its slots, and whether it may be examined again. Owner only.

    Decisions on record stay as they are. The types that ship with memtape cannot be changed.
    """
    return _card_type_row(memory.declare_card_type(ask.card))


@operation(writes=False, columns=("name", "reExaminable", "reExamineActions", "help"))
def list_card_types(memory: Memory, ask: OfOwner, caller: Caller) -> CardTypeList:
    """List the card types that a decision may have, with their slots."""
    found = [_card_type_row(card) for _, card in sorted(memory.card_types(ask.cutoff).items())]
    return CardTypeList(card_types=found, n=len(found))
