"""Events: what the log holds can be read as typed values and comes out as the same data."""

from __future__ import annotations

import gzip
import json
import sqlite3
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from memtape.core import events
from memtape.core.events import EVENTS, Event, UnknownEvent, event_data, read_event

STORE = Path(__file__).parents[1] / "fixtures" / "store_0_1.db.gz"
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
PRICES = (Decimal("1.5"), Decimal(2), Decimal(1), Decimal("1.25"))

EXAMPLES: list[tuple[Event, dict[str, object]]] = [
    (events.TradeOpened("t1", "BTC", "", "long", Decimal("0.5"), None, "fills"),
     {"event": "opened", "trade_id": "t1", "symbol": "BTC", "leg": "", "side": "long", "qty": "0.5", "entry_price": None,
      "quality": "fills"}),
    (events.TradeClosed("t1", "BTC", "", "long", Decimal("-10.00"), Decimal("-1"), None, "inferred"),
     {"event": "closed", "trade_id": "t1", "symbol": "BTC", "leg": "", "side": "long", "net_pnl_usd": "-10", "pnl_r": "-1",
      "close_cause": None, "quality": "inferred"}),
    (events.TradeRevised("t1", "BTC", "", None),
     {"event": "revised", "trade_id": "t1", "symbol": "BTC", "leg": "", "net_pnl_usd": None}),
    (events.DiscrepancyFound("BTC", "", NOON, "snapshot", Decimal(0), Decimal("0.5")),
     {"event": "discrepancy", "symbol": "BTC", "leg": "", "at": "2026-03-02T12:00:00Z", "why": "snapshot", "ledger_qty": "0",
      "broker_qty": "0.5"}),
    (events.StaleTick("s1", NOON, NOON),
     {"event": "stale", "tick": "s1", "t": "2026-03-02T12:00:00Z", "last_tick": "2026-03-02T12:00:00Z"}),
    (events.BarDiffers("BTC", NOON, PRICES, PRICES),
     {"event": "bar_differs", "symbol": "BTC", "t0": "2026-03-02T12:00:00Z", "kept": ["1.5", "2", "1", "1.25"],
      "given": ["1.5", "2", "1", "1.25"]}),
    (events.PriceFarOff("BTC", NOON, Decimal("652.00"), Decimal("65200.00"), "fill"),
     {"event": "price_far_off", "symbol": "BTC", "at": "2026-03-02T12:00:00Z", "price": "652", "compared_with": "65200", "what": "fill"}),
    (events.BriefNotRecorded("why"), {"event": "brief_not_recorded", "problem": "why"}),
    (events.DecisionRenamed("d1", "d1@owner"), {"event": "decision_renamed", "decision": "d1", "recorded_as": "d1@owner"}),
    (events.CardMisfit("d1", "why"), {"event": "card_misfit", "decision": "d1", "problem": "why"}),
    (events.PlanFired("p1", NOON, "skip_trade"),
     {"event": "plan_fired", "plan": "p1", "at": "2026-03-02T12:00:00Z", "action": "skip_trade"}),
    (events.PlanFired("p1", NOON, "skip_trade", "BTC"),
     {"event": "plan_fired", "plan": "p1", "at": "2026-03-02T12:00:00Z", "action": "skip_trade", "symbol": "BTC"}),
    (events.PlanExpired("p1", NOON), {"event": "plan_expired", "plan": "p1", "at": "2026-03-02T12:00:00Z"}),
    (events.MemoryCorrected("t1", ("pnl_r",)), {"event": "corrected", "memory_id": "t1", "fields": ["pnl_r"]}),
    (events.MemoryForgotten(), {"event": "forgotten"}),
    (events.MemoryForgotten("t1", ()), {"event": "forgotten", "memory_id": "t1", "fields": []}),
    (events.MemoryShredded("t1", 3), {"event": "shredded", "memory_id": "t1", "log_rows": 3}),
    (events.Reflected("n1"), {"event": "reflected", "note": "n1"}),
    (events.ReflectionFailed(), {"event": "reflection_failed"}),
    (events.LessonRetired("l1"), {"event": "retired", "lesson": "l1"}),
    (events.LessonsPromoted("n1"), {"event": "promoted", "note": "n1"}),
    (events.NoteAppended("n1", "journal.md", 1, 4, "abc"),
     {"event": "noted", "note": "n1", "path": "journal.md", "start_line": 1, "end_line": 4, "content_hash": "abc"}),
    (events.EditProposed("e1", "plan.md"), {"event": "proposed", "proposal": "e1", "path": "plan.md"}),
    (events.EditAccepting("e1"), {"event": "accepting", "proposal": "e1"}),
    (events.EditAccepted("e1"), {"event": "accepted", "proposal": "e1"}),
    (events.EditRejected("e1"), {"event": "rejected", "proposal": "e1"}),
]  # fmt: skip


@pytest.mark.parametrize(("event", "data"), EXAMPLES, ids=lambda each: each.name if isinstance(each, Event) else "")
def test_an_event_and_its_data_are_two_forms_of_the_same(event: Event, data: dict[str, object]) -> None:
    assert list(event_data(event).items()) == list(data.items())
    assert read_event(data) == event
    assert read_event(dict(sorted(data.items()))) == event


def test_every_event_has_an_example() -> None:
    assert {event.name for event, _ in EXAMPLES} == set(EVENTS)


@pytest.mark.parametrize(
    "data",
    [
        {"event": "plan_paused", "plan": "p1"},
        {"event": "plan_expired", "plan": "p1"},
        {"event": "plan_expired", "plan": "p1", "at": "2026-03-02T12:00:00Z", "by": "owner"},
        {"event": "plan_expired", "plan": "p1", "at": "noon"},
        {"plan": "p1"},
    ],
)
def test_data_of_another_shape_is_kept_as_found(data: dict[str, object]) -> None:
    event = read_event(data)
    assert isinstance(event, UnknownEvent)
    assert event_data(event) == data and event.name == data.get("event", "")


def test_the_events_of_a_store_of_0_1_are_read_and_written_in_the_same_bytes(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(gzip.decompress(STORE.read_bytes()))
    connection = sqlite3.connect(path)
    payloads = [json.loads(text) for (text,) in connection.execute("SELECT payload FROM log WHERE payload IS NOT NULL")]
    connection.close()
    stored = [data for payload in payloads for data in payload["concluded"]]
    read = [read_event(data) for data in stored]
    assert not [event for event in read if isinstance(event, UnknownEvent)]
    assert [event_data(event) for event in read] == stored
    assert len({event.name for event in read}) >= 15
