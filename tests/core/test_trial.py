"""The parts of a trial that are pure: round trips, the placebo, weekly differences, the verdict, words against deeds."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import numpy as np
import pytest

from memtape.core.fills import Fill
from memtape.core.observed import Decision, Tick
from memtape.core.trial.arms import LESSONS_ONLY, OFF, SHUFFLED, read_arms
from memtape.core.trial.comparison import SeedTrades, compare_arms, weekly_differences
from memtape.core.trial.foreknowledge import cut_sign, foreknowledge_signs
from memtape.core.trial.judgement import TrialEvidence, judge_trial
from memtape.core.trial.placebo import OutcomeDraw, ShuffledOutcomes
from memtape.core.trial.round_trips import RoundTrip, RoundTripBook
from memtape.core.trial.said_and_done import SaidAndDone, fits_ledger, ledger_claims
from memtape.errors import Invalid

MONDAY = datetime(2025, 1, 6, 9, tzinfo=UTC)


def trip(day: int, share: float, *, side: str = "long", odds: float | None = 1 / 3) -> RoundTrip:
    """A trade of one hour on a day."""
    at = MONDAY + timedelta(days=day)
    return RoundTrip(
        symbol="BTC", side=side, strategy="fade", entry_at=at, exit_at=at + timedelta(hours=1), qty="1", net=str(share), share=share,
        r=share, odds=odds, trigger=None,
    )  # fmt: skip


def seed(trades: list[RoundTrip], weeks: int = 40) -> SeedTrades:
    """One seed that covers some weeks."""
    return SeedTrades(trades, range(trip(0, 1).week, trip(0, 1).week + weeks))


def fill(n: int, side: str, qty: str, px: str, order: str | None = None) -> Fill:
    return Fill(
        id=f"f{n}", t=MONDAY + timedelta(hours=n), symbol="BTC", side=side, qty=Decimal(qty), px=Decimal(px), fee=Decimal(1), order_id=order
    )


def noted(book: RoundTripBook, order: str, action: str, stop: str) -> None:
    book.note_decision(Decision(symbol="BTC", action=action, stop=Decimal(stop), strategy="fade", order_ids=(order,)), Decimal(10_000))


# --- arms --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "problem"),
    [("off", "compared with nothing"), ("on", "compared with nothing"), ("on,shuffled", "no arm without memory"), ("", "is empty"),
     ("off,shufled", "Did you mean shuffled?"), ("off,moon", "Choose from off, on, shuffled, lessons-only")],
)  # fmt: skip
def test_arms_that_make_no_trial_are_refused_by_name(text, problem):
    with pytest.raises(Invalid, match=problem):
        read_arms(text)


# --- round trips and the placebo ---------------------------------------------------------------------------------------------


def test_a_fill_that_turns_a_position_ends_one_trade_and_begins_another_with_its_own_stop():
    book = RoundTripBook()
    noted(book, "o1", "buy", "95")
    noted(book, "o2", "sell", "115")
    assert book.fill(fill(1, "buy", "2", "100", "o1")) is None
    ending, opening = book.parts(fill(2, "sell", "5", "110", "o2"))
    ended = book.fill(ending)
    assert (ended.side, ended.net, round(ended.r, 4)) == ("long", "18.6", 1.86)  # 20 less 1 and two fifths of a fee of 1
    assert book.fill(opening) is None and book.open["BTC"].left == 3 and book.open["BTC"].risk == 15


def test_the_placebo_learns_a_trade_with_the_outcome_of_another_one_of_its_strategy_exactly():
    chance = np.random.default_rng(3)
    shuffled, real, learned = ShuffledOutcomes(OutcomeDraw(chance)), RoundTripBook(), RoundTripBook()
    results: list[tuple[float, float]] = []
    equity = Decimal(10_000)
    for n in range(40):
        action, stop = ("buy", "95") if n % 2 else ("sell", "105")
        exit_ = "110" if n % 5 == 0 else "97"
        noted_decision = Decision(symbol="BTC", action=action, stop=Decimal(stop), strategy="fade", order_ids=(f"o{n}",))
        fills = (fill(3 * n, action, "2", "100", f"o{n}"), replace(fill(3 * n + 1, "sell" if n % 2 else "buy", "2", exit_), trigger="stop"))
        for book in (real, learned):
            book.note_decision(noted_decision, Decimal(10_000))
        shuffled.decision(noted_decision)
        ends = [real.fill(part) for part in fills]
        equity += Decimal(ends[1].net)
        tick = shuffled.tick(Tick(id=f"t{n}", t=fills[1].t, fills=fills, equity=equity))
        seen = [learned.fill(part) for part in tick.fills]
        assert tick.fills[0] == fills[0] and tick.fills[1].trigger is None
        results.append((ends[1].r, seen[1].r))
        # Equity follows what was learned, not what happened; 1R is 10.
        assert float(tick.equity) == pytest.approx(10_000 + 10 * sum(r for _, r in results))
    really, learned_r = zip(*results, strict=True)
    assert {round(r, 6) for r in learned_r} <= {round(r, 6) for r in really} and really != learned_r


def test_the_placebo_never_learns_a_trade_with_its_own_outcome_but_the_first():
    draw = OutcomeDraw(np.random.default_rng(2))
    learned = [draw.learned("fade", float(n)) for n in range(200)]
    assert learned[0] == 0.0 and all(drawn < n for n, drawn in enumerate(learned) if n)


def test_the_placebo_does_not_follow_what_was_decided_against():
    shuffled = ShuffledOutcomes(OutcomeDraw(np.random.default_rng(1)))
    passed = Decision(symbol="BTC", action="no_trade", side="long", stop=Decimal(95), target=Decimal(110))
    found = shuffled.decision(passed)
    assert (found.stop, found.target, found.side) == (None, None, "long")


# --- differences and verdict -------------------------------------------------------------------------------------------------


def comparison(own: list[RoundTrip], other: list[RoundTrip]):
    return compare_arms(weekly_differences([seed(own)], [seed(other)]), np.random.default_rng(1), 100)


def world(n: int = 200):
    """Trades of which every second one loses 1 %, the others win 0.9 % or lose 0.4 %; and the same without the bad half."""
    chance = np.random.default_rng(5)
    every = [trip(day, -1.0 if day % 2 else float(chance.choice([0.9, -0.4]))) for day in range(n)]
    return every, [trade for trade in every if trade.share != -1.0]


def evidence(**changes):
    every, good = world()
    shuffled = [trade for n, trade in enumerate(every) if n % 3]
    usual = {
        "against": {OFF: comparison(good, every), SHUFFLED: comparison(good, shuffled)}, "trades": len(every), "won": 60,
        "questions": 200, "same_everywhere": False,
    }  # fmt: skip
    return TrialEvidence(**(usual | changes))


def test_memory_helps_only_if_it_beats_no_memory_and_the_placebo():
    assert judge_trial(evidence()).answer == "helps"
    every, good = world()
    # A placebo that got as much, in other weeks.
    turned = [replace(one, share=two.share, net=two.net) for one, two in zip(good, good[::-1], strict=True)]
    as_good = {OFF: comparison(good, every), SHUFFLED: comparison(good, turned)}
    verdict = judge_trial(evidence(against=as_good))
    assert verdict.answer == "cannot be told" and "against shuffled" in verdict.reason


def test_memory_that_is_worse_than_both_hurts():
    every, good = world()
    bad = [trade for trade in every if trade.share == -1.0]
    verdict = judge_trial(evidence(against={OFF: comparison(bad, every), SHUFFLED: comparison(bad, good)}))
    assert verdict.answer == "hurts"


def test_the_fees_of_a_fill_that_turns_a_position_are_amounts_that_can_be_recorded():
    book = RoundTripBook()
    book.fill(fill(1, "buy", "0.33333333", "100"))
    parts = book.parts(fill(2, "sell", "0.77777777", "110"))
    assert [str(part.fee) for part in parts] == ["0.42857143", "0.57142857"] and sum(part.fee for part in parts) == 1


def test_the_placebo_never_moves_a_price_below_zero():
    placebo = ShuffledOutcomes(OutcomeDraw(np.random.default_rng(1)))
    for n, (stop, exit_px) in enumerate([("99", "90"), *[("1", "101")] * 8]):
        placebo.decision(Decision(symbol="BTC", action="buy", stop=Decimal(stop), strategy="fade", order_ids=(f"o{n}",)))
        bought, sold = fill(2 * n, "buy", "2", "100", f"o{n}"), fill(2 * n + 1, "sell", "2", exit_px)
        learned = placebo.tick(Tick(id=f"t{n}", t=sold.t, fills=(bought, sold), equity=Decimal(10_000)))
        assert all(one.px > 0 for one in learned.fills)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"same_everywhere": True, "questions": 0}, "does not use memory: its trades are the same in every arm"),
        ({"same_everywhere": True}, "was shown memory and did not act on it: its trades are the same in every arm"),
        ({"questions": 0}, "although it never asked memory"),
        ({"trades": 0}, "this decision maker never traded"),
        ({"trades": 12, "won": 4}, "only 12 trades without memory"),
        ({"won": 0}, "all trades without memory lost"),
        ({"look_ahead": ("confidence foretells",)}, "confidence foretells"),
        ({"against": {}}, "the arm on, off, shuffled was not run"),
    ],
)
def test_what_cannot_be_told_says_why(changes, reason):
    verdict = judge_trial(evidence(**changes))
    assert verdict.answer == "cannot be told" and reason in verdict.reason


def test_seeds_share_the_market_and_do_not_add_evidence():
    every, good = world(80)
    one = compare_arms(weekly_differences([seed(good)], [seed(every)]), np.random.default_rng(1), 100)
    many = compare_arms(weekly_differences([seed(good)] * 20, [seed(every)] * 20), np.random.default_rng(1), 100)
    assert many.by_week == one.by_week and many.weeks == one.weeks


# --- knowing the future ------------------------------------------------------------------------------------------------------


def test_a_decision_maker_that_wins_far_more_than_its_stops_and_targets_would_is_named():
    known = [trip(day, 2.0 if day % 20 else -1.0) for day in range(100)]
    assert "may know the future" in foreknowledge_signs(known)[0]
    fair = [trip(day, 2.0 if day % 3 == 0 else -1.0) for day in range(100)]
    assert foreknowledge_signs(fair) == []


def test_trades_that_change_when_later_bars_are_taken_away_are_named():
    whole = [trip(day, 1.0) for day in range(10)]
    assert cut_sign(whole, whole, "2025") is None
    assert "2 trades before 2025 change" in cut_sign(whole, [*whole[:-1], trip(9, -1.0)], "2025")


# --- words and deeds ---------------------------------------------------------------------------------------------------------


def test_a_win_rate_of_60_percent_is_contradicted_by_a_ledger_of_40_and_the_example_has_its_n():
    ended = [trip(day, 1.0 if day % 5 < 2 else -1.0) for day in range(50)]
    said = SaidAndDone()
    said.decided(Decision(symbol="BTC", action="no_trade", side="long", t=MONDAY, reason="My win rate is 60 % here."), [], ended)
    said.decided(Decision(symbol="BTC", action="no_trade", side="long", t=MONDAY, reason="I won 4 of the last 10."), [], ended)
    found = said.as_dict()["checks"]["ledger"]
    assert (found["n"], found["differ"]) == (2, 1)
    assert "60 %" in found["examples"][0] and "the ledger has 40 % won (n 50, all trades)" in found["examples"][0]


def test_a_streak_that_is_claimed_is_counted_in_the_ledger():
    ended = [trip(0, 1.0), trip(1, -1.0), trip(2, -1.0)]
    claim = ledger_claims("after three losses in a row I stop")[0]
    assert fits_ledger(claim, ended, "BTC", "long") == (False, "2 losses in a row")
    assert fits_ledger(ledger_claims("two straight losses")[0], ended, "BTC", "long")[0]
    assert ledger_claims("the market lost 3 % in a row of days") == []


def test_a_stop_that_was_said_and_not_ordered_is_counted():
    said = SaidAndDone()
    decision = Decision(symbol="BTC", action="buy", reason="Dip bought, stop at 95.", stop=Decimal(95), qty=Decimal(2), t=MONDAY, order_ids=("o1",))
    said.decided(decision, [{"side": "buy", "qty": Decimal(3), "stop": Decimal(90), "reduce_only": False}], [])
    said.filled([fill(1, "buy", "3", "100", "o1")])
    found = {name: (row["n"], row["differ"]) for name, row in said.as_dict()["checks"].items() if row["n"]}
    assert found == {"reason": (1, 0), "side": (1, 0), "stop": (1, 1), "stop in words": (1, 1), "size": (1, 1), "filled size": (1, 1)}


def test_lessons_alone_are_an_arm():
    assert read_arms("off,lessons-only") == (OFF, LESSONS_ONLY)
