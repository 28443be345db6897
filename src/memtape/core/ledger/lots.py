"""Lots: on an account that scales in and out and is rarely flat, each reduction closes the oldest lots, one trade per piece.

Every entry is a lot. What a reduction takes off a lot is a closed trade, what it leaves is an open one. Fees, funding and risk
are shared by quantity; the last piece takes what is left, so that the pieces of a lot add up to the lot.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal

from memtape.core.ledger.rounds import Round
from memtape.core.values import ZERO


def share_payment(lots: list[Round], amount: Decimal, known_at: datetime) -> None:
    """Share funding or a dividend among the open lots by their quantity."""
    left, qty = amount, sum((lot.qty for lot in lots), ZERO)
    for n, lot in enumerate(lots):
        share = left if n == len(lots) - 1 else amount * lot.qty / qty
        lot.funding += share
        lot.learn(known_at)
        left -= share


def close_lots(lots: list[Round], qty: Decimal, ends: bool) -> Iterator[tuple[Round, Decimal]]:
    """Take a quantity off the oldest lots. Yields each piece with the quantity that leaves it.

    If the position ends with it, every lot ends: what is left of the last ones is dust.
    """
    while lots and (qty > 0 or ends):
        lot = lots[0]
        part = qty if ends and len(lots) == 1 else min(lot.qty, qty)
        whole = ends or part == lot.qty
        if whole:
            lots.pop(0)
        qty -= part
        yield lot.take_piece(part, whole), part
