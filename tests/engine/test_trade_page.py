"""Pages of trades: every filter and sort gives what a plain reading of all trades gives, and pages follow each other."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from memtape.core.ledger.trade_page import SORT_FIELDS, TradeLabels, TradePage
from memtape.errors import Invalid
from memtape.store import trades as trade_tables
from memtape.surfaces.registry import execute
from tests.desk import given_agent

pytestmark = pytest.mark.any_store

START = datetime(2026, 1, 5, tzinfo=UTC)
REGIMES, SESSIONS, TAGS = ("ranging", "trending_up", "volatile"), ("asia", "london"), ((), ("news",), ("a_b", "news"), ('say "hi"',))


@pytest.fixture
def journal(memory):
    """Forty reported trades: every kind of outcome, label and tag."""
    agent = given_agent(memory)
    for n in range(40):
        at = START + timedelta(hours=7 * n)
        pnl = (-3, 2, 0, -1, None)[n % 5]
        agent.observe({
            "trade_id": f"m{n}", "symbol": ("BTC", "ETH")[n % 2], "side": ("long", "short")[n % 3 % 2], "entry_price": 100, "qty": 1,
            "exit_price": None if pnl is None else 100, "pnl": pnl, "strategy": ("vb", "swing")[n % 4 // 2], "entry_at": at,
            "exit_at": at + timedelta(hours=(n * 11) % 50 + 1), "tags": list(TAGS[n % 4]),
            "situation": {"regime": REGIMES[n % 3], "session": SESSIONS[n % 2]},
        }, kind="trade")  # fmt: skip
    return agent


FILTERS = {
    "everything": {}, "wins": {"outcome": "win"}, "losses": {"outcome": "loss"}, "scratches": {"outcome": "scratch"},
    "unknown": {"outcome": "unknown"}, "open": {"outcome": "open"}, "a regime": {"regime": "ranging"}, "a session": {"session": "asia"},
    "a regime never seen": {"regime": "trending_down"}, "a tag": {"tag": "news"}, "a tag in quotes": {"tag": 'say "hi"'},
    "a tag never used": {"tag": "ews"}, "a tag with an underscore": {"tag": "a_b"}, "a strategy": {"strategy": "swing"}, "a side": {"side": "short"},
    "a symbol and a tag": {"symbol": "ETH", "tag": "news"}, "a regime and a session": {"regime": "ranging", "session": "london"},
    "entries of three days": {"since": START + timedelta(days=2), "until": START + timedelta(days=5)},
    "exits of three days": {"date": "exit", "since": START + timedelta(days=2), "until": START + timedelta(days=5)},
    "losses of a regime since": {"outcome": "loss", "regime": "volatile", "since": START + timedelta(days=4)},
}  # fmt: skip


@pytest.mark.each_store
@pytest.mark.parametrize("few", [0, 6, 400], ids=["never few", "sometimes few", "always few"])
def test_every_filter_and_sort_gives_what_reading_all_trades_gives(journal, few, monkeypatch):
    monkeypatch.setattr(trade_tables, "FEW_TRADES", few)
    labels = {episode.id: TradeLabels.of_episode(episode) for episode in journal.memories.episodes()}
    everything, compared = journal.ledger.trades(), 0
    assert len(everything) == 40 and len(labels) == 40
    for (name, wanted), sort, descending in product(FILTERS.items(), SORT_FIELDS, (True, False)):
        page = TradePage(**wanted, sort=sort, descending=descending, limit=7, offset=2)
        plainly = page.cut(trade for trade in everything if page.admits(trade, labels[trade.id]))
        assert [t.id for t in journal.ledger.trade_page(page)] == [t.id for t in plainly], (name, sort, descending)
        compared += len(plainly)
    assert compared > 500


@pytest.mark.parametrize("order", ["desc", "asc"])
@pytest.mark.parametrize("sort", SORT_FIELDS)
def test_the_pages_of_a_sort_list_every_trade_once(journal, memory, sort, order):
    ask, found = {"agent": journal.agent.id, "sort": sort, "order": order, "limit": 9, "session": "LDN"}, []
    while True:
        page = execute(memory, "get_trades", ask)
        found += [trade["id"] for trade in page["trades"]]
        if page["next_cursor"] is None:
            break
        ask["cursor"] = page["next_cursor"]
    assert len(found) == len(set(found)) == 20


def ids(memory, **ask):
    return {trade["id"] for trade in execute(memory, "get_trades", ask)["trades"]}


def test_a_day_without_a_time_is_included_whole_in_utc(journal, memory):
    found = execute(memory, "get_trades", {"agent": journal.agent.id, "since": "2026-01-06", "until": "2026-01-06", "order": "asc"})
    assert [trade["entry_at"] for trade in found["trades"]] == ["2026-01-06T04:00:00Z", "2026-01-06T11:00:00Z", "2026-01-06T18:00:00Z"]


def test_labels_are_asked_for_in_any_of_their_words_and_sorts_by_the_names_of_columns(journal, memory):
    desk = journal.agent.id
    assert ids(memory, agent=desk, regime="Sideways") == ids(memory, agent=desk, regime="ranging") != set()
    worst = execute(memory, "get_trades", {"agent": desk, "sort": "net_pnl_usd", "order": "asc", "limit": 1})["trades"]
    assert worst[0]["net_pnl_usd"] == "-3"


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [("outcome", "lost", "'scratch'"), ("sort", "luck", "'held'"), ("date", "birth", "'exit'"),
     ("since", "yesterday", "ISO 8601")],
)  # fmt: skip
def test_a_value_that_no_filter_knows_is_refused_with_those_that_it_does(journal, memory, field, value, named):
    with pytest.raises(Invalid, match=f"(?s){field}.*{named}"):
        execute(memory, "get_trades", {"agent": journal.agent.id, field: value})


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [("regime", "moonlight", "ranging"), ("session", "mars", "asia"), ("tag", "newss", "news"), ("strategy", "vbb", "vb"),
     ("symbol", "BTCC", "BTC")],
)  # fmt: skip
def test_a_label_tag_strategy_or_symbol_that_no_trade_has_gives_a_note_that_names_those_that_exist(journal, memory, field, value, named):
    found = execute(memory, "get_trades", {"agent": journal.agent.id, field: value})
    assert found["trades"] == []
    [note] = found["notes"]
    assert value in note and named in note


def test_a_period_that_ends_before_it_begins_is_refused(journal, memory):
    with pytest.raises(Invalid, match="until: is not later than since"):
        execute(memory, "get_trades", {"agent": journal.agent.id, "since": "2026-02-01", "until": "2026-01-01"})


def test_a_cursor_of_the_other_order_is_refused(journal, memory):
    for sort in ("entry", "net"):
        page = execute(memory, "get_trades", {"agent": journal.agent.id, "sort": sort, "limit": 2, "order": "asc"})
        with pytest.raises(Invalid, match="cursor"):
            execute(memory, "get_trades", {"agent": journal.agent.id, "sort": sort, "order": "desc", "cursor": page["next_cursor"]})


def test_a_known_label_that_no_trade_has_gives_an_empty_page(journal, memory):
    assert execute(memory, "get_trades", {"agent": journal.agent.id, "regime": "trending_down"})["trades"] == []


def test_a_cursor_of_another_sort_is_refused(journal, memory):
    by_net = execute(memory, "get_trades", {"agent": journal.agent.id, "sort": "net", "limit": 2})["next_cursor"]
    with pytest.raises(Invalid, match="cursor"):
        execute(memory, "get_trades", {"agent": journal.agent.id, "sort": "r", "cursor": by_net})
