"""The undo of an import: its items do not count from then on, but reads as of an earlier moment still show them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from memtape.core.fills import Fill, Instrument
from memtape.core.observed import Bars, Claim, ClosedTrade, Decision, Observed, Situation, Tick
from memtape.core.skills import Mode
from memtape.engine import AgentMemory, Memory
from memtape.engine.proof.audit import rebuild_store, verify_store
from memtape.errors import Invalid
from memtape.plugs.clock import FixedClock
from tests.conformance.desk import a_bar, a_fill, a_tick, minute
from tests.desk import projections

IMPORTED, UNDONE = minute(100), minute(200)
REPORTED = ClosedTrade(
    trade_id="x1", symbol="ETH", side="short", entry_at=minute(1), exit_at=minute(2), entry_price=Decimal(3000),
    exit_price=Decimal(2990), qty=Decimal(1),
)  # fmt: skip
ROUND_TRIP: list[Observed] = [a_fill("y1", 1), a_fill("y2", 2, "sell")]


STOOD_ASIDE = Decision(
    id="d9", t=minute(0), symbol="AAPL", action="no_trade", side="long", stop=Decimal(97), target=Decimal(104),
    reason="too late in the day", situation=Situation(price=100.0), frame="5m",
)  # fmt: skip


def given_desk(memory: Memory, mode: Mode = "paper") -> AgentMemory:
    memory.resources.clock = FixedClock(IMPORTED)
    memory.create_skill("plain")
    memory.create_agent("desk", skill="plain", mode=mode)
    return memory.agent("desk")


def undo(memory: Memory, batch: str) -> None:
    memory.resources.clock = FixedClock(UNDONE)
    memory.agent("desk").imports.undo(batch)


def bars(*closes: tuple[int, str], minutes: int = 5) -> Bars:
    return Bars(bars=tuple(a_bar(n, close, minutes=minutes) for n, close in closes))


def agrees_with_its_log(memory: Memory) -> bool:
    """Whether the log gives what is there, and a rebuild changes nothing."""
    audit, before = verify_store(memory), projections(memory)
    assert audit.ok, audit.problems[0]
    rebuild_store(memory)
    return projections(memory) == before


@pytest.mark.parametrize("file", [[REPORTED], ROUND_TRIP], ids=["a reported trade", "fills"])
def test_reads_as_of_a_moment_before_an_undo_are_unchanged(memory: Memory, file: list[Observed]) -> None:
    agent = given_desk(memory)
    batch = agent.imports.commit(file, {"file": "x.csv"}).batch
    head, believed = agent.head().seq, agent.ledger.trades()
    assert len(believed) == 1
    undo(memory, batch)
    assert agent.ledger.trades() == agent.ledger.trades(as_of=UNDONE) == []
    assert agent.ledger.trades(head=head) == believed
    assert agent.ledger.trades(as_of=minute(150), head=head) == believed
    assert agent.ledger.trades(as_of=minute(150)) == believed  # the undo was not known then
    assert agrees_with_its_log(memory)


def test_a_trade_closed_without_a_price_is_on_record_without_an_outcome_and_can_be_undone(memory: Memory) -> None:
    agent = given_desk(memory)
    unpriced = replace(REPORTED, exit_price=None, note="closed by the venue", confidence=Decimal("0.7"))
    agent.imports.commit([unpriced], {"file": "x.csv"})
    (trade,) = agent.ledger.trades()
    assert (trade.status, trade.exit_price, trade.net_pnl_usd, trade.pnl_r) == ("closed", None, None, None)
    assert (trade.reflection, trade.confidence) == ("closed by the venue", Decimal("0.7"))
    (episode,) = agent.memories.episodes()
    assert (episode.pnl_usd, episode.reflection) == (None, "closed by the venue")
    assert agrees_with_its_log(memory)
    memory.resources.clock = FixedClock(UNDONE)
    undone = agent.imports.undo()
    assert (undone.file, undone.took_back, agent.ledger.trades()) == ("x.csv", {"trade": 1}, [])
    assert agrees_with_its_log(memory)


def test_an_undo_names_the_imports_if_there_are_several_and_says_so_if_there_is_none(memory: Memory) -> None:
    agent = given_desk(memory)
    with pytest.raises(Invalid, match="there is no import to undo"):
        agent.imports.undo()
    first = agent.imports.commit([REPORTED], {"file": "one.csv"}).batch
    agent.imports.commit(ROUND_TRIP, {"file": "two.csv"})
    with pytest.raises(Invalid, match=rf"there are 2 imports.*{first} \(one\.csv\)"):
        agent.imports.undo()
    assert agent.imports.undo(first).took_back == {"trade": 1}
    again = agent.imports.undo(first)
    assert (again.receipt.duplicate, again.took_back) == (True, {"trade": 1})
    assert agent.imports.undo().took_back == {"fill": 2}


def test_a_large_import_between_other_trades_can_be_undone_and_repeated(memory: Memory) -> None:
    agent = given_desk(memory)

    def reported(n: int) -> ClosedTrade:
        price = Decimal(2990 + n % 23)
        return replace(REPORTED, trade_id=f"x{n}", entry_at=minute(n // 2), exit_at=minute(n // 2 + 3), exit_price=price)

    agent.imports.commit([reported(n) for n in range(0, 150, 3)], {"file": "kept.csv"})
    kept = agent.ledger.trades()
    file = [reported(n) for n in range(150) if n % 3]
    for _ in range(2):
        undo(memory, agent.imports.commit(file, {"file": "wrong.csv"}).batch)
        assert agent.ledger.trades() == kept
        assert agrees_with_its_log(memory)


@pytest.mark.parametrize("file", [[REPORTED], ROUND_TRIP], ids=["a reported trade", "fills"])
def test_in_a_simulation_an_undo_is_known_at_the_last_moment_observed(memory: Memory, file: list[Observed]) -> None:
    agent = given_desk(memory, "sim")
    batch = agent.imports.commit(file, {"file": "x.csv"}).batch
    head, believed, now = agent.head().seq, agent.ledger.trades(), agent.now()
    undo(memory, batch)
    assert agent.now() == now == minute(2)  # the clock of the computer is no part of the simulation
    assert agent.ledger.trades() == agent.ledger.trades(as_of=minute(2)) == []
    assert agent.ledger.trades(head=head) == believed
    agent.observe(a_tick(3, a_fill("z1", 3)))
    assert agent.now() == minute(3)
    assert agrees_with_its_log(memory)


def test_an_undone_decision_no_longer_explains_a_fill_that_stays(memory: Memory) -> None:
    agent = given_desk(memory)
    decision = Decision(id="d1", t=minute(0), symbol="AAPL", stop=Decimal(90), reason="from the file")
    batch = agent.imports.commit([decision], {"file": "x.csv"}).batch
    agent.observe(Fill(id="f1", t=minute(1), symbol="AAPL", side="buy", qty=Decimal(1), px=Decimal(100), decision="d1"))
    agent.observe(a_fill("f2", 2, "sell"))
    assert [trade.entry_reason for trade in agent.ledger.trades()] == ["from the file"]
    undo(memory, batch)
    assert [trade.entry_reason for trade in agent.ledger.trades()] == [None]
    assert verify_store(memory).ok


def shadows(agent: AgentMemory, as_of: float) -> list[tuple[float | None, int | None]]:
    found = [e for e in agent.memories.episodes(as_of=minute(as_of)) if e.kind == "shadow"]
    return [(round(e.pnl_r, 2) if e.pnl_r is not None else None, e.consecutive_losses) for e in found]


def test_bars_recorded_after_an_undo_end_the_shadow_as_it_was_believed_until_then(memory: Memory) -> None:
    agent = given_desk(memory)
    undo(memory, agent.imports.commit([STOOD_ASIDE], {"file": "x.csv"}).batch)
    agent.observe(bars((5, "101"), (10, "104")), backfill=True)
    assert shadows(agent, 20) == [(0.75, None)]  # it was not taken back then
    assert shadows(agent, 250) == []
    assert agrees_with_its_log(memory)


def test_a_loss_recorded_after_an_undo_counts_in_the_state_of_an_undone_shadow(memory: Memory) -> None:
    agent = given_desk(memory)
    late = replace(STOOD_ASIDE, t=minute(4))
    agent.observe(bars((5, "101"), (10, "104")), backfill=True)
    undo(memory, agent.imports.commit([late], {"file": "x.csv"}).batch)
    assert shadows(agent, 20) == [(0.75, None)]
    lost = Claim(trade_id="k1", symbol="ETH", side="long", entry_at=minute(1), exit_at=minute(2), entry_price=Decimal(100),
                 exit_price=Decimal(90), qty=Decimal(1), stop=Decimal(95))  # fmt: skip
    agent.observe(lost)
    assert shadows(agent, 20) == [(0.75, 1)]
    assert agrees_with_its_log(memory)


@pytest.mark.parametrize("mode", ["sim", "paper"])
def test_a_decision_imported_a_second_time_is_one_shadow(memory: Memory, mode: Mode) -> None:
    agent = given_desk(memory, mode)
    agent.observe(bars((5, "101"), (10, "104")), backfill=True)
    undo(memory, agent.imports.commit([STOOD_ASIDE], {"file": "x.csv"}).batch)
    agent.imports.commit([STOOD_ASIDE], {"file": "x.csv"})
    assert shadows(agent, 20) == shadows(agent, 250) == [(0.75, None)]
    assert agrees_with_its_log(memory)


def test_a_claim_undone_with_the_first_broker_record_is_remembered_as_it_counted(memory: Memory) -> None:
    agent = given_desk(memory)
    claim = Claim(trade_id="k1", symbol="ETH", side="long", entry_at=minute(1), exit_at=minute(2), entry_price=Decimal(100),
                  exit_price=Decimal(50), qty=Decimal(1))  # fmt: skip
    batch = agent.imports.commit([claim, REPORTED], {"file": "x.csv"}).batch
    agent.observe(a_tick(10, a_fill("f1", 5), a_fill("f2", 6, "sell", px="101")))
    undo(memory, batch)  # it contains every broker record so far
    assert agrees_with_its_log(memory)


def test_the_next_tick_explains_a_fill_after_the_tick_that_explained_it_is_undone(memory: Memory) -> None:
    agent = given_desk(memory)
    agent.observe(a_fill("f1", 1))
    batch = agent.imports.commit([Tick(id="from-file", t=minute(5))], {"file": "x.csv"}).batch
    undo(memory, batch)
    agent.observe({"id": "t9", "t": minute(9), "decision": {"symbol": "AAPL", "action": "buy", "reason": "breakout"}})
    assert [trade.entry_reason for trade in agent.ledger.trades()] == ["breakout"]
    assert agrees_with_its_log(memory)


# ---- the same laws without an undo: a simulation that lives before what it was given ----------------------------------


def ticks(*each: tuple[int, list[Fill], dict[str, Any] | None]) -> Iterable[dict[str, Any]]:
    for n, fills, positions in each:
        yield a_tick(n, *fills, **({} if positions is None else {"positions": positions}))


def test_a_tick_known_before_the_bar_that_watched_a_trade_leaves_it_unsettled(memory: Memory) -> None:
    agent = given_desk(memory, "sim")
    agent.imports.commit([bars((15, "100"), minutes=30)], {"file": "bars.csv"})
    for tick in ticks((10, [a_fill("f1", 9)], None), (20, [], {}), (30, [], {})):
        agent.observe(tick)
    assert len(agent.ledger.trades(status="closed")) == 1
    assert agrees_with_its_log(memory)


def test_a_position_opened_by_a_late_tick_takes_its_excursions_from_the_stored_bars(memory: Memory) -> None:
    agent = given_desk(memory)
    agent.observe(bars((20, "97"), (25, "103")), backfill=True)
    agent.observe(a_tick(10, positions={"AAPL": [{"qty": "1", "entry_px": "100"}]}))
    assert [(t.mfe_usd, t.mae_usd) for t in agent.ledger.trades()] == [(Decimal(4), Decimal(-4))]
    assert agrees_with_its_log(memory)


def test_a_decision_that_two_ticks_name_belongs_to_the_first(memory: Memory) -> None:
    agent = given_desk(memory, "sim")
    decision = {"id": "d1", "symbol": "AAPL", "action": "buy", "reason": "breakout"}
    agent.observe({"id": "t1", "t": minute(1), "decision": decision})
    agent.observe({**a_tick(2, a_fill("f1", 2), a_fill("f2", 2, "sell", seq=1)), "decision": decision})
    assert [trade.entry_reason for trade in agent.ledger.trades()] == [None]
    assert agrees_with_its_log(memory)


def test_a_tick_that_is_recorded_late_does_not_change_what_was_believed_before_it(memory: Memory) -> None:
    """A fill is explained by the first tick after it that was known: here by one of the afternoon before that of noon came in."""
    agent = given_desk(memory)
    agent.observe(a_fill("f1", 1), backfill=True)
    agent.observe(a_fill("f2", 2, "sell"), backfill=True)
    agent.observe(a_tick(10))  # known when it arrived
    memory.resources.clock = FixedClock(IMPORTED + timedelta(minutes=5))
    before = agent.ledger.trades(as_of=minute(5))
    agent.observe(a_tick(20), backfill=True)
    assert agent.ledger.trades(as_of=minute(5)) == before
    assert [e.known_from for e in agent.memories.episodes(as_of=minute(5))] == [minute(2)]
    assert agrees_with_its_log(memory)


def test_an_undo_also_takes_back_a_fill_that_was_amended_since(memory: Memory) -> None:
    agent = given_desk(memory)
    batch = agent.imports.commit(ROUND_TRIP, {"file": "a.csv"}).batch
    agent.observe({"kind": "amend_fill", "fill_id": "y2", "t": minute(90), "content": {"fee": "7"}}, kind="amend_fill")
    assert agrees_with_its_log(memory)
    undo(memory, batch)
    assert agent.ledger.trades() == [] and agrees_with_its_log(memory)


@pytest.mark.parametrize("mode", ["sim", "paper"])
def test_an_undo_of_terms_changes_the_trades_that_a_source_reported(memory: Memory, mode: Mode) -> None:
    agent = given_desk(memory, mode)
    agent.imports.commit([REPORTED], {"file": "a.csv"})
    batch = agent.imports.commit([Instrument(id="i1", symbol="ETH", multiplier=Decimal(3))], {"file": "terms.csv"}).batch
    assert [trade.net_pnl_usd for trade in agent.ledger.trades()] == [30]
    undo(memory, batch)
    assert [trade.net_pnl_usd for trade in agent.ledger.trades()] == [10] and agrees_with_its_log(memory)


@pytest.mark.parametrize("mode", ["sim", "paper"])
def test_terms_and_bars_that_come_after_an_undo_change_what_was_believed_of_its_trades(memory: Memory, mode: Mode) -> None:
    agent = given_desk(memory, mode)
    undo(memory, agent.imports.commit([REPORTED], {"file": "a.csv"}).batch)
    agent.observe(Instrument(id="i1", symbol="ETH", multiplier=Decimal(3)))
    assert agent.ledger.trades() == [] and agrees_with_its_log(memory)


def test_an_undo_at_the_very_moment_of_news_leaves_no_version_that_nobody_believed(memory: Memory) -> None:
    agent = given_desk(memory, "sim")
    batch = agent.imports.commit([REPORTED], {"file": "a.csv"}).batch
    # In a simulation the undo has the time of the last thing known: the end of this bar.
    agent.observe(Bars(bars=(a_bar(0, "2995", minutes=5, symbol="ETH"),)))
    undo(memory, batch)
    assert agrees_with_its_log(memory)
