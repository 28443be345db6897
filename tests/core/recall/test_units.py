"""A journal without stops: its outcomes are known in money, so warnings, evidence and rankings must not fall silent."""

from __future__ import annotations

from datetime import timedelta

import pytest

from memtape.core.recall.reference import recall_reference
from tests.columns.memories import DAY, NOON, asked, episode


def journal(results: list[float]) -> list:
    """Trades with a known result and no stop, one a day."""
    return [episode(f"t{at:03d}", None, days_ago=1 + at, pnl_usd=result) for at, result in enumerate(results)]


def test_a_journal_without_stops_gives_warnings_and_evidence_in_typical_losses():
    found = recall_reference(journal([-4.0, 9.0, -4.2, -3.8, 6.0, -4.0] * 5), [], [], asked())
    evidence = found.evidence
    assert (evidence.n, evidence.r_source, evidence.unit.phrase("USD")) == (30, "money", "typical losses of $4.00")
    assert evidence.n_eff > 10 and evidence.base.mean_r == pytest.approx(-1.0 / 6 / 4.0)
    assert found.warnings and found.warnings[0].r < 0
    assert found.warnings[0].why.startswith("XAU long lost $")
    assert "outcome" not in " ".join(each.why for each in found.ranked)


def test_no_size_is_suggested_from_money():
    hint = recall_reference(journal([9.0, 9.0, -4.0] * 20), [], [], asked()).evidence.hint
    assert hint.f == 0.0 and "only trades with a stop" not in hint.reasons[0]
    assert hint.reasons == ("No size suggested: no trade with a stop or a stated R has won or lost",)


def test_stops_are_used_where_they_are_worth_ten_trades_and_are_never_mixed_with_money():
    stops = [episode(f"s{at}", -1.0, days_ago=1 + at / 50, pnl_usd=-100.0) for at in range(12)]
    found = recall_reference([*stops, *journal([500.0] * 30)], [], [], asked()).evidence
    assert (found.r_source, found.n, found.base.mean_r) == ("stop", 12, -1.0)


def test_a_half_and_half_history_is_compared_in_money_which_every_trade_has():
    stops = [episode(f"s{at}", -1.0, days_ago=1 + at, pnl_usd=-100.0) for at in range(6)]
    by_atr = [episode(f"a{at}", 2.0, days_ago=1 + at, pnl_usd=200.0, r_source="atr_proxy") for at in range(6)]
    found = recall_reference([*stops, *by_atr], [], [], asked()).evidence
    assert (found.r_source, found.n, found.base.mean_r) == ("money", 12, 0.5)


def test_the_unit_is_the_median_loss_of_all_the_agents_trades_known_then():
    elsewhere = [episode(f"e{at}", None, symbol="BTC", pnl_usd=-50.0, days_ago=3 + at) for at in range(3)]
    found = recall_reference([*elsewhere, *journal([-10.0, 20.0])], [], [], asked(symbol="XAU"))
    assert found.evidence.unit.amount == 50.0 and found.evidence.n == 2
    then = recall_reference([*elsewhere, *journal([-10.0, 20.0])], [], [], asked(as_of=NOON - 1.5 * DAY, symbol="XAU"))
    assert then.evidence.n == 1 and then.evidence.unit.amount == 50.0


def test_with_fewer_than_three_losses_the_typical_result_of_all_trades_is_the_unit():
    found = recall_reference(journal([-10.0, 20.0, 30.0]), [], [], asked())
    assert found.evidence.unit.amount == 20.0 and found.evidence.unit.phrase("USD") == "typical results of $20.00"


def test_a_loss_in_money_warns_even_where_the_answer_is_in_stops():
    stops = [episode(f"s{at}", 1.0, days_ago=1 + at / 50, pnl_usd=100.0) for at in range(12)]
    found = recall_reference([*stops, *journal([-400.0])], [], [], asked())
    assert found.evidence.r_source == "stop"
    assert [(each.id, each.unit.source) for each in found.warnings] == [("t000", "money")]


def test_a_claimed_r_without_money_still_warns_where_the_answer_is_in_money():
    claim = episode("claim", -3.0, r_source="stated", days_ago=2)
    found = recall_reference([claim, *journal([5.0] * 20)], [], [], asked())
    assert found.evidence.r_source == "money" and [each.id for each in found.warnings] == ["claim"]
    assert "lost 3R" in found.warnings[0].why


def test_only_a_trade_without_a_price_has_an_unknown_outcome():
    found = recall_reference([*journal([-4.0] * 12), episode("unpriced", None, days_ago=0.1)], [], [], asked(limit=20)).ranked
    unknown = [each.id for each in found if "unknown outcome" in each.why]
    assert unknown == ["unpriced"]


def test_variants_of_one_entry_are_one_observation():
    entered = [NOON - (2 + at) * DAY for at in range(10)]
    past = [
        episode(f"v{at}-{variant}", 1.0 if at % 2 else -1.0, exit_at=when + timedelta(hours=variant), entry_at=when)
        for at, when in enumerate(entered)
        for variant in range(23)
    ]
    found = recall_reference(past, [], [], asked()).evidence
    assert (found.n, found.n_trades) == (10, 230) and 9.0 < found.n_eff <= 10.0
    assert found.base.win_rate == 0.5 and found.base.mean_r == 0.0


def test_another_side_or_symbol_in_the_same_second_is_another_signal():
    when = NOON - 2 * DAY
    past = [episode("a", 1.0, entry_at=when), episode("b", 1.0, entry_at=when, side="short"), episode("c", 1.0, entry_at=when, symbol="BTC")]
    assert recall_reference(past, [], [], asked()).evidence.n == 3
