"""The rest that a close leaves behind, sold later: its money counts, and it teaches nothing."""

from __future__ import annotations

from memtape.engine.proof.audit import verify_store
from tests.desk_language import Desk, replay

LEAVES_A_REST = """
    08:00 tick BTC 1 @ 65000; buy 1 BTC @ 65000 stop 64000
    09:00 tick flat; sell 0.9999 BTC @ 66000
"""


def with_rest(more: str) -> Desk:
    """A desk that closed all but a ten-thousandth, and what follows."""
    return replay(LEAVES_A_REST + more, dust_qty="0.001")


def test_the_sale_of_a_rest_opens_no_trade():
    desk = with_rest("10:00 sell 0.0001 BTC @ 67000")
    assert desk.trades == ["BTC long +999.90 +1.0R closed 09:00"]
    assert [event.name for event in desk.receipts[-1].concluded] == []
    with desk.agent.view() as view:
        assert view.open_position_count() == 0


def test_when_the_next_trade_begins_the_rest_is_set_aside():
    desk = with_rest("""
        10:00 sell 0.0001 BTC @ 67000 fee 0.01
        11:00 tick BTC 1 @ 66000; buy 1 BTC @ 66000 stop 65000
        12:00 tick flat; sell 1 BTC @ 65500
    """)
    rest = next(trade for trade in desk.rows if trade.side == "short")
    assert (rest.teach, rest.fees_usd > 0) == ("exclude", True)
    assert [trade.teach for trade in desk.rows if trade.side == "long"] == ["learn", "learn"]
    recalled, _, _ = desk.agent.memories.recall(symbol="BTC")
    assert recalled.evidence.n_trades == 2, "the rest is no evidence"
    assert verify_store(desk.memory).ok


def test_crumbs_that_grow_into_a_position_are_a_trade():
    desk = replay("""
        08:00 buy 0.0005 BTC @ 65000
        08:01 buy 0.0005 BTC @ 65000
        08:02 buy 0.5 BTC @ 65000
        09:00 sell 0.501 BTC @ 66000
    """, dust_qty="0.001")
    concluded = [[event.name for event in receipt.concluded] for receipt in desk.receipts]
    assert concluded == [[], [], ["opened"], ["closed"]]
    assert desk.trades == ["BTC long +501.00 closed 09:00"]
    assert desk.trade.teach == "learn"


def test_without_dust_every_trade_teaches():
    desk = replay("""
        08:00 buy 0.00000001 BTC @ 65000
        09:00 sell 0.00000001 BTC @ 66000
    """)
    assert desk.trade.teach == "learn"
