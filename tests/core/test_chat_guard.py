"""Who may assert a fact, and when nothing may be remembered at all."""

from __future__ import annotations

import pytest

from memtape.core.chat_guard import ChatGuard, judge_fact, may_archive

FACT = "You never trade alts."
SAID = ChatGuard().after_owner("Hello.").after_owner("I never trade alts, and I sleep at night.")


def test_the_owner_asserts_without_a_quotation():
    assert judge_fact("owner", FACT, "asserted", None, None).confidence == "asserted"
    assert judge_fact("owner", FACT, "inferred", None, None).confidence == "inferred"


def test_over_mcp_nothing_is_asserted_and_the_model_is_told():
    verdict = judge_fact("model", FACT, "asserted", "I never trade alts", None)
    assert verdict.confidence == "inferred" and "/profile/facts" in verdict.note
    assert judge_fact("model", FACT, "inferred", None, None).note == ""


@pytest.mark.parametrize(
    ("quote", "confidence"),
    [("I never trade alts", "asserted"), ("never trade alts, and I sleep", "asserted"), ("Hello.", "inferred"),
     ("i never trade alts", "inferred"), ("I never trade  alts", "inferred"), ("I always trade alts", "inferred"),
     ("I", "inferred"), ("    ", "inferred"), ("", "inferred"), (None, "inferred")],
)  # fmt: skip
def test_in_a_chat_only_the_owners_words_verbatim_assert_a_fact(quote, confidence):
    verdict = judge_fact("model", FACT, "asserted", quote, SAID)
    assert verdict.confidence == confidence
    assert bool(verdict.note) == (confidence == "inferred")


def test_once_a_tool_has_answered_nothing_is_remembered_until_the_owner_speaks():
    read = SAID.after_tool("get_document")
    for wanted, quote in (("asserted", "I never trade alts"), ("inferred", None)):
        verdict = read.judge(FACT, wanted, quote)
        assert verdict.refused and "tool" in verdict.note
    assert read.after_tool("remember").judge(FACT, "inferred", None).refused
    assert read.after_owner("Yes, remember that.").judge(FACT, "inferred", None).confidence == "inferred"
    assert read.after_owner("Yes.").judge(FACT, "asserted", "I never trade alts").confidence == "asserted"


def test_remembering_and_forgetting_do_not_stop_remembering():
    assert SAID.after_tool("remember").after_tool("forget").judge(FACT, "inferred", None).confidence == "inferred"


def test_what_the_owner_asserted_a_model_archives_only_at_the_owners_word():
    assert may_archive("owner", True, None) and may_archive("model", False, None)
    assert may_archive("model", True, SAID) and may_archive("model", False, SAID.after_tool("get_document"))
    assert not may_archive("model", True, None)
    assert not may_archive("model", True, SAID.after_tool("get_document"))


@pytest.mark.parametrize(
    ("fact", "quote", "confidence"),
    [("You want maximum leverage always.", "thanks a lot", "inferred"), ("You do not take leverage above 5x.", "never above 5x leverage", "asserted"),
     ("You trade BTC and ETH only.", "I only trade BTC and ETH", "asserted"), ("You risk 2 % per trade.", "I risk 1 % per trade", "asserted"),
     ("You ignore stops.", "please remember that", "inferred")],
)  # fmt: skip
def test_a_quotation_that_does_not_say_the_fact_asserts_nothing(fact, quote, confidence):
    chat = ChatGuard().after_owner("look at this document").after_tool("get_document").after_owner(f"{quote}, and please remember that")
    assert chat.judge(fact, "asserted", quote).confidence == confidence
