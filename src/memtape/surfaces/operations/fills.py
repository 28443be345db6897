"""Operations that correct the broker's record: a fill is amended, or taken back. Everything derived from it follows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from memtape.core.fills import FillCorrection
from memtape.core.values import Key, Time
from memtape.surfaces.answers import ReceiptAnswer, receipt_answer
from memtape.surfaces.questions import OfAgent, agent_of
from memtape.surfaces.registry import operation

if TYPE_CHECKING:
    from memtape.engine import Memory
    from memtape.surfaces.caller import Caller


class VoidFill(OfAgent):
    """Which fill is taken back."""

    fill_id: Annotated[Key, Field(description="the broker's id of the fill")]
    t: Annotated[
        Time | None, Field(description="from when the correction counts; default: now (of a simulation: its last moment)")
    ] = None


class AmendFill(VoidFill):
    """Which fill is corrected, and how."""

    content: Annotated[dict[str, Any], Field(description='the fields that change, with their right values, like {"px": "108"}')]


@operation(writes=True)
def amend_fill(memory: Memory, ask: AmendFill, caller: Caller) -> ReceiptAnswer:
    """Correct fields of a recorded fill: trades, memories and figures follow. Owner only.

    An answer as of an earlier moment keeps the old content.
    """
    handle = agent_of(memory, ask)
    return receipt_answer(
        handle.observe(FillCorrection(kind="amend_fill", fill_id=ask.fill_id, t=ask.t or handle.now(), content=ask.content))
    )


@operation(writes=True)
def void_fill(memory: Memory, ask: VoidFill, caller: Caller) -> ReceiptAnswer:
    """Take back a recorded fill that the venue busted or that was recorded by mistake. Its id stays void. Owner only."""
    handle = agent_of(memory, ask)
    return receipt_answer(handle.observe(FillCorrection(kind="void_fill", fill_id=ask.fill_id, t=ask.t or handle.now())))
