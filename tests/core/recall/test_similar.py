"""Similar situations: the nearest earlier decisions, as they were known, with what came of them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtape.core.memory.episodes import NOT_TAUGHT, known_episodes
from memtape.core.observed import Situation
from memtape.core.recall.query import situation_similarity, tuned
from memtape.core.recall.similar import similar_decisions, similar_summary
from memtape.errors import Invalid
from tests.columns.memories import DAY, LONDON, NOON, asked, by_chance, episode

pasts = st.builds(by_chance, st.integers(0, 40), st.integers(0, 10**6))
ASIAN_RANGE = {"regime": "ranging", "session": "asia", "volatility_regime": "low"}


def ids(found):
    return [each.id for each in found]


def test_the_decision_in_the_situation_most_alike_comes_first_whatever_came_of_it():
    past = [
        episode("won in asia", pnl_r=5.0, **ASIAN_RANGE),
        episode("lost in london", pnl_r=-1.0),
        episode("calm", volatility_regime="low"),
    ]
    found = similar_decisions(past, LONDON, NOON)
    assert ids(found) == ["lost in london", "calm", "won in asia"]
    assert (found[0].similarity, found[0].pnl_r, found[0].by) == (pytest.approx(1.0), -1.0, "situation")


def test_a_decision_not_to_trade_is_told_with_what_would_have_been():
    (found,) = similar_decisions(
        [episode("skipped", pnl_r=2.0, kind="shadow", tier=2, reflection="spread too wide")], LONDON, NOON
    )
    assert (found.kind, found.pnl_r, found.text, found.tier) == ("shadow", 2.0, "spread too wide", 2)


def test_gold_and_bitcoin_are_compared_in_shares_of_their_price():
    bitcoin = episode("btc", symbol="BTC", price=51750.0, atr_d1=1120.0, atr_h1=215.0)  # ten times gold in everything
    (found,) = similar_decisions([bitcoin], LONDON, NOON)
    assert found.similarity == pytest.approx(0.95)  # all alike but the price level, which two symbols do not share


@given(pasts, st.floats(0, 700))
def test_nothing_that_was_not_known_then_is_told_and_nothing_later_changes_the_answer(past, days_ago):
    then = NOON - days_ago * DAY
    found = similar_decisions(past, LONDON, then, limit=10)
    assert set(ids(found)) <= set(ids(known_episodes(past, then)))
    assert found == similar_decisions(known_episodes(past, then), LONDON, then, limit=10)
    assert all(each.decided_at <= then for each in found)


def test_a_trade_still_open_then_is_not_told():
    past = [episode("open", exit_at=NOON + timedelta(minutes=1), entry_at=NOON - DAY)]
    assert similar_decisions(past, LONDON, NOON) == ()
    assert ids(similar_decisions(past, LONDON, NOON + timedelta(minutes=1))) == ["open"]


def test_a_trade_that_was_corrected_is_told_in_the_version_believed_then():
    first = episode("a", pnl_r=1.0, days_ago=5, known_to=NOON - DAY)
    second = first._replace(pnl_r=-1.0, known_from=NOON - DAY, known_to=None)
    assert [each.pnl_r for each in similar_decisions([first, second], LONDON, NOON - 2 * DAY)] == [1.0]
    assert [each.pnl_r for each in similar_decisions([first, second], LONDON, NOON)] == [-1.0]


@given(pasts)
def test_what_the_owner_keeps_from_teaching_does_not_appear(past):
    set_aside = {e.id for e in past if e.teach in NOT_TAUGHT}
    assert not set_aside & set(ids(similar_decisions(past, LONDON, NOON, limit=100)))
    assert similar_decisions(past, LONDON, NOON) == similar_decisions([e for e in past if e.id not in set_aside], LONDON, NOON)


@given(pasts, st.randoms(use_true_random=False))
def test_the_order_is_by_likeness_then_the_newer_then_by_id_however_the_past_is_given(past, chance):
    found = similar_decisions(past, LONDON, NOON, limit=100)
    naive = sorted(
        (e for e in known_episodes(past, NOON) if e.teach not in NOT_TAUGHT),
        key=lambda e: (-float(f"{situation_similarity(e, asked()):.11e}"), -e.entry_at.timestamp(), e.id),
    )
    assert ids(found) == ids(naive)
    chance.shuffle(past)
    assert similar_decisions(past, LONDON, NOON, limit=100) == found
    assert similar_decisions(past, LONDON, NOON, limit=3) == found[:3]


def test_twins_come_the_newer_first_and_then_by_id():
    same = NOON - DAY
    past = [episode("b", entry_at=same), episode("a", entry_at=same), episode("newer", days_ago=0.5)]
    assert ids(similar_decisions(past, LONDON, NOON)) == ["newer", "a", "b"]


def test_a_claim_is_told_but_its_outcome_is_unknown_once_there_is_a_broker_to_ask():
    past = [episode("said", pnl_r=3.0, claimed=True, tier=3)]
    assert [each.pnl_r for each in similar_decisions(past, LONDON, NOON)] == [3.0]
    (found,) = similar_decisions(past, LONDON, NOON, claims_count=False)
    assert (found.pnl_r, found.claimed) == (None, True)
    assert similar_summary([found]) == (0, 0, None)


def test_the_reason_of_the_decision_goes_before_the_note_made_afterwards():
    past = [episode(id, reflection="chased it", entry_at=NOON - DAY) for id in ("a", "b")]
    assert [each.text for each in similar_decisions(past, LONDON, NOON, reasons={"a": "breakout above the range"})] == [
        "breakout above the range",
        "chased it",
    ]


def test_words_alike_bring_a_decision_forward_and_the_model_is_named():
    past = [episode("same words", volatility_regime="low"), episode("other words")]
    found = similar_decisions(past, LONDON, NOON, texts={"same words": 0.9, "other words": 0.1}, model="words.1")
    assert ids(found) == ["same words", "other words"]
    assert found[0].similarity == pytest.approx((0.85 + 0.9) / 2)
    assert {each.by for each in found} == {"situation and text (words.1)"}


def test_a_decision_without_words_does_not_pass_for_alike_once_words_are_compared():
    past = [episode("silent"), episode("spoke", volatility_regime="low")]
    assert ids(similar_decisions(past, LONDON, NOON)) == ["silent", "spoke"]
    assert ids(similar_decisions(past, LONDON, NOON, texts={"spoke": 0.5}, model="words.1")) == ["spoke", "silent"]


def test_words_that_say_the_opposite_count_as_having_nothing_in_common():
    (found,) = similar_decisions([episode("a")], LONDON, NOON, texts={"a": -0.4}, model="words.1")
    assert found.similarity == pytest.approx(0.5)


def test_the_weights_of_the_skill_decide_what_is_alike():
    past = [episode("other hour", session="asia"), episode("calm", volatility_regime="low")]
    no_session = tuned({}, {"session": 0.0}, strength=False, sharpe=False)
    assert similar_decisions(past, LONDON, NOON, parameters=no_session)[0].similarity == pytest.approx(1.0)


@pytest.mark.parametrize(
    "said, field",
    [({"texts": {"a": 0.5}}, "model"), ({"texts": {"a": float("nan")}, "model": "m"}, "texts"), ({"limit": 101}, "limit")],
)
def test_what_cannot_be_answered_is_refused_by_name(said, field):
    with pytest.raises(Invalid) as refused:
        similar_decisions([episode("a")], LONDON, NOON, **said)
    assert refused.value.field == field


def test_a_desk_without_a_past_has_nothing_similar():
    assert similar_decisions([], Situation(), NOON) == ()
    assert similar_decisions([episode("a")], LONDON, NOON, limit=0) == ()


def test_the_first_line_counts_outcomes_wins_and_the_mean():
    found = similar_decisions([episode("a", 2.0), episode("b", -1.0), episode("c", -0.4), episode("d", None)], LONDON, NOON)
    assert similar_summary(found) == (3, 1, pytest.approx(0.2))


def test_r_from_stops_and_r_from_atr_are_never_averaged_together():
    past = [*(episode(f"s{at}", 1.0) for at in range(10)), episode("atr", 5.0, r_source="atr_proxy", days_ago=0.5)]
    found = similar_decisions(past, LONDON, NOON, limit=11)
    assert (found[0].id, found[0].pnl_r) == ("atr", None) and similar_summary(found) == (10, 10, 1.0)
    by_atr = similar_decisions([episode("a", 5.0, r_source="atr_proxy")], LONDON, NOON)
    assert similar_summary(by_atr) == (1, 1, 5.0) and by_atr[0].unit.phrase("USD") == "R by ATR"


def test_trades_without_a_stop_are_compared_in_typical_losses():
    past = [episode(f"{at}", None, pnl_usd=money) for at, money in enumerate((-4.0, -4.0, -6.0, 8.0))]
    found = similar_decisions(past, LONDON, NOON)
    assert similar_summary(found) == (4, 1, pytest.approx(-0.375)) and found[0].unit.phrase("USD") == "typical losses of $4.00"
