"""Briefs through the engine: what is told, made again byte for byte, recorded when it was shown. On both stores."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

import memtape
from memtape.core.codec import digest
from memtape.core.recall.query import RecallParameters
from memtape.engine import AgentMemory, Memory, brief_inputs
from memtape.engine.briefs import AssembledBrief
from memtape.engine.proof.audit import rebuild_store, verify_store
from memtape.errors import Conflict, Invalid
from tests.desk import given_memory
from tests.effort import examples

pytestmark = pytest.mark.any_store

START = datetime(2026, 3, 2, 8, tzinfo=UTC)
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def hour(n: float) -> datetime:
    return START + timedelta(hours=n)


def given(memory: Memory, mode: str = "sim", **config: Any) -> AgentMemory:
    memory.create_skill("breakout", strategy="Buy strength.", avoid=["No entry before the release."],
                        limits={"risk per trade": "1 % of equity"}, memory=config)  # fmt: skip
    memory.create_agent("desk", skill="breakout", mode=mode)  # type: ignore[arg-type]
    return memory.agent("desk")


def bar(n: int, px: float) -> dict[str, Any]:
    """The hour that ends at n."""
    return {"symbol": "BTC", "t0": hour(n - 1), "t1": hour(n), "o": px, "h": px + 2, "l": px - 2, "c": px}


def trading(agent: AgentMemory, hours: int, first: int = 0, shown: bool = True) -> list[AssembledBrief]:
    """Trades in and out, long and short, with a reason each time; before each tick it is briefed, and shown it."""
    made: list[AssembledBrief] = []
    held = Decimal(0)
    for n in range(first, first + hours):
        px = 100 + 7 * ((n * 37) % 11 - 5) / 5 + n / 10
        if n > first or first:
            made.append(agent.briefs.make())
            if shown:
                agent.briefs.record_shown(made[-1], run=f"run-{n}")
        deed: dict[str, Any] = {}
        if n % 3 == 0:
            side = "long" if n % 2 else "short"
            sign = 1 if side == "long" else -1
            deed = {"fills": [{"id": f"f{n}", "t": hour(n - 0.5), "symbol": "BTC", "side": "buy" if side == "long" else "sell", "qty": 1,
                               "px": px, "fee": "0.1", "decision": f"d{n}"}],
                    "decision": {"id": f"d{n}", "symbol": "BTC", "action": "buy", "side": side, "reason": f"broke the range at {px:g}",
                                 "stop": px - 4 * sign, "target": px + 8 * sign}}  # fmt: skip
            held = Decimal(sign)
        elif n % 3 == 2 and held:
            deed = {"fills": [{"id": f"f{n}", "t": hour(n - 0.5), "symbol": "BTC", "side": "sell" if held > 0 else "buy", "qty": 1,
                               "px": px, "fee": "0.1"}]}  # fmt: skip
            held = Decimal(0)
        elif n % 5 == 1:
            refused = {"accepted": False, "code": "R3_POSITION_CAP", "note": "too large"}
            deed = {"decision": {"symbol": "BTC", "action": "buy", "side": "long", "stop": px - 4, "target": px + 9, "reason": "again",
                                 "verdict": refused}}  # fmt: skip
        held_now = {"BTC": {"qty": held}} if held else {}
        receipt = agent.observe(
            {"id": f"t{n}", "t": hour(n), "positions": held_now, "marks": {"BTC": px}, "bars": [bar(n, px)], **deed}
        )
        if receipt.reflection_due:
            agent.lessons.reflect_if_due()
    return made


def again(agent: AgentMemory, made: AssembledBrief) -> AssembledBrief:
    """The same brief, from the record alone."""
    asked = made.question
    return agent.briefs.make(asked.situation, symbol=asked.symbol, as_of=asked.as_of, head=asked.head, budget=asked.budget,
                       without_memory=asked.without_memory)  # fmt: skip


# ---- made again ----------------------------------------------------------------------------------------------------------


@pytest.mark.each_store
def test_every_brief_that_was_shown_is_made_again_byte_for_byte_whatever_came_later(memory):
    agent = given(memory, reflection={"everyNTrades": 2})
    agent.plans.create({"trigger": {"regime": "ranging"}, "action": "reduce", "size_factor": 0.5, "reasoning": "ranges chop"})
    made = trading(agent, 24)
    late = {"id": "late", "t": hour(14.2), "symbol": "BTC", "side": "buy", "qty": "0.5", "px": 101, "fee": 0}
    agent.observe(late, kind="fill")
    agent.observe({"bars": [{**bar(-3, 99), "o": 99}]}, kind="bars", backfill=True)
    memory.record_events([{"id": "cpi", "t": hour(18), "name": "CPI", "impact": "high"}], backfill=True)
    memory.create_skill("breakout", strategy="Sell strength.", avoid=[])
    memory.use_skill_version("desk", 2)
    agent = memory.agent("desk")
    trading(agent, 6, first=24)
    for each in made:
        same = again(agent, each)
        assert same.brief.text == each.brief.text, each.question
        assert same.brief.citations == each.brief.citations
    assert len({each.brief.digest for each in made}) > 18
    assert verify_store(memory).ok


def test_a_live_agents_briefs_are_made_again_too(memory):
    agent = given(memory, mode="paper", reflection={"everyNTrades": 2})
    made = []
    for n in range(12):
        memory.clock.at = hour(3 * n + 3)
        made += trading(agent, 3, first=3 * n)
    memory.record_events([{"id": "cpi", "t": hour(20), "name": "CPI", "impact": "high"}], backfill=True)
    agent.observe({"id": "late", "t": hour(20.2), "symbol": "BTC", "side": "buy", "qty": "0.5", "px": 101, "fee": 0}, kind="fill")
    for each in made:
        assert again(agent, each).brief.text == each.brief.text, each.question


@settings(max_examples=examples(6, 100))
@drawn(st.integers(3, 25), st.integers(1, 12), st.booleans())
def test_what_comes_later_changes_no_brief_as_of_a_moment(hours, more, daily):
    config: dict[str, Any] = {"cadence": "daily"} if daily else {"everyNTrades": 2}
    whole, cut = (given(given_memory(), reflection=config) for _ in range(2))
    trading(cut, hours, shown=False)
    trading(whole, hours + more, shown=False)
    at = cut.now()
    assert whole.briefs.make(as_of=at).brief.text == cut.briefs.make(as_of=at).brief.text


def test_the_same_history_gives_the_same_briefs_on_both_stores(opened, sqlite_url, postgres_url):
    texts = [[each.brief.text for each in trading(given(opened(url), reflection={"everyNTrades": 3}, similarSituations=True), 30)]
             for url in (sqlite_url, postgres_url)]  # fmt: skip
    assert texts[0] == texts[1]


SCRIPT = """
import locale, sys
locale.setlocale(locale.LC_ALL, "")
from tests.desk import given_memory
from tests.effort import examples
from tests.engine.test_briefs import given, trading
print(*[each.brief.digest for each in trading(given(given_memory(), reflection={"everyNTrades": 3}, similarSituations=True), 20)])
"""


def test_the_bytes_do_not_depend_on_process_hash_seed_locale_or_time_zone():
    told = set()
    for seed, words, zone in (("0", "C", "UTC"), ("4711", "C.UTF-8", "Asia/Tokyo")):
        env = {**os.environ, "PYTHONHASHSEED": seed, "LC_ALL": words, "TZ": zone,
               "PYTHONPATH": os.pathsep.join([str(Path(memtape.__file__).parents[1]), str(Path(__file__).parents[2])])}  # fmt: skip
        told.add(subprocess.run([sys.executable, "-c", SCRIPT], env=env, check=True, capture_output=True, text=True).stdout)
    assert len(told) == 1 and told.pop().count(" ") == 18


# ---- what it tells -------------------------------------------------------------------------------------------------------


def names(made: AssembledBrief) -> list[str]:
    return [segment.name for segment in made.brief.segments]


def test_an_empty_memory_tells_rules_and_risk_and_nothing_of_memory(memory):
    made = given(memory).briefs.make(as_of=START)
    assert names(made)[:3] == ["header", "limits", "strategy"]
    assert not {"lessons", "recent_trades", "open_positions", "memory", "similar"} & set(names(made))
    assert "No entry before the release." in made.brief.text and "1 % of equity" in made.brief.text


def test_after_some_trades_every_part_is_there_in_its_order(memory):
    agent = given(memory, reflection={"everyNTrades": 2}, similarSituations=True)
    trading(agent, 34)
    made = agent.briefs.make()
    # So few trades teach nothing that could not be chance, and hints are for the pages.
    assert names(made) == ["header", "limits", "strategy", "footer", "recent_trades", "open_positions", "risk_state", "memory",
                           "similar"]  # fmt: skip
    assert agent.lessons.active()[0].note.lessons and all(one.chance for one in agent.lessons.active()[0].note.lessons)
    text = made.brief.text
    assert "## Recent trades on this skill (closed)" in text and "## Open positions (memory view)" in text
    assert "R3_POSITION_CAP" in text
    assert made.brief.digest == digest(text)
    lines = text.splitlines()
    for cited in made.brief.citations:
        assert lines[cited.line - 1].startswith("- ") or cited.segment in ("limits", "strategy", "rules"), cited


def test_without_memory_only_what_memory_says_is_missing(memory):
    agent = given(memory, reflection={"everyNTrades": 2})
    trading(agent, 34)
    whole, bare = agent.briefs.make(), agent.briefs.make(without_memory=True)
    assert set(names(whole)) - set(names(bare)) == {"recent_trades", "open_positions", "memory"}
    assert "Buy strength." in bare.brief.text and "broke the range" not in bare.brief.text
    assert bare.memories == ()


def test_the_skills_config_says_how_many_trades_and_whether_open_positions_are_told(memory):
    agent = given(memory, recentTradesK=3, includeOpenPositions=False, reflection={"cadence": "off"})
    trading(agent, 34)
    made = agent.briefs.make()
    recent = next(segment for segment in made.brief.segments if segment.name == "recent_trades")
    assert recent.text.count("\n- ") == 3
    assert "open_positions" not in names(made) and "lessons" not in names(made)


def test_open_positions_are_marked_to_the_last_price_known(memory):
    agent = given(memory)
    fill = {"id": "f1", "t": hour(0), "symbol": "BTC", "side": "buy", "qty": 2, "px": 100, "fee": 0, "rate": "0.5"}
    agent.observe({"id": "t1", "t": hour(1), "marks": {"BTC": 110}, "fills": [fill]})
    holding = next(s for s in agent.briefs.make().brief.segments if s.name == "open_positions").text
    assert "mark=110" in holding and "+$10" in holding


def test_where_each_symbol_was_traded_once_the_brief_says_what_all_symbols_say(memory):
    agent = given(memory, mode="paper")
    for n in range(12):  # contracts of options: each has a symbol of its own, and no stop
        agent.observe(
            {"trade_id": str(n), "symbol": f"TSLA26{n:02d}C", "side": "long", "entry_at": hour(4 * n), "entry_price": 2,
             "exit_at": hour(4 * n + 1), "exit_price": 3 if n % 4 == 0 else 1, "qty": 100, "pnl": 100 if n % 4 == 0 else -50},
            kind="trade", backfill=True,
        )  # fmt: skip
    text = agent.briefs.make(as_of=hour(48)).brief.text
    assert "- Evidence for any symbol, " in text and " in typical losses of $50.00 " in text and "; all 12 trades: -0.25, 25 % won" in text
    # Of two trades in all, the means are left out as before, and a symbol with enough trades speaks for itself.
    assert "Evidence" not in agent.briefs.make(as_of=hour(6)).brief.text
    for n in range(12, 18):
        agent.observe(
            {"trade_id": str(n), "symbol": "SPY", "side": "long", "entry_at": hour(4 * n), "entry_price": 2,
             "exit_at": hour(4 * n + 1), "exit_price": 1, "qty": 100, "pnl": -50},
            kind="trade", backfill=True,
        )  # fmt: skip
    assert "- Evidence for SPY, " in agent.briefs.make(as_of=hour(72)).brief.text


def test_a_budget_is_kept_and_says_what_was_left_out(memory):
    agent = given(memory, recentTradesK=30, reflection={"everyNTrades": 2})
    trading(agent, 60)
    whole, short = agent.briefs.make(budget=4000).brief, agent.briefs.make(budget=1200).brief
    assert short.tokens <= 1200 < whole.tokens
    assert sum(segment.left_out for segment in short.segments) > 0
    assert next(s.text for s in short.segments if s.name == "limits") == next(s.text for s in whole.segments if s.name == "limits")


# ---- what was shown ------------------------------------------------------------------------------------------------------


def test_reading_a_brief_writes_nothing_and_showing_it_keeps_its_text_once(memory):
    agent = given(memory)
    trading(agent, 10, shown=False)
    head = agent.head()
    made = agent.briefs.make()
    assert agent.head() == head
    agent.briefs.record_shown(made, decision="d1")
    assert agent.briefs.record_shown(made, decision="d1").duplicate
    agent.briefs.record_shown(made, decision="d2")
    assert agent.briefs.text(made.brief.digest) == made.brief.text
    with memory.resources.reading("desk") as tables:
        assert len(tables.log_of(("brief",))) == 1 and len(tables.log_of(("shown",))) == 2
    assert [row["decision"] for row in agent.briefs.shown()] == ["d2", "d1"]
    assert verify_store(memory).ok and rebuild_store(memory).ok


@pytest.mark.each_store
def test_a_receipt_is_enough_to_record_it_also_in_another_process(memory):
    agent = given(memory)
    trading(agent, 10, shown=False)
    receipt = agent.briefs.make(budget=900).receipt
    agent.observe({"id": "t99", "t": hour(99), "marks": {"BTC": 90}})
    other = Memory(memory.database, memory.owner, memory.clock).agent("desk")
    other.briefs.record_shown(receipt, run="run-1")
    assert other.briefs.shown()[0]["budget"] == 900


def test_a_receipt_that_was_tampered_with_is_refused(memory):
    agent = given(memory)
    trading(agent, 10, shown=False)
    receipt = agent.briefs.make().receipt
    other = Memory(memory.database, memory.owner, memory.clock).agent("desk")
    with pytest.raises(Conflict, match="cannot be made again"):
        other.briefs.record_shown(receipt.replace('"budget":4000', '"budget":400'))
    with pytest.raises(Invalid, match="receipt"):
        other.briefs.record_shown("yesterday's brief")
    assert other.briefs.shown() == []


def test_only_what_was_shown_reinforces_a_memory(memory):
    agent = given(memory)
    trading(agent, 20, shown=False)
    strong = RecallParameters(strength="on")

    def scores() -> dict[str, float]:
        found, _, _ = agent.memories.recall(symbol="BTC", parameters=strong, as_of=hour(40))
        return {item.id: item.score for item in found.ranked if item.kind == "episodic"}

    before = scores()
    for _ in range(3):
        agent.briefs.make()
    assert scores() == before
    made = agent.briefs.make()
    agent.briefs.record_shown(made, decision="d1")
    after = scores()
    assert {id_ for id_ in before if after[id_] != before[id_]} == set(before) & set(made.memories) != set()


def test_a_plan_that_a_shown_brief_tells_to_fire_has_fired_and_one_that_was_only_read_has_not(memory):
    agent = given(memory)
    trading(agent, 12, shown=False)
    agent.plans.create({"id": "half", "trigger": {"symbol": "BTC"}, "action": "reduce", "size_factor": 0.5, "reasoning": "size down",
                "fire_mode": "once"})  # fmt: skip
    made = agent.briefs.make(symbol="BTC")
    assert made.firing == ("half",)
    assert agent.plans.all()[0].state.fired == 0
    receipt = agent.briefs.record_shown(made, decision="d1")
    assert [event.name for event in receipt.concluded] == ["plan_fired"]
    assert agent.plans.all()[0].state.fired == 1
    assert verify_store(memory).ok and rebuild_store(memory).ok
    assert agent.plans.all()[0].state.fired == 1


def test_a_skill_note_taught_by_later_trades_is_not_told_to_a_simulation_of_earlier_ones(memory):
    agent = given(memory, reflection={"everyNTrades": 2})
    trading(agent, 40)
    promoted = agent.lessons.promote(agent.lessons.reflections()[0].note.id)
    memory.create_agent("earlier", skill="breakout", mode="sim")
    earlier = memory.agent("earlier")
    trading(earlier, 10)
    assert earlier.lessons.active(as_of=earlier.now())[1] is None
    trading(earlier, 40, first=10)
    assert promoted.window_end <= earlier.now()
    assert earlier.lessons.active(as_of=earlier.now())[1].note == promoted
    own = earlier.lessons.active()[0].lessons_shown(earlier.now())
    shared = [one for one in promoted.lessons if one.id not in {each.id for each in own}]  # its own word on a thing comes first
    text = earlier.briefs.make().brief.text
    assert all((f"- {one.text}" in text) == (not one.chance) for one in (*own, *shared))


def test_a_trade_that_is_destroyed_is_destroyed_in_the_briefs_that_told_it_too(memory):
    agent = given(memory)
    report = {"symbol": "BTC", "side": "long", "entry_price": 100, "exit_price": 98, "pnl": -2, "pnl_r": -1, "note": "the secret of the desk",
              "trade_id": "m1", "entry_at": hour(1), "exit_at": hour(2)}  # fmt: skip
    id_ = agent.remember_trade(report).concluded[0].trade_id
    made = agent.briefs.make(symbol="BTC")
    agent.briefs.record_shown(made, decision="d1")
    assert "the secret of the desk" in agent.briefs.text(made.brief.digest)
    agent.memories.forget(id_, "private", shred=True)
    assert agent.briefs.text(made.brief.digest) is None
    with memory.resources.reading("desk") as tables:
        assert all("secret" not in (row.payload or "") for row in tables.log())
    assert verify_store(memory).ok and rebuild_store(memory).ok


def test_an_account_that_lost_more_than_it_had_is_briefed_all_the_same(memory):
    agent = given(memory)
    agent.remember_trade({"symbol": "BTC", "side": "long", "entry_price": 100, "exit_price": 50, "pnl": -10_500, "trade_id": "m1",
                          "entry_at": hour(1), "exit_at": hour(2)})  # fmt: skip
    assert "- Drawdown: $10,500 from the peak" in agent.briefs.make(symbol="BTC").brief.text.splitlines()


def test_showing_a_brief_again_after_another_of_the_same_text_was_made_changes_nothing(memory):
    agent = given(memory)
    receipt = agent.briefs.make(symbol="BTC", as_of=hour(0)).receipt
    agent.briefs.record_shown(receipt, decision="d1")
    agent.briefs.make(symbol="ETH", as_of=hour(0))
    assert agent.briefs.record_shown(receipt, decision="d1").duplicate
    assert [row["symbol"] for row in agent.briefs.shown()] == ["BTC"]


def test_money_that_was_lost_today_stays_lost_when_the_trade_is_forgotten(memory):
    agent = given(memory)
    trade = {"trade_id": "x1", "symbol": "BTC", "side": "long", "entry_at": hour(0), "exit_at": hour(1), "entry_price": 100,
             "exit_price": 90, "qty": 1}  # fmt: skip
    id_ = agent.observe(trade, kind="trade").concluded[0].trade_id
    agent.memories.forget(id_, "a fat finger")
    made = agent.briefs.make(symbol="BTC")
    assert "Realised today: -$10.00" in made.brief.text
    assert again(agent, made).brief.text == made.brief.text


def test_a_reason_told_later_does_not_enter_the_similar_situations_of_an_earlier_brief(memory):
    agent = given(memory, mode="paper", similarSituations=True)
    memory.clock.at = hour(3)
    fills = [{"id": "a", "t": hour(0), "symbol": "BTC", "side": "buy", "qty": 1, "px": 100, "order_id": "o1"},
             {"id": "b", "t": hour(1), "symbol": "BTC", "side": "sell", "qty": 1, "px": 104}]  # fmt: skip
    agent.observe({"id": "t1", "t": hour(2), "fills": fills, "marks": {"BTC": 104}})
    made = agent.briefs.make(symbol="BTC")
    memory.clock.at = hour(5)
    agent.observe(
        {"id": "d1", "t": hour(0), "symbol": "BTC", "side": "long", "reason": "told much later", "order_ids": ["o1"]},
        kind="decision",
    )
    assert "told much later" in agent.briefs.make(symbol="BTC").brief.text
    assert again(agent, made).brief.text == made.brief.text == agent.briefs.make(symbol="BTC", as_of=hour(3)).brief.text


def test_another_agents_brief_and_rows_that_are_not_there_are_refused(memory):
    agent = given(memory)
    memory.create_agent("other", skill="breakout", mode="sim")
    with pytest.raises(Invalid, match="made for the agent 'other'"):
        agent.briefs.record_shown(memory.agent("other").briefs.make(as_of=hour(0)))
    with pytest.raises(Invalid, match="head"):
        agent.briefs.make(as_of=hour(0), head=10_000)
    with pytest.raises(Invalid, match="owner_head"):
        agent.briefs.make(as_of=hour(0), owner_head=1)


@pytest.mark.each_store
def test_a_brief_is_of_one_state_even_if_another_writes_while_it_is_gathered(memory, monkeypatch):
    agent = given(memory, mode="paper")
    memory.clock.at = hour(9)
    trading(agent, 8, shown=False)
    other, recall = memory.agent("desk"), brief_inputs.recall_situation

    def meanwhile(*asked: Any) -> Any:
        found = recall(*asked)
        other.observe({"trade_id": "late", "symbol": "BTC", "side": "long", "entry_at": hour(7), "exit_at": hour(8), "entry_price": 100,
                       "exit_price": 80, "qty": 1}, kind="trade", backfill=True)  # fmt: skip
        return found

    with monkeypatch.context() as patched:
        patched.setattr(brief_inputs, "recall_situation", meanwhile)
        made = agent.briefs.make(symbol="BTC")
    assert again(memory.agent("desk"), made).brief.text == made.brief.text
    assert "→80" not in made.brief.text and "→80" in memory.agent("desk").briefs.make(symbol="BTC").brief.text


def test_a_wide_portfolio_leaves_room_in_the_brief(memory):
    agent = given(memory)
    sizes = {f"S{n:02}": 10 * (n + 1) for n in range(30)}
    agent.observe({"id": "d1", "t": hour(-3), "symbol": "AAA", "side": "long", "action": "open", "reason": "a test", "stop": 9}, kind="decision")
    agent.observe({"id": "planned", "t": hour(-2), "symbol": "AAA", "side": "buy", "qty": "0.01", "px": 10, "decision": "d1"}, kind="fill")
    for symbol, qty in sizes.items():
        agent.observe({"id": symbol, "t": hour(-1), "symbol": symbol, "side": "buy", "qty": qty, "px": 10}, kind="fill")
    [section] = [each.text for each in agent.briefs.make(as_of=hour(0)).brief.segments if each.name == "open_positions"]
    rows = [line for line in section.splitlines() if line.startswith("- ")]
    # The one with a stop and the seven largest have a line of their own; the others share one, each with its size and id.
    alone = {row.split()[1]: row for row in rows[:-1]}
    assert sorted(alone) == ["AAA", *(f"S{n}" for n in range(23, 30))] and "stop=9" in alone["AAA"]
    assert rows[-1].startswith("- 23 more without a stop or target: ") and " S00 long $100 [" in rows[-1]
    assert {each.split()[0] for each in rows[-1].partition(": ")[2].split(", ")} == {f"S{n:02}" for n in range(23)}
    ids = [trade.id for trade in agent.ledger.trades(status="open")]
    shown = re.findall(r"\[(\w{4,})\]", section)
    assert len(ids) == len(shown) == 31 and all(any(id_.startswith(short) for short in shown) for id_ in ids)


def test_a_remembered_signal_of_several_trades_is_told_by_all_of_them_not_by_the_best_or_the_worst(memory):
    agent = given(memory, mode="paper", recentTradesK=1)
    variants = {0: (60, -20, -40, -20), 5: (60, 20, 20, 20), 10: (-40, -20, -20, -20), 15: (10, 10, 10, 10)}
    for entry, results in variants.items():
        for n, result in enumerate(results):
            agent.observe(
                {"trade_id": f"{entry}-{n}", "symbol": "XAU", "side": "long", "entry_at": hour(entry), "strategy": f"v{n}",
                 "entry_price": 2000, "exit_at": hour(entry + 1 + n / 10), "exit_price": 2000 + result, "qty": 1},
                kind="trade", backfill=True,
            )  # fmt: skip
    told = agent.briefs.make(symbol="XAU").brief.text.split("## From memory")[1]
    assert "made $60 in one of 4 trades at once" in told and "mean -$5)" in told
    assert "made $30 on average" in told and "4 trades at once, +$20 to +$60)" in told
    assert "lost $25 on average" in told and "4 trades at once, -$40 to -$20)" in told
