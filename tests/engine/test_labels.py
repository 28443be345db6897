"""Labels and symbols as people write them: folded on every way in, and explained where no memory has them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtape.core.labels import VOCABULARIES, LabelKind, fold_label
from memtape.engine import AgentMemory, Memory
from memtape.engine.proof.audit import rebuild_store, verify_store
from memtape.errors import Invalid
from memtape.surfaces.registry import execute
from tests.desk import given_agent

pytestmark = pytest.mark.any_store
START = datetime(2026, 1, 5, 8, tzinfo=UTC)


def hour(n: float) -> datetime:
    return START + timedelta(hours=n)


def remember(agent: AgentMemory, n: int, symbol: str = "BTCUSDT", **situation: Any) -> str:
    """The n-th trade of a diary, a loss of 1R; its id."""
    report = {"symbol": symbol, "side": "Buy", "entry_price": 100, "exit_price": 99, "pnl_r": -1.0, "trade_id": f"m{n}",
              "entry_at": hour(n), "exit_at": hour(n + 0.5), "situation": situation}  # fmt: skip
    return str(agent.remember_trade(report).concluded[0].trade_id)


def days(n: int, *, symbol: str = "BTCUSDT", length: timedelta = timedelta(days=1)) -> dict[str, Any]:
    """So many bars of one length that end before the first trade of the diary."""
    end = datetime(2026, 1, 5, tzinfo=UTC)
    bars = [
        {"symbol": symbol, "t0": end - (k + 1) * length, "t1": end - k * length, "o": 100, "h": 101, "l": 99, "c": 100}
        for k in range(n)
    ]
    return {"bars": bars[::-1]}


@pytest.fixture
def diary(memory: Memory) -> AgentMemory:
    """An agent that reports its own trades."""
    return given_agent(memory)


# ---- folded on the way in ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("written", ["london", "London", "LDN", "LONDON session", " europe "])
def test_a_session_is_one_label_however_a_trade_writes_it(diary: AgentMemory, written: str) -> None:
    id_ = remember(diary, 1, session=written, regime="Up-Trend", volatility="Very High")
    episode = diary.memories.episode(id_)
    assert episode is not None
    assert (episode.session, episode.regime, episode.volatility_regime, episode.side) == (
        "london",
        "trending_up",
        "extreme",
        "long",
    )
    [trade] = diary.ledger.trades()
    assert (trade.entry_session, trade.entry_regime, trade.entry_volatility) == ("london", "trending_up", "extreme")


def test_a_label_of_the_owner_s_own_is_kept_as_written(diary: AgentMemory) -> None:
    id_ = remember(diary, 1, session="Witching Hour")
    assert diary.memories.episodes()[0].session == "Witching Hour"
    diary.memories.correct(id_, {"session": "New York", "regime": "Sideways"}, "checked")
    corrected = diary.memories.episodes()[0]
    assert (corrected.session, corrected.regime) == ("newyork", "ranging")


def test_a_decision_and_a_fill_are_read_in_any_of_the_words_for_a_side(diary: AgentMemory) -> None:
    decision = {
        "id": "d1",
        "symbol": "ETH",
        "side": "LONG",
        "action": "open",
        "situation": {"regime": "Bull", "session": "Tokyo"},
    }
    diary.observe({"id": "t1", "t": hour(1), "decision": decision})
    diary.observe({"id": "f1", "t": hour(1), "symbol": "ETH", "side": "Long", "qty": 1, "px": 100, "decision": "d1"}, kind="fill")
    diary.observe({"id": "f2", "t": hour(2), "symbol": "ETH", "side": "SELL", "qty": 1, "px": 101}, kind="fill")
    [trade] = diary.ledger.trades()
    assert (trade.side, trade.entry_regime, trade.entry_session, trade.status) == ("long", "trending_up", "asia", "closed")
    with pytest.raises(Invalid, match="side"):
        diary.observe({"id": "f3", "t": hour(3), "symbol": "ETH", "side": "sideways", "qty": 1, "px": 101}, kind="fill")


def test_questions_are_folded_like_the_record(diary: AgentMemory) -> None:
    for n in range(4):
        remember(diary, n, session="London")
    written = [diary.memories.recall({"session": word}, side=side)[0] for word, side in (("london", "long"), ("LDN", "Buy"))]
    assert written[0] == written[1] and written[0].warnings
    checks = [diary.memories.check_order(symbol="BTCUSDT", side=side, situation={"session": word})
              for word, side in (("london", "long"), ("London session", "BUY"))]  # fmt: skip
    assert checks[0] == checks[1]
    with pytest.raises(Invalid, match="side: 'up and down' is neither long nor short"):
        diary.memories.recall(side="up and down")  # type: ignore[arg-type]


def test_plans_and_beliefs_mean_the_label_whatever_word_they_use(diary: AgentMemory) -> None:
    for n in range(4):
        remember(diary, n, session="London")
    diary.plans.create(
        {"id": "pause", "trigger": {"session": "LDN"}, "action": "skip_trade", "reasoning": "Losses", "maker": "owner"}
    )
    found = diary.memories.check_order(symbol="BTCUSDT", side="long", situation={"session": "London"})
    assert [plan.state.id for plan in found.plans] == ["pause"]
    id_ = diary.memories.state_belief({"sentence": "London loses", "when": {"session": "LONDON"}, "op": "lt"})
    belief, for_, _ = diary.memories.belief(id_)
    assert (belief.n, len(for_)) == (4, 4)


@given(kind=st.sampled_from(sorted(VOCABULARIES)), text=st.text(max_size=30))
def test_folding_twice_changes_nothing(kind: LabelKind, text: str) -> None:
    once = fold_label(kind, text)
    assert once is None or fold_label(kind, once) == once


def test_folded_records_verify_and_rebuild_to_the_same_rows(memory: Memory, diary: AgentMemory) -> None:
    remember(diary, 1, session="LDN")
    before = verify_store(memory)
    assert before.problems == []
    assert rebuild_store(memory).digests.items() <= before.digests.items()


# ---- bars of a day give no session ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [timedelta(days=1), timedelta(days=7)])
def test_an_agent_on_bars_of_a_day_or_longer_has_no_session(diary: AgentMemory, length: timedelta) -> None:
    diary.observe(days(30, length=length), kind="bars")
    remember(diary, 1)
    assert diary.memories.episodes()[0].session is None
    assert diary.memories.recall(symbol="BTCUSDT")[1].situation.session is None


def test_bars_of_an_hour_give_a_session_and_a_stated_one_stands_on_any_bars(diary: AgentMemory) -> None:
    diary.observe(days(30), kind="bars")
    diary.observe(days(30, symbol="EURUSD", length=timedelta(hours=1)), kind="bars")
    remember(diary, 1, symbol="EURUSD")
    remember(diary, 2, session="New York")
    assert {e.symbol: e.session for e in diary.memories.episodes()} == {"EURUSD": "london", "BTCUSDT": "newyork"}


# ---- what no memory has -----------------------------------------------------------------------------------------------------


def test_a_label_that_no_memory_has_is_named_with_those_that_exist(diary: AgentMemory) -> None:
    remember(diary, 1, session="london", regime="ranging")
    remember(diary, 2, session="asia", regime="ranging")
    asked = {"session": "frankfurtt", "regime": "Sideways"}
    expected = ("no memory has session 'frankfurtt'; known: asia, london",)
    head = diary.head().seq
    assert diary.memories.recall(asked)[2].notes == expected
    assert diary.memories.recall(asked, head=head)[2].notes == expected
    assert diary.memories.check_order(symbol="BTCUSDT", side="long", situation=asked).moment.notes == expected
    assert diary.memories.recall({"session": "LDN"})[2].notes == ()


def test_as_of_a_moment_only_the_labels_known_then_are_named(diary: AgentMemory) -> None:
    remember(diary, 1, session="london")
    remember(diary, 5, session="asia")
    assert diary.memories.recall({"session": "asia"}, as_of=hour(3))[2].notes == ("no memory has session 'asia'; known: london",)


def test_a_check_without_a_stated_situation_says_nothing_about_labels(diary: AgentMemory) -> None:
    remember(diary, 1, session="Witching Hour", regime="mine")
    assert diary.memories.check_order(symbol="BTCUSDT", side="long").moment.notes == ()


def test_a_symbol_that_is_nearly_right_is_suggested_on_every_question(memory: Memory, diary: AgentMemory) -> None:
    remember(diary, 1, symbol="BTC-USD")
    remember(diary, 2, symbol="BTCUSDT")
    expected = ["no memory of BTCUSD; did you mean BTC-USD or BTCUSDT?"]
    asked = {"agent": "desk", "symbol": "BTCUSD"}
    assert execute(memory, "recall_memories", asked)["notes"] == expected
    assert execute(memory, "pre_trade_check", {**asked, "side": "Long"})["notes"] == expected
    assert execute(memory, "get_trades", asked)["notes"] == expected
    assert execute(memory, "get_brief", asked)["notes"] == expected
    assert execute(memory, "get_strategy_performance", asked)["notes"] == expected
    assert execute(memory, "get_behavioral_analysis", asked)["notes"] == expected
    assert execute(memory, "get_trades", {**asked, "symbol": "BTCUSDT", "side": "BUY"})["n"] == 1


def test_an_agent_without_memories_gets_no_notes(memory: Memory, diary: AgentMemory) -> None:
    assert execute(memory, "recall_memories", {"agent": "desk", "symbol": "BTC", "context": {"session": "x"}})["notes"] == []


# ---- the row of the ledger shows what bars show -----------------------------------------------------------------------------


def hourly(n: int = 60, *, last: float = 0.0) -> dict[str, Any]:
    """So many hourly bars of a steady rise that end with the hour `last` of the diary."""
    bars = [{"symbol": "BTCUSDT", "t0": hour(last - n + k), "t1": hour(last - n + k + 1), "o": 100 + k, "h": 102 + k, "l": 99 + k,
             "c": 101 + k} for k in range(n)]  # fmt: skip
    return {"bars": bars}


def row(memory: Memory, **more: Any) -> dict[str, Any]:
    """The labels of the only trade, as get_trades shows it, and where they come from."""
    [found] = execute(memory, "get_trades", {"agent": "desk", **more})["trades"]
    return {name: found[f"entry_{name}"] for name in ("regime", "volatility", "session")} | {"from": found["labels_from"]}


def test_labels_that_nobody_stated_are_filled_from_bars_and_the_row_says_so(memory: Memory, diary: AgentMemory) -> None:
    diary.observe(hourly(), kind="bars")
    remember(diary, 1, volatility="High")
    shown = {"regime": "trending_up", "volatility": "high", "session": "london",
             "from": {"regime": "bars", "volatility": "stated", "session": "time of entry"}}  # fmt: skip
    assert row(memory) == shown
    assert row(memory, head=diary.head().seq) == shown
    id_ = diary.ledger.trades()[0].id
    told = execute(memory, "get_trade_reflection", {"agent": "desk", "trade_id": id_})
    assert (told["trade"]["entry_regime"], told["episode"]["regime"]) == ("trending_up", "trending_up")
    assert execute(memory, "get_ledger", {"agent": "desk"})["rows"][0]["entry_regime"] == "trending_up"


def test_an_open_trade_has_the_labels_of_its_entry_too(memory: Memory, diary: AgentMemory) -> None:
    diary.observe(hourly(), kind="bars")
    diary.observe({"id": "f1", "t": hour(1), "symbol": "BTCUSDT", "side": "buy", "qty": 1, "px": 100}, kind="fill")
    [held] = execute(memory, "get_open_positions", {"agent": "desk"})["positions"]
    assert (held["entry_regime"], held["entry_session"], held["labels_from"]["regime"]) == ("trending_up", "london", "bars")


def test_bars_that_are_imported_later_revise_the_row_of_the_ledger(memory: Memory) -> None:
    agent = given_agent(memory, mode="live")
    remember(agent, 1)
    assert row(memory)["regime"] is None
    agent.observe(hourly(), kind="bars", backfill=True)
    assert row(memory)["regime"] == "trending_up"
    before = verify_store(memory)
    assert before.problems == []
    assert rebuild_store(memory).digests.items() <= before.digests.items()
    assert row(memory)["regime"] == "trending_up"


def test_bars_after_the_entry_change_nothing_about_it(memory: Memory, diary: AgentMemory) -> None:
    remember(diary, 1)
    diary.observe(hourly(last=70), kind="bars")
    assert row(memory)["regime"] is None


def test_a_corrected_label_stands_in_the_row_as_stated(memory: Memory, diary: AgentMemory) -> None:
    diary.observe(hourly(), kind="bars")
    id_ = remember(diary, 1)
    before = diary.head().seq
    diary.memories.correct(id_, {"regime": "Choppy"}, "it was no trend")
    assert (row(memory)["regime"], row(memory)["from"]["regime"]) == ("ranging", "stated")
    assert row(memory, head=before)["regime"] == "trending_up"
