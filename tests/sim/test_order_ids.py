"""A simulation may call its orders and executions what a venue would call them."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from memtape.core.fills import Fill
from memtape.sim.funding import SteadyFunding
from memtape.sim.margin import Margin


class Venue:
    """Numbers as a venue has them: orders from 500 on, executions by their own hash."""

    def order_id(self, n: int, /) -> str:
        return str(500 + n)

    def fill_id(self, n: int, fill: Fill, /) -> str:
        assert fill.id == str(n) and fill.seq == n
        return f"{fill.symbol}:{fill.order_id}:{fill.side}:{fill.qty}@{fill.px}"


class Thorough(Venue):
    """One that also numbers what nobody placed."""

    def exit_id(self, entry: str, n: int, trigger: str, /) -> str:
        return f"{trigger}{900 + n}"

    def funding_id(self, n: int, symbol: str, t: datetime, /) -> str:
        return f"{symbol}@{t:%H:%M}"


def fills_of(words: Any, naming: Any) -> list[tuple[str, str | None]]:
    desk = words.Desk(naming=naming)
    assert desk.order("buy 2 stop 95 target 110") == "501"
    fills = [*desk.broker.advance([words.day(0, "100 101 99 100")]), *desk.broker.advance([words.day(1, "100 111 99 100")])]
    return [(fill.id, fill.order_id) for fill in fills]


def test_orders_and_fills_bear_the_names_that_are_given_them(words: Any) -> None:
    assert fills_of(words, Venue()) == [
        ("AAPL:501:buy:2@100", "501"), ("AAPL:501-target:sell:2@110", "501-target"),
    ]  # fmt: skip


def test_stops_and_targets_have_numbers_of_their_own_where_the_venue_has_them(words: Any) -> None:
    assert fills_of(words, Thorough())[1] == ("AAPL:target902:sell:2@110", "target902")


def test_funding_and_liquidations_are_named_too(words: Any) -> None:
    for naming, names in (
        (Thorough(), ("AAPL@12:00", "liquidation901")),
        (Venue(), ("AAPL-2024-01-08T12:00:00Z-funding", "liquidation-000001")),
    ):
        rates = {"AAPL": SteadyFunding(rate=Decimal("0.0001"), every=timedelta(hours=12))}
        desk = words.Desk(cash=100, naming=naming, margin=Margin.at_leverage(Decimal(10)), funding=rates)
        desk.order("buy 9")
        desk.day("100 100 100 100")
        payment = desk.broker.funding[0]
        (fill,) = desk.broker.advance([words.day(1, "80 80 80 80")])
        assert (payment.id, fill.order_id) == names
