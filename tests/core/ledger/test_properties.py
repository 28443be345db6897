"""What must hold for every history, however it is delivered."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from memtape.engine import Memory
from memtape.engine.proof.audit import rebuild_store, verify_store
from tests import desk, histories, oracle
from tests.effort import examples

MANY = settings(max_examples=examples(40, 1_000))
SOME = settings(max_examples=examples(15, 1_000))  # each example is a store or two, told in another order
CONFIGS = st.sampled_from([{"mfe_mode": "hl_strict", "dust_qty": "0"}, {"mfe_mode": "close", "dust_qty": "0"}])


def fed(ticks: list[dict[str, Any]], config: dict[str, Any]) -> Any:
    memory = desk.given_memory()
    agent = desk.given_agent(memory, config)
    for tick in ticks:
        agent.observe(desk.plain_tick(tick))
    return agent


def differences(expected: dict[str, Any], got: dict[str, Any]) -> list[str]:
    """Where a ledger differs from the second opinion, ties in the rounding of inferred trades aside.

    The price of an inferred fill comes from a division. The second opinion computes it as a fraction, the ledger to 60 digits,
    and where the exact amount lies halfway between two last digits the two may round to either.
    """
    for want, have in zip(expected["rows"], got["rows"], strict=False):
        if have["quality"] == "inferred":
            have |= {name: value for name, value in want.items() if is_amount(value) and close(value, have.get(name), "1e-8")}
    return desk.ledger_differences(expected, got)


def is_amount(value: object) -> bool:
    """Whether a column of a golden row holds a number."""
    try:
        return isinstance(value, str) and Decimal(value).is_finite()
    except InvalidOperation:
        return False


@MANY
@given(histories.histories(), CONFIGS)
def test_the_ledger_equals_the_second_opinion(ticks, config):
    expected = oracle.rows(ticks, config)
    assert differences(expected, desk.folded_whole(ticks, config)) == []
    assert differences(expected, desk.rows_of(fed(ticks, config))) == []


@MANY
@given(histories.histories(hedge=True))
def test_hedge_legs_are_positions_of_their_own(ticks):
    config = {"mfe_mode": "hl_strict", "dust_qty": "0"}
    assert differences(oracle.rows(ticks, config), desk.rows_of(fed(ticks, config))) == []


@MANY
@given(histories.histories(rates=True))
def test_amounts_are_in_the_account_currency(ticks):
    config = {"mfe_mode": "hl_strict", "dust_qty": "0"}
    assert differences(oracle.rows(ticks, config), desk.rows_of(fed(ticks, config))) == []


@MANY
@given(histories.histories(crumbs=True))
def test_a_crumb_that_the_venue_leaves_counts_as_flat(ticks):
    config = {"mfe_mode": "hl_strict", "dust_qty": "0.001"}
    assert differences(oracle.rows(ticks, config), desk.rows_of(fed(ticks, config))) == []


@SOME
@given(histories.histories(), CONFIGS)
def test_a_replay_of_the_log_gives_every_row_again(ticks, config):
    agent = fed(ticks, config)
    found = verify_store(Memory.of(agent.resources))
    assert found.problems == []
    rebuild_store(Memory.of(agent.resources))
    assert verify_store(Memory.of(agent.resources)).digests == found.digests


@SOME
@given(st.data(), histories.histories())
def test_the_order_of_deliveries_changes_nothing(data, ticks):
    config = {"mfe_mode": "hl_strict", "dust_qty": "0"}
    first = histories.shuffled_deliveries(data.draw, ticks)
    second = histories.shuffled_deliveries(data.draw, ticks)
    ledgers = []
    for deliveries in (first, second):
        memory = desk.given_memory()
        agent = desk.given_agent(memory, config)
        for kind, value in deliveries:
            agent.observe(desk.plain_tick(value), kind=kind)
        assert verify_store(memory).problems == []
        ledgers.append(desk.projections(memory))
    assert ledgers[0] == ledgers[1]


@SOME
@given(st.data(), histories.histories())
def test_a_second_delivery_of_everything_writes_nothing(data, ticks):
    agent = fed(ticks, {})
    before, rows = desk.projections(Memory.of(agent.resources)), agent.head()
    for kind, value in histories.shuffled_deliveries(data.draw, ticks):
        if kind != "bars":
            agent.observe(desk.plain_tick(value), kind=kind)
    assert desk.projections(Memory.of(agent.resources)) == before
    assert agent.head().last_tick == rows.last_tick


@SOME
@given(st.data(), histories.histories())
def test_what_was_known_then_is_what_a_history_cut_there_would_have_told(data, ticks):
    """No look-ahead: as of T the whole history answers like the one in which nothing after T was ever delivered."""
    config = {"mfe_mode": "hl_strict", "dust_qty": "0"}
    deliveries = histories.shuffled_deliveries(data.draw, ticks)
    memory = desk.given_memory(now=desk.NOON)
    agent = desk.given_agent(memory, config, mode="paper")
    cut = data.draw(st.integers(0, len(deliveries)))
    for n, (kind, value) in enumerate(deliveries):
        memory.clock.at = desk.NOON + timedelta(minutes=n)
        agent.observe(desk.plain_tick(value), kind=kind)
    whole = agent
    part = desk.given_agent(desk.given_memory(), config, mode="paper")
    for n, (kind, value) in enumerate(deliveries[:cut]):
        part.resources.clock.at = desk.NOON + timedelta(minutes=n)
        part.observe(desk.plain_tick(value), kind=kind)
    as_of = desk.NOON + timedelta(minutes=cut - 1, seconds=30)
    assert desk.rows_of(whole, as_of=as_of) == desk.rows_of(part)
    head = part.head().seq
    assert desk.rows_of(whole, head=head) == desk.rows_of(part)


@SOME
@given(histories.histories(), st.integers(0, 7))
def test_splitting_a_fill_at_one_price_changes_nothing(ticks, some):
    config = {"mfe_mode": "hl_strict", "dust_qty": "0"}
    whole = desk.rows_of(fed(ticks, config))
    parts = [{**tick, "fills": [part for fill in tick["fills"] for part in split(fill, some)]} for tick in ticks]
    again = desk.rows_of(fed(parts, config))
    for row, other in zip(whole["rows"], again["rows"], strict=True):
        for name in ("realized_pnl_usd", "fees_usd", "net_pnl_usd", "entry_price", "exit_price", "mfe_usd", "mae_usd"):
            assert close(row[name], other[name]), name


def split(fill: dict[str, Any], some: int) -> list[dict[str, Any]]:
    """Every so many fills in two parts at one price, the same ones whenever they are delivered."""
    if fill.get("liq") or (int(fill["id"][1:]) + some) % 2:
        return [fill]
    half, fee = Decimal(fill["qty"]) / 2, Decimal(fill["fee"]) / 2
    rest = Decimal(fill["qty"]) - half, Decimal(fill["fee"]) - fee
    return [
        {**fill, "qty": str(half), "fee": str(fee)},
        {**fill, "id": fill["id"] + "b", "qty": str(rest[0]), "fee": str(rest[1])},
    ]


def close(one: str | None, other: str | None, by: str = "1e-7") -> bool:
    """Whether two amounts differ by no more than `by`."""
    return one == other or (one is not None and other is not None and abs(Decimal(one) - Decimal(other)) <= Decimal(by))
