"""Operations that correct, forget and erase. Each is an event in the log; what depends on it is recomputed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from memtape.core.codec import plain
from memtape.core.memory.episodes import Correction
from memtape.core.values import Key, Line, Slug
from memtape.surfaces.answer_models import Answer
from memtape.surfaces.answers import ReceiptAnswer, receipt_answer
from memtape.surfaces.questions import Ask, OfAgent, agent_of
from memtape.surfaces.registry import operation

if TYPE_CHECKING:
    from memtape.engine import Memory
    from memtape.surfaces.caller import Caller


class CorrectMemory(OfAgent):
    """Which memory, and the right values."""

    memory_id: Annotated[Key, Field(description="the id of its trade")]
    changes: Annotated[Correction, Field(description="fields and their right values")]
    reason: Annotated[Line, Field(description="why")] = ""


@operation(writes=True)
def correct_memory(memory: Memory, ask: CorrectMemory, caller: Caller) -> ReceiptAnswer:
    """Correct an episode. Beliefs, habits and state follow; the earlier values stay on record.

    An outcome can be corrected only if the agent claimed it; correct others at their source: the import, or the fill.
    """
    handle, changes = agent_of(memory, ask), plain(ask.changes)
    if "teach" in changes:
        caller.require_owner("set what a trade counts for")
    episode = handle.memories.episode(ask.memory_id)
    if episode is not None and not episode.claimed and changes.keys() - {"reflection"}:
        caller.require_owner("correct a trade that is not its own claim (a model may correct only its reflection)")
    return receipt_answer(handle.memories.correct(ask.memory_id, changes, ask.reason))


class ForgetMemory(OfAgent):
    """Which memory to forget."""

    memory_id: Annotated[Key, Field(description="a trade, a stated belief or a plan")]
    reason: Annotated[Line, Field(description="why")] = ""
    shred: Annotated[
        bool, Field(description="also destroy what the agent reported; its hash stays, so the log still verifies")
    ] = False


@operation(writes=True)
def forget_memory(memory: Memory, ask: ForgetMemory, caller: Caller) -> ReceiptAnswer:
    """Forget a memory: nothing is based on it any more. The ledger keeps trades from the venue and your records.

    With `shred`, a trade that the agent reported is destroyed in the log too.
    """
    handle = agent_of(memory, ask)
    if ask.shred:
        caller.require_owner("destroy what is on record")
    episode = handle.memories.episode(ask.memory_id)
    if episode is not None and not episode.claimed:
        caller.require_owner("forget a trade that is not its own claim")
    if any(belief.id == ask.memory_id and belief.tier < 3 for belief in handle.memories.beliefs()[0]):
        caller.require_owner("forget the owner's belief")
    return receipt_answer(handle.memories.forget(ask.memory_id, ask.reason, shred=ask.shred))


class DeleteAgent(Ask):
    """Which agent to delete."""

    id: Annotated[Slug, Field(description="id of the agent")]
    confirm: Annotated[str, Field(max_length=64, description="repeat the id of the agent: this cannot be undone")] = ""


class Deleted(Answer):
    """What was destroyed."""

    deleted: Annotated[list[str], Field(description="streams whose content was destroyed")]
    log_rows: Annotated[int, Field(description="destroyed rows; their hashes stay and still verify")]


@operation(writes=True)
def delete_agent(memory: Memory, ask: DeleteAgent, caller: Caller) -> Deleted:
    """Delete an agent and destroy everything recorded about it. Hashes stay, so the log still verifies. Owner only."""
    rows = memory.delete_agent(ask.id, ask.confirm)
    return Deleted(deleted=[ask.id], log_rows=rows)


class EraseOwner(Ask):
    """A confirmation."""

    confirm: Annotated[str, Field(max_length=64, description="repeat the owner's name: this cannot be undone")] = ""


@operation(writes=True)
def erase_owner(memory: Memory, ask: EraseOwner, caller: Caller) -> Deleted:
    """Destroy all data of this owner: agents, skills, memories. Hashes stay, so the log still verifies. Owner only."""
    streams, rows = memory.erase_owner(ask.confirm)
    return Deleted(deleted=streams, log_rows=rows)
