"""The answers that several operations share: pydantic models of the engine's values. Money is text, times are UTC text.

Those of trades and of performance have files of their own, because they import much of the core.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from memtape.core.codec import time_text
from memtape.surfaces.answer_models import Answer, Real, SparseAnswer

if TYPE_CHECKING:
    from memtape.engine.view.view import AnswerBasis
    from memtape.engine.write.log_writer import Receipt


def rounded_figure(number: float | None) -> float | None:
    """A statistic with 6 significant digits, as answers give it."""
    return None if number is None else float(f"{number:.6g}")


def account_figure(amount: float) -> float:
    """An amount of the account that is computed as a double, with 12 significant digits: no cent is rounded away.

    >>> account_figure(1234567.89), account_figure(0.1 + 0.2)
    (1234567.89, 0.3)
    """
    return float(f"{amount:.12g}")


def optional_time_text(moment: datetime | None) -> str | None:
    """A time as text, or None."""
    return None if moment is None else time_text(moment)


class ConcludedEvent(SparseAnswer):
    """One event that memtape concluded: which one, and the fields that belong to it."""

    event: Annotated[
        str, Field(description="opened, closed, revised, discrepancy, stale, price_far_off, plan_fired, corrected, ...")
    ]
    trade_id: Annotated[str, Field(description="the trade", default_factory=str)]
    symbol: Annotated[str, Field(description="its symbol", default_factory=str)]
    leg: Annotated[str, Field(description="'' on a net account", default_factory=str)]
    side: Annotated[str, Field(description="long or short", default_factory=str)]
    qty: Annotated[str, Field(description="base units", default_factory=str)]
    net_pnl_usd: Annotated[str | None, Field(description="account currency; null: unknown", default_factory=str)]
    pnl_r: Annotated[str | Real | None, Field(description="outcome in R; null: unknown", default_factory=str)]
    quality: Annotated[str, Field(description="source of the figures", default_factory=str)]
    problem: Annotated[str, Field(description="what went wrong", default_factory=str)]


class ReceiptAnswer(Answer):
    """The result of a write: where it was logged and what memtape concluded."""

    stream: Annotated[str, Field(description="the agent")]
    seq: Annotated[int, Field(description="the log row")]
    hash: Annotated[str, Field(description="its hash in the chain")]
    duplicate: Annotated[bool, Field(description="true: it was recorded before, nothing was written")]
    revised: Annotated[bool, Field(description="true: earlier conclusions changed")]
    concluded: Annotated[list[ConcludedEvent], Field(description="what memtape concluded from it")]
    reflection_due: Annotated[bool, Field(description="true: a reflection is due; the server runs it by itself")]


def receipt_answer(receipt: Receipt) -> ReceiptAnswer:
    """The answer of a receipt."""
    return ReceiptAnswer(
        stream=receipt.stream, seq=receipt.seq, hash=receipt.hash, duplicate=receipt.duplicate,
        revised=receipt.revised, concluded=[ConcludedEvent.model_validate(data) for data in receipt.concluded_data()],
        reflection_due=receipt.reflection_due,
    )  # fmt: skip


class Basis(Answer):
    """What an answer is based on."""

    agent: Annotated[str, Field(description="the agent")]
    as_of: Annotated[str, Field(description="UTC; the answer uses only what was known then")]
    n: Annotated[int, Field(description="episodes known then")]
    window: Annotated[list[str | None], Field(description="first and last exit among them, UTC")]
    outcomes: Annotated[str, Field(description="who reported them: from the venue, from your records, claimed by the agent")]
    notes: Annotated[list[str], Field(description="what you asked for and no memory has, with what exists", default_factory=list)]


def basis_of(agent: str, moment: AnswerBasis) -> dict[str, Any]:
    return {
        "agent": agent,
        "as_of": optional_time_text(moment.as_of) or "",
        "n": moment.n,
        "window": [optional_time_text(moment.first_exit), optional_time_text(moment.last_exit)],
        "outcomes": moment.source_text,
        "notes": list(moment.notes),
    }
