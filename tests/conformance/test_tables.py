"""What the tables keep comes back exactly: items, positions, versions of trades to the last digit, bars, flat moments."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memtape.core.events import Discrepancy
from memtape.core.ledger.excursions import State
from memtape.core.ledger.rounds import Round
from memtape.core.ledger.terms import ContractTerms
from memtape.core.ledger.trades import TRADE_FIELDS, Trade
from memtape.core.ledger.versions import TradeVersion
from memtape.core.observed import Decision, Situation
from memtape.engine import Memory
from memtape.errors import StoreFailure
from memtape.store.cutoff import EVERYTHING, Cutoff, FlatPoint
from memtape.store.rows import PositionRow
from memtape.store.schema import TRADE_COLUMNS
from tests.conformance.desk import a_bar, a_decision_row, a_trade, a_version, minute, seen

AAPL = ("AAPL", "")
LONG_NUMBERS = [
    "0", "-0.00000001", "1E-18", "-1E-40", "1E-59", "123456789012345678901234567890123456789012345678901234567890",
    "-0.123456789012345678901234567890123456789012345678901234567891", "99999999999999999999.999999999999999999",
    "0.333333333333333333333333333333333333333333333333333333333333", "1E+30",
]  # fmt: skip
MONEY_FIELDS = [name for name, kind in TRADE_COLUMNS.items() if kind == "money"]


# ---- money -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", LONG_NUMBERS)
def test_money_is_kept_to_the_last_of_sixty_digits(memory: Memory, text: str) -> None:
    amount = Decimal(text)
    trade = a_trade(**dict.fromkeys(MONEY_FIELDS, amount))
    with memory.resources.writing("desk") as tables:
        tables.put_versions([a_version(trade)])
        tables.put_discrepancies([Discrepancy("AAPL", "", minute(1), "snapshot", amount, -amount, None)])
    with memory.resources.reading("desk") as tables:
        (version,) = tables.versions(AAPL, None)
        (found,) = tables.discrepancies()
    for name in MONEY_FIELDS:
        assert getattr(version.trade, name) == amount, name
    assert (found.ledger_qty, found.broker_qty, found.price) == (amount, -amount, None)


def test_any_amount_survives_the_store(memory: Memory) -> None:
    amounts = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30)

    @settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.lists(amounts, min_size=4, max_size=4))
    def survives(drawn: list[Decimal]) -> None:
        trade = a_trade(**dict(zip(("net_pnl_usd", "fees_usd", "mae_usd", "pnl_r"), drawn, strict=True)))
        with pytest.raises(LookupError), memory.resources.writing("desk") as tables:
            tables.put_versions([a_version(trade)])
            assert [version.trade for version in tables.versions(AAPL, None)] == [trade]
            raise LookupError("enough: nothing is to stay")

    survives()
    with memory.resources.reading("desk") as tables:
        assert tables.versions(AAPL, None) == []


# ---- trades ------------------------------------------------------------------------------------------------------------


def full_trade() -> Trade:
    """A trade with every field set to something."""
    return a_trade(
        leg="LONG", entry_tick_at=minute(0.5), exit_tick_at=minute(10.5), entry_reason="in", exit_reason="out",
        entry_decision="d1", exit_decision="d2", exit_trigger="stop", avg_cost=Decimal("1.5"), stop_price=Decimal(0),
        target_price=Decimal(7), initial_risk_usd=Decimal("0.1"), r_source="stop", pnl_r=Decimal(-1), mfe_usd=Decimal(0),
        mae_usd=Decimal("-0.1"), mfe_r=Decimal(0), mae_r=Decimal(-1), excursion_method="hl_strict", entry_regime="trend",
        entry_volatility="high", entry_session="us", exit_regime="range", adopted=True, liquidation_fills=3,
        entry_leverage=Decimal("2.5"), tags=("a", "b, c", "ü"), confidence=Decimal("0.75"), entry_situation='{"regime":"trend"}',
        first_partial_price=Decimal(101), reflection="held well", source="agent", exit_item="fill:f2", exit_seq=3, fee_unknown=True,
        group_id="g", accounting="cash", payoff="linear", multiplier=Decimal(50), rate=Decimal("1.1"), cost_usd=Decimal("-0.5"),
    )  # fmt: skip


def test_a_trade_comes_back_with_every_field(memory: Memory) -> None:
    trade = full_trade()
    assert all(getattr(trade, name) is not None for name in TRADE_FIELDS)
    version = TradeVersion(trade, minute(11), minute(12), minute(13))
    with memory.resources.writing("desk") as tables:
        tables.put_versions([version])
    with memory.resources.reading("desk") as tables:
        assert tables.versions(("AAPL", "LONG"), None) == [version]
        assert tables.versions(AAPL, None) == []


def test_a_trade_comes_back_with_every_gap(memory: Memory) -> None:
    needed = {"id", "agent", "skill_id", "strategy", "symbol", "leg", "side", "currency", "status", "entry_at", "exit_at"}
    gaps = {n: None for n in TRADE_FIELDS if n not in needed and TRADE_COLUMNS[n] in ("money", "time", "text")}
    trade = a_trade()._replace(**gaps)  # type: ignore[arg-type]
    with memory.resources.writing("desk") as tables:
        tables.put_versions([a_version(trade, settled=None)])
    with memory.resources.reading("desk") as tables:
        assert tables.versions(AAPL, None) == [a_version(trade, settled=None)]


def test_a_revised_trade_is_told_as_it_was_believed_at_the_time(memory: Memory) -> None:
    first, second, third = (a_trade(net_pnl_usd=Decimal(n)) for n in (1, 2, 3))
    with memory.resources.writing("desk") as tables:
        tables.put_versions([a_version(first, 10, 20), a_version(second, 20, 30), a_version(third, 30)])
    with memory.resources.reading("desk") as tables:
        told = {at: [t.net_pnl_usd for t in tables.closed_trades(Cutoff(minute(at)))] for at in (9, 10, 19, 20, 29, 30, 99)}
        now = tables.closed_trades(EVERYTHING)
    assert told == {9: [], 10: [1], 19: [1], 20: [2], 29: [2], 30: [3], 99: [3]}
    assert now == [third]


def test_only_the_present_version_ends(memory: Memory) -> None:
    with memory.resources.writing("desk") as tables:
        tables.put_versions([a_version(a_trade("a"), 10, 20), a_version(a_trade("a"), 20), a_version(a_trade("b"), 10)])
        tables.end_versions(["a", "nobody"], minute(40))
        tables.end_versions([], minute(50))
    with memory.resources.reading("desk") as tables:
        found = {(v.trade.id, v.known_from): v.known_to for v in tables.versions(AAPL, None)}
    assert found == {("a", minute(10)): minute(20), ("a", minute(20)): minute(40), ("b", minute(10)): None}


def test_room_is_made_only_after_the_flat_moment(memory: Memory) -> None:
    early, late = a_version(a_trade("a", 0, 10)), a_version(a_trade("b", 20, 30))
    noise = Discrepancy("AAPL", "", minute(5), "snapshot", Decimal(1), Decimal(0), Decimal(2))
    with memory.resources.writing("desk") as tables:
        tables.put_versions([early, late])
        tables.put_discrepancies([noise, replace(noise, at=minute(25))])
        tables.drop_versions(AAPL, minute(10))
    with memory.resources.reading("desk") as tables:
        assert tables.versions(AAPL, None) == [early]
        assert tables.discrepancies() == [noise]


def test_trades_are_paged_without_gap_or_repetition(memory: Memory) -> None:
    trades = [a_trade(f"id{n}", entry=n // 3, exit_=n + 20) for n in range(11)]  # three entries share each minute
    with memory.resources.writing("desk") as tables:
        tables.put_versions([a_version(t, 99) for t in trades])
    for newest in (True, False):
        paged: list[Trade] = []
        with memory.resources.reading("desk") as tables:
            whole = tables.closed_trades(EVERYTHING, newest=newest)
            while page := tables.closed_trades(
                EVERYTHING, newest=newest, limit=4, after=(paged[-1].entry_at, paged[-1].id) if paged else None
            ):
                paged += page
        assert paged == whole
        assert len(whole) == 11


# ---- the last flat moment ----------------------------------------------------------------------------------------------


def boundary(
    memory: Memory, *versions: TradeVersion, before: float = 60, known: float = 60, open_at: float | None = None
) -> float | None:
    """The minute of the last flat moment, given these versions."""
    with pytest.raises(LookupError) as said, memory.resources.writing("desk") as tables:
        tables.put_versions(versions)
        found = tables.boundary(AAPL, minute(before), minute(known), None if open_at is None else minute(open_at))
        raise LookupError(found)
    flat: FlatPoint | None = said.value.args[0]
    if flat is None:
        return None
    assert flat.known_at <= minute(known)
    return (flat.at - minute(0)).total_seconds() / 60


def test_the_position_was_last_flat_when_its_last_trade_ended(memory: Memory) -> None:
    assert boundary(memory) is None
    assert boundary(memory, a_version(a_trade("a", 0, 10)), a_version(a_trade("b", 20, 30), 30, settled=30)) == 30


def test_only_what_ended_before_counts_as_flat(memory: Memory) -> None:
    both = a_version(a_trade("a", 0, 10)), a_version(a_trade("b", 20, 30), 30, settled=30)
    assert boundary(memory, *both, before=30) == 10
    assert boundary(memory, *both, before=10) is None


def test_a_flip_is_not_flat(memory: Memory) -> None:
    turned = a_version(a_trade("b", 20, 30, close_cause="flip"), 30, settled=30)
    assert boundary(memory, a_version(a_trade("a", 0, 10)), turned) == 10


def test_a_trade_of_no_duration_is_no_place_to_start(memory: Memory) -> None:
    assert boundary(memory, a_version(a_trade("a", 0, 10)), a_version(a_trade("b", 20, 20), 30)) == 10


def test_the_moment_another_trade_begins_is_not_flat(memory: Memory) -> None:
    assert boundary(memory, a_version(a_trade("a", 0, 10)), a_version(a_trade("b", 10, 20, close_cause="flip"))) is None
    assert boundary(memory, a_version(a_trade("a", 0, 10)), open_at=10) is None


def test_an_earlier_belief_of_a_trade_at_that_moment_counts_too(memory: Memory) -> None:
    believed_once = a_version(a_trade("b", 10, 20), 20, until=25)
    assert boundary(memory, a_version(a_trade("a", 0, 10)), believed_once) is None


def test_what_was_settled_later_than_one_knew_is_not_flat(memory: Memory) -> None:
    assert boundary(memory, a_version(a_trade("a", 0, 10), settled=15), known=14) is None
    assert boundary(memory, a_version(a_trade("a", 0, 10), settled=15), known=15) == 10
    assert boundary(memory, a_version(a_trade("a", 0, 10), settled=None)) is None


def test_a_version_of_the_past_gives_no_flat_moment(memory: Memory) -> None:
    assert boundary(memory, a_version(a_trade("a", 0, 10), 10, until=20)) is None


def test_another_leg_or_symbol_says_nothing(memory: Memory) -> None:
    assert boundary(memory, a_version(a_trade("a", 0, 10, leg="LONG")), a_version(a_trade("b", 0, 10, symbol="MSFT"))) is None


# ---- positions ---------------------------------------------------------------------------------------------------------


def a_round() -> Round:
    """A round trip in the making, with something in every field."""
    entry = Decision(id="d1", t=minute(1), symbol="AAPL", stop=Decimal("98.5"), tags=("x",), situation=Situation(regime="trend"))
    state = State(minute(1), Decimal("-0.1"), Decimal("1E-20"), Decimal(3), False, Decimal(1))
    lot = Round(opened_by="fill:f1", seq=1, side=-1, entry_at=minute(1), skill_version=2, known_at=minute(2), states=[state])
    terms = ContractTerms("cash", Decimal(50), "linear", "USD")
    return Round(
        opened_by="fill:f1", seq=-5, side=-1, entry_at=minute(1), skill_version=2, known_at=minute(2), entry_tick_at=minute(3),
        leverage=Decimal("2.5"), entry=entry, qty=Decimal(3), entered=Decimal(3), paid=Decimal("0." + "3" * 60),
        cost=Decimal("1E-30"), realized=Decimal("-7"), funding=Decimal("-0.00000001"), stop=Decimal("98.5"), risk=Decimal(4),
        mfe=Decimal(1), mae=Decimal(-1), liquidation_fills=1, inferred=True, pruned=True, states=[state, state],
        terms=terms, rates=[(minute(1), Decimal("1.1"))], lots=[lot], exit_rate=Decimal(1), shown_entry=Decimal("99.5"),
    )  # fmt: skip


def test_an_open_position_comes_back_as_it_was(memory: Memory) -> None:
    held = PositionRow("AAPL", "LONG", (minute(1), 1, -5, "f1"), a_round())
    flat = PositionRow("MSFT", "", (minute(2), 2, 0, "t2"), None)
    with memory.resources.writing("desk") as tables:
        tables.put_positions([held, flat])
    with memory.resources.reading("desk") as tables:
        assert tables.positions(["AAPL", "MSFT"]) == {("AAPL", "LONG"): held, ("MSFT", ""): flat}


def test_positions_are_found_open_by_symbol_or_by_what_happened_since(memory: Memory) -> None:
    names = ("OPEN", "OLD", "NEW")
    rows = [PositionRow(s, "", (minute(n), 1, 0, s), a_round() if s == "OPEN" else None) for n, s in enumerate(names)]
    with memory.resources.writing("desk") as tables:
        tables.put_positions(rows)
    with memory.resources.reading("desk") as tables:
        assert {s for s, _ in tables.positions()} == {"OPEN"}
        assert {s for s, _ in tables.positions(["OLD"])} == {"OPEN", "OLD"}
        assert {s for s, _ in tables.positions(since=minute(1))} == {"OPEN", "NEW"}


def test_a_position_is_replaced_and_can_be_forgotten(memory: Memory) -> None:
    row = PositionRow("AAPL", "", (minute(1), 1, 0, "f1"), a_round())
    with memory.resources.writing("desk") as tables:
        tables.put_positions([row])
        tables.put_positions([replace(row, last=(minute(2), 1, 0, "f2"), round=None)])
        assert tables.positions(["AAPL"])[AAPL] == PositionRow("AAPL", "", (minute(2), 1, 0, "f2"), None)
        tables.drop_position(AAPL)
        assert tables.positions(["AAPL"]) == {}


# ---- bars --------------------------------------------------------------------------------------------------------------


def test_bars_come_back_in_the_order_of_their_end(memory: Memory) -> None:
    with memory.resources.writing("desk") as tables:
        tables.put_bars(seen(a_bar(2), a_bar(0, v=None), a_bar(0, "99.000000000000000001", minutes=3), known=9), 1)
        tables.put_bars(seen(a_bar(1, symbol="MSFT"), known=9), 2)
    with memory.resources.reading("desk") as tables:
        found = [watched.bar for watched in tables.bars("AAPL", EVERYTHING)]
        assert found == [a_bar(0, v=None), a_bar(0, "99.000000000000000001", minutes=3), a_bar(2)]
        assert [w.bar for w in tables.bars("AAPL", EVERYTHING, ending_after=minute(1))] == found[1:]
        assert tables.bars_end("AAPL") == minute(3)
        assert tables.bars_end("NONE") is None
        assert set(tables.bars_between("AAPL", minute(0), minute(1))) == {(60, minute(0)), (180, minute(0))}
        last = tables.last_bar("AAPL", minute(3), EVERYTHING)
        assert last is not None and last.bar == a_bar(2)  # of two that end together the shorter
        assert tables.last_bar("AAPL", minute(0.5), EVERYTHING) is None


def test_a_bar_is_seen_only_once_known_and_recorded(memory: Memory) -> None:
    with memory.resources.writing("desk") as tables:
        tables.put_bars(seen(a_bar(0), known=1), 1)
        tables.put_bars(seen(a_bar(1), known=30), 2)
    with memory.resources.reading("desk") as tables:
        assert len(tables.bars("AAPL", Cutoff(minute(29)))) == 1
        assert len(tables.bars("AAPL", Cutoff(minute(30)))) == 2
        assert len(tables.bars("AAPL", Cutoff(head=1))) == 1
        last = tables.last_bar("AAPL", minute(9), Cutoff(minute(29)))
        assert last is not None and last.bar == a_bar(0)


def test_the_store_refuses_a_second_bar_of_one_frame_and_time(memory: Memory) -> None:
    with memory.resources.writing("desk") as tables:
        tables.put_bars(seen(a_bar(0), known=1), 1)
    with pytest.raises(StoreFailure), memory.resources.writing("desk") as tables:
        tables.put_bars(seen(a_bar(0, "50"), known=2), 2)
    with memory.resources.reading("desk") as tables:
        assert [w.bar.c for w in tables.bars("AAPL", EVERYTHING)] == [100]


# ---- items -------------------------------------------------------------------------------------------------------------


def test_items_are_seen_as_of_a_moment_and_up_to_a_head(memory: Memory) -> None:
    with memory.resources.writing("desk") as tables:
        rows = a_decision_row("d1", 1, seq=1), a_decision_row("d2", 2, seq=2, known=20), a_decision_row("d3", 3, seq=3)
        tables.put_items(rows)
    with memory.resources.reading("desk") as tables:

        def told(known: Cutoff) -> list[str]:
            return [item.key for item in tables.items("decision", known)]

        assert told(EVERYTHING) == ["d1", "d2", "d3"]
        assert told(Cutoff(as_of=minute(3))) == ["d1", "d3"]
        assert told(Cutoff(as_of=minute(2))) == ["d1"]
        assert told(Cutoff(head=2)) == ["d1", "d2"]
        assert told(Cutoff(as_of=minute(3), head=2)) == ["d1"]
        assert told(Cutoff(head=0)) == []


def test_items_are_chosen_by_key_symbol_and_time(memory: Memory) -> None:
    with memory.resources.writing("desk") as tables:
        tables.put_items([a_decision_row(f"d{n}", n, seq=n, symbol="AAPL" if n % 2 else "MSFT") for n in range(1, 7)])
    with memory.resources.reading("desk") as tables:

        def keys(**how: object) -> list[str]:
            return [item.key for item in tables.items("decision", EVERYTHING, **how)]  # type: ignore[arg-type]

        assert keys(keys=["d2", "d5", "d9"]) == ["d2", "d5"]
        assert keys(keys=[]) == []
        assert keys(symbol="MSFT") == ["d2", "d4", "d6"]
        assert keys(since=minute(5)) == ["d5", "d6"]
        assert keys(before=minute(2)) == ["d1"]
        assert keys(newest=True, limit=2) == ["d6", "d5"]
        assert tables.items("fill", EVERYTHING) == []


def test_an_import_that_was_taken_back_is_gone_from_then_on(memory: Memory) -> None:
    rows = [a_decision_row("d1", 1, seq=1) | {"batch": "b1"}, a_decision_row("d2", 2, seq=2)]
    with memory.resources.writing("desk") as tables:
        tables.put_items(rows)
        assert tables.void_batch("b1", 3, minute(30)) == [("decision", "d1", AAPL, minute(1))]
        assert tables.void_batch("b1", 4, minute(40)) == []
        tables.put_items([a_decision_row("d1", 1, seq=5)])  # it may come again
    with memory.resources.reading("desk") as tables:

        def told(known: Cutoff) -> list[tuple[str, int]]:
            return [(item.key, item.seq) for item in tables.items("decision", known)]

        assert told(EVERYTHING) == [("d1", 5), ("d2", 2)]
        assert told(Cutoff(head=4)) == [("d2", 2)]
        assert told(Cutoff(head=2)) == [("d1", 1), ("d2", 2)]  # the undo was not yet recorded
        assert told(Cutoff(as_of=minute(29), head=2)) == [("d1", 1), ("d2", 2)]
        assert told(Cutoff(as_of=minute(29), head=4)) == [("d1", 1), ("d2", 2)]  # recorded, but not yet known
        assert tables.log_rows_of([("decision", "d1")]) == {("decision", "d1"): 5}


def test_the_store_refuses_one_thing_twice(memory: Memory) -> None:
    with memory.resources.writing("desk") as tables:
        tables.put_items([a_decision_row("d1", 1, seq=1)])
    with pytest.raises(StoreFailure), memory.resources.writing("desk") as tables:
        tables.put_items([a_decision_row("d1", 1, seq=2)])


def test_whole_tables_can_be_taken_out_and_put_back(memory: Memory) -> None:
    with memory.resources.writing("desk") as tables:
        tables.put_versions([a_version(full_trade())])
        tables.put_items([a_decision_row("d1", 1, seq=1)])
        for table in ("trades", "items"):
            rows = tables.rows(table)
            tables.clear(table)
            assert tables.rows(table) == []
            tables.insert(table, rows)
            assert tables.rows(table) == rows
