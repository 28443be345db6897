"""Two facts in other words: what is the same, and what must never be taken for the same."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtape.core.fact_wording import find_same_fact, same_statement, statement_key
from memtape.core.facts import Fact

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I never trade alts.", "i NEVER trade  alts!"),
        ("You trade gold in London hours.", "You trade gold, in London hours"),
        ("I don't trade on Fridays", "You do not trade on Friday."),
        ("I can’t trade before 9:00", "You cannot trade before 9:00."),
        ("Max drawdown is 15%", "max. drawdown: 15 %"),
        ("You only use stops.", "You use stops only."),
        ("You risk $1,000 a trade", "You risk $1000 per trade"),
        ("Leverage at most 5×", "leverage at most 5x"),
        ("ｆｕｌｌ width text", "full width text"),
    ],
)
def test_case_blanks_punctuation_and_small_words_make_no_other_fact(one, other):
    assert same_statement(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("You trade alts.", "You never trade alts."),
        ("You prefer BTC over ETH.", "You prefer ETH over BTC."),
        ("Long gold, short silver.", "Short gold, long silver."),
        ("Leverage at most 5x.", "Leverage at most 50x."),
        ("Drawdown > 15 % is too much", "Drawdown < 15 % is too much"),
        ("Stop at -1R", "Stop at 1R"),
        ("You trade with stops.", "You trade without stops."),
        ("You trade during the US morning, UTC 13 to 17, and you do not take leverage above 5x on BTC or ETH, ever.",
         "You trade during the US morning, UTC 13 to 17, and you do take leverage above 5x on BTC or ETH, ever."),
        ("Risk 1.5 %", "Risk 15 %"),
    ],
)  # fmt: skip
def test_order_numbers_signs_and_negations_make_another_fact(one, other):
    assert not same_statement(one, other)


@given(st.text(min_size=1, max_size=80))
def test_a_text_says_the_same_as_itself_in_capitals_and_with_more_blanks(text):
    assert statement_key(f"  {text}\n") == statement_key(text)


def fact(id: str, text: str, skill: str | None = None, archived: datetime | None = None) -> Fact:
    return Fact(id=id, text=text, asserted=True, created=NOON, skill=skill, archived=archived)


def test_a_fact_of_one_skill_is_no_fact_for_all_but_the_other_way_round():
    scoped, general = fact("a", "Half the size.", "gold"), fact("b", "No longs.")
    assert find_same_fact([scoped], "half the size", None) is None
    assert find_same_fact([scoped], "half the size", "gold") == scoped
    assert find_same_fact([scoped], "half the size", "scalp") is None
    assert find_same_fact([general], "no longs", "gold") == general


def test_of_two_that_say_the_same_the_one_in_force_is_found():
    old, new = fact("a", "No longs.", archived=NOON), fact("b", "No longs!")
    assert find_same_fact([old, new], "no longs", None) == new
    assert find_same_fact([old], "no longs", None) == old


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I stop trading at −5 %", "I stop trading at 5 %"),  # the sign for minus, and no hyphen
        ("My target is –2 R", "My target is 2 R"),
        ("My view on BTC: ↑", "My view on BTC: ↓"),
        ("My view on gold is 🐂", "My view on gold is 🐻"),
        ("Size ≠ 1 lot", "Size 1 lot"),
        ("सोना कि", "सोना की"),  # vowel signs are no letters to a regular expression
    ],
)
def test_signs_that_are_no_letters_are_part_of_what_is_said(one, other):
    assert not same_statement(one, other)


def test_quotation_marks_and_dashes_of_any_script_say_nothing():
    assert same_statement("I call it “the dip” — daily…", 'I call it "the dip", daily.')
    assert same_statement("I risk ½ %", "I risk 1/2 %")
